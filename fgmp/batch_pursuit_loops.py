"""Batch-OMP one signal after another, compiled by Numba where it is installed; without it the same, in plain Python.

Only `fgmp.batch_pursuit` imports this module, and only where a loop serves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compilation import jit as _jit
from .compilation import jit_and_keep as _kept
from .models import Array, Support

__all__ = ["advance"]

_MAGNITUDE = 2**63 - 1  # all bits but the sign


@_jit
def _first_of_largest(vector: Array) -> int:
    """Where the largest magnitude stands, by the bits of the numbers, whose order is theirs.

    A maximum of integers is taken eight at a time, one of floats is not; each piece remembers no place but its first.
    """
    bits, largest, place = vector.view(np.int64), np.int64(-1), 0
    for start in range(0, len(bits), 64):
        piece, peak = bits[start : start + 64], np.int64(0)
        for j in range(len(piece)):
            peak = max(peak, piece[j] & _MAGNITUDE)
        if peak > largest:
            largest, place = peak, start
    while bits[place] & _MAGNITUDE < largest:
        place += 1
    return place


@_jit
def _subtract_parts(row: Array, parts: Array, weights: Array) -> None:
    """Subtract the weighted sum of some parts: one pass over the row for two of them."""
    for u in range(0, len(parts) - 1, 2):
        a, b, first, second = weights[u], weights[u + 1], parts[u], parts[u + 1]
        for j in range(len(row)):
            row[j] -= a * first[j] + b * second[j]
    if len(parts) % 2:
        a, last = weights[len(parts) - 1], parts[len(parts) - 1]
        for j in range(len(row)):
            row[j] -= a * last[j]


@_kept
def advance(
    gram: Array, norms: Array, residuals: Array, atoms: Support, space: Array, rounding: Any, dependent: Any
) -> Array:
    """Take atoms, in place, until each signal has its own; as `fgmp.batch_pursuit` does with all of them in step."""
    n_signals, count = atoms.shape
    parts, squares, weights, inverses = space[0], np.empty(count), np.empty(count), 1 / norms
    shares = np.zeros((n_signals, count, count))
    for i in range(n_signals):
        residual, share = residuals[i], shares[i]
        for step in range(count):
            atom = _first_of_largest(residual)
            height, row, products = residual[atom], parts[step], gram[atom]
            if not abs(height) > rounding:
                break
            for j in range(len(row)):
                row[j] = products[j] * inverses[j]
            for u in range(step):
                share[u, step] = parts[u, atom] / squares[u]
                weights[u] = share[u, step] * norms[atom]
            _subtract_parts(row, parts[:step], weights)
            left = row[atom] * inverses[atom]
            if not left > dependent:
                share[:step, step] = 0
                break
            factor = height / left * inverses[atom]
            for j in range(len(row)):
                row[j] *= factor
                residual[j] -= row[j]
            residual[atom] = 0
            squares[step], share[step, step], atoms[i, step] = height * height / left, left / height, atom
    return shares
