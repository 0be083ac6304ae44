"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each.

A `Federation` holds the data, a method such as `FedGradMP` defines what server and clients send
each other, and `simulate` runs it. The names that most users need are here; `fgmp.theory`,
`fgmp.datasets`, `fgmp.estimators` and `fgmp.flower` have their own.

``import fgmp`` loads NumPy, SciPy and joblib only. What a part of it needs beside these is imported
where it is used, and a message says what to install if it is missing.

The algorithm is that of H. Jeong, D. Needell and J. Qin, Federated Gradient Matching Pursuit, IEEE
Transactions on Information Theory 70(6), 2024; "the paper" is this one in all files. A round t is::

    the server draws a cohort S_t of clients, and sends them the model x_t
    each client i starts from x = x_t and Lambda = supp(x_t), and repeats K times:
        r         = gradient of f_i at x, over a minibatch
        Gamma     = approx_{2 tau}(r), the atoms that matter most
        Gamma-hat = Gamma u Lambda
        b         = argmin of f_i over the span of the atoms of Gamma-hat
        Lambda    = approx_tau(b), and x = Pi_R P_Lambda b, with the ball of radius R if there is one
    the server keeps tau atoms of the weighted mean of what comes back: x_{t+1}

To follow it from the data up to `simulate`, read in this order:

1. `client.py`: the rows of a client, its objective, gradients and minibatches
2. `losses.py`: the objective of a row
3. `sparse_model.py`: a vector, or a matrix, with few entries that are not zero
4. `selection.py`: what counts as one of the tau atoms
5. `dictionaries.py`: atoms, and projection onto a few of them
6. `solvers.py`: the restricted problem, and ways to minimise it
7. `fedgradmp.py`: Algorithms 1 and 2
8. `rounds.py`: the contract of a method, random streams, the loop
9. `aggregation.py`: what an update looks like, and how those of a cohort become one
10. `simulation.py`: `simulate`, and its result

In a simulation `federation.py` holds the rows of all clients, and has each client of a cohort
compute its update. By imports these files lead to two more: `callbacks.py`, which records and
watches a run, and `_support/linear_algebra.py`, which solves small systems.

With Numba, compiled kernels do the clients' work for the methods, losses and data that they stand
for. They select the same but for ties, and agree with these files up to rounding;
``Result.backend`` says what ran, and ``with fgmp.backend("reference"):`` runs the files themselves.
"""

from typing import TYPE_CHECKING, Any

from . import datasets as datasets
from . import theory as theory
from ._compiled import dispatch as _dispatch  # noqa: F401  (registers the kernels of the package)
from ._compiled.registry import backend
from ._support.warnings import AdviceWarning
from .aggregation import (
    Aggregator,
    ClientSampler,
    Mean,
    PrivacyMechanism,
    RejectReason,
    UpdateSpec,
)
from .baselines.dual_averaging import FastFedDualAvg, FedDualAvg
from .baselines.first_order import FedAvg, FedHT, FedIterHT, FedMid
from .callbacks import Bar, Callback, Checkpoint, History, Run, stop_at, stop_when_stalled
from .classification_losses import LogisticLoss, SoftmaxLoss
from .client import Client, ProblemInfo
from .datasets import digits_by_writer, make_sparse_regression
from .datasets.synthetic import gaussian_dictionary
from .dictionaries import Atoms, Dictionary, StandardBasis
from .dictionary_learning import ksvd
from .faults import Corrupted, DropOut, Faulty
from .federation import Federation
from .fedgradmp import FedGradMP
from .joint_selection import Overall, PerAtom
from .losses import Loss, SquaredLoss
from .metrics import accuracy_on
from .privacy.ledger import Ledger
from .privacy.noise import GaussianNoise
from .privacy.secure_sums import SecureSum
from .robust import Median, TrimmedMean
from .rounds import Exchange, Method, Transport
from .selection import PerOutput, Selection
from .shared_support.method import SharedSupportGradMP
from .shared_support.newton import LocalSteps, NewtonOnSupport, SupportSolver
from .shared_support.polishing import polish
from .shared_support.sketches import CountSketch, LargestEntries
from .simulation import RecordedModel, Result, simulate
from .solvers import SGD, Exact, GradientDescent, Newton, RestrictedProblem, Solver
from .sparse_model import SparseModel
from .tuning import tune

if TYPE_CHECKING:
    from .estimators import FedGradMPClassifier, FedGradMPRegressor

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdviceWarning",
    "Aggregator",
    "Atoms",
    "Bar",
    "Callback",
    "Checkpoint",
    "Client",
    "ClientSampler",
    "Corrupted",
    "CountSketch",
    "Dictionary",
    "DropOut",
    "Exact",
    "Exchange",
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
    "Ledger",
    "LocalSteps",
    "LogisticLoss",
    "Loss",
    "Mean",
    "Median",
    "Method",
    "Newton",
    "NewtonOnSupport",
    "Overall",
    "PerAtom",
    "PerOutput",
    "PrivacyMechanism",
    "ProblemInfo",
    "RecordedModel",
    "RejectReason",
    "RestrictedProblem",
    "Result",
    "Run",
    "SecureSum",
    "Selection",
    "SharedSupportGradMP",
    "SoftmaxLoss",
    "Solver",
    "SparseModel",
    "SquaredLoss",
    "StandardBasis",
    "SupportSolver",
    "Transport",
    "TrimmedMean",
    "UpdateSpec",
    "accuracy_on",
    "backend",
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
    """Return an estimator at its first use: scikit-learn takes a second to import."""
    if name in ("FedGradMPClassifier", "FedGradMPRegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, with the estimators also before their first use."""
    return __all__
