"""The round loop, over any transport: draws cohorts, plays rounds, keeps the books and the checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..advice import InterruptedWarning, advise
from ..checks import Seed, check_integer, check_mapping, check_protocol, check_seed, check_sequence, check_truth, shown
from ..methods.contract import Method, State, check_method, seeded
from ..models import Support
from ..shapes import Shape
from .books import Books, Metric, Progress, Totals
from .checkpoints import Keeper
from .closing import advise_at_the_end, is_above_its_start
from .privacy import GaussianNoise, check_private, new_secret, public_shape
from .randomness import draw_cohort
from .results import Best, Estimate, Result
from .rounds import play_round
from .secure_sums import SecureSum
from .stopping import Callback
from .summing import collector_for
from .transports import Transport

__all__ = ["federate"]


def federate(
    method: Method,
    transport: Transport,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    record_every: int = 1,
    metrics: Mapping[str, Metric] | None = None,
    callback: Callback | Iterable[Callback] = (),
    objective_on: int | Sequence[int] | Support | None = None,
    best_by: str = "objective",
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    secure: SecureSum | None = None,
    private: GaussianNoise | None = None,
) -> Result:
    """Run a federated method over a transport: the server's part of a run, wherever the clients are.

    `simulate` is this loop over a transport within the process; with the same seed and the same data any other one ends
    in the same bits, the seconds apart.

    Parameters
    ----------
    method : Method
    transport : Transport
        How messages travel: see `fgmp.running.transports.Transport`.
    rounds, cohort_size, rng
        As in `simulate`.
    record_every, metrics, callback, objective_on, best_by, progress, checkpoint, every, secure, private
        As in `simulate`. The objective is the mean over those who say theirs; with noise nobody is asked. `secure` and
        `private` go together within a process only.

    Returns
    -------
    Result
        As `simulate` returns it.

    Raises
    ------
    ValueError, ImportError, OSError, TypeError
        As `simulate`.

    Examples
    --------
    >>> import fgmp
    >>> from fgmp.running.transports import InProcess
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> here = fgmp.federate(fgmp.FedGradMP(sparsity=4), InProcess(federation), rounds=3, rng=0)
    >>> bool((here.x == fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=3, rng=0).x).all())
    True
    """
    method = check_method("method", method)
    check_protocol("transport", transport, ("prepare", "answers", "objectives"), "a Transport, such as InProcess(...)")
    shape = transport.shape
    rounds = check_integer("rounds", rounds, at_least=0)
    record_every = check_integer("record_every", record_every)
    cohort_size = shape.check_cohort(cohort_size)
    keeper = _keeper(checkpoint, every)
    seed = keeper.found.seed if rng is None and keeper and keeper.found else check_seed("rng", rng)
    method = seeded(method, seed)
    check_private(private)
    if private is not None:
        shape = public_shape(shape, private)
        if objective_on is not None:
            raise ValueError(
                f"objective_on is {shown(objective_on)}; expected None, as private is given: no objectives"
            )
        if secure is not None and hasattr(transport, "secure_sum"):
            raise ValueError("private is given, and the answers are summed by the clients; expected one of the two")
    method.check(shape)
    progress = check_truth("progress", progress)
    callbacks = _callbacks(callback)
    metrics = _metrics(metrics)
    evaluated = _clients_evaluated(shape, objective_on, seed) if private is None else np.empty(0, np.intp)
    secret = b"" if private is None else new_secret(private)
    if keeper:
        secret = keeper.secret = keeper.secret or secret
    collector = collector_for(method, shape.n_clients, cohort_size, rounds, secure, private, secret)
    summed = None
    if secure is not None and private is None:
        summed = secure.of_objectives(int(np.count_nonzero(shape.weights[evaluated])), cohort_size)

    began = time.perf_counter()
    transport.prepare(method, seed)
    start = method.start(shape)
    left_out = transport.left_out if private is None else ()
    used = Totals(time.perf_counter() - began, left_out=left_out, epsilon=collector.epsilon(0))
    reached = Progress(0, start, used)
    books = Books(method, transport, metrics, evaluated, best_by, summed)
    earlier = None
    if keeper:
        options = {"cohort_size": cohort_size, "record_every": record_every, "objective_on": evaluated}
        options |= {"best_by": best_by, "metrics": ", ".join(metrics)} | collector.options()
        earlier = keeper.go_on({"method": method, **options, **transport.fingerprint()}, seed, rounds)
    if earlier is None:
        reached = books.record(reached)
    else:
        reached = earlier[0]
        books.take(earlier[1])

    def keep() -> None:
        if keeper:
            keeper.save(reached, books.history(reached))

    def is_stopped() -> bool:
        return reached.number > 0 and any(stop(books.history(reached)) for stop in callbacks)

    interrupted = False
    bar = tqdm(total=rounds, initial=reached.number, desc=type(method).__name__, unit="round", disable=not progress)
    try:
        keep()
        with bar, transport:
            while not (reached.number % record_every == 0 and is_stopped()) and reached.number < rounds:
                if collector.private is None:
                    cohort = draw_cohort(seed, reached.number + 1, shape.n_clients, cohort_size)
                else:
                    cohort = collector.private.cohort(reached.number + 1, cohort_size)
                with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
                    played = play_round(method, reached, transport, shape.weights, cohort, seed, collector)
                    # One assignment: wherever Ctrl-C comes, `reached` is a whole round.
                    reached = books.record(played) if played.number % record_every == 0 else played
                if keeper and keeper.due(reached):
                    keep()
                bar.update()
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:
        with suppress(Exception):
            keep()
        raise
    keep()
    if reached.number % record_every:  # kept without this row, which a run of more rounds has not
        reached = books.record(reached)
        interrupted or is_stopped()
    named = None if objective_on is None else evaluated
    return _result(method, reached, books, seed, named, interrupted, rounds, private is not None)


def _result(
    method: Method,
    reached: Progress,
    books: Books,
    seed: int,
    evaluated: Support | None,
    interrupted: bool,
    rounds: int,
    is_private: bool,
) -> Result:
    """What the run leaves, and what it says at its end."""
    last = _model(method, reached.state)
    history = {name: column.copy() for name, column in books.history(reached).items()}
    assert reached.lead is not None
    leading = _model(method, reached.lead.state)
    best = Best(*leading, reached.lead.round, reached.lead.value, "last" if books.last_leads else books.best_by)
    ended = last
    if not is_private:
        with np.errstate(over="ignore", invalid="ignore"):
            ended = leading if is_above_its_start(books.clients, last.coefficients, history["objective"]) else last
    if interrupted:
        advise(
            f"Ctrl-C ended the run after round {reached.number} of {rounds}; the result is what there was",
            InterruptedWarning,
        )
    elif not is_private:
        with np.errstate(over="ignore", invalid="ignore"):
            advise_at_the_end(method, books.clients, last.coefficients, history, ended is not last)
    return Result(*ended, history, seed, reached.state, best, last, evaluated, interrupted)


def _model(method: Method, state: State) -> Estimate:
    """What a state stands for."""
    coefficients = np.array(method.coefficients(state))
    return Estimate(np.array(method.estimate(state)), np.flatnonzero(coefficients), coefficients)


def _keeper(checkpoint: Any, every: int | None) -> Keeper | None:
    """Who keeps the checkpoints, where there are to be any."""
    if every is not None:
        every = check_integer("every", every)
        if checkpoint is None:
            raise ValueError(f"every is {every} and there is no checkpoint; expected a path as checkpoint")
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, (str, os.PathLike)) or Path(checkpoint).is_dir():
        raise ValueError(f"checkpoint is {shown(checkpoint)}; expected the path of a file")
    return Keeper(checkpoint, every)


def _callbacks(callback: Any) -> list[Callback]:
    """What is called after each recorded round."""
    expected = "a callable, or several, such as fgmp.stop_at(1e-6)"
    found = [callback] if callable(callback) else check_sequence("callback", callback, expected)
    for each in found:
        if not callable(each):
            raise ValueError(f"callback has {shown(each)}; expected {expected}")
    return found


def _metrics(metrics: Any) -> dict[str, Metric]:
    """More columns, by name."""
    expected = "a mapping of names to callables"
    found = check_mapping("metrics", {} if metrics is None else metrics, expected)
    for name, metric in found.items():
        if not isinstance(name, str) or not callable(metric):
            raise ValueError(f"metrics has {shown(metric)} for {shown(name)}; expected {expected}")
    return found


def _clients_evaluated(shape: Shape, objective_on: int | Sequence[int] | Support | None, seed: int) -> Support:
    """The clients whose mean objective is recorded, increasing."""
    n_clients = shape.n_clients
    if objective_on is None:
        return np.arange(n_clients)
    if isinstance(objective_on, (int, np.integer)) or not isinstance(objective_on, (Iterable, np.ndarray)):
        count = check_integer("objective_on", objective_on, at_most=n_clients, why="the number of clients")
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        chosen = np.sort(generator.choice(n_clients, count, replace=False))
    else:
        places = check_sequence("objective_on", objective_on, "clients by their place, or how many of them")
        named = [check_integer("objective_on", i, at_least=0, at_most=n_clients - 1) for i in places]
        chosen = np.unique(np.array(named, np.intp))
    if not shape.weights[chosen].sum() > 0:
        raise ValueError(f"objective_on names {len(chosen)} clients of weight 0; expected one with a positive weight")
    return chosen
