"""A transport over Flower's Grid: a server with shapes only asks its clients, waits for them, and trusts none."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..advice import advise
from ..checks import check_integer, check_mapping, check_number, check_option, check_truth
from ..losses import Loss, check_loss
from ..methods.answers import REASONS, Missed
from ..methods.contract import Method
from ..methods.written import to_json
from ..models import Array, SparseModel, Support, message_bytes
from ..models import Message as Arrays
from ..running.secure_sums import SecureSum
from ..shapes import Shape, described
from .replies import ClientRefusedWarning, answer_in, forgot, keys_of, objective_in, sizes_of, who_in
from .secure import Summed, secure_objective, secure_sum
from .wire import array_record, model_message, wire_bytes

if TYPE_CHECKING:
    from flwr.app import RecordDict
    from flwr.serverapp import Grid

__all__ = ["OverFlower", "Traffic"]

# Seconds between two looks for replies: short at first, and longer where clients take long anyway.
_SHORTEST, _LONGEST = 0.01, 0.25
_MOST_PENDING = 8
# What Flower raises where somebody sent bytes that are no message.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)
_KINDS = {"who": "query", "answer": "train", "objective": "evaluate", "secure": "train"}


class Traffic(NamedTuple):
    """What has travelled in exchanges: the bytes of the arrays, as histories count them, and those that Flower sent.

    Attributes
    ----------
    arrays_down, arrays_up : int
    sent_down, sent_up : int
        With all names, frames and the method, before the transport encrypts them; objectives are not among them.
    """

    arrays_down: int = 0
    arrays_up: int = 0
    sent_down: int = 0
    sent_up: int = 0


class OverFlower:
    """The clients of a Flower grid, as `fgmp.federate` talks to them.

    It waits for so many clients and asks who they are: how many rows and features each has. That is the shape; who
    says something else than numbers that fit is turned away and counted.

    Parameters
    ----------
    grid : Grid
        As the main function of a ServerApp gets it.
    loss : Loss
        Of every client.
    n_clients : int
        How many have to be there to begin. Who comes later has no part in the run.
    settings : mapping of str, optional
        What clients need to know to read their rows (names of columns, units): values that JSON holds.
    wait_for : float, default 120
        Seconds to wait for the clients to come, and again for them to say who they are.
    deadline : float, default 60
        Seconds to wait for an answer. Who missed one is asked again, but not waited for, until an answer comes.
    weights : {"rows", "equal"}
        Whether a client weighs as many rows as it says it has, or as much as any other. With secure sums too, what it
        says is in the clear. In a run with noise all weigh the same, unless weights are said to be public.
    most_rows : int, default 10,000,000
        Who says that it has more is turned away: its weight would be all there is.

    kinds : iterable of type
        Dataclasses of your own that methods are made of, which the ClientApp knows too.
    ask_objectives : bool, default True
        Whether clients are asked for their objective, once more in every recorded round: under masks where sums are
        secure, four messages to each client. The history has nan instead.

    Attributes
    ----------
    shape : Shape
    nodes : list of int
        The nodes of the clients, in the order of their keys.
    refused : dict of int to str
        Nodes turned away, and why.
    traffic : Traffic

    Raises
    ------
    ValueError
        Where an argument is out of its range.
    TimeoutError
        Where too few clients came, or were taken.
    """

    truth: Array | None = None
    clients: Sequence[Any] = ()
    secure_objective = secure_objective

    def __init__(
        self,
        grid: Grid,
        loss: Loss,
        n_clients: int,
        *,
        settings: Mapping[str, Any] | None = None,
        wait_for: float = 120.0,
        deadline: float = 60.0,
        weights: str = "rows",
        most_rows: int = 10_000_000,
        kinds: Iterable[type] = (),
        ask_objectives: bool = True,
    ) -> None:
        self.grid, self.loss = grid, check_loss("loss", loss)
        self.settings = json.dumps(check_mapping("settings", settings or {}, "a mapping that JSON holds"))
        self.deadline = check_number("deadline", deadline, above=0)
        self.n_clients = check_integer("n_clients", n_clients)
        self.weights = check_option("weights", weights, ("rows", "equal"))
        self.most_rows = check_integer("most_rows", most_rows)
        self.kinds, self.ask_objectives = tuple(kinds), check_truth("ask_objectives", ask_objectives)
        self.traffic, self.refused, self.left_out = Traffic(), {}, (0,) * len(REASONS)  # type: ignore[var-annotated]
        self._told: set[int] = set()
        self._silent: set[int] = set()
        self._pending: dict[str, int] = {}
        self._pulls: dict[str, Future[dict[str, Any]]] = {}
        self._method: dict[str, Any] = {}
        self._written: Arrays = {}
        self.nodes: list[int] = []
        self._meet(check_number("wait_for", wait_for, at_least=0))

    def again(self, **changes: Any) -> OverFlower:
        """The same clients with other settings, or another deadline: nobody is asked who it is again.

        Parameters
        ----------
        settings : mapping of str
        deadline : float
        ask_objectives : bool
        """
        other = copy.copy(self)
        if "settings" in changes:
            given = check_mapping("settings", changes.pop("settings"), "a mapping that JSON holds")
            other.settings = json.dumps(given)
        for name, value in changes.items():
            setattr(other, check_option("changes", name, ("deadline", "ask_objectives")), value)
        return other

    def fingerprint(self) -> dict[str, Any]:
        """The shape: a server knows no data."""
        return described(self.shape)

    def prepare(self, method: Method, seed: int) -> None:
        """The method travels with the first question to each client."""
        written, loss = to_json(method, self.kinds), to_json(self.loss).text
        named = hashlib.sha256(json.dumps([written.text, loss, self.settings]).encode()).hexdigest()[:16]
        self._method = {"run": named, "method": written.text, "loss": loss, "settings": self.settings}
        self._written, self._told = written.arrays, set()

    def __enter__(self) -> OverFlower:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def answers(self, cohort: Support, message: Arrays, seed: int, number: int, index: int) -> list[Any]:
        """What comes back of a cohort."""
        asked = {"ask": "answer", "seed": str(seed), "round": str(number), "exchange": str(index)}
        replies = self._ask_all(cohort, asked, message)
        arrived = [answer_in(reply) for reply in replies]
        payload, sent = sizes_of(arrived, replies)
        self.traffic = self.traffic._replace(
            arrays_down=self.traffic.arrays_down + len(cohort) * message_bytes(message),
            arrays_up=self.traffic.arrays_up + payload,
            sent_up=self.traffic.sent_up + sent,
        )
        return arrived

    def secure_sum(
        self, cohort: Support, message: Arrays, place: tuple[int, int, int], shares: Array, secure: SecureSum
    ) -> Summed:
        """The sum of a cohort's answers under masks, as `fgmp.flower.secure` has it."""
        seed, number, index = (str(part) for part in place)
        asked = {"seed": seed, "round": number, "exchange": index}
        return secure_sum(self, [int(i) for i in cohort], message, asked, shares, secure)

    def ask_each(self, places: Mapping[int, Mapping[str, Any]], message: Arrays) -> dict[int, Any]:
        """What clients reply to questions of their own, by their place; `Missed` where one does not."""
        contents = {place: self._content(place, dict(asked), message) for place, asked in places.items()}
        found = self._exchange({self.nodes[p]: content for p, content in contents.items()}, self.deadline)
        lost = [place for place in places if forgot(found[self.nodes[place]])]
        if lost:  # a node that was started again knows nothing of the run
            self._told -= set(lost)
            again = {self.nodes[place]: self._content(place, dict(places[place]), message) for place in lost}
            found |= self._exchange(again, self.deadline)
        return {place: found[self.nodes[place]] for place in places}

    def objectives(self, places: Support, model: Array | SparseModel) -> list[float | None]:
        """f_i of a model; None of who does not say a number, or one that no loss has."""
        if not self.ask_objectives:
            return [None] * len(places)
        replies = self._ask_all(places, {"ask": "objective"}, model_message(model))
        told = [objective_in(reply) for reply in replies]
        # Where a model has diverged everybody says so; where one client does, it is the client.
        finite = any(value is not None and np.isfinite(value) for value in told)
        return [value if value is None or not finite or np.isfinite(value) else None for value in told]

    def _ask_all(self, places: Support, asked: Mapping[str, Any], message: Arrays) -> list[Any]:
        replies = self.ask_each({int(place): asked for place in places}, message)
        return [replies[int(place)] for place in places]

    def _content(self, place: int, asked: dict[str, Any], message: Arrays) -> RecordDict:
        from flwr.app import ConfigRecord, RecordDict

        key, dtype = str(self.shape.keys[place]), self.shape.dtype.name
        first = place not in self._told
        question = asked | {"run": self._method["run"], "key": key, "dtype": dtype} | (self._method if first else {})
        content = RecordDict({"fgmp": ConfigRecord(question), "message": array_record(message)})
        if first:
            content["arrays"] = array_record(self._written)
            self._told.add(place)
        if "objective" not in (asked["ask"], asked.get("exchange")):
            self.traffic = self.traffic._replace(sent_down=self.traffic.sent_down + wire_bytes(content))
        return content

    def _exchange(self, contents: Mapping[int, RecordDict], deadline: float) -> dict[int, Any]:
        """What the nodes reply, waited for until the deadline; who is known to be silent is not waited for."""
        from flwr.app import Message

        ends = time.monotonic() + deadline
        messages = [
            Message(content, dst_node_id=node, message_type=_kind_of(content), ttl=2 * deadline + 60)
            for node, content in contents.items()
        ]
        self.grid.push_messages(messages)
        mine = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        self._pending |= mine
        found: dict[int, Any] = {}
        pause = _SHORTEST
        while True:
            for name, content in self._pulled().items():
                node = self._pending.pop(name, None)
                if node is None:
                    continue
                if not isinstance(content, Missed):
                    self._silent.discard(node)
                if name in mine:
                    found[node] = content
            waited_for = set(contents) - set(found) - self._silent
            if not waited_for or time.monotonic() >= ends:
                break
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST)
        self._silent |= set(contents) - set(found)
        while len(self._pending) > _MOST_PENDING * len(contents):  # of clients that never answer
            self._pending.pop(next(iter(self._pending)))
        return {node: found.get(node, Missed("late", f"no reply in {deadline:g} seconds")) for node in contents}

    def _pulled(self) -> dict[str, Any]:
        """What has come: contents by the question that they reply to; `Missed` where one cannot even be read.

        Over a network each reply is fetched in a thread of its own: of a client that is killed while it sends, Flower
        waits for the rest, up to three minutes, and longer than any deadline.
        """
        for name in self._pending:
            if name not in self._pulls:
                self._pulls[name] = _begun(lambda name=name: self._read(name))  # type: ignore[misc]
        wait(list(self._pulls.values()), timeout=_SHORTEST)
        found: dict[str, Any] = {}
        for name in [name for name, pull in self._pulls.items() if pull.done()]:
            found |= self._pulls.pop(name).result()
        return found

    def _read(self, name: str) -> dict[str, Any]:
        """The reply to one question, where it has come."""
        try:
            replies = list(self.grid.pull_messages([name]))
            return {reply.metadata.reply_to_message_id: _content_of(reply) for reply in replies}
        except _UNREADABLE as error:
            return {name: Missed("malformed", f"unreadable: {error}")}

    def _meet(self, patience: float) -> None:
        """Wait for the clients, ask who they are, and make a shape of what they say."""
        from flwr.app import ConfigRecord, RecordDict

        ends = time.monotonic() + patience
        while len(nodes := sorted(self.grid.get_node_ids())) < self.n_clients:
            if time.monotonic() >= ends:
                raise TimeoutError(f"{len(nodes)} clients came in {patience:g} seconds; expected {self.n_clients}")
            time.sleep(_LONGEST)
        asked = ConfigRecord({"ask": "who", "loss": to_json(self.loss).text, "settings": self.settings})
        replies = self._exchange({node: RecordDict({"fgmp": asked}) for node in nodes}, max(patience, self.deadline))
        known = {node: who_in(reply, self.most_rows) for node, reply in replies.items()}
        features = [who["features"] for who in known.values() if isinstance(who, dict)]
        usual = max(sorted(set(features)), key=features.count, default=0)
        for node, who in known.items():
            if isinstance(who, dict) and who["features"] != usual:
                known[node] = Missed("malformed", f"{who['features']} features; others have {usual}")
        self.refused = {node: str(who.answer) for node, who in known.items() if isinstance(who, Missed)}
        turned_away = [who.reason for who in known.values() if isinstance(who, Missed)]
        self.left_out = tuple(turned_away.count(reason) for reason in REASONS)
        taken = {node: who for node, who in known.items() if isinstance(who, dict)}
        if self.refused:
            advise(f"clients turned away: {self.refused}", ClientRefusedWarning)
        if len(taken) < self.n_clients:
            raise TimeoutError(f"{len(taken)} clients said who they are; expected {self.n_clients}: {self.refused}")
        keys = keys_of(taken)
        self.nodes = sorted(taken, key=keys.__getitem__)
        rows = [taken[node]["rows"] for node in self.nodes]
        dtype = np.result_type(*(taken[node]["dtype"] for node in self.nodes))
        shares = np.array(rows, float) if self.weights == "rows" else np.ones(len(rows))
        in_order = [keys[node] for node in self.nodes]
        self.shape = Shape(usual, self.loss, rows, in_order, shares, dtype)  # type: ignore[arg-type]


def _begun(function: Callable[[], dict[str, Any]]) -> Future[dict[str, Any]]:
    """What a function returns, from a thread that keeps nobody from ending."""
    future: Future[dict[str, Any]] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def _kind_of(content: RecordDict) -> str:
    return _KINDS[str(content.config_records["fgmp"]["ask"])]


def _content_of(reply: Any) -> Any:
    return reply.content if reply.has_content() else Missed("missing", reply.error.reason)
