"""Every notebook runs through with the other parameters of notebooks/small.yaml, and its figures can be read."""

from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml
from figure_faults import HOOK

from fgmp.sweeping.execution import execute
from fgmp.sweeping.sources import check_parameters, parameters_of

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SMALL = yaml.safe_load((NOTEBOOKS / "small.yaml").read_text())
RUNS = [(name, number) for name, sets in SMALL.items() for number in range(len(sets))]


def test_every_notebook_has_other_parameters():
    assert sorted(SMALL) == [path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.py"))]


@pytest.mark.parametrize("name, number", RUNS, ids=lambda value: str(value))
def test_a_rerun_goes_through(name, number, tmp_path):
    notebook, parameters = jupytext.read(NOTEBOOKS / f"{name}.py"), SMALL[name][number]
    check_parameters(name, parameters_of(notebook), parameters)
    variables = {"FGMP_CLAIMS": str(tmp_path / "claims"), "FGMP_NOTEBOOK": name}
    variables["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as in Jupyter
    report = tmp_path / "faults.txt"
    report.touch()
    notebook.cells.insert(0, nbformat.v4.new_code_cell(HOOK.format(target=str(report))))
    assert execute(notebook, tmp_path / "out.ipynb", parameters, NOTEBOOKS, variables) == ""
    assert report.read_text() == ""
