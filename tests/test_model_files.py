"""A file of a model is refused by the name of what is wrong in it, or is a model that works.

`models` has files that version 0.2 wrote, and one of the version after it, `given_levels`. They are
read as they are, and written to the same bytes.
"""

import copy
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from json_changes import sample_of_changes

import fgmp
from fgmp.estimators import model_from_json

FILES = {path.stem: path.read_text() for path in Path(__file__).with_name("models").glob("*.json")}
each_file = pytest.mark.parametrize("name", sorted(FILES))


def content_of(name):
    return json.loads(FILES[name])


def rows_for(model, n_rows=12):
    """Rows as the model takes them: text and gaps where it has been fitted to these."""
    rng = np.random.default_rng(0)
    if hasattr(model, "encoding_"):
        columns = {}
        for variable in model.encoding_.variables:
            numbers = rng.standard_normal(n_rows)
            if variable.has_indicator:
                numbers[:2] = np.nan
            texts = rng.choice(["A", "B", "C", "unknown"], n_rows)
            columns[variable.name] = texts if variable.is_category else numbers
        return pd.DataFrame(columns)
    if model.n_features_in_ > 1000:
        n_rows = 1
    X = rng.standard_normal((n_rows, model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        return pd.DataFrame(X, columns=model.feature_names_in_)
    return X


# Files of version 0.2.


@each_file
def test_file_of_an_earlier_version_is_read_and_written_to_the_same_bytes(name):
    """With all that it holds."""
    assert model_from_json(FILES[name]).to_json() + "\n" == FILES[name]


@pytest.mark.parametrize("name", ["all_features", "counts", "masks", "noise", "three_classes"])
def test_file_of_version_0_2_predicts_what_its_numbers_say(name):
    """Intercept and coefficients times columns, added up by hand, for each group of its own."""
    content = content_of(name)
    model = model_from_json(FILES[name])
    X = rows_for(model)
    groups = [group for group, _ in content.get("intercepts", [])]
    intercepts = [value for _, value in content.get("intercepts", [])] or [content["intercept"]]
    group_of_row = [row % len(intercepts) for row in range(len(X))]
    z = np.array([np.ravel(intercepts[group]) for group in group_of_row], np.float64)
    for entry in content["coefficients"]:
        z += np.outer(np.asarray(X)[:, entry["column"]], entry["values"])
    passed = np.array(groups)[group_of_row] if groups else None
    if name == "three_classes":
        expected = np.array(content["lists"]["classes_"])[z.argmax(axis=1)]
        np.testing.assert_allclose(model.decision_function(X, passed), z, rtol=1e-12)
        np.testing.assert_array_equal(model.predict(X, passed), expected)
        return
    expected = np.exp(z[:, 0]) if name == "counts" else z[:, 0]
    np.testing.assert_allclose(model.predict(X, groups=passed), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:levels that the fit did not see")
def test_file_of_version_0_2_with_categories_predicts_what_its_numbers_say():
    """Levels, gaps and the reference, added up by hand."""
    content = content_of("categories")
    model = model_from_json(FILES["categories"])
    names = {entry["name"]: entry["values"][0] for entry in content["coefficients"]}
    means = {one["name"]: one["mean"] for one in content["encoding"]}
    rows = [
        {"age": 61.0, "dose": 2.5, "weight": 70.0, "ward": "B"},
        {"age": 52.0, "dose": None, "weight": 90.0, "ward": None},
        {"age": 40.0, "dose": 3.0, "weight": 60.0, "ward": "A"},
        {"age": 40.0, "dose": 3.0, "weight": 60.0, "ward": "nowhere"},
    ]
    expected = []
    for row in rows:
        z = content["intercept"][0]
        for name in ("age", "dose", "weight"):
            value = means[name] if row[name] is None else row[name]
            z += names.get(name, 0) * value
            z += names.get(f"{name} is missing", 0) * (row[name] is None)
        ward = "ward is missing" if row["ward"] is None else f"ward={row['ward']}"
        expected.append(z + names.get(ward, 0))
    found = model.decision_function(pd.DataFrame(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert model.predict(pd.DataFrame(rows)).tolist() == [
        content["lists"]["classes_"][z > 0] for z in expected
    ]


def test_file_without_what_later_versions_added_is_read():
    """Of version 0.2 as it came out: no loss, no categories, no seed, no exchanges."""
    content = content_of("masks")
    for name in ("loss", "missing", "always_include", "categories", "random_state"):
        del content["parameters"][name]
    del content["exchanges"], content["lists"]["missing_"]
    model = model_from_json(json.dumps(content))
    assert model.loss == "squared" and model.exchanges_ == () and model.missing_.size == 0
    assert repr(model.summary()) and str(model.report())
    content = content_of("three_classes")
    del content["covariance"]["class_rows"]
    assert repr(model_from_json(json.dumps(content)).summary())


# Any change of a file.


def assert_works(model, with_performance):
    """It predicts finite numbers, and whatever it says of itself, it says."""
    X = rows_for(model)
    groups = np.resize(np.asarray(model.groups_, object), len(X))
    for passed in (None, groups):
        if hasattr(model, "classes_"):
            assert np.isfinite(model.decision_function(X, passed)).all()
            assert np.isfinite(model.predict_proba(X, passed)).all()
            assert np.isin(model.predict(X, passed), model.classes_).all()
        else:
            assert np.isfinite(model.predict(X, passed)).all()
    if hasattr(model, "covariance_"):
        assert repr(model.summary())
    if hasattr(model, "cv_"):
        assert repr(model.cv_) and model.cv_.chosen >= 0 and model.cv_.chosen_C > 0
    assert repr(model) and str(model.report())
    text = model.to_json()
    assert model_from_json(text).to_json() == text

    is_measured = with_performance and model.n_features_in_ < 1000 and not model.secure
    if is_measured and model.min_rows <= 6:
        y = np.resize(getattr(model, "classes_", np.arange(3)), len(X))
        for by in ("groups", "all"):
            assert repr(model.performance(X, y, np.arange(len(X)) % 2, by=by))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@each_file
def test_any_change_of_a_file_is_refused_by_its_field_or_leaves_a_model_that_works(name):
    """Each place is replaced, deleted, doubled, or has one more: a sample of all such changes."""
    content = content_of(name)
    n_works = 0
    for change in sample_of_changes(content, 250, np.random.default_rng(1)):
        text = json.dumps(change.of(content))
        try:
            model = model_from_json(text)
        except ValueError as error:
            message = str(error)
            fields = [key for key in change.path if isinstance(key, str)]
            assert message.startswith("text is not what to_json of an estimator wrote: ")
            assert not fields or "one more" in message or any(key in message for key in fields)
            continue
        n_works += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", fgmp.AdviceWarning)
            assert_works(model, with_performance=n_works % 12 == 0)
    assert n_works > 10


def at(path, value):
    """Return the change that puts a value at a place."""

    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


def append(path, make):
    """Return the change that appends to a list what is made of its first entry."""

    def change(content):
        for key in path:
            content = content[key]
        content.append(make(content[0]))

    return change


CLASSES = ("lists", "classes_")
FIRST = ("coefficients", 0)
# The file, what is changed, and words of the message.
REFUSED = {
    "labels swapped": ("categories", at(CLASSES, ["well", "ill"]), "classes_ .*increasing order"),
    "one label": ("categories", at(CLASSES, ["ill"]), "lists.classes_ is .*at least 2"),
    "no label": ("categories", at(CLASSES, []), "lists.classes_ is .*at least 2"),
    "no labels": ("categories", lambda c: c["lists"].pop("classes_"), "lists.classes_ is None"),
    "a label twice": ("three_classes", at(CLASSES, [0, 0, 1]), "lists.classes_ .*different"),
    "labels nested": ("categories", at(CLASSES, [["ill"], ["well"]]), r"lists.classes_\[0\]"),
    "labels of kinds": ("three_classes", at(CLASSES, [0, 1, "2"]), "all text or all numbers"),
    "a label more": ("three_classes", at(CLASSES, [0, 1, 2, 3]), "has 3 numbers; expected 4"),
    "a label less": ("three_classes", at(CLASSES, [0, 1]), "has 3 numbers; expected 1"),
    "truth and one": ("three_classes", at(CLASSES, [0, 1, True]), "lists.classes_ .*different"),
    "labels of numbers": ("masks", at(CLASSES, [0, 1]), "lists.classes_ .*FedGradMPRegressor"),
    "another estimator": (
        "categories",
        at(("estimator",), "FedGradMPRegressor"),
        "lists.classes_ .*estimator",
    ),
    "a classifier": ("masks", at(("estimator",), "FedGradMPClassifier"), "loss|classes_"),
    "nan": ("counts", at(("intercepts", 0, 1), float("nan")), r"intercepts\[0\]\[1\] is nan"),
    "null": ("counts", at(("intercepts", 0, 1), None), r"intercepts\[0\]\[1\] is None"),
    "inf": ("counts", at(("intercepts", 1, 1), float("inf")), r"intercepts\[1\]\[1\] is inf"),
    "inf among coefficients": (
        "masks",
        at((*FIRST, "values", 0), -float("inf")),
        r"coefficients\[0\].values\[0\] is -inf",
    ),
    "beyond all floats": (
        "masks",
        at((*FIRST, "values", 0), 10**400),
        r"coefficients\[0\].values\[0\] is 1000",
    ),
    "beyond all integers": (
        "masks",
        at(("attributes", "n_iter_"), 10**400),
        "attributes.n_iter_ is 1000",
    ),
    "a column twice": (
        "masks",
        append(("coefficients",), lambda first: first | {"values": [99.0]}),
        "coefficients has a column twice",
    ),
    "a deviation twice": (
        "masks",
        append(("covariance", "deviations"), copy.deepcopy),
        "deviations has a column twice",
    ),
    "a group twice": (
        "counts",
        append(("intercepts",), lambda first: [first[0], 5.0]),
        "intercepts has a group twice",
    ),
    "groups twice": ("masks", at(("lists", "groups_"), [0, 1, 1, 2]), "lists.groups_ .*different"),
    "another name": (
        "counts",
        at((*FIRST, "name"), "elsewhere"),
        r"coefficients\[0\].name is 'elsewhere'; expected 'age'",
    ),
    "names shorter": (
        "counts",
        at(("lists", "feature_names_in_"), ["age", "dose"]),
        "lists.feature_names_in_ .*expected 3 different names",
    ),
    "a loss": ("counts", at(("parameters", "loss"), "hinge"), "loss is 'hinge'"),
    "a method": ("counts", at(("attributes", "method_"), "magic"), "attributes.method_ is 'magic'"),
    "text for C": ("masks", at(("attributes", "C_"), "one"), "attributes.C_ is 'one'"),
    "text for rows": ("masks", at(("covariance", "n_rows"), "60"), "covariance.n_rows is '60'"),
    "no groups": ("masks", at(("covariance", "n_groups"), 0), "covariance.n_groups is 0"),
    "no rows at least": ("masks", at(("parameters", "min_rows"), 0), "parameters.min_rows is 0"),
    "below no rows": ("masks", at(("parameters", "min_rows"), -5), "parameters.min_rows is -5"),
    "gigabytes": (
        "all_features",
        at(("attributes", "n_features_in_"), 2**31 - 1),
        "n_features_in_|feature_names_in_",
    ),
    "gigabytes without names": (
        "three_classes",
        at(("attributes", "n_features_in_"), 2**31 - 1),
        "attributes.n_features_in_ is 2147483647",
    ),
    "gigabytes of classes": (
        "three_classes",
        lambda c: (at(("attributes", "n_features_in_"), 2**24)(c), at(CLASSES, [*range(5)])(c)),
        "attributes.n_features_in_ is 16777216, with 5 classes",
    ),
    "a negative variance": (
        "counts",
        at(("covariance", "model_based", 1, 1), -1e-3),
        "covariance.model_based has a negative variance",
    ),
    "a negative variance by group": (
        "counts",
        at(("covariance", "by_group", 1, 1), -1.0),
        "covariance.by_group has a negative variance",
    ),
    "a negative deviation": (
        "masks",
        at(("covariance", "deviations", 0, "value"), -1.0),
        r"covariance.deviations\[0\].value is -1",
    ),
    "rows of more classes": (
        "three_classes",
        append(("covariance", "class_rows"), lambda first: first),
        "covariance.class_rows has 4 numbers",
    ),
    "a level twice": ("categories", at(("encoding", 3, "levels"), ["B", "B"]), "levels of 'ward'"),
    "levels of a number": ("categories", at(("encoding", 0, "levels"), ["B"]), "mean of 'age'"),
    "a mean of a category": ("categories", at(("encoding", 3, "mean"), 1.0), "mean of 'ward'"),
    "no encoding": ("categories", lambda content: content.pop("encoding"), "encoding is None"),
    "always what is not there": (
        "categories",
        at(("parameters", "always_include"), ["height"]),
        "always_include has 'height'",
    ),
    "other categories": (
        "categories",
        at(("parameters", "categories"), ["dose"]),
        "encoding has the categories .*ward.*dose",
    ),
    "a field of a later version": ("masks", at(("more",), 1), "more is no field"),
    "a parameter of nothing": ("masks", at(("parameters", "shape"), 1), "parameters.shape is no"),
    "one intercept for all": (
        "counts",
        at(("parameters", "fit_intercept"), True),
        "intercepts is given, and parameters.fit_intercept is True",
    ),
    "sizes of a choice": (
        "counts",
        append(("cross_validation", "score"), lambda first: first),
        "cross_validation.score has",
    ),
    "a group that took part and did not": (
        "categories",
        at(("lists", "missing_"), ["north"]),
        "lists.missing_ and lists.groups_ both have .*north",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_file_whose_parts_do_not_fit_is_refused_by_its_field(why):
    """The message has the field, what came, and what was expected."""
    name, change, words = REFUSED[why]
    content = content_of(name)
    change(content)
    with pytest.raises(ValueError, match=words):
        model_from_json(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        (None, "expected JSON"),
        ("[]", r"the JSON is \[\]; expected a"),
        ('{"format": 1, "format": 2}', "the field 'format' is there twice"),
        ('{"fgmp": ' + "1" * 5000 + "}", "expected JSON"),
    ],
)
def test_text_that_is_no_file_is_refused(text, words):
    """Cut short, too deep, no text at all, a field twice, numbers that Python does not read."""
    with pytest.raises(ValueError, match=words):
        model_from_json(text)


def test_file_of_a_million_columns_has_a_summary():
    """A few coefficients have names, and the others none."""
    content = content_of("three_classes")
    content["attributes"]["n_features_in_"] = 10**6
    model = model_from_json(json.dumps(content))
    features = model.summary().columns["feature"].tolist()
    assert set(features) == {f"x{entry['column']}" for entry in content["coefficients"]}


def test_variance_that_is_rounding_below_zero_is_zero():
    """A cluster sandwich may round to it."""
    content = content_of("counts")
    content["covariance"]["by_group"][0][0] = -1e-22
    columns = model_from_json(json.dumps(content)).summary().columns
    assert columns["standard_error_by_group"][0] == 0


def test_words_of_a_file_are_words_where_they_are_names():
    """A column that is called as the word for infinity stays a column, and C is infinity."""
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 3)), columns=["inf", "a", "b"])
    estimator = fgmp.FedGradMPRegressor(1, always_include=["inf"], C=np.inf)
    again = model_from_json(estimator.fit(X, X["a"]).to_json())
    assert again.always_include == ["inf"] and again.C == np.inf


SPOILED = {
    "coef_": lambda model: setattr(model, "coef_", model.coef_ * np.nan),
    "intercepts": lambda model: model.intercepts_.update(south=np.inf),
    "feature_names_in_": lambda model: setattr(model, "feature_names_in_", ["a", "b"]),
    "missing_": lambda model: setattr(model, "missing_", model.groups_),
    "min_rows": lambda model: model.set_params(min_rows=0),
}


@pytest.mark.parametrize("what", SPOILED)
def test_model_that_could_not_be_read_again_is_not_written(what):
    """Its attributes, or parameters, were changed since the fit."""
    model = model_from_json(FILES["counts"])
    SPOILED[what](model)
    with pytest.raises(ValueError, match="the model is none that JSON can hold"):
        model.to_json()


def test_intercept_that_a_group_has_worked_out_goes_through_json():
    """As `intercept_of` returns it, for a group that took no part."""
    for name, value in (("counts", 0.25), ("three_classes", np.array([0.5, 0.0, -0.5]))):
        model = model_from_json(FILES[name])
        model.intercepts_["elsewhere"] = value
        again = model_from_json(model.to_json())
        np.testing.assert_array_equal(again.intercepts_["elsewhere"], value)


def test_model_that_says_it_has_fewer_columns_is_refused_when_it_is_written():
    """It is a ValueError, as for every attribute that was changed after the fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    model = fgmp.FedGradMPRegressor(2).fit(X, X[:, 3] - X[:, 2], groups=np.arange(60) % 3)
    model.n_features_in_ = 1
    with pytest.raises(ValueError, match="none that JSON can hold"):
        model.to_json()


def test_label_that_json_cannot_hold_is_refused():
    """A long double is no number of Python."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    groups = (np.arange(60) % 3).astype(np.longdouble)
    model = fgmp.FedGradMPRegressor(2).fit(X, X[:, 3] - X[:, 2], groups=groups)
    with pytest.raises(ValueError, match="groups_"):
        model.to_json()
