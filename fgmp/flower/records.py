"""Messages as Flower's records and back, without headers or pickles, and nothing that comes is trusted.

An array travels as its bytes, type, shape, and order of axes in memory, which decides the last bits of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..models import Array

__all__ = ["arrays_of", "content_bytes", "content_of", "record_of", "said_in"]

_ORDERS = {"fgmp.C": "C", "fgmp.F": "F"}


def content_of(said: Mapping[str, Any], **arrays: Mapping[str, Array]) -> Any:
    """A RecordDict of numbers and words, where there are any, and of arrays with names."""
    from flwr.app import ConfigRecord, RecordDict

    records = {name: record_of(each) for name, each in arrays.items()}
    return RecordDict({"fgmp": ConfigRecord(dict(said)), **records} if said else records)


def record_of(arrays: Mapping[str, Array]) -> Any:
    """Arrays with names as an ArrayRecord."""
    from flwr.app import Array as FlowerArray
    from flwr.app import ArrayRecord

    def carried(array: Array) -> Any:
        order: Any = "F" if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        return FlowerArray(array.dtype.str, tuple(map(int, array.shape)), f"fgmp.{order}", array.tobytes(order=order))

    return ArrayRecord({name: carried(array) for name, array in arrays.items()})


def said_in(content: Any) -> Mapping[str, Any]:
    """The numbers and words of a content."""
    said: Mapping[str, Any] = content.config_records.get("fgmp", {})
    return said


def arrays_of(record: Any) -> dict[str, Array]:
    """The inverse of `record_of`; a ValueError where the record holds anything else."""
    try:
        return {name: _array(carried) for name, carried in record.items()}
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"record is no message: {error}") from error


def content_bytes(content: Any) -> int:
    """What Flower sends of a content, its names and frames included, before the transport encrypts it."""
    from flwr.common.serde import recorddict_to_proto

    return len(recorddict_to_proto(content).SerializeToString())


def _array(carried: Any) -> Array:
    order: Any = _ORDERS.get(carried.stype)
    dtype, shape = np.dtype(carried.dtype), tuple(carried.shape)
    if order is None or dtype.kind not in "fiu" or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("an array of another kind")
    numbers = np.frombuffer(carried.data, dtype).reshape(shape, order=order)  # a ValueError where they do not fit
    return numbers.astype(dtype.newbyteorder("="), order="K", copy=True)
