"""Groups left out and predicted by the others, compared with fits by hand and with statsmodels."""

import functools
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import sem, t
from sklearn.metrics import d2_tweedie_score, r2_score, roc_auc_score

import fgmp
from fgmp.datasets import heart_disease
from fgmp.estimators.internal_external import _shown
from fgmp.estimators.meta_analysis import random_effects
from fgmp.privacy.ledger import Ledger

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

HEART = heart_disease()
X = HEART.X[:, [HEART.feature_names.index(name) for name in ("age", "sex", "cp")]]
y, HOSPITAL = HEART.y, HEART.hospital
NAMES = sorted(set(HOSPITAL))
CLASSIFIER = fgmp.FedGradMPClassifier("cv", sparsities=[1, 2], random_state=0)


def numbers(n_groups=9, n_rows=20):
    """Return a table of features, numbers that two of them decide, and groups."""
    rng = np.random.default_rng(5)
    features = rng.standard_normal((n_groups * n_rows, 4))
    noise = rng.standard_normal(len(features))
    return features, features[:, 1] - 0.5 * features[:, 3] + noise, np.arange(len(noise)) % n_groups


# The fits.


@pytest.fixture(scope="module")
def validation():
    """Return the validation of a classifier at the four hospitals."""
    return CLASSIFIER.validate(X, y, HOSPITAL)


@functools.cache
def fit_without(hospital, sparsity="cv"):
    """Return a fit to the other hospitals, by the public interface."""
    is_inside = hospital != HOSPITAL
    model = fgmp.FedGradMPClassifier(sparsity, sparsities=[1, 2], random_state=0)
    return model.fit(X[is_inside], y[is_inside], groups=HOSPITAL[is_inside])


def test_each_group_is_measured_by_a_model_of_the_others(validation):
    """With its own choice, beside a dense one: AUC of scikit-learn, calibration of `performance`."""
    table = validation.columns
    assert table["group"].tolist() == np.repeat(NAMES, 2).tolist()
    assert table["sparsity"].tolist() == ["cv", "all"] * 4
    for line, hospital in enumerate(table["group"]):
        model = fit_without(hospital, table["sparsity"][line])
        is_here = hospital == HOSPITAL
        assert table["features"][line] == len(model.support_)
        auc = roc_auc_score(y[is_here], model.decision_function(X[is_here]))
        np.testing.assert_allclose(table["auc"][line], auc, 1e-12)
        performance = model.performance(X[is_here], y[is_here], HOSPITAL[is_here]).columns
        for measure, column in performance.items():
            if measure != "group":
                value = table[measure][line]
                np.testing.assert_allclose(value, column[0], 1e-14, err_msg=measure)


def test_in_sample_measure_is_that_of_the_fits_with_the_group(validation):
    """The mean over three fits, of the AUC of scikit-learn."""
    for hospital in NAMES:
        is_here = hospital == HOSPITAL
        others = [fit_without(name) for name in NAMES if name != hospital]
        scores = [roc_auc_score(y[is_here], one.decision_function(X[is_here])) for one in others]
        is_line = (validation.columns["group"] == hospital) & (
            validation.columns["sparsity"] == "cv"
        )
        np.testing.assert_allclose(validation.columns["in_sample"][is_line], np.mean(scores), 1e-12)


def test_sets_of_groups_are_left_out_together():
    """Of the three ways to make pairs of four groups one has been taken."""
    table = (
        fgmp.FedGradMPClassifier(2, random_state=1)
        .validate(X, y, HOSPITAL, n_sets=2, dense=False)
        .columns
    )
    assert table["group"].tolist() == NAMES
    found = []
    for partner in NAMES[1:]:
        is_pair = np.isin(HOSPITAL, [NAMES[0], partner])
        scores = {}
        for is_out in (is_pair, ~is_pair):
            model = fgmp.FedGradMPClassifier(2).fit(X[~is_out], y[~is_out], HOSPITAL[~is_out])
            for name in set(HOSPITAL[is_out]):
                rows = name == HOSPITAL
                scores[name] = roc_auc_score(y[rows], model.decision_function(X[rows]))
        found.append(np.allclose([scores[name] for name in NAMES], table["auc"], 0, 1e-12))
    assert sum(found) == 1


def test_estimator_stays_as_it_was(validation):
    """No fit of a validation leaves anything behind."""
    assert not hasattr(CLASSIFIER, "coef_")
    assert "Not shown" not in repr(validation)


def test_numbers_have_the_r2_of_each_group_and_its_plain_mean():
    """R2 has no standard error: the interval is that of a mean of four numbers."""
    features, targets, groups = numbers(4)
    found = fgmp.FedGradMPRegressor(2).validate(features, targets, groups, dense=False)
    expected = []
    for group in range(4):
        inside = groups != group
        model = fgmp.FedGradMPRegressor(2).fit(features[inside], targets[inside], groups[inside])
        expected.append(r2_score(targets[~inside], model.predict(features[~inside])))
    np.testing.assert_allclose(found.columns["r2"], expected, 1e-12)
    interval = t.interval(0.95, 3, np.mean(expected), sem(expected))
    ends = [found.overall[name][0] for name in ("lower", "upper")]
    np.testing.assert_allclose(ends, interval, 1e-12)
    assert np.isnan(found.overall["tau"][0]) and found.overall["tau"][1] >= 0


def test_rates_are_refitted_and_measured_with_their_times():
    """As counts with an offset, by statsmodels: the coefficients of the others, and the D^2."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    X, groups, times = rng.standard_normal((240, 2)), np.arange(240) % 3, rng.uniform(0.1, 9, 240)
    y = rng.poisson(times * np.exp(0.3 + 0.5 * X[:, 1]))
    options = {"loss": "poisson", "C": np.inf}
    table = fgmp.FedGradMPRegressor("all", **options).validate(
        X, y / times, groups, sample_weight=times, dense=False
    )
    for group in range(3):
        inside, at = groups != group, groups == group
        fitted = sm.GLM(
            y[inside],
            sm.add_constant(X[inside]),
            family=sm.families.Poisson(),
            offset=np.log(times[inside]),
        ).fit(tol=1e-12)
        mean = np.exp(sm.add_constant(X[at]) @ fitted.params)
        expected = d2_tweedie_score(y[at] / times[at], mean, sample_weight=times[at], power=1)
        np.testing.assert_allclose(table.columns["d2"][group], expected, 1e-6)


def test_several_classes_have_a_line_each():
    """Each class against the others, for each group and model."""
    features, targets, groups = numbers(4, 60)
    labels = np.digitize(targets, [-0.5, 0.5])
    found = fgmp.FedGradMPClassifier(2).validate(features, labels, groups)
    assert found.columns["class"].tolist() == [0, 1, 2] * 8
    assert found.columns["sparsity"].tolist() == (["2"] * 3 + ["all"] * 3) * 4
    assert found.to_frame().index.names == ["group", "sparsity", "class"]
    assert found.overall["class"].tolist()[:3] == [0, 0, 0] and len(found.overall["mean"]) == 21


def test_groups_too_small_to_be_measured_are_counted_and_not_shown():
    """One has too few rows, and one too few of a class."""
    features, targets, groups = numbers(5)
    labels = targets > 0
    labels[groups == 4] = np.arange(20) < 2
    groups[np.flatnonzero(groups == 3)[3:]] = 0
    with pytest.warns(fgmp.AdviceWarning, match="min_rows=5"):
        found = fgmp.FedGradMPClassifier(1).validate(features, labels, groups, dense=False)
    assert found.columns["group"].tolist() == ["0", "1", "2"]
    assert any(note.startswith("Not shown: 2 groups,") for note in found.notes)


def test_warnings_of_several_fits_are_counted_and_said_once():
    """At the line of the caller; advice on the table is what `fit` gives."""
    _, targets, groups = numbers(4, 40)
    features = np.random.default_rng(0).standard_normal((len(targets), 60))
    estimator = fgmp.FedGradMPRegressor(
        3, method="fedgradmp", rounds=2, local_iterations=1, batch_size=4, tol=0, random_state=0
    )
    with warnings.catch_warnings(record=True, action="always") as caught:
        estimator.validate(features, targets, groups, dense=False)
    (warning,) = caught
    assert re.match(r"[2-4] warnings in 4 fits, the first .*rounds ran out", str(warning.message))
    assert warning.filename == __file__


def test_group_left_out_has_the_common_intercept():
    """The one that `predict` gives it, of which no warning has to tell."""
    features, targets, groups = numbers(4)
    targets = targets + groups
    estimator = fgmp.FedGradMPRegressor(2, fit_intercept="per_group")
    with warnings.catch_warnings(action="error"):
        table = estimator.validate(features, targets, groups, dense=False).columns
    is_out = groups == 3
    estimator.fit(features[~is_out], targets[~is_out], groups[~is_out])
    predicted = estimator.predict(features[is_out], groups[is_out])
    np.testing.assert_allclose(table["predicted"][3], predicted.mean(), 1e-12)
    np.testing.assert_allclose(table["intercept"][3], (targets[is_out] - predicted).mean(), 1e-9)


@pytest.mark.parametrize(
    ("groups", "options", "words"),
    [
        (np.zeros(len(y), int), {}, "groups has 1 group"),
        (None, {}, "groups is None"),
        (HOSPITAL, {"n_sets": 5}, "n_sets is 5"),
        (HOSPITAL, {"n_sets": 1}, "n_sets is 1"),
    ],
)
def test_argument_that_is_wrong_is_named(groups, options, words):
    """And nothing is fitted."""
    with pytest.raises(ValueError, match=words):
        CLASSIFIER.validate(X, y, groups, **options)


# Under masks.


def test_under_masks_a_single_group_and_a_choice_are_refused():
    """Sums with and without a group differ by its own."""
    masked = fgmp.FedGradMPClassifier(2, secure=True)
    for n_sets in (None, 3):
        with pytest.raises(ValueError, match="at least two groups each"):
            masked.validate(X, y, HOSPITAL, n_sets=n_sets)
    with pytest.raises(ValueError, match="'cv', and secure is True"):
        fgmp.FedGradMPClassifier("cv", secure=True).validate(X, y, HOSPITAL, n_sets=2)
    noisy = fgmp.FedGradMPRegressor(2, private=fgmp.GaussianNoise(1.0, 1.0))
    with pytest.raises(ValueError, match="private is given"):
        noisy.validate(X, y, HOSPITAL)


def test_under_masks_a_set_is_measured_as_one():
    """By sums over its groups, as `performance` with by="all" measures them in the open."""
    masked = fgmp.FedGradMPClassifier(2, secure=True, random_state=0)
    found = masked.validate(X, y, HOSPITAL, n_sets=2, dense=False)
    assert "in_sample" not in found.columns
    for line, pair in enumerate(found.columns["group"]):
        is_out = np.isin(HOSPITAL, pair.split(", "))
        model = fgmp.FedGradMPClassifier(2).fit(X[~is_out], y[~is_out], HOSPITAL[~is_out])
        plain = model.performance(X[is_out], y[is_out], HOSPITAL[is_out], by="all").columns
        for measure in ("rows", "auc", "intercept", "slope_se"):
            np.testing.assert_allclose(found.columns[measure][line], plain[measure][0], 1e-6)


@pytest.mark.parametrize(("n_groups", "n_sets"), [(4, 2), (7, 3), (9, 4)])
def test_under_masks_no_combination_of_all_fits_rests_on_one_group(n_groups, n_sets, monkeypatch):
    """One ledger for every set whose sums are opened, and for a fit to all: it refuses none."""
    opened = []
    choose = Ledger.choose

    def noted(self, clients, at_least=1):
        opened.append(tuple(sorted(clients)))
        return choose(self, clients, at_least)

    monkeypatch.setattr(Ledger, "choose", noted)
    features, targets, groups = numbers(n_groups)
    tables = []
    for seed in (0, 1):  # sets are the same, or those of two validations would be solved
        masked = fgmp.FedGradMPRegressor(2, secure=True, random_state=seed)
        found = masked.validate(features, targets, groups, n_sets=n_sets, dense=False)
        tables.append(found.columns)
    lines = tables[0]["group"].tolist()
    assert lines == tables[1]["group"].tolist() and tables[0]["rows"].sum() == len(targets)
    # Fits number their groups anew, so the sets are rebuilt from the lines.
    left_out = [{int(name) for name in line.split(", ")} for line in lines]
    everybody = set(range(n_groups))
    assert {len(one) for one in opened} <= {
        size for one in left_out for size in (len(one), n_groups - len(one))
    }
    ledger = Ledger()
    for one in [everybody, *left_out, *(everybody - one for one in left_out)]:
        assert ledger.choose(one) == sorted(one)


# The summary.


def statsmodels_effects(values, errors):
    """Return the summary of statsmodels, with the variance of Paule and Mandel."""
    meta = pytest.importorskip("statsmodels.stats.meta_analysis")
    return meta.combine_effects(values, errors**2, method_re="iterated", use_t=True)


@given(st.integers(2, 12), st.floats(0.0, 3.0), st.integers(0, 99))
def test_random_effects_are_those_of_statsmodels(n_groups, between, seed):
    """Mean, tau, and the error of the mean, for groups that differ much or not at all.

    I2 is that of Higgins and Thompson (2002, equation 9): with the tau of DerSimonian and Laird it
    is (Q - k + 1) / Q, which statsmodels has.
    """
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.1, 1.0, n_groups)
    values = rng.normal(0.3, np.hypot(errors, between))
    found = random_effects(values, errors)
    expected = statsmodels_effects(values, errors)
    # Its iteration ends where the equation of the variance holds to 1e-5.
    np.testing.assert_allclose(found.mean, expected.mean_effect_re, 1e-4, 1e-5)
    np.testing.assert_allclose(found.tau**2, max(expected.tau2, 0), 1e-4, 1e-5)
    w = errors**-2
    laird = (expected.q - expected.df) / (w.sum() - (w**2).sum() / w.sum())
    if abs(expected.i2) > 1e-3:
        typical = laird * (1 - expected.i2) / expected.i2
        np.testing.assert_allclose(found.i2, found.tau**2 / (found.tau**2 + typical), 1e-9)
    assert (found.i2 == 0) == (found.tau == 0)
    half = (found.upper - found.lower) / 2
    quantile = t.ppf(0.975, n_groups - 1)
    np.testing.assert_allclose(half, quantile * expected.sd_eff_w_re, 1e-4)


def test_equal_errors_have_a_closed_form():
    """The variance of the values less that of the errors; a new group has both."""
    values = np.array([0.0, 1.0, 2.0, 5.0])
    found = random_effects(values, np.full(4, 0.5))
    between = values.var(ddof=1) - 0.25
    np.testing.assert_allclose(found.tau, np.sqrt(between), 1e-9)
    np.testing.assert_allclose(found.mean, 2.0, 1e-12)
    of_mean = values.var(ddof=1) / 4
    half = t.ppf(0.975, 2) * np.sqrt(of_mean + between)
    np.testing.assert_allclose([found.new_lower, found.new_upper], [2 - half, 2 + half], 1e-9)
    np.testing.assert_allclose(found.i2, between / values.var(ddof=1), 1e-9)


def test_groups_without_an_error_are_left_out():
    """A slope that does not exist, and an AUC of one, say nothing to a mean."""
    found = random_effects(np.array([1.0, np.nan, 3.0, np.inf]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert found.n_groups == 2 and found.mean == 2
    single = random_effects(np.array([1.0, np.nan]), np.ones(2))
    assert single.n_groups == 1 and single.mean == 1 and np.isnan(single.tau)
    nobody = random_effects(np.array([np.nan]), None)
    assert nobody.n_groups == 0 and np.isnan(nobody.mean)


def test_summary_of_an_auc_is_that_of_its_log_odds(validation):
    """By hand, with the errors of the delta method."""
    is_line = validation.columns["sparsity"] == "cv"
    auc, error = (validation.columns[name][is_line] for name in ("auc", "auc_se"))
    expected = statsmodels_effects(logit(auc), error / (auc * (1 - auc)))
    np.testing.assert_allclose(validation.overall["mean"][0], expit(expected.mean_effect_re), 1e-6)
    dense = validation.columns["auc"][~is_line]
    line = validation.overall["sparsity"].tolist().index("all - cv")
    np.testing.assert_allclose(validation.overall["mean"][line], np.mean(dense - auc), 1e-12)


# What is shown.


def test_validation_is_two_tables_as_text_and_html_and_a_frame(validation):
    """With how the numbers are to be read."""
    text = repr(validation)
    assert "AUC" in text and "in sample" in text and "new low" in text and "Paule-Mandel" in text
    assert validation._repr_html_().count("<table>") == 2
    frame = validation.to_frame()
    assert frame.loc[("Budapest", "all"), "rows"] == 294
    report = str(validation.report())
    assert (
        "each of 4 groups predicted by a model of the others" in report
        and "each group's own measures leave it" in report
    )


def test_picture_has_each_interval_of_the_tables(validation):
    """Of both models at each hospital and over all, with the interval of a new one."""
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = validation.plot()
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == [*NAMES, "all groups"]
    bars = axes[2].containers[0].lines[2][0].get_segments()
    slope, error = (validation.columns[name][0] for name in ("slope", "slope_se"))
    np.testing.assert_allclose(bars[0][:, 0], slope + 1.96 * error * np.array([-1, 1]), 1e-4)
    over_all = axes[2].containers[1].lines[2][0].get_segments()[0][:, 0]
    line = validation.overall["measure"].tolist().index("slope")
    ends = [validation.overall[name][line] for name in ("lower", "upper")]
    np.testing.assert_allclose(over_all, ends, 1e-9)
    new = axes[2].collections
    segments = [one.get_segments()[0][:, 0] for one in new if one.get_linestyle()[0][1]]
    new_ends = [validation.overall[name][line] for name in ("new_lower", "new_upper")]
    np.testing.assert_allclose(segments[0], new_ends, 1e-9)
    legend = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert legend == ["sparsity=cv", "sparsity=all"]
    plt.close("all")


def test_both_models_are_summarised_at_the_same_groups():
    """A group at which the AUC of one model is 1, without an error, is in no mean, and a note."""
    rng = np.random.default_rng(0)
    groups = rng.integers(6, size=600)
    X = rng.standard_normal((600, 3))
    y = X[:, 0] + 0.7 * rng.logistic(size=600) > 0
    y[groups == 5] = X[groups == 5, 0] > 0
    validation = fgmp.FedGradMPClassifier(1, C=np.inf).validate(X, y, groups)
    columns, overall = validation.columns, validation.overall
    assert columns["auc"][-2] == 1 > columns["auc"][-1]
    is_auc = overall["measure"] == "auc"
    assert overall["n_groups"][is_auc].tolist() == [5, 5, 5]
    difference = (columns["auc"][1:-2:2] - columns["auc"][:-2:2]).mean()
    assert np.isclose(overall["mean"][is_auc][-1], difference)
    assert "as an AUC of 0 or 1, are in no mean" in str(validation)
    is_intercept = overall["measure"] == "intercept"
    assert overall["n_groups"][is_intercept].tolist() == [6, 6]


def test_error_of_a_fit_says_of_which_model_and_groups_it_is():
    """Here the rows of the dense model are separated by a column that the other does not take."""
    X = np.random.default_rng(0).standard_normal((120, 2))
    y = np.arange(120) % 2
    X[:, 0] += y
    X[:, 1] = (y == 1) & (np.arange(120) % 3 == 0)
    model = fgmp.FedGradMPClassifier(1, C=np.inf)
    with pytest.raises(ValueError, match="separated in part") as caught:
        model.validate(X, y, np.arange(120) // 2 % 3)
    (note,) = caught.value.__notes__
    assert note == "This is the model with sparsity=all without ['0']; dense=False does without it."
    with pytest.raises(ValueError, match="separated in part") as caught:
        fgmp.FedGradMPClassifier("all", C=np.inf).validate(
            X, y, np.arange(120) // 2 % 3, dense=False
        )
    assert caught.value.__notes__ == ["This is the model with sparsity=all without ['0']."]


def test_a_group_that_did_not_answer_for_one_model_is_left_out_for_both():
    """Otherwise means of the models would be over other groups, and their differences of them."""
    columns = {
        "place": np.array([0, 0, 1, 1, 2, 2]),
        "group": np.array(["a", "a", "b", "b", "c", "c"]),
        "sparsity": np.array(["2", "all"] * 3),
        "observed": np.array([0.5, 0.5, np.nan, 0.5, 0.5, 0.5]),
    }
    shown, n_hidden = _shown(columns)
    assert shown["group"].tolist() == ["a", "a", "c", "c"] and n_hidden == 1
