"""A column of a history: in memory while it is short, and then in an unnamed file, which the system can write out.

The file has no name, so that nothing of it stays whatever ends the process. Where there is no room for one, the column
stays in memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from ..models import Array

__all__ = ["Column"]

# Rows of room at first, and rows from which on a column is in a file. Room that nobody has written to takes no memory.
_ROOM, _LONG = 2**10, 2**12


class Column:
    """Numbers that are appended one after another.

    Parameters
    ----------
    dtype : dtype
        Of int64 or float64.
    values : ndarray, optional
        Those that are there already.
    """

    def __init__(self, dtype: Any, values: Array | None = None) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.file: Any = None
        self.map: mmap.mmap | None = None
        self._numbers: Array = np.empty(_ROOM, self.dtype)
        count = 0 if values is None else len(values)
        if values is not None:
            self._make_room(count)
            self._numbers[:count] = values
        self._release_at = count + _LONG

    def write(self, place: int, value: float) -> None:
        """Put a number at a place, which is at most one beyond the last."""
        self._make_room(place + 1)
        self._numbers[place] = value
        if self.map is not None and place >= self._release_at:
            self._release_at = place + _LONG
            self.release()

    def view(self, count: int) -> Array:
        """The first numbers, not writeable."""
        seen = self._numbers[:count]
        seen.setflags(write=False)
        return seen

    def release(self) -> None:
        """Let go of the pages in memory; the numbers are in the file, and come back when they are read."""
        if self.map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.map.madvise(mmap.MADV_DONTNEED)

    def _make_room(self, count: int) -> None:
        room = len(self._numbers)
        if count <= room:
            return
        while room < count:
            room *= 2
        before, mapped = self._numbers, self.map
        self._numbers = np.empty(room, self.dtype) if room < _LONG else self._in_file(room)
        if mapped is None or self.map is None:  # or else it is the same file
            self._numbers[: len(before)] = before

    def _in_file(self, room: int) -> Array:
        """Numbers in the file, whose room on the disk is taken at once: a page without it would end the process."""
        size = room * self.dtype.itemsize
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile(prefix="fgmp-history-")
            os.posix_fallocate(self.file.fileno(), 0, size)
            self.map = mmap.mmap(self.file.fileno(), size)
        except (OSError, AttributeError):  # no room, no folder to write to, or another system
            self.file = self.map = None
            return np.empty(room, self.dtype)
        numbers: Array = np.frombuffer(self.map, self.dtype)
        return numbers
