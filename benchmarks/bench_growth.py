"""Target 8: how time and memory grow with the number of clients N, features n, rows m, sparsity tau and atoms d."""

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
from harness import AT_MOST, Curve, Finding, Row, Scale, exponent, interleaved

import fgmp

BASE = {"N": 20, "n": 1000, "m": 100, "tau": 10}
Run = Callable[[], object]


def federation(N: int, n: int, m: int, tau: int) -> fgmp.Federation:
    """The paper's model of sparse regression."""
    return fgmp.make_sparse_regression(N, m, n, tau, rng=0)


def one_round(fed: fgmp.Federation, tau: int, dictionary: fgmp.StandardBasis | None = None, rounds: int = 3) -> Run:
    """A few rounds of FedGradMP, with the full batch so that m matters."""
    method = fgmp.FedGradMP(sparsity=tau, local_iterations=3, dictionary=dictionary or fgmp.StandardBasis())
    return lambda: fgmp.simulate(method, fed, rounds, rng=0, record_every=rounds)


def sweeps(scale: Scale) -> dict[str, list[int]]:
    """The values of each quantity; the others stay at BASE."""
    return {
        "N": scale.pick([5, 10, 20], [10, 20, 40, 80], [10, 20, 40, 80, 160, 320]),
        "n": scale.pick([500, 1000, 2000], [1000, 2000, 5000, 10_000], [1000, 2000, 5000, 10_000, 20_000, 50_000]),
        "m": scale.pick([50, 100, 200], [50, 100, 200, 400], [50, 100, 200, 400, 800, 1600]),
        "tau": scale.pick([5, 10, 20], [5, 10, 20, 30], [5, 10, 15, 20, 25, 30]),
        "d": scale.pick([250, 500], [125, 250, 500, 1000], [125, 250, 500, 1000, 2000, 4000]),
    }


def memory(run: Run) -> float:
    """Megabytes that a call holds at its peak, beyond what was there before."""
    run()  # what is imported or made once does not count
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def made(what: str, value: int) -> Run:
    """A run with one quantity at `value`."""
    if what == "d":
        fed = federation(**BASE | {"N": 5, "n": 500})
        atoms = np.random.default_rng(0).standard_normal((500, value)) / np.sqrt(500)
        return one_round(fed, BASE["tau"], fgmp.Dictionary(atoms))
    sizes = BASE | {what: value}
    return one_round(federation(**sizes), sizes["tau"])


def growth(scale: Scale) -> Finding:
    """Time of a short run and peak memory, against each quantity."""
    rows, curves = [], []
    for what, values in sweeps(scale).items():
        runs = {value: made(what, value) for value in values}
        seconds = interleaved({str(value): run for value, run in runs.items()}, scale.pick(2, 5, 15))
        medians = [1e3 * float(np.median(seconds[str(value)])) for value in values]
        peaks = [memory(run) for run in runs.values()]
        extra = "; atoms of 500 entries, their preparation counts" if what == "d" else ""
        words = f"three rounds, {what} from {values[0]:,} to {values[-1]:,}{extra}"
        in_time, in_memory = exponent(values, medians), exponent(values, peaks)
        rows.append(Row(8, f"exponent of time in {what}", [in_time], None, "", words))
        rows.append(Row(8, f"exponent of peak memory in {what}", [in_memory], None, "", f"{peaks[-1]:.2g} MB at most"))
        curves.append(Curve("growth_time", f"{what}^{in_time:.2f}", values, medians, what, "ms for three rounds"))
        curves.append(Curve("growth_memory", f"{what}^{in_memory:.2f}", values, peaks, what, "MB at peak"))
    return Finding(rows, curves)


def beyond_data(scale: Scale) -> Finding:
    """Peak memory of a run at n = 10,000 beyond its data."""
    count = scale.pick(5, 50, 50)
    fed = fgmp.make_sparse_regression(count, 100, 10_000, 10, rng=0)
    data = sum(client.features.nbytes + client.targets.nbytes for client in fed.clients) / 1e6
    peak = memory(one_round(fed, 10))
    copies = sum(vars(client)["features_by_row"].nbytes for client in fed.clients if "features_by_row" in vars(client))
    note = f"N={count}, data of {data:.0f} MB"
    return Finding(
        [
            Row(8, "FedGradMP, peak memory of a run, n=10,000", [peak], (AT_MOST, 64), "MB", note),
            Row(8, "kept with the data, over them, n=10,000", [(data + copies / 1e6) / data], (AT_MOST, 2), note=note),
        ]
    )
