"""claim(): the line it prints, the record it leaves, and what it refuses."""

import json
import math

import numpy as np
import pytest

from fgmp.claims import VERDICTS, claim, claims_folder, ledger, printed_claims, read_claims, summary


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_CLAIMS", str(tmp_path / "claims"))
    monkeypatch.delenv("FGMP_NOTEBOOK", raising=False)
    return tmp_path / "claims"


def test_the_line_of_figure_one(capsys):
    claim("fig1-noiseless", "error <= 1e-14 on at least 19 of 20 seeds", np.full(20, 3e-16), True, floor=1e-14)
    line = "[reproduced] fig1-noiseless: error <= 1e-14 on at least 19 of 20 seeds | measured: below 1e-14 (20 seeds)"
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    ("measured", "options", "shown"),
    [
        ([0.123456, 0.2, 0.3], {}, "0.2 (0.123 to 0.3, 3 seeds)"),
        ([0.123456, 0.2, 0.3], {"digits": 1, "unit": "s"}, "0.2 s (0.1 to 0.3, 3 seeds)"),
        ([1e-17, 2e-15, 4e-13], {"floor": 1e-14}, "below 1e-14 (below 1e-14 to 4e-13, 3 seeds)"),
        ([4, 4, 5, 12345], {}, "4.5 (4 to 12345, 4 seeds)"),
        ([7], {}, "7 (1 seed)"),
        (range(3), {}, "1 (0 to 2, 3 seeds)"),
        (1.23456, {"unit": "kB"}, "1.23 kB"),
        (-0.0, {}, "0"),
        (-2.0, {"floor": 1e-14}, "-2"),
        (np.float64(0.5), {}, "0.5"),
        (np.int64(76800), {}, "76800"),
        (np.array(0.5), {}, "0.5"),
        (np.float32([0.5, 0.25, 0.75]), {}, "0.5 (0.25 to 0.75, 3 seeds)"),
        ("all 20 supports", {}, "all 20 supports"),
        ([1.0, math.inf], {}, "inf (1 to inf, 2 seeds)"),
    ],
)
def test_measured_values_in_print(measured, options, shown):
    assert claim("a", "holds", measured, True, **options).shown == shown


@pytest.mark.parametrize("holds", [True, False, np.True_, np.False_, *VERDICTS])
def test_verdicts(holds, capsys):
    verdict = claim("a", "holds", 1.0, holds).verdict
    assert verdict == (holds if isinstance(holds, str) else "reproduced" if holds else "not reproduced")
    assert capsys.readouterr().out.startswith(f"[{verdict}] a: ")


def test_the_record_holds_everything_and_reads_back(folder, monkeypatch):
    monkeypatch.setenv("FGMP_NOTEBOOK", "03_linear_convergence")
    parameters = {"alpha": np.float64(2.5), "rounds": np.int64(8), "alphas": np.array([0.0, 0.1]), "dictionary": None}
    made = claim("a.b-c_1", "x", [1.0, 2.0, 4.0], "corrected", expected=3.0, unit="s", parameters=parameters)
    record = json.loads((folder / "a.b-c_1.json").read_text())
    assert record["measured"] == [1.0, 2.0, 4.0]
    assert record["median"] == 2.0
    assert record["spread"] == {"min": 1.0, "q25": 1.5, "q75": 3.0, "max": 4.0}
    assert record["parameters"] == {"alpha": 2.5, "rounds": 8, "alphas": [0.0, 0.1], "dictionary": None}
    assert (record["expected"], record["unit"], record["verdict"]) == (3.0, "s", "corrected")
    assert record["notebook"] == "03_linear_convergence"
    assert set(record["versions"]) == {"fgmp", "numpy", "scipy"}
    assert read_claims() == [made]
    assert [p.name for p in folder.iterdir()] == ["a.b-c_1.json"]


def test_infinity_and_nan_survive_in_valid_json(folder):
    claim("a", "diverges", [1.0, math.inf, math.nan], False, parameters={"radius": math.inf})
    json.loads((folder / "a.json").read_text(), parse_constant=pytest.fail)
    (read,) = read_claims()
    assert read.measured[1] == math.inf
    assert math.isnan(read.measured[2])
    assert read.parameters == {"radius": math.inf}
    assert read.shown == "nan (3 seeds)"


def test_a_second_claim_of_the_same_name_replaces_the_first():
    claim("a", "x", 1.0, True)
    claim("a", "x", 2.0, True)
    assert [c.measured for c in read_claims()] == [2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Figure 1", "x", 1.0, True), "id must be"),
        (("../a", "x", 1.0, True), "id must be"),
        (("", "x", 1.0, True), "id must be"),
        (("a", "", 1.0, True), "statement must be one line"),
        (("a", "x\ny", 1.0, True), "statement must be one line"),
        (("a", "x", "y\nz", True), "measured must be one line"),
        (("a", "x", [], True), "measured is empty"),
        (("a", "x", np.empty(0), True), "measured is empty"),
        (("a", "x", None, True), "measured must hold numbers"),
        (("a", "x", True, True), "measured must hold numbers"),
        (("a", "x", [1.0, "2"], True), "measured must hold numbers"),
        (("a", "x", [[1.0], [2.0]], True), "measured must hold numbers"),
        (("a", "x", {"b": 1.0}, True), "measured must be a plain value"),
        (("a", "x", math.nan, True), "measured holds NaN"),
        (("a", "x", [1.0, math.nan], "reproduced"), "measured holds NaN"),
        (("a", "x", 1.0, "fine"), "holds must be True, False or one of reproduced"),
        (("a", "x", 1.0, None), "holds must be"),
    ],
)
def test_bad_arguments_leave_no_record(arguments, message, folder, capsys):
    with pytest.raises(ValueError, match=message):
        claim(*arguments)
    assert not folder.exists()
    assert capsys.readouterr().out == ""


def test_parameters_must_be_plain():
    with pytest.raises(ValueError, match=r"parameters\['method'\] must be a plain value, got object"):
        claim("a", "x", 1.0, True, parameters={"method": object()})


def test_a_record_that_is_none_is_named(folder):
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    with pytest.raises(ValueError, match=r"a\.json is not the record of a claim"):
        read_claims()


def test_the_folder_is_that_of_the_project_around(tmp_path, monkeypatch):
    monkeypatch.delenv("FGMP_CLAIMS")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert claims_folder() == tmp_path / "notebooks" / "build" / "claims"
    (tmp_path / "pyproject.toml").touch()
    assert claims_folder() == tmp_path / "build" / "claims"


def test_printed_lines_read_back(capsys):
    made = [
        claim("b", "|x| < 1: a | b", [1.0, 2.0], "reproduced in part", expected="about 1"),
        claim("a", "y", "as printed", False),
    ]
    read = printed_claims(f"some text\n{capsys.readouterr().out}[not a claim]\n", "03_x")
    assert [c.line for c in read] == [c.line for c in made]
    assert {c.notebook for c in read} == {"03_x"}


def test_ledger_has_a_row_with_a_link_for_each_claim():
    claims = printed_claims("[reproduced] a: |x| < 1 | expected: 0.5 | measured: 0.4 (3 seeds)", "03_x")
    row = r"| a | \|x\| &lt; 1 | 0.5 | 0.4 (3 seeds) | reproduced | [03_x](notebooks/03_x.ipynb) |"
    assert ledger(claims).splitlines()[2:] == [row]


def test_summary_counts_verdicts():
    text = "[reproduced] a: x | measured: 1\n[corrected] b: y | measured: 2\n[reproduced] c: z | measured: 3\n"
    assert summary(printed_claims(text)) == text + "claims: 2 reproduced, 1 corrected"
    assert summary([]) == "claims: none recorded"


def test_a_claim_that_ends_a_cell_shows_nothing_more(capsys):
    made = claim("a", "x", 1.0, True)
    capsys.readouterr()
    made._ipython_display_()
    assert capsys.readouterr().out == ""
