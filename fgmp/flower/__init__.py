"""Any method as a Flower app: the clients on other machines, the server with a shape and no data, the same bits.

`server_app` and `client_app` are its two halves, `OverFlower` the transport for a server of your own; `on_engine` runs
them on Flower's simulation engine. It needs `pip install "fgmp[flower]"`, and importing this room imports nothing of
Flower.

May import: the ground floor, methods, running.
"""

from .engine import on_engine, simulate_on_engine
from .grid import OverFlower
from .serving import client_app, server_app

__all__ = ["OverFlower", "client_app", "on_engine", "server_app", "simulate_on_engine"]
