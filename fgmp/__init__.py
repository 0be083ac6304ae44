"""Federated gradient matching pursuit: sparse models from many clients that hold few samples each.

A table, with a column that says where each row came from
---------------------------------------------------------
>>> import numpy as np
>>> import fgmp
>>> rng = np.random.default_rng(0)
>>> X, site = rng.standard_normal((400, 12)), rng.integers(5, size=400)
>>> y = np.where(2 * X[:, 1] - 2 * X[:, 5] + rng.logistic(size=400) > 0, "ill", "well")
>>> model = fgmp.FedGradMPClassifier(sparsity="cv", random_state=0).fit(X, y, groups=site)
>>> model.support_.tolist()
[1, 5]

The algorithm itself, on data whose truth is known
--------------------------------------------------
>>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
>>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
>>> bool(result.history["relative_error"][-1] < 1e-12)
True
>>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
True

By task; ``help(fgmp.simulate)`` and so on have the parameters, units, errors and an example
--------------------------------------------------------------------------------------------
fit a table
    `FedGradMPClassifier`, `FedGradMPRegressor`: scikit-learn estimators; ``fgmp.estimators`` has
    what they return, such as a `Bootstrap`
make a federation
    ``Federation.from_arrays``, ``Federation.from_frame``, `make_sparse_regression`,
    `digits_by_writer`; ``fgmp.datasets`` has downloads and clips
choose a method
    `FedGradMP`, `SharedSupportGradMP` (for clients with few rows); to compare with: `FedAvg`,
    `FedHT`, `FedIterHT`, `FedMid`, `FedDualAvg`, `FastFedDualAvg`
run it
    `simulate`, `polish`, `tune`; `backend` chooses between compiled and readable code
look at it
    `History`, `Bar`, ``result.history``, ``result.best``, `accuracy_on`
stop, keep and resume it
    `stop_at`, `stop_when_stalled`, `Checkpoint`
choose a basis and what is counted
    `StandardBasis`, `Dictionary`, `gaussian_dictionary`, `ksvd`; `PerOutput`, `PerAtom`,
    `PerBlock`, `Overall`
decide what the server sees, and what it does with it
    `Mean`, `Median`, `TrimmedMean`, `SecureSum`, `GaussianNoise` (with its `Ledger`)
try failing clients
    `Faulty` with `DropOut` and `Corrupted`
add a loss, a method, a solver
    `Loss`, `Method` with `Exchange` and `UpdateSpec`, `Solver`
deploy
    ``fgmp.flower``: the same over machines; on the command line ``fgmp predict``, ``fgmp data``
what the theory says of your data
    ``fgmp.theory``

``import fgmp`` loads NumPy, SciPy and joblib only. What a part of it needs beside these is imported
where it is used, and a message says what to install if it is missing. With Numba installed (the
extra ``fast``) the first call compiles its loops, some 15 seconds, once: they are kept for the next
time, and a line at the terminal says so.

The algorithm is that of H. Jeong, D. Needell and J. Qin, Federated Gradient Matching Pursuit, IEEE
Transactions on Information Theory 70(6), 2024; "the paper" is this one in all files. A round t is::

    the server draws a cohort S_t of clients, and sends them the model x_t
    each client i starts from x = x_t and Lambda = supp(x_t), and repeats K times:
        r         = gradient of f_i at x, over a minibatch
        Gamma     = approx_{2 tau}(r), the 2 tau atoms with the largest inner products with r
        Gamma-hat = Gamma u Lambda
        b         = argmin of f_i, over all its rows, in the span of the atoms of Gamma-hat
        Lambda    = approx_tau(b), and x = Pi_R P_Lambda b, with a ball of radius R if there is one
    the server keeps tau atoms of the weighted mean of what comes back, within the ball: x_{t+1}

with tau, the `sparsity`, the number of atoms of a model, P_Lambda the projection onto the span of
the atoms Lambda, and Pi_R that onto the ball. `FedGradMP.client_update` and `rounds.run_round` are
these lines, fifty in all. To follow them from the data up to `simulate`, read in this order:

1. `sparse_model.py`: a vector, or a matrix, with few entries that are not zero
2. `losses.py`: the objective of a row
3. `client.py`: the rows of a client, its objective, gradients and minibatches
4. `selection.py`: what counts as one of the tau atoms
5. `dictionaries.py`: atoms, and projection onto a few of them
6. `solvers.py`: the restricted problem, and how a client minimises it
7. `aggregation.py`: what an update looks like, and how those of a cohort become one
8. `rounds.py`: the contract of a method, random streams, the loop
9. `fedgradmp.py`: Algorithm 1 (b is the minimiser) and Algorithm 2 (b is within delta of it)
10. `simulation.py`: `simulate`

In a simulation `federation.py` holds the rows of all clients, and `compute_updates` in
`_compiled/registry.py` is the loop over those of a cohort, or one kernel in its place. Besides
checks of arguments and updates, and warnings, the path leads by imports to two more files:
`recording.py`, what a run records and returns, and on which clients objectives are evaluated, and
`_support/linear_algebra.py`, which solves small systems. What a reader of the two algorithms does
not need is beside it: `classification_losses.py`, `joint_selection.py`, `matrix_dictionary.py`,
`descent.py` (solvers with a line search, or with second derivatives), `robust.py`, `faults.py`,
`transport.py`, `update_validation.py`, and `callbacks.py`, which stops, shows and keeps a run.

With Numba, compiled kernels do the clients' work for the methods, losses and data that they stand
for. They select the same but for ties, and agree with these files up to rounding;
``Result.backend`` says what ran, and ``with fgmp.backend("reference"):`` runs the files themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import datasets as datasets
from . import theory as theory
from ._support.warnings import AdviceWarning
from .aggregation import Aggregator, ClientSampler, Mean, PrivacyMechanism
from .backends import backend
from .baselines.dual_averaging import FastFedDualAvg, FedDualAvg
from .baselines.first_order import FedAvg, FedHT, FedIterHT, FedMid
from .callbacks import Bar, Checkpoint, stop_at, stop_when_stalled
from .classification_losses import LogisticLoss, SoftmaxLoss
from .count_losses import PoissonLoss
from .data import Client, Federation, ProblemInfo
from .datasets import digits_by_writer, make_sparse_regression
from .datasets.synthetic import gaussian_dictionary
from .dictionaries import Atoms, StandardBasis
from .dictionary_learning import ksvd
from .faults import Corrupted, DropOut, Faulty
from .fedgradmp import FedGradMP
from .joint_selection import Overall, PerAtom, PerBlock
from .losses import Loss, SquaredLoss
from .matrix_dictionary import Dictionary
from .method import Exchange, Method, Transport
from .metrics import accuracy_on
from .privacy.ledger import Ledger
from .privacy.noise import GaussianNoise
from .privacy.secure_sums import SecureSum
from .recording import Callback, History, RecordedModel, Result, Run
from .robust import Median, TrimmedMean
from .selection import PerOutput, Selection
from .shared_support.method import SharedSupportGradMP
from .shared_support.newton import LocalSteps, NewtonOnSupport, SupportSolver
from .shared_support.polishing import polish
from .shared_support.sketches import CountSketch, LargestEntries
from .simulation import LocalClients, simulate
from .solvers import SGD, Exact, GradientDescent, Newton, RestrictedProblem, Solver
from .sparse_model import SparseModel
from .tuning import tune
from .updates import RejectReason, UpdateSpec

if TYPE_CHECKING:
    from .estimators import FedGradMPClassifier, FedGradMPRegressor

__version__ = "0.2.0"

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
    "LocalClients",
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
    "PerBlock",
    "PerOutput",
    "PoissonLoss",
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


# Imported at their first use: scikit-learn takes a second to load, and Flower more.
_ESTIMATORS = ("FedGradMPClassifier", "FedGradMPRegressor")
_LAZY_PACKAGES = ("estimators", "flower")
_EAGER_PACKAGES = ("datasets", "theory")


def __getattr__(name: str) -> Any:
    """Return an estimator, or a subpackage, at its first use."""
    if name in _ESTIMATORS:
        return getattr(import_module("fgmp.estimators"), name)
    if name in _LAZY_PACKAGES:
        return import_module(f"fgmp.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, with what is imported at its first use."""
    return [*__all__, *_EAGER_PACKAGES, *_LAZY_PACKAGES, "__version__"]
