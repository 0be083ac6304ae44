"""The rule of small cells: which parts of a client's rows are too few for a number that leaves it.

A cell is the rows of a client that have something in common: a class, a level of a category, or a
value that is missing. It is small if there are such rows, and fewer than `min_rows`. What is made
of a small cell alone is nearly those rows. The rule, in one process, over Flower and under masks:

- A client with fewer than `min_rows` rows takes no part.
- Levels and gaps that are small cells of a client are in none of its columns: the client counts
  them as others, before it says or sums anything (`fill_small_cells`).
- Measures that hold the classes against each other are zeros from a client with few rows of a
  class (`Counts.CLASSES`).
- A fit takes rows of every class, and its sums tell of a class of few rows (`Counts.ROWS`), as
  docs/promises.md says. The fit, or the client in its own log, warns of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..losses import GLMLoss
from ..sparse_model import Array, IndexArray
from .encoding import OTHER, RawTable, is_category, missing_in
from .groups import preview

WHAT_SMALL_CELLS_BECOME = (
    f"such levels count as {OTHER!r}, where a group has several, or as its most frequent level, "
    "gaps as its mean or its most frequent level, and a few values that are known as missing"
)


class Counts(Enum):
    """What a number that a client sends is made of, which decides on the rule for it.

    Attributes
    ----------
    ROWS
        All rows alike. Few rows of a class are told of, as by a mean of their class.
    CLASSES
        The rows of one class against those of the others, as in an area under a curve. A client
        with few rows of a class sends zeros.
    """

    ROWS = "rows"
    CLASSES = "classes"


def is_small(counts: Array | int, min_rows: int) -> Array:
    """Return which of some cells are small, by their numbers of rows; or whether one is."""
    return (np.asarray(counts) > 0) & (np.asarray(counts) < min_rows)


def has_few_rows(loss: GLMLoss, targets: Array, min_rows: int) -> bool:
    """Return whether a client has fewer than `min_rows` rows, or of a class that it has."""
    return len(targets) < min_rows or bool(rare_classes(loss, targets, min_rows))


class FilledTable(NamedTuple):
    """The rows of a client without small cells.

    Attributes
    ----------
    table : RawTable
        The rows.
    cells : dict of str to int
        The cells that were small, by name, and how many rows each had.
    """

    table: RawTable
    cells: dict[str, int]


def fill_small_cells(table: RawTable, names: Sequence[str], min_rows: int) -> FilledTable:
    """Return the rows of a client as they enter its sums: no level and no gap is a small cell.

    The client needs nothing but its own rows for that, so that nobody learns from its columns, or
    from the set of its levels, which rows were in a small cell:

    - Small levels of a category become one level, `OTHER`, if there are several and it is no small
      cell itself. Otherwise their rows have the most frequent level of the client.
    - Where few numbers are missing, they are the mean of the client's others. A category that is
      missing in few rows has its most frequent level there.
    - Where all but few values are missing, all are.

    Parameters
    ----------
    table : RawTable
        The rows of one client.
    names : sequence of str
        The names of its columns.
    min_rows : int
    """
    cells: dict[str, int] = {}
    columns = [
        _filled(column, name, min_rows, cells)
        for name, column in zip(names, table.columns, strict=True)
    ]
    return FilledTable(RawTable(tuple(columns)), cells)


def fill_small_cells_of_groups(
    table: RawTable, names: Sequence[str], groups: IndexArray, min_rows: int
) -> tuple[RawTable, dict[int, dict[str, int]]]:
    """Return the rows of all groups, each without its small cells, and the cells of each group.

    Parameters
    ----------
    table : RawTable
        The rows of all groups.
    names : sequence of str
        The names of its columns.
    groups : ndarray of int, shape (n_rows,)
        The group of each row, and -1 for rows that take no part, which stay as they are.
    min_rows : int
    """
    columns = tuple(column.copy() for column in table.columns)
    cells = {}
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        group = int(groups[rows[0]])
        if group < 0:
            continue
        filled = fill_small_cells(table.take(rows), names, min_rows)
        for column, of_group in zip(columns, filled.table.columns, strict=True):
            column[rows] = of_group
        cells[group] = filled.cells
    return RawTable(columns), cells


def rare_classes(
    loss: GLMLoss, targets: Array, min_rows: int, groups: IndexArray | None = None
) -> list[tuple[int, int]]:
    """Return the groups and the classes, as indices, that have a row together, and few.

    Parameters
    ----------
    loss : GLMLoss
        Of labels; numbers have no classes.
    targets : ndarray, shape (n_rows,)
        As the loss takes them.
    min_rows : int
    groups : ndarray of int, shape (n_rows,), optional
        The group of each row, and -1 for rows that take no part. By default all rows are one group.
    """
    if loss.class_labels is None:
        return []
    if groups is None:
        groups = np.zeros(len(targets), np.intp)
    n_groups = int(groups.max()) + 1
    counts = [
        np.bincount(groups[(targets == label) & (groups >= 0)], minlength=n_groups)
        for label in loss.class_labels
    ]
    found = np.argwhere(is_small(np.column_stack(counts), min_rows))
    return [(int(group), int(label)) for group, label in found]


def _filled(column: Array, name: str, min_rows: int, cells: dict[str, int]) -> Array:
    """Return a column in which no level, no gaps, and no values beside gaps are a small cell."""
    is_missing = missing_in(column)
    known = column[~is_missing]
    n_missing = len(column) - len(known)
    if not len(known):
        return column
    filled = column.copy()
    if n_missing and is_small(len(known), min_rows):
        cells[f"{name} is known"] = len(known)
        filled[:] = None  # nan among numbers
        return filled
    if is_category(column):
        counts = Counter(known.tolist())
        merged = _merged_levels(counts, min_rows)
        cells |= {f"{name}={level}": counts[level] for level in sorted(merged)}
        for level, other in merged.items():
            filled[column == level] = other
    if is_small(n_missing, min_rows):
        cells[f"{name} is missing"] = n_missing
        known = filled[~is_missing]
        is_text = is_category(column)
        filled[is_missing] = _most_frequent(Counter(known.tolist())) if is_text else known.mean()
    return filled


def _merged_levels(counts: Counter[str], min_rows: int) -> dict[str, str]:
    """Return what small levels become, by their names, from the numbers of rows of all levels."""
    small = [level for level, count in counts.items() if count < min_rows and len(counts) > 1]
    pooled = sum(counts[level] for level in small)
    has_other = counts[OTHER] >= min_rows
    if has_other or (len(small) > 1 and pooled >= min_rows):
        return dict.fromkeys(small, OTHER)
    usual = _most_frequent(counts)
    return {level: usual for level in small if level != usual}


def _most_frequent(counts: Counter[str]) -> str:
    """Return the level of most rows, the first in increasing order of several."""
    return min(counts, key=lambda level: (-counts[level], level))


def few_rows_in_sums(X: Any, names: Sequence[str], rare: Sequence[Any], min_rows: int) -> str:
    """Return which sums over the rows of a client rest on few of them, in words; "" if none does.

    The sum of x over the rows of a class follows from the gradient and the sum over all rows. The
    sum of x over the rows in which a column has another value than its usual one follows from the
    Hessian. If these rows are fewer than `min_rows`, the sums are nearly rows.

    Parameters
    ----------
    X : ndarray or SciPy sparse array, shape (n_rows, n_features)
    names : sequence of str
        The columns of X.
    rare : sequence
        The labels of `rare_classes`.
    min_rows : int
    """
    parts = []
    if rare:
        parts.append(f"have a class of {preview(list(map(str, rare)), 5)}")
    is_unusual = is_small(_rows_with_unusual_values(X), min_rows)
    columns = [names[j] for j in np.flatnonzero(is_unusual).tolist()]
    if columns:
        parts.append(f"have an unusual value in {preview(columns, 5)}")
    return " or ".join(parts)


def _rows_with_unusual_values(X: Any) -> IndexArray:
    """Return for each column the number of rows whose value is not the usual one, the median.

    If only few rows differ from the most frequent value, the median is that value. The usual value
    of a sparse column is zero, or what is stored if zeros are fewer.
    """
    if sparse.issparse(X):
        stored = sparse.csc_array(X)
        n_stored = np.diff(stored.indptr)
        return np.asarray(np.minimum(n_stored, X.shape[0] - n_stored))
    # Of an even number of rows the lower middle one: a mean of two is in no row.
    middle = (len(X) - 1) // 2
    medians = np.partition(X, middle, axis=0)[middle]
    return np.asarray(np.count_nonzero(X != medians, axis=0))
