"""A fitted model goes into a file and comes back with the same predictions; `fgmp predict` finds columns by name."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fgmp.cli import main
from fgmp.estimators import (
    FedGradMPClassifier,
    FedGradMPRegressor,
    load_model,
    model_of,
    predict_rows,
    save_model,
)

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.standard_normal((60, 5)) * [1, 10, 100, 1, 1] + 3, columns=list("abcde"))
SITES = np.arange(60) % 3
TARGETS = {
    "regressor": 2 * TABLE["a"] - TABLE["c"] / 50 + 1,
    "two": np.where(TABLE["a"] > 3, "ill", "well"),
    "three": np.where(TABLE["a"] > 3.5, 2, np.where(TABLE["c"] > 0, 1, 0)),
}


def fitted(name):
    kind = FedGradMPRegressor if name == "regressor" else FedGradMPClassifier
    return kind(sparsity=2, random_state=0, rounds=5).fit(TABLE, TARGETS[name], groups=SITES)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_a_file_predicts_as_the_model(name, tmp_path):
    model = fitted(name)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    shuffled = TABLE[["e", "c", "a", "b", "d"]].assign(more="text")
    (tmp_path / "new.csv").write_text(shuffled.to_csv(index=False))
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "model.json"), str(tmp_path / "new.csv")])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.output)))
    if name == "regressor":
        np.testing.assert_allclose([float(row["prediction"]) for row in rows], model.predict(TABLE), rtol=1e-12)
    else:
        assert [row["prediction"] for row in rows] == [str(label) for label in model.predict(TABLE)]
        chances = [[float(row[f"probability of {label}"]) for label in model.classes_] for row in rows]
        np.testing.assert_allclose(chances, model.predict_proba(TABLE), rtol=1e-12)
    assert json.loads((tmp_path / "model.json").read_text())["coefficients"].keys() <= set("abcde")


def test_a_model_of_coefficients_that_were_found_elsewhere(tmp_path):
    model = model_of({"b": 2.0}, 1.0, ["a", "b"])
    save_model(model, tmp_path / "m")
    assert predict_rows(load_model(tmp_path / "m"), io.StringIO("b\n3\n")) == [{"prediction": 7.0}]


def test_only_columns_with_a_coefficient_are_needed_and_each_needs_a_number():
    model = model_of({"b": 2.0}, 1.0, ["a", "b"])
    assert predict_rows(model, io.StringIO("b,c\n3,\n4,x\n")) == [{"prediction": 7.0}, {"prediction": 9.0}]
    assert predict_rows(model, io.StringIO("b\n")) == []
    with pytest.raises(ValueError, match="table has no column 'b'"):
        predict_rows(model, io.StringIO("a\n3\n"))
    for text in ("", "many", "nan", "inf"):
        with pytest.raises(ValueError, match="column 'b' is .* in line 3; expected a finite number"):
            predict_rows(model, io.StringIO(f"b,c\n1,1\n{text},1\n"))


@pytest.mark.parametrize(
    "change",
    [
        {"fgmp model": 2},
        {"kind": "os.system"},
        {"columns": 3},
        {"coefficients": {"z": [1.0]}},
        {"coefficients": {"b": [1.0, 2.0]}},
        {"coefficients": {"b": ["x"]}},
        {"intercept": []},
        {"intercept": [float("nan")]},
    ],
)
def test_what_is_no_model_is_refused(change, tmp_path):
    save_model(model_of({"b": 2.0}, 1.0, ["a", "b"]), tmp_path / "m")
    whole = json.loads((tmp_path / "m").read_text()) | change
    (tmp_path / "m").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="expected a model"):
        load_model(tmp_path / "m")
    (tmp_path / "new.csv").write_text("b\n1\n")
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "m"), str(tmp_path / "new.csv")])
    assert result.exit_code == 1 and "expected a model" in result.output


def test_an_intercept_for_each_group_has_no_file(tmp_path):
    model = FedGradMPRegressor(2, fit_intercept="per_group", rounds=3).fit(TABLE, TARGETS["regressor"], groups=SITES)
    with pytest.raises(ValueError, match="an intercept for each group"):
        save_model(model, tmp_path / "m")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (({"c": 1.0}, 0.0, ["a"]), "coefficients has 'c'"),
        (([1.0, 2.0], 0.0, ["a"]), "coefficients has 2 entries"),
        (([1.0], 0.0, "a"), "feature_names is 'a'"),
        (([np.inf], 0.0, ["a"]), "coefficients holds 1 values that are not finite"),
    ],
)
def test_what_does_not_fit_a_model_is_named(given, words):
    with pytest.raises(ValueError, match=words):
        model_of(*given)
