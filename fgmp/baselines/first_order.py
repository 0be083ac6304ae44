"""Federated first-order methods to compare with: dense, hard-thresholded and soft-thresholded.

In all of them k = 0, ..., K-1 counts the local steps, g is the gradient of a minibatch, S(v, t) is
soft thresholding, H_tau keeps the tau largest entries, and eta_c and eta_s are the learning rates
of client and server.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .._support.validation import validate_integer_field, validate_number_field
from .._support.warnings import warn_of_small_batches
from ..data import Client, ProblemInfo
from ..dictionaries import Atoms, StandardBasis, check_dictionary
from ..method import Exchange, Method
from ..selection import PER_OUTPUT, Selection, check_selection
from ..sparse_model import Array
from ..updates import UpdateSpec


@dataclass(frozen=True, kw_only=True)
class FirstOrder(Method):
    """Take K gradient steps at the clients, and a step along the mean of what they moved.

    This is what the baselines share. A subclass overrides a threshold, at the clients or at the
    server.

    Parameters
    ----------
    learning_rate : float
        eta_c, the client's step size: above 0.
    server_learning_rate : float, default 1.0
        eta_s: above 0; 1 is plain averaging.
    local_iterations : int, default 1
        K, the steps of a client in one round.
    batch_size, dictionary
        As in `FedGradMP`.
    selection : Selection
        What a threshold acts on, and the atoms that none touches, as the intercept: `PerOutput` by
        default.
    """

    learning_rate: float
    local_iterations: int = 1
    batch_size: int | None = None
    server_learning_rate: float = 1.0
    dictionary: Atoms = field(default_factory=StandardBasis)
    selection: Selection = PER_OUTPUT

    def __post_init__(self) -> None:
        validate_number_field(self, "learning_rate", above=0)
        validate_number_field(self, "server_learning_rate", above=0)
        validate_integer_field(self, "local_iterations")
        validate_integer_field(self, "batch_size", optional=True)
        check_dictionary(self.dictionary)
        check_selection(self.selection)

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if the parameters do not fit a problem of that info."""
        self.selection.check(getattr(self, "sparsity", None), info.model_shape)
        warn_of_small_batches(self.batch_size, info.rows)

    def start(self, info: ProblemInfo) -> Array:
        """Return w = 0."""
        return np.zeros(info.model_shape, info.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round: w goes out, and comes back after K steps."""
        exchange = Exchange(lambda w: w, self.client_update, self.server_update, self.update_spec)
        return (exchange,)

    def update_spec(self, w: Array) -> UpdateSpec:
        """Return what an update looks like: a dense model near w."""
        return UpdateSpec(w.shape, w.dtype, near=w)

    def client_update(self, client: Client, w: Array, rng: np.random.Generator) -> Array:
        """Take K steps w <- thresholded(w - eta_c g)."""
        eta_c = float(self.learning_rate)  # a number of NumPy would turn float32 into float64
        for rows in client.minibatches(rng, self.batch_size, self.local_iterations):
            w = self.thresholded(w - eta_c * client.gradient(w, rows))
        return w

    def server_update(self, w: Array, mean: Array) -> Array:
        """Return w + eta_s (mean - w) after the server's threshold."""
        eta_s = float(self.server_learning_rate)
        return self.thresholded_by_server(w + eta_s * (mean - w))

    def thresholded(self, w: Array) -> Array:
        """Return w as it is: no threshold after a client's step."""
        return w

    def thresholded_by_server(self, w: Array) -> Array:
        """Return w as it is: no threshold at the server."""
        return w

    def thresholds(self, rounds: int) -> list[float]:
        """Return the K thresholds before each local step, after `rounds` rounds: all are zero."""
        return [0.0] * self.local_iterations

    @property
    def length(self) -> float:
        """eta_s eta_c K, the length of one round."""
        return float(self.server_learning_rate * self.learning_rate * self.local_iterations)


@dataclass(frozen=True, kw_only=True)
class FedAvg(FirstOrder):
    """Run federated averaging: gradient steps at the clients, and their mean at the server.

    The client takes w <- w - eta_c g, and the server w <- w + eta_s (mean - w).

    Parameters as in `FirstOrder`.

    References
    ----------
    B. McMahan et al., Communication-efficient learning of deep networks from decentralized data,
    AISTATS 2017. With a server learning rate: S. Reddi et al., Adaptive federated optimization,
    ICLR 2021.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> method = fgmp.FedAvg(learning_rate=0.01, local_iterations=5)
    >>> result = fgmp.simulate(method, federation, rounds=20, rng=0)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0]), len(result.support)
    (True, 20)
    """


@dataclass(frozen=True, kw_only=True)
class FedHT(FirstOrder):
    """Run federated hard thresholding: gradient steps at the clients, H_tau at the server.

    Parameters as in `FirstOrder`, and `sparsity`, which is tau. What counts as one of the tau is up
    to `selection`.

    References
    ----------
    Q. Tong et al., Federated optimization of l0-norm regularized sparse learning,
    Algorithms 15(9) 319, 2022.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> method = fgmp.FedHT(sparsity=4, learning_rate=0.01)
    >>> result = fgmp.simulate(method, federation, rounds=20, rng=0)
    >>> len(result.support)
    4
    """

    sparsity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_integer_field(self, "sparsity")

    def thresholded_by_server(self, w: Array) -> Array:
        """Return H_tau(w)."""
        return self.selection.hard(w, self.sparsity)


@dataclass(frozen=True, kw_only=True)
class FedIterHT(FedHT):
    """Run federated iterative hard thresholding: H_tau at the server, and in every client's step.

    The client takes w <- H_tau(w - eta_c g). Parameters as in `FedHT`.

    Examples
    --------
    Each client sends tau entries, with 4 bytes for the index and 8 for the value:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> method = fgmp.FedIterHT(sparsity=3, learning_rate=0.1, local_iterations=10)
    >>> result = fgmp.simulate(method, federation, rounds=1, rng=0)
    >>> int(result.history["bytes_up"][1]) == 5 * 3 * (4 + 8)
    True
    """

    def thresholded(self, w: Array) -> Array:
        """Return H_tau(w)."""
        return self.selection.hard(w, self.sparsity)


@dataclass(frozen=True, kw_only=True)
class L1Penalised(FirstOrder):
    """Hold the weight of a penalty lambda ||x||_1, which several methods share.

    Parameters as in `FirstOrder`, and `l1_weight`, which is lambda: at least 0.
    """

    l1_weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_number_field(self, "l1_weight", at_least=0)


@dataclass(frozen=True, kw_only=True)
class FedMid(L1Penalised):
    """Run federated mirror descent for a penalty lambda ||x||_1: proximal steps on both sides.

    The client takes w <- S(w - eta_c g, eta_c lambda), and the server
    w <- S(w + eta_s (mean - w), eta_s eta_c K lambda). Both thresholds act in every round. With
    K = 1, one client and eta_s = 1 a step is S(w - eta_c g, 2 eta_c lambda), so the method
    minimises f(x) + 2 lambda ||x||_1. That is how its authors define it.

    Parameters as in `FirstOrder`, and `l1_weight`, which is lambda: at least 0.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi, Federated composite optimization, ICML 2021.

    Examples
    --------
    A larger weight of the penalty leaves fewer features:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> sizes = []
    >>> for l1_weight in (0.0, 0.05, 10.0):
    ...     method = fgmp.FedMid(learning_rate=0.1, l1_weight=l1_weight)
    ...     sizes.append(len(fgmp.simulate(method, federation, rounds=50, rng=0).support))
    >>> sizes[0], 0 < sizes[1] < 10, sizes[2]
    (50, True, 0)
    """

    def thresholded(self, w: Array) -> Array:
        """Return S(w, eta_c lambda)."""
        return self.selection.soft(w, float(self.learning_rate * self.l1_weight))

    def thresholded_by_server(self, w: Array) -> Array:
        """Return S(w, eta_s eta_c K lambda)."""
        return self.selection.soft(w, float(self.length * self.l1_weight))
