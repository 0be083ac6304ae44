"""Variants of FedGradMP by which the notebooks find out what does what, and an aggregator that keeps what it saw."""

import numpy as np

import fgmp
from fgmp.solvers import minimise_on
from fgmp.sparse_model import union

__all__ = ["Centred", "KeptAnswers"]


class Centred(fgmp.FedGradMP):
    """FedGradMP whose clients take the mean off a gradient before they choose from it.

    That removes from the choice what lifts all entries alike, and nothing else.
    """

    def client_update(self, client, x, rng):
        for rows in client.minibatches(rng, self.batch_size, self.local_iterations):
            r = client.gradient(x, rows)
            gamma = self.dictionary.select_atoms(r - r.mean(), 2 * self.sparsity)
            merged = union(gamma, x.support, r.size)
            x = self.prune(minimise_on(merged, client, self.dictionary, fgmp.Exact(), x, rng))
        return x


class KeptAnswers(fgmp.Aggregator):
    """The mean, as by default, and the answers of the clients of each round."""

    def __init__(self):
        self.rounds = []

    def __call__(self, updates):
        self.rounds.append(updates)
        return updates.mean()

    @property
    def answers(self):
        """The answers of the clients of the last round, a row for each."""
        return self.rounds[-1].as_matrix()

    def votes(self):
        """Which features each client has in its answer: ``[round, client, feature]``."""
        found = []
        for updates in self.rounds:
            chosen = np.zeros(updates.as_matrix().shape, dtype=bool)
            chosen[updates.entries] = True
            found.append(chosen)
        return np.array(found)
