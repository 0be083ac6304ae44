"""A whole round of a cohort in one compiled call: one table of all rows, one client after another, keyed numbers.

What a client answers depends on its rows, on the broadcast model and on its key, not on the other clients: so parts of
a cohort may go to several threads. Numba has to be installed; whoever imports this module asks `fgmp.layers.compiled`
first.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]
_MOST = 256  # unknowns of a system; with more, LAPACK is faster
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)  # of Philox4x64-10, and what its key gains
_GAINS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)


# Sums may be taken in any order; what is not a number stays what it is. All is inlined: what is called may be compiled
# once for itself and once for its caller, with other sums, and whether a process compiles or loads then changes bits.
_jit = numba.njit(fastmath={"reassoc", "nsz", "contract"}, forceinline=True)


def _loop(function: Any) -> Any:
    """A loop over clients beside which other threads go on, kept on disk where there is a folder for it."""
    try:
        return numba.njit(function, nogil=True, cache=True)
    except RuntimeError:
        return numba.njit(function, nogil=True)


@_jit
def _high(a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a product."""
    low, high = b & _LOW, b >> _HALF
    first = (a & _LOW) * low
    middle = (a >> _HALF) * low + (first >> _HALF)
    other = (a & _LOW) * high + (middle & _LOW)
    return (a >> _HALF) * high + (middle >> _HALF) + (other >> _HALF)


@_jit
def keyed_uniforms(key: Array, purpose: int, place: int, client: int, number: int, first: int, out: Array) -> None:
    """`numpy.random.Generator(Philox)`'s numbers in [0, 1) of a keyed stream, from the one at `first` on, into `out`.

    The stream is `random()` with the counter set to (0, purpose << 32 | place, client, number) and no block in store.
    """
    one = np.uint64(purpose) << _HALF | np.uint64(place)
    for block in range(first // 4, (first + len(out) + 3) // 4):
        a, b, c, d = np.uint64(block + 1), one, np.uint64(client), np.uint64(number)
        p, q = key[0], key[1]
        for _ in range(10):
            a, b, c, d = _high(_FACTORS[1], c) ^ b ^ p, _FACTORS[1] * c, _high(_FACTORS[0], a) ^ d ^ q, _FACTORS[0] * a
            p += _GAINS[0]
            q += _GAINS[1]
        start = 4 * block - first
        for i, word in enumerate((a, b, c, d)):
            if 0 <= start + i < len(out):
                out[start + i] = np.float64(word >> np.uint64(11)) * 2.0**-53


@_jit
def _sink(sizes: Array, places: Array, count: int, here: int) -> None:
    """Let an entry of a heap sink to where it belongs: what is chosen last, small or further on, comes first."""
    size, place, child = sizes[here], places[here], 2 * here + 1
    while child < count:
        other = min(child + 1, count - 1)
        if sizes[other] < sizes[child] or (sizes[other] == sizes[child] and places[other] > places[child]):
            child = other
        if sizes[child] > size or (sizes[child] == size and places[child] < place):
            break
        sizes[here], places[here] = sizes[child], places[child]
        here, child = child, 2 * child + 1
    sizes[here], places[here] = size, place


@_jit
def _largest(vector: Array, length: int, count: int, places: Array, sizes: Array) -> bool:
    """Where the `count` largest of vector[:length] stand, ties to the lower index; False where one is not finite."""
    for i in range(count - 1, -1, -1):
        sizes[i], places[i] = abs(vector[i]), i
        if not sizes[i] < math.inf:
            return False
        _sink(sizes, places, count, i)
    for begin in range(count, length, 32):
        end, found = min(begin + 32, length), 0
        for j in range(begin, end):
            found += not abs(vector[j]) <= sizes[0]
        for j in range(begin, end if found else begin):
            size = abs(vector[j])
            if not size <= sizes[0]:
                if not size < math.inf:
                    return False
                sizes[0], places[0] = size, j
                _sink(sizes, places, count, 0)
    return True


@_jit
def _draw(words: Any, step: int, batch: int, draws: Array, rows: Array, sizes: Array) -> None:
    """A minibatch without replacement: where the `batch` smallest of as many random numbers as rows stand."""
    if batch < len(draws):
        key, purpose, place, client, number = words
        keyed_uniforms(key, purpose, place, client, number, step * len(draws), draws)
        for i in range(len(draws)):
            draws[i] = 1 - draws[i]  # exact
        _largest(draws, len(draws), batch, rows, sizes)


@_jit
def _dot(A: Array, row: int, x: Array, length: int) -> Any:
    total = A.dtype.type(0)
    for j in range(length):
        total += A[row, j] * x[j]
    return total


@_jit
def _four(rows: Array, i: int, count: int) -> Any:
    """Four of the first rows from the i-th on, the last repeated where there are fewer."""
    last = count - 1
    return rows[i], rows[min(i + 1, last)], rows[min(i + 2, last)], rows[min(i + 3, last)]


@_jit
def _multiply(A: Array, rows: Array, B: Array, others: Array, length: int, half: bool, products: Array) -> None:
    """products[i, j] = A[rows[i]]'B[others[j]], four by two; if `half`, at least where i is not below j."""
    zero = A.dtype.type(0)
    for j in range(0, len(others), 2):
        k = min(j + 1, len(others) - 1)
        e, f = others[j], others[k]
        for i in range(4 * (j // 4) if half else 0, len(rows), 4):
            a, b, c, d = _four(rows, i, len(rows))
            p, q, r, s, t, u, v, w = zero, zero, zero, zero, zero, zero, zero, zero
            for g in range(length):
                p += A[a, g] * B[e, g]
                q += A[b, g] * B[e, g]
                r += A[c, g] * B[e, g]
                s += A[d, g] * B[e, g]
                t += A[a, g] * B[f, g]
                u += A[b, g] * B[f, g]
                v += A[c, g] * B[f, g]
                w += A[d, g] * B[f, g]
            for place, one, other in ((i, p, t), (i + 1, q, u), (i + 2, r, v), (i + 3, s, w)):
                if place < len(rows):
                    products[place, j], products[place, k] = one, other


@_jit
def _combine(total: Array, A: Array, rows: Array, weights: Array, first: int, count: int) -> None:
    """Add rows of A, each times its weight, from the first on, four in a pass; zeros follow the weights."""
    for i in range(first, count, 4):
        a, b, c, d = _four(rows, i, count)
        p, q, r, s = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(total)):
            total[j] += p * A[a, j] + q * A[b, j] + r * A[c, j] + s * A[d, j]


@_jit
def _factorise(A: Array, count: int, length: int, factor: Array, squares: Array, share: float) -> bool:
    """Cholesky's R of the products R'R of rows; False where those before leave less than a share of a squared row.

    Above its diagonal `factor` becomes R, and on it one over R's.
    """
    everything, zero = np.arange(count), A.dtype.type(0)
    _multiply(A, everything, A, everything, length, True, factor.T)
    for i in range(count):
        squares[i] = factor[i, i]
        for j in range(0, i, 4):
            a, b, c, d = _four(everything, j, i)
            p, q = factor[a, i], factor[b, i] if j + 1 < i else zero
            r, s = factor[c, i] if j + 2 < i else zero, factor[d, i] if j + 3 < i else zero
            row, e, f, g, h = factor[i, i:count], factor[a, i:], factor[b, i:], factor[c, i:], factor[d, i:]
            for t in range(len(row)):
                row[t] -= p * e[t] + q * f[t] + r * g[t] + s * h[t]
        if not share * squares[i] < factor[i, i] < math.inf:
            return False
        pivot = 1 / math.sqrt(factor[i, i])
        for column in range(i + 1, count):
            factor[i, column] *= pivot
        factor[i, i] = pivot
    return True


@_jit
def _solve(factor: Array, x: Array, count: int) -> None:
    """x becomes the solution of R'R z = x."""
    for i in range(count):
        row, rest, value = factor[i, i + 1 : count], x[i + 1 : count], x[i] * factor[i, i]
        x[i] = value
        for j in range(len(row)):
            rest[j] -= value * row[j]
    for i in range(count - 1, -1, -1):
        row, rest, value = factor[i, i + 1 : count], x[i + 1 : count], x[i]
        for j in range(len(row)):
            value -= row[j] * rest[j]
        x[i] = value * factor[i, i]


@_jit
def _least_squares(A: Array, count: int, length: int, wide: bool, y: Array, x: Array, work: Any, eps: float) -> bool:
    """As `fgmp.linear_systems.least_squares`: x = argmin ||A'x - y||, or if `wide` the shortest x with A x = y.

    False where the products of the rows are not clearly definite, or a few refinements do not reach the precision.
    """
    factor, squares, z, error, change, everything = work
    if count > _MOST or not _factorise(A, count, length, factor, squares, eps**0.75):
        return False
    unknowns, size, remainder, fraction = length if wide else count, 0.0, 0.0, 0.0
    x[: unknowns + 3] = 0
    z[count : count + 3] = 0
    error[: len(y)] = -y
    for turn in range(4):
        for i in range(count):
            z[i] = error[i] if wide else _dot(A, i, error, length)
        _solve(factor, z, count)
        moved, change[:unknowns] = 0.0, 0
        if wide:
            _combine(change[:length], A, everything, z, 0, count)
        else:
            change[:count] = z[:count]
        for i in range(unknowns):
            x[i] -= change[i]
            moved += float(change[i]) ** 2 * (1.0 if wide else float(squares[i]))
        if not moved < math.inf:
            return False
        if turn == 0:
            size = moved
        elif turn == 1:
            remainder = fraction = math.sqrt(moved / size) if size > 0 else 0.0
        remainder *= fraction
        if turn > 0 and remainder <= eps:
            return True
        error[: len(y)] = -y
        if wide:
            for i in range(count):
                error[i] += _dot(A, i, x, length)
        else:
            _combine(error[:length], A, everything, x, 0, count)
    return False


@_jit
def _pursue(
    A: Array, y: Array, batch: int, words: Any, steps: int, support: Array, values: Array, places: Array, kept: Array
) -> int:
    """The loop over k of Algorithm 1 at one client: how many of `places` and `kept` it fills, 0 if unsolved."""
    (m, n), sparsity, count, kind, held = A.shape, len(places), len(support), A.dtype, 0
    reach, eps = min(2 * sparsity, n), float(np.finfo(kind).eps)
    most = reach + max(count, sparsity)
    largest, order = max(most, m) + 3, min(most, m, _MOST)
    merged, before, chosen, current = np.empty((4, most), np.int64)
    sizes, x = np.empty(most, kind), np.empty(largest, kind)
    gradient, weights = np.empty(n, kind), np.zeros(m + 3, kind)
    columns, others = np.empty((most, m), kind), np.empty((most, m), kind)
    across = np.empty((m, most * (most > m)), kind)
    rows, draws, heap = np.arange(m), np.empty(m), np.empty(batch)
    z, error, change = np.empty((3, largest), kind)
    work = np.empty((order, order), kind), np.empty(order, kind), z, error, change, np.arange(order)
    current[:count], x[:count] = support, values
    for k in range(steps):
        _draw(words, k, batch, draws, rows, heap)
        peak = 0.0
        for i in range(batch):
            weights[i] = -y[rows[i]]
            for j in range(count):
                weights[i] += A[rows[i], current[j]] * x[j]
            peak = max(peak, abs(weights[i]))
        unit = math.ldexp(1.0, min(-math.frexp(peak)[1], 1000))  # so that float32 holds the gradient
        for i in range(batch):
            weights[i] = unit * weights[i]
        gradient[:] = 0
        _combine(gradient, A, rows, weights, 0, batch)
        if not _largest(gradient, n, reach, merged, sizes):
            return 0
        merged[reach : reach + count] = current[:count]
        together, c, spot = merged[: reach + count], 0, 0
        together.sort()
        for place in together:
            if c > 0 and place == merged[c - 1]:
                continue
            merged[c] = place
            while spot < held and before[spot] < place:
                spot += 1
            if spot < held and before[spot] == place:  # gathered the last time
                others[c] = columns[spot]
            else:
                for t in range(m):
                    others[c, t] = A[t, place]
            c += 1
        columns, others, held = others, columns, c
        before[:c] = merged[:c]
        wide, system = c > m, columns
        if wide:
            across[:, :c] = columns[:c].T
            system = across
        solved = _least_squares(system, min(c, m), max(c, m), wide, y, x, work, eps)
        count = min(sparsity, c)
        if not solved or not _largest(x, c, count, chosen, sizes):
            return 0
        chosen[:count].sort()
        for j in range(count):
            current[j], x[j] = merged[chosen[j]], x[chosen[j]]
    places[:count], kept[:count] = current[:count], x[:count]
    return count


@_loop
def cohort_pursuit(
    A: Array, y: Array, cohort: Array, stream: Any, steps: int, sparsity: int, support: Array, values: Array
) -> Any:
    """Algorithm 1 with least squares at each client of a cohort, from one model `support`, `values`, shape (k,).

    `A`, `y`, shapes (M, n) and (M,), are the rows of all clients in one precision; `cohort`, shape (5, L), where the
    rows of each client begin and end, the size of its minibatches (that of all rows takes no random numbers), its word
    in `keyed_uniforms`, and its place in what else is given for each client; `stream` the other words, ``(key, purpose,
    place, number)``; `steps` and `sparsity` K and tau.

    Returns increasing places and values, shape (L, sparsity), of which counts, shape (L,), are filled, and whether each
    is solved: not where a system is nearly singular or too large, or something is not finite.
    """
    begin, end, batch, clients = cohort[0], cohort[1], cohort[2], cohort[3]
    key, purpose, place, number = stream
    counts, shape = np.zeros(len(begin), np.int64), (len(begin), sparsity)
    places, kept = np.zeros(shape, np.int64), np.zeros(shape, A.dtype)
    for i in range(len(begin)):
        rows, words = slice(begin[i], end[i]), (key, purpose, place, clients[i], number)
        b = min(batch[i], end[i] - begin[i])
        counts[i] = _pursue(A[rows], y[rows], b, words, steps, support, values, places[i], kept[i])
    return places, kept, counts, counts > 0


@_jit
def _shorten(v: Array, threshold: Any, w: Array) -> None:
    """w = S(v, threshold), entry by entry; what is not a number stays."""
    for c in range(len(v)):
        for j in range(v.shape[1]):
            gone = min(max(v[c, j], -threshold), threshold)
            w[c, j] = v[c, j] - gone


@_jit
def _pull(scores: Array, target: Any, margin: float, weight: float) -> None:
    """The predictions of a row become the derivative of its loss, times a weight."""
    if len(scores) > 1:
        top, total = scores[0], scores.dtype.type(0)
        for c in range(1, len(scores)):
            top = max(top, scores[c])
        lowest = scores.dtype.type(0.7 * math.log(np.finfo(scores.dtype).tiny))  # as in `fgmp.losses`
        for c in range(len(scores)):
            exponent = scores[c] - top
            scores[c] = math.exp(lowest if exponent < lowest else exponent)
            total += scores[c]
        for c in range(len(scores)):
            scores[c] *= weight / total
        scores[int(target)] -= weight
    elif margin > 0:
        z = -margin * target * scores[0]
        small = math.exp(-abs(z))
        scores[0] = -margin * target * weight * ((1.0 if z > 0 else small) / (1 + small))
    else:
        scores[0] = weight * (scores[0] - target)


@_jit
def _descend(
    A: Array, y: Array, batch: int, words: Any, v: Array, margin: float, length: float, keep: int, cuts: Array
) -> None:
    """The steps of `cohort_descent` at one client: v, shape (C, n), becomes their end."""
    (C, n), m, classes, places = v.shape, len(y), np.arange(len(v)), np.empty(keep, np.int64)
    rows, draws, heap = np.arange(m), np.empty(m), np.empty(batch)
    step, shortened = np.empty_like(v), np.empty_like(v)
    scores, sizes = np.empty((4, C), v.dtype), np.empty(keep, v.dtype)
    for k in range(len(cuts)):
        _draw(words, k, batch, draws, rows, heap)
        point = shortened if cuts[k, 0] > 0 else v
        if cuts[k, 0] > 0:
            _shorten(v, cuts[k, 0], point)
        step[:] = 0
        for i in range(0, batch, 4):
            some = rows[i : min(i + 4, batch)]
            scores[len(some) :] = 0
            _multiply(A, some, point, classes, n, False, scores)
            for t in range(len(some)):
                _pull(scores[t], y[some[t]], margin, -length)
            a, b, d, e = _four(some, 0, len(some))
            for c in range(C):
                p, q, r, s = scores[0, c], scores[1, c], scores[2, c], scores[3, c]
                for j in range(n):
                    step[c, j] += p * A[a, j] + q * A[b, j] + r * A[d, j] + s * A[e, j]
        for c in range(C):
            for j in range(n):
                v[c, j] += step[c, j]
            if 0 < keep < n:
                step[c] = v[c]
                v[c] *= 0  # what is not a number stays
                if _largest(step[c], n, keep, places, sizes):
                    for at in places:
                        v[c, at] = step[c, at]
        if cuts[k, 1] > 0:
            _shorten(v, cuts[k, 1], v)


@_jit
def _descend_in_span(
    A: Array, y: Array, batch: int, words: Any, v: Array, margin: float, length: float, steps: int, products: Array
) -> None:
    """As `_descend` without H and S: v + A'C_k after k steps, of which each reads the products of its rows only."""
    C, m, classes = len(v), len(y), np.arange(len(v))
    rows, draws, heap = np.arange(m), np.empty(m), np.empty(batch)
    first, moved, scores = np.empty((m, C), v.dtype), np.zeros((C, m + 3), v.dtype), np.empty((batch, C), v.dtype)
    _multiply(A, rows, v, classes, v.shape[1], False, first)
    for k in range(steps):
        _draw(words, k, batch, draws, rows, heap)
        _multiply(moved, classes, products, rows[:batch], m, False, scores.T)
        for i in range(batch):
            for c in range(C):
                scores[i, c] += first[rows[i], c]
            _pull(scores[i], y[rows[i]], margin, -length)
        for i in range(batch):
            for c in range(C):
                moved[c, rows[i]] += scores[i, c]
    everything = np.arange(m)
    for i in range(0, m, 4):
        for c in range(C):
            _combine(v[c], A, everything, moved[c], i, min(i + 4, m))


@_loop
def row_products(A: Array, cohort: Array) -> Any:
    """A_i A_i' of each client, one after another in a vector, and where each begins, shape (L,)."""
    begin, end, where = cohort[0], cohort[1], np.zeros(cohort.shape[1] + 1, np.int64)
    where[1:] = np.cumsum((end - begin) ** 2)
    products = np.empty(where[-1], A.dtype)
    for i in range(len(begin)):
        m, rows = end[i] - begin[i], np.arange(begin[i], end[i])
        _multiply(A, rows, A, rows, A.shape[1], False, products[where[i] : where[i + 1]].reshape(m, m))
    return products, where[:-1]


@_loop
def cohort_descent(
    A: Array,
    y: Array,
    cohort: Array,
    stream: Any,
    start: Array,
    margin: Any,
    lengths: Array,
    keep: int,
    cuts: Array,
    span: Any,
) -> Any:
    """K steps v <- S(H(v - eta g(S(v, cuts[k, 0]))), cuts[k, 1]) at each client of a cohort, shape (L, C, n).

    As `cohort_pursuit`; the targets of the softmax loss are labels in the precision of A, `start` has shape (n, C),
    with C = 1 of the squared loss or, with a `margin` above 0, of the logistic loss. `lengths`, by place, is the
    learning rate times what a row counts, `keep` what H keeps for each output (0: all), `cuts`, shape (K, 2), the
    thresholds before and after each step (0: none), `span` that of `row_products` for steps in the span of the rows
    without H and S.
    """
    begin, end, batch, clients = cohort[0], cohort[1], cohort[2], cohort[3]
    (key, purpose, place, number), (products, where), places = stream, span, cohort[4]
    ends = np.empty((len(begin), start.shape[1], len(start)), A.dtype)
    for i in range(len(begin)):
        rows, words, m = slice(begin[i], end[i]), (key, purpose, place, clients[i], number), end[i] - begin[i]
        ends[i] = start.T
        if len(products) == 0:
            _descend(A[rows], y[rows], min(batch[i], m), words, ends[i], margin, lengths[places[i]], keep, cuts)
        else:
            first, length = where[places[i]], lengths[places[i]]
            own = products[first : first + m * m].reshape(m, m)
            _descend_in_span(A[rows], y[rows], min(batch[i], m), words, ends[i], margin, length, len(cuts), own)
    return (ends,)
