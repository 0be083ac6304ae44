"""What sums in the open tell of few rows: a rare class, or a rare value in a column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..sparse_model import Array, IndexArray
from .groups import preview


def few_rows_in_sums(
    X: Any, y: Array, names: Sequence[str], classes: Sequence[Any] | None, min_rows: int
) -> str:
    """Return which sums over the rows of a client rest on few of them, in words; "" if none does.

    The sum of x over the rows of a class follows from the gradient and the sum over all rows. The
    sum of x over the rows in which a column has another value than its usual one follows from the
    Hessian. If these rows are fewer than `min_rows`, the sums are nearly rows.

    Parameters
    ----------
    X : ndarray or SciPy sparse array, shape (n_rows, n_features)
    y : ndarray, shape (n_rows,)
        Labels as in `classes`, or numbers.
    names : sequence of str
        The columns of X.
    classes : sequence or None
        The labels, or None for numbers.
    min_rows : int
    """
    parts = []
    if classes is not None:
        counts = np.array([np.count_nonzero(np.asarray(y) == label) for label in classes])
        is_rare = (counts > 0) & (counts < min_rows)
        rare = [str(classes[c]) for c in np.flatnonzero(is_rare).tolist()]
        if rare:
            parts.append(f"have a class of {preview(rare, 5)}")
    n_others = _rows_with_unusual_values(X)
    is_rare = (n_others > 0) & (n_others < min_rows)
    columns = [names[j] for j in np.flatnonzero(is_rare).tolist()]
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
