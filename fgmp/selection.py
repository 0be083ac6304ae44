"""Selections of atoms: which entries of a vector, or of a matrix, count as the tau largest.

The paper keeps tau atoms of a signal, tau entries of a vector of coefficients. A loss with several
outputs has a matrix of coefficients, with one row for each atom (in the standard basis, a feature)
and one column for each output, and its entries can be counted in several ways. A `Selection` says
in which: `PerOutput` counts the entries of each column, as the paper does, and `PerAtom` whole
atoms, with all their outputs. (`fgmp.run.joint_selection` has two more: blocks of atoms, and all
entries alike.) A vector is a matrix with one column.

With orthonormal atoms FedGradMP finds Gamma, the atoms of the gradient, with `select`, and prunes
with `select_from`. The other functions serve these two, the baselines, which need the thresholds
`hard` and `soft`, and atoms that are not orthonormal, which need a matching pursuit. Atoms in
`always_include`, such as a constant feature, do not count: `select` always adds them, and
`select_from` keeps them if they are there. (They are not in the paper.) `select` has the positions
of `keep_mask`, which is `top_mask`, the `count` largest, with the atoms of `always_include`.

Your own selection overrides `top_mask` and `n_selected`, and `pursue` if matching pursuit is to use
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ._support.linear_algebra import matching_pursuit
from ._support.validation import AtomIndices, check_integer, check_kind
from .sparse_model import Array, IndexArray, SparseModel


@dataclass(frozen=True)
class Selection:
    """Base of all selections: of coefficients of shape (n_atoms,) or (n_atoms, n_outputs).

    In all these functions `count` is how many to select, tau or 2 tau, and a support holds
    positions in the flattened coefficients, as in a `SparseModel`.

    Parameters
    ----------
    always_include : int or sequence of int, default ()
        Atoms that every selection contains, for all outputs, without counting them: the intercept,
        if the data have a constant column for it. The attribute is an increasing tuple.

    Examples
    --------
    Count two neighbouring coefficients as one:

    >>> import fgmp
    >>> import numpy as np
    >>> class Pairs(fgmp.Selection):
    ...     def top_mask(self, magnitudes, count):
    ...         largest_of_pair = magnitudes.reshape(-1, 2).max(axis=1)
    ...         return fgmp.PerOutput().top_mask(largest_of_pair, count).repeat(2)
    ...     def n_selected(self, support, shape):
    ...         return len(np.unique(support // 2))
    >>> Pairs().select(np.array([0.0, 1.0, 5.0, 0.0, -2.0, 3.0]), 1).tolist()
    [2, 3]
    """

    always_include: AtomIndices = AtomIndices()

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError if `always_include` or a sparsity does not fit models of a shape."""
        n_atoms = shape[0]
        for atom in self.always_include:
            check_integer(
                "always_include", atom, at_least=0, at_most=n_atoms - 1, why="the last atom"
            )
        if sparsity is not None:
            check_integer("sparsity", sparsity, at_most=n_atoms, why="the number of atoms")

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a boolean mask of the `count` largest magnitudes, without `always_include`.

        Ties break towards the lower index. A magnitude of -1 marks an atom that is always included,
        or a position outside a support: it is selected last.
        """
        raise NotImplementedError(f"{type(self).__name__} has no top_mask")

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return how many of the tau a support uses: for `PerOutput`, the most of any output."""
        raise NotImplementedError(f"{type(self).__name__} has no n_selected")

    def blocks(self, support: IndexArray, shape: tuple[int, ...]) -> IndexArray | None:
        """Return the block of each position of a support, if elimination removes whole blocks.

        By default it is None, and `fgmp.shared_support` removes entries one by one.
        """
        return None

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Return the support that orthogonal matching pursuit selects for a signal w.

        It repeats `count` times, or until only rounding is left of w: take the atom that has,
        scaled to norm one, the largest inner product with the residual, and project w onto all
        atoms taken.

        Parameters
        ----------
        gram : ndarray, shape (n_atoms, n_atoms)
            Psi' Psi, the inner products of the atoms with one another.
        correlations : ndarray, shape (n_atoms,) or (n_atoms, n_outputs)
            Psi' w, their inner products with the signal w.
        count : int
            How many: tau, or 2 tau.
        """
        expected = "expected a dictionary with approximation='thresholding'"
        raise ValueError(f"{self!r} has no matching pursuit; {expected}")

    def keep_mask(self, values: ArrayLike, count: int) -> Array:
        """Return a boolean mask of the `count` largest entries and those of `always_include`."""
        return self._keep_mask(np.abs(values), count)

    def _keep_mask(self, magnitudes: Array, count: int) -> Array:
        """Return `keep_mask`, given magnitudes that are overwritten."""
        always_include = list(self.always_include)
        magnitudes[always_include] = -1
        mask = self.top_mask(magnitudes, count)
        mask[always_include] = True
        return mask

    def select(self, values: Array, count: int) -> IndexArray:
        """Return the positions of the entries to keep, increasing, in the flattened values."""
        return np.flatnonzero(self.keep_mask(values, count))

    def select_from(self, model: SparseModel, count: int) -> IndexArray:
        """Return the positions to keep among those of a model's support.

        Atoms of `always_include` stay if the support has them.
        """
        magnitudes = np.full(model.shape, -1, model.values.dtype)
        magnitudes.reshape(-1)[model.support] = np.abs(model.values)
        mask = self._keep_mask(magnitudes, count)
        return model.support[mask.reshape(-1)[model.support]]

    def add_always_included(self, support: IndexArray, shape: tuple[int, ...]) -> IndexArray:
        """Return a support with the positions of the atoms in `always_include` added."""
        n_outputs = math.prod(shape[1:])
        atoms = np.array(self.always_include, np.intp)
        positions = positions_of(atoms, n_outputs)
        return np.union1d(support, positions).astype(np.intp, copy=False)

    def is_within(self, support: IndexArray, shape: tuple[int, ...], count: int) -> bool:
        """Return whether a support uses at most `count`, without the atoms in `always_include`."""
        if support.size <= count:
            return True
        n_outputs = math.prod(shape[1:])
        is_counted = ~np.isin(support // n_outputs, self.always_include)
        return self.n_selected(support[is_counted], shape) <= count

    def hard(self, v: Array, count: int) -> Array:
        """Return H_tau(v): the entries to keep, and zero elsewhere.

        NaN stays NaN, also among the entries that become zero, so that divergence shows.
        """
        return v * self.keep_mask(v, count)

    def soft(self, v: Array, threshold: float) -> Array:
        """Return sign(v) max(|v| - threshold, 0), except for the atoms in `always_include`."""
        threshold = float(threshold)  # a NumPy float64 would turn float32 into float64
        clipped: Array = v.clip(-threshold, threshold)
        clipped[list(self.always_include)] = 0
        return np.subtract(v, clipped, out=clipped)


@dataclass(frozen=True)
class PerOutput(Selection):
    """Select tau entries of the column of each output, as the paper means it.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.PerOutput().keep_mask([[5, 1], [4, 3], [0, 2]], 1).astype(int).tolist()
    [[1, 0], [0, 1], [0, 0]]
    >>> fgmp.PerOutput(always_include=2).keep_mask([[5, 1], [4, 3], [0, 2]], 1).astype(int).tolist()
    [[1, 0], [0, 1], [1, 1]]
    """

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` largest entries of each column."""
        columns = np.ascontiguousarray(magnitudes.reshape(len(magnitudes), -1).T)
        return top_mask_of_rows(columns, count).T.reshape(magnitudes.shape)

    def select_from(self, model: SparseModel, count: int) -> IndexArray:
        """Return the positions to keep among those of a model's support."""
        is_vector = len(model.shape) == 1
        if is_vector and not self.always_include:
            return model.support[largest(np.abs(model.values), count)]
        return super().select_from(model, count)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the largest number of entries of a column."""
        n_outputs = math.prod(shape[1:])
        return int(np.bincount(support % n_outputs).max(initial=0))

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Run one pursuit for each output."""
        columns = correlations.reshape(len(gram), -1).T
        n_outputs = len(columns)
        positions = []
        for output, column in enumerate(columns):
            atoms = matching_pursuit(gram, column, count, self.always_include)
            positions.append(atoms * n_outputs + output)
        return np.sort(np.concatenate(positions))


PER_OUTPUT = PerOutput()


def check_selection(selection: object) -> None:
    """Raise a ValueError for anything that is not a selection."""
    check_kind("selection", selection, Selection, "PerOutput(), PerAtom(), PerBlock() or Overall()")


def positions_of(atoms: IndexArray, n_outputs: int) -> IndexArray:
    """Return the positions of atoms with all their outputs in flattened coefficients."""
    return np.add.outer(atoms * n_outputs, np.arange(n_outputs)).reshape(-1)


def largest(magnitudes: Array, count: int) -> IndexArray:
    """Return the indices of the `count` largest entries of a vector, increasing.

    Ties break towards the lower index.
    """
    return np.flatnonzero(top_mask_of_rows(magnitudes[None], count))


def top_mask_of_rows(matrix: Array, count: int) -> Array:
    """Return a boolean mask of the `count` largest entries of each row, with ties as `largest`."""
    if count >= matrix.shape[1]:
        return np.ones(matrix.shape, bool)
    if count == 0:
        return np.zeros(matrix.shape, bool)

    # Negated, because a partition is slow if many entries before its pivot are equal, as zeros are.
    ordered = np.negative(matrix)
    ordered.partition(count - 1, axis=1)
    # A number compares faster than an array with one entry.
    thresholds = -(ordered[0, count - 1] if len(matrix) == 1 else ordered[:, count - 1, None])

    mask: Array = matrix >= thresholds
    has_ties = np.count_nonzero(mask) != count * len(matrix)
    if has_ties:
        is_above = matrix > thresholds
        is_tied = mask & ~is_above
        n_tied_to_keep = count - np.count_nonzero(is_above, axis=1)[:, None]
        mask = is_above | (is_tied & (np.cumsum(is_tied, axis=1) <= n_tied_to_keep))
    return mask


@dataclass(frozen=True)
class PerAtom(Selection):
    """Select tau atoms, each with all its outputs, by the norms of their rows.

    This is what "20 features" means in practice. The soft threshold shortens the row v of an atom:
    S(v, t) = v max(1 - t / ||v||, 0).

    Examples
    --------
    >>> import fgmp
    >>> fgmp.PerAtom().keep_mask([[5, 1], [4, 4], [0, 2]], 1).astype(int).tolist()
    [[0, 0], [1, 1], [0, 0]]
    """

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` rows of largest norm."""
        by_atom = magnitudes.reshape(len(magnitudes), -1)
        # A row of -1 has the norm -1, so that its atom is selected last.
        is_last = by_atom.max(axis=1) < 0
        norms = np.where(is_last, -1, np.linalg.norm(np.maximum(by_atom, 0), axis=1))
        mask = top_mask_of_rows(norms[None], count)
        return np.repeat(mask, by_atom.shape[1]).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the number of atoms that at least one output uses."""
        n_outputs = math.prod(shape[1:])
        return len(np.unique(support // n_outputs))

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Run one simultaneous pursuit, which takes an atom for all outputs at once."""
        atoms = matching_pursuit(gram, correlations, count, self.always_include)
        n_outputs = correlations[0].size
        return positions_of(atoms, n_outputs)

    def soft(self, v: Array, threshold: float) -> Array:
        """Return the rows shortened by the threshold, except for those of `always_include`."""
        by_atom = v.reshape(len(v), -1)
        norms = np.linalg.norm(by_atom, axis=1, keepdims=True)
        factors = np.maximum(norms - float(threshold), 0) / np.where(norms > 0, norms, 1)
        factors[list(self.always_include)] = 1
        return np.asarray(by_atom * factors, v.dtype).reshape(v.shape)
