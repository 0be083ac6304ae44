"""Sites: whose rows are whose, the sums that each sends once, and its rows in standardised units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..models import Array, Message, Support, message_bytes
from ..sparse_features import SparseFeatures

__all__ = ["Scaling", "Site", "scaling_of", "sites_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Site:
    """The rows of one group: features (dense or CSR), targets as the loss takes them, and weights above zero."""

    key: int
    features: Any
    targets: Array
    weights: Array

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum(dtype=np.float64))

    def rows(self, chosen: Support) -> Site:
        """The site with some of its rows."""
        return replace(self, features=self.features[chosen], targets=self.targets[chosen], weights=self.weights[chosen])

    def sums(self) -> Message:
        """What a site sends once: its weight, and mean and scatter about the mean of each feature, in float64."""
        weights = self.weights.astype(np.float64)
        if sparse.issparse(self.features):
            first, constant, mean, scatter = _moments_of_sparse(self.features, weights)
        else:
            features = self.features.astype(np.float64, copy=False)
            first, constant = features[0], features.min(axis=0) == features.max(axis=0)
            mean = weights @ features / weights.sum()
            scatter = weights @ (features - mean) ** 2
        mean, scatter = np.where(constant, first, mean), np.where(constant, 0.0, scatter)
        return {"weight": np.array([weights.sum()]), "mean": mean, "scatter": scatter}


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardised units: column j becomes (x_j - centre_j) factor_j.

    Attributes
    ----------
    centres : ndarray or CSR array, shape (n_sites, n_features)
        Of each site, by its key; all the same unless each site centres its own rows. Broadcast, not stored, if so.
        Sparse where the sites are and each has its own: a mean is zero where the site has zeros only.
    factors : ndarray, shape (n_features,)
        One over the scale; 0 for a constant column, which then has no part in the model.
    constant : ndarray of bool, shape (n_features,)
    precision : dtype
        Of the data.
    n_bytes_up, n_bytes_down : int
        Of the sums that all sites send, and of the units that they get back.
    """

    centres: Any
    factors: Array
    constant: Array
    precision: Any
    n_bytes_up: int
    n_bytes_down: int

    def standardised(self, site: Site, intercept: bool) -> Array | SparseFeatures:
        """The features of a site in these units, in its precision; a column of ones leads where there is an intercept.

        Nothing of the site's data is modified. Sparse features stay sparse: the centre is subtracted from products.
        """
        features, first = site.features, int(intercept)
        if sparse.issparse(features):
            return self._sparse(site.key, features, first)
        units = np.ones((len(features), first + features.shape[1]), features.dtype, order="F")
        np.subtract(features, self.centres[site.key].astype(features.dtype), out=units[:, first:])
        units[:, first:] *= self.factors.astype(features.dtype)
        return units

    def _sparse(self, key: int, features: Any, first: int) -> SparseFeatures:
        n_rows = features.shape[0]
        ones = np.ones((n_rows, 1), self.precision)
        data = features.data * self.factors.astype(self.precision)[features.indices]
        stored = sparse.csr_array((data, features.indices, features.indptr), shape=features.shape)
        if first:
            stored = sparse.hstack([sparse.csr_array(ones), stored], format="csr")
        if sparse.issparse(self.centres):
            own = self.centres[[key]]
            centre = (own.data * self.factors[own.indices]).astype(self.precision)
            return SparseFeatures(stored, ones[:, 0], centre, own.indices + first)
        if not self._common.any():
            return SparseFeatures(stored)
        return SparseFeatures(stored, ones[:, 0], self._common, slice(first, None))

    @cached_property
    def _common(self) -> Array:
        """The centre of all sites in standardised units; they share this one array."""
        centre: Array = (self.centres[0] * self.factors).astype(self.precision)
        return centre


def sites_of(features: Any, targets: Array, weights: Array, codes: Support) -> list[Site]:
    """One site for each code that has a row of positive weight; rows of weight zero are as if they were not there."""
    kept = np.flatnonzero(weights > 0)
    order = kept[np.argsort(codes[kept], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    features = SparseFeatures(features).stored if sparse.issparse(features) else features
    parts = np.split(order, starts[1:])
    return [Site(key, features[rows], targets[rows], weights[rows]) for key, rows in enumerate(parts) if len(rows)]


def scaling_of(sites: Sequence[Site], fit_intercept: bool | str, standardize: bool) -> Scaling:
    """Standardised units from the sums of the sites; rows are never put together.

    With the weights W_i, means m_i and scatters S_i of the sites, the scatter about the mean m of all rows is
    sum_i S_i + W_i (m_i - m)^2, added up site by site (Chan, Golub and LeVeque, 1983). The scale is the root of
    scatter / sum_i W_i: about m, about each site's own mean (``"per_group"``), or about zero (no intercept).
    """
    shape, own, total, up = (len(sites), sites[0].features.shape[1]), fit_intercept == "per_group", 0.0, 0
    mean, within, between, squares = (np.zeros(shape[1]) for _ in range(4))
    means: list[Any] = []
    for site in sites:
        message = site.sums()
        weight, theirs = float(message["weight"][0]), message["mean"]
        total += weight
        between += weight * (total - weight) / total * (theirs - mean) ** 2
        mean += weight / total * (theirs - mean)
        within += message["scatter"]
        squares += weight * theirs**2
        up += message_bytes(message)
        if own:
            means.append(sparse.csr_array(theirs[None]) if sparse.issparse(site.features) else theirs)
    about_zero = (within + squares) / total
    if own:
        centres = sparse.vstack(means, format="csr") if sparse.issparse(means[0]) else np.array(means)
        variance = within / total
    elif fit_intercept:
        centres, variance = np.broadcast_to(mean, shape), (within + between) / total
    else:
        centres, variance = np.broadcast_to(np.zeros_like(mean), shape), about_zero
    constant = variance <= 64 * np.finfo(np.float64).eps ** 2 * len(sites) ** 2 * about_zero
    scales = np.sqrt(np.where(constant, 1, variance)) if standardize else np.ones_like(mean)
    down = len(sites) * (mean.nbytes * (1 if own else 2))
    return Scaling(centres, np.where(constant, 0, 1 / scales), constant, sites[0].features.dtype, up, down)


def _moments_of_sparse(features: Any, weights: Array) -> tuple[Array, Array, Array, Array]:
    """For each column of a CSR array: a value that is all there is where it is constant, whether it is, mean, scatter.

    Entries that are not stored count as the zeros that they are, without being visited.
    """
    n_rows, n_features = features.shape
    columns, values, total = features.indices, features.data.astype(np.float64), weights.sum()
    own = np.repeat(weights, np.diff(features.indptr))

    def summed(terms: Array) -> Array:
        return np.bincount(columns, terms, n_features)

    some, complete = np.zeros(n_features), np.bincount(columns, minlength=n_features) == n_rows
    some[columns] = values
    constant = (summed(values != some[columns]) == 0) & (complete | (some == 0))
    mean = summed(own * values) / total
    absent = np.where(complete, 0.0, np.maximum(total - summed(own), 0.0))
    return some, constant, mean, summed(own * (values - mean[columns]) ** 2) + absent * mean**2
