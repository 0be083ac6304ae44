"""The raw arrays of a case, and the numbers that follow its units.

Entries are rounded to float32 and multiplied by powers of two, so that the runs of a case in both
precisions and in all units have the same data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from cases import N_CLASSES

from .options import UNITS, Case

N_FEATURES = 8
SIZES = {
    "even": (12, 12, 12, 12),
    "uneven": (12, 20, 13, 17),
    "tiny": (3, 3, 3, 3, 3, 3),  # fewer rows than 3 tau, and in a cohort of a half than 6 tau
    "blank": (12, 5, 14, 13),  # the second client holds zeros
    "single": (20,),
}
WEIGHTS = {
    "uneven": (3.0, 1.0, 0.0, 0.7),
    "tiny": (1.0, 2.0, 0.1, 1.0, 0.3, 5.0),
    "blank": (1.0, 1.0, 2.0, 0.5),
}
MIXED = 2.0 ** np.array([0, -20, 13, 20, -13, 0, 7, -7])


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of a case, in its precision and its units.

    Models are `unit` times those of the case in units of one. `steepness` is the largest curvature
    of a client's objective and `slope` the largest entry of a client's gradient at zero, in
    coefficients. Where columns are mixed, both units are 1, and these are of the data. Without
    weights they are the numbers of rows, and without atoms they are the standard basis.
    """

    loss: str
    As: list
    ys: list
    weights: np.ndarray | None
    atoms: np.ndarray | None
    truth: np.ndarray
    column: float
    target: float
    steepness: float
    slope: float

    @property
    def unit(self) -> float:
        return self.target / self.column

    @property
    def psi(self) -> np.ndarray:
        return np.eye(N_FEATURES) if self.atoms is None else self.atoms.astype(np.float64)

    @property
    def shares(self) -> np.ndarray:
        weights = np.array([len(A) for A in self.As]) if self.weights is None else self.weights
        return weights / weights.sum()

    def bits(self) -> list[bytes]:
        arrays = [*self.As, *self.ys, self.truth, self.weights, self.atoms]
        return [array.tobytes() for array in arrays if array is not None]

    @property
    def n_outputs(self) -> int:
        return N_CLASSES if self.loss == "softmax" else 1


@lru_cache(maxsize=256)
def problem_of(case: Case) -> Problem:
    """Return the problem of a case, which cases that differ in the method alone share."""
    base = _base(case.loss, case.federation, case.dictionary)
    if case.columns == "mixed":
        base = _measured(
            replace(base, As=[A * MIXED for A in base.As], truth=(base.truth.T / MIXED).T)
        )
    column = 1.0 if case.columns == "mixed" else UNITS[case.columns]
    target = UNITS[case.targets] if case.loss in ("squared", "summed") else 1.0
    steepness = base.steepness * column**2
    slope = base.slope * column * target
    precision = np.dtype(case.precision)
    As = [np.array(A * column, precision) for A in base.As]  # in the order that is not copied
    ys = base.ys if case.loss == "softmax" else [np.array(y * target, precision) for y in base.ys]
    atoms = base.atoms
    # Other atoms stay in float64, as gaussian_dictionary has them.
    if case.dictionary in ("omp", "wide-thresholding"):
        atoms = atoms.astype(precision)
    truth = (base.truth * target / column).astype(precision)
    return Problem(base.loss, As, ys, base.weights, atoms, truth, column, target, steepness, slope)


def _base(loss: str, federation: str, dictionary: str) -> Problem:
    """Return a problem in units of one and in float64."""
    rng = np.random.default_rng([sorted(SIZES).index(federation), len(loss), len(dictionary)])
    atoms = _atoms(dictionary, rng)
    psi = np.eye(N_FEATURES) if atoms is None else atoms
    shape = (psi.shape[1], N_CLASSES) if loss == "softmax" else (psi.shape[1],)
    alpha = np.zeros(shape)
    alpha[[1, 4]] = rng.choice([-1, 1], (2, *shape[1:])) * rng.uniform(0.5, 2, (2, *shape[1:]))
    truth = _rounded(psi @ alpha)
    As = [_rounded(rng.standard_normal((m, N_FEATURES))) for m in SIZES[federation]]
    ys = [_targets(loss, A @ truth, rng) for A in As]
    if loss in ("logistic", "softmax") and federation != "tiny":
        labels = range(N_CLASSES) if loss == "softmax" else (-1.0, 1.0)
        As, ys = zip(
            *(_inseparable(A, y, labels) for A, y in zip(As, ys, strict=True)), strict=True
        )
    As = list(As)
    ys = list(ys)
    if federation == "blank":
        As[1] = np.zeros_like(As[1])
        ys[1] = np.full_like(ys[1], loss == "logistic")
    weights = np.array(WEIGHTS[federation]) if federation in WEIGHTS else None
    return _measured(Problem(loss, As, ys, weights, atoms, truth, 1.0, 1.0, 0.0, 0.0))


def _atoms(dictionary: str, rng: np.random.Generator) -> np.ndarray | None:
    if dictionary == "standard":
        return None
    if dictionary == "orthonormal":
        # Entries are multiples of 1/4, so that they are orthonormal in either precision.
        half = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
        blocks = np.kron(np.eye(2), half)
        return blocks[:, rng.permutation(N_FEATURES)] @ blocks
    n_atoms = N_FEATURES + 4 * dictionary.startswith("wide")
    return _rounded(
        rng.uniform(0.5, 2, n_atoms) * (rng.standard_normal((N_FEATURES, n_atoms)) + 0.3)
    )


def _targets(loss: str, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if loss == "softmax":
        return (z + 0.5 * rng.standard_normal(z.shape)).argmax(axis=1)
    noisy = z + 0.2 * rng.standard_normal(z.shape)
    return np.where(noisy > 0, 1.0, -1.0) if loss == "logistic" else _rounded(noisy)


def _inseparable(A: np.ndarray, y: np.ndarray, labels) -> tuple[np.ndarray, np.ndarray]:
    """Repeat eight rows under every label, so that no direction separates the labels."""
    rows = A[:N_FEATURES]
    repeated = np.repeat(np.array(labels, dtype=y.dtype), len(rows))
    return np.vstack([A, *[rows] * len(labels)]), np.concatenate([y, repeated])


def _measured(problem: Problem) -> Problem:
    psi = problem.psi
    curvature = {"squared": 1.0, "summed": 1.0, "logistic": 0.25, "softmax": 0.5}[problem.loss]
    Bs = [A @ psi for A in problem.As]
    counts = [1 if problem.loss == "summed" else len(B) for B in Bs]
    steepness = max(
        curvature * np.linalg.norm(B, 2) ** 2 / m for B, m in zip(Bs, counts, strict=True)
    )
    pulls = [_pull(problem.loss, y) for y in problem.ys]
    slope = max(np.abs(B.T @ pull).max() / m for B, pull, m in zip(Bs, pulls, counts, strict=True))
    return replace(problem, steepness=steepness, slope=slope)


def _pull(loss: str, y: np.ndarray) -> np.ndarray:
    """-l'(0, y), row by row."""
    if loss == "softmax":
        return np.eye(N_CLASSES)[y] - 1 / N_CLASSES
    return y / 2 if loss == "logistic" else y


def _rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)
