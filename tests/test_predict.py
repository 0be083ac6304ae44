"""A fitted estimator that joblib has kept predicts as before, and `fgmp predict` finds its columns by name."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fgmp.cli import main
from fgmp.estimators import FedGradMPClassifier, FedGradMPRegressor

TABLE = pd.DataFrame(np.random.default_rng(0).standard_normal((60, 3)) * [1, 10, 100], columns=list("abc"))


@pytest.fixture(params=[FedGradMPRegressor, FedGradMPClassifier])
def kept(request, tmp_path):
    y = TABLE["a"] + TABLE["c"] / 100
    y = y if request.param is FedGradMPRegressor else np.where(y > 0, "ill", "well")
    model = request.param(2, rounds=10).fit(TABLE, y, groups=np.arange(60) % 3)
    joblib.dump(model, tmp_path / "model")
    return model, tmp_path / "model"


def run(path, table):
    return CliRunner().invoke(main, ["predict", str(path), "-"], input=table)


def test_what_is_printed_are_the_models_own_predictions_or_one_line_on_what_does_not_fit(kept, tmp_path):
    model, path = kept
    np.testing.assert_array_equal(joblib.load(path).predict(TABLE), model.predict(TABLE))
    shuffled = TABLE[["c", "a", "b"]].assign(more="text").to_csv(index=False)
    printed = pd.read_csv(io.StringIO(run(path, shuffled).output))
    expected = {"prediction": model.predict(TABLE)}
    if isinstance(model, FedGradMPClassifier):
        chances = model.predict_proba(TABLE).T
        expected |= {f"probability of {label}": row for label, row in zip(model.classes_, chances, strict=True)}
    pd.testing.assert_frame_equal(printed, pd.DataFrame(expected), check_dtype=False, rtol=1e-12)
    assert "\nError: TABLE has no column 'c'; expected 'a', 'b', 'c'" in "\n" + run(path, "a,b\n1,2\n").output
    assert "Error: could not convert string to float: 'x'" in run(path, "a,b,c\n1,2,x\n").output
    assert "Error: Found array with 0 sample(s)" in run(path, "a,b,c\n").output
    (tmp_path / "other").write_text("a,b\n1,2\n")
    assert "expected a file that joblib.dump wrote" in run(tmp_path / "other", "a,b,c\n1,2,3\n").output
