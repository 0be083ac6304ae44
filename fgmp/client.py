"""One client: its rows, its loss, and what can be asked of them: predictions, gradients, minibatches, the objective."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from .checks import check_array, check_integer, check_kind, check_sparse, precision_of
from .losses import Loss, check_loss
from .models import Array, SparseModel, Support
from .sparse_features import SparseFeatures

__all__ = ["Client", "check_client", "check_features", "minibatches"]

# Where a vector has so many times more entries than nonzeros, gathering columns is cheaper than a product with all.
_FEW = 8
_SMALL = 8192
_MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Client:
    """One client: the objective f_i(x) = (1/|D_i|) sum_j l(a_j' x, y_j) and the data behind it.

    Parameters
    ----------
    features : array_like, sparse matrix, SparseFeatures or LinearOperator, shape (n_samples, n_features)
        The matrix A_i, kept so that its columns are contiguous or, where the model has several outputs or the matrix
        at most 8,192 entries, its rows. A sparse matrix becomes `fgmp.sparse_features.SparseFeatures`, which keeps it
        in CSR. A LinearOperator of SciPy is a matrix that is streamed and never stored; it serves methods with a
        dictionary, which need A_i Psi once.
    targets : array_like, shape (n_samples,)
        The observations y_i, as the loss knows them: labels -1 and +1, or 0 to C - 1.
    loss : Loss
        The loss l.
    key : int
        Who the client is, whatever its place in a list, at least 0. Its random draws depend on the seed, the round and
        this key.

    Raises
    ------
    ValueError
        Where shapes do not fit, or numbers are not finite or are no targets of the loss.
    """

    features: Any
    targets: Array
    loss: Loss
    key: int

    def __post_init__(self) -> None:
        self._settle("features", "targets")
        self._arrange()

    @classmethod
    def named(cls, features: Any, targets: Any, loss: Loss, key: int, names: tuple[str, str]) -> Client:
        """A client whose features and targets have other names in messages."""
        made = cls._of(features, targets, loss, key)
        made._settle(*names)
        made._arrange()
        return made

    @classmethod
    def alike(cls, features: Array, targets: Array, loss: Loss) -> list[Client]:
        """Clients of as many rows each, with the keys 0, 1, ..: what they have in common is checked once for all.

        Parameters
        ----------
        features : ndarray, shape (n_clients, n_samples, n_features)
        targets : ndarray, shape (n_clients, n_samples)
        """
        n_clients, size, n_features = features.shape
        whole = cls._of(features.reshape(-1, n_features), targets.reshape(-1), loss, 0)
        whole._settle("As", "ys")
        starts = range(0, n_clients * size, size)
        rows = ((whole.features[start : start + size], whole.targets[start : start + size]) for start in starts)
        clients = [cls._of(A, y, loss, key) for key, (A, y) in enumerate(rows)]
        shared = {"n_outputs": clients[0].n_outputs, "_by_column": clients[0]._by_column}
        for client in clients:
            vars(client).update(shared)
            client._arrange()
        return clients

    def with_features(self, features: Any) -> Client:
        """The same client with other columns, which were made of its own and are not checked again."""
        changed = self._of(features, self.targets, self.loss, self.key)
        changed._arrange()
        return changed

    @classmethod
    def _of(cls, features: Any, targets: Any, loss: Loss, key: int) -> Client:
        made = object.__new__(cls)
        for name, value in {"features": features, "targets": targets, "loss": loss, "key": key}.items():
            object.__setattr__(made, name, value)
        return made

    def _settle(self, A: str, y: str) -> None:
        """Check what came, under these names, and keep it in its plain form."""
        check_loss("loss", self.loss)
        features = check_features(A, self.features)
        targets = check_array(y, self.targets)
        if not targets.ndim or len(targets) != features.shape[0]:
            count = len(targets) if targets.ndim else "no"
            raise ValueError(f"{y} has {count} entries; expected {features.shape[0]}, the number of rows of {A}")
        targets = self.loss.check_targets(y, targets)
        if targets.dtype.kind == "f":
            targets = targets.astype(precision_of(A, features.dtype), copy=False)
        size = math.prod(self.loss.model_shape(features.shape[1]))
        if size > _MOST:
            raise ValueError(
                f"{A} has shape {features.shape}, for a model of {size} coefficients; expected at most {_MOST}: "
                "indices travel as 32-bit integers"
            )
        settled = {"features": features, "targets": targets, "key": check_integer("key", self.key, at_least=0)}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def _arrange(self) -> None:
        """Keep the features in the order in which they are read."""
        if isinstance(self.features, np.ndarray):
            contiguous = np.asfortranarray if self._by_column else np.ascontiguousarray
            object.__setattr__(self, "features", contiguous(self.features))
        elif sparse.issparse(self.features):
            object.__setattr__(self, "features", SparseFeatures(self.features))

    def __repr__(self) -> str:
        return f"Client(key {self.key}, {self.n_samples} rows of {self.n_features} features, {self.loss!r})"

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

    @cached_property
    def features_by_row(self) -> Array:
        """Dense features with contiguous rows: themselves, or a copy that the client keeps and does not pickle.

        Only compiled loops ask for it (`fgmp.local.compiled`); the data then take twice their memory.
        """
        return np.ascontiguousarray(self.features)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "features_by_row"}

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
        gathered = rows is not None and self.n_outputs > 1
        if gathered:
            features, targets = self.features.take(rows, axis=0), self.targets[rows]
            predictions = _by_output(x.dense() if isinstance(x, SparseModel) else x, features)
        else:
            features, targets, predictions = self.features, self.targets, self.predictions(x)
        derivative = self.loss.derivative(predictions, targets)
        if rows is None or gathered:
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


def check_client(name: str, client: Any) -> Client:
    """Return a client, or raise a ValueError where it is something else."""
    found: Client = check_kind(name, client, Client, "a Client, such as one of federation.clients")
    return found


def check_features(name: str, features: Any) -> Any:
    """Return features as a finite matrix, stored densely or sparsely or streamed, or raise a ValueError."""
    if isinstance(features, (LinearOperator, SparseFeatures)):
        precision_of(name, features.dtype)
    elif sparse.issparse(features):
        features = check_sparse(name, features)
    else:
        features = check_array(name, features, ndim=2)
    if 0 in features.shape:
        raise ValueError(f"{name} has shape {features.shape}; expected at least one sample and one feature")
    return features


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
