"""What a reader could not read in a figure; a cell of `HOOK` before a notebook writes the faults of all its figures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

PAGE = 7.5  # inches
SMALLEST = 5.5  # points, at the width of a page
PALEST = 2.9  # contrast of a line to white

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
    """As the Web Content Accessibility Guidelines define it, of a colour that lets white shine through."""
    channels = 1 - alpha * (1 - np.array(to_rgb(colour)))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05))


def faults(figure: Figure) -> list[str]:
    """Axes without labels, lines too pale for white, and text that is too small on a page."""
    found = []
    for number, ax in enumerate(one for one in figure.axes if one.get_visible() and one.axison):
        where = f"axes {number} ({ax.get_title() or 'no title'}) of a figure {figure.get_figwidth():.1f} inches wide"
        if hasattr(ax, "_colorbar"):
            bar = ax.get_xlabel() or ax.get_ylabel() or ax.get_title()
            found += [] if bar else [f"{where}: the colour bar has no label"]
            continue
        for line in ax.get_lines():
            alpha = (
                1.0 if line.get_linestyle() == "None" else line.get_alpha() or 1.0
            )  # points may overlap
            if (
                line.get_visible()
                and (contrast := contrast_to_white(line.get_color(), alpha)) < PALEST
            ):
                found.append(
                    f"{where}: the line {line.get_label()!r} has a contrast of {contrast:.2g}"
                )
        for name, shared in (("x", ax.get_shared_x_axes()), ("y", ax.get_shared_y_axes())):
            several, axis = shared.get_siblings(ax), getattr(ax, f"{name}axis")
            labels = [getattr(other, f"get_{name}label")() for other in several]
            labels.append(getattr(figure, f"get_sup{name}label")())
            ticks = [
                tick.get_text()
                for one in several
                for tick in getattr(one, f"{name}axis").get_ticklabels()
            ]
            named = any(ticks) and all(re.search("[^\\W\\d_]", text) for text in ticks if text)
            if axis.get_visible() and len(axis.get_ticklocs()) and not any(labels) and not named:
                found.append(f"{where}: the {name} axis has no label")
    scale = min(1.0, PAGE / figure.get_figwidth())
    texts = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()
    ]
    sizes = {round(text.get_fontsize() * scale, 1): text.get_text() for text in texts}
    if sizes and min(sizes) < SMALLEST:
        found.append(
            f"text {sizes[min(sizes)]!r} has {min(sizes)} points on a page; expected {SMALLEST}"
        )
    return found
