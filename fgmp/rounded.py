"""Features rounded to float32, for products of which only the places of the largest entries are wanted."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .models import Array, Support

__all__ = ["Rounded"]


class Rounded(NamedTuple):
    """A dense matrix times a power of two, so that its largest entry is about 1, in float32 with contiguous rows.

    Half as large as a matrix in float64. Entries below 2^-126 of the largest lose digits or vanish.

    Attributes
    ----------
    matrix : ndarray of float32, shape (n_samples, n_features)
    exponent : int
        The matrix times 2^exponent is the original, rounded.
    """

    matrix: Array
    exponent: int

    @classmethod
    def of(cls, features: Array) -> Rounded:
        """The copy of a matrix in float64."""
        exponent = max(_exponent(max(features.max(), -features.min())), -1000)
        matrix = np.empty(features.shape, np.float32)
        np.multiply(features, 2.0**-exponent, out=matrix, casting="same_kind")
        return cls(matrix, exponent)

    def product(self, weights: Array, rows: Support | None) -> Array:
        """The product of weights in float64 with these rows, in float32 and up to a positive factor; None is all rows.

        Parameters
        ----------
        weights : ndarray, shape (b,) or (b, n_outputs)
        rows : ndarray of int, shape (b,), or None

        Returns
        -------
        ndarray of float32, shape (n_features,) or (n_outputs, n_features)
        """
        scaled = np.ldexp(weights, -_exponent(np.abs(weights).max())).astype(np.float32)
        product: Array = scaled.T @ (self.matrix if rows is None else self.matrix.take(rows, axis=0))
        return product

    def gradient(self, weights: Array, rows: Support | None) -> Array:
        """The same with its factor, in float64, shape (n_features,) or (n_features, n_outputs)."""
        product = self.product(weights, rows).T.astype(np.float64)
        scaled: Array = np.ldexp(product, self.exponent + _exponent(np.abs(weights).max()))
        return scaled


def _exponent(largest: float) -> int:
    """The power of two that brings a number to between 1/2 and 1; 0 where it is none."""
    return math.frexp(largest)[1]
