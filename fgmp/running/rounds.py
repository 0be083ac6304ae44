"""One round: a cohort, and every exchange in order over the whole of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..methods.answers import REASONS, reason_against
from ..methods.contract import Method
from ..models import Array, Message, Support, message_bytes
from .books import Progress, Totals
from .faults import Faults
from .summing import Collected, Collector
from .workers import Alone, Workers

__all__ = ["draw_cohort", "play_round"]


def draw_cohort(seed: int, number: int, n_clients: int, cohort_size: int) -> Support:
    """The clients of round `number`, increasing: `cohort_size` of them, uniformly without replacement."""
    if cohort_size == n_clients:
        return np.arange(n_clients)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
    return np.sort(generator.choice(n_clients, cohort_size, replace=False))


def play_round(
    method: Method,
    progress: Progress,
    crowd: Alone | Workers,
    weights: Array,
    cohort: Support,
    seed: int,
    faults: Faults | None = None,
    collector: Collector | None = None,
) -> Progress:
    """The progress after one more round, not yet recorded."""
    number, state, totals = progress.number + 1, progress.state, progress.totals
    seconds, bytes_up, bytes_down = totals.seconds, totals.bytes_up, totals.bytes_down
    collector = collector or Collector()
    members = _Members(crowd, cohort, seed, number, faults)
    always, left_out = np.ones(len(cohort), bool), np.array(totals.left_out, np.int64)
    for index, exchange in enumerate(method.exchanges()):
        began = time.perf_counter()
        message = exchange.broadcast(state)
        answers = members.answers(message, index)
        reasons = [members.missed(i) or reason_against(exchange.check, state, answers[i]) for i in range(len(cohort))]
        taken = np.array([not reason for reason in reasons])
        always &= taken
        total = weights[cohort[taken]].sum()
        if total > 0:
            place = (seed, number, index)
            collected = collector.collect(exchange, state, weights[cohort], answers, taken, place)
        else:
            collected = Collected(state, sum(message_bytes(answer) for answer in answers), 0)
        state = collected.state
        seconds += time.perf_counter() - began
        bytes_down += len(cohort) * message_bytes(message) + collected.bytes_down
        bytes_up += collected.bytes_up
        if faults:
            left_out += [reasons.count(reason) for reason in REASONS]
        if total <= 0:
            always[:] = False
            break
    answered = int(np.count_nonzero(always))
    after = Totals(seconds, bytes_up, bytes_down, answered, tuple(left_out.tolist()), collector.epsilon(number))
    return progress._replace(number=number, state=state, totals=after)


class _Members:
    """The cohort of one round, with what the faults make of it."""

    def __init__(self, crowd: Alone | Workers, cohort: Support, seed: int, number: int, faults: Faults | None) -> None:
        self.crowd, self.cohort, self.seed, self.number = crowd, cohort, seed, number
        self.struck = [faults.of(number, crowd.clients[i].key) for i in cohort] if faults else None

    def answers(self, message: Message, index: int) -> list[Any]:
        """What arrives of each member in exchange `index`, sooner or later; None is nothing."""
        if self.struck is None:
            return self.crowd.answers(self.cohort, message, self.seed, self.number, index)
        present = [i for i, struck in enumerate(self.struck) if not struck.absent]
        sent = self.crowd.answers(self.cohort[present], message, self.seed, self.number, index)
        arrived: list[Any] = [None] * len(self.cohort)
        for i, answer in zip(present, sent, strict=True):
            arrived[i] = self.struck[i].answer(answer, self.crowd.clients[self.cohort[i]])
        return arrived

    def missed(self, i: int) -> str:
        """Why the server does not look at what arrives of a member; "" where it does."""
        return "late" if self.struck is not None and self.struck[i].late and not self.struck[i].absent else ""
