"""SharedSupportGradMP: gradient matching pursuit in which the clients choose the support together (ours).

For clients that hold too few rows to find it alone. The solve on the support is a pooled solver's (`pooled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..checks import settle_integer, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Client, Federation
from ..models import Array, Message, SparseModel, average, union
from ..selection import PER_OUTPUT, Selection, check_selection
from .answers import check_sparse_model
from .contract import Exchange, Reply
from .in_dictionary import InDictionary
from .pooled import Point, PooledSolver, check_pooled_solver
from .pooled_least_squares import NormalEquations

__all__ = ["SharedSupportGradMP"]


class SharedState(NamedTuple):
    """x_t, and the point on the merged support while a round is under way."""

    model: SparseModel
    point: Point | None = None


@dataclass(frozen=True)
class SharedSupportGradMP(InDictionary):
    """Gradient matching pursuit with a shared support, for clients with fewer samples than 3 tau. Not in the paper.

    A round has a first exchange that finds the support and one or more that solve on it.

    1. Client i sends the `sent` largest entries of its gradient at x_t. The server adds them up with the weights,
       takes Gamma = approx_{2 tau} of the sum, and Gamma-hat = Gamma u supp(x_t).
    2. The clients send sums on Gamma-hat, from which the server finds b = argmin f over the span of its atoms
       (`solver` says how), and x_{t+1} = Pi_R P_Lambda b with Lambda = approx_tau(b).

    Where nothing is cut in the first exchange and the second is exact, this is GradMP on f = sum_i p_i f_i: only f,
    not each f_i, has to be convex on sparse vectors. In a dictionary whose atoms are not orthonormal, cut inner
    products are those of no signal, and approx_{2 tau} is as good as what was sent.

    Parameters
    ----------
    sparsity : int
        tau, as in `FedGradMP`.
    sent : int or None
        What a client sends of its gradient, counted as `selection` does: at least 1; None is 2 tau. The number of atoms
        cuts nothing.
    solver : PooledSolver
        How to minimise on the merged support: `NormalEquations` (squared loss, the default), `PooledConjugateGradient`
        (squared loss, large tau), `PooledNewton` or `LocalSteps` (any loss).
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    radius : float or None
        R, the radius of the ball; None is no ball.
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.

    Raises
    ------
    ValueError
        Where a parameter is out of its range; `check` adds what depends on the federation.

    References
    ----------
    N. Nguyen, D. Needell, T. Woolf, IEEE Transactions on Information Theory 63(11), 2017 (GradMP). Relatives with
    other problems or other messages: T. Wimalajeewa, P. Varshney, arXiv 1211.6719 (distributed orthogonal matching
    pursuit); D. Sundman, S. Chatterjee, M. Skoglund, Distributed greedy pursuit algorithms, Signal Processing 105,
    2014; arXiv 1709.07731 (distributed hard thresholding pursuit).

    Examples
    --------
    Each client has 8 rows, fewer than 3 tau = 9, and all of them together enough:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=20, n_samples=8, n_features=60, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.SharedSupportGradMP(sparsity=3), federation, rounds=10, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    """

    sparsity: int
    sent: int | None = None
    solver: PooledSolver = field(default_factory=NormalEquations)
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    radius: float | None = None
    selection: Selection = PER_OUTPUT

    def __post_init__(self) -> None:
        settle_integer(self, "sparsity")
        settle_integer(self, "sent", optional=True)
        settle_number(self, "radius", optional=True, above=0)
        check_pooled_solver(self.solver)
        check_dictionary(self.dictionary)
        check_selection(self.selection)

    def check(self, federation: Federation) -> None:
        """Raise a ValueError where the sparsity or `solver` do not fit the federation."""
        self.selection.check(self.sparsity, self.shape(federation))
        self.solver.check(federation)

    def start(self, federation: Federation) -> SharedState:
        """x_0 = 0, with an empty support."""
        return SharedState(SparseModel.zero(self.shape(federation), federation.dtype))

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange for the support, and those of `solver` on it."""
        inner = [_inside(exchange) for exchange in self.solver.exchanges(self.dictionary, self.radius)]
        last = inner[-1]
        pruned = last._replace(combine=lambda state, replies: self.prune(last.combine(state, replies)))
        first = Exchange(self.broadcast, self.largest_of_gradient, self.merge, self.check_gradient)
        return (first, *inner[:-1], pruned)

    def broadcast(self, state: SharedState) -> Message:
        """x_t as indices and values."""
        return state.model.message()

    def largest_of_gradient(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """The `sent` largest entries of grad f_i(x_t), measured in inner products with normalised atoms."""
        gradient = client.gradient(SparseModel.from_message(message, client.model_shape))
        chosen = self.selection.choose(self.dictionary.normalised(gradient), self._sent)
        return SparseModel(chosen, gradient.reshape(-1)[chosen], gradient.shape).message()

    def check_gradient(self, state: SharedState, message: Message) -> None:
        """A client answers with at most `sent` entries of a gradient (as `selection` counts)."""
        check_sparse_model(message, state.model.shape, state.model.values.dtype, self._sent, self.selection)

    @property
    def _sent(self) -> int:
        return 2 * self.sparsity if self.sent is None else self.sent

    def merge(self, state: SharedState, replies: list[Reply]) -> SharedState:
        """Gamma-hat = approx_{2 tau}(sum of gradients) u supp(x_t), and x_t as a point on it."""
        x = state.model
        gradients = [SparseModel.from_message(reply.message, x.shape) for reply in replies]
        r = average(gradients, [reply.weight for reply in replies]).dense()
        gamma = self.dictionary.approximate(r, 2 * self.sparsity, self.selection)
        gamma = gamma[r.reshape(-1)[gamma] != 0]  # where few entries were sent, the rest of Gamma is arbitrary
        merged = self.selection.with_always(union(gamma, x.support, r.size), r.shape)
        return SharedState(x, Point(SparseModel(merged, x.on(merged), x.shape)))

    def prune(self, state: SharedState) -> SharedState:
        """x_{t+1} = Pi_R P_Lambda b with Lambda = approx_tau(b)."""
        assert state.point is not None
        b = state.point.model
        support = self.dictionary.approximate_model(b, self.sparsity, self.selection)
        return SharedState(self.dictionary.into_ball(self.dictionary.project(b, support), self.radius))

    def coefficients(self, state: SharedState) -> Array:
        """alpha, dense: x_t, also while a round is under way."""
        return state.model.dense()


def _inside(exchange: Exchange) -> Exchange:
    """An exchange over points as one over the states of a round."""
    return Exchange(
        lambda state: exchange.broadcast(state.point),
        exchange.answer,
        lambda state, replies: state._replace(point=exchange.combine(state.point, replies)),
        lambda state, message: exchange.check(state.point, message),
    )
