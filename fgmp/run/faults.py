"""Fault injection: a transport wrapper that drops or corrupts client updates.

The server never sees a fault. It sees that an update is missing, or the update that a fault made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support.validation import check_integer, check_sequence, short_repr, validate_number_field
from ..data import Federation
from ..method import Call, Method, Streams, Transport
from ..simulation import transport_to
from ..sparse_model import Array, IndexArray
from ..updates import Message

BoolArray = NDArray[np.bool_]
Change = Callable[[Any, int], Any]

# Draws of who can be affected are keyed by this plus the index of the fault, beyond every number
# of a round, so that they share no random number with the draws of a round.
_ELIGIBLE = 1 << 40


@dataclass(frozen=True, kw_only=True)
class DropOut:
    """Drop the updates of some clients: in an affected round the client computes and sends nothing.

    With probability 1 an eligible client never replies.

    Parameters
    ----------
    probability : float, default 1.0
        The probability, from 0 to 1, that an eligible client is affected in a round.
    clients : sequence of int, float or None
        Which clients are eligible. A sequence has client ids. A float from 0 to 1 is a share of
        all clients, rounded to a number of clients that are drawn once for the run. None, the
        default, is all clients.

    Raises
    ------
    ValueError
        If the probability or the share is not from 0 to 1, or an id is no integer of at least 0.

    Examples
    --------
    Two clients never reply:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> silent = fgmp.Faulty(federation, fgmp.DropOut(clients=[1, 3]))
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), silent, rounds=2, rng=0)
    >>> result.history["clients"].tolist(), result.rejected
    ([0, 3, 3], Counter({'missing': 4}))
    """

    probability: float = 1.0
    clients: Sequence[int] | float | None = None

    def __post_init__(self) -> None:
        validate_number_field(self, "probability", at_least=0, at_most=1)
        if self.clients is None:
            return
        # Kept in Python's own types: a checkpoint compares faults by their fields.
        clients: float | tuple[int, ...]
        if isinstance(self.clients, (int, float, np.number)):
            validate_number_field(self, "clients", at_least=0, at_most=1)
            clients = float(self.clients)
        else:
            expected = "client ids, or a share of all clients from 0 to 1"
            ids = check_sequence("clients", self.clients, expected)
            clients = tuple(check_integer("clients", client_id, at_least=0) for client_id in ids)
        object.__setattr__(self, "clients", clients)

    @property
    def share(self) -> float | None:
        """The share of all clients that are eligible; None if `clients` has ids or is None."""
        return self.clients if isinstance(self.clients, float) else None

    @property
    def client_ids(self) -> tuple[int, ...] | None:
        """The ids of the eligible clients; None if `clients` is a share or None."""
        return self.clients if isinstance(self.clients, tuple) else None


@dataclass(frozen=True)
class Corrupted(DropOut):
    """Replace a client's update by malformed or adversarial data.

    Parameters
    ----------
    change : callable (update, client_id) -> update
        Takes the array or `SparseModel` that the client sent, and the client's id, and returns
        what arrives at the server instead, which may be anything.
    probability, clients
        See `DropOut`.

    Examples
    --------
    A client that sends the opposite of its model does less harm to a median than to a mean:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> attack = fgmp.Corrupted(lambda update, client_id: -update, clients=[2])
    >>> attacked = fgmp.Faulty(federation, attack)
    >>> method = fgmp.FedAvg(learning_rate=0.05, local_iterations=5)
    >>> mean = fgmp.simulate(method, attacked, rounds=10, rng=0)
    >>> median = fgmp.simulate(method, attacked, rounds=10, rng=0, aggregator=fgmp.Median())
    >>> bool(median.history["relative_error"][-1] < mean.history["relative_error"][-1])
    True
    """

    change: Change

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.change):
            raise ValueError(
                f"change is {short_repr(self.change)}; "
                "expected a callable (update, client_id) -> update"
            )


class Faulty:
    """A transport around another transport, in which faults affect clients at random.

    Whether a fault affects a client in a round depends on the seed, the round, the client's id and
    the index of the fault, and not on the other clients of the cohort. A client that is affected
    in a round is affected in all exchanges of the round. Over machines with secure sums a
    corrupted update is the masked upload: unsigned integers.

    Parameters
    ----------
    transport : Federation or Transport
    *faults : DropOut or Corrupted

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=10, n_features=50, sparsity=3, rng=0)
    >>> flaky = fgmp.Faulty(federation, fgmp.DropOut(probability=0.2))
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=3), flaky, rounds=5, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    >>> result.rejected["missing"] in range(1, 25)
    True
    """

    def __init__(self, transport: Federation | Transport, *faults: DropOut) -> None:
        for fault in faults:
            if not isinstance(fault, DropOut):
                raise ValueError(
                    f"faults has {short_repr(fault)}; "
                    "expected faults such as fgmp.DropOut(probability=0.1)"
                )
        self.transport = transport_to("transport", transport)
        self.faults = faults

    def __repr__(self) -> str:
        faults = "".join(f", {fault!r}" for fault in self.faults)
        return f"Faulty({self.transport!r}{faults})"

    # `__getattr__` would answer with a table of the transport inside.
    _repr_html_ = None

    def __getattr__(self, name: str) -> Any:
        # While an object is unpickled it has no `transport` yet, and this would call itself.
        if name == "transport" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.transport, name)

    def for_method(self, method: Method) -> Faulty:
        """Return the same faults around the inner transport for a method."""
        return Faulty(self.transport.for_method(method), *self.faults)

    def identity(self) -> dict[str, Any]:
        """Return the identity of the inner transport and the faults."""
        return self.transport.identity() | {"faults": self.faults}

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> list[Any]:
        """Return the updates of a cohort as they arrive: None for one that is dropped."""
        client_ids = self._client_ids(cohort)
        changes = self._changes(call, client_ids)

        # A client that is dropped computes nothing: the inner transport does not run it.
        reached = np.flatnonzero([own is not None for own in changes])
        sent = self.transport.run_clients(call, message, cohort[reached])
        arrived: list[Any] = [None] * len(cohort)
        for position, update in zip(reached, sent, strict=True):
            arrived[position] = _changed(update, int(client_ids[position]), changes[position])
        return arrived

    @property
    def absent_ids(self) -> list[int]:
        """The ids of the clients that are dropped in every round."""
        never = list(self.transport.absent_ids)
        for fault in self.faults:
            if not isinstance(fault, Corrupted) and fault.probability == 1:
                never.extend(fault.client_ids or ())
        return never

    @property
    def masked_sum(self) -> Callable[..., Any] | None:
        """The masked sum of the inner transport, with faults in the uploads; None without one."""
        inner = self.transport.masked_sum
        return None if inner is None else partial(self._masked_sum, inner)

    def _masked_sum(
        self,
        masked: Callable[..., Any],
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        weights: Array,
        secure: Any,
    ) -> Any:
        """Call the inner transport's masked sum with a function that alters the uploads."""
        if call is None:  # objectives arrive unaltered, as they do without masks
            return masked(call, message, cohort, weights, secure)
        client_ids = self._client_ids(cohort)
        changes = self._changes(call, client_ids)

        def alter(position: int, upload: Any) -> Any:
            return _changed(upload, int(client_ids[position]), changes[position])

        return masked(call, message, cohort, weights, secure, alter_upload=alter)

    def _client_ids(self, cohort: IndexArray) -> IndexArray:
        return np.asarray(self.transport.info.client_ids)[cohort]

    def _changes(self, call: Call, client_ids: IndexArray) -> list[list[Change] | None]:
        """For each client the changes of its update in this round; None if it is dropped."""
        changes: list[list[Change] | None] = [[] for _ in client_ids]
        for index, fault in enumerate(self.faults):
            for position in np.flatnonzero(self._is_affected(index, call, client_ids)):
                own = changes[position]
                if not isinstance(fault, Corrupted):
                    changes[position] = None
                elif own is not None:
                    own.append(fault.change)
        return changes

    def _is_affected(self, index: int, call: Call, client_ids: IndexArray) -> BoolArray:
        """Mask of the clients that a fault affects, the same in all exchanges of a round."""
        draws = [
            call.streams.of(Streams.FAULT, call.round, index, int(client_id)).random()
            for client_id in client_ids
        ]
        is_eligible = np.isin(client_ids, self._eligible(index, call.streams))
        return is_eligible & (np.array(draws) < self.faults[index].probability)

    def _eligible(self, index: int, streams: Streams) -> IndexArray:
        """The ids of the clients that a fault can affect in this run."""
        fault = self.faults[index]
        everybody: IndexArray = np.asarray(self.transport.info.client_ids)
        if fault.share is not None:
            n_eligible = round(fault.share * len(everybody))
            drawn = streams.sample(Streams.FAULT, _ELIGIBLE + index, len(everybody), n_eligible)
            return everybody[drawn]
        if fault.client_ids is None:
            return everybody
        unknown = sorted(set(fault.client_ids) - set(everybody.tolist()))
        if unknown:
            raise ValueError(
                f"clients names {unknown[0]}; expected ids of the clients, such as {everybody[0]}"
            )
        return np.array(fault.client_ids, np.intp)


def _changed(update: Any, client_id: int, changes: list[Change] | None) -> Any:
    """Return what arrives of an update; None if its client is dropped."""
    if changes is None:
        return None
    for change in changes:
        update = change(update, client_id)
    return update
