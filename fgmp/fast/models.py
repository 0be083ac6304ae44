"""The models that a compiled kernel returns: one table, whose rows are not checked one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..sparse_model import Array, IndexArray, SparseModel
from ..updates import Entries, RejectReason, StackedUpdates, Updates, UpdateSpec, bytes_up_of


@dataclass(frozen=True, eq=False)
class SparseModels(StackedUpdates):
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

    def stack(self, update_spec: UpdateSpec, weights: Array) -> Updates:
        """Return the models that are finite as one table, as `UpdateSpec.stack` does.

        Whoever calls this has seen that the layout of the first is right.
        """
        is_entry = np.arange(self.supports.shape[1]) < self.counts[:, None]
        is_finite = np.isfinite(np.where(is_entry, self.values, 0)).all(axis=1)
        accepted = np.flatnonzero(is_finite)

        is_entry = is_entry[accepted]
        row_of_entry = np.repeat(np.arange(len(accepted)), self.counts[accepted])
        entries = Entries(row_of_entry, self.supports[accepted][is_entry])
        values = self.values[accepted][is_entry]
        return _stacked(update_spec, weights, accepted, entries, values)


@dataclass(frozen=True, eq=False)
class DenseModels(StackedUpdates):
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

    def stack(self, update_spec: UpdateSpec, weights: Array) -> Updates:
        """Return the models that are finite as one table, as `UpdateSpec.stack` does.

        Whoever calls this has seen that the layout of the first is right.
        """
        rows = self.values.reshape(len(self), -1)
        accepted = np.flatnonzero(np.isfinite(rows).all(axis=1))
        return _stacked(update_spec, weights, accepted, None, rows[accepted])


def _stacked(
    update_spec: UpdateSpec,
    weights: Array,
    accepted: IndexArray,
    entries: Entries | None,
    values: Array,
) -> Updates:
    """Return the table of the accepted models; all others of the cohort are not finite."""
    rejected = Counter({RejectReason.NOT_FINITE.value: len(weights) - len(accepted)})
    bytes_up = bytes_up_of(entries, values)
    return Updates(update_spec, accepted, weights[accepted], entries, values, rejected, bytes_up)
