"""The round loop: draws cohorts, carries messages, keeps the books."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tqdm import tqdm

from ..checks import Seed, check_integer, check_number, check_seed
from ..federation import Federation
from ..methods.answers import is_taken
from ..methods.contract import Method, Reply, State
from ..models import Array, Support, message_bytes
from .books import Books, History, Metric, column_of
from .closing import advise_at_the_end
from .workers import Alone, Workers

__all__ = ["Best", "Result", "simulate", "stop_at", "stop_when_stalled"]

Callback = Callable[[History], bool]


@dataclass(frozen=True, eq=False)
class Best:
    """The best model that a run recorded, by one column of its history.

    Attributes
    ----------
    x, support, coefficients : ndarray
        As in `Result`.
    round : int
        When it was recorded; 0 is the start.
    value : float
        The lowest of the column.
    column : str
    """

    x: Array = field(repr=False)
    support: Array = field(repr=False)
    coefficients: Array = field(repr=False)
    round: int
    value: float
    column: str


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves behind.

    Attributes
    ----------
    x : ndarray
        The last estimate, as the method has it, as a signal, shape (n_features,), or (n_features, n_outputs).
    support : ndarray of int
        Increasing positions of the nonzero coefficients (flattened, where the coefficients are a matrix): features in
        the standard basis, atoms in a dictionary.
    coefficients : ndarray
        The coefficients alpha of x = Psi alpha; x itself in the standard basis.
    history : dict of ndarray
        One entry per recorded round, row 0 the start. ``round``; ``relative_error``, ||x - x#|| / ||x#||, where the
        federation knows the truth; ``objective``, f(x), or its mean over `objective_on`; ``seconds`` of the method's
        own work so far (clients one after another, the server, and at row 0 the preparation of the clients), without
        the books; ``bytes_up`` and ``bytes_down`` so far; ``clients``, how many answered every exchange of that round
        with what was asked for.
    seed : int
        The seed of the run: ``rng=seed`` repeats it.
    state : object
        The server's last state, as the method defines it.
    best : Best
        The best model that was recorded, the start included: by the objective, it is never worse than the start.
    objective_on : ndarray of int or None
        The clients, by their place in the federation, over which the objective of the history is the weighted mean;
        None where these are all.
    """

    x: Array
    support: Array
    coefficients: Array
    history: History
    seed: int
    state: State = field(repr=False)
    best: Best
    objective_on: Support | None = field(default=None, repr=False)


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
    objective_on: int | Sequence[int] | Support | None = None,
    best_by: str = "objective",
    progress: bool = False,
    workers: int = 1,
    readable: bool = False,
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
        More columns of the history: each is called with a copy of the estimate x and returns a number.
    callback : callable or several
        Called with the history after each recorded round; the run stops where one returns True. `stop_at` and
        `stop_when_stalled` make the usual ones.
    objective_on : int, sequence of int, or None
        Whose objective the history holds: None is everybody's, which costs a product with all data at every record;
        an int so many clients, drawn once; a sequence these clients, by their place in the federation. The result
        names them. The objective on a sample is another function than f: compare it only with itself.
    best_by : str, default "objective"
        The column of the history by which `Result.best` is chosen, the lowest being best and the first of equals: a
        metric whose highest value is best has to be negated.
    progress : bool, default False
        Whether to show a bar.
    workers : int, default 1
        Processes that share the clients of a round (joblib). The result does not depend on it, but for the seconds,
        which are then those that pass. It pays where a round takes more than about 50 ms.
    readable : bool, default False
        Whether clients run the loops as the pseudo-code has them, which a debugger can step through, instead of fast
        kernels; ``FGMP_READABLE=1`` in the environment does the same. The numbers are the same but for rounding.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range.

    Warns
    -----
    AdviceWarning
        At most once each in a run: `FewRowsWarning` and `SmallSiteWarning` by the method before it starts,
        `RisingObjectiveWarning` where the last model is above the start or gave back a tenth of what had been gained,
        `SeparationWarning` where a model without a radius leaves no row on the wrong side.

    Notes
    -----
    An answer that is not finite, or not what was asked for (other names, shapes or types, indices out of range or
    repeated, more entries than allowed), is left out of that exchange, and the weights are scaled to the rest; an
    exchange that nobody answers ends the round and leaves the model as it was.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """
    rounds = check_integer("rounds", rounds, at_least=0)
    record_every = check_integer("record_every", record_every)
    cohort_size = federation.check_cohort(cohort_size)
    seed = check_seed("rng", rng)
    method.check(federation)
    workers = check_integer("workers", workers)
    callbacks = (callback,) if callable(callback) else tuple(callback)
    evaluated = _clients_evaluated(federation, objective_on, seed)

    began = time.perf_counter()
    clients = [method.prepare(client) for client in federation.clients]
    state = method.start(federation)
    books = Books(method, federation, clients, metrics or {}, evaluated)
    books.seconds = time.perf_counter() - began
    books.record(0, state)
    lead = _Lead(best_by)
    lead.see(state, books)
    bar = tqdm(range(1, rounds + 1), desc=type(method).__name__, unit="round", disable=not progress)
    with Alone(method, clients, readable) if workers == 1 else Workers(method, clients, workers, readable) as crowd:
        for number in bar:
            cohort = draw_cohort(seed, number, federation.n_clients, cohort_size)
            recorded = number % record_every == 0 or number == rounds
            with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; its history says so
                state = _round(method, state, crowd, federation.weights, cohort, seed, number, books)
                if recorded:
                    books.record(number, state)
                    lead.see(state, books)
            if recorded and any(stop(books.history()) for stop in callbacks):
                break
    x, support, coefficients = _model(method, state)
    history = {name: column.copy() for name, column in books.history().items()}
    best = Best(*_model(method, lead.state), lead.round, lead.value, best_by)
    with np.errstate(over="ignore", invalid="ignore"):
        advise_at_the_end(method, books.clients, coefficients, history)
    return Result(x, support, coefficients, history, seed, state, best, None if objective_on is None else evaluated)


class _Lead:
    """The best state so far, by the last row of a column."""

    def __init__(self, column: str) -> None:
        self.column, self.value, self.round, self.state = column, np.nan, 0, None

    def see(self, state: State, books: Books) -> None:
        """Keep a state that was just recorded, where it is better or the first."""
        history = books.history()
        value = float(column_of(history, self.column)[-1])
        if len(history["round"]) == 1 or value < self.value or (np.isnan(self.value) and not np.isnan(value)):
            self.value, self.round, self.state = value, int(history["round"][-1]), state


def _model(method: Method, state: State) -> tuple[Array, Support, Array]:
    """Estimate, support and coefficients of a state."""
    coefficients = np.array(method.coefficients(state))
    return np.array(method.estimate(state)), np.flatnonzero(coefficients), coefficients


def stop_at(below: float, column: str = "relative_error") -> Callback:
    """A callback that stops a run once a column of the history is at most `below`.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> done = fgmp.stop_at(1e-6, "relative_error")
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=1000, rng=0, callback=done)
    >>> int(result.history["round"][-1]) < 10
    True
    """
    below = check_number("below", below)
    return lambda history: bool(column_of(history, column)[-1] <= below)


def stop_when_stalled(patience: int, column: str = "objective", improvement: float = 1e-3) -> Callback:
    """A callback that stops a run when `patience` records in a row did not improve a column.

    The lowest value so far has to fall by more than the fraction `improvement` to count as better.
    """
    patience = check_integer("patience", patience)
    improvement = check_number("improvement", improvement, at_least=0)

    def stalled(history: History) -> bool:
        values = np.nan_to_num(column_of(history, column), nan=np.inf, posinf=np.inf)
        if len(values) <= patience:
            return False
        before, since = values[:-patience].min(), values[-patience:].min()
        return bool(since >= (before - improvement * abs(before) if np.isfinite(before) else before))

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
    books: Books,
) -> State:
    """One round: every exchange in order, each over the whole cohort."""
    always = np.ones(len(cohort), bool)
    for index, exchange in enumerate(method.exchanges()):
        began = time.perf_counter()
        message = exchange.broadcast(state)
        answers = crowd.answers(cohort, message, seed, number, index)
        taken = np.array([is_taken(exchange.check, state, answer) for answer in answers])
        always &= taken
        total = weights[cohort[taken]].sum()
        if total > 0:
            replies = [Reply(float(weights[cohort[i]] / total), answers[i]) for i in np.flatnonzero(taken)]
            state = exchange.combine(state, replies)
        books.seconds += time.perf_counter() - began
        books.bytes_down += len(cohort) * message_bytes(message)
        books.bytes_up += sum(message_bytes(answer) for answer in answers)
        if total <= 0:
            always[:] = False
            break
    books.clients_answered = int(np.count_nonzero(always))
    return state


def _clients_evaluated(
    federation: Federation, objective_on: int | Sequence[int] | Support | None, seed: int
) -> Support:
    """The clients whose mean objective is recorded, increasing."""
    n_clients = federation.n_clients
    if objective_on is None:
        return np.arange(n_clients)
    if np.ndim(objective_on) == 0:
        count = check_integer("objective_on", objective_on, at_most=n_clients, why="the number of clients")
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        chosen = np.sort(generator.choice(n_clients, count, replace=False))
    else:
        named = [check_integer("objective_on", i, at_least=0, at_most=n_clients - 1) for i in objective_on]  # type: ignore[union-attr]
        chosen = np.unique(np.array(named, np.intp))
    if not federation.weights[chosen].sum() > 0:
        raise ValueError(f"objective_on names {len(chosen)} clients of weight 0; expected one with a positive weight")
    return chosen
