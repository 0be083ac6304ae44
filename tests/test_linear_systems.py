"""Small linear systems against the pseudo-inverse, in any units and conditions; what a softmax leaves undetermined."""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.linear_systems import fill_shifts, least_squares, solve_definite, solve_semidefinite
from fgmp.restricted import RestrictedProblem


def ill_conditioned(rng, condition, dtype, shape=(100, 20)):
    left = np.linalg.qr(rng.standard_normal(shape))[0]
    right = np.linalg.qr(rng.standard_normal((shape[1], shape[1])))[0]
    columns = ((left * np.geomspace(1, 1 / condition, shape[1])) @ right.T).astype(dtype)
    exact = columns.astype(float) @ rng.standard_normal(shape[1])
    return columns, (exact + 0.1 * np.linalg.norm(exact) / 10 * rng.standard_normal(shape[0])).astype(dtype)


@pytest.mark.parametrize(("dtype", "condition"), [(np.float32, 300), (np.float32, 3e3), (np.float64, 1e4)])
def test_least_squares_has_no_excess_above_its_precision(dtype, condition):
    for seed in range(10):
        columns, targets = ill_conditioned(np.random.default_rng(seed), condition, dtype)
        wide, y = columns.astype(float), targets.astype(float)
        best = np.sum((wide @ np.linalg.lstsq(wide, y, rcond=None)[0] - y) ** 2)
        excess = np.sum((wide @ least_squares(columns, targets).astype(float) - y) ** 2) / best - 1
        # Coefficients off by eps times the condition move predictions by as much, which enters squared.
        assert excess <= (10 * np.finfo(dtype).eps * condition) ** 2 + 1e-13


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_least_squares_in_other_units_is_the_same_solution(dtype):
    rng = np.random.default_rng(1)
    columns, targets = rng.standard_normal((30, 6)).astype(dtype), rng.standard_normal(30).astype(dtype)
    units = 2.0 ** np.array([0, -30, 20, 0, 25, -12])
    plain, other = least_squares(columns, targets), least_squares(columns * units.astype(dtype), targets)
    np.testing.assert_allclose(other * units, plain, rtol=50 * np.finfo(dtype).eps)


def test_dependent_columns_in_other_units_keep_their_rank():
    """Twice the same column and a small one: the minimum norm shares the coefficient and finds the small one."""
    a, b = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 2)))[0].T
    columns = np.stack([a, a, 1e-4 * b], axis=1)
    np.testing.assert_allclose(least_squares(columns, 2 * a + 3 * b), [1, 1, 3e4], rtol=1e-6)
    gram = columns.T @ columns
    np.testing.assert_allclose(solve_semidefinite(gram, columns.T @ (2 * a + 3 * b)), [1, 1, 3e4], rtol=1e-6)
    columns[:, 2] *= 1e-9  # the shares are lost in the rounding of the large coefficient, the fit is not
    np.testing.assert_allclose(columns @ least_squares(columns, 2 * a + 3 * b), 2 * a + 3 * b, rtol=1e-9)


def test_minimum_norm_is_that_of_the_pseudo_inverse():
    rng = np.random.default_rng(5)
    for shape in ((4, 9), (9, 6)):
        columns = rng.standard_normal(shape) * rng.uniform(0.5, 2, shape[1])
        columns[:, 3] = columns[:, 1] - 2 * columns[:, 0]
        targets = rng.standard_normal(shape[0])
        np.testing.assert_allclose(least_squares(columns, targets), np.linalg.pinv(columns) @ targets, atol=1e-10)
        gram, right = columns.T @ columns, columns.T @ targets
        np.testing.assert_allclose(solve_semidefinite(gram, right), np.linalg.pinv(columns) @ targets, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "condition"), [(np.float32, 1e2), (np.float64, 1e2), (np.float64, 1e6), (np.float64, 1e10)]
)
def test_with_fewer_rows_than_columns_the_solution_is_the_shortest_to_machine_precision(dtype, condition):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        left, right = (np.linalg.qr(rng.standard_normal((size, 8)))[0] for size in (8, 30))
        sizes = np.geomspace(1, 1 / condition, 8)
        targets = (left * sizes) @ (left.T @ rng.standard_normal(8))
        shortest = right @ ((left.T @ targets) / sizes)
        error = least_squares(((left * sizes) @ right.T).astype(dtype), targets.astype(dtype)) - shortest
        assert np.linalg.norm(error) <= 10 * np.finfo(dtype).eps * condition * np.linalg.norm(shortest)


def test_a_row_that_others_explain_costs_no_accuracy():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((4, 9))
    columns = np.vstack([rows, rows[0] - rows[3] + 1e-12 * rng.standard_normal(9)])
    solution = rng.standard_normal(9)
    np.testing.assert_allclose(columns @ least_squares(columns, columns @ solution), columns @ solution, rtol=1e-10)


def test_nothing_to_solve_is_solved():
    factor, solution = solve_definite(np.zeros((0, 0)), np.zeros(0))
    assert factor.shape == (0, 0) and solution.shape == (0,)
    assert least_squares(np.zeros((5, 0)), np.ones(5)).shape == (0,)
    assert solve_semidefinite(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


def classified(seed, n_features):
    """The client of 300 rows with three classes."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((300, n_features)) * np.array([1, 1e-5, 1e3, 1, 1])[:n_features]
    return fgmp.Federation.from_arrays([A], [rng.integers(0, 3, 300)], "softmax").clients[0]


def test_filled_shifts_have_their_own_curvature_and_no_gradient():
    client, rng = classified(0, 3), np.random.default_rng(0)
    problem = RestrictedProblem.of(client, np.arange(9), StandardBasis(), orthonormal=True)
    predictions = client.predictions(rng.standard_normal((3, 3)) / np.array([[1], [1e-5], [1e3]]))
    hessian, shifts = problem.hessian(predictions), problem.shifts
    assert shifts.shape == (9, 3)
    np.testing.assert_allclose(shifts.T @ shifts, np.eye(3), atol=1e-15)
    filled, gradient = fill_shifts(hessian, problem.gradient(predictions), shifts)
    np.testing.assert_allclose(shifts.T @ gradient, 0, atol=1e-13 * np.abs(gradient).max())
    for i, shift in enumerate(shifts.T):
        assert shift @ filled @ shift == pytest.approx(hessian.diagonal()[3 * i : 3 * i + 3].mean())
    across = rng.standard_normal((9, 4))
    across -= shifts @ (shifts.T @ across)
    np.testing.assert_allclose(filled @ across, hessian @ across, rtol=1e-9, atol=1e-9 * np.abs(hessian).max())


def test_shifts_in_a_dictionary_are_all_signals_that_every_output_can_add():
    """Five atoms of eight for each of three outputs in R^5 span everything, with few atoms in common."""
    dictionary = fgmp.Dictionary(np.random.default_rng(2).standard_normal((5, 8)))
    client = classified(1, 5)
    client = replace(client, features=dictionary.products(client.features))
    merged = np.sort([3 * atom + c for c, first in enumerate((0, 1, 3)) for atom in range(first, first + 5)])
    problem = RestrictedProblem.of(client, merged, dictionary, orthonormal=True)
    assert problem.shifts.shape == (15, 5)
    for shift in problem.shifts.T:
        predictions = problem.predictions(shift)
        same = predictions[:, :1].repeat(3, axis=1)
        np.testing.assert_allclose(predictions, same, atol=1e-10 * np.abs(same).max())
    few = RestrictedProblem.of(client, merged[merged % 3 == 0], dictionary, orthonormal=True)
    assert few.shifts.shape[1] == 0


def test_newton_steps_in_float32_go_on_to_the_rounding_of_the_objective():
    """A good step near the minimum may raise the objective by its last digit; it is taken all the same."""
    distances = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((300, 5)).astype(np.float32)
        y = np.where(A[:, 0] + rng.standard_normal(300) > 0, 1, -1)
        ends = []
        for dtype in (np.float32, np.float64):
            federation = fgmp.Federation.from_arrays(np.split(A.astype(dtype), 5), np.split(y, 5), "logistic")
            method = fgmp.SharedSupportGradMP(5, solver=fgmp.NewtonOnSupport(6))
            ends.append(fgmp.simulate(method, federation, 2, rng=0).x)
        distances.append(np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1]))
    assert max(distances) < 50 * np.finfo(np.float32).eps  # a refused step leaves sqrt(eps), 3e-4
