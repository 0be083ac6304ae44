"""Updates: what a client sends, why an update is rejected, and the updates of a cohort.

An `UpdateSpec` says what an update has to look like, because updates may come from strangers. An
update that does not fit its spec is rejected, with a reason. `Updates` is what the server sees of a
cohort: the accepted updates, each flattened to a vector. Aggregators and privacy mechanisms know
vectors only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel, dense

Update = Array | SparseModel  # what a client sends: in FedGradMP the whole model x_i
Message = Any  # what the server sends: an array, a sparse model, an int, or a tuple of these

_INDEX_BYTES = 4  # indices travel as int32


def n_bytes(message: Message) -> int:
    """Return how many bytes a message takes on the wire.

    A sparse model travels as indices and values, and so does a dense array if that is shorter.
    """
    if isinstance(message, tuple):
        return sum(n_bytes(part) for part in message)
    if isinstance(message, SparseModel):
        return _INDEX_BYTES * len(message.support) + message.values.nbytes
    if isinstance(message, int):
        return _INDEX_BYTES
    array = np.asarray(message)
    if array.ndim == 0:
        return array.itemsize
    entry_bytes = _INDEX_BYTES + array.itemsize
    return min(entry_bytes * int(np.count_nonzero(array)), array.nbytes)


class RejectReason(StrEnum):
    """Why the server leaves out an update; a member equals its string, and prints like it.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> reason = fgmp.UpdateSpec(shape=(2,)).validate(np.array([1.0, np.nan]))
    >>> reason is fgmp.RejectReason.NOT_FINITE, reason == "not_finite"
    (True, True)
    >>> print(*fgmp.RejectReason)
    missing late not_finite malformed indices too_many withheld
    """

    MISSING = "missing"
    LATE = "late"
    NOT_FINITE = "not_finite"
    MALFORMED = "malformed"
    INDICES = "indices"  # out of range, repeated, or not in order
    TOO_MANY = "too_many"
    WITHHELD = "withheld"  # by secure sums, see `SecureSum`


class Rejected(NamedTuple):
    """What a transport returns in place of an update that the server has to leave out."""

    reason: RejectReason = RejectReason.MISSING


@dataclass(frozen=True, eq=False)
class UpdateSpec:
    """What an update has to look like; its check, its dense layout and its bytes follow from this.

    Parameters
    ----------
    shape : tuple of int
        Shape of the update as a dense array.
    dtype : dtype, default float64
    max_nonzeros : int or None
        The update is a sparse model with at most this many entries, counted as `selection` counts
        them. None means that it is a dense array.
    reference : ndarray, SparseModel or None
        A point near the updates, such as the model that was sent: noise clips the difference from
        it. None stands for zero, as for gradients and for changes of a model.
    selection : Selection
    mean_only : bool, default True
        Whether only a mean may combine the updates, as with Hessians and sketches: a median refuses
        these. Say False for models, for changes of models, and wherever a median of each entry
        makes sense.

    Examples
    --------
    A sparse model with at most two entries is accepted, and a dense one is not:

    >>> import fgmp
    >>> import numpy as np
    >>> spec = fgmp.UpdateSpec(shape=(4,), max_nonzeros=2)
    >>> print(spec.validate(fgmp.SparseModel.of(np.array([0.0, 1.0, 0.0, 2.0]))))
    None
    >>> print(spec.validate(fgmp.SparseModel.of(np.ones(4))), spec.validate(np.ones(4)))
    too_many malformed
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = np.dtype(np.float64)
    max_nonzeros: int | None = None
    reference: Update | None = None
    selection: Selection = PER_OUTPUT
    mean_only: bool = True

    def __str__(self) -> str:
        kind = "an array" if self.max_nonzeros is None else "a SparseModel"
        return f"{kind} of {self.dtype} with shape {self.shape}"

    @property
    def length(self) -> int:
        """Number of entries of an update as a vector."""
        return prod(self.shape)

    @property
    def centre(self) -> Array:
        """The reference as a vector."""
        if self.reference is None:
            return np.zeros(self.length)
        return dense(self.reference).reshape(-1)

    def validate(self, update: Any) -> RejectReason | None:
        """Return why an update has to be rejected, or None if it fits this spec.

        Parameters
        ----------
        update : object
            Whatever a transport returned for a client; it may come from a stranger.
        """
        if update is None:
            return RejectReason.MISSING
        if isinstance(update, Rejected):
            return RejectReason(update.reason)
        if not _has_layout(self, update):
            return RejectReason.MALFORMED

        if isinstance(update, SparseModel):
            if not np.isfinite(update.values).all():
                return RejectReason.NOT_FINITE
            return _reason_of_support(self, update.support)
        return None if np.isfinite(update).all() else RejectReason.NOT_FINITE

    def accept(self, updates: Sequence[Any], weights: Array) -> Updates:
        """Return the updates of a cohort that fit this spec, and count the others by their reason.

        Parameters
        ----------
        updates : sequence
            What a transport returned, in the order of the cohort.
        weights : ndarray of float, shape (cohort_size,)
            The p_i of the whole cohort.
        """
        # A kernel's updates all have the layout of the first, so that one is checked for all.
        fitting = (None, RejectReason.NOT_FINITE)
        if isinstance(updates, UpdateTable) and updates and self.validate(updates[0]) in fitting:
            accepted, entries, values = updates.finite()
            rejected = Counter({RejectReason.NOT_FINITE.value: len(updates) - len(accepted)})
        else:
            reasons = [self.validate(update) for update in updates]
            accepted = np.flatnonzero([reason is None for reason in reasons])
            rejected = Counter(reason.value for reason in reasons if reason is not None)
            entries, values = self._flattened([updates[int(position)] for position in accepted])
        bytes_up = bytes_up_of(entries, values)
        return Updates(self, accepted, weights[accepted], entries, values, rejected, bytes_up)

    def _flattened(self, updates: list[Any]) -> tuple[Entries | None, Array]:
        """Return the `entries` and `values` of accepted updates, as `Updates` has them."""
        n_updates = len(updates)
        if self.max_nonzeros is None:
            return None, np.reshape(updates, (n_updates, self.length))
        vector_of_entry = np.repeat(np.arange(n_updates), [len(one.support) for one in updates])
        supports = [np.empty(0, np.intp), *(one.support for one in updates)]
        values = [np.empty(0, self.dtype), *(one.values for one in updates)]
        return Entries(vector_of_entry, np.concatenate(supports)), np.concatenate(values)

    def from_vector(self, vector: Array) -> Array:
        """Return a vector as an array of this shape and type."""
        return vector.reshape(self.shape).astype(self.dtype, copy=False)


class Entries(NamedTuple):
    """For each entry of sparse updates: the index of its vector, and its position there."""

    vector: IndexArray
    position: IndexArray


def bytes_up_of(entries: Entries | None, values: Array) -> int:
    """Return the bytes of updates; a dense one travels as its nonzeros if that is shorter."""
    entry_bytes = _INDEX_BYTES + values.itemsize
    if entries is not None:
        return entry_bytes * len(values)
    dense_bytes = values.itemsize * values.shape[1]
    sparse_bytes = entry_bytes * np.count_nonzero(values, axis=1)
    return int(np.minimum(sparse_bytes, dense_bytes).sum())


class UpdateTable(Sequence[Any]):
    """The updates of a cohort in one array, all with the layout of the first.

    A compiled kernel returns it, so that updates are not checked and copied one by one.
    """

    @abstractmethod
    def finite(self) -> tuple[IndexArray, Entries | None, Array]:
        """Return which updates are finite, and their `entries` and `values`, as in `Updates`."""


class Updates(NamedTuple):
    """What the server sees of the updates of a cohort.

    By default that is a vector for each accepted update. If a privacy mechanism adds the updates
    up, it is one vector: their mean, or with noise what is released in its place.

    Attributes
    ----------
    update_spec : UpdateSpec
    accepted : ndarray of int
        Increasing positions in the cohort: the clients whose updates are in the vectors.
    weights : ndarray of float, shape (n_vectors,)
        The weight p_i of each vector.
    entries : Entries or None
        Where the `values` of sparse updates stand; None if `values` are dense vectors.
    values : ndarray
        Shape (n_vectors, length) of dense updates, (n_entries,) of sparse ones.
    rejected : Counter of str
        How many updates were rejected, by `RejectReason`.
    bytes_up, bytes_down : int
        What the accepted updates took, and what clients were sent in addition to the message.
    """

    update_spec: UpdateSpec
    accepted: IndexArray
    weights: Array
    entries: Entries | None
    values: Array
    rejected: Counter[str]
    bytes_up: int
    bytes_down: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to aggregate, because no accepted update has a weight."""
        return not self.weights.sum() > 0

    @property
    def shares(self) -> Array:
        """The weights of the vectors, scaled to sum to one."""
        return self.weights / self.weights.sum()

    def as_matrix(self) -> Array:
        """Return the vectors as the rows of a dense matrix, shape (n_vectors, length)."""
        if self.entries is None:
            return self.values
        shape = len(self.weights), self.update_spec.length
        matrix: Array = np.zeros(shape, self.values.dtype)
        matrix[self.entries] = self.values  # entries are pairs of row and column
        return matrix

    def mean(self) -> Array:
        """Return sum_i p_i x_i, with weights that are scaled to sum to one."""
        if self.entries is None:
            return np.add.reduce(self.shares[:, None] * self.values, axis=0)
        weighted = self.shares[self.entries.vector] * self.values
        return np.bincount(self.entries.position, weighted, self.update_spec.length)


def _has_layout(update_spec: UpdateSpec, update: Any) -> bool:
    """Whether an update has the kind, the type and the shape of a spec."""
    is_sparse = isinstance(update, SparseModel)
    if is_sparse != (update_spec.max_nonzeros is not None):
        return False
    values = update.values if is_sparse else update
    if not isinstance(values, np.ndarray) or values.dtype != update_spec.dtype:
        return False
    if update.shape != update_spec.shape:
        return False
    return not is_sparse or _is_index_vector(update.support, values.shape)


def _reason_of_support(update_spec: UpdateSpec, support: IndexArray) -> RejectReason | None:
    """Return the reason if indices are out of range, not increasing, or too many."""
    if not len(support):
        return None
    shape = update_spec.shape
    count = update_spec.max_nonzeros
    in_range = support[0] >= 0 and support[-1] < update_spec.length
    if not in_range or (support[1:] <= support[:-1]).any():
        return RejectReason.INDICES
    if count is not None and not update_spec.selection.is_within(support, shape, count):
        return RejectReason.TOO_MANY
    return None


def _is_index_vector(support: object, shape: tuple[int, ...]) -> bool:
    """Whether these are indices, one for each value."""
    if not isinstance(support, np.ndarray) or support.dtype.kind != "i":
        return False
    return bool(support.shape == shape == (support.size,))
