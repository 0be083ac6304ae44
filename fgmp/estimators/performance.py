"""How good a fitted model is for each client: discrimination and calibration, as a table.

The questions that the clients are asked are in `performance_sums`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.displays import frame_of, html_table, rows_of, text_table
from .._support.validation import check_option
from ..data import ProblemInfo
from ..losses import GLMLoss, LogisticLoss
from ..sparse_model import Array, SparseModel
from .advice import advise_on_intercepts
from .calibration import calibrations
from .client_sums import ROUNDING_OF_SHARES, State
from .clients import FitClients
from .damped_newton import SecondOrders
from .defaults import aggregator_of, settings_of
from .federated_table import FederatedTable, Rows
from .fitted import LinearModel, words_on_features
from .groups import encode_groups
from .inputs import targets_of_rows, validated, weights_of_rows
from .performance_sums import (
    MEASURES,
    CalibrationSums,
    ClientPerformance,
    OfPredictions,
    PooledPerformance,
    PredictionUnits,
    measures_before_calibration,
)
from .plots import draw_measures
from .report import FitReport, bytes_from_each, protection_of
from .session import Sent, Session, report_nothing
from .weighted_loss import advise_on_rates, rows_counted

_HEADINGS = {  # of columns that are called otherwise
    "auc": "AUC",
    "auc_se": "se",
    "in_sample": "in sample",
    "brier": "Brier",
    "log_loss": "log loss",
    "r2": "R2",
    "d2": "D2",
    "mean_squared_error": "MSE",
    "intercept_se": "se",
    "slope_se": "se",
    "n_groups": "groups",
    "lower": "low",
    "upper": "high",
    "i2": "I2",
    "new_lower": "new low",
    "new_upper": "new high",
}


# By what held-out losses are multiplied: the losses of numbers and counts are half of these.
_FACTORS = {"log_loss": 1, "mean_squared_error": 2, "deviance": 2}


# Losses of a model on the rows of its fit, in single precision, are as near as this to each other.
_ROUNDING_OF_LOSSES = 1e-4


# The table.


@dataclass(frozen=True, eq=False, repr=False)
class Performance:
    """How good a model is for each group of rows, as a table with a line for each.

    Attributes
    ----------
    columns : dict of str to ndarray
        ``group``, or all rows; with several classes ``class``, each against the others; ``rows``,
        their number; and measures, nan where there is none. ``observed`` and ``predicted`` are
        means. For labels they are the share of events, and the mean of their probabilities, beside
        ``auc``, the area under the ROC curve, and its standard error ``auc_se`` (over all rows with
        the largest variance there can be of a group that has a single row of a class), ``brier``
        and ``log_loss``; for numbers ``r2`` and ``mean_squared_error``; for counts ``d2``, the
        share of the deviance that is explained, and ``deviance``, the mean over the rows.
        ``intercept`` and ``slope`` are the calibration, 0 and 1 for a model that is right, with
        their standard errors; for counts that of the logarithm of the expected count, with
        quasi-Poisson errors.
    title : str
        The model, and what it was measured on.
    notes : tuple of str
        How the measures are to be read.
    exchanges : tuple of Sent
        What was sent, which `report` shows.
    facts : tuple of (str, str)
        What `report` begins with.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> y = X[:, 1] + np.random.default_rng(1).logistic(size=300) > 0
    >>> model = fgmp.FedGradMPClassifier(1).fit(X, y, groups=np.arange(300) % 3)
    >>> performance = model.performance(X, y, groups=np.arange(300) % 3)
    >>> performance.columns["group"].tolist(), bool(np.all(performance.columns["auc"] > 0.6))
    (['0', '1', '2'], True)
    """

    columns: dict[str, Array]
    title: str
    notes: tuple[str, ...]
    exchanges: tuple[Sent, ...]
    facts: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        lines = [self.title]
        for columns in self._tables().values():
            lines += ["", *text_table(*_cells_of(columns))]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return the tables for notebooks."""
        tables = self._tables().items()
        return "".join(html_table(title, *_cells_of(columns)) for title, columns in tables)

    def _tables(self) -> dict[str, dict[str, Array]]:
        """Return what is shown, by its title."""
        return {self.title: self.columns}

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, with the groups as its index."""
        return frame_of("a performance as a table", self.columns, ("group", "sparsity", "class"))

    def report(self) -> FitReport:
        """Return what left each group for this table, and what follows from it."""
        return FitReport(self.facts, self.exchanges)

    def plot(self, axes: Any = None) -> Any:
        """Draw AUC, R^2 or D^2, calibration intercept and slope of each group, with 95 % intervals.

        Parameters
        ----------
        axes : sequence of three axes of matplotlib, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ndarray of axes
            A dashed line is where a model that is right would be.
        """
        return draw_measures(axes, self.columns)


def _cells_of(columns: dict[str, Array]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a table; a number that does not exist is a dash."""
    headings = [_HEADINGS.get(name, name) for name in columns]
    return headings, rows_of(columns, 3, nothing="-")


# Measuring.


def performance_of_rows(
    model: LinearModel, X: Any, y: Any, groups: Any, by: str, sample_weight: Any
) -> Performance:
    """Return the performance on rows; parameters as in `FedGradMPRegressor.performance`."""
    X = validated(model, X, reset=False)
    y = targets_of_rows(model, X, y)
    weights = weights_of_rows(sample_weight, X)
    present, _, codes, weights = encode_groups(len(y), groups, weights, model.min_rows)
    targets, loss = model._targets_of_fit(y)
    advise_on_rates(loss, targets, sample_weight)
    counted = rows_counted(weights, targets, loss)
    clients = FederatedTable(Rows(X, targets, weights, codes, counted, model.min_rows), loss)
    return performance_of_clients(
        model, clients, present.tolist() if groups is not None else None, by
    )


def check_by(model: LinearModel, by: str) -> None:
    """Raise a ValueError if the model cannot be measured by groups, or by all rows."""
    check_option("by", by, ("groups", "all"))
    if model.private is not None:
        raise ValueError(
            "private is given, and measures of performance have no noise; expected private=None"
        )
    if model.secure and by == "groups":
        raise ValueError(
            "secure is True, and masks hide what is of one group, as its AUC and calibration "
            "are; expected by='all', which measures all rows together from sums over the groups"
        )


def performance_of_clients(
    model: LinearModel, clients: FitClients, names: Sequence[Hashable] | None, by: str
) -> Performance:
    """Return the performance of a fitted estimator at clients, here or on other machines.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
    clients : FitClients
        The clients, whose rows need not be those of the fit.
    names : sequence or None
        Names of the clients; None if there is one, of all rows.
    by : {"groups", "all"}
        Whether each client is measured, or all rows together.
    """
    check_is_fitted(model)
    check_by(model, by)
    advise_on_intercepts(model, names)
    names = ["all rows"] if names is None else names
    loss = clients.info.loss
    measures = MEASURES.get(type(loss))
    if measures is None:
        raise ValueError(
            f"the model has the loss {type(loss).__name__}; expected one of "
            f"{', '.join(kind.__name__ for kind in MEASURES)}, whose performance is defined"
        )
    session = Session(clients, settings_of(model, clients), 0, aggregator_of(model), report_nothing)
    message = _message(model, names)
    n_outcomes = loss.n_outputs
    if by == "groups":
        rows = list(clients.info.n_rows)
        counted = _counted_beside_rows(session)
        method = ClientPerformance(
            n_outcomes, model.min_rows, len(rows), len(measures), counted=counted
        )
        table = method.measured(session.query(method, clients.transport(), message))
        groups = [str(name) for name in names]
    else:
        table, share = _of_all_rows(session, message, n_outcomes, model.min_rows)
        rows = [round(share * session.settings.n_rows)]
        groups = [f"all {len(names)} groups"]

    columns: dict[str, Array] = {"group": np.repeat(np.array(groups, object), n_outcomes)}
    if n_outcomes > 1:
        columns["class"] = np.tile(model.classes_, len(groups))
    columns["rows"] = np.repeat(rows, n_outcomes)
    numbers = table.reshape(-1, len(measures)).T
    columns |= dict(zip(measures, numbers, strict=True))
    sent = by_question(session.log)
    return Performance(
        columns,
        f"{type(model).__name__} with {words_on_features(model)} on {sum(rows):,} rows",
        tuple(_notes(model, columns, by, names, clients.info)),
        sent,
        facts_of(model, names, by, sent),
    )


def by_question(stages: Sequence[Sent]) -> tuple[Sent, ...]:
    """Return what was sent, where the Newton steps of a calibration are one stage."""
    by_what: dict[str, list[Sent]] = {}
    for stage in stages:
        by_what.setdefault(stage.what, []).append(stage)
    costs = ("rounds", "bytes_up", "bytes_down")
    return tuple(
        of[0]._replace(**{cost: sum(getattr(stage, cost) for stage in of) for cost in costs})
        for of in by_what.values()
    )


def _message(model: LinearModel, names: Sequence[Hashable]) -> tuple[Array, SparseModel]:
    """Return the intercepts, one or one for each client, and the coefficients."""
    coefficients = np.atleast_2d(np.asarray(model.coef_, np.float64))
    table = coefficients[0] if len(coefficients) == 1 else coefficients.T
    intercepts = [np.atleast_1d(model.intercept_)]
    if hasattr(model, "intercepts_"):
        own = model.intercepts_
        intercepts = [np.atleast_1d(own.get(name, model.intercept_)) for name in names]
    return np.array(intercepts, np.float64), SparseModel.of(table)


def _counted_beside_rows(session: Session) -> tuple[float, ...] | None:
    """Return the rows that weights of clients stand for; None if they are rows, which they know."""
    counted = session.settings.counted
    if np.array_equal(counted, session.clients.info.n_rows):
        return None
    return tuple(np.asarray(counted, np.float64).tolist())


def _of_all_rows(
    session: Session, message: State, n_outcomes: int, min_rows: int
) -> tuple[Array, float]:
    """Return the measures of all rows together, and the share of their weight that is measured.

    Rows of clients that send zeros are none of them. The measures have the shape
    (1, n_outcomes, n_measures).
    """
    rows = session.clients.transport()
    n_rows = session.settings.n_rows
    loss = session.settings.loss
    predictions = PredictionUnits(n_outcomes, min_rows)
    *_, sizes, means, units = session.query(predictions, rows, message)
    centres = means * sizes

    # Each Newton step of a calibration is one more exchange.
    def ask(question: OfPredictions, *lines: Array) -> Any:
        return session.query(question, rows, (*message, centres, units, *lines))[-1]

    shares = session.settings.shares_beside_rows
    counted = _counted_beside_rows(session)
    sums = ask(PooledPerformance(n_outcomes, min_rows, n_rows, shares, counted=counted))
    share = float(sums[0, -1])
    if share <= ROUNDING_OF_SHARES:
        return np.full((1, n_outcomes, len(MEASURES[type(loss)])), np.nan), 0.0

    def evaluate(is_last: bool, lines: Array) -> SecondOrders:
        question = CalibrationSums(n_outcomes, min_rows, lines.shape[1], is_last)
        found: SecondOrders = ask(question, lines)
        return found

    of_outcomes = loss if loss.class_labels is None else LogisticLoss()
    n_counted = share * session.settings.n_counted
    measures = [
        _pooled_measures(one, of_outcomes, centre, unit, share * n_rows)
        for one, centre, unit in zip(sums, centres, units, strict=True)
    ]
    lines = calibrations(evaluate, of_outcomes, centres, units, n_counted)
    table = np.column_stack([measures, lines])
    table[np.isnan(table[:, 0])] = np.nan
    return table[None], share


def _pooled_measures(
    sums: Array, loss: GLMLoss, centre: float, unit: float, n_rows: float
) -> list[float]:
    """Return the measures before the calibration, from the sums of `PooledPerformance`."""
    *means, n_pairs, concordant, variance, _ = sums.tolist()
    observed = means[1]
    if loss.class_labels is not None and min(observed, 1 - observed) <= ROUNDING_OF_SHARES:
        return [np.nan] * 6
    auc = (np.nan, np.nan)
    if n_pairs > 0:
        auc = concordant / n_pairs, np.sqrt(variance / n_rows) / n_pairs
    measures = measures_before_calibration(loss, means, auc)
    if loss.is_quadratic:
        observed, predicted, r2, residual = measures
        return [centre + unit * observed, centre + unit * predicted, r2, residual * unit**2]
    return measures


def _notes(
    model: LinearModel,
    columns: dict[str, Array],
    by: str,
    names: Sequence[Hashable],
    info: ProblemInfo,
) -> Iterator[str]:
    """Yield how the measures are to be read, and which rows are not measured, if some are not."""
    yield (
        "intercept: of a calibration with the slope 1, by how much predictions are too low; slope: "
        "below 1 they are too extreme. A model that is right has 0 and 1."
    )
    in_fit = [str(name) for name in names if name in list(model.groups_)]
    knows_groups = list(names) != ["all rows"] and len(model.groups_) > 1
    if in_fit or not knows_groups:
        which = f"Part of the fit: {', '.join(in_fit)}. " if knows_groups else ""
        yield (
            f"{which}On rows that a model was fitted to its measures are too kind; validate() "
            f"leaves each group out.{_held_out(model, columns, names, info.weights)}"
        )
    if by == "all" and "auc" in columns:
        yield "AUC: of pairs within a group, because pairs of two groups are in no sum."

    of_few = f"fewer than min_rows={model.min_rows} rows, of a group or of a class in it"
    n_measured = int(columns["rows"][0])
    n_rows = sum(info.n_rows)
    if by == "all" and n_measured != n_rows:
        yield (
            f"Measured on {n_measured:,} of {n_rows:,} rows: the others are of groups with "
            f"{of_few}, which send zeros."
        )
    numbers = [column for column in columns.values() if column.dtype.kind == "f"]
    if by == "groups" and any(np.isnan(column).any() for column in numbers):
        yield (
            f"A dash: {of_few}, of which nothing leaves the group; or a number that does not exist."
        )


def _held_out(
    model: LinearModel, columns: dict[str, Array], names: Sequence[Hashable], weights: Array
) -> str:
    """Return the loss on the rows of the fit, beside that which its cross-validation held out.

    It is that of the fit only if rows and weights are those of the fit. With several classes losses
    are of each class against the others, which none was held out of.
    """
    path = getattr(model, "cv_", None)
    if path is None or set(names) != set(model.groups_.tolist()) or "class" in columns:
        return ""
    name = next(name for name in _FACTORS if name in columns)
    here = np.average(columns[name], weights=weights if len(columns[name]) > 1 else None)
    covariance = getattr(model, "covariance_", None)
    of_fit = np.nan if covariance is None else _FACTORS[name] * covariance.loss
    if not np.isclose(here, of_fit, rtol=_ROUNDING_OF_LOSSES):
        return ""
    table = path.table
    is_chosen = (table["sparsity"] == path.chosen) & (table["C"] == path.chosen_C)
    held_out = _FACTORS[name] * table["score"][is_chosen][0]
    return (
        f" The {_HEADINGS.get(name, name)} is {here:.3g} here, and was {held_out:.3g} where "
        f"cross-validation held {path.folds} out."
    )


def facts_of(
    model: LinearModel, names: Sequence[Hashable], by: str, sent: Sequence[Sent]
) -> tuple[tuple[str, str], ...]:
    """Return what a report of a performance begins with."""
    consequence = (
        "each group's own measures leave it, and say how its patients differ from what the model "
        "expects; of a group, or a class in it, with few rows they would say much of single rows, "
        f"and nothing is sent of fewer than min_rows={model.min_rows}"
    )
    if by == "all":
        consequence = "sums over the rows of each group"
        if model.secure:
            consequence = "sums over all groups, and no measure of one group"
        consequence += (
            f"; zeros of a group with fewer than min_rows={model.min_rows} rows of a class"
        )
    return (
        ("performance of", f"{type(model).__name__} with {words_on_features(model)}"),
        ("groups", ", ".join(map(str, names))),
        ("protection", protection_of(model)),
        ("disclosure", consequence),
        ("bytes from each group", bytes_from_each(sent, len(names))),
    )
