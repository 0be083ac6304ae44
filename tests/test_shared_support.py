"""The shared support against GradMP on one pooled client, scikit-learn, and sums taken by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.methods.support_solvers import GradientsOnSupport, LocalSteps, Point
from fgmp.models import SparseModel

FEW = dict(n_clients=50, n_samples=5, n_features=1000, sparsity=10, variance_decay=0.2)


def squared(seed, sizes=(6, 9, 4), n_features=20, noise=0.3):
    rng = np.random.default_rng(seed)
    truth = np.zeros(n_features)
    truth[rng.choice(n_features, 3, replace=False)] = rng.standard_normal(3)
    As = [rng.standard_normal((m, n_features)) for m in sizes]
    ys = [A @ truth + noise * rng.standard_normal(len(A)) for A in As]
    return fgmp.Federation.from_arrays(As, ys, weights=rng.random(len(sizes)) + 0.1, truth=truth)


def labelled(seed, sizes=(30, 40, 20), n_features=8, loss="logistic"):
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((m, n_features)) for m in sizes]
    w = rng.standard_normal(n_features)
    ys = [np.where(A @ w + 2 * rng.standard_normal(len(A)) > 0, 1, -1 if loss == "logistic" else 0) for A in As]
    return fgmp.Federation.from_arrays(As, ys, loss)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
@example(4843, 4, True)
def test_with_nothing_cut_it_is_gradmp_on_the_pooled_data(seed, sparsity, in_dictionary):
    federation = squared(seed)
    dictionary = fgmp.gaussian_dictionary(20, 25, rng=1) if in_dictionary else StandardBasis()
    shared = fgmp.SharedSupportGradMP(sparsity, dictionary=dictionary, pruning="largest")
    gradmp = fgmp.FedGradMP(sparsity=sparsity, local_iterations=1, dictionary=dictionary)
    # Without the server of FedGradMP: in a coherent dictionary its projection may choose other atoms once more.
    (client,), x = federation.pooled().serving(gradmp).clients, SparseModel.zero((dictionary.n_atoms(20),))
    for rounds in (1, 2, 3):
        ours = fgmp.simulate(shared, federation, rounds, rng=0)
        x = gradmp.at_client(client, x, np.random.default_rng(0))
        np.testing.assert_array_equal(ours.support, x.support)
        np.testing.assert_allclose(ours.coefficients, x.dense(), rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("heterogeneity", [0.0, 1.0])
def test_five_samples_a_client_are_enough_and_fedgradmp_fails_there(heterogeneity):
    federation = fgmp.make_sparse_regression(**FEW, heterogeneity=heterogeneity, rng=0)
    shared = fgmp.simulate(fgmp.SharedSupportGradMP(sparsity=10), federation, 20, rng=0)
    alone = fgmp.simulate(fgmp.FedGradMP(sparsity=10), federation, 20, rng=0)
    assert shared.history["relative_error"][-1] < 1e-12
    assert alone.history["relative_error"][-1] > 0.1


def starting_at(result, x):
    """A result whose models are another one."""
    best = result.best._replace(x=x, coefficients=x, support=np.flatnonzero(x))
    return replace(result, best=best, x=x, coefficients=x, support=best.support)


def on_support(federation, solver, support, **options):
    """The model that `solver` finds on a support, from zero."""
    coefficients = np.zeros(federation.model_shape)
    coefficients.reshape(-1)[support] = 1e-3
    start = fgmp.simulate(fgmp.FedAvg(learning_rate=1.0), federation, 0)
    start = starting_at(start, coefficients)
    return fgmp.polish(start, federation, solver=solver, **options)


def test_conjugate_gradients_end_where_the_normal_equations_do():
    federation = squared(0, sizes=(20, 30))
    support = np.array([1, 4, 7, 11, 15])
    exact = on_support(federation, fgmp.NewtonOnSupport(), support)
    steps = on_support(federation, GradientsOnSupport(steps=5), support)
    more = on_support(federation, GradientsOnSupport(steps=50), support)
    np.testing.assert_allclose(steps.x, exact.x, rtol=1e-8)
    np.testing.assert_allclose(more.x, exact.x, rtol=1e-8)


def test_more_atoms_than_samples_give_the_solution_of_minimum_norm():
    federation = squared(0, sizes=(2, 3))
    support = np.arange(0, 20, 2)
    one = federation.pooled().clients[0]
    expected = np.linalg.lstsq(one.features[:, support], one.targets, rcond=None)[0]
    np.testing.assert_allclose(on_support(federation, fgmp.NewtonOnSupport(), support).x[support], expected, rtol=1e-7)


def test_in_a_dictionary_the_norm_is_that_of_the_signal():
    federation, dictionary = squared(0, sizes=(2, 2)), fgmp.gaussian_dictionary(20, 30, rng=3)
    support = np.arange(8)
    point, solver = Point(SparseModel(support, np.ones(8), (30,))), fgmp.NewtonOnSupport()
    clients = federation.serving(fgmp.FedGradMP(2, dictionary=dictionary)).clients
    answers = [solver.answer(client, solver.ask(point), None, dictionary) for client in clients]
    end = solver.update(point, federation.weights @ np.array(answers), dictionary, None)
    found = dictionary.synthesise(end.model.dense())
    one, span = federation.pooled().clients[0], np.linalg.qr(dictionary.atoms[:, support])[0]
    expected = span @ np.linalg.lstsq(one.features @ span, one.targets, rcond=None)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_newton_steps_end_at_scikit_learns_logistic_regression(ridge):
    federation, support = labelled(0), np.array([0, 2, 3, 6])
    found = on_support(federation, fgmp.NewtonOnSupport(steps=12, ridge=ridge), support).x[support]
    A = np.vstack([client.features for client in federation.clients])[:, support]
    y = np.concatenate([client.targets for client in federation.clients])
    C = 1 / (ridge * len(y)) if ridge else np.inf  # its penalty is |x|^2 / 2C, over m rows
    reference = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(A, y)
    np.testing.assert_allclose(found, reference.coef_[0], rtol=1e-4)


def test_newton_steps_for_softmax_reach_a_point_without_gradient():
    federation = labelled(1, loss="softmax")
    support = np.array([0, 3, 4, 9, 12])
    result = on_support(federation, fgmp.NewtonOnSupport(steps=12), support)
    gradient = sum(p * c.gradient(result.x) for p, c in zip(federation.weights, federation.clients, strict=True))
    np.testing.assert_allclose(gradient.reshape(-1)[support], 0, atol=1e-8)


def test_separable_data_need_a_ridge_or_a_ball():
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((5, 6)) for _ in range(3)]
    federation = fgmp.Federation.from_arrays(As, [np.sign(A[:, 1]) for A in As], "logistic")
    method = fgmp.SharedSupportGradMP(sparsity=2, solver=fgmp.NewtonOnSupport(steps=20))
    with pytest.raises(ValueError, match="separated without error.*expected a ridge above 0 or a radius"):
        fgmp.simulate(method, federation, 5, rng=0)
    ridged = fgmp.SharedSupportGradMP(sparsity=2, solver=fgmp.NewtonOnSupport(steps=20, ridge=1e-3))
    balled = fgmp.SharedSupportGradMP(sparsity=2, solver=fgmp.NewtonOnSupport(steps=20), radius=3.0)
    assert 1 in fgmp.simulate(ridged, federation, 5, rng=0).support
    x = fgmp.simulate(balled, federation, 5, rng=0).x
    assert 1 in np.flatnonzero(x) and np.linalg.norm(x) <= 3 * (1 + 1e-12)


def test_local_steps_average_what_the_solver_finds():
    federation, support = squared(4), np.array([2, 5, 9])
    found = on_support(federation, LocalSteps(fgmp.Exact()), support).x[support]
    each = [np.linalg.lstsq(c.features[:, support], c.targets, rcond=None)[0] for c in federation.clients]
    np.testing.assert_allclose(found, federation.weights @ np.array(each), rtol=1e-8)


def test_the_support_that_is_sent_holds_no_entry_that_nobody_sent():
    """Three clients send one entry each, in the first round: at most three atoms go out again, not 2 tau = 10."""
    rng = np.random.default_rng(0)
    As, ys = [rng.standard_normal((8, 20)) for _ in range(3)], [rng.standard_normal(8) for _ in range(3)]
    merged = {int(np.abs(A.T @ y).argmax()) for A, y in zip(As, ys, strict=True)}
    federation = fgmp.Federation.from_arrays(As, ys)
    history = fgmp.simulate(fgmp.SharedSupportGradMP(5, fgmp.LargestEntries(1)), federation, 1, rng=0).history
    assert history["bytes_down"][-1] == 3 * (4 + 4 + (4 + 8) * len(merged))  # the numbers of round and step, too
    normal_equations = len(merged) * (len(merged) + 1) // 2 + len(merged)
    assert history["bytes_up"][-1] == 3 * (4 + 8 + 8 * normal_equations)


def test_all_exchanges_of_a_round_take_place():
    """A start and so many steps of conjugate gradients, after the first exchange: vectors on the merged support."""
    fed = fgmp.make_sparse_regression(12, 30, 60, 4, noise_variance=1e-2, rng=0)
    steps = 12  # the merged support has 8 atoms in round 1
    printed = {"identify": fgmp.LargestEntries(8), "pruning": "largest"}
    inner = fgmp.SharedSupportGradMP(4, solver=GradientsOnSupport(steps=steps), **printed)
    result = fgmp.simulate(inner, fed, 1, rng=0)
    exact = fgmp.simulate(fgmp.SharedSupportGradMP(4, **printed), fed, 1, rng=0)
    np.testing.assert_allclose(result.x, exact.x, rtol=1e-6, atol=1e-9)
    assert result.history["bytes_up"][-1] == fed.n_clients * (8 * 12 + (1 + steps) * 8 * 8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_newton_steps_never_raise_the_objective():
    federation = labelled(2, sizes=(12, 9))
    far = np.zeros(8)
    far[[0, 1, 2]] = 30.0  # where a full step overshoots
    start = fgmp.simulate(fgmp.FedAvg(learning_rate=1.0), federation, 0)
    start = starting_at(start, far)
    for steps in (2, 3, 4, 8):
        closed = fgmp.polish(start, federation, solver=fgmp.NewtonOnSupport(steps=steps, ridge=1e-6))
        assert federation.objective(closed.x) <= federation.objective(far) + 1e-5
