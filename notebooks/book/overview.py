"""The rows of CLAIMS.md: what the paper states, where our setting differs, and whose record has the number.

Words are written in notebooks/statements.yaml; numbers, verdicts and links come from the records, so that a row whose
record is gone, whose number no longer reads as expected, or whose verdict has changed sides stops the build. So does a
record about a statement of the paper, or an entry of ERRATA.md, that no row has.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import yaml

from .pairs import NOTEBOOKS

# What became of a statement. A misprint is one where the context says what is meant, and a statement that is false
# as printed is false in a constant: the weights of ERRATA.md say which is which.
HOLDS = "holds"
MISPRINT = "holds, misprinted"
PART = "holds in part"
NOT = "does not hold"
NEVER = "cannot apply"
FALSE = "false as printed"
UNDECIDED = "undecided"
KINDS = {
    HOLDS: ("holds", "hold"),
    MISPRINT: ("holds but for a misprint", "hold but for a misprint"),
    PART: ("holds in part", "hold in part"),
    NOT: ("does not hold", "do not hold"),
    NEVER: ("cannot apply", "cannot apply"),
    FALSE: ("is false as printed in a constant", "are false as printed in a constant"),
    UNDECIDED: ("is undecided", "are undecided"),
}
# The verdicts of records, as kinds. What is misprinted was measured as it is meant.
KIND_OF_VERDICT = {
    "reproduced": HOLDS,
    "reproduced in part": PART,
    "not reproduced": NOT,
    "misprint": HOLDS,
    "holds": HOLDS,
    "holds in part": PART,
    "gap in the proof": PART,
    "does not hold": NOT,
    "undecided": UNDECIDED,
}


@dataclass(frozen=True)
class Row:
    """A row of the page: a statement, and the record that answers it.

    Parameters
    ----------
    block : str
        "Figures", "Theory" or "Ours".
    place : str
        The figure or theorem, and the line of the paper; "" for what is ours.
    statement, setting : str
        What is stated, in our words, and how our setting differs.
    record : str
        The id of the claim that has the number; after a slash the label of a kept run.
    number : str
        Words around what `pick` takes, which stands at each "{}". "{name}" is what the record
        keeps under that name.
    pick : str
        What to take of the record's measured values: a regular expression, with a group for each "{}".
    also : sequence of str
        Ids of claims of the same run whose verdicts join.
    beside : sequence of str
        Ids of claims about how the statement is printed or proved, whose verdicts do not join.
    entries : sequence of int
        The entries of ERRATA.md about the statement.
    only : str
        Under which condition, which the paper does not print, or in which part, the statement
        holds: it holds in part.
    reason : str
        Why it did not come out, most likely, or what remains of it. `only` or `reason` is there for
        each row that does not simply hold, and for these alone.
    again : bool
        Whether the row is another setting of the statement of the row before: both count once.
    undecided : bool
        Whether the runs do not decide the statement, whatever the verdict of the record.
    """

    block: str
    place: str
    statement: str
    setting: str
    record: str
    number: str = "{}"
    pick: str = "(.+)"
    also: Sequence[str] = ()
    _: KW_ONLY
    beside: Sequence[str] = ()
    entries: Sequence[int] = ()
    only: str = ""
    reason: str = ""
    again: bool = False
    undecided: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all claims of the row."""
        return (self.record.partition("/")[0], *self.also, *self.beside)


def read_rows(path: Path) -> tuple[Row, ...]:
    """Return the rows in a file of YAML, which has them by their blocks."""
    blocks = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(Row(block, **fields) for block, rows in blocks.items() for fields in rows)


ROWS = read_rows(NOTEBOOKS / "statements.yaml")


def found_in(records: list[dict]) -> Callable[[str], dict]:
    """Return how to find a record by "id", or by "id/label" of a kept run."""
    by_name = {one["id"] + f"/{one['kept']}" * bool(one["kept"]): one for one in records}

    def find(name: str) -> dict:
        """Return the record; a kept run that only repeats the committed one is not listed apart."""
        one = by_name.get(name) or by_name.get(name.partition("/")[0])
        if one is None:
            raise ValueError(
                f"CLAIMS.md has a row of {name!r}, and no record has this id; "
                "expected one of those in notebooks/results: mend the row in notebooks/statements.yaml"
            )
        return one

    return find


def number_of(row: Row, one: dict) -> str:
    """Return the words of a row with the number of its record in them, and that of its seeds."""
    found = re.search(row.pick, one["shown"])
    if not found:
        raise ValueError(
            f"the row of {row.record!r} takes {row.pick!r} from its record, which has {one['shown']!r}: "
            "mend the row in notebooks/statements.yaml"
        )
    words = row.number.format(*found.groups(), **one.get("parameters", {}))
    several = re.search(r"\d+ seeds", one["shown"])
    return words if "seeds" in words or not several else f"{words} ({several[0]})"


def kind_of(row: Row, find: Callable[[str], dict], weights: dict[int, str]) -> str:
    """Return what became of a row: by its entries of ERRATA.md, and else by its records, if they decide it.

    Parameters
    ----------
    row : Row
    find : callable
        Returns the record with an id.
    weights : dict
        The weight of each entry of ERRATA.md.

    Raises
    ------
    ValueError
        If a row that does not simply hold has neither `only` nor `reason`, or one that does has.
    """
    of_entries = {weights[number] for number in row.entries}
    label = row.record.partition("/")[2]
    names = [row.record, *(f"{name}/{label}" if label else name for name in row.also)]
    if "statement false" in of_entries:
        kind = FALSE
    elif "never applicable" in of_entries:
        kind = NEVER
    elif row.undecided:
        kind = UNDECIDED
    else:
        kinds = {KIND_OF_VERDICT[find(name)["verdict"]] for name in names}
        kind = kinds.pop() if len(kinds) == 1 else PART
        if kind == HOLDS and row.only:
            kind = PART
        elif kind == HOLDS and "misprint" in of_entries:
            kind = MISPRINT
    explained = bool(row.only or row.reason)
    if (kind in (HOLDS, MISPRINT)) == explained:
        raise ValueError(
            f"the row of {row.record!r} is {kind!r} and has {'a' if explained else 'no'} reason why it is not "
            "as stated: mend the row in notebooks/statements.yaml"
        )
    return kind


def statements(rows: Iterable[Row] = ROWS) -> list[list[Row]]:
    """Return the rows of each statement: one, or several settings of it."""
    found: list[list[Row]] = []
    for row in rows:
        if row.again:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def joined(kinds: Iterable[str]) -> str:
    """Return what became of a statement: in part, if settings differ and the first, the printed one, decides."""
    first, *others = kinds
    return first if first == UNDECIDED or set(others) <= {first} else PART


def left_out(records: list[dict], weights: dict[int, str], rows: Iterable[Row] = ROWS) -> list[str]:
    """Return what is about a statement of the paper and is in no row, or in two.

    Nothing that fails may be missing from the count: every record of the committed notebooks whose
    source is the paper, or a formula that ERRATA.md has, is in one row, and every entry of
    ERRATA.md in at least one.
    """
    rows = [row for row in rows if row.block != "Ours"]
    used = Counter(name for row in rows for name in row.ids)
    ids = {
        one["id"]
        for one in records
        if not one["kept"] and one["source"].partition(",")[0] in ("paper", "errata")
    }
    named = {number for row in rows for number in row.entries}
    found = [f"{name} is in {used[name]} rows" for name in sorted(ids) if used[name] != 1]
    found += [f"entry {number} is in no row" for number in sorted(set(weights) - named)]
    return found + [f"there is no entry {number}" for number in sorted(named - set(weights))]
