"""Ties of sums: numbers that are equal but for the order in which they were added up.

`argmin` and `argmax` take the first of equal numbers. Sums that would be equal in exact arithmetic
differ in their last bits, by the order of the rows and by who holds them, so that rounding would
decide instead.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def with_exact_ties(values: Array, rounding: float | Array) -> Array:
    """Return numbers of which those that differ by rounding alone are equal.

    Neighbours in the increasing order that differ by no more than their rounding become the
    smallest one of them. All others keep their bits.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        The numbers, at least one.
    rounding : float or ndarray, shape (n,)
        How far rounding may move a number.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp._support.ties import with_exact_ties
    >>> with_exact_ties(np.array([0.1 + 0.2, 0.5, 0.3]), 1e-12).tolist()
    [0.3, 0.5, 0.3]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    largest = np.broadcast_to(rounding, values.shape)[order]
    is_next = np.append(True, np.diff(ordered) > np.maximum(largest[:-1], largest[1:]))
    equal = np.empty_like(values)
    equal[order] = ordered[is_next][np.cumsum(is_next) - 1]
    return equal
