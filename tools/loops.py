"""Compile all loops of fgmp, for both precisions, so that no run in this environment waits for them.

Two processes share the loops. Each loop is compiled by one of them, because both would write its
file in the cache, and those of Algorithm 2 have one file. Where Numba does not work, runs do without
loops, and this says so.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import fgmp

PRECISIONS = (np.float64, np.float32)
# The methods whose loops a process compiles.
SHARES = (
    (fgmp.FedGradMP(2), fgmp.FedAvg(learning_rate=0.01)),
    (
        fgmp.FedGradMP(2, solver=fgmp.SGD(learning_rate=0.01, steps=1)),
        fgmp.FedGradMP(2, solver=fgmp.GradientDescent(steps=1)),
    ),
)


def compile_for(methods: tuple[fgmp.Method, ...]) -> None:
    """Run one round of each method in each precision, which compiles its loop."""
    for precision in PRECISIONS:
        rows = np.random.default_rng(0).standard_normal((2, 8, 6)).astype(precision)
        federation = fgmp.Federation.from_arrays(rows, rows[:, :, 0], loss="squared")
        for method in methods:
            with fgmp.backend("compiled"):  # which is not chosen by itself for so short a run
                result = fgmp.simulate(method, federation, rounds=1, rng=0)
            if result.backend != "compiled":
                print(f"{method} runs without a loop: {dict(result.fallbacks)}", file=sys.stderr)


def main() -> None:
    """Compile all loops, and say how long it took."""
    print("compiling the loops of fgmp, once in this environment: about a minute")
    began = time.perf_counter()
    # Started anew, and not forked: a process that has threads cannot be copied safely.
    with ProcessPoolExecutor(len(SHARES), get_context("spawn")) as processes:
        list(processes.map(compile_for, SHARES))
    print(f"compiled them in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
