"""What clients send that nobody asked for: changes for `fgmp.running.faults.Changed`."""

import math
from functools import partial

import numpy as np


def changed(change, answer, client):
    """The answer with its arrays of floats changed."""
    return {name: change(array) if array.dtype.kind == "f" else array for name, array in answer.items()}


def reindexed(change, answer, client):
    """The answer with its indices and their values changed, where it has some."""
    after, size = dict(answer), math.prod(client.model_shape)
    for name, support in answer.items():
        values = name.removesuffix("support") + "values"
        if name.endswith("support") and values in answer and len(support):
            indices, after[values] = change(support, answer[values], size)
            after[name] = indices.astype(support.dtype)
    return after


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
