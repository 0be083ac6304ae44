"""What may go wrong with clients in a simulation: they drop out, are late, send garbage, or lie.

Whether a fault strikes a client in a round depends on the seed, the round, the client's key and the fault's place in
the list: not on the number of workers, nor on who else takes part. Of what reaches the server nothing says that a fault
made it: the server sees an answer, or none.

Examples
--------
>>> import fgmp
>>> federation = fgmp.make_sparse_regression(n_clients=10, n_features=50, sparsity=3, rng=0)
>>> faults = [fgmp.DropOut(probability=0.2), fgmp.NotFinite(clients=[7])]
>>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), federation, rounds=5, rng=0, faults=faults)
>>> bool(result.history["relative_error"][-1] < 1e-12), int(result.history["left_out_not_finite"][-1]) in range(1, 6)
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_integer, check_number, check_sequence, settle_number, shown
from ..federation import Client
from ..models import Array, Message

__all__ = [
    "DropOut",
    "Fault",
    "Faults",
    "Late",
    "Lie",
    "NotFinite",
    "OutOfRange",
    "RepeatedIndices",
    "Struck",
    "TooManyEntries",
    "WrongShape",
    "check_faults",
]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What all faults share: whom they may strike, and how often.

    Parameters
    ----------
    probability : float, default 1.0
        That it strikes such a client in a round, from 0 to 1.
    clients : sequence of int, float or None
        Whom it may strike: the clients with these keys; a share of all, rounded, drawn once for the run; None is
        everybody.
    """

    probability: float = 1.0
    clients: Sequence[int] | float | None = None

    def __post_init__(self) -> None:
        settle_number(self, "probability", at_least=0, at_most=1)
        if self.clients is None:
            return
        if isinstance(self.clients, (int, float, np.number, bool)):
            settled: Any = check_number("clients", self.clients, at_least=0, at_most=1)
        else:
            keys = check_sequence("clients", self.clients, "keys of clients, or a share of all from 0 to 1")
            settled = tuple(check_integer("clients", key, at_least=0) for key in keys)
        object.__setattr__(self, "clients", settled)

    def answered(self, answer: Message, client: Client) -> Message:
        """What arrives in place of an answer."""
        return answer

    def delay(self, generator: np.random.Generator) -> float:
        """By how much more than the deadline the answer takes; below 0 is in time."""
        return -math.inf


@dataclass(frozen=True, kw_only=True)
class DropOut(Fault):
    """The client is not there for a round: it computes and sends nothing. With probability 1 it never answers."""


@dataclass(frozen=True, kw_only=True)
class Late(Fault):
    """The client takes a time from an exponential distribution, and the server waits no longer than the deadline.

    A late answer has travelled, and is counted among the bytes, but not used. The time is simulated: nobody waits, and
    the seconds of the history do not contain it.

    Parameters
    ----------
    deadline : float
        At least 0, in the unit of `mean_delay`: an answer is late with probability exp(-deadline / mean_delay).
    mean_delay : float, default 1.0
        Above 0.
    **others
        As in `Fault`.
    """

    deadline: float
    mean_delay: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "deadline", at_least=0)
        settle_number(self, "mean_delay", above=0)

    def delay(self, generator: np.random.Generator) -> float:
        """An exponential variable less the deadline."""
        return float(generator.exponential(self.mean_delay)) - self.deadline


@dataclass(frozen=True, kw_only=True)
class NotFinite(Fault):
    """All numbers of the answer but the indices are nan, or another value that is no number.

    Parameters
    ----------
    value : float, default nan
    **others
        As in `Fault`.
    """

    value: float = math.nan

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.value, float) or math.isfinite(self.value):
            raise ValueError(f"value is {shown(self.value)}; expected nan or an infinity")

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer with `value` everywhere."""
        return _changed(answer, lambda values: np.full_like(values, self.value))


@dataclass(frozen=True, kw_only=True)
class WrongShape(Fault):
    """Every array of the answer but the indices is flat, and has one entry more than it should."""

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer with a 0 at the end of its arrays."""
        return _changed(answer, lambda values: np.append(values, values.dtype.type(0)))


@dataclass(frozen=True, kw_only=True)
class RepeatedIndices(Fault):
    """The first index stands in place of all; answers without indices stay as they are."""

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer with one index, as often as there were indices, and twice where there was one."""
        return _reindexed(answer, lambda s, v: (np.full(max(len(s), 2), s[0]), np.resize(v, max(len(s), 2))))


@dataclass(frozen=True, kw_only=True)
class OutOfRange(Fault):
    """The last index is the number of coefficients, one more than the largest; without indices answers stay."""

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer with an index that is too large."""
        size = math.prod(client.model_shape)
        return _reindexed(answer, lambda support, values: (np.append(support[:-1], size), values))


@dataclass(frozen=True, kw_only=True)
class TooManyEntries(Fault):
    """Every index instead of tau, with the values over and over; answers without indices stay as they are."""

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer with all coefficients."""
        size = math.prod(client.model_shape)
        return _reindexed(answer, lambda support, values: (np.arange(size), np.resize(values, size)))


@dataclass(frozen=True, kw_only=True)
class Lie(Fault):
    """All numbers of the answer but the indices are multiplied by a factor: a server cannot see that.

    Parameters
    ----------
    factor : float, default -1.0
        -1 is the wrong sign.
    **others
        As in `Fault`.
    """

    factor: float = -1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_number(self, "factor")

    def answered(self, answer: Message, client: Client) -> Message:
        """The answer, scaled."""
        return _changed(answer, lambda values: values * values.dtype.type(self.factor))


class Struck(NamedTuple):
    """What the faults of a round make of one client.

    Attributes
    ----------
    absent, late : bool
    spoil : tuple of callable (answer, client) -> answer
        In order.
    """

    absent: bool
    late: bool
    spoil: tuple[Callable[[Message, Client], Message], ...]

    def answer(self, answer: Any, client: Client) -> Any:
        """What arrives at the server."""
        for spoil in self.spoil if isinstance(answer, dict) else ():
            answer = spoil(answer, client)
        return answer


class Faults:
    """The faults of one run.

    Parameters
    ----------
    faults : sequence of Fault
    seed : int
        Of the run.
    keys : sequence of int
        Of all clients.
    """

    def __init__(self, faults: Sequence[Fault], seed: int, keys: Sequence[int]) -> None:
        self.faults, self.seed = tuple(faults), seed
        self.may_strike = [_chosen(fault, place, seed, keys) for place, fault in enumerate(self.faults)]

    def of(self, number: int, key: int) -> Struck:
        """What strikes a client in round `number`."""
        absent, late, spoil = False, False, []
        for place, (fault, chosen) in enumerate(zip(self.faults, self.may_strike, strict=True)):
            if key not in chosen:
                continue
            generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(5, number, place, key)))
            if generator.random() < fault.probability:
                absent |= isinstance(fault, DropOut)
                late |= fault.delay(generator) > 0
                spoil.append(fault.answered)
        return Struck(absent, late, tuple(spoil))


def check_faults(faults: Any) -> tuple[Fault, ...] | None:
    """The faults as a tuple, None where there are to be none; a ValueError where they are something else."""
    if faults is None or isinstance(faults, Fault):
        return None if faults is None else (faults,)
    expected = "faults such as fgmp.DropOut(probability=0.1)"
    given = tuple(check_sequence("faults", faults, expected)) if isinstance(faults, Iterable) else (faults,)
    for fault in given:
        if not isinstance(fault, Fault):
            raise ValueError(f"faults has {shown(fault)}; expected {expected}")
    return given


def _chosen(fault: Fault, place: int, seed: int, keys: Sequence[int]) -> frozenset[int]:
    """The keys of those whom a fault may strike."""
    if fault.clients is None:
        return frozenset(keys)
    if isinstance(fault.clients, float):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4, place)))
        count = round(fault.clients * len(keys))
        return frozenset(generator.choice(np.array(keys), count, replace=False).tolist())
    named = frozenset(fault.clients)
    if strange := sorted(named - set(keys)):
        raise ValueError(f"clients names {strange[0]}; expected keys of the clients, such as {keys[0]}")
    return named


def _changed(answer: Message, change: Callable[[Array], Array]) -> Message:
    """The answer with its arrays of floats changed."""
    return {name: change(array) if array.dtype.kind == "f" else array for name, array in answer.items()}


def _reindexed(answer: Message, change: Callable[[Array, Array], tuple[Array, Array]]) -> Message:
    """The answer with its indices and their values changed, where it has some."""
    after = dict(answer)
    for name, support in answer.items():
        values = name.removesuffix("support") + "values"
        if name.endswith("support") and values in answer and len(support):
            indices, after[values] = change(support, answer[values])
            after[name] = indices.astype(support.dtype)
    return after
