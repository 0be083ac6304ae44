"""What one would write first: the textbook versions that the library is compared with.

They compute the same numbers as the library on the same minibatches (tests/test_benchmarks.py says so) and use nothing
but the plainest NumPy.
"""

from collections.abc import Iterable

import numpy as np


def draw_rows(
    n_rows: int, batch_size: int, count: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """`count` minibatches without replacement."""
    return [rng.choice(n_rows, batch_size, replace=False) for _ in range(count)]


def gradient_matching_pursuit(
    A: np.ndarray, y: np.ndarray, x: np.ndarray, sparsity: int, batches: Iterable[np.ndarray]
) -> np.ndarray:
    """A client's round of FedGradMP for the squared loss: gathered rows, dense residual, `argpartition`, `lstsq`."""
    for rows in batches:
        A_rows, y_rows = A[rows], y[rows]
        gradient = A_rows.T @ (A_rows @ x - y_rows) / len(rows)
        candidates = np.argpartition(-np.abs(gradient), 2 * sparsity)[: 2 * sparsity]
        merged = np.union1d(candidates, np.flatnonzero(x))
        b = np.linalg.lstsq(A[:, merged], y, rcond=None)[0]
        kept = np.argpartition(-np.abs(b), sparsity)[:sparsity]
        x = np.zeros_like(x)
        x[merged[kept]] = b[kept]
    return x


def gradient_matching_pursuit_rounds(
    data: list[tuple[np.ndarray, np.ndarray]],
    truth: np.ndarray,
    sparsity: int,
    rounds: int,
    steps: int,
    batch: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Rounds of all clients, with relative error and objective after each."""
    x, history = np.zeros_like(truth), []
    for _ in range(rounds):
        ends = [
            gradient_matching_pursuit(A, y, x, sparsity, draw_rows(len(y), batch, steps, rng))
            for A, y in data
        ]
        mean = sum(ends) / len(ends)
        kept = np.argpartition(-np.abs(mean), sparsity)[:sparsity]
        x = np.zeros_like(truth)
        x[kept] = mean[kept]
        objective = np.mean([np.mean((A @ x - y) ** 2) / 2 for A, y in data])
        history.append((float(np.linalg.norm(x - truth) / np.linalg.norm(truth)), float(objective)))
    return x, history


def softmax_gradient(X: np.ndarray, labels: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The mean gradient of the softmax loss over the rows of X."""
    scores = X @ w
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return X.T @ p / len(labels)


def softmax_descent(
    X: np.ndarray, labels: np.ndarray, w: np.ndarray, rate: float, batches: Iterable[np.ndarray]
) -> np.ndarray:
    """A client's round of FedAvg for the softmax loss, on given minibatches."""
    for rows in batches:
        w = w - w.dtype.type(rate) * softmax_gradient(X[rows], labels[rows], w)
    return w


def softmax_steps(
    X: np.ndarray,
    labels: np.ndarray,
    w: np.ndarray,
    rate: float,
    steps: int,
    batch: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """The same, with minibatches of its own."""
    return softmax_descent(X, labels, w, rate, draw_rows(len(labels), batch, steps, rng))


def softmax_pursuit(
    X: np.ndarray,
    labels: np.ndarray,
    w: np.ndarray,
    sparsity: int,
    rate: float,
    batches: Iterable[list[np.ndarray]],
) -> np.ndarray:
    """A client's round of FedGradMP for the softmax loss: the first minibatch of each list selects, the others step."""

    def largest(entries: np.ndarray, count: int) -> np.ndarray:
        return np.argpartition(-np.abs(entries), count, axis=0)[:count]

    for first, *others in batches:
        gradient, merged = softmax_gradient(X[first], labels[first], w), w != 0
        np.put_along_axis(merged, largest(gradient, 2 * sparsity), True, axis=0)
        for rows in others:
            w = w - w.dtype.type(rate) * np.where(
                merged, softmax_gradient(X[rows], labels[rows], w), 0
            )
        kept = largest(w, sparsity)
        pruned = np.zeros_like(w)
        np.put_along_axis(pruned, kept, np.take_along_axis(w, kept, axis=0), axis=0)
        w = pruned
    return w


def logistic_pursuit(
    A: np.ndarray, y: np.ndarray, x: np.ndarray, sparsity: int, count: int
) -> np.ndarray:
    """A client's round of FedGradMP for the logistic loss: `count` gradient steps on all rows, with a line search."""

    def value(scores: np.ndarray) -> float:
        return np.mean(np.logaddexp(0, -y * scores))

    def gradient(B: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return B.T @ (-y / (1 + np.exp(y * scores))) / len(y)

    for _ in range(count):
        candidates = np.argpartition(-np.abs(gradient(A, A @ x)), 2 * sparsity)[: 2 * sparsity]
        merged = np.union1d(candidates, np.flatnonzero(x))
        B, b = A[:, merged], x[merged]
        scores = B @ b
        direction = -gradient(B, scores)
        image, slope = B @ direction, -direction @ direction
        p = 1 / (1 + np.exp(-scores))
        length = -slope / np.mean(image**2 * p * (1 - p))
        while value(scores + length * image) > value(scores) + 1e-4 * length * slope:
            length /= 2
        b = b + length * direction
        kept = np.argpartition(-np.abs(b), sparsity)[:sparsity]
        x = np.zeros_like(x)
        x[merged[kept]] = b[kept]
    return x
