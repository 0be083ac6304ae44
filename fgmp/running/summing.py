"""What the server is handed of a cohort's answers: each of them, their sum, a secure sum, or a sum with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..methods.answers import reason_against
from ..methods.contract import Exchange, Method, Reply, State
from ..models import Array, Message, SparseModel, Support, message_bytes
from .privacy import Accounted, GaussianNoise, accounted, spent
from .secure_sums import SecureSum, check_secure

__all__ = ["Collected", "Collector", "check_additive", "collector_for", "summed_objective"]


class Collected(NamedTuple):
    """The state after an exchange, and the bytes that the answers took."""

    state: State
    bytes_up: int
    bytes_down: int


class Collector:
    """Hands the answers of an exchange to the server.

    Parameters
    ----------
    secure : SecureSum or None
    private : Accounted or None
        Both only for additive exchanges: `check_additive`.
    shape : tuple of int
        What the accounting needs of a run: the size of a cohort, and the number of exchanges in a round.
    """

    def __init__(
        self, secure: SecureSum | None = None, private: Accounted | None = None, shape: tuple[int, int] = (1, 1)
    ) -> None:
        self.secure, self.private, self.shape = secure, private, shape

    def epsilon(self, number: int) -> float | None:
        """What `number` rounds have spent; None without noise."""
        if self.private is None:
            return None
        private = self.private
        return spent(private.multiplier, private.n_clients, *self.shape, number, private.noise.delta)

    def options(self) -> dict[str, Any]:
        """What makes a run another run, by name; empty without secure sums and noise."""
        named: dict[str, Any] = {"secure": self.secure} if self.secure is not None else {}
        private = self.private
        return named if private is None else named | {"noise": private.noise, "multiplier": private.multiplier}

    def reason_against(self, exchange: Exchange, state: State, answer: Any) -> str:
        """As `fgmp.methods.answers.reason_against`; with noise what is well formed and not finite adds zero instead."""
        reason = reason_against(exchange.check, state, answer)
        if self.private is None or reason != "not_finite":
            return reason
        zeros = {name: np.zeros_like(array) if array.dtype.kind == "f" else array for name, array in answer.items()}
        reason = reason_against(exchange.check, state, zeros)
        return "" if reason == "too_many" else reason  # a model that diverged is sent before it is cut down

    def collect(
        self,
        exchange: Exchange,
        state: State,
        weights: Array,
        answers: Sequence[Message],
        taken: Array,
        place: tuple[int, int],
    ) -> Collected:
        """What the server makes of the answers that are taken.

        Parameters
        ----------
        exchange : Exchange
        state : object
        weights : ndarray, shape (L,)
            The p_i of the cohort, not yet scaled.
        answers : sequence of message
            Of the cohort.
        taken : ndarray of bool, shape (L,)
            Those to be used: with some weight.
        place : (round, exchange)
        """
        up, members = sum(message_bytes(answer) for answer in answers), np.flatnonzero(taken).tolist()
        if self.secure is None and self.private is None:
            total = weights[taken].sum()
            replies = [Reply(float(weights[i] / total), answers[i]) for i in members]
            if exchange.sum is not None:
                replies = [Reply(1.0, exchange.sum.of(state, replies))]
            return Collected(exchange.combine(state, replies), up, 0)
        assert exchange.sum is not None
        laid = {i: exchange.sum.laid_out(state, answers[i]) for i in members}
        like = next(iter(laid.values()))
        length = sum(array.size for array in like.values())
        vectors = [_flat(laid[i]) if i in laid else np.zeros(length) for i in range(len(answers))]
        shares, scale, centre = weights / weights.sum(), float(weights[taken].sum() / weights.sum()), np.zeros(length)
        if self.private is not None:
            centre = _flat(exchange.sum.centre(state, like))
            vectors = [
                self.private.clipped(p, vector - centre, place[1]) for p, vector in zip(weights, vectors, strict=True)
            ]
            shares, scale, up = np.full(len(answers), 1 / len(answers)), 1.0, len(answers) * message_bytes(like)
        down, added = 0, sum(shares[i] * vectors[i] for i in laid)
        if self.secure is not None:
            parts = [self.secure.encoded(vector, share) for vector, share in zip(vectors, shares, strict=True)]
            outcome = self.secure.summed(parts, taken)
            added, up, down = self.secure.decoded(outcome.total), outcome.bytes_up, outcome.bytes_down
        if self.private is not None:
            question = b"".join(array.tobytes() for array in exchange.broadcast(state).values())
            added = added + self.private.noise_on_sum(length, len(answers), *place, question + taken.tobytes())
        message = _shaped(centre + added / scale, like)
        return Collected(exchange.combine(state, [Reply(1.0, message)]), up, down)

    def collect_sum(self, exchange: Exchange, state: State, scale: float, summed: Any) -> Collected:
        """What the server makes of a sum that came under masks over a transport.

        Parameters
        ----------
        exchange : Exchange
            Additive.
        state : object
        scale : float
            The share of the cohort's weight that is in the sum.
        summed : object
            Its total, the layout that is added up, and the bytes: as `fgmp.flower.secure.Summed`.
        """
        assert self.secure is not None
        if summed.total is None or not scale > 0:
            return Collected(state, summed.bytes_up, summed.bytes_down)
        message = _shaped(self.secure.decoded(summed.total) / scale, summed.like)
        return Collected(exchange.combine(state, [Reply(1.0, message)]), summed.bytes_up, summed.bytes_down)


def collector_for(
    method: Method,
    n_clients: int,
    cohort_size: int,
    rounds: int,
    secure: SecureSum | None,
    private: GaussianNoise | None,
    secret: bytes = b"",
) -> Collector:
    """Who hands over the answers in a run; an error where that does not fit the method or the cohort."""
    check_secure(secure)
    for what, option in (("secure", secure), ("private", private)):
        if option is not None:
            check_additive(method, what)
    if secure is not None:
        secure.needed(cohort_size)
    if private is None:
        return Collector(secure)
    shape = cohort_size, len(method.exchanges())
    return Collector(secure, accounted(private, secret, n_clients, *shape, rounds), shape)


def check_additive(method: Method, what: str) -> None:
    """Raise a ValueError where an exchange of a method is no sum, and `what` needs one."""
    for index, exchange in enumerate(method.exchanges()):
        if exchange.sum is None:
            raise ValueError(
                f"{what} is given, and exchange {index + 1} of {type(method).__name__} is no sum; expected an additive "
                "method: SharedSupportGradMP with CountSketch, FedGradMP or a first-order method, with Mean()"
            )


def summed_objective(
    transport: Any, places: Support, model: Array | SparseModel, weights: Array, secure: SecureSum
) -> float:
    """The mean of some clients' objectives, of which the server sees the sum alone.

    It is nan where fewer than the threshold say one that is in the range.
    """
    if hasattr(transport, "secure_objective"):
        total, taken = transport.secure_objective(places, model, weights, secure)
    else:
        told = np.array(transport.objectives(places, model), float)
        taken = np.abs(told) <= secure.range
        parts = [secure.encoded(told[i : i + 1], weights[i]) for i in np.flatnonzero(taken)]
        total = secure.plain(parts) if len(parts) >= secure.needed(len(places)) else None
    return float("nan") if total is None else float(secure.decoded(total)[0] / weights[taken].sum())


def _flat(message: Message) -> Array:
    """The arrays of a message one after another, in float64."""
    return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in message.values()])


def _shaped(flat: Array, like: Message) -> Message:
    """The inverse of `_flat`, in the shapes and the precision of another message."""
    message, start = {}, 0
    for name, array in like.items():
        message[name] = flat[start : start + array.size].reshape(array.shape).astype(array.dtype)
        start += array.size
    return message
