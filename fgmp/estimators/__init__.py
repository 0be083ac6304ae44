"""Estimators with the interface of scikit-learn: tables in, coefficients in their units out.

Each group of rows is one client. `FedGradMPRegressor` and `FedGradMPClassifier` stand in `linear`.
Behind ``model.fit``, `training` leads from rows to fitted attributes: `inputs` reads and checks the
rows, `defaults` says what the parameters (`parameters`) come to, `fitting` has the stages of a fit
in their order, and `advice` what is said of it. What is asked of clients is declared in
`client_sums`. ``model.to_json()`` keeps a fitted model, and `model_from_json` reads it: numbers and
names, which run no code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._support.optional import needs

if TYPE_CHECKING:
    from .bootstrap import Bootstrap
    from .encoding import Encoding
    from .internal_external import Validation
    from .linear import FedGradMPClassifier, FedGradMPRegressor, model_from_json
    from .performance import Performance
    from .report import FitReport
    from .selection_path import SparsityPath
    from .summary import Summary

__all__ = [
    "Bootstrap",
    "Encoding",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "FitReport",
    "Performance",
    "SparsityPath",
    "Summary",
    "Validation",
    "model_from_json",
]

# The modules of the names that `linear` itself has no use for.
_ELSEWHERE = {"Encoding": "encoding", "SparsityPath": "selection_path"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use.

    The estimators import scikit-learn, and a client over Flower, which imports this package and not
    them, would wait for that with each message.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(f"fgmp.estimators.{name}", "scikit-learn", "narwhals", "tqdm"):
        module = import_module(f"fgmp.estimators.{_ELSEWHERE.get(name, 'linear')}")
    return getattr(module, name)
