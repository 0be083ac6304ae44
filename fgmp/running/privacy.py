"""Differential privacy for clients: bounded contributions, Gaussian noise on their sum, and what has been spent.

Central: clients trust the server, which adds the noise. Noise and cohorts come from a secret of 256 bits that the
server draws for each run, and that is in its memory and in its own checkpoint only. `dp-accounting` keeps accounts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..advice import RehearsalWarning, advise
from ..checks import check_number, settle_integer, settle_number, settle_truth
from ..models import Array, Support
from ..shapes import Shape

__all__ = ["Accounted", "GaussianNoise", "accounted", "check_private", "new_secret", "public_shape", "spent"]


@dataclass(frozen=True)
class GaussianNoise:
    """How `simulate(..., private=GaussianNoise(...))` hides what data a client has.

    In every exchange each client's answer x_i, relative to what all know of it (a model: the one that was broadcast;
    other sums: zero), is clipped to the norm C; one that does not come, or is not finite, counts as zero. The method
    gets their sum divided by the size L of the cohort that was drawn, and noise of standard deviation z 2 C / L in
    every number: 2 C / L is the most that one client with other data, and another number of rows, changes. The z is the
    smallest with which the whole run is (epsilon, delta)-private by the better of two bounds, with cohorts and without.

    Parameters
    ----------
    epsilon : float
        Of all rounds together: above 0.
    clip : float or sequence of float
        C, above 0; or one for each exchange of a round.
    delta : float, default 1e-5
        Above 0 and below 1; a run refuses more than 1/N, which would allow to give a whole client away.
    public_weights : bool, default False
        Whether the weights of the federation tell nothing of the data: then x_i is multiplied by N p_i before it is
        clipped. Otherwise all clients weigh the same, for numbers of rows are data too.
    rehearsal_seed : int or None
        Noise and cohorts that repeat themselves, for tests and studies of data that are public anyway: who guesses the
        seed takes the noise off, so that such a run protects nobody, and says so. Runs with the same seed have the same
        noise. None is a secret of 256 bits from the operating system.

    Notes
    -----
    Neighbours are federations in which one client has any other data. The exchanges of a round are one Gaussian
    mechanism of z / sqrt(exchanges); a cohort, drawn without replacement, amplifies it. Accounting in Renyi divergence.

    Epsilon covers the models and the history. Nothing in the history is computed of the clients' data in the clear:
    there is no objective, so that `result.best` is the last model (or the best by a metric of yours), ``clients`` are
    those who were asked, ``bytes_up`` those of the arrays that are added up, and nobody is said to have been left out;
    methods warn of no client with few rows. Not covered: ``seconds``, which may depend on data as all running times do;
    metrics, which are yours and must not read data that need protection; how you chose C and the method: use data that
    need no protection; a round in which no client of the cohort answers, which leaves the model as it was.

    The checkpoint of such a run holds the secret: it is the server's, and nobody else's to read. It is written after
    every round, and a round that is played again with the same answers repeats its noise, so that it releases nothing
    twice; where others answer the second time, the noise is new, and epsilon has not counted that. It needs
    `pip install "fgmp[privacy]"`.

    References
    ----------
    Y.-X. Wang, B. Balle, S. Kasiviswanathan, Subsampled Renyi differential privacy and analytical moments accountant,
    AISTATS 2019. H. B. McMahan et al., Learning differentially private recurrent language models, ICLR 2018.
    """

    epsilon: float
    clip: float | Sequence[float]
    delta: float = 1e-5
    public_weights: bool = False
    rehearsal_seed: int | None = None

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", above=0)
        settle_number(self, "delta", above=0)
        if self.delta >= 1:
            raise ValueError(f"delta is {self.delta!r}; expected a number above 0 and below 1")
        settle_truth(self, "public_weights")
        settle_integer(self, "rehearsal_seed", optional=True, at_least=0)
        several = isinstance(self.clip, (list, tuple)) or (isinstance(self.clip, np.ndarray) and self.clip.ndim == 1)
        given: Any = self.clip if several else (self.clip,)
        if not len(given):
            raise ValueError(f"clip is {self.clip!r}; expected a number above 0, or one for each exchange")
        object.__setattr__(self, "clip", tuple(check_number("clip", clip, above=0) for clip in given))


@dataclass(frozen=True)
class Accounted:
    """A noise with its multiplier for one run, and the secret that it is drawn from.

    Attributes
    ----------
    noise : GaussianNoise
    multiplier : float
        z.
    n_clients : int
        N.
    secret : bytes
        32 of them.
    """

    noise: GaussianNoise
    multiplier: float
    n_clients: int
    secret: bytes = field(repr=False)

    def clipped(self, weight: float, answer: Array, exchange: int) -> Array:
        """N p_i x_i, no longer than C; zero where its norm is no finite number."""
        scaled: Array = self.n_clients * weight * answer
        norm, limit = float(np.linalg.norm(scaled)), self._clip(exchange)
        if not norm < np.inf:
            return np.zeros_like(scaled)
        return scaled * (limit / norm) if norm > limit else scaled

    def noise_on_sum(self, length: int, n_members: int, number: int, exchange: int, what: bytes = b"") -> Array:
        """The noise of an exchange of a round; another one for another `what`: the question, and who answered.

        Not so in a rehearsal, whose noise would otherwise change with the last bit of a question.
        """
        about = hashlib.sha256(what).hexdigest() if self.noise.rehearsal_seed is None else ""
        words = self._words(length, "noise", number, exchange, about)
        normal = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
        return np.asarray(normal * (self.multiplier * 2 * self._clip(exchange) / n_members))

    def cohort(self, number: int, cohort_size: int) -> Support:
        """As `draw_cohort` draws one, of the secret."""
        return np.sort(np.argsort(self._words(self.n_clients, "cohort", number), kind="stable")[:cohort_size])

    def _words(self, count: int, *place: object) -> Array:
        """Words of 64 bits for a place: without the secret, those of all other places tell nothing of them."""
        stream = hashlib.shake_256(self.secret + repr(place).encode()).digest(8 * count)
        return np.frombuffer(stream, "<u8")

    def _clip(self, exchange: int) -> float:
        clips: Any = self.noise.clip
        return float(clips[min(exchange, len(clips) - 1)])


def accounted(
    noise: GaussianNoise, secret: bytes, n_clients: int, cohort_size: int, exchanges: int, rounds: int
) -> Accounted:
    """The noise with the smallest multiplier for a run, to a thousandth; a ValueError where it does not fit the run."""
    clips: Any = noise.clip
    if noise.delta > 1 / n_clients:
        raise ValueError(f"delta is {noise.delta:g}; expected at most {1 / n_clients:g}, 1 / N for {n_clients} clients")
    if len(clips) not in (1, exchanges):
        raise ValueError(f"clip has {len(clips)} values; expected one, or one for each of the {exchanges} exchanges")

    def is_enough(multiplier: float) -> bool:  # the bound without sampling first, which takes no time
        sizes = n_clients, cohort_size
        return any(
            spent(multiplier, n_clients, size, exchanges, rounds, noise.delta) <= noise.epsilon for size in sizes
        )

    low, high = 0.0, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return Accounted(noise, high, n_clients, secret)


@lru_cache(maxsize=4096)
def spent(multiplier: float, n_clients: int, cohort_size: int, exchanges: int, rounds: int, delta: float) -> float:
    """The epsilon of so many rounds: the bound for sampled cohorts, or the one without sampling where that is less."""
    if rounds == 0:
        return 0.0
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    event: Any = dp_accounting.GaussianDpEvent(multiplier / exchanges**0.5)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    if cohort_size == n_clients:
        return float(accountant.compose(event, rounds).get_epsilon(delta))
    sampled = dp_accounting.SampledWithoutReplacementDpEvent(n_clients, cohort_size, event)
    epsilon = float(accountant.compose(sampled, rounds).get_epsilon(delta))
    return min(epsilon, spent(multiplier, n_clients, n_clients, exchanges, rounds, delta))


def new_secret(noise: GaussianNoise) -> bytes:
    """32 bytes of the operating system; of the rehearsal's seed where there is one, with a warning."""
    if noise.rehearsal_seed is None:
        return secrets.token_bytes(32)
    advise(
        f"rehearsal_seed is {noise.rehearsal_seed}: who guesses it takes the noise off, and this run protects nobody; "
        "leave it out where data need protection",
        RehearsalWarning,
    )
    return hashlib.sha256(f"rehearsal {noise.rehearsal_seed}".encode()).digest()


def public_shape(shape: Shape, noise: GaussianNoise) -> Shape:
    """What a run with noise may use of a federation: nobody's number of rows, and weights where they are public."""
    weights = shape.weights if noise.public_weights else np.ones(shape.n_clients)
    return replace(shape, rows=(sys.maxsize,) * shape.n_clients, weights=weights)


def check_private(private: Any) -> None:
    """Raise an error where `private` is none, or what it needs is not installed."""
    if private is None:
        return
    if not isinstance(private, GaussianNoise):
        raise ValueError(f"private is {private!r}; expected GaussianNoise(epsilon, clip, delta)")
    if importlib.util.find_spec("dp_accounting") is None:
        raise ImportError('differential privacy needs dp-accounting: pip install "fgmp[privacy]"')
