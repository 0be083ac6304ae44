"""Aggregators: whom the server asks, what it sees of the updates, and how these become one vector.

An `Aggregator` combines what the server sees into one vector. It has a `ClientSampler`, which draws
the cohort of a round, and a `PrivacyMechanism`, which handles the updates and the recorded
objectives. These three go together because a guarantee needs all of them: noise, for example, draws
its cohorts by a secret, and its epsilon holds for one way of adding up only. By default the cohort
is drawn uniformly, and the server sees every update, and the objective of every client that is
asked for it. docs/promises.md says what each onlooker sees, with other mechanisms, too.

In a simulation, data and server are in one process. `for_run`, `check_method` and `visible_info`
get the true `ProblemInfo`; the advice at the end of a run, checkpoints and callbacks can reach the
rows themselves. Of a method, `check` and `start` get what `visible_info` returns, `client_update`
gets the rows of one client, and the other functions none of these. A compiled kernel in place of
`client_update`, and `products` of the dictionary, get the rows of all.

`Mean` is the default. A few adversarial clients cannot move `Median` and `TrimmedMean` far: these
aggregate every coordinate of the updates by itself, with the weights p_i of the clients whose
updates are accepted. D. Yin et al., Byzantine-robust distributed learning: towards optimal
statistical rates, ICML 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._support.validation import validate_number_field
from .data import ProblemInfo
from .method import Call, Method, Streams, Transport
from .sparse_model import Array, IndexArray, Model
from .updates import Message, Updates


class ClientSampler:
    """Draws the cohort of each round: uniformly without replacement, by `fgmp.method.Streams`.

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
        Whether an objective may be nan because its sum would reveal too much.
    spends_epsilon : bool
        Whether every round spends some of a privacy budget.

    Examples
    --------
    Ask no client for its objective:

    >>> import fgmp
    >>> class NoObjectives(fgmp.PrivacyMechanism):
    ...     def objective(self, transport, coefficients, indices):
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
        """What a checkpoint has to keep; empty if there is nothing.

        With it a run that is resumed releases no more than one that never ended.
        """
        return b""

    def keep_secret(self, write: Callable[[], object] | None) -> None:
        """Call `write` each time the secret has changed, before anything is released by it."""

    def visible_info(self, info: ProblemInfo) -> ProblemInfo:
        """Return what a method may know of the clients."""
        return info

    def check_method(self, method: Method, info: ProblemInfo, cohort_size: int) -> None:
        """Raise a ValueError if a method is not allowed with cohorts of this size."""

    def run_and_collect(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Updates:
        """Have a cohort compute its updates, and return what the server sees of them.

        All updates are asked for here, and computed by `Transport.run_clients`. The mechanism does
        the asking, so that one that hides updates can ask for their sum instead, and never holds
        the update of a client.
        """
        answers = transport.run_clients(call, message, cohort)
        return call.update_spec.accept(answers, transport.weights[cohort])

    def objective(
        self, transport: Transport, coefficients: Model, indices: IndexArray
    ) -> float | None:
        """Return the mean objective of some clients; None if none is to be recorded.

        It is nan if no client with a weight reports its objective.
        """
        reported, values = transport.objectives(coefficients, indices)
        weights = transport.weights[reported]
        total = weights.sum()
        return float(weights @ values / total) if total > 0 else float("nan")

    def extra_metrics(self, rounds_done: int) -> dict[str, float]:
        """Return more columns of the history, by name."""
        return {}


class Aggregator:
    """How the updates of a cohort become one vector. A subclass needs only `__call__`.

    Examples
    --------
    >>> import fgmp
    >>> class Largest(fgmp.Aggregator):
    ...     def __call__(self, updates):
    ...         return updates.as_matrix().max(axis=0)
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

    def for_run(
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
        """Return one vector, made of those that the server sees."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it combines updates")


@dataclass(frozen=True)
class Mean(Aggregator):
    """The weighted mean sum_i p_i x_i / sum_i p_i over the accepted updates; the default.

    It is the paper's mean if all clients answer. For a cohort Algorithm 2 prints sum_i p_i x_i; the
    proof takes the mean over the cohort, which is this one if all p_i are 1/N.

    A single client that sends a large update decides the model: see `Median` and `TrimmedMean`.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> sent = [np.array([1.0, 0.0]), np.array([5.0, 4.0])]
    >>> updates = fgmp.UpdateSpec(shape=(2,)).accept(sent, weights=np.array([0.25, 0.75]))
    >>> fgmp.Mean()(updates).tolist()
    [4.0, 3.0]
    """

    def __call__(self, updates: Updates) -> Array:
        """Return the weighted mean."""
        return updates.mean()


# Cumulated weights carry rounding: 0.1 + 0.2 + 0.2 has to be half of the clients.
_ROUNDING = 1e-12


class _CoordinatewiseAggregator(Aggregator):
    """An aggregator that reduces each coordinate of the updates by itself."""

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return one number for each column of a matrix of vectors.

        Parameters
        ----------
        values : ndarray, shape (n_vectors, n_coordinates)
        weights : ndarray, shape (n_vectors,)
            They sum to one.

        Returns
        -------
        ndarray, shape (n_coordinates,)
        """
        raise NotImplementedError(f"{type(self).__name__} has no of_columns")

    def __call__(self, updates: Updates) -> Array:
        """Return the aggregate. A coordinate that a sparse update does not have is zero.

        Raise a ValueError for updates that may only be averaged, such as Hessians.
        """
        if updates.update_spec.mean_only:
            raise ValueError(
                f"aggregator is {self!r}, and the updates of an exchange may only be averaged; "
                "expected Mean(), SecureSum() or GaussianNoise(...)"
            )
        return self.of_columns(updates.as_matrix(), updates.shares)


@dataclass(frozen=True)
class Median(_CoordinatewiseAggregator):
    """The weighted median of each coordinate.

    Whatever clients with less than half of the weight send, it stays in the range of the other
    updates. With equal weights it is `numpy.median`. A coordinate of sparse models is nonzero only
    if clients with at least half of the weight have it, which is a vote on the support. If honest
    clients select different atoms, few coordinates are left.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> updates = np.array([[1.0, 0.0], [2.0, 0.0], [-900.0, 5.0]])
    >>> fgmp.Median().of_columns(updates, np.ones(3) / 3).tolist()
    [1.0, 0.0]
    """

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return the midpoint of the lower and the upper weighted median of each column."""
        columns = _sort_columns(values, weights)
        lower = (columns.ends > 0.5 - _ROUNDING).argmax(axis=0)
        upper = (columns.ends > 0.5 + _ROUNDING).argmax(axis=0)

        column_indices = np.arange(values.shape[1])
        lower_median = columns.values[lower, column_indices]
        upper_median = columns.values[upper, column_indices]
        return np.asarray(lower_median + (upper_median - lower_median) / 2)


@dataclass(frozen=True)
class TrimmedMean(_CoordinatewiseAggregator):
    """The weighted mean of each coordinate without its lowest and highest `share` of the weight.

    A share of 0 is the mean, and a share near one half is nearly the median. Coordinates of sparse
    models that few clients have shrink or vanish.

    Parameters
    ----------
    share : float, default 0.1
        The share of the weight that is cut at each end, at least 0 and below 0.5. It has to be at
        least the share of clients that are adversarial.

    Raises
    ------
    ValueError
        If the share is out of these bounds.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> updates = np.array([[-3.0], [2.0], [4.0], [900.0]])
    >>> fgmp.TrimmedMean(share=0.25).of_columns(updates, np.ones(4) / 4).tolist()
    [3.0]
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        validate_number_field(self, "share", at_least=0)
        if self.share >= 0.5:
            raise ValueError(
                f"share is {self.share!r}; expected a number of at least 0 and below 0.5"
            )

    def of_columns(self, values: Array, weights: Array) -> Array:
        """Return the weighted mean of what each column has between the two ends."""
        columns = _sort_columns(values, weights)
        first = np.maximum(columns.starts, self.share)
        last = np.minimum(columns.ends, 1 - self.share)
        kept = np.clip(last - first, 0, None)
        # What is cut gets weight zero exactly: rounding times 1e300 would decide the mean.
        kept[kept <= _ROUNDING] = 0
        return np.asarray(np.einsum("ij,ij->j", kept / kept.sum(axis=0), columns.values))


class _SortedColumns(NamedTuple):
    """Columns in increasing order, and the interval of cumulated weight of each entry."""

    values: Array
    starts: Array
    ends: Array


def _sort_columns(values: Array, weights: Array) -> _SortedColumns:
    """Sort each column, and lay its weights end to end from 0 to 1 in the same order."""
    order = np.argsort(values, axis=0, kind="stable")
    sorted_values = np.take_along_axis(values, order, axis=0)
    sorted_weights = weights[order]
    ends = np.cumsum(sorted_weights, axis=0)
    return _SortedColumns(sorted_values, ends - sorted_weights, ends)
