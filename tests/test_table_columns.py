"""Columns that are always included, missing values, and categories."""

import json
import re
import warnings
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import repeatable, seeds
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import fgmp
from fgmp._support.displays import printable
from fgmp.cli import main
from fgmp.estimators import training
from fgmp.estimators.client_sums import ObservedMeans
from fgmp.estimators.encoding import level_of
from fgmp.estimators.session import words_on
from fgmp.shared_support.elimination import backwards

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
INDICATOR = {"missing": "indicator", "categories": ["sex", "pain"]}


def hospital_table(seed=0, n_rows=400, n_groups=4):
    """Return patients with a sex, a kind of pain of four, and a cholesterol that may be missing.

    At hospital 3 no cholesterol is known at all.
    """
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    table = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n_rows),
            "sex": rng.choice(["f", "m"], n_rows, p=[0.6, 0.4]),
            "pain": rng.choice([1, 2, 3, 4], n_rows, p=[0.4, 0.3, 0.2, 0.1]),
            "chol": rng.normal(200, 40, n_rows),
            "noise": rng.standard_normal(n_rows),
            "more": rng.standard_normal(n_rows),
        }
    )
    pains = np.array([0, 1.0, 2.0, -1.0])[table["pain"] - 1]
    score = 0.8 * (table["sex"] == "m") + pains - (table["chol"] - 200) / 40
    y = (score + rng.standard_normal(n_rows)).to_numpy()
    table.loc[rng.random(n_rows) < 0.2, "chol"] = np.nan
    table.loc[groups == 3, "chol"] = np.nan
    return table, y, groups


def design_by_hand(table):
    """Return the columns that the fit should have, made with pandas."""
    chol = table["chol"]
    columns = {"age": table["age"], "sex=m": table["sex"] == "m"}
    columns |= {f"pain={level}": table["pain"] == level for level in (2, 3, 4)}
    columns |= {"chol": chol.fillna(chol.mean()), "chol is missing": chol.isna()}
    columns |= {name: table[name] for name in ("noise", "more")}
    return pd.DataFrame(columns).astype(float)


def fitted(sparsity=3, **options):
    table, y, groups = hospital_table()
    model = fgmp.FedGradMPRegressor(sparsity, **{"method": "shared", **INDICATOR, **options})
    return model.fit(table, y, groups), table, y, groups


# Missing values and categories.


@pytest.mark.parametrize("secure", [False, True])
def test_all_columns_are_those_that_pandas_makes_of_the_pooled_table(secure):
    """The most frequent level is the reference, and the mean is that of all hospitals."""
    levels = {"sex": ["f", "m"], "pain": [1, 2, 3, 4]}
    model, table, y, _ = fitted("all", C=np.inf, secure=secure, categories=levels)
    design = design_by_hand(table)
    assert model.encoding_.column_names() == list(design)
    assert model.encoding_.variables[3].mean == pytest.approx(table["chol"].mean(), rel=1e-9)
    reference = LinearRegression().fit(design, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict(table), reference.predict(design), atol=1e-6)
    assert model.summary().columns["feature"].tolist() == ["(intercept)", *design]


def test_classifier_has_the_coefficients_of_scikit_learn_on_the_same_columns():
    """The columns made by hand and those of the model have the same coefficients."""
    table, y, groups = hospital_table()
    model = fgmp.FedGradMPClassifier("all", C=np.inf, **INDICATOR).fit(table, y > 0, groups)
    reference = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    design = design_by_hand(table)
    reference.fit(design - design.mean(), y > 0)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-6)


@pytest.mark.parametrize("method", ["shared", "fedgradmp"])
@pytest.mark.parametrize("make", [fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier])
def test_columns_of_a_variable_are_selected_together_and_count_once(method, make, backend):
    """Value and indicator, and all levels but the reference; with three classes, too."""
    table, y, groups = hospital_table(n_rows=800)
    if make is fgmp.FedGradMPClassifier:
        y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    for sparsity, expected in ((1, [2, 3, 4]), (2, [2, 3, 4, 5, 6]), (3, [1, 2, 3, 4, 5, 6])):
        model = make(sparsity, method=method, **INDICATOR).fit(table, y, groups)
        assert model.support_.tolist() == expected


def test_choice_of_the_sparsity_counts_variables():
    """All columns of a chosen variable are in the support, and there are six to choose."""
    model, *_ = fitted("cv", random_state=0, n_folds=3)
    assert model.sparsity_ in (2, 3, 4)
    block_of = np.array(model.encoding_.block_of())
    chosen = np.unique(block_of[model.support_])
    assert len(chosen) == model.sparsity_
    assert model.support_.tolist() == np.flatnonzero(np.isin(block_of, chosen)).tolist()
    assert model.cv_.table["sparsity"].max() == 6


def test_elimination_removes_the_block_whose_loss_costs_least():
    """By enumeration of all pairs of variables."""
    model, table, y, _ = fitted(2)
    design = design_by_hand(table)
    blocks = [[0], [1], [2, 3, 4], [5, 6], [7], [8]]

    def left_over(chosen):
        columns = design.iloc[:, [c for b in chosen for c in blocks[b]]]
        return ((y - LinearRegression().fit(columns, y).predict(columns)) ** 2).sum()

    pairs = [(a, b) for a in range(6) for b in range(a)]
    best = min(pairs, key=left_over)
    assert model.support_.tolist() == sorted(c for b in best for c in blocks[b])


@pytest.mark.parametrize("seed", range(10))
def test_elimination_removes_blocks_by_what_all_their_entries_cost_together(seed):
    """By enumeration, with entries of a block that are nearly the same and stand for one another."""
    rng = np.random.default_rng(seed)
    block_of = (0, 0, 1, 1, 2, 2)
    A = rng.standard_normal((40, 6))
    A[:, ::2] = A[:, 1::2] + 0.2 * A[:, ::2]
    hessian = A.T @ A
    b = rng.standard_normal(6)

    def rise(block):
        left = [j for j in range(6) if block_of[j] != block]
        best = np.linalg.solve(hessian[np.ix_(left, left)], hessian[left] @ b)
        move = -b.copy()
        move[left] += best
        return move @ hessian @ move

    expected = min(range(3), key=rise)
    model = fgmp.SparseModel(np.arange(6), b, (6,))
    point = next(backwards(model, hessian, fgmp.PerBlock(block_of=block_of)))
    assert point.n_left == 2
    assert set(range(3)) - {block_of[j] for j in point.positions.tolist()} == {expected}


@repeatable(3)
@given(seed=seeds)
def test_indicator_without_a_missing_value_changes_no_bit(seed):
    """Where nothing is missing, the rule gives the same coefficients and intercept."""
    table, y, groups = hospital_table(seed % 1000, n_rows=120)
    X = table.drop(columns=["sex", "pain"]).fillna(1.0)
    plain = fgmp.FedGradMPRegressor(2, method="shared").fit(X, y, groups)
    with_rule = fgmp.FedGradMPRegressor(2, method="shared", missing="indicator").fit(X, y, groups)
    np.testing.assert_array_equal(with_rule.coef_, plain.coef_)
    assert with_rule.intercept_ == plain.intercept_


@repeatable(3)
@given(seed=seeds, names=st.permutations(["w", "x", "y", "z"]))
def test_names_of_levels_and_order_of_rows_do_not_matter(seed, names):
    """Levels renamed and rows shuffled give the same predictions."""
    table, y, groups = hospital_table(seed % 1000, n_rows=300)
    model = fgmp.FedGradMPRegressor(2, method="shared", C=5.0, **INDICATOR)
    predicted = model.fit(table, y, groups).predict(table)
    rows = np.random.default_rng(seed).permutation(len(y))
    renamed = table.assign(pain=np.array(names)[table["pain"] - 1])
    again = model.fit(renamed.iloc[rows], y[rows], groups[rows]).predict(renamed)
    np.testing.assert_allclose(again, predicted, atol=1e-7)


@repeatable(2)
@given(fill=st.floats(-1e3, 1e3))
def test_number_in_place_of_a_missing_one_moves_no_prediction(fill):
    """Without a ridge: value and indicator have a span that it is not in."""
    model, table, y, groups = fitted("all", C=np.inf)
    predicted = model.predict(table)
    variables = [
        replace(v, mean=fill) if v.name == "chol" else v for v in model.encoding_.variables
    ]
    encoding = replace(model.encoding_, variables=tuple(variables))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training, "agree_on_encoding", lambda *arguments: encoding)
        again = model.fit(table, y, groups).predict(table)
    np.testing.assert_allclose(again, predicted, atol=1e-6)


@pytest.mark.parametrize("kind", ["polars", "objects", "nullable"])
def test_tables_of_other_kinds_give_the_same_model(kind):
    """Polars, object and nullable tables have the same coefficients."""
    model, table, y, groups = fitted()
    names = list(table)
    others = {
        "polars": lambda: pl.DataFrame(
            {name: [None if v != v else v for v in table[name].tolist()] for name in names}
        ),
        "nullable": lambda: table.assign(sex=table["sex"].astype("category")).convert_dtypes(),
        "objects": lambda: table.to_numpy(object),
    }
    options = {**INDICATOR, "categories": [1, 2]}
    other = fgmp.FedGradMPRegressor(3, method="shared", **options).fit(others[kind](), y, groups)
    np.testing.assert_array_equal(other.coef_, model.coef_)


def test_fold_and_bootstrap_keep_the_columns():
    """A resample may miss a level: its coefficient is zero then, and there is still a column."""
    model, *_ = fitted()
    for over in ("groups", "rows"):
        resamples = model.bootstrap(3, over, random_state=0)
        assert resamples.coef.shape == (3, 1, 9)
        assert resamples.inclusion[2] == 1


def test_own_intercepts_and_counts_go_with_missing_values():
    """A column that is missing at a whole hospital says nothing beside its own intercept."""
    table, y, groups = hospital_table()
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * y))
    model = fgmp.FedGradMPRegressor(3, loss="poisson", fit_intercept="per_group", **INDICATOR)
    model.fit(table, counts, groups)
    assert {2, 3, 4, 5, 6} <= set(model.support_.tolist())
    assert np.isfinite(model.predict(table, groups)).all()


# Ties, which rounding must not break.


@pytest.mark.parametrize("options", [{}, {"secure": True}], ids=["open", "secure"])
@pytest.mark.parametrize("weighted", [False, True])
def test_reference_of_levels_of_one_frequency_is_the_first(options, weighted):
    """For any order of the rows and any groups; weights 0.1 + 0.2 are as much as 0.3."""
    rows = np.array(list("wvu") * 40)
    weights = np.repeat([0.1, 0.2, 0.3], 40)
    if weighted:
        rows = np.repeat(["v", "v", "u"], 40)
    references = set()
    for seed in range(15):
        rng = np.random.default_rng(seed)
        order = rng.permutation(120)
        X = pd.DataFrame({"ward": rows[order], "age": rng.standard_normal(120)})
        model = fgmp.FedGradMPRegressor(
            "all", categories={"ward": ["w", "v", "u"]}, min_rows=1, **options
        )
        passed = {"sample_weight": weights[order]} if weighted else {}
        model.fit(X, np.arange(120.0), rng.integers(7, size=120), **passed)
        references.add(model.encoding_.variables[0].reference)
    assert references == {"u"}


# At prediction.


def test_unknown_level_gets_the_most_frequent_one_with_a_warning():
    """The warning has the column and the level."""
    model, table, *_ = fitted("all")
    rows = table.head(3)
    with pytest.warns(fgmp.AdviceWarning, match=r"did not see, in the columns 'sex' \('x'\)"):
        strange = model.predict(rows.assign(sex="x"))
    np.testing.assert_array_equal(strange, model.predict(rows.assign(sex="f")))


def test_value_missing_where_none_was_gets_the_mean_with_a_warning():
    """The warning has the columns, and a missing category is the most frequent level."""
    model, table, *_ = fitted("all")
    rows = table.head(3)
    with pytest.warns(fgmp.AdviceWarning, match=r"missing in the columns 'age', 'sex', in which"):
        found = model.predict(rows.assign(age=np.nan, sex=None))
    expected = model.predict(rows.assign(age=table["age"].mean(), sex="f"))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_model_goes_through_json_with_its_columns():
    """Predictions, summary and report are the same, and an encoding cut short is refused."""
    model, table, *_ = fitted(always_include=["age"])
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert repr(again.summary()) == repr(model.summary())
    assert str(again.report()) == str(model.report()) and again.to_json() == model.to_json()
    content = json.loads(model.to_json())
    content["encoding"].pop()
    with pytest.raises(ValueError, match="encoding is of other columns"):
        fgmp.FedGradMPRegressor.from_json(json.dumps(content))


def test_table_with_gaps_and_categories_is_predicted_as_in_python(tmp_path, capsys):
    """Empty cells are missing, and text is a level; by `fgmp predict` of the model's JSON."""
    model, table, *_ = fitted()
    (tmp_path / "model.json").write_text(model.to_json(), encoding="utf-8")
    table.head(20).to_csv(tmp_path / "table.csv", index=False)
    assert main(["predict", str(tmp_path / "model.json"), str(tmp_path / "table.csv")]) == 0
    found = [float(line) for line in capsys.readouterr().out.split()[1:]]
    np.testing.assert_allclose(found, model.predict(table.head(20)), rtol=1e-12)


def test_report_says_what_was_agreed_on():
    """It has the form of the means, and whether groups sent their levels."""
    text = str(fitted()[0].report())
    assert words_on(ObservedMeans(1, "zero", masked=False)).form in text
    assert "levels of sex, pain" in text and "the set of those that it has left each group" in text
    levels = {"sex": ["f", "m"], "pain": [1, 2, 3, 4]}
    assert "no group said which it has" in str(fitted(categories=levels)[0].report())


# Columns are named by whatever has several names, or indices.

SEVERAL = {
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda columns: np.array(columns, object),
    "index": pd.Index,
    "pandas": lambda columns: pd.Series(columns, index=["q"] * len(columns)),
    "polars": lambda columns: pl.Series(columns, strict=False),
    "set": set,
    "frozen set": frozenset,
}


@pytest.mark.parametrize("by", ["name", "index"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_several_columns_are_those_of_a_list_whatever_holds_them(kind, by):
    """In the fit, a clone, resamples, and JSON, which has a list; the parameter stays as it is."""
    table, y, groups = hospital_table(n_rows=200)
    categories = ["sex", "pain"] if by == "name" else [1, 2]
    always = ["age", "noise"] if by == "name" else [0, 4]
    options = {"method": "shared", "missing": "indicator", "rounds": 3}
    expected = fgmp.FedGradMPRegressor(
        1, categories=categories, always_include=always, **options
    ).fit(table, y, groups)
    several = {"categories": SEVERAL[kind](categories), "always_include": SEVERAL[kind](always)}
    model = fgmp.FedGradMPRegressor(1, **several, **options)
    assert all(model.get_params()[name] is value for name, value in several.items())
    model = clone(model).fit(table, y, groups)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert "array" in kind or repr(model).startswith("FedGradMPRegressor(")
    resamples = [one.bootstrap(2, random_state=0).coef for one in (model, expected)]
    np.testing.assert_array_equal(*resamples)

    written = json.loads(model.to_json())["parameters"]
    is_set = "set" in kind
    assert written["categories"] == (sorted(categories) if is_set else categories)
    assert written["always_include"] == (sorted(always) if is_set else always)
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    assert again.to_json() == model.to_json()
    refitted = clone(again).fit(table, y, groups)
    np.testing.assert_array_equal(refitted.coef_, expected.coef_)


def test_range_of_columns_and_a_single_one_are_taken():
    """The first column, too, whose index is zero."""
    table, y, groups = hospital_table(n_rows=120)
    X = table[["sex", "pain", "age", "noise"]]
    several = fgmp.FedGradMPRegressor(1, categories=range(2), always_include=range(2, 4))
    written = json.loads(several.fit(X, y, groups).to_json())["parameters"]
    assert written["categories"] == [0, 1] and written["always_include"] == [2, 3]
    for first in (0, np.int8(0), "sex"):
        one = fgmp.FedGradMPRegressor("all", categories=first, always_include=first)
        one.fit(X.drop(columns="pain"), y, groups)
        assert one.encoding_.column_names() == ["sex=m", "age", "noise"]
        written = json.loads(one.to_json())["parameters"]
        assert written["categories"] == written["always_include"] == [first]


NONE = [[], (), {}, set(), np.array([]), np.array([], int), pd.Index([]), pl.Series([]), range(0)]


@pytest.mark.parametrize("none", NONE, ids=lambda none: type(none).__name__)
def test_no_columns_are_none(none):
    """They are as if nothing was named."""
    X = hospital_table(n_rows=60)[0][["age", "noise"]]
    y = X["noise"].to_numpy()
    always = [] if isinstance(none, dict) else none
    model = fgmp.FedGradMPRegressor(1, categories=none, always_include=always).fit(X, y)
    assert not hasattr(model, "encoding_") and model.support_.tolist() == [1]
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    assert clone(again).fit(X, y).support_.tolist() == [1]


@pytest.mark.parametrize("name", ["inf", "-inf", "nan", "Infinity", "None", "1e5", "0", "mapping"])
def test_column_whose_name_is_a_word_for_a_number_keeps_it_through_json(name):
    """As one that is always included, a category, and a level of it."""
    table, y, groups = hospital_table(n_rows=120)
    X = table[["age", "noise"]].assign(**{name: table["sex"].replace("f", "inf")})
    for categories in ([name], {name: ["inf", "m"]}):
        model = fgmp.FedGradMPRegressor(0, categories=categories, always_include=name)
        again = fgmp.FedGradMPRegressor.from_json(model.fit(X, y, groups).to_json())
        assert again.categories == categories and again.always_include == [name]
        assert again.to_json() == model.to_json()
        refitted = clone(again).fit(X, y, groups)
        np.testing.assert_array_equal(refitted.coef_, model.coef_)
        assert refitted.encoding_.column_names() == ["age", "noise", f"{name}=m"]


@pytest.mark.parametrize("argument", ["categories", "always_include"])
def test_iterator_over_columns_is_refused(argument):
    """At its second use it would have none."""
    table, y, groups = hospital_table(n_rows=60)
    X = table[["age", "noise"]]
    for iterator in (iter(["age"]), (name for name in ["age"]), map(str, ["age"])):
        with pytest.raises(ValueError, match=f"{argument} is <.*expected names of columns, or"):
            fgmp.FedGradMPRegressor(1, **{argument: iterator}).fit(X, y, groups)


# What is refused.


def table_with(**columns):
    return hospital_table()[0].assign(**columns)


WRONG = {
    "missing is no rule": ({"missing": "drop"}, {}, "missing is 'drop'; expected"),
    "a value is missing": (
        {"categories": ["sex"]},
        {},
        r"values are missing in the columns \['chol'\]; expected none, or a fit with missing='indicator'",
    ),
    "no category is named": ({}, {"sex": 1.0}, r"columns \['chol'\]; .* missing='indicator'"),
    "text is no category": (
        {"missing": "indicator"},
        {},
        "could not convert column 'sex' of X to float: it holds a str. Name it in categories",
    ),
    "no such category": ({"categories": ["tail"]}, {}, "categories has 'tail'; expected names"),
    "a column twice": ({"categories": ["sex", 1]}, {}, "expected each column once"),
    "nothing is there": (
        INDICATOR,
        {"chol": np.nan},
        r"no value in any row of the columns \['chol'\]",
    ),
    "an infinite number": (INDICATOR, {"age": np.inf}, r"infinity in the columns \['age'\]"),
    "another level": (
        {**INDICATOR, "categories": {"sex": ["f"], "pain": [1, 2, 3, 4]}},
        {},
        r"category 'sex' has the levels 'm'; expected those of categories: 'f'",
    ),
    "levels under masks": (
        {**INDICATOR, "secure": True},
        {},
        r"names \['sex', 'pain'\] without levels, and secure is True",
    ),
    "an identifier": (
        {"missing": "indicator", "categories": ["sex", "age"]},
        {"age": np.random.default_rng(0).permutation(1200)[:400] + 0.5},
        None,
    ),
    "no column to include": ({"always_include": ["hight"], **INDICATOR}, {}, "always_include has"),
}


@pytest.mark.parametrize("name", [name for name in WRONG if WRONG[name][2]])
def test_argument_that_does_not_fit_is_named(name):
    """With what came, what was expected, and the column."""
    options, columns, words = WRONG[name]
    _, y, groups = hospital_table()
    with pytest.raises(ValueError, match=words):
        fgmp.FedGradMPRegressor(2, **options).fit(table_with(**columns), y, groups)


TWO_OF_A_NAME = {
    "levels of two categories": (
        {"a": ["b=c", "x", "x"], "a=b": ["c", "y", "y"]},
        {"categories": ["a", "a=b"]},
        "'a=b=c', the level 'b=c' of the category 'a' and the level 'c' of the category 'a=b'",
    ),
    "a level and a column": (
        {"ward=B": [0.0, 1.0, 3.0], "ward": ["A", "A", "B"]},
        {"categories": ["ward"]},
        "'ward=B', the column 'ward=B' and the level 'B' of the category 'ward'",
    ),
    "a gap and a column": (
        {"x": [0.5, None, 2.5], "x is missing": [0.0, 1.0, 0.0]},
        {"missing": "indicator"},
        "'x is missing', where 'x' is missing and the column 'x is missing'",
    ),
    "a gap and a category": (
        {"a": ["b is missing", "c", "c"], "a=b": [1.0, None, 2.0]},
        {"missing": "indicator", "categories": ["a"]},
        "'a=b is missing', the level 'b is missing' of the category 'a' and where 'a=b' is missing",
    ),
}


@pytest.mark.parametrize("kind", TWO_OF_A_NAME)
def test_two_columns_of_one_name_are_refused_before_the_fit(kind):
    """Nobody could tell their coefficients apart; the message says what the two are."""
    columns, options, words = TWO_OF_A_NAME[kind]
    X = pd.DataFrame({name: values * 30 for name, values in columns.items()})
    model = fgmp.FedGradMPRegressor("all", **options)
    with pytest.raises(ValueError, match=re.escape(f"X would have two columns called {words}")):
        model.fit(X, np.arange(90.0), np.arange(90) % 3)
    renamed = X.rename(columns=dict(zip(columns, ["first", "second"], strict=True)))
    order = list(columns)
    keys = [["first", "second"][order.index(key)] for key in options.get("categories", [])]
    model.set_params(categories=keys).fit(renamed, np.arange(90.0), np.arange(90) % 3)
    names = model.encoding_.column_names()
    assert len(set(names)) == len(names) == len(model.coef_)


def test_file_with_two_columns_of_one_name_is_refused():
    """A level that is there twice, and one that is called as another column."""
    model, *_ = fitted()
    for levels in (["m", "m"], ["m", "x=y"]):
        content = json.loads(model.to_json())
        content["encoding"][1]["levels"] = levels
        content["encoding"][0]["name"] = "sex=x=y"
        with pytest.raises(ValueError, match="^text is not what to_json of an estimator wrote: "):
            fgmp.FedGradMPRegressor.from_json(json.dumps(content))


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (4, "4"),
        (4.0, "4"),
        ("4.0", "4"),
        ("04", "04"),
        (Decimal("4.00"), "4"),
        (2**70, str(2**70)),
        (-0.0, "0"),
        (True, "1"),
        (np.False_, "0"),
        ("True", "1"),
        ("FALSE", "0"),
        (" m ", "m"),
        ("", None),
        (None, None),
        (np.nan, None),
        (pd.NA, None),
        (pd.NaT, None),
        (np.datetime64("NaT"), None),
        (Decimal("NaN"), None),
        (np.int8(2), "2"),
        (0.5, "0.5"),
        (0.1, "0.1"),
        (np.float32(0.1), "0.1"),
        (float(np.float32(0.1)), "0.1"),
        (np.float16(0.1), "0.1"),
        (np.longdouble("0.1"), "0.1"),
        (Decimal("0.10"), "0.1"),
        (1e-5, "1e-05"),
        (np.float32(1e-5), "1e-05"),
        (123456.125, "123456.125"),
        (np.float32(123456.125), "123456.125"),
        (b"m", "m"),
        ("a \n  b", "a b"),
        (date(2020, 1, 2), "2020-01-02"),
        (pd.Timestamp("2020-01-02"), "2020-01-02"),
        (np.datetime64("2020-01-02", "ns"), "2020-01-02"),
        (pd.Timestamp("2020-01-02 03:04"), "2020-01-02 03:04:00"),
        (datetime(2020, 1, 2, 3, 4), "2020-01-02 03:04:00"),
    ],
)
def test_value_of_a_category_is_one_text_however_it_is_written(value, level):
    """Whole numbers lose their decimals, text its margins, and what is missing is None."""
    assert level_of(value) == level


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_number_of_single_precision_is_the_level_that_it_is_in_double_precision(number):
    """Of the number as it was written; a level is the number again, in single precision."""
    single = np.float32(number)
    assert level_of(single) == level_of(float(single)) == level_of(np.longdouble(single))
    assert np.float32(float(level_of(single))) == single
    if not float(single).is_integer():
        assert level_of(float(str(single))) == level_of(single)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_different_numbers_are_different_levels_unless_single_precision_wrote_one(first, second):
    """A level names a number to the last bit, or as single precision writes it."""
    number = float(level_of(first))
    assert number == first or np.float32(number) == np.float32(first) == first
    if level_of(first) == level_of(second):
        assert first == second or np.float32(first) == np.float32(second)


def test_text_of_a_level_is_as_a_server_prints_it():
    """Or a site would not have the level that it said it has."""
    for text in ("a  b", "\ta\u00a0b\n", "a\u200bb", "\x1b[31mred", "é", "心"):
        assert printable(level_of(text)) == level_of(text)


CODES = np.array([1, 2, 3] * 40)
DOSES = np.array([0.1, 0.2, 0.7] * 40)
TRUTHS = CODES == 2
STORED = {
    "whole numbers": (
        [CODES, CODES.astype("uint8"), CODES.astype(float), CODES.astype(str)],
        [
            pd.array(CODES, "Int64"),
            pl.Series(CODES, dtype=pl.Float32),
            list(map(Decimal, CODES.tolist())),
        ],
        [list(map(np.int16, CODES)), pd.Categorical(CODES)],
    ),
    "fractions": (
        [DOSES, DOSES.astype("float32"), DOSES.astype("float16"), DOSES.astype("longdouble")],
        [pd.array(DOSES, "Float32"), pl.Series(DOSES, dtype=pl.Float32), DOSES.astype(str)],
        [[Decimal(str(dose)) for dose in DOSES], list(map(np.float32, DOSES))],
    ),
    "truths": (
        [TRUTHS, TRUTHS.astype(int), TRUTHS.astype(float), TRUTHS.astype(str)],
        [pd.array(TRUTHS, "boolean"), pl.Series(TRUTHS), np.where(TRUTHS, "true", "false")],
        [np.where(TRUTHS, "1", "0"), list(map(np.bool_, TRUTHS))],
    ),
}


@pytest.mark.parametrize("kind", STORED)
def test_value_is_one_level_however_a_table_stores_it(kind):
    """In a fit, and at prediction; no level is unknown."""
    columns = [column for some in STORED[kind] for column in some]
    noise = np.random.default_rng(0).standard_normal(120)
    y = noise + CODES
    models = []
    for column in columns:
        table = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
        X = table({"kind": column, "noise": noise})
        model = fgmp.FedGradMPRegressor("all", categories=["kind"]).fit(X, y, CODES % 3)
        models.append(model)
        assert model.encoding_ == models[0].encoding_
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        with warnings.catch_warnings():
            warnings.simplefilter("error", fgmp.AdviceWarning)
            found = models[0].predict(X)
        np.testing.assert_array_equal(found, model.predict(X))
    rows = [[value, number] for value, number in zip(columns[-1], noise.tolist(), strict=True)]
    of_rows = fgmp.FedGradMPRegressor("all", categories=[0]).fit(rows, y, CODES % 3)
    np.testing.assert_array_equal(of_rows.coef_, models[0].coef_)


NUMBERS = {
    "Decimals": lambda column: list(map(Decimal, column.tolist())),
    "text": lambda column: column.astype(str),
    "scalars": lambda column: list(map(np.float32, column)),
    "Int64": lambda column: pd.array(column, "Int64"),
    "objects": lambda column: column.astype(object),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("missing", ["error", "indicator"])
def test_numbers_of_any_type_are_numbers_with_gaps_and_without(missing, kind):
    """The same are taken; in lists of rows, too, beside a category."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 50, 60)
    X = pd.DataFrame({"fee": NUMBERS[kind](numbers), "q": rng.standard_normal(60)})
    y = 0.1 * numbers + rng.standard_normal(60)
    model = fgmp.FedGradMPRegressor("all", missing=missing)
    found = model.fit(X, y).coef_
    expected = model.fit(X.assign(fee=numbers.astype(float)), y).coef_
    np.testing.assert_array_equal(found, expected)

    ward = np.array(["A", "B"] * 30)
    rows = [list(row) for row in zip(X["fee"], X["q"], ward, strict=True)]
    model = fgmp.FedGradMPRegressor("all", missing=missing, categories=[2])
    by_rows = model.fit(rows, y).coef_
    plain = pd.DataFrame({"fee": numbers.astype(float), "q": X["q"], "ward": ward})
    np.testing.assert_array_equal(by_rows, model.fit(plain, y).coef_)
    if missing == "indicator":
        rows[3][0] = None
        plain.loc[3, "fee"] = np.nan
        np.testing.assert_array_equal(model.fit(rows, y).coef_, model.fit(plain, y).coef_)


# Columns that are always included.


@pytest.mark.parametrize("method", ["shared", "fedgradmp"])
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("make", [fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier])
def test_columns_that_are_always_included_do_not_count(make, secure, method, backend):
    """For every sparsity they stand beside as many others, and with none they stand alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    groups = np.arange(400) % 4
    y = X[:, 1] - X[:, 4] + rng.standard_normal(400)
    if make is fgmp.FedGradMPClassifier:
        y = y > 0
    for sparsity, expected in ((0, [2, 7]), (1, None), (2, [1, 2, 4, 7])):
        model = make(sparsity, always_include=[7, 2], secure=secure, method=method)
        support = model.fit(X, y, groups).support_.tolist()
        assert {2, 7} <= set(support) and len(support) == sparsity + 2
        assert expected is None or support == expected
    plain = LogisticRegression(C=1.0) if make is fgmp.FedGradMPClassifier else LinearRegression()
    Z = (X / X.std(axis=0))[:, support]
    found = np.atleast_2d(model.coef_)[:, support] * X.std(axis=0)[support]
    np.testing.assert_allclose(found, np.atleast_2d(plain.fit(Z, y).coef_), atol=1e-3)


def test_columns_are_always_included_by_name_through_the_choice_of_the_sparsity():
    """All that "cv" compares have them, none among those that were chosen from."""
    table, y, groups = hospital_table()
    options = {"always_include": ["pain", "more"], "n_folds": 2, "random_state": 0, **INDICATOR}
    model = fgmp.FedGradMPRegressor("cv", **options).fit(table, y, groups)
    assert {2, 3, 4, 8} <= set(model.support_.tolist())
    assert model.cv_.table["sparsity"].max() == 4
    # Its score is that of pain, which no model lacks, and not that of the mean alone.
    assert model.cv_.table["score"][0] < 0.9 * np.var(y) / 2
    resamples = model.bootstrap(3, random_state=0)
    assert (resamples.inclusion[[2, 3, 4, 8]] == 1).all()


def test_sparsity_is_at_most_the_number_of_other_columns():
    """With one of four columns always included, a sparsity of 4 is refused."""
    X = np.random.default_rng(0).standard_normal((50, 4))
    with pytest.raises(
        ValueError, match="sparsity is 4; expected an integer from 0 to 3 .*choose from"
    ):
        fgmp.FedGradMPRegressor(4, always_include=0).fit(X, X[:, 1])


AS_TEXT = pd.DataFrame({"age": ["50", "61.5", "70", "44"] * 10, "score": np.arange(40.0)})


@pytest.mark.parametrize(
    "X, words",
    [
        (AS_TEXT, "column 'age'"),
        (AS_TEXT.astype({"age": "category"}), "column 'age'"),
        (AS_TEXT.astype(str).to_numpy(), "X"),
        (AS_TEXT.to_numpy(), "X"),
    ],
)
@pytest.mark.parametrize("missing", ["error", "indicator"])
def test_numbers_as_text_are_read_with_a_word(X, words, missing):
    """The model is that of numbers, whatever holds them, and the warning says what was done."""
    y = np.arange(40.0) % 7
    with pytest.warns(fgmp.AdviceWarning, match="holds text, which is read as numbers") as caught:
        model = fgmp.FedGradMPRegressor("all", missing=missing).fit(X, y)
    if missing == "error":
        assert [str(warning.message).partition(" holds")[0] for warning in caught] == [words]
    expected = fgmp.FedGradMPRegressor("all").fit(AS_TEXT.astype(float), y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)


def test_gap_at_a_group_that_takes_no_part_is_not_spoken_of():
    """It is in no sum, so the fit warns of the group alone."""
    X = pd.DataFrame({"age": np.arange(43.0) ** 2 % 17 / 3, "score": np.arange(43.0)})
    X.loc[1, "age"] = np.nan
    groups = np.repeat(["small", "A", "B"], [3, 20, 20])
    model = fgmp.FedGradMPRegressor("all", missing="indicator")
    with pytest.warns(fgmp.AdviceWarning) as caught:
        model.fit(X, X["score"] % 5, groups)
    assert ["min_rows" in str(warning.message) for warning in caught] == [True]
    assert "missing" not in str(caught[0].message)
