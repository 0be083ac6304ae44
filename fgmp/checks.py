"""Checks at the boundary: each names the argument, what came and what was expected.

`check_...` returns the value in its plain type or raises a ValueError; `settle_...` does so for a field of a frozen
dataclass. `check_seed` makes one integer of whatever a user gives as `rng`.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

__all__ = [
    "Seed",
    "check_array",
    "check_integer",
    "check_number",
    "check_option",
    "check_seed",
    "check_sparse",
    "precision_of",
    "settle_integer",
    "settle_number",
]

Seed = int | np.random.Generator | None


def check_integer(name: str, value: Any, *, at_least: int = 1, at_most: int | None = None, why: str = "") -> int:
    """Return `value` as an int, or raise a ValueError that names it.

    Parameters
    ----------
    name : str
        The argument as the user wrote it.
    value : object
        What came.
    at_least, at_most : int
        The bounds, both included; ``at_most=None`` is no upper bound.
    why : str
        What the upper bound is, for the message: ``"the number of clients"``.
    """
    expected = f"an integer of at least {at_least}"
    if at_most is not None:
        expected = f"an integer from {at_least} to {at_most}"
    if why:
        expected += f" ({why})"
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        raise ValueError(f"{name} is {value!r}; expected {expected}")
    return int(value)


def check_number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None, at_most: float | None = None
) -> float:
    """Return `value` as a finite float within the bounds, or raise a ValueError that names it."""
    limits = {"above": above, "at least": at_least, "at most": at_most}
    words = [f"{word} {limit:g}" for word, limit in limits.items() if limit is not None]
    if (
        not isinstance(value, (int, float, np.integer, np.floating))
        or isinstance(value, bool)
        or not math.isfinite(value)
        or (above is not None and value <= above)
        or (at_least is not None and value < at_least)
        or (at_most is not None and value > at_most)
    ):
        raise ValueError(f"{name} is {value!r}; expected a finite number {' and '.join(words)}".rstrip())
    return float(value)


def check_option(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`, or raise a ValueError that lists them."""
    if value not in options:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(repr, options))}")
    return str(value)


def check_array(name: str, value: ArrayLike, *, ndim: int | None = None) -> NDArray[Any]:
    """Return `value` as a finite float32 or float64 array (never a copy where none is needed)."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has {int(np.sum(np.ma.getmask(value)))} masked values; expected numbers everywhere")
    array = np.asarray(value)
    array = array.astype(precision_of(name, array.dtype), copy=False)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}; expected {ndim} dimension{'s' * (ndim > 1)}")
    if not np.isfinite(array).all():
        _refuse_infinite(name, np.argwhere(~np.isfinite(array)))
    return array


def check_sparse(name: str, value: Any) -> Any:
    """Return a sparse matrix of any format as a finite CSR array of float32 or float64, as `check_array`."""
    precision = precision_of(name, value.dtype)
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {value.shape}; expected 2 dimensions")
    matrix = sparse.csr_array(value).astype(precision, copy=False)  # its own container, even of the same arrays
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is no valid sparse matrix: {error}") from None
    if not np.isfinite(matrix.data).all():
        entries = matrix.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        places = np.column_stack([entries.row[bad], entries.col[bad]])
        _refuse_infinite(name, places[np.lexsort(places.T[::-1])])
    return matrix


def _refuse_infinite(name: str, places: NDArray[Any]) -> None:
    raise ValueError(
        f"{name} holds {len(places)} values that are not finite, the first at {tuple(map(int, places[0]))}; "
        "expected finite numbers"
    )


def precision_of(name: str, dtype: Any) -> np.dtype[Any]:
    """float32 for float32, float64 for other real types; a ValueError for others."""
    found = np.dtype(np.float64 if dtype is None else dtype)
    if found.kind not in "fiub":
        raise ValueError(f"{name} has dtype {found}; expected real numbers")
    return np.dtype(np.float32 if found == np.float32 else np.float64)


def check_seed(name: str, value: Seed) -> int:
    """Return a seed as a non-negative int: an int is itself, a Generator is drawn from once, None is fresh."""
    if isinstance(value, np.random.Generator):
        return int(value.integers(2**63))
    if value is None:
        return int(np.random.default_rng().integers(2**63))
    return check_integer(name, value, at_least=0)


def settle_integer(parameters: Any, name: str, *, optional: bool = False, **bounds: Any) -> None:
    """Check an integer of a frozen dataclass in its ``__post_init__`` and keep it as an int; None stays if `optional`.

    A NumPy scalar that stayed one would overflow, or raise the precision of the arrays it meets.
    """
    value = getattr(parameters, name)
    if value is not None or not optional:
        object.__setattr__(parameters, name, check_integer(name, value, **bounds))


def settle_number(parameters: Any, name: str, *, optional: bool = False, **bounds: Any) -> None:
    """As `settle_integer`, for a float."""
    value = getattr(parameters, name)
    if value is not None or not optional:
        object.__setattr__(parameters, name, check_number(name, value, **bounds))
