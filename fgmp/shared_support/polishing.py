"""Refit on the support of a result: minimise once more on it, with the data of all clients."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .._support.displays import HistoryTable
from .._support.validation import Seed, check_kind
from .._support.warnings import convergence_warning, warn_of_no_answers
from ..aggregation import Aggregator
from ..data import Federation, check_federation
from ..recording import History, RecordedModel, Result
from ..simulation import simulate_part
from ..sparse_model import Array, SparseModel
from .newton import (
    NewtonOnSupport,
    SupportSolver,
    SupportState,
    check_support_solver,
    with_geometry,
)

_TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "rejected")

# Newton steps have converged if f fell by what the last one promised, but for this share of f,
_MOST_MISSED = 1e-4
# and if it moved no coefficient by more than this fraction: the error is its square, a thousandth.
_MOST_MOVED = 0.03


def polish(
    result: Result,
    federation: Federation,
    *,
    solver: SupportSolver | None = None,
    cohort_size: int | None = None,
    rng: Seed = 0,
    aggregator: Aggregator | None = None,
    history: History | None = None,
) -> Result:
    """Minimise f = sum_i p_i f_i on the support of a result, in one refit of a round.

    The refit takes one exchange for the squared loss, and a few for most other losses.

    Parameters
    ----------
    result : Result
        Of any method, run on this federation. The refit is in its dictionary and its ball.
    federation : Federation
    solver : SupportSolver, optional
        How to minimise: `NewtonOnSupport` by default, with one step for the squared loss and five
        for others. Its radius makes a ball if the method has none.
    cohort_size : int or None
        The number of clients that take part. None is all of them; then the minimiser is that of the
        pooled data.
    rng : int, Generator or None
        The seed of the cohort, and of solvers that draw.
    aggregator : Aggregator, optional
        As in `simulate`.
    history : History, optional
        With the metrics of the run, for the new entry of the history. Metrics that it lacks are nan
        there.

    Returns
    -------
    Result
        Its history has one more entry, a round later, with the seconds and bytes of the refit
        added. Its `best` is the better of the result's best and the polished model.

    Raises
    ------
    ValueError
        If the support is empty, or something does not fit the federation. If the run recorded no
        objective, as one with noise, because the sums of a refit are exact.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning, or RuntimeWarning if scikit-learn is not installed
        If Newton steps end before they have converged.

    Notes
    -----
    If the last model is above the start, the support is that of `result.best`. If nothing on record
    is better than the zero model, the refit starts from zero on the support of the last model,
    because Newton steps do not lead back from where a loss is saturated. Atoms that the method's
    selection always holds belong to the support.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(
    ...     n_clients=5, n_features=200, sparsity=4, noise_variance=0.01, rng=0
    ... )
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> better = fgmp.polish(result, federation)
    >>> federation.objective(better.x) < federation.objective(result.x)
    True
    >>> list(better.support) == list(result.support)
    True
    """
    check_kind("result", result, Result, "a Result, as simulate returns it")
    check_federation("federation", federation)
    if "objective" not in result.history:
        raise ValueError(
            "result is of a run with noise, or with objective_on=0; expected one that recorded "
            "objectives, for polish adds exact sums"
        )
    start = _start(result, federation)
    if solver is None:
        solver = NewtonOnSupport(1 if federation.loss.is_quadratic else 5)
    check_support_solver(solver)
    radius = solver.radius if result.method.radius is None else result.method.radius
    refit_method = with_geometry(solver, result.method.dictionary, radius)
    recorded = History(
        metrics=history.metrics if history else {}, objective_on=result.objective_on.tolist()
    )
    # `simulate_part` gives no advice: the run itself has given it.
    options: dict[str, Any] = {"aggregator": aggregator, "history": recorded}
    options["state"] = SupportState(start)
    refit = simulate_part(refit_method, federation, 1, cohort_size, rng, **options)

    if not refit.history["clients"][-1]:
        expected = str(refit_method.exchanges()[0].update_spec(refit.state))
        warn_of_no_answers("polish", 1, refit.rejected, expected)
    if radius is None:
        _warn_unless_converged(refit, solver)
    joined = _joined_history(result, refit)
    value = float(refit.history["objective"][-1])
    best = result.best
    if value < best.value or np.isnan(best.value):
        last_round = int(joined["round"][-1])
        best = RecordedModel(refit.x, refit.support, refit.coefficients, last_round, value)
    return replace(refit, history=HistoryTable(joined), seed=result.seed, best=best)


def _start(result: Result, federation: Federation) -> SparseModel:
    """Return the model on whose support to minimise, and from which."""
    objective = result.history["objective"]
    model = SparseModel.of(result.coefficients)
    if not objective[-1] <= objective[0]:
        best = SparseModel.of(result.best.coefficients)
        model = best if best.support.size else replace(model, values=np.zeros_like(model.values))

    method = result.method
    shape = federation.loss.model_shape(method.dictionary.n_atoms(federation.n_features))
    if model.shape != shape:
        raise ValueError(f"result has coefficients of shape {model.shape}; expected {shape}")
    support = method.selection.add_always_included(model.support, shape)
    if not support.size:
        raise ValueError("result has an empty support; expected at least one nonzero coefficient")
    return SparseModel(support, model.on(support), shape)


def _warn_unless_converged(refit: Result, solver: SupportSolver) -> None:
    """Warn if the last Newton step missed what it promised, or still moved a coefficient."""
    before, after = refit.history["objective"]
    scale = max(abs(after), 1e-6 * abs(before))
    missed = refit.state.missed
    moved = refit.state.moved
    has_converged = not (missed > _MOST_MISSED * scale or moved > _MOST_MOVED)
    if has_converged:
        return
    warnings.warn(
        f"polish ended with {solver!r} before it had converged: the last step missed what it "
        f"promised by {missed / scale:.2g} of the objective and moved a coefficient by "
        f"{moved:.2g} of it; try solver=NewtonOnSupport(steps=20), or a ridge or a radius where "
        "rows can be separated",
        convergence_warning(),
        stacklevel=3,
    )


def _joined_history(result: Result, refit: Result) -> dict[str, Array]:
    """Return the history of a result with one more entry, that of the refit; totals add up."""
    joined = {}
    for name, column in result.history.items():
        last = refit.history[name][-1] if name in refit.history else np.nan
        if name in _TOTALS:
            last = column[-1] + last
        joined[name] = np.append(column, last)
    return joined
