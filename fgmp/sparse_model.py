"""Sparse models: which coefficients may differ from zero, and their values.

A model is given by its coefficients alpha, and stands for the signal x = Psi alpha, a combination
of the columns of Psi, which are called atoms. In the standard basis Psi is the identity: the atoms
are the features, and x = alpha. The support of a model lists the positions at which alpha may
differ from zero; at all others it is zero.

The name x has two meanings. In the code of methods, clients and losses it holds the coefficients
alpha: within a run the features of a client are A_i Psi, so predictions are A_i Psi alpha. It is
the signal Psi alpha in the paper's formulas, in what a run records (`Result.x`, the argument of a
metric), and in any `truth`. Code that has both names the coefficients `coefficients`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
IndexArray = NDArray[np.intp]


class NonFiniteUpdate(FloatingPointError):
    """A client has no finite update that it could send to the server.

    Only this package raises it. A FloatingPointError of a user's code is not caught.
    """


@dataclass(frozen=True, eq=False)
class SparseModel:
    """A model x = Psi alpha with few nonzero coefficients alpha.

    A loss with several outputs has one column of coefficients for each output. They are flattened
    row by row, so that the coefficient of an atom for an output is at the position
    ``atom * n_outputs + output``.

    Parameters
    ----------
    support : ndarray of int, shape (k,)
        Increasing positions in the flattened coefficients: the indices of the atoms if there is one
        output.
    values : ndarray of float, shape (k,)
        The coefficients at these positions.
    shape : tuple of int
        Shape of the dense coefficients: ``(n_atoms,)``, or ``(n_atoms, n_outputs)``.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> model = fgmp.SparseModel(np.array([1, 3]), np.array([5.0, -2.0]), shape=(4,))
    >>> model.dense().tolist()
    [0.0, 5.0, 0.0, -2.0]
    >>> fgmp.SparseModel.of(model.dense()).support.tolist()
    [1, 3]
    """

    support: IndexArray
    values: Array
    shape: tuple[int, ...]

    def __repr__(self) -> str:
        with np.printoptions(threshold=12, edgeitems=3, linewidth=1000):
            return f"SparseModel({self.support!r}, {self.values!r}, {self.shape})"

    @classmethod
    def zero(cls, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> SparseModel:
        """Return the model with an empty support."""
        return cls(np.empty(0, np.intp), np.empty(0, dtype), shape)

    @classmethod
    def of(cls, coefficients: Array) -> SparseModel:
        """Return the model of dense coefficients."""
        flat = coefficients.reshape(-1)
        support = np.flatnonzero(flat)
        return cls(support, flat[support], coefficients.shape)

    def dense(self) -> Array:
        """Return the coefficients alpha as a dense array of the shape of the model."""
        coefficients = np.zeros(self.shape, self.values.dtype)
        coefficients.reshape(-1)[self.support] = self.values
        return coefficients

    @property
    def used_atoms(self) -> IndexArray:
        """Atoms that at least one output uses, increasing: the support if there is one output."""
        if len(self.shape) == 1:
            return self.support

        n_atoms, n_outputs = self.shape
        is_used = np.zeros(n_atoms, bool)
        is_used[self.support // n_outputs] = True
        return np.flatnonzero(is_used)

    def on(self, support: IndexArray) -> Array:
        """Return the coefficients on another support: zero outside the support of this model."""
        return self.dense().reshape(-1)[support]


Model = Array | SparseModel  # the coefficients of a model


def dense(coefficients: Model) -> Array:
    """Return the coefficients of a model as a dense array."""
    return coefficients.dense() if isinstance(coefficients, SparseModel) else coefficients


def union(first: IndexArray, second: IndexArray, size: int) -> IndexArray:
    """Return the increasing union of two sets of positions below `size`."""
    is_member = np.zeros(size, bool)
    is_member[first] = True
    is_member[second] = True
    return is_member.nonzero()[0]
