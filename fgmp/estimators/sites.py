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

from .._support.sparse_features import SparseFeatures
from .._support.validation import as_array, distinct, short_repr
from .._support.warnings import advise_once
from ..aggregation import UpdateSpec
from ..federation import Client, Federation, ProblemInfo
from ..losses import Loss, SoftmaxLoss, SquaredLoss
from ..rounds import Exchange, Method
from ..sparse_model import Array, IndexArray, SparseModel


def groups_of(
    n_rows: int, groups: Any, weights: Array, least: int
) -> tuple[Array, IndexArray, Array]:
    """The distinct groups, sorted, the place of each row's group among them, and the weights of those that take part.

    Groups with fewer than `least` rows that weigh get weight zero, and a warning names them; where there are no groups,
    all rows are of one, of any size.
    """
    if not weights.any():
        raise ValueError(
            "sample_weight is zero for every row; expected at least one positive weight."
        )
    if groups is None:
        return np.zeros(1, np.intp), np.zeros(n_rows, np.intp), weights
    values = group_of_each(n_rows, groups)
    labels, codes = distinct("groups", values, "a group")
    if any(isinstance(label, float) and label % 1 for label in labels.tolist()):
        raise ValueError(
            "groups holds numbers that are not whole; expected the group of each row. Weights are given by name: "
            "fit(X, y, sample_weight=...)"
        )
    counts = np.bincount(codes[weights > 0], minlength=len(labels))
    small = (counts > 0) & (counts < least)
    if small.any():
        which = f"{small.sum()} of {np.count_nonzero(counts)} groups have fewer than min_rows={least} rows "
        which += f"({some_of(labels[small].tolist(), 5)})"
        if not (counts >= least).any():
            raise ValueError(
                f"{which}, and none is left to fit; larger groups, or a smaller min_rows, are needed"
            )
        advise_once(
            "min_rows", f"{which}: they send nothing and take no part; a smaller min_rows lets them"
        )
    return labels, codes, np.where(small[codes], 0, weights)


def group_of_each(n_rows: int, groups: Any) -> Array:
    """The group of each row as a vector.

    Times in nanoseconds, which Python would count as integers that no time finds again, are told in
    microseconds where that loses nothing.
    """
    values = as_array("groups", _with_zones(groups))
    if values.ndim == 0:
        raise ValueError(
            f"groups is {short_repr(groups)}; expected one group for each of {n_rows} rows, no name of a column"
        )
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"groups has shape {values.shape}; expected one group for each of {n_rows} rows"
        )
    values = values.reshape(-1)
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":
        coarser = values.astype(f"{values.dtype.kind}8[us]")
        is_there = ~np.isnat(values)
        return coarser if np.array_equal(coarser[is_there], values[is_there]) else values
    return values


def _with_zones(groups: Any) -> Any:
    """A column of times with a zone as objects: NumPy's arrays would have them without it."""
    import narwhals as nw

    column = nw.from_native(groups, series_only=True, pass_through=True)
    if not isinstance(column, nw.Series) or getattr(column.dtype, "time_zone", None) is None:
        return groups
    values = np.empty(len(column), object)
    values[:] = column.to_list()
    return values


def some_of(names: Sequence[Any], most: int) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + f" and {len(names) - most} more" * (
        len(names) > most
    )


def folds_at(n_rows: int, n_folds: int, least: int) -> int:
    """Into how many folds a site deals its rows, so that each has `least`; 0 where it holds out nothing.

    Sums of all rows and of all but a fold subtract to the fold, so that no fold is smaller.
    """
    if least == 1:
        return n_folds
    count = min(n_folds, n_rows // least)
    return count if count > 1 else 0


def folds_of(targets: Array, index: int, n_folds: int, seed: int, least: int = 1) -> IndexArray:
    """The fold of each row of a site, dealt at random, class by class where targets repeat, evenly.

    -1 where the site has too few rows to hold any out: then all of them train for every fold.
    """
    n_folds = folds_at(len(targets), n_folds, least)
    if not n_folds:
        return np.full(len(targets), -1, np.intp)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, index)))
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
    index: int = 0
    uneven: bool = False

    def training(self, fold: Sequence[int] | None) -> SiteRows:
        """The rows that train where a fold (its number, how many there are, the seed, least rows) is held out."""
        if fold is None:
            return self
        train = folds_of(self.targets, self.index, *fold[1:]) != fold[0]
        return SiteRows(
            self.features[train], self.targets[train], self.weights[train], self.index, self.uneven
        )


def seen(rows: SiteRows, units: Mapping[str, Any] | None, loss: Loss) -> tuple[Any, Array, Any]:
    """Features, targets and loss of rows in some units.

    Column j becomes (x_j - centre_j) factor_j, the centre that of the site where each has an intercept of its own; and
    one of the number ``ones`` leads where all share an intercept. Targets of the squared loss lose the level and are
    counted in a unit. Without units, rows are as they are, in float64. Weights have mean one: of the squared loss they
    scale rows in units, in other cases `WeightedLoss` has them.
    """
    X, y, w = rows.features, rows.targets, rows.weights / rows.weights.mean()
    if units is None:
        made = (
            SparseFeatures(X.astype(float, copy=False))
            if sparse.issparse(X)
            else X.astype(float, copy=False)
        )
    else:
        centre, level = np.asarray(units["centre"]), units["level"]
        if units["own"]:
            centre, level = w @ X / len(y), w @ y / len(y)
        made = _in_units(X, np.asarray(units["factors"]), centre, units["ones"])
        if not isinstance(loss, SoftmaxLoss):
            y = ((y - level) / units["unit"]).astype(X.dtype)
        if rows.uneven and isinstance(loss, SquaredLoss):
            roots = np.sqrt(w).astype(X.dtype)
            return (
                made.times_rows(roots) if sparse.issparse(X) else made * roots[:, None],
                y * roots,
                loss,
            )
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
    stored = sparse.hstack(
        [lead, sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)], format="csr"
    )
    shift = np.append(np.zeros(first), centre * factors).astype(precision)
    return SparseFeatures(stored, np.ones(X.shape[0], precision), shift)


class Table:
    """The sites of a table, each with its rows; those of weight zero are as if they were not there.

    A fit needs no more of sites, wherever they are (`fgmp.flower.fit_over` has others), than their `transport`;
    `shape`, with p_i, what the rows of each weigh; `weight`, what all rows weigh; whether features are `sparse`;
    and the `least` rows on which sums of a site may rest. Of sites elsewhere some may be `absent`.
    """

    def __init__(
        self,
        features: Any,
        targets: Array,
        weights: Array,
        groups: IndexArray,
        loss: Loss,
        least: int = 1,
    ) -> None:
        self.sparse, self.least = sparse.issparse(features), least
        X, w = (
            SparseFeatures(features).stored if self.sparse else features,
            weights.astype(np.float64),
        )
        kept = np.flatnonzero(w > 0)
        kept = kept[np.argsort(groups[kept], kind="stable")]
        parts, uneven = (
            np.split(kept, np.flatnonzero(np.diff(groups[kept])) + 1),
            bool(np.ptp(w[kept])),
        )
        self.sites = [
            SiteRows(X[rows], targets[rows], w[rows], k, uneven) for k, rows in enumerate(parts)
        ]
        totals = np.array([site.weights.sum() for site in self.sites])
        self.weight = float(totals.sum())
        self.shape = ProblemInfo(
            X.shape[1],
            loss,
            list(map(len, parts)),
            range(len(parts)),
            totals / self.weight,
            X.dtype,
        )

    @property
    def absent(self) -> list[str]:
        """The names of sites that do not answer: none, for all are at hand."""
        return []

    def transport(
        self, units: Mapping[str, Any] | None = None, fold: Sequence[int] | None = None
    ) -> Federation:
        """The federation of the sites in a view, by default as they are; one without rows has no part."""
        training = [part for site in self.sites if len((part := site.training(fold)).targets)]
        clients = [Client(*seen(part, units, self.shape.loss), part.index) for part in training]
        return Federation.from_clients(clients, [part.weights.sum() for part in training])


def _weighted(name: str) -> Any:
    """A function of a loss, row by row, times the weights of the rows."""

    def function(
        self: WeightedLoss, predictions: Array, targets: Array, *direction: Array
    ) -> Array:
        y, weights = targets.T
        y = y.astype(np.intp) if isinstance(self.loss, SoftmaxLoss) else y
        return np.asarray((weights * getattr(self.loss, name)(predictions, y, *direction).T).T)

    return function


@dataclass(frozen=True)
class WeightedLoss:
    """w_j l(z_j, y_j), for sample weights of mean one where rows cannot be scaled: targets hold y_j and w_j."""

    loss: Any

    is_quadratic = False  # least squares would not know the weights

    def __post_init__(self) -> None:
        for name in (
            "shift_invariant",
            "local_solver",
            "row_weight",
            "model_shape",
            "check_targets",
        ):
            object.__setattr__(self, name, getattr(self.loss, name))
        object.__setattr__(self, "self_concordance", getattr(self.loss, "self_concordance", 0.0))

    values, derivative, curvature = map(_weighted, ("values", "derivative", "curvature"))

    @property
    def leads(self) -> Any:
        """Those of the loss, for weights are above zero; None where it has none."""
        leads = self.loss.leads
        if leads is None:
            return None

        def of_labels(predictions: Array, targets: Array) -> Array:
            y = targets[:, 0]
            return np.asarray(
                leads(predictions, y.astype(np.intp) if isinstance(self.loss, SoftmaxLoss) else y)
            )

        return of_labels

    def misclassified(self, predictions: Array, targets: Array) -> Array | None:
        """As every loss, from `leads`."""
        return Loss.misclassified(self, predictions, targets)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sums(Method):
    """Sums over sites as they are, and no model: a site is told all that is `known`, and each sum adds an array to it.

    The `question` is one of `moments`, `held_out`, `intercepts`, which take `given`; `size` is the shape of a sum.

    Of moments three sums are asked for: sizes as logarithms, means, and mean squares in units of the sizes. Masks have
    a fixed resolution and range, in which a deviation far below the mean is nothing, and a site in other units too
    much. Under masks there are four: the deviations from the mean have a size of their own, in which the last sum says
    them and their squares, and larger numbers are sent as several, by `split_digits`.
    """

    question: str
    size: tuple[int, ...]
    given: tuple[Any, ...] = ()

    @property
    def masked(self) -> bool:
        """Whether these are moments under masks."""
        return self.question == "moments" and bool(self.given[1])

    def sends_objectives(self) -> bool:
        """Losses on rows that were held out, and squares of targets."""
        return True

    def exchanges(self) -> Sequence[Exchange]:
        """One, but for moments."""
        one = Exchange(lambda known: known or 0, self.answer, self.step, self.update_spec)
        return [one] * (3 + self.masked if self.question == "moments" else 1)

    def update_spec(self, known: Any) -> UpdateSpec:
        """What an answer looks like: of numbers in digits so many rows."""
        digits = (
            {1: (_OF_MEANS,), 3: (_OF_MEANS + _OF_SQUARES,)}.get(len(known or ()), ())
            if self.masked
            else ()
        )
        return UpdateSpec((*digits, *self.size))

    def answer(self, client: Client, known: Any, rng: np.random.Generator) -> Array:
        """What the rows of a site say."""
        return np.asarray(_QUESTIONS[self.question](client, known, self.size, *self.given))

    def step(self, known: tuple[Any, ...], mean: Array) -> tuple[Any, ...]:
        """What is known then: of logarithms, as which moments say sizes, the powers of two."""
        index = len(known or ())
        if self.question == "moments" and (index == 0 or (self.masked and index == 2)):
            return (*known, 2.0 ** np.round(mean))
        if self.masked:
            mean = mean.reshape(-1, *self.size)
            parts = [mean] if index == 1 else np.split(mean, [_OF_MEANS])
            return (*known, *map(join_digits, parts))
        return (*known, mean)

    def moments(self, known: tuple[Any, ...]) -> tuple[Array, Array, Array]:
        """Of all rows a unit for each column and target, the mean and the mean square in it."""
        if not self.masked:
            unit, mean, square = known
            return unit, mean, square
        size, about, unit, off, square = known
        if self.given[0] == "own":
            return unit, about * (size / unit), square
        if self.given[0] == "zero":
            return unit, off, square
        # The mean that deviations were taken from was rounded in units of the sizes: it is off by so much.
        return unit, about * (size / unit) + off, np.maximum(square - off**2, 0)

    def coefficients(self, state: Any) -> SparseModel:
        """None."""
        return SparseModel.zero((1,))


_DIGIT = 2.0**20  # with a resolution of 2^-40 and a range of 2^22, as `SecureSum` has them
_OF_MEANS, _OF_SQUARES = 2, 3


class BeyondRange(ValueError):
    """Columns (those behind the features are of the targets) of a site that masks cannot add to those of the others."""

    def __init__(self, columns: Array) -> None:
        self.columns = columns
        found = f"the columns [{some_of(columns.tolist(), 10)}] are in units too far from those of other sites"
        super().__init__(f"{found} for sums under masks; expected the same units at all sites")


def split_digits(values: Array, count: int) -> Array:
    """Numbers as so many each, lowest first, of which only the highest may be above 2^20: v = sum_k d_k 2^(20 k)."""
    rest, found = values, []
    for index in range(count - 1, 0, -1):
        found.append(np.trunc(rest / _DIGIT**index))
        rest = rest - found[-1] * _DIGIT**index
    too_large = np.flatnonzero(~(np.abs((found or [rest])[0]) <= _DIGIT))
    if too_large.size:
        raise BeyondRange(too_large)
    return np.stack([rest, *found[::-1]])


def join_digits(rows: Array) -> Array:
    """The numbers that digits, or means of them, stand for."""
    return np.asarray(_DIGIT ** np.arange(len(rows)) @ rows)


def moments(client: Client, known: Any, size: tuple[int, ...], about: str, masked: bool) -> Array:
    """Of each column, then of the targets (of classes: their shares), the size, the mean, and the mean square.

    The size is log2 of the root mean square, 0 for a column that is zero: in units of what all say of it no other sum
    is large or small. Squares are about the mean of all, each site's own, or zero. Under masks the size of deviations
    from there comes between, and deviations beside their squares.
    """
    (y, w, loss), X = _parts(client), client.features
    X = (X.stored if isinstance(X, SparseFeatures) else X).astype(np.float64, copy=False)
    labels = np.arange(loss.n_classes) if isinstance(loss, SoftmaxLoss) else np.array([-1, 1])
    targets = (
        y[:, None] if isinstance(loss, SquaredLoss) else (y[:, None] == labels).astype(np.float64)
    )
    if not known:
        return _logarithms(np.append(_mean(X**2, w), _mean(targets**2, w)))
    unit, mean = known[0], np.append(_mean(X, w), _mean(targets, w))
    if len(known) == 1:
        return split_digits(mean / unit, _OF_MEANS) if masked else np.asarray(mean / unit)
    centre, rest = np.split(
        mean if about == "own" else known[1] * unit * (about == "mean"), [X.shape[1]]
    )
    if sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        own, variance = mean_variance_axis(X, 0, weights=w)
        squares = variance + (own - centre) ** 2
    else:
        squares = _mean((X - centre) ** 2, w)
    squares = np.append(squares, _mean((targets - rest) ** 2, w))
    if not masked:
        return np.asarray(squares / unit**2)
    if len(known) == 2:
        return _logarithms(squares)
    # Of a dense table the mean of the differences, which loses nothing where the mean is large.
    off = mean[: X.shape[1]] - centre if sparse.issparse(X) else _mean(X - centre, w)
    unit, off = known[2], np.append(off, _mean(targets - rest, w))
    return np.vstack(
        [split_digits(off / unit, _OF_MEANS), split_digits(squares / unit**2, _OF_SQUARES)]
    )


def _logarithms(squares: Array) -> Array:
    """log2 of the roots, 0 for zero."""
    return np.asarray(np.log2(np.where(squares > 0, squares, 1.0)) / 2)


def held_out(
    client: Client, known: Any, size: tuple[int, ...], seed: int, least: int, own: bool, unit: float
) -> Array:
    """The mean loss l on rows that this site held out, of models in the units of the table; l^2, and l by fold.

    Known are intercepts and models, of each fold as many, one after another. A site with an intercept of its `own`
    takes the mean of what a model leaves of its rows that train. Losses are sent in a unit; the seed is of the folds.
    """
    (intercepts, *models), (y, w, loss), n_folds = known, _parts(client), size[0] - 2
    folds, total = folds_of(y, client.client_id, n_folds, seed, least), np.zeros((n_folds, size[1]))
    for index, (model, intercept) in enumerate(zip(models, intercepts, strict=True)):
        held = folds == index // size[1]
        z = client.predictions(model) + intercept.reshape(model.shape[1:])
        if own and not held.all():
            z = z + w[~held] @ (y - z)[~held] / w[~held].sum()
        total.flat[index] = w[held] @ loss.values(z[held], y[held]) / (len(y) * unit)
    mean = total.sum(axis=0)
    return np.stack([mean, mean**2, *total])


def intercepts(
    client: Client, known: Any, size: tuple[int, ...], level: float, unit: float
) -> Array:
    """At the place of the site the mean of what a model leaves of its targets, and a one, which tells its share.

    The mean is less a level and in a unit. Where there is one place for all, under masks, the sums tell the mean over
    the sites alone.
    """
    (model,), (y, w, _), found = known, _parts(client), np.zeros(size)
    left = w @ (y - client.predictions(model)) / len(y)
    index = client.client_id if size[1] > 1 else 0
    found[:, index] = (left - level) / unit, 1
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
