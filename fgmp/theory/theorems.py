"""The paper's lemmas and convergence theorems as functions: from the constants of the clients to rates and residuals.

Formulas follow the proofs. Where the printed statement differs, the docstring says so and ERRATA.md explains it. The
betas are numbers or arrays that broadcast; they are infinite where a lemma is void.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from .._support.validation import (
    as_array,
    check_array,
    check_integer,
    check_kind,
    check_number,
    short_repr,
    validate_number_field,
)
from ..sparse_model import Array


def _theta(theta: ArrayLike) -> Array:
    array = as_array("theta", theta)
    if array.dtype.kind not in "fiu" or not (array > 0).all():
        raise ValueError(f"theta is {short_repr(theta)}; expected numbers above 0, or infinity")
    return array.astype(float)


def _floats(name: str, value: ArrayLike) -> Array:
    return check_array(name, value).astype(float)


def _nonnegative(name: str, value: ArrayLike) -> Array:
    array = _floats(name, value)
    if array.min(initial=0) < 0:
        raise ValueError(f"{name} is {array.min():g} at least once; expected numbers of at least 0")
    return array


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """What the theorems need to know of the clients, one entry each: by `of` from numbers, or `measure_constants`.

    Attributes
    ----------
    lower, upper : ndarray, shape (N,)
        rho^-_{4 tau}(i), restricted strong convexity of f_i, and the mean over minibatches j of rho^+_{4 tau}(i, j),
        restricted curvature of g_ij.
    upper_squared : ndarray, shape (N,)
        The mean over j of L_{2 tau}(i, j)^2, with L the smoothness of the whole gradient (Assumption 2 as printed):
        ||grad g_ij(x) - grad g_ij(x')|| <= L ||x - x'|| for x - x' with 2 tau nonzeros; L may exceed the curvature at
        4 tau. Needed for eta_1 > 1, where the proof of Lemma 3 bounds a whole gradient; nan where it is not known.
    gradient, whole_gradient : ndarray, shape (N,)
        max over |Omega| = 4 tau of ||P_Omega grad f_i(x*)||^2, and ||grad f_i(x*)||^2, nan where it is not known.
    variance : ndarray, shape (N,)
        sigma_i^2, the variance of the minibatch gradients.
    weights : ndarray, shape (N,)
        p_i, with sum one.
    """

    lower: Array
    upper: Array
    upper_squared: Array
    gradient: Array
    whole_gradient: Array
    variance: Array
    weights: Array

    @classmethod
    def of(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        upper_squared: ArrayLike | None = None,
        gradient: ArrayLike = 0.0,
        whole_gradient: ArrayLike | None = None,
        variance: ArrayLike = 0.0,
        weights: ArrayLike | None = None,
    ) -> ClientConstants:
        """Constants from sequences, or numbers for all clients; 0 < lower <= upper.

        None is not known, but a `whole_gradient` where `gradient` is zero: it is zero then. Weights are scaled to sum
        one; None is equal weights.
        """
        given = {
            "lower": lower,
            "upper": upper,
            "upper_squared": upper_squared,
            "gradient": gradient,
        }
        given |= {
            "whole_gradient": whole_gradient,
            "variance": variance,
            "weights": 1 if weights is None else weights,
        }
        parts = [
            np.nan if value is None else _nonnegative(name, value) for name, value in given.items()
        ]
        own = cls(*np.atleast_1d(*np.broadcast_arrays(*parts)))
        if own.lower.ndim > 1:
            raise ValueError(
                f"constants have shape {own.lower.shape}; expected one number for each client"
            )
        if (own.lower <= 0).any() or (own.upper < own.lower * (1 - 1e-12)).any():
            raise ValueError(
                "lower and upper cross, or lower is 0; expected 0 < lower <= upper for each client"
            )
        if not own.weights.any():
            raise ValueError("weights are all 0; expected a positive one")
        whole = (
            np.where(own.gradient == 0, 0.0, np.nan)
            if whole_gradient is None
            else own.whole_gradient
        )
        return replace(own, whole_gradient=whole, weights=own.weights / own.weights.sum())


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """The letters of the theorems that are no constants of the clients (paper, Algorithm 1 and Theorem 1).

    Parameters
    ----------
    theta : float, default infinity
        The trade-off between rate and residual: above 0, free to choose; infinite is right for the full batch.
    eta_1, eta_2, eta_3 : float, default 1
        The quality of the projections with which a client finds the largest part of its gradient and prunes its local
        solution, and the server prunes the average: eta where ||w - P_Gamma w|| <= eta ||w - H_tau(w)||, with H_tau(w)
        the best approximation of that sparsity. At least 1; 1 is exact, as in the standard basis.
    """

    theta: float = np.inf
    eta_1: float = 1.0
    eta_2: float = 1.0
    eta_3: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", float(_theta(self.theta)))
        for name in ("eta_1", "eta_2", "eta_3"):
            validate_number_field(self, name, at_least=1)

    @property
    def pruning(self) -> float:
        """(1 + eta_2)^2: what the pruning of a client costs at most (Lemma 1)."""
        return (1 + self.eta_2) ** 2

    @property
    def server(self) -> float:
        """2 eta_3^2 + 2: what averaging and pruning at the server cost at most."""
        return 2 * self.eta_3**2 + 2


_EXACT = TheoremParameters()


def beta_1(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Lemma 2: beta_1 = rho^+ / (2 rho^- - rho^+); infinite where rho^+ >= 2 rho^-, and the lemma is void."""
    lower, upper = _floats("lower", lower), _floats("upper", upper)
    with np.errstate(all="ignore"):
        return _quotient(upper, 2 * lower - upper)


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

    `lower`, `upper` are rho^- and rho^+ at sparsity 4 tau, `upper_squared` E rho^{+2}, needed only where eta_1 > 1: as
    in `ClientConstants`. `theta` and `eta_1` as in `TheoremParameters`. Infinite where rho^- is not positive.
    """
    s, lower, upper = _slack(eta_1), _floats("lower", lower), _floats("upper", upper)
    if s > 0 and upper_squared is None:
        raise ValueError(
            f"eta_1 is {eta_1:g} and upper_squared None; expected upper_squared where eta_1 is above 1"
        )
    squared = 0.0 if upper_squared is None else _floats("upper_squared", upper_squared)
    with np.errstate(all="ignore"):
        rise = upper - lower + 1 / _theta(theta) ** 2 + s * (3 * squared + 1)
    return 2 * _quotient(rise, lower)


def beta_2_unbounded_variance(
    lower: ArrayLike,
    upper: ArrayLike,
    upper_squared: ArrayLike,
    *,
    theta: ArrayLike,
    eta_1: float = 1.0,
) -> Array:
    """The lemma of the appendix: beta_2 of Lemma 3 plus 6 theta^2 (E rho^{+2} + rho^{+2}) / rho^-, for any variance.

    As its proof gives; the printed lemma and theorem have 3 theta^2, and rho^+ for its square. It is at least
    4 sqrt(6) for all data and all theta, so that the last theorem of the appendix, which needs kappa < 1 with it,
    promises nothing (ERRATA.md, entries 21 to 23). Parameters as `beta_2`.
    """
    plain = beta_2(lower, upper, theta=theta, eta_1=eta_1, upper_squared=upper_squared)
    with np.errstate(all="ignore"):
        spread = _floats("upper_squared", upper_squared) + _floats("upper", upper) ** 2
    return np.asarray(
        plain + 6 * _quotient(_times_theta_squared(spread, theta), _floats("lower", lower))
    )


@dataclass(frozen=True, eq=False)
class ConvergenceBound:
    """E||x_t - x*||^2 <= kappa^t ||x_0 - x*||^2 + residual, with everything that led to it.

    Attributes
    ----------
    beta_1, beta_2, mu, nu : ndarray, shape (N,)
        Per client; nu(i) = (1 + eta_2)^2 (beta_1 xi_2 + xi_1) is what one local iteration adds.
    kappa, residual : float
        The rate per round, and the limit of the bound, infinite where kappa >= 1.
    """

    beta_1: Array
    beta_2: Array
    mu: Array
    nu: Array
    kappa: float
    residual: float

    @property
    def guarantees(self) -> bool:
        """Whether kappa < 1: otherwise the theorem says nothing."""
        return self.kappa < 1

    def after(self, rounds: ArrayLike, initial: float) -> Array:
        """The bound of E||x_t - x*||^2 after t rounds, from ||x_0 - x*||^2; infinite where there is no guarantee."""
        t, initial = _nonnegative("rounds", rounds), check_number("initial", initial, at_least=0)
        return np.asarray(
            self.kappa**t * initial + self.residual if self.guarantees else np.full(t.shape, np.inf)
        )


def theorem1(
    constants: ClientConstants, local_iterations: int, parameters: TheoremParameters = _EXACT
) -> ConvergenceBound:
    """Linear convergence of FedGradMP (paper, Theorem 1, the main theorem).

    kappa = (2 eta_3^2 + 2) sum p_i mu(i)^K with mu(i) = (1 + eta_2)^2 beta_1(i) beta_2(i), and the residual is
    (2 eta_3^2 + 2)/(1 - kappa) times the smaller of sum p_i nu(i) S(i) and (sum p_i nu(i)) (sum p_i S(i)), where
    S(i) = (1 - mu(i)^K)/(1 - mu(i)).

    Parameters
    ----------
    constants : ClientConstants
        With `upper_squared` and `whole_gradient` where eta_1 > 1.
    local_iterations : int
        K.
    parameters : TheoremParameters, optional
        theta and eta_1 to eta_3. The default is exact projections and the full batch.

    Notes
    -----
    The induction of the printed proof gives the first sum, the statement prints the product with one
    nu >= sum p_i nu(i). Both are right, and either may be the smaller one (ERRATA.md, entry 7).

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=[1.0, 1.02], gradient=1e-4)
    >>> bound = theory.theorem1(constants, local_iterations=3)
    >>> print(f"kappa = {bound.kappa:.3g}, residual = {bound.residual:.3g}")
    kappa = 0.00924, residual = 0.0216
    >>> theory.theorem1(constants, 3, theory.TheoremParameters(theta=2.0)).guarantees
    False
    """
    check_kind("constants", constants, ClientConstants, "ClientConstants")
    check_kind(
        "parameters",
        parameters,
        TheoremParameters,
        "TheoremParameters, with theta and eta_1 to eta_3",
    )
    p, squared, missed = parameters, None, np.zeros(len(constants.lower))
    if p.eta_1 > 1:
        for name in ("upper_squared", "whole_gradient"):
            if np.isnan(getattr(constants, name)).any():
                raise ValueError(
                    f"{name} is not known; expected it for each client where eta_1 is above 1"
                )
        squared, missed = constants.upper_squared, constants.variance + constants.whole_gradient
    first = beta_1(constants.lower, constants.upper)
    second = beta_2(
        constants.lower, constants.upper, theta=p.theta, eta_1=p.eta_1, upper_squared=squared
    )
    spread = _times_theta_squared(2 * constants.variance, p.theta) + 6 * _slack(p.eta_1) * missed
    xi_1 = 4 * _quotient(constants.gradient + constants.variance, constants.upper**2)
    xi_2 = 8 * _quotient(constants.gradient, constants.lower**2) + _quotient(
        spread, constants.lower
    )
    void = np.isinf(first)
    factor = p.pruning * np.where(void, 1.0, first)
    mu, nu = np.where(void, np.inf, factor * second), np.where(void, np.inf, factor * (xi_2 + xi_1))
    bound = ConvergenceBound(first, second, mu, nu, np.inf, np.inf)
    return _with_rate(bound, constants.weights, local_iterations, p)


def theorem_inexact(
    constants: ClientConstants,
    local_iterations: int,
    accuracy: float,
    parameters: TheoremParameters = _EXACT,
) -> ConvergenceBound:
    """Inexact FedGradMP, restricted problems solved to ||b - b_opt|| <= delta (paper, the theorem on inexact solvers).

    mu(i) doubles, and nu(i) becomes 2 nu(i) + 2 (1 + eta_2)^2 delta^2, as the proof gives; the statement prints
    nu + delta^2. Parameters as `theorem1`, and `accuracy` = delta, at least 0.
    """
    delta = check_number("accuracy", accuracy, at_least=0)
    exact = theorem1(constants, local_iterations, parameters)
    nu = 2 * exact.nu + 2 * parameters.pruning * delta**2
    return _with_rate(
        replace(exact, mu=2 * exact.mu, nu=nu), constants.weights, local_iterations, parameters
    )


def theorem_partial_participation(
    constants: ClientConstants,
    local_iterations: int,
    cohort_size: int,
    parameters: TheoremParameters = _EXACT,
) -> ConvergenceBound:
    """Cohorts of L of N clients with equal weights (paper, the theorem on client sampling).

    kappa = (2 eta_3^2 + 2) times the mean of the L largest mu(i)^K, as printed: the maximum over cohorts. The proof
    needs only the mean over cohorts, which is the kappa of `theorem1` whatever L is. The residual is that of equal
    weights over all clients, the mean over random cohorts; the paper bounds its variance part by N/L times as much.
    """
    bound = theorem1(constants, local_iterations, parameters)
    size = check_integer(
        "cohort_size", cohort_size, at_most=len(bound.mu), why="the number of clients"
    )
    powers, series = _powers(bound.mu, local_iterations)
    kappa = parameters.server * float(np.sort(powers)[-size:].mean())
    residual = (
        parameters.server * float(np.mean(bound.nu * series)) / (1 - kappa) if kappa < 1 else np.inf
    )
    return replace(bound, kappa=kappa, residual=residual)


def objective_bound(
    bound: ConvergenceBound,
    rounds: ArrayLike,
    initial: float,
    *,
    objective: float,
    gradient: float,
    smoothness: float,
) -> Array:
    """The corollary of Theorem 1: E f(x_t) <= f(x*) + ||grad f(x*)||^2 / (2 rho) + rho E||x_t - x*||^2.

    `objective` is f(x*), `gradient` ||grad f(x*)||^2, and `smoothness` rho = sum p_i of the mean restricted smoothness
    at sparsity 2 tau: x_t - x* has up to 2 tau nonzeros. The rest as in `ConvergenceBound.after`.
    """
    check_kind("bound", bound, ConvergenceBound, "a ConvergenceBound, as theorem1 returns it")
    objective = check_number("objective", objective)
    gradient = check_number("gradient", gradient, at_least=0)
    smoothness = check_number("smoothness", smoothness, above=0)
    return objective + gradient / (2 * smoothness) + smoothness * bound.after(rounds, initial)


def _with_rate(
    bound: ConvergenceBound, weights: Array, K: int, parameters: TheoremParameters
) -> ConvergenceBound:
    """The bound with the rate and the residual of its mu and nu; clients of weight zero do not count."""
    counted = weights > 0
    p, nu, (powers, series) = weights[counted], bound.nu[counted], _powers(bound.mu[counted], K)
    kappa, residual = parameters.server * float(p @ powers), np.inf
    if kappa < 1:
        added = min(float(p @ (nu * series)), float(p @ nu) * float(p @ series))
        residual = parameters.server * added / (1 - kappa)
    return replace(bound, kappa=kappa, residual=residual)


def _powers(mu: Array, local_iterations: int) -> tuple[Array, Array]:
    """mu(i)^K, and S(i) = 1 + mu(i) + .. + mu(i)^(K-1)."""
    exponents = np.arange(check_integer("local_iterations", local_iterations) + 1.0)
    with np.errstate(all="ignore"):
        powers = mu ** exponents[:, None]
    return powers[-1], powers[:-1].sum(axis=0)


def _slack(eta_1: float) -> float:
    """The s of Lemma 3: sqrt(eta_1^2 - 1) / eta_1, zero where the projection of the gradient is exact."""
    eta_1 = check_number("eta_1", eta_1, at_least=1)
    return float(np.sqrt((eta_1 - 1) / eta_1 * ((eta_1 + 1) / eta_1)))


def _quotient(numerator: Array, denominator: Array) -> Array:
    """A quotient that is infinite where the denominator is not positive: nothing is promised there."""
    with np.errstate(all="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.inf)


def _times_theta_squared(values: Array, theta: ArrayLike) -> Array:
    """theta^2 times nonnegative values: zero where they are zero, even for infinite theta."""
    with np.errstate(all="ignore"):
        return np.where(values > 0, values * _theta(theta) ** 2, 0.0)
