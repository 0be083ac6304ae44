"""The types of a notebook's parameters: a wrong one stops before anything runs, in one line that names it."""

import math
import types
from typing import get_args, get_origin

__all__ = ["check_types"]


def check_types(values: dict, names_of: dict) -> None:
    """Raise a TypeError for the first parameter that has another type than the one it is listed under.

    `values` are those of the notebook, ``globals()``. `names_of` lists under each type the names that have it, with
    spaces between them: ``{int: "n_clients rounds", float: "alpha", list[int] | None: "samples"}``. A whole number is
    a number too. True is neither, and no more are infinity and nan; 10.0 is no whole number, and an empty list no list.
    """
    for kind, names in names_of.items():
        for name in names.split():
            if not is_of(values[name], kind):
                raise TypeError(f"{name}={short(values[name])}: expected {in_words(kind)}")


def is_of(value, kind) -> bool:
    """Whether a value has a type, which may be a list of one, or a union."""
    if isinstance(kind, types.UnionType):
        return any(is_of(value, one) for one in get_args(kind))
    if get_origin(kind) is list:
        return (
            isinstance(value, list)
            and len(value) > 0
            and all(is_of(one, *get_args(kind)) for one in value)
        )
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, kind)


def in_words(kind) -> str:
    """The name of a type, as a reader of the notebook would say it."""
    if isinstance(kind, types.UnionType):
        return " or ".join(in_words(one) for one in get_args(kind))
    if get_origin(kind) is list:
        return f"a list of {in_words(*get_args(kind)).removeprefix('a ')}s, one or more"
    return {int: "a whole number", float: "a number", str: "a text"}.get(kind, "None")


def short(value, most: int = 60) -> str:
    """The value on one line, and no more than its beginning."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
