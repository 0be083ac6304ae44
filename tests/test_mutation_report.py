"""The report on mutants, on the notes of a toy run."""

import json
import tomllib
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("asked, code", [(0.8, 1), (0.7, 0)])
def test_scores_and_survivors(tmp_path, capsys, asked, code):
    """Ten mutants of one module, three of them unnoticed; two of another, both noticed; one not tried."""
    (tmp_path / "mutants").mkdir()
    for name, codes in (("first", [1] * 6 + [0, 0, 33, 36]), ("second", [1, 3, None])):
        text = json.dumps({"exit_code_by_key": {f"fgmp.{name}_{i}": code for i, code in enumerate(codes)}})
        (tmp_path / "mutants" / f"{name}.py.meta").write_text(text)
    (tmp_path / "pyproject.toml").write_text(f"[tool.fgmp]\nmutants = {asked}\n")
    assert mutants.main(tmp_path) == code
    out, err = capsys.readouterr()
    assert "10 mutants    3 unnoticed  70.0%" in out and "2 mutants    0 unnoticed 100.0%" in out
    assert err.startswith("below 80%: first;") == bool(code)
    assert (tmp_path / "build" / "mutants.txt").read_text().count("first") == 3


def test_the_modules_and_tests_that_are_named_exist():
    mutmut = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    names = mutmut["only_mutate"] + mutmut["pytest_add_cli_args_test_selection"]
    assert [name for name in names if not (ROOT / name).exists()] == []
