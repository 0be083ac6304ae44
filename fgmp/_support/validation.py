"""Checks of arguments: each error names the argument, what came and what was expected.

`check_...` returns the value in its plain type or raises a ValueError. `validate_..._field` raises
a ValueError for a field of a frozen dataclass, and leaves the field as it is. `as_...` converts.
`check_seed` makes one integer of what a user gives as `rng`.
"""

import datetime
import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

Seed = int | np.random.Generator | None

# Letters of a value in a message.
_MAX_LETTERS = 200
_CONTAINERS = (list, tuple, set, dict)
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def short_repr(value: object) -> str:
    """Return a value as one line of about 200 letters at most.

    Of arrays, tables and lists of lists, which may be data of people, only type and size are shown.
    """
    shape = _table_shape(value)
    if shape:
        dtype = getattr(value, "dtype", "a table")
        return f"a {type(value).__name__} of shape {shape}, {dtype}"
    parts = _parts(value)
    if any(isinstance(part, _CONTAINERS) or _table_shape(part) for part in parts):
        return f"a {type(value).__name__} of {len(parts)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_LETTERS else f"{text[:_MAX_LETTERS]}..."


def _table_shape(value: object) -> tuple[int, ...]:
    """Return the shape of an array or a table, and () for anything else."""
    shape = getattr(value, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def _parts(value: object) -> list[Any]:
    """Return the entries of a container, and none for anything else."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, _CONTAINERS) else []


def check_integer(
    name: str, value: Any, *, at_least: int = 1, at_most: int | None = None, why: str = ""
) -> int:
    """Return `value` as an int within bounds, or raise a ValueError that names it.

    Parameters
    ----------
    name : str
        The name of the argument.
    value : object
    at_least : int, default 1
    at_most : int, optional
    why : str, optional
        What the bounds are, such as ``"the number of clients"``.
    """
    is_integer = isinstance(value, Integral) and not isinstance(value, (bool, np.timedelta64))
    if is_integer and value >= at_least and (at_most is None or value <= at_most):
        return int(value)
    bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    reason = f" ({why})" if why else ""
    raise ValueError(f"{name} is {short_repr(value)}; expected an integer {bounds}{reason}")


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return `value` as a finite float within bounds, or raise a ValueError that names it.

    Parameters
    ----------
    name : str
        The name of the argument.
    value : object
    above, at_least, at_most : float, optional
        The bounds; `above` itself is refused.
    """
    number = _as_float(value)
    is_within = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (at_most is None or number <= at_most)
    )
    if is_within:
        return number
    limits = {"above": above, "at least": at_least, "at most": at_most}
    bounds = " and ".join(
        f"{word} {limit:g}" for word, limit in limits.items() if limit is not None
    )
    raise ValueError(f"{name} is {short_repr(value)}; expected a finite number {bounds}".rstrip())


def _as_float(value: Any) -> float:
    """Return a number as a float: nan if it is no number, infinity if no float holds it."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if not is_number or isinstance(value, (bool, np.timedelta64)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_option(name: str, value: object, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`, or raise a ValueError that lists them."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(
            f"{name} is {short_repr(value)}; expected one of {', '.join(map(repr, options))}"
        )
    return str(value)


def check_bool(name: str, value: object, *words: str) -> bool | str:
    """Return `value` as a bool, or as one of the words, or raise a ValueError.

    Other values that Python takes for true are refused, because they are often a mistake.
    """
    if isinstance(value, str) and value in words:
        return value
    if not isinstance(value, (bool, np.bool_)):
        alternatives = "".join(f" or {word!r}" for word in words)
        raise ValueError(f"{name} is {short_repr(value)}; expected True or False{alternatives}")
    return bool(value)


def check_kind(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> Any:
    """Return `value` if it is an instance of `kind`, or raise a ValueError."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return value


def check_protocol(name: str, value: object, methods: tuple[str, ...], expected: str) -> Any:
    """Return an object that has all these methods, or raise a ValueError; a class is refused."""
    is_class = isinstance(value, type)
    if is_class or not all(callable(getattr(value, method, None)) for method in methods):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return value


def check_sequence(name: str, value: Any, expected: str, *, ordered: bool = False) -> list[Any]:
    """Return an iterable as a list, or raise a ValueError; text and mappings are refused.

    A set is refused where the order plays a part, because it differs from process to process.
    """
    is_iterable = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
    is_scalar_array = isinstance(value, np.ndarray) and value.ndim == 0
    lacks_order = ordered and isinstance(value, (set, frozenset))
    if not is_iterable or is_scalar_array or lacks_order or sparse.issparse(value):
        raise ValueError(f"{name} is {short_repr(value)}; expected {expected}")
    return list(value)


def check_array(name: str, value: ArrayLike, *, ndim: int | None = None) -> NDArray[Any]:
    """Return `value` as a finite float32 or float64 array, not copied if it is one.

    Raises
    ------
    ValueError
        If the value is no array of finite real numbers, or has not `ndim` dimensions.
    """
    array = as_array(name, value)
    if array.dtype.kind == "O":
        refuse_missing(name, array, "a number")
    precision = precision_of(name, array.dtype)
    if array.dtype != precision:
        # Numbers of wider floats may become infinite; these are refused below.
        with np.errstate(over="ignore"):
            array = array.astype(precision)
    if ndim is not None and array.ndim != ndim:
        plural = "s" if ndim > 1 else ""
        raise ValueError(f"{name} has shape {array.shape}; expected {ndim} dimension{plural}")
    # The sum is one pass over the data, and enough if all numbers are finite.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    if not np.isfinite(total):
        is_finite = np.isfinite(array)
        if not is_finite.all():
            _refuse_infinite(name, np.argwhere(~is_finite))
    return array


def check_shape(name: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return `value` as `check_array` does, or raise a ValueError if it has another shape."""
    array = check_array(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
    return array


def as_array(name: str, value: object) -> NDArray[Any]:
    """Return `value` as an array of whatever type, or raise a ValueError if it is none."""
    if sparse.issparse(value):
        raise ValueError(f"{name} is a sparse matrix; expected a dense array")
    n_masked = _count_masked(value)
    if n_masked:
        raise ValueError(f"{name} has {n_masked} masked values; expected numbers everywhere")
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "US" or not isinstance(value, (list, tuple)):
            return array
        # NumPy makes text of whatever stands beside text, and "nan" of a missing value.
        entries = np.asarray(value, dtype=object)
        is_text = all(isinstance(entry, (str, bytes)) for entry in entries.flat)
        return array if is_text else entries
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            f"{name} is a {type(value).__name__}; expected an array of numbers, every row of the "
            "same length"
        ) from None


def _count_masked(value: object) -> int:
    """Return the number of masked entries of an array, or of a list of arrays."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    masked_arrays = [part for part in parts if isinstance(part, np.ma.MaskedArray)]
    return sum(int(np.sum(np.ma.getmask(array))) for array in masked_arrays)


def is_missing(value: object) -> bool:
    """Return whether a value is None, nan, NaT, or pandas' NA, which cannot be compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
    except ValueError:  # the value is an array
        return False


def as_numbers(name: str, value: object, expected: str = "numbers") -> NDArray[Any]:
    """Return `value` as an array of real numbers.

    Objects and text that are numbers become float64, and missing objects nan.

    Raises
    ------
    ValueError, TypeError
        If an entry is no number; a TypeError if it is an object of another type.
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
            f"{name} holds dates or durations, dtype {array.dtype}; expected numbers, such as the "
            "days since a date"
        )
    if is_object:
        present = [np.nan if is_missing(entry) else entry for entry in array.flat]
        # The None keeps NumPy from looking into entries that are sequences.
        array = np.array([*present, None], dtype=object)[:-1].reshape(array.shape)
    try:
        return array.astype(np.float64)
    except ValueError:
        # NumPy's message would show the text.
        raise ValueError(f"{name} holds text that is no number; expected {expected}") from None
    except TypeError as error:
        # NumPy's message shows the type only.
        raise TypeError(f"{name} holds no numbers: {error}") from None


def as_labels(name: str, value: object, expected: str) -> NDArray[Any]:
    """Return `value` as a vector of labels: numbers or text, one in every row, all of one kind.

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
    kinds = sorted({_label_kind(entry) for entry in array.flat})
    if len(kinds) > 1:
        raise ValueError(
            f"{name} holds several kinds, {' and '.join(kinds)}; expected {expected}, all of a kind"
        )
    if kinds and kinds[0] not in ("numbers", "text"):
        raise ValueError(f"{name} holds values of the type {kinds[0]}; expected numbers or text")
    return np.array(array.tolist()) if kinds == ["numbers"] else array


def refuse_missing(name: str, array: NDArray[Any], expected: str) -> None:
    """Raise a ValueError if entries of an array of objects are missing."""
    missing = [index for index, entry in enumerate(array.flat) if is_missing(entry)]
    if missing:
        row = np.unravel_index(missing[0], array.shape)[0] if array.ndim else 0
        raise ValueError(
            f"{name} has {len(missing)} missing values, the first in row {row}; expected "
            f"{expected} in every row"
        )


def _label_kind(value: object) -> str:
    """Return "numbers", "text", or the name of the type."""
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return "numbers"
    return "text" if isinstance(value, (str, bytes)) else type(value).__name__


def distinct(
    name: str, values: NDArray[Any], expected: str
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct values of a vector, and for each entry the index of its value.

    Returns
    -------
    distinct_values : ndarray, sorted
    codes : ndarray of int, of the shape of `values`

    Raises
    ------
    ValueError
        If values are missing, or of several kinds.
    """
    if values.dtype.kind == "O":
        refuse_missing(name, values, expected)
    try:
        distinct_values, codes = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = " and ".join(sorted({_label_kind(entry) for entry in values.flat}))
        raise ValueError(
            f"{name} holds several kinds, {kinds}; expected {expected}, all of a kind"
        ) from None
    # A missing value differs from itself.
    if not np.array_equal(distinct_values, distinct_values):
        n_missing = int(np.sum(values != values))
        raise ValueError(f"{name} has {n_missing} missing values; expected {expected} in every row")
    return distinct_values, codes


def check_sparse(name: str, value: Any) -> Any:
    """Return a sparse matrix of any format as a finite CSR array of float32 or float64.

    The array is a new object, but it may share its numbers and indices with `value`.
    """
    precision = precision_of(name, value.dtype)
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {value.shape}; expected 2 dimensions")
    # Numbers of wider floats may become infinite; these are refused below.
    with np.errstate(over="ignore"):
        matrix = sparse.csr_array(value).astype(precision, copy=False)
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{name} is no valid sparse matrix: {error}; expected indices within its shape"
        ) from None
    is_finite = np.isfinite(matrix.data)
    if not is_finite.all():
        coordinates = matrix.tocoo()
        infinite = np.flatnonzero(~np.isfinite(coordinates.data))
        indices = np.column_stack([coordinates.row[infinite], coordinates.col[infinite]])
        _refuse_infinite(name, indices[np.lexsort(indices.T[::-1])])
    return matrix


def _refuse_infinite(name: str, indices: NDArray[Any]) -> None:
    """Raise a ValueError that names the first of the entries that are not finite."""
    first = tuple(map(int, indices[0]))
    raise ValueError(
        f"{name} holds {len(indices)} values that are not finite, the first at {first}; expected "
        "finite numbers"
    )


def precision_of(name: str, dtype: DTypeLike | None) -> np.dtype[Any]:
    """Return float32 for float32 and float64 for other real types; None stands for float64.

    Raises
    ------
    ValueError
        If the type is not real.
    """
    given_type = np.dtype(np.float64 if dtype is None else dtype)
    if given_type.kind not in "fiub":
        raise ValueError(f"{name} has dtype {given_type}; expected real numbers")
    return np.dtype(np.float32 if given_type == np.float32 else np.float64)


def check_atoms(atoms: NDArray[Any], gram: NDArray[Any], norms: NDArray[Any]) -> None:
    """Raise a ValueError for atoms without a norm, or for two that are one up to a factor.

    Their cosine is 1 to the precision of the atoms.
    """
    is_zero = norms <= np.finfo(norms.dtype).tiny
    if is_zero.any():
        index = int(is_zero.argmax())
        size = np.abs(atoms[:, index].astype(np.float64)).max()
        raise ValueError(
            f"atoms[:, {index}] is zero, or {size:.3g} at most, and its squares are; "
            "expected a positive norm"
        )

    largest_cosine = 1 - (1e-10 if atoms.dtype == np.float64 else 1e-6)
    is_equal = np.abs(gram) > largest_cosine * np.outer(norms, norms)
    pairs = np.argwhere(np.triu(is_equal, 1))
    if len(pairs):
        i, j = pairs[0]
        raise ValueError(
            f"atoms[:, {i}] and atoms[:, {j}] are the same up to a factor; expected none twice"
        )


def check_seed(name: str, value: Seed) -> int:
    """Return a seed as a non-negative int.

    An int is returned as it is, a Generator is drawn from once, and None gives a fresh seed.
    """
    if value is None or isinstance(value, np.random.Generator):
        return int(np.random.default_rng(value).integers(2**63))
    return check_integer(name, value, at_least=0)


def validate_integer_field(
    parameters: object, name: str, *, optional: bool = False, **bounds: Any
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
    _refuse_overflowing(name, value, "i", "an int")


def validate_number_field(
    parameters: object, name: str, *, optional: bool = False, **bounds: Any
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
    _refuse_overflowing(name, value, "if", "a float")


def _refuse_overflowing(name: str, value: Any, kinds: str, expected: str) -> None:
    """Raise a ValueError for a NumPy number of another kind, or of less than 32 bits."""
    if isinstance(value, (int, float)):
        return
    if value.dtype.kind not in kinds or value.dtype.itemsize < 4:
        raise ValueError(
            f"{name} is {short_repr(value)}, of type {value.dtype}, which overflows; "
            f"expected {expected}"
        )


class AtomIndices:
    """Descriptor of a field that takes an atom, or several, and holds an increasing tuple.

    A dataclass assigns the fields of a new object, frozen or not, so `__set__` is called once.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> tuple[int, ...]:
        # A dataclass asks the class for the default of the field.
        return () if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: Any, value: Any) -> None:
        if isinstance(value, Integral):
            value = [int(value)]
        expected = "an atom or several, each an integer of at least 0"
        atoms = check_sequence(self.name, value, expected)
        distinct_atoms = {check_integer(self.name, atom, at_least=0) for atom in atoms}
        instance.__dict__[self.name] = tuple(sorted(distinct_atoms))
