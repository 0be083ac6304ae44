"""A grid search that gives every method the same federations, seed and rounds, and keeps every curve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._compiled.registry import backend, current_backend
from ._support.validation import (
    Seed,
    check_integer,
    check_kind,
    check_seed,
    check_sequence,
    short_repr,
)
from ._support.warnings import warn_user
from .callbacks import Run, check_callbacks
from .federation import Federation, check_federation
from .rounds import Method
from .simulation import simulate_part
from .sparse_model import Array


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate of a grid.

    Attributes
    ----------
    parameters, method : dict, Method
        What `make_method` was called with, and what it returned.
    score : float
        Median over the runs of the last value of the column judged; infinite where a run diverged.
    diverged : bool
        Whether a run ended with a value that is not finite or above ten times the one it started from (unless that was
        zero, which says nothing about the scale), or had a round in which no client's answer was finite.
    histories : tuple of dict
        The history of each run, one per federation.
    """

    parameters: dict[str, Any]
    score: float
    diverged: bool
    method: Method = field(repr=False)
    histories: tuple[dict[str, Array], ...] = field(repr=False)


class Tuning(NamedTuple):
    """What `tune` found: all candidates, in the order of the grid, and the column of the history that judged them."""

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
    rounds, rng, **options
        As in `simulate`: the same for every candidate, and so is the seed, drawn once where `rng` is no number.
    column : str, optional
        The column of the history to judge by, lower is better; by default ``"relative_error"`` where the federations
        know the truth, and ``"objective"`` where they do not. Clients that take no part may judge, as ``"unseen"`` of
        ``history=History(metrics={"unseen": federation.subset(others).objective})``.
    workers : int, default 1
        Processes that share the candidates (joblib); the result does not depend on it.

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
        raise ValueError(
            f"make_method is {short_repr(make_method)}; expected a callable that returns a method"
        )
    values = {}
    for name, given in check_kind(
        "grid", grid, Mapping, "a mapping of names to sequences of values"
    ).items():
        several = check_sequence(f"grid[{name!r}]", given, "a sequence of values")
        values[name] = [
            value.item() if isinstance(value, np.generic) else value for value in several
        ]
    data = [federation] if isinstance(federation, Federation) else federation
    if not (feds := check_sequence("federation", data, "a Federation or several")):
        raise ValueError("federation is an empty sequence; expected at least one federation")
    known = all(check_federation("federation", fed).truth is not None for fed in feds)
    column = column or ("relative_error" if known else "objective")
    candidates = list(ParameterGrid(values))
    methods = [make_method(**parameters) for parameters in candidates]
    options["rng"] = check_seed("rng", rng)
    runs = [
        delayed(_history)(method, fed, rounds, column, current_backend(), **options)
        for method in methods
        for fed in feds
    ]
    runs = Parallel(check_integer("workers", workers))(runs)
    trials = []
    for i, (parameters, method) in enumerate(zip(candidates, methods, strict=True)):
        histories = tuple(runs[i * len(feds) : (i + 1) * len(feds)])
        starts, ends = np.array([history[column][[0, -1]] for history in histories]).T
        silent = any((history["clients"][1:] == 0).any() for history in histories)
        limits = np.where(starts == 0, np.finfo(float).max, 10 * np.abs(starts))
        diverged = silent or not bool(np.all(ends <= limits))
        trials.append(
            Trial(
                parameters,
                np.inf if diverged else float(np.median(ends)),
                diverged,
                method,
                histories,
            )
        )
    answered = [history["clients"][1:] for trial in trials for history in trial.histories]
    if rounds and not any(clients.any() for clients in answered):
        warn_user(
            f"no update arrived in any of the {len(answered)} runs of tune: all models are the start, and nothing was "
            "compared; rejected of the histories counts what was not taken"
        )
    return Tuning(tuple(trials), column)


def _history(
    method: Method,
    federation: Federation,
    rounds: int,
    column: str,
    backend_name: str,
    callbacks: Any = (),
    **options: Any,
) -> Any:
    """A run that ends early once it has diverged beyond return."""

    def beyond_return(run: Run) -> bool:
        values = run.column(column)
        return not abs(values[-1]) < 1e6 * max(abs(values[0]), 1.0)

    # In silence: a search has to try what runs away; its table says so.
    callbacks = [beyond_return, *check_callbacks(callbacks)]
    with backend(backend_name):  # a worker does not inherit it
        return simulate_part(method, federation, rounds, callbacks=callbacks, **options).history
