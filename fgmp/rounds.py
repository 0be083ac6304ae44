"""Rounds: what travels between the server and the clients, keyed random streams, and the loop.

In each exchange of a round the server sends a message to a cohort, and every client computes an
update from its own rows. `server_update` is given the state of the server and, of the updates, only
their aggregate. A `Transport` (`fgmp.transport`; in a simulation, the federation) carries the
messages: it has `run_clients` and `objectives`, `prepare`, which gives the clients a method's
dictionary, and knows the `weights` and the `info` of the clients. An `Aggregator` combines the
updates; what the server sees of single updates on the way is up to the aggregator's
`PrivacyMechanism`. None of them depends on a particular method.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._support.validation import check_integer
from .aggregation import (
    Aggregator,
    Update,
    Updates,
    UpdateSpec,
    n_bytes,
)
from .aggregation import Message as Message
from .client import Client, ProblemInfo
from .dictionaries import Atoms, StandardBasis
from .losses import Loss
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, NonFiniteUpdate
from .update_validation import Rejected, RejectReason

if TYPE_CHECKING:
    from .transport import Transport

State = Any  # whatever a method keeps between rounds; a checkpoint pickles it


class Exchange(NamedTuple):
    """One trip from the server to the cohort and back.

    Attributes
    ----------
    message : state -> message
        Return what the server sends to each client.
    client_update : (client, message, generator) -> ndarray or SparseModel
        Return the update of a client, from its own rows and random numbers only. The generator is
        good within the call: it is moved for the next client.
    server_update : (state, aggregate) -> state
        Return the new state, given the aggregate of the updates as a dense array: their weighted
        mean, unless the run has another aggregator.
    update_spec : state -> UpdateSpec
        Return what an update has to look like.

    Examples
    --------
    Run one round by hand:

    >>> import fgmp
    >>> import numpy as np
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> method = fgmp.FedAvg(learning_rate=0.1)
    >>> exchange = method.exchanges()[0]
    >>> state = method.start(federation.info)
    >>> message, rng = exchange.message(state), np.random.default_rng(0)
    >>> updates = [exchange.client_update(client, message, rng) for client in federation.clients]
    >>> mean = np.mean(updates, axis=0)  # all p_i are equal here
    >>> state = exchange.server_update(state, mean)
    >>> np.allclose(state, fgmp.simulate(method, federation, rounds=1).x)
    True
    """

    message: Callable[[State], Message]
    client_update: Callable[[Client, Message, np.random.Generator], Update]
    server_update: Callable[[State, Array], State]
    update_spec: Callable[[State], UpdateSpec]


class Method:
    """A federated method: its parameters, and functions of nothing but their arguments.

    A subclass has `start` and `exchanges`. A state is any object that can be pickled. If it is not
    the model itself, the subclass overrides `coefficients` too.

    Attributes
    ----------
    dictionary : StandardBasis or Dictionary
        The atoms. Clients work with A_i Psi, and a state stands for the coefficients alpha of the
        signal x = Psi alpha.
    selection : Selection
        What counts as one of the tau.
    radius : float or None
        Radius R of the ball that models stay in; None means that there is no ball.

    Examples
    --------
    Gradient descent on the mean gradient of the clients, as one exchange:

    >>> import fgmp
    >>> import numpy as np
    >>> class GradientAverage(fgmp.Method):
    ...     def start(self, info):
    ...         return np.zeros(info.model_shape, info.dtype)
    ...     def exchanges(self):
    ...         return [fgmp.Exchange(
    ...             message=lambda x: x,
    ...             client_update=lambda client, x, rng: client.gradient(x),
    ...             server_update=lambda x, gradient: x - 0.5 * gradient,
    ...             update_spec=lambda x: fgmp.UpdateSpec(x.shape, x.dtype),
    ...         )]
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=8, sparsity=2, rng=0)
    >>> result = fgmp.simulate(GradientAverage(), federation, rounds=3, rng=0)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0])
    True
    """

    dictionary: Atoms = StandardBasis()
    selection: Selection = PER_OUTPUT
    radius: float | None = None

    @cached_property
    def psi(self) -> Atoms:
        """Psi: the dictionary together with the selection."""
        return self.dictionary.with_selection(self.selection)

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if the hyper-parameters do not fit a problem.

        Parameters
        ----------
        info : ProblemInfo
            What the server knows of the problem, in the coordinates of the dictionary.
        """

    def repeats_itself(self, loss: Loss) -> bool:
        """Return whether part of an update is the same in every round.

        Hessians of the squared loss are. The difference of two secure sums, over cohorts that
        differ by one client, would then be its own. Only secure sums ask.
        """
        return False

    def sends_objectives(self) -> bool:
        """Return whether updates include the objective of a client. Only secure sums ask."""
        return False

    def start(self, info: ProblemInfo) -> State:
        """Return the state that the server starts from, without any data."""
        raise NotImplementedError(f"{type(self).__name__} has no start")

    def exchanges(self) -> Sequence[Exchange]:
        """Return the exchanges of one round, in order."""
        raise NotImplementedError(f"{type(self).__name__} has no exchanges")

    def coefficients(self, state: State) -> Update:
        """Return the coefficients of the estimate that a state stands for."""
        coefficients: Update = state
        return coefficients


class Streams:
    """Keyed random streams: every (purpose, round, exchange or fault, client) has its own numbers.

    They are a function of the seed and of this key, computed by Philox, a counter-based generator.
    So no number depends on who else draws, or in which order.

    Parameters
    ----------
    seed : int
    drawn : bool, default False
        Whether the seed was generated because ``rng=None``. The seed of a checkpoint then replaces
        it.
    """

    COHORT, CLIENT, OBJECTIVE, FAULT = range(4)

    def __init__(self, seed: int, drawn: bool = False) -> None:
        self.seed = seed
        self.drawn = drawn
        self.key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=self.key)
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state

    def of(
        self, purpose: int, round_number: int = 0, index: int = 0, client_id: int = 0
    ) -> np.random.Generator:
        """Return the generator of a key.

        It is always the same object, moved to another position: use it up before you ask for the
        next one. To make a generator takes longer than what a client draws from it.
        """
        self._state["state"]["counter"][:] = 0, purpose << 32 | index, client_id, round_number
        # Forget the numbers that are left of the block at the position before.
        self._state["buffer_pos"] = 4
        self._state["has_uint32"] = 0
        self._bits.state = self._state
        return self._generator

    def sample(self, purpose: int, round_number: int, n: int, size: int) -> IndexArray:
        """Return `size` of the integers below n, drawn without replacement, increasing."""
        if size == n:
            return np.arange(n)
        return np.sort(self.of(purpose, round_number).choice(n, size, replace=False))


class Call(NamedTuple):
    """An exchange in progress.

    Attributes
    ----------
    exchange : Exchange
    update_spec : UpdateSpec
        What the updates have to look like.
    exchange_index : int
        Which of the exchanges of the method this is.
    round : int
        In which round, counted from 1.
    streams : Streams
        Where clients draw their random numbers from.
    """

    exchange: Exchange
    update_spec: UpdateSpec
    exchange_index: int
    round: int
    streams: Streams

    def update_of(self, client: Client, message: Message) -> Update | Rejected:
        """Return the update of a client, or `Rejected` if this package finds it is not finite.

        Exceptions of a user's code are not caught: not even a FloatingPointError.
        """
        generator = self.streams.of(
            Streams.CLIENT, self.round, self.exchange_index, client.client_id
        )
        try:
            return self.exchange.client_update(client, message, generator)
        except NonFiniteUpdate:
            return Rejected(RejectReason.NOT_FINITE)


@dataclass
class Traffic:
    """What the exchanges of one round have sent so far.

    Attributes
    ----------
    took_part : ndarray of bool, shape (cohort_size,)
        Whose updates were accepted in every exchange.
    bytes_up, bytes_down : int
    rejected : Counter of str
        How many updates were rejected, by reason.
    """

    took_part: Array
    bytes_up: int = 0
    bytes_down: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, message: Message, updates: Updates) -> None:
        """Count one exchange."""
        cohort_size = len(self.took_part)
        self.bytes_up += updates.bytes_up
        self.bytes_down += cohort_size * n_bytes(message) + updates.bytes_down
        self.rejected += updates.rejected
        self.took_part &= np.bincount(updates.accepted, minlength=cohort_size) > 0


@dataclass(frozen=True)
class Progress:
    """The progress of a run: all that its next round needs, and what it has used so far.

    Attributes
    ----------
    round : int
        How many rounds are over.
    state : object
        The state of the server.
    seconds : float
        Time of the method's own work so far.
    bytes_up, bytes_down : int
        Bytes sent so far.
    clients : int
        How many clients took part in every exchange of the last round.
    rejected : Counter of str
        How many updates were rejected so far, by reason.
    counted : int
        How many rounds changed the state; the others left it as it was.
    """

    round: int
    state: State
    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    clients: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    counted: int = 0

    def with_new_state(self, state: State, traffic: Traffic) -> Progress:
        """Return the progress after one more round, which led to a new state."""
        after = self.with_state_kept(traffic)
        clients = int(np.count_nonzero(traffic.took_part))
        return replace(after, state=state, clients=clients, counted=self.counted + 1)

    def with_state_kept(self, traffic: Traffic) -> Progress:
        """Return the progress after one more round, in which nobody answered some exchange."""
        return replace(
            self,
            round=self.round + 1,
            bytes_up=self.bytes_up + traffic.bytes_up,
            bytes_down=self.bytes_down + traffic.bytes_down,
            clients=0,
            rejected=self.rejected + traffic.rejected,
        )


def check_cohort(cohort_size: int | None, n_clients: int) -> int:
    """Return the cohort size L, all clients if it is None, or raise a ValueError."""
    if cohort_size is None:
        return n_clients
    return check_integer("cohort_size", cohort_size, at_most=n_clients, why="the number of clients")


def iterate(
    method: Method,
    transport: Transport,
    progress: Progress,
    streams: Streams,
    cohort_size: int,
    aggregator: Aggregator,
) -> Iterator[Progress]:
    """Yield the progress before the first round and after each round, indefinitely."""
    n_clients = len(transport.weights)
    while True:
        yield progress
        began = time.perf_counter()
        cohort = aggregator.sampler.draw(streams, progress.round + 1, n_clients, cohort_size)
        progress = run_round(method, transport, aggregator, streams, progress, cohort)
        progress = replace(progress, seconds=progress.seconds + time.perf_counter() - began)


def run_round(
    method: Method,
    transport: Transport,
    aggregator: Aggregator,
    streams: Streams,
    progress: Progress,
    cohort: IndexArray,
) -> Progress:
    """Run all exchanges of one round.

    If an exchange leaves no accepted update of positive weight, the state is as it was before.
    """
    state = progress.state
    traffic = Traffic(took_part=np.ones(len(cohort), bool))
    for exchange_index, exchange in enumerate(method.exchanges()):
        message = exchange.message(state)
        update_spec = exchange.update_spec(state)
        call = Call(exchange, update_spec, exchange_index, progress.round + 1, streams)
        # `collect` has the clients compute, by `transport.run_clients`, and returns what the server
        # may see of their updates: by default everything.
        updates = aggregator.privacy.collect(transport, call, message, cohort)
        traffic.add(message, updates)

        if updates.is_empty:
            return progress.with_state_kept(traffic)  # rounds are atomic
        aggregate = update_spec.from_row(aggregator(updates))
        state = exchange.server_update(state, aggregate)
    return progress.with_new_state(state, traffic)
