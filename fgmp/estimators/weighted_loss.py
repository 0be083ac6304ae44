"""A loss whose rows weigh differently, for sample weights where rows cannot be scaled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..losses import Loss
from ..models import Array

__all__ = ["WeightedLoss", "with_weights"]


@dataclass(frozen=True)
class WeightedLoss:
    """w_j l(z_j, y_j), where each row of the targets holds y_j and w_j.

    Parameters
    ----------
    loss : Loss
        l, a loss of one target per row.
    whole_targets : bool, default False
        Whether l takes integer labels, as `fgmp.SoftmaxLoss` does.
    """

    loss: Loss
    whole_targets: bool = False

    @property
    def smoothness(self) -> float:
        """That of l: the weights of a client have mean one, and single rows may exceed it."""
        return self.loss.smoothness

    @property
    def shift_invariant(self) -> bool:
        """As l."""
        return self.loss.shift_invariant

    @property
    def local_solver(self) -> str:
        """As l."""
        return self.loss.local_solver

    def row_weight(self, n_rows: int) -> float:
        """As l."""
        return self.loss.row_weight(n_rows)

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """As l."""
        return self.loss.model_shape(n_features)

    def check_targets(self, name: str, targets: Array) -> Array:
        """Whatever `with_weights` made."""
        return targets

    def values(self, predictions: Array, targets: Array) -> Array:
        """w l(z, y)."""
        weighted: Array = targets[:, 1] * self.loss.values(predictions, self._plain(targets))
        return weighted

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """w l'(z, y)."""
        return _rows_times(targets[:, 1], self.loss.derivative(predictions, self._plain(targets)))

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """w l''(z, y) applied to `direction`."""
        return _rows_times(targets[:, 1], self.loss.curvature(predictions, self._plain(targets), direction))

    def _plain(self, targets: Array) -> Array:
        plain: Array = targets[:, 0].astype(np.intp) if self.whole_targets else targets[:, 0]
        return plain


def with_weights(targets: Array, weights: Array) -> Array:
    """Targets and weights side by side, shape (n_samples, 2), in the precision of the weights."""
    return np.column_stack([targets.astype(weights.dtype), weights])


def _rows_times(weights: Array, rows: Array) -> Array:
    product: Array = weights.reshape(-1, *(1,) * (rows.ndim - 1)) * rows
    return product
