"""A grid search: every method runs on the same federations, seed and rounds; curves are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from .._support.validation import (
    Seed,
    check_integer,
    check_kind,
    check_seed,
    check_sequence,
    short_repr,
)
from .._support.warnings import warn_user
from ..backends import backend, current_backend
from ..data import Federation, check_federation
from ..method import Method
from ..recording import Run, check_callbacks
from ..simulation import simulate_part
from ..sparse_model import Array

Parameters = dict[str, Any]  # the values that a grid has for each name are of any type
Table = dict[str, Array]  # a history: a column for each name

# A run that ends above this many times its start has diverged.
_DIVERGED = 10
# A run above this many times its start, or this value, does not come back: it ends early.
_BEYOND_RETURN = 1e6


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of a grid, and how it did.

    Attributes
    ----------
    parameters : dict
        The parameters that `make_method` was called with.
    score : float
        The median over the runs of the last value of the column that judges; infinite if a run
        diverged.
    diverged : bool
        Whether a run ended with a value that is not finite, or above ten times the value that it
        started from, or had a round without any accepted update. A start of zero has no scale, so
        that any finite end passes.
    method : Method
        The method that `make_method` returned.
    histories : tuple of dict
        The history of each run, one for each federation.
    """

    parameters: Parameters
    score: float
    diverged: bool
    method: Method = field(repr=False)
    histories: tuple[Table, ...] = field(repr=False)


class Tuning(NamedTuple):
    """The result of `tune`.

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
        """The candidate with the lowest score, the first of equals; None if all diverged."""
        candidates = [trial for trial in self.trials if not trial.diverged]
        return min(candidates, key=lambda trial: trial.score, default=None)


def tune(
    make_method: Callable[..., Method],
    grid: Mapping[str, ArrayLike],
    federation: Federation | Sequence[Federation],
    rounds: int,
    *,
    rng: Seed = 0,
    column: str | None = None,
    workers: int = 1,
    **options: Any,
) -> Tuning:
    """Try every combination of the values of a grid, and judge each by the end of its runs.

    Parameters
    ----------
    make_method : callable
        Takes one value for each name of the grid and returns a method, such as
        ``lambda learning_rate: FedAvg(learning_rate=learning_rate)``.
    grid : mapping of str to sequence
        The values to try for each name, of any type.
    federation : Federation or sequence of Federation
        The data to tune on. With several, the median over them judges a candidate. Results belong
        on other data.
    rounds, rng, **options
        As in `simulate`, and the same for every candidate. So is the seed, which is drawn once if
        `rng` is no number.
    column : str, optional
        The column of the history that judges, lower is better. The default is
        ``"relative_error"`` if all federations have a `truth`, and ``"objective"`` otherwise. Other
        clients can judge, as ``"unseen"`` of
        ``history=History(metrics={"unseen": federation.subset(others).objective})``.
    workers : int, default 1
        The number of processes (joblib) that share the runs. The result does not depend on it.

    Returns
    -------
    Tuning

    Raises
    ------
    ValueError
        If an argument is not of the kind that is described here.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> make = lambda learning_rate: fgmp.FedAvg(learning_rate=learning_rate)
    >>> tuning = fgmp.tune(make, {"learning_rate": [1e-6, 1e-2, 1e2]}, federation, rounds=20, rng=0)
    >>> tuning.best.parameters, [trial.diverged for trial in tuning.trials]
    ({'learning_rate': 0.01}, [False, False, True])
    """
    if not callable(make_method):
        raise ValueError(
            f"make_method is {short_repr(make_method)}; expected a callable that returns a method"
        )
    candidates = _combinations(grid)
    federations = _check_federations(federation)
    if column is None:
        is_truth_known = all(each.truth is not None for each in federations)
        column = "relative_error" if is_truth_known else "objective"

    methods = [make_method(**parameters) for parameters in candidates]
    options["rng"] = check_seed("rng", rng)
    runs = [
        delayed(_history)(method, each, rounds, column, current_backend(), **options)
        for method in methods
        for each in federations
    ]
    histories = Parallel(check_integer("workers", workers))(runs)

    trials = []
    for index, (parameters, method) in enumerate(zip(candidates, methods, strict=True)):
        first = index * len(federations)
        own_histories = tuple(histories[first : first + len(federations)])
        trials.append(_judge(parameters, method, own_histories, column))
    if rounds:
        _warn_without_updates(histories)
    return Tuning(tuple(trials), column)


def _combinations(grid: Mapping[str, ArrayLike]) -> list[Parameters]:
    """Return all combinations of the values of a grid, by name; the last name varies fastest."""
    check_kind("grid", grid, Mapping, "a mapping of names to sequences of values")
    values = {}
    for name in sorted(grid):
        several = check_sequence(f"grid[{name!r}]", grid[name], "a sequence of values")
        if not several:
            raise ValueError(f"grid[{name!r}] is empty; expected at least one value")
        # A value of an array becomes a Python number, as a method takes it.
        values[name] = [
            value.item() if isinstance(value, np.generic) else value for value in several
        ]
    return [
        dict(zip(values, combination, strict=True)) for combination in product(*values.values())
    ]


def _check_federations(federation: Federation | Sequence[Federation]) -> list[Federation]:
    """Return one or several federations as a list, or raise a ValueError."""
    if isinstance(federation, Federation):
        return [federation]
    federations = check_sequence("federation", federation, "a Federation or several")
    if not federations:
        raise ValueError("federation is an empty sequence; expected at least one federation")
    return [check_federation("federation", each) for each in federations]


def _judge(
    parameters: Parameters, method: Method, histories: tuple[Table, ...], column: str
) -> Trial:
    """Judge a candidate by the last value of a column of its histories."""
    starts = np.array([history[column][0] for history in histories])
    ends = np.array([history[column][-1] for history in histories])
    limits = np.where(starts == 0, np.finfo(float).max, _DIVERGED * np.abs(starts))

    had_empty_round = any((history["clients"][1:] == 0).any() for history in histories)
    diverged = had_empty_round or not bool(np.all(ends <= limits))
    score = np.inf if diverged else float(np.median(ends))
    return Trial(parameters, score, diverged, method, histories)


def _warn_without_updates(histories: Sequence[Table]) -> None:
    """Warn if no update was accepted in any round of any run."""
    if any(history["clients"][1:].any() for history in histories):
        return
    warn_user(
        f"no update arrived in any of the {len(histories)} runs of tune: all models are the start, "
        "and nothing was compared; rejected of the histories counts what was not taken"
    )


def _history(
    method: Method,
    federation: Federation,
    rounds: int,
    column: str,
    backend_name: str,
    callbacks: Any = (),
    **options: Any,
) -> Table:
    """Return the history of a run that stops early if it has diverged beyond return."""

    def is_beyond_return(run: Run) -> bool:
        values = run.column(column)
        return not abs(values[-1]) < _BEYOND_RETURN * max(abs(values[0]), 1.0)

    # Without advice: a search has to try methods that diverge, and its table says which did.
    stopping = [is_beyond_return, *check_callbacks(callbacks)]
    with backend(backend_name):  # a worker does not inherit it
        result = simulate_part(method, federation, rounds, callbacks=stopping, **options)
    return result.history
