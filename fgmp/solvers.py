"""Solvers: b = argmin f_i(x) over the span of the merged atoms, exactly or nearly.

In each local iteration a client merges 2 tau atoms of the gradient with those of its model, and
minimises its objective f_i over signals that are combinations of the merged atoms.
`RestrictedProblem` is this problem, of a few coefficients, and a `Solver` minimises it: `Exact`, by
least squares (Algorithm 1); `SGD`, by a number of steps without a guarantee of the accuracy delta
of Algorithm 2 (paper, Section V-B); `GradientDescent` with a line search, and `Newton`, which reach
a given delta. To follow Algorithm 1 with the squared loss read up to `solver_for`; for other losses
the default is one step of `GradientDescent`. (In formulas B' is the transpose of B, and l' and l''
are derivatives.)

If atoms are not orthonormal, a gradient in their coefficients depends on the angles between them.
`GradientDescent` and `Newton` therefore work with the signal, in orthonormal coordinates of the
span: gradients and distances are those of the signal, as in the paper, whatever atoms span it.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ._support.linear_algebra import (
    block_hessian,
    inner,
    least_squares,
    length_of,
    orthonormal_combinations,
    power_of_two_scale,
    regularize_null_directions,
    solve_semidefinite,
)
from ._support.validation import (
    check_kind,
    check_option,
    validate_integer_field,
    validate_number_field,
)
from ._support.warnings import convergence_warning
from .data import Client, draw_minibatches
from .dictionaries import Atoms
from .losses import Expansion, Loss
from .sparse_model import Array, IndexArray, NonFiniteUpdate, SparseModel

# The most steps of a solver that has an accuracy, and no number of steps.
_LIMIT = 10_000

# The most halvings of a step in a line search: after these it is below rounding in float64.
_MOST_HALVINGS = 60

# A step has to reach this share of the decrease that the slope promises (Armijo's rule).
_SUFFICIENT_DECREASE = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedProblem:
    """The objective of a client as a function h of the coefficients alpha of the k merged atoms.

    With the matrix B, which has the columns of A_i Psi on the merged atoms and maps alpha to the
    predictions z = B alpha of the m rows,

        h(alpha) = (1/m) sum_j l(z_j, y_j),    grad h(alpha) = B' l'(z, y) / m,

    or m times these for a loss that is a sum.

    Parameters
    ----------
    columns : ndarray, shape (m, n_columns)
        Columns of A_i Psi: the merged atoms if there is one output. With several outputs these are
        the atoms that some output uses, or all atoms if that is not many more.
    targets : ndarray, shape (m,)
    loss : Loss
    dictionary : Atoms
    merged : ndarray of int, shape (k,)
        Positions of the coefficients in a flattened model (see `SparseModel`).
    indices : ndarray of int, shape (k,)
        Positions of the same coefficients in the flattened matrix, of shape
        (n_columns, n_outputs), with which `columns` is multiplied: 0, ..., k-1 if there is one
        output.
    n_outputs : int

    Examples
    --------
    The problem of a client on the features 0 and 2:

    >>> import fgmp
    >>> import numpy as np
    >>> client = fgmp.Client(np.eye(3), np.array([5.0, 0.0, 7.0]), fgmp.SquaredLoss())
    >>> problem = fgmp.RestrictedProblem.of(client, np.array([0, 2]), fgmp.StandardBasis())
    >>> problem.columns.shape, problem.value(problem.predictions(np.array([5.0, 7.0])))
    ((3, 2), 0.0)
    """

    columns: Array
    targets: Array
    loss: Loss
    dictionary: Atoms
    merged: IndexArray
    indices: IndexArray
    n_outputs: int

    @classmethod
    def of(cls, client: Client, merged: IndexArray, dictionary: Atoms) -> Self:
        """Return the problem of a client, whose features are A_i Psi, on merged positions."""
        n_outputs = client.loss.n_outputs
        if n_outputs == 1:
            columns = client.columns(merged)
            indices = np.arange(len(merged))
        else:
            used_atoms, used_index = np.unique(merged // n_outputs, return_inverse=True)
            is_dense = isinstance(client.features, np.ndarray)
            if is_dense and 2 * len(used_atoms) >= client.n_features:
                # Copying most of the columns takes longer than multiplying all of them.
                columns = client.features
                indices = merged
            else:
                columns = client.columns(used_atoms)
                indices = used_index * n_outputs + merged % n_outputs
        return cls(columns, client.targets, client.loss, dictionary, merged, indices, n_outputs)

    def on_rows(self, batch: IndexArray | None) -> Self:
        """Return the problem of a minibatch, given the indices of its rows; None is all rows."""
        if batch is None:
            return self
        return replace(self, columns=self.columns[batch], targets=self.targets[batch])

    def in_precision(self, dtype: np.dtype[Any]) -> Self:
        """Return the problem with columns and real targets of a precision."""
        if self.columns.dtype == dtype:
            return self
        targets = self.targets
        if targets.dtype.kind == "f":
            targets = targets.astype(dtype)
        return replace(self, columns=self.columns.astype(dtype), targets=targets)

    def predictions(self, alpha: Array) -> Array:
        """Return B alpha; if there are several outputs, with one contiguous column for each."""
        factor = alpha
        if self.n_outputs > 1:
            factor = np.zeros((self.columns.shape[1], self.n_outputs), self.columns.dtype)
            factor.reshape(-1)[self.indices] = alpha
        return (factor.T @ self.columns.T).T

    def pull_back(self, derivative: Array) -> Array:
        """Return B' times numbers of the shape of the predictions."""
        product: Array = self.columns.T @ derivative
        if self.n_outputs > 1:
            product = product.reshape(-1)[self.indices]
        return product

    @property
    def row_weight(self) -> float:
        """The weight of each row in h: 1/m, or 1 for a loss that is a sum."""
        return self.loss.row_weight(len(self.targets))

    def value(self, predictions: Array) -> float:
        """Return h, given the predictions."""
        return float(np.sum(self.loss.values(predictions, self.targets)) * self.row_weight)

    def gradient(self, predictions: Array) -> Array:
        """Return grad h, given the predictions."""
        derivative = self.loss.derivative(predictions, self.targets)
        return self.pull_back(derivative * self.row_weight)


class Solver(ABC):
    """Base of the solvers of a client: what FedGradMP asks of them.

    Examples
    --------
    A solver that adds a ridge penalty:

    >>> import fgmp
    >>> import numpy as np
    >>> class Ridge(fgmp.Solver):
    ...     def minimise(self, problem, start, rng):
    ...         B = problem.columns
    ...         y = problem.targets
    ...         return np.linalg.solve(B.T @ B + np.eye(B.shape[1]), B.T @ y)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3, solver=Ridge()), federation, rounds=5, rng=0)
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """

    is_exact: bool = False
    """Whether the solver returns a minimiser. If so, a run warns of clients that have fewer rows
    than merged atoms, because a minimiser fits their noise."""

    @abstractmethod
    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Return coefficients of the merged atoms that minimise the problem, or nearly so.

        Parameters
        ----------
        problem : RestrictedProblem
        start : ndarray, shape (k,)
            The coefficients of the client's model on the merged atoms.
        rng : Generator
            The random numbers of the client in this round.

        Returns
        -------
        ndarray, shape (k,)
            They are converted to the precision of `start`.
        """


def check_solver(solver: object) -> None:
    """Raise a ValueError for anything that is not a solver of a client."""
    expected = "a client's solver: Exact(), GradientDescent(...), Newton(...) or SGD(...)"
    check_kind("solver", solver, Solver, expected)


@dataclass(frozen=True)
class Exact(Solver):
    """Return the minimiser, as Algorithm 1 does; for the squared loss to machine precision.

    For the squared loss it is the least-squares solution, argmin ||B b - y||_2; if there are
    several, the one whose signal has the smallest norm. Other losses are minimised by at most 100
    steps of Newton's method, which ends when nothing is left to gain. If a model separates the
    labels, a logistic loss has no minimiser: the coefficients are then finite, but as large as
    these steps make them.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> client = fgmp.Client(np.diag([1.0, 2.0]), np.array([3.0, 4.0]), fgmp.SquaredLoss())
    >>> problem = fgmp.RestrictedProblem.of(client, np.arange(2), fgmp.StandardBasis())
    >>> fgmp.Exact().minimise(problem, np.zeros(2), np.random.default_rng(0)).round(9).tolist()
    [3.0, 2.0]
    """

    is_exact = True

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Return the minimiser. `start` matters only if the loss needs iterations."""
        if not problem.loss.is_quadratic:
            return _MANY_NEWTON_STEPS.minimise(problem, start, rng)

        # If columns are dependent, there are several solutions. The one with the shortest signal is
        # taken, which needs the metric of the atoms.
        metric = None
        if not problem.dictionary.is_orthonormal:
            metric = problem.dictionary.gram_block(problem.merged)
        return least_squares(problem.columns, problem.targets, metric)


@dataclass(frozen=True)
class SGD(Solver):
    """Run stochastic gradient descent on the rows of a client.

    Parameters
    ----------
    learning_rate : float
        A step on all rows decreases f_i if it is below 2 / L, with L the largest curvature of f_i
        on the merged atoms. If the loss is a sum, the gradient of a step is the sum over its rows.
    steps : int, default 2
        The number of steps. The paper uses 2 for the digits (Section V-B).
    batch_size : int or None
        Rows per step, drawn without replacement; not the minibatch of the gradient, which is
        `FedGradMP.batch_size`. None is all rows, plain gradient descent.

    Notes
    -----
    A step is alpha <- alpha - learning_rate * grad h_j(alpha), with h_j the problem on minibatch j.
    In the standard basis and for other orthonormal atoms this is a step on the signal itself. For
    atoms that are not orthonormal it is another step than that on the signal, and the paper does
    not say which one it takes. To orthonormalise them would cost more than the step.

    Examples
    --------
    Clients with little time take two steps, on ten rows each:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> solver = fgmp.SGD(learning_rate=0.1, steps=2, batch_size=10)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3, solver=solver), federation, rounds=20, rng=0)
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """

    learning_rate: float
    steps: int = 2
    batch_size: int | None = None

    def __post_init__(self) -> None:
        validate_number_field(self, "learning_rate", above=0)
        validate_integer_field(self, "steps")
        validate_integer_field(self, "batch_size", optional=True)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Return the coefficients after the last step."""
        learning_rate = float(self.learning_rate)  # a NumPy float64 would widen float32
        alpha = start
        for batch in draw_minibatches(rng, len(problem.targets), self.batch_size, self.steps):
            part = problem.on_rows(batch)
            alpha = alpha - learning_rate * part.gradient(part.predictions(alpha))
        return alpha


def minimise_on(
    merged: IndexArray,
    client: Client,
    dictionary: Atoms,
    solver: Solver,
    start: SparseModel,
    rng: np.random.Generator,
) -> SparseModel:
    """Return b = argmin f_i(x) over x in the span of the merged atoms, as the solver finds it.

    Parameters
    ----------
    merged : ndarray of int, shape (k,)
        Increasing positions in the flattened coefficients (see `SparseModel`).
    client : Client
        With features A_i Psi.
    dictionary : Atoms
    solver : Solver
    start : SparseModel
        The model of the client before this local iteration.
    rng : Generator

    Raises
    ------
    NonFiniteUpdate
        If b is not finite: pruning might silently drop NaN, or everything else.
    """
    if not len(merged):
        return SparseModel.zero(start.shape, start.values.dtype)

    problem = RestrictedProblem.of(client, merged, dictionary)
    b = solver.minimise(problem, start.on(merged), rng)
    if not np.isfinite(b).all():
        raise NonFiniteUpdate(
            f"client {client.client_id} has no finite minimiser on {len(merged)} coefficients"
        )
    return SparseModel(merged, b.astype(start.values.dtype, copy=False), start.shape)


def solver_for(loss: Loss) -> Solver:
    """Return the solver that FedGradMP takes by default, which ``loss.local_solver`` names.

    ``"exact"`` is `Exact()`. ``"one_step"`` is `GradientDescent(steps=1)`, one step in each local
    iteration: with a line search it decreases f_i or stays, and it needs no learning rate. If a
    client can separate its rows on 3 tau atoms there is no minimiser, and `Exact` and `Newton`
    return coefficients as large as their steps make them. More steps help if clients have many
    rows, and harm if they have few: benchmarks/README.md has the measurements.
    """
    check_option(f"local_solver of {loss!r}", loss.local_solver, ("exact", "one_step"))
    return Exact() if loss.local_solver == "exact" else _ONE_STEP


class LineSearchStep(NamedTuple):
    """How far to go along a direction d, and the predictions and their expansion there."""

    length: float
    predictions: Array
    expansion: Expansion


@dataclass(frozen=True, eq=False, repr=False)
class SecondOrderProblem(RestrictedProblem):
    """A restricted problem in coordinates of its span, with its second derivatives.

    h is a function of q coordinates u. At first these are the coefficients alpha of the merged
    atoms, and B has the columns of A_i Psi on them. After `orthonormalised` they are coordinates of
    the signal in an orthonormal basis Q of the span of these atoms: with combinations of the atoms
    Q = Psi V, alpha = V u and B = A_i Q.

    Parameters
    ----------
    columns, targets, loss, dictionary, merged, indices, n_outputs
        As in `RestrictedProblem`.
    to_coefficients, to_coordinates : ndarray, shapes (k, q) and (q, k), or None
        The matrix V from coordinates to coefficients, and that back. None stands for the identity.
    """

    to_coefficients: Array | None = None
    to_coordinates: Array | None = None

    @classmethod
    def of_problem(cls, problem: RestrictedProblem) -> Self:
        """Return a restricted problem of coefficients with its second derivatives."""
        return cls(**vars(problem))

    def orthonormalised(self) -> Self:
        """Return the same problem in orthonormal coordinates of the span.

        Each output has coordinates of the span of its own atoms.
        """
        if self.dictionary.is_orthonormal:
            return self

        atoms, outputs = np.divmod(self.merged, self.n_outputs)
        is_same_output = outputs[:, None] == outputs
        gram = self.dictionary.gram_block(atoms) * is_same_output
        identity = np.eye(len(gram))
        blocks = []
        for output in range(self.n_outputs):
            is_own = outputs == output
            combinations = orthonormal_combinations(gram[np.ix_(is_own, is_own)])
            blocks.append(identity[:, is_own] @ combinations)

        # The columns of Q = Psi V are orthonormal, so the coordinates of Psi alpha are V' G alpha.
        to_coefficients = np.hstack(blocks)
        to_coordinates = to_coefficients.T @ gram
        dtype = self.columns.dtype
        return replace(
            self,
            to_coefficients=np.asarray(to_coefficients, dtype),
            to_coordinates=np.asarray(to_coordinates, dtype),
        )

    def coefficients(self, u: Array) -> Array:
        """Return the coefficients alpha of the merged atoms."""
        return u if self.to_coefficients is None else self.to_coefficients @ u

    def coordinates(self, coefficients: Array) -> Array:
        """Return the coordinates of coefficients of the merged atoms."""
        return coefficients if self.to_coordinates is None else self.to_coordinates @ coefficients

    @property
    def n_coordinates(self) -> int:
        """q, the number of coordinates."""
        return len(self.merged if self.to_coordinates is None else self.to_coordinates)

    def predictions(self, u: Array) -> Array:
        """Return B u; if there are several outputs, with one contiguous column for each."""
        return super().predictions(self.coefficients(u))

    def pull_back(self, derivative: Array) -> Array:
        """Return B' times numbers of the shape of the predictions."""
        product = super().pull_back(derivative)
        return product if self.to_coefficients is None else self.to_coefficients.T @ product

    def expansion(self, predictions: Array) -> Expansion:
        """Return the loss of the rows to second order, given the predictions."""
        return self.loss.expansion(predictions, self.targets)

    def hessian(self, predictions: Array) -> Array:
        """Return the Hessian of h, given the predictions."""
        return self.hessian_of(self.expansion(predictions))

    def hessian_of(self, expansion: Expansion) -> Array:
        """Return the Hessian of h, given the expansion at the predictions.

        Its blocks are B_c' diag(l''_cd) B_d / m, with B_c the columns of output c, and l''_cd the
        derivative of entry c of l' in the prediction of output d.
        """
        atoms, outputs = np.divmod(self.indices, self.n_outputs)

        def curvature(output: int) -> Array:
            direction = np.zeros_like(expansion.derivative).reshape(len(self.targets), -1)
            direction[:, output] = self.row_weight
            product = expansion.curvature(direction.reshape(expansion.derivative.shape))
            return product.reshape(direction.shape)

        hessian = block_hessian(self.columns, atoms, outputs, self.n_outputs, curvature)
        hessian = self._coupled(hessian, expansion.coupling)
        if self.to_coefficients is None:
            return hessian
        return self.to_coefficients.T @ hessian @ self.to_coefficients

    def _coupled(self, hessian: Array, coupling: Array | None) -> Array:
        """Return a Hessian in coefficients minus B'F F'B / m, if the loss couples rows."""
        if coupling is None:
            return hessian
        in_coefficients = super().pull_back
        pulled = [in_coefficients(F) for F in np.moveaxis(coupling, -1, 0)]
        across = np.sqrt(self.row_weight) * np.stack(pulled, axis=1)
        return hessian - across @ across.T

    @property
    def shifts(self) -> Array:
        """Orthonormal directions of u that do not change h, because they shift all outputs alike.

        They are the columns of an array of shape (n_coordinates, n_shifts). It has no column unless
        the loss is shift invariant, as the softmax loss is. A shift gives an atom the same
        coefficient for all outputs. In orthonormal coordinates the signal of output c is Q_c u_c,
        and a shift makes these signals equal. Such u are those with the largest
        || sum_c Q_c u_c ||^2, which is C ||u||^2 for C outputs.
        """
        if not self.loss.is_shift_invariant:
            return np.zeros((self.n_coordinates, 0))

        atoms = self.merged // self.n_outputs
        if self.to_coefficients is None:
            distinct_atoms, count = np.unique(atoms, return_counts=True)
            common_atoms = distinct_atoms[count == self.n_outputs]
            return (atoms[:, None] == common_atoms) / np.sqrt(self.n_outputs)

        gram = self.dictionary.gram_block(atoms)
        energies, directions = np.linalg.eigh(self.to_coefficients.T @ gram @ self.to_coefficients)
        return directions[:, energies >= (1 - 1e-9) * self.n_outputs]

    @cached_property
    def largest_slope(self) -> float:
        """A bound on the change of a row's predictions by u of length one.

        It is attained if there is one output.
        """
        B = self.columns[:, self.indices // self.n_outputs]
        if self.to_coefficients is not None:
            B = B @ self.to_coefficients
        return float(np.linalg.norm(B, axis=1).max(initial=0.0))

    @cached_property
    def column_norms(self) -> Array:
        """The norm of the column of each coefficient."""
        norms: Array = np.linalg.norm(self.columns, axis=0)
        return norms[self.indices // self.n_outputs]

    def line_search(
        self, expansion: Expansion, predictions: Array, gradient: Array, direction: Array
    ) -> LineSearchStep:
        """Return how far to go along a direction d, and what the next step starts from.

        The expansion and the gradient are those at the predictions.

        The length s is the minimiser of the quadratic model of h along d,

            s = -grad h(u)' d / ((B d)' l''(B u, y) (B d) / m),

        which for the squared loss is the exact line search. If the loss couples rows, its coupling
        lowers the curvature (`Expansion`). The length is halved until
        h(u + s d) <= h(u) + 1e-4 s grad h(u)' d (Armijo's rule), which the squared loss never
        needs. It is 0 if h does not decrease along d, up to rounding, if l'' is zero along d, or if
        no step decreases h.
        """
        weight = self.row_weight
        no_step = LineSearchStep(0.0, predictions, expansion)
        image = self.predictions(direction)
        slope = inner(gradient, direction)
        second_derivative = inner(image, expansion.curvature(image)) * weight
        if expansion.coupling is not None:
            across = expansion.coupling.reshape(image.size, -1).T @ image.reshape(-1)
            second_derivative -= inner(across, across) * weight
        derivative = expansion.derivative * weight
        if second_derivative <= 0 or not slope < -self._rounding_of_slope(derivative, direction):
            return no_step

        precision = float(np.finfo(derivative.dtype).eps)
        value = float(np.sum(expansion.values) * weight)
        tolerance = 16 * precision * abs(value)
        length = -slope / second_derivative
        for _ in range(_MOST_HALVINGS):
            largest_value = value + _SUFFICIENT_DECREASE * length * slope + tolerance
            new_predictions = predictions + length * image
            new_expansion = self.expansion(new_predictions)
            if float(np.sum(new_expansion.values) * weight) <= largest_value:
                return LineSearchStep(length, new_predictions, new_expansion)
            length /= 2
        return no_step

    def _rounding_of_slope(self, derivative: Array, direction: Array) -> float:
        """Return a bound on the rounding error of grad h' d, in any units of the columns.

        The slope is the sum over the rows of products of the derivative and the image of d, which
        is itself a sum over columns of size ``terms``.
        """
        precision = float(np.finfo(derivative.dtype).eps)
        terms = self.column_norms * self.coefficients(direction)
        n_roundings: float = (16 + len(derivative)) ** 0.5
        return precision * n_roundings * length_of(derivative) * length_of(terms)

    def is_converged(self, accuracy: float, predictions: Array, gradient: Array) -> bool:
        """Return whether u is within `accuracy` of a minimiser, up to rounding.

        With the smallest positive eigenvalue mu of the Hessian at u and a bound rho on how fast the
        curvature changes, the condition is

            ||grad h(u)|| <= mu (1 - exp(-rho accuracy)) / rho,    or mu accuracy if rho = 0.

        rho is 0 for the squared loss, and else `Loss.self_concordance` times the largest slope of a
        prediction. At a minimiser u + v the gradient is zero. Along v the curvature is at least
        exp(-rho t ||v||) times that at u (F. Bach, Self-concordant analysis for logistic
        regression, 2010, Proposition 1), so that ||grad h(u)|| >= mu (1 - exp(-rho ||v||)) / rho.
        There is a minimiser, because the slope of h in every direction exceeds zero far out if
        ||grad h(u)|| < mu / rho; rows that can be separated leave none. A loss of unknown
        self-concordance has rho = 0, and is judged as if its Hessian were constant.

        In directions without curvature, up to rounding, every point minimises the squared loss. Far
        out, where a loss is flat, the curvature also vanishes in directions in which it was
        positive at u = 0, and then nothing is certain.
        """
        eigenvalues = _positive(np.linalg.eigvalsh(self.hessian(predictions)))
        smallest = float(eigenvalues[0]) if eigenvalues.size else np.inf
        change_rate = self.loss.self_concordance * self.largest_slope
        reach = accuracy
        if change_rate > 0:
            reach = -math.expm1(-change_rate * accuracy) / change_rate
        if not length_of(gradient) <= reach * smallest:
            return False
        if self.loss.is_quadratic:
            return True

        at_zero = np.zeros_like(predictions)
        eigenvalues_at_zero = _positive(np.linalg.eigvalsh(self.hessian(at_zero)))
        return len(eigenvalues) >= len(eigenvalues_at_zero)


def _positive(eigenvalues: Array) -> Array:
    """Return the eigenvalues, given in increasing order, above the rounding of the largest."""
    rounding = len(eigenvalues) * np.finfo(eigenvalues.dtype).eps * eigenvalues[-1]
    return eigenvalues[eigenvalues > rounding]


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Run gradient descent with a line search: given an accuracy, as Algorithm 2 asks.

    Parameters
    ----------
    steps : int or None
        The number of steps. None sets no limit except 10,000.
    accuracy : float or None
        delta of Algorithm 2: stop once ||b - b_opt||_2 <= delta is certain, up to rounding. (A loss
        of your own has to define `self_concordance` for this.) None never checks, which saves an
        eigenvalue problem in each step.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning, or RuntimeWarning if scikit-learn is not installed
        If `accuracy` without `steps` was not reached: after 10,000 steps, or because no step
        decreases the objective by more than rounding.

    Notes
    -----
    A step is u <- u + s d with d = -grad h(u) and the length s from
    `SecondOrderProblem.line_search`. It costs two products with the m x k columns, B d and B' l',
    because the predictions B u are updated with B d.

    Examples
    --------
    With an accuracy delta, Algorithm 2 ends within a multiple of delta of the truth:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_features=30, sparsity=2, heterogeneity=0, rng=0)
    >>> method = fgmp.FedGradMP(sparsity=2, solver=fgmp.GradientDescent(accuracy=1e-4))
    >>> result = fgmp.simulate(method, federation, rounds=10, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-3)
    True
    """

    steps: int | None = None
    accuracy: float | None = None

    _advice = "a larger accuracy, or Newton, which needs fewer steps"

    def __post_init__(self) -> None:
        if self.steps is None and self.accuracy is None:
            raise ValueError("steps and accuracy are both None; expected at least one of them")
        validate_integer_field(self, "steps", optional=True)
        validate_number_field(self, "accuracy", optional=True, above=0)

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Return the coefficients after the last step."""
        in_span = SecondOrderProblem.of_problem(problem).orthonormalised()
        u = in_span.coordinates(start)
        predictions = in_span.predictions(u)
        expansion = in_span.expansion(predictions)
        is_certain = False

        for _ in range(_LIMIT if self.steps is None else self.steps):
            gradient = in_span.pull_back(expansion.derivative * in_span.row_weight)
            if self.accuracy is not None:
                is_certain = in_span.is_converged(float(self.accuracy), predictions, gradient)
                if is_certain:
                    break

            direction = self._direction(in_span, expansion, gradient)
            length, predictions, expansion = in_span.line_search(
                expansion, predictions, gradient, direction
            )
            if length == 0:
                break
            u = u + length * direction

        if self.steps is None and not is_certain:
            self._warn_of_accuracy(len(u), len(in_span.targets))
        return in_span.coefficients(u)

    def _direction(
        self, problem: SecondOrderProblem, expansion: Expansion, gradient: Array
    ) -> Array:
        """Return -grad h(u), times a power of two so that squares neither overflow nor vanish."""
        return -gradient * power_of_two_scale(gradient)

    def _warn_of_accuracy(self, n_coordinates: int, n_rows: int) -> None:
        warnings.warn(
            f"{type(self).__name__} stopped before accuracy={self.accuracy:g} was certain, "
            f"on a restricted problem of {n_coordinates} coordinates and {n_rows} rows; "
            f"try {self._advice}",
            convergence_warning(),
            stacklevel=3,
        )


@dataclass(frozen=True)
class Newton(GradientDescent):
    """Run Newton's method with a line search; one step is exact for the squared loss.

    A step is u <- u + s d with d = -H^+ grad h(u), where H is the Hessian of h. A singular Hessian
    is inverted on its range. Everything is computed in float64, whatever the precision of the data,
    because a Hessian of float32 is too inaccurate to divide by. The parameters, the warning and the
    line search are those of `GradientDescent`.

    Examples
    --------
    Three of four equal rows have the label +1, so that the minimiser is log 3:

    >>> import fgmp
    >>> import numpy as np
    >>> labels = np.array([1.0, 1.0, 1.0, -1.0])
    >>> client = fgmp.Client(np.ones((4, 1)), labels, fgmp.LogisticLoss())
    >>> problem = fgmp.RestrictedProblem.of(client, np.array([0]), fgmp.StandardBasis())
    >>> b = fgmp.Newton(steps=6).minimise(problem, np.zeros(1), np.random.default_rng(0))
    >>> bool(abs(b[0] - np.log(3)) < 1e-9)
    True
    """

    _advice = "a larger accuracy"

    def minimise(self, problem: RestrictedProblem, start: Array, rng: np.random.Generator) -> Array:
        """Return the coefficients after the last step, in the precision of `start`."""
        in_float64 = problem.in_precision(np.dtype(np.float64))
        b = super().minimise(in_float64, start.astype(np.float64), rng)
        return b.astype(start.dtype, copy=False)

    def _direction(
        self, problem: SecondOrderProblem, expansion: Expansion, gradient: Array
    ) -> Array:
        """Return -H^+ grad h(u), without a part along shifts, which do not change h."""
        hessian, gradient = regularize_null_directions(
            problem.hessian_of(expansion), gradient, problem.shifts
        )
        return -solve_semidefinite(hessian, gradient)


# What `Exact` and `solver_for` take for losses that are not quadratic.
_MANY_NEWTON_STEPS = Newton(steps=100)
_ONE_STEP = GradientDescent(steps=1)
