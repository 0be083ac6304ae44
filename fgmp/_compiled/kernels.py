"""Compiled copies of client updates ("kernels"): Algorithm 1 with least squares, the baselines.

Read `cohort_pursuit` beside `fgmp.FedGradMP.client_update`, and `cohort_descent` beside the steps
of `fgmp.baselines`. Both go through the clients of a cohort from `first` to `last` - 1, so that
several threads can share a cohort: a client's numbers depend on no other client, hence not on the
number of threads. Everything is plain Python over arrays (NUMBA_DISABLE_JIT=1 runs it as such).
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from ..sparse_model import Array, IndexArray
from .compilation import CompiledLoop

# Philox4x64-10: the multipliers of a round, and what its key gains in each (Salmon et al.,
# Parallel random numbers: as easy as 1, 2, 3, SC 2011).
_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_KEY_GAIN_0 = np.uint64(0x9E3779B97F4A7C15)
_KEY_GAIN_1 = np.uint64(0xBB67AE8584CAA73B)
_PHILOX_ROUNDS = 10

_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)

# A double has 53 of the 64 random bits of a word; the other 11 are free.
_FREE_BITS = 11

# The most corrections of a solution before the factor is said not to serve.
_REFINEMENTS = 3

# Rows that are read together, so that sums are written back a quarter as often.
_ROWS_AT_ONCE = 4


class CohortData(NamedTuple):
    """The rows of all clients, and where those of each client of a cohort lie.

    `features` has shape (M, n) and `targets` (M,). Client i of the cohort has the rows `begins[i]`
    to `ends[i]` - 1, minibatches of `batch_sizes[i]` rows, and the id `client_ids[i]`.
    """

    features: Array
    targets: Array
    begins: IndexArray
    ends: IndexArray
    batch_sizes: IndexArray
    client_ids: IndexArray


class RandomStream(NamedTuple):
    """The key of a run's random numbers, and whose these are: all but the client's id."""

    key: Array
    purpose: int
    exchange_index: int
    round: int


# Minibatches: the same rows in the same order as `fgmp.Client.minibatches` draws.


def high_word(a: Any, b: Any) -> Any:
    """Return the upper 64 of the 128 bits of a product."""
    low = b & _LOW_HALF
    high = b >> _HALF_WORD
    middle = (a >> _HALF_WORD) * low + ((a & _LOW_HALF) * low >> _HALF_WORD)
    carried = (a & _LOW_HALF) * high + (middle & _LOW_HALF) >> _HALF_WORD
    return (a >> _HALF_WORD) * high + (middle >> _HALF_WORD) + carried


def keyed_words(stream: RandomStream, client_id: int, count: int) -> Array:
    """Return the first `count` random words of a client, and up to three more.

    They are those of the generator `fgmp.rounds.Streams.of`, which keeps 53 bits of each word.
    """
    n_blocks = (count + 3) // 4
    words = np.empty((n_blocks, 4), np.uint64)
    for block in range(n_blocks):
        counter_0 = np.uint64(block + 1)
        counter_1 = np.uint64(stream.purpose << 32 | stream.exchange_index)
        counter_2 = np.uint64(client_id)
        counter_3 = np.uint64(stream.round)
        key_0 = stream.key[0]
        key_1 = stream.key[1]
        for _ in range(_PHILOX_ROUNDS):
            high_0 = high_word(_MULTIPLIER_0, counter_0)
            high_2 = high_word(_MULTIPLIER_1, counter_2)
            low_0 = _MULTIPLIER_0 * counter_0
            low_2 = _MULTIPLIER_1 * counter_2
            counter_0 = high_2 ^ counter_1 ^ key_0
            counter_1 = low_2
            counter_2 = high_0 ^ counter_3 ^ key_1
            counter_3 = low_0
            key_0 = key_0 + _KEY_GAIN_0
            key_1 = key_1 + _KEY_GAIN_1
        words[block, 0] = counter_0
        words[block, 1] = counter_1
        words[block, 2] = counter_2
        words[block, 3] = counter_3
    return words.reshape(-1)


def partition_smallest(draws: Array, count: int) -> None:
    """Reorder `draws` so that the first `count` are the smallest: quickselect by the last entry."""
    low = 0
    high = len(draws)
    split = 0
    while split != count:
        pivot = draws[high - 1]
        split = low
        for i in range(low, high):
            draws[i], draws[split] = draws[split], draws[i]
            split += draws[split] <= pivot
        if split < count:
            low = split
        else:
            high = split - 1


def draw_minibatches(
    stream: RandomStream, client_id: int, n_steps: int, n_rows: int, batch_size: int
) -> IndexArray:
    """Return the rows of each minibatch, shape (n_steps, batch_size).

    A minibatch is the rows with the smallest of one random number for each row. The number of the
    row takes the free bits of its random word, so that both move together. A client with no more
    rows than a minibatch uses all of them, in order.
    """
    rows = np.zeros((n_steps, batch_size), np.int64) + np.arange(batch_size)
    if batch_size >= n_rows:
        return rows

    row_bits = max(_FREE_BITS, math.ceil(math.log2(n_rows)))
    row_mask = np.uint64(2**row_bits - 1)
    row_numbers = np.arange(n_rows).astype(np.uint64)
    words = keyed_words(stream, client_id, n_steps * n_rows)
    for k in range(n_steps):
        draws = words[k * n_rows : (k + 1) * n_rows] & ~row_mask | row_numbers
        partition_smallest(draws, batch_size)
        rows[k] = (draws[:batch_size] & row_mask).astype(np.int64)
    return rows


# Sums and selections.


def dot(a: Array, b: Array) -> Any:
    """Return a'b."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


def add_weighted_rows(total: Array, A: Array, rows: IndexArray, weights: Array) -> None:
    """Add weights' A[rows] to `total`, shape (C, n): `weights` has shape (len(rows), C).

    Four rows are read in one pass, so that `total` is written once for them.
    """
    last = len(rows) - 1
    zero = A.dtype.type(0)
    for i in range(0, len(rows), _ROWS_AT_ONCE):
        # After the last row stands the last row again, with weight zero.
        i1 = min(i + 1, last)
        i2 = min(i + 2, last)
        i3 = min(i + 3, last)
        a0 = A[rows[i]]
        a1 = A[rows[i1]]
        a2 = A[rows[i2]]
        a3 = A[rows[i3]]
        for c in range(len(total)):
            w0 = weights[i, c]
            w1 = weights[i1, c] if i1 > i else zero
            w2 = weights[i2, c] if i2 > i1 else zero
            w3 = weights[i3, c] if i3 > i2 else zero
            for j in range(total.shape[1]):
                total[c, j] += w0 * a0[j] + w1 * a1[j] + w2 * a2[j] + w3 * a3[j]


def find_largest(vector: Array, indices: IndexArray) -> bool:
    """Fill `indices` with those of the largest magnitudes, in decreasing order.

    Ties go to the lower index. Return False if an entry is not finite.
    """
    last = len(indices) - 1
    sizes = np.full(len(indices), -1, vector.dtype)
    for j in range(len(vector)):
        size = abs(vector[j])
        if not size <= sizes[last]:  # True for NaN too
            if not size < math.inf:
                return False

            # Insert it after all that are at least as large.
            i = last
            while i > 0 and sizes[i - 1] < size:
                sizes[i] = sizes[i - 1]
                indices[i] = indices[i - 1]
                i -= 1
            sizes[i] = size
            indices[i] = j
    return True


# Least squares, as in `fgmp._support.linear_algebra.least_squares`.


def has_factor(products: Array, squares: Array, share: float) -> bool:
    """Return whether the matrix with `products` below its diagonal is definite.

    Its diagonal is `share * squares`.
    """
    factor = np.empty_like(products)
    for i in range(len(products)):
        for j in range(i):
            factor[i, j] = (products[i, j] - dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        pivot = share * squares[i] - dot(factor[i, :i], factor[i, :i])
        if not 0 < pivot < math.inf:
            return False
        factor[i, i] = 1 / math.sqrt(pivot)
    return True


def factorize(A: Array, factor: Array, squares: Array) -> bool:
    """Fill `factor` with L of A A' = L L', and `squares` with the diagonal of A A'.

    On its diagonal, `factor` has 1 / L_ii. Return False if A A' is not definite beyond rounding.
    """
    count = len(A)
    smallest = float(np.finfo(A.dtype).eps) ** 0.75
    products = np.empty((count, count), A.dtype)
    shares = 1.0
    for i in range(count):
        for j in range(i):
            products[i, j] = dot(A[i], A[j])
            factor[i, j] = (products[i, j] - dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        squares[i] = dot(A[i], A[i])
        pivot = squares[i] - dot(factor[i, :i], factor[i, :i])
        if not smallest * squares[i] < pivot < math.inf:
            return False
        shares *= pivot / squares[i]
        factor[i, i] = 1 / math.sqrt(pivot)

    # H is A A' scaled to a diagonal of ones, and its determinant the product of the shares. H is
    # definite beyond rounding if the determinant is large enough (which is quick to see), or if H
    # has a factor even without a little of its diagonal: the rule of `linear_algebra`.
    return shares > math.e * smallest or has_factor(products, squares, 1 - smallest)


def solve_least_squares(A: Array, y: Array, x: Array) -> bool:
    """Fill x with the minimiser of ||A'x - y||, or if A is wide with the shortest x of A x = y.

    Return False if A A' is not definite beyond rounding, or if a few corrections do not reach the
    precision.
    """
    count = len(A)
    is_wide = len(x) > count
    eps = float(np.finfo(A.dtype).eps)
    factor = np.empty((count, count), A.dtype)
    squares = np.empty(count)
    if not factorize(A, factor, squares):
        return False

    rows = np.arange(count)
    z = np.empty(count, A.dtype)
    error = y.copy()
    lengths = np.zeros(1 + _REFINEMENTS)
    x[:] = 0
    for turn in range(1 + _REFINEMENTS):
        # L L' z = A error, or if A is wide L L' z = error.
        for i in range(count):
            right = error[i] if is_wide else dot(A[i], error)
            z[i] = (right - dot(factor[i, :i], z[:i])) * factor[i, i]
        for i in range(count - 1, -1, -1):
            z[i] *= factor[i, i]
            for j in range(i):
                z[j] -= z[i] * factor[i, j]
            lengths[turn] += float(z[i]) ** 2 * squares[i]

        # x gains z, or A'z; what it leaves of y is computed anew.
        error[:] = y
        if is_wide:
            add_weighted_rows(x.reshape(1, -1), A, rows, z.reshape(-1, 1))
            for i in range(count):
                error[i] -= dot(A[i], x)
        else:
            x += z
            add_weighted_rows(error.reshape(1, -1), A, rows, -x.reshape(-1, 1))

        # Each correction leaves the same fraction of the error.
        fraction = math.sqrt(lengths[1] / lengths[0]) if lengths[0] > 0 else 0.0
        if turn > 0 and fraction ** (turn + 1) <= eps:
            return True
    return False


# Algorithm 1.


def minibatch_gradient(
    A: Array, y: Array, rows: IndexArray, known_columns: Array, x: Array
) -> Array:
    """Return r = A_b'(A_b x - y_b) / b over the rows of a minibatch, shape (1, n).

    `known_columns` are the columns of A on the support of x, and `x` its values there.
    """
    batch_size = len(rows)
    weights = np.empty((batch_size, 1), A.dtype)
    for t in range(batch_size):
        weights[t, 0] = (dot(known_columns[rows[t]], x) - y[rows[t]]) / batch_size
    r = np.zeros((1, A.shape[1]), A.dtype)
    add_weighted_rows(r, A, rows, weights)
    return r


def cohort_pursuit(
    first: int,
    last: int,
    data: CohortData,
    stream: RandomStream,
    local_iterations: int,
    start_support: IndexArray,
    start_values: Array,
    supports: IndexArray,
    values: Array,
    counts: IndexArray,
) -> None:
    """Run Algorithm 1 with least squares at each client, from the model x_t that the server sent.

    For one output, in orthonormal atoms, without a ball; all else is left to other code.

    The updates go into `supports` (increasing) and `values`, shape (L, tau), and the number of
    their entries into `counts`. A client's count stays 0 if a system is nearly singular, or if a
    gradient or a model is not finite: then its update is left to the reference implementation.
    """
    n = data.features.shape[1]
    tau = supports.shape[1]
    gamma = np.empty(min(2 * tau, n), np.int64)
    for i in range(first, last):
        A = data.features[data.begins[i] : data.ends[i]]
        y = data.targets[data.begins[i] : data.ends[i]]
        support = start_support
        x = start_values
        for rows in draw_minibatches(
            stream, data.client_ids[i], local_iterations, len(A), data.batch_sizes[i]
        ):
            # r = grad g_{i,j}(x), the gradient of the minibatch.
            r = minibatch_gradient(A, y, rows, A[:, support], x)

            # Gamma = approx_{2 tau}(r): the 2 tau largest entries.
            if not find_largest(r[0], gamma):
                break

            # Gamma-hat = Gamma u Lambda.
            is_merged = np.zeros(n, np.bool_)
            is_merged[gamma] = True
            is_merged[support] = True
            merged = np.flatnonzero(is_merged)

            # b = argmin f_i over the span of the atoms of Gamma-hat.
            b = np.empty(len(merged), A.dtype)
            columns = A[:, merged] if len(merged) > len(A) else A.T[merged]
            if not solve_least_squares(columns, y, b):
                break

            # Lambda = approx_tau(b), and x = P_Lambda b.
            kept = np.empty(min(tau, len(merged)), np.int64)
            if not find_largest(b, kept):
                break
            kept.sort()
            support = merged[kept]
            x = b[kept]
        else:  # all K iterations came to an end
            counts[i] = len(x)
            supports[i, : len(x)] = support
            values[i, : len(x)] = x


# First-order steps.


def derivative_in_place(scores: Array, target: Any, margin: float, weight: Any) -> None:
    """Turn the predictions of a row, shape (C,), into the derivative of its loss, times `weight`.

    The loss is softmax for several outputs, logistic if `margin` is above 0, else squared.
    """
    if len(scores) > 1:
        highest = scores[0]
        total = scores.dtype.type(0)
        # As in `fgmp.losses`: less matters no more than rounding, and denormal products are slow.
        lowest = scores.dtype.type(0.7 * math.log(np.finfo(scores.dtype).tiny))
        for c in range(1, len(scores)):
            highest = max(highest, scores[c])
        for c in range(len(scores)):
            scores[c] = math.exp(max(scores[c] - highest, lowest))
            total += scores[c]
        for c in range(len(scores)):
            scores[c] *= weight / total
        scores[int(target)] -= weight
    elif margin > 0:
        scores[0] = -margin * target * weight / (1 + math.exp(margin * target * scores[0]))
    else:
        scores[0] = weight * (scores[0] - target)


def soft_threshold(v: Array, threshold: float) -> Array:
    """Return S(v, t) = sign(v) max(|v| - t, 0)."""
    return v - np.minimum(np.maximum(v, -threshold), threshold)


def hard_threshold(v: Array, chosen: IndexArray) -> None:
    """Keep the largest entries of each row of v, as many as `chosen` holds, and set others to zero.

    A row that is not finite stays as it is, so that a divergence shows.
    """
    for c in range(len(v)):
        if find_largest(v[c], chosen):
            kept = v[c][chosen]
            v[c] = 0
            v[c][chosen] = kept


def cohort_descent(
    first: int,
    last: int,
    data: CohortData,
    stream: RandomStream,
    learning_rate: float,
    margin: float,
    is_mean: bool,
    sparsity: int,
    thresholds: Array,
    row_products: Array,
    models: Array,
) -> None:
    """Take K local steps at each client: v <- S(H(v - eta g(S(v, before))), after).

    Parameters
    ----------
    first, last, data, stream
        As in `cohort_pursuit`.
    learning_rate : float
        eta.
    margin : float
        Of the logistic loss, else 0.
    is_mean : bool
        Whether the gradient of a minibatch is a mean over its rows, or a sum.
    sparsity : int
        How many entries of each output H keeps; 0 is all.
    thresholds : ndarray, shape (K, 2)
        `before` and `after` of each step.
    row_products : ndarray, shape (M, most rows), or (0, 0)
        A_i A_i' of all clients. With them, and without thresholds, steps are taken on predictions:
        v is A_i w, and the model becomes w + A_i'z, for z the sum of all derivatives.
    models : ndarray, shape (L, C, n)
        The model that was sent to each client, which becomes its update.
    """
    A = data.features
    y = data.targets
    n_outputs = models.shape[1]
    on_predictions = len(row_products) > 0
    chosen = np.empty(sparsity, np.int64)
    scores = np.empty((_ROWS_AT_ONCE, n_outputs), A.dtype)
    for i in range(first, last):
        begin = data.begins[i]
        end = data.ends[i]
        batch_size = data.batch_sizes[i]
        z = np.zeros((end - begin, n_outputs), A.dtype)

        # v, and the rows of which a step is made.
        table = A[begin:end]
        v = models[i]
        if on_predictions:
            table = row_products[begin:end]
            v = np.zeros((n_outputs, row_products.shape[1]), A.dtype)
            for t in range(end - begin):
                for c in range(n_outputs):
                    v[c, t] = dot(A[begin + t], models[i, c])

        # What the derivative of a row counts in a step. It stands here because steps of softmax on
        # pixels took a tenth longer with it before z (measured, in float32).
        weight = A.dtype.type(-learning_rate / batch_size if is_mean else -learning_rate)
        step = np.empty_like(v)
        batches = draw_minibatches(
            stream, data.client_ids[i], len(thresholds), end - begin, batch_size
        )
        for k, rows in enumerate(batches):
            before, after = thresholds[k]

            # -eta g at S(v, before): a few rows at a time, scores and then their sum.
            step[:] = 0
            point = soft_threshold(v, before) if before > 0 else v
            for t in range(0, batch_size, _ROWS_AT_ONCE):
                for s, row in enumerate(rows[t : t + _ROWS_AT_ONCE]):
                    for c in range(n_outputs):
                        scores[s, c] = v[c, row] if on_predictions else dot(table[row], point[c])
                    derivative_in_place(scores[s], y[begin + row], margin, weight)
                    for c in range(n_outputs):
                        z[row, c] += scores[s, c]
                add_weighted_rows(step, table, rows[t : t + _ROWS_AT_ONCE], scores)
            v += step

            # H, and S of the client's own.
            if sparsity > 0:
                hard_threshold(v, chosen)
            if after > 0:
                v[:] = soft_threshold(v, after)

        if on_predictions:
            add_weighted_rows(models[i], A[begin:end], np.arange(end - begin), z)


# `make mutants` changes no function that has a decorator, so all are compiled from here on.
#
# Sums may be taken in any order, but what is not finite stays as it is. Helpers are inlined: one
# that was called could be compiled once for itself and once for its caller, with sums in another
# order, and the bits of a run would depend on whether a process compiles a loop or loads it.
# These options stand in this file because Numba compares the age of its cache with no other.
_HELPERS = (
    high_word,
    keyed_words,
    partition_smallest,
    draw_minibatches,
    dot,
    add_weighted_rows,
    find_largest,
    has_factor,
    factorize,
    solve_least_squares,
    minibatch_gradient,
    derivative_in_place,
    soft_threshold,
    hard_threshold,
)
for _helper in _HELPERS:  # which loops, and other helpers, find by name once they are compiled
    globals()[_helper.__name__] = numba.njit(
        _helper, fastmath={"reassoc", "nsz", "contract"}, forceinline=True
    )

pursuit_loop = CompiledLoop(cohort_pursuit)
descent_loop = CompiledLoop(cohort_descent)
