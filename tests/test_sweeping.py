"""`fgmp run`, `fgmp sweep` and `fgmp claims`, on a notebook of a few lines."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest
from click.testing import CliRunner

from fgmp.cli import main
from fgmp.sweeping import find_source, grid_of, parameters_given, points_of
from fgmp.sweeping.sources import check_parameters
from fgmp.sweeping.sweeps import _alone_in

TOY = """# %% [markdown]
# # A toy

# %% tags=["parameters"]
alpha = 1.0  # a parameter, with a second = in its comment
local_iterations = [1, 3]  # several
numbers = {
    "one": 1,  # over several lines
}

# %%
import os
import signal
import threading
from pathlib import Path

import fgmp

trouble = Path("trouble")
if trouble.exists() and alpha == 1:
    group, number = map(int, trouble.read_text().split())
    Path("kernel").write_text(str(os.getpid()))
    trouble.unlink()
    (os.kill if number == signal.SIGKILL else os.killpg)(group, number)
    threading.Event().wait()

# %%
values = [alpha * k for k in (local_iterations if isinstance(local_iterations, list) else [local_iterations])]
threads = int(os.environ["OMP_NUM_THREADS"])
_ = fgmp.claim("toy", "x, in words", {"values": values, "threads": threads}, True, source="ours", expected="about 1")
_ = fgmp.claim("another", "y", 1 / 3, alpha < 3, source="paper, Figure 1, line 1", expected=1, unit="s")

# %%
if alpha < 0:
    raise ValueError("alpha must not be negative,\\ngot", alpha)
"""
THREE = ["-g", "alpha=0.5,1,2.5", "-y", "{local_iterations: 1}"]
SIX = ["-g", "alpha=0.5,1,2.5", "-g", "local_iterations=1,3"]  # as in the README
ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a notebook, where no other notebook leaves its claims."""
    furnish(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def reference_folder(tmp_path_factory):
    """Where the six points ran one after another, without any trouble."""
    folder = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        furnish(folder, patch)
        assert call("sweep", "09", *SIX).exit_code == 0
    return folder


@pytest.fixture(scope="module")
def reference(reference_folder):
    """The tables of these six points, and of the first, the third and the fifth, which are only gathered again."""
    out = reference_folder / "build" / "sweeps" / "09_local_iterations"
    with pytest.MonkeyPatch.context() as patch:
        furnish(reference_folder, patch)
        tables = {"six": (out / "sweep.csv").read_bytes()}
        assert call("sweep", "09", *THREE).output.count("done ") == 0
    return tables | {"three": (out / "sweep.csv").read_bytes()}


def furnish(folder, patch):
    (folder / "notebooks").mkdir(exist_ok=True)
    (folder / "notebooks" / "09_local_iterations.py").write_text(TOY)
    patch.chdir(folder)
    patch.setenv("FGMP_CLAIMS", str(folder / "claims"))
    for name in THREADS:
        patch.delenv(name, raising=False)


def call(*arguments):
    return CliRunner().invoke(main, arguments)


def table(folder):
    with open(folder / "sweep.csv", newline="") as file:
        return list(csv.DictReader(file))


def interrupted(folder, number, jobs):
    """Run the sweep in a process of its own, which a signal meets in the first notebook with alpha = 1."""
    lines = [
        "import os",
        "os.setsid()",
        f"open('notebooks/trouble', 'w').write(f'{{os.getpid()}} {int(number)}')",
        "from fgmp.cli import main",
        "main()",
    ]
    command = [sys.executable, "-c", "\n".join(lines), "sweep", "09", *THREE, "--jobs", str(jobs)]
    with open(folder / "stderr", "w") as file:
        return subprocess.run(command, cwd=folder, stdout=file, stderr=file, timeout=120).returncode


def ends(pid):
    """Whether a process is gone within a minute."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_six_points_with_one_job(reference):
    rows = list(csv.DictReader(reference["six"].decode().splitlines()))
    assert list(rows[0])[:5] == ["alpha", "local_iterations", "point", "state", "problem"]
    assert [(r["alpha"], r["local_iterations"], r["claim"], r["part"]) for r in rows] == [
        (alpha, k, *claim)
        for alpha in ("0.5", "1", "2.5")
        for k in ("1", "3")
        for claim in (("another", ""), ("toy", "values"), ("toy", "threads"))
    ]
    assert {r["state"] for r in rows} == {"done"} and len({r["point"] for r in rows}) == 6
    assert [r["values"] for r in rows if r["part"] == "values"] == ["0.5", "1.5", "1", "3", "2.5", "7.5"]
    another = next(r for r in rows if r["claim"] == "another")
    assert float(another["values"]) == 1 / 3 and another["unit"] == "s" and another["verdict"] == "reproduced"
    assert {r["values"] for r in rows if r["part"] == "threads"} == {"1"}


def test_brackets_make_a_list_of_a_value(folder):
    assert call("sweep", "09", "-g", "local_iterations=[1, 3],[6, 12]", "-y", "{alpha: 2.5}").exit_code == 0
    rows = [row for row in table(folder / "build" / "sweeps" / "09_local_iterations") if row["part"] == "values"]
    assert [row["local_iterations"] for row in rows] == ["[1, 3]", "[6, 12]"]
    given, last = np.array([15.0, 30.0]), rows[-1]
    assert last["values"] == "15.0 30.0" and last["count"] == "2" and last["expected"] == "about 1"
    quantiles = [float(last[name]) for name in ("min", "q25", "median", "q75", "max")]
    np.testing.assert_allclose(quantiles, given[0] + np.diff(given) * [0, 0.25, 0.5, 0.75, 1], rtol=1e-15)


def test_two_jobs_give_the_same_table(folder, reference):
    assert call("sweep", "09_local_iterations", *SIX, "--jobs", "2", "--out", "here").exit_code == 0
    assert (folder / "here" / "sweep.csv").read_bytes() == reference["six"]
    assert not (folder / "claims").exists()


@pytest.mark.slow
def test_a_cluster_gives_the_same_table(folder, reference):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        result = call("sweep", "09", *SIX, "--dask", cluster.scheduler_address)
    assert result.exit_code == 0, result.output
    assert (folder / "build" / "sweeps" / "09_local_iterations" / "sweep.csv").read_bytes() == reference["six"]


def test_after_a_kill_the_same_command_goes_on(folder, reference):
    out = folder / "build" / "sweeps" / "09_local_iterations"
    assert interrupted(folder, signal.SIGKILL, jobs=1) == -signal.SIGKILL
    assert ends(int((folder / "notebooks" / "kernel").read_text()))
    done = {path: path.stat().st_mtime_ns for path in out.glob("*/notebook.ipynb") if "." not in path.parent.name}
    assert len(done) < 3 and list(out.glob("*.part-*")) and not (out / "sweep.csv").exists()
    assert done
    result = call("sweep", "09", *THREE)
    assert result.exit_code == 0, result.output
    assert result.output.count("done    ") == 3 - len(done)
    assert (out / "sweep.csv").read_bytes() == reference["three"]
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert not list(out.glob("*.part-*"))


def test_ctrl_c_leaves_what_is_done(folder):
    out = folder / "build" / "sweeps" / "09_local_iterations"
    assert interrupted(folder, signal.SIGINT, jobs=2) == 130
    assert ends(int((folder / "notebooks" / "kernel").read_text()))
    words = (folder / "stderr").read_text()
    assert "stopped; the same command goes on from here\n" in words and "Traceback" not in words
    states = [row["state"] for row in table(out)]
    assert "not run" in states and set(states) <= {"done", "not run"}
    assert not list(out.glob("*.part-*")) and not list(out.glob("*.failed"))


def test_a_failing_point_keeps_its_notebook_and_the_rest_go_on(folder):
    result = call("sweep", "09", "-g", "alpha=-1,2", "--out", "here")
    assert result.exit_code == 1
    problem = "In [5], which starts 'if alpha < 0:': ValueError: ('alpha must not be negative,\\ngot', -1)"
    assert f"failed  alpha=-1  {problem}\n" in result.output and "1 of 2 points done" in result.output
    failed, *done = table(folder / "here")
    assert (failed["state"], failed["problem"], failed["claim"]) == ("failed", problem, "")
    assert [row["state"] for row in done] == ["done"] * 3
    kept = nbformat.read(folder / "here" / f"{failed['point']}.failed" / "notebook.ipynb", as_version=4)
    assert any(o.output_type == "error" for cell in kept.cells if cell.cell_type == "code" for o in cell.outputs)
    again = call("sweep", "09", "-g", "alpha=-1,2", "--out", "here")
    assert again.exit_code == 1 and "failed  alpha=-1" in again.output and "done    alpha=2" not in again.output


def test_run_lists_the_claims_and_runs_once(folder):
    result = call("run", "09", "-y", "{alpha: 5e-1, local_iterations: [4]}")
    assert result.exit_code == 0, result.output
    assert "[holds] toy (ours): x, in words" in result.output and "values 2, threads 1; 1 seed" in result.output
    notebook = folder / result.output.split("notebook: ")[1].strip()
    about = json.loads((notebook.parent / "point.json").read_text())
    assert about["parameters"] == {"alpha": 0.5, "local_iterations": [4]}
    first = notebook.stat().st_mtime_ns
    assert call("run", "09", "-y", "{local_iterations: [4], alpha: 0.5}").output == result.output
    assert notebook.stat().st_mtime_ns == first
    assert call("run", "09", "-y", "{local_iterations: [4], alpha: 0.5}", "--again").output == result.output
    assert notebook.stat().st_mtime_ns > first
    listed = call("claims", "build/sweeps/09_local_iterations")
    assert listed.output.startswith("local_iterations=[4], alpha=0.5: done\n[reproduced] another (paper, Figure 1,")
    assert call("claims", str(notebook.parent / "claims")).output in listed.output
    assert call("claims").output == "claims: none recorded\n"


def test_the_commands_of_the_readme_work(reference_folder, monkeypatch):
    furnish(reference_folder, monkeypatch)
    section = (ROOT / "README.md").read_text().split("## Sweeps")[1]
    commands = [shlex.split(line)[1:] for line in re.findall("^fgmp .*", section, flags=re.MULTILINE)]
    assert [command[0] for command in commands] == ["run", "sweep", "claims"]
    results = [call(*command) for command in commands]
    assert [result.exit_code for result in results] == [0, 0, 0], [result.output for result in results]
    assert "6 of 6 points done" in results[1].output and results[2].output.count(": done\n") == 7
    real = find_source("09", ROOT / "notebooks")  # which takes minutes; the names at least are its own
    given = [*parameters_given(commands[0][3]), *grid_of(commands[1][3:6:2])]
    assert given == ["alpha", "alpha", "local_iterations"]
    check_parameters(real.name, real.parameters, given)


def test_another_code_is_another_point(folder):
    def key(parameters):
        return points_of(find_source("09", folder / "notebooks").code, parameters, {})[0].key

    script = folder / "notebooks" / "09_local_iterations.py"
    first = key({"alpha": 1.0})
    assert key({"alpha": 1.0}) == first != key({"alpha": 2.0})
    script.write_text(TOY.replace("# # A toy", "# # A title"))
    assert key({"alpha": 1.0}) == first
    script.write_text(TOY.replace("alpha < 3", "alpha < 4"))
    assert key({"alpha": 1.0}) != first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "09", "-y", "{alhpa: 1}"),
            "09_local_iterations has no parameter alhpa; it has: alpha, local_it",
        ),
        (("sweep", "09", "-g", "alpha=1", "-g", "beta=1"), "09_local_iterations has no parameter beta; it has: alpha"),
        (("run", "09", "-y", "{alpha: 1"), "-y is '{alpha: 1'; expected YAML: while parsing"),
        (("run", "09", "-y", "[alpha]"), "-y is '[alpha]'; expected a mapping such as {alpha: 1.0, rounds: 5}"),
        (("sweep", "09", "-g", "alpha=1,[2"), "-g alpha is '[1,[2]'; expected YAML: while parsing"),
        (("sweep", "09", "-g", "alpha"), "-g is 'alpha'; expected a name, '=' and values"),
        (("sweep", "09", "-g", "alpha="), "-g has '' for alpha; expected at least one value"),
        (("sweep", "09", "-g", "alpha=1,2,1"), "-g has '1,2,1' for alpha; expected no value twice"),
        (("sweep", "09", "-g", "alpha=1", "-g", "alpha=2"), "-g names alpha twice"),
        (("sweep", "09", "-g", "alpha=1", "-y", "{alpha: 2}"), "-y and -g both name alpha"),
        (("sweep", "09", "-g", "alpha=2026-01-01"), "alpha is datetime.date(2026, 1, 1); expected numbers, strings"),
        (("run", "07"), "'07' is no notebook; expected one of those in notebooks: 09_local_iterations"),
        (("run", "09", "--notebooks", "elsewhere"), "there is no folder elsewhere here; expected a checkout"),
    ],
)
def test_what_is_wrong_stops_before_anything_runs(folder, arguments, message):
    result = call(*arguments)
    assert result.exit_code == 1 and f"Error: {message}" in result.output
    assert not (folder / "build").exists()


def test_names_that_mean_two_notebooks_or_none_of_python(folder):
    (folder / "notebooks" / "09_other.py").write_text(TOY)
    assert "'09' means 09_local_iterations, 09_other; expected one of" in call("run", "09").output
    (folder / "notebooks" / "10_magic.py").write_text('# %% tags=["parameters"]\nalpha = = 1\n')
    assert "the parameters of notebooks/10_magic.py are no Python" in call("run", "10").output


@pytest.mark.parametrize(("module", "extra"), [("jupytext", "notebooks"), ("distributed", "cluster")])
def test_a_package_that_is_not_installed_is_named(folder, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    result = call("sweep", "09", "-g", "alpha=1", "--dask", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output == f"Error: {module} is not installed: pip install 'fgmp[{extra}]'\n"


def test_a_parameter_with_the_name_of_a_column_is_refused(folder):
    (folder / "notebooks" / "10_unit.py").write_text(TOY.replace("alpha =", "unit ="))
    assert "unit is a column of the table already" in call("sweep", "10", "-g", "unit=1").output
    assert not (folder / "build").exists()


def test_two_sweeps_in_one_folder_exclude_each_other(folder):
    (folder / "here").mkdir()
    with _alone_in(folder / "here"):
        result = call("sweep", "09", "-g", "alpha=2", "--out", "here")
    assert result.exit_code == 1 and "another sweep is at work in" in result.output


def test_numbers_are_read_as_everybody_writes_them():
    assert grid_of(["a=1e-6,2E3,.5e1,-3e+2", "b=x,'1e-6',null,true", "c=[1, 2],[]"]) == {
        "a": [1e-6, 2e3, 5.0, -300.0],
        "b": ["x", "1e-6", None, True],
        "c": [[1, 2], []],
    }
    assert parameters_given("") == {} and parameters_given("{a: {b: 1e3}}") == {"a": {"b": 1000.0}}
