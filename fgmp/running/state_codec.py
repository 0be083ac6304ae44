"""States of methods as plain arrays and a tree of names and numbers, and back: what a checkpoint can hold.

Nothing is pickled: a class is named, and only one that the reader already has is made again. What cannot be written
is refused with the place where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..methods.dual_averaging import DualState, FastDualState
from ..methods.pooled import Point, Unfinished
from ..methods.pooled_newton import BestSoFar
from ..methods.shared_support import SharedState
from ..models import Array, SparseModel

__all__ = ["Types", "classes_for", "decode_state", "encode_state", "name_of"]

Types = Mapping[str, type]

_OURS = (SparseModel, Point, Unfinished, BestSoFar, SharedState, DualState, FastDualState)
_KINDS = "biufcSUmM"


def name_of(kind: type) -> str:
    """What a class is called in a file."""
    return f"{kind.__module__}.{kind.__qualname__}"


def classes_for(method: Any, start: Any) -> Types:
    """The NamedTuples and dataclasses that the states of a method may hold, by name.

    Parameters
    ----------
    method : Method
        Its attribute `state_types`, a tuple of classes, names those that `start` does not show.
    start : object
        The state that the method starts from: the classes it is made of are taken.
    """
    classes = {*_OURS, *getattr(method, "state_types", ()), *_classes_in(start)}
    return {name_of(kind): kind for kind in classes}


def encode_state(value: Any, types: Types) -> tuple[Any, list[Array]]:
    """A value as a tree for JSON, and the arrays that it names by their place.

    Parameters
    ----------
    value : object
        None, a bool, int, float or str, an array or scalar of NumPy, or a tuple, list, dict, NamedTuple or dataclass
        of such.
    types : mapping of str to type
        The NamedTuples and dataclasses that may occur (`classes_for`).

    Raises
    ------
    TypeError
        Where it holds anything else; the message says where.
    """
    arrays: list[Array] = []
    places: dict[int, int] = {}

    def tree_of(part: Any, where: str) -> Any:
        kind = type(part)
        if part is None or kind in (bool, int, str):
            return part
        if kind is float:
            return {"float": part.hex()}
        if kind in (np.ndarray, np.memmap) or isinstance(part, np.generic):
            return array_of(part, where)
        if kind in (list, tuple):
            return {kind.__name__: [tree_of(item, f"{where}[{i}]") for i, item in enumerate(part)]}
        if kind is dict:
            named = ((key, item, f"{where}[{key!r}]") for key, item in part.items())
            return {"dict": [[tree_of(key, f"a key of {where}"), tree_of(item, place)] for key, item, place in named]}
        if types.get(name_of(kind)) is kind:
            return {
                "made": name_of(kind),
                "of": {name: tree_of(item, f"{where}.{name}") for name, item in _parts(part)},
            }
        raise TypeError(
            f"{where} is of type {name_of(kind)}; expected None, numbers, text, arrays, or tuples, lists, dicts, "
            "NamedTuples and dataclasses of these (a class that the state has not at the start is named in the "
            "method's state_types)"
        )

    def array_of(part: Any, where: str) -> Any:
        array = np.asarray(part)
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"{where} is an array of dtype {array.dtype}; expected numbers or text")
        # The order of the axes in memory decides how BLAS adds up, and so the last bits.
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        if id(part) not in places:
            places[id(part)] = len(arrays)
            arrays.append(np.ascontiguousarray(array.transpose(axes)).reshape([array.shape[axis] for axis in axes]))
        return {"scalar" if isinstance(part, np.generic) else "array": places[id(part)], "axes": axes}

    return tree_of(value, "the state"), arrays


def decode_state(tree: Any, arrays: list[Array], types: Types) -> Any:
    """The inverse of `encode_state`, for a tree that it made."""
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float.fromhex(tree["float"])
    if "scalar" in tree:
        return arrays[tree["scalar"]][()]
    if "array" in tree:
        return arrays[tree["array"]].transpose(np.argsort(tree["axes"], kind="stable"))
    if "dict" in tree:
        return {decode_state(key, arrays, types): decode_state(item, arrays, types) for key, item in tree["dict"]}
    if "made" in tree:
        if tree["made"] not in types:
            raise ValueError(f"the state holds a {tree['made']}; expected one of {', '.join(sorted(types))}")
        return types[tree["made"]](**{name: decode_state(item, arrays, types) for name, item in tree["of"].items()})
    ((kind, items),) = tree.items()
    parts = [decode_state(item, arrays, types) for item in items]
    return tuple(parts) if kind == "tuple" else parts


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields that a NamedTuple or a dataclass is made from."""
    names = [field.name for field in fields(value) if field.init] if is_dataclass(value) else value._fields
    return ((name, getattr(value, name)) for name in names)


def _is_made_of_fields(value: Any) -> bool:
    return is_dataclass(value) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _classes_in(value: Any) -> Iterator[type]:
    """The classes of the NamedTuples and dataclasses in a value."""
    if isinstance(value, type):
        return
    if _is_made_of_fields(value):
        yield type(value)
        value = [part for _, part in _parts(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _classes_in(part)
