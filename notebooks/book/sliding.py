"""Sliders: pictures that are drawn beforehand, and a page of plain script that asks no other host."""

import io
import json
from base64 import b64encode
from pathlib import Path
from string import Template

import matplotlib.pyplot as plt
from IPython.display import publish_display_data
from PIL import Image

__all__ = ["slide"]

PAGES = Path(__file__).parent / "pages"


def page(name: str, **values) -> str:
    """Fill in one of the pages of HTML; what is not a text is written as JSON."""
    words = {
        key: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for key, value in values.items()
    }
    return Template((PAGES / name).read_text(encoding="utf-8")).substitute(words)


def slide(name, figures, values, label, *, first=0, width=640, colours=48) -> None:
    """Show one of several figures, which a slider chooses, in Jupyter and on the site.

    Parameters
    ----------
    name : str
        Its name within the page.
    figures : iterable of matplotlib.figure.Figure
        One for each value; they are closed.
    values : list of str
        What the slider shows.
    label : str
        What the slider changes.
    first : int, default=0
        The figure that is seen first; the only one where scripts do not run.
    width : int, default=640
        Of the pictures, in pixels.
    colours : int, default=48
        Of the palette of each picture, which keeps them small.
    """
    images = []
    for number, (figure, value) in enumerate(zip(figures, values, strict=True)):
        words = figure.get_label() or f"{label} {value}"
        look = "block" if number == first else "none"
        source = b64encode(png(figure, width, colours)).decode()
        images.append(
            f'<img alt="{words}" style="display: {look}; max-width: 100%" '
            f'src="data:image/png;base64,{source}">'
        )
    text = page(
        "slide.html",
        id=f"fgmp-{name}",
        label=label,
        names=list(values),
        first=str(first),
        last=str(len(images) - 1),
        images="\n".join(images),
    )
    publish_display_data({"text/html": text, "text/plain": f"A slider: {label}"})


def png(figure, width: int, colours: int) -> bytes:
    """Draw a figure as a PNG of some width in pixels, with a palette; close it."""
    raw, small = io.BytesIO(), io.BytesIO()
    figure.savefig(raw, dpi=width / figure.get_figwidth())
    plt.close(figure)
    with Image.open(raw) as image:
        image.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(
            small, "PNG", optimize=True
        )
    return small.getvalue()
