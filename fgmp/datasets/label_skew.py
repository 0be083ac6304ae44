"""Dealing samples to clients so that each client has classes of its own: heterogeneity for data without writers."""

from __future__ import annotations

import numpy as np

from ..models import Array

__all__ = ["deal_by_label"]


def deal_by_label(
    labels: Array, n_clients: int, n_samples: int, concentration: float, generator: np.random.Generator
) -> list[Array]:
    """Deal samples to clients with a Dirichlet skew of the labels (Hsu, Qi and Brown, 2019, arXiv 1909.06335).

    Each client draws shares of the classes from a symmetric Dirichlet distribution. Then the clients take turns, in a
    new order each time, and draw one sample from the class that their shares choose among the classes that are left.
    So no client is favoured, and the fewer samples are left over in the end, the closer the clients come to each other.

    Parameters
    ----------
    labels : ndarray, shape (n,)
        Class of each sample.
    n_clients, n_samples : int
        Clients, and samples for each of them; n_clients * n_samples is at most n.
    concentration : float
        Parameter of the Dirichlet distribution: near 0, a client has one class only; large, all classes alike.
    generator : Generator

    Returns
    -------
    list of ndarray of int, each of shape (n_samples,)
        The samples of each client; no sample is dealt twice.
    """
    classes = np.unique(labels)
    piles = [generator.permutation(np.flatnonzero(labels == c)) for c in classes]
    left = np.array([len(pile) for pile in piles])
    shares = generator.dirichlet(np.full(len(classes), concentration), n_clients)
    dealt = np.empty((n_clients, n_samples), np.intp)
    for turn in range(n_samples):
        for client in generator.permutation(n_clients):
            chances = shares[client] * (left > 0)
            if chances.sum() < 1e-9:
                chances = left / left.sum()
            chosen = generator.choice(len(classes), p=chances / chances.sum())
            left[chosen] -= 1
            dealt[client, turn] = piles[chosen][left[chosen]]
    return list(dealt)
