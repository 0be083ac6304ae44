"""A round of a cohort in one compiled call, against plain NumPy."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")
loops = pytest.importorskip("fgmp.layers.loops")

SINGLE, PLAIN = np.float32, (np.empty(0), np.empty(0, np.int64))
WORDS = np.array([7, 2**63 + 5], np.uint64), 1, 2, 9  # key, purpose, place, number


def keyed(key, purpose, place, client, number):
    bits = np.random.Philox(key=key)
    state = bits.state
    state["state"]["counter"][:] = 0, purpose << 32 | place, client, number
    bits.state = {**state, "buffer_pos": 4, "has_uint32": 0}
    return np.random.Generator(bits)


def largest(v, count):
    return np.sort(np.argsort(-np.abs(v), kind="stable")[:count])


def minibatches(m, b, steps, client):
    draws = keyed(*WORDS[:3], client, WORDS[3]).random((steps, m))
    return [np.arange(m)] * steps if b >= m else draws.argpartition(b - 1, axis=1)[:, :b]


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


# Uneven clients, and one with a single row; fewer rows than merged atoms; fewer features than 2 tau; many unknowns.
SHAPES = [(60, [20] * 4, 3, 10, float), (200, [40, 1, 33, 57], 5, 20, float), (1000, [100, 90], 10, 40, float)]
SHAPES += [(60, [9, 12, 7], 6, 4, float), (9, [50, 30], 6, 13, float), (400, [300], 40, 90, float)]
SHAPES += [(60, [20] * 4, 3, 10, SINGLE), (60, [9, 12], 6, 4, SINGLE)]


@pytest.mark.parametrize("n, sizes, tau, b, kind", SHAPES)
@pytest.mark.parametrize("known", [True, False])
def test_a_pursuit_is_the_printed_one(n, sizes, tau, b, kind, known):
    (A, y, support, values), cohort = a_table(n, sizes, tau, kind), cohort_of(np.array(sizes), b)
    support, values = support[: known * tau], values[: known * tau]
    places, kept, counts, solved = loops.cohort_pursuit(A, y, cohort, WORDS, 3, tau, support, values)
    assert solved.all()
    assert kept.dtype == kind
    for i, (begin, end, batch, client) in enumerate(cohort.T):
        X, t, s, x = A[begin:end].astype(float), y[begin:end].astype(float), support, values
        for rows in minibatches(end - begin, batch, 3, client):
            merged = np.union1d(largest(X[rows].T @ (X[rows][:, s] @ x - t[rows]), 2 * tau), s)
            b = np.linalg.lstsq(X[:, merged], t, rcond=None)[0]
            s, x = merged[largest(b, tau)], b[largest(b, tau)]
        assert np.array_equal(places[i, : counts[i]], s)
        assert np.abs(kept[i, : counts[i]] - x).max() <= (1e-12 if kind is float else 2e-5) * np.abs(x).max()


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


def soft(v, threshold):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0)


def derivative(z, y, margin):
    if z.shape[1] == 1:
        return -margin * y[:, None] / (1 + np.exp(margin * y[:, None] * z)) if margin else z - y[:, None]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) - np.eye(z.shape[1])[y.astype(int)]


@pytest.mark.parametrize("kind", [float, SINGLE])
@pytest.mark.parametrize("C, margin", [(1, 0.0), (1, 2.0), (3, 0.0), (10, 0.0)])
@pytest.mark.parametrize("keep, cut", [(0, 0.0), (7, 0.0), (0, 0.02), (7, 0.02)])
def test_steps_are_the_printed_ones(kind, C, margin, keep, cut):
    rng, cohort = np.random.default_rng(C), cohort_of(np.array([31, 6, 50]), 9)
    A, w = rng.normal(size=(87, 50)).astype(kind), rng.normal(size=(50, C)).astype(kind)
    y = rng.integers(0, C, 87) if C > 1 else rng.choice([-1.0, 1.0], 87)
    cuts, lengths = np.outer(np.arange(1, 5), [cut, cut / 2]), 0.3 / cohort[2]
    for span in [(PLAIN[0].astype(kind), PLAIN[1])] + ([] if keep or cut else [loops.row_products(A, cohort)]):
        ends = loops.cohort_descent(A, y.astype(kind), cohort, WORDS, w, margin, lengths, keep, cuts, span)
        assert ends.dtype == kind
        for i, (begin, end, batch, client) in enumerate(cohort.T):
            X, t, v = A[begin:end].astype(float), y[begin:end], w.astype(float)
            for rows, (before, after) in zip(minibatches(end - begin, batch, 4, client), cuts, strict=True):
                v = v - lengths[i] * X[rows].T @ derivative(X[rows] @ soft(v, before), t[rows], margin)
                for c in range(C if keep else 0):
                    v[np.setdiff1d(np.arange(50), largest(v[:, c], keep)), c] = 0
                v = soft(v, after)
            assert np.abs(ends[i].T - v).max() <= (1e-13 if kind is float else 1e-5) * np.abs(v).max()


def test_the_number_of_threads_changes_no_bit_and_what_is_no_number_stays():
    (A, y, support, values), cohort, found = a_table(60, [21] * 9, 3, float), cohort_of(np.full(9, 21), 10), []
    y[25], most, lengths, cuts = np.nan, numba.get_num_threads(), np.full(9, 0.01), np.zeros((9, 2))
    for threads in (1, min(2, most)):
        numba.set_num_threads(threads)
        span = loops.row_products(A, cohort)
        ends = [loops.cohort_descent(A, y, cohort, WORDS, np.ones((60, 1)), 0.0, lengths, 5, cuts, PLAIN)]
        ends += [loops.cohort_descent(A, y, cohort, WORDS, np.ones((60, 1)), 0.0, lengths, 0, cuts, span), span[0]]
        found.append((*loops.cohort_pursuit(A, y, cohort, WORDS, 3, 3, support, values), *ends))
    numba.set_num_threads(most)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*found, strict=True))
    assert np.isnan(ends[0]).any(axis=(1, 2)).tolist() == [False, True] + [False] * 7
