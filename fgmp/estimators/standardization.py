"""What clients agree on before a fit: columns of numbers, and, as stage 1, common units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..method import Transport
from ..sparse_model import Array
from .client_sums import Moments, MomentsWithinClients, ObservedMeans, PooledMoments
from .clients import Standardization
from .encoding import Encoding, EncodingPlan
from .session import Session
from .settings import FitSettings


def agree_on_encoding(
    session: Session, plan: EncodingPlan, levels: Mapping[int, Sequence[str]]
) -> Encoding:
    """Return the encoding of all clients, from sums over them.

    Parameters
    ----------
    session : Session
        With the clients of `RawTableClients.statistics`.
    plan : EncodingPlan
        What is known beforehand.
    levels : mapping of int to sequence of str
        The levels that the clients have agreed on.
    """
    settings = session.settings
    n_columns = settings.n_features + settings.n_targets
    method = ObservedMeans(n_columns, "zero", settings.parameters.secure)
    state = session.query(method, session.clients.transport())
    means = method.means_of_all_rows(state)[: settings.n_features]
    return plan.encoding(levels, means)


class StandardizationStats(NamedTuple):
    """What stage 1 finds.

    Attributes
    ----------
    standardization : Standardization
        The common units.
    is_constant : ndarray of bool, shape (n_features,)
        Which columns are constant.
    means : ndarray, shape (n_features + n_targets,)
        Means of columns and targets over all rows, in the units of the data. For a loss of labels
        the targets are indicators of the classes.
    deviations : ndarray, shape (n_features,)
        Standard deviations of the columns, in the units of the data: about the mean, about that of
        each client if it has its own intercept, or about zero without an intercept.
    others : ndarray, shape (n_features,), or None
        The share of rows of each column that are neither 0 nor 1, if clients center their rows.
    """

    standardization: Standardization
    is_constant: Array
    means: Array
    deviations: Array
    others: Array | None = None


def standardization_stats(session: Session, clients: Transport) -> StandardizationStats:
    """Return the common units of the rows of some clients, from sums that all of them send.

    Rows are never put together.
    """
    settings = session.settings
    n_columns = settings.n_features + settings.n_targets
    kind = MomentsWithinClients if settings.centring == "client" else Moments
    method = kind(n_columns, settings.centring, settings.parameters.secure)
    moments = method.pooled(session.query(method, clients))
    return _stats_of_moments(moments, settings)


def unstandardized(settings: FitSettings) -> StandardizationStats:
    """Return the units of the data, for a fit with noise, which may not ask for exact sums."""
    n_columns = settings.n_features + settings.n_targets
    ones = np.ones(n_columns)
    moments = PooledMoments(unit=ones, mean=np.zeros(n_columns), square=ones)
    return _stats_of_moments(moments, settings)


def _stats_of_moments(moments: PooledMoments, settings: FitSettings) -> StandardizationStats:
    """Return the units that follow from means and mean squares of columns and targets."""
    p = settings.n_features
    unit, mean, square, others = moments
    means = mean * unit

    # A deviation below rounding of the mean is none. Without an intercept squares are about zero.
    rounding = (settings.n_rows * np.finfo(np.float64).eps) ** 2
    is_centred = settings.centring != "zero"
    is_constant = square <= rounding * (square + mean**2 * is_centred)
    has_constant_targets = settings.loss.is_quadratic and bool(is_constant[p])
    is_constant = is_constant[:p]

    deviations = np.where(is_constant, 0, np.sqrt(square[:p])) * unit[:p]
    scales = deviations if settings.standardize else np.ones(p)
    factors = np.divide(1, scales, out=np.zeros(p), where=~is_constant)
    factors, centre = _as_subtracted(factors, means[:p] * settings.n_intercepts, settings)

    target_centre = 0.0
    target_unit = 1.0
    null_intercept = np.zeros(1)
    if settings.loss.is_quadratic:
        spread = float(unit[p] * (abs(mean[p]) if has_constant_targets else np.sqrt(square[p])))
        # The power of two next to the spread, in which no sum of targets is large.
        target_unit = 2.0 ** round(np.log2(spread)) if spread else 1.0
        if settings.n_intercepts:
            target_centre = float(means[p])
    else:
        # That of the model without features gives each class its share, or all rows their mean.
        half_a_row = 1 / (2 * settings.n_rows)
        null_intercept = settings.loss.link(np.maximum(means[p:], half_a_row))

    standardization = Standardization(
        # Targets whose deviations are rounding have nothing that a feature could explain.
        factors=factors * (not has_constant_targets),
        centre=centre,
        target_centre=target_centre,
        target_unit=target_unit,
        centred_per_client=settings.intercept_per_client,
        n_intercepts=settings.n_intercepts,
        null_intercept=null_intercept,
    )
    if others is not None:
        others = others[:p]
    return StandardizationStats(standardization, is_constant, means, deviations, others)


def _as_subtracted(factors: Array, centre: Array, settings: FitSettings) -> tuple[Array, Array]:
    """Return factors and centre as clients have them in the precision of their tables.

    The intercept in original units is exact only for the numbers that clients subtract.
    """
    precision = settings.info.dtype
    factors = factors.astype(precision).astype(np.float64)
    if not settings.is_sparse:
        return factors, centre.astype(precision).astype(np.float64)
    # A sparse table subtracts centre * factor from each row, rounded.
    shift = (centre * factors).astype(precision).astype(np.float64)
    return factors, np.divide(shift, factors, out=centre.copy(), where=factors != 0)
