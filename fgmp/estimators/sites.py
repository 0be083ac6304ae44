"""The sites of a fit: the rows of each, what it shows of them, and the sums that a fit asks for beside its rounds.

A site shows the rows that train where a fold is held out, in units that all agreed on; JSON holds both. `seen` makes
this view of a site's own rows: here for all sites of a table, over Flower at each site, to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..advice import advise
from ..checks import as_array
from ..federation import Client, Federation, Shape
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..methods.support_solvers import NewtonOnSupport
from ..models import Array, SparseModel, Support
from ..reducers import Form
from ..rounds import Exchange, Method
from ..sparse_features import SparseFeatures


def groups_of(n_rows: int, groups: Any, weights: Array, least: int) -> tuple[Array, Support, Array]:
    """The distinct groups, sorted, the place of each row's group among them, and the weights of those that take part.

    Groups with fewer than `least` rows that weigh get weight zero, and a warning names them; where there are no groups,
    all rows are of one, of any size.
    """
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
    if groups is None:
        return np.zeros(1, np.intp), np.zeros(n_rows, np.intp), weights
    values = as_array("groups", groups)
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(f"groups has shape {values.shape}; expected one group for each of {n_rows} rows")
    try:
        labels, codes = np.unique(values.reshape(-1), return_inverse=True)
    except TypeError:
        labels = np.array([np.nan])
    if not np.array_equal(labels, labels):  # what is missing equals nothing, or cannot be sorted
        raise ValueError("groups holds missing values, or several kinds; expected a group in every row, all of a kind")
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


def folds_at(n_rows: int, n_folds: int, least: int) -> int:
    """Into how many folds a site deals its rows, so that each has `least`; 0 where it holds out nothing.

    Sums of all rows and of all but a fold subtract to the fold, so that no fold is smaller.
    """
    if least == 1:
        return n_folds
    count = min(n_folds, n_rows // least)
    return count if count > 1 else 0


def folds_of(targets: Array, place: int, n_folds: int, seed: int, least: int = 1) -> Support:
    """The fold of each row of a site, dealt at random, class by class where targets repeat, evenly.

    -1 where the site has too few rows to hold any out: then all of them train for every fold.
    """
    n_folds = folds_at(len(targets), n_folds, least)
    if not n_folds:
        return np.full(len(targets), -1, np.intp)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, place)))
    order = rng.permutation(len(targets))
    if len(np.unique(targets)) <= len(targets) // 2:
        order = order[np.argsort(targets[order], kind="stable")]
    folds = np.empty(len(targets), np.intp)
    folds[order] = (np.arange(len(order)) + rng.integers(n_folds)) % n_folds
    return folds


@dataclass(frozen=True, eq=False, repr=False)
class SiteRows:
    """What one site holds, and its place; `uneven` says whether rows weigh differently, at this site or another."""

    features: Any
    targets: Array  # as the loss takes them
    weights: Array  # above zero
    place: int = 0
    uneven: bool = False

    def training(self, fold: Sequence[int] | None) -> SiteRows:
        """The rows that train where a fold (its number, how many there are, the seed, least rows) is held out."""
        if fold is None:
            return self
        train = folds_of(self.targets, self.place, *fold[1:]) != fold[0]
        return SiteRows(self.features[train], self.targets[train], self.weights[train], self.place, self.uneven)


def seen(rows: SiteRows, units: Mapping[str, Any] | None, loss: Loss) -> tuple[Any, Array, Any]:
    """Features, targets and loss of rows in some units.

    Column j becomes (x_j - centre_j) factor_j, the centre that of the site where each has an intercept of its own; and
    one of the number ``ones`` leads where all share an intercept. Targets of the squared loss lose the level and are
    counted in a unit. Without units, rows are as they are, in float64. Weights have mean one: of the squared loss they
    scale rows in units, in other cases `WeightedLoss` has them.
    """
    X, y, w = rows.features, rows.targets, rows.weights / rows.weights.mean()
    if units is None:
        made = SparseFeatures(X.astype(float, copy=False)) if sparse.issparse(X) else X.astype(float, copy=False)
    else:
        centre, level = np.asarray(units["centre"]), units["level"]
        if units["own"]:
            centre, level = w @ X / len(y), w @ y / len(y)
        made = _in_units(X, np.asarray(units["factors"]), centre, units["ones"])
        if not isinstance(loss, SoftmaxLoss):
            y = ((y - level) / units["unit"]).astype(X.dtype)
        if rows.uneven and isinstance(loss, SquaredLoss):
            roots = np.sqrt(w).astype(X.dtype)
            return made.times_rows(roots) if sparse.issparse(X) else made * roots[:, None], y * roots, loss
    return (made, np.column_stack([y, w]), WeightedLoss(loss)) if rows.uneven else (made, y, loss)


def _in_units(X: Any, factors: Array, centre: Array, ones: float) -> Any:
    """The columns (x_j - centre_j) factor_j behind one of ones, where there is to be one; sparse where X is."""
    first, precision = int(ones > 0), X.dtype
    if not sparse.issparse(X):
        made = np.full((len(X), first + len(factors)), ones, precision)
        np.subtract(X, centre.astype(precision), out=made[:, first:])
        made[:, first:] *= factors.astype(precision)
        return made
    data = X.data * factors.astype(precision)[X.indices]
    lead = sparse.csr_array(np.full((X.shape[0], first), ones, precision))
    stored = sparse.hstack([lead, sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)], format="csr")
    shift = np.append(np.zeros(first), centre * factors).astype(precision)
    return SparseFeatures(stored, np.ones(X.shape[0], precision), shift)


class Table:
    """The sites of a table, each with its rows; those of weight zero are as if they were not there.

    A fit needs no more of sites, wherever they are (`fgmp.flower.fit_over` has others), than their `channel`; `shape`,
    with p_i, what the rows of each weigh; `weight`, what all rows weigh; whether features are `sparse`; and the `least`
    rows on which sums of a site may rest. Of sites elsewhere some may be `absent`.
    """

    def __init__(
        self, features: Any, targets: Array, weights: Array, groups: Support, loss: Loss, least: int = 1
    ) -> None:
        self.sparse, self.least = sparse.issparse(features), least
        X, w = SparseFeatures(features).stored if self.sparse else features, weights.astype(np.float64)
        kept = np.flatnonzero(w > 0)
        kept = kept[np.argsort(groups[kept], kind="stable")]
        parts, uneven = np.split(kept, np.flatnonzero(np.diff(groups[kept])) + 1), bool(np.ptp(w[kept]))
        self.sites = [SiteRows(X[rows], targets[rows], w[rows], k, uneven) for k, rows in enumerate(parts)]
        totals = np.array([site.weights.sum() for site in self.sites])
        self.weight = float(totals.sum())
        self.shape = Shape(X.shape[1], loss, list(map(len, parts)), range(len(parts)), totals / self.weight, X.dtype)

    @property
    def absent(self) -> list[str]:
        """The names of sites that do not answer: none, for all are at hand."""
        return []

    def channel(self, units: Mapping[str, Any] | None = None, fold: Sequence[int] | None = None) -> Federation:
        """The federation of the sites in a view, by default as they are; one without rows has no part."""
        training = [part for site in self.sites if len((part := site.training(fold)).targets)]
        clients = [Client(*seen(part, units, self.shape.loss), part.place) for part in training]
        return Federation.of(clients, [part.weights.sum() for part in training])


def _weighted(name: str) -> Any:
    """A function of a loss, row by row, times the weights of the rows."""

    def function(self: WeightedLoss, predictions: Array, targets: Array, *direction: Array) -> Array:
        y, weights = targets.T
        y = y.astype(np.intp) if isinstance(self.loss, SoftmaxLoss) else y
        return np.asarray((weights * getattr(self.loss, name)(predictions, y, *direction).T).T)

    return function


@dataclass(frozen=True)
class WeightedLoss:
    """w_j l(z_j, y_j), for sample weights of mean one where rows cannot be scaled: targets hold y_j and w_j."""

    loss: Any

    def __post_init__(self) -> None:
        for name in ("shift_invariant", "local_solver", "row_weight", "model_shape", "check_targets"):
            object.__setattr__(self, name, getattr(self.loss, name))

    values, derivative, curvature = map(_weighted, ("values", "derivative", "curvature"))


@dataclass(frozen=True)
class Sums(Method):
    """Sums over sites as they are, and no model: a site is told all that is `known`, and each sum adds an array to it.

    The `question` is one of `moments`, `held_out`, `intercepts`, which take `given`; `size` is the shape of a sum.
    """

    question: str
    size: tuple[int, ...]
    given: tuple[Any, ...] = ()

    def sends_objectives(self) -> bool:
        """Losses on rows that were held out, and squares of targets."""
        return True

    def exchanges(self) -> Sequence[Exchange]:
        """One, but for moments."""
        one = Exchange(lambda known: known or 0, self.answer, self.step, lambda known: Form(self.size))
        return [one] * (3 if self.question == "moments" else 1)

    def answer(self, client: Client, known: Any, rng: np.random.Generator) -> Array:
        """What the rows of a site say."""
        return np.asarray(_QUESTIONS[self.question](client, known, self.size, *self.given))

    def step(self, known: tuple[Any, ...], mean: Array) -> tuple[Any, ...]:
        """What is known then: of logarithms, with which moments begin, the powers of two."""
        return (*known, 2.0 ** np.round(mean) if self.question == "moments" and not known else mean)

    def coefficients(self, state: Any) -> SparseModel:
        """None."""
        return SparseModel.zero((1,))


def moments(client: Client, known: Any, size: tuple[int, ...], about: str) -> Array:
    """Of each column, then of the targets (of classes: their shares), the size, the mean, and the mean square.

    The size is log2 of the root mean square, 0 for a column that is zero: in units of what all say of it no other sum
    is large or small. Squares are about the mean of all, each site's own, or zero.
    """
    (y, w, loss), X = _parts(client), client.features
    X = (X.stored if isinstance(X, SparseFeatures) else X).astype(np.float64, copy=False)
    labels = np.arange(loss.n_classes) if isinstance(loss, SoftmaxLoss) else np.array([-1, 1])
    targets = y[:, None] if isinstance(loss, SquaredLoss) else (y[:, None] == labels).astype(np.float64)
    if not known:
        squares = np.append(_mean(X**2, w), _mean(targets**2, w))
        return np.asarray(np.log2(np.where(squares > 0, squares, 1.0)) / 2)
    unit, mean = known[0], np.append(_mean(X, w), _mean(targets, w))
    if len(known) == 1:
        return np.asarray(mean / unit)
    centre, rest = np.split(mean if about == "own" else known[1] * unit * (about == "mean"), [X.shape[1]])
    if sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        own, variance = mean_variance_axis(X, 0, weights=w)
        squares = variance + (own - centre) ** 2
    else:
        squares = _mean((X - centre) ** 2, w)
    return np.asarray(np.append(squares, _mean((targets - rest) ** 2, w)) / unit**2)


def held_out(client: Client, known: Any, size: tuple[int, ...], seed: int, least: int, own: bool, unit: float) -> Array:
    """The mean loss l on rows that this site held out, of models in the units of the table; l^2, and l by fold.

    Known are intercepts and models, of each fold as many, one after another. A site with an intercept of its `own`
    takes the mean of what a model leaves of its rows that train. Losses are sent in a unit; the seed is of the folds.
    """
    (intercepts, *models), (y, w, loss), n_folds = known, _parts(client), size[0] - 2
    folds, total = folds_of(y, client.key, n_folds, seed, least), np.zeros((n_folds, size[1]))
    for place, (model, intercept) in enumerate(zip(models, intercepts, strict=True)):
        held = folds == place // size[1]
        z = client.predictions(model) + intercept.reshape(model.shape[1:])
        if own and not held.all():
            z = z + w[~held] @ (y - z)[~held] / w[~held].sum()
        total.flat[place] = w[held] @ loss.values(z[held], y[held]) / (len(y) * unit)
    mean = total.sum(axis=0)
    return np.stack([mean, mean**2, *total])


def intercepts(client: Client, known: Any, size: tuple[int, ...]) -> Array:
    """At the place of the site the mean of what a model leaves of its targets, and a one, which tells its share.

    Where there is one place for all, under masks, the sums tell the mean over the sites alone.
    """
    (model,), (y, w, _), found = known, _parts(client), np.zeros(size)
    found[:, client.key if size[1] > 1 else 0] = w @ (y - client.predictions(model)) / len(y), 1
    return found


_QUESTIONS: dict[str, Any] = {"moments": moments, "held_out": held_out, "intercepts": intercepts}


def _parts(client: Client) -> tuple[Array, Array, Any]:
    """Targets of a site as it is, the weights of its rows, which have mean one, and the plain loss."""
    y, w, loss = client.targets, np.ones(len(client.targets)), client.loss
    if isinstance(loss, WeightedLoss):
        (y, w), loss = y.T, loss.loss
    return y.astype(np.intp if isinstance(loss, SoftmaxLoss) else np.float64, copy=False), w, loss


def _mean(columns: Any, weights: Array) -> Array:
    return np.asarray(columns.T @ weights / len(weights))


@dataclass(frozen=True)
class OneStep(NewtonOnSupport):
    """One Newton step in each round, for any loss: the rounds go on, and the best model on record counts."""

    def check(self, shape: Shape) -> None:
        """Every loss fits."""
