"""JSON that comes from elsewhere: an error of any kind becomes a ValueError with one line."""

import json
from typing import Any

from .validation import short_repr


def read_json(name: str, text: Any) -> Any:
    """Return what a JSON text holds, or raise a ValueError that names the argument.

    A field that an object has twice is refused, because readers differ in which of them they take.
    NaN and Infinity, which are no JSON, become floats: whoever knows the field refuses them.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} is {short_repr(text)}; expected JSON ({error})") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, whose fields have to have different names."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is there twice")
    return fields
