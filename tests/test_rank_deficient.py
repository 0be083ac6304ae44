"""Systems that leave directions undetermined: no solver raises its objective there, and no rate is too large."""

import numpy as np
import pytest

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.losses import SquaredLoss
from fgmp.models import SparseModel
from fgmp.restricted import RestrictedProblem
from fgmp.solvers import SVRG, minimise_on


def systems(seed):
    """Features with null directions, and targets."""
    rng = np.random.default_rng(seed)
    A, groups = rng.standard_normal((20, 4)), np.eye(4)[rng.integers(0, 4, 20)]
    features = {
        "fewer rows": rng.standard_normal((3, 12)),
        "low rank": rng.standard_normal((20, 2)) @ rng.standard_normal((2, 9)),
        "one-hot and intercept": np.column_stack([np.ones(20), groups, A]),
        "columns twice": np.column_stack([A, A, A.sum(axis=1)]),
        "zero columns": np.column_stack([A, 0 * A]),
    }
    return {
        name: (B, rng.standard_normal(len(B)) + B @ rng.standard_normal(B.shape[1])) for name, B in features.items()
    }


NAMES = list(systems(0))
LOCAL = {
    "gradient descent": fgmp.GradientDescent,
    "Newton": fgmp.Newton,
    "SGD": fgmp.SGD,
    "SVRG": SVRG,
    "exact": lambda steps: fgmp.Exact(),
}


def objective(B, y, x):
    return np.mean((B.astype(np.longdouble) @ x.astype(np.longdouble) - y) ** 2) / 2


def starts(B, y, dtype, seed):
    """Zero, anywhere, and where nothing is left to gain."""
    anywhere = np.random.default_rng(seed).standard_normal(B.shape[1])
    best = np.linalg.lstsq(B, y, rcond=64 * np.finfo(dtype).eps)[0]  # what is rounding does not count as a direction
    return [x.astype(dtype) for x in (0 * anywhere, anywhere, best)]


def check_no_rise(B, y, dtype, seed, end_of):
    B, y = B.astype(dtype), y.astype(dtype)
    for start in starts(B.astype(float), y.astype(float), dtype, seed):
        before = objective(B, y, start)
        rounding = 64 * np.finfo(dtype).eps * max(before, objective(B, y, 0 * start))
        assert objective(B, y, end_of(B, y, start)) <= before + rounding


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("steps", [1, 5, 30])
@pytest.mark.parametrize("solver", LOCAL)
@pytest.mark.parametrize("name", NAMES)
def test_no_local_solver_raises_the_objective(name, solver, steps, dtype):
    def end_of(B, y, start):
        (client,) = fgmp.Federation.from_arrays([B], [y]).clients
        everything = np.arange(len(start))
        model = SparseModel(everything, start, start.shape)
        rng = np.random.default_rng(0)
        return minimise_on(
            everything,
            client,
            StandardBasis(),
            LOCAL[solver](min(steps, 10 if solver == "SVRG" else steps)),
            model,
            rng,
        ).values

    for seed in range(2):
        check_no_rise(*systems(seed)[name], dtype, seed, end_of)


def test_the_signal_is_the_shortest_of_those_that_fit_as_well():
    """Atoms that depend on one another, and data that do not see a direction of their span."""
    rng = np.random.default_rng(3)
    atoms, A, y = rng.standard_normal((8, 11)), rng.standard_normal((20, 8)), rng.standard_normal(20)
    A -= np.outer(A @ (direction := np.linalg.qr(rng.standard_normal((8, 1)))[0][:, 0]), direction)
    dictionary = fgmp.Dictionary(atoms)
    (client,) = fgmp.Federation.from_arrays([dictionary.products(A)], [y]).clients
    model = minimise_on(np.arange(11), client, dictionary, fgmp.Exact(), SparseModel.zero((11,)), rng)
    np.testing.assert_allclose(atoms @ model.values, np.linalg.lstsq(A, y, rcond=1e-10)[0], atol=1e-9)


def features_with_structure(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 1)) + 0.5 * rng.standard_normal((60, 30))
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    return {
        "intercept and standardised": np.column_stack([np.ones(60), A]),
        "opposite columns": np.column_stack([A, -A[:, ::-1]]),
        "one long row": np.vstack([A, 100 * rng.standard_normal(30)]),
        "other units": A * 10.0 ** rng.integers(-6, 7, 30),
        "one column": A[:, :1],
        "nothing": np.zeros((5, 3)),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", features_with_structure(0))
def test_an_automatic_rate_is_at_most_twice_the_inverse_of_the_curvature(name, dtype):
    for seed in range(5):
        B = features_with_structure(seed)[name].astype(dtype)
        problem = RestrictedProblem(B, np.ones(len(B), dtype), SquaredLoss())
        curvature = np.linalg.norm(B.astype(float), 2) ** 2 / len(B)
        assert curvature <= problem.largest_curvature() * (1 + 1e-5) <= 1.06 * curvature
        assert curvature <= problem.steepest_row() * (1 + 1e-5)
        assert problem.stochastic_curvature(None) == problem.stochastic_curvature(len(B)) == problem.largest_curvature()
        for size in (1, 3, len(B) - 1):
            assert problem.stochastic_curvature(size) * (1 + 1e-5) >= curvature


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_rate_on_minibatches_is_that_of_their_mean_squares(size):
    """E H_J^2 over all minibatches is at most the curvature times H, and near it for a row that is steeper by far."""
    from itertools import combinations

    rng = np.random.default_rng(0)
    B = rng.standard_normal((5, 3)) * np.array([[1], [1], [1], [1], [30]])
    problem, H = RestrictedProblem(B, np.zeros(5), SquaredLoss()), B.T @ B / 5
    batches = [B[list(rows)].T @ B[list(rows)] / size for rows in combinations(range(5), size)]
    squares, root = np.mean([J @ J for J in batches], axis=0), np.linalg.inv(np.linalg.cholesky(H))
    largest = np.linalg.eigvalsh(root @ squares @ root.T)[-1]
    assert largest <= problem.stochastic_curvature(size) <= 1.1 * largest


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("data", ["full", "null direction", "few rows", "faint direction"])
def test_exact_solves_in_an_overcomplete_dictionary_stay_below_zero_model(data, dtype, unit):
    """On up to 12 atoms of R^8, which are dependent, with data that say nothing of a direction."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dictionary, A = fgmp.Dictionary(rng.standard_normal((8, 12)).astype(dtype)), rng.standard_normal((20, 8))
        A[:, 0] *= {"null direction": 0, "faint direction": 1e-10}.get(data, 1)
        A, y = (unit * A[: 5 if data == "few rows" else 20]).astype(dtype), rng.standard_normal(20).astype(dtype)
        y = y[: len(A)]
        (client,) = fgmp.Federation.from_arrays([dictionary.products(A)], [y]).clients
        for size in (6, 9, 12):
            merged = np.sort(rng.choice(12, size, replace=False))
            model = minimise_on(merged, client, dictionary, fgmp.Exact(), SparseModel.zero((12,), dtype), rng)
            x = dictionary.atoms.astype(float) @ model.dense()
            S = (A.astype(float) @ dictionary.atoms.astype(float)[:, merged]).astype(float)
            best = S @ np.linalg.lstsq(S, y, rcond=1e-5 if dtype == np.float32 else 1e-8)[0]
            assert objective(A, y, x) <= np.mean((best - y) ** 2) / 2 + (
                1e-4 if dtype == np.float32 else 1e-6
            ) * np.mean(y**2)
