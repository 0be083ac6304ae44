"""What holds for every committed notebook, whatever it is about."""

import ast
import io
import re
import statistics
import subprocess
import tokenize
from pathlib import Path

import jupytext
import nbformat
import papermill
import pytest
import yaml
from jupytext.compare import compare_notebooks
from normalise import KERNEL, printed

from fgmp.book.claims import printed_claims
from fgmp.sweeping.sources import parameters_of

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAPER = yaml.safe_load((ROOT / "notebooks" / "paper.yaml").read_text()) or {}

LONGEST_CELL = 20
MEDIAN_CELL = 6
LARGEST_NOTEBOOK = 1_500_000
PATH_OF_ONE_MACHINE = re.compile(r"(?<![\w.])/(work|farm|root|tmp)/")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def lines_of(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def parameter_cells(path):
    return [cell for cell in code_cells(path) if "parameters" in cell.metadata.get("tags", [])]


def test_every_notebook_has_a_number_and_a_pair():
    scripts = sorted((ROOT / "notebooks").glob("*.py"))
    assert [path.stem for path in scripts] == [path.stem for path in NOTEBOOKS]
    assert [path.stem for path in NOTEBOOKS if not re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem)] == []


@each_notebook
def test_pair_is_in_step(path):
    script = jupytext.read(path.with_suffix(".py"), fmt="py:percent")
    compare_notebooks(script, read(path), fmt="py:percent")


@each_notebook
def test_was_executed_from_top_to_bottom(path):
    counts = [cell.execution_count for cell in code_cells(path) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_metadata_is_that_of_no_machine(path):
    notebook = read(path)
    assert notebook.metadata.get("kernelspec") == KERNEL
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}, "make refresh brings it into form"
    assert [cell.metadata for cell in notebook.cells if set(cell.metadata) - {"tags"}] == []


@each_notebook
def test_output_has_no_warnings_or_errors(path):
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []
    assert "Warning:" not in printed(read(path))


@each_notebook
def test_cells_are_short(path):
    lengths = [len(lines_of(cell)) for cell in code_cells(path)]
    assert max(lengths) <= LONGEST_CELL
    assert statistics.median(lengths) <= MEDIAN_CELL


@each_notebook
def test_is_small(path):
    assert path.stat().st_size < LARGEST_NOTEBOOK


@each_notebook
def test_opens_with_its_one_title(path):
    cells = read(path).cells
    prose = [re.sub(r"^```.*?^```", "", c.source, flags=re.M | re.S) for c in cells if c.cell_type == "markdown"]
    assert cells[0].cell_type == "markdown"
    assert re.match(r"# \S", prose[0])
    assert len(re.findall(r"^# ", "\n".join(prose), flags=re.M)) == 1


@each_notebook
def test_parameters_are_commented_literals(path):
    cells = parameter_cells(path)
    assert len(cells) <= 1
    for cell in cells:
        for statement in ast.parse(cell.source).body:
            assert isinstance(statement, ast.Assign | ast.AnnAssign), ast.unparse(statement)
            ast.literal_eval(statement.value)
        tokens = tokenize.generate_tokens(io.StringIO(cell.source).readline)
        commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        lines = enumerate(cell.source.splitlines(), start=1)
        assert [line for number, line in lines if line.strip() and number not in commented] == []


@pytest.mark.parametrize("name", sorted(PAPER))
def test_parameters_of_the_paper_exist(name):
    path = ROOT / "notebooks" / f"{name}.ipynb"
    assert path.exists()
    assert set(PAPER[name]) <= set(papermill.inspect_notebook(path))


@each_notebook
def test_papermill_finds_every_parameter(path, caplog):
    """Line by line, as it reads them: it passes over a line with a second "=", and warns of a valid name."""
    assert list(papermill.inspect_notebook(path)) == list(parameters_of(read(path)))
    assert not caplog.records


def test_claims_have_one_home_each():
    ids = [claim.id for path in NOTEBOOKS for claim in printed_claims(printed(read(path)))]
    assert sorted(ids) == sorted(set(ids))


def test_no_file_names_a_path_of_one_machine():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = []
    for path in (ROOT / name for name in listed.stdout.splitlines()):
        if path.is_file() and path != Path(__file__).resolve():
            text = path.read_bytes().decode("utf-8", errors="ignore")
            found += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in PATH_OF_ONE_MACHINE.finditer(text)]
    assert found == []
