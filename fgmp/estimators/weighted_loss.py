"""A loss whose rows have weights that rows of features cannot absorb."""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from .._support.warnings import advise_once
from ..data import Client
from ..losses import Expansion, GLMLoss
from ..sparse_model import Array
from .profiled_loss import OwnIntercept, intercept_of_rows
from .wrapped_loss import WrappedLoss


@dataclass(frozen=True)
class WeightedLoss(WrappedLoss):
    """The loss w_j l(z_j, y_j), whose targets have two columns, y_j and w_j.

    Rows of the squared loss can be scaled by sqrt(w_j) instead. For other losses the weights stay
    with the targets. They are above zero and have mean one.

    Parameters
    ----------
    loss : GLMLoss
        l, which all comes from that does not depend on weights.
    """

    loss: GLMLoss

    # Not even if l is: a solver of (z - y)^2 / 2 would take the rows without their weights.
    is_quadratic = False

    def __post_init__(self) -> None:
        if self.loss.has_coupled_rows:
            raise ValueError(
                f"loss is {self.loss!r}, which couples rows; expected one whose rows stand alone, "
                "so that each has a weight of its own"
            )

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

    def expansion(self, predictions: Array, targets: Array) -> Expansion:
        """Return w times l to second order."""
        labels, weights = self._split(targets)
        inside = self.loss.expansion(predictions, labels)

        def curvature(direction: Array) -> Array:
            return _times(weights, inside.curvature(direction))

        return Expansion(
            values=_times(weights, inside.values),
            derivative=_times(weights, inside.derivative),
            curvature=curvature,
        )

    # Signs do not depend on weights, which are above zero.

    def label_margins(self, predictions: Array, targets: Array) -> Array | None:
        """Return those of l."""
        return self.loss.label_margins(predictions, self._split(targets)[0])

    def recession_margins(self, predictions: Array, targets: Array, moves: Array) -> Array | None:
        """Return those of l."""
        return self.loss.recession_margins(predictions, self._split(targets)[0], moves)

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
    loss: GLMLoss

    def take(self, rows: Array) -> "WeightedTargets":
        """Return some of the rows."""
        return WeightedTargets(self.targets[rows], self.weights[rows], self.loss)

    def own_intercept(self, predictions: Array, **ridge: float) -> OwnIntercept:
        """Return the intercept that fits the rows best: for the squared loss the mean residual."""
        targets, weights, loss = self
        if loss.is_quadratic:
            residual = weights @ (targets - predictions) / weights.sum()
            return OwnIntercept(np.atleast_1d(residual), is_finite=True)
        columns = np.column_stack([targets, weights / weights.mean()])
        return intercept_of_rows(WeightedLoss(loss), predictions, columns, **ridge)

    def best_intercept(self, predictions: Array) -> Any:
        """Return the intercept that fits the rows best, as a number if there is one output.

        If they do not determine any, it is that of rows with one more, of no known target.
        """
        own = self.own_intercept(predictions)
        if not own.is_finite:
            own = self.own_intercept(predictions, ridge=1 / len(self.targets))
        return own.values if predictions.ndim > 1 else own.values[0]


def rows_counted(
    weights: Array, targets: Array | None = None, loss: GLMLoss | None = None
) -> Array:
    """Return for each weight the number of rows that it stands for.

    Weights that are all whole numbers are numbers of rows, as `freq_weights` of statsmodels: a row
    of weight 2 counts as two rows. Any others are relative, as the weights of its `WLS` and
    `var_weights`: each row of positive weight counts once, and the scale of weights plays no part.
    So are those of counts that are not all whole: these are rates, and their weights are times.
    """
    has_rates = loss is not None and _are_rates(loss, np.asarray(targets)[weights > 0])
    # All floats are whole from 2^53 on, and in single precision from 2^24 on.
    if np.spacing(weights.max()) < 1 and _are_whole(weights) and not has_rates:
        return weights.astype(np.float64)
    return (weights > 0).astype(np.float64)


def advise_on_rates(loss: GLMLoss, targets: Array, sample_weight: Any = None) -> None:
    """Warn of counts that are not all whole, as rates are, and have no weights."""
    if sample_weight is None and _are_rates(loss, targets):
        advise_once(
            "rates",
            "y holds counts that are not all whole, and no sample_weight is given, so that all "
            "rows weigh the same. If y are rates, expected sample_weight=times under observation, "
            "in performance and validate too; over Flower rows have no weights",
        )


def _are_rates(loss: GLMLoss, targets: Array) -> bool:
    """Return whether targets are counts over times: not all of them are whole."""
    return loss.has_count_targets and not _are_whole(targets)


def _are_whole(numbers: Array) -> bool:
    """Return whether all numbers are whole."""
    return np.array_equal(numbers, np.rint(numbers))


def split_weights(client: Client) -> WeightedTargets:
    """Return the targets of a client, the weights of its rows, which have mean one, and its loss.

    A client without weights has the weight one in each row.
    """
    targets = client.targets
    weights = np.ones(len(targets))
    loss = cast(GLMLoss, client.loss)
    if isinstance(loss, WeightedLoss):
        targets, weights = targets.T
        loss = loss.loss
    kind = np.intp if loss.has_integer_targets else np.float64
    return WeightedTargets(targets.astype(kind, copy=False), weights, loss)
