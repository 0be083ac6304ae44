"""Floors: the BLAS, LAPACK, gather and selection calls that no implementation of a step can avoid, on the same shapes.

Each floor does these calls and nothing else, in the order and layout in which they are fastest, with the positions
they need given in advance. What it leaves out, an implementation has to do on top: drawing minibatches, merging sets,
copying results, checking, adding the step to the model.

The floor of bytes is lower: what has to be read once (`must_read`), or the multiplications at the speed of the best
product (`must_multiply`), whichever takes longer.
"""

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

_LIBRARY = {
    np.dtype(np.float64): (blas.dsyrk, lapack.dpotrf, lapack.dpotrs),
    np.dtype(np.float32): (blas.ssyrk, lapack.spotrf, lapack.spotrs),
}


def pursuit(
    A: np.ndarray, y: np.ndarray, support: np.ndarray, values: np.ndarray, merged: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One local iteration of FedGradMP for the squared loss; A has contiguous columns.

    gather of the support's columns, gemv: the residual
    gemv with A': the gradient of all columns
    abs, argpartition for 2 tau: the candidates
    gather of the merged columns (3 tau), syrk: the normal matrix
    gemv: its right-hand side
    potrf, potrs: the solution
    gemv, gemv, potrs: one step of refinement
    abs, argpartition for tau: the new support

    Returns the gradient and the solution, which a test compares with the library's.
    """
    tau = len(support)
    At = A.T
    syrk, potrf, potrs = _LIBRARY[A.dtype]
    residual = values @ At.take(support, axis=0) - y
    gradient = At @ residual
    np.argpartition(np.abs(gradient), len(gradient) - 2 * tau)
    columns = At.take(merged, axis=0)
    normal = syrk(1.0, columns.T, trans=1)  # columns.T is in Fortran order: no copy
    factor, _ = potrf(normal, overwrite_a=1)
    solution, _ = potrs(factor, columns @ y)
    correction, _ = potrs(factor, columns @ (y - solution @ columns))
    solution += correction
    np.argpartition(np.abs(solution), len(merged) - tau)
    return gradient, solution


def must_read(rows: np.ndarray, columns: np.ndarray) -> float:
    """Read what a local iteration of FedGradMP cannot do without, once and nothing else.

    The minibatch's rows, shape (b, n), and the merged columns, shape (3 tau, m), each in one piece: their inner
    product with themselves is the fastest pass over memory that BLAS has.
    """
    return float(np.dot(rows.reshape(-1), rows.reshape(-1)) + np.dot(columns.reshape(-1), columns.reshape(-1)))


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


@dataclass
class Softmax:
    """The parts of one local step of softmax regression; X in row order, because rows are gathered.

    Parameters
    ----------
    X : ndarray, shape (m, n)
    hits : ndarray, shape (m, C)
        One at each row's label.
    """

    X: np.ndarray
    hits: np.ndarray

    def derivative(self, rows: np.ndarray, block: np.ndarray, w: np.ndarray) -> np.ndarray:
        """gemm of the gathered rows with w, softmax, less the labels."""
        p = block @ w
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
        p -= self.hits.take(rows, axis=0)
        return p

    def gradient(self, rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Gather of b rows, gemm, softmax, gemm: the gradient of a minibatch, as (C, n)."""
        block = self.X.take(rows, axis=0)
        return self.derivative(rows, block, w).T @ block

    def hard(self, rows: np.ndarray, w: np.ndarray, tau: int) -> None:
        """A step of FedIterHT: the gradient, abs, and partition for tau in each column."""
        gradient = self.gradient(rows, w)
        np.partition(np.abs(gradient), gradient.shape[1] - tau, axis=1)

    def soft(self, rows: np.ndarray, w: np.ndarray) -> None:
        """A step of FedMid or FedDualAvg: the gradient, clip and subtract (soft-thresholding)."""
        gradient = self.gradient(rows, w)
        gradient -= np.clip(gradient, -1e-3, 1e-3)

    def pursuit(
        self, rows: list[np.ndarray], w: np.ndarray, tau: int, used: np.ndarray, dense: bool, merged: np.ndarray
    ) -> None:
        """A local iteration of FedGradMP with SGD as its solver, whose steps take rows[1], rows[2], ..

        The gradient, abs, partition for 2 tau; then for each step the gather of b rows, gemm, softmax, gemm; abs and
        partition for tau of the merged coefficients. The steps need the pixels `used` only: the floor takes all
        pixels or gathers those, as `dense` says, and `cheaper_pursuit` finds out which is faster.
        """
        gradient = self.gradient(rows[0], w)
        np.partition(np.abs(gradient), gradient.shape[1] - 2 * tau, axis=1)
        source, model = (self.X, w) if dense else (self.X.take(used, axis=1), w.take(used, axis=0))
        for minibatch in rows[1:]:
            block = source.take(minibatch, axis=0)
            self.derivative(minibatch, block, model).T @ block
        np.partition(np.abs(merged), merged.shape[1] - tau, axis=1)
