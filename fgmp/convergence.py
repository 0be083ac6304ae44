"""The paper's convergence theorems as functions: from the constants of the clients to rates and residuals.

Formulas follow the proofs. Where the printed statement differs, the docstring says so and ERRATA.md explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_array, check_integer, check_number
from .models import Array

__all__ = [
    "ClientConstants",
    "ConvergenceBound",
    "beta_1",
    "beta_2",
    "beta_2_unbounded_variance",
    "objective_bound",
    "theorem1",
    "theorem_inexact",
    "theorem_partial_participation",
    "theorem_unbounded_variance",
]


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """What the theorems need to know of the clients: one entry each, all at sparsity 4 tau.

    Attributes
    ----------
    lower : ndarray, shape (N,)
        rho^-_{4 tau}(i), restricted strong convexity of f_i.
    upper : ndarray, shape (N,)
        The mean over minibatches j of rho^+_{4 tau}(i, j), restricted smoothness of g_ij.
    upper_squared : ndarray, shape (N,)
        The mean over j of rho^+(i, j)^2.
    gradient : ndarray, shape (N,)
        max over |Omega| = 4 tau of ||P_Omega grad f_i(x*)||^2.
    whole_gradient : ndarray, shape (N,)
        ||grad f_i(x*)||^2; its weighted mean is zeta*^2.
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
        """Constants from numbers or sequences: by default one minibatch, no residual, equal weights."""
        lower = np.atleast_1d(check_array("lower", lower)).astype(float)
        upper = np.broadcast_to(check_array("upper", upper), lower.shape).astype(float)
        if (lower <= 0).any() or (upper < lower * (1 - 1e-12)).any():
            raise ValueError(
                f"lower and upper range over {lower.min():g}..{lower.max():g} and {upper.min():g}..{upper.max():g}; "
                "expected 0 < lower <= upper for each client"
            )
        squared = upper**2 if upper_squared is None else upper_squared
        whole = gradient if whole_gradient is None else whole_gradient
        p = np.ones(len(lower)) if weights is None else check_array("weights", weights, ndim=1)
        parts = (squared, gradient, whole, variance, p / p.sum())
        return cls(lower, upper, *(np.broadcast_to(np.asarray(part, dtype=float), lower.shape) for part in parts))

    @property
    def zeta_squared(self) -> float:
        """zeta*^2 = sum p_i ||grad f_i(x*)||^2 (Assumption 3)."""
        return float(self.weights @ self.whole_gradient)


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
        t = np.asarray(rounds, dtype=float)
        if not self.guarantees:
            return np.full(t.shape, np.inf)
        bound: Array = self.kappa**t * initial + self.residual
        return bound

    def __str__(self) -> str:
        if not self.guarantees:
            return f"no guarantee: kappa = {self.kappa:.3g} is not below 1"
        return f"kappa = {self.kappa:.3g}, residual = {self.residual:.3g}"


def beta_1(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Lemma 2: beta_1 = rho^+ / (2 rho^- - rho^+); infinite where rho^+ >= 2 rho^-, and the lemma is void."""
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    room = 2 * lower - upper
    ratio: Array = np.divide(upper, room, out=np.full(np.broadcast(lower, upper).shape, np.inf), where=room > 0)
    return ratio


def beta_2(
    lower: ArrayLike, upper: ArrayLike, *, theta: float = np.inf, eta_1: float = 1.0, upper_squared: ArrayLike = 0.0
) -> Array:
    """Lemma 3: beta_2 = 2 (rho^+ + 1/theta^2 - rho^-) / rho^- + 2 s (3 E rho^{+2} + 1) / rho^-.

    Here s = sqrt(1 - 1/eta_1^2), which is zero for exact projections. The statement in the paper divides
    rho^+ + 1/theta^2 by eta_1^2; the proof does not.
    """
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    found: Array = 2 * (upper + theta**-2 - lower + _slack(eta_1) * (3 * np.asarray(upper_squared) + 1)) / lower
    return found


def beta_2_unbounded_variance(
    lower: ArrayLike, upper: ArrayLike, upper_squared: ArrayLike, *, theta: float, eta_1: float = 1.0
) -> Array:
    """The lemma of the appendix: beta_2 of Lemma 3 plus 6 theta^2 (E rho^{+2} + rho^{+2}) / rho^-, for any variance.

    Following the proof from its first line; the printed lemma and theorem have 3 theta^2, and rho^+ for its square.
    """
    plain = beta_2(lower, upper, theta=theta, eta_1=eta_1, upper_squared=upper_squared)
    spread = np.asarray(upper_squared, dtype=float) + np.asarray(upper, dtype=float) ** 2
    found: Array = plain + 6 * theta**2 * spread / np.asarray(lower, dtype=float)
    return found


def theorem1(
    constants: ClientConstants,
    local_iterations: int,
    *,
    theta: float = np.inf,
    eta_1: float = 1.0,
    eta_2: float = 1.0,
    eta_3: float = 1.0,
) -> ConvergenceBound:
    """Linear convergence of FedGradMP (paper, Theorem 1, the main theorem).

    kappa = (2 eta_3^2 + 2) sum p_i mu(i)^K with mu(i) = (1 + eta_2)^2 beta_1(i) beta_2(i), and the residual
    (2 eta_3^2 + 2)/(1 - kappa) sum p_i nu(i) (1 - mu(i)^K)/(1 - mu(i)).

    Parameters
    ----------
    constants : ClientConstants
    local_iterations : int
        K.
    theta : float
        The trade-off between rate and residual: above 0; infinite is right for the full batch.
    eta_1, eta_2, eta_3 : float
        Quality of the three approximate projections: at least 1, and 1 where they are exact.

    Notes
    -----
    The paper takes one nu = sum p_i nu(i) (with a maximum inside) out of the sum over the clients. That sum can be
    smaller than the sum of the products, where clients with large mu(i) also have large nu(i), so nu stays inside
    here, as the induction in the proof has it.
    """
    _check_etas(theta, eta_1, eta_2, eta_3)
    first = beta_1(constants.lower, constants.upper)
    second = beta_2(constants.lower, constants.upper, theta=theta, eta_1=eta_1, upper_squared=constants.upper_squared)
    xi_1 = 4 * (constants.gradient + constants.variance) / constants.upper**2
    mu, nu = _local_iteration(first, second, xi_1, _xi_2(constants, theta, eta_1), eta_2)
    return _assemble(first, second, mu, nu, constants.weights, local_iterations, eta_3)


def theorem_inexact(
    constants: ClientConstants,
    local_iterations: int,
    accuracy: float,
    *,
    theta: float = np.inf,
    eta_1: float = 1.0,
    eta_2: float = 1.0,
    eta_3: float = 1.0,
) -> ConvergenceBound:
    """Inexact FedGradMP, restricted problems solved to ||b - b_opt|| <= delta (paper, the theorem on inexact solvers).

    mu(i) doubles, and nu(i) becomes 2 nu(i) + 2 (1 + eta_2)^2 delta^2, as the proof gives; the statement prints
    nu + delta^2. Parameters as `theorem1`, and `accuracy` = delta, at least 0.
    """
    delta = check_number("accuracy", accuracy, at_least=0)
    exact = theorem1(constants, local_iterations, theta=theta, eta_1=eta_1, eta_2=eta_2, eta_3=eta_3)
    nu = 2 * exact.nu + 2 * (1 + eta_2) ** 2 * delta**2
    return _assemble(exact.beta_1, exact.beta_2, 2 * exact.mu, nu, constants.weights, local_iterations, eta_3)


def theorem_partial_participation(
    constants: ClientConstants,
    local_iterations: int,
    cohort_size: int,
    *,
    theta: float = np.inf,
    eta_1: float = 1.0,
    eta_2: float = 1.0,
    eta_3: float = 1.0,
) -> ConvergenceBound:
    """Cohorts of L of N clients with equal weights (paper, the theorem on client sampling).

    kappa = (2 eta_3^2 + 2) times the mean of the L largest mu(i)^K, as printed: the maximum over cohorts. The proof
    needs only the mean over cohorts, which is the kappa of `theorem1` whatever L is. The residual is that of equal
    weights over all clients, which is the mean over random cohorts; the paper bounds its variance part by N/L times as
    much.
    """
    count = len(constants.lower)
    cohort_size = check_integer("cohort_size", cohort_size, at_most=count, why="the number of clients")
    equal = replace(constants, weights=np.full(count, 1 / count))
    all_clients = theorem1(equal, local_iterations, theta=theta, eta_1=eta_1, eta_2=eta_2, eta_3=eta_3)
    worst = np.sort(all_clients.mu**local_iterations)[::-1][:cohort_size].mean()
    factor = 2 * eta_3**2 + 2
    kappa = float(factor * worst)
    residual = float("inf")
    if kappa < 1:
        residual = factor * _added(all_clients.mu, all_clients.nu, equal.weights, local_iterations) / (1 - kappa)
    return replace(all_clients, kappa=kappa, residual=residual)


def theorem_unbounded_variance(
    constants: ClientConstants,
    local_iterations: int,
    minibatch_gradient: ArrayLike,
    *,
    theta: float,
    eta_1: float = 1.0,
    eta_2: float = 1.0,
    eta_3: float = 1.0,
) -> ConvergenceBound:
    """Linear convergence without a bound on the variance of the gradients (paper, the last theorem of the appendix).

    Parameters
    ----------
    constants, local_iterations, theta, eta_1, eta_2, eta_3
        As in `theorem1`; the entry `variance` of the constants is not used.
    minibatch_gradient : array_like, shape (N,)
        The mean over minibatches j of ||grad g_ij(x*)||^2.

    Notes
    -----
    True but empty: beta_2 is at least 4 sqrt(6) for all data and all theta, so kappa is never below 1 (notebook 01
    repairs it with the measured growth of the variance). Follows the proof: with s = sqrt(1 - 1/eta_1^2),
    xi_2 = 8 max ||P grad f_i(x*)||^2 / rho^{-2} + (24 theta^2 + 30 s) E||grad g_ij(x*)||^2 / rho^-, and
    xi_1 = 2 E||grad g_ij(x*)||^2 / (rho^+ (2 rho^- - rho^+)).
    """
    _check_etas(theta, eta_1, eta_2, eta_3)
    energy = np.broadcast_to(check_array("minibatch_gradient", minibatch_gradient), constants.lower.shape)
    first = beta_1(constants.lower, constants.upper)
    second = beta_2_unbounded_variance(
        constants.lower, constants.upper, constants.upper_squared, theta=theta, eta_1=eta_1
    )
    xi_1 = 2 * energy / constants.upper**2
    xi_2 = 8 * constants.gradient / constants.lower**2
    xi_2 = xi_2 + (24 * theta**2 + 30 * _slack(eta_1)) * energy / constants.lower
    mu, nu = _local_iteration(first, second, xi_1, xi_2, eta_2)
    return _assemble(first, second, mu, nu, constants.weights, local_iterations, eta_3)


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
    smoothness = check_number("smoothness", smoothness, above=0)
    return objective + gradient / (2 * smoothness) + smoothness * bound.after(rounds, initial)


def _slack(eta_1: float) -> float:
    return float(np.sqrt(eta_1**2 - 1) / eta_1)


def _local_iteration(first: Array, second: Array, xi_1: Array, xi_2: Array, eta_2: float) -> tuple[Array, Array]:
    """The factor mu(i) and the addend nu(i) of one local iteration; infinite where Lemma 2 is void.

    `xi_1` comes without its factor beta_1 = rho^+ / (2 rho^- - rho^+).
    """
    void = np.isinf(first)
    factor = (1 + eta_2) ** 2 * np.where(void, 1.0, first)
    return np.where(void, np.inf, factor * second), np.where(void, np.inf, factor * (xi_2 + xi_1))


def _xi_2(constants: ClientConstants, theta: float, eta_1: float) -> Array:
    """8 max ||P grad f_i||^2 / rho^{-2} + ((2 theta^2 + 6 s) sigma^2 + 6 s ||grad f_i||^2) / rho^-."""
    spread = 6 * _slack(eta_1) * (constants.variance + constants.whole_gradient)
    # theta may be infinite where there is no variance.
    spread = spread + np.where(constants.variance > 0, 2 * min(theta, 1e150) ** 2 * constants.variance, 0.0)
    found: Array = 8 * constants.gradient / constants.lower**2 + spread / constants.lower
    return found


def _added(mu: Array, nu: Array, weights: Array, local_iterations: int) -> float:
    """Sum over clients of p_i nu(i) (1 + mu(i) + .. + mu(i)^(K-1))."""
    counted = weights > 0
    series = sum(mu[counted] ** k for k in range(local_iterations))
    return float(np.sum(weights[counted] * nu[counted] * series))


def _assemble(
    first: Array, second: Array, mu: Array, nu: Array, weights: Array, local_iterations: int, eta_3: float
) -> ConvergenceBound:
    local_iterations = check_integer("local_iterations", local_iterations)
    factor = 2 * eta_3**2 + 2
    counted = weights > 0
    kappa = float(factor * np.sum(weights[counted] * mu[counted] ** local_iterations))
    residual = float("inf")
    if kappa < 1:
        residual = factor * _added(mu, nu, weights, local_iterations) / (1 - kappa)
    return ConvergenceBound(first, second, mu, nu, kappa, residual)


def _check_etas(theta: float, eta_1: float, eta_2: float, eta_3: float) -> None:
    if not theta > 0:
        raise ValueError(f"theta is {theta!r}; expected a number above 0, or infinity")
    for name, eta in (("eta_1", eta_1), ("eta_2", eta_2), ("eta_3", eta_3)):
        check_number(name, eta, at_least=1)
