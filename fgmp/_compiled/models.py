"""The models that a compiled kernel returns: one table, whose rows are not checked one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..aggregation import Entries, Updates, UpdateSpec, bytes_up_of
from ..sparse_model import Array, IndexArray, SparseModel
from ..update_validation import RejectReason


@dataclass(frozen=True, eq=False)
class SparseModels(Sequence[SparseModel]):
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

    def __getitem__(self, index: Any) -> Any:
        count = self.counts[index]
        return SparseModel(self.supports[index, :count], self.values[index, :count], self.shape)

    def stack(self, update_spec: UpdateSpec, weights: Array) -> Updates:
        """Return the models that are finite as one table, as `UpdateSpec.stack` does.

        Whoever calls this has seen that the layout of the first is right.
        """
        is_entry = np.arange(self.supports.shape[1]) < self.counts[:, None]
        is_finite = np.isfinite(np.where(is_entry, self.values, 0)).all(axis=1)
        accepted = np.flatnonzero(is_finite)
        rejected = Counter({RejectReason.NOT_FINITE.value: int((~is_finite).sum())})

        is_entry = is_entry[is_finite]
        row_of_entry = np.repeat(np.arange(len(accepted)), self.counts[is_finite])
        entries = Entries(row_of_entry, self.supports[is_finite][is_entry])
        values = self.values[is_finite][is_entry]
        bytes_up = bytes_up_of(entries, values)
        return Updates(
            update_spec, accepted, weights[accepted], entries, values, rejected, bytes_up
        )


@dataclass(frozen=True, eq=False)
class DenseModels(Sequence[Array]):
    """The dense models of several clients: a sequence of arrays that lie in one.

    Parameters
    ----------
    values : ndarray of float, shape (n_models, *shape of a model)
    """

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def stack(self, update_spec: UpdateSpec, weights: Array) -> Updates:
        """Return the models that are finite as one table, as `UpdateSpec.stack` does.

        Whoever calls this has seen that the layout of the first is right.
        """
        rows = self.values.reshape(len(self), -1)
        is_finite = np.isfinite(rows).all(axis=1)
        accepted = np.flatnonzero(is_finite)
        rejected = Counter({RejectReason.NOT_FINITE.value: int((~is_finite).sum())})

        values = rows if len(accepted) == len(rows) else rows[is_finite]
        bytes_up = bytes_up_of(None, values)
        return Updates(update_spec, accepted, weights[accepted], None, values, rejected, bytes_up)
