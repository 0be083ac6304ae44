"""What a server takes from a reply: who a client is, an answer, an objective, or why nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..advice import AdviceWarning
from ..methods.answers import Missed
from ..models import message_bytes
from .wire import message_of, wire_bytes

__all__ = [
    "ClientRefusedWarning",
    "answer_in",
    "forgot",
    "keys_of",
    "objective_in",
    "sizes_of",
    "who_in",
]


class ClientRefusedWarning(AdviceWarning):
    """A client said something of itself that no client can have, and has no part in the run."""


def keys_of(taken: Mapping[int, Mapping[str, Any]]) -> dict[int, int]:
    """A key for each node: the one it says, where nobody before it says the same; else one above all that are said."""
    keys: dict[int, int] = {}
    said = {node: who["key"] for node, who in taken.items() if who["key"] is not None}
    for node in sorted(said, key=lambda node: (said[node], node)):
        if said[node] not in keys.values():
            keys[node] = said[node]
    for node in sorted(set(taken) - set(keys)):
        keys[node] = max(keys.values(), default=-1) + 1
    return keys


def who_in(reply: Any, most_rows: int) -> Any:
    """What a client says of itself, or `Missed` with the reason."""
    if isinstance(reply, Missed):
        return reply
    said = reply.config_records.get("fgmp")
    if said is None:
        return Missed("malformed", "a reply without numbers")
    rows, features, key = said.get("rows"), said.get("features"), said.get("key")
    if type(rows) is not int or not 1 <= rows <= most_rows:
        return Missed("weight", f"rows {rows!r}; expected 1 to {most_rows}")
    if type(features) is not int or not 1 <= features < 2**31 or said.get("dtype") not in ("float32", "float64"):
        return Missed("malformed", f"features {features!r} of type {said.get('dtype')!r}")
    fits = type(key) is int and 0 <= key < 2**31
    return {"rows": rows, "features": features, "dtype": said["dtype"], "key": key if fits else None}


def answer_in(reply: Any) -> Any:
    """The message of an answer, or whatever came in its place."""
    return reply if isinstance(reply, Missed) else message_of(reply.array_records.get("message"))


def objective_in(reply: Any) -> float | None:
    """The objective that a client says, where a loss can have it."""
    if isinstance(reply, Missed):
        return None
    said = reply.config_records.get("fgmp")
    value = None if said is None else said.get("objective")
    return value if type(value) is float and not value < 0 else None


def forgot(reply: Any) -> bool:
    """Whether a node says that it does not know the run: it was started anew."""
    return not isinstance(reply, Missed) and "unknown" in reply.config_records.get("fgmp", {})


def sizes_of(arrived: Sequence[Any], replies: Sequence[Any]) -> tuple[int, int]:
    """The bytes of the arrays that came, and of all that Flower sent with them."""
    payload = sum(message_bytes(answer) for answer in arrived)
    return payload, sum(wire_bytes(reply) for reply in replies if not isinstance(reply, Missed))
