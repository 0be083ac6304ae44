"""How messages get to clients and back: what the round loop asks of a transport, and the one within a process.

`InProcess` is what `simulate` runs over. Whatever a transport brings is checked by the loop: it may hand over anything
that somebody sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..federation import Client, Federation
from ..methods.answers import REASONS
from ..methods.contract import Method
from ..methods.kernels import answer_of, is_readable
from ..models import Array, Message, SparseModel, Support
from ..shapes import Shape, described
from .checkpoints import digest
from .faults import Fault, Faults, Struck
from .randomness import client_generator

__all__ = ["InProcess", "Transport"]


class Transport(Protocol):
    """What `fgmp.running.loop.federate` needs of whatever carries messages.

    Attributes
    ----------
    shape : Shape
        Who is there.
    truth : ndarray or None
        x#, where it is known.
    left_out : tuple of int
        For each of `fgmp.methods.answers.REASONS`, how many clients were turned away before the first round; an empty
        tuple where answers left out are not to be counted at all.
    clients : sequence of Client
        Prepared, where they are at hand; or else empty.
    """

    shape: Shape
    truth: Array | None
    left_out: tuple[int, ...]
    clients: Sequence[Client]

    def fingerprint(self) -> dict[str, Any]:
        """What makes a federation this one, for checkpoints, by name."""

    def prepare(self, method: Method, seed: int) -> None:
        """Have all clients know the method and the seed of the run."""

    def __enter__(self) -> Any:
        """The rounds begin; objectives may be asked for before."""

    def __exit__(self, *error: Any) -> None:
        """The rounds have ended, or an error or Ctrl-C has ended them; objectives may be asked for after."""

    def answers(self, cohort: Support, message: Message, seed: int, number: int, index: int) -> Sequence[Any]:
        """What comes back from a cohort in exchange `index` of round `number`, in its order; None is nothing."""

    def objectives(self, places: Support, model: Array | SparseModel) -> Sequence[float | None]:
        """f_i of a model at some clients; None where one does not say."""


class InProcess:
    """All clients of a federation in this process.

    Parameters
    ----------
    federation : Federation
    readable : bool, default False
        As in `fgmp.simulate`.
    faults : tuple of Fault or None
        As in `fgmp.simulate`, settled.
    """

    def __init__(
        self,
        federation: Federation,
        readable: bool = False,
        faults: tuple[Fault, ...] | None = None,
    ) -> None:
        self.federation, self.readable, self.given = federation, readable, faults
        self.shape, self.truth = federation.shape, federation.truth
        self.left_out = () if faults is None else (0,) * len(REASONS)
        self.clients: Sequence[Client] = ()
        self.faults: Faults | None = None
        self._struck: tuple[int, list[Struck]] = (-1, [])

    def fingerprint(self) -> dict[str, Any]:
        """All numbers of the federation, and what decides what arrives."""
        data = [(digest(client.features), digest(client.targets)) for client in self.federation.clients]
        arrives = {"readable": is_readable(self.readable), "faults": self.given}
        return described(self.shape) | {"data": digest(data), "truth": digest(self.truth)} | arrives

    def prepare(self, method: Method, seed: int) -> None:
        """Every client in the coordinates of the method."""
        if self.given is not None:
            self.faults = Faults(self.given, seed, self.shape.keys)
        self.method, self.clients = method, [method.prepare(client) for client in self.federation.clients]

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def answers(self, cohort: Support, message: Message, seed: int, number: int, index: int) -> Sequence[Any]:
        """The answers of a cohort, and what the faults make of them."""
        if not self.faults:
            return self._sent(cohort, message, (seed, number, index))
        struck = self._struck_in(number, cohort)
        present = [i for i, each in enumerate(struck) if not each.absent]
        sent = self._sent(cohort[present], message, (seed, number, index))
        arrived: list[Any] = [None] * len(cohort)
        for i, answer in zip(present, sent, strict=True):
            arrived[i] = struck[i].answer(answer, self.clients[cohort[i]])
        return arrived

    def _sent(self, cohort: Support, message: Message, place: tuple[int, int, int]) -> list[Message]:
        """What the clients answer, one after another."""
        exchange, members = self.method.exchanges()[place[2]], [self.clients[i] for i in cohort]
        return [
            answer_of(exchange, client, self.readable)(client, message, client_generator(*place, client))
            for client in members
        ]

    def objectives(self, places: Support, model: Array | SparseModel) -> Sequence[float]:
        """f_i of a model at some clients."""
        return [self.clients[i].objective(model) for i in places]

    def _struck_in(self, number: int, cohort: Support) -> list[Struck]:
        if self._struck[0] != number:
            assert self.faults is not None
            self._struck = number, [self.faults.of(number, self.shape.keys[i]) for i in cohort]
        return self._struck[1]
