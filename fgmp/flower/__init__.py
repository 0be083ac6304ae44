"""Any method over Flower: the clients on other machines, the server with a shape and no data, the same bits.

`client_app` is a client's half. The server's is `simulate`, over the transport `OverFlower`::

    app = ServerApp()

    @app.main()
    def main(grid, context):
        transport = OverFlower(grid, fgmp.SquaredLoss(), n_clients=3)
        result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), transport, rounds=10)

The estimators have halves of their own: `table_app` at a site, and `fit_over`, which fits one as it is fitted in one
process. `on_engine` runs both halves on Flower's simulation engine. It needs the extra `flower`; importing
this package imports nothing of Flower.
"""

from .client import client_app
from .engine import on_engine
from .fitting import fit_over, table_app
from .transport import OverFlower

__all__ = ["OverFlower", "client_app", "fit_over", "on_engine", "table_app"]
