"""Restricted constants against brute force and known matrices; the theorems against numbers worked out by hand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp import theory
from fgmp.theory import ClientConstants, TheoremParameters


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_enumeration_is_brute_force(seed, tau):
    rng = np.random.default_rng(seed)
    B, w = rng.standard_normal((7, 6)), rng.uniform(0, 2, 7)
    D = fgmp.Dictionary(rng.standard_normal((6, 5)))
    spectra, weighted, inside = [], [], []
    for S in map(list, combinations(range(6), tau)):
        spectra.append(np.linalg.eigvalsh(B[:, S].T @ B[:, S] / 7))
        weighted.append(np.linalg.eigvalsh(B[:, S].T @ np.diag(w) @ B[:, S] / 7))
    for S in map(list, combinations(range(5), tau)):
        Q = np.linalg.qr(D.atoms[:, S])[0]
        inside.append(np.linalg.eigvalsh(Q.T @ B.T @ B @ Q / 7))
    for options, found in (({}, spectra), ({"weights": w}, weighted), ({"dictionary": D}, inside)):
        constants = theory.restricted_constants(B, tau, **options)
        assert constants.lower == pytest.approx(np.min(found), abs=1e-10)
        assert constants.upper == pytest.approx(np.max(found), rel=1e-7)


def test_the_greedy_search_nearly_reaches_the_constants():
    ratios = []
    for seed in range(10):
        B = np.random.default_rng(seed).standard_normal((30, 14))
        exact, inner = theory.restricted_constants(B, 4), theory.inner_restricted_constants(B, 4, n_supports=1)
        ratios.append((inner.upper / exact.upper, exact.lower / inner.lower))
    assert np.median(ratios, axis=0).min() > 0.9


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.1, 10))
def test_constants_are_monotone_in_tau_and_scale_with_the_square(seed, factor):
    B = np.random.default_rng(seed).standard_normal((9, 7))
    constants = [theory.restricted_constants(B, tau) for tau in range(1, 8)]
    assert all(np.diff([c.lower for c in constants]) <= 1e-12)
    assert all(np.diff([c.upper for c in constants]) >= -1e-12)
    scaled = theory.restricted_constants(factor * B, 3)
    assert scaled.upper == pytest.approx(factor**2 * constants[2].upper)
    assert scaled.condition == pytest.approx(constants[2].condition)


def test_known_matrices():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 6)))[0]
    assert theory.rip_constant(Q, 3) == pytest.approx(0, abs=1e-12)
    assert theory.rip_constant(2 * Q, 3) == pytest.approx(3)
    assert theory.stable_rank(Q) == pytest.approx(6)
    assert theory.stable_rank(np.ones((4, 5))) == pytest.approx(1)
    twins = np.column_stack([Q, Q[:, 0]])
    assert theory.rip_constant(twins, 2) == pytest.approx(1)
    cosine = 0.3
    pair = np.array([[1.0, cosine], [0.0, np.sqrt(1 - cosine**2)]])
    assert theory.rip_constant(pair, 2) == pytest.approx(cosine)
    constants = theory.restricted_constants(np.diag([1.0, 2.0, 3.0]), 2)
    assert (constants.lower, constants.upper) == pytest.approx((1 / 3, 3.0))
    assert theory.restricted_constants(np.ones((3, 2)), 2).condition > 1e12


def test_gaussian_matrices_have_the_rip_of_the_literature():
    """||delta_1 column norms|| concentrate like chi-square, and delta falls like 1/sqrt(m)."""
    deltas = []
    for m in (200, 800, 3200):
        trials = [np.random.default_rng(s).standard_normal((m, 12)) / np.sqrt(m) for s in range(5)]
        deltas.append(np.median([theory.rip_constant(B, 3) for B in trials]))
    slope = np.polyfit(np.log([200, 800, 3200]), np.log(deltas), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


@pytest.mark.parametrize("n, tau", [(50, 1), (50, 5), (50, 50)])
def test_gaussian_width_lies_below_its_bound(n, tau):
    width, error = theory.gaussian_width(n, tau)
    assert width < theory.gaussian_width_bound(n, tau)
    if tau == n:
        from scipy.special import gammaln

        chi = np.sqrt(2) * np.exp(gammaln((n + 1) / 2) - gammaln(n / 2))
        assert abs(width - chi) < 5 * error


@pytest.mark.parametrize("n, tau", [(1000, 10), (20_000, 300)])
def test_the_bound_of_the_width_for_binomials_that_no_float_holds(n, tau):
    """log binomial(n, tau) as a sum; the issue is not its size but that NumPy takes no logarithm of a large integer."""
    logarithm = np.sum(np.log(np.arange(n - tau + 1, n + 1)) - np.log(np.arange(1, tau + 1)))
    expected = np.sqrt(tau) + np.sqrt(2 * logarithm)
    assert theory.gaussian_width_bound(np.int64(n), np.int32(tau)) == pytest.approx(expected, rel=1e-12)
    assert theory.gaussian_width_bound(7, 7) == pytest.approx(np.sqrt(7))


def test_the_width_is_the_mean_of_the_norms_of_the_largest_entries():
    entries = np.abs(np.random.default_rng(0).standard_normal((2000, 5)))
    norms = np.array([np.linalg.norm(np.sort(row)[-2:]) for row in entries])
    width, error = theory.gaussian_width(5, 2)
    assert width == pytest.approx(norms.mean())
    assert error == pytest.approx((np.sum((norms - norms.mean()) ** 2) / 1999 / 2000) ** 0.5)


def test_betas_by_hand():
    assert theory.beta_1(1.0, 1.0) == pytest.approx(1)
    assert theory.beta_1(2.0, 3.0) == pytest.approx(3)
    assert theory.beta_1(1.0, 2.0) == np.inf
    assert theory.beta_2(1.0, 1.0) == pytest.approx(0)
    assert theory.beta_2(2.0, 3.0, theta=0.5) == pytest.approx(2 * (3 + 4 - 2) / 2)
    slack = np.sqrt(3) / 2
    assert theory.beta_2(2.0, 3.0, eta_1=2.0, upper_squared=9.0) == pytest.approx(1 + 2 * slack * 28 / 2)
    assert theory.beta_2_unbounded_variance(2.0, 3.0, 9.0, theta=0.5) == pytest.approx(5 + 6 * 0.25 * 18 / 2)


def test_theorem1_by_hand():
    """Two clients with condition numbers 1.05 and 1: mu = 4 b1 b2, kappa = 4 (mu_1^K + mu_2^K)/2."""
    constants = ClientConstants.of([1.0, 1.0], [1.05, 1.0], gradient=[0.01, 0.02])
    bound = theory.theorem1(constants, 2)
    b1, b2 = 1.05 / 0.95, 2 * 0.05
    mu = 4 * b1 * b2
    nu = 4 * np.array([b1 * 8 * 0.01 + 4 * 0.01 / (1.05 * 0.95), 8 * 0.02 + 4 * 0.02])
    np.testing.assert_allclose(bound.mu, [mu, 0], atol=1e-12)
    np.testing.assert_allclose(bound.nu, nu)
    assert bound.kappa == pytest.approx(2 * mu**2)
    assert bound.residual == pytest.approx(4 * (nu[0] * (1 + mu) + nu[1]) / 2 / (1 - 2 * mu**2))
    np.testing.assert_allclose(bound.after([0, 1], 3.0), bound.residual + np.array([3, 3 * bound.kappa]))
    assert str(bound).startswith("kappa = 0.391")


def test_no_guarantee_is_said_not_computed():
    bound = theory.theorem1(ClientConstants.of(1.0, 1.2), 1)
    assert not bound.guarantees and bound.residual == np.inf
    assert np.isinf(bound.after([0, 5], 1.0)).all()
    assert "no guarantee" in str(bound)
    assert not theory.theorem1(ClientConstants.of(1.0, 2.5), 3).guarantees


def test_the_variants_by_hand():
    constants = ClientConstants.of([1.0, 1.0, 1.0], [1.0, 1.01, 1.02], gradient=0.01, variance=0.03)
    exact = theory.theorem1(constants, 3, TheoremParameters(theta=10.0))
    inexact = theory.theorem_inexact(constants, 3, 0.1, TheoremParameters(theta=10.0))
    np.testing.assert_allclose(inexact.mu, 2 * exact.mu)
    np.testing.assert_allclose(inexact.nu, 2 * exact.nu + 8 * 0.01)
    assert theory.theorem_inexact(constants, 3, 0.0, TheoremParameters(theta=10.0)).kappa == pytest.approx(
        8 * exact.kappa
    )
    part = theory.theorem_partial_participation(constants, 3, 2, TheoremParameters(theta=10.0))
    assert part.kappa == pytest.approx(4 * np.sort(exact.mu**3)[1:].mean())
    whole = theory.theorem_partial_participation(constants, 3, 3, TheoremParameters(theta=10.0))
    assert whole.kappa == pytest.approx(exact.kappa)
    in_turn = 4 * np.mean(exact.nu * (1 + exact.mu + exact.mu**2)) / (1 - exact.kappa)
    assert whole.residual == pytest.approx(in_turn) and exact.residual < in_turn
    assert part.kappa >= whole.kappa
    constants = ClientConstants.of([1.0, 1.0, 1.0], [1.0, 1.01, 1.02], upper_squared=1.1)
    free = theory.theorem_unbounded_variance(constants, 3, [0.0, 0.0, 0.0], TheoremParameters(theta=0.05))
    np.testing.assert_allclose(free.beta_1, exact.beta_1)
    slow = theory.beta_2_unbounded_variance(constants.lower, constants.upper, constants.upper_squared, theta=0.05)
    np.testing.assert_allclose(free.beta_2, slow)


def test_the_corollary_by_hand():
    bound = theory.theorem1(ClientConstants.of(1.0, 1.0, gradient=0.01), 1)
    value = theory.objective_bound(bound, 4, 1.0, objective=0.5, gradient=0.04, smoothness=2.0)
    assert value == pytest.approx(0.5 + 0.01 + 2 * bound.residual)


def orthonormal_clients(noise=0.0, n_clients=4, n_samples=64, n_features=8, seed=0):
    """Clients with A_i'A_i = |D_i| I up to a small perturbation: restricted condition numbers near one."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(n_features)
    truth[[1, 5]] = [1.0, -0.5]
    As = []
    for _ in range(n_clients):
        Q = np.linalg.qr(rng.standard_normal((n_samples, n_features)))[0]
        As.append(np.sqrt(n_samples) * Q @ (np.eye(n_features) + 0.005 * rng.standard_normal((n_features,) * 2)))
    ys = [A @ truth + noise * rng.standard_normal(n_samples) for A in As]
    return fgmp.Federation.from_arrays(As, ys, truth=truth)


def test_measured_constants_are_those_of_the_formulas():
    fed = orthonormal_clients(noise=0.1)
    constants = theory.measure_constants(fed, fed.truth, 2)
    for i, client in enumerate(fed.clients):
        eigenvalues = np.linalg.eigvalsh(client.features.T @ client.features / 64)
        assert constants.lower[i] == pytest.approx(eigenvalues[0])
        assert constants.upper[i] == pytest.approx(eigenvalues[-1])
        gradient = client.features.T @ (client.features @ fed.truth - client.targets) / 64
        assert constants.whole_gradient[i] == pytest.approx(gradient @ gradient)
        assert constants.gradient[i] == pytest.approx(gradient @ gradient)
    assert theory.heterogeneity(fed, fed.truth) == pytest.approx(np.sqrt(constants.weights @ constants.whole_gradient))
    assert theory.heterogeneity(orthonormal_clients(), fed.truth) == pytest.approx(0, abs=1e-12)
    batches = theory.measure_constants(fed, fed.truth, 2, batch_size=32)
    assert (batches.upper > constants.upper).all() and (batches.variance > 0).all()


def test_the_bound_holds_on_runs():
    fed = orthonormal_clients(noise=0.1)
    bound = theory.theorem1(theory.measure_constants(fed, fed.truth, 2), 3)
    assert bound.guarantees
    errors = fgmp.simulate(fgmp.FedGradMP(2), fed, rounds=6).history["relative_error"] ** 2
    initial = float(fed.truth @ fed.truth)
    assert np.all(errors * initial <= bound.after(np.arange(7), initial))


FLAT = fgmp.Dictionary(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))  # three atoms in a plane


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: theory.restricted_constants(np.eye(4), 5), "sparsity is 5; expected an integer from 1 to 4"),
        (lambda: theory.restricted_constants(np.ones((3, 60)), 10), "inner_restricted_constants and outer"),
        (lambda: theory.restricted_constants(np.full((2, 2), np.nan), 1), "B holds 4 values that are not finite"),
        (lambda: theory.restricted_constants(np.eye(3), 1, weights=[1, 2]), r"weights has shape \(2,\)"),
        (lambda: theory.stable_rank(np.zeros((2, 2))), "B is zero"),
        (lambda: theory.rip_constant(np.eye(3), 0), "sparsity is 0"),
        (lambda: theory.rip_constant(np.ones((3, 2000)), 500), r"has about 10\^486.8 supports; expected at most"),
        (lambda: theory.restricted_constants(np.ones((0, 3)), 1), r"B has shape \(0, 3\); expected at least one row"),
        (lambda: theory.outer_restricted_constants(np.ones((3, 0)), 1), r"B has shape \(3, 0\)"),
        (lambda: theory.stable_rank(np.ones((0, 3))), r"B has shape \(0, 3\)"),
        (lambda: theory.rip_constant(np.ones((0, 3)), 1), r"B has shape \(0, 3\)"),
        (
            lambda: theory.restricted_constants(np.eye(3), 1, weights=[1, 1, -1]),
            "weights is -1 at least once; expected one of at least 0",
        ),
        (lambda: theory.restricted_constants(np.eye(3), 1, weights=[1, 1, np.nan]), "weights holds 1 values"),
        (lambda: theory.restricted_constants(np.eye(3), 1, dictionary=np.eye(3)), "dictionary is a ndarray of shape"),
        (
            lambda: theory.restricted_constants(np.eye(4), 1, dictionary=fgmp.Dictionary(np.eye(3))),
            "B has 4 columns; expected 3, as dictionary has",
        ),
        (lambda: theory.restricted_constants(np.eye(2), 3, dictionary=FLAT), "3 linearly dependent atoms"),
        (lambda: theory.inner_restricted_constants(np.eye(2), 3, dictionary=FLAT), "3 linearly dependent atoms"),
        (lambda: theory.inner_restricted_constants(np.eye(3), 1, n_supports=0), "n_supports is 0"),
        (lambda: theory.gaussian_width(0, 1), "^n_features is 0"),
        (lambda: theory.gaussian_width(3, 4), r"sparsity is 4; .* 1 to 3 \(the number of features\)"),
        (lambda: theory.gaussian_width(3, 1, rng=-1), "^rng is -1"),
        (lambda: theory.gaussian_width_bound(0, 1), "^n_features is 0"),
        (lambda: theory.gaussian_width_bound(3, 4), r"sparsity is 4; .* 1 to 3 \(the number of features\)"),
        (lambda: theory.theorem1(ClientConstants.of(1.0, 1.0), 0), "local_iterations is 0"),
        (lambda: theory.theorem1(ClientConstants.of(1.0, 1.0), 1, TheoremParameters(eta_1=0.5)), "eta_1 is 0.5"),
        (lambda: theory.theorem1(ClientConstants.of(1.0, 1.0), 1, TheoremParameters(theta=0)), "theta is 0"),
        (lambda: theory.theorem_inexact(ClientConstants.of(1.0, 1.0), 1, -1), "accuracy is -1"),
        (lambda: theory.theorem_partial_participation(ClientConstants.of(1.0, 1.0), 1, 2), "cohort_size is 2"),
        (lambda: ClientConstants.of(0.0, 1.0), "expected 0 < lower <= upper"),
        (lambda: ClientConstants.of(2.0, 1.0), "expected 0 < lower <= upper"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
