"""`simulate`: check what was given, run the rounds with their callbacks, return the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._support.validation import Seed, check_integer, check_kind, check_protocol, check_seed
from ._support.warnings import suppress_advice
from .aggregation import Aggregator, Mean
from .recording import (
    Callback,
    History,
    Result,
    Run,
    begin_callback,
    check_callbacks,
    end_callbacks,
    end_callbacks_after_error,
    result_of,
)
from .rounds import Method, Progress, State, Streams, check_cohort, iterate

if TYPE_CHECKING:
    from .transport import Transport


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
        "a Federation, or another transport (which has weights and info, too)",
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
            return result_of(run)
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


def _attach_result(interrupt: KeyboardInterrupt, run: Run) -> None:
    """Put what there is of a run on the exception that ended it."""
    interrupt.result = result_of(run, interrupted=True)  # type: ignore[attr-defined]
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
