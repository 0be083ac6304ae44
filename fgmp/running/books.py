"""The books of a run: one row of the history for each recorded round, and the running totals.

`simulate` fills them; what they cost is not counted among the seconds of a method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..federation import Client, Federation
from ..methods.contract import Method, State
from ..models import Array, SparseModel, Support

__all__ = ["Books", "History", "Metric", "column_of"]

_COUNTS = ("round", "bytes_up", "bytes_down", "clients")

History = dict[str, Array]
Metric = Callable[[Array], float]


class Books:
    """The history in the making.

    Parameters
    ----------
    method : Method
    federation : Federation
    clients : sequence of Client
        Prepared, in the order of the federation.
    metrics : mapping of str to callable
    evaluated : ndarray of int
        The clients whose mean objective is recorded.
    """

    def __init__(
        self,
        method: Method,
        federation: Federation,
        clients: list[Client],
        metrics: Mapping[str, Metric],
        evaluated: Support,
    ) -> None:
        self.method, self.truth, self.metrics = method, federation.truth, dict(metrics)
        self.clients = [clients[i] for i in evaluated]
        weights = federation.weights[evaluated]
        self.weights = weights if len(weights) == len(clients) else weights / weights.sum()
        self.seconds = 0.0
        self.bytes_up = self.bytes_down = self.clients_answered = 0
        self._columns: dict[str, Array] = {}
        self._length = 0

    def record(self, number: int, state: State) -> None:
        """Append one row."""
        x = self.method.estimate(state)
        row: dict[str, float] = {"round": number}
        if self.truth is not None:
            row["relative_error"] = float(np.linalg.norm(x - self.truth) / np.linalg.norm(self.truth))
        row["objective"] = self._objective(self.method.coefficients(state))
        row |= {"seconds": self.seconds, "bytes_up": self.bytes_up, "bytes_down": self.bytes_down}
        row["clients"] = self.clients_answered
        # A copy each, because a metric may write into what it gets.
        row |= {name: metric(x.copy()) for name, metric in self.metrics.items()}
        self._append(row)

    def history(self) -> History:
        """The rows so far as columns, not writeable; asking again costs as little after many rounds as after few."""
        views = {name: column[: self._length] for name, column in self._columns.items()}
        for view in views.values():
            view.setflags(write=False)
        return views

    def _objective(self, coefficients: Array) -> float:
        sparse = SparseModel.of(coefficients)
        model = sparse if 4 * len(sparse.support) < coefficients.size else coefficients
        return float(self.weights @ np.array([client.objective(model) for client in self.clients]))

    def _append(self, row: dict[str, float]) -> None:
        if not self._columns:
            self._columns = {name: np.empty(64, np.int64 if name in _COUNTS else np.float64) for name in row}
        for name, value in row.items():
            if self._length == len(self._columns[name]):
                self._columns[name] = np.resize(self._columns[name], 2 * self._length)
            self._columns[name][self._length] = value
        self._length += 1


def column_of(history: History, column: str) -> Array:
    """A column of a history, or a ValueError that names those there are."""
    if column not in history:
        raise ValueError(f"column is {column!r}; expected one of {', '.join(map(repr, history))}")
    return history[column]
