"""Performance and calibration of each group, compared with scikit-learn and statsmodels."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import (
    brier_score_loss,
    d2_tweedie_score,
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

import fgmp
from fgmp.datasets import heart_disease
from fgmp.estimators.calibration import count_pairs
from fgmp.estimators.performance_sums import ClientPerformance

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

HEART = heart_disease()
COMPLETE = [HEART.feature_names.index(name) for name in ("age", "sex", "cp")]


def classifier(**options):
    """Return a model of three features that nobody misses, and its table."""
    X = HEART.X[:, COMPLETE]
    model = fgmp.FedGradMPClassifier(3, **options).fit(X, HEART.y, groups=HEART.hospital)
    return model, X


def regressor(**options):
    """Return a linear model in large units, its table, and numbers to predict."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4)) * [1, 10, 0.1, 1]
    y = 1e6 + 1e5 * (X[:, 0] - 0.1 * X[:, 1] + rng.standard_normal(200))
    groups = np.arange(200) % 3
    return fgmp.FedGradMPRegressor(2, **options).fit(X, y, groups=groups), X, y, groups


def logistic_lines(y, predictor):
    """Return calibration intercept and slope, with their errors, as statsmodels has them."""
    sm = pytest.importorskip("statsmodels.api")
    shift = sm.GLM(y, np.ones(len(y)), family=sm.families.Binomial(), offset=predictor).fit()
    line = sm.Logit(y, sm.add_constant(predictor)).fit(disp=0, tol=1e-12)
    return shift.params[0], shift.bse[0], line.params[1], line.bse[1]


def delong_variance(predictor, is_event):
    """Return the variance of the area under the curve, by a loop over pairs."""
    events, others = predictor[is_event], predictor[~is_event]
    above = [[(a > b) + 0.5 * (a == b) for b in others] for a in events]
    of_events, of_others = np.mean(above, axis=1), np.mean(above, axis=0)
    return of_events.var(ddof=1) / len(events) + of_others.var(ddof=1) / len(others)


def test_measures_of_each_hospital_are_those_of_other_libraries():
    """AUC, Brier, log loss, and the calibration with its standard errors."""
    model, X = classifier()
    table = model.performance(X, HEART.y, HEART.hospital).columns
    probabilities = model.predict_proba(X)[:, 1]
    predictor = model.decision_function(X)
    assert table["group"].tolist() == sorted(set(HEART.hospital))
    for line, name in enumerate(table["group"]):
        is_here = HEART.hospital == name
        y, p, z = HEART.y[is_here], probabilities[is_here], predictor[is_here]
        expected = {
            "rows": len(y),
            "observed": y.mean(),
            "predicted": p.mean(),
            "auc": roc_auc_score(y, z),
            "auc_se": np.sqrt(delong_variance(z, y == 1)),
            "brier": brier_score_loss(y, p),
            "log_loss": log_loss(y, p),
        }
        calibration = ("intercept", "intercept_se", "slope", "slope_se")
        expected |= zip(calibration, logistic_lines(y, z), strict=True)
        for measure, value in expected.items():
            np.testing.assert_allclose(table[measure][line], value, 1e-6, err_msg=measure)


@pytest.mark.parametrize("secure", [False, True])
def test_measures_of_all_rows_are_those_of_other_libraries(secure):
    """From sums, under masks too; the AUC is that of pairs within a hospital."""
    model, X = classifier(secure=secure)
    table = model.performance(X, HEART.y, HEART.hospital, by="all").columns
    probabilities = model.predict_proba(X)[:, 1]
    predictor = model.decision_function(X)
    calibration = ("intercept", "intercept_se", "slope", "slope_se")
    expected = dict(zip(calibration, logistic_lines(HEART.y, predictor), strict=True))
    expected["brier"] = brier_score_loss(HEART.y, probabilities)
    expected["log_loss"] = log_loss(HEART.y, probabilities)

    concordant, pairs, variance = 0.0, 0.0, 0.0
    for name in set(HEART.hospital):
        is_here = HEART.hospital == name
        y, z = HEART.y[is_here], predictor[is_here]
        n_pairs = y.sum() * (1 - y).sum()
        concordant += n_pairs * roc_auc_score(y, z)
        variance += n_pairs**2 * delong_variance(z, y == 1)
        pairs += n_pairs
    expected["auc"] = concordant / pairs
    expected["auc_se"] = np.sqrt(variance) / pairs
    assert table["rows"].tolist() == [920]
    for measure, value in expected.items():
        np.testing.assert_allclose(table[measure][0], value, 1e-6, 1e-9, err_msg=measure)


@pytest.mark.parametrize("secure", [False, True])
def test_a_single_event_of_a_group_makes_the_error_of_an_auc_no_smaller(secure):
    """Its variance, which nothing estimates, counts as the largest there can be, not as zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    groups = np.repeat([0, 1, 2], 30)
    y = (X[:, 0] + rng.logistic(size=90) > 0) & (groups == 2)
    y[[4, 37]] = True  # one in each of the other groups
    model = fgmp.FedGradMPClassifier("all", C=1.0, min_rows=1, secure=secure).fit(X, y, groups)
    z = model.decision_function(X)[groups == 2]
    n_pairs = [29, 29, y[groups == 2].sum() * (~y[groups == 2]).sum()]
    variances = [29**2 / 4, 29**2 / 4, n_pairs[2] ** 2 * delong_variance(z, y[groups == 2])]
    found = model.performance(X, y, groups, by="all").columns["auc_se"][0]
    np.testing.assert_allclose(found, np.sqrt(sum(variances)) / sum(n_pairs), 1e-6)


@pytest.mark.parametrize("by", ["groups", "all"])
@pytest.mark.parametrize("fit_intercept", [True, "per_group"])
def test_measures_of_counts_are_those_of_other_libraries(by, fit_intercept):
    """D^2 and deviance of scikit-learn, and the quasi-Poisson calibration of statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(5)
    X, groups = rng.standard_normal((300, 4)), np.arange(300) % 3
    y = rng.poisson(np.exp(1 + 0.5 * X[:, 0] - 0.3 * X[:, 2] + 0.2 * groups))
    secure = by == "all" and fit_intercept is True
    model = fgmp.FedGradMPRegressor(2, loss="poisson", fit_intercept=fit_intercept, secure=secure)
    model.fit(X[::2], y[::2], groups=groups[::2])
    performance = model.performance(X, y, groups, by=by)
    table = performance.columns
    predicted = model.predict(X, groups)
    parts = [groups == group for group in range(3)] if by == "groups" else [groups >= 0]
    for line, rows in enumerate(parts):
        count, mean = y[rows], predicted[rows]
        predictor = np.log(mean)
        poisson = sm.families.Poisson()
        shift = sm.GLM(count, np.ones(len(count)), family=poisson, offset=predictor)
        shift = shift.fit(scale="X2")
        slope = sm.GLM(count, sm.add_constant(predictor), family=poisson)
        slope = slope.fit(tol=1e-12, scale="X2")
        expected = {
            "rows": rows.sum(),
            "observed": count.mean(),
            "predicted": mean.mean(),
            "d2": d2_tweedie_score(count, mean, power=1),
            "deviance": mean_poisson_deviance(count, mean),
            "intercept": shift.params[0],
            "intercept_se": shift.bse[0],
            "slope": slope.params[1],
            "slope_se": slope.bse[1],
        }
        for measure, value in expected.items():
            np.testing.assert_allclose(table[measure][line], value, 1e-6, 1e-7, err_msg=measure)
        alone = PoissonRegressor(alpha=0, tol=1e-10).fit(predictor[:, None], count)
        np.testing.assert_allclose(table["slope"][line], alone.coef_[0], 1e-4)
    assert "D2" in repr(performance) and "AUC" not in repr(performance)
    assert performance.plot()[0].get_xlabel() == "$D^2$"


def test_counts_that_are_all_equal_have_no_d2():
    """And a group with few rows has no measure at all."""
    rng = np.random.default_rng(6)
    X, groups = rng.standard_normal((60, 2)), np.repeat([0, 1, 2], [28, 28, 4])
    y = rng.poisson(3, 60)
    model = fgmp.FedGradMPRegressor(1, loss="poisson").fit(X, y, groups)
    table = model.performance(X, np.where(groups == 1, 3, y), groups % 2).columns
    assert np.isfinite(table["d2"][0]) and np.isnan(table["d2"][1])
    assert abs(table["observed"][1] - 3) < 1e-12 and np.isfinite(table["deviance"][1])
    assert model.performance(X, y, groups).columns["group"].tolist() == ["0", "1"]


@pytest.mark.parametrize("by", ["groups", "all"])
def test_measures_of_numbers_are_those_of_least_squares(by):
    """R^2, and the line of targets on predictions, in any units."""
    sm = pytest.importorskip("statsmodels.api")
    model, X, y, groups = regressor(secure=by == "all")
    table = model.performance(X, y, groups, by=by).columns
    parts = [groups == group for group in range(3)] if by == "groups" else [groups >= 0]
    for line, rows in enumerate(parts):
        observed, predicted = y[rows], model.predict(X)[rows]
        slope = sm.OLS(observed, sm.add_constant(predicted)).fit()
        shift = sm.OLS(observed - predicted, np.ones(len(observed))).fit()
        expected = {
            "observed": observed.mean(),
            "predicted": predicted.mean(),
            "r2": r2_score(observed, predicted),
            "mean_squared_error": np.mean((observed - predicted) ** 2),
            "intercept_se": shift.bse[0],
            "slope": slope.params[1],
            "slope_se": slope.bse[1],
        }
        for measure, value in expected.items():
            np.testing.assert_allclose(table[measure][line], value, 1e-7, err_msg=measure)
        np.testing.assert_allclose(table["intercept"][line], shift.params[0], 1e-6, 1e-4)


def test_several_classes_are_measured_each_against_the_others():
    """The probability of a class is its predictor."""
    X, y = load_wine(return_X_y=True)
    y[::6] = y[::-1][::6]  # so that no class is separated
    groups = np.arange(len(y)) % 2
    model = fgmp.FedGradMPClassifier(2).fit(X, y, groups=groups)
    table = model.performance(X, y, groups).columns
    assert table["class"].tolist() == [0, 1, 2, 0, 1, 2]
    p = model.predict_proba(X)
    for line, (group, label) in enumerate(zip([0, 0, 0, 1, 1, 1], table["class"], strict=True)):
        is_here = groups == group
        is_label, of_label = y[is_here] == label, p[is_here, label]
        np.testing.assert_allclose(table["auc"][line], roc_auc_score(is_label, of_label))
        np.testing.assert_allclose(table["brier"][line], brier_score_loss(is_label, of_label))
        odds = np.log(of_label / (1 - of_label))
        np.testing.assert_allclose(table["slope"][line], logistic_lines(is_label, odds)[2], 1e-5)


def test_each_group_is_measured_with_its_own_intercept():
    """A group that took no part gets the mean one."""
    model, X, y, groups = regressor(fit_intercept="per_group")
    names = np.where(groups == 2, 9, groups)
    table = model.performance(X, y, names).columns
    predicted = model.predict(X, groups=names)
    expected = [r2_score(y[names == name], predicted[names == name]) for name in (0, 1, 9)]
    np.testing.assert_allclose(table["r2"], expected)


def rates(seed=5):
    """Return features, counts, times under observation and groups."""
    rng = np.random.default_rng(seed)
    X, groups = rng.standard_normal((240, 3)), np.arange(240) % 4
    times = rng.uniform(0.2, 5, 240)
    counts = rng.poisson(times * rng.gamma(3, 1 / 3, 240) * np.exp(0.4 + 0.5 * X[:, 1]))
    return X, counts, times, groups


def offset_measures(y, times, predictor):
    """Return the measures of counts with an offset, and the calibration, by statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    options = {"family": sm.families.Poisson(), "offset": np.log(times) + predictor}
    shift = sm.GLM(y, np.ones(len(y)), **options).fit(scale="X2")
    options["offset"] = np.log(times)
    line = sm.GLM(y, sm.add_constant(predictor), **options).fit(scale="X2", tol=1e-12)
    null = sm.GLM(y, np.ones(len(y)), **options).fit()
    mean = times * np.exp(predictor)
    return {
        "observed": y.sum() / times.sum(),
        "predicted": mean.sum() / times.sum(),
        "d2": 1 - options["family"].deviance(y, mean) / null.deviance,
        "deviance": options["family"].deviance(y, mean) / times.sum(),
        "intercept": shift.params[0],
        "intercept_se": shift.bse[0],
        "slope": line.params[1],
        "slope_se": line.bse[1],
    }


@pytest.mark.parametrize("secure", [False, True])
def test_rates_with_their_times_are_measured_as_counts_with_an_offset(secure):
    """By statsmodels; in the open each group too."""
    X, y, times, groups = rates()
    model = fgmp.FedGradMPRegressor(2, loss="poisson", secure=secure)
    model.fit(X, y / times, groups, sample_weight=times)
    predictor = np.log(model.predict(X))
    options = {"groups": groups, "sample_weight": times}
    table = model.performance(X, y / times, by="all", **options).columns
    for measure, value in offset_measures(y, times, predictor).items():
        np.testing.assert_allclose(table[measure], [value], 1e-6, 1e-9, err_msg=measure)
    if secure:
        return
    table = model.performance(X, y / times, **options).columns
    for group in range(4):
        at = groups == group
        for measure, value in offset_measures(y[at], times[at], predictor[at]).items():
            np.testing.assert_allclose(table[measure][group], value, 1e-6, 1e-9, err_msg=measure)


@pytest.mark.parametrize("by", ["groups", "all"])
@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_row_of_weight_two_is_measured_as_two_rows(kind, by):
    """All measures and errors are those of rows that are repeated, but for their number."""
    X, counts, _, groups = rates()
    y = {"labels": counts > 1, "numbers": counts + X[:, 0], "counts": counts}[kind]
    model = fgmp.FedGradMPClassifier(2)
    if kind != "labels":
        model = fgmp.FedGradMPRegressor(2, loss="poisson" if kind == "counts" else "squared")
    model.fit(X, y, groups)
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    table = model.performance(X, y, groups, by=by, sample_weight=weights).columns
    repeated = model.performance(X[rows], y[rows], groups[rows], by=by).columns
    assert np.sum(table["rows"]) == np.count_nonzero(weights)
    for measure in [name for name in table if name not in ("group", "rows")]:
        np.testing.assert_allclose(table[measure], repeated[measure], 1e-9, err_msg=measure)


def test_relative_weights_of_labels_do_not_depend_on_their_scale():
    """AUC and losses are those of scikit-learn; the error of AUC has each row once."""
    model, X = classifier()
    w = np.random.default_rng(0).uniform(0.5, 3, len(X))
    y, z, groups = HEART.y, model.decision_function(X), HEART.hospital
    table = model.performance(X, y, groups, sample_weight=w).columns
    scaled = model.performance(X, y, groups, sample_weight=10 * w).columns
    for measure in [name for name in table if name != "group"]:
        np.testing.assert_allclose(table[measure], scaled[measure], 1e-9, err_msg=measure)
    for line, name in enumerate(table["group"]):
        at = groups == name
        auc = roc_auc_score(y[at], z[at], sample_weight=w[at])
        np.testing.assert_allclose(table["auc"][line], auc)
        p = 1 / (1 + np.exp(-z[at]))
        np.testing.assert_allclose(
            table["brier"][line], np.average((y[at] - p) ** 2, weights=w[at])
        )
        np.testing.assert_allclose(table["log_loss"][line], log_loss(y[at], p, sample_weight=w[at]))
        is_event = y[at] == 1
        variance = 0.0
        for inside, outside, sign in ((is_event, ~is_event, 1), (~is_event, is_event, -1)):
            above = sign * (z[at][inside][:, None] - z[at][outside])
            ranks = (above > 0) + 0.5 * (above == 0)
            parts = w[at][inside] * (ranks @ w[at][outside] / w[at][outside].sum() - auc)
            n = inside.sum()
            variance += (parts**2).sum() / w[at][inside].sum() ** 2 * n / (n - 1)
        np.testing.assert_allclose(table["auc_se"][line], np.sqrt(variance))


def test_counts_that_are_not_whole_want_weights():
    """In a fit and in its performance; counts, and rates with times, are not warned of."""
    X, y, times, groups = rates()
    model = fgmp.FedGradMPRegressor(1, loss="poisson")
    with pytest.warns(fgmp.AdviceWarning, match="not all whole, and no sample_weight is given"):
        model.fit(X, y / times, groups)
    with pytest.warns(fgmp.AdviceWarning, match="not all whole, and no sample_weight is given"):
        model.performance(X, y / times, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, groups)
        model.performance(X, y / times, groups, sample_weight=times)


def test_losses_of_other_rows_or_weights_stand_beside_no_held_out_one():
    """With the weights of the fit the note compares like with like."""
    X, y, times, groups = rates()
    model = fgmp.FedGradMPRegressor("cv", loss="poisson", n_folds=3, random_state=0)
    model.fit(X, y / times, groups, sample_weight=times)
    with_times = model.performance(X, y / times, groups, sample_weight=times)
    assert "cross-validation held rows out" in repr(with_times)
    assert "held rows out" not in repr(model.performance(X, y / times, groups))


def test_pairs_with_ties_count_half():
    """As in a loop over all pairs."""
    rng = np.random.default_rng(0)
    predictor = rng.integers(4, size=60).astype(float)
    is_event = rng.random(60) < 0.4
    pairs = count_pairs(predictor, is_event)
    np.testing.assert_allclose(
        pairs.n_concordant / pairs.n_pairs, roc_auc_score(is_event, predictor)
    )
    variance = delong_variance(predictor, is_event) * pairs.n_pairs**2
    np.testing.assert_allclose(pairs.variance, variance)


def test_pairs_have_the_weights_of_both_rows():
    """With ties, and rows whose last bits differ; without an event there is no pair."""
    rng = np.random.default_rng(0)
    exact = rng.integers(-3, 4, 60) / 3
    rounded = exact * (1 + rng.choice([-1, 0, 1], 60) * np.finfo(float).eps)
    y = rng.random(60) < 0.4
    w = rng.uniform(0.5, 2, 60)
    pairs = count_pairs(rounded, y, w)
    expected = roc_auc_score(y, exact, sample_weight=w)
    np.testing.assert_allclose(pairs.n_concordant / pairs.n_pairs, expected, rtol=1e-12)
    assert count_pairs(rounded, y & ~y, w)[:2] == (0, 0)


def test_separated_classes_have_no_slope():
    """And an AUC of one; an intercept there is, as statsmodels finds it."""
    X = np.arange(40.0)[:, None]
    y = np.arange(40) >= 20
    model = fgmp.FedGradMPClassifier(1).fit(X, y)
    table = model.performance(X, y).columns
    assert table["auc"].tolist() == [1]
    assert np.isnan(table["slope"]).all() and np.isnan(table["slope_se"]).all()
    assert np.isfinite(table["intercept"]).all()


def test_model_without_features_has_no_slope():
    """All predictions are alike, and half of the pairs are in order."""
    X, y = HEART.X[:, COMPLETE], HEART.y
    model = fgmp.FedGradMPClassifier(0).fit(X, y, groups=HEART.hospital)
    table = model.performance(X, y, HEART.hospital).columns
    assert np.all(table["auc"] == 0.5)
    assert np.isnan(table["slope"]).all()
    assert np.isfinite(table["intercept"]).all()


def test_nothing_is_sent_of_a_group_with_few_rows_of_a_class():
    """Its update is zeros: an AUC with one event would be the rank of this row."""
    model, X = classifier()
    is_event = HEART.y == 1
    at_coast = np.flatnonzero(is_event)[:4]
    groups = np.where(is_event, "north", "valley").astype(object)
    groups[np.flatnonzero(~is_event)[:50]] = "coast"
    groups[np.flatnonzero(~is_event)[50:80]] = "north"
    groups[at_coast] = "coast"
    updates = {}
    honest = ClientPerformance.answer

    def answer(self, one, client, message, rng):
        updates[client.client_id] = honest(self, one, client, message, rng)
        return updates[client.client_id]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientPerformance, "answer", answer)
        table = model.performance(X, HEART.y, groups).columns
    assert table["group"].tolist() == ["coast", "north", "valley"]
    assert np.isnan(table["auc"]).tolist() == [True, False, True]
    assert np.isnan(table["observed"]).tolist() == [True, False, True]
    assert [bool(updates[index].any()) for index in range(3)] == [False, True, False]


def test_pairs_of_equal_rows_are_ties_whatever_their_last_bits():
    """Which differ by the place of a row in a matrix product; each such pair counts half."""
    rng = np.random.default_rng(0)
    exact = rng.integers(-3, 4, 60) / 3
    y = rng.random(60) < 0.4
    rounded = exact * (1 + rng.choice([-1, 0, 1], 60) * np.finfo(float).eps)
    assert len(np.unique(rounded)) > len(np.unique(exact))
    pairs = count_pairs(rounded, y)
    assert pairs == count_pairs(exact, y)
    np.testing.assert_allclose(pairs.n_concordant / pairs.n_pairs, roc_auc_score(y, exact), 1e-12)


def test_under_masks_measures_of_groups_are_refused():
    """They are of one group, and the message says what can be had."""
    model, X = classifier(secure=True)
    with pytest.raises(ValueError, match="secure is True.*expected by='all'"):
        model.performance(X, HEART.y, HEART.hospital)


def test_other_arguments_that_are_wrong_are_named():
    """Labels that were not in the fit, another word, and a private model."""
    model, X = classifier()
    with pytest.raises(ValueError, match=r"y holds 2; expected the labels of the fit, \[0, 1\]"):
        model.performance(X, HEART.y + 1, HEART.hospital)
    with pytest.raises(ValueError, match="by is 'rows'"):
        model.performance(X, HEART.y, HEART.hospital, by="rows")
    noisy = fgmp.FedGradMPClassifier(
        2,
        private=fgmp.GaussianNoise(1.0, 1.0, 0.1),
        standardize=False,
        fit_intercept=False,
        polish=False,
        rounds=2,
    ).fit(X, HEART.y, groups=HEART.hospital)
    with pytest.raises(ValueError, match="private is given"):
        noisy.performance(X, HEART.y, HEART.hospital)


def test_the_report_says_that_measures_of_each_group_leave_it():
    """And under masks that none does."""
    model, X = classifier()
    performance = model.performance(X, HEART.y, HEART.hospital)
    text = str(performance.report())
    assert "each group's own measures leave it" in text
    assert "AUC or R2, losses and calibration, of each client by itself" in text
    masked, _ = classifier(secure=True)
    report = masked.performance(X, HEART.y, HEART.hospital, by="all").report()
    assert "no measure of one group" in str(report)
    assert len({stage.what for stage in report.stages}) == len(report.stages) == 3


def test_table_has_a_line_for_each_group_as_text_frame_and_picture():
    """With 95 % intervals in the picture."""
    pd = pytest.importorskip("pandas")
    plt = pytest.importorskip("matplotlib.pyplot")
    model, X = classifier()
    performance = model.performance(X, HEART.y, HEART.hospital)
    assert "Long Beach" in repr(performance) and "<td" in performance._repr_html_()
    frame = performance.to_frame()
    assert isinstance(frame, pd.DataFrame) and frame.loc["Budapest", "rows"] == 294
    axes = performance.plot()
    bars = axes[2].containers[0].lines[2][0].get_segments()
    low, high = bars[0][:, 0]
    slope, error = performance.columns["slope"][0], performance.columns["slope_se"][0]
    np.testing.assert_allclose([low, high], [slope - 1.96 * error, slope + 1.96 * error], 1e-4)
    assert [label.get_text() for label in axes[0].get_yticklabels()][0] == "Budapest"
    plt.close("all")


@pytest.mark.parametrize("by", ["groups", "all"])
def test_performance_without_groups_says_that_rows_of_the_fit_are_too_kind(by):
    """Nobody knows then which rows these are; of a fit without groups, too."""
    X = np.random.default_rng(0).standard_normal((80, 3))
    y = X[:, 0] + np.random.default_rng(1).standard_normal(80)
    groups = np.arange(80) % 4
    for of_fit in (None, groups):
        model = fgmp.FedGradMPRegressor(1).fit(X, y, of_fit)
        for measured in (None, groups):
            notes = " ".join(model.performance(X, y, measured, by=by).notes)
            assert "too kind" in notes
            both = of_fit is not None and measured is not None
            assert ("Part of the fit: 0, 1, 2, 3." in notes) == both
    new = model.performance(X, y, np.repeat("new", 80), by=by)
    assert "too kind" not in " ".join(new.notes)


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
@pytest.mark.parametrize("by", ["groups", "all"])
def test_loss_in_sample_stands_beside_the_one_that_was_held_out(kind, by):
    """In the same units: of a model that may choose nothing, they are nearly equal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    groups = np.arange(600) % 3
    y = {"labels": X[:, 0] + rng.logistic(size=600) > 0}.get(kind, rng.poisson(3.0, size=600))
    options = {"sparsities": [1], "random_state": 0}
    if kind == "labels":
        model = fgmp.FedGradMPClassifier("cv", **options).fit(X, y, groups)
        loss = log_loss(y, model.predict_proba(X))
    else:
        name = {"numbers": "squared", "counts": "poisson"}[kind]
        model = fgmp.FedGradMPRegressor("cv", loss=name, **options).fit(X, y, groups)
        measure = mean_poisson_deviance if kind == "counts" else mean_squared_error
        loss = measure(y, model.predict(X))
    note = next(note for note in model.performance(X, y, groups, by=by).notes if "held" in note)
    found = [float(number) for number in re.findall(r"(?:is|was) ([0-9.]+) (?:here|where)", note)]
    np.testing.assert_allclose(found, loss, 0.02)
    assert found[0] == float(f"{loss:.3g}") <= found[1]
    new = model.performance(X[:200], y[:200], np.repeat("new", 200)).notes
    assert not any("held" in note for note in new)
