"""The models that a compiled kernel returns: one table, whose models are not checked one by one."""

from dataclasses import dataclass

import numpy as np

from ..sparse_model import Array, IndexArray, SparseModel
from ..updates import Entries, UpdateTable


@dataclass(frozen=True, eq=False)
class SparseModels(UpdateTable):
    """The models of several clients: a sequence of `SparseModel` whose numbers lie in two arrays.

    Parameters
    ----------
    supports : ndarray of int, shape (n_models, k)
    values : ndarray of float, shape (n_models, k)
    counts : ndarray of int, shape (n_models,)
        How many entries of its row each model has.
    shape : tuple of int
        Shape of the dense coefficients of each model.
    """

    supports: IndexArray
    values: Array
    counts: IndexArray
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: int) -> SparseModel:  # type: ignore[override]
        count = self.counts[index]
        return SparseModel(self.supports[index, :count], self.values[index, :count], self.shape)

    def finite(self) -> tuple[IndexArray, Entries, Array]:
        """Return which models are finite, and their entries and values."""
        is_entry = np.arange(self.supports.shape[1]) < self.counts[:, None]
        is_finite = np.isfinite(np.where(is_entry, self.values, 0)).all(axis=1)
        accepted = np.flatnonzero(is_finite)

        is_entry = is_entry[accepted]
        vector_of_entry = np.repeat(np.arange(len(accepted)), self.counts[accepted])
        entries = Entries(vector_of_entry, self.supports[accepted][is_entry])
        return accepted, entries, self.values[accepted][is_entry]


@dataclass(frozen=True, eq=False)
class DenseModels(UpdateTable):
    """The dense models of several clients: a sequence of arrays that lie in one.

    Parameters
    ----------
    values : ndarray of float, shape (n_models, ...)
        Behind the first axis it has the shape of a model.
    """

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Array:  # type: ignore[override]
        return self.values[index]

    def finite(self) -> tuple[IndexArray, None, Array]:
        """Return which models are finite, and these as vectors."""
        vectors = self.values.reshape(len(self), -1)
        accepted = np.flatnonzero(np.isfinite(vectors).all(axis=1))
        return accepted, None, vectors[accepted]
