"""The pooled solver for any loss: aggregated Newton steps.

Each exchange sums values, gradients and Hessians on the support; a step that raised the objective is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..checks import settle_integer, settle_number
from ..dictionaries import StandardBasis
from ..federation import Client
from ..linear_systems import fill_shifts, newton_direction
from ..local.restricted import RestrictedProblem, inner
from ..losses import misclassified
from ..models import Array, Message, SparseModel
from ..shapes import Shaped
from .contract import Exchange, Reply, Sum, weighted_sum
from .pooled import (
    MOST_STEPS,
    NUMBER,
    SQUARE,
    VECTOR,
    Point,
    Unfinished,
    ask_at_point,
    expects,
    support_of,
    symmetric,
    upper,
)

__all__ = ["PooledNewton", "Separated"]


class Separated(ValueError):
    """A loss without ridge and radius that has no minimiser, because no row is on the wrong side."""


@dataclass(frozen=True)
class PooledNewton:
    """Any loss: aggregated Newton steps, one exchange for each, and a last one that compares objectives.

    Client i sends f_i, its gradient and its Hessian (upper triangle) on the support; the server goes to the minimiser
    of the quadratic model of f(x) + (ridge/2) ||alpha||^2. A step that raised the objective is halved. Before the first
    is, the zero model on the support is tried in its place, once: from a point that ran away, where a loss has hardly
    any curvature, no step leads back, and from zero they converge.

    Without a ridge, a softmax Hessian arrives with its mean curvature along the directions that change all classes of a
    feature alike, where it has none of its own, and no step moves along them.

    Parameters
    ----------
    steps : int, default 5
        At least 1.
    ridge : float, default 0.0
        Weight of the squared norm of the coefficients, at least 0.

    Raises
    ------
    ValueError
        During a run, where the clients' rows are separated without error on the support and there is neither a ridge
        nor a ball: then the logistic and softmax losses have no minimiser. Rows that are separated in part, such as a
        feature seen with one label only, have none either, and are not noticed.
    """

    steps: int = 5
    ridge: float = 0.0

    def __post_init__(self) -> None:
        settle_integer(self, "steps", at_most=MOST_STEPS)
        settle_number(self, "ridge", at_least=0)

    def check(self, federation: Shaped) -> None:
        """Every loss fits."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """`steps` + 1 exchanges."""
        search = _Search(self.ridge, dictionary, radius)
        whole = expects(value=NUMBER, wrong=NUMBER, gradient=VECTOR, hessian=SQUARE)
        steps = [Exchange(ask_at_point, search.derivatives, search.step, whole, Sum())] * self.steps
        check = expects(value=NUMBER, wrong=NUMBER)
        last = Exchange(ask_at_point, search.value, search.keep_the_better, check, Sum())
        return (*steps, last)


class BestSoFar(NamedTuple):
    """What is remembered between two exchanges: the best model so far and the step tried from it.

    Also what the quadratic model promised of the whole step, the objective at the very start, whether the zero model
    has been tried, and the Hessian at the best model.
    """

    model: SparseModel
    objective: float
    direction: Array
    promised: float
    first: float
    zero_tried: bool
    hessian: Array


class _Search(NamedTuple):
    """Newton's method with halving, over points whose memory is the best model so far."""

    ridge: float
    dictionary: StandardBasis
    radius: float | None

    def derivatives(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """What a client sends: f_i, its gradient and its Hessian on the support."""
        problem, predictions = self.problem(client, message)
        hessian, gradient = problem.hessian(predictions), problem.gradient(predictions)
        if self.ridge == 0:
            hessian, gradient = fill_shifts(hessian, gradient, problem.shifts)
        return _value(client, problem, predictions) | {"gradient": gradient, "hessian": upper(hessian)}

    def value(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """What a client sends at the end: f_i."""
        return _value(client, *self.problem(client, message))

    def step(self, point: Point, replies: list[Reply]) -> Point:
        """To the minimiser of the quadratic model or, where the last step raised the objective, half of it back."""
        total, trial = weighted_sum(replies), point.model
        if total["wrong"][0] == 0 and self.ridge == 0 and self.radius is None:
            raise Separated(
                f"the clients' rows are separated without error on the {len(trial.support)} coefficients of the "
                "support, so the loss has no minimiser there; expected a ridge above 0 or a radius"
            )
        objective = self.objective(total["value"], trial)
        best: BestSoFar | None = point.memory
        if best is not None and not _is_no_worse(objective, best):
            return self.tried(best._replace(direction=best.direction / 2)) if best.zero_tried else self.from_zero(best)
        gradient = total["gradient"] + self.ridge * trial.values
        hessian = symmetric(total["hessian"]) + self.ridge * np.eye(len(gradient), dtype=gradient.dtype)
        direction = newton_direction(hessian, gradient)
        first, zero_tried = (objective, not trial.values.any()) if best is None else (best.first, best.zero_tried)
        if not np.isfinite(direction).all():  # no curvature to speak of: a saturated loss
            here = BestSoFar(trial, objective, np.zeros_like(gradient), 0.0, first, zero_tried, hessian)
            return self.tried(here) if zero_tried else self.from_zero(here)
        promised = -inner(gradient, direction) / 2
        return self.tried(BestSoFar(trial, objective, direction, promised, first, zero_tried, hessian))

    def keep_the_better(self, point: Point, replies: list[Reply]) -> Point:
        """The last trial, or the best model where the trial is worse."""
        best: BestSoFar = point.memory
        objective = self.objective(weighted_sum(replies)["value"], point.model)
        better = _is_no_worse(objective, best)
        missed = abs(best.promised - (best.objective - objective if better else 0.0))
        scale = max(abs(min(objective, best.objective)), 1e-6 * abs(best.first))
        close = self.radius is not None or missed <= _CLOSE * scale
        unfinished = None if close else Unfinished(missed, scale)
        return Point(point.model if better else best.model, unfinished, best.hessian)

    def tried(self, best: BestSoFar) -> Point:
        """The point one step from the best model."""
        moved = replace(best.model, values=best.model.values + best.direction)
        return Point(self.dictionary.into_ball(moved, self.radius), best)

    def from_zero(self, best: BestSoFar) -> Point:
        """The zero model on the support, to be compared with the best."""
        return Point(replace(best.model, values=np.zeros_like(best.model.values)), best._replace(zero_tried=True))

    def objective(self, value: Array, model: SparseModel) -> float:
        """F + (ridge/2) ||alpha||^2."""
        return float(value[0]) + self.ridge / 2 * inner(model.values, model.values)

    def problem(self, client: Client, message: Message) -> tuple[RestrictedProblem, Array]:
        """The client's problem on the support, and its predictions at the point."""
        problem = RestrictedProblem.of(client, support_of(message), self.dictionary, orthonormal=False)
        return problem, problem.predictions(message["values"])


# A Newton step has converged where the objective fell by what the quadratic model promised, but for this share of it.
_CLOSE = 1e-4


def _is_no_worse(objective: float, best: BestSoFar) -> bool:
    """Whether an objective is at most the best so far, but for the rounding of what the clients sent."""
    rounding = 16 * float(np.finfo(best.model.values.dtype).eps) * abs(best.objective)
    return bool(objective <= best.objective + rounding)


def _value(client: Client, problem: RestrictedProblem, predictions: Array) -> Message:
    """f_i, and the share of rows that are not classified correctly."""
    wrong_rows = misclassified(client.loss)
    wrong = 1.0 if wrong_rows is None else float(np.mean(wrong_rows(predictions, client.targets)))
    dtype = predictions.dtype
    return {"value": np.array([problem.value(predictions)], dtype), "wrong": np.array([wrong], dtype)}
