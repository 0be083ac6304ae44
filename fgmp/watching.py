"""What looks on at a run: any callable that takes the `Run` and ends it by returning True.

One that has `begin` and `end` is told of both. None of them changes a bit of the run.
"""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from .advice import advise
from .checks import check_integer, check_kind, check_number, check_sequence, shown
from .models import Array, SparseModel, Support, dense
from .reducers import Reducer
from .rounds import Channel, Method, State, Step, Streams

_PAUSE = 60.0


@dataclass
class Run:
    """A run under way, as watchers see it: what `simulate` was given or has made, and its progress.

    `step` is the whole progress, `rows` the history so far, `best` the lowest objective, its round and its state.
    """

    method: Method
    channel: Channel
    streams: Streams
    reduce: Reducer
    cohort_size: int
    rounds: int
    history: History
    step: Step
    rows: list[dict[str, float]] = field(default_factory=list)
    best: tuple[float, int, State] = (np.inf, 0, None)

    def estimate(self, state: State) -> tuple[Array | SparseModel, Array]:
        """The coefficients alpha that a state stands for, and the signal x = Psi alpha."""
        coefficients = self.method.coefficients(state)
        return coefficients, self.method.dictionary.synthesise(dense(coefficients))

    def relative_error(self, x: Array) -> float:
        """||x - x#|| / ||x#||."""
        error = (x - self.channel.truth).ravel()
        return float(math.sqrt(error @ error) / self._length)

    @cached_property
    def _length(self) -> Any:
        return np.linalg.norm(np.asarray(self.channel.truth))

    @cached_property
    def asked(self) -> Support:
        """The clients whose objective is recorded."""
        return self.history.clients(self.channel, self.streams)

    def column(self, name: str) -> Array:
        """A column of the history; a ValueError names those there are."""
        if name not in self.rows[-1]:
            raise ValueError(f"column is {shown(name)}; expected one of {', '.join(map(repr, self.rows[-1]))}")
        return np.array([row[name] for row in self.rows])


@dataclass(frozen=True)
class History:
    """What a run records: columns of equal length, a row every so many rounds, the first of the start, one of the end.

    Parameters
    ----------
    every : int, default 1
        Rounds between two rows.
    metrics : mapping of str to callable, optional
        More columns: each is called with a copy of the estimate x and returns a number.
    objective_on : int, sequence of int, or None
        Whose objective is recorded: None is everybody's, which costs a product with all data; an int so many clients,
        drawn once for the run; a sequence these clients, by their place. The objective on a sample is another function
        than f: compare it only with itself. With 0 nobody is asked: there is no such column, and the best is the last.
    """

    every: int = 1
    metrics: Mapping[str, Callable[[Array], float]] = field(default_factory=dict)
    objective_on: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", check_integer("every", self.every))
        expected = "a mapping of names to callables"
        for name, metric in check_kind("metrics", self.metrics, Mapping, expected).items():
            if not isinstance(name, str) or not callable(metric):
                raise ValueError(f"metrics has {shown(metric)} for {shown(name)}; expected {expected}")

    def clients(self, channel: Channel, streams: Streams) -> Support:
        """The clients whose objective is recorded, increasing."""
        count = len(channel.weights)
        if self.objective_on is None:
            return np.arange(count)
        if isinstance(self.objective_on, (int, np.integer)):
            why = "the number of clients"
            size = check_integer("objective_on", self.objective_on, at_least=0, at_most=count, why=why)
            return streams.sample(Streams.OBJECTIVE, 0, count, size)
        places = check_sequence("objective_on", self.objective_on, "clients by their place, or how many of them")
        chosen = np.unique([check_integer("objective_on", i, at_least=0, at_most=count - 1) for i in places])
        if not channel.weights[chosen].sum() > 0:
            raise ValueError(f"objective_on names {len(chosen)} clients; expected one with a positive weight")
        return chosen

    def begin(self, run: Run) -> None:
        """Refuse what does not fit the run."""
        if run.reduce.columns(0) and self.objective_on is not None:
            raise ValueError(f"objective_on is {shown(self.objective_on)}; expected None in a run with noise")
        self.clients(run.channel, run.streams)

    def __call__(self, run: Run) -> None:
        """Record the step, where it is time."""
        if run.step.round % self.every == 0:
            self.end(run)

    def end(self, run: Run) -> None:
        """Record the step, where it is not there already."""
        step, reduce = run.step, run.reduce
        if run.rows and run.rows[-1]["round"] >= step.round:
            return
        coefficients, x = run.estimate(step.state)
        row: dict[str, float] = {"round": step.round}
        if run.channel.truth is not None:
            row["relative_error"] = run.relative_error(x)
        if not isinstance(coefficients, SparseModel) and 4 * np.count_nonzero(coefficients) < coefficients.size:
            coefficients = SparseModel.of(coefficients)
        objective = reduce.objective(run.channel, coefficients, run.asked) if len(run.asked) else None
        if objective is not None:
            row["objective"] = objective
        row |= {"seconds": step.seconds, "bytes_up": step.bytes_up, "bytes_down": step.bytes_down}
        row |= {"clients": step.clients, "left_out": step.left_out.total(), **reduce.columns(step.round)}
        for name, metric in self.metrics.items():
            row[name] = _number(name, metric(x.copy()))  # a copy each, because a metric may write into what it gets
        run.rows.append(row)
        if objective is None or not run.rows[1:] or objective < run.best[0] or np.isnan(run.best[0]):
            run.best = (float("nan") if objective is None else objective), step.round, step.state


def _number(name: str, value: Any) -> float:
    """What a metric returned, as a number; nan and infinity are some."""
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "biuf":
        raise ValueError(f"metrics[{name!r}] returned {shown(value)}; expected a number")
    return float(found) if found.dtype.kind == "f" else int(found)


class Checkpoint:
    """Keeps how far a run is in one file, and goes on from it, to the same bits as if it had never ended.

    The file is written whole or not at all: at the start, after the first round, every so many rounds, and however the
    run ends. It is a pickle: open only files of your own. That of a run with noise holds the secret of the noise; it is
    the server's, and written after every round.

    Parameters
    ----------
    path : path-like
        Where a file is there, the run goes on from it, with more rounds than before, too, or refuses it as another
        run's; ``rng=None`` then is the file's seed.
    every : int or None
        Rounds between two writings; None is one a minute.

    Raises
    ------
    ValueError
        In a run: where the file is of another method, federation, seed or options (the message says what differs), or
        cannot be read.
    OSError
        Where the first one cannot be written. Later ones that cannot are said once, and the run goes on, but for one
        with noise or secure sums, which stops.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        if not isinstance(path, (str, os.PathLike)) or Path(path).is_dir():
            raise ValueError(f"path is {shown(path)}; expected the path of a file")
        self.path = Path(path)
        self.every = None if every is None else check_integer("every", every)

    def begin(self, run: Run) -> None:
        """Go on from the file, where there is one."""
        self.saved, self.failing, self.last = -1, False, time.monotonic()
        if not self.path.exists():
            return
        name = f"checkpoint {str(self.path)!r}"
        try:
            theirs, seed, secret, (step, rows, best) = pickle.loads(self.path.read_bytes())
        except Exception as error:  # a pickle that is none may raise anything
            raise ValueError(
                f"{name} cannot be read ({type(error).__name__}: {error}); expected a file that this version wrote, or "
                "the path of one that does not exist yet"
            ) from error
        if run.streams.drawn:
            run.streams = Streams(seed)
        mine = identity(run)
        if other := [part for part in sorted(mine | theirs) if mine.get(part) != theirs.get(part)]:
            texts = [f"{part} is {mine.get(part, 'absent')}, not {theirs.get(part, 'absent')}" for part in other]
            raise ValueError(
                f"{name} is of another run: {'; '.join(texts)}; expected the same run, or the path of a file that does "
                "not exist yet"
            )
        if step.round > run.rounds:
            raise ValueError(f"rounds is {run.rounds}; expected at least {step.round}, which {name} has")
        run.step, run.rows, run.best = step, rows, best
        if secret:
            object.__setattr__(run.reduce, "secret", secret)
        self.saved = step.round

    def __call__(self, run: Run) -> None:
        """Write, where it is time."""
        number, elapsed = run.step.round, time.monotonic() - self.last >= _PAUSE
        due = elapsed if self.every is None else number % self.every == 0
        if due or number <= 1 or run.reduce.secret:  # what a round released with noise is released once
            self.end(run)

    def end(self, run: Run) -> None:
        """Write, where the step is not there already."""
        if run.step.round == self.saved:
            return
        rows = [row for row in run.rows if row["round"] % run.history.every == 0]  # others a longer run has not
        kept = identity(run), run.streams.seed, run.reduce.secret, (run.step, rows, run.best)
        partial, mode = Path(f"{self.path}.partial"), 0o600 if run.reduce.secret else 0o666
        try:
            with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
                pickle.dump(kept, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
            self.saved, self.failing = run.step.round, False
        except OSError as error:
            if self.saved < 0 or run.reduce.secret:  # what such a run releases it has to remember
                reason = f"checkpoint cannot be written ({error.strerror}); expected a path to write to"
                raise OSError(error.errno, reason, str(self.path)) from error
            if not self.failing:
                advise(
                    f"the checkpoint of round {run.step.round} could not be written to {str(self.path)!r} "
                    f"({error.strerror}); the run goes on, and the one of round {self.saved} is still there"
                )
            self.failing = True
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        self.last = time.monotonic()


def identity(run: Run) -> dict[str, str]:
    """What makes a run another run, by name: the seed, the method, the data, and what is reduced and recorded."""
    options = {"cohort_size": run.cohort_size, "reduce": run.reduce, "every": run.history.every}
    recorded = {"objective_on": run.history.objective_on, "metrics": tuple(run.history.metrics)}
    things = {"seed": run.streams.seed, "method": run.method} | run.channel.identity() | options | recorded
    return {name: text for key, thing in things.items() for name, text in _named(key, thing)}


def _named(name: str, thing: Any) -> list[tuple[str, str]]:
    """A thing as names and short texts: a dataclass field by field, an array by its checksum."""
    if is_dataclass(thing) and not isinstance(thing, type):
        parts = [p for f in fields(thing) if f.repr for p in _named(f"{name}.{f.name}", getattr(thing, f.name))]
        return [(name, type(thing).__name__), *parts]
    if isinstance(thing, (bool, int, float, str, type(None))):
        return [(name, repr(thing))]
    if isinstance(thing, tuple):
        return [(name, f"{len(thing)} of them"), *(p for i, x in enumerate(thing) for p in _named(f"{name}.{i}", x))]
    try:
        return [(name, f"{type(thing).__name__} {joblib.hash(thing)}")]
    except (pickle.PicklingError, TypeError, AttributeError):
        return [(name, type(thing).__qualname__)]


def stop_at(below: float, column: str = "relative_error") -> Callable[[Run], bool]:
    """A watcher that ends a run once a column of its history is at most `below`.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=1000, rng=0, watch=[fgmp.stop_at(1e-6)])
    >>> int(result.history["round"][-1]) < 10
    True
    """
    below = check_number("below", below)
    check_kind("column", column, str, "the name of a column of the history")
    return lambda run: bool(run.column(column)[-1] <= below)


def stop_when_stalled(patience: int, column: str = "objective", improvement: float = 1e-3) -> Callable[[Run], bool]:
    """A watcher that ends a run when `patience` records in a row did not improve a column.

    The lowest value so far has to fall by more than the fraction `improvement` to count as better.
    """
    patience = check_integer("patience", patience)
    improvement = check_number("improvement", improvement, at_least=0)
    check_kind("column", column, str, "the name of a column of the history")

    def stalled(run: Run) -> bool:
        values = np.nan_to_num(run.column(column), nan=np.inf, posinf=np.inf)
        if len(values) <= patience:
            return False
        before, since = values[:-patience].min(), values[-patience:].min()
        return bool(since >= (before - improvement * abs(before) if np.isfinite(before) else before))

    return stalled


class Bar:
    """A bar that shows how far a run is (tqdm)."""

    def begin(self, run: Run) -> None:
        """Draw it."""
        from tqdm import tqdm

        self.bar = tqdm(total=run.rounds, desc=type(run.method).__name__, unit="round")

    def __call__(self, run: Run) -> None:
        """Move it."""
        self.bar.update(run.step.round - self.bar.n)

    def end(self, run: Run) -> None:
        """Leave it."""
        self.bar.close()


def watchers_of(watch: Any) -> list[Any]:
    """Watchers, one or several; a ValueError where one is none."""
    found = list(watch) if isinstance(watch, Iterable) else [watch]
    for each in found:
        if not callable(each):
            expected = "watchers such as fgmp.stop_at(1e-6) or fgmp.Checkpoint(path)"
            raise ValueError(f"watch has {shown(each)}; expected {expected}")
    return found
