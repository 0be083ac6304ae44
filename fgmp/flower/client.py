"""What a client does with a question: it reads its own rows, and says who it is, an answer, or an objective.

The method, the loss and the settings come once in a run and stay in the run's state of the node, where a process of its
own for each message finds them again. Rows do not stay: they are read for each question that needs them, and gone once
it is answered, whatever process answers it and however the run ends.

Under masks a question is a trip of `fgmp.privacy.masking`, and what a client keeps between trips stays in that state.
It opens its shares once, and never both of one client. Public keys go through the server: one that follows the protocol
learns the sum only; one that hands out its own is not defended against. Nobody looks under masks: a client that lies by
a little spoils a sum unseen; noise, or false shares, bring the total out of range, and all is left out and counted.
Who is promised what, and unless: docs/promises.md.

=====================================================  =======================================================
what leaves a client with ``aggregator=SecureSum()``       who can read it
=====================================================  =======================================================
once: number of rows, of features, precision, key      the server, which makes weights of the rows by default
its answer to an exchange, times its weight's share    nobody: under masks; the server learns the cohort's sum
its objective at a record, times its share             nobody: under masks; the history holds the sum
the length of what is under masks                      the server: dense, and alike for all clients
public keys, and the shares that open the masks        the server, which opens the masks of the sum alone
shares of its own two secrets, sealed                  the one client that a letter is for
that it has no answer: late, not finite, out of range  the server
the class of an error, whose words stay in its log     the server
=====================================================  =======================================================

Nothing else does. A client's share of the weight has to be its own rows (or one) of a total that the server says and
that goes into the masks: who are told other totals have other masks, and their sum is noise. To a client go the method,
settings, seed, models and other sums over clients, its own share and that total, and the cohort's places, public keys
and letters. `weights="equal"` makes no use of the rows, which are said all the same. A client answers in the open too,
unless its app is ``client_app(..., masked_only=True)``. `fgmp.polish` and `fgmp.tune` have no protocol. Who sees what,
and unless, stands in docs/promises.md.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..aggregation import Rejected
from ..federation import Federation
from ..privacy.masking import TRIPS, SecAggClient
from ..privacy.secure_sums import SecureSum
from ..rounds import Call, Method, Streams
from ..serialization import from_json, from_wire, to_wire
from ..sparse_model import dense
from .records import arrays_of, content_of, said_in

Load = Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]
_ROUNDING = 1e-9  # by which two computations of a weight may differ


class Sayable(ValueError):
    """An error whose words may go to the server: they quote nothing but what it said itself."""


def client_app(
    load: Load, *, masked_only: bool = False, mods: Sequence[Any] = (), kinds: Iterable[type] = ()
) -> Any:
    """The client's half, a ClientApp: it knows its rows, and learns the rest from the server.

    Flower finds an app that is assigned at the top of a module, alone. What goes wrong may quote rows: the server is
    told the kind of an error, whose words go to the client's log ``fgmp.flower``.

    Parameters
    ----------
    load : callable (context, settings) -> (features, targets)
        Reads a client's own rows, at the client. Of a node's configuration, ``partition-id`` is its key, and ``name``
        what the server calls it.
    masked_only : bool, default False
        Whether answers and objectives leave under masks only: a server that asks not with `SecureSum` gets none.
    mods : sequence of callable, optional
        Flower's mods, around every message.
    kinds : iterable of type
        Dataclasses of your own that methods are made of; of what a server sends nothing is made but these and fgmp's.
    """
    try:
        from flwr.app import Message as FlowerMessage
        from flwr.clientapp import ClientApp
    except ImportError:
        raise ImportError(
            'federation on Flower needs flwr: pip install "flwr[simulation]>=1.41,<1.42"'
        ) from None
    app, kinds = ClientApp(mods=list(mods)), tuple(kinds)

    def reply(message: Any, context: Any) -> Any:
        try:
            return FlowerMessage(
                _reply_to(message.content, context, load, masked_only, kinds), reply_to=message
            )
        except Exception as error:
            logging.getLogger("fgmp.flower").exception("no reply to a question of the server")
            words = (
                f"{error}; its log says more" if isinstance(error, Sayable) else "its log says more"
            )
            raised = f"{type(error).__name__} at the client; {words}"
        raise RuntimeError(raised)  # here, so that it has no context

    for register in (app.query, app.train, app.evaluate):
        register()(reply)
    return app


def _reply_to(
    content: Any, context: Any, load: Load, masked_only: bool, kinds: Iterable[type]
) -> Any:
    """The content of the reply to a question: ``who``, ``answer``, ``objective``, or a ``trip`` of a secure sum."""
    asked: Mapping[str, Any] = said_in(content)
    if asked["ask"] == "who":
        rows, config = _rows(load, context, asked, kinds), context.node_config
        who = {"rows": len(rows.targets), "features": rows.n_features, "dtype": rows.dtype.name}
        named = {"key": "partition-id", "name": "name"}
        return content_of(who | {name: config[own] for name, own in named.items() if own in config})
    if masked_only and "trip" not in asked:
        raise PermissionError("the server asks in the open; this client answers under masks only")
    if "method" in asked:
        said = {name: asked[name] for name in ("run", "method", "loss", "settings", "dtype")}
        context.state["fgmp"], context.state["arrays"] = content_of(said)["fgmp"], content["arrays"]
    if said_in(context.state).get("run") != asked["run"]:
        return content_of({"unknown": asked["run"]})

    def found() -> tuple[Any, int]:
        """The answer, and of how many rows it is."""
        method, mine = _serving(load, context, int(asked["key"]), kinds)
        received = from_wire(arrays_of(content["message"]), mine.model_shape)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a method may diverge; the server leaves its answer out
            if asked["ask"] == "objective":
                return mine.objectives(received)[1], mine.shape.rows[0]
            index, streams, form = (
                int(asked["exchange"]),
                Streams(int(asked["seed"])),
                None,
            )  # which a server knows
            call = Call(method.exchanges()[index], form, index, int(asked["round"]), streams)  # type: ignore[arg-type]
            return mine.run_clients(call, received, np.array([0]))[0], mine.shape.rows[0]

    if "trip" in asked:
        return _reply_to_trip(asked, context, found)
    answer, _ = found()
    if asked["ask"] == "objective":
        return content_of({"objective": float(answer[0])})
    if isinstance(answer, Rejected):
        return content_of({"refused": answer.reason})
    return content_of({}, message=to_wire(answer))


def _reply_to_trip(asked: Any, context: Any, answer: Callable[[], tuple[Any, int]]) -> Any:
    """What a client replies in one of the trips; what it keeps for the next is in the state of the run."""
    trip, told = asked["trip"], {name: asked[name] for name in TRIPS[asked["trip"]]}
    kept: dict[str, Any] = {"session": asked["session"], "place": int(asked["place"])}
    if trip != "public":
        kept = dict(context.state.config_records.get("fgmp.secure", {}))
    if kept.get("session") != asked["session"]:
        raise ValueError("session is one that this client has no part in")
    member = SecAggClient(kept["place"], kept=kept, about=about(asked["by"], int(asked["total"])))
    if trip == "split":
        size, least = len(set(told["places"])), int(told["threshold"])
        if size < len(told["places"]) or size < 2 or not size / 2 < least <= size:
            raise ValueError(
                f"threshold is {least} of {told['places']}; expected more than half, of two at least"
            )
    if trip == "masked":
        secure, (found, n_rows) = SecureSum(float(asked["resolution"])), answer()
        weight = _own_weight(asked, n_rows, len(told["split"]))
        row = np.full(1, np.nan) if isinstance(found, Rejected) else dense(found).reshape(-1)
        if not np.abs(row).max(initial=0) <= secure.range:
            return content_of({"refused": "not_finite"})
        member.vector = secure.encoded(row, weight)
    reply = getattr(member, trip)(**told)
    context.state["fgmp.secure"] = content_of(member.kept)["fgmp"]
    if trip == "masked":
        vector, unopened = reply
        return content_of({"unopened": unopened} if unopened else {}, message={"masked": vector})
    return content_of({"texts": reply})


def _own_weight(asked: Mapping[str, Any], n_rows: int, n_clients: int) -> float:
    """The weight that the server says, where it is this client's share of the total; a ValueError where it is not.

    What a client knows are its rows. Who would weigh all there is, or nothing, takes no part in a sum over several: the
    sum would be its answer, or that of another.
    """
    weight, total = float(asked["weight"]), int(asked["total"])
    own = {"rows": n_rows, "equal": 1}[asked["by"]]
    if total < own + n_clients - 1 or not abs(weight * total - own) <= _ROUNDING * own:
        raise ValueError(
            f"weight is {weight:g}; expected {own} of a total of {total}, and one at least of each other"
        )
    return weight


def about(by: str, total: int) -> bytes:
    """What masks are agreed on for: what weights are made of, and their total in the cohort."""
    return b" %s %d" % (by.encode(), total)


def _serving(
    load: Load, context: Any, key: int, kinds: Iterable[type]
) -> tuple[Method, Federation]:
    """The method of the run, and a federation of this one client in its precision and the method's coordinates."""
    told: Mapping[str, Any] = said_in(context.state)
    method = from_json(told["method"], arrays_of(context.state["arrays"]), kinds)
    rows, dtype = _rows(load, context, told, kinds), told["dtype"]
    targets = (
        rows.targets.astype(dtype, copy=False) if rows.targets.dtype.kind == "f" else rows.targets
    )
    mine = replace(
        rows,
        features=rows.features.astype(dtype, copy=False),
        targets=targets,
        client_ids=np.array([key]),
    )
    return method, mine.prepare(method)


def _rows(load: Load, context: Any, said: Mapping[str, Any], kinds: Iterable[type]) -> Federation:
    features, targets = load(context, json.loads(said["settings"]))
    return Federation.from_arrays([features], [targets], from_json(said["loss"], kinds=kinds))
