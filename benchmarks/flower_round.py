"""FedAvg of softmax regression in Flower's simulation engine: seconds of each round and version, as JSON.

    flower_round.py '{"data": FILE, "rounds": 5, "cohort": 10, "steps": 40, "batch": 50, "rate": 1.0}'

A process of its own, because Flower lives in an environment of its own and its engine starts many helpers. FILE is an
`.npz` with the arrays `features` (clients, rows, pixels) and `labels` (clients, rows). Each client's step is the plain
NumPy loop of `textbook.softmax_steps`; what the comparison shows is the engine around it.
"""

import json
import os
import sys
import time
from functools import cache
from importlib import metadata
from pathlib import Path

os.environ |= {"RAY_DEDUP_LOGS": "0", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
# The workers of the engine import this file and `textbook` too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
)

import numpy as np  # noqa: E402
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from textbook import softmax_steps  # noqa: E402


@cache
def clients_of(path: str) -> tuple[np.ndarray, np.ndarray]:
    """The data of all clients, read once in each process of the engine."""
    with np.load(path) as file:
        return file["features"], file["labels"]


def apps(task: dict) -> tuple[ServerApp, ClientApp, list[float]]:
    """Server and client; the server appends the end of each round to the list."""
    client_app, server_app, ends = ClientApp(), ServerApp(), []

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        features, labels = clients_of(task["data"])
        who = int(context.node_config["partition-id"])
        w = message.content["arrays"].to_numpy_ndarrays()[0]
        rng = np.random.default_rng(who)
        w = softmax_steps(
            features[who], labels[who], w, task["rate"], task["steps"], task["batch"], rng
        )
        content = {
            "arrays": ArrayRecord([w]),
            "metrics": MetricRecord({"num-examples": len(labels[who])}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    class Timed(FedAvg):
        """FedAvg that notes when a round is aggregated."""

        def aggregate_train(self, server_round, replies):
            result = super().aggregate_train(server_round, replies)
            ends.append(time.perf_counter())
            return result

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        features, _ = clients_of(task["data"])
        strategy = Timed(
            fraction_train=task["cohort"] / len(features),
            fraction_evaluate=0.0,
            min_available_nodes=len(features),
        )
        start = ArrayRecord([np.zeros((features.shape[2], 10), features.dtype)])
        strategy.start(grid=grid, initial_arrays=start, num_rounds=task["rounds"])

    return server_app, client_app, ends


def main() -> None:
    """Run, and print the seconds between the ends of consecutive rounds."""
    task = json.loads(sys.argv[1])
    features, _ = clients_of(task["data"])
    server_app, client_app, ends = apps(task)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=len(features), backend_config=resources)
    print(json.dumps({"version": metadata.version("flwr"), "seconds": np.diff(ends).tolist()}))


if __name__ == "__main__":
    import flower_round  # as a module of that name, which the workers can import

    flower_round.main()
