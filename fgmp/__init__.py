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
    `Federation`, by ``from_arrays`` or ``from_frame``; `make_sparse_regression`,
    `digits_by_writer`; ``fgmp.datasets`` has downloads and clips
choose a loss
    `SquaredLoss`, `LogisticLoss`, `SoftmaxLoss`, `PoissonLoss`
choose a method
    `FedGradMP`, `SharedSupportGradMP` (for clients with few rows); to compare with: `FedAvg`,
    `FedHT`, `FedIterHT`, `FedMid`, `FedDualAvg`, `FastFedDualAvg`
choose how a client minimises
    `Exact`, `GradientDescent`, `Newton`, `SGD`
run it
    `simulate`, `polish`, `tune`; `backend` chooses between compiled and readable code; warnings of
    a run are of the category `AdviceWarning`
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
add your own
    `Loss`, `Method` with `Exchange` and `UpdateSpec`, `Solver`, `Aggregator`, `Callback`,
    `Transport`
deploy
    ``fgmp.flower``: the same over machines; on the command line ``fgmp predict``, ``fgmp data``
what the theory says of your data
    ``fgmp.theory``

Some classes are documented in their modules alone, such as `fgmp.recording.Result`, which a run
returns, or `fgmp.selection.Selection`, the base of what is counted; ``fgmp.Result`` works, too.

``import fgmp`` loads the algorithm, and with it NumPy and SciPy only; all other names are
imported at their first use, and a message says what to install if a package is missing. With Numba
installed (the extra ``fast``) the first run that is not short (`fgmp.backend`) compiles its loops,
which takes some 15 seconds once: they are kept for later runs, and a line at the terminal says so.

The algorithm is that of H. Jeong, D. Needell and J. Qin, Federated Gradient Matching Pursuit, IEEE
Transactions on Information Theory 70(6), 2024; "the paper" is this one in all files. A round t is::

    the server draws a cohort S_t of clients, and sends them the model x_t
    each client i starts from x = x_t and Lambda = supp(x_t), and repeats K times:
        r         = gradient of f_i at x, over a minibatch
        Gamma     = approx_{2 tau}(r): of orthonormal atoms the 2 tau with the largest |<a_j, r>|
        Gamma-hat = Gamma u Lambda
        b         = argmin of f_i, over all its rows, in the span of the atoms of Gamma-hat
        Lambda    = approx_tau(b), and x = Pi_R P_Lambda b, with a ball of radius R if there is one
    the server keeps tau atoms of the weighted mean of what comes back, within the ball: x_{t+1}

For losses other than the squared one a client does not go to b, but by default one step towards it.
To record a run, `simulate` also asks all clients, or those that `History` names, for f_i(x_{t+1}).

Here tau is the number of atoms of a model, its `sparsity`; P_Lambda is the projection onto the span
of the atoms Lambda, and Pi_R the projection onto the ball. `FedGradMP.client_update` has the lines
of a client, `server_update` that of the server, and `simulation.run_round` calls both. **The files
at the top of the package are the algorithm**, and import no folder but ``_support``, which has
helpers: validation, warnings, and linear algebra, such as least squares and matching pursuit. If
you know the paper, begin with `fedgradmp.py`, which has its lines; if you know federated learning,
begin with `run_round` in `simulation.py`. Look up the rest. To follow the algorithm from the data
up to `simulate`, read in this order:

1. `sparse_model.py`: a vector, or a matrix, with few entries that are not zero
2. `losses.py`: the objective of a row
3. `data.py`: who holds which rows, the objective of a client, its gradients and minibatches
4. `selection.py`: what counts as one of the tau atoms
5. `dictionaries.py`: atoms, and projection onto a few of them
6. `solvers.py`: the restricted problem, and how a client minimises it
7. `updates.py`: what a client sends, why an update is rejected, the updates of a cohort
8. `method.py`: what a method is, keyed random streams, what a run asks of a transport
9. `fedgradmp.py`: Algorithms 1 and 2, what a client does in a round, and then the server
10. `aggregation.py`: whom the server asks, what it sees, and how updates become one
11. `recording.py`: runs in progress, what they record, and their results
12. `simulation.py`: the clients of this process, a round, `simulate`

`simulate` calls the `client_update` of an exchange through `run_round`,
`PrivacyMechanism.run_and_collect`, `LocalClients.run_clients` and `Call.update_of`. If
`run_clients` finds a compiled kernel that does the same, it calls that. Two files are left:
`backends.py`, by which kernels are found, and `baselines.py`, the methods to compare with.

The folders below are for particular needs. The files above import none of them, except that the
first run asks ``fast`` for a kernel:

``run``
    callbacks, faults, a grid search, metrics, two more selections, messages and methods as JSON
``fast``
    compiled kernels, with Numba. They compute the updates of clients for the methods, losses and
    data that they were written for, select the same atoms except for ties, and agree with the files
    above up to rounding. ``Result.backend`` says what ran, and ``with fgmp.backend("reference"):``
    runs the files themselves.
``shared_support``
    this project's own method, and `polish`
``privacy``
    noise, secure sums, and the ledger of released sums
``estimators``
    for a table and hospitals: estimators, and what they report
``flower``
    the same over machines
``theory``, ``datasets``
    what the theorems assume, measured; data for experiments, and learned dictionaries
``cli``
    the command line
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# `X as X` is a name that few people type: it works, and its module documents it.
from ._support.warnings import AdviceWarning
from .aggregation import Aggregator, Mean, Median, TrimmedMean
from .aggregation import ClientSampler as ClientSampler
from .aggregation import PrivacyMechanism as PrivacyMechanism
from .backends import backend
from .baselines import FastFedDualAvg, FedAvg, FedDualAvg, FedHT, FedIterHT, FedMid
from .data import Client as Client
from .data import Federation
from .data import ProblemInfo as ProblemInfo
from .dictionaries import Atoms as Atoms
from .dictionaries import Dictionary, StandardBasis
from .fedgradmp import FedGradMP
from .losses import LogisticLoss, Loss, PoissonLoss, SoftmaxLoss, SquaredLoss
from .method import Exchange, Method, Transport
from .recording import Callback, History
from .recording import RecordedModel as RecordedModel
from .recording import Result as Result
from .recording import Run as Run
from .selection import PerAtom, PerOutput
from .selection import Selection as Selection
from .simulation import LocalClients as LocalClients
from .simulation import simulate
from .solvers import SGD, Exact, GradientDescent, Newton, Solver
from .solvers import RestrictedProblem as RestrictedProblem
from .sparse_model import SparseModel as SparseModel
from .updates import RejectReason as RejectReason
from .updates import UpdateSpec

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import theory as theory
    from .datasets import digits_by_writer, make_sparse_regression
    from .datasets.dictionary_learning import ksvd
    from .datasets.synthetic import gaussian_dictionary
    from .estimators import FedGradMPClassifier, FedGradMPRegressor
    from .privacy.ledger import Ledger
    from .privacy.noise import GaussianNoise
    from .privacy.secure_sums import SecureSum
    from .run.callbacks import Bar, Checkpoint, stop_at, stop_when_stalled
    from .run.faults import Corrupted, DropOut, Faulty
    from .run.joint_selection import Overall, PerBlock
    from .run.metrics import accuracy_on
    from .run.tuning import tune
    from .shared_support.method import SharedSupportGradMP
    from .shared_support.newton import LocalSteps as LocalSteps
    from .shared_support.newton import NewtonOnSupport as NewtonOnSupport
    from .shared_support.newton import SupportSolver as SupportSolver
    from .shared_support.polishing import polish
    from .shared_support.sketches import CountSketch as CountSketch
    from .shared_support.sketches import LargestEntries as LargestEntries

__version__ = "0.2.0"

__all__ = [
    "SGD",
    "AdviceWarning",
    "Aggregator",
    "Bar",
    "Callback",
    "Checkpoint",
    "Corrupted",
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
    "Ledger",
    "LogisticLoss",
    "Loss",
    "Mean",
    "Median",
    "Method",
    "Newton",
    "Overall",
    "PerAtom",
    "PerBlock",
    "PerOutput",
    "PoissonLoss",
    "SecureSum",
    "SharedSupportGradMP",
    "SoftmaxLoss",
    "Solver",
    "SquaredLoss",
    "StandardBasis",
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

_FOLDERS = ("cli", "datasets", "estimators", "flower", "privacy", "run", "shared_support", "theory")

# The names of the folders, by the module that has them: imported at their first use.
_NAMES_OF_FOLDERS = {
    "datasets": ("digits_by_writer", "make_sparse_regression"),
    "datasets.dictionary_learning": ("ksvd",),
    "datasets.synthetic": ("gaussian_dictionary",),
    "estimators": ("FedGradMPClassifier", "FedGradMPRegressor"),
    "privacy.ledger": ("Ledger",),
    "privacy.noise": ("GaussianNoise",),
    "privacy.secure_sums": ("SecureSum",),
    "run.callbacks": ("Bar", "Checkpoint", "stop_at", "stop_when_stalled"),
    "run.faults": ("Corrupted", "DropOut", "Faulty"),
    "run.joint_selection": ("Overall", "PerBlock"),
    "run.metrics": ("accuracy_on",),
    "run.tuning": ("tune",),
    "shared_support.method": ("SharedSupportGradMP",),
    "shared_support.newton": ("LocalSteps", "NewtonOnSupport", "SupportSolver"),
    "shared_support.polishing": ("polish",),
    "shared_support.sketches": ("CountSketch", "LargestEntries"),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF_FOLDERS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return a folder, or a name of one, at its first use."""
    if name in _FOLDERS:
        return import_module(f"fgmp.{name}")
    if name in _MODULE_OF:
        return getattr(import_module(f"fgmp.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names that people type, the folders and the version."""
    return [*__all__, *_FOLDERS, "__version__"]
