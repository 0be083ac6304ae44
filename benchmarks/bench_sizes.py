"""Target 9: many features in sparse matrices, and many clients of which a round visits a few."""

from functools import partial

import numpy as np
from bench_growth import memory
from harness import AT_MOST, Finding, Row, Scale, interleaved
from machine import available_gigabytes
from scipy import sparse

import fgmp

FEATURES, ROWS, PER_ROW, TAU = 100_000, 1000, 50, 10
COHORT = 100


def sparse_clients(count: int, loss: str) -> list[tuple[sparse.csr_array, np.ndarray]]:
    """Clients of 1,000 rows with about 50 nonzeros each, in columns as unequal as words are; ten of them matter."""
    rng, made = np.random.default_rng(0), []
    shares = np.arange(1, FEATURES + 1) ** -0.5
    ends, edges = np.arange(0, ROWS * PER_ROW + 1, PER_ROW, dtype=np.int32), np.cumsum(shares / shares.sum())
    for _ in range(count):
        columns = np.minimum(np.searchsorted(edges, rng.random(ROWS * PER_ROW)), FEATURES - 1).astype(np.int32)
        A = sparse.csr_array((rng.standard_normal(len(columns)), columns, ends.copy()), shape=(ROWS, FEATURES))
        A.sum_duplicates()
        z = 2 * A[:, :TAU].sum(axis=1) + 0.1 * rng.standard_normal(ROWS)
        made.append((A, z if loss == "squared" else np.where(z > 0, 1, -1)))
    return made


def sparse_features(scale: Scale) -> Finding:
    """FedGradMP with 100,000 features: seconds a round, and memory against that of the nonzeros."""
    count, repetitions, rows = scale.pick(2, 100, 100), scale.pick(1, 3, 9), []
    for loss in ("squared", "logistic"):
        As, ys = zip(*sparse_clients(count, loss), strict=True)
        data = sum(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes for A in As)
        method = fgmp.FedGradMP(TAU)

        def run(As=As, ys=ys, loss=loss, method=method) -> fgmp.Result:
            federation = fgmp.Federation.from_arrays(As, ys, loss)
            return fgmp.simulate(method, federation, 2, rng=0, record_every=2)

        seconds = interleaved({"run": run}, repetitions)["run"] / 2
        what = f"FedGradMP on CSR, n=100,000, {loss} loss"
        note = f"{count} clients of 1,000 rows with 50 nonzeros, {data / 1e6:.0f} MB; dense {count * 0.8:.0f} GB"
        rows.append(Row(9, f"{what}: a round", list(seconds), (AT_MOST, 10), "s", note))
        beyond = [1e6 * memory(run) / data]
        rows.append(Row(9, f"{what}: peak memory beyond the data, over the data", beyond, (AT_MOST, 2), "x"))
    return Finding(rows)


def many_clients(scale: Scale) -> Finding:
    """Clients of 20 rows and 200 features: memory over the data, and a round of 100 of them over that of only 100."""
    count, rounds = scale.pick(2000, 100_000, 100_000), scale.pick(2, 20, 20)
    needed = 1.5 * count * 20 * 200 * 8 / 1e9
    note = f"{count:,} clients"
    if available_gigabytes() < needed:
        count = max(1000, int(count * available_gigabytes() / needed / 2))
        note = f"{count:,} clients, because {available_gigabytes():.0f} GB are there"
    rng, truth = np.random.default_rng(0), np.zeros(200)
    truth[:5] = 1
    X = rng.standard_normal((20 * count, 200))
    As = [X[start : start + 20] for start in range(0, len(X), 20)]
    ys = [A @ truth + 0.1 * rng.standard_normal(20) for A in As]
    method, options = fgmp.FedGradMP(5), {"rng": 0, "objective_on": COHORT}

    def start_and_round() -> fgmp.Result:
        return fgmp.simulate(method, fgmp.Federation.from_arrays(As, ys), 1, COHORT, **options)

    whole = (X.nbytes + 1e6 * memory(start_and_round)) / X.nbytes
    counts = sorted({COHORT, min(10_000, count // 2), count})
    federations = {number: fgmp.Federation.from_arrays(As[:number], ys[:number]) for number in counts}

    def rounds_of(number: int, length: int) -> fgmp.Result:
        return fgmp.simulate(method, federations[number], length, COHORT, record_every=max(length, 1), **options)

    runs = {f"{number} {length}": partial(rounds_of, number, length) for number in counts for length in (0, rounds)}
    seconds = interleaved(runs, scale.pick(2, 9, 25))
    each = {number: (seconds[f"{number} {rounds}"] - seconds[f"{number} 0"]) / rounds for number in counts}
    start = 1e3 * float(np.median(seconds[f"{count} 0"]))
    words = f"{1e3 * np.median(each[count]):.3g} ms; the start takes {start:.3g} ms; data of 100 stay in the caches"
    what = f"a round of 100 of {count:,} clients over 100 of"
    first, middle, _ = counts
    return Finding(
        [
            Row(9, "memory of a run over its data, 20 rows x 200 features", [whole], (AT_MOST, 1.5), "x", note),
            Row(9, f"{what} {first}", list(each[count] / each[first]), (AT_MOST, 1.1), "x", words),
            Row(9, f"{what} {middle:,}", list(each[count] / each[middle])),
        ]
    )
