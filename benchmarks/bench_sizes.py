"""Target 9: many features in sparse matrices."""

import numpy as np
from bench_growth import memory
from harness import AT_MOST, Finding, Row, Scale, interleaved
from scipy import sparse

import fgmp

FEATURES, ROWS, PER_ROW, TAU = 100_000, 1000, 50, 10


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
        what = f"CSR, n=100,000, {loss} loss"
        note = f"{count} clients of 1,000 rows with 50 nonzeros, {data / 1e6:.0f} MB; dense {count * 0.8:.0f} GB"
        rows.append(Row(9, f"{what}: a round", list(seconds), (AT_MOST, 10), "s", note))
        beyond = [1e6 * memory(run) / data]
        rows.append(Row(9, f"{what}: peak memory beyond the data, over it", beyond, (AT_MOST, 2), "x"))
    return Finding(rows)
