"""Federations: the rows of all clients in one table, for runs in one process.

A `Federation` is the problem min over x of f(x) = sum_i p_i f_i(x) over sparse models x (paper,
Section II). It validates data as people have them, and in a simulation it is the transport that
passes messages to its clients (see `fgmp.rounds`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from ._compiled.registry import BackendRecord, compute_updates
from ._support.displays import html_facts
from ._support.validation import (
    as_array,
    check_kind,
    check_shape,
    precision_of,
    short_repr,
)
from .client import Client, Features, ProblemInfo, predict
from .losses import Loss
from .sparse_model import Array, IndexArray, SparseModel

# Indices of coefficients travel as 32-bit integers.
_MOST_COEFFICIENTS = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """Clients and their weights p_i: the problem min over x of f(x) = sum_i p_i f_i(x).

    `from_arrays` and `from_frame` validate data and make a federation of them, and `from_clients`
    makes one of clients. In a simulation the federation itself passes messages to its clients: what
    does that is called the transport (`fgmp.Transport`).

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
        x#, the model that made the data, if there is one.
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
    client_names: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        rows = f"{len(self.targets)} rows of {self.n_features} features"
        return f"Federation({self.n_clients} clients, {rows}, {self.loss!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: sizes, and no names or values of the data."""
        n_rows = self.rows
        facts = {
            "clients": f"{self.n_clients:,}",
            "rows": f"{len(self.targets):,}",
            "rows of a client": f"{n_rows.min():,} to {n_rows.max():,}",
            "features": f"{self.n_features:,}, {_storage_of(self.features)}, {self.dtype}",
            "loss": repr(self.loss),
            "truth": "unknown" if self.truth is None else "known",
        }
        return html_facts("Federation", facts)

    # Constructors. The conversion of data is imported where it is used: it is long, and nothing in
    # a run depends on it.

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
            A LinearOperator is a matrix that is streamed and never stored; it serves methods with a
            dictionary, which need A_i Psi once. One array of shape
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
        from .client_data import validate_client_data

        features, targets, loss, labels_of_signs = validate_client_data(As, ys, loss, labels)
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
            The column with the client of each row, and that of the targets y: labels as in
            `from_arrays`.
        features : sequence of names, optional
            The columns of the matrices A_i, in this order; all others by default. float32 stays
            float32 if all columns are.
        loss, weights
            As in `from_arrays`; the weights in the order of the sorted values of `site`, which
            `client_names` holds.

        Raises
        ------
        TypeError, ValueError
            If `df` is not a table, or if a column, which is named, is missing or has missing or
            invalid values.
        """
        from .client_data import split_by_client

        As, ys, feature_names, client_names = split_by_client(df, site, target, features, loss)
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
        from ._support.tables import concatenate_rows, normalized_weights

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
        from ._support.tables import normalized_weights

        rows = np.array([len(y) for y in targets])
        p = normalized_weights(rows if weights is None else weights, len(rows))
        federation = cls(
            features,
            np.concatenate(targets),
            offsets=np.append(0, np.cumsum(rows)),
            loss=loss,
            weights=p,
            client_ids=np.arange(len(rows)),
        )
        _check_size(federation)

        has_labels = federation.targets.dtype.kind != "f"
        if has_labels or federation.targets.dtype == federation.dtype:
            return federation
        _check_precision_of_targets(targets, federation.dtype)
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
        dtype: np.dtype[Any] = self._first_features.dtype
        return dtype

    @property
    def _first_features(self) -> Features:
        """The table, or the features of the first client if these are streamed."""
        return self.features[0] if isinstance(self.features, tuple) else self.features

    @cached_property
    def rows(self) -> IndexArray:
        """|D_i|, the number of rows of each client."""
        return np.diff(self.offsets)

    @cached_property
    def _row_weights(self) -> Array:
        """The weight of a row in the objective of each client: 1/|D_i| for a mean."""
        return np.array([self.loss.row_weight(int(count)) for count in self.rows])

    @cached_property
    def info(self) -> ProblemInfo:
        """What a server knows of the federation."""
        rows = tuple(self.rows.tolist())
        client_ids = tuple(self.client_ids.tolist())
        return ProblemInfo(self.n_features, self.loss, rows, client_ids, self.weights, self.dtype)

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
            Indices of clients, of which none occurs twice. The clients keep their order.
        """
        selected = self._client_indices(indices)
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

    def _client_indices(self, indices: Any) -> IndexArray:
        """Return indices of clients, increasing, or raise a ValueError."""
        problem = f"indices is {short_repr(indices)}"
        if not isinstance(indices, slice):
            indices = np.atleast_1d(np.asarray(indices))
            if indices.ndim > 1 or (indices.size and indices.dtype.kind not in "iub"):
                raise ValueError(f"{problem}; expected integers, a slice, or truth values")
            if indices.dtype.kind == "b" and len(indices) != self.n_clients:
                expected = f"one truth value for each of the {self.n_clients} clients"
                raise ValueError(f"{problem}; expected {expected}")
            if not indices.size:
                indices = indices.astype(np.intp)  # an empty list is an array of float
        try:
            selected = np.sort(np.arange(self.n_clients)[indices])
        except IndexError:
            expected = f"indices below {self.n_clients}, the number of clients"
            raise ValueError(f"{problem}; expected {expected}") from None
        if not selected.size or len(np.unique(selected)) < len(selected):
            raise ValueError(f"{problem}; expected at least one client, and none twice")
        return selected

    def objective(self, x: Array | SparseModel) -> float:
        """Return f(x) = sum_i p_i f_i(x) for a model x; nan or infinite if x has diverged."""
        if not isinstance(x, SparseModel):
            x = as_array("x", x)
            x = x.astype(precision_of("x", x.dtype), copy=False)
        if x.shape != self.model_shape:
            raise ValueError(f"x has shape {x.shape}; expected {self.model_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            _, values = self.objectives(x)
            return float(self.weights @ values)

    def pooled(self) -> Federation:
        """Return one client that holds all rows and has the objective f.

        This is the problem of an algorithm that has all data in one place. If a row of some client
        weighs more than one of another, the rows of the squared loss are scaled by the square root
        of the ratio. For other losses that is a ValueError.
        """
        if isinstance(self.features, tuple):
            raise ValueError(
                "features are streamed, or centred apart; expected them stored, and centred alike"
            )
        if self.loss.ties_rows:
            raise ValueError(
                f"the loss {self.loss} ties the rows of a client together; expected one whose rows "
                "stand alone, so that rows of several clients can be one client's"
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
            factors = np.repeat(scales, self.rows).astype(self.dtype)
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

    # What a run asks of its transport (`fgmp.transport.Transport`).

    def prepare(self, method: Any) -> Federation:
        """Return the federation in the coordinates of a method, with the features A_i Psi.

        It is made for one run, and has a new `backend_record`.
        """
        features = method.dictionary.products(self.features)
        if features is not self.features:
            return replace(self, features=features)

        prepared = copy(self)  # with the views of the clients, if they were made before
        prepared.__dict__.pop("backend_record", None)
        return prepared

    @cached_property
    def backend_record(self) -> BackendRecord:
        """What computed the updates of the run that this federation was prepared for.

        It also keeps what kernels derive from the rows, which the user may change after the run.
        """
        return BackendRecord()

    def run_clients(self, call: Any, message: Any, cohort: IndexArray) -> Sequence[Any]:
        """Return the update of each client of a cohort, in the order of the cohort.

        The kernel of the method computes all of them, if there is one and the backend is
        "compiled"; otherwise `Call.update_of` computes one after the other.
        """
        if not len(cohort):  # all of it may have dropped out
            return []
        return compute_updates(self, call, message, cohort)

    def objectives(
        self, x: Array | SparseModel, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report, and f_i(x) of each.

        All clients in `indices` report, or all clients if it is None.
        """
        is_part = indices is not None and len(indices) < self.n_clients
        if is_part or self.loss.ties_rows:
            asked = np.arange(self.n_clients) if indices is None else indices
            return asked, np.array([self.clients[index].objective(x) for index in asked])

        # In one product, which is faster than one for each client.
        values = self.loss.values(predict(self.features, x), self.targets)
        sums = np.add.reduceat(values, self.offsets[:-1])
        if indices is None:
            indices = np.arange(self.n_clients)
        return indices, sums * self._row_weights

    def identity(self) -> dict[str, Any]:
        """Return hashes of the data, by name: a checkpoint resumes with the same data only."""
        parts = self.features if isinstance(self.features, tuple) else (self.features,)
        table = joblib.hash(([_numbers_of(part) for part in parts], self.offsets))
        return {
            "data": (table, joblib.hash(self.targets)),
            "truth": joblib.hash(self.truth),
            "loss": self.loss,
            "client_ids": joblib.hash(self.client_ids),
            "weights": joblib.hash(self.weights),
        }


def check_federation(name: str, federation: object) -> Federation:
    """Return a federation, or raise a ValueError for any other value."""
    checked: Federation = check_kind(
        name, federation, Federation, "a Federation, as from_arrays makes one"
    )
    return checked


def _check_size(federation: Federation) -> None:
    n_coefficients = math.prod(federation.model_shape)
    if n_coefficients > _MOST_COEFFICIENTS:
        raise ValueError(
            f"As[0] has {federation.n_features} features, "
            f"for a model of {n_coefficients} coefficients; "
            f"expected at most {_MOST_COEFFICIENTS}: indices travel as 32-bit integers"
        )


def _check_precision_of_targets(targets: list[Array], dtype: np.dtype[Any]) -> None:
    for index, y in enumerate(targets):
        if np.abs(y).max(initial=0.0) > np.finfo(dtype).max:
            raise ValueError(
                f"ys[{index}] holds numbers beyond {dtype}, the precision of As; "
                "expected As in float64, or ys in another unit"
            )


def _storage_of(features: Features) -> str:
    """Return how features are stored, in a word."""
    if isinstance(features, tuple):
        return "streamed"
    return "dense" if isinstance(features, np.ndarray) else "sparse"


def _numbers_of(features: Features) -> Any:
    """Return the arrays that define features, or the shape of those that are streamed."""
    if isinstance(features, np.ndarray):
        return features
    if isinstance(features, LinearOperator):
        return features.shape
    S = features.stored
    return S.shape, S.data, S.indices, S.indptr, features.left, features.centre
