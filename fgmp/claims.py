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

VERDICTS = ("reproduced", "reproduced in part", "not reproduced", "corrected")

Number = int | float

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LINE = re.compile(
    rf"^\[({'|'.join(VERDICTS)})\] ({_ID.pattern}): (.*?)(?: \| expected: (.*?))? \| measured: (.*)$", re.MULTILINE
)
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
    verdict : str
        One of `VERDICTS`.
    shown : str
        The measured value as the line prints it.
    measured : tuple of numbers, number or str
        One value per seed, or one value, or a few words.
    median : number or None
        Median over the seeds; the value itself if there is one; None for words.
    spread : dict or None
        ``min``, ``q25``, ``q75`` and ``max`` over the seeds.
    unit, expected, parameters, notebook, versions
        As given to :func:`claim`, or found out by it.
    """

    id: str
    statement: str
    verdict: str
    shown: str
    measured: tuple[Number, ...] | Number | str
    median: Number | None = None
    spread: dict[str, Number] | None = None
    unit: str = ""
    expected: str | Number | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    notebook: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line that :func:`claim` prints."""
        expected = "" if self.expected is None else f" | expected: {self.expected}"
        return f"[{self.verdict}] {self.id}: {self.statement}{expected} | measured: {self.shown}"

    def _ipython_display_(self) -> None:
        """Show nothing: the line is printed already, also when ``claim(...)`` ends a cell."""


def claim(
    id: str,
    statement: str,
    measured: Any,
    holds: bool | str,
    *,
    expected: str | float | None = None,
    unit: str = "",
    digits: int = 3,
    floor: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Claim:
    """Print one line with the verdict on a claim, and record it as JSON.

    Parameters
    ----------
    id : str
        Lower-case letters, digits, ``.``, ``_`` and ``-``; unique among all notebooks.
    statement : str
        The claim in one line.
    measured : sequence of numbers, number or str
        One value per seed, one value, or a few words.
    holds : bool or str
        True means "reproduced", False "not reproduced"; or one of `VERDICTS`.
    expected : str or float, optional
        What the paper reports.
    unit : str, optional
        Unit of the measured values.
    digits : int, optional
        Significant digits in print; whole numbers are printed in full.
    floor : float, optional
        Magnitudes below it are printed as "below ..." because they differ between machines.
    parameters : mapping, optional
        Names and plain values that the measurement depended on.

    Returns
    -------
    Claim
        The record, as written to ``<id>.json`` in the folder of claims.
    """
    if not (isinstance(id, str) and _ID.fullmatch(id)):
        raise ValueError(f"id must be of lower-case letters, digits, '.', '_' and '-', got {id!r}")
    values = _plain(measured, "measured")
    numbers = values if isinstance(values, tuple) else (values,)
    if isinstance(values, tuple) and not values:
        raise ValueError("measured is empty: give one value per seed, one value, or a few words")
    if not isinstance(values, str) and not all(type(v) in (int, float) for v in numbers):
        raise ValueError(f"measured must hold numbers or be a string, got {measured!r}")
    verdict = _verdict(holds)
    if verdict == "reproduced" and any(v != v for v in numbers):
        raise ValueError(f"claim {id!r} cannot be reproduced: measured holds NaN")
    median, spread, shown = _summarise(values, unit, digits, floor)
    for name, text in (("statement", statement), ("measured", shown), ("expected", str(expected))):
        if not text or "\n" in text:
            raise ValueError(f"{name} must be one line of text, got {text!r}")
    record = Claim(
        id=id,
        statement=statement,
        verdict=verdict,
        shown=shown,
        measured=values,
        median=median,
        spread=spread,
        unit=unit,
        expected=_plain(expected, "expected"),
        parameters={name: _plain(value, f"parameters[{name!r}]") for name, value in (parameters or {}).items()},
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
    for path in Path(folder or claims_folder()).glob("*.json"):
        try:
            claims.append(Claim(**json.loads(path.read_text(encoding="utf-8"), object_hook=_decode)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not the record of a claim: {error}") from error
    return sorted(claims, key=lambda c: c.id)


def printed_claims(text: str, notebook: str = "") -> list[Claim]:
    """Claims whose lines stand in the printed output of a notebook, in the order of printing."""
    return [
        Claim(id, statement, verdict, shown, measured=shown, expected=expected, notebook=notebook)
        for verdict, id, statement, expected, shown in (match.groups() for match in _LINE.finditer(text))
    ]


def ledger(claims: Iterable[Claim]) -> str:
    """Markdown table of claims, one row each, with a link to the notebook that shows it."""
    rows = ["| claim | statement | expected | measured | verdict | notebook |", "|---|---|---|---|---|---|"]
    for c in claims:
        link = f"[{c.notebook}](notebooks/{c.notebook}.ipynb)" if c.notebook else ""
        expected = "" if c.expected is None else str(c.expected)
        cells = [c.id, *(_escape(t) for t in (c.statement, expected, c.shown)), c.verdict, link]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def summary(claims: Iterable[Claim]) -> str:
    """Lines of claims for the terminal, and how often each verdict was reached."""
    claims = list(claims)
    counts = Counter(c.verdict for c in claims)
    total = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v]) or "none recorded"
    return "\n".join([*(c.line for c in claims), f"claims: {total}"])


def _verdict(holds: Any) -> str:
    if isinstance(holds, bool | np.bool_):
        return "reproduced" if holds else "not reproduced"
    if holds in VERDICTS:
        return str(holds)
    raise ValueError(f"holds must be True, False or one of {', '.join(VERDICTS)}, got {holds!r}")


def _plain(value: Any, name: str) -> Any:
    """Python literals in place of NumPy's scalars and arrays; tuples in place of lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return tuple(_plain(v, name) for v in value)
    raise ValueError(f"{name} must be a plain value, got {type(value).__name__}")


def _summarise(
    values: Any, unit: str, digits: int, floor: float | None
) -> tuple[Number | None, dict[str, Number] | None, str]:
    """Median, spread and printed form of the measured values."""

    def show(value: Number) -> str:
        if isinstance(value, int):
            return str(value)
        return f"below {floor:g}" if floor is not None and abs(value) < floor else f"{value + 0.0:.{digits}g}"

    unit = f" {unit}" if unit else ""
    if isinstance(values, str):
        return None, None, values + unit
    if not isinstance(values, tuple):
        return values, None, show(values) + unit
    low, median, high = float(np.min(values)), float(np.median(values)), float(np.max(values))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        q25, q75 = np.quantile(values, [0.25, 0.75]).tolist()
    if all(isinstance(v, int) for v in values):
        low, q25, median, q75, high = (int(v) if v.is_integer() else v for v in (low, q25, median, q75, high))
    seeds = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
    inside = seeds if show(low) == show(high) else f"{show(low)} to {show(high)}, {seeds}"
    return median, {"min": low, "q25": q25, "q75": q75, "max": high}, f"{show(median)}{unit} ({inside})"


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

    return {name: restore(value) if not isinstance(value, dict) else value for name, value in record.items()}


def _write(record: Claim, folder: Path) -> None:
    """Write the record at once, so that a reader never meets half of it."""
    text = json.dumps(_encode(asdict(record)), indent=1, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{record.id}.{os.getpid()}.tmp"
    draft.write_text(text + "\n", encoding="utf-8")
    os.replace(draft, folder / f"{record.id}.json")


def _escape(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
