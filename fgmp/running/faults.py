"""What may go wrong with clients in a simulation: they drop out, or something else arrives than they sent.

Whether a fault strikes a client in a round depends on the seed, the round, the client's key and the fault's place in
the list: not on who else takes part. Of what reaches the server nothing says that a fault made it: the server sees an
answer, or none.

Examples
--------
>>> import fgmp
>>> from fgmp.running.faults import Changed
>>> federation = fgmp.make_sparse_regression(n_clients=10, n_features=50, sparsity=3, rng=0)
>>> broken = Changed(lambda answer, client: answer | {"values": answer["values"] + float("nan")}, clients=[7])
>>> faults = [fgmp.DropOut(probability=0.2), broken]
>>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), federation, rounds=5, rng=0, faults=faults)
>>> bool(result.history["relative_error"][-1] < 1e-12), int(result.history["left_out_not_finite"][-1]) in range(1, 6)
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_integer, check_number, check_sequence, settle_number, shown
from ..federation import Client
from ..models import Message

__all__ = ["Changed", "DropOut", "Fault", "Faults", "Struck", "check_faults"]


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


@dataclass(frozen=True, kw_only=True)
class DropOut(Fault):
    """The client is not there for a round: it computes and sends nothing. With probability 1 it never answers."""


@dataclass(frozen=True)
class Changed(Fault):
    """Something else arrives than the client sent: garbage, or a lie.

    Parameters
    ----------
    change : callable (answer, client) -> answer
        Answers are mappings of names to arrays; it returns another one.
    **others
        As in `Fault`.
    """

    change: Callable[[Message, Client], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.change):
            raise ValueError(f"change is {shown(self.change)}; expected a callable (answer, client) -> answer")


class Struck(NamedTuple):
    """What the faults of a round make of one client.

    Attributes
    ----------
    absent : bool
    changes : tuple of callable (answer, client) -> answer
        In order.
    """

    absent: bool
    changes: tuple[Callable[[Message, Client], Any], ...]

    def answer(self, answer: Any, client: Client) -> Any:
        """What arrives at the server."""
        for change in self.changes:
            answer = change(answer, client)
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
        absent, changes = False, []
        for place, (fault, chosen) in enumerate(zip(self.faults, self.may_strike, strict=True)):
            if key not in chosen:
                continue
            generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(5, number, place, key)))
            if generator.random() < fault.probability:
                absent |= isinstance(fault, DropOut)
                changes += [fault.change] if isinstance(fault, Changed) else []
        return Struck(absent, tuple(changes))


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
