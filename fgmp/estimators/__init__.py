"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

`linear` holds the two estimators, `sites` the rows of each and what it shows in which units, `sums` what a fit asks of
the sites beside a method's rounds, `fitting` the fit and the path that chooses tau, `resampling` the bootstrap.
``joblib.dump(model, path)`` keeps a fitted one: load only your own files. Importing this room imports scikit-learn.
May import: the ground floor, layers, methods.
"""

from .fitting import SparsityPath
from .linear import FedGradMPClassifier, FedGradMPRegressor
from .resampling import Bootstrap

__all__ = ["Bootstrap", "FedGradMPClassifier", "FedGradMPRegressor", "SparsityPath"]
