"""A fit in standardised units: a method finds the support, a closing exchange solves on it; and a path of fits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from ..advice import quiet
from ..dictionaries import StandardBasis
from ..federation import Federation
from ..losses import SoftmaxLoss, SquaredLoss
from ..methods.fedgradmp import FedGradMP
from ..methods.polishing import OnSupport, with_closing_round
from ..methods.shared_support import Shared, SharedSupportGradMP
from ..methods.sketches import LargestEntries
from ..methods.support_solvers import NewtonOnSupport
from ..models import Array, SparseModel, Support
from ..rounds import Method
from ..selection import PerAtom, PerOutput
from ..simulation import Result, simulate, whole
from ..watching import stop_when_stalled
from .problem import Problem, Rows

__all__ = ["Fit", "Recipe", "SparsityPath", "by_cross_validation", "by_ebic", "folds_of", "judged"]

_PASSES, _STEPS, _PATIENCE = 12, 4, 5
_INTERCEPT_UNIT = 64.0  # of its column in the closing exchange, so that the ridge weighs 1/4096 on the intercept
_LEAST_RIDGE = 1e-4  # while the support is sought: merged supports are separable more often than the one kept


class Fit(NamedTuple):
    """What a fit leaves behind: the model in standardised units, the rounds of the method, and the history."""

    model: SparseModel
    n_rounds: int
    history: dict[str, Array]


@dataclass(frozen=True)
class Recipe:
    """How to fit a problem: the estimator, for its parameters, and what of them is settled.

    `ridge` is the weight of half the squared norm of the coefficients beside the mean loss.
    """

    parameters: Any
    method: str
    ridge: float
    seed: int

    def run(self, method: Method, federation: Federation, rounds: int, state: Any = None, watch: Any = ()) -> Result:
        """Every exchange with the sites: a run, in silence, for the best model is used and the fit says the rest."""
        cohort_size = self.parameters.cohort_size and min(self.parameters.cohort_size, federation.n_clients)
        with quiet():
            return whole(simulate(method, federation, rounds, cohort_size, self.seed, watch=watch, state=state))

    def along(self, problem: Problem, sparsity: int, before: SparseModel | None) -> Fit:
        """One step of a path: the better of two fits on the objective, from the base and from the step `before`.

        From the model before, a fit may stay with features that were best for a smaller model; from the model without
        features it may end in a worse one than the smaller. What lowers the objective of that by rounding only is that.
        """
        federation, starts = problem.federation, [None] if before is None else [None, before]
        fits = [self.fit(problem, sparsity, start) for start in starts]
        objectives = [federation.objective(fit.model) for fit in fits]
        best, without = int(np.argmin(objectives)), federation.objective(problem.base)
        gained = without - objectives[best] > 4 * float(np.finfo(federation.dtype).eps) * without
        return fits[best] if gained else fits[best]._replace(model=problem.base)

    def fit(self, problem: Problem, sparsity: int, start: SparseModel | None = None) -> Fit:
        """A model of `sparsity` features, sought from `start`: by default from the model without features."""
        polish, stop = self.parameters.polish, stop_when_stalled(3, improvement=self.parameters.tol)
        begin = problem.base if start is None else start
        state = Shared(begin) if self.method == "shared" else begin
        result = self.run(self._method(problem, sparsity), problem.federation, self.parameters.rounds, state, stop)
        # The start may be the best on record, but a step is to add to it, and the closing exchange lowers the loss.
        goes_on = result.best.round == 0 and (polish or start is not None)
        found = result.coefficients if goes_on and np.isfinite(result.coefficients).all() else result.best.coefficients
        fit = Fit(SparseModel.of(found), int(result.history["round"][-1]), result.history)
        return self._closed(problem, fit) if polish else fit

    def _method(self, problem: Problem, sparsity: int) -> Method:
        always = (0,) if problem.intercept else ()
        selection = PerAtom(always) if isinstance(problem.loss, SoftmaxLoss) else PerOutput(always)
        if self.method == "fedgradmp":
            own = self.parameters
            return FedGradMP(sparsity, own.local_iterations, own.batch_size, selection=selection)
        solver, sent = _solver(problem, max(self.ridge, _LEAST_RIDGE)), LargestEntries(2 * sparsity)
        return SharedSupportGradMP(sparsity, sent, solver, selection=selection, pruning="largest")

    def _closed(self, problem: Problem, fit: Fit) -> Fit:
        """The minimiser on the support, from the base: the loss has the most curvature where the model is small."""
        found, history, federation = fit.model, fit.history, problem.federation
        atoms = np.union1d(found.atoms, [0]) if problem.intercept else found.atoms
        if not len(atoms):
            return fit
        units = np.ones((len(atoms), *[1] * (len(found.shape) - 1)), federation.dtype)
        if problem.intercept and self.ridge > 0:
            units[0] = _INTERCEPT_UNIT
        columns = np.concatenate([client.columns(atoms) for client in federation.clients]) * units.reshape(-1)
        small, model = replace(federation, features=columns), problem.base.dense()[atoms] / units
        passes = 1 if isinstance(problem.loss, SquaredLoss) else _PASSES
        for passed in range(passes):
            start = SparseModel(np.arange(model.size), model.reshape(-1), model.shape)
            closed = self.run(OnSupport(start, _solver(problem, self.ridge), StandardBasis()), small, 1)
            history, before, model = with_closing_round(history, closed.history), model, closed.coefficients
            if passes == 1 or (passed and _is_still(before, model, closed.history["objective"])):
                break
        else:
            did = f"did not converge in {_PASSES * _STEPS} Newton steps on {len(atoms)} features"
            advice = f"the closing exchanges {did}; a smaller C, or fewer features, makes them"
            warnings.warn(advice, ConvergenceWarning, stacklevel=2)
        coefficients = np.zeros(found.shape, federation.dtype)
        coefficients[atoms] = model * units
        return fit._replace(model=SparseModel.of(coefficients), history=history)


def _solver(problem: Problem, ridge: float) -> NewtonOnSupport:
    return NewtonOnSupport() if isinstance(problem.loss, SquaredLoss) else NewtonOnSupport(_STEPS, ridge)


def _is_still(before: Array, after: Array, objectives: Array) -> bool:
    """Whether a pass of Newton steps has changed the coefficients or the objective by no more than rounding."""
    eps = float(np.finfo(after.dtype).eps)
    gained, moved = abs(objectives[0] - objectives[-1]), np.max(np.abs(after - before))
    return bool(gained <= 4 * eps * objectives[-1] or moved <= eps**0.625 * np.max(np.abs(after)))


@dataclass(frozen=True, eq=False)
class SparsityPath:
    """What was found along the path.

    Attributes
    ----------
    criterion : {"cv", "ebic"}
    table : dict of ndarray
        One entry per sparsity tried, as columns: ``sparsity``; for ``"cv"`` ``score``, the mean held-out loss over the
        sites (lower is better), ``excess``, its distance from the best, and ``standard_error`` of that distance over
        the sites; for ``"ebic"`` ``loss``, ``ebic`` and ``n_coefficients``.
    chosen : int
        The smallest sparsity whose excess is at most one standard error, or the one with the lowest EBIC.
    site_scores : ndarray, shape (n_sparsities, n_units) or None
        For ``"cv"``: the held-out loss of each site, or of each fold where there is one site.
    """

    criterion: str
    table: dict[str, Array]
    chosen: int
    site_scores: Array | None = None

    def plot(self, ax: Any = None) -> Any:
        """The criterion against the sparsity, with the choice marked; returns matplotlib's axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        cv = self.criterion == "cv"
        value, errors = self.table["score" if cv else "ebic"], self.table.get("standard_error")
        ax.errorbar(self.table["sparsity"], value, errors, fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        label = "held-out loss, with the standard error\nof its distance from the best" if cv else "EBIC"
        ax.set(xlabel="sparsity", ylabel=label, yscale="log" if cv and np.all(value > 0) else "linear")
        ax.legend()
        return ax


def by_cross_validation(problem: Problem, recipe: Recipe, grid: list[int]) -> tuple[SparsityPath, SparseModel | None]:
    """Each site holds out a fold of its rows at a time and sends the loss of the others' model on them.

    All folds go along the path together, each with its own model of the step before, until `_PATIENCE` steps in a row
    did not lower the mean over the sites. Then all rows go along it, up to the step before the choice: with the model
    there, which is returned too, the fit is one of those that were judged.
    """
    rows, runs, n_folds = problem.rows, [], recipe.parameters.n_folds
    folds = folds_of(rows, n_folds, recipe.seed)
    for fold in range(n_folds):
        trains, held = rows[folds != fold], rows[folds == fold]
        if problem.own:  # a site without rows that train has no intercept to judge by
            held = held[trains.counts[held.sites] > 0]
        if len(held.sites) and np.any(trains.counts > problem.own):  # a single row has nothing beside its intercept
            of_fold = problem.over(trains)
            runs.append((of_fold, of_fold.federation_of(held), held.shares))
    if not runs:
        raise ValueError(f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more folds or rows")
    weights = np.array([shares for *_, shares in runs])
    models: list[SparseModel | None] = [None] * len(runs)
    totals: list[Array] = []  # for each sparsity, the weighted losses by fold and site
    for tau in grid:
        totals.append(np.zeros_like(weights))
        for place, (of_fold, judges, _) in enumerate(runs):
            models[place] = model = recipe.along(of_fold, tau, models[place]).model
            totals[-1][place, judges.keys] = judges.objectives(model)[1] * weights[place, judges.keys]
        if _stalled([total.sum() for total in totals]):
            break
    axis = 0 if np.count_nonzero(weights.sum(axis=0)) > 1 else 1
    shares = weights.sum(axis=axis)
    units = shares > 0
    scores = np.array([total.sum(axis=axis)[units] / shares[units] for total in totals])
    path = judged(np.array(grid[: len(totals)]), scores, shares[units] / shares.sum())
    before = None
    for tau in grid[: grid.index(path.chosen)]:
        before = recipe.along(problem, tau, before).model
    return path, before


def judged(sparsities: Array, scores: Array, shares: Array) -> SparsityPath:
    """The smallest sparsity whose score is within one standard error of the best, both over the units.

    Scores have a row for each sparsity and a column for each unit, and the shares of the units sum to one. The standard
    error is that of the distance from the best, unit by unit: what all sparsities find hard at a site does not blur
    their order.
    """
    mean, n_units = scores @ shares, len(shares)
    excess, distances = mean - mean.min(), scores - scores[np.argmin(mean)]
    squares = (distances - excess[:, None]) ** 2 @ shares**2
    errors = np.sqrt(squares * n_units / max(n_units - 1, 1))
    table = {"sparsity": sparsities, "score": mean, "excess": excess, "standard_error": errors}
    return SparsityPath("cv", table, int(sparsities[np.flatnonzero(excess <= errors)[0]]), scores)


def by_ebic(problem: Problem, recipe: Recipe, grid: list[int]) -> tuple[SparsityPath, SparseModel | None]:
    """The extended Bayesian information criterion with gamma = 1 along the path on all rows.

    Twice the negative log-likelihood (of the squared loss, n log of the mean squared error), plus k log n for k
    coefficients and twice the log of the number of supports of tau among the p features (Chen and Chen, 2008). n is the
    sum of the weights, less one for each site that has an intercept of its own: as many contrasts within sites are
    left. Of C classes C - 1 have coefficients, because those of all are only known up to a common number. Returns the
    model of the step before the choice too.
    """
    n, p = problem.weight, len(problem.factors)
    contrasts = max(n - problem.own * problem.rows.n_sites, 1.0)
    free = 1 - 1 / problem.loss.n_classes if isinstance(problem.loss, SoftmaxLoss) else 1.0
    rows: list[tuple[float, ...]] = []
    models: list[SparseModel | None] = [None]
    for tau in grid:
        models.append(model := recipe.along(problem, tau, models[-1]).model)
        loss, k = problem.federation.objective(model), round(free * len(model.support))
        squares = max(2 * loss * n / contrasts, 1e-300)
        fit = contrasts * np.log(squares) if isinstance(problem.loss, SquaredLoss) else 2 * n * loss
        supports = gammaln(p + 1) - gammaln(tau + 1) - gammaln(p - tau + 1)
        rows.append((tau, loss, float(fit + k * np.log(contrasts) + 2 * supports), k))
        if _stalled([row[2] for row in rows]):
            break
    names, columns = ("sparsity", "loss", "ebic", "n_coefficients"), map(np.array, zip(*rows, strict=True))
    table = dict(zip(names, columns, strict=True))
    best = int(np.argmin(table["ebic"]))
    return SparsityPath("ebic", table, int(table["sparsity"][best])), models[best]


def _stalled(criteria: Sequence[float]) -> bool:
    """Whether the last `_PATIENCE` steps of a path brought nothing."""
    return len(criteria) - 1 - int(np.argmin(criteria)) >= _PATIENCE


def folds_of(rows: Rows, n_folds: int, seed: int) -> Support:
    """The fold of each row: each site deals its own at random, class by class where targets repeat, evenly."""
    folds = np.empty(len(rows.sites), np.intp)
    for site, own in rows.by_site():
        rng, targets = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, site))), rows.targets[own]
        order = rng.permutation(len(targets))
        if len(np.unique(targets)) <= len(targets) // 2:
            order = order[np.argsort(targets[order], kind="stable")]
        folds[own][order] = (np.arange(len(order)) + rng.integers(n_folds)) % n_folds
    return folds
