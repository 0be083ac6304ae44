"""`simulate`: a run from its start to its result, and what it says at its end."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ._compiled.registry import BackendRecord
from ._support.validation import Seed, check_integer, check_kind, check_protocol, check_seed
from ._support.warnings import suppress_advice, warn_on_outcome
from .aggregation import Aggregator, Mean
from .callbacks import History, Run, check_callbacks
from .federation import check_cohort
from .rounds import Method, State, Step, Streams, Transport, iterate
from .sparse_model import Array, IndexArray, dense


class Estimate(NamedTuple):
    """A model that a run recorded, as in `Result`; when, 0 is the start; its objective, nan where none is recorded."""

    x: Array
    support: IndexArray
    coefficients: Array
    round: int
    value: float


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves behind.

    Attributes
    ----------
    x : ndarray
        The model of the last round, as a signal, shape (n_features,), or (n_features, n_outputs).
    support : ndarray of int
        Increasing positions of the nonzero coefficients (flattened, where the coefficients are a matrix): features in
        the standard basis, atoms in a dictionary.
    coefficients : ndarray
        The coefficients alpha of x = Psi alpha; x itself in the standard basis.
    history : dict of ndarray
        One entry per recorded round, row 0 the start. ``round``; ``relative_error``, ||x - x#|| / ||x#||, where the
        truth is known; ``objective``, f(x), or its mean over `objective_on`; ``seconds`` of the method's own work so
        far (at row 0 the preparation), without what is recorded; ``bytes_up`` and ``bytes_down`` so far; ``clients``,
        how many answered every exchange of that round with what was asked for; ``rejected``, the answers not taken so
        far. With noise ``epsilon``, spent so far, and no ``objective``: see `GaussianNoise`.
    best : Estimate
        The model with the lowest objective on record, never worse than the start; with noise the last.
    seed : int
        ``rng=seed`` repeats the run, but for noise and its cohorts, which come from a secret.
    state : object
        The server's last state, from which ``simulate(..., state=)`` goes on.
    rejected : Counter
        The answers that were not taken, by reason: ``missing``, ``late``, ``not_finite``, ``malformed``, ``indices``
        (out of range, repeated, not in order), ``too_many``, ``withheld`` (by secure sums, see `SecureSum`).
    objective_on : ndarray of int
        The places of the clients whose objective is recorded.
    method : Method
        The method that ran: its dictionary is that of the coefficients.
    interrupted : bool
        Whether Ctrl-C ended the run: then all this is of its last finished round, and `simulate` did not return it but
        left it on the exception.
    backend : {"compiled", "reference", "mixed"} or None
        What computed the updates of the clients in the rounds of this call: kernels, the reference implementation, or
        both. None if no client was asked, or if clients choose for themselves, as over Flower.
    fallbacks : Counter
        The updates that the reference implementation computed, by the reason why: ``reference backend chosen``,
        ``no kernel for this method``, ``overridden step``, ``no kernel for this loss``,
        ``no kernel for these options or data``, ``numba is missing``, ``numba does not work``, and for single clients
        ``nearly singular or not finite``.
    """

    x: Array = field(repr=False)
    support: IndexArray
    coefficients: Array = field(repr=False)
    history: dict[str, Array] = field(repr=False)
    best: Estimate = field(repr=False)
    seed: int
    state: State = field(repr=False)
    rejected: Any
    objective_on: IndexArray = field(repr=False)
    method: Method = field(repr=False)
    interrupted: bool = False
    backend: str | None = None
    fallbacks: Counter[str] = field(default_factory=Counter, repr=False)


def simulate(
    method: Method,
    clients: Transport,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    aggregator: Aggregator | None = None,
    history: History | None = None,
    callbacks: Any = (),
    state: State = None,
) -> Result:
    """Run a federated method: on this machine over a federation, or over any other transport.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    clients : Federation or another transport
        Whose clients answer; ``Faulty(federation, DropOut(0.1))`` is one that fails.
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has random numbers of its own, which depend on the
        seed, the round and the client's key: not on the order of the clients, nor on who else takes part.
    aggregator : Aggregator, optional
        How the answers of a cohort become one: `Mean()` by default, `Median()`, `TrimmedMean(0.1)`, `SecureSum()`,
        `GaussianNoise(epsilon, clip)`.
    history : History, optional
        What is recorded, and how often.
    callbacks : callable or several
        Called with the `Run` after every round; one that returns True ends the run. `Checkpoint(path)`,
        `stop_at(1e-6)`, `stop_when_stalled(5)`, `Bar()`, or any callable.
    state : object, optional
        Where to start, such as ``result.state``; by default where the method starts. Not with noise,
        whose epsilon would begin anew: a private run goes on from its `Checkpoint` alone.

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range.
    KeyboardInterrupt
        Of Ctrl-C, with what there was so far as ``error.result``, a `Result` of the last finished round (in a notebook,
        where nobody catches it, ``sys.last_value.result``). A `Checkpoint` is written first.

    Warns
    -----
    AdviceWarning
        Once each: of clients with few rows, of a last model above the start or well above the best, of rows that a
        model without a radius separates, of a run in which no update arrived, of a checkpoint that cannot be written.

    Notes
    -----
    An answer that is not finite, or not of the form asked for, is left out of the mean and counted, and the weights are
    scaled to the rest. A round counts as a whole: an exchange that nobody answers leaves the model as it was. What code
    of yours raises (a method, a loss, a metric, a callback) reaches you. Ctrl-C gives up the round under way. Within
    `backend` ("reference") clients run what one reads, which a debugger can step through, and no compiled kernels.

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
    check_protocol(
        "method",
        method,
        ("check", "start", "exchanges"),
        "a method, such as fgmp.FedGradMP(sparsity=4)",
    )
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
    aggregator = (aggregator or Mean()).prepare(
        transport.shape, cohort_size, len(method.exchanges()), rounds
    )
    if state is not None and "epsilon" in aggregator.extra_metrics(0):
        raise ValueError(
            "state is given to a run with noise, whose epsilon would begin anew; expected None: to go "
            "on with a private run, simulate it with its Checkpoint, which counts what was spent"
        )
    shape = aggregator.visible_info(transport.shape)
    method.check(shape)
    aggregator.check_method(method, transport.shape, cohort_size)
    streams = Streams(check_seed("rng", rng), drawn=rng is None)
    start = Step(0, method.start(shape) if state is None else state, time.perf_counter() - began)
    recorded = History() if history is None else history
    run = Run(method, transport, streams, aggregator, cohort_size, rounds, recorded, start)
    with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
        try:
            _go_on(run, callbacks)
            return _result(run)
        except KeyboardInterrupt as interrupt:
            if run.rows:
                found = _result(run, interrupted=True)
                interrupt.result = found  # type: ignore[attr-defined]
                rounds_done = f"{run.step.round} of {run.rounds} rounds"
                interrupt.add_note(
                    f"The run ended after {rounds_done}; this exception has them as its `result`."
                )
            raise


def _go_on(run: Run, callbacks: Sequence[Any]) -> None:
    """Run all rounds and the callbacks; whatever ends them, each callback that has begun is told of the end."""
    begun: list[Any] = []
    try:
        for callback in (run.history, *callbacks):
            begun.append(callback)
            getattr(callback, "begin", bool)(run)
        for step in iterate(
            run.method, run.transport, run.step, run.streams, run.cohort_size, run.aggregator
        ):
            run.step = step
            stops = [callback(run) for callback in (run.history, *callbacks)]
            if step.round >= run.rounds or (step.round > 0 and any(stops)):
                break
    except KeyboardInterrupt:
        _end(run, begun)
        raise
    except BaseException as error:
        # The history stays as it is: what it would record may be what failed.
        _end(run, [callback for callback in begun if callback is not run.history], because_of=error)
        raise
    _end(run, begun)


def _end(run: Run, callbacks: Sequence[Any], because_of: BaseException | None = None) -> None:
    """Tell all callbacks of the end. What they raise is raised, or noted on the error that has ended the run."""
    if because_of is None:
        with ExitStack() as stack:  # calls all of them, the last one first, whatever one raises
            for callback in reversed(callbacks):
                stack.callback(getattr(callback, "end", bool), run)
        return
    for callback in callbacks:
        try:
            getattr(callback, "end", bool)(run)
        except Exception as error:
            because_of.add_note(
                f"At the end of the run {type(callback).__name__} failed too: {error!r}"
            )


def _result(run: Run, interrupted: bool = False) -> Result:
    """What the run leaves."""
    columns = {name: np.array([row[name] for row in run.rows]) for name in run.rows[0]}
    # Not every transport knows what its clients run.
    record = getattr(run.transport, "backend_record", BackendRecord())
    last = _estimate(run, run.step.state, run.step.round, float("nan"))
    best = _estimate(run, run.best[2], run.best[1], run.best[0])
    if not interrupted:
        warn_on_outcome(run, columns.get("objective", np.full(1, np.nan)), last.coefficients)
    return Result(
        *last[:3],
        history=columns,
        best=best,
        seed=run.streams.seed,
        state=run.step.state,
        rejected=Counter(run.step.rejected),
        objective_on=run.asked,
        method=run.method,
        interrupted=interrupted,
        backend=record.backend,
        fallbacks=Counter(record.fallbacks),
    )


def _estimate(run: Run, state: State, number: int, value: float) -> Estimate:
    coefficients, x = run.estimate(state)
    whole = np.array(dense(coefficients))
    return Estimate(np.array(x), np.flatnonzero(whole), whole, number, value)


def simulate_part(*given: Any, **options: Any) -> Result:
    """A run that is a part of something larger: it gives no advice, and what Ctrl-C leaves of it is no result."""
    with suppress_advice():
        try:
            return simulate(*given, **options)
        except KeyboardInterrupt as interrupt:
            if hasattr(interrupt, "result"):
                del interrupt.result
                interrupt.__notes__.pop()  # which says that there is one
            raise
