"""One measure of several groups summarised by random effects: a mean, and how groups differ.

The variance between groups is that of Paule and Mandel (1982), which simulations prefer to that of
DerSimonian and Laird (Veroniki et al., Research Synthesis Methods 7, 2016). The interval of the
mean has quantiles of t with one degree of freedom less than groups, as Hartung and Knapp proposed;
it is never shorter than by the errors alone. The prediction interval is about a group that was not
among these, with two degrees of freedom less than groups (Higgins, Thompson, Spiegelhalter, JRSS A
172, 2009; Riley et al., BMJ 353, 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, stdtrit

from ..sparse_model import Array


class RandomEffects(NamedTuple):
    """The summary of a measure; nan where there is none.

    Attributes
    ----------
    n_groups : int
        How many groups have the measure, with an error above zero if measures have errors.
    mean, lower, upper : float
        The mean of all groups there could be, with its interval of 95 %.
    tau : float
        The deviation of the true measures of groups.
    i2 : float
        tau^2 over the sum of tau^2 and the variance of a typical error, as Higgins and Thompson
        (Statistics in Medicine 21, 2002) define it: the share of the variance that is between
        groups.
    new_lower, new_upper : float
        What contains the true measure of a new group, in 95 of 100 cases, with n_groups - 2 degrees
        of freedom.
    """

    n_groups: int
    mean: float
    lower: float
    upper: float
    tau: float
    i2: float
    new_lower: float
    new_upper: float

    def from_scale(self, measure: str) -> RandomEffects:
        """Return the summary of a measure that was summarised `on_scale`, in its own units."""
        bounds = ("mean", "lower", "upper", "new_lower", "new_upper")
        return self._replace(**{name: from_scale(measure, getattr(self, name)) for name in bounds})


def on_scale(measure: str, columns: Mapping[str, Array]) -> tuple[Array, Array | None]:
    """Return a measure of groups and its errors on the scale of its intervals.

    That is the log-odds of an AUC, whose error is nan where it is 0 or 1, and else the measure
    itself. Errors are None if the columns have none.
    """
    values = columns[measure]
    errors = columns.get(f"{measure}_se")
    if measure != "auc" or errors is None:
        return values, errors
    is_inside = (values > 0) & (values < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return logit(values), np.where(is_inside, errors / (values * (1 - values)), np.nan)


def from_scale(measure: str, values: Any) -> Any:
    """Return numbers on the scale of a measure in its own units."""
    return expit(values) if measure == "auc" else values


def has_measure(values: Array, errors: Array | None) -> Array:
    """Return which groups have a finite value, with an error above zero if there are errors."""
    exists = np.isfinite(values)
    if errors is None:
        return exists
    return exists & np.isfinite(errors) & (errors > 0)


def random_effects(values: Array, errors: Array | None) -> RandomEffects:
    """Return the summary of the measures of several groups.

    Parameters
    ----------
    values : ndarray, shape (n_groups,)
        A group without a finite value is left out.
    errors : ndarray, shape (n_groups,), or None
        Standard errors. Without them the mean is that of the values, and nothing tells what of
        their spread is chance.
    """
    exists = has_measure(values, errors)
    y = values[exists]
    n_groups = len(y)
    if n_groups < 2:
        return RandomEffects(n_groups, *y, *[np.nan] * (7 - n_groups))

    t = float(stdtrit(n_groups - 1, 0.975))
    if errors is None:
        mean = y.mean()
        half = t * y.std(ddof=1) / np.sqrt(n_groups)
        return RandomEffects(n_groups, mean, mean - half, mean + half, *[np.nan] * 4)

    variances = errors[exists] ** 2

    def excess(between: float) -> float:
        weights = 1 / (variances + between)
        return float(weights @ (y - np.average(y, weights=weights)) ** 2) - (n_groups - 1)

    # The squares over the variance between groups are at least those with the errors, too.
    between = brentq(excess, 0, y.var(ddof=1)) if excess(0) > 0 else 0.0
    weights = 1 / (variances + between)
    mean = np.average(y, weights=weights)
    of_mean = 1 / weights.sum()
    half = t * np.sqrt(of_mean)
    of_new = stdtrit(n_groups - 2, 0.975) * np.sqrt(of_mean + between)  # nan for two groups
    of_errors = 1 / variances
    typical = (n_groups - 1) * of_errors.sum() / (of_errors.sum() ** 2 - of_errors @ of_errors)
    i2 = between / (between + typical)
    limits = mean - half, mean + half, np.sqrt(between), i2, mean - of_new, mean + of_new
    return RandomEffects(n_groups, float(mean), *map(float, limits))
