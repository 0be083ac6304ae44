"""Runs: the transport of this process, the loop over the rounds, and advice at the end.

`simulate` has the loop over the rounds, `run_round` is one round, and `LocalClients` computes the
updates of clients, by `Call.update_of` for each or by one compiled kernel for all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ._support.sparse_features import numbers_of
from ._support.validation import Seed, check_integer, check_kind, check_seed, short_repr
from ._support.warnings import (
    has_risen,
    suppress_advice,
    warn_of_no_answers,
    warn_of_rise,
    warn_of_separation,
)
from .aggregation import Aggregator, Mean
from .backends import BackendRecord, Kernel, find_kernel, is_short_run
from .data import Client, Federation
from .dictionaries import parts_of
from .losses import GLMLoss
from .method import Call, Method, State, Streams, Transport
from .recording import (
    Callback,
    History,
    Progress,
    Result,
    Run,
    Traffic,
    check_callbacks,
    result_of,
    watched,
)
from .sparse_model import Array, IndexArray, Model, SparseModel
from .updates import Message


class LocalClients(Transport):
    """The transport of this process: it runs a method on the clients of a federation.

    `simulate` makes one of the federation that it is given. Make it yourself to wrap your own
    transport around it, as in the example of `fgmp.Transport`.

    Parameters
    ----------
    federation : Federation

    Attributes
    ----------
    federation : Federation
        The rows; after `for_method` its features are A_i Psi.
    info, weights, truth
        As in `Transport`.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> clients = fgmp.LocalClients(federation)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), clients, rounds=2, rng=0)
    >>> result.x.tolist() == fgmp.simulate(fgmp.FedGradMP(3), federation, 2, rng=0).x.tolist()
    True
    """

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.info = federation.info
        self.weights = federation.weights
        self.truth = federation.truth
        self._record = BackendRecord()

    def __repr__(self) -> str:
        return repr(self.federation)

    @property
    def clients(self) -> tuple[Client, ...]:
        """The clients, each a view of its rows."""
        return self.federation.clients

    @property
    def local_data(self) -> Federation:
        """The rows of all clients."""
        return self.federation

    @property
    def backend_record(self) -> BackendRecord:
        """What computed the updates of the run, since `for_method`.

        It also keeps what kernels derive from the rows, which the user may change after the run.
        """
        return self._record

    def for_method(self, method: Method) -> LocalClients:
        """Return the clients in the coordinates of a method, for one run."""
        features = method.dictionary.products(self.federation.features)
        if features is self.federation.features:
            return LocalClients(self.federation)
        return LocalClients(replace(self.federation, features=features))

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> Sequence[Any]:
        """Return the update of each client of a cohort, in the order of the cohort.

        The kernel of the method computes all of them, if there is one and the backend allows it;
        otherwise `Call.update_of` computes one after the other.
        """
        if not len(cohort):  # all of it may have dropped out
            return []
        kernel_or_reason = find_kernel(call.exchange.client_update, self.federation, call.is_short)
        if isinstance(kernel_or_reason, Kernel):
            updates = self._run_kernel(kernel_or_reason, call, message, cohort)
            if updates is not None:
                return updates
            kernel_or_reason = "numba does not work"
        self._record.fallbacks[kernel_or_reason] += len(cohort)
        return [call.update_of(self.clients[index], message) for index in cohort]

    def _run_kernel(
        self, kernel: Kernel, call: Call, message: Message, cohort: IndexArray
    ) -> Sequence[Any] | None:
        """Return the updates of a kernel; the reference computes those that it has not solved.

        Return None if the kernel has computed nothing.
        """
        # A kernel replaces a bound method, whose object has the parameters.
        method = call.exchange.client_update.__self__  # type: ignore[attr-defined]
        computed = kernel.compute(method, self, call, message, cohort)
        if computed is None:
            return None
        self._record.compiled += len(cohort) - len(computed.unsolved)
        if not len(computed.unsolved):
            return computed.updates

        self._record.fallbacks["nearly singular or not finite"] += len(computed.unsolved)
        updates = list(computed.updates)
        for position in computed.unsolved:
            updates[position] = call.update_of(self.clients[cohort[position]], message)
        return updates

    def objectives(
        self, coefficients: Model, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report, and f_i of each: all that are asked."""
        asked = np.arange(self.federation.n_clients) if indices is None else indices
        return asked, self.federation.client_objectives(coefficients, indices)

    def identity(self) -> dict[str, Any]:
        """Return the data, by name: a checkpoint resumes with the same data only."""
        data = self.federation
        features = [numbers_of(part) for part in parts_of(data.features)]
        return {
            "data": [*features, data.offsets, data.targets],
            "truth": data.truth,
            "loss": data.loss,
            "client_ids": data.client_ids,
            "weights": data.weights,
        }


def transport_to(name: str, clients: object) -> Transport:
    """Return the transport to the clients of a federation, or a transport as it is.

    Raises
    ------
    ValueError
        If it is neither, or if a transport lacks a member. `name` is the name of the argument.
    """
    if isinstance(clients, Federation):
        return LocalClients(clients)
    for member in (*Transport.__annotations__, *vars(Transport)):
        if not member.startswith("_") and not hasattr(clients, member):
            raise ValueError(
                f"{name} is {short_repr(clients)}, which has no {member!r}; expected a Federation, "
                "or another transport, as fgmp.Transport describes it"
            )
    return clients  # type: ignore[return-value]  # it has all members


def run_round(run: Run) -> Progress:
    """Run all exchanges of the next round of a run, and return the progress after it.

    If an exchange leaves no accepted update of positive weight, the state is as it was before.
    """
    round_number = run.progress.round + 1
    start_time = time.perf_counter()
    n_clients = len(run.transport.weights)
    sampler = run.aggregator.sampler
    cohort = sampler.draw(run.streams, round_number, n_clients, run.cohort_size)  # S_t
    traffic = Traffic(start_time, is_participant=np.ones(len(cohort), bool))
    state = run.progress.state
    for exchange_index, exchange in enumerate(run.method.exchanges()):
        message = exchange.message(state)
        update_spec = exchange.update_spec(state)
        call = Call(exchange, update_spec, exchange_index, round_number, run.streams, run.is_short)
        # The clients compute, by `transport.run_clients`, and the server gets what it may see of
        # their updates: by default everything.
        updates = run.aggregator.privacy.run_and_collect(run.transport, call, message, cohort)
        traffic.add(message, updates)

        if updates.is_empty:
            return run.progress.with_old_state(traffic)  # rounds are atomic
        vector = run.aggregator(updates)  # by default their weighted mean
        state = exchange.server_update(state, update_spec.from_vector(vector))
    return run.progress.with_new_state(state, traffic)


def simulate(
    method: Method,
    clients: Federation | Transport,
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
    clients : Federation or Transport
        Whom the server asks: a federation, whose clients this process runs (`LocalClients`), or a
        transport to clients, such as ``Faulty(federation, DropOut(probability=0.1))``, where
        they fail at times, or `fgmp.flower.OverFlower`.
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has its own random numbers, which
        depend on the seed, the round and the client's id: not on the order of the clients, nor on
        who else takes part.
    aggregator : Aggregator, optional
        Whom the server asks, what it sees, and how updates become one: `Mean()` by default,
        `Median()`, `TrimmedMean(0.1)`, `SecureSum()`, `GaussianNoise(epsilon, clip)`.
    history : History, optional
        What to record, and how often. What was recorded is `Result.history`.
    callbacks : callable or several
        `Checkpoint(path)`, `stop_at(1e-6)`, `stop_when_stalled(5)`, `Bar()`, or any callable. They
        are called with the `Run` at the start and after every round; one that returns True after a
        round ends the run.
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
        After Ctrl-C, with a `Result` of the last finished round as ``error.result`` (in a notebook,
        if nobody catches it, ``sys.last_value.result``). A `Checkpoint` is written first.

    Warns
    -----
    AdviceWarning
        Once each, about: clients with few rows, or with fewer rows than a minibatch; a last model
        with a higher objective than the start, or a much higher one than the best; rows that a
        model without a radius separates; a run in which no update arrived; a checkpoint that cannot
        be written.

    Notes
    -----
    An update that is not finite, or not of the form asked for, is rejected and counted, and the
    weights are scaled to the rest. Rounds are atomic: an exchange that nobody answers leaves the
    model as it was. Exceptions of your own code (a method, a loss, a metric, a callback) reach you.
    Ctrl-C gives up the round in progress. Inside ``with fgmp.backend("reference"):`` clients run
    the reference implementation, which a debugger can step through, and no compiled kernels, as in
    a short run; ``result.backend`` and ``result.fallbacks`` say what ran.

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
    transport = transport_to("clients", clients)
    rounds = check_integer("rounds", rounds, at_least=0)
    expected = "an aggregator, such as fgmp.Mean() or fgmp.SecureSum()"
    check_kind("aggregator", aggregator, (Aggregator, type(None)), expected)
    check_kind("history", history, (History, type(None)), "a History(every, metrics, objective_on)")
    callbacks = check_callbacks(callbacks)

    aggregator = Mean() if aggregator is None else aggregator
    history = History() if history is None else history
    run = _new_run(method, transport, rounds, cohort_size, rng, aggregator, history, state)
    # A method may diverge; its history says so.
    with np.errstate(over="ignore", invalid="ignore"), _result_on_interrupt(run):
        with watched(run, callbacks) as call_back:
            is_over = call_back()
            while not is_over:  # until round T, unless a callback ends the run earlier
                # A callback may have computed the round ahead (`Run.next_progress`).
                run.progress = run.next_progress or run_round(run)
                run.next_progress = None
                is_over = call_back()
        result = result_of(run)
        _warn_on_outcome(run, result)
    return result


def _new_run(
    method: Method,
    transport: Transport,
    rounds: int,
    cohort_size: int | None,
    rng: Seed,
    aggregator: Aggregator,
    history: History,
    state: State,
) -> Run:
    """Return a run that is ready for its first round, or raise a ValueError if things do not fit.

    The parameters are those of `simulate`.
    """
    start_time = time.perf_counter()
    transport = transport.for_method(method)
    cohort_size = check_cohort(cohort_size, len(transport.weights))
    n_exchanges = len(method.exchanges())
    aggregator = aggregator.for_run(transport.info, cohort_size, n_exchanges, rounds)
    if state is not None and aggregator.privacy.spends_epsilon:
        raise ValueError(
            "state is given to a run with noise, whose epsilon would begin anew; expected None: to "
            "go on with a private run, simulate it with its Checkpoint, which counts what was spent"
        )
    # The method checks what it may know; the mechanism checks with the numbers as they are.
    info = aggregator.privacy.visible_info(transport.info)
    method.check(info)
    aggregator.privacy.check_method(method, transport.info, cohort_size)
    streams = Streams(check_seed("rng", rng), is_generated=rng is None)
    start = method.start(info) if state is None else state
    progress = Progress(0, start, time.perf_counter() - start_time)
    # With what a method may know: under noise, numbers of rows are data, and no run is short.
    is_short = is_short_run(method, info, rounds, cohort_size)
    return Run(
        method, transport, streams, aggregator, cohort_size, rounds, history, progress, is_short
    )


def check_cohort(cohort_size: int | None, n_clients: int) -> int:
    """Return the cohort size L, all clients if it is None, or raise a ValueError."""
    if cohort_size is None:
        return n_clients
    return check_integer("cohort_size", cohort_size, at_most=n_clients, why="the number of clients")


@contextmanager
def _result_on_interrupt(run: Run) -> Iterator[None]:
    """If Ctrl-C ends a run, leave the result so far on the exception."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if run.records:
            interrupt.result = result_of(run, interrupted=True)  # type: ignore[attr-defined]
            rounds_done = f"{run.progress.round} of {run.rounds} rounds"
            interrupt.add_note(
                f"The run ended after {rounds_done}; this exception has them as its `result`."
            )
        raise


def simulate_part(*args: Any, **options: Any) -> Result:
    """Run `simulate`, without advice, as a part of something larger.

    After Ctrl-C the exception has no result, because a part is no result of the whole.
    """
    with suppress_advice():
        try:
            return simulate(*args, **options)
        except KeyboardInterrupt as interrupt:
            if hasattr(interrupt, "result"):
                del interrupt.result
                interrupt.__notes__.pop()  # the note that there is one
            raise


def _warn_on_outcome(run: Run, result: Result) -> None:
    """Warn if a run has ended badly.

    That is, if no update ever arrived, if the last objective is not finite or well above the best,
    or if the rows are separated and nothing bounds the model. No message is sent for it. In a
    simulation this reads the rows, which are in this process (`Transport.local_data`); over a
    network it reads none.
    """
    method_name = type(run.method).__name__
    if run.progress.round and not run.progress.effective_rounds:
        expected = str(run.method.exchanges()[0].update_spec(run.progress.state))
        warn_of_no_answers(method_name, run.progress.round, run.progress.rejected, expected)
        return
    objective = result.history.get("objective", np.full(1, np.nan))
    if np.isnan(objective).all():
        return
    is_withheld = run.aggregator.privacy.withholds_objective and np.isnan(objective[-1])
    if is_withheld and np.isfinite(result.coefficients).all():
        return
    last = objective[-1]
    if not np.isfinite(last) or has_risen(objective, lambda: _objective_of_zero(run)):
        warn_of_rise(method_name, objective, run.best.round)
    elif len(objective) > 1 and not run.method.is_bounded:
        if _separates(run.transport, result.coefficients):
            warn_of_separation(method_name)


def _objective_of_zero(run: Run) -> float:
    """Return the objective of the zero model, as a run records it; 0 if no data are at hand."""
    data = run.transport.local_data
    if data is None:
        return 0.0
    weights = run.transport.weights[run.polled]
    zero = SparseModel.zero(data.model_shape, data.dtype)
    return float(weights @ data.client_objectives(zero, run.polled) / weights.sum())


def _separates(transport: Transport, coefficients: Array) -> bool:
    """Return whether a model classifies every row at hand without error.

    Return False for a loss without labels or margins, or if no client is at hand.
    """
    data = transport.local_data
    if data is None or not isinstance(data.loss, GLMLoss) or data.loss.class_labels is None:
        return False
    for client in data.clients:
        margins = data.loss.label_margins(client.predictions(coefficients), client.targets)
        if margins is None or not (margins > 0).all():
            return False
    return True
