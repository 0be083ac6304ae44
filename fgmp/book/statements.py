"""What the notebooks claim: words in ``notebooks/claims.yaml``, one line of code for each verdict.

An entry of that file has what a claim says before anything is measured: whose statement it is, its words, what is
expected, and how the measured values are printed. ``{n_clients}`` in its words stands for a variable of the notebook,
``{alpha:g}`` and ``{noise**2:.3g}`` for a formatted one, ``{listed(alphas)}`` for several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from .claims import Claim, claim
from .parameters import parameters_of

__all__ = ["Statements", "kept_records", "listed"]

_FIELD = re.compile(r"\{([^{}]+?)(?::([^{}:]+))?\}")
_KEYS = ("source", "statement", "expected", "measured", "unit", "digits", "floor", "within")
_RULE = re.compile(r"(at least|above|at most|below) (-?\d[\w.+-]*)")
_TESTS = {"at least": np.greater_equal, "above": np.greater, "at most": np.less_equal, "below": np.less}


def listed(values: Sequence[Any]) -> str:
    """Values in a row: numbers short, words as they are."""
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)


def kept_records(run: str) -> dict[str, dict[str, Any]]:
    """What a kept run beside the notebook recorded with each of its claims; nothing where there is no such run."""
    path = Path("results") / f"{run}.json"
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {row["id"]: found.get("parameters", {}) | row["parameters"] for row in found["claims"]}


class Statements:
    """The statements of one notebook; calling it with a name and what was measured prints the verdict.

    Parameters
    ----------
    namespace : mapping of str to object
        ``globals()`` of the notebook: its variables fill the words, its parameters go into the record.
    file : path, optional
        Where the words are; by default ``claims.yaml`` beside the notebook, which runs in its folder.
    """

    def __init__(self, namespace: Mapping[str, Any], file: str | Path | None = None) -> None:
        beside = Path(namespace["__file__"]).parent if "__file__" in namespace else Path.cwd()
        self._namespace, self._file = namespace, Path(file or beside / "claims.yaml").resolve()
        self._parameters = [parameter.name for parameter in parameters_of(namespace)]

    def __call__(
        self, id: str, measured: Any = None, holds: Any = None, *, keep: Mapping[str, Any] | None = None, **names: Any
    ) -> Claim:
        """Print the line of one claim and record it.

        Parameters
        ----------
        id : str
            Its entry in the file of statements; fields in it are filled in print and in the record.
        measured : sequence of numbers, number, mapping of names to these, or str, optional
            As for `fgmp.claim`; left away where the entry says in words what is measured.
        holds : bool, sequence of bool, or str, optional
            As for `fgmp.claim`; left away where the entry expects "at most 1", "above 0" or the like, which is then
            asked of every measured value.
        keep : mapping, optional
            More values for the record.
        **names
            What the words need beside the variables of the notebook.

        Raises
        ------
        ValueError
            Where there is no such entry, its words name what is not there, or one of the two is missing.
        """
        entry = {key: self._filled(value, key, id, names) for key, value in self._entry(id).items()}
        words = entry.pop("measured", None)
        if (measured is None) == (words is None):
            raise ValueError(f"claim {id!r} is measured in {'no way' if words is None else 'two ways'}; expected one")
        measured = words if measured is None else measured
        holds = _ruled(entry["expected"], measured, id) if holds is None else holds
        given = {name: self._namespace[name] for name in self._parameters}
        words = entry.pop("statement")
        return claim(
            self._filled(id, "id", id, names), words, measured, holds, parameters=given | dict(keep or {}), **entry
        )

    def _entry(self, id: str) -> dict[str, Any]:
        found = [entries[id] for entries in _read(self._file).values() if id in entries]
        if len(found) != 1:
            raise ValueError(f"id is {id!r}; expected one of the claims in {self._file.name}")
        if unknown := set(found[0]) - set(_KEYS):
            raise ValueError(f"claim {id!r} has {sorted(unknown)} in {self._file.name}; expected {', '.join(_KEYS)}")
        return dict(found[0])

    def _filled(self, value: Any, key: str, id: str, names: Mapping[str, Any]) -> Any:
        if not isinstance(value, str):
            return value
        known = {"listed": listed, **self._namespace, **names}
        try:
            if key in ("floor", "within", "digits"):
                return eval(value, {}, known)
            return _FIELD.sub(lambda field: format(eval(field[1], {}, known), field[2] or ""), value)
        except Exception as error:
            raise ValueError(f"claim {id!r} in {self._file.name}: {value!r} cannot be filled ({error})") from error


@cache
def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Notebook -> claim -> its entry."""
    if not file.is_file():
        raise ValueError(
            f"there is no {file.name} in {file.parent.name}/; expected it beside the notebook that runs there"
        )
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def _ruled(expected: Any, measured: Any, id: str) -> list[bool]:
    """Whether each measured value is as expected, where that is a rule."""
    rule = _RULE.fullmatch(str(expected))
    if rule is None or isinstance(measured, str):
        raise ValueError(f"claim {id!r} expects {expected!r} of {type(measured).__name__}; expected `holds` with it")
    values = measured.values() if isinstance(measured, Mapping) else [measured]
    flat = np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in values])
    return [bool(one) for one in _TESTS[rule[1]](flat, float(rule[2]))]
