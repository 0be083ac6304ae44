"""Logistic and softmax losses against finite differences and scikit-learn; sparse classification with them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.models import SparseModel
from fgmp.restricted import RestrictedProblem
from fgmp.selection import Overall
from fgmp.solvers import minimise_on

LOSSES = {
    "squared": fgmp.SquaredLoss(),
    "logistic": fgmp.LogisticLoss(),
    "logistic, paper": fgmp.LogisticLoss(margin=2.0),
    "softmax": fgmp.SoftmaxLoss(3),
}


def data(name, n_samples=40, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_samples, n_features))
    if name == "squared":
        return A, rng.standard_normal(n_samples)
    if name.startswith("logistic"):
        return A, np.where(A[:, 0] + 1.5 * rng.standard_normal(n_samples) > 0, 1.0, -1.0)
    return A, np.argmax(A[:, :3] + 1.5 * rng.standard_normal((n_samples, 3)), axis=1)


def federation(name, n_clients=1, **options):
    pairs = [data(name, seed=s, **options) for s in range(n_clients)]
    return fgmp.Federation.from_arrays(*zip(*pairs, strict=True), loss=LOSSES[name])


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_and_curvatures_are_derivatives(name):
    (client,) = federation(name).clients
    rng, step = np.random.default_rng(1), 1e-6
    x, d = rng.standard_normal((2, *client.model_shape))
    slope = (client.objective(x + step * d) - client.objective(x - step * d)) / (2 * step)
    assert np.sum(client.gradient(x) * d) == pytest.approx(slope, abs=1e-7)
    change = (client.gradient(x + step * d) - client.gradient(x - step * d)) / (2 * step)
    z = client.predictions(x)
    curved = client.loss.curvature(z, client.targets, client.predictions(d))
    np.testing.assert_allclose(client.features.T @ curved / client.n_samples, change, atol=1e-7)
    smallest = np.sum(client.predictions(d) * curved)
    assert 0 <= smallest <= client.loss.smoothness * np.sum(client.predictions(d) ** 2) + 1e-12


def test_values_are_those_of_scikit_learn():
    for name, margin in (("logistic", 1), ("logistic, paper", 2)):
        (client,) = federation(name).clients
        x = np.random.default_rng(2).standard_normal(6)
        z = client.predictions(x)
        expected = log_loss(client.targets > 0, 1 / (1 + np.exp(-margin * z)))
        assert client.objective(x) == pytest.approx(expected)
    (client,) = federation("softmax").clients
    x = np.random.default_rng(2).standard_normal((6, 3))
    p = np.exp(client.predictions(x))
    assert client.objective(x) == pytest.approx(log_loss(client.targets, p / p.sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("name", ["logistic", "logistic, paper", "softmax"])
def test_huge_predictions_do_not_overflow(name):
    loss, z = LOSSES[name], np.array([-1e4, 0, 1e4])
    z, y = (z, np.array([1.0, 1, 1])) if name != "softmax" else (np.outer(z, [1.0, 0, -1]), np.array([0, 1, 0]))
    for part in (loss.values(z, y), loss.derivative(z, y), loss.curvature(z, y, np.ones_like(z))):
        assert np.isfinite(part).all()
    assert loss.values(z, y)[0] == pytest.approx(1e4 if name == "logistic" else 2e4)


@pytest.mark.parametrize("solver", [fgmp.Exact(), fgmp.Newton(accuracy=1e-8), fgmp.GradientDescent(accuracy=1e-8)])
def test_the_restricted_minimiser_is_scikit_learns(solver):
    """On a support, against LogisticRegression without a penalty; softmax columns up to a common shift."""
    rng = np.random.default_rng(0)
    support = np.array([0, 2, 5])
    (client,) = federation("logistic", n_samples=200).clients
    b = minimise_on(support, client, StandardBasis(), solver, SparseModel.zero((6,)), rng)
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
    reference.fit(client.features[:, support], client.targets)
    np.testing.assert_allclose(b.values, reference.coef_[0], atol=1e-5)
    (client,) = federation("softmax", n_samples=200).clients
    places = np.sort(np.concatenate([support * 3 + c for c in range(3)]))
    b = minimise_on(places, client, StandardBasis(), solver, SparseModel.zero((6, 3)), rng).dense()[support]
    reference.fit(client.features[:, support], client.targets)
    expected = reference.coef_.T
    centred = [m - m.mean(axis=1, keepdims=True) for m in (b, expected)]
    np.testing.assert_allclose(*centred, atol=1e-5)


def test_different_supports_per_class_have_zero_gradient_at_the_minimiser():
    rng = np.random.default_rng(0)
    (client,) = federation("softmax", n_samples=200).clients
    places = np.sort(rng.choice(18, 7, replace=False))
    b = minimise_on(places, client, StandardBasis(), fgmp.Exact(), SparseModel.zero((6, 3)), rng)
    gradient = client.gradient(b).reshape(-1)
    assert np.abs(gradient[places]).max() < 1e-12
    assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_the_hessian_is_the_derivative_of_the_gradient_in_any_coordinates(name):
    rng = np.random.default_rng(0)
    (client,) = federation(name).clients
    D = fgmp.Dictionary(rng.standard_normal((6, 5)))
    inside = replace(client, features=D.products(client.features))
    merged = np.array([0, 2, 3]) if name != "softmax" else np.array([0, 1, 4, 6, 8, 11, 13])
    problem = RestrictedProblem.of(inside, merged, D, orthonormal=True)
    z, d, step = rng.standard_normal(len(merged)), rng.standard_normal(len(merged)), 1e-6
    ahead, behind = (problem.gradient(problem.predictions(z + s * d)) for s in (step, -step))
    hessian = problem.hessian(problem.predictions(z))
    np.testing.assert_allclose(hessian @ d, (ahead - behind) / (2 * step), atol=1e-6)
    assert np.linalg.eigvalsh(hessian)[-1] <= problem.largest_curvature() * 1.05
    signal = D.synthesise(SparseModel(merged, problem.coefficients(z), inside.model_shape).dense())
    assert np.linalg.norm(signal) == pytest.approx(np.linalg.norm(z))
    np.testing.assert_allclose(problem.predictions(z), client.predictions(signal), atol=1e-10)
    np.testing.assert_allclose(problem.start(problem.coefficients(z)), z, atol=1e-10)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_separable_data_stay_finite(name):
    """No minimiser exists: the exact solver stops, the ball bounds, the inexact solver moves a little."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 30))
    y = np.where(A[:, 0] > 0, 1.0, -1.0) if name == "logistic" else np.argmax(A[:, :3], axis=1)
    alone = fgmp.Federation.from_arrays([A], [y], loss=LOSSES[name])
    plain = fgmp.simulate(fgmp.FedGradMP(5, solver=fgmp.Exact()), alone, rounds=2, rng=0)
    assert np.isfinite(plain.x).all() and np.linalg.norm(plain.x) > 5
    ball = fgmp.simulate(fgmp.FedGradMP(5, solver=fgmp.Exact(), radius=2.0), alone, rounds=2, rng=0)
    assert np.linalg.norm(ball.x) == pytest.approx(2.0)
    inexact = fgmp.simulate(fgmp.FedGradMP(5, solver=fgmp.SGD(steps=2)), alone, rounds=2, rng=0)
    assert np.linalg.norm(inexact.x) < np.linalg.norm(plain.x)
    assert inexact.history["objective"][-1] < inexact.history["objective"][0]


def test_logistic_recovery_of_a_planted_support():
    rng = np.random.default_rng(0)
    truth = np.zeros(50)
    truth[[3, 17, 40]] = [2.0, -2.0, 1.5]
    As = [rng.standard_normal((400, 50)) for _ in range(4)]
    ys = [np.where(rng.random(400) < 1 / (1 + np.exp(-2 * A @ truth)), 1.0, -1.0) for A in As]
    fed = fgmp.Federation.from_arrays(As, ys, loss=fgmp.LogisticLoss(margin=2.0), truth=truth)
    for solver in (fgmp.Exact(), fgmp.GradientDescent(steps=10), fgmp.SGD(steps=20, batch_size=100)):
        result = fgmp.simulate(fgmp.FedGradMP(3, batch_size=200, solver=solver), fed, rounds=4, rng=0)
        np.testing.assert_array_equal(result.support, [3, 17, 40])
        assert result.history["relative_error"][-1] < 0.3


@pytest.mark.parametrize("approximation", ["omp", "thresholding"])
@pytest.mark.parametrize("selection", [fgmp.PerOutput(), fgmp.PerOutput((2,)), Overall(), Overall((2,))])
def test_dictionary_operations_on_matrices_are_those_of_a_block_dictionary(approximation, selection):
    """Three outputs in a dictionary are one vector in the block-diagonal dictionary of the three."""
    rng = np.random.default_rng(1)
    D = fgmp.Dictionary(rng.standard_normal((12, 8)), approximation).counting(selection)
    block = fgmp.Dictionary(np.kron(D.atoms, np.eye(3)), approximation)
    W = rng.standard_normal((12, 3))
    correlations = D.atoms.T @ W
    chosen = D.approximate(correlations, 4)
    if isinstance(selection, Overall):
        always = tuple(3 * atom + c for atom in selection.always for c in range(3))
        expected = block.counting(fgmp.PerOutput(always)).approximate(correlations.reshape(-1), 4)
        np.testing.assert_array_equal(chosen, expected)
    else:
        columns = [D.approximate(column, 4) * 3 + c for c, column in enumerate(correlations.T)]
        np.testing.assert_array_equal(chosen, np.sort(np.concatenate(columns)))
    support = np.sort(rng.choice(24, 9, replace=False))
    model, vector = (SparseModel(support, np.arange(1.0, 10), shape) for shape in ((8, 3), (24,)))
    assert D.norm(model) == pytest.approx(block.norm(vector))
    kept = np.sort(rng.choice(24, 6, replace=False))
    np.testing.assert_allclose(D.project(model, kept).values, block.project(vector, kept).values, atol=1e-10)
    np.testing.assert_allclose(D.correlations(model).reshape(-1), block.correlations(vector), atol=1e-10)


def test_softmax_in_an_orthonormal_dictionary_is_the_standard_basis_of_rotated_data():
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))[0]
    fed = federation("softmax", n_clients=3)
    rotated = fgmp.Federation.from_arrays(
        [c.features @ Q.T for c in fed.clients], [c.targets for c in fed.clients], loss=LOSSES["softmax"]
    )
    for solver in (fgmp.SGD(2, batch_size=20), fgmp.GradientDescent(steps=3)):
        plain = fgmp.simulate(fgmp.FedGradMP(2, batch_size=20, solver=solver), fed, rounds=3, rng=0)
        method = fgmp.FedGradMP(2, batch_size=20, solver=solver, dictionary=fgmp.Dictionary(Q))
        np.testing.assert_allclose(fgmp.simulate(method, rotated, rounds=3, rng=0).x, Q @ plain.x, atol=1e-8)
