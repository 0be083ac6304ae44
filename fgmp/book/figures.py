"""One style for all figures, and the few kinds of figure that the notebooks share.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; every curve also has a marker of its
own. A method keeps its colour and marker in all notebooks, and FedGradMP is the strongest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

__all__ = ["METHODS", "curve", "floor", "gradation", "images", "panels", "use_style"]

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

WINE = "#882255"  # of Tol's muted colours; yellow is too pale for a line

METHODS: dict[str, dict[str, Any]] = {
    "FedGradMP": {"color": VERMILLION, "marker": "o", "linewidth": 2.4, "zorder": 5},
    "SharedSupportGradMP": {"color": WINE, "marker": "*", "markersize": 8, "linewidth": 2.4, "zorder": 6},
    "FedIterHT": {"color": BLUE, "marker": "s"},
    "FedHT": {"color": SKY, "marker": "D"},
    "FedAvg": {"color": BLACK, "marker": "^"},
    "FedMid": {"color": GREEN, "marker": "v"},
    "FedDualAvg": {"color": PURPLE, "marker": "P"},
    "FastFedDualAvg": {"color": ORANGE, "marker": "X"},
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
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows), **options)


def gradation(count: int) -> list[dict[str, Any]]:
    """Colours from light to dark with distinct markers, for the values of one ordered parameter."""
    shades = plt.get_cmap("viridis_r")(np.linspace(0.12, 0.95, count))
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
    x, runs = np.asarray(x), np.atleast_2d(np.asarray(runs, dtype=float))
    median: NDArray[Any] = np.median(runs, axis=0)
    (line,) = ax.plot(x, median, label=label, **style)
    low, high = np.percentile(runs, band, axis=0)
    ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1)
    return median


def floor(ax: Axes, value: float, label: str) -> None:
    """A horizontal line at the best value that any method could reach."""
    ax.axhline(value, color="0.35", linestyle=(0, (5, 3)), linewidth=1.2, label=label, zorder=2)


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
    columns = columns or len(pictures)
    rows = -(-len(pictures) // columns)
    shape = np.shape(pictures[0])
    height = width * shape[0] / shape[1] + 0.3
    figure: Figure
    figure, axes = panels(columns, rows, width=width, height=height, squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, picture, title in zip(axes.flat, pictures, titles, strict=False):
        ax.imshow(picture, **options)
        ax.set_title(title)
    return figure
