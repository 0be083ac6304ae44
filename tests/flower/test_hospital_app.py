"""The app of examples/hospitals without a deployment: its tables, a fit under masks, what ends it.

`test_hospitals` runs the same example as a deployment, without masks.
"""

import csv
import runpy
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from deployment import EXAMPLE, HOSPITALS
from in_process_grid import InProcessGrid

import fgmp
from fgmp.estimators import model_from_json
from fgmp.flower import fit_over

CONFIG = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
COLUMNS = CONFIG["columns"].split(",")
ESTIMATOR = fgmp.FedGradMPClassifier(
    CONFIG["sparsity"], rounds=CONFIG["rounds"], secure=True, random_state=0
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tables of the four hospitals, and of new patients."""
    made = tmp_path_factory.mktemp("tables")
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", made], check=True)
    return made


def grid_of(folder, grid_class=InProcessGrid, **paths):
    """Return a grid of nodes that run the example's app, each with a table."""
    app = runpy.run_path(str(EXAMPLE / "hospitals" / "client.py"))["app"]
    grid = grid_class([app] * len(HOSPITALS))
    for context, name in zip(grid.contexts, HOSPITALS, strict=True):
        path = paths.get(name, folder / f"{name}.csv")
        context.node_config.update({"name": name, "data": str(path)})
    return grid


def fit(grid, n_hospitals=4):
    """Return the model that the example's server fits."""
    return fit_over(
        ESTIMATOR,
        grid,
        n_hospitals,
        COLUMNS,
        classes=CONFIG["diagnoses"].split(","),
        report=lambda line: None,
        deadline=2.0,
        wait_for=0.1,
    )


def table_without(folder, column):
    """Return the path of Switzerland's table without a column."""
    with open(folder / "switzerland.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != column]
    path = folder / f"without_{column}.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_fit_under_masks_has_the_coefficients_of_one_process_in_12_messages(folder):
    """The README says how many; the sums differ by the resolution of the masks."""
    grid = grid_of(folder)
    model = fit(grid)
    assert len(grid.questions) == 12 * len(HOSPITALS)
    tables = [
        np.genfromtxt(folder / f"{name}.csv", delimiter=",", skip_header=1, dtype=str)
        for name in HOSPITALS
    ]
    rows = np.concatenate(tables)
    groups = np.repeat(HOSPITALS, [len(table) for table in tables])
    open_fit = fgmp.FedGradMPClassifier(CONFIG["sparsity"], random_state=0)
    open_fit.fit(rows[:, :-1].astype(float), rows[:, -1], groups)
    np.testing.assert_allclose(model.coef_, open_fit.coef_, rtol=1e-6)


def test_column_missing_at_a_hospital_is_named_to_the_server(folder):
    """The error of the server has the column that the hospital lacks."""
    grid = grid_of(folder, switzerland=table_without(folder, "male"))
    with pytest.raises(TimeoutError, match="columns missing at the site: .*male"):
        with pytest.warns(fgmp.AdviceWarning, match="turned away"):
            fit(grid)


def test_hospital_without_the_column_is_gone_on_without_if_three_are_expected(folder):
    """With three hospitals expected, the model is of the three that have the column."""
    grid = grid_of(folder, switzerland=table_without(folder, "male"))
    with pytest.warns(fgmp.AdviceWarning, match="turned away"):
        model = fit(grid, n_hospitals=3)
    assert model.groups_.tolist() == ["cleveland", "budapest", "long_beach"]


def test_missing_column_of_the_label_is_named_in_the_log_of_the_hospital_only(folder, caplog):
    """The server only hears that the log says more, and the log has the column."""
    grid = grid_of(folder, switzerland=table_without(folder, "diagnosis"))
    with pytest.raises(TimeoutError, match="its log says more") as raised:
        with pytest.warns(fgmp.AdviceWarning, match="turned away"):
            fit(grid)
    assert "diagnosis" not in str(raised.value)
    assert "no column 'diagnosis'" in caplog.text


def test_hospital_that_leaves_under_masks_ends_the_fit_by_name(folder):
    """The error has the name of the hospital that left."""

    class Leaving(InProcessGrid):
        """Switzerland is away after the first ten questions to each."""

        def push_messages(self, messages):
            if len(self.questions) > 10 * len(HOSPITALS):
                self.absent.add(HOSPITALS.index("switzerland"))
            return super().push_messages(messages)

    with pytest.raises(RuntimeError, match="'switzerland' left in the middle"):
        fit(grid_of(folder, Leaving))


def test_client_side_is_imported_before_anything_of_the_estimators():
    """A hospital's node loads the app in a process of its own."""
    subprocess.run([sys.executable, "-c", "from fgmp.flower import table_app"], check=True)


def test_measure_prints_what_the_model_has_at_a_hospital(folder):
    """Without the masks of the fit, in the hospital's own process."""
    path = folder / "model.json"
    path.write_text(fit(grid_of(folder)).to_json())
    model = model_from_json(path.read_text())
    rows = np.genfromtxt(folder / "budapest.csv", delimiter=",", skip_header=1, dtype=str)
    risk = rows[:, :-1].astype(float) @ model.coef_[0]  # up to a monotone function
    is_ill = rows[:, -1] == "ill"
    differences = np.subtract.outer(risk[is_ill], risk[~is_ill])
    auc = np.mean(differences > 1e-9) + np.mean(np.abs(differences) <= 1e-9) / 2

    command = [sys.executable, EXAMPLE / "measure.py", path, folder / "budapest.csv"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("budapest")]
    assert line[:2] == ["budapest", "283"]
    assert float(line[4]) == pytest.approx(auc, abs=5.1e-4)  # three digits
    assert "protection             masks" in printed
