"""Minimise f = sum_i p_i f_i on a support that all clients know, from weighted means of updates.

The sums reveal second moments: for the squared loss, a Hessian on 3 tau features holds those of
these features, and the gradient their correlations with the residual. They reveal nothing about
other features. Without secure sums, a client with fewer rows than features gives away its rows on
the support up to a rotation. Therefore this is not a privacy mechanism.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._support.linear_algebra import (
    inner,
    regularize_null_directions,
    size_of_half,
    solve_definite,
    solve_semidefinite,
    symmetric_from_half,
    upper_half,
)
from .._support.validation import (
    check_bool,
    check_kind,
    validate_integer_field,
    validate_number_field,
)
from ..data import Client, ProblemInfo
from ..dictionaries import Atoms, Dictionary, StandardBasis, check_dictionary
from ..losses import GLMLoss
from ..method import Exchange, Method
from ..solvers import RestrictedProblem, SecondOrderProblem, Solver, check_solver, minimise_on
from ..sparse_model import Array, SparseModel
from ..updates import Message, UpdateSpec

_MOST_STEPS = 100_000  # each is an exchange

# Of a coefficient: the error that a Newton step leaves is about the square of what it moved.
SETTLED = 1e-4

# Of the objective: sums under masks are whole multiples of 2^-40, one for each client.
_LEAST_VISIBLE_GAIN = 1e-10

# Of the objective: where losses are saturated, they are linear, and zero gains all of it.
_SATURATED = 1e-2

# In log-odds: a Newton step towards infinity takes separated rows about 1 ahead,
_AHEAD = 0.1
# and leaves the others where they are but for what the curvature of the separated rows, which falls
# to a third in each step, still pulls at them.
_STAYS = 1e-6


class SecondOrder(NamedTuple):
    """Value, gradient and Hessian of a function at one point."""

    value: float
    gradient: Array
    hessian: Array


def second_order(problem: SecondOrderProblem, predictions: Array) -> SecondOrder:
    """Return value, gradient and Hessian of a restricted problem, given its predictions."""
    expansion = problem.expansion(predictions)
    return SecondOrder(
        value=float(np.sum(expansion.values) * problem.row_weight),
        gradient=problem.pull_back(expansion.derivative * problem.row_weight),
        hessian=problem.hessian_of(expansion),
    )


@dataclass(frozen=True, eq=False)
class SupportState:
    """The state of the server while it minimises on a support.

    Attributes
    ----------
    model : SparseModel
        The model that is sent to the clients.
    best : SparseModel or None
        The best model so far; None before the first update.
    value : float
        The objective of `best`, infinite before the first update.
    step : ndarray
        The step that is tried from `best`.
    curvature : ndarray, shape (k, k), or None
        The Hessian at `best`; None if the solver computes none.
    done : int
        How many exchanges of the round are done.
    tried_zero : bool
        Whether one of them was at the zero model.
    missed : float
        After the round, by how much the last step missed the decrease that it promised.
    moved : float
        The largest change of a coefficient by the last Newton step, as a fraction of the
        coefficient; 0 for a solver that takes one step, or none.
    damping : float
        The part of the Newton step that `step` is. A round that ends with a step that raised the
        objective leaves half of it to the first step of the next.
    """

    model: SparseModel
    best: SparseModel | None = None
    value: float = inf
    step: Array = field(default_factory=lambda: np.zeros(0))
    curvature: Array | None = None
    done: int = 0
    tried_zero: bool = False
    missed: float = 0.0
    moved: float = 0.0
    damping: float = 1.0

    @property
    def best_model(self) -> SparseModel:
        """The best model so far, which is the model itself before the first update."""
        return self.model if self.best is None else self.best


State = TypeVar("State", bound=SupportState)


@dataclass(frozen=True, kw_only=True)
class SupportSolver(Method):
    """A method of one round that keeps the support of its `SupportState`.

    It is a part of `SharedSupportGradMP`, or runs alone in `polish`. Both give it the dictionary
    and the radius of the method, and refuse a solver that has others.

    A subclass has `client_update`, and whatever else of `message`, `update_spec`, `server_update`
    and `exchanges` differs from the defaults: clients get the model and send coefficients of its
    support, whose mean becomes the model.

    Examples
    --------
    Take one gradient step on the support that the clients have found together:

    >>> import fgmp
    >>> class StepOnSupport(fgmp.SupportSolver):
    ...     def client_update(self, client, model, rng):
    ...         return model.values - 0.2 * client.gradient(model)[model.support]
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> method = fgmp.SharedSupportGradMP(sparsity=3, solver=StepOnSupport())
    >>> result = fgmp.simulate(method, federation, rounds=50, rng=0)
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """

    dictionary: Atoms = field(default_factory=StandardBasis, repr=False)
    radius: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_dictionary(self.dictionary)
        validate_number_field(self, "radius", optional=True, above=0)

    def message(self, state: SupportState) -> Message:
        """Return what the server sends: by default the model."""
        return state.model

    def update_spec(self, state: SupportState) -> UpdateSpec:
        """Return the spec of an update: by default coefficients, whose reference is the model."""
        values = state.model.values
        return UpdateSpec(values.shape, values.dtype, reference=values, mean_only=False)

    def client_update(self, client: Client, message: Message, rng: np.random.Generator) -> Array:
        """Return what a client sends: one vector."""
        raise NotImplementedError(f"{type(self).__name__} has no client_update")

    def server_update(self, state: State, mean: Array) -> State:
        """Return the state after a mean of updates, which by default is the model, in the ball."""
        model = replace(state.model, values=mean)
        return replace(state, model=self.dictionary.into_ball(model, self.radius))

    def coefficients(self, state: SupportState) -> SparseModel:
        """Return the model of the state, moved into the ball, where a start need not be."""
        return self.dictionary.into_ball(state.model, self.radius)


def check_support_solver(solver: Any) -> None:
    """Raise a ValueError unless a value is a solver on a shared support."""
    expected = "a solver on a shared support: NewtonOnSupport() or LocalSteps(a client's solver)"
    check_kind("solver", solver, SupportSolver, expected)


def with_geometry(solver: SupportSolver, dictionary: Atoms, radius: float | None) -> SupportSolver:
    """Return a solver on a shared support in the dictionary and the ball of a method.

    Raises
    ------
    ValueError
        If it is no such solver, or has another dictionary or radius.
    """
    check_support_solver(solver)
    if not _fits_dictionary(solver.dictionary, dictionary):
        raise ValueError(
            f"solver has the dictionary {solver.dictionary!r}; "
            f"expected none, or {dictionary!r}, that of the method"
        )
    if solver.radius not in (None, radius):
        raise ValueError(
            f"solver has the radius {solver.radius!r}; "
            f"expected none, or {radius!r}, that of the method"
        )
    return replace(solver, dictionary=dictionary, radius=radius)


def _fits_dictionary(of_solver: Atoms, of_method: Atoms) -> bool:
    """Whether a solver has no dictionary, or one with the atoms of the method."""
    if type(of_solver) is StandardBasis or of_solver is of_method:
        return True
    if not isinstance(of_solver, Dictionary) or not isinstance(of_method, Dictionary):
        return False
    return np.array_equal(of_solver.atoms, of_method.atoms)


class Separated(ValueError):
    """A loss without ridge and radius has no minimiser, because the clients' rows are separated.

    Attributes
    ----------
    in_part : bool
        Whether only some rows are separated: these can be moved ahead for ever, and no other row
        goes back. Otherwise all rows are on the right side.
    """

    def __init__(self, message: str, in_part: bool = False) -> None:
        super().__init__(message)
        self.in_part = in_part


class NewtonStep(NamedTuple):
    """A step to the minimiser of a quadratic model, or what comes nearest to one.

    Attributes
    ----------
    hessian, step : ndarray
        H, and s.
    left : float
        x'(H s + g): what zero gains, to first order, along directions that have a gradient and no
        curvature.
    """

    hessian: Array
    step: Array
    left: float


@dataclass(frozen=True)
class NewtonOnSupport(SupportSolver):
    """Aggregated Newton steps, one exchange for each.

    Client i sends in one vector the upper half of its Hessian H on the support, its gradient g, and
    with several steps f_i and the share of its rows on the wrong side. The server goes to the
    minimiser of the quadratic model of f(x) + (ridge/2) ||alpha||^2, where the norm leaves
    `unpenalised` atoms out. If it is not unique, one step
    ends at the minimiser of minimum norm, and several steps take the shortest way.

    There are two uses. **To the minimiser in one round**: one step for the squared loss, for which
    these are the normal equations, or several steps for another loss. **One step in each round**,
    with `allow_inexact`, for any loss: the rounds of `SharedSupportGradMP` go on from there.

    Parameters
    ----------
    steps : int, default 1
        At least 1. Losses other than the squared take several, for example five.
    ridge : float, default 0.0
        Weight of the squared norm of the coefficients, at least 0.
    allow_inexact : bool, default False
        Whether one step is allowed for a loss for which it is not exact.
    unpenalised : tuple of int, default ()
        Atoms without a ridge, such as a column of ones that stands for an intercept.

    Raises
    ------
    ValueError
        During a run of several steps, if the clients' rows are separated on the support and there
        is neither a ridge nor a ball: then the logistic and softmax losses have no minimiser. If no
        row is on the wrong side, it is raised at once. If only some rows are separated, as by a
        flag that one class has, it is raised once the others have settled, after about twenty
        steps: if the last step still moves, its exchange asks whether it takes rows ahead and none
        back.

    Notes
    -----
    With several steps, a step that raised the objective is halved, and a last exchange compares
    objectives. A round in which no halving was enough hands the half of the last step to the next.
    Before a step is halved for the second time, the zero model on the support is tried instead,
    once: from a point that ran away, where a loss has hardly any curvature, no step leads back, and
    from zero Newton steps converge.

    A softmax Hessian arrives with its mean curvature along the directions that change all classes
    of a feature alike, if these have no ridge. It has none of its own there, and no step moves
    along them.

    The units of the features do not matter. A step leaves a fraction of the error: about the
    machine precision times the square of the condition number of the pooled columns, scaled to
    length one.

    Examples
    --------
    A logistic loss takes several steps:

    >>> import fgmp
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> As = rng.standard_normal((6, 100, 20))
    >>> ys = 2 * As[:, :, 3] - 2 * As[:, :, 8] + rng.logistic(size=(6, 100)) > 0
    >>> federation = fgmp.Federation.from_arrays(As, ys, loss="logistic")
    >>> method = fgmp.SharedSupportGradMP(sparsity=2, solver=fgmp.NewtonOnSupport(steps=5))
    >>> fgmp.simulate(method, federation, rounds=3, rng=0).support.tolist()
    [3, 8]
    """

    steps: int = 1
    ridge: float = 0.0
    allow_inexact: bool = field(default=False, kw_only=True, repr=False)
    unpenalised: tuple[int, ...] = field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_integer_field(self, "steps", at_most=_MOST_STEPS)
        validate_number_field(self, "ridge", at_least=0)
        check_bool("allow_inexact", self.allow_inexact)

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError for one step with a loss that is not quadratic, unless allowed."""
        is_exact = self.steps > 1 or info.loss.is_quadratic
        if not is_exact and not self.allow_inexact:
            raise ValueError(
                f"solver is {self!r}, for the squared loss, and the loss is {info.loss!r}; "
                "expected NewtonOnSupport(steps=5) or LocalSteps(...)"
            )

    @property
    def is_bounded(self) -> bool:
        """Whether a ridge or a ball keeps coefficients from growing for ever."""
        return self.ridge > 0 or super().is_bounded

    def _is_last(self, state: SupportState) -> bool:
        """Whether the exchange is the one after all steps, which compares objectives."""
        return state.done == self.steps

    def _asks_about_step(self, state: SupportState) -> bool:
        """Whether the last exchange asks about the last step, which has not settled."""
        is_last_of_several = self.steps > 1 and self._is_last(state)
        return is_last_of_several and not self.is_bounded and state.moved > SETTLED

    def exchanges(self) -> Sequence[Exchange]:
        """Return an exchange for each step, and with several steps one that compares objectives."""
        n_exchanges = self.steps + 1 if self.steps > 1 else 1
        exchange = Exchange.of(
            self,
            declared_for=NewtonOnSupport.client_update,
            ignores_message="quadratic",  # as the Hessians do then
            reveals_objective=self.steps > 1,
        )
        return [exchange] * int(n_exchanges)

    def message(self, state: SupportState) -> Message:
        """Return the model, whether the exchange is the last, and a step that is in doubt.

        The last exchange asks for values only.
        """
        if self._asks_about_step(state):
            return state.model, 1, state.step
        return state.model, int(self._is_last(state))

    def update_spec(self, state: SupportState) -> UpdateSpec:
        """Return the spec of one vector.

        It is the upper half of H, then g, then with several steps f_i and a share of rows: of those
        on the wrong side, or two shares of those that a doubtful step moves. The last exchange has
        no H and g.
        """
        k = len(state.model.support)
        length = 0 if self._is_last(state) else k * (k + 3) // 2
        if self.steps > 1:
            length += 2
        if self._asks_about_step(state):
            length += 1
        return UpdateSpec((length,), state.model.values.dtype)

    def client_update(self, client: Client, message: Message, rng: np.random.Generator) -> Array:
        """Return f_i on the support to second order, as `update_spec` lays it out."""
        model: SparseModel = message[0]
        is_last: int = message[1]
        problem = SecondOrderProblem.of(client, model.support, self.dictionary)
        problem = problem.in_precision(model.values.dtype)
        predictions = problem.predictions(model.values)
        if is_last:
            value = problem.value(predictions)
            parts = []
        else:
            value, gradient, hessian = second_order(problem, predictions)
            shifts = problem.shifts
            if shifts.size:  # a ridge gives them curvature, where there is one
                is_free = self.ridges(model) == 0
                shifts = shifts[:, shifts[is_free].any(axis=0)]
            hessian, gradient = regularize_null_directions(hessian, gradient, shifts)
            parts = [upper_half(hessian), gradient]
        if self.steps > 1:
            values = [value]
            if len(message) == 3:
                values += _shares_moved(problem, predictions, step=message[2])
            else:
                values.append(_share_misclassified(problem, predictions))
            parts.append(np.array(values, predictions.dtype))
        return np.concatenate(parts)

    def server_update(self, state: State, mean: Array) -> State:
        """Go to the minimiser of the quadratic model, or back by half a step if f rose."""
        x = state.model.values
        if self._asks_about_step(state):
            _refuse_separated_in_part(len(x), share_back=mean[1], share_ahead=mean[2])
            mean = mean[:2]
        value = self._objective(state.model, mean)
        is_worse = self.steps > 1 and value > state.value + _tolerated_rise(state)
        if self._is_last(state):
            return _ended(state, value, is_worse)
        if self.steps > 1 and not self.is_bounded:
            _refuse_separated(len(x), share_misclassified=mean[-1])

        tried_zero = state.tried_zero or not x.any()
        if is_worse:
            is_lost = state.damping < 1  # half a step is tried before zero
            if tried_zero or not is_lost:
                state = replace(state, step=state.step / 2, damping=state.damping / 2)
        else:
            newton = self._newton_step(state.model, mean)
            is_lost = not np.isfinite(newton.step).all()
            if self.steps > 1:  # a saturated loss has no curvature left, whatever its gradient
                is_lost |= newton.left > _SATURATED * abs(value)
            state = self._accepted(state, value, newton, is_lost)

        if is_lost and not tried_zero:
            values = np.zeros_like(x)
        else:
            values = state.best_model.values + state.step
        done = state.done + 1 if self.steps > 1 else state.done
        return super().server_update(replace(state, done=done, tried_zero=tried_zero), values)

    def ridges(self, model: SparseModel) -> Array:
        """Return the ridge of each coefficient of a model, in the precision of the model."""
        n_outputs = prod(model.shape[1:])
        ridges = np.full(len(model.support), self.ridge, model.values.dtype)
        for atom in self.unpenalised:
            ridges[model.support // n_outputs == atom] = 0
        return ridges

    def penalty(self, model: SparseModel) -> float:
        """Return (ridge/2) ||x||^2, without unpenalised atoms."""
        return inner(model.values, self.ridges(model) * model.values) / 2

    def _objective(self, model: SparseModel, mean: Array) -> float:
        """Return f and the penalty at the model that was sent, without f for a single step."""
        f = float(mean[-2]) if self.steps > 1 else 0.0
        return f + self.penalty(model)

    def _newton_step(self, model: SparseModel, mean: Array) -> NewtonStep:
        """Return the step to the minimiser of the quadratic model.

        If there are several minimisers, one step goes to that of minimum norm, and several steps go
        the shortest way.
        """
        x = model.values
        k = len(x)
        ridges = self.ridges(model)
        size = size_of_half(k)
        hessian = symmetric_from_half(mean[:size], k) + np.diag(ridges)
        gradient = mean[size : size + k] + ridges * x

        solved = solve_definite(hessian, gradient)
        if solved is not None:
            step = -solved[1]
        elif self.steps > 1:
            step = -solve_semidefinite(hessian, gradient)
        else:
            metric = None
            if not self.dictionary.is_orthonormal:
                metric = self.dictionary.gram_block(model.support)
            step = solve_semidefinite(hessian, hessian @ x - gradient, metric) - x
        return NewtonStep(hessian, step, left=inner(x, hessian @ step + gradient))

    def _accepted(self, state: State, value: float, newton: NewtonStep, is_lost: bool) -> State:
        """Return the state with the model as the best so far, and the step to try from it."""
        x = state.model.values
        damping = state.damping if state.done == 0 else 1.0
        step = np.zeros_like(x) if is_lost else damping * newton.step
        moved = 0.0
        if self.steps > 1:
            moved = inf if is_lost else _fraction_moved(x, newton, value)
        return replace(
            state,
            best=state.model,
            value=value,
            step=step,
            curvature=newton.hessian,
            moved=moved,
            damping=damping,
        )


def _promised_gain(state: State) -> float:
    """Return by how much the quadratic model falls along the step that was tried."""
    if state.curvature is None:
        return 0.0
    return inner(state.step, state.curvature @ state.step) / 2


def _tolerated_rise(state: State) -> float:
    """Return by how much the objective may seem to rise without the step being taken back.

    It is the rounding of what the clients sent. The objective cannot tell how good a step is that
    promises less than it resolves under masks: such a step is taken, because the gradient, which is
    resolved as well as the objective, is linear in the step.
    """
    value = abs(state.value)
    eps = float(np.finfo(state.model.values.dtype).eps)
    if not np.isfinite(value) or _promised_gain(state) > _LEAST_VISIBLE_GAIN * value:
        return 16 * eps * value
    return max(16 * eps, _LEAST_VISIBLE_GAIN) * value


def _ended(state: State, value: float, is_worse: bool) -> State:
    """Return the state after a round of several steps, with the better of the last two models."""
    decrease = 0.0 if is_worse else state.value - value
    promised = _promised_gain(state)
    return replace(
        state,
        model=state.best_model if is_worse else state.model,
        value=inf,
        done=0,
        tried_zero=False,
        missed=abs(promised - decrease),
        damping=state.damping / 2 if is_worse else 1.0,
    )


def _refuse_separated(n_coefficients: int, share_misclassified: float) -> None:
    """Raise `Separated` if no row of any client is on the wrong side."""
    if share_misclassified == 0:
        raise Separated(
            f"the clients' rows are separated without error on the {n_coefficients} coefficients "
            "of the support, so the loss has no minimiser there; expected a ridge above 0 or a "
            "radius"
        )


def _refuse_separated_in_part(n_coefficients: int, share_back: float, share_ahead: float) -> None:
    """Raise `Separated` if a step takes rows ahead and none back, so that it can go on for ever."""
    if share_back == 0 and share_ahead > 0:
        raise Separated(
            f"some of the clients' rows are separated on the {n_coefficients} coefficients of the "
            "support, and no row is against it, so the loss has no minimiser there; expected a "
            "ridge above 0 or a radius",
            in_part=True,
        )


def _fraction_moved(x: Array, newton: NewtonStep, value: float) -> float:
    """Return the largest change of a coefficient by a step, as a fraction of the new coefficient.

    It is 0 if the step is rounding, and has no unit. The gain of the objective would not do: rows
    that are nearly separated are a small part of it, of which a step towards infinity gains the
    same fraction for ever.
    """
    step = newton.step
    eps = float(np.finfo(x.dtype).eps)
    promised = inner(step, newton.hessian @ step)
    # What rounding leaves of a gradient, squared, over the least curvature that a factor accepts.
    if promised <= 4 * eps**1.25 * abs(value):
        return 0.0
    is_felt = step**2 * newton.hessian.diagonal() > (64 * eps) ** 2 * abs(value)
    sizes = np.abs(x + step)[is_felt]
    if not (sizes > 0).all():
        return inf
    return float(np.max(np.abs(step[is_felt]) / sizes, initial=0.0))


def _share_misclassified(problem: RestrictedProblem, predictions: Array) -> float:
    """Return the share of a client's rows on the wrong side; 1 for a loss that has no sides."""
    if not isinstance(problem.loss, GLMLoss):
        return 1.0
    margins = problem.loss.label_margins(predictions, problem.targets)
    return 1.0 if margins is None else float(np.mean(np.any(margins <= 0, axis=1)))


def _shares_moved(problem: RestrictedProblem, predictions: Array, step: Array) -> list[float]:
    """Return the shares of a client's rows that a step moves back, and not hardly, and well ahead.

    All count as moved back if l falls nowhere.
    """
    loss = problem.loss
    moves = None
    if isinstance(loss, GLMLoss):
        moves = loss.recession_margins(predictions, problem.targets, problem.predictions(step))
    if moves is None:
        return [1.0, 0.0]
    stays = max(_STAYS, float(np.sqrt(np.finfo(step.dtype).eps)))
    goes_back = np.any(moves < -stays * max(1.0, float(np.abs(moves).max(initial=0))), axis=1)
    goes_ahead = np.any(moves > _AHEAD, axis=1)
    return [float(np.mean(goes_back)), float(np.mean(goes_ahead))]


@dataclass(frozen=True)
class LocalSteps(SupportSolver):
    """Every client minimises f_i on the support with its own solver, and the server averages.

    It takes one exchange, and any loss. Unlike Newton steps, it does not approach the minimiser of
    f if the clients differ.

    Parameters
    ----------
    solver : Solver
        `SGD`, `GradientDescent` or another, which makes K restricted local steps from the model of
        the server.

    Examples
    --------
    Every client takes five gradient steps on the shared support:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> solver = fgmp.LocalSteps(fgmp.GradientDescent(steps=5))
    >>> method = fgmp.SharedSupportGradMP(sparsity=3, solver=solver)
    >>> result = fgmp.simulate(method, federation, rounds=20, rng=0)
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """

    solver: Solver

    def __post_init__(self) -> None:
        super().__post_init__()
        check_solver(self.solver)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round."""
        return [Exchange.of(self, declared_for=LocalSteps.client_update)]

    def client_update(self, client: Client, message: Message, rng: np.random.Generator) -> Array:
        """Return the coefficients at which the client's solver ends."""
        model = message
        local = minimise_on(model.support, client, self.dictionary, self.solver, model, rng)
        return local.values
