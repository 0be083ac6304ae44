"""Constants and minimisers, against enumeration of supports and minibatches, and known matrices."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import gammaln

import fgmp
from fgmp import theory
from fgmp.theory import ClientConstants, TheoremParameters, measured


def supports(n, size):
    return map(list, combinations(range(n), size))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_restricted_constants_are_those_of_all_supports(seed, tau):
    """Inner and outer bounds enclose them."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((7, 6))
    w = rng.uniform(0, 2, 7)
    D = fgmp.Dictionary(rng.standard_normal((6, 5)))
    bases = [np.linalg.qr(D.atoms[:, S])[0] for S in supports(5, tau)]
    cases = [
        ({}, [B[:, S].T @ B[:, S] for S in supports(6, tau)]),
        ({"weights": w}, [B[:, S].T @ np.diag(w) @ B[:, S] for S in supports(6, tau)]),
        ({"dictionary": D}, [Q.T @ B.T @ B @ Q for Q in bases]),
    ]
    for options, hessians in cases:
        spectra = np.linalg.eigvalsh(hessians) / 7
        constants = theory.restricted_constants(B, tau, **options)
        assert constants.lower == pytest.approx(np.min(spectra), abs=1e-10)
        assert constants.upper == pytest.approx(np.max(spectra), rel=1e-7)
        inner = theory.inner_restricted_constants(B, tau, n_supports=5, **options)
        assert inner.lower >= constants.lower - 1e-12
        assert inner.upper <= constants.upper + 1e-7
        if not options:
            outer = theory.outer_restricted_constants(B, tau)
            assert outer.lower <= constants.lower + 1e-12
            assert outer.upper >= constants.upper - 1e-7
            if tau == 1:  # the diagonal of the Hessian, whose own spectrum is wider
                np.testing.assert_allclose(outer, constants, rtol=1e-7)
    tall = rng.standard_normal((9, 6))
    ends = theory.outer_restricted_constants(tall, 6), theory.restricted_constants(tall, 6)
    np.testing.assert_allclose(*ends, rtol=1e-7)


def test_greedy_search_nearly_reaches_the_constants():
    """In the median within a tenth."""
    ratios = []
    for seed in range(10):
        B = np.random.default_rng(seed).standard_normal((30, 14))
        exact = theory.restricted_constants(B, 4)
        inner = theory.inner_restricted_constants(B, 4, n_supports=1)
        ratios.append((inner.upper / exact.upper, exact.lower / inner.lower))
    assert np.median(ratios, axis=0).min() > 0.9


@pytest.mark.parametrize("batch_size", [None, 9])
def test_full_batch_is_measured_once(batch_size, monkeypatch):
    """Of each client the restricted constants of its rows, and those of its squared Hessian."""
    calls = []

    def counted(B, sparsity):
        calls.append(sparsity)
        return of_rows(B, sparsity)

    of_rows = theory.restricted_constants
    monkeypatch.setattr(measured, "restricted_constants", counted)
    fed = fgmp.make_sparse_regression(2, 9, 6, sparsity=1, rng=0)
    theory.measure_constants(fed, fed.truth, 1, batch_size=batch_size)
    assert calls == [4, 2] * 2


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("shape", [(40, 300), (300, 250)])
def test_largest_eigenvalue_of_many_columns_is_that_of_the_whole_spectrum(shape, shift):
    """A common mean makes it much larger than all others."""
    B = np.random.default_rng(0).standard_normal(shape) + shift
    found = measured._largest_eigenvalue(B.T @ B)
    assert found == pytest.approx(np.linalg.eigvalsh(B.T @ B)[-1], rel=1e-10)


def test_inner_constants_of_many_columns_are_those_by_hand():
    """Of a diagonal matrix its squares over the number of rows, and zero without any entry."""
    constants = theory.inner_restricted_constants(np.diag(np.arange(1.0, 301)), 2)
    assert constants == pytest.approx((1 / 300, 300.0))
    assert theory.inner_restricted_constants(np.zeros((4, 300)), 2) == (0, 0)


ORTHONORMAL = np.linalg.qr(np.random.default_rng(0).standard_normal((9, 6)))[0]
# Two columns of norm one with the inner product 0.3.
PAIR = np.array([[1.0, 0.3], [0.0, np.sqrt(1 - 0.3**2)]])


def test_restricted_constants_of_orthonormal_columns_are_equal():
    """36 / 9 rows, on any support."""
    np.testing.assert_allclose(theory.restricted_constants(6 * ORTHONORMAL, 3), [4, 4])


def test_restricted_constants_of_equal_columns_are_zero():
    """Both columns are on one support, and the condition number is that of rounding."""
    twice = np.column_stack([ORTHONORMAL, ORTHONORMAL[:, 0]])
    assert theory.restricted_constants(twice, 2).lower == pytest.approx(0, abs=1e-12)
    assert theory.restricted_constants(np.ones((3, 2)), 2).condition > 1e12


def test_restricted_constants_of_two_columns_are_those_by_hand():
    """(1 +- 0.3) / 2, and the outer bound for single columns is their norm."""
    np.testing.assert_allclose(theory.restricted_constants(PAIR, 2), [0.35, 0.65])
    assert theory.outer_restricted_constants(PAIR, 1).upper == pytest.approx(0.5)


def test_restricted_constants_of_a_diagonal_matrix_are_its_squares():
    """The smallest and the largest over the number of rows, and their ratio."""
    constants = theory.restricted_constants(np.diag([1.0, 2.0, 3.0]), 2)
    assert (*constants, constants.condition) == pytest.approx((1 / 3, 3.0, 9.0))


def test_stable_rank_of_known_matrices():
    """Six orthonormal columns have six, and a matrix of rank one has one."""
    assert theory.stable_rank(ORTHONORMAL) == pytest.approx(6)
    assert theory.stable_rank(np.ones((4, 5))) == pytest.approx(1)


def test_gaussian_width_is_the_mean_norm_of_largest_entries():
    """With the error of a mean, and near the closed form."""
    entries = np.abs(np.random.default_rng(0).standard_normal((2000, 5)))
    norms = np.array([np.linalg.norm(np.sort(row)[-2:]) for row in entries])
    width, error = theory.gaussian_width(5, 2)
    assert width == pytest.approx(norms.mean())
    assert error == pytest.approx((np.sum((norms - norms.mean()) ** 2) / 1999 / 2000) ** 0.5)
    whole, error = theory.gaussian_width(50, 50)
    assert abs(whole - np.sqrt(2) * np.exp(gammaln(51 / 2) - gammaln(25))) < 5 * error


def squared(m=5, n=6, n_clients=2, averaged=True):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((m, n)) for _ in range(n_clients)]
    loss = fgmp.SquaredLoss(averaged=averaged)
    return fgmp.Federation.from_arrays(
        As, [rng.standard_normal(m) for _ in As], loss, weights=[1, 3][:n_clients]
    )


def gradients_of_minibatches(client, x, batch_size):
    """A sum over the rows of the minibatch, or their mean, from the gradients of single rows."""
    one = [client.gradient(x, np.array([k])) for k in range(client.n_samples)]
    scale = 1 / batch_size if client.loss.averaged else 1
    return [
        scale * sum(one[k] for k in batch)
        for batch in combinations(range(client.n_samples), batch_size)
    ]


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_measured_constants_are_those_of_enumeration(batch_size):
    """n = 6 and tau = 1: 4 of 6 columns for curvatures, 2 of 6 for the gradient.

    At most ten minibatches.
    """
    fed = squared()
    x = np.array([0, 1.0, 0, 0, 0, 0])
    found = theory.measure_constants(
        fed, x, 1, batch_size=batch_size, n_minibatches=comb(5, batch_size or 5)
    )
    for i, client in enumerate(fed.clients):
        batches = (
            [np.arange(5)]
            if batch_size is None
            else [np.array(b) for b in combinations(range(5), batch_size)]
        )
        hessians = [client.features[rows].T @ client.features[rows] / len(rows) for rows in batches]
        whole = client.features.T @ client.features / 5
        lowest = min(np.linalg.eigvalsh(whole[np.ix_(S, S)])[0] for S in supports(6, 4))
        curvatures = [
            max(np.linalg.norm(H[np.ix_(S, S)], 2) for S in supports(6, 4)) for H in hessians
        ]
        lipschitz = [max(np.linalg.norm(H[:, S], 2) for S in supports(6, 2)) for H in hessians]
        gradient = client.features.T @ (client.features @ x - client.targets) / 5
        deviations = [
            np.sum((g - gradient) ** 2)
            for g in gradients_of_minibatches(client, x, batch_size or 5)
        ]
        assert found.lower[i] == pytest.approx(lowest)
        assert found.upper[i] == pytest.approx(np.mean(curvatures))
        assert found.upper_squared[i] == pytest.approx(np.mean(np.square(lipschitz)))
        assert found.gradient[i] == pytest.approx(
            max(np.sum(gradient[S] ** 2) for S in supports(6, 4))
        )
        assert found.whole_gradient[i] == pytest.approx(gradient @ gradient)
        assert found.variance[i] == pytest.approx(np.mean(deviations), abs=1e-12)
    np.testing.assert_allclose(found.weights, [0.25, 0.75])
    thin = fgmp.Federation.from_arrays(
        [csr_array(c.features) for c in fed.clients], [c.targets for c in fed.clients]
    )
    sparse = theory.measure_constants(
        thin, x, 1, batch_size=batch_size, n_minibatches=comb(5, batch_size or 5)
    )
    for name in ("lower", "upper", "upper_squared", "gradient", "variance"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(found, name), atol=1e-12)
    assert theory.heterogeneity(fed, x) == pytest.approx(
        np.sqrt(found.weights @ found.whole_gradient)
    )


def test_mean_over_minibatches_is_not_below_the_full_batch():
    """By Jensen's inequality; a few draws could miss the one row that matters."""
    for column in range(5):
        fed = fgmp.Federation.from_arrays([30 * np.eye(30)[:, [column]]], [np.zeros(30)])
        found = theory.measure_constants(fed, [0.0], 1, batch_size=1, n_minibatches=3)
        assert found.lower[0] == pytest.approx(30)
        assert found.upper[0] >= 30


def test_drawn_minibatches_are_near_the_mean_of_all():
    """Within a tenth, and not the same."""
    fed = squared(m=12, n=4, n_clients=1)
    options = {"batch_size": 6}
    exact = theory.measure_constants(fed, np.zeros(4), 1, n_minibatches=comb(12, 6), **options)
    drawn = theory.measure_constants(fed, np.zeros(4), 1, n_minibatches=200, **options)
    for name in ("upper", "upper_squared"):
        assert (
            getattr(exact, name)
            != getattr(drawn, name)
            == pytest.approx(getattr(exact, name), rel=0.1)
        )


def test_constants_of_a_summed_loss_have_its_unit():
    """The number of rows to the power of the constant."""
    one = theory.measure_constants(squared(averaged=True), np.ones(6), 1)
    other = theory.measure_constants(squared(averaged=False), np.ones(6), 1)
    powers = {"lower": 1, "upper": 1, "upper_squared": 2, "gradient": 2, "whole_gradient": 2}
    for name, power in powers.items():
        np.testing.assert_allclose(getattr(other, name), 5**power * getattr(one, name))


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 4, 5])
def test_minibatch_variance_is_that_of_enumeration(batch_size, averaged):
    """For means and for sums; a full batch has none."""
    (client,) = squared(n_clients=1, averaged=averaged).clients
    x = np.random.default_rng(5).standard_normal(6)
    deviations = [
        np.sum((g - client.gradient(x)) ** 2)
        for g in gradients_of_minibatches(client, x, batch_size)
    ]
    assert theory.minibatch_variance(client, x, batch_size) == pytest.approx(
        np.mean(deviations), rel=1e-12
    )
    assert theory.minibatch_variance(client, x, None) == 0


def test_constant_that_cannot_be_enumerated_is_nan():
    """Too few rows have no guarantee."""
    fed = squared(m=20, n=21, n_clients=1)  # 4 tau is above n: one support; 2 tau: 293,930
    found = theory.measure_constants(fed, np.zeros(21), 6)
    assert np.isnan(found.upper_squared).all()
    assert not theory.theorem1(found, 1).guarantees


def test_number_as_constant_stands_for_all_clients():
    """Constants become float64, and those that are not given are nan."""
    constants = ClientConstants.of(
        1, [1.0, 2.0], weights=np.array([1, 3], np.int8), gradient=np.float32(0.5)
    )
    np.testing.assert_array_equal(constants.lower, [1, 1])
    np.testing.assert_array_equal(constants.gradient, [0.5, 0.5])
    np.testing.assert_array_equal(constants.weights, [0.25, 0.75])
    assert {getattr(constants, name).dtype for name in ("lower", "gradient", "weights")} == {
        np.dtype(float)
    }
    assert np.isnan(constants.whole_gradient).all()
    assert np.isnan(constants.upper_squared).all()
    np.testing.assert_array_equal(ClientConstants.of(1.0, 1.0).whole_gradient, [0.0])


def slope(federation, x):
    return sum(
        p * client.gradient(x)
        for p, client in zip(federation.weights, federation.clients, strict=True)
    )


def lowest_on(federation, support):
    """Return the minimiser of the quadratic f on a support, from gradients at n + 1 points."""
    units = np.eye(federation.n_features)[support]
    x = np.zeros(federation.n_features)
    zero = slope(federation, x)
    hessian = np.array([slope(federation, unit)[support] - zero[support] for unit in units])
    x[support] = np.linalg.solve(hessian, -zero[support])
    return x


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("weights", [None, (0.9, 0.1), (0.05, 0.95)])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_sparse_minimiser_is_the_best_of_all_supports(averaged, weights, sparsity):
    """For clients of 3 and 8 rows that disagree."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        As = [rng.standard_normal((m, 6)) for m in (3, 8)]
        ys = [A @ rng.standard_normal(6) for A in As]
        federation = fgmp.Federation.from_arrays(
            As, ys, fgmp.SquaredLoss(averaged=averaged), weights
        )
        best = min(
            (lowest_on(federation, S) for S in supports(6, sparsity)), key=federation.objective
        )
        np.testing.assert_allclose(theory.sparse_minimiser(federation, sparsity), best, atol=1e-9)


def test_sparse_minimiser_of_equal_columns_takes_the_first():
    """Ties break to the lower index."""
    column = np.arange(1.0, 5.0)
    federation = fgmp.Federation.from_arrays(
        [np.column_stack([column, column, -column])], [2 * column]
    )
    np.testing.assert_allclose(theory.sparse_minimiser(federation, 1), [2, 0, 0], atol=1e-12)


FLAT = fgmp.Dictionary(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))  # three atoms in a plane
LABELS = fgmp.Federation.from_arrays([np.eye(2)], [[-1.0, 1.0]], loss="logistic")
MANY = fgmp.Federation.from_arrays([np.ones((2, 110))], [np.ones(2)])
PARTLY_KNOWN = ClientConstants.of(1.0, 1.1, gradient=0.1, upper_squared=2.0)
INEXACT = TheoremParameters(eta_1=1.1)
REFUSED = {
    "whole_gradient is not known; expected": lambda: theory.theorem1(PARTLY_KNOWN, 1, INEXACT),
    "upper_squared is not known": lambda: theory.theorem1(ClientConstants.of(1.0, 1.1), 1, INEXACT),
    "variance is -0.2 at least once": lambda: ClientConstants.of(
        [1.0, 1.0], 1.0, variance=[0.1, -0.2]
    ),
    r"has about 10\^486.8 supports; expected at most": lambda: theory.restricted_constants(
        np.ones((3, 2000)), 500
    ),
    "3 linearly dependent atoms": lambda: theory.inner_restricted_constants(
        np.eye(2), 3, dictionary=FLAT
    ),
    r"has the loss LogisticLoss\(": lambda: theory.sparse_minimiser(LABELS, 1),
    "do not have the mean": lambda: theory.measure_constants(
        squared(averaged=False), np.ones(6), 1, batch_size=2
    ),
    "sparsity is 3, which has about 10\\^5.3 supports; expected at most": lambda: (
        theory.sparse_minimiser(MANY, 3)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_constant_that_cannot_be_measured_is_refused_by_name(message):
    """The message says what is missing."""
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()
