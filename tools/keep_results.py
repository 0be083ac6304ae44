"""Keep the notebooks of a run at the paper's sizes: from build/paper into notebooks/results, with their numbers.

    keep_results.py 06_digits_by_writer 07_gaussian_dictionary_digits
    keep_results.py --parameters notebooks/few-pixels.yaml 07_gaussian_dictionary_digits

Each becomes NAME-DATASET.ipynb, with links that hold one folder further down, and NAME-DATASET.json with the parameters
given, the versions, and the claims with the value of every seed (NAME-more-seeds where no data set is given, and
NAME-FILE for parameters from another file than paper.yaml). `make paper`, or run_notebooks.py with that file, must have
run them. CLAIMS.md is written anew.
"""

import argparse
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


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="notebooks of notebooks/paper.yaml")
    parser.add_argument("--parameters", type=Path, default=PAPER, metavar="FILE", help="what they were run with")
    arguments = parser.parse_args()
    build, given = ROOT / "build" / arguments.parameters.stem, yaml.safe_load(arguments.parameters.read_text())
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.names:
        source, claims = build / f"{name}.ipynb", {c.id: c for c in read_claims(build / "claims") if c.notebook == name}
        if not source.is_file() or not claims:
            sys.exit(f"{name} is not in {build.relative_to(ROOT)} with its claims; run: make paper NB={name}")
        notebook = nbformat.read(source, as_version=4)
        normalise(notebook)
        moved(notebook)
        usual = arguments.parameters.resolve() == PAPER
        label = given[name].get("dataset", "more-seeds") if usual else arguments.parameters.stem
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
