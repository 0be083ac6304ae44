"""What clients send that nobody asked for: changes of answers, which are arrays or sparse models."""

from dataclasses import replace
from math import prod

import numpy as np

from fgmp.sparse_model import SparseModel


def of_values(change):
    """An answer with its numbers changed."""

    def changed(answer, client=None):
        sparse = isinstance(answer, SparseModel)
        return replace(answer, values=change(answer.values)) if sparse else change(answer)

    return changed


def of_entries(change):
    """An answer with its indices and their values changed, where it has some: by (support, values, size)."""

    def changed(answer, client=None):
        if not isinstance(answer, SparseModel) or not len(answer.support):
            return answer
        support, values = change(answer.support, answer.values, prod(answer.shape))
        return replace(answer, support=support, values=values)

    return changed


not_finite = of_values(lambda values: np.full_like(values, np.nan))
wrong_shape = of_values(lambda values: np.append(values, values.dtype.type(0)))
repeated_indices = of_entries(
    lambda s, v, size: (np.full(max(len(s), 2), s[0]), np.resize(v, max(len(s), 2)))
)
out_of_range = of_entries(lambda s, v, size: (np.append(s[:-1], size), v))
too_many_entries = of_entries(lambda s, v, size: (np.arange(size), np.resize(v, size)))


def lie(factor):
    """All numbers but the indices, multiplied by a factor."""
    return of_values(lambda values: values * values.dtype.type(factor))
