"""Who takes part in a round, and the random numbers of each client: keyed by the seed and the place, by no order."""

from __future__ import annotations

import numpy as np

from ..federation import Client
from ..models import Support

__all__ = ["client_generator", "draw_cohort"]


def draw_cohort(seed: int, number: int, n_clients: int, cohort_size: int) -> Support:
    """The clients of round `number`, increasing: `cohort_size` of them, uniformly without replacement."""
    if cohort_size == n_clients:
        return np.arange(n_clients)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
    return np.sort(generator.choice(n_clients, cohort_size, replace=False))


def client_generator(seed: int, number: int, exchange: int, client: Client) -> np.random.Generator:
    """The random numbers of one client in one exchange of one round."""
    place = (1, number, exchange, client.key)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=place)))
