"""The figures of the paper by number: which cells draw each, and what they draw as files.

A cell that draws Figure 3 has the tag figure-3; one of several, such as figure-8-mean, has a word behind it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from . import pairs, running

TAG = re.compile(r"figure-(\d+)(?:-[a-z]+)?")
CAPTION = re.compile(r"\A\*[^*].*?(?=\n\n|\Z)", re.DOTALL)
ENDINGS = ("png", "pdf")


@dataclass(frozen=True)
class PaperFigure:
    """A cell that draws a figure of the paper, or a part of it.

    Parameters
    ----------
    number : int
        The number of the figure in the paper.
    tag : str
        The tag of the cell.
    source : Path
        The .py half of the notebook.
    place : int
        Of the cell in the notebook.
    caption : str
        The words in italics below the picture.
    alt : str
        What the picture shows, for those who cannot see it.
    picture : bytes
        PNG, as it is committed.
    """

    number: int
    tag: str
    source: Path
    place: int
    caption: str
    alt: str
    picture: bytes


def paper_figures(folder: Path = pairs.NOTEBOOKS) -> list[PaperFigure]:
    """Return all of them in the order of their numbers, as the notebooks of a folder are committed."""
    found = [one for path in sorted(folder.glob("[0-9]*.ipynb")) for one in _figures_of(path)]
    return sorted(found, key=lambda one: (one.number, one.source, one.place))


def _figures_of(path: Path) -> Iterator[PaperFigure]:
    notebook = pairs.read(path)
    for place, cell in enumerate(notebook.cells):
        for tag in cell.metadata.get("tags", []):
            if named := TAG.fullmatch(tag):
                caption = CAPTION.match(notebook.cells[place + 1].source)
                [drawn] = [one for one in cell.outputs if "image/png" in one.get("data", {})]
                yield PaperFigure(
                    int(named[1]),
                    tag,
                    path.with_suffix(".py"),
                    place,
                    caption[0] if caption else "",
                    drawn.metadata["image/png"]["alt"],
                    pairs.picture(notebook, tag),
                )


def draw(
    number: int, out: Path, parameters: dict, folder: Path = pairs.NOTEBOOKS
) -> tuple[list[Path], str]:
    """Run a notebook up to the cells of a figure; return the files, and what stopped it, if anything.

    The files are PNG and PDF, and have the tag of the cell as their name.
    """
    figures = [one for one in paper_figures(folder) if one.number == number]
    if not figures:
        numbers = {one.number for one in paper_figures(folder)}
        raise ValueError(f"figure {number} is not there; expected one of {sorted(numbers)}")
    source = figures[0].source
    running.check_names(source, parameters)
    notebook = running.unexecuted(source, parameters)
    notebook.cells = notebook.cells[: figures[-1].place + 1]
    for one in figures:
        stem = str(out.absolute() / one.tag)
        notebook.cells[
            one.place
        ].source += f"\n\nfrom book.paper_figures import save\nsave({stem!r})"
    output = out / f"{source.stem}.ipynb"
    stopped = running.execute(notebook, source.parent, output, parameters, alone=True)
    files = [out / f"{one.tag}.{ending}" for one in figures for ending in ENDINGS]
    return ([] if stopped else files), stopped


def save(stem: str) -> None:
    """Write the figure that was drawn last as PNG, with dots for print, and as PDF."""
    for ending in ENDINGS:
        plt.gcf().savefig(f"{stem}.{ending}", dpi=300, bbox_inches="tight")
