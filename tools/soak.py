"""Long runs, for `make soak`: check that memory and time of a round do not grow over the run.

soak.py             all methods, each in its own process; the exit code is 1 if one of them grew
soak.py METHOD      one of them
"""

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fgmp

ROUNDS = 20_000
METHODS = {
    "FedGradMP": fgmp.FedGradMP(sparsity=4, batch_size=20, solver=fgmp.GradientDescent(steps=1)),
    "FedAvg": fgmp.FedAvg(learning_rate=1e-3, batch_size=20),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity=4),
}
# Ratios above what a busy machine adds, and below what grows with the rounds.
MAX_MEMORY_RATIO = 1.05
MAX_SECONDS_RATIO = 1.25
# Reports during a run. The first few are of a process that still warms up.
N_REPORTS = 40
N_WARM_UP = 3
# Reports that are compared: these many at the begin, and at the end.
N_COMPARED = 10
_PAGE_BYTES = 4096


class Growth(NamedTuple):
    """How a run ended, and how its memory and the seconds of a round grew."""

    last_round: int
    n_reports: int
    memory_ratio: float
    seconds_ratio: float

    @property
    def is_too_much(self) -> bool:
        """Return whether the run grew, or did not reach its end."""
        return (
            self.last_round != ROUNDS
            or self.memory_ratio > MAX_MEMORY_RATIO
            or self.seconds_ratio > MAX_SECONDS_RATIO
        )


def report(run: fgmp.Run) -> None:
    """Print the round, the megabytes resident and the seconds of this process, now and then."""
    number = run.progress.round
    if number and number % (ROUNDS // N_REPORTS) == 0:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * _PAGE_BYTES / 2**20
        print(number, f"{megabytes:.2f} {time.process_time():.4f}", flush=True)


def run_long(name: str) -> None:
    """Run a method with clients that drop out, a history and a checkpoint every 100 rounds."""
    federation = fgmp.make_sparse_regression(6, 30, 100, 4, 0.5, noise_variance=0.01, rng=0)
    faulty = fgmp.Faulty(federation, fgmp.DropOut(probability=0.1), fgmp.DropOut(clients=[1]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        checkpoint = fgmp.Checkpoint(Path(folder) / "run.fgmp", every=100)
        fgmp.simulate(
            METHODS[name],
            faulty,
            ROUNDS,
            rng=0,
            history=fgmp.History(every=100),
            callbacks=[checkpoint, report],
        )


def measure(name: str) -> Growth:
    """Run a method in its own process, and return its growth."""
    done = subprocess.run(
        [sys.executable, __file__, name], capture_output=True, text=True, check=True
    )
    table = np.array([line.split() for line in done.stdout.splitlines()], float)
    rounds, megabytes, seconds = table.T
    seconds_per_round = np.diff(seconds) / np.diff(rounds)
    first = seconds_per_round[N_WARM_UP : N_WARM_UP + N_COMPARED]
    last = seconds_per_round[-N_COMPARED:]
    return Growth(
        last_round=int(rounds[-1]),
        n_reports=len(rounds),
        memory_ratio=megabytes.max() / megabytes[N_WARM_UP],
        seconds_ratio=float(np.median(last) / np.median(first)),
    )


def main() -> int:
    """Print the growth of each method, and return the exit code."""
    has_grown = False
    for name in METHODS:
        growth = measure(name)
        print(
            f"{name:<20} {growth.n_reports} records, memory {growth.memory_ratio:.3f}, "
            f"seconds of a round {growth.seconds_ratio:.3f}"
        )
        has_grown = has_grown or growth.is_too_much
    return int(has_grown)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_long(sys.argv[1])
    else:
        sys.exit(main())
