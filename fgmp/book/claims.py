"""A claim is one line of verdict in a notebook and one row in the ledger.

A notebook calls :func:`claim` beside the figure that shows it. The line it prints is the same on every
machine, so strict comparison of committed outputs guards it, and the record it leaves as JSON holds what
the line leaves out: the value of every seed, the parameters and the versions.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import check_integer, check_kind, check_mapping, check_number, check_path, check_sequence, shown
from .ranges import outwards

# Wholly, at least half, less than half; then what only a statement of the paper can be.
OF_THE_PAPER = ("reproduced", "reproduced in part", "not reproduced", "corrected", "undecided")
OURS = ("holds", "holds in part", "does not hold")
VERDICTS = OF_THE_PAPER + OURS

Number = int | float

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SOURCE = re.compile(r"paper, [^()|\n]+|ours(, [^()|\n]+)?")
_LINE = re.compile(
    rf"^\[({'|'.join(VERDICTS)})\] ({_ID.pattern}) \(([^()]*)\): (.*?) \| expected: (.*?) \| measured: (.*)$",
    re.MULTILINE,
)
_LONGEST = 100
_NOT_FINITE = ("nan", "inf", "-inf")


@dataclass(frozen=True)
class Claim:
    """What was claimed, what was measured, and the verdict.

    Attributes
    ----------
    id : str
        Name of the claim, unique among all notebooks.
    statement : str
        The claim in one sentence.
    source : str
        Whose statement it is and where: "paper, Figure 3, line 1228", "ours", "ours, Figure 5".
    expected : str or number
        What should come out, if the statement is true.
    verdict : str
        One of `OF_THE_PAPER` or of `OURS`.
    shown : str
        The measured value as the line prints it.
    measured : tuple of numbers, number, dict of these, or str
        One value per seed, or one value, by name if there are several; or a few words.
    median : number or None
        Median over the seeds; the value itself if there is one; None for names and words.
    spread : dict or None
        ``min``, ``q25``, ``q75`` and ``max`` over the seeds.
    unit, parameters, notebook, versions
        As given to :func:`claim`, or found out by it.
    """

    id: str
    statement: str
    source: str
    expected: str | Number
    verdict: str
    shown: str
    measured: Any
    median: Number | None = None
    spread: dict[str, Number] | None = None
    unit: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    notebook: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line that :func:`claim` prints."""
        head = f"[{self.verdict}] {self.id} ({self.source}): {self.statement}"
        return f"{head} | expected: {self.expected} | measured: {self.shown}"

    def _ipython_display_(self) -> None:
        """Show nothing: the line is printed already, also when ``claim(...)`` ends a cell."""


def claim(
    id: str,
    statement: str,
    measured: Any,
    holds: Any,
    *,
    source: str,
    expected: str | float,
    unit: str = "",
    digits: int = 3,
    floor: float | None = None,
    within: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Claim:
    """Print one line with the verdict on a claim, and record it as JSON.

    Parameters
    ----------
    id : str
        Lower-case letters, digits, ``.``, ``_`` and ``-``; unique among all notebooks.
    statement : str
        The claim in one line.
    measured : sequence of numbers, number, mapping of names to these, or str
        One value per seed, one value, several of these by name, or a few words.
    holds : bool, sequence of bool, or str
        True or False; or one answer for each seed, or each part, of the statement: all true means "reproduced" (or
        "holds"), at least half of them "in part". For a statement of the paper also "corrected", where the cell finds
        the printed formula to differ from the derived one, and "undecided", where the data do not decide.
    source : str
        Whose statement it is: "paper, " and the place, or "ours", with the place where it belongs after a comma.
    expected : str or float
        What should come out.
    unit : str, optional
        Unit of the measured values.
    digits : int, optional
        Significant digits in print; whole numbers are printed in full.
    floor : float, optional
        Magnitudes below it are printed as "below ..." because they differ between machines.
    within : float, optional
        Print the range of the seeds, rounded outwards to multiples of it, and no median: for what the last bits of a
        machine decide, as accuracies on a few hundred images.
    parameters : mapping, optional
        Names and plain values that the measurement depended on.

    Returns
    -------
    Claim
        The record, as written to ``<id>.json`` in the folder of claims.

    Examples
    --------
    >>> import fgmp
    >>> errors = [1e-16, 3e-16, 2e-16]
    >>> verdicts = [error < 1e-14 for error in errors]
    >>> found = fgmp.claim("exact", "no error", errors, verdicts, source="ours", expected="0", floor=1e-14)
    [holds] exact (ours): no error | expected: 0 | measured: below 1e-14 (3 seeds)
    """
    if not (isinstance(id, str) and _ID.fullmatch(id) and len(id) < _LONGEST):
        raise ValueError(f"id is {shown(id)}; expected lower-case letters, digits, '.', '_' and '-'")
    if not (isinstance(source, str) and _SOURCE.fullmatch(source)):
        raise ValueError(f"source is {shown(source)}; expected 'paper, ' with a place, or 'ours', without brackets")
    for name, text in (("statement", statement), ("unit", unit)):
        check_kind(name, text, str, "one line of text")
    check_kind("expected", expected, (str, int, float, np.number), "one line of text, or a number")
    digits = check_integer("digits", digits, at_most=17)
    floor = None if floor is None else check_number("floor", floor, above=0)
    within = None if within is None else check_number("within", within, above=0)
    parameters = check_mapping("parameters", {} if parameters is None else parameters, "a mapping of names to values")
    values = _plain(measured, "measured")
    numbers = _numbers(values, measured)
    verdict = _verdict(holds, OURS if source.startswith("ours") else OF_THE_PAPER)
    if verdict in ("reproduced", "holds") and any(v != v for v in numbers):
        raise ValueError(f"holds is {shown(holds)} for claim {id!r}, and measured holds NaN; expected another verdict")
    median, spread, words = _summarise(values, unit, digits, floor, within)
    for name, text in (("statement", statement), ("measured", words), ("expected", str(expected))):
        if not text.strip() or "\n" in text or text == "None":
            raise ValueError(f"{name} is {shown(text)}; expected one line of text")
    record = Claim(
        id=id,
        statement=statement,
        source=source,
        expected=_plain(expected, "expected"),
        verdict=verdict,
        shown=words,
        measured=values,
        median=median,
        spread=spread,
        unit=unit,
        parameters={str(name): _plain(value, f"parameters[{name!r}]") for name, value in parameters.items()},
        notebook=os.environ.get("FGMP_NOTEBOOK", ""),
        versions={name: _version(name) for name in ("fgmp", "numpy", "scipy")},
    )
    _write(record, claims_folder())
    print(record.line)
    return record


def claims_folder() -> Path:
    """Folder of the records: ``FGMP_CLAIMS``, or ``build/claims`` of the project around the current folder."""
    if os.environ.get("FGMP_CLAIMS"):
        return Path(os.environ["FGMP_CLAIMS"])
    here = Path.cwd()
    root = next((p for p in (here, *here.parents) if (p / "pyproject.toml").is_file()), here)
    return root / "build" / "claims"


def read_claims(folder: str | os.PathLike[str] | None = None) -> list[Claim]:
    """Records in a folder, sorted by id; by default those in :func:`claims_folder`."""
    claims = []
    for path in (claims_folder() if folder is None else check_path("folder", folder, "a folder")).glob("*.json"):
        try:
            claims.append(Claim(**json.loads(path.read_text(encoding="utf-8"), object_hook=_decode)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is no record of a claim ({error}); expected what claim() writes") from error
    return sorted(claims, key=lambda c: c.id)


def printed_claims(text: str, notebook: str = "") -> list[Claim]:
    """Claims whose lines stand in the printed output of a notebook, in the order of printing."""
    check_kind("notebook", notebook, str, "the name of a notebook")
    found = (match.groups() for match in _LINE.finditer(check_kind("text", text, str, "printed text")))
    return [
        Claim(id, statement, source, expected, verdict, shown, measured=shown, notebook=notebook)
        for verdict, id, source, statement, expected, shown in found
    ]


def totals(claims: Iterable[Claim]) -> str:
    """How often each verdict was reached, in words."""
    counts = Counter(c.verdict for c in claims)
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]) or "none recorded"


def summary(claims: Iterable[Claim]) -> str:
    """Lines of claims for the terminal, and how often each verdict was reached."""
    claims = list(claims)
    return "\n".join([*(c.line for c in claims), f"claims: {totals(claims)}"])


def _verdict(holds: Any, words: tuple[str, ...]) -> str:
    if isinstance(holds, str):
        if holds in words[3:]:
            return holds
        named = " or ".join(repr(word) for word in words[3:]) or "no word for a statement of ours"
        raise ValueError(f"holds is {holds!r}; expected booleans, or {named}")
    try:
        answers = np.ravel(np.asarray(holds))
    except (ValueError, TypeError, OverflowError):
        answers = np.empty(0)
    if answers.dtype != bool or not answers.size:
        raise ValueError(f"holds is {shown(holds)}; expected True, False, a sequence of these or a verdict")
    return words[0 if answers.all() else 1 if 2 * answers.sum() >= answers.size else 2]


def _numbers(values: Any, given: Any) -> tuple[Number, ...]:
    """All numbers among the measured values, after a check that there are nothing but numbers or words."""
    if isinstance(values, str):
        return ()
    groups = list(values.values()) if isinstance(values, dict) else [values]
    numbers = tuple(v for group in groups for v in (group if isinstance(group, tuple) else (group,)))
    if not numbers or () in groups:
        raise ValueError(f"measured is {shown(given)}; expected one value per seed, one value, or a few words")
    if not all(type(v) in (int, float) for v in numbers):
        raise ValueError(f"measured is {shown(given)}; expected numbers or a string")
    return numbers


def _plain(value: Any, name: str) -> Any:
    """Python literals in place of NumPy's scalars and arrays; tuples in place of lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(v, name) for key, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return tuple(_plain(v, name) for v in check_sequence(name, value, "a plain value: numbers or text"))
    raise ValueError(f"{name} is of type {type(value).__name__}; expected a plain value: numbers or text")


def _summarise(
    values: Any, unit: str, digits: int, floor: float | None, within: float | None
) -> tuple[Number | None, dict[str, Number] | None, str]:
    """Median, spread and printed form of the measured values."""

    def show(value: Number) -> str:
        if isinstance(value, int):
            return str(value)
        return f"below {floor:g}" if floor is not None and abs(value) < floor else f"{value + 0.0:.{digits}g}"

    unit = f" {unit}" if unit else ""
    if isinstance(values, str):
        return None, None, values + unit
    if isinstance(values, dict):
        counts = {f"{_seeds(v)}" for v in values.values() if isinstance(v, tuple)}
        parts = [f"{name} {_summarise(v, '', digits, floor, within)[2]}" for name, v in values.items()]
        if len(counts) == 1:  # said once, at the end
            parts = [
                re.sub(rf"(, | \(){counts.copy().pop()}\)", lambda hit: ")" * (hit[1] == ", "), part) for part in parts
            ]
        return None, None, ", ".join(parts) + unit + "".join(f"; {count}" for count in counts if len(counts) == 1)
    if not isinstance(values, tuple):
        return values, None, show(values) + unit
    low, median, high = float(np.min(values)), float(np.median(values)), float(np.max(values))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        q25, q75 = np.quantile(values, [0.25, 0.75]).tolist()
    if all(isinstance(v, int) for v in values):
        low, q25, median, q75, high = (int(v) if v.is_integer() else v for v in (low, q25, median, q75, high))
    spread = {"min": low, "q25": q25, "q75": q75, "max": high}
    if within is not None:
        return median, spread, f"{outwards(values, within)}{unit} ({_seeds(values)})"
    inside = _seeds(values) if show(low) == show(high) else f"{show(low)} to {show(high)}, {_seeds(values)}"
    return median, spread, f"{show(median)}{unit} ({inside})"


def _seeds(values: tuple[Number, ...]) -> str:
    return f"{len(values)} seed{'s' if len(values) > 1 else ''}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _encode(value: Any) -> Any:
    """NaN and infinity as strings, for JSON has no other place for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _encode(v) for name, v in value.items()}
    return [_encode(v) for v in value] if isinstance(value, tuple) else value


def _decode(record: dict[str, Any]) -> dict[str, Any]:
    """Undo `_encode` in one JSON object."""

    def restore(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(restore(v) for v in value)
        return float(value) if value in _NOT_FINITE else value

    return {name: restore(value) for name, value in record.items()}


def _write(record: Claim, folder: Path) -> None:
    """Write the record at once, so that a reader never meets half of it."""
    text = json.dumps(_encode(asdict(record)), indent=1, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{record.id}.{os.getpid()}.tmp"
    draft.write_text(text + "\n", encoding="utf-8")
    os.replace(draft, folder / f"{record.id}.json")
