"""Solvers of the restricted problem against the pseudo-inverse."""

import sys
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.federation import minibatches
from fgmp.losses import SquaredLoss
from fgmp.models import SparseModel
from fgmp.restricted import RestrictedProblem
from fgmp.solvers import SVRG, minimise_on

SOLVERS = [
    fgmp.Exact(),
    fgmp.GradientDescent(accuracy=1e-6),
    fgmp.Newton(steps=1),
    fgmp.Newton(accuracy=1e-6),
    SVRG(accuracy=1e-6),
]


def problem(n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    return RestrictedProblem(rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_rows), SquaredLoss())


@pytest.mark.parametrize("solver", SOLVERS[:5], ids=repr)
def test_solvers_from_zero_give_the_minimum_norm_where_columns_outnumber_rows(solver):
    p = problem(5, 9, 0)
    expected = np.linalg.pinv(p.columns) @ p.targets
    found = solver.minimise(p, np.zeros(9), np.random.default_rng(0))
    assert np.linalg.norm(found - expected) <= 2e-6


def test_sgd_finds_the_minimiser_of_consistent_data_without_a_learning_rate():
    rng = np.random.default_rng(0)
    columns, solution = rng.standard_normal((50, 4)), rng.standard_normal(4)
    p = RestrictedProblem(columns, columns @ solution, SquaredLoss())
    z = fgmp.SGD(steps=3000, batch_size=10).minimise(p, np.zeros(4), rng)
    np.testing.assert_allclose(z, solution, atol=1e-6)


def test_solvers_work_in_the_geometry_of_the_signals():
    """A step along the gradient in a dictionary is the step of the orthonormal basis of the same span."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((12, 8)), rng.standard_normal(12)
    Q = np.linalg.qr(rng.standard_normal((8, 4)))[0]
    D, E = fgmp.Dictionary(Q @ rng.standard_normal((4, 4))), fgmp.Dictionary(Q)
    signals = []
    for dictionary in (D, E):
        zero, everything = SparseModel.zero((4,)), np.arange(4)
        client = one_client(dictionary.products(A), y)
        b = minimise_on(everything, client, dictionary, fgmp.GradientDescent(steps=3), zero, rng)
        signals.append(dictionary.synthesise(b.dense()))
    np.testing.assert_allclose(signals[0], signals[1], atol=1e-8)


def test_exact_solver_in_the_standard_basis_is_least_squares_on_the_columns():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((12, 8)), rng.standard_normal(12)
    client = fgmp.Federation.from_arrays([A], [y]).clients[0]
    merged = np.array([1, 4, 6])
    b = minimise_on(merged, client, StandardBasis(), fgmp.Exact(), SparseModel.zero((8,)), rng)
    np.testing.assert_allclose(b.values, np.linalg.lstsq(A[:, merged], y, rcond=None)[0])


def one_client(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss).clients[0]


def minimise(client, solver, start=None, seed=0):
    """What a solver makes of all coefficients of a client."""
    shape = client.model_shape
    start = np.zeros(shape) if start is None else start
    everything = np.arange(start.size)
    model = SparseModel(everything, start.reshape(-1), shape)
    found = minimise_on(everything, client, StandardBasis(), solver, model, np.random.default_rng(seed))
    return found.dense()


def test_svrg_takes_the_rate_of_the_steepest_row():
    """Rows 1 and 2 with targets zero: rate 1/16; the steps contract by 15/16 and 12/16, whichever are drawn."""
    client = one_client(np.array([[1.0], [2.0]]), np.zeros(2))
    for seed in range(5):
        z, full = (
            1.0,
            2.5,
        )  # at the anchor 1 the gradient is (1 + 4) / 2, and an inner step z - (a^2 (z - 1) + 2.5) / 16
        rng = np.random.default_rng(seed)
        for _ in range(4):
            z -= ((1.0, 4.0)[int(rng.integers(2, size=1)[0])] * (z - 1) + full) / 16
        found = minimise(client, SVRG(steps=1), np.ones(1), seed)
        np.testing.assert_allclose(found, z, rtol=1e-12)


@pytest.mark.parametrize("kind", [fgmp.GradientDescent, fgmp.Newton, SVRG])
def test_a_start_within_the_accuracy_is_the_end(kind):
    """Orthonormal columns: curvature 1/m in all directions, so that the distance is m times the gradient."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    solution, client = np.ones(4), one_client(Q, Q @ np.ones(4))
    near, far = solution + [0.0, 0.09, 0.0, 0.0], solution + [0.0, 0.11, 0.0, 0.0]
    np.testing.assert_array_equal(minimise(client, kind(accuracy=0.1), near), near)
    found = minimise(client, kind(accuracy=0.1), far)
    assert np.linalg.norm(found - solution) <= 0.1 and not np.array_equal(found, far)


def alone(features, targets, loss="squared"):
    return fgmp.Federation.from_arrays([features], [targets], loss)


def end_of(solver, features, targets, loss="squared", **options):
    """Where a solver ends from zero: FedGradMP with one client, one iteration and all atoms."""
    federation = alone(features, targets, loss)
    n_atoms = options["dictionary"].atoms.shape[1] if "dictionary" in options else federation.n_features
    method = fgmp.FedGradMP(n_atoms, local_iterations=1, solver=solver, **options)
    return fgmp.simulate(method, federation, 1, rng=0).coefficients


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_gradient_descent_goes_along_the_gradient(steps):
    """Exact line search: the length of a step is g'g / g'Hg."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((20, 4)) * [1, 2, 3, 4], rng.standard_normal(20)
    H, c, z = A.T @ A / 20, A.T @ y / 20, np.zeros(4)
    for _ in range(steps):
        g = H @ z - c
        z = z - (g @ g) / (g @ H @ g) * g
    np.testing.assert_allclose(end_of(fgmp.GradientDescent(steps=steps), A, y), z, rtol=1e-10)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("a, m, batch_size", [(1.0, 1, 1), (1.0, 4, 1), (2.0, 3, 2), (2.0, 4, 3)])
def test_an_epoch_of_svrg_for_a_mean_and_for_a_sum(averaged, a, m, batch_size):
    """Equal rows have equal gradients, and a rate of a quarter of the inverse curvature leaves 3/4 of the error."""
    loss = fgmp.SquaredLoss(averaged=averaged)
    found = end_of(SVRG(steps=1, batch_size=batch_size), np.full((m, 1), a), np.full(m, 5 * a), loss)
    np.testing.assert_allclose(found, 5 * (1 - 0.75 ** (2 * -(-m // batch_size))), rtol=1e-12)


def test_a_step_of_sgd_in_a_dictionary_is_one_of_its_coefficients():
    """From zero the step is rate Psi'A'y / m, whatever the inner products of the atoms."""
    rng = np.random.default_rng(0)
    A, y, atoms = rng.standard_normal((9, 5)), rng.standard_normal(9), rng.standard_normal((5, 3))
    found = end_of(fgmp.SGD(steps=1, learning_rate=0.1), A, y, dictionary=fgmp.Dictionary(atoms))
    np.testing.assert_allclose(found, 0.1 * atoms.T @ A.T @ y / 9, rtol=1e-10)


@dataclass(frozen=True)
class Watched(fgmp.LogisticLoss):
    """The logistic loss, with a list of the calls of its curvature."""

    calls: tuple[list, ...] = ([],)

    def curvature(self, predictions, targets, direction):
        self.calls[0].append(1)
        return super().curvature(predictions, targets, direction)


def test_newton_steps_end_where_nothing_is_left_to_gain():
    """Its convergence is quadratic: ten steps do, of the hundred allowed, with two curvatures each."""
    rng = np.random.default_rng(0)
    A, y, loss = rng.standard_normal((60, 3)), rng.choice([-1, 1], 60), Watched()
    end_of(fgmp.Exact(), A, y, loss)
    assert 4 <= len(loss.calls[0]) <= 20


def test_newton_steps_of_float32_data_divide_by_hessians_of_float64():
    """Columns of condition 3,000, whose Hessian has one of 10^7: an error of eps times the former, not the latter."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((200, 8)))[0]
    right = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    A = (20 * left * np.geomspace(1, 1 / 3000, 8) @ right).astype(np.float32)
    y, ends = rng.choice([-1, 1], 200), []
    for dtype in (np.float32, np.float64):
        ends.append(A.astype(float) @ end_of(fgmp.Newton(steps=1), A.astype(dtype), y, "logistic"))
    assert np.linalg.norm(ends[0] - ends[1]) <= 3000 * np.finfo(np.float32).eps * np.linalg.norm(ends[1])


OR_NEWTON = ", or Newton, which needs fewer steps"


@pytest.mark.parametrize(
    "solver, advice",
    [
        (fgmp.GradientDescent, OR_NEWTON),
        (SVRG, OR_NEWTON),
        (fgmp.Newton, ""),
    ],
)
def test_an_accuracy_beyond_rounding_is_missed_and_said(solver, advice, monkeypatch):
    """With three steps in place of ten thousand: the end is that of three steps, and those who asked for three know."""
    monkeypatch.setattr(sys.modules[solver.__module__], "_LIMIT", 3)
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((7, 2)) * [1, 30], rng.standard_normal(7)
    message = f"^{solver.__name__} stopped before accuracy=1e-30 was certain, on a restricted problem of 2 coordinates "
    with pytest.warns(ConvergenceWarning, match=message + f"and 7 rows; try a larger accuracy{advice}$"):
        found = end_of(solver(accuracy=1e-30), A, y)
    np.testing.assert_allclose(found, end_of(solver(steps=3), A, y), rtol=1e-12)
    np.testing.assert_array_equal(found, end_of(solver(steps=3, accuracy=1e-30), A, y))
    with pytest.raises(ValueError, match="^steps and accuracy are both None; expected at least one of them$"):
        solver()


@pytest.mark.parametrize(
    "solver",
    [fgmp.Exact(), fgmp.Newton(1)],
    ids=lambda solver: type(solver).__name__,
)
def test_fewer_rows_than_atoms_give_the_signal_of_minimum_norm(solver):
    """Of the signals in the span of the atoms, not the coefficients of minimum norm, which are those of another."""
    rng = np.random.default_rng(0)
    A, y, atoms = rng.standard_normal((3, 6)), rng.standard_normal(3), rng.standard_normal((6, 4)) * [1, 2, 3, 4]
    Q = np.linalg.qr(atoms)[0]
    expected = Q @ np.linalg.pinv(A @ Q) @ y
    assert np.linalg.norm(expected - atoms @ np.linalg.pinv(A @ atoms) @ y) > 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgmp.AdviceWarning)
        found = atoms @ end_of(solver, A, y, dictionary=fgmp.Dictionary(atoms))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def summed_and_averaged(seed=0):
    """Unequal clients of a summed loss, and the same problem as a mean over rows with other weights."""
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((m, 6)) for m in (5, 12, 30)]
    ys = [A @ [1.0, 0, 0, -2, 0, 0] + 0.1 * rng.standard_normal(len(A)) for A in As]
    weights = np.array([0.2, 0.5, 0.3])
    summed = fgmp.Federation.from_arrays(As, ys, fgmp.SquaredLoss(averaged=False), weights)
    return As, ys, weights, summed


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
    (rows,) = minibatches(np.random.default_rng(3), 12, 4, 1)
    end = minimise_on(start.support, client, StandardBasis(), batch, start, rng)
    np.testing.assert_allclose(end.values, 1 - rate * As[1][rows].T @ (As[1][rows] @ np.ones(6) - ys[1][rows]))


@pytest.mark.parametrize(
    "dictionary", [StandardBasis(), fgmp.gaussian_dictionary(8, 12, rng=1)], ids=["basis", "atoms"]
)
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("radius", [0.1, 2.0, 1e3])
def test_in_a_ball_the_gradient_points_at_the_minimiser_or_vanishes(dictionary, loss, radius):
    """What makes a point of a convex problem in a ball its minimiser: grad f = -s x with s >= 0, and s = 0 inside."""
    rng = np.random.default_rng(3)
    y = rng.standard_normal(30) if loss == "squared" else rng.integers(0, 3 if loss == "softmax" else 2, 30)
    client = fgmp.Federation.from_arrays([rng.standard_normal((30, 8))], [y], loss).clients[0]
    shape = (dictionary.n_atoms(8), *client.model_shape[1:])
    prepared = replace(client, features=dictionary.products(client.features))
    merged, start = np.arange(0, np.prod(shape), 3), SparseModel.zero(shape)
    b = minimise_on(merged, prepared, dictionary, fgmp.Exact(radius=radius), start, rng)
    signal = dictionary.synthesise(b.dense())
    assert np.linalg.norm(signal) <= radius * (1 + 1e-12)
    slope = prepared.gradient(b).reshape(-1)[merged]
    along = dictionary.correlations(b).reshape(-1)[merged]
    if np.linalg.norm(signal) < radius * (1 - 1e-9):
        assert np.abs(slope).max() <= 1e-8
        free = minimise_on(merged, prepared, dictionary, fgmp.Exact(), start, rng)
        np.testing.assert_allclose(signal, dictionary.synthesise(free.dense()), atol=1e-6)
    else:
        shift = -(along @ slope) / (along @ along)
        assert shift >= 0
        np.testing.assert_allclose(slope, -shift * along, atol=1e-6 * np.abs(slope).max())
