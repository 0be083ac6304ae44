"""CLAIMS.md and the totals in README.md, from the records of the claims in notebooks/results.

A committed notebook has its records in NAME.json, a kept run at the paper's sizes in NAME-DATASET.json beside it.
"""

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgmp.book.claims import Claim, totals

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "notebooks" / "results"
KEPT = ("id", "statement", "source", "expected", "verdict", "shown", "measured", "unit", "parameters")
MARK = "<!-- totals of the claims, written by make refresh -->"


@dataclass(frozen=True)
class Run:
    """The claims of one run of one notebook, in the order of printing."""

    name: str
    notebook: str
    claims: tuple[Claim, ...]

    @property
    def kept(self) -> str:
        """What it ran with, for a kept run; empty for the defaults."""
        return self.name.removeprefix(self.notebook).removeprefix("-")

    @property
    def link(self) -> str:
        """Where to see it."""
        folder = "notebooks/results" if self.kept else "notebooks"
        number = self.notebook.partition("_")[0]
        return f"[{number}{', ' * bool(self.kept)}{self.kept}]({folder}/{self.name}.ipynb)"


def rounded(value: Any, digits: int = 6) -> Any:
    """Numbers to so many significant digits, and infinities as words, in nested lists and dicts."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) < float("inf") else str(value)
    if isinstance(value, dict):
        return {key: rounded(v, digits) for key, v in value.items()}
    return [rounded(v, digits) for v in value] if isinstance(value, list | tuple) else value


def write(target: Path, name: str, claims: list[Claim], **about: Any) -> None:
    """Write the records of one run; parameters that all its claims share stand at the top, once."""
    rows = [{key: rounded(getattr(claim, key)) for key in KEPT} for claim in claims]
    given = [row["parameters"] for row in rows]
    shared = {key: value for key, value in given[0].items() if all(one.get(key, rows) == value for one in given)}
    for row in rows:
        row["parameters"] = {key: value for key, value in row["parameters"].items() if key not in shared}
    text = json.dumps({"notebook": name, **about, "parameters": shared, "claims": rows}, indent=1, allow_nan=False)
    target.parent.mkdir(exist_ok=True)
    target.write_text(text + "\n", encoding="utf-8")


def read(path: Path) -> Run:
    """The records of one run."""
    found = json.loads(path.read_text(encoding="utf-8"))
    shared = found.get("parameters", {})
    rows = [row | {"parameters": shared | row["parameters"]} for row in found["claims"]]
    claims = tuple(Claim(**row, notebook=found["notebook"]) for row in rows)
    return Run(path.stem, found["notebook"], claims)


def runs(folder: Path = RESULTS) -> list[Run]:
    """All runs, in the order of their names."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def distinct(found: list[Run]) -> list[tuple[Run, Claim]]:
    """All claims with their runs, but for those of a kept run that only repeat the committed notebook."""
    lines = {claim.line for run in found if not run.kept for claim in run.claims}
    return [(run, c) for run in found for c in run.claims if not (run.kept and c.line in lines)]


def group(claim: Claim) -> str:
    """The figure, theorem or section that a claim belongs to."""
    return claim.source.split(", ")[1] if ", " in claim.source else "Ours"


def place(claims: list[Claim]) -> tuple[int, int]:
    """The order of a group: figures by number, the rest as in the paper, what is ours last."""
    figure = re.fullmatch(r"Figure (\d+)", group(claims[0]))
    lines = [int(line) for claim in claims for line in re.findall(r"line (\d+)", claim.source)]
    return (0, int(figure[1])) if figure else (1, min(lines)) if lines else (2, 0)


def plural(found: list[Claim]) -> str:
    """The totals, as of several."""
    return totals(found).replace("holds", "hold").replace("does not", "do not")


def counted(pairs: list[tuple[Run, Claim]]) -> list[str]:
    """Up to four lines: whose statements, in which runs, with which verdicts."""
    lines = []
    for kept, words in ((False, "the committed notebooks"), (True, "the kept runs on other data or with more seeds")):
        for whose in ("paper", "ours"):
            found = [c for run, c in pairs if bool(run.kept) == kept and c.source.startswith(whose)]
            if found:
                who = "Statements of the paper" if whose == "paper" else "Our own statements"
                lines.append(f"- {who}, {words}: {len(found)}, of which {plural(found)}.")
    return lines


def not_reproduced(pairs: list[tuple[Run, Claim]]) -> list[int]:
    """The figures of the paper of which no run reproduces any statement, not even in part."""
    figures: dict[int, list[str]] = {}
    for _, claim in pairs:
        if found := re.match(r"paper, Figure (\d+)", claim.source):
            figures.setdefault(int(found[1]), []).append(claim.verdict)
    return sorted(number for number, verdicts in figures.items() if set(verdicts) == {"not reproduced"})


def row(run: Run, claim: Claim) -> str:
    """One line of the ledger."""
    who, _, where = claim.source.partition(", ")
    where = where.removeprefix(group(claim)).removeprefix(", ")
    cells = [claim.id, f"{who}, {where}" if where else who, claim.statement, str(claim.expected), claim.shown]
    escaped = [cell.replace("|", r"\|").replace("<", "&lt;") for cell in cells]
    return f"| {' | '.join([*escaped, claim.verdict, run.link])} |"


def page(found: list[Run]) -> str:
    """CLAIMS.md."""
    pairs = distinct(found)
    text = "# Claims\n\nWritten by `make refresh` from the records in notebooks/results. Lines are those of the LaTeX\n"
    text += 'source of arXiv 2302.10755. "In part" means: on at least half of the seeds, or of the parts.\n\n'
    text += "\n".join(counted(pairs)) + "\n"
    groups: dict[str, list[tuple[Run, Claim]]] = {}
    for run, claim in pairs:
        groups.setdefault(group(claim), []).append((run, claim))
    for title, members in sorted(groups.items(), key=lambda item: (place([c for _, c in item[1]]), item[0])):
        head = (
            "| claim | whose | statement | expected | measured | verdict | notebook |\n|---|---|---|---|---|---|---|\n"
        )
        members = sorted(members, key=lambda pair: (not pair[1].source.startswith("paper"), pair[0].notebook))
        text += f"\n## {title}\n\n{head}" + "".join(row(*pair) + "\n" for pair in members)
    return text


def first_screen(found: list[Run]) -> str:
    """The totals for README.md."""
    pairs = distinct(found)
    default = [claim for run, claim in pairs if not run.kept]
    paper, ours = ([c for c in default if c.source.startswith(whose)] for whose in ("paper", "ours"))
    missed = not_reproduced(pairs)
    figures = f"Figure{'s' * (len(missed) > 1)} {' and '.join(map(str, missed))} {'do' if len(missed) > 1 else 'does'}"
    text = (
        f"**What came out.** The notebooks measure {len(paper)} statements of the paper: {plural(paper)}. Of our own,"
        f" {len(ours)}: {plural(ours)} ([CLAIMS.md](CLAIMS.md)). {figures} not come out with tuned learning"
        " rates, on data that stand in for FEMNIST. For Figures 6 and 7 the paper prints neither the rates nor the"
        " sparsity, and they decide: [06](notebooks/06_digits_by_writer.ipynb) and"
        " [07](notebooks/07_gaussian_dictionary_digits.ipynb) show how. Slips and silences of the paper, and what is"
        " better than it claims: [ERRATA.md](ERRATA.md)."
    )
    return textwrap.fill(text, 118, break_on_hyphens=False) + "\n"


def main() -> None:
    """Write CLAIMS.md and the totals between the marks of README.md."""
    found = runs()
    (ROOT / "CLAIMS.md").write_text(page(found), encoding="utf-8")
    readme = ROOT / "README.md"
    before, _, after = readme.read_text(encoding="utf-8").split(MARK)
    readme.write_text(f"{before}{MARK}\n{first_screen(found)}{MARK}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
