"""Ranges that every machine prints alike: for measured values whose last digits are not compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["outwards"]


def outwards(values: ArrayLike, step: float, unit: str = "seeds") -> str:
    """The range of some values, rounded outwards to multiples of a step: "-0.15 to -0.05 (5 seeds)".

    What depends on the last bits, as an accuracy on a few hundred images does, moves within a step, where its median to
    two digits would print something else on another processor.

    Parameters
    ----------
    values : array_like
        One for each seed.
    step : float
    unit : str, default "seeds"
    """
    found = np.ravel(values).astype(float)
    if not found.size:
        raise ValueError("values is empty; expected at least one number")
    low, high = np.floor(found.min() / step + 1e-9) * step + 0.0, np.ceil(found.max() / step - 1e-9) * step + 0.0
    words = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
    return f"{words} ({found.size} {unit})"
