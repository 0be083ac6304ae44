"""Flower's simulation engine on this machine: many clients in a few processes that stay, with telemetry off."""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from .._support.validation import check_integer

_BUSY = (
    "RAY_gcs_server_request_timeout_seconds",
    "RAY_raylet_start_wait_time_s",
)  # which a machine may be
_OFF = "0"
_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": _OFF,
    "RAY_USAGE_STATS_ENABLED": _OFF,
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": _OFF,  # of which Ray would warn that it is going to change
    **dict.fromkeys(_BUSY, "300"),
}


def on_engine(serve: Callable[[Any], Any], app: Any, n_clients: int, processes: int = 2) -> Any:
    """Run a server's main function on the simulation engine, and return or raise what it does.

    Parameters
    ----------
    serve : callable (Grid) -> object
        May run several methods, one after another.
    app : ClientApp
        Travels to the engine's processes, with the rows that its `load` has.
    n_clients, processes : int
        Nodes, of which each gets a ``partition-id``; and the processes that share them, 2 by default.
    """
    n_clients, processes = (
        check_integer("n_clients", n_clients),
        check_integer("processes", processes),
    )
    ray = {"num_cpus": processes, "logging_level": "ERROR", "log_to_driver": False}
    config = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": ray}
    outcome: Future[Any] = Future()
    with ExitStack() as during, _environment(_ENVIRONMENT):
        during.callback(logging.disable, logging.root.manager.disable)
        logging.disable(
            logging.WARNING
        )  # Ray says in notebooks which packages it would like to have
        from flwr.serverapp import ServerApp
        from flwr.simulation import run_simulation

        _switch_telemetry_off()
        server = ServerApp()

        @server.main()  # type: ignore[untyped-decorator, unused-ignore]
        def main(grid: Any, context: Any) -> None:
            try:
                outcome.set_result(serve(grid))
            except BaseException as error:
                outcome.set_exception(error)

        run_simulation(server, app, n_clients, backend_config=config)
    return outcome.result(0)


@contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """Variables of the environment for the length of a run: the engine's processes get no others."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _switch_telemetry_off() -> None:
    """Telemetry off also where Flower was imported before this run.

    Flower's switch is the variable FLWR_TELEMETRY_ENABLED, which it reads once, when it is imported: after that,
    what it has read is all that counts. It stays off, for Flower sends from threads that outlive a run.
    """
    from flwr.supercore import telemetry

    telemetry.FLWR_TELEMETRY_ENABLED = _OFF
