"""Models do not depend on the units of features and targets, and float32 is float64 but for its rounding."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator
from sklearn.exceptions import ConvergenceWarning

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.linear_systems import fill_shifts, least_squares, solve_definite, solve_semidefinite
from fgmp.local.restricted import RestrictedProblem
from fgmp.local.solvers import minimise_on
from fgmp.models import SparseModel
from fgmp.pursuit import matching_pursuit


def labelled(loss, seed, dtype, n_samples=300, n_features=5):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_samples, n_features)).astype(dtype)
    if loss == "squared":
        return A, (A @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n_samples)).astype(dtype)
    noisy = A[:, :3] + rng.standard_normal((n_samples, 3))
    return A, np.where(noisy[:, 0] > 0, 1, -1) if loss == "logistic" else noisy.argmax(axis=1)


def pooled_objective(loss, A, y, x):
    """By hand and in float64."""
    z = A.astype(float) @ x.astype(float)
    if loss == "squared":
        return np.mean((z - y) ** 2) / 2
    if loss == "logistic":
        return np.mean(np.logaddexp(0, -y * z))
    return np.mean(np.logaddexp.reduce(z, axis=1) - z[np.arange(len(y)), y])


@pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning")
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize(
    "method",
    [
        fgmp.FedGradMP(3),
        fgmp.FedGradMP(3, solver=fgmp.Exact()),
        fgmp.FedGradMP(3, solver=fgmp.Newton(8)),
        fgmp.SharedSupportGradMP(3, solver=fgmp.PooledNewton(8)),
        fgmp.FedGradMP(
            3, solver=fgmp.Exact(), dictionary=fgmp.Dictionary(np.random.default_rng(9).standard_normal((5, 7)))
        ),
    ],
    ids=["default", "exact", "newton", "newton-steps", "dictionary"],
)
def test_float32_ends_where_float64_does(loss, method):
    for seed in range(12):
        ends = []
        for dtype in (np.float32, np.float64):
            A, y = labelled(loss, seed, dtype)
            federation = fgmp.Federation.from_arrays([A], [y], loss)
            x = fgmp.simulate(method, federation, 1, rng=0).x
            assert x.dtype == dtype
            ends.append(pooled_objective(loss, A, y, x))
        assert ends[0] == pytest.approx(ends[1], rel=1e-4)


@pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning")
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize(
    "solver",
    [
        fgmp.Exact(),
        fgmp.GradientDescent(5),
        fgmp.ConjugateGradient(5),
        fgmp.Newton(3),
        fgmp.SGD(5),
        fgmp.SGD(5, batch_size=10),
        fgmp.SVRG(2),
        fgmp.PooledNewton(5),
        fgmp.LocalSteps(fgmp.GradientDescent(5)),
    ],
    ids=repr,
)
def test_objectives_in_float32_are_those_in_float64(loss, solver):
    histories = []
    for dtype in (np.float32, np.float64):
        A, y = labelled(loss, 0, dtype)
        fed = fgmp.Federation.from_arrays([A[:140], A[140:]], [y[:140], y[140:]], loss)
        pooled = isinstance(solver, fgmp.PooledNewton | fgmp.LocalSteps)
        method = (fgmp.SharedSupportGradMP if pooled else fgmp.FedGradMP)(3, solver=solver)
        histories.append(fgmp.simulate(method, fed, 2, rng=0).history["objective"])
    np.testing.assert_allclose(*histories, rtol=0, atol=1e-5 * histories[1][0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_newton_reaches_the_minimum_that_scipy_finds(loss, dtype):
    """300 rows, 5 features, all of them on the support: softmax has a direction of no curvature for each feature."""
    A, y = labelled(loss, 3, dtype)
    federation = fgmp.Federation.from_arrays([A], [y], loss)
    shape = federation.model_shape
    best = minimize(lambda x: pooled_objective(loss, A, y, x.reshape(shape)), np.zeros(np.prod(shape))).fun
    for method in (
        fgmp.FedGradMP(5),
        fgmp.FedGradMP(5, solver=fgmp.Newton(8)),
        fgmp.SharedSupportGradMP(5, solver=fgmp.PooledNewton(8)),
    ):
        x = fgmp.simulate(method, federation, 2, rng=0).x
        assert pooled_objective(loss, A, y, x) == pytest.approx(best, rel=1e-5)
        if loss == "softmax":  # the sum over the classes of a feature stays zero, as at the start
            assert np.abs(x.sum(axis=1)).max() <= 100 * np.finfo(dtype).eps


def test_features_in_other_units_do_not_spoil_a_softmax_model():
    units = np.array([1, 1e-4, 1, 1e5, 1e-6])
    A, y = labelled("softmax", 0, float)
    plain, other = (fgmp.Federation.from_arrays([B], [y], "softmax") for B in (A, A * units))
    method = fgmp.SharedSupportGradMP(5, solver=fgmp.PooledNewton(10))
    expected = fgmp.simulate(method, plain, 1, rng=0)
    found = fgmp.simulate(method, other, 1, rng=0)
    np.testing.assert_allclose(found.x * units[:, None], expected.x, atol=1e-7)


def test_filled_shifts_have_their_own_curvature_and_no_gradient():
    rng = np.random.default_rng(0)
    A, y = labelled("softmax", 0, float, n_features=3)
    A *= [1, 1e-5, 1e3]
    (client,) = fgmp.Federation.from_arrays([A], [y], "softmax").clients
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


def test_the_hessian_is_the_derivative_of_the_gradient_in_any_coordinates():
    A, y = labelled("softmax", 1, float)
    (client,) = fgmp.Federation.from_arrays([A], [y], "softmax").clients
    dictionary = fgmp.Dictionary(np.random.default_rng(2).standard_normal((5, 8)))
    client = dictionary.prepare(client)
    merged = np.array([0, 1, 2, 4, 7, 10, 12, 13, 14, 20])
    problem = RestrictedProblem.of(client, merged, dictionary, orthonormal=True)
    z = np.random.default_rng(3).standard_normal(problem.size)
    hessian = problem.hessian(problem.predictions(z))
    for i, unit in enumerate(np.eye(problem.size)):
        steps = [problem.gradient(problem.predictions(z + s * 1e-5 * unit)) for s in (1, -1)]
        np.testing.assert_allclose(hessian[i], (steps[0] - steps[1]) / 2e-5, atol=1e-7)


def test_shifts_in_a_dictionary_are_all_signals_that_every_output_can_add():
    """Five atoms of eight for each of three outputs in R^5 span everything, with few atoms in common."""
    A, y = labelled("softmax", 1, float)
    dictionary = fgmp.Dictionary(np.random.default_rng(2).standard_normal((5, 8)))
    (client,) = fgmp.Federation.from_arrays([A], [y], "softmax").clients
    client = dictionary.prepare(client)
    merged = np.sort([3 * atom + c for c, first in enumerate((0, 1, 3)) for atom in range(first, first + 5)])
    problem = RestrictedProblem.of(client, merged, dictionary, orthonormal=True)
    shifts = problem.shifts
    assert shifts.shape == (15, 5)
    for shift in shifts.T:
        predictions = problem.predictions(shift)
        np.testing.assert_allclose(predictions, predictions[:, :1].repeat(3, axis=1), atol=1e-10)
    few = RestrictedProblem.of(client, merged[merged % 3 == 0], dictionary, orthonormal=True)
    assert few.shifts.shape[1] == 0


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


OMP = fgmp.Dictionary(np.random.default_rng(7).standard_normal((6, 9)))


@pytest.mark.parametrize("nothing", ["targets", "features"])
@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize(
    "method",
    [
        fgmp.FedGradMP(2, dictionary=OMP),
        fgmp.FedGradMP(2, dictionary=OMP, selection=fgmp.Overall()),
        fgmp.FedGradMP(2, dictionary=OMP, solver=fgmp.SGD(2)),
        fgmp.FedGradMP(2, dictionary=OMP, solver=fgmp.SVRG(1, accuracy=0.1)),
        fgmp.SharedSupportGradMP(2, solver=fgmp.PooledNewton(2)),
        fgmp.SharedSupportGradMP(2, solver=fgmp.LocalSteps(fgmp.SGD(2)), dictionary=OMP),
    ],
    ids=["omp", "joint", "sgd", "svrg", "newton-steps", "local-steps"],
)
def test_a_client_with_nothing_to_say(nothing, loss, method):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 6))
    y = A @ [1.0, 0, 0, -2, 0, 0] if loss == "squared" else A[:, :3].argmax(axis=1)
    blank = (0 * A, y) if nothing == "features" else (A, 0 * y)
    federation = fgmp.Federation.from_arrays([A, blank[0]], [y, blank[1]], loss)
    result = fgmp.simulate(method, federation, 2, rng=0)
    assert np.isfinite(result.x).all() and result.history["clients"][-1] == 2


@pytest.mark.parametrize("solver", [fgmp.NormalEquations(), fgmp.PooledConjugateGradient(3)])
def test_all_targets_zero_is_the_zero_model(solver):
    rng = np.random.default_rng(0)
    federation = fgmp.Federation.from_arrays([rng.standard_normal((20, 6))], [np.zeros(20)])
    result = fgmp.simulate(fgmp.SharedSupportGradMP(2, solver=solver), federation, 2, rng=0)
    assert not result.x.any() and result.history["objective"][-1] == 0


@pytest.mark.parametrize(("dtype", "scales"), [(np.float64, (1e-150, 1e-8, 1e150)), (np.float32, (1e-12, 1e-4, 1e12))])
def test_a_run_with_omp_does_not_depend_on_the_unit_of_the_targets(dtype, scales):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((30, 6)).astype(dtype) for _ in range(3)]
    truth = OMP.atoms[:, [1, 5]] @ [1.0, -2.0]
    ends = []
    for scale in (1.0, *scales):
        ys = [(scale * (A @ truth)).astype(dtype) for A in As]
        method = fgmp.FedGradMP(2, dictionary=OMP)
        ends.append(fgmp.simulate(method, fgmp.Federation.from_arrays(As, ys), 3, rng=0).x / scale)
    for end in ends:
        np.testing.assert_allclose(end, truth, rtol=1e3 * np.finfo(dtype).eps, atol=1e3 * np.finfo(dtype).eps)


def test_approx_tau_finds_small_signals_and_never_beats_the_best():
    for seed in range(160):
        rng = np.random.default_rng(seed)
        dictionary = fgmp.Dictionary(rng.standard_normal((10, 14)))
        atoms = rng.choice(14, 3, replace=False)
        signal = dictionary.atoms[:, atoms] @ rng.standard_normal(3)
        found = fgmp.approx_tau(dictionary, signal, 3)
        small = fgmp.approx_tau(dictionary, 1e-9 * signal, 3)
        np.testing.assert_array_equal(found.support, small.support)
        assert found.eta >= 1 and small.eta >= 1 and found.best_error <= found.error
        if set(found.support) == set(atoms):
            assert found.eta == 1


def test_atoms_in_other_units_span_the_same():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 12))
    units = 10.0 ** rng.integers(-7, 8, 12)
    plain, other = fgmp.Dictionary(atoms), fgmp.Dictionary(atoms * units)
    signal = atoms[:, [2, 3, 8]] @ [1.0, -2, 0.5] + 0.1 * rng.standard_normal(20)
    first, second = (fgmp.approx_tau(dictionary, signal, 3) for dictionary in (plain, other))
    np.testing.assert_array_equal(first.support, second.support)
    assert second.error == pytest.approx(first.error) and second.eta == pytest.approx(first.eta)
    support = np.array([1, 4, 7, 9])
    forth, back = other.coordinates(support)
    np.testing.assert_allclose(back @ forth, np.eye(4), atol=1e-10)
    inside = other.atoms[:, support] @ forth
    np.testing.assert_allclose(inside.T @ inside, np.eye(4), atol=1e-10)
    model = SparseModel(np.arange(12), rng.standard_normal(12) / units, (12,))
    projected = other.project(model, support)
    expected = atoms[:, support] @ np.linalg.lstsq(atoms[:, support], atoms @ (model.values * units), rcond=None)[0]
    np.testing.assert_allclose(other.synthesise(projected.dense()), expected, atol=1e-9)


def plain_pursuit(atoms, signal, sparsity):
    """Orthogonal matching pursuit on the signal itself."""
    support, residual = [], signal
    for _ in range(sparsity):
        cosines = np.abs(atoms.T @ residual) / np.linalg.norm(atoms, axis=0)
        cosines[support] = -1
        support.append(int(cosines.argmax()))
        residual = signal - atoms[:, support] @ np.linalg.lstsq(atoms[:, support], signal, rcond=None)[0]
    return np.sort(support)


def test_the_pursuit_is_the_textbooks_on_the_signal():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        atoms, signal = rng.standard_normal((15, 25)) * rng.uniform(0.1, 10, 25), rng.standard_normal(15)
        found = matching_pursuit(atoms.T @ atoms, atoms.T @ signal, 6)
        np.testing.assert_array_equal(found, plain_pursuit(atoms, signal, 6))


def test_the_pursuit_of_all_outputs_is_that_of_the_stacked_signal():
    """Atoms of every output are the columns of a Kronecker product."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        atoms, signals = rng.standard_normal((8, 10)), rng.standard_normal((8, 3))
        stacked = np.kron(atoms, np.eye(3))
        expected = plain_pursuit(stacked, signals.reshape(-1), 7)
        np.testing.assert_array_equal(matching_pursuit(atoms.T @ atoms, atoms.T @ signals, 7), expected)


def test_the_pursuit_stops_where_a_signal_is_represented_and_skips_dependent_atoms():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 30))
    for wide in (1.0, 1e-9):  # a wide range of coefficients is no reason to stop
        signal = atoms[:, [3, 7, 20]] @ [1.0, -wide, 2.0]
        np.testing.assert_array_equal(matching_pursuit(atoms.T @ atoms, atoms.T @ signal, 8), [3, 7, 20])
    atoms = rng.standard_normal((20, 30))
    atoms[:, 9] = atoms[:, 3] + atoms[:, 7]
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ rng.standard_normal(20), 20)
    assert len(found) == 20 and np.linalg.matrix_rank(atoms[:, found]) == 20


@pytest.mark.parametrize(
    ("solver", "dtype", "unit"),
    [
        (fgmp.NormalEquations(), np.float32, 1e-4),
        (fgmp.NormalEquations(), np.float64, 1e-7),
        (
            fgmp.PooledConjugateGradient(8),
            np.float32,
            1e-4,
        ),  # the condition number matters, units included
    ],
)
def test_polish_keeps_a_good_model_whatever_the_units(solver, dtype, unit):
    rng = np.random.default_rng(0)
    As = [(rng.standard_normal((40, 3)) * [1, unit, 1]).astype(dtype) for _ in range(3)]
    truth = np.array([1, 1 / unit, -2])
    federation = fgmp.Federation.from_arrays(As, [(A.astype(float) @ truth).astype(dtype) for A in As])
    good = fgmp.simulate(fgmp.FedGradMP(3), federation, 2, rng=0)
    polished = fgmp.polish(good, federation, solver=solver)
    assert polished.history["objective"][-1] <= 2 * good.history["objective"][-1]
    np.testing.assert_allclose(polished.x, truth, rtol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e7])
def test_conjugate_gradients_beyond_the_end_and_in_large_units(scale):
    rng = np.random.default_rng(0)
    A = (scale * rng.standard_normal((60, 8))).astype(np.float32)
    truth = np.array([0, 3, 0, 0, -1, 0, 0, 0.5])
    federation = fgmp.Federation.from_arrays([A], [A @ truth], truth=truth)
    for method in (
        fgmp.SharedSupportGradMP(3, solver=fgmp.PooledConjugateGradient(100)),
        fgmp.FedGradMP(3, solver=fgmp.ConjugateGradient(100)),
        fgmp.FedGradMP(3, solver=fgmp.GradientDescent(100)),
    ):
        assert fgmp.simulate(method, federation, 3, rng=0).history["relative_error"][-1] < 1e-5


def summed_and_averaged(seed=0):
    """Unequal clients of a summed loss, and the same problem as a mean over rows with other weights."""
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((m, 6)) for m in (5, 12, 30)]
    ys = [A @ [1.0, 0, 0, -2, 0, 0] + 0.1 * rng.standard_normal(len(A)) for A in As]
    weights = np.array([0.2, 0.5, 0.3])
    summed = fgmp.Federation.from_arrays(As, ys, fgmp.SquaredLoss(averaged=False), weights)
    return As, ys, weights, summed


def test_a_summed_loss_is_a_sum_everywhere():
    As, ys, weights, federation = summed_and_averaged()
    x = np.arange(6.0)
    by_hand = sum(p * np.sum((A @ x - y) ** 2) / 2 for p, A, y in zip(weights, As, ys, strict=True))
    assert federation.objective(x) == pytest.approx(by_hand)
    assert federation.pooled().objective(x) == pytest.approx(by_hand)
    (client,) = federation.pooled().clients
    slope = sum(p * A.T @ (A @ x - y) for p, A, y in zip(weights, As, ys, strict=True))
    np.testing.assert_allclose(client.gradient(x), slope)


def test_restricted_steps_of_a_summed_loss_are_as_long_as_its_gradients():
    """One step of SGD over all rows is a gradient step on the sum, in FedGradMP and in LocalSteps."""
    As, ys, _, federation = summed_and_averaged()
    client, rate = federation.clients[1], 1e-3
    start = SparseModel(np.arange(6), np.ones(6), (6,))
    end = minimise_on(start.support, client, StandardBasis(), fgmp.SGD(1, learning_rate=rate), start, None)
    by_hand = 1 - rate * As[1].T @ (As[1] @ np.ones(6) - ys[1])
    np.testing.assert_allclose(end.values, by_hand)
    batch = fgmp.SGD(1, batch_size=4, learning_rate=rate)
    rng = np.random.default_rng(3)
    (rows,) = batch.minibatches(12, np.random.default_rng(3))
    end = minimise_on(start.support, client, StandardBasis(), batch, start, rng)
    np.testing.assert_allclose(end.values, 1 - rate * As[1][rows].T @ (As[1][rows] @ np.ones(6) - ys[1][rows]))


@pytest.mark.parametrize("solver", [fgmp.SVRG(60), fgmp.SGD(400), fgmp.Newton(2), fgmp.GradientDescent(400)])
def test_solvers_with_their_own_step_lengths_do_not_notice_the_sum(solver):
    As, ys, _, federation = summed_and_averaged()
    client = federation.clients[2]
    end = minimise_on(np.arange(6), client, StandardBasis(), solver, SparseModel.zero((6,)), np.random.default_rng(0))
    np.testing.assert_allclose(end.values, np.linalg.lstsq(As[2], ys[2], rcond=None)[0], atol=1e-5)


@pytest.mark.parametrize(
    "method",
    [
        fgmp.FedGradMP(np.int8(2), batch_size=np.int16(10), radius=np.float64(5)),
        fgmp.FedGradMP(2, solver=fgmp.SGD(np.int32(2), learning_rate=np.float64(0.1))),
        fgmp.FedIterHT(sparsity=np.int8(2), learning_rate=np.float64(0.1)),
        fgmp.FedDualAvg(learning_rate=np.float64(0.1), l1_weight=np.float64(0.01), server_learning_rate=np.float64(1)),
        fgmp.FastFedDualAvg(
            learning_rate=np.float64(0.1), l1_weight=np.float64(0.01), strong_convexity=np.float64(0.1)
        ),
        fgmp.SharedSupportGradMP(np.int8(2), fgmp.LargestEntries(np.int8(4)), radius=np.float64(5)),
        fgmp.SharedSupportGradMP(2, solver=fgmp.PooledNewton(np.int8(2), ridge=np.float64(0.1))),
    ],
)
def test_numpy_scalars_are_plain_numbers(method):
    """A float32 run stays float32 and sends float32, whatever the type of its parameters."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((20, 6)).astype(np.float32) for _ in range(3)]
    federation = fgmp.Federation.from_arrays(As, [A @ np.float32([1, 0, 0, -2, 0, 0]) for A in As])
    result = fgmp.simulate(method, federation, 2, rng=0)
    assert result.x.dtype == result.coefficients.dtype == np.float32
    for name, value in vars(method).items():
        assert not isinstance(value, np.generic), name
    if result.support.size:
        polished = fgmp.polish(result, federation, radius=np.float64(5))
        assert polished.x.dtype == np.float32


@pytest.mark.filterwarnings("ignore::fgmp.FewRowsWarning")
def test_small_integers_do_not_overflow():
    federation = fgmp.make_sparse_regression(2, 20, 300, 5, rng=0)
    result = fgmp.simulate(fgmp.FedGradMP(np.int8(100)), federation, 1, rng=0)
    assert len(result.support) == 100


class Scaled(LinearOperator):
    """Rows that are generated, with any dtype."""

    def __init__(self, matrix, dtype):
        super().__init__(np.dtype(dtype), matrix.shape)
        self.matrix = matrix

    def _matmat(self, X):
        return self.matrix @ X

    def _rmatmat(self, X):
        return self.matrix.T @ X


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float64, None])
def test_streamed_features_of_any_real_type(dtype):
    rng = np.random.default_rng(0)
    A = rng.integers(-3, 4, (20, 6))
    y = A @ [0.5, 0, 0, -2, 0, 0]
    federation = fgmp.Federation.from_arrays([Scaled(A, dtype)], [y])
    assert federation.dtype == np.float64
    x = fgmp.simulate(fgmp.FedGradMP(2, dictionary=fgmp.Dictionary(np.eye(6) + 0.1)), federation, 3, rng=0)
    np.testing.assert_array_equal(federation.clients[0].targets, y)
    assert x.x.dtype == np.float64 and x.history["objective"][-1] < x.history["objective"][0]


def test_streamed_features_that_do_not_fit_are_named():
    A, y = np.eye(6), np.ones(6)
    with pytest.raises(ValueError, match=r"As\[0\] has dtype complex128; expected real numbers"):
        fgmp.Federation.from_arrays([Scaled(A, complex)], [y])
    with pytest.raises(ValueError, match=r"As\[1\] is streamed in float32; expected float64"):
        fgmp.Federation.from_arrays([A, Scaled(A, np.float32)], [y, y])


def test_masked_values_are_no_numbers():
    masked = np.ma.masked_array(np.eye(4), mask=np.eye(4) > 0)
    with pytest.raises(ValueError, match=r"As\[0\] has 4 masked values"):
        fgmp.Federation.from_arrays([masked], [np.ones(4)])
    unmasked = np.ma.masked_array(np.eye(4), mask=False)
    fgmp.Federation.from_arrays([unmasked], [np.ones(4)])


@pytest.mark.parametrize("solver", [fgmp.GradientDescent(accuracy=1e-9), fgmp.SVRG(accuracy=1e-9)])
def test_an_accuracy_that_is_missed_is_said(solver, monkeypatch):
    monkeypatch.setattr("fgmp.local.solvers._LIMIT", 3)
    columns, targets = ill_conditioned(np.random.default_rng(0), 1e3, float)
    (client,) = fgmp.Federation.from_arrays([columns], [targets]).clients
    rng, start = np.random.default_rng(0), SparseModel.zero((20,))
    with pytest.warns(ConvergenceWarning, match="stopped before accuracy=1e-09 was certain.*20 coordinates"):
        minimise_on(np.arange(20), client, StandardBasis(), solver, start, rng)
    bounded = replace(solver, steps=3)  # so many steps were asked for
    minimise_on(np.arange(20), client, StandardBasis(), bounded, start, rng)


def test_an_accuracy_that_is_reached_is_not_talked_about():
    columns, targets = ill_conditioned(np.random.default_rng(0), 1e3, float)
    (client,) = fgmp.Federation.from_arrays([columns], [targets]).clients
    best = np.linalg.lstsq(columns, targets, rcond=None)[0]
    for solver in (fgmp.ConjugateGradient(accuracy=1e-6), fgmp.Newton(accuracy=1e-6)):
        end = minimise_on(np.arange(20), client, StandardBasis(), solver, SparseModel.zero((20,)), None)
        assert np.linalg.norm(end.values - best) <= 1e-6


def test_newton_steps_in_float32_go_on_to_the_rounding_of_the_objective():
    """A good step near the minimum may raise the objective by its last digit; it is taken all the same."""
    distances = []
    for seed in range(20):
        A, y = labelled("logistic", seed, np.float32)
        ends = []
        for dtype in (np.float32, np.float64):
            federation = fgmp.Federation.from_arrays(np.split(A.astype(dtype), 5), np.split(y, 5), "logistic")
            method = fgmp.SharedSupportGradMP(5, solver=fgmp.PooledNewton(6))
            ends.append(fgmp.simulate(method, federation, 2, rng=0).x)
        distances.append(np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1]))
    assert max(distances) < 50 * np.finfo(np.float32).eps  # a refused step leaves sqrt(eps), 3e-4


def test_a_newton_direction_that_overflows_is_no_step(monkeypatch):
    A, y = labelled("logistic", 0, float)
    federation = fgmp.Federation.from_arrays(np.split(A, 3), np.split(y, 3), "logistic")
    method = fgmp.SharedSupportGradMP(3, solver=fgmp.PooledNewton(3))
    good = fgmp.simulate(method, federation, 2, rng=0)
    monkeypatch.setattr(
        "fgmp.methods.pooled_newton.newton_direction", lambda hessian, gradient: np.full_like(gradient, np.inf)
    )
    kept = fgmp.polish(good, federation)
    assert kept.history["clients"][-1] == 3
    np.testing.assert_allclose(kept.x, good.x, atol=1e-15)
