"""CLAIMS.md and the totals in README.md, from the records of the claims in notebooks/results.

A committed notebook has its records in NAME.json, a kept run with other parameters in NAME-LABEL.json beside it.
"""

import json
import re
from pathlib import Path

from . import pairs
from .claims import WORDS, totals, written

ROOT = pairs.NOTEBOOKS.parent
RESULTS = pairs.NOTEBOOKS / "results"
KINDS = {
    "paper": "Findings of the paper",
    "errata": "Printed formulas beside derived ones ([ERRATA.md](ERRATA.md))",
    "ours": "Our own statements",
    "check": "Checks of our code",
}
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


def place(claims: list[dict]) -> tuple[int, int]:
    """The order of a group: figures by number, the rest as in the paper, what is ours last."""
    figure = re.fullmatch(r"Figure (\d+)", group(claims[0]))
    lines = [int(line) for one in claims for line in re.findall(r"line (\d+)", one["source"])]
    return (0, int(figure[1])) if figure else (1, min(lines)) if lines else (2, 0)


def summary(claims: list[dict]) -> str:
    """How many claims of each kind there are, and what became of them; kept runs apart."""
    text = ""
    for kind, what in KINDS.items():
        text += f"- {what}:"
        for words, kept in (("", False), ("; kept runs", True)):
            found = [
                one
                for one in claims
                if bool(one["kept"]) == kept and one["source"].startswith(kind)
            ]
            text += f"{words} {len(found)}, of which {totals(found)}" if found else ""
        text += ".\n"
    return text


def index(claims: list[dict]) -> str:
    """The first page: totals, then a row for each notebook and kept run with the names under each verdict."""
    text, runs_of = summary(claims), {}
    text += "\n| | reproduced, holds | in part | not | undecided | printed otherwise |\n|---|---|---|---|---|---|\n"
    columns = [{words[at] for words in WORDS.values()} for at in range(3)] + [
        {"undecided"},
        {*WORDS["errata"][3:]},
    ]
    for one in claims:
        runs_of.setdefault(link(one), []).append(one)
    for where, members in runs_of.items():
        cells = (
            ", ".join(one["id"] for one in members if one["verdict"] in verdicts)
            for verdicts in columns
        )
        text += f"| {where} | {' | '.join(cells)} |\n"
    return text


def row(one: dict) -> str:
    who, _, where = one["source"].partition(", ")
    where = where.removeprefix(group(one)).removeprefix(", ")
    cells = [
        one["id"],
        f"{who}, {where}" if where else who,
        one["statement"],
        str(one["expected"]),
        one["shown"],
    ]
    escaped = [cell.replace("|", r"\|").replace("<", "&lt;") for cell in cells]
    return f"| {' | '.join([*escaped, one['verdict'], link(one)])} |\n"


def page(claims: list[dict]) -> str:
    text = "# Claims\n\nWritten by `make refresh` from the records in notebooks/results. Lines are those of the LaTeX\n"
    text += 'source of arXiv 2302.10755. "In part" means: on at least half of the seeds, or of the parts;\n'
    text += '"undecided", that the data do not decide, or that more seeds change the verdict. Kept runs have\n'
    text += "other data or more seeds.\n\n"
    text += index(claims)
    groups = {}
    for one in claims:
        groups.setdefault(group(one), []).append(one)
    for title, members in sorted(groups.items(), key=lambda item: (place(item[1]), item[0])):
        text += f"\n## {title}\n\n| claim | whose | statement | expected | measured | verdict | notebook |\n"
        ordered = sorted(
            members, key=lambda one: (not one["source"].startswith("paper"), one["notebook"])
        )
        text += "|---|---|---|---|---|---|---|\n" + "".join(map(row, ordered))
    return text


def main() -> None:
    """Write CLAIMS.md, and the totals between the marks of README.md."""
    found = records()
    (ROOT / "CLAIMS.md").write_text(page(found), encoding="utf-8")
    readme = ROOT / "README.md"
    before, _, after = readme.read_text(encoding="utf-8").split(MARK)
    readme.write_text(f"{before}{MARK}\n{summary(found)}{MARK}{after}", encoding="utf-8")
