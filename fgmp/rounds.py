"""Rounds: what travels between server and clients, what is made of it, and the plain loop.

In each exchange of a round the server asks a cohort, every client answers from its own rows, and the server is handed
the weighted mean of the answers, and nothing else. A `Transport` carries the messages, an `Aggregator` makes one answer
of many; neither knows a method, and no method knows them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ._support.serialization import n_bytes
from .aggregation import Aggregator, Rejected, UpdateSpec
from .dictionaries import StandardBasis
from .federation import Client, ProblemInfo
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, NonFiniteUpdate, SparseModel

State = Any
Message = Any  # an array, a sparse model, a whole number, or a tuple of these


class Exchange(NamedTuple):
    """One trip from the server to the cohort and back.

    Attributes
    ----------
    message : state -> message
        What the server sends to each client.
    client_update : (client, message, generator) -> ndarray or SparseModel
        What a client makes of it, from its own rows and random numbers only.
    server_update : (state, mean) -> state
        What the weighted mean of the answers, a dense array, does to the state.
    update_spec : state -> Form
        What an answer looks like.
    """

    message: Callable[[State], Message]
    client_update: Callable[[Client, Message, np.random.Generator], Array | SparseModel]
    server_update: Callable[[State, Array], State]
    update_spec: Callable[[State], UpdateSpec]


class Method:
    """A federated method: hyper-parameters over pure functions. A subclass has `start` and `exchanges`.

    Attributes
    ----------
    dictionary : StandardBasis or Dictionary
        The atoms; clients work with A_i Psi, and a state stands for coefficients alpha of the signal x = Psi alpha.
    selection : Selection
        What counts as one of the tau.
    radius : float or None
        R, of the ball that models are in; None is no ball.
    """

    dictionary: StandardBasis = StandardBasis()
    selection: Selection = PER_OUTPUT
    radius: float | None = None

    @cached_property
    def atoms(self) -> StandardBasis:
        """The dictionary, which knows what counts."""
        return self.dictionary.with_selection(self.selection)

    def check(self, shape: ProblemInfo) -> None:
        """Raise a ValueError where the hyper-parameters do not fit a problem of that shape, in coefficients."""

    def repeats_itself(self, loss: Any) -> bool:
        """Whether its sums hold numbers that do not depend on the model, so that every round asks for them again."""
        return False

    def sends_objectives(self) -> bool:
        """Whether answers hold the objective of a client."""
        return False

    def start(self, shape: ProblemInfo) -> State:
        """The state that the server starts from: it knows a shape, and no data."""
        raise NotImplementedError(f"{type(self).__name__} has no start")

    def exchanges(self) -> Sequence[Exchange]:
        """The exchanges of one round, in order."""
        raise NotImplementedError(f"{type(self).__name__} has no exchanges")

    def coefficients(self, state: State) -> Array | SparseModel:
        """The estimate that a state stands for."""
        coefficients: Array | SparseModel = state
        return coefficients


class Streams:
    """Random numbers keyed by (purpose, round, exchange or fault, client): places in one stream of Philox.

    No number depends on who else draws, or in which order. `drawn` says whether nobody asked for this seed, so that a
    checkpoint's may take its place.
    """

    COHORT, ANSWER, OBJECTIVE, FAULT = range(4)

    def __init__(self, seed: int, drawn: bool = False) -> None:
        self.seed, self.drawn = seed, drawn
        self.key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=self.key)
        self._generator, self._state = np.random.Generator(self._bits), self._bits.state

    def of(
        self, purpose: int, number: int = 0, index: int = 0, client: int = 0
    ) -> np.random.Generator:
        """The generator of a key. It is always the same object: use it up before asking for the next."""
        self._state["state"]["counter"][:] = 0, purpose << 32 | index, client, number
        self._state["buffer_pos"], self._state["has_uint32"] = 4, 0
        self._bits.state = self._state
        return self._generator

    def sample(self, purpose: int, number: int, n: int, size: int) -> IndexArray:
        """`size` of n without replacement, increasing."""
        if size == n:
            return np.arange(n)
        return np.sort(self.of(purpose, number).choice(n, size, replace=False))


class Call(NamedTuple):
    """An exchange under way: which of the method's, in which round, and with whose random numbers."""

    exchange: Exchange
    update_spec: UpdateSpec
    exchange_index: int
    round: int
    streams: Streams

    def update_of(self, client: Client, message: Message) -> Any:
        """What a client answers; `Rejected` where it is no finite number. What somebody's code raises is theirs."""
        generator = self.streams.of(
            Streams.ANSWER, self.round, self.exchange_index, client.client_id
        )
        try:
            return self.exchange.client_update(client, message, generator)
        except NonFiniteUpdate:
            return Rejected("not_finite")


class Transport(Protocol):
    """Who carries messages to clients: a federation, whose clients are at hand, a layer around one, or machines."""

    @property
    def shape(self) -> ProblemInfo:
        """Of the clients, in the coordinates of the method."""

    @property
    def weights(self) -> Array:
        """The p_i."""

    @property
    def truth(self) -> Array | None:
        """x#, the model that made the data, where it is known."""

    def prepare(self, method: Any) -> Any:
        """The transport for a method."""

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> Sequence[Any]:
        """What a cohort answers, in its order; None or `Rejected` for nothing."""

    def objectives(
        self, x: Array | SparseModel, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """The places of those who tell, and f_i(x) of each."""

    def identity(self) -> dict[str, Any]:
        """What makes the data what they are, for checkpoints, by name."""


@dataclass(frozen=True)
class Step:
    """Where a run is: all that its next round needs, and what it has used so far.

    Attributes
    ----------
    round : int
        How many rounds are over.
    state : object
        The server's.
    seconds : float
        Of the method's own work.
    bytes_up, bytes_down : int
    clients : int
        How many answered every exchange of the last round.
    rejected : Counter
        The answers that were not taken, by reason.
    counted : int
        The rounds in which somebody answered every exchange; the others left the model as it was.
    """

    round: int
    state: State
    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    clients: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    counted: int = 0


def iterate(
    method: Method,
    transport: Transport,
    step: Step,
    streams: Streams,
    cohort_size: int,
    aggregator: Aggregator,
) -> Iterator[Step]:
    """The rounds, for ever: one step after another. A round counts as a whole, or not at all."""
    while True:
        yield step
        began = time.perf_counter()
        number = step.round + 1
        cohort = aggregator.cohort(streams, number, len(transport.weights), cohort_size)
        step = next_step(method, transport, step, streams, cohort, aggregator)
        step = replace(step, seconds=step.seconds + time.perf_counter() - began)


def next_step(
    method: Method,
    transport: Transport,
    step: Step,
    streams: Streams,
    cohort: IndexArray,
    aggregator: Aggregator,
) -> Step:
    """All exchanges of one round with a cohort; where nobody answers one of them, the state stays as it was."""
    number, state = step.round + 1, step.state
    bytes_up, bytes_down = step.bytes_up, step.bytes_down
    rejected = step.rejected
    always = np.ones(len(cohort), bool)
    for index, exchange in enumerate(method.exchanges()):
        message, form = exchange.message(state), exchange.update_spec(state)
        call = Call(exchange, form, index, number, streams)
        reduced = aggregator.aggregate(transport, call, message, cohort)

        bytes_up += reduced.bytes_up
        bytes_down += len(cohort) * n_bytes(message) + reduced.bytes_down
        rejected = rejected + reduced.rejected
        if reduced.mean is None:
            return Step(
                number, step.state, step.seconds, bytes_up, bytes_down, 0, rejected, step.counted
            )

        always &= np.bincount(reduced.here, minlength=len(cohort)) > 0
        mean = reduced.mean.reshape(form.shape).astype(form.dtype, copy=False)
        state = exchange.server_update(state, mean)
    clients = int(np.count_nonzero(always))
    return Step(
        number, state, step.seconds, bytes_up, bytes_down, clients, rejected, step.counted + 1
    )
