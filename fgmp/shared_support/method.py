"""SharedSupportGradMP: gradient matching pursuit in which the clients choose the support together (ours).

`CountSketch` and `LargestEntries` are how they tell the server where their gradients are large together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._support.validation import (
    check_kind,
    check_option,
    validate_integer_field,
    validate_number_field,
)
from .._support.warnings import warn_user
from ..aggregation import UpdateSpec
from ..dictionaries import Atoms, StandardBasis
from ..federation import Client, ProblemInfo
from ..rounds import Exchange, Method
from ..selection import PER_OUTPUT, Selection, check_selection
from ..sparse_model import Array, NonFiniteUpdate, SparseModel, union
from .newton import NewtonOnSupport, SupportSolver, SupportState, eliminated, solver_in


class SketchContext(NamedTuple):
    """What clients and server know alike: tau, the atoms and what counts of them, the seed, the round, from 0."""

    sparsity: int
    atoms: Atoms
    seed: int
    number: int


@dataclass(frozen=True)
class LargestEntries:
    """Every client sends the largest entries of its gradient, with their indices.

    What many clients see weakly is cut by each of them, and lost; what is sent are the features that tell most about a
    single client.

    Parameters
    ----------
    count : int or None
        How many, counted as the method's `selection` does: at least 1; None is 4 tau. The number of atoms cuts nothing.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=20, n_samples=8, n_features=60, sparsity=3, rng=0)
    >>> method = fgmp.SharedSupportGradMP(sparsity=3, screening=fgmp.LargestEntries(6))
    >>> bool(fgmp.simulate(method, federation, rounds=10, rng=0).history["relative_error"][-1] < 1e-12)
    True
    """

    count: int | None = None

    def __post_init__(self) -> None:
        validate_integer_field(self, "count", optional=True)

    def check(self, sparsity: int, shape: tuple[int, ...], n_rows: int) -> None:
        """Any count fits."""

    def update_spec(
        self, question: SketchContext, shape: tuple[int, ...], dtype: Any
    ) -> UpdateSpec:
        """At most so many entries of a gradient."""
        return UpdateSpec(
            shape, dtype, self.count or 4 * question.sparsity, None, question.atoms.selection
        )

    def answer(self, gradient: Array, question: SketchContext) -> SparseModel:
        """The largest entries, measured in inner products with normalised atoms."""
        if not np.isfinite(gradient).all():
            raise NonFiniteUpdate("the gradient is not finite, which a selection would hide")
        sizes = question.atoms.normalised(gradient)
        chosen = question.atoms.selection.select(sizes, self.count or 4 * question.sparsity)
        return SparseModel(chosen, gradient.reshape(-1)[chosen], gradient.shape)

    def decode(self, mean: Array, question: SketchContext, shape: tuple[int, ...]) -> Array:
        """The mean of the entries that were sent."""
        return mean


@dataclass(frozen=True)
class CountSketch:
    """Every client sends the same random linear sketch of its gradient: the sum of sketches is that of the gradients.

    In each of `rows` rows the atoms are dealt out at random to `columns` buckets, as evenly as can be, each with a
    random sign, and a bucket holds the signed sum of its entries. The sum of a bucket times the sign of an atom
    estimates the atom's entry; of the rows' estimates the server takes the median. The deal is made anew every round,
    from the seed of the method and the number of the round, so client and server agree without sending it.

    Parameters
    ----------
    rows : int, default 3
        d, at least 1.
    columns : int or None
        w, at least 2 tau, so that as many atoms can be told apart; None is the largest of 14 tau, 70 and an eighth of
        the atoms, rounded up.

    Notes
    -----
    Where a sketch would not be shorter than the gradient, the gradient itself is sent: a sum as well, and exact.

    Two atoms share a bucket with probability at most 1/w, so the error of an entry in one row has a variance of at most
    ||g||^2 / w, and is larger than s ||g|| with probability at most q = 1 / (w s^2). The median of an odd d is only
    where half of the rows are: with probability at most sum over k > d/2 of binom(d, k) q^k (1 - q)^(d - k). That is
    1.5 % for w = 14 tau, d = 3 and s = 1/sqrt(tau), the size of tau entries that share all of the energy. A round can
    afford to miss an atom, because the next one deals anew.

    Of rows that are few the other p entries have energy too: each a variance of v, say, which is what all the rows
    leave undecided of it, and together p v. In a sketch that adds at most p v / w to the variance of every entry,
    without bound where w stays and p grows; with w = p/8 it is 8 v. Of N rows with one signal v is about 1/N of the
    energy that the signal has, and the error as large as its tau entries are where w N is tau p / 2, for a median of
    three rows halves the variance. A run with fewer columns says so.

    References
    ----------
    M. Charikar, K. Chen, M. Farach-Colton, Finding frequent items in data streams, ICALP 2002 (Theoretical Computer
    Science 312, 2004), Lemmas 1 to 4.
    """

    rows: int = 3
    columns: int | None = None

    def __post_init__(self) -> None:
        validate_integer_field(self, "rows")
        validate_integer_field(self, "columns", optional=True, at_least=2)

    def check(self, sparsity: int, shape: tuple[int, ...], n_rows: int) -> None:
        """At least 2 tau columns, or more buckets than atoms; say where they are too few for so many atoms."""
        columns, n_atoms = self._columns(sparsity, shape[0]), shape[0]
        if self.rows * columns >= n_atoms:
            return
        if columns < 2 * sparsity:
            raise ValueError(
                f"columns is {columns}; expected at least {2 * sparsity}, 2 tau atoms to be told apart"
            )
        if 2 * columns * n_rows < sparsity * n_atoms:
            warn_user(
                f"columns is {columns}, and {n_rows} rows have {n_atoms} atoms: what shares a bucket hides atoms of "
                f"the {sparsity} sought; CountSketch({self.rows}, {-(-n_atoms // self.rows)}) sends the gradient itself"
            )

    def update_spec(
        self, question: SketchContext, shape: tuple[int, ...], dtype: Any
    ) -> UpdateSpec:
        """An array of the shape of a sketch, or of the gradient."""
        columns = self._columns(question.sparsity, shape[0])
        return UpdateSpec(
            shape if self.rows * columns >= shape[0] else (self.rows, columns, *shape[1:]), dtype
        )

    def answer(self, gradient: Array, question: SketchContext) -> Array:
        """The sketch, of each output with the same hashes, or the gradient where that is no longer."""
        hashes = self._hashes(question, len(gradient), gradient.dtype)
        return np.stack([matrix @ gradient for matrix in hashes]) if hashes else gradient

    def decode(self, mean: Array, question: SketchContext, shape: tuple[int, ...]) -> Array:
        """The estimates of all entries of the mean gradient."""
        hashes = self._hashes(question, shape[0], mean.dtype)
        if not hashes:
            return mean
        estimates = [matrix.T @ row for matrix, row in zip(hashes, mean, strict=True)]
        return np.asarray(np.median(estimates, axis=0), mean.dtype)

    def _hashes(
        self, question: SketchContext, n_atoms: int, dtype: np.dtype[Any]
    ) -> tuple[Any, ...]:
        """Those of a round; none where the gradient itself is sent."""
        columns, key = self._columns(question.sparsity, n_atoms), (question.seed, question.number)
        return (
            hashes(*key, self.rows, columns, n_atoms, dtype.char)
            if self.rows * columns < n_atoms
            else ()
        )

    def _columns(self, sparsity: int, n_atoms: int) -> int:
        return max(14 * sparsity, 70, -(-n_atoms // 8)) if self.columns is None else self.columns


@lru_cache(maxsize=4)
def hashes(
    seed: int, number: int, rows: int, columns: int, n_atoms: int, dtype: str
) -> tuple[Any, ...]:
    """Which bucket each atom goes to in a round, with which sign: for each row a sparse matrix (columns, n_atoms).

    Of a permutation of the atoms the k-th goes to bucket k modulo `columns`.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6, number)))
    order = generator.permuted(np.tile(np.arange(n_atoms), (rows, 1)), axis=1).astype(np.int32)
    signs = (2 * generator.integers(0, 2, (rows, n_atoms)) - 1).astype(dtype)
    buckets = np.arange(n_atoms, dtype=np.int32) % columns
    each = zip(signs, order, strict=True)
    return tuple(sparse.csr_array((s, (buckets, o)), shape=(columns, n_atoms)) for s, o in each)


@dataclass(frozen=True, eq=False)
class SharedState(SupportState):
    """A point, the number of finished rounds, and while a round is under way the model x_t that it began with."""

    rounds: int = 0
    before: Any = None


@dataclass(frozen=True)
class SharedSupportGradMP(Method):
    """Gradient matching pursuit with a shared support, for clients with fewer samples than 3 tau. Not in the paper.

    A round has a first exchange that finds the support and one or more that solve on it.

    1. Every client sends a random linear sketch of its gradient at x_t, the same for all (`screening` says which). The
       server adds them up with the weights, estimates the pooled gradient r from the sum, takes
       Gamma = approx_{2 tau}(r), and Gamma-hat = Gamma u supp(x_t).
    2. The clients send sums on Gamma-hat, from which the server finds b = argmin f over the span of its atoms
       (`solver` says how). Of its atoms, one after another goes whose loss raises f least, until tau are left
       (`pruning`), and x_{t+1} is the minimiser on these.

    With ``pruning="largest"``, nothing cut in the first exchange and an exact second, this is GradMP on
    f = sum_i p_i f_i. In either case only f, not each f_i, has to be convex on sparse vectors. GradMP can go round in
    circles: models of tau atoms that replace one another for ever. Elimination cannot where all clients take part in
    every round: atoms that raise f are not taken for those there are.

    Parameters
    ----------
    sparsity : int
        tau, as in `FedGradMP`.
    screening : CountSketch or LargestEntries
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

    References
    ----------
    GradMP: as in `FedGradMP`. Relatives with other problems or other messages: T. Wimalajeewa, P. Varshney, arXiv
    1211.6719 (distributed orthogonal matching pursuit); D. Sundman, S. Chatterjee, M. Skoglund, Distributed greedy
    pursuit algorithms, Signal Processing 105, 2014; arXiv 1709.07731 (distributed hard thresholding pursuit).

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
        solver_in(self.dictionary, self.radius, self.solver)

    @property
    def on_support(self) -> SupportSolver:
        """The solver, in the dictionary and the ball of the method."""
        solver: SupportSolver = solver_in(self.dictionary, self.radius, self.solver)
        return solver

    def check(self, shape: ProblemInfo) -> None:
        """Raise a ValueError where the sparsity, `screening` or `solver` do not fit."""
        self.selection.check(self.sparsity, shape.model_shape)
        self.screening.check(self.sparsity, shape.model_shape, sum(shape.rows))
        self.on_support.check(shape)

    def repeats_itself(self, loss: Any) -> bool:
        """As the solver does."""
        return self.solver.repeats_itself(loss)

    def sends_objectives(self) -> bool:
        """As the solver does."""
        return self.solver.sends_objectives()

    def start(self, shape: ProblemInfo) -> SharedState:
        """x_0 = 0, with an empty support."""
        return SharedState(SparseModel.zero(shape.model_shape, shape.dtype))

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange for the support, and those of `solver` on it."""
        first = Exchange(self.message, self.client_update, self.merge, self.update_spec)
        *steps, last = self.on_support.exchanges()
        return (first, *steps, last._replace(server_update=self.last_step))

    def message(self, state: SharedState) -> tuple[SparseModel, int]:
        """x_t, and the number of the round, on which hashes depend."""
        return state.model, state.rounds

    def client_update(
        self, client: Client, message: tuple[SparseModel, int], rng: np.random.Generator
    ) -> Any:
        """What `screening` sends of grad f_i(x_t)."""
        x, rounds = message
        return self.screening.answer(client.gradient(x), self.question(rounds))

    def update_spec(self, state: SharedState) -> UpdateSpec:
        """What that looks like."""
        return self.screening.update_spec(
            self.question(state.rounds), state.model.shape, state.model.values.dtype
        )

    def question(self, rounds: int) -> SketchContext:
        """What clients and server know alike after so many rounds."""
        return SketchContext(self.sparsity, self.atoms, self.seed, rounds)

    def merge(self, state: SharedState, mean: Array) -> SharedState:
        """Gamma-hat = approx_{2 tau}(r) u supp(x_t), and x_t as a point on it."""
        x = state.model
        r = self.screening.decode(mean, self.question(state.rounds), x.shape)
        gamma = self.atoms.approximate(r, 2 * self.sparsity)
        gamma = gamma[
            r.reshape(-1)[gamma] != 0
        ]  # where few entries were sent, the rest of Gamma is arbitrary
        merged = self.selection.add_always_included(union(gamma, x.support, r.size), r.shape)
        return SharedState(
            SparseModel(merged, x.on(merged), x.shape), rounds=state.rounds, before=x
        )

    def last_step(self, state: SharedState, mean: Array) -> SharedState:
        """x_{t+1}: the minimiser on tau of the atoms of b, in the ball."""
        end = self.on_support.server_update(state, mean)
        if self.pruning == "elimination" and end.curvature is not None:
            kept = eliminated(
                end.model, end.curvature, state.before.support, self.sparsity, self.selection
            )
        else:
            kept = self.atoms.project(
                end.model, self.atoms.approximate_model(end.model, self.sparsity)
            )
        return SharedState(self.atoms.into_ball(kept, self.radius), rounds=state.rounds + 1)

    def coefficients(self, state: SharedState) -> SparseModel:
        """x_t."""
        return state.model
