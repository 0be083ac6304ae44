"""Checkpoints: how far a run is, in one file that is written whole or not at all, and known by its checksum.

A file is an archive of plain arrays (``.npz``, read without pickles), of which one is a header in JSON, and then a line
with the version, the checksum and the length. It is written beside the old one, synchronised and renamed; the old one
stays as ``.previous``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..advice import CheckpointWarning, advise
from .books import History, Lead, Progress, Totals
from .fingerprints import Fingerprint, differences
from .state_codec import Types, decode_state, encode_state, name_of

__all__ = ["Checkpoint", "Keeper"]

_VERSION = 1
_LINE = re.compile(rb"\nfgmp checkpoint (\d+) sha256 ([0-9a-f]{64}) bytes (\d+)\n\Z")
_BOOKS: Types = {name_of(kind): kind for kind in (Progress, Totals, Lead)}
_PAUSE = 60.0


class Checkpoint(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    run : dict of str
        The fingerprint of the run.
    content : tree and arrays
        Progress and history, not yet decoded.
    path : Path
        Where it was found.
    """

    run: Fingerprint
    content: tuple[Any, list[Any]]
    path: Path

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.run["seed"])


class Damaged(ValueError):
    """A file that is no whole checkpoint."""


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
        self.previous, self.partial = (Path(f"{self.path}.{end}") for end in ("previous", "partial"))
        self.saved, self.sound, self.failing, self.last = -1, True, False, time.monotonic()
        self.found = self._find()
        self.run: Fingerprint = {}
        self.types: Types = {}

    def go_on(self, run: Fingerprint, types: Types, rounds: int) -> tuple[Progress, History] | None:
        """What an earlier run left here, None where there was none; a ValueError where it was another run.

        Parameters
        ----------
        run : dict of str
            The fingerprint of this run.
        types : mapping of str to type
            The classes that its states may hold.
        rounds : int
            Those asked for.
        """
        self.run, self.types, found = run, {**types, **_BOOKS}, self.found
        self.found = None
        if found is None:
            return None
        if found.run != run:
            raise ValueError(
                f"checkpoint {str(found.path)!r} is of another run: {'; '.join(differences(found.run, run))}; expected "
                "the same run, or the path of a file that does not exist yet"
            )
        progress, history = decode_state(*found.content, self.types)
        if progress.number > rounds:
            raise ValueError(
                f"rounds is {rounds}; expected at least {progress.number}, which checkpoint {str(found.path)!r} has"
            )
        self.saved = progress.number
        return progress, history

    def due(self, progress: Progress) -> bool:
        """Whether it is time for a checkpoint."""
        if progress.number == 1:  # a state that cannot be written says so before any time is lost
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
        tree, arrays = encode_state((progress, dict(history)), self.types)
        try:
            self._write({"run": self.run, "content": tree}, arrays)
        except OSError as error:
            _remove(self.partial)
            if self.saved < 0:
                raise OSError(
                    error.errno,
                    f"checkpoint cannot be written ({error.strerror}); expected a path to write to",
                    str(self.path),
                ) from error
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

    def _write(self, header: dict[str, Any], arrays: list[Any]) -> None:
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with open(self.partial, "w+b") as file:
            np.savez(file, header=text, **{f"array_{i}": array for i, array in enumerate(arrays)})
            length = file.seek(0, os.SEEK_END)
            digest = _checksum(_VERSION, file, length)
            file.write(f"\nfgmp checkpoint {_VERSION} sha256 {digest} bytes {length}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        if self.sound and self.path.exists():
            os.replace(self.path, self.previous)
        os.replace(self.partial, self.path)
        self.sound = True
        _synchronise(self.path.parent)

    def _find(self) -> Checkpoint | None:
        """The last sound checkpoint; None where there is no file; a ValueError where all are damaged."""
        _remove(self.partial)
        damaged: list[str] = []
        for path in (self.path, self.previous):
            if not path.exists():
                continue
            try:
                found = _read(path)
            except Damaged as error:
                damaged.append(f"{str(path)!r} {error}")
                self.sound = False
                continue
            if damaged:
                advise(f"checkpoint {damaged[0]}; the previous one, {str(path)!r}, is used", CheckpointWarning)
            return found
        if damaged:
            raise ValueError(
                f"checkpoint {' and '.join(damaged)}; expected a whole file, or none, to start from the beginning"
            )
        return None


def _read(path: Path) -> Checkpoint:
    """The checkpoint in a file."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 200))
        line = _LINE.search(file.read())
        if line is None:
            raise Damaged("does not end as a checkpoint does")
        version, digest, length = int(line[1]), line[2].decode(), int(line[3])
        if size != length + len(line[0]):
            raise Damaged(f"has {size} bytes and should have {length + len(line[0])}")
        if _checksum(version, file, length) != digest:
            raise Damaged("has another checksum than it says")
    if version != _VERSION:
        raise ValueError(f"checkpoint {str(path)!r} has version {version}; expected {_VERSION}")
    with zipfile.ZipFile(path) as archive:  # as it was written: what is compressed may be of any size
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.file_size > length for entry in archive.infolist()):
            raise Damaged("holds arrays that are compressed")
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        arrays = [archive[f"array_{i}"] for i in range(len(archive.files) - 1)]
    return Checkpoint(header["run"], (header["content"], arrays), path)


def _checksum(version: int, file: BinaryIO, length: int) -> str:
    """Of the version and the first `length` bytes of a file, which then stands behind them."""
    digest, left = hashlib.sha256(f"{version}\n".encode()), length
    file.seek(0)
    while left > 0 and (part := file.read(min(left, 2**16))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest()


def _synchronise(folder: Path) -> None:
    """Have the names in a folder written, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass
