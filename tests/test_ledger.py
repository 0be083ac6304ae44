"""CLAIMS.md, the totals in README.md and the table of ERRATA.md agree with the records of the claims."""

import json
import re

import ledger
import nbformat
import pytest
from ledger import Run, distinct, first_screen, group, not_reproduced, page, runs
from normalise import printed
from test_errata import rows

from fgmp.book.claims import printed_claims

ROOT = ledger.ROOT
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def made(*lines, name="03_toy", notebook="03_toy"):
    form = "[{}] {} ({}): {} | expected: 1 | measured: {}\n"
    return Run(name, notebook, tuple(printed_claims("".join(form.format(*line) for line in lines), notebook)))


TOY = made(
    ("reproduced", "a", "paper, Theorem 1, line 629", "|x| < 1", "0.5"),
    ("not reproduced", "b", "paper, Figure 10, line 1393", "x", "1"),
    ("not reproduced", "c", "paper, Figure 6, line 1292", "x", "1"),
    ("does not hold", "d", "ours", "x", "1"),
    ("holds", "e", "ours, Figure 10", "x", "1"),
)
KEPT = made(
    ("reproduced in part", "b", "paper, Figure 10, line 1393", "x", "2"),
    ("does not hold", "d", "ours", "x", "1"),
    name="03_toy-real",
)


def test_groups_are_figures_then_theory_then_ours():
    text = page([TOY, KEPT])
    assert re.findall(r"^## (.+)$", text, re.M) == ["Figure 6", "Figure 10", "Theorem 1", "Ours"]
    row = r"| a | paper, line 629 | \|x\| &lt; 1 | 1 | 0.5 | reproduced | [03](notebooks/03_toy.ipynb) |"
    assert row in text.splitlines()
    tenth = text.partition("## Figure 10\n")[2].partition("##")[0].splitlines()[3:]
    assert [line.split(" | ")[0] for line in tenth if line] == ["| b", "| b", "| e"]
    assert "[03, real](notebooks/results/03_toy-real.ipynb)" in tenth[1]


def test_totals_come_first_and_repetitions_do_not_count():
    head = page([TOY, KEPT]).partition("\n## ")[0]
    assert "Statements of the paper, the committed notebooks: 3, of which 1 reproduced, 2 not reproduced." in head
    assert "Our own statements, the committed notebooks: 2, of which 1 hold, 1 do not hold." in head
    assert "more seeds: 1, of which 1 reproduced in part." in head
    assert [run.kept for run, _ in distinct([TOY, KEPT])] == [""] * 5 + ["real"]


def test_figures_that_no_run_reproduces():
    assert not_reproduced(distinct([TOY])) == [6, 10]
    assert not_reproduced(distinct([TOY, KEPT])) == [6]


def test_records_survive_the_file(tmp_path):
    target = tmp_path / "03_toy-real.json"
    ledger.write(target, "03_toy", list(KEPT.claims), given_parameters={"a": 1})
    assert json.loads(target.read_text())["given_parameters"] == {"a": 1}
    assert ledger.read(target) == KEPT
    assert ledger.rounded({"a": (1.23456789, float("inf"), 3)}) == {"a": [1.23457, "inf", 3]}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_records_are_the_printed_lines(name):
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    lines = [claim.line for claim in printed_claims(printed(notebook))]
    assert lines
    assert [claim.line for claim in ledger.read(ledger.RESULTS / f"{name}.json").claims] == lines


def test_every_kept_run_has_its_notebook():
    for run in runs():
        assert run.notebook in NOTEBOOKS
        assert (ROOT / "notebooks" / ("results" if run.kept else "") / f"{run.name}.ipynb").exists()


def test_claims_md_is_made_of_the_records():
    assert (ROOT / "CLAIMS.md").read_text(encoding="utf-8") == page(runs())


def test_readme_has_the_totals_and_the_figures_that_do_not_reproduce():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, block, _ = readme.split(ledger.MARK)
    assert block == "\n" + first_screen(runs())
    assert len(before.splitlines()) < 25
    assert "Figures 6 and 7" in block


def test_a_claim_of_numbers_shows_its_spread():
    for run in runs():
        for claim in run.claims:
            groups = claim.measured.values() if isinstance(claim.measured, dict) else [claim.measured]
            if any(isinstance(values, list) for values in groups):
                assert re.search(r"\d+ seeds?\b", claim.shown), claim.id


def test_lines_of_claims_are_lines_of_the_paper():
    for run in runs():
        for claim in run.claims:
            if claim.source.startswith("paper"):
                assert re.fullmatch(r"paper, [^,]+, line \d{3,4}", claim.source), claim.source
                assert group(claim)


def test_errata_agrees_with_the_verdicts():
    verdicts = {claim.id: claim for run in runs() if not run.kept for claim in run.claims}
    named = [
        (row[0], id) for row in rows("Claims that did not come out here") for id in re.findall(r"`([^`]+)`", row[3])
    ]
    assert named
    for lines, id in named:
        claim = verdicts[id]
        assert claim.verdict in ("not reproduced", "reproduced in part", "undecided"), f"{id} is {claim.verdict}"
        assert re.search(r"line (\d+)", claim.source)[1] in lines, f"{id} is of {claim.source}"
