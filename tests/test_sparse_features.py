"""Sparse features: the algebra of the matrix that they stand for, their formats, and their memory.

Runs on them are in test_sparse_estimators, and on the axis `storage` of the combinatorial tests.
"""

import tracemalloc

import numpy as np
import pytest
from cases import wide_sparse_table
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fgmp
from fgmp._support.sparse_features import SparseFeatures
from fgmp.data import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def some_matrix(rng, shape, density=0.3):
    return rng.standard_normal(shape) * (rng.random(shape) < density)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 12), st.booleans(), st.integers(0, 2**32 - 1))
def test_sparse_features_have_the_algebra_of_their_matrix(m, n, centred, seed):
    """Products, rows, columns and scaling, with and without a centre."""
    rng = np.random.default_rng(seed)
    S = some_matrix(rng, (m, n))
    u = rng.standard_normal(m)
    c = rng.standard_normal(n)
    features = SparseFeatures(sparse.csc_matrix(S))
    A = S
    if centred:
        features = SparseFeatures(sparse.csr_array(S), u, c)
        A = S - np.outer(u, c)
    x = rng.standard_normal(n)
    X = rng.standard_normal((n, 3))
    w = rng.standard_normal(m)
    W = rng.standard_normal((2, m))
    rows = rng.integers(m, size=4)
    columns = rng.permutation(n)[: rng.integers(n + 1)]
    pairs = [
        (features @ x, A @ x),
        (features @ X, A @ X),
        (w @ features, w @ A),
        (W @ features, W @ A),
    ]
    pairs += [
        (features.take(columns, axis=1), A[:, columns]),
        (features.take(rows, axis=0).toarray(), A[rows]),
    ]
    for found, expected in [*pairs, (features.times_rows(w).toarray(), w[:, None] * A)]:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    single = features.astype(np.float32)
    np.testing.assert_allclose(single.toarray(), A, rtol=1e-5, atol=1e-5)
    assert single.dtype == (single @ x.astype(np.float32)).dtype == np.float32
    assert single.shape == (
        m,
        n,
    )


def some_data():
    rng = np.random.default_rng(0)
    As = [some_matrix(rng, (m, 30)) for m in (40, 41, 42)]
    return As, [A[:, 4] + 0.3 * rng.standard_normal(len(A)) for A in As]


def unsorted(A):
    S = sparse.csr_array(A)
    order = np.lexsort((-S.indices, np.repeat(np.arange(len(A)), np.diff(S.indptr))))
    return sparse.csr_array((S.data[order], S.indices[order], S.indptr), A.shape)


def in_parts(A):
    """Every entry in two parts, and a zero that is stored."""
    S = sparse.csr_array(A)
    return sparse.csr_array(
        (np.kron(S.data, [0.25, 0.75, 0.0]), np.repeat(S.indices, 3), 3 * S.indptr), A.shape
    )


KINDS = "csr_array csc_array coo_array lil_array dia_array csr_matrix".split()
FORMS = {kind: getattr(sparse, kind) for kind in KINDS} | {
    "unsorted": unsorted,
    "in parts": in_parts,
}


@pytest.mark.parametrize("convert", FORMS.values(), ids=FORMS)
def test_sparse_format_gives_the_model_of_dense_rows(convert, backend):
    """No array of the user is written into."""
    As, ys = some_data()
    method = fgmp.FedGradMP(3, batch_size=12)
    those = [convert(A) for A in As]
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    arrays = [
        getattr(A, name)
        for A in those
        for name in names
        if isinstance(getattr(A, name, None), np.ndarray)
    ]
    for array in arrays:
        array.setflags(write=False)
    found = fgmp.simulate(method, Federation.from_arrays(those, ys), 2, rng=0).x
    expected = fgmp.simulate(method, Federation.from_arrays(As, ys), 2, rng=0).x
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [bool, float])
def test_sparse_features_of_any_type_become_floats(dtype):
    """Predictions are those of the dense matrix."""
    stored = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 0]]).astype(dtype))
    client = Federation.from_arrays([stored], [[1, 2]]).clients[0]
    assert client.features.dtype == np.float64
    np.testing.assert_array_equal(client.predictions(np.array([1.0, 2.0, 4.0])), [5, 2])


def test_canonical_csr_of_floats_is_not_copied():
    """The federation holds the array of the user."""
    stored = sparse.csr_array(np.array([[1.0, 0, 1], [0, 1, 0]]))
    client = Federation.from_arrays([stored], [[1, 2]]).clients[0]
    assert np.shares_memory(client.features.stored.data, stored.data)


@pytest.mark.parametrize("apart", [False, True])
def test_clients_with_one_centre_can_be_pooled(apart):
    """Clients with centres of their own are refused."""
    As, ys = some_data()
    pairs = [(A, A.mean(axis=0) if apart else As[0].mean(axis=0)) for A in As]
    thin = Federation.from_arrays(
        [SparseFeatures(sparse.csr_array(A), np.ones(len(A)), c) for A, c in pairs], ys
    )
    expected = Federation.from_arrays([A - c for A, c in pairs], ys).objective(np.ones(30))
    assert thin.objective(np.ones(30)) == pytest.approx(expected, rel=1e-12)
    if apart:
        with pytest.raises(
            ValueError, match="centred apart; expected them stored, and centred alike"
        ):
            thin.pooled()
    else:
        assert thin.pooled().objective(np.ones(30)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "method", [fgmp.FedGradMP(5), fgmp.FedIterHT(sparsity=5, learning_rate=0.1)], ids=["MP", "HT"]
)
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_run_on_sparse_features_makes_no_dense_matrix(loss, method, backend):
    """Its memory is a few models."""
    X, y, groups = wide_sparse_table()
    labels = {"squared": y, "logistic": y > 0}.get(loss, groups % 3)
    federation = Federation.from_arrays(
        *([A[groups == g] for g in range(6)] for A in (X, labels)), loss
    )
    models = 8 * int(np.prod(federation.model_shape))
    fgmp.simulate(method, federation, 1, rng=0)
    tracemalloc.start()
    fgmp.simulate(method, federation, 1, rng=0)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few models, and far from the dense table.
    assert used < 16 * models < 0.5 * 8 * X.shape[0] * X.shape[1]
