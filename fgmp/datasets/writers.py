"""Handwritten digits with the names of their writers: MNIST with QMNIST's labels, and Federated EMNIST."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..models import Array


class Writers(NamedTuple):
    """Digits by writer: the shape of an image, how many each wrote, and pixels, from 0, paper, to 1, and labels."""

    image_shape: tuple[int, int]
    counts: dict[str, int]
    digits: Callable[[str], tuple[Array, Array]]


def mnist_writers(images: Path, labels: Path) -> Writers:
    """MNIST's images (IDX, bytes, 255 is ink) by NIST writer: QMNIST's labels (IDX) have digit 0th and writer 2nd."""
    inks, table = _read_idx(images, ">u1", 3), _read_idx(labels, ">i4", 2)
    if len(table) != len(inks):
        raise ValueError(f"{labels} holds {len(table)} rows; expected one for each of {len(inks)} images")
    digits = _checked_labels(labels, table[:, 0])
    names, counts = np.unique(table[:, 2], return_counts=True)

    def of(writer: str) -> tuple[Array, Array]:
        rows = np.flatnonzero(table[:, 2] == int(writer))
        return inks[rows].reshape(len(rows), -1).astype(np.float32) / 255, digits[rows]

    return Writers(inks.shape[1:], dict(zip(map(str, names), counts.tolist(), strict=True)), of)


def femnist_writers(paths: Sequence[Path]) -> Writers:
    """Federated EMNIST by writer, from the HDF5 files of TensorFlow Federated, whose 1 is paper.

    A writer's digits are split over the training and the test file there, and are taken together here, since writers
    are held out and not digits.
    """
    counts: Counter[str] = Counter()
    for path in paths:
        with _examples(path) as examples:
            counts.update({writer: len(digits["pixels"]) for writer, digits in examples.items()})

    def of(writer: str) -> tuple[Array, Array]:
        pixels, labels = [], []
        for path in paths:
            with _examples(path) as examples:
                if writer in examples:
                    pixels.append(1 - examples[writer]["pixels"][()].reshape(-1, 28 * 28).astype(np.float32))
                    labels.append(_checked_labels(path, examples[writer]["label"][()].reshape(-1)))
        return np.concatenate(pixels), np.concatenate(labels)

    return Writers((28, 28), counts, of)


@contextmanager
def _examples(path: Path) -> Iterator[Any]:
    """The group ``examples`` of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError('Federated EMNIST is read with h5py; install it with: pip install "fgmp[femnist]"') from error
    try:
        with h5py.File(path, "r") as file:
            yield file["examples"]
    except FileNotFoundError:
        raise
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); remove it and run `fgmp data fetch`") from error


def _read_idx(path: Path, dtype: str, ndim: int) -> Array:
    """A compressed IDX file: two zeros, type, number of dimensions, each as 32 bits, the values, all big-endian."""
    codes = {">u1": 0x08, ">i4": 0x0C}
    try:
        content = gzip.decompress(path.read_bytes())
        if content[:4] != bytes((0, 0, codes[dtype], ndim)):
            raise ValueError(f"it begins with {content[:4].hex(' ')!r}, and {dtype} of {ndim} dimensions was expected")
        shape = np.frombuffer(content, ">u4", ndim, 4).astype(int)
        return np.frombuffer(content, dtype, offset=4 + 4 * ndim).reshape(shape)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}); remove it and run `fgmp data fetch`") from error


def _checked_labels(path: Path, labels: Array) -> Array:
    strange = labels[~np.isin(labels, range(10))]
    if strange.size:
        raise ValueError(f"{path} holds the label {strange[0]}; expected digits from 0 to 9")
    return labels.astype(np.intp)
