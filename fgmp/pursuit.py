"""Orthogonal matching pursuit on inner products alone."""

from __future__ import annotations

import numpy as np

from .models import Array, Support

__all__ = ["matching_pursuit"]

# A residual below so many roundings of the signal is one.
_ROUNDINGS = 64


def matching_pursuit(gram: Array, correlations: Array, sparsity: int) -> Support:
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

    Returns
    -------
    ndarray of int
        Positions in the flattened `correlations`, increasing.
    """
    norms = np.sqrt(gram.diagonal())
    n_outputs = 1 if correlations.ndim == 1 else correlations.shape[1]
    residuals = (correlations.reshape(len(norms), n_outputs).T / norms).astype(np.float64)  # one row for each output
    rounding = _ROUNDINGS * np.finfo(correlations.dtype).eps * np.abs(residuals).max(initial=0.0)
    directions: list[list[Array]] = [[] for _ in range(n_outputs)]
    chosen: list[int] = []
    peaks = np.abs(residuals).max(axis=1)
    while len(chosen) < min(sparsity, correlations.size):
        output = int(peaks.argmax())
        if not peaks[output] > rounding:
            break
        residual, taken = residuals[output], directions[output]
        atom = int(np.abs(residual).argmax())
        direction = gram[atom] / (norms[atom] * norms)
        if taken:
            before = np.array(taken)
            direction = direction - before[:, atom] @ before
        left = direction[atom]
        if left > _ROUNDINGS * np.finfo(np.float64).eps:
            direction /= np.sqrt(left)
            residual -= residual[atom] * direction / direction[atom]
            taken.append(direction)
            chosen.append(atom * n_outputs + output)
        residual[atom] = 0
        peaks[output] = np.abs(residual).max()
    return np.sort(np.array(chosen, np.intp))
