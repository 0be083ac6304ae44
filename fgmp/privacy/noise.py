"""Differential privacy for clients: bounded contributions, Gaussian noise on their sum, and what has been spent.

Central: clients trust the server, which adds the noise. `dp-accounting` keeps accounts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._support.validation import check_number, validate_integer_field, validate_number_field
from .._support.warnings import warn_user
from ..aggregation import Aggregated, Aggregator, Mean
from ..federation import ProblemInfo
from ..rounds import Call, Message, Streams, Transport
from ..serialization import to_wire
from ..sparse_model import Array, IndexArray, SparseModel
from .secure_sums import SecureSum


@dataclass(frozen=True)
class GaussianNoise(Aggregator):
    """Differential privacy for clients: ``simulate(..., aggregator=GaussianNoise(...))`` hides what data a client has.

    In every exchange each client's answer x_i, relative to what all know of it (a model: the one that was broadcast;
    other sums: zero), is clipped to the norm C; one that does not come, or is not finite, counts as zero. The method
    gets their sum divided by the size L of the cohort that was drawn, and noise of standard deviation z 2 C / L in
    every number: 2 C / L is the most that one client with other data, and another number of rows, changes. All clients
    weigh the same, for numbers of rows are data too. The z is the smallest with which the whole run is (epsilon,
    delta)-private by the better of two bounds, with cohorts and without.

    Parameters
    ----------
    epsilon : float
        Of all rounds together: above 0.
    clip : float or sequence of float
        C, above 0; or one for each exchange of a round.
    delta : float, default 1e-5
        Above 0 and below 1; a run refuses more than 1/N, which would allow to give a whole client away.
    then : Mean or SecureSum, default Mean()
        How what was clipped is added up. Over machines the noise is the server's, and goes with Mean only.
    insecure_seed : int or None
        Noise and cohorts that repeat themselves, for tests and studies of data that are public anyway: who guesses the
        seed takes the noise off, so that such a run protects nobody, and says so. None is a secret of 256 bits from the
        operating system, for each run, which is in the memory of the server and in its own checkpoint only.

    Notes
    -----
    Neighbours are federations in which one client has any other data. The exchanges of a round are one Gaussian
    mechanism of z / sqrt(exchanges); a cohort, drawn without replacement, amplifies it. Accounting in Renyi divergence.

    Epsilon covers the models and the history, in which nothing is computed of the clients' data in the clear: there is
    no objective, so that `result.best` is the last model, ``clients`` are those who were asked, ``bytes_up`` those of
    the arrays that are added up, and nobody is said to have been left out; methods warn of no client with few rows. Not
    covered: ``seconds``, which may depend on data as all running times do; metrics, which are yours, and the choice of
    C and the method: use data that need no protection; a round in which no client of the cohort answers, which leaves
    the model as it was.

    The checkpoint is the server's, and nobody else's to read. It is written after every round, and the run stops where
    it cannot be. A round that is played again with the same answers repeats its noise, so that it releases nothing
    twice; with other answers, or other data of a client, the noise is new, and epsilon has not counted that. A new run,
    also one that goes on from `result.state`, begins epsilon anew: add them up.

    The noise is drawn in floating point: 2^53 values of the normal distribution at most, added to a sum in float64. I.
    Mironov, On significance of the least significant bits for differential privacy (CCS 2012), tells sums apart by the
    last bits of such noise, against the Laplace mechanism; epsilon does not count what these bits may tell. Round what
    you publish. It needs the extra `privacy`.

    References
    ----------
    Y.-X. Wang, B. Balle, S. Kasiviswanathan, Subsampled Renyi differential privacy and analytical moments accountant,
    AISTATS 2019. H. B. McMahan et al., Learning differentially private recurrent language models, ICLR 2018.
    """

    epsilon: float
    clip: float | Sequence[float]
    delta: float = 1e-5
    then: Aggregator = Mean()
    insecure_seed: int | None = None

    def __post_init__(self) -> None:
        validate_number_field(self, "epsilon", above=0)
        validate_number_field(self, "delta", above=0)
        if self.delta >= 1:
            raise ValueError(f"delta is {self.delta!r}; expected a number above 0 and below 1")
        if not isinstance(self.then, (Mean, SecureSum)):
            raise ValueError(f"then is {self.then!r}; expected Mean() or SecureSum(...)")
        validate_integer_field(self, "insecure_seed", optional=True, at_least=0)
        clips = [check_number("clip", clip, above=0) for clip in np.atleast_1d(self.clip).tolist()]
        object.__setattr__(self, "clip", tuple(clips))

    def prepare(self, shape: ProblemInfo, cohort_size: int, exchanges: int, rounds: int) -> Fitted:
        """With the smallest multiplier for the run, to a thousandth, and a secret of its own."""
        if importlib.util.find_spec("dp_accounting") is None:
            raise ImportError(
                'differential privacy needs dp-accounting: pip install "dp-accounting>=0.6,<0.7"'
            )
        n_clients, clips = len(shape.client_ids), tuple(self.clip)  # type: ignore[arg-type]
        if self.delta > 1 / n_clients:
            expected = f"expected at most {1 / n_clients:g}, 1 / N for {n_clients} clients"
            raise ValueError(f"delta is {self.delta:g}; {expected}")
        if len(clips) not in (1, exchanges):
            expected = f"expected one, or one for each of the {exchanges} exchanges"
            raise ValueError(f"clip has {len(clips)} values; {expected}")
        self.then.prepare(shape, cohort_size, exchanges, rounds)

        def is_enough(z: float) -> bool:  # the bound without sampling first, which takes no time
            sizes = n_clients, cohort_size
            return any(
                spent(z, n_clients, size, exchanges, rounds, self.delta) <= self.epsilon
                for size in sizes
            )

        low, high = 0.0, 1.0
        while not is_enough(high):
            low, high = high, 2 * high
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        secret = secrets.token_bytes(32)
        if self.insecure_seed is not None:
            secret = hashlib.sha256(f"rehearsal {self.insecure_seed}".encode()).digest()
            found = f"insecure_seed is {self.insecure_seed}: who guesses it takes the noise off"
            warn_user(
                f"{found}, and this run protects nobody; leave it out where data need protection"
            )
        return Fitted(self, high, (n_clients, cohort_size, exchanges), secret)


@dataclass(frozen=True)
class Fitted(Aggregator):
    """A noise with its multiplier z for a run of so many clients, members of a cohort and exchanges, and the secret."""

    noise: GaussianNoise
    multiplier: float
    sizes: tuple[int, int, int]
    secret: bytes = field(repr=False)

    def visible_info(self, shape: ProblemInfo) -> ProblemInfo:
        """Nobody's number of rows, and nobody's weight."""
        return replace(
            shape,
            rows=(sys.maxsize,) * len(shape.client_ids),
            weights=np.ones(len(shape.client_ids)),
        )

    def cohort(self, streams: Streams, number: int, n_clients: int, size: int) -> IndexArray:
        """Drawn from the secret."""
        return np.sort(np.argsort(self._words(n_clients, "cohort", number), kind="stable")[:size])

    def aggregate(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Aggregated:
        """centre + (sum of the clipped + noise) / L: nothing tells who answered."""
        if isinstance(self.noise.then, SecureSum) and hasattr(transport, "masked"):
            raise ValueError(
                "aggregator is GaussianNoise(then=SecureSum()) over machines; expected one of the two"
            )
        form, L = call.update_spec, len(cohort)
        replies = transport.run_clients(call, message, cohort)
        answers = form.stack(replies, np.ones(L))
        # What is not finite adds zero, as somebody's who answered: or whether it was finite would be told.
        answered = np.array([form.validate(x) in ("", "not_finite") for x in replies])
        up, down = L * len(form.centre) * np.dtype(form.dtype).itemsize, 0
        if not answered.any():
            return Aggregated(None, np.arange(0), up, down, Counter())
        rows = np.zeros((L, len(form.centre)))
        rows[answers.here] = answers.rows() - form.centre
        clipped = np.array([self.clipped(row, call.exchange_index) for row in rows])
        added = clipped.mean(axis=0)
        if isinstance(self.noise.then, SecureSum):
            total, _, up, down, *_ = self.noise.then.masked(
                clipped, np.arange(L), np.full(L, 1 / L)
            )
            added = self.noise.then.decoded(total)
        question = (
            b"".join(array.tobytes() for array in to_wire(message).values()) + answered.tobytes()
        )
        # With the sum in its key, noise is the same for the same release only: another sum has other noise, and two
        # releases do not subtract to the change of one client.
        noise = self.noise_on_sum(
            len(added), L, call.round, call.exchange_index, question + added.tobytes()
        )
        return Aggregated(form.centre + (added + noise), np.arange(L), up, down, Counter())

    def objective(self, transport: Transport, x: Array | SparseModel, indices: IndexArray) -> None:
        """None: nothing is computed of the data without noise."""

    def extra_metrics(self, number: int) -> dict[str, float]:
        """What `number` rounds have spent."""
        return {"epsilon": spent(self.multiplier, *self.sizes, number, self.noise.delta)}

    def clipped(self, answer: Array, exchange: int) -> Array:
        """x_i, no longer than C; zero where its norm is no finite number."""
        norm, limit = float(np.linalg.norm(answer)), self._clip(exchange)
        if not norm < np.inf:
            return np.zeros_like(answer)
        return answer * (limit / norm) if norm > limit else answer

    def noise_on_sum(
        self, length: int, n_members: int, number: int, exchange: int, what: bytes = b""
    ) -> Array:
        """The noise of an exchange of a round; another for another `what`: question, who answered, and their sum.

        Not so in a rehearsal, whose noise would otherwise change with the last bit of a question.
        """
        about = hashlib.sha256(what).hexdigest() if self.noise.insecure_seed is None else ""
        words = self._words(length, "noise", number, exchange, about)
        normal = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
        return np.asarray(normal * (self.multiplier * 2 * self._clip(exchange) / n_members))

    def _words(self, count: int, *index: object) -> Array:
        """Words of 64 bits for a place: without the secret, those of all other places tell nothing of them."""
        stream = hashlib.shake_256(self.secret + repr(index).encode()).digest(8 * count)
        return np.frombuffer(stream, "<u8")

    def _clip(self, exchange: int) -> float:
        clips: Any = self.noise.clip
        return float(clips[min(exchange, len(clips) - 1)])


@lru_cache(maxsize=4096)
def spent(
    multiplier: float, n_clients: int, cohort_size: int, exchanges: int, rounds: int, delta: float
) -> float:
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
