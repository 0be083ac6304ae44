"""Losses, against finite differences and scikit-learn; dictionaries with several outputs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import repeatable
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_squared_error

import fgmp
from fgmp import Overall
from fgmp.dictionaries import StandardBasis
from fgmp.losses import GLMLoss
from fgmp.solvers import SecondOrderProblem, minimise_on
from fgmp.sparse_model import SparseModel

LOSSES = {
    "squared": fgmp.SquaredLoss(),
    "logistic": fgmp.LogisticLoss(),
    "logistic, paper": fgmp.LogisticLoss(margin=2.0),
    "softmax": fgmp.SoftmaxLoss(3),
}


def client_of(name, n_samples=40):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n_samples, 6))
    z = A[:, :3] + 1.5 * rng.standard_normal((n_samples, 3))
    y = {"squared": z[:, 0], "softmax": z.argmax(axis=1)}.get(name, np.sign(z[:, 0]))
    return fgmp.Federation.from_arrays([A], [y], LOSSES[name]).clients[0]


@pytest.mark.parametrize("name", LOSSES)
def test_loss_has_values_of_scikit_learn_and_gradient_is_their_slope(name):
    """By central differences."""
    client = client_of(name)
    rng = np.random.default_rng(1)
    step = 1e-6
    x, d = rng.standard_normal((2, *client.model_shape))
    z = client.predictions(x)
    p = np.exp((2 if "paper" in name else 1) * z)
    p = p / p.sum(axis=1, keepdims=True) if name == "softmax" else p / (1 + p)
    y = client.targets
    assert client.objective(x) == pytest.approx(
        mean_squared_error(y, z) / 2 if name == "squared" else log_loss(y, p)
    )
    slope = (client.objective(x + step * d) - client.objective(x - step * d)) / (2 * step)
    assert np.sum(client.gradient(x) * d) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("name", list(LOSSES)[1:])
def test_huge_predictions_do_not_overflow(name):
    """Values, derivatives and curvatures are finite."""
    loss = LOSSES[name]
    z = np.array([-1e4, 0, 1e4])
    z, y = (
        (z, np.array([1.0, 1, 1]))
        if name != "softmax"
        else (np.outer(z, [1.0, 0, -1]), np.array([0, 1, 0]))
    )
    for part in (loss.values(z, y), loss.derivative(z, y), loss.curvature(z, y, np.ones_like(z))):
        assert np.isfinite(part).all()
    assert loss.values(z, y)[0] == pytest.approx(1e4 if name == "logistic" else 2e4)


@pytest.mark.parametrize(
    "solver", [fgmp.Exact(), fgmp.Newton(accuracy=1e-8), fgmp.GradientDescent(accuracy=1e-8)]
)
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_restricted_minimiser_is_that_of_scikit_learn(solver, name):
    """Without a penalty; columns of softmax up to a common shift."""
    support = np.array([0, 2, 5])
    client = client_of(name, n_samples=200)
    indices = np.arange(np.prod(client.model_shape)).reshape(6, -1)[support].ravel()
    start = SparseModel.zero(client.model_shape)
    b = minimise_on(
        indices, client, StandardBasis(), solver, start, np.random.default_rng(0)
    ).dense()[support]
    reference = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = reference.fit(client.features[:, support], client.targets).coef_.T
    found = b.reshape(3, -1)
    if name == "softmax":
        found = found - found.mean(axis=1, keepdims=True)
        expected = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_hessian_is_the_derivative_of_the_gradient(name):
    """Also in orthonormal coordinates of a dictionary."""
    rng = np.random.default_rng(0)
    client = client_of(name)
    D = fgmp.Dictionary(rng.standard_normal((6, 5)))
    inside = replace(client, features=D.products(client.features))
    merged = np.array([0, 2, 3]) if name != "softmax" else np.array([0, 1, 4, 6, 8, 11, 13])
    problem = SecondOrderProblem.of(inside, merged, D).orthonormalised()
    z = rng.standard_normal(len(merged))
    d = rng.standard_normal(len(merged))
    step = 1e-6
    ahead = problem.gradient(problem.predictions(z + step * d))
    behind = problem.gradient(problem.predictions(z + -step * d))
    hessian = problem.hessian(problem.predictions(z))
    np.testing.assert_allclose(hessian @ d, (ahead - behind) / (2 * step), atol=1e-6)
    signal = D.synthesise(SparseModel(merged, problem.coefficients(z), inside.model_shape).dense())
    assert np.linalg.norm(signal) == pytest.approx(np.linalg.norm(z))
    np.testing.assert_allclose(problem.predictions(z), client.predictions(signal), atol=1e-10)
    np.testing.assert_allclose(problem.coordinates(problem.coefficients(z)), z, atol=1e-10)


@pytest.mark.parametrize("approximation", ["omp", "thresholding"])
@pytest.mark.parametrize(
    "selection", [fgmp.PerOutput(), fgmp.PerOutput((2,)), Overall(), Overall((2,))]
)
def test_three_outputs_are_one_vector_in_a_block_diagonal_dictionary(approximation, selection):
    """Selections, norms, projections and correlations agree."""
    rng = np.random.default_rng(1)
    D = fgmp.Dictionary(rng.standard_normal((12, 8)), approximation)
    block = fgmp.Dictionary(np.kron(D.atoms, np.eye(3)), approximation)
    W = rng.standard_normal((12, 3))
    correlations = D.atoms.T @ W
    chosen = D.select_atoms(correlations, 4, selection)
    if isinstance(selection, Overall):
        always_include = tuple(3 * atom + c for atom in selection.always_include for c in range(3))
        expected = block.select_atoms(correlations.reshape(-1), 4, fgmp.PerOutput(always_include))
        np.testing.assert_array_equal(chosen, expected)
    else:
        columns = [
            D.select_atoms(column, 4, selection) * 3 + c for c, column in enumerate(correlations.T)
        ]
        np.testing.assert_array_equal(chosen, np.sort(np.concatenate(columns)))
    support = np.sort(rng.choice(24, 9, replace=False))
    model = SparseModel(support, np.arange(1.0, 10), (8, 3))
    vector = SparseModel(support, np.arange(1.0, 10), (24,))
    assert D.norm(model) == pytest.approx(block.norm(vector))
    kept = np.sort(rng.choice(24, 6, replace=False))
    np.testing.assert_allclose(
        D.project(model, kept).values, block.project(vector, kept).values, atol=1e-10
    )
    np.testing.assert_allclose(
        D.correlations(model).reshape(-1), block.correlations(vector), atol=1e-10
    )


# What `GLMLoss` adds.


def targets_and_means(loss, codes):
    """Return targets of any loss from codes 0, 1 and 2, and their mean or the shares of classes."""
    if isinstance(loss, fgmp.SoftmaxLoss):
        return codes, np.bincount(codes, minlength=3) / len(codes)
    if isinstance(loss, fgmp.LogisticLoss):
        signs = np.where(codes > 0, 1.0, -1.0)
        return signs, np.array([np.mean(signs < 0), np.mean(signs > 0)])
    return codes.astype(float), codes.mean(keepdims=True)


@repeatable(20)
@given(more=st.lists(st.integers(0, 2), max_size=20))
@pytest.mark.parametrize("loss", [*LOSSES.values(), fgmp.PoissonLoss()])
def test_link_of_means_is_the_best_constant_and_expected_targets_go_back(loss, more):
    """There the sum of all derivatives is zero, and what is expected is the mean that was seen."""
    targets, means = targets_and_means(loss, np.array([0, 1, 2, *more]))
    constant = loss.link(means)
    assert constant.shape == (loss.n_outputs,)
    z = np.broadcast_to(constant, (len(targets), loss.n_outputs))
    if loss.n_outputs == 1:
        z = z[:, 0]
        np.testing.assert_allclose(loss.expected_targets(z), means[-1], rtol=1e-12)
    np.testing.assert_allclose(loss.derivative(z, targets).mean(axis=0), 0, atol=1e-12)


class SignLoss(fgmp.Loss):
    """The logistic loss again, by a user who says nothing of margins."""

    is_binary = True

    def values(self, predictions, targets):
        return np.logaddexp(0, -targets * predictions)

    def derivative(self, predictions, targets):
        return -targets / (1 + np.exp(targets * predictions))

    def curvature(self, predictions, targets, direction):
        return direction / (2 + 2 * np.cosh(predictions))


class SignLossWithMargins(SignLoss, GLMLoss):
    """The same, by a user who does."""

    def label_margins(self, predictions, targets):
        return (targets * predictions)[:, None]


def method_with(ridge):
    solver = fgmp.NewtonOnSupport(steps=8, ridge=ridge)
    return fgmp.SharedSupportGradMP(2, solver=solver)


@pytest.mark.parametrize("loss", [SignLoss(), SignLossWithMargins()])
def test_newton_on_support_takes_a_loss_of_a_user(loss, backend):
    """With margins or without, it finds what it finds with the logistic loss of the package."""
    rng = np.random.default_rng(0)
    As = rng.standard_normal((4, 60, 5))
    ys = np.sign(As[:, :, 1] - As[:, :, 3] + rng.logistic(size=(4, 60)))
    found, expected = (
        fgmp.simulate(method_with(0), fgmp.Federation.from_arrays(As, ys, each), 2, rng=0).x
        for each in (loss, fgmp.LogisticLoss())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.count_nonzero(found) == 2


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_only_a_loss_with_margins_tells_that_rows_are_separated():
    """A loss without them is fitted as far as its steps go; a ridge bounds both."""
    A = np.array([[1.0, 0.0], [-1.0, 0.5], [2.0, -0.5], [-2.0, 0.0]])
    federations = {
        kind: fgmp.Federation.from_arrays([A], [[1, -1, 1, -1]], kind())
        for kind in (SignLoss, SignLossWithMargins)
    }
    with pytest.raises(ValueError, match="separated without error"):
        fgmp.simulate(method_with(0), federations[SignLossWithMargins], 1, rng=0)
    far = fgmp.simulate(method_with(0), federations[SignLoss], 1, rng=0).x
    for federation in federations.values():
        near = fgmp.simulate(method_with(0.1), federation, 1, rng=0).x
        assert np.linalg.norm(near) < np.linalg.norm(far) < np.inf
