"""The constants beta_1 and beta_2 of the paper's lemmas, following their proofs (ERRATA.md has the differences).

Numbers or arrays that broadcast; infinite where a lemma is void.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_array, check_array, check_number, shown
from ..models import Array


def beta_1(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Lemma 2: beta_1 = rho^+ / (2 rho^- - rho^+); infinite where rho^+ >= 2 rho^-, and the lemma is void."""
    lower, upper = _floats("lower", lower), _floats("upper", upper)
    with np.errstate(over="ignore", invalid="ignore"):
        return quotient(upper, 2 * lower - upper)


def beta_2(
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    theta: ArrayLike = np.inf,
    eta_1: float = 1.0,
    upper_squared: ArrayLike | None = None,
) -> Array:
    """Lemma 3: beta_2 = 2 (rho^+ + 1/theta^2 - rho^-) / rho^- + 2 s (3 E rho^{+2} + 1) / rho^-.

    Here s = sqrt(1 - 1/eta_1^2), which is zero for exact projections. The statement in the paper divides
    rho^+ + 1/theta^2 by eta_1^2; the proof does not.

    Parameters
    ----------
    lower, upper : array_like
        rho^- and rho^+ at sparsity 4 tau. Infinite comes back where rho^- is not positive, and the lemma is void.
    theta : array_like
        Above 0; infinite is right for the full batch.
    eta_1 : float
        At least 1.
    upper_squared : array_like, optional
        E rho^{+2} of the whole gradient at 2 tau, `ClientConstants.upper_squared`: the proof applies it to
        ||grad g_ij(x) - grad g_ij(x*)|| without a projection. Needed only where eta_1 > 1.
    """
    s, lower, upper = slack(eta_1), _floats("lower", lower), _floats("upper", upper)
    if s > 0 and upper_squared is None:
        raise ValueError(f"eta_1 is {eta_1:g} and upper_squared None; expected upper_squared where eta_1 is above 1")
    with np.errstate(divide="ignore", over="ignore"):
        rise = upper - lower + 1 / _squared(theta)
        if s > 0 and upper_squared is not None:
            rise = rise + s * (3 * _floats("upper_squared", upper_squared) + 1)
        return 2 * quotient(rise, lower)


def beta_2_unbounded_variance(
    lower: ArrayLike, upper: ArrayLike, upper_squared: ArrayLike, *, theta: ArrayLike, eta_1: float = 1.0
) -> Array:
    """The lemma of the appendix: beta_2 of Lemma 3 plus 6 theta^2 (E rho^{+2} + rho^{+2}) / rho^-, for any variance.

    Following the proof from its first line; the printed lemma and theorem have 3 theta^2, and rho^+ for its square.
    Parameters as `beta_2`.
    """
    plain = beta_2(lower, upper, theta=theta, eta_1=eta_1, upper_squared=upper_squared)
    with np.errstate(over="ignore"):
        spread = _floats("upper_squared", upper_squared) + _floats("upper", upper) ** 2
        added: Array = 6 * quotient(times_theta_squared(spread, theta), _floats("lower", lower))
        return plain + added


def slack(eta_1: float) -> float:
    """The s of Lemma 3: sqrt(eta_1^2 - 1) / eta_1, zero where the projection of the gradient is exact."""
    eta_1 = check_number("eta_1", eta_1, at_least=1)
    return float(np.sqrt((eta_1 - 1) / eta_1 * ((eta_1 + 1) / eta_1)))


def quotient(numerator: Array, denominator: Array) -> Array:
    """A quotient that is infinite where the denominator is not positive: nothing is promised there."""
    nothing = np.full(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)), np.inf)
    with np.errstate(over="ignore"):
        ratio: Array = np.divide(numerator, denominator, out=nothing, where=denominator > 0)
    return ratio


def times_theta_squared(values: Array, theta: ArrayLike) -> Array:
    """theta^2 times nonnegative values: zero where they are zero, even for infinite theta."""
    squares = _squared(theta)
    nothing = np.zeros(np.broadcast_shapes(np.shape(values), np.shape(squares)))
    product: Array = np.multiply(values, squares, out=nothing, where=values > 0)
    return product


def check_theta(theta: ArrayLike) -> Array:
    """theta as floats above 0, or infinite."""
    array = as_array("theta", theta)
    if array.dtype.kind not in "fiu" or not (array > 0).all():
        raise ValueError(f"theta is {shown(theta)}; expected numbers above 0, or infinity")
    return array.astype(float)


def _squared(theta: ArrayLike) -> Array:
    with np.errstate(over="ignore"):
        squares: Array = check_theta(theta) ** 2
    return squares


def _floats(name: str, value: ArrayLike) -> Array:
    return check_array(name, value).astype(float)
