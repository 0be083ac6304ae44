"""Pictures of intervals, with a line for each group or each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._support.optional import needs
from ..sparse_model import Array
from .meta_analysis import from_scale, on_scale

# The measures of discrimination, of which a table has one, and how they are written.
MAIN_MEASURES = {"auc": "AUC", "r2": "$R^2$", "d2": "$D^2$"}
# The calibration, and what a model that is right has.
CALIBRATION = {"intercept": 0.0, "slope": 1.0}
# The quantile of an interval of 95 %.
_QUANTILE = 1.959963984540054
# Between two intervals of one line, where lines are 1 apart.
_SHIFT = 0.28
_COLORS = ("#0072B2", "#D55E00")


def main_measure(columns: Mapping[str, Array]) -> str:
    """Return which measure of discrimination a table has."""
    return next(name for name in MAIN_MEASURES if name in columns)


def draw_measures(
    axes: Any, columns: Mapping[str, Array], overall: Mapping[str, Array] | None = None
) -> Any:
    """Draw the measures of groups, and their summary below them if there is one.

    Parameters
    ----------
    axes : sequence of three axes of matplotlib, or None
        Where to draw; None makes a figure.
    columns, overall : mapping of str to ndarray
        As in `Performance` and `Validation`.

    Returns
    -------
    ndarray of axes
    """
    main = main_measure(columns)
    lines = names_of_lines(columns)
    models = columns.get("sparsity", np.full(len(lines), ""))
    names = list(dict.fromkeys(lines))
    if overall is not None:
        names += dict.fromkeys(names_of_lines(overall))
    if axes is None:
        axes = new_axes(3, len(names))
    for ax, measure in zip(axes, (main, *CALIBRATION), strict=True):
        for number, model in enumerate(dict.fromkeys(models)):
            shift = _shift(number, len(set(models)))
            style: dict[str, Any] = {"color": _COLORS[number], "label": f"sparsity={model}"}
            drawn = {name: column[models == model] for name, column in columns.items()}
            places = [names.index(name) + shift for name in names_of_lines(drawn)]
            draw_intervals(ax, places, *_interval(measure, drawn), **style)
            if overall is None:
                continue
            is_summary = (overall["measure"] == measure) & (overall["sparsity"] == model)
            summary = {name: column[is_summary] for name, column in overall.items()}
            places = [names.index(name) + shift for name in names_of_lines(summary)]
            ends = (summary[name] for name in ("mean", "lower", "upper"))
            draw_intervals(ax, places, *ends, fmt="D", color=style["color"])
            new_ends = summary["new_lower"], summary["new_upper"]
            ax.hlines(places, *new_ends, color=style["color"], linewidth=0.8, linestyle=":")
        right = CALIBRATION.get(measure)
        name_axis(ax, names, MAIN_MEASURES.get(measure, f"calibration {measure}"), right)
    if overall is not None:
        add_legend(axes[0])
    return np.asarray(axes)


def names_of_lines(columns: Mapping[str, Array]) -> Array:
    """Return a name of each line: the feature or the group, and the class if there are several.

    A line without either is of all groups.
    """
    parts = [columns[name] for name in ("feature", "group", "class") if name in columns]
    if "feature" not in columns and "group" not in columns:
        parts.insert(0, np.full(len(columns["measure"]), "all groups"))
    return np.array([", ".join(map(str, line)) for line in zip(*parts, strict=True)], object)


def _interval(measure: str, columns: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the values of a measure with their intervals; that of an AUC is of its log-odds."""
    middle, errors = on_scale(measure, columns)
    half = _QUANTILE * (np.zeros(len(middle)) if errors is None else errors)
    return columns[measure], *(from_scale(measure, end) for end in (middle - half, middle + half))


def draw_forest(
    ax: Any, columns: Mapping[str, Array], ratio: str, level: float, by_group: str
) -> Any:
    """Draw ratios, or coefficients per deviation, with their intervals; return matplotlib's axes.

    Parameters
    ----------
    ax : axes of matplotlib, or None
        Where to draw; None makes a figure.
    columns : mapping of str to ndarray
        Of a `Summary`. The intercept, which has no deviation, is not drawn.
    ratio : str
        The column of ratios; "" for coefficients.
    level : float
        The coverage of the intervals.
    by_group : str
        What intervals by group are called.
    """
    drawn = {name: column[np.isfinite(columns["deviation"])] for name, column in columns.items()}
    names = names_of_lines(drawn).tolist()
    if ax is None:
        ax = new_axes(1, len(names))[0]
    step = 1.0 if ratio else drawn["deviation"]
    prefix = f"{ratio}_" if ratio else ""
    for number, (ending, words) in enumerate({"": "model", "_by_group": by_group}.items()):
        bounds = [f"{prefix}{bound}{ending}" for bound in ("lower", "upper")]
        middle, *ends = (drawn[name] * step for name in (ratio or "coefficient", *bounds))
        if not np.isnan(ends).all():
            places = np.arange(len(names)) + _shift(number, 2)
            draw_intervals(ax, places, middle, *ends, color=_COLORS[number], label=words)
    label = f"{ratio.replace('_', ' ') or 'coefficient'} per standard deviation,\n"
    if ratio and "rows" in columns:
        label += "or of a one against a zero, "
    name_axis(ax, names, f"{label}{100 * level:g} % intervals", 1.0 if ratio else 0.0)
    if ratio:
        _log_axis(ax)
    add_legend(ax)
    return ax


# Parts of pictures.


def _shift(number: int, count: int) -> float:
    """Return how far one of several intervals stands below the middle of its line."""
    return _SHIFT * (number - (count - 1) / 2)


def new_axes(n_axes: int, n_lines: int, size: tuple[float, float] | None = None) -> Any:
    """Return axes below each other, so that they can be read on a narrow screen."""
    with needs("a plot", "matplotlib"):
        import matplotlib.pyplot as plt

    size = size or (5.4, n_axes * (0.8 + 0.28 * n_lines))
    return plt.subplots(n_axes, 1, figsize=size, layout="constrained", squeeze=False)[1][:, 0]


def draw_intervals(
    ax: Any, places: Sequence[float] | Array, middle: Array, low: Array, high: Array, **style: Any
) -> None:
    """Draw intervals around points; what is nan is not drawn."""
    errors = np.maximum([middle - low, high - middle], 0)
    ax.errorbar(middle, places, xerr=errors, **{"fmt": "o", "capsize": 3, "ms": 5, **style})


def name_axis(ax: Any, names: Sequence[str], label: str, right: float | None) -> None:
    """Name the lines, the first one on top, and the numbers; dash where a right model would be."""
    ax.set_xlabel(label)
    ax.set_yticks(np.arange(len(names)), names, parse_math=False)  # a price in $ is no formula
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    if right is not None:
        ax.axvline(right, color="0.35", linestyle="--", linewidth=1.2)


def add_legend(ax: Any) -> None:
    """Name the colours above the axes, where they hide nothing."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)


def _log_axis(ax: Any) -> None:
    """Make an axis logarithmic, with ticks that are written as numbers."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    steps_of_one = MaxNLocator(nbins=6, steps=[1, 5, 10])  # 0.5, 1, 1.5: one is among them
    ax.xaxis.set_major_locator(steps_of_one if high < 8 * low else LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:g}")
