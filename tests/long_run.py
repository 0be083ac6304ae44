"""A long run as a process of its own, which says now and then how much memory and processor time it has taken.

    long_run.py PATH ROUNDS METHOD

Lines of: round, megabytes resident, seconds of this process.
"""

import sys
import time

from garbage import lie, not_finite

import fgmp
from fgmp.layers.faults import Changed

METHODS = {
    "FedGradMP": fgmp.FedGradMP(sparsity=4, batch_size=20, solver=fgmp.GradientDescent(steps=1)),
    "FedAvg": fgmp.FedAvg(learning_rate=1e-3, batch_size=20),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity=4),
}
FAULTS = [fgmp.DropOut(probability=0.1), Changed(not_finite, probability=0.1), Changed(lie(-1.0), clients=[1])]


def resident():
    """Megabytes, of pages of 4 kB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def federation():
    return fgmp.make_sparse_regression(6, 30, 100, 4, 0.5, noise_variance=0.01, rng=0)


def main(path, rounds, name):
    rounds = int(rounds)

    def report(run):
        number = run.step.round
        if number % (rounds // 40) == 0 and number:
            print(number, f"{resident():.2f} {time.process_time():.4f}", flush=True)

    watch, faulty = [fgmp.Checkpoint(path, every=100), report], fgmp.Faulty(federation(), *FAULTS)
    fgmp.simulate(METHODS[name], faulty, rounds, rng=0, watch=watch)


if __name__ == "__main__":
    main(*sys.argv[1:])
