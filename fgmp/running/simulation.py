"""The round loop: draws cohorts, plays rounds, keeps the books and the checkpoints."""

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
from ..checks import Seed, check_integer, check_mapping, check_seed, check_sequence, check_truth, shown
from ..federation import Federation, check_federation
from ..methods.answers import REASONS
from ..methods.contract import Method, State, check_method, seeded
from ..methods.kernels import is_readable
from ..models import Array, Support
from .books import Books, Metric, Progress, Totals
from .checkpoints import Keeper
from .closing import advise_at_the_end
from .faults import Fault, Faults, check_faults
from .fingerprints import fingerprint
from .privacy import GaussianNoise
from .results import Best, Result
from .rounds import draw_cohort, play_round
from .secure_sums import SecureSum
from .state_codec import classes_for
from .stopping import Callback
from .summing import collector_for
from .workers import Alone, Workers

__all__ = ["simulate"]


def simulate(
    method: Method,
    federation: Federation,
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
    workers: int = 1,
    readable: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    faults: Fault | Iterable[Fault] | None = None,
    secure: SecureSum | None = None,
    private: GaussianNoise | None = None,
) -> Result:
    """Run a federated method on a federation, on this machine.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    federation : Federation
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has random numbers of its own, which depend on the
        seed, the round and the client's key: not on the order of the clients, nor on who else takes part.
    record_every : int, default 1
        Rounds between two entries of the history; the last round is always recorded.
    metrics : mapping of str to callable, optional
        More columns of the history: each is called with a copy of the estimate x and returns a number.
    callback : callable or several
        Called with the history after each recorded round; the run stops where one returns True. `stop_at` and
        `stop_when_stalled` make the usual ones.
    objective_on : int, sequence of int, or None
        Whose objective the history holds: None is everybody's, which costs a product with all data at every record;
        an int so many clients, drawn once; a sequence these clients, by their place in the federation. The result
        names them. The objective on a sample is another function than f: compare it only with itself.
    best_by : str, default "objective"
        The column of the history by which `Result.best` is chosen, the lowest being best and the first of equals: a
        metric whose highest value is best has to be negated.
    progress : bool, default False
        Whether to show a bar.
    workers : int, default 1
        Processes that share the clients of a round (joblib). The result does not depend on it, but for the seconds,
        which are then those that pass. It pays where a round takes more than about 50 ms.
    readable : bool, default False
        Whether clients run the loops as the pseudo-code has them, which a debugger can step through, instead of fast
        kernels; ``FGMP_READABLE=1`` in the environment does the same. The numbers are the same but for rounding.
    checkpoint : path-like, optional
        A file that keeps how far the run is. Where it exists the run goes on from there, to the same bits as if it had
        never ended, the seconds apart; with more `rounds` than before, too. ``rng=None`` then is the seed of the file.
        It is written at the start, after the first round, every `every` rounds, and however the run ends, and the one
        before stays beside it as ``.previous``.
    every : int or None
        The rounds between two checkpoints; None is one a minute.
    faults : Fault or several, optional
        What goes wrong with clients, for example ``fgmp.DropOut(probability=0.1)``: see `fgmp.running.faults`. With
        faults, even none in an empty list, the history counts the answers left out so far by reason:
        ``left_out_missing``, ``_late``, ``_not_finite``, ``_malformed``, ``_indices`` (out of range, repeated, not in
        order) and ``_too_many``, one for each client and exchange.

    secure : SecureSum, optional
        Run the arithmetic of secure aggregation: the server sees the answers to additive exchanges under masks, and
        their sum as whole multiples of a resolution. The bytes are those of the protocol. Answers are checked by the
        clients, before they are masked; whose answer does not pass, or does not arrive, drops out.
    private : GaussianNoise, optional
        Clip every client's answer and add Gaussian noise to the sums. The history has what was spent so far as
        ``epsilon``.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range; where the checkpoint is of
        another method, federation, seed or options (the message says what differs), or damaged, and the previous too;
        where `secure` or `private` meet a method that is not additive, an answer is beyond the range of secure sums, or
        fewer clients than their threshold are left in a round.
    ImportError
        Where `secure` or `private` need a package that is not installed.
    OSError
        Where the first checkpoint cannot be written.
    TypeError
        Where a method's state holds what a checkpoint cannot: see `fgmp.running.state_codec`.

    Warns
    -----
    AdviceWarning
        At most once each in a run: `FewRowsWarning` and `SmallSiteWarning` by the method before it starts,
        `RisingObjectiveWarning` where the last model is above the start or gave back a tenth of what had been gained,
        `SeparationWarning` where a model without a radius leaves no row on the wrong side, `CheckpointWarning` where a
        checkpoint is damaged and the previous one is used, or could not be written and the run goes on,
        `InterruptedWarning` after Ctrl-C.

    Notes
    -----
    An answer that is not finite, or not what was asked for (other names, shapes or types, indices out of range or
    repeated, more entries than allowed), is left out of that exchange, and the weights are scaled to the rest; an
    exchange that nobody answers ends the round and leaves the model as it was.

    Ctrl-C gives up the round under way and returns what there is, with ``result.interrupted`` true.

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
    method, federation = check_method("method", method), check_federation("federation", federation)
    rounds = check_integer("rounds", rounds, at_least=0)
    record_every = check_integer("record_every", record_every)
    cohort_size = federation.check_cohort(cohort_size)
    keeper = _keeper(checkpoint, every)
    seed = keeper.found.seed if rng is None and keeper and keeper.found else check_seed("rng", rng)
    method = seeded(method, seed)
    method.check(federation)
    workers = check_integer("workers", workers)
    progress, readable = check_truth("progress", progress), check_truth("readable", readable)
    callbacks = _callbacks(callback)
    metrics = _metrics(metrics)
    evaluated = _clients_evaluated(federation, objective_on, seed)
    given = check_faults(faults)
    collector = collector_for(method, federation.n_clients, cohort_size, rounds, secure, private)
    plan = None if given is None else Faults(given, seed, [client.key for client in federation.clients])

    began = time.perf_counter()
    clients = [method.prepare(client) for client in federation.clients]
    reached = Progress(
        0,
        method.start(federation),
        Totals(
            time.perf_counter() - began,
            left_out=() if plan is None else (0,) * len(REASONS),
            epsilon=collector.epsilon(0),
        ),
    )
    books = Books(method, federation, clients, metrics, evaluated, best_by)
    earlier = None
    if keeper:
        options = {"cohort_size": cohort_size, "record_every": record_every, "objective_on": evaluated}
        options |= {
            "best_by": best_by,
            "metrics": ", ".join(metrics),
            "readable": is_readable(readable),
            "faults": given,
        } | collector.options()
        run, types = fingerprint(method, federation, seed, options), classes_for(method, reached.state)
        earlier = keeper.go_on(run, types, rounds)
    if earlier is None:
        reached = books.record(reached)
    else:
        reached = earlier[0]
        books.take(earlier[1])

    def keep() -> None:
        if keeper:
            keeper.save(reached, books.history(reached))
            books.release()

    def is_stopped() -> bool:
        return reached.number > 0 and any(stop(books.history(reached)) for stop in callbacks)

    interrupted = False
    bar = tqdm(total=rounds, initial=reached.number, desc=type(method).__name__, unit="round", disable=not progress)
    try:
        keep()
        with (
            bar,
            Alone(method, clients, readable) if workers == 1 else Workers(method, clients, workers, readable) as crowd,
        ):
            while not (reached.number % record_every == 0 and is_stopped()) and reached.number < rounds:
                cohort = draw_cohort(seed, reached.number + 1, federation.n_clients, cohort_size)
                with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
                    played = play_round(method, reached, crowd, federation.weights, cohort, seed, plan, collector)
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
    return _result(method, reached, books, seed, None if objective_on is None else evaluated, interrupted, rounds)


def _result(
    method: Method,
    reached: Progress,
    books: Books,
    seed: int,
    evaluated: Support | None,
    interrupted: bool,
    rounds: int,
) -> Result:
    """What the run leaves, and what it says at its end."""
    x, support, coefficients = _model(method, reached.state)
    history = {name: column.copy() for name, column in books.history(reached).items()}
    assert reached.lead is not None
    best = Best(*_model(method, reached.lead.state), reached.lead.round, reached.lead.value, books.best_by)
    if interrupted:
        advise(
            f"Ctrl-C ended the run after round {reached.number} of {rounds}; the result is what there was",
            InterruptedWarning,
        )
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            advise_at_the_end(method, books.clients, coefficients, history)
    return Result(x, support, coefficients, history, seed, reached.state, best, evaluated, interrupted)


def _model(method: Method, state: State) -> tuple[Array, Support, Array]:
    """Estimate, support and coefficients of a state."""
    coefficients = np.array(method.coefficients(state))
    return np.array(method.estimate(state)), np.flatnonzero(coefficients), coefficients


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


def _clients_evaluated(
    federation: Federation, objective_on: int | Sequence[int] | Support | None, seed: int
) -> Support:
    """The clients whose mean objective is recorded, increasing."""
    n_clients = federation.n_clients
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
    if not federation.weights[chosen].sum() > 0:
        raise ValueError(f"objective_on names {len(chosen)} clients of weight 0; expected one with a positive weight")
    return chosen
