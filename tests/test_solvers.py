"""Solvers of the restricted problem and small systems, against the pseudo-inverse, in any units."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fgmp
from fgmp._support.linear_algebra import (
    least_squares,
    regularize_null_directions,
    solve_semidefinite,
)
from fgmp.dictionaries import StandardBasis
from fgmp.solvers import SecondOrderProblem, minimise_on
from fgmp.sparse_model import SparseModel

BASIS = StandardBasis()


def one_client(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss).clients[0]


def minimise(client, solver, start=None, seed=0, dictionary=BASIS):
    """Return what a solver makes of all coefficients of a client, by default from zero."""
    start = np.zeros(client.model_shape, client.features.dtype) if start is None else start
    everything = np.arange(start.size)
    model = SparseModel(everything, start.reshape(-1), client.model_shape)
    return minimise_on(
        everything, client, dictionary, solver, model, np.random.default_rng(seed)
    ).dense()


def in_dictionary(solver, A, y, atoms, loss="squared"):
    """From zero, the coefficients of the atoms."""
    dictionary = fgmp.Dictionary(atoms)
    return minimise(one_client(dictionary.products(A), y, loss), solver, dictionary=dictionary)


@pytest.mark.parametrize("kind", [fgmp.GradientDescent, fgmp.Newton])
def test_start_within_the_accuracy_is_the_end(kind):
    """With orthonormal columns the distance is m times the gradient."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    solution = np.ones(4)
    client = one_client(Q, Q @ np.ones(4))
    near = solution + [0.0, 0.09, 0.0, 0.0]
    far = solution + [0.0, 0.11, 0.0, 0.0]
    np.testing.assert_array_equal(minimise(client, kind(accuracy=0.1), near), near)
    found = minimise(client, kind(accuracy=0.1), far)
    assert np.linalg.norm(found - solution) <= 0.1
    assert not np.array_equal(found, far)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_gradient_descent_follows_the_gradient_of_the_signal(steps):
    """A step has the length g'g / g'Hg, in any atoms of the same span."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 8)) * np.arange(1, 9)
    y = rng.standard_normal(20)
    Q = np.linalg.qr(rng.standard_normal((8, 4)))[0]
    H = Q.T @ A.T @ A @ Q / 20
    c = Q.T @ A.T @ y / 20
    z = np.zeros(4)
    for _ in range(steps):
        g = H @ z - c
        z = z - (g @ g) / (g @ H @ g) * g
    for atoms in (Q, Q @ rng.standard_normal((4, 4))):
        found = atoms @ in_dictionary(fgmp.GradientDescent(steps=steps), A, y, atoms)
        np.testing.assert_allclose(found, Q @ z, rtol=1e-10)


@pytest.mark.parametrize("solver", [fgmp.GradientDescent(steps=5), fgmp.Newton(steps=3)])
def test_line_search_evaluates_the_loss_once_at_each_point(solver):
    """The start of a step is the end of the one before, whose values are known."""
    points = []

    class Recorded(fgmp.LogisticLoss):
        def values(self, predictions, targets):
            points.append(predictions.tobytes())
            return super().values(predictions, targets)

    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 4))
    y = np.sign(A[:, 0] + rng.logistic(size=60))
    found = minimise(one_client(A, y, Recorded()), solver)
    assert len(points) == len(set(points)) == solver.steps + 1
    np.testing.assert_array_equal(found, minimise(one_client(A, y, fgmp.LogisticLoss()), solver))


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_sgd_step_in_a_dictionary_is_that_of_coefficients(batch_size, averaged):
    """rate Psi'A'r / b, and without 1/b if the loss is a sum."""
    rng = np.random.default_rng(0)
    rate = 1e-3
    A = rng.standard_normal((12, 5))
    y = rng.standard_normal(12)
    atoms = rng.standard_normal((5, 3))
    client = one_client(A @ atoms, y, fgmp.SquaredLoss(averaged=averaged))
    (rows,) = (
        [np.arange(12)]
        if batch_size is None
        else client.minibatches(np.random.default_rng(3), 4, 1)
    )
    found = minimise(client, fgmp.SGD(rate, 1, batch_size), np.ones(3), 3, fgmp.Dictionary(atoms))
    pull = atoms.T @ A[rows].T @ (A[rows] @ atoms @ np.ones(3) - y[rows])
    np.testing.assert_allclose(found, 1 - rate * pull / (len(rows) if averaged else 1), rtol=1e-10)


def test_gradient_descent_in_float32_does_not_depend_on_units():
    """To the bit for powers of two, also if squares leave float32."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((100, 200))
    y = rng.standard_normal(100)
    ends = []
    for unit in (1, 2.0**40, 2.0**-40):
        client = one_client(*((unit * array).astype(np.float32) for array in (A, y)))
        ends.append(minimise(client, fgmp.GradientDescent(steps=5)))
    assert ends[0].all()
    assert np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[0], ends[2])


def test_newton_step_of_float32_data_has_a_hessian_of_float64():
    """The error is eps times the condition 3,000 of the columns, not its square."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((200, 8)))[0]
    right = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    A = (20 * left * np.geomspace(1, 1 / 3000, 8) @ right).astype(np.float32)
    y = rng.choice([-1, 1], 200)
    ends = []
    for dtype in (np.float32, np.float64):
        ends.append(
            A.astype(float)
            @ minimise(one_client(A.astype(dtype), y, "logistic"), fgmp.Newton(steps=1))
        )
    assert np.linalg.norm(ends[0] - ends[1]) <= 3000 * np.finfo(np.float32).eps * np.linalg.norm(
        ends[1]
    )


@pytest.mark.parametrize(
    "solver, tolerance",
    [(fgmp.Exact(), 1e-9), (fgmp.Newton(1), 1e-9), (fgmp.GradientDescent(accuracy=1e-6), 2e-6)],
    ids=repr,
)
def test_fewer_rows_than_atoms_give_minimum_norm_signal(solver, tolerance):
    """Not the coefficients of minimum norm, which are those of another signal."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 6))
    y = rng.standard_normal(3)
    atoms = rng.standard_normal((6, 4)) * [1, 2, 3, 4]
    Q = np.linalg.qr(atoms)[0]
    expected = Q @ np.linalg.pinv(A @ Q) @ y
    assert np.linalg.norm(expected - atoms @ np.linalg.pinv(A @ atoms) @ y) > 0.01
    assert np.linalg.norm(atoms @ in_dictionary(solver, A, y, atoms) - expected) <= tolerance


@pytest.mark.parametrize("solver", [fgmp.GradientDescent, fgmp.Newton])
def test_accuracy_beyond_rounding_warns(solver, monkeypatch):
    """With a limit of three steps the end is that of three steps."""
    monkeypatch.setattr(sys.modules[solver.__module__], "_LIMIT", 3)
    rng = np.random.default_rng(0)
    client = one_client(rng.standard_normal((7, 2)) * [1, 30], rng.standard_normal(7))
    with pytest.warns(
        ConvergenceWarning, match=f"^{solver.__name__} stopped before accuracy=1e-30 was certain"
    ):
        found = minimise(client, solver(accuracy=1e-30))
    np.testing.assert_allclose(found, minimise(client, solver(steps=3)), rtol=1e-12)
    np.testing.assert_array_equal(found, minimise(client, solver(steps=3, accuracy=1e-30)))


def systems(seed):
    """Features with null directions, and targets."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, 4))
    groups = np.eye(4)[rng.integers(0, 4, 20)]
    features = {
        "low rank": rng.standard_normal((20, 2)) @ rng.standard_normal((2, 9)),
        "one-hot and intercept": np.column_stack([np.ones(20), groups, A]),
        "columns twice": np.column_stack([A, A, A.sum(axis=1)]),
        "zero columns": np.column_stack([A, 0 * A]),
    }
    return {
        name: (B, rng.standard_normal(20) + B @ rng.standard_normal(B.shape[1]))
        for name, B in features.items()
    }


def objective(B, y, x):
    return np.mean((B.astype(np.longdouble) @ x.astype(np.longdouble) - y) ** 2) / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("steps", [1, 5, 30])
@pytest.mark.parametrize("solver", [fgmp.GradientDescent, fgmp.Newton])
@pytest.mark.parametrize("name", systems(0))
def test_local_solver_does_not_raise_objective_of_deficient_system(name, solver, steps, dtype):
    """From zero, from anywhere, and from the minimum."""
    eps = np.finfo(dtype).eps
    for seed in range(2):
        B, y = (array.astype(dtype) for array in systems(seed)[name])
        client = one_client(B, y)
        zero = np.zeros(B.shape[1])
        # Directions of rounding are cut.
        best = np.linalg.lstsq(B.astype(float), y.astype(float), rcond=64 * eps)[0]
        for start in (zero, np.random.default_rng(seed).standard_normal(B.shape[1]), best):
            before = objective(B, y, start.astype(dtype))
            end = minimise(client, solver(steps), start.astype(dtype))
            assert objective(B, y, end) <= before + 64 * eps * max(before, objective(B, y, zero))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("data", ["full", "null direction", "few rows", "faint direction"])
def test_exact_solver_in_overcomplete_dictionary_is_least_squares(data, dtype, unit):
    """On dependent atoms, with data that say nothing of a direction."""
    cut, excess = (1e-5, 1e-4) if dtype == np.float32 else (1e-8, 1e-6)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        dictionary = fgmp.Dictionary(rng.standard_normal((8, 12)).astype(dtype))
        A = rng.standard_normal((20, 8))
        A[:, 0] *= {"null direction": 0, "faint direction": 1e-10}.get(data, 1)
        A = (unit * A[: 5 if data == "few rows" else 20]).astype(dtype)
        y = rng.standard_normal(20).astype(dtype)
        y = y[: len(A)]
        wide = A.astype(float) @ dictionary.atoms.astype(float)
        client = one_client(dictionary.products(A), y)
        for size in (6, 9, 12):
            merged = np.sort(rng.choice(12, size, replace=False))
            model = minimise_on(
                merged, client, dictionary, fgmp.Exact(), SparseModel.zero((12,), dtype), rng
            )
            best = wide[:, merged] @ np.linalg.lstsq(wide[:, merged], y, rcond=cut)[0]
            assert objective(wide, y, model.dense()) <= np.mean(
                (best - y) ** 2
            ) / 2 + excess * np.mean(y**2)


def ill_conditioned(rng, condition, dtype, shape=(100, 20)):
    left = np.linalg.qr(rng.standard_normal(shape))[0]
    right = np.linalg.qr(rng.standard_normal((shape[1], shape[1])))[0]
    columns = ((left * np.geomspace(1, 1 / condition, shape[1])) @ right.T).astype(dtype)
    exact = columns.astype(float) @ rng.standard_normal(shape[1])
    return columns, (
        exact + 0.1 * np.linalg.norm(exact) / 10 * rng.standard_normal(shape[0])
    ).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "condition"), [(np.float32, 300), (np.float32, 3e3), (np.float64, 1e4)]
)
def test_least_squares_is_as_exact_as_its_precision(dtype, condition):
    """The excess of the residual is that of rounding, squared."""
    for seed in range(10):
        columns, targets = ill_conditioned(np.random.default_rng(seed), condition, dtype)
        wide = columns.astype(float)
        y = targets.astype(float)
        best = np.sum((wide @ np.linalg.lstsq(wide, y, rcond=None)[0] - y) ** 2)
        excess = np.sum((wide @ least_squares(columns, targets).astype(float) - y) ** 2) / best - 1
        # Coefficients off by eps times the condition move predictions by as much, squared here.
        assert excess <= (10 * np.finfo(dtype).eps * condition) ** 2 + 1e-13


def test_dependent_columns_in_other_units_keep_their_rank():
    """The minimum norm shares a coefficient among equal columns and finds a small one."""
    a, b = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 2)))[0].T
    columns = np.stack([a, a, 1e-4 * b], axis=1)
    np.testing.assert_allclose(least_squares(columns, 2 * a + 3 * b), [1, 1, 3e4], rtol=1e-6)
    gram = columns.T @ columns
    np.testing.assert_allclose(
        solve_semidefinite(gram, columns.T @ (2 * a + 3 * b)), [1, 1, 3e4], rtol=1e-6
    )
    columns[:, 2] *= (
        1e-9  # the shares are lost in the rounding of the large coefficient, the fit is not
    )
    np.testing.assert_allclose(
        columns @ least_squares(columns, 2 * a + 3 * b), 2 * a + 3 * b, rtol=1e-9
    )


def test_indefinite_system_is_solved_on_its_positive_part():
    """As noise may make a Hessian indefinite."""
    np.testing.assert_allclose(
        solve_semidefinite(np.array([[1, 2.0], [2, 1]]), np.array([1, 0.0])), [1 / 6, 1 / 6]
    )


@pytest.mark.parametrize(
    ("dtype", "condition"),
    [(np.float32, 1e2), (np.float64, 1e2), (np.float64, 1e6), (np.float64, 1e10)],
)
def test_least_squares_of_few_rows_is_shortest_to_rounding(dtype, condition):
    """The error is eps times the condition."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        left = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        right = np.linalg.qr(rng.standard_normal((30, 8)))[0]
        sizes = np.geomspace(1, 1 / condition, 8)
        targets = (left * sizes) @ (left.T @ rng.standard_normal(8))
        shortest = right @ ((left.T @ targets) / sizes)
        error = (
            least_squares(((left * sizes) @ right.T).astype(dtype), targets.astype(dtype))
            - shortest
        )
        assert np.linalg.norm(error) <= 10 * np.finfo(dtype).eps * condition * np.linalg.norm(
            shortest
        )


def test_newton_steps_in_float32_end_at_rounding(backend):
    """A step that raises the objective by its last digit is taken all the same."""
    method = fgmp.SharedSupportGradMP(5, solver=fgmp.NewtonOnSupport(6))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((300, 5)).astype(np.float32)
        ys = np.split(np.where(A[:, 0] + rng.standard_normal(300) > 0, 1, -1), 5)
        one, other = (
            fgmp.simulate(
                method,
                fgmp.Federation.from_arrays(np.split(A.astype(dtype), 5), ys, "logistic"),
                2,
                rng=0,
            ).x
            for dtype in (np.float32, np.float64)
        )
        # A refused step leaves sqrt(eps), 3e-4.
        assert np.linalg.norm(one - other) < 50 * np.finfo(np.float32).eps * np.linalg.norm(other)


@pytest.mark.parametrize("in_dictionary", [False, True])
def test_shifts_of_softmax_are_null_directions_that_get_curvature(
    in_dictionary,
):
    """Shifts are the signals that all outputs can add; other directions keep their curvature."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((300, 5)) * [1, 1e-5, 1e3, 1, 1]
    client = one_client(A, rng.integers(0, 3, 300), "softmax")
    atoms = BASIS
    merged = np.arange(15)
    if in_dictionary:
        atoms = fgmp.Dictionary(rng.standard_normal((5, 8)))
        client = replace(client, features=atoms.products(A))
        merged = np.sort(
            [3 * atom + c for c, first in enumerate((0, 1, 3)) for atom in range(first, first + 5)]
        )
    problem = SecondOrderProblem.of(client, merged, atoms).orthonormalised()
    shifts = problem.shifts
    np.testing.assert_allclose(shifts.T @ shifts, np.eye(5), atol=1e-10)
    for alike in map(problem.predictions, shifts.T):
        np.testing.assert_allclose(
            alike, alike[:, :1].repeat(3, axis=1), atol=1e-10 * np.abs(alike).max()
        )
    predictions = problem.predictions(rng.standard_normal(15))
    hessian = problem.hessian(predictions)
    across = rng.standard_normal((15, 4))
    filled, gradient = regularize_null_directions(hessian, problem.gradient(predictions), shifts)
    np.testing.assert_allclose(shifts.T @ gradient, 0, atol=1e-13 * np.abs(gradient).max())
    across -= shifts @ (shifts.T @ across)
    np.testing.assert_allclose(
        filled @ across, hessian @ across, rtol=1e-9, atol=1e-9 * np.abs(hessian).max()
    )
    if not in_dictionary:
        means = hessian.diagonal().reshape(5, 3).mean(axis=1)
        np.testing.assert_allclose(np.diag(shifts.T @ filled @ shifts), means)


def singular_system(rng):
    """Return columns of known, deficient rank, in units up to 1e8 apart, and targets."""
    m = int(rng.integers(4, 41))
    kind = rng.integers(6)
    B = rng.standard_normal((m, 4))
    if kind == 0:
        A = B[:, : rng.integers(1, 4)]
        A = A @ rng.integers(-3, 4, (A.shape[1], rng.integers(4, 12)))
    elif kind == 1:  # before, after, difference
        before = 100 + 10 * B[:, 0]
        after = before + 10.0 ** rng.uniform(-4, 0) * B[:, 1]
        A = np.column_stack([before, after, after - before])
    elif kind == 2:
        A = np.column_stack([B, B[:, rng.permutation(4)[: rng.integers(1, 5)]]])
    elif kind == 3:
        A = np.column_stack([np.ones(m), np.eye(3)[rng.integers(0, 3, m)], B[:, :2]])
    elif kind == 4:
        A = np.column_stack([B[:, :3], B[:, :3].sum(axis=1), B[:, :3] @ [1, -2, 0], np.zeros(m)])
    else:  # nearly alike
        alike = B[:, 0] + 10.0 ** rng.uniform(-5, 0) * B[:, 1]
        A = np.column_stack([B[:, 0], alike, alike, B[:, 0] - 2 * alike])
    lengths = np.linalg.norm(A, axis=0)
    rank = np.linalg.matrix_rank(A / np.where(lengths > 0, lengths, 1), tol=1e-11)
    k = A.shape[1]
    apart = [
        np.zeros(k),
        rng.uniform(-3, 3, k),
        6 * rng.integers(0, 2, k),
        -8 * rng.integers(0, 2, k),
    ]
    units = 10.0 ** apart[rng.integers(4)]
    A = A * units
    y = A @ (rng.standard_normal(k) / units)
    return (
        A,
        y + rng.choice([0, 1e-3, 1]) * np.linalg.norm(y) / m**0.5 * rng.standard_normal(m),
        rank,
    )


@pytest.mark.parametrize("part", range(4))
def test_dependent_columns_have_minimum_norm_solution_in_given_units(part):
    """LAPACK's truncated solution within its conditioning (Wedin).

    In any order of the rows. 20,000 such systems were within 22 times the bound.
    """
    eps = np.finfo(float).eps
    for seed in range(300 * part, 300 * (part + 1)):
        rng = np.random.default_rng(seed)
        A, y, rank = singular_system(rng)
        if not rank:
            continue
        left, sizes, across = np.linalg.svd(A, full_matrices=False)
        shortest = across[:rank].T @ ((left[:, :rank].T @ y) / sizes[:rank])
        length = np.linalg.norm(shortest)
        condition = sizes[0] / sizes[rank - 1]
        residual = np.linalg.norm(y - A @ shortest) / sizes[0]
        bound = 100 * eps * (condition * length + condition**2 * residual)
        for order in (np.arange(len(y)), rng.permutation(len(y))):
            assert np.linalg.norm(least_squares(A[order], y[order]) - shortest) <= bound, seed


@pytest.mark.parametrize("ratio", 10.0 ** np.arange(0, 13, 2))
def test_single_direction_has_shortest_solution_in_any_units(ratio):
    """x = 3 row / |row|^2, each entry to rounding, also from the Gram matrix."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        row = rng.uniform(1, 2, 3) * [1, -1, 1 / ratio]
        c = rng.standard_normal(29)
        expected = 3 * row / (row @ row)
        np.testing.assert_allclose(least_squares(np.outer(c, row), 3 * c), expected, rtol=1e-13)
        np.testing.assert_allclose(
            solve_semidefinite((c @ c) * np.outer(row, row), 3 * (c @ c) * row), expected, 1e-13
        )


def before_and_after(seed):
    """Return columns before, after and after - before, of rank 2, and the shortest solution."""
    rng = np.random.default_rng(seed)
    before = 100 + 10 * rng.standard_normal(30)
    after = before + 0.05 * rng.standard_normal(30)
    A = np.column_stack([before, after, after - before])
    y = A @ [0.01, 0, 1] + 0.1 * rng.standard_normal(30)
    left, sizes, across = np.linalg.svd(A, full_matrices=False)
    return fgmp.Federation.from_arrays([A], [y]), across[:2].T @ ((left.T @ y)[:2] / sizes[:2])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("seed", [113, 138, *range(20)])
@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_run_on_dependent_columns_ends_at_minimum_norm(seed):
    """Also if rounding is all that is left of the last column."""
    federation, shortest = before_and_after(seed)
    found = [
        fgmp.simulate(method, federation, 1, rng=0)
        for method in (fgmp.FedGradMP(3, 1), fgmp.SharedSupportGradMP(3))
    ]
    found.append(
        fgmp.polish(
            fgmp.simulate(fgmp.FedAvg(learning_rate=1e-5), federation, 1, rng=0), federation
        )
    )
    for result, rtol in zip(
        found, (1e-8, 1e-5, 1e-5), strict=True
    ):  # products square the condition number
        np.testing.assert_allclose(result.x, shortest, rtol=rtol)


@pytest.mark.parametrize("kind", ["zero", "low rank", "twice and faint", "units"])
def test_least_squares_in_a_dictionary_has_the_shortest_signal(kind):
    """For dependent atoms, data of low rank and units apart, in orthonormal coordinates."""
    eps = np.finfo(float).eps
    for seed in range(60):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(3, 13))
        atoms = rng.standard_normal((8, k)) * 10.0 ** rng.uniform(-3, 3, k)
        A = {
            "zero": lambda rng: rng.standard_normal((20, 8)) * [0, 1, 1, 1, 1, 1, 1, 1],
            "low rank": lambda rng: rng.standard_normal((20, 3)) @ rng.standard_normal((3, 8)),
            "twice and faint": lambda rng: (
                rng.standard_normal((20, 6))[:, [0, 1, 1, 2, 3, 4, 5, 5]] * [1e-6, *[1] * 7]
            ),
            "units": lambda rng: (
                rng.standard_normal((20, 4))
                @ rng.standard_normal((4, 8))
                * 10.0 ** rng.uniform(-2, 2, 8)
            ),
        }[kind](rng)
        y = A @ rng.standard_normal(8) + 0.01 * np.linalg.norm(A) * rng.standard_normal(20)
        span, lengths, _ = np.linalg.svd(atoms / np.linalg.norm(atoms, axis=0), full_matrices=False)
        left, sizes, across = np.linalg.svd(A @ span, full_matrices=False)
        rank = np.count_nonzero(sizes > 1e-12 * sizes[0])
        shortest = span @ (across[:rank].T @ ((left[:, :rank].T @ y) / sizes[:rank]))
        condition = lengths[0] / lengths[-1] * (sizes[0] / sizes[rank - 1])
        residual = np.linalg.norm(y - A @ shortest) / sizes[0]
        bound = (
            1e4
            * eps
            * condition
            * (np.linalg.norm(shortest) + sizes[0] / sizes[rank - 1] * residual)
        )
        found = atoms @ least_squares(A @ atoms, y, atoms.T @ atoms)
        assert np.linalg.norm(found - shortest) <= bound, (
            seed,
            np.linalg.norm(found - shortest) / bound,
        )


SEPARATED = {
    "logistic": ([[1, 0], [2, 1], [-1, 0], [-2, 0.5]], [1, 1, -1, -1], "logistic"),
    "the paper's": (
        [[1, 0], [2, 1], [-1, 0], [-2, 0.5]],
        [1, 1, -1, -1],
        fgmp.LogisticLoss(margin=2.0),
    ),
    "in large units": ([[1e4, 0], [2e4, 1e4], [-1e4, 0], [-2e4, 5e3]], [1, 1, -1, -1], "logistic"),
    "one class": ([[1, 0.5], [2, 1], [1, 0]], [1, 1, 1], fgmp.LogisticLoss()),
    "but for a border": (
        [[1, 0], [1, 1], [1, 1], [-1, 0], [-1, 1], [0, 1], [0, 1]],
        [1, 1, 1, -1, -1, 1, -1],
        "logistic",
    ),
    "softmax": ([[1, 0], [2, 1], [-1, 0], [-2, 0.5], [0, 3]], [0, 0, 1, 1, 2], "softmax"),
    "a class that nobody has": (
        [[1, 0], [0, 1], [1, 1], [1, 0], [0, 1]],
        [0, 1, 0, 1, 0],
        fgmp.SoftmaxLoss(3),
    ),
}


@pytest.mark.parametrize("in_atoms", [False, True])
@pytest.mark.parametrize("accuracy", [1e-6, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("solver", [fgmp.Newton, fgmp.GradientDescent])
@pytest.mark.parametrize("name", SEPARATED)
def test_accuracy_without_a_minimiser_warns(name, solver, accuracy, in_atoms, monkeypatch):
    """Whatever the accuracy, and also where the loss is flat."""
    A, y, loss = SEPARATED[name]
    monkeypatch.setattr(sys.modules[solver.__module__], "_LIMIT", 100)
    given = {"labels": [-1, 1]} if name == "one class" else {}
    psi = fgmp.Dictionary([[1.0, 1], [0, 3]]) if in_atoms else StandardBasis()
    A = psi.products(np.array(A, float))
    client = fgmp.Federation.from_arrays([A], [y], loss, **given).clients[0]
    with pytest.warns(ConvergenceWarning, match="before accuracy="):
        found = minimise(client, solver(accuracy=accuracy), dictionary=psi)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("accuracy", [1e-4, 1e-1, 10.0])
@pytest.mark.parametrize("solver", [fgmp.Newton, fgmp.GradientDescent])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.filterwarnings("error")
def test_minimiser_is_reached_to_the_accuracy(loss, solver, accuracy, unit):
    """In null directions too, against many Newton steps."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 3))
    A = unit * np.column_stack([A, A[:, 0]])
    scores = A @ rng.standard_normal((4, 3)) / unit + 2 * rng.standard_normal((200, 3))
    y = scores.argmax(axis=1) if loss == "softmax" else (scores[:, 0] > 0).astype(int)
    client = one_client(A, y, loss)
    found = minimise(client, solver(accuracy=accuracy / unit))
    end = minimise(client, fgmp.Newton(steps=60))
    assert np.linalg.norm(found - end) <= accuracy / unit


class InFloat64(fgmp.Solver):
    """A solver of a user, which returns float64 whatever the data are."""

    def minimise(self, problem, start, rng):
        return np.linalg.lstsq(problem.columns.astype(np.float64), problem.targets)[0]


def test_solver_that_returns_float64_fits_data_of_float32():
    """Its coefficients have the precision of the data, and no update is rejected."""
    rng = np.random.default_rng(0)
    As = rng.standard_normal((3, 40, 12)).astype(np.float32)
    federation = fgmp.Federation.from_arrays(As, As[:, :, 4] - 2 * As[:, :, 7])
    result = fgmp.simulate(fgmp.FedGradMP(2, solver=InFloat64()), federation, rounds=3, rng=0)
    assert result.x.dtype == np.float32 and not result.history["rejected"].any()
    np.testing.assert_allclose(result.x[[4, 7]], [1, -2], atol=1e-6)
