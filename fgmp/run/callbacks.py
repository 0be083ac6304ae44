"""Callbacks: callables invoked with the `Run` after every round. Returning True stops the run.

Here are those that keep a run in a file, stop it, or show how far it is; `fgmp.recording` says what
a callback may see. Callbacks do not change a bit of the run.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import joblib
import numpy as np
from filelock import FileLock, Timeout

from .._support.validation import check_integer, check_kind, check_number, short_repr
from .._support.warnings import warn_user
from ..method import State, Streams
from ..recording import Best, Progress, Run

if TYPE_CHECKING:
    from types import FrameType

_PAUSE = 60.0  # seconds between two checkpoints, by default

# A checkpoint is one line, "fgmp checkpoint FORMAT SHA256", and a pickle, whose checksum this is.
_NAME = "fgmp checkpoint"
_FORMAT = 5
_HEAD_BYTES = len(f"{_NAME} {_FORMAT} {hashlib.sha256().hexdigest()}\n")


class Checkpoint:
    """Save the progress of a run to one file and resume from it, bit for bit.

    The file is written whole or not at all: at the start, after the first round, after every
    `every` rounds, and however the run ends: also of Ctrl-C, and of SIGTERM and SIGHUP in the main
    thread, if the program does not handle them itself. It has the mode 600, and a checksum, which
    is compared before anything is read. It is a pickle: open only files of your own. That of a run
    with noise holds the secret of the noise; it is the server's, and is written after every round.
    With secure sums it is also written before a sum over other clients than before is released.
    An empty file beside it, whose name has ".lock" at its end, keeps other runs from writing to it.

    Parameters
    ----------
    path : path-like
        If there is a file, the run resumes from it, possibly with more rounds than before, or
        refuses it as that of another run. With ``rng=None`` the seed is that of the file. If it is
        a link, the file that it points to is meant.
    every : int or None
        Rounds between two writings; None means one a minute.

    Raises
    ------
    ValueError
        In a run: if the file is of another method, federation, seed or options (the message says
        what differs), or is damaged, of another version of fgmp, or no checkpoint.
    OSError
        If another run is in progress on the same path, or the first file cannot be written. Later
        ones that cannot be written are warned of once, and the run goes on; but a run with noise or
        secure sums stops.

    Examples
    --------
    Two rounds, resumed for three more, end at the same bits as five:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> with TemporaryDirectory() as folder:
    ...     checkpoint = fgmp.Checkpoint(Path(folder, "run.checkpoint"))
    ...     for rounds in (2, 5):
    ...         resumed = fgmp.simulate(
    ...             fgmp.FedGradMP(3), federation, rounds, rng=0, callbacks=checkpoint
    ...         )
    >>> whole = fgmp.simulate(fgmp.FedGradMP(3), federation, rounds=5, rng=0)
    >>> resumed.x.tolist() == whole.x.tolist()
    True
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        if not isinstance(path, (str, os.PathLike)) or Path(path).is_dir():
            raise ValueError(f"path is {short_repr(path)}; expected the path of a file")
        self.path = Path(path)
        self.every = None if every is None else check_integer("every", every)
        self.run: Run | None = None  # the one that this is writing for

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every})"

    def begin(self, run: Run) -> None:
        """Resume the run from the file, if there is one."""
        target = Path(os.path.realpath(self.path))
        # The lock comes first: another run may be in progress with this very object.
        lock = _locked(target)
        self.run = run
        self.target = target
        self.lock = lock
        self.signals = _Signals()
        self.saved_round = -1
        self.is_failing = False
        self.written_at = time.monotonic()

        names = identity(run)  # once, because it hashes all data
        if target.exists():
            names = self._resume(run, names)
        self.identity = names | {"seed": repr(run.streams.seed)}
        run.aggregator.privacy.keep_secret(partial(self._write_secret, run))

    def _resume(self, run: Run, names: dict[str, str]) -> dict[str, str]:
        """Give the run the progress of the file; return the identity of the run.

        Raises
        ------
        ValueError
            If the file is of another run, or of more rounds.
        """
        title = f"checkpoint {str(self.path)!r}"
        content = _read(title, self.target)
        if run.streams.is_generated:
            run.streams = Streams(content.seed)
            names = names | {"seed": repr(content.seed)}

        differences = [
            f"{name} is {names.get(name, 'absent')}, not {content.identity.get(name, 'absent')}"
            for name in sorted(names | content.identity)
            if names.get(name) != content.identity.get(name)
        ]
        if differences:
            raise ValueError(
                f"{title} is of another run: {'; '.join(differences)}; expected the same run, or "
                "the path of a file that does not exist yet"
            )
        progress, records, best = content.progress
        if progress.round > run.rounds:
            raise ValueError(
                f"rounds is {run.rounds}; expected at least {progress.round}, which {title} has"
            )

        run.progress = progress
        run.records = records
        run.best = Best(*best)
        if content.secret:
            run.aggregator = run.aggregator.with_secret(content.secret)
        self.saved_round = progress.round
        return names

    def __call__(self, run: Run) -> None:
        """Write the file if that is due."""
        if self.every is None:
            is_due = time.monotonic() - self.written_at >= _PAUSE
        else:
            is_due = run.progress.round % self.every == 0
        # A round that has released something with a secret must not be played again.
        if is_due or run.progress.round <= 1 or run.aggregator.privacy.secret:
            self.write(run)

    def end(self, run: Run) -> None:
        """Write a last time, and let go of the file and of the signals."""
        if self.run is not run:  # which was refused
            return
        try:
            if run.records:  # without any it never began
                self.write(run)
        except (KeyboardInterrupt, SystemExit):
            self.write(run)  # anew, what was cut off
            raise
        finally:
            self.run = None
            run.aggregator.privacy.keep_secret(None)
            self.signals.restore()
            self.lock.release()

    def write(self, run: Run) -> None:
        """Write the file, if this round is not saved already."""
        if run.progress.round == self.saved_round:
            return
        # Without the record of a last round that is not due: a longer run has none there.
        records = [record for record in run.records if record["round"] % run.history.every == 0]
        secret = run.aggregator.privacy.secret
        progress = run.progress, records, tuple(run.best)
        self._save(run, _Content(self.identity, run.streams.seed, secret, progress))
        self.written_at = time.monotonic()

    def _write_secret(self, run: Run) -> None:
        """Write the secret to the file in the middle of a round, which may never end."""
        if self.saved_round >= 0:
            content = _read(f"checkpoint {str(self.path)!r}", self.target)
            self._save(run, content._replace(secret=run.aggregator.privacy.secret))

    def _save(self, run: Run, content: _Content) -> None:
        """Write the file, or warn that it could not be; raise if the run must not go on without."""
        try:
            _write(self.target, pickle.dumps(tuple(content)))
        except OSError as error:
            if self.saved_round < 0 or run.aggregator.privacy.secret:
                reason = (
                    f"checkpoint cannot be written ({error.strerror}); expected a path to write to"
                )
                raise OSError(error.errno, reason, str(self.path)) from error
            if not self.is_failing:
                warn_user(
                    f"the checkpoint of round {run.progress.round} could not be written to "
                    f"{str(self.path)!r} ({error.strerror}); the run goes on, and the one of round "
                    f"{self.saved_round} is still there"
                )
            self.is_failing = True
        else:
            self.saved_round = content.progress[0].round
            self.is_failing = False


class _Content(NamedTuple):
    """What a checkpoint holds: the pickle is this as a plain tuple."""

    identity: dict[str, str]
    seed: int
    secret: bytes
    progress: tuple[Progress, list[dict[str, float]], tuple[float, int, State]]


def _read(title: str, path: Path) -> _Content:
    """Return what a checkpoint holds.

    Raises
    ------
    ValueError
        If the file is not of this format, or not as it was written.
    """
    try:
        written = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"{title} cannot be read ({error.strerror}); expected a file that may be read"
        ) from error

    head = written[:_HEAD_BYTES]
    pickled = written[_HEAD_BYTES:]
    expected = "or the path of a file that does not exist yet"
    reason = ""
    if not head.startswith(f"{_NAME} {_FORMAT} ".encode()):
        # The first versions wrote a pickle without a head.
        is_older = head.startswith(_NAME.encode()) or head[:1] == b"\x80"
        reason = "is of another version of fgmp" if is_older else "is none"
    elif head != _head_of(pickled):
        reason = "is damaged: its checksum is another one than at its beginning"
    if reason:
        raise ValueError(
            f"{title} cannot be read ({reason}); expected a file that this version wrote, "
            f"{expected}"
        )
    try:
        return _Content(*pickle.loads(pickled))
    except Exception as error:  # undamaged, but of classes that are gone or are not what they were
        raise ValueError(
            f"{title} cannot be read ({type(error).__name__}: {error}); expected the classes that "
            f"it was written with, {expected}"
        ) from error


def _head_of(pickled: bytes) -> bytes:
    """Return the first line of a checkpoint."""
    return f"{_NAME} {_FORMAT} {hashlib.sha256(pickled).hexdigest()}\n".encode()


def _write(path: Path, pickled: bytes) -> None:
    """Write a checkpoint to a file that is new and nobody else's, and move it to its path."""
    partial_path = Path(f"{path}.partial")
    # It may be of a run that was killed, or a link that somebody put there.
    partial_path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(partial_path, "wb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
            file.write(_head_of(pickled))
            file.write(pickled)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial_path, path)
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def _locked(path: Path) -> FileLock:
    """Return the lock of a file beside a path, so that one run at a time writes to it.

    The file stays, empty: another run might hold it already when it is removed. If no such file can
    be made, nothing is locked; a checkpoint cannot be written there either.

    Raises
    ------
    BlockingIOError
        If another run holds the lock.
    """
    lock = FileLock(f"{path}.lock", mode=0o600, thread_local=False)
    if not path.parent.is_dir():  # filelock would make it
        return lock
    try:
        lock.acquire(blocking=False)
    except Timeout:
        reason = "checkpoint is another run's, which is under way; expected one run a path"
        raise BlockingIOError(errno.EAGAIN, reason, str(path)) from None
    except (OSError, NotImplementedError):  # a link, or a file system without locks
        pass
    return lock


class _Signals:
    """Make SIGTERM and SIGHUP end a run as SystemExit, so that its checkpoint is written first.

    This is so in the main thread only. A signal that the program handles or ignores itself is left
    alone.
    """

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.process = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            return
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._exit)
                self.handled.append(number)

    def _exit(self, number: int, frame: FrameType | None) -> None:
        """Raise SystemExit in the process of the run, and end any other."""
        self.restore()  # a second signal ends the process at once
        if os.getpid() == self.process:
            raise SystemExit(128 + number)
        os.kill(os.getpid(), number)  # a child that was forked, whose run it is not

    def restore(self) -> None:
        """Let the system handle the signals again, as before."""
        while self.handled:
            number = self.handled.pop()
            if signal.getsignal(number) == self._exit:
                signal.signal(number, signal.SIG_DFL)


def identity(run: Run) -> dict[str, str]:
    """Return what tells a run from others, by name.

    That is the seed, the method, the data, and what is aggregated and recorded. Objects are named
    field by field.
    """
    things: dict[str, Any] = {"seed": run.streams.seed, "method": run.method}
    things |= run.transport.identity()
    things["cohort_size"] = run.cohort_size
    things["aggregator"] = run.aggregator
    things["every"] = run.history.every
    things["objective_on"] = run.history.objective_on
    things["metrics"] = tuple(run.history.metrics)
    return dict(part for name, thing in things.items() for part in _named(name, thing))


def _named(name: str, thing: Any, enclosing: tuple[int, ...] = ()) -> list[tuple[str, str]]:
    """Return a thing as names and short texts.

    An object goes field by field, an array by its checksum, and a function by its code.

    Parameters
    ----------
    name : str
    thing : object
    enclosing : tuple of int
        The ids of the objects that it is a part of: a function may hold itself.
    """
    if isinstance(thing, (np.bool_, np.integer, np.floating)):
        thing = thing.item()  # a NumPy number makes no other run than the same number of Python
    if isinstance(thing, (bool, int, float, str, type(None))):
        return [(name, repr(thing))]
    members = _members_of(thing)
    if members is None:
        return [(name, _checksum_of(thing))]
    if id(thing) in enclosing:
        return [(name, "itself")]
    parts = [(name, type(thing).__name__)]
    for member_name, member in members.items():
        parts += _named(f"{name}.{member_name}", member, (*enclosing, id(thing)))
    return parts


def _members_of(thing: Any) -> dict[str, Any] | None:
    """Return what an object is made of, by name; None if it is one piece.

    joblib alone would neither hash a function that is in no module, as the one of a cell, nor say
    which part of two runs differs.
    """
    if isinstance(thing, tuple):
        return dict(zip(map(str, range(len(thing))), thing, strict=True))
    if isinstance(thing, FunctionType):
        closure = []
        for cell in thing.__closure__ or ():
            with suppress(ValueError):  # nothing is in it yet
                closure.append(cell.cell_contents)
        return {
            "code": hashlib.sha256(repr(_code_of(thing.__code__)).encode()).hexdigest()[:16],
            "defaults": thing.__defaults__,
            "options": tuple(sorted((thing.__kwdefaults__ or {}).items())),
            "holds": tuple(closure),
        }
    if isinstance(thing, MethodType):
        return {"of": thing.__self__, "function": thing.__func__}
    if isinstance(thing, partial):
        options = tuple(sorted(thing.keywords.items()))
        return {"function": thing.func, "given": thing.args, "options": options}
    if isinstance(thing, type):
        return None
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing) if field.repr}

    # Values that an object computes once and keeps may be there or not: they make no difference.
    cached = {
        name
        for base in type(thing).__mro__
        for name, member in vars(base).items()
        if isinstance(member, cached_property)
    }
    if not cached:
        return None
    return {name: member for name, member in vars(thing).items() if name not in cached}


def _code_of(code: CodeType) -> tuple[Any, ...]:
    """Return what a function does, wherever it stands: instructions, names and constants."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            constants.append(_code_of(constant))
        elif isinstance(constant, frozenset):  # whose order is another one in every process
            constants.append(sorted(map(repr, constant)))
        else:
            constants.append(repr(constant))
    return code.co_code, code.co_names, constants


def _checksum_of(thing: Any) -> str:
    """Return the type of an object and the hash of its content; only the type if it has no hash."""
    try:
        return f"{type(thing).__name__} {joblib.hash(thing)}"
    except (pickle.PicklingError, TypeError, AttributeError):
        return type(thing).__qualname__


def stop_at(below: float, column: str = "relative_error") -> Callable[[Run], bool]:
    """Return a callback that ends a run once a column of its history is at most `below`.

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

    def is_below(run: Run) -> bool:
        return bool(run.column(column)[-1] <= below)

    return is_below


def stop_when_stalled(
    patience: int, column: str = "objective", improvement: float = 1e-3
) -> Callable[[Run], bool]:
    """Return a callback that ends a run when a column did not improve for some records.

    Parameters
    ----------
    patience : int
        The number of records.
    column : str, default "objective"
    improvement : float, default 1e-3
        The lowest value so far has to fall by more than this fraction to count as better.

    Examples
    --------
    With noise in the targets the objective soon stays where it is:

    >>> import fgmp
    >>> noisy = fgmp.make_sparse_regression(5, 100, 50, sparsity=3, noise_variance=0.1, rng=0)
    >>> stop = fgmp.stop_when_stalled(3)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), noisy, rounds=1000, rng=0, callbacks=stop)
    >>> 3 < len(result.history["round"]) < 50
    True
    """
    patience = check_integer("patience", patience)
    improvement = check_number("improvement", improvement, at_least=0)
    check_kind("column", column, str, "the name of a column of the history")

    def is_stalled(run: Run) -> bool:
        values = np.nan_to_num(run.column(column), nan=np.inf, posinf=np.inf)
        if len(values) <= patience:
            return False
        before = values[:-patience].min()
        since = values[-patience:].min()
        if not np.isfinite(before):
            return bool(since >= before)
        return bool(since >= before - improvement * abs(before))

    return is_stalled


class Bar:
    """A bar that shows the progress of a run (tqdm).

    Examples
    --------
    >>> import contextlib, io
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> with contextlib.redirect_stderr(io.StringIO()) as terminal:
    ...     result = fgmp.simulate(fgmp.FedGradMP(3), federation, 4, rng=0, callbacks=fgmp.Bar())
    >>> "4/4" in terminal.getvalue()
    True
    """

    def __repr__(self) -> str:
        return "Bar()"

    def begin(self, run: Run) -> None:
        """Draw the bar."""
        from .._support.optional import needs

        with needs("fgmp.Bar", "tqdm"):
            from tqdm import tqdm

        self.bar = tqdm(total=run.rounds, desc=type(run.method).__name__, unit="round")

    def __call__(self, run: Run) -> None:
        """Move the bar to the round."""
        self.bar.update(run.progress.round - self.bar.n)

    def end(self, run: Run) -> None:
        """Leave the bar as it is."""
        self.bar.close()
