"""Newton's method for small convex problems, whose sums may be asked of clients, several at once.

Problem i is the minimum of a convex f_i over k numbers x_i. With its gradient g_i and its Hessian
H_i at x_i, a step is

    x_i <- x_i - t_i H_i^-1 g_i,

where t_i is `newton_length`, which two Hessians tell, halved as long as some f_i rises. One
evaluation serves all problems, so that over clients a step is one exchange. The steps end when each
promises less than a tolerance: g_i' H_i^-1 g_i, twice what f_i falls by in its quadratic model.

`NewtonOnSupport` is a method and no such function: its loop is that of the rounds, its state can be
saved between any two messages, and it asks the clients whether classes are separated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._support.linear_algebra import inner, newton_length
from ..sparse_model import Array

_MAX_STEPS = 100
_MAX_HALVINGS = 60
# Of one plus the value: a rise by less is rounding, also of sums under masks.
_ROUNDING = 1e-12
# Of a curvature of one.
_LAST_BITS = 64 * float(np.finfo(np.float64).eps)


class SecondOrders(NamedTuple):
    """Values, gradients and Hessians of q functions of k numbers.

    Attributes
    ----------
    values : ndarray, shape (q,)
    gradients : ndarray, shape (q, k)
    hessians : ndarray, shape (q, k, k)
    """

    values: Array
    gradients: Array
    hessians: Array

    def packed(self) -> Array:
        """Return all numbers of each function in a row, as they travel."""
        q = len(self.values)
        return np.column_stack([self.values, self.gradients, self.hessians.reshape(q, -1)])

    @classmethod
    def unpacked(cls, rows: Array, k: int) -> SecondOrders:
        """Return what rows of `packed` stand for."""
        return cls(rows[:, 0], rows[:, 1 : 1 + k], rows[:, 1 + k :].reshape(-1, k, k))


class Minima(NamedTuple):
    """Where the steps have ended.

    Attributes
    ----------
    points : ndarray, shape (q, k)
        The minimisers.
    sums : SecondOrders
        The last that were evaluated, one step before the minimisers that are found.
    is_found : ndarray of bool, shape (q,)
        Whether the steps have converged; not where a function is flat.
    """

    points: Array
    sums: SecondOrders
    is_found: Array


def minimise(
    evaluate: Callable[[Array], SecondOrders],
    start: Array,
    tolerance: float,
    least_curvature: float = 0.0,
) -> Minima:
    """Return the minimisers of q convex functions of k numbers.

    Parameters
    ----------
    evaluate : callable (points) -> SecondOrders
        It may ask clients on other machines.
    start : ndarray, shape (q, k)
        Where the steps begin.
    tolerance : float
        The last steps promise less, in units of the largest curvature if that is above 1. They are
        taken, which squares what is left of the error.
    least_curvature : float, default 0.0
        A function with no more curvature in some direction is flat, and no step is taken for it.
    """
    points = start
    sums = evaluate(points)
    before = sums.hessians
    moved = np.zeros_like(start)
    for _ in range(_MAX_STEPS):
        of_problems = zip(sums.gradients, sums.hessians, before, moved, strict=True)
        found = [_newton_step(*one, tolerance, least_curvature) for one in of_problems]
        steps = np.array([one.step for one in found])
        is_found = np.array([one.is_last for one in found])
        if all(one.is_flat or one.is_last for one in found):
            return Minima(points + steps, sums, is_found)

        reached = _descend(evaluate, points, sums, steps)
        if reached is None:
            break
        before = sums.hessians
        moved = reached[0] - points
        points, sums = reached
    return Minima(points, sums, is_found)


class _NewtonStep(NamedTuple):
    """A step of one problem; whether it is the last one; and whether there is none."""

    step: Array
    is_last: bool
    is_flat: bool


def _newton_step(
    gradient: Array,
    hessian: Array,
    before: Array,
    moved: Array,
    tolerance: float,
    least_curvature: float,
) -> _NewtonStep:
    """Return the step from a gradient and a Hessian, given the last step and the Hessian before."""
    curvatures = np.linalg.eigvalsh(hessian)
    if _is_flat(hessian, curvatures, least_curvature):
        return _NewtonStep(np.zeros_like(gradient), is_last=False, is_flat=True)
    step = np.linalg.solve(hessian, -gradient)
    is_last = -inner(step, gradient) <= tolerance * max(1.0, float(curvatures[-1]))
    length = newton_length(moved, before, hessian, step)
    return _NewtonStep(length * step, is_last, is_flat=False)


def _is_flat(hessian: Array, curvatures: Array, least_curvature: float) -> bool:
    """Return whether a function has no curvature in some direction, in whatever units of it.

    `curvatures` are the eigenvalues of the Hessian, increasing.
    """
    diagonal = hessian.diagonal()
    if diagonal.min() <= least_curvature:
        return True
    least = max(least_curvature, _LAST_BITS)
    if curvatures[0] > least * diagonal.max():  # then units do not matter
        return False
    scale = np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(hessian / scale[:, None] / scale)[0] <= least)


def _descend(
    evaluate: Callable[[Array], SecondOrders], points: Array, sums: SecondOrders, steps: Array
) -> tuple[Array, SecondOrders] | None:
    """Return the points after a step, and the sums there; steps that raise a value are halved."""
    highest = sums.values + _ROUNDING * (1 + np.abs(sums.values))
    for _ in range(_MAX_HALVINGS):
        reached = points + steps
        following = evaluate(reached)
        is_worse = ~(following.values <= highest)
        if not is_worse.any():
            return reached, following
        steps = np.where(is_worse[:, None], steps / 2, steps)
    return None
