"""What is to be fitted: sites in standardised units that are theirs alone, and the model without features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..federation import Client, Federation
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..models import Array, SparseModel
from .fitting import log_odds_per_unit
from .sites import Scaling, Site, scaling_of
from .weighted_loss import WeightedLoss, with_weights

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Sites, the units and levels that follow from their rows and no others, the loss, and the model without features.

    Attributes
    ----------
    sites, loss, fit_intercept, standardize
        The sites have the keys 0, 1, ...
    plain : bool
        Whether all rows of all sites weigh the same.
    scaling : Scaling
    levels : ndarray, shape (n_sites,)
        What is taken off the targets of each site: for the squared loss the mean of all, with ``"per_group"`` of its
        own, so that the model starts from zero.
    base : SparseModel
        Zero, or the intercept that gives every class its share of the rows.
    """

    sites: Sequence[Site]
    loss: Loss
    fit_intercept: bool | str
    standardize: bool
    plain: bool
    scaling: Scaling
    levels: Array
    base: SparseModel

    @classmethod
    def of(
        cls, sites: Sequence[Site], loss: Loss, fit_intercept: bool | str, standardize: bool, plain: bool
    ) -> Problem:
        """The problem of these sites."""
        scaling, levels = scaling_of(sites, fit_intercept, standardize), np.zeros(len(sites))
        shape = loss.model_shape(int(fit_intercept is True) + len(scaling.factors))
        base = SparseModel.zero(shape, scaling.precision)
        if isinstance(loss, SquaredLoss) and fit_intercept:
            weights = np.array([site.weight for site in sites])
            levels = np.array([site.weights.astype(np.float64) @ site.targets for site in sites]) / weights
            if fit_intercept is True:
                levels = np.full_like(levels, weights @ levels / weights.sum())
        elif fit_intercept:
            start = _log_shares(sites, loss).astype(scaling.precision)
            base = SparseModel(np.arange(len(start)), start, shape)
        return cls(sites, loss, fit_intercept, standardize, plain, scaling, levels, base)

    def of_others(self, sites: Sequence[Site]) -> Problem:
        """The same of other rows: units, levels and the model without features are theirs."""
        return Problem.of(sites, self.loss, self.fit_intercept, self.standardize, self.plain)

    @property
    def intercept(self) -> bool:
        """Whether a column of ones leads."""
        return self.fit_intercept is True

    @property
    def own(self) -> bool:
        """Whether each site has an intercept of its own."""
        return self.fit_intercept == "per_group"

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return sum(site.weight for site in self.sites)

    def columns(self, sparsity: int) -> int:
        """The most that a client of FedGradMP solves for: 2 tau and tau features, or all, and the intercept."""
        return min(3 * sparsity, len(self.scaling.factors)) + (self.fit_intercept is not False)

    def client(self, site: Site) -> Client:
        """The client with rows of the site of that key, in the units of this problem."""
        targets = site.targets
        if not isinstance(self.loss, SoftmaxLoss):
            targets = (targets - self.levels[site.key]).astype(self.scaling.precision)
        features = self.scaling.standardised(site, self.intercept)
        if self.plain:
            return Client(features, targets, self.loss, site.key)
        weights = (site.weights * (len(targets) / site.weight)).astype(features.dtype)  # of mean one
        if isinstance(self.loss, SquaredLoss):
            roots = np.sqrt(weights)
            rows = features * roots[:, None] if isinstance(features, np.ndarray) else features.times_rows(roots)
            return Client(rows, targets * roots, self.loss, site.key)
        weighted = WeightedLoss(self.loss, isinstance(self.loss, SoftmaxLoss))
        return Client(features, with_weights(targets, weights), weighted, site.key)

    def federation(self) -> Federation:
        """One client per site, weighted by what the rows of the sites weigh."""
        return Federation(tuple(map(self.client, self.sites)), np.array([site.weight for site in self.sites]))


def _log_shares(sites: Sequence[Site], loss: Loss) -> Array:
    """The intercepts at which each class has its share of the weight; a class without rows counts as half a row."""
    several = isinstance(loss, SoftmaxLoss)
    labels = range(loss.n_classes) if isinstance(loss, SoftmaxLoss) else (-1, 1)
    counts = sum(np.array([site.weights[site.targets == label].sum() for label in labels]) for site in sites)
    half = np.sum(counts) / (2 * sum(len(site.targets) for site in sites))
    logs = np.log(np.where(counts > 0, counts, half))
    return logs - logs.mean() if several else np.array([logs[1] - logs[0]]) / log_odds_per_unit(loss)
