"""The client's side of a run over Flower.

A client answers four kinds of questions: who it is, an exchange of a method, its objective, and a
trip of a secure sum (`fgmp.privacy.masking`). The method, the loss and the settings come once in a
run and stay in the run's state at the node, where a separate process for each message finds them
again. Rows do not stay: they are read for each question that needs them, and released once it is
answered, whatever process answers it and however the run ends. Several questions may come in one
message, of several methods. A run that a message does not name is over, and leaves the state.

What a client keeps between the trips of secure sums stays in that state: its key, and the sessions
of sums that it takes part in. It opens its shares once in each, and never both of one client.
Public keys go through the server. A server that follows the protocol learns only the sum, and there
is no defence against one that hands out keys of its own. Nothing under masks is inspected: an
adversarial client that changes its update a little spoils a sum unnoticed, and noise or false
shares bring the total out of range, so that the round is lost and counted. docs/promises.md says
which promise is made to whom, and under which conditions.

=====================================================  =============================================
what leaves a client with ``aggregator=SecureSum()``   who can read it
=====================================================  =============================================
once: number of rows and features, precision, key      the server, which by default weighs by rows
once: its public key, if `cryptography` is installed   the server, and all other clients
its update in an exchange, times its share of weight   nobody: masked, the server learns the sum
its objective at a record, times its share of weight   nobody: masked, the history holds the sum
the length of what is masked                           the server: dense, and alike for all clients
public key, nonces, and shares that open the masks     the server, which opens the masks of the sum
shares of secrets, each made for one sum, encrypted    the one client that each is encrypted for
that it has no update: late, not finite, out of range  the server
levels of categories, if the server names none         the server; not with ``masked_only=True``
the class of an error, whose words stay in its log     the server
=====================================================  =============================================

Nothing else leaves it. A client's share of the weight has to be its own rows (or one) of a total
that the server reports and that goes into the masks: clients that receive other totals have other
masks, and their sum is noise. A client receives the method, settings, seed, models and other sums
over clients, its own share and that total, and the cohort's positions, public keys and encrypted
shares. ``weights="equal"`` makes no use of the number of rows, which is reported all the same. A
client also sends unmasked updates, unless its app is ``client_app(..., masked_only=True)``.
`fgmp.polish` and `fgmp.tune` have no protocol.
"""

import importlib.util
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._support.optional import needs
from ..data import Federation
from ..method import Call, Method, Streams
from ..privacy.secagg_client import TRIPS, KeyPair, SecAggClient
from ..privacy.secure_sums import SecureSum
from ..run.serialization import from_json, from_wire, to_wire
from ..simulation import LocalClients
from ..sparse_model import Array, SparseModel, dense
from ..updates import Rejected
from .records import (
    FLOWER,
    SEVERAL,
    Fields,
    arrays_of,
    content_of,
    content_of_parts,
    fields_of,
    parts_of,
)

Load = Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]
Introduce = Callable[[Any, Mapping[str, Any]], Mapping[str, str]]

# Two computations of the same weight, at the server and at the client, may differ by this share.
_ROUNDING = 1e-9

# What of the first question of a run a client keeps, and where: by the names of runs, and, beside
# its key, of the sessions of secure sums.
_RUN_FIELDS = ("run", "method", "loss", "settings", "dtype")
_RUN = "fgmp.run."
_ARRAYS = "fgmp.arrays."
_SESSION = "fgmp.session."
_KEY = "fgmp.key"


class PublicError(ValueError):
    """An error whose words may go to the server: they quote nothing of the client's data."""


def client_app(
    load: Load,
    *,
    masked_only: bool = False,
    mods: Sequence[Any] = (),
    kinds: Iterable[type] = (),
    introduce: Introduce | None = None,
) -> Any:
    """Return the client's side of a run, a ClientApp.

    The client reads its own rows and learns everything else from the server. Flower finds an app
    that is assigned at the top of a module. An error may quote rows: the server receives only its
    class, and its words go to the client's log ``fgmp.flower``.

    Parameters
    ----------
    load : callable (context, settings) -> (features, targets)
        Reads the client's own rows. In the configuration of its node ``partition-id`` is its key,
        and ``name`` is how the server calls it.
    masked_only : bool, default False
        Whether updates and objectives leave only under masks: a server without `SecureSum` gets
        none.
    mods : sequence of callable, optional
        Flower's mods, around every message.
    kinds : iterable of type
        Your own dataclasses that methods are made of. From what a server sends only these and the
        classes of fgmp are constructed.
    introduce : callable (context, settings) -> mapping of str to str, optional
        What the client says beside its numbers of rows and features, when it is asked who it is.
        With `masked_only` it may say nothing more.

    Raises
    ------
    ImportError
        If Flower is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp.flower import client_app
    >>> def load(context, settings):
    ...     rng = np.random.default_rng(context.node_config["partition-id"])
    ...     X = rng.standard_normal((40, 4))
    ...     return X, 3 * X[:, 2]
    >>> app = client_app(load)  # doctest: +SKIP
    """

    def load_rows(context: Any, settings: Mapping[str, Any], method: Method | None) -> Any:
        return load(context, settings)

    return app_of(Site(load_rows, masked_only, tuple(kinds), introduce), mods)


def app_of(site: "Site", mods: Sequence[Any]) -> Any:
    """Return the ClientApp whose replies are the answers of a client, with Flower's mods."""
    with needs("federation on Flower", FLOWER):
        from flwr.app import Message as FlowerMessage
        from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    def reply(message: Any, context: Any) -> Any:
        try:
            return FlowerMessage(site.answer(message.content, context), reply_to=message)
        except Exception as error:
            logging.getLogger("fgmp.flower").exception("no reply to a question of the server")
            words = f"{error}; " if isinstance(error, PublicError) else ""
            reported = f"{type(error).__name__} at the client; {words}its log says more"
        # Raised outside of the `except`, so that the error has no context to quote rows from.
        raise RuntimeError(reported)

    for register in (app.query, app.train, app.evaluate):
        register()(reply)
    return app


class _Computed(NamedTuple):
    """An update, or an objective as an array of one number, and how many rows it is of."""

    result: Array | SparseModel | Rejected
    n_rows: int


@dataclass(frozen=True)
class Site:
    """How a client answers: from rows that it reads, and with what the run's state holds.

    Attributes
    ----------
    load : callable (context, settings, method) -> (features, targets)
        Reads the rows for a question of a method, or, for None, to say who the client is.
    masked_only, kinds, introduce
        As in `client_app`.
    """

    load: Callable[[Any, Mapping[str, Any], Method | None], tuple[Any, Any]]
    masked_only: bool
    kinds: tuple[type, ...]
    introduce: Introduce | None = None

    def answer(self, content: Any, context: Any) -> Any:
        """Return the content of the reply to a question, or to several in one message."""
        questions = [content]
        if fields_of(content)["ask"] == SEVERAL:
            questions = parts_of(content)
        replies = [self._answer(question, context) for question in questions]
        _forget_runs(context, {fields_of(question).get("run") for question in questions})
        return content_of_parts(replies)

    def _answer(self, content: Any, context: Any) -> Any:
        """Return the content of the reply to one question."""
        question = fields_of(content)
        if question["ask"] == "who":
            return self._introduction(question, context)
        if self.masked_only and "trip" not in question:
            raise PermissionError(
                "the server asks in the open; this client answers under masks only"
            )

        if "method" in question:  # the first question of a run brings the run
            run = {name: question[name] for name in _RUN_FIELDS}
            context.state[_RUN + run["run"]] = content_of(run)["fgmp"]
            context.state[_ARRAYS + run["run"]] = content["arrays"]
        if _RUN + question["run"] not in context.state:
            return content_of({"unknown": question["run"]})

        if "trip" in question:
            return self._trip_reply(question, content, context)
        result = self._compute(question, content, context).result
        if isinstance(result, Rejected):
            return content_of({"refused": result.reason})
        if question["ask"] == "objective":
            return content_of({"objective": float(dense(result)[0])})
        return content_of({}, message=to_wire(result))

    def _introduction(self, question: Fields, context: Any) -> Any:
        """Say who this client is."""
        rows = self._rows(question, context, None)
        fields: dict[str, Any] = {
            "rows": len(rows.targets),
            "features": rows.n_features,
            "dtype": rows.dtype.name,
        }
        config = context.node_config
        for field, name in (("key", "partition-id"), ("name", "name")):
            if name in config:
                fields[field] = config[name]
        if importlib.util.find_spec("cryptography") is not None:
            keys = _key_pair(context)
            context.state[_KEY] = content_of({"key": keys.seed})["fgmp"]
            fields["public_key"] = keys.public
        if self.introduce is not None:
            more = self.introduce(context, json.loads(question["settings"]))
            if more and self.masked_only:
                raise PermissionError(
                    f"the server asks for {sorted(more)} in the open; this client answers under "
                    "masks only"
                )
            fields |= more
        return content_of(fields)

    def _compute(self, question: Fields, content: Any, context: Any) -> _Computed:
        """Compute the update of an exchange, or the objective."""
        method, client = self._prepare(context, question["run"], int(question["key"]))
        message = from_wire(arrays_of(content["message"]), client.info.model_shape)
        n_rows = client.info.n_rows[0]
        # A method may diverge: the server rejects an update that is not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            if question["ask"] == "objective":
                return _Computed(client.objectives(message)[1], n_rows)
            call = _call_of(question, method)
            return _Computed(client.run_clients(call, message, np.array([0]))[0], n_rows)

    def _prepare(self, context: Any, name: str, client_id: int) -> tuple[Method, LocalClients]:
        """Return the method of a run, and the transport to this client alone for it."""
        run = dict(context.state[_RUN + name])
        arrays = arrays_of(context.state[_ARRAYS + name])
        method: Method = from_json(run["method"], arrays, self.kinds)
        rows = self._rows(run, context, method)
        targets = rows.targets
        if targets.dtype.kind == "f":
            targets = targets.astype(run["dtype"], copy=False)
        client = replace(
            rows,
            features=rows.features.astype(run["dtype"], copy=False),
            targets=targets,
            client_ids=np.array([client_id]),
        )
        return method, LocalClients(client).for_method(method)

    def _rows(self, fields: Fields, context: Any, method: Method | None) -> Federation:
        """Read the rows, with the settings and the loss that the server has sent."""
        features, targets = self.load(context, json.loads(fields["settings"]), method)
        loss = from_json(fields["loss"], kinds=self.kinds)
        return Federation.from_arrays([features], [targets], loss)

    def _trip_reply(self, question: Fields, content: Any, context: Any) -> Any:
        """Take part in a trip of a secure sum, and keep what the next one needs in the state."""
        trip = question["trip"]
        arguments = {name: question[name] for name in TRIPS[trip]}
        client = _secure_client(question, context)
        if trip == "share_keys":
            _check_threshold(arguments["positions"], int(arguments["threshold"]))
        if trip == "masked_input":
            computed = self._compute(question, content, context)
            senders = arguments["senders"] or client.kept["senders"]
            client.vector = _encode(computed, question, n_clients=len(senders))
            if client.vector is None:
                return content_of({"refused": "not_finite"})

        reply = getattr(client, trip)(**arguments)
        context.state[_KEY] = content_of({"key": client.keys.seed})["fgmp"]
        context.state[_SESSION + question["session"]] = content_of(client.kept)["fgmp"]
        if trip != "masked_input":
            return content_of({"texts": reply})
        vector, unopened = reply
        return content_of({"unopened": unopened} if unopened else {}, message={"masked": vector})


def _forget_runs(context: Any, named: set[Any]) -> None:
    """Forget the runs that a message does not name, because they are over."""
    for name in list(context.state):
        kind = next((kind for kind in (_RUN, _ARRAYS) if name.startswith(kind)), None)
        if kind is not None and name.removeprefix(kind) not in named:
            del context.state[name]


def _call_of(question: Fields, method: Method) -> Call:
    """Return the exchange that a question is about."""
    index = int(question["exchange"])
    return Call(
        exchange=method.exchanges()[index],
        update_spec=None,  # type: ignore[arg-type]  # the server checks updates
        exchange_index=index,
        round=int(question["round"]),
        streams=Streams(int(question["seed"])),
        is_short=bool(question["is_short"]),
    )


def _secure_client(question: Fields, context: Any) -> SecAggClient:
    """Return this client in a secure sum: in a new session, or in the one of the trips before.

    Its key lasts as long as the run's state at its node.
    """
    keys = _key_pair(context)
    purpose = mask_purpose(question["by"], int(question["total"]))
    if question["trip"] == "advertise_keys":
        return SecAggClient(int(question["position"]), keys, about=purpose)
    kept = dict(context.state.config_records.get(_SESSION + question["session"], {}))
    if "public_keys" in question:
        client = SecAggClient(int(question["position"]), keys, kept=kept, about=purpose)
        client.agree(question["session"], question["public_keys"])
        return client
    if not kept:
        raise ValueError("session is one that this client has no part in")
    return SecAggClient(kept["position"], keys, kept=kept, about=purpose)


def _key_pair(context: Any) -> KeyPair:
    """Return this client's key pair: that in the run's state, or a new one."""
    return KeyPair(context.state.config_records.get(_KEY, {}).get("key"))


def _check_threshold(positions: Sequence[int], threshold: int) -> None:
    """Raise a ValueError unless more than half of the clients, at least two, can open a sum.

    With half of them a server could ask two halves for different sums.
    """
    n_clients = len(set(positions))
    is_repeated = n_clients < len(positions)
    if is_repeated or n_clients < 2 or not n_clients / 2 < threshold <= n_clients:
        raise ValueError(
            f"threshold is {threshold} of {positions}; expected more than half, of two at least"
        )


def _encode(computed: _Computed, question: Fields, n_clients: int) -> Array | None:
    """Return a weighted result as integers; None if there is none, or if it is out of range."""
    secure = SecureSum(float(question["resolution"]))
    weight = _checked_weight(question, computed.n_rows, n_clients)
    if isinstance(computed.result, Rejected):
        return None
    values = dense(computed.result).reshape(-1)
    is_in_range = np.abs(values).max(initial=0) <= secure.range  # False for nan
    return secure.encoded(values, weight) if is_in_range else None


def _checked_weight(question: Fields, n_rows: int, n_clients: int) -> float:
    """Return the weight that the server reports if it is this client's own share of the total.

    A client knows its rows only. It takes no part in a sum over several clients in which it would
    have all of the weight, or none: the sum would be its own update, or that of another.

    Raises
    ------
    ValueError
        If the weight is another.
    """
    weight = float(question["weight"])
    total = int(question["total"])
    own = {"rows": n_rows, "equal": 1}[question["by"]]
    is_room_for_others = total >= own + n_clients - 1
    if not is_room_for_others or not abs(weight * total - own) <= _ROUNDING * own:
        raise ValueError(
            f"weight is {weight:g}; expected {own} of a total of {total}, "
            "and one at least of each other"
        )
    return weight


def mask_purpose(weighting: str, total: int) -> bytes:
    """Return the bytes that masks are agreed on for.

    They hold what weights are made of, ``"rows"`` or ``"equal"``, and the total in the cohort: the
    masks of clients that received another total do not cancel.
    """
    return b" %s %d" % (weighting.encode(), total)
