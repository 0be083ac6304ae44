"""Federated gradient matching pursuit: Algorithms 1 and 2 of Jeong, Needell and Qin (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from .answers import check_sparse_model
from .checks import settle_integer, settle_number
from .contract import Exchange, Reply
from .dictionaries import StandardBasis
from .fast_refine import refine_by_least_squares, refine_by_sgd
from .federation import Client, Federation
from .losses import SquaredLoss
from .models import Array, Message, SparseModel, average, union
from .solvers import SGD, Exact, Solver, minimise_on

__all__ = ["FedGradMP"]


@dataclass(frozen=True)
class FedGradMP:
    """Federated gradient matching pursuit (paper, Algorithms 1 and 2).

    In each round every client of the cohort runs `local_iterations` of stochastic gradient matching pursuit from the
    broadcast model, the server averages what comes back and projects the average onto `sparsity` atoms. With the
    defaults of `solver` and `radius` this is Algorithm 1. With one client it is StoGradMP, and with one client and
    the full batch GradMP, which for the squared loss in the standard basis is CoSaMP.

    Parameters
    ----------
    sparsity : int
        tau, the number of atoms of the model: from 1 to the number of atoms of the dictionary. For a loss with several
        outputs (softmax), of each output's column of the model; `joint` makes it of the whole model.
    local_iterations : int, default 3
        K, the iterations of a client in one round.
    batch_size : int or None
        b, the rows of a minibatch, drawn without replacement; None is the full batch.
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    solver : Solver
        How a client minimises f_i over the span of the merged atoms: `Exact` (Algorithm 1), or `GradientDescent`,
        `SGD`, `SVRG`, `ConjugateGradient`, `Newton` (Algorithm 2).
    radius : float or None
        R: clients and server project onto the ball ||x||_2 <= R (Algorithm 2, optional step); None is no ball.
    joint : bool, default False
        Whether `sparsity` counts the atoms of all outputs together; the same for losses with one output.

    Raises
    ------
    ValueError
        Where a parameter is out of its range; `check` adds the ranges that depend on the federation.

    Notes
    -----
    Where the pseudo-code is silent: every client starts a round with Lambda = supp(x_t), as the proof of Lemma 3
    needs; the weights p_i are scaled to sum to one over the cohort; a restricted problem without a unique minimiser
    gets the one of minimum norm.

    References
    ----------
    H. Jeong, D. Needell, J. Qin, Federated Gradient Matching Pursuit, IEEE Transactions on Information Theory 70(6),
    4512-4537, 2024.
    N. Nguyen, D. Needell, T. Woolf, Linear convergence of stochastic iterative greedy algorithms with sparse
    constraints, IEEE Transactions on Information Theory 63(11), 6869-6895, 2017 (GradMP and StoGradMP).
    """

    sparsity: int
    local_iterations: int = 3
    batch_size: int | None = None
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    solver: Solver = field(default_factory=Exact)
    radius: float | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        settle_integer(self, "sparsity")
        settle_integer(self, "local_iterations")
        settle_integer(self, "batch_size", optional=True)
        settle_number(self, "radius", optional=True, above=0)

    def check(self, federation: Federation) -> None:
        """Raise a ValueError where sparsity or batch size do not fit the federation."""
        federation.check_sparsity(self.sparsity, self.dictionary.n_atoms(federation.n_features), self.joint)
        federation.check_batch_size(self.batch_size)

    def prepare(self, client: Client) -> Client:
        """The client in coefficient space: B_i = A_i Psi."""
        return self.dictionary.prepare(client)

    def start(self, federation: Federation) -> SparseModel:
        """x_0 = 0, with an empty support."""
        n_atoms = self.dictionary.n_atoms(federation.n_features)
        return SparseModel.zero(federation.loss.model_shape(n_atoms), federation.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: broadcast x_t, refine it at the clients, aggregate."""
        return (Exchange(self.broadcast, self.refine, self.aggregate, self.check_answer),)

    def broadcast(self, state: SparseModel) -> Message:
        """x_t as indices and values."""
        return state.message()

    def refine(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """`refine_as_printed`, by a faster route to the same model where there is one."""
        x, solver = SparseModel.from_message(message, client.model_shape), self.solver
        minibatches = partial(client.minibatches, rng, self.batch_size, self.local_iterations)
        exact = isinstance(client.loss, SquaredLoss) and isinstance(solver, Exact) and self.radius is None
        if self.dictionary.orthonormal and exact:
            return refine_by_least_squares(client, x, minibatches(), self.sparsity).message()
        if self.dictionary.orthonormal and client.n_outputs > 1 and isinstance(solver, SGD) and solver.learning_rate:
            steps, rate = partial(solver.minibatches, client.n_samples, rng), solver.learning_rate
            many = refine_by_sgd(client, x, minibatches(), self.sparsity, self.joint, self.radius, steps, rate)
            return many.message()
        return self.refine_as_printed(client, message, rng)

    def refine_as_printed(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """The loop over k of Algorithms 1 and 2 at one client."""
        dictionary, tau = self.dictionary, self.sparsity
        x = SparseModel.from_message(message, client.model_shape)  # x_{t,1} = x_t and Lambda = supp(x_t)
        for rows in client.minibatches(rng, self.batch_size, self.local_iterations):
            r = client.gradient(x, rows)  # r = grad g_{i,j}(x)
            gamma = dictionary.approximate(r, 2 * tau, self.joint)  # Gamma = approx_{2 tau}(r)
            merged = union(gamma, x.support, r.size)  # Gamma-hat = Gamma u Lambda
            b = minimise_on(merged, client, dictionary, self.solver, x, rng)  # b = argmin f_i over R(A_Gamma-hat)
            if not np.isfinite(b.values).all():  # a selection would drop what is not a number, and hide a divergence
                return b.message()
            support = dictionary.approximate_model(b, tau, self.joint)  # Lambda = approx_tau(b)
            x = dictionary.project(b, support)  # x = P_Lambda b
            x = self.into_ball(x)  # x = Pi_R x, where there is a ball
        return x.message()

    def aggregate(self, state: SparseModel, replies: list[Reply]) -> SparseModel:
        """x_{t+1} = Pi_R P_{Lambda_s}(sum p_i x_i) with Lambda_s = approx_tau(sum p_i x_i)."""
        models = [SparseModel.from_message(reply.message, state.shape) for reply in replies]
        mean = average(models, [reply.weight for reply in replies])
        support = self.dictionary.approximate_model(mean, self.sparsity, self.joint)
        return self.into_ball(self.dictionary.project(mean, support))

    def check_answer(self, state: SparseModel, message: Message) -> None:
        """A client answers with at most tau atoms (of each output, unless `joint`)."""
        check_sparse_model(message, state.shape, state.values.dtype, self.sparsity, self.joint)

    def into_ball(self, x: SparseModel) -> SparseModel:
        """Pi_R x: the nearest point of the ball of radius R."""
        return self.dictionary.into_ball(x, self.radius)

    def coefficients(self, state: SparseModel) -> Array:
        """alpha, dense."""
        return state.dense()

    def estimate(self, state: SparseModel) -> Array:
        """X = Psi alpha."""
        return self.dictionary.synthesise(state.dense())
