"""Stage 5 of a fit: Newton steps on the selected features."""

from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._support.warnings import warn_user
from ..shared_support.newton import NewtonOnSupport, SupportState
from ..sparse_model import Array, SparseModel
from .newton_steps import MOST_CYCLES, take_newton_steps
from .selection_path import StandardizedClients, support_state
from .session import NEWTON_STEPS, Session

# An objective that is lower by no more than this number of roundings has not been lowered.
_ROUNDINGS = 4


class RefittedModel(NamedTuple):
    """The model of a fit in common units.

    Attributes
    ----------
    model : SparseModel
        The minimiser on the selected features, or the model without features if the objective of
        that is not higher, but for rounding.
    history : dict of ndarray
        The history of the rounds, with the refit as its last row, whose costs are of the refit
        alone. Objectives are in the units of the data.
    """

    model: SparseModel
    history: dict[str, Array]

    @property
    def objective(self) -> float:
        """The mean loss at the end."""
        return float(self.history["objective"][-1])


def refit_model(
    session: Session,
    clients: StandardizedClients,
    start: SupportState,
    history: dict[str, Array],
    ridge: float,
    polish: bool,
) -> RefittedModel:
    """Return the minimiser on the features of a model.

    Parameters
    ----------
    session : Session
        The fit.
    clients : StandardizedClients
        All rows.
    start : SupportState
        The selected model, from which Newton steps start, or what `first_steps` from it have found.
    history : dict of ndarray
        The history of the rounds; empty if there were none.
    ridge : float
        Weight of half the squared norm of the slopes beside the mean loss.
    polish : bool
        Whether to take steps at all. Without them the model stays as it is, and so does a model
        without features.

    Warns
    -----
    ConvergenceWarning
        If the last step is not short.
    """
    steps = _newton_steps(session, clients, start, ridge, polish)
    unit = clients.units.target_unit**2
    # If there were no rounds, the first row is the start of the refit.
    history = history or {name: column[:1] for name, column in steps.history.items()}
    history = {name: np.append(history[name], steps.history[name][-1]) for name in history}
    history["objective"] *= unit

    eps = float(np.finfo(session.settings.info.dtype).eps)
    before, after = history["objective"][[0, -1]]
    gains_only_rounding = before - after <= _ROUNDINGS * eps * before  # not if one of them is nan
    is_null = gains_only_rounding and not session.settings.always_include
    refitted = clients.null_model if is_null else steps.model
    return RefittedModel(refitted, history)


def _newton_steps(
    session: Session,
    clients: StandardizedClients,
    state: SupportState,
    ridge: float,
    polish: bool,
) -> RefittedModel:
    """Take Newton steps until none moves a coefficient; none at all if the model is to stay."""
    settings = session.settings
    n_features = len(state.model.used_atoms) - settings.n_intercepts
    is_moved = polish and n_features > 0
    if settings.loss.is_quadratic or not is_moved:
        return _with_objectives(session, clients, state, ridge, int(is_moved))

    steps = take_newton_steps(session, clients.transport, state, ridge)
    result = steps.result
    if not steps.has_converged:
        warn_user(
            "the closing exchanges did not converge in "
            f"{MOST_CYCLES * NEWTON_STEPS} Newton steps on {n_features} features; "
            "a smaller C, or fewer features, makes them",
            ConvergenceWarning,
        )
    last = steps.last
    if last is None:
        state = support_state(settings, result.state.model)
        last = float(_with_objectives(session, clients, state, ridge, 0).history["objective"][-1])
    history = {name: column[[0, -1]] for name, column in result.history.items()}
    return RefittedModel(result.state.model, history | {"objective": np.array([steps.first, last])})


def _with_objectives(
    session: Session, clients: StandardizedClients, state: SupportState, ridge: float, rounds: int
) -> RefittedModel:
    """Take one exact Newton step, or none, and ask for the objectives before and after it."""
    settings = session.settings
    n_steps = 1 if settings.loss.is_quadratic else NEWTON_STEPS
    method = NewtonOnSupport(n_steps, ridge, unpenalised=settings.unpenalised)
    result = session.run(method, clients.transport, rounds, state=state)
    return RefittedModel(result.state.model, result.history)
