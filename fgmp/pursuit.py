"""Orthogonal matching pursuit on inner products alone.

Needs the Gram matrix of the atoms and their correlations with a signal, so its cost does not depend on the length of
the signal. Selections of atoms that are not orthonormal use it.
"""

from __future__ import annotations

import numpy as np

from .models import Array, Support

__all__ = ["matching_pursuit", "simultaneous_pursuit"]

# A residual below so many roundings of the signal is one.
ROUNDINGS = 64


def matching_pursuit(gram: Array, correlations: Array, sparsity: int, first: tuple[int, ...] = ()) -> Support:
    """Support that orthogonal matching pursuit finds from Psi'w, with the Gram matrix Psi'Psi of the atoms.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the residual (the first of
    equals), and projects the signal onto the atoms taken so far. Instead of residuals it updates their inner products
    with all atoms: an atom orthonormalised against those before it is a row of a pivoted Cholesky factor of the Gram
    matrix (Rubinstein, Zibulevsky and Elad, 2008, with the factor continued over all columns). A step costs k d
    multiplications for d atoms, and nothing of size d x d is copied. Neither the unit of the signal nor those of the
    atoms matter. Computed in float64.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Its diagonal is positive.
    correlations : ndarray, shape (d,) or (d, n_outputs)
        Psi'w. Several outputs are signals that share the count: a step takes one atom for one output.
    sparsity : int
        The most atoms to take. A signal that fewer atoms represent to rounding gets fewer.
    first : tuple of int
        Atoms taken before all others, for every output, which do not count.

    Returns
    -------
    ndarray of int
        Positions in the flattened `correlations`, increasing.
    """
    norms, residuals, rounding = _start(gram, correlations)
    n_outputs = len(residuals)
    bases = [_Basis(gram, norms) for _ in range(n_outputs)]
    chosen = [atom * n_outputs + output for atom in first for output in range(n_outputs)]
    for output, atom in ((output, atom) for output in range(n_outputs) for atom in first):
        _take(bases[output], residuals[output : output + 1], atom)
    count = min(sparsity + len(chosen), correlations.size)
    peaks = np.abs(residuals).max(axis=1)
    while len(chosen) < count:
        output = int(peaks.argmax())
        if not peaks[output] > rounding:
            break
        atom = int(np.abs(residuals[output]).argmax())
        if _take(bases[output], residuals[output : output + 1], atom):
            chosen.append(atom * n_outputs + output)
        peaks[output] = np.abs(residuals[output]).max()
    return np.sort(np.array(chosen, np.intp))


def simultaneous_pursuit(gram: Array, correlations: Array, sparsity: int, first: tuple[int, ...] = ()) -> Support:
    """Orthogonal matching pursuit that takes each atom for all outputs at once.

    A step takes the atom whose inner products with the residuals of all outputs have the largest norm (Tropp, Gilbert
    and Strauss, Algorithms for simultaneous sparse approximation, Part I, 2006, with the Euclidean norm). Parameters
    and result as `matching_pursuit`; the sparsity counts atoms.
    """
    norms, residuals, rounding = _start(gram, correlations)
    n_outputs = len(residuals)
    basis, atoms = _Basis(gram, norms), list(first)
    for atom in first:
        _take(basis, residuals, atom)
    count = min(sparsity + len(atoms), len(gram))
    while len(atoms) < count:
        sizes = np.linalg.norm(residuals, axis=0)
        atom = int(sizes.argmax())
        if not sizes[atom] > rounding:
            break
        if _take(basis, residuals, atom):
            atoms.append(atom)
    return np.add.outer(np.sort(np.array(atoms, np.intp)) * n_outputs, np.arange(n_outputs)).reshape(-1)


def _start(gram: Array, correlations: Array) -> tuple[Array, Array, float]:
    """Norms, inner products with normalised atoms, one row for each output, and what is rounding among them."""
    norms = np.sqrt(gram.diagonal())  # once: in a large matrix its entries are far apart
    residuals = (correlations.reshape(len(gram), -1).T / norms).astype(np.float64)
    return norms, residuals, float(ROUNDINGS * np.finfo(correlations.dtype).eps * np.abs(residuals).max(initial=0.0))


class _Basis:
    """The atoms taken so far, orthonormalised: their inner products with all normalised atoms."""

    def __init__(self, gram: Array, norms: Array) -> None:
        self.gram, self.norms = gram, norms
        self.taken: list[Array] = []

    def direction(self, atom: int) -> Array | None:
        """The part of an atom that those before it leave, scaled to norm one; None where that is rounding."""
        direction: Array = self.gram[atom] / (self.norms[atom] * self.norms)
        if self.taken:
            before = np.array(self.taken)
            direction = direction - before[:, atom] @ before
        left = direction[atom]
        if not left > ROUNDINGS * np.finfo(np.float64).eps:
            return None
        direction /= np.sqrt(left)
        return direction


def _take(basis: _Basis, residuals: Array, atom: int) -> bool:
    """Project residuals, in place, onto what an atom adds; whether it adds anything."""
    direction = basis.direction(atom)
    if direction is not None:
        residuals -= residuals[:, atom, None] * direction / direction[atom]
        basis.taken.append(direction)
    residuals[:, atom] = 0
    return direction is not None
