"""Methods: what the server and the clients exchange, keyed random streams, the transport.

In each exchange of a round the server sends a message to a cohort, and every client computes an
update from its own rows. `server_update` is given the state of the server and, of the updates, only
their aggregate. A `Transport` carries the messages: in a simulation it is `fgmp.LocalClients`,
around a federation. An `Aggregator` combines the updates, and its `PrivacyMechanism` decides what
the server sees of single ones (`fgmp.aggregation`). None of these depends on a particular method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .backends import BackendRecord
from .data import Client, Federation, ProblemInfo
from .dictionaries import Atoms, StandardBasis
from .losses import Loss
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, Model, NonFiniteUpdate
from .updates import Message, Rejected, RejectReason, Update, UpdateSpec

State = Any  # whatever a method keeps between rounds; a checkpoint pickles it


class Exchange(NamedTuple):
    """One trip from the server to the cohort and back.

    Attributes
    ----------
    message : state -> message
        Return what the server sends to each client: an array, a sparse model, an int, or a tuple of
        these.
    client_update : (client, message, generator) -> ndarray or SparseModel
        Return the update of a client, from its own rows and random numbers only. Use the generator
        only within the call, because the next client gets the same object at another position. If
        you wrap the function of a method, no compiled kernel replaces it.
    server_update : (state, aggregate) -> state
        Return the new state, given the aggregate of the updates as a dense array: their weighted
        mean, unless the run has another aggregator.
    update_spec : state -> UpdateSpec
        Return what an update has to look like.
    ignores_message : {"always", "quadratic", "never"}
        When some numbers of an update may not depend on the message at all, and so be the same in
        every round: always, if the loss is quadratic, as a Hessian then, or never. If they may,
        secure sums refuse cohorts, because each cohort adds an equation for these numbers.
        (Updates that settle are equal in the end, too: the ledger of secure sums opens no sums that
        a client could be solved for from, whatever is sent.)
    reveals_objective : bool, default True
        Whether the objective of a client may follow from its update.

    Only secure sums use the last two. Their defaults are strict: a new method has to declare that
    it is harmless.

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
    ignores_message: str = "always"
    reveals_objective: bool = True

    def may_ignore_message(self, loss: Loss) -> bool:
        """Return whether some numbers of an update may not depend on the message."""
        if self.ignores_message == "quadratic":
            return loss.is_quadratic
        return self.ignores_message != "never"

    @classmethod
    def of(
        cls,
        method: Method,
        *,
        declared_for: Any = None,
        ignores_message: str = "never",
        reveals_objective: bool = False,
    ) -> Exchange:
        """Return the exchange with the functions of a method that have the names above.

        Its declaration, by default that it is harmless, is a statement about the function
        `declared_for`. If none is named, or a subclass has overridden it, the exchange declares
        nothing: it has the strict defaults.
        """
        exchange = cls(
            method.message, method.client_update, method.server_update, method.update_spec
        )
        function = getattr(method.client_update, "__func__", None)
        if declared_for is None or function is not declared_for:
            return exchange
        return exchange._replace(
            ignores_message=ignores_message, reveals_objective=reveals_objective
        )


class Method:
    """A federated method: its parameters, and functions without side effects.

    A subclass has `start`, and either the four functions of an `Exchange` under their names or its
    own `exchanges`, if a round has several or declares something. A state is any object that can be
    pickled. If it is not the model itself, the subclass overrides `coefficients` too. It may have a
    `check` of its parameters, and say that it `is_bounded`. No function changes anything, except
    that `client_update` draws from its generator.

    Attributes
    ----------
    dictionary : StandardBasis or Dictionary
        The atoms. Clients work with A_i Psi, and a state stands for the coefficients alpha of the
        signal x = Psi alpha.
    selection : Selection
        What counts as one of the tau.
    radius : float or None
        Radius R of the ball that models stay in: the method's own functions project. None disables
        the projection.

    Examples
    --------
    Gradient descent on the mean gradient of the clients, as one exchange:

    >>> import fgmp
    >>> import numpy as np
    >>> class GradientAverage(fgmp.Method):
    ...     def start(self, info):
    ...         return np.zeros(info.model_shape, info.dtype)
    ...     def message(self, x):
    ...         return x
    ...     def client_update(self, client, x, rng):
    ...         return client.gradient(x)
    ...     def server_update(self, x, gradient):
    ...         return x - 0.5 * gradient
    ...     def update_spec(self, x):
    ...         return fgmp.UpdateSpec(x.shape, x.dtype)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=8, sparsity=2, rng=0)
    >>> result = fgmp.simulate(GradientAverage(), federation, rounds=3, rng=0)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0])
    True
    """

    dictionary: Atoms = StandardBasis()
    selection: Selection = PER_OUTPUT
    radius: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether something bounds the models: here, whether there is a radius.

        A run of a method that is not bounded warns if its model separates the rows.
        """
        return self.radius is not None

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if the hyper-parameters do not fit a problem.

        Parameters
        ----------
        info : ProblemInfo
            What the server knows of the problem, in the coordinates of the dictionary.
        """

    def start(self, info: ProblemInfo) -> State:
        """Return the state that the server starts from, without any data."""
        raise self._without("start")

    def message(self, state: State) -> Message:
        """Return what the server sends to each client, as in `Exchange`."""
        raise self._without("message")

    def client_update(self, client: Client, message: Message, rng: np.random.Generator) -> Update:
        """Return the update of a client, as in `Exchange`."""
        raise self._without("client_update")

    def server_update(self, state: State, aggregate: Array) -> State:
        """Return the new state, as in `Exchange`."""
        raise self._without("server_update")

    def update_spec(self, state: State) -> UpdateSpec:
        """Return what an update has to look like, as in `Exchange`."""
        raise self._without("update_spec")

    def exchanges(self) -> Sequence[Exchange]:
        """Return the exchanges of one round, in order.

        By default it is one, of the functions `message`, `client_update`, `server_update` and
        `update_spec` of the method, with the strict defaults of `Exchange`.
        """
        return (Exchange.of(self),)

    def coefficients(self, state: State) -> Model:
        """Return the coefficients of the estimate that a state stands for."""
        return state

    def _without(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}")


class Streams:
    """Keyed random streams: every (purpose, round, exchange or fault, client) has its own numbers.

    They are a function of the seed and of this key, computed by Philox, a counter-based generator.
    So no number depends on who else draws, or in which order.

    Parameters
    ----------
    seed : int
    is_generated : bool, default False
        Whether the seed was generated because ``rng=None``. The seed of a checkpoint then replaces
        it.
    """

    COHORT, CLIENT, OBJECTIVE, FAULT = range(4)

    def __init__(self, seed: int, is_generated: bool = False) -> None:
        self.seed = seed
        self.is_generated = is_generated
        self.key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=self.key)
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state

    def of(
        self, purpose: int, round_number: int = 0, index: int = 0, client_id: int = 0
    ) -> np.random.Generator:
        """Return the generator of a key.

        It is always the same object, moved to another position: draw all numbers before you ask for
        the next generator. A new object would take longer to make than a client takes to draw.
        """
        self._state["state"]["counter"][:] = 0, purpose << 32 | index, client_id, round_number
        # Forget the numbers that are left over from the block at the previous position.
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
    is_short : bool, default False
        Whether the run is over sooner than a kernel is compiled (`fgmp.backend`).
    """

    exchange: Exchange
    update_spec: UpdateSpec
    exchange_index: int
    round: int
    streams: Streams
    is_short: bool = False

    def update_of(self, client: Client, message: Message) -> Update | Rejected:
        """Return the update of a client, or `Rejected` if this package finds it not finite.

        Exceptions of a user's code are not caught: not even a FloatingPointError.
        """
        generator = self.streams.of(
            Streams.CLIENT, self.round, self.exchange_index, client.client_id
        )
        try:
            return self.exchange.client_update(client, message, generator)
        except NonFiniteUpdate:
            return Rejected(RejectReason.NOT_FINITE)


class Transport(Protocol):
    """What a run asks of the clients, wherever they are.

    In a simulation it is `fgmp.LocalClients`, around a federation. Other transports wrap another
    one, such as `fgmp.Faulty`, or reach clients over a network (`fgmp.flower`). Your own is a
    subclass that defines the abstract members, or an object that forwards all that it does not
    change, as in the example.

    Attributes
    ----------
    info : ProblemInfo
        What a server knows of the clients, in the coordinates of the method.
    weights : ndarray, shape (n_clients,)
        The weights p_i, which sum to one.
    truth : ndarray or None
        The signal x# that made the data, if it is known.

    Examples
    --------
    Log the rounds of another transport:

    >>> import fgmp
    >>> class Logged:
    ...     def __init__(self, transport):
    ...         self.transport = transport
    ...     def __getattr__(self, name):
    ...         return getattr(self.transport, name)
    ...     def for_method(self, method):
    ...         return Logged(self.transport.for_method(method))
    ...     def run_clients(self, call, message, cohort):
    ...         print("round", call.round, "asks", len(cohort), "clients")
    ...         return self.transport.run_clients(call, message, cohort)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> logged = Logged(fgmp.LocalClients(federation))
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), logged, 2, cohort_size=4, rng=0)
    round 1 asks 4 clients
    round 2 asks 4 clients
    """

    info: ProblemInfo
    weights: Array
    truth: Array | None

    @abstractmethod
    def for_method(self, method: Method) -> Transport:
        """Return the transport for a run of a method, in the coordinates of its dictionary."""

    @abstractmethod
    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> Sequence[Any]:
        """Return the updates of a cohort, in its order; None or `Rejected` for one that is missing.

        `cohort` has increasing indices into `weights`, and `info.client_ids` has the ids of these
        clients. The update of a client is `call.update_of(client, message)`. Updates need not be
        checked: `UpdateSpec.accept` rejects what does not fit.
        """

    @abstractmethod
    def objectives(
        self, coefficients: Model, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report their objective f_i, and f_i of each.

        The clients of `indices` are asked, or all of them. The model is given by its coefficients
        alpha.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what distinguishes these data from others, by name, for checkpoints.

        A checkpoint keeps a checksum of each array, and numbers as they are.
        """

    @property
    def backend_record(self) -> BackendRecord | None:
        """What computed the updates so far; None if clients choose for themselves."""
        return None

    @property
    def local_data(self) -> Federation | None:
        """The rows of all clients, if they are in this process.

        Only the advice at the end of a run reads them.
        """
        return None

    @property
    def masked_sum(self) -> Callable[..., Any] | None:
        """How the transport adds up updates or objectives under masks; None if it has no such sum.

        If it is None, updates arrive unmasked, and a secure sum masks them on the server's machine.
        The parameters are those of `fgmp.flower.OverFlower.masked_sum`.
        """
        return None

    @property
    def absent_ids(self) -> Sequence[int]:
        """The ids of clients that are known never to answer, which `fgmp.estimators` names."""
        return ()
