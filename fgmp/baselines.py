"""The methods that FedGradMP is compared with: federated first-order methods, dense, hard- and soft-thresholded.

In all of them k = 0..K-1 counts the local steps, g is the gradient of a minibatch, S(v, t) soft-thresholding, H_tau
keeps the tau largest entries, eta_c and eta_s are the learning rates of client and server, and
Delta = sum p_i (end_i - start).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .answers import check_model
from .checks import check_integer, settle_integer, settle_number
from .contract import Exchange, Reply, State
from .dictionaries import StandardBasis
from .federation import Client, Federation
from .local_steps import HardThreshold, SoftThreshold, gradient_steps, thresholded_steps, transposed
from .models import Array, Message, decode, encode, largest, largest_in_columns

__all__ = ["FedAvg", "FedHT", "FedIterHT", "FedMid", "FirstOrderMethod", "mean"]


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
        """`train_as_printed`, by a kernel that ends where it does unless `step` is another than the kernel's."""
        if type(self).step is not type(self).kernel_step:
            return self.train_as_printed(client, message, rng)
        return encode(self.kernel(client, decode(message, client.model_shape), self.minibatches(client, rng)))

    def train_as_printed(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K local steps from the broadcast model."""
        w = decode(message, client.model_shape)
        for rows in self.minibatches(client, rng):
            w = self.step(w, client.gradient(w, rows))
        return encode(w)

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- w - eta_c g."""
        moved: Array = w - self.learning_rate * gradient
        return moved

    kernel_step = step

    def kernel(self, client: Client, w: Array, minibatches: Iterator[Any]) -> Array:
        """`kernel_step` for each minibatch, fast."""
        return gradient_steps(client, w, self.learning_rate, minibatches)

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

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- H_tau(w - eta_c g)."""
        return self.hard(super().step(w, gradient))

    kernel_step = step

    def kernel(self, client: Client, w: Array, minibatches: Iterator[Any]) -> Array:
        """`kernel_step` for each minibatch, fast."""
        hard = HardThreshold(transposed(w), self.sparsity, self.joint, self.unthresholded)
        return thresholded_steps(client, w, self.learning_rate, minibatches, hard)


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

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step, w <- S(w - eta_c g, eta_c lambda)."""
        return self.soft(super().step(w, gradient), self.learning_rate * self.l1_weight)

    kernel_step = step

    def kernel(self, client: Client, w: Array, minibatches: Iterator[Any]) -> Array:
        """`kernel_step` for each minibatch, fast."""
        soft = SoftThreshold(transposed(w), self.learning_rate * self.l1_weight, self.unthresholded)
        return thresholded_steps(client, w, self.learning_rate, minibatches, soft)

    def combine(self, state: State, replies: list[Reply]) -> State:
        """S(w + eta_s Delta, eta_s eta_c K lambda)."""
        length = self.server_learning_rate * self.learning_rate * self.local_iterations
        return self.soft(super().combine(state, replies), length * self.l1_weight)


def mean(replies: list[Reply], shape: tuple[int, ...]) -> Array:
    """The weighted mean of the models that came back."""
    ends = [reply.weight * decode(reply.message, shape) for reply in replies]
    total: Array = np.sum(ends, axis=0)
    return total
