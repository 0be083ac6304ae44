"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each."""

from . import datasets, theory
from .aggregated import ConjugateGradients, LocalSteps, NewtonSteps, NormalEquations
from .baselines import FedAvg, FedHT, FedIterHT, FedMid
from .claims import claim
from .datasets import digits_by_writer, make_sensing, make_sparse_regression
from .dictionaries import Dictionary, StandardBasis, approx_tau, gaussian_dictionary
from .dictionary_learning import KSVDFit, fit_ksvd, ksvd
from .dual_averaging import FastFedDualAvg, FedDualAvg
from .federation import Client, Federation
from .fedgradmp import FedGradMP
from .losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from .metrics import accuracy, accuracy_on
from .polish import polish
from .shared_support import SharedSupportGradMP
from .simulate import Result, simulate, stop_at, stop_when_stalled
from .solvers import SGD, SVRG, ConjugateGradient, Exact, GradientDescent, Newton
from .tune import Trial, Tuning, tune

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "SVRG",
    "Client",
    "ConjugateGradient",
    "ConjugateGradients",
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
    "GradientDescent",
    "KSVDFit",
    "LocalSteps",
    "LogisticLoss",
    "Newton",
    "NewtonSteps",
    "NormalEquations",
    "Result",
    "SharedSupportGradMP",
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
