"""Compiled copies of client updates ("kernels"): Algorithms 1 and 2, and the baselines.

Beside `fgmp.FedGradMP.client_update` read `cohort_pursuit` (Algorithm 1 with least squares) and
`inexact_pursuit` (Algorithm 2 with `SGD` or `GradientDescent`); beside the steps of
`fgmp.baselines` read `cohort_descent`. All go through the clients of a cohort from `first` to
`last` - 1, so that several threads can share a cohort: a client's numbers depend on no other
client, hence not on the number of threads. Everything is plain Python over arrays
(NUMBA_DISABLE_JIT=1 runs it as such).
"""

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import numpy as np

from ..sparse_model import Array, IndexArray
from .arguments import AtomProducts, CohortData, CountedEntries, Objective, Pursuit, RandomStream
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

# A line search, as in `fgmp.solvers`: its most halvings, and the share of the decrease that the
# slope promises which a step has to reach.
_MOST_HALVINGS = 60
_SUFFICIENT_DECREASE = 1e-4

# Rows that are read together, so that sums are written back a quarter as often.
_ROWS_AT_ONCE = 4


def first_integers(count: int) -> IndexArray:
    """Return 0, ..., count - 1."""
    integers = np.empty(count, np.int64)
    for i in range(count):
        integers[i] = i
    return integers


# Minibatches: the same rows in the same order as `fgmp.Client.minibatches` draws.


def high_word(a: Any, b: Any) -> Any:
    """Return the upper 64 of the 128 bits of a product."""
    low = b & _LOW_HALF
    high = b >> _HALF_WORD
    middle = (a >> _HALF_WORD) * low + ((a & _LOW_HALF) * low >> _HALF_WORD)
    carried = (a & _LOW_HALF) * high + (middle & _LOW_HALF) >> _HALF_WORD
    return (a >> _HALF_WORD) * high + (middle >> _HALF_WORD) + carried


def keyed_words(stream: RandomStream, client_id: int, start: int, count: int) -> Array:
    """Return `count` random words of a client, from word `start` on.

    They are those of the generator `fgmp.method.Streams.of`, which keeps 53 bits of each word.
    """
    first_block = start // 4
    n_blocks = (start + count + 3) // 4 - first_block
    words = np.empty(4 * n_blocks, np.uint64)
    for block in range(n_blocks):
        counter_0 = np.uint64(first_block + block + 1)
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
        words[4 * block] = counter_0
        words[4 * block + 1] = counter_1
        words[4 * block + 2] = counter_2
        words[4 * block + 3] = counter_3
    skipped = start - 4 * first_block
    return words[skipped : skipped + count]


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


def draw_minibatch(
    stream: RandomStream, client_id: int, first_word: int, n_rows: int, batch_size: int
) -> IndexArray:
    """Return the rows of a minibatch, shape (batch_size,), from the random words `first_word` on.

    A minibatch is the rows with the smallest of one random number for each row. The number of the
    row takes the free bits of its random word, so that both move together. A client with no more
    rows than a minibatch uses all of them, in order, and no random words. The words of one
    minibatch are in memory, never those of several: a client may have millions of rows.
    """
    rows = first_integers(batch_size)
    if batch_size >= n_rows:
        return rows

    row_bits = max(_FREE_BITS, math.ceil(math.log2(n_rows)))
    row_mask = np.uint64(2**row_bits - 1)
    draws = keyed_words(stream, client_id, first_word, n_rows)
    for row in range(n_rows):
        draws[row] = draws[row] & ~row_mask | np.uint64(row)
    partition_smallest(draws, batch_size)
    for t in range(batch_size):
        rows[t] = draws[t] & row_mask
    return rows


# Sums and selections.


def dot(a: Array, b: Array) -> Any:
    """Return a'b."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


# Loops over entries, because with `target[:] = source` Numba compiles the error messages, too.


def set_to_zero(total: Array) -> None:
    """Fill an array of shape (C, n) with zeros."""
    for c in range(len(total)):
        for j in range(total.shape[1]):
            total[c, j] = 0


def copy_into(target: Array, source: Array) -> None:
    """Copy the entries of `source`, shape (k,), to the first k of `target`."""
    for j in range(len(source)):
        target[j] = source[j]


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


# Least squares, as in `fgmp._support.linear_algebra.least_squares`.


def has_factor(products: Array, share: float, smallest: float, factor: Array) -> bool:
    """Fill `factor` with L of H = L L', with 1 / L_ii on its diagonal; return False if it has none.

    H is symmetric, with `products` below its diagonal and `share` of them on it. Each squared pivot
    has to be above the part `smallest` of its product.
    """
    for i in range(len(products)):
        for j in range(i):
            factor[i, j] = (products[i, j] - dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        square = float(products[i, i])
        pivot = share * square - dot(factor[i, :i], factor[i, :i])
        if not smallest * square < pivot < math.inf:
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
    # As in `has_factor`, but each product is computed where it is needed: while the processor waits
    # for the factor (a tenth of the time of small clients, measured).
    for i in range(count):
        for j in range(i):
            products[i, j] = dot(A[i], A[j])
            factor[i, j] = (products[i, j] - dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        products[i, i] = dot(A[i], A[i])
        squares[i] = products[i, i]
        pivot = squares[i] - dot(factor[i, :i], factor[i, :i])
        if not smallest * squares[i] < pivot < math.inf:
            return False
        shares *= pivot / squares[i]
        factor[i, i] = 1 / math.sqrt(pivot)

    # H is A A' scaled to a diagonal of ones, and its determinant the product of the shares. H is
    # definite beyond rounding if the determinant is large enough (which is quick to see), or if H
    # has a factor even without a little of its diagonal: the rule of `linear_algebra`.
    if shares > math.e * smallest:
        return True
    return has_factor(products, 1 - smallest, 0.0, np.empty_like(products))


def solve_factored(factor: Array, z: Array) -> None:
    """Replace z, in place, by the solution of L L' x = z, for L as `factorize` leaves it."""
    for i in range(len(z)):
        z[i] = (z[i] - dot(factor[i, :i], z[:i])) * factor[i, i]
    for i in range(len(z) - 1, -1, -1):
        z[i] *= factor[i, i]
        for j in range(i):
            z[j] -= z[i] * factor[i, j]


def solve_least_squares(A: Array, y: Array, x: Array) -> bool:
    """Fill x with the minimiser of ||A'x - y||, or if A is wide with the shortest x of A x = y.

    The solution x has shape (1, k), and y shape (m,). Return False if A A' is not definite beyond
    rounding, or if a few corrections do not reach the precision.
    """
    count = len(A)
    is_wide = x.shape[1] > count
    eps = float(np.finfo(A.dtype).eps)
    factor = np.empty((count, count), A.dtype)
    squares = np.empty(count, np.float64)
    if not factorize(A, factor, squares):
        return False

    rows = first_integers(count)
    z = np.empty(count, A.dtype)
    weights = np.empty((count, 1), A.dtype)
    errors = np.empty((1, len(y)), A.dtype)
    error = errors[0]
    copy_into(error, y)
    set_to_zero(x)
    fraction = 0.0
    first_length = 0.0
    for turn in range(1 + _REFINEMENTS):
        # L L' z = A error, or if A is wide L L' z = error.
        for i in range(count):
            z[i] = error[i] if is_wide else dot(A[i], error)
        solve_factored(factor, z)
        length = 0.0
        for i in range(count):
            length += float(z[i]) ** 2 * squares[i]

        # x gains z, or A'z; what it leaves of y is computed anew.
        copy_into(error, y)
        for i in range(count):
            if not is_wide:
                x[0, i] += z[i]
            weights[i, 0] = z[i] if is_wide else -x[0, i]
        add_weighted_rows(x if is_wide else errors, A, rows, weights)
        if is_wide:
            for i in range(count):
                error[i] -= dot(A[i], x[0])

        # Each correction leaves the same fraction of the error.
        if turn == 0:
            first_length = length
        elif turn == 1 and first_length > 0:
            fraction = math.sqrt(length / first_length)
        if turn > 0 and fraction ** (turn + 1) <= eps:
            return True
    return False


# Algorithm 1.


def minibatch_gradient(
    A: Array, y: Array, rows: IndexArray, support: IndexArray, x: Array, r: Array
) -> None:
    """Fill r, shape (1, n), with A_b'(A_b x - y_b) / b over the rows of a minibatch.

    `support` is that of the model, and `x` its values there.
    """
    known_columns = copy_columns(A, rows, support)
    weights = np.empty((len(rows), 1), A.dtype)
    for t in range(len(rows)):
        weights[t, 0] = (dot(known_columns[t], x) - y[rows[t]]) / len(rows)
    set_to_zero(r)
    add_weighted_rows(r, A, rows, weights)


def system_of(A: Array, atoms: IndexArray) -> Array:
    """Return the columns of some atoms, as rows unless there are more of them than rows of A."""
    if len(atoms) > len(A):
        return copy_columns(A, first_integers(len(A)), atoms)
    columns = np.empty((len(atoms), len(A)), A.dtype)
    for j in range(len(atoms)):
        column = A[:, atoms[j]]
        copy_into(columns[j], column)
    return columns


def keep_largest(b: Array, tau: int, atoms: IndexArray) -> int:
    """Move the tau largest entries of b, and their atoms, to the front; return how many.

    Return -1 if b is not finite.
    """
    sizes = np.empty(len(b), b.dtype)
    is_kept = np.empty(len(b), np.bool_)
    for j in range(len(b)):
        sizes[j] = abs(b[j])
        is_kept[j] = False
    if not are_finite(sizes):
        return -1
    mark_largest(sizes, tau, is_kept)
    count = 0
    for j in range(len(b)):
        if is_kept[j]:
            atoms[count] = atoms[j]
            b[count] = b[j]
            count += 1
    return count


def cohort_pursuit(
    first: int,
    last: int,
    data: CohortData,
    stream: RandomStream,
    task: Pursuit,
) -> None:
    """Run Algorithm 1 with least squares at each client, from the model x_t that the server sent.

    For one output, in orthonormal atoms, without a ball; all else is left to other code. A client's
    count stays 0 if a gradient or a model is not finite, or if a system is nearly singular.
    """
    n = data.features.shape[1]
    is_member = np.empty((1, n), np.bool_)
    is_merged = np.empty((1, n), np.bool_)
    r = np.empty((1, n), data.features.dtype)
    for i in range(first, last):
        A = data.features[data.begins[i] : data.ends[i]]
        y = data.targets[data.begins[i] : data.ends[i]]
        support = task.start_support
        x = task.start_values
        for k in range(task.local_iterations):
            rows = draw_minibatch(
                stream, data.client_ids[i], k * len(A), len(A), data.batch_sizes[i]
            )

            # r = grad g_{i,j}(x), the gradient of the minibatch.
            minibatch_gradient(A, y, rows, support, x, r)

            # Gamma = approx_{2 tau}(r), and Gamma-hat = Gamma u Lambda.
            set_to_zero(is_member)
            for j in range(len(support)):
                is_member[0, support[j]] = True
            if not merge(r, task.counted, task.products, is_member, is_merged):
                break
            merged = atoms_in_use(is_merged)

            # b = argmin f_i over the span of the atoms of Gamma-hat.
            solution = np.empty((1, len(merged)), A.dtype)
            if not solve_least_squares(system_of(A, merged), y, solution):
                break

            # Lambda = approx_tau(b), and x = P_Lambda b.
            n_kept = keep_largest(solution[0], task.counted.sparsity, merged)
            if n_kept < 0:
                break
            support = merged[:n_kept]
            x = solution[0, :n_kept]
        else:  # all K iterations came to an end
            task.counts[i] = len(x)
            copy_into(task.supports[i], support)
            copy_into(task.values[i], x)


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


def hard_threshold(v: Array, sparsity: int) -> None:
    """Keep the `sparsity` largest entries of each row of v, and set the others to zero.

    A row that is not finite stays as it is, so that a divergence shows.
    """
    sizes = np.abs(v)
    for c in range(len(v)):
        if are_finite(sizes[c]):
            is_kept = np.zeros(v.shape[1], np.bool_)
            mark_largest(sizes[c], sparsity, is_kept)
            for j in range(v.shape[1]):
                v[c, j] = v[c, j] if is_kept[j] else 0


def cohort_descent(
    first: int,
    last: int,
    data: CohortData,
    stream: RandomStream,
    learning_rate: float,
    objective: Objective,
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
    objective : Objective
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
    outputs = first_integers(n_outputs)
    on_predictions = len(row_products) > 0
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
        weight = A.dtype.type(-learning_rate / batch_size if objective.is_mean else -learning_rate)
        step = np.empty_like(v)
        for k in range(len(thresholds)):
            before, after = thresholds[k]
            first_word = k * (end - begin)
            rows = draw_minibatch(stream, data.client_ids[i], first_word, end - begin, batch_size)

            # -eta g at S(v, before): a few rows at a time, scores and then their sum.
            set_to_zero(step)
            point = soft_threshold(v, before) if before > 0 else v
            for t in range(0, batch_size, _ROWS_AT_ONCE):
                some = rows[t : t + _ROWS_AT_ONCE]
                if on_predictions:
                    scores = copy_columns(v, outputs, some).T.copy()
                else:
                    scores = predict(table, some, point)
                for s, row in enumerate(some):
                    derivative_in_place(scores[s], y[begin + row], objective.margin, weight)
                    for c in range(n_outputs):
                        z[row, c] += scores[s, c]
                add_weighted_rows(step, table, some, scores)
            v += step

            # H, and S of the client's own.
            if sparsity > 0:
                hard_threshold(v, sparsity)
            if after > 0:
                thresholded = soft_threshold(v, after)
                for c in range(n_outputs):
                    copy_into(v[c], thresholded[c])

        if on_predictions:
            add_weighted_rows(models[i], A[begin:end], first_integers(end - begin), z)


# Algorithm 2: inexact solvers, any of the three losses, several outputs.
#
# Arrays of all coefficients have shape (C, n), a row for each output. Products of rows take only
# the atoms that are in use, whose columns are copied first: a client's model has few of them.


def derivatives_in_place(scores: Array, y: Array, rows: IndexArray, objective: Objective) -> None:
    """Turn the predictions of a minibatch into the derivatives of its loss, shape (b, C)."""
    weight = scores.dtype.type(1 / len(rows) if objective.is_mean else 1)
    for t in range(len(rows)):
        derivative_in_place(scores[t], y[rows[t]], objective.margin, weight)


def load_model(support: IndexArray, values: Array, x: Array, is_member: Array) -> None:
    """Fill x, shape (C, n), and the truth values `is_member` from positions of a `SparseModel`."""
    n_outputs = len(x)
    set_to_zero(x)
    set_to_zero(is_member)
    for k in range(len(support)):
        atom = support[k] // n_outputs
        output = support[k] % n_outputs
        x[output, atom] = values[k]
        is_member[output, atom] = True


def store_model(x: Array, is_member: Array, support: IndexArray, values: Array) -> int:
    """Fill the positions, increasing, and the values of a `SparseModel`; return how many."""
    n_outputs, n = x.shape
    count = 0
    for j in range(n):
        for c in range(n_outputs):
            if is_member[c, j]:
                support[count] = j * n_outputs + c
                values[count] = x[c, j]
                count += 1
    return count


def atoms_in_use(is_used: Array) -> IndexArray:
    """Return the atoms, increasing, that at least one output uses; `is_used` has shape (C, n)."""
    n_outputs, n = is_used.shape
    is_used_somewhere = np.zeros(n, np.bool_)
    for c in range(n_outputs):
        for j in range(n):
            is_used_somewhere[j] |= is_used[c, j]

    atoms = np.empty(n, np.int64)
    count = 0
    for j in range(n):
        if is_used_somewhere[j]:  # few are, so that a branch is faster than a sum
            atoms[count] = j
            count += 1
    return atoms[:count]


def atoms_to_read(is_used: Array) -> IndexArray:
    """Return the atoms in use, or all if those are most: to leave out few saves no time."""
    atoms = atoms_in_use(is_used)
    n = is_used.shape[1]
    return atoms if 2 * len(atoms) < n else first_integers(n)


def copy_columns(A: Array, rows: IndexArray, atoms: IndexArray) -> Array:
    """Return the columns of some atoms in some rows of A, shape (len(rows), len(atoms))."""
    columns = np.empty((len(rows), len(atoms)), A.dtype)
    for t in range(len(rows)):
        row = A[rows[t]]
        if len(atoms) == len(row):  # then it is a plain copy
            for j in range(len(row)):
                columns[t, j] = row[j]
        else:
            for j in range(len(atoms)):
                columns[t, j] = row[atoms[j]]
    return columns


def columns_to_read(A: Array, rows: IndexArray, atoms: IndexArray) -> tuple[Array, IndexArray]:
    """Return a table with the columns of some atoms, and where some rows of A stand in it.

    With all atoms it is A itself.
    """
    if len(atoms) == A.shape[1]:
        return A, rows
    return copy_columns(A, rows, atoms), first_integers(len(rows))


def predict(A: Array, rows: IndexArray, x: Array) -> Array:
    """Return the predictions of some rows, shape (len(rows), C), for x of shape (C, n).

    Four rows and two outputs are read in one pass, so that what is read serves several sums.
    """
    last = len(rows) - 1
    n_outputs, n = x.shape
    zero = A.dtype.type(0)
    scores = np.empty((len(rows), n_outputs), A.dtype)
    for t in range(0, len(rows), _ROWS_AT_ONCE):
        # After the last row stands the last row again.
        t1 = min(t + 1, last)
        t2 = min(t + 2, last)
        t3 = min(t + 3, last)
        a0 = A[rows[t]]
        a1 = A[rows[t1]]
        a2 = A[rows[t2]]
        a3 = A[rows[t3]]
        for c in range(0, n_outputs - 1, 2):
            x0 = x[c]
            x1 = x[c + 1]
            s00 = s10 = s20 = s30 = zero
            s01 = s11 = s21 = s31 = zero
            for j in range(n):
                s00 += a0[j] * x0[j]
                s10 += a1[j] * x0[j]
                s20 += a2[j] * x0[j]
                s30 += a3[j] * x0[j]
                s01 += a0[j] * x1[j]
                s11 += a1[j] * x1[j]
                s21 += a2[j] * x1[j]
                s31 += a3[j] * x1[j]
            scores[t, c] = s00
            scores[t1, c] = s10
            scores[t2, c] = s20
            scores[t3, c] = s30
            scores[t, c + 1] = s01
            scores[t1, c + 1] = s11
            scores[t2, c + 1] = s21
            scores[t3, c + 1] = s31

        # The last of an odd number of outputs.
        if n_outputs % 2 == 1:
            x0 = x[n_outputs - 1]
            s00 = s10 = s20 = s30 = zero
            for j in range(n):
                s00 += a0[j] * x0[j]
                s10 += a1[j] * x0[j]
                s20 += a2[j] * x0[j]
                s30 += a3[j] * x0[j]
            scores[t, n_outputs - 1] = s00
            scores[t1, n_outputs - 1] = s10
            scores[t2, n_outputs - 1] = s20
            scores[t3, n_outputs - 1] = s30
    return scores


def are_finite(sizes: Array) -> bool:
    """Return whether all sizes, which are not negative, are finite numbers."""
    n_finite = np.int32(0)
    for j in range(len(sizes)):
        n_finite = np.int32(n_finite + (sizes[j] < math.inf))
    return bool(n_finite == len(sizes))


def count_above(sizes: Array, threshold: Any) -> Any:
    """Return how many sizes are above a threshold."""
    n_above = np.int32(0)
    for j in range(len(sizes)):
        n_above = np.int32(n_above + (sizes[j] > threshold))
    return n_above


def mark_largest(sizes: Array, count: int, is_marked: Array) -> None:
    """Mark the `count` largest sizes, ties to the lower index; those below 0 are no candidates.

    Nothing is unmarked. All sizes are finite.
    """
    threshold = sizes.dtype.type(0)
    n_above = count_above(sizes, threshold)

    # Bisection, as to count is faster than to sort: always more than `count` sizes are above `low`.
    if n_above > count:
        low = threshold
        half = sizes.dtype.type(0.5)
        for j in range(len(sizes)):
            threshold = max(threshold, sizes[j])
        n_above = np.int32(0)
        while n_above < count:
            middle = low + half * (threshold - low)  # a sum of the two might overflow
            if not low < middle < threshold:  # no number lies between them
                break
            n_larger = count_above(sizes, middle)
            if n_larger > count:
                low = middle
            else:
                threshold = middle
                n_above = n_larger

    for j in range(len(sizes)):
        is_marked[j] |= sizes[j] > threshold

    # Now those as large as the threshold, in their order.
    n_ties = count - n_above
    for j in range(len(sizes)):
        if n_ties == 0:
            break
        if sizes[j] == threshold:
            is_marked[j] = True
            n_ties -= 1


def mark_selected(magnitudes: Array, count: int, counted: CountedEntries, is_marked: Array) -> bool:
    """Mark what approx_tau selects for `count` = tau, and the atoms that are always included.

    `magnitudes`, which are overwritten, and `is_marked` have shape (C, n); a magnitude below 0 is
    no candidate. Return False, and mark nothing, if a magnitude is not finite.
    """
    n_outputs, n = magnitudes.shape
    for c in range(n_outputs):
        if not are_finite(magnitudes[c]):
            return False

    # Atoms are counted by the norms of their rows, which take the place of the first output.
    if counted.by_atom:
        for j in range(n):
            largest = magnitudes[0, j]
            square = magnitudes.dtype.type(0)
            for c in range(n_outputs):
                largest = max(largest, magnitudes[c, j])
                square += max(magnitudes[c, j], magnitudes.dtype.type(0)) ** 2
            magnitudes[0, j] = math.sqrt(square) if largest >= 0 else -1

    is_chosen = np.empty(n, np.bool_)
    for c in range(1 if counted.by_atom else n_outputs):
        for j in range(n):
            is_chosen[j] = counted.always_include[j]
            if is_chosen[j]:
                magnitudes[c, j] = -1
        mark_largest(magnitudes[c], count, is_chosen)
        for d in range(c, n_outputs if counted.by_atom else c + 1):
            for j in range(n):
                is_marked[d, j] |= is_chosen[j]
    return True


def solve_in_span(gram: Array, atoms: IndexArray, right: Array, solution: Array) -> bool:
    """Fill `solution` with the z of Psi_a'Psi_a z = right, for some atoms a.

    Return False if the atoms are dependent, to rounding.
    """
    count = len(atoms)
    products = np.empty((count, count), gram.dtype)
    for i in range(count):
        for j in range(i + 1):
            products[i, j] = gram[atoms[i], atoms[j]]
    factor = np.empty((count, count), gram.dtype)
    smallest = float(np.finfo(gram.dtype).eps) ** 0.75
    if not has_factor(products, 1.0, smallest, factor):
        return False
    copy_into(solution, right)
    solve_factored(factor, solution)
    return True


def merge(
    gradient: Array,
    counted: CountedEntries,
    products: AtomProducts,
    is_member: Array,
    is_merged: Array,
) -> bool:
    """Fill `is_merged` with Gamma-hat = Gamma u Lambda, for Gamma = approx_{2 tau}(gradient).

    `is_member` is Lambda. The gradient is overwritten. Return False if it is not finite.
    """
    n_outputs, n = gradient.shape
    for c in range(n_outputs):
        for j in range(n):
            gradient[c, j] = abs(gradient[c, j])
            is_merged[c, j] = is_member[c, j]
        for j in range(len(products.norms)):
            gradient[c, j] /= products.norms[j]
    return mark_selected(gradient, 2 * counted.sparsity, counted, is_merged)


def prune(
    counted: CountedEntries,
    radius: float,
    products: AtomProducts,
    is_merged: Array,
    x: Array,
    is_member: Array,
) -> bool:
    """Set x to Pi_R P_Lambda x, and `is_member` to Lambda = approx_tau(x), in place.

    Return False if x is not finite, or if the atoms of Lambda are dependent.
    """
    n_outputs, n = x.shape
    is_orthonormal = len(products.norms) == 0

    # The magnitudes of the coefficients; of other atoms than orthonormal ones |Psi'Psi x|, each
    # over the norm of its atom, and not only of the merged ones.
    magnitudes = np.empty((n_outputs, n), x.dtype)
    correlations = np.zeros((n_outputs, n), np.float64)
    for c in range(n_outputs):
        if is_orthonormal:
            for j in range(n):
                magnitudes[c, j] = abs(x[c, j]) if is_merged[c, j] else -1
        else:
            for atom in range(n):
                if is_merged[c, atom]:
                    for j in range(n):
                        correlations[c, j] += products.gram[atom, j] * float(x[c, atom])
            for j in range(n):
                magnitudes[c, j] = abs(correlations[c, j]) / products.norms[j]

    # Lambda = approx_tau(x)
    set_to_zero(is_member)
    if not mark_selected(magnitudes, counted.sparsity, counted, is_member):
        return False

    # P_Lambda x, and its squared norm. Other atoms than orthonormal ones have a system to solve.
    square = 0.0
    zero = x.dtype.type(0)
    for c in range(n_outputs):
        if is_orthonormal:
            for j in range(n):
                is_member[c, j] &= is_merged[c, j]
            for j in range(n):
                entry = x[c, j]
                x[c, j] = entry if is_member[c, j] else zero
            for j in range(n):
                square += float(x[c, j]) * float(x[c, j])
        else:
            atoms = atoms_in_use(is_member[c : c + 1])
            right = np.empty(len(atoms), np.float64)
            solution = np.empty(len(atoms), np.float64)
            for k in range(len(atoms)):
                right[k] = correlations[c, atoms[k]]
            if not solve_in_span(products.gram, atoms, right, solution):
                return False
            for j in range(n):
                x[c, j] = 0
            for k in range(len(atoms)):
                x[c, atoms[k]] = solution[k]
            square += dot(solution, right)

    # Pi_R
    norm = math.sqrt(max(square, 0.0))
    if norm > radius:
        scale = x.dtype.type(radius / norm)
        for c in range(n_outputs):
            for j in range(n):
                x[c, j] *= scale
    return square < math.inf


def loss_value(scores: Array, target: Any, margin: float) -> float:
    """Return the loss of a row from its predictions, shape (C,): see `derivative_in_place`."""
    if len(scores) > 1:
        highest = scores[0]
        for c in range(1, len(scores)):
            highest = max(highest, scores[c])
        total = 0.0
        for c in range(len(scores)):
            total += math.exp(scores[c] - highest)
        return math.log(total) - float(scores[int(target)] - highest)
    if margin > 0:
        lead = float(margin * target * scores[0])
        return math.log1p(math.exp(-abs(lead))) + max(-lead, 0.0)
    residual = float(scores[0] - target)
    return 0.5 * residual * residual


def curvature_along(scores: Array, direction: Array, margin: float) -> float:
    """Return d' l''(z) d for a row with the predictions z = `scores`, both of shape (C,)."""
    if len(scores) > 1:
        highest = scores[0]
        for c in range(1, len(scores)):
            highest = max(highest, scores[c])
        total = 0.0
        mean = 0.0
        for c in range(len(scores)):
            share = math.exp(scores[c] - highest)
            total += share
            mean += share * direction[c]
        mean /= total
        variance = 0.0
        for c in range(len(scores)):
            variance += math.exp(scores[c] - highest) / total * (direction[c] - mean) ** 2
        return variance
    square = float(direction[0]) * float(direction[0])
    if margin > 0:
        odds = math.exp(-abs(float(margin * scores[0])))
        return margin**2 * odds / (1 + odds) ** 2 * square
    return square


def fill_descent_direction(
    gradient: Array,
    atoms: IndexArray,
    products: AtomProducts,
    is_merged: Array,
    direction: Array,
) -> bool:
    """Fill `direction`, shape (C, n), with that of steepest descent of the signal Psi x.

    In orthonormal atoms that is -g on the merged atoms, else -(Psi_a'Psi_a)^{-1} g. The gradient
    has shape (C, len(atoms)). Return False if merged atoms are dependent.
    """
    for c in range(len(gradient)):
        for j in range(len(atoms)):
            is_free = is_merged[c, atoms[j]]
            direction[c, atoms[j]] = -gradient[c, j] if is_free else gradient.dtype.type(0)
        if len(products.norms) > 0:
            merged = atoms_in_use(is_merged[c : c + 1])
            right = np.empty(len(merged), np.float64)
            solution = np.empty(len(merged), np.float64)
            for k in range(len(merged)):
                right[k] = direction[c, merged[k]]
            if not solve_in_span(products.gram, merged, right, solution):
                return False
            for k in range(len(merged)):
                direction[c, merged[k]] = solution[k]
    return True


def take_gradient_steps(
    A: Array,
    y: Array,
    steps: int,
    objective: Objective,
    products: AtomProducts,
    is_merged: Array,
    scores: Array,
    x: Array,
) -> bool:
    """Minimise f_i on the merged atoms by `steps` of `GradientDescent`, from x, in place.

    The numbers are those of `SecondOrderProblem.line_search`. `scores` are the predictions at x,
    which change with it. Return False if a gradient is so large or so small that its squares
    overflow or vanish, or if merged atoms are dependent.
    """
    n_rows, n_outputs = scores.shape
    margin = objective.margin
    weight = 1 / n_rows if objective.is_mean else 1.0
    rounding = float(np.finfo(A.dtype).eps)
    safe = 2.0**30 if rounding > 1e-10 else 2.0**200  # float32, or float64
    every_row = first_integers(n_rows)
    outputs = first_integers(n_outputs)
    atoms = atoms_in_use(is_merged)
    columns = copy_columns(A, every_row, atoms)
    derivative = np.empty((n_rows, n_outputs), columns.dtype)
    gradient = np.empty((n_outputs, len(atoms)), columns.dtype)
    direction = np.empty(x.shape, columns.dtype)
    trial = np.empty(n_outputs, columns.dtype)
    squared_norms = np.zeros(len(atoms), columns.dtype)
    for t in range(n_rows):
        for j in range(len(atoms)):
            squared_norms[j] += columns[t, j] ** 2

    for _ in range(steps):
        # h = f_i(x), and g = grad f_i(x) on the merged atoms.
        before = 0.0
        derivative_square = 0.0
        for t in range(n_rows):
            before += weight * loss_value(scores[t], y[t], margin)
            for c in range(n_outputs):
                derivative[t, c] = scores[t, c]
            derivative_in_place(derivative[t], y[t], margin, columns.dtype.type(weight))
            for c in range(n_outputs):
                derivative_square += float(derivative[t, c]) * float(derivative[t, c])
        set_to_zero(gradient)
        add_weighted_rows(gradient, columns, every_row, derivative)
        if not fill_descent_direction(gradient, atoms, products, is_merged, direction):
            return False

        # The slope along d, and how much of it may be rounding.
        slope = 0.0
        step_square = 0.0
        largest = 0.0
        for c in range(n_outputs):
            for j in range(len(atoms)):
                along = float(direction[c, atoms[j]])
                slope += along * float(gradient[c, j])
                step_square += along * along * float(squared_norms[j])
                largest = max(largest, abs(along))
        if largest == 0:
            return True
        if not 1 / safe < largest < safe:
            return False
        negligible = rounding * math.sqrt((16 + n_rows) * derivative_square * step_square)

        # The minimiser of the quadratic model along d, of which the squared loss is one.
        image = predict(columns, every_row, copy_columns(direction, outputs, atoms))
        curvature = 0.0
        for t in range(n_rows):
            curvature += weight * curvature_along(scores[t], image[t], margin)
        if not (curvature > 0 and slope < -negligible):
            return True
        length = -slope / curvature

        # Halved until f_i decreases enough (Armijo), or not at all.
        for halving in range(1 + _MOST_HALVINGS):
            if halving == _MOST_HALVINGS:
                return True
            after = 0.0
            for t in range(n_rows):
                for c in range(n_outputs):
                    trial[c] = scores[t, c] + columns.dtype.type(length) * image[t, c]
                after += weight * loss_value(trial, y[t], margin)
            wanted = before + _SUFFICIENT_DECREASE * length * slope + 16 * rounding * abs(before)
            if after <= wanted:
                break
            length /= 2

        # x + s d, and its predictions.
        for c in range(n_outputs):
            for j in range(len(atoms)):
                x[c, atoms[j]] += columns.dtype.type(length) * direction[c, atoms[j]]
            for t in range(n_rows):
                scores[t, c] += columns.dtype.type(length) * image[t, c]
    return True


def inexact_pursuit(has_line_search: bool) -> Callable[..., None]:
    """Return the loop that runs Algorithm 2 at each client, with `GradientDescent` or with `SGD`.

    Parameters
    ----------
    has_line_search : bool
        Whether the solver is `GradientDescent`. Numba compiles the steps of this solver only.

    Returns
    -------
    callable
        Its parameters `first`, `last`, `data`, `stream` and `task` are as in `cohort_pursuit`; a
        client's count stays 0 if a gradient or a model is not finite, or if atoms are dependent.
        Then come an `Objective`; `radius`, R or infinity; `n_outputs`, C; and of the solver
        `steps`, `learning_rate` and `step_batch_size`, which is 0 for all rows. A line search has
        no rate, and takes all rows.
    """

    def cohort_inexact_pursuit(
        first: int,
        last: int,
        data: CohortData,
        stream: RandomStream,
        task: Pursuit,
        objective: Objective,
        radius: float,
        n_outputs: int,
        steps: int,
        learning_rate: float,
        step_batch_size: int,
    ) -> None:
        counted = task.counted
        products = task.products
        n = data.features.shape[1]
        outputs = first_integers(n_outputs)
        x = np.empty((n_outputs, n), data.features.dtype)
        is_member = np.empty((n_outputs, n), np.bool_)
        is_merged = np.empty((n_outputs, n), np.bool_)
        r = np.empty((n_outputs, n), data.features.dtype)
        for i in range(first, last):
            A = data.features[data.begins[i] : data.ends[i]]
            y = data.targets[data.begins[i] : data.ends[i]]
            n_rows = len(A)
            every_row = first_integers(n_rows)
            batch_size = data.batch_sizes[i]
            load_model(task.start_support, task.start_values, x, is_member)

            # A client draws its K minibatches first, then those of the solver.
            solver_rows = min(step_batch_size, n_rows) if step_batch_size > 0 else n_rows
            first_step = task.local_iterations if batch_size < n_rows else 0

            for k in range(task.local_iterations):
                # r = grad g_{i,j}(x), the gradient of the minibatch. A line search goes on from the
                # predictions of all rows at x, whose atoms are those of Lambda.
                rows = draw_minibatch(stream, data.client_ids[i], k * n_rows, n_rows, batch_size)
                if has_line_search:
                    atoms = atoms_in_use(is_member)
                    columns = copy_columns(A, every_row, atoms)
                    scores = predict(columns, every_row, copy_columns(x, outputs, atoms))
                    derivative = np.empty((batch_size, n_outputs), A.dtype)
                    for t in range(batch_size):
                        copy_into(derivative[t], scores[rows[t]])
                else:
                    atoms = atoms_to_read(is_member)
                    columns, places = columns_to_read(A, rows, atoms)
                    derivative = predict(columns, places, copy_columns(x, outputs, atoms))
                derivatives_in_place(derivative, y, rows, objective)
                set_to_zero(r)
                add_weighted_rows(r, A, rows, derivative)

                # Gamma = approx_{2 tau}(r), and Gamma-hat = Gamma u Lambda.
                if not merge(r, counted, products, is_member, is_merged):
                    break

                # b = argmin f_i over the span of the atoms of Gamma-hat, nearly.
                if has_line_search:
                    if not take_gradient_steps(
                        A, y, steps, objective, products, is_merged, scores, x
                    ):
                        break
                else:
                    # Steps of SGD on z, the coefficients of these atoms.
                    rate = A.dtype.type(learning_rate)
                    atoms = atoms_to_read(is_merged)
                    z = copy_columns(x, outputs, atoms)
                    is_free = copy_columns(is_merged, outputs, atoms)
                    gradient = np.empty(z.shape, A.dtype)
                    for step in range(steps):
                        first_word = (first_step + k * steps + step) * n_rows
                        rows = draw_minibatch(
                            stream, data.client_ids[i], first_word, n_rows, solver_rows
                        )
                        columns, places = columns_to_read(A, rows, atoms)
                        derivative = predict(columns, places, z)
                        derivatives_in_place(derivative, y, rows, objective)
                        set_to_zero(gradient)
                        add_weighted_rows(gradient, columns, places, derivative)
                        for c in range(n_outputs):
                            for j in range(len(atoms)):
                                change = rate * gradient[c, j]
                                z[c, j] -= change if is_free[c, j] else A.dtype.type(0)
                    for c in range(n_outputs):
                        for j in range(len(atoms)):
                            x[c, atoms[j]] = z[c, j]

                # Lambda = approx_tau(b), and x = Pi_R P_Lambda b.
                if not prune(counted, radius, products, is_merged, x, is_member):
                    break
            else:
                task.counts[i] = store_model(x, is_member, task.supports[i], task.values[i])

    return cohort_inexact_pursuit


# `make mutants` changes no function that has a decorator, so all are compiled from here on.
#
# Sums may be taken in any order, but what is not finite stays as it is. Helpers are inlined: one
# that was called could be compiled once for itself and once for its caller, with sums in another
# order, and the bits of a run would depend on whether a process compiles a loop or loads it. Only
# loops call them, so they get no entry points for Python and C, which take as long to compile.
# All functions of this file but the loops are helpers.
# These options stand in this file because Numba compares the age of its cache with no other.
_LOOPS = (cohort_pursuit, inexact_pursuit, cohort_descent)
_HELPERS = [
    function
    for function in vars().values()
    if isinstance(function, FunctionType)
    and function.__module__ == __name__
    and function not in _LOOPS
]
_HELPER_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "nsz", "contract"},
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
for _helper in _HELPERS:  # which loops, and other helpers, find by name once they are compiled
    globals()[_helper.__name__] = numba.njit(_helper, **_HELPER_OPTIONS)

pursuit_loop = CompiledLoop(cohort_pursuit)
stochastic_pursuit_loop = CompiledLoop(inexact_pursuit(has_line_search=False))
line_search_pursuit_loop = CompiledLoop(inexact_pursuit(has_line_search=True))
descent_loop = CompiledLoop(cohort_descent)
