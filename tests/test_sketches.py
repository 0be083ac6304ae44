"""Sketches against sums taken by hand and frequencies that were counted; elimination against all subsets."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.methods.elimination import eliminated
from fgmp.methods.sketches import Hashes
from fgmp.models import SparseModel
from fgmp.selection import Overall


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000), st.integers(1, 4), st.integers(2, 9), st.integers(10, 40), st.sampled_from([(), (1,), (3,)])
)
def test_a_sketch_is_the_signed_sums_of_its_buckets(seed, rows, columns, n_atoms, outputs):
    rng = np.random.default_rng(seed)
    hashes, gradient = Hashes.drawn(rng, rows, columns, n_atoms), rng.standard_normal((n_atoms, *outputs))
    signs = np.array([matrix.toarray() for matrix in hashes.matrices])
    found = hashes.sketch(np.asfortranarray(gradient))
    np.testing.assert_allclose(found, np.einsum("rca,a...->rc...", signs, gradient), atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(2, 9), st.integers(10, 40), st.sampled_from([(), (2,)]))
def test_an_estimate_is_the_median_over_the_rows(seed, rows, columns, n_atoms, outputs):
    rng = np.random.default_rng(seed)
    hashes, sketch = Hashes.drawn(rng, rows, columns, n_atoms), rng.standard_normal((rows, columns, *outputs))
    signs = np.array([matrix.toarray() for matrix in hashes.matrices])
    estimates = np.einsum("rca,rc...->ra...", signs, sketch)
    np.testing.assert_allclose(hashes.estimate(sketch), np.median(estimates, axis=0), atol=1e-15)


def test_hashes_deal_evenly_and_with_both_signs():
    """Every atom once in each row, buckets that differ by one at most, and pairs that meet as seldom as promised."""
    rng, n_atoms, columns, together = np.random.default_rng(0), 23, 5, 0
    for _ in range(400):
        hashes = Hashes.drawn(rng, 3, columns, n_atoms)
        signs = np.array([matrix.toarray() for matrix in hashes.matrices])
        assert (np.abs(signs).sum(axis=1) == 1).all() and {-1, 1} <= set(np.unique(signs)) <= {-1, 0, 1}
        assert set(np.abs(signs).sum(axis=2).ravel()) <= {4, 5}
        bucket = np.abs(signs).argmax(axis=1)
        together += np.count_nonzero(bucket[:, 3] == bucket[:, 17])
    assert together / 1200 == pytest.approx(1 / columns, abs=0.04) and together / 1200 < 1 / columns


def test_the_bound_of_the_default_is_the_one_of_the_documentation():
    for tau in (5, 10, 100):
        assert fgmp.CountSketch().failure_probability(tau**-0.5, tau) == pytest.approx(3 / 14**2 - 2 / 14**3, rel=1e-12)
    assert fgmp.CountSketch(5, 10).failure_probability(0.1) == 1


def test_a_run_deals_anew_in_every_round_and_twice_the_same():
    federation = fgmp.make_sparse_regression(10, 8, 300, 4, 0.5, rng=0)
    method = fgmp.SharedSupportGradMP(4, fgmp.CountSketch(3, 12))
    alone, shared = (fgmp.simulate(method, federation, 6, rng=seed) for seed in (0, 1))
    np.testing.assert_array_equal(alone.x, shared.x)  # the seed is the method's, which clients have
    other = fgmp.simulate(replace(method, seed=1), federation, 6, rng=0)
    assert not np.array_equal(alone.history["objective"], other.history["objective"])
    x, client = method.start(federation.shape).model, federation.clients[0]
    first, again, next_round = (method.at_client(client, (x, number), None) for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.isin(np.abs(first), np.abs(next_round)).all()


def test_a_sketch_that_is_no_shorter_is_the_gradient():
    federation = fgmp.make_sparse_regression(6, 8, 40, 2, 0.5, rng=0)
    whole, sketched = (fgmp.SharedSupportGradMP(2, fgmp.CountSketch(5, columns)) for columns in (8, 7))
    ups = [fgmp.simulate(method, federation, 1, rng=0).history["bytes_up"][-1] for method in (whole, sketched)]
    assert (np.array(ups) - 6 * 8 * (4 * 5 // 2 + 4)).tolist() == [6 * 8 * 40, 6 * 8 * 35]


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seed", [3, 4])
def test_five_samples_a_client_are_exact_from_sums_only(alpha, seed):
    """GradMP on the pooled data circles on both seeds for alpha of 1 or more."""
    few = dict(n_clients=50, n_samples=5, n_features=1000, sparsity=10, variance_decay=1.1)
    federation = fgmp.make_sparse_regression(**few, heterogeneity=alpha, rng=seed)
    result = fgmp.simulate(fgmp.SharedSupportGradMP(10), federation, 20, rng=seed)
    assert result.history["relative_error"][-1] < 1e-10
    printed = fgmp.SharedSupportGradMP(10, fgmp.CountSketch(1, 1000), pruning="largest")
    error = fgmp.simulate(printed, federation, 40, rng=seed).history["relative_error"]
    circles = error[-1] > 1e-3 and any(np.allclose(error[-12:], error[-12 - p : -p], rtol=1e-6) for p in range(1, 13))
    assert circles == (alpha > 0)
    one = fgmp.SharedSupportGradMP(10, fgmp.CountSketch(1, 1000))
    assert fgmp.simulate(one, federation.pooled(), 20, rng=0).history["relative_error"][-1] < 1e-10


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_elimination_takes_one_atom_after_another_whose_loss_costs_least(seed, tau):
    """Against least squares on every smaller set, and never above the atoms there were."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((30, 6)) @ np.diag(rng.choice([0.01, 1, 100], 6))
    y = rng.standard_normal(30)

    def residual(atoms):
        return np.sum((y - A[:, atoms] @ np.linalg.lstsq(A[:, atoms], y, rcond=None)[0]) ** 2)

    kept = list(range(6))
    while len(kept) > tau:
        kept = list(min(combinations(kept, len(kept) - 1), key=lambda atoms: residual(list(atoms))))
    before = np.sort(rng.choice(6, tau, replace=False))
    expected = list(before) if residual(list(before)) < residual(kept) else kept
    b = SparseModel(10 + np.arange(6), np.linalg.lstsq(A, y, rcond=None)[0], (20,))
    found = eliminated(b, A.T @ A, 10 + before, tau, fgmp.PerOutput())
    np.testing.assert_array_equal(found.support, 10 + np.array(expected))
    fitted = A[:, expected] @ np.linalg.lstsq(A[:, expected], y, rcond=None)[0]
    np.testing.assert_allclose(A[:, expected] @ found.values, fitted, atol=1e-8)


def test_elimination_counts_as_the_selection_does():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((40, 12)), SparseModel(np.arange(12), rng.standard_normal(12), (4, 3))
    for selection, size in (
        (fgmp.PerOutput(), 6),
        (Overall(), 2),
        (fgmp.PerAtom(), 6),
        (fgmp.PerAtom((1,)), 9),
    ):
        found = eliminated(b, A.T @ A, np.empty(0, np.intp), 2, selection)
        assert selection.holds(found.support, (4, 3), 2)
        assert len(found.support) == size and (1 not in selection.always or {3, 4, 5} <= set(found.support))


def test_elimination_bears_fewer_samples_than_atoms():
    """Of many minimisers it takes one of two atoms, and fits these by least squares."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((8, 12)), rng.standard_normal(8)
    b = SparseModel(np.arange(12), np.linalg.lstsq(A, y, rcond=None)[0], (12,))
    found = eliminated(b, A.T @ A, np.empty(0, np.intp), 2, fgmp.PerOutput())
    columns = A[:, found.support]
    np.testing.assert_allclose(found.values, np.linalg.lstsq(columns, y, rcond=None)[0], atol=1e-9)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_with_all_clients_the_objective_never_rises(seed):
    federation = fgmp.make_sparse_regression(10, 6, 60, 4, 2.0, variance_decay=1.1, noise_variance=0.1, rng=seed)
    objective = fgmp.simulate(fgmp.SharedSupportGradMP(4), federation, 12, rng=seed).history["objective"]
    assert (np.diff(objective) <= 1e-10 * objective[0]).all()


def test_elimination_never_ends_above_the_atoms_of_the_last_model():
    """Where these are the best of all subsets they stay, also where going backwards alone would drop one of them."""
    rng, misled = np.random.default_rng(0), 0
    for _ in range(100):
        A = rng.standard_normal((12, 7)) + 2 * rng.standard_normal((12, 1))
        y = rng.standard_normal(12)

        def residual(atoms, A=A, y=y):
            columns = A[:, list(atoms)]
            return np.sum((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2)

        best = np.array(min(combinations(range(7), 2), key=residual))
        b = SparseModel(np.arange(7), np.linalg.lstsq(A, y, rcond=None)[0], (7,))
        np.testing.assert_array_equal(eliminated(b, A.T @ A, best, 2, fgmp.PerOutput()).support, best)
        alone = eliminated(b, A.T @ A, np.empty(0, np.intp), 2, fgmp.PerOutput()).support
        misled += not np.array_equal(alone, best)
    assert misled > 5
