"""What clients send that nobody asked for: changes of answers, which are arrays or sparse models."""

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from fgmp.models import SparseModel


def changed(change, answer, client):
    """The answer with its numbers changed."""
    sparse = isinstance(answer, SparseModel)
    return replace(answer, values=change(answer.values)) if sparse else change(answer)


def reindexed(change, answer, client):
    """The answer with its indices and their values changed, where it has some."""
    if not isinstance(answer, SparseModel) or not len(answer.support):
        return answer
    support, values = change(answer.support, answer.values, prod(answer.shape))
    return replace(answer, support=support, values=values)


not_finite = partial(changed, lambda values: np.full_like(values, np.nan))
infinite = partial(changed, lambda values: np.full_like(values, -np.inf))
wrong_shape = partial(changed, lambda values: np.append(values, values.dtype.type(0)))
repeated_indices = partial(reindexed, lambda s, v, size: (np.full(max(len(s), 2), s[0]), np.resize(v, max(len(s), 2))))
out_of_range = partial(reindexed, lambda s, v, size: (np.append(s[:-1], size), v))
too_many_entries = partial(reindexed, lambda s, v, size: (np.arange(size), np.resize(v, size)))


def scaled(factor, answer, client):
    """All numbers but the indices, multiplied by a factor."""
    return changed(lambda values: values * values.dtype.type(factor), answer, client)


def lie(factor):
    """The change that scales."""
    return partial(scaled, factor)
