"""Some of the clients, with other weights: the bootstrap over whole clients, and folds of them.

The bootstrap draws clients with replacement, by weights that a server draws. A client that is drawn
twice counts twice as much, and one that is not drawn is asked for nothing. Clients send what they
send in every fit, and none learns how often it was drawn from its message alone. So inclusion
frequencies need no pooled rows.

Under masks there is no such bootstrap: sums over K clients with other weights are equations, and
from K resamples on they can be solved for every client. Folds of clients under masks have at least
two clients each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import ProblemInfo
from ..method import Call, Method, Transport
from ..sparse_model import Array, IndexArray
from ..updates import Message, Update
from .clients import FitClients, Fold, Found, Standardization


class ResampledClients(FitClients):
    """The clients of a fit that were drawn, each with the weight of its draws.

    Parameters
    ----------
    clients : FitClients
        All clients, of which some sums may rest on one.
    counts : ndarray of int, shape (n_clients,)
        How often each was drawn.
    """

    def __init__(self, clients: FitClients, counts: IndexArray) -> None:
        self.clients = clients
        self.counts = counts
        self.info = _reweighted(clients.info, counts)
        self.total_weight = float(clients.total_weight * (clients.info.weights @ counts))
        self.counted = (clients.counted * counts)[counts > 0]
        self.is_sparse = clients.is_sparse
        self.min_rows = clients.min_rows

    @property
    def absent(self) -> list[str]:
        """Names of the clients that did not answer the last time."""
        return self.clients.absent

    def together(self, tasks: Sequence[Callable[[], Found]]) -> list[Found]:
        """Return what tasks return, whose questions may travel in the same messages."""
        return self.clients.together(tasks)

    def transport(
        self, standardization: Standardization | None = None, fold: Fold | None = None
    ) -> ReweightedTransport:
        """Return the transport to the clients that were drawn."""
        return ReweightedTransport(self.clients.transport(standardization, fold), self.counts)


class ReweightedTransport(Transport):
    """A transport to some of the clients of another one, with other weights.

    Attributes
    ----------
    transport : Transport
        To all clients.
    counts : ndarray of int, shape (n_clients,)
        How often each was drawn.
    drawn : ndarray of int
        The clients that are asked, by their indices there, increasing.
    info, weights, truth
        As of `Transport`, of the clients that are asked.
    """

    def __init__(self, transport: Transport, counts: IndexArray) -> None:
        self.transport = transport
        self.counts = counts
        self.drawn = np.flatnonzero(counts)
        self.info = _reweighted(transport.info, counts)
        self.weights = self.info.weights
        self.truth = transport.truth

    def for_method(self, method: Method) -> ReweightedTransport:
        """Return the transport for a run of a method."""
        return ReweightedTransport(self.transport.for_method(method), self.counts)

    @property
    def masked_sum(self) -> Callable[..., Any] | None:
        """The masked sum of the transport, for clients that were drawn; None if it has none."""
        masked = self.transport.masked_sum
        if masked is None:
            return None
        return lambda call, message, cohort, *others: masked(
            call, message, self.drawn[cohort], *others
        )

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> Sequence[Any]:
        """Return the updates of a cohort, in its order."""
        return self.transport.run_clients(call, message, self.drawn[cohort])

    def objectives(self, x: Update, indices: IndexArray | None = None) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report their objective, and the objectives."""
        asked = self.drawn if indices is None else self.drawn[indices]
        reported, values = self.transport.objectives(x, asked)
        return np.searchsorted(self.drawn, reported), values

    def identity(self) -> dict[str, Any]:
        """Return what tells these data from others."""
        return {**self.transport.identity(), "counts": self.counts}


def _reweighted(info: ProblemInfo, counts: IndexArray) -> ProblemInfo:
    """Return the part of a problem that was drawn, with weights that sum to one."""
    drawn = np.flatnonzero(counts).tolist()
    weights = (info.weights * counts)[drawn]
    return replace(
        info,
        n_rows=[info.n_rows[index] for index in drawn],
        client_ids=[info.client_ids[index] for index in drawn],
        weights=weights / weights.sum(),
    )


def training_transport(
    clients: FitClients, fold: Fold | None, standardization: Standardization | None = None
) -> Transport:
    """Return the transport to what is outside of a fold: rows, or clients, who alone are asked.

    The rows are in some units, by default their own.
    """
    if fold is None or not fold.client_folds:
        return clients.transport(standardization, fold)
    folds = np.array(fold.client_folds)[np.asarray(clients.info.client_ids)]
    takes_part = folds != fold.number
    return ReweightedTransport(clients.transport(standardization), takes_part.astype(np.intp))
