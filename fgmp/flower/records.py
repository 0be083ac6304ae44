"""Messages as Flower's records and back, without headers or pickles. Nothing received is trusted.

An array travels as its bytes, type, shape, and order of axes in memory, which decides the last bits
of products.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, TypeVar

import numpy as np

from .._support.optional import needs
from ..sparse_model import Array
from ..updates import Rejected, RejectReason

# What pip has to install for `fgmp.flower`, as pyproject.toml says it.
FLOWER = "flwr[simulation]>=1.41,<1.42"

Parsed = TypeVar("Parsed")

# What a reply and a question hold beside arrays: numbers, words, bytes, and lists of these. They
# come from another machine, so that each use has to check its type.
Fields = Mapping[str, Any]

# The types that an array may have. A name that is not in this table never reaches `np.dtype`, which
# parses what it is given: it evaluates shapes in it as Python, and makes types of any size.
_KINDS = ("f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8")
_DTYPES = {order + kind: np.dtype(order + kind) for order in "<>" for kind in _KINDS}
_DTYPES |= {name: np.dtype(name) for name in ("|i1", "|u1")}
_ORDERS: dict[str, Literal["C", "F"]] = {"fgmp.C": "C", "fgmp.F": "F"}
_MOST_AXES = 32  # the most that every NumPy since 1.26 has

# The record of numbers and words, and the record with the arrays of a message.
_FIELDS = "fgmp"
_MESSAGE = "message"

# What a message of several questions, or replies, asks.
SEVERAL = "several"


@dataclass(frozen=True)
class Reply:
    """The reply of one client, read once.

    Attributes
    ----------
    fields : mapping of str
        Numbers and words, of which ``refused`` is the reason why there is no update.
    arrays : mapping of str to ndarray
        The arrays of its message.
    parts : tuple of Reply
        The reply to each of several questions in one message.
    """

    fields: Fields
    arrays: Mapping[str, Array] = field(default_factory=dict)
    parts: tuple["Reply", ...] = ()

    def to_each(self, n_questions: int) -> tuple["Reply", ...]:
        """Return the reply to each of the questions in a message."""
        if n_questions == 1 or self.fields.get("refused"):
            return (self,) * n_questions
        if len(self.parts) != n_questions:
            return (Reply({"refused": "malformed"}),) * n_questions
        return self.parts

    @property
    def is_refusal(self) -> bool:
        """Whether it has a reason in place of what was requested, or of a part of it."""
        return "refused" in self.fields or any(part.is_refusal for part in self.parts)

    @property
    def is_of_unknown_run(self) -> bool:
        """Whether the client does not know the run, because it was restarted."""
        return "unknown" in self.fields


def content_of(fields: Fields, **arrays: Mapping[str, Array]) -> Any:
    """Return a RecordDict of numbers and words, if there are any, and of named groups of arrays."""
    with needs("federation on Flower", FLOWER):
        from flwr.app import ConfigRecord, RecordDict

    records: dict[str, Any] = {name: record_of(group) for name, group in arrays.items()}
    if fields:
        records = {_FIELDS: ConfigRecord(dict(fields)), **records}
    return RecordDict(records)


def fields_of(content: Any) -> Fields:
    """Return the numbers and words of a RecordDict."""
    return content.config_records.get(_FIELDS, {})


def content_of_parts(contents: Sequence[Any]) -> Any:
    """Return one RecordDict that holds several; a single one as it is."""
    if len(contents) == 1:
        return contents[0]
    several = content_of({"ask": SEVERAL})
    for index, content in enumerate(contents):
        several.update({f"{index}.{name}": record for name, record in content.items()})
    return several


def parts_of(content: Any) -> list[Any]:
    """Return what `content_of_parts` has put into one RecordDict of several.

    Raises
    ------
    ValueError
        If the parts are not numbered from 0.
    """
    parts: dict[str, Any] = {}
    for name, record in content.items():
        index, is_of_part, name_of_record = name.partition(".")
        if is_of_part:
            parts.setdefault(index, content_of({}))[name_of_record] = record
    numbers = [str(index) for index in range(len(parts))]
    if set(parts) != set(numbers):
        raise ValueError("parts are not numbered from 0")
    return [parts[number] for number in numbers]


def reply_of(content: Any, most_bytes: int) -> Reply:
    """Return the reply in a RecordDict that a client sent.

    Raises
    ------
    ValueError
        If the content holds more than `most_bytes`, or is no message.
    """
    n_bytes = _bytes_in(content)
    if n_bytes > most_bytes:
        raise ValueError(f"the reply has {n_bytes} bytes; expected at most {most_bytes}")
    *parts, message = (
        Reply(dict(fields_of(part)), arrays_of(part.array_records.get(_MESSAGE, {})))
        for part in (*parts_of(content), content)
    )
    return replace(message, parts=tuple(parts))


def parse_reply(reply: Reply, parse: Callable[[Reply], Parsed]) -> Parsed | Rejected:
    """Return what `parse` makes of a reply, or `Rejected` if it refuses or cannot be parsed.

    Any exception while a client's reply is parsed is caused by what that client sent, and the run
    goes on with the others.
    """
    if reply.is_refusal:
        reason = reply.fields["refused"]
        return Rejected(
            RejectReason(reason) if reason in list(RejectReason) else RejectReason.MISSING
        )
    try:
        return parse(reply)
    except Exception as error:
        log_unreadable("a reply", error)
        return Rejected(RejectReason.MALFORMED)


def log_unreadable(subject: str, error: Exception) -> None:
    """Log at the server that something was no message, with the kind of the error only.

    The error quotes what a stranger sent.
    """
    logger = logging.getLogger("fgmp.flower")
    logger.info("%s could not be read: %s", subject, type(error).__name__)


def record_of(arrays: Mapping[str, Array]) -> Any:
    """Return named arrays as an ArrayRecord."""
    with needs("federation on Flower", FLOWER):
        from flwr.app import Array as FlowerArray
        from flwr.app import ArrayRecord

    record = ArrayRecord()
    for name, array in arrays.items():
        order = "fgmp.F" if array.flags.fnc else "fgmp.C"
        record[name] = FlowerArray(array.dtype.str, array.shape, order, array.tobytes("A"))
    return record


def arrays_of(record: Any) -> dict[str, Array]:
    """Return the arrays of an ArrayRecord: the inverse of `record_of`.

    Raises
    ------
    ValueError
        If the record holds anything else.
    """
    try:
        return {name: _array_of(carried) for name, carried in record.items()}
    except (AttributeError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"record is no message: {error}") from error


def _array_of(carried: Any) -> Array:
    """Return an array with memory of its own.

    Type, order and size are settled before NumPy sees any of them.
    """
    dtype = _DTYPES[carried.dtype]
    order = _ORDERS[carried.stype]
    shape = tuple(carried.shape)
    if len(shape) > _MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a shape is no few whole numbers")

    data = carried.data
    if not isinstance(data, bytes) or len(data) != prod(shape) * dtype.itemsize:
        raise ValueError("an array has other bytes than its type and shape say")
    array = np.frombuffer(data, dtype).reshape(shape, order=order)
    return array.astype(dtype.newbyteorder("="), order="K", copy=True)


def _bytes_in(content: Any) -> int:
    """Return the size of a content, whatever its records are called."""
    n_bytes = 0
    for record in content.array_records.values():
        for name, carried in record.items():
            header = len(name) + len(carried.dtype) + len(carried.stype) + 8 * len(carried.shape)
            n_bytes += header + len(carried.data)
    for record in (*content.config_records.values(), *content.metric_records.values()):
        for name, value in record.items():
            n_bytes += len(name) + _bytes_of(value if isinstance(value, list) else [value])
    return n_bytes


def _bytes_of(values: Iterable[Any]) -> int:
    """Return the size of numbers, words and bytes."""
    return sum(len(value) if isinstance(value, (str, bytes)) else 8 for value in values)
