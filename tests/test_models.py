"""Selections and sparse models against NumPy's slow, obvious versions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
