"""Flower's simulation engine on this machine: many clients in a few processes that stay, with telemetry off."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from ..checks import check_integer

__all__ = ["on_engine"]

_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or else Ray warns of what it will do in future
    "RAY_gcs_server_request_timeout_seconds": "300",  # of a busy machine
    "RAY_raylet_start_wait_time_s": "300",
}


def on_engine(serve: Callable[[Any], Any], app: Any, n_clients: int, processes: int = 2) -> Any:
    """Run a server's main function on the simulation engine, whose processes stay, and return or raise what it does.

    Parameters
    ----------
    serve : callable (Grid) -> object
        May run several methods, one after another.
    app : ClientApp
        Travels to the engine's processes, with the rows that its `load` has.
    n_clients : int
        Nodes, of which each gets a ``partition-id``.
    processes : int, default 2
        That share the clients.
    """
    ray = {"num_cpus": check_integer("processes", processes), "logging_level": "ERROR", "log_to_driver": False}
    config = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": ray}
    ended: list[tuple[Any, BaseException | None]] = []
    with ExitStack() as during:
        during.enter_context(patch.dict(os.environ, _ENVIRONMENT))
        during.enter_context(warnings.catch_warnings(action="ignore"))
        during.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)  # Ray says in notebooks which packages it would like to have
        from flwr.serverapp import ServerApp
        from flwr.simulation import run_simulation

        server = ServerApp()

        @server.main()  # type: ignore[untyped-decorator, unused-ignore]
        def main(grid: Any, context: Any) -> None:
            try:
                ended.append((serve(grid), None))
            except BaseException as error:
                ended.append((None, error))

        run_simulation(server, app, check_integer("n_clients", n_clients), backend_config=config)
    if ended[0][1] is not None:
        raise ended[0][1]
    return ended[0][0]
