"""Any method over Flower: the clients are other machines, the server holds shapes and no data.

A run has the same bits as in one process. `client_app` is the client's side. The server's side is
`simulate` over the transport `OverFlower`::

    app = ServerApp()

    @app.main()
    def main(grid, context):
        transport = OverFlower(grid, fgmp.SquaredLoss(), n_clients=3)
        result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), transport, rounds=10)

The estimators have sides of their own: `table_app` at a client, and `fit_over` at the server, with
`bootstrap_over` for inclusion frequencies, `performance_over` for AUC and calibration, and
`validate_over` for those at clients that are left out.
`on_engine` runs both sides on Flower's simulation engine. The package needs the extra `flower`, and
importing it imports nothing of Flower.
"""

from .client import client_app
from .engine import on_engine
from .fitting import bootstrap_over, fit_over, performance_over, table_app, validate_over
from .transport import OverFlower

__all__ = [
    "OverFlower",
    "bootstrap_over",
    "client_app",
    "fit_over",
    "on_engine",
    "performance_over",
    "table_app",
    "validate_over",
]
