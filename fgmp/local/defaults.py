"""The solver that a client takes where none is named: the one that its loss asks for."""

from __future__ import annotations

from ..losses import Loss
from .solvers import Exact, GradientDescent, Solver

__all__ = ["solver_for"]

_BY_NAME: dict[str, Solver] = {"exact": Exact(), "damped": GradientDescent(steps=1)}


def solver_for(loss: Loss) -> Solver:
    """The default local solver of a loss, by the name that the loss gives.

    Parameters
    ----------
    loss : Loss
        ``loss.local_solver`` is ``"exact"`` or ``"damped"``.

    Returns
    -------
    Solver
        `Exact()`, or `GradientDescent(steps=1)`: one step, with a line search, in each local iteration.

    Raises
    ------
    ValueError
        Where the loss asks for another.

    Notes
    -----
    A step with a line search lowers f_i or stays, so that it never leaves the sublevel set of f_i where it starts, and
    it needs no learning rate. What decides its number is where the average of the clients goes, measured by
    `tools/local_solvers.py` over 60 rounds (objective at the end and, in brackets, at best; f(0) is 0.693 for the
    logistic loss, 2.30, 1.10 and 1.10 for softmax):

    TABLE

    `Exact` and `Newton` run away wherever a site can separate its rows on 3 tau atoms, and softmax takes them seconds
    to a minute a round. More steps gain a little where rows are many and pay for it where they are few: the sites
    overfit, and their average drifts up again. No number of steps keeps an average of models, cut to tau atoms, below
    f(0) for certain; `simulate` keeps the best model, and says where a run ends above its start.
    """
    if loss.local_solver not in _BY_NAME:
        names = " or ".join(map(repr, _BY_NAME))
        raise ValueError(f"local_solver of {loss!r} is {loss.local_solver!r}; expected {names}")
    return _BY_NAME[loss.local_solver]
