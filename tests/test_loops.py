"""A round of a cohort in one compiled call, against plain NumPy."""

import numpy as np
import pytest

pytest.importorskip("numba")
loops = pytest.importorskip("fgmp.layers.loops")

SINGLE = np.float32
WORDS = np.array([7, 2**63 + 5], np.uint64), 1, 2, 9  # key, purpose, place, number


def keyed(key, purpose, place, client, number):
    bits = np.random.Philox(key=key)
    state = bits.state
    state["state"]["counter"][:] = 0, purpose << 32 | place, client, number
    bits.state = {**state, "buffer_pos": 4, "has_uint32": 0}
    return np.random.Generator(bits)


def cohort_of(sizes, b):
    end = np.cumsum(sizes)
    return np.array([end - sizes, end, np.minimum(b, sizes), 100 + np.arange(len(sizes))])


def a_table(n, sizes, tau, kind):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(sum(sizes), n)).astype(kind)
    y = A[:, :tau] @ rng.normal(size=tau) + 0.1 * rng.normal(size=len(A))
    return A, y.astype(kind), np.sort(rng.choice(n, tau, replace=False)), rng.normal(size=tau).astype(kind)


@pytest.mark.parametrize("length", [1, 4, 23])
@pytest.mark.parametrize("key", [(7, 2**63 + 5), (2**64 - 1, 2**64 - 3), (0, 0)])
def test_the_uniform_numbers_are_those_of_numpy(key, length):
    key, out, later = np.array(key, np.uint64), np.empty(length), np.empty(length)
    loops.keyed_uniforms(key, 3, 5, 2**40, 11, 0, out)
    loops.keyed_uniforms(key, 3, 5, 2**40, 11, 6, later)
    expected = keyed(key, 3, 5, 2**40, 11).random(length + 6)
    assert np.array_equal(np.append(out, later), np.append(expected[:length], expected[6:]))


def test_columns_nearly_alike_in_units_far_apart_cost_no_accuracy():
    A, _, _, truth = a_table(60, [40] * 5, 3, float)
    A[:, 1] = A[:, 0] + 1e-4 * A[:, 1]
    A *= np.where(np.arange(60) % 2, 1e150, 1e145)
    cohort, truth = cohort_of(np.full(5, 40), 20), truth / np.array([1e145, 1e150, 1e145]) * 1e150
    places, kept, _, solved = loops.cohort_pursuit(A, A[:, :3] @ truth, cohort, WORDS, 2, 3, np.arange(3), truth / 2)
    assert solved.all()
    assert (places == np.arange(3)).all()
    assert np.abs(kept / truth - 1).max() <= 1e-11


@pytest.mark.parametrize("kind", [float, SINGLE])
def test_what_cannot_be_solved_here_is_said_and_nothing_else_suffers(kind):
    (A, y, support, _), cohort = a_table(60, [20] * 6, 3, kind), cohort_of(np.full(6, 20), 10)
    before = loops.cohort_pursuit(A, y, cohort, WORDS, 3, 3, support[:2], np.zeros(2, kind))[1]
    y[45], y[61], y[100:] = np.nan, np.inf, 0
    A[20:40, support[1]], A[80:100, 7] = A[20:40, support[0]], np.nan  # dependent columns
    places, kept, counts, solved = loops.cohort_pursuit(A, y, cohort, WORDS, 3, 3, support[:2], np.zeros(2, kind))
    assert solved.tolist() == [True, False, False, False, False, True]
    assert counts.tolist() == [3, 0, 0, 0, 0, 3]
    assert np.array_equal(kept[0], before[0])
    assert not kept[1:].any()
    assert places[5].tolist() == [0, 1, 2]  # all tie
