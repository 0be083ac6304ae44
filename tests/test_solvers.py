"""Solvers of the restricted problem against the pseudo-inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.local.restricted import RestrictedProblem
from fgmp.local.solvers import minimise_on
from fgmp.losses import SquaredLoss
from fgmp.models import SparseModel

SOLVERS = [
    fgmp.Exact(),
    fgmp.GradientDescent(accuracy=1e-6),
    fgmp.ConjugateGradient(accuracy=1e-6),
    fgmp.Newton(steps=1),
    fgmp.Newton(accuracy=1e-6),
    fgmp.SVRG(accuracy=1e-6),
]


def problem(n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    return RestrictedProblem(rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_rows), SquaredLoss())


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solvers_reach_delta(solver):
    for seed in range(5):
        p = problem(40, 6, seed)
        expected = np.linalg.pinv(p.columns) @ p.targets
        found = solver.minimise(p, np.zeros(6), np.random.default_rng(seed))
        assert np.linalg.norm(found - expected) <= 1e-6


@pytest.mark.parametrize("solver", SOLVERS[:5], ids=repr)
def test_solvers_from_zero_give_the_minimum_norm_where_columns_outnumber_rows(solver):
    p = problem(5, 9, 0)
    expected = np.linalg.pinv(p.columns) @ p.targets
    found = solver.minimise(p, np.zeros(9), np.random.default_rng(0))
    assert np.linalg.norm(found - expected) <= 2e-6


@given(st.integers(0, 10_000))
def test_descent_never_ascends_and_conjugate_gradients_finish(seed):
    p = problem(20, 5, seed)
    start = np.random.default_rng(seed + 1).standard_normal(5)
    values = [p.value(p.columns @ start)]
    for steps in range(1, 6):
        z = fgmp.GradientDescent(steps=steps).minimise(p, start, np.random.default_rng(0))
        values.append(p.value(p.columns @ z))
    assert all(np.diff(values) <= 1e-12)
    expected = np.linalg.pinv(p.columns) @ p.targets
    z = fgmp.ConjugateGradient(steps=5).minimise(p, start, np.random.default_rng(0))
    np.testing.assert_allclose(z, expected, atol=1e-6)


def test_one_gradient_step_is_the_exact_line_search():
    p = problem(20, 5, 0)
    z = fgmp.GradientDescent(steps=1).minimise(p, np.zeros(5), np.random.default_rng(0))
    g = p.columns.T @ -p.targets / 20
    lengths = np.linspace(0, 5, 20_001)
    values = [p.value(p.columns @ (-length * g)) for length in lengths]
    np.testing.assert_allclose(z, -lengths[np.argmin(values)] * g, atol=1e-3)


def test_sgd_takes_the_steps_it_says():
    p = problem(10, 3, 0)
    z = fgmp.SGD(steps=2, learning_rate=0.1).minimise(p, np.zeros(3), np.random.default_rng(0))
    by_hand = np.zeros(3)
    for _ in range(2):
        by_hand -= 0.1 * p.columns.T @ (p.columns @ by_hand - p.targets) / 10
    np.testing.assert_allclose(z, by_hand)


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
    client = fgmp.Federation.from_arrays([A], [y]).clients[0]
    signals = []
    for dictionary in (D, E):
        zero, everything = SparseModel.zero((4,)), np.arange(4)
        b = minimise_on(everything, dictionary.prepare(client), dictionary, fgmp.GradientDescent(steps=3), zero, rng)
        signals.append(dictionary.synthesise(b.dense()))
    np.testing.assert_allclose(signals[0], signals[1], atol=1e-8)


def test_exact_solver_in_the_standard_basis_is_least_squares_on_the_columns():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((12, 8)), rng.standard_normal(12)
    client = fgmp.Federation.from_arrays([A], [y]).clients[0]
    merged = np.array([1, 4, 6])
    b = minimise_on(merged, client, StandardBasis(), fgmp.Exact(), SparseModel.zero((8,)), rng)
    np.testing.assert_allclose(b.values, np.linalg.lstsq(A[:, merged], y, rcond=None)[0])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: fgmp.GradientDescent(), "steps and accuracy are both None"),
        (lambda: fgmp.GradientDescent(steps=0), "steps is 0"),
        (lambda: fgmp.Newton(accuracy=0), "accuracy is 0; expected a finite number above 0"),
        (lambda: fgmp.ConjugateGradient(accuracy=np.nan), "accuracy is nan"),
        (lambda: fgmp.SGD(steps=2.5), "steps is 2.5"),
        (lambda: fgmp.SGD(learning_rate=-1), "learning_rate is -1"),
        (lambda: fgmp.SVRG(steps=1, batch_size=0), "batch_size is 0"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
    prepared = fgmp.FedGradMP(2, dictionary=dictionary).prepare(client)
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
