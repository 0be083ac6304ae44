"""An intercept for each group with any loss, against dummy columns in a pooled table."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from cases import table_in_several_units
from hypothesis import given
from property_settings import repeatable, seeds
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

import fgmp
from fgmp.estimators.own_intercepts import CommonIntercept, OwnIntercepts
from fgmp.estimators.profiled_loss import ProfiledLoss, own_intercept
from fgmp.estimators.session import words_on
from fgmp.estimators.weighted_loss import WeightedLoss
from fgmp.solvers import RestrictedProblem, SecondOrderProblem

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

LOSSES = {
    "logistic": (fgmp.LogisticLoss(), lambda rng, z: np.where(rng.random(len(z)) < 0.3, -1.0, 1.0)),
    "softmax": (fgmp.SoftmaxLoss(3), lambda rng, z: rng.integers(0, 3, len(z))),
    "poisson": (fgmp.PoissonLoss(), lambda rng, z: rng.poisson(np.exp(z)).astype(float)),
}


def levelled_table(kind, seed=0, n_rows=450):
    """Return the table of several units with groups on levels of their own."""
    X, _, groups = table_in_several_units(seed=seed, n_rows=n_rows)
    rng = np.random.default_rng(seed)
    levels = rng.standard_normal(9)
    Z = (X.to_numpy() - 5) / 10.0 ** np.arange(-2, 5)
    scores = Z @ [0.8, 0, -0.6, 0, 0.5, 0, 0] + levels[groups]
    if kind == "counts":
        return X, rng.poisson(np.exp(0.6 * scores + 0.5)), groups
    scores = scores + rng.logistic(size=len(scores))
    n_classes = {"two classes": 2, "three classes": 3}[kind]
    edges = np.quantile(scores, np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.array(["ill", "so", "well"])[np.digitize(scores, edges)], groups


def fitted(kind, **options):
    """Return a fitted model of three features with own intercepts, and its table."""
    X, y, groups = levelled_table(kind)
    options = {"fit_intercept": "per_group", "C": np.inf, "method": "shared", **options}
    if kind == "counts":
        return fgmp.FedGradMPRegressor(3, loss="poisson", **options).fit(X, y, groups), X, y, groups
    return fgmp.FedGradMPClassifier(3, **options).fit(X, y, groups), X, y, groups


# The loss.


def problem_of(name, weighted):
    rng = np.random.default_rng(4)
    loss, draw = LOSSES[name]
    A = rng.standard_normal((40, 3))
    A -= A.mean(axis=0)
    y = draw(rng, A[:, 0])
    if weighted:
        y = np.column_stack([y, rng.uniform(0.5, 1.5, 40)])
        loss = WeightedLoss(loss)
    client = fgmp.Client(A, y, ProfiledLoss(loss))
    n_outputs = client.loss.n_outputs
    return (
        SecondOrderProblem.of_problem(
            RestrictedProblem.of(client, np.arange(3 * n_outputs), fgmp.StandardBasis())
        ),
        loss,
        y,
        rng,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_profile_is_the_minimum_over_a_shift(name, weighted):
    """As SciPy finds it."""
    problem, loss, y, rng = problem_of(name, weighted)
    z = problem.predictions(rng.standard_normal(len(problem.merged)))
    shape = z.shape[1:] or (1,)

    def value(shift):
        return loss.values(z + (shift if z.ndim > 1 else shift[0]), y).mean()

    least = minimize(value, np.zeros(shape), tol=1e-12).fun
    assert problem.value(z) == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_objective_of_a_federation_has_an_intercept_for_each_client(name):
    """All rows in one product would have a single one; one client of all rows is refused."""
    rng = np.random.default_rng(3)
    loss, draw = LOSSES[name]
    As = [rng.standard_normal((30, 2)) for _ in range(3)]
    x = rng.standard_normal(loss.model_shape(2))
    ys = [draw(rng, A @ x + level) for A, level in zip(As, (-2, 0, 2), strict=True)]
    fed = fgmp.Federation.from_arrays(As, ys, loss=loss)
    assert fed.pooled().objective(x) == pytest.approx(fed.objective(x))
    tied = replace(fed, loss=ProfiledLoss(loss))

    def least(client):
        def value(shift):
            z = client.predictions(x) + (shift if x.ndim > 1 else shift[0])
            return loss.values(z, client.targets).mean()

        return minimize(value, np.zeros(loss.n_outputs), tol=1e-10).fun

    expected = np.mean([least(client) for client in fed.clients])
    assert tied.objective(x) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="couples the rows of a client"):
        tied.pooled()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_and_hessian_of_a_profile_are_its_differences(name, weighted):
    """The Hessian is a Schur complement, which the coupling of rows makes."""
    problem, _, _, rng = problem_of(name, weighted)
    x, d = 0.5 * rng.standard_normal((2, len(problem.merged)))
    step = 1e-5
    ahead, behind = (problem.predictions(x + sign * step * d) for sign in (1, -1))
    slope = (problem.value(ahead) - problem.value(behind)) / (2 * step)
    assert problem.gradient(problem.predictions(x)) @ d == pytest.approx(slope, abs=1e-7)
    bend = (problem.gradient(ahead) - problem.gradient(behind)) / (2 * step)
    np.testing.assert_allclose(problem.hessian(problem.predictions(x)) @ d, bend, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_line_search_on_a_profile_reaches_the_minimum_of_its_quadratic_model(name):
    """The step length has the coupling of rows in it."""
    problem, _, _, rng = problem_of(name, weighted=False)
    z = problem.predictions(rng.standard_normal(len(problem.merged)))
    gradient = problem.gradient(z)
    length = problem.line_search(problem.expansion(z), z, gradient, -gradient).length
    expected = gradient @ gradient / (gradient @ problem.hessian(z) @ gradient)
    assert length == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "targets"),
    [("logistic", np.ones(20)), ("softmax", np.arange(20) % 2), ("poisson", np.zeros(20))],
)
def test_rows_that_determine_no_intercept_leave_it_bounded(name, targets):
    """With a class missing, or no event; they pull at no coefficient."""
    loss = LOSSES[name][0]
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20, 3)) if name == "softmax" else rng.standard_normal(20)
    own = own_intercept(loss, z, targets)
    assert not own.is_finite and 10 < np.abs(own.values).max() < 30
    if name != "softmax":
        assert np.abs(ProfiledLoss(loss).derivative(z, targets)).max() < 1e-6


# The estimators.


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", ["two classes", "counts"])
def test_model_is_that_of_a_pooled_table_with_a_column_for_each_group(kind, secure, backend):
    """Coefficients, both standard errors, and intercepts of statsmodels."""
    model, X, y, groups = fitted(kind, secure=secure)
    support = model.support_
    Z = X.to_numpy()[:, support]
    scales = Z.std(axis=0)
    centre = Z.mean(axis=0)
    family = sm.families.Poisson() if kind == "counts" else sm.families.Binomial()
    targets = y if kind == "counts" else (y == model.classes_[1]).astype(float)
    glm = sm.GLM(targets, np.column_stack([(Z - centre) / scales, np.eye(9)[groups]]), family)
    plain = glm.fit(tol=1e-14, scale="X2" if kind == "counts" else None)
    robust = glm.fit(tol=1e-14, cov_type="cluster", cov_kwds={"groups": groups})
    found = np.atleast_2d(model.coef_)[0, support] * scales
    np.testing.assert_allclose(found, plain.params[:3], atol=1e-6)
    columns = model.summary().columns
    np.testing.assert_allclose(columns["standard_error"] * scales, plain.bse[:3], rtol=1e-5)
    np.testing.assert_allclose(
        columns["standard_error_by_group"] * scales, robust.bse[:3], rtol=1e-5
    )
    expected = plain.params[3:] - centre / scales @ plain.params[:3]
    own = [model.intercept_of(X[groups == g], y[groups == g]) for g in range(9)]
    np.testing.assert_allclose(own, expected, atol=1e-6)
    if secure:
        assert not hasattr(model, "intercepts_")
    else:
        np.testing.assert_allclose(list(model.intercepts_.values()), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["two classes", "three classes"])
@pytest.mark.parametrize("C", [0.5, 50.0])
def test_ridge_is_that_of_scikit_learn_with_columns_of_a_large_number(kind, C):
    """A column of 10^4 for each group is as good as unpenalised in `LogisticRegression`."""
    model, X, y, groups = fitted(kind, C=C)
    support = model.support_
    Z = X.to_numpy()[:, support]
    own_means = np.array([Z[groups == g].mean(axis=0) for g in range(9)])
    scales = np.sqrt(((Z - own_means[groups]) ** 2).mean(axis=0))
    centred = (Z - own_means[groups]) / scales
    beside = np.column_stack([centred, 1e4 * np.eye(9)[groups]])
    options = {"fit_intercept": False, "solver": "newton-cholesky", "tol": 1e-12}
    reference = LogisticRegression(C=C, max_iter=1000, **options).fit(beside, y)
    np.testing.assert_allclose(model.coef_[:, support] * scales, reference.coef_[:, :3], atol=1e-6)
    shares = model.predict_proba(X, groups)
    np.testing.assert_allclose(shares, reference.predict_proba(beside), atol=1e-6)
    assert model.score(X, y, groups=groups) == reference.score(beside, y)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_common_intercept_is_the_best_of_all_rows_given_the_coefficients(kind):
    """For a group that has none. The sums of expected and of observed targets are the same then."""
    model, X, y, _ = fitted(kind)
    with pytest.warns(fgmp.AdviceWarning, match="all rows get the common intercept"):
        predicted = model.predict(X) if kind == "counts" else model.predict_proba(X)
    observed = y if kind == "counts" else y[:, None] == model.classes_
    np.testing.assert_allclose(predicted.sum(axis=0), observed.sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("method", ["fedgradmp", "shared"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_features_are_found_where_levels_hide_them(kind, method):
    """By both methods; the choice by cross-validation has the own intercepts of training rows."""
    model, X, y, groups = fitted(kind, method=method, C=1.0)
    assert model.support_.tolist() == [0, 2, 4]
    model.set_params(sparsity="cv", sparsities=[0, 1, 3, 5], n_folds=2, random_state=0)
    assert model.fit(X, y, groups).sparsity_ in (3, 5)


@repeatable(2)
@given(seed=seeds)
def test_order_and_names_of_groups_do_not_matter(seed):
    """Nor does a level of a column that each group has for itself."""
    X, y, groups = levelled_table("two classes", n_rows=250)
    rng = np.random.default_rng(seed)
    model = fgmp.FedGradMPClassifier(3, fit_intercept="per_group", method="shared")
    coefficients = model.fit(X, y, groups).coef_
    names = rng.permutation(list("abcdefghi"))[groups]
    rows = rng.permutation(len(y))
    shifted = X + X.std().to_numpy() * rng.standard_normal((9, 7))[groups]
    other = model.fit(shifted.iloc[rows], y[rows], names[rows]).coef_
    scales = X.to_numpy().std(axis=0)
    np.testing.assert_allclose(other * scales, coefficients * scales, atol=1e-6)


@pytest.mark.parametrize("kind", ["two classes", "counts"])
def test_group_of_one_class_changes_no_coefficient_and_is_named(kind):
    """It has no intercept; at prediction it gets the common one, with a warning."""
    model, X, y, groups = fitted(kind)
    alike = np.zeros_like(y) if kind == "counts" else np.full_like(y, "ill")
    strange = groups == 8
    y = np.where(strange, alike, y)
    with pytest.warns(fgmp.AdviceWarning, match=r"\[8\] determine no intercept"):
        model.fit(X, y, groups)
    without = type(model)(**model.get_params()).fit(X[~strange], y[~strange], groups[~strange])
    scales = X.to_numpy().std(axis=0)
    np.testing.assert_allclose(model.coef_ * scales, without.coef_ * scales, atol=1e-4)
    assert sorted(model.intercepts_) == list(range(8))
    with pytest.warns(fgmp.AdviceWarning, match=r"groups \[8\] have no intercept of their own"):
        predicted = model.predict(X[strange], groups[strange])
    with pytest.warns(fgmp.AdviceWarning, match="all rows get the common"):
        np.testing.assert_array_equal(predicted, model.predict(X[strange]))
    with pytest.raises(ValueError, match="the rows determine no intercept"):
        model.intercept_of(X[strange], y[strange])


GROUPED = {
    "predict": lambda model, X, y, groups: model.predict(X, groups),
    "score": lambda model, X, y, groups: model.score(X, y, groups=groups),
    "performance": lambda model, X, y, groups: model.performance(X, y, groups),
    "all rows": lambda model, X, y, groups: model.performance(X, y, groups, by="all"),
}


@pytest.mark.parametrize("how", GROUPED)
@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_groups_without_an_own_intercept_are_warned_of_by_all_that_takes_groups(kind, how):
    """Names as text, where the fit had numbers, and a group that took no part; not those it knows."""
    model, X, y, groups = fitted(kind)
    words = "groups {} have no intercept of their own: they took no part in the fit"
    with pytest.warns(
        fgmp.AdviceWarning, match=re.escape(words.format("['0', '1', '2', '3', '4' and 4 more]"))
    ):
        GROUPED[how](model, X, y, groups.astype(str))
    with pytest.warns(fgmp.AdviceWarning, match=re.escape(words.format("[80]"))):
        GROUPED[how](model, X, y, np.where(groups == 8, 80, groups))
    with pytest.warns(fgmp.AdviceWarning, match="no groups are given: all rows get the common"):
        GROUPED[how](model, X, y, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fgmp.AdviceWarning)
        GROUPED[how](model, X, y, groups)


@pytest.mark.parametrize("secure", [False, True])
def test_common_intercept_of_numbers_is_the_mean_over_the_rows(secure):
    """As dummy columns have it; it follows from the means of stage 1, so masks ask nothing more."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3)) + [1, 0, 20]
    groups = rng.integers(6, size=300)
    weights = rng.integers(1, 4, 300)
    y = X @ [1, -2, 0.5] + 5 * groups + rng.standard_normal(300)
    roots = np.sqrt(weights)[:, None]
    table = np.column_stack([X, groups[:, None] == np.arange(6)])
    slopes = np.linalg.lstsq(table * roots, y * roots[:, 0], rcond=None)[0]

    options = {"fit_intercept": "per_group", "C": np.inf, "secure": secure}
    model = fgmp.FedGradMPRegressor("all", **options).fit(X, y, groups, weights)
    expected = np.average(slopes[3:][groups], weights=weights)
    assert model.intercept_ == pytest.approx(expected, rel=1e-9)
    assert len(model.exchanges_) == 4 + (not secure)  # units, refit, errors, a look at the units
    if not secure:
        np.testing.assert_allclose(list(model.intercepts_.values()), slopes[3:], rtol=1e-9)


def test_groups_whose_intercepts_masks_keep_are_warned_of():
    """They get the common one, until the model has theirs."""
    model, X, y, groups = fitted("two classes", secure=True)
    words = r"groups \[0, 1, 2, 3, 4 and 4 more\] have no .*: under masks it stays with the group"
    for how in ("predict", "score", "all rows"):
        with pytest.warns(fgmp.AdviceWarning, match=words):
            GROUPED[how](model, X, y, groups)
    model.intercepts_ = {g: model.intercept_of(X[groups == g], y[groups == g]) for g in range(9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", fgmp.AdviceWarning)
        found = model.predict_proba(X, groups)
    in_the_open = fitted("two classes")[0].predict_proba(X, groups)
    np.testing.assert_allclose(found, in_the_open, atol=1e-6)


def test_groups_are_not_warned_of_with_one_intercept_for_all():
    """Whatever they are called."""
    X, y, groups = levelled_table("two classes")
    model = fgmp.FedGradMPClassifier(3).fit(X, y, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fgmp.AdviceWarning)
        for how in GROUPED.values():
            how(model, X, y, groups.astype(str))


MEASURES = {
    "intercept_of": lambda model, X, y: model.intercept_of(X, y),
    "performance": lambda model, X, y: list(model.performance(X, y).columns.values()),
}


@pytest.mark.parametrize("how", MEASURES)
@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_targets_in_a_column_are_those_in_a_vector_and_others_are_refused(kind, how):
    """With the warning of scikit-learn; a short y, unknown labels and missing ones are errors."""
    model, X, y, _ = fitted(kind)
    measure = MEASURES[how]
    expected = measure(model, X, y)
    for column in (y[:, None], pd.DataFrame({"y": y})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            np.testing.assert_equal(measure(model, X, column), expected)
    wrong = {r"inconsistent numbers of samples: \[450, 449\]": y[:-1]}
    if kind == "counts":
        wrong["y contains NaN"] = np.where(np.arange(450) == 3, np.nan, y)
        wrong["y should be a 1d array"] = np.column_stack([y, y])
    else:
        wrong["y holds 'zebra'; expected the labels of the fit, "] = ["zebra", *y[1:]]
        wrong["y has 1 missing values"] = [None, *y[1:]]
        wrong["y holds 1; expected the labels of the fit"] = np.ones(450, int)
    for words, targets in wrong.items():
        with pytest.raises(ValueError, match=words):
            measure(model, X, targets)


@pytest.mark.parametrize("how", MEASURES)
def test_number_is_no_label_of_a_fit_to_text_nor_the_other_way(how):
    """The label "1" is not 1; True and 1 are equal, and so are 1 and 1.0."""
    X, y, _ = levelled_table("two classes")
    codes = (y == "ill").astype(int)
    same = {"i": [codes, codes > 0, codes.astype(float)], "U": [codes.astype(str)]}
    for labels, others in ((codes, same["U"]), (codes.astype(str), same["i"])):
        model = fgmp.FedGradMPClassifier(3).fit(X, labels)
        expected = MEASURES[how](model, X, labels)
        for equal in same[labels.dtype.kind]:
            np.testing.assert_equal(MEASURES[how](model, X, equal), expected)
        for other in others:
            with pytest.raises(ValueError, match="expected the labels of the fit"):
                MEASURES[how](model, X, other)


def test_separated_classes_are_an_error_without_a_ridge():
    """The error says that the classes are separated."""
    X = np.linspace(-1, 1, 60)[:, None]
    groups = np.arange(60) % 3
    y = X[:, 0] > 0
    model = fgmp.FedGradMPClassifier("all", C=np.inf, fit_intercept="per_group")
    with pytest.raises(ValueError, match="separated without error"):
        model.fit(X, y, groups)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_model_goes_through_json_with_the_intercepts(kind):
    """The model that was read predicts the same, and writes the same text."""
    model, X, _, groups = fitted(kind)
    again = type(model).from_json(model.to_json())
    np.testing.assert_array_equal(again.predict(X, groups), model.predict(X, groups))
    assert again.to_json() == model.to_json()


def test_report_says_where_the_intercepts_are():
    """In the open each is sent once; under masks they stay, and only sums leave."""
    forms = {words_on(OwnIntercepts(9, 1)).form, words_on(CommonIntercept(1)).form}
    stages = {stage.what for stage in fitted("two classes")[0].report().stages}
    assert forms <= stages
    masked = fitted("two classes", secure=True)[0].report()
    assert words_on(OwnIntercepts(9, 1)).form not in {stage.what for stage in masked.stages}
    assert "stay with the groups" in str(masked)


def test_bootstrap_draws_groups_with_their_intercepts():
    """The three chosen features are in at least half of the resamples."""
    model, *_ = fitted("two classes", C=1.0)
    assert model.bootstrap(4, random_state=0).inclusion[[0, 2, 4]].min() >= 0.5


@pytest.mark.parametrize("kind", ["two classes", "counts"])
def test_sparse_table_has_the_coefficients_of_the_dense_one(kind):
    """Each client centres its rows, and no zero is filled in."""
    X, y, groups = levelled_table(kind)
    X = X.to_numpy() * (np.random.default_rng(0).random(X.shape) < 0.4)
    options = {"fit_intercept": "per_group", "method": "shared", "standardize": True}
    model = fgmp.FedGradMPClassifier(3, **options)
    if kind == "counts":
        model = fgmp.FedGradMPRegressor(3, loss="poisson", **options)
    dense = model.fit(X, y, groups).coef_
    found = model.fit(sparse.csr_array(X), y, groups).coef_
    np.testing.assert_allclose(found * X.std(axis=0), dense * X.std(axis=0), atol=1e-7)


@pytest.mark.parametrize("offset", [0.0, 136.5, 1000.0])
@pytest.mark.parametrize("sparsity", [1, "all"])
def test_common_intercept_of_counts_holds_with_a_site_in_other_units(sparsity, offset):
    """It makes what is expected of all rows equal to what is observed, however far off a site is."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 200)
    x = rng.normal(10, 1, 600)
    y = rng.poisson(np.exp(0.5 * (x - 10)))
    X = np.column_stack([x + offset * (groups == 2), rng.standard_normal(600)])
    options = dict(loss="poisson", fit_intercept="per_group", random_state=0)
    model = fgmp.FedGradMPRegressor(sparsity, **options).fit(X, y, groups=groups)
    expected = np.log(y.mean()) - logsumexp(X @ model.coef_) + np.log(600)
    assert model.intercept_ == pytest.approx(expected, rel=1e-6, abs=1e-6)
