"""Federations and signals to work on: synthetic, embedded, and from files of the user."""

from .synthetic import GaussianRows, make_sensing, make_sparse_regression

__all__ = ["GaussianRows", "make_sensing", "make_sparse_regression"]
