"""Clients whose tables are not encoded yet, and how they agree on an encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..losses import Loss
from ..sparse_model import Array, IndexArray
from .client_sums import ObservedMeans
from .clients import FitClients
from .encoding import Encoding, EncodingPlan, RawTable
from .federated_table import FederatedTable
from .session import Session

Levels = Mapping[int, Sequence[str]]


class RawClients(Protocol):
    """The clients of a fit whose tables have categories, or values that are missing."""

    def levels(self) -> list[Levels]:
        """Return the levels of the categories that clients have to agree on, of each client."""

    def statistics(self, levels: Levels) -> FitClients:
        """Return the clients with the columns of `RawTable.statistics`."""

    def encoded(self, encoding: Encoding) -> FitClients:
        """Return the clients with columns of numbers."""


@dataclass(frozen=True, eq=False)
class RawTableClients:
    """The rows of clients in this process.

    Attributes
    ----------
    table : RawTable
        The rows of all clients, without small cells.
    targets, weights, groups, loss, min_rows, counted
        As in `FederatedTable`.
    """

    table: RawTable
    targets: Array
    weights: Array
    groups: IndexArray
    loss: Loss
    min_rows: int
    counted: Array

    def levels(self) -> list[Levels]:
        """Return the levels that occur in rows that take part."""
        return [self.table.take(np.flatnonzero(self.weights > 0)).levels()]

    def statistics(self, levels: Levels) -> FederatedTable:
        """Return the clients with the columns of `RawTable.statistics`."""
        return self._table_of(lambda table: table.statistics(levels))

    def encoded(self, encoding: Encoding) -> FederatedTable:
        """Return the clients with columns of numbers."""
        return self._table_of(encoding.encode)

    def _table_of(self, columns_of: Callable[[RawTable], Array]) -> FederatedTable:
        """Return the rows that take part; others need not fit the encoding."""
        rows = np.flatnonzero(self.weights > 0)
        return FederatedTable(
            columns_of(self.table.take(rows)),
            self.targets[rows],
            self.weights[rows],
            self.groups[rows],
            self.loss,
            self.min_rows,
            self.counted[rows],
        )


def agree_on_encoding(session: Session, plan: EncodingPlan, levels: Levels) -> Encoding:
    """Return the encoding of all clients, from sums over them.

    Parameters
    ----------
    session : Session
        With the clients of `RawClients.statistics`.
    plan : EncodingPlan
        What is known beforehand.
    levels : mapping of int to sequence of str
        The levels that the clients have agreed on.
    """
    settings = session.settings
    n_columns = settings.n_features + settings.n_targets
    method = ObservedMeans(n_columns, "zero", settings.parameters.secure)
    state = session.query(method, session.clients.transport())
    means = method.means_of_all_rows(state)[: settings.n_features]
    return plan.encoding(levels, means)
