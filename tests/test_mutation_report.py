"""The report on mutants, on the notes of a toy run."""

import json
import tomllib
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Ten mutants of one module, three of them unnoticed; two of another, both noticed; one not tried."""
    folder = tmp_path / "mutants" / "fgmp"
    folder.mkdir(parents=True)
    first = {f"fgmp.first.x_f__mutmut_{i}": code for i, code in enumerate([1] * 6 + [0, 0, 33, 36])}
    second = {"fgmp.second.x_g__mutmut_1": 1, "fgmp.second.x_g__mutmut_2": 3, "fgmp.second.x_g__mutmut_3": None}
    for name, codes in (("first", first), ("second", second), ("untouched", {})):
        (folder / f"{name}.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
    (tmp_path / "pyproject.toml").write_text("[tool.fgmp]\nmutants = 0.8\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "RUN", tmp_path / "mutants")
    monkeypatch.setattr(mutants, "difference", lambda key: f"\n{key}\n-old\n+new")
    return tmp_path


def test_scores_and_survivors(run, capsys):
    assert mutants.main() == 1
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()]
    assert rows == [
        ["first", "10", "mutants", "3", "unnoticed", "70.0%"],
        ["second", "2", "mutants", "0", "unnoticed", "100.0%"],
        ["all", "12", "mutants", "3", "unnoticed", "75.0%"],
    ]
    assert err == "below 80%: first; build/mutants.txt has the survivors\n"
    assert (run / "build" / "mutants.txt").read_text().count("-old\n+new") == 3


def test_a_score_as_asked_for_is_no_error(run):
    (run / "pyproject.toml").write_text("[tool.fgmp]\nmutants = 0.7\n")
    assert mutants.main() == 0


def test_no_run_is_said(run, capsys, monkeypatch):
    monkeypatch.setattr(mutants, "RUN", run / "nothing")
    assert mutants.main() == 1
    assert "run `make mutants`" in capsys.readouterr().err


def test_the_modules_and_tests_that_are_named_exist():
    names = CONFIGURATION["mutmut"]["only_mutate"] + CONFIGURATION["mutmut"]["pytest_add_cli_args_test_selection"]
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert 0 < CONFIGURATION["fgmp"]["mutants"] < 1
