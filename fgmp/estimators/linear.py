"""The two estimators, sparse linear regression and sparse logistic or softmax regression, and how they are fitted.

A fit is exchanges with sites: common units, rounds that find features, a path by elimination, a choice, a closing. All
of it goes through `simulate`, over a table at hand or over Flower, and sees sums over the sites alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import ceil, prod
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._support.optional import needs
from .._support.tables import check_features
from .._support.validation import (
    as_array,
    as_labels,
    as_numbers,
    check_bool,
    check_integer,
    check_kind,
    check_number,
    check_option,
    check_sequence,
    refuse_missing,
    short_repr,
)
from .._support.warnings import (
    advise_once,
    suppress_advice,
    warn_of_few_rows,
    warn_of_small_batches,
    warn_user,
)
from ..aggregation import Aggregator
from ..callbacks import History, Run, stop_when_stalled
from ..federation import check_cohort
from ..fedgradmp import FedGradMP
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..privacy.ledger import Ledger
from ..privacy.noise import GaussianNoise
from ..privacy.secure_sums import SecureSum, TooLarge
from ..rounds import Method
from ..selection import PerAtom, PerOutput, Selection
from ..shared_support.elimination import backwards
from ..shared_support.method import SharedState, SharedSupportGradMP
from ..shared_support.newton import SETTLED, NewtonOnSupport, Separated, SupportState
from ..shared_support.sketches import CountSketch
from ..simulation import Result, simulate_part
from ..sparse_model import Array, SparseModel
from .model_files import model_to_json
from .sites import BeyondRange, Sums, Table, folds_at, group_of_each, groups_of, some_of

_SIZES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_TRIES = 100
_PASSES, _STEPS, _GAIN = 12, 4, 0.01
_ONES = 64.0  # the column of the intercept, so that the ridge weighs 1/4096 on it
_FORWARD_RIDGE, _LEAST_RIDGE = (
    4,
    1e-4,
)  # while features are sought: merged supports are separable more often
_BEYOND = 20  # a path begins at so many features
# Least squares of m noisy rows on k columns have an excess error of k / (m - k - 1) times the noise, if features are
# Gaussian: without bound at m = k, where they interpolate, and no more than the noise itself where m > 2 k.
_ENOUGH = 2  # rows for a coefficient
_FOLD_ROUNDS = 5
_DENSE = 5000  # features that `sparsity="all"` takes: their Hessian has 12 million numbers
_TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "rejected")

_IN_SKLEARN = "inside scikit-learn that is set_{}_request(groups=True), with its metadata routing"

Units = dict[str, Any]


class Common(NamedTuple):
    """What sites have in common: units, which columns are constant, and means of columns and targets in the table."""

    units: Units
    constant: Array
    means: Array


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
        with needs("a plot", "matplotlib"):
            import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        ax.errorbar(*self.table.values(), fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        ax.set(xlabel="sparsity", ylabel="held-out loss and its\nstandard error over the sites")
        ax.legend()
        return ax


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What the resamples found.

    Attributes
    ----------
    coef, estimate : ndarray, shape (n_resamples, n_outputs, n_features), and (n_outputs, n_features)
        The coefficients of the resamples, and of the fit itself, in the units of the data; `names` of the features.
    """

    coef: Array
    estimate: Array
    names: tuple[str, ...]

    @property
    def inclusion(self) -> Array:
        """The share of resamples that hold each feature, shape (n_features,)."""
        return np.asarray(np.any(self.coef != 0, axis=1).mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Percentiles of the coefficients, where a feature that was not taken counts as zero; shape as `estimate`."""
        level = check_number("level", level, above=0, at_most=1)
        return tuple(np.quantile(self.coef, [(1 - level) / 2, (1 + level) / 2], axis=0))

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Inclusion frequencies of the `most` frequent that were found, those of the fit filled; matplotlib's axes."""
        with needs("a plot", "matplotlib"):
            import matplotlib.pyplot as plt

        most = min(check_integer("most", most), max(int(np.count_nonzero(self.inclusion)), 1))
        ax = (
            plt.subplots(figsize=(6.4, 1.2 + 0.22 * most), layout="constrained")[1]
            if ax is None
            else ax
        )
        order = np.argsort(-self.inclusion, kind="stable")[:most][::-1]
        colors = np.where(np.any(self.estimate != 0, axis=0)[order], "#0072B2", "white")
        ax.barh(np.arange(len(order)), self.inclusion[order], color=colors, edgecolor="#0072B2")
        names = [self.names[j] for j in order]
        ax.set_yticks(np.arange(len(order)), names, parse_math=False)  # a price in $ is no formula
        ax.set(xlabel=f"share of {len(self.coef)} resamples (filled: in the fit)", xlim=(0, 1))
        return ax


class Fit:
    """A fit under way: an estimator, for its parameters, the sites, and what is the same in every exchange with them.

    `ridge` is the weight of half the squared norm of the coefficients beside the mean loss, 1 / (C W); `first` whether
    a column for the intercept leads; `own` whether each site has an intercept of its own; `spent` adds up what every
    exchange cost; `say` is told where the fit is, every round of the method, and the unit of its objective.
    """

    def __init__(
        self,
        given: Any,
        sites: Any,
        seed: int,
        aggregator: Aggregator | None,
        say: Callable[..., Any],
    ) -> None:
        self.estimator, self.sites, self.seed, self.aggregator, self.say = (
            given,
            sites,
            seed,
            aggregator,
            say,
        )
        self.shape, self.loss, self.spent = sites.shape, sites.shape.loss, Counter[str]()
        self.squared, self.n_outputs = (
            isinstance(self.loss, SquaredLoss),
            prod(self.loss.model_shape(1)[1:]),
        )
        self.own, self.steps = isinstance(given.fit_intercept, str), 1 if self.squared else _STEPS
        self.first = int(bool(given.fit_intercept) and not self.own)
        always_include = (0,) * self.first  # which does not count
        self.selection: Selection = (
            PerAtom(always_include)
            if isinstance(self.loss, SoftmaxLoss)
            else PerOutput(always_include)
        )
        self.ridge = float(1 / (given.C * sites.weight))
        self.forward_ridge = max(_FORWARD_RIDGE * self.ridge, 0 if self.squared else _LEAST_RIDGE)

    def run(self, method: Method, transport: Any, rounds: int = 1, **options: Any) -> Result:
        """Every exchange with the sites: in silence, for the fit says itself what there is to say."""
        result = simulate_part(
            method, transport, rounds, rng=self.seed, aggregator=self.aggregator, **options
        )
        self.spent.update({name: result.history[name][-1] for name in _TOTALS})
        if result.history["round"][-1] and not result.history["clients"][-1]:
            rejected = dict(result.rejected)
            if rejected.get("withheld"):
                gone = some_of(self.sites.absent, 5) or "a site"
                raise RuntimeError(
                    f"{gone} left in the middle of a fit under masks ({rejected}): a sum without it, beside those of "
                    "before, would be its own; fit again once all are there"
                )
            raise RuntimeError(
                f"no site answered {type(method).__name__}: {rejected}; see their logs"
            )
        return result

    def told(self, method: Method, transport: Any, state: Any = ()) -> Any:
        """The state after exchanges whose objective nobody is asked for."""
        return self.run(method, transport, state=state, history=History(objective_on=0)).state

    def fit(self, grid: Sequence[int]) -> tuple[Array, Array]:
        """The model in the units of the table, its first row the intercept, and which columns are constant.

        The grid has the one sparsity, or those that ``"cv"`` chooses from; how the model was found is set.
        """
        given, private, sparsity = self.estimator, self.estimator.private is not None, grid[0]
        common = self.agree()
        units, before, history, n_rounds, method = common.units, Counter(self.spent), {}, 0, "all"
        if given.sparsity == "all":
            start = self.base(units).dense()
            model = SparseModel(np.arange(start.size), start.reshape(-1), start.shape)
        else:
            most, method = how = (sparsity, "fedgradmp") if private else self.beyond(grid)
            model, result = self.forward(units, None, how, given.rounds)
            n_rounds = int(result.history["round"][-1])
            history = result.history | {
                name: result.history[name] + before[name] for name in _TOTALS
            }
            models = {most: model} if private else self.path(units, None, model)
            if given.sparsity == "cv":
                given.cv_ = self.by_cross_validation(grid, how, units["unit"])
                sparsity = given.cv_.chosen
            model = models[min(sparsity, max(models))]
        if not private:
            closed = self.closed(units, model, given.polish or method == "all")
            model, history = (
                closed.state.model,
                history or {name: row[:1] for name, row in closed.history.items()},
            )
            last = closed.history | {name: [float(self.spent[name])] for name in _TOTALS}
            history = {name: np.append(column, last[name][-1]) for name, column in history.items()}
            history["objective"] = objective = history["objective"] * units["unit"] ** 2
            if (
                objective[0] - objective[-1]
                <= 4 * float(np.finfo(self.shape.dtype).eps) * objective[0]
            ):
                model = self.base(units)  # what lowers the objective by rounding only
        given.method_, given.sparsity_, given.n_iter_, given.history_ = (
            method,
            sparsity,
            n_rounds,
            history,
        )
        table = self.in_the_table(units, model)
        if self.own:
            intercepts = self.intercepts(common, table)
            if given.secure:  # those of single sites are for nobody
                table[0] = intercepts[0]
            else:
                table[0] = self.shape.weights @ intercepts
                given.intercepts_ = dict(
                    zip(given.groups_.tolist(), intercepts.tolist(), strict=True)
                )
        return table, common.constant

    def beyond(self, grid: Sequence[int]) -> tuple[int, str]:
        """At how many features the path begins, and the method: one for the path, the folds and the fit."""
        p, weight, method, largest = (
            self.shape.n_features,
            self.sites.weight,
            self.estimator.method,
            grid[-1],
        )
        least = round(weight * min(self.shape.weights))  # a row of weight 2 counts as two rows
        most = max(min(p, max(_BEYOND, ceil(2.5 * largest)), round(weight) // 3), largest, 1)
        if p > weight:  # then 3 T features may interpolate what trains
            most = max(min(most, self.estimator._reach(round(weight))), largest, 1)
        if method == "auto":
            method = "fedgradmp" if least > _ENOUGH * self.columns(most) else "shared"
        elif method == "fedgradmp":  # as far as the rows of the smallest site reach
            most = max(min(most, (least // _ENOUGH - 1) // 3), largest, 1)
        return most, method

    def columns(self, sparsity: int) -> int:
        """The most that a client of FedGradMP solves for: 2 tau and tau features, or all, and the intercept."""
        return min(3 * sparsity, int(self.shape.n_features)) + bool(self.estimator.fit_intercept)

    def agree(self, fold: Any = None) -> Common:
        """Units as `seen` takes them, and where intercepts `start`: by sums over the sites, of the rows that train.

        Rows are never put together. A constant column has the factor 0, and where the targets are constant every one.
        With noise the units are those of the table.
        """
        given, shape, p = self.estimator, self.shape, self.shape.n_features
        about = "own" if self.own else "mean" if self.first else "zero"
        size = p + getattr(self.loss, "n_classes", 1 if self.squared else 2)
        unit, mean, square = np.outer([1.0, 0.0, 1.0], np.ones(size))
        if given.private is None:
            question = Sums("moments", (size,), (about, given.secure))
            unit, mean, square = question.moments(
                self.told(question, self.sites.transport(fold=fold))
            )
        rounding = (sum(shape.rows) * np.finfo(np.float64).eps) ** 2
        constant = square <= rounding * (square + mean**2 * (about != "zero"))
        is_flat = self.squared and bool(
            constant[p]
        )  # targets whose deviations are rounding have nothing to find
        constant = constant[:p]
        standardised = not self.sites.sparse if given.standardize == "auto" else given.standardize
        scales = (
            np.where(constant, 1, np.sqrt(square[:p])) * unit[:p] if standardised else np.ones(p)
        )
        means, spread = (
            mean * unit,
            float((abs(mean[p]) if is_flat else np.sqrt(square[p])) * unit[p]),
        )
        logs = np.log(
            np.maximum(means[p:], 1 / (2 * sum(shape.rows)))
        )  # no row of a class is half a row
        factors, centre = self.as_subtracted(
            np.where(constant, 0, 1 / scales), means[:p] * self.first
        )
        units = {
            "factors": factors * (not is_flat),
            "centre": centre,
            "level": float(means[p]) if self.squared and self.first else 0.0,
            "unit": 2.0 ** round(np.log2(spread))
            if self.squared and spread
            else 1.0,  # so that no sum is large
            "own": self.own,
            "ones": _ONES * self.first,
            "start": np.zeros(1)
            if self.squared
            else logs - logs.mean()
            if self.n_outputs > 1
            else np.diff(logs),
        }
        return Common(units, constant, means)

    def as_subtracted(self, factors: Array, centre: Array) -> tuple[Array, Array]:
        """Factors and centre as a site has them in the precision of its table, for the intercept belongs to these."""
        precision = self.shape.dtype
        factors = factors.astype(precision).astype(np.float64)
        if not self.sites.sparse:
            return factors, centre.astype(precision).astype(np.float64)
        shift = (
            (centre * factors).astype(precision).astype(np.float64)
        )  # is what leaves every row of a sparse table
        return factors, np.divide(shift, factors, out=centre.copy(), where=factors != 0)

    def base(self, units: Units) -> SparseModel:
        """The model without features: zero, or the intercept that gives every class its share of the rows."""
        values = (units["start"] / (units["ones"] or 1))[: self.first * self.n_outputs].astype(
            self.shape.dtype
        )
        return SparseModel(
            np.arange(len(values)),
            values,
            self.loss.model_shape(self.first + self.shape.n_features),
        )

    def forward(
        self, units: Units, fold: Any, how: tuple[int, str], rounds: int
    ) -> tuple[SparseModel, Result]:
        """The rounds of the method, from the model without features: the best model on record."""
        given, ones, most = self.estimator, units["ones"], how[0]
        if how[1] == "fedgradmp":
            units = units | {"ones": float(self.first)}
            method: Method = FedGradMP(
                most, given.local_iterations, given.batch_size, selection=self.selection
            )
            # With noise no state is taken, and the model without features is the method's own start.
            state: Any = self.base(units) if given.private is None else None
        else:
            # The gradient itself: the moments have cost three times as much, and of many features and few rows a
            # sketch hides those that are sought.
            gradient = CountSketch(rows=1, columns=max(self.first + self.shape.n_features, 2))
            solver = NewtonOnSupport(ridge=self.forward_ridge, allow_inexact=True)
            method = SharedSupportGradMP(
                most, gradient, solver, selection=self.selection, pruning="largest"
            )
            state = SharedState(self.base(units))
        transport = self.sites.transport(units, fold)
        cohort = given.cohort_size and min(given.cohort_size, len(transport.weights))
        where = "all rows" if fold is None else f"without fold {fold[0] + 1} of {fold[1]}"
        callbacks: list[Any] = [lambda run: self.say(where, run, units["unit"] ** 2)]
        callbacks += [stop_when_stalled(3, improvement=given.tol)] if given.private is None else []
        result = self.run(
            method, transport, rounds, cohort_size=cohort, state=state, callbacks=callbacks
        )
        # The start may be the best on record, but the path is to have features, and a closing exchange lowers the loss.
        goes_on = result.best.round == 0 and np.isfinite(result.coefficients).all()
        found = np.array(result.coefficients if goes_on else result.best.coefficients)
        found[: self.first] *= units["ones"] / (ones or 1)
        return SparseModel.of(found), result

    def point(self, model: SparseModel) -> SupportState:
        """A model with all outputs of its atoms, and the intercept."""
        positions = np.add.outer(model.atoms * self.n_outputs, np.arange(self.n_outputs)).reshape(
            -1
        )
        support = self.selection.add_always_included(positions, model.shape)
        return SupportState(SparseModel(support, model.on(support), model.shape))

    def path(self, units: Units, fold: Any, found: SparseModel) -> dict[int, SparseModel]:
        """The minimiser on the features that were found, and from its Hessian one feature after another less."""
        models = {0: self.base(units)}
        if len(found.atoms) > self.first:
            solve = NewtonOnSupport(self.steps, self.forward_ridge)
            end = self.told(solve, self.sites.transport(units, fold), self.point(found))
            b, curvature = end.model, end.curvature.astype(np.float64)
            models[len(b.atoms) - self.first] = b
            for left, positions, values in backwards(b, curvature, self.selection):
                models[left] = SparseModel(
                    b.support[positions], values.astype(b.values.dtype), b.shape
                )
        return models

    def closed(self, units: Units, model: SparseModel, polish: bool) -> Result:
        """A run to the minimiser on the features of a model; of no round, where it is to stay as it is."""
        rounds = (1 if self.squared else _PASSES) if polish and len(model.atoms) > self.first else 0
        solve, stalled = (
            NewtonOnSupport(self.steps, self.ridge),
            stop_when_stalled(1, improvement=_GAIN),
        )

        def converged(run: Run) -> bool:
            return stalled(run) and run.step.state.moved <= SETTLED

        result = self.run(
            solve, self.sites.transport(units), rounds, state=self.point(model), callbacks=converged
        )
        if result.state.moved > SETTLED:
            did = f"did not converge in {_PASSES * _STEPS} Newton steps on {len(model.atoms) - self.first} features"
            warn_user(
                f"the closing exchanges {did}; a smaller C, or fewer features, makes them",
                ConvergenceWarning,
            )
        return result

    def in_the_table(self, units: Units, model: SparseModel) -> Array:
        """Intercept and coefficients in the units of the table, shape (1 + n_features, ...), in float64."""
        standard, unit, first = model.dense().astype(np.float64), units["unit"], self.first
        coef = (standard[first:].T * units["factors"]).T * unit
        lead = (
            standard[:first].sum(axis=0) * units["ones"] * unit
            + units["level"]
            - units["centre"] @ coef
        )
        return np.concatenate([np.reshape(lead, (1, *coef.shape[1:])), coef])

    def intercepts(self, common: Common, table: Array) -> Array:
        """Of each site its own; the mean of the others' for one that does not say. Under masks the mean alone."""
        p, coef = self.shape.n_features, SparseModel.of(table[1:])
        indices, level, unit = len(self.shape.rows), 0.0, 1.0
        if self.estimator.secure:  # so that masks have numbers near one to hide
            indices = 1
            level = float(common.means[p] - common.means[:p] @ table[1:])
            unit = common.units["unit"]
        question = Sums("intercepts", (2, indices), (level, unit))
        _, (sums, said) = self.told(question, self.sites.transport(), (coef,))
        found = np.where(said > 0, sums / np.where(said > 0, said, 1), sums.sum() / said.sum())
        return np.asarray(level + unit * found)

    def by_cross_validation(
        self, grid: Sequence[int], how: tuple[int, str], unit: float
    ) -> SparsityPath:
        """Each site holds out a fold of its rows at a time; the others choose units, features and models afresh."""
        n_folds, tables, learnt = self.estimator.n_folds, [], 0
        least = self.sites.least
        folds = np.array([folds_at(count, n_folds, least) for count in self.shape.rows])
        judges = folds > 0
        if not judges.any():
            few = f"n_folds is {n_folds}, and no group has rows for two folds of min_rows={least}"
            raise ValueError(
                f"{few}; expected larger groups, a smaller min_rows, or a sparsity that is a number"
            )
        if len(folds) > 1 and folds.min() < n_folds:
            warn_user(
                f"{np.count_nonzero(folds < n_folds)} of {len(folds)} groups have fewer than n_folds * min_rows = "
                f"{n_folds * least} rows: they deal fewer folds, and {np.count_nonzero(~judges)} hold out nothing, or "
                "sums would show fewer than min_rows rows; a smaller n_folds helps"
            )
        n_folds = int(folds.max())
        for number in range(n_folds):
            fold = (number, n_folds, self.seed, least)
            units, constant, _ = self.agree(fold)
            along = {0: self.base(units)}
            learnt += not constant.all()
            if units["factors"].any():
                found, _ = self.forward(units, fold, how, min(_FOLD_ROUNDS, self.estimator.rounds))
                along = self.path(units, fold, found)
            tables += [self.in_the_table(units, along[min(tau, max(along))]) for tau in grid]
        if not learnt:
            raise ValueError(
                f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more of either"
            )
        known = (
            np.array([table[0].reshape(-1) for table in tables]),
            *(SparseModel.of(table[1:]) for table in tables),
        )
        question = Sums("held_out", (2 + n_folds, len(grid)), (self.seed, least, self.own, unit**2))
        # Who holds out nothing says zero, and the means are over the others.
        judged = float(self.shape.weights[judges].sum())
        score, squares, *by_fold = self.told(question, self.sites.transport(), known)[-1] / judged
        shares = self.shape.weights[judges] / judged
        spread = n_folds * np.var(by_fold, axis=0, ddof=1)  # of one site: over its folds
        if len(shares) > 1:
            spread = (
                np.maximum(squares - score**2, 0)
                * (shares @ shares)
                * len(shares)
                / (len(shares) - 1)
            )
        errors = np.sqrt(spread) * unit**2
        return SparsityPath(
            {"sparsity": np.array(grid), "score": score * unit**2, "standard_error": errors}
        )


def _random_state(given: Any) -> Any:
    """scikit-learn's `check_random_state`, whose error names no argument."""
    try:
        return check_random_state(given)
    except ValueError:
        expected = "an integer from 0 to 4294967295, a numpy.random.RandomState or None, as in scikit-learn"
        raise ValueError(f"random_state is {short_repr(given)}; expected {expected}") from None


def refuse_squares_beyond(X: Any, y: Array | None, named: Callable[..., str]) -> None:
    """Raise a ValueError where sums of squares, which a fit is made of, are beyond all floats.

    A mark for what is missing, such as 1.8e308, is finite, and passes for a number.
    """
    expected = "no float holds the sum of their squares; expected smaller numbers, and rows without marks for no data"
    with np.errstate(over="ignore"):
        if y is not None and not np.isfinite(np.sum(np.square(y, dtype=np.float64))):
            raise ValueError(f"y holds numbers as large as {np.abs(y).max():.2g}: {expected}")
        if X.dtype != np.float64:  # squares of float32 are summed in float64
            return
        values = X.data if issparse(X) else X
        if np.isfinite(np.einsum("i,i->" if issparse(X) else "ij,ij->", values, values)):
            return
        squares = X.multiply(X).sum(axis=0) if issparse(X) else np.einsum("ij,ij->j", X, X)
    beyond = ~np.isfinite(np.asarray(squares).reshape(-1))
    if beyond.any():
        raise ValueError(
            f"X holds in the columns {named(beyond, 10)} numbers so large that {expected}"
        )


@dataclass(eq=False, repr=False)
class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Fitting, and the bootstrap; parameters as `FedGradMPRegressor` has them."""

    sparsity: int | str | None = None
    _: KW_ONLY
    method: str = "auto"
    fit_intercept: bool | str = True
    standardize: bool | str = "auto"
    polish: bool = True
    C: float = np.inf
    rounds: int = 20
    tol: float = 1e-2
    cohort_size: int | None = None
    local_iterations: int = 3
    batch_size: int | None = None
    sparsities: Sequence[int] | None = None
    n_folds: int = 5
    min_rows: int = 5
    secure: bool = False
    private: GaussianNoise | None = None
    random_state: Any = None

    def _check(self) -> None:
        """Every parameter by itself; the sparsities wait for the features."""
        check_option("method", self.method, ("auto", "fedgradmp", "shared"))
        check_bool("standardize", self.standardize, "auto")
        check_bool("fit_intercept", self.fit_intercept, *["per_group"] * (not is_classifier(self)))
        check_bool("polish", self.polish)
        check_bool("secure", self.secure)
        check_integer("n_folds", self.n_folds, at_least=2)
        for name in ("rounds", "local_iterations", "min_rows", "cohort_size", "batch_size"):
            if getattr(self, name) is not None or name not in ("cohort_size", "batch_size"):
                check_integer(name, getattr(self, name))
        check_number("tol", self.tol, at_least=0)
        if not (isinstance(self.C, float) and self.C == np.inf):
            check_number("C", self.C, above=0)
        check_kind("private", self.private, (GaussianNoise, type(None)), "a GaussianNoise or None")

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            Of a sparse one nothing is made dense but the columns of the support.
        y, groups : array_like, shape (n_samples,)
            Numbers, or of a classifier labels: numbers or text. And whose row it is, by default all
            of one group.
        sample_weight : array_like, shape (n_samples,), optional
            A row of weight 2 counts as two rows; one of weight 0 is as if it were not there.
        """
        self._check()
        given = X, y, groups
        X, y = self._validated(X, self._validated_targets(y), ensure_min_samples=2)
        refuse_squares_beyond(X, None if is_classifier(self) else y, self._named)
        if sample_weight is not None:
            sample_weight = as_numbers("sample_weight", sample_weight)
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        if groups is None and self.fit_intercept == "per_group":
            advise_once(
                "fit without groups",
                "fit_intercept is 'per_group', and no groups are given: all rows are one group, with one intercept. "
                f"fit takes groups=...; {_IN_SKLEARN.format('fit')}",
            )
        # With noise numbers of rows are data: nothing may depend on them.
        least = self.min_rows if self.private is None else 1
        labels, codes, weights = groups_of(len(y), groups, weights, least)
        if self.secure and len(labels) < 2:
            raise ValueError(
                "secure is True, and all rows are one group; expected at least two, whose masks hide what each sends. "
                f"fit takes groups=...; {_IN_SKLEARN.format('fit')}"
            )
        targets, loss, weighed = self._targets(y, weights)
        self.groups_ = labels[np.unique(codes[weights > 0])]
        least = self.min_rows if groups is not None and self.private is None else 1
        self._fit_over(Table(X, targets, weighed, codes, loss, least))
        self._given = *given, weights, np.where(weights > 0, codes, -1)
        return self

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X, or X and y, as scikit-learn checks them; columns without finite numbers are named."""
        X = check_features(X)
        if not isinstance(y, str):
            options["y_numeric"] = not is_classifier(self)
        try:
            return validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
            )
        except ValueError as error:
            if "X contains NaN" not in str(error) and "X contains infinity" not in str(error):
                raise
            found = check_array(X, accept_sparse="csc", ensure_all_finite=False)
            bad = ~np.isfinite(found.data) if issparse(found) else ~np.isfinite(found)
            if issparse(found):
                bad = type(found)((bad, found.indices, found.indptr), shape=found.shape)
            where = self._named(np.asarray(bad.sum(axis=0)).reshape(-1) > 0, 10)
            raise ValueError(
                f"{error}\nIt is in the columns {where}; expected numbers there."
            ) from None

    def _validated_targets(self, y: Any) -> Any:
        """Numbers, or labels of one kind, none of them missing; scikit-learn refuses None."""
        if y is None:
            return None
        if is_classifier(self):
            return as_labels("y", y, "a label")
        array = as_array("y", y)
        if array.dtype.kind == "O":
            refuse_missing("y", array, "a number")
        return as_numbers("y", array)

    def fit_sites(
        self, sites: Any, groups: Any, names: Any, classes: Any, say: Callable[..., Any]
    ) -> Self:
        """Fit to sites whose rows are elsewhere; `fgmp.flower.fit_over` calls it."""
        self._check()
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(
                f"class_weight is {self.class_weight!r}; expected None where rows are elsewhere"
            )
        self.groups_ = np.asarray(groups)
        self.n_features_in_, self.feature_names_in_ = len(names), np.asarray(names, object)
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self._fit_over(sites, say)
        return self

    def _fit_over(self, sites: Any, say: Callable[..., Any] = lambda *told: None) -> None:
        shape, rows = sites.shape, list(sites.shape.rows)
        check_cohort(self.cohort_size, len(rows))
        if self.secure and (self.cohort_size or len(rows)) < len(rows):
            found = f"cohort_size is {self.cohort_size} of {len(rows)} groups with secure=True"
            raise ValueError(
                f"{found}; expected None: sums of other cohorts subtract to single groups"
            )
        grid = self._grid(shape.n_features, sum(rows))
        for of_the_last_fit in ("cv_", "intercepts_"):
            self.__dict__.pop(of_the_last_fit, None)
        fit = Fit(
            self,
            sites,
            int(_random_state(self.random_state).randint(2**31 - 1)),
            self._reducer(),
            say,
        )
        try:
            table, constant = fit.fit(grid)
        except Separated as error:
            found = "The classes are separated without error on the features taken"
            if error.in_part:
                found = "The classes are separated in part on the features taken, and no row is against it"
            why = f"{found}, so that their coefficients have no bound with C={self.C!r}"
            raise ValueError(f"{why}; a finite C gives them one.") from None
        except BeyondRange as error:
            is_beyond = np.isin(np.arange(shape.n_features), error.columns)
            where = (
                f"X has columns {self._named(is_beyond, 10)}"
                if is_beyond.any()
                else "y has numbers"
            )
            found = f"{where} that one site counts in units too far from those of the others for sums under masks"
            raise ValueError(f"{found}; expected the same units at all sites") from None
        except TooLarge as error:
            raise ValueError(self._beyond_masks(fit, error)) from None
        model = table.reshape(len(table), -1)
        self.coef_, self.intercept_ = model[1:].T.copy(), model[0].copy()
        self.support_ = np.flatnonzero(np.any(self.coef_ != 0, axis=0))
        if not is_classifier(self):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        self._advise(constant, rows, fit.columns(self.sparsity_))

    def _beyond_masks(self, fit: Fit, error: TooLarge) -> str:
        """What a site cannot add under masks; the columns, where the sum has a number for each coefficient."""
        n_features, where = fit.shape.n_features, "X or y has"
        if error.size == (fit.first + n_features) * fit.n_outputs:
            at = np.unique(error.indices // fit.n_outputs) - fit.first
            is_beyond = np.isin(np.arange(n_features), at)
            where = (
                f"X has in the columns {self._named(is_beyond, 10)}" if is_beyond.any() else where
            )
        found = f"{where} units in which {error}"
        return f"{found}; standardize=True and the same units at all sites bring them there"

    def _advise(self, constant: Array, rows: list[int], columns: int) -> None:
        """Say which columns have no part, whether rounds ran out or no feature was taken, and which sites are small."""
        if constant.any():
            found = "constant, or so small that their squares are zero"
            warn_user(
                f"Features {self._named(constant, 20)} are {found}: their coefficients are zero."
            )
        objective = self.history_.get("objective", np.zeros(1))[: self.n_iter_ + 1]
        enough = self.tol * (objective[0] - objective[-1])
        if self.n_iter_ == self.rounds > 1 and (-np.diff(objective)[-1:] > enough).any():
            did = f"the last of {self.rounds} did more than tol={self.tol:g} of what all did to the objective"
            warn_user(
                f"the rounds ran out: {did}; with more rounds the features may be better",
                ConvergenceWarning,
            )
        if not len(self.support_) and self.sparsity == "cv" and self.sparsity_ == 0:
            warn_user(
                "no feature is in the model: rows that were held out are predicted as well without, see cv_.table"
            )
        elif not len(self.support_):
            warn_user("no feature is in the model: none that was tried lowers the loss on all rows")
        if (
            self.method_ == "fedgradmp" and self.private is None
        ):  # of which numbers of rows are data
            warn_of_small_batches(self.batch_size, rows)
            if not is_classifier(self):
                warn_of_few_rows(columns, rows, _ENOUGH * columns)

    def _named(self, columns: Array, most: int) -> str:
        names = getattr(self, "feature_names_in_", np.arange(len(columns)))
        return f"[{some_of(names[columns].tolist(), most)}]"

    def _reducer(self) -> Aggregator | None:
        """Who adds up: plainly, under masks, or with noise, of which nothing may be exact beside it."""
        if self.private is None:
            return SecureSum(ledger=Ledger()) if self.secure else None
        exact = {
            name: getattr(self, name)
            for name in ("standardize", "fit_intercept", "polish", "secure")
        }
        exact |= {"sparsity": isinstance(self.sparsity, str), "method": self.method == "shared"}
        if wrong := ", ".join(
            f"{name}={getattr(self, name)!r}" for name, given in exact.items() if given
        ):
            found = f"private is given with {wrong}: units, paths, masks and closing exchanges have no noise"
            expected = "integer sparsity, no method 'shared', and standardize, fit_intercept, polish and secure False"
            raise ValueError(f"{found}; expected an {expected}")
        return self.private

    def _grid(self, n_features: int, n_rows: int) -> list[int]:
        """The sparsities to try, increasing; one, where it is given."""
        about, word = (
            "the number of features",
            self.sparsity if isinstance(self.sparsity, str) else None,
        )
        if word == "all" and n_features > _DENSE:
            raise ValueError(
                f'X has {n_features} features; expected at most {_DENSE} with sparsity="all"'
            )
        if self.sparsity is None or word == "all":
            return [min(10, n_features) if word is None else n_features]
        if word != "cv":
            about += "; or 'all', 'cv', None"
            return [
                check_integer("sparsity", self.sparsity, at_least=0, at_most=n_features, why=about)
            ]
        if self.sparsities is None:
            most = max(n_rows // 2, 1)
            if n_features > n_rows:
                most = self._reach(n_rows)
            return [tau for tau in _SIZES if tau <= min(n_features, most)]
        given = check_sequence("sparsities", self.sparsities, "a sequence of integers, or None")
        check_integer("the number of sparsities", len(given))
        return sorted(
            {
                check_integer("sparsities", tau, at_least=0, at_most=n_features, why=about)
                for tau in given
            }
        )

    def _reach(self, n_rows: int) -> int:
        """The most features where these outnumber the rows: a merged support has three times as many."""
        share = 1 - 1 / self.n_folds if self.sparsity == "cv" else 1.0
        return max(int(n_rows * share) // (3 * _ENOUGH), 1)

    def bootstrap(
        self, n_resamples: int = 200, over: str = "groups", *, random_state: Any = None
    ) -> Bootstrap:
        """How often each feature is found again, and between which bounds its coefficient lies.

        The sparsity is the one that the fit has settled on, and every resample starts afresh from the model without
        features. A group drawn twice counts twice as much, and is one client still. The data are those that `fit` was
        called with, to which the estimator keeps a reference: a pickle, or a copy, holds nothing of them.

        Parameters
        ----------
        n_resamples : int, default 200
        over : {"groups", "rows"}
            What is drawn with replacement: whole groups, of which there are at least two, or rows within each group.
        random_state : int, RandomState or None

        Raises
        ------
        ValueError
            Of a model with `private` noise too: every resample would spend its epsilon again.
        """
        check_is_fitted(self)
        if not hasattr(self, "_given"):
            raise ValueError(
                "the model has no rows: it was fitted over a network, or is a copy, with which data do not travel; "
                "expected a model that `fit` was called on in this process"
            )
        check_option("over", over, ("groups", "rows"))
        if over == "groups" and len(self.groups_) < 2:
            raise ValueError(
                "groups has one group; expected at least two for over='groups' (or over='rows')"
            )
        if self.private is not None:
            raise ValueError(
                "private is given, and every resample would spend its epsilon again; expected private=None. Resample "
                "within a budget of your own: fit to other rows, and add up what each fit spends"
            )
        (X, y, groups, weights, codes), rng, fits = self._given, _random_state(random_state), []
        for _ in range(check_integer("n_resamples", n_resamples)):
            drawn = weights * self._drawn(np.asarray(y), codes, over, rng)
            again = clone(self).set_params(sparsity=self.sparsity_, min_rows=1)
            if self.cohort_size is not None:
                again.cohort_size = min(self.cohort_size, len(np.unique(codes[drawn > 0])))
            with suppress_advice():  # the fit has spoken
                fits.append(
                    np.atleast_2d(again.fit(X, y, groups=groups, sample_weight=drawn).coef_)
                )
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return Bootstrap(np.array(fits), np.atleast_2d(self.coef_), tuple(map(str, names)))

    def _drawn(self, y: Array, codes: Array, over: str, rng: Any) -> Array:
        """How often each row was drawn, alone or with its group; a draw that misses a class is drawn again."""
        groups, counts = (
            [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])],
            np.zeros(len(codes)),
        )
        for _ in range(_TRIES):
            sizes = [len(groups)] if over == "groups" else map(len, groups)
            draws = [rng.multinomial(size, np.full(size, 1 / size)) for size in sizes]
            for rows, times in zip(groups, draws[0] if over == "groups" else draws, strict=True):
                counts[rows] = times
            if np.isin(getattr(self, "classes_", []), y[counts > 0]).all():
                return counts
        raise ValueError(
            f"{_TRIES} draws in a row missed a class; expected classes in more groups (or over='rows')"
        )

    def to_json(self) -> str:
        """Return the fitted model as JSON, which `fgmp.estimators.model_from_json` reads: numbers and names, no pickle.

        It holds the coefficients, intercepts, names of columns, labels, groups that took part, and how the model was
        fitted; of the data nothing, and of `history_` and `cv_` neither.
        """
        check_is_fitted(self)
        return model_to_json(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_given"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class FedGradMPRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]
    """Linear regression on a few features, fitted over groups that keep their rows to themselves.

    Each group is one client. The groups send sums, for common units; FedGradMP, or its relative with a shared support,
    finds more features than are asked for; from the pooled Hessian on these one after another is dropped whose loss
    raises the objective least; and a closing exchange solves on those that are left, with the sums of all groups.

    Parameters
    ----------
    sparsity : int, {"cv", "all"} or None
        tau, the number of features: from 0 to all. ``"cv"`` chooses it on rows that each group holds out. ``"all"`` is
        the dense model, by the same sums, for up to 5,000 features. None is 10, or all where there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        Who finds the features: ``"auto"`` is `fgmp.FedGradMP`, but `fgmp.SharedSupportGradMP` where the smallest group
        has no more than twice as many rows as a client solves for coefficients: 3 T, or all features, and an
        intercept. The path begins at T: 20, or 2.5 tau, but no more than all features or a third of the rows, and
        where features outnumber the rows a sixth of those that train. ``"shared"`` asks for whole gradients.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` lets each group centre its own rows, as the within estimator for panel data does.
    standardize : {"auto"} or bool
        Whether features compete for the support in units of their standard deviation (about zero, where there is no
        intercept). ``"auto"`` does so where X is dense: in units of deviations a word that hardly occurs weighs as
        much as any other.
    polish : bool, default True
        Whether a closing exchange solves on the support that was found.
    C : float, default inf
        The closing exchange adds half the squared norm of the coefficients (in standardised units, without the
        intercept) to C times half the sum of squares: the ridge 1/C. ``np.inf`` adds nothing.
    rounds, tol : int, default 20, and float, default 1e-2
        The most rounds; a run ends earlier where three in a row improve the objective by less than this fraction, and a
        ConvergenceWarning says where the last of them still did more than this fraction of all.
    cohort_size, local_iterations, batch_size
        As in `fgmp.simulate` and `fgmp.FedGradMP`, in the rounds.
    sparsities, n_folds : sequence of int, optional, and int, default 5
        The sizes that ``"cv"`` chooses from, by default 0 to 6, 8, 10, 12, 15 and 20, no further than the features and
        half the rows, or a sixth of those that train where features outnumber the rows; and into how many folds each
        group deals its rows.
    min_rows : int, default 5
        Groups with fewer rows send nothing, and a warning says so: the mean of few rows is nearly a row. With ``"cv"``
        no group deals folds of fewer: one with less than ``n_folds * min_rows`` rows deals fewer folds, or none, and
        trains with all its rows then. Not applied with `private`, where numbers of rows are data.
    secure : bool, default False
        Whether every sum is one under masks, as by `fgmp.SecureSum`: over Flower the server sees sums over groups, and
        no combination of them rests on one group (docs/promises.md says who sees what, and unless). A fit ends where a
        group leaves, and `cohort_size` has no place in it.
    private : GaussianNoise, optional
        FedGradMP's rounds alone, with this noise: all else that a fit asks for are exact sums, so that `standardize`,
        `fit_intercept`, `polish` and `secure` have to be False, and `sparsity` a number. Every fit
        spends epsilon, so what repeats fits to the same rows (`cross_val_score`, `GridSearchCV`)
        spends it each time; `bootstrap` refuses.
    random_state : int, RandomState or None
        Of cohorts, minibatches and folds.

    Attributes
    ----------
    coef_, intercept_ : ndarray, shape (n_features,), and float
        In the units of the data; with ``fit_intercept="per_group"`` also `intercepts_`, a dict of those of the groups,
        but under masks: there their mean alone is known.
    support_, groups_ : ndarray
        The features with a coefficient that is not zero, and the groups that take part.
    sparsity_, method_, n_iter_ : int, str, int
        tau and the method, as given or chosen; and its rounds.
    history_ : dict of ndarray
        As that of `fgmp.simulation.Result`. The first entry includes the sums for the units; the last one is of the
        closing exchange, and its rounds and bytes are those of everything that was sent, a choice of tau included.
    cv_ : SparsityPath
        Where the sparsity was chosen.
    """

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Predictions, shape (n_samples,).

        With ``fit_intercept="per_group"`` and groups, shape (n_samples,), a row has the intercept of its group, or the
        mean one where that took no part; without groups all rows have the mean one, and an
        AdviceWarning says so.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        linear = safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_
        if not hasattr(self, "intercepts_"):
            return np.asarray(linear)
        if groups is None:
            if len(self.intercepts_) > 1:
                advise_once(
                    "predict without groups",
                    "each group has an intercept of its own, and no groups are given: all rows get the mean intercept. "
                    f"predict and score take groups=...; {_IN_SKLEARN.format('score')}",
                )
            return np.asarray(linear)
        names = group_of_each(len(linear), groups).tolist()
        strange = {name for name in names if name not in self.intercepts_}
        if strange:
            known = some_of(sorted(strange, key=lambda name: (type(name).__name__, str(name))), 5)
            warn_user(
                f"groups [{known}] took no part in the fit: their rows get the mean intercept"
            )
        own = [self.intercepts_.get(name, self.intercept_) for name in names]
        return np.asarray(linear - self.intercept_ + own)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """The coefficient of determination R^2 of ``predict(X, groups)``.

        In cross-validation ``set_score_request(groups=True)`` and scikit-learn's metadata routing
        pass the groups on.
        """
        y = self._validated_targets(y)
        return float(r2_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        return y.astype(np.float64, copy=False), SquaredLoss(), weights


@dataclass(eq=False, repr=False)
class FedGradMPClassifier(LinearClassifierMixin, SparseLinear):  # type: ignore[misc]
    """Logistic regression on a few features (softmax for several classes), over groups that keep their rows.

    Parameters and attributes are those of `FedGradMPRegressor`, but for the ones below. A feature counts once, whatever
    the number of classes.

    Parameters
    ----------
    fit_intercept : bool, default True
        An intercept for all groups, which is not one of the tau.
    C : float, default 1.0
        As in `sklearn.linear_model.LogisticRegression`: the closing exchange adds half the squared norm of the
        coefficients (in standardised units, without the intercept) to C times the summed log loss. ``np.inf`` adds
        nothing; classes that a few features separate, or some rows of them as by a flag that one class has, then have
        no finite model, and the fit is an error.
    class_weight : dict, "balanced" or None
        As in scikit-learn: what a row weighs by its class, beside `sample_weight`; above 0. ``"balanced"`` makes the
        sums of the sample weights of all classes alike.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        In log-odds per unit of the feature: of ``classes_[1]`` where there are two classes.
    intercept_, classes_ : ndarray, shape (1,) or (n_classes,); and (n_classes,)
    """

    C: float = 1.0
    class_weight: Any = None

    def decision_function(self, X: Any) -> Array:
        """Log-odds of ``classes_[1]``, shape (n_samples,), or scores of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class `predict` finds."""
        return float(super().score(X, self._validated_targets(y), sample_weight))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        z = self.decision_function(X)
        return np.asarray(
            log_softmax(z if z.ndim > 1 else np.column_stack([np.zeros_like(z), z]), axis=1)
        )

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """Signs, or codes from 0 for several classes; the loss; and what rows weigh with their classes."""
        check_classification_targets(y)
        positive = weights > 0
        self.classes_ = np.unique(
            y[positive]
        )  # a class of which every row has weight zero is not there
        n_classes = len(self.classes_)
        if n_classes < 2:
            found = f"the data contains only one class: {self.classes_[0]!r}"
            raise ValueError(
                f"This solver needs samples of at least 2 classes in the data, but {found}"
            )
        codes = np.searchsorted(self.classes_, y).clip(max=n_classes - 1)
        if self.class_weight is not None:
            weights = self._times_classes(weights, codes)
        return (
            (codes, SoftmaxLoss(n_classes), weights)
            if n_classes > 2
            else (2.0 * codes - 1, LogisticLoss(), weights)
        )

    def _times_classes(self, weights: Array, codes: Array) -> Array:
        """Weights of rows times those of their classes, all of which count: above zero, and finite."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(codes, weights)
            by_class = weights.sum(dtype=np.float64) / (len(totals) * totals)
        else:
            by_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_
            )
        for label, weight in zip(self.classes_.tolist(), by_class.tolist(), strict=True):
            if not 0 < weight < np.inf:
                expected = "a finite number above 0 (rows with a sample_weight of 0 are left out)"
                raise ValueError(
                    f"class_weight is {weight!r} for the class {label!r}; expected {expected}"
                )
        with np.errstate(over="ignore", under="ignore"):
            weighed = weights * by_class[codes]
        if not np.isfinite(weighed).all() or (weighed[weights > 0] == 0).any():
            found = "class_weight times sample_weight is zero or not finite for some rows"
            raise ValueError(f"{found}; expected products above 0 that a float holds")
        return np.asarray(weighed)
