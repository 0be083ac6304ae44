"""How many features: a path over tau, each step from two starts, judged on rows held out by each site, or by EBIC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from ..federation import Client, Federation
from ..losses import SoftmaxLoss, SquaredLoss
from ..models import Array, SparseModel, Support
from .fitting import Recipe
from .problem import Problem
from .sites import Site

__all__ = ["SparsityPath", "by_cross_validation", "by_ebic", "fold_of_rows", "judged"]

_PATIENCE = 5


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
        sparsities = self.table["sparsity"]
        if self.criterion == "cv":
            ax.errorbar(sparsities, self.table["score"], self.table["standard_error"], fmt="o-", ms=4, capsize=2)
            ax.set_ylabel("held-out loss, with the standard error\nof its distance from the best")
            if np.all(self.table["score"] > 0):
                ax.set_yscale("log")
        else:
            ax.plot(sparsities, self.table["ebic"], "o-", ms=4)
            ax.set_ylabel("EBIC")
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        ax.set_xlabel("sparsity")
        ax.legend()
        return ax


def by_cross_validation(
    problem: Problem, recipe: Recipe, grid: Sequence[int], federation: Federation, n_folds: int
) -> tuple[SparsityPath, SparseModel | None]:
    """Each site holds out a fold of its rows at a time and sends the loss of the others' model on them.

    All folds go along the path together, each with its own model of the step before, until `_PATIENCE` steps in a row
    did not lower the mean over the sites. Then all rows go along it, up to the step before the choice: with the model
    there, which is returned too, the fit is one of those that were judged.
    """
    folds = [fold_of_rows(site, n_folds, recipe.seed) for site in problem.sites]
    runs = [_Run(problem, recipe, folds, fold) for fold in range(n_folds)]
    runs = [run for run in runs if run.judges]
    if not runs:
        raise ValueError(f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more folds or rows")
    taken: list[int] = []
    totals: list[Array] = []  # for each sparsity, the weighted losses by run and site
    for tau in grid:
        totals.append(np.array([run.losses(tau) for run in runs]))
        taken.append(tau)
        means = [float(total.sum()) for total in totals]
        if len(means) - 1 - int(np.argmin(means)) >= _PATIENCE:
            break
    weights = np.array([run.weights for run in runs])
    axis = 0 if np.count_nonzero(weights.sum(axis=0)) > 1 else 1
    shares = weights.sum(axis=axis)
    units = shares > 0
    scores = np.array([total.sum(axis=axis)[units] / shares[units] for total in totals])
    path = judged(np.array(taken), scores, shares[units] / shares.sum())
    before: SparseModel | None = None
    for tau in taken[: taken.index(path.chosen)]:
        before = recipe.along(federation, tau, problem.base, before).model
    return path, before


def judged(sparsities: Array, scores: Array, shares: Array) -> SparsityPath:
    """The smallest sparsity whose score is within one standard error of the best, both over the units.

    Parameters
    ----------
    sparsities : ndarray of int, shape (n_sparsities,)
        Increasing.
    scores : ndarray, shape (n_sparsities, n_units)
    shares : ndarray, shape (n_units,)
        What the units weigh; their sum is one.

    Returns
    -------
    SparsityPath

    Notes
    -----
    The standard error is that of the distance from the best, unit by unit: what all sparsities find hard at a site
    does not blur their order.
    """
    mean = scores @ shares
    best = int(np.argmin(mean))
    errors = _standard_errors(scores - scores[best], shares)
    excess = mean - mean[best]
    chosen = int(sparsities[np.flatnonzero(excess <= errors)[0]])
    table = {"sparsity": sparsities, "score": mean, "excess": excess, "standard_error": errors}
    return SparsityPath("cv", table, chosen, scores)


def by_ebic(
    problem: Problem, recipe: Recipe, grid: Sequence[int], federation: Federation, n_folds: int
) -> tuple[SparsityPath, SparseModel | None]:
    """The extended Bayesian information criterion with gamma = 1 along the path on all rows.

    Twice the negative log-likelihood (of the squared loss, n log of the mean squared error), plus k log n for k
    coefficients and twice the log of the number of supports of tau among the p features (Chen and Chen, 2008). n is the
    sum of the weights, less one for each site that has an intercept of its own: as many contrasts within sites are
    left. Of C classes C - 1 have coefficients, because those of all are only known up to a common number. Returns the
    model of the step before the choice too.
    """
    n = problem.weight
    contrasts = max(n - problem.own * len(problem.sites), 1.0)
    free = 1 - 1 / problem.loss.n_classes if isinstance(problem.loss, SoftmaxLoss) else 1.0
    p = len(problem.scaling.factors)
    rows: list[tuple[int, float, float, int]] = []
    models: list[SparseModel | None] = [None]
    for tau in grid:
        model = recipe.along(federation, tau, problem.base, models[-1]).model
        models.append(model)
        loss, k = federation.objective(model), round(free * len(model.support))
        squares = max(2 * loss * n / contrasts, 1e-300)
        fit = contrasts * np.log(squares) if isinstance(problem.loss, SquaredLoss) else 2 * n * loss
        supports = gammaln(p + 1) - gammaln(tau + 1) - gammaln(p - tau + 1)
        rows.append((tau, loss, float(fit + k * np.log(contrasts) + 2 * supports), k))
        criteria = [row[2] for row in rows]
        if len(criteria) - 1 - int(np.argmin(criteria)) >= _PATIENCE:
            break
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    table = dict(zip(("sparsity", "loss", "ebic", "n_coefficients"), columns, strict=True))
    best = int(np.argmin(table["ebic"]))
    return SparsityPath("ebic", table, int(table["sparsity"][best])), models[best]


class _Run:
    """One fold: the problem of the rows that train, of which no other row knows, and the sites' rows that judge."""

    def __init__(self, problem: Problem, recipe: Recipe, folds: list[Support], fold: int) -> None:
        self.recipe = recipe
        self.model: SparseModel | None = None
        parts = [(site.rows(of != fold), site.rows(of == fold)) for site, of in zip(problem.sites, folds, strict=True)]
        known = np.array([len(trains.targets) > 0 for trains, _ in parts])
        keys = np.maximum(np.cumsum(known) - 1, 0)
        training = [replace(parts[i][0], key=int(keys[i])) for i in np.flatnonzero(known)]
        # A single row with an intercept of its own teaches nothing, and a site without any has none to judge by.
        self.judges: dict[int, Client] = {}
        self.weights = np.zeros(len(parts))
        if not any(len(site.targets) > problem.own for site in training):
            return
        self.problem = problem.of_others(training)
        self.federation = self.problem.federation()
        for i, (_, judges) in enumerate(parts):
            if len(judges.targets) and (known[i] or not problem.own):
                self.judges[i] = self.problem.client(replace(judges, key=int(keys[i])))
                self.weights[i] = judges.weight

    def losses(self, tau: int) -> Array:
        """Weighted sum of the held-out losses at each site; zero where a site holds nothing out in this fold."""
        cohort = self.recipe.cohort_size
        recipe = self.recipe if cohort is None else self.recipe.with_cohort(min(cohort, self.federation.n_clients))
        self.model = recipe.along(self.federation, tau, self.problem.base, self.model).model
        losses = np.zeros(len(self.weights))
        for i, client in self.judges.items():
            losses[i] = client.objective(self.model) * self.weights[i]
        return losses


def fold_of_rows(site: Site, n_folds: int, seed: int) -> Support:
    """The fold of each row: dealt at random, class by class where targets repeat, as evenly as they go."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, site.key)))
    order = rng.permutation(len(site.targets))
    if len(np.unique(site.targets)) <= len(site.targets) // 2:
        order = order[np.argsort(site.targets[order], kind="stable")]
    folds = np.empty(len(order), np.intp)
    folds[order] = (np.arange(len(order)) + rng.integers(n_folds)) % n_folds
    return folds


def _standard_errors(differences: Array, shares: Array) -> Array:
    """Of the weighted mean of each row, over units with these shares."""
    n_units = len(shares)
    if n_units < 2:
        return np.zeros(len(differences))
    centred = differences - (differences @ shares)[:, None]
    errors: Array = np.sqrt((centred**2 @ shares**2) * n_units / (n_units - 1))
    return errors
