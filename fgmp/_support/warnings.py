"""Warnings that say what goes badly in a run and what to do about it.

Each is given at most once a run, and in the main process only.
``warnings.simplefilter("ignore", fgmp.AdviceWarning)`` silences them.
"""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .validation import check_integer

Value = TypeVar("Value")

# A run has risen from its best objective if it gave back more than this share of what it had
# gained, and more than rounding of the objective at the start.
_SHARE_OF_GAIN = 0.1
_ROUNDING = 1e-6

# The folder of the package: a warning points at the first caller whose file lies outside of it.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# Each thread has its own value. The filters of `warnings` belong to the whole process, and to the
# user.
_is_advice_suppressed: ContextVar[bool] = ContextVar("fgmp_is_advice_suppressed", default=False)

# Where messages go that nobody is to be warned of yet.
_collected: ContextVar[list[str] | None] = ContextVar("fgmp_collected", default=None)

# The topics of `advise_once` on which this process has advised, as Python's own registry of
# warnings. Nothing but the warnings depends on it.
_ADVISED_TOPICS: set[str] = set()


class AdviceWarning(UserWarning):
    """Advice on how a run could go better.

    Examples
    --------
    A run warns of clients that solve for 12 coefficients with 10 rows each:

    >>> import warnings
    >>> import fgmp
    >>> few = fgmp.make_sparse_regression(n_clients=5, n_samples=10, sparsity=4, rng=0)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), few, rounds=1, rng=0)
    >>> [issubclass(warning.category, fgmp.AdviceWarning) for warning in caught]
    [True]
    """


def convergence_warning() -> type[Warning]:
    """Return the category of the warning that something stopped before it had converged.

    It is scikit-learn's, if that is installed, so that one filter holds for both packages,
    and RuntimeWarning otherwise.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
    except ImportError:
        return RuntimeWarning
    return ConvergenceWarning


def warn_user(
    message: str, category: type[Warning] = AdviceWarning, *, of_machine: bool = False
) -> None:
    """Warn the caller of the package, at the line of the call; stay silent in a worker process.

    Parameters
    ----------
    message : str
    category : type of Warning, default AdviceWarning
    of_machine : bool, default False
        Whether the warning is about the machine. Such advice is given inside `suppress_advice`
        too, because no caller gives it.
    """
    is_suppressed = _is_advice_suppressed.get() and not of_machine
    if issubclass(category, AdviceWarning) and is_suppressed:
        return
    collected = _collected.get()
    if collected is not None:
        collected.append(message)
        return
    if multiprocessing.current_process().name != "MainProcess":
        return
    # The frame of this function has level 1.
    _, level = _first_frame_outside(sys._getframe(), level=1)
    warnings.warn(message, category, stacklevel=level)


def _first_frame_outside(frame: FrameType, level: int = 0) -> tuple[FrameType, int]:
    """Return the first frame outside of this package, and its level counted from `level`."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return frame, level


@contextmanager
def _holding(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Give a variable a value in this context and thread, within a block."""
    before = variable.get()
    try:  # before anything is set: Ctrl-C may come between two lines
        variable.set(value)
        yield
    finally:
        variable.set(before)


def suppress_advice() -> AbstractContextManager[None]:
    """Give no advice in this context and thread, because the caller gives it or follows it."""
    return _holding(_is_advice_suppressed, True)


@contextmanager
def collect_warnings(*, with_advice: bool = False) -> Iterator[list[str]]:
    """Collect messages in this context and thread, in worker processes too.

    The caller says once what many repetitions of its work would say, at the line of its own caller,
    or where it prints. Advice is suppressed unless it is asked for.
    """
    messages: list[str] = []
    with _holding(_collected, messages), nullcontext() if with_advice else suppress_advice():
        yield messages


def advise_once(topic: str, message: str) -> None:
    """Advise the caller; if scikit-learn is the caller, only once a process on each topic.

    scikit-learn fits the same model to other rows again and again. The names in the message differ
    each time, and scikit-learn sets filters anew, so that Python forgets which warnings were given.
    """
    caller, _ = _first_frame_outside(sys._getframe())
    if str(caller.f_globals.get("__name__")).startswith("sklearn."):
        if topic in _ADVISED_TOPICS:
            return
        _ADVISED_TOPICS.add(topic)
    warn_user(message)


def is_called_by_model_selection() -> bool:
    """Return whether scikit-learn's model selection, such as `cross_val_score`, is a caller."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back
    return False


def check_batch_size(batch_size: int | None, n_rows: Sequence[int]) -> None:
    """Warn if some clients have fewer rows than a minibatch; raise a ValueError if all have.

    Parameters
    ----------
    batch_size : int or None
        None is all rows, and never a reason to warn.
    n_rows : sequence of int
        The numbers of rows of the clients.

    Raises
    ------
    ValueError
        If all clients have fewer rows.
    """
    if batch_size is None:
        return
    largest = max(n_rows)
    check_integer("batch_size", batch_size, at_most=largest, why="the rows of the largest client")
    small = [count for count in n_rows if count < batch_size]
    if small:
        warn_user(
            f"batch_size is {batch_size}, and {_clients_have(small, n_rows)} fewer rows, the "
            f"smallest {min(small)}: they use all their rows in every step; a smaller batch_size "
            "treats all clients alike"
        )


def warn_of_few_rows(coefficients: int, n_rows: Sequence[int]) -> None:
    """Warn if clients have few rows for the number of coefficients that they solve for.

    Parameters
    ----------
    coefficients : int
    n_rows : sequence of int
        The numbers of rows of the clients.
    """
    small = [count for count in n_rows if count <= coefficients]
    if small:
        warn_user(
            f"every client solves for up to {coefficients} coefficients (3 tau and what always "
            f"stays, or all), and {_clients_have(small, n_rows)} no more than {coefficients} rows, "
            f"the smallest {min(small)}: solving exactly they fit their noise, and their average "
            "finds fewer of the right atoms; SharedSupportGradMP "
            '(method="shared" of an estimator) is made for such clients, or take a smaller '
            "sparsity, or solver=GradientDescent(steps=5) and three times the rounds"
        )


def _clients_have(small: Sequence[int], n_rows: Sequence[int]) -> str:
    """Return the words "2 of 7 clients have"."""
    verb = "has" if len(small) == 1 else "have"
    return f"{len(small)} of {len(n_rows)} clients {verb}"


def warn_of_no_answers(what: str, rounds: int, rejected: Mapping[str, int], expected: str) -> None:
    """Warn that no round counted, so that the model is the one of the start.

    Parameters
    ----------
    what : str
        The name of the method or function that ran.
    rounds : int
    rejected : mapping of str to int
        How many updates were rejected for each reason.
    expected : str
        What an update has to be.
    """
    plural = "s" if rounds != 1 else ""
    message = (
        f"no update arrived in {rounds} round{plural} of {what}: the model is the one of the start"
    )
    if rejected:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(rejected.items()))
        message += f"; rejected updates: {counts}"
    if "malformed" in rejected:
        message += f". Each has to be {expected}"
    if "not_finite" in rejected:
        message += ". What helps: smaller or fewer local steps (learning_rate, local_iterations)"
    warn_user(message)


def has_risen(objective: NDArray[Any], objective_of_zero: Callable[[], float]) -> bool:
    """Return whether the last objective of a run is above the best by more than a little.

    Parameters
    ----------
    objective : ndarray
        The objectives that were recorded, the first at the start.
    objective_of_zero : callable
        Return the objective of the zero model, which costs a product with the data.
    """
    first = objective[0]
    lowest = np.nanmin(objective)
    rise = objective[-1] - lowest
    if not rise > max(_SHARE_OF_GAIN * (first - lowest), _ROUNDING * abs(first)):
        return False
    # After a warm start the objective at the start may be tiny. Then the scale of the problem says
    # what rounding is.
    return bool(rise > _ROUNDING * objective_of_zero())


def warn_of_rise(method_name: str, objective: NDArray[Any], best_round: int) -> None:
    """Warn that the last of the recorded objectives is above the best."""
    first = objective[0]
    last = objective[-1]
    above = "" if last <= first else f", above the {first:.3g} of the start"
    warn_user(
        f"the objective of {method_name} ends at {last:.3g}{above}; it was "
        f"{np.nanmin(objective):.3g} in round {best_round}, and result.best keeps that model. What "
        "helps: smaller or fewer local steps (learning_rate, local_iterations, solver=None), a "
        "radius, an earlier stop (stop_when_stalled)"
    )


def warn_of_separation(method_name: str) -> None:
    """Warn that a model without bound separates the rows by their labels."""
    warn_user(
        f"the model of {method_name} classifies all rows without error: its loss has no "
        "minimiser, and coefficients grow with every round; a radius bounds them"
    )
