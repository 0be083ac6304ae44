"""Robust aggregators, which a few adversarial clients cannot move far.

Each aggregates every coordinate of the updates by itself, with the weights p_i of the clients whose
updates are accepted. D. Yin et al., Byzantine-robust distributed learning: towards optimal
statistical rates, ICML 2018.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._support.validation import validate_number_field
from .aggregation import Aggregator
from .sparse_model import Array
from .updates import Updates

# Cumulated weights carry rounding: 0.1 + 0.2 + 0.2 has to be half of the clients.
_ROUNDING = 1e-12


class _CoordinatewiseAggregator(Aggregator):
    """An aggregator that reduces each coordinate of the updates by itself."""

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return one number for each column.

        Parameters
        ----------
        values : ndarray, shape (n_clients, n_coordinates)
        weights : ndarray, shape (n_clients,)
            They sum to one.

        Returns
        -------
        ndarray, shape (n_coordinates,)
        """
        raise NotImplementedError(f"{type(self).__name__} has no of_columns")

    def __call__(self, updates: Updates) -> Array:
        """Return the aggregate. A coordinate that a sparse update does not have is zero.

        A ValueError if the updates are not near one another: the coordinatewise median of Hessians,
        for example, is no Hessian.
        """
        if updates.update_spec.near is None:
            raise ValueError(
                f"aggregator is {self!r}, and the updates of an exchange are no models near one "
                "another; expected Mean(), SecureSum() or GaussianNoise(...)"
            )
        return self.of_columns(updates.rows(), updates.shares)


@dataclass(frozen=True)
class Median(_CoordinatewiseAggregator):
    """The weighted median of each coordinate.

    It stays in the range of the other updates, whatever clients with less than half of the weight
    send. With equal weights it is `numpy.median`. A coordinate of sparse models is nonzero only if
    clients with at least half of the weight have it, which is a vote on the support. If honest
    clients select different atoms, few coordinates are left.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> updates = np.array([[1.0, 0.0], [2.0, 0.0], [-900.0, 5.0]])
    >>> fgmp.Median().of_columns(updates, np.ones(3) / 3).tolist()
    [1.0, 0.0]
    """

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return the midpoint of the lower and the upper weighted median of each column."""
        columns = _sort_columns(values, weights)
        lower = (columns.ends > 0.5 - _ROUNDING).argmax(axis=0)
        upper = (columns.ends > 0.5 + _ROUNDING).argmax(axis=0)

        column_indices = np.arange(values.shape[1])
        lower_median = columns.values[lower, column_indices]
        upper_median = columns.values[upper, column_indices]
        return np.asarray(lower_median + (upper_median - lower_median) / 2)


@dataclass(frozen=True)
class TrimmedMean(_CoordinatewiseAggregator):
    """The weighted mean of each coordinate without its lowest and highest `share` of the weight.

    A share of 0 is the mean, and a share near one half is nearly the median. Coordinates of sparse
    models that few clients have shrink or vanish.

    Parameters
    ----------
    share : float, default 0.1
        The share of the weight that is cut at each end, at least 0 and below 0.5. It has to be at
        least the share of clients that are adversarial.

    Raises
    ------
    ValueError
        If the share is out of these bounds.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> updates = np.array([[-3.0], [2.0], [4.0], [900.0]])
    >>> fgmp.TrimmedMean(share=0.25).of_columns(updates, np.ones(4) / 4).tolist()
    [3.0]
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        validate_number_field(self, "share", at_least=0)
        if self.share >= 0.5:
            raise ValueError(
                f"share is {self.share!r}; expected a number of at least 0 and below 0.5"
            )

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return the weighted mean of what each column has between the two ends."""
        columns = _sort_columns(values, weights)
        first = np.maximum(columns.begins, self.share)
        last = np.minimum(columns.ends, 1 - self.share)
        inside = np.clip(last - first, 0, None)
        # What is cut has weight zero exactly: times 1e300 a trace of rounding decides the mean.
        inside[inside <= _ROUNDING] = 0
        return np.asarray(np.einsum("ij,ij->j", inside / inside.sum(axis=0), columns.values))


class _SortedColumns(NamedTuple):
    """Columns in increasing order, and the interval of cumulated weight of each entry."""

    values: Array
    begins: Array
    ends: Array


def _sort_columns(values: Array, weights: Array) -> _SortedColumns:
    """Sort each column, and lay its weights end to end from 0 to 1 in the same order."""
    order = np.argsort(values, axis=0, kind="stable")
    sorted_values = np.take_along_axis(values, order, axis=0)
    sorted_weights = weights[order]
    ends = np.cumsum(sorted_weights, axis=0)
    return _SortedColumns(sorted_values, ends - sorted_weights, ends)
