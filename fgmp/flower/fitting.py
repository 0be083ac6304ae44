"""The estimators over Flower: `table_app` at each client, `fit_over` at the server.

A fit over Flower has the same bits as a fit in one process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np

from .._support.displays import preview_words, printable
from .._support.optional import needs
from .._support.strict_json import read_json
from .._support.validation import check_integer, check_protocol, check_sequence, short_repr
from .._support.warnings import warn_user
from ..estimators import covariance, newton_steps, own_intercepts, unit_check
from ..estimators.client_sums import HeldOutLosses
from ..estimators.clients import Fold, Standardization
from ..estimators.encoding import Encoding, EncodingPlan, RawTable, plan_of
from ..estimators.federated_table import (
    TablePart,
    client_view,
    loss_of,
    loss_of_view,
    signs_or_codes,
)
from ..estimators.folds import assign_folds
from ..estimators.groups import preview
from ..estimators.performance_sums import OfPredictions
from ..estimators.session import round_in_words, words_on
from ..estimators.small_cells import (
    WHAT_SMALL_CELLS_BECOME,
    few_rows_in_sums,
    fill_small_cells,
    rare_classes,
)
from ..estimators.weighted_loss import advise_on_rates
from ..losses import GLMLoss
from ..method import Call, Method
from ..recording import Run
from ..run.serialization import from_json, to_json
from ..sparse_model import Array
from ..updates import Message
from .client import PublicError, Site, app_of
from .records import Fields, Reply
from .transport import OverFlower, key_in

if TYPE_CHECKING:  # a client would wait for scikit-learn with each message
    from ..estimators.bootstrap import Bootstrap
    from ..estimators.internal_external import Validation
    from ..estimators.linear import SparseLinear
    from ..estimators.performance import Performance

Estimator = TypeVar("Estimator", bound="SparseLinear")

# A client makes a method of its name, and for that its module has to be loaded there (see
# `fgmp.run.serialization`): those above, and these of what a fit asks for.
_MODULES_OF_QUESTIONS = (covariance, newton_steps, own_intercepts, unit_check)

ReadTable = Callable[[Any, Sequence[str]], tuple[Any, Any]]

_MOST_NAMES = 10  # of missing columns, in a message
# Seconds without a line after which the next replies are one.
_SILENCE = 10.0


def table_app(
    read: ReadTable, *, min_rows: int = 5, masked_only: bool = False, mods: Sequence[Any] = ()
) -> Any:
    """Return the client's side of `fit_over`, a ClientApp.

    Parameters
    ----------
    read : callable (context, columns) -> (X, y)
        Reads the client's own table: X of shape (n_samples, n_features), with its columns in the
        order of the names that the server sends, and y with the labels or numbers as they stand in
        the table. From a KeyError the server learns which of its own names are missing.
    min_rows : int, default 5
        The client takes part only where the estimator's `min_rows` is this number or more: it has
        so many rows itself, and no sum tells of a level, or a gap, of fewer.
    masked_only, mods
        As in `client_app`. Each node has a ``partition-id``, its index: 0, 1, ...

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp.flower import table_app
    >>> def read(context, columns):
    ...     rng = np.random.default_rng(context.node_config["partition-id"])
    ...     table = {name: rng.standard_normal(40) for name in ("age", "dose", "weight")}
    ...     return np.column_stack([table[name] for name in columns]), 3 * table["dose"]
    >>> app = table_app(read)  # doctest: +SKIP
    """
    check_integer("min_rows", min_rows)

    def introduce(context: Any, settings: Mapping[str, Any]) -> Mapping[str, str]:
        plan: EncodingPlan | None = from_json(settings["plan"])
        if plan is None or not plan.open_categories:
            return {}
        _check_min_rows(settings, None, min_rows)
        X, _ = _read(read, context, settings["features"])
        table = fill_small_cells(_raw_table(plan, X), plan.names, settings["min_rows"]).table
        levels = table.levels()
        return {"levels": json.dumps([[i, levels[i]] for i in plan.open_categories])}

    def load(context: Any, settings: Mapping[str, Any], method: Method | None) -> tuple[Any, Array]:
        _check_min_rows(settings, method, min_rows)
        read_X, y = _read(read, context, settings["features"])
        if len(y) < settings["min_rows"]:
            raise ValueError(
                f"{len(y)} rows, and min_rows is {settings['min_rows']}: this site takes no part"
            )
        classes = settings["classes"]
        targets = _targets(y, classes)
        plan: EncodingPlan | None = from_json(settings["plan"])
        if plan is None:
            X = _in_precision(read_X)
        else:
            # Predictions are those of rows as they are.
            least = 1 if isinstance(method, OfPredictions) else settings["min_rows"]
            filled = fill_small_cells(_raw_table(plan, read_X), plan.names, least)
            X = _columns_of_numbers(filled.table, settings)

        if "dtype" not in settings:
            columns = X
            names = settings["features"]
            if plan is not None:
                _warn_of_small_cells(filled.cells, settings)
                columns, names = _columns_in_sums(plan, filled.table)
            loss = loss_of(classes, settings["loss"])
            rare = rare_classes(loss, targets, settings["min_rows"])
            labels = [classes[label] for _, label in rare]
            _warn_of_few_rows_in_sums(columns, names, labels, settings)
            advise_on_rates(loss, targets)
            # The client says who it is, and only the number of its targets leaves it. Numbers stay
            # zero, which no precision of X refuses.
            return X, targets if classes else np.zeros(len(y), X.dtype)
        X = X.astype(settings["dtype"], copy=False)
        index = settings["keys"].index(context.node_config["partition-id"])
        fold = None if settings["fold"] is None else Fold(*settings["fold"])
        part = TablePart(np.arange(len(y)), targets, np.ones(len(y)), index).outside(fold)
        standardization = Standardization.from_settings(settings["units"])
        view = client_view(X, part, standardization, loss_of(classes, settings["loss"]))
        return view.features, view.targets

    return app_of(Site(load, masked_only, (), introduce), mods)


def _check_min_rows(settings: Mapping[str, Any], method: Method | None, least: int) -> None:
    """Raise an error if a server lets sums rest on fewer rows than the client does."""
    asked = [settings["min_rows"]]
    if settings.get("fold") is not None:
        asked.append(Fold(*settings["fold"]).min_rows)
    if isinstance(method, (OfPredictions, HeldOutLosses)):
        asked.append(method.min_rows)
    if min(asked) < least:
        raise PublicError(f"min_rows is {min(asked)}; expected at least {least} at this site")


def _raw_table(plan: EncodingPlan, X: Any) -> RawTable:
    """Return the rows of a client, whose levels have to be those that the server names, if any."""
    table = plan.read(X)
    try:
        plan.check_levels(table)
    except ValueError as error:
        names = preview([plan.names[index] for index, _ in plan.levels], _MOST_NAMES)
        raise PublicError(
            f"another level than those named, in one of the columns {names}"
        ) from error
    return table


def _columns_of_numbers(table: RawTable, settings: Mapping[str, Any]) -> Array:
    """Return what a question is about: one column for each name, what means are of, or all."""
    if "encoding" in settings:
        encoding: Encoding = from_json(settings["encoding"])
        return encoding.encode(table)
    if "levels" in settings:
        return table.statistics({index: levels for index, levels in settings["levels"]})
    return table.numbers()


def _columns_in_sums(plan: EncodingPlan, table: RawTable) -> tuple[Array, list[str]]:
    """Return columns that sums are made of for a table with gaps and categories, and their names.

    They are numbers, where values are missing, and the levels that the client has itself.
    """
    levels = table.levels()
    names = [*plan.names, *(f"{name} is missing" for name in plan.names)]
    names += [f"{plan.names[index]}={level}" for index in sorted(levels) for level in levels[index]]
    return table.statistics(levels), names


def _warn_of_small_cells(cells: Mapping[str, int], settings: Mapping[str, Any]) -> None:
    """Say in the client's own log which levels and gaps are in none of its columns."""
    if cells:
        words = [f"{name!r} ({n_rows})" for name, n_rows in cells.items()]
        warn_user(
            f"fewer than min_rows={settings['min_rows']} rows of this site have "
            f"{preview_words(words, _MOST_NAMES)}: {WHAT_SMALL_CELLS_BECOME}"
        )


def _warn_of_few_rows_in_sums(
    X: Any, names: Sequence[str], rare: Sequence[Any], settings: Mapping[str, Any]
) -> None:
    """Warn in the client's own log, before its first update, of sums that rest on few rows."""
    if not settings["sums_in_the_open"]:
        return
    min_rows = settings["min_rows"]
    few = few_rows_in_sums(X, names, rare, min_rows)
    if few:
        warn_user(
            f"fewer than min_rows={min_rows} rows of this site {few}, and its sums tell the server "
            "of these rows. What helps: secure=True at the server, which sees sums over sites then"
        )


def _read(read: ReadTable, context: Any, names: Sequence[str]) -> tuple[Any, Array]:
    """Read a client's table.

    If `read` raises a KeyError, the missing columns are reported by the server's own names for
    them: its words may quote the client's data.
    """
    try:
        X, y = read(context, names)
    except KeyError as error:
        missing = [name for name in names if name == error.args[0] or repr(name) in str(error)]
        if not missing:
            raise
        listed = preview(missing, _MOST_NAMES)
        raise PublicError(f"columns missing at the site: {listed}") from error
    with needs("the table of an estimator", "scikit-learn"):
        from sklearn.utils.validation import check_consistent_length, column_or_1d

    targets = column_or_1d(np.asarray(y), warn=True)  # a column becomes a vector
    check_consistent_length(X, targets)
    return X, np.asarray(targets)


def _targets(y: Array, classes: Sequence[Any] | None) -> Array:
    """Return targets as the loss uses them: -1 and +1 for two classes, 0, 1, ... for more."""
    if not classes:
        numbers = y.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("a target is missing, or not finite; expected a number in every row")
        return numbers
    # Not by `numpy.isin`, for which the number 1 is the text "1".
    if not set(y.tolist()) <= set(classes):
        raise ValueError(f"a target is none of the classes {classes}")
    return signs_or_codes(y, classes)


def _in_precision(X: Any) -> Any:
    """Return a table as an estimator takes it in one process.

    float32 stays, and everything else that is a number becomes float64.
    """
    with needs("the table of an estimator", "scikit-learn"):
        from sklearn.utils import check_array

    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name="X"
    )


def fit_over(
    estimator: Estimator,
    grid: Any,
    n_clients: int,
    features: Sequence[str],
    *,
    classes: Sequence[Any] | None = None,
    sparse: bool = False,
    report: Callable[[str], object] = print,
    **options: Any,
) -> Estimator:
    """Fit an estimator to the tables of the clients of a Flower grid, without pooling any row.

    Parameters
    ----------
    estimator : FedGradMPClassifier or FedGradMPRegressor
        With ``secure=True`` all sums are masked. It is not modified.
    grid, n_clients, **options
        As in `OverFlower`, with `wait_for`, `deadline` and `most_rows`.
    features : sequence of str
        The names of the columns.
    classes : sequence, optional
        The labels of a classifier, because the server sees no targets.
    sparse : bool, default False
        Whether the clients' tables are sparse. Sparse tables are not standardised by default.
    report : callable, default print
        Called with a line of text before each stage, after every round with the round, the loss,
        and the names of the clients that are missing, and after ten seconds without a line with
        how many clients have replied.

    Returns
    -------
    FedGradMPClassifier or FedGradMPRegressor
        Fitted as ``fit(X, y, groups)`` of all rows in one process fits it. Its `groups_` are the
        names of the clients that replied to the end. Its `missing_` are the names of the others,
        whose rows may be part of earlier sums.

    Raises
    ------
    ValueError
        If the estimator, the features and the classes do not fit together.
    TimeoutError
        If too few clients come.

    Examples
    --------
    The sites have the tables of the example of `table_app`:

    >>> import fgmp
    >>> from fgmp.flower import fit_over, on_engine
    >>> def main(grid):
    ...     return fit_over(fgmp.FedGradMPRegressor(1), grid, 3, ["age", "dose", "weight"])
    >>> model = on_engine(main, app, n_clients=3)  # doctest: +SKIP
    >>> model.feature_names_in_[model.support_].tolist()  # doctest: +SKIP
    ['dose']
    """
    options |= {"sparse": sparse, "report": report}
    return sites_to_fit(estimator, grid, n_clients, features, classes, **options).fit(estimator)


def sites_to_fit(
    estimator: SparseLinear,
    grid: Any,
    n_clients: int,
    features: Sequence[str],
    classes: Sequence[Any] | None,
    **options: Any,
) -> _Sites:
    """Return the clients that an estimator is to be fitted to; arguments as in `fit_over`."""
    check_protocol(
        "estimator", estimator, ("bootstrap",), "a FedGradMPClassifier or FedGradMPRegressor"
    )
    expected = "different names of columns, in their order"
    names = list(map(str, check_sequence("features", features, expected, ordered=True)))
    if len(set(names)) < len(names):
        raise ValueError(f"features is {short_repr(names)}; expected {expected}")
    labels = _check_classes(estimator, classes)
    return _Sites(estimator, grid, n_clients, names, labels, **options)


def bootstrap_over(
    model: SparseLinear,
    grid: Any,
    n_clients: int,
    n_resamples: int = 100,
    *,
    choose_again: bool | None = None,
    random_state: Any = None,
    sparse: bool = False,
    report: Callable[[str], object] = print,
    **options: Any,
) -> Bootstrap:
    """Fit a model anew to clients that are drawn with replacement, to see what is selected again.

    The server draws whole clients and weighs their sums by how often it drew each. It asks the
    others for nothing, and no row is pooled. Each resample is a fit with its messages, so that a
    hundred of them take a hundred times as long.

    Parameters
    ----------
    model : FedGradMPClassifier or FedGradMPRegressor
        Fitted by `fit_over`, or read from its JSON: its features, labels and sparsity are those of
        the resamples.
    grid, n_clients, sparse, report, **options
        As in `fit_over`.
    n_resamples : int, default 100
        Number of resamples.
    choose_again, random_state
        As in `FedGradMPRegressor.bootstrap`. A choice takes the messages of its folds, too, in each
        resample.

    Returns
    -------
    Bootstrap
        As ``model.bootstrap(over="groups")`` of all rows in one process returns it, to the same
        bits. There a draw that misses a class is repeated. This server sees no class, and a draw
        that leaves classes separated is an error with ``C=np.inf``.

    Raises
    ------
    ValueError
        If the model has ``secure=True``: as many sums with different weights as there are clients
        can be solved for each of them, so that masks would hide nothing. Or if it is private.

    Examples
    --------
    With `model` and `app` of the examples of `fit_over` and `table_app`:

    >>> from fgmp.flower import bootstrap_over, on_engine
    >>> def main(grid):
    ...     return bootstrap_over(model, grid, n_clients=3, n_resamples=10)
    >>> on_engine(main, app, n_clients=3)  # doctest: +SKIP
    Bootstrap(10 resamples, dose 1)
    """
    with needs("bootstrap_over", "scikit-learn", "narwhals", "tqdm"):
        from ..estimators.bootstrap import bootstrap_clients
    check_protocol(
        "model", model, ("bootstrap",), "a fitted FedGradMPClassifier or FedGradMPRegressor"
    )
    if model.secure:
        raise ValueError(
            "secure is True, and sums over clients with the weights of resamples can be solved for "
            "each client; expected a model in the open. summary() has errors by group under masks"
        )
    sites = _sites_of_fitted(model, grid, n_clients, sparse=sparse, report=report, **options)
    return bootstrap_clients(
        model, sites, n_resamples, choose_again, random_state, sites.report_round
    )


def performance_over(
    model: SparseLinear,
    grid: Any,
    n_clients: int,
    *,
    by: str = "groups",
    sparse: bool = False,
    report: Callable[[str], object] = print,
    **options: Any,
) -> Performance:
    """Measure a fitted model at the clients of a Flower grid: AUC or R^2, and calibration.

    The clients may be those of the fit, or others. Each measures the model on its own rows, and
    sends a few numbers of its own, which `report` of the result describes. Under masks these stay
    where they are, and ``by="all"`` has the measures of all rows from sums over the clients.

    Parameters
    ----------
    model : FedGradMPClassifier or FedGradMPRegressor
        Fitted by `fit_over`, or read from its JSON.
    grid, n_clients, sparse, report, **options
        As in `fit_over`.
    by : {"groups", "all"}
        As in `FedGradMPClassifier.performance`.

    Returns
    -------
    Performance
        As ``model.performance(X, y, groups)`` of all rows in one process returns it, to the same
        bits.

    Raises
    ------
    ValueError
        If the model has ``secure=True`` with ``by="groups"``, or is private.

    Examples
    --------
    With `model` and `app` of the examples of `fit_over` and `table_app`:

    >>> from fgmp.flower import on_engine, performance_over
    >>> def main(grid):
    ...     return performance_over(model, grid, n_clients=3)
    >>> on_engine(main, app, n_clients=3).columns["group"].tolist()  # doctest: +SKIP
    ['client 0', 'client 1', 'client 2']
    """
    with needs("performance_over", "scikit-learn", "narwhals", "tqdm"):
        from ..estimators.performance import performance_of_clients
    check_protocol(
        "model", model, ("performance",), "a fitted FedGradMPClassifier or FedGradMPRegressor"
    )
    sites = _sites_of_fitted(model, grid, n_clients, sparse=sparse, report=report, **options)
    return performance_of_clients(model, sites, sites.names, by)


def validate_over(
    estimator: SparseLinear,
    grid: Any,
    n_clients: int,
    features: Sequence[str],
    *,
    classes: Sequence[Any] | None = None,
    n_sets: int | None = None,
    dense: bool = True,
    **options: Any,
) -> Validation:
    """Leave each client of a Flower grid out, fit to the others, and measure the models there.

    Each client is left out of one fit for each of the two models, so that a validation has as many
    messages as twice as many fits as there are clients.

    Parameters
    ----------
    estimator, grid, n_clients, features, classes, **options
        As in `fit_over`, with `sparse` and `report`.
    n_sets, dense
        As in `FedGradMPClassifier.validate`.

    Returns
    -------
    Validation
        As ``estimator.validate(X, y, groups)`` of all rows in one process returns it, to the same
        bits.

    Raises
    ------
    ValueError
        As in `FedGradMPClassifier.validate`.

    Examples
    --------
    The clients have the tables of the example of `table_app`:

    >>> import fgmp
    >>> from fgmp.flower import on_engine, validate_over
    >>> def main(grid):
    ...     estimator = fgmp.FedGradMPRegressor(1)
    ...     return validate_over(estimator, grid, 3, ["age", "dose", "weight"])
    >>> on_engine(main, app, n_clients=3).columns["group"].tolist()[::2]  # doctest: +SKIP
    ['client 0', 'client 1', 'client 2']
    """
    with needs("validate_over", "scikit-learn", "narwhals", "tqdm"):
        from ..estimators.internal_external import validate_groups
        from ..estimators.performance import performance_of_clients
    sites = sites_to_fit(estimator, grid, n_clients, features, classes, **options)

    def refit(model: SparseLinear, is_inside: Array) -> SparseLinear:
        return sites.of(is_inside).fit(model)

    def measure(fitted: SparseLinear, is_measured: Array, by: str) -> Performance:
        measured = sites.of(is_measured)
        if hasattr(fitted, "encoding_"):
            measured = measured.encoded(fitted.encoding_)
        return performance_of_clients(fitted, measured, measured.names, by)

    return validate_groups(estimator, sites.names, n_sets, dense, refit, measure)


def _sites_of_fitted(model: SparseLinear, grid: Any, n_clients: int, **options: Any) -> _Sites:
    """Return the clients of a grid with the columns of numbers of a fitted model."""
    names = [str(name) for name in model.feature_names_in_]
    labels = model.classes_.tolist() if hasattr(model, "classes_") else None
    sites = _Sites(model, grid, n_clients, names, labels, **options)
    return sites.encoded(model.encoding_) if hasattr(model, "encoding_") else sites


def _check_classes(estimator: SparseLinear, classes: Sequence[Any] | None) -> list[Any] | None:
    """Return the labels of a classifier in increasing order, or None for a regressor."""
    with needs("fit_over", "scikit-learn", "narwhals", "tqdm"):
        from sklearn.base import is_classifier

    expected = "at least two labels for a classifier, and None for a regressor"
    given = None if classes is None else check_sequence("classes", classes, expected)
    is_fitting = is_classifier(estimator) == (given is not None)
    if not is_fitting or (given is not None and len(set(given)) < 2):
        raise ValueError(
            f"classes is {short_repr(classes)}, and the estimator {type(estimator).__name__}; "
            f"expected {expected}"
        )
    if given is None:
        return None
    return np.unique(np.asarray(given)).tolist()


class _TimedReport:
    """What receives lines of text, and knows when the last one came."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self.last = time.monotonic()

    def __call__(self, line: str) -> None:
        """Hand a line on."""
        self._report(line)
        self.last = time.monotonic()


class _Sites(OverFlower):
    """The clients of a grid, once they are there and have the columns of an estimator.

    `fgmp.estimators.federated_table.FederatedTable` is the same in one process.

    Attributes
    ----------
    is_sparse : bool
        Whether their tables are sparse.
    total_weight : float
        The weight of all rows: their number.
    counted : ndarray, shape (n_clients,)
        The numbers of rows, which have no weights.
    min_rows : int
        The fewest rows on which a sum of one client may rest.
    report : _TimedReport
        Receives lines of text about the progress.
    stage : str
        What the clients are asked for.
    """

    def __init__(
        self,
        estimator: SparseLinear,
        grid: Any,
        n_clients: int,
        names: list[str],
        labels: list[Any] | None,
        sparse: bool = False,
        report: Callable[[str], object] = print,
        **options: Any,
    ) -> None:
        loss_name = str(getattr(estimator, "loss", "squared"))  # labels decide on a classifier's
        is_private = estimator.private is not None
        self.min_rows = 1 if is_private else estimator.min_rows
        self.plan = plan_of(names, estimator.categories, estimator.missing)
        # What is agreed on later is added then: levels and encoding, units, fold and precision.
        settings = {
            "plan": to_json(self.plan)[0],
            "features": names,
            "classes": labels,
            "loss": loss_name,
            "min_rows": self.min_rows,
            "sums_in_the_open": not is_private and not estimator.secure,
        }
        loss = loss_of(labels, loss_name)
        super().__init__(grid, loss, n_clients, settings=settings, **options)
        # Folds depend on the places of clients among those whose rows are fitted.
        keys = [key_in(report) for report in self.reports]
        self.settings = json.dumps(json.loads(self.settings) | {"keys": keys})
        if self.info.n_features != len(names):
            raise ValueError(
                f"features has {len(names)} names; the sites have {self.info.n_features} columns"
            )
        self.is_sparse = sparse
        self.total_weight = float(sum(self.info.n_rows))
        self.counted = np.array(self.info.n_rows, np.float64)
        self.report = _TimedReport(report)
        self.stage = ""

    def of(self, is_taken: Array) -> _Sites:
        """Return some of the clients, which are 0, 1, ... then."""
        taken = np.flatnonzero(is_taken).tolist()
        rows = [self.info.n_rows[index] for index in taken]
        keys = [key_in(self.reports[index]) for index in taken]
        weights = np.array(rows) / sum(rows)
        other = self.with_settings(
            {"keys": keys}, n_rows=rows, client_ids=range(len(rows)), weights=weights
        )
        other.nodes = [self.nodes[index] for index in taken]
        other.names = [self.names[index] for index in taken]
        other.reports = [self.reports[index] for index in taken]
        other.weight_counts = np.array(rows)
        other.total_weight = float(sum(rows))
        other.counted = np.array(rows, np.float64)
        return other

    def fit(self, estimator: Estimator) -> Estimator:
        """Return an estimator like this one, fitted to the clients."""
        from sklearn.base import clone

        from ..estimators.training import fit_clients

        asked = json.loads(self.settings)
        fitted: Estimator = clone(estimator)
        fit_clients(
            fitted, self, self.names, asked["features"], asked["classes"], self.report_round
        )
        return fitted

    def levels(self) -> list[dict[int, list[str]]]:
        """Return the levels of the categories that the clients have said they have."""
        if self.plan is None or not self.plan.open_categories:
            return []
        return [_levels_in(report, self.plan) for report in self.reports]

    def statistics(self, levels: Mapping[int, Sequence[str]]) -> _Sites:
        """Return the clients with the columns of `RawTable.statistics`."""
        assert self.plan is not None
        agreed = [[index, list(of)] for index, of in levels.items()]
        return self.with_settings({"levels": agreed}, n_features=self.plan.n_statistics(levels))

    def encoded(self, encoding: Encoding) -> _Sites:
        """Return the clients with columns of numbers."""
        n_columns = len(encoding.column_names())
        return self.with_settings({"encoding": to_json(encoding)[0]}, n_features=n_columns)

    @property
    def absent(self) -> list[str]:
        """The names of the clients that had no readable reply when they were last polled."""
        return [
            name for node, name in zip(self.nodes, self.names, strict=True) if node in self.missing
        ]

    def for_method(self, method: Method) -> Self:
        """Return the transport for a method; first report what the clients are asked for."""
        fold = json.loads(self.settings).get("fold")
        prefix = "" if fold is None else f"without {Fold(*fold)}: "
        stage = prefix + words_on(method).description
        self.report(stage)
        other = super().for_method(method)
        other.stage = stage
        return other

    def ask_each(
        self, call: Call | None, message: Message | None, questions: Mapping[int, Fields]
    ) -> dict[int, Reply]:
        """Send a question to clients; after a long time without a line report who replied."""
        replies = super().ask_each(call, message, questions)
        if time.monotonic() - self.report.last > _SILENCE:
            replied = sum(self.nodes[index] not in self.missing for index in questions)
            of_round = "losses" if call is None else f"round {call.round}"
            self.report(f"{self.stage}, {of_round}: {replied} of {len(questions)} sites replied")
        return replies

    def report_round(self, words: str, run: Run, unit: float) -> None:
        """Report a round: which rows it is about, its loss, and which clients are missing."""
        absent = self.absent
        rows = words
        if absent and words == "all rows":
            n_present = len(self.names) - len(absent)
            rows = f"rows of {n_present} of {len(self.names)} sites"
        line = round_in_words(rows, run, unit)
        if absent:
            line += f"; missing: {', '.join(absent)}"
        self.report(line)

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> OverFlower:
        """Return the same clients in a view of their tables, as `FederatedTable` has it."""
        rows = [_n_training(n_rows, index, fold) for index, n_rows in enumerate(self.info.n_rows)]
        n_intercepts = 0 if standardization is None else standardization.n_intercepts
        settings = {
            "units": None if standardization is None else standardization.to_settings(),
            "fold": None if fold is None else fold[:4],  # of rows
            "dtype": self.info.dtype.name,
        }
        other = self.with_settings(
            settings,
            loss=loss_of_view(cast(GLMLoss, self.info.loss), standardization),
            n_features=self.info.n_features + n_intercepts,
            n_rows=[max(n_rows, 1) for n_rows in rows],
            weights=np.array(rows) / sum(rows),
            # As they are, rows are summed in float64; standardized in the precision of the table.
            dtype=np.dtype(np.float64) if standardization is None else self.info.dtype,
        )
        other.weighting = "rows"
        other.weight_counts = np.array(rows)
        return other


def _levels_in(report: Mapping[str, Any], plan: EncodingPlan) -> dict[int, list[str]]:
    """Return the levels that a client reports, or raise a ValueError if it reports none.

    They come from another machine: only lists of texts, for categories that were asked for, are
    taken.
    """
    try:
        reported = dict(read_json("levels", report["levels"]))
        levels = {index: _texts_in(reported[index]) for index in plan.open_categories}
    except (KeyError, TypeError, ValueError):
        names = [plan.names[index] for index in plan.open_categories]
        raise ValueError(
            f"a client said nothing of the levels of {names}; expected clients of this version of "
            "fgmp, or categories={name: levels}"
        ) from None
    return {index: sorted({printable(level) for level in of}) for index, of in levels.items()}


def _texts_in(value: Any) -> list[str]:
    """Return a list of texts as it is, or raise a TypeError."""
    if not isinstance(value, list) or not all(isinstance(level, str) for level in value):
        raise TypeError("levels are no list of texts")
    return value


def _n_training(n_rows: int, client_index: int, fold: Fold | None) -> int:
    """Return how many rows of a client train if a fold is held out."""
    if fold is None:
        return n_rows
    folds = assign_folds(np.arange(n_rows), client_index, *fold[1:4])
    return int((folds != fold.number).sum())
