"""A round of a cohort, or of its part from `first` to `last`, in one compiled call over one table of all rows."""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numba
import numpy as np

from .._support.warnings import warn_user

Array = np.ndarray[Any, Any]
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_FACTORS = (
    np.uint64(0xD2E7470EE14C6C93),
    np.uint64(0xCA5A826395121157),
)  # of Philox4x64-10, and what its key gains
_GAINS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)

_LONG = 2.0  # seconds of compiling until somebody who waits is told

# Sums may be taken in any order; what is not a number stays what it is. All is inlined: what is called may be compiled
# once for itself and once for its caller, with other sums, and whether a process compiles or loads then changes bits.
_jit = numba.njit(fastmath={"reassoc", "nsz", "contract"}, forceinline=True)


class _Loop:
    """A loop over clients beside which other threads go on, kept on disk where there is a folder for it.

    The disk only saves time. What Numba finds there may be damaged, and what it writes may not fit: then this process
    compiles for itself.
    """

    _lost: ClassVar[set[str]] = set()  # the folders of which this process has said it

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self._ready: set[Any] = set()
        self._lock = threading.Lock()
        try:
            self.compiled = numba.njit(function, nogil=True, cache=True)
        except RuntimeError:  # no folder can be made
            self.compiled = numba.njit(function, nogil=True)

    def __call__(self, *given: Any) -> None:
        self.prepare(*given)
        self.compiled(*given)

    def prepare(self, *given: Any) -> None:
        """Compile or load the loop for arguments of these types, where that has not been done."""
        kinds = _kinds(given)
        if kinds in self._ready:
            return
        with self._lock:
            if hasattr(
                self.compiled, "compile"
            ):  # with NUMBA_DISABLE_JIT it is the function itself
                with _said_where_it_takes_long():
                    self._compile(tuple(map(numba.typeof, given)))
        self._ready.add(kinds)

    def _compile(self, types: tuple[Any, ...]) -> None:
        try:
            self.compiled.compile(types)
        except Exception as error:  # a damaged file may raise anything
            if types in self.compiled.overloads:  # it is there, and only could not be written
                self._say_that_the_cache_is_lost(error)
                return
            folder_is_to_blame = self.compiled.stats.cache_path is not None
            again = numba.njit(self.function, nogil=True)
            again.compile(types)
            if folder_is_to_blame:
                self._say_that_the_cache_is_lost(error)
            self.compiled = again

    def _say_that_the_cache_is_lost(self, error: Exception) -> None:
        folder = str(self.compiled.stats.cache_path)
        if folder not in self._lost:
            self._lost.add(folder)
            module, name = self.function.__module__.rpartition(".")[2], self.function.__name__
            warn_user(
                f"Numba's cache {os.path.join(folder, f'{module}.{name}-*')} cannot be used "
                f"({type(error).__name__}: {error}); the run goes on, and each process compiles for itself. What "
                "helps: delete these files, make room on their disk, or name another folder in NUMBA_CACHE_DIR",
                of_machine=True,
            )


def _kinds(given: Any) -> Any:
    """What decides the compiled types of arguments, and costs little to ask for."""
    if isinstance(given, tuple):
        return tuple(map(_kinds, given))
    if isinstance(given, np.ndarray):
        return given.dtype, given.ndim, given.flags.num
    return type(given)


@contextmanager
def _said_where_it_takes_long() -> Iterator[None]:
    """A line for whoever sits at a terminal and waits, where nothing was on disk."""

    def say() -> None:
        print(
            "fgmp: compiling its loops, which takes some seconds, once on this machine",
            file=sys.stderr,
        )

    timer = threading.Timer(_LONG, say)
    timer.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@_jit
def _high(a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a product."""
    low, high = b & _LOW, b >> _HALF
    middle = (a >> _HALF) * low + ((a & _LOW) * low >> _HALF)
    return (a >> _HALF) * high + (middle >> _HALF) + ((a & _LOW) * high + (middle & _LOW) >> _HALF)


@_jit
def keyed_words(stream: Any, client: int, count: int) -> Array:
    """The first `count` words of a client and up to three more, by its key; `fgmp.rounds.Streams` keeps 53 bits."""
    (key, purpose, index, number), words = stream, np.empty(((count + 3) // 4, 4), np.uint64)
    for block in range(len(words)):
        a, b, c, d = (
            np.uint64(block + 1),
            np.uint64(purpose << 32 | index),
            np.uint64(client),
            np.uint64(number),
        )
        p, q = key[0], key[1]
        for _ in range(10):
            a, b, c, d = (
                _high(_FACTORS[1], c) ^ b ^ p,
                _FACTORS[1] * c,
                _high(_FACTORS[0], a) ^ d ^ q,
                _FACTORS[0] * a,
            )
            p, q = p + _GAINS[0], q + _GAINS[1]
        words[block, 0], words[block, 1], words[block, 2], words[block, 3] = a, b, c, d
    return words.reshape(-1)


@_jit
def _largest(vector: Array, indices: Array) -> bool:
    """Fill `indices` with those of the largest entries, ties to the lower index; False where one is not finite."""
    last, sizes = len(indices) - 1, np.full(len(indices), -1, vector.dtype)
    for j in range(len(vector)):
        size, i = abs(vector[j]), last
        if not size <= sizes[last]:
            if not size < math.inf:
                return False
            while i > 0 and sizes[i - 1] < size:
                sizes[i], indices[i] = sizes[i - 1], indices[i - 1]
                i -= 1
            sizes[i], indices[i] = size, j
    return True


@_jit
def _minibatches(stream: Any, client: int, steps: int, n_rows: int, batch: int) -> Array:
    """As `fgmp.federation.Client.minibatches`: the rows of each step, shape (steps, batch)."""
    rows, numbers = (
        np.zeros((steps, batch), np.int64) + np.arange(batch),
        np.arange(n_rows).astype(np.uint64),
    )
    drawn, mask = (
        steps if batch < n_rows else 0,
        np.uint64(2 ** max(11, math.ceil(math.log2(n_rows))) - 1),
    )
    words = keyed_words(stream, client, drawn * n_rows)
    for k in range(drawn):  # a row's number fills the 11 bits that a draw has not, or more
        draws, low, high, index = (
            words[k * n_rows : (k + 1) * n_rows] & ~mask | numbers,
            0,
            n_rows,
            0,
        )
        while index != batch:  # partitions by the last of those from low to high
            pivot, index = draws[high - 1], low
            for i in range(low, high):
                draws[i], draws[index] = draws[index], draws[i]
                index += draws[index] <= pivot
            low, high = (index, high) if index < batch else (low, index - 1)
        rows[k] = (draws[:batch] & mask).astype(np.int64)
    return rows


@_jit
def _dot(a: Array, b: Array) -> Any:
    """a'b."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@_jit
def _combine(total: Array, A: Array, rows: Array, weights: Array) -> None:
    """total += weights' A[rows], shape (C, .), four rows in a pass."""
    last, zero = len(rows) - 1, A.dtype.type(0)
    for i in range(0, len(rows), 4):
        g, h, o = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        a, b, d, e = A[rows[i]], A[rows[g]], A[rows[h]], A[rows[o]]
        for c in range(len(total)):
            p, q = weights[i, c], weights[g, c] if g > i else zero
            r, s = weights[h, c] if h > g else zero, weights[o, c] if o > h else zero
            for j in range(total.shape[1]):
                total[c, j] += p * a[j] + q * b[j] + r * d[j] + s * e[j]


@_jit
def _has_factor(products: Array, squares: Array, share: float) -> bool:
    """Whether `products`, the lower half of a matrix, with the diagonal `share` times the `squares` is definite."""
    factor = np.empty_like(products)
    for i in range(len(products)):
        for j in range(i):
            factor[i, j] = (products[i, j] - _dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        pivot = share * squares[i] - _dot(factor[i, :i], factor[i, :i])
        if not 0 < pivot < math.inf:
            return False
        factor[i, i] = 1 / math.sqrt(pivot)
    return True


@_jit
def _least_squares(A: Array, y: Array, x: Array) -> bool:
    """As `least_squares` of linear_algebra: x = argmin ||A'x - y||, or where A is wide the shortest x with A x = y.

    False where A A' is not definite beyond rounding, or a few refinements do not reach the precision.
    """
    count, wide, eps, rows = (
        len(A),
        len(x) > len(A),
        float(np.finfo(A.dtype).eps),
        np.arange(len(A)),
    )
    factor, squares, z, error = (
        np.empty((count, count), A.dtype),
        np.empty(count),
        np.empty(count, A.dtype),
        y.copy(),
    )
    products, smallest, shares = np.empty((count, count), A.dtype), eps**0.75, 1.0
    for i in range(count):
        for j in range(i):
            products[i, j] = _dot(A[i], A[j])
            factor[i, j] = (products[i, j] - _dot(factor[i, :j], factor[j, :j])) * factor[j, j]
        squares[i] = _dot(A[i], A[i])
        pivot = squares[i] - _dot(factor[i, :i], factor[i, :i])
        if not smallest * squares[i] < pivot < math.inf:
            return False
        shares *= pivot / squares[i]
        factor[i, i] = 1 / math.sqrt(pivot)
    # Definite beyond rounding, by the rule of linear_algebra: det(H), the product of the shares, is enough, or H
    # less a little of its diagonal has a factor as well.
    if not shares > math.e * smallest and not _has_factor(products, squares, 1 - smallest):
        return False
    x[:], moved = 0, np.zeros(4)
    for turn in range(4):
        for i in range(count):
            z[i] = (
                (error[i] if wide else _dot(A[i], error)) - _dot(factor[i, :i], z[:i])
            ) * factor[i, i]
        for i in range(count - 1, -1, -1):
            z[i] *= factor[i, i]
            for j in range(i):
                z[j] -= z[i] * factor[i, j]
            moved[turn] += float(z[i]) ** 2 * squares[i]
        error[:] = y
        if wide:
            _combine(x.reshape(1, -1), A, rows, z.reshape(-1, 1))
            for i in range(count):
                error[i] -= _dot(A[i], x)
        else:
            x += z
            _combine(error.reshape(1, -1), A, rows, -x.reshape(-1, 1))
        fraction = (
            math.sqrt(moved[1] / moved[0]) if moved[0] > 0 else 0.0
        )  # that a correction leaves of the error
        if turn > 0 and fraction ** (turn + 1) <= eps:
            return True
    return False


@_Loop
def cohort_pursuit(first: int, last: int, asked: Any, steps: int, model: Any, answers: Any) -> None:
    """Algorithm 1 with least squares: K `steps` from a `model`, its support and values, at each client.

    `asked` are A, y, shapes (M, n) and (M,); the cohort, shape (4, L): where the rows of each client begin and end, the
    size of its minibatches and its key; and the stream, ``(key, purpose, index, number)``. `answers` are increasing
    places and values, shape (L, tau), and how many: 0 where a system is nearly singular or holds no number.
    """
    (A_, y_, cohort, stream), (indices, values, counts), n = asked, answers, asked[0].shape[1]
    tau, gamma = indices.shape[1], np.empty(min(2 * indices.shape[1], n), np.int64)
    for i in range(first, last):
        begin, end, batch, client = cohort[:, i]
        A, y, (support, x), weights = (
            A_[begin:end],
            y_[begin:end],
            model,
            np.empty((batch, 1), A_.dtype),
        )
        for rows in _minibatches(stream, client, steps, end - begin, batch):
            known = A[:, support]
            for t in range(batch):
                weights[t, 0] = (_dot(known[rows[t]], x) - y[rows[t]]) / batch
            r, member = np.zeros((1, n), A.dtype), np.zeros(n, np.bool_)
            _combine(r, A, rows, weights)
            if not _largest(r[0], gamma):
                break
            member[gamma] = member[support] = True
            merged = np.flatnonzero(member)
            b, kept = np.empty(len(merged), A.dtype), np.empty(min(tau, len(merged)), np.int64)
            solved = _least_squares(A[:, merged] if len(merged) > len(A) else A.T[merged], y, b)
            if not solved or not _largest(b, kept):
                break
            kept.sort()
            support, x = merged[kept], b[kept]
        else:
            counts[i], indices[i, : len(x)], values[i, : len(x)] = len(x), support, x


@_jit
def _derivative(scores: Array, y: Any, margin: float, weight: Any) -> None:
    """The predictions of a row, shape (C,), become the derivative of its loss, times a weight."""
    if len(scores) > 1:
        top, total = scores[0], scores.dtype.type(0)
        lowest = scores.dtype.type(
            0.7 * math.log(np.finfo(scores.dtype).tiny)
        )  # as in `fgmp.losses`
        for c in range(1, len(scores)):
            top = max(top, scores[c])
        for c in range(len(scores)):
            scores[c] = math.exp(max(scores[c] - top, lowest))
            total += scores[c]
        for c in range(len(scores)):
            scores[c] *= weight / total
        scores[int(y)] -= weight
    elif margin > 0:
        scores[0] = -margin * y * weight / (1 + math.exp(margin * y * scores[0]))
    else:
        scores[0] = weight * (scores[0] - y)


@_Loop
def cohort_descent(
    first: int, last: int, asked: Any, how: Any, cuts: Array, products: Array, ends: Array
) -> None:
    """K steps v <- S(H(v - eta g(S(v, cuts[k, 0]))), cuts[k, 1]) at each client, `asked` as in `cohort_pursuit`.

    `how` is the margin of the logistic loss, else 0, eta, whether the loss is a mean, and what H keeps of each output
    (0: all). `ends`, shape (L, C, n), holds the model that was sent, and then the answers. With `products`, the A_i
    A_i' of all clients, and no H and S, steps are taken on predictions: v = A_i w, until w + A_i'z.
    """
    (A, y, cohort, stream), (margin, eta, mean, keep), C, spanned = (
        asked,
        how,
        ends.shape[1],
        len(products) > 0,
    )
    chosen, scores = np.empty(keep, np.int64), np.empty((4, C), A.dtype)
    for i in range(first, last):
        begin, end, batch, client = cohort[:, i]
        table, v, z = A[begin:end], ends[i], np.zeros((end - begin, C), A.dtype)
        if spanned:
            table, v = products[begin:end], np.zeros((C, products.shape[1]), A.dtype)
            for t in range(end - begin):
                for c in range(C):
                    v[c, t] = _dot(A[begin + t], ends[i, c])
        weight, step = A.dtype.type(-eta / batch if mean else -eta), np.empty_like(v)
        for k, rows in enumerate(_minibatches(stream, client, len(cuts), end - begin, batch)):
            before, after = cuts[k]
            step[:] = 0
            point = v - np.minimum(np.maximum(v, -before), before) if before > 0 else v
            for t in range(0, batch, 4):
                for s, row in enumerate(rows[t : t + 4]):
                    for c in range(C):
                        scores[s, c] = v[c, row] if spanned else _dot(table[row], point[c])
                    _derivative(scores[s], y[begin + row], margin, weight)
                    for c in range(C):
                        z[row, c] += scores[s, c]
                _combine(step, table, rows[t : t + 4], scores)
            v += step
            for c in range(C if keep else 0):
                if _largest(v[c], chosen):
                    kept = v[c][chosen]
                    v[c] = 0
                    v[c][chosen] = kept
            if after > 0:
                v -= np.minimum(np.maximum(v, -after), after)
        if spanned:
            _combine(ends[i], A[begin:end], np.arange(end - begin), z)
