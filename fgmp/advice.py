"""Warnings that say what a run does badly and what to do about it, each at most once a run, in the main process.

``warnings.simplefilter("ignore", fgmp.AdviceWarning)`` quiets them.
"""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .checks import check_integer
from .losses import misclassified
from .models import Array, SparseModel

_HOUSE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# A run has risen where it gave back more than this share of what it had gained, and by more than rounding.
_SHARE, _ROUNDING = 0.1, 1e-6


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


def say_how_it_ended(run: Any, objective: Array, coefficients: Array) -> None:
    """Warn where a run ends above its start or well above its best, or where nothing bounds its coefficients."""
    if np.isnan(objective).all():  # nobody says it
        return
    if run.reduce.withholds and np.isnan(objective[-1]) and np.isfinite(coefficients).all():
        return
    first, last, low, name = objective[0], objective[-1], np.nanmin(objective), type(run.method).__name__
    solver = getattr(run.method, "solver", None)
    unbounded = getattr(run.method, "radius", 0.0) is None and not getattr(solver, "ridge", 0.0)
    gave_back = last - low > max(_SHARE * (first - low), _ROUNDING * abs(first))
    if gave_back:  # after a warm start what is rounding depends on the scale of the problem
        zero = SparseModel.zero(coefficients.shape, coefficients.dtype)
        scale = run.reduce.objective(run.channel, zero, run.asked)
        gave_back = not last - low <= _ROUNDING * (scale or 0.0)
    if not np.isfinite(last) or gave_back:
        above = "" if last <= first else f", above the {first:.3g} of the start"
        advise(
            f"the objective of {name} ends at {last:.3g}{above}; it was {low:.3g} in round {run.best[1]}, and "
            "result.best keeps that model. What helps: smaller or fewer local steps (learning_rate, "
            "local_iterations, solver=None), a radius, an earlier stop (stop_when_stalled)"
        )
    elif len(objective) > 1 and unbounded and _separates(run.channel, coefficients):
        advise(
            f"the model of {name} classifies all rows without error: its loss has no minimiser, and coefficients "
            "grow with every round; a radius bounds them"
        )


def _separates(channel: Any, coefficients: Array) -> bool:
    """Whether a model has every row of every client at hand on the right side; False for losses without sides."""
    wrong, clients = misclassified(channel.shape.loss), getattr(channel, "clients", ())
    if wrong is None or not clients:
        return False
    return not any(wrong(client.predictions(coefficients), client.targets).any() for client in clients)
