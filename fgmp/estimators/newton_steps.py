"""Newton steps of a fit, which end as soon as they have converged."""

from collections.abc import Sequence
from typing import NamedTuple

from .._support.linear_algebra import inner
from ..method import Exchange, Transport
from ..recording import History, Result, Run
from ..shared_support.newton import SETTLED, NewtonOnSupport, SupportState
from ..sparse_model import SparseModel
from .session import NEWTON_STEPS, Session

# Of a coefficient: after a step that moved none further, the error is about the square of this.
_CONVERGED = 1e-5


class NewtonSteps(NewtonOnSupport):
    """`NewtonOnSupport` with one exchange in a round: a callback may end it after any of them."""

    def exchanges(self) -> Sequence[Exchange]:
        """Return the exchange of one step."""
        return super().exchanges()[:1]


class NewtonRun(NamedTuple):
    """Newton steps for a loss that is not quadratic.

    Attributes
    ----------
    result : Result
        Without objectives in its history.
    first : float
        The mean loss of the model before the steps, which the first exchange sums.
    last : float or None
        The mean loss of the last model, where the last step has converged: lower than that before
        the step by what the quadratic model promises. None where it has not.
    """

    result: Result
    first: float
    last: float | None


def take_newton_steps(
    session: Session, clients: Transport, state: SupportState, ridge: float, most_exchanges: int
) -> NewtonRun:
    """Take Newton steps until one moves hardly anything; no objective is asked for beside them.

    Parameters
    ----------
    session : Session
        The fit.
    clients : Transport
        The rows, in common units.
    state : SupportState
        The start.
    ridge : float
        Weight of half the squared norm of the coefficients beside the mean loss.
    most_exchanges : int
        After this number of exchanges the steps end in any case. After each `NEWTON_STEPS` of them,
        one more compares the objectives.
    """
    first_values = []

    def is_over(run: Run) -> bool:
        after = run.progress.state
        if run.progress.round == 1:
            first_values.append(after.value)
        has_ended_cycle = after.done == 0
        has_converged = after.moved <= (SETTLED if has_ended_cycle else _CONVERGED)
        return has_converged or run.progress.clients == 0

    result = session.run(
        NewtonSteps(NEWTON_STEPS, ridge),
        clients,
        most_exchanges,
        state=state,
        history=History(objective_on=0),
        callbacks=is_over,
    )
    last = None
    if result.state.done > 0 and result.state.moved <= _CONVERGED:
        step = result.state.step
        promised = inner(step, result.state.curvature @ step) / 2
        last = result.state.value - promised - _penalty(result.state.model, ridge)
    return NewtonRun(result, first_values[0] - _penalty(state.model, ridge), last)


def _penalty(model: SparseModel, ridge: float) -> float:
    """Return the ridge times half the squared norm of the coefficients."""
    return ridge / 2 * inner(model.values, model.values)
