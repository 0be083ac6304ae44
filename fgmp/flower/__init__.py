"""Any method as a Flower app: the clients on other machines, the server with a shape and no data, the same bits.

`apps` gives the ServerApp and the ClientApp; `client_app` and `OverFlower` are the two halves, for a server of your
own; `on_engine` runs them on Flower's simulation engine; `python -m fgmp.flower.node` is a SuperNode that answers at
once. It needs `pip install "fgmp[flower]"`, and importing this room imports nothing of Flower.

May import: the ground floor, methods, running.
"""

from .engine import on_engine, simulate_on_engine
from .grid import OverFlower
from .serving import apps, client_app, server_app

__all__ = ["OverFlower", "apps", "client_app", "on_engine", "server_app", "simulate_on_engine"]
