"""The closing exchange: solve once more on the support that a run has found, with all clients' data (ours).

`polish` serves the result of any method, and appends what it cost to the history.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..advice import quiet
from ..checks import Seed, check_array, check_kind, check_mapping, check_real, settle_number, shown
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Federation, check_federation
from ..losses import SquaredLoss
from ..methods.contract import Exchange
from ..methods.in_dictionary import InDictionary
from ..methods.pooled import Point, PooledSolver, Unfinished, check_pooled_solver
from ..methods.pooled_least_squares import NormalEquations
from ..methods.pooled_newton import PooledNewton
from ..models import Array, SparseModel
from ..shapes import Shaped
from .books import Metric
from .results import Best, Estimate, Result, whole
from .simulation import simulate

__all__ = ["OnSupport", "polish", "with_closing_round"]

_TOTALS = ("round", "seconds", "bytes_up", "bytes_down")


def polish(
    result: Result,
    federation: Federation,
    *,
    dictionary: StandardBasis | None = None,
    solver: PooledSolver | None = None,
    radius: float | None = None,
    cohort_size: int | None = None,
    rng: Seed = 0,
    metrics: Mapping[str, Metric] | None = None,
) -> Result:
    """Minimise f = sum_i p_i f_i on the support of a result, by one closing exchange (a few for most losses).

    Parameters
    ----------
    result : Result
        Of any method, run on this federation.
    federation : Federation
    dictionary : StandardBasis or Dictionary, optional
        The one the method was run with; the standard basis by default.
    solver : PooledSolver, optional
        How to minimise: `NormalEquations` for the squared loss and `PooledNewton` for others by default.
    radius : float or None
        R, the radius of a ball; None is no ball.
    cohort_size : int or None
        Clients that take part; None is all of them, and then the minimiser is that of the pooled data.
    rng : int, Generator or None
        The seed: of the cohort, and of solvers that draw.
    metrics : mapping of str to callable, optional
        The metrics of the run, for the new entry of the history; those not given are nan there.

    Returns
    -------
    Result
        Its history has one more entry, a round later, with the seconds and bytes of the closing exchange added, and its
        `best` is the better of the result's and the polished model, by the same column.

    Raises
    ------
    ValueError
        Where the support is empty, or something does not fit the federation; where the result is of a run with noise,
        for the sums of a closing exchange are exact.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        Where `PooledNewton` ends before it has converged.

    Notes
    -----
    Where nothing that the run recorded is better than the zero model, the closing exchange starts from zero on the
    support of its last estimate: Newton steps do not lead back from where a loss is saturated.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, noise_variance=0.01, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> better = fgmp.polish(result, federation)
    >>> federation.objective(better.x) < federation.objective(result.x)
    True
    >>> better.support.tolist() == result.support.tolist()
    True
    """
    _check_result(result)
    check_federation("federation", federation)
    default = NormalEquations() if isinstance(federation.loss, SquaredLoss) else PooledNewton()
    start = SparseModel.of(np.asarray(result.coefficients))
    if not start.support.size:
        last = SparseModel.of(np.asarray(result.last.coefficients))
        start = replace(last, values=np.zeros_like(last.values))
    basis = StandardBasis() if dictionary is None else check_dictionary(dictionary)
    method = OnSupport(start, default if solver is None else solver, basis, radius)
    with quiet():  # the run itself has said what there was to say
        clients = result.objective_on
        closed = whole(simulate(method, federation, 1, cohort_size, rng, metrics=metrics, objective_on=clients))
    _say_where_it_did_not_converge(method.solver, closed.state.memory)
    history = with_closing_round(result.history, closed.history)
    ends = closed.last._asdict()  # whatever it started from, which may lie outside of the ball
    closed = replace(closed, **ends, history=history, seed=result.seed)
    return replace(closed, best=_better(result.best, closed, history))


@dataclass(frozen=True)
class OnSupport(InDictionary):
    """A method of one round that keeps its support, which may hold coefficients that are zero at the start."""

    model: SparseModel
    solver: PooledSolver
    dictionary: StandardBasis
    radius: float | None = None

    def __post_init__(self) -> None:
        settle_number(self, "radius", optional=True, above=0)
        check_pooled_solver(self.solver)

    def check(self, federation: Shaped) -> None:
        """The coefficients fit the federation."""
        shape = self.shape(federation)
        if self.model.shape != shape:
            raise ValueError(f"result has coefficients of shape {self.model.shape}; expected {shape}")
        self.solver.check(federation)

    def start(self, federation: Shaped) -> Point:
        """The model of the result."""
        return Point(self.model)

    def exchanges(self) -> Sequence[Exchange]:
        """Those of `solver`."""
        return self.solver.exchanges(self.dictionary, self.radius)

    def coefficients(self, state: Point) -> Array:
        """alpha, dense."""
        return self.dictionary.into_ball(state.model, self.radius).dense()


def _check_result(result: Any) -> None:
    """What polish needs of a result, which anyone can make or change."""
    check_kind("result", result, Result, "a Result, as simulate returns it")
    if "epsilon" in result.history:
        raise ValueError("result is of a run with noise, and polish adds exact sums; expected one without epsilon")
    last = check_kind("result.last", result.last, Estimate, "the last Estimate of a run")
    found = check_array("result.coefficients", result.coefficients)
    if not np.any(found) and not np.any(check_array("result.last.coefficients", last.coefficients)):
        raise ValueError("result has an empty support; expected at least one nonzero coefficient")
    columns = check_mapping("result.history", result.history, "columns by their names")
    lengths = {name: check_real("result.history", column).shape for name, column in columns.items()}
    if len(set(lengths.values())) != 1 or any(len(shape) != 1 or not shape[0] for shape in lengths.values()):
        raise ValueError(f"result.history has columns of shapes {shown(lengths)}; expected an entry for each round")
    best = check_kind("result.best", result.best, Best, "the Best of a run")
    if check_real("result.best.value", best.value).ndim:
        raise ValueError(f"result.best.value is {shown(best.value)}; expected a number")
    column = check_kind("result.best.column", best.column, str, "the name of a column of the history")
    missing = [name for name in (*_TOTALS, "objective", column) if name not in columns]
    if missing:
        raise ValueError(f"result.history has no {shown(missing[0])}; expected the columns of a run")


def _say_where_it_did_not_converge(solver: PooledSolver, memory: Any) -> None:
    if isinstance(memory, Unfinished):
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"polish ended with {solver!r} before it had converged: the last step missed what it promised by "
            f"{memory.missed:.2g}, of an objective of {memory.objective:.3g}; try "
            "solver=PooledNewton(steps=20), or a ridge or a radius where rows can be separated",
            ConvergenceWarning,
            stacklevel=3,
        )


def _better(best: Best, closed: Result, history: dict[str, Array]) -> Best:
    """The polished model where it is better by the column of the result's best."""
    value = float(history[best.column][-1])
    if value >= best.value or np.isnan(value):
        return best
    return Best(closed.x, closed.support, closed.coefficients, int(history["round"][-1]), value, best.column)


def with_closing_round(history: dict[str, Array], closing: dict[str, Array]) -> dict[str, Array]:
    """The history with the last entry of the closing exchange appended."""
    ends = {name: closing[name][-1] if name in closing else np.nan for name in history}
    ends |= {name: history[name][-1] + closing[name][-1] for name in _TOTALS}
    return {name: np.append(column, ends[name]) for name, column in history.items()}
