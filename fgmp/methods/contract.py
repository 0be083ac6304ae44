"""The contract between a method and whatever runs it: exchanges of messages, and pure functions over a small state.

A round is a sequence of exchanges. In each, the server broadcasts a message to the cohort, every client answers with
a message, and the server combines the answers into its next state. The loop in `fgmp.running.simulation`, its byte
counts and any other runtime see messages only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..checks import check_protocol
from ..federation import Client
from ..models import Array, Message
from ..shapes import Shaped

__all__ = ["Exchange", "Method", "Reply", "Sum", "check_method", "is_declared", "seeded", "weighted_sum"]

State = Any


def _anything(state: State, message: Message) -> None:
    """Every message passes."""


class Reply(NamedTuple):
    """One client's answer: its weight within the cohort (the weights of all replies sum to one) and its message."""

    weight: float
    message: Message


def weighted_sum(replies: list[Reply]) -> Message:
    """The weighted sums of the arrays that the clients sent, one after another."""
    names = replies[0].message
    return {name: sum(reply.weight * reply.message[name] for reply in replies) for name in names}  # type: ignore[misc]


def _of(state: State, replies: list[Reply]) -> Message:
    return weighted_sum(replies)


def _as_it_is(state: State, message: Message) -> Message:
    return message


def _zero(state: State, laid_out: Message) -> Message:
    return {name: np.zeros_like(array) for name, array in laid_out.items()}


class Sum(NamedTuple):
    """How the answers of an exchange add up, where `combine` needs nothing but their weighted sum.

    Attributes
    ----------
    of : (state, replies) -> message
        The sum of weight times answer, as one answer of weight one: what `combine` is handed.
    laid_out : (state, message) -> message
        An answer as arrays of floats whose names, shapes and order do not depend on who answers, so that sums can be
        taken entry by entry where nobody sees an answer; `combine` takes their sum as well.
    centre : (state, laid out answer) -> message
        What everybody knows an answer to be near, laid out alike, where their distance is to be bounded: the model that
        was broadcast, or zero, the default.
    """

    of: Callable[[State, list[Reply]], Message] = _of
    laid_out: Callable[[State, Message], Message] = _as_it_is
    centre: Callable[[State, Message], Message] = _zero


def is_declared(method: object, combine: str) -> bool:
    """Whether the class that defines a method's step at the server says ``additive = True`` beside it.

    One that overrides the step and does not say so may look at single answers.
    """
    owner = next(kind for kind in type(method).__mro__ if combine in vars(kind))
    return bool(vars(owner).get("additive", False))


class Exchange(NamedTuple):
    """One trip from the server to the cohort and back.

    Attributes
    ----------
    broadcast : state -> message
        What the server sends to each client of the cohort.
    answer : (client, message, generator) -> message
        What a client does with it, on its own data only.
    combine : (state, replies) -> state
        What the server makes of the answers.
    check : (state, message) -> None
        Raises a ValueError where an answer is not what was asked for: then it never reaches `combine`. By default any
        message of finite numbers will do.
    sum : Sum or None
        Where the exchange is additive, how answers add up: `combine` is then handed their sum, as one reply of weight
        one, and nothing else. None where it needs each of them.
    """

    broadcast: Callable[[State], Message]
    answer: Callable[[Client, Message, np.random.Generator], Message]
    combine: Callable[[State, list[Reply]], State]
    check: Callable[[State, Message], None] = _anything
    sum: Sum | None = None


class Method(Protocol):
    """A federated method: an immutable object of hyper-parameters over pure functions.

    A checkpoint pickles its states. Where clients and server draw numbers alike, the class has a `seeded(seed)` that
    returns the method for a run of that seed.
    """

    def check(self, federation: Shaped) -> None:
        """Raise a ValueError where the hyper-parameters do not fit, as far as the shape of a federation tells."""

    def prepare(self, client: Client) -> Client:
        """The client in the coordinates the method works in (once per client; B_i = A_i Psi)."""

    def start(self, federation: Shaped) -> State:
        """The state the server starts from: it knows a shape, and no data."""

    def exchanges(self) -> Sequence[Exchange]:
        """The exchanges of one round, in order."""

    def coefficients(self, state: State) -> Array:
        """The estimate that a state stands for, in the coordinates of the prepared clients."""

    def estimate(self, state: State) -> Array:
        """The same estimate as a signal of n_features."""


def seeded(method: Method, seed: int) -> Method:
    """The method for a run of a seed, where its class has such a thing; otherwise itself."""
    made: Method = method.seeded(seed) if hasattr(type(method), "seeded") else method  # type: ignore[attr-defined]
    return made


def check_method(name: str, method: Any) -> Method:
    """Return a method, or raise a ValueError where it is something else."""
    needed = ("check", "prepare", "start", "exchanges", "coefficients", "estimate")
    found: Method = check_protocol(name, method, needed, "a method, such as fgmp.FedGradMP(sparsity=4)")
    return found
