"""Dual averaging, plain and fast: clients sum up gradients and threshold when they look at a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checks import settle_number
from ..federation import Client
from ..layers.compiled import descent_twin
from ..models import Array
from ..rounds import Exchange, Form
from ..shapes import Shape
from .rivals import L1Penalised


class Dual(NamedTuple):
    """The dual variable z and the number of rounds so far: what travels, too."""

    z: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FedDualAvg(L1Penalised):
    """Federated dual averaging for f(x) + lambda ||x||_1: the clients average dual variables z.

    In round r = 0, 1, .. the client computes w = S(z, lambda (eta_s eta_c K r + eta_c k)) and z <- z - eta_c g(w), the
    server z <- z + eta_s (mean - z); the estimate is S(z, lambda eta_s eta_c K (r + 1)).

    Parameters
    ----------
    l1_weight : float
        lambda, at least 0.
    **others
        As in `FirstOrder`.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi, Federated composite optimization, ICML 2021.
    """

    def start(self, shape: Shape) -> Any:
        """z = 0."""
        return Dual(super().start(shape), 0)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: z and the number of the round go out, the z_i come back."""
        twin = descent_twin(self, "dual_at_client")
        near = lambda state: self.form(state.z)  # noqa: E731
        return (Exchange(tuple, self.dual_at_client, self.dual_at_server, near, twin),)

    def dual_at_client(self, client: Client, message: tuple[Array, int], rng: np.random.Generator) -> Array:
        """K steps w = S(z, lambda (eta_s eta_c K r + eta_c k)), z <- z - eta_c g(w)."""
        z, rounds = message
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for rows, threshold in zip(minibatches, self.thresholds(rounds), strict=True):
            z = z - self.learning_rate * client.gradient(self.selection.soft(z, threshold), rows)
        return z

    def dual_at_server(self, state: Dual, mean: Array) -> Dual:
        """z + eta_s (mean - z)."""
        return Dual(state.z + self.server_learning_rate * (mean - state.z), state.rounds + 1)

    def thresholds(self, rounds: int) -> list[float]:
        """Those of the local steps k = 0, .., K-1."""
        steps = range(self.local_iterations)
        return [self.l1_weight * (self.length * rounds + self.learning_rate * k) for k in steps]

    def coefficients(self, state: Dual) -> Array:
        """S(z, lambda eta_s eta_c K r) after r rounds."""
        return self.selection.soft(state.z, self.l1_weight * self.length * state.rounds)


class FastDual(NamedTuple):
    """Sums of gradients G and of the points X where they were taken, one above the other, w, and the rounds so far."""

    sums: Array
    w: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FastFedDualAvg(L1Penalised):
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
        As in `FirstOrder`.

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

    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "strong_convexity", at_least=0)

    def start(self, shape: Shape) -> Any:
        """No gradients yet, and w = x_0 = 0."""
        zero = super().start(shape)
        return FastDual(np.stack([zero, zero]), zero, 0)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: G, X, w and the number of the round go out, each client's G and X come back."""
        ask = lambda state: (*state.sums, state.w, state.rounds)  # noqa: E731
        near = lambda state: Form(state.sums.shape, state.sums.dtype, near=state.sums)  # noqa: E731
        return (Exchange(ask, self.sums_at_client, self.sums_at_server, near),)

    def sums_at_client(
        self, client: Client, message: tuple[Array, Array, Array, int], rng: np.random.Generator
    ) -> Array:
        """K times G <- G + g(w), X <- X + w, and the model that these give."""
        G, X, w, rounds = message
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for t, rows in enumerate(minibatches, rounds * self.local_iterations + 1):
            G, X = G + client.gradient(w, rows), X + w
            w = self.model(G, X, t)
        return np.stack([G, X])

    def sums_at_server(self, state: FastDual, mean: Array) -> FastDual:
        """G and X averaged, and the model they give."""
        (G, X), rounds = mean, state.rounds + 1
        return FastDual(mean, self.model(G, X, rounds * self.local_iterations), rounds)

    def model(self, G: Array, X: Array, t: int) -> Array:
        """S(-a/b, lambda/b)."""
        half = self.strong_convexity / 2
        a, b = (G - half * X) / t, half + 1 / (self.learning_rate * t)
        return self.selection.soft(-a / b, self.l1_weight / b)

    def coefficients(self, state: FastDual) -> Array:
        """The model w."""
        return state.w
