"""Selections: which entries of a vector, or of a matrix, count as the tau largest.

The paper keeps tau entries of a vector. A loss with several outputs has a matrix of coefficients,
with one row for each atom (in the standard basis, a feature) and one column for each output, and
its entries can be counted in several ways. A `Selection` says in which: `PerOutput` counts the
entries of each column, as the paper does, `PerAtom` counts rows, an atom with all its outputs, and
`Overall` counts the entries of all columns together. A vector is a matrix with one column.

A selection defines the hard threshold H_tau, the soft threshold S(v, t), and orthogonal matching
pursuit, which selects atoms that are not orthonormal. Atoms in `always_include`, such as a constant
feature, stay in every selection and do not count.

A selection of a user overrides `top_mask` and `n_selected`, and `pursue` if it is to serve matching
pursuit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._support.validation import check_integer, check_kind, check_sequence
from .sparse_model import Array, IndexArray, SparseModel

# Below this multiple of the machine precision, relative to the largest, a number is rounding.
_ROUNDINGS = 64


class _AtomIndices:
    """Descriptor of a field that takes an atom, or several, and holds an increasing tuple.

    A dataclass assigns the fields of a new object, frozen or not, so `__set__` is called once.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> tuple[int, ...]:
        # A dataclass asks the class for the default of the field.
        return () if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        if isinstance(value, Integral):
            value = [int(value)]
        expected = "an atom or several, each an integer of at least 0"
        atoms = check_sequence(self.name, value, expected)
        distinct_atoms = {check_integer(self.name, atom, at_least=0) for atom in atoms}
        instance.__dict__[self.name] = tuple(sorted(distinct_atoms))


@dataclass(frozen=True)
class Selection:
    """Base of all selections: of coefficients of shape (n_atoms,) or (n_atoms, n_outputs).

    In all methods `count` is how many to select, tau or 2 tau, and a support holds positions in the
    flattened coefficients, as that of a `SparseModel`.

    Parameters
    ----------
    always_include : int or sequence of int, default ()
        Atoms that every selection contains, for all outputs, without counting them: the intercept,
        if the data have a constant column for it. The attribute is an increasing tuple.
    """

    always_include: _AtomIndices = _AtomIndices()

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
        """Return a boolean mask of the `count` largest magnitudes, ignoring `always_include`.

        Ties break towards the lower index. A magnitude of -1, which stands for atoms that are
        always included and for positions outside a support, is selected last.
        """
        raise NotImplementedError(f"{type(self).__name__} has no top_mask")

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return how many of tau a support takes: for `PerOutput`, the most of any output."""
        raise NotImplementedError(f"{type(self).__name__} has no n_selected")

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Return the support that orthogonal matching pursuit selects.

        Parameters
        ----------
        gram : ndarray, shape (n_atoms, n_atoms)
            Psi' Psi, the inner products of the atoms with one another.
        correlations : ndarray, shape (n_atoms,) or (n_atoms, n_outputs)
            Psi' w, their inner products with the signal w.
        count : int
            tau.
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
        """Return the positions to keep among those of a model's support."""
        magnitudes = np.full(model.shape, -1, model.values.dtype)
        magnitudes.reshape(-1)[model.support] = np.abs(model.values)
        mask = self._keep_mask(magnitudes, count)
        return model.support[mask.reshape(-1)[model.support]]

    def add_always_included(self, support: IndexArray, shape: tuple[int, ...]) -> IndexArray:
        """Return a support with the positions of the atoms in `always_include` added."""
        n_outputs = math.prod(shape[1:])
        atoms = np.array(self.always_include, np.intp)
        positions = _positions_of(atoms, n_outputs)
        return np.union1d(support, positions).astype(np.intp, copy=False)

    def holds(self, support: IndexArray, shape: tuple[int, ...], count: int) -> bool:
        """Return whether a support takes at most `count`, without the atoms in `always_include`."""
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
        """Return S_t(v) = sign(v) max(|v| - t, 0), except for the atoms in `always_include`."""
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
        """Return the number of entries of the column that has most."""
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


@dataclass(frozen=True)
class PerAtom(Selection):
    """Select tau atoms, each with all its outputs, by the norms of their rows.

    This is what "20 features" means in practice. The soft threshold shortens rows: with the row v
    of an atom, S_t(v) = v max(1 - t / ||v||, 0).

    Examples
    --------
    >>> import fgmp
    >>> fgmp.PerAtom().keep_mask([[5, 1], [4, 4], [0, 2]], 1).astype(int).tolist()
    [[0, 0], [1, 1], [0, 0]]
    """

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` rows of largest norm."""
        rows = magnitudes.reshape(len(magnitudes), -1)
        # A row of -1 stays one: it is selected last.
        is_last = rows.max(axis=1) < 0
        norms = np.where(is_last, -1, np.linalg.norm(np.maximum(rows, 0), axis=1))
        mask = top_mask_of_rows(norms[None], count)
        return np.repeat(mask, rows.shape[1]).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the number of atoms that at least one output uses."""
        n_outputs = math.prod(shape[1:])
        return len(np.unique(support // n_outputs))

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Run one simultaneous pursuit, which takes an atom for all outputs at once."""
        atoms = matching_pursuit(gram, correlations, count, self.always_include)
        n_outputs = correlations[0].size
        return _positions_of(atoms, n_outputs)

    def soft(self, v: Array, threshold: float) -> Array:
        """Return the rows shortened by the threshold, except for those of `always_include`."""
        rows = v.reshape(len(v), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        factors = np.maximum(norms - float(threshold), 0) / np.where(norms > 0, norms, 1)
        factors[list(self.always_include)] = 1
        return np.asarray(rows * factors, v.dtype).reshape(v.shape)


@dataclass(frozen=True)
class Overall(Selection):
    """Select tau entries of the model, in whatever outputs they are.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.selection.Overall().keep_mask([[5, 1], [4, 3], [0, 2]], 2).astype(int).tolist()
    [[1, 0], [1, 0], [0, 0]]
    """

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError as `Selection`; a sparsity is at most the number of coefficients."""
        super().check(None, shape)
        if sparsity is not None:
            n_coefficients = math.prod(shape)
            check_integer(
                "sparsity", sparsity, at_most=n_coefficients, why="the number of coefficients"
            )

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` largest entries."""
        return top_mask_of_rows(magnitudes.reshape(1, -1), count).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the number of entries."""
        return len(support)

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Run one pursuit over all outputs, which takes an atom for one output at a time."""
        no_support = np.empty(0, np.intp)
        first = self.add_always_included(no_support, correlations.shape).tolist()
        n_outputs = correlations[0].size
        return matching_pursuit(gram, correlations.reshape(-1), count, first, n_outputs)


PER_OUTPUT = PerOutput()


def check_selection(selection: Any) -> None:
    """Raise a ValueError for anything that is not a selection."""
    check_kind("selection", selection, Selection, "PerOutput(), PerAtom() or Overall()")


def _positions_of(atoms: IndexArray, n_outputs: int) -> IndexArray:
    """Return the positions of atoms with all their outputs in flattened coefficients."""
    positions: IndexArray = np.add.outer(atoms * n_outputs, np.arange(n_outputs)).reshape(-1)
    return positions


def largest(magnitudes: Array, count: int) -> IndexArray:
    """Return the indices of the `count` largest entries of a vector, increasing.

    Ties break towards the lower index.
    """
    return np.flatnonzero(top_mask_of_rows(magnitudes[None], count))


def top_mask_of_rows(rows: Array, count: int) -> Array:
    """Return a boolean mask of the `count` largest entries of each row, with ties as `largest`."""
    if count >= rows.shape[1]:
        return np.ones(rows.shape, bool)

    # Negated, because a partition is slow if many entries before its pivot are equal, as zeros are.
    ordered = np.negative(rows)
    ordered.partition(count - 1, axis=1)
    # A number compares faster than an array with one entry.
    thresholds = -(ordered[0, count - 1] if len(rows) == 1 else ordered[:, count - 1, None])

    mask: Array = rows >= thresholds
    has_ties = np.count_nonzero(mask) != count * len(rows)
    if has_ties:
        is_above = rows > thresholds
        is_tied = mask & ~is_above
        n_tied_to_keep = count - np.count_nonzero(is_above, axis=1)[:, None]
        mask = is_above | (is_tied & (np.cumsum(is_tied, axis=1) <= n_tied_to_keep))
    return mask


def matching_pursuit(
    gram: Array,
    correlations: Array,
    sparsity: int,
    first: Iterable[int] = (),
    n_outputs: int = 1,
    tolerance: float | None = None,
) -> IndexArray:
    """Return the atoms that orthogonal matching pursuit takes to represent a signal w.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the
    residual (the first of equal ones), and projects w onto the atoms taken so far. Only Psi' w and
    the Gram matrix Psi' Psi are needed: the atoms, each orthonormalised against those before it,
    are the rows of a pivoted Cholesky factor of the Gram matrix (Rubinstein, Zibulevsky and Elad,
    2008, with the factor continued over all columns). So the step after k atoms costs k d
    multiplications for d atoms, however long a signal is. A signal that fewer atoms represent to
    rounding gets fewer.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Psi' Psi, with a positive diagonal.
    correlations : ndarray, shape (d,) or (d, n_signals)
        Psi' w. With several signals an atom is taken for all at once: the one whose inner products
        with their residuals have the largest Euclidean norm (Tropp, Gilbert and Strauss, Algorithms
        for simultaneous sparse approximation, Part I, 2006).
    sparsity : int
        The largest number of atoms.
    first : iterable of int
        Atoms that are taken before all others and do not count.
    n_outputs : int, default 1
        With several outputs each atom occurs once for each, at position
        ``atom * n_outputs + output`` of the correlations. Inner products are those of `gram` within
        an output, and zero between outputs.
    tolerance : float, optional
        The pursuit ends if no atom of norm one has a larger inner product with the residual. By
        default 64 roundings of the largest inner product with w.

    Returns
    -------
    ndarray of int
        The atoms, or positions if there are several outputs, increasing.
    """
    first = list(first)
    taken = set(first)
    most = min(len(taken) + sparsity, len(gram) * n_outputs)
    residual = _Residual(gram, correlations, n_outputs, most)
    if tolerance is None:
        precision = float(np.finfo(correlations.dtype).eps)
        tolerance = float(_ROUNDINGS * precision * np.abs(residual.products).max(initial=0.0))

    for atom in reversed(first):
        residual.project_out(atom)

    # Each step settles one more atom, so the loop ends whatever rounding does to the residual.
    is_settled = np.zeros(len(residual.norms), bool)
    is_settled[first] = True
    while len(taken) < most:
        sizes = np.linalg.norm(residual.products, axis=0)
        sizes[is_settled] = 0
        atom = int(sizes.argmax())
        if not sizes[atom] > tolerance:
            break
        is_settled[atom] = True
        if residual.project_out(atom):
            taken.add(atom)
    return np.sort(np.array(list(taken), np.intp))


class _Residual:
    """The residual of a matching pursuit, by its inner products with the atoms, in float64.

    Attributes
    ----------
    norms : ndarray, shape (d,)
        The norms of the atoms, of each output.
    products : ndarray, shape (n_signals, d)
        The inner products of the residuals with the atoms scaled to norm one.
    factor : ndarray, shape (most, d)
        The Cholesky factor, in its first `n_projected` rows: the inner products of the atoms scaled
        to norm one with those that were orthonormalised and projected out.
    """

    def __init__(self, gram: Array, correlations: Array, n_outputs: int, most: int) -> None:
        self.gram = gram
        self.n_outputs = n_outputs
        self.norms = np.sqrt(gram.diagonal()).repeat(n_outputs)
        signals = correlations.reshape(len(self.norms), -1).T
        self.products: Array = (signals / self.norms).astype(np.float64)
        self.factor = np.empty((most, len(self.norms)))
        self.n_projected = 0

    def project_out(self, position: int) -> bool:
        """Project the residual onto the complement of an atom; return whether that is a change.

        It is none if the atom depends on those that were projected out before.
        """
        atom, output = divmod(position, self.n_outputs)
        is_same_output = np.arange(self.n_outputs) == output
        row = np.multiply.outer(self.gram[atom], is_same_output).reshape(-1)
        row = row / (self.norms[position] * self.norms)

        # What the atoms before it leave of this one, and its squared length.
        factor = self.factor[: self.n_projected]
        row -= factor[:, position] @ factor
        squared_length = row[position]
        if not squared_length > _ROUNDINGS * np.finfo(np.float64).eps:
            return False

        row /= np.sqrt(squared_length)
        self.products -= self.products[:, position, None] * row / row[position]
        self.factor[self.n_projected] = row
        self.n_projected += 1
        return True
