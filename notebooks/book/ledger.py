"""What is made of the records of the claims: CLAIMS.md, one page; claims.csv, all of them; sentences in README.md.

A committed notebook has its records in NAME.json, a kept run with other parameters in NAME-LABEL.json beside it.
"""

import csv
import io
import json
import re
import textwrap
from collections import Counter
from pathlib import Path

from . import derived, overview, pairs
from .claims import written

ROOT = pairs.NOTEBOOKS.parent
RESULTS = pairs.NOTEBOOKS / "results"
# Figures whose data are not those of the paper, but of what is at hand, with the labels of kept runs that have them.
STAND_INS = {"Figure 2": (), "Figure 6": ("femnist",), "Figure 7": ("femnist",)}
COLUMNS = (
    "counted_as",
    "id",
    "source",
    "statement",
    "expected",
    "measured",
    "verdict",
    "notebook",
    "run",
)
MARK = "<!-- totals of the claims, written by make refresh -->"


def write(name: str, executed, **about) -> None:
    """Write the records of one executed notebook; parameters that all its claims share stand at the top, once."""
    rows, given = pairs.claims(executed), pairs.parameters(executed)
    text = {
        "notebook": name.partition("-")[0],
        **about,
        "parameters": given,
        "claims": written(rows, 6),
    }
    (RESULTS / f"{name}.json").write_text(
        json.dumps(text, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )


def records(folder: Path = RESULTS) -> list[dict]:
    """All claims, each with the notebook, the name of its run, and the label of a kept one ("" if committed).

    Of a kept run, what only repeats the committed notebook is left out. A verdict that more seeds change is undecided.
    """
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem):
        run = json.loads(path.read_text(encoding="utf-8"))
        label = path.stem.removeprefix(run["notebook"]).removeprefix("-")
        found += [
            one | {"notebook": run["notebook"], "run": path.stem, "kept": label}
            for one in run["claims"]
        ]
    found += derived.claims_of(found)
    more = {
        (one["notebook"], one["id"]): one for one in found if one["kept"].startswith("more-seeds")
    }
    for one in found:
        other = more.get((one["notebook"], one["id"]))
        if other and not one["kept"] and other["verdict"] != one["verdict"]:
            one["verdict"] = other["verdict"] = "undecided"
    said = ("id", "verdict", "source", "statement", "expected", "shown")
    usual = {tuple(str(one[key]) for key in said) for one in found if not one["kept"]}
    return [
        one for one in found if not one["kept"] or tuple(str(one[key]) for key in said) not in usual
    ]


def link(one: dict) -> str:
    number = ", ".join(filter(None, [one["notebook"].partition("_")[0], one["kept"]]))
    more = ", [its table](notebooks/book/derived.py)" * one.get("derived", False)
    return f"[{number}](notebooks/{'results/' * bool(one['kept'])}{one['run']}.ipynb){more}"


def group(one: dict) -> str:
    """The figure, theorem or section that a claim belongs to."""
    return one["source"].split(", ")[1] if ", " in one["source"] else "Ours"


def counted_as(one: dict) -> str:
    """What a record is about: "figures" or "theory" of the paper, "stand-ins", "ours" or "checks"; or why it is apart.

    Records about one statement count once: see `count`.
    """
    kind = one["source"].partition(",")[0]
    if kind == "paper" and one["kept"] not in STAND_INS.get(group(one), (one["kept"],)):
        return "stand-ins"
    if one["kept"]:
        return "no: a kept run"
    if kind in ("paper", "errata"):
        return "figures" if group(one).startswith("Figure") else "theory"
    return {"ours": "ours", "check": "checks"}[kind]


def weights_of_errata() -> dict[int, str]:
    """The weight of each entry of ERRATA.md."""
    text = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    found = re.findall(r"^\*\*(\d+)\. [^*]+\*\* · .* · \*([^*]+)\*<br>$", text, re.MULTILINE)
    return {int(number): weight for number, weight in found}


def count(claims: list[dict]) -> dict[str, Counter]:
    """How many statements of the paper became what, each counted once: "figures", "stand-ins", "theory".

    Raises
    ------
    ValueError
        If a record or an entry about a statement of the paper is in no row of the overview.
    """
    weights = weights_of_errata()
    if problems := overview.left_out(claims, weights):
        raise ValueError(
            f"{problems[0]} ({len(problems)} in all): mend the rows in notebooks/statements.yaml"
        )
    find = overview.found_in(claims)
    found = {"figures": Counter(), "stand-ins": Counter(), "theory": Counter()}
    for rows in overview.statements():
        about = counted_as(find(rows[0].record))
        if about in found:
            kinds = [overview.kind_of(row, find, weights) for row in rows]
            found[about][overview.joined(kinds)] += 1
    return found


def in_words(counted: Counter) -> str:
    """How many statements became what, in words."""
    words = [
        f"{counted[kind]} {several if counted[kind] > 1 else single}"
        for kind, (single, several) in overview.KINDS.items()
        if counted[kind]
    ]
    return ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]


def filled(sentences) -> str:
    look = {"width": 120, "break_long_words": False, "break_on_hyphens": False}
    return "".join(textwrap.fill(sentence, **look) + "\n" for sentence in sentences)


def summary(claims: list[dict]) -> str:
    """What became of the paper's statements, and of its formulas, in sentences."""
    counted = count(claims)
    figures, stand_ins, theory = counted["figures"], counted["stand-ins"], counted["theory"]
    *apart, last = sorted((figure.split()[1] for figure in STAND_INS), key=int)
    return filled(
        (
            f"We tested {sum(one.total() for one in counted.values())} statements of the preprint (the journal version "
            f"was not read), each counted once. Of {figures.total()} about its figures, {in_words(figures)}. Figures "
            f"{', '.join(apart)} and {last} ran on other data than the paper's: {in_words(stand_ins)}. Of "
            f"{theory.total()} of its theory, {in_words(theory)}.",
            f"[ERRATA.md](ERRATA.md) has {len(weights_of_errata())} entries.",
        )
    )


def table_of_counts(claims: list[dict]) -> str:
    """How many statements became what: a row for each kind, a column for figures, stand-ins and theory."""
    counted = count(claims)
    text = "| | figures | figures, other data | theory | all |\n|---|---|---|---|---|\n"
    for kind, (_, several) in overview.KINDS.items():
        numbers = [one[kind] for one in counted.values()]
        if any(numbers):
            text += f"| {several.removeprefix('are ')} | {' | '.join(map(str, [*numbers, sum(numbers)]))} |\n"
    numbers = [one.total() for one in counted.values()]
    return text + f"| all | {' | '.join(map(str, [*numbers, sum(numbers)]))} |\n"


INTRODUCTION = """
Lines are those of the LaTeX source of the preprint, arXiv 2302.10755; statements are in our words, letters are
[explained](docs/symbols.md). A number is a median, with its range over the seeds (or a 95 % interval of a trend or a
mean, if the row says so). Each statement counts once, in however many settings it was measured: rows that begin with
"again" are other settings of the statement above them, and where settings differ, it holds in part; where the first,
the printed one, is undecided, so is the statement. With ink = 1 a pixel is 1 for ink, with paper = 1 for blank paper; a
cell is one pair of tau and a learning rate; "level" means accuracies within 0.01.

The statements are the sentences of the paper's sections on results that say what a figure shows; and of the theory its
lemmas, theorems and corollaries, what it says follows from them, and each constant that ERRATA.md calls false. Where a
sentence ends and the next begins was ours to choose. What only may be so cannot be tested and is not counted: that the
residual may depend on K in no simple way (line 669), and that many data may meet the condition on the stable rank (line
1085; our digits do not, `fig7-stable-rank`). The cost of SVRG and SAG (line 933) is cited, and was not measured.

- *Holds*: on every seed that was tried, or in the median or mean where the row says so. A theorem that holds was not
  violated on these seeds: that is no proof of it.
- *Holds in part*: on at least half of the seeds, or of the parts; or in some of the settings that the paper leaves
  open; or under a condition that is not printed.
- *Holds but for a misprint*: the context says what is meant, even if the printed order is another (lines 1076
  and 1083), and that was measured.
- *Cannot apply*: no data meet its conditions. *False as printed*: in a constant, with a counterexample.
- *Undecided*: what differs is too little to tell, in runs that have hardly begun or are too few. Where runs have come
  far, a lead that the paper states and that is not there does not hold, however small the difference.
- *Stands in*: it was measured on other data than the paper's.

What is false as printed is counted here and not set apart: a test fails if a record about the paper, or an entry of
ERRATA.md, belongs to no row. The published plots were not seen. All records, with what was expected:
[claims.csv](notebooks/results/claims.csv). This page is written by `make refresh` from the records of the notebooks.
"""


def page(claims: list[dict]) -> str:
    """CLAIMS.md: the count, three tables, and what did not come out."""
    text = "# Claims\n\n" + summary(claims) + "\n" + table_of_counts(claims) + INTRODUCTION
    find, weights, reasons = overview.found_in(claims), weights_of_errata(), ""
    for block in ("Figures", "Theory", "Ours"):
        rows = [row for row in overview.ROWS if row.block == block]
        whose = "our own statement" if block == "Ours" else "the paper states"
        text += f"\n## {block}\n\n" + table_of_rows(rows, find, weights, whose)
        for row in rows:
            if explanation := " ".join(filter(None, [row.only, row.reason])):
                kind = overview.kind_of(row, find, weights)
                reasons += f"- **{row.place}**, {row.statement}: {kind}. {explanation}\n"
    return f"{text}\n## What is not as stated, and the likeliest reason\n\n{reasons}"


def table_of_rows(rows, find, weights: dict[int, str], whose="the paper states") -> str:
    """Rows of the overview as a table: verdict, statement, setting, number and notebook."""
    head = f"| | {whose} | our setting | measured | |\n|---|---|---|---|---|\n"
    return head + "".join(line_of(row, find, weights) for row in rows)


def rows_of_figure(number: int) -> list[overview.Row]:
    """The rows about a figure of the paper."""
    return [row for row in overview.ROWS if row.place.startswith(f"Figure {number},")]


def line_of(row: overview.Row, find, weights: dict[int, str]) -> str:
    """The line of a row in a table of CLAIMS.md."""
    one, kind = find(row.record), overview.kind_of(row, find, weights)
    shown = f"stands in: {kind}" if counted_as(one) == "stand-ins" else kind
    statement = "again: " * row.again + row.statement
    if row.place:
        several = "entries" if len(row.entries) > 1 else "entry"
        entries = f"; {several} {', '.join(map(str, row.entries))}" if row.entries else ""
        statement += f" ({row.place}{entries})"
    cells = (shown, statement, row.setting, overview.number_of(row, one), link(one))
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |\n"


def table(claims: list[dict]) -> str:
    """claims.csv: a row for each record."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in claims:
        row = one | {"counted_as": counted_as(one), "measured": one["shown"]}
        writer.writerow([row[column] for column in COLUMNS])
    return text.getvalue()


def main() -> None:
    """Write CLAIMS.md, claims.csv, and the sentences between the marks of README.md."""
    found = records()
    (ROOT / "CLAIMS.md").write_text(page(found), encoding="utf-8")
    (RESULTS / "claims.csv").write_text(table(found), encoding="utf-8")
    readme = ROOT / "README.md"
    before, _, after = readme.read_text(encoding="utf-8").split(MARK)
    readme.write_text(f"{before}{MARK}\n{summary(found)}{MARK}{after}", encoding="utf-8")
