"""Counts, own intercepts, missing values and categories over Flower: the bits of one process."""

import json
from functools import wraps

import numpy as np
import pandas as pd
import pytest
from in_process_grid import InProcessGrid

import fgmp
from fgmp.estimators.client_sums import HeldOutLosses
from fgmp.estimators.encoding import plan_of
from fgmp.estimators.performance_sums import HeldOutPairs, PooledPerformance
from fgmp.flower import bootstrap_over, fit_over, fitting, performance_over, table_app

pytestmark = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")
NAMES = ["age", "sex", "pain", "chol", "noise"]
LEVELS = {"sex": ["f", "m"], "pain": ["1", "2", "3", "4"]}
ENCODED = {"missing": "indicator", "categories": ["sex", "pain"]}


def table_of_hospitals():
    """Return patients of three hospitals; one knows no cholesterol, another no pain of kind 4."""
    rng = np.random.default_rng(0)
    groups = np.arange(240) % 3
    table = pd.DataFrame(
        {
            "age": rng.normal(60, 10, 240),
            "sex": rng.choice(["f", "m"], 240, p=[0.6, 0.4]),
            "pain": rng.choice([1, 2, 3, 4], 240, p=[0.4, 0.3, 0.2, 0.1]),
            "chol": rng.normal(200, 40, 240),
            "noise": rng.standard_normal(240),
        }
    )
    score = 0.8 * (table["sex"] == "m") + 0.5 * table["pain"] - (table["chol"] - 200) / 50
    score = (score + np.array([0, 0.5, 1.0])[groups] + rng.logistic(size=240)).to_numpy()
    table.loc[(rng.random(240) < 0.2) | (groups == 2), "chol"] = np.nan
    table.loc[(groups == 1) & (table["pain"] == 4), "pain"] = 1
    return table, score, groups


TABLE, SCORE, GROUPS = table_of_hospitals()
CLASSES = np.digitize(SCORE, np.quantile(SCORE, [0.5, 0.8]))
COUNTS = np.random.default_rng(1).poisson(np.exp(SCORE / 3))
PLAIN = TABLE[["age", "noise"]].assign(male=TABLE["sex"] == "m", pain=TABLE["pain"]).astype(float)
REGRESSOR, CLASSIFIER = fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier
OWN = {"fit_intercept": "per_group"}

FITS = {
    "counts": (REGRESSOR(2, loss="poisson"), PLAIN, COUNTS),
    "counts under masks": (REGRESSOR(2, loss="poisson", secure=True), PLAIN, COUNTS),
    "own intercepts": (CLASSIFIER(2, method="shared", **OWN), PLAIN, CLASSES > 0),
    "own intercepts by FedGradMP": (
        CLASSIFIER(2, method="fedgradmp", rounds=3, **OWN),
        PLAIN,
        CLASSES > 0,
    ),
    "own intercepts of three classes": (CLASSIFIER(2, method="shared", **OWN), PLAIN, CLASSES),
    "own intercepts under masks": (
        CLASSIFIER(2, method="shared", secure=True, **OWN),
        PLAIN,
        CLASSES > 0,
    ),
    "own intercepts of counts by cross-validation": (
        REGRESSOR("cv", loss="poisson", sparsities=[1, 3], n_folds=2, random_state=0, **OWN),
        PLAIN,
        COUNTS,
    ),
    "always included": (REGRESSOR(1, always_include=["age", "noise"]), PLAIN, SCORE),
    "missing values and categories": (
        CLASSIFIER(2, always_include=["age"], method="shared", **ENCODED),
        TABLE,
        CLASSES > 0,
    ),
    "missing values and categories under masks": (
        REGRESSOR(2, secure=True, missing="indicator", categories=LEVELS),
        TABLE,
        SCORE,
    ),
    "missing values and categories by cross-validation": (
        REGRESSOR("cv", n_folds=2, sparsities=[1, 2, 4], random_state=0, **ENCODED, **OWN),
        TABLE,
        SCORE,
    ),
}


def grid_of(X, y, **options):
    """Return a grid of three nodes, which read tables of pandas."""

    def read(context, columns):
        is_own = context.node_config["partition-id"] == GROUPS
        return X[is_own][list(columns)], y[is_own]

    return InProcessGrid([table_app(read, **options) for _ in range(3)])


def fit_over_grid(estimator, X, y, grid):
    """Return the estimator, fitted over a grid."""
    is_classifier = isinstance(estimator, fgmp.FedGradMPClassifier)
    classes = np.unique(y).tolist() if is_classifier else None
    return fit_over(estimator, grid, 3, list(X), classes=classes, report=lambda line: None)


def replies_of(grid):
    """Return the messages that clients have sent."""
    return [sent for sent in grid.sent if "ask" not in sent.content.get("fgmp", {})]


@pytest.mark.parametrize("name", FITS)
def test_model_over_flower_has_the_bits_of_one_process(name):
    """Coefficients, intercepts, columns, errors, the choice, and what was sent."""
    estimator, X, y = FITS[name]
    over_flower = fit_over_grid(estimator, X, y, grid_of(X, y, masked_only=estimator.secure))
    in_process = estimator.fit(X, y, GROUPS)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    np.testing.assert_array_equal(over_flower.intercept_, in_process.intercept_)
    assert over_flower.support_.size
    assert hasattr(over_flower, "intercepts_") == hasattr(in_process, "intercepts_")
    if hasattr(in_process, "intercepts_"):
        found = list(over_flower.intercepts_.values())
        np.testing.assert_array_equal(found, list(in_process.intercepts_.values()))
    if hasattr(in_process, "encoding_"):
        assert over_flower.encoding_ == in_process.encoding_
    assert repr(over_flower.summary()) == repr(in_process.summary())
    sent = [(stage.what, stage.rounds, stage.bytes_up) for stage in over_flower.exchanges_]
    assert sent == [(stage.what, stage.rounds, stage.bytes_up) for stage in in_process.exchanges_]


def test_levels_are_the_only_text_that_leaves_a_client():
    """The set of those that it has; no message has a word of any other cell."""
    X = TABLE.assign(age=TABLE["age"] + 1e6)
    grid = grid_of(X, SCORE)
    fit_over_grid(REGRESSOR(2, **ENCODED), X, SCORE, grid)
    replies = [sent for sent in replies_of(grid) if sent.question["ask"] == "who"]
    said = [json.loads(sent.content["fgmp"]["levels"]) for sent in replies]
    assert said[1] == [[1, ["f", "m"]], [2, ["1", "2", "3"]]]
    for sent in replies_of(grid):
        fields = fields_in(sent.content)
        assert set(fields) <= {"rows", "features", "dtype", "key", "name", "levels", "objective"}


def test_levels_that_the_server_names_are_asked_of_no_client():
    """With levels that the server names, no client sends any of its own."""
    grid = grid_of(TABLE, SCORE)
    estimator = REGRESSOR(2, missing="indicator", categories=LEVELS)
    fit_over_grid(estimator, TABLE, SCORE, grid)
    assert not any("levels" in sent.content.get("fgmp", {}) for sent in replies_of(grid))


def test_client_that_answers_under_masks_only_says_no_level():
    """It takes no part, whatever the server asks for."""
    grid = grid_of(TABLE, SCORE, masked_only=True)
    with pytest.raises(TimeoutError), pytest.warns(fgmp.AdviceWarning, match="turned away"):
        fit_over(REGRESSOR(2, **ENCODED), grid, 3, NAMES, report=lambda line: None, wait_for=0.1)


def test_client_with_another_level_says_in_which_column_only():
    """A site with an unknown level is turned away, and the fit waits for it in vain."""
    grid = grid_of(TABLE, SCORE)
    estimator = REGRESSOR(2, missing="indicator", categories={**LEVELS, "sex": ["m", "w"]})
    with pytest.raises(TimeoutError), pytest.warns(fgmp.AdviceWarning, match="turned away"):
        fit_over(estimator, grid, 3, NAMES, report=lambda line: None, wait_for=0.1)


def test_bootstrap_over_flower_has_the_bits_of_one_process():
    """With the columns of the fit."""
    estimator = REGRESSOR(2, method="shared", **ENCODED)
    grid = grid_of(TABLE, SCORE)
    model = fit_over_grid(estimator, TABLE, SCORE, grid)
    over = bootstrap_over(model, grid, 3, n_resamples=3, random_state=0, report=lambda line: None)
    here = estimator.fit(TABLE, SCORE, GROUPS).bootstrap(3, random_state=0)
    np.testing.assert_array_equal(over.coef, here.coef)


def test_client_is_warned_of_a_level_and_a_gap_of_few_rows():
    """In its own log, before its first update: sums tell of these rows."""
    X = TABLE.copy()
    X.loc[0, "age"] = np.nan
    X.loc[3, "sex"] = "x"
    grid = grid_of(X, SCORE)
    with pytest.warns(fgmp.AdviceWarning, match=r"'age is missing' \(1\), 'sex=x' \(1\)"):
        fit_over(REGRESSOR(2, rounds=1, **ENCODED), grid, 3, NAMES, report=lambda line: None)


# Small cells.


def table_with_small_cells():
    """Return the table with a ward that one client has often, and others in a few rows."""
    X = TABLE.assign(sex=TABLE["sex"].astype(object))
    for client, n_rows in enumerate((20, 4, 3)):
        X.loc[np.flatnonzero(GROUPS == client)[:n_rows], "sex"] = "x"
    X.loc[np.flatnonzero(GROUPS == 2)[3:6], "sex"] = "y"
    X.loc[np.flatnonzero(GROUPS == 1)[:3], "age"] = np.nan
    return X


@pytest.mark.parametrize("secure", [False, True])
def test_small_cells_over_flower_have_the_bits_of_one_process(secure):
    """Of a fit and its bootstrap; performance is that of the rows as they are, in both."""
    X = table_with_small_cells()
    levels = {**LEVELS, "sex": ["f", "m", "x", "y"]} if secure else ["sex", "pain"]
    options = {"method": "shared", "missing": "indicator", "categories": levels}
    estimator = CLASSIFIER("all", secure=secure, **options)
    over_flower = fit_over_grid(estimator, X, CLASSES > 0, grid_of(X, CLASSES > 0))
    in_process = estimator.fit(X, CLASSES > 0, GROUPS)
    assert over_flower.encoding_ == in_process.encoding_
    names = in_process.encoding_.column_names()
    assert {"sex=x", "sex=other"} <= set(names) and not {"sex=y", "age is missing"} & set(names)
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    # Whose rows were recoded no server knows; here all rows are the caller's.
    assert in_process.n_rows_recoded_ and not hasattr(over_flower, "n_rows_recoded_")
    del in_process.n_rows_recoded_
    assert repr(over_flower.summary()) == repr(in_process.summary())

    quiet = {"report": lambda line: None}
    there = performance_over(over_flower, grid_of(X, CLASSES > 0), 3, by="all", **quiet).columns
    here = in_process.performance(X, CLASSES > 0, GROUPS, by="all").columns
    for name in ("auc", "brier", "intercept", "slope"):
        np.testing.assert_array_equal(there[name], here[name])
    if not secure:
        grid = grid_of(X, CLASSES > 0)
        over = bootstrap_over(over_flower, grid, 3, n_resamples=2, random_state=0, **quiet)
        np.testing.assert_array_equal(over.coef, in_process.bootstrap(2, random_state=0).coef)


def test_level_of_few_rows_is_in_no_message_of_a_client():
    """Not its name, and not its number of rows: what it sends is that of the most frequent level."""
    X = table_with_small_cells()
    X.loc[X["sex"] == "y", "sex"] = "x"
    X.loc[np.flatnonzero(GROUPS == 2)[:6], "sex"] = "m"
    X.loc[np.flatnonzero(GROUPS == 2)[:4], "sex"] = "x"
    X.loc[GROUPS == 0, "sex"] = TABLE.loc[GROUPS == 0, "sex"]
    usual = X.assign(sex=X["sex"].where(X["sex"] != "x", "f"))
    known = X["age"][GROUPS == 1].dropna().to_numpy()
    usual["age"] = X["age"].fillna(known.mean())
    grids = [grid_of(table, SCORE) for table in (X, usual)]
    for grid in grids:
        fit_over_grid(REGRESSOR(2, **ENCODED), X, SCORE, grid)
    said = [
        [(fields_in(sent.content), values_in(sent.content)) for sent in replies_of(grid)]
        for grid in grids
    ]
    assert said[0] == said[1]
    assert not any('"x"' in str(fields.get("levels")) for fields, _ in said[0])


def fields_in(content):
    """Return the fields of a message, without the public key, which is random."""
    return {name: value for name, value in content.get("fgmp", {}).items() if name != "public_key"}


def values_in(content):
    """Return the bytes of all arrays of a message."""
    return [
        carried.data for record in content.array_records.values() for carried in record.values()
    ]


def test_site_decides_on_the_smallest_cell():
    """It takes no part with a smaller `min_rows`, and says the number that it expects."""
    grid = grid_of(TABLE, SCORE)
    with (
        pytest.raises(TimeoutError, match="min_rows is 4; expected at least 5 at this site"),
        pytest.warns(fgmp.AdviceWarning, match="turned away"),
    ):
        fit_over(REGRESSOR(2, min_rows=4, **ENCODED), grid, 3, NAMES, report=print, wait_for=0.1)
    grid = grid_of(TABLE, SCORE, min_rows=4)
    model = fit_over_grid(REGRESSOR(2, min_rows=4, **ENCODED), TABLE, SCORE, grid)
    assert model.support_.size
    with pytest.raises(ValueError, match="min_rows is 0"):
        table_app(lambda context, columns: None, min_rows=0)


@pytest.mark.parametrize("kind", [HeldOutLosses, HeldOutPairs, PooledPerformance])
def test_question_with_a_smaller_min_rows_has_no_answer(kind, monkeypatch):
    """Even if the settings of the server say more: folds, and measures of few rows of a class."""
    honest = kind.__init__

    @wraps(honest)
    def careless(self, *arguments, **options):
        honest(self, *arguments, **options)
        object.__setattr__(self, "min_rows", 1)

    X, y = PLAIN, CLASSES > 0
    model = fit_over_grid(CLASSIFIER(2), X, y, grid_of(X, y))
    monkeypatch.setattr(kind, "__init__", careless)
    with pytest.raises(RuntimeError, match=f"no site answered {kind.__name__}"):
        if kind is PooledPerformance:
            performance_over(model, grid_of(X, y), 3, by="all", report=lambda line: None)
        else:  # of two classes pairs are counted, too
            classes = y if kind is HeldOutPairs else CLASSES
            model = CLASSIFIER("cv", n_folds=2, random_state=0)
            fit_over_grid(model, X, classes, grid_of(X, classes))


HOSTILE_LEVELS = [
    "[" * 100_000,
    "NaN",
    '[[1, "fm"], [2, ["1"]]]',
    '[[1, ["f", 1]], [2, ["1"]]]',
    '[[1, [["f"]]], [2, ["1"]]]',
    '[[1, ["f"]]]',
    '{"1": ["f"], "2": ["1"]}',
    "[[[], []]]",
    "5",
    3,
    None,
]


@pytest.mark.parametrize("levels", HOSTILE_LEVELS, ids=str)
def test_levels_that_are_no_lists_of_texts_are_refused(levels):
    """Whatever a client says of them; the message has the columns."""
    plan = plan_of(["age", "sex", "pain"], ["sex", "pain"], "indicator")
    with pytest.raises(ValueError, match=r"nothing of the levels of \['sex', 'pain'\]"):
        fitting._levels_in({"levels": levels}, plan)
    with pytest.raises(ValueError, match="nothing of the levels"):
        fitting._levels_in({}, plan)


def test_two_columns_of_one_name_are_refused_before_the_fit():
    """After the levels are agreed on; no coefficient is sent."""
    X = TABLE.rename(columns={"noise": "sex=m"})
    grid = grid_of(X, SCORE)
    with pytest.raises(ValueError, match="two columns called 'sex=m', the level 'm' of the cat"):
        fit_over(REGRESSOR(2, **ENCODED), grid, 3, list(X), report=lambda line: None)
    methods = {sent.question.get("method", "") for sent in grid.sent}
    assert not any("NewtonOnSupport" in method or "FedGradMP" in method for method in methods)


def test_value_is_one_level_however_a_site_stores_it():
    """Doses and truths of three types, and a text with other white space: bits of one process."""
    rng = np.random.default_rng(0)
    dose = rng.choice([0.1, 0.2, 0.7], 240)
    smokes = rng.random(240) < 0.4
    ward = np.array(["A  1", "B"])[rng.integers(2, size=240)]
    X = pd.DataFrame({"dose": dose, "smokes": smokes, "ward": ward, "age": rng.random(240)})
    y = dose + smokes + rng.standard_normal(240)
    stored = [
        X.assign(dose=dose.astype(np.float32), smokes=smokes.astype(int)),
        X.assign(dose=dose.astype(str), smokes=pd.array(smokes, "boolean")),
        X.assign(dose=dose.astype(np.float16), smokes=smokes.astype(str)),
    ]

    def read(context, columns):
        index = context.node_config["partition-id"]
        is_own = index == GROUPS
        return stored[index][is_own][list(columns)], y[is_own]

    grid = InProcessGrid([table_app(read) for _ in range(3)])
    estimator = REGRESSOR("all", categories=["dose", "smokes", "ward"])
    over_flower = fit_over(estimator, grid, 3, list(X), report=lambda line: None)
    in_process = estimator.fit(X, y, GROUPS)
    assert over_flower.encoding_ == in_process.encoding_
    assert "smokes=1" in in_process.encoding_.column_names()
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
