"""Messages and updates as named arrays, and methods as JSON: what travels between machines.

Nothing is pickled. A client builds the method of its server from a JSON text. In this text a class
stands by its name, and an array, which travels beside the text, by its checksum.
"""

import hashlib
import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from .._support.strict_json import read_json
from .._support.validation import short_repr
from ..dictionaries import Dictionary, StandardBasis
from ..sparse_model import Array, IndexArray, SparseModel
from ..updates import Message

# The name of the flat indices of a dense array: this prefix and the shape, as in "at 30x4".
_INDEX_PREFIX = "at "

# Modules in folders with methods, or with parts of a run: imported when a text names one of them.
_MODULES_OF_METHODS = (
    "fgmp.shared_support.method",
    "fgmp.shared_support.newton",
    "fgmp.shared_support.sketches",
    "fgmp.privacy.noise",
    "fgmp.privacy.secure_sums",
)


def to_wire(message: Message) -> dict[str, Array]:
    """Return a message as named arrays.

    A dense array becomes indices and values if these take fewer bytes.

    Parameters
    ----------
    message : ndarray, SparseModel, int, or tuple of these

    Returns
    -------
    dict of str to ndarray
        The names say how `from_wire` puts the message together.
    """
    if isinstance(message, tuple):
        return {
            f"{i}.{name}": array
            for i, part in enumerate(message)
            for name, array in to_wire(part).items()
        }
    if isinstance(message, SparseModel):
        return {"support": message.support.astype(np.int32), "values": message.values}
    is_integer = isinstance(message, (int, np.integer))
    array = np.asarray(message, np.int32 if is_integer else None)
    if array.ndim == 0:
        return {"dense": array.reshape(1)}
    bytes_per_entry = array.itemsize + np.dtype(np.int32).itemsize
    if np.count_nonzero(array) * bytes_per_entry < array.nbytes:
        indices = np.flatnonzero(array)
        values = array.reshape(-1)[indices]
        return {_index_name(array.shape): indices.astype(np.int32), "values": values}
    return {"dense": np.ascontiguousarray(array)}


def from_wire(
    arrays: Mapping[str, Array], shape: tuple[int, ...], *, only: bool = False
) -> Message:
    """Return the message that `to_wire` turned into arrays.

    Parameters
    ----------
    arrays : mapping of str to ndarray
    shape : tuple of int
        The shape of models.
    only : bool, default False
        Accept one array or sparse model only, and of this shape. Nothing of another size is
        allocated, whatever the sender claims.

    Raises
    ------
    ValueError
        If the arrays are no message.
    """
    names = sorted(arrays)
    if names == ["dense"]:
        dense = arrays["dense"]
        is_integer = dense.shape == (1,) and dense.dtype == np.int32
        return int(dense[0]) if is_integer else dense
    if names == ["support", "values"]:
        return SparseModel(_as_indices(arrays["support"]), arrays["values"], shape)
    is_indexed = len(names) == 2 and names[0].startswith(_INDEX_PREFIX) and names[1] == "values"
    if is_indexed and (names[0] == _index_name(shape) or not only):
        return _scattered(names[0], arrays[names[0]], arrays["values"])
    if only:
        raise ValueError(f"message holds {short_repr(names)}; expected one array")
    return _message_tuple(arrays, shape)


def _scattered(name: str, indices: Array, values: Array) -> Array:
    """Return a dense array of given entries, zero elsewhere; the name tells its shape."""
    indices = _as_indices(indices)
    shape = [int(size) for size in name.removeprefix(_INDEX_PREFIX).split("x")]
    array = np.zeros(shape, values.dtype)
    is_inside = not indices.size or 0 <= indices.min() <= indices.max() < array.size
    if indices.shape != values.shape or not is_inside:
        raise ValueError(
            f"{name!r} has indices beyond its {array.size} entries, or not one for each value"
        )
    array.reshape(-1)[indices] = values
    return array


def _message_tuple(arrays: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Message, ...]:
    """Return the tuple of messages that arrays with the names "0....", "1...." stand for."""
    parts: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        index, _, part_name = name.partition(".")
        parts.setdefault(index, {})[part_name] = array
    indices = [str(index) for index in range(len(parts))]
    if not parts or set(parts) != set(indices):
        raise ValueError(f"message holds {short_repr(sorted(arrays))}; expected parts from 0")
    return tuple(from_wire(parts[index], shape) for index in indices)


def _index_name(shape: tuple[int, ...]) -> str:
    """Return the name of the flat indices of a dense array, which tells its shape."""
    return _INDEX_PREFIX + "x".join(map(str, shape))


def _as_indices(array: Array) -> IndexArray:
    """Return an array from the wire as indices, or raise a ValueError if it is none."""
    if array.dtype != np.int32 or array.ndim != 1:
        raise ValueError(
            f"indices have dtype {array.dtype} and shape {array.shape}; expected a vector of int32"
        )
    return array.astype(np.intp)


def to_json(thing: Any, kinds: Iterable[type] = ()) -> tuple[str, dict[str, Array]]:
    """Write a method, a loss, a dictionary, a solver or another part of a method as JSON.

    Parameters
    ----------
    thing : object
        May hold numbers, text, None, tuples, arrays of numbers, and dataclasses of fgmp.
    kinds : iterable of type, optional
        Your own dataclasses that `thing` may hold, too.

    Returns
    -------
    text : str
    arrays : dict of str to ndarray
        The arrays that the text refers to, by checksum.

    Raises
    ------
    ValueError
        If `thing` holds anything else; the message names the field.

    Examples
    --------
    >>> import fgmp
    >>> from fgmp.run.serialization import from_json, to_json
    >>> text, arrays = to_json(fgmp.FedGradMP(sparsity=4, batch_size=20))
    >>> again = from_json(text, arrays)
    >>> type(again).__name__, again.sparsity, again.batch_size
    ('FedGradMP', 4, 20)
    """
    arrays: dict[str, Array] = {}
    tree = _to_tree("thing", thing, tuple(kinds), arrays)
    return json.dumps(tree), arrays


def _to_tree(name: str, value: Any, kinds: tuple[type, ...], arrays: dict[str, Array]) -> Any:
    """Return what JSON can hold of a field; arrays are added to `arrays`."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    kind = type(value)
    is_finite_float = kind is float and np.isfinite(value)
    if value is None or kind in (bool, int, str) or is_finite_float:
        return value
    if kind is tuple:
        return [_to_tree(name, item, kinds, arrays) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        checksum = _checksum(value)
        arrays[checksum] = value
        return {"array": checksum}
    class_name = kind.__name__ if kind in kinds else f"{kind.__module__}:{kind.__name__}"
    if _find_class(class_name, kinds) is not kind:
        raise ValueError(
            f"{name} is {short_repr(value)}; expected a method or a part of one of fgmp, numbers, "
            "text, tuples or arrays (name dataclasses of your own in kinds)"
        )
    fields = {
        field: _to_tree(field, getattr(value, field), kinds, arrays)
        for field in inspect.signature(kind).parameters
    }
    return {"kind": class_name, "fields": fields}


def from_json(
    text: str, arrays: Mapping[str, Array] | None = None, kinds: Iterable[type] = ()
) -> Any:
    """Return the object that `to_json` wrote.

    Only classes that `to_json` writes are called, with the fields as arguments, and nothing else.

    Parameters
    ----------
    text : str
    arrays : mapping of str to ndarray, optional
        The arrays that the text refers to.
    kinds : iterable of type, optional
        Your own dataclasses that the text may name.

    Raises
    ------
    ValueError
        If the text is no such JSON, if it names a class, a field or an array that is unknown here,
        if an array has another checksum, or if a class refuses a value.
    """
    known_arrays = {} if arrays is None else arrays
    tree = read_json("text", text)
    try:
        return _from_tree("text", tree, tuple(kinds), known_arrays)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"text is {short_repr(text)}; expected the JSON of a method of this fgmp ({error})"
        ) from None


def _from_tree(name: str, tree: Any, kinds: tuple[type, ...], arrays: Mapping[str, Array]) -> Any:
    """Return the value of a field: the inverse of `_to_tree`."""
    if isinstance(tree, list):
        return tuple(_from_tree(name, item, kinds, arrays) for item in tree)
    if isinstance(tree, float) and not math.isfinite(tree):
        raise ValueError(f"{name} is {tree}; expected a finite number, as JSON has")
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        checksum = tree["array"]
        array = arrays.get(checksum)
        if array is None or _checksum(array) != checksum:
            raise ValueError(
                f"{name} is array {short_repr(checksum)}; expected it among arrays, as it was"
            )
        return array
    kind = _find_class(tree["kind"], kinds)
    if kind is None:
        raise ValueError(
            f"{name} is of kind {short_repr(tree['kind'])}; expected one of fgmp here, "
            "or one of kinds"
        )
    fields = {
        field: _from_tree(field, value, kinds, arrays) for field, value in tree["fields"].items()
    }
    return kind(**fields)


def _find_class(name: str, kinds: tuple[type, ...]) -> type | None:
    """Return the class of a name, or None if no method may be made of it.

    The name is "module:Class" for a class of this package, and "Class" for one of `kinds`. Nothing
    is imported that a text names, so that it runs no code, but for the modules of this package that
    have methods and their parts. A machine that has an object of another class has loaded its
    module.
    """
    module_name, _, class_name = name.partition(":")
    if module_name in _MODULES_OF_METHODS:
        import_module(module_name)
    module = sys.modules.get(module_name)
    if module_name.startswith("fgmp.") and module is not None:
        kind = vars(module).get(class_name)
        if not isinstance(kind, type) or kind.__module__ != module_name:
            return None
        is_part = is_dataclass(kind) or kind in (Dictionary, StandardBasis)
        return kind if is_part else None
    return next((kind for kind in kinds if kind.__name__ == name), None)


def _checksum(array: Array) -> str:
    """Return a checksum of type, shape, memory order and numbers.

    The memory order counts, because it decides the last bits of products.
    """
    order = "F" if array.flags.fnc else "C"
    header = f"{array.dtype.str} {array.shape} {order}\n"
    return hashlib.sha256(header.encode() + array.tobytes("A")).hexdigest()
