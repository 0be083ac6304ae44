"""How good a fitted model is for each client: discrimination and calibration, as a table.

The questions that the clients are asked are in `performance_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.displays import cell_of, frame_of, html_table, text_table
from .._support.validation import check_option
from ..losses import LogisticLoss, Loss, PoissonLoss, SoftmaxLoss, SquaredLoss
from ..method import Transport
from ..sparse_model import Array, SparseModel
from .advice import advise_on_intercepts
from .calibration import Lines, LineSums, calibrations_of, fit_lines, sends_chi_squared
from .client_sums import ROUNDING_OF_SHARES, State
from .clients import FitClients
from .defaults import aggregator_of, settings_of
from .federated_table import FederatedTable
from .fitted import LinearModel, words_on_features
from .groups import encode_groups
from .inputs import targets_of_rows, validated, weights_of_rows
from .performance_sums import (
    MEASURES_OF_COUNTS,
    MEASURES_OF_LABELS,
    MEASURES_OF_NUMBERS,
    CalibrationSums,
    ChiSquaredSums,
    ClientPerformance,
    PooledPerformance,
    PredictionUnits,
    measures_of_counts,
)
from .plots import draw_measures
from .report import FitReport, protection_of, sent_of
from .session import Sent, Session, report_nothing
from .weighted_loss import advise_on_rates, rows_counted

_MEASURES: dict[type[Loss], tuple[str, ...]] = {
    LogisticLoss: MEASURES_OF_LABELS,
    SoftmaxLoss: MEASURES_OF_LABELS,
    SquaredLoss: MEASURES_OF_NUMBERS,
    PoissonLoss: MEASURES_OF_COUNTS,
}

_HEADINGS = {
    "observed": "observed",
    "predicted": "predicted",
    "auc": "AUC",
    "auc_se": "se",
    "in_sample": "in sample",
    "brier": "Brier",
    "log_loss": "log loss",
    "r2": "R2",
    "d2": "D2",
    "deviance": "deviance",
    "mean_squared_error": "MSE",
    "intercept": "intercept",
    "intercept_se": "se",
    "slope": "slope",
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
        ``auc``, the area under the ROC curve, and its standard error ``auc_se``, ``brier`` and
        ``log_loss``; for numbers ``r2`` and ``mean_squared_error``; for counts ``d2``, the share of
        the deviance that is explained, and ``deviance``, the mean over the rows. ``intercept`` and
        ``slope`` are the calibration, 0 and 1 for a model that is right, with their standard
        errors; for counts that of the logarithm of the expected count, with quasi-Poisson errors.
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
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([self.title, "", *self._tables(), "", *notes])

    def _tables(self) -> list[str]:
        """Return the lines of what is printed between title and notes."""
        names, *lines = table_of(self.columns)
        return text_table(names, lines)

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        names, *lines = table_of(self.columns)
        return html_table(self.title, lines, header=names)

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


def table_of(columns: dict[str, Array]) -> list[list[str]]:
    """Return the headings and the cells of a table; a number that does not exist is a dash."""
    headings = [_HEADINGS.get(name, name) for name in columns]
    cells = [[cell_of(value, 3, nothing="-") for value in column] for column in columns.values()]
    return [headings, *(list(line) for line in zip(*cells, strict=True))]


# Measuring.


def performance_of_rows(
    model: LinearModel, X: Any, y: Any, groups: Any, by: str, sample_weight: Any
) -> Performance:
    """Return the performance on rows; parameters as in `FedGradMPRegressor.performance`."""
    X = validated(model, X, reset=False)
    y = targets_of_rows(model, X, y)
    weights = weights_of_rows(sample_weight, X)
    labels, codes, weights = encode_groups(len(y), groups, weights, model.min_rows)
    takes_part = np.isin(np.arange(len(labels)), codes[weights > 0])
    names = labels[takes_part].tolist() if groups is not None else ["all rows"]
    targets, loss = model._targets_of_fit(y)
    advise_on_rates(loss, targets, sample_weight)
    counted = rows_counted(weights, targets, loss)
    clients = FederatedTable(X, targets, weights, codes, loss, model.min_rows, counted)
    check_by(model, by)
    advise_on_intercepts(model, None if groups is None else names)
    return _measure(model, clients, names, by)


def performance_of_clients(
    model: LinearModel, clients: FitClients, names: Sequence[Any], by: str
) -> Performance:
    """Return the performance of a fitted estimator at clients on other machines.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Fitted.
    clients : FitClients
        The clients, whose rows need not be those of the fit.
    names : sequence
        Names of the clients.
    by : {"groups", "all"}
        Whether each client is measured, or all rows together.
    """
    check_is_fitted(model)
    check_by(model, by)
    advise_on_intercepts(model, names)
    return _measure(model, clients, names, by)


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


def _measure(model: LinearModel, clients: FitClients, names: Sequence[Any], by: str) -> Performance:
    """Return the performance at clients, here or on other machines."""
    loss = clients.info.loss
    measures = _MEASURES.get(type(loss))
    if measures is None:
        raise ValueError(
            f"the model has the loss {type(loss).__name__}; expected one of "
            f"{', '.join(kind.__name__ for kind in _MEASURES)}, whose performance is defined"
        )
    session = Session(clients, settings_of(model, clients), 0, aggregator_of(model), report_nothing)
    message = _message(model, names)
    n_outcomes = loss.n_outputs
    if by == "groups":
        table = _of_clients(session, message, n_outcomes, len(measures), model.min_rows)
        rows = list(clients.info.n_rows)
        few = _note_on_few_rows(model, None, sum(rows)) if np.isnan(table).any() else []
        groups = [str(name) for name in names]
    else:
        table, share = _of_all_rows(session, message, loss, n_outcomes, model.min_rows)
        n_measured = round(share * session.settings.n_rows)
        rows = [n_measured]
        few = _note_on_few_rows(model, n_measured, sum(clients.info.n_rows))
        groups = [f"all {len(names)} groups"]

    columns: dict[str, Array] = {"group": np.repeat(np.array(groups, object), n_outcomes)}
    if n_outcomes > 1:
        columns["class"] = np.tile(model.classes_, len(groups))
    columns["rows"] = np.repeat(rows, n_outcomes)
    numbers = table.reshape(-1, len(measures)).T
    columns |= dict(zip(measures, numbers, strict=True))
    sent = by_question([sent_of(run) for run in session.log])
    return Performance(
        columns,
        f"{type(model).__name__} with {words_on_features(model)} on {sum(rows):,} rows",
        (*_notes(model, columns, by, names, clients.info.weights), *few),
        sent,
        facts_of(model, [str(name) for name in names], by, sent),
    )


def by_question(stages: Sequence[Sent]) -> tuple[Sent, ...]:
    """Return what was sent, where the Newton steps of a calibration are one stage."""
    together: dict[str, Sent] = {}
    for stage in stages:
        before = together.get(stage.what)
        if before is not None:
            stage = before._replace(
                rounds=before.rounds + stage.rounds,
                bytes_up=before.bytes_up + stage.bytes_up,
                bytes_down=before.bytes_down + stage.bytes_down,
            )
        together[stage.what] = stage
    return tuple(together.values())


def _message(model: LinearModel, names: Sequence[Any]) -> tuple[Array, SparseModel]:
    """Return the intercepts, one or one for each client, and the coefficients."""
    coefficients = np.atleast_2d(np.asarray(model.coef_, np.float64))
    table = coefficients[0] if len(coefficients) == 1 else coefficients.T
    intercepts = [np.atleast_1d(model.intercept_)]
    if hasattr(model, "intercepts_"):
        own = model.intercepts_
        intercepts = [np.atleast_1d(own.get(name, model.intercept_)) for name in names]
    return np.array(intercepts, np.float64), SparseModel.of(table)


def _of_clients(
    session: Session, message: State, n_outcomes: int, n_measures: int, min_rows: int
) -> Array:
    """Return the measures of each client, shape (n_clients, n_outcomes, n_measures)."""
    n_clients = len(session.clients.info.n_rows)
    counted = _counted_beside_rows(session)
    method = ClientPerformance(n_outcomes, min_rows, n_clients, n_measures, counted=counted)
    return method.measured(session.query(method, session.clients.transport(), message))


def _counted_beside_rows(session: Session) -> tuple[float, ...] | None:
    """Return the rows that weights of clients stand for; None if they are rows, which they know."""
    counted = session.settings.counted
    if np.array_equal(counted, session.clients.info.n_rows):
        return None
    return tuple(np.asarray(counted, np.float64).tolist())


def _of_all_rows(
    session: Session, message: State, loss: Loss, n_outcomes: int, min_rows: int
) -> tuple[Array, float]:
    """Return the measures of all rows together, and the share of their weight that is measured.

    Rows of clients that send zeros are none of them. The measures have the shape
    (1, n_outcomes, n_measures).
    """
    rows = session.clients.transport()
    n_rows = session.settings.n_rows
    predictions = PredictionUnits(n_outcomes, min_rows)
    centres, units = predictions.pooled(session.query(predictions, rows, message))
    message = (*message, centres, units)

    shares = session.settings.shares_beside_rows
    counted = _counted_beside_rows(session)
    method = PooledPerformance(n_outcomes, min_rows, n_rows, shares, counted=counted)
    sums, share = method.pooled(session.query(method, rows, message))
    if share <= ROUNDING_OF_SHARES:
        return np.full((1, n_outcomes, len(_MEASURES[type(loss)])), np.nan), 0.0
    measures = [
        _pooled_measures(one, loss, centre, unit, share * n_rows)
        for one, centre, unit in zip(sums, centres, units, strict=True)
    ]

    ones = np.ones(n_outcomes)
    if loss.is_quadratic:  # predictors are in the units already
        starts = np.column_stack([0 * ones, ones])
        scales = np.column_stack([units, ones])
        of_outcomes = loss
    else:
        starts = np.column_stack([centres, units])
        scales = np.column_stack([ones, 1 / units])
        of_outcomes = LogisticLoss() if loss.class_labels is not None else loss
    shifts = _pooled_lines(session, rows, message, np.zeros((n_outcomes, 1)), min_rows)
    lines = _pooled_lines(session, rows, message, starts, min_rows)
    n_counted = share * session.settings.n_counted
    calibrations = calibrations_of(of_outcomes, shifts, lines, scales, n_counted)

    table = np.column_stack([measures, calibrations])
    table[np.isnan(table[:, 0])] = np.nan
    return table[None], share


def _pooled_lines(
    session: Session, rows: Transport, message: State, start: Array, min_rows: int
) -> Lines:
    """Return calibration lines of all rows, each Newton step from one more exchange."""
    n_outcomes, n_coefficients = start.shape
    question = CalibrationSums(n_outcomes, min_rows, n_coefficients)
    of_counts = ChiSquaredSums(n_outcomes, min_rows)

    def evaluate(lines: Array) -> LineSums:
        return question.line_sums(session.query(question, rows, (*message, lines)))

    def chi_squared(lines: Array) -> Array:
        return of_counts.pooled(session.query(of_counts, rows, (*message, lines)))

    has_counts = sends_chi_squared(session.settings.loss)
    return fit_lines(evaluate, start, chi_squared if has_counts else None)


def _pooled_measures(
    sums: Array, loss: Loss, centre: float, unit: float, n_rows: float
) -> list[float]:
    """Return the measures before the calibration, from the sums of `PooledPerformance`."""
    predicted, observed, value, square, count, concordant, variance = sums.tolist()
    if loss.is_quadratic:
        residual = 2 * value
        spread = square - observed**2
        r2 = 1 - residual / spread if spread > 0 else np.nan
        return [centre + unit * observed, centre + unit * predicted, r2, residual * unit**2]

    if loss.class_labels is None:
        return measures_of_counts(predicted, observed, value, square)
    if min(observed, 1 - observed) <= ROUNDING_OF_SHARES:
        return [np.nan] * 6
    auc = np.nan
    auc_se = np.nan
    if count > 0:
        auc = concordant / count
        auc_se = np.sqrt(variance / n_rows) / count
    return [observed, predicted, auc, auc_se, square, value]


def _notes(
    model: LinearModel,
    columns: dict[str, Array],
    by: str,
    names: Sequence[Any],
    weights: Array,
) -> tuple[str, ...]:
    """Return how the measures are to be read."""
    notes = [
        "intercept: of a calibration with the slope 1, by how much predictions are too low; slope: "
        "below 1 they are too extreme. A model that is right has 0 and 1."
    ]
    in_fit = [str(name) for name in names if name in list(model.groups_)]
    knows_groups = list(names) != ["all rows"] and len(model.groups_) > 1
    if in_fit or not knows_groups:
        which = f"Part of the fit: {', '.join(in_fit)}. " if knows_groups else ""
        notes.append(
            f"{which}On rows that a model was fitted to its measures are too kind; validate() "
            f"leaves each group out.{_held_out(model, columns, names, weights)}"
        )
    if by == "all" and "auc" in columns:
        notes.append("AUC: of pairs within a group, because pairs of two groups are in no sum.")
    return tuple(notes)


def _held_out(
    model: LinearModel, columns: dict[str, Array], names: Sequence[Any], weights: Array
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
        f" The {_HEADINGS[name]} is {here:.3g} here, and was {held_out:.3g} where cross-validation "
        f"held {path.folds} out."
    )


def _note_on_few_rows(model: LinearModel, n_measured: int | None, n_rows: int) -> list[str]:
    """Return which rows are not measured, if some are not.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Fitted.
    n_measured : int or None
        How many rows are measured together; None if each group has a line, and some have gaps.
    n_rows : int
        How many rows the groups have.
    """
    of_few = f"fewer than min_rows={model.min_rows} rows, of a group or of a class in it"
    if n_measured is None:
        return [
            f"A dash: {of_few}, of which nothing leaves the group; or a number that does not exist."
        ]
    if n_measured == n_rows:
        return []
    return [
        f"Measured on {n_measured:,} of {n_rows:,} rows: the others are of groups with {of_few}, "
        "which send zeros."
    ]


def facts_of(
    model: LinearModel, names: Sequence[str], by: str, sent: Sequence[Sent]
) -> tuple[tuple[str, str], ...]:
    """Return what a report of a performance begins with."""
    total = sum(stage.bytes_up for stage in sent)
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
        ("groups", ", ".join(names)),
        ("protection", protection_of(model)),
        ("disclosure", consequence),
        ("bytes from each group", f"{total // max(len(names), 1):,} on average"),
    )
