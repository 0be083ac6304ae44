"""Estimators go through JSON and predict as before; `fgmp predict` finds columns by name."""

import csv
import io
import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from command_line import run_command

from fgmp.estimators import FedGradMPClassifier, FedGradMPRegressor, model_from_json
from fgmp.estimators.csv_tables import inert

TABLE = pd.DataFrame(
    np.random.default_rng(0).standard_normal((60, 3)) * [1, 10, 100], columns=list("abc")
)


@pytest.fixture(params=[FedGradMPRegressor, FedGradMPClassifier])
def kept(request, tmp_path):
    y = TABLE["a"] + TABLE["c"] / 100
    y = y if request.param is FedGradMPRegressor else np.where(y > 0, "ill", "well")
    model = request.param(2, rounds=10).fit(TABLE, y, groups=np.arange(60) % 3)
    (tmp_path / "model").write_text(model.to_json())
    return model, tmp_path / "model"


def run(path, table, *options):
    return run_command("predict", str(path), "-", *options, input=table)


def predictions(done):
    """The first column of what was printed."""
    assert done.exit_code == 0, done.output
    return pd.read_csv(io.StringIO(done.stdout))["prediction"].tolist()


def refusal(done):
    """The one line that a refused call prints."""
    assert done.exit_code == 1
    lines = done.output.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: "), lines
    return lines[0].removeprefix("Error: ")


def test_predict_prints_the_predictions_of_the_model(kept):
    """Columns are found by name, in any order; a classifier prints its probabilities too."""
    model, path = kept
    shuffled = TABLE[["c", "a", "b"]].assign(more="text").to_csv(index=False)
    printed = pd.read_csv(io.StringIO(run(path, shuffled).output))
    expected = {"prediction": model.predict(TABLE)}
    if isinstance(model, FedGradMPClassifier):
        probabilities = model.predict_proba(TABLE).T
        for label, column in zip(model.classes_, probabilities, strict=True):
            expected[f"probability of {label}"] = column
    pd.testing.assert_frame_equal(printed, pd.DataFrame(expected), check_dtype=False, rtol=1e-12)


def test_model_from_json_has_the_same_predictions(kept):
    """To the bit."""
    model, path = kept
    loaded = model_from_json(path.read_text())
    np.testing.assert_array_equal(loaded.predict(TABLE), model.predict(TABLE))


COUNTRIES = pd.DataFrame(
    {"country": np.repeat(["NA", "DE", "None", None], 15).astype(object), "age": TABLE["a"]}
)


@pytest.fixture
def of_countries(tmp_path):
    """A model of a category whose levels have the names of marks of missing values."""
    options = {"categories": ["country"], "missing": "indicator"}
    fitted = FedGradMPRegressor("all", **options).fit(COUNTRIES, np.arange(60.0) ** 2)
    (tmp_path / "model").write_text(fitted.to_json())
    return fitted, tmp_path / "model"


def test_level_is_a_level_if_its_name_marks_missing_values_elsewhere(of_countries):
    """An empty cell is missing, and so is a mark that the fit did not have as a level."""
    fitted, path = of_countries
    expected = fitted.predict(COUNTRIES)
    found = predictions(run(path, COUNTRIES.to_csv(index=False, na_rep="")))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = predictions(run(path, COUNTRIES.to_csv(index=False, na_rep="N/A")))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_predict_warns_of_levels_and_gaps_that_the_fit_did_not_see(of_countries):
    """As the model does in Python, by the names of the columns, one line each."""
    _, path = of_countries
    done = run(path, "country,age\nDE,1\nelsewhere,1\nDE,\n")
    assert len(predictions(done)) == 3
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Warning: levels that the fit did not see, in the columns 'country'")
    assert lines[1].startswith("Warning: values are missing in the columns 'age', in which none")
    assert len(lines) == 2
    assert not run(path, "country,age\nDE,1\nNA,1\n,2\n").stderr


def test_predict_says_once_what_a_classifier_advises(tmp_path):
    """Its probabilities, which stand beside the predictions, give the same advice."""
    options = {"categories": ["country"], "missing": "indicator", "fit_intercept": "per_group"}
    rows = np.arange(60)
    fitted = FedGradMPClassifier("all", **options).fit(COUNTRIES, rows % 7 > 2, rows % 3)
    (tmp_path / "model").write_text(fitted.to_json())
    lines = run(tmp_path / "model", "country,age\nelsewhere,1\n").stderr.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "Warning: all rows get the common intercept; --groups COLUMN gives them that of their group",
        "Warning: levels that the fit did not see",
    ]


def test_predict_without_a_column_is_refused(kept):
    """The line has the missing column, and those that there are."""
    _, path = kept
    words = "Error: the table has no column 'c'; its columns are 'a', 'b'\n"
    assert words in run(path, "a,b\n1,2\n").output


@pytest.fixture
def model(tmp_path):
    """y = a - b, exactly, so that predictions are known."""
    fitted = FedGradMPRegressor(2).fit(TABLE, TABLE["a"] - TABLE["b"])
    (tmp_path / "model").write_text(fitted.to_json())
    return tmp_path / "model"


@pytest.mark.parametrize(
    "table",
    [
        "a,b,c\n1,2,3\n",
        "\ufeffa,b,c\n1,2,3\n",
        '\ufeff"a","b","c"\r\n"1","2","3"\r\n',
        "c,b,a\n3,2,1\n\n\n",
        "a,b,c\nTrue,2,false\n",
        " a , b,c\n 1, 2.0 ,3e0\n",
        "note,a,note,b,c\nx,1,y,2,3\n",
    ],
)
def test_table_in_a_common_form_is_read(model, table):
    """Byte order marks, quotes, spaces, empty lines and other columns."""
    np.testing.assert_allclose(predictions(run(model, table)), [-1.0], atol=1e-9)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("a,b,a,c\n1,2,99,3\n", "the table has 2 columns 'a'; expected one"),
        ("a,b,c\n1,000,2,3\n", "line 2 of the table has 4 cells; expected 3, as the first line"),
        ("a,b,c\n1,2,3\n1,2\n", "line 3 of the table has 2 cells; expected 3, as the first line"),
        (
            "a,b,c\n1,2,3\n\n1,2,3\n",
            "line 3 of the table has 0 cells; expected 3, as the first line",
        ),
        (
            "a;b;c\n1;2;3\n",
            "the table has no column 'a'; its columns are 'a;b;c'; expected commas between the columns",
        ),
        (
            "a\tb\tc\n1\t2\t3\n",
            "the table has no column 'a'; its columns are 'a\\tb\\tc'; expected commas between the columns",
        ),
        (
            "71.25,2,3\n4,5,6\n",
            "the table has no column 'a'; its first line has numbers; expected the names of the columns",
        ),
        (
            "a,b,c\n1,2,3\n1,,3\n",
            "row 2 (line 3), column 'b', is missing; expected a number, True or False",
        ),
        (
            "a,b,c\n1,2,NA\n",
            "row 1 (line 2), column 'c', is missing; expected a number, True or False",
        ),
        (
            "a,b,c\n1,nan,3\n",
            "row 1 (line 2), column 'b', is missing; expected a number, True or False",
        ),
        (
            "a,b,c\n1,-inf,3\n",
            "row 1 (line 2), column 'b', is not finite, or no number; expected a number, True or False",
        ),
        (
            "a,b,c\n1,1_000,3\n",
            "row 1 (line 2), column 'b', is not finite, or no number; expected a number, True or False",
        ),
        (
            'a,b,c\n"1,5",2,3\n',
            "row 1 (line 2), column 'a', is not finite, or no number; expected a number, True or False",
        ),
        ("a,b,c\n", "the table has no rows; expected at least one"),
        ("", "the table is empty; expected a line with the names of its columns"),
        (
            "a,b,c\n1,2," + "3" * 131_073 + "\n",
            "the table cannot be read as CSV near line 2: field larger than field limit (131072)",
        ),
        ('a,b,c\n1,"2,3\n', "the table cannot be read as CSV near line 2: unexpected end of data"),
        (b"a,b,c\n1,2,\xff\n", "the table is no text in UTF-8 near line 1"),
    ],
)
def test_table_that_does_not_fit_is_refused_without_its_cells(model, table, words):
    """One line has the row and the column, and shows no number of the table."""
    said = refusal(run(model, table))
    assert said == words
    assert "71.25" not in said


def test_model_without_names_asks_for_a_header_option(tmp_path):
    """Numbers in the first line may be names or rows."""
    X = TABLE.to_numpy()
    fitted = FedGradMPRegressor(2).fit(X, X[:, 0] - X[:, 1])
    (tmp_path / "model").write_text(fitted.to_json())
    path = tmp_path / "model"
    rows = "5,2,3\n1,2,3\n"
    question = "the first line of the table has numbers; expected names, or --header or --no-header"
    assert refusal(run(path, rows)) == question
    assert (
        refusal(run(path, "0,1,2\n5,2,3\n")) == question
    )  # as pandas writes columns without names
    np.testing.assert_allclose(predictions(run(path, rows, "--no-header")), [3.0, -1.0], atol=1e-9)
    np.testing.assert_allclose(
        predictions(run(path, "0,1,2\n5,2,3\n", "--header")), [3.0], atol=1e-9
    )
    np.testing.assert_allclose(predictions(run(path, "x,y,z\n5,2,3\n")), [3.0], atol=1e-9)
    assert refusal(run(path, "x,y\n5,2\n")) == "the table has 2 columns of features; expected 3"


def test_model_with_names_reads_a_table_without_header(model):
    """The columns are in the order of the model."""
    np.testing.assert_allclose(
        predictions(run(model, "5,2,3\n1,2,3\n", "--no-header")), [3.0, -1.0], atol=1e-9
    )
    assert (
        refusal(run(model, "5,2\n", "--no-header"))
        == "the table has 2 columns of features; expected 3"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"7",
        b"\xff\x00",
        b'{"format": "fgmp model 9"}',
        pickle.dumps({"a": 1}),
        b"[" * 100_000,
        b"a,b\n1,2\n",
    ],
)
def test_file_that_is_no_model_is_refused(tmp_path, content):
    """The line has the file, what it should be, and "expected" once."""
    (tmp_path / "model").write_bytes(content)
    said = refusal(run(tmp_path / "model", "a,b,c\n1,2,3\n"))
    assert said.startswith(f"MODEL is {str(tmp_path / 'model')!r}: text is not what to_json of an ")
    assert said.count("expected") <= 1


def test_pickle_is_not_unpickled(tmp_path):
    """A file of joblib would run code, and is no model."""
    joblib.dump(Opened(), tmp_path / "model")
    assert "to_json" in refusal(run(tmp_path / "model", "a,b,c\n1,2,3\n"))
    assert not Opened.was_opened


class Opened:
    """An object that notices when it is unpickled."""

    was_opened = False

    def __setstate__(self, state):
        Opened.was_opened = True

    def __getstate__(self):
        return {"a": 1}


def test_json_of_an_estimator_that_is_not_fitted_is_refused():
    """The error is that of scikit-learn."""
    with pytest.raises(ValueError, match="not fitted yet"):
        FedGradMPRegressor(2).to_json()


CHANGES = {
    "n_features_in_": lambda content: content["attributes"].update(n_features_in_=10**12),
    r"coefficients\[0\].column is 3": lambda content: content["coefficients"][0].update(column=3),
    r"coefficients\[0\].values has 2 numbers": lambda content: content["coefficients"][0].update(
        values=[1.0, 2.0]
    ),
    "a finite number": lambda content: content.update(intercept=[float("nan")]),
    "is no field of a model": lambda content: content["lists"].update(__class__=[1]),
    "estimator is 'Pickle'": lambda content: content.update(estimator="Pickle"),
}


@pytest.mark.parametrize("words", CHANGES)
def test_json_with_parts_that_do_not_fit_is_refused(words):
    """Sizes, columns, names of attributes and of estimators are checked."""
    content = json.loads(FedGradMPRegressor(2).fit(TABLE, TABLE["a"] - TABLE["b"]).to_json())
    CHANGES[words](content)
    with pytest.raises(ValueError, match=words):
        model_from_json(json.dumps(content))


@pytest.mark.parametrize(
    "labels", [["ill", "well"], [0, 1], [1.0, 2.0, 3.0], [True, False], ["a", "b", "c"]]
)
@pytest.mark.parametrize("named", [True, False])
def test_classifier_from_json_has_its_labels(labels, named):
    """Predictions, probabilities and the JSON are the same."""
    y = np.array(labels)[np.arange(60) % len(labels)]
    X = TABLE if named else TABLE.to_numpy()
    model = FedGradMPClassifier(2, rounds=5, C=np.inf).fit(X, y, groups=np.arange(60) % 3)
    again = model_from_json(model.to_json())
    assert again.classes_.dtype == model.classes_.dtype
    assert again.C == np.inf
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.groups_, model.groups_)
    assert again.support_.tolist() == model.support_.tolist()
    assert again.to_json() == model.to_json()


def test_json_of_groups_that_are_dates_is_refused():
    """The message has their type."""
    site = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[np.arange(60) % 2]
    model = FedGradMPRegressor(1).fit(TABLE, TABLE["a"], site)
    with pytest.raises(
        ValueError, match=r"lists.groups_\[0\] is \{'value of type': 'date'\}; expected text"
    ):
        model.to_json()


@pytest.fixture(params=[["north", "coast", "valley"], [7, 12, 30]], ids=["text", "numbers"])
def with_intercepts(request, tmp_path):
    """A model of three groups that are ten apart, and a table with an unknown group."""
    sites = request.param
    groups = np.arange(60) % 3
    y = TABLE["a"] - TABLE["b"] + np.array([0.0, 10.0, 20.0])[groups]
    model = FedGradMPRegressor(2, fit_intercept="per_group").fit(TABLE, y, np.array(sites)[groups])
    (tmp_path / "model").write_text(model.to_json())
    table = f"site,a,b,c\n{sites[2]},1,2,3\n{sites[0]},1,2,3\nelsewhere,1,2,3\n"
    return tmp_path / "model", table


def test_predict_with_groups_reads_the_named_column(with_intercepts):
    """Rows of an unknown group get the common intercept, with a warning."""
    done = run(*with_intercepts, "--groups", "site")
    np.testing.assert_allclose(predictions(done), [19.0, -1.0, 9.0], atol=1e-6)
    words = "groups ['elsewhere'] took no part in the fit: their rows get the common intercept"
    assert f"Warning: {words}" in done.stderr


def test_predict_without_groups_warns_of_the_mean_intercept(with_intercepts):
    """The warning names the option."""
    done = run(*with_intercepts)
    np.testing.assert_allclose(predictions(done), [9.0, 9.0, 9.0], atol=1e-6)
    words = "all rows get the common intercept; --groups COLUMN gives them that of their group"
    assert f"Warning: {words}" in done.stderr


def test_predict_with_groups_in_a_missing_column_is_refused(with_intercepts):
    """The line has the columns that there are."""
    line = refusal(run(*with_intercepts, "--groups", "hospital"))
    assert line.startswith("the table has no column 'hospital'; its")


def test_predict_with_an_empty_group_is_refused(with_intercepts):
    """The line has the row and the column."""
    path, _ = with_intercepts
    line = refusal(run(path, "site,a,b,c\n,1,2,3\n", "--groups", "site"))
    assert line == "row 1 (line 2), column 'site', is empty; expected a value"


def test_groups_for_a_model_with_one_intercept_are_refused(model):
    """They would change nothing."""
    words = "--groups is 'site', and MODEL has one intercept; expected no --groups"
    assert refusal(run(model, "site,a,b,c\nnorth,1,2,3\n", "--groups", "site")) == words


def test_labels_that_look_like_formulas_are_printed_as_text(tmp_path):
    """A spreadsheet would run them."""
    labels = np.array(["=cmd|' /C calc'!A0", "@SUM(A1)", "-1", "+well", "\tx", "well"])[
        np.arange(60) % 6
    ]
    (tmp_path / "model").write_text(FedGradMPClassifier(3, rounds=5).fit(TABLE, labels).to_json())
    printed = list(
        csv.reader(io.StringIO(run(tmp_path / "model", TABLE.to_csv(index=False)).stdout))
    )
    plain = model_from_json((tmp_path / "model").read_text()).predict(TABLE).tolist()
    assert len(set(plain)) > 3
    for label, (cell, *_) in zip(plain, printed[1:], strict=True):
        assert cell == (label if label in ("-1", "well") else f"'{label}")
    assert all(name.startswith("p") for name in printed[0])


def test_inert_quotes_formulas_and_leaves_numbers():
    """Negative numbers are no formulas."""
    texts = ["=1+1", "+x", "-x", "@x", "  =x", "\r=x", "\tx"]
    assert [inert(text) for text in texts] == [f"'{text}" for text in texts]
    assert [inert(value) for value in ("-1.5", "+5", "x=1", -1.5, 7, "")] == [
        "-1.5",
        "+5",
        "x=1",
        -1.5,
        7,
        "",
    ]
