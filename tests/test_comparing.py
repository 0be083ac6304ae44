"""What nbval takes for the same: numbers within a printed tolerance, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest

from book import pairs
from book.comparing import as_committed, plus_minus

ROOT = pairs.NOTEBOOKS.parent
# What a cell prints when it runs, and what stands in the committed notebook.
PRINTS = "error 0.0210 ± 0.0012 in round 7"
SAME = {
    "as it is": PRINTS,
    "within the tolerance": "error 0.0221 ± 0.0012 in round 7",
    "a tolerance of twice the size": "error 0.0210 ± 0.0022 in round 7",
}
OTHER = {
    "outside of the tolerance": "error 0.0235 ± 0.0012 in round 7",
    "a tolerance of ten times the size": "error 0.0210 ± 0.0120 in round 7",
    "a number without a tolerance": "error 0.0210 ± 0.0012 in round 8",
    "a word": "errors 0.0210 ± 0.0012 in round 7",
    "one number less": "error 0.0210 in round 7",
}


def nbval(folder, *paths):
    """Run nbval as `make test` does, and return the outcome of each cell and its properties."""
    report = folder / "report.xml"
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", "sanitize.cfg"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml")]
    command += ["--rootdir", str(ROOT), f"--junitxml={report}", *options, *map(str, paths)]
    # In a folder of its own the kernel finds `book` only if it is told where; agg shows no figure.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    environment["PYTHONPATH"] = str(pairs.NOTEBOOKS)
    run = subprocess.run(
        command, cwd=pairs.NOTEBOOKS, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1, run.stdout
    cells = list(ElementTree.parse(report).iter("testcase"))
    return [
        (cell.find("failure") is None, [one.attrib["value"] for one in cell.iter("property")])
        for cell in cells
    ]


@pytest.mark.parametrize(
    ("committed", "same"),
    [(text, True) for text in SAME.values()] + [(text, False) for text in OTHER.values()],
    ids=[*SAME, *OTHER],
)
def test_text_is_as_committed_where_its_numbers_are_within_their_tolerances(committed, same):
    """The rule by itself."""
    assert (as_committed(PRINTS, committed) == committed) == same


def test_plus_minus_is_the_median_and_two_standard_errors_of_it():
    """Medians of normal samples scatter by half of what is printed."""
    rng = np.random.default_rng(0)
    samples = rng.normal(5, 0.3, (2000, 16))
    number, tolerance = map(float, plus_minus(samples[0]).split(" ± "))
    assert number == pytest.approx(np.median(samples[0]), abs=0.005)
    printed = [float(plus_minus(sample).split(" ± ")[1]) for sample in samples]
    assert np.median(printed) == pytest.approx(2 * np.std(np.median(samples, axis=1)), rel=0.15)
    assert plus_minus([0.25]) == plus_minus([0.25] * 9) == "0.25"


def planted_cells():
    """Cells that print one thing and were committed with another, and whether nbval may pass them."""
    for text in (*SAME.values(), *OTHER.values()):
        cell = nbformat.v4.new_code_cell(f"print({PRINTS!r})")
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text + "\n")]
        yield cell, text in SAME.values()
    lines = ["[holds] first: 3", "[holds] second: 4"]
    shows = "".join(f"\nshow({{'text/plain': {line!r}}}, raw=True)" for line in lines)
    for committed in (lines, [lines[0].replace("holds", "does not hold"), lines[1]], lines[::-1]):
        cell = nbformat.v4.new_code_cell("from IPython.display import display as show" + shows)
        cell.outputs = [
            nbformat.v4.new_output("display_data", {"text/plain": line}) for line in committed
        ]
        yield cell, committed == lines


def planted_notebook():
    """A short notebook of the book, with a wrong number and a changed verdict; and which cells are left."""
    notebook = pairs.read(pairs.find("05").with_suffix(".ipynb"))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    claims = [
        (cell, output)
        for cell in code
        for output in cell.outputs
        if output.get("data", {}).get("text/plain", "").startswith("[")
    ]
    (wrong, first), (changed, second) = claims[0], claims[-1]
    first.data["text/plain"] = re.sub(r"\d(?=\D*$)", "77", first.data["text/plain"])
    second.data["text/plain"] = re.sub(r"\[.+?\]", "[does not hold]", second.data["text/plain"])
    return notebook, [cell is not wrong and cell is not changed for cell in code]


def test_nbval_sees_a_number_outside_its_tolerance_a_changed_verdict_word_and_order(tmp_path):
    """In a notebook with a fault in each cell, and in a copy of one of the book with two."""
    cells, passes = zip(*planted_cells(), strict=True)
    for count, cell in enumerate(cells, start=1):
        cell.execution_count = count
    copy, left = planted_notebook()
    for name in ("conftest.py", "sanitize.cfg"):
        shutil.copy(pairs.NOTEBOOKS / name, tmp_path)
    shutil.copytree(pairs.NOTEBOOKS / "pictures", tmp_path / "pictures")
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), tmp_path / "faults.ipynb")
    nbformat.write(copy, tmp_path / "copy.ipynb")
    found = nbval(tmp_path, tmp_path / "faults.ipynb", tmp_path / "copy.ipynb")
    assert [passed for passed, _ in found] == [*passes, *left]
    changed = [int(value) for _, values in found for value in values]
    assert [number for number in changed if number] == [2, 2]  # a verdict here, a verdict there
