"""The round loop: draws cohorts, carries messages, keeps the books."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from tqdm import tqdm

from .checks import Seed, check_integer, check_number, check_seed
from .contract import Method, Reply, State
from .federation import Client, Federation
from .models import Array, Message, SparseModel, Support, message_bytes
from .workers import Alone, Workers

__all__ = ["Result", "simulate", "stop_at", "stop_when_stalled"]

History = dict[str, Array]
Callback = Callable[[History], bool]
Metric = Callable[[Array], float]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves behind.

    Attributes
    ----------
    x : ndarray
        The estimate as a signal, shape (n_features,), or (n_features, n_outputs).
    support : ndarray of int
        Increasing positions of the nonzero coefficients (flattened, where the coefficients are a matrix): features in
        the standard basis, atoms in a dictionary.
    coefficients : ndarray
        The coefficients alpha of x = Psi alpha; x itself in the standard basis.
    history : dict of ndarray
        One entry per recorded round, row 0 the start. ``round``; ``relative_error``, ||x - x#|| / ||x#||, where the
        federation knows the truth; ``objective``, f(x); ``seconds`` of the method's own work so far (clients one
        after another, the server, and at row 0 the preparation of the clients), without the books; ``bytes_up`` and
        ``bytes_down`` so far; ``clients``, how many answered in that round with finite numbers.
    seed : int
        The seed of the run: ``rng=seed`` repeats it.
    state : object
        The server's last state, as the method defines it.
    """

    x: Array
    support: Array
    coefficients: Array
    history: History
    seed: int
    state: State = field(repr=False)


def simulate(
    method: Method,
    federation: Federation,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    record_every: int = 1,
    metrics: Mapping[str, Metric] | None = None,
    callback: Callback | Iterable[Callback] = (),
    progress: bool = False,
    workers: int = 1,
) -> Result:
    """Run a federated method on a federation, on this machine.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    federation : Federation
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has random numbers of its own, which depend on the
        seed, the round and the client's key: not on the order of the clients, nor on who else takes part.
    record_every : int, default 1
        Rounds between two entries of the history; the last round is always recorded.
    metrics : mapping of str to callable, optional
        More columns of the history: each is called with the estimate x and returns a number.
    callback : callable or several
        Called with the history after each recorded round; the run stops where one returns True. `stop_at` and
        `stop_when_stalled` make the usual ones.
    progress : bool, default False
        Whether to show a bar.
    workers : int, default 1
        Processes that share the clients of a round (joblib). The result does not depend on it, but for the seconds,
        which are then those that pass. It pays where a round takes more than about 50 ms.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range.

    Notes
    -----
    An answer that is not finite is left out of that exchange, and the weights are scaled to the rest; an exchange
    that nobody answers ends the round and leaves the model as it was.
    """
    rounds = check_integer("rounds", rounds, at_least=0)
    record_every = check_integer("record_every", record_every)
    cohort_size = federation.check_cohort(cohort_size)
    seed = check_seed("rng", rng)
    method.check(federation)
    workers = check_integer("workers", workers)
    callbacks = (callback,) if callable(callback) else tuple(callback)

    began = time.perf_counter()
    clients = [method.prepare(client) for client in federation.clients]
    state = method.start(federation)
    books = _Books(method, federation, clients, dict(metrics or {}), seconds=time.perf_counter() - began)
    books.record(0, state)
    bar = tqdm(range(1, rounds + 1), desc=type(method).__name__, unit="round", disable=not progress)
    with Alone(method, clients) if workers == 1 else Workers(method, clients, workers) as crowd:
        for number in bar:
            cohort = draw_cohort(seed, number, federation.n_clients, cohort_size)
            recorded = number % record_every == 0 or number == rounds
            with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
                state = _round(method, state, crowd, federation.weights, cohort, seed, number, books)
                if recorded:
                    books.record(number, state)
            if recorded and any(stop(books.history()) for stop in callbacks):
                break
    coefficients = method.coefficients(state)
    support = np.flatnonzero(coefficients)
    return Result(method.estimate(state), support, coefficients, books.history(), seed, state)


def stop_at(below: float, column: str = "relative_error") -> Callback:
    """A callback that stops a run once a column of the history is at most `below`."""
    below = check_number("below", below)
    return lambda history: bool(_column(history, column)[-1] <= below)


def stop_when_stalled(patience: int, column: str = "objective", improvement: float = 1e-3) -> Callback:
    """A callback that stops a run when `patience` records in a row did not improve a column.

    The lowest value so far has to fall by more than the fraction `improvement` to count as better.
    """
    patience = check_integer("patience", patience)
    improvement = check_number("improvement", improvement, at_least=0)

    def stalled(history: History) -> bool:
        values = _column(history, column)
        if len(values) <= patience:
            return False
        return bool(np.nanmin(values[-patience:]) >= np.nanmin(values[:-patience]) * (1 - improvement))

    return stalled


def draw_cohort(seed: int, number: int, n_clients: int, cohort_size: int) -> Support:
    """The clients of round `number`, increasing: `cohort_size` of them, uniformly without replacement."""
    if cohort_size == n_clients:
        return np.arange(n_clients)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
    return np.sort(generator.choice(n_clients, cohort_size, replace=False))


def _round(
    method: Method,
    state: State,
    crowd: Alone | Workers,
    weights: Array,
    cohort: Support,
    seed: int,
    number: int,
    books: _Books,
) -> State:
    """One round: every exchange in order, each over the whole cohort."""
    for index, exchange in enumerate(method.exchanges()):
        began = time.perf_counter()
        message = exchange.broadcast(state)
        answers = crowd.answers(cohort, message, seed, number, index)
        answered = [i for i, answer in enumerate(answers) if _is_finite(answer)]
        total = weights[cohort[answered]].sum()
        if total > 0:
            replies = [Reply(float(weights[cohort[i]] / total), answers[i]) for i in answered]
            state = exchange.combine(state, replies)
        books.seconds += time.perf_counter() - began
        books.bytes_down += len(cohort) * message_bytes(message)
        books.bytes_up += sum(message_bytes(answer) for answer in answers)
        books.clients_answered = len(answered)
        if total <= 0:
            break
    return state


def _is_finite(message: Message) -> bool:
    return all(bool(np.isfinite(array).all()) for array in message.values())


@dataclass
class _Books:
    """The history in the making, and the running totals."""

    method: Method
    federation: Federation
    clients: list[Client]
    metrics: dict[str, Metric]
    seconds: float
    bytes_up: int = 0
    bytes_down: int = 0
    clients_answered: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)

    def record(self, number: int, state: State) -> None:
        """Append one row."""
        coefficients, x = self.method.coefficients(state), self.method.estimate(state)
        row: dict[str, float] = {"round": number}
        truth = self.federation.truth
        if truth is not None:
            row["relative_error"] = float(np.linalg.norm(x - truth) / np.linalg.norm(truth))
        sparse = SparseModel.of(coefficients)
        model = sparse if 4 * len(sparse.support) < coefficients.size else coefficients
        objectives = np.array([client.objective(model) for client in self.clients])
        row["objective"] = float(self.federation.weights @ objectives)
        row["seconds"] = self.seconds
        row |= {"bytes_up": self.bytes_up, "bytes_down": self.bytes_down, "clients": self.clients_answered}
        row |= {name: metric(x) for name, metric in self.metrics.items()}
        self.rows.append(row)

    def history(self) -> History:
        """The rows as columns."""
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}


def _column(history: History, column: str) -> Array:
    if column not in history:
        raise ValueError(f"column is {column!r}; expected one of {', '.join(map(repr, history))}")
    return history[column]
