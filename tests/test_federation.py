"""Federations: what they accept, what they refuse, and f itself."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import fgmp
from fgmp.models import SparseModel


def arrays(n_clients=3, n_samples=5, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((n_samples + i, n_features)) for i in range(n_clients)]
    return As, [rng.standard_normal(len(A)) for A in As]


@pytest.mark.parametrize("n_nonzeros", [0, 1, 30, 60, 300])
def test_predictions_are_the_product_however_few_entries_are_not_zero(n_nonzeros):
    rng = np.random.default_rng(n_nonzeros)
    A, x = rng.standard_normal((40, 300)), np.zeros(300)
    x[rng.permutation(300)[:n_nonzeros]] = rng.standard_normal(n_nonzeros)
    for features in (A, aslinearoperator(A)):
        client = fgmp.Federation.from_arrays([features], [np.zeros(40)]).clients[0]
        for model in (x, SparseModel.of(x)):
            np.testing.assert_allclose(client.predictions(model), A @ x, rtol=1e-12, atol=1e-12)


def test_objective_and_gradient_are_those_of_the_formula():
    As, ys = arrays()
    fed = fgmp.Federation.from_arrays(As, ys, weights=[1, 2, 1])
    x = np.array([1.0, 0, -2, 0.5])
    parts = [np.sum((A @ x - y) ** 2) / (2 * len(y)) for A, y in zip(As, ys, strict=True)]
    assert fed.objective(x) == pytest.approx(np.average(parts, weights=[1, 2, 1]))
    rows = np.array([0, 3])
    for A, y, client in zip(As, ys, fed.clients, strict=True):
        np.testing.assert_allclose(client.gradient(x), A.T @ (A @ x - y) / len(y))
        np.testing.assert_allclose(client.gradient(x, rows), A[rows].T @ (A[rows] @ x - y[rows]) / 2)


def test_default_weights_are_the_shares_of_the_samples():
    As, ys = arrays()
    np.testing.assert_allclose(fgmp.Federation.from_arrays(As, ys).weights, np.array([5, 6, 7]) / 18)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_inputs_are_never_modified_and_any_layout_works():
    As, ys = arrays()
    reference = fgmp.Federation.from_arrays(As, ys)
    method = fgmp.FedGradMP(sparsity=2, batch_size=3)
    expected = fgmp.simulate(method, reference, rounds=2, rng=0).x
    for convert in (np.asfortranarray, np.ascontiguousarray, lambda a: a[::1], lambda a: a.tolist()):
        given = [convert(A) for A in As]
        kept = [np.array(A) for A in given]
        for A in given:
            if isinstance(A, np.ndarray):
                A.setflags(write=False)
        result = fgmp.simulate(method, fgmp.Federation.from_arrays(given, ys), rounds=2, rng=0)
        np.testing.assert_array_equal(result.x, expected)
        for before, after in zip(kept, given, strict=True):
            np.testing.assert_array_equal(before, after)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_streamed_features_need_a_dictionary():
    As, ys = arrays()
    fed = fgmp.Federation.from_arrays([aslinearoperator(A) for A in As], ys)
    with pytest.raises(ValueError, match="streamed, not stored"):
        fgmp.simulate(fgmp.FedGradMP(sparsity=1), fed, rounds=1)
    streamed = fgmp.simulate(fgmp.FedGradMP(2, dictionary=fgmp.Dictionary(np.eye(4))), fed, rounds=2, rng=0)
    stored = fgmp.simulate(fgmp.FedGradMP(2), fgmp.Federation.from_arrays(As, ys), rounds=2, rng=0)
    np.testing.assert_allclose(streamed.x, stored.x)


@pytest.mark.parametrize("loss", [fgmp.SquaredLoss(), fgmp.LogisticLoss()])
def test_the_pooled_client_has_the_same_objective_and_gradient(loss):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((m, 6)) for m in (3, 8, 5)]
    ys = [rng.choice([-1.0, 1.0], len(A)) for A in As]
    weights = [0.2, 0.5, 0.3] if isinstance(loss, fgmp.SquaredLoss) else None
    federation = fgmp.Federation.from_arrays(As, ys, loss, weights=weights)
    x = rng.standard_normal(6)
    one = federation.pooled()
    np.testing.assert_allclose(one.objective(x), federation.objective(x))
    gradient = sum(p * c.gradient(x) for p, c in zip(federation.weights, federation.clients, strict=True))
    np.testing.assert_allclose(one.clients[0].gradient(x), gradient)


def test_other_losses_cannot_weigh_rows():
    federation = fgmp.Federation.from_arrays([np.eye(2)] * 2, [[1, -1]] * 2, "logistic", weights=[1, 2])
    with pytest.raises(ValueError, match="weights are not in proportion to the rows"):
        federation.pooled()
    streamed = fgmp.Federation.from_arrays([aslinearoperator(np.eye(2))] * 2, [[1, -1]] * 2)
    with pytest.raises(ValueError, match="features are streamed"):
        streamed.pooled()


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
