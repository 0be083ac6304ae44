"""Minimising f = sum_i p_i f_i on a support that all clients know, from weighted means of what they send.

What the sums reveal: a Hessian on 3 tau features holds, for the squared loss, their second moments, and the gradient
their correlations with the residual; nothing about other features. Without secure sums a client with fewer rows than
features gives away its rows on the support up to a rotation, so this is not a privacy mechanism. Backward elimination,
which leaves tau atoms of a minimiser, needs no further message.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from ..checks import check_kind, settle_integer, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Client, Shape
from ..linear_systems import fill_shifts, solve_definite, solve_semidefinite
from ..losses import SquaredLoss, misclassified
from ..models import Array, SparseModel, Support
from ..reducers import Form
from ..rounds import Exchange, Method
from ..selection import Selection
from ..solvers import RestrictedProblem, Solver, check_solver, inner, minimise_on

_MOST = 100_000  # each is an exchange
_RIDGE = 1e-10  # of the unit diagonal, where fewer samples than atoms leave directions without curvature


@dataclass(frozen=True, eq=False)
class Point:
    """Where the server is on a support: the model that clients are asked about, and what Newton steps remember.

    That is the best model so far with its objective, `value`, the step that is tried from there and its Hessian,
    `curvature`, None where the solver knows none; how many exchanges are done, and whether one was at the zero model;
    at the end by how much the last step `missed` the decrease that it promised.
    """

    model: SparseModel
    best: Any = None
    value: float = inf
    step: Any = 0.0
    curvature: Any = None
    done: int = 0
    tried_zero: bool = False
    missed: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SupportSolver(Method):
    """A method of one round that keeps the support of its state, a `Point`: a step of `SharedSupportGradMP`, or alone.

    `SharedSupportGradMP` and `polish` give it their dictionary and their radius.
    """

    dictionary: StandardBasis = field(default_factory=StandardBasis, repr=False)
    radius: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_dictionary(self.dictionary)
        settle_number(self, "radius", optional=True, above=0)

    def exchanges(self) -> Sequence[Exchange]:
        """One, as far as a solver does not say more."""
        return [Exchange(self.ask, self.at_client, self.at_server, self.form)]

    def ask(self, point: Any) -> Any:
        """What the server sends: by default the model."""
        return point.model

    def form(self, point: Any) -> Form:
        """What an answer looks like: by default a coefficient for each of the support, near those of the model."""
        return Form(point.model.values.shape, point.model.values.dtype, near=point.model.values)

    def at_client(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """What a client sends: one vector."""
        raise NotImplementedError(f"{type(self).__name__} has no at_client")

    def at_server(self, point: Any, mean: Array) -> Any:
        """What the server makes of the mean: by default the point with these coefficients, in the ball."""
        return replace(point, model=self.dictionary.into_ball(replace(point.model, values=mean), self.radius))

    def coefficients(self, state: Point) -> SparseModel:
        """The model of the point, in the ball: one that a run started from need not be."""
        return self.dictionary.into_ball(state.model, self.radius)


def check_support_solver(solver: Any) -> Any:
    """Return a solver on a shared support, or raise a ValueError."""
    expected = "a solver on a shared support: NewtonOnSupport() or LocalSteps(a client's solver)"
    return check_kind("solver", solver, SupportSolver, expected)


class Separated(ValueError):
    """A loss without ridge and radius that has no minimiser, because no row is on the wrong side."""


@dataclass(frozen=True)
class NewtonOnSupport(SupportSolver):
    """Aggregated Newton steps, one exchange for each: one step is exact for the squared loss, the normal equations.

    Client i sends the upper half of its Hessian H on the support and its gradient g, and with several steps f_i and the
    share of its rows on the wrong side, in one vector; the server goes to the minimiser of the quadratic model of
    f(x) + (ridge/2) ||alpha||^2. Where it is not unique, one step ends at the one of minimum norm, several take the
    shortest way. With several, a step that raised the objective is halved, and a last exchange compares objectives.
    Before the first is halved, the zero model on the support is tried in its place, once: from a point that ran away,
    where a loss has hardly any curvature, no step leads back, and from zero they converge.

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
    Units of the features do not matter. A step leaves a fraction of the error: about the machine precision times the
    square of the condition number of the pooled columns, scaled to length one.
    """

    steps: int = 1
    ridge: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "steps", at_most=_MOST)
        settle_number(self, "ridge", at_least=0)

    def check(self, shape: Shape) -> None:
        """One step is for the squared loss."""
        if self.steps == 1 and not isinstance(shape.loss, SquaredLoss):
            raise ValueError(
                f"solver is {self!r}, for the squared loss, and the loss is {shape.loss!r}; expected "
                "NewtonOnSupport(steps=5) or LocalSteps(...)"
            )

    def repeats_itself(self, loss: Any) -> bool:
        """Hessians of the squared loss are the same at every model."""
        return isinstance(loss, SquaredLoss)

    def sends_objectives(self) -> bool:
        """Several steps compare them."""
        return self.steps > 1

    def exchanges(self) -> Sequence[Exchange]:
        """`steps`, and one that compares where these are several."""
        return [*super().exchanges()] * (self.steps + (self.steps > 1))

    def ask(self, point: Point) -> tuple[SparseModel, int]:
        """The model of the point, and whether it is the last, of which values are enough."""
        return point.model, int(point.done == self.steps)

    def form(self, point: Point) -> Form:
        """The upper half of H and g, and with several steps f_i and the share; at the end these two."""
        k, values = len(point.model.support), 2 * (self.steps > 1)
        return Form((values if point.done == self.steps else k * (k + 3) // 2 + values,), point.model.values.dtype)

    def at_client(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """f_i on the support to second order."""
        model, is_last = message
        problem = RestrictedProblem.of(client, model.support, self.dictionary)
        predictions, parts = problem.predictions(model.values), []
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

    def at_server(self, point: Any, mean: Array) -> Any:
        """To the minimiser of the quadratic model or, where the last step raised the objective, half of it back."""
        x, several = point.model.values, self.steps > 1
        value, wrong = mean[-2:] if several else (0.0, 1.0)
        value = float(value) + self.ridge / 2 * inner(x, x)
        rounding = 16 * float(np.finfo(x.dtype).eps) * abs(point.value)  # of what the clients sent
        is_worse = several and value > point.value + rounding
        if point.done == self.steps:
            decrease = 0.0 if is_worse else point.value - value
            missed = abs(inner(point.step, point.curvature @ point.step) / 2 - decrease)
            model = point.best if is_worse else point.model
            return replace(point, model=model, value=inf, done=0, tried_zero=False, missed=missed)
        if wrong == 0 and self.ridge == 0 and self.radius is None:
            raise Separated(
                f"the clients' rows are separated without error on the {len(x)} coefficients of the support, so the "
                "loss has no minimiser there; expected a ridge above 0 or a radius"
            )
        is_lost, tried_zero = is_worse, point.tried_zero or not x.any()
        if not is_worse:
            hessian, step = self._newton(point.model, mean)
            is_lost = not np.isfinite(step).all()  # no curvature to speak of: a saturated loss
            step = np.zeros_like(x) if is_lost else step
            point = replace(point, best=point.model, value=value, step=step, curvature=hessian)
        elif tried_zero:
            point = replace(point, step=point.step / 2)
        values = np.zeros_like(x) if is_lost and not tried_zero else point.best.values + point.step
        return super().at_server(replace(point, done=point.done + several, tried_zero=tried_zero), values)

    def _newton(self, model: SparseModel, mean: Array) -> tuple[Array, Array]:
        """The Hessian, and the step to the minimiser of the quadratic model: the only one to that of minimum norm."""
        x, k = model.values, len(model.values)
        hessian, half = np.zeros((k, k), mean.dtype), k * (k + 1) // 2
        hessian[np.triu_indices(k)] = mean[:half]
        hessian = hessian + np.triu(hessian, 1).T + self.ridge * np.eye(k, dtype=mean.dtype)
        gradient = mean[half : half + k] + self.ridge * x
        if (solved := solve_definite(hessian, gradient)) is not None:
            return hessian, -solved[1]
        if self.steps > 1:
            return hessian, -solve_semidefinite(hessian, gradient)
        metric = None if self.dictionary.orthonormal else self.dictionary.inner_products(model.support)
        return hessian, solve_semidefinite(hessian, hessian @ x - gradient, metric) - x


@dataclass(frozen=True)
class LocalSteps(SupportSolver):
    """Any loss, one exchange: every client minimises f_i on the support with a solver of its own, the server averages.

    Unlike Newton steps it does not approach the minimiser of f where the clients differ.

    Parameters
    ----------
    solver : Solver
        `SGD`, `GradientDescent` or another: the K restricted local steps, from the model that the server has.
    """

    solver: Solver

    def __post_init__(self) -> None:
        super().__post_init__()
        check_solver(self.solver)

    def at_client(self, client: Client, message: SparseModel, rng: np.random.Generator) -> Array:
        """Where the client's own steps end."""
        return minimise_on(message.support, client, self.dictionary, self.solver, message, rng).values


def eliminated(b: SparseModel, curvature: Array, before: Support, sparsity: int, selection: Selection) -> SparseModel:
    """The minimiser on tau of the atoms of b by backward elimination in (x - b)' H (x - b), H the `curvature`.

    One atom after another goes whose loss raises the quadratic least, b_j^2 / (H^-1)_jj; b and H^-1 follow. Units of
    the features do not matter. Where the atoms of the last model, `before`, can do better than those left, they stay:
    so a run cannot go in circles.

    References
    ----------
    S. J. Reeves, An efficient implementation of the backward greedy algorithm for sparse signal reconstruction, IEEE
    Signal Processing Letters 6(10), 1999; B. Hassibi, D. G. Stork, Second order derivatives for network pruning, 1993.
    """
    hessian = curvature.astype(np.float64)
    *_, (_, left, _) = backwards(b, hessian, selection, sparsity)
    height, values = _on(left, b, hessian)
    if len(before) and selection.holds(before, b.shape, sparsity):
        was = np.flatnonzero(np.isin(b.support, before, assume_unique=True))
        other, others = _on(was, b, hessian)
        left, values = (was, others) if other < height else (left, values)
    return replace(b, support=b.support[left], values=values.astype(b.values.dtype, copy=False))


def backwards(
    b: SparseModel, hessian: Array, selection: Selection, least: int = 1
) -> Iterator[tuple[int, Support, Array]]:
    """The whole path: how many atoms are left, which positions of b these are, and the minimiser on them.

    It begins with one atom less than b has, or with `least`, and ends there.
    """
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0))
    scale[scale == 0] = 1
    inverse = np.linalg.inv(hessian / scale[:, None] / scale + _RIDGE * np.eye(len(scale)))
    values, left = b.values.astype(np.float64) * scale, np.arange(len(scale))
    for count in range(max(selection.counted(b.support, b.shape) - 1, least), least - 1, -1):
        sizes = SparseModel(b.support[left], np.abs(values) / np.sqrt(inverse.diagonal()), b.shape)
        stays = np.isin(sizes.support, selection.choose_of(sizes, count), assume_unique=True)
        gone, stay = np.flatnonzero(~stays), np.flatnonzero(stays)
        if gone.size:
            across = np.linalg.solve(inverse[np.ix_(gone, gone)], inverse[np.ix_(gone, stay)])
            values = values[stay] - values[gone] @ across
            inverse = inverse[np.ix_(stay, stay)] - inverse[np.ix_(stay, gone)] @ across
            left = left[stay]
        yield count, left, values / scale[left]


def _on(kept: Support, b: SparseModel, hessian: Array) -> tuple[float, Array]:
    """How far the minimiser on some positions of b lies above the minimum, and its values, a correction of b's."""
    move = -b.values.astype(np.float64)
    dropped = np.setdiff1d(np.arange(len(move)), kept)
    move[kept] = -solve_semidefinite(hessian[np.ix_(kept, kept)], hessian[np.ix_(kept, dropped)] @ move[dropped])
    return float(move @ hessian @ move), b.values[kept] + move[kept]
