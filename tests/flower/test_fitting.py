"""The estimators over Flower: the model of one process, bit for bit, from tables of many clients."""

import subprocess
import sys
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from in_process_grid import UNMASK, InProcessGrid, grid_of_tables
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import DataConversionWarning

import fgmp
from fgmp.estimators.client_sums import ClientSums, Moments
from fgmp.flower import fit_over, fitting, table_app
from fgmp.run.serialization import to_json

pytestmark = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")

CANCER = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
IS_LARGE = CANCER[0][:, 0] > np.median(CANCER[0][:, 0])

FITS = {
    "classifier": (fgmp.FedGradMPClassifier(5, random_state=0), *CANCER),
    "classifier by cross-validation": (
        fgmp.FedGradMPClassifier("cv", sparsities=[2, 5, 12], n_folds=3, random_state=0),
        *CANCER,
    ),
    "classifier by cross-validation of groups": (
        fgmp.FedGradMPClassifier("cv", sparsities=[2, 5, 12], folds="groups", random_state=0),
        *CANCER,
    ),
    "regressor by cross-validation of groups, intercepts per group": (
        fgmp.FedGradMPRegressor(
            "cv", folds="groups", n_folds=2, fit_intercept="per_group", random_state=2
        ),
        *DIABETES,
    ),
    "secure regressor by cross-validation of groups": (
        fgmp.FedGradMPRegressor("cv", folds="groups", secure=True, random_state=0),
        *DIABETES,
    ),
    "regressor, sparsity and C by cross-validation": (
        fgmp.FedGradMPRegressor("cv", C="cv", n_folds=2, random_state=0),
        *DIABETES,
    ),
    "classifier of all features, C by cross-validation": (
        fgmp.FedGradMPClassifier("all", C="cv", n_folds=2, random_state=0),
        *CANCER,
    ),
    "classifier of all features": (fgmp.FedGradMPClassifier("all"), *CANCER),
    "classifier by FedGradMP": (
        fgmp.FedGradMPClassifier(4, method="fedgradmp", batch_size=30, random_state=1),
        *CANCER,
    ),
    "three classes": (fgmp.FedGradMPClassifier(2, fit_intercept=False), *IRIS),
    "secure classifier": (fgmp.FedGradMPClassifier(5, secure=True, rounds=3), *CANCER),
    "secure regressor by cross-validation": (
        fgmp.FedGradMPRegressor("cv", n_folds=2, secure=True, random_state=0),
        DIABETES[0],
        1e5 * DIABETES[1],
    ),
    "regressor by cross-validation, intercepts per group": (
        fgmp.FedGradMPRegressor("cv", n_folds=2, fit_intercept="per_group", random_state=2),
        *DIABETES,
    ),
    "secure regressor, means far from zero": (
        fgmp.FedGradMPRegressor(3, secure=True),
        1e6 + DIABETES[0],
        DIABETES[1],
    ),
    "secure regressor, intercepts per group": (
        fgmp.FedGradMPRegressor(3, secure=True, fit_intercept="per_group"),
        DIABETES[0],
        1e8 + DIABETES[1],
    ),
    "classifier without ridge": (fgmp.FedGradMPClassifier(2, C=np.inf), *CANCER),
    "classifier of rows nearly separated": (
        fgmp.FedGradMPClassifier(2, C=1e6),
        CANCER[0],
        IS_LARGE,
    ),
    "regressor without units and refit": (
        fgmp.FedGradMPRegressor(4, standardize=False, polish=False, C=10.0),
        *DIABETES,
    ),
}


def names_of(n_columns):
    """Return names of columns."""
    return [f"x{j}" for j in range(n_columns)]


def silently(line):
    """Report nothing of a fit."""


def fit_both(estimator, X, y, groups, report=silently, **options):
    """Return the estimator fitted over Flower, and in one process."""
    grid = grid_of_tables(X, y, groups, masked_only=estimator.secure, **options)
    over_flower = fit_on(grid, estimator, X, y, groups, report)
    return over_flower, estimator.fit(X, y, groups=groups)


def fit_on(grid, estimator, X, y, groups, report=silently):
    """Return the estimator fitted over a grid of the nodes of a table."""
    return fit_over(
        estimator,
        grid,
        len(np.unique(groups)),
        names_of(X.shape[1]),
        classes=np.unique(y).tolist() if is_classifier(estimator) else None,
        sparse=sparse.issparse(X),
        report=report,
    )


@pytest.fixture(scope="module")
def fits():
    """Return a function that fits a case of `FITS`, once for all tests: both models and reports."""
    kept = {}

    def fit(name):
        if name not in kept:
            estimator, X, y = FITS[name]
            groups = np.random.default_rng(0).permutation(len(y)) % 4
            lines = []
            kept[name] = *fit_both(estimator, X, y, groups, lines.append), lines
        return kept[name]

    return fit


@pytest.mark.parametrize("name", FITS)
def test_model_over_flower_has_the_bits_of_one_process(name, fits):
    """Coefficients, intercepts, and how they were found."""
    over_flower, in_process, _ = fits(name)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    np.testing.assert_array_equal(over_flower.intercept_, in_process.intercept_)
    assert over_flower.sparsity_ == in_process.sparsity_
    assert over_flower.method_ == in_process.method_
    assert over_flower.n_iter_ == in_process.n_iter_
    if hasattr(in_process, "cv_"):
        for name, column in in_process.cv_.table.items():
            np.testing.assert_array_equal(over_flower.cv_.table[name], column, err_msg=name)
    assert over_flower.C_ == in_process.C_
    if hasattr(in_process, "intercepts_"):
        assert [*over_flower.intercepts_.values()] == [*in_process.intercepts_.values()]


@pytest.mark.parametrize("name", FITS)
def test_bytes_over_flower_are_those_of_one_process(name, fits):
    """Round by round."""
    over_flower, in_process, _ = fits(name)
    for column in ("round", "bytes_up", "bytes_down"):
        np.testing.assert_array_equal(
            over_flower.history_[column], in_process.history_[column], err_msg=column
        )


@pytest.mark.parametrize("name", FITS)
def test_fit_over_flower_names_columns_and_clients(name, fits):
    """Columns as the server gave them, clients by their index if they report no name."""
    over_flower, _, _ = fits(name)
    assert over_flower.feature_names_in_[0] == "x0"
    assert over_flower.groups_.tolist() == [f"client {index}" for index in range(4)]
    assert not over_flower.missing_.size


@pytest.mark.parametrize("name", FITS)
def test_fit_over_flower_reports_its_stages_and_rounds(name, fits):
    """A line for each round at least, unless all features are in the model."""
    _, in_process, lines = fits(name)
    rounds = [line for line in lines if "round" in line]
    assert lines[0] == "sums for common units"
    assert len(rounds) >= in_process.n_iter_
    assert bool(rounds) == (FITS[name][0].sparsity != "all")


# By what is fitted the most messages to a client, in the open and under masks: where sums wait for
# one another, each takes a message, and common units under masks take one more.
MOST_MESSAGES = {
    "classifier": (fgmp.FedGradMPClassifier("cv", random_state=0), "label", 13, 14),
    "regressor": (fgmp.FedGradMPRegressor("cv", random_state=0), "number", 12, 13),
    "counts": (fgmp.FedGradMPRegressor("cv", loss="poisson", random_state=0), "count", 14, 15),
    "many folds of groups": (
        fgmp.FedGradMPClassifier("cv", folds="groups", n_folds=6, random_state=0),
        "label",
        13,
        14,
    ),
    "five features": (fgmp.FedGradMPClassifier(5, random_state=0), "label", 13, 14),
}


@pytest.mark.parametrize("secure", [False, True], ids=["open", "masks"])
@pytest.mark.parametrize("name", MOST_MESSAGES)
def test_sums_that_do_not_wait_for_one_another_travel_in_one_message(name, secure):
    """Those of all folds, an objective with the next round, the check of units with the refit."""
    estimator, kind, *most = MOST_MESSAGES[name]
    rng = np.random.default_rng(3)
    X = rng.standard_normal((720, 12))
    signal = X[:, :3] @ [1, -0.8, 0.6]
    y = {
        "label": (signal + rng.logistic(size=720) > 0).astype(int),
        "number": 7 * signal + rng.standard_normal(720),
        "count": rng.poisson(np.exp(0.4 * signal)).astype(float),
    }[kind]
    groups = np.arange(720) % (12 if estimator.folds == "groups" else 4)
    grid = grid_of_tables(X, y, groups, masked_only=secure)
    classes = [0, 1] if kind == "label" else None
    model = clone(estimator).set_params(secure=secure)
    over_flower = fit_over(
        model, grid, len(np.unique(groups)), names_of(12), classes=classes, report=silently
    )
    counts = Counter(index for index, _ in grid.questions)
    assert max(counts.values()) <= most[secure]

    in_process = model.fit(X, y, groups=groups)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    listed = [
        [stage._replace(began="") for stage in model.exchanges_]
        for model in (over_flower, in_process)
    ]
    assert listed[0] == listed[1]


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (fgmp.FedGradMPClassifier("cv", random_state=0), "classes"),
        (fgmp.FedGradMPClassifier("cv", C="cv", folds="groups", random_state=0), "labels"),
        (fgmp.FedGradMPRegressor("cv", loss="poisson", fit_intercept="per_group"), "counts"),
        (fgmp.FedGradMPRegressor("cv", fit_intercept="per_group", C="cv"), "numbers"),
        (fgmp.FedGradMPRegressor("cv", method="shared", fit_intercept=False), "numbers"),
    ],
    ids=str,
)
def test_masks_take_one_message_more_than_the_open(estimator, kind):
    """That of common units, whose numbers have to fit into the masks; keys take none."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((160, 5))
    signal = X[:, :2] @ [1, -0.8]
    y = {
        "classes": np.digitize(signal + rng.logistic(size=160), [-1, 1]),
        "labels": (signal + rng.logistic(size=160) > 0).astype(int),
        "counts": rng.poisson(np.exp(0.4 * signal)).astype(float),
        "numbers": 7 * signal + rng.standard_normal(160),
    }[kind]
    groups = np.arange(160) % 4
    n_messages = []
    for secure in (False, True):
        grid = grid_of_tables(X, y, groups, masked_only=secure)
        model = clone(estimator).set_params(secure=secure, n_folds=2, rounds=2, random_state=0)
        fit_on(grid, model, X, y, groups)
        n_messages.append(len(grid.questions) / 4)
    in_the_open, under_masks = n_messages
    assert under_masks <= in_the_open + 1


HARD = {
    "classes nearly separated": (fgmp.FedGradMPClassifier("cv"), "sharp", 24),
    "three classes, intercepts per group": (
        fgmp.FedGradMPClassifier("cv", fit_intercept="per_group"),
        "classes",
        24,
    ),
    "skewed counts, intercepts per group": (
        fgmp.FedGradMPRegressor("cv", loss="poisson", fit_intercept="per_group"),
        "counts",
        24,
    ),
    "many features, intercepts per group": (
        fgmp.FedGradMPClassifier("cv", fit_intercept="per_group"),
        "labels",
        80,
    ),
    "many features, rounds that go on": (fgmp.FedGradMPRegressor("cv"), "numbers", 80),
}


@pytest.mark.parametrize("name", HARD)
def test_columns_nearly_the_same_in_odd_units_take_at_most_20_messages_under_masks(name):
    """The coefficients are those of one process, and those of the open but for the masks."""
    estimator, kind, p = HARD[name]
    rng = np.random.default_rng(3)
    groups = np.arange(480) % 4
    base = rng.standard_normal((480, p // 4))
    X = 0.95 * np.tile(base, 4) + 0.3 * rng.standard_normal((480, p))
    signal = X[:, :5] @ [1.5, -1.2, 1.0, -0.8, 0.6] + 0.5 * groups
    y = {
        "labels": (signal + rng.logistic(size=480) > 1).astype(int),
        "sharp": (4 * signal + rng.logistic(size=480) > 3).astype(int),
        "classes": np.digitize(signal + rng.logistic(size=480), [0, 2]),
        "counts": rng.poisson(np.exp(0.8 * signal)).astype(float),
        "numbers": 7 * signal + rng.standard_normal(480),
    }[kind]
    X = X * 10.0 ** rng.integers(-4, 5, p) + 10.0 ** rng.integers(-3, 4, p)
    model = clone(estimator).set_params(secure=True, n_folds=3, random_state=0)
    grid = grid_of_tables(X, y, groups, masked_only=True)
    over_flower = fit_on(grid, model, X, y, groups)
    assert len(grid.questions) <= 20 * 4
    np.testing.assert_array_equal(over_flower.coef_, model.fit(X, y, groups=groups).coef_)
    in_the_open = clone(model).set_params(secure=False).fit(X, y, groups=groups)
    np.testing.assert_allclose(over_flower.coef_, in_the_open.coef_, rtol=1e-5)


def test_a_group_that_is_lost_before_the_first_sum_ends_a_fit_under_masks():
    """By name, and nothing is opened: the sum of the others would stand beside that of all."""
    X, y = CANCER
    grid = grid_of_tables(X, y, np.arange(len(y)) % 3, masked_only=True)

    def report(line):
        grid.absent.add(2)  # the first line comes after all have said who they are

    with pytest.raises(RuntimeError, match="'client 2' left in the middle of a fit under masks"):
        fit_over(
            fgmp.FedGradMPClassifier(3, secure=True),
            grid,
            3,
            names_of(30),
            classes=[0, 1],
            report=report,
            deadline=0.3,
        )
    assert not any(fields.get("trip") == UNMASK for _, fields in grid.parts)


def test_fit_with_a_process_for_each_message_has_the_bits_of_one_process():
    """Each process has the state of the run alone, through all stages with the refit."""
    groups = np.arange(len(CANCER[1])) % 3
    estimator = fgmp.FedGradMPClassifier(5, rounds=2, random_state=0, secure=True)
    over_flower, in_process = fit_both(estimator, *CANCER, groups, fresh=True)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)


def test_process_of_a_client_knows_the_methods_of_a_fit():
    """It has imported `fgmp.flower` alone, and all kinds of sums that a fit asks for."""
    sums = Moments(3, "mean", masked=True)
    modules = {kind.__module__ for kind in ClientSums.__subclasses__()}
    assert len(modules) > 2
    code = (
        "import sys, fgmp.flower, fgmp.run.serialization as wire; "
        f"print(wire.from_json({to_json(sums)[0]!r})); "
        f"print(*({modules} - set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == f"{sums}\n\n"


def test_sparse_table_has_the_bits_of_one_process():
    """It stays sparse at the clients, as it does in one process."""
    X = sparse.random_array((120, 300), density=0.05, rng=0, format="csr")
    estimator = fgmp.FedGradMPClassifier(4)
    over_flower, in_process = fit_both(estimator, X, np.arange(120) % 2, np.arange(120) % 3)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)


@pytest.fixture(scope="module")
def fit_with_a_client_that_leaves():
    """The model of three named clients, of which one leaves after the first round; the reports."""
    X, y = CANCER
    grid = grid_of_tables(X, y, np.arange(len(y)) % 3)
    for context, name in zip(grid.contexts, ("north", "coast", "valley"), strict=True):
        context.node_config["name"] = name
    lines = []

    def report(line):
        lines.append(line)
        if "round 1:" in line:
            grid.absent.add(2)

    estimator = fgmp.FedGradMPClassifier(3)
    model = fit_over(estimator, grid, 3, names_of(30), classes=[0, 1], report=report, deadline=0.3)
    return model, lines


def test_client_that_leaves_is_missing_by_name(fit_with_a_client_that_leaves):
    """The model is of the groups that stayed."""
    model, _ = fit_with_a_client_that_leaves
    assert model.groups_.tolist() == ["north", "coast"]
    assert model.missing_.tolist() == ["valley"]
    assert model.history_["rejected"][-1] > 0


def test_report_of_a_round_names_who_is_missing(fit_with_a_client_that_leaves):
    """From the round on in which a client left."""
    _, lines = fit_with_a_client_that_leaves
    rounds = [line for line in lines if ", round " in line]
    assert rounds[1].startswith("all rows, round 1: loss 0.") and "missing" not in rounds[1]
    assert rounds[2].startswith("rows of 2 of 3 sites, round 2: loss 0.")
    assert rounds[2].endswith("; missing: valley")
    assert lines[0] == "sums for common units"
    assert "Newton steps on the features that were found" in lines


CLASSIFIER = fgmp.FedGradMPClassifier(3)
REFUSED = {
    "no classes": (CLASSIFIER, 30, None, "expected at least two labels for a classifier"),
    "classes of numbers": (fgmp.FedGradMPRegressor(3), 30, [0, 1], "and None for a regressor"),
    "a method": (
        fgmp.FedGradMP(3),
        30,
        None,
        "expected a FedGradMPClassifier or FedGradMPRegressor",
    ),
    "too few names": (
        CLASSIFIER,
        29,
        [0, 1],
        "features has 29 names; the sites have 30 columns",
    ),
    "a name twice": (CLASSIFIER, ["x0", "x1", "x0"], [0, 1], "features is .*; expected different"),
    "names in no order": (CLASSIFIER, {"x0", "x1"}, [0, 1], "features is .*, in their order"),
    "classes in a text": (CLASSIFIER, 30, "01", "classes is '01'"),
    "weights of classes": (
        fgmp.FedGradMPClassifier(3, class_weight="balanced"),
        30,
        [0, 1],
        "class_weight is 'balanced'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_argument_of_a_fit_that_does_not_fit_is_named(name):
    """With what came and what was expected."""
    estimator, features, classes, words = REFUSED[name]
    X, y = CANCER
    grid = grid_of_tables(X, y, np.arange(len(y)) % 3)
    if isinstance(features, int):
        features = names_of(features)
    with pytest.raises(ValueError, match=words):
        fit_over(estimator, grid, 3, features, classes=classes)


SEVERAL = {
    "tuple": tuple,
    "array": np.array,
    "index": pd.Index,
    "pandas": pd.Series,
    "polars": pl.Series,
    "dict": lambda values: dict.fromkeys(values).keys(),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_features_and_classes_are_those_of_a_list_whatever_holds_them(kind):
    """Of pandas, polars and NumPy; the names of the columns are plain text."""
    X, y = CANCER
    groups = np.arange(len(y)) % 3
    grid = grid_of_tables(X, y, groups)
    several = SEVERAL[kind]
    options = {"classes": several([1, 0]), "report": lambda line: None}
    model = fit_over(fgmp.FedGradMPClassifier("all"), grid, 3, several(names_of(30)), **options)
    assert model.feature_names_in_.tolist() == names_of(30)
    assert {type(name) for name in model.feature_names_in_} == {str}
    assert model.classes_.tolist() == [0, 1]
    assert model.summary().columns["feature"].tolist()[1:] == names_of(30)


@pytest.mark.parametrize("fault", ["other classes", "few rows"])
def test_client_whose_table_does_not_fit_is_turned_away(fault):
    """It has labels that the server does not know, or fewer rows than may leave it."""
    X, y = CANCER
    groups = np.arange(len(y)) % 3
    classes = [1, 2] if fault == "other classes" else [0, 1]
    if fault == "few rows":
        groups = np.where(np.arange(len(y)) < 3, 2, np.arange(len(y)) % 2)
    grid = grid_of_tables(X, y, groups)
    with pytest.raises(TimeoutError), pytest.warns(fgmp.AdviceWarning, match="turned away"):
        fit_over(CLASSIFIER, grid, 3, names_of(30), classes=classes, wait_for=0.1)


def test_targets_in_a_column_have_the_bits_of_a_vector():
    """With the warning of scikit-learn in the log of the client."""
    X, y = CANCER
    groups = np.arange(len(y)) % 3
    options = {"classes": [0, 1], "report": lambda line: None}
    expected = fit_over(CLASSIFIER, grid_of_tables(X, y, groups), 3, names_of(30), **options)
    grid = grid_of_tables(X, y[:, None], groups)
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        found = fit_over(CLASSIFIER, grid, 3, names_of(30), **options)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


WRONG_TARGETS = {
    "text for numbers": (CLASSIFIER, [0, 1], lambda y: y.astype(str)),
    "numbers for text": (CLASSIFIER, ["0", "1"], lambda y: y),
    "too few": (CLASSIFIER, [0, 1], lambda y: y[:-1]),
    "two columns": (CLASSIFIER, [0, 1], lambda y: np.column_stack([y, y])),
    "missing": (fgmp.FedGradMPRegressor(2), None, lambda y: np.where(y == y[0], np.nan, y)),
}


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_client_whose_targets_do_not_fit_is_turned_away(name):
    """Before it sends anything."""
    estimator, classes, spoil = WRONG_TARGETS[name]
    X, y = CANCER
    groups = np.arange(len(y)) % 3

    def read(context, columns):
        is_own = groups == context.node_config["partition-id"]
        return X[is_own], spoil(y[is_own])

    grid = InProcessGrid([table_app(read) for _ in range(3)])
    with pytest.raises(TimeoutError), pytest.warns(fgmp.AdviceWarning, match="turned away"):
        fit_over(estimator, grid, 3, names_of(30), classes=classes, wait_for=0.1)


NUMBERS = np.random.default_rng(3).integers(0, 100, (90, 6))
TARGETS = (NUMBERS @ np.arange(6) % 41).astype(float)
THIRDS = np.arange(90) % 3
REGRESSOR = fgmp.FedGradMPRegressor(3, rounds=3)
TABLES = {
    "bool": NUMBERS % 2 == 1,
    **{kind: NUMBERS.astype(kind) for kind in ("int8", "uint8", "int16", "int64", "object")},
    **{kind: (NUMBERS / 7).astype(kind) for kind in ("float16", "float32", ">f4", "float64")},
    "sparse int8": sparse.csr_array(NUMBERS % 3 == 1, dtype=np.int8),
    "sparse float32": sparse.csr_array(NUMBERS % 3, dtype=np.float32),
}

# Every kind of table with targets in double precision, and every kind of target with a table of
# either precision.
PRECISIONS = [
    *((kind, "float64") for kind in TABLES),
    *((kind, targets) for kind in ("float32", "float64") for targets in ("float32", "int64")),
]


@pytest.mark.parametrize(("kind", "kind_of_targets"), PRECISIONS)
def test_table_of_any_kind_of_number_has_the_bits_of_one_process(kind, kind_of_targets):
    """What float32 holds stays float32, and every other number becomes float64, as there."""
    targets = TARGETS.astype(kind_of_targets)
    over_flower, in_process = fit_both(REGRESSOR, TABLES[kind], targets, THIRDS)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    assert over_flower.intercept_ == in_process.intercept_


def test_clients_of_different_precision_have_the_bits_of_one_table():
    """It is in the precision of the more precise ones."""
    single = TABLES["float32"]
    double = single.astype(np.float64)

    def read(context, columns):
        index = context.node_config["partition-id"]
        table = double if index == 1 else single
        return table[index == THIRDS], TARGETS[index == THIRDS]

    grid = InProcessGrid([table_app(read) for _ in range(3)])
    over_flower = fit_over(REGRESSOR, grid, 3, names_of(6), report=silently)
    np.testing.assert_array_equal(over_flower.coef_, REGRESSOR.fit(double, TARGETS, THIRDS).coef_)


@pytest.mark.parametrize(
    ("error", "is_named"),
    [
        (KeyError("x3"), True),
        (KeyError("['x3'] not in index"), True),
        (KeyError("7345.25 Smith"), False),
    ],
)
def test_missing_column_is_named_by_the_name_of_the_server(error, is_named):
    """Nothing else of an error leaves a client: its words may be data."""

    def read(context, columns):
        if context.node_config["partition-id"] == 1:
            raise error
        return NUMBERS.astype(float), TARGETS

    grid = InProcessGrid([table_app(read) for _ in range(3)])
    with (
        pytest.warns(fgmp.AdviceWarning, match="clients turned away") as caught,
        pytest.raises(TimeoutError),
    ):
        fit_over(fgmp.FedGradMPRegressor(3), grid, 3, names_of(6), wait_for=0.1)
    words = " ".join(str(each.message) for each in caught)
    assert ("columns missing at the site" in words and "x3" in words) == is_named
    assert "Smith" not in words


def table_with_few_rows_of_a_class():
    """Return X, y and groups: the first group alone has three rows of a class, and one of a flag."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] = 0
    X[7, 1] = 1.0
    y = np.repeat(np.array(["no", "yes"], object), 30)
    y[:3] = "rare"
    order = np.concatenate([np.arange(3), rng.permutation(np.arange(3, 60))])
    return X[order], y[order], np.repeat(np.arange(2), 30)


@pytest.mark.parametrize("secure", [False, True])
def test_client_is_warned_if_its_sums_tell_of_few_rows(secure):
    """It is warned in its own log, by the names of classes and columns, unless masks add sums up."""
    X, y, groups = table_with_few_rows_of_a_class()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_over(
            fgmp.FedGradMPClassifier(1, rounds=1, secure=secure),
            grid_of_tables(X, y, groups),
            n_clients=2,
            features=["a", "b", "c"],
            classes=["no", "rare", "yes"],
            report=silently,
        )
    lines = [str(each.message) for each in caught]
    warned = [line for line in lines if "its sums tell the server" in line]
    if secure:
        assert not warned
    else:
        assert any("a class of 'rare'" in line for line in warned)
        assert any("an unusual value in 'b'" in line for line in warned)


def test_client_whose_counts_are_not_whole_is_told_that_rows_have_no_weights():
    """In its own log: over Flower rates would be fitted without their times."""
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((60, 2)), np.arange(60) % 2
    grid = grid_of_tables(X, rng.poisson(3, 60) / 2, groups)
    with pytest.warns(fgmp.AdviceWarning, match="not all whole.*over Flower rows have no weights"):
        fit_over(fgmp.FedGradMPRegressor(1, loss="poisson"), grid, 2, names_of(2), report=silently)


@pytest.mark.parametrize("secure", [False, True])
def test_long_silence_is_broken_by_who_has_replied(secure, monkeypatch):
    """After each question of the stage, if no line came for long; here at once."""
    monkeypatch.setattr(fitting, "_SILENCE", -1.0)
    groups = np.arange(len(CANCER[1])) % 3
    lines = []
    fit_both(fgmp.FedGradMPClassifier(3, rounds=2, secure=secure), *CANCER, groups, lines.append)
    assert "rounds that select features, round 1: 3 of 3 sites replied" in lines
    assert "sums for standard errors, round 1: 3 of 3 sites replied" in lines


def test_client_without_a_reply_is_counted_as_such(monkeypatch):
    """Of three sites two have replied."""
    monkeypatch.setattr(fitting, "_SILENCE", -1.0)
    X, y = CANCER
    grid = grid_of_tables(X, y, np.arange(len(y)) % 3)
    lines = []

    def report(line):
        lines.append(line)
        if "round 1: loss" in line:
            grid.absent.add(2)

    estimator = fgmp.FedGradMPClassifier(3, rounds=2)
    fit_over(estimator, grid, 3, names_of(30), classes=[0, 1], report=report, deadline=0.3)
    # The second round has travelled with the losses of the first.
    assert "rounds that select features, round 2: 3 of 3 sites replied" in lines
    assert "rounds that select features, losses: 2 of 3 sites replied" in lines


@pytest.mark.parametrize("n_lines", [0, 2, 4, 6])
@pytest.mark.parametrize("is_fitted", [True, False])
def test_fit_over_flower_that_is_interrupted_leaves_the_estimator_as_it_was(n_lines, is_fitted):
    """In any stage, and whether it has been fitted to other rows or not."""
    X, y = DIABETES
    estimator = fgmp.FedGradMPRegressor(2, rounds=2)
    if is_fitted:
        estimator.fit(X[:, :3], y)
    state = dict(vars(estimator))
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) > n_lines:
            raise KeyboardInterrupt

    grid = grid_of_tables(X, y, np.arange(len(y)) % 3)
    with pytest.raises(KeyboardInterrupt):
        fit_over(estimator, grid, 3, names_of(10), report=interrupt)
    assert vars(estimator) == state
