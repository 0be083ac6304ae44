"""Solvers of the restricted problem, argmin f_i(x) over the span of the merged atoms (Algorithms 1 and 2).

They work in orthonormal coordinates z of the span, so that steps, norms and the accuracy delta are those of the
paper's signals, whatever the dictionary; only `SGD` works on the coefficients, its steps being too cheap for more.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .checks import check_protocol, settle_integer, settle_number
from .dictionaries import StandardBasis
from .federation import Client, minibatches
from .linear_systems import fill_shifts, least_squares, newton_direction
from .losses import Loss, SquaredLoss
from .models import Array, SparseModel, Support, unit_of
from .restricted import RestrictedProblem, inner

_LIMIT = 10_000


class Solver(Protocol):
    """What FedGradMP needs of a solver."""

    @property
    def orthonormal(self) -> bool:
        """Whether it works in orthonormal coordinates of the span."""

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """A minimiser of the problem, or a point near one, from `start`."""


def check_solver(solver: Any) -> None:
    """Raise a ValueError where a solver is not a client's."""
    local = "Exact(), GradientDescent(...), Newton(...) or SGD(...)"
    check_protocol("solver", solver, ("minimise",), f"a client's solver: {local}")


@dataclass(frozen=True)
class Exact:
    """The minimiser to machine precision: Algorithm 1.

    Least squares for the squared loss, of minimum norm where the minimiser is not unique; Newton's method until nothing
    is left to gain for other losses. Data that a logistic loss can separate have no minimiser: what comes back then is
    finite, but as large as a hundred Newton steps make it.
    """

    orthonormal = True

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The minimiser; `start` matters only where the loss needs iterations."""
        if isinstance(problem.loss, SquaredLoss):
            return least_squares(problem.columns, problem.targets)
        return _newton(problem, start, limit=100, accuracy=None)


@dataclass(frozen=True)
class _Iterative:
    """Shared parameters of the iterative solvers: a number of steps, an accuracy delta, or both."""

    steps: int | None = None
    accuracy: float | None = None
    orthonormal = True  # the accuracy is a distance between signals

    def __post_init__(self) -> None:
        if self.steps is None and self.accuracy is None:
            raise ValueError("steps and accuracy are both None; expected at least one of them")
        settle_integer(self, "steps", optional=True)
        settle_number(self, "accuracy", optional=True, above=0)

    @property
    def limit(self) -> int:
        """The largest number of steps."""
        return _LIMIT if self.steps is None else self.steps

    def _checked(self, problem: RestrictedProblem, z: Array) -> Array:
        """The end of a run, with a warning where it was to reach an accuracy and did not."""
        if self.accuracy is not None and self.steps is None:
            predictions = problem.predictions(z)
            if not problem.within(self.accuracy, predictions, problem.gradient(predictions)):
                from sklearn.exceptions import ConvergenceWarning

                name = type(self).__name__
                advice = "a larger accuracy" + ("" if name == "Newton" else ", or Newton, which needs fewer steps")
                warnings.warn(
                    f"{name} stopped before accuracy={self.accuracy:g} was certain, on a restricted problem of "
                    f"{problem.size} coordinates and {len(problem.targets)} rows; try {advice}",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return z


@dataclass(frozen=True)
class GradientDescent(_Iterative):
    """Gradient descent with a line search that costs no extra product with the data (Algorithm 2).

    Parameters
    ----------
    steps : int or None
        Stop after so many steps; None is no limit but 10,000.
    accuracy : float or None
        delta: stop once ||b - b_opt||_2 <= delta is certain. None never checks, which saves an eigenvalue problem.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        Where `accuracy` was asked for without `steps` and was not reached: after 10,000 steps, or where rounding
        leaves no step that decreases the objective.

    Notes
    -----
    A step is z <- z - s grad h(z), where s minimises h along the gradient (squared loss) or its quadratic model with
    halving (other losses). Its cost is two products with the m x k columns.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        z, predictions = start, problem.predictions(start)
        for _ in range(self.limit):
            derivative = problem.derivative(predictions)
            gradient = problem.pull_back(derivative)
            if problem.within(self.accuracy, predictions, gradient):
                break
            direction = -gradient * unit_of(gradient)
            slope = inner(gradient, direction)
            if not problem.descends(slope, direction, derivative):
                break
            image = problem.predictions(direction)
            length = problem.step_length(predictions, image, slope)
            if length == 0:
                break
            z, predictions = z + length * direction, predictions + length * image
        return self._checked(problem, z)


@dataclass(frozen=True)
class Newton(_Iterative):
    """Newton's method with halving of the step; one step is exact for the squared loss.

    Parameters as `GradientDescent`. A singular Hessian is inverted on its range.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        return self._checked(problem, _newton(problem, start, self.limit, self.accuracy))


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent on the client's rows.

    Parameters
    ----------
    learning_rate : float
        A step on all rows descends below 2 / L, for L the largest curvature of f_i on the merged atoms; where the loss
        is a sum, the gradient of a step is the sum over its rows.
    steps : int, default 2
        Number of steps; the paper's digits use 2.
    batch_size : int or None
        Rows per step, drawn without replacement; None is all rows.

    Notes
    -----
    A step is alpha <- alpha - rate g on the coefficients of the merged atoms, which in the standard basis and for
    orthonormal atoms is a step on the signal itself.
    """

    orthonormal = False
    learning_rate: float
    steps: int = 2
    batch_size: int | None = None

    def __post_init__(self) -> None:
        settle_number(self, "learning_rate", above=0)
        settle_integer(self, "steps")
        settle_integer(self, "batch_size", optional=True)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        z = start
        for rows in minibatches(rng, len(problem.targets), self.batch_size, self.steps):
            z = z - self.learning_rate * problem.gradient_on(slice(None) if rows is None else rows, z)
        return z


def minimise_on(
    merged: Support,
    client: Client,
    dictionary: StandardBasis,
    solver: Solver,
    start: SparseModel,
    rng: np.random.Generator,
) -> SparseModel:
    """b = argmin f_i(x) over x in the span of the merged atoms, exactly or as the solver does it.

    Raises
    ------
    FloatingPointError
        Where b is no finite number: a selection would hide that.
    """
    if not len(merged):
        return SparseModel.zero(start.shape, start.values.dtype)
    if isinstance(solver, Exact) and isinstance(
        client.loss, SquaredLoss
    ):  # the rank of the data decides, not that of the atoms
        metric = None if dictionary.orthonormal else dictionary.inner_products(merged)
        b = least_squares(client.columns(merged), client.targets, metric)
    else:
        problem = RestrictedProblem.of(client, merged, dictionary, orthonormal=solver.orthonormal)
        b = problem.coefficients(solver.minimise(problem, problem.start(start.on(merged)), rng))
    if not np.isfinite(b).all():
        raise FloatingPointError(f"client {client.key} has no finite minimiser on {len(merged)} coefficients")
    return SparseModel(merged, b, start.shape)


def _newton(problem: RestrictedProblem, start: Array, limit: int, accuracy: float | None) -> Array:
    """In float64, because a Hessian of float32 is too rough to divide by."""
    problem = problem.in_double_precision()
    z, shifts = start.astype(np.float64), problem.shifts
    predictions = problem.predictions(z)
    for _ in range(limit):
        derivative = problem.derivative(predictions)
        gradient = problem.pull_back(derivative)
        if problem.within(accuracy, predictions, gradient):
            break
        direction = newton_direction(*fill_shifts(problem.hessian(predictions), gradient, shifts))
        image, slope = problem.predictions(direction), inner(gradient, direction)
        if not problem.descends(slope, direction, derivative):
            break
        length = problem.step_length(predictions, image, slope)
        if length == 0:
            break
        z, predictions = z + length * direction, predictions + length * image
        if accuracy is None and -slope <= np.finfo(z.dtype).eps * problem.value(predictions):
            break
    return z.astype(start.dtype)


_BY_NAME: dict[str, Solver] = {"exact": Exact(), "damped": GradientDescent(steps=1)}


def solver_for(loss: Loss) -> Solver:
    """The default local solver of a loss, by the name that the loss gives.

    Parameters
    ----------
    loss : Loss
        ``loss.local_solver`` is ``"exact"`` or ``"damped"``.

    Returns
    -------
    Solver
        `Exact()`, or `GradientDescent(steps=1)`: one step, with a line search, in each local iteration.

    Raises
    ------
    ValueError
        Where the loss asks for another.

    Notes
    -----
    A step with a line search lowers f_i or stays, so that it never leaves the sublevel set of f_i where it starts, and
    it needs no learning rate. `Exact` and `Newton` run away wherever a site can separate its rows on 3 tau atoms; more
    steps gain where rows are many and pay for it where they are few. benchmarks/README.md has what was measured.
    """
    if loss.local_solver not in _BY_NAME:
        names = " or ".join(map(repr, _BY_NAME))
        raise ValueError(f"local_solver of {loss!r} is {loss.local_solver!r}; expected {names}")
    return _BY_NAME[loss.local_solver]
