"""A fit under way: the exchanges with its clients, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any, NamedTuple

from ..aggregation import Aggregator
from ..data import Client
from ..fedgradmp import FedGradMP
from ..method import Method, Transport
from ..privacy.secure_sums import SecureSum
from ..recording import Callback, History, Result, Run
from ..shared_support.method import SharedSupportGradMP
from ..shared_support.newton import NewtonOnSupport
from ..simulation import run_round, simulate_part
from ..sparse_model import Model
from .client_sums import ClientSums
from .clients import FitClients, Found
from .groups import preview
from .settings import FitSettings

TOTALS = ("round", "seconds", "bytes_up", "bytes_down", "rejected")

# Newton steps between two looks at whether the last one lowered the objective. (One step is exact
# for the squared loss.)
NEWTON_STEPS = 4

Report = Callable[[str, Run, float], object]
Announce = Callable[[str], object]


def report_nothing(*what: object) -> None:
    """Report no progress, and announce no stage."""


def _never(run: Run) -> bool:
    """Let a run go on."""
    return False


class Words(NamedTuple):
    """What the clients are asked for by a method, and what they send, as `ClientSums` has them."""

    description: str
    form: str


_WORDS: dict[type[Method], Words] = {
    SharedSupportGradMP: Words(
        "rounds that select features",
        "gradients of the mean loss; Hessians on the features under trial; losses",
    ),
    FedGradMP: Words(
        "rounds that select features",
        "coefficients of the features that the client selects; losses",
    ),
    NewtonOnSupport: Words(
        "Newton steps on the features that were found",
        "Hessian and gradient of the mean loss on the selected features; losses",
    ),
}


def words_on(method: Method) -> Words | ClientSums:
    """Return the words on a method of a fit; sums have them themselves."""
    if isinstance(method, ClientSums):
        return method
    return next(words for kind, words in _WORDS.items() if isinstance(method, kind))


def round_in_words(words: str, run: Run, unit: float) -> str:
    """Return which rows a round was about, its number, and its loss if one is recorded."""
    line = f"{words}, round {run.progress.round}"
    if "objective" in run.records[-1]:
        line += f": loss {run.records[-1]['objective'] * unit:.6g}"
    return line


def share_of(client: Client, shares: tuple[float, ...] | None, n_rows: int) -> float:
    """Return the weight p_i of a client, which is its part of all rows if there are no shares."""
    if shares is None:
        return client.n_samples / n_rows
    return shares[client.client_id]


class Sent(NamedTuple):
    """What all clients sent in one stage of a fit.

    Attributes
    ----------
    what : str
        In which form.
    began : str
        When it began, in UTC, as ISO 8601 writes it.
    rounds : int
        How many rounds there were.
    n_clients : int
        How many clients took part in the last one.
    bytes_up, bytes_down : int
        From all clients to the server, and back. Of a run in one process it is what would have been
        sent.
    """

    what: str
    began: str
    rounds: int
    n_clients: int
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, kw_only=True)
class _BesideRounds(History):
    """A history whose questions travel with those of the next round, where one follows for certain.

    Attributes
    ----------
    together : callable
        As `FitClients.together`.
    stops : callable (run) -> bool
        What may end the run when an objective is known.
    """

    together: Callable[[Sequence[Callable[[], Any]]], list[Any]]
    stops: Callback

    def _objective(self, run: Run, coefficients: Model) -> float | None:
        """Return the objective of a model, and leave what the next round finds at the run."""
        ask = partial(super()._objective, run, coefficients)
        # An objective without bound stops a run if any does.
        at_worst = replace(run, records=[*run.records, {"objective": inf}])
        if run.progress.round >= run.rounds or self.stops(at_worst):
            return ask()
        objective: float | None
        objective, run.next_progress = self.together([ask, partial(run_round, run)])
        return objective


@dataclass(eq=False)
class Session:
    """Exchanges with the clients of one fit, and what these cost together.

    Stages are functions that take a session and values and return values. A session changes in two
    ways only: `totals` grows, and the aggregator of secure sums remembers which sums were opened.

    Parameters
    ----------
    clients : FitClients
        The clients.
    settings : FitSettings
        The parameters of the fit.
    seed : int
        Seed of cohorts, minibatches and folds.
    aggregator : Aggregator or None
        How updates are combined; None is their mean.
    report : callable (words, run, unit)
        Called after each round that selects features, with the rows that take part in words, the
        run, and the unit of its objective.
    announce : callable (words)
        Called before each run with what is under way.

    Attributes
    ----------
    totals : Counter
        Rounds, seconds, bytes and rejected updates so far.
    log : list of Sent
        What was sent in the runs so far, for a report.
    """

    clients: FitClients
    settings: FitSettings
    seed: int
    aggregator: Aggregator | None
    report: Report
    announce: Announce = report_nothing
    totals: Counter[str] = field(default_factory=Counter)
    log: list[Sent] = field(default_factory=list)

    def expect_all(self, client_ids: Sequence[int]) -> None:
        """Keep in the ledger that sums under masks of these clients are of all of them or none.

        Then their first sum takes one message: it needs no shares against a client that is lost.
        """
        if isinstance(self.aggregator, SecureSum) and self.aggregator.ledger is not None:
            self.aggregator.ledger.choose(client_ids)

    def together(self, stages: Sequence[Callable[[Session], Found]]) -> list[Found]:
        """Return what stages find that do not wait for one another, in their order.

        Over a network the questions of all of them travel in the same messages. Under masks each
        stage begins sessions of its own, if there are none of before.
        """
        before = Counter(self.totals)
        parts = [replace(self, totals=Counter(before), log=[]) for _ in stages]
        for part in parts[1:]:
            if isinstance(self.aggregator, SecureSum) and self.aggregator.sessions is not None:
                branch = self.aggregator.sessions.branch()
                part.aggregator = replace(self.aggregator, sessions=branch)
        tasks = [partial(stage, part) for stage, part in zip(stages, parts, strict=True)]
        found = self.clients.together(tasks)
        for part in parts:
            self.totals.update({name: part.totals[name] - before[name] for name in TOTALS})
            self.log += part.log
        return found

    def run(
        self,
        method: Method,
        transport: Transport,
        rounds: int = 1,
        *,
        callbacks: Sequence[Callback] = (),
        stops: Callback | None = None,
        **options: Any,
    ) -> Result:
        """Run a method and add up its cost; raise a RuntimeError if no client answered.

        Its own warnings are suppressed, because an estimator gives its advice once, at the end.

        Parameters
        ----------
        method, transport, rounds, callbacks, **options
            As of `fgmp.simulate`.
        stops : Callback, optional
            The one callback that may end the run: by its objectives alone, if it records any.
        """
        words = words_on(method)
        self.announce(words.description)
        began = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")
        history = _BesideRounds(together=self.clients.together, stops=stops or _never)
        options = {"history": history, "callbacks": [*callbacks, stops or _never], **options}
        result = simulate_part(
            method, transport, rounds, rng=self.seed, aggregator=self.aggregator, **options
        )
        last = {name: column[-1] for name, column in result.history.items()}
        self.totals.update({name: last[name] for name in TOTALS})
        if last["round"]:
            counts = [int(last[name]) for name in ("round", "clients", "bytes_up", "bytes_down")]
            self.log.append(Sent(words.form, began, *counts))
            if not last["clients"]:
                self._refuse_silence(method, dict(result.rejected))
        return result

    def query(self, method: Method, transport: Transport, state: Any = ()) -> Any:
        """Return the state after one round, for which no objective is evaluated."""
        return self.run(method, transport, state=state, history=History(objective_on=0)).state

    def _refuse_silence(self, method: Method, rejected: dict[str, int]) -> None:
        """Raise a RuntimeError that says why there is no update of any client."""
        if rejected.get("withheld"):
            names = preview(self.clients.absent, 5) or "a site"
            raise RuntimeError(
                f"{names} left in the middle of a fit under masks ({rejected}): a sum without it, "
                "beside those of before, would reveal its own; fit again once all are there"
            )
        raise RuntimeError(f"no site answered {type(method).__name__}: {rejected}; see their logs")
