"""Warnings that say what a run does badly and what to do about it, each at most once a run, in the main process.

``warnings.simplefilter("ignore", fgmp.AdviceWarning)`` quiets them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .checks import check_integer

_HOUSE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class AdviceWarning(UserWarning):
    """What a run tells whoever started it."""


def advise(message: str, category: type[Warning] = AdviceWarning) -> None:
    """Warn whoever called the module, however deep inside of it; not in a worker process."""
    if multiprocessing.current_process().name != "MainProcess":
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOUSE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is said in here: the caller has said it, or does what the advice would be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AdviceWarning)
        yield


def check_batches(batch_size: int | None, rows: Sequence[int]) -> None:
    """Say which clients have fewer rows than a minibatch; raise a ValueError where all have."""
    if batch_size is None:
        return
    check_integer("batch_size", batch_size, at_most=max(rows), why="the rows of the largest client")
    small = [count for count in rows if count < batch_size]
    if small:
        advise(
            f"batch_size is {batch_size}, and {_of(small, rows)} fewer rows, the smallest {min(small)}: they use all "
            "their rows in every step; a smaller batch_size treats all clients alike"
        )


def check_rows(coefficients: int, rows: Sequence[int], most: int | None = None) -> None:
    """Say which clients have at most `most` rows, by default as many as the coefficients that they solve for."""
    most = coefficients if most is None else most
    small = [count for count in rows if count <= most]
    if small:
        advise(
            f"every client solves for up to {coefficients} coefficients (3 tau and what always stays, or all), and "
            f"{_of(small, rows)} no more than {most} rows, the smallest {min(small)}: they fit their noise, and their "
            'average finds fewer of the right atoms; SharedSupportGradMP (method="shared" of an estimator) is made for '
            "such clients, or take a smaller sparsity, or solver=GradientDescent(steps=1)"
        )


def _of(small: Sequence[int], rows: Sequence[int]) -> str:
    return f"{len(small)} of {len(rows)} clients {'has' if len(small) == 1 else 'have'}"
