"""Differential privacy for clients: bounded contributions, Gaussian noise on their sum, accounting.

Privacy is central: clients trust the server, which adds the noise. `dp-accounting` computes what
has been spent.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._support.validation import check_integer, check_number
from .._support.warnings import warn_user
from ..aggregation import Aggregator, ClientSampler, Mean, PrivacyMechanism
from ..data import ProblemInfo
from ..method import Call, Streams, Transport
from ..run.serialization import to_wire
from ..sparse_model import Array, IndexArray, Model
from ..updates import Message, RejectReason, Updates
from .secure_sums import SecureSum

_PRECISION = 1e-3  # relative, of the noise multiplier


@dataclass(frozen=True)
class GaussianNoise(Aggregator):
    """Differential privacy for clients: a run hides what data a client has.

    Use it as ``simulate(..., aggregator=GaussianNoise(...))``. In every exchange each client's
    update x_i, relative to what everybody knows of it (for a model the one that was broadcast, for
    other sums zero), is clipped to the norm C. An update that does not come, or is not finite,
    counts as zero. The method gets the sum of the clipped updates divided by the size L of the
    cohort that was drawn, and noise of standard deviation z 2 C / L in every number: 2 C / L is the
    most that one client with other data, and another number of rows, changes. All clients weigh the
    same, because numbers of rows are data too. The multiplier z is the smallest with which the
    whole run is (epsilon, delta)-private by the better of two bounds, with and without sampling of
    cohorts.

    Parameters
    ----------
    epsilon : float
        Of all rounds together: above 0.
    clip : float or sequence of float
        C, above 0; or one for each exchange of a round.
    delta : float, default 1e-5
        Above 0 and below 1. A run refuses more than 1/N, which would allow to give a whole client
        away.
    aggregator : Mean or SecureSum, default Mean()
        How the clipped updates are added up. Over a network the noise is the server's, and goes
        with Mean only.
    insecure_seed : int or None
        A seed for noise and cohorts, for tests and studies of data that are public anyway. To guess
        the seed is to take the noise off, so that such a run protects nobody, and warns of this.
        None is a secret of 256 bits from the operating system, for each run, which is in the memory
        of the server and in its own checkpoint only.

    Notes
    -----
    Neighbours are federations in which one client has any other data. The exchanges of a round are
    one Gaussian mechanism of z / sqrt(exchanges). A cohort, drawn without replacement, amplifies
    it. Accounting is in Renyi divergence.

    Epsilon covers the models and the history, in which nothing is computed of the clients' data in
    the clear: there is no objective, so that `result.best` is the last model; ``clients`` are those
    that were polled, ``bytes_up`` is that of the arrays that are added up, and no update counts as
    rejected; methods do not warn of clients with few rows. Not covered are ``seconds``, which may
    depend on data as all running times do; metrics, which are yours; the choice of C and of the
    method, for which you should use data that need no protection; and a round in which no client of
    the cohort answers, which leaves the model as it was.

    The checkpoint is the server's, and nobody else may read it. It is written after every round,
    and the run stops if it cannot be. A round that is played again with the same updates repeats
    its noise, so that it releases nothing twice. With other updates, or other data of a client, the
    noise is new, and epsilon has not counted that. A new run, also one that starts from
    `result.state`, begins epsilon anew: add them up.

    The noise is drawn in floating point: 2^53 values of the normal distribution at most, added to a
    sum in float64. I. Mironov, On significance of the least significant bits for differential
    privacy (CCS 2012), tells sums apart by the last bits of such noise, against the Laplace
    mechanism; epsilon does not count what these bits may tell. Round what you publish. It needs the
    extra `privacy`.

    References
    ----------
    Y.-X. Wang, B. Balle, S. Kasiviswanathan, Subsampled Renyi differential privacy and analytical
    moments accountant, AISTATS 2019. H. B. McMahan et al., Learning differentially private
    recurrent language models, ICLR 2018.

    Examples
    --------
    Three rounds over 200 clients spend epsilon, and record no objective:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(200, 20, n_features=8, sparsity=2, rng=0)
    >>> noise = fgmp.GaussianNoise(epsilon=2.0, clip=1.0)
    >>> result = fgmp.simulate(fgmp.FedAvg(learning_rate=0.1), federation, 3, aggregator=noise)
    >>> bool(1.9 < result.history["epsilon"][-1] <= 2.0), "objective" in result.history
    (True, False)
    """

    epsilon: float
    clip: float | Sequence[float]
    delta: float = 1e-5
    aggregator: Aggregator = Mean()
    insecure_seed: int | None = None

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, above=0)
        check_number("delta", self.delta, above=0)
        if self.delta >= 1:
            raise ValueError(f"delta is {self.delta!r}; expected a number above 0 and below 1")
        if not isinstance(self.aggregator, Mean):
            raise ValueError(
                f"aggregator is {self.aggregator!r}; expected Mean() or SecureSum(...)"
            )
        if self.insecure_seed is not None:
            check_integer("insecure_seed", self.insecure_seed, at_least=0)
        for clip in np.atleast_1d(self.clip).tolist():
            check_number("clip", clip, above=0)

    @cached_property
    def clips(self) -> tuple[float, ...]:
        """The clips C: one, or one for each exchange."""
        return tuple(float(clip) for clip in np.atleast_1d(self.clip).tolist())

    def for_run(
        self, info: ProblemInfo, cohort_size: int, n_exchanges: int, n_rounds: int
    ) -> CalibratedNoise:
        """Return the noise for a run, with the smallest multiplier and a secret of its own.

        Raises
        ------
        ValueError
            If delta is above 1 / N, or the clips are not one for each exchange.
        ImportError
            If the extra `privacy` is not installed.
        """
        if importlib.util.find_spec("dp_accounting") is None:
            raise ImportError(
                'differential privacy needs dp-accounting: pip install "dp-accounting>=0.6,<0.7"'
            )
        n_clients = len(info.client_ids)
        if self.delta > 1 / n_clients:
            expected = f"expected at most {1 / n_clients:g}, 1 / N for {n_clients} clients"
            raise ValueError(f"delta is {self.delta:g}; {expected}")
        if len(self.clips) not in (1, n_exchanges):
            expected = f"expected one, or one for each of the {n_exchanges} exchanges"
            raise ValueError(f"clip has {len(self.clips)} values; {expected}")
        self.aggregator.for_run(info, cohort_size, n_exchanges, n_rounds)

        def is_enough(multiplier: float) -> bool:
            # The bound without sampling comes first, because it takes no time.
            return any(
                spent(multiplier, n_clients, size, n_exchanges, n_rounds, self.delta)
                <= self.epsilon
                for size in (n_clients, cohort_size)
            )

        multiplier = _smallest(is_enough)
        key = self._new_key()
        return CalibratedNoise(self, multiplier, n_clients, cohort_size, n_exchanges, key)

    def _new_key(self) -> bytes:
        """Return a secret of 256 bits: of the operating system, or insecure, which is warned of."""
        if self.insecure_seed is None:
            return secrets.token_bytes(32)
        warn_user(
            f"insecure_seed is {self.insecure_seed}: who guesses it takes the noise off, and this "
            "run protects nobody; leave it out where data need protection"
        )
        return hashlib.sha256(f"rehearsal {self.insecure_seed}".encode()).digest()

    def __call__(self, updates: Updates) -> Array:
        """Raise a TypeError: the noise is known only once the run is."""
        raise TypeError("GaussianNoise aggregates in a run alone: see GaussianNoise.for_run")


def _smallest(is_enough: Callable[[float], bool]) -> float:
    """Return the smallest number that is enough, to a thousandth, by bisection from above."""
    low = 0.0
    high = 1.0
    while not is_enough(high):
        low = high
        high = 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class CalibratedNoise(Mean, PrivacyMechanism, ClientSampler):
    """The noise of one run: the server sees, of each exchange, the mean of the clipped updates.

    Cohorts and noise are drawn from a secret.

    Parameters
    ----------
    noise : GaussianNoise
    multiplier : float
        The z of `GaussianNoise`.
    n_clients, cohort_size, n_exchanges : int
        Of the run for which the multiplier is enough; exchanges are those of a round.
    key : bytes
        What cohorts and noise are drawn from.
    """

    noise: GaussianNoise
    multiplier: float
    n_clients: int
    cohort_size: int
    n_exchanges: int
    key: bytes = field(repr=False)

    spends_epsilon = True

    @property
    def secret(self) -> bytes:
        """The key: a run that resumes repeats its cohorts and its noise."""
        return self.key

    @property
    def sampler(self) -> CalibratedNoise:
        """What draws the cohorts: itself."""
        return self

    @property
    def privacy(self) -> CalibratedNoise:
        """What shows the server means with noise: itself."""
        return self

    def with_secret(self, secret: bytes) -> CalibratedNoise:
        """Return the noise of the run that a checkpoint has kept."""
        return replace(self, key=secret)

    def draw(
        self, streams: Streams, round_number: int, n_clients: int, cohort_size: int
    ) -> IndexArray:
        """Return the client indices of the cohort of a round, increasing.

        They are uniform without replacement, by the secret and not by the run's seed: cohorts that
        clients can guess hide nobody.
        """
        words = _secret_words(self.key, n_clients, "cohort", round_number)
        return np.sort(np.argsort(words, kind="stable")[:cohort_size])

    def visible_info(self, info: ProblemInfo) -> ProblemInfo:
        """Return the information without numbers of rows and weights, which are data."""
        n_clients = len(info.client_ids)
        return replace(info, n_rows=(sys.maxsize,) * n_clients, weights=np.ones(n_clients))

    def run_and_collect(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Updates:
        """Return one vector: centre + (sum of the clipped + noise) / L.

        Nothing tells who answered.
        """
        inner = self.noise.aggregator
        if isinstance(inner, SecureSum) and transport.masked_sum is not None:
            raise ValueError(
                "aggregator is GaussianNoise(aggregator=SecureSum()) over machines; expected one "
                "of the two"
            )
        spec = call.update_spec
        cohort_size = len(cohort)
        replies = transport.run_clients(call, message, cohort)
        updates = spec.accept(replies, np.ones(cohort_size))

        # An update that is not finite adds zero, like one of a client that answered: otherwise the
        # result would tell whether it was finite.
        answers = (None, RejectReason.NOT_FINITE)
        has_answered = np.array([spec.validate(reply) in answers for reply in replies], bool)
        bytes_up = cohort_size * spec.length * np.dtype(spec.dtype).itemsize
        no_vectors = np.empty((0, spec.length))
        seen = Updates(spec, np.arange(0), np.ones(0), None, no_vectors, Counter(), bytes_up)
        if not has_answered.any():
            return seen

        vectors = np.zeros((cohort_size, spec.length))
        vectors[updates.accepted] = updates.as_matrix() - spec.centre
        clipped = np.array([self.clipped(vector, call.exchange_index) for vector in vectors])
        mean = clipped.mean(axis=0)
        if isinstance(inner, SecureSum):
            shares = np.full(cohort_size, 1 / cohort_size)
            senders = np.arange(cohort_size)
            unmasked = inner.sum_vectors(clipped, senders, shares, cohort, n_rows=0, goes_on=True)
            mean = inner.decoded(unmasked.total)
            seen = seen._replace(bytes_up=unmasked.bytes_up, bytes_down=unmasked.bytes_down)

        # With the mean in its key, the noise is the same for the same release only: another mean
        # has other noise, and two releases do not subtract to the change of one client.
        question = b"".join(array.tobytes() for array in to_wire(message).values())
        release = question + has_answered.tobytes() + mean.tobytes()
        noise = self.noise_on_sum(len(mean), cohort_size, call.round, call.exchange_index, release)
        row = spec.centre + (mean + noise)
        return seen._replace(accepted=np.arange(cohort_size), weights=np.ones(1), values=row[None])

    def objective(self, transport: Transport, coefficients: Model, indices: IndexArray) -> None:
        """Return None: nothing is computed of the data without noise."""

    def extra_metrics(self, rounds_done: int) -> dict[str, float]:
        """Return the epsilon that these rounds have spent."""
        sizes = self.n_clients, self.cohort_size, self.n_exchanges
        return {"epsilon": spent(self.multiplier, *sizes, rounds_done, self.noise.delta)}

    def clipped(self, update: Array, exchange_index: int) -> Array:
        """Return x_i, no longer than C; zero if its norm is no finite number."""
        norm = float(np.linalg.norm(update))
        limit = self._clip(exchange_index)
        if not norm < np.inf:
            return np.zeros_like(update)
        return update * (limit / norm) if norm > limit else update

    def noise_on_sum(
        self,
        length: int,
        cohort_size: int,
        round_number: int,
        exchange_index: int,
        release: bytes = b"",
    ) -> Array:
        """Return the noise of an exchange of a round.

        Parameters
        ----------
        length : int
            How many numbers the mean has.
        cohort_size, round_number, exchange_index : int
        release : bytes
            What the noise is for: the message, who answered, and the mean. Another release has
            other noise, but with an insecure seed, whose noise would otherwise change with the last
            bit of a message.
        """
        is_secure = self.noise.insecure_seed is None
        digest = hashlib.sha256(release).hexdigest() if is_secure else ""
        words = _secret_words(self.key, length, "noise", round_number, exchange_index, digest)
        uniform = ((words >> np.uint64(11)) + 0.5) * 2.0**-53
        scale = self.multiplier * 2 * self._clip(exchange_index) / cohort_size
        return np.asarray(ndtri(uniform) * scale)

    def _clip(self, exchange_index: int) -> float:
        clips = self.noise.clips
        return clips[min(exchange_index, len(clips) - 1)]


def _secret_words(secret: bytes, count: int, *key: object) -> Array:
    """Return words of 64 bits for a key; without the secret, those of other keys tell nothing."""
    stream = hashlib.shake_256(secret + repr(key).encode()).digest(8 * count)
    return np.frombuffer(stream, "<u8")


@lru_cache(maxsize=4096)
def spent(
    multiplier: float,
    n_clients: int,
    cohort_size: int,
    n_exchanges: int,
    n_rounds: int,
    delta: float,
) -> float:
    """Return the epsilon that rounds spend: the better of two bounds, with and without sampling.

    The first is for cohorts, which are drawn without replacement (Wang, Balle and Kasiviswanathan,
    2019). The second takes every client to be in every round; it is less for large cohorts.
    """
    if n_rounds == 0:
        return 0.0
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    event: Any = dp_accounting.GaussianDpEvent(multiplier / n_exchanges**0.5)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    if cohort_size == n_clients:
        return float(accountant.compose(event, n_rounds).get_epsilon(delta))
    sampled = dp_accounting.SampledWithoutReplacementDpEvent(n_clients, cohort_size, event)
    epsilon = float(accountant.compose(sampled, n_rounds).get_epsilon(delta))
    return min(epsilon, spent(multiplier, n_clients, n_clients, n_exchanges, n_rounds, delta))
