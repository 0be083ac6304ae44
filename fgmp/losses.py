"""Losses l(z, y): how a prediction z = d' x of one row is compared with its target y.

The objective of client i with the rows d_j and the targets y_j, j in D_i, is

    f_i(x) = (1/|D_i|) sum_j l(d_j' x, y_j),

its gradient is A_i^T l'(A_i x, y_i) / |D_i|, and its Hessian times v is
A_i^T (l''(A_i x, y_i) A_i v) / |D_i|, where l' and l'' are derivatives with respect to the
prediction. (A loss may take the sum over the rows instead of the mean: `Loss.row_weight`.) A loss
therefore consists of l, l' and l'', row by row, and of a few facts that methods and solvers ask
for, such as whether it is quadratic. The paper has the squared loss, and for labels the logistic
and the softmax loss (Section IV-D); `PoissonLoss`, for counts, is not one of its losses.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from ._support.validation import (
    check_bool,
    check_kind,
    validate_integer_field,
    validate_number_field,
)
from .sparse_model import Array


class Expansion(NamedTuple):
    """Value, derivative and curvature of l at the predictions of some rows.

    Attributes
    ----------
    values : ndarray, shape (n_rows,)
    derivative : ndarray, of the shape of the predictions
    curvature : callable
        Take a direction of each row and return l'' times it, both of the shape of the predictions.
    coupling : ndarray or None
        None if l of a row depends on this row alone, as in all losses of this file. Otherwise F, of
        shape (n_rows, r) or (n_rows, n_outputs, r): the Hessian of sum_j l in the predictions has a
        block for each row, its l'', minus F F'.
    """

    values: Array
    derivative: Array
    curvature: Callable[[Array], Array]
    coupling: Array | None = None


class Loss(ABC):
    """Base of all losses: l(z, y) and its derivatives in the prediction z, row by row.

    A subclass defines `values`, `derivative` and `curvature`. All other members have defaults,
    which are right for a loss of real numbers whose model is a vector and whose objective is the
    mean over the rows. In all these functions `predictions` and `direction` have shape (n_rows,),
    or (n_rows, n_outputs) for a loss with several outputs, and `targets` has shape (n_rows,).
    Numbers are returned in the precision of the predictions. Solvers divide by l'', which should be
    above zero wherever l is not smallest. Where l is linear, return that of a quadratic above l
    that touches it at z, as the example of CONTRIBUTING.md does. If each client has an object of
    its own, make the loss a frozen dataclass, so that two are equal if their parameters are.

    Examples
    --------
    With the loss log cosh(z - y) an outlier hardly moves the fit:

    >>> import math
    >>> from dataclasses import dataclass
    >>> import fgmp
    >>> import numpy as np
    >>> @dataclass(frozen=True)
    ... class LogCosh(fgmp.Loss):
    ...     def values(self, predictions, targets):
    ...         return np.logaddexp(predictions - targets, targets - predictions) - math.log(2)
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
    """Whether l(z, y) is exactly (z - y)^2 / 2, of one output: `Exact` then solves least squares of
    the rows as they are, without weights."""

    is_shift_invariant: bool = False
    """Whether l(z, y) stays the same if one number is added to all entries of z."""

    local_solver: str = "one_step"
    """How a client lowers f_i unless a solver is named: ``"exact"``, to its minimiser, or
    ``"one_step"``, by one step of gradient descent whose length a line search chooses, for losses
    whose f_i may have no minimiser. `fgmp.solvers.solver_for` has the solver for each."""

    is_binary: bool = False
    """Whether the targets are -1 and +1, which `Federation.from_arrays` makes of any two labels."""

    has_coupled_rows: bool = False
    """Whether l of a row depends on the other rows of its client, as with an intercept that each
    client has of its own: rows of several clients are then never evaluated together."""

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
        """Return values, derivative and curvature of l at once.

        A loss overrides this if its values and derivatives have a computation in common.
        """
        return Expansion(
            values=self.values(predictions, targets),
            derivative=self.derivative(predictions, targets),
            curvature=partial(self.curvature, predictions, targets),
        )

    @property
    def n_outputs(self) -> int:
        """Number of outputs, the columns of a model: 1 if a model is a vector."""
        return math.prod(self.model_shape(1)[1:])

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Return the shape of a model x: ``(n_features,)`` by default."""
        return (n_features,)

    def row_weight(self, n_rows: int) -> float:
        """Return the weight of each of `n_rows` rows in f_i: 1/n_rows for a mean, 1 for a sum."""
        return 1 / n_rows

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return finite real targets as the loss uses them, or raise a ValueError for invalid ones.

        `name` is the name of the targets in the message. By default all finite numbers are valid.
        """
        return targets

    @property
    def self_concordance(self) -> float:
        """The constant c with |l'''(z)[u, v, v]| <= c ||u|| l''(z)[v, v], or 0 if none is known.

        It bounds how fast the curvature changes (generalised self-concordance). A solver that stops
        at an accuracy asks for it.
        """
        return 0.0


class GLMLoss(Loss):
    """Base of the losses of generalised linear models, with what statistics asks of a loss.

    A first reader can skip it, because the algorithm asks for none of its members. The estimators
    ask for labels and links; `NewtonOnSupport`, and the advice at the end of a run, ask whether a
    model separates rows. A loss of yours that has no minimum if a model separates its labels is a
    subclass that sets `is_binary` or `has_integer_targets`, and defines `label_margins`. The other
    defaults are right for a loss of numbers whose
    predictions are expected targets, as the squared loss.
    """

    has_integer_targets: bool = False
    """Whether the targets are integers, the index of the output that should be the largest."""

    has_count_targets: bool = False
    """Whether the targets are counts, and predictions the logarithms of expected counts."""

    @property
    def class_labels(self) -> Array | None:
        """The values that targets can have, increasing, or None for a loss of numbers."""
        if self.is_binary:
            return np.array([-1, 1])
        return np.arange(self.n_outputs) if self.has_integer_targets else None

    def link(self, means: Array) -> Array:
        """Return the prediction, shape (n_outputs,), of rows whose targets have these means.

        It minimises the mean of l if a model has nothing but an intercept. The means have shape
        (1,), or are the shares of all classes, in the order of the labels.
        """
        return means

    def expected_targets(self, predictions: Array) -> Array:
        """Return the expected targets of predictions of one output: of labels, P(y = +1).

        By default l' is the expected target minus the target, as with every canonical link.
        """
        return self.derivative(predictions, np.zeros_like(predictions))

    def label_margins(self, predictions: Array, targets: Array) -> Array | None:
        """Return by how much the label of each row is ahead of each other label, or None.

        The shape is (n_rows, n_labels - 1). A row is classified without error if all its margins
        are positive. A loss that decreases without a minimum as these margins grow, such as the
        logistic loss, returns them, and a run then warns if a model separates the rows. Other
        losses return None, as by default.
        """
        return None

    def recession_margins(self, predictions: Array, targets: Array, moves: Array) -> Array | None:
        """Return numbers that show whether l decreases without end as predictions move, or None.

        The shape is (n_rows, k). In a row, l has no minimum along the move if none of the k numbers
        is negative and one is positive. Return None for a loss that has a minimum along every
        direction. By default these are the `label_margins` of the moves, wherever the moves begin.
        """
        return self.label_margins(moves, targets)


@dataclass(frozen=True)
class SquaredLoss(GLMLoss):
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


@dataclass(frozen=True)
class LogisticLoss(GLMLoss):
    """Binary logistic loss l(z, y) = log(1 + exp(-c y z)) for the labels -1 and +1.

    With the margin c = 1 a prediction z is the logarithm of the odds of +1, and a coefficient is
    what a unit of its feature adds to it, as in statistics and in other libraries. The paper has
    c = 2 (Section IV-D), which makes l'' <= 1 and the coefficients of the same data half as large.
    Below, s(t) = 1 / (1 + exp(-t)). (The paper has s(-t) under this name; s(t) s(-t) is the same.)

    Parameters
    ----------
    margin : float, default 1.0
        c, above 0; the paper's is 2.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> z, y = np.array([0.0, 20.0, -1.0]), np.array([1.0, 1.0, 1.0])
    >>> fgmp.LogisticLoss().values(z, y).round(3).tolist()
    [0.693, 0.0, 1.313]
    """

    margin: float = 1.0

    is_binary = True
    local_solver = "one_step"  # rows that can be separated leave no minimiser

    def __post_init__(self) -> None:
        validate_number_field(self, "margin", above=0)

    @property
    def _c(self) -> float:
        """The margin as a float: a NumPy float64 would turn arrays of float32 into float64."""
        return float(self.margin)

    @property
    def self_concordance(self) -> float:
        """c, because l''' = c (s(-c z) - s(c z)) l''."""
        return self._c

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return labels -1 and +1, of which a client may have only one, or raise a ValueError."""
        invalid = np.flatnonzero(np.abs(targets) != 1)
        if invalid.size:
            raise ValueError(f"{name}[{invalid[0]}] is no label; expected labels -1 or +1")
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return log(1 + exp(-c y z)), without overflow."""
        zero = predictions.dtype.type(0)
        return np.logaddexp(zero, -self._c * targets * predictions)

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return -c y s(-c y z)."""
        slope = -self._c * targets
        return slope * expit(slope * predictions)

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return c^2 s(c z) s(-c z) times the direction."""
        scaled = self._c * predictions
        return self._c**2 * expit(scaled) * expit(-scaled) * direction

    def link(self, means: Array) -> Array:
        """Return the logarithm of the odds of +1, divided by c."""
        return np.diff(np.log(means)) / self._c

    def expected_targets(self, predictions: Array) -> Array:
        """Return s(c z), the probabilities of +1."""
        return expit(self._c * predictions)

    def label_margins(self, predictions: Array, targets: Array) -> Array:
        """Return y z, which is positive on the side of the label."""
        return (targets * predictions)[:, None]


@dataclass(frozen=True)
class SoftmaxLoss(GLMLoss):
    """Multiclass logistic loss l(z, y) = -z_y + log sum_c exp(z_c) for labels y = 0, ..., C-1.

    The model x has one column x_c for each class, and z_c = d' x_c. The paper prints the logarithm
    of the exponential of a sum, which should be the sum of exponentials (Sections IV-D and V-B).
    The objective of a client is the mean of l over its rows, in natural logarithms, and not divided
    by C: it is log C for x = 0, and what `sklearn.metrics.log_loss` returns.

    Parameters
    ----------
    n_classes : int
        C, at least 2.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> loss = fgmp.SoftmaxLoss(n_classes=4)
    >>> loss.model_shape(10), loss.derivative(np.zeros((1, 4)), np.array([2])).tolist()
    ((10, 4), [[0.25, 0.25, -0.75, 0.25]])
    """

    n_classes: int

    is_shift_invariant = True  # probabilities depend on differences of predictions only
    has_integer_targets = True
    local_solver = "one_step"  # as for the logistic loss

    # A third cumulant is at most the variance times the range of u, which is at most sqrt(2) ||u||.
    self_concordance = 2**0.5

    def __post_init__(self) -> None:
        validate_integer_field(self, "n_classes", at_least=2)

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Return ``(n_features, n_classes)``."""
        return (n_features, int(self.n_classes))

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return labels from 0 to C-1 as integers, or raise a ValueError.

        A client may have only some of them.
        """
        is_fraction = np.floor(targets) != targets
        is_outside = (targets < 0) | (targets >= self.n_classes)
        invalid = np.flatnonzero(is_fraction | is_outside)
        if invalid.size:
            expected = f"integer labels from 0 to {self.n_classes - 1}"
            raise ValueError(f"{name}[{invalid[0]}] is no label; expected {expected}")
        return targets.astype(np.intp)

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return -z_y + log sum_c exp(z_c), without overflow."""
        values, _ = _values_and_softmax(predictions, targets)
        return values

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return p - e_y, with p = softmax(z)."""
        _, derivative = _values_and_softmax(predictions, targets)
        derivative[np.arange(len(targets)), targets] -= 1
        return derivative

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return (diag(p) - p p') times the direction, with p = softmax(z)."""
        _, p = _values_and_softmax(predictions, targets)
        return _covariance(p, direction)

    def expansion(self, predictions: Array, targets: Array) -> Expansion:
        """Return l to second order, from exponentials that are computed once."""
        values, p = _values_and_softmax(predictions, targets)
        derivative = p.copy(order="K")
        derivative[np.arange(len(targets)), targets] -= 1
        return Expansion(values, derivative, partial(_covariance, p))

    def link(self, means: Array) -> Array:
        """Return the logarithms of the shares, minus their mean: the sum of the outputs is zero."""
        return np.log(means) - np.log(means).mean()

    def label_margins(self, predictions: Array, targets: Array) -> Array:
        """Return z_y - z_c for the other classes c."""
        is_other = np.arange(self.n_classes) != targets[:, None]
        of_label = predictions[~is_other][:, None]
        of_others = predictions[is_other].reshape(len(targets), self.n_classes - 1)
        return of_label - of_others


# Probabilities below tiny^0.7 matter less than rounding, and products of such small numbers are
# denormal, with which processors are slow.
_LOWEST_EXPONENT = {
    np.dtype(precision): 0.7 * float(np.log(np.finfo(precision).tiny))
    for precision in (np.float32, np.float64)
}


def _values_and_softmax(predictions: Array, targets: Array) -> tuple[Array, Array]:
    """Return -z_y + log sum_c exp(z_c) and the probabilities p of each row, none below tiny^0.7."""
    p: Array = predictions - np.maximum.reduce(predictions, axis=1, keepdims=True)
    of_label = p[np.arange(len(targets)), targets]
    np.maximum(p, _LOWEST_EXPONENT[p.dtype], out=p)
    np.exp(p, out=p)
    sums = np.add.reduce(p, axis=1)
    values: Array = np.log(sums) - of_label
    p /= sums[:, None]
    return values, p


def _covariance(p: Array, direction: Array) -> Array:
    """Return (diag(p) - p p') times the direction of each row."""
    return p * (direction - np.sum(p * direction, axis=1, keepdims=True))


# Beyond this prediction l continues as its own second-order expansion. exp(40) is 26 times the
# largest count, and its square is within the range of float32.
_LARGEST_EXPONENT = 40.0
# Up to it float64 holds every whole number.
_LARGEST_COUNT = 2.0**53


@dataclass(frozen=True)
class PoissonLoss(GLMLoss):
    """Poisson loss l(z, y) = exp(z) - y z + y log y - y for counts y, half the deviance of a row.

    A prediction z is the logarithm of the expected count, so that a unit of a feature multiplies
    the count by the exponential of its coefficient, the rate ratio. l is at least 0, and 0 if
    exp(z) = y. The terms in y alone ensure that, and do not change the minimiser.

    Notes
    -----
    All derivatives of l from the second one on are exp(z). Therefore the constant of generalised
    self-concordance is 1, as for the logistic loss; but the curvature, unlike that of the logistic
    loss, is not bounded, and the gradient is not Lipschitz. `GradientDescent`, `Newton` and
    `NewtonOnSupport` search for the length of their steps. With a fixed learning rate, `SGD` and
    the baselines diverge if they start from models whose predictions are large.

    Beyond z = 40, where exp(z) exceeds every count that floats hold, l continues as its expansion
    to second order: convex, twice differentiable, and without overflow.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> loss, z = fgmp.PoissonLoss(), np.log([1.0, 2.0, 4.0])
    >>> loss.values(z, np.array([1.0, 0.0, 4.0])).round(12).tolist()
    [0.0, 2.0, 0.0]
    >>> loss.derivative(z, np.array([1.0, 0.0, 4.0])).round(12).tolist()
    [0.0, 2.0, 0.0]
    """

    has_count_targets = True
    local_solver = "one_step"  # rows without any event may leave no minimiser
    self_concordance = 1.0

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return counts, which need not be whole, or raise a ValueError."""
        invalid = np.flatnonzero(~((targets >= 0) & (targets <= _LARGEST_COUNT)))
        if invalid.size:
            raise ValueError(
                f"{name}[{invalid[0]}] is no count; expected numbers from 0 to 2^53 for the "
                "Poisson loss"
            )
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return exp(z) - y z + y log y - y."""
        inside, beyond = _split(predictions)
        of_targets = xlogy(targets, targets) - targets
        exponential = np.exp(inside) * (1 + beyond + beyond**2 / 2)
        return exponential - targets * predictions + of_targets

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return exp(z) - y."""
        inside, beyond = _split(predictions)
        return np.exp(inside) * (1 + beyond) - targets

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return exp(z) times the direction."""
        inside, _ = _split(predictions)
        return np.exp(inside) * direction

    def link(self, means: Array) -> Array:
        """Return the logarithm of the expected count."""
        return np.log(means)

    def recession_margins(self, predictions: Array, targets: Array, moves: Array) -> Array:
        """Return by how much each move goes where l decreases without end.

        In a row without events that is downwards. With y > 0 it is nowhere, because l grows in both
        directions.
        """
        lengths: Array = np.where(targets > 0, -np.abs(moves), -moves)
        return lengths[:, None]


def _split(predictions: Array) -> tuple[Array, Array]:
    """Return predictions up to the largest exponent, and by how much they exceed it."""
    inside = np.minimum(predictions, predictions.dtype.type(_LARGEST_EXPONENT))
    return inside, predictions - inside


# A larger label of the softmax loss is a mistake: a model has a column for each class.
_MOST_CLASSES = 2**20


def takes_labels(loss: str | Loss) -> bool:
    """Return whether the targets of a loss are two labels of any kind."""
    return loss == "logistic" or (isinstance(loss, Loss) and loss.is_binary)


def check_loss(name: str, loss: object) -> Loss:
    """Return a loss, or raise a ValueError for any other value."""
    expected = "a loss object, such as fgmp.SquaredLoss() or one of a subclass of fgmp.Loss"
    return check_kind(name, loss, Loss, expected)


def loss_of(loss: str | Loss, targets: Sequence[Array]) -> Loss:
    """Return the loss of a name, as `Federation.from_arrays` has them, or a loss object.

    The number of classes of ``"softmax"`` is one more than the largest label.
    """
    if not isinstance(loss, str):
        return check_loss("loss", loss)
    if loss == "softmax":
        return SoftmaxLoss(_count_classes(targets))
    by_name = {"squared": SquaredLoss, "logistic": LogisticLoss, "poisson": PoissonLoss}
    if loss in by_name:
        return by_name[loss]()
    raise ValueError(
        f"loss is {loss!r}; expected one of 'squared', 'logistic', 'softmax', 'poisson', or a loss "
        "object"
    )


def _count_classes(targets: Sequence[Array]) -> int:
    """Return one more than the largest label, and at least two."""
    largest = max((float(y.max()) for y in targets if y.size), default=0.0)
    if largest >= _MOST_CLASSES:
        raise ValueError(
            f"ys hold a larger number; expected integers from 0 to {_MOST_CLASSES - 1}"
        )
    return max(int(largest) + 1, 2)
