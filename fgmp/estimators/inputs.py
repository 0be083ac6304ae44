"""Checks of what a user passes to an estimator, beyond those of scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight

from .._support.validation import as_numbers, check_number, short_repr
from .._support.warnings import warn_user
from ..sparse_model import Array

# The most columns that a message names.
N_NAMED = 10

# Names some of the columns, given by a mask and how many to show.
NameColumns = Callable[[Array, int], str]


def as_random_state(random_state: Any) -> Any:
    """Return scikit-learn's `check_random_state`, whose own error does not name the argument."""
    try:
        return check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state is {short_repr(random_state)}; expected an integer from 0 to "
            "4294967295, a numpy.random.RandomState or None, as in scikit-learn"
        ) from None


def weights_of_rows(sample_weight: Any, X: Any, dtype: Any = None) -> Array:
    """Return the weight of each row of X: one for None, and a single number for all rows.

    Raises
    ------
    ValueError, TypeError
        If weights are no finite numbers of at least 0, or not one for each row; a single one is
        above 0.
    """
    if sample_weight is not None:
        sample_weight = as_numbers("sample_weight", sample_weight)
        if not sample_weight.ndim:
            sample_weight = check_number("sample_weight", sample_weight.item(), above=0)
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=dtype, ensure_non_negative=True))


def warn_of_other_indices(X: object, **columns: object) -> None:
    """Warn if a column of pandas has other row labels than X: rows go together by position.

    Labels that count from zero are those that pandas gives by itself, and say nothing of rows with
    others: only the same labels in another order do.

    Parameters
    ----------
    X : object
        The features; a DataFrame if there is anything to compare.
    **columns : object
        What has one entry for each row, by the name of the argument.
    """
    index = _row_labels(X)
    if index is None:
        return
    for name, column in columns.items():
        other = _row_labels(column)
        if other is not None and _are_at_odds(index, other):
            warn_user(
                f"{name} has other row labels than X, or the same in another order. Rows are put "
                f"together by position, and labels are ignored: expected {name} in the order of "
                f"X, such as {name}.loc[X.index]"
            )


def _row_labels(table: object) -> Any:
    """Return the index of a DataFrame or Series, and None for anything else."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "equals") else None


def _are_at_odds(index: Any, other: Any) -> bool:
    """Return whether two indices of one length seem to be of rows in different orders."""
    if len(other) != len(index) or other.equals(index):
        return False
    counting = np.arange(len(index))
    is_counted = np.array_equal(index, counting) or np.array_equal(other, counting)
    return not is_counted or set(index) == set(other)


def columns_not_finite(X: Any) -> Array:
    """Return a mask of the columns that hold nan or infinite numbers."""
    found = check_array(X, accept_sparse="csc", ensure_all_finite=False)
    if issparse(found):
        is_bad = ~np.isfinite(found.data)
        bad = type(found)((is_bad, found.indices, found.indptr), shape=found.shape)
    else:
        bad = ~np.isfinite(found)
    return np.asarray(np.asarray(bad.sum(axis=0)).reshape(-1) > 0)


def refuse_overflow(X: Any, y: Array | None, name_columns: NameColumns) -> None:
    """Raise a ValueError if sums of squares, which a fit consists of, exceed all floats.

    A mark for missing values such as 1.8e308 is finite, and passes for a number.

    Parameters
    ----------
    X : ndarray or sparse matrix, shape (n_rows, n_features)
        Features.
    y : ndarray or None
        Targets that are numbers.
    name_columns : callable (mask, n_shown)
        Returns the names of some columns.
    """
    expected = (
        "no float holds the sum of their squares; expected smaller numbers, and rows without marks "
        "for no data"
    )
    if y is not None and not np.isfinite(_sum_of_squares(y.astype(np.float64, copy=False))):
        raise ValueError(f"y holds numbers as large as {np.abs(y).max():.2g}: {expected}")
    if X.dtype != np.float64:  # squares of float32 are summed in float64
        return
    if np.isfinite(_sum_of_squares(X.data if issparse(X) else X)):
        return

    # The sum over all columns may overflow although none of them does.
    with np.errstate(over="ignore"):
        squares = X.multiply(X).sum(axis=0) if issparse(X) else np.einsum("ij,ij->j", X, X)
    is_too_large = ~np.isfinite(np.asarray(squares).reshape(-1))
    if is_too_large.any():
        names = name_columns(is_too_large, N_NAMED)
        raise ValueError(f"X holds in the columns {names} numbers so large that {expected}")


def _sum_of_squares(values: Array) -> float:
    """Return the sum of the squares of all entries, infinite if it overflows."""
    axes = "ij"[: values.ndim]
    with np.errstate(over="ignore"):
        return float(np.einsum(f"{axes},{axes}->", values, values))
