"""Solvers of the restricted problem, argmin f_i(x) over the span of the merged atoms (Algorithms 1 and 2).

Each is a small immutable object with one method, `minimise`. They work in orthonormal coordinates z of the span, so
that steps, norms and the accuracy delta are those of the paper's signals, whatever the dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .checks import check_integer, check_number
from .dictionaries import StandardBasis
from .federation import Client
from .losses import Loss
from .models import Array, SparseModel, Support

__all__ = ["SGD", "SVRG", "ConjugateGradient", "Exact", "GradientDescent", "Newton", "Solver", "minimise_on"]

_LIMIT = 10_000


@dataclass(frozen=True, eq=False)
class RestrictedProblem:
    """f_i on a span: h(z) = (1/m) sum_j l(c_j' z, y_j) with the rows c_j of `columns`, shape (m, k)."""

    columns: Array
    targets: Array
    loss: Loss

    def value(self, predictions: Array) -> float:
        """H from the predictions C z."""
        return float(np.sum(self.loss.values(predictions, self.targets)) / len(self.targets))

    def gradient(self, predictions: Array) -> Array:
        """Grad h = C' l' / m from the predictions C z."""
        gradient: Array = self.columns.T @ (self.loss.derivative(predictions, self.targets) / len(self.targets))
        return gradient

    def gradient_on(self, rows: Support, z: Array) -> Array:
        """The gradient over a minibatch of rows."""
        columns = self.columns[rows]
        gradient: Array = columns.T @ (self.loss.derivative(columns @ z, self.targets[rows]) / len(rows))
        return gradient

    def hessian(self, predictions: Array) -> Array:
        """C' diag(l'') C / m."""
        curvature = self.loss.curvature(predictions, self.targets, np.ones_like(predictions))
        hessian: Array = self.columns.T @ (self.columns * (curvature / len(self.targets))[:, None])
        return hessian

    def step_length(self, predictions: Array, image: Array, slope: float) -> float:
        """How far to go along a direction d of descent, given C d and grad h' d < 0.

        The minimiser of the quadratic model along d, which for the squared loss is the exact line search; halved
        until h decreases enough (Armijo), which the squared loss never needs.
        """
        bend = float(np.sum(image * self.loss.curvature(predictions, self.targets, image))) / len(self.targets)
        if bend <= 0:
            return 0.0
        length, start = -slope / bend, self.value(predictions)
        rounding = 16 * float(np.finfo(predictions.dtype).eps) * abs(start)
        for _ in range(60):
            if self.value(predictions + length * image) <= start + 1e-4 * length * slope + rounding:
                return length
            length /= 2
        return 0.0

    def within(self, accuracy: float | None, predictions: Array, gradient: Array) -> bool:
        """Whether z is certainly within `accuracy` of a minimiser: ||grad h|| <= accuracy x smallest curvature.

        Exact for the squared loss, whose Hessian is constant (directions of no curvature are directions in which
        every point is a minimiser); for other losses the Hessian at z stands for the one on the way.
        """
        if accuracy is None:
            return False
        eigenvalues = np.linalg.eigvalsh(self.hessian(predictions))
        positive = eigenvalues[eigenvalues > len(eigenvalues) * np.finfo(eigenvalues.dtype).eps * eigenvalues[-1]]
        return bool(not positive.size or np.linalg.norm(gradient) <= accuracy * positive[0])


class Solver(Protocol):
    """What FedGradMP needs of a solver."""

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """A minimiser of the problem, or a point near one, from `start`."""


@dataclass(frozen=True)
class Exact:
    """The minimiser to machine precision: Algorithm 1. Minimum norm where it is not unique (squared loss)."""

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The minimiser; `start` matters only where the loss needs iterations."""
        return problem.loss.minimiser(problem.columns, problem.targets, start)


@dataclass(frozen=True)
class _Iterative:
    """Shared parameters of the iterative solvers: a number of steps, an accuracy delta, or both."""

    steps: int | None = None
    accuracy: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.accuracy is None:
            raise ValueError("steps and accuracy are both None; expected at least one of them")
        if self.steps is not None:
            check_integer("steps", self.steps)
        if self.accuracy is not None:
            check_number("accuracy", self.accuracy, above=0)

    @property
    def limit(self) -> int:
        """The largest number of steps."""
        return _LIMIT if self.steps is None else self.steps


@dataclass(frozen=True)
class GradientDescent(_Iterative):
    """Gradient descent with a line search that costs no extra product with the data (Algorithm 2).

    Parameters
    ----------
    steps : int or None
        Stop after so many steps; None is no limit but 10,000.
    accuracy : float or None
        delta: stop once ||b - b_opt||_2 <= delta is certain. None never checks, which saves an eigenvalue problem.

    Notes
    -----
    A step is z <- z - s grad h(z), where s minimises h along the gradient (squared loss) or its quadratic model with
    halving (other losses). Its cost is two products with the m x k columns.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        return _descend(problem, start, self.limit, self.accuracy, conjugate=False)


@dataclass(frozen=True)
class ConjugateGradient(_Iterative):
    """Conjugate gradients: linear for the squared loss, Polak-Ribiere for others. Parameters as GradientDescent."""

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        return _descend(problem, start, self.limit, self.accuracy, conjugate=True)


@dataclass(frozen=True)
class Newton(_Iterative):
    """Newton's method with halving of the step; one step is exact for the squared loss.

    Parameters as `GradientDescent`. A singular Hessian is inverted on its range.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        z, predictions = start, problem.columns @ start
        for _ in range(self.limit):
            gradient = problem.gradient(predictions)
            if problem.within(self.accuracy, predictions, gradient):
                break
            direction = -np.linalg.lstsq(problem.hessian(predictions), gradient, rcond=None)[0]
            image = problem.columns @ direction
            length = problem.step_length(predictions, image, float(gradient @ direction))
            if length == 0:
                break
            z, predictions = z + length * direction, predictions + length * image
        return z


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent on the client's rows.

    Parameters
    ----------
    steps : int, default 2
        Number of steps; the paper's digits use 2.
    batch_size : int or None
        Rows per step, drawn without replacement; None is all rows.
    learning_rate : float or None
        None is 1 / L, with L the largest curvature of the problem, from a few power iterations.
    """

    steps: int = 2
    batch_size: int | None = None
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        check_integer("steps", self.steps)
        if self.batch_size is not None:
            check_integer("batch_size", self.batch_size)
        if self.learning_rate is not None:
            check_number("learning_rate", self.learning_rate, above=0)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last iterate."""
        rate = self.learning_rate or 1 / _largest_curvature(problem)
        z, n_rows = start, len(problem.targets)
        for _ in range(self.steps):
            rows = rng.choice(n_rows, min(self.batch_size or n_rows, n_rows), replace=False)
            z = z - rate * problem.gradient_on(rows, z)
        return z


@dataclass(frozen=True)
class SVRG(_Iterative):
    """Stochastic gradients with variance reduction (Johnson and Zhang, 2013), which reach any accuracy delta.

    Parameters
    ----------
    steps, accuracy
        As `GradientDescent`; a step is one epoch: the full gradient at an anchor, then one pass over the rows.
    batch_size : int, default 1
        Rows per inner step.
    """

    batch_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("batch_size", self.batch_size)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The last anchor."""
        anchor, n_rows = start, len(problem.targets)
        size = min(self.batch_size, n_rows)
        steepest_row = float(np.einsum("ij,ij->i", problem.columns, problem.columns).max())
        rate = 1 / (4 * problem.loss.smoothness * max(steepest_row, np.finfo(float).tiny))
        for _ in range(self.limit):
            predictions = problem.columns @ anchor
            full = problem.gradient(predictions)
            if problem.within(self.accuracy, predictions, full):
                break
            z = anchor
            for _ in range(2 * -(-n_rows // size)):
                rows = rng.integers(n_rows, size=size)
                z = z - rate * (problem.gradient_on(rows, z) - problem.gradient_on(rows, anchor) + full)
            anchor = z
        return anchor


def minimise_on(
    merged: Support,
    client: Client,
    dictionary: StandardBasis,
    solver: Solver,
    start: SparseModel,
    rng: np.random.Generator,
) -> SparseModel:
    """B = argmin f_i(x) over x in the span of the merged atoms, exactly or as the solver does it."""
    columns, values = client.columns(merged), start.on(merged)
    coordinates = dictionary.coordinates(merged)
    if coordinates is None:
        values = solver.minimise(RestrictedProblem(columns, client.targets, client.loss), values, rng)
    else:
        forth, back = (matrix.astype(columns.dtype, copy=False) for matrix in coordinates)
        problem = RestrictedProblem(columns @ forth, client.targets, client.loss)
        values = forth @ solver.minimise(problem, back @ values, rng)
    return SparseModel(merged, values, start.shape)


def _descend(problem: RestrictedProblem, start: Array, limit: int, accuracy: float | None, *, conjugate: bool) -> Array:
    z, predictions = start, problem.columns @ start
    gradient = problem.gradient(predictions)
    direction = -gradient
    for _ in range(limit):
        if not gradient.any() or problem.within(accuracy, predictions, gradient):
            break
        image = problem.columns @ direction
        length = problem.step_length(predictions, image, float(gradient @ direction))
        if length == 0:
            break
        z, predictions = z + length * direction, predictions + length * image
        before, gradient = gradient, problem.gradient(predictions)
        direction = -gradient + (_polak_ribiere(before, gradient) * direction if conjugate else 0)
        if gradient @ direction >= 0:
            direction = -gradient
    return z


def _polak_ribiere(before: Array, gradient: Array) -> float:
    return max(0.0, float(gradient @ (gradient - before) / (before @ before)))


def _largest_curvature(problem: RestrictedProblem, iterations: int = 8) -> float:
    """An estimate, rarely low and then slightly, of the largest eigenvalue of the Hessian: power iterations on C'C."""
    vector = problem.columns.sum(axis=0)
    if not vector.any():
        vector = np.ones_like(vector)
    for _ in range(iterations):
        vector = problem.columns.T @ (problem.columns @ (vector / np.linalg.norm(vector)))
    largest = float(np.linalg.norm(vector)) * problem.loss.smoothness / len(problem.targets)
    return max(1.05 * largest, np.finfo(float).tiny)
