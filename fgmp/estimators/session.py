"""A fit under way: its settings, and the exchanges with its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from ..aggregation import Aggregator
from ..data import Client, ProblemInfo
from ..losses import Loss
from ..method import Method, Transport
from ..recording import History, Result, Run
from ..selection import PerAtom, PerBlock, PerOutput, Selection
from ..shared_support.newton import NewtonOnSupport
from ..simulation import simulate_part
from ..sparse_model import Array, SparseModel
from .client_sums import ClientSums
from .clients import FitClients
from .groups import preview

TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "rejected")

# Newton steps between two looks at whether the last one lowered the objective. (One step is exact
# for the squared loss.)
NEWTON_STEPS = 4
# While features are selected the ridge is larger, and never zero for a loss of labels: merged
# supports separate the classes more often than the features that are left in the end.
_SELECTION_RIDGE_FACTOR = 4
_LEAST_SELECTION_RIDGE = 1e-4

Report = Callable[[str, Run, float], object]
Announce = Callable[[str], object]


def announce_nothing(words: str) -> None:
    """Announce no stage."""


def stage_in_words(method: Method) -> str:
    """Return what the clients are asked for by a method of a fit."""
    if isinstance(method, ClientSums):
        return method.description
    if isinstance(method, NewtonOnSupport):
        return "Newton steps on the features that were found"
    return "rounds that select features"


def round_in_words(words: str, run: Run, unit: float) -> str:
    """Return which rows a round was about, its number, and its loss if one is recorded."""
    line = f"{words}, round {run.progress.round}"
    if "objective" in run.rows[-1]:
        line += f": loss {run.rows[-1]['objective'] * unit:.6g}"
    return line


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """The parameters of an estimator with its defaults resolved, and what a server knows.

    Attributes
    ----------
    info : ProblemInfo
        The clients, in the units of the data.
    is_sparse : bool
        Whether the features are sparse.
    total_weight : float
        Weight of all rows, which C is relative to.
    counted : ndarray, shape (n_clients,)
        For each client the number of rows that its weights stand for.
    n_intercepts : int
        1 if a constant column stands for the intercept, else 0.
    intercept_per_client : bool
        Whether each client has its own intercept, and centres its rows.
    C : float
        The C of the rounds that select features: as given, or the default one with ``"cv"``.
    strengths : tuple of float
        Each C to choose from; only the given one without a choice.
    sparsity, method, standardize, polish, rounds, tol, cohort_size, local_iterations, batch_size, \
folds, n_folds, is_secure, is_private
        As in `FedGradMPRegressor`.
    coefficients_only : bool
        Whether the fit is a resample, which sums neither a covariance nor intercepts of clients.
    always_include : tuple of int
        The columns that are in every model, and are none of the tau.
    block_of : tuple of int, or None
        The block of each column, from 0 on: columns of a block are selected together, and count
        once. None if each column stands alone.
    indicators : tuple of int
        The columns that are known to be zeros and ones.
    """

    info: ProblemInfo
    is_sparse: bool
    total_weight: float
    counted: Array
    n_intercepts: int
    intercept_per_client: bool
    C: float
    strengths: tuple[float, ...]
    sparsity: int | str | None
    method: str
    standardize: bool
    polish: bool
    rounds: int
    tol: float
    cohort_size: int | None
    local_iterations: int
    batch_size: int | None
    folds: str
    n_folds: int
    is_secure: bool
    is_private: bool
    coefficients_only: bool = False
    always_include: tuple[int, ...] = ()
    block_of: tuple[int, ...] | None = None
    indicators: tuple[int, ...] = ()

    @property
    def loss(self) -> Loss:
        """The loss of the clients."""
        return self.info.loss

    @property
    def is_quadratic(self) -> bool:
        """Whether the loss is quadratic."""
        return self.loss.is_quadratic

    @property
    def n_features(self) -> int:
        """Number of columns of the data."""
        return int(self.info.n_features)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a model."""
        return self.loss.n_outputs

    @property
    def n_targets(self) -> int:
        """Number of columns of targets: one, or an indicator for each class."""
        labels = self.loss.class_labels
        return 1 if labels is None else len(labels)

    @property
    def n_rows(self) -> int:
        """Number of rows of all clients."""
        return sum(self.info.rows)

    @property
    def n_counted(self) -> float:
        """Number of rows that all weights stand for, which errors and choices rest on."""
        return float(self.counted.sum())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of models and features."""
        return self.info.dtype

    @property
    def has_intercept(self) -> bool:
        """Whether there is an intercept, of all clients or of each."""
        return bool(self.n_intercepts) or self.intercept_per_client

    @property
    def centring(self) -> str:
        """The centre of squares: "client" (the means of each), "mean" (of all rows) or "zero"."""
        if self.intercept_per_client:
            return "client"
        return "mean" if self.n_intercepts else "zero"

    @property
    def shares_beside_rows(self) -> tuple[float, ...] | None:
        """The weights of the clients; None if they are their parts of all rows, which they know."""
        rows = np.asarray(self.info.rows, np.float64)
        if np.array_equal(self.info.weights, rows / rows.sum()):
            return None
        return tuple(np.asarray(self.info.weights).tolist())

    @property
    def is_cross_validated(self) -> bool:
        """Whether the sparsity or C is chosen by cross-validation."""
        return self.sparsity == "cv" or len(self.strengths) > 1

    def ridge(self, C: float) -> float:
        """Return the weight of half the squared norm of the slopes beside the mean loss."""
        return float(1 / (C * self.total_weight))

    def selection_ridge(self, C: float) -> float:
        """Return the ridge while features are selected."""
        return max(_SELECTION_RIDGE_FACTOR * self.ridge(C), self._least_ridge)

    def path_ridge(self, C: float) -> float:
        """Return the ridge of the models of a path: that of the fit, but never zero for labels."""
        return max(self.ridge(C), self._least_ridge)

    @property
    def _least_ridge(self) -> float:
        """The smallest ridge of a path."""
        return 0.0 if self.is_quadratic else _LEAST_SELECTION_RIDGE

    @property
    def unpenalised(self) -> tuple[int, ...]:
        """The atoms without a ridge: the intercept."""
        return (0,) * self.n_intercepts

    def is_penalised(self, model: SparseModel) -> Array:
        """Return which coefficients of a model have a ridge."""
        return np.asarray(model.support >= self.n_intercepts * self.n_outputs)

    @property
    def selection(self) -> Selection:
        """A feature counts once, with all its outputs; what is always included does not count."""
        always_include = self.unpenalised
        always_include += tuple(self.n_intercepts + column for column in self.always_include)
        if self.block_of is not None:
            of_columns = tuple(self.n_intercepts + block for block in self.block_of)
            return PerBlock(always_include, (0,) * self.n_intercepts + of_columns)
        if self.n_outputs > 1:
            return PerAtom(always_include)
        return PerOutput(always_include)

    def n_coefficients_per_client(self, n_features: int) -> int:
        """Return the most coefficients that a client of FedGradMP solves for.

        These are 2 tau and tau features, or all of them, those that are always included, and the
        intercept.
        """
        largest_block = 1 if self.block_of is None else max(Counter(self.block_of).values())
        n_coefficients = 3 * n_features * largest_block + len(self.always_include)
        return min(n_coefficients, self.n_features) + self.has_intercept

    def n_chosen(self, model: SparseModel) -> int:
        """Return how many of the features to choose from are in a model."""
        columns = model.used_atoms - self.n_intercepts
        chosen = np.setdiff1d(columns[columns >= 0], self.always_include)
        if self.block_of is None:
            return len(chosen)
        return len({self.block_of[column] for column in chosen.tolist()})

    @property
    def n_choices(self) -> int:
        """Number of features to choose from: columns or blocks that are not always included."""
        return n_choices(self.n_features, self.always_include, self.block_of)


def n_choices(
    n_features: int, always_include: tuple[int, ...], block_of: tuple[int, ...] | None
) -> int:
    """Return the number of columns, or of blocks of columns, that are not always included."""
    block_of = tuple(range(n_features)) if block_of is None else block_of
    return len(set(block_of) - {block_of[column] for column in always_include})


def share_of(client: Client, shares: tuple[float, ...] | None, n_rows: int) -> float:
    """Return the weight p_i of a client, which is its part of all rows if there are no shares."""
    if shares is None:
        return client.n_samples / n_rows
    return shares[client.client_id]


class LoggedRun(NamedTuple):
    """One run of a method: the method, when it began in UTC, and its history."""

    method: Method
    began: str
    history: dict[str, Any]


class Session:
    """Exchanges with the clients of one fit, and what these cost together.

    Stages are functions that take a session and values and return values. A session changes in two
    ways only: `totals` grows, and the aggregator of secure sums remembers which sums were opened.

    Parameters
    ----------
    clients : FitClients
        The clients.
    settings : FitSettings
        The parameters of the fit.
    seed : int
        Seed of cohorts, minibatches and folds.
    aggregator : Aggregator or None
        How updates are combined; None is their mean.
    report : callable (words, run, unit)
        Called after each round that selects features, with the rows that take part in words, the
        run, and the unit of its objective.
    announce : callable (words)
        Called before each run with what is under way.

    Attributes
    ----------
    totals : Counter
        Rounds, seconds, bytes and rejected updates so far.
    log : list of LoggedRun
        The runs so far, for a report.
    """

    def __init__(
        self,
        clients: FitClients,
        settings: FitSettings,
        seed: int,
        aggregator: Aggregator | None,
        report: Report,
        announce: Announce = announce_nothing,
    ) -> None:
        self.clients = clients
        self.settings = settings
        self.seed = seed
        self.aggregator = aggregator
        self.report = report
        self.announce = announce
        self.totals: Counter[str] = Counter()
        self.log: list[LoggedRun] = []

    def with_clients(self, clients: FitClients, settings: FitSettings) -> Session:
        """Return a session with the same clients in another view, which counts costs together."""
        other = Session(clients, settings, self.seed, self.aggregator, self.report, self.announce)
        other.totals = self.totals
        other.log = self.log
        return other

    def run(self, method: Method, transport: Transport, rounds: int = 1, **options: Any) -> Result:
        """Run a method and add up its cost; raise a RuntimeError if no client answered.

        Its own warnings are suppressed, because an estimator gives its advice once, at the end.
        """
        self.announce(stage_in_words(method))
        began = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
        result = simulate_part(
            method, transport, rounds, rng=self.seed, aggregator=self.aggregator, **options
        )
        self.totals.update({name: result.history[name][-1] for name in TOTALS})
        self.log.append(LoggedRun(method, began, result.history))
        has_rounds = bool(result.history["round"][-1])
        if has_rounds and not result.history["clients"][-1]:
            self._refuse_silence(method, dict(result.rejected))
        return result

    def query(self, method: Method, transport: Transport, state: Any = ()) -> Any:
        """Return the state after one round, for which no objective is evaluated."""
        return self.run(method, transport, state=state, history=History(objective_on=0)).state

    def _refuse_silence(self, method: Method, rejected: dict[str, int]) -> None:
        """Raise a RuntimeError that says why there is no update of any client."""
        if rejected.get("withheld"):
            names = preview(self.clients.absent, 5) or "a site"
            raise RuntimeError(
                f"{names} left in the middle of a fit under masks ({rejected}): a sum without it, "
                "beside those of before, would reveal its own; fit again once all are there"
            )
        raise RuntimeError(f"no site answered {type(method).__name__}: {rejected}; see their logs")
