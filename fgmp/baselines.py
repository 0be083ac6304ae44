"""Baselines: federated first-order methods to compare with.

They are dense, hard-thresholded or soft-thresholded. Dual averaging, plain and fast, sums up
gradients, and takes each new gradient at the thresholded sum. None of them reduces the
variance of minibatches: SAG and SVRG, which the paper names among the solvers of a client (Section
IV-A), are not implemented, neither here nor in `fgmp.solvers`.

In all of them x is the model, k = 0, ..., K-1 counts the local steps, g(x) is the gradient of a
minibatch, S(v, t) is soft thresholding of v by t, H_tau keeps the tau largest entries, and eta_c
and eta_s are the learning rates of client and server (the eta_1, eta_2 and eta_3 of the paper are
something else, see `fgmp.dictionaries`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ._support.validation import validate_integer_field, validate_number_field
from ._support.warnings import check_batch_size
from .data import Client, ProblemInfo
from .dictionaries import Atoms, StandardBasis, check_dictionary
from .method import Exchange, Method
from .selection import PER_OUTPUT, Selection, check_selection
from .sparse_model import Array
from .updates import UpdateSpec


@dataclass(frozen=True, kw_only=True)
class Baseline(Method):
    """The parameters that all baselines have, and their checks.

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
        What a threshold acts on, and the atoms that no threshold changes, such as the intercept:
        `PerOutput` by default.
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
        """Raise a ValueError if the parameters do not fit a problem."""
        self.selection.check(None, info.model_shape)
        check_batch_size(self.batch_size, info.n_rows)

    @property
    def length(self) -> float:
        """eta_s eta_c K, the length of one round."""
        return float(self.server_learning_rate * self.learning_rate * self.local_iterations)


@dataclass(frozen=True, kw_only=True)
class FedAvg(Baseline):
    """Run federated averaging: gradient steps at the clients, and their mean at the server.

    The client takes x <- x - eta_c g(x), and the server x <- x + eta_s (mean - x).

    Three of the methods below differ from it in what they make of a model after each local step, or
    at the server: a subclass overrides `thresholded` or `thresholded_by_server`.

    Parameters as in `Baseline`.

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

    def start(self, info: ProblemInfo) -> Array:
        """Return x = 0."""
        return np.zeros(info.model_shape, info.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round: x goes out, and comes back after K steps."""
        return (Exchange.of(self, declared_for=FedAvg.client_update),)

    def message(self, x: Array) -> Array:
        """Return x itself."""
        return x

    def update_spec(self, x: Array) -> UpdateSpec:
        """Return what an update looks like: a dense model, with the reference x."""
        return UpdateSpec(x.shape, x.dtype, reference=x, mean_only=False)

    def client_update(self, client: Client, x: Array, rng: np.random.Generator) -> Array:
        """Take K steps x <- thresholded(x - eta_c g(x))."""
        eta_c = float(self.learning_rate)  # a number of NumPy would turn float32 into float64
        for batch in client.minibatches(rng, self.batch_size, self.local_iterations):
            x = self.thresholded(x - eta_c * client.gradient(x, batch))
        return x

    def server_update(self, x: Array, mean: Array) -> Array:
        """Return x + eta_s (mean - x) after the server's threshold."""
        eta_s = float(self.server_learning_rate)
        return self.thresholded_by_server(x + eta_s * (mean - x))

    def thresholded(self, x: Array) -> Array:
        """Return x as it is: no threshold after a client's step."""
        return x

    def thresholded_by_server(self, x: Array) -> Array:
        """Return x as it is: no threshold at the server."""
        return x


@dataclass(frozen=True, kw_only=True)
class FedHT(FedAvg):
    """Run federated hard thresholding: gradient steps at the clients, H_tau at the server.

    Parameters as in `Baseline`, and `sparsity`, which is tau. What counts as one of the tau is up
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

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if the parameters do not fit a problem."""
        self.selection.check(self.sparsity, info.model_shape)
        super().check(info)

    def thresholded_by_server(self, x: Array) -> Array:
        """Return H_tau(x)."""
        return self.selection.hard(x, self.sparsity)


@dataclass(frozen=True, kw_only=True)
class FedIterHT(FedHT):
    """Run federated iterative hard thresholding: H_tau at the server, and in every client's step.

    The client takes x <- H_tau(x - eta_c g(x)). Parameters as in `FedHT`.

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

    def thresholded(self, x: Array) -> Array:
        """Return H_tau(x)."""
        return self.selection.hard(x, self.sparsity)


@dataclass(frozen=True, kw_only=True)
class L1Penalised(Baseline):
    """The weight of a penalty lambda ||x||_1, which several methods share.

    Parameters as in `Baseline`, and `l1_weight`, which is lambda: at least 0.
    """

    l1_weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_number_field(self, "l1_weight", at_least=0)

    @property
    def is_bounded(self) -> bool:
        """Whether a penalty, or a ball, keeps all coefficients from growing."""
        is_penalised = self.l1_weight > 0 and not self.selection.always_include
        return is_penalised or super().is_bounded


@dataclass(frozen=True, kw_only=True)
class FedMid(L1Penalised, FedAvg):
    """Run federated mirror descent for a penalty lambda ||x||_1: proximal steps on both sides.

    The client takes x <- S(x - eta_c g(x), eta_c lambda), and the server
    x <- S(x + eta_s (mean - x), eta_s eta_c K lambda). Both thresholds act in every round. With
    K = 1, one client and eta_s = 1 a step is S(x - eta_c g(x), 2 eta_c lambda), so the method
    minimises f(x) + 2 lambda ||x||_1. That is how its authors define it.

    Parameters as in `Baseline`, and `l1_weight`, which is lambda: at least 0.

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

    def thresholded(self, x: Array) -> Array:
        """Return S(x, eta_c lambda)."""
        return self.selection.soft(x, float(self.learning_rate * self.l1_weight))

    def thresholded_by_server(self, x: Array) -> Array:
        """Return S(x, eta_s eta_c K lambda)."""
        return self.selection.soft(x, float(self.length * self.l1_weight))


class Dual(NamedTuple):
    """The server's state of dual averaging, and the number of rounds so far.

    `variables` are what clients send and the server averages: in `FedDualAvg` z, of the shape of a
    model, and in `FastFedDualAvg` the sums G and X, stacked.
    """

    variables: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FedDualAvg(L1Penalised):
    """Run federated dual averaging for f(x) + lambda ||x||_1: the clients average dual variables z.

    In round r = 0, 1, ... the client computes x = S(z, lambda (eta_s eta_c K r + eta_c k)) and
    z <- z - eta_c g(x), and the server z <- z + eta_s (mean - z). The estimate after the round is
    S(z, lambda eta_s eta_c K (r + 1)).

    Parameters as in `Baseline`, and `l1_weight`, which is lambda: at least 0.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi, Federated composite optimization, ICML 2021.

    Examples
    --------
    For f(x) = ||x - v||^2 / 2 the minimiser of f(x) + lambda ||x||_1 is S(v, lambda):

    >>> import fgmp
    >>> import numpy as np
    >>> v = np.array([3.0, -0.5])
    >>> federation = fgmp.Federation.from_arrays([np.sqrt(2) * np.eye(2)], [np.sqrt(2) * v])
    >>> method = fgmp.FedDualAvg(learning_rate=0.5, l1_weight=1.0)
    >>> x = fgmp.simulate(method, federation, rounds=50, rng=0).x
    >>> np.allclose(x, [2.0, 0.0])
    True
    """

    def start(self, info: ProblemInfo) -> Dual:
        """Return z = 0."""
        return Dual(np.zeros(info.model_shape, info.dtype), 0)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round: z and its number go out, the z_i come back."""
        return (Exchange.of(self, declared_for=FedDualAvg.client_update),)

    def message(self, state: Dual) -> tuple[Array, int]:
        """Return z and the number of the round."""
        return state.variables, state.rounds

    def update_spec(self, state: Dual) -> UpdateSpec:
        """Return what an update looks like: a dense array, with the reference z."""
        z = state.variables
        return UpdateSpec(z.shape, z.dtype, reference=z, mean_only=False)

    def client_update(
        self, client: Client, message: tuple[Array, int], rng: np.random.Generator
    ) -> Array:
        """Take K steps x = S(z, lambda (eta_s eta_c K r + eta_c k)), z <- z - eta_c g(x)."""
        z, rounds = message
        eta_c = float(self.learning_rate)
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for batch, threshold in zip(minibatches, self.thresholds(rounds), strict=True):
            x = self.selection.soft(z, threshold)
            z = z - eta_c * client.gradient(x, batch)
        return z

    def server_update(self, state: Dual, mean: Array) -> Dual:
        """Return z + eta_s (mean - z), a round later."""
        z = state.variables
        eta_s = float(self.server_learning_rate)
        return Dual(z + eta_s * (mean - z), state.rounds + 1)

    def thresholds(self, rounds: int) -> list[float]:
        """Return lambda (eta_s eta_c K r + eta_c k) for the local steps k = 0, ..., K-1."""
        eta_c = float(self.learning_rate)
        l1_weight = float(self.l1_weight)
        steps = range(self.local_iterations)
        return [l1_weight * (self.length * rounds + eta_c * k) for k in steps]

    def coefficients(self, state: Dual) -> Array:
        """Return S(z, lambda eta_s eta_c K r) after r rounds."""
        threshold = float(self.l1_weight * self.length * state.rounds)
        return self.selection.soft(state.variables, threshold)


@dataclass(frozen=True, kw_only=True)
class FastFedDualAvg(L1Penalised):
    """Run fast federated dual averaging: dual averaging that uses strong convexity mu.

    Let x_1, ..., x_t be the points at which gradients were taken so far, G = sum g(x_s) and
    X = sum x_s. A local step is G <- G + g(x), X <- X + x, and then
    x <- S((X mu/2 - G)/gamma_t, lambda t/gamma_t) with gamma_t = gamma + t mu/2. The server
    averages G and X and takes the same x. Here gamma is 1/learning_rate and x_0 = 0, so that mu = 0
    gives `FedDualAvg` with eta_s = 1, the only eta_s that there is.

    Parameters as in `Baseline`, `l1_weight`, which is lambda, and `strong_convexity`, which is
    mu: both at least 0.

    Notes
    -----
    Each gradient adds a lower bound of f, for f strongly convex with mu/2, to the function whose
    minimiser is the next point:

        sum_s [<g(x_s), x> + (mu/4) ||x - x_s||^2 + lambda ||x||_1] + (gamma/2) ||x - x_0||^2.

    Update rules in words leave open whether the model of a new round is added to X as well. Then K
    gradients would stand beside K + 1 iterates, and for mu > 0 the limit would be another point. On
    one client with lambda = 0 this is gradient descent with the rate 1/gamma_t, which has the
    minimiser of f as its only limit.

    References
    ----------
    Y. Bao et al., Fast composite optimization and statistical recovery in federated learning,
    ICML 2022.

    Examples
    --------
    The model has the features of the truth, and few others:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> method = fgmp.FastFedDualAvg(learning_rate=0.1, l1_weight=0.02, strong_convexity=0.1)
    >>> result = fgmp.simulate(method, federation, rounds=50, rng=0)
    >>> set(federation.truth.nonzero()[0]) <= set(result.support), len(result.support) < 20
    (True, True)
    """

    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_number_field(self, "strong_convexity", at_least=0)
        if self.server_learning_rate != 1:
            raise ValueError(
                f"server_learning_rate is {self.server_learning_rate:g}; expected 1: the server "
                "takes the mean of the sums as it is"
            )

    def start(self, info: ProblemInfo) -> Dual:
        """Return G = 0 and X = 0."""
        return Dual(np.zeros((2, *info.model_shape), info.dtype), 0)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round: G, X, x go out, the G_i and X_i come back."""
        return (Exchange.of(self, declared_for=FastFedDualAvg.client_update),)

    def message(self, state: Dual) -> tuple[Array, Array, Array, int]:
        """Return G, X, x and the number of the round."""
        G, X = state.variables
        return G, X, self.coefficients(state), state.rounds

    def update_spec(self, state: Dual) -> UpdateSpec:
        """Return what an update looks like: G and X stacked; the reference is the server's."""
        sums = state.variables
        return UpdateSpec(sums.shape, sums.dtype, reference=sums, mean_only=False)

    def client_update(
        self, client: Client, message: tuple[Array, Array, Array, int], rng: np.random.Generator
    ) -> Array:
        """Take K steps G <- G + g(x), X <- X + x, each time with the x that these give."""
        G, X, x, rounds = message
        gradients_so_far = rounds * self.local_iterations
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for t, batch in enumerate(minibatches, start=gradients_so_far + 1):
            G = G + client.gradient(x, batch)
            X = X + x
            x = self.model(G, X, t)
        return np.stack([G, X])

    def server_update(self, state: Dual, mean: Array) -> Dual:
        """Return the mean of G and X, a round later."""
        return Dual(mean, state.rounds + 1)

    def model(self, G: Array, X: Array, t: int) -> Array:
        """Return x after t gradients: S((X mu/2 - G)/gamma_t, lambda t/gamma_t)."""
        half_mu = float(self.strong_convexity) / 2
        gamma_t = 1 / float(self.learning_rate) + t * half_mu
        threshold = float(self.l1_weight) * t / gamma_t
        return self.selection.soft((half_mu * X - G) / gamma_t, threshold)

    def coefficients(self, state: Dual) -> Array:
        """Return the x that the sums give."""
        G, X = state.variables
        return self.model(G, X, state.rounds * self.local_iterations)
