"""One style for all figures, and the few kinds of figure that the notebooks share.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, where they have a contrast of 3 to white;
every curve also has a marker of its own. A method keeps its colour and marker in all notebooks, and FedGradMP is the
strongest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from ..checks import check_array, check_integer, check_kind, check_number, check_real, check_sequence, shown

__all__ = ["METHODS", "curve", "floor", "gradation", "images", "ink", "name_lines", "panels", "scores", "use_style"]

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)

WINE, INDIGO, BROWN = "#882255", "#332288", "#8C510A"  # yellow, orange and sky blue are too pale for a line on white

METHODS: dict[str, dict[str, Any]] = {
    "FedGradMP": {"color": VERMILLION, "marker": "o", "linewidth": 2.4, "zorder": 5},
    "SharedSupportGradMP": {"color": WINE, "marker": "*", "markersize": 8, "linewidth": 2.4, "zorder": 6},
    "FedIterHT": {"color": BLUE, "marker": "s"},
    "FedHT": {"color": INDIGO, "marker": "D"},
    "FedAvg": {"color": BLACK, "marker": "^"},
    "FedMid": {"color": GREEN, "marker": "v"},
    "FedDualAvg": {"color": PURPLE, "marker": "P"},
    "FastFedDualAvg": {"color": BROWN, "marker": "X"},
}

_MARKERS = "osD^vPX<>*"


def use_style() -> None:
    """Set matplotlib's defaults to the project's style."""
    plt.rcParams.update(
        {
            "figure.dpi": 90,
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "0.9",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.6,
            "lines.markersize": 5,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "image.cmap": "gray",
        }
    )


def panels(columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.6, **options: Any) -> Any:
    """A figure of equal panels; returns the figure and its axes (one, or an array as plt.subplots gives)."""
    columns, rows = check_integer("columns", columns), check_integer("rows", rows)
    width, height = check_number("width", width, above=0), check_number("height", height, above=0)
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows), **options)


def gradation(count: int) -> list[dict[str, Any]]:
    """Colours from light to dark with distinct markers, for the values of one ordered parameter."""
    count = check_integer("count", count, at_least=0)
    shades = plt.get_cmap("viridis_r")(np.linspace(0.4, 1.0, count))
    return [{"color": tuple(shade), "marker": _MARKERS[i % len(_MARKERS)]} for i, shade in enumerate(shades)]


def curve(
    ax: Axes, x: ArrayLike, runs: ArrayLike, label: str, *, band: tuple[float, float] = (0, 100), **style: Any
) -> NDArray[Any]:
    """The median over runs, with a band between two percentiles; returns the median.

    Parameters
    ----------
    ax : matplotlib Axes
    x : array_like, shape (n_points,)
    runs : array_like, shape (n_runs, n_points)
        One row per seed.
    label : str
    band : tuple of float, default (0, 100)
        Percentiles of the band; the default spans all runs.
    **style
        For the line: an entry of `METHODS` or of `gradation`.
    """
    _check_axes(ax)
    x, runs = check_real("x", x), np.atleast_2d(check_real("runs", runs))
    if x.ndim != 1 or runs.ndim != 2 or not runs.shape[0] or runs.shape[1] != len(x):
        raise ValueError(
            f"x has shape {x.shape} and runs {runs.shape}; expected one row of runs per seed, as long as x"
        )
    ends = check_array("band", band, ndim=1)
    if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= 100:
        raise ValueError(f"band is {shown(band)}; expected two percentiles from 0 to 100, increasing")
    check_kind("label", label, str, "text")
    median: NDArray[Any] = np.median(runs, axis=0)
    (line,) = ax.plot(x, median, label=label, **style)
    low, high = np.percentile(runs, band, axis=0)
    ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1)
    return median


def floor(ax: Axes, value: float, label: str) -> None:
    """A horizontal line at the best value that any method could reach."""
    _check_axes(ax)
    value = check_number("value", value)
    ax.axhline(value, color="0.35", linestyle=(0, (5, 3)), linewidth=1.2, label=label, zorder=2)


def ink(colour: Any) -> tuple[float, float, float]:
    """A colour dark enough for words on white, for a line of that colour."""
    red, green, blue = (0.65 * part for part in to_rgb(colour))
    return red, green, blue


def name_lines(ax: Axes, places: Sequence[float] | None = None) -> None:
    """Write the label of each line beside its right end, in its colour, where a legend would send the eye to and fro.

    For four lines or fewer. Call it last: it needs the scales and the limits of the axes.

    Parameters
    ----------
    ax : matplotlib Axes
        Its lines with a label; one that spans the axes, as of `floor`, is named at the right edge.
    places : sequence of float, optional
        Heights for the names, in the order of the lines, in place of those of their right ends.
    """
    _check_axes(ax)
    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    ends = [_right_end(ax, line) for line in lines]
    if places is not None:
        places = check_array("places", places, ndim=1).tolist()
        if len(places) != len(lines):
            raise ValueError(f"places has {len(places)} entries; expected one for each of {len(lines)} lines")
        ends = [(x, float(ax.transData.transform((1, y))[1])) for (x, _), y in zip(ends, places, strict=True)]
    size = FontProperties(size=plt.rcParams["legend.fontsize"]).get_size_in_points()
    tall = [1.3 * size * ax.figure.dpi / 72 * (1 + str(line.get_label()).count("\n")) for line in lines]
    apart = _spread_out([y for _, y in ends], tall)
    for line, (x, _), y in zip(lines, ends, apart, strict=True):
        place = ax.transAxes.inverted().transform((x, y))
        words: Any = dict(textcoords="offset points", va="center", fontsize=size, annotation_clip=False)
        ax.annotate(
            str(line.get_label()), tuple(place), (6, 0), xycoords="axes fraction", color=ink(line.get_color()), **words
        )


def _right_end(ax: Axes, line: Line2D) -> tuple[float, float]:
    """Where a line ends on the right, or leaves the axes, in pixels."""
    ax.get_xlim(), ax.get_ylim()  # settles the limits
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = line.get_transform().transform(np.column_stack([np.asarray(v, float) for v in line.get_data()])).T
    room = 1e-3  # pixels
    inside = (x >= ax.bbox.x0 - room) & (x <= ax.bbox.x1 + room) & (y >= ax.bbox.y0 - room) & (y <= ax.bbox.y1 + room)
    last = np.flatnonzero(inside)[-1] if inside.any() else -1
    return float(x[last]), float(y[last])


def _spread_out(heights: Sequence[float], tall: Sequence[float]) -> NDArray[np.float64]:
    """The middles of names, those that would overlap moved apart; `tall` is how much room each needs."""
    moved, order = np.array(heights, dtype=float), np.argsort(heights, kind="stable")
    for _ in range(200):
        for low, high in zip(order[:-1], order[1:], strict=True):
            lack = (tall[low] + tall[high]) / 2 - (moved[high] - moved[low])
            if lack > 0:
                moved[low], moved[high] = moved[low] - lack / 2, moved[high] + lack / 2
    return moved


def images(
    pictures: Sequence[ArrayLike],
    titles: Sequence[str],
    *,
    columns: int | None = None,
    width: float = 3.4,
    **options: Any,
) -> Figure:
    """Grey pictures side by side, without axes.

    Parameters
    ----------
    pictures : sequence of array_like, each of shape (height, width)
    titles : sequence of str
    columns : int, optional
        Pictures in a row; all of them by default.
    width : float
        Width of one picture in inches.
    **options
        Passed to ``imshow`` of every picture (for example ``vmin`` and ``vmax``).
    """
    grey = [check_array("pictures", picture, ndim=2) for picture in check_sequence("pictures", pictures, "pictures")]
    titles = check_sequence("titles", titles, "a sequence of texts, one for each picture")
    if not grey or 0 in grey[0].shape or len(titles) != len(grey):
        raise ValueError(f"pictures has {len(grey)} entries and titles {len(titles)}; expected as many, not empty")
    columns = len(grey) if columns is None else check_integer("columns", columns)
    rows = -(-len(grey) // columns)
    shape = grey[0].shape
    width = check_number("width", width, above=0)
    height = width * shape[0] / shape[1] + 0.3
    figure: Figure
    figure, axes = panels(columns, rows, width=width, height=height, squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, picture, title in zip(axes.flat, grey, titles, strict=False):
        ax.imshow(picture, **options)
        ax.set_title(title)
    return figure


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
    ax = panels(width=max(4.6, 0.9 * len(values[x])))[1] if ax is None else _check_axes(ax)
    label = tuning.column.replace("_", " ")
    if y is None:
        _score_line(ax, values[x], table[0], label)
    else:
        _score_map(ax, values[x], rows, table, label)
    ax.set(xlabel=x, **({} if y is None else {"ylabel": y}))
    if others := [name for name in values if len(values[name]) > 1 and name not in (x, y)]:
        ax.set_title(f"best over {', '.join(others)}")
    return ax


def _check_axes(ax: Any) -> Axes:
    found: Axes = check_kind("ax", ax, Axes, "matplotlib Axes")
    return found


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
