"""Aggregators that a few liars cannot move far: each coordinate by the weights p_i of those who answered."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._support.validation import validate_number_field
from .aggregation import Aggregator, Updates
from .sparse_model import Array

_ROUNDING = 1e-12  # of cumulated weights: 0.1 + 0.2 + 0.2 is half of the clients


class _ByCoordinate(Aggregator):
    of_columns: Any  # (values, weights) -> one number for each column of the values; the weights of rows sum to one

    def __call__(self, updates: Updates) -> Array:
        """Combine each coordinate by itself; those that a sparse model does not have are zero.

        Raises
        ------
        ValueError
            If updates are no models near one another: a median of Hessians is no Hessian.
        """
        if updates.update_spec.near is None:
            raise ValueError(
                f"aggregator is {self!r}, and the updates of an exchange are no models near one "
                "another; expected Mean(), SecureSum() or GaussianNoise(...)"
            )
        return np.asarray(self.of_columns(updates.rows(), updates.shares))


@dataclass(frozen=True)
class Median(_ByCoordinate):
    """The weighted median of each coordinate: in the range of the others, whatever less than half of the weight sends.

    With equal weights this is `numpy.median`. Of sparse models a coordinate is kept only where clients with at least
    half of the weight have it: a vote on the support. Where honest clients choose different atoms it keeps too few.
    D. Yin et al., Byzantine-robust distributed learning: towards optimal statistical rates, ICML 2018.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> fgmp.Median().of_columns(np.array([[1.0, 0.0], [2.0, 0.0], [-900.0, 5.0]]), np.ones(3) / 3).tolist()
    [1.0, 0.0]
    """

    def of_columns(self, values: Array, weights: Array) -> Array:
        """The middle between the lower and the upper median."""
        ordered, _, ends = _in_order(values, weights)
        lower, upper = ((ends > 0.5 + step).argmax(axis=0) for step in (-_ROUNDING, _ROUNDING))
        columns = np.arange(ordered.shape[1])
        first, second = ordered[lower, columns], ordered[upper, columns]
        return np.asarray(first + (second - first) / 2)


@dataclass(frozen=True)
class TrimmedMean(_ByCoordinate):
    """The weighted mean of each coordinate without the lowest and the highest `share` of the weight.

    A share of 0 is the mean; towards one half it goes to the median. Of sparse models, coordinates that few clients
    have shrink or vanish. Reference as `Median`.

    Parameters
    ----------
    share : float, default 0.1
        Of the weight, cut at each end: at least 0 and below 0.5. It has to be at least the share of clients that lie.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        validate_number_field(self, "share", at_least=0)
        if self.share >= 0.5:
            raise ValueError(
                f"share is {self.share!r}; expected a number of at least 0 and below 0.5"
            )

    def of_columns(self, values: Array, weights: Array) -> Array:
        """The mean of what lies between the two ends."""
        ordered, begins, ends = _in_order(values, weights)
        inside = np.clip(np.minimum(ends, 1 - self.share) - np.maximum(begins, self.share), 0, None)
        inside[inside <= _ROUNDING] = 0  # what is cut has no say, however large
        return np.asarray(np.einsum("ij,ij->j", inside / inside.sum(axis=0), ordered))


def _in_order(values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Each column in increasing order, and where the weight of each entry begins and ends between 0 and 1."""
    order = np.argsort(values, axis=0, kind="stable")
    each = weights[order]
    ends = np.cumsum(each, axis=0)
    return np.take_along_axis(values, order, axis=0), ends - each, ends
