"""Tables of pandas, Polars and others, as narwhals reads them; matrices and weights of clients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from .optional import needs
from .sparse_features import SparseFeatures, stacked
from .validation import as_array, as_numbers, check_array
from .warnings import advise_once

if TYPE_CHECKING:
    import narwhals as nw


# What helps where a column of an estimator holds no numbers.
WHERE_KINDS_BELONG = "Name it in categories=[...], or drop it, or make numbers of it"


def concatenate_rows(matrices: Sequence[Any]) -> Any:
    """Stack the rows of all clients, in one precision.

    Parameters
    ----------
    matrices : sequence of ndarray, SparseFeatures or LinearOperator
        One for each client. All have the same number of columns.

    Returns
    -------
    ndarray, SparseFeatures, or tuple
        A tuple of matrices if a client's are streamed, or if sparse ones have different centres.

    Raises
    ------
    ValueError
        If a streamed matrix has another precision than the rest.
    """
    precision = np.result_type(*{A.dtype for A in matrices})
    if any(isinstance(A, LinearOperator) for A in matrices):
        for i, A in enumerate(matrices):
            if A.dtype != precision:
                raise ValueError(
                    f"As[{i}] is streamed in {A.dtype}; expected {precision}, as other clients have"
                )
        return tuple(matrices)
    if any(isinstance(A, SparseFeatures) for A in matrices):
        return stacked([A.astype(precision, copy=False) for A in matrices])
    if len(matrices) == 1:
        return np.ascontiguousarray(matrices[0])
    # Allocated here, so that the table is stored by rows, whatever the order of the parts is.
    n_rows = sum(map(len, matrices))
    table = np.empty((n_rows, matrices[0].shape[1]), precision)
    return np.concatenate(matrices, out=table)


def normalized_weights(weights: ArrayLike, n_clients: int) -> NDArray[np.float64]:
    """Return weights p_i that sum to one.

    Weights that sum to one within rounding are returned as they are.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, if none is positive, or if their number is not
        `n_clients`.
    """
    array = check_array("weights", weights, ndim=1).astype(np.float64)
    if len(array) != n_clients:
        raise ValueError(
            f"weights has {len(array)} entries; expected one for each of {n_clients} clients"
        )
    if array.min() < 0:
        raise ValueError(
            f"weights[{array.argmin()}] is {array.min():g}; expected no negative weight"
        )
    with np.errstate(over="ignore"):
        rough_sum = array.sum()
    if not 0 < rough_sum < np.inf:
        raise ValueError(
            f"weights sum to {rough_sum:g}; expected at least one positive, and a finite sum"
        )
    total = math.fsum(array)
    if abs(total - 1) <= 4 * np.finfo(float).eps:
        return array
    return array / total


def read_table(name: str, value: Any) -> nw.DataFrame[Any] | None:
    """Return a table as a narwhals DataFrame, or None if the value is no table.

    Raises
    ------
    ValueError
        If the table is lazy, or has two columns of one name.
    """
    with needs("a table", "narwhals"):
        import narwhals as nw

    try:
        frame = nw.from_native(value, pass_through=True)
        column_names = frame.columns if isinstance(frame, nw.DataFrame) else []
    except nw.exceptions.DuplicateError:
        _refuse_duplicates(name, list(value.columns))
        raise
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"{name} is a {type(value).__name__}; expected its rows, as .collect() gives them"
        )
    _refuse_duplicates(name, column_names)
    return frame if isinstance(frame, nw.DataFrame) else None


def _refuse_duplicates(name: str, column_names: Sequence[Hashable]) -> None:
    """Raise a ValueError if two columns of a table have one name."""
    duplicates = [column for column, count in Counter(column_names).items() if count > 1]
    if duplicates:
        raise ValueError(
            f"{name} has more than one column {duplicates[0]!r}; expected every name once"
        )


def check_features(X: Any) -> Any:
    """Return the X of an estimator: a table or sparse matrix as it is, or else an array of numbers.

    Raises
    ------
    ValueError
        If X holds anything but numbers; the message names the column of a table, and shows no data.
    """
    if X is None:
        raise ValueError("X is None; expected a matrix or a table")
    if sparse.issparse(X):
        if X.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: X has dtype {X.dtype}; expected real numbers"
            )
        return X
    frame = read_table("X", X)
    if frame is not None:
        for column in frame.iter_columns():
            is_number = column.dtype.is_numeric() and not _is_complex(column)
            # A boolean column with a missing value becomes no float.
            if not (is_number or _is_boolean(column)) and _as_floats(column) is None:
                raise ValueError(
                    f"could not convert column {column.name!r} of X to float: it is "
                    f"{_type_name(column)}. {WHERE_KINDS_BELONG}"
                )
        return X
    array = read_numbers("X", X, "numbers, or categories=[...] with the columns of kinds")
    if array.ndim != 2:
        raise ValueError(
            f"X has shape {array.shape}; expected 2 dimensions. Reshape your data: "
            "X.reshape(-1, 1) is one feature, and X.reshape(1, -1) one row"
        )
    return array


def column_of_numbers(name: Hashable, column: nw.Series[Any]) -> NDArray[Any]:
    """Return the values of a column as finite floats, or raise a ValueError that names it."""
    # Before the conversion, because a boolean column with a missing value becomes no float.
    if _is_boolean(column):
        refuse_missing_rows(name, column, "a number")
    values = _as_floats(column)
    if values is None:
        raise ValueError(f"column {name!r} is {_type_name(column)}; expected numbers")
    refuse_missing_rows(name, column, "a number")
    return check_array(f"column {name!r}", values)


def refuse_missing_rows(name: Hashable, column: nw.Series[Any], expected: str) -> None:
    """Raise a ValueError if values of a column are null, or nan."""
    if column.dtype.is_float():
        n_missing = (column.is_null() | column.is_nan()).sum()
    else:
        n_missing = column.null_count()
    if n_missing:
        raise ValueError(
            f"column {name!r} has {n_missing} missing values; expected {expected} in every row"
        )


def _as_floats(column: nw.Series[Any]) -> NDArray[Any] | None:
    """Return the values of a column as floats, or None if they are no numbers.

    Dates are none: NumPy would take them for a number of nanoseconds.
    """
    if column.dtype.is_temporal() or _is_complex(column):
        return None
    try:
        values = np.asarray(column.to_numpy())
        floats = values if values.dtype == np.float32 else values.astype(np.float64)
    except (TypeError, ValueError):
        return None
    _advise_on_text(f"column {column.name!r}", values)
    return floats


def read_numbers(name: str, value: Any, expected: str = "numbers") -> NDArray[Any]:
    """Return what `as_numbers` does, and warn if it has read numbers from text."""
    array = as_array(name, value)
    numbers = as_numbers(name, array, expected)
    _advise_on_text(name, array)
    return numbers


def _advise_on_text(name: str, values: NDArray[Any]) -> None:
    """Warn if values that became numbers hold text."""
    is_object = values.dtype.kind == "O"
    if values.dtype.kind in "US" or (is_object and any(isinstance(v, str) for v in values.flat)):
        advise_once(
            "numbers as text",
            f"{name} holds text, which is read as numbers; expected numbers, and codes of kinds "
            "in categories=[...]",
        )


def _is_complex(column: nw.Series[Any]) -> bool:
    """Return whether a column holds complex numbers, for which narwhals has no type."""
    native_type = getattr(column.to_native(), "dtype", None)
    return getattr(native_type, "kind", "") == "c"


def _is_boolean(column: nw.Series[Any]) -> bool:
    """Return whether a column holds true and false."""
    import narwhals as nw

    return bool(column.dtype == nw.Boolean)


def _type_name(column: nw.Series[Any]) -> str:
    """Return the type of a column in the words of narwhals, or if it has none, of its package."""
    import narwhals as nw

    if column.dtype != nw.Unknown:
        return str(column.dtype)
    return str(getattr(column.to_native(), "dtype", column.dtype))
