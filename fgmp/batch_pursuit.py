"""Orthogonal matching pursuit of many signals at once, for one Gram matrix: Batch-OMP.

`fgmp.pursuit` has the same for one signal, with several outputs that share their count.
"""

from __future__ import annotations

import numpy as np

from .compilation import numba_serves
from .models import Array, Support
from .pursuit import ROUNDINGS

__all__ = ["pursue_signals"]

_BLOCK = 2**20  # numbers in the parts of the signals that advance together: about what a cache holds
_LEAST = 2**24  # products that are worth half a second, which Numba takes to import


def pursue_signals(gram: Array, correlations: Array, sparsity: int) -> tuple[Support, Array]:
    """Atoms and coefficients that orthogonal matching pursuit finds for each signal.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the residual (the first of
    equals). With q what the atoms before it leave of that atom a, the projection of the signal x onto q is the next
    part p = (<a, x> / ||q||^2) q, and <p, a_j> for all atoms a_j follows from row a of the Gram matrix less those of
    the parts before: a progressive Cholesky factor, continued over all columns (Rubinstein, Zibulevsky and Elad,
    Efficient implementation of the K-SVD algorithm using Batch Orthogonal Matching Pursuit, 2008). The parts add up to
    the approximation, and a triangular system turns them into coefficients. A step costs k d multiplications for d
    atoms; of the Gram matrix only the rows of the atoms taken are read. Computed in float64.

    Signals advance together, a block at a time, and each ends on its own: where its residual is
    rounding, or the next atom depends on those that it has. Large problems are served by
    `fgmp.batch_pursuit_loops` where Numba is installed, with the same result but for rounding.

    Parameters
    ----------
    gram : ndarray of float32 or float64, shape (d, d)
        Psi'Psi; its diagonal is positive. Not copied.
    correlations : ndarray of float32 or float64, shape (d, n_signals)
        Psi'X.
    sparsity : int
        k, the most atoms for each signal.

    Returns
    -------
    atoms : ndarray of int, shape (n_signals, k)
        In the order in which they were taken; -1 behind the last.
    coefficients : ndarray of float64, shape (n_signals, k)
        The least-squares coefficients of these atoms; 0 behind the last.
    """
    n_atoms, n_signals = correlations.shape
    norms = np.sqrt(gram.diagonal().astype(np.float64))
    tolerances = [ROUNDINGS * float(np.finfo(given.dtype).eps) for given in (correlations, gram)]
    advance = _advance
    if n_signals * n_atoms * sparsity >= _LEAST and numba_serves():
        from .batch_pursuit_loops import advance
    atoms, coefficients = np.full((n_signals, sparsity), -1, np.intp), np.zeros((n_signals, sparsity))
    size = min(n_signals, max(1, _BLOCK // (n_atoms * sparsity)))
    space = np.empty((size, sparsity, n_atoms))
    for block in (slice(i, i + size) for i in range(0, n_signals, size)):
        residuals = np.divide(correlations[:, block].T, norms, order="C", dtype=np.float64)
        units = np.maximum(residuals.max(axis=1), -residuals.min(axis=1))
        residuals /= np.where(units > 0, units, 1)[:, None]
        shares = advance(gram, norms, residuals, atoms[block], space, *tolerances)
        coefficients[block] = _back_substituted(shares) * units[:, None] / norms[atoms[block]]
    return atoms, coefficients


def _advance(
    gram: Array, norms: Array, residuals: Array, atoms: Support, space: Array, rounding: float, dependent: float
) -> Array:
    """Take atoms, in place, until each signal has its own; U, where atom m of norm one is sum_j U_jm p_j.

    `residuals` has, for each signal, the inner products of its residual with the atoms of norm one.
    """
    n_signals, count = atoms.shape
    parts, rows, each = space[:n_signals], np.empty_like(residuals), np.arange(n_signals)
    squares, shares = np.ones((n_signals, count)), np.zeros((n_signals, count, count))
    going = np.ones(n_signals, bool)
    for step in range(count):
        atom = np.abs(residuals, out=rows).argmax(axis=1)
        height, norm = residuals[each, atom], norms[atom]
        np.divide(gram[atom], norms, out=rows)
        before = parts[each, :step, atom] / squares[:, :step]
        rows -= np.matmul((before * norm[:, None])[:, None], parts[:, :step])[:, 0]
        left = rows[each, atom] / norm
        going &= (np.abs(height) > rounding) & (left > dependent)
        if not going.any():
            break
        left[~going], height[~going] = 1, 0
        rows *= (height / (left * norm))[:, None]
        residuals -= rows
        residuals[each, atom] = 0
        parts[:, step] = rows
        squares[going, step] = height[going] ** 2 / left[going]
        shares[going, :step, step], shares[going, step, step] = before[going], left[going] / height[going]
        atoms[going, step] = atom[going]
    return shares


def _back_substituted(shares: Array) -> Array:
    """The c with U c = 1, 0 for the atoms that were not taken."""
    taken = np.einsum("sii->si", shares) != 0
    solution: Array = taken.astype(np.float64)
    for i in reversed(range(shares.shape[1])):
        solution[:, i] -= np.einsum("sj,sj->s", shares[:, i, i + 1 :], solution[:, i + 1 :])
        solution[:, i] /= np.where(taken[:, i], shares[:, i, i], 1)
    return solution
