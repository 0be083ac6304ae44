"""What a run says at its end: that it rose, or that nothing keeps its coefficients from growing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..advice import RisingObjectiveWarning, SeparationWarning, advise
from ..federation import Client
from ..losses import misclassified
from ..methods.contract import Method
from ..methods.fedgradmp import FedGradMP
from ..methods.shared_support import SharedSupportGradMP
from ..models import Array, SparseModel
from .books import History

__all__ = ["advise_at_the_end", "is_above_its_start"]

# A run has risen where it gave back more than this share of what it had gained.
_SHARE = 0.1
_ROUNDING = 1e-6
# Values of an objective that differ by no more than this share of the zero model's are taken for the same.
_EQUAL = 1e-9


def advise_at_the_end(
    method: Method, clients: Sequence[Client], coefficients: Array, history: History, returns_best: bool
) -> None:
    """Warn where a run ends well above its best model, and where the model leaves no row on the wrong side.

    Parameters
    ----------
    method : Method
    clients : sequence of Client
        Prepared: those whose objective is recorded; empty where they are elsewhere, and nothing is known of their rows.
    coefficients : ndarray
        Of the last model.
    history : dict of ndarray
    returns_best : bool
        Whether the result's x is the best model in place of the last.
    """
    objective = history["objective"]
    if np.isnan(objective).all():  # nobody says it
        return
    if has_risen(objective) and has_risen(objective, _scale(clients, coefficients)):
        with np.errstate(invalid="ignore"):
            low = int(np.nanargmin(objective))
        above = "" if objective[-1] <= objective[0] else f", above the {objective[0]:.3g} of the start"
        kept = ", which is result.x too" if returns_best else ""
        advise(
            f"the objective of {type(method).__name__} ends at {objective[-1]:.3g}{above}; it was {objective[low]:.3g} "
            f"in round {history['round'][low]}, and result.best keeps the best model{kept}. What helps: smaller or "
            "fewer local steps (learning_rate, local_iterations, solver=None), a radius, an earlier stop "
            "(stop_when_stalled)",
            RisingObjectiveWarning,
        )
    elif clients and _is_unbounded(method) and len(objective) > 1 and separates(clients, coefficients):
        advise(
            f"the model of {type(method).__name__} classifies all rows without error: its loss has no minimiser, "
            "and coefficients grow with every round; a radius bounds them",
            SeparationWarning,
        )


def _is_unbounded(method: Method) -> bool:
    """Whether a method goes for the minimiser, with neither a ball nor a ridge."""
    ours = isinstance(method, (FedGradMP, SharedSupportGradMP)) and method.radius is None
    return ours and not getattr(getattr(method, "solver", None), "ridge", 0.0)


def _scale(clients: Sequence[Client], coefficients: Array) -> float:
    """The objective of the zero model, over the clients alike: the scale of a rise after a warm start."""
    zero = np.zeros_like(coefficients)
    return float(np.mean([client.objective(zero) for client in clients])) if clients else 0.0


def is_above_its_start(clients: Sequence[Client], coefficients: Array, objective: Array) -> bool:
    """Whether a run ended with an objective above its first, or not finite; False where nobody says the first.

    Parameters
    ----------
    clients, coefficients
        As in `advise_at_the_end`.
    objective : ndarray
        A column of the history.
    """
    first, last = objective[0], objective[-1]
    if not np.isfinite(first) or last <= first:
        return False
    return not last - first <= _EQUAL * max(abs(first), _scale(clients, coefficients))


def has_risen(objective: Array, scale: float = 0.0) -> bool:
    """Whether the last value is above the first, or gave back a tenth of what had been gained.

    Rounding is what is below a millionth of the first value, or of `scale`.
    """
    first, last = objective[0], objective[-1]
    if not np.isfinite(last):
        return True
    low = objective[np.isfinite(objective)].min()
    return bool(last - low > max(_SHARE * (first - low), _ROUNDING * max(abs(first), scale)))


def separates(clients: Sequence[Client], coefficients: Array) -> bool:
    """Whether a model has every row of every client on the right side; False for losses without sides."""
    wrong, model = misclassified(clients[0].loss), SparseModel.of(coefficients)
    if wrong is None:
        return False
    return all(not wrong(client.predictions(model), client.targets).any() for client in clients)
