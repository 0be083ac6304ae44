"""What an estimator warns of: rows out of order, codes that pass for amounts, ends of what was tried."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from cases import regression_table

import fgmp
from fgmp.estimators import model_from_json


def labelled_table():
    """A table of 60 rows whose labels are no count from zero, its outcome, and the group of each row."""
    rng = np.random.default_rng(0)
    labels = 100 + rng.permutation(60)
    X = pd.DataFrame(rng.standard_normal((60, 3)), labels, columns=["age", "weight", "pressure"])
    return X, 2 * X["weight"], pd.Series(np.arange(60) % 4, labels)


@pytest.mark.parametrize("name", ["y", "groups", "sample_weight"])
def test_rows_out_of_order_are_warned_of(name):
    """Of each column by its name, with labels of any kind, and never silently."""
    X, y, groups = labelled_table()
    passed = {"y": y, "groups": groups, "sample_weight": groups + 1.0}
    passed[name] = passed[name].sort_index()
    with pytest.warns(fgmp.AdviceWarning, match=f"{name} has other row labels than X"):
        fgmp.FedGradMPRegressor(1).fit(X, **passed)


def test_rows_of_a_counted_table_out_of_order_are_warned_of():
    """X was numbered anew, and y keeps the order of a shuffle."""
    X, y, _ = labelled_table()
    X = X.reset_index(drop=True)
    shuffled = y.reset_index(drop=True).sample(frac=1, random_state=0)
    with pytest.warns(fgmp.AdviceWarning, match="y has other row labels than X"):
        fgmp.FedGradMPRegressor(1).fit(X, shuffled)


def test_rows_in_order_are_not_warned_of():
    """With the same labels, with labels that pandas gave by itself, and without any."""
    X, y, groups = labelled_table()
    with warnings.catch_warnings(action="error"):
        fgmp.FedGradMPRegressor(1).fit(X, y, groups)
        fgmp.FedGradMPRegressor(1).fit(X, y.reset_index(drop=True), groups.to_numpy())
        fgmp.FedGradMPRegressor(1).fit(X.to_numpy(), y, groups.tolist())


def test_columns_of_codes_are_warned_of_unless_they_are_categories():
    """A few whole numbers; neither truths nor measurements, and only in a table that has kinds."""
    X, y, groups = labelled_table()
    X["pain"] = np.arange(60) % 4
    X["smokes"] = np.arange(60) % 2
    X["ward"] = np.where(np.arange(60) % 3 == 0, "A", "B")
    with pytest.warns(fgmp.AdviceWarning, match=r"the columns \['pain'\] hold a few whole numbers"):
        fgmp.FedGradMPRegressor(1, categories=["ward"]).fit(X, y, groups)
    with warnings.catch_warnings(action="error"):
        fgmp.FedGradMPRegressor(1, categories=["ward", "pain"]).fit(X, y, groups)


def test_choice_at_the_end_of_what_was_tried_is_warned_of():
    """Of the sparsity and of C; not where every feature is in the model."""
    X, y, groups = regression_table()
    with pytest.warns(fgmp.AdviceWarning, match="sparsity='cv' has chosen 1, the largest number"):
        fgmp.FedGradMPRegressor("cv", sparsities=[0, 1], n_folds=2, random_state=0).fit(
            X, y, groups
        )
    noise = np.random.default_rng(1).standard_normal(len(y))
    with pytest.warns(fgmp.AdviceWarning, match=r"C='cv' has chosen 0\.001, the smallest"):
        fgmp.FedGradMPRegressor("all", C="cv", n_folds=2, random_state=0).fit(X, noise, groups)
    X, y = X[:, :2], X[:, 0] - X[:, 1]
    with warnings.catch_warnings(action="error"):
        model = fgmp.FedGradMPRegressor("cv", sparsities=[1, 2], n_folds=2).fit(X, y, groups)
    assert model.sparsity_ == 2


def test_bootstrap_of_few_groups_says_so():
    """With the number of different samples, which there are ten of three groups."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(2).fit(X, y, groups % 3)
    few = model.bootstrap(5, random_state=0)
    assert "5 resamples of only 3 groups" in repr(few)
    assert few.note.startswith("Drawn from 3 groups, of which there are 10 different samples")
    assert few.note in few._repr_html_()
    assert not model.bootstrap(5, over="rows", random_state=0).note
    many = fgmp.FedGradMPRegressor(2).fit(X, y, np.arange(len(y)) % 12)
    assert not many.bootstrap(5, random_state=0).note


def test_model_and_report_say_with_which_version_and_seed_it_was_fitted():
    """Those of the fit, after JSON, too, and of a generator that it is one."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(2, random_state=7).fit(X, y, groups)
    assert dict(model.report().facts)["made by"] == f"fgmp {fgmp.__version__}, random_state=7"
    content = json.loads(model.to_json())
    content["fgmp"] = "0.1"
    again = model_from_json(json.dumps(content))
    assert dict(again.report().facts)["made by"] == "fgmp 0.1, random_state=7"
    assert json.loads(again.to_json()) == content
    model.set_params(random_state=np.random.RandomState(0)).fit(X, y, groups)
    assert dict(model.report().facts)["made by"].endswith("random_state=a generator")
    assert model_from_json(model.to_json()).random_state is None
