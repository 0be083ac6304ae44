"""Warnings that say what a run does badly and what to do about it, each at most once a run, in the main process.

``warnings.simplefilter("ignore", fgmp.AdviceWarning)`` quiets them.
"""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..losses import misclassified
from ..sparse_model import Array, IndexArray
from .validation import check_integer

# Of the package, whose frames a warning passes over.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# A run has risen where it gave back more than this share of what it had gained, and by more than rounding.
_SHARE, _ROUNDING = 0.1, 1e-6
# A value of each thread's own: the filters of `warnings` are the whole process's, and are the user's to set.
_is_quiet: ContextVar[bool] = ContextVar("fgmp_is_quiet", default=False)


class AdviceWarning(UserWarning):
    """What a run tells whoever started it."""


def warn_user(
    message: str, category: type[Warning] = AdviceWarning, *, of_machine: bool = False
) -> None:
    """Warn whoever called the module, however deep inside of it; not in a worker process.

    Nor inside `quiet`, but for what is wrong with the machine: that is nobody else's to say.
    """
    if multiprocessing.current_process().name != "MainProcess":
        return
    if issubclass(category, AdviceWarning) and _is_quiet.get() and not of_machine:
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


@contextmanager
def suppress_advice() -> Iterator[None]:
    """No advice in here, and in this thread: the caller has said it, or does what the advice would be."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def warn_of_small_batches(batch_size: int | None, rows: Sequence[int]) -> None:
    """Say which clients have fewer rows than a minibatch; raise a ValueError where all have."""
    if batch_size is None:
        return
    check_integer("batch_size", batch_size, at_most=max(rows), why="the rows of the largest client")
    small = [count for count in rows if count < batch_size]
    if small:
        warn_user(
            f"batch_size is {batch_size}, and {_of(small, rows)} fewer rows, the smallest {min(small)}: they use all "
            "their rows in every step; a smaller batch_size treats all clients alike"
        )


def warn_of_few_rows(coefficients: int, rows: Sequence[int], most: int | None = None) -> None:
    """Say which clients have at most `most` rows, by default as many as the coefficients that they solve for."""
    most = coefficients if most is None else most
    small = [count for count in rows if count <= most]
    if small:
        warn_user(
            f"every client solves for up to {coefficients} coefficients (3 tau and what always stays, or all), and "
            f"{_of(small, rows)} no more than {most} rows, the smallest {min(small)}: they fit their noise, and their "
            'average finds fewer of the right atoms; SharedSupportGradMP (method="shared" of an estimator) is made for '
            "such clients, or take a smaller sparsity, or solver=GradientDescent(steps=1)"
        )


# As Python's own registry of warnings: nothing depends on it but what is said.
_TOPICS_TOLD: set[str] = set()


def advise_once(topic: str, message: str) -> None:
    """Advise, but once a process where scikit-learn is the caller.

    It fits the same model to other rows again and again: the names in the message differ each
    time, and filters that it sets anew make Python forget what was said.
    """
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if str(frame.f_globals.get("__name__")).startswith("sklearn."):
        if topic in _TOPICS_TOLD:
            return
        _TOPICS_TOLD.add(topic)
    warn_user(message)


def _of(small: Sequence[int], rows: Sequence[int]) -> str:
    return f"{len(small)} of {len(rows)} clients {'has' if len(small) == 1 else 'have'}"


def warn_on_outcome(run: Any, objective: Array, coefficients: Array) -> None:
    """Warn where no update arrived, a run ends above its start or well above its best, or nothing bounds its model.

    Of the clients nobody is asked for it: what is looked at is on record, or at hand.
    """
    if run.step.round and not run.step.counted:
        say_that_nobody_answered(type(run.method).__name__, run.step.round, run.step.rejected)
        return
    if np.isnan(objective).all():  # nobody says it
        return
    if (
        run.aggregator.privacy.withholds_objective
        and np.isnan(objective[-1])
        and np.isfinite(coefficients).all()
    ):
        return
    first, last, low, name = (
        objective[0],
        objective[-1],
        np.nanmin(objective),
        type(run.method).__name__,
    )
    solver = getattr(run.method, "solver", None)
    unbounded = getattr(run.method, "radius", 0.0) is None and not getattr(solver, "ridge", 0.0)
    gave_back = last - low > max(_SHARE * (first - low), _ROUNDING * abs(first))
    if gave_back:  # after a warm start what is rounding depends on the scale of the problem
        gave_back = last - low > _ROUNDING * _objective_of_zero(run.transport, run.polled)
    if not np.isfinite(last) or gave_back:
        above = "" if last <= first else f", above the {first:.3g} of the start"
        warn_user(
            f"the objective of {name} ends at {last:.3g}{above}; it was {low:.3g} in round {run.best.round}, and "
            "result.best keeps that model. What helps: smaller or fewer local steps (learning_rate, "
            "local_iterations, solver=None), a radius, an earlier stop (stop_when_stalled)"
        )
    elif len(objective) > 1 and unbounded and _separates(run.transport, coefficients):
        warn_user(
            f"the model of {name} classifies all rows without error: its loss has no minimiser, and coefficients "
            "grow with every round; a radius bounds them"
        )


def say_that_nobody_answered(what: str, rounds: int, rejected: Any) -> None:
    """Warn that not one round counted, so that the model is the start."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))
    helps = ". What helps: smaller or fewer local steps (learning_rate, local_iterations)"
    warn_user(
        f"no update arrived in {rounds} round{'s' * (rounds != 1)} of {what}: the model is the one of the start"
        + f"; answers left out: {counts}" * bool(counts)
        + helps * ("not_finite" in rejected)
    )


def _objective_of_zero(transport: Any, indices: IndexArray) -> float:
    """The mean objective of the zero model at some clients, from targets at hand; 0 where there are none at hand."""
    targets, offsets = getattr(transport, "targets", None), getattr(transport, "offsets", None)
    if targets is None or offsets is None:
        return 0.0
    loss, total = transport.shape.loss, 0.0
    n_outputs = loss.model_shape(1)[1:]
    weights = transport.weights[indices] / transport.weights[indices].sum()
    for index, weight in zip(indices, weights, strict=True):
        own = targets[offsets[index] : offsets[index + 1]]
        values = loss.values(np.zeros((len(own), *n_outputs)), own)
        total += float(weight * loss.row_weight(len(own)) * values.sum())
    return total


def _separates(transport: Any, coefficients: Array) -> bool:
    """Whether a model has every row of every client at hand on the right side; False for losses without sides."""
    wrong = misclassified(transport.shape.loss)
    if wrong is None:
        return False
    clients = getattr(transport, "clients", ())
    return len(clients) > 0 and not any(
        wrong(client.predictions(coefficients), client.targets).any() for client in clients
    )
