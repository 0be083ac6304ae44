"""From a table with groups to what is to be fitted: rows of several sites, in units that their sums agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..advice import advise
from ..checks import as_array, shown
from ..federation import Federation
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..models import Array, SparseModel, Support
from ..sparse_features import SparseFeatures

__all__ = ["Problem", "Rows", "WeightedLoss", "groups_of", "some_of", "sums_of"]


def groups_of(X: Any, groups: Any, weights: Array, least: int) -> tuple[Array, Support, Array]:
    """The distinct groups, sorted, the place of each row's group among them, and the weights of those that take part.

    Groups with fewer than `least` rows that weigh get weight zero, and a warning names them; where there are no groups,
    all rows are of one, of any size.
    """
    if not np.any(weights > 0):
        raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
    if groups is None:
        return np.zeros(1, np.intp), np.zeros(len(weights), np.intp), weights
    values = as_array("groups", groups)
    if values.ndim != 1 and values.shape[1:] != (1,):
        raise ValueError(f"groups should be a 1d array, got {shown(groups)} of shape {values.shape} instead.")
    values = values.reshape(-1)
    check_consistent_length(X, values)
    for value in values.tolist() if values.dtype.kind in "fO" else ():
        if not isinstance(value, str) and str(value) in ("nan", "None", "<NA>", "NaT"):
            found = "NaN" if isinstance(value, float) else value
            raise ValueError(f"Input groups contains {found}: every row needs a group.")
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueError(f"groups is {shown(groups)}; expected values of one kind, that can be sorted") from None
    counts = np.bincount(codes[weights > 0], minlength=len(labels))
    small = (counts > 0) & (counts < least)
    if small.any():
        which = f"{small.sum()} of {np.count_nonzero(counts)} groups have fewer than min_rows={least} rows "
        which += f"({some_of(labels[small].tolist(), 5)})"
        if not (counts >= least).any():
            raise ValueError(f"{which}, and none is left to fit; larger groups, or a smaller min_rows, are needed")
        advise(f"{which}: they send nothing and take no part; a smaller min_rows lets them")
    return labels, codes, np.where(small[codes], 0, weights)


def some_of(names: Sequence[Any], most: int) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + f" and {len(names) - most} more" * (len(names) > most)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of several sites, one site after another.

    Attributes
    ----------
    features : ndarray or CSR array, shape (n_rows, n_features)
    targets, weights : ndarray, shape (n_rows,)
        As the loss takes them; and above zero.
    sites : ndarray of int, shape (n_rows,)
        Whose row it is, increasing: from 0 to n_sites - 1, of which some may have no row, where rows are held out.
    n_sites : int
    """

    features: Any
    targets: Array
    weights: Array
    sites: Support
    n_sites: int

    @classmethod
    def of(cls, features: Any, targets: Array, weights: Array, groups: Support) -> Rows:
        """The rows of a table, one group after another; those of weight zero are as if they were not there."""
        features = SparseFeatures(features).stored if sparse.issparse(features) else features
        kept = np.flatnonzero(weights > 0)
        kept = kept[np.argsort(groups[kept], kind="stable")]
        own, sites = np.unique(groups[kept], return_inverse=True)
        return cls(features[kept], targets[kept], weights[kept].astype(np.float64), sites, len(own))

    def __getitem__(self, chosen: Any) -> Rows:
        """Some of the rows, in this order."""
        X, y, weights, sites = self.features[chosen], self.targets[chosen], self.weights[chosen], self.sites[chosen]
        return Rows(X, y, weights, sites, self.n_sites)

    def by_site(self) -> Iterator[tuple[int, slice]]:
        """Each site that has rows, and where they are."""
        own, starts = np.unique(self.sites, return_index=True)
        yield from zip(own.tolist(), map(slice, starts, [*starts[1:], len(self.sites)]), strict=True)

    @property
    def counts(self) -> Support:
        """How many rows each site has."""
        return np.bincount(self.sites, minlength=self.n_sites)

    @property
    def shares(self) -> Array:
        """What the rows of each site weigh."""
        return np.bincount(self.sites, self.weights, self.n_sites)


def sums_of(rows: Rows) -> tuple[float, Array, Array]:
    """What a site sends once: its weight, and mean and scatter about the mean of each feature, in float64."""
    features, weights, total = rows.features.astype(np.float64, copy=False), rows.weights, float(rows.weights.sum())
    if sparse.issparse(features):
        mean, variance = mean_variance_axis(features, 0, weights=weights)
        return total, mean, total * variance
    mean = weights @ features / total
    return total, mean, weights @ (features - mean) ** 2


class Problem:
    """Rows of some sites in standardised units, which follow from these rows and no others.

    Column j becomes (x_j - centre_j) factor_j, and a column of ones leads where all sites share an intercept.

    Attributes
    ----------
    intercept, own : bool
        Whether there is one intercept for all sites, or one for each.
    centres : ndarray or CSR array, shape (1, n_features), or (n_sites, n_features) where each site has its own
    factors : ndarray, shape (n_features,)
        One over the scale; 0 for a `constant` column, which then has no part in the model.
    levels : ndarray, shape (n_sites,)
        What is taken off the targets of each site: for the squared loss the mean of all, or of its own.
    base : SparseModel
        The model without features: zero, or the intercept that gives every class its share of the rows.
    bytes : dict of int
        Of the sums that all sites send, ``bytes_up``, and of the units that they get back, ``bytes_down``.
    """

    def __init__(self, rows: Rows, loss: Loss, fit_intercept: bool | str, standardize: bool) -> None:
        self.rows, self.loss, self.fit_intercept, self.standardize = rows, loss, fit_intercept, standardize
        self.own = isinstance(fit_intercept, str)
        self.intercept = bool(fit_intercept) and not self.own
        self.weight, self.precision = float(rows.weights.sum()), np.dtype(rows.features.dtype)
        self._agree_on_units()
        self.levels, shape = np.zeros(rows.n_sites), loss.model_shape(self.intercept + len(self.factors))
        start = np.empty(0)
        if isinstance(loss, SquaredLoss) and fit_intercept:
            totals, shares = np.bincount(rows.sites, rows.weights * rows.targets, rows.n_sites), rows.shares
            self.levels += totals / np.where(shares > 0, shares, 1) if self.own else totals.sum() / self.weight
        elif self.intercept:
            labels = range(loss.n_classes) if isinstance(loss, SoftmaxLoss) else (-1, 1)
            shares = np.array([rows.weights[rows.targets == label].sum() for label in labels])
            logs = np.log(np.where(shares > 0, shares, self.weight / (2 * len(rows.sites))))  # none is half a row
            start = logs - logs.mean() if isinstance(loss, SoftmaxLoss) else logs[1:] - logs[:1]
        self.base = SparseModel(np.arange(len(start)), start.astype(self.precision), shape)

    def _agree_on_units(self) -> None:
        """Centres and scales from the sums of the sites; rows are never put together.

        With the weights W_i, means m_i and scatters S_i of the sites, the scatter about the mean m of all rows is
        sum_i S_i + W_i (m_i - m)^2, added up site by site (Chan, Golub and LeVeque, 1983). The scale is the root of
        scatter / sum_i W_i: about m, about each site's own mean, or about zero where there is no intercept.
        """
        rows, thin = self.rows, sparse.issparse(self.rows.features)
        shape, total = (rows.n_sites, rows.features.shape[1]), 0.0
        mean, within, between, squares = (np.zeros(shape[1]) for _ in range(4))
        centres = sparse.lil_array(shape) if thin else np.zeros(shape if self.own else 0)
        for site, own in rows.by_site():
            weight, theirs, scatter = sums_of(rows[own])
            total += weight
            between += weight * (total - weight) / total * (theirs - mean) ** 2
            mean += weight / total * (theirs - mean)
            within += scatter
            squares += weight * theirs**2
            if self.own:
                centres[site] = theirs
        centres = sparse.csr_array(centres) if thin else centres
        self.centres: Any = centres if self.own else mean[None] * self.intercept
        about_mean, about_zero = within if self.own else within + between, within + squares
        variance = (about_mean if self.fit_intercept else about_zero) / total
        rounding = len(rows.sites) * np.finfo(np.float64).eps
        self.constant = variance <= rounding * variance + rounding**2 * about_zero / total
        scales = np.sqrt(np.where(self.constant, 1, variance)) if self.standardize else np.ones_like(mean)
        self.factors, each = np.where(self.constant, 0, 1 / scales), mean.nbytes * np.count_nonzero(rows.counts)
        self.bytes = {"bytes_up": 2 * each + each // shape[1], "bytes_down": each * (2 - self.own)}

    def over(self, rows: Rows) -> Problem:
        """The same of other rows."""
        return Problem(rows, self.loss, self.fit_intercept, self.standardize)

    def columns(self, sparsity: int) -> int:
        """The most that a client of FedGradMP solves for: 2 tau and tau features, or all, and the intercept."""
        return min(3 * sparsity, len(self.factors)) + bool(self.fit_intercept)

    @cached_property
    def federation(self) -> Federation:
        """One client for each site."""
        return self.federation_of(self.rows)

    def federation_of(self, rows: Rows) -> Federation:
        """The sites with these rows, in the units of this problem, weighted by what the rows weigh.

        In the objective of a site weights have mean one: of the squared loss they scale the rows, others take them.
        """
        keys, counts, shares = np.flatnonzero(rows.counts), rows.counts, rows.shares
        loss: Any = self.loss
        targets, roots = rows.targets, None
        if not isinstance(self.loss, SoftmaxLoss):
            targets = (targets - self.levels[rows.sites]).astype(self.precision)
        if np.ptp(rows.weights):
            weights = (rows.weights * counts[rows.sites] / shares[rows.sites]).astype(self.precision)
            if isinstance(loss, SquaredLoss):
                roots = np.sqrt(weights)
                targets = targets * roots
            else:
                loss, targets = WeightedLoss(loss), np.column_stack([targets.astype(self.precision), weights])
        offsets, p = np.append(0, np.cumsum(counts[keys])), shares[keys] / shares.sum()
        return Federation(self.standardised(rows, roots), targets, offsets, loss, p, keys=keys)

    def standardised(self, rows: Rows, roots: Array | None = None) -> Any:
        """The features in these units, each row times its root of a weight, in new arrays.

        Sparse ones stay sparse, and the centre is subtracted from products with them: they are one matrix where all
        sites share it, else a tuple of one for each site.
        """
        first, features, factors = int(self.intercept), rows.features, self.factors.astype(self.precision)
        if not sparse.issparse(features):
            units = np.ones((len(rows.sites), first + len(factors)), self.precision)
            for site, own in rows.by_site():
                centre = self.centres[site if self.own else 0].astype(self.precision)
                np.subtract(features[own], centre, out=units[own, first:])
            units[:, first:] *= factors
            return units if roots is None else np.multiply(units, roots[:, None], out=units)
        roots = np.ones(len(rows.sites), self.precision) if roots is None else roots
        data = features.data * factors[features.indices] * np.repeat(roots, np.diff(features.indptr))
        stored = sparse.csr_array((data, features.indices, features.indptr), shape=features.shape)
        if self.own:
            centres = sparse.csr_array(self.centres.multiply(self.factors)).astype(self.precision)
            parts = [(own, centres[[site]]) for site, own in rows.by_site()]
            return tuple(SparseFeatures(stored[own], roots[own], c.data, c.indices) for own, c in parts)
        if not first:
            return SparseFeatures(stored)
        stored = sparse.hstack([sparse.csr_array(roots[:, None]), stored], format="csr")
        return SparseFeatures(stored, roots, (self.centres[0] * self.factors).astype(self.precision), slice(1, None))


@dataclass(frozen=True)
class WeightedLoss:
    """w_j l(z_j, y_j), for sample weights where rows cannot be scaled: each row of the targets holds y_j and w_j.

    l is the logistic or the softmax loss. Weights have mean one, and single rows may exceed its smoothness.
    """

    loss: Any

    def __post_init__(self) -> None:
        for name in ("smoothness", "shift_invariant", "local_solver", "row_weight", "model_shape", "check_targets"):
            object.__setattr__(self, name, getattr(self.loss, name))

    def values(self, predictions: Array, targets: Array) -> Array:
        """w l(z, y)."""
        return self._weighted(self.loss.values, predictions, targets)

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """w l'(z, y)."""
        return self._weighted(self.loss.derivative, predictions, targets)

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """w l''(z, y) applied to `direction`."""
        return self._weighted(self.loss.curvature, predictions, targets, direction)

    def _weighted(self, each: Any, predictions: Array, targets: Array, *direction: Array) -> Array:
        y, weights = targets.T
        rows = each(predictions, y.astype(np.intp) if isinstance(self.loss, SoftmaxLoss) else y, *direction)
        return np.asarray((weights * rows.T).T)
