"""`simulate`: a run from its start to its result, and what it warns of at its end."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._support.validation import Seed, check_integer, check_kind, check_protocol, check_seed
from ._support.warnings import suppress_advice, warn_on_outcome
from .aggregation import Aggregator, Mean
from .callbacks import (
    Best,
    Callback,
    History,
    Run,
    begin_callback,
    check_callbacks,
    end_callbacks,
    end_callbacks_after_error,
)
from .rounds import Method, Progress, State, Streams, Transport, check_cohort, iterate
from .sparse_model import Array, IndexArray, dense


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


def simulate(
    method: Method,
    clients: Transport,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    aggregator: Aggregator | None = None,
    history: History | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    state: State = None,
) -> Result:
    """Run a federated method: on this machine over a federation, or over any other transport.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    clients : Federation or another transport
        The clients that take part; those of ``Faulty(federation, DropOut(0.1))`` fail at times.
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has its own random numbers, which
        depend on the seed, the round and the client's id: not on the order of the clients, nor on
        who else takes part.
    aggregator : Aggregator, optional
        How the updates of a cohort become one: `Mean()` by default, `Median()`, `TrimmedMean(0.1)`,
        `SecureSum()`, `GaussianNoise(epsilon, clip)`.
    history : History, optional
        What is recorded, and how often.
    callbacks : callable or several
        Called with the `Run` at the start and after every round; one that returns True after a
        round ends the run.
        `Checkpoint(path)`, `stop_at(1e-6)`, `stop_when_stalled(5)`, `Bar()`, or any callable.
    state : object, optional
        Where to start, such as ``result.state``; by default where the method starts. Not with
        noise, whose epsilon would begin anew: a private run goes on from its `Checkpoint` alone.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        If the method does not fit the federation, or an argument is out of its range.
    KeyboardInterrupt
        Of Ctrl-C, with what there was so far as ``error.result``, a `Result` of the last finished
        round (in a notebook, if nobody catches it, ``sys.last_value.result``). A `Checkpoint` is
        written first.

    Warns
    -----
    AdviceWarning
        Once each: of clients with few rows, or with fewer rows than a minibatch, of a last model
        above the start or well above the best, of rows that a model without a radius separates, of
        a run in which no update arrived, of a checkpoint that cannot be written.

    Notes
    -----
    An update that is not finite, or not of the form asked for, is rejected and counted, and the
    weights are scaled to the rest. Rounds are atomic: an exchange that nobody answers leaves the
    model as it was. Exceptions of your own code (a method, a loss, a metric, a callback) reach you.
    Ctrl-C gives up the round in progress. Inside ``with fgmp.backend("reference"):`` clients run
    the reference implementation, which a debugger can step through, and no compiled kernels;
    ``result.backend`` and ``result.fallbacks`` say what ran.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """
    expected = "a method, such as fgmp.FedGradMP(sparsity=4), of a subclass of fgmp.Method"
    check_kind("method", method, Method, expected)
    check_protocol(
        "clients",
        clients,
        ("prepare", "run_clients", "objectives"),
        "a Federation, or another transport",
    )
    rounds = check_integer("rounds", rounds, at_least=0)
    expected = "an aggregator, such as fgmp.Mean() or fgmp.SecureSum()"
    check_kind("aggregator", aggregator, (Aggregator, type(None)), expected)
    check_kind("history", history, (History, type(None)), "a History(every, metrics, objective_on)")
    callbacks = check_callbacks(callbacks)

    began = time.perf_counter()
    transport = clients.prepare(method)
    cohort_size = check_cohort(cohort_size, len(transport.weights))
    chosen = Mean() if aggregator is None else aggregator
    prepared = chosen.prepare(transport.info, cohort_size, len(method.exchanges()), rounds)
    if state is not None and prepared.privacy.spends_epsilon:
        raise ValueError(
            "state is given to a run with noise, whose epsilon would begin anew; expected None: to "
            "go on with a private run, simulate it with its Checkpoint, which counts what was spent"
        )
    # The method checks what it may know; the mechanism checks with the numbers as they are.
    info = prepared.privacy.visible_info(transport.info)
    method.check(info)
    prepared.privacy.check_method(method, transport.info, cohort_size)
    streams = Streams(check_seed("rng", rng), drawn=rng is None)
    start = method.start(info) if state is None else state
    progress = Progress(0, start, time.perf_counter() - began)

    recorded = History() if history is None else history
    run = Run(method, transport, streams, prepared, cohort_size, rounds, recorded, progress)
    with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
        try:
            _run_rounds(run, callbacks)
            return _result(run)
        except KeyboardInterrupt as interrupt:
            if run.rows:
                _attach_result(interrupt, run)
            raise


def _run_rounds(run: Run, callbacks: Sequence[Callback]) -> None:
    """Run all rounds with their callbacks; however they end, end each callback that has begun."""
    begun: list[Callback] = []
    try:
        for callback in (run.history, *callbacks):
            begun.append(callback)
            begin_callback(callback, run)
        rounds = iterate(
            run.method, run.transport, run.progress, run.streams, run.cohort_size, run.aggregator
        )
        for progress in rounds:
            run.progress = progress
            stops = [callback(run) for callback in (run.history, *callbacks)]
            is_stopped = progress.round > 0 and any(stops)
            if progress.round >= run.rounds or is_stopped:
                break
    except KeyboardInterrupt:
        end_callbacks(begun, run)
        raise
    except BaseException as error:
        # The history stays as it is: what it would record may be what failed.
        others = [callback for callback in begun if callback is not run.history]
        end_callbacks_after_error(others, run, error)
        raise
    end_callbacks(begun, run)


def _result(run: Run, interrupted: bool = False) -> Result:
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


def _attach_result(interrupt: KeyboardInterrupt, run: Run) -> None:
    """Put what there is of a run on the exception that ended it."""
    interrupt.result = _result(run, interrupted=True)  # type: ignore[attr-defined]
    rounds_done = f"{run.progress.round} of {run.rounds} rounds"
    interrupt.add_note(
        f"The run ended after {rounds_done}; this exception has them as its `result`."
    )


def simulate_part(*args: Any, **options: Any) -> Result:
    """Run what is a part of something larger: `simulate`, without advice.

    What Ctrl-C leaves of such a run is no result of the whole, so the exception loses it.
    """
    with suppress_advice():
        try:
            return simulate(*args, **options)
        except KeyboardInterrupt as interrupt:
            if hasattr(interrupt, "result"):
                del interrupt.result
                interrupt.__notes__.pop()  # the note that there is one
            raise
