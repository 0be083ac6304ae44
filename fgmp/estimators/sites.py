"""The rows of several sites, and what each of them shows to a run: some of its rows, in units that all agreed on.

A view says which rows and which units, in numbers that JSON holds, and `seen` makes it of a site's own rows: here for
all sites of a table, over Flower at each site, to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..advice import advise
from ..checks import as_array, shown
from ..federation import Federation
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..models import Array, Support
from ..shapes import Shape
from ..sparse_features import SparseFeatures, stacked

__all__ = ["SiteRows", "Table", "WeightedLoss", "folds_of", "groups_of", "seen", "some_of", "view_of"]


def groups_of(X: Any, groups: Any, weights: Array, least: int) -> tuple[Array, Support, Array]:
    """The distinct groups, sorted, the place of each row's group among them, and the weights of those that take part.

    Groups with fewer than `least` rows that weigh get weight zero, and a warning names them; where there are no groups,
    all rows are of one, of any size.
    """
    from sklearn.utils import check_consistent_length

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


class SiteRows(NamedTuple):
    """What one site holds: features, targets as the loss takes them, weights above zero; and its place.

    `uneven` says whether rows weigh differently, at this site or another.
    """

    features: Any
    targets: Array
    weights: Array
    place: int = 0
    uneven: bool = False

    def __repr__(self) -> str:
        return f"SiteRows(place {self.place}, {len(self.targets)} rows)"

    def training(self, fold: Sequence[int] | None) -> SiteRows:
        """The rows that train where a fold is held out."""
        if fold is None:
            return self
        train = _training(self.targets, self.place, fold)
        return self._replace(features=self.features[train], targets=self.targets[train], weights=self.weights[train])


def view_of(units: Mapping[str, Any] | None = None, fold: Sequence[int] | None = None) -> dict[str, Any]:
    """A view: rows that train where `fold` (its number, how many there are, the seed) is held out, in some units."""
    return {"units": units, "fold": fold}


def folds_of(targets: Array, place: int, n_folds: int, seed: int) -> Support:
    """The fold of each row of a site, dealt at random, class by class where targets repeat, evenly."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, place)))
    order = rng.permutation(len(targets))
    if len(np.unique(targets)) <= len(targets) // 2:
        order = order[np.argsort(targets[order], kind="stable")]
    folds = np.empty(len(targets), np.intp)
    folds[order] = (np.arange(len(order)) + rng.integers(n_folds)) % n_folds
    return folds


def _training(targets: Array, place: int, fold: Sequence[int]) -> Array:
    number, n_folds, seed = fold
    train: Array = folds_of(targets, place, n_folds, seed) != number
    return train


def training_rows(count: int, place: int, fold: Sequence[int]) -> int:
    """How many of a site's rows train, as a server knows without seeing them."""
    return int(np.count_nonzero(_training(np.arange(count), place, fold)))


def seen(rows: SiteRows, units: Mapping[str, Any] | None, loss: Loss) -> tuple[Any, Array, Any]:
    """Features, targets and loss of rows in some units.

    Column j becomes (x_j - centre_j) factor_j, the centre that of the site where each has an intercept of its own; and
    one of the number ``ones`` leads where all share an intercept. Sparse features stay sparse: the centre is
    subtracted from products with them. Targets of the squared loss lose the level and are counted in a unit. Without
    units, rows are as they are. Weights have mean one: of the squared loss they scale rows in units, in other cases
    `WeightedLoss` has them.
    """
    X, y, w, _, uneven = rows
    w = w / w.mean() if len(w) else w
    if units is None or not len(y):
        return (X, np.column_stack([y, w]), WeightedLoss(loss)) if uneven else (X, y, loss)
    precision, squared = X.dtype, isinstance(loss, SquaredLoss)
    roots = np.sqrt(w).astype(precision) if squared else np.ones(len(y), precision)
    factors = np.asarray(units["factors"], np.float64)
    centre, level = (
        (w @ X / len(y), float(w @ y) / len(y) if squared else 0.0)
        if units["own"]
        else (np.asarray(units["centre"], np.float64), units["level"])
    )
    if sparse.issparse(X):
        made: Any = _thin(X, centre, factors.astype(precision), roots, units)
    else:
        first = int(units["ones"] > 0)
        made = np.full((len(y), first + len(factors)), units["ones"], precision)
        np.subtract(X, centre.astype(precision), out=made[:, first:])
        made[:, first:] *= factors.astype(precision)
        made *= roots[:, None]
    if not isinstance(loss, SoftmaxLoss):
        y = ((y - level) / units["unit"]).astype(precision) * (roots if squared else 1)
    if uneven and not squared:
        return made, np.column_stack([y.astype(precision), w.astype(precision)]), WeightedLoss(loss)
    return made, y, loss


def _thin(X: Any, centre: Array, factors: Array, roots: Array, units: Mapping[str, Any]) -> SparseFeatures:
    """The same of sparse features."""
    precision, ones = X.dtype, units["ones"]
    data = X.data * factors[X.indices] * np.repeat(roots, np.diff(X.indptr))
    stored = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    shift = (centre * factors).astype(precision)
    if units["own"]:
        return SparseFeatures(stored, roots, shift)
    if not ones:
        return SparseFeatures(stored)
    column = sparse.csr_array(ones * roots[:, None])
    return SparseFeatures(sparse.hstack([column, stored], format="csr"), roots, np.append(shift[:0], [0, *shift]))


class Table:
    """The sites of a table, each with its rows; those of weight zero are as if they were not there.

    Attributes
    ----------
    shape : Shape
        What a server knows of the sites: rows, features, loss, and p_i, what the rows of each weigh.
    weight : float
        What all rows weigh.
    sparse : bool
        Whether the features are.
    """

    def __init__(self, features: Any, targets: Array, weights: Array, groups: Support, loss: Loss) -> None:
        kept = np.flatnonzero(weights > 0)
        kept = kept[np.argsort(groups[kept], kind="stable")]
        _, starts = np.unique(groups[kept], return_index=True)
        features = SparseFeatures(features).stored if sparse.issparse(features) else features
        features, targets, weights = features[kept], targets[kept], weights[kept].astype(np.float64)
        parts, uneven = map(slice, starts, [*starts[1:], len(kept)]), bool(np.ptp(weights))
        self.sites = [SiteRows(features[p], targets[p], weights[p], k, uneven) for k, p in enumerate(parts)]
        totals = np.array([site.weights.sum() for site in self.sites])
        self.weight, self.loss, self.sparse = float(totals.sum()), loss, sparse.issparse(features)
        rows = [len(site.targets) for site in self.sites]
        self.shape = Shape(features.shape[1], loss, rows, range(len(rows)), totals / totals.sum(), features.dtype)

    def channel(self, view: Mapping[str, Any]) -> Federation:
        """The federation of the sites in a view; one without rows has no part."""
        training = [part for site in self.sites if len((part := site.training(view["fold"])).targets)]
        keys = np.array([part.place for part in training], np.intp)
        features, targets, losses = zip(*(seen(part, view["units"], self.loss) for part in training), strict=True)
        offsets = np.append(0, np.cumsum([len(y) for y in targets]))
        table = stacked(features) if isinstance(features[0], SparseFeatures) else _joined(features)
        p = np.array([part.weights.sum() for part in training])
        return Federation(table, np.concatenate(targets), offsets, losses[0], p / p.sum(), keys=keys)


def _joined(parts: Sequence[Any]) -> Any:
    thin = sparse.issparse(parts[0])
    return SparseFeatures(sparse.vstack(parts, format="csr")) if thin else np.concatenate(parts)


@dataclass(frozen=True)
class WeightedLoss:
    """w_j l(z_j, y_j), for sample weights where rows cannot be scaled: each row of the targets holds y_j and w_j.

    Weights have mean one.
    """

    loss: Any

    def __post_init__(self) -> None:
        for name in ("shift_invariant", "local_solver", "row_weight", "model_shape", "check_targets"):
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
