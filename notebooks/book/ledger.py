"""What is made of the records of the claims: CLAIMS.md, one page; claims.csv, all of them; two sentences in README.md.

A committed notebook has its records in NAME.json, a kept run with other parameters in NAME-LABEL.json beside it.
"""

import csv
import io
import json
import re
import textwrap
from collections import Counter
from pathlib import Path

from . import overview, pairs
from .claims import totals, written

ROOT = pairs.NOTEBOOKS.parent
RESULTS = pairs.NOTEBOOKS / "results"
# Figures whose data are not those of the paper, but of what is at hand, with the labels of kept runs that have them.
STAND_INS = {"Figure 2": (), "Figure 6": ("femnist",), "Figure 7": ("femnist",)}
# Statements of the paper that an entry of ERRATA.md is about, which is counted there, once.
ERRATA_OF = {"theory-unbounded-variance": 23}
STANDS = (
    "Theorem 1 and Lemmas 1 to 3 stand as printed, where 2 rho- > rho+ at each client (entry 2)."
)
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
    return f"[{number}](notebooks/{'results/' * bool(one['kept'])}{one['run']}.ipynb)"


def group(one: dict) -> str:
    """The figure, theorem or section that a claim belongs to."""
    return one["source"].split(", ")[1] if ", " in one["source"] else "Ours"


def counted_as(one: dict) -> str:
    """What a record counts as: "figures" or "theorems" of the paper, "ours" or "checks"; or why it does not count."""
    kind = one["source"].partition(",")[0]
    if kind == "errata" or one["id"] in ERRATA_OF:
        return "no: an entry of ERRATA.md"
    if kind == "paper" and one["kept"] not in STAND_INS.get(group(one), (one["kept"],)):
        return "no: a stand-in"
    if one["kept"]:
        return "no: a kept run"
    if kind == "paper":
        return "figures" if group(one).startswith("Figure") else "theorems"
    return {"ours": "ours", "check": "checks"}[kind]


def entries_of_errata() -> Counter:
    """How many entries of ERRATA.md have each weight."""
    text = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    return Counter(re.findall(r"^\*\*\d+\. [^*]+\*\* · .* · \*([^*]+)\*<br>$", text, re.MULTILINE))


def summary(claims: list[dict]) -> str:
    """Two sentences: what became of the paper's statements, and of its formulas."""
    said = {
        kind: [one for one in claims if counted_as(one) == kind] for kind in ("figures", "theorems")
    }
    figures, theorems = (
        f"{len(found)} about its {kind} ({totals(found)})" for kind, found in said.items()
    )
    apart = sorted(STAND_INS, key=lambda figure: int(figure.split()[1]))
    numbers = ", ".join(figure.split()[1] for figure in apart[:-1])
    entries = entries_of_errata()
    sentences = (
        f"Of the paper's statements we measured {figures} and {theorems}; what ran on data that stand in for the "
        f"paper's (Figures {numbers} and {apart[-1].split()[1]}) is shown and not counted.",
        f"[ERRATA.md](ERRATA.md) has {entries.total()} entries, each counted once, {entries['statement false']} of "
        f"which are statements that are false as printed; {STANDS}",
    )
    look = {"width": 120, "break_long_words": False, "break_on_hyphens": False}
    return "".join(textwrap.fill(sentence, **look) + "\n" for sentence in sentences)


def page(claims: list[dict]) -> str:
    """CLAIMS.md: the two sentences, three tables, and what did not come out."""
    text = "# Claims\n\n" + summary(claims)
    text += (
        "\nLines are those of the LaTeX source of arXiv 2302.10755; statements are in our words. A number is a median, "
        'with its range\nover the seeds (or a 95 % interval of a trend). "In part" means: on at least half of the '
        'seeds, or of the parts; "undecided",\nthat more seeds change the verdict. A row that stands in has other '
        "data than the paper. All records, with what was expected:\n"
        "[claims.csv](notebooks/results/claims.csv). This page is written by `make refresh` from the records of the "
        "notebooks.\n"
    )
    find, reasons = overview.found_in(claims), ""
    for block in ("Figures", "Theorems", "Ours"):
        whose = "our own statement" if block == "Ours" else "the paper states"
        text += f"\n## {block}\n\n| verdict | {whose} | our setting | measured | |\n|---|---|---|---|---|\n"
        for row in (row for row in overview.ROWS if row.block == block):
            one, verdict = find(row.record), overview.verdict_of(row, find)
            shown = f"stands in ({verdict})" if counted_as(one) == "no: a stand-in" else verdict
            statement = f"{row.statement} ({row.place})" if row.place else row.statement
            cells = (shown, statement, row.setting, overview.number_of(row, one), link(one))
            escaped = [cell.replace("|", "\\|") for cell in cells]
            text += f"| {' | '.join(escaped)} |\n"
            if row.reason:
                reasons += f"- **{row.place}**, {row.statement}: {verdict}. {row.reason}\n"
    return f"{text}\n## What did not come out, and the likeliest reason\n\n{reasons}"


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
