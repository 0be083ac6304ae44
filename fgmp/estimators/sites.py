"""Sites: whose rows are whose, the sums that each sends once, and the federation in standardised units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..federation import Client, Federation
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..models import Array, Message, Support, message_bytes
from .weighted_loss import WeightedLoss, with_weights

__all__ = ["Scaling", "Site", "federation_of", "scaling_of", "sites_of", "target_sums"]


@dataclass(frozen=True, eq=False)
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

    def dense(self) -> Array:
        """The features as a dense array; only ever one site at a time is made dense here."""
        features: Array = self.features.toarray() if sparse.issparse(self.features) else self.features
        return features

    def rows(self, chosen: Support) -> Site:
        """The site with some of its rows."""
        return replace(self, features=self.features[chosen], targets=self.targets[chosen], weights=self.weights[chosen])

    def sums(self) -> Message:
        """What a site sends once: its weight, and mean and scatter about the mean of each feature, in float64."""
        features, weights = self.dense().astype(np.float64, copy=False), self.weights.astype(np.float64)
        mean = weights @ features / weights.sum()
        deviations = features - mean
        constant = features.min(axis=0) == features.max(axis=0)
        scatter = np.where(constant, 0.0, weights @ deviations**2)
        return {"weight": np.array([weights.sum()]), "mean": np.where(constant, features[0], mean), "scatter": scatter}


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardised units: column j becomes (x_j - centre_j) factor_j.

    Attributes
    ----------
    centres : ndarray, shape (n_sites, n_features)
        Of each site, by its key; all the same unless each site centres its own rows. Broadcast, not stored, if so.
    factors : ndarray, shape (n_features,)
        One over the scale; 0 for a constant column, which then has no part in the model.
    constant : ndarray of bool, shape (n_features,)
    mean : ndarray, shape (n_features,)
        Of all rows.
    n_bytes_up, n_bytes_down : int
        Of the sums that all sites send, and of the units that they get back.
    """

    centres: Array
    factors: Array
    constant: Array
    mean: Array
    n_bytes_up: int
    n_bytes_down: int

    def standardised(self, site: Site, intercept: bool) -> Array:
        """The features of a site in these units, in its precision; a column of ones leads where there is an intercept.

        Nothing of the site's data is modified.
        """
        features = site.dense()
        first = int(intercept)
        units = np.ones((len(features), first + features.shape[1]), features.dtype, order="F")
        np.subtract(features, self.centres[site.key].astype(features.dtype), out=units[:, first:])
        units[:, first:] *= self.factors.astype(features.dtype)
        return units


def sites_of(features: Any, targets: Array, weights: Array, codes: Support) -> list[Site]:
    """One site for each code that has a row of positive weight; rows of weight zero are as if they were not there."""
    kept = np.flatnonzero(weights > 0)
    order = kept[np.argsort(codes[kept], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [Site(key, features[rows], targets[rows], weights[rows]) for key, rows in enumerate(parts) if len(rows)]


def scaling_of(sites: Sequence[Site], fit_intercept: bool | str, standardize: bool) -> Scaling:
    """Standardised units from the sums of the sites; rows are never put together.

    With the weights W_i, means m_i and scatters S_i of the sites, the scatter about the mean m of all rows is
    sum_i S_i + W_i (m_i - m)^2 (Chan, Golub and LeVeque, 1983). The scale is the root of scatter / sum_i W_i: about m,
    about each site's own mean (``"per_group"``), or about zero (no intercept).
    """
    messages = [site.sums() for site in sites]
    shares, means = np.array([float(m["weight"][0]) for m in messages]), np.array([m["mean"] for m in messages])
    total = shares.sum()
    mean = shares @ means / total
    within = sum((m["scatter"] for m in messages), start=np.zeros_like(mean))
    between = shares @ (means - mean) ** 2
    about_zero = (within + shares @ means**2) / total
    if fit_intercept == "per_group":
        centres, variance = means, within / total
    elif fit_intercept:
        centres, variance = np.broadcast_to(mean, means.shape), (within + between) / total
    else:
        centres, variance = np.broadcast_to(np.zeros_like(mean), means.shape), about_zero
    constant = variance <= 64 * np.finfo(np.float64).eps ** 2 * len(sites) ** 2 * about_zero
    scales = np.sqrt(np.where(constant, 1, variance)) if standardize else np.ones_like(mean)
    up = sum(message_bytes(message) for message in messages)
    down = len(sites) * (mean.nbytes * (1 if fit_intercept == "per_group" else 2))
    return Scaling(centres, np.where(constant, 0, 1 / scales), constant, mean, up, down)


def target_sums(sites: Iterable[Site]) -> Array:
    """Mean target of each site, shape (n_sites,)."""
    return np.array([site.weights.astype(np.float64) @ site.targets / site.weight for site in sites])


def federation_of(sites: Sequence[Site], scaling: Scaling, loss: Loss, intercept: bool, plain: bool) -> Federation:
    """The federation with one client per site, weighted by what the rows of the sites weigh.

    Parameters
    ----------
    sites : sequence of Site
    scaling : Scaling
    loss : Loss
    intercept : bool
        Whether a column of ones leads.
    plain : bool
        Whether all rows of all sites weigh the same.
    """
    clients = [_client(site, scaling.standardised(site, intercept), loss, plain) for site in sites]
    return Federation(tuple(clients), np.array([site.weight for site in sites]))


def _client(site: Site, features: Array, loss: Loss, plain: bool) -> Client:
    targets = site.targets
    if plain:
        return Client(features, targets, loss, site.key)
    weights = (site.weights * (len(targets) / site.weight)).astype(features.dtype)  # of mean one
    if isinstance(loss, SquaredLoss):
        roots = np.sqrt(weights)
        return Client(features * roots[:, None], targets * roots, loss, site.key)
    weighted = WeightedLoss(loss, isinstance(loss, SoftmaxLoss))
    return Client(features, with_weights(targets, weights), weighted, site.key)
