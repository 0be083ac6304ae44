"""The closing exchange against pooled least squares, and its books."""

import numpy as np
import pytest

import fgmp
from fgmp.methods.support_solvers import LocalSteps
from fgmp.rounds import Streams


@pytest.fixture(scope="module")
def fed():
    return fgmp.make_sparse_regression(20, 30, 100, 5, noise_variance=1e-3, rng=0)


def pooled_solution(fed, support):
    """Least squares with equal weights: the clients have the same number of rows."""
    A = np.vstack([client.features for client in fed.clients])[:, support]
    return np.linalg.lstsq(A, np.concatenate([client.targets for client in fed.clients]), rcond=None)[0]


@pytest.mark.parametrize(
    "method",
    [
        fgmp.FedGradMP(sparsity=5),
        fgmp.FedIterHT(learning_rate=0.2, sparsity=5),
        fgmp.FedDualAvg(learning_rate=0.02, l1_weight=0.01),
        fgmp.SharedSupportGradMP(sparsity=5),
    ],
)
def test_any_result_ends_at_pooled_least_squares_on_its_support(fed, method):
    result = fgmp.simulate(method, fed, 5, rng=0)
    closed = fgmp.polish(result, fed)
    support = result.support
    np.testing.assert_array_equal(closed.support, support)
    np.testing.assert_allclose(closed.x[support], pooled_solution(fed, support), rtol=1e-8)


def test_in_a_dictionary_the_span_of_its_atoms_is_kept(fed):
    dictionary = fgmp.gaussian_dictionary(100, 120, rng=0)
    method = fgmp.FedGradMP(sparsity=5, dictionary=dictionary)
    result = fgmp.simulate(method, fed, 3, rng=0)
    closed = fgmp.polish(result, fed, dictionary=dictionary)
    A = np.vstack([client.features for client in fed.clients]) @ dictionary.atoms[:, result.support]
    y = np.concatenate([client.targets for client in fed.clients])
    np.testing.assert_allclose(closed.coefficients[result.support], np.linalg.lstsq(A, y, rcond=None)[0], rtol=1e-6)
    np.testing.assert_allclose(closed.x, dictionary.atoms @ closed.coefficients)


def test_the_history_goes_on(fed):
    metrics = {"norm": lambda x: float(np.linalg.norm(x)), "other": lambda x: 1.0}
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=5), fed, 3, rng=0, history=fgmp.History(metrics=metrics))
    closed = fgmp.polish(result, fed, history=fgmp.History(metrics={"norm": metrics["norm"]}))
    for name, column in result.history.items():
        np.testing.assert_array_equal(closed.history[name][:-1], column)
    assert closed.history["round"][-1] == 4
    assert closed.history["bytes_down"][-1] - result.history["bytes_down"][-1] == 20 * ((4 + 8) * 5 + 4)
    assert closed.history["bytes_up"][-1] - result.history["bytes_up"][-1] == 20 * 8 * (15 + 5)
    assert closed.history["norm"][-1] == np.linalg.norm(closed.x) and np.isnan(closed.history["other"][-1])
    assert closed.history["objective"][-1] < result.history["objective"][-1]


def test_an_empty_support_is_refused(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=5), fed, 0, rng=0)
    with pytest.raises(ValueError, match="result has an empty support"):
        fgmp.polish(result, fed)


def test_a_result_of_other_data_is_refused(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=2), fgmp.make_sparse_regression(3, 9, 12, 2, rng=0), 1, rng=0)
    with pytest.raises(ValueError, match=r"result has coefficients of shape \(12,\); expected \(100,\)"):
        fgmp.polish(result, fed)


def test_polish_goes_into_its_ball(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), fed, 2, rng=0)
    free = fgmp.polish(result, fed)
    radius = 0.5 * float(np.linalg.norm(free.x))
    inside = fgmp.polish(result, fed, radius=radius)
    np.testing.assert_allclose(inside.x, free.x / 2, rtol=1e-12)
    np.testing.assert_allclose(inside.coefficients, inside.x)
    assert inside.history["objective"][-1] == pytest.approx(fed.objective(free.x / 2))
    np.testing.assert_array_equal(fgmp.polish(result, fed, radius=4 * radius).x, free.x)


def test_polish_solves_within_its_ball_where_the_loss_has_no_minimiser():
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((5, 6)) for _ in range(3)]
    separable = fgmp.Federation.from_arrays(As, [np.sign(A[:, 1]) for A in As], "logistic")
    start = fgmp.simulate(fgmp.FedAvg(learning_rate=0.1), separable, 1, rng=0)
    steps = fgmp.NewtonOnSupport(steps=30)
    inside = fgmp.polish(start, separable, solver=steps, radius=3.0)
    assert np.linalg.norm(inside.x) == pytest.approx(3.0)
    assert separable.objective(inside.x) < separable.objective(start.x)
    with pytest.raises(ValueError, match="separated without error"):
        fgmp.polish(start, separable, solver=steps)


def test_polish_hands_its_seed_to_the_solver(fed):
    """One row of one step: the gradient of that row, and with another seed that of another one."""
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), fed, 2, rng=0)
    steps = LocalSteps(fgmp.SGD(steps=1, batch_size=1, learning_rate=0.1))
    ends = [fgmp.polish(result, fed, solver=steps, rng=seed).x for seed in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.abs(ends[0] - ends[2]).max() > 1e-4


@pytest.mark.parametrize("seed", [0, 3, 11])
def test_polish_asks_the_cohort_of_its_seed(fed, seed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), fed, 2, rng=0)
    closed = fgmp.polish(result, fed, cohort_size=3, rng=seed)
    assert closed.history["clients"][-1] == 3
    clients = [fed.clients[i] for i in Streams(seed).sample(Streams.COHORT, 1, fed.n_clients, 3)]
    A = np.vstack([client.features for client in clients])[:, result.support]
    expected = np.linalg.lstsq(A, np.concatenate([client.targets for client in clients]), rcond=None)[0]
    np.testing.assert_allclose(closed.x[result.support], expected, rtol=1e-7)
