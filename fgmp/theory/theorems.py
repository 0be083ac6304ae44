"""The paper's convergence theorems as functions: from the constants of the clients to rates and residuals.

Formulas follow the proofs. Where the printed statement differs, the docstring says so and ERRATA.md explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_array, check_integer, check_kind, check_number
from ..models import Array
from .constants import ClientConstants, TheoremParameters
from .lemmas import beta_1, beta_2, beta_2_unbounded_variance, quotient, slack, times_theta_squared

_EXACT = TheoremParameters()


@dataclass(frozen=True, eq=False)
class ConvergenceBound:
    """E||x_t - x*||^2 <= kappa^t ||x_0 - x*||^2 + residual, with everything that led to it.

    Attributes
    ----------
    beta_1, beta_2, mu, nu : ndarray, shape (N,)
        Per client; nu(i) = (1 + eta_2)^2 (beta_1 xi_2 + xi_1) is what one local iteration adds.
    kappa : float
        The rate per round.
    residual : float
        The limit of the bound; infinite where kappa >= 1.
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
        if not self.guarantees:
            return np.full(t.shape, np.inf)
        bound: Array = self.kappa**t * initial + self.residual
        return bound

    def __str__(self) -> str:
        if not self.guarantees:
            return f"no guarantee: kappa = {self.kappa:.3g} is not below 1"
        return f"kappa = {self.kappa:.3g}, residual = {self.residual:.3g}"


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
    nu >= sum p_i nu(i). Both are right, and either may be the smaller one. For the product, bound the length of the
    mean error by Minkowski, sqrt(E||sum p_i e_i||^2) <= sum p_i sqrt(A mu(i)^K + nu(i) S(i)) with A = ||x_t - x*||^2.
    By Cauchy and Schwarz its square is at most sum p_i S(i) times sum p_i (nu(i) + A mu(i)^K / S(i)), and by
    Chebyshev's sum inequality (S and mu^K / S both grow with mu) at most A sum p_i mu(i)^K + the product.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=[1.0, 1.02], gradient=1e-4)
    >>> print(theory.theorem1(constants, local_iterations=3))
    kappa = 0.00924, residual = 0.0216
    >>> print(theory.theorem1(constants, 3, theory.TheoremParameters(theta=2.0)))
    no guarantee: kappa = 38.7 is not below 1
    """
    theta, eta_1 = _doors(constants, parameters)
    squared = constants.known("upper_squared", "eta_1 > 1") if eta_1 > 1 else None
    second = beta_2(constants.lower, constants.upper, theta=theta, eta_1=eta_1, upper_squared=squared)
    xi_1 = 4 * quotient(constants.gradient + constants.variance, constants.upper**2)
    spread = times_theta_squared(2 * constants.variance, theta)
    if eta_1 > 1:
        whole = constants.known("whole_gradient", "eta_1 > 1")
        spread = spread + 6 * slack(eta_1) * (constants.variance + whole)
    return _assemble(constants, second, xi_1, spread, local_iterations, parameters)


def theorem_inexact(
    constants: ClientConstants, local_iterations: int, accuracy: float, parameters: TheoremParameters = _EXACT
) -> ConvergenceBound:
    """Inexact FedGradMP, restricted problems solved to ||b - b_opt|| <= delta (paper, the theorem on inexact solvers).

    mu(i) doubles, and nu(i) becomes 2 nu(i) + 2 (1 + eta_2)^2 delta^2, as the proof gives; the statement prints
    nu + delta^2. Parameters as `theorem1`, and `accuracy` = delta, at least 0.
    """
    delta = check_number("accuracy", accuracy, at_least=0)
    exact = theorem1(constants, local_iterations, parameters)
    nu = 2 * exact.nu + 2 * parameters.pruning * delta**2
    return _with_rate(replace(exact, mu=2 * exact.mu, nu=nu), constants.weights, local_iterations, parameters)


def theorem_partial_participation(
    constants: ClientConstants, local_iterations: int, cohort_size: int, parameters: TheoremParameters = _EXACT
) -> ConvergenceBound:
    """Cohorts of L of N clients with equal weights (paper, the theorem on client sampling).

    kappa = (2 eta_3^2 + 2) times the mean of the L largest mu(i)^K, as printed: the maximum over cohorts. The proof
    needs only the mean over cohorts, which is the kappa of `theorem1` whatever L is. The residual is that of equal
    weights over all clients, which is the mean over random cohorts; the paper bounds its variance part by N/L times as
    much.
    """
    _doors(constants, parameters)
    count = len(constants.lower)
    cohort_size = check_integer("cohort_size", cohort_size, at_most=count, why="the number of clients")
    equal = np.full(count, 1 / count)
    bound = theorem1(replace(constants, weights=equal), local_iterations, parameters)
    slowest = np.sort(bound.mu)[::-1][:cohort_size]
    kappa = float(parameters.server * _power(slowest, local_iterations).mean())
    added = parameters.server * float(equal @ (bound.nu * _series(bound.mu, local_iterations))) if kappa < 1 else np.inf
    return replace(bound, kappa=kappa, residual=added / (1 - kappa) if kappa < 1 else np.inf)


def theorem_unbounded_variance(
    constants: ClientConstants,
    local_iterations: int,
    minibatch_gradient: ArrayLike,
    parameters: TheoremParameters,
) -> ConvergenceBound:
    """Linear convergence without a bound on the variance of the gradients (paper, the last theorem of the appendix).

    Parameters
    ----------
    constants, local_iterations
        As in `theorem1`; `upper_squared` is always needed, and `variance` not used.
    minibatch_gradient : array_like, shape (N,)
        The mean over minibatches j of ||grad g_ij(x*)||^2.
    parameters : TheoremParameters
        With a finite theta: beta_2 is infinite for an infinite one.

    Notes
    -----
    Empty: beta_2 is at least 4 sqrt(6) for all data and all theta, so kappa is never below 1 (notebook 06
    repairs it with the measured growth of the variance). Follows the proof: with s = sqrt(1 - 1/eta_1^2),
    xi_2 = 8 max ||P grad f_i(x*)||^2 / rho^{-2} + (24 theta^2 + 30 s) E||grad g_ij(x*)||^2 / rho^-, and
    xi_1 = 2 E||grad g_ij(x*)||^2 / (rho^+ (2 rho^- - rho^+)). The variance lemma is used for the gradients projected
    onto Gamma, its second half, so that the constant of f_i is a curvature at 4 tau, like rho^+.
    """
    theta, eta_1 = _doors(constants, parameters)
    energy, expected = _nonnegative("minibatch_gradient", minibatch_gradient), constants.lower.shape
    if energy.shape not in ((), expected):
        raise ValueError(f"minibatch_gradient has shape {energy.shape}; expected {expected}, or one number")
    squared = constants.known("upper_squared", "the theorem without a bound on the variance")
    second = beta_2_unbounded_variance(constants.lower, constants.upper, squared, theta=theta, eta_1=eta_1)
    xi_1 = 2 * quotient(energy, constants.upper**2)
    spread = times_theta_squared(24 * energy, theta) + 30 * slack(eta_1) * energy
    return _assemble(constants, second, xi_1, spread, local_iterations, parameters)


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

    Parameters
    ----------
    bound : ConvergenceBound
    rounds, initial
        As in `ConvergenceBound.after`.
    objective, gradient : float
        f(x*) and ||grad f(x*)||^2.
    smoothness : float
        rho = sum p_i of the mean restricted smoothness at sparsity 2 tau: x_t - x* has up to 2 tau nonzeros.
    """
    check_kind("bound", bound, ConvergenceBound, "a ConvergenceBound, as theorem1 returns it")
    objective = check_number("objective", objective)
    gradient = check_number("gradient", gradient, at_least=0)
    smoothness = check_number("smoothness", smoothness, above=0)
    return objective + gradient / (2 * smoothness) + smoothness * bound.after(rounds, initial)


def _doors(constants: ClientConstants, parameters: TheoremParameters) -> tuple[float, float]:
    """theta and eta_1, once what came is what it should be."""
    check_kind("constants", constants, ClientConstants, "ClientConstants")
    check_kind("parameters", parameters, TheoremParameters, "TheoremParameters, with theta and eta_1 to eta_3")
    return parameters.theta, parameters.eta_1


def _nonnegative(name: str, value: ArrayLike) -> Array:
    array: Array = check_array(name, value).astype(float)
    if array.min(initial=0) < 0:
        raise ValueError(f"{name} is {array.min():g} at least once; expected numbers of at least 0")
    return array


def _assemble(
    constants: ClientConstants,
    second: Array,
    xi_1: Array,
    spread: Array,
    local_iterations: int,
    parameters: TheoremParameters,
) -> ConvergenceBound:
    """The bound from beta_2, xi_1 / beta_1, and xi_2 = 8 max ||P grad f_i||^2 / rho^{-2} + spread / rho^-."""
    first = beta_1(constants.lower, constants.upper)
    xi_2 = 8 * quotient(constants.gradient, constants.lower**2) + quotient(spread, constants.lower)
    void = np.isinf(first)
    factor = parameters.pruning * np.where(void, 1.0, first)
    mu, nu = np.where(void, np.inf, factor * second), np.where(void, np.inf, factor * (xi_2 + xi_1))
    bound = ConvergenceBound(first, second, mu, nu, np.inf, np.inf)
    return _with_rate(bound, constants.weights, local_iterations, parameters)


def _with_rate(
    bound: ConvergenceBound, weights: Array, local_iterations: int, parameters: TheoremParameters
) -> ConvergenceBound:
    """The bound with the rate and the residual of its mu and nu; clients of weight zero do not count."""
    local_iterations, counted = check_integer("local_iterations", local_iterations), weights > 0
    p, mu, nu = weights[counted], bound.mu[counted], bound.nu[counted]
    kappa = float(parameters.server * np.sum(p * _power(mu, local_iterations)))
    if kappa >= 1:
        return replace(bound, kappa=kappa, residual=np.inf)
    series = _series(mu, local_iterations)
    added = min(float(p @ (nu * series)), float(p @ nu) * float(p @ series))
    return replace(bound, kappa=kappa, residual=parameters.server * added / (1 - kappa))


def _power(mu: Array, exponent: int) -> Array:
    with np.errstate(over="ignore"):
        powers: Array = mu ** float(exponent)
    return powers


def _series(mu: Array, local_iterations: int) -> Array:
    """S(i) = 1 + mu(i) + .. + mu(i)^(K-1)."""
    series: Array = np.sum([_power(mu, k) for k in range(local_iterations)], axis=0)
    return series
