"""What travels, as arrays with names: messages and answers, and how many bytes they take."""

from __future__ import annotations

from typing import Any

import numpy as np

from .models import Array, SparseModel

Message = Any  # an array, a sparse model, a whole number, or a tuple of these


def to_wire(message: Message) -> dict[str, Array]:
    """A message as arrays: a dense array goes as indices and values where that is shorter."""
    if isinstance(message, tuple):
        return {f"{i}.{name}": array for i, part in enumerate(message) for name, array in to_wire(part).items()}
    if isinstance(message, SparseModel):
        return {"support": message.support.astype(np.int32), "values": message.values}
    array = np.asarray(message, np.int32 if isinstance(message, int) else None)
    each = array.itemsize + np.dtype(np.int32).itemsize
    if array.ndim and np.count_nonzero(array) * each < array.nbytes:
        at = np.flatnonzero(array)
        return {_places(array.shape): at.astype(np.int32), "values": array.reshape(-1)[at]}
    return {"dense": np.ascontiguousarray(array) if array.ndim else array.reshape(1)}


def from_wire(arrays: dict[str, Array], shape: tuple[int, ...], *, only: bool = False) -> Message:
    """The inverse of `to_wire` for models of a shape; a ValueError where the arrays are no message.

    With `only` it is one array or sparse model of that shape: where a stranger says another, nothing is made.
    """
    names = set(arrays)
    if names == {"dense"}:
        array = arrays["dense"]
        return int(array[0]) if array.shape == (1,) and array.dtype == np.int32 else array
    if names == {"support", "values"}:
        return SparseModel(_indices(arrays["support"]), arrays["values"], shape)
    if len(names) == 2 and "values" in names and (place := min(names - {"values"})).startswith("at "):
        if only and place != _places(shape):
            raise ValueError(f"message has an array {place!r}; expected {_places(shape)!r}")
        at, values = _indices(arrays[place]), arrays["values"]
        whole = np.zeros([int(size) for size in place[3:].split("x")], values.dtype)
        if at.shape != values.shape or (at.size and not 0 <= at.min() <= at.max() < whole.size):
            raise ValueError(f"{place!r} names places beyond {whole.size - 1}; expected places in its shape")
        whole.reshape(-1)[at] = values
        return whole
    parts: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        place, _, rest = name.partition(".")
        if not rest or not place.isdecimal():
            raise ValueError(f"message has an array {name!r}; expected support and values, at and values, or dense")
        parts.setdefault(int(place), {})[rest] = array
    if only or sorted(parts) != list(range(len(parts))) or not parts:
        raise ValueError(f"message holds {sorted(names)}; expected {'one part' if only else 'parts numbered from 0'}")
    return tuple(from_wire(parts[place], shape) for place in range(len(parts)))


def _places(shape: tuple[int, ...]) -> str:
    """What the places of the entries of a dense array are called: its shape goes with the name."""
    return f"at {'x'.join(map(str, shape))}"


def _indices(array: Array) -> Array:
    if array.dtype != np.int32 or array.ndim != 1:
        raise ValueError(f"indices have dtype {array.dtype} and shape {array.shape}; expected a vector of int32")
    return array.astype(np.intp)


def n_bytes(message: Message) -> int:
    """What a message takes on the wire: the bytes of its arrays."""
    if isinstance(message, tuple):
        return sum(map(n_bytes, message))
    if isinstance(message, SparseModel):
        return (4 + message.values.itemsize) * len(message.values)
    if isinstance(message, np.ndarray):
        each = message.itemsize + np.dtype(np.int32).itemsize
        return min(message.nbytes, int(np.count_nonzero(message)) * each)
    return 4 if isinstance(message, int) else 0
