"""The closing exchange: solve once more on the support that a run has found, with all clients' data (ours)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..advice import quiet
from ..checks import Seed, check_kind, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Federation, check_federation
from ..losses import SquaredLoss
from ..models import Array, SparseModel
from ..rounds import Exchange, Method, Reducer
from ..shapes import Shape
from ..simulation import Result, simulate, whole
from ..watching import History
from .support_solvers import NewtonOnSupport, Point, SupportSolver, check_support_solver

_TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "left_out")


def polish(
    result: Result,
    federation: Federation,
    *,
    dictionary: StandardBasis | None = None,
    solver: SupportSolver | None = None,
    radius: float | None = None,
    cohort_size: int | None = None,
    rng: Seed = 0,
    reduce: Reducer | None = None,
    history: History | None = None,
) -> Result:
    """Minimise f = sum_i p_i f_i on the support of a result, by one closing exchange (a few for most losses).

    Parameters
    ----------
    result : Result
        Of any method, run on this federation.
    federation : Federation
    dictionary : StandardBasis or Dictionary, optional
        The one the method was run with; the standard basis by default.
    solver : SupportSolver, optional
        How to minimise: `NewtonOnSupport` by default, of one step for the squared loss and five for others.
    radius : float or None
        R, the radius of a ball; None is no ball.
    cohort_size : int or None
        Clients that take part; None is all of them, and then the minimiser is that of the pooled data.
    rng : int, Generator or None
        The seed: of the cohort, and of solvers that draw.
    reduce : Reducer, optional
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
        Where the support is empty, or something does not fit the federation; where the result is of a run with noise,
        for the sums of a closing exchange are exact, or of one that asked nobody for an objective.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        Where Newton steps end before they have converged.

    Notes
    -----
    Where the last model is above the start, the support is that of `result.best`; where nothing on record is better
    than the zero model, the closing exchange starts from zero on the support of the last one: Newton steps do not lead
    back from where a loss is saturated.

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
    check_kind("result", result, Result, "a Result, as simulate returns it")
    check_federation("federation", federation)
    if "objective" not in result.history:
        found = "result is of a run with noise, or with objective_on=0"
        raise ValueError(f"{found}; expected one that recorded objectives, for polish adds exact sums")
    objective = result.history["objective"]
    ended = result if objective[-1] <= objective[0] else result.best
    start = SparseModel.of(np.asarray(ended.coefficients))
    if not start.support.size:
        last = SparseModel.of(np.asarray(result.coefficients))
        start = replace(last, values=np.zeros_like(last.values))
    if not start.support.size:
        raise ValueError("result has an empty support; expected at least one nonzero coefficient")
    default = NewtonOnSupport(1 if isinstance(federation.loss, SquaredLoss) else 5)
    basis = StandardBasis() if dictionary is None else check_dictionary(dictionary)
    method = OnSupport(start, default if solver is None else solver, basis, radius)
    recorded = History(metrics={} if history is None else history.metrics, objective_on=result.objective_on.tolist())
    with quiet():  # the run itself has said what there was to say
        closed = whole(simulate(method, federation, 1, cohort_size, rng, reduce=reduce, history=recorded))
    if closed.state.missed is not None:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"polish ended with {method.solver!r} before it had converged: the last step missed what it promised by "
            f"{closed.state.missed:.2g} of the objective; try solver=NewtonOnSupport(steps=20), or a ridge or a radius "
            "where rows can be separated",
            ConvergenceWarning,
            stacklevel=2,
        )
    joined = with_closing_round(result.history, closed.history)
    value, number = float(closed.history["objective"][-1]), int(joined["round"][-1])
    best = result.best
    if value < best.value or not best.value == best.value:
        best = type(best)(closed.x, closed.support, closed.coefficients, number, value)
    return replace(closed, history=joined, seed=result.seed, best=best)


@dataclass(frozen=True)
class OnSupport(Method):
    """A method of one round that keeps its support, which may hold coefficients that are zero at the start."""

    model: SparseModel
    solver: SupportSolver
    dictionary: StandardBasis
    radius: float | None = None

    def __post_init__(self) -> None:
        settle_number(self, "radius", optional=True, above=0)
        check_support_solver(self.solver)

    def check(self, shape: Shape) -> None:
        """The coefficients fit the federation."""
        if self.model.shape != shape.model_shape:
            raise ValueError(f"result has coefficients of shape {self.model.shape}; expected {shape.model_shape}")
        self.solver.check(shape)

    def start(self, shape: Shape) -> Point:
        """The model of the result."""
        return Point(self.model)

    def exchanges(self) -> Sequence[Exchange]:
        """Those of `solver`."""
        step = Exchange(
            self.solver.ask,
            lambda client, message, rng: self.solver.answer(client, message, rng, self.atoms),
            lambda point, mean: self.solver.update(point, mean, self.atoms, self.radius),
            self.solver.form,
        )
        return [step] * self.solver.n_exchanges

    def coefficients(self, state: Point) -> SparseModel:
        """alpha."""
        return self.dictionary.into_ball(state.model, self.radius)


def with_closing_round(history: dict[str, Array], closing: dict[str, Array]) -> dict[str, Array]:
    """The history with the last entry of the closing exchange appended."""
    ends = {name: closing[name][-1] if name in closing else np.nan for name in history}
    ends |= {name: history[name][-1] + closing[name][-1] for name in _TOTALS}
    return {name: np.append(column, ends[name]) for name, column in history.items()}
