"""Dual averaging, plain and fast: the rivals whose clients sum up gradients and threshold when they look at a model.

Notation as in `fgmp.methods.baselines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..checks import settle_number
from ..federation import Client
from ..models import Array, Message, decode, encode
from ..shapes import Shaped
from .answers import check_model
from .baselines import FedAvg, FedMid, FirstOrderMethod
from .contract import Reply

__all__ = ["FastFedDualAvg", "FedDualAvg"]

_PARTS = ("gradients", "iterates")


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

    additive = True

    def start(self, federation: Shaped) -> DualState:
        """z = 0."""
        return DualState(super().start(federation), 0)

    def broadcast(self, state: DualState) -> Message:
        """z, and the number of the round, which the thresholds need."""
        return encode(state.dual) | {"round": np.array([state.rounds], np.int32)}

    def train(self, client: Client, message: Message, rng: np.random.Generator) -> Message:
        """K steps w = S(z, lambda (eta_s eta_c K r + eta_c k)), z <- z - eta_c g(w)."""
        z = decode(message, client.model_shape)
        for rows, threshold in zip(self.minibatches(client, rng), self.thresholds(message), strict=True):
            w = self.selection.soft(z, threshold)
            z = self.step(z, client.gradient(w, rows))
        return encode(z)

    def thresholds(self, message: Message) -> list[float]:
        """The threshold of each local step: lambda (eta_s eta_c K r + eta_c k) for k = 0, .., K-1."""
        so_far = self.length * int(message["round"][0])
        return [self.l1_weight * (so_far + self.learning_rate * k) for k in range(self.local_iterations)]

    def step(self, w: Array, gradient: Array) -> Array:
        """One local step of the dual variable, z <- z - eta_c g."""
        return FirstOrderMethod.step(self, w, gradient)

    def combine(self, state: DualState, replies: list[Reply]) -> DualState:
        """z + eta_s Delta."""
        return DualState(FedAvg.combine(self, state.dual, replies), state.rounds + 1)

    def known(self, state: DualState) -> Array:
        """What was broadcast: z."""
        return state.dual

    def check_answer(self, state: DualState, message: Message) -> None:
        """A client answers with a dual variable."""
        check_model(message, state.dual)

    def coefficients(self, state: DualState) -> Array:
        """S(z, lambda eta_s eta_c K r) after r rounds."""
        return self.selection.soft(state.dual, self.l1_weight * self.length * state.rounds)


class FastDualState(NamedTuple):
    """Sums of gradients G and of the points X where they were taken, the model w, and the number of rounds so far."""

    gradients: Array
    iterates: Array
    model: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FastFedDualAvg(FirstOrderMethod):
    """Fast federated dual averaging: dual averaging that uses strong convexity mu.

    With w_1, .., w_t the points at which gradients were taken so far, G = sum g(w_s) and X = sum w_s, a local step is
    G <- G + g(w), X <- X + w, w <- S(-a/b, lambda/b) with a = (G - (mu/2) X - gamma x_0)/t and b = mu/2 + gamma/t; the
    server averages G and X and takes the same w. Here gamma = 1/learning_rate and x_0 = 0, so that mu = 0 gives
    `FedDualAvg` with eta_s = 1.

    Parameters
    ----------
    l1_weight : float
        lambda, at least 0.
    strong_convexity : float, default 0.0
        mu, at least 0.
    **others
        As in `FirstOrderMethod`.

    Notes
    -----
    Each gradient adds a lower bound of f, for f strongly convex with mu/2, to what w minimises:

        sum_s [<g(w_s), x> + (mu/4) ||x - w_s||^2 + lambda ||x||_1] + (gamma/2) ||x - x_0||^2.

    Its terms in x are t (<a, x> + (b/2) ||x||^2 + lambda ||x||_1), hence the update; and X has one iterate for each
    gradient, the point at which that was taken. Update rules in words leave open whether clients or the server add the
    model of a new round to X. Both would make it K + 1 iterates beside K gradients, and for mu > 0 the limit another
    point; so a client adds the model that it was sent, and not its last one. On one client with lambda = 0 this is
    gradient descent with the rate 1 / (gamma + (mu/2) t), which has the minimiser of f as its only limit.

    References
    ----------
    Y. Bao et al., Fast composite optimization and statistical recovery in federated learning, ICML 2022.
    """

    l1_weight: float
    strong_convexity: float = 0.0
    additive = True

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "l1_weight", at_least=0)
        settle_number(self, "strong_convexity", at_least=0)

    def start(self, federation: Shaped) -> FastDualState:
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
            G, X = G + client.gradient(w, rows), X + w
            w = self.model(G, X, t)
        return _encode_all({"gradients": G, "iterates": X})

    def combine(self, state: FastDualState, replies: list[Reply]) -> FastDualState:
        """G and X averaged, and the model they give."""
        G, X = self.total(state, replies).values()
        w = self.model(G, X, (state.rounds + 1) * self.local_iterations)
        return FastDualState(G, X, w, state.rounds + 1)

    def total(self, state: FastDualState, replies: list[Reply]) -> Message:
        """G and X averaged."""
        parts = {part: [Reply(p, _part(message, part)) for p, message in replies] for part in _PARTS}
        return {f"{part}.dense": self.combined(ends, state.model.shape) for part, ends in parts.items()}

    def laid_out(self, state: FastDualState, message: Message) -> Message:
        """G and X, dense."""
        return {f"{part}.dense": decode(_part(message, part), state.model.shape) for part in _PARTS}

    def centre(self, state: FastDualState, laid_out: Message) -> Message:
        """G and X as they were broadcast."""
        return {f"{part}.dense": getattr(state, part) for part in _PARTS}

    def check_answer(self, state: FastDualState, message: Message) -> None:
        """A client answers with G and X."""
        parts = {part: _part(message, part) for part in _PARTS}
        if sum(map(len, parts.values())) != len(message):
            raise ValueError(f"message holds {sorted(message)}; expected gradients and iterates")
        for part in parts.values():
            check_model(part, state.model)

    def model(self, G: Array, X: Array, t: int) -> Array:
        """S(-a/b, lambda/b)."""
        half = self.strong_convexity / 2
        a, b = (G - half * X) / t, half + 1 / (self.learning_rate * t)
        return self.selection.soft(-a / b, self.l1_weight / b)

    def coefficients(self, state: FastDualState) -> Array:
        """The model w."""
        return state.model


def _encode_all(arrays: dict[str, Array]) -> Message:
    return {f"{part}.{key}": value for part, array in arrays.items() for key, value in encode(array).items()}


def _part(message: Message, part: str) -> Message:
    prefix = part + "."
    return {key.removeprefix(prefix): value for key, value in message.items() if key.startswith(prefix)}
