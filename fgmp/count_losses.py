"""The Poisson loss, for counts: the number of events of a row.

It is not one of the paper's losses. Its curvature exp(z) has no bound, so that no learning rate is
short enough for all models: what descends needs a line search, or halves its steps.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from .losses import Loss
from .sparse_model import Array

# Beyond this prediction l continues as its own second-order expansion. exp(40) is 26 times the
# largest count, and its square is within the range of float32.
_LARGEST_EXPONENT = 40.0
# Up to it float64 holds every whole number.
_LARGEST_COUNT = 2.0**53


@dataclass(frozen=True)
class PoissonLoss(Loss):
    """Poisson loss l(z, y) = exp(z) - y z + y log y - y for counts y, half the deviance of a row.

    A prediction z is the logarithm of the expected count, so that a unit of a feature multiplies
    the count by the exponential of its coefficient, the rate ratio. l is at least 0, and 0 if
    exp(z) = y. The terms in y alone make it so, and move no minimiser.

    Notes
    -----
    All derivatives of l from the second one on are exp(z). Therefore the constant of generalised
    self-concordance is 1, as for the logistic loss; but the curvature, unlike that of the logistic
    loss, is not bounded, and the gradient is not Lipschitz. `GradientDescent`, `Newton` and
    `NewtonOnSupport` search for the length of their steps. A fixed learning rate, as `SGD` and the
    baselines have it, diverges from models whose predictions are large.

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

    def link(self, mean: float) -> float:
        """Return log(mean)."""
        return float(np.log(mean))

    def mean_of(self, predictions: Array) -> Array:
        """Return the expected counts exp(z)."""
        mean: Array = np.exp(predictions)
        return mean

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return exp(z) - y z + y log y - y."""
        inside, beyond = _split(predictions)
        of_targets = xlogy(targets, targets) - targets
        exponential = np.exp(inside) * (1 + beyond + beyond**2 / 2)
        values: Array = exponential - targets * predictions + of_targets
        return values

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return exp(z) - y."""
        inside, beyond = _split(predictions)
        derivative: Array = np.exp(inside) * (1 + beyond) - targets
        return derivative

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return exp(z) times the direction."""
        inside, _ = _split(predictions)
        product: Array = np.exp(inside) * direction
        return product

    def ahead(self, predictions: Array, targets: Array, moves: Array) -> Array:
        """Return how far each move lowers l for ever: down in a row without events, else nowhere.

        With y > 0 l grows in both directions.
        """
        lengths: Array = np.where(targets > 0, -np.abs(moves), -moves)
        return lengths[:, None]


def _split(predictions: Array) -> tuple[Array, Array]:
    """Return predictions up to the largest exponent, and by how much they exceed it."""
    inside = np.minimum(predictions, predictions.dtype.type(_LARGEST_EXPONENT))
    return inside, predictions - inside
