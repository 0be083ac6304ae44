"""A transport over Flower's Grid: a server with shapes only asks its clients, waits for them, and trusts none."""

from __future__ import annotations

import copy
import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from math import prod
from threading import Thread
from typing import Any

import numpy as np

from .._support.validation import check_integer, check_number, check_option, short_repr
from .._support.warnings import warn_user
from ..aggregation import Rejected, RejectReason
from ..federation import ProblemInfo
from ..losses import Loss, check_loss
from ..privacy.masking import SECRET, TooFewClients, agreed, sum_under_masks
from ..privacy.secure_sums import SecureSum
from ..rounds import Call, Message, Method
from ..serialization import from_wire, to_json, to_wire
from ..sparse_model import Array, IndexArray, SparseModel
from .client import about
from .records import Reply, content_of, printable, reply_in, taken, unreadable

_SHORTEST, _LONGEST = (
    0.01,
    0.25,
)  # seconds between two looks for a reply, longer where clients take long anyway
_KINDS = {"who": "query", "answer": "train", "objective": "evaluate"}

# What a reply may have in bytes beside the numbers that were asked for: names, words, and the letter of a secure sum
# for each client. An entry of an answer takes at most eight bytes, and four more for its place.
_WORDS, _LETTER, _ENTRY = 65_536, 1024, 12


class OverFlower:
    """The clients of a Flower grid: a transport for `simulate`.

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
        What clients need to know to read their rows (names of columns, units): values that JSON holds, and arrays.
    wait_for, deadline : float, default 120 and 60
        Seconds to wait for the clients to come, and again for them to say who they are; and for an answer.
    weights : {"rows", "equal"}
        Whether a client weighs as many rows as it says it has, in the clear, or as much as any other.
    most_rows : int, default 10,000,000
        Who says that it has more is turned away: its weight would be all there is.
    kinds : iterable of type
        As in `client_app`.

    Attributes
    ----------
    nodes, names : list of int, and of str
        Those of the clients, in the order of the ``partition-id`` that they say: their keys are 0, 1, ...
    refused : dict of int to str
        Nodes turned away, and what they said.
    missing, silent : set of int
        Nodes that had no answer that could be read when last asked; those that missed a deadline, and are not waited
        for until they reply.
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
        self.loss, self.settings = (
            check_loss("loss", loss),
            _json({} if settings is None else settings),
        )
        self.deadline, self.kinds = check_number("deadline", deadline, above=0), tuple(kinds)
        n_clients, most_rows = (
            check_integer("n_clients", n_clients),
            check_integer("most_rows", most_rows),
        )
        check_option("weights", weights, ("rows", "equal"))
        self.grid, self._told, self._run, self._arrays = grid, set(), {}, {}  # type: ignore[var-annotated]
        self.missing, self.silent = set(), set()  # type: ignore[var-annotated]
        self._open: dict[int, Future[Any]] = {}  # of each node the question without a reply
        ends = time.monotonic() + check_number("wait_for", wait_for, at_least=0)
        while len(nodes := sorted(self.grid.get_node_ids())) < n_clients:
            if time.monotonic() >= ends:
                raise TimeoutError(
                    f"{len(nodes)} clients came in {wait_for:g} seconds; expected {n_clients}"
                )
            time.sleep(_LONGEST)
        asked = {"ask": "who", "loss": to_json(self.loss, self.kinds)[0], "settings": self.settings}
        questions = dict.fromkeys(nodes, content_of(asked))
        replies = self._exchange("who", questions, max(wait_for, self.deadline), _WORDS)
        said = {node: reply.said for node, reply in replies.items()}

        def fits(who: Mapping[str, Any]) -> bool:
            whole = all(
                type(who.get(name)) is int and who[name] >= 1 for name in ("rows", "features")
            )
            return whole and who["rows"] <= most_rows and who.get("dtype") in ("float32", "float64")

        features = [who["features"] for who in said.values() if fits(who)]
        usual = max(sorted(set(features)), key=features.count, default=0)
        keys = {
            node: who.get("key")
            for node, who in said.items()
            if fits(who) and who["features"] == usual
        }
        self.refused = {
            node: short_repr(who.get("words", dict(who)))
            for node, who in said.items()
            if node not in keys
        }
        if self.refused:
            found = f"clients turned away, and what they said: {self.refused}"
            warn_user(
                f"{found}; expected 1 to {most_rows} rows, and {usual} features as others have"
            )
        if len(keys) < n_clients:
            raise TimeoutError(
                f"{len(keys)} clients said who they are; expected {n_clients}: {self.refused}"
            )
        self.nodes = sorted(
            keys, key=lambda node: (keys[node] if type(keys[node]) is int else 2**63, node)
        )
        each = [said[node] for node in self.nodes]
        self.names = _names([who.get("name", "") for who in each])
        rows, dtype = (
            tuple(who["rows"] for who in each),
            np.result_type(*(who["dtype"] for who in each)),
        )
        self.by, self.counts = weights, np.array(rows if weights == "rows" else [1] * len(rows))
        p = self.counts / self.counts.sum()
        self.shape = ProblemInfo(usual, self.loss, rows, tuple(range(len(rows))), p, dtype)
        self.weights = self.shape.weights

    def with_settings(self, settings: Mapping[str, Any], **of_shape: Any) -> OverFlower:
        """The same clients with other settings, and what these make of their shape: nobody is asked who it is again."""
        other = copy.copy(self)
        other.settings, other.shape = _json(settings), replace(self.shape, **of_shape)
        other.weights = other.shape.weights
        return other

    def prepare(self, method: Method) -> OverFlower:
        """The transport for a method, which travels with the first question to each client."""
        other, (text, arrays) = copy.copy(self), to_json(method, self.kinds)
        run = {"method": text, "loss": to_json(self.loss, self.kinds)[0], "settings": self.settings}
        run["dtype"] = self.shape.dtype.name
        run["run"] = hashlib.sha256(json.dumps(run).encode()).hexdigest()[:16]
        other._run, other._arrays, other._told = run, arrays, set()
        other.shape = replace(
            self.shape, n_features=method.dictionary.n_atoms(self.shape.n_features)
        )
        return other

    def identity(self) -> dict[str, Any]:
        """The shape and the settings: a server knows no data."""
        return {"shape": self.shape, "settings": self.settings}

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> list[Any]:
        """What comes back of a cohort."""
        replies, shape = (
            self.ask_each(call, message, dict.fromkeys(cohort.tolist(), {})),
            call.update_spec.shape,
        )
        return [taken(x, lambda x: from_wire(x.arrays, shape, only=True)) for x in replies.values()]

    def objectives(
        self, x: Array | SparseModel, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """Who says its objective, a number that a loss can have, and these; infinite or nan where everybody's is."""
        asked = np.arange(len(self.nodes)) if indices is None else indices
        replies = self.ask_each(None, x, dict.fromkeys(asked.tolist(), {}))
        said = [replies[index].said.get("objective") for index in asked.tolist()]
        values = np.array([value if type(value) is float else -1.0 for value in said])
        told = np.isfinite(values) & (values >= 0)
        told = told if told.any() else ~(values < 0)
        return asked[told], values[told]

    def masked(
        self,
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        weights: Array,
        secure: SecureSum,
        arriving: Callable[[int, Any], Any] = lambda position, upload: upload,
    ) -> tuple[Array | None, IndexArray, int, int, Counter[str]]:
        """The sum of answers, or of objectives, each times its client's weight, under masks: what `SecureSum` asks for.

        The total, or None where fewer than the threshold stay to the end, or where the sum may not be opened; whose
        numbers are in it, by position in the cohort; bytes up and down of all trips; and why others are not. What a
        client uploads goes through `arriving`, which is given its position, too.
        """
        session, size, split = "", 1 if call is None else len(call.update_spec.centre), 0
        reasons: dict[int, str] = {}
        total_count = int(self.counts[cohort].sum())

        def trip(name: str, told: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
            nonlocal session, split
            if name == "public":
                session, split = secrets.token_hex(8), 0
            split = len(told) if name == "masked" else split
            each = {"trip": name, "session": session, "resolution": secure.resolution}
            each |= {"by": self.by, "total": total_count}
            more = {
                int(cohort[i]): {**each, "place": i, "weight": float(weights[i]), **told[i]}
                for i in told
            }
            replies = self.ask_each(call, message if name == "masked" else None, more)
            count = 2 if name == "public" else split or len(told)
            found = {
                i: taken(replies[int(cohort[i])], lambda x: _told_in(x, name, count, size))
                for i in told
            }
            if name == "masked":
                found = {i: _arrived_as(what, i, arriving, size) for i, what in found.items()}
            reasons.update(
                {i: what.reason for i, what in found.items() if isinstance(what, Rejected)}
            )
            return {i: what for i, what in found.items() if i not in reasons}

        def releasable(there: IndexArray) -> IndexArray:
            chosen = secure.releasable(self, cohort, weights, there, is_objective=call is None)
            reasons.update(dict.fromkeys(set(there.tolist()) - set(chosen.tolist()), "withheld"))
            return chosen

        try:
            needed = secure.needed(len(cohort))
            purpose = about(self.by, total_count)
            found = sum_under_masks(trip, len(cohort), needed, releasable, about=purpose)
        except TooFewClients:
            return None, np.arange(0), 0, 0, Counter(reasons.values())
        total, uploaded, up, down, _, liars = found
        reasons.update(dict.fromkeys(liars, "malformed"))
        # Rounding adds half a unit for each; somebody lied about its shares, or uploaded noise, where it is more.
        if (
            np.abs(secure.decoded(total)).max(initial=0)
            > secure.range + len(cohort) * secure.resolution
        ):
            return None, np.arange(0), up, down, Counter(malformed=len(cohort))
        rejected = Counter(
            reason for i, reason in reasons.items() if i not in uploaded
        )  # who left later is in it
        return total, uploaded, up, down, rejected

    def ask_each(
        self, call: Call | None, message: Message, more: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, Reply]:
        """What clients, by place, reply to a question with more for each: of an exchange, or for the objective."""
        question: dict[str, Any] = {"ask": "objective", "run": self._run["run"]}
        if call is not None:
            question |= {
                "ask": "answer",
                "seed": str(call.streams.seed),
                "round": call.round,
                "exchange": call.exchange_index,
            }
        n_numbers = 1 if call is None else prod(call.update_spec.shape)
        most_bytes = _WORDS + _ENTRY * n_numbers + _LETTER * len(more)
        arrays = {} if message is None else to_wire(message)
        found: dict[int, Reply] = {}
        left = list(more)
        for _ in range(2):  # who was started again knows nothing of the run, and is told again
            contents = {}
            for index in left:
                said, records = {**question, "key": index, **more[index]}, {"message": arrays}
                if index not in self._told:
                    said, records = said | self._run, records | {"arrays": self._arrays}
                contents[self.nodes[index]] = content_of(said, **records)
            replies = self._exchange(question["ask"], contents, self.deadline, most_bytes)
            found |= {index: replies[self.nodes[index]] for index in left}
            left = [index for index in left if "unknown" in found[index].said]
            self._told = (self._told | set(more)) - set(left)
        return found

    def _exchange(
        self, ask: str, contents: Mapping[int, Any], deadline: float, most_bytes: int
    ) -> dict[int, Reply]:
        """What the nodes reply until the deadline, or refused; who is known to be silent is not waited for."""
        from flwr.app import Message as FlowerMessage

        self._arrived()  # what came too late
        asked: dict[int, Future[Reply]] = {
            node: Future() for node in contents if node not in self._open
        }
        messages = [
            FlowerMessage(contents[node], node, _KINDS[ask], ttl=3 * deadline) for node in asked
        ]
        self.grid.push_messages(messages)
        for message, reply in zip(messages, asked.values(), strict=True):
            looked_for = message.metadata.message_id, reply, most_bytes
            Thread(target=self._fetch, args=looked_for, daemon=True).start()
        self._open |= asked
        wait([reply for node, reply in asked.items() if node not in self.silent], deadline)
        found = {node: reply for node, reply in self._arrived().items() if node in asked}
        self.silent |= set(contents) - set(found)
        late = Reply({"refused": "late", "words": f"no reply in {deadline:g} seconds"})
        replies = {node: found.get(node, late) for node in contents}
        self.missing -= set(contents)
        self.missing |= {node for node, reply in replies.items() if "refused" in reply.said}
        return replies

    def _arrived(self) -> dict[int, Reply]:
        """The replies since the last look, by node, whose question is open no longer."""
        done = [node for node, reply in self._open.items() if reply.done()]
        found = {node: self._open.pop(node).result() for node in done}
        self.silent -= {node for node, reply in found.items() if "refused" not in reply.said}
        return found

    def _fetch(self, name: str, reply: Future[Reply], most_bytes: int) -> None:
        """Look for a reply, in a thread of its own: for one that breaks off Flower itself waits three minutes.

        It is read at once, so that nobody's bytes stay where they are too many. A connection that fails is an error of
        the run; whatever else goes wrong is made of what one client sent, and its reply is malformed.
        """
        from httpx import HTTPError

        pause = _SHORTEST
        try:  # until Flower has a reply, or says that the time of the question is over
            while not (found := list(self.grid.pull_messages([name]))):
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST)
            if found[0].has_content():
                reply.set_result(reply_in(found[0].content, most_bytes))
            else:
                reply.set_result(Reply({"refused": "missing", "words": str(found[0].error.reason)}))
        except (OSError, HTTPError) as error:
            reply.set_exception(error)
        except Exception as error:
            unreadable(f"message {name}", error)
            reply.set_result(Reply({"refused": "malformed", "words": "what it sent is no message"}))


def _names(said: Iterable[Any]) -> list[str]:
    """What clients are called: by the words they say, each once, or by their places."""
    names: list[str] = []
    for index, words in enumerate(said):
        name = printable(words)[:60] or f"client {index}"
        names.append(f"{name} ({index})" if name in names else name)
    return names


def _arrived_as(found: Any, position: int, arriving: Callable[[int, Any], Any], size: int) -> Any:
    """What is left of an upload after `arriving`, which is for faults that are injected."""
    if isinstance(found, Rejected):
        return found
    vector, unopened = found
    came = arriving(position, vector)
    if came is None or isinstance(came, Rejected):
        return came or Rejected()
    if not isinstance(came, np.ndarray) or came.dtype != np.uint64 or came.shape != (size,):
        return Rejected(RejectReason.MALFORMED)
    return came, unopened


def _told_in(reply: Reply, trip: str, count: int, size: int) -> Any:
    """What came in a trip; nobody else uses what is not as it has to be."""
    if trip == "masked":
        vector = reply.arrays["masked"]
        unopened = reply.said.get("unopened", [])
        fits = vector.dtype == np.uint64 and vector.shape == (size,)
        fits = fits and isinstance(unopened, list) and all(type(index) is int for index in unopened)
        found: Any = vector, unopened
    else:
        found = list(reply.said["texts"])
        fits = len(found) == count and all(isinstance(text, bytes) for text in found)
        fits = fits and (trip != "opened" or {len(text) for text in found} <= {0, SECRET})
    if not fits:
        raise ValueError("what came is of another kind")
    for key in found if trip == "public" else ():
        agreed(
            bytes(SECRET), key, b""
        )  # a ValueError where it is none: nobody could agree on anything with it
    return found


def _json(settings: Any) -> str:
    try:
        return json.dumps(dict(settings), default=lambda array: array.tolist())
    except (TypeError, ValueError, AttributeError):
        raise ValueError(
            f"settings is {short_repr(settings)}; expected a mapping that JSON holds"
        ) from None
