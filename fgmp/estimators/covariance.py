"""Stage 6 of a fit: the covariance of the coefficients, from one more sum over the clients.

At the refitted model each client sends the Hessian of its mean loss on the selected features, the
loss, and the outer product of its gradient. From their sums follow the model-based covariance and
the cluster sandwich, in which the clients are the clusters.

Notes
-----
The outer product g g' of the gradient of one client is that gradient up to its sign. In the open it
tells the server nothing that the refit has not sent: a gradient, over all rows of the client. Under
masks only the sum leaves, and then the number of clients matters. The weighted gradients of all
clients sum to zero at the refitted model. With two clients each outer product is therefore known,
and with three of them a client that subtracts its own knows the other two, but for which is whose.
From four clients on, no client alone can tell. With fewer the outer products are not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from .._support.linear_algebra import size_of_half, symmetric_from_half, upper_half
from ..data import Client
from ..dictionaries import StandardBasis
from ..shared_support.newton import second_order
from ..solvers import SecondOrderProblem
from ..sparse_model import Array, IndexArray, SparseModel
from .calibration import mean_chi_squared
from .client_sums import ROUNDING_OF_SHARES, ClientSums, State, Sum, join_digits, split_digits
from .clients import Standardization
from .selection_path import StandardizedClients
from .session import Session, share_of
from .settings import FitSettings
from .small_cells import Counts
from .standardization import StandardizationStats

# Covariances are summed for at most this number of coefficients: 500,000 numbers of each client.
MAX_COEFFICIENTS = 1000
# With fewer clients the sum of outer products tells one of them the gradients of others.
LEAST_CLIENTS_UNDER_MASKS = 4
# Under masks an outer product is sent in this number of digits: the range of one is too small for
# clients with many rows.
_PRODUCT_DIGITS = 3
# An eigenvalue of the Hessian below this share of the largest one, with columns scaled to curvature
# one, is rounding: columns are then collinear.
_NEGLIGIBLE = 1e-10
# A coefficient is unidentified if it has more than this part in a direction without curvature.
_PART_OF_NULL_DIRECTION = 1e-6
# Sums under masks are exact to this share of a mean square.
_ROUNDING_OF_SQUARES = 1e-6


@dataclass(frozen=True)
class GradientProducts(ClientSums):
    """Hessians, losses and outer products of gradients of the clients at one model.

    The message is the model, in common units. The gradient is of the client's mean loss and the
    ridge together, so that the weighted sum over the clients is zero at the refitted model.

    Parameters
    ----------
    n_coefficients : int
        How many coefficients the model has.
    ridge : float
        The weight of half the squared norm of the slopes.
    n_intercepts : int
        1 if the first column stands for the intercept, which has no ridge, else 0.
    n_counted : float
        The number n of rows that the weights stand for.
    shares : tuple of float, or None
        The weight p_i of each client; None if it is the client's part of the rows, as the client
        knows itself.
    n_rows : int
        The number of rows of all clients.
    with_products : bool
        Whether outer products are sent at all.
    with_chi_squared : bool
        Whether Pearson's chi-squared is sent, from which the dispersion of counts is estimated.
    masked : bool
        Whether sums are made under masks.
    """

    n_coefficients: int
    ridge: float
    n_intercepts: int
    n_counted: float
    shares: tuple[float, ...] | None
    n_rows: int
    with_products: bool
    with_chi_squared: bool
    masked: bool

    description: ClassVar[str] = "sums for standard errors"
    form: ClassVar[str] = (
        "loss, Hessian, and outer product of the gradient, at the final model; of counts "
        "chi-squared"
    )
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return one sum: the loss, the upper half of H, chi-squared, and half of n p_i g g'."""
        n_half = size_of_half(self.n_coefficients)
        n_squares = self.with_chi_squared + self.with_products * n_half
        n_digits = _PRODUCT_DIGITS if self.masked else 1
        return [Sum(self.products, (1 + n_half + n_digits * n_squares,))]

    def products(self, client: Client, message: State) -> Array:
        """Return the loss, the Hessian and the outer product of a client."""
        (model,) = message
        coefficients = model.values.astype(np.float64)
        problem = SecondOrderProblem.of(client, model.support, StandardBasis())
        problem = problem.in_precision(coefficients.dtype)
        predictions = problem.predictions(coefficients)

        value, gradient, hessian = second_order(problem, predictions)
        squares = []
        if self.with_chi_squared:
            squares.append(mean_chi_squared(problem.expansion(predictions)))
        if self.with_products:
            is_slope = model.support >= self.n_intercepts * client.loss.n_outputs
            gradient = gradient + self.ridge * is_slope * coefficients
            scale = self.n_counted * share_of(client, self.shares, self.n_rows)
            squares.extend(scale * upper_half(np.outer(gradient, gradient)))
        digits = np.array(squares)
        if self.masked:
            digits = split_digits(digits, _PRODUCT_DIGITS)
        return np.concatenate([[value], upper_half(hessian), digits.reshape(-1)])

    def pooled(self, state: State) -> PooledCurvature:
        """Return what the sums stand for."""
        model, mean = state
        k = len(model.support)
        loss = float(mean[0])
        half, squares = np.split(mean[1:], [size_of_half(k)])
        if self.masked:
            squares = join_digits(squares.reshape(_PRODUCT_DIGITS, -1))
        chi_squared = float(squares[0]) if self.with_chi_squared else 2 * loss
        products = None
        if self.with_products:
            products = symmetric_from_half(squares[self.with_chi_squared :], k)
        return PooledCurvature(loss, symmetric_from_half(half, k), chi_squared, products)


class PooledCurvature(NamedTuple):
    """Sums over the clients at a model with k coefficients.

    Attributes
    ----------
    loss : float
        The mean loss f of all rows.
    hessian : ndarray, shape (k, k)
        The Hessian of f.
    chi_squared : float
        Pearson's chi-squared of a row, on the mean: of the squared loss twice the loss.
    products : ndarray, shape (k, k), or None
        n sum_i p_i^2 g_i g_i', with the gradients g_i of the clients.
    """

    loss: float
    hessian: Array
    chi_squared: float
    products: Array | None


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the coefficients of a fit, in the units of the data.

    Attributes
    ----------
    columns : ndarray of int, shape (k,)
        The feature of each coefficient, and -1 for the intercept.
    outputs : ndarray of int, shape (k,)
        The output of each coefficient, 0 if there is one output.
    values : ndarray, shape (k,)
        The coefficients.
    model_based : ndarray, shape (k, k)
        phi A^-1 H A^-1 / n, with the Hessian H of the mean loss, A = H + ridge, and the dispersion
        phi. For labels and counts n is the sum of the weights. It is nan for coefficients that the
        rows do not determine.
    by_group : ndarray, shape (k, k), or None
        The cluster sandwich A^-1 M A^-1 with the groups as clusters, times
        G / (G - 1) (n - 1) / (n - k) for G groups. None if it is not summed.
    why_not_by_group : str
        Why it is not summed, or "".
    n_rows : float
        n, the number of rows that the weights stand for (`rows_counted`): their sum if they are
        whole numbers, and else the number of rows.
    n_groups : int
        G.
    degrees_of_freedom : float
        n - k, with the rank k of the Hessian and the intercepts of groups.
    dispersion : float
        phi: Pearson's chi-squared over the degrees of freedom, which is the residual variance for
        the squared loss, and makes errors of counts quasi-Poisson; 1 for labels.
    loss : float
        The mean loss at the model, in the units of the data.
    is_ridge : bool
        Whether C is finite, so that the coefficients are shrunken.
    deviations : ndarray, shape (n_features,)
        The standard deviation of each feature over all rows: about the mean; about that of each
        group if these have intercepts of their own; about zero if there is no intercept.
    class_rows : ndarray, shape (n_classes,), or None
        How many of the n rows are of each class, by their weights, in the order of ``classes_``;
        None for numbers.
    indicator_shares : ndarray, shape (k,), or None
        Of a coefficient of a column of zeros and ones the share of the weight of all rows that has
        a one; nan for other columns. None in a file of an earlier version.
    n_samples : int or None
        The number of rows, whatever their weights.
    total_weight : float, or None
        The sum of the weights; None in a file of an earlier version.
    """

    columns: IndexArray
    outputs: IndexArray
    values: Array
    model_based: Array
    by_group: Array | None
    why_not_by_group: str
    n_rows: float
    n_groups: int
    degrees_of_freedom: float
    dispersion: float
    loss: float
    is_ridge: bool
    deviations: Array
    class_rows: Array | None = None
    indicator_shares: Array | None = None
    n_samples: int | None = None
    total_weight: float | None = None

    def __repr__(self) -> str:
        return f"Covariance of {len(self.values)} coefficients from {self.n_groups} groups"


def coefficient_covariance(
    session: Session,
    clients: StandardizedClients,
    model: SparseModel,
    ridge: float,
) -> Covariance | None:
    """Return the covariance of a refitted model, from one exchange; None if nothing is summed.

    Parameters
    ----------
    session : Session
        The fit.
    clients : StandardizedClients
        All rows.
    model : SparseModel
        The refitted model, in common units.
    ridge : float
        The ridge of the refit.
    """
    settings = session.settings
    columns, _ = _columns_and_outputs(model, settings)
    varies = np.append(clients.units.factors != 0, True)[columns]
    model = replace(model, support=model.support[varies], values=model.values[varies])
    if not 0 < len(model.support) <= MAX_COEFFICIENTS:
        return None

    why_not = _why_no_products(settings)
    method = GradientProducts(
        n_coefficients=len(model.support),
        ridge=ridge,
        n_intercepts=settings.n_intercepts,
        n_counted=settings.n_counted,
        shares=settings.shares_beside_rows,
        n_rows=settings.n_rows,
        with_products=not why_not,
        with_chi_squared=settings.loss.has_count_targets,
        masked=settings.parameters.secure,
    )
    state = session.query(method, clients.transport, (model,))
    pooled = method.pooled(state)
    return _covariance(pooled, model, clients.stats, settings, ridge, why_not)


def _columns_and_outputs(model: SparseModel, settings: FitSettings) -> tuple[Array, Array]:
    """Return the feature of each coefficient, -1 for the intercept, and its output."""
    atoms, outputs = np.divmod(model.support, settings.loss.n_outputs)
    return atoms - settings.n_intercepts, outputs


def _why_no_products(settings: FitSettings) -> str:
    """Return why outer products are not asked for, or "" if they are."""
    n_clients = len(settings.info.n_rows)
    if n_clients < 2:
        return "all rows are one group, because fit got no groups=..., or one alone took part"
    if settings.parameters.secure and n_clients < LEAST_CLIENTS_UNDER_MASKS:
        return (
            f"under masks the sum of outer products of {n_clients} groups would tell one of them "
            f"the gradients of others; it is made of {LEAST_CLIENTS_UNDER_MASKS} or more"
        )
    return ""


def _covariance(
    pooled: PooledCurvature,
    model: SparseModel,
    stats: StandardizationStats,
    settings: FitSettings,
    ridge: float,
    why_not: str,
) -> Covariance:
    """Return the covariance in the units of the data that follows from the sums."""
    standardization = stats.standardization
    columns, outputs = _columns_and_outputs(model, settings)
    n = settings.n_counted
    n_groups = len(settings.info.n_rows)
    k = len(model.support)
    basis = np.eye(k)
    if settings.loss.is_shift_invariant:
        basis = _without_common_shift(k, settings.loss.n_outputs)
    to_original = _to_original_units(columns, outputs, standardization)
    with_ridge = pooled.hessian + np.diag(ridge * settings.is_penalised(model))
    bread, rank = _bread(to_original, basis, with_ridge)
    n_intercepts_of_groups = 0
    if settings.intercept_per_client:
        n_intercepts_of_groups = n_groups * (
            settings.loss.n_outputs - settings.loss.is_shift_invariant
        )
    degrees_of_freedom = n - rank - n_intercepts_of_groups
    n_left = degrees_of_freedom if degrees_of_freedom > 0 else np.nan

    unit = standardization.target_unit
    weight = n if settings.loss.is_quadratic else settings.total_weight
    dispersion = 1.0
    class_rows = None
    if settings.loss.class_labels is None:
        dispersion = weight * pooled.chi_squared / n_left
    else:
        class_rows = n * stats.means[settings.n_features :]

    by_group = None
    if pooled.products is not None:
        correction = n_groups / (n_groups - 1) * (n - 1) / n_left
        by_group = correction / n * bread @ pooled.products @ bread.T

    table = standardization.to_original_units(model).reshape(-1, settings.loss.n_outputs)
    return Covariance(
        columns=columns,
        outputs=outputs,
        values=table[columns + 1, outputs],
        model_based=dispersion / weight * bread @ pooled.hessian @ bread.T,
        by_group=by_group,
        why_not_by_group=why_not,
        n_rows=n,
        n_groups=n_groups,
        degrees_of_freedom=float(degrees_of_freedom),
        dispersion=float(dispersion * unit**2),
        loss=pooled.loss * unit**2,
        is_ridge=ridge > 0,
        deviations=stats.deviations,
        class_rows=class_rows,
        indicator_shares=np.append(_indicator_shares(stats, settings), np.nan)[columns],
        n_samples=settings.n_rows,
        total_weight=settings.total_weight,
    )


def _indicator_shares(stats: StandardizationStats, settings: FitSettings) -> Array:
    """Return the share of ones in each column of zeros and ones; nan for other columns.

    The mean square of such a column is its mean, as it is of no column of measurements. Where
    deviations are from the means of each client it is not known, and clients have said how many of
    their rows are neither 0 nor 1.
    """
    shares = stats.means[: settings.n_features]
    squares = stats.deviations**2
    if settings.centring == "mean":
        squares = squares + shares**2
    is_indicator = np.abs(squares - shares) <= _ROUNDING_OF_SQUARES * shares
    if stats.others is not None:
        is_indicator = stats.others <= ROUNDING_OF_SHARES
    is_indicator &= stats.deviations > 0
    is_indicator[list(settings.indicators)] = True
    return np.where(is_indicator, shares, np.nan)


def _to_original_units(columns: Array, outputs: Array, units: Standardization) -> Array:
    """Return the matrix from coefficients in common units to those in the units of the data."""
    scales = np.append(units.factors, 1)[columns]  # the intercept is the column -1
    shifts = np.append(units.centre, 0)[columns] * scales
    matrix = np.diag(scales * units.target_unit)
    for row in np.flatnonzero(columns < 0):
        of_output = (columns >= 0) & (outputs == outputs[row])
        matrix[row, of_output] = -shifts[of_output] * units.target_unit
    return matrix


def _without_common_shift(k: int, n_outputs: int) -> Array:
    """Return an orthonormal basis of the coefficients whose sum over the outputs is zero.

    A shift of all outputs alike changes no probability, so that the loss has no curvature there.
    """
    differences = np.eye(n_outputs)[:, 1:] - 1 / n_outputs
    of_one_feature, _ = np.linalg.qr(differences)
    return np.asarray(np.kron(np.eye(k // n_outputs), of_one_feature))


def _bread(to_original: Array, basis: Array, matrix: Array) -> tuple[Array, int]:
    """Return L A^-1 and the rank of A, with the matrix L to the units of the data.

    A^-1 is the inverse on the span of a basis, without directions that have no curvature.

    Rows of coefficients with a part in a direction without curvature are nan.
    """
    restricted = basis.T @ matrix @ basis
    diagonal = restricted.diagonal()
    scales = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1))
    eigenvalues, vectors = np.linalg.eigh(restricted * np.outer(scales, scales))
    is_null = eigenvalues <= _NEGLIGIBLE * max(float(eigenvalues[-1]), 0)
    vectors = basis @ (scales[:, None] * vectors)
    in_original_units = to_original @ vectors
    bread = (in_original_units[:, ~is_null] / eigenvalues[~is_null]) @ vectors[:, ~is_null].T

    sizes = np.linalg.norm(in_original_units, axis=1)
    parts = np.linalg.norm(in_original_units[:, is_null], axis=1)
    bread[parts > _PART_OF_NULL_DIRECTION * sizes] = np.nan
    return np.asarray(bread), int(np.count_nonzero(~is_null))
