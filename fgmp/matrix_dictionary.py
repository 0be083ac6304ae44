"""Dictionaries of any finite set of atoms, the columns of a matrix.

They have the operations of `fgmp.dictionaries`, all computed from the Gram matrix Psi' Psi.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._support.linear_algebra import solve_semidefinite
from ._support.validation import check_array, check_option
from .dictionaries import Atoms, parts_of
from .sparse_model import Array, IndexArray, SparseModel


class Dictionary(Atoms):
    """A finite set of atoms a_1, ..., a_d in R^n, the columns of Psi, no two of them parallel.

    Parameters
    ----------
    atoms : array_like, shape (n_features, n_atoms)
        The atoms. Their norms may differ. Not modified.
    approximation : {"omp", "thresholding"}, default "omp"
        How approx_tau selects atoms that are not orthonormal: by orthogonal matching pursuit, or by
        the largest inner products with the normalised atoms. Orthonormal atoms need neither.

    Attributes
    ----------
    gram : ndarray of float64, shape (n_atoms, n_atoms)
        Psi' Psi.
    norms : ndarray of float64, shape (n_atoms,)
        The norms of the atoms.
    orthonormal : bool
        Whether the Gram matrix is the identity to rounding.

    Raises
    ------
    ValueError
        If an atom is not finite or is zero, or if two atoms are the same up to a factor.

    Notes
    -----
    Selections, projections and norms are computed from the Gram matrix, so the relative error of a
    model is of the order of the machine precision times the condition number of Psi' Psi on its
    support, or less: without
    noise a run ends at 1e-14 or less in orthonormal atoms, and at about 1e-12 if all atoms are the
    same except for a thousandth.

    Examples
    --------
    >>> import fgmp
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0]])
    >>> dictionary.gram.tolist(), dictionary.orthonormal
    ([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [2.0, 2.0, 8.0]], False)
    >>> fgmp.theory.approx_tau(dictionary, [3.0, 3.0], sparsity=1).support.tolist()
    [2]
    """

    def __init__(self, atoms: ArrayLike, approximation: str = "omp") -> None:
        super().__init__()
        self.atoms = check_array("atoms", atoms, ndim=2)
        if 0 in self.atoms.shape:
            expected = "at least one feature and one atom"
            raise ValueError(f"atoms has shape {self.atoms.shape}; expected {expected}")
        self.approximation = check_option("approximation", approximation, ("omp", "thresholding"))

        in_float64 = self.atoms.astype(np.float64, copy=False)
        self.gram: Array = in_float64.T @ in_float64
        self.norms = np.sqrt(self.gram.diagonal())
        self._refuse_zero_atoms()
        self._refuse_equal_atoms()
        self.orthonormal = self._is_orthonormal()

    def _refuse_zero_atoms(self) -> None:
        is_zero = self.norms <= np.finfo(self.norms.dtype).tiny
        if not is_zero.any():
            return
        index = int(is_zero.argmax())
        size = np.abs(self.atoms[:, index].astype(np.float64)).max()
        raise ValueError(
            f"atoms[:, {index}] is zero, or {size:.3g} at most, and its squares are; "
            "expected a positive norm"
        )

    def _refuse_equal_atoms(self) -> None:
        """Raise a ValueError for two atoms whose cosine is 1 to the precision of the atoms."""
        is_double = self.atoms.dtype == np.float64
        largest_cosine = 1 - (1e-10 if is_double else 1e-6)
        products = np.abs(self.gram)
        is_equal = products > largest_cosine * np.outer(self.norms, self.norms)
        pairs = np.argwhere(np.triu(is_equal, 1))
        if len(pairs):
            i, j = pairs[0]
            raise ValueError(
                f"atoms[:, {i}] and atoms[:, {j}] are the same up to a factor; expected none twice"
            )

    def _is_orthonormal(self) -> bool:
        n_features, n_atoms = self.atoms.shape
        if n_atoms > n_features:
            return False
        # Rounding moves an inner product by a few eps, as a random walk over n terms.
        rounding = 16 * float(np.finfo(self.atoms.dtype).eps) * np.sqrt(n_features)
        return bool(np.abs(self.gram - np.eye(n_atoms)).max() <= rounding)

    def __repr__(self) -> str:
        n_features, n_atoms = self.atoms.shape
        kind = "orthonormal" if self.orthonormal else self.approximation
        return f"Dictionary({n_atoms} atoms in R^{n_features}, {kind})"

    def n_atoms(self, n_features: int) -> int:
        """Return the number d of atoms, or raise a ValueError if they do not have `n_features`."""
        dimension, n_atoms = self.atoms.shape
        if dimension != n_features:
            raise ValueError(f"dictionary has atoms of {dimension} features; expected {n_features}")
        return int(n_atoms)

    def products(self, features: Any) -> Array:
        """Return A Psi as one dense table of all rows, or raise a ValueError if it overflows."""
        parts = parts_of(features)
        dtype = parts[0].dtype
        self.n_atoms(parts[0].shape[1])
        atoms = self.atoms.astype(dtype, copy=False)

        with np.errstate(over="ignore", invalid="ignore"):
            table = np.concatenate([np.asarray(part @ atoms) for part in parts])
        if not np.isfinite(table).all():
            raise ValueError(
                f"A Psi overflows in {dtype}; expected atoms and features in other units"
            )
        return np.ascontiguousarray(table.astype(dtype, copy=False))

    def synthesise(self, coefficients: Array) -> Array:
        """Return the signal x = Psi alpha, in the precision of the coefficients."""
        return np.asarray(self.atoms @ coefficients, coefficients.dtype)

    def correlations(self, model: SparseModel) -> Array:
        """Return Psi' x = Psi' Psi alpha, from the Gram matrix."""
        is_vector = len(model.shape) == 1
        if is_vector:
            product: Array = model.values @ self.gram[model.support]
        else:
            product = self.gram @ model.dense()
        return product

    def normalised(self, correlations: Array) -> Array:
        """Return a_j' w / ||a_j||."""
        if self.orthonormal:
            return correlations
        return (correlations.T / self.norms).T

    def inner_products(self, atoms: IndexArray) -> Array:
        """Return entries of the Gram matrix."""
        return self.gram[atoms[:, None], atoms]

    def norm(self, model: SparseModel) -> float:
        """Return ||x||_2 = sqrt(alpha' Psi' Psi alpha)."""
        square = np.sum(model.dense() * self.correlations(model))
        return float(np.sqrt(max(square, 0.0)))

    def select_atoms(self, correlations: Array, sparsity: int) -> IndexArray:
        """Return approx_tau(w), by pursuit or thresholding if atoms are not orthonormal."""
        if self.orthonormal or self.approximation == "thresholding":
            return super().select_atoms(correlations, sparsity)
        return self.selection.pursue(self.gram, correlations, sparsity)

    def select_atoms_of(self, model: SparseModel, sparsity: int) -> IndexArray:
        """Return approx_tau(x) of a model, from Psi' x if the atoms are not orthonormal."""
        if self.orthonormal:
            return super().select_atoms_of(model, sparsity)
        return self.select_atoms(self.correlations(model), sparsity)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """Return P_Lambda x = Psi_Lambda beta with (Psi_Lambda' Psi_Lambda) beta = Psi_Lambda' x.

        Each output is projected onto the span of its own atoms. If these are dependent, beta is the
        solution of minimum norm.
        """
        if self.orthonormal:
            return super().project(model, support)

        n_outputs = math.prod(model.shape[1:])
        right = self.correlations(model).reshape(-1)[support].astype(np.float64, copy=False)
        atoms, outputs = np.divmod(support, n_outputs)
        values = np.empty(len(support), model.values.dtype)
        for output in np.unique(outputs):
            is_own = outputs == output
            gram = self.inner_products(atoms[is_own])
            values[is_own] = solve_semidefinite(gram, right[is_own])
        return SparseModel(support, values, model.shape)
