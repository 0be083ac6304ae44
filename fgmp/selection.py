"""Selections: what counts as one of the tau, which entries are the largest, thresholds H_tau and S_t, matching pursuit.

A model has one row for each atom (in the standard basis: feature) and one column for each output; a vector is one
column. `PerOutput` counts the entries of each column, as the paper does; `PerAtom` counts rows, an atom with all its
outputs; `Overall` counts entries wherever they stand. Rows named in `always_include` stay and do not count, in all of
them.

A selection of your own overrides `top_mask` and `n_selected`, and `pursue` if it is to serve matching pursuit.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._support.validation import check_integer, check_kind, check_sequence
from .sparse_model import Array, IndexArray, SparseModel

_ROUNDINGS = 64  # a residual below so many roundings of the signal is one


@dataclass(frozen=True)
class Selection:
    """What is common to all selections.

    Parameters
    ----------
    always_include : tuple of int, default ()
        Atoms that every selection holds, in all outputs, without counting them: the intercept, where the data have a
        constant column for it.
    """

    always_include: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expected = "an atom or several, each an integer of at least 0"
        given = (
            [self.always_include]
            if isinstance(self.always_include, Integral)
            else check_sequence("always_include", self.always_include, expected)
        )
        atoms = {check_integer("always_include", atom, at_least=0) for atom in given}
        object.__setattr__(self, "always_include", tuple(sorted(atoms)))

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError where `always_include` or a sparsity does not fit models of a shape."""
        for atom in self.always_include:
            check_integer(
                "always_include", atom, at_least=0, at_most=shape[0] - 1, why="the last atom"
            )
        if sparsity is not None:
            check_integer("sparsity", sparsity, at_most=shape[0], why="the number of atoms")

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Where the `count` = tau largest of the magnitudes stand, as an array of bool, whatever `always_include` says.

        Of shape (n_atoms,) or (n_atoms, n_outputs). Ties break towards the lower index; -1 is taken last.
        """
        raise NotImplementedError(f"{type(self).__name__} has no mark")

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """How many of the tau the entries of a support take, at most in any output where outputs count alone."""
        raise NotImplementedError(f"{type(self).__name__} has no counted")

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """`choose` by orthogonal matching pursuit, from inner products with the atoms and among them."""
        raise ValueError(
            f"{self!r} has no matching pursuit; expected a dictionary with approximation='thresholding'"
        )

    def keep_mask(self, values: ArrayLike, count: int) -> Array:
        """Where the entries to keep stand: the largest that count, and those of `always_include`."""
        return self._keep_mask(np.abs(values), count)

    def _keep_mask(self, magnitudes: Array, count: int) -> Array:
        always_include = list(self.always_include)
        magnitudes[always_include] = -1
        marked = self.top_mask(magnitudes, count)
        marked[always_include] = True
        return marked

    def select(self, values: Array, count: int) -> IndexArray:
        """The entries to keep, as increasing positions in the flattened values; parameters as `kept`."""
        return np.flatnonzero(self.keep_mask(values, count))

    def select_from(self, model: SparseModel, count: int) -> IndexArray:
        """`choose` among the entries of a model's support."""
        magnitudes = np.full(model.shape, -1, model.values.dtype)
        magnitudes.reshape(-1)[model.support] = np.abs(model.values)
        return model.support[self._keep_mask(magnitudes, count).reshape(-1)[model.support]]

    def add_always_included(self, support: IndexArray, shape: tuple[int, ...]) -> IndexArray:
        """A support with the entries of `always_include` added."""
        n_outputs = math.prod(shape[1:])
        positions = np.add.outer(
            np.array(self.always_include, np.intp) * n_outputs, np.arange(n_outputs)
        )
        return np.union1d(support, positions.reshape(-1)).astype(np.intp, copy=False)

    def holds(self, support: IndexArray, shape: tuple[int, ...], count: int) -> bool:
        """Whether a support has at most `count` entries that count, those of `always_include` apart."""
        if support.size <= count:
            return True
        return (
            self.n_selected(
                support[~np.isin(support // math.prod(shape[1:]), self.always_include)], shape
            )
            <= count
        )

    def hard(self, v: Array, count: int) -> Array:
        """H_tau(v): the entries to keep, zero elsewhere; what is not a number stays, so that a divergence shows."""
        return v * self.keep_mask(v, count)

    def soft(self, v: Array, threshold: float) -> Array:
        """S(v, t) = sign(v) max(|v| - t, 0), but for the atoms of `always_include`."""
        clipped: Array = v.clip(-threshold, threshold)
        clipped[list(self.always_include)] = 0
        return np.subtract(v, clipped, out=clipped)


@dataclass(frozen=True)
class PerOutput(Selection):
    """tau entries of each output's column, each output on its own: what the paper means.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.PerOutput().keep_mask([[5, 1], [4, 3], [0, 2]], 1).astype(int).tolist()
    [[1, 0], [0, 1], [0, 0]]
    >>> fgmp.PerOutput(always_include=2).keep_mask([[5, 1], [4, 3], [0, 2]], 1).astype(int).tolist()
    [[1, 0], [0, 1], [1, 1]]
    """

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """The `count` largest of each column."""
        columns = np.ascontiguousarray(magnitudes.reshape(len(magnitudes), -1).T)
        return top_mask_of_rows(columns, count).T.reshape(magnitudes.shape)

    def select_from(self, model: SparseModel, count: int) -> IndexArray:
        """`choose` among the entries of a model's support."""
        if len(model.shape) > 1 or self.always_include:
            return super().select_from(model, count)
        return model.support[largest(np.abs(model.values), count)]

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """The most entries of a column."""
        return int(np.bincount(support % math.prod(shape[1:])).max(initial=0))

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """One pursuit for each output."""
        columns = correlations.reshape(len(gram), -1).T
        found = [matching_pursuit(gram, column, count, self.always_include) for column in columns]
        return np.sort(np.concatenate([atoms * len(columns) + c for c, atoms in enumerate(found)]))


@dataclass(frozen=True)
class PerAtom(Selection):
    """tau atoms, each with all its outputs, by the norm of its row: what "20 features" means in practice.

    The soft threshold shortens rows: S(v, t) = v max(1 - t / ||v||, 0) for the row v of an atom.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.PerAtom().keep_mask([[5, 1], [4, 4], [0, 2]], 1).astype(int).tolist()
    [[0, 0], [1, 1], [0, 0]]
    """

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """The `count` rows of largest norm."""
        rows = magnitudes.reshape(len(magnitudes), -1)
        sizes = np.where(rows.max(axis=1) < 0, -1, np.linalg.norm(np.maximum(rows, 0), axis=1))
        return np.repeat(top_mask_of_rows(sizes[None], count), rows.shape[1]).reshape(
            magnitudes.shape
        )

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """The atoms that some output uses."""
        return len(np.unique(support // math.prod(shape[1:])))

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Simultaneous pursuit: an atom is taken for all outputs at once."""
        atoms, n_outputs = (
            matching_pursuit(gram, correlations, count, self.always_include),
            correlations[0].size,
        )
        support: IndexArray = np.add.outer(atoms * n_outputs, np.arange(n_outputs)).reshape(-1)
        return support

    def soft(self, v: Array, threshold: float) -> Array:
        """Rows shortened by the threshold, but for the atoms of `always_include`."""
        rows = v.reshape(len(v), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        left = np.maximum(norms - threshold, 0) / np.where(norms > 0, norms, 1)
        left[list(self.always_include)] = 1
        return np.asarray(rows * left, v.dtype).reshape(v.shape)


@dataclass(frozen=True)
class Overall(Selection):
    """tau entries of the whole model, in whatever outputs they stand.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.selection.Overall().keep_mask([[5, 1], [4, 3], [0, 2]], 2).astype(int).tolist()
    [[1, 0], [1, 0], [0, 0]]
    """

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """As `Selection`; a sparsity is at most the number of coefficients."""
        super().check(None, shape)
        if sparsity is not None:
            check_integer(
                "sparsity", sparsity, at_most=math.prod(shape), why="the number of coefficients"
            )

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """The `count` largest of all."""
        return top_mask_of_rows(magnitudes.reshape(1, -1), count).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """All entries."""
        return len(support)

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """One pursuit over all outputs, which takes an atom for one output at a time."""
        first = self.add_always_included(np.empty(0, np.intp), correlations.shape)
        return matching_pursuit(
            gram, correlations.reshape(-1), count, first.tolist(), correlations[0].size
        )


PER_OUTPUT = PerOutput()


def check_selection(selection: Any) -> None:
    """Raise a ValueError where a selection is none."""
    check_kind("selection", selection, Selection, "PerOutput(), PerAtom() or Overall()")


def largest(magnitudes: Array, count: int) -> IndexArray:
    """Positions of the `count` largest entries of a vector, increasing; ties break towards the lower index."""
    return np.flatnonzero(top_mask_of_rows(magnitudes[None], count))


def top_mask_of_rows(rows: Array, count: int) -> Array:
    """Where the `count` largest entries of each row stand, as truth values; ties as `largest`."""
    if count >= rows.shape[1]:
        return np.ones(rows.shape, bool)
    # Negated, because a partition is slow where many entries before its pivot are equal, as the missing ones are.
    ordered = np.negative(rows)
    ordered.partition(count - 1, axis=1)
    thresholds = -(
        ordered[0, count - 1] if len(rows) == 1 else ordered[:, count - 1, None]
    )  # a number compares faster
    marked: Array = rows >= thresholds
    if np.count_nonzero(marked) != count * len(rows):
        above = rows > thresholds
        tied = marked & ~above
        marked = above | (
            tied & (np.cumsum(tied, axis=1) <= count - np.count_nonzero(above, axis=1)[:, None])
        )
    return marked


def matching_pursuit(
    gram: Array, correlations: Array, sparsity: int, first: Iterable[int] = (), n_outputs: int = 1
) -> IndexArray:
    """Atoms that orthogonal matching pursuit takes, from Psi'w and the Gram matrix Psi'Psi alone, in float64.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the residual (the first of
    equals), and projects the signal onto the atoms taken so far: an atom orthonormalised against those before it is a
    row of a pivoted Cholesky factor of the Gram matrix (Rubinstein, Zibulevsky and Elad, 2008, with the factor
    continued over all columns). So a step costs k d multiplications for d atoms, whatever the length of a signal. A
    signal that fewer atoms represent to rounding gets fewer.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Its diagonal is positive.
    correlations : ndarray, shape (d,) or (d, n_signals)
        Psi'w. For several signals an atom is taken at once: the one whose inner products with their residuals have the
        largest norm (Tropp, Gilbert and Strauss, Algorithms for simultaneous sparse approximation, Part I, 2006, with
        the Euclidean norm).
    sparsity : int
        The most atoms to take.
    first : iterable of int
        Atoms taken before all others, which do not count.
    n_outputs : int, default 1
        With several, each atom stands for as many, one of each output, whose inner products are those of `gram` within
        an output and zero across: position atom * n_outputs + output.

    Returns
    -------
    ndarray of int
        The atoms, increasing.
    """
    norms = np.sqrt(gram.diagonal()).repeat(n_outputs)
    residuals = (correlations.reshape(len(norms), -1).T / norms).astype(np.float64)
    rounding = float(
        _ROUNDINGS * np.finfo(correlations.dtype).eps * np.abs(residuals).max(initial=0.0)
    )
    waiting, taken, found = list(first), set(first), 0
    most = min(len(taken) + sparsity, len(norms))
    basis = np.empty((most, len(norms)))
    # Every step settles one more atom, so the loop ends whatever rounding leaves in the residuals, or leaves out.
    settled = np.zeros(len(norms), bool)
    while waiting or len(taken) < most:
        if waiting:
            atom = waiting.pop()
        else:
            sizes = np.linalg.norm(residuals, axis=0)
            sizes[settled] = 0
            atom = int(sizes.argmax())
            if not sizes[atom] > rounding:
                break
        settled[atom] = True
        own, output = divmod(atom, n_outputs)
        direction = np.multiply.outer(gram[own], np.arange(n_outputs) == output).reshape(-1) / (
            norms[atom] * norms
        )
        direction -= basis[:found, atom] @ basis[:found]
        length = direction[atom]
        if length > _ROUNDINGS * np.finfo(np.float64).eps:  # it adds to those before it
            direction /= np.sqrt(length)
            residuals -= residuals[:, atom, None] * direction / direction[atom]
            basis[found] = direction
            found += 1
            taken.add(atom)
    return np.sort(np.array(list(taken), np.intp))
