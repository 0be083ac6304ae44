"""Selections and sparse models against NumPy's slow, obvious versions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fgmp.linear_systems import least_squares
from fgmp.models import SparseModel, average, message_bytes, union
from fgmp.selection import largest


@given(arrays(float, st.integers(1, 30), elements=st.integers(0, 5).map(float)), st.integers(0, 30))
def test_largest_breaks_ties_towards_the_lower_index(magnitudes, count):
    count = min(count, magnitudes.size)
    expected = np.sort(np.argsort(-magnitudes, kind="stable")[:count])
    if count > 0:
        np.testing.assert_array_equal(largest(magnitudes, count), expected)


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_union(first, second):
    first, second = (np.array(sorted(s), dtype=np.intp) for s in (first, second))
    np.testing.assert_array_equal(union(first, second, 20), np.union1d(first, second))


def test_messages_carry_the_model_and_know_their_size():
    model = SparseModel(np.array([1, 5, 6]), np.array([0.5, -2.0, 1e-3]), (8,))
    message = model.message()
    assert message_bytes(message) == 3 * (4 + 8)
    back = SparseModel.from_message(message, (8,))
    np.testing.assert_array_equal(back.dense(), model.dense())
    assert back.support.dtype == np.intp


def test_average_is_the_weighted_mean_of_the_dense_models():
    rng = np.random.default_rng(0)
    models = [SparseModel(np.sort(rng.choice(9, 3, replace=False)), rng.standard_normal(3), (9,)) for _ in range(4)]
    weights = [0.1, 0.2, 0.3, 0.4]
    expected = sum(w * m.dense() for w, m in zip(weights, models, strict=True))
    np.testing.assert_allclose(average(models, weights).dense(), expected)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10_000))
def test_least_squares_is_numpys(n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    columns, targets = rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_rows)
    expected = np.linalg.lstsq(columns, targets, rcond=None)[0]
    np.testing.assert_allclose(least_squares(columns, targets), expected, rtol=1e-6, atol=1e-8)


def test_least_squares_of_dependent_columns_has_minimum_norm():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((20, 4))
    columns = np.column_stack([columns, columns[:, 0], columns[:, 1] - columns[:, 2]])
    targets = rng.standard_normal(20)
    expected = np.linalg.pinv(columns) @ targets
    np.testing.assert_allclose(least_squares(columns, targets), expected, atol=1e-12)


def test_least_squares_is_exact_on_ill_conditioned_columns():
    rng = np.random.default_rng(1)
    solution = rng.standard_normal(10)
    for condition in (1e2, 1e4, 1e6, 1e9):
        left, _ = np.linalg.qr(rng.standard_normal((100, 10)))
        right, _ = np.linalg.qr(rng.standard_normal((10, 10)))
        columns = left * np.geomspace(1, 1 / condition, 10) @ right
        error = np.linalg.norm(least_squares(columns, columns @ solution) - solution) / np.linalg.norm(solution)
        assert error < 100 * condition * np.finfo(float).eps
