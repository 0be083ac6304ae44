"""What a client update looks like, the updates of a cohort as one table, and aggregators.

In an exchange the server sends a message to a cohort of clients, and each returns its update. Three
classes share what happens between the clients and the method. An `Aggregator` combines what the
server sees into one row. It brings a `ClientSampler`, which draws the cohort of a round, and a
`PrivacyMechanism`, through which pass the updates and the recorded objectives. By default the
cohort is drawn uniformly, and the server sees every update, and the objective of every client that
is asked for it. (Two exceptions, in a simulation only: the advice at its end reads the data, which
are at hand, and `prepare` and `check_method` get the true `ProblemInfo`.)

In this file a row is not a sample but the update of one client, flattened, and a table has the rows
of a cohort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .client import ProblemInfo
from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel, dense
from .update_validation import RejectReason, reason_to_reject

if TYPE_CHECKING:
    from .rounds import Call, Method, Streams
    from .transport import Transport

Update = Array | SparseModel  # what a client sends back
Message = Any  # what it is sent: an array, a sparse model, an int, or a tuple of these

_INDEX_BYTES = 4  # indices travel as int32


def n_bytes(message: Message) -> int:
    """Return how many bytes a message takes on the wire.

    A sparse model travels as indices and values, and so does a dense array if that is shorter.
    """
    if isinstance(message, tuple):
        return sum(n_bytes(part) for part in message)
    if isinstance(message, SparseModel):
        return _INDEX_BYTES * len(message.support) + message.values.nbytes
    if isinstance(message, int):
        return _INDEX_BYTES
    array = np.asarray(message)
    if array.ndim == 0:
        return array.itemsize
    entry_bytes = _INDEX_BYTES + array.itemsize
    return min(entry_bytes * int(np.count_nonzero(array)), array.nbytes)


@dataclass(frozen=True, eq=False)
class UpdateSpec:
    """What an update has to look like; its check, its dense layout and its bytes follow from this.

    Parameters
    ----------
    shape : tuple of int
        Shape of the update as a dense array.
    dtype : dtype, default float64
    most : int or None
        The update is a sparse model with at most this many entries, counted as `selection` counts
        them. None means that it is a dense array.
    near : ndarray, SparseModel or None
        The model that was sent, if updates are models: noise clips their difference from it. None
        means that updates are sums: noise clips the update itself, and `Median` and `TrimmedMean`
        refuse them.
    selection : Selection

    Examples
    --------
    A sparse model with at most two entries is accepted, and a dense one is not:

    >>> import fgmp
    >>> import numpy as np
    >>> spec = fgmp.UpdateSpec(shape=(4,), most=2)
    >>> print(spec.validate(fgmp.SparseModel.of(np.array([0.0, 1.0, 0.0, 2.0]))))
    None
    >>> print(spec.validate(fgmp.SparseModel.of(np.ones(4))), spec.validate(np.ones(4)))
    too_many malformed
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = np.dtype(np.float64)
    most: int | None = None
    near: Update | None = None
    selection: Selection = PER_OUTPUT

    @property
    def centre(self) -> Array:
        """What updates are near, as a row of the table."""
        if self.near is None:
            return np.zeros(prod(self.shape))
        return dense(self.near).reshape(-1)

    def validate(self, update: object) -> RejectReason | None:
        """Return why an update has to be rejected, or None if it is as this describes it.

        Parameters
        ----------
        update : object
            Whatever a transport returned for a client; it may come from a stranger.
        """
        return reason_to_reject(self, update)

    def stack(self, updates: Sequence[Any], weights: Array) -> Updates:
        """Return the accepted updates of a cohort as one table, a row for each of them.

        Parameters
        ----------
        updates : sequence
            What a transport returned, in the order of the cohort.
        weights : ndarray of float, shape (cohort_size,)
            The p_i of the whole cohort.
        """
        # The models of a compiled kernel lie in one table already (`_compiled/models.py`), all with
        # the layout of the first.
        if hasattr(updates, "stack") and len(updates) > 0:
            if self.validate(updates[0]) in (None, RejectReason.NOT_FINITE):
                table: Updates = updates.stack(self, weights)
                return table
        reasons = [self.validate(update) for update in updates]
        accepted = np.flatnonzero([reason is None for reason in reasons])
        rejected = Counter(reason.value for reason in reasons if reason is not None)
        rows = [updates[int(position)] for position in accepted]

        entries = None
        if self.most is None:
            values = self._dense_rows(rows)
        else:
            row_of_entry = np.repeat(np.arange(len(rows)), [len(model.support) for model in rows])
            supports = [np.empty(0, np.intp), *(model.support for model in rows)]
            entries = Entries(row_of_entry, np.concatenate(supports))
            values = np.concatenate([np.empty(0, self.dtype), *(model.values for model in rows)])
        bytes_up = bytes_up_of(entries, values)
        return Updates(self, accepted, weights[accepted], entries, values, rejected, bytes_up)

    def _dense_rows(self, updates: list[Array]) -> Array:
        """Return dense updates as the rows of a matrix, also if there are none."""
        n_columns = prod(self.shape)
        if not updates:
            return np.empty((0, n_columns))
        return np.reshape(updates, (len(updates), n_columns))

    def from_row(self, row: Array) -> Array:
        """Return a row of the table as an array of this shape and type."""
        return row.reshape(self.shape).astype(self.dtype, copy=False)


class Entries(NamedTuple):
    """Where the entries of sparse updates stand in the table: row and column of each."""

    row: IndexArray
    column: IndexArray


def bytes_up_of(entries: Entries | None, values: Array) -> int:
    """Return what updates took on the wire; a dense row travels as entries if that is shorter."""
    entry_bytes = _INDEX_BYTES + values.itemsize
    if entries is not None:
        return entry_bytes * len(values)
    row_bytes = values.itemsize * values.shape[1]
    sparse_bytes = entry_bytes * np.count_nonzero(values, axis=1)
    return int(np.minimum(sparse_bytes, row_bytes).sum())


class Updates(NamedTuple):
    """What the server sees of the updates of a cohort.

    That is a row for each accepted update; or, if a privacy mechanism adds the updates up, a single
    row: their mean, or with noise what is released in its place.

    Attributes
    ----------
    update_spec : UpdateSpec
    accepted : ndarray of int
        The clients whose updates are in the rows, as increasing positions in the cohort.
    weights : ndarray of float, shape (n_rows,)
        The weight p_i of each row.
    entries : Entries or None
        Row and column of each of the `values` of sparse updates; None if `values` are dense rows.
    values : ndarray
        Shape (n_rows, n_columns) of dense updates, (n_entries,) of sparse ones.
    rejected : Counter of str
        How many updates were rejected, by `RejectReason`.
    bytes_up, bytes_down : int
        What the accepted updates took, and what the clients were sent beside the message itself.
    """

    update_spec: UpdateSpec
    accepted: IndexArray
    weights: Array
    entries: Entries | None
    values: Array
    rejected: Counter[str]
    bytes_up: int
    bytes_down: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to aggregate, because no accepted update has a weight."""
        return not self.weights.sum() > 0

    @property
    def shares(self) -> Array:
        """The weights of the rows, scaled to sum to one."""
        shares: Array = self.weights / self.weights.sum()
        return shares

    def rows(self) -> Array:
        """Return the updates as dense rows, shape (n_rows, n_columns)."""
        if self.entries is None:
            return self.values
        shape = len(self.accepted), prod(self.update_spec.shape)
        rows: Array = np.zeros(shape, self.values.dtype)
        rows[self.entries.row, self.entries.column] = self.values
        return rows

    def mean(self) -> Array:
        """Return sum_i p_i x_i, with the weights scaled to the rows that there are."""
        if self.entries is None:
            total: Array = np.add.reduce(self.shares[:, None] * self.values, axis=0)
            return total
        weighted = self.shares[self.entries.row] * self.values
        return np.bincount(self.entries.column, weighted, prod(self.update_spec.shape))


class ClientSampler:
    """Draws the cohort of each round: uniformly without replacement, by `rounds.Streams`.

    Examples
    --------
    Let clients take turns:

    >>> import fgmp
    >>> import numpy as np
    >>> class InTurn(fgmp.ClientSampler):
    ...     def draw(self, streams, round_number, n_clients, cohort_size):
    ...         turns = np.arange(cohort_size) + (round_number - 1) * cohort_size
    ...         return np.sort(turns % n_clients)
    >>> [InTurn().draw(None, t, n_clients=5, cohort_size=2).tolist() for t in (1, 2, 3)]
    [[0, 1], [2, 3], [0, 4]]

    A run draws its cohorts with the sampler of its aggregator:

    >>> class MeanInTurn(fgmp.Mean):
    ...     sampler = InTurn()
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> aggregator = MeanInTurn()
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), federation, 3, 2, rng=0, aggregator=aggregator)
    >>> result.history["clients"].tolist()
    [0, 2, 2, 2]
    """

    def draw(
        self, streams: Streams, round_number: int, n_clients: int, cohort_size: int
    ) -> IndexArray:
        """Return the client indices of the cohort of a round, increasing."""
        return streams.sample(streams.COHORT, round_number, n_clients, cohort_size)


class PrivacyMechanism:
    """Decides what the server may see of the clients. This one hides nothing.

    Attributes
    ----------
    withholds_objective : bool
        Whether an objective may be nan because its sum would tell too much.
    spends_epsilon : bool
        Whether every round spends some of a privacy budget.

    Examples
    --------
    Ask no client for its objective:

    >>> import fgmp
    >>> class NoObjectives(fgmp.PrivacyMechanism):
    ...     def objective(self, transport, x, indices):
    ...         return None
    >>> class DiscreetMean(fgmp.Mean):
    ...     privacy = NoObjectives()
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), federation, 5, rng=0, aggregator=DiscreetMean())
    >>> "objective" in result.history
    False
    """

    withholds_objective = False
    spends_epsilon = False

    @property
    def secret(self) -> bytes:
        """What a checkpoint has to keep, empty if there is nothing.

        A run that resumes with it releases no more than if it had never ended.
        """
        return b""

    def visible_info(self, info: ProblemInfo) -> ProblemInfo:
        """Return what a method may know of the clients."""
        return info

    def check_method(self, method: Method, info: ProblemInfo, cohort_size: int) -> None:
        """Raise a ValueError if a method is not allowed with cohorts of this size."""

    def collect(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Updates:
        """Have a cohort compute its updates, and return what the server sees of them.

        This is the one place at which clients are run.
        """
        updates = transport.run_clients(call, message, cohort)
        return call.update_spec.stack(updates, transport.weights[cohort])

    def objective(self, transport: Transport, x: Update, indices: IndexArray) -> float | None:
        """Return the mean objective of some clients; None if none is to be recorded.

        It is nan if no client with a weight reports its objective.
        """
        reported, values = transport.objectives(x, indices)
        weights = transport.weights[reported]
        total = weights.sum()
        return float(weights @ values / total) if total > 0 else float("nan")

    def extra_metrics(self, rounds_done: int) -> dict[str, float]:
        """Return more columns of the history, by name."""
        return {}


class Aggregator:
    """How the updates of a cohort become one row. A subclass needs `__call__` and nothing else.

    Examples
    --------
    >>> import fgmp
    >>> class Largest(fgmp.Aggregator):
    ...     def __call__(self, updates):
    ...         return updates.rows().max(axis=0)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=2, rng=0)
    >>> method = fgmp.FedAvg(learning_rate=0.1)
    >>> result = fgmp.simulate(method, federation, rounds=2, rng=0, aggregator=Largest())
    >>> result.x.shape
    (50,)
    """

    @property
    def sampler(self) -> ClientSampler:
        """What draws the cohorts."""
        return ClientSampler()

    @property
    def privacy(self) -> PrivacyMechanism:
        """What decides which of the updates the server sees."""
        return PrivacyMechanism()

    def prepare(
        self, info: ProblemInfo, cohort_size: int, n_exchanges: int, n_rounds: int
    ) -> Aggregator:
        """Return the aggregator for a run of this size.

        Raises
        ------
        ValueError
            If it does not fit such a run.
        ImportError
            If it needs a package that is not installed.
        """
        return self

    def with_secret(self, secret: bytes) -> Aggregator:
        """Return the aggregator with the secret that a checkpoint has kept of its mechanism."""
        return self

    def __call__(self, updates: Updates) -> Array:
        """Return one row, shape (n_columns,), made of the rows that the server sees."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it combines updates")


@dataclass(frozen=True)
class Mean(Aggregator):
    """The weighted mean sum_i p_i x_i / sum_i p_i over the accepted updates; the default.

    It is the paper's mean if all clients answer, or if all p_i are 1/N.

    A single client that sends a large update decides the model: see `Median` and `TrimmedMean`.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> sent = [np.array([1.0, 0.0]), np.array([5.0, 4.0])]
    >>> updates = fgmp.UpdateSpec(shape=(2,)).stack(sent, weights=np.array([0.25, 0.75]))
    >>> fgmp.Mean()(updates).tolist()
    [4.0, 3.0]
    """

    def __call__(self, updates: Updates) -> Array:
        """Return the weighted mean."""
        return updates.mean()
