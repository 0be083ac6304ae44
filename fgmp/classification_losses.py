"""Losses of labels: the logistic loss for two classes, and the softmax loss for several.

They are those of the paper's Section IV-D. Labels are checked and converted when a federation is
made (`Federation.from_arrays`).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from ._support.validation import validate_integer_field, validate_number_field
from .losses import Expansion, Loss
from .sparse_model import Array, IndexArray


@dataclass(frozen=True)
class LogisticLoss(Loss):
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
    def class_labels(self) -> Array:
        """-1 and +1."""
        return np.array([-1, 1])

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
        values: Array = np.logaddexp(zero, -self._c * targets * predictions)
        return values

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return -c y s(-c y z)."""
        slope = -self._c * targets
        derivative: Array = slope * expit(slope * predictions)
        return derivative

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return c^2 s(c z) s(-c z) times the direction."""
        scaled = self._c * predictions
        product: Array = self._c**2 * expit(scaled) * expit(-scaled) * direction
        return product

    def leads(self, predictions: Array, targets: Array) -> Array:
        """Return y z, which is positive on the side of the label."""
        return (targets * predictions)[:, None]


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Multiclass logistic loss l(z, y) = -z_y + log sum_c exp(z_c) for labels y = 0, ..., C-1.

    The model x has one column x_c for each class, and z_c = a' x_c. The paper prints the logarithm
    of the exponential of a sum, which should be the sum of exponentials (Sections IV-D and V-B).

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

    shift_invariant = True  # probabilities depend on differences of predictions only
    has_integer_targets = True
    local_solver = "one_step"  # as for the logistic loss

    # A third cumulant is at most the variance times the range of w, which is at most sqrt(2) ||w||.
    self_concordance = 2**0.5

    def __post_init__(self) -> None:
        validate_integer_field(self, "n_classes", at_least=2)

    @property
    def class_labels(self) -> IndexArray:
        """0, ..., C-1."""
        return np.arange(self.n_classes)

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
        return Expansion(values, derivative, partial(_covariance, p), coupling=None)

    def leads(self, predictions: Array, targets: Array) -> Array:
        """Return z_y - z_c for the other classes c."""
        is_other = np.arange(self.n_classes) != targets[:, None]
        of_label = predictions[~is_other][:, None]
        of_others = predictions[is_other].reshape(len(targets), self.n_classes - 1)
        leads: Array = of_label - of_others
        return leads


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
    product: Array = p * (direction - np.sum(p * direction, axis=1, keepdims=True))
    return product
