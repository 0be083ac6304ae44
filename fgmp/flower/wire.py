"""Messages as Flower's records and back: raw numbers without headers, and nothing that comes is trusted.

An array travels as its bytes, its type, its shape and the order of its axes in memory, which decides the last bits of
products. What arrives is read without pickles, and only where bytes, type and shape agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models import Array, Message, SparseModel

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, RecordDict

__all__ = ["array_record", "message_of", "model_message", "wire_bytes"]

_ORDERS = {"fgmp.C": "C", "fgmp.F": "F"}
_KINDS = "fiu"


def array_record(message: Message) -> ArrayRecord:
    """A message as Flower carries it."""
    from flwr.app import Array as FlowerArray
    from flwr.app import ArrayRecord

    def carried(array: Array) -> Any:
        by_column = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        order: Any = "F" if by_column else "C"
        return FlowerArray(array.dtype.str, tuple(map(int, array.shape)), f"fgmp.{order}", array.tobytes(order=order))

    return ArrayRecord({name: carried(array) for name, array in message.items()})


def message_of(record: Any) -> Any:
    """The message in an ArrayRecord; None where there is none, and text where it is no message.

    What is no message is for `reason_against` to count.
    """
    if record is None:
        return None
    try:
        return {name: _array(carried) for name, carried in record.items()}
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        return f"no message: {error}"


def model_message(model: Array | SparseModel) -> Message:
    """The message that asks for the objective of a model."""
    return model.message() if isinstance(model, SparseModel) else {"dense": model}


def wire_bytes(content: RecordDict) -> int:
    """What Flower sends of a content, its names and frames included, before the transport encrypts it."""
    from flwr.common.serde import recorddict_to_proto

    return len(recorddict_to_proto(content).SerializeToString())


def _array(carried: Any) -> Array:
    order: Any = _ORDERS.get(carried.stype)
    dtype, shape = np.dtype(carried.dtype), tuple(carried.shape)
    if order is None or dtype.kind not in _KINDS or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("an array of another kind")
    if len(shape) > 8 or math.prod(shape) * dtype.itemsize != len(carried.data):
        raise ValueError("an array whose bytes do not fit its shape")
    numbers = np.frombuffer(carried.data, dtype).reshape(shape, order=order)
    return numbers.astype(dtype.newbyteorder("="), order="K", copy=True)
