"""Median and trimmed mean against NumPy, SciPy and rows written out; and what they bear."""

import numpy as np
import pytest
from garbage import lie
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

import fgmp
from fgmp.models import SparseModel
from fgmp.running.faults import Changed

RATE = {"learning_rate": 0.3, "local_iterations": 2}


def alike(count):
    return np.full(count, 1 / count)


@pytest.mark.parametrize("count", range(1, 12))
def test_with_equal_weights_these_are_the_textbooks(count):
    values = np.random.default_rng(count).standard_normal((count, 50))
    np.testing.assert_allclose(fgmp.Median().of_columns(values, alike(count)), np.median(values, axis=0), atol=1e-15)
    for cut in range((count + 1) // 2):
        expected = trim_mean(values, (cut + 0.01) / count, axis=0)
        np.testing.assert_allclose(fgmp.TrimmedMean(cut / count).of_columns(values, alike(count)), expected, atol=1e-14)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_a_weight_is_so_many_clients_alike(times, seed, tenths):
    """With whole weights: every row written out as often as it weighs; the share cut is a whole number of rows."""
    values = np.random.default_rng(seed).integers(-3, 4, (len(times), 20)).astype(float)
    rows, weights = np.repeat(values, times, axis=0), np.array(times) / sum(times)
    np.testing.assert_allclose(fgmp.Median().of_columns(values, weights), np.median(rows, axis=0), atol=1e-12)
    cut = tenths * (len(rows) - 1) // 20
    inner = np.sort(rows, axis=0)[cut : len(rows) - cut]
    trimmed = fgmp.TrimmedMean(cut / len(rows)).of_columns(values, weights)
    np.testing.assert_allclose(trimmed, inner.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("combination", [fgmp.Mean(), fgmp.Median(), fgmp.TrimmedMean(0.2)])
@pytest.mark.parametrize("shape", [(30,), (10, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_models_are_combined_as_dense_ones(combination, shape, dtype):
    rng = np.random.default_rng(0)
    dense = [rng.standard_normal(shape).astype(dtype) * (rng.random(shape) < 0.4) for _ in range(7)]
    dense = [array.astype(dtype) for array in dense]
    weights = rng.dirichlet(np.ones(7)).tolist()
    sparse = combination.models([SparseModel.of(array) for array in dense], weights)
    whole = combination.arrays([np.asfortranarray(array) for array in dense], weights)
    assert sparse.values.dtype == whole.dtype == dtype and whole.shape == sparse.shape == shape
    np.testing.assert_allclose(sparse.dense(), whole, atol=1e-6 if dtype == np.float32 else 1e-15)
    rows = np.stack([array.reshape(-1) for array in dense])
    mean = isinstance(combination, fgmp.Mean)
    by_hand = np.average(rows, axis=0, weights=weights) if mean else combination.of_columns(rows, weights)
    np.testing.assert_allclose(whole.reshape(-1), by_hand, atol=1e-6 if dtype == np.float32 else 1e-15)
    assert (np.diff(sparse.support) > 0).all()


@pytest.mark.parametrize("combination", [fgmp.Median(), fgmp.TrimmedMean(0.4)])
def test_less_than_half_of_the_weight_moves_nothing_out_of_the_range_of_the_rest(combination):
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, weights = rng.standard_normal((10, 5)), rng.dirichlet(np.ones(10))
        liars = np.cumsum(weights) < 0.39
        values[liars] = rng.choice([-1e300, 1e300, 1e5], (liars.sum(), 5))
        honest, combined = values[~liars], combination.of_columns(values, weights)
        assert (honest.min(axis=0) <= combined).all() and (combined <= honest.max(axis=0)).all()


@pytest.mark.parametrize("count", [3, 5, 7, 10, 11, 30])
def test_a_share_that_is_just_as_large_as_that_of_the_liars_is_enough(count):
    """Rounding leaves no crumb of a liar's weight inside."""
    liars = (count - 1) // 3
    values = np.r_[np.full(liars, 1e300), np.linspace(0, 1, count - liars)][:, None]
    assert 0 <= fgmp.TrimmedMean(liars / count).of_columns(values, alike(count))[0] <= 1


METHODS = {
    "FedGradMP": lambda combination: fgmp.FedGradMP(4, combination=combination),
    "FedAvg": lambda combination: fgmp.FedAvg(**RATE, combination=combination),
    "FedHT": lambda combination: fgmp.FedHT(sparsity=4, **RATE, combination=combination),
    "FedIterHT": lambda combination: fgmp.FedIterHT(sparsity=4, **RATE, combination=combination),
    "FedMid": lambda combination: fgmp.FedMid(l1_weight=1e-3, **RATE, combination=combination),
    "FedDualAvg": lambda combination: fgmp.FedDualAvg(l1_weight=1e-3, **RATE, combination=combination),
    "FastFedDualAvg": lambda combination: fgmp.FastFedDualAvg(l1_weight=1e-3, **RATE, combination=combination),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning")
def test_two_clients_of_ten_that_lie_ruin_a_mean_and_no_median(name):
    """Alike clients with many rows and without noise: what the honest ones send is close together."""
    fed = fgmp.make_sparse_regression(10, 200, 20, 4, 0.0, rng=0)
    lies = Changed(lie(-20.0), clients=[2, 7])
    runs = {
        combination: fgmp.simulate(METHODS[name](combination), fed, 60, rng=0, faults=lies)
        for combination in (fgmp.Mean(), fgmp.Median(), fgmp.TrimmedMean(0.25))
    }
    error = {combination: run.history["relative_error"][-1] for combination, run in runs.items()}
    assert error[fgmp.Mean()] > 1 or np.isnan(error[fgmp.Mean()])
    assert error[fgmp.Median()] < 0.1 and error[fgmp.TrimmedMean(0.25)] < 0.1


@pytest.mark.parametrize("combination", [fgmp.Median(), fgmp.TrimmedMean(0.3)])
def test_a_vote_on_the_support(combination):
    """Five clients: what four have is kept, what one has is not, whatever it says."""
    models = [SparseModel(np.array([3]), np.array([2.0]), (9,))] * 4 + [
        SparseModel(np.array([5]), np.array([1e9]), (9,))
    ]
    combined = combination.models(models, alike(5).tolist())
    np.testing.assert_array_equal(combined.support, [3])
    nobody = combination.models([SparseModel.of(row) for row in np.eye(9)[:5]], alike(5).tolist())
    assert not len(nobody.support)


def test_a_model_without_entries_goes_on():
    """Where all clients choose other atoms the median is zero, and the next round starts from there."""
    As = [np.eye(4)[[i]] for i in range(4)]
    fed = fgmp.Federation.from_arrays(As, [[1.0]] * 4)
    with pytest.warns(fgmp.FewRowsWarning):
        result = fgmp.simulate(fgmp.FedGradMP(1, combination=fgmp.Median()), fed, 3, rng=0)
    assert not result.x.any() and result.history["clients"].tolist() == [0, 4, 4, 4]
