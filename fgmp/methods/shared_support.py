"""SharedSupportGradMP: gradient matching pursuit in which the clients choose the support together (ours).

For clients that hold too few rows to find it alone. The solve on the support is a pooled solver's (`pooled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..checks import check_option, settle_integer, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Client
from ..models import Array, Message, SparseModel, union
from ..selection import PER_OUTPUT, Selection, check_selection
from ..shapes import Shaped
from .contract import Exchange, Reply, Sum
from .identification import CountSketch, Identification, Question, check_identification
from .in_dictionary import InDictionary
from .pooled import Point, PooledSolver, check_pooled_solver
from .pooled_least_squares import NormalEquations
from .pruning import eliminated

__all__ = ["SharedSupportGradMP"]


class SharedState(NamedTuple):
    """x_t, the point on the merged support while a round is under way, and the number of finished rounds."""

    model: SparseModel
    point: Point | None = None
    rounds: int = 0


@dataclass(frozen=True)
class SharedSupportGradMP(InDictionary):
    """Gradient matching pursuit with a shared support, for clients with fewer samples than 3 tau. Not in the paper.

    A round has a first exchange that finds the support and one or more that solve on it.

    1. Every client sends a random linear sketch of its gradient at x_t, the same for all (`identify` says which). The
       server adds them up with the weights, estimates the pooled gradient r from the sum, takes
       Gamma = approx_{2 tau}(r), and Gamma-hat = Gamma u supp(x_t).
    2. The clients send sums on Gamma-hat, from which the server finds b = argmin f over the span of its atoms
       (`solver` says how). Of its atoms, one after another goes whose loss raises f least, until tau are left
       (`pruning`), and x_{t+1} is the minimiser on these.

    The server needs sums over the clients and nothing else. With ``pruning="largest"``, nothing cut in the first
    exchange and an exact second, this is GradMP on f = sum_i p_i f_i. In either case only f, not each f_i, has to be
    convex on sparse vectors. GradMP can go round in circles: models of tau atoms that replace one another for ever.
    Elimination cannot where all clients take part in every round: atoms that raise f are not taken for those there are.

    Parameters
    ----------
    sparsity : int
        tau, as in `FedGradMP`.
    identify : CountSketch or LargestEntries
        What clients send of their gradients: `CountSketch` with its defaults by default.
    solver : PooledSolver
        How to minimise on the merged support: `NormalEquations` (squared loss, the default), `PooledConjugateGradient`
        (squared loss, large tau), `PooledNewton` or `LocalSteps` (any loss).
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    radius : float or None
        R, the radius of the ball; None is no ball.
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.
    pruning : {"elimination", "largest"}
        How tau atoms are chosen of those of b: by backward elimination, where the solver leaves a Hessian
        (`NormalEquations` and `PooledNewton` do), or, as in GradMP, x_{t+1} = P_Lambda b with Lambda = approx_tau(b).
    seed : int or None
        Of the sketches; None is the seed of the run.

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
    identify: Identification = field(default_factory=CountSketch)
    solver: PooledSolver = field(default_factory=NormalEquations)
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    radius: float | None = None
    selection: Selection = PER_OUTPUT
    pruning: str = "elimination"
    seed: int | None = None

    def __post_init__(self) -> None:
        settle_integer(self, "sparsity")
        settle_integer(self, "seed", optional=True, at_least=0)
        check_identification(self.identify)
        check_option("pruning", self.pruning, ("elimination", "largest"))
        settle_number(self, "radius", optional=True, above=0)
        check_pooled_solver(self.solver)
        check_dictionary(self.dictionary)
        check_selection(self.selection)

    def check(self, federation: Shaped) -> None:
        """Raise a ValueError where the sparsity, `identify` or `solver` do not fit the federation."""
        self.selection.check(self.sparsity, self.shape(federation))
        self.identify.check(self.sparsity, self.shape(federation))
        self.solver.check(federation)

    def seeded(self, seed: int) -> SharedSupportGradMP:
        """The method with the seed of a run for its sketches, unless it has one."""
        return self if self.seed is not None else replace(self, seed=seed)

    def start(self, federation: Shaped) -> SharedState:
        """x_0 = 0, with an empty support."""
        return SharedState(SparseModel.zero(self.shape(federation), federation.dtype))

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange for the support, and those of `solver` on it."""
        inner = [_inside(exchange) for exchange in self.solver.exchanges(self.dictionary, self.radius)]
        last = inner[-1]
        pruned = last._replace(combine=lambda state, replies: self.prune(last.combine(state, replies)))
        summed = self.identify.sums()
        first = Exchange(self.broadcast, self.identified, self.merge, self.check_identified, summed)
        return (first, *inner[:-1], pruned)

    def broadcast(self, state: SharedState) -> Message:
        """x_t as indices and values, and the number of the round where hashes depend on it."""
        message = state.model.message()
        return message | {"round": np.array([state.rounds], np.int32)} if self.identify.needs_round else message

    def identified(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """What `identify` sends of grad f_i(x_t)."""
        gradient = client.gradient(SparseModel.from_message(message, client.model_shape))
        return self.identify.answer(gradient, self.question(int(message.get("round", [0])[0])))

    def check_identified(self, state: SharedState, message: Message) -> None:
        """A client answers with what `identify` asks for."""
        self.identify.check_answer(message, self.question(state.rounds), state.model.shape, state.model.values.dtype)

    def question(self, number: int) -> Question:
        """What clients and server know alike in round `number`, from 0."""
        return Question(self.sparsity, self.selection, self.dictionary.normalised, self.seed or 0, number)

    def merge(self, state: SharedState, replies: list[Reply]) -> SharedState:
        """Gamma-hat = approx_{2 tau}(r) u supp(x_t), and x_t as a point on it."""
        x = state.model
        r = self.identify.read(replies, self.question(state.rounds), x.shape)
        gamma = self.dictionary.approximate(r, 2 * self.sparsity, self.selection)
        gamma = gamma[r.reshape(-1)[gamma] != 0]  # where few entries were sent, the rest of Gamma is arbitrary
        merged = self.selection.with_always(union(gamma, x.support, r.size), r.shape)
        return state._replace(point=Point(SparseModel(merged, x.on(merged), x.shape)))

    def prune(self, state: SharedState) -> SharedState:
        """x_{t+1}: the minimiser on tau of the atoms of b, in the ball."""
        assert state.point is not None
        kept = self.pruned(state.point, state.model)
        return SharedState(self.dictionary.into_ball(kept, self.radius), None, state.rounds + 1)

    def pruned(self, point: Point, before: SparseModel) -> SparseModel:
        """The model of tau atoms, by elimination, or P_Lambda b with Lambda = approx_tau(b)."""
        b, hessian = point.model, point.curvature
        if self.pruning == "elimination" and hessian is not None and np.isfinite(b.values).all():
            return eliminated(b, hessian, before.support, self.sparsity, self.selection)
        return self.dictionary.project(b, self.dictionary.approximate_model(b, self.sparsity, self.selection))

    def coefficients(self, state: SharedState) -> Array:
        """alpha, dense: x_t, also while a round is under way."""
        return state.model.dense()


def _inside(exchange: Exchange) -> Exchange:
    """An exchange over points as one over the states of a round."""
    summed = exchange.sum
    return Exchange(
        lambda state: exchange.broadcast(state.point),
        exchange.answer,
        lambda state, replies: state._replace(point=exchange.combine(state.point, replies)),
        lambda state, message: exchange.check(state.point, message),
        None if summed is None else Sum(*(lambda state, part, form=form: form(state.point, part) for form in summed)),
    )
