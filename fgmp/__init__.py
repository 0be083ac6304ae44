"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each.

`Federation` holds the data, a method such as `FedGradMP` says what travels, and `simulate` runs it. All public names
are here, but for those of `fgmp.theory` and `fgmp.datasets`; README.md says which room does what.
"""

from typing import TYPE_CHECKING, Any

from . import datasets, theory
from .advice import (
    AdviceWarning,
    CheckpointWarning,
    FewRowsWarning,
    InterruptedWarning,
    RehearsalWarning,
    RisingObjectiveWarning,
    SeparationWarning,
    SmallSiteWarning,
)
from .approximation import approx_tau
from .datasets import digits_by_writer, make_sensing, make_sparse_regression
from .dictionaries import Dictionary, StandardBasis, gaussian_dictionary
from .dictionary_learning import KSVDFit, fit_ksvd, ksvd
from .federation import Client, Federation
from .local.solvers import SGD, SVRG, ConjugateGradient, Exact, GradientDescent, Newton
from .losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from .methods.baselines import FedAvg, FedHT, FedIterHT, FedMid
from .methods.combination import Mean, Median, TrimmedMean
from .methods.dual_averaging import FastFedDualAvg, FedDualAvg
from .methods.fedgradmp import FedGradMP
from .methods.identification import CountSketch, LargestEntries
from .methods.local_averages import LocalSteps
from .methods.pooled_least_squares import NormalEquations, PooledConjugateGradient
from .methods.pooled_newton import PooledNewton
from .methods.shared_support import SharedSupportGradMP
from .methods.written import Written, from_json, to_json
from .running.faults import DropOut
from .running.loop import federate
from .running.metrics import accuracy, accuracy_on
from .running.polishing import polish
from .running.privacy import GaussianNoise
from .running.results import Best, Result
from .running.secure_sums import SecureSum
from .running.simulation import simulate
from .running.stopping import stop_at, stop_when_stalled
from .running.tuning import Trial, Tuning, tune
from .selection import Overall, PerAtom, PerOutput
from .shapes import Shape

if TYPE_CHECKING:
    from .estimators import FedGradMPClassifier, FedGradMPRegressor

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "SVRG",
    "AdviceWarning",
    "Best",
    "CheckpointWarning",
    "Client",
    "ConjugateGradient",
    "CountSketch",
    "Dictionary",
    "DropOut",
    "Exact",
    "FastFedDualAvg",
    "FedAvg",
    "FedDualAvg",
    "FedGradMP",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "FedHT",
    "FedIterHT",
    "FedMid",
    "Federation",
    "FewRowsWarning",
    "GaussianNoise",
    "GradientDescent",
    "InterruptedWarning",
    "KSVDFit",
    "LargestEntries",
    "LocalSteps",
    "LogisticLoss",
    "Mean",
    "Median",
    "Newton",
    "NormalEquations",
    "Overall",
    "PerAtom",
    "PerOutput",
    "PooledConjugateGradient",
    "PooledNewton",
    "RehearsalWarning",
    "Result",
    "RisingObjectiveWarning",
    "SecureSum",
    "SeparationWarning",
    "Shape",
    "SharedSupportGradMP",
    "SmallSiteWarning",
    "SoftmaxLoss",
    "SquaredLoss",
    "StandardBasis",
    "Trial",
    "TrimmedMean",
    "Tuning",
    "Written",
    "accuracy",
    "accuracy_on",
    "approx_tau",
    "datasets",
    "digits_by_writer",
    "federate",
    "fit_ksvd",
    "from_json",
    "gaussian_dictionary",
    "ksvd",
    "make_sensing",
    "make_sparse_regression",
    "polish",
    "simulate",
    "stop_at",
    "stop_when_stalled",
    "theory",
    "to_json",
    "tune",
]


def __getattr__(name: str) -> Any:
    """The estimators, at first use: they import scikit-learn, which takes a second."""
    if name in ("FedGradMPClassifier", "FedGradMPRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
