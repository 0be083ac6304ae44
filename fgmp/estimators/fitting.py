"""A fit as exchanges with sites: common units, rounds that find features, a path by elimination, a choice, a closing.

All of it goes through `simulate`, over a table at hand or over Flower, and sees sums over the sites alone.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..advice import quiet
from ..losses import SoftmaxLoss, SquaredLoss
from ..methods.fedgradmp import FedGradMP
from ..methods.shared_support import Shared, SharedSupportGradMP
from ..methods.support_solvers import NewtonOnSupport, Point, backwards
from ..models import Array, SparseModel, Support
from ..polishing import with_closing_round
from ..rounds import Method, Reducer
from ..selection import PerAtom, PerOutput, Selection
from ..shapes import Shape
from ..simulation import Result, simulate, whole
from ..watching import History, Run, stop_when_stalled
from .sites import view_of
from .sums import HeldOut, Intercepts, Models, Moments, OneStep

__all__ = ["Fit", "Recipe", "Sites", "SparsityPath", "Units"]

_PASSES, _STEPS, _GAIN = 12, 4, 0.01
_ONES = 64.0  # the column of the intercept, so that the ridge weighs 1/4096 on it
_FORWARD_RIDGE, _LEAST_RIDGE = 4, 1e-4  # while features are sought: merged supports are separable more often
_BEYOND = 20  # a path begins at so many features
# Least squares of m noisy rows on k columns have an excess error of k / (m - k - 1) times the noise, if features are
# Gaussian: without bound at m = k, where they interpolate, and no more than the noise itself where m > 2 k.
ENOUGH = 2  # rows for a coefficient
_FOLD_ROUNDS = 5
_DENSE = 5000  # features that `sparsity="all"` takes: their Hessian has 12 million numbers
_TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "left_out")
_UNHEARD = History(objective_on=0)


class Sites(Protocol):
    """Who holds the rows: a table at hand, or Flower's clients.

    Attributes
    ----------
    shape : Shape
        Of the rows as they are.
    weight : float
        What all rows weigh.
    sparse : bool
        Whether features are.
    """

    shape: Shape
    weight: float
    sparse: bool

    def channel(self, view: Mapping[str, Any]) -> Any:
        """The channel to the sites in a view."""


class Units(NamedTuple):
    """What the sites agreed on: units as in a view, which columns are constant, and the first intercept."""

    said: dict[str, Any]
    constant: Array
    start: Array


class Fit(NamedTuple):
    """What a fit leaves: the model in the units of the table, its first row the intercept, and how it was found."""

    model: Array
    intercepts: Array | None
    units: Units
    method: str
    sparsity: int
    n_rounds: int
    history: dict[str, Array]
    path: SparsityPath | None


@dataclass(frozen=True, eq=False)
class SparsityPath:
    """What was found along the path.

    Attributes
    ----------
    table : dict of ndarray
        One entry per sparsity, as columns: ``sparsity``; ``score``, the mean held-out loss over the sites (lower is
        better); and its ``standard_error`` over the sites, or over the folds of a single one.
    chosen : int
        The smallest sparsity whose score is within half a standard error of the best.
    """

    table: dict[str, Array]
    chosen: int

    def plot(self, ax: Any = None) -> Any:
        """The score against the sparsity, with the choice marked; returns matplotlib's axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        score = self.table["score"]
        ax.errorbar(self.table["sparsity"], score, self.table["standard_error"], fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        label = "held-out loss and its\nstandard error over the sites"
        ax.set(xlabel="sparsity", ylabel=label, yscale="log" if np.all(score > 0) else "linear")
        ax.legend()
        return ax


@dataclass(frozen=True, eq=False)
class Recipe:
    """How to fit: an estimator, for its parameters, the sites, and what is the same in every exchange with them.

    `ridge` is the weight of half the squared norm of the coefficients beside the mean loss; `spent` adds up what every
    exchange cost; `say` is told where the fit is, every round of the method, and the unit of its objective.
    """

    given: Any
    sites: Sites
    seed: int
    reduce: Reducer | None = None
    say: Callable[[str, Run, float], None] = lambda words, run, unit: None
    spent: Counter[str] = field(default_factory=Counter)

    @property
    def loss(self) -> Any:
        """The loss of the sites."""
        return self.sites.shape.loss

    @property
    def ridge(self) -> float:
        """1 / (C W)."""
        return float(1 / (self.given.C * self.sites.weight))

    @property
    def own(self) -> bool:
        """Whether each site has an intercept of its own."""
        return isinstance(self.given.fit_intercept, str)

    @property
    def first(self) -> int:
        """Whether a column for the intercept leads."""
        return int(bool(self.given.fit_intercept) and not self.own)

    @property
    def selection(self) -> Selection:
        """Features count once, and the intercept does not."""
        always = (0,) * self.first
        return PerAtom(always) if isinstance(self.loss, SoftmaxLoss) else PerOutput(always)

    def run(self, method: Method, channel: Any, rounds: int = 1, **options: Any) -> Result:
        """Every exchange with the sites: in silence, for the fit says itself what there is to say."""
        with quiet():
            result = whole(simulate(method, channel, rounds, rng=self.seed, reduce=self.reduce, **options))
        self.spent.update({name: result.history[name][-1] for name in _TOTALS})
        if result.history["round"][-1] and not result.history["clients"][-1]:
            raise RuntimeError(f"no site answered {type(method).__name__}: {dict(result.left_out)}; see their logs")
        return result

    def fit(self, sparsity: int | str, grid: Sequence[int]) -> Fit:
        """A model of so many features, of ``"all"``, or of as many as ``"cv"`` chooses on the grid."""
        if self.given.private is not None:
            return self.with_noise(int(sparsity))
        units = self.agree()
        path, history, n_rounds, method = None, None, 0, "all"
        before = Counter(self.spent)
        if sparsity != "all":
            most, method = self.beyond(grid)
            found, result = self.forward(units, None, most, method, self.given.rounds)
            history, n_rounds = dict(result.history), int(result.history["round"][-1])
            history |= {name: history[name] + before[name] for name in _TOTALS}
            models = self.path(units, None, found)
            if sparsity == "cv":
                path = self.by_cross_validation(grid, most, method, units.said["unit"])
                sparsity = path.chosen
            model = models[min(int(sparsity), max(models))] if sparsity else self.base(units)
        else:
            if self.sites.shape.n_features > _DENSE:
                expected = f'expected at most {_DENSE} with sparsity="all", which adds up their products'
                raise ValueError(f"X has {self.sites.shape.n_features} features; {expected}")
            start = self.base(units).dense()
            model = SparseModel(np.arange(start.size), start.reshape(-1), start.shape)
            sparsity = self.sites.shape.n_features
        if (self.given.polish or method == "all") and len(model.atoms) > self.first:
            model, closing = self.closed(units, model)
        else:
            closing = self.run(self._solver(self.ridge), self.channel(units), 0, state=Point(model)).history
        if history is None:
            history = {name: column[:1] for name, column in closing.items()}
        closing = closing | {name: np.array([float(self.spent[name] - history[name][-1])]) for name in _TOTALS}
        history = with_closing_round(history, closing)
        history["objective"] = objective = history["objective"] * units.said["unit"] ** 2
        if objective[0] - objective[-1] <= 4 * float(np.finfo(self.sites.shape.dtype).eps) * objective[0]:
            model = self.base(units)  # what lowers the objective by rounding only
        table = self.in_the_table(units, model)
        intercepts = self.intercepts(table) if self.own else None
        if intercepts is not None:
            table[0] = self.sites.shape.weights @ intercepts
        return Fit(table, intercepts, units, method, int(sparsity), n_rounds, history, path)

    def with_noise(self, sparsity: int) -> Fit:
        """FedGradMP's rounds alone, on the table as it is: whatever else a fit asks for are exact sums."""
        p = self.sites.shape.n_features
        said = {"factors": np.ones(p), "centre": np.zeros(p), "level": 0.0, "unit": 1.0, "own": False}
        units = Units(said, np.zeros(p, bool), np.zeros(1))
        found, result = self.forward(units, None, sparsity, "fedgradmp", self.given.rounds)
        n_rounds, table = int(result.history["round"][-1]), self.in_the_table(units, found)
        return Fit(table, None, units, "fedgradmp", sparsity, n_rounds, result.history, None)

    def beyond(self, grid: Sequence[int]) -> tuple[int, str]:
        """At how many features the path begins, and the method: one for the path, the folds and the fit."""
        shape, method, largest = self.sites.shape, self.given.method, grid[-1]
        least = round(self.sites.weight * min(shape.weights))  # a row of weight 2 counts as two rows
        most = min(shape.n_features, max(_BEYOND, ceil(2.5 * largest)), round(self.sites.weight) // 3)
        most = max(most, largest, 1)
        if method == "auto":
            method = "fedgradmp" if least > ENOUGH * self.columns(most) else "shared"
        elif method == "fedgradmp":  # as far as the rows of the smallest site reach
            most = max(min(most, (least // ENOUGH - 1) // 3), largest, 1)
        return most, method

    def columns(self, sparsity: int) -> int:
        """The most that a client of FedGradMP solves for: 2 tau and tau features, or all, and the intercept."""
        return min(3 * sparsity, self.sites.shape.n_features) + bool(self.given.fit_intercept)

    def agree(self, fold: Sequence[int] | None = None) -> Units:
        """Centres and scales from sums over the sites, of the rows that train; rows are never put together."""
        given, shape = self.given, self.sites.shape
        about = "own" if self.own else "mean" if given.fit_intercept else "zero"
        channel, p = self.sites.channel(view_of(fold=fold)), shape.n_features
        unit, mean, square = self.run(Moments(about), channel, history=_UNHEARD).state
        rounding = sum(shape.rows) * np.finfo(np.float64).eps
        whole_square = square + mean**2 * (about != "zero")
        constant = (square <= rounding * square + rounding**2 * whole_square)[:p]
        scales = np.where(constant, 1, np.sqrt(square[:p])) * unit[:p] if self.standardised else np.ones(p)
        squared = isinstance(self.loss, SquaredLoss)
        level = float((mean * unit)[p]) if squared and self.first else 0.0
        shares = np.maximum((mean * unit)[p:], 1 / (2 * sum(shape.rows)))  # none is half a row
        if squared:
            start = np.zeros(1)
        elif isinstance(self.loss, SoftmaxLoss):
            start = np.log(shares) - np.log(shares).mean()
        else:
            start = np.diff(np.log(shares))
        units = {"factors": np.where(constant, 0, 1 / scales), "own": self.own, "level": level}
        spread = float(np.sqrt(square[p]) * unit[p])  # targets in a power of two, so that no sum of theirs is large
        units["unit"] = 2.0 ** round(np.log2(spread)) if squared and spread else 1.0
        units["centre"] = (mean * unit)[:p] * self.first
        return Units(units, constant, start)

    @property
    def standardised(self) -> bool:
        """Whether features compete in units of their standard deviation; of sparse ones the rare would win."""
        given = self.given.standardize
        return bool(given) if given != "auto" else not self.sites.sparse

    def base(self, units: Units, ones: float = _ONES) -> SparseModel:
        """The model without features: zero, or the intercept that gives every class its share of the rows."""
        shape = self.loss.model_shape(self.first + self.sites.shape.n_features)
        values = (units.start / ones).astype(self.sites.shape.dtype) if self.first else np.empty(0)
        return SparseModel(np.arange(len(values)), values, shape)

    def channel(self, units: Units, fold: Sequence[int] | None = None, ones: float = _ONES) -> Any:
        """The sites in these units."""
        return self.sites.channel(view_of(units.said | {"ones": ones * self.first}, fold))

    def forward(
        self, units: Units, fold: Sequence[int] | None, most: int, method: str, rounds: int
    ) -> tuple[SparseModel, Result]:
        """The rounds of the method, from the model without features: the best model on record."""
        given, ones = self.given, 1.0 if method == "fedgradmp" else _ONES
        channel, base = self.channel(units, fold, ones), self.base(units, ones)
        state: Any = base
        if method == "fedgradmp":
            how: Method = FedGradMP(most, given.local_iterations, given.batch_size, selection=self.selection)
        else:
            solver, state = OneStep(ridge=self._ridge), Shared(base)
            how = SharedSupportGradMP(most, solver=solver, selection=self.selection, pruning="largest")
        cohort = given.cohort_size and min(given.cohort_size, len(channel.weights))
        watch: list[Any] = [lambda run: self.say(_words(fold), run, units.said["unit"] ** 2)]
        watch += [stop_when_stalled(3, improvement=given.tol)] if given.private is None else []
        result = self.run(how, channel, rounds, cohort_size=cohort, state=state, watch=watch)
        # The start may be the best on record, but the path is to have features, and a closing exchange lowers the loss.
        goes_on = result.best.round == 0 and np.isfinite(result.coefficients).all()
        found = SparseModel.of(result.coefficients if goes_on else result.best.coefficients)
        values = found.values.copy()
        values[found.support < self.first * _outputs(found)] *= ones / _ONES
        return SparseModel(found.support, values, found.shape), result

    @property
    def _ridge(self) -> float:
        ridge = _FORWARD_RIDGE * self.ridge
        return ridge if isinstance(self.loss, SquaredLoss) else max(ridge, _LEAST_RIDGE)

    def path(self, units: Units, fold: Sequence[int] | None, found: SparseModel) -> dict[int, SparseModel]:
        """The minimiser on the features that were found, and from its Hessian one feature after another less."""
        solver, selection = self._solver(self._ridge), self.selection
        support = selection.with_always(found.support, found.shape)
        models = {0: self.base(units)}
        if not len(found.atoms) > self.first:
            return models
        start = Point(SparseModel(support, found.on(support), found.shape))
        point = self.run(solver, self.channel(units, fold), state=start, history=_UNHEARD).state
        b, count = point.model, selection.counted(support[support >= self.first * _outputs(found)], found.shape)
        models[count] = b
        for left, positions, values in backwards(b, point.curvature.astype(np.float64), selection):
            models[left] = SparseModel(b.support[positions], values.astype(b.values.dtype), b.shape)
        return models

    def closed(self, units: Units, start: SparseModel) -> tuple[SparseModel, dict[str, Array]]:
        """The minimiser on a support, from a model there."""
        channel, passes = self.channel(units), 1 if isinstance(self.loss, SquaredLoss) else _PASSES
        support = self.selection.with_always(_all_of(start.atoms, start), start.shape)
        point = Point(SparseModel(support, start.on(support), start.shape))
        begin: dict[str, Array] = {}
        for _ in range(passes):
            result = self.run(self._solver(self.ridge), channel, state=Point(point.model))
            point, objective, begin = result.state, result.history["objective"], begin or result.history
            # Four Newton steps that gain less than a hundredth end at rounding: what is left is squared by each.
            if passes == 1 or not objective[0] - objective[-1] > _GAIN * objective[-1]:
                break
        else:
            did = f"did not converge in {_PASSES * _STEPS} Newton steps on {len(start.atoms)} features"
            advice = f"the closing exchanges {did}; a smaller C, or fewer features, makes them"
            warnings.warn(advice, ConvergenceWarning, stacklevel=2)
        return point.model, {name: np.append(begin[name][:1], column[-1:]) for name, column in result.history.items()}

    def _solver(self, ridge: float) -> NewtonOnSupport:
        return NewtonOnSupport(1, ridge) if isinstance(self.loss, SquaredLoss) else NewtonOnSupport(_STEPS, ridge)

    def in_the_table(self, units: Units, model: SparseModel) -> Array:
        """Intercept and coefficients in the units of the table, shape (1 + n_features, ...), in float64."""
        standard = model.dense().astype(np.float64)
        factors, first = np.asarray(units.said["factors"]), self.first
        unit = units.said["unit"]
        coef = (standard[first:].T * factors).T * unit
        lead = (
            standard[:first].sum(axis=0) * _ONES * unit + units.said["level"] - np.asarray(units.said["centre"]) @ coef
        )
        return np.concatenate([np.reshape(lead, (1, *coef.shape[1:])), coef])

    def intercepts(self, table: Array) -> Array:
        """Of each site its own; the mean of the others' for one that does not say."""
        n_sites, coef = len(self.sites.shape.rows), SparseModel.of(table[1:])
        start, channel = (coef, np.zeros((2, n_sites))), self.sites.channel(view_of())
        sums, said = self.run(Intercepts(n_sites), channel, state=start, history=_UNHEARD).state[1]
        found: Array = sums / np.where(said > 0, said, 1)
        return np.where(said > 0, found, sums.sum() / said.sum())

    def judged(self, tables: Sequence[Array], n_folds: int, unit: float) -> Array:
        """Over the sites the mean of their losses, of the squares of these, and what each fold adds, at each size."""
        intercepts = np.array([table[0].reshape(-1) for table in tables])
        losses = np.zeros((2 + n_folds, len(tables) // n_folds))
        state = Models(intercepts, tuple(SparseModel.of(table[1:]) for table in tables), losses)
        held_out, channel = HeldOut(n_folds, self.seed, self.own, unit**2), self.sites.channel(view_of())
        found: Array = self.run(held_out, channel, state=state, history=_UNHEARD).state.losses
        scales = np.full(len(found), unit**2)
        scales[1] = unit**4
        found *= scales[:, None]
        return found

    def by_cross_validation(self, grid: Sequence[int], most: int, method: str, unit: float) -> SparsityPath:
        """Each site holds out a fold of its rows at a time; the others choose units, features and models afresh."""
        n_folds, tables, learnt = self.given.n_folds, [], 0
        for number in range(n_folds):
            fold = (number, n_folds, self.seed)
            units = self.agree(fold)
            along = {0: self.base(units)}
            if not units.constant.all():
                found, _ = self.forward(units, fold, most, method, min(_FOLD_ROUNDS, self.given.rounds))
                along, learnt = self.path(units, fold, found), learnt + 1
            tables += [self.in_the_table(units, along[min(tau, max(along))]) for tau in grid]
        if not learnt:
            raise ValueError(
                f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more folds or rows"
            )
        score, squares, *by_fold = self.judged(tables, n_folds, unit)
        shares = self.sites.shape.weights
        if len(shares) > 1:
            spread = np.maximum(squares - score**2, 0) * (shares @ shares) * len(shares) / (len(shares) - 1)
        else:  # one site: over its folds
            spread = n_folds * np.var(by_fold, axis=0, ddof=1)
        return chosen(np.array(grid), score, np.sqrt(spread))


def chosen(sparsities: Array, score: Array, errors: Array) -> SparsityPath:
    """The smallest sparsity whose score is within half a standard error of the best one's."""
    best = int(np.argmin(score))
    within = np.flatnonzero(score <= score[best] + errors[best] / 2)
    table = {"sparsity": sparsities, "score": score, "standard_error": errors}
    return SparsityPath(table, int(sparsities[within[0]]))


def _words(fold: Sequence[int] | None) -> str:
    return "all rows" if fold is None else f"without fold {fold[0] + 1} of {fold[1]}"


def _outputs(model: SparseModel) -> int:
    return int(np.prod(model.shape[1:], dtype=int))


def _all_of(atoms: Support, base: SparseModel) -> Support:
    """The positions of some atoms, each with all its outputs."""
    positions: Support = np.add.outer(atoms * _outputs(base), np.arange(_outputs(base))).reshape(-1)
    return positions
