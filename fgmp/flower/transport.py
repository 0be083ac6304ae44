"""The transport over Flower's Grid: the server's side.

The server knows only shapes, enforces deadlines, and validates everything it receives.
`fgmp.flower.mailbox` waits for replies, `fgmp.flower.records` parses them, and
`fgmp.flower.secure` adds up updates under masks.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from .._support.displays import printable
from .._support.validation import check_integer, check_number, check_option, short_repr
from .._support.warnings import warn_user
from ..data import ProblemInfo
from ..losses import Loss, check_loss
from ..method import Call, Method
from ..privacy.masking import MaskedSum
from ..privacy.secure_sums import SecureSum
from ..run.serialization import from_wire, to_json, to_wire
from ..sparse_model import Array, IndexArray, SparseModel
from ..updates import Message, Rejected
from .mailbox import Mailbox
from .meeting import Meeting
from .records import Fields, Reply, content_of, content_of_parts, parse_reply
from .secure import AlterUpload, AskingTransport, SecureSession, is_public_key

_PAUSE = 0.25  # seconds between two looks at how many nodes have come

# Flower's type of a message, by what is asked.
_MESSAGE_TYPES = {"who": "query", "answer": "train", "objective": "evaluate"}

# The most bytes of a reply: names and words, the encrypted share of a secure sum for each client,
# and the numbers that were asked for. An entry of an update takes at most eight bytes, and four
# more for its index.
_BYTES_OF_WORDS = 65_536
_BYTES_OF_SHARE = 1024
_BYTES_OF_ENTRY = 12

_LONGEST_NAME = 60


class OverFlower(AskingTransport):
    """The clients of a Flower grid: a transport for `simulate`.

    It waits for a number of clients and asks each who it is: how many rows and features it has.
    These make the shapes that the server knows. A client whose numbers do not fit is turned away,
    with an `AdviceWarning`.

    Parameters
    ----------
    grid : Grid
        As the main function of a ServerApp receives it.
    loss : Loss
    n_clients : int
        How many clients have to be present at the beginning. A client that comes later has no part
        in the run.
    settings : mapping of str, optional
        What clients need to know to read their rows, such as names of columns and units: values
        that JSON holds, and arrays.
    wait_for : float, default 120
        Seconds to wait for the clients to come, and again for them to say who they are.
    deadline : float, default 60
        Seconds to wait for the replies to a question.
    weights : {"rows", "equal"}
        Whether a client weighs as many rows as it reports, or as much as any other.
    most_rows : int, default 10,000,000
        A client that reports more rows is turned away: its weight would be nearly all there is.
    kinds : iterable of type
        As in `client_app`.

    Attributes
    ----------
    reports : list of mapping
        What each client said of itself, in the order of `nodes`.
    nodes, names : list of int, and of str
        The nodes and names of the clients, in the order of the ``partition-id`` that they report:
        their ids are 0, 1, ...
    refused : dict of int to str
        The nodes that were turned away, and what they reported.
    missing : set of int
        The nodes that had no readable reply when they were last polled.
    silent : set of int
        The nodes that have missed a deadline and are not waited for until they reply.

    Raises
    ------
    TimeoutError
        If too few clients come or say who they are.
    ValueError
        If an argument is not of the kind that is described here.

    Examples
    --------
    The main function of a server, which `on_engine` or a ServerApp calls:

    >>> import fgmp
    >>> from fgmp.flower import OverFlower
    >>> def main(grid):
    ...     transport = OverFlower(grid, fgmp.SquaredLoss(), n_clients=3)
    ...     return fgmp.simulate(fgmp.FedGradMP(sparsity=1), transport, rounds=5)
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
        check_loss("loss", loss)
        self.grid = grid
        self.settings = _settings_json({} if settings is None else settings)
        self.deadline = check_number("deadline", deadline, above=0)
        # What weights are made of, which a client checks: see `mask_purpose`.
        self.weighting = check_option("weights", weights, ("rows", "equal"))
        self.kinds = tuple(kinds)
        check_integer("n_clients", n_clients)
        check_integer("most_rows", most_rows)
        check_number("wait_for", wait_for, at_least=0)

        self._mailbox = Mailbox(grid)
        self.missing = self._mailbox.missing  # sets that the mailbox changes in place
        self.silent = self._mailbox.silent
        self._meeting = Meeting(self._ask_together)
        self._run: dict[str, str] = {}  # of the method: what the first question of a run brings
        self._arrays: Mapping[str, Array] = {}
        self._knows_run: set[int] = set()  # indices of the clients that have received it

        nodes = self._wait_for_nodes(n_clients, wait_for)
        reports = self._reports(nodes, loss, max(wait_for, self.deadline))
        self._admit(reports, loss, n_clients, most_rows)

    def _wait_for_nodes(self, n_clients: int, wait_for: float) -> list[int]:
        """Return the nodes of the grid once there are enough."""
        ends = time.monotonic() + wait_for
        while True:
            nodes = sorted(self.grid.get_node_ids())
            if len(nodes) >= n_clients:
                return nodes
            if time.monotonic() >= ends:
                raise TimeoutError(
                    f"{len(nodes)} clients came in {wait_for:g} seconds; expected {n_clients}"
                )
            time.sleep(_PAUSE)

    def _reports(self, nodes: Iterable[int], loss: Loss, deadline: float) -> dict[int, Fields]:
        """Ask nodes who they are, and return what each reports."""
        question = {
            "ask": "who",
            "loss": to_json(loss, self.kinds)[0],
            "settings": self.settings,
        }
        contents = dict.fromkeys(nodes, content_of(question))
        replies = self._mailbox.poll(_MESSAGE_TYPES["who"], contents, deadline, _BYTES_OF_WORDS)
        return {node: reply.fields for node, reply in replies.items()}

    def _admit(
        self, reports: Mapping[int, Fields], loss: Loss, n_clients: int, most_rows: int
    ) -> None:
        """Take the clients whose reports fit, in their order, and turn the others away."""
        nodes = [node for node, report in reports.items() if _is_possible(report, most_rows)]
        n_features = _most_common([reports[node]["features"] for node in nodes])
        nodes = [node for node in nodes if reports[node]["features"] == n_features]
        self.nodes = sorted(nodes, key=lambda node: _place_of(reports[node], node))
        self.reports = [_without_false_key(reports[node]) for node in self.nodes]
        self.refused = {
            node: short_repr(fields.get("words", dict(fields)))
            for node, fields in reports.items()
            if node not in self.nodes
        }
        if self.refused:
            warn_user(
                f"clients turned away, and what they said: {self.refused}; expected 1 to "
                f"{most_rows} rows, and {n_features} features as others have"
            )
        if len(nodes) < n_clients:
            raise TimeoutError(
                f"{len(nodes)} clients said who they are; expected {n_clients}: {self.refused}"
            )

        self.names = _distinct_names([report.get("name", "") for report in self.reports])
        n_rows = tuple(report["rows"] for report in self.reports)
        # The weight of each client as a count, within a total that clients check, too.
        self.weight_counts = np.array(n_rows if self.weighting == "rows" else [1] * len(nodes))
        self.info = ProblemInfo(
            n_features=n_features,
            loss=loss,
            n_rows=n_rows,
            client_ids=tuple(range(len(nodes))),
            weights=self.weight_counts / self.weight_counts.sum(),
            dtype=np.result_type(*(report["dtype"] for report in self.reports)),
        )
        self.weights = self.info.weights

    def with_settings(self, settings: Mapping[str, Any], **of_info: Any) -> Self:
        """Return the same clients with some other settings, and fields of `info` that these change.

        No client is asked again who it is.
        """
        other = copy.copy(self)
        other.settings = _settings_json(json.loads(self.settings) | dict(settings))
        other.info = replace(self.info, **of_info)
        other.weights = other.info.weights
        return other

    def for_method(self, method: Method) -> Self:
        """Return the transport for a method, which goes with the first question to each client."""
        text, arrays = to_json(method, self.kinds)
        run = {
            "method": text,
            "loss": to_json(self.info.loss, self.kinds)[0],
            "settings": self.settings,
            "dtype": self.info.dtype.name,
        }
        run["run"] = hashlib.sha256(json.dumps(run).encode()).hexdigest()[:16]

        other = copy.copy(self)
        other._run = run
        other._arrays = arrays
        other._knows_run = set()
        n_atoms = method.dictionary.n_atoms(self.info.n_features)
        other.info = replace(self.info, n_features=n_atoms)
        return other

    def identity(self) -> dict[str, Any]:
        """Return the shape and the settings: a server knows no data."""
        return {"info": self.info, "settings": self.settings}

    def run_clients(
        self, call: Call, message: Message, cohort: IndexArray
    ) -> list[Array | SparseModel | Rejected]:
        """Run an exchange at the clients of a cohort, and return what arrives, in their order."""
        replies = self.ask_each(call, message, dict.fromkeys(cohort.tolist(), {}))
        shape = call.update_spec.shape

        def parse(reply: Reply) -> Array | SparseModel:
            return from_wire(reply.arrays, shape, only=True)

        return [parse_reply(reply, parse) for reply in replies.values()]

    def objectives(
        self, x: Array | SparseModel, indices: IndexArray | None = None
    ) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report an objective, and the objectives.

        Finite numbers of at least zero count. If no client has one, infinite numbers and nan do:
        the model has diverged.
        """
        polled = np.arange(len(self.nodes)) if indices is None else indices
        replies = self.ask_each(None, x, dict.fromkeys(polled.tolist(), {}))
        values = np.array([_objective_in(replies[index]) for index in polled.tolist()])
        is_reported = np.isfinite(values) & (values >= 0)
        if not is_reported.any():
            is_reported = ~(values < 0)
        return polled[is_reported], values[is_reported]

    def masked_sum(
        self,
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        weights: Array,
        secure: SecureSum,
        alter_upload: AlterUpload | None = None,
    ) -> MaskedSum:
        """Return the masked sum of a cohort's updates, or objectives, times the clients' weights.

        Parameters
        ----------
        call : Call or None
            The exchange; None for objectives.
        message : Message
        cohort : ndarray of int
        weights : ndarray of float, shape (cohort_size,)
        secure : SecureSum
            The resolution, the threshold, and the ledger of sums that were opened before.
        alter_upload : callable (position, upload) -> upload, optional
            Returns what arrives of an upload, for fault injection.
        """
        if secure.sessions is not None:
            said = {index: self.reports[index].get("public_key") for index in cohort.tolist()}
            secure.sessions.public_keys |= {index: key for index, key in said.items() if key}
        return SecureSession(self, call, message, cohort, weights, secure, alter_upload).run()

    def ask_each(
        self, call: Call | None, message: Message | None, questions: Mapping[int, Fields]
    ) -> dict[int, Reply]:
        """Send a question to clients, and return their replies, as `AskingTransport` says.

        It travels with the questions of all other tasks that run `together`.
        """
        return self._meeting.ask(_Asked(self, call, message, questions))

    def together(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return what tasks return, whose questions travel in the same messages."""
        return self._meeting.together(tasks)

    def _ask_together(self, asked: Sequence[_Asked]) -> list[dict[int, Reply]]:
        """Send several questions to clients in one message to each, and return the replies."""
        replies: list[dict[int, Reply]] = [{} for _ in asked]
        indices = [list(one.questions) for one in asked]
        # A node that was restarted knows nothing of the runs: it receives them again, once.
        for _ in range(2):
            polled = self._poll_together(asked, indices)
            indices = []
            for one, of_one, arrived in zip(asked, replies, polled, strict=True):
                of_one |= arrived
                unknown = [index for index, reply in arrived.items() if reply.is_of_unknown_run]
                transport = one.transport
                transport._knows_run = (transport._knows_run | set(arrived)) - set(unknown)
                indices.append(unknown)
            if not any(indices):
                break
        return replies

    def _poll_together(
        self, asked: Sequence[_Asked], indices: Sequence[Sequence[int]]
    ) -> list[dict[int, Reply]]:
        """Send questions to some of their clients, and return the reply to each of them."""
        # Of each node: the numbers of questions, and which client it is in each.
        parts: dict[int, list[tuple[int, int]]] = {}
        for number, of_question in enumerate(indices):
            for index in of_question:
                node = asked[number].transport.nodes[index]
                parts.setdefault(node, []).append((number, index))
        contents = {
            node: content_of_parts([asked[number].content(index) for number, index in of])
            for node, of in parts.items()
        }
        kinds = {_MESSAGE_TYPES[one.ask] for one in asked}
        kind = kinds.pop() if len(kinds) == 1 else _MESSAGE_TYPES["answer"]
        most_bytes = sum(one.most_bytes for one in asked)
        arrived = self._mailbox.poll(kind, contents, self.deadline, most_bytes)
        replies: dict[tuple[int, int], Reply] = {}
        for node, of in parts.items():
            replies |= zip(of, arrived[node].to_each(len(of)), strict=True)
        return [
            {index: replies[number, index] for index in of_question}
            for number, of_question in enumerate(indices)
        ]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question to clients: their updates in an exchange, their objectives, or a trip of a sum.

    Attributes
    ----------
    transport : OverFlower
        Prepared for a method.
    call, message, questions
        As of `AskingTransport.ask_each`.
    """

    transport: OverFlower
    call: Call | None
    message: Message | None
    questions: Mapping[int, Fields]

    @property
    def most_bytes(self) -> int:
        """The most bytes of a reply."""
        n_numbers = 1 if self.call is None else self.call.update_spec.length
        return _BYTES_OF_WORDS + _BYTES_OF_ENTRY * n_numbers + _BYTES_OF_SHARE * len(self.questions)

    @property
    def ask(self) -> str:
        """What is asked, in a word."""
        return "objective" if self.call is None else "answer"

    @cached_property
    def _arrays(self) -> Mapping[str, Array]:
        """The message as arrays."""
        return {} if self.message is None else to_wire(self.message)

    def content(self, index: int) -> Any:
        """Return the content for one client, with the run if the client does not know it."""
        transport = self.transport
        fields = {"ask": self.ask, "run": transport._run["run"], "key": index}
        if self.call is not None:
            fields |= {
                "seed": str(self.call.streams.seed),
                "round": self.call.round,
                "exchange": self.call.exchange_index,
                "is_short": self.call.is_short,
            }
        fields |= self.questions[index]
        if index in transport._knows_run:
            return content_of(fields, message=self._arrays)
        fields |= transport._run
        return content_of(fields, message=self._arrays, arrays=transport._arrays)


def _is_possible(report: Fields, most_rows: int) -> bool:
    """Return whether a client can have the numbers that it reports of itself."""
    n_rows = report.get("rows")
    n_features = report.get("features")
    # `type(...) is int`, because True is an int, too.
    has_rows = type(n_rows) is int and 1 <= n_rows <= most_rows
    has_features = type(n_features) is int and n_features >= 1
    return has_rows and has_features and report.get("dtype") in ("float32", "float64")


def key_in(report: Fields) -> int | None:
    """Return the ``partition-id`` that a client reports, if that is a number."""
    key = report.get("key")
    return key if type(key) is int else None


def _place_of(report: Fields, node: int) -> tuple[bool, int, int]:
    """Return what clients are sorted by: those that report no key are behind the others."""
    key = key_in(report)
    return key is None, key or 0, node


def _without_false_key(report: Fields) -> Fields:
    """Return what a client reports of itself, without what is no public key."""
    if is_public_key(report.get("public_key")):
        return report
    return {name: value for name, value in report.items() if name != "public_key"}


def _most_common(numbers: Sequence[int]) -> int:
    """Return the most common number, the smallest of several; 0 if there is none."""
    return max(sorted(set(numbers)), key=numbers.count, default=0)


def _distinct_names(reported: Iterable[Any]) -> list[str]:
    """Return a printable name for each client, by its index if it reports none, and none twice."""
    names: list[str] = []
    for index, words in enumerate(reported):
        name = printable(str(words))[:_LONGEST_NAME] or f"client {index}"
        names.append(f"{name} ({index})" if name in names else name)
    return names


def _objective_in(reply: Reply) -> float:
    """Return the objective in a reply, or -1, which no loss has, if there is none."""
    value = reply.fields.get("objective")
    return value if type(value) is float else -1.0


def _settings_json(settings: Any) -> str:
    """Return settings as JSON, or raise a ValueError."""
    try:
        return json.dumps(dict(settings), default=lambda array: array.tolist())
    except (TypeError, ValueError, AttributeError):
        raise ValueError(
            f"settings is {short_repr(settings)}; expected a mapping that JSON holds"
        ) from None
