"""Data: who holds which rows, the objective f_i of each client, its gradients and minibatches.

Client i holds the rows D_i: a matrix A_i with one row d_j for each sample and one column for each
feature, and the targets y_j. Its objective is f_i(x) = (1/|D_i|) sum_j l(d_j' x, y_j) with a loss
l (see `fgmp.losses`), or the sum instead of the mean, if the loss says so. Federated learning
minimises f(x) = sum_i p_i f_i(x) over sparse models x, without moving the rows (paper, Section II).

`Client` is one client, `Federation` holds the rows of all clients in one table, and `ProblemInfo`
is what a server may know of them without their data.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._support.client_data import (
    check_client_indices,
    check_precision_of_targets,
    check_sequences,
    encode_labels,
    split_by_client,
    stacked_features,
)
from ._support.displays import html_facts
from ._support.sparse_features import is_faster_by_columns, storage_of
from ._support.tables import concatenate_rows, normalized_weights
from ._support.validation import (
    as_array,
    check_array,
    check_kind,
    check_shape,
    precision_of,
    short_repr,
)
from .losses import Loss, loss_of, takes_labels
from .sparse_model import Array, IndexArray, Model, SparseModel, dense

# Indices of coefficients travel as 32-bit integers.
_MOST_COEFFICIENTS = 2**31 - 1

# The features of some rows: an ndarray, a `SparseFeatures` (fgmp._support.sparse_features), which
# keeps the nonzeros in a SciPy matrix `stored`, or a LinearOperator of SciPy, which only multiplies
# and is called streamed. All have `shape`, `dtype` and products with arrays from both sides. An
# ndarray and a `SparseFeatures` also have ``take(indices, axis)``, for some rows or some columns. A
# federation of streamed features holds a tuple of them, one for each client.
Features = Any


@dataclass(frozen=True, eq=False)
class Client:
    """One client: its rows, and the objective f_i(x) = (1/|D_i|) sum_j l(d_j' x, y_j).

    Attributes
    ----------
    features : ndarray, SparseFeatures or LinearOperator, shape (n_samples, n_features)
        A_i, a slice of the federation's table. For a run with a dictionary Psi (see `sparse_model`)
        `fgmp.LocalClients` replaces it by A_i Psi, and x below is the coefficients alpha.
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
        size = f"{self.n_samples} rows of {self.n_features} features"
        return f"Client(id {self.client_id}, {size}, {self.loss!r})"

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: of the features, and of models."""
        return self.features.dtype

    @property
    def n_samples(self) -> int:
        """|D_i|, the number of rows."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of A_i, or of A_i Psi within a run: the coefficients of an output."""
        return int(self.features.shape[1])

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.loss.model_shape(self.n_features)

    def columns(self, atoms: IndexArray) -> Array:
        """Return the columns of A_i of some atoms, by index: dense, of shape (n_samples, k)."""
        return self.features.take(atoms, axis=1)

    def predictions(self, x: Model) -> Array:
        """Return A_i x."""
        return predict(self.features, x)

    def objective(self, x: Model) -> float:
        """Return f_i(x)."""
        total = self.loss.values(self.predictions(x), self.targets).sum()
        return float(total * self.loss.row_weight(self.n_samples))

    def gradient(self, x: Model, batch: IndexArray | None = None) -> Array:
        """Return the gradient A_i^T l'(A_i x, y_i) / |D_i| of f_i at x.

        With a `batch`, the indices of the rows of minibatch j, return the gradient of g_{i,j}, the
        same mean over these rows. If the loss is a sum, return the sum over these rows, which is on
        average b/|D_i| times the gradient of f_i.
        """
        if batch is None:
            A = self.features
            y = self.targets
        else:
            A = self.features.take(batch, axis=0)
            y = self.targets[batch]
        derivative = self.loss.derivative(predict(A, x), y) * self.loss.row_weight(len(y))
        # Transposed twice, so that each output has a contiguous column.
        return (derivative.T @ A).T

    def minibatches(
        self, rng: np.random.Generator, batch_size: int | None, count: int
    ) -> Iterator[IndexArray | None]:
        """Return minibatches of the rows of the client (`draw_minibatches`)."""
        return draw_minibatches(rng, self.n_samples, batch_size, count)


def draw_minibatches(
    rng: np.random.Generator, n_rows: int, batch_size: int | None, count: int
) -> Iterator[IndexArray | None]:
    """Return minibatches: of each, the indices of its rows, drawn without replacement.

    All subsets of `batch_size` rows are equally likely, as in the paper, in which a client has
    M = binomial(|D_i|, b) minibatches.

    Parameters
    ----------
    rng : Generator
    n_rows : int
        |D_i|.
    batch_size : int or None
        b. (The paper also writes b for what a solver returns, as other files here do.) If it is
        None, or at least the number of rows, each minibatch is None, which stands for all rows.
    count : int
        The number of minibatches.
    """
    if batch_size is None or batch_size >= n_rows:
        return iter([None] * int(count))
    # All are drawn now, because a solver draws from the same generator between two of them. The
    # rows with the b smallest of |D_i| random numbers are a uniformly random subset. The numbers of
    # one minibatch are dropped before the next: a client may have millions of rows.
    batches = []
    for _ in range(count):
        keys = rng.random(n_rows)
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
    n_rows : sequence of int
        |D_i|, the number of rows of each client.
    client_ids : sequence of int
        The ids of the clients.
    weights : ndarray, shape (n_clients,)
        The p_i, which sum to one: by default |D_i| over the number of all rows.
    dtype : dtype, default float64
        The precision of models.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> As = [np.ones((3, 2)), np.ones((5, 2))]
    >>> info = fgmp.Federation.from_arrays(As, [np.ones(3), np.ones(5)]).info
    >>> info.n_rows, info.weights.tolist(), info.model_shape
    ((3, 5), [0.375, 0.625], (2,))
    """

    n_features: int
    loss: Loss
    n_rows: Sequence[int]
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


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Clients and their weights p_i: the problem min over x of f(x) = sum_i p_i f_i(x).

    `from_arrays` and `from_frame` validate data and make a federation of them, and `from_clients`
    makes one of clients. It holds data and nothing else: `fgmp.LocalClients` runs a method on it.

    Attributes
    ----------
    features : ndarray or SparseFeatures, shape (n_rows, n_features), or tuple
        The rows of all clients, one client after another, or a tuple with the features of each
        client, if these are streamed.
    targets : ndarray, shape (n_rows,)
    offsets : ndarray of int, shape (n_clients + 1,)
        Client i holds the rows offsets[i] to offsets[i + 1].
    loss : Loss
    weights : ndarray, shape (n_clients,)
        The p_i, which sum to one.
    client_ids : ndarray of int, shape (n_clients,)
        The ids of the clients, increasing.
    truth : ndarray or None
        x#, the signal that made the data, if it is known. It is in the original features, even if
        `features` are A_i Psi.
    labels : tuple of two values, or None
        The labels in the data that -1 and +1 of the logistic loss stand for.
    feature_names, client_names : tuple or None
        The names of the columns and of the clients, if they came from a table.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(4, n_samples=9, n_features=30, sparsity=2, rng=0)
    >>> federation
    Federation(4 clients, 36 rows of 30 features, SquaredLoss(averaged=True))
    >>> federation.subset([0, 3]).client_ids.tolist()
    [0, 3]
    """

    features: Features
    targets: Array
    offsets: IndexArray
    loss: Loss
    weights: Array
    client_ids: IndexArray
    truth: Array | None = None
    labels: tuple[Any, Any] | None = None
    feature_names: tuple[str, ...] | None = None
    client_names: tuple[Hashable, ...] | None = None

    def __repr__(self) -> str:
        size = f"{len(self.targets)} rows of {self.n_features} features"
        return f"Federation({self.n_clients} clients, {size}, {self.loss!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: sizes, and no names or values of the data."""
        n_rows = self.n_rows
        facts = {
            "clients": f"{self.n_clients:,}",
            "rows": f"{len(self.targets):,}",
            "rows of a client": f"{n_rows.min():,} to {n_rows.max():,}",
            "features": f"{self.n_features:,}, {storage_of(self.features)}, {self.dtype}",
            "loss": repr(self.loss),
            "truth": "unknown" if self.truth is None else "known",
        }
        return html_facts("Federation", facts)

    # Constructors.

    @classmethod
    def from_arrays(
        cls,
        As: Sequence[ArrayLike],
        ys: Sequence[ArrayLike],
        loss: str | Loss = "squared",
        weights: ArrayLike | None = None,
        truth: ArrayLike | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Federation:
        """Build a federation from one data matrix and one vector of targets per client.

        Parameters
        ----------
        As : sequence of array_like, sparse matrices or LinearOperator
            The matrices A_i, each of shape (n_samples_i, n_features). float32 stays float32;
            anything else becomes float64. Nothing is modified. SciPy's sparse matrices stay sparse.
            A LinearOperator is a matrix that is streamed and never stored; methods with a
            dictionary accept it, because they need A_i Psi only once. One array of shape
            (n_clients, n_samples, n_features) is not copied.
        ys : sequence of array_like, each of shape (n_samples_i,)
            The targets y_i.
        loss : {"squared", "logistic", "softmax", "poisson"} or Loss
            The loss of every client. Labels are two values of any kind for logistic, and integers
            0..C-1 for softmax, with C one more than the largest label; `SoftmaxLoss` sets C.
        weights : array_like of shape (n_clients,), default |D_i| / sum |D_i|
            The p_i: not negative, scaled to sum to one.
        truth : array_like, optional
            x#, of the shape of a model.
        labels : sequence of two values, optional
            For the logistic loss: the label that becomes -1, and the one that becomes +1. By
            default the two that occur, in increasing order. The federation keeps them, as `labels`.

        Raises
        ------
        ValueError
            If lengths, shapes or values do not fit. The message names the argument and the client.

        Examples
        --------
        >>> import fgmp
        >>> federation = fgmp.Federation.from_arrays([[[1, 0], [0, 1]], [[2, 1]]], [[3, 4], [5]])
        >>> federation.n_clients, federation.model_shape, federation.weights.round(3).tolist()
        (2, (2,), [0.667, 0.333])
        """
        matrices, targets = check_sequences(As, ys)
        labels_of_signs = None
        if takes_labels(loss):
            targets, labels_of_signs = encode_labels(targets, labels)
        elif labels is not None:
            raise ValueError(
                f"labels is {short_repr(labels)}; expected None, because the loss is {loss!r}, "
                "no logistic one"
            )
        targets = [check_array(f"ys[{i}]", y, ndim=1) for i, y in enumerate(targets)]
        loss = loss_of(loss, targets)
        features = stacked_features(As, matrices, targets)
        targets = [loss.check_targets(f"ys[{i}]", y) for i, y in enumerate(targets)]
        federation = cls._of_rows(features, targets, loss, weights)
        if truth is not None:
            truth = check_shape("truth", truth, federation.model_shape)
        return replace(federation, truth=truth, labels=labels_of_signs)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        *,
        site: Hashable,
        target: Hashable,
        features: Sequence[Hashable] | None = None,
        loss: str | Loss = "squared",
        weights: ArrayLike | None = None,
    ) -> Federation:
        """Build a federation from a table: one client for each value of the column `site`.

        Parameters
        ----------
        df : pandas.DataFrame, polars.DataFrame or another table that narwhals reads
            It is not modified.
        site, target : str, or another name of a column
            The column with the client of each row, and the column with the targets y, which may be
            labels as in `from_arrays`.
        features : sequence of names, optional
            The columns of the matrices A_i, in this order; by default all others. If all are
            float32, so are the matrices.
        loss, weights
            As in `from_arrays`. The weights are in the order of the sorted values of `site`, which
            are the `client_names`.

        Raises
        ------
        TypeError, ValueError
            If `df` is not a table, or if a column is missing or has missing or invalid values. The
            message names the column.
        """
        As, ys, feature_names, client_names = split_by_client(
            df, site, target, features, takes_labels(loss)
        )
        federation = cls.from_arrays(As, ys, loss, weights)
        return replace(federation, feature_names=feature_names, client_names=client_names)

    @classmethod
    def from_clients(
        cls, clients: Sequence[Client], weights: ArrayLike | None = None, **others: Any
    ) -> Federation:
        """Build a federation from clients, ordered by their ids.

        Parameters
        ----------
        clients : sequence of Client
            With the same loss and number of features, and with different ids.
        weights : array_like of shape (n_clients,), default |D_i| / sum |D_i|
            The p_i in the order of `clients`.
        **others
            Further attributes of the federation, such as `truth`.
        """
        client_ids = np.array([client.client_id for client in clients])
        if not len(client_ids) or len(np.unique(client_ids)) < len(client_ids):
            raise ValueError(
                f"clients have the ids {client_ids.tolist()}; "
                "expected at least one client, and no id twice"
            )
        order = np.argsort(client_ids)
        ordered = [clients[index] for index in order]
        first = clients[0]
        for client in ordered:
            if (client.n_features, client.loss) != (first.n_features, first.loss):
                raise ValueError(
                    f"client {client.client_id} is {client!r}; "
                    f"expected features and loss of {first!r}"
                )

        if weights is None:
            weights = [client.n_samples for client in clients]
        p = normalized_weights(weights, len(clients))
        features = concatenate_rows([client.features for client in ordered])
        targets = [client.targets for client in ordered]
        federation = cls._of_rows(features, targets, first.loss, p[order])
        return replace(federation, client_ids=client_ids[order], **others)

    @classmethod
    def _of_rows(
        cls, features: Features, targets: list[Array], loss: Loss, weights: ArrayLike | None
    ) -> Federation:
        """Return the federation of a table of all rows, and the targets of each client."""
        n_rows = np.array([len(y) for y in targets])
        p = normalized_weights(n_rows if weights is None else weights, len(n_rows))
        federation = cls(
            features,
            np.concatenate(targets),
            offsets=np.append(0, np.cumsum(n_rows)),
            loss=loss,
            weights=p,
            client_ids=np.arange(len(n_rows)),
        )
        check_size("As[0]", loss, federation.n_features)

        has_labels = federation.targets.dtype.kind != "f"
        if has_labels or federation.targets.dtype == federation.dtype:
            return federation
        check_precision_of_targets(targets, federation.dtype)
        return replace(federation, targets=federation.targets.astype(federation.dtype))

    @property
    def n_clients(self) -> int:
        """N, the number of clients."""
        return len(self.weights)

    @property
    def n_features(self) -> int:
        """n, the number of features."""
        return int(self._first_features.shape[1])

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.loss.model_shape(self.n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: of the features, and of models."""
        return self._first_features.dtype

    @property
    def _first_features(self) -> Features:
        """The table, or the features of the first client if these are streamed."""
        return self.features[0] if isinstance(self.features, tuple) else self.features

    @cached_property
    def n_rows(self) -> IndexArray:
        """|D_i|, the number of rows of each client."""
        return np.diff(self.offsets)

    @cached_property
    def _row_weights(self) -> Array:
        """The weight of a row in the objective of each client: 1/|D_i| for a mean."""
        return np.array([self.loss.row_weight(int(count)) for count in self.n_rows])

    @cached_property
    def info(self) -> ProblemInfo:
        """What a server knows of the federation."""
        n_rows = tuple(self.n_rows.tolist())
        client_ids = tuple(self.client_ids.tolist())
        return ProblemInfo(self.n_features, self.loss, n_rows, client_ids, self.weights, self.dtype)

    @cached_property
    def clients(self) -> tuple[Client, ...]:
        """The clients, each a view of its rows."""
        return tuple(self.client(index) for index in range(self.n_clients))

    def client(self, index: int) -> Client:
        """Return the client at an index, a view of its rows."""
        begin = self.offsets[index]
        end = self.offsets[index + 1]
        if isinstance(self.features, tuple):
            features = self.features[index]
        else:
            features = self.features[begin:end]
        return Client(features, self.targets[begin:end], self.loss, int(self.client_ids[index]))

    def subset(self, indices: Any) -> Federation:
        """Return the federation of some of the clients, with weights that sum to one.

        Parameters
        ----------
        indices : int, sequence of int, slice, or array of bool of shape (n_clients,)
            Indices of clients, none of them twice. The clients keep their order.
        """
        selected = check_client_indices(indices, self.n_clients)
        client_names = None
        if self.client_names is not None:
            client_names = tuple(self.client_names[index] for index in selected)
        return Federation.from_clients(
            [self.client(index) for index in selected],
            self.weights[selected],
            truth=self.truth,
            labels=self.labels,
            feature_names=self.feature_names,
            client_names=client_names,
        )

    def objective(self, x: Model) -> float:
        """Return f(x) = sum_i p_i f_i(x) for a model x; nan or infinite if x has diverged."""
        if not isinstance(x, SparseModel):
            x = as_array("x", x)
            x = x.astype(precision_of("x", x.dtype), copy=False)
        if x.shape != self.model_shape:
            raise ValueError(f"x has shape {x.shape}; expected {self.model_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.weights @ self.client_objectives(x))

    def client_objectives(self, x: Model, indices: IndexArray | None = None) -> Array:
        """Return f_i(x) of the clients with some indices, or of all of them."""
        is_part = indices is not None and len(indices) < self.n_clients
        if is_part or self.loss.has_coupled_rows:
            selected = np.arange(self.n_clients) if indices is None else indices
            return np.array([self.clients[index].objective(x) for index in selected])

        # In one product, which is faster than one for each client.
        values = self.loss.values(predict(self.features, x), self.targets)
        return np.add.reduceat(values, self.offsets[:-1]) * self._row_weights

    def pooled(self) -> Federation:
        """Return one client that holds all rows and has the objective f.

        This is the problem of an algorithm that has all data in one place. If rows of two clients
        have different weights, rows are scaled by the square root of the ratio for the squared
        loss, and a ValueError is raised for other losses.
        """
        if isinstance(self.features, tuple):
            raise ValueError(
                "features are streamed, or centred apart; expected them stored, and centred alike"
            )
        if self.loss.has_coupled_rows:
            raise ValueError(
                f"the loss {self.loss} couples the rows of a client; expected one whose rows stand "
                "alone, so that rows of several clients can be one client's"
            )
        features = self.features
        targets = self.targets
        n_rows = len(targets)
        scales = np.sqrt(self.weights * self._row_weights / self.loss.row_weight(n_rows))
        if not np.allclose(scales, 1, rtol=1e-12):
            if not self.loss.is_quadratic:
                raise ValueError(
                    "weights are not in proportion to the rows of the clients; "
                    f"expected that for the loss {self.loss}"
                )
            factors = np.repeat(scales, self.n_rows).astype(self.dtype)
            if isinstance(features, np.ndarray):
                features = features * factors[:, None]
            else:
                features = features.times_rows(factors)
            targets = targets * factors

        return Federation(
            features,
            targets,
            offsets=np.array([0, n_rows]),
            loss=self.loss,
            weights=np.ones(1),
            client_ids=np.arange(1),
            truth=self.truth,
            labels=self.labels,
            feature_names=self.feature_names,
        )


def check_federation(name: str, federation: object) -> Federation:
    """Return a federation, or raise a ValueError for any other value."""
    return check_kind(name, federation, Federation, "a Federation, as from_arrays makes one")


def check_size(name: str, loss: Loss, n_features: int) -> None:
    """Raise a ValueError, which names the features, if a model has too many coefficients."""
    n_coefficients = math.prod(loss.model_shape(n_features))
    if n_coefficients > _MOST_COEFFICIENTS:
        raise ValueError(
            f"{name} has {n_features} features, for a model of {n_coefficients} coefficients; "
            f"expected at most {_MOST_COEFFICIENTS}: indices travel as 32-bit integers"
        )


def predict(features: Features, x: Model) -> Array:
    """Return A x, by the columns alone that a sparse model uses, if that takes less time."""
    if isinstance(features, tuple):
        return np.concatenate([predict(part, x) for part in features])

    if isinstance(x, SparseModel):
        atoms = x.used_atoms
        if is_faster_by_columns(features, len(atoms)):
            coefficients = x.values if len(x.shape) == 1 else x.dense()[atoms]
            # Indexing waits less for memory than `take`, but sparse features have `take` only.
            is_dense = isinstance(features, np.ndarray)
            columns = features[:, atoms] if is_dense else features.take(atoms, axis=1)
            return _product(columns, coefficients)
    return _product(features, dense(x))


def _product(features: Features, x: Array) -> Array:
    """Return A x; if x is a matrix, with one contiguous column for each output."""
    is_dense = isinstance(features, np.ndarray)
    return (x.T @ features.T).T if is_dense and x.ndim > 1 else features @ x
