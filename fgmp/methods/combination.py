"""How a server makes one model of those that clients answer with: their mean, or what a few liars cannot move far.

Coordinate by coordinate, with the weights p_i of the clients that answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import check_kind, settle_number
from ..models import Array, SparseModel, average

__all__ = ["MEAN", "Combination", "Mean", "Median", "TrimmedMean", "check_combination"]

# Cumulated weights are off by rounding: 0.1 + 0.2 + 0.2 is half of the clients.
_ROUNDING = 1e-12


class Combination:
    """A way to combine models; `of_columns` is what a subclass defines."""

    def models(self, models: Sequence[SparseModel], weights: Sequence[float]) -> SparseModel:
        """Sparse models of one shape as one, on the coordinates where that is not zero."""
        used = np.unique(np.concatenate([model.support for model in models]))
        values = self.of_columns(np.stack([model.on(used) for model in models]), np.asarray(weights))
        kept = values != 0
        return SparseModel(used[kept], values[kept].astype(models[0].values.dtype, copy=False), models[0].shape)

    def arrays(self, arrays: Sequence[Array], weights: Sequence[float]) -> Array:
        """Dense models of one shape as one."""
        values = np.stack([array.reshape(-1, order="F") for array in arrays])
        combined: Array = self.of_columns(values, np.asarray(weights)).astype(arrays[0].dtype, copy=False)
        return combined.reshape(arrays[0].shape, order="F")

    def of_columns(self, values: Array, weights: Array) -> Array:
        """One number for each column of `values`, whose rows have weights that sum to one."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it combines")


@dataclass(frozen=True)
class Mean(Combination):
    """sum_i p_i x_i, as in the paper and by default: one client that lies by a large factor decides the model."""

    def models(self, models: Sequence[SparseModel], weights: Sequence[float]) -> SparseModel:
        """The weighted sum, on the union of the supports."""
        return average(list(models), list(weights))

    def arrays(self, arrays: Sequence[Array], weights: Sequence[float]) -> Array:
        """The weighted sum."""
        total: Array = np.sum([weight * array for weight, array in zip(weights, arrays, strict=True)], axis=0)
        return total


@dataclass(frozen=True)
class Median(Combination):
    """The weighted median of each coordinate: in the range of the others, whatever less than half of the weight sends.

    With equal weights this is `numpy.median`. Of sparse models a coordinate is kept only where clients with at least
    half of the weight have it: a vote on the support. Where honest clients choose different atoms it keeps too few.

    References
    ----------
    D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, Byzantine-robust distributed learning: towards optimal statistical
    rates, ICML 2018.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.Median().of_columns([[1.0, 0.0], [2.0, 0.0], [-900.0, 5.0]], [1 / 3, 1 / 3, 1 / 3]).tolist()
    [1.0, 0.0]
    """

    def of_columns(self, values: Array, weights: Array) -> Array:
        """The middle between the lower and the upper median."""
        ordered, _, ends = _in_order(values, weights)
        lower, upper = ((ends > 0.5 + step).argmax(axis=0) for step in (-_ROUNDING, _ROUNDING))
        columns = np.arange(ordered.shape[1])
        first, second = ordered[lower, columns], ordered[upper, columns]
        middle: Array = first + (second - first) / 2
        return middle


@dataclass(frozen=True)
class TrimmedMean(Combination):
    """The weighted mean of each coordinate without the lowest and the highest `share` of the weight.

    A share of 0 is the mean; towards one half it goes to the median. Of sparse models, coordinates that few clients
    have shrink or vanish.

    Parameters
    ----------
    share : float
        Of the weight, cut at each end: at least 0 and below 0.5. It has to be at least the share of clients that lie.

    References
    ----------
    As `Median`.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.TrimmedMean(0.25).of_columns([[1.0], [2.0], [3.0], [900.0]], [0.25, 0.25, 0.25, 0.25]).tolist()
    [2.5]
    """

    share: float

    def __post_init__(self) -> None:
        settle_number(self, "share", at_least=0)
        if self.share >= 0.5:
            raise ValueError(f"share is {self.share!r}; expected a number of at least 0 and below 0.5")

    def of_columns(self, values: Array, weights: Array) -> Array:
        """The mean of what lies between the two ends."""
        ordered, begins, ends = _in_order(values, weights)
        inside = np.clip(np.minimum(ends, 1 - self.share) - np.maximum(begins, self.share), 0, None)
        inside[inside <= _ROUNDING] = 0  # what is cut has no say, however large
        inside /= inside.sum(axis=0)
        means: Array = np.einsum("ij,ij->j", inside, ordered)
        return means


MEAN = Mean()


def check_combination(combination: Any) -> None:
    """Raise a ValueError where a combination is none."""
    check_kind("combination", combination, Combination, "Mean(), Median() or TrimmedMean(share)")


def _in_order(values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Each column in increasing order, and where the weight of each entry begins and ends between 0 and 1."""
    values, weights = np.asarray(values), np.asarray(weights)
    order = np.argsort(values, axis=0, kind="stable")
    each = weights[order]
    ends = np.cumsum(each, axis=0)
    return np.take_along_axis(values, order, axis=0), ends - each, ends
