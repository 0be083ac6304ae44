"""The estimators over Flower: `table_app` at each site, `fit_over` at the server, and the bits of one process."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._support.validation import check_protocol, check_sequence
from ..callbacks import Run
from ..estimators.client_sums import ClientSums
from ..estimators.federated_table import ClientRows, client_view
from ..estimators.folds import Fold, assign_folds
from ..estimators.groups import preview
from ..estimators.standardization import Standardization
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..rounds import Method
from ..shared_support.newton import NewtonOnSupport
from ..sparse_model import Array
from .client import Sayable, client_app
from .transport import OverFlower


def table_app(read: Callable[[Any, Sequence[str]], tuple[Any, Any]], **options: Any) -> Any:
    """A site's half of `fit_over`, a ClientApp.

    Parameters
    ----------
    read : callable (context, columns) -> (X, y)
        Reads the site's own table: X of shape (n_samples, n_features), its columns in the order of the names that the
        server gives; y as the labels or numbers that stand there. Of a KeyError the server is told which of its own
        names are missing.
    **options
        `masked_only` and `mods` of `client_app`. Each node has a ``partition-id``, its place: 0, 1, ...
    """

    def load(context: Any, settings: Mapping[str, Any]) -> tuple[Any, Array]:
        X, y = _read(read, context, settings["features"])
        classes = settings["classes"]
        if len(y) < settings["min_rows"]:
            raise ValueError(
                f"{len(y)} rows, and min_rows is {settings['min_rows']}: this site takes no part"
            )
        if classes and not np.isin(y, classes).all():
            raise ValueError(f"a target is none of the classes {classes}")
        X = _in_precision(X)
        targets = np.searchsorted(classes, y) if classes else y.astype(np.float64)
        targets = np.where(targets, 1.0, -1.0) if classes and len(classes) == 2 else targets
        if settings["dtype"] is None:  # it says who it is: of the targets only their number is told
            return X, targets if classes else np.zeros(len(y), X.dtype)
        X = X.astype(settings["dtype"], copy=False)
        rows = ClientRows(X, targets, np.ones(len(y)), context.node_config["partition-id"])
        fold = None if settings["fold"] is None else Fold(*settings["fold"])
        training = rows.take(rows.training_rows(fold))
        standardization = Standardization.from_settings(settings["units"])
        view = client_view(training, standardization, _loss_of(classes))
        return view.features, view.targets

    return client_app(load, **options)


def _read(read: Callable[[Any, Sequence[str]], Any], context: Any, names: Sequence[str]) -> Any:
    """What a site reads; a KeyError names the columns that are missing, by the server's own names for them."""
    try:
        X, y = read(context, names)
    except KeyError as error:
        missing = [name for name in names if name == error.args[0] or repr(name) in str(error)]
        if not missing:
            raise
        raise Sayable(f"columns missing at the site: {preview(missing, 10)}") from error
    return X, np.asarray(y)


def _in_precision(X: Any) -> Any:
    """A table as an estimator takes it in one process: float32 stays, whatever else is a number becomes float64."""
    from sklearn.utils import check_array

    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name="X"
    )


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
        Is told what is asked for next, and every round where the fit is, the loss, and who is missing, by name.

    Returns
    -------
    FedGradMPClassifier or FedGradMPRegressor
        Fitted, as ``fit(X, y, groups)`` of all rows in one process fits it. Its `groups_` are the names of the sites
        that had answers to the end, its `missing_` those of the others, whose rows may have a part in earlier sums.
    """
    from sklearn.base import clone, is_classifier

    check_protocol(
        "estimator", estimator, ("fit_sites",), "a FedGradMPClassifier or FedGradMPRegressor"
    )
    names = [str(name) for name in check_sequence("features", features, "names of columns")]
    if is_classifier(estimator) != (classes is not None) or (
        classes is not None and len(set(classes)) < 2
    ):
        expected = "at least two labels for a classifier, and None for a regressor"
        raise ValueError(
            f"classes is {classes!r}, and the estimator {type(estimator).__name__}; expected {expected}"
        )
    labels = None if classes is None else np.unique(np.asarray(classes)).tolist()
    min_rows = estimator.min_rows if estimator.private is None else 1
    settings = {
        "features": names,
        "classes": labels,
        "min_rows": min_rows,
        "units": None,
        "fold": None,
    }
    settings |= {"dtype": None}
    sites = _Sites(grid, _loss_of(labels), n_clients, settings=settings, **options)
    sites.is_sparse, sites.total_weight = sparse, float(sum(sites.shape.rows))
    sites.min_rows = min_rows
    sites.report = report
    if sites.shape.n_features != len(names):
        raise ValueError(
            f"features has {len(names)} names; the sites have {sites.shape.n_features} columns"
        )

    def say(words: str, run: Run, unit: float) -> None:
        gone = sites.absent
        there = len(sites.names) - len(gone)
        where = (
            f"rows of {there} of {len(sites.names)} sites"
            if gone and words == "all rows"
            else words
        )
        found = f"{where}, round {run.step.round}: loss {run.column('objective')[-1] * unit:.6g}"
        report(found + f"; missing: {', '.join(gone)}" * bool(gone))

    model = clone(estimator).fit_sites(sites, sites.names, names, labels, say)
    gone = sites.absent
    model.groups_ = np.asarray([name for name in sites.names if name not in gone])
    model.missing_ = np.asarray(gone, str)
    return model


class _Sites(OverFlower):
    """Flower's clients as a fit sees them."""

    is_sparse: bool
    total_weight: float
    min_rows: int
    report: Callable[[str], Any]

    @property
    def absent(self) -> list[str]:
        """The names of those that had no answer when last asked."""
        return [
            name for node, name in zip(self.nodes, self.names, strict=True) if node in self.missing
        ]

    def prepare(self, method: Method) -> OverFlower:
        """The transport for a method; what it is about is told first, where no rounds are told."""
        if about := _about(method):
            fold = json.loads(self.settings)["fold"]
            self.report(about if fold is None else f"without {Fold(*fold)}: {about}")
        return super().prepare(method)

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> OverFlower:
        """The same clients in a view, as `fgmp.estimators.federated_table.FederatedTable`."""
        rows = self.shape.rows
        if fold is not None:
            rows = [
                int((assign_folds(np.arange(m), k, *fold[1:]) != fold.number).sum())
                for k, m in enumerate(rows)
            ]
        n_intercepts = 0 if standardization is None else standardization.n_intercepts
        n_features, weights = self.shape.n_features + n_intercepts, np.array(rows) / sum(rows)
        # As they are, rows are summed in float64, in units in the precision of the table.
        dtype = np.dtype(np.float64) if standardization is None else self.shape.dtype
        settings = json.loads(self.settings) | {
            "units": None if standardization is None else standardization.to_settings(),
            "fold": fold,
            "dtype": self.shape.dtype.name,
        }
        at_least_one = [max(m, 1) for m in rows]
        other = self.with_settings(
            settings, n_features=n_features, rows=at_least_one, weights=weights, dtype=dtype
        )
        other.by, other.counts = "rows", np.array(rows)
        return other


def _about(method: Method) -> str:
    """What a method asks the sites for, in words; "" where each of its rounds is told."""
    if isinstance(method, ClientSums):
        return method.description
    return (
        "Newton steps on the features that were found"
        if isinstance(method, NewtonOnSupport)
        else ""
    )


def _loss_of(classes: Sequence[Any] | None) -> Loss:
    if classes is None:
        return SquaredLoss()
    return LogisticLoss() if len(classes) == 2 else SoftmaxLoss(len(classes))
