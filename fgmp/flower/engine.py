"""Flower's simulation engine on this machine: many clients in a few lasting processes.

Telemetry is off.
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from .._support.optional import needs
from .._support.validation import check_integer
from .records import FLOWER

_OFF = "0"
_PATIENCE = "300"  # seconds that Ray waits for its own processes: a machine may be busy

_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": _OFF,
    "RAY_USAGE_STATS_ENABLED": _OFF,
    # Without it Ray warns that its default is going to change.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": _OFF,
    "RAY_gcs_server_request_timeout_seconds": _PATIENCE,
    "RAY_raylet_start_wait_time_s": _PATIENCE,
}


def on_engine(serve: Callable[[Any], Any], app: Any, n_clients: int, processes: int = 2) -> Any:
    """Run a server's main function on the simulation engine, and return or raise what it does.

    Parameters
    ----------
    serve : callable (Grid) -> object
        The main function. It may run several methods, one after another.
    app : ClientApp
        It travels to the engine's processes, with the rows that its `load` holds.
    n_clients : int
        The number of nodes, of which each has a ``partition-id``.
    processes : int, default 2
        The number of processes that share the nodes.

    Examples
    --------
    With `load` of `client_app` and `main` of `OverFlower`, as their examples have them:

    >>> from fgmp.flower import client_app, on_engine
    >>> result = on_engine(main, client_app(load), n_clients=3)  # doctest: +SKIP
    >>> result.support.tolist()  # doctest: +SKIP
    [2]
    """
    n_clients = check_integer("n_clients", n_clients)
    processes = check_integer("processes", processes)
    outcome: Future[Any] = Future()
    with _surroundings():
        with needs("federation on Flower", FLOWER):
            from flwr.serverapp import ServerApp
            from flwr.simulation import run_simulation
            from flwr.supercore import telemetry

        # Flower reads FLWR_TELEMETRY_ENABLED once, when it is imported, which may have been before
        # this run. The value stays off, because Flower sends from threads that outlive a run.
        telemetry.FLWR_TELEMETRY_ENABLED = _OFF
        server = ServerApp()

        @server.main()  # type: ignore[untyped-decorator, unused-ignore]
        def main(grid: Any, context: Any) -> None:
            # The engine prints what is raised here and goes on: the outcome takes it to the caller.
            try:
                outcome.set_result(serve(grid))
            except BaseException as error:
                outcome.set_exception(error)

        ray = {"num_cpus": processes, "logging_level": "ERROR", "log_to_driver": False}
        config = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": ray}
        run_simulation(server, app, n_clients, backend_config=config)
    return outcome.result(0)


@contextmanager
def _surroundings() -> Iterator[None]:
    """Set the variables that the engine's processes inherit, and log errors only.

    In a notebook Ray warns that other packages would be of use to it. Afterwards all is as before.
    """
    variables = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    disabled = logging.root.manager.disable
    os.environ.update(_ENVIRONMENT)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        for name in _ENVIRONMENT:
            os.environ.pop(name, None)
        os.environ.update(variables)
