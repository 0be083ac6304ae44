"""Floors: what a step cannot do without, whatever computes it.

What has to be read once (`must_read`), or the multiplications at the speed of the best product (`must_multiply`),
whichever takes longer; for one client three passes over its matrix (`scans`).
"""

import time

import numpy as np


def must_read(rows: np.ndarray, columns: np.ndarray) -> float:
    """Read what a local iteration of FedGradMP cannot do without, once and nothing else.

    The minibatch's rows, shape (b, n), and the merged columns, shape (3 tau, m), each in one piece: their inner
    product with themselves is the fastest pass over memory that BLAS has.
    """
    return float(
        np.dot(rows.reshape(-1), rows.reshape(-1))
        + np.dot(columns.reshape(-1), columns.reshape(-1))
    )


def must_multiply(n: int, m: int, batch: int, tau: int) -> int:
    """Multiplications of the same iteration: gradient, residual, normal matrix, right-hand side, factor, refinement."""
    k = 3 * tau
    return batch * n + tau * m + k * (k + 1) // 2 * m + 3 * k * m + k**3 // 6 + 2 * k * k


def seconds_per_multiplication(repetitions: int = 20) -> float:
    """Of this machine's best product: two matrices that a cache holds."""
    matrix = np.random.default_rng(0).random((256, 256))
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - began)
    return min(times) / 256**3


def scans(A: np.ndarray, residuals: list[np.ndarray]) -> None:
    """One pass over A for each residual: gemv with A'."""
    At = A.T
    for residual in residuals:
        At @ residual
