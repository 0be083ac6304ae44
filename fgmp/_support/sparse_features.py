"""Features with few nonzeros: a sparse matrix, centred or not, of which columns become dense.

The functions at the end say of features of any kind how they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

FloatArray = NDArray[np.floating[Any]]


@dataclass(eq=False, repr=False)
class SparseFeatures:
    """The features A = S - u c' of a client, with S sparse and u c' never formed.

    It takes the place of a dense matrix. Products and rows take time and memory in proportion to
    the nonzeros of S, and columns become dense only when `take` asks for them. No method modifies
    an instance.

    Parameters
    ----------
    stored : scipy.sparse array or matrix, shape (n_samples, n_features)
        S, in any format. A CSR array is not copied unless it is unsorted or holds an entry twice.
    left : ndarray, shape (n_samples,), optional
        u. Without `left` and `centre` there is no second term: A = S.
    centre : ndarray, shape (n_features,), optional
        c.
    """

    stored: Any
    left: FloatArray | None = None
    centre: FloatArray | None = None

    __array_ufunc__ = None  # makes `ndarray @ features` call `__rmatmul__`

    def __post_init__(self) -> None:
        self.stored = _canonical_csr(self.stored)

    def __repr__(self) -> str:
        return f"SparseFeatures(shape {self.shape}, {self.stored.nnz} stored)"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n_samples, n_features)."""
        n_rows, n_columns = self.stored.shape
        return int(n_rows), int(n_columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision, float32 or float64."""
        return self.stored.dtype

    def __getitem__(self, rows: slice) -> SparseFeatures:
        """Return consecutive rows as views; only the offsets of the rows are copied."""
        begin, end, _ = rows.indices(self.shape[0])
        S = self.stored
        first = S.indptr[begin]
        last = S.indptr[end]
        block = sparse.csr_array(
            (S.data[first:last], S.indices[first:last], S.indptr[begin : end + 1] - first),
            shape=(end - begin, S.shape[1]),
        )
        left = None if self.left is None else self.left[begin:end]
        return SparseFeatures(block, left, self.centre)

    def __matmul__(self, x: FloatArray) -> FloatArray:
        """Return A x, shape (n_samples,) or (n_samples, n_outputs).

        With several outputs, the column of each output is contiguous.
        """
        if x.ndim > 1:
            return np.stack([self @ column for column in x.T]).T
        product: FloatArray = self.stored @ x
        if self.left is not None and self.centre is not None:
            product = product - self.left * (self.centre @ x)
        return product

    def __rmatmul__(self, w: FloatArray) -> FloatArray:
        """Return w A, shape (n_features,) or (n_outputs, n_features)."""
        if w.ndim > 1:
            return np.stack([row @ self for row in w])
        product: FloatArray = self.stored.T @ w
        if self.left is not None and self.centre is not None:
            product = product - (w @ self.left) * self.centre
        return product

    def take(self, indices: NDArray[np.intp], axis: int) -> Any:
        """Return some rows (axis 0) as `SparseFeatures`, or some columns (axis 1) as an ndarray.

        The columns are contiguous.
        """
        if axis == 0:
            left = None if self.left is None else self.left[indices]
            return SparseFeatures(self.stored[indices], left, self.centre)
        columns = self._by_column[:, indices].toarray()
        if self.left is not None and self.centre is not None:
            columns = columns - np.multiply.outer(self.centre[indices], self.left).T
        return columns

    @cached_property
    def _by_column(self) -> Any:
        """S in CSC format, from which columns are cut."""
        return self.stored.tocsc()

    def toarray(self) -> FloatArray:
        """Return A as a dense array."""
        return np.asarray(self.take(np.arange(self.shape[1]), axis=1))

    def times_rows(self, factors: FloatArray) -> SparseFeatures:
        """Return A with each row multiplied by its factor."""
        S = self.stored
        data = S.data * np.repeat(factors, np.diff(S.indptr))
        scaled = sparse.csr_array((data, S.indices, S.indptr), shape=S.shape)
        left = None if self.left is None else self.left * factors
        return SparseFeatures(scaled, left, self.centre)

    def astype(self, dtype: DTypeLike, copy: bool = False) -> SparseFeatures:
        """Return A in another precision; return the instance itself if it has this precision."""
        if self.dtype == dtype:
            return self
        left = None if self.left is None else self.left.astype(dtype)
        centre = None if self.centre is None else self.centre.astype(dtype)
        return SparseFeatures(self.stored.astype(dtype), left, centre)


def _canonical_csr(matrix: Any) -> Any:
    """Return a sparse matrix as a CSR array with sorted indices and no entry twice."""
    array = matrix if isinstance(matrix, sparse.csr_array) else sparse.csr_array(matrix)
    if array.has_canonical_format:
        return array
    array = array.copy()  # the arrays of the given matrix are not modified
    array.sum_duplicates()
    return array


def stacked(
    parts: Sequence[FloatArray | SparseFeatures],
) -> SparseFeatures | tuple[SparseFeatures, ...]:
    """Stack the rows of all parts; a dense part becomes sparse.

    Parts with different centres cannot be one `SparseFeatures` and are returned as a tuple.
    """
    sparse_parts = [
        part if isinstance(part, SparseFeatures) else SparseFeatures(sparse.csr_array(part))
        for part in parts
    ]
    first = sparse_parts[0]
    if len(sparse_parts) == 1:
        return first
    if not all(_have_equal_centres(part, first) for part in sparse_parts):
        return tuple(sparse_parts)
    rows = sparse.vstack([part.stored for part in sparse_parts], format="csr")
    if first.left is None:
        return SparseFeatures(rows)
    left = np.concatenate([part.left for part in sparse_parts if part.left is not None])
    return SparseFeatures(rows, left, first.centre)


def _have_equal_centres(first: SparseFeatures, second: SparseFeatures) -> bool:
    """Return whether both have the same centre, or both none."""
    if first.centre is None or second.centre is None:
        return first.centre is second.centre
    return np.array_equal(first.centre, second.centre)


def storage_of(features: Any) -> str:
    """Return how features are stored, in a word."""
    if isinstance(features, tuple):
        return "streamed"
    return "dense" if isinstance(features, np.ndarray) else "sparse"


def is_faster_by_columns(features: Any, n_columns: int) -> bool:
    """Return whether to copy some columns and multiply them takes less than to multiply all."""
    n_rows, n_features = features.shape
    if isinstance(features, np.ndarray):
        return bool(4 * n_columns <= n_features)
    if isinstance(features, LinearOperator):
        return False
    return bool(n_rows * n_columns <= features.stored.nnz)


def numbers_of(features: Any) -> Any:
    """Return the arrays that define features, or the shape of those that are streamed."""
    if isinstance(features, np.ndarray):
        return features
    if isinstance(features, LinearOperator):
        return features.shape
    S = features.stored
    return S.shape, S.data, S.indices, S.indptr, features.left, features.centre
