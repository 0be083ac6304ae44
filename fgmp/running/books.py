"""The books of a run: how far it is, one row of the history for each recorded round, and the best model so far.

`simulate` fills them; what they cost is not counted among the seconds of a method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..checks import shown
from ..federation import Client
from ..methods.answers import REASONS
from ..methods.contract import Method, State
from ..models import Array, SparseModel, Support
from .secure_sums import SecureSum
from .summing import summed_objective

if TYPE_CHECKING:
    from .transports import Transport

__all__ = ["Books", "History", "Lead", "Metric", "Progress", "Totals", "column_of"]

_COUNTS = ("round", "bytes_up", "bytes_down", "clients", *(f"left_out_{reason}" for reason in REASONS))

History = dict[str, Array]
Metric = Callable[[Array], float]


class Totals(NamedTuple):
    """What a run has used so far, and how many clients answered every exchange of the last round.

    With faults also how many answers were left out so far, for each of `REASONS`; without, an empty tuple. With noise
    also the epsilon that was spent.
    """

    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    clients: int = 0
    left_out: tuple[int, ...] = ()
    epsilon: float | None = None

    def columns(self) -> dict[str, float]:
        """Their part of a row of the history."""
        reasons = REASONS if self.left_out else ()
        counts = {f"left_out_{reason}": count for reason, count in zip(reasons, self.left_out, strict=True)}
        spent = {} if self.epsilon is None else {"epsilon": self.epsilon}
        return {name: getattr(self, name) for name in ("seconds", "bytes_up", "bytes_down", "clients")} | counts | spent


class Lead(NamedTuple):
    """The best state so far, by the last row of a column."""

    state: State
    round: int
    value: float


class Progress(NamedTuple):
    """How far a run is: all that its next round needs. It changes as a whole, between two rounds.

    Attributes
    ----------
    number : int
        The rounds that are finished.
    state : object
        The server's.
    totals : Totals
    rows : int
        The rows of the history that are written.
    lead : Lead or None
        None before the first row.
    """

    number: int
    state: State
    totals: Totals
    rows: int = 0
    lead: Lead | None = None


class Books:
    """The history in the making.

    Parameters
    ----------
    method : Method
    transport : Transport
        Who tells the objective; it may know the truth.
    metrics : mapping of str to callable
    evaluated : ndarray of int
        The clients whose mean objective is recorded; there is none where nobody is named, as in a run with noise.
    best_by : str
        The column whose lowest value leads; the last row does where it is an objective that nobody is asked for.
    secure : SecureSum, optional
        How objectives are added up, where the server must not see them.
    """

    def __init__(
        self,
        method: Method,
        transport: Transport,
        metrics: Mapping[str, Metric],
        evaluated: Support,
        best_by: str,
        secure: SecureSum | None = None,
    ) -> None:
        self.secure = secure
        self.method, self.transport, self.metrics, self.best_by = method, transport, dict(metrics), best_by
        self.truth, self.evaluated = transport.truth, evaluated
        self.last_leads = best_by == "objective" and not len(evaluated)
        weights = transport.shape.weights[evaluated]
        self.weights = weights if len(weights) == transport.shape.n_clients else weights / weights.sum()
        self._columns: History = {}

    @property
    def clients(self) -> list[Client]:
        """Those whose objective is recorded, where the transport has them at hand."""
        return [self.transport.clients[i] for i in self.evaluated] if self.transport.clients else []

    @np.errstate(over="ignore", invalid="ignore")  # a model may be as large as it likes: its history says so
    def record(self, progress: Progress) -> Progress:
        """The progress with one more row, which is written, and with what leads after it."""
        x = self.method.estimate(progress.state)
        row: dict[str, float] = {"round": progress.number}
        if self.truth is not None:
            row["relative_error"] = float(np.linalg.norm(x - self.truth) / np.linalg.norm(self.truth))
        if len(self.evaluated):
            row["objective"] = self._objective(self.method.coefficients(progress.state))
        row |= progress.totals.columns()
        # A copy each, because a metric may write into what it gets.
        row |= {name: _number(name, metric(x.copy())) for name, metric in self.metrics.items()}
        self._write(progress.rows, row)
        recorded = progress._replace(rows=progress.rows + 1)
        if self.last_leads:
            return recorded._replace(lead=Lead(progress.state, progress.number, float("nan")))
        value = float(column_of(self.history(recorded), self.best_by, "best_by")[-1])
        lead = progress.lead
        if lead is None or value < lead.value or (np.isnan(lead.value) and not np.isnan(value)):
            lead = Lead(progress.state, progress.number, value)
        return recorded._replace(lead=lead)

    def history(self, progress: Progress) -> History:
        """The rows so far as columns, not writeable; asking again costs as little after many rounds as after few."""
        rows = {name: column[: progress.rows] for name, column in self._columns.items()}
        for column in rows.values():
            column.setflags(write=False)
        return rows

    def take(self, history: History) -> None:
        """Go on from the rows of an earlier run."""
        self._columns = {name: column.copy() for name, column in history.items()}

    def _objective(self, coefficients: Array) -> float:
        sparse = SparseModel.of(coefficients)
        model = sparse if 4 * len(sparse.support) < coefficients.size else coefficients
        if self.secure is not None:
            return summed_objective(self.transport, self.evaluated, model, self.weights, self.secure)
        told = self.transport.objectives(self.evaluated, model)
        present = [i for i, value in enumerate(told) if value is not None]
        if len(present) == len(told):
            return float(self.weights @ np.array(told))
        if not self.weights[present].sum() > 0:
            return float("nan")
        return float(self.weights[present] @ np.array([told[i] for i in present]) / self.weights[present].sum())

    def _write(self, place: int, row: dict[str, float]) -> None:
        if not self._columns:
            self._columns = {name: np.empty(64, np.int64 if name in _COUNTS else np.float64) for name in row}
        for name, value in row.items():
            column = self._columns[name]
            if place >= len(column):  # twice the room, so that a long run copies each number a few times only
                column = self._columns[name] = np.concatenate([column, np.empty_like(column)])
            column[place] = value


def column_of(history: History, column: str, argument: str = "column") -> Array:
    """A column of a history, or a ValueError that names those there are, and the argument that asked for it."""
    if not isinstance(column, str) or column not in history:
        raise ValueError(f"{argument} is {shown(column)}; expected one of {', '.join(map(repr, history))}")
    return history[column]


def _number(name: str, value: Any) -> float:
    """What a metric returned, as a number; nan and infinity are some."""
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "biuf":
        raise ValueError(f"metrics[{name!r}] returned {shown(value)}; expected a number")
    return float(found) if found.dtype.kind == "f" else int(found)
