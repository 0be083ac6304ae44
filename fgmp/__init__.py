"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each.

`Federation` holds the data, a method such as `FedGradMP` says what travels, and `simulate` runs it. All public names
are here, but for those of `fgmp.theory` and `fgmp.datasets`; README.md says which room does what.
"""

from typing import TYPE_CHECKING, Any

from . import datasets as datasets
from . import theory as theory
from ._support.warnings import AdviceWarning
from .aggregation import Mean
from .baselines.dual_averaging import FastFedDualAvg, FedDualAvg
from .baselines.first_order import FedAvg, FedHT, FedIterHT, FedMid
from .callbacks import Checkpoint, History, stop_at, stop_when_stalled
from .datasets import digits_by_writer, make_sparse_regression
from .dictionaries import Dictionary, gaussian_dictionary
from .dictionary_learning import ksvd
from .faults import DropOut, Faulty
from .federation import Federation
from .fedgradmp import FedGradMP
from .losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from .metrics import accuracy_on
from .privacy.noise import GaussianNoise
from .privacy.secure_sums import SecureSum
from .robust import Median, TrimmedMean
from .selection import PerAtom, PerOutput
from .shared_support.method import CountSketch, LargestEntries, SharedSupportGradMP
from .shared_support.newton import NewtonOnSupport
from .shared_support.polishing import polish
from .simulation import simulate
from .solvers import SGD, Exact, GradientDescent, Newton
from .tuning import tune

if TYPE_CHECKING:
    from .estimators import FedGradMPClassifier, FedGradMPRegressor

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdviceWarning",
    "Checkpoint",
    "CountSketch",
    "Dictionary",
    "DropOut",
    "Exact",
    "FastFedDualAvg",
    "Faulty",
    "FedAvg",
    "FedDualAvg",
    "FedGradMP",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "FedHT",
    "FedIterHT",
    "FedMid",
    "Federation",
    "GaussianNoise",
    "GradientDescent",
    "History",
    "LargestEntries",
    "LogisticLoss",
    "Mean",
    "Median",
    "Newton",
    "NewtonOnSupport",
    "PerAtom",
    "PerOutput",
    "SecureSum",
    "SharedSupportGradMP",
    "SoftmaxLoss",
    "SquaredLoss",
    "TrimmedMean",
    "accuracy_on",
    "digits_by_writer",
    "gaussian_dictionary",
    "ksvd",
    "make_sparse_regression",
    "polish",
    "simulate",
    "stop_at",
    "stop_when_stalled",
    "tune",
]


def __getattr__(name: str) -> Any:
    """The estimators, at first use: they import scikit-learn, which takes a second."""
    if name in ("FedGradMPClassifier", "FedGradMPRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, the estimators among them before their first use."""
    return __all__
