"""The estimators over Flower: `table_app` at each site, `fit_over` at the server, and the bits of one process."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..checks import check_protocol, check_sequence
from ..estimators.sites import SiteRows, folds_of, seen
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..models import Array
from ..watching import Run
from .channel import OverFlower
from .client import client_app


def table_app(read: Callable[[Any, Sequence[str]], tuple[Any, Any]], **options: Any) -> Any:
    """A site's half of `fit_over`, a ClientApp.

    Parameters
    ----------
    read : callable (context, columns) -> (X, y)
        Reads the site's own table: X of shape (n_samples, n_features), its columns in the order of the names that the
        server gives; y as the labels or numbers that stand there.
    **options
        `masked_only` and `mods` of `client_app`. Each node has a ``partition-id``, its place: 0, 1, ...
    """

    def load(context: Any, settings: Mapping[str, Any]) -> tuple[Any, Array]:
        X, y = read(context, settings["features"])
        y, classes = np.asarray(y), settings["classes"]
        if len(y) < settings["min_rows"]:
            raise ValueError(f"{len(y)} rows, and min_rows is {settings['min_rows']}: this site takes no part")
        if classes and not np.isin(y, classes).all():
            raise ValueError(f"a target is none of the classes {classes}")
        targets = np.searchsorted(classes, y) if classes else y.astype(np.float64)
        targets = np.where(targets, 1.0, -1.0) if classes and len(classes) == 2 else targets
        X = X if hasattr(X, "tocsr") else np.ascontiguousarray(X, np.result_type(np.asarray(X).dtype, np.float32))
        rows = SiteRows(X, targets, np.ones(len(y)), context.node_config["partition-id"])
        return seen(rows.training(settings["fold"]), settings["units"], _loss_of(classes))[:2]

    return client_app(load, **options)


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
        ``secure=True`` sends all sums under masks. It is not modified.
    grid, n_clients, **options
        As in `OverFlower`, with `wait_for`, `deadline` and `most_rows`; too few sites are a TimeoutError.
    features : sequence of str
        The columns.
    classes : sequence, optional
        The labels of a classifier, in increasing order: the server sees no targets.
    sparse : bool, default False
        Whether the sites' tables are sparse, which are not standardised by default.
    report : callable, default print
        Is told every round: where the fit is, the loss, and who is missing, by name.

    Returns
    -------
    FedGradMPClassifier or FedGradMPRegressor
        Fitted, as ``fit(X, y, groups)`` of all rows in one process fits it, its `groups_` the names of the sites.
    """
    from sklearn.base import clone, is_classifier

    check_protocol("estimator", estimator, ("fit_sites",), "a FedGradMPClassifier or FedGradMPRegressor")
    names = [str(name) for name in check_sequence("features", features, "names of columns")]
    if is_classifier(estimator) != (classes is not None) or (classes is not None and len(set(classes)) < 2):
        expected = "at least two labels for a classifier, and None for a regressor"
        raise ValueError(f"classes is {classes!r}, and the estimator {type(estimator).__name__}; expected {expected}")
    labels = None if classes is None else np.unique(np.asarray(classes)).tolist()
    min_rows = estimator.min_rows if estimator.private is None else 1
    settings = {"features": names, "classes": labels, "min_rows": min_rows, "units": None, "fold": None}
    sites = _Sites(grid, _loss_of(labels), n_clients, settings=settings, **options)
    sites.sparse, sites.weight, sites.least = sparse, float(sum(sites.shape.rows)), min_rows
    if sites.shape.n_features != len(names):
        raise ValueError(f"features has {len(names)} names; the sites have {sites.shape.n_features} columns")

    def say(words: str, run: Run, unit: float) -> None:
        gone = ", ".join(sites.absent)
        found = f"{words}, round {run.step.round}: loss {run.column('objective')[-1] * unit:.6g}"
        report(found + f"; missing: {gone}" * bool(gone))

    return clone(estimator).fit_sites(sites, sites.names, names, labels, say)


class _Sites(OverFlower):
    """Flower's clients as a fit sees them."""

    sparse: bool
    weight: float
    least: int

    @property
    def absent(self) -> list[str]:
        """The names of those that had no answer when last asked."""
        return [name for node, name in zip(self.nodes, self.names, strict=True) if node in self.missing]

    def channel(self, units: Mapping[str, Any] | None = None, fold: Sequence[int] | None = None) -> OverFlower:
        """The same clients in a view, as `fgmp.estimators.sites.Table` has it."""
        rows = self.shape.rows
        if fold is not None:
            rows = [int((folds_of(np.arange(m), k, *fold[1:]) != fold[0]).sum()) for k, m in enumerate(rows)]
        n_features, weights = self.shape.n_features + bool(units and units["ones"]), np.array(rows) / sum(rows)
        settings, rows = json.loads(self.settings) | {"units": units, "fold": fold}, [max(m, 1) for m in rows]
        return self.again(settings, n_features=n_features, rows=rows, weights=weights)


def _loss_of(classes: Sequence[Any] | None) -> Loss:
    if classes is None:
        return SquaredLoss()
    return LogisticLoss() if len(classes) == 2 else SoftmaxLoss(len(classes))
