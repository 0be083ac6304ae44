"""The estimators keep scikit-learn's contract, and end where its pooled linear models end on the same features."""

import datetime
import subprocess
import sys
import zoneinfo

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import fgmp

ESTIMATORS = (fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier)


@pytest.mark.filterwarnings("ignore:Features .* are constant")
@parametrize_with_checks([make() for make in ESTIMATORS])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def table(seed=0, n_rows=400, n_features=12, n_groups=6):
    """Features of unequal scale and mean, three of them used; groups of unequal size with shifted features."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(
        n_groups, n_rows, p=np.arange(1, n_groups + 1) / np.arange(1, n_groups + 1).sum()
    )
    X = (
        rng.standard_normal((n_rows, n_features))
        + 0.3 * rng.standard_normal((n_groups, n_features))[groups]
    )
    scales = 10 ** rng.uniform(-1, 1, n_features)
    z = 2 * X[:, 0] - 1.5 * X[:, 3] + X[:, 7] + 0.5
    return X * scales + 3 * scales, z, groups, rng


def regression(seed=0, **sizes):
    X, z, groups, rng = table(seed, **sizes)
    return X, z + 0.3 * rng.standard_normal(len(z)), groups


def classification(n_classes=2, seed=0, **sizes):
    X, z, groups, rng = table(seed, **sizes)
    noisy = z + rng.logistic(size=len(z))
    edges = np.quantile(noisy, np.arange(1, n_classes) / n_classes)
    return X, np.array(["low", "mid", "top"])[np.digitize(noisy, edges) + (n_classes == 2)], groups


DATA = {fgmp.FedGradMPRegressor: regression, fgmp.FedGradMPClassifier: classification}


@pytest.mark.parametrize("make", ESTIMATORS)
def test_few_features_are_found_and_the_others_are_zero(make):
    X, y, groups = DATA[make]()
    model = make(3).fit(X, y, groups, sample_weight=(groups != 2).astype(float))
    np.testing.assert_array_equal(model.support_, [0, 3, 7])
    np.testing.assert_array_equal(
        model.groups_, [0, 1, 3, 4, 5]
    )  # a group of weight zero is not there
    assert np.count_nonzero(model.coef_) == model.sparsity_ == 3
    n_targets = (
        1 if make is fgmp.FedGradMPRegressor else 2
    )  # of five groups sizes, means and squares
    assert model.history_["bytes_up"][0] == 5 * 8 * 3 * (12 + n_targets)
    assert model.history_["bytes_down"][0] == 5 * (8 * 3 * (12 + n_targets) + 4)
    if make is fgmp.FedGradMPRegressor:  # of which each group has its own
        own = make(3, fit_intercept="per_group").fit(X, y, groups)
        levels = [own.intercepts_[group] for group in range(6)]
        assert own.intercept_ == pytest.approx(np.average(levels, weights=np.bincount(groups)))
    else:  # a class of weight zero is not there
        weights = (y != "top").astype(float)
        three, balanced = np.where(groups == 1, "other", y), make(3, class_weight="balanced")
        assert balanced.fit(X, three, groups, weights).classes_.tolist() == ["mid", "other"]


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("n_rows", [60, 400])
@pytest.mark.parametrize("method", ["fedgradmp", "shared"])
def test_separable_classes_have_a_finite_model(method, n_rows):
    X, _, groups = classification(n_rows=n_rows)
    y = X[:, 0] > np.median(X[:, 0])
    model = fgmp.FedGradMPClassifier(3, method=method).fit(X, y, groups)
    assert model.score(X, y) > 0.95 and np.abs(model.decision_function(X)).max() < 100


def test_cohorts_and_minibatches_depend_on_the_seed_only():
    X, y, groups = regression()
    options = dict(cohort_size=3, batch_size=10, local_iterations=2)
    first, again, other = (
        fgmp.FedGradMPRegressor(3, random_state=s, **options).fit(X, y, groups) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.history_["objective"], again.history_["objective"])
    assert not np.array_equal(first.history_["objective"][1:2], other.history_["objective"][1:2])


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("polish", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_the_history_is_of_the_model_in_the_units_of_the_table(make, fit_intercept, polish):
    X, y, groups = DATA[make]()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    options = dict(method="fedgradmp", fit_intercept=fit_intercept, polish=polish, rounds=1)
    model = make(3, **options).fit(X, y, groups, sample_weight=weights)
    if make is fgmp.FedGradMPRegressor:
        level = np.average(y, weights=weights) if fit_intercept else 0.0
        start, end = (
            np.average((y - z) ** 2, weights=weights) / 2 for z in (level, model.predict(X))
        )
    else:
        share = np.average(y == model.classes_[1], weights=weights) if fit_intercept else 0.5
        prior = np.tile([1 - share, share], (len(y), 1))
        start, end = (
            log_loss(y, p, sample_weight=weights) for p in (prior, model.predict_proba(X))
        )
    history = model.history_
    np.testing.assert_allclose(history["objective"][[0, -1]], [start, end], rtol=1e-9)
    # The units, the one round and the path, and what closes: exchanges beside the method's are rounds of their own.
    assert history["round"][:2].tolist() == [1, 2] and (history["round"][-1] > 3) == polish


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_constant_columns_are_named_and_get_zero(make, value):
    X, y, groups = DATA[make](n_features=9)
    flat = X.copy()
    flat[:, [1, 4]] = value
    with pytest.warns(UserWarning, match=r"Features \[1, 4\] are constant"):
        model = make(9).fit(flat, y, groups)
    np.testing.assert_array_equal(np.ravel(model.coef_)[[1, 4]], 0)
    without = make(7).fit(np.delete(X, [1, 4], axis=1), y, groups)
    np.testing.assert_allclose(
        linear(model, flat), linear(without, np.delete(X, [1, 4], axis=1)), rtol=1e-6
    )
    if make is fgmp.FedGradMPRegressor:  # constant in every group, for the within estimator
        X[:, 5] = groups / 3
        with pytest.warns(UserWarning, match=r"Features \[5\] are constant"):
            assert 5 not in make(9, fit_intercept="per_group").fit(X, y, groups).support_
        assert make(9).fit(X, y, groups).coef_[5] != 0


def linear(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_all_features_are_the_dense_model(make):
    X, y, groups = DATA[make]()
    model = make("all", C=0.1).fit(X, y, groups)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    logistic = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000)
    other = Ridge(alpha=10) if make is fgmp.FedGradMPRegressor else logistic
    expected = np.atleast_2d(other.fit(Z, y).coef_)
    np.testing.assert_allclose(
        np.atleast_2d(model.coef_) * X.std(axis=0), expected, rtol=1e-3, atol=1e-4
    )
    assert (model.method_, model.sparsity_, model.n_iter_) == ("all", 12, 0)


def test_classes_weigh_as_in_scikit_learn():
    X, y, groups = classification()
    for weights in ("balanced", {"top": 3.0, "mid": 0.5}):
        ours = fgmp.FedGradMPClassifier(3, class_weight=weights, C=np.inf).fit(X, y, groups)
        theirs = LogisticRegression(class_weight=weights, C=np.inf, tol=1e-10, max_iter=10_000)
        expected = theirs.fit(X[:, ours.support_], y).coef_
        np.testing.assert_allclose(ours.coef_[:, ours.support_], expected, rtol=1e-4)


def test_closing_exchanges_go_on_until_newton_steps_gain_nothing():
    X, z, groups, rng = table(n_features=8)
    X, y = (
        X / X.std(axis=0),
        z + 0.02 * rng.logistic(size=len(z)) > 0,
    )  # nearly separated: four steps are too few
    model = fgmp.FedGradMPClassifier("all", C=1e4).fit(X, y, groups)
    np.testing.assert_allclose(
        1e4 * (y - model.predict_proba(X)[:, 1]) @ X, model.coef_[0], rtol=0, atol=0.05
    )


@pytest.mark.parametrize("make", ESTIMATORS)
def test_sums_under_masks_give_the_same_model(make):
    X, y, groups = DATA[make]()
    plain, masked = (
        make(3, secure=secure).fit(X, 1e4 * y if y.dtype == float else y, groups)
        for secure in (False, True)
    )
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-6)
    assert masked.history_["bytes_up"][-1] > plain.history_["bytes_up"][-1]


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_noise_is_on_all_that_leaves_a_site_or_the_fit_is_refused(monkeypatch):
    X, y, groups = regression(n_rows=1200)
    exact = dict(standardize=False, fit_intercept=False, polish=False)
    noise, methods, plain = fgmp.GaussianNoise(50.0, 5.0), set(), fgmp.Federation.prepare
    monkeypatch.setattr(
        fgmp.Federation, "prepare", lambda self, m: methods.add(type(m)) or plain(self, m)
    )
    model = fgmp.FedGradMPRegressor(3, private=noise, rounds=2, **exact).fit(X, y, groups)
    assert methods == {fgmp.FedGradMP}  # neither units, nor a path, nor a closing exchange
    assert "objective" not in model.history_ and 0 < model.history_["epsilon"][-1] <= 50
    inexact = {
        "standardize": "auto",
        "fit_intercept": True,
        "polish": True,
        "secure": True,
        "sparsity": "cv",
    }
    for name, value in inexact.items():
        with pytest.raises(ValueError, match=rf"private is given with {name}={value!r}: "):
            fgmp.FedGradMPRegressor(**{"sparsity": 3, "private": noise, **exact, name: value}).fit(
                X, y, groups
            )


def test_groups_are_predicted_with_their_own_intercepts():
    X, y, groups = regression()
    y = y + 10 * groups
    model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups)
    own = model.predict(X, groups=groups)
    with pytest.warns(
        fgmp.AdviceWarning, match="no groups are given: all rows get the mean intercept"
    ):
        mean = model.predict(X)
    np.testing.assert_allclose(
        own - mean, [model.intercepts_[g] - model.intercept_ for g in groups]
    )
    assert np.mean((own - y) ** 2) < 0.1 * np.mean((mean - y) ** 2)
    weights = np.random.default_rng(0).random(len(y))
    assert model.score(X, y, weights, groups=groups) == r2_score(y, own, sample_weight=weights)
    for strange, named in (
        ([99], r"\[99\]"),
        ([np.nan], r"\[nan\]"),
        ([None], r"\[None\]"),
        (["text"], r"\['text'\]"),
    ):
        with pytest.warns(fgmp.AdviceWarning, match=rf"groups {named} took no part"):
            np.testing.assert_array_equal(model.predict(X[:1], groups=strange), mean[:1])
    several = np.array(["new", None, 0, 99, np.nan], object)
    with pytest.warns(fgmp.AdviceWarning, match=r"groups \[None, nan, 99, 'new'\] took no part"):
        found = model.predict(X[:5], groups=several)
    expected = mean[:5] + np.array([0, 0, model.intercepts_[0] - model.intercept_, 0, 0])
    np.testing.assert_allclose(found, expected)
    assert not hasattr(model.set_params(fit_intercept=True).fit(X, y, groups), "intercepts_")
    with pytest.warns(fgmp.AdviceWarning, match="no groups are given: all rows are one group"):
        alone = clone(model).set_params(fit_intercept="per_group").fit(X, y)
    np.testing.assert_allclose(
        alone.predict(X), alone.predict(X, groups=np.zeros(len(y), int))
    )  # without a word


def test_cross_validation_hands_groups_to_fit_and_to_score():
    X, y, groups = regression()
    y, folds, scores = y + 10 * groups, KFold(4), []
    for train, test in folds.split(X):
        model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(
            X[train], y[train], groups[train]
        )
        scores += [r2_score(y[test], model.predict(X[test], groups=groups[test]))]
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(groups=True).set_score_request(groups=True)
        found = cross_val_score(asking, X, y, cv=folds, params={"groups": groups})
        search = GridSearchCV(asking, {"sparsity": [3]}, cv=folds).fit(X, y, groups=groups)
    np.testing.assert_array_equal(found, scores)
    assert search.best_score_ == np.mean(scores) > 0.95


def test_what_each_fit_of_a_cross_validation_would_say_is_said_once(monkeypatch):
    X, y, groups = regression()
    monkeypatch.setattr("fgmp._support.warnings._ADVISED_TOPICS", set())
    names = np.array([f"site {group}" for group in groups], object)
    names[::50] = [
        f"small {row}" for row in range(0, len(y), 50)
    ]  # others of which are there in each fold
    own = fgmp.FedGradMPRegressor(3, fit_intercept="per_group")
    with pytest.warns(
        fgmp.AdviceWarning, match="no groups are given: all rows are one group"
    ) as said:
        cross_val_score(own, X, y, cv=4)
        GridSearchCV(own, {"sparsity": [1, 3]}, cv=2).fit(X, y)
    assert len(said) == 1
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(own).set_fit_request(groups=True).set_score_request(groups=False)
        with pytest.warns(fgmp.AdviceWarning) as said:
            cross_val_score(asking, X, y, cv=4, params={"groups": names})
    words = sorted(str(warning.message) for warning in said)
    assert (
        len(words) == 2
        and "fewer than min_rows=5 rows ('small" in words[0]
        and "mean intercept" in words[1]
    )
    for _ in range(2):  # whoever fits himself is told each time
        with pytest.warns(fgmp.AdviceWarning, match="8 of 14 groups have fewer than min_rows=5"):
            own.fit(X, y, names)


@pytest.mark.parametrize("kind", ["numbers", "booleans", "both", "text"])
def test_objects_are_labels_as_what_they_are(kind):
    X, y, groups = classification()
    y = y == "top"
    values = {
        "numbers": (0, 1),
        "booleans": (False, True),
        "both": (0, True),
        "text": ("no", "yes"),
    }[kind]
    labels = np.array([values[int(label)] for label in y], object)
    model = fgmp.FedGradMPClassifier(3).fit(X, labels, groups)
    assert model.classes_.tolist() == list(values)
    np.testing.assert_array_equal(model.coef_, fgmp.FedGradMPClassifier(3).fit(X, y, groups).coef_)
    assert model.score(X, labels) == np.mean(model.predict(X) == labels)
    assert model.bootstrap(2, "rows", random_state=0).coef.shape == (2, 1, 12)


@pytest.mark.parametrize("package", ["pandas", "polars", "numpy"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_groups_that_are_times_are_found_again(package, zone):
    X, y, groups = regression()
    zone = zone and zoneinfo.ZoneInfo(zone)
    days = [datetime.datetime(2020, 6, 1 + int(group), tzinfo=zone) for group in groups]
    if package == "numpy":
        if zone:
            pytest.skip("NumPy has no zones")
        whose = np.array(days, "datetime64[ns]")
    else:
        whose = pytest.importorskip(package).Series(days)
    model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, whose)
    plain = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups)
    for day, group in zip(days, groups.tolist(), strict=True):
        assert model.intercepts_[day] == plain.intercepts_[group]
    np.testing.assert_array_equal(model.predict(X, groups=whose), plain.predict(X, groups=groups))


def test_columns_too_small_for_squares_are_not_called_constant():
    X, y, groups = regression()
    X[:, 4] *= 1e-200
    with pytest.warns(
        fgmp.AdviceWarning,
        match=r"Features \[4\] are constant, or so small that their squares are zero",
    ):
        fgmp.FedGradMPRegressor(3).fit(X, y, groups)


def test_large_numbers_whose_squares_are_floats_are_fitted():
    X, y, groups = regression()
    model = fgmp.FedGradMPRegressor(3).fit(1e150 * X, (1e30 * y).astype(np.float32), groups)
    plain = fgmp.FedGradMPRegressor(3).fit(X, y, groups)
    np.testing.assert_allclose(model.coef_ * 1e120, plain.coef_, rtol=1e-5)


def test_the_estimators_are_among_the_public_names():
    code = "import fgmp, sys; assert 'sklearn' not in sys.modules; print(*dir(fgmp))"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"FedGradMPClassifier", "FedGradMPRegressor"} < set(fgmp.__all__) < set(names)


def noisy(n_rows, tau=5, n_sites=10, n_features=50, seed=0):
    """Independent features, tau of them with a coefficient of one, and noise of variance one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_sites * n_rows, n_features))
    return (
        X,
        X[:, :tau].sum(axis=1) + rng.standard_normal(len(X)),
        np.repeat(np.arange(n_sites), n_rows),
    )


def test_the_first_site_beyond_is_left_to_fedgradmp():
    """Twice as many rows as 3 T + 1 coefficients are too few by one; T is 20, or two and a half tau."""
    for n_rows, options, method in (
        (122, dict(sparsity=3), "shared"),
        (123, dict(sparsity=3), "fedgradmp"),
        (120, dict(sparsity=3, fit_intercept=False), "shared"),
        (121, dict(sparsity=3, fit_intercept=False), "fedgradmp"),
        (182, dict(sparsity=12), "shared"),
        (183, dict(sparsity=12), "fedgradmp"),
    ):
        sites = noisy(n_rows, n_sites=3, n_features=200)
        assert fgmp.FedGradMPRegressor(**options).fit(*sites).method_ == method


def test_whoever_asks_for_fedgradmp_where_rows_are_few_or_rounds_run_out_is_told():
    model = fgmp.FedGradMPRegressor(
        3, method="fedgradmp", rounds=2, local_iterations=1, batch_size=4
    )
    rows = pytest.warns(
        fgmp.AdviceWarning, match="10 coefficients .* 1 of 6 clients has no more than 20 rows"
    )
    with rows, pytest.warns(ConvergenceWarning, match="the rounds ran out: the last of 2"):
        model.fit(*regression())


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_site_below_the_minimum_takes_no_part_and_is_named(make):
    X, y, groups = DATA[make]()
    names = np.array([f"site {g}" for g in groups], object)
    names[:2], names[2:7] = "a single pair", "four"
    weights = 1.0 * (np.arange(len(y)) != 4)  # and is no row of its site
    with pytest.warns(
        fgmp.AdviceWarning, match=r"min_rows=5 rows \('a single pair', 'four'\): they send noth"
    ) as said:
        model = make(3).fit(X, y, names, weights)
    assert len(said) == 1
    without = make(3).fit(X[7:], y[7:], names[7:], weights[7:])
    np.testing.assert_array_equal(model.coef_, without.coef_)
    np.testing.assert_array_equal(model.groups_, without.groups_)
    np.testing.assert_array_equal(model.history_["bytes_up"], without.history_["bytes_up"])
    for over in ("groups", "rows"):
        ours, theirs = (m.bootstrap(2, over, random_state=0).coef for m in (model, without))
        np.testing.assert_array_equal(ours, theirs)
    assert len(make(3, min_rows=2).fit(X, y, names, weights).groups_) == 8
    assert make(1).fit(X[:3], y[:3] if y.dtype == float else list("abb")).groups_.tolist() == [
        0
    ]  # no groups, no sites
