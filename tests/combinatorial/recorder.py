"""Record what a run sends, takes and makes of it, without changing it.

A recorder is handed to a run in three places: its aggregator sees every message, every update and
every weight, its callback sees the coefficients after every round, and its metric sees the models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fgmp
from fgmp.run.serialization import to_wire
from fgmp.sparse_model import dense


@dataclass
class RecordedExchange:
    """One exchange of a run.

    Attributes
    ----------
    round : int
        Counted from 1.
    down : dict of str to ndarray
        Copies of the arrays that were sent to each client.
    up : dict of int to dict
        Copies of the arrays that each client sent, by its id.
    weights : list of float
        The weights that the aggregator took.
    message, updates
        The message and the updates themselves, to see whether somebody wrote into them.
    """

    round: int
    message: Any
    down: dict[str, np.ndarray]
    up: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    updates: dict[int, Any] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)

    def is_unchanged(self) -> bool:
        """Return whether the message and the updates still are what was sent."""
        copies = [self.down, *self.up.values()]
        originals = [self.message, *self.updates.values()]
        return all(
            _bits(copy) == _bits(to_wire(original))
            for copy, original in zip(copies, originals, strict=True)
        )


@dataclass
class Recorder:
    """What a run did, exchange after exchange and round after round."""

    exchanges: list[RecordedExchange] = field(default_factory=list)
    coefficients: list[np.ndarray] = field(default_factory=list)
    models: list[np.ndarray] = field(default_factory=list)
    prepared: list[np.dtype] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def aggregator(self) -> RecordingMean:
        """The mean, which records messages, updates and weights."""
        return RecordingMean(self)

    def record_coefficients(self, run: fgmp.Run) -> None:
        """Record the coefficients of a state: a callback."""
        coefficients = run.method.coefficients(run.progress.state)
        self.coefficients.append(dense(coefficients).copy())

    def record_model(self, x: np.ndarray) -> float:
        """Record a model: a metric."""
        self.models.append(x.copy())
        return 0.0

    def begin(self, call: Any, message: Any) -> None:
        """Record what is sent to the clients of an exchange."""
        copies = _copied(to_wire(message))
        self.exchanges.append(RecordedExchange(call.round, message, copies))

    def record_update(self, client: fgmp.Client, update: Any) -> None:
        """Record what a client sent."""
        self.prepared.append(client.features.dtype)
        self.exchanges[-1].up[client.client_id] = _copied(to_wire(update))
        self.exchanges[-1].updates[client.client_id] = update

    def finish(self) -> None:
        """Say if a message or an update was written into."""
        if not all(exchange.is_unchanged() for exchange in self.exchanges):
            self.changed.append("a message was written into")


@dataclass(frozen=True)
class RecordingMechanism(fgmp.PrivacyMechanism):
    """Hides nothing, and records the messages and the updates."""

    recorder: Recorder

    def run_and_collect(self, transport: Any, call: Any, message: Any, cohort: np.ndarray) -> Any:
        """Record an exchange, whatever computes the updates."""
        self.recorder.begin(call, message)
        updates = transport.run_clients(call, message, cohort)
        for index, update in zip(cohort, updates, strict=True):
            self.recorder.record_update(transport.clients[index], update)
        return call.update_spec.accept(updates, transport.weights[cohort])


@dataclass(frozen=True)
class RecordingMean(fgmp.Mean):
    """The mean, which records the weights that it takes."""

    recorder: Recorder

    @property
    def privacy(self) -> RecordingMechanism:
        """What records messages and updates."""
        return RecordingMechanism(self.recorder)

    def __call__(self, updates: Any) -> np.ndarray:
        """Return the weighted mean."""
        self.recorder.exchanges[-1].weights = updates.shares.tolist()
        return super().__call__(updates)


def _copied(message: dict) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in message.items()}


def _bits(message: dict) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in message.items()}
