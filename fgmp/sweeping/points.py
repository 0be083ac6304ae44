"""The points of a sweep: values read from the command line, all their combinations, and a key for each."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks import check_kind, check_mapping, check_sequence

__all__ = ["Point", "grid_of", "parameters_given", "points_of"]

_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+")


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes
    ----------
    parameters : dict
        The parameters that differ from the notebook's defaults, or are given anyway.
    key : str
        Twelve hexadecimal digits, a hash of the notebook's code and the parameters: the name of its folder.
    """

    parameters: dict[str, Any]
    key: str

    def __str__(self) -> str:
        return ", ".join(f"{name}={shown(value)}" for name, value in self.parameters.items()) or "defaults"


def shown(value: Any) -> str:
    """A value in one line: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def parameters_given(text: str) -> dict[str, Any]:
    """The mapping of ``-y "{alpha: 1.0, local_iterations: [3, 6]}"``.

    Raises
    ------
    ValueError
        Where the text is no YAML, or no mapping of names to plain values.
    """
    found = _yaml("-y", check_kind("text", text, str, "a mapping in YAML"))
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"-y is {text!r}; expected a mapping such as {{alpha: 1.0, rounds: 5}}")
    return {str(name): _plain(str(name), value) for name, value in found.items()}


def grid_of(options: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each name, from ``-g alpha=0.5,1`` or ``-g "local_iterations=[3, 6],[9, 12]"``.

    Parameters
    ----------
    options : sequence of str
        Each a name, "=" and values of YAML, separated by commas.

    Raises
    ------
    ValueError
        Where an option has another form, is no YAML, or a name or a value comes twice.
    """
    grid: dict[str, list[Any]] = {}
    for option in check_sequence("options", options, "a sequence of texts such as alpha=0.5,1"):
        check_kind("options", option, str, "a sequence of texts such as alpha=0.5,1")
        name, equals, text = option.partition("=")
        name = name.strip()
        if not (name and equals):
            raise ValueError(f"-g is {option!r}; expected a name, '=' and values with commas between, as alpha=0.5,1")
        if name in grid:
            raise ValueError(f"-g names {name} twice; expected all its values in one -g")
        found = _yaml(f"-g {name}", f"[{text}]")
        if not isinstance(found, list) or not found:
            raise ValueError(f"-g has {text!r} for {name}; expected at least one value")
        values = [_plain(name, value) for value in found]
        if len({json.dumps(value, sort_keys=True) for value in values}) < len(values):
            raise ValueError(f"-g has {text!r} for {name}; expected no value twice")
        grid[name] = values
    return grid


def points_of(code: str, fixed: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> list[Point]:
    """Every combination of a grid, the last name fastest, on top of what all points share.

    Parameters
    ----------
    code : str
        The code of the notebook, a part of the key.
    fixed : mapping of str to value
        Parameters that all points share.
    grid : mapping of str to sequence
        The values of each other name; without names it is one point.

    Raises
    ------
    ValueError
        Where a name is in both.
    """
    check_kind("code", code, str, "text")
    fixed = {name: _plain(name, value) for name, value in _named("fixed", fixed).items()}
    grid = {
        name: [_plain(name, value) for value in check_sequence(f"grid[{name!r}]", values, "a sequence of values")]
        for name, values in _named("grid", grid).items()
    }
    if both := sorted(set(fixed) & set(grid)):
        raise ValueError(f"-y and -g both name {', '.join(both)}; expected a name in one of them")
    combinations = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    return [_point(code, {**fixed, **values}) for values in combinations]


def _point(code: str, parameters: dict[str, Any]) -> Point:
    text = json.dumps([code, parameters], sort_keys=True)
    return Point(parameters, hashlib.sha256(text.encode()).hexdigest()[:12])


def _named(argument: str, given: Any) -> dict[str, Any]:
    """A mapping whose keys are names."""
    found = check_mapping(argument, given, "a mapping of names to values")
    for name in found:
        check_kind(argument, name, str, "a mapping of names to values")
    return found


def _yaml(option: str, text: str) -> Any:
    """Read YAML, with 1e-6 as the number that YAML 1.2 and everybody else takes it for."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^{_NUMBER.pattern}$"), list("-+.0123456789"))
    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{option} is {text!r}; expected YAML: {words}") from error


def _plain(name: str, value: Any) -> Any:
    """The value, if it can stand in a notebook: a ValueError for dates and what else YAML knows."""
    if isinstance(value, list):
        return [_plain(name, v) for v in value]
    if isinstance(value, dict):
        return {str(key): _plain(name, v) for key, v in value.items()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{name} is {value!r}; expected numbers, strings, true, false or null, or lists of these")
