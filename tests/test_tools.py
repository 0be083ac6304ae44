"""The runner and the normaliser of notebooks, on toy notebooks."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import headlines
import jupytext
import keep_results
import ledger
import nbformat
import papermill
import pytest
import run_notebooks
from normalise import KERNEL, normalise, printed
from run_notebooks import Job, commit_claims, commit_pair, execute, plan, run_all
from test_interruptions import family, living, wait_for

from fgmp.book.claims import printed_claims
from fgmp.sweeping import execution

TOY = """# %% [markdown]
# # A toy

# %% tags=["parameters"]
alpha = 1.0  # a parameter

# %%
import fgmp
claims = [fgmp.claim(id, "x", alpha, True, source="ours", expected=1) for id in ("toy", "another")]

# %%
if alpha < 0:
    raise ValueError("alpha must not be negative,\\ngot", alpha)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A folder with one pair that was not executed yet."""
    monkeypatch.setattr(run_notebooks, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(run_notebooks, "BUILD", tmp_path / "build")
    monkeypatch.setattr(ledger, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("FGMP_NOTEBOOK", "")
    monkeypatch.setenv("FGMP_CLAIMS", str(tmp_path / "claims"))
    (tmp_path / "jupytext.toml").write_bytes((run_notebooks.ROOT / "notebooks" / "jupytext.toml").read_bytes())
    script = tmp_path / "03_toy.py"
    script.write_text(TOY)
    notebook = jupytext.read(script)
    normalise(notebook)
    nbformat.write(notebook, script.with_suffix(".ipynb"))
    return script


def test_plan_takes_names_and_paths_and_checks_them(toy):
    assert plan(["03_toy"], False, None) == plan(["notebooks/03_toy.ipynb"], False, None) == plan([], False, None)
    assert plan([], True, None)[0].source == toy
    assert plan([], False, {}) == []
    with pytest.raises(SystemExit, match="no such notebook: 04_toy; there are: 03_toy"):
        plan(["04_toy"], False, None)


def test_plan_checks_parameters(toy):
    assert plan([], False, {"03_toy": {"alpha": 2.0}})[0].parameters == {"alpha": 2.0}
    with pytest.raises(SystemExit, match="03_toy has no parameter alhpa; it has: alpha"):
        plan([], False, {"03_toy": {"alhpa": 2.0}})


def test_an_executed_pair_is_written_in_one_stable_form(toy, tmp_path):
    (job,) = plan([], True, None)
    assert execute(job)
    commit_pair(job)
    commit_claims(job, tmp_path / "claims")
    record = ledger.read(tmp_path / "results" / "03_toy.json")
    assert [claim.line for claim in record.claims] == printed(nbformat.read(job.output, as_version=4)).splitlines()
    assert [claim.id for claim in record.claims] == ["toy", "another"]
    notebook = nbformat.read(toy.with_suffix(".ipynb"), as_version=4)
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2, 3]
    assert printed(notebook).startswith("[holds] toy (ours): x | expected: 1 | measured: 1\n")
    assert toy.read_text().endswith(TOY)
    before = nbformat.writes(notebook)
    normalise(notebook)
    assert nbformat.writes(notebook) == before


def test_a_failure_names_cell_and_error(toy, tmp_path, capsys):
    assert not execute(Job("03_toy", toy, tmp_path / "out.ipynb", {"alpha": -1}))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("FAILED  03_toy")
    assert "In [4], which starts 'if alpha < 0:': ValueError: " in last


def test_a_notebook_that_fails_leaves_its_part_before_the_error(toy, tmp_path):
    assert not execute(Job("03_toy", toy, tmp_path / "out.ipynb", {"alpha": -1}))
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert "[holds] toy (ours): x | expected: 1 | measured: -1" in printed(notebook)
    errors = [output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type == "error"]
    assert [error.ename for error in errors] == ["ValueError"]


def test_a_long_notebook_is_not_written_twice_for_every_cell(tmp_path, monkeypatch):
    writes, write = [], papermill.engines.write_ipynb
    monkeypatch.setattr(papermill.engines, "write_ipynb", lambda *a, **o: writes.append(write(*a, **o)))
    cells = [nbformat.v4.new_code_cell(f"print({number})") for number in range(100)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "3"}})
    assert execution.execute(notebook, tmp_path / "out.ipynb", {}, tmp_path, {}) == ""
    assert 2 <= len(writes) < 100
    assert printed(nbformat.read(tmp_path / "out.ipynb", as_version=4)).split() == [str(n) for n in range(100)]


def runs_of(folder):
    """How often each notebook of `several` has run."""
    return {path.stem: len(path.read_text()) for path in sorted(folder.glob("*.count"))}


@pytest.fixture
def several(toy, tmp_path):
    """Three notebooks, each of which counts its runs; the second one waits, or fails, while a file says so."""
    counted = "# %%\nwith open({count!r}, 'a') as file:\n    file.write('x');\n"
    held = "# %%\nimport os, time\nif os.path.exists({fail!r}):\n    raise OSError('no space')\n"
    held += "while os.path.exists({hold!r}):\n    time.sleep(0.05)\n"
    for name in ("03_toy", "04_second", "05_third"):
        count, fail, hold = (str(tmp_path / word) for word in (f"{name}.count", "fail", "hold"))
        extra = held if name == "04_second" else ""
        (tmp_path / f"{name}.py").write_text(TOY.replace("toy", name) + (counted + extra).format_map(locals()))
        (tmp_path / f"{name}.ipynb").write_text("")
    return [Job(path.stem, path, tmp_path / "build" / f"{path.stem}.ipynb") for path in sorted(tmp_path.glob("0*.py"))]


def test_after_a_failure_the_same_command_runs_what_is_left(several, tmp_path, capsys):
    (tmp_path / "build").mkdir()
    (tmp_path / "fail").touch()
    assert run_all(several) == [True, False, True]
    (tmp_path / "fail").unlink()
    assert run_all(several) == [True, True, True]
    assert runs_of(tmp_path) == {"03_toy": 1, "04_second": 2, "05_third": 1}
    assert "kept    03_toy  finished before the interruption" in capsys.readouterr().out
    assert run_all(several[:1]) == [True]  # all was through: this is a new run
    assert runs_of(tmp_path)["03_toy"] == 2


def test_what_has_changed_is_run_again(several, tmp_path, monkeypatch):
    (tmp_path / "build").mkdir()
    (tmp_path / "fail").touch()
    run_all(several)
    several[0].source.write_text(several[0].source.read_text() + "\n# %%\n0")
    run_all([several[0], several[1], replace(several[2], parameters={"alpha": 2.0})])
    assert runs_of(tmp_path) == {"03_toy": 2, "04_second": 2, "05_third": 2}
    monkeypatch.setattr("finished.HOUSE", tmp_path)  # another fgmp
    run_all(several)
    assert runs_of(tmp_path) == {"03_toy": 3, "04_second": 3, "05_third": 3}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on_and_leaves_no_process(number, several, tmp_path):
    """Killed while the second notebook waits and the others are done: its kernel goes too, and only it runs again."""
    (tmp_path / "build").mkdir()
    (tmp_path / "hold").touch()
    code = f"""
import sys
from pathlib import Path
sys.path[:0] = {[str(Path(run_notebooks.__file__).parent)]!r}
from run_notebooks import Job, run_all
folder = Path({str(tmp_path)!r})
run_all([Job(p.stem, p, folder / "build" / (p.stem + ".ipynb")) for p in sorted(folder.glob("0*.py"))], at_a_time=2)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True)
    marks = tmp_path / "build" / ".finished"
    assert wait_for(lambda: (marks / "03_toy").exists() and (marks / "05_third").exists(), 120)
    assert wait_for(lambda: (tmp_path / "04_second.count").exists(), 120)
    relatives = family(process)
    if number == signal.SIGINT:  # as a terminal does it: to all that it has started
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.wait(120)
    assert wait_for(lambda: not living(relatives), 60), living(relatives)
    (tmp_path / "hold").unlink()
    assert run_all(several) == [True, True, True]
    assert runs_of(tmp_path) == {"03_toy": 1, "04_second": 2, "05_third": 1}


@pytest.mark.parametrize(("at_a_time", "seen"), [(1, "0"), (2, "None")])
def test_notebooks_keep_to_one_process_where_others_use_the_other_cores(at_a_time, seen, toy, tmp_path, monkeypatch):
    monkeypatch.delenv("JOBLIB_MULTIPROCESSING", raising=False)
    (tmp_path / "build").mkdir()
    jobs = []
    for name in ("03_toy", "04_second"):
        said = tmp_path / f"{name}.said"
        cell = f"# %%\nimport os\nwith open({str(said)!r}, 'w') as file:\n"
        cell += "    file.write(str(os.environ.get('JOBLIB_MULTIPROCESSING')));\n"
        (tmp_path / f"{name}.py").write_text(TOY.replace("toy", name) + cell)
        jobs.append(Job(name, tmp_path / f"{name}.py", tmp_path / "build" / f"{name}.ipynb"))
    assert run_all(jobs, at_a_time) == [True, True]
    assert [(tmp_path / f"{job.name}.said").read_text() for job in jobs] == [seen, seen]


def test_normalise_leaves_only_what_is_stable():
    kernel = {"name": "mine", "display_name": "Mine"}
    notebook = nbformat.v4.new_notebook(metadata={"papermill": {"duration": 1.0}, "kernelspec": kernel})
    streams = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a\n", "b\n")]
    metadata = {"papermill": {"status": "completed"}, "tags": []}
    notebook.cells = [
        nbformat.v4.new_markdown_cell("# Title", metadata={"tags": ["keep"]}),
        nbformat.v4.new_code_cell("print()", metadata=metadata, outputs=streams, execution_count=1),
    ]
    normalise(notebook)
    assert notebook.metadata == {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    assert [cell.id for cell in notebook.cells] == ["cell-000", "cell-001"]
    assert [cell.metadata for cell in notebook.cells] == [{"tags": ["keep"]}, {}]
    assert printed(notebook) == "a\nb\n"
    assert len(notebook.cells[1].outputs) == 1


def test_links_hold_in_the_folder_of_results():
    notebook = nbformat.v4.new_notebook()
    text = "[a](06_digits.ipynb), [b](results/06.ipynb), [c](../fgmp/tune.py), [d](https://x.org), [e](#here)"
    notebook.cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("f = d[0](x)")]
    keep_results.moved(notebook)
    assert notebook.cells[0].source == (
        "[a](../06_digits.ipynb), [b](06.ipynb), [c](../../fgmp/tune.py), [d](https://x.org), [e](#here)"
    )
    assert notebook.cells[1].source == "f = d[0](x)"


def cell(source, *texts, picture=None):
    made = nbformat.v4.new_code_cell(source)
    made.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in texts]
    if picture:
        made.outputs.append(nbformat.v4.new_output("display_data", data={"image/png": picture}))
    return made


def test_a_kept_run_holds_what_differs_and_all_claims():
    line = "[holds] toy (ours): it holds | expected: 1 | measured: 1\n"
    text, words = nbformat.v4.new_markdown_cell, "*The picture.*\n\nMore words."
    cells = [
        text("# Toy\n\nWords."),
        cell("a"),
        text("## Same"),
        cell("b", "1\n"),
        text("## Other\n\nWords."),
        cell("c"),
    ]
    usual, kept = nbformat.v4.new_notebook(), nbformat.v4.new_notebook()
    usual.cells = [*cells, cell("d", "2\n", picture="x"), text(words), text("## End"), cell("e", line)]
    kept.cells = [*cells, cell("d", "2\n", picture="y"), text(words), text("## End"), cell("e", line)]
    keep_results.different(kept, usual, "03_toy", "real", {"n": 2})
    first, *rest = [(one.cell_type, one.source) for one in kept.cells]
    assert first[1].startswith("# Toy (real)\n\nThis is another run of [03_toy](../03_toy.ipynb), with `n: 2`.")
    assert rest == [
        ("markdown", "## Other"),
        ("code", "d"),
        ("markdown", "*The picture.*"),
        ("markdown", "## End"),
        ("code", "e"),
    ]
    keep_results.different(kept, usual, "03_toy", "real", {"n": 2})  # what was cut once stays as it is
    assert [(one.cell_type, one.source) for one in kept.cells] == [first, *rest]


@pytest.mark.parametrize(
    "path", sorted((run_notebooks.ROOT / "notebooks" / "results").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_kept_runs_say_what_they_are_and_repeat_nothing(path):
    notebook = nbformat.read(path, as_version=4)
    stem = path.stem.partition("-")[0]
    assert f"This is another run of [{stem}](../{stem}.ipynb), with `" in notebook.cells[0].source
    usual = nbformat.read(path.parents[1] / f"{stem}.ipynb", as_version=4)
    seen = [(one.source, keep_results.shown(one)) for one in usual.cells if one.cell_type == "code"]
    code = [one for one in notebook.cells if one.cell_type == "code"]
    repeated = [one.source for one in code if (one.source, keep_results.shown(one)) in seen]
    assert [source for source in repeated if "claim(" not in source] == []


RESULTS = sorted((run_notebooks.ROOT / "notebooks" / "results").glob("*.ipynb"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_kept_results_are_whole(path):
    notebook = nbformat.read(path, as_version=4)
    errors = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "error"]
    links = re.findall(r"\]\(([^)#]+)\)", "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown"))
    missing = [link for link in links if not link.startswith("http") and not (path.parent / link).exists()]
    record = json.loads(path.with_suffix(".json").read_text())
    assert not errors and not missing and path.stat().st_size < 1.5e6
    assert all(claim["id"] in printed(notebook) for claim in record["claims"])


def test_the_figure_of_the_readme_is_that_of_the_notebook():
    for name, target in headlines.README.items():
        notebook = nbformat.read(headlines.NOTEBOOKS / f"{name}.ipynb", as_version=4)
        assert target.read_bytes() == headlines.headline(notebook, "readme")


def test_a_line_that_was_left_open_does_not_hide_the_claim_after_it():
    cells = [nbformat.v4.new_code_cell("print()") for _ in range(2)]
    line = "[holds] toy (ours, a toy): it holds | expected: 1 | measured: 1\n"
    for cell, text in zip(cells, ("no end", line), strict=True):
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    assert [claim.id for claim in printed_claims(printed(nbformat.v4.new_notebook(cells=cells)))] == ["toy"]
