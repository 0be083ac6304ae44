"""Solvers: b = argmin f_i(x) over the span of the merged atoms, exactly or nearly.

In each local iteration a client merges 2 tau atoms of the gradient with those of its model, and
minimises its objective f_i over signals that are combinations of the merged atoms.
`RestrictedProblem` is this problem, of a few coefficients, and a `Solver` minimises it: here
`Exact`, by least squares (Algorithm 1), and `SGD`, a number of steps without a guarantee of the
accuracy delta of Algorithm 2 (paper, Section V-B). `fgmp.descent` has gradient descent with a line
search and Newton's method, which reach a given delta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ._support.linear_algebra import least_squares
from ._support.validation import (
    check_kind,
    check_option,
    validate_integer_field,
    validate_number_field,
)
from .client import Client
from .dictionaries import Atoms
from .losses import Loss
from .sparse_model import Array, IndexArray, NonFiniteUpdate, SparseModel


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedProblem:
    """The objective of a client as a function h of the coefficients z of the k merged atoms.

    With the matrix B, which has the columns of A_i Psi on the merged atoms and maps z to
    predictions, and the weight w of a row, which is 1/m for a mean over m rows and 1 for a sum,

        h(z) = w sum_j l((B z)_j, y_j),    grad h(z) = w B' l'(B z, y).

    Parameters
    ----------
    columns : ndarray, shape (m, u)
        Columns of A_i Psi: the merged atoms if there is one output. With several outputs these are
        the atoms that some output uses, or all atoms if that is not many more.
    targets : ndarray, shape (m,)
    loss : Loss
    dictionary : Atoms
    merged : ndarray of int, shape (k,)
        Positions of the coefficients in a flattened model (see `SparseModel`).
    indices : ndarray of int, shape (k,)
        Their positions in the flattened matrix of shape (u, n_outputs) that `columns` multiplies.
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
        n_outputs = client.n_outputs
        if n_outputs == 1:
            columns = client.columns(merged)
            indices = np.arange(len(merged))
        else:
            used_atoms, used_index = np.unique(merged // n_outputs, return_inverse=True)
            is_dense = isinstance(client.features, np.ndarray)
            if is_dense and 2 * len(used_atoms) >= client.n_features:
                # To copy most of the columns would take longer than to multiply all of them.
                columns = client.features
                indices = merged
            else:
                columns = client.columns(used_atoms)
                indices = used_index * n_outputs + merged % n_outputs
        return cls(columns, client.targets, client.loss, dictionary, merged, indices, n_outputs)

    def on_rows(self, rows: IndexArray | None) -> Self:
        """Return the problem of some of the rows, or of all if `rows` is None."""
        if rows is None:
            return self
        return replace(self, columns=self.columns[rows], targets=self.targets[rows])

    def predictions(self, z: Array) -> Array:
        """Return B z; if there are several outputs, with one contiguous column for each."""
        factor = z
        if self.n_outputs > 1:
            factor = np.zeros((self.columns.shape[1], self.n_outputs), self.columns.dtype)
            factor.reshape(-1)[self.indices] = z
        return (factor.T @ self.columns.T).T

    def pull_back(self, derivative: Array) -> Array:
        """Return B' times numbers of the shape of the predictions."""
        product: Array = self.columns.T @ derivative
        if self.n_outputs > 1:
            product = product.reshape(-1)[self.indices]
        return product

    @property
    def row_weight(self) -> float:
        """The weight w of each row."""
        return self.loss.row_weight(len(self.targets))

    def value(self, predictions: Array) -> float:
        """Return h(z), given the predictions B z."""
        return float(np.sum(self.loss.values(predictions, self.targets)) * self.row_weight)

    def derivative(self, predictions: Array) -> Array:
        """Return w l'(B z, y), the derivative of h in the predictions."""
        return self.loss.derivative(predictions, self.targets) * self.row_weight

    def gradient(self, predictions: Array) -> Array:
        """Return grad h(z), given the predictions B z."""
        return self.pull_back(self.derivative(predictions))


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
    """Whether the solver returns a minimiser, which fits the noise of a client that has fewer rows
    than merged atoms. A run warns of such clients."""

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
        """


# Newton's method, with which `Exact` minimises losses that are not quadratic, and one step of
# gradient descent, which `solver_for` takes for them. `fgmp.descent`, which builds on this module,
# fills this while `fgmp` is imported: an import from here would be a circle.
ITERATIVE_SOLVERS: dict[str, Solver] = {}


def check_solver(solver: object) -> None:
    """Raise a ValueError for anything that is not a solver of a client."""
    expected = "a client's solver: Exact(), GradientDescent(...), Newton(...) or SGD(...)"
    check_kind("solver", solver, Solver, expected)


@dataclass(frozen=True)
class Exact(Solver):
    """Return the minimiser, as Algorithm 1 does; for the squared loss to machine precision.

    For the squared loss it is the least-squares solution, argmin ||B b - y||_2, of all minimisers
    the one whose signal has the smallest norm. Other losses are minimised by at most 100 steps of
    Newton's method, which ends when nothing is left to gain. Data that a logistic loss can separate
    have no minimiser: the coefficients are then finite, but as large as these steps make them.

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
            return ITERATIVE_SOLVERS["newton"].minimise(problem, start, rng)

        # Whether the solution is unique depends on the rank of the data on the merged atoms; if it
        # is not, the one whose signal is shortest is taken, in the metric of the atoms.
        metric = None
        if not problem.dictionary.orthonormal:
            metric = problem.dictionary.inner_products(problem.merged)
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
    These are the coefficients of the merged atoms: in the standard basis and for orthonormal atoms
    a step on the signal itself. In other atoms it differs from a step on the signal, and the paper
    does not say which it takes: to orthonormalise would cost more than the step.

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
        on_merged_atoms = Client(problem.columns, problem.targets, problem.loss)
        for rows in on_merged_atoms.minibatches(rng, self.batch_size, self.steps):
            batch = problem.on_rows(rows)
            alpha = alpha - learning_rate * batch.gradient(batch.predictions(alpha))
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
        If b is not finite: pruning might drop NaN, or all else, in silence.
    """
    if not len(merged):
        return SparseModel.zero(start.shape, start.values.dtype)

    problem = RestrictedProblem.of(client, merged, dictionary)
    b = solver.minimise(problem, start.on(merged), rng)
    if not np.isfinite(b).all():
        raise NonFiniteUpdate(
            f"client {client.client_id} has no finite minimiser on {len(merged)} coefficients"
        )
    return SparseModel(merged, b, start.shape)


def solver_for(loss: Loss) -> Solver:
    """Return the solver that FedGradMP takes by default, which ``loss.local_solver`` names.

    ``"exact"`` is `Exact()`. ``"one_step"`` is `GradientDescent(steps=1)`, one step in each local
    iteration: with a line search it decreases f_i or stays, and it needs no learning rate. If a
    client can separate its rows on 3 tau atoms there is no minimiser, and `Exact` and `Newton`
    return coefficients as large as their steps make them. More steps gain if rows are many and lose
    if they are few: benchmarks/README.md has the measurements.
    """
    check_option(f"local_solver of {loss!r}", loss.local_solver, ("exact", "one_step"))
    return Exact() if loss.local_solver == "exact" else ITERATIVE_SOLVERS["one_step"]
