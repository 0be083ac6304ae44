"""The estimators on CSR: the model of the same dense table, and no row made dense."""

import tracemalloc

import numpy as np
import pytest
from cases import classification_table, regression_table, wide_sparse_table
from scipy import sparse

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def table(n_classes=0):
    """Most entries are zero; one column is full and one constant at some groups."""
    X, y, groups = (
        classification_table(n_classes, n_features=25)
        if n_classes
        else regression_table(n_features=25)
    )
    X[:, :3] *= np.random.default_rng(0).random((len(X), 3)) < 0.5
    X[:, 4:] *= np.random.default_rng(1).random((len(X), 21)) < 0.3
    X[groups < 2, 5] = 0
    return X, y, groups


def parameters(model):
    own = list(getattr(model, "intercepts_", {}).values())
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_), own])


CASES = [
    ("regressor", {"fit_intercept": "per_group"}),
    ("regressor", {"fit_intercept": False}),
    ("regressor", {"standardize": False, "method": "shared"}),
    ("regressor", {"method": "fedgradmp", "batch_size": 15, "cohort_size": 3}),
    (
        "regressor",
        {"sparsity": "cv", "fit_intercept": "per_group", "sparsities": [2, 4, 6], "n_folds": 2},
    ),
    ("classifier", {"sparsity": "cv", "sparsities": [2, 4, 6]}),
    ("classifier", {"fit_intercept": False, "method": "shared", "polish": False}),
    ("three", {"method": "shared", "C": 0.1}),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind, options", CASES, ids=str)
def test_csr_gives_the_model_of_the_dense_table(kind, options, weighted):
    """With weights, per group, in cross-validation and with cohorts."""
    make = fgmp.FedGradMPRegressor if kind == "regressor" else fgmp.FedGradMPClassifier
    X, y, groups = table({"regressor": 0, "classifier": 2, "three": 3}[kind])
    weights = np.random.default_rng(1).integers(0, 4, len(y)) if weighted else None
    dense, thin = (
        make(**({"sparsity": 4, "standardize": True, "random_state": 0} | options)).fit(
            rows, y, groups, weights
        )
        for rows in (X, sparse.csr_array(X))
    )
    np.testing.assert_array_equal(thin.support_, dense.support_)
    np.testing.assert_allclose(parameters(thin), parameters(dense), rtol=1e-8, atol=1e-9)
    assert (thin.method_, thin.sparsity_, thin.n_iter_) == (
        dense.method_,
        dense.sparsity_,
        dense.n_iter_,
    )
    for column in set(dense.history_) - {"seconds"}:
        # At the end units are compared, of dense columns only: one exchange more.
        stop = None if column == "objective" else -1
        np.testing.assert_allclose(
            thin.history_[column][:stop], dense.history_[column][:stop], rtol=1e-8, err_msg=column
        )


@pytest.mark.parametrize("fit_intercept", [True, "per_group"])
def test_fit_of_csr_makes_no_dense_rows(fit_intercept):
    """Its memory is a tenth of the dense table."""
    X, y, groups = wide_sparse_table()
    model = fgmp.FedGradMPRegressor(3, fit_intercept=fit_intercept, tol=1)
    with pytest.warns(UserWarning, match=r"Features \[.{50,150} and [0-9]+ more\] are constant"):
        model.fit(X, y, groups)
        tracemalloc.start()
        model.fit(X, y, groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * X.shape[0] * X.shape[1]


def test_classifier_finds_words_among_fifty_thousand():
    """Words by Zipf's law in 20 groups, in their own units and standardized."""
    rng = np.random.default_rng(0)
    n_rows = 2000
    n_words = 50_000
    frequency = 1 / np.arange(1, n_words + 1)
    words = rng.choice(n_words, (n_rows, 100), p=frequency / frequency.sum())
    X = sparse.csr_array(
        (np.ones(words.size), words.reshape(-1), np.arange(0, words.size + 1, 100)),
        (n_rows, n_words),
    )
    X.sum_duplicates()
    X.data[:] = 1
    telling = rng.choice(np.arange(5, 200), 15, replace=False)
    z = X[:, telling] @ rng.choice([-2.0, 2.0], 15)
    y = z - np.median(z) + rng.logistic(size=n_rows) > 0
    groups = np.arange(n_rows) % 20
    found, standardised = (
        np.isin(fgmp.FedGradMPClassifier(15, **more).fit(X, y, groups).support_, telling).sum()
        for more in ({}, {"standardize": True})
    )
    assert found >= 14
    assert standardised >= 14
