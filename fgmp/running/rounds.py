"""One round: a cohort, and every exchange in order over the whole of it."""

from __future__ import annotations

import time

import numpy as np

from ..methods.answers import REASONS, Missed
from ..methods.contract import Method
from ..models import Array, Support, message_bytes
from .books import Progress, Totals
from .summing import Collected, Collector
from .transports import Transport

__all__ = ["play_round"]


def play_round(
    method: Method,
    progress: Progress,
    transport: Transport,
    weights: Array,
    cohort: Support,
    seed: int,
    collector: Collector | None = None,
) -> Progress:
    """The progress after one more round, not yet recorded.

    Parameters
    ----------
    method : Method
        Of the seed.
    progress : Progress
    transport : Transport
        Prepared for the method.
    weights : ndarray, shape (n_clients,)
        The p_i; in an exchange they are scaled to sum to one over those whose answers are taken.
    cohort : ndarray of int
        As `draw_cohort` draws it.
    seed : int
    collector : Collector, optional
        Who hands the answers to the server: each of them by default.

    Returns
    -------
    Progress
    """
    number, state, totals = progress.number + 1, progress.state, progress.totals
    seconds, bytes_up, bytes_down = totals.seconds, totals.bytes_up, totals.bytes_down
    collector = collector or Collector()
    always, left_out = np.ones(len(cohort), bool), np.array(totals.left_out, np.int64)
    for index, exchange in enumerate(method.exchanges()):
        began = time.perf_counter()
        message = exchange.broadcast(state)
        place = (seed, number, index)
        if collector.secure is not None and hasattr(transport, "secure_sum"):
            shares = weights[cohort] / weights[cohort].sum()
            summed = transport.secure_sum(cohort, message, place, shares, collector.secure)
            reasons = summed.reasons
            taken = np.array([not reason for reason in reasons])
            total = weights[cohort[taken]].sum()
            collected = collector.collect_sum(exchange, state, total / weights[cohort].sum(), summed)
        else:
            answers = transport.answers(cohort, message, seed, number, index)
            reasons = [collector.reason_against(exchange, state, answer) for answer in answers]
            arrived = [answer.answer if isinstance(answer, Missed) else answer for answer in answers]
            taken = np.array([not reason for reason in reasons])
            total = weights[cohort[taken]].sum()
            if total > 0:
                collected = collector.collect(exchange, state, weights[cohort], arrived, taken, (number, index))
            else:
                collected = Collected(state, sum(message_bytes(answer) for answer in arrived), 0)
        always &= taken
        state = collected.state
        seconds += time.perf_counter() - began
        bytes_down += len(cohort) * message_bytes(message) + collected.bytes_down
        bytes_up += collected.bytes_up
        if len(left_out):
            left_out += [reasons.count(reason) for reason in REASONS]
        if total <= 0:
            always[:] = False
            break
    # With noise nobody is told who answered.
    answered = int(np.count_nonzero(always)) if collector.private is None else len(cohort)
    after = Totals(seconds, bytes_up, bytes_down, answered, tuple(left_out.tolist()), collector.epsilon(number))
    return progress._replace(number=number, state=state, totals=after)
