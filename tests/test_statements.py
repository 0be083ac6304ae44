"""The words of claims stand in a file: how they are filled, what is asked of measured values, and what is refused."""

import json

import numpy as np
import pytest

from fgmp.book.claims import read_claims
from fgmp.book.opening import begin
from fgmp.book.statements import Statements, kept_records, listed

WORDS = """
03_toy:
  in-rounds:
    source: paper, Figure 1, line 1168
    statement: "N={n_clients}, alpha of {listed(alphas)}: done within {2 * n_clients} rounds"
    expected: at most {2 * n_clients}
    unit: rounds
  of-{who}:
    source: ours
    statement: error of {who}, {rate:.1e}
    expected: above {low:g}
    floor: exact
  in-words:
    source: ours
    statement: said in words
    expected: all
    measured: "{hits.sum()} of {hits.size} seeds"
04_other:
  wrong:
    source: ours
    statement: "{nothing} is there"
    expected: 1
    colour: red
"""
SPACE = {"In": ["n_clients = 2  # N (at least 1)\nalphas = [0.5, 1]  # alpha (each at least 0)"], "n_clients": 5}
SPACE |= {"alphas": [0.5, 1], "exact": 1e-14, "low": 0}


@pytest.fixture
def claim(tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_CLAIMS", str(tmp_path / "claims"))
    (tmp_path / "claims.yaml").write_text(WORDS)
    return Statements(SPACE, tmp_path / "claims.yaml")


def test_words_are_filled_and_the_rule_is_asked_of_every_value(claim, capsys):
    made = claim("in-rounds", [9, 10, 11], keep={"note": 3})
    line = "[reproduced in part] in-rounds (paper, Figure 1, line 1168): N=5, alpha of 0.5, 1: done within 10 rounds"
    line += " | expected: at most 10 | measured: 10 rounds (9 to 11, 3 seeds)"
    assert capsys.readouterr().out == line + "\n"
    assert made.parameters == {"n_clients": 5, "alphas": (0.5, 1), "note": 3}
    assert read_claims() == [made]


@pytest.mark.parametrize(
    "values, verdict",
    [([10, 10], "reproduced"), ([11, 12], "not reproduced"), ({"a": [3], "b": [11.0]}, "reproduced in part")],
)
def test_a_rule_gives_the_verdict(claim, values, verdict):
    assert claim("in-rounds", values).verdict == verdict


def test_what_the_notebook_decides_comes_before_the_rule(claim):
    assert claim("in-rounds", [99], True).verdict == "reproduced"


def test_names_that_a_call_gives(claim):
    made = claim("of-{who}", np.array([1e-16, 2.0]), who="fedavg", rate=0.001)
    assert (made.id, made.statement) == ("of-fedavg", "error of fedavg, 1.0e-03")
    assert made.shown == "1 (below 1e-14 to 2, 2 seeds)" and made.verdict == "holds"


def test_what_is_measured_in_words(claim):
    made = claim("in-words", holds=[True, True, False], hits=np.array([1, 1, 0]))
    assert made.measured == made.shown == "2 of 3 seeds" and made.verdict == "holds in part"


@pytest.mark.parametrize(
    "arguments, names, message",
    [
        (("missing", 1), {}, "id is 'missing'; expected one of the claims in claims.yaml"),
        (("wrong", 1, True), {}, "has \\['colour'\\] in claims.yaml; expected source, statement"),
        (("in-rounds",), {}, "'in-rounds' is measured in no way; expected one"),
        (("in-words", 3, True), {"hits": np.ones(1)}, "'in-words' is measured in two ways; expected one"),
        (("in-words",), {"hits": np.ones(1)}, "expects 'all' of str; expected `holds` with it"),
        (("of-{who}", 1), {"who": "a"}, "'error of {who}, {rate:.1e}' cannot be filled .*rate.* is not defined"),
    ],
)
def test_bad_arguments(claim, arguments, names, message):
    with pytest.raises(ValueError, match=message):
        claim(*arguments, **names)
    assert read_claims() == []


def test_a_folder_without_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="there is no claims.yaml in .*; expected it beside the notebook"):
        Statements(SPACE)("in-rounds", 1)


def test_values_in_a_row():
    assert listed([0.5, 1.0, 10]) == "0.5, 1, 10" and listed(["a", "b"]) == "a, b" and listed([]) == ""


def test_the_opening_checks_and_settles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.yaml").write_text(WORDS)
    found, alphas = begin(SPACE | {"alphas": 2}, "alphas")
    assert isinstance(found, Statements) and alphas == [2.0]
    with pytest.raises(ValueError, match="n_clients is 0; expected at least 1"):
        begin(SPACE | {"n_clients": 0})


def test_the_records_of_a_kept_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert kept_records("03_toy-real") == {}
    rows = [{"id": "a", "parameters": {"x": 1}}, {"id": "b", "parameters": {"n": 3}}]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "03_toy-real.json").write_text(json.dumps({"parameters": {"n": 2}, "claims": rows}))
    assert kept_records("03_toy-real") == {"a": {"n": 2, "x": 1}, "b": {"n": 3}}
