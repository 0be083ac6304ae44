"""Maps of differences: a colour and a number in each cell, red where the first is ahead and blue where it is behind."""

import numpy as np

from .figures import panels

__all__ = ["draw_differences", "maps"]

MISSING = "0.88"


def draw_differences(ax, cells, rows, columns, limit=0.1):
    """Draw a table of differences, each an array with a value for each seed, which may be empty.

    A cell has the median, and below it half the range over the seeds if there are several. Colours are
    full at `limit` on either side of zero, which is white. Returns the picture, for a colour bar.
    """
    medians = np.full((len(rows), len(columns)), np.nan)
    for place, values in np.ndenumerate(cells):
        if len(values):
            medians[place] = np.median(values)
    picture = ax.imshow(medians, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    ax.set_facecolor(MISSING)
    ax.grid(False)
    for (row, column), values in np.ndenumerate(cells):
        if not len(values):
            continue
        colour = "white" if abs(np.median(values)) > 0.7 * limit else "black"
        # It lies within its cell, so that no margin depends on it.
        centred = {"ha": "center", "color": colour, "in_layout": False}
        ax.text(column, row - 0.02, signed(np.median(values)), va="bottom", fontsize=9, **centred)
        if len(values) > 1:
            half = signed(np.ptp(values) / 2).lstrip("+")
            ax.text(column, row + 0.06, f"± {half}", va="top", fontsize=7, **centred)
    names = [one if isinstance(one, str) else f"{one:g}" for one in columns]
    ax.set_xticks(range(len(columns)), names, fontsize=8)
    ax.set_yticks(range(len(rows)), list(map(str, rows)))
    ax.tick_params(length=0)
    return picture


def signed(value: float) -> str:
    """A difference of accuracies in three decimals, with its sign: +.015."""
    text = f"{value:+.3f}".replace("0.", ".", 1)
    return text if float(text) else ".000"


def maps(found, rows, *, across=2, xlabel, ylabel, title, width=3.75, height=2.5):
    """Draw maps of differences with a colour bar; returns the figure.

    `found` has for each title the cells of a map and the names of its columns. `xlabel` is one text,
    or one for each map.
    """
    size = {"width": width, "height": height, "squeeze": False, "sharey": True}
    figure, axes = panels(across, -(-len(found) // across), **size)
    words = [xlabel] * len(found) if isinstance(xlabel, str) else xlabel
    for ax, (name, (cells, columns)), below in zip(axes.flat, found.items(), words, strict=False):
        picture = draw_differences(ax, cells, rows, columns)
        ax.set(title=name, xlabel=below)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    for ax in axes.flat[len(found) :]:
        ax.axis("off")
    figure.colorbar(picture, ax=axes, label=title, extend="both", aspect=30, shrink=0.8)
    return figure
