"""One round: a cohort, and every exchange in order over the whole of it."""

from __future__ import annotations

import time

import numpy as np

from ..methods.answers import is_taken
from ..methods.contract import Method, Reply
from ..models import Array, Support, message_bytes
from .books import Progress, Totals
from .workers import Alone, Workers

__all__ = ["draw_cohort", "play_round"]


def draw_cohort(seed: int, number: int, n_clients: int, cohort_size: int) -> Support:
    """The clients of round `number`, increasing: `cohort_size` of them, uniformly without replacement."""
    if cohort_size == n_clients:
        return np.arange(n_clients)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
    return np.sort(generator.choice(n_clients, cohort_size, replace=False))


def play_round(
    method: Method, progress: Progress, crowd: Alone | Workers, weights: Array, cohort: Support, seed: int
) -> Progress:
    """The progress after one more round, not yet recorded."""
    (number, state, totals), always = (progress.number + 1, progress.state, progress.totals), np.ones(len(cohort), bool)
    seconds, bytes_up, bytes_down = totals.seconds, totals.bytes_up, totals.bytes_down
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
        seconds += time.perf_counter() - began
        bytes_down += len(cohort) * message_bytes(message)
        bytes_up += sum(message_bytes(answer) for answer in answers)
        if total <= 0:
            always[:] = False
            break
    answered = int(np.count_nonzero(always))
    return progress._replace(number=number, state=state, totals=Totals(seconds, bytes_up, bytes_down, answered))
