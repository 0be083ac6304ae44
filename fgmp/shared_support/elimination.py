"""Backward elimination: the path to fewer atoms, from a minimiser and its Hessian, without data."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._support.linear_algebra import solve_semidefinite
from .._support.ties import with_exact_ties
from ..selection import Selection
from ..sparse_model import Array, IndexArray, SparseModel

# Of the unit diagonal: with fewer samples than atoms, directions have no curvature.
_RIDGE = 1e-10
# The ridge is above what rounding makes of an eigenvalue that is zero, this power of the rounding
# of the Hessian (see `fgmp._support.linear_algebra`), or costs would have no root in float32.
_POWER_OF_EIGENVALUES = 0.75
_RIDGE_PER_EIGENVALUE = 2
# Costs that differ by less than this power of the rounding, relative to the largest one, are equal.
_POWER_OF_TIES = 2 / 3
# Rounding moves 1 / (H^-1)_jj by about the rounding of H, which is much where it is nearly zero: a
# cost, its root times b_j, is off by this number of roundings times (H^-1)_jj. The costs of twin
# columns were off by at most 0.03 of that in float64.
_ROUNDINGS = 4


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
    move = move_to_minimiser(positions, b.values, hessian)

    if len(before) and selection.is_within(before, b.shape, sparsity):
        positions_before = np.flatnonzero(np.isin(b.support, before, assume_unique=True))
        move_before = move_to_minimiser(positions_before, b.values, hessian)
        if move_before @ hessian @ move_before < move @ hessian @ move:
            positions = positions_before
            move = move_before
    values = (b.values + move)[positions].astype(b.values.dtype, copy=False)
    return replace(b, support=b.support[positions], values=values)


def backwards(
    b: SparseModel, hessian: Array, selection: Selection, least: int = 1
) -> Iterator[PathPoint]:
    """Yield the path of backward elimination, from one atom less than b has down to `least` atoms.

    If b has no more than `least` atoms, the path is one point, with `least`. Of atoms that cost the
    same, but for rounding, the one with the higher index goes.

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
    rounding = float(np.finfo(b.values.dtype).eps)
    ridge = max(_RIDGE, _RIDGE_PER_EIGENVALUE * rounding**_POWER_OF_EIGENVALUES)
    inverse = np.linalg.inv(scaled + ridge * np.eye(len(scale)))
    values = b.values.astype(np.float64) * scale
    positions = np.arange(len(scale))

    n_atoms = selection.n_selected(b.support, b.shape)
    for count in range(max(n_atoms - 1, least), least - 1, -1):
        support = b.support[positions]
        costs = _costs(values, inverse, selection.blocks(support, b.shape))
        costs = _with_ties(costs, inverse, rounding)
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


def _with_ties(costs: Array, inverse: Array, rounding: float) -> Array:
    """Return costs in which those that differ by rounding alone are equal.

    Otherwise the order in which rows are summed would decide which of two equal columns goes.

    Parameters
    ----------
    costs : ndarray, shape (k,)
        What `_costs` returns.
    inverse : ndarray, shape (k, k)
        H^-1, in units in which H has a unit diagonal.
    rounding : float
        Of the entries of H.
    """
    # Noise may leave no atom, or a Hessian in which some cost has no root: nothing to compare.
    if not costs.size or not np.isfinite(costs).all():
        return costs
    of_one = np.minimum(_ROUNDINGS * rounding * inverse.diagonal(), 1.0) * costs
    return with_exact_ties(costs, of_one + rounding**_POWER_OF_TIES * float(costs.max()))


def move_to_minimiser(
    positions: IndexArray, b: Array, hessian: Array, change: Array | float = 0.0
) -> Array:
    """Return x - b for the minimiser x, on some positions only, of the quadratic around b.

    What is solved for is this correction of b, which is small, so that rounding is small too.

    Parameters
    ----------
    positions : ndarray of int
        Which entries of x are not zero.
    b : ndarray, shape (k,)
    hessian : ndarray of float64, shape (k, k)
        H, of the quadratic (x - b)' H (x - b) / 2.
    change : float or ndarray, shape (k,)
        The weights of half the squares of the entries of x, which are added to the quadratic.
    """
    move = -b.astype(np.float64)
    dropped = np.setdiff1d(np.arange(len(move)), positions)
    ridge = np.broadcast_to(change, len(move))[positions]
    pull = ridge * move[positions] - hessian[np.ix_(positions, dropped)] @ move[dropped]
    restricted = hessian[np.ix_(positions, positions)] + np.diag(ridge)
    move[positions] = solve_semidefinite(restricted, pull)
    return move
