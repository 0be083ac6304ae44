"""What a fit asks of its clients, and the data that it names a view of their rows by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import sparse

from .._support.sparse_features import SparseFeatures
from ..data import ProblemInfo
from ..losses import Loss
from ..method import Transport
from ..sparse_model import Array, SparseModel

Found = TypeVar("Found")


class Fold(NamedTuple):
    """One of the folds of rows that clients hold out, or of whole clients.

    Attributes
    ----------
    number, n_folds : int
        The fold is `number` of 0, ..., n_folds - 1.
    seed : int
        Seed of the folds of all clients.
    min_rows : int
        Each fold of a client has at least this number of rows.
    client_folds : tuple of int
        The fold of each client, by its id, and -1 for ids of none; empty if clients hold out rows.
        Clients are not told of a fold of these: those in it are not asked.
    """

    number: int
    n_folds: int
    seed: int
    min_rows: int
    client_folds: tuple[int, ...] = ()

    def __str__(self) -> str:
        of_groups = " of the groups" if self.client_folds else ""
        return f"fold {self.number + 1} of {self.n_folds}{of_groups}"


@dataclass(frozen=True, eq=False)
class Standardization:
    """Common units of features and targets, and the best model without features in these units.

    Column j becomes (x_j - centre_j) factor_j, behind a constant column for the intercept if
    there is one. Targets of the squared loss become (y - target_centre) / target_unit.

    Attributes
    ----------
    factors, centre : ndarray, shape (n_features,)
        A constant column has the factor 0.
    target_centre, target_unit : float
        0 and 1 for labels.
    centred_per_client : bool
        Whether each client subtracts its own means from its rows, instead of the centres.
    n_intercepts : int
        1 if there is a column of ones for the intercept, else 0.
    null_intercept : ndarray, shape (n_outputs,)
        The intercept of the model without features, as a prediction in the new units.
    """

    factors: Array
    centre: Array
    target_centre: float
    target_unit: float
    centred_per_client: bool
    n_intercepts: int
    null_intercept: Array

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any] | None) -> Standardization | None:
        """Return the standardization that `to_settings` was called on; None for None."""
        if settings is None:
            return None
        # A list in JSON was an array.
        arrays = {name: np.asarray(one) for name, one in settings.items() if isinstance(one, list)}
        return cls(**{**settings, **arrays})

    def to_settings(self) -> dict[str, Any]:
        """Return the fields by name, for JSON."""
        return asdict(self)

    def of_features(self, X: Any, centre: Array, out: Array | None = None) -> Any:
        """Return features in these units, of the precision of X, sparse if X is sparse.

        Dense ones are written to `out`, if it is given.
        """
        precision = X.dtype
        n_intercepts = self.n_intercepts
        if not sparse.issparse(X):
            features = out
            if features is None:
                features = np.empty((len(X), n_intercepts + len(self.factors)), precision)
            features[:, :n_intercepts] = 1
            np.subtract(X, centre.astype(precision), out=features[:, n_intercepts:])
            features[:, n_intercepts:] *= self.factors.astype(precision)
            return features

        # The centre is subtracted from no stored number: S - u c' keeps S sparse.
        scaled = X.data * self.factors.astype(precision)[X.indices]
        constant = sparse.csr_array(np.ones((X.shape[0], n_intercepts), precision))
        stored = sparse.hstack(
            [constant, sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape)],
            format="csr",
        )
        shift = np.append(np.zeros(n_intercepts), centre * self.factors).astype(precision)
        return SparseFeatures(stored, np.ones(X.shape[0], precision), shift)

    def null_model(self, loss: Loss, dtype: np.dtype[Any]) -> SparseModel:
        """Return the model without features: zero, or the intercept that the targets alone give."""
        values = self.null_intercept[: self.n_intercepts * loss.n_outputs].astype(dtype)
        shape = loss.model_shape(self.n_intercepts + len(self.factors))
        return SparseModel(np.arange(len(values)), values, shape)

    def to_original_units(self, model: SparseModel) -> Array:
        """Return the intercept and coefficients of a model in the units of the data, in float64.

        The shape is (1 + n_features,), or (1 + n_features, n_outputs). Row 0 is the intercept.
        """
        coefficients = model.dense().astype(np.float64)
        intercepts = coefficients[: self.n_intercepts]
        slopes = (coefficients[self.n_intercepts :].T * self.factors).T * self.target_unit
        intercept = (
            intercepts.sum(axis=0) * self.target_unit + self.target_centre - self.centre @ slopes
        )
        return np.concatenate([np.reshape(intercept, (1, *slopes.shape[1:])), slopes])


class FitClients(Protocol):
    """The clients of a fit: a table in this process, or tables on other machines.

    Attributes
    ----------
    info : ProblemInfo
        The clients in original units; p_i is the share of the weight of all rows.
    total_weight : float
        Weight of the rows of all clients.
    counted : ndarray, shape (n_clients,)
        For each client the number of rows that its weights stand for, as in `rows_counted`.
    is_sparse : bool
        Whether the features are sparse.
    min_rows : int
        The smallest number of rows of a client that a sum may rest on.
    """

    info: ProblemInfo
    total_weight: float
    counted: Array
    is_sparse: bool
    min_rows: int

    @property
    def absent(self) -> list[str]:
        """Names of the clients that did not answer the last time; by default none."""
        return []

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> Transport:
        """Return the transport to rows in some units, by default their own, without a fold."""

    def together(self, tasks: Sequence[Callable[[], Found]]) -> list[Found]:
        """Return what tasks return, whose questions may travel in the same messages.

        By default no message travels, and one task is run after another.
        """
        return [task() for task in tasks]
