"""Seconds of a round over Flower's simulation engine against `simulate`, stage by stage, as a table.

    flower_overhead.py [ROUNDS]

The stages of an exchange: making the messages, pushing them to the engine, waiting for it, pulling the replies, and
reading and combining what came. What clients compute themselves is what `simulate` takes.
"""

import os
import sys
import tempfile
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import fgmp  # noqa: E402
from fgmp.flower import OverFlower, client_app, on_engine  # noqa: E402
from fgmp.flower import grid as flower_grid  # noqa: E402
from fgmp.flower.engine import load_stored, stored  # noqa: E402

FEDERATION = fgmp.make_sparse_regression(n_clients=6, n_samples=60, n_features=1000, sparsity=10, rng=0)
METHODS = {"FedGradMP": fgmp.FedGradMP(10), "SharedSupportGradMP": fgmp.SharedSupportGradMP(10)}


class Timed:
    """A grid that adds up the seconds of its calls."""

    def __init__(self, grid):
        self.grid, self.seconds, self.messages = grid, {"push": 0.0, "pull": 0.0}, 0

    def get_node_ids(self):
        return self.grid.get_node_ids()

    def push_messages(self, messages):
        began = time.perf_counter()
        found = self.grid.push_messages(messages)
        self.seconds["push"] += time.perf_counter() - began
        self.messages += len(messages)
        return found

    def pull_messages(self, ids):
        began = time.perf_counter()
        found = self.grid.pull_messages(ids)
        self.seconds["pull"] += time.perf_counter() - began
        return found


def main(rounds: int) -> None:
    began, slept = time.perf_counter(), [0.0]

    class Clock:
        """The time module, with what is slept away added up."""

        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def sleep(seconds):
            slept[0] += seconds
            time.sleep(seconds)

    def serve(grid):
        timed = Timed(grid)
        flower_grid.time = Clock
        transport = OverFlower(timed, FEDERATION.loss, 6, settings=settings, ask_objectives=False)
        rows = [("engine: start, and who is there", time.perf_counter() - began)]
        for name, method in METHODS.items():
            fgmp.federate(method, transport, 1, rng=0)  # clients read and prepare
            timed.seconds, slept[0], timed.messages = {"push": 0.0, "pull": 0.0}, 0.0, 0
            start = time.perf_counter()
            fgmp.federate(method, transport, rounds, rng=0)
            whole = time.perf_counter() - start
            here = fgmp.simulate(method, FEDERATION, rounds, rng=0).history["seconds"]
            stages = {"simulate": here[-1] - here[0], "over Flower": whole, "  push": timed.seconds["push"]}
            stages |= {"  wait": slept[0], "  pull": timed.seconds["pull"]}
            stages["  make, read, combine"] = whole - stages["  push"] - stages["  wait"] - stages["  pull"]
            rows += [(f"{name}: {stage}, a round", seconds / rounds) for stage, seconds in stages.items()]
        return rows

    with tempfile.TemporaryDirectory() as folder:
        settings = stored(FEDERATION, folder)
        for words, seconds in on_engine(serve, client_app(load_stored), 6):
            print(f"{words:55}{1e3 * seconds:10.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
