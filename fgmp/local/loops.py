"""Loops over the rows of a minibatch, compiled by Numba where it is installed; without it the same, in plain Python.

Only `compiled` imports this module, and only where a loop serves: importing Numba takes about half a second. What is
compiled is kept beside the byte code of this file, or in the user's cache where that folder cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..models import Array, Support

numba: Any
try:
    import numba
except ImportError:
    numba = None

__all__ = ["candidates", "descend", "mark"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be taken in any order; what is not a number stays what it is.
_ANY_ORDER = {"reassoc", "nsz", "contract"}


def _jit(function: Function) -> Function:
    """A part of a loop, compiled with it."""
    made: Function = function if numba is None else numba.njit(fastmath=_ANY_ORDER)(function)
    return made


def _kept(function: Function) -> Function:
    """A loop, compiled when it is first called, and kept on disk."""
    if numba is None:
        return function
    try:
        made: Function = numba.njit(cache=True, fastmath=_ANY_ORDER)(function)
    except RuntimeError:  # no folder that can be written: compiled anew in every process
        made = _jit(function)
    return made


@_jit
def _is_below(value: Any, place: int, other: Any, elsewhere: int) -> bool:
    """Whether an entry is chosen after another: smaller, or as large and further on."""
    return bool(value < other or (value == other and place > elsewhere))


@_jit
def _sink(values: Array, places: Support, size: int) -> None:
    """Let the first entry of a heap, whose least entry comes first, sink to where it belongs."""
    value, place, here = values[0], places[0], 0
    while True:
        child = 2 * here + 1
        if child >= size:
            break
        if child + 1 < size and _is_below(values[child + 1], places[child + 1], values[child], places[child]):
            child += 1
        if not _is_below(values[child], places[child], value, place):
            break
        values[here], places[here] = values[child], places[child]
        here = child
    values[here], places[here] = value, place


@_jit
def _rise(values: Array, places: Support, last: int) -> None:
    """Let the last entry of the heap rise to where it belongs."""
    value, place, here = values[last], places[last], last
    while here > 0:
        parent = (here - 1) // 2
        if not _is_below(value, place, values[parent], places[parent]):
            break
        values[here], places[here] = values[parent], places[parent]
        here = parent
    values[here], places[here] = value, place


@_kept
def mark(vector: Array, count: int, marked: Array) -> None:
    """Set `marked` where the `count` largest magnitudes stand, ties towards the lower index; never what is no number.

    One pass with a heap of the largest so far: few entries of a long vector ever enter it.
    """
    values, places, size = np.empty(count, vector.dtype), np.empty(count, np.intp), 0
    for j in range(len(vector)):
        value = abs(vector[j])
        if size < count:
            if value == value:
                values[size], places[size] = value, j
                _rise(values, places, size)
                size += 1
        elif value > values[0]:
            values[0], places[0] = value, j
            _sink(values, places, size)
    for i in range(size):
        marked[places[i]] = True


@_jit
def _add_rows(A: Array, rows: Support, weights: Array, total: Array) -> None:
    """Set total to sum_i weights_i A[rows_i]: four rows at a time, each read once."""
    n, i = A.shape[1], 0
    total[:] = 0
    while i + 4 <= len(rows):
        a, b, c, d = A[rows[i]], A[rows[i + 1]], A[rows[i + 2]], A[rows[i + 3]]
        p, q, r, s = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(n):
            total[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]
        i += 4
    while i < len(rows):
        a, p = A[rows[i]], weights[i]
        for j in range(n):
            total[j] += p * a[j]
        i += 1


@_kept
def candidates(A: Array, rows: Support, weights: Array, count: int, support: Support) -> Support:
    """The support, and with it where A[rows]' weights has its `count` largest entries; increasing.

    Parameters
    ----------
    A : ndarray, shape (m, n)
        With contiguous rows.
    rows : ndarray of int, shape (b,)
    weights : ndarray, shape (b,)
    count : int
        At most n.
    support : ndarray of int
    """
    gradient, member = np.empty(A.shape[1], A.dtype), np.zeros(A.shape[1], np.bool_)
    _add_rows(A, rows, weights, gradient)
    mark(gradient, count, member)
    for place in support:
        member[place] = True
    return member.nonzero()[0]


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
    n, i = A.shape[1], 0
    gradient[:] = 0
    while i + 4 <= len(rows):
        a, b, c, d = A[rows[i]], A[rows[i + 1]], A[rows[i + 2]], A[rows[i + 3]]
        p, q, r, s = A.dtype.type(0), A.dtype.type(0), A.dtype.type(0), A.dtype.type(0)
        for j in range(n):
            p += a[j] * w[j]
            q += b[j] * w[j]
            r += c[j] * w[j]
            s += d[j] * w[j]
        p = A.dtype.type(weight * _pull(p, y[rows[i]], margin))
        q = A.dtype.type(weight * _pull(q, y[rows[i + 1]], margin))
        r = A.dtype.type(weight * _pull(r, y[rows[i + 2]], margin))
        s = A.dtype.type(weight * _pull(s, y[rows[i + 3]], margin))
        for j in range(n):
            gradient[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]
        i += 4
    while i < len(rows):
        a, p = A[rows[i]], A.dtype.type(0)
        for j in range(n):
            p += a[j] * w[j]
        p = A.dtype.type(weight * _pull(p, y[rows[i]], margin))
        for j in range(n):
            gradient[j] += p * a[j]
        i += 1


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
    """The end of a gradient step for each row of `batches`: v <- S(H(v - rate g(S(v, before_k))), after_k).

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
