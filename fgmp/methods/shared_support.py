"""SharedSupportGradMP: gradient matching pursuit in which the clients choose the support together (ours)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import check_kind, check_option, settle_integer
from ..dictionaries import StandardBasis
from ..federation import Client
from ..models import Array, SparseModel, union
from ..rounds import Exchange, Form
from ..selection import PER_OUTPUT, Selection, check_selection
from ..shapes import Shape
from .sketches import CountSketch, LargestEntries, Question
from .support_solvers import NewtonOnSupport, OnSupport, Point, SupportSolver, eliminated


@dataclass(frozen=True, eq=False)
class Shared(Point):
    """A point, the number of finished rounds, and while a round is under way the model x_t that it began with."""

    rounds: int = 0
    before: Any = None


@dataclass(frozen=True)
class SharedSupportGradMP(OnSupport):
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
    solver : SupportSolver
        How to minimise on the merged support: `NewtonOnSupport` (one step, the default, is exact for the squared loss;
        others take several) or `LocalSteps` (any loss).
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    radius : float or None
        R, the radius of the ball; None is no ball.
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.
    pruning : {"elimination", "largest"}
        How tau atoms are chosen of those of b: by backward elimination, where the solver leaves a Hessian
        (`NewtonOnSupport` does), or, as in GradMP, x_{t+1} = P_Lambda b with Lambda = approx_tau(b).
    seed : int, default 0
        Of the sketches, which clients and server draw alike.

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
    identify: CountSketch | LargestEntries = field(default_factory=CountSketch)
    solver: SupportSolver = field(default_factory=NewtonOnSupport)
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    radius: float | None = None
    selection: Selection = PER_OUTPUT
    pruning: str = "elimination"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "sparsity")
        settle_integer(self, "seed", at_least=0)
        expected = "CountSketch(rows, columns) or LargestEntries(count)"
        check_kind("identify", self.identify, (CountSketch, LargestEntries), expected)
        check_option("pruning", self.pruning, ("elimination", "largest"))
        check_selection(self.selection)

    def check(self, shape: Shape) -> None:
        """Raise a ValueError where the sparsity, `identify` or `solver` do not fit."""
        super().check(shape)
        self.selection.check(self.sparsity, shape.model_shape)
        self.identify.check(self.sparsity, shape.model_shape)

    def start(self, shape: Shape) -> Shared:
        """x_0 = 0, with an empty support."""
        return Shared(SparseModel.zero(shape.model_shape, shape.dtype))

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange for the support, and those of `solver` on it."""
        first = Exchange(self.ask, self.at_client, self.merge, self.form)
        *steps, last = super().exchanges()
        return (first, *steps, last._replace(update=self.last_step))

    def ask(self, state: Shared) -> tuple[SparseModel, int]:
        """x_t, and the number of the round, on which hashes depend."""
        return state.model, state.rounds

    def at_client(self, client: Client, message: tuple[SparseModel, int], rng: np.random.Generator) -> Any:
        """What `identify` sends of grad f_i(x_t)."""
        x, rounds = message
        return self.identify.answer(client.gradient(x), self.question(rounds))

    def form(self, state: Shared) -> Form:
        """What that looks like."""
        return self.identify.form(self.question(state.rounds), state.model.shape, state.model.values.dtype)

    def question(self, rounds: int) -> Question:
        """What clients and server know alike after so many rounds."""
        return Question(self.sparsity, self.atoms, self.seed, rounds)

    def merge(self, state: Shared, mean: Array) -> Shared:
        """Gamma-hat = approx_{2 tau}(r) u supp(x_t), and x_t as a point on it."""
        x = state.model
        r = self.identify.read(mean, self.question(state.rounds), x.shape)
        gamma = self.atoms.approximate(r, 2 * self.sparsity)
        gamma = gamma[r.reshape(-1)[gamma] != 0]  # where few entries were sent, the rest of Gamma is arbitrary
        merged = self.selection.with_always(union(gamma, x.support, r.size), r.shape)
        return Shared(SparseModel(merged, x.on(merged), x.shape), rounds=state.rounds, before=x)

    def last_step(self, state: Shared, mean: Array) -> Shared:
        """x_{t+1}: the minimiser on tau of the atoms of b, in the ball."""
        end = self.step(state, mean)
        if self.pruning == "elimination" and end.curvature is not None:
            kept = eliminated(end.model, end.curvature, state.before.support, self.sparsity, self.selection)
        else:
            kept = self.atoms.project(end.model, self.atoms.approximate_model(end.model, self.sparsity))
        return Shared(self.atoms.into_ball(kept, self.radius), rounds=state.rounds + 1)
