"""Methods, losses, dictionaries and solvers as JSON and back, so that a client builds the method that its server runs.

Nothing is pickled: a class is named, one that the reader has is made of its fields again, and an array travels beside
the text under its checksum.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_mapping, check_sequence, shown
from ..dictionaries import Dictionary, StandardBasis
from ..layers.robust import Median, TrimmedMean
from ..layers.secure_sums import SecureSum
from ..losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from ..models import Array
from ..rounds import Mean
from ..selection import Overall, PerAtom, PerOutput
from ..solvers import SGD, Exact, GradientDescent, Newton
from .dual_averaging import FastFedDualAvg, FedDualAvg
from .fedgradmp import FedGradMP
from .rivals import FedAvg, FedHT, FedIterHT, FedMid
from .shared_support import CountSketch, LargestEntries, SharedSupportGradMP
from .support_solvers import LocalSteps, NewtonOnSupport

_VERSION = 1
_METHODS = (FedAvg, FedDualAvg, FastFedDualAvg, FedGradMP, FedHT, FedIterHT, FedMid, SharedSupportGradMP)
_PARTS = (Mean, Median, TrimmedMean, SecureSum, CountSketch, LargestEntries, Overall, PerAtom, PerOutput)
_SOLVERS = (Exact, GradientDescent, Newton, SGD)
_SHARED = (LocalSteps, NewtonOnSupport)
_PROBLEM = (LogisticLoss, SoftmaxLoss, SquaredLoss, Dictionary, StandardBasis)
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (*_METHODS, *_PARTS, *_SOLVERS, *_SHARED, *_PROBLEM)}
# What is no dataclass, by what its constructor takes and keeps.
_KEPT = {StandardBasis: (), Dictionary: ("atoms", "approximation")}


class Written(NamedTuple):
    """What `to_json` makes of a method: JSON, and the arrays (of a dictionary) that it names by their checksum."""

    text: str
    arrays: dict[str, Array]


def to_json(thing: Any, kinds: Iterable[type] = ()) -> Written:
    """A method, a loss, a dictionary, a solver or another part of a method as JSON.

    A ValueError says where it holds anything that is neither of fgmp nor one of `kinds`, dataclasses of your own.

    Examples
    --------
    >>> import fgmp
    >>> written = fgmp.methods.method_json.to_json(fgmp.FedGradMP(sparsity=4, batch_size=20))
    >>> again = fgmp.methods.method_json.from_json(written.text, written.arrays)
    >>> type(again).__name__, again.sparsity, again.batch_size
    ('FedGradMP', 4, 20)
    """
    known, arrays = _known(kinds), {}  # type: tuple[dict[str, type], dict[str, Array]]

    def tree_of(part: Any, where: str) -> Any:
        kind = type(part)
        if part is None or kind in (bool, int, str) or (kind is float and math.isfinite(part)):
            return part
        if kind is tuple:
            return {"tuple": [tree_of(item, f"{where}[{i}]") for i, item in enumerate(part)]}
        if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
            name = _checksum(part)
            arrays[name] = part
            return {"array": name}
        if known.get(kind.__name__) is kind:
            named = {field: tree_of(getattr(part, field), f"{where}.{field}") for field in _fields(kind)}
            return {"kind": kind.__name__, "fields": named}
        raise ValueError(
            f"{where} is {shown(part)}; expected a method or a part of one of fgmp, numbers, text, tuples or arrays "
            "(name dataclasses of your own in kinds)"
        )

    tree = tree_of(thing, "thing")
    return Written(json.dumps({"fgmp": _VERSION, "is": tree}, allow_nan=False), arrays)


def from_json(text: str, arrays: Mapping[str, Any] | None = None, kinds: Iterable[type] = ()) -> Any:
    """The inverse of `to_json`.

    A ValueError where the text is no such JSON, is of a newer version, or names a class, a field or an array that is
    not known here or has another checksum; where a field has a value that its class does not take.
    """
    known, given = _known(kinds), check_mapping("arrays", {} if arrays is None else arrays, "arrays by their checksum")
    if not isinstance(text, str):
        raise ValueError(f"text is {shown(text)}; expected the JSON of a method")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"text is {shown(text)}; expected the JSON of a method ({error})") from None
    if not isinstance(whole, dict) or set(whole) != {"fgmp", "is"}:
        raise ValueError(f"text is {shown(text)}; expected the JSON of a method, with the fields 'fgmp' and 'is'")
    if whole["fgmp"] != _VERSION:
        raise ValueError(f"text has version {shown(whole['fgmp'])}; expected {_VERSION}")

    def made(tree: Any, where: str) -> Any:
        if isinstance(tree, list):
            raise ValueError(f"{where} is {shown(tree)}; expected a number, text or an object")
        if not isinstance(tree, dict):
            return tree
        if set(tree) == {"tuple"} and isinstance(tree["tuple"], list):
            return tuple(made(item, f"{where}[{i}]") for i, item in enumerate(tree["tuple"]))
        if set(tree) == {"array"}:
            return _array(tree["array"], given, where)
        if set(tree) != {"kind", "fields"} or not isinstance(tree["fields"], dict):
            raise ValueError(f"{where} is {shown(tree)}; expected 'kind' and 'fields'")
        name = tree["kind"]
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"{where} is of kind {shown(name)}; expected one of {', '.join(sorted(known))}")
        return _object(known[name], tree["fields"], where, made)

    try:
        return made(whole["is"], "text")
    except (TypeError, RecursionError) as error:
        raise ValueError(f"text is {shown(text)}; expected the JSON of a method ({error})") from None


def _object(kind: type, given: Mapping[str, Any], where: str, made: Any) -> Any:
    takes = _fields(kind)
    for name in given:
        if name not in takes:
            raise ValueError(
                f"{where} has a field {name!r}, which {kind.__name__} has not here; expected {list(takes)}: whoever "
                "wrote it may have a newer fgmp"
            )
    for name in takes:
        if name not in given and takes[name]:
            raise ValueError(f"{where} has no field {name!r}; expected it in a {kind.__name__}")
    return kind(**{name: made(value, f"{where}.{name}") for name, value in given.items()})


def _array(name: Any, given: Mapping[str, Any], where: str) -> Array:
    if not isinstance(name, str) or name not in given:
        raise ValueError(f"{where} is array {shown(name)}, which did not come; expected it among arrays")
    array = given[name]
    if not isinstance(array, np.ndarray) or _checksum(array) != name:
        raise ValueError(f"{where} is array {name!r}, and what came has another checksum; expected the same numbers")
    return array


def _known(kinds: Iterable[type]) -> dict[str, type]:
    """The classes by name; those of the caller must be dataclasses and have names of their own."""
    known = dict(_KINDS)
    for kind in check_sequence("kinds", kinds, "dataclasses"):
        if not isinstance(kind, type) or not is_dataclass(kind) or known.get(kind.__name__, kind) is not kind:
            raise ValueError(f"kinds has {shown(kind)}; expected dataclasses with names that fgmp has not")
        known[kind.__name__] = kind
    return known


def _fields(kind: type) -> dict[str, bool]:
    """What a class is made from, and whether it must be given."""
    if kind in _KEPT:
        return dict.fromkeys(_KEPT[kind], True)
    found = (field for field in fields(kind) if field.init)
    return {field.name: field.default is MISSING and field.default_factory is MISSING for field in found}


def _checksum(array: Array) -> str:
    """Of type, shape, numbers and the order of the axes in memory, which decides the last bits of products."""
    by_column = array.ndim > 1 and bool(array.flags.f_contiguous)
    held = np.ascontiguousarray(array.T if by_column else array)
    head = f"{array.dtype.str} {array.shape} {'F' if by_column else 'C'}\n"
    return hashlib.sha256(head.encode() + held.tobytes()).hexdigest()
