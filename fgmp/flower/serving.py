"""A ServerApp and a ClientApp for any method, on Flower's message API."""

from __future__ import annotations

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

__all__ = ["apps", "check_flower", "client_app", "server_app"]


def apps(
    method: Method,
    load: Load,
    loss: Loss,
    rounds: int,
    n_clients: int,
    *,
    finished: Callable[[Result, Context], None],
    over: Mapping[str, Any] | None = None,
    keep: str | os.PathLike[str] | None = None,
    **options: Any,
) -> tuple[ServerApp, ClientApp]:
    """The two halves of a Flower app that runs a method.

    Parameters
    ----------
    method : Method
        Any of fgmp; the client builds it of the JSON that the server sends.
    load : callable (context, settings) -> (features, targets)
        Reads a client's own rows, at the client. Of a node's configuration, ``partition-id`` is its key.
    loss : Loss
        Of every client.
    rounds : int
    n_clients : int
        How many have to be there to begin.
    finished : callable (Result, Context) -> None
        What the server does with the result.
    over : mapping, optional
        More of `OverFlower`: settings, wait_for, deadline, weights, most_rows.
    keep : path-like, optional
        As in `client_app`.
    **options
        As in `fgmp.federate`: cohort_size, rng, record_every, checkpoint, ...

    Returns
    -------
    (ServerApp, ClientApp)

    Raises
    ------
    ImportError
        Where Flower is not installed.
    """
    return server_app(method, loss, rounds, n_clients, finished=finished, over=over, **options), client_app(load, keep)


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
    """The server's half of `apps`: it knows the method and a seed, and no data.

    Parameters and errors as in `apps`.
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
    """The client's half of `apps`: it knows its rows, and learns the rest from the server.

    Parameters
    ----------
    load : callable
        As in `apps`.
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
    """
    check_flower()
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    def reply(message: Message, context: Context) -> Message:
        return FlowerMessage(reply_to(message, context, load, keep, kinds), reply_to=message)

    for register in (app.query, app.train, app.evaluate):
        register()(reply)
    return app


def check_flower() -> None:
    """Raise an ImportError that says what to install, where Flower is not there."""
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise ImportError('federation on Flower needs flwr: pip install "fgmp[flower]"') from None
