"""Handwritten digits with the names of their writers: MNIST with QMNIST's labels, and Federated EMNIST."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..models import Array
from .idx import read_idx

__all__ = ["Digits", "FemnistWriters", "MnistWriters", "Writers"]

# A file can announce any shape without holding a value of it.
_MOST_DIGITS = 100_000


class Digits(NamedTuple):
    """Digits of one writer.

    Attributes
    ----------
    pixels : ndarray of float32, shape (n_digits, height * width)
        From 0, paper, to 1, ink; each row is a flattened image.
    labels : ndarray of int, shape (n_digits,)
        0 to 9.
    """

    pixels: Array
    labels: Array


class Writers(Protocol):
    """Digits that can be read writer by writer."""

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of an image."""

    @property
    def counts(self) -> dict[str, int]:
        """Writer -> how many digits they wrote."""

    def digits(self, writer: str) -> Digits:
        """All digits of one writer, in the order of the files."""


class MnistWriters:
    """MNIST's training images by NIST writer, as QMNIST's labels name them.

    Parameters
    ----------
    images : str or Path
        IDX file of bytes, shape (n_digits, height, width): 0 is paper, 255 is ink.
    labels : str or Path
        IDX file of integers, shape (n_digits, at least 3): column 0 is the digit, column 2 the writer.

    Raises
    ------
    ValueError
        Where the two files do not fit; the message names them.
    """

    def __init__(self, images: str | Path, labels: str | Path) -> None:
        self._images, table = read_idx(images), read_idx(labels)
        if self._images.ndim != 3 or self._images.dtype != np.uint8:
            raise ValueError(f"{images} holds {_array(self._images)}; expected uint8 images, (n_digits, height, width)")
        if table.ndim != 2 or table.shape[1] < 3 or len(table) != len(self._images):
            raise ValueError(
                f"{labels} holds {_array(table)}; expected at least 3 columns for each of {len(self._images)} images"
            )
        self._labels = _checked_labels(labels, table[:, 0])
        order = np.argsort(table[:, 2], kind="stable")
        names, first = np.unique(table[order, 2], return_index=True)
        self._rows = dict(zip(map(str, names.tolist()), np.split(order, first[1:]), strict=True))

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of an image, (28, 28)."""
        return self._images.shape[1], self._images.shape[2]

    @property
    def counts(self) -> dict[str, int]:
        """Writer -> how many digits they wrote."""
        return {writer: len(rows) for writer, rows in self._rows.items()}

    def digits(self, writer: str) -> Digits:
        """All digits of one writer, in MNIST's order."""
        rows = self._rows[writer]
        pixels = self._images[rows].reshape(len(rows), -1).astype(np.float32)
        pixels /= 255
        return Digits(pixels, self._labels[rows])


class FemnistWriters:
    """Federated EMNIST by writer, from the HDF5 files of TensorFlow Federated.

    A writer's digits are split over the training and the test file there, and are taken together here, since writers
    are held out and not digits.

    Parameters
    ----------
    paths : sequence of str or Path
        HDF5 files with ``examples/<writer>/pixels``, shape (n_digits, 28, 28), and ``examples/<writer>/label``. The
        pixels of TensorFlow Federated are 1 for paper and 0 for ink; they are turned around.

    Raises
    ------
    ValueError
        Where a file cannot be read or lacks a group; the message names both.
    """

    image_shape = (28, 28)

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = [Path(path) for path in paths]
        self._counts: dict[str, int] = {}
        for path in self._paths:
            with _examples(path) as examples:
                for writer in examples:
                    pixels, _ = _of_writer(path, examples, writer)
                    self._counts[writer] = self._counts.get(writer, 0) + len(pixels)

    @property
    def counts(self) -> dict[str, int]:
        """Writer -> how many digits they wrote."""
        return dict(self._counts)

    def digits(self, writer: str) -> Digits:
        """All digits of one writer, in the order of the files."""
        found = [self._read(path, writer) for path in self._paths]
        return Digits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _read(self, path: Path, writer: str) -> Digits:
        with _examples(path) as examples:
            if writer not in examples:
                return Digits(np.empty((0, 28 * 28), np.float32), np.empty(0, np.intp))
            pixels, labels = (data[()] for data in _of_writer(path, examples, writer))
        if not (pixels.min(initial=0) >= 0 and pixels.max(initial=1) <= 1):
            raise ValueError(f"{path}: pixels of {writer} run outside 0..1; expected 1 for paper and 0 for ink")
        ink = 1 - pixels.reshape(len(pixels), -1).astype(np.float32)
        return Digits(ink, _checked_labels(path, labels.reshape(-1)))


@contextmanager
def _examples(path: Path) -> Iterator[Any]:
    """The group ``examples`` of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError('Federated EMNIST is read with h5py; install it with: pip install "fgmp[femnist]"') from error
    try:
        with h5py.File(path, "r") as file:
            if not isinstance(file.get("examples"), h5py.Group):
                raise ValueError(f"{path} has no group 'examples'; expected examples/<writer>/pixels and .../label")
            yield file["examples"]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} is not a complete HDF5 file ({error})") from error


def _of_writer(path: Path, examples: Any, writer: str) -> tuple[Any, Any]:
    """The data sets ``pixels`` and ``label`` of one writer, not read yet."""
    for name in ("pixels", "label"):
        # A data set in place of the writer's group has no names in it either.
        if not hasattr(examples[writer], "keys") or name not in examples[writer]:
            raise ValueError(f"{path} has no 'examples/{writer}/{name}'; expected pixels and label for each writer")
    pixels, labels = examples[writer]["pixels"], examples[writer]["label"]
    if not all(
        isinstance(getattr(data, "dtype", None), np.dtype) and data.dtype.kind in "fiu" for data in (pixels, labels)
    ):
        raise ValueError(f"{path}: {writer} has pixels or labels that are no numbers; expected arrays of numbers")
    if pixels.shape[:1] > (_MOST_DIGITS,):
        raise ValueError(f"{path}: {writer} has {len(pixels)} digits; expected at most {_MOST_DIGITS} of one writer")
    if pixels.shape[1:] != (28, 28) or labels.size != len(pixels):
        raise ValueError(
            f"{path}: {writer} has pixels of shape {pixels.shape} and {labels.size} labels; expected (n_digits, 28, "
            "28) and n_digits labels"
        )
    return pixels, labels


def _checked_labels(path: str | Path, labels: Array) -> Array:
    strange = labels[~np.isin(labels, range(10))]  # also what is not a number
    if strange.size:
        raise ValueError(f"{path} holds the label {strange[0]}; expected digits from 0 to 9")
    return labels.astype(np.intp)


def _array(array: Array) -> str:
    return f"{array.dtype.name} of shape {array.shape}"
