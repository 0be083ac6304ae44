"""Loops over the rows of a minibatch, compiled by Numba where it is installed; without it the same, in plain Python.

Only `fgmp.local.compiled` imports this module, and only where a loop serves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compilation import jit as _jit
from ..compilation import jit_and_keep as _kept
from ..models import Array, Support

__all__ = ["candidates", "descend", "mark", "normal_equations", "pursue"]

_COLUMNS = 90  # with more, LAPACK is faster


@_jit
def _is_below(value: Any, place: int, other: Any, elsewhere: int) -> bool:
    """Whether an entry is chosen after another: smaller, or as large and further on."""
    return bool(value < other or (value == other and place > elsewhere))


@_jit
def _sink(values: Array, places: Support, here: int) -> None:
    """Let an entry of a heap, whose least entry comes first, sink to where it belongs."""
    value, place = values[here], places[here]
    while 2 * here + 1 < len(values):
        child = 2 * here + 1
        if child + 1 < len(values) and _is_below(values[child + 1], places[child + 1], values[child], places[child]):
            child += 1
        if not _is_below(values[child], places[child], value, place):
            break
        values[here], places[here] = values[child], places[child]
        here = child
    values[here], places[here] = value, place


@_kept
def mark(vector: Array, count: int, marked: Array) -> None:
    """Set `marked` where the `count` largest magnitudes stand, ties towards the lower index; never what is no number.

    One pass with a heap of the largest so far: few entries of a long vector ever enter it.
    """
    values, places = np.abs(vector[:count]), np.arange(count)
    for i in range(count - 1, -1, -1):
        if not values[i] >= 0:
            values[i] = -1
        _sink(values, places, i)
    for j in range(count, len(vector)):
        if abs(vector[j]) > values[0]:
            values[0], places[0] = abs(vector[j]), j
            _sink(values, places, 0)
    for i in range(count):
        if values[i] >= 0:
            marked[places[i]] = True


@_jit
def _four(rows: Support, i: int) -> tuple[Any, Any, Any, Any]:
    """Four entries from the i-th on, the last repeated where there are fewer."""
    last = len(rows) - 1
    return rows[i], rows[min(i + 1, last)], rows[min(i + 2, last)], rows[min(i + 3, last)]


@_jit
def _add_four(total: Array, A: Array, places: tuple[Any, Any, Any, Any], p: Any, q: Any, r: Any, s: Any) -> None:
    """Add p times a row, and so on: one pass over the total for four rows."""
    a, b, c, d = A[places[0]], A[places[1]], A[places[2]], A[places[3]]
    for j in range(len(total)):
        total[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]


@_kept
def candidates(A: Array, rows: Support, weights: Array, count: int, support: Support) -> Support:
    """The support, and with it where A[rows]' weights has its `count` largest entries; increasing.

    A has contiguous rows and at least `count` columns.
    """
    gradient, member = np.empty(A.shape[1], A.dtype), np.zeros(A.shape[1], np.bool_)
    padded = np.zeros(len(rows) + 3, A.dtype)
    padded[: len(rows)] = weights
    gradient[:] = 0
    for i in range(0, len(rows), 4):
        _add_four(gradient, A, _four(rows, i), padded[i], padded[i + 1], padded[i + 2], padded[i + 3])
    mark(gradient, count, member)
    for place in support:
        member[place] = True
    return member.nonzero()[0]


@_jit
def _dot(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@_jit
def _four_dots(A: Array, places: tuple[Any, Any, Any, Any], w: Array) -> tuple[Any, Any, Any, Any]:
    """Products of four rows with a vector, which is read once."""
    a, b, c, d = A[places[0]], A[places[1]], A[places[2]], A[places[3]]
    zero = w.dtype.type(0)
    p, q, r, s = zero, zero, zero, zero
    for j in range(len(w)):
        p += a[j] * w[j]
        q += b[j] * w[j]
        r += c[j] * w[j]
        s += d[j] * w[j]
    return p, q, r, s


@_jit
def _inner_products(columns: Array) -> Array:
    """The lower half of columns columns'; what is above is of no use."""
    k = len(columns)
    products, everything = np.empty((k, k + 3), columns.dtype), np.arange(k)
    for i in range(k):
        for j in range(0, i + 1, 4):
            four = _four_dots(columns, _four(everything, j), columns[i])
            products[i, j], products[i, j + 1], products[i, j + 2], products[i, j + 3] = four
    return products


@_jit
def _solve(factor: Array, x: Array) -> None:
    """x becomes the solution of factor factor' z = x."""
    k = len(x)
    for i in range(k):
        x[i] = (x[i] - _dot(factor[i, :i], x[:i])) / factor[i, i]
    for i in range(k - 1, -1, -1):
        x[i] /= factor[i, i]
        for j in range(i):
            x[j] -= x[i] * factor[i, j]


@_kept
def normal_equations(columns: Array, targets: Array, precision: float, share: float) -> tuple[Array, bool]:
    """`fgmp.linear_systems.least_squares` by a Cholesky factor; and whether its refinements reached the precision.

    The columns of the problem are the rows here; `share` is the least that those before leave of a squared column.
    """
    k, m = columns.shape
    factor, squares, x = _inner_products(columns), np.empty(k, columns.dtype), np.empty(k, columns.dtype)
    for i in range(k):
        squares[i] = factor[i, i]
        for j in range(i):
            factor[i, j] = (factor[i, j] - _dot(factor[i, :j], factor[j, :j])) / factor[j, j]
        left = squares[i] - _dot(factor[i, :i], factor[i, :i])
        if not left > share * squares[i]:
            return x, False
        factor[i, i] = math.sqrt(left)
    for i in range(k):
        x[i] = _dot(columns[i], targets)
    _solve(factor, x)
    size, remainder, fraction = 0.0, 0.0, 0.0
    for i in range(k):
        size += squares[i] * x[i] * x[i]
    residual, correction = np.empty(m, columns.dtype), np.empty(k, columns.dtype)
    for refinement in range(3):
        residual[:] = targets
        for i in range(k):
            residual -= x[i] * columns[i]
        for i in range(k):
            correction[i] = _dot(columns[i], residual)
        _solve(factor, correction)
        moved = 0.0
        for i in range(k):
            x[i] += correction[i]
            moved += squares[i] * correction[i] * correction[i]
        if refinement == 0:
            remainder = fraction = math.sqrt(moved / size) if size > 0 else 0.0
        remainder *= fraction
        if remainder <= precision:
            return x, True
    return x, False


@_kept
def pursue(
    A: Array,
    by_column: Array,
    targets: Array,
    rows: Support,
    support: Support,
    values: Array,
    columns: Array,
    sparsity: int,
    precision: float,
    share: float,
) -> tuple[Support, Array, Array, bool]:
    """One local iteration of Algorithm 1 for the squared loss: the new support, its coefficients and its columns.

    Where the normal equations here do not do: the merged atoms, nothing of use, their columns, False.

    Parameters
    ----------
    A, by_column : ndarray, shapes (m, n) and (n, m)
        The features, which may be rounded, times a positive factor, and their columns one in each row.
    targets, rows : ndarray, shapes (m,) and (b,)
    support, values, columns : ndarray, shapes (k,), (k,) and (k, m)
        Of the model before, and its columns one in each row.
    sparsity, precision, share
        tau, and as in `normal_equations`.
    """
    weights = np.empty(len(rows), A.dtype)
    residual = -targets
    for i in range(len(values)):
        residual += values[i] * columns[i]
    unit = math.ldexp(1.0, min(-math.frexp(np.abs(residual).max())[1], 1000))  # so that float32 holds the weights
    for i in range(len(rows)):
        weights[i] = unit * residual[rows[i]]
    merged = candidates(A, rows, weights, min(2 * sparsity, len(by_column)), support)
    gathered = np.empty((len(merged), len(targets)), targets.dtype)
    for i in range(len(merged)):
        gathered[i] = by_column[merged[i]]
    if len(merged) > min(_COLUMNS, len(targets)):
        return merged, values, gathered, False
    b, solved = normal_equations(gathered, targets, precision, share)
    if not solved:
        return merged, b, gathered, False
    kept = np.zeros(len(b), np.bool_)
    mark(b, min(sparsity, len(b)), kept)
    return merged[kept], b[kept], gathered[kept], True


@_jit
def _pull(prediction: Any, target: Any, margin: Any) -> Any:
    """The derivative of the squared loss or, with a margin above zero, of the logistic loss."""
    if margin == 0:
        return prediction - target
    pull = -margin * target
    z = pull * prediction
    if z >= 0:
        return pull / (1 + math.exp(-z))
    small = math.exp(z)
    return pull * small / (1 + small)


@_jit
def _gradient(A: Array, y: Array, rows: Support, w: Array, margin: Any, weight: Any, gradient: Array) -> None:
    """The gradient at w over the rows: predictions of four rows, then what they add, while a cache holds them."""
    weights = np.zeros(4, A.dtype)
    gradient[:] = 0
    for i in range(0, len(rows), 4):
        places = _four(rows, i)
        predictions = _four_dots(A, places, w)
        for c in range(4):
            inside = i + c < len(rows)
            weights[c] = weight * _pull(predictions[c], y[places[c]], margin) if inside else 0.0
        _add_four(gradient, A, places, weights[0], weights[1], weights[2], weights[3])


@_jit
def _shorten(v: Array, threshold: Any, w: Array) -> None:
    """w = S(v, threshold)."""
    for j in range(len(v)):
        if v[j] > threshold:
            w[j] = v[j] - threshold
        elif v[j] < -threshold:
            w[j] = v[j] + threshold
        else:
            w[j] = v[j] * 0  # what is not a number stays


@_kept
def descend(
    A: Array,
    y: Array,
    batches: Support,
    start: Array,
    margin: float,
    weight: float,
    rate: float,
    count: int,
    before: Array,
    after: Array,
) -> Array:
    """The end of a step v <- S(H(v - rate g(S(v, before_k))), after_k) for each row of `batches`.

    Parameters
    ----------
    A : ndarray, shape (m, n)
        With contiguous rows.
    y : ndarray, shape (m,)
    batches : ndarray of int, shape (K, b)
        The rows of each step.
    start : ndarray, shape (n,)
        Not modified.
    margin : float
        Of the logistic loss; 0 is the squared loss.
    weight : float
        Of each row.
    rate : float
        The step length.
    count : int
        How many entries H keeps; 0 is all.
    before, after : ndarray, shape (K,)
        Thresholds; 0 is none.
    """
    v, w, gradient, kept = start.copy(), start.copy(), np.empty_like(start), np.empty(len(start), np.bool_)
    for k in range(len(batches)):
        if before[k] > 0:
            _shorten(v, v.dtype.type(before[k]), w)
            _gradient(A, y, batches[k], w, margin, weight, gradient)
        else:
            _gradient(A, y, batches[k], v, margin, weight, gradient)
        step = v.dtype.type(rate)
        for j in range(len(v)):
            v[j] -= step * gradient[j]
        if 0 < count < len(v):
            kept[:] = False
            mark(v, count, kept)
            for j in range(len(v)):
                v[j] *= kept[j]
        if after[k] > 0:
            _shorten(v, v.dtype.type(after[k]), v)
    return v
