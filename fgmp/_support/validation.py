"""Checks at the boundary: each names the argument, what came and what was expected.

`check_...` returns the value in its plain type or raises a ValueError. `validate_..._field` raises
a ValueError for a field of a frozen dataclass, and leaves the field as it is. `check_seed` turns
what a user gives as `rng` into one integer, and `short_repr` any value into a short line.
"""

import datetime
import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Seed = int | np.random.Generator | None

_LONGEST = 200
_SEVERAL = (list, tuple, set, dict)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def short_repr(value: Any) -> str:
    """A value as one line of at most some 200 letters; a size of arrays, tables, lists of lists, which may be data."""
    if shape := _shape_of(value):
        return f"a {type(value).__name__} of shape {shape}, {getattr(value, 'dtype', 'a table')}"
    parts = (
        list(value.values() if isinstance(value, dict) else value)
        if isinstance(value, _SEVERAL)
        else []
    )
    if any(isinstance(part, _SEVERAL) or _shape_of(part) for part in parts):
        return f"a {type(value).__name__} of {len(parts)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _shape_of(value: Any) -> tuple[int, ...]:
    """Of an array or a table; () of anything else."""
    shape = getattr(value, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def check_integer(
    name: str, value: Any, *, at_least: int = 1, at_most: int | None = None, why: str = ""
) -> int:
    """Return `value` as an int within the bounds; `why` says what they are: ``"the number of clients"``."""
    bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    whole = isinstance(value, Integral) and not isinstance(value, (bool, np.timedelta64))
    if not whole or value < at_least or (at_most is not None and value > at_most):
        raise ValueError(
            f"{name} is {short_repr(value)}; expected an integer {bounds}{f' ({why})' if why else ''}"
        )
    return int(value)


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return `value` as a finite float within the bounds, or raise a ValueError that names it."""
    limits = {"above": above, "at least": at_least, "at most": at_most}
    words = " and ".join(f"{word} {limit:g}" for word, limit in limits.items() if limit is not None)
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.timedelta64)
    )
    try:
        number = float(value) if real else math.nan
    except OverflowError:  # an int that no float holds
        number = math.inf
    low, high = (
        -math.inf if at_least is None else at_least,
        math.inf if at_most is None else at_most,
    )
    if (
        not math.isfinite(number)
        or not low <= number <= high
        or (above is not None and number <= above)
    ):
        raise ValueError(
            f"{name} is {short_repr(value)}; expected a finite number {words}".rstrip()
        )
    return number


def check_option(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`, or raise a ValueError that lists them."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(
            f"{name} is {short_repr(value)}; expected one of {', '.join(map(repr, options))}"
        )
    return str(value)


def check_bool(name: str, value: Any, *others: str) -> bool | str:
    """Return `value` as a bool, or one of the other words; what is only taken for true is often a mistake."""
    if isinstance(value, str) and value in others:
        return value
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(
            f"{name} is {short_repr(value)}; expected True or False{''.join(f' or {o!r}' for o in others)}"
        )
    return bool(value)


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> Any:
    """Return `value` where it is an instance of `kind`, or raise a ValueError that says what was expected."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return value


def check_protocol(name: str, value: Any, methods: tuple[str, ...], expected: str) -> Any:
    """Return an object that has all these methods, or raise a ValueError; a class is no object of it."""
    if isinstance(value, type) or not all(
        callable(getattr(value, method, None)) for method in methods
    ):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return value


def check_sequence(name: str, value: Any, expected: str) -> list[Any]:
    """Return what can be iterated over as a list, or raise a ValueError: for text, too, and for mappings."""
    several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
    if not several or sparse.issparse(value) or (isinstance(value, np.ndarray) and value.ndim == 0):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return list(value)


def check_array(name: str, value: ArrayLike, *, ndim: int | None = None) -> NDArray[Any]:
    """Return `value` as a finite float32 or float64 array (never a copy where none is needed)."""
    array = as_array(name, value)
    if array.dtype.kind == "O":
        refuse_missing(name, array, "a number")
    precision = precision_of(name, array.dtype)
    if array.dtype != precision:
        with np.errstate(over="ignore"):  # wider floats; what becomes infinite is refused below
            array = array.astype(precision)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(
            f"{name} has shape {array.shape}; expected {ndim} dimension{'s' * (ndim > 1)}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()  # one pass where all is well
    if not np.isfinite(total) and not (finite := np.isfinite(array)).all():
        _refuse_infinite(name, np.argwhere(~finite))
    return array


def check_shape(name: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """`check_array` for one shape."""
    array = check_array(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
    return array


def as_array(name: str, value: Any) -> NDArray[Any]:
    """What came as an array of whatever type."""
    if sparse.issparse(value):
        raise ValueError(f"{name} is a sparse matrix; expected a dense array")
    parts = value if isinstance(value, (list, tuple)) else (value,)
    masked = sum(
        int(np.sum(np.ma.getmask(part))) for part in parts if isinstance(part, np.ma.MaskedArray)
    )
    if masked:
        raise ValueError(f"{name} has {masked} masked values; expected numbers everywhere")
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US" and isinstance(value, (list, tuple)):
            # NumPy makes text of whatever stands beside text: of a missing value the text "nan".
            entries = np.asarray(value, dtype=object)
            is_text = all(isinstance(entry, (str, bytes)) for entry in entries.flat)
            array = array if is_text else entries
        return array
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            f"{name} is a {type(value).__name__}; expected an array of numbers, every row of the same length"
        ) from None


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, nan, NaT, or pandas' NA, which cannot be compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array
        return False


def as_numbers(name: str, value: Any) -> NDArray[Any]:
    """What came as an array of real numbers; objects and text that are numbers become float64.

    Among objects what is missing becomes nan.
    """
    array = as_array(name, value)
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype}; expected real numbers"
        )
    is_object = array.dtype.kind == "O"
    has_times = is_object and any(isinstance(entry, _TIMES) for entry in array.flat)
    if array.dtype.kind in "mM" or has_times:
        raise ValueError(
            f"{name} holds dates or durations, dtype {array.dtype}; expected numbers, such as the days since a date"
        )
    if is_object:
        present = [np.nan if is_missing(entry) else entry for entry in array.flat]
        array = np.array([*present, None], dtype=object)[:-1].reshape(array.shape)
    try:
        return array.astype(np.float64)
    except ValueError:  # whose words are the text
        raise ValueError(f"{name} holds text that is no number; expected numbers") from None
    except TypeError as error:  # whose words are the type
        raise TypeError(f"{name} holds no numbers: {error}") from None


def as_labels(name: str, value: Any, expected: str) -> NDArray[Any]:
    """A vector of labels: numbers or text, one in every row, all of one kind.

    Objects that are numbers become an array of numbers.
    """
    array = as_array(name, value)
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype}; expected {expected}"
        )
    if array.dtype.kind in "mM":
        raise ValueError(
            f"{name} holds dates or durations, dtype {array.dtype}; expected numbers or text"
        )
    if array.dtype.kind != "O":
        return array
    refuse_missing(name, array, expected)
    kinds = sorted({_kind_of(entry) for entry in array.flat})
    if len(kinds) > 1:
        raise ValueError(
            f"{name} holds several kinds, {' and '.join(kinds)}; expected {expected}, all of a kind"
        )
    if kinds and kinds[0] not in ("numbers", "text"):
        raise ValueError(f"{name} holds values of the type {kinds[0]}; expected numbers or text")
    return np.array(array.tolist()) if kinds == ["numbers"] else array


def refuse_missing(name: str, array: NDArray[Any], expected: str) -> None:
    """Raise a ValueError where entries of an array of objects are missing."""
    missing = [index for index, entry in enumerate(array.flat) if is_missing(entry)]
    if missing:
        row = np.unravel_index(missing[0], array.shape)[0] if array.ndim else 0
        raise ValueError(
            f"{name} has {len(missing)} missing values, the first in row {row}; expected {expected} in every row"
        )


def _kind_of(value: Any) -> str:
    """Numbers, text, or the name of the type."""
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return "numbers"
    return "text" if isinstance(value, (str, bytes)) else type(value).__name__


def distinct(
    name: str, values: NDArray[Any], expected: str
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct values of a vector, sorted, and the place of each entry; none may be missing."""
    if values.dtype.kind == "O":
        refuse_missing(name, values, expected)
    try:
        found, codes = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = " and ".join(sorted({_kind_of(entry) for entry in values.flat}))
        raise ValueError(
            f"{name} holds several kinds, {kinds}; expected {expected}, all of a kind"
        ) from None
    if not np.array_equal(found, found):  # what is missing equals nothing
        missing = int(np.sum(values != values))
        raise ValueError(f"{name} has {missing} missing values; expected {expected} in every row")
    return found, codes


def check_sparse(name: str, value: Any) -> Any:
    """Return a sparse matrix of any format as a finite CSR array of float32 or float64, as `check_array`."""
    precision = precision_of(name, value.dtype)
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {value.shape}; expected 2 dimensions")
    with np.errstate(over="ignore"):  # as in `check_array`
        matrix = sparse.csr_array(value).astype(
            precision, copy=False
        )  # its own container, even of the same arrays
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{name} is no valid sparse matrix: {error}; expected indices within its shape"
        ) from None
    if not np.isfinite(matrix.data).all():
        entries = matrix.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        indices = np.column_stack([entries.row[bad], entries.col[bad]])
        _refuse_infinite(name, indices[np.lexsort(indices.T[::-1])])
    return matrix


def _refuse_infinite(name: str, indices: NDArray[Any]) -> None:
    raise ValueError(
        f"{name} holds {len(indices)} values that are not finite, the first at {tuple(map(int, indices[0]))}; "
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
    if value is None or isinstance(value, np.random.Generator):
        return int(np.random.default_rng(value).integers(2**63))
    return check_integer(name, value, at_least=0)


def validate_integer_field(
    parameters: Any, name: str, *, optional: bool = False, **bounds: Any
) -> None:
    """Raise a ValueError if a field of a dataclass is no integer within the bounds.

    The field is left as it is. Therefore it must be an integer that later arithmetic can use: an
    int, or a signed NumPy integer of at least 32 bits, as `numpy.arange` makes. Three times
    ``np.int8(100)`` would overflow.

    Parameters
    ----------
    parameters : object
    name : str
        The name of the field.
    optional : bool, default False
        Whether the field may be None.
    **bounds
        As in `check_integer`.
    """
    value = getattr(parameters, name)
    if value is None and optional:
        return
    check_integer(name, value, **bounds)
    if not isinstance(value, int) and (value.dtype.kind != "i" or value.dtype.itemsize < 4):
        raise ValueError(
            f"{name} is {short_repr(value)}, of type {value.dtype}, which overflows; expected an int"
        )


def validate_number_field(
    parameters: Any, name: str, *, optional: bool = False, **bounds: Any
) -> None:
    """Raise a ValueError if a field of a dataclass is no finite number within the bounds.

    The field is left as it is. Half precision and small integers are refused, because arithmetic
    with them overflows. For the parameters see `validate_integer_field`; `check_number` has the
    bounds.
    """
    value = getattr(parameters, name)
    if value is None and optional:
        return
    check_number(name, value, **bounds)
    if not isinstance(value, (int, float)) and (
        value.dtype.kind == "u" or value.dtype.itemsize < 4
    ):
        raise ValueError(
            f"{name} is {short_repr(value)}, of type {value.dtype}, which overflows; expected a float"
        )
