"""One style for all figures, and the few kinds of figure that the notebooks share.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, where they have a contrast of 3 to white;
every curve also has a marker of its own. A method keeps its colour and marker in all notebooks, and FedGradMP is the
strongest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    check_array,
    check_integer,
    check_kind,
    check_mapping,
    check_number,
    check_real,
    check_sequence,
    shown,
)

__all__ = [
    "METHODS",
    "curve",
    "dots",
    "floor",
    "gradation",
    "images",
    "ink",
    "name_lines",
    "panels",
    "use_style",
]

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

# Yellow, orange and sky blue are too pale for a line on white.
WINE, INDIGO, BROWN, FOREST = "#882255", "#332288", "#8C510A", "#117733"

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
_PLACES = ("", "left", "right", "left below", "right below", "outside")


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


def floor(ax: Axes, value: float, label: str, *, inside: str = "", **style: Any) -> None:
    """A horizontal line at the best value that any method could reach.

    Parameters
    ----------
    ax : matplotlib Axes
    value : float
    label : str
        For the legend, or with `inside` for a place at the line.
    inside : {"", "left", "right", "left below", "right below", "outside"}
        At which end the label is written, above the line or below it; or beyond its right end.
    **style
        For the line, which is dashed and grey.
    """
    _check_axes(ax)
    value = check_number("value", value)
    check_kind("label", label, str, "text")
    if not isinstance(inside, str) or inside not in _PLACES:
        raise ValueError(f"inside is {shown(inside)}; expected one of {', '.join(map(repr, _PLACES))}")
    look: dict[str, Any] = {"color": "0.35", "linestyle": (0, (5, 3)), "linewidth": 1.2, "zorder": 2} | style
    ax.axhline(value, label=f"_{label}" if inside else label, **look)
    if inside:
        end, _, side = inside.partition(" ")
        place, offset = (float(end != "left"), value), (-2 if end == "right" else 2, -2 if side else 1)
        words: Any = dict(
            ha=end, va="top" if side else "bottom", fontsize=plt.rcParams["legend.fontsize"], color="0.25"
        )
        if end == "outside":
            words |= dict(ha="left", va="center", annotation_clip=False)
        ax.annotate(label, place, offset, xycoords=ax.get_yaxis_transform(), textcoords="offset points", **words)


def dots(
    ax: Axes,
    runs: Mapping[str, ArrayLike],
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    digits: int = 0,
) -> None:
    """The median of each as a dot with the range of its runs, one row each, from the top down, with its name.

    Parameters
    ----------
    ax : matplotlib Axes
    runs : mapping of str to array_like of numbers
        By name, one value per seed.
    styles : mapping of str to dict, optional
        By name, as in `METHODS`, which is the default.
    digits : int, default 0
        Significant digits of the median, written beside its row; none by default.
    """
    _check_axes(ax)
    digits = check_integer("digits", digits, at_least=0, at_most=17)
    given = check_mapping("runs", runs, "a mapping of names to values, one for each seed")
    styles = METHODS if styles is None else check_mapping("styles", styles, "a mapping of names to styles of lines")
    for row, (name, values) in enumerate(given.items()):
        ends = check_real("runs", values).ravel()
        if not ends.size:
            raise ValueError(f"runs has no values for {shown(name)}; expected one for each seed")
        style: dict[str, Any] = {"color": BLUE, "marker": "o"} | dict(styles.get(name, {}))
        ax.hlines(row, ends.min(), ends.max(), color=style["color"], linewidth=2, alpha=0.8)
        ax.plot(np.median(ends), row, **style | {"linestyle": "none"})
        if digits:
            words: Any = dict(textcoords="offset points", va="center", fontsize=plt.rcParams["legend.fontsize"])
            words |= dict(xycoords=ax.get_yaxis_transform(), annotation_clip=False, color=ink(style["color"]))
            ax.annotate(f"{np.median(ends):.{digits}g}", (1.0, row), (4, 0), **words)
    ax.set_yticks(range(len(given)), list(map(str, given)))
    ax.set_ylim(len(given) - 0.5, -0.5)


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
    rows: Sequence[str] = (),
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
    rows : sequence of str, optional
        What stands to the left of each row; only the first row has titles then.
    **options
        Passed to ``imshow`` of every picture (for example ``vmin`` and ``vmax``).
    """
    grey = [check_array("pictures", picture, ndim=2) for picture in check_sequence("pictures", pictures, "pictures")]
    titles = check_sequence("titles", titles, "a sequence of texts, one for each picture")
    names = check_sequence("rows", rows, "a sequence of texts, one for each row")
    if not grey or 0 in grey[0].shape or len(titles) != len(grey):
        raise ValueError(f"pictures has {len(grey)} entries and titles {len(titles)}; expected as many, not empty")
    columns = len(grey) if columns is None else check_integer("columns", columns)
    count = -(-len(grey) // columns)
    shape = grey[0].shape
    width = check_number("width", width, above=0)
    height = width * shape[0] / shape[1] + (0.05 if names else 0.3)
    figure: Figure
    figure, axes = panels(columns, count, width=width, height=height, squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for number, (ax, picture, title) in enumerate(zip(axes.flat, grey, titles, strict=False)):
        ax.imshow(picture, **options)
        ax.set_title("" if names and number >= columns else title)
    for ax, name in zip(axes[:, 0], names, strict=False):
        ax.text(-0.15, 0.5, name, transform=ax.transAxes, ha="right", va="center")
    return figure


def _check_axes(ax: Any) -> Axes:
    found: Axes = check_kind("ax", ax, Axes, "matplotlib Axes")
    return found
