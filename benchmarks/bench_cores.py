"""Target 6: a run on two processes against a run on one."""

import inspect

import numpy as np
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved
from machine import cores

import fgmp


def same(first: fgmp.Result, second: fgmp.Result) -> bool:
    """Whether two runs left the same bits behind, but for the seconds."""
    columns = set(first.history) - {"seconds"}
    return np.array_equal(first.coefficients, second.coefficients) and all(
        np.array_equal(first.history[c], second.history[c], equal_nan=True) for c in columns
    )


def workers(scale: Scale) -> Finding:
    """FedGradMP at n=10,000 with a round of some 100 ms."""
    speed, bits = "simulate, one process over two", "differing results of one and two processes"
    if "workers" not in inspect.signature(fgmp.simulate).parameters:
        note = "simulate has no `workers`"
        return Finding([Row(6, speed, [], (AT_LEAST, 1.6), note=note), Row(6, bits, [], (AT_MOST, 0), "", note)])
    rounds, n = scale.pick(3, 40, 80), scale.pick(1000, 10_000, 10_000)
    federation = fgmp.make_sparse_regression(50, 100, n, 10, rng=0)
    method = fgmp.FedGradMP(sparsity=10, local_iterations=8, batch_size=40)
    results: dict[str, fgmp.Result] = {}

    def run(count: int) -> None:
        results[str(count)] = fgmp.simulate(method, federation, rounds, rng=0, record_every=rounds, workers=count)

    seconds = interleaved({"1": lambda: run(1), "2": lambda: run(2)}, scale.pick(1, 4, 9))
    milli = 1e3 * np.median(seconds["1"]) / rounds
    note = f"{milli:.0f} ms for a round, {rounds} rounds, start of the workers included"
    differing = float(not same(results["1"], results["2"]))
    if cores() < 2:
        note = f"this machine has one core; {note}"
    ratios = (seconds["1"] / seconds["2"]).tolist()
    return Finding([Row(6, speed, ratios, (AT_LEAST, 1.6), note=note), Row(6, bits, [differing], (AT_MOST, 0), "")])
