"""What does not fit is refused in scikit-learn's own style, and named."""

import re

import numpy as np
import pytest
from test_estimators import classification, regression

import fgmp

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 6))
LABELS, NUMBERS = np.arange(40) % 2, X[:, 0] + 0.1 * rng.standard_normal(40)
GROUPS = np.arange(40) % 4

BOTH = {fgmp.FedGradMPRegressor: NUMBERS, fgmp.FedGradMPClassifier: LABELS}

PARAMETERS = [
    ({"sparsity": 7}, "The 'sparsity' parameter of {} must be an int in the range [1, 6] (n_features). Got 7 instead."),
    ({"sparsity": 0}, "The 'sparsity' parameter of {} must be an int in the range [1, 6] (n_features). Got 0 instead."),
    ({"sparsity": 2.0}, "Got 2.0 instead."),
    ({"sparsity": True}, "Got True instead."),
    ({"sparsity": "aic"}, "The 'sparsity' parameter of {} must be an int, None, 'cv' or 'ebic'. Got 'aic' instead."),
    ({"method": "fedavg"}, "The 'method' parameter of {} must be a str among {{'auto', 'fedgradmp', 'shared'}}."),
    ({"fit_intercept": "no"}, "The 'fit_intercept' parameter of {} must be True or "),
    ({"rounds": 0}, "The 'rounds' parameter of {} must be an int in the range [1, inf). Got 0 instead."),
    ({"tol": -1.0}, "The 'tol' parameter of {} must be a float in the range [0.0, inf). Got -1.0 instead."),
    ({"tol": float("nan")}, "The 'tol' parameter of {}"),
    ({"n_folds": 1}, "The 'n_folds' parameter of {} must be an int in the range [2, inf). Got 1 instead."),
    ({"min_rows": 0}, "The 'min_rows' parameter of {} must be an int in the range [1, inf). Got 0 instead."),
    ({"min_rows": 11}, "4 of 4 groups have fewer than min_rows=11 rows (0, 1, 2, 3), and none is left to fit"),
    ({"cohort_size": 0}, "The 'cohort_size' parameter of {} must be an int in the range [1, inf)."),
    ({"cohort_size": 5}, "cohort_size is 5; expected an integer from 1 to 4 (the number of clients)"),
    (
        {"batch_size": 11, "method": "fedgradmp"},
        "batch_size is 11; expected an integer from 1 to 10 (the rows of the largest client)",
    ),
    ({"sparsity": "cv", "sparsities": [1, 9]}, "The 'sparsities' parameter of {} must be a sequence of ints in the"),
    ({"sparsity": "cv", "sparsities": []}, "The 'sparsities' parameter of {} must be a sequence of ints in the"),
]


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("given, message", PARAMETERS, ids=lambda value: str(value)[:30])
def test_a_parameter_that_does_not_fit(make, given, message):
    model = make(**({"sparsity": 2} | given))
    with pytest.raises(ValueError, match=re.escape(message.format(make.__name__))):
        model.fit(X, BOTH[make], GROUPS)


def test_a_classifier_has_no_intercept_for_each_group():
    with pytest.raises(ValueError, match="FedGradMPClassifier must be True or False. Got 'per_group' instead"):
        fgmp.FedGradMPClassifier(fit_intercept="per_group").fit(X, LABELS, GROUPS)


@pytest.mark.parametrize("C", [0, -1, float("nan"), "1"])
def test_a_strength_of_the_penalty_that_does_not_fit(C):
    with pytest.raises(
        ValueError, match=r"The 'C' parameter of FedGradMPClassifier must be a float in the range \(0.0"
    ):
        fgmp.FedGradMPClassifier(C=C).fit(X, LABELS)


@pytest.mark.parametrize("weights", [None, (LABELS == 1).astype(float)])
def test_one_class(weights):
    y = np.full(40, "yes") if weights is None else np.where(LABELS, "yes", "no")
    with pytest.raises(ValueError, match="at least 2 classes in the data, but the data contains only one class: .*yes"):
        fgmp.FedGradMPClassifier(2).fit(X, y, GROUPS, sample_weight=weights)


def test_numbers_where_classes_are_expected():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fgmp.FedGradMPClassifier(2).fit(X, NUMBERS)


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    "groups, message",
    [
        (GROUPS[:-1], r"inconsistent numbers of samples: \[40, 39\]"),
        (np.where(GROUPS == 1, np.nan, GROUPS), "Input groups contains NaN"),
        (np.array([None, "a"] * 20, dtype=object), "Input groups contains None"),
        (GROUPS[:, None] + np.zeros((1, 2)), "y should be a 1d array|groups should be a 1d array"),
    ],
    ids=["length", "nan", "none", "two columns"],
)
def test_groups_that_do_not_fit(make, groups, message):
    with pytest.raises(ValueError, match=message):
        make(2).fit(X, BOTH[make], groups)


@pytest.mark.parametrize("make", BOTH)
def test_missing_values(make):
    holes = X.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ValueError, match=f"Input X contains NaN.\n{make.__name__} does not accept missing values"):
        make(2).fit(holes, BOTH[make])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        make(2).fit(X, np.where(GROUPS == 1, np.nan, BOTH[make]))


@pytest.mark.parametrize("make", BOTH)
def test_weights_that_do_not_fit(make):
    for weights, message in ((np.zeros(40), "non-zero|zero for every row"), (-np.ones(40), "[Nn]egative values")):
        with pytest.raises(ValueError, match=message):
            make(2).fit(X, BOTH[make], sample_weight=weights)


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_constant_columns_are_named_and_get_zero(make, value):
    flat = X.copy()
    flat[:, [1, 4]] = value
    with pytest.warns(UserWarning, match=r"Features \[1, 4\] are constant"):
        model = make(6).fit(flat, BOTH[make], GROUPS)
    np.testing.assert_array_equal(np.ravel(model.coef_)[[1, 4]], 0)
    without = make(4).fit(np.delete(X, [1, 4], axis=1), BOTH[make], GROUPS)
    np.testing.assert_allclose(model.predict(flat), without.predict(np.delete(X, [1, 4], axis=1)), rtol=1e-6)


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("make", BOTH)
def test_a_table_keeps_its_names_and_a_column_of_words_is_named(make, package):
    frames = pytest.importorskip(package)
    columns = {f"x{j}": X[:, j] for j in range(6)}
    model = make(2).fit(frames.DataFrame(columns), BOTH[make], GROUPS)
    np.testing.assert_array_equal(model.feature_names_in_, list(columns))
    plain = make(2).fit(X, BOTH[make], GROUPS)
    np.testing.assert_allclose(model.predict(frames.DataFrame(columns)), plain.predict(X), rtol=1e-12)
    words = frames.DataFrame(columns | {"colour": ["red", "blue"] * 20})
    with pytest.raises(ValueError, match="could not convert column 'colour' of X to float: it is [a-zA-Z]+. Drop"):
        make(2).fit(words, BOTH[make], GROUPS)


def test_the_face_names_what_it_does_not_have():
    with pytest.raises(AttributeError, match="module 'fgmp' has no attribute 'FedGradMPTransformer'"):
        fgmp.FedGradMPTransformer  # noqa: B018


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("site", r"groups should be a 1d array, got 'site' of shape \(\) instead"),
        (np.zeros((3, 4)), r"groups should be a 1d array, got .* of shape \(3, 4\) instead"),
    ],
)
def test_groups_that_are_no_column_are_named(groups, message):
    X, y, _ = regression()
    with pytest.raises(ValueError, match=message):
        fgmp.FedGradMPRegressor(3).fit(X, y, groups)


def test_the_missing_value_of_pandas_is_no_group():
    pandas = pytest.importorskip("pandas")
    X, y, groups = regression()
    named = pandas.Series(groups).astype(str).astype("string")
    named[3] = pandas.NA
    with pytest.raises(ValueError, match="Input groups contains <NA>: every row needs a group"):
        fgmp.FedGradMPRegressor(3).fit(X, y, named)


def test_a_column_of_dates_is_named():
    pandas = pytest.importorskip("pandas")
    X, y, groups = regression()
    table = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["x2"] = pandas.date_range("2026-01-01", periods=len(y))
    with pytest.raises(ValueError, match="could not convert column 'x2' of X to float: it is Datetime"):
        fgmp.FedGradMPRegressor(3).fit(table, y, groups)


def test_separated_classes_without_a_bound_name_c():
    X, y, groups = classification()
    X[:, 0] = np.where(y == y[0], -1, 1) * (1 + np.abs(X[:, 0]))
    with pytest.raises(ValueError, match="no bound with C=inf; a finite C gives them one"):
        fgmp.FedGradMPClassifier(1, C=np.inf, method="shared").fit(X, y, groups)


def test_sparsities_that_are_no_sequence_are_named():
    X, y, groups = regression()
    with pytest.raises(ValueError, match="The 'sparsities' parameter of FedGradMPRegressor must be a sequence of ints"):
        fgmp.FedGradMPRegressor("cv", sparsities=5).fit(X, y, groups)
