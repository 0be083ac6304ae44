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

from .._support.linear_algebra import newton_length
from ..losses import Expansion, GLMLoss, Loss
from ..shared_support.newton import SecondOrder
from ..sparse_model import Array
from .wrapped_loss import WrappedLoss

# Weight of b^2 / 2 beside the mean loss. It keeps b within about 25 where a client has rows of one
# class only, which would send it to infinity. It is 10^4 roundings, and so small that a coefficient
# which a single row speaks for moves by less than 1e-5 of its standard error.
RIDGE = 1e-12
# Curvature below this multiple of the ridge is that of a client whose intercept has no limit.
_LEAST_CURVATURE = 100.0

# A margin of a move of length one that is larger is more than rounding.
_WELL_AHEAD = 1e-3

_MOST_STEPS = 100
_MOST_HALVINGS = 60
_SETTLED = 1e-8
# An objective that is lower by less than this number of roundings has not been lowered.
_ROUNDINGS = 16


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


def mean_loss(loss: Loss, predictions: Array, targets: Array) -> SecondOrder:
    """Return the mean loss to second order in a shift, for predictions of shape (n, n_outputs)."""
    n_outputs = predictions.shape[1]
    in_shape = predictions.reshape(predictions.shape if n_outputs > 1 else len(predictions))
    expansion = loss.expansion(in_shape, targets)
    return SecondOrder(
        value=float(expansion.values.mean()),
        gradient=expansion.derivative.reshape(-1, n_outputs).mean(axis=0),
        hessian=_row_curvatures(expansion).mean(axis=0),
    )


def _row_curvatures(expansion: Expansion) -> Array:
    """Return l'' of each row, shape (n_rows, n_outputs, n_outputs)."""
    derivative = expansion.derivative
    n_rows = len(derivative)
    n_outputs = derivative.reshape(n_rows, -1).shape[1]
    columns = []
    for output in range(n_outputs):
        direction = np.zeros((n_rows, n_outputs), derivative.dtype)
        direction[:, output] = 1
        product = expansion.curvature(direction.reshape(derivative.shape))
        columns.append(product.reshape(n_rows, n_outputs))
    return np.stack(columns, axis=2)


def own_intercept(
    loss: GLMLoss, predictions: Array, targets: Array, ridge: float = RIDGE
) -> OwnIntercept:
    """Return the minimiser b of mean_j l(z_j + b, y_j) + ridge ||b||^2 / 2, by Newton's method.

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
    b = np.zeros(z.shape[1])
    if loss.class_labels is None:
        # With the canonical link l' is the expected target minus the target: counts may be large,
        # and Newton steps from zero would be many.
        at_one = np.full(len(z), loss.link(np.ones(1)))
        mean = 1 - float(loss.derivative(at_one, targets).mean())
        b[:] = loss.link(np.array([max(mean, ridge)]))

    def at(shift: Array) -> SecondOrder:
        return mean_loss(loss, z + shift, targets)

    b, last = best_shift(at, b, ridge, loss)
    return OwnIntercept(b, _is_determined(last.hessian, loss, ridge))


def best_shift(
    at: Callable[[Array], SecondOrder],
    start: Array,
    ridge: float,
    loss: GLMLoss,
    settled: float = _SETTLED,
) -> tuple[Array, SecondOrder]:
    """Return the shift b that minimises a mean loss plus ridge ||b||^2 / 2, by Newton's method.

    Parameters
    ----------
    at : callable (b) -> SecondOrder
        The mean loss to second order, which may be a sum over clients on other machines.
    start : ndarray, shape (n_outputs,)
        Where the steps begin.
    ridge : float
        Above 0.
    loss : GLMLoss
        If it does not change when the same number is added to all entries of b, the sum of these is
        that of the start.
    settled : float
        A step below this part of the intercept is the last: its error is about its square.

    Returns
    -------
    tuple of ndarray and SecondOrder
        b, and the last of the mean losses that were computed.
    """
    b = start
    current = at(b)
    moved = np.zeros_like(b)
    before = np.eye(len(b))
    for _ in range(_MOST_STEPS):
        hessian = current.hessian + ridge * np.eye(len(b))
        if loss.has_count_targets and current.gradient[0] < current.hessian[0, 0]:
            step = np.log1p(-current.gradient / current.hessian[0])  # exact, but for the ridge
        else:
            step = -np.linalg.solve(hessian, current.gradient + ridge * b)
        if loss.is_shift_invariant:
            # The gradient has rounding alone along that shift, and the ridge would magnify it.
            step = step - step.mean()
        if np.abs(step).max() <= settled * (1 + np.abs(b - start).max()):
            return b + step, current
        if not loss.has_count_targets:
            step = step * newton_length(moved, before, hessian, step)
        there, following = _damped(at, b, step, current, ridge)
        if following is None:
            break
        moved = there - b
        before = hessian
        b = there
        current = following
    return b, current


def intercept_of_rows(
    loss: GLMLoss, predictions: Array, targets: Array, ridge: float = RIDGE
) -> OwnIntercept:
    """Return `own_intercept` for predictions of any level, as columns in their own units give."""
    level = predictions.mean(axis=0)
    own = own_intercept(loss, predictions - level, targets, ridge)
    return own._replace(values=own.values - level)


def _damped(
    at: Callable[[Array], SecondOrder], b: Array, step: Array, current: SecondOrder, ridge: float
) -> tuple[Array, SecondOrder | None]:
    """Return b after a step that does not raise the objective; None if rounding is left.

    Where the loss is nearly zero its rounding is that of its terms, which are larger: there a step
    that has to be halved, and gains nothing then, is rounding, too.
    """
    height = current.value + ridge * float(b @ b) / 2
    rounding = _ROUNDINGS * np.finfo(np.float64).eps * abs(height)
    for n_halvings in range(_MOST_HALVINGS):
        there = b + step
        following = at(there)
        rise = following.value + ridge * float(there @ there) / 2 - height
        if rise <= rounding:
            is_rounding = n_halvings > 0 and rise >= -rounding
            return (b, None) if is_rounding else (there, following)
        step = step / 2
    return b, None


def _is_determined(hessian: Array, loss: GLMLoss, ridge: float) -> bool:
    """Return whether the rows have curvature in all directions that matter to the loss."""
    eigenvalues = np.linalg.eigvalsh(hessian)[int(loss.is_shift_invariant) :]
    return bool(eigenvalues.min(initial=np.inf) > _LEAST_CURVATURE * ridge)


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
