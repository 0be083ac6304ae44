"""Numbers that the last bits of a machine move, printed as what is certain."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_array, check_number


def outwards(values: ArrayLike, step: float) -> str:
    """The range of `values`, rounded outwards to multiples of `step`, in words.

    Parameters
    ----------
    values : number or array_like of numbers
        What was measured.
    step : float
        The bounds are multiples of it; above 0.

    Returns
    -------
    str
        One number where both bounds are the same.

    Raises
    ------
    ValueError
        Where there are no values, one is not finite, or `step` is not above 0.

    Examples
    --------
    >>> from fgmp.book.ranges import outwards
    >>> outwards(0.726, 0.1)
    '0.7 to 0.8'
    >>> outwards([0.31, 0.149, 0.2], 0.1)
    '0.1 to 0.4'
    """
    step = check_number("step", step, above=0)
    values = check_array("values", np.atleast_1d(values), ndim=1)
    if not values.size:
        raise ValueError("values is empty; expected at least one number")
    low = math.floor(float(values.min()) / step + 1e-9) * step
    high = math.ceil(float(values.max()) / step - 1e-9) * step
    least, most = (f"{bound + 0.0:.6g}" for bound in (low, high))
    return least if least == most else f"{least} to {most}"
