"""The methods that FedGradMP is compared with: federated first-order methods, dense, hard- and soft-thresholded.

In all of them k = 0..K-1 counts the local steps, g is the gradient of a minibatch, S(v, t) soft-thresholding, H_tau
keeps the tau largest entries, eta_c and eta_s are the learning rates of client and server, and
Delta = sum p_i (end_i - start).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..advice import check_batches
from ..checks import settle_integer, settle_number
from ..dictionaries import StandardBasis, check_dictionary
from ..federation import Client
from ..models import Array, Message, Support, decode, encode
from ..selection import PER_OUTPUT, Selection, check_selection
from ..shapes import Shaped
from .answers import check_model
from .combination import MEAN, Combination, Mean, check_combination
from .contract import Exchange, Reply, State, Sum, is_declared
from .in_dictionary import InDictionary

__all__ = ["FedAvg", "FedHT", "FedIterHT", "FedMid", "FirstOrderMethod"]


@dataclass(frozen=True, kw_only=True)
class FirstOrderMethod(InDictionary):
    """What the methods share: a model that travels, K local gradient steps, and a server that combines their ends.

    Parameters
    ----------
    learning_rate : float
        eta_c, the client's step size: above 0.
    local_iterations : int, default 1
        K, the local steps of a round.
    batch_size : int or None
        Rows of a minibatch, drawn without replacement; None is the full batch.
    dictionary : StandardBasis or Dictionary
        The atoms whose coefficients are learnt; the standard basis by default.
    selection : Selection
        What a threshold acts on, and the atoms that none touches, as the intercept: `PerOutput` by default.
    combination : Combination
        What the server makes of the answers: `Mean` by default; `Median` and `TrimmedMean` bear clients that lie.
    """

    learning_rate: float
    local_iterations: int = 1
    batch_size: int | None = None
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    selection: Selection = PER_OUTPUT
    combination: Combination = MEAN
    additive = True

    def __post_init__(self) -> None:
        settle_number(self, "learning_rate", above=0)
        check_dictionary(self.dictionary)
        check_selection(self.selection)
        check_combination(self.combination)
        settle_integer(self, "local_iterations")
        settle_integer(self, "batch_size", optional=True)

    def check(self, federation: Shaped) -> None:
        """Raise a ValueError where the parameters do not fit the federation."""
        self.selection.check(None, self.shape(federation))
        check_batches(self.batch_size, federation.rows)

    def start(self, federation: Shaped) -> State:
        """The zero model."""
        return np.zeros(self.shape(federation), federation.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: broadcast, K local steps, combine."""
        return (Exchange(self.broadcast, self.train, self.combine, self.check_answer, self.sums()),)

    def sums(self) -> Sum | None:
        """How the clients' ends add up; None where `combination`, or a step of a subclass, looks at each of them."""
        if isinstance(self.combination, Mean) and is_declared(self, "combine"):
            return Sum(self.total, self.laid_out, self.centre)
        return None

    def total(self, state: State, replies: list[Reply]) -> Message:
        """The mean of the clients' ends."""
        return {"dense": self.combined(replies, self.known(state).shape)}

    def laid_out(self, state: State, message: Message) -> Message:
        """An end, dense."""
        return {"dense": decode(message, self.known(state).shape)}

    def centre(self, state: State, laid_out: Message) -> Message:
        """Where the clients started."""
        return {"dense": self.known(state)}

    def known(self, state: State) -> Array:
        """What was broadcast: w."""
        start: Array = state
        return start

    def broadcast(self, state: State) -> Message:
        """The model w."""
        return encode(state)

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K local steps from the broadcast model."""
        w = decode(message, client.model_shape)
        for rows in self.minibatches(client, rng):
            w = self.step(w, client.gradient(w, rows))
        return encode(w)

    def minibatches(self, client: Client, rng: np.random.Generator) -> Iterator[Support | None]:
        """The rows of each local step."""
        return client.minibatches(rng, self.batch_size, self.local_iterations)

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- w - eta_c g."""
        moved: Array = w - self.learning_rate * gradient
        return moved

    def combine(self, state: State, replies: list[Reply]) -> State:
        """The mean of the clients' ends, or what `combination` makes of them."""
        return self.combined(replies, state.shape)

    def combined(self, replies: list[Reply], shape: tuple[int, ...]) -> Array:
        """One model of those that came back."""
        ends = [decode(reply.message, shape) for reply in replies]
        return self.combination.arrays(ends, [reply.weight for reply in replies])

    def check_answer(self, state: State, message: Message) -> None:
        """A client answers with a model."""
        check_model(message, state)

    def coefficients(self, state: State) -> Array:
        """The model w."""
        estimate: Array = state
        return estimate


@dataclass(frozen=True, kw_only=True)
class FedAvg(FirstOrderMethod):
    """Federated averaging: w <- w - eta_c g at the clients, w <- w + eta_s Delta at the server.

    Parameters
    ----------
    server_learning_rate : float, default 1.0
        eta_s; 1 is plain averaging.
    **others
        As in `FirstOrderMethod`: learning_rate, local_iterations, batch_size, dictionary.

    References
    ----------
    B. McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017;
    server learning rate: S. Reddi et al., Adaptive federated optimization, ICLR 2021.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedAvg(learning_rate=0.01, local_iterations=5), federation, rounds=20, rng=0)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0]), len(result.support)
    (True, 20)
    """

    server_learning_rate: float = 1.0
    additive = True

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "server_learning_rate", above=0)

    def combine(self, state: State, replies: list[Reply]) -> State:
        """w + eta_s Delta."""
        return state + self.server_learning_rate * (self.combined(replies, state.shape) - state)


@dataclass(frozen=True, kw_only=True)
class FedHT(FirstOrderMethod):
    """Federated hard thresholding: gradient steps at the clients, w <- H_tau(sum p_i w_i) at the server.

    Parameters
    ----------
    sparsity : int
        tau, what the server keeps of the mean; `selection` says what counts.
    **others
        As in `FirstOrderMethod`.

    References
    ----------
    Q. Tong et al., Federated optimization of l0-norm regularized sparse learning, Algorithms 15(9) 319, 2022.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedHT(sparsity=4, learning_rate=0.01), federation, rounds=20, rng=0)
    >>> len(result.support)
    4
    """

    sparsity: int
    additive = True

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "sparsity")

    def check(self, federation: Shaped) -> None:
        """As `FirstOrderMethod`, and tau at most what there is to count."""
        super().check(federation)
        self.selection.check(self.sparsity, self.shape(federation))

    def combine(self, state: State, replies: list[Reply]) -> State:
        """H_tau of the mean."""
        return self.selection.hard(self.combined(replies, state.shape), self.sparsity)


@dataclass(frozen=True, kw_only=True)
class FedIterHT(FedHT):
    """Federated iterative hard thresholding: w <- H_tau(w - eta_c g) at the clients, H_tau of the mean at the server.

    Parameters and reference as `FedHT`.
    """

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- H_tau(w - eta_c g)."""
        return self.selection.hard(super().step(w, gradient), self.sparsity)


@dataclass(frozen=True, kw_only=True)
class FedMid(FedAvg):
    """Federated mirror descent for an l1 penalty of weight lambda: proximal steps at the clients and at the server.

    The client takes w <- S(w - eta_c g, eta_c lambda), the server w <- S(w + eta_s Delta, eta_s eta_c K lambda). Both
    thresholds act in every round: with K = 1, one client and eta_s = 1 a step is S(w - eta_c g, 2 eta_c lambda), so the
    method minimises f(x) + 2 lambda ||x||_1. That is how its authors define it.

    Parameters
    ----------
    l1_weight : float
        lambda, at least 0.
    **others
        As in `FedAvg`.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi, Federated composite optimization, ICML 2021.
    """

    l1_weight: float
    additive = True

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "l1_weight", at_least=0)

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- S(w - eta_c g, eta_c lambda)."""
        return self.selection.soft(super().step(w, gradient), self.learning_rate * self.l1_weight)

    def combine(self, state: State, replies: list[Reply]) -> State:
        """S(w + eta_s Delta, eta_s eta_c K lambda)."""
        return self.selection.soft(super().combine(state, replies), self.length * self.l1_weight)

    @property
    def length(self) -> float:
        """eta_s eta_c K, the length of one round."""
        return self.server_learning_rate * self.learning_rate * self.local_iterations
