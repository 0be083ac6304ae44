"""Dictionaries: the atoms that models are sparse in, and the operations on them that methods need.

An atom is a column a_j of Psi, and a signal x = Psi alpha is a combination of few atoms. The two
operations of the paper are approx_tau(w), which selects at most tau atoms that approximate a signal
w, and P_Lambda x, the orthogonal projection of x onto the span of the atoms in Lambda.

`Atoms` lists all operations, and `StandardBasis` has them for the atoms e_1, ..., e_n, for which
Psi is the identity. (`fgmp.matrix_dictionary` has them for any other finite set of atoms.) Models
are given by their coefficients alpha, and other signals w by their inner products with the atoms,
Psi' w: with them and the Gram matrix Psi' Psi, a client needs the product A_i Psi once, and no
selection or projection depends on the length of a signal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ._support.validation import check_kind
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel


class Atoms(ABC):
    """What a method asks of the atoms that its models are sparse in.

    A model stands for the signal x = Psi alpha. If there are several outputs, alpha and x are
    matrices with one column for each output. A support holds positions in the flattened alpha (see
    `SparseModel`), and `selection` says which of them count as tau.

    `select_atoms_of` and `project`, as this class defines them, hold for orthonormal atoms,
    Psi' Psi = 1. There `select_atoms` is the best choice, and for other atoms it is thresholding.

    Attributes
    ----------
    orthonormal : bool
        Whether the atoms are orthonormal.
    selection : Selection
        How atoms are counted; `PerOutput` unless `with_selection` changes it.

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

    orthonormal: bool

    def __init__(self) -> None:
        self.selection: Selection = PER_OUTPUT

    def with_selection(self, selection: Selection) -> Self:
        """Return the same atoms with another selection."""
        changed = copy(self)
        changed.selection = selection
        return changed

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
    def inner_products(self, atoms: IndexArray) -> Array:
        """Return the inner products of atoms, shape (k, k); an atom may be there twice."""

    @abstractmethod
    def norm(self, model: SparseModel) -> float:
        """Return ||x||_2 of the signal x = Psi alpha (Frobenius norm if x is a matrix)."""

    def select_atoms(self, correlations: Array, sparsity: int) -> IndexArray:
        """Return approx_tau(w): the support that approximates w with tau atoms, increasing.

        Atoms are counted as `selection` does, and `sparsity` is the paper's tau or 2 tau.
        `correlations` are Psi' w. For orthonormal atoms the tau largest inner products are the best
        choice: with the best approximation w_tau of w by tau atoms,
        ||w - P_Lambda w|| <= eta ||w - w_tau|| holds with eta = 1 (the paper's eta_1, eta_2
        and eta_3). For other atoms no finite eta holds in every dictionary. Ties break towards the
        lower index.
        """
        return self.selection.select(self.normalised(correlations), sparsity)

    def select_atoms_of(self, model: SparseModel, sparsity: int) -> IndexArray:
        """Return approx_tau(x) of a model: for orthonormal atoms its largest coefficients."""
        return self.selection.select_from(model, sparsity)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """Return P_Lambda x, the projection of a model onto the span of the atoms of `support`.

        For orthonormal atoms it keeps the coefficients on the support.
        """
        return SparseModel(support, model.on(support), model.shape)

    def into_ball(self, model: SparseModel, radius: float | None) -> SparseModel:
        """Return Pi_R x = x min(1, R / ||x||_2), the nearest point of the ball of radius R.

        If the radius is None, there is no ball, and the model is returned.
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
    >>> largest = basis.select_atoms(np.array([1.0, -5.0, 3.0]), sparsity=2)
    >>> basis.project(fgmp.SparseModel.of(np.array([7.0, 8.0, 9.0])), largest).dense().tolist()
    [0.0, 8.0, 9.0]
    """

    orthonormal = True

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

    def inner_products(self, atoms: IndexArray) -> Array:
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
    checked: Atoms = check_kind("dictionary", dictionary, Atoms, "a Dictionary or a StandardBasis")
    return checked
