"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

`linear` holds the two estimators, `sites` the rows of each and what it shows in which units, `sums` what a fit asks of
the sites beside a method's rounds, `fitting` the fit and the path that chooses tau, `resampling` the bootstrap.
``joblib.dump(model, path)`` keeps a fitted one: load only your own files.
May import: the ground floor, layers, methods.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fitting import SparsityPath
    from .linear import FedGradMPClassifier, FedGradMPRegressor
    from .resampling import Bootstrap

__all__ = ["Bootstrap", "FedGradMPClassifier", "FedGradMPRegressor", "SparsityPath"]


def __getattr__(name: str) -> Any:
    """At first use: they import scikit-learn, which a site over Flower would wait for with each message."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import fitting, linear, resampling

    return next(getattr(part, name) for part in (fitting, linear, resampling) if name in part.__all__)
