"""Targets 1 and 7: a client's local iteration of FedGradMP for the squared loss."""

import time
from collections.abc import Callable
from functools import partial

import floors
import numpy as np
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved
from images import answers
from machine import available_gigabytes, cores, loop_threads
from textbook import draw_rows, gradient_matching_pursuit, gradient_matching_pursuit_rounds

import fgmp
from fgmp.data import Client
from fgmp.sparse_model import SparseModel

TAU, K, BATCH, ROWS = 10, 3, 40, 100
METHOD = fgmp.FedGradMP(sparsity=TAU, local_iterations=K, batch_size=BATCH)


def some_model(n: int, dtype: type = np.float64) -> SparseModel:
    """A model of tau random entries: what a server might send."""
    rng = np.random.default_rng(1)
    support = np.sort(rng.choice(n, TAU, replace=False))
    return SparseModel(support, rng.standard_normal(TAU).astype(dtype), (n,))


def textbook(clients: tuple[Client, ...], x: SparseModel) -> Callable[[], None]:
    """The same round as one would write it first, with rows contiguous."""
    data = [(np.ascontiguousarray(client.features), client.targets) for client in clients]
    rng, dense = np.random.default_rng(2), x.dense()

    def run() -> None:
        for A, y in data:
            gradient_matching_pursuit(A, y, dense, TAU, draw_rows(len(y), BATCH, K, rng))

    return run


def reading(clients: tuple[Client, ...]) -> Callable[[], None]:
    """The bytes that the same round has to read: another minibatch in each iteration, its rows side by side."""
    columns, starts = np.ones((3 * TAU, ROWS)), np.linspace(0, ROWS - BATCH, K).astype(int)
    data = [np.ascontiguousarray(client.features) for client in clients]

    def run() -> None:
        for A in data:
            for start in starts:
                floors.must_read(A[start : start + BATCH], columns)

    return run


def iteration(scale: Scale) -> Finding:
    """Ours against the floor of bytes and the textbook, N=50."""
    rows = []
    for n, limit in ((1000, 2.5), (10_000, 1.5)):
        federation, x = (
            fgmp.make_sparse_regression(scale.pick(5, 50, 50), ROWS, n, TAU, rng=0),
            some_model(n),
        )
        clients = federation.clients
        runs = {
            "fgmp": answers(METHOD, federation, x),
            "textbook": textbook(clients, x),
            "bytes": reading(clients),
        }
        repetitions = scale.pick(3, 60 if n == 1000 else 25, 200 if n == 1000 else 80)
        with loop_threads(1):
            seconds = interleaved(runs, repetitions, time.process_time)
        micro = {
            name: 1e6 * np.median(values) / (len(clients) * K) for name, values in seconds.items()
        }
        products = floors.must_multiply(n, ROWS, BATCH, TAU) * floors.seconds_per_multiplication()
        lowest = np.maximum(seconds["bytes"], products * len(clients) * K)
        note = f"{micro['fgmp']:.0f} us, textbook {micro['textbook']:.0f} us; "
        note += f"reading takes {micro['bytes']:.0f} us, its products {1e6 * products:.0f} us at the best speed"
        what = f"FedGradMP, local iteration over its floor of bytes, n={n:,}"
        rows.append(Row(what, (seconds["fgmp"] / lowest).tolist(), (AT_MOST, limit), note=note))
    return Finding(rows)


def whole_runs(scale: Scale) -> Finding:
    """`simulate` with its books, every round recorded, against a plain loop that keeps the same two columns."""
    rows, threads = [], min(2, cores())
    sizes = {
        60: (30, 20, 3, 10, 60, 10),
        200: (30, 40, 5, 20, 40, 8),
        1000: (50, 100, 10, 40, 10, 6),
    }
    for n, (N, m, tau, batch, rounds, bound) in (sizes | {10_000: (50, 100, 10, 40, 3, 4)}).items():
        federation = fgmp.make_sparse_regression(N, m, n, tau, noise_variance=1e-4, rng=0)
        data = [(client.features, client.targets) for client in federation.clients]
        method = fgmp.FedGradMP(tau, K, batch)

        def plain(data=data, truth=federation.truth, given=(tau, rounds, K, batch)) -> None:
            gradient_matching_pursuit_rounds(data, truth, *given, np.random.default_rng(2))

        def ours(
            count: int, method=method, federation=federation, rounds=rounds, every: int = 1
        ) -> None:
            with loop_threads(count):
                fgmp.simulate(method, federation, rounds, rng=0, history=fgmp.History(every))

        runs = {"textbook": plain, "one": partial(ours, 1), "fgmp": partial(ours, threads)}
        runs["unrecorded"] = partial(ours, threads, every=rounds)
        seconds = interleaved(runs, scale.pick(2, 15, 40))
        note = f"{threads} threads, {1e6 * np.median(seconds['fgmp']) / rounds:.0f} us a round of {N} clients"
        ratios = (seconds["textbook"] / seconds["fgmp"]).tolist()
        rows.append(
            Row(
                f"textbook over simulate, whole runs, n={n:,}",
                ratios,
                (AT_LEAST, bound),
                note=note,
            )
        )
        alone = (seconds["one"] / seconds["fgmp"]).tolist()
        what = f"simulate, one thread over {threads}, n={n:,}"
        rows.append(Row(what, alone, (AT_LEAST, 1.6) if n == 1000 and threads == 2 else None))
        share = (1 - seconds["unrecorded"] / seconds["fgmp"]).tolist()
        rows.append(
            Row(
                f"recording as a share of a round, n={n:,}",
                share,
                (AT_MOST, 0.2 if n == 60 else 0.1),
            )
        )
    return Finding(rows)


def flat(scale: Scale) -> Finding:
    """Time per client and local iteration, N=5000 (4 GB of data) over N=50."""
    counts = scale.pick([5, 10, 20], [50, 500, 5000], [50, 500, 5000])
    note = ""
    if counts[-1] == 5000 and available_gigabytes() < 8:
        counts = counts[:-1]
        note = f"N=5000 needs 8 GB of free memory and {available_gigabytes():.0f} GB are there, so N={counts[-1]}; "
    x = some_model(1000)
    federation = fgmp.make_sparse_regression(counts[-1], ROWS, 1000, TAU, rng=0)
    runs, passes = {}, {count: min(10, counts[-1] // count) for count in counts}
    for count in counts:
        work = answers(METHOD, federation, x, count)
        for name, run in (("fgmp", work), ("floor", reading(federation.clients[:count]))):
            runs[f"{name} {count}"] = partial(several, run, passes[count])
    seconds = interleaved(runs, scale.pick(3, 6, 15))
    micro = {
        name: {
            count: 1e6 * seconds[f"{name} {count}"] / (passes[count] * count * K)
            for count in counts
        }
        for name in ("fgmp", "floor")
    }
    first, last = counts[0], counts[-1]
    growth = {name: values[last] / values[first] for name, values in micro.items()}
    note += (
        f"the floor itself grows {np.median(growth['floor']):.2f} x, as the data leave the caches"
    )
    what = f"FedGradMP, local iteration at N={last} over N={first}"
    return Finding([Row(what, growth["fgmp"].tolist(), (AT_MOST, 1.1), note=note)])


def several(run: Callable[[], None], times: int) -> None:
    """A small federation goes several times, so that it is timed as long as a large one."""
    for _ in range(times):
        run()


def precision(scale: Scale) -> Finding:
    """float32 data against float64 data, n=10,000, where the scan of A dominates."""
    n, count = 10_000, scale.pick(5, 50, 50)
    double = fgmp.make_sparse_regression(count, ROWS, n, TAU, rng=0)
    features = [client.features.astype(np.float32) for client in double.clients]
    targets = [client.targets.astype(np.float32) for client in double.clients]
    single = fgmp.Federation.from_arrays(features, targets, truth=double.truth)
    runs = {
        "float64": answers(METHOD, double, some_model(n)),
        "float32": answers(METHOD, single, some_model(n, np.float32)),
    }
    seconds = interleaved(runs, scale.pick(3, 25, 80))
    ratios = (seconds["float64"] / seconds["float32"]).tolist()
    return Finding([Row(f"FedGradMP, float64 over float32, n={n:,}", ratios, (AT_LEAST, 1.5))])
