"""What a server may know of clients without their data: how many features, which loss, how many rows where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checks import check_array, check_integer, check_kind, check_sequence, precision_of, shown
from .losses import Loss, check_loss
from .models import Array


@dataclass(frozen=True, eq=False, repr=False)
class Shape:
    """A federation without its data, |D_i| and keys and p_i of clients: a method checks its parameters against it."""

    n_features: int
    loss: Loss
    rows: Sequence[int]
    keys: Sequence[int] = None  # type: ignore[assignment]
    weights: Array = None  # type: ignore[assignment]
    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __post_init__(self) -> None:
        check_loss("loss", self.loss)
        rows = _integers("rows", self.rows, at_least=1)
        if not rows:
            raise ValueError("rows is empty; expected at least one client")
        keys = tuple(range(len(rows))) if self.keys is None else _integers("keys", self.keys, at_least=0)
        if len(keys) != len(rows) or len(set(keys)) < len(keys):
            raise ValueError(f"keys is {shown(list(keys))}; expected {len(rows)}, one for each client, and none twice")
        settled = {
            "n_features": check_integer("n_features", self.n_features),
            "rows": rows,
            "keys": keys,
            "weights": scaled(rows if self.weights is None else self.weights, len(rows)),
            "dtype": precision_of("dtype", self.dtype),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Shape({len(self.rows)} clients, {sum(self.rows)} rows of {self.n_features} features, {self.loss!r})"

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model."""
        return self.loss.model_shape(self.n_features)


def _integers(name: str, values: Any, at_least: int) -> tuple[int, ...]:
    """Integers, checked one by one unless all of them are plain ones that fit: there may be many."""
    found = check_sequence(name, values, "integers, one for each client")
    if set(map(type, found)) == {int} and min(found) >= at_least:
        return tuple(found)
    return tuple(check_integer(name, value, at_least=at_least) for value in found)


def scaled(weights: Any, n_clients: int) -> Array:
    """Weights p_i that sum to one: none negative, and one positive at least, or a ValueError says what is wrong."""
    found = check_array("weights", weights, ndim=1).astype(np.float64)
    if len(found) != n_clients:
        raise ValueError(f"weights has {len(found)} entries; expected one for each of {n_clients} clients")
    if found.min() < 0:
        raise ValueError(f"weights[{found.argmin()}] is {found.min():g}; expected no negative weight")
    with np.errstate(over="ignore"):
        if not 0 < found.sum() < np.inf:
            raise ValueError(f"weights sum to {found.sum():g}; expected at least one positive, and a finite sum")
    total = math.fsum(found)
    scale: Array = found if abs(total - 1) <= 4 * np.finfo(float).eps else found / total
    return scale


def check_shape(name: str, shape: Any) -> Shape:
    """Return a shape, or raise a ValueError where it is something else."""
    found: Shape = check_kind(name, shape, Shape, "a Shape")
    return found
