"""Runs with other parameters that are kept: what differs from the committed notebook, and the records of all claims."""

import re
from importlib.metadata import version
from pathlib import Path

import nbformat

from . import ledger, pairs, running
from .claims import VERDICTS

VERDICT = re.compile(rf"^\[({'|'.join(VERDICTS)})\] ")


def keep(name: str, file: Path, build: Path) -> str:
    """Write NAME-DATASET.ipynb and .json (NAME-more-seeds without data, NAME-FILE for a file of another name)."""
    parameters = running.read_parameters(file)
    if name not in parameters:
        raise ValueError(f"{file} has no parameters of {name}; it has: {', '.join(parameters)}")
    given = parameters[name]
    label = (
        given.get("dataset", given.get("digits", "more-seeds"))
        if file.stem == "paper"
        else file.stem
    )
    executed = pairs.read(build / f"{name}.ipynb")
    about = {
        "given_parameters": given,
        "versions": {one: version(one) for one in ("fgmp", "numpy", "scipy")},
    }
    ledger.write(f"{name}-{label}", executed, **about)
    notebook = pairs.normalise(executed)
    for cell in notebook.cells:  # links as seen from the folder of results
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?!https?:|#)", "](../", cell.source).replace(
                "](../results/", "]("
            )
    cut(notebook, pairs.read(pairs.NOTEBOOKS / f"{name}.ipynb"), name, label, given)
    nbformat.write(pairs.normalise(notebook), ledger.RESULTS / f"{name}-{label}.ipynb")
    return f"kept {name}-{label}"


def seen(cell) -> list:
    """What a cell shows, as it can be compared: printed text as one, then the data of each output."""
    outputs = cell.get("outputs", [])
    text = "".join(output["text"] for output in outputs if "text" in output)
    return [text, *(dict(output["data"]) for output in outputs if "data" in output)]


def cut(notebook, usual, stem: str, label: str, given: dict) -> None:
    """Leave, in place, the cells with another output than usual and all claims, with their headings and captions."""
    usually = [(cell.source, seen(cell)) for cell in usual.cells if cell.cell_type == "code"]
    title = notebook.cells[0].source.partition("\n")[0].removesuffix(f" ({label})")
    values = ", ".join(f"`{name}: {value}`" for name, value in given.items())
    words = f"This is another run of [{stem}](../{stem}.ipynb), with {values}. Here stand the cells whose output "
    words += (
        "differs from that notebook, and all verdicts; its words, and everything else, are there."
    )
    kept, heading = [nbformat.v4.new_markdown_cell(f"{title} ({label})\n\n{words}")], ""
    for cell, after in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        claims_something = any(VERDICT.match(one.get("text/plain", "")) for one in seen(cell)[1:])
        if cell.cell_type == "markdown":
            heading = [heading, *re.findall(r"^## .+$", cell.source, flags=re.MULTILINE)][-1]
        elif any(seen(cell)) and ((cell.source, seen(cell)) not in usually or claims_something):
            kept += [nbformat.v4.new_markdown_cell(heading)] if heading else []
            text = (
                after.source.strip() if after is not None and after.cell_type == "markdown" else ""
            )
            caption = re.findall(r"\A\*[^*].*?(?=\n\n|\Z)", text, flags=re.DOTALL)
            kept += [cell, *map(nbformat.v4.new_markdown_cell, caption)]
            heading = ""
    notebook.cells = kept
