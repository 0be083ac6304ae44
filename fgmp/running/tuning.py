"""A grid search that gives every method the same budget and keeps every curve."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..advice import AdviceWarning
from ..checks import Seed, check_integer, check_seed
from ..federation import Federation
from ..methods.contract import Method
from .books import History, column_of
from .simulation import simulate

__all__ = ["Trial", "Tuning", "tune"]

_DIVERGED = 10.0


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of a grid.

    Attributes
    ----------
    parameters : dict
        What `make_method` was called with.
    method : Method
        What it returned.
    histories : tuple of dict
        The history of each run, one per federation.
    score : float
        Median over the runs of the last value of the column judged; infinite where a run diverged.
    diverged : bool
        Whether a run ended with a value that is not finite or above ten times the one it started from (unless that was
        zero, which says nothing about the scale), or had a round in which no client's answer was finite.
    """

    parameters: dict[str, Any]
    method: Method
    histories: tuple[History, ...]
    score: float
    diverged: bool


@dataclass(frozen=True, eq=False)
class Tuning:
    """What `tune` found.

    Attributes
    ----------
    trials : tuple of Trial
        All candidates, in the order of the grid.
    column : str
        The column of the history that judged them.
    """

    trials: tuple[Trial, ...]
    column: str

    @property
    def best(self) -> Trial | None:
        """The candidate with the lowest score, the first of equals; None where every candidate diverged."""
        alive = [trial for trial in self.trials if not trial.diverged]
        return min(alive, key=lambda trial: trial.score) if alive else None


def tune(
    make_method: Callable[..., Method],
    grid: Mapping[str, ArrayLike],
    federation: Federation | Sequence[Federation],
    rounds: int,
    *,
    cohort_size: int | None = None,
    rng: Seed = 0,
    column: str | None = None,
    workers: int = 1,
    **options: Any,
) -> Tuning:
    """Try every combination of a grid and judge each by where it ends.

    Parameters
    ----------
    make_method : callable
        Called with one value per name of the grid, returns a method: ``lambda learning_rate: FedAvg(...)``.
    grid : mapping of str to sequence
        The values to try for each name, of any type; all their combinations are tried.
    federation : Federation or sequence of Federation
        The data to tune on; with several, a candidate is judged by the median. Do not show results on the same data.
    rounds, cohort_size, rng
        As in `simulate`: every candidate gets the same rounds and the same seed, which is drawn once where `rng` is a
        Generator or None.
    column : str, optional
        The column of the history to judge by, lower is better; ``"relative_error"`` where the federations know the
        truth, otherwise ``"objective"``.
    workers : int, default 1
        Processes that share the candidates (joblib); the result does not depend on it.
    **options
        More options of `simulate`.

    Returns
    -------
    Tuning

    Raises
    ------
    ValueError
        Where the grid is empty, a candidate is out of its range, or the history has no such column.
    """
    from joblib import Parallel, delayed
    from sklearn.model_selection import ParameterGrid

    values = {name: _values(name, given) for name, given in grid.items()}
    if not grid:
        raise ValueError("grid is empty; expected at least one name with at least one value")
    workers = check_integer("workers", workers)
    federations = (federation,) if isinstance(federation, Federation) else tuple(federation)
    if not federations:
        raise ValueError("federation is an empty sequence; expected at least one federation")
    if column is None:
        column = "relative_error" if all(fed.truth is not None for fed in federations) else "objective"
    candidates = list(ParameterGrid(values))
    methods = [make_method(**parameters) for parameters in candidates]
    options |= {"cohort_size": cohort_size, "rng": check_seed("rng", rng)}
    runs = Parallel(n_jobs=workers)(
        delayed(_history)(method, fed, rounds, column, options) for method in methods for fed in federations
    )
    count = len(federations)
    trials = [
        _trial(parameters, method, tuple(runs[i * count : (i + 1) * count]), column)
        for i, (parameters, method) in enumerate(zip(candidates, methods, strict=True))
    ]
    return Tuning(tuple(trials), column)


def _values(name: str, given: Any) -> list[Any]:
    """The values of one name as they came, but for NumPy scalars, which become Python's."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"grid has {given!r} for {name!r}; expected a sequence of values")
    values = [value.item() if isinstance(value, np.generic) else value for value in given]
    if not values:
        raise ValueError(f"grid has no values for {name!r}; expected at least one")
    return values


def _history(method: Method, federation: Federation, rounds: int, column: str, options: dict[str, Any]) -> History:
    """A run that ends early once it has diverged beyond return."""

    def beyond_return(history: History) -> bool:
        values = column_of(history, column)
        return not abs(values[-1]) < 1e6 * max(abs(values[0]), 1.0)

    given = options.get("callback", ())
    callbacks = [beyond_return, *((given,) if callable(given) else given)]
    with warnings.catch_warnings():  # a search has to try what runs away; its table says so
        warnings.simplefilter("ignore", AdviceWarning)
        return simulate(method, federation, rounds, **(options | {"callback": callbacks})).history


def _trial(parameters: dict[str, Any], method: Method, histories: tuple[History, ...], column: str) -> Trial:
    ends = np.array([history[column][-1] for history in histories])
    starts = np.array([history[column][0] for history in histories])
    silent = any((history["clients"][1:] == 0).any() for history in histories)
    limits = np.where(starts == 0, np.finfo(float).max, _DIVERGED * np.abs(starts))
    diverged = silent or not bool(np.all(ends <= limits))
    return Trial(parameters, method, histories, float("inf") if diverged else float(np.median(ends)), diverged)
