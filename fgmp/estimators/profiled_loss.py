"""A loss with an intercept of its own for each client, which the client works out by itself.

With coefficients x and the intercept b_i of client i, a fit minimises

    sum_i p_i min_b f_i(x, b).

A client therefore sends the value, the gradient and the Hessian of its profile min_b f_i(x, b),
which the intercept has dropped out of. For the squared loss the profile is the loss of rows from
which the client has subtracted their means, the within estimator of panel data, and there is
nothing to do beyond that. For other losses `ProfiledLoss` shifts the predictions of a client by the
best b. The coefficients are those of a pooled table with one column of ones for each client.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from ..losses import Expansion, GLMLoss, Loss
from ..sparse_model import Array
from .damped_newton import SecondOrders, minimise
from .wrapped_loss import WrappedLoss

# Weight of b^2 / 2 beside the mean loss. It keeps b within about 25 where a client has rows of one
# class only, which would send it to infinity. It is 10^4 roundings, and so small that a coefficient
# which a single row speaks for moves by less than 1e-5 of its standard error.
RIDGE = 1e-12
# Of what is expected: less that is observed loses digits.
_LEAST_SHARE_OBSERVED = 1e-6
# Curvature below this multiple of the ridge is that of a client whose intercept has no limit.
_LEAST_CURVATURE = 100.0

# A margin of a move of length one that is larger is more than rounding.
_WELL_AHEAD = 1e-3

# The last step of an intercept promises less, in the mean loss of a row: it is some 1e-7, and
# what is left is about the square.
_SETTLED = 1e-14
# Counts are expected as far below the largest prediction: they then vanish beside those observed,
# and cancel none of their digits.
_FAR_BELOW = 30.0


class OwnIntercept(NamedTuple):
    """The intercept that fits the rows of a client best.

    Attributes
    ----------
    values : ndarray, shape (n_outputs,)
        b.
    is_finite : bool
        Whether the rows determine it. With rows of one class only, or without any event, they do
        not, and b is as far as the ridge lets it go.
    """

    values: Array
    is_finite: bool


def mean_loss(loss: Loss, predictions: Array, targets: Array) -> SecondOrders:
    """Return the mean loss to second order in a shift, for predictions of shape (n, n_outputs)."""
    n_rows, n_outputs = predictions.shape
    in_shape = predictions.reshape(predictions.shape if n_outputs > 1 else n_rows)
    expansion = loss.expansion(in_shape, targets)
    return SecondOrders(
        values=expansion.values.sum(keepdims=True) / n_rows,
        gradients=expansion.derivative.reshape(1, n_rows, n_outputs).sum(axis=1) / n_rows,
        hessians=_row_curvatures(expansion)[None].sum(axis=1) / n_rows,
    )


def _row_curvatures(expansion: Expansion) -> Array:
    """Return l'' of each row, shape (n_rows, n_outputs, n_outputs)."""
    derivative = expansion.derivative
    n_rows = len(derivative)
    n_outputs = derivative.reshape(n_rows, -1).shape[1]
    curvatures = np.empty((n_rows, n_outputs, n_outputs), derivative.dtype)
    for output in range(n_outputs):
        direction = np.zeros((n_rows, n_outputs), derivative.dtype)
        direction[:, output] = 1
        product = expansion.curvature(direction.reshape(derivative.shape))
        curvatures[:, :, output] = product.reshape(n_rows, n_outputs)
    return curvatures


def own_intercept(
    loss: GLMLoss, predictions: Array, targets: Array, ridge: float = RIDGE
) -> OwnIntercept:
    """Return the minimiser b of mean_j l(z_j + b, y_j) + ridge ||b||^2 / 2.

    It is computed in float64.

    Parameters
    ----------
    loss : GLMLoss
        l, with its weights if rows have some.
    predictions : ndarray, shape (n_rows,) or (n_rows, n_outputs)
        z, without an intercept, and with means near zero.
    targets : ndarray
        As the loss takes them.
    ridge : float
        Above 0.
    """
    z = predictions.astype(np.float64).reshape(len(predictions), -1)
    start = np.zeros(z.shape[1])
    if loss.has_count_targets:
        start -= z.max() + _FAR_BELOW

    def at(shift: Array) -> SecondOrders:
        return mean_loss(loss, z + shift, targets)

    b, curvature = best_shift(at, start, ridge, loss)
    return OwnIntercept(b, curvature > _LEAST_CURVATURE * ridge)


def best_shift(
    at: Callable[[Array], SecondOrders],
    start: Array,
    ridge: float,
    loss: GLMLoss,
    tolerance: float = _SETTLED,
) -> tuple[Array, float]:
    """Return the shift b that minimises a mean loss plus ridge ||b||^2 / 2, and the curvature.

    For counts it follows from one evaluation, unless that is far above what is observed, and for
    labels from the steps of `minimise`.

    Parameters
    ----------
    at : callable (b) -> SecondOrders
        The mean loss to second order, which may be a sum over clients on other machines.
    start : ndarray, shape (n_outputs,)
        Where the steps begin.
    ridge : float
        Above 0.
    loss : GLMLoss
        If it does not change when the same number is added to all entries of b, the sum of these is
        that of the start.
    tolerance : float
        As in `minimise`.

    Returns
    -------
    tuple of ndarray and float
        b, and the least curvature there in a direction that matters to the loss.
    """
    if loss.has_count_targets:
        found = at(start)
        while _hides_what_is_observed(found):
            start = start - np.log(found.hessians[0, 0]) - 1
            found = at(start)
        return _shift_of_counts(found, start, ridge)

    n_outputs = len(start)
    penalty = ridge * np.eye(n_outputs)
    if loss.is_shift_invariant:
        # Along a shift of all outputs the gradient is rounding, which the ridge would magnify.
        penalty += 1 / n_outputs

    def evaluate(points: Array) -> SecondOrders:
        (b,) = points
        values, gradients, hessians = at(b)
        return SecondOrders(
            values + ridge * float(b @ b) / 2, gradients + ridge * b, hessians + penalty
        )

    (b,), sums, _ = minimise(evaluate, start[None], tolerance)
    return b, float(np.linalg.eigvalsh(sums.hessians[0])[0])


def _hides_what_is_observed(found: SecondOrders) -> bool:
    """Return whether expected counts are so large that those observed vanish beside them.

    Their digits cancel, and far out the loss goes on as a quadratic.
    """
    expected = found.hessians[0, 0]
    observed = expected - found.gradients[0, 0]
    return bool(expected > 1 and observed < _LEAST_SHARE_OBSERVED * expected)


def _shift_of_counts(found: SecondOrders, start: Array, ridge: float) -> tuple[Array, float]:
    """Return the b that minimises e e^b - y b + ridge b^2 / 2, and y.

    e is the mean of what is expected with the shift 0, and y that of what is observed. The ridge
    plays a part where next to nothing is observed.
    """
    expected = found.hessians[0, 0]
    observed = float((expected - found.gradients[0])[0])
    log_expected = np.log(expected) - start
    if observed > _LEAST_CURVATURE * ridge:
        return np.log(observed) - log_expected, observed
    of_ridge = observed / ridge
    return of_ridge - wrightomega(log_expected - np.log(ridge) + of_ridge), observed


def intercept_of_rows(
    loss: GLMLoss, predictions: Array, targets: Array, ridge: float = RIDGE
) -> OwnIntercept:
    """Return `own_intercept` for predictions of any level, as columns in their own units give."""
    level = predictions.mean(axis=0)
    own = own_intercept(loss, predictions - level, targets, ridge)
    return own._replace(values=own.values - level)


@dataclass(frozen=True)
class ProfiledLoss(WrappedLoss):
    """A loss whose predictions are shifted by the intercept that fits the client's rows best.

    All rows of a client are given together: the shift depends on all of them. It is best, so that
    it adds nothing to the derivative. In the expansion it adds the `coupling` of the rows.

    Parameters
    ----------
    loss : GLMLoss
        l, which all comes from that a shift does not change.
    """

    loss: GLMLoss

    has_coupled_rows = True
    # Not even if l is: least squares of the rows would leave the intercepts out.
    is_quadratic = False
    # Nor is a bound for l one for the profile, whose intercept moves with the predictions.
    self_concordance = 0.0

    def _shifted(self, predictions: Array, targets: Array) -> tuple[Array, Array]:
        """Return the predictions with the intercept in them, and the intercept."""
        b = own_intercept(self.loss, predictions, targets).values
        shift = b if predictions.ndim > 1 else b[0]
        return (predictions + shift).astype(predictions.dtype, copy=False), b

    def values(self, predictions: Array, targets: Array) -> Array:
        """Return l(z + b, y), with the ridge that b is the minimiser with."""
        shifted, b = self._shifted(predictions, targets)
        return self.loss.values(shifted, targets) + _penalty(b)

    def derivative(self, predictions: Array, targets: Array) -> Array:
        """Return l'(z + b, y)."""
        return self.loss.derivative(self._shifted(predictions, targets)[0], targets)

    def curvature(self, predictions: Array, targets: Array, direction: Array) -> Array:
        """Return l''(z + b, y) times the direction, row by row."""
        shifted, _ = self._shifted(predictions, targets)
        return self.loss.curvature(shifted, targets, direction)

    def expansion(self, predictions: Array, targets: Array) -> Expansion:
        """Return l(z + b, y) to second order, for an intercept that is worked out once."""
        shifted, b = self._shifted(predictions, targets)
        inside = self.loss.expansion(shifted, targets)
        return inside._replace(
            values=inside.values + _penalty(b),
            coupling=_coupling(inside),
        )

    def label_margins(self, predictions: Array, targets: Array) -> Array | None:
        """Return those of l, with the intercept."""
        return self.loss.label_margins(self._shifted(predictions, targets)[0], targets)

    def recession_margins(self, predictions: Array, targets: Array, moves: Array) -> Array | None:
        """Return those of l for moves with which the intercept moves along.

        It moves by -M^-1 sum_j l''_j times the moves, with the sum M of all l''. Where M vanishes,
        because a class or every event is missing, the intercept alone takes rows ahead for ever,
        and no move adds to that: these numbers are zero.
        """
        shifted, b = self._shifted(predictions, targets)
        n_outputs = len(b)
        curvatures = _row_curvatures(self.loss.expansion(shifted, targets)).astype(np.float64)
        columns = moves.reshape(-1, n_outputs)
        pull = np.einsum("jcd,jd->c", curvatures, columns) / len(columns)
        eigenvalues, vectors = np.linalg.eigh(curvatures.mean(axis=0))
        is_held = eigenvalues > _LEAST_CURVATURE * RIDGE
        held = vectors[:, is_held]
        follows = -held @ (held.T @ pull / eigenvalues[is_held])
        with_intercept = (columns + follows).reshape(moves.shape)
        numbers = self.loss.recession_margins(shifted, targets, with_intercept)
        if numbers is None or is_held.sum() + self.is_shift_invariant == n_outputs:
            return numbers

        away = b - held @ (held.T @ b)
        alone = np.broadcast_to(away / np.abs(away).max(), columns.shape).reshape(moves.shape)
        by_intercept = np.asarray(self.loss.recession_margins(shifted, targets, alone))
        return np.where(by_intercept > _WELL_AHEAD, 0, numbers)


def _penalty(b: Array) -> float:
    """Return the ridge that an intercept is the minimiser with."""
    return RIDGE * float(b @ b) / 2


def _coupling(expansion: Expansion) -> Array:
    """Return F = l'' M^-1/2 of each row, with the sum M of all l'' and the ridge.

    The Hessian of sum_j l(z_j + b, y_j) in z and b has the blocks diag(l''_j), l''_j and M. That of
    the profile is the Schur complement of M.
    """
    curvatures = _row_curvatures(expansion)
    total = curvatures.astype(np.float64).sum(axis=0)
    total += RIDGE * len(curvatures) * np.eye(len(total))
    inverse_root = np.linalg.inv(np.linalg.cholesky(total)).T
    coupling = curvatures @ inverse_root.astype(curvatures.dtype)
    return np.asarray(coupling if expansion.derivative.ndim > 1 else coupling[:, 0])
