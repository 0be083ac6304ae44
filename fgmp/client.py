"""Clients: the rows that each of them holds, its objective f_i, gradients and minibatches.

Client i holds the rows D_i: a matrix A_i with one row d_j for each sample and one column for each
feature, and the targets y_j. Its objective is f_i(x) = w sum_j l(d_j' x, y_j) with a loss l (see
`fgmp.losses`) and the weight w of a row, 1/|D_i| unless the loss is a sum. Federated learning
minimises f(x) = sum_i p_i f_i(x) over sparse models x, without moving the rows (paper, Section II).

`Client` is one of them, and `ProblemInfo` is what a server may know of all of them without their
data. `fgmp.federation` holds the rows of many clients in one table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .losses import Loss
from .sparse_model import Array, IndexArray, SparseModel, dense

# Rows of features: an ndarray, a `SparseFeatures` (fgmp._support.sparse_features), whose member
# `stored` is a SciPy matrix of the nonzeros, or SciPy's LinearOperator, of which only products are
# known, here called streamed. All have `shape`, `dtype` and products with arrays from both sides.
# An ndarray and `SparseFeatures` also have ``take(indices, axis)``, some rows or some columns. A
# federation of streamed features holds a tuple of them, one for each client.
Features = Any


@dataclass(frozen=True, eq=False)
class Client:
    """One client: its rows, and the objective f_i(x) = w sum_j l(d_j' x, y_j).

    Attributes
    ----------
    features : ndarray, SparseFeatures or LinearOperator, shape (n_samples, n_features)
        A_i, a slice of the federation's table. For a run with a dictionary Psi (see `sparse_model`)
        `Federation.prepare` replaces it by A_i Psi.
    targets : ndarray, shape (n_samples,)
        y_i, as the loss uses them.
    loss : Loss
    client_id : int
        Identifies the client. Its random draws depend on the seed, the round and this id (and on
        which exchange of the round it is, if a method has several), and on no other client.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> client = fgmp.Client(np.diag([1.0, 2.0]), np.array([1.0, 4.0]), fgmp.SquaredLoss())
    >>> x = np.ones(2)
    >>> client.predictions(x).tolist(), client.objective(x), client.gradient(x).tolist()
    ([1.0, 2.0], 1.0, [0.0, -2.0])
    """

    features: Features
    targets: Array
    loss: Loss
    client_id: int = 0

    def __repr__(self) -> str:
        rows = f"{self.n_samples} rows of {self.n_features} features"
        return f"Client(id {self.client_id}, {rows}, {self.loss!r})"

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: of the features, and of models."""
        dtype: np.dtype[Any] = self.features.dtype
        return dtype

    @property
    def n_samples(self) -> int:
        """|D_i|, the number of rows."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of A_i."""
        return int(self.features.shape[1])

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.loss.model_shape(self.n_features)

    @cached_property
    def n_outputs(self) -> int:
        """Number of columns of a model: 1 if it is a vector."""
        return math.prod(self.model_shape[1:])

    def columns(self, atoms: IndexArray) -> Array:
        """Return the columns of A_i of some atoms, by index, dense, shape (n_samples, k)."""
        columns: Array = self.features.take(atoms, axis=1)
        return columns

    def predictions(self, x: Array | SparseModel) -> Array:
        """Return A_i x."""
        return predict(self.features, x)

    def objective(self, x: Array | SparseModel) -> float:
        """Return f_i(x)."""
        total = self.loss.values(self.predictions(x), self.targets).sum()
        return float(total * self.loss.row_weight(self.n_samples))

    def gradient(self, x: Array | SparseModel, rows: IndexArray | None = None) -> Array:
        """Return the gradient w A_i^T l'(A_i x, y_i) of f_i at x.

        With `rows`, return the gradient of g_{i,j}, the same mean over the rows of minibatch j. (If
        the loss is a sum, it is the sum over these rows: on average b/|D_i| of the gradient of
        f_i.)
        """
        if rows is None:
            A = self.features
            y = self.targets
        else:
            A = self.features.take(rows, axis=0)
            y = self.targets[rows]
        derivative = self.loss.derivative(predict(A, x), y) * self.loss.row_weight(len(y))
        # Transposed twice, so that each output has a contiguous column.
        gradient: Array = (derivative.T @ A).T
        return gradient

    def minibatches(
        self, rng: np.random.Generator, batch_size: int | None, count: int
    ) -> Iterator[IndexArray | None]:
        """Return minibatches of rows, each drawn without replacement.

        All subsets of `batch_size` rows are equally likely, as in the paper, in which a client has
        M = binomial(|D_i|, b) minibatches.

        Parameters
        ----------
        rng : Generator
        batch_size : int or None
            b. If it is None or at least the number of rows, a minibatch is None: all rows.
        count : int
            The number of minibatches.
        """
        if batch_size is None or batch_size >= self.n_samples:
            return iter([None] * int(count))
        # All are drawn now: a solver draws from the same generator, which must not shift them. The
        # rows with the b smallest of |D_i| random numbers are a uniformly random subset. The
        # numbers of one minibatch are dropped before the next: a client may have millions of rows.
        batches = []
        for _ in range(count):
            keys = rng.random(self.n_samples)
            batches.append(keys.argpartition(batch_size - 1)[:batch_size].copy())
        return iter(batches)


@dataclass(frozen=True, eq=False)
class ProblemInfo:
    """What a server may know of the clients without their data.

    A method checks its parameters against it.

    Attributes
    ----------
    n_features : int
        Number of coefficients for each output: n, the columns of the data, or the number d of atoms
        if the method has a dictionary, because the features are then A_i Psi.
    loss : Loss
    rows : sequence of int
        |D_i|, the number of rows of each client.
    client_ids : sequence of int
        The ids of the clients.
    weights : ndarray, shape (n_clients,)
        The p_i, which sum to one: by default |D_i| over the number of all rows.
    dtype : dtype, default float64
        Of models.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> As = [np.ones((3, 2)), np.ones((5, 2))]
    >>> info = fgmp.Federation.from_arrays(As, [np.ones(3), np.ones(5)]).info
    >>> info.rows, info.weights.tolist(), info.model_shape
    ((3, 5), [0.375, 0.625], (2,))
    """

    n_features: int
    loss: Loss
    rows: Sequence[int]
    client_ids: Sequence[int]
    weights: Array
    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __repr__(self) -> str:
        clients = f"{len(self.client_ids)} clients"
        return f"ProblemInfo({clients}, {self.n_features} features, {self.loss!r}, {self.dtype})"

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model."""
        return self.loss.model_shape(self.n_features)


def predict(features: Features, x: Array | SparseModel) -> Array:
    """Return A x. A sparse model needs its own columns only, unless all take no more time."""
    if isinstance(features, tuple):
        return np.concatenate([predict(part, x) for part in features])

    if isinstance(x, SparseModel):
        atoms = x.used_atoms
        if _is_faster_by_columns(features, len(atoms)):
            coefficients = x.values if len(x.shape) == 1 else x.dense()[atoms]
            # Slices of an ndarray wait less for memory than `take`, which sparse features have.
            is_dense = isinstance(features, np.ndarray)
            columns = features[:, atoms] if is_dense else features.take(atoms, axis=1)
            return _product(columns, coefficients)
    return _product(features, dense(x))


def _is_faster_by_columns(features: Features, n_columns: int) -> bool:
    """Return whether to copy some columns and multiply them takes less than to multiply all."""
    n_rows, n_features = features.shape
    if isinstance(features, np.ndarray):
        return bool(4 * n_columns <= n_features)
    if isinstance(features, LinearOperator):
        return False
    return bool(n_rows * n_columns <= features.stored.nnz)


def _product(features: Features, x: Array) -> Array:
    """Return A x; if x is a matrix, with one contiguous column for each output."""
    is_dense = isinstance(features, np.ndarray)
    product: Array = (x.T @ features.T).T if is_dense and x.ndim > 1 else features @ x
    return product
