"""Losses of linear predictions: each is a function of z = A x and the targets, row by row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from ._support.validation import (
    check_bool,
    check_protocol,
    validate_integer_field,
    validate_number_field,
)
from .sparse_model import Array


class Loss(Protocol):
    """What a method needs of a loss l(z, y): its derivatives in the prediction z, row by row.

    The objective of a client with rows a_j and targets y_j is f_i(x) = (1/|D_i|) sum_j l(a_j' x, y_j), its gradient
    (1/|D_i|) A' l'(A x, y), and its Hessian product (1/|D_i|) A' l''(A x, y) A v. A loss that inherits is a mean over
    the rows for models that are vectors.

    A loss of labels has one function more, ``leads(z, y)``, shape (n_rows, n_labels - 1): how far the prediction of a
    row is on the side of its label, seen from each of the others. Without it nobody asks whether rows are separated.
    """

    @property
    def shift_invariant(self) -> bool:
        """Whether the same number added to all entries of a row's prediction leaves l(z, y) as it is."""

    @property
    def local_solver(self) -> str:
        """How a client minimises f_i by default: ``"exact"``, or ``"damped"`` where f_i need not have a minimiser."""

    self_concordance: float = 0.0
    """c: along w the curvature of the loss changes by at most c ||w|| times itself; 0 too where nobody knows it."""

    def row_weight(self, n_rows: int) -> float:
        """What each of `n_rows` rows counts in an objective or gradient: 1/n_rows for a mean, 1 for a sum."""
        return 1 / n_rows

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Shape of the model x."""
        return (n_features,)

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return the targets as the loss uses them, or raise a ValueError; any finite real numbers do by default."""
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """l(z, y) for each row."""

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """l'(z, y) for each row."""

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """l''(z, y) applied to `direction`, for each row."""


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared loss, l(z, y) = (z - y)^2 / 2, so that f_i(x) = ||A_i x - y_i||^2 / (2 |D_i|) (paper, Section II).

    Parameters
    ----------
    averaged : bool, default True
        Whether objectives and gradients are means over the rows, as the paper prints them, or sums. A summed gradient
        over b rows is b times as long, and so is every step of a fixed learning rate.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.SquaredLoss().derivative(np.array([1.0, 2.0]), np.array([0.5, 4.0])).tolist()
    [0.5, -2.0]
    """

    averaged: bool = True
    shift_invariant, local_solver = False, "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "averaged", check_bool("averaged", self.averaged))

    def row_weight(self, n_rows: int) -> float:
        """1/n_rows, or 1 where the loss is a sum."""
        return 1 / n_rows if self.averaged else 1.0

    def values(self, predictions: Array, targets: Array) -> Array:
        """(z - y)^2 / 2."""
        return 0.5 * (predictions - targets) ** 2

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """z - y."""
        return predictions - targets

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """The direction itself: l'' = 1."""
        return direction


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """Binary logistic loss with labels -1 and +1, l(z, y) = log(1 + exp(-c y z)).

    With the margin c = 1 a prediction z is the logarithm of the odds of +1, and a coefficient what a unit of its
    feature adds to it, as in statistics and in other libraries. The paper has c = 2 (Section IV-D), which makes
    l'' <= 1 and the same data's coefficients half as large. Derivatives are given with s(t) = 1/(1 + exp(-t)).

    Parameters
    ----------
    margin : float, default 1.0
        c, above 0; 2 is the paper's.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.LogisticLoss().values(np.array([0.0, 20.0, -1.0]), np.array([1.0, 1.0, 1.0])).round(3).tolist()
    [0.693, 0.0, 1.313]
    """

    margin: float = 1.0
    shift_invariant, local_solver = False, "damped"  # rows that can be separated leave no minimiser

    def __post_init__(self) -> None:
        validate_number_field(self, "margin", above=0)

    @property
    def self_concordance(self) -> float:  # type: ignore[override]
        """c: the derivative of c^2 s(c z) s(-c z) in z is that times c (s(-c z) - s(c z))."""
        return self.margin

    def check_targets(self, name: str, targets: Array) -> Array:
        """Labels -1 and +1; a client may have one of them only. `Federation.from_arrays` makes them of any two."""
        strange = np.flatnonzero(np.abs(targets) != 1)
        if strange.size:
            raise ValueError(f"{name}[{strange[0]}] is no label; expected labels -1 or +1")
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """log(1 + exp(-c y z)), without overflow."""
        values: Array = np.logaddexp(
            predictions.dtype.type(0), -self.margin * targets * predictions
        )
        return values

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """-c y s(-c y z)."""
        pull = -self.margin * targets
        derivative: Array = pull * expit(pull * predictions)
        return derivative

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """c^2 s(c z) s(-c z) times the direction."""
        scaled = self.margin * predictions
        curved: Array = self.margin**2 * expit(scaled) * expit(-scaled) * direction
        return curved

    def leads(self, predictions: Array, targets: Array) -> Array:
        """y z, above zero on the right side."""
        return (targets * predictions)[:, None]


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Multiclass logistic loss, l(z, y) = -z_y + log sum_c exp(z_c), for integer labels y = 0..C-1.

    The model x has one column per class, and z_c = a' x_c. The paper prints the logarithm of the exponential of a
    sum; the sum of exponentials is meant (Sections IV-D and V-B).

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
    shift_invariant, local_solver = (
        True,
        "damped",
    )  # probabilities depend on differences of predictions
    self_concordance = (
        2**0.5
    )  # a third cumulant is at most a variance times the range of w, and that sqrt(2) ||w||

    def __post_init__(self) -> None:
        validate_integer_field(self, "n_classes", at_least=2)

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """``(n_features, n_classes)``."""
        return (n_features, self.n_classes)

    def check_targets(self, name: str, targets: Array) -> Array:
        """Integer labels from 0 to C-1; a client may have some of them only."""
        wrong = np.flatnonzero(
            (np.floor(targets) != targets) | (targets < 0) | (targets >= self.n_classes)
        )
        if wrong.size:
            raise ValueError(
                f"{name}[{wrong[0]}] is no label; expected integer labels from 0 to {self.n_classes - 1}"
            )
        return targets.astype(np.intp)

    def values(self, predictions: Array, targets: Array) -> Array:
        """-z_y + log sum exp(z), without overflow."""
        shifted = predictions - np.maximum.reduce(predictions, axis=1, keepdims=True)
        own = shifted[np.arange(len(targets)), targets]
        np.maximum(shifted, LOWEST[shifted.dtype], out=shifted)  # as in `_softmax`
        values: Array = np.log(np.add.reduce(np.exp(shifted, out=shifted), axis=1)) - own
        return values

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """softmax(z) - e_y."""
        derivative = _softmax(predictions)
        derivative[np.arange(len(targets)), targets] -= 1
        return derivative

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """(diag(p) - p p') times the direction, with p = softmax(z)."""
        p = _softmax(predictions)
        tilted: Array = p * (direction - np.sum(p * direction, axis=1, keepdims=True))
        return tilted

    def leads(self, predictions: Array, targets: Array) -> Array:
        """z_y - z_c for the other classes c."""
        is_other = np.arange(self.n_classes) != targets[:, None]
        own = predictions[~is_other][:, None]
        others = predictions[is_other].reshape(len(targets), self.n_classes - 1)
        leads: Array = own - others
        return leads


LOWEST = {
    np.dtype(kind): 0.7 * float(np.log(np.finfo(kind).tiny)) for kind in (np.float32, np.float64)
}


def _softmax(predictions: Array) -> Array:
    """Probabilities, none below tiny^0.7: smaller ones matter less than rounding, and denormal products are slow."""
    p: Array = predictions - np.maximum.reduce(predictions, axis=1, keepdims=True)
    np.maximum(p, LOWEST[p.dtype], out=p)
    np.exp(p, out=p)
    p /= np.add.reduce(p, axis=1, keepdims=True)
    return p


def check_loss(name: str, loss: Any) -> Any:
    """Return a loss object, or raise a ValueError where it is something else."""
    needed = ("row_weight", "model_shape", "check_targets", "values", "derivative", "curvature")
    return check_protocol(name, loss, needed, "a loss object, such as fgmp.SquaredLoss()")


def misclassified(loss: Loss) -> Callable[[Array, Array], Array] | None:
    """Which rows are on the wrong side, or on the border, given predictions and targets; None where there are none."""
    leads = getattr(loss, "leads", None)
    if leads is None:
        return None
    return lambda predictions, targets: np.any(leads(predictions, targets) <= 0, axis=1)
