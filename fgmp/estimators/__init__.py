"""Estimators with scikit-learn's manners: tables in, one client per group, coefficients in the units of the table out.

``model.to_json()`` keeps a fitted one, and `model_from_json` reads it: numbers and names, which run nothing.
"""

from typing import TYPE_CHECKING, Any

from .._support.optional import needs

if TYPE_CHECKING:
    from .linear import Bootstrap, FedGradMPClassifier, FedGradMPRegressor, SparsityPath
    from .model_files import model_from_json

__all__ = [
    "Bootstrap",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "SparsityPath",
    "model_from_json",
]


def __getattr__(name: str) -> Any:
    """At first use: they import scikit-learn, which a site over Flower would wait for with each message."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(f"fgmp.estimators.{name}", "scikit-learn", "narwhals"):
        from . import linear, model_files

    return getattr(model_files if name == "model_from_json" else linear, name)
