"""Losses of linear predictions: each is a function of z = A x and the targets, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from .models import Array

__all__ = ["Loss", "SquaredLoss", "least_squares", "loss_named"]


class Loss(Protocol):
    """What a method needs of a loss l(z, y): its derivatives in the prediction z, row by row.

    The objective of a client with rows a_j and targets y_j is f_i(x) = (1/|D_i|) sum_j l(a_j' x, y_j), its gradient
    (1/|D_i|) A' l'(A x, y), and its Hessian product (1/|D_i|) A' l''(A x, y) A v.
    """

    @property
    def smoothness(self) -> float:
        """The largest l''."""

    def row_weight(self, n_rows: int) -> float:
        """What each of `n_rows` rows counts in an objective or gradient: 1/n_rows for a mean, 1 for a sum."""

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Shape of the model x."""

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return the targets as the loss uses them, or raise a ValueError that names them."""

    def values(self, predictions: Array, targets: Array) -> Array:
        """l(z, y) for each row."""

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """l'(z, y) for each row."""

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """l''(z, y) applied to `direction`, for each row."""

    def minimiser(self, columns: Array, targets: Array, start: Array) -> Array:
        """Argmin over v of the mean of l(columns v, y), to machine precision."""


@dataclass(frozen=True)
class SquaredLoss:
    """Squared loss, l(z, y) = (z - y)^2 / 2, so that f_i(x) = ||A_i x - y_i||^2 / (2 |D_i|).

    The paper's loss for sparse linear regression (Section II and every experiment with synthetic data).

    Parameters
    ----------
    averaged : bool, default True
        Whether objectives and gradients are means over the rows, as the paper prints them, or sums, which is what its
        Figure 8 shows: a gradient over b rows is then b times as long, and so is every step of a fixed learning rate.
    """

    averaged: bool = True

    @property
    def smoothness(self) -> float:
        """Always 1."""
        return 1.0

    def row_weight(self, n_rows: int) -> float:
        """1/n_rows, or 1 where the loss is a sum."""
        return 1 / n_rows if self.averaged else 1.0

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """``(n_features,)``."""
        return (n_features,)

    def check_targets(self, name: str, targets: Array) -> Array:
        """Any finite real numbers."""
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """(z - y)^2 / 2."""
        return 0.5 * (predictions - targets) ** 2

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Z - y."""
        return predictions - targets

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """The direction itself: l'' = 1."""
        return direction

    def minimiser(self, columns: Array, targets: Array, start: Array) -> Array:
        """The least-squares solution, of minimum norm where the columns are dependent; `start` is not needed."""
        return least_squares(columns, targets)


def loss_named(loss: str | Loss) -> Loss:
    """The loss object behind a name: ``"squared"``; a loss object is returned as it is."""
    if not isinstance(loss, str):
        return loss
    known = {"squared": SquaredLoss}
    if loss not in known:
        raise ValueError(f"loss is {loss!r}; expected one of {', '.join(map(repr, known))}, or a loss object")
    return known[loss]()


_CHOLESKY = {
    np.dtype(np.float64): (lapack.dpotrf, lapack.dpotrs),
    np.dtype(np.float32): (lapack.spotrf, lapack.spotrs),
}


def least_squares(columns: Array, targets: Array) -> Array:
    """Minimum-norm least-squares solution to machine precision.

    Cholesky factorisation of the normal equations with one step of refinement on the residual of the data, which
    restores the accuracy that squaring the condition number costs; where the factor shows that the columns are nearly
    dependent, or there are more columns than rows, the singular value decomposition.

    Parameters
    ----------
    columns : ndarray, shape (m, k)
    targets : ndarray, shape (m,)

    Returns
    -------
    ndarray, shape (k,)
    """
    n_rows, n_columns = columns.shape
    if 0 < n_columns <= n_rows:
        potrf, potrs = _CHOLESKY[columns.dtype]
        factor, failed = potrf(columns.T @ columns)
        pivots = np.abs(factor.diagonal())
        if not failed and pivots.min() > np.finfo(columns.dtype).eps ** 0.375 * pivots.max():
            solution: Array = potrs(factor, columns.T @ targets)[0]
            solution += potrs(factor, columns.T @ (targets - columns @ solution))[0]
            return solution
    return np.linalg.lstsq(columns, targets, rcond=None)[0]
