"""Losses l(z, y): how a prediction z = d' x of one row is compared with its target y.

The objective of client i with the rows d_j and the targets y_j, j in D_i, is

    f_i(x) = w sum_j l(d_j' x, y_j)    with the weight w of a row, 1/|D_i| by default,

its gradient is w A_i^T l'(A_i x, y_i), and its Hessian times v is w A_i^T (l''(A_i x, y_i) A_i v),
where l' and l'' are derivatives with respect to the prediction. A loss therefore consists of l, l'
and l'', row by row, and of a few facts that methods and solvers ask for, such as whether it is
quadratic.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._support.validation import (
    check_bool,
    check_kind,
)
from .sparse_model import Array


class Expansion(NamedTuple):
    """l at the predictions of some rows, to second order.

    Attributes
    ----------
    values : ndarray, shape (n_rows,)
    derivative : ndarray, of the shape of the predictions
    curvature : callable
        Take a direction of each row and return l'' times it, both of the shape of the predictions.
    coupling : ndarray or None
        As `Loss.coupling`.
    """

    values: Array
    derivative: Array
    curvature: Callable[[Array], Array]
    coupling: Array | None


class Loss(ABC):
    """Base of all losses: l(z, y) and its derivatives in the prediction z, row by row.

    A subclass defines `values`, `derivative` and `curvature`. All other members have defaults,
    which are right for a loss of real numbers whose model is a vector and whose objective is the
    mean over the rows. In all these functions `predictions` and `direction` have shape (n_rows,),
    or (n_rows, n_outputs) for a loss with several outputs, and `targets` has shape (n_rows,).

    Examples
    --------
    With the loss log cosh(z - y) an outlier hardly moves the fit:

    >>> import fgmp
    >>> import numpy as np
    >>> class LogCosh(fgmp.Loss):
    ...     def values(self, predictions, targets):
    ...         return np.logaddexp(predictions - targets, targets - predictions) - np.log(2)
    ...     def derivative(self, predictions, targets):
    ...         return np.tanh(predictions - targets)
    ...     def curvature(self, predictions, targets, direction):
    ...         return (1 - np.tanh(predictions - targets) ** 2) * direction
    >>> ys = [[1.0, 2.0, 3.0, 4.0, 1000.0]]
    >>> federation = fgmp.Federation.from_arrays([np.ones((5, 1))], ys, loss=LogCosh())
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=1), federation, rounds=30, rng=0)
    >>> bool(2 < result.x[0] < 4)
    True
    """

    is_quadratic: bool = False
    """Whether l(z, y) = (z - y)^2 / 2, of one output, so that least squares minimises f_i."""

    shift_invariant: bool = False
    """Whether l(z, y) stays the same if one number is added to all entries of z."""

    local_solver: str = "one_step"
    """How a client lowers f_i unless a solver is named: ``"exact"``, to its minimiser, or
    ``"one_step"``, by one step of gradient descent whose length a line search chooses, for losses
    whose f_i may have no minimiser. `fgmp.solvers.solver_for` has the solver for each."""

    is_binary: bool = False
    """Whether the targets are -1 and +1, which `Federation.from_arrays` makes of any two labels."""

    has_integer_targets: bool = False
    """Whether the targets are integers, the index of the output that should be the largest."""

    ties_rows: bool = False
    """Whether l of a row depends on the other rows of its client, as with an intercept that each
    client has of its own: rows of several clients are then never evaluated together."""

    leads: Callable[[Array, Array], Array] | None = None
    """For a loss of labels, a method ``leads(predictions, targets)`` of shape
    (n_rows, n_labels - 1): the lead of the label of a row over each other label, positive if the
    prediction is on the side of the label. None for a loss of numbers."""

    @abstractmethod
    def values(self, predictions: Array, targets: Array) -> Array:
        """Return l(z, y) for each row, shape (n_rows,)."""

    @abstractmethod
    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return l'(z, y) for each row, of the shape of the predictions."""

    @abstractmethod
    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return l''(z, y) applied to the direction of each row, of the predictions' shape."""

    def expansion(self, predictions: Array, targets: Array) -> Expansion:
        """Return l to second order: all of the above at once.

        A loss overrides this if its values and derivatives have a computation in common.
        """

        def curvature(direction: Array) -> Array:
            return self.curvature(predictions, targets, direction)

        return Expansion(
            values=self.values(predictions, targets),
            derivative=self.derivative(predictions, targets),
            curvature=curvature,
            coupling=self.coupling(predictions, targets),
        )

    # What follows has a default; of it FedGradMP asks for `row_weight` and `model_shape`.

    @property
    def class_labels(self) -> Array | None:
        """The values that targets can have, increasing, or None for a loss of numbers."""
        return None

    @property
    def self_concordance(self) -> float:
        """The constant c with |l'''(z)[u, v, v]| <= c ||u|| l''(z)[v, v], or 0 if none is known.

        It bounds how fast the curvature changes (generalised self-concordance).
        """
        return 0.0

    @property
    def n_outputs(self) -> int:
        """Number of outputs, the columns of a model: 1 if a model is a vector."""
        return math.prod(self.model_shape(1)[1:])

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Return the shape of a model x: ``(n_features,)`` by default."""
        return (n_features,)

    def row_weight(self, n_rows: int) -> float:
        """Return the weight w of each of `n_rows` rows: 1/n_rows for a mean, 1 for a sum."""
        return 1 / n_rows

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return finite real targets as the loss uses them, or raise a ValueError for invalid ones.

        `name` is the name of the targets in the message. By default all finite numbers are valid.
        """
        return targets

    def misclassified(self, predictions: Array, targets: Array) -> Array | None:
        """Return for each row whether it is on the wrong side of a border between labels, or on it.

        Return None for a loss of numbers, which knows no sides.
        """
        if self.leads is None:
            return None
        wrong: Array = np.any(self.leads(predictions, targets) <= 0, axis=1)
        return wrong

    def ahead(self, predictions: Array, targets: Array, moves: Array) -> Array | None:
        """Return numbers that show whether l falls without end as predictions move, or None.

        The shape is (n_rows, k). In a row the move is a direction in which l has no minimum if none
        of the k numbers is negative, and one is positive. None is for a loss that has a minimum
        along every direction. By default these are the `leads` of the moves, for a loss of labels,
        wherever the moves begin.
        """
        return None if self.leads is None else self.leads(moves, targets)

    def coupling(self, predictions: Array, targets: Array) -> Array | None:
        """Return what ties the rows of a client together, or None if each stands alone.

        The Hessian of sum_j l in the predictions is then the block diagonal one of the rows, minus
        F F' with the array F that is returned, of shape (n_rows, r) or (n_rows, n_outputs, r).
        """
        return None

    def link(self, mean: float) -> float:
        """Return the prediction whose expected target is `mean`, for a loss of numbers."""
        return mean

    def mean_of(self, predictions: Array) -> Array:
        """Return the expected targets of predictions, for a loss of numbers: the inverse link."""
        return predictions


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared loss l(z, y) = (z - y)^2 / 2.

    With it f_i(x) = ||A_i x - y_i||^2 / (2 |D_i|) (paper, Section II).

    Parameters
    ----------
    averaged : bool, default True
        Whether objectives and gradients are means over the rows, as the paper prints them, or sums.
        A summed gradient over b rows is b times as long, and so is every step of a fixed learning
        rate.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.SquaredLoss().derivative(np.array([1.0, 2.0]), np.array([0.5, 4.0])).tolist()
    [0.5, -2.0]
    """

    averaged: bool = True

    is_quadratic = True
    local_solver = "exact"

    def __post_init__(self) -> None:
        check_bool("averaged", self.averaged)

    def row_weight(self, n_rows: int) -> float:
        """Return 1/n_rows, or 1 if the loss is a sum."""
        return 1 / n_rows if self.averaged else 1.0

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return (z - y)^2 / 2."""
        return 0.5 * (predictions - targets) ** 2

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return z - y."""
        return predictions - targets

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return the direction itself, because l'' = 1."""
        return direction


def check_loss(name: str, loss: object) -> Loss:
    """Return a loss, or raise a ValueError for any other value."""
    expected = "a loss object, such as fgmp.SquaredLoss() or one of a subclass of fgmp.Loss"
    checked: Loss = check_kind(name, loss, Loss, expected)
    return checked
