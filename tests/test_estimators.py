"""The estimators keep scikit-learn's contract, and end where its pooled linear models end on the same features."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fgmp
from fgmp.estimators.fitting import Recipe
from fgmp.estimators.sites import Table, WeightedLoss

ESTIMATORS = (fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier)


@pytest.mark.filterwarnings("ignore:Features .* are constant")
@parametrize_with_checks([make() for make in ESTIMATORS])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def table(seed=0, n_rows=400, n_features=12, n_groups=6):
    """Features of unequal scale and mean, three of them used; groups of unequal size with shifted features."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(n_groups, n_rows, p=np.arange(1, n_groups + 1) / np.arange(1, n_groups + 1).sum())
    X = rng.standard_normal((n_rows, n_features)) + 0.3 * rng.standard_normal((n_groups, n_features))[groups]
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


def numbered(make, **sizes):
    """As `DATA`, with classes that are numbers."""
    X, y, groups = DATA[make](**sizes)
    return X, (y == y[0]).astype(int) if y.dtype.kind in "UO" else y, groups


def parameters(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


@pytest.mark.parametrize("C", [1e-2, 100.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_C_is_that_of_scikit_learn_on_standardised_features(n_classes, C):
    X, y, groups = classification(n_classes)
    y = np.where(X[:, 1] > X[:, 1].mean() - 0.5 * X[:, 1].std(), y, "low")  # unbalanced: the intercept is not small
    Z = StandardScaler().fit_transform(X)
    ours = fgmp.FedGradMPClassifier(12, C=C).fit(X, y, groups)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(Z, y)
    np.testing.assert_allclose(ours.coef_ * X.std(axis=0), theirs.coef_, atol=2e-3 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(Z), atol=1e-3)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_few_features_are_found_and_the_others_are_zero(make):
    X, y, groups = DATA[make]()
    model = make(3).fit(X, y, groups, sample_weight=(groups != 2).astype(float))
    np.testing.assert_array_equal(model.support_, [0, 3, 7])
    np.testing.assert_array_equal(model.groups_, [0, 1, 3, 4, 5])  # a group of weight zero is not there
    assert np.count_nonzero(model.coef_) == model.sparsity_ == 3
    assert len(model.history_["objective"]) >= model.n_iter_ >= 1
    n_targets = 1 if make is fgmp.FedGradMPRegressor else 2  # of five groups sizes, means, squares and a probe
    assert model.history_["bytes_up"][0] == 5 * 8 * 4 * (12 + n_targets)
    assert model.history_["bytes_down"][0] == 5 * (8 * 3 * (12 + n_targets) + 4)
    if make is fgmp.FedGradMPRegressor:  # of which each group has its own
        own = make(3, fit_intercept="per_group").fit(X, y, groups)
        levels = [own.intercepts_[group] for group in range(6)]
        assert own.intercept_ == pytest.approx(np.average(levels, weights=np.bincount(groups)))
    else:  # a class of weight zero is not there
        weights = (y != "top").astype(float)
        assert make(3).fit(X, np.where(groups == 1, "other", y), groups, weights).classes_.tolist() == ["mid", "other"]
    assert model.history_["objective"][-1] < model.history_["objective"][0]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_single_precision_comes_close(make):
    X, y, groups = DATA[make]()
    before = X.astype(np.float32)
    model, single = make(3).fit(X, y, groups), make(3).fit(before, y, groups)
    np.testing.assert_array_equal(single.support_, model.support_)
    np.testing.assert_allclose(parameters(single), parameters(model), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(before, X.astype(np.float32))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("n_rows", [60, 400])
@pytest.mark.parametrize("method", ["fedgradmp", "shared"])
def test_separable_classes_have_a_finite_model(method, n_rows):
    X, _, groups = classification(n_rows=n_rows)
    y = X[:, 0] > np.median(X[:, 0])
    model = fgmp.FedGradMPClassifier(3, method=method).fit(X, y, groups)
    assert model.score(X, y) > 0.95 and np.abs(model.decision_function(X)).max() < 100


@pytest.mark.parametrize("make", ESTIMATORS)
def test_in_a_pipeline_a_clone_and_a_pickle(make):
    X, y, groups = DATA[make]()
    pipe = make_pipeline(StandardScaler(), make(3)).fit(X, y, **{f"{make.__name__.lower()}__groups": groups})
    np.testing.assert_array_equal(pipe[-1].support_, [0, 3, 7])
    np.testing.assert_array_equal(pipe[-1].groups_, np.arange(6))
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict(X), pipe.predict(X))
    assert clone(pipe[-1]).get_params() == make(3).get_params()


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_grid_search_over_groups_routes_them_to_the_fit(make):
    X, y, groups = DATA[make]()
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(groups=True)
        search = GridSearchCV(model, {"sparsity": [1, 2, 3]}, cv=GroupKFold(3)).fit(X, y, groups=groups)
        piped = make_pipeline(StandardScaler(), make(3).set_fit_request(groups=True)).fit(X, y, groups=groups)
    assert search.best_params_ == {"sparsity": 3}
    np.testing.assert_array_equal(search.best_estimator_.groups_, np.arange(6))
    np.testing.assert_array_equal(piped[-1].groups_, np.arange(6))


def test_cohorts_and_minibatches_depend_on_the_seed_only():
    X, y, groups = regression()
    options = dict(cohort_size=3, batch_size=10, local_iterations=2)
    first, again, other = (fgmp.FedGradMPRegressor(3, random_state=s, **options).fit(X, y, groups) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.history_["objective"], again.history_["objective"])
    assert not np.array_equal(first.history_["objective"][1:2], other.history_["objective"][1:2])


@pytest.mark.parametrize("fit_intercept", [True, "per_group", False])
def test_units_from_the_sums_of_the_groups_are_those_of_the_pooled_rows(fit_intercept):
    X, y, groups = regression()
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    sites = Table(X, y, weights, groups, fgmp.SquaredLoss())
    units = Recipe(fgmp.FedGradMPRegressor(fit_intercept=fit_intercept), sites, 0).agree()
    rows, labels = np.repeat(X, weights.astype(int), axis=0), np.repeat(groups, weights.astype(int))
    if fit_intercept == "per_group":
        rows = rows - np.array([rows[labels == g].mean(axis=0) for g in range(6)])[labels]
    expected = rows.std(axis=0) if fit_intercept else np.sqrt(np.mean(rows**2, axis=0))
    np.testing.assert_allclose(1 / units.said["factors"], expected, rtol=1e-12)


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
        start, end = (np.average((y - z) ** 2, weights=weights) / 2 for z in (level, model.predict(X)))
    else:
        share = np.average(y == model.classes_[1], weights=weights) if fit_intercept else 0.5
        prior = np.tile([1 - share, share], (len(y), 1))
        start, end = (log_loss(y, p, sample_weight=weights) for p in (prior, model.predict_proba(X)))
    history = model.history_
    np.testing.assert_allclose(history["objective"][[0, -1]], [start, end], rtol=1e-9)
    # The units, the one round and the path, and what closes: exchanges beside the method's are rounds of their own.
    assert history["round"][:2].tolist() == [1, 2] and (history["round"][-1] > 3) == polish


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weighted_loss_is_each_row_as_often_as_it_weighs(n_classes):
    rng = np.random.default_rng(0)
    loss = fgmp.LogisticLoss() if n_classes == 2 else fgmp.SoftmaxLoss(3)
    z, v = rng.standard_normal((2, 20) if n_classes == 2 else (2, 20, 3))
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0) if n_classes == 2 else rng.integers(3, size=20)
    w = rng.integers(4, size=20).astype(float)
    weighted, both = WeightedLoss(loss), np.column_stack([y, w])
    for name, more in (("values", ()), ("derivative", ()), ("curvature", (v,))):
        ours, theirs = getattr(weighted, name)(z, both, *more), getattr(loss, name)(z, y, *more)
        np.testing.assert_allclose(ours.sum(axis=0), np.repeat(theirs, w.astype(int), axis=0).sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_constant_columns_are_named_and_get_zero(make, value):
    X, y, groups = numbered(make, n_features=9)
    flat = X.copy()
    flat[:, [1, 4]] = value
    with pytest.warns(UserWarning, match=r"Features \[1, 4\] are constant"):
        model = make(9).fit(flat, y, groups)
    np.testing.assert_array_equal(np.ravel(model.coef_)[[1, 4]], 0)
    without = make(7).fit(np.delete(X, [1, 4], axis=1), y, groups)
    np.testing.assert_allclose(model.predict(flat), without.predict(np.delete(X, [1, 4], axis=1)), rtol=1e-6)
    if make is fgmp.FedGradMPRegressor:  # constant in every group, for the within estimator
        X[:, 5] = groups / 3
        with pytest.warns(UserWarning, match=r"Features \[5\] are constant"):
            assert 5 not in make(9, fit_intercept="per_group").fit(X, y, groups).support_
        assert make(9).fit(X, y, groups).coef_[5] != 0


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_table_keeps_its_names_and_a_column_of_words_is_named(make, package):
    frames = pytest.importorskip(package)
    X, y, groups = numbered(make)
    columns = {f"x{j}": X[:, j] for j in range(12)}
    model = make(2).fit(frames.DataFrame(columns), y, groups)
    np.testing.assert_array_equal(model.feature_names_in_, list(columns))
    plain = make(2).fit(X, y, groups)
    np.testing.assert_allclose(model.predict(frames.DataFrame(columns)), plain.predict(X), rtol=1e-12)
    words = frames.DataFrame(columns | {"colour": ["red", "blue"] * 200})
    with pytest.raises(ValueError, match="could not convert column 'colour' of X to float: it is [a-zA-Z]+. Drop"):
        make(2).fit(words, y, groups)


def linear(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("method", ["fedgradmp", "shared"])
@pytest.mark.parametrize("fit_intercept", [True, "per_group", False])
@pytest.mark.parametrize("kind", [0, 2, 3], ids=["regression", "two classes", "three classes"])
def test_origins_orders_and_names_do_not_matter(kind, fit_intercept, method):
    if kind and fit_intercept == "per_group":
        pytest.skip("a classifier has one intercept")
    make = fgmp.FedGradMPClassifier if kind else fgmp.FedGradMPRegressor
    (X, y, groups), rng = classification(kind) if kind else regression(), np.random.default_rng(1)
    order, rows, names = rng.permutation(12), rng.permutation(len(y)), rng.permutation(list("abcdef"))
    moved, levels = X.copy(), np.zeros(len(y))
    if fit_intercept:
        moved += rng.uniform(-100, 100, (6, 12))[groups if fit_intercept == "per_group" else 0]
    if fit_intercept == "per_group":
        levels = rng.uniform(-100, 100, 6)[groups]
    options = dict(method=method, fit_intercept=fit_intercept)
    model = make(4, **options).fit(X, y, groups)
    other = make(4, **options).fit(moved[rows][:, order], (y if kind else y + levels)[rows], names[groups][rows])
    expected = np.atleast_2d(model.coef_)[:, order]
    np.testing.assert_allclose(np.atleast_2d(other.coef_), expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())
    if fit_intercept != "per_group":
        scores = linear(model, X)
        np.testing.assert_allclose(linear(other, moved[:, order]), scores, rtol=1e-5, atol=1e-6 * np.abs(scores).max())


def test_which_of_two_classes_comes_first_does_not_matter():
    X, y, groups = classification()
    model, other = (fgmp.FedGradMPClassifier(3).fit(X, labels, groups) for labels in (y, y == "mid"))
    np.testing.assert_allclose(other.coef_, -model.coef_, rtol=1e-5)
    np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], model.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_all_features_are_the_dense_model(make):
    X, y, groups = DATA[make]()
    model = make("all", C=0.1).fit(X, y, groups)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    other = (
        Ridge(alpha=10) if make is fgmp.FedGradMPRegressor else LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000)
    )
    expected = np.atleast_2d(other.fit(Z, y).coef_)
    np.testing.assert_allclose(np.atleast_2d(model.coef_) * X.std(axis=0), expected, rtol=1e-3, atol=1e-4)
    assert (model.method_, model.sparsity_, model.n_iter_) == ("all", 12, 0)
    with pytest.raises(ValueError, match="X has 5001 features; expected at most 5000"):
        make("all").fit(np.zeros((20, 5001)) + np.arange(20)[:, None], y[:20])


def test_classes_weigh_as_in_scikit_learn():
    X, y, groups = classification()
    for weights in ("balanced", {"top": 3.0, "mid": 0.5}):
        ours = fgmp.FedGradMPClassifier(3, class_weight=weights, C=np.inf).fit(X, y, groups)
        theirs = LogisticRegression(class_weight=weights, C=np.inf, tol=1e-10, max_iter=10_000)
        expected = theirs.fit(X[:, ours.support_], y).coef_
        np.testing.assert_allclose(ours.coef_[:, ours.support_], expected, rtol=1e-4)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_sums_under_masks_give_the_same_model(make):
    X, y, groups = DATA[make]()
    plain, masked = (
        make(3, secure=secure).fit(X, 1e4 * y if y.dtype == float else y, groups) for secure in (False, True)
    )
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-6)
    assert masked.history_["bytes_up"][-1] > plain.history_["bytes_up"][-1]


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_noise_is_on_all_that_leaves_a_site_or_the_fit_is_refused(monkeypatch):
    X, y, groups = regression(n_rows=1200)
    exact = dict(standardize=False, fit_intercept=False, polish=False)
    noise, methods, plain = fgmp.GaussianNoise(50.0, 5.0), [], Recipe.run
    monkeypatch.setattr(Recipe, "run", lambda *given, **more: methods.append(type(given[1])) or plain(*given, **more))
    model = fgmp.FedGradMPRegressor(3, private=noise, rounds=2, **exact).fit(X, y, groups)
    assert methods == [fgmp.FedGradMP]  # neither units, nor a path, nor a closing exchange
    assert "objective" not in model.history_ and 0 < model.history_["epsilon"][-1] <= 50
    for name, value in (
        ("standardize", "auto"),
        ("fit_intercept", True),
        ("polish", True),
        ("secure", True),
        ("sparsity", "cv"),
    ):
        with pytest.raises(ValueError, match=rf"private is given with {name}={value!r}: "):
            fgmp.FedGradMPRegressor(**{"sparsity": 3, "private": noise, **exact, name: value}).fit(X, y, groups)


def test_groups_are_predicted_with_their_own_intercepts():
    X, y, groups = regression()
    y = y + 10 * groups
    model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups)
    own = model.predict(X, groups=groups)
    np.testing.assert_allclose(own - model.predict(X), [model.intercepts_[g] - model.intercept_ for g in groups])
    assert np.mean((own - y) ** 2) < 0.1 * np.mean((model.predict(X) - y) ** 2)
    with pytest.warns(fgmp.AdviceWarning, match=r"groups \[99\] took no part"):
        np.testing.assert_array_equal(model.predict(X[:1], groups=[99]), model.predict(X[:1]))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_columns_that_are_alike_and_no_numbers_are_named(make):
    X, y, groups = DATA[make]()
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(12)])
    table["c5"] = table["c2"]
    with pytest.warns(fgmp.AdviceWarning, match=r"Features are alike \('c5' as 'c2'\)") as said:
        make(3).fit(table, y, groups)
    assert len([one for one in said if "alike" in str(one.message)]) == 1
    table.loc[3, "c7"] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN(.|\n)*columns \['c7'\]; expected numbers"):
        make(3).fit(table, y, groups)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_rounds_that_run_out_are_said():
    X, y, groups = regression()
    with pytest.warns(ConvergenceWarning, match="the rounds ran out: the last of 2"):
        fgmp.FedGradMPRegressor(3, method="fedgradmp", rounds=2, local_iterations=1, batch_size=4).fit(X, y, groups)
