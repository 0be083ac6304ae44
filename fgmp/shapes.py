"""What a server may know of a federation without its data: how many features, which loss, how many rows where.

A method checks its parameters and starts from a `Shape`; a `Federation` offers one, and so does a first question to
clients on other machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .checks import check_array, check_integer, check_sequence, precision_of, shown
from .losses import Loss, check_loss
from .models import Array

__all__ = ["Shape", "Shaped", "described", "in_words", "scaled"]


class Shaped(Protocol):
    """What a method may ask of whom it is to run for: a `Shape` has it, and so has a `Federation`."""

    @property
    def n_features(self) -> int:
        """n, of the signals."""

    @property
    def loss(self) -> Loss:
        """Of every client."""

    @property
    def rows(self) -> tuple[int, ...]:
        """|D_i|, client by client."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""

    @property
    def n_clients(self) -> int:
        """N."""

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Of a model x."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A federation without its data.

    Parameters
    ----------
    n_features : int
        n: at least 1.
    loss : Loss
        Of every client.
    rows : sequence of int, shape (n_clients,)
        |D_i|: at least 1 each.
    keys : sequence of int, optional
        Who the clients are; 0, 1, ... by default.
    weights : array_like, shape (n_clients,), default |D_i| / sum |D_i|
        The p_i, scaled to sum to one.
    dtype : dtype, default float64
        float32 or float64: the precision of the models.

    Raises
    ------
    ValueError
        Where they do not fit.

    Examples
    --------
    >>> import fgmp
    >>> from fgmp.shapes import Shape
    >>> shape = Shape(n_features=1000, loss=fgmp.SquaredLoss(), rows=[30, 10])
    >>> shape.weights.tolist(), fgmp.FedGradMP(sparsity=3).start(shape).shape
    ([0.75, 0.25], (1000,))
    """

    n_features: int
    loss: Loss
    rows: tuple[int, ...]
    keys: tuple[int, ...] = None  # type: ignore[assignment]
    weights: Array = None  # type: ignore[assignment]
    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __post_init__(self) -> None:
        check_loss("loss", self.loss)
        rows = check_sequence("rows", self.rows, "the rows of each client")
        counts = _integers("rows", rows, at_least=1)
        if not counts:
            raise ValueError("rows is empty; expected at least one client")
        named = range(len(counts)) if self.keys is None else check_sequence("keys", self.keys, "a key for each client")
        keys = _integers("keys", list(named), at_least=0)
        if len(keys) != len(counts) or len(set(keys)) < len(keys):
            raise ValueError(
                f"keys is {shown(list(keys))}; expected {len(counts)}, one for each entry of rows, and none twice"
            )
        settled = {
            "n_features": check_integer("n_features", self.n_features),
            "rows": counts,
            "keys": keys,
            "weights": scaled(counts if self.weights is None else self.weights, len(counts)),
            "dtype": precision_of("dtype", self.dtype),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return in_words(self)

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.rows)

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.loss.model_shape(self.n_features)

    def check_cohort(self, cohort_size: int | None) -> int:
        """The cohort size L, all clients where it is None; a ValueError where it does not fit."""
        if cohort_size is None:
            return self.n_clients
        return check_integer("cohort_size", cohort_size, at_most=self.n_clients, why="the number of clients")


def described(shape: Shape) -> dict[str, Any]:
    """What makes a shape this one, by name."""
    return {
        "n_clients": shape.n_clients,
        "n_features": shape.n_features,
        "loss": shape.loss,
        "keys": shape.keys,
        "weights": shape.weights,
    }


def in_words(shaped: Shaped) -> str:
    """A federation, or its shape, in a few words without data."""
    rows = f"{sum(shaped.rows)} rows of {shaped.n_features} features"
    return f"{type(shaped).__name__}({shaped.n_clients} clients, {rows}, {shaped.loss!r})"


def _integers(name: str, values: list[Any], at_least: int) -> tuple[int, ...]:
    """Each checked, and all at once where they are plain ones that fit: there may be many."""
    if set(map(type, values)) == {int} and min(values) >= at_least:
        return tuple(values)
    return tuple(check_integer(name, value, at_least=at_least) for value in values)


def scaled(weights: Array | Sequence[float], n_clients: int) -> Array:
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
