"""Federations: f itself, what they are made of, and rounds that visit their cohort alone."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import fgmp
from fgmp.federation import Federation
from fgmp.models import SparseModel
from fgmp.rounds import Mean, Step, Streams, iterate

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


@pytest.mark.parametrize("n_nonzeros", [0, 1, 30, 60, 300])
def test_predictions_are_the_product_however_few_entries_are_not_zero(n_nonzeros):
    rng = np.random.default_rng(n_nonzeros)
    A, x = rng.standard_normal((40, 300)), np.zeros(300)
    x[rng.permutation(300)[:n_nonzeros]] = rng.standard_normal(n_nonzeros)
    for features in (A, aslinearoperator(A)):
        client = fgmp.Federation.from_arrays([features], [np.zeros(40)]).clients[0]
        for model in (x, SparseModel.of(x)):
            np.testing.assert_allclose(client.predictions(model), A @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.float64, None])
def test_streamed_features_of_any_real_type_are_the_stored_ones(dtype):
    A, atoms = np.random.default_rng(0).integers(-3, 4, (20, 6)), fgmp.Dictionary(np.eye(6) + 0.1)
    rows = LinearOperator(A.shape, A.dot, matmat=A.dot, rmatmat=A.T.dot, dtype=dtype)
    rows.dtype = dtype and np.dtype(dtype)
    y = A @ [0.5, 0, 0, -2, 0, 0]
    streamed, stored = (
        fgmp.simulate(fgmp.FedGradMP(2, dictionary=atoms), Federation.from_arrays([each], [y]), 3, rng=0)
        for each in (rows, A)
    )
    assert streamed.x.dtype == np.float64
    np.testing.assert_allclose(streamed.x, stored.x, atol=1e-12)
    with pytest.raises(ValueError, match="streamed, not stored"):
        fgmp.simulate(fgmp.FedGradMP(2), Federation.from_arrays([rows], [y]), 1)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_objective_and_gradient_are_those_of_the_formula_and_of_the_pooled_client(loss):
    rng = np.random.default_rng(0)
    As, x = [rng.standard_normal((m, 6)) for m in (3, 8, 5)], rng.standard_normal(6)
    ys = [rng.choice([-1.0, 1.0], len(A)) for A in As]
    federation = Federation.from_arrays(As, ys, loss, weights=[2, 5, 3] if loss == "squared" else None)
    p, gradients = federation.weights, [client.gradient(x) for client in federation.clients]
    if loss == "squared":
        parts = [np.sum((A @ x - y) ** 2) / (2 * len(y)) for A, y in zip(As, ys, strict=True)]
        assert federation.objective(x) == pytest.approx(np.average(parts, weights=[2, 5, 3]))
        for A, y, gradient, client in zip(As, ys, gradients, federation.clients, strict=True):
            np.testing.assert_allclose(gradient, A.T @ (A @ x - y) / len(y))
            np.testing.assert_allclose(client.gradient(x, np.array([0, 2])), A[[0, 2]].T @ (A @ x - y)[[0, 2]] / 2)
    one = federation.pooled()
    np.testing.assert_allclose(one.objective(x), federation.objective(x))
    np.testing.assert_allclose(one.clients[0].gradient(x), p @ np.array(gradients))


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", fgmp.SquaredLoss(averaged=False)])
@pytest.mark.parametrize("shape", [(7, 5, 4), (3, 50, 200), (2, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_one_array_of_all_rows_makes_the_clients_that_a_list_makes(loss, shape, dtype):
    """In any layout, of lists too; what came is left as it was."""
    rng = np.random.default_rng(0)
    X, kinds = (9 * rng.standard_normal(shape)).astype(dtype), np.arange(shape[0] * shape[1]).reshape(shape[:2])
    y = {"logistic": kinds % 2, "softmax": kinds % 3}.get(loss, rng.standard_normal(shape[:2]))
    expected, before = Federation.from_arrays(list(X), list(y), loss), X.copy()
    turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)
    for given in (X, turned, [np.asfortranarray(A) for A in X], X.tolist() if dtype == np.float64 else X):
        for targets in (y, y.tolist()):
            found = Federation.from_arrays(given, targets, loss)
            np.testing.assert_array_equal(found.weights, expected.weights)
            assert (found.labels, found.loss, found.dtype) == (expected.labels, expected.loss, expected.dtype)
            for one, other in zip(found.clients, expected.clients, strict=True):
                assert one.key == other.key and one.targets.dtype == other.targets.dtype
                np.testing.assert_array_equal(one.features, other.features)
                np.testing.assert_array_equal(one.targets, other.targets)
    np.testing.assert_array_equal(X, before)


def test_one_array_of_all_rows_is_not_copied():
    rng = np.random.default_rng(0)
    X, ys = rng.standard_normal((1000, 20, 200)), rng.standard_normal((1000, 20))
    fgmp.simulate(fgmp.FedGradMP(3), Federation.from_arrays(X[:2], ys[:2]), 1, rng=0)  # compiled loops are loaded once
    tracemalloc.start()
    federation = Federation.from_arrays(X, ys)
    fgmp.simulate(fgmp.FedGradMP(3), federation, 2, 10, rng=0, history=fgmp.History(objective_on=10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * X.nbytes
    assert all(np.shares_memory(client.features, X) for client in federation.clients)


def test_a_round_allocates_nothing_for_those_who_take_no_part():
    n_clients = 40_000
    federation, method = Federation.from_arrays(np.ones((n_clients, 1, 2)), np.ones((n_clients, 1))), fgmp.FedGradMP(1)
    channel = federation.serving(method)
    rounds = iterate(method, channel, Step(0, method.start(channel.shape)), Streams(0), 10, Mean())
    for _ in range(3):  # the first time more is made, once
        tracemalloc.start()
        next(rounds)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < n_clients
