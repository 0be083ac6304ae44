"""Newton steps of a fit, which end as soon as they have converged."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._support.linear_algebra import inner, newton_length
from ..method import Exchange, Transport
from ..recording import History, Result, Run
from ..shared_support.newton import (
    SETTLED,
    NewtonOnSupport,
    NewtonStep,
    Separated,
    State,
    SupportState,
)
from ..sparse_model import Array
from .session import NEWTON_STEPS, Session

# Of `NEWTON_STEPS` steps each.
MOST_CYCLES = 12
# Of a standard error. The error that is left is about the square of the last step.
CONVERGED = 1e-5
# The slowest fold and the scores take about as many messages more than the path of all rows.
_FIRST_STEPS = 2
# Of the curvature at the start. If a direction has less of it left, rows are so far ahead, some 23
# units of log-odds, that solving for a step takes the direction for one without curvature. Then
# separated rows do not move any more. (Of some 300 tables that are not separated two lost more:
# their models are finite only because rows that are 30 ahead, and more, are against each other.)
_VANISHED = 1e-10
# Of the largest eigenvalue, with columns scaled to curvature one: columns that depend on others
# have no curvature at all.
_NEGLIGIBLE = 1e-9


class NewtonSteps(NewtonOnSupport):
    """`NewtonOnSupport` with one exchange in a round: a callback may end it after any of them.

    With a ridge a step has the `newton_length` that follows from the last one, without further
    sums. Without one, classes may be separated: longer steps would reach the flat end of the loss
    before anything shows it.
    """

    def exchanges(self) -> Sequence[Exchange]:
        """Return the exchange of one step."""
        return super().exchanges()[:1]

    def _accepted(self, state: State, value: float, newton: NewtonStep, is_lost: bool) -> State:
        """Return the state with the model as the best so far, and the step to try from it."""
        after = super()._accepted(state, value, newton, is_lost)
        if self.ridge == 0 or state.best is None or state.curvature is None:
            return after
        moved = state.model.values - state.best.values
        length = newton_length(moved, state.curvature, newton.hessian, after.step)
        return replace(after, step=length * after.step)


class NewtonRun(NamedTuple):
    """Newton steps for a loss that is not quadratic.

    Attributes
    ----------
    result : Result
        Without objectives in its history.
    has_converged : bool
        Whether the last step was short enough.
    first : float
        The mean loss of the model that the steps start from, or of the best one of `first_steps`.
    last : float or None
        The mean loss of the last model, where the last step has converged: lower than that before
        the step by what the quadratic model promises. None where it has not.
    """

    result: Result
    has_converged: bool
    first: float
    last: float | None


def take_newton_steps(
    session: Session,
    clients: Transport,
    state: SupportState,
    ridge: float,
    tolerance: float = CONVERGED,
) -> NewtonRun:
    """Take Newton steps until one moves hardly anything; no objective is asked for beside them.

    Without a ridge one more exchange after each `NEWTON_STEPS` compares the objectives. After
    `MOST_CYCLES` times that the steps end in any case.

    Parameters
    ----------
    session : Session
        The fit.
    clients : Transport
        The rows, in common units.
    state : SupportState
        The start, or what `first_steps` from there has found.
    ridge : float
        Weight of half the squared norm of the slopes beside the mean loss.
    tolerance : float
        The longest last step, in standard errors.

    Raises
    ------
    Separated
        If there is no ridge, and the loss has no minimiser.
    """
    method = _method(session, ridge)
    n = session.settings.n_counted
    starts = [] if state.curvature is None else [state]

    def is_over(run: Run) -> bool:
        after = run.progress.state
        if run.progress.round == 1 and not starts:
            starts.append(after)
        return _has_converged(after, ridge, n, tolerance) or run.progress.n_participants == 0

    result = session.run(
        method,
        clients,
        MOST_CYCLES * (NEWTON_STEPS + 1),
        state=state,
        history=History(objective_on=0),
        stops=is_over,
    )
    end = result.state
    has_converged = _has_converged(end, ridge, n, tolerance)
    # Where a client lacks a class, its own intercept leaves directions without any curvature, in
    # which no row is ahead.
    may_vanish = ridge == 0 and not session.settings.intercept_per_client
    if may_vanish and end.curvature is not None:
        _refuse_vanished(np.asarray(starts[0].curvature), np.asarray(end.curvature))

    last = None
    if has_converged and end.done > 0:
        promised = inner(end.step, end.curvature @ end.step) / 2
        last = end.value - promised - method.penalty(end.model)
    first = starts[0].value - method.penalty(starts[0].best_model)
    return NewtonRun(result, has_converged, first, last)


def first_steps(
    session: Session, clients: Transport, state: SupportState, ridge: float
) -> SupportState:
    """Return the state after the first `_FIRST_STEPS` exchanges of `take_newton_steps`."""
    method = _method(session, ridge)
    history = History(objective_on=0)
    after: SupportState = session.run(
        method, clients, _FIRST_STEPS, state=state, history=history
    ).state
    return after


def _method(session: Session, ridge: float) -> NewtonSteps:
    """Return the steps for a ridge.

    Without one an exchange after each `NEWTON_STEPS` asks whether classes are separated.
    """
    n_steps = NEWTON_STEPS if ridge == 0 else MOST_CYCLES * NEWTON_STEPS
    return NewtonSteps(n_steps, ridge, unpenalised=session.settings.unpenalised)


def _has_converged(state: SupportState, ridge: float, n: float, tolerance: float) -> bool:
    """Return whether the last Newton step was short, for n rows.

    The unit is the standard error, of whichever combination of the coefficients the step is most of
    its own of: that is the Newton decrement of the sum of n losses. Rows that are separated have
    standard errors without bound. Therefore coefficients that have no ridge may not move by much of
    themselves, either. Steps that are rounding are short. Before any client has answered there is
    no step.
    """
    if state.curvature is None:
        return False
    if ridge == 0 and state.moved > SETTLED:
        return False
    return state.moved == 0 or _decrement(state) * n**0.5 <= tolerance


def _decrement(state: SupportState) -> float:
    """Return the length of the whole Newton step, in the metric of the curvature."""
    squared = inner(state.step, np.asarray(state.curvature) @ state.step)
    return float(max(squared, 0.0) ** 0.5 / state.damping)


def _refuse_vanished(start: Array, end: Array) -> None:
    """Raise `Separated` if some direction has lost its curvature on the way."""
    scale = np.sqrt(np.maximum(start.diagonal(), 0))
    scale[scale == 0] = np.inf
    values, vectors = np.linalg.eigh(start / scale[:, None] / scale)
    held = values > _NEGLIGIBLE * values.max(initial=0)
    frame = vectors[:, held] / np.sqrt(values[held]) / scale[:, None]
    if np.linalg.eigvalsh(frame.T @ end @ frame).min(initial=np.inf) < _VANISHED:
        raise Separated(
            f"the curvature on the {len(end)} coefficients of the support vanishes, so the loss "
            "has no minimiser there; expected a ridge above 0",
            in_part=True,
        )
