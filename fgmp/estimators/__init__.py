"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

`linear` holds the two estimators and `base` what they share; `sites` holds rows and the sums that each site sends once,
`problem` makes them a federation in standardised units, `fitting` is one fit, `sparsity_path` chooses tau, and
`resampling` is the bootstrap. ``joblib.dump(model, path)`` keeps a fitted one, and ``joblib.load(path)`` brings it
back: open only your own files, because loading one runs what is in it. Importing this room imports scikit-learn;
importing `fgmp` does not.

May import: the ground floor, methods, running.
"""

from .linear import FedGradMPClassifier, FedGradMPRegressor
from .resampling import Bootstrap
from .sparsity_path import SparsityPath

__all__ = [
    "Bootstrap",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "SparsityPath",
]
