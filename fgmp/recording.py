"""Runs in progress, what they record, what watches them, and their results.

`Run` is what a callback is given, `History` says what is recorded, and `Result` is what `simulate`
returns in the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ._support.validation import check_integer, check_kind, check_sequence, short_repr
from ._support.warnings import warn_on_outcome
from .aggregation import Aggregator, Update
from .rounds import Method, Progress, State, Streams
from .sparse_model import Array, IndexArray, SparseModel, dense

if TYPE_CHECKING:
    from .transport import Transport

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


class Callback(Protocol):
    """What `simulate` calls after every round: any function of the `Run`.

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
        """Return True to stop the run; anything that is not true lets it go on."""


class Best(NamedTuple):
    """The record with the lowest objective: its value, its round, and the state of the server."""

    value: float
    round: int
    state: State


class Estimate(NamedTuple):
    """The coefficients alpha that a state stands for, and the signal x = Psi alpha."""

    coefficients: Update
    x: Array


@dataclass(repr=False)
class Run:
    """A run in progress, as callbacks see it.

    Attributes
    ----------
    method, transport, streams, aggregator, cohort_size, rounds, history
        What `simulate` was given, and what it made of it for this run.
    progress : Progress
        The progress: round, state, and what was used so far.
    rows : list of dict
        The history so far: of each recorded round, a number for each column of the history.
    best : Best
        The record with the lowest objective so far: value, round, state.

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
    rows: list[dict[str, float]] = field(default_factory=list)
    best: Best = Best(np.inf, 0, None)

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
        """Return ||x - x#|| / ||x#||."""
        error = (x - self.transport.truth).ravel()
        return float(math.sqrt(error @ error) / self._norm_of_truth)

    @cached_property
    def _norm_of_truth(self) -> np.floating[Any]:
        return np.linalg.norm(np.asarray(self.transport.truth))

    @cached_property
    def polled(self) -> IndexArray:
        """The indices of the clients whose objective is recorded."""
        return self.history.clients(self.transport, self.streams)

    def column(self, name: str) -> Array:
        """Return a column of the history; raise a ValueError that names those there are."""
        last = self.rows[-1]
        if name not in last:
            names = ", ".join(map(repr, last))
            raise ValueError(f"column is {short_repr(name)}; expected one of {names}")
        return np.array([row[name] for row in self.rows])


@dataclass(frozen=True)
class History:
    """What a run records: columns of equal length; the first row is of the start.

    Parameters
    ----------
    every : int, default 1
        Rounds between two rows.
    metrics : mapping of str to callable, optional
        More columns, under names that no column has: each is called with a copy of the estimate x
        and returns a number.
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

    def clients(self, transport: Transport, streams: Streams) -> IndexArray:
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

        named = check_sequence(
            "objective_on", self.objective_on, "clients by their index, or how many of them"
        )
        indices = np.unique(
            [check_integer("objective_on", i, at_least=0, at_most=n_clients - 1) for i in named]
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
        self.clients(run.transport, run.streams)

    def __call__(self, run: Run) -> None:
        """Record the progress if a row is due."""
        if run.progress.round % self.every == 0:
            self.end(run)

    def end(self, run: Run) -> None:
        """Record the progress if it is not recorded already."""
        progress = run.progress
        if run.rows and run.rows[-1]["round"] >= progress.round:
            return
        estimate = run.estimate(progress.state)
        objective = self._objective(run, estimate.coefficients)

        row: dict[str, float] = {"round": progress.round}
        if run.transport.truth is not None:
            row["relative_error"] = run.relative_error(estimate.x)
        if objective is not None:
            row["objective"] = objective
        row["seconds"] = progress.seconds
        row["bytes_up"] = progress.bytes_up
        row["bytes_down"] = progress.bytes_down
        row["clients"] = progress.clients
        row["rejected"] = progress.rejected.total()
        row |= run.aggregator.privacy.extra_metrics(progress.round)
        for name, metric in self.metrics.items():
            # Each gets its own copy, because a metric may write into it.
            row[name] = _as_number(name, metric(estimate.x.copy()))

        if objective is None:
            run.best = Best(float("nan"), progress.round, progress.state)
        elif not run.rows or objective < run.best.value or np.isnan(run.best.value):
            run.best = Best(objective, progress.round, progress.state)
        run.rows.append(row)  # last, so that Ctrl-C before it leaves nothing out

    def _objective(self, run: Run, coefficients: Update) -> float | None:
        """Return the objective of a model; None if none is recorded."""
        if not len(run.polled):
            return None
        if not isinstance(coefficients, SparseModel):
            # A product with few columns is less work, from about a quarter of them.
            if 4 * np.count_nonzero(coefficients) < coefficients.size:
                coefficients = SparseModel.of(coefficients)
        return run.aggregator.privacy.objective(run.transport, coefficients, run.polled)


def _check_names(metrics: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Raise a ValueError if a metric would overwrite a column."""
    for name in columns:
        if name in metrics:
            raise ValueError(
                f"metrics has {name!r}, a column that runs have; expected another name"
            )


def _as_number(name: str, value: Any) -> float:
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
        As of `Result`.
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
        from ._support.displays import recorded_model_in_words

        return recorded_model_in_words(self)


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
        One entry per recorded round; row 0 is the start. ``round``; ``relative_error``,
        ||x - x#|| / ||x#||, if the truth is known; ``objective``, f(x), or its mean over
        `objective_on`; ``seconds`` of the method's own work so far (at row 0 the preparation),
        without what is recorded; ``bytes_up`` and ``bytes_down`` so far; ``clients``, how many took
        part in every exchange of that round; ``rejected``, how many updates were rejected so far.
        With noise also ``epsilon``, spent so far, and no ``objective``: see `GaussianNoise`.
    best : RecordedModel
        The model with the lowest objective on record, never worse than the start; with noise the
        last.
    seed : int
        ``rng=seed`` repeats the run, but for noise and its cohorts, which come from a secret.
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
        backend chosen``, ``no kernel for this method``, ``overridden step``, ``no kernel for this
        loss``, ``no kernel for these options or data``, ``numba is missing``, ``numba does not
        work``, and for single clients ``nearly singular or not finite``.

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
    history: dict[str, Array] = field(repr=False)
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
        from ._support.displays import result_in_words

        return result_in_words(self)

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        from ._support.displays import html_of_result

        return html_of_result(self)


def check_callbacks(callbacks: Any) -> list[Callback]:
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


def begin_callback(callback: Callback, run: Run) -> None:
    """Call the method `begin` of a callback, if it has one."""
    _hook(callback, "begin")(run)


def end_callbacks(callbacks: Sequence[Callback], run: Run) -> None:
    """End all callbacks, whatever one of them raises; then raise it."""
    with ExitStack() as stack:  # which calls the last one first
        for callback in reversed(callbacks):
            stack.callback(_hook(callback, "end"), run)


def end_callbacks_after_error(
    callbacks: Sequence[Callback], run: Run, error: BaseException
) -> None:
    """End all callbacks after an error; what they raise is noted on it."""
    for callback in callbacks:
        try:
            _hook(callback, "end")(run)
        except Exception as another:
            error.add_note(
                f"At the end of the run {type(callback).__name__} failed too: {another!r}"
            )


def _hook(callback: Callback, name: str) -> Callable[[Run], object]:
    """Return the method `begin` or `end` of a callback, or a function that does nothing."""
    hook: Callable[[Run], object] = getattr(callback, name, lambda run: None)
    return hook


def result_of(run: Run, interrupted: bool = False) -> Result:
    """Return the result of a run, and warn of its outcome unless it was interrupted."""
    from ._support.displays import HistoryTable

    history = HistoryTable(
        {name: np.array([row[name] for row in run.rows]) for name in run.rows[0]}
    )
    # Not every transport knows what its clients run.
    record = getattr(run.transport, "backend_record", None)
    last = _recorded_model(run, Best(float("nan"), run.progress.round, run.progress.state))
    best = _recorded_model(run, run.best)
    if not interrupted:
        objective = history.get("objective", np.full(1, np.nan))
        warn_on_outcome(run, objective, last.coefficients)
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
        backend=None if record is None else record.backend,
        fallbacks=Counter() if record is None else Counter(record.fallbacks),
    )


def _recorded_model(run: Run, record: Best) -> RecordedModel:
    """Return the model of a state, in arrays of its own."""
    estimate = run.estimate(record.state)
    coefficients = np.array(dense(estimate.coefficients))
    support = np.flatnonzero(coefficients)
    return RecordedModel(np.array(estimate.x), support, coefficients, record.round, record.value)
