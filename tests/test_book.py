"""What the notebooks share: claims and their verdicts, runs, sweeps and plays."""

import base64
import csv
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import PIL.Image
import pytest
from IPython.core.pylabtools import print_figure
from nbformat.v4 import new_output

import book
from book import __main__ as book_main
from book import (
    claim,
    claims,
    derived,
    keeping,
    ledger,
    overview,
    pairs,
    paper_figures,
    plays,
    running,
    writers,
)
from book.__main__ import main
from book.figures import STORED_DPI, BoundBesideError, curve, describe, panels, stored_figure

ROOT = pairs.NOTEBOOKS.parent
TOY = """# %% [markdown]
# # A toy

# %% tags=["parameters"]
alpha = 1.0  # a parameter
several = [1, 3]  # more of them

# %%
assert alpha < 9, f"{alpha=}: expected below 9"

# %%
from book import claim

claim("toy", f"alpha is {alpha:g}", [alpha, 2 * alpha], [True, alpha < 2], source="ours", expected="1")
claim("words", "w", "a few words", alpha < 2, source="paper, Figure 1, line 2", expected="1", unit="in all")
"""


def shown_claim(capsys, *arguments, **options):
    """Return what a claim shows."""
    claim("a.b-1", "in words", *arguments, **{"source": "ours", "expected": "1"} | options)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("source", "holds", "verdict", "met"),
    [
        ("ours", True, "holds", ""),
        ("ours", [True, True], "holds", ""),
        ("ours", False, "does not hold", ""),
        ("paper, Figure 3", [True, True, False], "reproduced in part", "; met by 2 of 3 parts"),
        (
            "paper, Figure 3",
            np.array([[True, False, False]]),
            "not reproduced",
            "; met by 1 of 3 parts",
        ),
        ("ours", "undecided", "undecided", ""),
        ("errata, Lemma 3", True, "as printed", ""),
        ("errata, Lemma 3", "misprint", "misprint", ""),
    ],
)
def test_verdict_of_a_claim_counts_its_answers(source, holds, verdict, met, capsys):
    """Or it is the one that is named. If only some of several are true, their number is shown."""
    shown = shown_claim(capsys, 1, holds, source=source)
    assert shown == f"[{verdict}] a.b-1: 1\n    in words\n    expected: 1{met}"


def test_one_answer_for_each_measured_value_is_that_of_a_seed(capsys):
    """Also where the values have names."""
    for measured in ([1.0, 2.0, 3.0], {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]}):
        shown = shown_claim(capsys, measured, [True, False, False])
        assert shown.endswith("expected: 1; met by 1 of 3 seeds")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"holds": "misprint"}, "holds is .*; expected True, False"),  # a word of the errata alone
        ({"holds": [0, 1]}, "holds is "),
        (
            {"measured": [1.0, np.nan]},
            "measured of a.b-1 is .*; expected numbers, or another verdict than 'holds'",
        ),
        ({"source": "Figure 3"}, "source of a.b-1 is 'Figure 3'; expected"),
    ],
)
def test_claim_without_a_verdict_is_refused(given, words, capsys):
    """A wrong answer, a number that is none and an unknown source are named."""
    with pytest.raises(ValueError, match=words):
        shown_claim(capsys, **{"measured": 1, "holds": True} | given)


@pytest.mark.parametrize(
    ("measured", "options", "line", "full"),
    [
        ([0.12345, 2.0, 1.0], {}, "1 (0.123 to 2, 3 seeds)", None),
        ([1e-17, 1e-16], {"floor": 1e-14}, "below 1e-14 (2 seeds)", None),
        (np.float64(0.666666), {"digits": 2}, "0.67", None),
        ([0.176, 0.31], {"within": 0.1}, "0.1 to 0.4 (2 seeds)", None),
        (
            {"a": [1.0, 2.0], "b": [3.0, 3.0]},
            {},
            "a 1.5, b 3; 2 seeds",
            "a 1.5 (1 to 2), b 3; 2 seeds",
        ),
        ({"K = 3": 1.5, "mean": 2.0}, {}, "K = 3: 1.5, mean 2", None),
        ("a few words", {"unit": "in all"}, "a few words in all", None),
    ],
)
def test_measured_values_are_shown_in_one_line_above_the_words(
    measured, options, line, full, capsys
):
    """Medians and ranges over seeds have three significant digits."""
    shown = shown_claim(capsys, measured, True, **options)
    assert shown == f"[holds] a.b-1: {line}\n    in words\n    expected: 1"
    unit = f" {options.pop('unit')}" if "unit" in options else ""
    assert claims.shown(claims.plain(measured), unit, **options) == (full or line)


def test_claims_are_those_of_the_records_and_the_notebooks():
    """CLAIMS.md, the records and the outputs of the notebooks agree."""
    found = ledger.records()
    assert (ROOT / "CLAIMS.md").read_text() == ledger.page(found), "make refresh writes it"
    assert (ledger.RESULTS / "claims.csv").read_text() == ledger.table(found), (
        "make refresh writes it"
    )
    assert ledger.summary(found) in (ROOT / "README.md").read_text()
    committed = [one for one in found if not one["kept"]]
    ids = [one["id"] for one in committed]
    assert len(set(ids)) == len(ids)
    for path in pairs.NOTEBOOKS.glob("[0-9]*.ipynb"):
        outputs = [
            o for cell in pairs.read(path).cells for o in cell.get("outputs", []) if "data" in o
        ]
        lines = [
            text for o in outputs if keeping.VERDICT.match(text := o["data"].get("text/plain", ""))
        ]
        records = json.loads((ledger.RESULTS / f"{path.stem}.json").read_text())["claims"]
        assert [line.partition(":")[0] for line in lines] == [
            f"[{one['verdict']}] {one['id']}" for one in records
        ]


def record(**other):
    """A claim as `ledger.records` has it, of a committed run that holds."""
    one = {"id": "x", "source": "ours", "verdict": "holds", "shown": "1 (0 to 2, 3 seeds)"}
    return one | {"notebook": "03_toy", "run": "03_toy", "kept": ""} | other


@pytest.mark.parametrize(
    ("other", "counts_as"),
    [
        ({"source": "paper, Figure 3, line 1"}, "figures"),
        ({"source": "paper, Lemma 3, line 1"}, "theory"),
        ({"source": "paper, Figure 6, line 1"}, "stand-ins"),
        ({"source": "paper, Figure 6, line 1", "kept": "mnist-writers"}, "stand-ins"),
        ({"source": "paper, Figure 6, line 1", "kept": "femnist"}, "no: a kept run"),
        ({"source": "paper, Figure 3, line 1", "kept": "more-seeds"}, "no: a kept run"),
        ({"source": "errata, Lemma 3, line 1"}, "theory"),
        ({"source": "paper, appendix", "id": "theory-unbounded-variance"}, "theory"),
        ({"source": "check, a place"}, "checks"),
        ({}, "ours"),
    ],
)
def test_record_is_about_a_figure_the_theory_or_what_is_ours(other, counts_as):
    """What a record is about is decided by who states it, by its data, and by the run."""
    assert ledger.counted_as(record(**other)) == counts_as


def test_a_row_whose_record_changed_sides_or_words_stops_the_page():
    """A row needs its record, a number that reads as expected, and a reason just where it did not come out."""
    find = overview.found_in([record(), record(id="bad", verdict="does not hold")])
    row = overview.Row("Ours", "", "a", "b", "x", "about {}", r"^(\d)", ("bad",), reason="so")
    assert overview.number_of(row, find("x")) == "about 1 (3 seeds)"
    assert overview.kind_of(row, find, {}) == "holds in part"
    assert overview.kind_of(dataclasses.replace(row, undecided=True), find, {}) == "undecided"
    for broken, words in (
        ({"record": "gone"}, "no record has this id"),
        ({"reason": ""}, "has no reason"),
        ({"also": ()}, "has a reason"),
    ):
        with pytest.raises(ValueError, match=words):
            overview.kind_of(dataclasses.replace(row, **broken), find, {})
    with pytest.raises(ValueError, match="mend the row"):
        overview.number_of(dataclasses.replace(row, pick="none"), find("x"))


def test_number_of_a_row_may_be_what_its_record_keeps():
    """A name in braces is a value that the claim kept."""
    row = overview.Row("Ours", "", "a", "b", "x", "{}, slope {slope:.2f}", r"^(\d)")
    assert (
        overview.number_of(row, record(parameters={"slope": -0.4567})) == "1, slope -0.46 (3 seeds)"
    )


@pytest.mark.parametrize(
    ("weight", "only", "reason", "kind"),
    [
        ("gap in the proof", "", "", "holds"),
        ("misprint", "", "", "holds, misprinted"),
        ("hypothesis missing", "where it is met", "", "holds in part"),
        ("never applicable", "", "what remains", "cannot apply"),
        ("statement false", "", "what remains", "false as printed"),
    ],
)
def test_what_became_of_a_statement_follows_from_the_weight_of_its_entry(
    weight, only, reason, kind
):
    """What its entry says weighs more than a record that holds."""
    row = overview.Row("Theory", "a lemma", "a", "b", "x", entries=(2, 7), only=only, reason=reason)
    weights = {2: "silence", 7: weight}
    assert overview.kind_of(row, overview.found_in([record()]), weights) == kind


def row_of(record, **other):
    """A row of the theory, in few words."""
    return overview.Row("Theory", "", "a", "b", record, **other)


def test_what_no_row_has_is_named():
    """A record about the paper is in one row, as its number, beside it or joined; an entry in one or more."""
    printed = record(id="printed", source="errata, Lemma 1, line 2")
    stated = record(id="stated", source="paper, Lemma 1, line 1")
    found, weights = [stated, printed, record()], {1: "misprint"}
    whole = row_of("stated", beside=("printed",), entries=(1,))
    assert overview.left_out(found, weights, [whole]) == []
    for rows, problems in (
        ([row_of("stated", entries=(1,))], ["printed is in 0 rows"]),
        ([whole, row_of("printed")], ["printed is in 2 rows"]),
        ([row_of("stated", also=("printed",))], ["entry 1 is in no row"]),
        ([dataclasses.replace(whole, entries=(1, 26))], ["there is no entry 26"]),
        (
            [row_of("printed", entries=(1,)), dataclasses.replace(whole, block="Ours")],
            ["stated is in 0 rows"],
        ),
    ):
        assert overview.left_out(found, weights, rows) == problems


@pytest.mark.parametrize(
    "missing", ["theory-last-lemma", "theory-unbounded-variance", "fig8-diverges-printed"]
)
def test_count_stops_if_a_statement_that_fails_is_left_out(missing, monkeypatch):
    """Neither what is false as printed, nor what can never apply, nor what did not come out."""
    rows = tuple(row for row in overview.ROWS if missing not in row.ids)
    assert len(rows) == len(overview.ROWS) - 1
    monkeypatch.setattr(overview.left_out, "__defaults__", (rows,))
    with pytest.raises(ValueError, match="in no row|in 0 rows"):
        ledger.count(ledger.records())


def test_every_statement_of_the_paper_is_counted_once_and_false_ones_are_among_them():
    """Rows of one statement count once, and each entry of ERRATA.md that is false is a statement that is counted."""
    found, weights = ledger.records(), ledger.weights_of_errata()
    counted = ledger.count(found)
    of_paper = [rows for rows in overview.statements() if rows[0].block != "Ours"]
    assert sum(one.total() for one in counted.values()) == len(of_paper)
    false = [number for number, weight in weights.items() if weight == "statement false"]
    assert counted["theory"]["false as printed"] == len(false) > 0
    assert counted["theory"]["cannot apply"] == [*weights.values()].count("never applicable") > 0
    # Each row that is false or void has its own statement: none hides behind another setting.
    assert [row.record for rows in of_paper for row in rows[1:] if row.block == "Theory"] == []
    table = re.findall(r"^\| ([^|]+) \|(?: \d+ \|){3} (\d+) \|$", ledger.page(found), re.MULTILINE)
    assert sum(int(number) for _, number in table[:-1]) == int(table[-1][1]) == len(of_paper)


def test_statement_in_several_settings_is_joined():
    """It holds in part unless all settings agree, or the printed one, which is the first, is undecided."""
    assert overview.joined(["holds", "does not hold"]) == "holds in part"
    assert overview.joined(["does not hold", "does not hold"]) == "does not hold"
    assert overview.joined(["undecided", "holds in part"]) == "undecided"
    assert overview.joined(["holds", "undecided"]) == "holds in part"
    first, second, third = row_of("a"), row_of("b", again=True), row_of("c")
    assert overview.statements([first, second, third]) == [[first, second], [third]]


def test_leads_at_own_rate_are_those_that_the_notebook_claims():
    """With ink = 1 the computation for the page gives the numbers of the notebook's own claims."""
    records = json.loads((ledger.RESULTS / "09_digits_by_writer.json").read_text())["claims"]
    by_id = {one["id"]: one for one in records}
    main = by_id["fig6-unseen"]["parameters"]
    for stop, words in zip(main["stops"], ("early", "late"), strict=True):
        expected = by_id[f"fig6-own-rate-{words}"]["measured"]
        leads = derived.own_rate_leads(main, stop, "ink = 1", "unseen")
        tuned = {"rivals at their best": by_id["fig6-tuned"]["measured"][f"after {stop} rounds"]}
        assert list(leads) == [*expected, *tuned]
        for rivals, lead in (expected | tuned).items():
            np.testing.assert_allclose(leads[rivals], lead, atol=1e-5)


def test_both_leads_are_those_of_cells_that_two_tables_share():
    """The rate 0.1 and the coding paper = 1 are in one table only; the third seed is in one only."""
    fedavg = {
        f"ink = 1, FedAvg, tau None, rate {rate}": {"unseen 100": ends}
        for rate, ends in ((0.01, [0.5, 0.6, 0.9]), (0.001, [0.4, 0.4, 0.9]))
    }
    arms = {
        f"ink = 1, FedGradMP, tau 20{basis}, rate {rate}": {"unseen 100": ends}
        for basis, ends in (("", [0.7, 0.9]), (", 200 atoms", [0.6, 0.8]))
        for rate in (0.01, 0.1)
    }
    six = {"rates": [0.01], "cells": fedavg}
    seven = {"rates": [0.01, 0.1], "sparsity": [20, 50], "atoms": 200, "stops": [100]}
    [(over_fedavg, over_pixels)] = derived.both_leads(six, seven | {"cells": arms})
    np.testing.assert_allclose([over_fedavg, over_pixels], [0.25, -0.1])
    of_fedavg = derived.both_leads(six, seven | {"cells": arms}, 0.001)
    np.testing.assert_allclose(of_fedavg, [(0.4, -0.1)])


def test_sweep_writes_a_table_and_resumes_from_it(tmp_path, monkeypatch):
    """A point that failed is reported, a finished one does not run again, and names are checked."""
    monkeypatch.setenv("PYTHONPATH", f"{pairs.NOTEBOOKS}:{ROOT}")
    toy = tmp_path / "03_toy.py"
    toy.write_text(TOY)
    nbformat.write(running.unexecuted(toy, {}), toy.with_suffix(".ipynb"))
    reports = []
    out = tmp_path / "out"
    points = [{"several": 2} | point for point in running.grid(["alpha=0.5,3,1e1"])]
    assert running.sweep(toy, points, out, jobs=2, report=reports.append) == 2
    assert [report.split()[0] for report in reports] == ["done", "done", "FAILED"]
    assert reports[2].endswith("AssertionError: alpha=10: expected below 9")
    with open(out / "sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["alpha"], row["verdict"]) for row in rows[:2]] == [
        ("0.5", "holds"),
        ("0.5", "reproduced"),
    ]
    assert [(row["alpha"], row["claim"]) for row in rows[2:]] == [
        ("3", "toy"),
        ("3", "words"),
        ("10", ""),
    ]
    assert (rows[2]["median"], rows[2]["min"], rows[2]["values"]) == ("4.5", "3.0", "3 6")
    done = sorted(out.glob("*[!d].ipynb"))
    # The finished points do not run again.
    assert running.sweep(toy, points[:2], out, report=reports.append) == 2
    assert len(reports) == 3
    record = pairs.parameters(pairs.read(done[0]))
    assert record["several"] == 2
    assert record["alpha"] in (0.5, 3)
    with pytest.raises(ValueError, match="^03_toy has no parameter alhpa; it has: alpha, several$"):
        running.sweep(toy, [{"alhpa": 1}], tmp_path / "never")


def test_stored_figure_is_sharp_and_has_its_size_and_words():
    """A figure of 4 by 2 inches is stored at 144 dots an inch and shown at 90, with its words as alt text."""
    figure, (left, right) = panels(2, width=2, height=2)
    left.plot([1, 2], label="FedGradMP")
    left.set(title="without noise", xlabel="round", ylabel="$\\|x\\|_2$")
    right.imshow(np.eye(3))
    right.set_title("$A^T A$")
    encoded, shown = stored_figure(figure)
    with PIL.Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        assert shown["width"] == round(picture.width / 1.6)
        assert shown["height"] == round(picture.height / 1.6)
    assert shown["alt"] == "without noise; |x|_2 against round; FedGradMP | A^T A"
    figure.clear()
    assert describe(figure) == "A picture without words"


def figure_with_odd_parts(layout):
    """Return a figure with a text outside of its axes, logarithmic axes, legends and a title of all."""
    figure, axes = plt.subplots(1, 2, figsize=(5, 3), layout=layout)
    for number, ax in enumerate(axes):
        curve(ax, range(1, 9), np.random.default_rng(number).random((3, 8)), "a method")
        ax.set(yscale="log", title="$A^T A$", xlabel="round", ylabel="relative error")
        ax.legend(loc="best")
    ax.text(1.1, 0.5, "outside", transform=ax.transAxes)
    figure.suptitle("Two panels")
    return figure


@pytest.mark.parametrize("layout", ["constrained", "tight", "none"])
def test_stored_figure_has_the_pixels_of_ipython(layout):
    """IPython draws a figure, once it is laid out, twice."""
    encoded, _ = stored_figure(figure_with_odd_parts(layout))
    other = figure_with_odd_parts(layout)
    if layout != "none":
        other.get_layout_engine().execute(other)
        other.set_layout_engine("none")
    expected = print_figure(other, dpi=STORED_DPI)
    with (
        PIL.Image.open(io.BytesIO(base64.b64decode(encoded))) as found,
        PIL.Image.open(io.BytesIO(expected)) as drawn_twice,
    ):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(drawn_twice.convert("RGB")))
    plt.close("all")


def test_bound_beside_errors_is_that_by_hand():
    """Whether a bound holds, whether it says anything, and by which factors."""
    runs = [
        ([4.0, 1.0, 0.0], [5.0, 2.0, 1.0]),
        ([4.0, 3.0, 2.0], [5.0, 2.0, 2.0]),
        ([4.0, 1.0, 1.0], [9.0, 9.0, 4.0]),
    ]
    beside = BoundBesideError.of(runs, exact=0.5)
    # The second run exceeds its bound in round 1.
    assert beside.holds.tolist() == [True, False, True]
    # The third bound ends at the error of the zero model.
    assert beside.useful.tolist() == [True, False, False]
    np.testing.assert_array_equal(beside.factors["bound over zero model"], [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(beside.factors["over squared error"], [2.0, 1.0, 4.0])


def test_infinite_bound_neither_holds_nor_is_useful():
    """Nor does one beside an error that is no number."""
    beside = BoundBesideError.of(
        [([4.0, 1.0], [5.0, np.inf]), ([4.0, np.nan], [5.0, 2.0]), ([4.0, 1.0], [5.0, 2.0])]
    )
    assert beside.holds.tolist() == beside.useful.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (3, "int"),
        (3, "float"),
        (0.5, "float"),
        (0.5, "float | None"),
        (None, "float > 0 | None"),
        ([1, 2], "list[int]"),
        ([1, 0.5], "list[float]"),
        (["a"], "list[str]"),
        ("cv", "1 <= int <= 13 | str in ['cv']"),
        (13, "1 <= int <= 13 | str in ['cv']"),
        ([3], "int | list[int] | None"),
        (4, "1 <= int <= n"),
        (0.1, "0 < float <= 0.1"),
        (4, "int >= min(n, 7)"),
        ([1, 4], "increasing list[int, 2] >= 1"),
        ([1, 4, 5], "1 <= increasing list[int, 2..] <= n + 1"),
    ],
)
def test_parameter_that_is_as_its_rule_says_passes(value, rule):
    """Whole numbers are numbers, options have several types, and bounds are expressions."""
    book.check_parameters({"n": 4, "rounds": value}, {"int": "n", rule: "rounds"})


@pytest.mark.parametrize(
    ("value", "rule", "words"),
    [
        (10.0, "int", "rounds=10.0: expected a whole number"),
        (True, "int >= 1", "rounds=True: expected a whole number"),
        (True, "float", "rounds=True: expected a number"),
        (np.inf, "float", "rounds=inf: expected a number"),
        (np.nan, "float | None", "rounds=nan: expected a number or None"),
        ("1e-6", "float >= 0", "rounds='1e-6': expected a number"),
        ([], "list[int]", r"rounds=\[\]: expected a list of whole numbers, one or more"),
        ([1, True], "list[int]", "expected a list of whole numbers"),
        ([0.5, np.nan], "list[float]", "expected a list of numbers"),
        (3, "list[float]", "expected a list of numbers"),
        (3, "str", "rounds=3: expected a text"),
        ("x\n" * 100, "int", r"rounds='x\\n.{40,60}\.\.\.: expected a whole number$"),
    ],
)
def test_parameter_of_another_type_is_named_in_one_line(value, rule, words):
    """The message has the name, the value, and the type that was expected."""
    with pytest.raises(TypeError, match=words) as caught:
        book.check_parameters(
            {"n": -1, "rounds": value},
            {"int >= 0": "n", rule: "rounds"} if rule != "int" else {"int": "n rounds"},
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "rule", "words"),
    [
        (0, "int >= 1", "a whole number, at least 1"),
        (5, "1 <= int <= n", "a whole number, at least 1, at most n=4"),
        (9, "int < 2 * n", "a whole number, below 2 * n=8"),
        (0, "0 < float <= 0.1", "a number, above 0, at most 0.1"),
        ("b", "str in ['a', 'cv']", "a text, one of a, cv"),
        (0, "int >= 1 | str in ['cv']", "a whole number, at least 1 or a text, one of cv"),
        ([1, 1], "increasing list[int]", "a list of whole numbers, one or more, increasing"),
        ([1, 0], "list[int] >= 1", "a list of whole numbers, one or more, each at least 1"),
        ([1], "list[float, 2..]", "a list of numbers, 2 or more"),
        ([1, 2, 3], "list[float, 2]", "a list of numbers, 2 of them"),
    ],
)
def test_parameter_out_of_bounds_is_named_in_one_line(value, rule, words):
    """The message has the name, the value, and the bounds with their values."""
    with pytest.raises(ValueError, match=".") as caught:
        book.check_parameters({"n": 4, "rounds": value}, {"int": "n", rule: "rounds"})
    assert str(caught.value) == f"rounds={value!r}: expected {words}"


@pytest.mark.parametrize("rule", ["integer", "1 < int >", "list", "int => 1", ""])
def test_rule_that_cannot_be_read_is_refused(rule):
    """And not taken for one that always holds."""
    with pytest.raises(ValueError, match="the rule is .*; expected one such as"):
        book.check_parameters({"rounds": 1}, {rule: "rounds"})


def command_line(*arguments):
    """The error that a call of `python -m book` raises before it runs anything."""
    with pytest.raises(ValueError) as caught:
        main(list(arguments), standalone_mode=False)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def nothing_runs(monkeypatch):
    """No notebook is executed; what would be is recorded."""
    tasks = []

    def record(given, *_):
        tasks.extend(given)
        return ["stopped here"] * len(given)

    monkeypatch.setattr(running, "run_all", record)
    return tasks


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["sweep", "05", "-g", "n_features=4", "-g", "n_features=5"],
            "-g n_features is given twice",
        ),
        (
            ["sweep", "05", "-g", "n_features=4,4"],
            "-g n_features has 4 twice; expected different values",
        ),
        (
            ["sweep", "05", "-g", "n_features"],
            "-g n_features has no name or no value; expected NAME=VALUE",
        ),
        (["sweep", "05", "-g", "n_features="], "-g n_features= has no name or no value"),
        (["sweep", "05", "-g", "=4"], "-g =4 has no name or no value"),
        (["sweep", "05", "-g", "n_features=,"], "-g n_features is no YAML"),
        (
            ["sweep", "05", "-g", "n_features=2020-01-01"],
            "-g n_features is a date, 2020-01-01; expected a number",
        ),
        (
            ["sweep", "05", "-g", "n_features=4", "-p", "n_features=5"],
            "n_features is given by -p and by -g",
        ),
        (
            ["sweep", "05", "-g", "n_feature=4"],
            "05_restricted_convexity has no parameter n_feature; it has:",
        ),
        (["run", "05", "-p", "n_features=[1"], "-p n_features is no YAML: expected ',' or ']'"),
        (["run", "05", "-p", "n_features=4", "-p", "n_features=5"], "-p n_features is given twice"),
        (["run", "05", "-p", "n_features"], "-p n_features has no name or no value"),
        (["run", "05", "-p", "n_features=2020-01-01 10:00:00"], "-p n_features is a datetime"),
        (["run", "99"], "there is no notebook 99; expected one of"),
        (["plays", "99"], "there is no notebook 99; expected one of"),
    ],
)
def test_invalid_option_stops_before_anything_runs(arguments, words, nothing_runs):
    """The message names the option, and no notebook is executed."""
    assert command_line(*arguments).startswith(words)
    assert not nothing_runs


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("", ["05"], " holds no parameters; expected notebooks"),
        ("- 4\n", [], " holds no parameters; expected notebooks"),
        (
            '"05": {n_features: 4}\n',
            ["05", "06"],
            " has no parameters of 06_convergence_theorem; expected an entry",
        ),
        ('"05": {n_feature: 4}\n', [], "05_restricted_convexity has no parameter n_feature"),
        ('"99": {n_features: 4}\n', [], "there is no notebook 99"),
        ('"05": 4\n', [], " has no names and values of parameters under 05"),
        (
            '"05": {n_features: 4}\n05_restricted_convexity: {sparsity: 1}\n',
            [],
            " has 05_restricted_convexity twice",
        ),
        (
            '"05": {n_features: 4, n_features: 5}\n',
            [],
            " is no YAML: n_features stands there twice",
        ),
        ('"05": {n_features: 4}\n"05": {sparsity: 1}\n', [], " is no YAML: 05 stands there twice"),
        ('"05": {n_features: 2020-01-01}\n', [], ", 05, n_features is a date, 2020-01-01"),
        ('"05": {n_features: [4}\n', [], " is no YAML: expected ',' or ']'"),
    ],
)
def test_invalid_file_of_parameters_is_refused(text, arguments, words, tmp_path, nothing_runs):
    """The message names the file and the entry, and no notebook is executed."""
    (tmp_path / "mine.yaml").write_text(text)
    message = command_line("run", "--parameters", str(tmp_path / "mine.yaml"), *arguments)
    assert message.removeprefix(str(tmp_path / "mine.yaml")).startswith(words)
    assert not nothing_runs


@pytest.mark.parametrize(
    "name", ['"05"', "05", "05_restricted_convexity", "05_restricted_convexity.ipynb"]
)
def test_file_of_parameters_names_notebooks_as_commands_do(
    name, tmp_path, monkeypatch, nothing_runs
):
    """By number or by name; numbers in the style of 1e1 are whole numbers."""
    monkeypatch.setattr(book_main, "BUILD", tmp_path)
    (tmp_path / "mine.yaml").write_text(f"{name}: {{n_features: 4, sparsity: 1, n_seeds: 3}}\n")
    with pytest.raises(SystemExit):
        main(
            ["run", "--parameters", str(tmp_path / "mine.yaml"), "-p", "n_seeds=1e1"],
            standalone_mode=False,
        )
    [(source, _, values)] = nothing_runs
    assert source.stem == "05_restricted_convexity"
    assert values == {
        "n_features": 4,
        "sparsity": 1,
        "n_seeds": 10,
    }
    assert isinstance(values["n_seeds"], int)


INTERRUPTED = """
import signal, sys
from book import running
from pathlib import Path

running.sweep(Path(sys.argv[1]), [{"alpha": a} for a in (1, 2, 3, 4)], Path(sys.argv[2]), jobs=1)
"""


def test_interrupted_sweep_marks_the_points_that_began(tmp_path):
    """Ctrl-C leaves a finished point, a failed one, and nothing of the others."""
    waits = TOY.replace(
        "from book import claim",
        "import time\nfrom pathlib import Path\n\nfrom book import claim",
        1,
    )
    waits += '\n# %%\nPath("began").write_text(str(alpha))\ntime.sleep(60 * (alpha > 1))\n'
    toy = tmp_path / "03_toy.py"
    out = tmp_path / "out"
    toy.write_text(waits)
    environment = os.environ | {"PYTHONPATH": f"{pairs.NOTEBOOKS}:{ROOT}"}
    nbformat.write(running.unexecuted(toy, {}), toy.with_suffix(".ipynb"))
    call = [sys.executable, "-c", INTERRUPTED, str(toy), str(out)]
    process = subprocess.Popen(
        call, env=environment, start_new_session=True, stderr=subprocess.PIPE
    )
    began = tmp_path / "began"
    while process.poll() is None and not (began.exists() and began.read_text() == "2"):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    hashes = [running.key(toy, {"alpha": a}) for a in (1, 2)]
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [f"{hashes[0]}.ipynb", f"{hashes[1]}.failed.ipynb"]
    )


@pytest.fixture
def toy_that_ran(tmp_path, monkeypatch):
    """A toy notebook, its run, and the parameters of the run."""
    monkeypatch.setenv("PYTHONPATH", f"{pairs.NOTEBOOKS}:{ROOT}")
    toy, output, parameters = (
        tmp_path / "03_toy.py",
        tmp_path / "out" / "03_toy.ipynb",
        {"alpha": 3},
    )
    toy.write_text(TOY)
    assert list(running.run_all([(toy, output, parameters)])) == [""]
    assert running.reason_to_run(toy, output, parameters) == ""
    return toy, output, parameters


def test_run_is_made_again_if_its_code_its_parameters_or_fgmp_changed(
    toy_that_ran, tmp_path, monkeypatch
):
    """A change of the text around the code is none."""
    toy, output, parameters = toy_that_ran
    changed = "changed since its last run: "
    assert running.reason_to_run(toy, output, {"alpha": 4}) == changed + "its parameters"

    toy.write_text(TOY.replace("# # A toy", "# # Another toy"))
    assert running.reason_to_run(toy, output, parameters) == ""
    toy.write_text(TOY.replace("2 * alpha", "3 * alpha"))
    assert running.reason_to_run(toy, output, parameters) == changed + "its code"
    toy.write_text(TOY)

    (tmp_path / "fgmp").mkdir()
    (tmp_path / "fgmp" / "__init__.py").write_text("")
    monkeypatch.setattr(running.fgmp, "__file__", str(tmp_path / "fgmp" / "__init__.py"))
    assert running.reason_to_run(toy, output, parameters) == changed + "fgmp"


def test_run_that_failed_or_broke_off_is_made_again(toy_that_ran):
    """A file that was cut while it was written, one that ends in the middle, and one with an error."""
    toy, output, parameters = toy_that_ran
    whole = output.read_text()
    record = json.loads(whole)

    output.write_text(whole[: len(whole) // 2])
    assert running.reason_to_run(toy, output, parameters) == "its last run broke off"
    record["metadata"]["papermill"]["end_time"] = None
    output.write_text(json.dumps(record))
    assert running.reason_to_run(toy, output, parameters) == "its last run broke off"
    output.unlink()
    assert running.reason_to_run(toy, output, parameters) == "it has no run"
    assert list(running.run_all([(toy, output, {"alpha": 10})])) != [""]
    assert running.reason_to_run(toy, output, {"alpha": 10}) == "its last run failed"


def test_kernel_that_dies_is_named_and_the_other_notebooks_go_on(toy_that_ran, tmp_path):
    """Its run counts as one that broke off."""
    toy, output, parameters = toy_that_ran
    dying = tmp_path / "04_toy.py"
    dying.write_text(TOY + "\n# %%\nimport os\n\nos._exit(1)\n")
    broken = tmp_path / "out" / "04_toy.ipynb"
    tasks = [(dying, broken, {}), (toy, output, parameters)]
    assert list(running.run_all(tasks)) == ["DeadKernelError: Kernel died", ""]
    assert running.reason_to_run(dying, broken, {}) == "its last run broke off"


@pytest.mark.parametrize(("n_deaths", "ends_well"), [(0, True), (1, True), (2, True), (3, False)])
def test_kernel_that_dies_before_its_first_reply_is_started_again(
    n_deaths, ends_well, tmp_path, monkeypatch
):
    """Twice at most: two processes may have given it a port that was taken."""
    died = "RuntimeError: Kernel died before replying to kernel_info"
    outcomes = [died] * n_deaths + [""]
    monkeypatch.setattr(running, "execute", lambda *_: outcomes.pop(0))
    toy = tmp_path / "03_toy.py"
    toy.write_text(TOY)
    assert running.run(toy, tmp_path / "out.ipynb", {}) == ("" if ends_well else died)
    assert len(outcomes) == (0 if ends_well else 1)


@pytest.mark.parametrize("alone", [True, False])
def test_kernel_of_a_notebook_that_runs_alone_ends_in_order(alone, tmp_path):
    """Its hooks are called, such as those that end the processes of joblib."""
    hook = "import atexit\nfrom pathlib import Path\n\natexit.register(Path('ended').touch)\n"
    toy = tmp_path / "03_toy.py"
    toy.write_text(f"# %%\n{hook}")
    assert running.run(toy, tmp_path / "out.ipynb", {}, alone) == ""
    assert (tmp_path / "ended").exists() is alone


def test_kept_notebook_has_the_words_of_today_and_the_outputs_of_its_run(toy_that_ran):
    """The cell that papermill adds is none of the notebook."""
    toy, output, _ = toy_that_ran
    toy.write_text(TOY.replace("# # A toy", "# # Another toy"))
    notebook = keeping.in_todays_words(pairs.read(output), toy)
    assert [cell.source for cell in notebook.cells][0] == "# Another toy"
    assert len(notebook.cells) == 4
    lines = [one["data"]["text/plain"] for one in notebook.cells[-1].outputs]
    assert [line.splitlines()[0] for line in lines] == [
        "[holds in part] toy: 4.5 (3 to 6, 2 seeds)",
        "[not reproduced] words: a few words in all",
    ]


FIRST = sorted(pairs.NOTEBOOKS.glob("[0-9]*.py"))[0]


@pytest.fixture
def kept_toy(tmp_path):
    """A list with one kept run of a notebook, the folder of results, and the record of the run."""
    file = tmp_path / "paper.yaml"
    file.write_text(f"{FIRST.stem}-tiny: {{n_seeds: 3}}\n")
    record = {
        "given_parameters": {"n_seeds": 3},
        "code": running.digest(running.code_of(FIRST)),
    }
    (tmp_path / f"{FIRST.stem}-tiny.json").write_text(json.dumps(record))
    (tmp_path / f"{FIRST.stem}-tiny.ipynb").write_text("")
    assert keeping.outdated(file, tmp_path) == []
    return file, tmp_path, record


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"given_parameters": {"n_seeds": 4}}, "its parameters are others in paper.yaml"),
        ({"code": "0123456789ab"}, "the code of its notebook changed since"),
        ({"code": None}, "the code of its notebook changed since"),
    ],
)
def test_kept_run_of_another_notebook_is_named(changes, words, kept_toy):
    """One of other code, or with other parameters than the list has."""
    file, results, record = kept_toy
    path = results / f"{FIRST.stem}-tiny.json"
    path.write_text(json.dumps(record | changes))
    assert keeping.outdated(file, results) == [f"{FIRST.stem}-tiny: {words}"]


def test_code_of_a_run_holds_the_experiment_that_its_notebook_takes_from_the_book(tmp_path):
    """A notebook that uses `learn_all` is of other code when `book/writers.py` is."""
    text = Path(writers.__file__).read_text(encoding="utf-8")
    for code, expected in (("learn_all([])", ["learn_all([])", text]), ("x = 1", ["x = 1"])):
        source = tmp_path / "toy.py"
        source.write_text(f"# %%\n{code}\n")
        assert running.code_of_run(source) == expected


def test_longest_notebooks_begin_first_and_the_others_keep_their_order():
    """Every number of the list is that of a notebook."""
    tasks = [(path, path, {}) for path in sorted(pairs.NOTEBOOKS.glob("[0-9]*.py"))]
    begun = [path.stem[:2] for path, _, _ in running.longest_first(tasks)]
    assert tuple(begun[: len(running.FIRST)]) == running.FIRST
    assert begun[len(running.FIRST) :] == sorted(
        {path.stem[:2] for path, _, _ in tasks} - {*running.FIRST}
    )


def test_nbval_begins_with_the_notebooks_that_book_run_begins_with():
    """The Makefile repeats the list."""
    makefile = (pairs.NOTEBOOKS.parent / "Makefile").read_text(encoding="utf-8")
    (numbers,) = re.findall(r"^LONGEST := \$\(foreach number,([\d ]+),", makefile, re.MULTILINE)
    assert tuple(numbers.split()) == running.FIRST


def test_kept_run_that_is_missing_or_not_listed_is_named(kept_toy):
    """The list and the folder name the same runs."""
    file, results, _ = kept_toy
    for path in list(results.glob("*-tiny.*")):
        path.rename(path.with_stem(f"{FIRST.stem}-other"))
    assert keeping.outdated(file, results) == [
        f"{FIRST.stem}-tiny: it is not there",
        f"{FIRST.stem}-other: paper.yaml does not list it",
    ]


def test_entry_of_paper_yaml_without_a_label_is_refused(tmp_path):
    """A kept run has another name than its notebook."""
    (tmp_path / "paper.yaml").write_text(f"{FIRST.stem}: {{n_seeds: 3}}\n")
    with pytest.raises(ValueError, match="has an entry .*; expected NOTEBOOK-LABEL"):
        keeping.kept_runs(tmp_path / "paper.yaml")


def test_paper_runs_every_notebook_and_first_the_kept_runs():
    """A notebook without a kept run is run with its own parameters."""
    runs = keeping.paper_runs()
    kept = keeping.kept_runs()
    assert runs[: len(kept)] == kept
    assert {run.source for run in runs} == set(pairs.NOTEBOOKS.glob("[0-9]*.py"))
    assert all(run.parameters == {} for run in runs[len(kept) :])
    assert len({run.name for run in runs}) == len(runs)
    assert keeping.paper_runs([kept[0].name]) == [kept[0]]
    same = [run for run in runs if run.source == kept[0].source]
    assert keeping.paper_runs([kept[0].source.stem.partition("_")[0]]) == same


def test_paper_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys, nothing_runs):
    """What ran through is kept and not run again; it is said why something is run, and why not."""
    done, left = keeping.kept_runs()[:2]
    kept = []
    monkeypatch.setattr(book_main, "BUILD", tmp_path)
    monkeypatch.setattr(keeping, "keep", lambda run, output: kept.append((run, output)))
    monkeypatch.setattr(ledger, "main", lambda: None)
    output = tmp_path / "paper" / f"{done.name}.ipynb"
    output.parent.mkdir()
    nbformat.write(running.unexecuted(done.source, done.parameters), output)
    notebook = json.loads(output.read_text())
    notebook["metadata"]["papermill"] = {"end_time": "2026-11-26T00:00:00", "exception": None}
    output.write_text(json.dumps(notebook))

    with pytest.raises(SystemExit) as caught:
        main(["paper", done.name, left.name], standalone_mode=False)
    assert caught.value.code == 1  # what was to run is stopped
    assert [task[1].stem for task in nothing_runs] == [left.name]
    assert kept == [(done, output)]
    said = capsys.readouterr().out.splitlines()
    assert f"skipped {done.name}  nothing changed since its run" in said
    assert f"to run  {left.name}  it has no run" in said
    assert f"FAILED  {left.name}  stopped here" in said


def test_each_figure_of_the_paper_has_a_picture_a_caption_and_verdicts():
    """All eleven, and the words below a picture name its figure."""
    figures = paper_figures.paper_figures()
    assert {one.number for one in figures} == set(range(1, 12))
    for one in figures:
        assert one.picture.startswith(b"\x89PNG")
        assert re.match(r"\*Figures? \d+", one.caption), one
        assert len(one.alt.split()) >= 8
        assert ledger.rows_of_figure(one.number)
    assert [row.place for row in ledger.rows_of_figure(1)] == [
        "Figure 1, line 1168",
        "Figure 1, line 1170",
    ]


def notebook_with_a_figure(folder):
    """Write a toy whose second last cell draws Figure 7, and whose last one stops."""
    source = folder / "03_toy.py"
    drawing = (
        "import matplotlib.pyplot as plt\n\nplt.figure(figsize=(alpha, 1)).gca().plot([1, 2])\n"
    )
    source.write_text(
        f'{TOY}\n# %% tags=["figure-7-left"]\n{drawing}\n'
        "# %% [markdown]\n# *Figure 7, its left panel.* And more.\n\n# %%\nraise ValueError('no')\n"
    )
    notebook = running.unexecuted(source, {})
    (cell,) = [one for one in notebook.cells if "figure-7-left" in one.metadata.get("tags", [])]
    data = {"image/png": base64.b64encode(b"a picture").decode()}
    about = {"image/png": {"alt": "a line"}}
    cell.outputs = [new_output("display_data", data, metadata=about)]
    nbformat.write(notebook, source.with_suffix(".ipynb"))


def test_figure_of_the_paper_is_drawn_by_the_cells_up_to_it(tmp_path, monkeypatch):
    """As PNG and as PDF, with the parameters that are given."""
    monkeypatch.setenv("PYTHONPATH", f"{pairs.NOTEBOOKS}:{ROOT}")
    notebook_with_a_figure(tmp_path)
    (found,) = paper_figures.paper_figures(tmp_path)
    assert (found.number, found.tag) == (7, "figure-7-left")
    assert (found.caption, found.alt) == ("*Figure 7, its left panel.* And more.", "a line")
    assert found.picture == b"a picture"

    files, stopped = paper_figures.draw(7, tmp_path / "out", {"alpha": 3}, tmp_path)
    assert stopped == ""
    assert [file.name for file in files] == ["figure-7-left.png", "figure-7-left.pdf"]
    png, pdf = files
    with PIL.Image.open(png) as picture:
        assert picture.width > 2 * picture.height  # alpha inches wide
    assert pdf.read_bytes().startswith(b"%PDF")


def test_figure_that_the_paper_does_not_have_is_refused():
    """By a message with those that it has."""
    with pytest.raises(ValueError, match=r"figure 12 is not there; expected one of \[1, 2, 3, 4"):
        paper_figures.draw(12, Path("unused"), {})


def test_table_of_runs_has_stops_and_curves_for_each_seed():
    """An accuracy at a stop is the mean of three records, and a curve has at most forty rounds."""
    rounds = list(range(0, 1001, 10))
    sizes = {"cohort_size": 10, "batch_size": 50, "local_iterations": 20, "sgd_steps": 2}
    jobs = [
        writers.Learning(
            method="FedAvg",
            learning_rate=0.01,
            seed=seed,
            rounds=1000,
            every=10,
            dataset="-",
            **sizes,
        )
        for seed in range(2)
    ]
    records = [
        {
            "round": rounds,
            "training": [seed + number / 1000 for number in rounds],
            "unseen": [seed - number / 1000 for number in rounds],
            "bytes": [7 * number for number in rounds],
            "nonzeros": 5,
            "seconds": 1.0,
        }
        for seed in range(2)
    ]
    (cell,) = writers.table_of(jobs, records, (100,), ("training",)).values()
    assert cell["training 100"] == [0.09, 1.09]  # of 80, 90 and 100
    assert cell["bytes a round"] == [7, 7]
    first, last = cell["rounds"][0], cell["rounds"][-1]
    assert (first, last) == (10, 1000)
    assert len(cell["rounds"]) <= 40
    assert cell["training curve"][1] == pytest.approx([1 + n / 1000 for n in cell["rounds"]])
    assert "unseen curve" not in cell


def test_plays_are_read_from_the_text_of_a_notebook():
    """Parameters, quoted lines and the folded answer."""
    first, second, third = plays.plays_of(pairs.find("00"))
    assert (first.name, first.parameters) == ("00_start_here-play-1", {"sparsity": 7})
    assert (second.parameters, third.parameters) == ({"alpha": 0}, {"n_clients": 5})
    assert first.lines == ("[does not hold] start-together: 1.14 (0.631 to 1.71, 10 seeds)",)
    assert first.answer.startswith("It fails.")
    assert "```" not in first.answer
    [shared, *_] = plays.plays_of(pairs.find("11"))
    assert shared.parameters == {"n_costly_seeds": 2, "long_rounds": 40, "heterogeneity": 0}


@pytest.mark.parametrize(
    ("quoted", "printed", "same"),
    [
        ("error 0.31 of 3 seeds", "error 0.31 of 3 seeds", True),
        ("error 0.31 of 3 seeds", "error 0.314 of 3 seeds", True),
        ("error 0.31 of 3 seeds", "error 0.32 of 3 seeds", True),  # one in the last digit
        ("error 0.31 of 3 seeds", "error 0.33 of 3 seeds", False),
        ("error 0.31 of 3 seeds", "error 0.31 of 4 seeds", False),
        ("slope -0.5", "slope 0.5", False),
        ("1.06e+08 times", "1.07e+08 times", True),
        ("1.06e+08 times", "1.06e+09 times", False),
        ("[holds] a: 1.1", "[does not hold] a: 1.1", False),
        ("below 1e-14", "below 1e-13", False),
        ("error ... of 3 seeds", "error 0.314 of 3 seeds", True),
        ("error 0.31, ...", "error 0.31, and more", True),
        ("... 0.31 of 3", "error 0.29 of 3", False),
        ("... 58 of 3", "error 0.58 of 3", False),
        ("inf promised", "3.2 promised", False),
    ],
)
def test_quoted_line_agrees_up_to_one_in_the_last_digit(quoted, printed, same):
    """Numbers may be rounded, and words may not change."""
    assert plays.agrees(quoted, printed) is same


def test_play_with_another_output_is_named_with_that_output(tmp_path, monkeypatch):
    """The report has the quoted line and the nearest one that the run prints."""
    monkeypatch.setenv("PYTHONPATH", f"{pairs.NOTEBOOKS}:{ROOT}")
    toy = tmp_path / "03_toy.py"
    answer = "<details><summary>What comes out</summary>\n#\n# 3 it is.\n#\n# ```text\n# {}\n# ```\n# </details>"
    items = [
        "1. **`alpha: 2`.** And now?\n#\n# "
        + answer.format("[holds in part] toy: 3 (2 to 4, 2 seeds)"),
        "2. **`alpha: 2`.** And now?\n#\n# "
        + answer.format("[holds in part] toy: 5 (2 to 4, 2 seeds)"),
        "3. **`alpha: 2`.** And now?\n#\n# <details><summary>So</summary>Nothing.</details>",
    ]
    section = "\n\n# %% [markdown]\n# ## Predict, then change\n#\n# " + "\n# ".join(items) + "\n"
    toy.write_text(TOY + section)
    right, wrong, silent = play_list = plays_after_writing(toy)
    tasks = [(toy, tmp_path / f"{play.name}.ipynb", play.parameters) for play in play_list[:1]]
    assert list(running.run_all(tasks)) == [""]
    executed = pairs.read(tmp_path / "03_toy-play-1.ipynb")
    assert plays.difference(right, executed) == ""
    promised = f"[holds in part] toy: {5} (2 to 4, 2 seeds)"
    printed = f"[holds in part] toy: {3} (2 to 4, 2 seeds)"
    assert (
        plays.difference(wrong, executed) == f"the run does not print: {promised} (but: {printed})"
    )
    assert plays.difference(silent, executed).startswith("the answer quotes no line of its run")
    assert plays.unsupported(right, []) == []
    assert plays.unsupported(silent, []) == []


def plays_after_writing(source):
    """The plays of a notebook of which only the .py half has been written."""
    nbformat.write(running.unexecuted(source, {}), source.with_suffix(".ipynb"))
    return plays.plays_of(source)
