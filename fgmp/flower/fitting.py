"""The estimators over Flower: a table at each site, which `table_app` reads, and a fit at the server, `fit_over`.

The exchanges are those of `fit` in one process, to the same bits: units, rounds, path, folds and the closing one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import check_sequence
from ..estimators.sites import KINDS, SiteRows, folds_of, seen
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..models import Array
from ..watching import Run
from .channel import OverFlower
from .client import client_app

__all__ = ["fit_over", "table_app"]


def table_app(
    read: Callable[[Any, Sequence[str]], tuple[Any, Any]], *, masked_only: bool = False, mods: Sequence[Any] = ()
) -> Any:
    """A site's half of `fit_over`, a ClientApp.

    Parameters
    ----------
    read : callable (context, columns) -> (X, y)
        Reads the site's own table: X of shape (n_samples, n_features), its columns in the order of the names that the
        server gives; y as the labels or numbers that stand there. Of a node's configuration, ``partition-id`` (0, 1,
        ...) is its place, and ``name``, where there is one, what the server calls it.
    masked_only, mods
        As in `client_app`.
    """

    def load(context: Any, settings: Mapping[str, Any]) -> tuple[Any, Array]:
        X, y = read(context, settings["features"])
        if len(y) < settings["min_rows"]:
            raise ValueError(f"{len(y)} rows, and min_rows is {settings['min_rows']}: this site takes no part")
        loss, classes, y = _loss_of(settings["classes"]), settings["classes"], np.asarray(y)
        if classes:
            if not np.isin(y, classes).all():
                raise ValueError(f"a target is none of the classes {classes}")
            places = (y[:, None] == np.array(classes)).argmax(axis=1)
            y = np.where(places == 1, 1.0, -1.0) if len(classes) == 2 else places
        X = X if hasattr(X, "tocsr") else np.ascontiguousarray(X, np.result_type(np.asarray(X).dtype, np.float32))
        rows = SiteRows(X, y if classes else y.astype(np.float64), np.ones(len(y)), context.node_config["partition-id"])
        features, targets, _ = seen(rows.training(settings["fold"]), settings["units"], loss)
        return features, targets

    return client_app(load, masked_only=masked_only, mods=mods, kinds=KINDS)


def fit_over(
    estimator: Any,
    grid: Any,
    n_clients: int,
    features: Sequence[str],
    *,
    classes: Sequence[Any] | None = None,
    sparse: bool = False,
    report: Callable[[str], Any] = print,
    **options: Any,
) -> Any:
    """Fit an estimator to the tables of a Flower grid's sites, of which not a row is pooled.

    Parameters
    ----------
    estimator : FedGradMPClassifier or FedGradMPRegressor
        With its parameters; ``secure=True`` sends all sums under masks. It is not modified.
    grid : Grid
        As the main function of a ServerApp gets it.
    n_clients : int
        How many sites there have to be.
    features : sequence of str
        The columns.
    classes : sequence, optional
        The labels of a classifier, in increasing order: the server sees no targets.
    sparse : bool, default False
        Whether the sites' tables are sparse, which are not standardised by default.
    report : callable, default print
        Is told every round: where the fit is, the loss, and who is missing, by name.
    **options
        `wait_for`, `deadline` and `most_rows` of `OverFlower`.

    Returns
    -------
    FedGradMPClassifier or FedGradMPRegressor
        Fitted, as ``fit(X, y, groups)`` of all rows in one process fits it, its `groups_` the names of the sites.

    Raises
    ------
    ValueError
        Where the estimator, the classes and the columns do not fit each other.
    TimeoutError
        Where too few sites came.
    """
    from sklearn.base import clone, is_classifier

    from ..estimators.linear import SparseLinear

    names = [str(name) for name in check_sequence("features", features, "names of columns")]
    if not isinstance(estimator, SparseLinear):
        raise ValueError(f"estimator is {estimator!r}; expected a FedGradMPClassifier or FedGradMPRegressor")
    if is_classifier(estimator) != (classes is not None) or (classes is not None and len(set(classes)) < 2):
        expected = "at least two labels for a classifier, and None for a regressor"
        raise ValueError(f"classes is {classes!r}, and the estimator {type(estimator).__name__}; expected {expected}")
    labels = None if classes is None else np.unique(np.asarray(classes)).tolist()
    settings = {"features": names, "classes": labels, "min_rows": estimator.min_rows, "units": None, "fold": None}
    channel = OverFlower(grid, _loss_of(labels), n_clients, settings=settings, kinds=KINDS, **options)
    if channel.shape.n_features != len(names):
        raise ValueError(f"features has {len(names)} names; the sites have {channel.shape.n_features} columns")

    def say(words: str, run: Run, unit: float) -> None:
        loss, missing = run.column("objective")[-1] * unit, ", ".join(channel.missing)
        report(f"{words}, round {run.step.round}: loss {loss:.6g}" + f"; missing: {missing}" * bool(missing))

    sites = _Sites(channel, settings, sparse)
    return clone(estimator).fit_sites(sites, channel.names, names, labels, say)


class _Sites:
    """Flower's clients as a fit sees them."""

    def __init__(self, channel: OverFlower, settings: Mapping[str, Any], sparse: bool) -> None:
        self.everybody, self.settings, self.sparse = channel, settings, sparse
        self.shape, self.weight = channel.shape, float(sum(channel.shape.rows))

    def channel(self, units: Mapping[str, Any] | None = None, fold: Sequence[int] | None = None) -> OverFlower:
        """The same clients in a view, as `fgmp.estimators.sites.Table` has it."""
        plain = units and {name: value.tolist() if hasattr(value, "tolist") else value for name, value in units.items()}
        other = self.everybody.again({**self.settings, "units": plain, "fold": fold})
        rows = list(self.shape.rows)
        if fold is not None:
            rows = [int((folds_of(np.arange(m), k, *fold[1:]) != fold[0]).sum()) for k, m in enumerate(rows)]
        n_features = self.shape.n_features + bool(units and units["ones"])
        weights = np.array(rows) / sum(rows)
        other.shape = replace(self.shape, n_features=n_features, rows=[max(m, 1) for m in rows], weights=weights)
        other.weights = other.shape.weights
        return other


def _loss_of(classes: Sequence[Any] | None) -> Loss:
    if classes is None:
        return SquaredLoss()
    return LogisticLoss() if len(classes) == 2 else SoftmaxLoss(len(classes))
