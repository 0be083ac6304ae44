"""Warnings that say what a run does badly and what to do about it, each at most once a run.

All are `AdviceWarning`, so that one filter quiets them: ``warnings.simplefilter("ignore", fgmp.AdviceWarning)``. They
speak in the main process only: a study that deals its runs to the processes of joblib reads histories, not messages.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .checks import check_integer

__all__ = [
    "AdviceWarning",
    "CheckpointWarning",
    "FewRowsWarning",
    "InterruptedWarning",
    "RehearsalWarning",
    "RisingObjectiveWarning",
    "SeparationWarning",
    "SmallSiteWarning",
    "advise",
    "check_batches",
    "check_rows",
    "quiet",
]

_HOUSE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class AdviceWarning(UserWarning):
    """What a run tells whoever started it."""


class CheckpointWarning(AdviceWarning):
    """A checkpoint is damaged, and the previous one is used; or it could not be written, and the run goes on."""


class InterruptedWarning(AdviceWarning):
    """Ctrl-C ended a run, and its result is what there was."""


class RehearsalWarning(AdviceWarning):
    """The noise of a run comes from a seed that was asked for by name, and protects nobody."""


class FewRowsWarning(AdviceWarning):
    """A client has too few rows for the coefficients to solve for, which FedGradMP with exact clients does badly."""


class SmallSiteWarning(AdviceWarning):
    """A client has fewer rows than a minibatch, and uses all; or than an estimator's minimum, and takes no part."""


class RisingObjectiveWarning(AdviceWarning):
    """A run ends well above its best model, or above its start."""


class SeparationWarning(AdviceWarning):
    """The model classifies every row of every client, so that its loss has no minimiser and coefficients only grow."""


def advise(message: str, category: type[AdviceWarning]) -> None:
    """Warn whoever called the module, however deep inside of it; not in a worker process."""
    if multiprocessing.current_process().name != "MainProcess":
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOUSE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


@contextmanager
def quiet(category: type[AdviceWarning] = AdviceWarning) -> Iterator[None]:
    """Nothing is said in here: the caller has said it, or does what the advice would be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


def check_batches(batch_size: int | None, rows: Sequence[int]) -> None:
    """Say which clients have fewer rows than a minibatch; raise a ValueError where all have.

    Parameters
    ----------
    batch_size : int or None
    rows : sequence of int
        The rows of each client.
    """
    if batch_size is None:
        return
    check_integer("batch_size", batch_size, at_most=max(rows), why="the rows of the largest client")
    small = [count for count in rows if count < batch_size]
    if small:
        advise(
            f"batch_size is {batch_size}, and {_of(small, rows)} fewer rows, the smallest {min(small)}: they use all "
            "their rows in every step; a smaller batch_size treats all clients alike",
            SmallSiteWarning,
        )


def check_rows(coefficients: int, rows: Sequence[int], most: int | None = None) -> None:
    """Say which clients have too few rows for the coefficients that they solve for.

    Parameters
    ----------
    coefficients : int
        3 tau and what always stays, or all there are.
    rows : sequence of int
        The rows of each client.
    most : int, optional
        How many rows are still too few: as many as coefficients by default, with which a client fits anything.
    """
    most = coefficients if most is None else most
    small = [count for count in rows if count <= most]
    if small:
        advise(
            f"every client solves for up to {coefficients} coefficients (3 tau and what always stays, or all), and "
            f"{_of(small, rows)} no more than {most} rows, the smallest {min(small)}: they fit their noise, and their "
            'average finds fewer of the right atoms; SharedSupportGradMP (method="shared" of an estimator) is made for '
            "such clients, or take a smaller sparsity, or solver=GradientDescent(steps=1)",
            FewRowsWarning,
        )


def _of(small: Sequence[int], rows: Sequence[int]) -> str:
    return f"{len(small)} of {len(rows)} clients {'has' if len(small) == 1 else 'have'}"
