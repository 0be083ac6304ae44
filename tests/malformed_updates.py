"""Malformed and adversarial updates: changes of what a client sends, an array or a sparse model."""

from dataclasses import replace
from math import prod

import numpy as np

from fgmp.sparse_model import SparseModel


def of_values(change):
    """Return a function that changes the numbers of an update."""

    def changed(update, client_id=None):
        if isinstance(update, SparseModel):
            return replace(update, values=change(update.values))
        return change(update)

    return changed


def of_entries(change):
    """Return a function that changes indices and values, from (support, values, size).

    An update without indices stays as it is.
    """

    def changed(update, client_id=None):
        if not isinstance(update, SparseModel) or not len(update.support):
            return update
        support, values = change(update.support, update.values, prod(update.shape))
        return replace(update, support=support, values=values)

    return changed


def scaled_by(factor):
    """Return a function that multiplies the numbers of an update: a well-formed wrong answer."""
    return of_values(lambda values: values * values.dtype.type(factor))


not_finite = of_values(lambda values: np.full_like(values, np.nan))
wrong_shape = of_values(lambda values: np.append(values, values.dtype.type(0)))
repeated_indices = of_entries(
    lambda s, v, size: (np.full(max(len(s), 2), s[0]), np.resize(v, max(len(s), 2)))
)
out_of_range = of_entries(lambda s, v, size: (np.append(s[:-1], size), v))
too_many_entries = of_entries(lambda s, v, size: (np.arange(size), np.resize(v, size)))
