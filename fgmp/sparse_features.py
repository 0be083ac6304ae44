"""Features with few nonzeros: a sparse matrix, centred or not, of which only the columns asked for become dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .models import Array, Support


class _ByColumn(NamedTuple):
    """The entries of a matrix in the order of their columns: where each is stored, its row and its column."""

    places: Support
    rows: Support
    columns: Support


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A = S - u c', where S is sparse and u c' is never formed: what stands where a client has a dense matrix.

    Products and rows take time and memory in proportion to the nonzeros of S; columns become dense when asked for.

    Parameters
    ----------
    stored : scipy.sparse array or matrix, shape (n_samples, n_features)
        S, kept in CSR: such a one is not copied unless it holds an entry twice. Not modified.
    left : ndarray, shape (n_samples,), or None
        u; None is no second term, A = S.
    centre : ndarray, shape (k,), or None
        c in the columns `at`, zero in others.
    at : ndarray of int, shape (k,), or Ellipsis
        All columns by default.
    """

    stored: Any
    left: Array | None = None
    centre: Array | None = None
    at: Any = ...

    __array_ufunc__ = None  # so that `ndarray @ features` comes here

    def __post_init__(self) -> None:
        stored = self.stored if isinstance(self.stored, sparse.csr_array) else sparse.csr_array(self.stored)
        if not stored.has_canonical_format:
            stored = stored.copy()
            stored.sum_duplicates()
        object.__setattr__(self, "stored", stored)

    def __repr__(self) -> str:
        return f"SparseFeatures(shape {self.shape}, {self.n_stored} stored)"

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        rows, columns = self.stored.shape
        return int(rows), int(columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        found: np.dtype[Any] = self.stored.dtype
        return found

    @property
    def n_stored(self) -> int:
        """Entries of S that are stored."""
        return int(self.stored.nnz)

    def __getitem__(self, rows: slice) -> SparseFeatures:
        """Consecutive rows, of which nothing is copied but where they begin."""
        begin, end, _ = rows.indices(self.shape[0])
        S = self.stored
        first, last = S.indptr[[begin, end]]
        parts = S.data[first:last], S.indices[first:last], S.indptr[begin : end + 1] - first
        left = None if self.left is None else self.left[begin:end]
        return replace(self, stored=sparse.csr_array(parts, shape=(end - begin, S.shape[1])), left=left)

    def __matmul__(self, x: Array) -> Array:
        """A x, shape (n_samples,), or (n_samples, n_outputs) with one contiguous column for each output."""
        if x.ndim > 1:
            return np.stack([self @ column for column in x.T]).T
        product: Array = self.stored @ x
        return product if self.left is None else product - self.left * (self.centre @ x[self.at])

    def __rmatmul__(self, w: Array) -> Array:
        """The product w A, shape (n_features,), or (n_outputs, n_features)."""
        if w.ndim > 1:
            return np.stack([row @ self for row in w])
        product: Array = self.stored.T @ w
        if self.left is not None:
            product[self.at] -= (w @ self.left) * self.centre
        return product

    def take(self, places: Support, axis: int) -> Any:
        """Some columns (axis 1), dense and contiguous, or some rows (axis 0), as sparse as they are."""
        if axis == 0:
            left = None if self.left is None else self.left[places]
            return replace(self, stored=self.stored[places], left=left)
        entries, wanted = self._by_column, places.astype(self.stored.indices.dtype)
        starts = entries.columns.searchsorted(wanted)
        counts = entries.columns.searchsorted(wanted, side="right") - starts
        ends = counts.cumsum()
        chosen = np.arange(counts.sum()) + np.repeat(starts - ends + counts, counts)
        columns = np.zeros((len(places), self.shape[0]), self.dtype)
        columns[np.repeat(np.arange(len(places)), counts), entries.rows[chosen]] = self.stored.data[
            entries.places[chosen]
        ]
        if self.left is not None:
            columns -= np.multiply.outer(self._whole_centre()[places], self.left)
        return columns.T

    @cached_property
    def _by_column(self) -> _ByColumn:
        stored = self.stored
        places = np.arange(stored.nnz, dtype=stored.indices.dtype)
        entries = _like(stored, places).tocsc()
        columns = np.repeat(np.arange(stored.shape[1], dtype=places.dtype), np.diff(entries.indptr))
        return _ByColumn(entries.data, entries.indices, columns)

    def toarray(self) -> Array:
        """A as a dense array."""
        return np.asarray(self.take(np.arange(self.shape[1]), axis=1))

    def times_rows(self, factors: Array) -> SparseFeatures:
        """Each row times its factor."""
        stored, left = self.stored, None if self.left is None else self.left * factors
        data = stored.data * np.repeat(factors, np.diff(stored.indptr))
        return replace(self, stored=_like(stored, data), left=left)

    def __rmul__(self, factor: Any) -> SparseFeatures:
        """A number times A."""
        left = None if self.left is None else factor * self.left
        return replace(self, stored=factor * self.stored, left=left)

    def astype(self, dtype: Any, copy: bool = False) -> SparseFeatures:
        """In another precision; itself where it is in that one."""
        if self.dtype == dtype:
            return self
        left, centre = (None if part is None else part.astype(dtype) for part in (self.left, self.centre))
        return replace(self, stored=self.stored.astype(dtype), left=left, centre=centre)

    def _whole_centre(self) -> Array:
        centre = np.zeros(self.shape[1], self.dtype)
        centre[self.at] = self.centre
        return centre


def _like(matrix: Any, data: Array) -> Any:
    """A CSR array with other values in the same places."""
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def stacked(parts: Sequence[Array | SparseFeatures]) -> SparseFeatures | tuple[SparseFeatures, ...]:
    """The rows of all parts as one; a dense part becomes sparse. Parts with centres of their own stay apart."""
    if len(parts) == 1 and isinstance(parts[0], SparseFeatures):
        return parts[0]
    several = [part if isinstance(part, SparseFeatures) else SparseFeatures(sparse.csr_array(part)) for part in parts]
    first, centred = several[0], [part.left is not None for part in several]
    if any(centred) and not (
        all(centred) and all(np.array_equal(np.asarray(part.centre), np.asarray(first.centre)) for part in several)
    ):
        return tuple(several)
    left = np.concatenate([part.left for part in several if part.left is not None]) if any(centred) else None
    return replace(first, stored=sparse.vstack([part.stored for part in several], format="csr"), left=left)
