"""The closing exchange: solve once more on the support that a run has found, with all clients' data (ours)."""

import warnings
from dataclasses import replace

import numpy as np

from .._support.optional import convergence_warning
from .._support.validation import Seed, check_kind
from .._support.warnings import say_that_nobody_answered
from ..aggregation import Aggregator
from ..callbacks import History
from ..federation import Federation, check_federation
from ..losses import SquaredLoss
from ..simulation import Estimate, Result, simulate_part
from ..sparse_model import SparseModel
from .newton import NewtonOnSupport, SupportSolver, SupportState, solver_in

_TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "rejected")
_CLOSE = 1e-4  # Newton steps have converged where f fell by what the last one promised, but for this share of it,
_NEAR = 0.03  # and where it moved no coefficient by more than this fraction: what is left is squared, a thousandth


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
    """Minimise f = sum_i p_i f_i on the support of a result, by one closing exchange (a few for most losses).

    Parameters
    ----------
    result : Result
        Of any method, run on this federation: the closing exchange is in its dictionary and its ball.
    federation : Federation
    solver : SupportSolver, optional
        How to minimise: `NewtonOnSupport` by default, of one step for the squared loss and five for others. Its radius
        makes a ball where the method has none.
    cohort_size : int or None
        Clients that take part; None is all of them, and then the minimiser is that of the pooled data.
    rng : int, Generator or None
        The seed: of the cohort, and of solvers that draw.
    aggregator : Aggregator, optional
        As in `simulate`.
    history : History, optional
        With the metrics of the run, for the new entry of the history; those not given are nan there.

    Returns
    -------
    Result
        Its history has one more entry, a round later, with the seconds and bytes of the closing exchange added, and its
        `best` is the better of the result's and the polished model.

    Raises
    ------
    ValueError
        Where the support is empty, or something does not fit the federation; where the run recorded no objective, as
        one with noise, for the sums of a closing exchange are exact.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning, or RuntimeWarning if scikit-learn is not installed
        Where Newton steps end before they have converged.

    Notes
    -----
    Where the last model is above the start, the support is that of `result.best`; where nothing on record is better
    than the zero model, the closing exchange starts from zero on the support of the last one: Newton steps do not lead
    back from where a loss is saturated. Atoms that the method's selection always holds belong to the support.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, noise_variance=0.01, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> better = fgmp.polish(result, federation)
    >>> federation.objective(better.x) < federation.objective(result.x), list(better.support) == list(result.support)
    (True, True)
    """
    check_kind("result", result, Result, "a Result, as simulate returns it")
    check_federation("federation", federation)
    if "objective" not in result.history:
        found = "result is of a run with noise, or with objective_on=0"
        raise ValueError(
            f"{found}; expected one that recorded objectives, for polish adds exact sums"
        )
    objective, start = result.history["objective"], SparseModel.of(result.coefficients)
    if not objective[-1] <= objective[0]:
        lowest = SparseModel.of(result.best.coefficients)
        start = (
            lowest if lowest.support.size else replace(start, values=np.zeros_like(start.values))
        )
    method = result.method
    shape = federation.loss.model_shape(method.dictionary.n_atoms(federation.n_features))
    if start.shape != shape:
        raise ValueError(f"result has coefficients of shape {start.shape}; expected {shape}")
    support = method.selection.add_always_included(start.support, shape)
    start = SparseModel(support, start.on(support), shape)
    if not start.support.size:
        raise ValueError("result has an empty support; expected at least one nonzero coefficient")
    if solver is None:
        solver = NewtonOnSupport(1 if isinstance(federation.loss, SquaredLoss) else 5)
    own = solver.radius if isinstance(solver, SupportSolver) else None
    radius = own if method.radius is None else method.radius
    closing = solver_in(method.dictionary, radius, solver)
    recorded = History(
        metrics=history.metrics if history else {}, objective_on=result.objective_on.tolist()
    )
    # In silence: the run itself has said what there was to say.
    options = {"aggregator": aggregator, "history": recorded, "state": SupportState(start)}
    closed = simulate_part(closing, federation, 1, cohort_size, rng, **options)
    if not closed.history["clients"][-1]:
        say_that_nobody_answered("polish", 1, closed.rejected)
    before, after = closed.history["objective"]
    missed, scale = closed.state.missed, max(abs(after), 1e-6 * abs(before))
    moved = closed.state.moved
    if (missed > _CLOSE * scale or moved > _NEAR) and radius is None:
        warnings.warn(
            f"polish ended with {solver!r} before it had converged: the last step missed what it promised by "
            f"{missed / scale:.2g} of the objective and moved a coefficient by {moved:.2g} of it; try "
            "solver=NewtonOnSupport(steps=20), or a ridge or a radius where rows can be separated",
            convergence_warning(),
            stacklevel=2,
        )
    ends = {
        name: closed.history[name][-1] if name in closed.history else np.nan
        for name in result.history
    }
    ends |= {name: result.history[name][-1] + closed.history[name][-1] for name in _TOTALS}
    joined, best = (
        {name: np.append(column, ends[name]) for name, column in result.history.items()},
        result.best,
    )
    if after < best.value or np.isnan(best.value):
        best = Estimate(
            closed.x, closed.support, closed.coefficients, int(joined["round"][-1]), float(after)
        )
    return replace(closed, history=joined, seed=result.seed, best=best)
