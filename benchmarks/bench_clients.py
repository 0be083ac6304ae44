"""Target 9: federations of 100 to 100,000 small clients, of which a round visits 100."""

import time
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
from bench_growth import memory
from harness import AT_MOST, Curve, Finding, Row, Scale, interleaved
from machine import available_gigabytes

import fgmp
from fgmp.running.books import Progress, Totals
from fgmp.running.rounds import draw_cohort, play_round
from fgmp.running.transports import InProcess

ROWS, FEATURES, COHORT, TAU = 20, 200, 100, 5
METHOD = fgmp.FedGradMP(TAU)


def data(clients: int) -> tuple[np.ndarray, np.ndarray]:
    """All clients in one array, of shape (clients, rows, features)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((clients, ROWS, FEATURES))
    return X, X[:, :, :TAU].sum(axis=2) + 0.1 * rng.standard_normal((clients, ROWS))


def read(X: np.ndarray) -> None:
    """The floor of whatever looks at all data: one pass, in pieces of a megabyte."""
    entries = X.reshape(-1)
    for start in range(0, len(entries), 2**17):
        piece = entries[start : start + 2**17]
        np.dot(piece, piece)


def rounds(federations: list[fgmp.Federation], length: int) -> Callable[[], None]:
    """So many rounds, each in the next federation; time goes on from call to call."""
    transports, numbers, start = [InProcess(federation) for federation in federations], count(), METHOD.start
    for transport in transports:
        transport.prepare(METHOD, 0)

    def run() -> None:
        state = start(federations[0].shape)
        for number in (next(numbers) for _ in range(length)):
            transport = transports[number % len(transports)]
            shape = transport.shape
            cohort = draw_cohort(0, number + 1, shape.n_clients, COHORT)
            state = play_round(METHOD, Progress(number, state, Totals()), transport, shape.weights, cohort, 0).state

    return run


def scattered(whole: fgmp.Federation, size: int) -> list[fgmp.Federation]:
    """All clients dealt out to federations of some: a round in each in turn reads what no cache holds."""
    groups = np.random.default_rng(1).permutation(whole.n_clients).reshape(-1, size)
    return [fgmp.Federation(tuple(whole.clients[i] for i in group), np.ones(size)) for group in groups]


def many_clients(scale: Scale) -> Finding:
    """Processor time and peak memory against N: what happens once, and a round of 100."""
    counts = scale.pick([100, 400, 1600], [100, 1000, 10_000, 100_000], [100, 1000, 10_000, 100_000])
    needed, note = 1.3 * counts[-1] * ROWS * FEATURES * 8 / 1e9, ""
    if available_gigabytes() < needed:
        note = f"; N={counts[-1]:,} needs {needed:.1f} GB and {available_gigabytes():.1f} GB are there"
        counts = counts[:-1]
    X, y = data(counts[-1])

    def start(size: int, length: int = 0) -> fgmp.Result:
        federation = fgmp.Federation.from_arrays(X[:size], y[:size])
        return fgmp.simulate(METHOD, federation, length, COHORT, rng=0, objective_on=COHORT)

    runs = {f"start {size}": partial(start, size) for size in counts}
    runs |= {f"floor {size}": partial(read, X[:size]) for size in counts}
    runs["as a list"] = partial(fgmp.Federation.from_arrays, list(X), list(y))
    runs["objective"] = partial(fgmp.Federation.from_arrays(X, y).objective, np.zeros(FEATURES))
    once = {name: 1e3 * seconds for name, seconds in interleaved(runs, scale.pick(1, 5, 15), time.process_time).items()}

    length, whole = 3, fgmp.Federation.from_arrays(X, y)
    federations = {size: scattered(whole, size) for size in counts[:-1]} | {counts[-1]: [whole]}
    runs = {str(size): rounds(found, length) for size, found in federations.items()}
    played = interleaved(runs, scale.pick(2, 120, 300), time.process_time)
    each = {name: 1e3 * seconds / length for name, seconds in played.items()}
    many = scale.pick(2, 20, 20)  # of which one is not in the caches yet
    runs = {"in no cache": rounds([whole], many), "in caches": rounds(federations[COHORT][:1], many)}
    warm = interleaved(runs, scale.pick(2, 15, 40), time.process_time)
    each |= {name: 1e3 * seconds / many for name, seconds in warm.items()}
    peaks = [(X[:size].nbytes + y[:size].nbytes) / 1e6 + memory(partial(start, size, 1)) for size in counts]
    return Finding(_rows(counts, once, each, peaks, note), _curves(counts, once, each, peaks))


def _rows(
    counts: list[int], once: dict[str, np.ndarray], each: dict[str, np.ndarray], peaks: list[float], note: str
) -> list[Row]:
    last, time_of = counts[-1], {name: float(np.median(values)) for name, values in (once | each).items()}
    what, size = f"a round of 100 of {last:,} clients over", f"{last:,} clients of {ROWS} x {FEATURES}"
    data_size = 8e-6 * last * ROWS * (FEATURES + 1)
    hot, cold = each["in no cache"] / each["in caches"], each[str(last)] / each[str(COHORT)]
    took, ratio = f"{time_of[str(last)]:.3g} ms", once[f"start {last}"] / once[f"floor {last}"]
    words = f"{time_of[f'start {last}']:.0f} ms; construction from lists {time_of['as a list']:.0f} ms{note}"
    return [
        Row(9, f"memory of a run over its data, {size}", [peaks[-1] / data_size], (AT_MOST, 1.5), note=note[2:]),
        Row(9, f"{what} 100 of 100, data of both in no cache", cold.tolist(), (AT_MOST, 1.1), note=took),
        Row(9, f"{what} the same 100 in every round, in caches", hot.tolist(), (AT_MOST, 1.1)),
        Row(9, f"construction and start over one pass over the data, {size}", ratio.tolist(), note=words),
        Row(9, f"the objective of all, {size}", once["objective"].tolist(), None, "ms", "objective_on names fewer"),
    ]


def _curves(
    counts: list[int], once: dict[str, np.ndarray], each: dict[str, np.ndarray], peaks: list[float]
) -> list[Curve]:
    drawn = {
        "construction and start": [once[f"start {size}"] for size in counts],
        "a round of 100": [each[str(size)] for size in counts],
        "floor: one pass over the data": [once[f"floor {size}"] for size in counts],
    }
    times = [
        Curve("many_clients", name, counts, [float(np.median(each)) for each in values], "clients", "ms of a processor")
        for name, values in drawn.items()
    ]
    amounts = {"a run of one round": peaks, "floor: the data": [8e-6 * size * ROWS * (FEATURES + 1) for size in counts]}
    return times + [Curve("many_clients", name, counts, y, "clients", "MB at peak") for name, y in amounts.items()]
