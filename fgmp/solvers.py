"""One client: f_i over the span of the merged atoms, and the ways to minimise it there (Algorithms 1 and 2).

A solver gets a `RestrictedProblem` and coefficients of the merged atoms, and returns others. Those whose steps, norms
and accuracy are those of the paper's signals work in orthonormal coordinates of the span, whatever the dictionary.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ._support.linear_algebra import (
    least_squares,
    orthonormal_combinations,
    regularize_null_directions,
    solve_semidefinite,
)
from ._support.optional import convergence_warning
from ._support.sparse_features import SparseFeatures
from ._support.validation import (
    check_option,
    check_protocol,
    validate_integer_field,
    validate_number_field,
)
from .dictionaries import StandardBasis
from .federation import Client, minibatches
from .losses import Loss, SquaredLoss
from .sparse_model import Array, IndexArray, NonFiniteUpdate, SparseModel, length_of, unit_of

_LIMIT = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedProblem:
    """h(z) = w sum_j l(predictions_j(z), y_j), linear predictions and the weight w of a row: 1/m, or 1 in a sum.

    z are the coefficients of the k merged atoms or, after `orthonormalised`, s coordinates of their span.

    Parameters
    ----------
    columns : ndarray, shape (m, u)
        The data on atoms that include all that some output uses; for one output, on the merged atoms.
    targets : ndarray, shape (m,)
    loss : Loss
    dictionary : StandardBasis
    merged, places : ndarray of int, shape (k,)
        Where the coefficients stand in a flattened model, and in the (u, n_outputs) matrix that the columns multiply.
    n_outputs : int
    forth, back : ndarray, shapes (k, s) and (s, k), or None
        Coefficients are `to_coefficients` z, and z is `to_coordinates` times coefficients; None is the identity.
    """

    columns: Array
    targets: Array
    loss: Loss
    dictionary: StandardBasis
    merged: IndexArray
    indices: IndexArray
    n_outputs: int
    to_coefficients: Array | None = None
    to_coordinates: Array | None = None

    @classmethod
    def of(cls, client: Client, merged: IndexArray, dictionary: StandardBasis) -> RestrictedProblem:
        """The restricted problem of a client, whose features are A_i Psi, on merged positions."""
        n_outputs, columns, indices = client.n_outputs, client.features, merged
        if n_outputs == 1:
            columns, indices = client.columns(merged), np.arange(len(merged))
        else:
            used, where = np.unique(merged // n_outputs, return_inverse=True)
            if 2 * len(used) < client.n_features or isinstance(columns, SparseFeatures):
                columns, indices = client.columns(used), where * n_outputs + merged % n_outputs
        return cls(columns, client.targets, client.loss, dictionary, merged, indices, n_outputs)

    def orthonormalised(self) -> RestrictedProblem:
        """The same problem in orthonormal coordinates of the span, each output in those of its own atoms."""
        if self.dictionary.orthonormal:
            return self
        atoms, outputs = np.divmod(self.merged, self.n_outputs)
        members = [outputs == output for output in range(self.n_outputs)]
        gram = self.dictionary.inner_products(atoms) * (outputs[:, None] == outputs)
        blocks = [
            np.eye(len(gram))[:, own] @ orthonormal_combinations(gram[np.ix_(own, own)])
            for own in members
        ]
        to_coefficients, dtype = np.hstack(blocks), self.columns.dtype
        return replace(
            self,
            to_coefficients=np.asarray(to_coefficients, dtype),
            to_coordinates=np.asarray(to_coefficients.T @ gram, dtype),
        )

    def coefficients(self, z: Array) -> Array:
        """The coefficients of the merged atoms."""
        return z if self.to_coefficients is None else self.to_coefficients @ z

    def start(self, coefficients: Array) -> Array:
        """The z of given coefficients."""
        return coefficients if self.to_coordinates is None else self.to_coordinates @ coefficients

    def predictions(self, z: Array) -> Array:
        """The predictions on all rows, for several outputs one contiguous column for each."""
        z = self.coefficients(z)
        if self.n_outputs > 1:
            matrix = np.zeros((self.columns.shape[1], self.n_outputs), self.columns.dtype)
            matrix.reshape(-1)[self.indices] = z
            z = matrix
        return (z.T @ self.columns.T).T

    def pull_back(self, derivative: Array) -> Array:
        """The transpose of `predictions`: from numbers per row to numbers per coordinate."""
        gradient: Array = self.columns.T @ derivative
        if self.n_outputs > 1:
            gradient = gradient.reshape(-1)[self.indices]
        return gradient if self.to_coefficients is None else self.to_coefficients.T @ gradient

    @property
    def row_weight(self) -> float:
        """What each row counts: w."""
        return self.loss.row_weight(len(self.targets))

    def value(self, predictions: Array) -> float:
        """The objective h, from the predictions."""
        return float(np.sum(self.loss.values(predictions, self.targets)) * self.row_weight)

    def derivative(self, predictions: Array) -> Array:
        """The derivative of h in the predictions."""
        return self.loss.derivative(predictions, self.targets) * self.row_weight

    def gradient(self, predictions: Array) -> Array:
        """The gradient of h, from the predictions."""
        return self.pull_back(self.derivative(predictions))

    def hessian(self, predictions: Array) -> Array:
        """The Hessian of h: blocks B_c' W_cc' B_c', where row j of W_cc' is the derivative of entry c of l' in c'."""
        if self.n_outputs == 1:
            bent = self.loss.curvature(
                predictions, self.targets, np.full_like(predictions, self.row_weight)
            )
            hessian: Array = self.columns.T @ (self.columns * bent[:, None])
        else:
            hessian = np.zeros((len(self.indices), len(self.indices)), self.columns.dtype)
            atoms, outputs = np.divmod(self.indices, self.n_outputs)
            members = [np.flatnonzero(outputs == output) for output in range(self.n_outputs)]
            parts = [self.columns[:, atoms[own]] for own in members]
            for second, own in enumerate(members):
                towards = np.zeros_like(predictions)
                towards[:, second] = self.row_weight
                bent = self.loss.curvature(predictions, self.targets, towards)
                for first, others in enumerate(members[: second + 1]):
                    block = parts[first].T @ (parts[second] * bent[:, first, None])
                    hessian[np.ix_(others, own)] = block
                    hessian[np.ix_(own, others)] = block.T
        return (
            hessian
            if self.to_coefficients is None
            else self.to_coefficients.T @ hessian @ self.to_coefficients
        )

    @property
    def shifts(self) -> Array:
        """Orthonormal directions of z, shape (k, s), that change all outputs alike, where the loss does not notice.

        Of coefficients those of an atom that every output has. In coordinates of an output's own these are the z with
        equal signals Q_c z_c, for which || sum_c Q_c z_c ||^2 = C ||z||^2, the most.
        """
        if not self.loss.shift_invariant:
            return np.zeros(
                (len(self.merged if self.to_coordinates is None else self.to_coordinates), 0)
            )
        atoms = self.merged // self.n_outputs
        if self.to_coefficients is None:
            every, count = np.unique(atoms, return_counts=True)
            alike: Array = (atoms[:, None] == every[count == self.n_outputs]) / np.sqrt(
                self.n_outputs
            )
            return alike
        energies, directions = np.linalg.eigh(
            self.to_coefficients.T @ self.dictionary.inner_products(atoms) @ self.to_coefficients
        )
        return directions[:, energies >= (1 - 1e-9) * self.n_outputs]

    @cached_property
    def steepest(self) -> float:
        """The most by which z of length one changes the predictions of a row, or a little more with several outputs."""
        rows = self.columns[:, self.indices // self.n_outputs]
        rows = rows if self.to_coefficients is None else rows @ self.to_coefficients
        return float(np.linalg.norm(rows, axis=1).max(initial=0.0))

    @cached_property
    def lengths(self) -> Array:
        """The lengths of the columns."""
        lengths: Array = np.linalg.norm(self.columns, axis=0)
        return lengths

    def line_search(
        self, predictions: Array, derivative: Array, gradient: Array, direction: Array
    ) -> tuple[float, Array]:
        """How far to go along a direction d, 0 where that is no descent beyond rounding, and its image in predictions.

        The minimiser of the quadratic model along d, which for the squared loss is the exact line search; halved
        until h decreases enough (Armijo), which the squared loss never needs.
        """
        image, slope = self.predictions(direction), inner(gradient, direction)
        steps = self.lengths[self.indices // self.n_outputs] * self.coefficients(
            direction
        )  # whatever the units
        rounding = float(np.finfo(derivative.dtype).eps)
        negligible = (
            rounding * (16 + len(derivative)) ** 0.5 * length_of(derivative) * length_of(steps)
        )
        curvature = (
            inner(image, self.loss.curvature(predictions, self.targets, image)) * self.row_weight
        )
        if curvature <= 0 or not slope < -negligible:
            return 0.0, image
        length, before = -slope / curvature, self.value(predictions)
        for _ in range(60):
            if self.value(
                predictions + length * image
            ) <= before + 1e-4 * length * slope + 16 * rounding * abs(before):
                return length, image
            length /= 2
        return 0.0, image

    def converged(self, accuracy: float, predictions: Array, gradient: Array) -> bool:
        """Whether z is certainly within `accuracy` of a minimiser: ||grad h|| <= accuracy x smallest curvature.

        Exact for the squared loss, whose Hessian is constant (in directions of no curvature, to rounding, every point
        is a minimiser); for other losses the Hessian at z stands for the one on the way. Rows that can be separated
        leave no minimiser. There is one where the gradient is so small beside the curvature that no third derivative
        can undo it: ||grad h|| <= curvature / (2 R), with R the loss's constant times the steepest prediction (F. Bach,
        Self-concordant analysis for logistic regression, 2010, Proposition 2). Far out where a loss is flat, curvature
        itself vanishes in directions in which it had some at zero.
        """
        positive = _positive(np.linalg.eigvalsh(self.hessian(predictions)))
        least = float(positive[0]) if positive.size else np.inf
        curvature = getattr(self.loss, "self_concordance", 0.0)
        reach = 1 / (2 * curvature * self.steepest) if curvature * self.steepest > 0 else np.inf
        if not length_of(gradient) <= min(accuracy, reach) * least:
            return False
        if isinstance(self.loss, SquaredLoss):
            return True
        return len(positive) >= len(
            _positive(np.linalg.eigvalsh(self.hessian(np.zeros_like(predictions))))
        )


def _positive(curvatures: Array) -> Array:
    """Those of increasing eigenvalues that are no rounding."""
    rounding = len(curvatures) * np.finfo(curvatures.dtype).eps * curvatures[-1]
    positive: Array = curvatures[curvatures > rounding]
    return positive


def inner(left: Array, right: Array) -> float:
    """The inner product in float64, where products of float32 neither overflow nor vanish."""
    return float(left.reshape(-1).astype(np.float64) @ right.reshape(-1).astype(np.float64))


class Solver(Protocol):
    """What FedGradMP needs of a solver."""

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Coefficients that minimise the problem, or nearly so, from those of `start`."""


def check_solver(solver: Any) -> None:
    """Raise a ValueError where a solver is not a client's."""
    local = "a client's solver: Exact(), GradientDescent(...), Newton(...) or SGD(...)"
    check_protocol("solver", solver, ("minimise",), local)


@dataclass(frozen=True)
class GradientDescent:
    """Gradient descent with a line search that costs no extra product with the data (Algorithm 2).

    Parameters
    ----------
    steps : int or None
        Stop after so many steps; None is no limit but 10,000.
    accuracy : float or None
        delta: stop once ||b - b_opt||_2 <= delta is certain. None never checks, which saves an eigenvalue problem.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning, or RuntimeWarning if scikit-learn is not installed
        Where `accuracy` was asked for without `steps` and was not reached: after 10,000 steps, or where rounding
        leaves no step that decreases the objective.

    Notes
    -----
    A step is z <- z - s grad h(z), s by the line search of `RestrictedProblem`: two products with the m x k columns.
    """

    steps: int | None = None
    accuracy: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.accuracy is None:
            raise ValueError("steps and accuracy are both None; expected at least one of them")
        validate_integer_field(self, "steps", optional=True)
        validate_number_field(self, "accuracy", optional=True, above=0)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The coefficients after the last step."""
        inside = problem.orthonormalised()
        z = inside.start(start)
        predictions, certain = inside.predictions(z), False
        for _ in range(_LIMIT if self.steps is None else self.steps):
            derivative = inside.derivative(predictions)
            gradient = inside.pull_back(derivative)
            certain = self.accuracy is not None and inside.converged(
                self.accuracy, predictions, gradient
            )
            if certain:
                break
            direction = self._direction(inside, predictions, gradient)
            length, image = inside.line_search(predictions, derivative, gradient, direction)
            if length == 0:
                break
            z, predictions = z + length * direction, predictions + length * image
        if self.steps is None and not certain:
            name = type(self).__name__
            advice = "a larger accuracy" + (
                "" if name == "Newton" else ", or Newton, which needs fewer steps"
            )
            warnings.warn(
                f"{name} stopped before accuracy={self.accuracy:g} was certain, on a restricted problem of "
                f"{len(z)} coordinates and {len(inside.targets)} rows; try {advice}",
                convergence_warning(),
                stacklevel=2,
            )
        return inside.coefficients(z)

    def _direction(self, problem: RestrictedProblem, predictions: Array, gradient: Array) -> Array:
        return -gradient * unit_of(gradient)


@dataclass(frozen=True)
class Newton(GradientDescent):
    """The same in Newton's direction, of which one step is exact for the squared loss; parameters as there.

    A singular Hessian is inverted on its range, in float64 whatever the data: one of float32 is too rough to divide by.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The coefficients after the last step."""
        columns, targets = problem.columns.astype(np.float64, copy=False), problem.targets
        targets = targets.astype(np.float64, copy=False) if targets.dtype.kind == "f" else targets
        wide = replace(problem, columns=columns, targets=targets)
        return super().minimise(wide, start.astype(np.float64), rng).astype(start.dtype, copy=False)

    def _direction(self, problem: RestrictedProblem, predictions: Array, gradient: Array) -> Array:
        return -solve_semidefinite(
            *regularize_null_directions(problem.hessian(predictions), gradient, problem.shifts)
        )


@dataclass(frozen=True)
class Exact:
    """The minimiser to machine precision: Algorithm 1.

    Least squares for the squared loss, of minimum norm where the minimiser is not unique; Newton's method until nothing
    is left to gain for other losses. Data that a logistic loss can separate have no minimiser: what comes back then is
    finite, but as large as a hundred Newton steps make it.
    """

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The minimiser; `start` matters only where the loss needs iterations."""
        if not isinstance(problem.loss, SquaredLoss):
            return Newton(steps=100).minimise(problem, start, rng)
        # The rank of the data decides, not that of the atoms.
        metric = (
            None
            if problem.dictionary.orthonormal
            else problem.dictionary.inner_products(problem.merged)
        )
        return least_squares(problem.columns, problem.targets, metric)


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
    orthonormal atoms is a step on the signal itself; elsewhere it is too cheap to change coordinates for.
    """

    learning_rate: float
    steps: int = 2
    batch_size: int | None = None

    def __post_init__(self) -> None:
        validate_number_field(self, "learning_rate", above=0)
        validate_integer_field(self, "steps")
        validate_integer_field(self, "batch_size", optional=True)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """The coefficients after the last step."""
        z = start
        for rows in minibatches(rng, len(problem.targets), self.batch_size, self.steps):
            some = slice(None) if rows is None else rows
            batch = replace(problem, columns=problem.columns[some], targets=problem.targets[some])
            z = z - self.learning_rate * batch.gradient(batch.predictions(z))
        return z


def minimise_on(
    merged: IndexArray,
    client: Client,
    dictionary: StandardBasis,
    solver: Solver,
    start: SparseModel,
    rng: np.random.Generator,
) -> SparseModel:
    """b = argmin f_i(x) over x in the span of the merged atoms, exactly or as the solver does it.

    Raises
    ------
    NonFiniteUpdate
        Where b is no finite number: a selection would hide that.
    """
    if not len(merged):
        return SparseModel.zero(start.shape, start.values.dtype)
    b = solver.minimise(RestrictedProblem.of(client, merged, dictionary), start.on(merged), rng)
    if not np.isfinite(b).all():
        raise NonFiniteUpdate(
            f"client {client.client_id} has no finite minimiser on {len(merged)} coefficients"
        )
    return SparseModel(merged, b, start.shape)


_BY_NAME: dict[str, Solver] = {"exact": Exact(), "damped": GradientDescent(steps=1)}


def solver_for(loss: Loss) -> Solver:
    """The solver that FedGradMP takes where none is named; ``loss.local_solver`` has to be ``"exact"`` or ``"damped"``.

    Damped is `GradientDescent(steps=1)`, one step in each local iteration: with a line search it lowers f_i or stays,
    and it needs no learning rate. `Exact` and `Newton` run away wherever a site can separate its rows on 3 tau atoms;
    more steps gain where rows are many and lose where they are few: benchmarks/README.md has what was measured.
    """
    return _BY_NAME[check_option(f"local_solver of {loss!r}", loss.local_solver, tuple(_BY_NAME))]
