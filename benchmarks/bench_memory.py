"""Target 8: memory of a run, beyond its data."""

import gc
import tracemalloc
from collections.abc import Callable

from harness import AT_MOST, Finding, Row, Scale

import fgmp


def memory(run: Callable[[], object]) -> float:
    """Megabytes that a call holds at its peak, beyond what was there before."""
    run()  # what is imported or made once does not count
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def beyond_data(scale: Scale) -> Finding:
    """Peak memory of a run at n = 10,000 beyond its data."""
    count = scale.pick(5, 50, 50)
    fed = fgmp.make_sparse_regression(count, 100, 10_000, 10, rng=0)
    method = fgmp.FedGradMP(sparsity=10, local_iterations=3)
    data = sum(client.features.nbytes + client.targets.nbytes for client in fed.clients) / 1e6
    peak = memory(lambda: fgmp.simulate(method, fed, 3, rng=0, history=fgmp.History(every=3)))
    note = f"N={count}, data of {data:.0f} MB"
    return Finding(
        [Row("FedGradMP, peak memory of a run, n=10,000", [peak], (AT_MOST, 64), "MB", note)]
    )
