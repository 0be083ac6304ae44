"""The estimators on CSR: the model of the same dense table, and no row made dense."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import fgmp
from fgmp.estimators.problem import Problem
from fgmp.estimators.sites import Site, scaling_of, sites_of
from fgmp.losses import SquaredLoss
from fgmp.sparse_features import SparseFeatures

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def table(n_classes=0, seed=0, n_rows=300, n_features=25):
    """Counts, most of them zero, of unequal size; one column is full and one constant at some groups."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(5, n_rows, p=[0.1, 0.15, 0.2, 0.25, 0.3])
    X = rng.poisson(0.3, (n_rows, n_features)) * 10 ** rng.uniform(-1, 1, n_features)
    X[:, 3] = rng.normal(100, 10, n_rows)
    X[groups < 2, 5] = 0
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    z = 2 * Z[:, 0] - 1.5 * Z[:, 3] + Z[:, 7] + 0.5 * Z[:, 5] + rng.standard_normal(n_rows)
    if not n_classes:
        return X, z, groups
    return X, np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes)), groups


def parameters(model):
    own = list(getattr(model, "intercepts_", {}).values())
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_), own])


CASES = [
    ("regressor", {}),
    ("regressor", {"fit_intercept": "per_group"}),
    ("regressor", {"fit_intercept": False}),
    ("regressor", {"standardize": False, "method": "shared"}),
    ("regressor", {"method": "fedgradmp", "batch_size": 15, "cohort_size": 3}),
    ("regressor", {"sparsity": "cv", "fit_intercept": "per_group", "sparsities": [2, 4, 6], "n_folds": 2}),
    ("regressor", {"polish": False}),
    ("classifier", {}),
    ("classifier", {"fit_intercept": False, "method": "shared"}),
    ("classifier", {"sparsity": "ebic", "sparsities": [2, 4, 6]}),
    ("three", {"method": "fedgradmp"}),
    ("three", {"method": "shared", "C": 0.1}),
]


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weighted rows"])
@pytest.mark.parametrize("kind, options", CASES, ids=str)
def test_csr_gives_the_model_of_the_dense_table(kind, options, weighted):
    make = fgmp.FedGradMPRegressor if kind == "regressor" else fgmp.FedGradMPClassifier
    X, y, groups = table({"regressor": 0, "classifier": 2, "three": 3}[kind])
    weights = np.random.default_rng(1).integers(0, 4, len(y)) if weighted else None
    dense, thin = (
        make(**({"sparsity": 4, "random_state": 0} | options)).fit(rows, y, groups, weights)
        for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_array_equal(thin.support_, dense.support_)
    np.testing.assert_allclose(parameters(thin), parameters(dense), rtol=1e-8, atol=1e-9)
    assert (thin.method_, thin.sparsity_, thin.n_iter_) == (dense.method_, dense.sparsity_, dense.n_iter_)
    for column in set(dense.history_) - {"seconds"}:
        np.testing.assert_allclose(thin.history_[column], dense.history_[column], rtol=1e-8, err_msg=column)


def test_entries_in_two_parts_and_out_of_order_are_entries():
    X, y, groups = table()
    A = sparse.csr_matrix(X)
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(A.indptr, A.indptr[1:], strict=False)])
    half = np.repeat(A.data[order] / 2, 2)
    strange = sparse.csr_matrix((half, np.repeat(A.indices[order], 2), 2 * A.indptr), shape=A.shape)
    kept = strange.data.copy(), strange.indices.copy()
    ours, theirs = (fgmp.FedGradMPRegressor(4).fit(rows, y, groups) for rows in (strange, A))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
    np.testing.assert_array_equal(strange.data, kept[0])
    np.testing.assert_array_equal(strange.indices, kept[1])


def test_single_precision_stays_and_comes_close():
    X, y, groups = table()
    dense, thin = (fgmp.FedGradMPRegressor(4).fit(rows, y, groups) for rows in (X, sparse.csr_array(X, dtype="f4")))
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-3 * np.abs(dense.coef_).max())


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_sums_of_a_site_are_those_of_its_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 7)) * (rng.random((9, 7)) < 0.4)
    X[:, 1], X[:, 2], X[:, 3] = 0, 2.5, rng.standard_normal(9) + 4
    X[0, 4], X[1:, 4] = 3, 0
    weights = rng.uniform(0.5, 2, 9)
    site = Site(0, X if kind == "dense" else sparse.csr_array(X), np.zeros(9), weights)
    sums = site.sums()
    mean = np.average(X, axis=0, weights=weights)
    np.testing.assert_allclose(sums["weight"], weights.sum())
    np.testing.assert_allclose(sums["mean"], mean, rtol=1e-14)
    np.testing.assert_allclose(sums["scatter"], weights @ (X - mean) ** 2, rtol=1e-12, atol=1e-28)
    assert sums["scatter"][1] == sums["scatter"][2] == 0 and sums["mean"][2] == 2.5


def wide(n_rows=600, n_features=20_000, per_row=6):
    """Six groups; the nonzeros of a row fall among 3,000 of the features, and all over them at one in ten."""
    rng = np.random.default_rng(0)
    columns = np.minimum(rng.integers(3000, size=n_rows * per_row) * rng.choice([1, 1, 1, 6], n_rows * per_row), 19_999)
    ends = np.arange(0, n_rows * per_row + 1, per_row)
    X = sparse.csr_array((rng.uniform(1, 2, n_rows * per_row), columns, ends), shape=(n_rows, n_features))
    return X, X @ np.append(np.ones(5), np.zeros(n_features - 5)) + rng.standard_normal(n_rows), np.arange(n_rows) % 6


@pytest.mark.parametrize("fit_intercept", [True, "per_group"])
def test_no_row_becomes_dense(fit_intercept):
    X, y, groups = wide()
    model = fgmp.FedGradMPRegressor(3, fit_intercept=fit_intercept, rounds=2)
    with pytest.warns(UserWarning, match=r"Features \[.{50,150}\] and [0-9]+ more are constant"):
        model.fit(X, y, groups)
        tracemalloc.start()
        model.fit(X, y, groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * X.shape[0] * X.shape[1]


def clients_of(sites, fit_intercept):
    return Problem.of(sites, SquaredLoss(), fit_intercept, True, True).federation().clients


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, "per_group", False])
def test_the_standardised_rows_are_those_of_the_dense_table(fit_intercept, intercept):
    X, y, groups = table()
    dense, thin = (sites_of(rows, y, np.ones(len(y)), groups) for rows in (X, sparse.csr_array(X)))
    for one, other in zip(dense, thin, strict=True):
        expected = scaling_of(dense, fit_intercept, True).standardised(one, intercept)
        found = scaling_of(thin, fit_intercept, True).standardised(other, intercept)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-10, atol=1e-10)


def test_sites_share_one_centre_or_keep_what_is_not_zero():
    X, y, groups = wide()
    sites = sites_of(X, y, np.ones(len(y)), groups)
    common, own = ([client.features for client in clients_of(sites, mode)] for mode in (True, "per_group"))
    assert all(isinstance(features, SparseFeatures) for features in common + own)
    assert all(features.centre is common[0].centre for features in common)
    assert all(len(features.centre) <= features.n_stored for features in own)
