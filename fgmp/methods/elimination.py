"""From a minimiser on a merged support to a model of tau atoms by backward elimination: it needs no further message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..linear_systems import solve_definite, solve_semidefinite
from ..models import Array, SparseModel, Support
from ..selection import Selection

_RIDGE = 1e-10  # of the unit diagonal, where fewer samples than atoms leave directions without curvature


def eliminated(b: SparseModel, curvature: Array, before: Support, sparsity: int, selection: Selection) -> SparseModel:
    """The minimiser on tau of the atoms of b by backward elimination in (x - b)' H (x - b), H the `curvature`.

    One atom after another goes whose loss raises the quadratic least, b_j^2 / (H^-1)_jj; b and H^-1 follow. Units of
    the features do not matter. Where the atoms of the last model, `before`, can do better than those left, they stay:
    so a run cannot go in circles.

    References
    ----------
    S. J. Reeves, An efficient implementation of the backward greedy algorithm for sparse signal reconstruction, IEEE
    Signal Processing Letters 6(10), 1999; B. Hassibi, D. G. Stork, Second order derivatives for network pruning, 1993.
    """
    hessian = curvature.astype(np.float64)
    kept = _backwards(b, hessian, sparsity, selection)
    was = np.isin(b.support, before, assume_unique=True)
    first, second = (_on(b, hessian, mask) for mask in (kept, was))
    holds = len(before) > 0 and selection.holds(before, b.shape, sparsity)
    values, mask = (second[0], was) if holds and second[1] < first[1] else (first[0], kept)
    return replace(b, support=b.support[mask], values=values.astype(b.values.dtype, copy=False))


def _backwards(b: SparseModel, hessian: Array, sparsity: int, selection: Selection) -> Array:
    """Which atoms of b are left."""
    *_, (_, left, _) = backwards(b, hessian, selection, sparsity)
    return np.isin(np.arange(len(hessian)), left)


def backwards(
    b: SparseModel, hessian: Array, selection: Selection, least: int = 1
) -> Iterator[tuple[int, Support, Array]]:
    """The whole path: how many atoms are left, which positions of b these are, and the minimiser on them.

    It begins with one atom less than b has, or with `least`, and ends there.
    """
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0))
    scale[scale == 0] = 1
    inverse = np.linalg.inv(hessian / scale[:, None] / scale + _RIDGE * np.eye(len(scale)))
    values, left = b.values.astype(np.float64) * scale, np.arange(len(scale))
    for count in range(max(selection.counted(b.support, b.shape) - 1, least), least - 1, -1):
        sizes = SparseModel(b.support[left], np.abs(values) / np.sqrt(inverse.diagonal()), b.shape)
        stays = np.isin(sizes.support, selection.choose_of(sizes, count), assume_unique=True)
        gone, stay = np.flatnonzero(~stays), np.flatnonzero(stays)
        if gone.size:
            across = np.linalg.solve(inverse[np.ix_(gone, gone)], inverse[np.ix_(gone, stay)])
            values = values[stay] - values[gone] @ across
            inverse = inverse[np.ix_(stay, stay)] - inverse[np.ix_(stay, gone)] @ across
            left = left[stay]
        yield count, left, values / scale[left]


def _on(b: SparseModel, hessian: Array, mask: Array) -> tuple[Array, float]:
    """The minimiser on some atoms of b, as a correction of b, and how far it lies above the minimum."""
    values, dropped = b.values.astype(np.float64), ~mask
    pull = hessian[np.ix_(mask, dropped)] @ values[dropped]
    square = np.ascontiguousarray(hessian[np.ix_(mask, mask)])
    solved = solve_definite(square, pull)
    moved = solve_semidefinite(square, pull) if solved is None else solved[1]
    away = -values
    away[mask] = moved
    return values[mask] + moved, float(away @ hessian @ away)
