"""What a client does with a question: it reads its own rows, and says who it is, an answer, or an objective.

The method, the loss and the settings come once in a run and stay in the run's state of the node, where a process of its
own for each message finds them again. What was made of the rows stays in the process, and where a folder is named, in a
file of the client's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..client import Client
from ..methods.contract import Method
from ..methods.kernels import answer_of
from ..methods.written import from_json
from ..models import Array, SparseModel
from ..models import Message as Arrays
from ..running.randomness import client_generator
from .secure import laid_out, reply_to_trip, start_of
from .wire import array_record, message_of

if TYPE_CHECKING:
    from flwr.app import Context, Message

__all__ = ["Load", "reply_to"]

Load = Callable[["Context", Mapping[str, Any]], tuple[Any, Any]]

_MOST_KEPT = 256
_kept: OrderedDict[tuple[str, ...], Client] = OrderedDict()


@dataclass(frozen=True)
class _Told:
    """What a server has said once: who is who, and what is run."""

    name: str
    method: Method
    loss: Any
    settings: Mapping[str, Any]


def reply_to(
    message: Message,
    context: Context,
    load: Load,
    keep: str | os.PathLike[str] | None = None,
    kinds: Iterable[type] = (),
) -> Any:
    """The content of the reply to a server's question.

    Parameters
    ----------
    message : Message
        Its ConfigRecord ``fgmp`` names the question: ``who``, ``answer`` or ``objective``.
    context : Context
    load : callable (context, settings) -> (features, targets)
        Reads the client's own rows.
    keep : path-like, optional
        A folder of the client's for what was made of them.
    kinds : iterable of type
        Dataclasses of your own that methods are made of.

    Raises
    ------
    ValueError
        Where the question is none, or the rows do not fit the loss: Flower makes an error message of it, without the
        rows.
    """
    from flwr.app import ConfigRecord, RecordDict

    asked = message.content.config_records["fgmp"]
    question = str(asked["ask"])
    if question == "who":
        settings = json.loads(str(asked["settings"]))
        client = _loaded(context, load, settings, from_json(str(asked["loss"])), 0)
        who: dict[str, Any] = {"rows": client.n_samples, "features": client.n_features, "dtype": client.dtype.name}
        key = context.node_config.get("partition-id")
        return RecordDict({"fgmp": ConfigRecord(who | ({"key": key} if isinstance(key, int) else {}))})
    told = _told(message, context, kinds)
    if told is None:
        return RecordDict({"fgmp": ConfigRecord({"unknown": str(asked["run"])})})
    client = _prepared(context, load, told, int(str(asked["key"])), np.dtype(str(asked["dtype"])), keep)
    received = message_of(message.content.array_records["message"])
    with np.errstate(over="ignore", invalid="ignore"):  # a method may diverge; the server leaves its answer out
        if question == "secure":
            found = _objective if asked["exchange"] == "objective" else _laid_out
            return reply_to_trip(asked, context, lambda: found(asked, told.method, client, received))
        if question == "objective":
            value = client.objective(_model(received, client))
            return RecordDict({"fgmp": ConfigRecord({"objective": value})})
        if question != "answer":
            raise ValueError(f"ask is {question!r}; expected 'who', 'answer' or 'objective'")
        return RecordDict({"message": array_record(_answer(asked, told.method, client, received))})


def _answer(asked: Any, method: Method, client: Client, received: Any) -> Arrays:
    number, index = int(str(asked["round"])), int(str(asked["exchange"]))
    exchange = method.exchanges()[index]
    rng = client_generator(int(str(asked["seed"])), number, index, client)
    return answer_of(exchange, client)(client, received, rng)


def _laid_out(asked: Any, method: Method, client: Client, received: Any) -> tuple[Arrays, str]:
    """An answer that may be added up, or why it may not: under masks nobody else can look."""
    answer = _answer(asked, method, client, received)
    if not all(np.isfinite(array).all() for array in answer.values()):
        return {}, "not_finite"
    return laid_out(method.exchanges()[int(str(asked["exchange"]))], start_of(method, client), answer), ""


def _objective(asked: Any, method: Method, client: Client, received: Any) -> tuple[Arrays, str]:
    """As `_laid_out`, of f_i."""
    value = client.objective(_model(received, client))
    return {"objective": np.array([value])}, "" if np.isfinite(value) else "not_finite"


def _told(message: Message, context: Context, kinds: Iterable[type]) -> _Told | None:
    """What the server says of the run, or has said before; None where it has not."""
    from flwr.app import ConfigRecord

    asked, state = message.content.config_records["fgmp"], context.state
    if "method" in asked:
        said = {name: asked[name] for name in ("run", "method", "loss", "settings")}
        state["fgmp"] = ConfigRecord(said)
        state["fgmp.arrays"] = message.content.array_records["arrays"]
    said = dict(state.config_records.get("fgmp", {}))
    if said.get("run") != asked["run"]:
        return None
    arrays = message_of(state.array_records["fgmp.arrays"])
    method, loss = from_json(str(said["method"]), arrays, kinds), from_json(str(said["loss"]))
    return _Told(str(said["run"]), method, loss, json.loads(str(said["settings"])))


def _model(received: Any, client: Client) -> Array | SparseModel:
    if "dense" in received:
        dense: Array = received["dense"]
        return dense
    return SparseModel.from_message(received, client.model_shape)


def _loaded(context: Context, load: Load, settings: Mapping[str, Any], loss: Any, key: int) -> Client:
    named = ("rows", str(context.run_id), str(context.node_id), json.dumps(settings, sort_keys=True), repr(loss))
    client = _remembered(named, lambda: Client(*load(context, settings), loss, key))
    return client if client.key == key else _with(client, key, client.dtype)


def _prepared(
    context: Context, load: Load, told: _Told, key: int, dtype: np.dtype[Any], keep: str | os.PathLike[str] | None
) -> Client:
    """The client in the coordinates of the method: from memory, from its file, or made anew."""
    named = (told.name, str(context.run_id), str(context.node_id), str(key))

    def make() -> Client:
        path = None if keep is None else _path(keep, named)
        if path is not None and path.exists():
            with np.load(path, allow_pickle=False) as kept:
                return Client(kept["features"], kept["targets"], told.loss, key)
        loaded = _loaded(context, load, told.settings, told.loss, key)
        client = told.method.prepare(loaded if loaded.dtype == dtype else _with(loaded, key, dtype))
        if path is not None and isinstance(client.features, np.ndarray):
            _write(path, client)
        return client

    return _remembered(named, make)


def _with(client: Client, key: int, dtype: np.dtype[Any]) -> Client:
    targets = client.targets.astype(dtype, copy=False) if client.targets.dtype.kind == "f" else client.targets
    features = client.features
    features = features.astype(dtype, copy=False) if client.dtype != dtype else features
    return Client(features, targets, client.loss, key)


def _remembered(named: tuple[str, ...], make: Callable[[], Client]) -> Client:
    if named not in _kept:
        _kept[named] = make()
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(named)
    return _kept[named]


def _path(keep: str | os.PathLike[str], named: tuple[str, ...]) -> Path:
    return Path(keep) / f"fgmp-{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]}.npz"


def _write(path: Path, client: Client) -> None:
    """One file for one run, whole or not at all, and nobody else's to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        np.savez(file, features=client.features, targets=client.targets)
    os.replace(partial, path)
