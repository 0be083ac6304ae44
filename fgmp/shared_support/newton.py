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

from .._support.linear_algebra import regularize_null_directions, solve_definite, solve_semidefinite
from .._support.validation import check_kind, validate_integer_field, validate_number_field
from ..aggregation import UpdateSpec
from ..dictionaries import Atoms, Dictionary, StandardBasis, check_dictionary
from ..federation import Client, ProblemInfo
from ..losses import SquaredLoss, misclassified
from ..rounds import Exchange, Method
from ..selection import Selection
from ..solvers import RestrictedProblem, Solver, check_solver, inner, minimise_on
from ..sparse_model import Array, IndexArray, SparseModel

_MOST = 100_000  # each is an exchange
SETTLED = (
    1e-4  # of a coefficient: what is left after a Newton step that moves no further is squared
)
_AHEAD = 0.1  # a Newton step towards infinity takes separated rows about 1 ahead, in log-odds
_RIDGE = (
    1e-10  # of the unit diagonal, where fewer samples than atoms leave directions without curvature
)


@dataclass(frozen=True, eq=False)
class SupportState:
    """Where the server is on a support: the model that clients are asked about, and what Newton steps remember.

    That is the best model so far with its objective, `value`, the step that is tried from there and its Hessian,
    `curvature`, None where the solver knows none; how many exchanges are done, and whether one was at the zero model;
    at the end by how much the last step `missed` the decrease that it promised. The last Newton step `moved` a
    coefficient by at most this fraction of it: 0 of a solver that takes one step, or none.
    """

    model: SparseModel
    best: Any = None
    value: float = inf
    step: Any = 0.0
    curvature: Any = None
    done: int = 0
    tried_zero: bool = False
    missed: float = 0.0
    moved: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SupportSolver(Method):
    """A method of one round that keeps the support of its `SupportState`: a step of `SharedSupportGradMP`, or alone.

    `SharedSupportGradMP` and `polish` give it the dictionary and the radius of the method, and take none but these.
    """

    dictionary: Atoms = field(default_factory=StandardBasis, repr=False)
    radius: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_dictionary(self.dictionary)
        validate_number_field(self, "radius", optional=True, above=0)

    def exchanges(self) -> Sequence[Exchange]:
        """One, as far as a solver does not say more."""
        return [Exchange(self.message, self.client_update, self.server_update, self.update_spec)]

    def message(self, point: Any) -> Any:
        """What the server sends: by default the model."""
        return point.model

    def update_spec(self, point: Any) -> UpdateSpec:
        """What an answer looks like: by default a coefficient for each of the support, near those of the model."""
        return UpdateSpec(
            point.model.values.shape, point.model.values.dtype, near=point.model.values
        )

    def client_update(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """What a client sends: one vector."""
        raise NotImplementedError(f"{type(self).__name__} has no client_update")

    def server_update(self, point: Any, mean: Array) -> Any:
        """What the server makes of the mean: by default the point with these coefficients, in the ball."""
        return replace(
            point, model=self.dictionary.into_ball(replace(point.model, values=mean), self.radius)
        )

    def coefficients(self, state: SupportState) -> SparseModel:
        """The model of the point, in the ball: one that a run started from need not be."""
        return self.dictionary.into_ball(state.model, self.radius)


def solver_in(dictionary: Atoms, radius: float | None, solver: Any) -> Any:
    """A solver on a shared support, in a dictionary and a ball; a ValueError where it is none, or has others."""
    expected = "a solver on a shared support: NewtonOnSupport() or LocalSteps(a client's solver)"
    check_kind("solver", solver, SupportSolver, expected)
    own = solver.dictionary
    if (
        type(own) is not StandardBasis
        and own is not dictionary
        and not _have_the_same_atoms(own, dictionary)
    ):
        raise ValueError(
            f"solver has the dictionary {own!r}; expected none, or {dictionary!r}, that of the method"
        )
    if solver.radius not in (None, radius):
        raise ValueError(
            f"solver has the radius {solver.radius!r}; expected none, or {radius!r}, that of the method"
        )
    return replace(solver, dictionary=dictionary, radius=radius)


def _have_the_same_atoms(one: Atoms, other: Atoms) -> bool:
    both = isinstance(one, Dictionary) and isinstance(other, Dictionary)
    return both and np.array_equal(one.atoms, other.atoms)  # type: ignore[attr-defined]


class Separated(ValueError):
    """A loss without ridge and radius that has no minimiser: rows can be moved ahead, and none has to go back.

    Either all rows are on the right side, or they are separated `in_part`.
    """

    def __init__(self, message: str, in_part: bool = False) -> None:
        super().__init__(message)
        self.in_part = in_part


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
        During a run of several steps, where the clients' rows are separated on the support and there is neither a ridge
        nor a ball: then the logistic and softmax losses have no minimiser. That is seen at once where no row is on the
        wrong side; where only some rows are separated, as by a flag that one class has, once the others have settled,
        after about twenty steps: if the last one still moves, its exchange asks whether it takes rows ahead and none
        back.

    Notes
    -----
    Units of the features do not matter. A step leaves a fraction of the error: about the machine precision times the
    square of the condition number of the pooled columns, scaled to length one.
    """

    steps: int = 1
    ridge: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_integer_field(self, "steps", at_most=_MOST)
        validate_number_field(self, "ridge", at_least=0)

    def check(self, shape: ProblemInfo) -> None:
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

    def message(self, point: SupportState) -> tuple[Any, ...]:
        """The model of the point, and whether it is the last, of which values are enough; a step that is in doubt."""
        if self._doubts(point):
            return point.model, 1, point.step
        return point.model, int(point.done == self.steps)

    def _doubts(self, point: SupportState) -> bool:
        """Whether the last step has not settled where nothing keeps coefficients from growing for ever."""
        is_free = self.ridge == 0 and self.radius is None
        return is_free and point.done == self.steps > 1 and point.moved > SETTLED

    def update_spec(self, point: SupportState) -> UpdateSpec:
        """The upper half of H and g, and with several steps f_i and the share; at the end these two, or three."""
        k, values = len(point.model.support), 2 * (self.steps > 1) + self._doubts(point)
        return UpdateSpec(
            (values if point.done == self.steps else k * (k + 3) // 2 + values,),
            point.model.values.dtype,
        )

    def client_update(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """f_i on the support to second order."""
        model, is_last, *direction = message
        problem = RestrictedProblem.of(client, model.support, self.dictionary)
        predictions, parts = problem.predictions(model.values), []
        if not is_last:
            hessian, gradient = problem.hessian(predictions), problem.gradient(predictions)
            if self.ridge == 0:
                hessian, gradient = regularize_null_directions(hessian, gradient, problem.shifts)
            parts = [hessian[np.triu_indices(len(gradient))], gradient]
        if self.steps > 1:
            wrong_rows = misclassified(client.loss)
            wrong = (
                1.0
                if wrong_rows is None
                else float(np.mean(wrong_rows(predictions, client.targets)))
            )
            told = _shares_moved(problem, *direction) if direction else (wrong,)
            parts.append(np.array([problem.value(predictions), *told], predictions.dtype))
        return np.concatenate(parts)

    def server_update(self, point: Any, mean: Array) -> Any:
        """To the minimiser of the quadratic model or, where the last step raised the objective, half of it back."""
        x, several = point.model.values, self.steps > 1
        if self._doubts(point):
            value, goes_back, goes_ahead = mean
            if goes_back == 0 and goes_ahead > 0:
                raise Separated(
                    f"some of the clients' rows are separated on the {len(x)} coefficients of the support, and no row "
                    "is against it, so the loss has no minimiser there; expected a ridge above 0 or a radius",
                    in_part=True,
                )
            mean = mean[:2]
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
            moved = 0.0
            if several:
                moved = inf if is_lost else _moved(x, step, hessian, value)
            step = np.zeros_like(x) if is_lost else step
            point = replace(
                point, best=point.model, value=value, step=step, curvature=hessian, moved=moved
            )
        elif tried_zero:
            point = replace(point, step=point.step / 2)
        values = np.zeros_like(x) if is_lost and not tried_zero else point.best.values + point.step
        return super().server_update(
            replace(point, done=point.done + several, tried_zero=tried_zero), values
        )

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
        metric = (
            None if self.dictionary.orthonormal else self.dictionary.inner_products(model.support)
        )
        return hessian, solve_semidefinite(hessian, hessian @ x - gradient, metric) - x


def _moved(x: Array, step: Array, hessian: Array, value: float) -> float:
    """The largest change of a coefficient by a Newton step, as a fraction of the new one; 0 where it is all rounding.

    Neither has a unit. A gain of the whole objective would not do: what rows tell that are nearly separated is a small
    part of it, of which a step towards infinity gains the same fraction for ever.
    """
    eps = float(np.finfo(x.dtype).eps)
    promised = inner(step, hessian @ step)
    # What rounding leaves of a gradient, squared, over the smallest curvature that a factorisation accepts.
    if promised <= 4 * eps**1.25 * abs(value):
        return 0.0
    is_felt = step**2 * hessian.diagonal() > (64 * eps) ** 2 * abs(value)
    sizes = np.abs(x + step)[is_felt]
    if not (sizes > 0).all():
        return inf
    return float(np.max(np.abs(step[is_felt]) / sizes, initial=0.0))


def _shares_moved(problem: RestrictedProblem, step: Array) -> tuple[float, float]:
    """The shares of a client's rows that a step moves back, but for rounding, and well ahead; of a loss with labels."""
    leads = getattr(problem.loss, "leads", None)
    if leads is None:
        return 1.0, 0.0
    moves = leads(problem.predictions(step), problem.targets)
    rounding = float(np.sqrt(np.finfo(step.dtype).eps))
    goes_back = np.any(moves < -rounding, axis=1)
    goes_ahead = np.any(moves > _AHEAD, axis=1)
    return float(np.mean(goes_back)), float(np.mean(goes_ahead))


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

    def client_update(
        self, client: Client, message: SparseModel, rng: np.random.Generator
    ) -> Array:
        """Where the client's own steps end."""
        return minimise_on(
            message.support, client, self.dictionary, self.solver, message, rng
        ).values


def eliminated(
    b: SparseModel, curvature: Array, before: IndexArray, sparsity: int, selection: Selection
) -> SparseModel:
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
) -> Iterator[tuple[int, IndexArray, Array]]:
    """The whole path: how many atoms are left, which positions of b these are, and the minimiser on them.

    It begins with one atom less than b has, or with `least`, and ends there.
    """
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0))
    scale[scale == 0] = 1
    inverse = np.linalg.inv(hessian / scale[:, None] / scale + _RIDGE * np.eye(len(scale)))
    values, left = b.values.astype(np.float64) * scale, np.arange(len(scale))
    for count in range(max(selection.n_selected(b.support, b.shape) - 1, least), least - 1, -1):
        sizes = SparseModel(b.support[left], np.abs(values) / np.sqrt(inverse.diagonal()), b.shape)
        stays = np.isin(sizes.support, selection.select_from(sizes, count), assume_unique=True)
        gone, stay = np.flatnonzero(~stays), np.flatnonzero(stays)
        if gone.size:
            across = np.linalg.solve(inverse[np.ix_(gone, gone)], inverse[np.ix_(gone, stay)])
            values = values[stay] - values[gone] @ across
            inverse = inverse[np.ix_(stay, stay)] - inverse[np.ix_(stay, gone)] @ across
            left = left[stay]
        yield count, left, values / scale[left]


def _on(kept: IndexArray, b: SparseModel, hessian: Array) -> tuple[float, Array]:
    """How far the minimiser on some positions of b lies above the minimum, and its values, a correction of b's."""
    move = -b.values.astype(np.float64)
    dropped = np.setdiff1d(np.arange(len(move)), kept)
    move[kept] = -solve_semidefinite(
        hessian[np.ix_(kept, kept)], hessian[np.ix_(kept, dropped)] @ move[dropped]
    )
    return float(move @ hessian @ move), b.values[kept] + move[kept]
