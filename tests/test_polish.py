"""The closing exchange against pooled least squares, and its books."""

import numpy as np
import pytest

import fgmp


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
    np.testing.assert_array_equal(closed.support, result.support)
    np.testing.assert_allclose(closed.x[result.support], pooled_solution(fed, result.support), rtol=1e-8)


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
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=5), fed, 3, rng=0, metrics=metrics)
    closed = fgmp.polish(result, fed, metrics={"norm": metrics["norm"]})
    for name, column in result.history.items():
        np.testing.assert_array_equal(closed.history[name][:-1], column)
    assert closed.history["round"][-1] == 4
    assert closed.history["bytes_down"][-1] - result.history["bytes_down"][-1] == 20 * (4 + 8) * 5
    assert closed.history["bytes_up"][-1] - result.history["bytes_up"][-1] == 20 * 8 * (15 + 5)
    assert closed.history["norm"][-1] == np.linalg.norm(closed.x) and np.isnan(closed.history["other"][-1])
    assert closed.history["objective"][-1] < result.history["objective"][-1]


def test_a_cohort_answers_alone(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=5), fed, 3, rng=0)
    assert fgmp.polish(result, fed, cohort_size=4).history["clients"][-1] == 4


def test_an_empty_support_is_refused(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=5), fed, 0, rng=0)
    with pytest.raises(ValueError, match="result has an empty support"):
        fgmp.polish(result, fed)


def test_a_result_of_other_data_is_refused(fed):
    result = fgmp.simulate(fgmp.FedGradMP(sparsity=2), fgmp.make_sparse_regression(3, 9, 12, 2, rng=0), 1, rng=0)
    with pytest.raises(ValueError, match=r"result has coefficients of shape \(12,\); expected \(100,\)"):
        fgmp.polish(result, fed)
