"""The sources of the site, from what the repository holds: documents, notebooks as committed, claims, the module.

    site_sources.py FOLDER [--repository ADDRESS] [--without-animations]

Nothing is executed but the small runs of the animations. Sphinx then makes pages of the folder, see docs/conf.py.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import ledger
import nbformat
import site_animations
import site_claims
import site_reference
from site_links import Links
from site_notebooks import after_first_cell, as_page, parameter_table, title

ROOT = Path(__file__).resolve().parents[1]
TITLES = {
    "README.md": "the first page",
    "ERRATA.md": "the errata",
    "CLAIMS.md": "the claims",
    "CONTRIBUTING.md": "contributing",
    "FAULTS.md": "the faults",
}
DOCUMENTS = {
    "README.md": "index.md",
    "ERRATA.md": "ERRATA.md",
    "CLAIMS.md": "CLAIMS.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "FAULTS.md": "FAULTS.md",
    "benchmarks/README.md": "benchmarks/README.md",
    "data/README.md": "data/README.md",
    "examples/hospitals/README.md": "examples/hospitals/README.md",
}


def notebooks(root: Path) -> list[str]:
    """The committed notebooks, in the order of their numbers, and the kept runs after them."""
    return [
        str(path.relative_to(root))
        for pattern in ("notebooks/[0-9][0-9]_*.ipynb", "notebooks/results/[0-9][0-9]_*.ipynb")
        for path in sorted(root.glob(pattern))
    ]


def entry(root: Path, name: str) -> str:
    """One line of the table of contents: a notebook by its number and the first words of its title."""
    page = Path(name).with_suffix("").as_posix()
    if not name.endswith(".ipynb"):
        return page
    stem, _, kept = Path(name).stem.partition("-")
    words = title(nbformat.read(root / name, as_version=4)).removesuffix(f" ({kept})").partition(":")[0]
    return f"{stem.partition('_')[0]} · {words}{f' ({kept})' if kept else ''} <{page}>"


def contents(root: Path, books: list[str]) -> str:
    """The table of contents, which the first page holds and the sidebar shows."""
    parts = {
        "The book": [book for book in books if "/results/" not in book],
        "Other runs": [book for book in books if "/results/" in book],
        "What came out": ["CLAIMS.md", "ERRATA.md", "benchmarks/README.md"],
        "The module": ["reference/index", "parameters.md", "FAULTS.md", "examples/hospitals/README.md"],
        "Working on it": ["CONTRIBUTING.md", "data/README.md"],
    }
    text = ""
    for caption, names in parts.items():
        pages = "\n".join(entry(root, name) for name in names)
        text += f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{pages}\n```\n"
    return text


def write_notebooks(root: Path, target: Path, links: Links, books: list[str], runs: list[ledger.Run]) -> None:
    """Notebooks as pages, each kept run linked with the notebook that it is a run of, and the page of parameters."""
    records = {run.name: {claim.id: claim for claim in run.claims} for run in runs}
    listed = {(run.name, claim.id) for run, claim in ledger.distinct(runs)}
    tables = ""
    for place in books:
        notebook = nbformat.read(root / place, as_version=4)
        table = os.path.relpath("CLAIMS.html", os.path.dirname(place))
        stem = Path(place).stem.partition("-")[0]
        run = Path(place).stem
        # What a kept run only repeats has its row under the committed notebook.
        found = records.get(run, {})
        rows = {name: f"{table}#{run if (run, name) in listed else stem}-{name}" for name in found}
        as_page(notebook, place, links, found, rows)
        if "/results/" not in place:
            if animation := site_animations.page_text(place, target):
                after_first_cell(notebook, animation)
            if parameters := parameter_table(notebook):
                tables += f"\n## {title(notebook)}\n\n[{stem}]({place})\n\n{parameters}\n"
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target / place)
    said = (
        "# Parameters of the notebooks\n\nEach can be changed with `fgmp run`, `fgmp sweep` or papermill; a value"
        " outside of its range stops in the first cell, with one line that names it.\n"
    )
    (target / "parameters.md").write_text(said + tables, encoding="utf-8")


def write(root: Path, target: Path, repository: str = "", animations: bool = True) -> None:
    """Write all sources of the site into a folder, which is emptied first."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in (root / "docs").glob("*.*"):
        if path.name in ("conf.py",) or path.suffix in (".css", ".js"):
            folder = target if path.suffix == ".py" else target / "_static"
            folder.mkdir(exist_ok=True)
            shutil.copy(path, folder / path.name)
    books = notebooks(root)
    pages = DOCUMENTS | {book: book for book in books}
    links = Links(root, pages, site_reference.places(root / "fgmp"), repository, TITLES)
    if animations:
        site_animations.write(target, books)
    runs = ledger.runs(root / "notebooks" / "results")
    write_notebooks(root, target, links, books, runs)
    for place, page in DOCUMENTS.items():
        text = links.moved((root / place).read_text(encoding="utf-8"), place)
        if place == "CLAIMS.md":
            text = site_claims.page(runs)
        if place == "README.md":
            text += contents(root, books)
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(text, encoding="utf-8")
    for name in links.files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)
    site_reference.write(root / "fgmp", target)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, metavar="FOLDER")
    parser.add_argument("--repository", default="", metavar="ADDRESS", help="where files of the repository are shown")
    parser.add_argument("--without-animations", action="store_true")
    arguments = parser.parse_args()
    write(ROOT, arguments.target, arguments.repository, not arguments.without_animations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
