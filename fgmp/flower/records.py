"""Messages as Flower's records and back, without headers or pickles, and nothing that comes is trusted.

An array travels as its bytes, type, shape, and order of axes in memory, which decides the last bits of products.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ..aggregation import Rejected, RejectReason
from ..sparse_model import Array

# The types that an array may have. A name that is not in this table never reaches `np.dtype`, which parses what it is
# given: it evaluates shapes in it as Python, and makes types of any size.
_KINDS = ("f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8")
_TYPES = {order + kind: np.dtype(order + kind) for order in "<>" for kind in _KINDS}
_TYPES |= {name: np.dtype(name) for name in ("|i1", "|u1")}
_ORDERS: dict[str, Any] = {"fgmp.C": "C", "fgmp.F": "F"}
_MOST_AXES = 32


@dataclass(frozen=True)
class Reply:
    """What came of one client, read once: its numbers and words, and the arrays of its message."""

    said: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)


def content_of(said: Mapping[str, Any], **arrays: Mapping[str, Array]) -> Any:
    """A RecordDict of numbers and words, where there are any, and of arrays with names."""
    from flwr.app import ConfigRecord, RecordDict

    records = {name: record_of(each) for name, each in arrays.items()}
    return RecordDict({"fgmp": ConfigRecord(dict(said)), **records} if said else records)


def said_in(content: Any) -> Mapping[str, Any]:
    """The numbers and words of a content."""
    return content.config_records.get("fgmp", {})  # type: ignore[no-any-return]


def reply_in(content: Any, most_bytes: int) -> Reply:
    """The reply in a content that a client sent; a ValueError where it holds more bytes, or what is no message."""
    if (size := _bytes_in(content)) > most_bytes:
        raise ValueError(f"the reply has {size} bytes; expected at most {most_bytes}")
    message = content.array_records.get("message", {})
    return Reply(dict(said_in(content)), arrays_of(message))


def taken(reply: Reply, read: Callable[[Reply], Any]) -> Any:
    """What `read` makes of a reply; `Rejected` where the client refused, or where nothing can be made of it.

    Whatever goes wrong while one client's reply is read is that client's: the run goes on with the others.
    """
    if "refused" in reply.said:
        reason = reply.said["refused"]
        return Rejected(
            RejectReason(reason) if reason in list(RejectReason) else RejectReason.MISSING
        )
    try:
        return read(reply)
    except Exception as error:
        unreadable("a reply", error)
        return Rejected(RejectReason.MALFORMED)


def unreadable(what: str, error: Exception) -> None:
    """Say in the server's log that something was no message, by the kind of the error: its words are a stranger's."""
    logging.getLogger("fgmp.flower").info("%s could not be read: %s", what, type(error).__name__)


def printable(text: Any) -> str:
    """A text of somebody else on one line, without letters that a terminal acts on."""
    seen = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return " ".join(seen.split())


def record_of(arrays: Mapping[str, Array]) -> Any:
    """Arrays with names as an ArrayRecord."""
    from flwr.app import Array as FlowerArray
    from flwr.app import ArrayRecord

    record = ArrayRecord()
    for name, array in arrays.items():
        order = "fgmp.F" if array.flags.fnc else "fgmp.C"
        record[name] = FlowerArray(array.dtype.str, array.shape, order, array.tobytes("A"))
    return record


def arrays_of(record: Any) -> dict[str, Array]:
    """The inverse of `record_of`; a ValueError where the record holds anything else."""
    try:
        return {name: _array_of(carried) for name, carried in record.items()}
    except (AttributeError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"record is no message: {error}") from error


def _array_of(carried: Any) -> Array:
    """An array of its own memory. Type, order and size are settled before NumPy sees any of them."""
    dtype, order, data = _TYPES[carried.dtype], _ORDERS[carried.stype], carried.data
    shape = tuple(carried.shape)
    if len(shape) > _MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a shape is no few whole numbers")
    if not isinstance(data, bytes) or len(data) != prod(shape) * dtype.itemsize:
        raise ValueError("an array has other bytes than its type and shape say")
    numbers = np.frombuffer(data, dtype).reshape(shape, order=order)
    return numbers.astype(dtype.newbyteorder("="), order="K", copy=True)


def _bytes_in(content: Any) -> int:
    """How much a content holds, whatever its records are called."""
    size = 0
    for record in content.array_records.values():
        for name, carried in record.items():
            size += (
                len(name)
                + len(carried.dtype)
                + len(carried.stype)
                + 8 * len(carried.shape)
                + len(carried.data)
            )
    for record in (*content.config_records.values(), *content.metric_records.values()):
        for name, value in record.items():
            parts = value if isinstance(value, list) else [value]
            size += len(name) + sum(
                len(part) if isinstance(part, (str, bytes)) else 8 for part in parts
            )
    return size
