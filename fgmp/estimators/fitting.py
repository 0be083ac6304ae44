"""A fit as exchanges with sites: common units, rounds that find features, a path by elimination, a choice, a closing.

All of it goes through `simulate`, over a table at hand or over Flower, and sees sums over the sites alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..advice import advise, quiet
from ..losses import SoftmaxLoss, SquaredLoss
from ..methods.elimination import backwards
from ..methods.fedgradmp import FedGradMP
from ..methods.shared_support import Shared, SharedSupportGradMP
from ..methods.support_solvers import NewtonOnSupport, Point
from ..models import Array, SparseModel
from ..rounds import Method, Reducer
from ..selection import PerAtom, PerOutput, Selection
from ..simulation import Result, simulate, whole
from ..watching import History, stop_when_stalled
from .sites import OneStep, Solve, Sums

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

Units = dict[str, Any]
Fold = Sequence[int] | None


@dataclass(frozen=True, eq=False)
class SparsityPath:
    """What was found along the path.

    Attributes
    ----------
    table : dict of ndarray
        One entry per sparsity, as columns: ``sparsity``; ``score``, the mean held-out loss over the sites (lower is
        better); and its ``standard_error`` over the sites, or over the folds of a single one.
    """

    table: dict[str, Array]

    @property
    def chosen(self) -> int:
        """The smallest sparsity whose score is within half a standard error of the best."""
        sparsities, score, errors = self.table.values()
        best = np.argmin(score)
        return int(sparsities[score <= score[best] + errors[best] / 2][0])

    def plot(self, ax: Any = None) -> Any:
        """The score against the sparsity, with the choice marked; returns matplotlib's axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        ax.errorbar(*self.table.values(), fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        ax.set(xlabel="sparsity", ylabel="held-out loss and its\nstandard error over the sites")
        ax.set_yscale("log" if np.all(self.table["score"] > 0) else "linear")
        ax.legend()
        return ax


class Fit:
    """A fit under way: an estimator, for its parameters, the sites, and what is the same in every exchange with them.

    `ridge` is the weight of half the squared norm of the coefficients beside the mean loss, 1 / (C W); `first` whether
    a column for the intercept leads; `own` whether each site has an intercept of its own; `spent` adds up what every
    exchange cost; `say` is told where the fit is, every round of the method, and the unit of its objective.
    """

    def __init__(self, given: Any, sites: Any, seed: int, reduce: Reducer | None, say: Callable[..., Any]) -> None:
        self.given, self.sites, self.seed, self.reduce, self.say = given, sites, seed, reduce, say
        self.shape, self.loss, self.spent = sites.shape, sites.shape.loss, Counter[str]()
        self.squared, self.n_outputs = isinstance(self.loss, SquaredLoss), prod(self.loss.model_shape(1)[1:])
        self.own = isinstance(given.fit_intercept, str)
        self.first = int(bool(given.fit_intercept) and not self.own)
        always = (0,) * self.first  # which does not count
        self.selection: Selection = PerAtom(always) if isinstance(self.loss, SoftmaxLoss) else PerOutput(always)
        self.ridge = float(1 / (given.C * sites.weight))
        self.forward_ridge = max(_FORWARD_RIDGE * self.ridge, 0 if self.squared else _LEAST_RIDGE)
        self.steps = 1 if self.squared else _STEPS

    def run(self, method: Method, channel: Any, rounds: int = 1, **options: Any) -> Result:
        """Every exchange with the sites: in silence, for the fit says itself what there is to say."""
        with quiet():
            result = whole(simulate(method, channel, rounds, rng=self.seed, reduce=self.reduce, **options))
        self.spent.update({name: result.history[name][-1] for name in _TOTALS})
        if result.history["round"][-1] and not result.history["clients"][-1]:
            raise RuntimeError(f"no site answered {type(method).__name__}: {dict(result.left_out)}; see their logs")
        return result

    def told(self, method: Method, channel: Any, state: Any = ()) -> Any:
        """The state after exchanges whose objective nobody is asked for."""
        return self.run(method, channel, state=state, history=History(objective_on=0)).state

    def fit(self, grid: Sequence[int]) -> tuple[Array, Array]:
        """The model in the units of the table, its first row the intercept, and which columns are constant.

        The grid has the one sparsity, or those that ``"cv"`` chooses from; how the model was found is set. With noise
        it is of FedGradMP's rounds alone, on the table as it is: all else that a fit asks for are exact sums.
        """
        given, p, private, sparsity = self.given, self.shape.n_features, self.given.private is not None, grid[0]
        units, before, history, n_rounds, method = self.agree(), Counter(self.spent), {}, 0, "all"
        if given.sparsity == "all":
            if p > _DENSE:
                expected = f'expected at most {_DENSE} with sparsity="all", which adds up their products'
                raise ValueError(f"X has {p} features; {expected}")
            start = self.base(units).dense()
            model = SparseModel(np.arange(start.size), start.reshape(-1), start.shape)
        else:
            most, method = how = (sparsity, "fedgradmp") if private else self.beyond(grid)
            model, result = self.forward(units, None, how, given.rounds)
            n_rounds = int(result.history["round"][-1])
            history = result.history | {name: result.history[name] + before[name] for name in _TOTALS}
            models = {most: model} if private else self.path(units, None, model)
            if given.sparsity == "cv":
                given.cv_ = self.by_cross_validation(grid, how, units["unit"])
                sparsity = given.cv_.chosen
            model = models[min(sparsity, max(models))]
        if not private:
            closed = self.closed(units, model, given.polish or method == "all")
            model, history = closed.state.model, history or {name: row[:1] for name, row in closed.history.items()}
            last = {name: column[-1] for name, column in closed.history.items()}
            last |= {name: float(self.spent[name]) for name in _TOTALS}
            history = {name: np.append(column, last[name]) for name, column in history.items()}
            history["objective"] = objective = history["objective"] * units["unit"] ** 2
            if objective[0] - objective[-1] <= 4 * float(np.finfo(self.shape.dtype).eps) * objective[0]:
                model = self.base(units)  # what lowers the objective by rounding only
        given.method_, given.sparsity_, given.n_iter_, given.history_ = method, sparsity, n_rounds, history
        table = self.in_the_table(units, model)
        if self.own:
            intercepts = self.intercepts(table)
            table[0] = self.shape.weights @ intercepts
            given.intercepts_ = dict(zip(given.groups_.tolist(), intercepts.tolist(), strict=True))
        return table, units["factors"] == 0

    def beyond(self, grid: Sequence[int]) -> tuple[int, str]:
        """At how many features the path begins, and the method: one for the path, the folds and the fit."""
        shape, method, largest = self.shape, self.given.method, grid[-1]
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
        return min(3 * sparsity, int(self.shape.n_features)) + bool(self.given.fit_intercept)

    def agree(self, fold: Fold = None) -> Units:
        """Units as `seen` takes them, and where intercepts `start`: by sums over the sites, of the rows that train.

        Rows are never put together. A constant column has the factor 0. With noise the units are those of the table.
        """
        given, shape, p = self.given, self.shape, self.shape.n_features
        about = "own" if self.own else "mean" if self.first else "zero"
        size = p + getattr(self.loss, "n_classes", 1 if self.squared else 2)
        unit, mean, square = np.outer([1.0, 0.0, 1.0], np.ones(size))
        if given.private is None:
            unit, mean, square = self.told(Sums("moments", (size,), (about,)), self.sites.channel(fold=fold))
        rounding = (sum(shape.rows) * np.finfo(np.float64).eps) ** 2
        constant = (square <= rounding * (square + mean**2 * (about != "zero")))[:p]
        standardised = not self.sites.sparse if given.standardize == "auto" else given.standardize
        scales = np.where(constant, 1, np.sqrt(square[:p])) * unit[:p] if standardised else np.ones(p)
        means, spread = mean * unit, float(np.sqrt(square[p]) * unit[p])
        logs = np.log(np.maximum(means[p:], 1 / (2 * sum(shape.rows))))  # no row of a class is half a row
        return {
            "factors": np.where(constant, 0, 1 / scales),
            "centre": means[:p] * self.first,
            "level": float(means[p]) if self.squared and self.first else 0.0,
            # Targets in a power of two, so that no sum of theirs is large.
            "unit": 2.0 ** round(np.log2(spread)) if self.squared and spread else 1.0,
            "own": self.own,
            "ones": _ONES * self.first,
            "start": np.zeros(1) if self.squared else logs - logs.mean() if self.n_outputs > 1 else np.diff(logs),
        }

    def base(self, units: Units) -> SparseModel:
        """The model without features: zero, or the intercept that gives every class its share of the rows."""
        values = (units["start"] / (units["ones"] or 1))[: self.first * self.n_outputs].astype(self.shape.dtype)
        return SparseModel(np.arange(len(values)), values, self.loss.model_shape(self.first + self.shape.n_features))

    def forward(self, units: Units, fold: Fold, how: tuple[int, str], rounds: int) -> tuple[SparseModel, Result]:
        """The rounds of the method, from the model without features: the best model on record."""
        given, ones, most = self.given, units["ones"], how[0]
        if how[1] == "fedgradmp":
            units = units | {"ones": float(self.first)}
            method: Method = FedGradMP(most, given.local_iterations, given.batch_size, selection=self.selection)
            state: Any = self.base(units)
        else:
            solver = OneStep(ridge=self.forward_ridge)
            method = SharedSupportGradMP(most, solver=solver, selection=self.selection, pruning="largest")
            state = Shared(self.base(units))
        channel = self.sites.channel(units, fold)
        cohort = given.cohort_size and min(given.cohort_size, len(channel.weights))
        where = "all rows" if fold is None else f"without fold {fold[0] + 1} of {fold[1]}"
        watch: list[Any] = [lambda run: self.say(where, run, units["unit"] ** 2)]
        watch += [stop_when_stalled(3, improvement=given.tol)] if given.private is None else []
        result = self.run(method, channel, rounds, cohort_size=cohort, state=state, watch=watch)
        # The start may be the best on record, but the path is to have features, and a closing exchange lowers the loss.
        goes_on = result.best.round == 0 and np.isfinite(result.coefficients).all()
        found = np.array(result.coefficients if goes_on else result.best.coefficients)
        found[: self.first] *= units["ones"] / (ones or 1)
        return SparseModel.of(found), result

    def point(self, model: SparseModel) -> Point:
        """A model with all outputs of its atoms, and the intercept."""
        positions = np.add.outer(model.atoms * self.n_outputs, np.arange(self.n_outputs)).reshape(-1)
        support = self.selection.with_always(positions, model.shape)
        return Point(SparseModel(support, model.on(support), model.shape))

    def path(self, units: Units, fold: Fold, found: SparseModel) -> dict[int, SparseModel]:
        """The minimiser on the features that were found, and from its Hessian one feature after another less."""
        models, lead = {0: self.base(units)}, self.first * self.n_outputs
        if len(found.atoms) > self.first:
            solve = Solve(NewtonOnSupport(self.steps, self.forward_ridge))
            end = self.told(solve, self.sites.channel(units, fold), self.point(found))
            b, curvature = end.model, end.curvature.astype(np.float64)
            models[self.selection.counted(b.support[b.support >= lead], b.shape)] = b
            for left, positions, values in backwards(b, curvature, self.selection):
                models[left] = SparseModel(b.support[positions], values.astype(b.values.dtype), b.shape)
        return models

    def closed(self, units: Units, model: SparseModel, polish: bool) -> Result:
        """A run to the minimiser on the features of a model; of no round, where it is to stay as it is."""
        rounds = (1 if self.squared else _PASSES) if polish and len(model.atoms) > self.first else 0
        # Four Newton steps that gain less than a hundredth end at rounding: what is left is squared by each.
        solve, watch = Solve(NewtonOnSupport(self.steps, self.ridge)), stop_when_stalled(1, improvement=_GAIN)
        result = self.run(solve, self.sites.channel(units), rounds, state=self.point(model), watch=watch)
        objective = result.history["objective"]
        if len(objective) > _PASSES and objective[-2] - objective[-1] > _GAIN * objective[-2]:
            did = f"did not converge in {_PASSES * _STEPS} Newton steps on {len(model.atoms)} features"
            advise(f"the closing exchanges {did}; a smaller C, or fewer features, makes them", ConvergenceWarning)
        return result

    def in_the_table(self, units: Units, model: SparseModel) -> Array:
        """Intercept and coefficients in the units of the table, shape (1 + n_features, ...), in float64."""
        standard, unit, first = model.dense().astype(np.float64), units["unit"], self.first
        coef = (standard[first:].T * units["factors"]).T * unit
        lead = standard[:first].sum(axis=0) * units["ones"] * unit + units["level"] - units["centre"] @ coef
        return np.concatenate([np.reshape(lead, (1, *coef.shape[1:])), coef])

    def intercepts(self, table: Array) -> Array:
        """Of each site its own; the mean of the others' for one that does not say."""
        question, coef = Sums("intercepts", (2, len(self.shape.rows))), SparseModel.of(table[1:])
        _, (sums, said) = self.told(question, self.sites.channel(), (coef,))
        found: Array = sums / np.where(said > 0, said, 1)
        return np.where(said > 0, found, sums.sum() / said.sum())

    def by_cross_validation(self, grid: Sequence[int], how: tuple[int, str], unit: float) -> SparsityPath:
        """Each site holds out a fold of its rows at a time; the others choose units, features and models afresh."""
        n_folds, tables, learnt = self.given.n_folds, [], 0
        for number in range(n_folds):
            fold = (number, n_folds, self.seed)
            units = self.agree(fold)
            along = {0: self.base(units)}
            if units["factors"].any():
                found, _ = self.forward(units, fold, how, min(_FOLD_ROUNDS, self.given.rounds))
                along, learnt = self.path(units, fold, found), learnt + 1
            tables += [self.in_the_table(units, along[min(tau, max(along))]) for tau in grid]
        if not learnt:
            raise ValueError(
                f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more folds or rows"
            )
        known = np.array([table[0].reshape(-1) for table in tables]), *(SparseModel.of(table[1:]) for table in tables)
        question = Sums("held_out", (2 + n_folds, len(grid)), (self.seed, self.own, unit**2))
        score, squares, *by_fold = self.told(question, self.sites.channel(), known)[-1]
        shares = self.shape.weights
        if len(shares) > 1:
            spread = np.maximum(squares - score**2, 0) * (shares @ shares) * len(shares) / (len(shares) - 1)
        else:  # one site: over its folds
            spread = n_folds * np.var(by_fold, axis=0, ddof=1)
        errors = np.sqrt(spread) * unit**2
        return SparsityPath({"sparsity": np.array(grid), "score": score * unit**2, "standard_error": errors})
