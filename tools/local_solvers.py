"""Measure which local solver is safe where none is named: the table in fgmp/local/defaults.py.

    local_solvers.py            all data sets, three deals of each
    local_solvers.py 30 1       so many rounds, so many deals

For each data set and solver: f(0), then the objective of FedGradMP at the end and at its best (medians over the deals),
how many runs ended above f(0), and milliseconds of computation a round. `Exact` gets two rounds.
"""

import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn import datasets

import fgmp

SOLVERS = {
    "Exact": fgmp.Exact(),
    "Newton(2)": fgmp.Newton(2),
    "SGD(2)": fgmp.SGD(2),
    "GD(1)": fgmp.GradientDescent(1),
    "GD(2)": fgmp.GradientDescent(2),
    "GD(5)": fgmp.GradientDescent(5),
}
SHORT = 2


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean zero and variance one."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread == 0, 1, spread)


def dealt(X: np.ndarray, y: np.ndarray, sizes: list[int], seed: int, by_label: bool, loss: str) -> fgmp.Federation:
    """The rows dealt to sites at random or, sorted by label, so that most sites see one or two labels."""
    order = np.random.default_rng(seed).permutation(len(y))
    if by_label:
        order = order[np.argsort(y[order], kind="stable")]
    parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])
    return fgmp.Federation.from_arrays([X[rows] for rows in parts], [y[rows] for rows in parts], loss)


def planted(n_sites: int, n_rows: int, n_features: int, seed: int, noise: float) -> fgmp.Federation:
    """Five coefficients of log-odds 1.5, and logistic noise or none."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n_features)
    x[rng.choice(n_features, 5, replace=False)] = 1.5 * rng.choice([-1, 1], 5)
    As = [rng.standard_normal((n_rows, n_features)) for _ in range(n_sites)]
    ys = [np.where(A @ x + noise * rng.logistic(size=n_rows) > 0, 1, -1) for A in As]
    return fgmp.Federation.from_arrays(As, ys, "logistic")


def even(n_rows: int, n_sites: int) -> list[int]:
    """Sites of equal size."""
    return [len(part) for part in np.array_split(np.arange(n_rows), n_sites)]


def cases(seed: int) -> Iterator[tuple[str, int, fgmp.Federation]]:
    """Name, sparsity and federation of each data set, dealt with a seed."""
    cancer, digits, iris, wine = (
        getattr(datasets, f"load_{name}")() for name in ("breast_cancer", "digits", "iris", "wine")
    )
    X, y, unequal = standardised(cancer.data), cancer.target, np.maximum(2, 569 * np.exp(np.linspace(0, 4, 12)) / 180)
    yield "breast cancer, 12 sites", 5, dealt(X, y, even(569, 12), seed, False, "logistic")
    yield "the same, 2 to 170 rows", 5, dealt(X, y, [int(size) for size in unequal], seed, False, "logistic")
    yield "the same, one class a site", 5, dealt(X, y, even(569, 12), seed, True, "logistic")
    yield "the same, raw units", 5, dealt(cancer.data, y, even(569, 12), seed, False, "logistic")
    yield "digits, 12 sites", 10, dealt(digits.data / 16, digits.target, even(1797, 12), seed, False, "softmax")
    yield (
        "digits, two classes a site",
        10,
        dealt(digits.data / 16, digits.target, even(1797, 12), seed, True, "softmax"),
    )
    yield "iris, 5 sites", 2, dealt(standardised(iris.data), iris.target, even(150, 5), seed, False, "softmax")
    yield "wine, 6 sites", 3, dealt(standardised(wine.data), wine.target, even(178, 6), seed, False, "softmax")
    yield "planted, 20 sites of 50", 5, planted(20, 50, 200, seed, 1.0)
    yield "separable, 20 sites of 50", 5, planted(20, 50, 200, seed, 0.0)
    yield "tiny, 60 sites of 8", 5, planted(60, 8, 200, seed, 1.0)
    yield "tiny, 60 sites of 2", 5, planted(60, 2, 50, seed, 1.0)


def measured(rounds: int, deals: int) -> None:
    """Print a row for each data set and solver."""
    print(f"{'data':28} {'f(0)':>6} {'solver':10} {'end':>9} {'best':>8} {'above':>6} {'ms':>7}")
    for case in zip(*map(cases, range(deals)), strict=True):
        name, tau, _ = case[0]
        for label, solver in SOLVERS.items():
            count, ends, spent = SHORT if label == "Exact" else rounds, [], time.process_time()
            for seed, (_, _, federation) in enumerate(case[: 1 if label == "Exact" else deals]):
                method = fgmp.FedGradMP(tau, solver=solver)
                objective = fgmp.simulate(method, federation, count, rng=seed).history["objective"]
                ends.append((objective[0], objective[-1], objective.min()))
            zero, last, best = np.median(ends, axis=0)
            above = sum(end > start for start, end, _ in ends)
            each = 1e3 * (time.process_time() - spent) / (count * len(ends))
            print(
                f"{name:28} {zero:6.3f} {label:10} {last:9.3f} {best:8.3f} {above:3}/{len(ends)} {each:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", fgmp.AdviceWarning)
    given = [int(word) for word in sys.argv[1:]]
    measured(given[0] if given else 30, given[1] if len(given) > 1 else 3)
