"""Minimising f = sum_i p_i f_i on a support that all clients know, from weighted means of what they send.

What the sums reveal: a Hessian on 3 tau features holds, for the squared loss, their second moments, and the gradient
their correlations with the residual; nothing about other features. Without secure sums a client with fewer rows than
features gives away its rows on the support up to a rotation, so this is not a privacy mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..checks import check_protocol, settle_integer, settle_number
from ..dictionaries import StandardBasis
from ..federation import Client
from ..linear_systems import fill_shifts, newton_direction, solve_definite, solve_semidefinite
from ..losses import SquaredLoss, misclassified
from ..models import Array, SparseModel
from ..rounds import Form
from ..shapes import Shape
from ..solvers import RestrictedProblem, Solver, check_solver, inner, minimise_on

# Each is an exchange.
_MOST = 100_000


class Point(NamedTuple):
    """Where the server is on a support: model, what the solver remembers, at the end the Hessian if known.

    At the end, `missed` is what the last step missed of what it promised, as a share of f; None where it converged.
    """

    model: SparseModel
    memory: Any = None
    curvature: Array | None = None
    missed: float | None = None


class SupportSolver(Protocol):
    """What `SharedSupportGradMP` and `polish` need of a way to minimise on a shared support."""

    @property
    def n_exchanges(self) -> int:
        """How many exchanges it takes."""

    def check(self, shape: Shape) -> None:
        """Raise a ValueError where it does not fit the federation."""

    def ask(self, point: Point) -> Any:
        """What the server sends."""

    def answer(self, client: Client, message: Any, rng: np.random.Generator, atoms: StandardBasis) -> Array:
        """What a client sends: one vector."""

    def form(self, point: Point) -> Form:
        """What that looks like."""

    def update(self, point: Point, mean: Array, atoms: StandardBasis, radius: float | None) -> Point:
        """What the server makes of the mean."""


def check_support_solver(solver: Any) -> None:
    """Raise a ValueError where a solver is not one on a shared support."""
    expected = "a solver on a shared support: NewtonOnSupport() or LocalSteps(a client's solver)"
    check_protocol("solver", solver, ("ask", "answer", "update"), expected)


class Best(NamedTuple):
    """The best model so far and the step tried from it, for the squared loss without one.

    Also what the quadratic model promised of the step, f at the very start, whether zero was tried, the Hessian.
    """

    model: SparseModel
    objective: float
    direction: Array
    promised: float
    first: float
    zero_tried: bool
    hessian: Array


class Separated(ValueError):
    """A loss without ridge and radius that has no minimiser, because no row is on the wrong side."""


@dataclass(frozen=True)
class NewtonOnSupport:
    """Aggregated Newton steps, one exchange for each: one step is exact for the squared loss, the normal equations.

    Client i sends the upper half of its Hessian H on the support and its gradient g, and with several steps f_i and the
    share w of its rows on the wrong side, in one vector; the server goes to the minimiser of the quadratic
    model of f(x) + (ridge/2) ||alpha||^2, of minimum norm where it is not unique. With several steps, one that raised
    the objective is halved, and a last exchange compares objectives. Before the first is halved, the zero model on the
    support is tried in its place, once: from a point that ran away, where a loss has hardly any curvature, no step
    leads back, and from zero they converge.

    Without a ridge, a softmax Hessian arrives with its mean curvature along the directions that change all classes of a
    feature alike, where it has none of its own, and no step moves along them.

    Parameters
    ----------
    steps : int, default 1
        At least 1; losses other than the squared take several, five say.
    ridge : float, default 0.0
        Weight of the squared norm of the coefficients, at least 0.

    Raises
    ------
    ValueError
        During a run of several steps, where the clients' rows are separated without error on the support and there is
        neither a ridge nor a ball: then the logistic and softmax losses have no minimiser.

    Notes
    -----
    Units of the features do not matter. The error of a step, relative to the step, is about the machine precision times
    the square of the condition number of the pooled columns, scaled to length one: so every further round on the same
    support leaves the same fraction of the error.
    """

    steps: int = 1
    ridge: float = 0.0

    def __post_init__(self) -> None:
        settle_integer(self, "steps", at_most=_MOST)
        settle_number(self, "ridge", at_least=0)

    @property
    def n_exchanges(self) -> int:
        """`steps`, and one that compares where these are several."""
        return self.steps + (self.steps > 1)

    def check(self, shape: Shape) -> None:
        """One step is for the squared loss."""
        if self.steps == 1 and not isinstance(shape.loss, SquaredLoss):
            raise ValueError(
                f"solver is {self!r}, for the squared loss, and the loss is {shape.loss!r}; expected "
                "NewtonOnSupport(steps=5) or LocalSteps(...)"
            )

    def ask(self, point: Point) -> tuple[SparseModel, int]:
        """The model of the point, and whether it is the last, of which values are enough."""
        return point.model, int(self._is_last(point))

    def form(self, point: Point) -> Form:
        """The upper half of H and g, and with several steps f_i and w; at the end these two."""
        k, several = len(point.model.support), 2 * (self.steps > 1)
        size = several if self._is_last(point) else k * (k + 1) // 2 + k + several
        return Form((size,), point.model.values.dtype)

    def answer(self, client: Client, message: Any, rng: np.random.Generator, atoms: StandardBasis) -> Array:
        """f_i on the support to second order."""
        model, is_last = message
        problem = RestrictedProblem.of(client, model.support, atoms)
        predictions = problem.predictions(model.values)
        parts = []
        if not is_last:
            hessian, gradient = problem.hessian(predictions), problem.gradient(predictions)
            if self.ridge == 0:
                hessian, gradient = fill_shifts(hessian, gradient, problem.shifts)
            parts = [hessian[np.triu_indices(len(gradient))], gradient]
        if self.steps > 1:
            wrong_rows = misclassified(client.loss)
            wrong = 1.0 if wrong_rows is None else float(np.mean(wrong_rows(predictions, client.targets)))
            parts.append(np.array([problem.value(predictions), wrong], predictions.dtype))
        return np.concatenate(parts)

    def update(self, point: Point, mean: Array, atoms: StandardBasis, radius: float | None) -> Point:
        """To the minimiser of the quadratic model or, where the last step raised the objective, half of it back."""
        k, trial = len(point.model.support), point.model
        memory: Any = point.memory or (0, None)
        done, best = memory
        if self._is_last(point):
            return self._better(trial, float(mean[0]), best, radius)
        hessian = np.zeros((k, k), mean.dtype)
        half = k * (k + 1) // 2
        hessian[np.triu_indices(k)] = mean[:half]
        hessian, gradient = hessian + np.triu(hessian, 1).T, mean[half : half + k]
        if self.steps == 1:
            return self._solved(trial, hessian, gradient, atoms, radius)
        value, wrong = mean[half + k :]
        if wrong == 0 and self.ridge == 0 and radius is None:
            raise Separated(
                f"the clients' rows are separated without error on the {k} coefficients of the support, so the loss "
                "has no minimiser there; expected a ridge above 0 or a radius"
            )
        best = self._next(trial, float(value), gradient, hessian, best)
        values = np.zeros_like(trial.values) if best.promised < 0 else best.model.values + best.direction
        moved = replace(trial, values=values)
        best = best._replace(zero_tried=True, promised=0.0) if best.promised < 0 else best
        return Point(atoms.into_ball(moved, radius), (done + 1, best))

    def _is_last(self, point: Point) -> bool:
        return self.steps > 1 and point.memory is not None and point.memory[0] == self.steps

    def _solved(
        self, model: SparseModel, hessian: Array, gradient: Array, atoms: StandardBasis, radius: float | None
    ) -> Point:
        """One step from the normal equations H d = -g; of minimum norm as a signal where d is not unique."""
        ridged = hessian + self.ridge * np.eye(len(gradient), dtype=hessian.dtype)
        pull = -(gradient + self.ridge * model.values)
        solved = solve_definite(ridged, pull)
        if solved is not None:
            values = model.values + solved[1]
        else:
            metric = None if atoms.orthonormal else atoms.inner_products(model.support)
            values = solve_semidefinite(ridged, ridged @ model.values + pull, metric)
        return Point(atoms.into_ball(replace(model, values=values), radius), None, ridged)

    def _next(self, trial: SparseModel, value: float, gradient: Array, hessian: Array, best: Best | None) -> Best:
        """The best model after a trial, and the step from it; a promise below zero asks for the zero model."""
        objective = value + self.ridge / 2 * inner(trial.values, trial.values)
        if best is not None and not _is_no_worse(objective, best):
            halved = best._replace(direction=best.direction / 2)
            return halved if best.zero_tried else best._replace(promised=-1.0)
        gradient = gradient + self.ridge * trial.values
        hessian = hessian + self.ridge * np.eye(len(gradient), dtype=gradient.dtype)
        direction = newton_direction(hessian, gradient)
        first, zero_tried = (objective, not trial.values.any()) if best is None else (best.first, best.zero_tried)
        if not np.isfinite(direction).all():  # no curvature to speak of: a saturated loss
            return Best(trial, objective, 0 * gradient, 0.0 if zero_tried else -1.0, first, zero_tried, hessian)
        promised = -inner(gradient, direction) / 2
        return Best(trial, objective, direction, promised, first, zero_tried, hessian)

    def _better(self, trial: SparseModel, value: float, best: Best, radius: float | None) -> Point:
        """The last trial, or the best model where the trial is worse."""
        objective = value + self.ridge / 2 * inner(trial.values, trial.values)
        better = _is_no_worse(objective, best)
        missed = abs(best.promised - (best.objective - objective if better else 0.0))
        scale = max(abs(min(objective, best.objective)), 1e-6 * abs(best.first))
        close = radius is not None or missed <= _CLOSE * scale
        return Point(trial if better else best.model, None, best.hessian, None if close else missed / scale)


# A Newton step has converged where the objective fell by what the quadratic model promised, but for this share of it.
_CLOSE = 1e-4


def _is_no_worse(objective: float, best: Best) -> bool:
    """Whether an objective is at most the best so far, but for the rounding of what the clients sent."""
    rounding = 16 * float(np.finfo(best.model.values.dtype).eps) * abs(best.objective)
    return bool(objective <= best.objective + rounding)


@dataclass(frozen=True)
class LocalSteps:
    """Any loss, one exchange: every client minimises f_i on the support with a solver of its own, the server averages.

    Unlike the others it does not approach the minimiser of f where the clients differ.

    Parameters
    ----------
    solver : Solver
        `SGD`, `GradientDescent` or another: the K restricted local steps, from the model that the server has.
    """

    solver: Solver
    n_exchanges = 1

    def __post_init__(self) -> None:
        check_solver(self.solver)

    def check(self, shape: Shape) -> None:
        """Every loss fits."""

    def ask(self, point: Point) -> SparseModel:
        """The model of the point."""
        return point.model

    def form(self, point: Point) -> Form:
        """A coefficient for each of the support, near those of the model."""
        return Form(point.model.values.shape, point.model.values.dtype, near=point.model.values)

    def answer(self, client: Client, message: SparseModel, rng: np.random.Generator, atoms: StandardBasis) -> Array:
        """Where the client's own steps end."""
        return minimise_on(message.support, client, atoms, self.solver, message, rng).values

    def update(self, point: Point, mean: Array, atoms: StandardBasis, radius: float | None) -> Point:
        """Their mean, in the ball."""
        return Point(atoms.into_ball(replace(point.model, values=mean), radius))
