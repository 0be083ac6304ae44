"""The IDX format of MNIST and QMNIST: arrays of numbers behind a header that gives their type and shape."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..models import Array
from .downloads import open_content

__all__ = ["read_idx"]

# Bytes of an array: ten times all of MNIST and EMNIST. A small file can announce, or hold compressed, any number.
_LARGEST = 2**30

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> Array:
    """Read an array from an IDX file, compressed with gzip or not.

    The file begins with two zero bytes, one byte for the type, one for the number of dimensions, and each dimension
    as a 32-bit integer; then the values follow, all of it big-endian (http://yann.lecun.com/exdb/mnist).

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ndarray
        In the byte order of the file, and not writeable.

    Raises
    ------
    ValueError
        Where the file is not in this format, is cut short, has fewer or more values than it says, or says that it has
        more than a gigabyte.
    """
    path = Path(path)
    try:
        with open_content(path) as file:
            start = file.read(4)
            start += file.read(4 * start[3]) if len(start) > 3 else b""
            dtype, shape = _header(path, start)
            size = dtype.itemsize * math.prod(shape)
            if size > _LARGEST:
                raise ValueError(f"{path} announces {size} bytes of shape {shape}; expected at most {_LARGEST}")
            values = file.read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); expected a whole gzip file") from error
    if len(values) != size:
        more = "more than " if len(values) > size else ""
        held = len(start) + min(len(values), size)
        raise ValueError(f"{path} holds {more}{held} bytes; expected {len(start) + size} for an array of shape {shape}")
    return np.frombuffer(values, dtype).reshape(shape)


def _header(path: Path, start: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape, from the first bytes of a file."""
    short = len(start) < 4 or len(start) < 4 + 4 * start[3]
    if short or start[:2] != b"\0\0" or start[2] not in TYPES:
        count = f", {len(start)} bytes in all" if short else ""
        raise ValueError(f"{path} begins with {start[:4].hex(' ')!r}{count}; expected the header of an IDX file")
    return np.dtype(TYPES[start[2]]), tuple(map(int, np.frombuffer(start[4:], ">u4")))
