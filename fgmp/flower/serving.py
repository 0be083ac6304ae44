"""A ServerApp and a ClientApp for any method; Flower finds an app that is assigned at the top of a module, alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..losses import Loss
from ..methods.contract import Method
from ..running.loop import federate
from ..running.results import Result
from .client import Load, reply_to
from .grid import OverFlower

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

__all__ = ["check_flower", "client_app", "server_app"]


def server_app(
    method: Method,
    loss: Loss,
    rounds: int,
    n_clients: int,
    *,
    finished: Callable[[Result, Context], None],
    over: Mapping[str, Any] | None = None,
    **options: Any,
) -> ServerApp:
    """The server's half: it knows the method and a seed, and no data.

    Parameters
    ----------
    method : Method
        Any of fgmp; the client builds it of the JSON that the server sends.
    loss : Loss
        Of every client.
    rounds : int
    n_clients : int
        How many have to be there to begin.
    finished : callable (Result, Context) -> None
        What the server does with the result.
    over : mapping, optional
        More of `OverFlower`: settings, wait_for, deadline, weights, most_rows.
    **options
        As in `fgmp.federate`: cohort_size, rng, record_every, checkpoint, ...

    Raises
    ------
    ImportError
        Where Flower is not installed.
    """
    check_flower()
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator, unused-ignore]
    def main(grid: Grid, context: Context) -> None:
        transport = OverFlower(grid, loss, n_clients, **(over or {}))
        finished(federate(method, transport, rounds, **options), context)

    return app


def client_app(
    load: Load, keep: str | os.PathLike[str] | None = None, *, mods: Sequence[Any] = (), kinds: Iterable[type] = ()
) -> ClientApp:
    """The client's half: it knows its rows, and learns the rest from the server.

    Parameters
    ----------
    load : callable (context, settings) -> (features, targets)
        Reads a client's own rows, at the client. Of a node's configuration, ``partition-id`` is its key.
    keep : path-like, optional
        A folder of the client's own, where what was made of its rows stays between messages: Flower's deployment engine
        starts a process for each. Files of an ended run may be removed at any time.
    mods : sequence of callable, optional
        Flower's mods, around every message.
    kinds : iterable of type
        Dataclasses of your own that methods are made of: nothing else is made of what a server sends.

    Raises
    ------
    ImportError
        Where Flower is not installed.

    Notes
    -----
    What goes wrong at a client may quote its rows. The server is told the kind of the error; its words go to the log
    ``fgmp.flower`` of the client.
    """
    check_flower()
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    def reply(message: Message, context: Context) -> Message:
        try:
            return FlowerMessage(reply_to(message, context, load, keep, kinds), reply_to=message)
        except Exception as error:
            logging.getLogger("fgmp.flower").exception("no reply to a question of the server")
            raised = f"{type(error).__name__} at the client; its log says more"
        raise RuntimeError(raised)  # here, so that it has no context

    for register in (app.query, app.train, app.evaluate):
        register()(reply)
    return app


def check_flower() -> None:
    """Raise an ImportError that says what to install, where Flower is not there."""
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise ImportError('federation on Flower needs flwr: pip install "fgmp[flower]"') from None
