"""Fault injection: a transport wrapper that drops or corrupts client updates, of which the server sees no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ._support.validation import check_integer, check_sequence, short_repr, validate_number_field
from .rounds import Call, Message, Method, Streams, Transport
from .sparse_model import IndexArray


@dataclass(frozen=True, kw_only=True)
class DropOut:
    """The client is not there for a round: it computes and sends nothing. With probability 1 it never answers.

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
        validate_number_field(self, "probability", at_least=0, at_most=1)
        if isinstance(self.clients, (int, float, np.number)):
            validate_number_field(self, "clients", at_least=0, at_most=1)
        elif self.clients is not None:
            client_ids = check_sequence(
                "clients", self.clients, "keys of clients, or a share of all from 0 to 1"
            )
            object.__setattr__(
                self,
                "clients",
                tuple(check_integer("clients", client_id, at_least=0) for client_id in client_ids),
            )


@dataclass(frozen=True)
class Corrupted(DropOut):
    """Something else arrives than the client sent: garbage, or a lie.

    Parameters
    ----------
    change : callable (answer, client) -> answer
        Answers are arrays or sparse models; it returns whatever arrives. The client is given by its key. For the
        others, see `DropOut`.
    """

    change: Callable[[Any, int], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.change):
            raise ValueError(
                f"change is {short_repr(self.change)}; expected a callable (answer, client) -> answer"
            )


class Faulty:
    """A transport around another, in which faults strike clients at random, by round and client.

    Whether a fault strikes a client in a round depends on the seed, the round, the client's id and the fault's index:
    not on who else takes part. Over machines with secure sums what a fault changes is what arrives: integers under
    masks.

    Parameters
    ----------
    transport : Federation or another transport
    *faults : DropOut or Corrupted

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=10, n_features=50, sparsity=3, rng=0)
    >>> flaky = fgmp.Faulty(federation, fgmp.DropOut(probability=0.2))
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), flaky, rounds=5, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12), result.rejected["missing"] in range(1, 25)
    (True, True)
    """

    def __init__(self, transport: Transport, *faults: DropOut) -> None:
        self.transport, self.faults = transport, faults
        for fault in faults:
            if not isinstance(fault, DropOut):
                raise ValueError(
                    f"faults has {short_repr(fault)}; expected faults such as fgmp.DropOut(probability=0.1)"
                )

    def __getattr__(self, name: str) -> Any:
        if name == "transport" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.transport, name)

    def prepare(self, method: Method) -> Faulty:
        """The same around a transport that serves a method."""
        return Faulty(self.transport.prepare(method), *self.faults)

    def identity(self) -> dict[str, Any]:
        """The data, and what decides what arrives."""
        return self.transport.identity() | {"faults": self.faults}

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> list[Any]:
        """What arrives."""
        client_ids = np.asarray(self.transport.shape.client_ids)[cohort]
        struck = [
            (fault, self._struck(index, call, client_ids))
            for index, fault in enumerate(self.faults)
        ]
        present = np.ones(len(cohort), bool)
        for fault, hit in struck:
            present &= ~hit | isinstance(fault, Corrupted)
        sent = iter(self.transport.run_clients(call, message, cohort[present]))
        arrived = [next(sent) if there else None for there in present]
        for fault, hit in struck:
            if isinstance(fault, Corrupted):
                for i in np.flatnonzero(hit & present):
                    arrived[i] = fault.change(arrived[i], int(client_ids[i]))
        return arrived

    @property
    def never_there(self) -> list[int]:
        """The keys of those who answer in no round."""
        certain = [
            fault
            for fault in self.faults
            if not isinstance(fault, Corrupted) and fault.probability == 1
        ]
        named = [fault.clients for fault in certain if isinstance(fault.clients, tuple)]
        return [client_id for client_ids in named for client_id in client_ids]

    @property
    def masked(self) -> Callable[..., Any]:
        """The sum under masks of the transport inside, where it has one: faults strike what is uploaded."""
        return partial(self._masked, self.transport.masked)  # type: ignore[attr-defined]

    def _masked(
        self,
        inner: Callable[..., Any],
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        *how: Any,
    ) -> Any:
        if call is None:  # objectives arrive as they are, with masks and without
            return inner(call, message, cohort, *how)
        client_ids = np.asarray(self.transport.shape.client_ids)[cohort]
        struck = [
            (fault, self._struck(index, call, client_ids))
            for index, fault in enumerate(self.faults)
        ]

        def arriving(position: int, upload: Any) -> Any:
            faults = [fault for fault, hit in struck if hit[position]]
            if not all(isinstance(fault, Corrupted) for fault in faults):
                return None
            for fault in faults:
                upload = fault.change(upload, int(client_ids[position]))  # type: ignore[attr-defined]
            return upload

        return inner(call, message, cohort, *how, arriving=arriving)

    def _struck(self, index: int, call: Call, client_ids: IndexArray) -> Any:
        """Whom a fault strikes of a cohort in this round: the same clients in all its exchanges."""
        fault, everybody = self.faults[index], np.asarray(self.transport.shape.client_ids)
        may: Any = everybody if fault.clients is None else fault.clients
        if isinstance(may, float):
            count = round(may * len(everybody))
            may = everybody[
                call.streams.sample(Streams.FAULT, (1 << 40) + index, len(everybody), count)
            ]
        elif strange := sorted(set(may) - set(everybody.tolist())):
            raise ValueError(
                f"clients names {strange[0]}; expected keys of the clients, such as {everybody[0]}"
            )
        draws = [
            call.streams.of(Streams.FAULT, call.round, index, int(client_id)).random()
            for client_id in client_ids
        ]
        return np.isin(client_ids, may) & (np.array(draws) < fault.probability)
