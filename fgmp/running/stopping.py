"""Callbacks that end a run: `stop_at` a value, `stop_when_stalled` for so many records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..checks import check_integer, check_kind, check_number
from .books import History, column_of

__all__ = ["Callback", "stop_at", "stop_when_stalled"]

Callback = Callable[[History], bool]


def stop_at(below: float, column: str = "relative_error") -> Callback:
    """A callback that stops a run once a column of the history is at most `below`.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> done = fgmp.stop_at(1e-6, "relative_error")
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=1000, rng=0, callback=done)
    >>> int(result.history["round"][-1]) < 10
    True
    """
    below = check_number("below", below)
    check_kind("column", column, str, "the name of a column of the history")
    return lambda history: bool(column_of(history, column)[-1] <= below)


def stop_when_stalled(patience: int, column: str = "objective", improvement: float = 1e-3) -> Callback:
    """A callback that stops a run when `patience` records in a row did not improve a column.

    The lowest value so far has to fall by more than the fraction `improvement` to count as better.
    """
    patience = check_integer("patience", patience)
    improvement = check_number("improvement", improvement, at_least=0)
    check_kind("column", column, str, "the name of a column of the history")

    def stalled(history: History) -> bool:
        values = np.nan_to_num(column_of(history, column), nan=np.inf, posinf=np.inf)
        if len(values) <= patience:
            return False
        before, since = values[:-patience].min(), values[-patience:].min()
        return bool(since >= (before - improvement * abs(before) if np.isfinite(before) else before))

    return stalled
