"""The scores of a grid search as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from ..checks import check_kind, shown
from .figures import BLUE, VERMILLION, panels

__all__ = ["scores"]


def scores(tuning: Any, x: str | None = None, y: str | None = None, *, ax: Axes | None = None) -> Axes:
    """The scores of a grid search: a line over one parameter, or a heat map over two, with the best one framed.

    Parameters
    ----------
    tuning : Tuning
        As `fgmp.tune` returns it.
    x, y : str, optional
        Parameters of the axes; by default the first two that have several values. Of the candidates that differ in
        other parameters the best is shown, and the title says so.
    ax : matplotlib Axes, optional
        A new one by default.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        Where no parameter of the grid has that name, or x and y are the same.
    """
    if not isinstance(getattr(tuning, "trials", None), tuple):
        raise ValueError(f"tuning is {shown(tuning)}; expected what fgmp.tune returns")
    values = _values_tried(tuning)
    varied = [name for name in values if len(values[name]) > 1 and name not in (x, y)] or list(values)[:1]
    x = varied.pop(0) if x is None else x
    if y is None and varied and varied[0] != x:
        y = varied.pop(0)
    for word, name in (("x", x), ("y", y)):
        if name is not None and not (isinstance(name, str) and name in values):
            raise ValueError(f"{word} is {shown(name)}; expected one of {', '.join(map(repr, values))}")
    if x == y:
        raise ValueError(f"x and y are both {x!r}; expected two parameters")
    rows = values[y] if y is not None else [None]
    table = np.full((len(rows), len(values[x])), np.inf)
    for trial in tuning.trials:
        place = (0 if y is None else rows.index(trial.parameters[y])), values[x].index(trial.parameters[x])
        table[place] = min(table[place], trial.score)
    ax = (
        panels(width=max(4.6, 0.9 * len(values[x])))[1] if ax is None else check_kind("ax", ax, Axes, "matplotlib Axes")
    )
    label = tuning.column.replace("_", " ")
    if y is None:
        _score_line(ax, values[x], table[0], label)
    else:
        _score_map(ax, values[x], rows, table, label)
    ax.set(xlabel=x, **({} if y is None else {"ylabel": y}))
    if others := [name for name in values if len(values[name]) > 1 and name not in (x, y)]:
        ax.set_title(f"best over {', '.join(others)}")
    return ax


def _values_tried(tuning: Any) -> dict[str, list[Any]]:
    """The distinct values of each parameter: numbers increasing, others as they came."""
    found: dict[str, list[Any]] = {}
    for trial in tuning.trials:
        for name, value in trial.parameters.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: sorted(tried) if _are_numbers(tried) else tried for name, tried in found.items()}


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _spread(values: ArrayLike) -> bool:
    """Whether positive numbers ask for a logarithmic axis."""
    given = np.asarray(values, dtype=float)
    return bool(given.size) and bool(given.min() > 0) and bool(given.max() >= 30 * given.min())


def _score_line(ax: Axes, values: Sequence[Any], row: NDArray[Any], label: str) -> None:
    numbers = _are_numbers(values)
    places = np.array(values, float) if numbers else np.arange(len(values))
    alive = np.isfinite(row)
    ax.plot(places[alive], row[alive], color=BLUE, marker="o")
    if alive.any():
        best = int(row.argmin())
        ax.plot(places[best], row[best], "s", color=VERMILLION, markersize=13, fillstyle="none", label="best")
    for number, place in enumerate(places[~alive]):
        ax.axvline(place, color="0.5", linestyle=":", label="diverged" if number == 0 else None)
    if _spread(row[alive]):
        ax.set_yscale("log")
    if numbers and _spread(values):
        ax.set_xscale("log")
    elif not numbers:
        ax.set_xticks(places, [str(value) for value in values])
    ax.set_ylabel(label)
    ax.legend()


def _score_map(ax: Axes, columns: Sequence[Any], rows: Sequence[Any], table: NDArray[Any], label: str) -> None:
    alive = np.isfinite(table)
    norm = (LogNorm if _spread(table[alive]) else Normalize)(
        *(np.quantile(table[alive], [0, 1]) if alive.any() else ())
    )
    picture = ax.imshow(np.where(alive, table, np.nan), cmap="cividis", norm=norm, origin="lower", aspect="auto")
    for (i, j), score in np.ndenumerate(table):
        words = f"{score:.3g}" if alive[i, j] else "diverged"
        dark = alive[i, j] and float(norm(score)) < 0.5
        ax.text(j, i, words, ha="center", va="center", color="white" if dark else "black", fontsize=9)
    if alive.any():
        i, j = np.unravel_index(table.argmin(), table.shape)
        frame = Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, edgecolor=VERMILLION, linewidth=2.5)
        ax.add_patch(frame)
        ax.figure.colorbar(picture, ax=ax, label=label)
    ax.grid(False)
    ax.set_xticks(range(len(columns)), [str(value) for value in columns])
    ax.set_yticks(range(len(rows)), [str(value) for value in rows])
