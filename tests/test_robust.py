"""Median and trimmed mean, against NumPy on repeated rows; notebook 13 is about their limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgmp
from fgmp.sparse_model import SparseModel
from fgmp.updates import UpdateSpec


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
    st.integers(0, 9),
)
def test_integer_weight_equals_repeated_rows(times, seed, tenths):
    """For the median and for the trimmed mean of NumPy."""
    values = np.random.default_rng(seed).integers(-3, 4, (len(times), 20)).astype(float)
    rows = np.repeat(values, times, axis=0)
    weights = np.array(times) / sum(times)
    np.testing.assert_allclose(
        fgmp.Median().of_columns(values, weights), np.median(rows, axis=0), atol=1e-12
    )
    cut = tenths * (len(rows) - 1) // 20
    inner = np.sort(rows, axis=0)[cut : len(rows) - cut]
    trimmed = fgmp.TrimmedMean(cut / len(rows)).of_columns(values, weights)
    np.testing.assert_allclose(trimmed, inner.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("aggregator", [fgmp.Mean(), fgmp.Median(), fgmp.TrimmedMean(0.2)])
@pytest.mark.parametrize("shape", [(30,), (10, 3)])
def test_aggregate_of_sparse_models_is_that_of_dense_ones(aggregator, shape):
    """The mean is that by hand."""
    rng = np.random.default_rng(0)
    models = [rng.standard_normal(shape) * (rng.random(shape) < 0.4) for _ in range(7)]
    weights = rng.dirichlet(np.ones(7))
    rows = np.reshape(models, (7, 30))
    thin = [SparseModel.of(model) for model in models]
    sparse = aggregator(UpdateSpec(shape, max_nonzeros=30, mean_only=False).accept(thin, weights))
    dense = aggregator(UpdateSpec(shape, mean_only=False).accept(models, weights))
    np.testing.assert_allclose(sparse, dense, atol=1e-15)
    mean = isinstance(aggregator, fgmp.Mean)
    by_hand = weights @ rows if mean else aggregator.of_columns(rows, weights)
    np.testing.assert_allclose(dense, by_hand, atol=1e-15)


@pytest.mark.parametrize("count", [3, 5, 7, 10, 11, 30])
def test_trimmed_mean_of_the_adversaries_share_is_bounded(count):
    """Rounding leaves no part of an adversary's weight inside."""
    n_adversaries = (count - 1) // 3
    values = np.r_[np.full(n_adversaries, 1e300), np.linspace(0, 1, count - n_adversaries)][:, None]
    assert (
        0
        <= fgmp.TrimmedMean(n_adversaries / count).of_columns(values, np.full(count, 1 / count))[0]
        <= 1
    )
