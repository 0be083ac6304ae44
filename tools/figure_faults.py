"""Find what a reader could not read in a figure: axes without labels, pale lines, small text.

A cell of `HOOK` at the begin of a notebook writes the faults of all its figures to a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

PAGE_WIDTH = 7.5  # inches
MIN_FONT_SIZE = 5.5  # points, at the width of a page
MIN_CONTRAST = 2.9  # of a line to white

HOOK = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from figure_faults import faults
from IPython.core import pylabtools
def reporting(draw, faults):
    def print_figure(figure, *args, **options):
        with open({{target!r}}, "a") as report:
            report.writelines(f"{{{{fault}}}}\\n" for fault in faults(figure))
        return draw(figure, *args, **options)
    return print_figure
pylabtools.print_figure = reporting(pylabtools.print_figure, faults)
"""


def contrast_to_white(colour: object, alpha: float = 1.0) -> float:
    """Return the contrast of a colour to white, through which white shines if alpha is below 1.

    The formula is the one of the Web Content Accessibility Guidelines.
    """
    channels = 1 - alpha * (1 - np.array(to_rgb(colour)))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return float(1.05 / (luminance + 0.05))


def faults(figure: Figure) -> list[str]:
    """Return the faults of a figure, one in a line."""
    return [*_faults_of_axes(figure), *_faults_of_text(figure)]


def _faults_of_axes(figure: Figure) -> Iterator[str]:
    """Yield the faults of all axes, with the place of each."""
    visible = [ax for ax in figure.axes if ax.get_visible() and ax.axison]
    for number, ax in enumerate(visible):
        title = ax.get_title() or "no title"
        width = figure.get_figwidth()
        place = f"axes {number} ({title}) of a figure {width:.1f} inches wide"
        if hasattr(ax, "_colorbar"):
            problems = _problems_of_colour_bar(ax)
        else:
            problems = [*_problems_of_lines(ax), *_problems_of_labels(figure, ax)]
        for problem in problems:
            yield f"{place}: {problem}"


def _problems_of_colour_bar(ax: Axes) -> list[str]:
    """Return the missing label of a colour bar."""
    label = ax.get_xlabel() or ax.get_ylabel() or ax.get_title()
    return [] if label else ["the colour bar has no label"]


def _problems_of_lines(ax: Axes) -> Iterator[str]:
    """Yield the lines that are too pale."""
    for line in ax.get_lines():
        contrast = contrast_to_white(line.get_color(), _alpha_of(line))
        if line.get_visible() and contrast < MIN_CONTRAST:
            yield f"the line {line.get_label()!r} has a contrast of {contrast:.2g}"


def _alpha_of(line: Line2D) -> float:
    """Return the opacity of a line; that of points counts as 1, because they may overlap."""
    if line.get_linestyle() == "None":
        return 1.0
    return line.get_alpha() or 1.0


def _problems_of_labels(figure: Figure, ax: Axes) -> Iterator[str]:
    """Yield the directions of which the axis has no label."""
    shared_axes = {"x": ax.get_shared_x_axes(), "y": ax.get_shared_y_axes()}
    for direction, shared in shared_axes.items():
        siblings = shared.get_siblings(ax)
        axis = getattr(ax, f"{direction}axis")
        if not axis.get_visible() or not len(axis.get_ticklocs()):
            continue
        siblings = [*siblings, *_in_line_with(figure, ax, direction)]
        if not _has_label(figure, siblings, direction) and not _has_names(siblings, direction):
            yield f"the {direction} axis has no label"


def _in_line_with(figure: Figure, ax: Axes, direction: str) -> Iterator[Axes]:
    """Yield the axes in the same row, for the y direction, or in the same column of panels."""
    spec = ax.get_subplotspec()
    for other in figure.axes:
        place = other.get_subplotspec()
        if spec is None or place is None or place.get_gridspec() is not spec.get_gridspec():
            continue
        if direction == "y" and place.rowspan == spec.rowspan:
            yield other
        if direction == "x" and place.colspan == spec.colspan:
            yield other


def _has_label(figure: Figure, siblings: list[Axes], direction: str) -> bool:
    """Return whether the figure, or one of the axes that share a direction, has a label for it.

    In a row of panels the label of one holds for all, and so it does in a column.
    """
    labels = [getattr(ax, f"get_{direction}label")() for ax in siblings]
    labels.append(getattr(figure, f"get_sup{direction}label")())
    return any(labels)


def _has_names(siblings: list[Axes], direction: str) -> bool:
    """Return whether the ticks of a direction are words, which need no label."""
    ticks = [
        tick.get_text()
        for ax in siblings
        for tick in getattr(ax, f"{direction}axis").get_ticklabels()
    ]
    texts = [text for text in ticks if text]
    return bool(texts) and all(re.search(r"[^\W\d_]", text) for text in texts)


def _faults_of_text(figure: Figure) -> Iterator[str]:
    """Yield the smallest text if it is too small on a page."""
    scale = min(1.0, PAGE_WIDTH / figure.get_figwidth())
    sizes = {
        round(text.get_fontsize() * scale, 1): text.get_text()
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip()
    }
    smallest = min(sizes, default=MIN_FONT_SIZE)
    if smallest < MIN_FONT_SIZE:
        yield (
            f"text {sizes[smallest]!r} has {smallest} points on a page; expected {MIN_FONT_SIZE}"
        )
