"""Flower's simulation engine on this machine: many clients in a few processes that stay, with telemetry off."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..checks import check_integer
from ..federation import Federation, check_federation
from ..methods.contract import Method
from ..running.loop import federate
from ..running.results import Result
from .grid import OverFlower
from .serving import check_flower, client_app

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

__all__ = ["load_stored", "on_engine", "simulate_on_engine", "stored"]

T = TypeVar("T")

_TRIES = 4
_ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or else Ray warns of what it will do in future
    "RAY_gcs_server_request_timeout_seconds": "300",  # of a busy machine
}


def on_engine(serve: Callable[[Grid], T], app: ClientApp, n_clients: int, processes: int = 2) -> T:
    """Run a server's main function on the simulation engine, and return what it returns.

    The engine's processes (actors of Ray) stay for the whole of it and answer one message after another: no message
    starts a process, and what a client made of its rows stays in memory.

    Parameters
    ----------
    serve : callable (Grid) -> object
        May run several methods, one after another.
    app : ClientApp
    n_clients : int
        Nodes, of which each gets a ``partition-id``.
    processes : int, default 2
        That share the clients.

    Raises
    ------
    ImportError
        Where Flower or its simulation engine is not installed.
    Exception
        Whatever `serve` raises.
    """
    check_flower()
    processes = check_integer("processes", processes)
    n_clients = check_integer("n_clients", n_clients)
    with _quiet():
        _start_ray(processes)
        from flwr.serverapp import ServerApp
        from flwr.simulation import run_simulation

        server, returned, raised = ServerApp(), [], []

        @server.main()  # type: ignore[untyped-decorator, unused-ignore]
        def main(grid: Grid, context: Context) -> None:
            try:
                returned.append(serve(grid))
            except BaseException as error:
                raised.append(error)

        run_simulation(
            server,
            app,
            num_supernodes=n_clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
    if raised:
        raise raised[0]
    return returned[0]


def simulate_on_engine(
    method: Method,
    federation: Federation,
    rounds: int,
    cohort_size: int | None = None,
    rng: Any = None,
    *,
    processes: int = 2,
    **options: Any,
) -> Result:
    """`fgmp.simulate` with Flower between server and clients: the same bits, and much slower.

    Parameters
    ----------
    method, federation, rounds, cohort_size, rng
        As in `fgmp.simulate`. The clients read their rows from a folder that is removed afterwards.
    processes : int, default 2
    **options
        As in `fgmp.federate`.
    """
    federation = check_federation("federation", federation)
    with tempfile.TemporaryDirectory(prefix="fgmp-flower-") as folder:
        settings = stored(federation, folder)

        def serve(grid: Grid) -> Result:
            transport = OverFlower(grid, federation.loss, federation.n_clients, settings=settings)
            return federate(method, transport, rounds, cohort_size, rng, **options)

        return on_engine(serve, client_app(load_stored), federation.n_clients, processes)


def stored(federation: Federation, folder: str | os.PathLike[str]) -> dict[str, str]:
    """Write each client's rows into a folder, for `load_stored`, and return the settings that name it."""
    for place, client in enumerate(federation.clients):
        if not isinstance(client.features, np.ndarray):
            raise ValueError("federation holds features that are not dense arrays; expected dense ones on the engine")
        np.savez(Path(folder) / f"{place}.npz", features=client.features, targets=client.targets)
    return {"folder": str(folder)}


def load_stored(context: Context, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """A client's rows, as `stored` wrote them."""
    with np.load(Path(settings["folder"]) / f"{context.node_config['partition-id']}.npz", allow_pickle=False) as file:
        return file["features"], file["targets"]


def _start_ray(processes: int) -> None:
    """Have the engine find a Ray that runs already: it gives up after 30 seconds, which a busy machine may need."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Ray says what packages it would like to have in notebooks
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray

            if ray.is_initialized():
                return
            paths = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")]))
            for left in reversed(range(_TRIES)):
                try:
                    ray.init(
                        num_cpus=processes,
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level="ERROR",
                        runtime_env={"env_vars": {"PYTHONPATH": paths}},
                    )
                    return
                except Exception:
                    ray.shutdown()
                    if not left:
                        raise
    except ImportError:
        raise ImportError('the simulation engine needs ray: pip install "fgmp[flower]"') from None
    finally:
        logging.disable(disabled)


@contextmanager
def _quiet() -> Iterator[None]:
    """Telemetry off, which Flower looks at when it is imported, no chatter, and patience."""
    before = {name: os.environ.get(name) for name in (*_ENVIRONMENT, "PYTHONPATH")}
    os.environ.update(_ENVIRONMENT)
    logger = logging.getLogger("flwr")
    level, logger.level = logger.level, logging.ERROR
    try:
        yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
