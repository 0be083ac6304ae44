"""Dictionaries: the atoms that models are sparse in, and the operations on them that methods need.

An atom is a column a_j of Psi, and a signal x = Psi alpha is a combination of few atoms. The two
operations of the paper are approx_tau(w), which selects at most tau atoms that approximate a signal
w, and P_Lambda x, the orthogonal projection of x onto the span of the atoms in Lambda.

`Atoms` lists all operations, and `StandardBasis` has them for the atoms e_1, ..., e_n, for which
Psi is the identity. `Dictionary` has them for any other finite set of atoms, and computes them from
the Gram matrix Psi' Psi; if you follow the paper in the standard basis, stop before it. Models are
given by their coefficients alpha, and other signals w by their inner products with the atoms,
Psi' w. So a client needs the product A_i Psi only once, and the time of a selection or a projection
does not depend on the length of signals.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from ._support.linear_algebra import solve_semidefinite
from ._support.validation import check_array, check_atoms, check_kind, check_option
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel


class Atoms(ABC):
    """What a method asks of the atoms that its models are sparse in.

    A model stands for the signal x = Psi alpha. If there are several outputs, alpha and x are
    matrices with one column for each output. A support holds positions in the flattened alpha (see
    `SparseModel`), and a `Selection` says which of them count as tau.

    As this class defines them, `select_atoms_of` and `project` hold for orthonormal atoms only,
    Psi' Psi = 1. For these `select_atoms` returns the best tau atoms; for other atoms it is
    thresholding.

    Attributes
    ----------
    is_orthonormal : bool
        Whether the atoms are orthonormal.

    Examples
    --------
    Orthonormal atoms, such as cosines, differ from the standard basis in two operations:

    >>> import fgmp
    >>> import numpy as np
    >>> from scipy.fft import dct, idct
    >>> class Cosines(fgmp.StandardBasis):
    ...     def products(self, features):
    ...         return dct(features, norm="ortho")
    ...     def synthesise(self, coefficients):
    ...         return idct(coefficients, axis=0, norm="ortho")
    >>> A = np.random.default_rng(0).standard_normal((12, 32))
    >>> wave = np.cos(np.pi * 5 * (np.arange(32) + 0.5) / 32)
    >>> federation = fgmp.Federation.from_arrays([A], [A @ wave])
    >>> method = fgmp.FedGradMP(sparsity=1, dictionary=Cosines())
    >>> fgmp.simulate(method, federation, rounds=3, rng=0).support.tolist()
    [5]
    """

    is_orthonormal: bool

    @abstractmethod
    def n_atoms(self, n_features: int) -> int:
        """Return the number d of atoms; raise a ValueError unless each has `n_features` entries."""

    @abstractmethod
    def products(self, features: Any) -> Any:
        """Return A Psi, the features in the coordinates of the atoms.

        `features` is the table of all rows, or a tuple with the features of each client.
        """

    @abstractmethod
    def synthesise(self, coefficients: Array) -> Array:
        """Return the signal x = Psi alpha."""

    @abstractmethod
    def correlations(self, model: SparseModel) -> Array:
        """Return Psi' x, the inner products of all atoms with the signal of a model."""

    @abstractmethod
    def normalised(self, correlations: Array) -> Array:
        """Return a_j' w / ||a_j||, given the inner products a_j' w."""

    @abstractmethod
    def gram_block(self, atoms: IndexArray) -> Array:
        """Return the block of Psi' Psi of some atoms, shape (k, k); an atom may occur twice."""

    @abstractmethod
    def norm(self, model: SparseModel) -> float:
        """Return ||x||_2 of the signal x = Psi alpha (Frobenius norm if x is a matrix)."""

    def select_atoms(
        self, correlations: Array, count: int, selection: Selection = PER_OUTPUT
    ) -> IndexArray:
        """Return approx_tau(w): the support that approximates w with tau atoms, increasing.

        `correlations` are Psi' w, and `count` is how many atoms to select, the paper's tau or
        2 tau, counted as `selection` counts them. For orthonormal atoms the largest inner products
        are the best choice: with the best approximation w_tau of w by tau atoms,
        ||w - P_Lambda w|| <= eta ||w - w_tau|| holds with eta = 1 (the paper's eta_1, eta_2
        and eta_3). For other atoms no finite eta holds in every dictionary. Ties break towards the
        lower index.
        """
        return selection.select(self.normalised(correlations), count)

    def select_atoms_of(
        self, model: SparseModel, count: int, selection: Selection = PER_OUTPUT
    ) -> IndexArray:
        """Return approx_tau(x) of a model: for orthonormal atoms its largest coefficients."""
        return selection.select_from(model, count)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """Return P_Lambda x, the projection of a model onto the span of the atoms of `support`.

        For orthonormal atoms it keeps the coefficients on the support.
        """
        return SparseModel(support, model.on(support), model.shape)

    def into_ball(self, model: SparseModel, radius: float | None) -> SparseModel:
        """Return Pi_R x = x min(1, R / ||x||_2), the nearest point of the ball of radius R.

        If the radius is None, the model is returned as it is.
        """
        if radius is None:
            return model
        norm = self.norm(model)
        if norm <= radius:
            return model
        # A NumPy float64 would turn a model of float32 into one of float64; a float does not.
        scale = float(radius) / norm
        return replace(model, values=model.values * scale)


class StandardBasis(Atoms):
    """The standard basis e_1, ..., e_n: Psi is the identity, and a signal is its coefficients.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> basis = fgmp.StandardBasis()
    >>> largest = basis.select_atoms(np.array([1.0, -5.0, 3.0]), count=2)
    >>> basis.project(fgmp.SparseModel.of(np.array([7.0, 8.0, 9.0])), largest).dense().tolist()
    [0.0, 8.0, 9.0]
    """

    is_orthonormal = True

    def __repr__(self) -> str:
        return "StandardBasis()"

    def n_atoms(self, n_features: int) -> int:
        """Return n, the number of features."""
        return n_features

    def products(self, features: Any) -> Any:
        """Return the features themselves, or raise a ValueError if they are streamed."""
        if any(isinstance(part, LinearOperator) for part in parts_of(features)):
            expected = "stored features, or a method with a dictionary, which needs A_i Psi only"
            raise ValueError(f"As are streamed, not stored; expected {expected}")
        return features

    def synthesise(self, coefficients: Array) -> Array:
        """Return x = alpha."""
        return coefficients

    def correlations(self, model: SparseModel) -> Array:
        """Return x = alpha, as a dense array."""
        return model.dense()

    def normalised(self, correlations: Array) -> Array:
        """Return the correlations, because all atoms have norm 1."""
        return correlations

    def gram_block(self, atoms: IndexArray) -> Array:
        """Return 1 for equal atoms and 0 for others."""
        return np.array(atoms[:, None] == atoms, np.float64)

    def norm(self, model: SparseModel) -> float:
        """Return ||alpha||_2."""
        return float(np.linalg.norm(model.values))


def parts_of(features: Any) -> tuple[Any, ...]:
    """Return the tables that hold the rows: one of all clients, or one of each client."""
    return features if isinstance(features, tuple) else (features,)


def check_dictionary(dictionary: object) -> Atoms:
    """Return a dictionary, or raise a ValueError for any other value."""
    return check_kind("dictionary", dictionary, Atoms, "a Dictionary or a StandardBasis")


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
    is_orthonormal : bool
        Whether the Gram matrix is the identity, up to rounding.

    Raises
    ------
    ValueError
        If an atom is not finite or is zero, or if two atoms are the same up to a factor.

    Notes
    -----
    Selections, projections and norms are computed from the Gram matrix, so the relative error of a
    model is of the order of the machine precision times the condition number of Psi' Psi on its
    support, or less: without noise a run ends at 1e-14 or less in orthonormal atoms, and at about
    1e-12 if all atoms are the same except for a thousandth.

    Examples
    --------
    >>> import fgmp
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0]])
    >>> dictionary.gram.tolist(), dictionary.is_orthonormal
    ([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [2.0, 2.0, 8.0]], False)
    >>> fgmp.theory.approx_tau(dictionary, [3.0, 3.0], sparsity=1).support.tolist()
    [2]
    """

    def __init__(self, atoms: ArrayLike, approximation: str = "omp") -> None:
        self.atoms = check_array("atoms", atoms, ndim=2)
        if 0 in self.atoms.shape:
            expected = "at least one feature and one atom"
            raise ValueError(f"atoms has shape {self.atoms.shape}; expected {expected}")
        self.approximation = check_option("approximation", approximation, ("omp", "thresholding"))

        in_float64 = self.atoms.astype(np.float64, copy=False)
        self.gram: Array = in_float64.T @ in_float64
        self.norms = np.sqrt(self.gram.diagonal())
        check_atoms(self.atoms, self.gram, self.norms)
        self.is_orthonormal = self._is_orthonormal()

    def _is_orthonormal(self) -> bool:
        n_features, n_atoms = self.atoms.shape
        if n_atoms > n_features:
            return False
        # Rounding moves an inner product by a few eps, as a random walk over n terms.
        rounding = 16 * float(np.finfo(self.atoms.dtype).eps) * np.sqrt(n_features)
        return bool(np.abs(self.gram - np.eye(n_atoms)).max() <= rounding)

    def __repr__(self) -> str:
        n_features, n_atoms = self.atoms.shape
        kind = "orthonormal" if self.is_orthonormal else self.approximation
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
        if len(model.shape) == 1:
            return model.values @ self.gram[model.support]
        return self.gram @ model.dense()

    def normalised(self, correlations: Array) -> Array:
        """Return a_j' w / ||a_j||."""
        if self.is_orthonormal:
            return correlations
        return (correlations.T / self.norms).T

    def gram_block(self, atoms: IndexArray) -> Array:
        """Return entries of the Gram matrix."""
        return self.gram[atoms[:, None], atoms]

    def norm(self, model: SparseModel) -> float:
        """Return ||x||_2 = sqrt(alpha' Psi' Psi alpha)."""
        square = np.sum(model.dense() * self.correlations(model))
        return float(np.sqrt(max(square, 0.0)))

    def select_atoms(
        self, correlations: Array, count: int, selection: Selection = PER_OUTPUT
    ) -> IndexArray:
        """Return approx_tau(w), by pursuit or thresholding if atoms are not orthonormal."""
        if self.is_orthonormal or self.approximation == "thresholding":
            return super().select_atoms(correlations, count, selection)
        return selection.pursue(self.gram, correlations, count)

    def select_atoms_of(
        self, model: SparseModel, count: int, selection: Selection = PER_OUTPUT
    ) -> IndexArray:
        """Return approx_tau(x) of a model, from Psi' x if the atoms are not orthonormal."""
        if self.is_orthonormal:
            return super().select_atoms_of(model, count, selection)
        return self.select_atoms(self.correlations(model), count, selection)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """Return P_Lambda x = Psi_Lambda beta with (Psi_Lambda' Psi_Lambda) beta = Psi_Lambda' x.

        Each output is projected onto the span of its own atoms. If these are dependent, beta is the
        solution of minimum norm.
        """
        if self.is_orthonormal:
            return super().project(model, support)

        n_outputs = math.prod(model.shape[1:])
        right = self.correlations(model).reshape(-1)[support].astype(np.float64, copy=False)
        atoms, outputs = np.divmod(support, n_outputs)
        values = np.empty(len(support), model.values.dtype)
        for output in np.unique(outputs):
            is_own = outputs == output
            gram = self.gram_block(atoms[is_own])
            values[is_own] = solve_semidefinite(gram, right[is_own])
        return SparseModel(support, values, model.shape)
