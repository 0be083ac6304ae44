"""Runs in progress, what they record, their callbacks, and their results.

A callback is given a `Run`, with the `Progress` that its next round needs, and `simulate` returns a
`Result`. The word history has two uses: a `History` is a setting, what to record and how often, and
``result.history`` has the numbers that were recorded.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ._support.displays import HistoryTable, facts_in_words, html_facts, preview_words
from ._support.validation import check_integer, check_kind, check_sequence, short_repr
from .aggregation import Aggregator
from .method import Method, State, Streams, Transport
from .sparse_model import Array, IndexArray, Model, SparseModel, dense
from .updates import Message, Updates, n_bytes

# The columns that runs have, some of them under some aggregators only.
_COLUMNS = (
    "round",
    "relative_error",
    "objective",
    "seconds",
    "bytes_up",
    "bytes_down",
    "clients",
    "rejected",
    "epsilon",
)


@dataclass
class Traffic:
    """What the exchanges of one round have sent so far.

    Attributes
    ----------
    start_time : float
        When the round began, in seconds of `time.perf_counter`.
    is_participant : ndarray of bool, shape (cohort_size,)
        Whose updates were accepted in every exchange.
    bytes_up, bytes_down : int
    rejected : Counter of str
        How many updates were rejected, by reason.
    """

    start_time: float
    is_participant: Array
    bytes_up: int = 0
    bytes_down: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, message: Message, updates: Updates) -> None:
        """Count one exchange."""
        cohort_size = len(self.is_participant)
        self.bytes_up += updates.bytes_up
        self.bytes_down += cohort_size * n_bytes(message) + updates.bytes_down
        self.rejected += updates.rejected
        self.is_participant &= np.bincount(updates.accepted, minlength=cohort_size) > 0


@dataclass(frozen=True)
class Progress:
    """The progress of a run: all that its next round needs, and what it has used so far.

    Attributes
    ----------
    round : int
        How many rounds are over.
    state : object
        The state of the server.
    seconds : float
        Time of the method's own work so far.
    bytes_up, bytes_down : int
        Bytes sent so far: messages and accepted updates, but not what recorded objectives take.
    n_participants : int
        How many clients took part in every exchange of the last round.
    rejected : Counter of str
        How many updates were rejected so far, by reason.
    effective_rounds : int
        How many rounds changed the state; the others left it as it was.
    """

    round: int
    state: State
    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    n_participants: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    effective_rounds: int = 0

    def with_new_state(self, state: State, traffic: Traffic) -> Progress:
        """Return the progress after one more round, which led to a new state."""
        return replace(
            self.with_old_state(traffic),
            state=state,
            n_participants=int(np.count_nonzero(traffic.is_participant)),
            effective_rounds=self.effective_rounds + 1,
        )

    def with_old_state(self, traffic: Traffic) -> Progress:
        """Return the progress after one more round, in which some exchange got no answer."""
        return replace(
            self,
            round=self.round + 1,
            seconds=self.seconds + time.perf_counter() - traffic.start_time,
            bytes_up=self.bytes_up + traffic.bytes_up,
            bytes_down=self.bytes_down + traffic.bytes_down,
            n_participants=0,
            rejected=self.rejected + traffic.rejected,
        )


class Callback(Protocol):
    """What `simulate` calls at the start and after every round: any function of the `Run`.

    An object may also have methods `begin(run)` and `end(run)`, which are called before the first
    round and after the last, however the run ends.

    Examples
    --------
    Stop once the clients have sent a kilobyte:

    >>> import fgmp
    >>> def is_enough(run):
    ...     return run.progress.bytes_up > 1000
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), federation, 500, rng=0, callbacks=is_enough)
    >>> before, after = result.history["bytes_up"][-2:].tolist()
    >>> before <= 1000 < after
    True
    """

    def __call__(self, run: Run, /) -> object:
        """Return True to stop the run after a round; anything that is not true lets it go on."""


class Best(NamedTuple):
    """The record with the lowest objective: its value, its round, and the state of the server."""

    value: float
    round: int
    state: State


class Estimate(NamedTuple):
    """The coefficients alpha that a state stands for, and the signal x = Psi alpha."""

    coefficients: Model
    x: Array


@dataclass(repr=False)
class Run:
    """A run in progress, as callbacks see it.

    Attributes
    ----------
    method, transport, streams, aggregator, cohort_size, rounds
        What `simulate` was given, and what it made of it for this run.
    history : History
        What to record, and how often.
    progress : Progress
        The progress: round, state, and what was used so far.
    is_short : bool
        Whether the run is over sooner than a kernel is compiled (`fgmp.backend`).
    records : list of dict
        What is recorded so far: of each recorded round, a number for each column.
    best : Best
        The record with the lowest objective so far: value, round, state.
    next_progress : Progress or None
        The progress after the next round, if a callback has it already: it may compute the round
        by ``run_round(run)`` and leave it here, and the run goes on from it. Fits of
        `fgmp.estimators` do so, to send their own questions in the same messages. Otherwise None.

    Examples
    --------
    Print the round, and the number of features of the model:

    >>> import fgmp
    >>> def show(run):
    ...     model = run.estimate(run.progress.state).coefficients
    ...     print("round", run.progress.round, "of", run.rounds, "has", len(model.support))
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), federation, rounds=2, rng=0, callbacks=show)
    round 0 of 2 has 0
    round 1 of 2 has 3
    round 2 of 2 has 3
    """

    method: Method
    transport: Transport
    streams: Streams
    aggregator: Aggregator
    cohort_size: int
    rounds: int
    history: History
    progress: Progress
    is_short: bool = False
    records: list[dict[str, float]] = field(default_factory=list)
    best: Best = Best(np.inf, 0, None)
    next_progress: Progress | None = None

    def __repr__(self) -> str:
        method = type(self.method).__name__
        return (
            f"Run({method}, round {self.progress.round} of {self.rounds}, over {self.transport!r})"
        )

    def estimate(self, state: State) -> Estimate:
        """Return the coefficients alpha that a state stands for, and the signal x = Psi alpha."""
        coefficients = self.method.coefficients(state)
        return Estimate(coefficients, self.method.dictionary.synthesise(dense(coefficients)))

    def relative_error(self, x: Array) -> float:
        """Return ||x - x#|| / ||x#|| of a signal x."""
        truth = np.asarray(self.transport.truth)
        error = (x - truth).ravel()
        return float(math.sqrt(error @ error) / np.linalg.norm(truth))

    @cached_property
    def polled(self) -> IndexArray:
        """The indices of the clients whose objective is recorded."""
        return self.history.polled(self.transport, self.streams)

    def column(self, name: str) -> Array:
        """Return a column of the records; raise a ValueError that names those there are."""
        last = self.records[-1]
        if name not in last:
            names = ", ".join(map(repr, last))
            raise ValueError(f"column is {short_repr(name)}; expected one of {names}")
        return np.array([record[name] for record in self.records])

    def add_record(self, record: dict[str, float]) -> None:
        """Add a record of the progress, and keep the state if it is the best.

        If no objective is recorded, the last state is the best.
        """
        objective = record.get("objective", math.nan)
        is_best = objective < self.best.value or math.isnan(self.best.value)
        if is_best or not self.records:
            self.best = Best(objective, self.progress.round, self.progress.state)
        self.records.append(record)  # last, so that Ctrl-C before it leaves nothing out


@dataclass(frozen=True)
class History:
    """What to record in a run, and how often: a setting. The numbers are in `Result.history`.

    It is the first callback of every run, and asks clients for their objectives: by default all
    clients, whoever is in the cohort.

    Parameters
    ----------
    every : int, default 1
        Rounds between two records; the first is of the start.
    metrics : mapping of str to callable, optional
        More columns, under names that no column has: each is called with a copy of the estimated
        signal x and returns a number.
    objective_on : int, sequence of int, or None
        Whose objective is recorded. None means all clients, which costs a product with all data. An
        int is a number of clients, drawn once for the run. A sequence names clients by their index.
        The objective on a sample is another function than f: compare it only with itself. With 0
        no client is polled: there is no such column, and the best model is the last.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> history = fgmp.History(every=5, metrics={"nonzeros": np.count_nonzero}, objective_on=2)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), federation, 10, rng=0, history=history)
    >>> result.history["round"].tolist(), result.history["nonzeros"].tolist()
    ([0, 5, 10], [0, 3, 3])
    >>> len(result.objective_on)
    2
    """

    every: int = 1
    metrics: Mapping[str, Callable[[Array], float]] = field(default_factory=dict)
    objective_on: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_integer("every", self.every)
        expected = "a mapping of names to callables"
        check_kind("metrics", self.metrics, Mapping, expected)
        for name, metric in self.metrics.items():
            if not isinstance(name, str) or not callable(metric):
                raise ValueError(
                    f"metrics has {short_repr(metric)} for {short_repr(name)}; expected {expected}"
                )
        _check_names(self.metrics, _COLUMNS)

    def polled(self, transport: Transport, streams: Streams) -> IndexArray:
        """Return the indices of the clients whose objective is recorded, increasing.

        Raises
        ------
        ValueError
            If `objective_on` does not fit the clients, or none of those that it names has a weight.
        """
        n_clients = len(transport.weights)
        if self.objective_on is None:
            return np.arange(n_clients)
        if isinstance(self.objective_on, (int, np.integer)):
            size = check_integer(
                "objective_on",
                self.objective_on,
                at_least=0,
                at_most=n_clients,
                why="the number of clients",
            )
            return streams.sample(Streams.OBJECTIVE, 0, n_clients, size)

        clients = check_sequence(
            "objective_on", self.objective_on, "clients by their index, or how many of them"
        )
        indices = np.unique(
            [check_integer("objective_on", i, at_least=0, at_most=n_clients - 1) for i in clients]
        )
        if not transport.weights[indices].sum() > 0:
            raise ValueError(
                f"objective_on names {len(indices)} clients; expected one with a positive weight"
            )
        return indices

    def begin(self, run: Run) -> None:
        """Raise a ValueError if this does not fit the run."""
        privacy = run.aggregator.privacy
        if privacy.spends_epsilon and self.objective_on is not None:
            raise ValueError(
                f"objective_on is {short_repr(self.objective_on)}; expected None in a run with "
                "noise"
            )
        _check_names(self.metrics, privacy.extra_metrics(0))
        self.polled(run.transport, run.streams)

    def __call__(self, run: Run) -> None:
        """Record the progress if that is due, and not done already."""
        if run.progress.round % self.every == 0:
            self._record_once(run)

    def end(self, run: Run) -> None:
        """Record the last round, due or not."""
        self._record_once(run)

    def _record_once(self, run: Run) -> None:
        """Record the progress, if that is not done already."""
        is_recorded = bool(run.records) and run.records[-1]["round"] >= run.progress.round
        if not is_recorded:
            run.add_record(self._record(run))

    def _record(self, run: Run) -> dict[str, float]:
        """Return what is recorded of the progress, a number for each column."""
        progress = run.progress
        estimate = run.estimate(progress.state)
        objective = self._objective(run, estimate.coefficients)

        record: dict[str, float] = {"round": progress.round}
        if run.transport.truth is not None:
            record["relative_error"] = run.relative_error(estimate.x)
        if objective is not None:
            record["objective"] = objective
        record["seconds"] = progress.seconds
        record["bytes_up"] = progress.bytes_up
        record["bytes_down"] = progress.bytes_down
        record["clients"] = progress.n_participants
        record["rejected"] = progress.rejected.total()
        record |= run.aggregator.privacy.extra_metrics(progress.round)
        for name, metric in self.metrics.items():
            # Each gets its own copy, because a metric may write into it.
            record[name] = _as_number(name, metric(estimate.x.copy()))
        return record

    def _objective(self, run: Run, coefficients: Model) -> float | None:
        """Return the objective of a model; None if none is recorded."""
        if not len(run.polled):
            return None
        if not isinstance(coefficients, SparseModel):
            # A product with few columns is less work, from about a quarter of them.
            if 4 * np.count_nonzero(coefficients) < coefficients.size:
                coefficients = SparseModel.of(coefficients)
        return run.aggregator.privacy.objective(run.transport, coefficients, run.polled)


def _check_names(metrics: Mapping[str, object], columns: Iterable[str]) -> None:
    """Raise a ValueError if a metric would overwrite a column."""
    for name in columns:
        if name in metrics:
            raise ValueError(
                f"metrics has {name!r}, a column that runs have; expected another name"
            )


def _as_number(name: str, value: object) -> float:
    """Return what a metric returned as a number, which may be nan or infinite."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "biuf":
        raise ValueError(f"metrics[{name!r}] returned {short_repr(value)}; expected a number")
    return float(array) if array.dtype.kind == "f" else int(array)


@dataclass(frozen=True, eq=False)
class RecordedModel:
    """A model that a run recorded.

    Attributes
    ----------
    x, support, coefficients : ndarray
        As in `Result`.
    round : int
        When it was recorded; 0 is the start.
    value : float
        Its objective; nan if none was recorded.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> method = fgmp.FedIterHT(sparsity=3, learning_rate=0.05)
    >>> result = fgmp.simulate(method, federation, rounds=20, rng=0)
    >>> lowest = int(result.history["objective"].argmin())
    >>> result.best.round == lowest, len(result.best.support)
    (True, 3)
    """

    x: Array = field(repr=False)
    support: IndexArray
    coefficients: Array = field(repr=False)
    round: int
    value: float

    def __repr__(self) -> str:
        facts = {"objective": f"{self.value:.3g}"} | _size_of(self)
        return f"RecordedModel(round {self.round}: {facts_in_words(facts)})"


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run.

    Attributes
    ----------
    x : ndarray
        The model of the last round, as a signal, shape (n_features,), or (n_features, n_outputs).
    support : ndarray of int
        Increasing positions of the nonzero coefficients (flattened, if the coefficients are a
        matrix): features in the standard basis, atoms in a dictionary.
    coefficients : ndarray
        The coefficients alpha of x = Psi alpha; x itself in the standard basis.
    history : dict of ndarray
        The numbers that were recorded, as `History` says: columns with an entry for each recorded
        round, the first for the start. ``round``; ``relative_error``,
        ||x - x#|| / ||x#||, if the truth is known; ``objective``, f(x), or its mean over
        `objective_on`; ``seconds`` of the method's own work so far (at the start the preparation),
        without what is recorded; ``bytes_up`` and ``bytes_down`` so far, of messages and accepted
        updates, without what recorded objectives take; ``clients``, how many took part in every
        exchange of that round; ``rejected``, how many updates were rejected so far.
        With noise also ``epsilon``, spent so far, and no ``objective``: see `GaussianNoise`.
    best : RecordedModel
        The model with the lowest objective on record, never worse than the start; with noise the
        last.
    seed : int
        ``rng=seed`` repeats the run, except for noise and its cohorts, which come from a secret.
    state : object
        The last state of the server, from which ``simulate(..., state=)`` goes on.
    rejected : Counter of str
        How many updates were rejected, by reason: ``missing``, ``late``, ``not_finite``,
        ``malformed``, ``indices`` (out of range, repeated, not in order), ``too_many``,
        ``withheld`` (by secure sums, see `SecureSum`).
    objective_on : ndarray of int
        The indices of the clients whose objective is recorded.
    method : Method
        The method that ran: its dictionary is that of the coefficients.
    interrupted : bool
        Whether Ctrl-C ended the run. Then all this is of its last finished round, and `simulate`
        did not return it but left it on the exception.
    backend : {"compiled", "reference", "mixed"} or None
        What computed the client updates in the rounds of this call: compiled kernels, the reference
        implementation, or both. None if no client was asked, or if clients choose for themselves,
        as over Flower.
    fallbacks : Counter
        The updates that the reference implementation computed, by the reason why: ``reference
        backend chosen``, ``short run``, ``no kernel for this method``, ``overridden step``, ``no
        kernel for this loss``, ``no kernel for these options or data``, ``numba is missing``,
        ``numba does not work``, and for single clients ``nearly singular or not finite``.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), federation, rounds=5, rng=7)
    >>> result.seed, len(result.support), result.history["round"].tolist()
    (7, 3, [0, 1, 2, 3, 4, 5])
    >>> longer = fgmp.simulate(result.method, federation, rounds=1, rng=8, state=result.state)
    >>> longer.support.tolist() == result.support.tolist()
    True
    """

    x: Array = field(repr=False)
    support: IndexArray
    coefficients: Array = field(repr=False)
    history: HistoryTable = field(repr=False)
    best: RecordedModel = field(repr=False)
    seed: int
    state: State = field(repr=False)
    rejected: Counter[str]
    objective_on: IndexArray = field(repr=False)
    method: Method = field(repr=False)
    interrupted: bool = False
    backend: str | None = None
    fallbacks: Counter[str] = field(default_factory=Counter, repr=False)

    def __repr__(self) -> str:
        return f"Result({type(self.method).__name__}: {facts_in_words(self._facts())})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        facts = self._facts() | {"support": preview_words(list(map(str, self.support)), 12)}
        return html_facts(f"Result of {type(self.method).__name__}", facts)

    def _facts(self) -> dict[str, str]:
        """Return what one wants to know of a run first: rounds, error, size and traffic."""
        facts = self.history.last_in_words("round", "objective", "relative_error", "epsilon")
        facts |= _size_of(self)
        facts |= self.history.last_in_words("bytes_up", "bytes_down")
        if self.rejected:
            facts["rejected"] = ", ".join(
                f"{count} {reason}" for reason, count in self.rejected.items()
            )
        if self.backend is not None:
            facts["backend"] = self.backend
        if self.interrupted:
            facts["interrupted"] = "yes"
        return facts


def _size_of(model: RecordedModel | Result) -> dict[str, str]:
    """Return how many coefficients of a model are not zero."""
    return {"nonzero": f"{len(model.support)} of {model.coefficients.size} coefficients"}


def check_callbacks(callbacks: Callback | Iterable[Callback]) -> list[Callback]:
    """Return callbacks, given as one or several, as a list.

    Raises
    ------
    ValueError
        If one of them is not callable.
    """
    several = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for callback in several:
        if not callable(callback):
            expected = "callbacks such as fgmp.stop_at(1e-6) or fgmp.Checkpoint(path)"
            raise ValueError(f"callbacks has {short_repr(callback)}; expected {expected}")
    return several


@contextmanager
def watched(run: Run, callbacks: Sequence[Callback]) -> Iterator[Callable[[], bool]]:
    """Begin the history and the callbacks of a run, and end them, however the run ends.

    Yield the function that calls all of them with the run, and returns whether it is over, or one
    of them has stopped it.
    """
    every_callback: list[Callback] = [run.history, *callbacks]
    begun: list[Callback] = []

    def call_back() -> bool:
        progress = run.progress
        stops = [callback(run) for callback in every_callback]
        return progress.round >= run.rounds or (progress.round > 0 and any(stops))

    try:
        for callback in every_callback:
            begun.append(callback)
            _hook(callback, "begin")(run)
        yield call_back
    except KeyboardInterrupt:  # no error of the run
        _end(run, begun)
        raise
    except BaseException as error:
        _end_after(error, run, begun)
        raise
    _end(run, begun)


def _end(run: Run, begun: Sequence[Callback]) -> None:
    """End all callbacks that have begun, also if one of them raises; then raise its error."""
    with ExitStack() as stack:  # which calls the last one first
        for callback in reversed(begun):
            stack.callback(_hook(callback, "end"), run)


def _end_after(error: BaseException, run: Run, begun: Sequence[Callback]) -> None:
    """End all callbacks that have begun, after an error; what they raise is noted on it.

    The history stays as it is: what it would record may be what failed.
    """
    for callback in begun:
        if callback is run.history:
            continue
        try:
            _hook(callback, "end")(run)
        except Exception as another:
            error.add_note(
                f"At the end of the run {type(callback).__name__} failed too: {another!r}"
            )


def _hook(callback: Callback, name: str) -> Callable[[Run], object]:
    """Return the method `begin` or `end` of a callback, or a function that does nothing."""
    return getattr(callback, name, lambda run: None)


def result_of(run: Run, interrupted: bool = False) -> Result:
    """Return the result of a run."""
    history = HistoryTable({name: run.column(name) for name in run.records[0]})
    backend_record = run.transport.backend_record
    last = _recorded_model(run, math.nan, run.progress.round, run.progress.state)
    best = _recorded_model(run, *run.best)
    return Result(
        x=last.x,
        support=last.support,
        coefficients=last.coefficients,
        history=history,
        best=best,
        seed=run.streams.seed,
        state=run.progress.state,
        rejected=Counter(run.progress.rejected),
        objective_on=run.polled,
        method=run.method,
        interrupted=interrupted,
        backend=None if backend_record is None else backend_record.backend,
        fallbacks=Counter() if backend_record is None else Counter(backend_record.fallbacks),
    )


def _recorded_model(run: Run, value: float, round_number: int, state: State) -> RecordedModel:
    """Return the model of a state, in arrays of its own."""
    estimate = run.estimate(state)
    coefficients = np.array(dense(estimate.coefficients))
    support = np.flatnonzero(coefficients)
    return RecordedModel(np.array(estimate.x), support, coefficients, round_number, value)
