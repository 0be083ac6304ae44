"""`simulate`: a run from its start to its result, and what it says at its end."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .advice import advise, say_how_it_ended
from .checks import Seed, check_integer, check_kind, check_protocol, check_seed
from .federation import check_cohort
from .models import Array, Support, dense
from .reducers import Mean, Reducer
from .rounds import Channel, Method, State, Step, Streams, iterate
from .watching import History, Run, watchers_of


class Estimate(NamedTuple):
    """A model that a run recorded, as in `Result`; when, 0 is the start; its objective, nan where none is recorded."""

    x: Array
    support: Support
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
        how many answered every exchange of that round with what was asked for; ``left_out``, the answers not taken so
        far. With noise ``epsilon``, spent so far, and no ``objective``: see `GaussianNoise`.
    best : Estimate
        The model with the lowest objective on record, never worse than the start; with noise the last.
    seed : int
        ``rng=seed`` repeats the run, but for noise and its cohorts, which come from a secret.
    state : object
        The server's last state, from which ``simulate(..., state=)`` goes on.
    left_out : Counter
        The answers that were not taken, by reason: ``missing``, ``late``, ``not_finite``, ``malformed``, ``indices``
        (out of range, repeated, not in order), ``too_many``, ``withheld`` (by secure sums, see `SecureSum`).
    objective_on : ndarray of int
        The places of the clients whose objective is recorded.
    interrupted : bool
        Whether Ctrl-C ended the run: then all this is of its last finished round.
    """

    x: Array = field(repr=False)
    support: Support
    coefficients: Array = field(repr=False)
    history: dict[str, Array] = field(repr=False)
    best: Estimate = field(repr=False)
    seed: int
    state: State = field(repr=False)
    left_out: Any
    objective_on: Support = field(repr=False)
    interrupted: bool = False


def simulate(
    method: Method,
    over: Channel,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    reduce: Reducer | None = None,
    history: History | None = None,
    watch: Any = (),
    state: State = None,
) -> Result:
    """Run a federated method: on this machine over a federation, or over any other channel.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    over : Federation or another channel
        Whose clients answer; ``Faulty(federation, DropOut(0.1))`` is one that fails.
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has random numbers of its own, which depend on the
        seed, the round and the client's key: not on the order of the clients, nor on who else takes part.
    reduce : Reducer, optional
        How the answers of a cohort become one: `Mean()` by default, `Median()`, `TrimmedMean(0.1)`, `SecureSum()`,
        `GaussianNoise(epsilon, clip)`.
    history : History, optional
        What is recorded, and how often.
    watch : watcher or several
        What looks on: `Checkpoint(path)`, `stop_at(1e-6)`, `stop_when_stalled(5)`, `Bar()`, or a callable that takes
        the `Run` and ends it by returning True.
    state : object, optional
        Where to start, such as ``result.state``; by default where the method starts.

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range.

    Warns
    -----
    AdviceWarning
        Once each: of clients with few rows, of a last model above the start or well above the best, of rows that a
        model without a radius separates, of a checkpoint that cannot be written, of Ctrl-C.

    Notes
    -----
    An answer that is not finite, or not of the form asked for, is left out of the mean and counted, and the weights are
    scaled to the rest. A round counts as a whole: an exchange that nobody answers leaves the model as it was. Ctrl-C
    gives up the round under way. With ``FGMP_READABLE=1`` in the environment clients run the printed forms, which a
    debugger can step through, and no compiled twins; the numbers are the same but for rounding.

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
    check_protocol("method", method, ("check", "start", "exchanges"), "a method, such as fgmp.FedGradMP(sparsity=4)")
    check_protocol("over", over, ("serving", "ask", "objectives"), "a Federation, or another channel")
    rounds = check_integer("rounds", rounds, at_least=0)
    check_kind("reduce", reduce, (Reducer, type(None)), "a reducer, such as fgmp.Mean() or fgmp.SecureSum()")
    check_kind("history", history, (History, type(None)), "a History(every, metrics, objective_on)")
    watchers = watchers_of(watch)

    began = time.perf_counter()
    channel = over.serving(method)
    cohort_size = check_cohort(cohort_size, len(channel.weights))
    reduce = (reduce or Mean()).fitted(channel.shape, cohort_size, len(method.exchanges()), rounds)
    shape = reduce.public(channel.shape)
    method.check(shape)
    reduce.check_method(method, channel.shape, cohort_size)
    streams = Streams(check_seed("rng", rng), drawn=rng is None)
    start = Step(0, method.start(shape) if state is None else state, time.perf_counter() - began)
    recorded = History() if history is None else history
    run = Run(method, channel, streams, reduce, cohort_size, rounds, recorded, start)
    interrupted = False
    with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
        for watcher in (recorded, *watchers):
            getattr(watcher, "begin", bool)(run)
        try:
            for step in iterate(method, channel, run.step, run.streams, cohort_size, reduce):
                run.step = step
                stops = [watcher(run) for watcher in (recorded, *watchers)]
                if run.step.round >= rounds or (run.step.round > 0 and any(stops)):
                    break
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            for watcher in watchers:
                with suppress(Exception):
                    getattr(watcher, "end", bool)(run)
            raise
        for watcher in (recorded, *watchers):
            getattr(watcher, "end", bool)(run)
        return _result(run, interrupted)


def _result(run: Run, interrupted: bool) -> Result:
    """What the run leaves."""
    columns = {name: np.array([row[name] for row in run.rows]) for name in run.rows[0]}
    last = _estimate(run, run.step.state, run.step.round, float("nan"))
    best = _estimate(run, run.best[2], run.best[1], run.best[0])
    if interrupted:
        advise(f"Ctrl-C ended the run after round {run.step.round} of {run.rounds}; the result is what there was")
    else:
        say_how_it_ended(run, columns.get("objective", np.full(1, np.nan)), last.coefficients)
    left_out = run.step.left_out
    return Result(*last[:3], columns, best, run.streams.seed, run.step.state, left_out, run.asked, interrupted)


def _estimate(run: Run, state: State, number: int, value: float) -> Estimate:
    coefficients, x = run.estimate(state)
    whole = np.array(dense(coefficients))
    return Estimate(np.array(x), np.flatnonzero(whole), whole, number, value)


def whole(result: Result) -> Result:
    """The result, where nothing interrupted the run; else a KeyboardInterrupt, for whoever wanted it whole."""
    if result.interrupted:
        raise KeyboardInterrupt
    return result
