"""Dual averaging, plain and fast: clients sum up gradients and threshold when they look at a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._compiled.dispatch import descent_twin
from .._support.validation import validate_number_field
from ..federation import Client, ProblemInfo
from ..rounds import Exchange
from ..sparse_model import Array
from .first_order import L1Penalised


class Dual(NamedTuple):
    """The dual variable z, or the two sums of the fast method, and the number of rounds so far: what travels, too."""

    z: Array
    rounds: int


@dataclass(frozen=True, kw_only=True)
class FedDualAvg(L1Penalised):
    """Federated dual averaging for f(x) + lambda ||x||_1: the clients average dual variables z.

    In round r = 0, 1, .. the client computes w = S(z, lambda (eta_s eta_c K r + eta_c k)) and z <- z - eta_c g(w), the
    server z <- z + eta_s (mean - z); the estimate is S(z, lambda eta_s eta_c K (r + 1)).

    Parameters as in `FirstOrder`, and `l1_weight`, which is lambda: at least 0.

    References
    ----------
    H. Yuan, M. Zaheer, S. Reddi, Federated composite optimization, ICML 2021.
    """

    def start(self, shape: ProblemInfo) -> Any:
        """z = 0."""
        return Dual(super().start(shape), 0)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: z and the number of the round go out, the z_i come back."""
        twin = descent_twin(self, "dual_client_update")
        return (
            Exchange(
                tuple,
                self.dual_client_update,
                self.dual_server_update,
                lambda state: self.update_spec(state.z),
                twin,
            ),
        )

    def dual_client_update(
        self, client: Client, message: tuple[Array, int], rng: np.random.Generator
    ) -> Array:
        """K steps w = S(z, lambda (eta_s eta_c K r + eta_c k)), z <- z - eta_c g(w)."""
        z, rounds = message
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for rows, threshold in zip(minibatches, self.thresholds(rounds), strict=True):
            z = z - self.learning_rate * client.gradient(self.selection.soft(z, threshold), rows)
        return z

    def dual_server_update(self, state: Dual, mean: Array) -> Dual:
        """z + eta_s (mean - z)."""
        return Dual(state.z + self.server_learning_rate * (mean - state.z), state.rounds + 1)

    def thresholds(self, rounds: int) -> list[float]:
        """Those of the local steps k = 0, .., K-1."""
        steps = range(self.local_iterations)
        return [self.l1_weight * (self.length * rounds + self.learning_rate * k) for k in steps]

    def coefficients(self, state: Dual) -> Array:
        """S(z, lambda eta_s eta_c K r) after r rounds."""
        return self.selection.soft(state.z, self.l1_weight * self.length * state.rounds)


@dataclass(frozen=True, kw_only=True)
class FastFedDualAvg(L1Penalised):
    """Fast federated dual averaging: dual averaging that uses strong convexity mu.

    With w_1, .., w_t the points at which gradients were taken so far, G = sum g(w_s) and X = sum w_s, a local step is
    G <- G + g(w), X <- X + w, w <- S((X mu/2 - G)/b, lambda t/b) with b = gamma + t mu/2; the server averages G and X
    and takes the same w. Here gamma = 1/learning_rate and x_0 = 0, so that mu = 0 gives `FedDualAvg` with eta_s = 1,
    the only one that there is.

    Parameters as in `FirstOrder`, `l1_weight`, which is lambda, and `strong_convexity`, mu: both at least 0.

    Notes
    -----
    Each gradient adds a lower bound of f, for f strongly convex with mu/2, to what w minimises:

        sum_s [<g(w_s), x> + (mu/4) ||x - w_s||^2 + lambda ||x||_1] + (gamma/2) ||x - x_0||^2.

    Update rules in words leave open whether the model of a new round is added to X as well. Then K gradients would
    stand beside K + 1 iterates, and for mu > 0 the limit would be another point. On one client with lambda = 0 this is
    gradient descent with the rate 1/b, which has the minimiser of f as its only limit.

    References
    ----------
    Y. Bao et al., Fast composite optimization and statistical recovery in federated learning, ICML 2022.
    """

    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_number_field(self, "strong_convexity", at_least=0)
        if self.server_learning_rate != 1:
            found = f"server_learning_rate is {self.server_learning_rate:g}"
            raise ValueError(f"{found}; expected 1: the server takes the mean of the sums as it is")

    def start(self, shape: ProblemInfo) -> Any:
        """No gradients yet."""
        return Dual(np.zeros((2, *shape.model_shape), shape.dtype), 0)

    def exchanges(self) -> Sequence[Exchange]:
        """One exchange a round: G, X, w and the number of the round go out, each client's G and X come back."""
        update = lambda state, mean: Dual(mean, state.rounds + 1)  # noqa: E731
        return (
            Exchange(
                self.message,
                self.sums_client_update,
                update,
                lambda state: self.update_spec(state.z),
            ),
        )

    def message(self, state: Dual) -> tuple[Any, ...]:
        """G, X, w and the number of the round."""
        return (*state.z, self.model(state.z, state.rounds * self.local_iterations), state.rounds)

    def sums_client_update(
        self, client: Client, message: tuple[Any, ...], rng: np.random.Generator
    ) -> Array:
        """K times G <- G + g(w), X <- X + w, and the model that these give."""
        G, X, w, rounds = message
        minibatches = client.minibatches(rng, self.batch_size, self.local_iterations)
        for t, rows in enumerate(minibatches, rounds * self.local_iterations + 1):
            G, X = G + client.gradient(w, rows), X + w
            w = self.model((G, X), t)
        return np.stack([G, X])

    def model(self, sums: Any, t: int) -> Array:
        """w after t gradients: S((X mu/2 - G)/b, lambda t/b)."""
        (G, X), half = sums, self.strong_convexity / 2
        b = 1 / self.learning_rate + t * half
        return self.selection.soft((half * X - G) / b, self.l1_weight * t / b)

    def coefficients(self, state: Dual) -> Array:
        """The model w that the sums give."""
        return self.model(state.z, state.rounds * self.local_iterations)
