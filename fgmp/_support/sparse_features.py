"""Features with few nonzeros: a sparse matrix, centred or not, of which only the columns asked for become dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..sparse_model import Array, IndexArray


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A = S - u c', where S is sparse and u c' is never formed: what stands where a client has a dense matrix.

    Products and rows take time and memory in proportion to the nonzeros of S; columns become dense when asked for.

    Parameters
    ----------
    stored : scipy.sparse array or matrix, shape (n_samples, n_features)
        S, kept in CSR: such a one is not copied unless it holds an entry twice. Not modified.
    left, centre : ndarray, shape (n_samples,), and (n_features,); or None
        u and c; None is no second term, A = S.
    """

    stored: Any
    left: Any = None
    centre: Any = None

    __array_ufunc__ = None  # so that `ndarray @ features` comes here

    def __post_init__(self) -> None:
        stored = (
            self.stored
            if isinstance(self.stored, sparse.csr_array)
            else sparse.csr_array(self.stored)
        )
        if not stored.has_canonical_format:
            stored = stored.copy()
            stored.sum_duplicates()
        object.__setattr__(self, "stored", stored)

    def __repr__(self) -> str:
        return f"SparseFeatures(shape {self.shape}, {self.stored.nnz} stored)"

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

    def __getitem__(self, rows: slice) -> SparseFeatures:
        """Consecutive rows, of which nothing is copied but where they begin."""
        begin, end, _ = rows.indices(self.shape[0])
        S = self.stored
        first, last = S.indptr[[begin, end]]
        parts = S.data[first:last], S.indices[first:last], S.indptr[begin : end + 1] - first
        return self._of_rows(
            sparse.csr_array(parts, shape=(end - begin, S.shape[1])), lambda u: u[begin:end]
        )

    def __matmul__(self, x: Array) -> Array:
        """A x, shape (n_samples,), or (n_samples, n_outputs) with one contiguous column for each output."""
        if x.ndim > 1:
            return np.stack([self @ column for column in x.T]).T
        product: Array = self.stored @ x
        return product if self.left is None else product - self.left * (self.centre @ x)

    def __rmatmul__(self, w: Array) -> Array:
        """The product w A, shape (n_features,), or (n_outputs, n_features)."""
        if w.ndim > 1:
            return np.stack([row @ self for row in w])
        product: Array = self.stored.T @ w
        return product if self.left is None else product - (w @ self.left) * self.centre

    def take(self, indices: IndexArray, axis: int) -> Any:
        """Some columns (axis 1), dense and contiguous, or some rows (axis 0), as sparse as they are."""
        if axis == 0:
            return self._of_rows(self.stored[indices], lambda u: u[indices])
        columns = self._by_column[:, indices].toarray()
        return (
            columns
            if self.left is None
            else columns - np.multiply.outer(self.centre[indices], self.left).T
        )

    @cached_property
    def _by_column(self) -> Any:
        return self.stored.tocsc()

    def toarray(self) -> Array:
        """A as a dense array."""
        return np.asarray(self.take(np.arange(self.shape[1]), axis=1))

    def times_rows(self, factors: Array) -> SparseFeatures:
        """Each row times its factor."""
        S = self.stored
        data = S.data * np.repeat(factors, np.diff(S.indptr))
        return self._of_rows(
            sparse.csr_array((data, S.indices, S.indptr), shape=S.shape), lambda u: u * factors
        )

    def astype(self, dtype: Any, copy: bool = False) -> SparseFeatures:
        """In another precision; itself where it is in that one."""
        if self.dtype == dtype:
            return self
        left, centre = (
            None if part is None else part.astype(dtype) for part in (self.left, self.centre)
        )
        return SparseFeatures(self.stored.astype(dtype), left, centre)

    def _of_rows(self, stored: Any, change: Callable[[Array], Array]) -> SparseFeatures:
        """With other rows: those of S, and what is made of u for them."""
        return replace(self, stored=stored, left=None if self.left is None else change(self.left))


def stacked(parts: Sequence[Array | SparseFeatures]) -> SparseFeatures | tuple[SparseFeatures, ...]:
    """The rows of all parts as one; a dense part becomes sparse. Parts with centres of their own stay apart."""
    several = [
        part if isinstance(part, SparseFeatures) else SparseFeatures(sparse.csr_array(part))
        for part in parts
    ]
    first = several[0]
    if len(several) == 1:
        return first
    if not all(np.array_equal(part.centre, first.centre) for part in several):
        return tuple(several)
    left = None if first.left is None else np.concatenate([part.left for part in several])
    return replace(
        first, stored=sparse.vstack([part.stored for part in several], format="csr"), left=left
    )
