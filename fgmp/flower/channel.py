"""A channel over Flower's Grid: a server with shapes only asks its clients, waits for them, and trusts none."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from ..advice import advise
from ..checks import check_integer, check_mapping, check_number, check_option, shown
from ..layers.secure_sums import SecureSum
from ..losses import Loss, check_loss
from ..methods.method_json import to_json
from ..models import Array, SparseModel, Support
from ..rounds import REASONS, Call, Form, Message, Method, Missing
from ..shapes import Shape
from ..wire import from_wire, to_wire
from .records import arrays_of, content_bytes, content_of, said_in
from .secure import secure_sum

__all__ = ["OverFlower"]

# Seconds between two looks for a reply: short at first, and longer where clients take long anyway.
_SHORTEST, _LONGEST = 0.01, 0.25
_KINDS = {"who": "query", "answer": "train", "objective": "evaluate"}
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)  # what Flower raises of bytes that are none


class OverFlower:
    """The clients of a Flower grid: a channel for `simulate`.

    It waits for so many clients and asks who they are: how many rows and features each has. That is the shape; who
    says something else than numbers that fit is turned away, with an `AdviceWarning`. Too few are a TimeoutError.

    Parameters
    ----------
    grid : Grid
        As the main function of a ServerApp gets it.
    loss : Loss
    n_clients : int
        How many have to be there to begin. Who comes later has no part in the run.
    settings : mapping of str, optional
        What clients need to know to read their rows (names of columns, units): values that JSON holds.
    wait_for : float, default 120
        Seconds to wait for the clients to come, and again for them to say who they are.
    deadline : float, default 60
        Seconds to wait for an answer. Who missed one is not waited for again until it replies.
    weights : {"rows", "equal"}
        Whether a client weighs as many rows as it says it has, in the clear, or as much as any other.
    most_rows : int, default 10,000,000
        Who says that it has more is turned away: its weight would be all there is.
    kinds : iterable of type
        Dataclasses of your own that methods are made of, as in `client_app`.

    Attributes
    ----------
    nodes, names : list of int, and of str
        Those of the clients, in the order of the ``partition-id`` that they say: their keys are 0, 1, ...
    refused : dict of int to str
        Nodes turned away, and what they said.
    post : Post
        Its `down` and `up` are the bytes of exchanges with names, frames and the method, before encryption.
    """

    truth: Array | None = None

    def __init__(
        self,
        grid: Any,
        loss: Loss,
        n_clients: int,
        *,
        settings: Mapping[str, Any] | None = None,
        wait_for: float = 120.0,
        deadline: float = 60.0,
        weights: str = "rows",
        most_rows: int = 10_000_000,
        kinds: Iterable[type] = (),
    ) -> None:
        self.loss, self.settings = check_loss("loss", loss), _json({} if settings is None else settings)
        self.deadline, self.kinds = check_number("deadline", deadline, above=0), tuple(kinds)
        self.post, self._method, self._arrays, self._told = Post(grid), {}, {}, set()  # type: ignore[var-annotated]
        n_clients, most_rows = check_integer("n_clients", n_clients), check_integer("most_rows", most_rows)
        by_rows = check_option("weights", weights, ("rows", "equal")) == "rows"
        self._meet(n_clients, check_number("wait_for", wait_for, at_least=0), most_rows, by_rows)

    def again(self, settings: Mapping[str, Any]) -> OverFlower:
        """The same clients with other settings: nobody is asked who it is again."""
        other = copy.copy(self)
        other.settings = _json(settings)
        return other

    @property
    def missing(self) -> list[str]:
        """The names of those who missed the last deadline."""
        return [name for node, name in zip(self.nodes, self.names, strict=True) if node in self.post.silent]

    def serving(self, method: Method) -> OverFlower:
        """The channel for a method, which travels with the first question to each client."""
        other, written, loss = copy.copy(self), to_json(method, self.kinds), to_json(self.loss).text
        name = hashlib.sha256(json.dumps([written.text, loss, self.settings]).encode()).hexdigest()[:16]
        other._method = {"run": name, "method": written.text, "loss": loss, "settings": self.settings}
        other._arrays, other._told = written.arrays, set()
        other.shape = replace(self.shape, n_features=method.dictionary.n_atoms(self.shape.n_features))
        return other

    def identity(self) -> dict[str, Any]:
        """The shape and the settings: a server knows no data."""
        return {"shape": self.shape, "settings": self.settings}

    def ask(self, call: Call, message: Message, cohort: Support) -> list[Any]:
        """What comes back of a cohort."""
        replies = self.ask_each(dict.fromkeys(cohort.tolist(), _question(call)), message)
        return [_answer_in(replies[place], call.form) for place in cohort.tolist()]

    def objectives(self, x: Array | SparseModel, places: Support | None = None) -> tuple[Support, Array]:
        """Who says its objective, a number that a loss can have, and these."""
        asked = range(len(self.nodes)) if places is None else places.tolist()
        replies = self.ask_each(dict.fromkeys(asked, _question(None)), x)
        said = {place: said_in(reply).get("objective") for place, reply in replies.items()}
        told = {place: value for place, value in said.items() if type(value) is float and not value < 0}
        # Where a model has diverged everybody says so; where one client does, it is the client.
        some = any(map(np.isfinite, told.values()))
        told = {place: value for place, value in told.items() if np.isfinite(value) or not some}
        return np.array(list(told), np.intp), np.array(list(told.values()))

    def masked(
        self, call: Call | None, message: Message, cohort: Support, weights: Array, secure: SecureSum
    ) -> tuple[Array | None, Support, int, int, Counter[str]]:
        """What `SecureSum` asks of a channel that has masks, as `fgmp.flower.secure` has it."""
        return secure_sum(self, _question(call), message, cohort, call and call.form, weights, secure)

    def ask_each(self, asked: Mapping[int, Mapping[str, Any]], message: Message) -> dict[int, Any]:
        """What clients reply to questions of their own, by their place, or that they refused."""
        arrays = {} if message is None else to_wire(message)

        def replies(places: Iterable[int]) -> dict[int, Any]:
            contents = {}
            for place in places:
                said = {**asked[place], "run": self._method["run"], "key": place, "dtype": self.shape.dtype.name}
                more = {} if place in self._told else {"arrays": self._arrays}
                said |= self._method if more else {}
                contents[self.nodes[place]] = content_of(said, message=arrays, **more)
                self._told.add(place)
            found = self.post.exchange(contents, self.deadline)
            return {place: found[self.nodes[place]] for place in places}

        found = replies(list(asked))
        forgot = [place for place, reply in found.items() if "unknown" in said_in(reply)]
        self._told -= set(forgot)  # a node that was started again knows nothing of the run
        found |= replies(forgot)
        return found

    def _meet(self, n_clients: int, patience: float, most_rows: int, by_rows: bool) -> None:
        """Wait for the clients, ask who they are, and make a shape of what they say."""
        ends = time.monotonic() + patience
        while len(nodes := sorted(self.post.grid.get_node_ids())) < n_clients:
            if time.monotonic() >= ends:
                raise TimeoutError(f"{len(nodes)} clients came in {patience:g} seconds; expected {n_clients}")
            time.sleep(_LONGEST)
        asked = {"ask": "who", "loss": to_json(self.loss).text, "settings": self.settings}
        contents = {node: content_of(asked) for node in nodes}
        said = {n: said_in(reply) for n, reply in self.post.exchange(contents, max(patience, self.deadline)).items()}

        def fits(who: Mapping[str, Any]) -> bool:
            bounds = (("rows", most_rows), ("features", 2**31 - 1))
            numbers = all(type(who.get(name)) is int and 1 <= who[name] <= most for name, most in bounds)
            return numbers and who.get("dtype") in ("float32", "float64")

        features = [who["features"] for who in said.values() if fits(who)]
        usual = max(sorted(set(features)), key=features.count, default=0)
        taken = {node: who for node, who in said.items() if fits(who) and who["features"] == usual}
        self.refused = {node: shown(who.get("words", dict(who))) for node, who in said.items() if node not in taken}
        if self.refused:
            expected = f"1 to {most_rows} rows, and {usual} features as others have"
            advise(f"clients turned away, and what they said: {self.refused}; expected {expected}")
        if len(taken) < n_clients:
            raise TimeoutError(f"{len(taken)} clients said who they are; expected {n_clients}: {self.refused}")
        keys = {node: who["key"] if type(who.get("key")) is int else 2**63 for node, who in taken.items()}
        self.nodes = sorted(taken, key=lambda node: (keys[node], node))
        self.names = [_named(taken[node], place) for place, node in enumerate(self.nodes)]
        rows = [taken[node]["rows"] for node in self.nodes]
        dtype = np.result_type(*(taken[node]["dtype"] for node in self.nodes))
        weights = np.array(rows if by_rows else [1] * len(rows))
        self.shape = Shape(usual, self.loss, rows, range(len(rows)), weights / weights.sum(), dtype)
        self.weights = self.shape.weights


class Post:
    """Questions to nodes, and what they reply in time; who missed a deadline is silent, and not waited for."""

    def __init__(self, grid: Any) -> None:
        self.grid, self.silent, self.down, self.up = grid, set(), 0, 0  # type: ignore[var-annotated]
        self._open: dict[str, int] = {}  # questions without a reply, at most one for each node
        self._arrived: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def exchange(self, contents: Mapping[int, Any], deadline: float) -> dict[int, Any]:
        """What the nodes reply until the deadline, or refused; who is known to be silent is not waited for."""
        from flwr.app import Message as FlowerMessage

        while not self._arrived.empty():  # what came too late
            self._next(0)
        ends, lifetime = time.monotonic() + deadline, 3 * deadline
        messages = [
            FlowerMessage(content, dst_node_id=node, message_type=_KINDS[said_in(content)["ask"]], ttl=lifetime)
            for node, content in contents.items()
            if node not in self._open.values()
        ]
        if messages:
            self.grid.push_messages(messages)
        for name, node in (mine := {m.metadata.message_id: m.metadata.dst_node_id for m in messages}).items():
            self._open[name] = node
            Thread(target=self._fetch, args=(name, time.monotonic() + lifetime), daemon=True).start()
        found: dict[int, Any] = {}
        while (waits := set(mine.values()) - set(found) - self.silent) or not self._arrived.empty():
            try:
                name, reply = self._next(max(ends - time.monotonic(), 0) if waits else 0)
            except Empty:
                break
            if name in mine:
                found[mine[name]] = reply
        self.silent |= set(contents) - set(found)
        if any(said_in(content)["ask"] == "answer" for content in contents.values()):
            self.down += sum(content_bytes(message.content) for message in messages)
            self.up += sum(content_bytes(reply) for reply in found.values() if "refused" not in said_in(reply))
        return {node: found.get(node, _refused("late", f"no reply in {deadline:g} seconds")) for node in contents}

    def _next(self, timeout: float) -> tuple[str, Any]:
        name, reply = self._arrived.get(timeout=timeout)
        node = self._open.pop(name)
        if isinstance(reply, Exception):
            raise reply
        if "refused" not in said_in(reply):
            self.silent.discard(node)
        return name, reply

    def _fetch(self, name: str, until: float) -> None:
        """Look for a reply, in a thread of its own: for one that breaks off Flower itself waits three minutes."""
        pause, reply = _SHORTEST, None  # type: tuple[float, Any]
        while reply is None and time.monotonic() < until:
            try:
                for message in self.grid.pull_messages([name]):
                    reply = message.content if message.has_content() else _refused("missing", message.error.reason)
            except _UNREADABLE as error:
                reply = _refused("malformed", str(error))
            except Exception as error:
                reply = error
            if reply is None:
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST)
        self._arrived.put((name, _refused("late", "no reply") if reply is None else reply))


def _named(who: Mapping[str, Any], place: int) -> str:
    """What a client calls itself, in one short line."""
    name = who.get("name")
    return " ".join(name.split())[:60] if isinstance(name, str) and name.split() else f"client {place}"


def _question(call: Call | None) -> dict[str, Any]:
    if call is None:
        return {"ask": "objective"}
    return {"ask": "answer", "seed": str(call.streams.seed), "round": call.round, "exchange": call.place}


def _refused(reason: str, words: str) -> Any:
    return content_of({"refused": reason, "words": words})


def _answer_in(reply: Any, form: Form) -> Any:
    """The answer in a reply, or `Missing`; `Form.table` has the last word."""
    if "message" not in reply.array_records:
        refused = said_in(reply).get("refused")
        return Missing(refused if refused in REASONS else "missing")
    try:
        return from_wire(arrays_of(reply.array_records["message"]), form.shape, only=True)
    except ValueError:
        return Missing("malformed")


def _json(settings: Any) -> str:
    try:
        return json.dumps(check_mapping("settings", settings, "a mapping that JSON holds"))
    except TypeError:
        raise ValueError(f"settings is {shown(settings)}; expected a mapping that JSON holds") from None
