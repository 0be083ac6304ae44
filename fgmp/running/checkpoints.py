"""Checkpoints: how far a run is, in one file that is written whole or not at all.

A file is written beside the old one by joblib, synchronised and renamed. It is a pickle: open only files of your own.
That of a run with noise holds the secret that the noise is drawn from: it is the server's, and its owner's to read.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import joblib

from ..advice import CheckpointWarning, advise
from ..checks import shown
from .books import History, Progress

__all__ = ["Checkpoint", "Keeper", "digest"]

_PAUSE = 60.0


class Checkpoint(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    run : dict of str to (str, str)
        What makes the run this one and no other: for each part a word to show and a checksum.
    seed : int
    progress : Progress
    history : dict of str to ndarray
    secret : bytes
        Of a run with noise; otherwise empty.
    """

    run: dict[str, tuple[str, str]]
    seed: int
    progress: Progress
    history: History
    secret: bytes = b""


def digest(value: Any) -> str:
    """A checksum of any object; of one that cannot be pickled, such as a streamed matrix, of its kind and shape."""
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, TypeError, AttributeError):
        return f"{type(value).__qualname__} {getattr(value, 'shape', '')}"


class Keeper:
    """Keeps the checkpoints of one run at one path.

    Parameters
    ----------
    path : path-like
        Of the file.
    every : int or None
        Rounds between two checkpoints; None is one a minute.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None) -> None:
        self.path, self.every = Path(path), every
        self.saved, self.failing, self.last = -1, False, time.monotonic()
        self.found = self._read() if self.path.exists() else None
        self.run: dict[str, tuple[str, str]] = {}
        self.seed, self.secret = 0, b"" if self.found is None else self.found.secret

    def go_on(self, parts: Mapping[str, Any], seed: int, rounds: int) -> tuple[Progress, History] | None:
        """What an earlier run left here, None where there was none; a ValueError where it was another run.

        Parameters
        ----------
        parts : mapping
            Whatever decides what a round does or what is recorded: method, data, options.
        seed : int
        rounds : int
            Those asked for.
        """
        self.run = {name: (shown(value), digest(value)) for name, value in ({"seed": seed} | dict(parts)).items()}
        self.seed, found, self.found = seed, self.found, None
        if found is None:
            return None
        names = sorted({*self.run, *found.run})
        if other := [name for name in names if self.run.get(name, ("", ""))[1] != found.run.get(name, ("", ""))[1]]:
            texts = [f"{n} is {self.run.get(n, ('absent',))[0]}, not {found.run.get(n, ('absent',))[0]}" for n in other]
            raise ValueError(
                f"checkpoint {str(self.path)!r} is of another run: {'; '.join(texts)}; expected the same run, or the "
                "path of a file that does not exist yet"
            )
        if found.progress.number > rounds:
            raise ValueError(
                f"rounds is {rounds}; expected at least {found.progress.number}, which checkpoint {str(self.path)!r} "
                "has"
            )
        self.saved = found.progress.number
        return found.progress, found.history

    def due(self, progress: Progress) -> bool:
        """Whether it is time for a checkpoint."""
        if progress.number == 1:  # a state that cannot be written says so before any time is lost
            return True
        if self.secret:  # what a round released is released once
            return True
        if self.every is not None:
            return progress.number % self.every == 0
        return time.monotonic() - self.last >= _PAUSE

    def save(self, progress: Progress, history: History) -> None:
        """Write a checkpoint; where that fails, say so and go on: the last good one is still there.

        The first one of a run that has none yet raises an OSError instead, before any time is lost.
        """
        if progress.number == self.saved:
            return
        try:
            self._write(Checkpoint(self.run, self.seed, progress, dict(history), self.secret))
        except OSError as error:
            if self.saved < 0:
                reason = f"checkpoint cannot be written ({error.strerror}); expected a path to write to"
                raise OSError(error.errno, reason, str(self.path)) from error
            if not self.failing:
                advise(
                    f"the checkpoint of round {progress.number} could not be written to {str(self.path)!r} "
                    f"({error.strerror}); the run goes on, and the one of round {self.saved} is still there",
                    CheckpointWarning,
                )
            self.failing = True
        else:
            self.saved, self.failing = progress.number, False
        self.last = time.monotonic()

    def _write(self, checkpoint: Checkpoint) -> None:
        partial, mode = Path(f"{self.path}.partial"), 0o600 if self.secret else 0o666
        try:
            with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
                joblib.dump(tuple(checkpoint), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)

    def _read(self) -> Checkpoint:
        try:
            return Checkpoint(*joblib.load(self.path))
        except Exception as error:  # a pickle that is none may raise anything
            raise ValueError(
                f"checkpoint {str(self.path)!r} cannot be read ({type(error).__name__}: {error}); expected a file that "
                "this version wrote, or the path of one that does not exist yet"
            ) from error
