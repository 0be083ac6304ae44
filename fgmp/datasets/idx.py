"""The IDX format of MNIST and QMNIST: arrays of numbers behind a header that gives their type and shape."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from ..models import Array
from .downloads import open_content

__all__ = ["read_idx"]

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
        Where the file is not in this format, is cut short, or has fewer or more values than it says.
    """
    path = Path(path)
    try:
        with open_content(path) as file:
            content = file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); expected a whole gzip file") from error
    header = 4 + 4 * content[3] if len(content) > 3 else 4
    if len(content) < header or content[:2] != b"\0\0" or content[2] not in TYPES:
        begin = content[:4].hex(" ")
        raise ValueError(
            f"{path} begins with {begin!r}, {len(content)} bytes in all; expected the header of an IDX file"
        )
    dtype = np.dtype(TYPES[content[2]])
    shape = tuple(map(int, np.frombuffer(content[4:header], ">u4")))
    expected = header + dtype.itemsize * math.prod(shape)
    if len(content) != expected:
        raise ValueError(f"{path} holds {len(content)} bytes; expected {expected} for an array of shape {shape}")
    return np.frombuffer(content, dtype, offset=header).reshape(shape)
