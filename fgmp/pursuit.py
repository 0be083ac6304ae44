"""Orthogonal matching pursuit on inner products alone, so that its cost does not depend on the length of a signal."""

from __future__ import annotations

import numpy as np

from .models import Array, Support

# A residual below so many roundings of the signal is one.
ROUNDINGS = 64


def matching_pursuit(
    gram: Array, correlations: Array, sparsity: int, first: tuple[int, ...] = (), *, together: bool = False
) -> Support:
    """Support that orthogonal matching pursuit finds from Psi'w, with the Gram matrix Psi'Psi of the atoms, in float64.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the residual (the first of
    equals), and projects the signal onto the atoms taken so far. Instead of residuals it updates their inner products
    with all atoms: an atom orthonormalised against those before it is a row of a pivoted Cholesky factor of the Gram
    matrix (Rubinstein, Zibulevsky and Elad, 2008, with the factor continued over all columns). A step costs k d
    multiplications for d atoms. A signal that fewer atoms represent to rounding gets fewer.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Its diagonal is positive.
    correlations : ndarray, shape (d,) or (d, n_outputs)
        Psi'w. Several outputs are signals that share the count: a step takes one atom for one output.
    sparsity : int
        The most atoms to take.
    first : tuple of int
        Atoms taken before all others, for every output, which do not count.
    together : bool, default False
        A step takes an atom for all outputs at once, and counts it once: the one whose inner products with their
        residuals have the largest norm (Tropp, Gilbert and Strauss, Algorithms for simultaneous sparse approximation,
        Part I, 2006, with the Euclidean norm).

    Returns
    -------
    ndarray of int
        Positions in the flattened `correlations`, increasing.
    """
    norms = np.sqrt(gram.diagonal())  # once: in a large matrix its entries are far apart
    residuals = (correlations.reshape(len(gram), -1).T / norms).astype(np.float64)
    rounding = float(ROUNDINGS * np.finfo(correlations.dtype).eps * np.abs(residuals).max(initial=0.0))
    outputs = np.arange(len(residuals)).reshape(1 if together else -1, len(residuals) if together else 1)
    pursuits = [_Pursuit(gram, norms, residuals[own], first) for own in outputs]
    left = min(sparsity, len(pursuits) * (len(gram) - len(first)))
    while left > 0:
        best = pursuits[int(np.argmax([pursuit.peak for pursuit in pursuits]))]
        if not best.peak > rounding:
            break
        left -= best.take(int(best.sizes.argmax()))
    each = zip(pursuits, outputs, strict=True)
    chosen = [np.add.outer(np.array(found.atoms, np.intp) * outputs.size, own).reshape(-1) for found, own in each]
    return np.sort(np.concatenate(chosen))


class _Pursuit:
    """The atoms taken so far for some outputs, orthonormalised by their inner products with all normalised atoms."""

    def __init__(self, gram: Array, norms: Array, residuals: Array, first: tuple[int, ...]) -> None:
        self.gram, self.norms, self.residuals = gram, norms, residuals
        self.atoms, self.basis = list(first), list[Array]()
        self.measure()
        for atom in first:
            self._project(atom)

    def measure(self) -> None:
        """The length of each atom's inner products with the residuals, and the largest."""
        one = len(self.residuals) == 1
        self.sizes = np.abs(self.residuals[0]) if one else np.linalg.norm(self.residuals, axis=0)
        self.peak = self.sizes.max()

    def take(self, atom: int) -> bool:
        """Take an atom, if it adds anything to those before it; whether it does."""
        adds = self._project(atom)
        if adds:
            self.atoms.append(atom)
        return adds

    def _project(self, atom: int) -> bool:
        """Project the residuals onto what is left of an atom; False where that is rounding."""
        direction: Array = self.gram[atom] / (self.norms[atom] * self.norms)
        if self.basis:
            before = np.array(self.basis)
            direction = direction - before[:, atom] @ before
        length = direction[atom]
        adds = bool(length > ROUNDINGS * np.finfo(np.float64).eps)
        if adds:
            direction /= np.sqrt(length)
            self.residuals -= self.residuals[:, atom, None] * direction / direction[atom]
            self.basis.append(direction)
        self.residuals[:, atom] = 0
        self.measure()
        return adds
