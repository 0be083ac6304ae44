"""What makes a run this run and no other: its method, federation, seed and options as short texts, by name.

Two runs with equal fingerprints have equal rounds. A text is exact: of arrays it is a checksum.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from ..federation import Federation
from ..methods.contract import Method
from ..shapes import Shape

__all__ = ["Fingerprint", "differences", "fingerprint", "fingerprint_of", "fingerprint_of_shape"]

Fingerprint = dict[str, str]

_DEEPEST = 6


def fingerprint(method: Method, seed: int, options: Mapping[str, Any]) -> Fingerprint:
    """A run as texts by name, but for the federation.

    Parameters
    ----------
    method : Method
        By its class and its parameters: those of a dataclass are its fields, those of another object what its
        constructor takes and it keeps under the same names, or else all public attributes. Functions count by their
        names, and by what they enclose.
    seed : int
    options : mapping
        Whatever else decides what a round does or what is recorded.
    """
    return _texts({"method": method, "seed": seed, **options})


def fingerprint_of(federation: Federation, options: Mapping[str, Any]) -> Fingerprint:
    """A federation as texts by name: all its numbers, but of a LinearOperator only the shape and the type.

    Parameters
    ----------
    federation : Federation
    options : mapping
        What decides which answers arrive.
    """
    data = hashlib.sha256()
    for client in federation.clients:
        streamed = isinstance(client.features, LinearOperator)
        for part in (client.features, client.targets):
            texts = [("", _text(part))] if streamed else _described("", part, _DEEPEST)
            data.update("".join(text for _, text in texts).encode())
    found = fingerprint_of_shape(federation.shape, {"federation.truth": federation.truth, **options})
    return found | {"federation.data": f"sha256 {data.hexdigest()[:16]}"}


def fingerprint_of_shape(shape: Shape, options: Mapping[str, Any]) -> Fingerprint:
    """What a server knows of a federation as texts by name."""
    whole = {
        "federation.clients": shape.n_clients,
        "federation.features": shape.n_features,
        "federation.loss": shape.loss,
        "federation.keys": np.array(shape.keys),
        "federation.weights": shape.weights,
        **options,
    }
    return _texts(whole)


def _texts(whole: Mapping[str, Any]) -> Fingerprint:
    return {name: text for thing, value in whole.items() for name, text in _described(thing, value, _DEEPEST)}


def differences(before: Fingerprint, now: Fingerprint) -> list[str]:
    """What differs between two runs, each as "name is <now>, not <before>"; the outermost where all inside differs."""
    found: dict[str, str] = {}
    for name in sorted({*before, *now}, key=lambda name: (name.count("."), name)):
        old, new = before.get(name, "absent"), now.get(name, "absent")
        if old != new and not any(name.startswith(f"{above}.") for above in found):
            found[name] = f"{name} is {new}, not {old}"
    return list(found.values())


def _described(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """The texts of a value and of what it is made of."""
    parts = _parts(value) if depth else None
    if parts is None:
        yield name, _text(value)
        return
    yield name, _kind(value)
    for part, inner in parts.items():
        yield from _described(f"{name}.{part}", inner, depth - 1)


def _parts(value: Any) -> dict[str, Any] | None:
    """What a value is made of, by name; None where it is one thing."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.ndarray, type)):
        return None
    if sparse.issparse(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return {str(place): item for place, item in enumerate(value)}
    if isinstance(value, (set, frozenset)):
        return {str(place): item for place, item in enumerate(sorted(value, key=repr))}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, functools.partial):
        return {"function": value.func, "arguments": value.args, "named": value.keywords}
    if inspect.isfunction(value):
        inside = value.__closure__ or ()
        return {name: cell.cell_contents for name, cell in zip(value.__code__.co_freevars, inside, strict=True)}
    if inspect.ismethod(value):
        return {"of": value.__self__}
    return _parameters(value)


def _parameters(value: Any) -> dict[str, Any] | None:
    """What a constructor took, where the object keeps it; or else its public attributes; None where there are none."""
    kept = getattr(value, "__dict__", None)
    if kept is None:
        return None
    try:
        takes = [name for name in inspect.signature(type(value)).parameters if name not in ("args", "kwargs")]
    except ValueError:
        takes = []
    if takes and all(name in kept for name in takes):
        return {name: kept[name] for name in takes}
    return {name: item for name, item in kept.items() if not name.startswith("_")}


def _kind(value: Any) -> str:
    named = value if inspect.isfunction(value) or inspect.ismethod(value) else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _text(value: Any) -> str:
    """One thing as a text."""
    if sparse.issparse(value):
        parts = ", ".join(_text(getattr(value, name)) for name in ("data", "indices", "indptr") if hasattr(value, name))
        return f"{value.format} {value.shape} of {parts}"
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"array of {value.tolist()!r}"
        by_column = value.ndim == 2 and value.flags.f_contiguous
        # Of a matrix the checksum is that of its columns, or of its rows where these are what is contiguous.
        held = np.ascontiguousarray(value.T if by_column else value).reshape(-1).view(np.uint8)
        digest = hashlib.sha256(held.data).hexdigest()[:16]
        return f"{value.dtype} {value.shape} {'columns ' * by_column}sha256 {digest}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, type) or inspect.isbuiltin(value) or isinstance(value, np.ufunc):
        return getattr(value, "__qualname__", None) or value.__name__
    shape = f" {value.shape} {value.dtype}" if hasattr(value, "shape") and hasattr(value, "dtype") else ""
    return f"{_kind(value)}{shape}"
