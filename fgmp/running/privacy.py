"""Differential privacy for clients: bounded contributions, Gaussian noise on their sum, and what has been spent.

Central: clients trust whoever adds the noise, the server or a secure sum. `dp-accounting` does the accounting.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_number, settle_number
from ..models import Array

__all__ = ["Accounted", "GaussianNoise", "accounted", "check_private", "spent"]


@dataclass(frozen=True)
class GaussianNoise:
    """How `simulate(..., private=GaussianNoise(...))` hides what data a client has.

    In every exchange each client's answer x_i, relative to what all know of it (a model: the one that was broadcast;
    other sums: zero), is multiplied by N p_i and clipped to the norm C. The server gets their sum divided by the size L
    of the cohort, and noise of standard deviation z 2 C / L in every number: 2 C / L is the most that one client with
    other data changes. The z is the smallest with which the whole run is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Of all rounds together: above 0.
    clip : float or sequence of float
        C, above 0; or one for each exchange of a round.
    delta : float, default 1e-5
        Above 0 and below 1; below 1/N, to mean anything.

    Notes
    -----
    Neighbours are federations in which one client has any other data. The exchanges of a round are one Gaussian
    mechanism of z / sqrt(exchanges); a cohort, drawn without replacement, amplifies it. Accounting in Renyi divergence.
    How often the clients' answers are clipped is not accounted for, and neither is how you chose C: take it from data
    that need no protection. It needs `pip install "fgmp[privacy]"`.

    References
    ----------
    Y.-X. Wang, B. Balle, S. Kasiviswanathan, Subsampled Renyi differential privacy and analytical moments accountant,
    AISTATS 2019. H. B. McMahan et al., Learning differentially private recurrent language models, ICLR 2018.
    """

    epsilon: float
    clip: float | Sequence[float]
    delta: float = 1e-5

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", above=0)
        settle_number(self, "delta", above=0)
        if self.delta >= 1:
            raise ValueError(f"delta is {self.delta!r}; expected a number above 0 and below 1")
        several = isinstance(self.clip, (list, tuple)) or (isinstance(self.clip, np.ndarray) and self.clip.ndim == 1)
        given: Any = self.clip if several else (self.clip,)
        if not len(given):
            raise ValueError(f"clip is {self.clip!r}; expected a number above 0, or one for each exchange")
        object.__setattr__(self, "clip", tuple(check_number("clip", clip, above=0) for clip in given))


class Accounted(NamedTuple):
    """A noise with its multiplier for one run.

    Attributes
    ----------
    noise : GaussianNoise
    multiplier : float
        z.
    n_clients : int
        N.
    """

    noise: GaussianNoise
    multiplier: float
    n_clients: int

    def clipped(self, weight: float, answer: Array, exchange: int) -> Array:
        """N p_i x_i, no longer than C."""
        scaled = self.n_clients * weight * answer
        norm = float(np.linalg.norm(scaled))
        limit = self._clip(exchange)
        short: Array = scaled * min(1.0, limit / norm) if norm > 0 else scaled
        return short

    def noise_on_sum(self, length: int, n_members: int, place: tuple[int, int, int]) -> Array:
        """The noise of an exchange; from the seed, so that a simulation repeats itself."""
        seed, number, exchange = place
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7, number, exchange)))
        return generator.standard_normal(length) * (self.multiplier * 2 * self._clip(exchange) / n_members)

    def _clip(self, exchange: int) -> float:
        clips: Any = self.noise.clip
        return float(clips[min(exchange, len(clips) - 1)])


def accounted(noise: GaussianNoise, n_clients: int, cohort_size: int, exchanges: int, rounds: int) -> Accounted:
    """The noise with the smallest multiplier for a run, to a thousandth; a ValueError where it does not fit the run."""
    clips: Any = noise.clip
    if len(clips) not in (1, exchanges):
        raise ValueError(f"clip has {len(clips)} values; expected one, or one for each of the {exchanges} exchanges")
    low, high = 0.0, 1.0
    while spent(high, n_clients, cohort_size, exchanges, rounds, noise.delta) > noise.epsilon:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = spent(middle, n_clients, cohort_size, exchanges, rounds, noise.delta) <= noise.epsilon
        low, high = (low, middle) if enough else (middle, high)
    return Accounted(noise, high, n_clients)


@lru_cache(maxsize=4096)
def spent(multiplier: float, n_clients: int, cohort_size: int, exchanges: int, rounds: int, delta: float) -> float:
    """The epsilon of so many rounds."""
    if rounds == 0:
        return 0.0
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    event: Any = dp_accounting.GaussianDpEvent(multiplier / exchanges**0.5)
    if cohort_size < n_clients:
        event = dp_accounting.SampledWithoutReplacementDpEvent(n_clients, cohort_size, event)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(event, rounds).get_epsilon(delta))


def check_private(private: Any) -> None:
    """Raise an error where `private` is none, or what it needs is not installed."""
    if private is None:
        return
    if not isinstance(private, GaussianNoise):
        raise ValueError(f"private is {private!r}; expected GaussianNoise(epsilon, clip, delta)")
    if importlib.util.find_spec("dp_accounting") is None:
        raise ImportError('differential privacy needs dp-accounting: pip install "fgmp[privacy]"')
