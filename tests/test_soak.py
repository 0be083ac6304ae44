"""Long runs, for `make soak`: memory and time per round stay where they are."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from garbage import lie, not_finite

import fgmp
from fgmp.layers.faults import Changed

pytestmark = pytest.mark.skipif(
    not (os.environ.get("FGMP_SOAK") and os.path.exists("/proc/self/statm")), reason="make soak, on Linux"
)
ROUNDS = 20_000
METHODS = {
    "FedGradMP": fgmp.FedGradMP(sparsity=4, batch_size=20, solver=fgmp.GradientDescent(steps=1)),
    "FedAvg": fgmp.FedAvg(learning_rate=1e-3, batch_size=20),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity=4),
}
FAULTS = [fgmp.DropOut(probability=0.1), Changed(not_finite, probability=0.1), Changed(lie(-1.0), clients=[1])]


def report(run):
    """Now and then the round, megabytes resident, of pages of 4 kB, and seconds of this process."""
    if run.step.round % (ROUNDS // 40) == 0 and run.step.round:
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * 4096 / 2**20
        print(run.step.round, f"{resident:.2f} {time.process_time():.4f}", flush=True)


def long_run(path, name):
    """In a process of its own: with faults, history and a checkpoint every 100 rounds."""
    federation = fgmp.make_sparse_regression(6, 30, 100, 4, 0.5, noise_variance=0.01, rng=0)
    watch, faulty = [fgmp.Checkpoint(path, every=100), report], fgmp.Faulty(federation, *FAULTS)
    fgmp.simulate(METHODS[name], faulty, ROUNDS, rng=0, watch=watch)


@pytest.mark.parametrize("name", METHODS)
def test_memory_and_time_per_round_are_flat(name, tmp_path):
    """From the first tenth of 20,000 rounds to the last."""
    home = os.path.dirname(os.path.dirname(fgmp.__file__))
    environment = os.environ | {"PYTHONPATH": home, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, str(tmp_path / "run.fgmp"), name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    number, memory, seconds = np.array([line.split() for line in done.stdout.splitlines()], float).T
    assert len(number) == 40 and number[-1] == ROUNDS
    each = np.diff(seconds) / np.diff(number)
    slowing = np.median(each[-10:]) / np.median(each[3:13])
    assert memory.max() / memory[3] < 1.05
    assert slowing < 1.25  # far above what a busy machine adds, far below what a cost that grows with the rounds does


if __name__ == "__main__":
    long_run(*sys.argv[1:])
