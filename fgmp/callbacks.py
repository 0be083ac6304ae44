"""Callbacks: callables invoked with the `Run` after every round. Returning True stops the run.

One that has `begin` and `end` is told of both. None of them changes a bit of the run.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import joblib
import numpy as np

from ._support.optional import needs
from ._support.validation import check_integer, check_kind, check_number, check_sequence, short_repr
from ._support.warnings import warn_user
from .aggregation import Aggregator
from .rounds import Method, State, Step, Streams, Transport
from .sparse_model import Array, IndexArray, SparseModel, dense

try:
    import fcntl
except ImportError:  # not a POSIX system: there two runs on one path are not noticed
    fcntl = None  # type: ignore[assignment]

_PAUSE = 60.0
# The columns that a run has of its own, some of them under some aggregators only.
_COLUMNS = (
    "round relative_error objective seconds bytes_up bytes_down clients rejected epsilon".split()
)
# A checkpoint is one line, "fgmp checkpoint FORMAT SHA256", and a pickle, whose checksum this is.
_NAME, _FORMAT = "fgmp checkpoint", 2
_HEAD = len(f"{_NAME} {_FORMAT} {hashlib.sha256().hexdigest()}\n")


@dataclass
class Run:
    """A run under way, as callbacks see it: what `simulate` was given or has made, and its progress.

    `step` is the whole progress, `rows` the history so far, `best` the lowest objective, its round and its state.
    """

    method: Method
    transport: Transport
    streams: Streams
    aggregator: Aggregator
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
        error = (x - self.transport.truth).ravel()
        return float(math.sqrt(error @ error) / self._length)

    @cached_property
    def _length(self) -> Any:
        return np.linalg.norm(np.asarray(self.transport.truth))

    @cached_property
    def asked(self) -> IndexArray:
        """The clients whose objective is recorded."""
        return self.history.clients(self.transport, self.streams)

    def column(self, name: str) -> Array:
        """A column of the history; a ValueError names those there are."""
        if name not in self.rows[-1]:
            raise ValueError(
                f"column is {short_repr(name)}; expected one of {', '.join(map(repr, self.rows[-1]))}"
            )
        return np.array([row[name] for row in self.rows])


@dataclass(frozen=True)
class History:
    """What a run records: columns of equal length, a row every so many rounds, the first of the start, one of the end.

    Parameters
    ----------
    every : int, default 1
        Rounds between two rows.
    metrics : mapping of str to callable, optional
        More columns, under names that no column has: each is called with a copy of the estimate x and returns a number.
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
                raise ValueError(
                    f"metrics has {short_repr(metric)} for {short_repr(name)}; expected {expected}"
                )
        _check_names(self.metrics, _COLUMNS)

    def clients(self, transport: Transport, streams: Streams) -> IndexArray:
        """The clients whose objective is recorded, increasing."""
        count = len(transport.weights)
        if self.objective_on is None:
            return np.arange(count)
        if isinstance(self.objective_on, (int, np.integer)):
            why = "the number of clients"
            size = check_integer(
                "objective_on", self.objective_on, at_least=0, at_most=count, why=why
            )
            return streams.sample(Streams.OBJECTIVE, 0, count, size)
        indices = check_sequence(
            "objective_on", self.objective_on, "clients by their place, or how many of them"
        )
        chosen = np.unique(
            [check_integer("objective_on", i, at_least=0, at_most=count - 1) for i in indices]
        )
        if not transport.weights[chosen].sum() > 0:
            raise ValueError(
                f"objective_on names {len(chosen)} clients; expected one with a positive weight"
            )
        return chosen

    def begin(self, run: Run) -> None:
        """Refuse what does not fit the run."""
        if run.aggregator.extra_metrics(0) and self.objective_on is not None:
            raise ValueError(
                f"objective_on is {short_repr(self.objective_on)}; expected None in a run with noise"
            )
        _check_names(self.metrics, run.aggregator.extra_metrics(0))
        self.clients(run.transport, run.streams)

    def __call__(self, run: Run) -> None:
        """Record the step, where it is time."""
        if run.step.round % self.every == 0:
            self.end(run)

    def end(self, run: Run) -> None:
        """Record the step, where it is not there already."""
        step, aggregator = run.step, run.aggregator
        if run.rows and run.rows[-1]["round"] >= step.round:
            return
        coefficients, x = run.estimate(step.state)
        row: dict[str, float] = {"round": step.round}
        if run.transport.truth is not None:
            row["relative_error"] = run.relative_error(x)
        if (
            not isinstance(coefficients, SparseModel)
            and 4 * np.count_nonzero(coefficients) < coefficients.size
        ):
            coefficients = SparseModel.of(coefficients)
        objective = (
            aggregator.objective(run.transport, coefficients, run.asked) if len(run.asked) else None
        )
        if objective is not None:
            row["objective"] = objective
        row |= {"seconds": step.seconds, "bytes_up": step.bytes_up, "bytes_down": step.bytes_down}
        row |= {
            "clients": step.clients,
            "rejected": step.rejected.total(),
            **aggregator.extra_metrics(step.round),
        }
        for name, metric in self.metrics.items():
            row[name] = _number(
                name, metric(x.copy())
            )  # a copy each, because a metric may write into what it gets
        if objective is None or not run.rows or objective < run.best[0] or np.isnan(run.best[0]):
            run.best = (float("nan") if objective is None else objective), step.round, step.state
        run.rows.append(row)  # last, so that Ctrl-C before it leaves nothing out


def _check_names(metrics: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Refuse a metric that would overwrite a column."""
    for name in columns:
        if name in metrics:
            raise ValueError(
                f"metrics has {name!r}, a column that runs have; expected another name"
            )


def _number(name: str, value: Any) -> float:
    """What a metric returned, as a number; nan and infinity are some."""
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "biuf":
        raise ValueError(f"metrics[{name!r}] returned {short_repr(value)}; expected a number")
    return float(found) if found.dtype.kind == "f" else int(found)


class Checkpoint:
    """Keeps how far a run is in one file, and goes on from it, to the same bits as if it had never ended.

    The file is written whole or not at all: at the start, after the first round, every so many rounds, and however the
    run ends: also of Ctrl-C, and of SIGTERM and SIGHUP in the main thread, where the program does not handle them
    itself. It has the mode 600, and a checksum, which is compared before anything is read. It is a pickle: open only
    files of your own. That of a run with noise holds the secret of the noise; it is the server's, and written after
    every round.

    Parameters
    ----------
    path : path-like
        Where a file is there, the run goes on from it, with more rounds than before, too, or refuses it as another
        run's; ``rng=None`` then is the file's seed. Where it is a link, the file that it points to is meant.
    every : int or None
        Rounds between two writings; None is one a minute.

    Raises
    ------
    ValueError
        In a run: where the file is of another method, federation, seed or options (the message says what differs), or
        is damaged, of another version of fgmp, or no checkpoint.
    OSError
        Where another run is under way on the same path, or the first one cannot be written. Later ones that cannot are
        said once, and the run goes on, but for one with noise or secure sums, which stops.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        if not isinstance(path, (str, os.PathLike)) or Path(path).is_dir():
            raise ValueError(f"path is {short_repr(path)}; expected the path of a file")
        self.path = Path(path)
        self.every = None if every is None else check_integer("every", every)

    def begin(self, run: Run) -> None:
        """Go on from the file, where there is one."""
        target = Path(os.path.realpath(self.path))
        lock = _Lock(
            target
        )  # before all else, for another run may be under way with this very object
        self.run: Run | None = run
        self.target, self.lock, self.signals = target, lock, _Signals()
        self.saved, self.failing, self.last = -1, False, time.monotonic()
        known = identity(run)  # once: data are hashed for it
        if target.exists():
            self._go_on(run, known)
        self.identity = known | {"seed": repr(run.streams.seed)}

    def _go_on(self, run: Run, mine: dict[str, str]) -> None:
        """Put the run where the file is."""
        name = f"checkpoint {str(self.path)!r}"
        theirs, seed, secret, (step, rows, best) = _read(name, self.target)
        if run.streams.drawn:
            run.streams = Streams(seed)
            mine = mine | {"seed": repr(seed)}
        if other := [part for part in sorted(mine | theirs) if mine.get(part) != theirs.get(part)]:
            texts = [
                f"{part} is {mine.get(part, 'absent')}, not {theirs.get(part, 'absent')}"
                for part in other
            ]
            raise ValueError(
                f"{name} is of another run: {'; '.join(texts)}; expected the same run, or the path of a file that does "
                "not exist yet"
            )
        if step.round > run.rounds:
            raise ValueError(
                f"rounds is {run.rounds}; expected at least {step.round}, which {name} has"
            )
        run.step, run.rows, run.best = step, rows, best
        if secret:
            object.__setattr__(run.aggregator, "secret", secret)
        self.saved = step.round

    def __call__(self, run: Run) -> None:
        """Write, where it is time."""
        number, elapsed = run.step.round, time.monotonic() - self.last >= _PAUSE
        due = elapsed if self.every is None else number % self.every == 0
        if (
            due or number <= 1 or run.aggregator.secret
        ):  # what a round released with noise is released once
            self.write(run)

    def end(self, run: Run) -> None:
        """Write a last time, and let go of the file and of the signals."""
        if vars(self).get("run") is not run:  # it was refused
            return
        try:
            if run.rows:  # else it never began
                self.write(run)
        except (KeyboardInterrupt, SystemExit):
            self.write(run)  # that was cut off
            raise
        finally:
            self.run = None
            self.signals.restore()
            self.lock.release()

    def write(self, run: Run) -> None:
        """Write, where the step is not there already."""
        if run.step.round == self.saved:
            return
        rows = [
            row for row in run.rows if row["round"] % run.history.every == 0
        ]  # others a longer run has not
        kept = self.identity, run.streams.seed, run.aggregator.secret, (run.step, rows, run.best)
        try:
            _write(self.target, pickle.dumps(kept))
            self.saved, self.failing = run.step.round, False
        except OSError as error:
            if (
                self.saved < 0 or run.aggregator.secret
            ):  # what such a run releases it has to remember
                reason = (
                    f"checkpoint cannot be written ({error.strerror}); expected a path to write to"
                )
                raise OSError(error.errno, reason, str(self.path)) from error
            if not self.failing:
                warn_user(
                    f"the checkpoint of round {run.step.round} could not be written to {str(self.path)!r} "
                    f"({error.strerror}); the run goes on, and the one of round {self.saved} is still there"
                )
            self.failing = True
        self.last = time.monotonic()


def _read(name: str, path: Path) -> Any:
    """What a checkpoint holds; a ValueError where the file is none of this format, or not as it was written."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{name} cannot be read ({error.strerror}); expected a file that may be read"
        ) from error
    head, pickled = whole[:_HEAD], whole[_HEAD:]
    expected = "or the path of a file that does not exist yet"
    if not head.startswith(f"{_NAME} {_FORMAT} ".encode()):
        what = (
            "is of another version of fgmp"
            if head.startswith(_NAME.encode()) or head[:1] == b"\x80"
            else "is none"
        )
        raise ValueError(
            f"{name} cannot be read ({what}); expected a file that this version wrote, {expected}"
        )
    if head != _head_of(pickled):
        found = "is damaged: its checksum is another one than at its beginning"
        raise ValueError(
            f"{name} cannot be read ({found}); expected a file that this version wrote, {expected}"
        )
    try:
        return pickle.loads(pickled)
    except (
        Exception
    ) as error:  # whole, but of classes that are not there, or are not what they were
        raise ValueError(
            f"{name} cannot be read ({type(error).__name__}: {error}); expected the classes that it was written with, "
            f"{expected}"
        ) from error


def _head_of(pickled: bytes) -> bytes:
    return f"{_NAME} {_FORMAT} {hashlib.sha256(pickled).hexdigest()}\n".encode()


def _write(path: Path, pickled: bytes) -> None:
    """Write a checkpoint beside its path, into a file that is new and nobody else's, and rename it."""
    beside = Path(f"{path}.partial")
    beside.unlink(missing_ok=True)  # of a run that was killed, or a link that somebody put there
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(beside, "wb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
            file.write(_head_of(pickled))
            file.write(pickled)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


class _Lock:
    """That one run at a time writes to a path: the lock of a file beside it, which the kernel keeps while we live.

    Where no such file can be made, nothing is locked: there a checkpoint cannot be written either.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.file = Path(f"{path}.lock"), -1
        while fcntl is not None and self.file < 0:
            try:
                found = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except OSError:
                return
            try:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                number = os.read(found, 20).decode(errors="replace") or "?"
                os.close(found)
                reason = f"checkpoint is another run's, which is under way (process {number}); expected one run a path"
                raise BlockingIOError(error.errno, reason, str(path)) from None
            except OSError:  # a file system without locks
                os.close(found)
                return
            if self._is_there(found):
                self.file = found
                with suppress(OSError):  # a full disk: then the number is not said
                    os.truncate(found, 0)
                    os.write(found, str(os.getpid()).encode())
            else:  # its last owner removed it, between our opening and our locking
                os.close(found)

    def _is_there(self, found: int) -> bool:
        try:
            return os.path.samestat(os.fstat(found), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the file, while it is still locked, and close it."""
        if self.file < 0:
            return
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        os.close(self.file)
        self.file = -1


class _Signals:
    """SIGTERM and SIGHUP end a run as SystemExit, so that its checkpoint is written first.

    In the main thread; where the program handles or ignores one itself, that stays as it is.
    """

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.process = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            return
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._end)
                self.handled.append(number)

    def _end(self, number: int, frame: Any) -> None:
        self.restore()  # a second one ends the process at once
        if os.getpid() == self.process:
            raise SystemExit(128 + number)
        os.kill(os.getpid(), number)  # a child that somebody forked, whose run it is not

    def restore(self) -> None:
        """Let the system handle them again, as before."""
        while self.handled:
            number = self.handled.pop()
            if signal.getsignal(number) == self._end:
                signal.signal(number, signal.SIG_DFL)


def identity(run: Run) -> dict[str, str]:
    """What makes a run another run, by name: the seed, the method, the data, and what is reduced and recorded."""
    options = {
        "cohort_size": run.cohort_size,
        "aggregator": run.aggregator,
        "every": run.history.every,
    }
    recorded = {"objective_on": run.history.objective_on, "metrics": tuple(run.history.metrics)}
    things = (
        {"seed": run.streams.seed, "method": run.method}
        | run.transport.identity()
        | options
        | recorded
    )
    return {name: text for key, thing in things.items() for name, text in _named(key, thing)}


def _named(name: str, thing: Any, around: tuple[int, ...] = ()) -> list[tuple[str, str]]:
    """A thing as names and short texts: an object field by field, an array by its checksum, a function by its code.

    `around` are the functions that it was found in, which may hold themselves.
    """
    if isinstance(thing, (bool, int, float, str, type(None))):
        return [(name, repr(thing))]
    if isinstance(thing, tuple):
        parts = [
            part for i, each in enumerate(thing) for part in _named(f"{name}.{i}", each, around)
        ]
        return [(name, f"{len(thing)} of them"), *parts]
    known = _parts_of(thing)
    if known is None:
        return [(name, _checksum_of(thing))]
    if id(thing) in around:
        return [(name, "itself")]
    kind, members = known
    inner = (*around, id(thing))
    parts = [part for key, each in members.items() for part in _named(f"{name}.{key}", each, inner)]
    return [(name, kind), *parts]


def _parts_of(thing: Any) -> tuple[str, dict[str, Any]] | None:
    """What an object is called, and what it is made of, by name; None of what is one piece."""
    kind = type(thing).__name__
    if is_dataclass(thing) and not isinstance(thing, type):
        return kind, {f.name: getattr(thing, f.name) for f in fields(thing) if f.repr}
    if isinstance(thing, FunctionType):
        code = hashlib.sha256(repr(_code_of(thing.__code__)).encode()).hexdigest()[:16]
        options = tuple(sorted((thing.__kwdefaults__ or {}).items()))
        return f"{kind} {code}", {
            "defaults": thing.__defaults__,
            "options": options,
            "holds": _held_by(thing),
        }
    if isinstance(thing, MethodType):
        return kind, {"of": thing.__self__, "function": thing.__func__}
    if isinstance(thing, partial):
        return kind, {
            "function": thing.func,
            "given": thing.args,
            "options": tuple(sorted(thing.keywords.items())),
        }
    if not isinstance(thing, type) and (
        kept := _cached_by(type(thing))
    ):  # made on the way, or not yet
        return kind, {key: value for key, value in vars(thing).items() if key not in kept}
    return None


def _cached_by(kind: type) -> set[str]:
    """The names of what objects of a class keep once it is asked for."""
    found = [vars(each).items() for each in kind.__mro__]
    return {
        name for members in found for name, member in members if isinstance(member, cached_property)
    }


def _held_by(function: FunctionType) -> tuple[Any, ...]:
    """The values of a closure."""
    held = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # nothing is in it yet
            held.append(cell.cell_contents)
    return tuple(held)


def _code_of(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it stands: its instructions, and the names and constants that they use."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            constants.append(_code_of(constant))
        else:
            is_set = isinstance(constant, frozenset)  # whose order is another one in every process
            constants.append(sorted(map(repr, constant)) if is_set else repr(constant))
    return code.co_code, code.co_names, constants


def _checksum_of(thing: Any) -> str:
    try:
        return f"{type(thing).__name__} {joblib.hash(thing)}"
    except (pickle.PicklingError, TypeError, AttributeError):
        return type(thing).__qualname__


def stop_at(below: float, column: str = "relative_error") -> Callable[[Run], bool]:
    """A callback that ends a run once a column of its history is at most `below`.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> method = fgmp.FedGradMP(sparsity=4)
    >>> result = fgmp.simulate(method, federation, rounds=1000, rng=0, callbacks=fgmp.stop_at(1e-6))
    >>> int(result.history["round"][-1]) < 10
    True
    """
    below = check_number("below", below)
    check_kind("column", column, str, "the name of a column of the history")
    return lambda run: bool(run.column(column)[-1] <= below)


def stop_when_stalled(
    patience: int, column: str = "objective", improvement: float = 1e-3
) -> Callable[[Run], bool]:
    """A callback that ends a run when `patience` records in a row did not improve a column.

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
        return bool(
            since >= (before - improvement * abs(before) if np.isfinite(before) else before)
        )

    return stalled


class Bar:
    """A bar that shows how far a run is (tqdm)."""

    def begin(self, run: Run) -> None:
        """Draw it."""
        with needs("fgmp.Bar", "tqdm"):
            from tqdm import tqdm

        self.bar = tqdm(total=run.rounds, desc=type(run.method).__name__, unit="round")

    def __call__(self, run: Run) -> None:
        """Move it."""
        self.bar.update(run.step.round - self.bar.n)

    def end(self, run: Run) -> None:
        """Leave it."""
        self.bar.close()


def check_callbacks(callbacks: Any) -> list[Any]:
    """Return callbacks, given as one or several, as a tuple; raise a ValueError where one is none."""
    found = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for each in found:
        if not callable(each):
            expected = "callbacks such as fgmp.stop_at(1e-6) or fgmp.Checkpoint(path)"
            raise ValueError(f"callbacks has {short_repr(each)}; expected {expected}")
    return found
