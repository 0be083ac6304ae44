"""Keep the notebooks of a run at the paper's sizes: from build/paper into notebooks/results, with their numbers.

    keep_results.py 06_digits_by_writer 07_gaussian_dictionary_digits
    keep_results.py --parameters notebooks/few-pixels.yaml 07_gaussian_dictionary_digits

Each becomes NAME-DATASET.ipynb, which holds what differs from the committed notebook: the cells with another output,
and all claims. NAME-DATASET.json beside it has the parameters given, the versions, and the claims with the value of
every seed (NAME-more-seeds where no data set is given, and NAME-FILE for parameters from another file than paper.yaml).
`make paper`, or run_notebooks.py with that file, must have run them. CLAIMS.md is written anew.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import ledger
import nbformat
import yaml
from nbformat import NotebookNode
from normalise import normalise, printed

from fgmp.book.claims import printed_claims, read_claims

ROOT = Path(__file__).resolve().parents[1]
PAPER = ROOT / "notebooks" / "paper.yaml"
RESULTS = ROOT / "notebooks" / "results"


def moved(notebook: NotebookNode) -> None:
    """Links as seen from the folder of results, in place."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?!https?:|#)", "](../", cell.source).replace("](../results/", "](")


def shown(cell: NotebookNode) -> list[object]:
    """What a cell shows, as it can be compared: printed text as one, then the data of each output."""
    outputs = cell.get("outputs", [])
    text = "".join(output["text"] for output in outputs if "text" in output)
    return [text, *(dict(output["data"]) for output in outputs if "data" in output)]


def caption(cell: NotebookNode | None) -> str:
    """The line under a figure, if a cell of text begins with one."""
    if cell is None or cell.cell_type != "markdown":
        return ""
    first = cell.source.strip().partition("\n\n")[0]
    return first if re.match(r"\*[^*]", first) else ""


def different(notebook: NotebookNode, usual: NotebookNode, stem: str, label: str, given: dict[str, object]) -> None:
    """Leave what differs from the committed notebook, in place: cells with another output, claims, their headings."""
    usually = [(cell.source, shown(cell)) for cell in usual.cells if cell.cell_type == "code"]
    title = notebook.cells[0].source.partition("\n")[0].removesuffix(f" ({label})")
    values = ", ".join(f"`{name}: {value}`" for name, value in given.items())
    words = (
        f"This is another run of [{stem}](../{stem}.ipynb), with {values}. Here stand the cells whose output differs"
    )
    words += " from that notebook, and all verdicts; its words, and everything else, are there."
    kept = [nbformat.v4.new_markdown_cell(f"{title} ({label})\n\n{words}")]
    heading = ""
    for cell, after in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if cell.cell_type == "markdown":
            found = re.findall(r"^## .+$", cell.source, flags=re.MULTILINE)
            heading = found[-1] if found else heading
        elif any(shown(cell)) and ((cell.source, shown(cell)) not in usually or "| expected: " in str(shown(cell)[0])):
            texts = [heading] if heading else []
            kept += [nbformat.v4.new_markdown_cell(text) for text in texts] + [cell]
            kept += [nbformat.v4.new_markdown_cell(text) for text in [caption(after)] if text]
            heading = ""
    notebook.cells = kept


def cut(run: str) -> None:
    """Leave in a kept notebook what differs from the committed one as it is now."""
    path = RESULTS / f"{run}.ipynb"
    stem, _, label = run.partition("-")
    notebook, usual = (nbformat.read(one, as_version=4) for one in (path, ROOT / "notebooks" / f"{stem}.ipynb"))
    given = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["given_parameters"]
    different(notebook, usual, stem, label, given)
    normalise(notebook)
    nbformat.write(notebook, path)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="notebooks of notebooks/paper.yaml")
    parser.add_argument("--parameters", type=Path, default=PAPER, metavar="FILE", help="what they were run with")
    parser.add_argument("--cut", action="store_true", help="cut down what is kept already, by the names of those files")
    arguments = parser.parse_args()
    if arguments.cut:
        for name in arguments.names:
            cut(name)
        return 0
    build, given = ROOT / "build" / arguments.parameters.stem, yaml.safe_load(arguments.parameters.read_text())
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.names:
        source, claims = build / f"{name}.ipynb", {c.id: c for c in read_claims(build / "claims") if c.notebook == name}
        if not source.is_file() or not claims:
            sys.exit(f"{name} is not in {build.relative_to(ROOT)} with its claims; run: make paper NB={name}")
        notebook = nbformat.read(source, as_version=4)
        normalise(notebook)
        moved(notebook)
        of_paper = arguments.parameters.resolve() == PAPER
        data = given[name].get("dataset", given[name].get("digits", "more-seeds"))
        label = data if of_paper else arguments.parameters.stem
        usual = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        different(notebook, usual, name, label, given[name])
        normalise(notebook)
        target = RESULTS / f"{name}-{label}"
        nbformat.write(notebook, target.with_suffix(".ipynb"))
        ordered = [claims[found.id] for found in printed_claims(printed(notebook))]
        about = {"given_parameters": given[name], "versions": ordered[0].versions}
        ledger.write(target.with_suffix(".json"), name, ordered, **about)
        print(f"kept {target.relative_to(ROOT)}.ipynb, {target.with_suffix('.ipynb').stat().st_size / 1e6:.2f} MB")
    ledger.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
