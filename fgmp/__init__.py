"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each."""

from . import datasets, theory
from .advice import AdviceWarning, FewRowsWarning, RisingObjectiveWarning, SeparationWarning, SmallSiteWarning
from .approximation import approx_tau
from .book.claims import claim
from .datasets import digits_by_writer, make_sensing, make_sparse_regression
from .dictionaries import Dictionary, StandardBasis, gaussian_dictionary
from .dictionary_learning import KSVDFit, fit_ksvd, ksvd
from .federation import Client, Federation
from .local.solvers import SGD, SVRG, ConjugateGradient, Exact, GradientDescent, Newton
from .losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from .methods.baselines import FedAvg, FedHT, FedIterHT, FedMid
from .methods.dual_averaging import FastFedDualAvg, FedDualAvg
from .methods.fedgradmp import FedGradMP
from .methods.local_averages import LocalSteps
from .methods.pooled_least_squares import NormalEquations, PooledConjugateGradient
from .methods.pooled_newton import PooledNewton
from .methods.shared_support import SharedSupportGradMP
from .running.metrics import accuracy, accuracy_on
from .running.polishing import polish
from .running.simulation import Best, Result, simulate, stop_at, stop_when_stalled
from .running.tuning import Trial, Tuning, tune
from .selection import Overall, PerAtom, PerOutput

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "SVRG",
    "AdviceWarning",
    "Best",
    "Client",
    "ConjugateGradient",
    "Dictionary",
    "Exact",
    "FastFedDualAvg",
    "FedAvg",
    "FedDualAvg",
    "FedGradMP",
    "FedHT",
    "FedIterHT",
    "FedMid",
    "Federation",
    "FewRowsWarning",
    "GradientDescent",
    "KSVDFit",
    "LocalSteps",
    "LogisticLoss",
    "Newton",
    "NormalEquations",
    "Overall",
    "PerAtom",
    "PerOutput",
    "PooledConjugateGradient",
    "PooledNewton",
    "Result",
    "RisingObjectiveWarning",
    "SeparationWarning",
    "SharedSupportGradMP",
    "SmallSiteWarning",
    "SoftmaxLoss",
    "SquaredLoss",
    "StandardBasis",
    "Trial",
    "Tuning",
    "accuracy",
    "accuracy_on",
    "approx_tau",
    "claim",
    "datasets",
    "digits_by_writer",
    "fit_ksvd",
    "gaussian_dictionary",
    "ksvd",
    "make_sensing",
    "make_sparse_regression",
    "polish",
    "simulate",
    "stop_at",
    "stop_when_stalled",
    "theory",
    "tune",
]
