"""The argument `groups` of an estimator: the client of each row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._support.displays import preview_words
from .._support.validation import as_array, distinct, short_repr
from .._support.warnings import advise_once
from ..sparse_model import Array, IndexArray

_N_SHOWN = 5


class EncodedGroups(NamedTuple):
    """Groups as integers.

    Attributes
    ----------
    present, missing : ndarray
        The groups that take part, and those that do not, increasing.
    codes : ndarray of int, shape (n_rows,)
        The index in `present` of the group of each row, and -1 for rows that do not take part.
    weights : ndarray, shape (n_rows,)
        The weights of the rows, zero for those that do not take part.
    """

    present: Array
    missing: Array
    codes: IndexArray
    weights: Array


def encode_groups(n_rows: int, groups: Any, weights: Array, min_rows: int) -> EncodedGroups:
    """Return the groups of the rows as integers, and weights of zero for groups that are too small.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    groups : array_like, shape (n_rows,), or None
        The group of each row. None puts all rows into one group, of any size.
    weights : ndarray, shape (n_rows,)
        Weights of the rows, at least 0.
    min_rows : int
        Groups with fewer rows of positive weight get the weight zero, and a warning names them.

    Raises
    ------
    ValueError
        If no row has a positive weight, no group is large enough, or the groups are malformed.
    """
    if not weights.any():
        raise ValueError(
            "sample_weight is zero for every row; expected at least one positive weight."
        )
    if groups is None:
        codes = np.where(weights > 0, 0, -1)
        return EncodedGroups(np.zeros(1, np.intp), np.zeros(0, np.intp), codes, weights)

    labels, codes = distinct("groups", group_of_each_row(n_rows, groups), "a group")
    if any(isinstance(label, float) and label % 1 for label in labels.tolist()):
        raise ValueError(
            "groups holds numbers that are not integers; expected the group of each row. Weights "
            "are passed by name: fit(X, y, sample_weight=...)"
        )

    counts = np.bincount(codes[weights > 0], minlength=len(labels))
    is_small = (counts > 0) & (counts < min_rows)
    if is_small.any():
        small = f"{is_small.sum()} of {np.count_nonzero(counts)} groups"
        names = preview(labels[is_small].tolist(), _N_SHOWN)
        problem = f"{small} have fewer than min_rows={min_rows} rows ({names})"
        if not (counts >= min_rows).any():
            raise ValueError(
                f"{problem}, and none is left to fit; "
                "larger groups, or a smaller min_rows, are needed"
            )
        advise_once(
            "min_rows",
            f"{problem}: they send nothing and take no part; a smaller min_rows lets them",
        )
    weights = np.where(is_small[codes], 0, weights)
    is_present = (counts > 0) & ~is_small
    codes = np.where(weights > 0, (np.cumsum(is_present) - 1)[codes], -1)
    return EncodedGroups(labels[is_present], labels[~is_present], codes, weights)


def group_of_each_row(n_rows: int, groups: Any) -> Array:
    """Return the groups of the rows as a vector, or raise a ValueError if they are none.

    Python counts times in nanoseconds as integers, which no time is equal to. They are returned in
    microseconds if that loses nothing.
    """
    values = as_array("groups", _with_time_zone(groups))
    expected = f"expected one group for each of {n_rows} rows"
    if values.ndim == 0:
        raise ValueError(f"groups is {short_repr(groups)}; {expected}, no name of a column")
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(f"groups has shape {values.shape}; {expected}")

    values = values.reshape(-1)
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":
        coarser = values.astype(f"{values.dtype.kind}8[us]")
        is_present = ~np.isnat(values)
        is_exact = np.array_equal(coarser[is_present], values[is_present])
        return coarser if is_exact else values
    return values


def _with_time_zone(groups: Any) -> Any:
    """Return a column of times that have a time zone as objects, because NumPy would drop it."""
    import narwhals as nw

    column = nw.from_native(groups, series_only=True, pass_through=True)
    if not isinstance(column, nw.Series) or getattr(column.dtype, "time_zone", None) is None:
        return groups
    values = np.empty(len(column), object)
    values[:] = column.to_list()
    return values


def preview(names: Sequence[object], n_shown: int) -> str:
    """Return the first names as text, and how many more there are."""
    return preview_words(list(map(repr, names)), n_shown)
