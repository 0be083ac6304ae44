"""What a server takes from a client: finite arrays with the names, shapes, types and indices that it asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..models import Array, Message
from ..selection import PER_OUTPUT, Selection

__all__ = ["REASONS", "Missed", "Refused", "check_arrays", "check_model", "check_sparse_model", "reason_against"]

# Why a server does without an answer.
REASONS = ("missing", "late", "not_finite", "malformed", "indices", "too_many", "weight")


class Refused(ValueError):
    """An answer that is not taken.

    Parameters
    ----------
    message : str
    reason : str
        The one of `REASONS` under which it is counted.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Missed(NamedTuple):
    """What stands in place of an answer that the server does not look at.

    Attributes
    ----------
    reason : str
        One of `REASONS`.
    answer : object
        What arrived all the same, and is counted among the bytes; None is nothing.
    """

    reason: str
    answer: Any = None


def reason_against(check: Callable[[Any, Message], None], state: Any, answer: Any) -> str:
    """Why an answer is not taken, one of `REASONS`; "" where it is a message of finite numbers that passes its check.

    Parameters
    ----------
    check : callable (state, message) -> None
        Raises a ValueError where the message is not what the exchange asked for; one that is not `Refused` counts as
        malformed.
    state : object
        The server's.
    answer : object
        Whatever came; None is nothing.
    """
    if isinstance(answer, Missed):
        return answer.reason
    if answer is None:
        return "missing"
    if not isinstance(answer, dict):
        return "malformed"
    for array in answer.values():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            return "malformed"
    for array in answer.values():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return "not_finite"
    try:
        check(state, answer)
    except Refused as error:
        return error.reason
    except ValueError:
        return "malformed"
    return ""


def check_arrays(message: Message, arrays: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Raise a ValueError unless a message holds just the arrays named, each with its shape and type."""
    if set(message) != set(arrays):
        raise ValueError(f"message holds {sorted(message)}; expected {sorted(arrays)}")
    for name, (shape, dtype) in arrays.items():
        array = message[name]
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}; expected {shape} and {dtype}")


def check_model(message: Message, like: Array) -> None:
    """Raise a ValueError unless a message carries a model of the shape and type of `like`, dense or sparse."""
    if "dense" in message:
        check_arrays(message, {"dense": (like.shape, like.dtype)})
    else:
        check_sparse_model(message, like.shape, like.dtype)


def check_sparse_model(
    message: Message,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    at_most: int | None = None,
    selection: Selection = PER_OUTPUT,
) -> None:
    """Raise a ValueError unless a message carries a sparse model.

    Parameters
    ----------
    message : dict of ndarray
        ``support``, increasing positions in the flattened coefficients, and their ``values``.
    shape : tuple of int
        Of the dense coefficients.
    dtype : dtype
        Of the values.
    at_most : int or None
        The most that may count, as the selection counts; None is no limit.
    selection : Selection
    """
    support = message.get("support", np.empty(0))
    if support.ndim != 1 or support.dtype != np.int32:
        raise ValueError(f"support has shape {support.shape} and dtype {support.dtype}; expected a vector of int32")
    check_arrays(message, {"support": (support.shape, np.dtype(np.int32)), "values": (support.shape, dtype)})
    if not support.size:
        return
    if (support[1:] <= support[:-1]).any() or support[0] < 0 or support[-1] >= math.prod(shape):
        raise Refused(f"support is not increasing from 0 to at most {math.prod(shape) - 1}", "indices")
    if at_most is not None:
        try:
            selection.check_support(support, shape, at_most)
        except ValueError as error:
            raise Refused(str(error), "too_many") from error
