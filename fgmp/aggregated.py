"""Minimising f = sum_i p_i f_i on a support that all clients know, from weighted sums of what the clients send.

Each class is a small immutable object that turns into a sequence of exchanges. All but `LocalSteps` find, or approach,
the minimiser of the pooled objective; none needs more than sums over the clients, so secure aggregation can hide what
a single client sends.

What the sums reveal. A Gram matrix on 3 tau features holds the second moments of these features, and the right side
their correlations with the targets. Nothing is said about other features. Without secure aggregation a client with
fewer rows than features gives away its rows on the support up to a rotation, so this is not a privacy mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from .answers import check_arrays
from .checks import settle_integer, settle_number
from .contract import Exchange, Reply
from .dictionaries import StandardBasis
from .federation import Client, Federation
from .linear_systems import fill_shifts, newton_direction, solve_definite, solve_semidefinite
from .losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from .models import Array, Message, SparseModel
from .restricted import RestrictedProblem, inner, restrict
from .solvers import Solver, minimise_on

__all__ = ["ConjugateGradients", "LocalSteps", "NewtonSteps", "NormalEquations", "Point", "Restricted"]


class Point(NamedTuple):
    """Where the server is: a model on the support, and what the solver remembers between two exchanges."""

    model: SparseModel
    memory: Any = None


class Restricted(Protocol):
    """What `SharedSupportGradMP` and `polish` need of a way to minimise on a shared support."""

    def check(self, federation: Federation) -> None:
        """Raise a ValueError where it does not fit the federation."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """The exchanges, over states of type `Point`: from a model on the support to a better one on it."""


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

    def check(self, federation: Federation) -> None:
        """Squared loss only."""
        _only_squared(federation, "NormalEquations", "NewtonSteps or LocalSteps")

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """One exchange."""

        def answer(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(_support(message))
            weight = client.loss.row_weight(client.n_samples)
            residual = client.targets - columns @ message["values"]
            return {"gram": _upper(weight * (columns.T @ columns)), "right": weight * (columns.T @ residual)}

        def combine(point: Point, replies: list[Reply]) -> Point:
            total = _sums(replies)
            return Point(_solved(point.model, _symmetric(total["gram"]), total["right"], dictionary))

        return (Exchange(_ask_at_point, answer, combine, _expects(gram=_SQUARE, right=_VECTOR)),)


@dataclass(frozen=True)
class ConjugateGradients:
    """Squared loss on large supports: conjugate gradients at the server, one exchange of vectors for each step.

    The first exchange collects the gradient at the start, every other one the product B'B d / m_i of a direction d.

    Parameters
    ----------
    steps : int, default 10
        Conjugate gradient steps: at least 1.
    """

    steps: int = 10

    def __post_init__(self) -> None:
        settle_integer(self, "steps")

    def check(self, federation: Federation) -> None:
        """Squared loss only."""
        _only_squared(federation, "ConjugateGradients", "NewtonSteps or LocalSteps")

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """1 + `steps` exchanges."""

        def gradient(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(_support(message))
            residual = client.targets - columns @ message["values"]
            return {"descent": client.loss.row_weight(client.n_samples) * (columns.T @ residual)}

        def start(point: Point, replies: list[Reply]) -> Point:
            descent = _sums(replies)["descent"]
            return Point(point.model, (descent, descent))

        def ask(point: Point) -> Message:
            return {"support": point.model.message()["support"], "direction": point.memory[1]}

        def product(client: Client, message: Message, rng: np.random.Generator) -> Message:
            columns = client.columns(_support(message))
            image = columns @ message["direction"]
            return {"product": client.loss.row_weight(client.n_samples) * (columns.T @ image)}

        def step(point: Point, replies: list[Reply]) -> Point:
            (residual, direction), product = point.memory, _sums(replies)["product"]
            curvature, energy = inner(direction, product), inner(residual, residual)
            if not (curvature > 0 and energy > 0):  # the minimiser is reached
                return point
            length = energy / curvature
            left = residual - length * product
            model = replace(point.model, values=point.model.values + length * direction)
            return Point(model, (left, left + inner(left, left) / energy * direction))

        steps = [Exchange(ask, product, step, _expects(product=_VECTOR))] * self.steps
        return (Exchange(_ask_at_point, gradient, start, _expects(descent=_VECTOR)), *steps)


@dataclass(frozen=True)
class NewtonSteps:
    """Any loss: aggregated Newton steps, one exchange for each, and a last one that compares objectives.

    Client i sends f_i, its gradient and its Hessian (upper triangle) on the support; the server goes to the minimiser
    of the quadratic model of f(x) + (ridge/2) ||alpha||^2. A step that raised the objective is halved. Without a ridge,
    a softmax Hessian arrives with its mean curvature along the directions that change all classes of a feature alike,
    where it has none of its own, and no step moves along them.

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
        settle_integer(self, "steps")
        settle_number(self, "ridge", at_least=0)

    def check(self, federation: Federation) -> None:
        """Every loss fits."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """`steps` + 1 exchanges."""
        bounded = self.ridge > 0 or radius is not None

        def curved(client: Client, message: Message, rng: np.random.Generator) -> Message:
            problem, predictions = _at_point(client, message, dictionary)
            hessian, gradient = problem.hessian(predictions), problem.gradient(predictions)
            if self.ridge == 0:
                hessian, gradient = fill_shifts(hessian, gradient, problem.shifts)
            return _value(client, problem, predictions) | {"gradient": gradient, "hessian": _upper(hessian)}

        def value(client: Client, message: Message, rng: np.random.Generator) -> Message:
            return _value(client, *_at_point(client, message, dictionary))

        def step(point: Point, replies: list[Reply]) -> Point:
            total, trial = _sums(replies), point.model
            if total["wrong"][0] == 0 and not bounded:
                raise ValueError(
                    f"the clients' rows are separated without error on the {len(trial.support)} coefficients of the "
                    "support, so the loss has no minimiser there; expected a ridge above 0 or a radius"
                )
            objective = self.objective(total["value"], trial)
            if point.memory is not None and not self.is_no_worse(objective, point):
                return halved(point)
            gradient = total["gradient"] + self.ridge * trial.values
            hessian = _symmetric(total["hessian"]) + self.ridge * np.eye(len(gradient), dtype=gradient.dtype)
            direction = newton_direction(hessian, gradient)
            if not np.isfinite(direction).all():  # no curvature to speak of: a saturated loss
                direction = np.zeros_like(gradient)
            return Point(moved(trial, direction), (trial, objective, direction))

        def keep_the_better(point: Point, replies: list[Reply]) -> Point:
            objective = self.objective(_sums(replies)["value"], point.model)
            return Point(point.model if self.is_no_worse(objective, point) else point.memory[0])

        def halved(point: Point) -> Point:
            best, objective, direction = point.memory
            return Point(moved(best, direction / 2), (best, objective, direction / 2))

        def moved(model: SparseModel, direction: Array) -> SparseModel:
            return dictionary.into_ball(replace(model, values=model.values + direction), radius)

        whole = _expects(value=_NUMBER, wrong=_NUMBER, gradient=_VECTOR, hessian=_SQUARE)
        steps = [Exchange(_ask_at_point, curved, step, whole)] * self.steps
        return (*steps, Exchange(_ask_at_point, value, keep_the_better, _expects(value=_NUMBER, wrong=_NUMBER)))

    def objective(self, value: Array, model: SparseModel) -> float:
        """F + (ridge/2) ||alpha||^2."""
        return float(value[0]) + self.ridge / 2 * inner(model.values, model.values)

    @staticmethod
    def is_no_worse(objective: float, point: Point) -> bool:
        """Whether an objective is at most the best so far, but for the rounding of what the clients sent."""
        best = point.memory[1]
        rounding = 16 * float(np.finfo(point.model.values.dtype).eps) * abs(best)
        return bool(objective <= best + rounding)


@dataclass(frozen=True)
class LocalSteps:
    """Any loss, one exchange: every client minimises f_i on the support with a local solver, the server averages.

    Parameters
    ----------
    solver : Solver
        `SGD`, `GradientDescent` or another: the K restricted local steps, from the model that the server has.
    """

    solver: Solver

    def check(self, federation: Federation) -> None:
        """Every loss fits."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """One exchange."""

        def answer(client: Client, message: Message, rng: np.random.Generator) -> Message:
            start = SparseModel.from_message(message, client.model_shape)
            end = minimise_on(start.support, client, dictionary, self.solver, start, rng)
            return {"values": dictionary.into_ball(end, radius).values}

        def combine(point: Point, replies: list[Reply]) -> Point:
            return Point(replace(point.model, values=_sums(replies)["values"]))

        return (Exchange(_ask_at_point, answer, combine, _expects(values=_VECTOR)),)


_NUMBER, _VECTOR, _SQUARE = "number", "vector", "square"


def _expects(**arrays: str) -> Callable[[Point, Message], None]:
    """A check that an answer holds these arrays, each for the support of the point and in its precision.

    Of a square symmetric matrix the upper triangle travels.
    """

    def check(point: Point, message: Message) -> None:
        k, dtype = len(point.model.support), point.model.values.dtype
        kinds = {
            _NUMBER: ((1,), dtype),
            _VECTOR: ((k,), dtype),
            _SQUARE: ((k * (k + 1) // 2,), dtype),
        }
        check_arrays(message, {name: kinds[kind] for name, kind in arrays.items()})

    return check


def _ask_at_point(point: Point) -> Message:
    return point.model.message()


def _support(message: Message) -> Array:
    return message["support"].astype(np.intp)


def _sums(replies: list[Reply]) -> Message:
    """The weighted sums of what the clients sent."""
    names = replies[0].message
    return {name: sum(reply.weight * reply.message[name] for reply in replies) for name in names}  # type: ignore[misc]


def _at_point(client: Client, message: Message, dictionary: StandardBasis) -> tuple[RestrictedProblem, Array]:
    problem = restrict(client, _support(message), dictionary, orthonormal=False)
    return problem, problem.predictions(message["values"])


def _value(client: Client, problem: RestrictedProblem, predictions: Array) -> Message:
    """f_i, and the share of rows that are not classified correctly."""
    wrong = float(np.mean(_not_correct(client.loss)(predictions, client.targets)))
    dtype = predictions.dtype
    return {"value": np.array([problem.value(predictions)], dtype), "wrong": np.array([wrong], dtype)}


def _not_correct(loss: Loss) -> Callable[[Array, Array], Array]:
    if isinstance(loss, LogisticLoss):
        return lambda predictions, targets: targets * predictions <= 0
    if isinstance(loss, SoftmaxLoss):
        return _not_the_only_largest
    return lambda predictions, targets: np.ones(len(targets), bool)  # nothing to separate


def _not_the_only_largest(predictions: Array, targets: Array) -> Array:
    own = predictions[np.arange(len(targets)), targets][:, None]
    several: Array = np.sum(predictions >= own, axis=1) > 1
    return several


@lru_cache(maxsize=4)
def _upper_places(size: int) -> tuple[Array, Array]:
    """Where the upper triangle stands; the same for all clients of an exchange."""
    rows, columns = np.triu_indices(size)
    return rows, columns


def _upper(matrix: Array) -> Array:
    upper: Array = matrix[_upper_places(len(matrix))]
    return upper


def _symmetric(upper: Array) -> Array:
    size = int((np.sqrt(8 * len(upper) + 1) - 1) / 2)
    matrix = np.zeros((size, size), upper.dtype)
    matrix[_upper_places(size)] = upper
    return matrix + np.triu(matrix, 1).T


def _solved(model: SparseModel, gram: Array, right: Array, dictionary: StandardBasis) -> SparseModel:
    """The model with d added, where gram d = right; of minimum norm as a signal where d is not unique."""
    solved = solve_definite(gram, right)
    if solved is not None:
        return replace(model, values=model.values + solved[1])
    right = gram @ model.values + right
    coordinates = dictionary.coordinates(model.support)
    if coordinates is None:
        return replace(model, values=solve_semidefinite(gram, right))
    forth = coordinates.to_coefficients.astype(gram.dtype, copy=False)
    return replace(model, values=forth @ solve_semidefinite(forth.T @ gram @ forth, forth.T @ right))


def _only_squared(federation: Federation, name: str, others: str) -> None:
    if not isinstance(federation.loss, SquaredLoss):
        raise ValueError(
            f"restricted is {name}, for the squared loss, and the loss is {federation.loss!r}; use {others}"
        )
