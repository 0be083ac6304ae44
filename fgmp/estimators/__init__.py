"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

`linear` holds the two estimators; `problem` makes a federation in standardised units of a table and the sums that each
site sends once, `fitting` is one fit and the path that chooses tau, `resampling` is the bootstrap.
``joblib.dump(model, path)`` keeps a fitted one: load only your own files. Importing this room imports scikit-learn.
May import: the ground floor, methods.
"""

from .fitting import SparsityPath
from .linear import FedGradMPClassifier, FedGradMPRegressor
from .resampling import Bootstrap

__all__ = ["Bootstrap", "FedGradMPClassifier", "FedGradMPRegressor", "SparsityPath"]
