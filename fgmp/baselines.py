"""The methods that FedGradMP is compared with: federated first-order methods, dense, hard- and soft-thresholded.

In all of them k = 0..K-1 counts the local steps, g is the gradient of a minibatch, S(v, t) soft-thresholding, H_tau
keeps the tau largest entries, eta_c and eta_s are the learning rates of client and server, and
Delta = sum p_i (end_i - start).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .answers import check_model
from .checks import check_integer, settle_integer, settle_number
from .contract import Exchange, Reply, State
from .dictionaries import StandardBasis
from .federation import Client, Federation
from .local_steps import HardThreshold, SoftThreshold, dual_steps, gradient_steps, thresholded_steps, transposed
from .models import Array, Message, decode, encode, largest, largest_in_columns

__all__ = [
    "FastFedDualAvg",
    "FedAvg",
    "FedDualAvg",
    "FedHT",
    "FedIterHT",
    "FedMid",
]


@dataclass(frozen=True, kw_only=True)
class FirstOrderMethod:
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
    unthresholded : tuple of int, default ()
        Positions that no threshold touches: the bias, where the data have a constant column for it.
    """

    learning_rate: float
    local_iterations: int = 1
    batch_size: int | None = None
    dictionary: StandardBasis = field(default_factory=StandardBasis)
    unthresholded: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        settle_number(self, "learning_rate", above=0)
        settle_integer(self, "local_iterations")
        settle_integer(self, "batch_size", optional=True)
        positions = tuple(check_integer("unthresholded", position, at_least=0) for position in self.unthresholded)
        object.__setattr__(self, "unthresholded", positions)

    def check(self, federation: Federation) -> None:
        """Raise a ValueError where the parameters do not fit the federation."""
        n_atoms = self.dictionary.n_atoms(federation.n_features)
        federation.check_batch_size(self.batch_size)
        for position in self.unthresholded:
            check_integer("unthresholded", position, at_least=0, at_most=n_atoms - 1, why="the last atom")

    def prepare(self, client: Client) -> Client:
        """The client in coefficient space."""
        return self.dictionary.prepare(client)

    def start(self, federation: Federation) -> State:
        """The zero model."""
        return np.zeros(federation.loss.model_shape(self.dictionary.n_atoms(federation.n_features)), federation.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: broadcast, K local steps, combine."""
        return (Exchange(self.broadcast, self.train, self.combine, self.check_answer),)

    def broadcast(self, state: State) -> Message:
        """The model w."""
        return encode(state)

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K local steps from the broadcast model."""
        w = decode(message, client.model_shape)
        return encode(gradient_steps(client, w, self.learning_rate, self.minibatches(client, rng)))

    def combine(self, state: State, replies: list[Reply]) -> State:
        """The mean of the clients' ends."""
        return mean(replies, state.shape)

    def check_answer(self, state: State, message: Message) -> None:
        """A client answers with a model."""
        check_model(message, state)

    def coefficients(self, state: State) -> Array:
        """The estimate that a state stands for, in the coordinates of the dictionary."""
        estimate: Array = state
        return estimate

    def estimate(self, state: State) -> Array:
        """The same estimate as a signal."""
        return self.dictionary.synthesise(self.coefficients(state))

    def minibatches(self, client: Client, rng: np.random.Generator) -> Iterator[Any]:
        """The rows of each local step."""
        return client.minibatches(rng, self.batch_size, self.local_iterations)

    def soft(self, v: Array, threshold: float) -> Array:
        """S(v, t) = sign(v) max(|v| - t, 0), but for the unthresholded positions."""
        return self.spared(v, np.sign(v) * np.maximum(np.abs(v) - threshold, 0))

    def spared(self, v: Array, thresholded: Array) -> Array:
        """`thresholded`, with the unthresholded positions as they are in v."""
        for position in self.unthresholded:
            thresholded[position] = v[position]
        return thresholded


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
    """

    server_learning_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "server_learning_rate", above=0)

    def combine(self, state: State, replies: list[Reply]) -> State:
        """Return w + eta_s Delta."""
        return state + self.server_learning_rate * (mean(replies, state.shape) - state)


@dataclass(frozen=True, kw_only=True)
class FedHT(FirstOrderMethod):
    """Federated hard thresholding: gradient steps at the clients, w <- H_tau(sum p_i w_i) at the server.

    Parameters
    ----------
    sparsity : int
        tau, the entries that the server keeps: in each output's column of the model, or in all if `joint`.
    joint : bool, default False
        Whether `sparsity` counts the entries of all outputs together; the same for losses with one output.
    **others
        As in `FirstOrderMethod`.

    References
    ----------
    Q. Tong et al., Federated optimization of l0-norm regularized sparse learning, Algorithms 15(9) 319, 2022.
    """

    sparsity: int
    joint: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_integer(self, "sparsity")

    def check(self, federation: Federation) -> None:
        """As `FirstOrderMethod`, and tau at most the number of atoms."""
        super().check(federation)
        federation.check_sparsity(self.sparsity, self.dictionary.n_atoms(federation.n_features), self.joint)

    def combine(self, state: State, replies: list[Reply]) -> State:
        """H_tau of the mean."""
        return self.hard(mean(replies, state.shape))

    def hard(self, v: Array) -> Array:
        """H_tau(v), but for the unthresholded positions, which do not count."""
        magnitudes = np.abs(v)
        for position in self.unthresholded:
            magnitudes[position] = -1
        if v.ndim == 1 or self.joint:
            kept = largest(magnitudes.reshape(-1), self.sparsity)
        else:
            kept = largest_in_columns(magnitudes, self.sparsity)
        thresholded = np.zeros_like(v)
        thresholded.reshape(-1)[kept] = v.reshape(-1)[kept]
        return self.spared(v, thresholded)


@dataclass(frozen=True, kw_only=True)
class FedIterHT(FedHT):
    """Federated iterative hard thresholding: w <- H_tau(w - eta_c g) at the clients, H_tau of the mean at the server.

    Parameters and reference as `FedHT`.
    """

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K steps w <- H_tau(w - eta_c g)."""
        w = decode(message, client.model_shape)
        hard = HardThreshold(transposed(w), self.sparsity, self.joint, self.unthresholded)
        return encode(thresholded_steps(client, w, self.learning_rate, self.minibatches(client, rng), hard))


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

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "l1_weight", at_least=0)

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K steps w <- S(w - eta_c g, eta_c lambda)."""
        w = decode(message, client.model_shape)
        soft = SoftThreshold(transposed(w), self.learning_rate * self.l1_weight, self.unthresholded)
        return encode(thresholded_steps(client, w, self.learning_rate, self.minibatches(client, rng), soft))

    def combine(self, state: State, replies: list[Reply]) -> State:
        """S(w + eta_s Delta, eta_s eta_c K lambda)."""
        length = self.server_learning_rate * self.learning_rate * self.local_iterations
        return self.soft(super().combine(state, replies), length * self.l1_weight)


class DualState(NamedTuple):
    """The dual variable z and the number of rounds so far."""

    dual: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FedDualAvg(FedMid):
    """Federated dual averaging for f(x) + lambda ||x||_1: the clients average dual variables z.

    In round r = 0, 1, .. the client computes w = S(z, lambda (eta_s eta_c K r + eta_c k)) and z <- z - eta_c g(w), the
    server z <- z + eta_s Delta; the estimate is S(z, lambda eta_s eta_c K (r + 1)).

    Parameters and reference as `FedMid`.
    """

    def start(self, federation: Federation) -> DualState:
        """Start from z = 0."""
        return DualState(super().start(federation), 0)

    def broadcast(self, state: DualState) -> Message:
        """z, and the number of the round, which the thresholds need."""
        return encode(state.dual) | {"round": np.array([state.rounds], np.int32)}

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K steps w = S(z, lambda (eta_s eta_c K r + eta_c k)), z <- z - eta_c g(w)."""
        z, r = decode(message, client.model_shape), int(message["round"][0])
        start = self.l1_weight * self.length * r
        soft = SoftThreshold(transposed(z), start, self.unthresholded)
        thresholds = (soft.at(start + self.l1_weight * self.learning_rate * k) for k in range(self.local_iterations))
        return encode(dual_steps(client, z, self.learning_rate, self.minibatches(client, rng), thresholds))

    def combine(self, state: DualState, replies: list[Reply]) -> DualState:
        """Return z + eta_s Delta."""
        delta = mean(replies, state.dual.shape) - state.dual
        return DualState(state.dual + self.server_learning_rate * delta, state.rounds + 1)

    def check_answer(self, state: DualState, message: Message) -> None:
        """A client answers with a dual variable."""
        check_model(message, state.dual)

    def coefficients(self, state: DualState) -> Array:
        """S(z, lambda eta_s eta_c K r) after r rounds."""
        return self.soft(state.dual, self.l1_weight * self.length * state.rounds)

    @property
    def length(self) -> float:
        """eta_s eta_c K, the length of one round."""
        return self.server_learning_rate * self.learning_rate * self.local_iterations


class FastDualState(NamedTuple):
    """Sums of gradients G and of iterates X, the model w, and the number of rounds so far."""

    gradients: Array
    iterates: Array
    model: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FastFedDualAvg(FirstOrderMethod):
    """Fast federated dual averaging: dual averaging that uses strong convexity mu.

    With t the number of gradients so far, a = (G - (mu/2) X - gamma x_0)/t and b = mu/2 + gamma/t, a local step is
    G <- G + g(w), w <- S(-a/b, lambda/b), X <- X + w; the server averages G and X and takes the same w. Here
    gamma = 1/learning_rate and x_0 = 0, so that mu = 0 gives `FedDualAvg` with eta_s = 1.

    Parameters
    ----------
    l1_weight : float
        lambda, at least 0.
    strong_convexity : float, default 0.0
        mu, at least 0.
    **others
        As in `FirstOrderMethod`.

    References
    ----------
    Y. Bao et al., Fast composite optimization and statistical recovery in federated learning, ICML 2022.
    """

    l1_weight: float
    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "l1_weight", at_least=0)
        settle_number(self, "strong_convexity", at_least=0)

    def start(self, federation: Federation) -> FastDualState:
        """No gradients yet, and w = x_0 = 0."""
        zero = super().start(federation)
        return FastDualState(zero, zero, zero, 0)

    def broadcast(self, state: FastDualState) -> Message:
        """G, X, w and the number of the round."""
        parts = {"gradients": state.gradients, "iterates": state.iterates, "model": state.model}
        return _encode_all(parts) | {"round": np.array([state.rounds], np.int32)}

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K local steps."""
        G, X, w = (decode(_part(message, part), client.model_shape) for part in ("gradients", "iterates", "model"))
        t = int(message["round"][0]) * self.local_iterations
        for rows in self.minibatches(client, rng):
            t += 1
            G = G + client.gradient(w, rows)
            w = self.model(G, X, t)
            X = X + w
        return _encode_all({"gradients": G, "iterates": X})

    def combine(self, state: FastDualState, replies: list[Reply]) -> FastDualState:
        """G and X averaged, and the model they give."""
        G, X = (
            mean([Reply(reply.weight, _part(reply.message, part)) for reply in replies], state.model.shape)
            for part in ("gradients", "iterates")
        )
        w = self.model(G, X, (state.rounds + 1) * self.local_iterations)
        return FastDualState(G, X + w, w, state.rounds + 1)

    def check_answer(self, state: FastDualState, message: Message) -> None:
        """A client answers with G and X."""
        parts = {part: _part(message, part) for part in ("gradients", "iterates")}
        if sum(map(len, parts.values())) != len(message):
            raise ValueError(f"message holds {sorted(message)}; expected gradients and iterates")
        for part in parts.values():
            check_model(part, state.model)

    def model(self, G: Array, X: Array, t: int) -> Array:
        """S(-a/b, lambda/b)."""
        half = self.strong_convexity / 2
        a, b = (G - half * X) / t, half + 1 / (self.learning_rate * t)
        return self.soft(-a / b, self.l1_weight / b)

    def coefficients(self, state: FastDualState) -> Array:
        """The model w."""
        return state.model


def mean(replies: list[Reply], shape: tuple[int, ...]) -> Array:
    """The weighted mean of the models that came back."""
    ends = [reply.weight * decode(reply.message, shape) for reply in replies]
    total: Array = np.sum(ends, axis=0)
    return total


def _encode_all(arrays: dict[str, Array]) -> Message:
    return {f"{part}.{key}": value for part, array in arrays.items() for key, value in encode(array).items()}


def _part(message: Message, part: str) -> Message:
    prefix = part + "."
    return {key.removeprefix(prefix): value for key, value in message.items() if key.startswith(prefix)}
