"""The plays of the notebooks ("Predict, then change"): read from their text, run, and compared with what is promised.

A play is one item of the section. Its bold words are the parameters that it changes, as YAML. What its run prints is
quoted in a block of text at the end of the folded answer, and `compare` finds those lines in a new run. Parameters that
stand as YAML before the first play hold for all of them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from . import pairs
from .running import number

HEADING = "## Predict, then change"
SETTING = re.compile(r"`(\w+: [^`]+)`")
ITEM = re.compile(r"^\d+\. \*\*(.+?)\.\*\*", re.MULTILINE)
FOLDED = re.compile(r"<details><summary>.+?</summary>(.+?)</details>", re.DOTALL)
QUOTED = re.compile(r"```text\n(.*?)```", re.DOTALL)
DECIMAL = re.compile(r"(?<![\w.])-?(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?![\w^])")


@dataclass(frozen=True)
class Play:
    """A change of parameters, what its folded answer says, and the lines of the run that the answer quotes."""

    source: Path
    number: int
    parameters: dict
    answer: str
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.source.stem}-play-{self.number}"


def plays_of(source: Path) -> list[Play]:
    """The plays of a notebook, in their order."""
    section = section_of(source)
    before, *items = re.split(r"(?m)^(?=\d+\. \*\*)", section)
    shared = settings(before)
    found = []
    for position, item in enumerate(items, start=1):
        head, folded = ITEM.match(item), FOLDED.search(item)
        if head is None or folded is None:
            raise ValueError(
                f"play {position} of {source.stem} has no bold parameters or no folded answer"
            )
        quoted = QUOTED.search(folded[1])
        lines = [line.strip() for line in quoted[1].splitlines()] if quoted else []
        answer = QUOTED.sub("", folded[1]).strip()
        found.append(
            Play(source, position, shared | settings(head[1]), answer, tuple(filter(None, lines)))
        )
    return found


def section_of(source: Path) -> str:
    """The text of the section with the plays."""
    cells = pairs.read(source.with_suffix(".ipynb")).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return text.partition(f"{HEADING}\n")[2].partition("\n## ")[0]


def settings(text: str) -> dict:
    """Parameters that stand in a text as YAML, each between backticks."""
    found = {}
    for one in SETTING.findall(text):
        found |= {name: number(value) for name, value in yaml.safe_load(one).items()}
    return found


def printed_by(notebook) -> list[str]:
    """The lines that a run prints, and its claims with all ranges, as `python -m book run` lists them."""
    lines = [f"[{one['verdict']}] {one['id']}: {one['shown']}" for one in pairs.claims(notebook)]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stdout":
                lines += output.text.splitlines()
            lines += output.get("data", {}).get("text/plain", "").splitlines()
    return [line.strip() for line in lines if line.strip()]


def difference(play: Play, notebook) -> str:
    """What the answer of a play quotes and its run does not print, in one line; empty where there is no difference."""
    if not play.lines:
        return "the answer quotes no line of its run; expected a block of text that does"
    found = printed_by(notebook)
    missing = [line for line in play.lines if not any(agrees(line, one) for one in found)]
    if not missing:
        return ""
    instead = closest(missing[0], found)
    return f"the run does not print: {missing[0]}" + f" (but: {instead})" * bool(instead)


def agrees(quoted: str, printed: str) -> bool:
    """Whether two lines have the same words, and numbers that differ by one in the last digit at most.

    In the quoted line "..." stands for anything.
    """
    number_in_words = f"({DECIMAL.pattern})"
    parts = (
        number_in_words.join(map(re.escape, DECIMAL.split(part))) for part in quoted.split("...")
    )
    found = re.fullmatch(".*".join(parts), printed)
    return found is not None and all(map(is_near, DECIMAL.findall(quoted), found.groups()))


def is_near(one: str, other: str) -> bool:
    """Whether two numbers, as they are printed, differ by one in the last digit of the one that shows less.

    Whole numbers and powers of ten are the same: nothing rounds them.
    """
    if "." not in one and "." not in other:
        return one == other
    return abs(float(one) - float(other)) <= 1.001 * max(last_digit(one), last_digit(other))


def last_digit(number: str) -> float:
    """What one in the last digit of a printed number is worth."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def closest(line: str, found: list[str]) -> str:
    """The printed line with the same beginning, up to the first number."""
    start = (
        line.partition("]")[2].partition(":")[0] if line.startswith("[") else DECIMAL.split(line)[0]
    )
    return next((one for one in found if start.strip() and start in one), "")


def unsupported(play: Play, committed: list[str]) -> list[str]:
    """The numbers of an answer that neither its quoted lines have, nor the committed notebook or its parameters.

    A number may be rounded further than where it comes from. Formulas, code, links and "Figure 9" are not looked at.
    """
    prose = re.sub(r"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|\[\d\d_\w+\]|Figure \d+", " ", play.answer)
    known = DECIMAL.findall("\n".join([*play.lines, *committed, str(play.parameters)]))
    return [
        one for one in DECIMAL.findall(prose) if not any(is_rounded(one, other) for other in known)
    ]


def is_rounded(short: str, exact: str) -> bool:
    """Whether a number is another one, or that with fewer digits."""
    return short == exact or abs(abs(float(short)) - abs(float(exact))) <= 0.5001 * last_digit(
        short
    )
