"""One client: its rows, its loss, and what can be asked of them: predictions, gradients, minibatches, the objective."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .checks import precision_of
from .losses import Loss
from .models import Array, SparseModel, Support
from .sparse_features import SparseFeatures

__all__ = ["Client", "minibatches"]

# Where a vector has so many times more entries than nonzeros, gathering columns is cheaper than a product with all.
_FEW = 8
_SMALL = 8192


@dataclass(frozen=True, eq=False)
class Client:
    """One client: the objective f_i(x) = (1/|D_i|) sum_j l(a_j' x, y_j) and the data behind it.

    Parameters
    ----------
    features : ndarray, sparse matrix, SparseFeatures or LinearOperator, shape (n_samples, n_features)
        The matrix A_i, kept so that its columns are contiguous or, where the model has several outputs or the matrix
        at most 8,192 entries, its rows. A sparse matrix becomes `fgmp.sparse_features.SparseFeatures`, which keeps it
        in CSR. A LinearOperator of SciPy is a matrix that is streamed and never stored; it serves methods with a
        dictionary, which need A_i Psi once.
    targets : ndarray, shape (n_samples,)
        The observations y_i.
    loss : Loss
        The loss l.
    key : int
        Who the client is, whatever its place in a list. Its random draws depend on the seed, the round and this key.
    """

    features: Any
    targets: Array
    loss: Loss
    key: int

    def __post_init__(self) -> None:
        if isinstance(self.features, np.ndarray):
            contiguous = np.asfortranarray if self._by_column else np.ascontiguousarray
            object.__setattr__(self, "features", contiguous(self.features))
        elif sparse.issparse(self.features):
            object.__setattr__(self, "features", SparseFeatures(self.features))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the precision of the models and, where they are stored, of the features."""
        return precision_of("features", self.features.dtype)

    @property
    def n_samples(self) -> int:
        """|D_i|."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of A_i."""
        return int(self.features.shape[1])

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model for this client."""
        return self.loss.model_shape(self.n_features)

    @cached_property
    def n_outputs(self) -> int:
        """Columns of a model: 1 where it is a vector."""
        return math.prod(self.model_shape[1:])

    @cached_property
    def _by_column(self) -> bool:
        """Whether a dense matrix has its columns contiguous: not where a cache holds it, for rows are what comes."""
        return self.n_outputs == 1 and isinstance(self.features, np.ndarray) and self.features.size > _SMALL

    @property
    def row_products(self) -> Array:
        """A_i A_i', the inner products of the client's rows, shape (n_samples, n_samples)."""
        return self._kept_row_products if self.keeps_row_products else self._row_products()

    @property
    def keeps_row_products(self) -> bool:
        """Whether `row_products` is computed once and kept: where it takes at most a quarter of the data's memory."""
        if isinstance(self.features, SparseFeatures):
            return 4 * self.n_samples**2 <= self.features.n_stored
        return 4 * self.n_samples <= self.n_features

    @cached_property
    def _kept_row_products(self) -> Array:
        return self._row_products()

    def _row_products(self) -> Array:
        if isinstance(self.features, SparseFeatures):
            return self.features.row_products()
        products: Array = self.features @ self.features.T
        return products

    def columns(self, support: Support) -> Array:
        """The columns of A_i on a support, dense, shape (n_samples, k)."""
        by_column = self._by_column
        picked: Array = self.features.T.take(support, axis=0).T if by_column else self.features.take(support, axis=1)
        return picked

    def predictions(self, x: Array | SparseModel) -> Array:
        """A_i x; a model with few nonzeros touches their columns only, unless sparse features are smaller."""
        if isinstance(self.features, SparseFeatures) and isinstance(x, SparseModel):
            x = x.dense() if self.n_samples * len(x.atoms) > self.features.n_stored else x
        if self.n_outputs == 1:
            if self._by_column and isinstance(x, np.ndarray):
                support = x.nonzero()[0]
                x = SparseModel(support, x[support], x.shape) if _FEW * len(support) < len(x) else x
            product: Array = self.columns(x.support) @ x.values if isinstance(x, SparseModel) else self.features @ x
            return product
        features, coefficients = self.features, x.dense() if isinstance(x, SparseModel) else x
        if isinstance(x, SparseModel) and 2 * len(x.atoms) < self.n_features:
            features, coefficients = self.columns(x.atoms), coefficients[x.atoms]
        return _by_output(coefficients, features)

    def gradient(self, x: Array | SparseModel, rows: Support | None = None) -> Array:
        """The gradient of f_i at x, or of g_ij where `rows` names the minibatch j.

        With one output, rows outside the minibatch get weight zero instead of being cut out: one product with the
        contiguous columns of A_i is faster than gathering rows. With several, the rows are contiguous, and gathered.
        """
        if rows is not None and self.n_outputs > 1:
            features, targets = self.features.take(rows, axis=0), self.targets[rows]
            predictions = _by_output(x.dense() if isinstance(x, SparseModel) else x, features)
        else:
            features, targets, predictions = self.features, self.targets, self.predictions(x)
        derivative = self.loss.derivative(predictions, targets)
        if rows is None or self.n_outputs > 1:
            weighted = derivative * self.loss.row_weight(len(targets))
        else:
            weighted = np.zeros_like(derivative)
            weighted[rows] = derivative[rows] * self.loss.row_weight(len(rows))
        gradient: Array = (weighted.T @ features).T  # one contiguous column for each output
        return gradient

    def minibatches(self, rng: np.random.Generator, batch_size: int | None, count: int) -> Iterator[Support | None]:
        """`count` minibatches of `batch_size` rows without replacement; None, the full batch, where that is the size.

        Every subset of that size is equally likely, as in the paper's M = binomial(|D_i|, b) minibatches. A client
        with fewer rows uses all of them.
        """
        return minibatches(rng, self.n_samples, batch_size, count)

    def objective(self, x: Array | SparseModel) -> float:
        """f_i(x)."""
        total = self.loss.values(self.predictions(x), self.targets).sum()
        return float(total * self.loss.row_weight(self.n_samples))


def _by_output(coefficients: Array, features: Array) -> Array:
    """The product features @ coefficients, one contiguous column for each output."""
    if isinstance(features, SparseFeatures):
        return features @ coefficients
    product: Array = (coefficients.T @ features.T).T
    return product


def minibatches(rng: np.random.Generator, n_rows: int, batch_size: int | None, count: int) -> Iterator[Support | None]:
    """`Client.minibatches` of `n_rows` rows."""
    if batch_size is None or batch_size >= n_rows:
        return iter([None] * count)
    return iter(rng.random((count, n_rows)).argpartition(batch_size - 1, axis=1)[:, :batch_size])
