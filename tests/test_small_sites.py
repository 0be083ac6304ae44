"""Sites of few rows: where FedGradMP gives way to the shared support, and which sites take no part."""

import numpy as np
import pytest
from test_estimators import ESTIMATORS, classification, regression

import fgmp


def noisy(n_rows, tau=5, n_sites=10, n_features=50, seed=0):
    """Independent features, tau of them with a coefficient of one, noise of variance one; and 2,000 fresh rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_sites * n_rows + 2000, n_features))
    y = X[:, :tau].sum(axis=1) + rng.standard_normal(len(X))
    n = n_sites * n_rows
    return X[:n], y[:n], np.repeat(np.arange(n_sites), n_rows), X[n:], y[n:]


def test_the_first_site_beyond_is_left_to_fedgradmp():
    """Of 3 T + 1 coefficients, or of all features and an intercept, twice as many rows are too few by one.

    The path begins at T, at least 20 and two and a half tau, but no more than a third of all rows or all features.
    """
    for n_rows, options, method in (
        (122, dict(sparsity=3), "shared"),
        (123, dict(sparsity=3), "fedgradmp"),
        (120, dict(sparsity=3, fit_intercept=False), "shared"),
        (121, dict(sparsity=3, fit_intercept=False), "fedgradmp"),
        (122, dict(sparsity=3, fit_intercept="per_group"), "shared"),
        (182, dict(sparsity=12), "shared"),
        (183, dict(sparsity=12), "fedgradmp"),
    ):
        sites = noisy(n_rows, n_sites=3, n_features=200)[:3]
        assert fgmp.FedGradMPRegressor(**options).fit(*sites).method_ == method


@pytest.mark.parametrize("tau, n_rows", [(5, 15), (5, 16), (3, 10)])
def test_sites_that_interpolate_find_their_features(tau, n_rows):
    found = [fgmp.FedGradMPRegressor(tau).fit(*noisy(n_rows, tau, seed=seed)[:3]).support_ for seed in range(5)]
    assert min(len(support) for support in found) == tau
    assert np.mean([np.isin(np.arange(tau), support).mean() for support in found]) > 0.9


def test_whoever_asks_for_fedgradmp_where_rows_are_few_is_told():
    X, y, groups, *_ = noisy(20, 3)
    with pytest.warns(fgmp.AdviceWarning, match="10 coefficients .* and 10 of 10 clients have no more than 20 rows"):
        fgmp.FedGradMPRegressor(3, method="fedgradmp").fit(X, y, groups)
    X, y, groups, *_ = noisy(21, 3)
    fgmp.FedGradMPRegressor(3, method="fedgradmp", batch_size=21).fit(X, y, groups)
    groups[0] = 1
    with pytest.warns(fgmp.AdviceWarning, match="batch_size is 21, and 1 of 10 clients has fewer rows"):
        fgmp.FedGradMPRegressor(2, method="fedgradmp", batch_size=21).fit(X, y, groups)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_no_empty_model_without_a_word(make):
    """Law 11: the same targets whatever the features."""
    X, y = np.repeat(np.random.default_rng(0).standard_normal((20, 4)), 2, axis=0), np.arange(40) % 2
    with pytest.warns(fgmp.AdviceWarning, match="no feature is in the model"):
        model = make(2).fit(X, y, np.arange(40) // 2 % 3)
    assert not len(model.support_)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_site_below_the_minimum_takes_no_part_and_is_named(make):
    X, y, groups = regression() if make is fgmp.FedGradMPRegressor else classification()
    names = np.array([f"site {g}" for g in groups], object)
    few = np.arange(6)
    names[few[:2]], names[few[2:]] = "a single pair", "four"
    outside = np.ones(len(y), bool)
    outside[few] = False
    with pytest.warns(
        fgmp.AdviceWarning,
        match=r"2 of 8 groups have fewer than min_rows=5 rows \('a single pair', 'four'\): they send nothing",
    ) as said:
        model = make(3).fit(X, y, names)
    assert len(said) == 1
    without = make(3).fit(X[outside], y[outside], names[outside])
    np.testing.assert_array_equal(model.coef_, without.coef_)
    np.testing.assert_array_equal(model.groups_, without.groups_)
    np.testing.assert_array_equal(model.history_["bytes_up"], without.history_["bytes_up"])
    for over in ("groups", "rows"):
        ours, theirs = (m.bootstrap(2, over, random_state=0).coef for m in (model, without))
        np.testing.assert_array_equal(ours, theirs)
    everybody = make(3, min_rows=2).fit(X, y, names)
    assert len(everybody.groups_) == 8 and not np.array_equal(everybody.coef_, without.coef_)


def test_at_most_five_sites_are_named_and_rows_without_weight_do_not_count():
    X, y, groups = regression()
    many, weights = np.where(np.arange(len(y)) < 40, 100 + np.arange(len(y)) // 4, groups), np.ones(len(y))
    weights[np.flatnonzero(groups == 2)[4:]] = 0
    for given, weight, named in (
        (many, None, r"10 of 16 groups .* \(100, 101, 102, 103, 104 and 5 more\)"),
        (groups, weights, r"1 of 6 groups .* \(2\)"),
    ):
        with pytest.warns(fgmp.AdviceWarning, match=named):
            fgmp.FedGradMPRegressor(3).fit(X, y, given, sample_weight=weight)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_table_without_groups_is_no_site(make):
    X, y = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 0.0]]), np.array([0, 1, 1])
    assert make(1).fit(X, y).groups_.tolist() == [0]
    with pytest.raises(ValueError, match=r"1 of 1 groups have fewer than min_rows=5 rows \('a'\), and none is left"):
        make(1).fit(X, y, ["a"] * 3)
