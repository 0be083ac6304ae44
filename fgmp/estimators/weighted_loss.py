"""A loss whose rows have weights that rows of features cannot absorb."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data import Client
from ..losses import Loss
from ..sparse_model import Array
from .profiled_loss import OwnIntercept, intercept_of_rows


@dataclass(frozen=True)
class WeightedLoss(Loss):
    """The loss w_j l(z_j, y_j), whose targets have two columns, y_j and w_j.

    Rows of the squared loss can be scaled by sqrt(w_j) instead. For other losses the weights stay
    with the targets. They are above zero and have mean one.

    Parameters
    ----------
    loss : Loss
        l, which every property that does not depend on weights comes from.
    """

    loss: Loss

    # Not even if l is: a solver of (z - y)^2 / 2 would take the rows without their weights.
    is_quadratic = False

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """Whether l stays the same if one number is added to all entries of z."""
        return self.loss.shift_invariant

    @property
    def local_solver(self) -> str:  # type: ignore[override]
        """How a client minimises its objective by default."""
        return self.loss.local_solver

    @property
    def self_concordance(self) -> float:
        """The constant of l."""
        return self.loss.self_concordance

    @property
    def leads(self) -> Callable[[Array, Array], Array] | None:  # type: ignore[override]
        """The `leads` of l, which keep their signs, because weights are above zero."""
        leads = self.loss.leads
        if leads is None:
            return None

        def leads_of_labels(predictions: Array, targets: Array) -> Array:
            labels, _ = self._split(targets)
            return leads(predictions, labels)

        return leads_of_labels

    @property
    def class_labels(self) -> Array | None:
        """The labels of l."""
        return self.loss.class_labels

    def link(self, mean: float) -> float:
        """Return the prediction of l for a mean."""
        return self.loss.link(mean)

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        """Whether the targets of l are -1 and +1."""
        return self.loss.is_binary

    def ahead(self, moves: Array, targets: Array) -> Array | None:
        """Return what l does: weights are above zero."""
        return self.loss.ahead(moves, self._split(targets)[0])

    def row_weight(self, n_rows: int) -> float:
        """Return the weight of a row of l."""
        return self.loss.row_weight(n_rows)

    def model_shape(self, n_features: int) -> tuple[int, ...]:
        """Return the shape of a model of l."""
        return self.loss.model_shape(n_features)

    def check_targets(self, name: str, targets: Array) -> Array:
        """Return what l makes of the targets."""
        return self.loss.check_targets(name, targets)

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return w l(z, y)."""
        labels, weights = self._split(targets)
        return _times(weights, self.loss.values(predictions, labels))

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return w l'(z, y)."""
        labels, weights = self._split(targets)
        return _times(weights, self.loss.derivative(predictions, labels))

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return w l''(z, y) times the direction."""
        labels, weights = self._split(targets)
        return _times(weights, self.loss.curvature(predictions, labels, direction))

    def _split(self, targets: Array) -> tuple[Array, Array]:
        """Return the targets of l and the weights."""
        labels, weights = targets.T
        if self.loss.has_integer_targets:
            labels = labels.astype(np.intp)
        return labels, weights


def _times(weights: Array, values: Array) -> Array:
    """Return each row of the values times its weight."""
    return np.asarray((weights * values.T).T)


class WeightedTargets(NamedTuple):
    """Targets of rows, the weights of the rows, and the loss without them."""

    targets: Array
    weights: Array
    loss: Loss

    def take(self, rows: Array) -> "WeightedTargets":
        """Return some of the rows."""
        return WeightedTargets(self.targets[rows], self.weights[rows], self.loss)

    def best_intercept(self, predictions: Array) -> Any:
        """Return the intercept that fits the rows best: for the squared loss the mean residual.

        If they do not determine any, it is that of rows with one more, of no known target.
        """
        targets, weights, loss = self
        if loss.is_quadratic:
            return weights @ (targets - predictions) / weights.sum()
        own = self._own_intercept(predictions)
        if not own.is_finite:
            own = self._own_intercept(predictions, ridge=1 / len(targets))
        return own.values if predictions.ndim > 1 else own.values[0]

    def determines_intercept(self, predictions: Array) -> bool:
        """Return whether the rows determine an intercept."""
        return self.loss.is_quadratic or self._own_intercept(predictions).is_finite

    def _own_intercept(self, predictions: Array, **ridge: float) -> OwnIntercept:
        """Return the intercept of a loss that is not quadratic."""
        columns = np.column_stack([self.targets, self.weights / self.weights.mean()])
        return intercept_of_rows(WeightedLoss(self.loss), predictions, columns, **ridge)


def split_weights(client: Client) -> WeightedTargets:
    """Return the targets of a client, the weights of its rows, which have mean one, and its loss.

    A client without weights has the weight one in each row.
    """
    targets = client.targets
    weights = np.ones(len(targets))
    loss = client.loss
    if isinstance(loss, WeightedLoss):
        targets, weights = targets.T
        loss = loss.loss
    kind = np.intp if loss.has_integer_targets else np.float64
    return WeightedTargets(targets.astype(kind, copy=False), weights, loss)
