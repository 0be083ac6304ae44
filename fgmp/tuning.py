"""A grid search that gives every method the same budget and keeps every curve.

`tune` runs all candidates on the same federations with the same seed; a candidate that diverged is never the best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .advice import quiet
from .checks import Seed, check_integer, check_kind, check_mapping, check_number, check_seed, check_sequence, shown
from .federation import Federation, check_federation
from .models import Array
from .rounds import Method, Streams
from .simulation import simulate, whole
from .watching import History, Run, watchers_of

_DIVERGED = 10.0
_HELD_OUT = "held_out"


@dataclass(frozen=True, eq=False, repr=False)
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
    histories: tuple[dict[str, Array], ...]
    score: float
    diverged: bool

    def __repr__(self) -> str:
        how = "diverged" if self.diverged else f"score {self.score:.6g}"
        return f"Trial({_words(self.parameters)}: {how})"


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """What `tune` found.

    Attributes
    ----------
    trials : tuple of Trial
        All candidates, in the order of the grid.
    column : str
        The column of the history that judged them.
    held_out : tuple of tuple of int
        The keys of the clients that judged and took no part, increasing, for each federation; empty without any.
    """

    trials: tuple[Trial, ...]
    column: str
    held_out: tuple[tuple[int, ...], ...] = ()

    def __repr__(self) -> str:
        diverged = sum(trial.diverged for trial in self.trials)
        best = "no candidate is left" if self.best is None else f"best {_words(self.best.parameters)}"
        score = "" if self.best is None else f" with {self.column} {self.best.score:.6g}"
        return f"Tuning({best}{score}; {len(self.trials)} candidates, {diverged} diverged)"

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
    held_out: int | float | Sequence[Any] | None = None,
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
        The column of the history to judge by, lower is better; ``"held_out"`` where clients are held out, otherwise
        ``"relative_error"`` where the federations know the truth, and ``"objective"`` where they do not.
    held_out : int, float or sequence of int or str, optional
        Clients that take no part in the training and judge in its place, the same ones for every candidate: so many
        of them, or this share of them (above 0 and below 1, rounded, at least one), drawn with the seed; or those of
        these sites, where the federation knows their names, or with these keys. The histories then have the column
        ``"held_out"``, sum p_i f_i(x) / sum p_i over these clients.
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
        Where the grid is empty, a candidate is out of its range, the history has no such column, or `held_out` names
        a client that is not there, or leaves nobody of positive weight to train on or to judge.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> make = lambda learning_rate: fgmp.FedAvg(learning_rate=learning_rate)
    >>> tuning = fgmp.tune(make, {"learning_rate": [1e-6, 1e-2, 1e2]}, federation, rounds=20, rng=0)
    >>> tuning.best.parameters, [trial.diverged for trial in tuning.trials]
    ({'learning_rate': 0.01}, [False, False, True])
    """
    from joblib import Parallel, delayed
    from sklearn.model_selection import ParameterGrid

    if not callable(make_method):
        raise ValueError(f"make_method is {shown(make_method)}; expected a callable that returns a method")
    grid = check_mapping("grid", grid, "a mapping of names to sequences of values")
    values = {check_kind("grid", name, str, "names"): _values(name, given) for name, given in grid.items()}
    if not grid:
        raise ValueError("grid is empty; expected at least one name with at least one value")
    workers = check_integer("workers", workers)
    expected = "a Federation or several"
    given = [federation] if isinstance(federation, Federation) else check_sequence("federation", federation, expected)
    federations = [check_federation("federation", each) for each in given]
    if not federations:
        raise ValueError("federation is an empty sequence; expected at least one federation")
    recorded = options.setdefault("history", None) or History()
    if held_out is not None and _HELD_OUT in recorded.metrics:
        raise ValueError("metrics has 'held_out'; expected another name, for that column is of the clients held out")
    seed = check_seed("rng", rng)
    tasks: list[tuple[Federation, Federation | None]]
    tasks = [(fed, None) if held_out is None else _split(fed, held_out, seed) for fed in federations]
    if column is not None:
        check_kind("column", column, str, "the name of a column of the history")
    elif held_out is not None:
        column = _HELD_OUT
    else:
        column = "relative_error" if all(fed.truth is not None for fed in federations) else "objective"
    candidates = list(ParameterGrid(values))
    methods = [make_method(**parameters) for parameters in candidates]
    options |= {"cohort_size": cohort_size, "rng": seed}
    runs = Parallel(workers)(
        delayed(_history)(method, *task, rounds, column, options) for method in methods for task in tasks
    )
    count = len(tasks)
    trials = [
        _trial(parameters, method, tuple(runs[i * count : (i + 1) * count]), column)
        for i, (parameters, method) in enumerate(zip(candidates, methods, strict=True))
    ]
    judges = tuple(tuple(judge.keys.tolist()) for _, judge in tasks if judge is not None)
    return Tuning(tuple(trials), column, judges)


def _values(name: str, given: Any) -> list[Any]:
    """The values of one name as they came, but for NumPy scalars, which become Python's."""
    several = check_sequence(f"grid[{name!r}]", given, "a sequence of values")
    values = [value.item() if isinstance(value, np.generic) else value for value in several]
    if not values:
        raise ValueError(f"grid has no values for {name!r}; expected at least one")
    return values


def _words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def _split(federation: Federation, held_out: Any, seed: int) -> tuple[Federation, Federation]:
    """The federation to train on and the one that judges."""
    count = federation.n_clients
    keys = federation.keys.tolist()
    expected = "a number of clients, a share of them, or their keys or the names of their sites"
    if isinstance(held_out, (bool, np.bool_)):
        raise ValueError(f"held_out is {held_out!r}; expected {expected}")
    if isinstance(held_out, (int, float, np.number)):
        if count < 2:
            raise ValueError(f"held_out is {held_out!r} of {count} client; expected a federation of two or more")
        if isinstance(held_out, float | np.floating):
            share = check_number("held_out", held_out, above=0)
            if share >= 1:
                raise ValueError(f"held_out is {held_out!r}; expected a share above 0 and below 1, or an integer")
            number = min(max(round(share * count), 1), count - 1)
        else:
            number = check_integer("held_out", held_out, at_most=count - 1, why="all clients but one")
        chosen = {keys[i] for i in Streams(seed).sample(Streams.HELD_OUT, 0, count, number)}
    else:
        named = check_sequence("held_out", held_out, expected)
        sites = dict(zip(federation.site_names or (), keys, strict=False))
        chosen = {
            sites[name]
            if isinstance(name, str | int | float) and name in sites
            else check_integer("held_out", name, at_least=0)
            for name in named
        }
        if strange := sorted(chosen - set(keys), key=repr):
            raise ValueError(f"held_out names {strange[0]!r}; expected keys of the clients, such as {keys[0]}")
    judging = np.array([key in chosen for key in keys])
    if not (federation.weights[judging].sum() > 0 and federation.weights[~judging].sum() > 0):
        raise ValueError(
            f"held_out holds out {judging.sum()} of {count} clients; expected some of positive weight on either side"
        )
    return federation.part(~judging), federation.part(judging)


def _history(
    method: Method,
    federation: Federation,
    judge: Federation | None,
    rounds: int,
    column: str,
    options: dict[str, Any],
) -> dict[str, Array]:
    """A run that ends early once it has diverged beyond return."""
    recorded = options["history"] or History()
    if judge is not None:
        recorded = replace(recorded, metrics={_HELD_OUT: judge.objective, **recorded.metrics})

    def beyond_return(run: Run) -> bool:
        values = run.column(column)
        return not abs(values[-1]) < 1e6 * max(abs(values[0]), 1.0)

    watch = [beyond_return, *watchers_of(options.get("watch", ()))]
    with quiet():  # a search has to try what runs away; its table says so
        return whole(simulate(method, federation, rounds, **(options | {"history": recorded, "watch": watch}))).history


def _trial(parameters: dict[str, Any], method: Method, histories: tuple[dict[str, Array], ...], column: str) -> Trial:
    ends = np.array([history[column][-1] for history in histories])
    starts = np.array([history[column][0] for history in histories])
    silent = any((history["clients"][1:] == 0).any() for history in histories)
    limits = np.where(starts == 0, np.finfo(float).max, _DIVERGED * np.abs(starts))
    diverged = silent or not bool(np.all(ends <= limits))
    return Trial(parameters, method, histories, float("inf") if diverged else float(np.median(ends)), diverged)
