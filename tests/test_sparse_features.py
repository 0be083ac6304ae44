"""Sparse features: the algebra of the matrix they stand for, and clients that hold them."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fgmp
from fgmp import theory
from fgmp.federation import Federation
from fgmp.models import SparseModel
from fgmp.sparse_features import SparseFeatures

quiet = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def some_matrix(rng, shape, density=0.3):
    return rng.standard_normal(shape) * (rng.random(shape) < density)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.sampled_from([None, "all", "some"]), st.integers(0, 2**32 - 1))
def test_the_algebra_is_that_of_the_matrix_that_is_meant(m, n, centred, seed):
    rng = np.random.default_rng(seed)
    S, u, at = some_matrix(rng, (m, n)), rng.standard_normal(m), rng.permutation(n)[: rng.integers(n + 1)]
    c = rng.standard_normal(n)
    if centred is None:
        features, A = SparseFeatures(sparse.csc_matrix(S)), S
    elif centred == "all":
        features, A = SparseFeatures(sparse.csr_array(S), u, c), S - np.outer(u, c)
    else:
        features, A = SparseFeatures(sparse.csr_array(S), u, c[at], at), S.copy()
        A[:, at] -= np.outer(u, c[at])
    x, X, w, W = (rng.standard_normal(shape) for shape in (n, (n, 3), m, (2, m)))
    rows, columns = rng.integers(m, size=4), rng.permutation(n)[: rng.integers(n + 1)]
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(features @ x, A @ x, **close)
    np.testing.assert_allclose(features @ X, A @ X, **close)
    np.testing.assert_allclose(w @ features, w @ A, **close)
    np.testing.assert_allclose(W @ features, W @ A, **close)
    np.testing.assert_allclose(features.take(columns, axis=1), A[:, columns], **close)
    np.testing.assert_allclose(features.take(rows, axis=0).toarray(), A[rows], **close)
    np.testing.assert_allclose(features.times_rows(w).toarray(), w[:, None] * A, **close)
    np.testing.assert_allclose((3.0 * features).toarray(), 3 * A, **close)
    single = features.astype(np.float32)
    np.testing.assert_allclose(single.toarray(), A, rtol=1e-5, atol=1e-5)
    assert single.dtype == (single @ x.astype(np.float32)).dtype == np.float32 and single.shape == (m, n)


# Clients; runs are law 6, and the axis `storage` of the matrix.


def matrices(seed=0, n_clients=4, m=40, n=30):
    rng = np.random.default_rng(seed)
    return [some_matrix(rng, (m + i, n)) for i in range(n_clients)], rng


def data(loss, seed=0, **sizes):
    """Matrices of few nonzeros, targets that few features explain, and rows seen with every label: minima exist."""
    As, rng = matrices(seed, **sizes)
    n = As[0].shape[1]
    x = np.zeros(n)
    x[[1, 4, 7, 8]] = [3, -2, 2.5, 2]
    zs = [A @ x + rng.standard_normal(len(A)) for A in As]
    if loss == "squared":
        return As, zs
    ys = [np.where(z > 0, 1, -1) if loss == "logistic" else np.digitize(z, [-1, 1]) for z in zs]
    labels = np.unique(ys[0])
    spoilt = [np.vstack([A, *[2 * np.eye(n)] * len(labels)]) for A in As]
    return spoilt, [np.concatenate([y, np.repeat(labels, n)]) for y in ys]


def both(loss):
    As, ys = data(loss)
    return (Federation.from_arrays(those, ys, loss) for those in (As, [sparse.csr_array(A) for A in As]))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_a_client_asked_directly(loss):
    dense, thin = (federation.clients[1] for federation in both(loss))
    rng = np.random.default_rng(0)
    x = rng.standard_normal(dense.model_shape)
    few = SparseModel.of(x * (np.arange(len(x)) < 3).reshape(-1, *(1,) * (x.ndim - 1)))
    rows = np.array([3, 0, 9])
    for model in (x, few, SparseModel.of(x)):
        np.testing.assert_allclose(thin.predictions(model), dense.predictions(model), atol=1e-12)
        np.testing.assert_allclose(thin.gradient(model), dense.gradient(model), atol=1e-12)
        np.testing.assert_allclose(thin.gradient(model, rows), dense.gradient(model, rows), atol=1e-12)
        assert thin.objective(model) == pytest.approx(dense.objective(model))
    np.testing.assert_array_equal(thin.columns(np.array([5, 2])), dense.columns(np.array([5, 2])))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_pooled_rows_stay_sparse(loss):
    As, ys = data(loss)
    mixed = [A if i == 1 else sparse.csr_array(A) for i, A in enumerate(As)]
    weights = None if loss == "softmax" else [1, 2, 0.5, 1]
    dense, thin = (Federation.from_arrays(those, ys, loss, weights).pooled() for those in (As, mixed))
    features = thin.clients[0].features
    assert isinstance(features, SparseFeatures)
    np.testing.assert_allclose(features.toarray(), dense.clients[0].features)


@quiet
@pytest.mark.parametrize("apart", [False, True])
def test_clients_centred_alike_or_each_by_itself(apart):
    """One table where the centres are the same, which pools; one for each client where they are not."""
    As, ys = data("squared")
    centres = [A.mean(axis=0) if apart else np.mean(As[0], axis=0) for A in As]
    parts = [SparseFeatures(sparse.csr_array(A), np.ones(len(A)), c) for A, c in zip(As, centres, strict=True)]
    thin = Federation.from_arrays(parts, ys)
    dense = Federation.from_arrays([A - c for A, c in zip(As, centres, strict=True)], ys)
    for method in (fgmp.FedGradMP(3), fgmp.FedAvg(learning_rate=0.05)):
        one, other = (fgmp.simulate(method, fed, 3, rng=0) for fed in (thin, dense))
        np.testing.assert_allclose(one.x, other.x, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(one.history["objective"], other.history["objective"], rtol=1e-10)
    if apart:
        with pytest.raises(ValueError, match="centred apart; expected them stored, and centred alike"):
            thin.pooled()
    else:
        np.testing.assert_allclose(thin.pooled().objective(other.x), dense.objective(other.x))


def test_what_theory_measures_is_that_of_the_dense_clients():
    rng = np.random.default_rng(0)
    As = [some_matrix(rng, (7, 6), 0.7) for _ in range(3)]
    ys, x = [rng.standard_normal(7) for _ in As], np.array([0, 1.0, 0, 0, 0, 0])
    dense, thin = (Federation.from_arrays(those, ys) for those in (As, [sparse.csr_array(A) for A in As]))
    found, expected = (theory.measure_constants(fed, x, 1, batch_size=3, n_minibatches=5) for fed in (thin, dense))
    for name in ("lower", "upper", "upper_squared", "gradient", "variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), err_msg=name)
    assert theory.heterogeneity(thin, x) == pytest.approx(theory.heterogeneity(dense, x))


# Memory.


def wide(loss, n_clients=3, m=100, n=30_000, per_row=8):
    """The nonzeros of a row fall among 2,000 of many features."""
    rng = np.random.default_rng(0)
    ends = np.arange(0, m * per_row + 1, per_row)
    As = [
        sparse.csr_array((rng.standard_normal(m * per_row), rng.integers(2000, size=m * per_row), ends), shape=(m, n))
        for _ in range(n_clients)
    ]
    draw = {"squared": rng.standard_normal, "logistic": lambda m: rng.choice([-1, 1], m)}
    return Federation.from_arrays(As, [draw.get(loss, lambda m: rng.integers(3, size=m))(m) for _ in As], loss)


def peak(run):
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@quiet
@pytest.mark.parametrize("method", [fgmp.FedGradMP(5), fgmp.FedIterHT(sparsity=5, learning_rate=0.1)], ids=["MP", "HT"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_no_dense_matrix_is_made(loss, method):
    federation = wide(loss)
    models = 8 * int(np.prod(federation.model_shape))
    used = peak(lambda: fgmp.simulate(method, federation, 1, rng=0))
    assert used < 16 * models < 0.5 * 8 * 100 * 30_000 * 3  # a few models, and far from one dense client


def test_a_model_of_many_features_needs_no_dense_columns():
    client = wide("squared").clients[0]
    model = SparseModel(np.arange(2000), np.ones(2000), (30_000,))
    assert peak(lambda: client.objective(model)) < 3 * 8 * 30_000


def test_what_a_client_keeps_is_at_most_twice_its_matrix():
    features = wide("squared").clients[0].features
    features.take(np.arange(5), axis=1)
    stored = features.stored
    assert sum(array.nbytes for array in features._by_column) <= stored.data.nbytes + 4 * stored.indices.nbytes
