"""Dictionaries: the atoms a model is sparse in, and the two operations on them, approx_tau and P_Lambda.

Everything works on coefficients alpha: correlations with the atoms and the Gram matrix Psi'Psi are enough for
selections, projections and norms, so a client needs B_i = A_i Psi once, whatever the length of a signal.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from ._support.linear_algebra import solve_semidefinite
from ._support.validation import (
    Seed,
    check_array,
    check_integer,
    check_kind,
    check_option,
    check_seed,
)
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel


class StandardBasis:
    """The standard basis e_1, ..., e_n: Psi is the identity, and a signal is its own coefficients."""

    orthonormal = True

    def __init__(self) -> None:
        self.selection: Selection = PER_OUTPUT

    def with_selection(self, selection: Selection) -> StandardBasis:
        """The same atoms, of which a selection says what counts as one of the tau."""
        counting = copy(self)
        counting.selection = selection
        return counting

    def n_atoms(self, n_features: int) -> int:
        """Number of atoms d for signals of `n_features`."""
        return n_features

    def products(self, features: Any) -> Any:
        """A Psi: the features in the coordinates of the atoms; here the features themselves."""
        if any(isinstance(part, LinearOperator) for part in _parts(features)):
            raise ValueError(
                "As are streamed, not stored; expected stored features, or a method with a dictionary, which needs "
                "A_i Psi only"
            )
        return features

    def synthesise(self, coefficients: Array) -> Array:
        """The signal x = Psi alpha."""
        return coefficients

    def correlations(self, model: SparseModel) -> Array:
        """Psi' x, the inner products of a model with every atom."""
        return model.dense()

    def approximate(self, correlations: Array, sparsity: int) -> IndexArray:
        """approx_tau: the flat, increasing support of at most `sparsity` atoms that approximates w, given Psi' w.

        For orthonormal atoms the largest inner products are the best choice (eta = 1). Ties break towards the lower
        index.
        """
        return self.selection.select(correlations, sparsity)

    def approximate_model(self, model: SparseModel, sparsity: int) -> IndexArray:
        """approx_tau of a model: for orthonormal atoms, its largest coefficients."""
        return self.selection.select_from(model, sparsity)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """P_Lambda: the orthogonal projection of a model onto the span of the atoms of `support`."""
        return SparseModel(support, model.on(support), model.shape)

    def inner_products(self, atoms: IndexArray) -> Array:
        """Inner products of some atoms with one another, shape (k, k); an atom may stand there several times."""
        return np.array(atoms[:, None] == atoms, np.float64)

    def norm(self, model: SparseModel) -> float:
        """||x||_2 of the signal x = Psi alpha."""
        return float(np.linalg.norm(model.values))

    def into_ball(self, model: SparseModel, radius: float | None) -> SparseModel:
        """Pi_R x: the nearest point of the ball ||x||_2 <= radius; None is no ball."""
        if radius is None:
            return model
        norm = self.norm(model)
        return model if norm <= radius else replace(model, values=model.values * (radius / norm))

    def normalised(self, correlations: Array) -> Array:
        """Inner products with the atoms scaled to norm 1, from those with the atoms."""
        return correlations


class Dictionary(StandardBasis):
    """Any finite set of atoms a_1, ..., a_d in R^n, the columns of Psi.

    Parameters
    ----------
    atoms : array_like, shape (n_features, n_atoms)
        The atoms; their norms may differ. Not modified.
    approximation : {"omp", "thresholding"}, default "omp"
        How approx_tau selects atoms that are not orthonormal: orthogonal matching pursuit, or the largest inner
        products with the normalised atoms. Orthonormal atoms need neither.

    Attributes
    ----------
    gram : ndarray of float64, shape (n_atoms, n_atoms)
        Psi' Psi.
    orthonormal : bool
        Whether the Gram matrix is the identity to rounding.

    Raises
    ------
    ValueError
        Where atoms are not finite, zero, or the same up to a factor.

    Notes
    -----
    Selections, projections and norms come from the Gram matrix, so the relative error of a model is the machine
    precision times the condition number of Psi' Psi on its support: without noise a run ends at 1e-14 or less in
    orthonormal atoms, and at 1e-12 or so where all atoms are the same but for a thousandth.

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
            raise ValueError(
                f"atoms has shape {self.atoms.shape}; expected at least one feature and one atom"
            )
        self.approximation = check_option("approximation", approximation, ("omp", "thresholding"))
        wide = self.atoms.astype(np.float64, copy=False)
        self.gram: Array = wide.T @ wide
        self.norms = np.sqrt(self.gram.diagonal())
        zero = np.flatnonzero(self.norms <= np.finfo(self.norms.dtype).tiny)
        if zero.size:
            i, size = zero[0], np.abs(wide[:, zero[0]]).max()
            raise ValueError(
                f"atoms[:, {i}] is zero, or {size:.3g} at most, and its squares are; expected a positive norm"
            )
        (n_features, n_atoms), precision = self.atoms.shape, float(np.finfo(self.atoms.dtype).eps)
        alike = 1 - (1e-10 if precision < 1e-10 else 1e-6)
        twice = np.argwhere(
            np.triu(np.abs(self.gram) > alike * np.outer(self.norms, self.norms), 1)
        )
        if len(twice):
            i, j = twice[0]
            raise ValueError(
                f"atoms[:, {i}] and atoms[:, {j}] are the same up to a factor; expected none twice"
            )
        rounding = 16 * precision * np.sqrt(n_features)
        self.orthonormal = n_atoms <= n_features and bool(
            np.abs(self.gram - np.eye(n_atoms)).max() <= rounding
        )

    def __repr__(self) -> str:
        kind = "orthonormal" if self.orthonormal else self.approximation
        return f"Dictionary({self.atoms.shape[1]} atoms in R^{self.atoms.shape[0]}, {kind})"

    def n_atoms(self, n_features: int) -> int:
        """Number of atoms d; a ValueError where the atoms have another dimension than the signals."""
        if self.atoms.shape[0] != n_features:
            raise ValueError(
                f"dictionary has atoms of {self.atoms.shape[0]} features; expected {n_features}"
            )
        return int(self.atoms.shape[1])

    def products(self, features: Any) -> Array:
        """A Psi, one table of all rows."""
        parts = _parts(features)
        self.n_atoms(parts[0].shape[1])
        atoms = self.atoms.astype(parts[0].dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.concatenate([np.asarray(part @ atoms) for part in parts])
        if not np.isfinite(whole).all():
            raise ValueError(
                f"A Psi overflows in {parts[0].dtype}; expected atoms and features in other units"
            )
        return np.ascontiguousarray(whole.astype(parts[0].dtype, copy=False))

    def synthesise(self, coefficients: Array) -> Array:
        """The signal x = Psi alpha."""
        return np.asarray(self.atoms @ coefficients, coefficients.dtype)

    def correlations(self, model: SparseModel) -> Array:
        """Psi' x = Psi' Psi alpha, from the Gram matrix."""
        product: Array = (
            model.values @ self.gram[model.support]
            if len(model.shape) == 1
            else self.gram @ model.dense()
        )
        return product

    def approximate(self, correlations: Array, sparsity: int) -> IndexArray:
        """approx_tau by matching pursuit or thresholding, exact where the atoms are orthonormal."""
        if self.orthonormal or self.approximation == "thresholding":
            return super().approximate(self.normalised(correlations), sparsity)
        return self.selection.pursue(self.gram, correlations, sparsity)

    def normalised(self, correlations: Array) -> Array:
        """Divided by the norms of the atoms."""
        return correlations if self.orthonormal else (correlations.T / self.norms).T

    def approximate_model(self, model: SparseModel, sparsity: int) -> IndexArray:
        """approx_tau of a model, from its inner products with the atoms."""
        if self.orthonormal:
            return super().approximate_model(model, sparsity)
        return self.approximate(self.correlations(model), sparsity)

    def project(self, model: SparseModel, support: IndexArray) -> SparseModel:
        """P_Lambda x: (Psi_Lambda' Psi_Lambda) alpha = Psi_Lambda' x, for each output; of dependent atoms the least."""
        if self.orthonormal:
            return super().project(model, support)
        right = self.correlations(model).reshape(-1)[support].astype(np.float64, copy=False)
        atoms, outputs = np.divmod(support, math.prod(model.shape[1:]))
        values = np.empty(len(support), model.values.dtype)
        for output in np.unique(outputs):
            own = outputs == output
            values[own] = solve_semidefinite(self.inner_products(atoms[own]), right[own])
        return SparseModel(support, values, model.shape)

    def inner_products(self, atoms: IndexArray) -> Array:
        """Entries of the Gram matrix."""
        return self.gram[atoms[:, None], atoms]

    def norm(self, model: SparseModel) -> float:
        """||Psi alpha||_2 from the Gram matrix (Frobenius, where there are several outputs)."""
        return float(np.sqrt(max(np.sum(model.dense() * self.correlations(model)), 0.0)))


def check_dictionary(dictionary: Any) -> Any:
    """Return a dictionary, or raise a ValueError where it is something else."""
    return check_kind("dictionary", dictionary, StandardBasis, "a Dictionary or a StandardBasis")


def _parts(features: Any) -> tuple[Any, ...]:
    """The features of all rows, or of the rows of each client."""
    return features if isinstance(features, tuple) else (features,)


def gaussian_dictionary(
    n_features: int, n_atoms: int, rng: Seed = None, **options: str
) -> Dictionary:
    """A random Gaussian dictionary (paper, Section IV-D): independent entries N(0, 1/n_features).

    Independent of the clients' data, so sharing it reveals nothing about them; B Psi has restricted condition numbers
    that depend on the stable rank of B.

    Parameters
    ----------
    n_features, n_atoms : int
        The dimension of the signals and the number of atoms.
    rng : int, Generator or None
        The seed.
    **options
        Passed to `Dictionary`.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.gaussian_dictionary(n_features=100, n_atoms=150, rng=0)
    Dictionary(150 atoms in R^100, omp)
    """
    shape = check_integer("n_features", n_features), check_integer("n_atoms", n_atoms)
    generator = np.random.default_rng(check_seed("rng", rng))
    return Dictionary(generator.standard_normal(shape) / np.sqrt(n_features), **options)
