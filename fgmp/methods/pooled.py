"""Minimising f = sum_i p_i f_i on a support that all clients know, from weighted sums of what the clients send.

A pooled solver is a small immutable object that turns into a sequence of exchanges. All but `LocalSteps` find, or
approach, the minimiser of the pooled objective; none needs more than sums over the clients, so secure aggregation can
hide what a single client sends.

What the sums reveal. A Gram matrix on 3 tau features holds the second moments of these features, and the right side
their correlations with the targets. Nothing is said about other features. Without secure aggregation a client with
fewer rows than features gives away its rows on the support up to a rotation, so this is not a privacy mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..checks import shown
from ..dictionaries import StandardBasis
from ..models import Array, Message, SparseModel, Support
from ..shapes import Shaped
from .answers import check_arrays
from .contract import Exchange

__all__ = [
    "MOST_STEPS",
    "NUMBER",
    "SQUARE",
    "VECTOR",
    "Point",
    "PooledSolver",
    "Unfinished",
    "ask_at_point",
    "check_pooled_solver",
    "expects",
    "support_of",
    "symmetric",
    "upper",
]


class Point(NamedTuple):
    """Where the server is: a model on the support, and what the solver remembers between two exchanges.

    At the end of a round also the Hessian of f on the support, where the solver has it.
    """

    model: SparseModel
    memory: Any = None
    curvature: Array | None = None


class Unfinished(NamedTuple):
    """The last memory of a solver that did not reach a minimiser.

    Attributes
    ----------
    missed : float
        By how much the objective fell short of, or went beyond, what the last step promised.
    objective : float
        Where it ended.
    """

    missed: float
    objective: float


class PooledSolver(Protocol):
    """What `SharedSupportGradMP` and `polish` need of a way to minimise on a shared support."""

    def check(self, federation: Shaped) -> None:
        """Raise a ValueError where it does not fit the federation."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """The exchanges, over states of type `Point`: from a model on the support to a better one on it."""


def check_pooled_solver(solver: Any) -> None:
    """Raise a ValueError where a solver is not a pooled one; a client's own solver is named as such."""
    if callable(getattr(solver, "exchanges", None)) and not isinstance(solver, type):
        return
    pooled = "NormalEquations(), PooledConjugateGradient(), PooledNewton() or LocalSteps(...)"
    if callable(getattr(solver, "minimise", None)) and not isinstance(solver, type):
        raise ValueError(
            f"solver is {solver!r}, which minimises the objective of one client; expected a pooled solver: {pooled}, "
            f"for example LocalSteps({solver!r})"
        )
    raise ValueError(f"solver is {shown(solver)}; expected a pooled solver: {pooled}")


NUMBER, VECTOR, SQUARE = "number", "vector", "square"
# Each is an exchange.
MOST_STEPS = 100_000


def expects(**arrays: str) -> Callable[[Point, Message], None]:
    """A check that an answer holds these arrays, each for the support of the point and in its precision.

    Of a square symmetric matrix the upper triangle travels.
    """

    def check(point: Point, message: Message) -> None:
        k, dtype = len(point.model.support), point.model.values.dtype
        kinds = {
            NUMBER: ((1,), dtype),
            VECTOR: ((k,), dtype),
            SQUARE: ((k * (k + 1) // 2,), dtype),
        }
        check_arrays(message, {name: kinds[kind] for name, kind in arrays.items()})

    return check


def ask_at_point(point: Point) -> Message:
    """The model of the point, as indices and values."""
    return point.model.message()


def support_of(message: Message) -> Support:
    """The support that a message names."""
    return message["support"].astype(np.intp)


@lru_cache(maxsize=4)
def _upper_places(size: int) -> tuple[Array, Array]:
    """Where the upper triangle stands; the same for all clients of an exchange."""
    rows, columns = np.triu_indices(size)
    return rows, columns


def upper(matrix: Array) -> Array:
    """The upper triangle of a symmetric matrix, row by row."""
    triangle: Array = matrix[_upper_places(len(matrix))]
    return triangle


def symmetric(triangle: Array) -> Array:
    """The symmetric matrix of an upper triangle; the inverse of `upper`."""
    size = int((np.sqrt(8 * len(triangle) + 1) - 1) / 2)
    matrix = np.zeros((size, size), triangle.dtype)
    matrix[_upper_places(size)] = triangle
    return matrix + np.triu(matrix, 1).T
