"""A curious server: it keeps every sum that it receives, and solves the sums for single clients."""

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np

from fgmp.data import Client
from fgmp.method import Exchange
from fgmp.privacy.secure_sums import SecureSum
from fgmp.simulation import transport_to
from fgmp.sparse_model import dense
from fgmp.updates import Rejected


class Away:
    """A transport on which one client misses one sum, of updates or of objectives.

    Parameters
    ----------
    transport : Transport
    client_id : int
        The client that misses a sum.
    missed : int or None
        Which of the sums of the run it misses, from 0; None is none of them.
    sums : list of int
        Gets the number of each sum, to see how many there were.
    """

    def __init__(self, transport, client_id, missed, sums):
        self.transport = transport_to("transport", transport)
        self.client_id = client_id
        self.missed = missed
        self.sums = sums

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.transport, name)

    def for_method(self, method):
        """Return the same around the prepared transport."""
        return Away(self.transport.for_method(method), self.client_id, self.missed, self.sums)

    def is_missed(self):
        """Count a sum, and return whether the client misses it."""
        self.sums.append(len(self.sums))
        return self.sums[-1] == self.missed

    def run_clients(self, call, message, cohort):
        """Return the updates, without that of the client if it misses this sum."""
        updates = list(self.transport.run_clients(call, message, cohort))
        if not self.is_missed():
            return updates
        client_ids = np.asarray(self.transport.info.client_ids)[cohort]
        return [
            Rejected() if client_id == self.client_id else update
            for client_id, update in zip(client_ids, updates, strict=True)
        ]

    def objectives(self, x, indices=None):
        """Return the objectives, without that of the client if it misses this sum."""
        reported, values = self.transport.objectives(x, indices)
        if not self.is_missed():
            return reported, values
        others = np.asarray(self.transport.info.client_ids)[reported] != self.client_id
        return reported[others], values[others]


@dataclass
class ReleasedSum:
    """A mean that the server learnt.

    Attributes
    ----------
    client_ids : frozenset of int
        Of whom.
    exchange : Exchange or None
        Of what: the updates of an exchange, or the objectives.
    message : ndarray or SparseModel
        What was sent to the clients.
    mean : ndarray or float
    """

    client_ids: frozenset[int]
    exchange: Exchange | None
    message: Any
    mean: Any

    @property
    def known_part(self):
        """What the mean has whatever the rows are: the model that was sent, or zero."""
        sends_model = isinstance(self.message, np.ndarray) and self.exchange is not None
        return self.message if sends_model else 0


@contextmanager
def record_released_sums():
    """Record all sums that are released under masks, with the clients that are in them."""
    released = []
    collect = SecureSum.run_and_collect
    objective = SecureSum.objective

    def record_updates(self, transport, call, message, cohort):
        seen = collect(self, transport, call, message, cohort)
        if not seen.is_empty:
            (mean,) = seen.as_matrix()  # the server sees one row, and no more
            client_ids = np.asarray(transport.info.client_ids)[cohort][seen.accepted]
            members = frozenset(client_ids.tolist())
            released.append(ReleasedSum(members, call.exchange, message, mean))
        return seen

    def record_objective(self, transport, x, indices):
        found = objective(self, transport, x, indices)
        if not np.isnan(found):
            federation = transport.local_data
            members = members_of_objective(found, federation, x, indices)
            released.append(ReleasedSum(members, None, x, found))
        return found

    with (
        mock.patch.object(SecureSum, "run_and_collect", record_updates),
        mock.patch.object(SecureSum, "objective", record_objective),
    ):
        yield released


def members_of_objective(mean, federation, x, indices):
    """Return the ids of the largest set of clients that has this mean objective."""
    values = federation.client_objectives(x, indices)
    reported = indices
    weights = federation.weights[reported]
    client_ids = federation.client_ids[reported]
    for size in range(len(reported), 0, -1):
        for subset in map(list, combinations(range(len(reported)), size)):
            weighted = weights[subset] @ values[subset] / weights[subset].sum()
            if abs(weighted - mean) < 1e-9:
                return frozenset(client_ids[subset].tolist())
    raise AssertionError("no set of clients has this mean")


def solvable_clients(sets):
    """Return the clients whose unit vector is a combination of the indicators of some sets."""
    clients = sorted(set().union(*sets))
    indicators = np.array([[float(client in members) for client in clients] for members in sets])
    rank = np.linalg.matrix_rank(indicators)
    return [
        client
        for client, unit in zip(clients, np.eye(len(clients)), strict=True)
        if np.linalg.matrix_rank(np.vstack([indicators, unit])) == rank
    ]


def moments_of(features, targets):
    """Return second moments, in which all sums for the squared loss are linear."""
    table = np.column_stack([features, targets])
    return (table.T @ table / len(table))[np.triu_indices(table.shape[1])]


def coefficients_of(released_sum, federation):
    """Return the matrix that makes an update of moments, measured on clients of the attacker."""
    rng = np.random.default_rng(1)
    n_moments = len(moments_of(np.zeros((1, federation.n_features)), np.zeros(1)))
    moments = []
    updates = []
    for _ in range(n_moments):
        X = rng.standard_normal((7, federation.n_features))
        y = rng.standard_normal(7)
        moments.append(moments_of(X, y))
        update = update_of(released_sum, Client(X, y, federation.loss))
        updates.append(update - released_sum.known_part)
    return np.linalg.solve(np.array(moments), np.array(updates)).T


def update_of(released_sum, client):
    """Return what a client sends for a sum, as a vector."""
    if released_sum.exchange is None:
        return np.array([client.objective(released_sum.message)])
    rng = np.random.default_rng(0)
    update = released_sum.exchange.client_update(client, released_sum.message, rng)
    return np.ravel(dense(update))


def solve_for_clients(released, federation):
    """Return the clients for whom some number follows linearly, and the worst relative error."""
    client_ids = federation.client_ids.tolist()
    table, values = linear_system(released, federation, client_ids)
    n_moments = table.shape[1] // len(client_ids)
    found = []
    errors = []
    for index, client_id in enumerate(client_ids):
        own = slice(index * n_moments, (index + 1) * n_moments)
        others = np.delete(table, np.r_[own], axis=1)
        left, sizes, _ = np.linalg.svd(others, full_matrices=True)
        # Combinations of sums that depend on no other client.
        free = left[:, np.count_nonzero(sizes > 1e-9 * sizes[0]) :]
        alone = free.T @ table[:, own]
        if np.linalg.norm(alone, 2) > 1e-6:
            found.append(client_id)
            client = federation.clients[index]
            truth = alone @ moments_of(client.features, client.targets)
            errors.append(np.linalg.norm(free.T @ values - truth) / np.linalg.norm(truth))
    return found, max(errors, default=0.0)


def linear_system(released, federation, client_ids):
    """Return the matrix and the right-hand side of all sums, in the moments of all clients."""
    weights = dict(zip(client_ids, federation.weights.tolist(), strict=True))
    rows = []
    values = []
    for released_sum in released:
        matrix = coefficients_of(released_sum, federation)
        total = sum(weights[client_id] for client_id in released_sum.client_ids)
        shares = [
            (client_id in released_sum.client_ids) * weights[client_id] / total
            for client_id in client_ids
        ]
        rows.append(np.hstack([share * matrix for share in shares]))
        values.append(np.ravel(released_sum.mean) - released_sum.known_part)
    return np.vstack(rows), np.concatenate(values)
