"""Backward elimination: the path to fewer atoms, from a minimiser and its Hessian, without data."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._support.linear_algebra import solve_semidefinite
from ..selection import Selection
from ..sparse_model import Array, IndexArray, SparseModel

# Of the unit diagonal: with fewer samples than atoms, directions have no curvature.
_RIDGE = 1e-10


class PathPoint(NamedTuple):
    """A point on the path of backward elimination.

    Attributes
    ----------
    n_left : int
        How many atoms are left, as the selection counts them.
    positions : ndarray of int
        Which entries of b these are.
    values : ndarray of float64
        The minimiser on them.
    """

    n_left: int
    positions: IndexArray
    values: Array


def eliminated(
    b: SparseModel, curvature: Array, before: IndexArray, sparsity: int, selection: Selection
) -> SparseModel:
    """Return the minimiser of (x - b)' H (x - b) on tau of the atoms of b, by backward elimination.

    One atom after another goes: the one that raises the quadratic least, by b_j^2 / (H^-1)_jj. The
    units of the features do not matter.

    If the atoms of the last model, `before`, do better than those that are left, they are taken:
    therefore a run cannot go in circles.

    Parameters
    ----------
    b : SparseModel
        The minimiser on its support.
    curvature : ndarray, shape (k, k)
        H, the Hessian on the support of b.
    before : ndarray of int
        The support of the last model, a part of that of b.
    sparsity : int
        tau.
    selection : Selection
        What counts as one of the tau.

    References
    ----------
    S. J. Reeves, An efficient implementation of the backward greedy algorithm for sparse signal
    reconstruction, IEEE Signal Processing Letters 6(10), 1999; B. Hassibi, D. G. Stork, Second
    order derivatives for network pruning, 1993.
    """
    hessian = curvature.astype(np.float64)
    *_, last = backwards(b, hessian, selection, sparsity)
    positions = last.positions
    fit = _minimiser_on(positions, b, hessian)

    if len(before) and selection.holds(before, b.shape, sparsity):
        positions_before = np.flatnonzero(np.isin(b.support, before, assume_unique=True))
        fit_before = _minimiser_on(positions_before, b, hessian)
        if fit_before.height < fit.height:
            positions = positions_before
            fit = fit_before
    values = fit.values.astype(b.values.dtype, copy=False)
    return replace(b, support=b.support[positions], values=values)


def backwards(
    b: SparseModel, hessian: Array, selection: Selection, least: int = 1
) -> Iterator[PathPoint]:
    """Yield the path of backward elimination, from one atom less than b has down to `least` atoms.

    If b has no more than `least` atoms, the path is one point, with `least`.

    Parameters
    ----------
    b : SparseModel
        The minimiser on its support.
    hessian : ndarray of float64, shape (k, k)
        On the support of b.
    selection : Selection
        What counts as an atom, and which atoms always stay.
    least : int, default 1
        Where the path ends.
    """
    # In units in which the Hessian has a unit diagonal.
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0))
    scale[scale == 0] = 1
    scaled = hessian / scale[:, None] / scale
    inverse = np.linalg.inv(scaled + _RIDGE * np.eye(len(scale)))
    values = b.values.astype(np.float64) * scale
    positions = np.arange(len(scale))

    n_atoms = selection.n_selected(b.support, b.shape)
    for count in range(max(n_atoms - 1, least), least - 1, -1):
        support = b.support[positions]
        costs = _costs(values, inverse, selection.blocks(support, b.shape))
        selected = selection.select_from(SparseModel(support, costs, b.shape), count)
        is_left = np.zeros(len(support), np.bool_)
        is_left[np.searchsorted(support, selected)] = True
        left = np.flatnonzero(is_left)
        gone = np.flatnonzero(~is_left)
        if gone.size:
            # b and H^-1 without the entries that go: block elimination in the inverse.
            across = np.linalg.solve(inverse[gone[:, None], gone], inverse[gone[:, None], left])
            values = values[left] - values[gone] @ across
            inverse = inverse[left[:, None], left] - inverse[left[:, None], gone] @ across
            positions = positions[left]
        yield PathPoint(count, positions, values / scale[positions])


def _costs(values: Array, inverse: Array, blocks: IndexArray | None) -> Array:
    """Return the root of what the quadratic rises by if an entry goes.

    If whole blocks go, the squares of the costs of the entries of a block add up to the rise.
    """
    if blocks is None:
        return np.asarray(np.abs(values) / np.sqrt(inverse.diagonal()))
    costs = np.empty(len(values))
    for block in np.unique(blocks):
        members = np.flatnonzero(blocks == block)
        within = inverse[np.ix_(members, members)]
        rise = float(values[members] @ np.linalg.solve(within, values[members]))
        costs[members] = np.sqrt(max(rise, 0.0) / len(members))
    return costs


class _Fit(NamedTuple):
    """A minimiser on some of the atoms of b, and how far it lies above the minimum in b."""

    height: float
    values: Array


def _minimiser_on(positions: IndexArray, b: SparseModel, hessian: Array) -> _Fit:
    """Return the minimiser of (x - b)' H (x - b) over x with entries at some positions of b only.

    It is solved for as a correction of b, which is small, so that rounding is small too.
    """
    move = -b.values.astype(np.float64)
    dropped = np.setdiff1d(np.arange(len(move)), positions)
    pull = hessian[np.ix_(positions, dropped)] @ move[dropped]
    move[positions] = -solve_semidefinite(hessian[np.ix_(positions, positions)], pull)
    return _Fit(height=float(move @ hessian @ move), values=b.values[positions] + move[positions])
