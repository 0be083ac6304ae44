"""The paper's lemmas and theorems as functions: from constants of clients to rates and residuals.

The functions follow the proofs. If the printed statement differs, the docstring says so and names
the entry of ERRATA.md. Line numbers are those of the paper's LaTeX source (arXiv 2302.10755), as in
ERRATA.md. The betas are numbers or arrays that broadcast; they are infinite if a lemma is void.

Names in the code, beside the paper's:

=====================  =============================================================
`rho_minus`            rho^-_{4 tau}(i), restricted strong convexity of f_i
`rho_plus`             the mean over minibatches j of rho^+_{4 tau}(i, j)
`L_squared`            the mean over j of L(i, j)^2, L the smoothness of a gradient
`s`                    sqrt(eta_1^2 - 1) / eta_1, zero for exact projections
`sigma_squared`        sigma_i^2, the variance of the minibatch gradients
`mu`, `nu`, `kappa`    as in Theorem 1
=====================  =============================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

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


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """What the theorems need to know of the clients, one entry for each client.

    `ClientConstants.of` makes it of numbers, and `measure_constants` of least-squares clients.

    Attributes
    ----------
    lower, upper : ndarray, shape (N,)
        rho^-_{4 tau}(i), restricted strong convexity of f_i (Assumption 1), and the mean over
        minibatches j of rho^+_{4 tau}(i, j), restricted curvature of g_ij.
    upper_squared : ndarray, shape (N,)
        The mean over j of L_{2 tau}(i, j)^2, with L the smoothness of the whole gradient
        (Assumption 2 as printed): ||grad g_ij(x) - grad g_ij(x')|| <= L ||x - x'|| for x - x' with
        2 tau nonzeros. L may exceed the curvature at 4 tau. It is needed for eta_1 > 1, because
        the proof of Lemma 3 then bounds a whole gradient; nan if it is not known.
    gradient, whole_gradient : ndarray, shape (N,)
        max over |Omega| = 4 tau of ||P_Omega grad f_i(x*)||^2, and ||grad f_i(x*)||^2, which is nan
        if it is not known.
    variance : ndarray, shape (N,)
        sigma_i^2, the variance of the minibatch gradients (Assumption 4).
    weights : ndarray, shape (N,)
        p_i, with sum one.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=[1.0, 1.02, 1.1], gradient=1e-4)
    >>> constants.lower.tolist(), constants.weights.round(3).tolist()
    ([1.0, 1.0, 1.0], [0.333, 0.333, 0.333])
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
        """Return constants from sequences, or from numbers that hold for all clients.

        None means that a constant is not known, with two exceptions: `whole_gradient` is zero if
        `gradient` is zero, and the weights are equal. Weights are scaled to sum one.

        Raises
        ------
        ValueError
            If a number is negative, if 0 < lower <= upper fails for a client, or if all weights
            are zero.
        """
        columns = [
            _nonnegative("lower", lower),
            _nonnegative("upper", upper),
            _nonnegative_or_nan("upper_squared", upper_squared),
            _nonnegative("gradient", gradient),
            _nonnegative_or_nan("whole_gradient", whole_gradient),
            _nonnegative("variance", variance),
            _nonnegative("weights", 1.0 if weights is None else weights),
        ]
        constants = cls(*np.atleast_1d(*np.broadcast_arrays(*columns)))
        constants._check()

        if whole_gradient is None:
            whole = np.where(constants.gradient == 0, 0.0, np.nan)
        else:
            whole = constants.whole_gradient
        p = constants.weights / constants.weights.sum()
        return replace(constants, whole_gradient=whole, weights=p)

    def _check(self) -> None:
        """Raise a ValueError if the constants do not belong together."""
        if self.lower.ndim > 1:
            raise ValueError(
                f"constants have shape {self.lower.shape}; expected one number for each client"
            )
        crosses = self.upper < self.lower * (1 - 1e-12)  # but for the rounding of eigenvalues
        if (self.lower <= 0).any() or crosses.any():
            raise ValueError(
                "lower and upper cross, or lower is 0; expected 0 < lower <= upper for each client"
            )
        if not self.weights.any():
            raise ValueError("weights are all 0; expected a positive one")


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """The parameters of the theorems that do not depend on the clients (Algorithm 1, Theorem 1).

    Parameters
    ----------
    theta : float, default infinity
        The trade-off between rate and residual, above 0 and free to choose. Infinity is best for
        the full batch.
    eta_1, eta_2, eta_3 : float, default 1
        The quality of three projections: a client finds the largest part of its gradient (eta_1)
        and prunes its local solution (eta_2), and the server prunes the average (eta_3). eta is
        the factor in ||w - P_Gamma w|| <= eta ||w - H_tau(w)||, where H_tau(w) is the best
        approximation of that sparsity. At least 1; 1 is exact, as in the standard basis.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=1.02, gradient=1e-4)
    >>> for theta in (20.0, 2.0):  # a small theta costs the guarantee
    ...     print(theory.theorem1(constants, 3, theory.TheoremParameters(theta=theta)).guarantees)
    True
    False
    """

    theta: float = np.inf
    eta_1: float = 1.0
    eta_2: float = 1.0
    eta_3: float = 1.0

    def __post_init__(self) -> None:
        is_infinite = isinstance(self.theta, (float, np.floating)) and self.theta == np.inf
        if not is_infinite:
            validate_number_field(self, "theta", above=0)
        for name in ("eta_1", "eta_2", "eta_3"):
            validate_number_field(self, name, at_least=1)

    @property
    def pruning(self) -> float:
        """(1 + eta_2)^2, the factor of the squared error in local pruning (Lemma 1, line 417)."""
        return (1 + float(self.eta_2)) ** 2

    @property
    def server(self) -> float:
        """2 eta_3^2 + 2, the factor of the squared error in the server's pruning (line 728)."""
        return 2 * float(self.eta_3) ** 2 + 2


_EXACT = TheoremParameters()


def beta_1(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Return beta_1 = rho^+ / (2 rho^- - rho^+) of Lemma 2 (line 433, `lem:GradMP_lem2`).

    It is infinite if rho^+ >= 2 rho^-: then the lemma is void, a condition that the paper does not
    print (ERRATA.md, entry 2). `lower` and `upper` are rho^- and rho^+ at sparsity 4 tau.

    Examples
    --------
    >>> from fgmp import theory
    >>> theory.beta_1(lower=1.0, upper=[1.0, 1.5, 2.0]).tolist()
    [1.0, 3.0, inf]
    """
    rho_minus = _floats("lower", lower)
    rho_plus = _floats("upper", upper)
    with np.errstate(all="ignore"):
        return _quotient(rho_plus, 2 * rho_minus - rho_plus)


def beta_2(
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    theta: ArrayLike = np.inf,
    eta_1: float = 1.0,
    upper_squared: ArrayLike | None = None,
) -> Array:
    """Return beta_2 of Lemma 3 (line 447, `lem:GradMP_lem3`) as its proof gives it.

    beta_2 = 2 (rho^+ - rho^- + 1/theta^2) / rho^- + 2 s (3 E L^2 + 1) / rho^-,
    with s = sqrt(1 - 1/eta_1^2), which is zero for exact projections. The printed statement divides
    rho^+ + 1/theta^2 by eta_1^2; the proof does not (ERRATA.md, entry 3).

    Parameters
    ----------
    lower, upper : array_like
        rho^- and rho^+ at sparsity 4 tau, as in `ClientConstants`. The result is infinite if rho^-
        is not positive.
    theta, eta_1
        As in `TheoremParameters`; `theta` may be an array.
    upper_squared : array_like, optional
        E L^2, as in `ClientConstants`. Needed if eta_1 > 1.

    Examples
    --------
    >>> from fgmp import theory
    >>> float(theory.beta_2(lower=1.0, upper=1.5)), float(theory.beta_2(1.0, 1.5, theta=2.0))
    (1.0, 1.5)
    """
    s = _slack(eta_1)
    rho_minus = _floats("lower", lower)
    rho_plus = _floats("upper", upper)
    if s > 0 and upper_squared is None:
        raise ValueError(
            f"eta_1 is {eta_1:g} and upper_squared is None; expected it for eta_1 above 1"
        )
    L_squared = 0.0 if upper_squared is None else _floats("upper_squared", upper_squared)
    with np.errstate(all="ignore"):
        half = rho_plus - rho_minus + 1 / _theta(theta) ** 2 + s * (3 * L_squared + 1)
    return 2 * _quotient(half, rho_minus)


def beta_2_unbounded_variance(
    lower: ArrayLike,
    upper: ArrayLike,
    upper_squared: ArrayLike,
    *,
    theta: ArrayLike,
    eta_1: float = 1.0,
) -> Array:
    """Return beta_2 for any variance (line 1609, `lem:GradMP_lem3_without_bounded_variance`).

    It is beta_2 of Lemma 3 plus 6 theta^2 (E L^2 + rho^{+2}) / rho^-, as the proof gives. The
    printed lemma and theorem have 3 theta^2 in place of 6, and rho^+ in place of its square.

    It is at least 4 sqrt(6) for all data and all theta. Therefore the last theorem of the appendix
    (line 1695, `thm:main_theorem3`), which needs kappa < 1 with it, promises nothing (ERRATA.md,
    entries 21 to 23). Parameters as in `beta_2`.

    Examples
    --------
    >>> from fgmp import theory
    >>> float(theory.beta_2_unbounded_variance(1.0, 1.5, upper_squared=2.25, theta=1.0))
    30.0
    >>> float(theory.beta_2(1.0, 1.5, theta=1.0))  # where the variance is bounded
    3.0
    """
    bounded = beta_2(lower, upper, theta=theta, eta_1=eta_1, upper_squared=upper_squared)
    rho_minus = _floats("lower", lower)
    rho_plus = _floats("upper", upper)
    L_squared = _floats("upper_squared", upper_squared)
    with np.errstate(all="ignore"):
        variance_per_error = L_squared + rho_plus**2
    added = 6 * _quotient(_times_theta_squared(variance_per_error, theta), rho_minus)
    return np.asarray(bounded + added)


@dataclass(frozen=True, eq=False)
class ConvergenceBound:
    """A bound E||x_t - x*||^2 <= kappa^t ||x_0 - x*||^2 + residual, and the numbers that led to it.

    Attributes
    ----------
    beta_1, beta_2, mu, nu : ndarray, shape (N,)
        For each client. mu(i) = (1 + eta_2)^2 beta_1(i) beta_2(i) multiplies the squared error in
        one local iteration, and nu(i) = (1 + eta_2)^2 (beta_1(i) xi_2(i) + xi_1(i)) is added to it.
    kappa, residual : float
        The rate per round, and the limit of the bound, which is infinite if kappa >= 1.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=1.02, gradient=1e-4)
    >>> bound = theory.theorem1(constants, local_iterations=3)
    >>> bound.guarantees, bound.kappa < 0.1
    (True, True)
    >>> bool(bound.after(0, 1.0) > bound.after(1, 1.0) > bound.after(2, 1.0) > bound.residual)
    True
    """

    beta_1: Array
    beta_2: Array
    mu: Array
    nu: Array
    kappa: float
    residual: float

    @property
    def guarantees(self) -> bool:
        """Whether kappa < 1. Otherwise the theorem promises nothing."""
        return self.kappa < 1

    def after(self, rounds: ArrayLike, initial: float) -> Array:
        """Return the bound of E||x_t - x*||^2 after t rounds.

        Parameters
        ----------
        rounds : array_like
            t, at least 0.
        initial : float
            ||x_0 - x*||^2.

        Returns
        -------
        ndarray
            In the shape of `rounds`; infinite without a guarantee.
        """
        t = _nonnegative("rounds", rounds)
        initial = check_number("initial", initial, at_least=0)
        if not self.guarantees:
            return np.full(t.shape, np.inf)
        return np.asarray(self.kappa**t * initial + self.residual)


def theorem1(
    constants: ClientConstants, local_iterations: int, parameters: TheoremParameters = _EXACT
) -> ConvergenceBound:
    """Return the linear convergence of FedGradMP (Theorem 1, line 629, `thm:main_theorem1`).

    kappa = (2 eta_3^2 + 2) sum p_i mu(i)^K with mu(i) = (1 + eta_2)^2 beta_1(i) beta_2(i). The
    residual is (2 eta_3^2 + 2)/(1 - kappa) times the smaller of sum p_i nu(i) S(i) and
    (sum p_i nu(i)) (sum p_i S(i)), where S(i) = (1 - mu(i)^K)/(1 - mu(i)).

    Parameters
    ----------
    constants : ClientConstants
        With `upper_squared` and `whole_gradient` if eta_1 > 1.
    local_iterations : int
        K.
    parameters : TheoremParameters, optional
        theta and eta_1 to eta_3. The default is exact projections and the full batch.

    Notes
    -----
    The induction of the printed proof gives the first sum. The statement prints the product, with
    one nu >= sum p_i nu(i). Both are right, and either may be the smaller one (ERRATA.md, entry 7).

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
    expected = "TheoremParameters, with theta and eta_1 to eta_3"
    check_kind("parameters", parameters, TheoremParameters, expected)
    rho_minus = constants.lower
    rho_plus = constants.upper
    theta = float(parameters.theta)
    eta_1 = float(parameters.eta_1)
    L_squared = None
    if eta_1 > 1:
        _check_known(constants, "upper_squared")
        _check_known(constants, "whole_gradient")
        L_squared = constants.upper_squared

    first = beta_1(rho_minus, rho_plus)
    second = beta_2(rho_minus, rho_plus, theta=theta, eta_1=eta_1, upper_squared=L_squared)
    # xi_1 of Lemma 2 has the factor 1 / (rho^+ (2 rho^- - rho^+)) = beta_1 / rho^{+2}. The mean of
    # ||P grad g_ij(x*)||^2 in it is at most 2 ||P grad f_i(x*)||^2 + 2 sigma_i^2.
    xi_1_by_beta_1 = 4 * _quotient(constants.gradient + constants.variance, rho_plus**2)
    xi_2 = _xi_2(constants, theta, eta_1)

    is_void = np.isinf(first)
    factor = parameters.pruning * np.where(is_void, 1.0, first)
    mu = np.where(is_void, np.inf, factor * second)
    nu = np.where(is_void, np.inf, factor * (xi_2 + xi_1_by_beta_1))
    bound = ConvergenceBound(first, second, mu, nu, np.inf, np.inf)
    return _with_rate(bound, constants.weights, local_iterations, parameters)


def theorem_inexact(
    constants: ClientConstants,
    local_iterations: int,
    accuracy: float,
    parameters: TheoremParameters = _EXACT,
) -> ConvergenceBound:
    """Return the convergence of inexact FedGradMP (line 943, `thm:main_theorem1_inexact_solver`).

    Restricted problems are solved to ||b - b_opt|| <= delta (Algorithm 2). Then mu(i) doubles, and
    nu(i) becomes 2 nu(i) + 2 (1 + eta_2)^2 delta^2, as the proof gives. The statement prints
    nu + delta^2 (ERRATA.md, entry 11).

    Parameters as in `theorem1`, and `accuracy` = delta, at least 0.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=1.02, gradient=1e-4)
    >>> exact = theory.theorem1(constants, local_iterations=1)
    >>> inexact = theory.theorem_inexact(constants, local_iterations=1, accuracy=0.01)
    >>> round(inexact.kappa / exact.kappa, 6), inexact.residual > exact.residual
    (2.0, True)
    """
    delta = check_number("accuracy", accuracy, at_least=0)
    exact = theorem1(constants, local_iterations, parameters)
    mu = 2 * exact.mu
    nu = 2 * exact.nu + 2 * parameters.pruning * delta**2
    inexact = replace(exact, mu=mu, nu=nu)
    return _with_rate(inexact, constants.weights, local_iterations, parameters)


def theorem_partial_participation(
    constants: ClientConstants,
    local_iterations: int,
    cohort_size: int,
    parameters: TheoremParameters = _EXACT,
) -> ConvergenceBound:
    """Return the convergence with cohorts of L clients of N (line 973, `thm:main_theorem2`).

    The weights are equal, whatever `constants` says.

    kappa is (2 eta_3^2 + 2) times the mean of the L largest mu(i)^K: the maximum over cohorts, as
    printed. The proof needs only the mean over cohorts, which is the kappa of `theorem1` whatever L
    is (ERRATA.md, "Better than claimed", H).

    The residual is that of equal weights over all clients, the mean over random cohorts. The paper
    bounds its variance part by N/L times as much (ERRATA.md, entry 12).

    Parameters as in `theorem1`, and `cohort_size` = L, from 1 to the number of clients.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=[1.0, 1.02], gradient=1e-4)
    >>> one = theory.theorem_partial_participation(constants, local_iterations=1, cohort_size=1)
    >>> round(one.kappa / theory.theorem1(constants, local_iterations=1).kappa, 6)
    2.0
    """
    bound = theorem1(constants, local_iterations, parameters)
    n_clients = len(bound.mu)
    L = check_integer("cohort_size", cohort_size, at_most=n_clients, why="the number of clients")

    local = _local_series(bound.mu, local_iterations)
    kappa = parameters.server * float(np.sort(local.power)[-L:].mean())
    residual = np.inf
    if kappa < 1:
        residual = parameters.server * float(np.mean(bound.nu * local.series)) / (1 - kappa)
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
    """Return the bound of E f(x_t) of the corollary of Theorem 1 (line 860, `cor:7`).

    E f(x_t) <= f(x*) + ||grad f(x*)||^2 / (2 rho) + rho E||x_t - x*||^2.

    Parameters
    ----------
    bound, rounds, initial
        As in `ConvergenceBound.after`, which bounds E||x_t - x*||^2.
    objective : float
        f(x*).
    gradient : float
        ||grad f(x*)||^2.
    smoothness : float
        rho, the sum of p_i times the mean restricted smoothness of client i, at sparsity 2 tau,
        because x_t - x* has up to 2 tau nonzeros. The paper prints tau (ERRATA.md, entry 9).

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.ClientConstants.of(lower=1.0, upper=1.02, gradient=0.0)
    >>> bound = theory.theorem1(constants, local_iterations=3)
    >>> about = dict(objective=0.5, gradient=0.0, smoothness=2.0)
    >>> theory.objective_bound(bound, [0, 100], initial=1.0, **about).round(6).tolist()
    [2.5, 0.5]
    """
    check_kind("bound", bound, ConvergenceBound, "a ConvergenceBound, as theorem1 returns it")
    f = check_number("objective", objective)
    gradient = check_number("gradient", gradient, at_least=0)
    rho = check_number("smoothness", smoothness, above=0)
    return f + gradient / (2 * rho) + rho * bound.after(rounds, initial)


def _xi_2(constants: ClientConstants, theta: float, eta_1: float) -> Array:
    """Return xi_2 of Lemma 3 (line 448).

    xi_2 = 8 max ||P_Omega grad f_i(x*)||^2 / rho^{-2}
    + (2 theta^2 sigma_i^2 + 6 s (sigma_i^2 + ||grad f_i(x*)||^2)) / rho^-.
    """
    rho_minus = constants.lower
    sigma_squared = constants.variance
    missed = np.zeros(len(rho_minus))
    if eta_1 > 1:
        missed = sigma_squared + constants.whole_gradient
    spread = _times_theta_squared(2 * sigma_squared, theta) + 6 * _slack(eta_1) * missed
    return 8 * _quotient(constants.gradient, rho_minus**2) + _quotient(spread, rho_minus)


def _with_rate(
    bound: ConvergenceBound, weights: Array, K: int, parameters: TheoremParameters
) -> ConvergenceBound:
    """Return the bound with the rate and the residual of its mu and nu.

    Clients of weight zero do not count, even if their mu is infinite.
    """
    counts = weights > 0
    p = weights[counts]
    nu = bound.nu[counts]
    local = _local_series(bound.mu[counts], K)

    kappa = parameters.server * float(p @ local.power)
    residual = np.inf
    if kappa < 1:
        sum_of_products = float(p @ (nu * local.series))
        product_of_sums = float(p @ nu) * float(p @ local.series)
        residual = parameters.server * min(sum_of_products, product_of_sums) / (1 - kappa)
    return replace(bound, kappa=kappa, residual=residual)


class _LocalSeries(NamedTuple):
    """mu(i)^K, and S(i) = 1 + mu(i) + .. + mu(i)^(K-1) = (1 - mu(i)^K) / (1 - mu(i))."""

    power: Array
    series: Array


def _local_series(mu: Array, local_iterations: int) -> _LocalSeries:
    """Return what K local iterations make of a factor mu(i) and of an addend of one."""
    exponents = np.arange(check_integer("local_iterations", local_iterations) + 1.0)
    with np.errstate(all="ignore"):
        powers = mu ** exponents[:, None]
    return _LocalSeries(power=powers[-1], series=powers[:-1].sum(axis=0))


def _slack(eta_1: float) -> float:
    """Return s = sqrt(eta_1^2 - 1) / eta_1 of Lemma 3, zero if the projection is exact."""
    eta_1 = check_number("eta_1", eta_1, at_least=1)
    # In factors, because eta_1^2 may overflow and eta_1^2 - 1 cancels.
    return float(np.sqrt((eta_1 - 1) / eta_1 * ((eta_1 + 1) / eta_1)))


def _quotient(numerator: Array, denominator: Array) -> Array:
    """Return a quotient, infinite if its denominator is not positive: then nothing is promised."""
    with np.errstate(all="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.inf)


def _times_theta_squared(values: Array, theta: ArrayLike) -> Array:
    """Return theta^2 times nonnegative values: zero if these are zero, even for infinite theta."""
    with np.errstate(all="ignore"):
        return np.where(values > 0, values * _theta(theta) ** 2, 0.0)


def _theta(theta: ArrayLike) -> Array:
    """Return theta as an array of floats, or raise a ValueError unless all are above 0."""
    array = as_array("theta", theta)
    if array.dtype.kind not in "fiu" or not (array > 0).all():
        raise ValueError(f"theta is {short_repr(theta)}; expected numbers above 0, or infinity")
    return array.astype(float)


def _floats(name: str, value: ArrayLike) -> Array:
    """Return finite numbers as an array of float64."""
    return check_array(name, value).astype(float)


def _nonnegative(name: str, value: ArrayLike) -> Array:
    """Return finite numbers of at least 0 as an array of float64."""
    array = _floats(name, value)
    if array.min(initial=0) < 0:
        raise ValueError(f"{name} is {array.min():g} at least once; expected numbers of at least 0")
    return array


def _nonnegative_or_nan(name: str, value: ArrayLike | None) -> Array:
    """Return `_nonnegative` numbers, or nan for None, which is not known."""
    return np.array(np.nan) if value is None else _nonnegative(name, value)


def _check_known(constants: ClientConstants, name: str) -> None:
    """Raise a ValueError if a constant that inexact projections need is not known."""
    if np.isnan(getattr(constants, name)).any():
        raise ValueError(f"{name} is not known; expected it for each client for eta_1 above 1")
