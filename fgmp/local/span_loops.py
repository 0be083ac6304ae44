"""Steps of the softmax loss in the span of a client's rows, compiled by Numba where it is installed."""

from __future__ import annotations

import math

import numpy as np

from ..compilation import jit_and_keep
from ..models import Array, Support

__all__ = ["softmax_combination"]


@jit_and_keep
def softmax_combination(
    gram: Array, first: Array, labels: Support, batches: Support, weight: float, lowest: float
) -> Array:
    """The combination C of rows, with which K gradient steps end at W - A' C', shape (n_classes, m).

    A step reads, of the products of the rows, those of its minibatch. Its probabilities are softmax(z_r) with
    z_r = W' a_r - C A a_r, and C gains the weight times (probabilities - e_y) at each row r of the minibatch.

    Parameters
    ----------
    gram : ndarray, shape (m, m)
        A A'.
    first : ndarray, shape (n_classes, m)
        (A W)', the predictions at the start.
    labels : ndarray of int, shape (m,)
    batches : ndarray of int, shape (K, b)
        The rows of each step.
    weight : float
        The learning rate times the weight of a row.
    lowest : float
        Of the exponents: below it they are it.
    """
    (n_classes, m), n_rows = first.shape, batches.shape[1]
    combination = np.zeros_like(first)
    shares_of, lengths = np.empty((n_rows, n_classes), first.dtype), np.empty(n_rows, first.dtype)
    step, least = first.dtype.type(weight), first.dtype.type(lowest)
    for k in range(len(batches)):
        for i in range(n_rows):
            r = batches[k, i]
            products, shares = gram[r], shares_of[i]
            top = -first.dtype.type(math.inf)
            for c in range(n_classes):
                coefficients, gone = combination[c], first.dtype.type(0)
                for j in range(m):
                    gone += products[j] * coefficients[j]
                shares[c] = first[c, r] - gone
                top = max(top, shares[c])
            total = first.dtype.type(0)
            for c in range(n_classes):
                exponent = shares[c] - top
                shares[c] = math.exp(least if exponent < least else exponent)
                total += shares[c]
            lengths[i] = step / total
        for i in range(n_rows):
            r, length = batches[k, i], lengths[i]
            for c in range(n_classes):
                combination[c, r] += length * shares_of[i, c]
            combination[labels[r], r] -= step
    return combination
