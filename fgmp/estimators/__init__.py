"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

`linear` holds the two estimators and `base` what they share; `sites` turns rows and groups into a federation from sums
that each site sends once, `fitting` is one fit, `sparsity_path` chooses tau, `resampling` is the bootstrap, and
`written_models` a fitted model as a file. Importing this room imports scikit-learn; importing `fgmp` does not.

May import: the ground floor, methods, running.
"""

from .linear import FedGradMPClassifier, FedGradMPRegressor
from .resampling import Bootstrap
from .sparsity_path import SparsityPath
from .written_models import load_model, model_of, predict_rows, save_model

__all__ = [
    "Bootstrap",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "SparsityPath",
    "load_model",
    "model_of",
    "predict_rows",
    "save_model",
]
