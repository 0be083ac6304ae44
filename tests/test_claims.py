"""claim(): the line it prints, the record it leaves, and what it refuses."""

import json
import math

import numpy as np
import pytest

from fgmp.book.claims import OF_THE_PAPER, OURS, claims_folder, printed_claims, read_claims, summary
from fgmp.book.claims import claim as claim_in_full


def claim(*arguments, source="paper, Figure 1, line 1168", expected="about 1", **options):
    return claim_in_full(*arguments, source=source, expected=expected, **options)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_CLAIMS", str(tmp_path / "claims"))
    monkeypatch.delenv("FGMP_NOTEBOOK", raising=False)
    return tmp_path / "claims"


def test_the_line_of_figure_one(capsys):
    words = "error <= 1e-14 on at least 19 of 20 seeds"
    claim("fig1-noiseless", words, np.full(20, 3e-16), True, floor=1e-14, expected="at most 1e-14")
    line = f"[reproduced] fig1-noiseless (paper, Figure 1, line 1168): {words}"
    line += " | expected: at most 1e-14 | measured: below 1e-14 (20 seeds)"
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
        ({"A": [1.0, 2.0, 3.0], "B": [4.0] * 3}, {"unit": "s"}, "A 2 (1 to 3), B 4 s; 3 seeds"),
        ({"A": [1.0, 2.0, 3.0], "B": [4.0, 5.0]}, {}, "A 2 (1 to 3, 3 seeds), B 4.5 (4 to 5, 2 seeds)"),
        ({"A": 0.5, "B": np.array([1e-17])}, {"floor": 1e-14}, "A 0.5, B below 1e-14; 1 seed"),
        ({"A": 0.5, "B": 2}, {}, "A 0.5, B 2"),
    ],
)
def test_measured_values_in_print(measured, options, shown):
    assert claim("a", "holds", measured, True, **options).shown == shown


@pytest.mark.parametrize(
    ("holds", "place"),
    [
        (True, 0),
        (np.True_, 0),
        (np.ones(20, bool), 0),
        ([True, np.True_], 0),
        (np.arange(20) > 0, 1),
        ([True, False], 1),
        (np.array([[True, False], [False, True]]), 1),
        ([True, False, False], 2),
        (False, 2),
        ([False], 2),
    ],
)
def test_in_part_means_at_least_half(holds, place, capsys):
    assert claim("a", "holds", 1.0, holds).verdict == OF_THE_PAPER[place]
    assert capsys.readouterr().out.startswith(f"[{OF_THE_PAPER[place]}] a (paper, Figure 1, line 1168): ")
    assert claim("a", "holds", 1.0, holds, source="ours").verdict == OURS[place]


@pytest.mark.parametrize("word", ["corrected", "undecided"])
def test_words_are_for_statements_of_the_paper(word):
    assert claim("a", "holds", 1.0, word).verdict == word
    with pytest.raises(ValueError, match="expected booleans, or no word for a statement of ours"):
        claim("a", "holds", 1.0, word, source="ours, Figure 1")


@pytest.mark.parametrize("word", ["reproduced", "reproduced in part", "not reproduced", "holds", "fine", ""])
def test_a_verdict_that_can_be_computed_is_no_word(word):
    with pytest.raises(ValueError, match="expected booleans, or 'corrected' or 'undecided'"):
        claim("a", "holds", 1.0, word)


def test_the_record_holds_everything_and_reads_back(folder, monkeypatch):
    monkeypatch.setenv("FGMP_NOTEBOOK", "03_linear_convergence")
    parameters = {"alpha": np.float64(2.5), "rounds": np.int64(8), "alphas": np.array([0.0, 0.1]), "dictionary": None}
    source = "paper, Theorem 1, line 629"
    measured = [1.0, 2.0, 4.0]
    made = claim("a.b-c_1", "x", measured, "corrected", source=source, expected=3.0, unit="s", parameters=parameters)
    record = json.loads((folder / "a.b-c_1.json").read_text())
    assert record["measured"] == [1.0, 2.0, 4.0]
    assert record["median"] == 2.0
    assert record["spread"] == {"min": 1.0, "q25": 1.5, "q75": 3.0, "max": 4.0}
    assert record["parameters"] == {"alpha": 2.5, "rounds": 8, "alphas": [0.0, 0.1], "dictionary": None}
    assert (record["expected"], record["unit"], record["verdict"]) == (3.0, "s", "corrected")
    assert record["source"] == source
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


def test_names_survive_in_json(folder):
    made = claim("a", "x", {"A": [1.0, math.inf], "B": 2}, False)
    assert json.loads((folder / "a.json").read_text())["measured"] == {"A": [1.0, "inf"], "B": 2}
    assert read_claims() == [made]


def test_a_second_claim_of_the_same_name_replaces_the_first():
    claim("a", "x", 1.0, True)
    claim("a", "x", 2.0, True)
    assert [c.measured for c in read_claims()] == [2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Figure 1", "x", 1.0, True), "id is 'Figure 1'; expected lower-case"),
        (("../a", "x", 1.0, True), "id is"),
        (("", "x", 1.0, True), "id is"),
        (("a", "", 1.0, True), "statement is ''; expected one line of text"),
        (("a", " ", 1.0, True), "statement is"),
        (("a", "x\ny", 1.0, True), "statement is"),
        (("a", "x", "y\nz", True), "measured is 'y.nz'; expected one line"),
        (("a", "x", [], True), r"measured is \[\]; expected one value per seed"),
        (("a", "x", {}, True), "measured is {}; expected one value per seed"),
        (("a", "x", {"b": []}, True), r"measured is {'b': \[\]}; expected one"),
        (("a", "x", np.empty(0), True), r"measured is array\(.*\); expected one"),
        (("a", "x", None, True), "measured is None; expected numbers"),
        (("a", "x", True, True), "measured is True; expected numbers"),
        (("a", "x", [1.0, "2"], True), "expected numbers or a string"),
        (("a", "x", {"b": "2"}, True), "expected numbers or a string"),
        (("a", "x", [[1.0], [2.0]], True), "expected numbers or a string"),
        (("a", "x", b"1", True), "measured is of type bytes; expected a plain value"),
        (("a", "x", math.nan, True), "measured holds NaN"),
        (("a", "x", {"b": [1.0, math.nan]}, [True]), "measured holds NaN"),
        (("a", "x", 1.0, None), "holds is None; expected True, False, a sequence"),
        (("a", "x", 1.0, []), "holds is"),
        (("a", "x", 1.0, [1, 0]), "holds is"),
    ],
)
def test_bad_arguments_leave_no_record(arguments, message, folder, capsys):
    with pytest.raises(ValueError, match=message):
        claim(*arguments)
    assert not folder.exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("source", ["", "we", "paper", "paper, ", "paper, Figure 1 (left)", "ours,", "ours, a|b", None])
def test_a_source_says_whose_and_where(source):
    with pytest.raises(ValueError, match="source is .*; expected 'paper, ' with a place, or 'ours'"):
        claim("a", "x", 1.0, True, source=source)


@pytest.mark.parametrize("expected", ["", " ", None, "a\nb"])
def test_what_is_expected_must_be_said(expected):
    with pytest.raises(ValueError, match="expected is"):
        claim("a", "x", 1.0, True, expected=expected)
    with pytest.raises(TypeError, match="expected"):
        claim_in_full("a", "x", 1.0, True, source="ours")


def test_parameters_must_be_plain():
    with pytest.raises(ValueError, match=r"parameters\['method'\] is of type object; expected a plain value"):
        claim("a", "x", 1.0, True, parameters={"method": object()})


def test_a_record_that_is_none_is_named(folder):
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    with pytest.raises(
        ValueError, match=r"a\.json is no record of a claim \(.*missing.*\); expected what claim\(\) writes"
    ):
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
        claim("b", "|x| < 1: a | b", [1.0, 2.0], [True, False], expected="about 1"),
        claim("a", "y (z): 1", "as printed", False, source="ours"),
    ]
    read = printed_claims(f"some text\n{capsys.readouterr().out}[not a claim]\n", "03_x")
    assert [c.line for c in read] == [c.line for c in made]
    assert {c.notebook for c in read} == {"03_x"}


def test_summary_counts_verdicts():
    rows = ("reproduced", "paper, A"), ("holds in part", "ours"), ("corrected", "paper, A"), ("reproduced", "paper, B")
    text = "".join(f"[{verdict}] a ({source}): x | expected: 1 | measured: 1\n" for verdict, source in rows)
    assert summary(printed_claims(text)) == text + "claims: 2 reproduced, 1 corrected, 1 holds in part"
    assert summary([]) == "claims: none recorded"


def test_a_claim_that_ends_a_cell_shows_nothing_more(capsys):
    made = claim("a", "x", 1.0, True)
    capsys.readouterr()
    made._ipython_display_()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("values", "step", "words"),
    [
        ([-0.07, -0.101], 0.05, "-0.15 to -0.05 (2 seeds)"),
        ([-0.1, -0.05, -0.07], 0.05, "-0.1 to -0.05 (3 seeds)"),
        ([0.0], 0.05, "0 (1 seed)"),
        ([-1e-12, 0.0], 0.01, "0 (2 seeds)"),
        ([0.149, 0.31], 0.1, "0.1 to 0.4 (2 seeds)"),
        ({"a": [0.01, 0.02], "b": [-0.06, -0.07]}, 0.05, "a 0 to 0.05, b -0.1 to -0.05; 2 seeds"),
    ],
)
def test_ranges_are_rounded_outwards(values, step, words, tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_CLAIMS", str(tmp_path))
    record = claim_in_full("x", "y", values, True, source="ours", expected="z", within=step)
    assert record.shown == words
    assert read_claims(tmp_path)[0].measured == record.measured != words
