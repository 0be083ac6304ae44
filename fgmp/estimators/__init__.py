"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

``joblib.dump(model, path)`` keeps a fitted one: load only your own files.
May import: the ground floor, layers, methods.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .linear import Bootstrap, FedGradMPClassifier, FedGradMPRegressor, SparsityPath

__all__ = ["Bootstrap", "FedGradMPClassifier", "FedGradMPRegressor", "SparsityPath"]


def __getattr__(name: str) -> Any:
    """At first use: they import scikit-learn, which a site over Flower would wait for with each message."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import linear

    return getattr(linear, name)
