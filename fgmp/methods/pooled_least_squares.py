"""Pooled solvers for the squared loss: normal equations in one exchange, conjugate gradients in several.

`NormalEquations` sends a matrix on the support and `PooledConjugateGradient` vectors: the choice for large tau. What
the sums reveal stands in `pooled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..checks import settle_integer
from ..dictionaries import StandardBasis
from ..federation import Client
from ..linear_systems import solve_definite, solve_semidefinite
from ..local.restricted import inner
from ..losses import SquaredLoss
from ..models import Array, Message, SparseModel, unit_of
from ..shapes import Shaped
from .contract import Exchange, Reply, Sum, weighted_sum
from .pooled import MOST_STEPS, SQUARE, VECTOR, Point, ask_at_point, expects, support_of, symmetric, upper

__all__ = ["NormalEquations", "PooledConjugateGradient"]


@dataclass(frozen=True)
class NormalEquations:
    """Squared loss, one exchange: the clients send their normal equations on the support, the server solves the sum.

    Client i sends B'B / m_i (upper triangle) and B'r / m_i, with the columns B of A_i Psi on the support and the
    residual r = y - B alpha of the model that the server has; the server adds the d with
    (sum p_i B'B / m_i) d = sum p_i B'r / m_i, and takes the solution of minimum norm where it is not unique.

    Notes
    -----
    Units of the features do not matter. The error of d, relative to d, is about the machine precision times the square
    of the condition number of the pooled columns, scaled to length one: so a model that was good stays good, and every
    further round on the same support leaves the same fraction of the error.
    """

    def check(self, federation: Shaped) -> None:
        """Squared loss only."""
        _only_squared(federation, self)

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """One exchange."""

        def answer(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(support_of(message))
            weight = client.loss.row_weight(client.n_samples)
            residual = client.targets - columns @ message["values"]
            return {"gram": upper(weight * (columns.T @ columns)), "right": weight * (columns.T @ residual)}

        def combine(point: Point, replies: list[Reply]) -> Point:
            total = weighted_sum(replies)
            gram = symmetric(total["gram"])
            return Point(_solved(point.model, gram, total["right"], dictionary), None, gram)

        return (Exchange(ask_at_point, answer, combine, expects(gram=SQUARE, right=VECTOR), Sum()),)


@dataclass(frozen=True)
class PooledConjugateGradient:
    """Squared loss on large supports: conjugate gradients at the server, one exchange of vectors for each step.

    The first exchange collects the gradient at the start, every other one the product B'B d / m_i of a direction d.
    They end at a direction d with hardly any curvature d'Gd / d'd, G = sum p_i B'B / m_i, against the largest so far:
    at most k times the machine precision, for k features, where `NormalEquations` takes G for singular, too. What is
    left of the gradient there is rounding.

    Parameters
    ----------
    steps : int, default 10
        Conjugate gradient steps: 1 to 100,000.
    """

    steps: int = 10

    def __post_init__(self) -> None:
        settle_integer(self, "steps", at_most=MOST_STEPS)

    def check(self, federation: Shaped) -> None:
        """Squared loss only."""
        _only_squared(federation, self)

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """1 + `steps` exchanges."""

        def gradient(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(support_of(message))
            residual = client.targets - columns @ message["values"]
            return {"descent": client.loss.row_weight(client.n_samples) * (columns.T @ residual)}

        def start(point: Point, replies: list[Reply]) -> Point:
            descent = weighted_sum(replies)["descent"]
            return Point(point.model, (descent, descent, 0.0))

        def ask(point: Point) -> Message:
            _, direction, _ = point.memory
            return {"support": point.model.message()["support"], "direction": direction * unit_of(direction)}

        def product(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(support_of(message))
            image = columns @ message["direction"]
            return {"product": client.loss.row_weight(client.n_samples) * (columns.T @ image)}

        def step(point: Point, replies: list[Reply]) -> Point:
            (residual, direction, steepest), product = point.memory, weighted_sum(replies)["product"]
            unit = unit_of(direction)
            short = residual * unit, direction * unit
            curvature, energy = inner(short[1], product), inner(short[0], short[0])
            square = inner(short[1], short[1])
            steepest = max(steepest, curvature / square) if square else 0.0
            cut = len(product) * float(np.finfo(product.dtype).eps)
            if not (energy > 0 and curvature > cut * steepest * square):  # the minimiser is reached
                return point
            length = energy / curvature / unit
            left = residual - length * product
            model = replace(point.model, values=point.model.values + length * short[1])
            return Point(model, (left, left + inner(left * unit, left * unit) / energy * direction, steepest))

        steps = [Exchange(ask, product, step, expects(product=VECTOR), Sum())] * self.steps
        return (Exchange(ask_at_point, gradient, start, expects(descent=VECTOR), Sum()), *steps)


def _solved(model: SparseModel, gram: Array, right: Array, dictionary: StandardBasis) -> SparseModel:
    """The model with d added, where gram d = right; of minimum norm as a signal where d is not unique."""
    solved = solve_definite(gram, right)
    if solved is not None:
        return replace(model, values=model.values + solved[1])
    right = gram @ model.values + right
    metric = None if dictionary.orthonormal else dictionary.inner_products(model.support)
    return replace(model, values=solve_semidefinite(gram, right, metric))


def _only_squared(federation: Shaped, solver: Any) -> None:
    if not isinstance(federation.loss, SquaredLoss):
        raise ValueError(
            f"solver is {type(solver).__name__}, for the squared loss, and the loss is {federation.loss!r}; expected "
            "PooledNewton or LocalSteps"
        )
