"""SharedSupportGradMP: gradient matching pursuit in which the clients choose the support together.

It is this project's own method, not the paper's. `sketches.py` has what clients send of their
gradients, `newton.py` how the server minimises on the support, and `elimination.py` how it prunes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .._support.validation import (
    check_kind,
    check_option,
    validate_integer_field,
    validate_number_field,
)
from ..data import Client, ProblemInfo
from ..dictionaries import Atoms, StandardBasis
from ..method import Exchange, Method
from ..selection import PER_OUTPUT, Selection, check_selection
from ..sparse_model import Array, SparseModel, union
from ..updates import UpdateSpec
from .elimination import eliminated
from .newton import NewtonOnSupport, SupportSolver, SupportState, with_geometry
from .sketches import CountSketch, LargestEntries, SketchContext


@dataclass(frozen=True, eq=False)
class SharedState(SupportState):
    """The state of the server between exchanges.

    Attributes
    ----------
    rounds : int
        The number of finished rounds.
    before : SparseModel or None
        The model x_t that a round began with, while the round is under way.
    """

    rounds: int = 0
    before: SparseModel | None = None


@dataclass(frozen=True)
class SharedSupportGradMP(Method):
    """Gradient matching pursuit with a shared support, for clients with fewer samples than 3 tau.

    It is not in the paper. A round has a first exchange that finds the support, and one or more
    that solve on it.

    1. Every client sends a random linear sketch of its gradient at x_t, the same for all
       (`screening` says which). The server adds them up with the weights, estimates the pooled
       gradient r from the sum, takes Gamma = approx_{2 tau}(r), and Gamma-hat = Gamma u supp(x_t).
    2. The clients send sums on Gamma-hat, from which the server finds b = argmin f over the span of
       its atoms (`solver` says how). Of its atoms, the one whose loss raises f least goes, one
       after another, until tau are left (`pruning`), and x_{t+1} is the minimiser on these.

    With ``pruning="largest"``, nothing cut in the first exchange and an exact second, this is
    GradMP on f = sum_i p_i f_i. In either case only f has to be convex on sparse vectors, not each
    f_i.

    GradMP can go round in circles: models of tau atoms that replace one another for ever.
    Elimination cannot, if all clients take part in every round, because it does not replace atoms
    by others that raise f.

    Parameters
    ----------
    sparsity : int
        tau, as in `FedGradMP`.
    screening : CountSketch or LargestEntries
        What clients send of their gradients: `CountSketch` with its defaults by default.
    solver : SupportSolver
        How to minimise on the merged support: `NewtonOnSupport` (one step, the default, is exact
        for the squared loss; other losses take several) or `LocalSteps` (any loss).
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    radius : float or None
        R, the radius of the ball; None is no ball.
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.
    pruning : {"elimination", "largest"}
        How tau atoms are chosen of those of b: by backward elimination, if the solver leaves a
        Hessian (`NewtonOnSupport` does), or, as in GradMP, x_{t+1} = P_Lambda b with
        Lambda = approx_tau(b).
    seed : int, default 0
        The seed of the sketches, from which clients and server draw the same.

    References
    ----------
    GradMP: as in `FedGradMP`. Relatives with other problems or other messages: T. Wimalajeewa,
    P. Varshney, arXiv 1211.6719 (distributed orthogonal matching pursuit); D. Sundman,
    S. Chatterjee, M. Skoglund, Distributed greedy pursuit algorithms, Signal Processing 105, 2014;
    arXiv 1709.07731 (distributed hard thresholding pursuit).

    Examples
    --------
    Each client has 8 rows, fewer than 3 tau = 9, and all of them together enough:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(
    ...     n_clients=20, n_samples=8, n_features=60, sparsity=3, rng=0
    ... )
    >>> method = fgmp.SharedSupportGradMP(sparsity=3)
    >>> result = fgmp.simulate(method, federation, rounds=10, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    """

    sparsity: int
    screening: CountSketch | LargestEntries = field(default_factory=CountSketch)
    solver: SupportSolver = field(default_factory=NewtonOnSupport)
    dictionary: Atoms = field(default_factory=StandardBasis)
    radius: float | None = None
    selection: Selection = PER_OUTPUT
    pruning: str = "elimination"
    seed: int = 0

    def __post_init__(self) -> None:
        validate_integer_field(self, "sparsity")
        validate_integer_field(self, "seed", at_least=0)
        validate_number_field(self, "radius", optional=True, above=0)
        expected = "CountSketch(rows, columns) or LargestEntries(count)"
        check_kind("screening", self.screening, (CountSketch, LargestEntries), expected)
        check_option("pruning", self.pruning, ("elimination", "largest"))
        check_selection(self.selection)
        with_geometry(self.solver, self.dictionary, self.radius)  # raises if it has others

    @property
    def support_solver(self) -> SupportSolver:
        """The solver, in the dictionary and the ball of the method."""
        return with_geometry(self.solver, self.dictionary, self.radius)

    @property
    def is_bounded(self) -> bool:
        """Whether a ball, or a ridge of the solver, keeps models from growing for ever."""
        return self.support_solver.is_bounded

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if the sparsity, `screening` or `solver` do not fit the problem."""
        self.selection.check(self.sparsity, info.model_shape)
        self.screening.check(self.sparsity, info.model_shape, sum(info.n_rows))
        self.support_solver.check(info)

    def start(self, info: ProblemInfo) -> SharedState:
        """Return x_0 = 0, with an empty support."""
        return SharedState(SparseModel.zero(info.model_shape, info.dtype))

    def exchanges(self) -> Sequence[Exchange]:
        """Return the exchange for the support, and those of `solver`, the last of which prunes."""
        screen = Exchange.of(self, declared_for=SharedSupportGradMP.client_update)
        *steps, last = self.support_solver.exchanges()
        return (screen, *steps, last._replace(server_update=self.prune))

    def message(self, state: SharedState) -> tuple[SparseModel, int]:
        """Return x_t and the number of the round, on which the sketch depends."""
        return state.model, state.rounds

    def client_update(
        self, client: Client, message: tuple[SparseModel, int], rng: np.random.Generator
    ) -> Array | SparseModel:
        """Return what `screening` sends of grad f_i(x_t)."""
        x, rounds = message
        return self.screening.encode(client.gradient(x), self.sketch_context(rounds))

    def update_spec(self, state: SharedState) -> UpdateSpec:
        """Return the spec of what `screening` sends."""
        x = state.model
        return self.screening.update_spec(
            self.sketch_context(state.rounds), x.shape, x.values.dtype
        )

    def sketch_context(self, rounds: int) -> SketchContext:
        """Return what clients and server both know after a number of rounds."""
        return SketchContext(self.sparsity, self.dictionary, self.selection, self.seed, rounds)

    def server_update(self, state: SharedState, mean: Array) -> SharedState:
        """Return x_t on Gamma-hat = approx_{2 tau}(r) u supp(x_t)."""
        x = state.model
        r = self.screening.decode(mean, self.sketch_context(state.rounds), x.shape)
        gamma = self.dictionary.select_atoms(r, 2 * self.sparsity, self.selection)
        # If few entries were sent, the rest of Gamma is arbitrary: atoms that nobody named.
        gamma = gamma[r.reshape(-1)[gamma] != 0]
        merged = self.selection.add_always_included(union(gamma, x.support, r.size), r.shape)
        model = SparseModel(merged, x.on(merged), x.shape)
        return SharedState(model, rounds=state.rounds, before=x)

    def prune(self, state: SharedState, mean: Array) -> SharedState:
        """Return x_{t+1}: the minimiser on tau of the atoms of b, moved into the ball."""
        solved = self.support_solver.server_update(state, mean)
        b = solved.model
        if self.pruning == "elimination" and solved.curvature is not None:
            before = np.empty(0, np.intp) if state.before is None else state.before.support
            pruned = eliminated(b, solved.curvature, before, self.sparsity, self.selection)
        else:
            support = self.dictionary.select_atoms_of(b, self.sparsity, self.selection)
            pruned = self.dictionary.project(b, support)
        x = self.dictionary.into_ball(pruned, self.radius)
        return SharedState(x, rounds=state.rounds + 1)

    def coefficients(self, state: SharedState) -> SparseModel:
        """Return x_t."""
        return state.model
