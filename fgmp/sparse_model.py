"""Sparse models: which atoms, with which coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
IndexArray = NDArray[np.intp]


class NonFiniteUpdate(FloatingPointError):
    """A client has no finite update to send. Only this package raises it; a FloatingPointError of others is theirs."""


@dataclass(frozen=True, eq=False)
class SparseModel:
    """A model x = Psi alpha with few nonzero coefficients.

    Parameters
    ----------
    support : ndarray of int, shape (k,)
        Increasing positions in the flattened coefficients; for a vector, the indices of the atoms.
    values : ndarray of float, shape (k,)
        Their coefficients.
    shape : tuple of int
        Shape of the dense coefficients: ``(n_atoms,)``, or ``(n_atoms, n_outputs)``.
    """

    support: IndexArray
    values: Array
    shape: tuple[int, ...]

    @classmethod
    def zero(cls, shape: tuple[int, ...], dtype: Any = np.float64) -> SparseModel:
        """The model with an empty support."""
        return cls(np.empty(0, np.intp), np.empty(0, dtype), shape)

    @classmethod
    def of(cls, coefficients: Array) -> SparseModel:
        """The nonzero entries of dense coefficients."""
        flat = coefficients.reshape(-1)
        support = np.flatnonzero(flat)
        return cls(support, flat[support], coefficients.shape)

    def dense(self) -> Array:
        """The coefficients alpha as a dense array of the model's shape."""
        coefficients = np.zeros(self.shape, self.values.dtype)
        coefficients.reshape(-1)[self.support] = self.values
        return coefficients

    @property
    def atoms(self) -> IndexArray:
        """The atoms that some output uses, increasing; the support itself where there is one output."""
        if len(self.shape) == 1:
            return self.support
        used = np.zeros(self.shape[0], bool)
        used[self.support // self.shape[1]] = True
        return np.flatnonzero(used)

    def on(self, support: IndexArray) -> Array:
        """The coefficients on another support, zero where this model has none."""
        return self.dense().reshape(-1)[support]


def dense(coefficients: Array | SparseModel) -> Array:
    """The coefficients of a model as a dense array."""
    return coefficients.dense() if isinstance(coefficients, SparseModel) else coefficients


def union(first: IndexArray, second: IndexArray, size: int) -> IndexArray:
    """Increasing union of two sets of positions below `size`."""
    member = np.zeros(size, bool)
    member[first] = True
    member[second] = True
    return member.nonzero()[0]


def unit_of(array: Array) -> float:
    """A power of two that brings numbers whose squares might overflow or vanish to about 1; 1 where none might.

    Products with it are exact, so that nothing else changes.
    """
    largest = float(np.abs(array).max(initial=0))
    exponent, (safe, most) = (
        math.frexp(largest)[1],
        (30, 120) if array.dtype == np.float32 else (200, 1000),
    )
    if abs(exponent) <= safe or not 0 < largest < math.inf:
        return 1.0
    return 2.0 ** -max(min(exponent, most), -most)


def length_of(vector: Array) -> float:
    """The Euclidean norm, also where squares overflow or vanish."""
    unit = unit_of(vector)
    return float(np.linalg.norm(vector if unit == 1 else vector * unit)) / unit
