"""Who holds which data: one table of rows, of which every client has a slice, and the weights p_i."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from ._compiled.registry import BackendRecord, run_clients
from ._support.sparse_features import SparseFeatures
from ._support.tables import (
    Labels,
    concatenate_rows,
    normalized_weights,
    split_by_client,
    validate_client_data,
)
from ._support.validation import (
    as_array,
    check_integer,
    check_kind,
    check_shape,
    precision_of,
    short_repr,
)
from .losses import Loss, SquaredLoss
from .sparse_model import Array, IndexArray, SparseModel, dense

_MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Client:
    """One client: the objective f_i(x) = (1/|D_i|) sum_j l(a_j' x, y_j) and the rows behind it.

    Attributes
    ----------
    features : ndarray or SparseFeatures, shape (n_samples, n_features)
        A_i, a slice of the federation's table; or a LinearOperator, which is streamed and never stored.
    targets : ndarray, shape (n_samples,)
        y_i, as the loss knows them.
    loss : Loss
    key : int
        Who the client is: its random draws depend on the seed, the round and this key, and on nobody else.
    """

    features: Any
    targets: Array
    loss: Loss
    client_id: int = 0

    def __repr__(self) -> str:
        return f"Client(key {self.client_id}, {self.n_samples} rows of {self.n_features} features, {self.loss!r})"

    @property
    def dtype(self) -> Any:
        """float32 or float64: of the models and the features."""
        return self.features.dtype

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

    def columns(self, support: IndexArray) -> Array:
        """The columns of A_i on a support, dense, shape (n_samples, k)."""
        picked: Array = self.features.take(support, axis=1)
        return picked

    def predictions(self, x: Array | SparseModel) -> Array:
        """A_i x."""
        return _predictions(self.features, x)

    def gradient(self, x: Array | SparseModel, rows: IndexArray | None = None) -> Array:
        """The gradient of f_i at x, or of g_ij, where `rows` names the minibatch j."""
        A, y = (
            (self.features, self.targets)
            if rows is None
            else (self.features.take(rows, axis=0), self.targets[rows])
        )
        derivative = self.loss.derivative(_predictions(A, x), y) * self.loss.row_weight(len(y))
        gradient: Array = (derivative.T @ A).T  # one contiguous column for each output
        return gradient

    def minibatches(
        self, rng: np.random.Generator, batch_size: int | None, count: int
    ) -> Iterator[IndexArray | None]:
        """`count` minibatches of `batch_size` rows without replacement; None, all rows, where there are no more.

        Every subset of that size is equally likely, as in the paper's M = binomial(|D_i|, b) minibatches.
        """
        return minibatches(rng, self.n_samples, batch_size, count)

    def objective(self, x: Array | SparseModel) -> float:
        """f_i(x)."""
        total = self.loss.values(self.predictions(x), self.targets).sum()
        return float(total * self.loss.row_weight(self.n_samples))


@dataclass(frozen=True, eq=False)
class ProblemInfo:
    """What a server may know of clients without their data; a method checks its parameters against it.

    Attributes
    ----------
    n_features : int
        In the coordinates of the method: n, or the number of atoms.
    loss : Loss
    rows, client_ids : sequence of int
        |D_i|, and who the clients are.
    weights, dtype : ndarray, shape (n_clients,), and dtype, default float64
        The p_i, which sum to one; and of the models.
    """

    n_features: int
    loss: Loss
    rows: Sequence[int]
    client_ids: Sequence[int]
    weights: Array
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model."""
        return self.loss.model_shape(self.n_features)


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Clients and their weights p_i: the problem min over x of f(x) = sum_i p_i f_i(x) (paper, Section II).

    `from_arrays` and `from_frame` make one of data that people have, and check them; `of` makes one of clients.

    Attributes
    ----------
    features : ndarray or SparseFeatures, shape (M, n_features)
        The rows of all clients, one client after another; or a tuple of LinearOperator, one for each client.
    targets : ndarray, shape (M,)
    offsets : ndarray of int, shape (n_clients + 1,)
        Client i holds the rows offsets[i] to offsets[i + 1].
    loss : Loss
    weights : ndarray, shape (n_clients,)
        The p_i, which sum to one.
    truth : ndarray or None
        x#, the model that made the data, where there is one.
    client_ids : ndarray of int, shape (n_clients,)
        Who the clients are, increasing.
    labels : tuple of two values, or None
        What the data call the -1 and +1 of the logistic loss.
    feature_names, client_names : tuple or None
        What the columns and the clients are called, where they came from a table.
    backend_record : BackendRecord
        What computed the updates of the run that this federation was prepared for.
    """

    features: Any
    targets: Array
    offsets: IndexArray
    loss: Loss
    weights: Array
    truth: Array | None = None
    client_ids: IndexArray = None  # type: ignore[assignment]
    labels: Labels | None = None
    feature_names: tuple[str, ...] | None = None
    client_names: tuple[Any, ...] | None = None
    backend_record: BackendRecord = field(default_factory=BackendRecord, repr=False)

    def __post_init__(self) -> None:
        if self.client_ids is None:
            object.__setattr__(self, "client_ids", np.arange(len(self.weights)))

    def __repr__(self) -> str:
        rows = f"{len(self.targets)} rows of {self.n_features} features"
        return f"Federation({self.n_clients} clients, {rows}, {self.loss!r})"

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
        As : sequence of array_like, sparse matrices or LinearOperator, each of shape (n_samples_i, n_features)
            The matrices A_i. float32 stays float32; anything else becomes float64. Nothing is modified. SciPy's sparse
            matrices stay sparse. A LinearOperator is a matrix that is streamed and never stored; it serves methods with
            a dictionary, which need A_i Psi once. One array of shape (n_clients, n_samples, n_features) is not copied.
        ys : sequence of array_like, each of shape (n_samples_i,)
            The targets y_i.
        loss : {"squared", "logistic", "softmax"} or Loss
            The loss of every client. Labels are two values of any kind for logistic, integers 0..C-1 for softmax,
            where C is one more than the largest label; `SoftmaxLoss` sets C.
        weights : array_like of shape (n_clients,), default |D_i| / sum |D_i|
            The p_i: not negative, scaled to sum to one.
        truth : array_like, optional
            x#, of the shape of a model.
        labels : sequence of two values, optional
            For the logistic loss: the label that becomes -1, and the one that becomes +1. By default the two that
            occur, in increasing order. The federation keeps them, as `labels`.

        Raises
        ------
        ValueError
            Where lengths, shapes or values do not fit; the message names the argument and the client.

        Examples
        --------
        >>> import fgmp
        >>> federation = fgmp.Federation.from_arrays([[[1, 0], [0, 1]], [[2, 1]]], [[3, 4], [5]])
        >>> federation.n_clients, federation.model_shape, federation.weights.round(3).tolist()
        (2, (2,), [0.667, 0.333])
        """
        features, targets, loss, kept = validate_client_data(As, ys, loss, labels)
        made = cls._of(features, targets, loss, weights)
        true = None if truth is None else check_shape("truth", truth, made.model_shape)
        return replace(made, truth=true, labels=kept)

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
            The column that says whose row it is, and that of the targets y: labels as in `from_arrays`.
        features : sequence of names, optional
            The columns of the matrices A_i, in this order; all others by default. float32 stays float32 where all are.
        loss, weights
            As in `from_arrays`; the weights in the order of the sorted sites, which `client_names` has.

        Raises
        ------
        TypeError, ValueError
            Where `df` is not a table; where a column, which is named, is missing or lacks in some row what it is for.
        """
        As, ys, names, sites = split_by_client(df, site, target, features, loss)
        return replace(
            cls.from_arrays(As, ys, loss, weights), feature_names=names, client_names=sites
        )

    @classmethod
    def from_clients(
        cls, clients: Sequence[Client], weights: ArrayLike | None = None, **others: Any
    ) -> Federation:
        """The federation of clients of one loss and number of features, by their ids, none of which is there twice."""
        client_ids = np.array([client.client_id for client in clients])
        if not len(client_ids) or len(np.unique(client_ids)) < len(client_ids):
            raise ValueError(
                f"clients have the ids {client_ids.tolist()}; expected at least one client, and no id twice"
            )
        order = np.argsort(client_ids)
        parts, first = [clients[i] for i in order], clients[0]
        for client in parts:
            if (client.n_features, client.loss) != (first.n_features, first.loss):
                raise ValueError(
                    f"client {client.client_id} is {client!r}; expected features and loss of {first!r}"
                )
        p = normalized_weights(
            [client.n_samples for client in clients] if weights is None else weights, len(clients)
        )
        made = cls._of(
            concatenate_rows([part.features for part in parts]),
            [part.targets for part in parts],
            first.loss,
            p[order],
        )
        return replace(made, client_ids=client_ids[order], **others)

    @classmethod
    def _of(cls, features: Any, targets: list[Array], loss: Loss, weights: Any) -> Federation:
        """A table and what stands beside it."""
        counts, y = np.array([len(own) for own in targets]), np.concatenate(targets)
        p = normalized_weights(counts if weights is None else weights, len(counts))
        made = cls(features, y, np.append(0, np.cumsum(counts)), loss, p)
        if (size := math.prod(made.model_shape)) > _MOST:
            found = f"As[0] has {made.n_features} features, for a model of {size} coefficients"
            raise ValueError(
                f"{found}; expected at most {_MOST}: indices travel as 32-bit integers"
            )
        if y.dtype.kind != "f" or y.dtype == made.dtype:
            return made
        for i, own in enumerate(targets):
            if np.abs(own).max(initial=0.0) > np.finfo(made.dtype).max:
                found = f"ys[{i}] holds numbers beyond {made.dtype}, the precision of As"
                raise ValueError(f"{found}; expected As in float64, or ys in another unit")
        return replace(made, targets=y.astype(made.dtype))

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.weights)

    @property
    def n_features(self) -> int:
        """The dimension n of the signals."""
        return int(self._first.shape[1])

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.loss.model_shape(self.n_features)

    @property
    def dtype(self) -> Any:
        """float32 or float64, as the data."""
        return self._first.dtype

    @property
    def _first(self) -> Any:
        """The table, or the first client's features where they are streamed."""
        return self.features[0] if isinstance(self.features, tuple) else self.features

    @cached_property
    def rows(self) -> IndexArray:
        """|D_i|, the rows of each client."""
        return np.diff(self.offsets)

    @cached_property
    def shape(self) -> ProblemInfo:
        """What a server knows of the federation."""
        rows, client_ids = tuple(self.rows.tolist()), tuple(self.client_ids.tolist())
        return ProblemInfo(self.n_features, self.loss, rows, client_ids, self.weights, self.dtype)

    @cached_property
    def clients(self) -> tuple[Client, ...]:
        """The clients, each a view of its rows."""
        return tuple(map(self.client, range(self.n_clients)))

    def client(self, index: int) -> Client:
        """One of the clients, by its place in the federation."""
        begin, end = self.offsets[index], self.offsets[index + 1]
        features = (
            self.features[index] if isinstance(self.features, tuple) else self.features[begin:end]
        )
        return Client(features, self.targets[begin:end], self.loss, int(self.client_ids[index]))

    def subset(self, indices: Any) -> Federation:
        """The federation of some of the clients, in their order here, with weights that sum to one.

        `indices` are integers, a slice, or an array of bool with an entry for each client.
        """
        chosen = self._places(indices)
        names = None if self.client_names is None else tuple(self.client_names[i] for i in chosen)
        return Federation.from_clients(
            [self.client(i) for i in chosen],
            self.weights[chosen],
            truth=self.truth,
            labels=self.labels,
            feature_names=self.feature_names,
            client_names=names,
        )

    def _places(self, indices: Any) -> IndexArray:
        """Places of clients, increasing, or a ValueError."""
        everybody = np.arange(self.n_clients)
        found = f"places is {short_repr(indices)}"
        if not isinstance(indices, slice):
            indices = np.atleast_1d(np.asarray(indices))
            if indices.ndim > 1 or indices.dtype.kind not in "iub" and indices.size:
                raise ValueError(f"{found}; expected integers, a slice, or truth values")
            if indices.dtype.kind == "b" and len(indices) != self.n_clients:
                raise ValueError(
                    f"{found}; expected one truth value for each of the {self.n_clients} clients"
                )
            indices = indices if indices.size else indices.astype(np.intp)
        try:
            chosen = np.sort(everybody[indices])
        except IndexError:
            raise ValueError(
                f"{found}; expected places below {self.n_clients}, the number of clients"
            ) from None
        if not chosen.size or len(np.unique(chosen)) < len(chosen):
            raise ValueError(f"{found}; expected at least one client, and none twice")
        return chosen

    def objective(self, x: Array | SparseModel) -> float:
        """f(x) = sum_i p_i f_i(x), for x of the shape of a model; nan or infinite where x has diverged."""
        if not isinstance(x, SparseModel):
            x = as_array("x", x)
            x = x.astype(precision_of("x", x.dtype), copy=False)
        if x.shape != self.model_shape:
            raise ValueError(f"x has shape {x.shape}; expected {self.model_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.weights @ self.objectives(x)[1])

    def pooled(self) -> Federation:
        """One client that holds all rows and has the objective f: what an algorithm in one place would see.

        Where a row weighs more or less than it would in one place, the rows of the squared loss are scaled by the
        square root of the ratio; for other losses that is a ValueError.
        """
        features, y, total = self.features, self.targets, len(self.targets)
        if isinstance(features, tuple):
            raise ValueError(
                "features are streamed, or centred apart; expected them stored, and centred alike"
            )
        scales = np.sqrt(self.weights * self._row_weights / self.loss.row_weight(total))
        if not np.allclose(scales, 1, rtol=1e-12):
            if not isinstance(self.loss, SquaredLoss):
                found = "weights are not in proportion to the rows of the clients"
                raise ValueError(f"{found}; expected that for the loss {self.loss}")
            each = np.repeat(scales, self.rows).astype(self.dtype)
            thin = isinstance(features, SparseFeatures)
            features, y = features.times_rows(each) if thin else features * each[:, None], y * each
        made = Federation(
            features, y, np.array([0, total]), self.loss, np.ones(1), self.truth, labels=self.labels
        )
        return replace(made, feature_names=self.feature_names)

    def check_cohort(self, cohort_size: int | None) -> int:
        """The cohort size L, all clients where it is None; a ValueError where it does not fit."""
        return check_cohort(cohort_size, self.n_clients)

    # What a run asks of whoever carries its messages (`fgmp.rounds.Transport`).

    def prepare(self, method: Any) -> Federation:
        """The federation in the coordinates of a method: one product of the whole table with its atoms, A Psi.

        It is made for a run, with a record of its own: what a run derives from rows, and keeps, is true for as long as
        nobody writes into them.
        """
        features = method.dictionary.products(self.features)
        return replace(self, features=features, backend_record=BackendRecord())

    def run_clients(self, call: Any, message: Any, cohort: IndexArray) -> Sequence[Any]:
        """Return the update of each client of a cohort, in the order of the cohort."""
        if not len(cohort):  # all of it may have dropped out
            return []
        return run_clients(self, call, message, cohort)

    def objectives(
        self, x: Array | SparseModel, indices: IndexArray | None = None
    ) -> tuple[Any, Array]:
        """The places of those who tell (here everybody asked), and f_i(x) of each."""
        if indices is not None and len(indices) < self.n_clients:
            return indices, np.array([self.clients[i].objective(x) for i in indices])
        values = self.loss.values(_predictions(self.features, x), self.targets)
        indices = np.arange(self.n_clients) if indices is None else indices
        return indices, np.add.reduceat(values, self.offsets[:-1]) * self._row_weights

    @cached_property
    def _row_weights(self) -> Array:
        return np.array([self.loss.row_weight(int(count)) for count in self.rows])

    def identity(self) -> dict[str, Any]:
        """What makes it this federation and no other, for checkpoints, by name."""
        parts = self.features if isinstance(self.features, tuple) else (self.features,)
        table = joblib.hash((list(map(_numbers, parts)), self.offsets))
        others = {
            "data": (table, joblib.hash(self.targets)),
            "truth": joblib.hash(self.truth),
            "loss": self.loss,
        }
        return others | {
            "client_ids": joblib.hash(self.client_ids),
            "weights": joblib.hash(self.weights),
        }


def _numbers(features: Any) -> Any:
    """What features hold, without what they keep besides; of those that are streamed the shape."""
    if isinstance(features, SparseFeatures):
        S = features.stored
        return S.shape, S.data, S.indices, S.indptr, features.left, features.centre
    return features.shape if isinstance(features, LinearOperator) else features


def check_federation(name: str, federation: Any) -> Any:
    """Return a federation, or raise a ValueError where it is something else."""
    return check_kind(name, federation, Federation, "a Federation, as from_arrays makes one")


def check_cohort(cohort_size: int | None, n_clients: int) -> int:
    """The cohort size L, all clients where it is None; a ValueError where it does not fit."""
    if cohort_size is None:
        return n_clients
    return check_integer("cohort_size", cohort_size, at_most=n_clients, why="the number of clients")


def minibatches(
    rng: np.random.Generator, n_rows: int, batch_size: int | None, count: int
) -> Iterator[IndexArray | None]:
    """`Client.minibatches` of `n_rows` rows."""
    if batch_size is None or batch_size >= n_rows:
        return iter([None] * count)
    return iter(rng.random((count, n_rows)).argpartition(batch_size - 1, axis=1)[:, :batch_size])


def _predictions(A: Any, x: Array | SparseModel) -> Array:
    """A x; a sparse model touches its own columns only, unless that is no less work."""
    if isinstance(A, tuple):
        return np.concatenate([_predictions(part, x) for part in A])
    if isinstance(x, SparseModel) and not isinstance(A, LinearOperator):
        thin, atoms = isinstance(A, SparseFeatures), x.atoms
        few = A.shape[0] * len(atoms) <= A.stored.nnz if thin else 4 * len(atoms) <= A.shape[1]
        if few:
            A = (
                A.take(atoms, axis=1) if thin else A[:, atoms]
            )  # which waits less for memory than `take`
            x = x.values if len(x.shape) == 1 else x.dense()[atoms]
    x = dense(x)
    product: Array = (
        A @ x if x.ndim == 1 or not isinstance(A, np.ndarray) else (x.T @ A.T).T
    )  # contiguous columns
    return product
