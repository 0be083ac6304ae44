"""The estimators keep the contract of scikit-learn, and agree with its models on their features."""

import datetime
import subprocess
import sys
import warnings
import zoneinfo

import numpy as np
import pytest
import sklearn
from cases import (
    ESTIMATORS,
    TABLES,
    classification_table,
    independent_table,
    linear_predictions,
    linear_score_table,
    regression_table,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import fgmp

on_both_backends = pytest.mark.usefixtures("backend")
each_estimator = pytest.mark.parametrize("make", ESTIMATORS)


@pytest.mark.filterwarnings("ignore:Features .* are constant")
@parametrize_with_checks([make() for make in ESTIMATORS])
def test_estimator_passes_checks_of_scikit_learn(estimator, check):
    """The checks of scikit-learn for estimators pass."""
    check(estimator)


@on_both_backends
@each_estimator
def test_fit_finds_the_features_and_sets_others_to_zero(make):
    """The support is that of the score from which the table is made."""
    X, y, groups = TABLES[make]()
    model = make(3).fit(X, y, groups)
    np.testing.assert_array_equal(model.support_, [0, 3, 7])
    assert np.count_nonzero(model.coef_) == model.sparsity_ == 3


@each_estimator
def test_group_of_weight_zero_takes_no_part(make):
    """It is not among the groups, and sends nothing."""
    X, y, groups = TABLES[make]()
    model = make(3).fit(X, y, groups, sample_weight=(groups != 2).astype(float))
    np.testing.assert_array_equal(model.support_, [0, 3, 7])
    np.testing.assert_array_equal(model.groups_, [0, 1, 3, 4, 5])


@each_estimator
def test_first_exchange_of_a_fit_sends_sizes_means_and_squares(make):
    """Each group sends three numbers for each column and target; units and means come back."""
    X, y, groups = TABLES[make]()
    model = make(3).fit(X, y, groups, sample_weight=(groups != 2).astype(float))
    n_targets = 1 if make is fgmp.FedGradMPRegressor else 2
    assert model.history_["bytes_up"][0] == 5 * 8 * 3 * (12 + n_targets)
    assert model.history_["bytes_down"][0] == 5 * (4 + 8 * 2 * (12 + n_targets))


def test_intercept_is_the_mean_of_those_of_the_groups():
    """Each group has its own intercept, and the mean has the numbers of rows as weights."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups)
    intercepts = [model.intercepts_[group] for group in range(6)]
    expected = np.average(intercepts, weights=np.bincount(groups))
    assert model.intercept_ == pytest.approx(expected)


@pytest.mark.parametrize("weight", [2, 2.0, 0.25, np.float32(3), np.array(2.0), np.int8(1)])
@pytest.mark.parametrize("make", [fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier])
def test_number_as_sample_weight_is_that_of_all_rows(make, weight):
    """In fit, score and intercept_of, for a sparse table, too; as scikit-learn takes it."""
    X, y, groups = TABLES[make]()
    full = np.full(len(y), float(weight))
    expected = make(3).fit(X, y, groups, sample_weight=full)
    for table in (X, sparse.csr_array(X)):
        model = make(3, standardize=True).fit(table, y, groups, sample_weight=weight)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    model = make(3).fit(X, y, groups, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.score(X, y, sample_weight=weight) == model.score(X, y, sample_weight=full)
    found = model.intercept_of(X, y, sample_weight=weight)
    np.testing.assert_array_equal(found, model.intercept_of(X, y, sample_weight=full))


WRONG_WEIGHTS = {
    "negative": (-1.0, "sample_weight is -1.0; expected a finite number above 0"),
    "nan": (np.nan, "sample_weight is nan; expected a finite number above 0"),
    "infinite": (np.inf, "sample_weight is inf; expected a finite number above 0"),
    "truth": (True, "sample_weight is True; expected a finite number above 0"),
    "zero": (0, "sample_weight is 0; expected a finite number above 0"),
    "text": ("heavy", "sample_weight holds text that is no number"),
    "complex": (1j, "Complex data not supported: sample_weight has dtype"),
    "too few": ([1.0, 2.0], r"sample_weight.shape == \(2,\), expected \(\d+,\)"),
}


@pytest.mark.parametrize("name", WRONG_WEIGHTS)
@pytest.mark.parametrize("how", ["fit", "intercept_of"])
def test_sample_weight_that_is_none_is_refused_by_name(how, name):
    """In the words of all arguments, or of scikit-learn."""
    weight, words = WRONG_WEIGHTS[name]
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(3).fit(X, y, groups)
    with pytest.raises(ValueError, match=words):
        getattr(model, how)(X, y, sample_weight=weight)


def test_class_of_weight_zero_is_no_class():
    """A label times rows all have weight zero is not among the classes."""
    X, y, groups = classification_table()
    weights = (y != "top").astype(float)
    three = np.where(groups == 1, "other", y)
    model = fgmp.FedGradMPClassifier(3, class_weight="balanced").fit(X, three, groups, weights)
    assert model.classes_.tolist() == ["mid", "other"]


@on_both_backends
@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("n_rows", [60, 400])
@pytest.mark.parametrize("method", ["fedgradmp", "shared"])
def test_separable_classes_give_a_finite_model(method, n_rows):
    """The default penalty bounds the scores of classes that a feature separates."""
    X, _, groups = classification_table(n_rows=n_rows)
    y = X[:, 0] > np.median(X[:, 0])
    model = fgmp.FedGradMPClassifier(3, method=method).fit(X, y, groups)
    assert model.score(X, y) > 0.95
    assert np.abs(model.decision_function(X)).max() < 100


@on_both_backends
def test_fit_with_same_random_state_has_same_history():
    """Cohorts and minibatches depend on `random_state` alone."""
    X, y, groups = regression_table()
    options = dict(cohort_size=3, batch_size=10, local_iterations=2)
    first = fgmp.FedGradMPRegressor(3, random_state=1, **options).fit(X, y, groups)
    again = fgmp.FedGradMPRegressor(3, random_state=1, **options).fit(X, y, groups)
    other = fgmp.FedGradMPRegressor(3, random_state=2, **options).fit(X, y, groups)
    np.testing.assert_array_equal(first.history_["objective"], again.history_["objective"])
    assert not np.array_equal(first.history_["objective"][1:2], other.history_["objective"][1:2])


@on_both_backends
@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("polish", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@each_estimator
def test_history_has_objectives_in_units_of_the_table(make, fit_intercept, polish):
    """The first and the last objective are those of the null model and of the fitted one."""
    X, y, groups = TABLES[make]()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    options = dict(method="fedgradmp", fit_intercept=fit_intercept, polish=polish, rounds=1)
    model = make(3, **options).fit(X, y, groups, sample_weight=weights)
    if make is fgmp.FedGradMPRegressor:
        level = np.average(y, weights=weights) if fit_intercept else 0.0
        start = np.average((y - level) ** 2, weights=weights) / 2
        end = np.average((y - model.predict(X)) ** 2, weights=weights) / 2
    else:
        share = np.average(y == model.classes_[1], weights=weights) if fit_intercept else 0.5
        prior = np.tile([1 - share, share], (len(y), 1))
        start = log_loss(y, prior, sample_weight=weights)
        end = log_loss(y, model.predict_proba(X), sample_weight=weights)
    history = model.history_
    np.testing.assert_allclose(history["objective"][[0, -1]], [start, end], rtol=1e-9)
    # Units and the one round; then the path, the check of units, and a refit if there is one: each
    # exchange beside the method's is a round.
    assert history["round"][:2].tolist() == [1, 2]
    other = make(3, **options | dict(polish=not polish)).fit(X, y, groups, sample_weight=weights)
    assert (history["round"][-1] > other.history_["round"][-1]) == polish


@each_estimator
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_constant_columns_are_named_and_change_nothing(make, value):
    """Their coefficients are zero, and the model is that of the table without them."""
    X, y, groups = TABLES[make](n_features=9)
    constant = X.copy()
    constant[:, [1, 4]] = value
    with pytest.warns(UserWarning, match=r"Features \[1, 4\] are constant"):
        model = make(9).fit(constant, y, groups)
    np.testing.assert_array_equal(np.ravel(model.coef_)[[1, 4]], 0)

    rest = np.delete(X, [1, 4], axis=1)
    without = make(7).fit(rest, y, groups)
    found = linear_predictions(model, constant)
    np.testing.assert_allclose(found, linear_predictions(without, rest), rtol=1e-6)


def test_column_constant_in_each_group_is_constant_for_own_intercepts():
    """An intercept for each group explains it; one intercept for all does not."""
    X, y, groups = regression_table(n_features=9)
    X[:, 5] = groups / 3
    own = fgmp.FedGradMPRegressor(9, fit_intercept="per_group")
    with pytest.warns(UserWarning, match=r"Features \[5\] are constant"):
        own.fit(X, y, groups)
    assert 5 not in own.support_
    assert fgmp.FedGradMPRegressor(9).fit(X, y, groups).coef_[5] != 0


@each_estimator
def test_all_features_give_the_dense_model_of_scikit_learn(make):
    """With `sparsity="all"` the coefficients are those of ridge and logistic regression."""
    X, y, groups = TABLES[make]()
    model = make("all", C=0.1).fit(X, y, groups)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    logistic = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000)
    other = Ridge(alpha=10) if make is fgmp.FedGradMPRegressor else logistic
    expected = np.atleast_2d(other.fit(Z, y).coef_)
    np.testing.assert_allclose(
        np.atleast_2d(model.coef_) * X.std(axis=0), expected, rtol=1e-3, atol=1e-4
    )
    assert (model.method_, model.sparsity_, model.n_iter_) == ("all", 12, 0)


def test_class_weight_gives_coefficients_of_scikit_learn():
    """Balanced and given weights of classes mean what they mean in scikit-learn."""
    X, y, groups = classification_table()
    for weights in ("balanced", {"top": 3.0, "mid": 0.5}):
        ours = fgmp.FedGradMPClassifier(3, class_weight=weights, C=np.inf).fit(X, y, groups)
        theirs = LogisticRegression(class_weight=weights, C=np.inf, tol=1e-10, max_iter=10_000)
        expected = theirs.fit(X[:, ours.support_], y).coef_
        np.testing.assert_allclose(ours.coef_[:, ours.support_], expected, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:fewer than min_rows=5 rows are of the class")
def test_refit_of_nearly_separable_classes_converges():
    """The gradient vanishes at the model, which four Newton steps do not reach."""
    X, z, groups, rng = linear_score_table(n_features=8)
    X = X / X.std(axis=0)
    y = z + 0.02 * rng.logistic(size=len(z)) > 0  # nearly separated
    model = fgmp.FedGradMPClassifier("all", C=1e4).fit(X, y, groups)
    np.testing.assert_allclose(
        1e4 * (y - model.predict_proba(X)[:, 1]) @ X, model.coef_[0], rtol=0, atol=0.05
    )


@on_both_backends
@each_estimator
def test_fit_with_secure_sums_gives_the_same_model(make):
    """Masks change the model by rounding only, and cost bytes."""
    X, y, groups = TABLES[make]()
    plain = make(3, secure=False).fit(X, 10000.0 * y if y.dtype == float else y, groups)
    masked = make(3, secure=True).fit(X, 10000.0 * y if y.dtype == float else y, groups)
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-6)
    assert masked.history_["bytes_up"][-1] > plain.history_["bytes_up"][-1]


NOISE = fgmp.GaussianNoise(50.0, 5.0)
# What a private fit must not do, because it would send exact sums.
WITHOUT_EXACT_SUMS = {"standardize": False, "fit_intercept": False, "polish": False}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_private_fit_runs_fedgradmp_alone_within_its_epsilon(monkeypatch):
    """Neither units, nor a path, nor a refit is computed from exact sums."""
    X, y, groups = regression_table(n_rows=1200)
    methods = set()
    for_method = fgmp.LocalClients.for_method
    monkeypatch.setattr(
        fgmp.LocalClients,
        "for_method",
        lambda self, method: methods.add(type(method)) or for_method(self, method),
    )
    model = fgmp.FedGradMPRegressor(3, private=NOISE, rounds=2, **WITHOUT_EXACT_SUMS)
    model.fit(X, y, groups)
    assert methods == {fgmp.FedGradMP}
    assert "objective" not in model.history_
    assert 0 < model.history_["epsilon"][-1] <= 50


@pytest.mark.parametrize(
    "name, value",
    [
        ("standardize", "auto"),
        ("fit_intercept", True),
        ("polish", True),
        ("secure", True),
        ("sparsity", "cv"),
    ],
)
def test_private_fit_with_exact_sums_is_refused(name, value):
    """Every option that would send an exact sum is named."""
    X, y, groups = regression_table(n_rows=1200)
    options = {"sparsity": 3, "private": NOISE, **WITHOUT_EXACT_SUMS, name: value}
    with pytest.raises(ValueError, match=rf"private is given with {name}={value!r}: "):
        fgmp.FedGradMPRegressor(**options).fit(X, y, groups)


@pytest.fixture
def own_intercepts():
    """A table times groups are ten apart, and the model with an intercept for each of them."""
    X, y, groups = regression_table()
    y = y + 10 * groups
    return fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups), X, y, groups


def mean_predictions(model, X):
    """Return the predictions with the common intercept, which a model without groups warns of."""
    with pytest.warns(fgmp.AdviceWarning, match="no groups are given: all rows get the common"):
        return model.predict(X)


def test_predict_with_groups_uses_their_intercepts(own_intercepts):
    """They differ from the predictions without groups by the difference of the intercepts."""
    model, X, y, groups = own_intercepts
    own = model.predict(X, groups=groups)
    mean = mean_predictions(model, X)
    differences = [model.intercepts_[group] - model.intercept_ for group in groups]
    np.testing.assert_allclose(own - mean, differences)
    assert np.mean((own - y) ** 2) < 0.1 * np.mean((mean - y) ** 2)


def test_score_with_groups_and_weights_is_r2_score(own_intercepts):
    """The score is that of scikit-learn for the predictions with groups."""
    model, X, y, groups = own_intercepts
    weights = np.random.default_rng(0).random(len(y))
    expected = r2_score(y, model.predict(X, groups=groups), sample_weight=weights)
    assert model.score(X, y, weights, groups=groups) == expected


@pytest.mark.parametrize(
    "groups, named",
    [
        ([99], r"\[99\]"),
        ([np.nan], r"\[nan\]"),
        ([None], r"\[None\]"),
        (["text"], r"\['text'\]"),
    ],
)
def test_predict_with_unknown_group_warns_and_uses_mean_intercept(own_intercepts, groups, named):
    """A group that took no part in the fit is named."""
    model, X, _, _ = own_intercepts
    mean = mean_predictions(model, X[:1])
    with pytest.warns(fgmp.AdviceWarning, match=rf"groups {named} have no intercept of their own"):
        np.testing.assert_array_equal(model.predict(X[:1], groups=groups), mean)


def test_predict_with_some_unknown_groups_warns_of_all_of_them(own_intercepts):
    """Rows of known groups keep their own intercepts."""
    model, X, _, _ = own_intercepts
    several = np.array(["new", None, 0, 99, np.nan], object)
    with pytest.warns(
        fgmp.AdviceWarning, match=r"groups \[None, nan, 99, 'new'\] have no intercept"
    ):
        found = model.predict(X[:5], groups=several)
    expected = mean_predictions(model, X[:5])
    expected[2] += model.intercepts_[0] - model.intercept_
    np.testing.assert_allclose(found, expected)


def test_fit_with_one_intercept_has_no_intercepts(own_intercepts):
    """A second fit of the same estimator leaves no attribute of the first."""
    model, X, y, groups = own_intercepts
    model.set_params(fit_intercept=True).fit(X, y, groups)
    assert not hasattr(model, "intercepts_")


def test_fit_with_own_intercepts_without_groups_warns(own_intercepts):
    """All rows are one group then, and predictions need no groups."""
    model, X, y, _ = own_intercepts
    with pytest.warns(fgmp.AdviceWarning, match="no groups are given: all rows are one group"):
        alone = clone(model).fit(X, y)
    one_group = np.zeros(len(y), int)
    np.testing.assert_allclose(alone.predict(X), alone.predict(X, groups=one_group))


def test_cross_validation_routes_groups_to_fit_and_score():
    """Scores of scikit-learn are those of a loop over the folds."""
    X, y, groups = regression_table()
    y = y + 10 * groups
    folds = KFold(4)
    scores = []
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


@pytest.fixture
def no_advice_given(monkeypatch):
    """Forget what earlier tests were advised of."""
    monkeypatch.setattr("fgmp._support.warnings._ADVISED_TOPICS", set())


@pytest.mark.usefixtures("no_advice_given")
def test_cross_validation_without_groups_warns_once():
    """All fits of one process would say the same."""
    X, y, _ = regression_table()
    own = fgmp.FedGradMPRegressor(3, fit_intercept="per_group")
    words = "no groups are given: all rows are one group"
    with pytest.warns(fgmp.AdviceWarning, match=words) as caught:
        cross_val_score(own, X, y, cv=4)
        GridSearchCV(own, {"sparsity": [1, 3]}, cv=2).fit(X, y)
    assert len(caught) == 1


def names_with_small_groups(y, groups):
    """Return names of groups, and eight groups of one row, which are others in each fold."""
    names = np.array([f"site {group}" for group in groups], object)
    names[::50] = [f"small {row}" for row in range(0, len(y), 50)]
    return names


@pytest.mark.usefixtures("no_advice_given")
def test_cross_validation_with_small_groups_warns_once_of_each_topic():
    """Small groups, and predictions without groups, are two topics."""
    X, y, groups = regression_table()
    names = names_with_small_groups(y, groups)
    own = fgmp.FedGradMPRegressor(3, fit_intercept="per_group")
    with sklearn.config_context(enable_metadata_routing=True):
        routed = own.set_fit_request(groups=True).set_score_request(groups=False)
        with pytest.warns(fgmp.AdviceWarning) as caught:
            cross_val_score(routed, X, y, cv=4, params={"groups": names})
    small, mean = sorted(str(warning.message) for warning in caught)
    assert "fewer than min_rows=5 rows ('small" in small
    assert "common intercept" in mean


def test_fit_by_hand_warns_of_small_groups_each_time():
    """Only a search is silenced after its first warning."""
    X, y, groups = regression_table()
    names = names_with_small_groups(y, groups)
    own = fgmp.FedGradMPRegressor(3, fit_intercept="per_group")
    for _ in range(2):
        with pytest.warns(fgmp.AdviceWarning, match="8 of 14 groups have fewer than min_rows=5"):
            own.fit(X, y, names)


@pytest.mark.parametrize("kind", ["numbers", "booleans", "both", "text"])
def test_labels_in_an_object_array_keep_their_types(kind):
    """Numbers, booleans and text in an object array are classes as they are."""
    X, y, groups = classification_table()
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
def test_groups_that_are_times_are_recognized_by_predict(package, zone):
    """Times of pandas, polars and NumPy are groups, with or without a zone."""
    X, y, groups = regression_table()
    zone = zone and zoneinfo.ZoneInfo(zone)
    days = [datetime.datetime(2020, 6, 1 + int(group), tzinfo=zone) for group in groups]
    if package == "numpy":
        if zone:
            pytest.skip("NumPy has no zones")
        times = np.array(days, "datetime64[ns]")
    else:
        times = pytest.importorskip(package).Series(days)
    model = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, times)
    plain = fgmp.FedGradMPRegressor(3, fit_intercept="per_group").fit(X, y, groups)
    for day, group in zip(days, groups.tolist(), strict=True):
        assert model.intercepts_[day] == plain.intercepts_[group]
    np.testing.assert_array_equal(model.predict(X, groups=times), plain.predict(X, groups=groups))


def test_column_with_vanishing_squares_is_named_as_such():
    """A warning says that the squares of the column are zero."""
    X, y, groups = regression_table()
    X[:, 4] *= 1e-200
    with pytest.warns(
        fgmp.AdviceWarning,
        match=r"Features \[4\] are constant, or so small that their squares are zero",
    ):
        fgmp.FedGradMPRegressor(3).fit(X, y, groups)


def test_large_numbers_with_finite_squares_are_fitted():
    """Units of 1e150 and 1e30 change the coefficients by their ratio."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(3).fit(1e150 * X, (1e30 * y).astype(np.float32), groups)
    plain = fgmp.FedGradMPRegressor(3).fit(X, y, groups)
    np.testing.assert_allclose(model.coef_ * 1e120, plain.coef_, rtol=1e-5)


def test_estimators_are_public_names_without_importing_sklearn():
    """`dir(fgmp)` has them before scikit-learn is imported."""
    code = "import fgmp, sys; assert 'sklearn' not in sys.modules; print(*dir(fgmp))"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"FedGradMPClassifier", "FedGradMPRegressor"} < set(fgmp.__all__) < set(names)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")  # units of five rows differ by chance
@pytest.mark.parametrize(
    "n_rows, n_features, method",
    [
        (122, 1001, "shared"),
        (123, 1001, "fedgradmp"),
        (122, 1000, "fedgradmp"),
        (5, 100, "fedgradmp"),
    ],
)
def test_automatic_method_is_shared_for_few_rows_and_many_features(n_rows, n_features, method):
    """Too few rows for least squares, and more than 50 features for each of the 20 of the path."""
    table = independent_table(n_rows, n_groups=100, n_features=n_features)
    assert fgmp.FedGradMPRegressor(5).fit(*table).method_ == method


@pytest.mark.parametrize("n_rows, is_exact", [(123, True), (122, False)])
def test_clients_with_few_rows_take_gradient_steps(n_rows, is_exact, monkeypatch):
    """More than twice 3 T + 1 rows are enough for least squares."""
    seen = set()
    exchanges = fgmp.FedGradMP.exchanges

    def keep(self):
        seen.add(self.solver)
        return exchanges(self)

    monkeypatch.setattr(fgmp.FedGradMP, "exchanges", keep)
    fgmp.FedGradMPRegressor(3).fit(*independent_table(n_rows, n_groups=3, n_features=200))
    assert seen == {None if is_exact else fgmp.GradientDescent(steps=5)}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")  # units of five rows differ by chance
@pytest.mark.parametrize("make", ESTIMATORS)
def test_fedgradmp_finds_features_where_clients_have_few_rows(make, backend):
    """With 5 rows a client, 20 features to select and 100 in all, as many as the shared support."""
    X, y, groups = independent_table(5, tau=8, n_groups=200, n_features=100)
    if make is fgmp.FedGradMPClassifier:
        y = y > 0
    model = make(8, method="fedgradmp").fit(X, y, groups)
    np.testing.assert_array_equal(model.support_, np.arange(8))


def test_fedgradmp_with_few_rounds_warns():
    """A fit that asks for FedGradMP by name gets it."""
    model = fgmp.FedGradMPRegressor(
        3, method="fedgradmp", rounds=2, local_iterations=1, batch_size=4, tol=0
    )
    with pytest.warns(ConvergenceWarning, match="the rounds ran out: the last of 2"):
        model.fit(*regression_table(n_features=30))


@pytest.mark.parametrize("rounds", [2, 5])
def test_few_rounds_that_select_all_features_are_not_warned_of(rounds):
    """Paths begin with all of them, whatever the rounds find."""
    X, y, groups = regression_table()
    options = {"method": "fedgradmp", "local_iterations": 1, "batch_size": 4, "tol": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fgmp.FedGradMPRegressor(3, rounds=rounds, **options).fit(X, y, groups)


def table_with_small_groups(make):
    """A table with two groups of 2 and 5 rows, one of which has weight zero."""
    X, y, groups = TABLES[make]()
    names = np.array([f"site {group}" for group in groups], object)
    names[:2] = "a single pair"
    names[2:7] = "four"
    weights = 1.0 * (np.arange(len(y)) != 4)
    return X, y, names, weights


@each_estimator
def test_group_below_min_rows_is_named_and_takes_no_part(make):
    """The model is that of the table without the group; a row of weight zero does not count."""
    X, y, names, weights = table_with_small_groups(make)
    words = r"min_rows=5 rows \('a single pair', 'four'\): they send noth"
    with pytest.warns(fgmp.AdviceWarning, match=words) as caught:
        model = make(3).fit(X, y, names, weights)
    assert len(caught) == 1

    without = make(3).fit(X[7:], y[7:], names[7:], weights[7:])
    np.testing.assert_array_equal(model.coef_, without.coef_)
    np.testing.assert_array_equal(model.groups_, without.groups_)
    np.testing.assert_array_equal(model.history_["bytes_up"], without.history_["bytes_up"])
    for over in ("groups", "rows"):
        found = model.bootstrap(2, over, random_state=0).coef
        expected = without.bootstrap(2, over, random_state=0).coef
        np.testing.assert_array_equal(found, expected)


@each_estimator
def test_smaller_min_rows_admits_small_groups(make):
    """With `min_rows=2` the groups of 2 and 4 rows take part."""
    X, y, names, weights = table_with_small_groups(make)
    assert len(make(3, min_rows=2).fit(X, y, names, weights).groups_) == 8


@each_estimator
def test_fit_without_groups_has_no_minimum_of_rows(make):
    """All rows are one group."""
    X, y, _, _ = table_with_small_groups(make)
    targets = y[:3] if y.dtype == float else list("abb")
    assert make(1).fit(X[:3], targets).groups_.tolist() == [0]
