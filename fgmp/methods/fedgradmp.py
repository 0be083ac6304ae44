"""Federated gradient matching pursuit: Algorithms 1 and 2 of Jeong, Needell and Qin (2024).

`FedGradMP.refine` is the client's loop and `aggregate` the server's step, line by line as in the pseudo-code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..advice import check_batches, check_rows
from ..checks import settle_integer, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Client
from ..local.defaults import solver_for
from ..local.solvers import Exact, Solver, check_solver, minimise_on
from ..models import Array, Message, SparseModel, average, union
from ..selection import PER_OUTPUT, Selection, check_selection
from ..shapes import Shaped
from .answers import check_sparse_model
from .combination import MEAN, Combination, Mean, check_combination
from .contract import Exchange, Reply, Sum, is_declared
from .in_dictionary import InDictionary

__all__ = ["FedGradMP"]


@dataclass(frozen=True)
class FedGradMP(InDictionary):
    """Federated gradient matching pursuit (paper, Algorithms 1 and 2).

    In each round every client of the cohort runs `local_iterations` of stochastic gradient matching pursuit from the
    broadcast model, the server averages what comes back and projects the average onto `sparsity` atoms. With the
    squared loss and the defaults of `solver` and `radius` this is Algorithm 1. With one client it is StoGradMP, and
    with one client and the full batch GradMP, which for the squared loss in the standard basis is CoSaMP.

    Parameters
    ----------
    sparsity : int
        tau, the number of atoms of the model: from 1 to the number of atoms of the dictionary. For a loss with several
        outputs (softmax), of each output's column of the model; `selection` can make it something else.
    local_iterations : int, default 3
        K, the iterations of a client in one round.
    batch_size : int or None
        b, the rows of a minibatch, drawn without replacement; None is the full batch, and so is b where a client has
        fewer rows.
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    solver : Solver or None
        How a client minimises f_i over the span of the merged atoms: `Exact` (Algorithm 1), or `GradientDescent`,
        `SGD`, `SVRG`, `ConjugateGradient`, `Newton` (Algorithm 2). None is what the loss asks for: exact for the
        squared loss, a damped step of gradient descent for the logistic and the softmax loss, which have no minimiser
        where a client's rows can be separated (`fgmp.local.defaults` has what was measured).
    radius : float or None
        R: clients and server project onto the ball ||x||_2 <= R (Algorithm 2, optional step); None is no ball.
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.
    combination : Combination
        What the server makes of the answers before it keeps tau atoms: `Mean` by default, as in the paper; `Median` and
        `TrimmedMean` bear clients that lie.

    Raises
    ------
    ValueError
        Where a parameter is out of its range; `check` adds the ranges that depend on the federation.

    Warns
    -----
    FewRowsWarning
        In a run, where clients solve exactly and some have no more rows than 3 tau and the atoms that always stay.
    SmallSiteWarning
        In a run, where some have fewer rows than a minibatch.

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

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> method = fgmp.FedGradMP(sparsity=4, local_iterations=2, batch_size=50)
    >>> result = fgmp.simulate(method, federation, rounds=10, cohort_size=3, rng=0)
    >>> len(result.support), bool(result.history["relative_error"][-1] < 1e-12)
    (4, True)
    """

    sparsity: int
    local_iterations: int = 3
    batch_size: int | None = None
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    solver: Solver | None = None
    radius: float | None = None
    selection: Selection = PER_OUTPUT
    combination: Combination = MEAN
    additive = True

    def __post_init__(self) -> None:
        check_dictionary(self.dictionary)
        check_selection(self.selection)
        check_combination(self.combination)
        settle_integer(self, "sparsity")
        settle_integer(self, "local_iterations")
        settle_integer(self, "batch_size", optional=True)
        settle_number(self, "radius", optional=True, above=0)
        if self.solver is not None:
            check_solver(self.solver)

    def check(self, federation: Shaped) -> None:
        """Raise a ValueError where sparsity or batch size do not fit the federation; warn of clients with few rows."""
        shape, rows = self.shape(federation), federation.rows
        self.selection.check(self.sparsity, shape)
        check_batches(self.batch_size, rows)
        if isinstance(self.solver_for(federation), Exact):
            check_rows(min(3 * self.sparsity + len(self.selection.always), shape[0]), rows)

    def start(self, federation: Shaped) -> SparseModel:
        """x_0 = 0, with an empty support."""
        return SparseModel.zero(self.shape(federation), federation.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: broadcast x_t, refine it at the clients, aggregate."""
        is_mean = isinstance(self.combination, Mean) and is_declared(self, "aggregate")
        summed = Sum(self.total, self.laid_out, self.centre) if is_mean else None
        return (Exchange(self.broadcast, self.refine, self.aggregate, self.check_answer, summed),)

    def total(self, state: SparseModel, replies: list[Reply]) -> Message:
        """sum p_i x_i."""
        models = [SparseModel.from_message(reply.message, state.shape) for reply in replies]
        return average(models, [reply.weight for reply in replies]).message()

    def laid_out(self, state: SparseModel, message: Message) -> Message:
        """x_i, dense: clients choose different atoms, and only so do their models add up without anybody's choice."""
        return {"dense": SparseModel.from_message(message, state.shape).dense()}

    def centre(self, state: SparseModel, laid_out: Message) -> Message:
        """x_t."""
        return {"dense": state.dense()}

    def broadcast(self, state: SparseModel) -> Message:
        """x_t as indices and values."""
        return state.message()

    def refine(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """The loop over k of Algorithms 1 and 2 at one client."""
        dictionary, tau, solver = self.dictionary, self.sparsity, self.solver_for(client)
        x = SparseModel.from_message(message, client.model_shape)  # x_{t,1} = x_t and Lambda = supp(x_t)
        for rows in client.minibatches(rng, self.batch_size, self.local_iterations):
            r = client.gradient(x, rows)  # r = grad g_{i,j}(x)
            gamma = dictionary.approximate(r, 2 * tau, self.selection)  # Gamma = approx_{2 tau}(r)
            merged = union(gamma, x.support, r.size)  # Gamma-hat = Gamma u Lambda
            b = minimise_on(merged, client, dictionary, solver, x, rng)  # b = argmin f_i over R(A_Gamma-hat)
            if not np.isfinite(b.values).all():  # a selection would drop what is not a number, and hide a divergence
                return b.message()
            support = dictionary.approximate_model(b, tau, self.selection)  # Lambda = approx_tau(b)
            x = dictionary.project(b, support)  # x = P_Lambda b
            x = self.into_ball(x)  # x = Pi_R x, where there is a ball
        return x.message()

    def aggregate(self, state: SparseModel, replies: list[Reply]) -> SparseModel:
        """x_{t+1} = Pi_R P_{Lambda_s}(sum p_i x_i) with Lambda_s = approx_tau(sum p_i x_i)."""
        models = [_model_of(reply.message, state.shape) for reply in replies]
        mean = self.combination.models(models, [reply.weight for reply in replies])
        support = self.dictionary.approximate_model(mean, self.sparsity, self.selection)
        return self.into_ball(self.dictionary.project(mean, support))

    def solver_for(self, client: Client | Shaped) -> Solver:
        """How a client minimises: with `solver`, or as its loss asks for."""
        return solver_for(client.loss) if self.solver is None else self.solver

    def check_answer(self, state: SparseModel, message: Message) -> None:
        """A client answers with at most tau atoms (as `selection` counts)."""
        check_sparse_model(message, state.shape, state.values.dtype, self.sparsity, self.selection)

    def into_ball(self, x: SparseModel) -> SparseModel:
        """Pi_R x: the nearest point of the ball of radius R."""
        return self.dictionary.into_ball(x, self.radius)

    def coefficients(self, state: SparseModel) -> Array:
        """alpha, dense."""
        return state.dense()


def _model_of(message: Message, shape: tuple[int, ...]) -> SparseModel:
    """The model of a client's message, or of a sum that came dense."""
    return SparseModel.of(message["dense"]) if "dense" in message else SparseModel.from_message(message, shape)
