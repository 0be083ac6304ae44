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
from ..federation import Client, Federation
from ..models import Array, Message

__all__ = ["Exchange", "Method", "Reply", "check_method"]

State = Any


def _anything(state: State, message: Message) -> None:
    """Every message passes."""


class Reply(NamedTuple):
    """One client's answer: its weight within the cohort (the weights of all replies sum to one) and its message."""

    weight: float
    message: Message


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
    """

    broadcast: Callable[[State], Message]
    answer: Callable[[Client, Message, np.random.Generator], Message]
    combine: Callable[[State, list[Reply]], State]
    check: Callable[[State, Message], None] = _anything


class Method(Protocol):
    """A federated method: an immutable object of hyper-parameters over pure functions.

    Where states hold NamedTuples or dataclasses that the state at the start does not show, an attribute `state_types`
    names these classes, as a tuple, and a checkpoint can hold them.
    """

    def check(self, federation: Federation) -> None:
        """Raise a ValueError where the hyper-parameters do not fit the federation."""

    def prepare(self, client: Client) -> Client:
        """The client in the coordinates the method works in (once per client; B_i = A_i Psi)."""

    def start(self, federation: Federation) -> State:
        """The state the server starts from."""

    def exchanges(self) -> Sequence[Exchange]:
        """The exchanges of one round, in order."""

    def coefficients(self, state: State) -> Array:
        """The estimate that a state stands for, in the coordinates of the prepared clients."""

    def estimate(self, state: State) -> Array:
        """The same estimate as a signal of n_features."""


def check_method(name: str, method: Any) -> Method:
    """Return a method, or raise a ValueError where it is something else."""
    needed = ("check", "prepare", "start", "exchanges", "coefficients", "estimate")
    found: Method = check_protocol(name, method, needed, "a method, such as fgmp.FedGradMP(sparsity=4)")
    return found
