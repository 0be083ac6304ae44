"""A table of rows in this process, as the clients of a fit: in common units, and without folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
from scipy import sparse

from .._support.sparse_features import SparseFeatures
from .._support.tables import concatenate_rows, normalized_weights
from ..data import Client, Federation, ProblemInfo, check_size
from ..losses import GLMLoss, LogisticLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from ..method import Call, Method, Transport
from ..simulation import LocalClients
from ..sparse_model import Array, IndexArray
from ..updates import Message, Update
from .clients import FitClients, Fold, Standardization
from .encoding import Encoding
from .folds import assign_folds
from .profiled_loss import ProfiledLoss
from .weighted_loss import WeightedLoss

# The losses of numbers that an estimator takes, by name.
LOSSES_OF_NUMBERS: dict[str, type[GLMLoss]] = {"squared": SquaredLoss, "poisson": PoissonLoss}


def loss_of(classes: Sequence[Any] | None, name: str) -> GLMLoss:
    """Return the loss of labels, or the loss of numbers with a name."""
    if classes is None:
        return LOSSES_OF_NUMBERS[name]()
    return LogisticLoss() if len(classes) == 2 else SoftmaxLoss(len(classes))


def signs_or_codes(y: Array, classes: Sequence[Any]) -> Array:
    """Return labels as a loss takes them: -1 and +1 for two classes, 0, 1, ... for more."""
    codes = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return np.asarray(2.0 * codes - 1 if len(classes) == 2 else codes)


class Rows(NamedTuple):
    """Rows of all groups, and what each of them counts for.

    Attributes
    ----------
    X : array_like, sparse matrix, table or RawTable, shape (n_rows, n_features)
        The features.
    y : ndarray, shape (n_rows,)
        The targets, as numbers or labels, or as the loss takes them.
    weights : ndarray, shape (n_rows,)
        At least 0; zero in groups that take no part.
    codes : ndarray of int, shape (n_rows,)
        The group of each row. A group with a row of positive weight is a client.
    counted : ndarray, shape (n_rows,)
        The number of rows that each row stands for (`rows_counted`), which weights of classes among
        the weights do not tell.
    min_rows : int
        The smallest number of rows of a client that a sum may rest on.
    """

    X: Any
    y: Array
    weights: Array
    codes: IndexArray
    counted: Array
    min_rows: int


@dataclass(frozen=True, eq=False, repr=False)
class TablePart:
    """Which rows of a table are those of a client.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
        The rows of the table, increasing.
    targets : ndarray, shape (n_rows,)
        As the loss takes them.
    weights : ndarray, shape (n_rows,)
        Above zero.
    index : int
        Index of the client, which its folds depend on.
    is_weighted : bool
        Whether weights differ between rows, of this client or another.
    """

    rows: IndexArray
    targets: Array
    weights: Array
    index: int = 0
    is_weighted: bool = False

    def outside(self, fold: Fold | None) -> TablePart:
        """Return the part of the rows that train while a fold is held out; all for None."""
        if fold is None:
            return self
        folds = assign_folds(self.targets, self.index, fold.n_folds, fold.seed, fold.min_rows)
        indices = np.flatnonzero(folds != fold.number)
        return replace(
            self,
            rows=self.rows[indices],
            targets=self.targets[indices],
            weights=self.weights[indices],
        )

    def of(self, table: Any) -> Any:
        """Return the rows themselves: a view of a table in which they are neighbours, or a copy."""
        if not len(self.rows):
            return table[:0]
        first = int(self.rows[0])
        last = int(self.rows[-1])
        are_neighbours = last - first + 1 == len(self.rows)
        return table[first : last + 1] if are_neighbours else table[self.rows]


def client_view(
    table: Any,
    part: TablePart,
    standardization: Standardization | None,
    loss: GLMLoss,
    out: Array | None = None,
) -> Client:
    """Return rows of a table in the units of a standardization, or as they are, in float64.

    A client on another machine calls this on its own rows, and gets the same bits. Weights have
    mean one. Those of the squared loss scale the rows, once these are in common units. Otherwise
    they are a second column of the targets, for a `WeightedLoss`.

    Dense features in common units are written to `out`, if it is given: views of all clients beside
    the table that they are moved to would hold the data twice.
    """
    rows = part.of(table)
    weights = part.weights / part.weights.mean()
    targets = part.targets
    if standardization is None:
        features = rows.astype(float, copy=False)
        if sparse.issparse(features):
            features = SparseFeatures(features)
    else:
        centre = standardization.centre
        target_centre = standardization.target_centre
        if standardization.centred_per_client:
            centre = weights @ rows / len(targets)
            if loss.is_quadratic:
                target_centre = weights @ targets / len(targets)
        features = standardization.of_features(rows, centre, out)
        if not loss.has_integer_targets:
            targets = (targets - target_centre) / standardization.target_unit
            targets = targets.astype(rows.dtype)
        if loss.is_quadratic and part.is_weighted:
            roots = np.sqrt(weights).astype(rows.dtype)
            if sparse.issparse(rows):
                features = features.times_rows(roots)
            else:
                features *= roots[:, None]
            return Client(features, targets * roots, loss, part.index)

    if part.is_weighted:
        targets = np.column_stack([targets, weights]).astype(features.dtype)
        loss = WeightedLoss(loss)
    return Client(features, targets, loss_of_view(loss, standardization), part.index)


def loss_of_view(loss: GLMLoss, standardization: Standardization | None) -> GLMLoss:
    """Return the loss of rows in the units of a standardization, without an intercept of theirs.

    Rows of the squared loss that are centred need none.
    """
    if standardization is None or not standardization.centred_per_client or loss.is_quadratic:
        return loss
    return ProfiledLoss(loss)


class FederatedTable(FitClients):
    """The clients of a fit whose rows are in this process, each with its rows of one table.

    Rows of weight zero are left out.

    Parameters
    ----------
    rows : Rows
        The features are an array or a sparse matrix, of which no copy is made: the rows of a client
        are taken out of it when they are needed. The targets are as the loss takes them.
    loss : GLMLoss
        The loss of all clients.
    """

    def __init__(self, rows: Rows, loss: GLMLoss) -> None:
        self.min_rows = rows.min_rows
        self.is_sparse = sparse.issparse(rows.X)
        features = rows.X
        if self.is_sparse:
            features = SparseFeatures(features).stored  # canonical CSR

        order = np.flatnonzero(rows.weights > 0)
        order = order[np.argsort(rows.codes[order], kind="stable")]
        ends = np.flatnonzero(np.diff(rows.codes[order])) + 1
        targets = rows.y[order]
        weights = rows.weights[order].astype(np.float64)
        is_weighted = bool(np.ptp(weights))
        self._features = features
        self._parts = [
            TablePart(order[part], targets[part], weights[part], index, is_weighted)
            for index, part in enumerate(_slices(np.r_[0, ends, len(order)]))
        ]

        self.counted = np.array([rows.counted[part.rows].sum() for part in self._parts])
        totals = np.array([part.weights.sum() for part in self._parts])
        self.total_weight = float(totals.sum())
        self.info = ProblemInfo(
            features.shape[1],
            loss,
            [len(part.targets) for part in self._parts],
            range(len(self._parts)),
            totals / self.total_weight,
            features.dtype,
        )

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> Transport:
        """Return the transport to the clients' rows.

        A client without a row that trains is left out. Rows in common units are a federation, for
        runs that go through them many times. Rows in the units of the data are only summed up, so
        they are taken out of the table client by client, at each sum.

        Parameters
        ----------
        standardization : Standardization, optional
            The units of features and targets; by default those of the data, in float64.
        fold : Fold, optional
            The rows to leave out; by default none.
        """
        parts = [part.outside(fold) for part in self._parts]
        parts = [part for part in parts if len(part.rows)]
        if not parts:
            raise ValueError(f"no row is left to train without {fold}; expected more rows")
        if standardization is None:
            return RowsOfTable(self._features, parts, self.info)

        loss = cast(GLMLoss, self.info.loss)
        offsets = np.append(0, np.cumsum([len(part.rows) for part in parts]))
        blocks: list[Array | None] = [None] * len(parts)
        if not self.is_sparse:
            n_columns = standardization.n_intercepts + self.info.n_features
            features = np.empty((offsets[-1], n_columns), self.info.dtype)
            blocks = [features[block] for block in _slices(offsets)]
        clients = [
            client_view(self._features, part, standardization, loss, block)
            for part, block in zip(parts, blocks, strict=True)
        ]
        if self.is_sparse:
            features = concatenate_rows([client.features for client in clients])
        check_size("X", clients[0].loss, clients[0].n_features)
        federation = Federation(
            features,
            np.concatenate([client.targets for client in clients]),
            offsets,
            clients[0].loss,
            _weights_of(parts),
            client_ids=np.array([part.index for part in parts]),
        )
        return LocalClients(federation)


class RawTableClients:
    """The clients of a fit whose rows are in this process, with columns that are no numbers yet.

    A fit with an encoding calls `levels`, `statistics` and `encoded` of its clients, over Flower
    too. Rows of weight zero are left out: they need not fit the encoding.

    Parameters
    ----------
    rows : Rows
        The features are a `RawTable` without small cells. The targets are as the loss takes them.
    loss : GLMLoss
        The loss of all clients.
    """

    def __init__(self, rows: Rows, loss: GLMLoss) -> None:
        taken = np.flatnonzero(rows.weights > 0)
        *of_rows, min_rows = rows
        self._rows = Rows._make([*(one.take(taken) for one in of_rows), min_rows])
        self._loss = loss

    def levels(self) -> list[Mapping[int, Sequence[str]]]:
        """Return the levels of the categories that clients have to agree on, of each client."""
        return [self._rows.X.levels()]

    def statistics(self, levels: Mapping[int, Sequence[str]]) -> FederatedTable:
        """Return the clients with the columns of `RawTable.statistics`."""
        return FederatedTable(self._rows._replace(X=self._rows.X.statistics(levels)), self._loss)

    def encoded(self, encoding: Encoding) -> FederatedTable:
        """Return the clients with columns of numbers."""
        return FederatedTable(self._rows._replace(X=encoding.encode(self._rows.X)), self._loss)


class RowsOfTable(Transport):
    """The transport to the rows of a table in the units of the data, for sums without a model.

    Parameters
    ----------
    features : ndarray or sparse matrix, shape (n_rows, n_features)
        The table.
    parts : sequence of TablePart
        The clients.
    info : ProblemInfo
        The clients of the whole table.
    """

    truth = None

    def __init__(self, features: Any, parts: Sequence[TablePart], info: ProblemInfo) -> None:
        self._features = features
        self._parts = parts
        self._loss = cast(GLMLoss, info.loss)
        self.weights = _weights_of(parts)
        self.info = replace(
            info,
            loss=WeightedLoss(self._loss) if parts[0].is_weighted else self._loss,
            n_rows=[len(part.rows) for part in parts],
            client_ids=[part.index for part in parts],
            weights=self.weights,
            dtype=np.dtype(np.float64),
        )

    def for_method(self, method: Method) -> RowsOfTable:
        """Return the transport itself: sums have no dictionary."""
        return self

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> list[Any]:
        """Return the updates of a cohort, in its order; one client at a time is in memory."""
        return [call.update_of(self._client(index), message) for index in cohort]

    def objectives(self, x: Update, indices: IndexArray | None = None) -> tuple[IndexArray, Array]:
        """Return the indices of the clients, and their objectives."""
        asked = np.arange(len(self._parts)) if indices is None else indices
        return asked, np.array([self._client(index).objective(x) for index in asked])

    def identity(self) -> dict[str, Any]:
        """Return hashes of the data."""
        return {"data": joblib.hash((self._features, self._parts))}

    def _client(self, index: int) -> Client:
        """Return a client with its rows, in float64."""
        return client_view(self._features, self._parts[index], None, self._loss)


def _slices(offsets: Array) -> list[slice]:
    """Return the slice of rows between each two offsets."""
    return [slice(begin, end) for begin, end in pairwise(offsets.tolist())]


def _weights_of(parts: Sequence[TablePart]) -> Array:
    """Return the weights of clients, which sum to one."""
    return normalized_weights([part.weights.sum() for part in parts], len(parts))
