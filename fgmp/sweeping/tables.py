"""The claims and numbers of a sweep as one table."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..book.claims import Claim
from ..checks import check_kind, check_sequence
from .points import shown
from .sweeps import Outcome

__all__ = ["check_columns", "table_of", "write_table"]

_ABOUT = ("point", "state", "problem")
_NUMBERS = ("count", "median", "min", "q25", "q75", "max", "values")
_CLAIM = ("claim", "part", "verdict", "source", "statement", "expected", "unit")


def check_columns(names: Sequence[str]) -> None:
    """Raise a ValueError where a parameter has the name of another column."""
    if taken := [name for name in names if name in (*_ABOUT, *_CLAIM, *_NUMBERS)]:
        raise ValueError(f"{', '.join(taken)} is a column of the table already; expected another name of a parameter")


def table_of(outcomes: Sequence[Outcome]) -> str:
    """CSV with a column per parameter and a row per claim; one per part where a claim measures several things.

    Parameters
    ----------
    outcomes : sequence of Outcome
        In the order of the rows. A point without claims, one that failed, and one that was not run have a row too.

    Returns
    -------
    str
        Columns: the parameters; ``point`` (its folder), ``state``, ``problem``; ``claim``, ``part``, ``verdict``,
        ``source``, ``statement``, ``expected``, ``unit``; of the values (mostly one per seed) their ``count``,
        ``median``, ``min``, ``q25``, ``q75`` and ``max``, and all ``values`` in full precision, with spaces between.
    """
    outcomes = check_sequence("outcomes", outcomes, "a sequence of Outcome")
    for outcome in outcomes:
        check_kind("outcomes", outcome, Outcome, "a sequence of Outcome")
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.point.parameters))
    check_columns(names)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, *_ABOUT, *_CLAIM, *_NUMBERS], restval="", lineterminator="\n")
    writer.writeheader()
    for outcome in outcomes:
        row = {name: shown(value) for name, value in outcome.point.parameters.items()}
        row |= {"point": outcome.point.key, "state": outcome.state, "problem": outcome.problem}
        claims = [row | found for claim in outcome.claims for found in _rows(claim)]
        writer.writerows(claims or [row])
    return text.getvalue()


def write_table(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write `table_of` at once, so that a reader never meets half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(table_of(outcomes), encoding="utf-8", newline="")
    os.replace(draft, path)


def _rows(claim: Claim) -> Iterator[dict[str, Any]]:
    parts = claim.measured if isinstance(claim.measured, dict) else {"": claim.measured}
    about = {name: getattr(claim, name) for name in _CLAIM if name not in ("claim", "part")}
    for part, measured in parts.items():
        yield {"claim": claim.id, "part": part} | about | _numbers(measured)


def _numbers(measured: Any) -> dict[str, Any]:
    """The columns of one value, of one per seed, or of words."""
    if isinstance(measured, str):
        return {"values": measured}
    values = measured if isinstance(measured, tuple) else (measured,)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        low, q25, median, q75, high = np.quantile(np.array(values, float), [0, 0.25, 0.5, 0.75, 1]).tolist()
    columns = {"count": len(values), "median": median, "min": low, "q25": q25, "q75": q75, "max": high}
    return columns | {"values": " ".join(str(value) for value in values)}
