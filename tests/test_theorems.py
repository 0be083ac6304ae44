"""The theorems against their proofs, in fractions, step by step, with inexact projections.

`local_iteration` follows the proof of Lemma 3 to a u^2 - 2 b u - c <= 0 and so to 2c/a + 8b^2/a^2,
then Lemmas 2 and 1. `after_a_round` repeats it K times and averages. Both are affine in the squared
error, so that the rate is what a unit of error adds and the residual what comes out of none: no
closed form of a sum or of a coefficient is used.
"""

from fractions import Fraction as F
from itertools import combinations

import numpy as np
import pytest

from fgmp import theory
from fgmp.theory import ClientConstants, TheoremParameters

# eta_1 = 5/4, so that s = sqrt(1 - 16/25) = 3/5 is rational.
SLACK = {F(1): F(0), F(5, 4): F(3, 5)}
# rho^-, rho^+, E L^2, max ||P grad||^2, ||grad||^2, sigma^2, in a unit in which kappa is below 1.
CLIENTS = [
    dict(lower=F(1000), upper=F(1003), squared=F(2), gradient=F(3), whole=F(7), variance=F(5)),
    dict(lower=F(2000), upper=F(2004), squared=F(9), gradient=F(2), whole=F(4), variance=F(1)),
    dict(lower=F(1500), upper=F(1500), squared=F(4), gradient=F(0), whole=F(0), variance=F(8)),
]
WEIGHTS = [F(1, 2), F(1, 3), F(1, 6)]
SETTINGS = [
    (F(1), F(1), F(1)),
    (F(5, 4), F(1), F(1)),
    (F(1), F(3, 2), F(1)),
    (F(5, 4), F(2), F(3, 2)),
]
THETA = F(1, 2)
K = 3


def constants(weights=WEIGHTS):
    names = {"upper_squared": "squared", "whole_gradient": "whole"}
    parts = {
        name: [float(client[names.get(name, name)]) for client in CLIENTS]
        for name in ("lower", "upper", "upper_squared", "gradient", "whole_gradient", "variance")
    }
    return ClientConstants.of(**parts, weights=[float(p) for p in weights])


def beta_1_by_hand(client):
    return client["upper"] / (2 * client["lower"] - client["upper"])


def lemma_3(client, error, eta_1, theta):
    """The bound of ||P_perp (b - x*)||^2, from ||x - x*||^2 = error; ||z|| = ||x - x*||."""
    missed = 3 * client["squared"] * error + 3 * client["variance"] + 3 * client["whole"]
    return end_of_lemma_3(client, error, eta_1, theta, client["variance"], missed)


def end_of_lemma_3(client, error, eta_1, theta, variance, missed):
    c = (client["upper"] + 1 / theta**2) * error - client["lower"] * error
    c += theta**2 * variance + SLACK[eta_1] * (missed + error)
    return 2 * c / client["lower"] + 8 * client["gradient"] / client["lower"] ** 2


def xi_1(client):
    energy = 2 * (client["gradient"] + client["variance"])  # ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2
    return 2 * energy / (client["upper"] * (2 * client["lower"] - client["upper"]))


def local_iteration(client, error, etas, theta=THETA, delta=None):
    exact = beta_1_by_hand(client) * lemma_3(client, error, etas[0], theta) + xi_1(client)
    solved = exact if delta is None else 2 * exact + 2 * delta**2
    return (1 + etas[1]) ** 2 * solved


def after_a_visit(client, error, etas, **options):
    for _ in range(K):
        error = local_iteration(client, error, etas, **options)
    return error


def after_a_round(error, etas, weights=WEIGHTS, clients=CLIENTS, **options):
    visits = [after_a_visit(client, error, etas, **options) for client in clients]
    return (2 * etas[2] ** 2 + 2) * sum(p * visit for p, visit in zip(weights, visits, strict=True))


def rate_and_residual(etas, **options):
    added = after_a_round(F(0), etas, **options)
    kappa = after_a_round(F(1), etas, **options) - added
    return kappa, min(added, added_at_once(etas, **options)) / (1 - kappa)


def added_at_once(etas, weights=WEIGHTS, clients=CLIENTS, **options):
    """Return what a round adds with the mean nu for all clients, by Minkowski's inequality."""
    added = [local_iteration(client, F(0), etas, **options) for client in clients]
    visits = [after_a_visit(client, F(0), etas, **options) for client in clients]
    series = sum(p * visit / nu for p, visit, nu in zip(weights, visits, added, strict=True) if nu)
    return (
        (2 * etas[2] ** 2 + 2) * sum(p * nu for p, nu in zip(weights, added, strict=True)) * series
    )


def options_of(etas, theta=THETA):
    return TheoremParameters(
        theta=float(theta), eta_1=float(etas[0]), eta_2=float(etas[1]), eta_3=float(etas[2])
    )


def assert_bound(bound, kappa, residual):
    assert kappa < 1
    assert bound.kappa == pytest.approx(float(kappa), rel=1e-10)
    assert bound.residual == pytest.approx(float(residual), rel=1e-10)


def assert_local_iterations(bound, etas, **options):
    nu = np.array([local_iteration(client, F(0), etas, **options) for client in CLIENTS])
    mu = np.array([local_iteration(client, F(1), etas, **options) for client in CLIENTS]) - nu
    np.testing.assert_allclose(
        np.array([bound.mu, bound.nu]), np.array([mu, nu], float), rtol=1e-10
    )


@pytest.mark.parametrize("etas", SETTINGS)
def test_theorem_1_with_and_without_inexact_solver_is_its_proof(etas):
    """Rates, residuals and local iterations."""
    bound = theory.theorem1(constants(), K, options_of(etas))
    assert_bound(bound, *rate_and_residual(etas))
    inexact = theory.theorem_inexact(constants(), K, 0.25, options_of(etas))
    assert_bound(inexact, *rate_and_residual(etas, delta=F(1, 4)))
    assert_local_iterations(bound, etas)


@pytest.mark.parametrize("etas", SETTINGS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_of_partial_participation_is_its_proof(etas, size):
    """kappa for the worst cohort, what is added for the mean one."""
    bound = theory.theorem_partial_participation(constants(), K, size, options_of(etas))
    equal = [F(1, size)] * size
    added = []
    rates = []
    for cohort in combinations(CLIENTS, size):
        added.append(after_a_round(F(0), etas, equal, cohort))
        rates.append(after_a_round(F(1), etas, equal, cohort) - added[-1])
    assert_bound(bound, max(rates), sum(added) / len(added) / (1 - max(rates)))


@pytest.mark.parametrize("etas", SETTINGS)
def test_beta_2_of_the_appendix_is_its_proof(etas):
    """What a unit of error adds, with the variance of the lemma on stochastic gradients."""
    for client in CLIENTS:
        variance = 3 * (client["squared"] + client["upper"] ** 2)
        ends = [
            end_of_lemma_3(
                client, F(e), etas[0], F(1, 100), e * variance, 3 * e * client["squared"]
            )
            for e in (1, 0)
        ]
        numbers = [float(client[name]) for name in ("lower", "upper", "squared")]
        found = theory.beta_2_unbounded_variance(*numbers, theta=0.01, eta_1=float(etas[0]))
        assert found == pytest.approx(float(ends[0] - ends[1]), rel=1e-10)


def test_client_of_weight_zero_does_not_change_the_bound():
    """Whatever its constants are, in any order."""
    etas = SETTINGS[-1]
    ends = [
        rate_and_residual(etas, weights=weights)
        for weights in ([F(1), F(0), F(0)], [F(0), F(1), F(0)])
    ]
    for i, (kappa, residual) in enumerate(ends):
        assert_bound(theory.theorem1(constants(np.eye(3)[i]), K, options_of(etas)), kappa, residual)
    hopeless = ClientConstants.of([1.0, 1.0], [1.0, 3.0], gradient=[0.0, 0.1], weights=[1.0, 0.0])
    assert theory.theorem1(hopeless, 2).kappa == 0
    assert theory.theorem1(hopeless, 2).residual == 0


def test_bound_of_the_objective_is_that_of_the_proof():
    """f(x*) + g^2 / (2 rho) + rho d^2: the largest of f(x*) + g d + rho d^2 / 2."""
    bound = theory.theorem1(constants(), K, options_of(SETTINGS[-1]))
    value = theory.objective_bound(bound, [0, 2], 3.0, objective=0.5, gradient=4.0, smoothness=8.0)
    squares = bound.kappa ** np.array([0, 2]) * 3.0 + bound.residual
    np.testing.assert_allclose(value, 0.5 + 4 / 16 + 8 * squares)
    np.testing.assert_allclose(bound.after([0, 2], 3.0), squares)
    assert bound.after([], 1.0).shape == (0,)


def test_full_batch_takes_an_infinite_theta():
    """theta^2 times no variance is zero, and times some it is infinite: no bound, and no nan."""
    etas = SETTINGS[1]
    still = [dict(client, variance=F(0)) for client in CLIENTS]
    full = ClientConstants.of(
        [1000, 2000], [1003, 2004], upper_squared=[2, 9], gradient=[3, 2], whole_gradient=[7, 4]
    )
    far = F(10**30)  # stands for infinity
    kappa, residual = rate_and_residual(etas, weights=[F(1, 2)] * 2, clients=still[:2], theta=far)
    for theta in (np.inf, np.float32(np.inf), 1e200):
        bound = theory.theorem1(full, K, TheoremParameters(theta=theta, eta_1=1.25))
        assert bound.kappa == pytest.approx(float(kappa))
        assert bound.residual == pytest.approx(float(residual))
    noisy = theory.theorem1(constants(), K)
    assert noisy.guarantees
    assert noisy.residual == np.inf
    assert np.isinf(noisy.nu).all()


def test_beta_1_is_that_by_hand():
    """rho^+ / (2 rho^- - rho^+), and infinite where the lemma says nothing."""
    assert theory.beta_1(2.0, 3.0) == 3
    assert theory.beta_1(1.0, 2.0) == np.inf


def test_beta_2_is_that_by_hand():
    """With theta, with eta_1, and infinite at the ends of the ranges."""
    assert theory.beta_2(2.0, 3.0, theta=0.5) == 2 * (3 + 4 - 2) / 2
    inexact = theory.beta_2(2.0, 3.0, eta_1=1.25, upper_squared=9.0)
    assert inexact == pytest.approx(1 + 2 * 0.6 * 28 / 2)
    several = theory.beta_2([2.0, 0.0, -1.0, 1e-320], 3.0)
    np.testing.assert_array_equal(several, [1.0, np.inf, np.inf, np.inf])
    assert theory.beta_2(1.0, 1.0, theta=1e-200) == np.inf


def test_beta_2_with_unbounded_variance_is_that_by_hand():
    """For several theta at once."""
    found = theory.beta_2_unbounded_variance(2, 3, 9, theta=[0.5, 1.0])
    np.testing.assert_allclose(found, [5 + 6 * 0.25 * 18 / 2, 2 + 6 * 18 / 2])


@pytest.mark.parametrize("ratio", [1.0, 1.05, 1.3, 1.9])
def test_lemma_2_holds_with_half_of_its_residual(ratio):
    """For random quadratics with 1 and `ratio` as ends of their spectrum, minimised on a random span."""
    rng = np.random.default_rng(0)
    beta_1, half = ratio / (2 - ratio), 1 / (ratio * (2 - ratio))
    shares = []
    for _ in range(500):
        basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        hessian = basis * [1, *rng.uniform(1, ratio, 2), ratio] @ basis.T
        x, gradient = rng.standard_normal(4), rng.standard_normal(4) * rng.uniform(0, 10)
        inside, outside = slice(2), slice(2, 4)
        # b solves H_SS b_S = (H x - gradient)_S, where `gradient` is that at x.
        b = np.zeros(4)
        b[inside] = np.linalg.solve(hessian[inside, inside], (hessian @ x - gradient)[inside])
        right = beta_1 * np.sum(x[outside] ** 2) + half * np.sum(gradient[inside] ** 2)
        shares.append(np.sum((b - x) ** 2) / right)
    assert max(shares) <= 1 + 1e-12
    # One hundredth less is too little: for ratio 1 nothing can be spared.
    assert ratio > 1 or max(shares) > 0.99


def test_client_without_lemma_2_leaves_no_guarantee():
    """With rho^+ = 2.5 rho^- nothing is known of it, whatever its weight."""
    constants = ClientConstants.of(
        [1.0, 1.0], [1.0, 2.5], gradient=[0.1, 0.0], weights=[1 - 1e-6, 1e-6]
    )
    bound = theory.theorem1(constants, 1)
    np.testing.assert_array_equal(bound.mu, [0, np.inf])
    assert np.isinf(bound.nu[1])
    assert np.isfinite(bound.nu[0])
    assert bound.kappa == np.inf
    assert not bound.guarantees


def test_kappa_of_one_is_no_guarantee():
    """rho = 1 and theta = 4: mu = 1/2 and kappa = 4 mu^2 = 1; nor is anything above."""
    client = ClientConstants.of(1.0, 1.0, gradient=0.1)
    for eta_3 in (1.0, 1.1):
        bound = theory.theorem1(client, 2, TheoremParameters(theta=4.0, eta_3=eta_3))
        assert bound.kappa == pytest.approx((2 * eta_3**2 + 2) / 4)
        assert not bound.guarantees
        assert bound.residual == np.inf
        drawn = theory.theorem_partial_participation(
            client, 2, 1, TheoremParameters(theta=4.0, eta_3=eta_3)
        )
        assert drawn.kappa >= 1
        assert drawn.residual == np.inf
        assert np.isinf(bound.after([0, 5], 1.0)).all()
    enough = theory.theorem1(client, 3, TheoremParameters(theta=4.0))
    assert enough.kappa == 0.5
    assert enough.guarantees
