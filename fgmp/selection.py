"""Selections: what counts as one of the tau, which entries are the largest, thresholds H_tau and S_t, matching pursuit.

A model has one row for each atom (in the standard basis: feature) and one column for each output; a vector is one
column. `PerOutput` counts the entries of each column, as the paper does; `PerAtom` counts rows, an atom with all its
outputs; `Overall` counts entries wherever they stand. Rows named in `always` stay and do not count, in all of them.

A selection of your own overrides `mark` and `counted`, and `pursue` if it is to serve matching pursuit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from .checks import check_integer, check_kind, check_sequence
from .models import Array, SparseModel, Support

_ROUNDINGS = 64  # a residual below so many roundings of the signal is one


@dataclass(frozen=True)
class Selection:
    """What is common to all selections.

    Parameters
    ----------
    always : tuple of int, default ()
        Atoms that every selection holds, in all outputs, without counting them: the intercept, where the data have a
        constant column for it.
    """

    always: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expected = "an atom or several, each an integer of at least 0"
        given = [self.always] if isinstance(self.always, Integral) else check_sequence("always", self.always, expected)
        atoms = {check_integer("always", atom, at_least=0) for atom in given}
        object.__setattr__(self, "always", tuple(sorted(atoms)))

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError where `always` or a sparsity does not fit models of a shape."""
        for atom in self.always:
            check_integer("always", atom, at_least=0, at_most=shape[0] - 1, why="the last atom")
        if sparsity is not None:
            check_integer("sparsity", sparsity, at_most=shape[0], why="the number of atoms")

    def mark(self, magnitudes: Array, count: int) -> Array:
        """Where the `count` = tau largest of the magnitudes stand, as an array of bool, whatever `always` says.

        Of shape (n_atoms,) or (n_atoms, n_outputs). Ties break towards the lower index; -1 is taken last.
        """
        raise NotImplementedError(f"{type(self).__name__} has no mark")

    def counted(self, support: Support, shape: tuple[int, ...]) -> int:
        """How many of the tau the entries of a support take, at most in any output where outputs count alone."""
        raise NotImplementedError(f"{type(self).__name__} has no counted")

    def pursue(self, gram: Array, correlations: Array, count: int) -> Support:
        """`choose` by orthogonal matching pursuit, from inner products with the atoms and among them."""
        raise ValueError(f"{self!r} has no matching pursuit; expected a dictionary with approximation='thresholding'")

    def kept(self, values: Array, count: int) -> Array:
        """Where the entries to keep stand: the largest that count, and those of `always`."""
        return self._kept(np.abs(values), count)

    def _kept(self, magnitudes: Array, count: int) -> Array:
        always = list(self.always)
        magnitudes[always] = -1
        marked = self.mark(magnitudes, count)
        marked[always] = True
        return marked

    def choose(self, values: Array, count: int) -> Support:
        """The entries to keep, as increasing positions in the flattened values; parameters as `kept`."""
        return np.flatnonzero(self.kept(values, count))

    def choose_of(self, model: SparseModel, count: int) -> Support:
        """`choose` among the entries of a model's support."""
        magnitudes = np.full(model.shape, -1, model.values.dtype)
        magnitudes.reshape(-1)[model.support] = np.abs(model.values)
        return model.support[self._kept(magnitudes, count).reshape(-1)[model.support]]

    def with_always(self, support: Support, shape: tuple[int, ...]) -> Support:
        """A support with the entries of `always` added."""
        n_outputs = math.prod(shape[1:])
        positions = np.add.outer(np.array(self.always, np.intp) * n_outputs, np.arange(n_outputs))
        return np.union1d(support, positions.reshape(-1)).astype(np.intp, copy=False)

    def holds(self, support: Support, shape: tuple[int, ...], count: int) -> bool:
        """Whether a support has at most `count` entries that count, those of `always` apart."""
        if support.size <= count:
            return True
        return self.counted(support[~np.isin(support // math.prod(shape[1:]), self.always)], shape) <= count

    def hard(self, v: Array, count: int) -> Array:
        """H_tau(v): the entries to keep, zero elsewhere; what is not a number stays, so that a divergence shows."""
        return v * self.kept(v, count)

    def soft(self, v: Array, threshold: float) -> Array:
        """S(v, t) = sign(v) max(|v| - t, 0), but for the atoms of `always`."""
        clipped: Array = v.clip(-threshold, threshold)
        clipped[list(self.always)] = 0
        return np.subtract(v, clipped, out=clipped)


@dataclass(frozen=True)
class PerOutput(Selection):
    """tau entries of each output's column, each output on its own: what the paper means.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.PerOutput().kept(np.array([[5, 1], [4, 3], [0, 2]]), 1).astype(int).tolist()
    [[1, 0], [0, 1], [0, 0]]
    >>> fgmp.PerOutput(always=2).kept(np.array([[5, 1], [4, 3], [0, 2]]), 1).astype(int).tolist()
    [[1, 0], [0, 1], [1, 1]]
    """

    def mark(self, magnitudes: Array, count: int) -> Array:
        """The `count` largest of each column."""
        columns = np.ascontiguousarray(magnitudes.reshape(len(magnitudes), -1).T)
        return mark_largest(columns, count).T.reshape(magnitudes.shape)

    def choose_of(self, model: SparseModel, count: int) -> Support:
        """`choose` among the entries of a model's support."""
        if len(model.shape) > 1 or self.always:
            return super().choose_of(model, count)
        return model.support[largest(np.abs(model.values), count)]

    def counted(self, support: Support, shape: tuple[int, ...]) -> int:
        """The most entries of a column."""
        return int(np.bincount(support % math.prod(shape[1:])).max(initial=0))

    def pursue(self, gram: Array, correlations: Array, count: int) -> Support:
        """One pursuit for each output."""
        columns = correlations.reshape(len(gram), -1).T
        found = [matching_pursuit(gram, column, count, self.always) for column in columns]
        return np.sort(np.concatenate([atoms * len(columns) + c for c, atoms in enumerate(found)]))


@dataclass(frozen=True)
class PerAtom(Selection):
    """tau atoms, each with all its outputs, by the norm of its row: what "20 features" means in practice.

    The soft threshold shortens rows: S(v, t) = v max(1 - t / ||v||, 0) for the row v of an atom.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.PerAtom().kept(np.array([[5, 1], [4, 4], [0, 2]]), 1).astype(int).tolist()
    [[0, 0], [1, 1], [0, 0]]
    """

    def mark(self, magnitudes: Array, count: int) -> Array:
        """The `count` rows of largest norm."""
        rows = magnitudes.reshape(len(magnitudes), -1)
        sizes = np.where(rows.max(axis=1) < 0, -1, np.linalg.norm(np.maximum(rows, 0), axis=1))
        return np.repeat(mark_largest(sizes[None], count), rows.shape[1]).reshape(magnitudes.shape)

    def counted(self, support: Support, shape: tuple[int, ...]) -> int:
        """The atoms that some output uses."""
        return len(np.unique(support // math.prod(shape[1:])))

    def pursue(self, gram: Array, correlations: Array, count: int) -> Support:
        """Simultaneous pursuit: an atom is taken for all outputs at once."""
        return matching_pursuit(gram, correlations, count, self.always, together=True)

    def soft(self, v: Array, threshold: float) -> Array:
        """Rows shortened by the threshold, but for the atoms of `always`."""
        rows = v.reshape(len(v), -1)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        left = np.maximum(norms - threshold, 0) / np.where(norms > 0, norms, 1)
        left[list(self.always)] = 1
        shortened: Array = (rows * left).astype(v.dtype, copy=False).reshape(v.shape)
        return shortened


@dataclass(frozen=True)
class Overall(Selection):
    """tau entries of the whole model, in whatever outputs they stand.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.selection.Overall().kept(np.array([[5, 1], [4, 3], [0, 2]]), 2).astype(int).tolist()
    [[1, 0], [1, 0], [0, 0]]
    """

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """As `Selection`; a sparsity is at most the number of coefficients."""
        super().check(None, shape)
        if sparsity is not None:
            check_integer("sparsity", sparsity, at_most=math.prod(shape), why="the number of coefficients")

    def mark(self, magnitudes: Array, count: int) -> Array:
        """The `count` largest of all."""
        return mark_largest(magnitudes.reshape(1, -1), count).reshape(magnitudes.shape)

    def counted(self, support: Support, shape: tuple[int, ...]) -> int:
        """All entries."""
        return len(support)

    def pursue(self, gram: Array, correlations: Array, count: int) -> Support:
        """One pursuit over all outputs, which takes an atom for one output at a time."""
        return matching_pursuit(gram, correlations, count, self.always)


PER_OUTPUT = PerOutput()


def check_selection(selection: Any) -> None:
    """Raise a ValueError where a selection is none."""
    check_kind("selection", selection, Selection, "PerOutput(), PerAtom() or Overall()")


def largest(magnitudes: Array, count: int) -> Support:
    """Positions of the `count` largest entries of a vector, increasing; ties break towards the lower index."""
    return np.flatnonzero(mark_largest(magnitudes[None], count))


def mark_largest(rows: Array, count: int) -> Array:
    """Where the `count` largest entries of each row stand, as truth values; ties as `largest`."""
    if count >= rows.shape[1]:
        return np.ones(rows.shape, bool)
    # Negated, because a partition is slow where many entries before its pivot are equal, as the missing ones are.
    ordered = np.negative(rows)
    ordered.partition(count - 1, axis=1)
    thresholds = -(ordered[0, count - 1] if len(rows) == 1 else ordered[:, count - 1, None])  # a number compares faster
    marked: Array = rows >= thresholds
    if np.count_nonzero(marked) != count * len(rows):
        above = rows > thresholds
        tied = marked & ~above
        marked = above | (tied & (np.cumsum(tied, axis=1) <= count - np.count_nonzero(above, axis=1)[:, None]))
    return marked


def matching_pursuit(
    gram: Array, correlations: Array, sparsity: int, first: tuple[int, ...] = (), *, together: bool = False
) -> Support:
    """Support that orthogonal matching pursuit finds from Psi'w and the Gram matrix Psi'Psi alone, in float64.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the residual (the first of
    equals), and projects the signal onto the atoms taken so far: an atom orthonormalised against those before it is a
    row of a pivoted Cholesky factor of the Gram matrix (Rubinstein, Zibulevsky and Elad, 2008, with the factor
    continued over all columns). So a step costs k d multiplications for d atoms, whatever the length of a signal. A
    signal that fewer atoms represent to rounding gets fewer.

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
    rounding = float(_ROUNDINGS * np.finfo(correlations.dtype).eps * np.abs(residuals).max(initial=0.0))
    outputs = np.arange(len(residuals)).reshape(1 if together else -1, len(residuals) if together else 1)
    pursuits = [_Pursuit(gram, norms, residuals[own], first) for own in outputs]
    left = min(sparsity, len(pursuits) * (len(gram) - len(first)))
    while left > 0:
        best = max(pursuits, key=lambda pursuit: pursuit.peak)
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
        self.atoms, self.basis = list[int](), list[Array]()
        self._measure()
        for atom in first:
            self.take(atom, whatever=True)

    def _measure(self) -> None:
        """The length of each atom's inner products with the residuals, and the largest."""
        self.sizes = np.linalg.norm(self.residuals, axis=0)
        self.peak = self.sizes.max()

    def take(self, atom: int, whatever: bool = False) -> bool:
        """Take an atom if it adds more than rounding to those before it, or whatever it adds; whether it does."""
        direction: Array = self.gram[atom] / (self.norms[atom] * self.norms)
        if self.basis:
            before = np.array(self.basis)
            direction = direction - before[:, atom] @ before
        length = direction[atom]
        adds = bool(length > _ROUNDINGS * np.finfo(np.float64).eps)
        if adds:
            direction /= np.sqrt(length)
            self.residuals -= self.residuals[:, atom, None] * direction / direction[atom]
            self.basis.append(direction)
        if adds or whatever:
            self.atoms.append(atom)
        self.residuals[:, atom] = 0
        self._measure()
        return adds
