"""Messages as Flower's records and back, without headers or pickles, and nothing that comes is trusted.

An array travels as its bytes, type, shape, and order of axes in memory, which decides the last bits of products.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..models import Array
from ..reducers import REASONS, Missing


def content_of(said: Mapping[str, Any], **arrays: Mapping[str, Array]) -> Any:
    """A RecordDict of numbers and words, where there are any, and of arrays with names."""
    from flwr.app import ConfigRecord, RecordDict

    records = {name: record_of(each) for name, each in arrays.items()}
    return RecordDict({"fgmp": ConfigRecord(dict(said)), **records} if said else records)


def said_in(content: Any) -> Mapping[str, Any]:
    """The numbers and words of a content."""
    return content.config_records.get("fgmp", {})  # type: ignore[no-any-return]


def taken(reply: Any, read: Callable[[Any], Any]) -> Any:
    """What `read` makes of a reply; `Missing` where the client refused, or where nothing can be made of it."""
    if "refused" in (said := said_in(reply)):
        return Missing(said["refused"] if said["refused"] in REASONS else "missing")
    try:
        return read(reply)
    except (ValueError, TypeError, KeyError):
        return Missing("malformed")


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
    arrays, orders = {}, {"fgmp.C": "C", "fgmp.F": "F"}  # type: tuple[dict[str, Array], dict[str, Any]]
    try:
        for name, carried in record.items():
            dtype, shape = np.dtype(carried.dtype), tuple(carried.shape)
            numbers = np.frombuffer(carried.data, dtype).reshape(shape, order=orders[carried.stype])
            arrays[name] = numbers.astype(dtype.newbyteorder("="), order="K", copy=True)
    except (AttributeError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"record is no message: {error}") from error
    return arrays
