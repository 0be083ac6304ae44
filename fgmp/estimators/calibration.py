"""Calibration and discrimination of predictions, from the predictions and targets of some rows.

Calibration compares what is observed with what was predicted. The line a + b z is fitted to the
targets by the loss of the model, where z is the predictor: the log-odds of a logistic model, or the
prediction of a linear one. A model that is right has the slope b = 1. The calibration intercept is
a with b = 1, so that it says how much too low the predictions are on the whole (Van Calster et al.,
*Calibration: the Achilles heel of predictive analytics*, BMC Medicine 17, 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from .._support.ties import with_exact_ties
from ..losses import Expansion, GLMLoss, LogisticLoss
from ..sparse_model import Array
from .damped_newton import SecondOrders, minimise

# A line is fitted once a Newton step promises less than this, in the mean loss of a row; the step
# is taken all the same, and squares what is left.
_LEAST_DECREMENT = 1e-12
# Less curvature than this, in standardized predictors, is rounding: the classes are separated, and
# the line has no bound.
_LEAST_CURVATURE = 1e-10
# Of its error: what a coefficient of zero may differ from zero.
_ROUNDING_OF_ZEROS = 1e-6
# Of the largest prediction: what the order of the terms of a sum may change.
_LAST_BITS = 64 * float(np.finfo(np.float64).eps)


class Outcome(NamedTuple):
    """What is predicted of some rows, and what is observed, for one number or one class.

    Attributes
    ----------
    predictor : ndarray, shape (n_rows,)
        z: log-odds of the class, or the prediction of a number.
    targets : ndarray, shape (n_rows,)
        -1 and +1, or numbers.
    loss : GLMLoss
        `LogisticLoss`, `SquaredLoss` or `PoissonLoss`.
    weights : ndarray, shape (n_rows,)
        Of the rows, with mean one.
    counted : ndarray, shape (n_rows,)
        How many rows each one stands for, as in `rows_counted`.
    """

    predictor: Array
    targets: Array
    loss: GLMLoss
    weights: Array
    counted: Array

    def mean(self, values: Array) -> float:
        """Return the weighted mean of a number of each row."""
        return float(np.mean(self.weights * values))


def outcomes_of(
    loss: GLMLoss, predictions: Array, targets: Array, weights: Array, counted: Array
) -> list[Outcome]:
    """Return the outcome of a model: one, or with a softmax loss each class against the others."""
    if not loss.has_integer_targets:
        return [Outcome(predictions, targets, loss, weights, counted)]
    outcomes = []
    for label in range(loss.n_outputs):
        others = logsumexp(np.delete(predictions, label, axis=1), axis=1)
        is_label = np.where(targets == label, 1.0, -1.0)
        predictor = predictions[:, label] - others
        outcomes.append(Outcome(predictor, is_label, LogisticLoss(), weights, counted))
    return outcomes


# Dispersion.


def mean_chi_squared(expansion: Expansion, weights: Array | float = 1.0) -> float:
    """Return the mean of l'^2 / l'' over the rows, Pearson's chi-squared of a row.

    With a canonical link l' is the residual, and l'' the variance of a target of dispersion one.
    The weight of a row is a factor of both, and so of the ratio, or is given beside them. Where l''
    is zero by underflow, no event is expected. Only counts need this sum: the dispersion of labels
    is 1, and that of other numbers, the residual variance, is twice their loss.
    """
    derivative = expansion.derivative
    variances = expansion.curvature(np.ones_like(derivative))
    ratios = np.divide(derivative**2, variances, where=variances > 0, out=0 * derivative)
    return float(np.mean(weights * ratios))


# Discrimination.


class Pairs(NamedTuple):
    """The pairs of a row with the event and a row without it.

    Attributes
    ----------
    n_pairs : float
        How many there are, each times the weights of both rows.
    n_concordant : float
        In how many the event has the larger predictor; a tie counts half.
    variance : float
        Of `n_concordant`, as DeLong, DeLong and Clarke-Pearson (1988) estimate it; nan if a class
        has fewer than two rows. The part of a row is squared with its weight, as one row is
        sampled, or as many as it stands for.
    """

    n_pairs: float
    n_concordant: float
    variance: float


def count_pairs(
    predictor: Array,
    is_event: Array,
    weights: Array | float = 1.0,
    counted: Array | float = 1.0,
) -> Pairs:
    """Return how many pairs of rows a predictor puts in the right order.

    The area under the ROC curve is ``n_concordant / n_pairs``. Predictions that differ by rounding
    alone are equal: the same row at two places of a table may have other last bits.

    Parameters
    ----------
    predictor : ndarray, shape (n_rows,)
    is_event : ndarray of bool, shape (n_rows,)
    weights, counted
        As in `Outcome`.
    """
    predictor = with_exact_ties(predictor, _LAST_BITS * float(np.abs(predictor).max()))
    rows = np.stack(np.broadcast_arrays(predictor, weights, counted))
    events = rows[:, is_event]
    others = rows[:, ~is_event]
    n_pairs = float(events[1].sum() * others[1].sum())
    below_events = _count_below(events, others)
    concordant = float(events[1] @ below_events)
    of_events = _variance_of_sum(below_events, events)
    of_others = _variance_of_sum(_count_below(others, events), others)
    return Pairs(n_pairs, concordant, of_events + of_others)


def _count_below(rows: Array, others: Array) -> Array:
    """Return the weight of the others that is below each row; that of equal ones counts half."""
    order = np.argsort(others[0], kind="stable")
    ordered = others[0, order]
    weight_up_to = np.append(0, np.cumsum(others[1, order]))
    below = np.searchsorted(ordered, rows[0], side="left")
    up_to = np.searchsorted(ordered, rows[0], side="right")
    return np.asarray((weight_up_to[below] + weight_up_to[up_to]) / 2)


def _variance_of_sum(values: Array, rows: Array) -> float:
    """Return the variance of the weighted sum of values of one class; nan for a single row."""
    _, weights, counted = rows
    n_rows = float(counted.sum())
    if n_rows < 2:
        return np.nan
    deviations = values - weights @ values / weights.sum()
    return float((weights**2 / counted) @ deviations**2 * n_rows / (n_rows - 1))


# Calibration.


class Scaled(NamedTuple):
    """An outcome in units in which its numbers are neither large nor small.

    Attributes
    ----------
    outcome : Outcome
        Numbers are (z - centre) / unit and (y - centre) / unit; log-odds and labels as they were.
    columns : ndarray, shape (n_rows, 2)
        What the line is fitted to: ones, and (z - centre) / unit.
    """

    outcome: Outcome
    columns: Array


def quantity_of_units(outcome: Outcome) -> Array:
    """Return what the units of an outcome are taken from: numbers observed, or log-odds."""
    return outcome.targets if outcome.loss.is_quadratic else outcome.predictor


def scaled(outcome: Outcome, centre: float, unit: float) -> Scaled:
    """Return an outcome in units near the mean and the deviation of `quantity_of_units`."""
    column = (outcome.predictor - centre) / unit
    if outcome.loss.is_quadratic:
        targets = (outcome.targets - centre) / unit
        outcome = outcome._replace(predictor=column, targets=targets)
    return Scaled(outcome, np.column_stack([np.ones(len(column)), column]))


def line_sums(scale: Scaled, line: Array, is_last: bool) -> SecondOrders:
    """Return the mean loss of one outcome at a line, with its derivatives in the coefficients.

    Parameters
    ----------
    scale : Scaled
        The outcome.
    line : ndarray, shape (1,) or (2,)
        The intercept beside the predictor itself, or the intercept and the slope.
    is_last : bool
        Whether Pearson's chi-squared of a row stands in place of the loss, if targets are numbers
        or counts. Far from the minimiser it may be beyond the range of masks.
    """
    predictor, targets, loss, weights, _ = scale.outcome
    n_rows = len(targets)
    columns = scale.columns[:, : len(line)]
    fitted = columns @ line + (predictor if len(line) == 1 else 0)
    expansion = loss.expansion(fitted, targets)
    curvatures = weights * expansion.curvature(np.ones(n_rows))
    value = scale.outcome.mean(expansion.values)
    if is_last and loss.class_labels is None:
        value = mean_chi_squared(expansion, weights)
    return SecondOrders(
        values=np.array([value]),
        gradients=(columns.T @ (weights * expansion.derivative) / n_rows)[None],
        hessians=(columns.T @ (curvatures[:, None] * columns) / n_rows)[None],
    )


def _fit_lines(
    evaluate: Callable[[bool, Array], SecondOrders], start: Array, loss: GLMLoss, n_rows: float
) -> tuple[Array, Array]:
    """Return the last coefficients of lines that minimise a convex loss, and their standard errors.

    What has no minimiser is nan.

    Parameters
    ----------
    evaluate, loss, n_rows
        As in `calibrations`.
    start : ndarray, shape (q, k)
        Where the steps begin.
    """
    q, k = start.shape
    steps = partial(evaluate, False)
    lines, _, exists = minimise(steps, start, _LEAST_DECREMENT, _LEAST_CURVATURE)
    coefficients = np.where(exists, lines[:, -1], np.nan)
    errors = np.full(q, np.nan)
    if not exists.any():
        return coefficients, errors

    at_end = evaluate(True, lines)
    errors[exists] = np.sqrt(np.linalg.inv(at_end.hessians[exists])[:, -1, -1] / n_rows)
    if loss.class_labels is None:
        dispersions = n_rows * at_end.values / (n_rows - k) if n_rows > k else np.nan
        errors = errors * np.sqrt(dispersions)
    # Of groups with intercepts of their own it is zero on the rows of the fit, and then rounding.
    is_zero = np.abs(coefficients) <= _ROUNDING_OF_ZEROS * errors
    return np.where(is_zero, 0, coefficients), errors


def calibrate(outcome: Outcome) -> Array:
    """Return the calibration of a predictor on some rows, as `calibrations` does."""
    quantity = quantity_of_units(outcome)
    centre = float(quantity.mean())
    deviation = float(quantity.std())
    unit = deviation if deviation > 0 else 1.0
    scale = scaled(outcome, centre, unit)

    def evaluate(is_last: bool, lines: Array) -> SecondOrders:
        return line_sums(scale, lines[0], is_last)

    centres = np.array([centre])
    units = np.array([unit])
    n_rows = float(outcome.counted.sum())
    return calibrations(evaluate, outcome.loss, centres, units, n_rows)[0]


def calibrations(
    evaluate: Callable[[bool, Array], SecondOrders],
    loss: GLMLoss,
    centres: Array,
    units: Array,
    n_rows: float,
) -> Array:
    """Return intercepts and slopes, each with its standard error; nan where there is none.

    Parameters
    ----------
    evaluate : callable (is_last, lines) -> SecondOrders
        The `line_sums` of outcomes that are `scaled`, at lines of shape (q, k): an intercept beside
        the slope 1, or an intercept and a slope. It may ask clients on other machines.
    loss : GLMLoss
        Of the outcomes: numbers have a residual variance, counts a dispersion, and labels 1.
    centres, units : ndarray, shape (q,)
        Of each outcome.
    n_rows : float
        The number of rows that all stand for.

    Returns
    -------
    ndarray, shape (q, 4)
    """
    no_shift = np.zeros((len(units), 1))
    # The line that is the predictor itself. Predictors of numbers are in the units already.
    identity = np.column_stack([centres, units])
    intercept_units = np.ones_like(units)
    slope_units = 1 / units
    if loss.is_quadratic:
        identity = np.column_stack([0 * units, intercept_units])
        intercept_units = units
        slope_units = np.ones_like(units)

    columns = []
    for start, unit in [(no_shift, intercept_units), (identity, slope_units)]:
        coefficients, errors = _fit_lines(evaluate, start, loss, n_rows)
        columns += [coefficients * unit, errors * unit]
    return np.column_stack(columns)
