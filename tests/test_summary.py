"""Standard errors and intervals against statsmodels on the pooled table, and what masks must not tell."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from cases import table_in_several_units
from scipy import sparse

import fgmp
from fgmp.estimators import covariance as covariance_module
from fgmp.estimators import model_from_json
from fgmp.estimators.bootstrap import clients_of
from fgmp.estimators.covariance import GradientProducts
from fgmp.estimators.federated_table import FederatedTable, Rows
from fgmp.estimators.resampling import ResampledClients
from fgmp.estimators.weighted_loss import rows_counted

pytestmark = pytest.mark.filterwarnings(
    "ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)

N_GROUPS = 9


def design(X, model):
    chosen = X.iloc[:, model.support_]
    return sm.add_constant(chosen) if model.fit_intercept is True else chosen


def scaled(X, model):
    """The design in units in which statsmodels converges, and the factors of its coefficients."""
    columns = design(X, model)
    factors = np.abs(columns).mean(axis=0)
    return columns / factors, 1 / factors


def errors_of(model):
    frame = model.summary().to_frame()
    return frame["standard_error"].to_numpy(), frame["standard_error_by_group"].to_numpy()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("sparsity", [4, "all"])
def test_the_regressor_has_the_errors_and_intervals_of_least_squares(sparsity, fit_intercept):
    """Of the pooled table, with the default correction of statsmodels for clusters."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(sparsity, C=np.inf, fit_intercept=fit_intercept)
    model.fit(X, y, groups)
    frame = model.summary(level=0.9).to_frame()
    plain = sm.OLS(y, design(X, model)).fit()
    clustered = sm.OLS(y, design(X, model)).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )

    np.testing.assert_allclose(frame["coefficient"], plain.params, rtol=1e-6)
    np.testing.assert_allclose(frame["standard_error"], plain.bse, rtol=1e-6)
    np.testing.assert_allclose(frame["standard_error_by_group"], clustered.bse, rtol=1e-6)
    scale = plain.bse.to_numpy()
    for ending, fitted in (("", plain), ("_by_group", clustered)):
        bounds = frame[[f"lower{ending}", f"upper{ending}"]].to_numpy()
        difference = (bounds - fitted.conf_int(0.1).to_numpy()) / scale[:, None]
        assert np.abs(difference).max() < 1e-6
    assert model.covariance_.dispersion == pytest.approx(plain.mse_resid, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_classifier_has_the_errors_of_maximum_likelihood(fit_intercept):
    """With C=np.inf, against a logit of the pooled table."""
    X, y, groups = table_in_several_units(2)
    model = fgmp.FedGradMPClassifier(4, C=np.inf, fit_intercept=fit_intercept).fit(X, y, groups)
    columns, factors = scaled(X, model)
    logit = sm.Logit(y, columns)
    options = {"disp": 0, "method": "newton"}
    plain = logit.fit(**options)
    clustered = logit.fit(cov_type="cluster", cov_kwds={"groups": groups}, **options)

    frame = model.summary().to_frame()
    params, errors, by_group = (one * factors for one in (plain.params, plain.bse, clustered.bse))
    np.testing.assert_allclose(frame["coefficient"], params, rtol=1e-6)
    np.testing.assert_allclose(frame["standard_error"], errors, rtol=1e-6)
    np.testing.assert_allclose(frame["standard_error_by_group"], by_group, rtol=1e-6)
    half = factors * (plain.conf_int()[1] - plain.conf_int()[0]) / 2  # normal quantiles
    np.testing.assert_allclose((frame["upper"] - frame["lower"]) / 2, half, rtol=1e-6)
    bounds = frame[["odds_ratio_lower", "odds_ratio_upper"]].drop("(intercept)", errors="ignore")
    expected = np.exp(plain.conf_int().mul(factors, axis=0))[frame.index != "(intercept)"]
    np.testing.assert_allclose(bounds, expected, rtol=1e-5)
    by_group = frame[["odds_ratio_lower_by_group", "odds_ratio_upper_by_group"]].to_numpy()
    logs = np.log(by_group) - frame[["lower_by_group", "upper_by_group"]].to_numpy()
    np.testing.assert_allclose(logs[frame.index != "(intercept)"], 0, atol=1e-12)
    log_odds = params[frame.index != "(intercept)"]
    ratios = frame["odds_ratio"].drop("(intercept)", errors="ignore")
    np.testing.assert_allclose(np.log(ratios), log_odds, rtol=1e-6)


def test_softmax_contrasts_have_the_errors_of_a_multinomial_logit():
    """The coefficients sum to zero over the classes; their differences are those against class 0."""
    X, y, groups = table_in_several_units(3)
    model = fgmp.FedGradMPClassifier(3, C=np.inf).fit(X, y, groups)
    columns, factors = scaled(X, model)
    logit = sm.MNLogit(y, columns)
    options = {"disp": 0, "method": "newton"}
    plain = logit.fit(**options)
    clustered = logit.fit(cov_type="cluster", cov_kwds={"groups": groups}, **options)

    contrast = np.kron(np.eye(4), [[-1, 1, 0], [-1, 0, 1]])
    found = model.covariance_
    values = (contrast @ found.values).reshape(4, 2)
    factors = factors.to_numpy()[:, None]
    np.testing.assert_allclose(values, factors * plain.params, rtol=1e-5)
    for matrix, fitted in ((found.model_based, plain), (found.by_group, clustered)):
        errors = np.sqrt((contrast @ matrix @ contrast.T).diagonal()).reshape(4, 2)
        np.testing.assert_allclose(errors, factors * fitted.bse, rtol=1e-5)
    assert model.summary().to_frame().index.names == ["feature", "class"]


def test_own_intercepts_count_as_a_column_for_each_group():
    """The within estimator against least squares with indicators of the groups."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(4, fit_intercept="per_group").fit(X, y, groups)
    indicators = pd.get_dummies(groups, dtype=float).add_prefix("group")
    columns = pd.concat([X.iloc[:, model.support_], indicators], axis=1)
    plain = sm.OLS(y, columns).fit()
    clustered = sm.OLS(y, columns).fit(cov_type="cluster", cov_kwds={"groups": groups})
    errors, by_group = errors_of(model)
    np.testing.assert_allclose(errors, plain.bse[:4], rtol=1e-6)
    np.testing.assert_allclose(by_group, clustered.bse[:4], rtol=1e-6)


def test_a_row_of_weight_two_counts_as_two_rows():
    """Errors of a weighted fit are those of the table in which rows are repeated."""
    X, y, groups = table_in_several_units(2)
    weights = np.random.default_rng(1).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    for model, labels in (
        (fgmp.FedGradMPClassifier(4, C=np.inf), y),
        (fgmp.FedGradMPRegressor(4), X["f0"] * 100 + y),
    ):
        labels = np.asarray(labels)
        weighted = errors_of(model.fit(X, labels, groups, sample_weight=weights))
        repeated = errors_of(model.fit(X.iloc[rows], labels[rows], groups[rows]))
        np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


def ridge_sandwich(X, y, groups, model):
    """A^-1 H A^-1 and A^-1 M A^-1 by hand, in standardised columns."""
    columns = X.iloc[:, model.support_].to_numpy()
    deviations = columns.std(axis=0)
    columns = np.column_stack([np.ones(len(y)), (columns - columns.mean(axis=0)) / deviations])
    beta = np.append(0.0, model.coef_[0, model.support_] * deviations)
    beta[0] = model.intercept_[0] + model.coef_[0] @ X.to_numpy().mean(axis=0)
    chances = 1 / (1 + np.exp(-columns @ beta))
    penalty = np.eye(5) / model.C
    penalty[0, 0] = 0  # the intercept has none
    hessian = columns.T @ (columns * (chances * (1 - chances))[:, None])
    scores = columns * (chances - y)[:, None] + penalty @ beta / len(y)
    totals = np.array([scores[groups == group].sum(axis=0) for group in np.unique(groups)])
    bread = np.linalg.inv(hessian + penalty)
    n, g = len(y), len(totals)
    clustered = bread @ totals.T @ totals @ bread * g / (g - 1) * (n - 1) / (n - 5)
    return (
        np.sqrt(matrix.diagonal())[1:] / deviations
        for matrix in (bread @ hessian @ bread, clustered)
    )


def test_a_ridge_estimate_has_the_sandwich_of_its_penalised_gradients():
    """A strong ridge, so that A differs much from the Hessian H."""
    X, y, groups = table_in_several_units(2)
    model = fgmp.FedGradMPClassifier(4, C=0.02).fit(X, y, groups)
    errors, by_group = errors_of(model)
    expected, expected_by_group = ridge_sandwich(X, y, groups, model)
    np.testing.assert_allclose(errors[1:], expected, rtol=1e-6)
    np.testing.assert_allclose(by_group[1:], expected_by_group, rtol=1e-6)
    notes = " ".join(model.summary().notes)
    assert "ridge estimates (C=0.02), shrunken towards zero" in notes
    assert "The choice of the features is not in the errors and intervals" in notes


def test_masks_change_errors_by_their_resolution_only():
    """With masks and without, the errors agree to six digits."""
    X, y, groups = table_in_several_units(2)
    for model, labels in ((fgmp.FedGradMPClassifier(4), y), (fgmp.FedGradMPRegressor(4), y * 1e5)):
        plain = errors_of(model.set_params(secure=False).fit(X, labels, groups))
        masked = errors_of(model.set_params(secure=True).fit(X, labels, groups))
        np.testing.assert_allclose(masked, plain, rtol=1e-6)


def test_the_sum_for_two_groups_tells_a_gradient_and_for_three_a_group_solves_for_the_others():
    """The attack for which masks have no errors by group below four groups."""
    X, y, _ = table_in_several_units(2)
    for n_groups in (2, 3):
        groups = np.arange(len(y)) % n_groups
        fitted = fgmp.FedGradMPClassifier(3, C=np.inf).fit(X, y, groups)
        columns = sm.add_constant(X.iloc[:, fitted.support_]).to_numpy()
        residuals = fitted.predict_proba(X)[:, 1] - y
        scores = np.array(
            [columns[groups == g].T @ residuals[groups == g] for g in range(n_groups)]
        )
        total = scores.T @ scores  # what is summed
        others = total
        known = np.zeros(4)
        if n_groups == 3:  # the last one takes its own off
            known = scores[2]
            others = total - np.outer(known, known)
        # The two that are left have the sum -known.
        squares = 2 * others - np.outer(known, known)
        eigenvalues, vectors = np.linalg.eigh(squares)
        difference = np.sqrt(eigenvalues[-1]) * vectors[:, -1]
        found = (difference - known) / 2
        error = min(np.linalg.norm(found - score) for score in scores[:2])
        assert error < 1e-4 * np.linalg.norm(scores[0])


@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_under_masks_outer_products_are_sent_from_four_groups_on(n_groups, monkeypatch):
    """With fewer groups the errors by group are NaN, and a note says why."""
    X, y, _ = table_in_several_units(2)
    sent = []
    honest = GradientProducts.products

    def listen(self, client, message):
        update = honest(self, client, message)
        sent.append(len(update))
        return update

    monkeypatch.setattr(covariance_module.GradientProducts, "products", listen)
    model = fgmp.FedGradMPClassifier(3, secure=True).fit(X, y, np.arange(len(y)) % n_groups)
    summary = model.summary()
    hessian_and_loss = 1 + 4 * 5 // 2
    has_errors = not np.isnan(summary.columns["standard_error_by_group"]).any()
    assert has_errors == (n_groups >= 4)
    assert all(size > hessian_and_loss for size in sent) == (n_groups >= 4)
    assert len(sent) == n_groups
    if n_groups < 4:
        assert "under masks the sum of outer products" in " ".join(summary.notes)


def test_collinear_columns_have_no_error_and_others_keep_theirs():
    """The errors of the two twins are NaN, and the others are those of statsmodels."""
    X, y, groups = table_in_several_units()
    doubled = X.assign(twin=2 * X["f0"])
    model = fgmp.FedGradMPRegressor("all", C=np.inf).fit(doubled, y, groups)
    frame = model.summary().to_frame()
    assert frame.loc[["f0", "twin"], "standard_error"].isna().all()
    plain = sm.OLS(y, sm.add_constant(X)).fit()
    others = ["f1", "f2", "f3", "f4", "f5", "f6"]
    np.testing.assert_allclose(frame.loc[others, "standard_error"], plain.bse[others], rtol=1e-5)
    assert "collinear columns" in model.summary().notes[-1]


def test_constant_columns_are_left_out():
    """They have no row in the summary, and the other errors are those of statsmodels."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor("all", C=np.inf).fit(X.assign(same=3.0), y, groups)
    assert "same" not in model.summary().to_frame().index
    np.testing.assert_allclose(
        errors_of(model)[0], sm.OLS(y, sm.add_constant(X)).fit().bse, rtol=1e-6
    )


def test_a_model_without_errors_says_why():
    """Without polish or with noise it is an error, and one group has no errors by group."""
    X, y, groups = table_in_several_units()
    exact = dict(standardize=False, fit_intercept=False, polish=False)
    private = fgmp.FedGradMPRegressor(
        2, private=fgmp.GaussianNoise(50.0, 5.0), rounds=2, **exact
    ).fit(X, y, groups)
    for model, words in (
        (fgmp.FedGradMPRegressor(2, polish=False).fit(X, y, groups), "polish is False"),
        (private, "fitted with private noise"),
    ):
        with pytest.raises(ValueError, match=words):
            model.summary()
    alone = fgmp.FedGradMPRegressor(2).fit(X, y).summary()
    assert np.isnan(alone.columns["standard_error_by_group"]).all()
    assert any(
        note.startswith("No errors by group: all rows are one group, because fit got no gr")
        for note in alone.notes
    )


def test_the_summary_is_a_table_in_text_and_html():
    """Lines have at most 120 characters, HTML is escaped, and slopes are per deviation."""
    X, y, groups = table_in_several_units(2)
    model = fgmp.FedGradMPClassifier(2).fit(X.rename(columns={"f0": "a<b"}), y, groups)
    summary = model.summary()
    lines = repr(summary).splitlines()
    title = "FedGradMPClassifier: 2 of 7 features, chosen by FedGradMP; 450 rows of 9 groups"
    assert lines[0].startswith(title)
    assert lines[2].split()[:5] == ["feature", "per", "odds", "ratio", "low"]
    assert "coef" in lines[2] and len(max(lines[2:6], key=len)) <= 120
    page = summary._repr_html_()
    assert "a&lt;b" in page and "a<b" not in page and page.count("<tr>") == 4
    slopes = summary.columns["per_deviation"][1:]
    expected = model.coef_[0, model.support_] * X.to_numpy()[:, model.support_].std(axis=0)
    np.testing.assert_allclose(slopes, expected, rtol=1e-9)


def test_printed_odds_are_of_a_deviation_or_of_a_one_against_a_zero():
    """A length in kilometres has no odds that one can read; those of its deviation have intervals.

    They are the odds of a model of columns that were divided by their deviations beforehand.
    """
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"km": 1e-5 * rng.standard_normal(300), "male": rng.random(300) < 0.4})
    y = 1e5 * X["km"] + 0.5 * X["male"] + rng.logistic(size=300) > 0
    groups = np.arange(300) % 5
    model = fgmp.FedGradMPClassifier("all", C=np.inf)
    summary = model.fit(X, y, groups).summary()
    divided = X.assign(km=X["km"] / X["km"].std(ddof=0))
    of_divided = model.fit(divided, y, groups).summary()
    assert summary.columns["odds_ratio"][1] == np.inf
    for ending in ("", "_lower", "_upper", "_lower_by_group", "_upper_by_group"):
        found = summary.columns[f"odds_ratio_per_deviation{ending}"][1]
        np.testing.assert_allclose(found, of_divided.columns[f"odds_ratio{ending}"][1], rtol=1e-7)

    lines = repr(summary).splitlines()
    deviation = f"{X['km'].std(ddof=0):.4g}"
    expected = {"km": ["sd", deviation], "male": ["1"]}
    for row, (name, per) in enumerate(expected.items(), start=1):
        columns = of_divided.columns  # of km per deviation, of male per one
        names = ["odds_ratio", *(f"odds_ratio_{bound}" for bound in ("lower", "upper"))]
        cells = [name, *per, *(f"{columns[column][row]:.4g}" for column in names)]
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert line.split()[: len(cells)] == cells


def test_the_summary_says_which_class_odds_are_of_and_how_many_rows_are_of_the_rarer_one():
    """From means that the fit has summed, with weights, under masks, and in a file, too."""
    X, y, groups = table_in_several_units(2)
    weights = 1.0 + (np.arange(len(y)) % 2)
    for options in ({}, {"secure": True}, {"fit_intercept": "per_group"}, {"fit_intercept": False}):
        model = fgmp.FedGradMPClassifier(2, **options).fit(X, y, groups, sample_weight=weights)
        expected = [weights[y == label].sum() for label in model.classes_]
        np.testing.assert_allclose(model.covariance_.class_rows, expected, rtol=1e-6)
        second, first = model.classes_[::-1]
        assert model.summary().notes[0].startswith(f"Odds are of {second} against {first}:")
        again = model_from_json(model.to_json())
        assert again.summary().notes == model.summary().notes


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_columns_of_zeros_and_ones_are_known_with_an_intercept_for_each_group(secure, as_sparse):
    """The user's own, too: a step of 1, and rows that are few; ones and twos are no such column."""
    rng = np.random.default_rng(0)
    groups = np.arange(200) % 4
    X = (rng.random((200, 5)) < 0.5) + [0.0, 0, 1, 0, 0]
    X[:, 1] = np.arange(200) % 67 == 5
    X[:, 3] *= 2
    X[:, 4] += (np.arange(200) == 7) * 0.5
    y = X[:, 0] + rng.logistic(size=200) > 0.5
    table = sparse.csr_array(X) if as_sparse else X
    options = {"fit_intercept": "per_group", "secure": secure}
    model = fgmp.FedGradMPClassifier("all", **options).fit(table, y, groups)
    summary = model.summary()
    np.testing.assert_allclose(summary.columns["rows"], [*X[:, :2].sum(axis=0), *[np.nan] * 3])
    assert summary.columns["few_rows"].tolist() == [False, True, False, False, False]
    steps = [line.split()[1] for line in repr(summary).splitlines() if re.match(r"x\d ", line)]
    assert steps == ["1", "1", "sd", "sd", "sd"]


def test_few_rows_of_the_rarer_class_for_each_feature_are_noted():
    """Fewer than ten; a model of numbers has no such rows."""
    X, y, groups = table_in_several_units(2)
    rare = np.flatnonzero(y == np.unique(y)[1])[30:]
    X, y, groups = X.drop(index=rare), np.delete(y, rare), np.delete(groups, rare)
    few = fgmp.FedGradMPClassifier(4).fit(X, y, groups).summary().notes[1]
    assert few.startswith("Only 30 rows are of ") and "7.5 for each column in the model" in few
    enough = fgmp.FedGradMPClassifier(3).fit(X, y, groups).summary()
    assert "Only" not in repr(enough)
    numbers = fgmp.FedGradMPRegressor(4).fit(X, X.iloc[:, 0], groups)
    assert numbers.covariance_.class_rows is None and "Odds" not in repr(numbers.summary())


def test_note_on_the_rarest_class_names_the_first_of_equal_ones_whatever_the_order_of_rows():
    """Two classes of 19 rows each, dealt to groups in several ways."""
    X = np.random.default_rng(0).standard_normal((75, 4))
    y = np.repeat(["well", "dead", "ill"], [37, 19, 19])
    notes = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        order = rng.permutation(75)
        model = fgmp.FedGradMPClassifier(3, min_rows=1)
        model.fit(X[order], y[order], rng.integers(7, size=75))
        notes.add(model.summary().notes[1].partition(",")[0])
    assert notes == {"Only 19 rows are of dead"}


def weighted_table(kind):
    """X, y, groups and whole weights, of 300 rows of twelve groups; y is numbers, labels or counts."""
    rng = np.random.default_rng(1)
    groups = np.arange(300) % 12
    X = rng.standard_normal((300, 3))
    y = X[:, 0] - 0.5 * X[:, 2] + rng.standard_normal(300) + 0.3 * rng.standard_normal(12)[groups]
    if kind == "two classes":
        y = (y > 0).astype(int)
    elif kind == "three classes":
        y = np.digitize(y, [-0.7, 0.7])
    elif kind == "counts":
        y = rng.poisson(np.exp(0.5 * y))
    return X, y, groups, rng.integers(1, 4, 300)


def sandwich_errors(columns, scores, curvature, groups):
    """The default correction of statsmodels for clusters, with its formula, for any weights."""
    n, k = columns.shape
    totals = pd.DataFrame(columns * scores[:, None]).groupby(groups).sum().to_numpy()
    inverse = np.linalg.inv(columns.T @ (curvature[:, None] * columns))
    matrix = inverse @ totals.T @ totals @ inverse
    return np.sqrt(matrix.diagonal() * len(totals) / (len(totals) - 1) * (n - 1) / (n - k))


WEIGHTED = {
    "least squares": (fgmp.FedGradMPRegressor, {}),
    "two classes": (fgmp.FedGradMPClassifier, {"C": np.inf}),
    "counts": (fgmp.FedGradMPRegressor, {"loss": "poisson"}),
}
SCALES = ["whole", "sum one", "times 1e-4", "times 37.3", "times 1e9"]


def weights_of_scale(scale):
    """Whole weights, or others of a scale."""
    weights = weighted_table("least squares")[-1]
    if scale == "whole":
        return weights
    weights = weights + 0.01
    return weights / weights.sum() if scale == "sum one" else weights * float(scale[6:])


@pytest.mark.parametrize("options", [{}, {"secure": True}, {"fit_intercept": "per_group"}], ids=str)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", WEIGHTED)
def test_weights_of_any_scale_have_the_errors_of_statsmodels(kind, scale, options):
    """Whole numbers those of freq_weights, others those of WLS and var_weights; and a note."""
    X, y, groups, _ = weighted_table(kind)
    weights = weights_of_scale(scale)
    make, of_kind = WEIGHTED[kind]
    model = make("all", **({"C": np.inf} | of_kind | options))
    summary = model.fit(X, y, groups, sample_weight=weights).summary()
    columns = sm.add_constant(X)
    if "fit_intercept" in options:
        columns = np.column_stack([X, np.eye(12)[groups]])
    families = {"two classes": sm.families.Binomial(), "counts": sm.families.Poisson()}
    family = families.get(kind, sm.families.Gaussian())
    name = "freq_weights" if scale == "whole" else "var_weights"
    expected = sm.GLM(y, columns, family, **{name: weights}).fit(
        tol=1e-13, tol_criterion="params", scale=None if kind == "two classes" else "X2"
    )
    found = summary.columns
    n = len(found["coefficient"])
    errors = expected.bse[:n]
    assert np.abs((found["coefficient"] - expected.params[:n]) / errors).max() < 1e-4
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6)

    n_rows = 300 if scale != "whole" else weights.sum()
    scores = weights * (y - expected.fittedvalues)
    curvature = weights * family.variance(expected.fittedvalues)
    errors = sandwich_errors(columns, scores, curvature, groups)
    k = columns.shape[1]
    errors *= np.sqrt((n_rows - 1) / (n_rows - k) / (299 / (300 - k)))
    np.testing.assert_allclose(found["standard_error_by_group"], errors[:n], rtol=1e-6)
    assert model.covariance_.degrees_of_freedom == n_rows - k
    assert f"{n_rows} rows of 12 groups" in summary.title

    notes = " ".join(summary.notes)
    depends = kind == "two classes" and scale != "whole"
    assert ("The weights of 300 rows sum to" in notes) == depends
    assert ("are whole numbers, so they are taken as numbers of rows" in notes) == (
        scale == "whole"
    )
    assert "collinear" not in notes
    assert repr(model_from_json(model.to_json()).summary()) == repr(summary)


@pytest.mark.parametrize("factor", [1, 1e-3, 0.7])
def test_weights_of_three_classes_have_the_errors_of_a_multinomial_logit(factor):
    """Of repeated rows; on another scale model-based ones are larger by its root, by group equal."""
    X, y, groups, weights = weighted_table("three classes")
    model = fgmp.FedGradMPClassifier("all", C=np.inf).fit(X, y, groups, factor * weights)
    found = model.covariance_
    rows = np.repeat(np.arange(300), weights)
    logit = sm.MNLogit(y[rows], sm.add_constant(X[rows]))
    options = {"disp": 0, "method": "newton"}
    plain = logit.fit(**options)
    clustered = logit.fit(cov_type="cluster", cov_kwds={"groups": groups[rows]}, **options)

    contrast = np.kron(np.eye(4), [[-1, 1, 0], [-1, 0, 1]])
    np.testing.assert_allclose((contrast @ found.values).reshape(4, 2), plain.params, rtol=1e-4)
    errors = np.sqrt((contrast @ found.model_based @ contrast.T).diagonal()).reshape(4, 2)
    np.testing.assert_allclose(errors, plain.bse / np.sqrt(factor), rtol=1e-5)
    errors = np.sqrt((contrast @ found.by_group @ contrast.T).diagonal()).reshape(4, 2)
    n_rows = weights.sum() if factor == 1 else 300
    correction = (n_rows - 1) / (n_rows - 8) * (len(rows) - 8) / (len(rows) - 1)
    np.testing.assert_allclose(errors, clustered.bse * np.sqrt(correction), rtol=1e-5)
    assert found.n_rows == n_rows


def test_weights_beside_categories_and_gaps_are_those_of_the_columns_made_by_hand():
    """Where columns are encoded first, too, with rows of weight zero that are left out."""
    X, y, groups, _ = weighted_table("two classes")
    weights = weights_of_scale("sum one") * (np.arange(300) % 5 > 0)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=np.where(X[:, 1] > 0, "v", "w"))
    model = fgmp.FedGradMPClassifier("all", C=np.inf, categories=["d"], missing="indicator")
    model.fit(table, y, groups, sample_weight=weights)
    columns = table.drop(columns="d").assign(d=(table["d"] == "w").astype(float))
    if model.encoding_.variables[-1].reference == "w":
        columns["d"] = 1 - columns["d"]
    by_hand = fgmp.FedGradMPClassifier("all", C=np.inf)
    by_hand.fit(columns, y, groups, sample_weight=weights)
    assert model.covariance_.n_rows == by_hand.covariance_.n_rows == 240
    np.testing.assert_allclose(errors_of(model), errors_of(by_hand), rtol=1e-6)
    counted = clients_of(model, model._training_data).counted
    np.testing.assert_array_equal(counted, np.bincount(groups[weights > 0]))


def test_weights_of_classes_do_not_count_rows():
    """Degrees of freedom and the sandwich have those of the weights of rows alone."""
    X, y, groups, weights = weighted_table("two classes")
    for passed, n_rows in ((None, 300), (weights, weights.sum()), (weights / 3, 300)):
        for class_weight in (None, "balanced", {0: 1, 1: 5}):
            model = fgmp.FedGradMPClassifier("all", C=np.inf, class_weight=class_weight)
            covariance = model.fit(X, y, groups, sample_weight=passed).covariance_
            assert (covariance.n_rows, covariance.degrees_of_freedom) == (n_rows, n_rows - 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_numbers_of_rows_if_all_are_whole_and_floats_can_tell(dtype):
    """Else each row of positive weight counts once; large floats are all whole."""
    whole = np.array([2, 0, 1, 3], dtype)
    np.testing.assert_array_equal(rows_counted(whole), [2, 0, 1, 3])
    np.testing.assert_array_equal(rows_counted(1e6 * whole), 1e6 * whole)
    for relative in (whole / 6, whole + dtype(0.25), dtype(1e-30) * whole, dtype(1e18) * whole):
        np.testing.assert_array_equal(rows_counted(relative), relative > 0)


def test_rows_are_counted_client_by_client_and_draw_by_draw():
    """A client whose relative weights are small has as many rows as it has."""
    X, y, groups, weights = weighted_table("least squares")
    drawn = np.arange(12) % 3
    for passed, counted in (
        (weights, np.bincount(groups, weights)),
        (weights * np.where(groups == 4, 1e-6, 0.5), np.bincount(groups)),
    ):
        of_rows = rows_counted(passed)
        clients = FederatedTable(Rows(X, y, passed, groups, of_rows, 1), fgmp.SquaredLoss())
        np.testing.assert_array_equal(clients.counted, counted)
        resampled = ResampledClients(clients, drawn)
        np.testing.assert_array_equal(resampled.counted, (counted * drawn)[drawn > 0])


@pytest.mark.parametrize("weight", [1 / 240, 0.25, 2.5])
def test_equal_weights_have_the_errors_of_no_weights(weight):
    """A number for all rows; by the formula of least squares."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3))
    y = X[:, 0] + rng.standard_normal(240)
    groups = np.arange(240) % 6
    model = fgmp.FedGradMPRegressor("all", C=np.inf)
    found = errors_of(model.fit(X, y, groups, sample_weight=weight))
    Z = np.column_stack([np.ones(240), X])
    residuals = y - Z @ np.linalg.lstsq(Z, y)[0]
    inverse = np.linalg.inv(Z.T @ Z)
    expected = np.sqrt(residuals @ residuals / (240 - 4) * inverse.diagonal())
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    scores = np.array([Z[groups == g].T @ residuals[groups == g] for g in range(6)])
    sandwich = inverse @ scores.T @ scores @ inverse * 6 / 5 * 239 / 236
    np.testing.assert_allclose(found[1], np.sqrt(sandwich.diagonal()), rtol=1e-9)
    plain = errors_of(model.fit(X, y, groups))
    np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_as_many_coefficients_as_rows_have_no_error_and_the_note_says_so():
    """Neither collinear columns nor a number of degrees below one are spoken of."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 11))
    groups = np.arange(12) % 2
    model = fgmp.FedGradMPRegressor("all", C=np.inf).fit(X, X[:, 0] + rng.random(12), groups)
    notes = model.summary().notes
    assert notes == ("No errors: 12 coefficients of 12 rows leave no degree of freedom.",)
    y = rng.random(12) > 0.5
    model = fgmp.FedGradMPClassifier("all", C=1.0).fit(X, y, groups)
    summary = model.summary()
    assert "No errors by group: 12 coefficients of 12 rows leave no degree of freedom." in (
        summary.notes
    )
    assert np.isfinite(summary.columns["standard_error"]).all()
    assert np.isnan(summary.columns["standard_error_by_group"]).all()
    for text in (repr(model.summary()), *notes):
        assert "t(-" not in text and "t(0)" not in text and "collinear" not in text


def test_column_that_is_called_as_the_intercept_does_not_share_its_name():
    """Rows of a summary have names of their own."""
    X, y, groups = table_in_several_units(0)
    X = X.rename(columns={X.columns[0]: "(intercept)"})
    frame = fgmp.FedGradMPRegressor("all").fit(X, y, groups).summary().to_frame()
    assert frame.index.tolist() == ["((intercept))", *X.columns]


# Beside a ridge, the refit without one.

REFITS = {
    "two classes": (fgmp.FedGradMPClassifier, {}),
    "three classes": (fgmp.FedGradMPClassifier, {}),
    "masks": (fgmp.FedGradMPClassifier, {"secure": True}),
    "own intercepts": (fgmp.FedGradMPClassifier, {"fit_intercept": "per_group"}),
    "counts": (fgmp.FedGradMPRegressor, {"loss": "poisson", "C": 0.01}),
    "numbers": (fgmp.FedGradMPRegressor, {"C": 0.01}),
}


@pytest.mark.parametrize("case", REFITS)
def test_unshrunken_refit_is_a_fit_of_the_same_features_without_a_ridge(case):
    """Coefficients, errors and intervals, as `always_include` and C=np.inf give them."""
    make, options = REFITS[case]
    X, y, groups, weights = weighted_table(case if case in REFITS else "two classes")
    if case in ("masks", "own intercepts"):
        y = (y > 0).astype(int)
    model = make(2, **options).fit(X, y, groups, sample_weight=weights)
    found = model.summary(unshrunken=True)
    alone = make(0, **(options | {"C": np.inf}), always_include=model.support_.tolist())
    expected = alone.fit(X, y, groups, sample_weight=weights).summary().columns
    names = [name for name in expected if name not in ("feature", "class")]
    shown = {name: found.columns[name + "_unshrunken"] for name in names}
    scales = np.abs(expected["standard_error"])
    assert "lower" in shown and len(shown) >= 8
    for name, column in shown.items():
        difference = np.abs(column - expected[name]) / (scales if "ratio" not in name else column)
        assert np.nanmax(difference) < 1e-6, name
    plain = model.summary()
    assert np.abs(found.columns["coefficient_unshrunken"] - plain.columns["coefficient"]).max() > 0
    for name, column in plain.columns.items():
        assert found.columns[name].tolist() == pytest.approx(column.tolist(), abs=0, nan_ok=True)
    heading = repr(found).splitlines()[2]
    assert heading.index("high") < heading.index("C=inf") < heading.index(" se ")
    assert "C=inf" not in repr(plain)


def test_unshrunken_refit_has_the_errors_of_maximum_likelihood():
    """Of a logit of the pooled table, beside a ridge that weighs as much as one row."""
    X, y, groups = table_in_several_units(2)
    model = fgmp.FedGradMPClassifier(4).fit(X, y, groups)
    columns, factors = scaled(X, model)
    plain = sm.Logit(y, columns).fit(disp=0, method="newton")
    frame = model.summary(unshrunken=True).to_frame()
    np.testing.assert_allclose(frame["coefficient_unshrunken"], plain.params * factors, rtol=1e-6)
    np.testing.assert_allclose(frame["standard_error_unshrunken"], plain.bse * factors, rtol=1e-6)


def test_refit_that_does_not_exist_or_changes_nothing_is_said():
    """Of separated classes, of a model without a ridge, and of one whose rows are elsewhere."""
    X, groups = np.linspace(-1, 1, 40)[:, None], np.arange(40) % 4
    separated = fgmp.FedGradMPClassifier(1).fit(X, X[:, 0] > 0, groups)
    summary = separated.summary(unshrunken=True)
    assert summary.notes[-1].startswith("C=inf: does not exist.")
    assert summary.columns.keys() == separated.summary().columns.keys()
    free = fgmp.FedGradMPRegressor(1).fit(X, X[:, 0] ** 3, groups)
    assert "C is np.inf: the coefficients are not shrunken." in free.summary(unshrunken=True).notes
    with pytest.raises(ValueError, match="the model has no rows.*sparsity=0, always_include="):
        model_from_json(separated.to_json()).summary(unshrunken=True)
    with pytest.raises(ValueError, match="unshrunken is 1.5"):
        separated.summary(unshrunken=1.5)


@pytest.mark.parametrize("kind", ["numbers", "counts", "three classes", "no features"])
def test_forest_plot_has_both_intervals_per_deviation(kind):
    """Of each feature, on the axis of what is published: a ratio, or a coefficient."""
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3)) * [1, 10, 0.1]
    y = rng.poisson(np.exp(0.4 * X[:, 0]))
    groups = np.arange(240) % 6
    if kind == "three classes":
        model = fgmp.FedGradMPClassifier("all").fit(X, y.clip(max=2), groups)
    else:
        loss = "squared" if kind == "numbers" else "poisson"
        sparsity = 0 if kind == "no features" else "all"
        model = fgmp.FedGradMPRegressor(sparsity, loss=loss).fit(X, y, groups)
    summary = model.summary(level=0.9)
    ax = summary.plot()
    table = summary.columns
    is_slope = table["feature"] != "(intercept)"
    labels = [label.get_text() for label in ax.get_yticklabels()]
    names = table["feature"][is_slope].tolist()
    if "class" in table:
        names = [f"{x}, {c}" for x, c in zip(names, table["class"][is_slope], strict=True)]
    assert labels == names
    assert "90 %" in ax.get_xlabel()
    scale = np.asarray if kind == "numbers" else np.exp
    assert ax.get_xscale() == ("linear" if kind == "numbers" else "log")
    deviations = np.array([X[:, int(name[1])].std() for name in table["feature"][is_slope]])
    for container, ending in zip(ax.containers, ("", "_by_group"), strict=False):
        segments = container.lines[2][0].get_segments()
        ends = [table[f"{bound}{ending}"][is_slope] * deviations for bound in ("lower", "upper")]
        np.testing.assert_allclose(np.array(segments)[:, :, 0], scale(ends).T, 1e-9)
    assert len(ax.containers) == (0 if kind == "no features" else 2)
    plt.close("all")


def test_forest_plot_has_a_category_for_a_one_against_a_zero():
    """As the table has it: the deviation of a column of zeros and ones says nothing to a reader."""
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": 10 * rng.standard_normal(200), "ward": ["A", "B"] * 100})
    ill = table["age"] / 10 + (table["ward"] == "B") + rng.logistic(size=200) > 0.5
    model = fgmp.FedGradMPClassifier("all", categories=["ward"])
    summary = model.fit(table, ill, np.arange(200) // 2 % 4).summary()
    ax = summary.plot()
    frame = summary.to_frame()
    segment = ax.containers[0].lines[2][0].get_segments()[1][:, 0]
    name = ax.get_yticklabels()[1].get_text()
    assert name.startswith("ward=")
    ends = frame.loc[name, ["odds_ratio_lower", "odds_ratio_upper"]].to_numpy(float)
    np.testing.assert_allclose(segment, ends, 1e-9)
    assert "or of a one against a zero" in ax.get_xlabel()
    plt.close("all")
