"""Long runs, for `make soak`: whether memory and time per round stay where they are, from the first tenth to the last.

soak.py [METHOD]: all three methods, each in a process of its own; ends with 1 where one of them grew.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import fgmp

ROUNDS = 20_000
METHODS = {
    "FedGradMP": fgmp.FedGradMP(sparsity=4, batch_size=20, solver=fgmp.GradientDescent(steps=1)),
    "FedAvg": fgmp.FedAvg(learning_rate=1e-3, batch_size=20),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity=4),
}
MOST_MEMORY, MOST_SECONDS = (
    1.05,
    1.25,
)  # above what a busy machine adds, below what grows with the rounds


def report(run) -> None:
    """Now and then the round, megabytes resident, of pages of 4 kB, and seconds of this process."""
    if run.step.round % (ROUNDS // 40) == 0 and run.step.round:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
        print(run.step.round, f"{resident:.2f} {time.process_time():.4f}", flush=True)


def long_run(name: str) -> None:
    """With clients that drop out, a record and a checkpoint every 100 rounds."""
    federation = fgmp.make_sparse_regression(6, 30, 100, 4, 0.5, noise_variance=0.01, rng=0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        callbacks = [fgmp.Checkpoint(Path(folder) / "run.fgmp", every=100), report]
        faulty = fgmp.Faulty(federation, fgmp.DropOut(probability=0.1), fgmp.DropOut(clients=[1]))
        fgmp.simulate(
            METHODS[name],
            faulty,
            ROUNDS,
            rng=0,
            history=fgmp.History(every=100),
            callbacks=callbacks,
        )


def main() -> int:
    """Print for each method by how much memory and seconds of a round grew."""
    grown = 0
    for name in METHODS:
        done = subprocess.run(
            [sys.executable, __file__, name], capture_output=True, text=True, check=True
        )
        number, memory, seconds = np.array(
            [line.split() for line in done.stdout.splitlines()], float
        ).T
        each = np.diff(seconds) / np.diff(number)
        ratios = memory.max() / memory[3], np.median(each[-10:]) / np.median(each[3:13])
        print(
            f"{name:<20} {len(number)} records, memory {ratios[0]:.3f}, seconds of a round {ratios[1]:.3f}"
        )
        grown += number[-1] != ROUNDS or ratios[0] > MOST_MEMORY or ratios[1] > MOST_SECONDS
    return int(grown > 0)


if __name__ == "__main__":
    sys.exit(long_run(sys.argv[1]) if len(sys.argv) > 1 else main())
