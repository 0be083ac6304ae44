"""What a client does with a question: it reads its own rows, and says who it is, an answer, or an objective.

The method, the loss and the settings come once in a run and stay in the run's state of the node, where a process of its
own for each message finds them again. What was made of the rows stays in the process.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..federation import Federation
from ..methods.method_json import from_json
from ..rounds import Call, Method, Missing, Streams
from ..wire import from_wire, to_wire
from .records import arrays_of, content_of, said_in
from .secure import reply_to_trip

__all__ = ["client_app"]

Load = Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]

_kept: dict[tuple[Any, ...], tuple[str, Federation]] = {}  # of each node what it did last


def client_app(load: Load, *, masked_only: bool = False, mods: Sequence[Any] = (), kinds: Iterable[type] = ()) -> Any:
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
        Dataclasses of your own that methods are made of: nothing else is made of what a server sends.
    """
    try:
        from flwr.app import Message as FlowerMessage
        from flwr.clientapp import ClientApp
    except ImportError:
        raise ImportError('federation on Flower needs flwr: pip install "fgmp[flower]"') from None
    app = ClientApp(mods=list(mods))

    def reply(message: Any, context: Any) -> Any:
        try:
            return FlowerMessage(_reply_to(message, context, load, masked_only, kinds), reply_to=message)
        except Exception as error:
            logging.getLogger("fgmp.flower").exception("no reply to a question of the server")
            raised = f"{type(error).__name__} at the client; its log says more"
        raise RuntimeError(raised)  # here, so that it has no context

    for register in (app.query, app.train, app.evaluate):
        register()(reply)
    return app


def _reply_to(message: Any, context: Any, load: Load, masked_only: bool, kinds: Iterable[type]) -> Any:
    """The content of the reply to a question: ``who``, ``answer``, ``objective``, or a ``trip`` of a secure sum."""
    asked = said_in(message.content)
    question = str(asked["ask"])
    if question == "who":
        rows = _loaded(context, load, asked)
        who: dict[str, Any] = {"rows": len(rows.targets), "features": rows.n_features, "dtype": rows.dtype.name}
        said = {"key": (context.node_config.get("partition-id"), int), "name": (context.node_config.get("name"), str)}
        return content_of(who | {name: value for name, (value, kind) in said.items() if isinstance(value, kind)})
    if masked_only and "trip" not in asked:
        raise PermissionError("the server asks in the open; this client answers under masks only")
    told = _told(message, context)
    if told is None:
        return content_of({"unknown": str(asked["run"])})
    method = from_json(str(told["method"]), arrays_of(context.state.array_records["fgmp.arrays"]), kinds)
    mine = _serving(context, load, told, method, int(asked["key"]), np.dtype(str(asked["dtype"])))

    def found() -> Any:
        received = from_wire(arrays_of(message.content.array_records["message"]), mine.model_shape)
        with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; the server leaves its answer out
            if question == "objective":
                return mine.objectives(received)[1]
            index, form = int(asked["exchange"]), None  # of the form only the server knows
            streams = Streams(int(str(asked["seed"])))
            call = Call(method.exchanges()[index], form, index, int(asked["round"]), streams)  # type: ignore[arg-type]
            return mine.ask(call, received, np.array([0]))[0]

    if "trip" in asked:
        return reply_to_trip(asked, context, found)
    answer = found()
    if question == "objective":
        return content_of({"objective": float(answer[0])})
    if isinstance(answer, Missing):
        return content_of({"refused": answer.reason})
    return content_of({}, message=to_wire(answer))


def _told(message: Any, context: Any) -> Mapping[str, Any] | None:
    """What the server says of the run, or has said before; None where it has not."""
    asked, state = said_in(message.content), context.state
    if "method" in asked:
        state["fgmp"] = content_of({name: asked[name] for name in ("run", "method", "loss", "settings")})["fgmp"]
        state["fgmp.arrays"] = message.content.array_records["arrays"]
    said = said_in(state)
    return said if said.get("run") == asked["run"] else None


def _serving(
    context: Any, load: Load, told: Mapping[str, Any], method: Method, key: int, dtype: np.dtype[Any]
) -> Federation:
    """A federation of this one client, in the precision of the run and the coordinates of the method."""
    node, name = (context.run_id, context.node_id, key), str(told["run"])
    if node not in _kept or _kept[node][0] != name:
        rows = _loaded(context, load, told)
        targets = rows.targets.astype(dtype, copy=False) if rows.targets.dtype.kind == "f" else rows.targets
        features = rows.features.astype(dtype, copy=False)
        _kept[node] = name, replace(rows, features=features, targets=targets, keys=np.array([key])).serving(method)
    return _kept[node][1]


def _loaded(context: Any, load: Load, said: Mapping[str, Any]) -> Federation:
    features, targets = load(context, json.loads(str(said["settings"])))
    return Federation.from_arrays([features], [targets], from_json(str(said["loss"])))
