"""Runs with other parameters that are kept: what differs from the committed notebook, and the records of all claims.

notebooks/paper.yaml lists them, each by its name: that of the notebook, and a label behind a hyphen.
"""

import json
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import jupytext
import nbformat

from . import ledger, pairs, running
from .claims import VERDICTS

PAPER = pairs.NOTEBOOKS / "paper.yaml"
VERDICT = re.compile(rf"^\[({'|'.join(VERDICTS)})\] ")


@dataclass(frozen=True)
class PaperRun:
    """A run of a notebook: a kept one, with the parameters of its entry, or one with its own parameters."""

    source: Path
    label: str
    parameters: dict

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.source.stem}-{self.label}" if self.label else self.source.stem


def kept_runs(file: Path = PAPER) -> list[PaperRun]:
    """The kept runs, in the order of the file that lists them."""
    found = []
    for name, parameters in running.read_entries(file).items():
        notebook, _, label = name.partition("-")
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", label):
            raise ValueError(
                f"{file} has an entry {name}; expected NOTEBOOK-LABEL, the label in small letters"
            )
        found.append(PaperRun(pairs.find(notebook), label, parameters))
    return found


def paper_runs(names=(), file: Path = PAPER) -> list[PaperRun]:
    """All runs at the sizes of the paper, or those of some notebooks, or with some names: the kept ones first."""
    kept = kept_runs(file)
    with_entry = {run.source for run in kept}
    sources = sorted(pairs.NOTEBOOKS.glob("[0-9]*.py"))
    runs = kept + [PaperRun(source, "", {}) for source in sources if source not in with_entry]
    if not names:
        return runs
    by_name = {run.name: [run] for run in runs}
    chosen = []
    for name in names:
        source = None if name in by_name else pairs.find(name)
        chosen += by_name.get(name) or [run for run in runs if run.source == source]
    return chosen


def outdated(file: Path = PAPER, results: Path | None = None) -> list[str]:
    """The kept runs that are not of the notebooks as they are, nor with the parameters that are listed; and why."""
    results = results or ledger.RESULTS
    found = []
    for run in kept_runs(file):
        record = results / f"{run.name}.json"
        if not (record.exists() and record.with_suffix(".ipynb").exists()):
            found.append(f"{run.name}: it is not there")
            continue
        kept = json.loads(record.read_text(encoding="utf-8"))
        if kept["given_parameters"] != run.parameters:
            found.append(f"{run.name}: its parameters are others in {file.name}")
        elif kept.get("code") != running.digest(running.code_of(run.source)):
            found.append(f"{run.name}: the code of its notebook changed since")
    listed = {run.name for run in kept_runs(file)}
    there = {path.stem for path in results.glob("*-*.*")}
    return found + [f"{name}: {file.name} does not list it" for name in sorted(there - listed)]


def keep(run: PaperRun, output: Path) -> None:
    """Write results/NAME.ipynb and .json from the executed notebook of a run."""
    executed = pairs.read(output)
    about = {
        "given_parameters": run.parameters,
        "code": running.digest(running.code_of(run.source)),
        "versions": {one: version(one) for one in ("fgmp", "numpy", "scipy")},
    }
    ledger.write(run.name, executed, **about)
    notebook = in_todays_words(executed, run.source)
    for cell in notebook.cells:  # links as seen from the folder of results
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?!https?:|#)", "](../", cell.source).replace(
                "](../results/", "]("
            )
    usual = pairs.read(run.source.with_suffix(".ipynb"))
    cut(notebook, usual, run)
    nbformat.write(pairs.normalise(notebook), ledger.RESULTS / f"{run.name}.ipynb")


def in_todays_words(executed, source: Path):
    """The notebook with its text as it is, and the outputs of a run of the same code."""
    notebook = pairs.normalise(jupytext.read(source))
    outputs = [
        cell
        for cell in pairs.normalise(executed).cells
        if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, with_output in zip(code, outputs, strict=True):
        cell.outputs = with_output.outputs
        cell.execution_count = with_output.execution_count
    return notebook


def seen(cell) -> list:
    """What a cell shows, as it can be compared: printed text as one, then the data of each output."""
    outputs = cell.get("outputs", [])
    text = "".join(output["text"] for output in outputs if "text" in output)
    return [text, *(dict(output["data"]) for output in outputs if "data" in output)]


def cut(notebook, usual, run: PaperRun) -> None:
    """Leave, in place, the cells with another output than usual and all claims, with their headings and captions."""
    stem = run.source.stem
    usually = [(cell.source, seen(cell)) for cell in usual.cells if cell.cell_type == "code"]
    title = notebook.cells[0].source.partition("\n")[0]
    values = ", ".join(f"`{name}: {value}`" for name, value in run.parameters.items())
    words = f"This is another run of [{stem}](../{stem}.ipynb), with {values}. Here stand the cells whose output "
    words += (
        "differs from that notebook, and all verdicts; its words, and everything else, are there."
    )
    kept, heading = [nbformat.v4.new_markdown_cell(f"{title} ({run.label})\n\n{words}")], ""
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
