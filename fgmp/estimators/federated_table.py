"""A table of rows in this process, as the clients of a fit: in common units, and without folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._support.sparse_features import SparseFeatures
from .._support.tables import concatenate_rows, normalized_weights
from ..client import ProblemInfo
from ..count_losses import PoissonLoss
from ..federation import Federation
from ..losses import Loss, SquaredLoss
from ..sparse_model import Array, IndexArray
from .folds import Fold, assign_folds
from .profiled_loss import ProfiledLoss
from .standardization import Standardization
from .weighted_loss import WeightedLoss

# The losses of numbers that an estimator takes, by name.
LOSSES_OF_NUMBERS: dict[str, type[Loss]] = {"squared": SquaredLoss, "poisson": PoissonLoss}

# Indices of coefficients travel as 32-bit integers.
_MAX_COEFFICIENTS = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class ClientRows:
    """The rows of one client.

    Attributes
    ----------
    features : ndarray or sparse matrix, shape (n_rows, n_features)
        In the units of the data.
    targets : ndarray, shape (n_rows,)
        As the loss takes them.
    weights : ndarray, shape (n_rows,)
        Above zero.
    index : int
        Index of the client, which its folds depend on.
    is_weighted : bool
        Whether weights differ between rows, of this client or another.
    """

    features: Any
    targets: Array
    weights: Array
    index: int = 0
    is_weighted: bool = False

    def training_rows(self, fold: Fold | None) -> IndexArray:
        """Return the indices of the rows that train while a fold is held out; all for None."""
        if fold is None:
            return np.arange(len(self.targets))
        folds = assign_folds(self.targets, self.index, fold.n_folds, fold.seed, fold.min_rows)
        return np.flatnonzero(folds != fold.number)

    def take(self, indices: IndexArray) -> ClientRows:
        """Return some of the rows, given by increasing indices; without a copy if these are all."""
        if len(indices) == len(self.targets):
            return self
        return replace(
            self,
            features=self.features[indices],
            targets=self.targets[indices],
            weights=self.weights[indices],
        )


class ClientView(NamedTuple):
    """The rows of a client as a federation holds them."""

    features: Any
    targets: Array
    loss: Loss


def client_view(
    rows: ClientRows, standardization: Standardization | None, loss: Loss
) -> ClientView:
    """Return rows in the units of a standardization, or as they are, in float64, without one.

    A client on another machine calls this on its own rows, and gets the same bits. Weights have
    mean one. Those of the squared loss scale the rows, once these are in common units. Otherwise
    they are a second column of the targets, for a `WeightedLoss`.
    """
    weights = rows.weights / rows.weights.mean()
    targets = rows.targets
    if standardization is None:
        features = rows.features.astype(float, copy=False)
        if sparse.issparse(features):
            features = SparseFeatures(features)
        return _with_weights(ClientView(features, targets, loss), weights, rows.is_weighted)

    precision = rows.features.dtype
    centre = standardization.centre
    target_centre = standardization.target_centre
    if standardization.centred_per_client:
        centre = weights @ rows.features / len(targets)
        if loss.is_quadratic:
            target_centre = weights @ targets / len(targets)
    features = standardization.of_features(rows.features, centre)
    if not loss.has_integer_targets:
        targets = (targets - target_centre) / standardization.target_unit
        targets = targets.astype(precision)

    if loss.is_quadratic and rows.is_weighted:
        roots = np.sqrt(weights).astype(precision)
        if sparse.issparse(rows.features):
            features = features.times_rows(roots)
        else:
            features = features * roots[:, None]
        return ClientView(features, targets * roots, loss)
    view = _with_weights(ClientView(features, targets, loss), weights, rows.is_weighted)
    return view._replace(loss=loss_of_view(view.loss, standardization))


def loss_of_view(loss: Loss, standardization: Standardization | None) -> Loss:
    """Return the loss of rows in the units of a standardization, without an intercept of theirs.

    Rows of the squared loss that are centred need none.
    """
    if standardization is None or not standardization.centred_per_client or loss.is_quadratic:
        return loss
    return ProfiledLoss(loss)


def _with_weights(view: ClientView, weights: Array, is_weighted: bool) -> ClientView:
    """Return a view whose targets have the weights beside them, if these differ."""
    if not is_weighted:
        return view
    targets = np.column_stack([view.targets, weights])
    return ClientView(view.features, targets, WeightedLoss(view.loss))


class FederatedTable:
    """The clients of a fit whose rows are in this process, each with its rows of one table.

    It has what `fgmp.estimators.session.FitClients` names. Rows of weight zero are left out.

    Parameters
    ----------
    features : ndarray or sparse matrix, shape (n_rows, n_features)
        The table, of which one copy is made, sorted by client.
    targets : ndarray, shape (n_rows,)
        As the loss takes them.
    weights : ndarray, shape (n_rows,)
        At least 0. A row of weight 2 counts as two rows.
    groups : ndarray of int, shape (n_rows,)
        The group of each row. A group with a row of positive weight is a client.
    loss : Loss
        The loss of all clients.
    min_rows : int, default 1
        The smallest number of rows of a client that a sum may rest on.
    """

    def __init__(
        self,
        features: Any,
        targets: Array,
        weights: Array,
        groups: IndexArray,
        loss: Loss,
        min_rows: int = 1,
    ) -> None:
        self.min_rows = min_rows
        self.is_sparse = sparse.issparse(features)
        if self.is_sparse:
            features = SparseFeatures(features).stored  # canonical CSR
        weights = weights.astype(np.float64)

        order = np.flatnonzero(weights > 0)
        order = order[np.argsort(groups[order], kind="stable")]
        ends = np.flatnonzero(np.diff(groups[order])) + 1
        is_weighted = bool(np.ptp(weights[order]))
        self._features = features[order]
        self._clients = [
            ClientRows(
                self._features[part], targets[order][part], weights[order][part], index, is_weighted
            )
            for index, part in enumerate(_slices(np.r_[0, ends, len(order)]))
        ]

        totals = np.array([rows.weights.sum() for rows in self._clients])
        self.total_weight = float(totals.sum())
        self.info = ProblemInfo(
            features.shape[1],
            loss,
            [len(rows.targets) for rows in self._clients],
            range(len(self._clients)),
            totals / self.total_weight,
            features.dtype,
        )

    @property
    def absent(self) -> list[str]:
        """No client is ever absent."""
        return []

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> Federation:
        """Return the federation of the clients' rows.

        A client without a row that trains is left out.

        Parameters
        ----------
        standardization : Standardization, optional
            The units of features and targets; by default those of the data, in float64.
        fold : Fold, optional
            The rows to leave out; by default none.
        """
        parts = [(rows, rows.training_rows(fold)) for rows in self._clients]
        parts = [(rows, indices) for rows, indices in parts if len(indices)]
        if not parts:
            raise ValueError(f"no row is left to train without {fold}; expected more rows")

        training = (rows.take(indices) for rows, indices in parts)
        views = (client_view(rows, standardization, self.info.loss) for rows in training)
        offsets = np.append(0, np.cumsum([len(indices) for _, indices in parts]))
        is_table = standardization is None and fold is None and self._is_dense_float64
        if self.is_sparse:
            stacked = list(views)
            features = concatenate_rows([view.features for view in stacked])
        elif is_table:
            stacked = list(views)
            features = self._features  # of which the views are slices: nothing is copied
        else:
            features = self._allocate(offsets[-1], standardization)
            blocks = [features[part] for part in _slices(offsets)]
            stacked = [_moved(view, block) for view, block in zip(views, blocks, strict=True)]

        weights = [rows.weights[indices].sum() for rows, indices in parts]
        return _federation(features, stacked, offsets, weights, [rows.index for rows, _ in parts])

    @property
    def _is_dense_float64(self) -> bool:
        """Whether the table is what a federation in original units holds."""
        return not self.is_sparse and self._features.dtype == np.float64

    def _allocate(self, n_rows: int, standardization: Standardization | None) -> Array:
        """Return an empty table for rows in some units."""
        n_features = self.info.n_features
        if standardization is None:
            return np.empty((n_rows, n_features), np.float64)
        return np.empty((n_rows, standardization.n_intercepts + n_features), self.info.dtype)


def _slices(offsets: Array) -> list[slice]:
    """Return the slice of rows between each two offsets."""
    return [slice(begin, end) for begin, end in pairwise(offsets.tolist())]


def _moved(view: ClientView, block: Array) -> ClientView:
    """Return a view whose features are in a block of a table.

    The features of one client after another are moved, because views of all clients beside the
    table would hold the data twice.
    """
    block[:] = view.features
    return view._replace(features=block)


def _federation(
    features: Any,
    views: Sequence[ClientView],
    offsets: IndexArray,
    weights: Sequence[float],
    client_ids: Sequence[int],
) -> Federation:
    """Return the federation of some views, whose features are stacked already.

    Sparse features that are centred per client are a tuple, because they have no common centre.
    """
    first, _, loss = views[0]
    n_features = first.shape[1]
    size = math.prod(loss.model_shape(n_features))
    if size > _MAX_COEFFICIENTS:
        raise ValueError(
            f"X has {n_features} features, for a model of {size} coefficients; expected at "
            f"most {_MAX_COEFFICIENTS}: indices travel as 32-bit integers"
        )
    targets = np.concatenate([view.targets for view in views])
    if targets.dtype.kind == "f":
        targets = targets.astype(first.dtype, copy=False)
    p = normalized_weights(weights, len(weights))
    return Federation(features, targets, offsets, loss, p, client_ids=np.array(client_ids))
