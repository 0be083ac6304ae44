"""The path over the sparsity: its scores by hand, its choice, and that the fit is its last step."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from cases import (
    ESTIMATORS,
    TABLES,
    classification_table,
    independent_table,
    regression_table,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

import fgmp
from fgmp.estimators import SparsityPath
from fgmp.estimators.folds import assign_folds

quiet = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def folds(X, y, groups, n_folds, seed=3, least=5):
    """The folds of the rows, in the order of the table, for an integer seed of the estimator."""
    drawn = int(np.random.RandomState(seed).randint(2**31 - 1))
    found = np.empty(len(y), int)
    for index, group in enumerate(np.unique(groups)):
        found[groups == group] = assign_folds(y[groups == group], index, n_folds, drawn, least)
    return found


@quiet  # with five folds one group deals four, or a fold would have four rows
@pytest.mark.parametrize("n_folds, weighted", [(2, False), (5, False), (2, True)])
def test_score_of_the_path_is_the_loss_on_held_out_rows(n_folds, weighted):
    """The mean over groups, and its standard error."""
    X, y, groups = regression_table()
    w = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    model = fgmp.FedGradMPRegressor("cv", sparsities=[12], n_folds=n_folds, random_state=3).fit(
        X, y, groups, w
    )
    of = folds(X, y, groups, n_folds)
    errors = np.empty(len(y))
    for fold in range(n_folds):
        out = of == fold
        errors[out] = (
            LinearRegression().fit(X[~out], y[~out], w[~out]).predict(X[out]) - y[out]
        ) ** 2 / 2
    losses = np.array([np.average(errors[groups == g], weights=w[groups == g]) for g in range(6)])
    shares = np.bincount(groups, w) / w.sum()
    np.testing.assert_allclose(model.cv_.table["score"], shares @ losses, rtol=1e-6)
    squares = shares @ (losses - shares @ losses) ** 2 * (shares @ shares) * 6 / 5
    np.testing.assert_allclose(model.cv_.table["standard_error"], np.sqrt(squares), rtol=1e-6)


def test_score_of_two_classes_is_the_log_loss():
    """Up to the small ridge of the path."""
    X, y, groups = classification_table()
    options = dict(sparsities=[12], n_folds=2, random_state=3, C=np.inf)
    model = fgmp.FedGradMPClassifier("cv", **options).fit(X, y, groups)
    of = folds(X, np.where(y == "top", 1.0, -1.0), groups, 2)
    Z = X / X.std(axis=0)
    loss = 0.0
    for out in (of == 0, of == 1):
        theirs = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000).fit(Z[~out], y[~out])
        loss += log_loss(y[out], theirs.predict_proba(Z[out])) * np.mean(out)
    # Paths have a ridge of at least 1e-4.
    np.testing.assert_allclose(model.cv_.table["score"], [loss], rtol=2e-3)


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_folds_have_equal_shares_of_rows_and_classes(n_folds):
    """In every group."""
    X, y, groups = classification_table(3)
    codes = np.unique(y, return_inverse=True)[1]
    of = folds(X, codes, groups, n_folds, least=1)
    for own in (groups == group for group in range(6)):
        for mask in (own, *(own & (codes == c) for c in range(3))):
            counts = np.bincount(of[mask], minlength=n_folds)
            assert counts.max() - counts.min() <= 1 + (mask.sum() < own.sum())


@pytest.mark.parametrize("distance, tau", [(0.49, 2), (0.51, 5)])
def test_path_chooses_smaller_model_within_half_a_standard_error(distance, tau):
    """Of the best score."""
    score = np.array([9, 3 + distance, 3, 3.1])
    errors = np.array([9.0, 9.0, 1.0, 9.0])
    assert (
        SparsityPath(
            dict(sparsity=np.array([1, 2, 5, 6]), score=score, standard_error=errors)
        ).chosen
        == tau
    )


@pytest.mark.parametrize("make", ESTIMATORS)
def test_cross_validation_chooses_three_features(make):
    """With groups and without, and the plot says so."""
    X, y, groups = TABLES[make](n_rows=1200)
    model = make("cv", random_state=0).fit(X, y, groups)
    one = make("cv", random_state=0).fit(X, y)  # one group validates by its folds
    for support in (model.support_, one.support_):
        np.testing.assert_array_equal(support, [0, 3, 7])
    assert (
        one.cv_.table["standard_error"][1:] > 0
    ).all()  # without features every fold may have the same shares
    assert model.cv_.plot().get_legend().get_texts()[0].get_text() == "chosen: 3"
    plt.close("all")


@pytest.mark.parametrize("make", ESTIMATORS)
def test_groups_of_a_single_row_take_part_in_cross_validation(make):
    """With cohorts, and with an intercept for each group."""
    X, y, groups = TABLES[make]()
    groups = np.where(np.arange(len(y)) < 5, 10 + np.arange(len(y)), groups)
    options = dict(sparsities=[1, 3], min_rows=1, random_state=0)
    model = make("cv", cohort_size=11, **options).fit(X, y, groups)  # of whom a fold has fewer
    assert len(model.groups_) == 11
    assert model.sparsity_ == 3
    if make is fgmp.FedGradMPRegressor:
        own = make("cv", fit_intercept="per_group", **options).fit(X, y, groups)
        assert len(own.groups_) == 11
        assert own.sparsity_ == 3


@quiet
def test_step_of_the_path_drops_the_cheapest_feature():
    """Against least squares on every support with one feature less."""
    X, z, groups = regression_table(n_features=20)
    X[:, 1::2] = X[:, ::2] + 0.3 * X[:, 1::2]
    y = z + X @ np.tile([2.0, -2, 1, 0], 5) / X.std(axis=0).max()
    fits = [fgmp.FedGradMPRegressor(tau).fit(X, y, groups) for tau in range(8, 0, -1)]

    def squares(support):
        return np.sum((LinearRegression().fit(X[:, support], y).predict(X[:, support]) - y) ** 2)

    for model, smaller in pairwise(fits):
        fewer = [np.delete(model.support_, k) for k in range(len(model.support_))]
        np.testing.assert_array_equal(smaller.support_, min(fewer, key=squares))


@quiet
def test_fit_with_cross_validation_is_that_of_the_chosen_sparsity():
    """What the choice sends is counted."""
    X, y, groups = independent_table(20, 12, n_features=60)
    options = dict(method="shared", n_folds=2, random_state=0)
    model = fgmp.FedGradMPRegressor("cv", sparsities=[4, 8, 12], **options).fit(X, y, groups)
    alone = fgmp.FedGradMPRegressor(model.sparsity_, **options).fit(X, y, groups)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    for name in ("round", "bytes_up", "bytes_down"):  # what the choice sends is counted
        ahead = model.history_[name][-1] - alone.history_[name][-1]
        assert ahead > 5 * 2 * 8 * 60 * 10 * (name != "round")


def pairs(seed, n_pairs=60, n_features=8):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_pairs), 2)
    X = rng.standard_normal((2 * n_pairs, n_features))
    y = (
        X[:, 0]
        - X[:, 1]
        + X[:, 2]
        + 3 * rng.standard_normal(n_pairs)[groups]
        + rng.standard_normal(2 * n_pairs)
    )
    return X, y, groups


OWN = dict(fit_intercept="per_group", min_rows=1)


def test_pairs_with_own_intercepts_are_scored_by_their_differences():
    """Half the squared error of a row is half that of the difference."""
    X, y, groups = pairs(0)
    score = (
        fgmp.FedGradMPRegressor("cv", sparsities=[8], random_state=3, **OWN)
        .fit(X, y, groups)
        .cv_.table["score"]
    )
    of = folds(X, y, groups, 5, least=1).reshape(-1, 2)
    D = X[::2] - X[1::2]
    d = y[::2] - y[1::2]
    expected = np.zeros(60)
    for fold in range(5):
        out = (of == fold).any(axis=1)
        found = np.linalg.lstsq(D[~out], d[~out], rcond=None)[0]
        expected[out] += (d[out] - D[out] @ found) ** 2 / 2 / 2  # each difference is held out twice
    np.testing.assert_allclose(score, [expected.mean()], rtol=1e-9)
    with pytest.raises(ValueError, match="n_folds is 2, and no fold leaves rows to learn from"):
        fgmp.FedGradMPRegressor("cv", n_folds=2, **OWN).fit(X, y, groups)
