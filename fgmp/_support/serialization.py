"""What travels: messages and answers as arrays with names; methods as JSON.

Nothing is pickled. A client builds the method that its server runs of a text, in which a class goes by its name, and
an array, which travels beside it, by its checksum.
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from ..dictionaries import Dictionary, StandardBasis
from ..sparse_model import Array, SparseModel
from .validation import short_repr


def to_wire(message: Array | SparseModel | int | tuple[Any, ...]) -> dict[str, Array]:
    """A message as arrays: a dense array goes as indices and values where that is shorter."""
    if isinstance(message, tuple):
        return {
            f"{i}.{name}": array
            for i, part in enumerate(message)
            for name, array in to_wire(part).items()
        }
    if isinstance(message, SparseModel):
        return {"support": message.support.astype(np.int32), "values": message.values}
    array = np.asarray(message, np.int32 if isinstance(message, int) else None)
    each = array.itemsize + np.dtype(np.int32).itemsize
    if array.ndim and np.count_nonzero(array) * each < array.nbytes:
        at = np.flatnonzero(array)
        return {_places(array.shape): at.astype(np.int32), "values": array.reshape(-1)[at]}
    return {"dense": np.ascontiguousarray(array) if array.ndim else array.reshape(1)}


def from_wire(arrays: Mapping[str, Array], shape: tuple[int, ...], *, only: bool = False) -> Any:
    """The inverse of `to_wire` for models of a shape; a ValueError where the arrays are no message.

    With `only` it is one array or sparse model of that shape: where a stranger says another, nothing is made.
    """
    first, *others = sorted(arrays) or [""]
    if first == "dense" and not others:
        array = arrays["dense"]
        return int(array[0]) if array.shape == (1,) and array.dtype == np.int32 else array
    if first == "support" and others == ["values"]:
        return SparseModel(_indices(arrays["support"]), arrays["values"], shape)
    if first.startswith("at ") and others == ["values"] and (not only or first == _places(shape)):
        at, values = _indices(arrays[first]), arrays["values"]
        whole = np.zeros([int(size) for size in first[3:].split("x")], values.dtype)
        if at.shape != values.shape or (at.size and not 0 <= at.min() <= at.max() < whole.size):
            raise ValueError(
                f"{first!r} names other places than the {whole.size} it has, or not one for each value"
            )
        whole.reshape(-1)[at] = values
        return whole
    parts: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        index, _, rest = name.partition(".")
        parts.setdefault(index, {})[rest] = array
    indices = [str(index) for index in range(len(parts))]
    if only or not parts or set(parts) != set(indices):
        raise ValueError(
            f"message holds {short_repr(sorted(arrays))}; expected {'one array' if only else 'parts from 0'}"
        )
    return tuple(from_wire(parts[index], shape) for index in indices)


def _places(shape: tuple[int, ...]) -> str:
    """What the places of the entries of a dense array are called: its shape goes with the name."""
    return f"at {'x'.join(map(str, shape))}"


def _indices(array: Array) -> Array:
    if array.dtype != np.int32 or array.ndim != 1:
        raise ValueError(
            f"indices have dtype {array.dtype} and shape {array.shape}; expected a vector of int32"
        )
    return array.astype(np.intp)


def to_json(thing: Any, kinds: Iterable[type] = ()) -> tuple[str, dict[str, Array]]:
    """A method, a loss, a dictionary, a solver or another part of a method as JSON, and the arrays that it names.

    It may hold numbers, text, tuples, arrays, dataclasses of fgmp, and `kinds`, dataclasses of your own; a ValueError
    says where it holds anything else.

    Examples
    --------
    >>> import fgmp
    >>> from fgmp._support.serialization import from_json, to_json
    >>> text, arrays = to_json(fgmp.FedGradMP(sparsity=4, batch_size=20))
    >>> again = from_json(text, arrays)
    >>> type(again).__name__, again.sparsity, again.batch_size
    ('FedGradMP', 4, 20)
    """
    own, arrays = tuple(kinds), {}  # type: tuple[type, ...], dict[str, Array]

    def tree_of(part: Any, where: str) -> Any:
        kind = type(part)
        if part is None or kind in (bool, int, str) or (kind is float and np.isfinite(part)):
            return part
        if kind is tuple:
            return [tree_of(item, where) for item in part]
        if isinstance(part, np.ndarray) and part.dtype.kind in "fiu":
            arrays[name := _checksum(part)] = part
            return {"array": name}
        name = kind.__name__ if kind in own else f"{kind.__module__}:{kind.__name__}"
        if _class_named(name, own) is not kind:
            raise ValueError(
                f"{where} is {short_repr(part)}; expected a method or a part of one of fgmp, numbers, text, tuples or "
                "arrays (name dataclasses of your own in kinds)"
            )
        return {
            "kind": name,
            "fields": {n: tree_of(getattr(part, n), n) for n in inspect.signature(kind).parameters},
        }

    return json.dumps(tree_of(thing, "thing")), arrays


def from_json(
    text: str, arrays: Mapping[str, Array] | None = None, kinds: Iterable[type] = ()
) -> Any:
    """The inverse of `to_json`: of a class that it writes an object is made of its fields, and nothing else is called.

    A ValueError where the text is no such JSON, or names a class, a field or an array that is not known here, an array
    of another checksum, or a value that its class does not take.
    """
    own, given = tuple(kinds), {} if arrays is None else arrays

    def made(tree: Any, where: str) -> Any:
        if isinstance(tree, list):
            return tuple(made(item, where) for item in tree)
        if not isinstance(tree, dict):
            return tree
        if "array" in tree:
            if (array := given.get(tree["array"])) is None or _checksum(array) != tree["array"]:
                raise ValueError(
                    f"{where} is array {short_repr(tree['array'])}; expected it among arrays, as it was"
                )
            return array
        if (kind := _class_named(tree["kind"], own)) is None:
            raise ValueError(
                f"{where} is of kind {short_repr(tree['kind'])}; expected one of fgmp here, or one of kinds"
            )
        return kind(**{name: made(value, name) for name, value in tree["fields"].items()})

    try:
        return made(json.loads(text), "text")
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"text is {short_repr(text)}; expected the JSON of a method of this fgmp ({error})"
        ) from None


def _class_named(name: str, kinds: tuple[type, ...]) -> Any:
    """One of `kinds` by its name, or what a method of this package may be made of, by "module:Class"; or None.

    Nothing is imported for it, so that a text runs no code: whoever has a class has its module.
    """
    module, _, own = name.partition(":")
    if module.startswith("fgmp.") and module in sys.modules:
        kind = vars(sys.modules[module]).get(own)
        fits = isinstance(kind, type) and kind.__module__ == module
        return (
            kind if fits and (is_dataclass(kind) or kind in (Dictionary, StandardBasis)) else None
        )
    return next((kind for kind in kinds if kind.__name__ == name), None)


def _checksum(array: Array) -> str:
    """Of type, shape, numbers and the order of the axes in memory, which decides the last bits of products."""
    head = f"{array.dtype.str} {array.shape} {'F' if array.flags.fnc else 'C'}\n"
    return hashlib.sha256(head.encode() + array.tobytes("A")).hexdigest()
