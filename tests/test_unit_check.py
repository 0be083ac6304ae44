"""A group in other units is named, also under masks, and groups in common units are not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from fgmp._support import warnings as advice


def table(n_groups=10, factor=1.0, shift=0.0, seed=0):
    """y = x0 + 0.5 x1 + noise, with x0 in other units in the last group."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60 * n_groups, 4)) + [0, 3, 0, 50]
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(len(X))
    groups = np.array([f"site {k % n_groups}" for k in range(len(X))])
    X[groups == f"site {n_groups - 1}", 0] *= factor
    X[groups == f"site {n_groups - 1}", 3] += shift
    return pd.DataFrame(X, columns=["height", "age", "dose", "temperature"]), y, groups


def advice_on_units(model, X, y, groups):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, groups)
    return [str(one.message) for one in caught if "whose spread or mean" in str(one.message)]


@pytest.mark.parametrize("n_groups", [3, 10])
@pytest.mark.parametrize("factor", [100, 1 / 100, 38.7])
def test_a_group_in_other_units_is_named_with_its_column(factor, n_groups):
    """Centimetres for metres, and cholesterol in milligrams."""
    (said,) = advice_on_units(fgmp.FedGradMPRegressor(2), *table(n_groups, factor))
    last = n_groups - 1
    assert f"'height' at the group 'site {last}'" in said
    assert not any(name in said for name in ("age", "dose", "temperature"))


def test_under_masks_the_column_is_named_and_not_the_group():
    """The advice has the column and how many groups, and no name of a group."""
    (said,) = advice_on_units(fgmp.FedGradMPRegressor(2, secure=True), *table(5, 100))
    assert "'height' at 1 of 5 groups" in said and "site" not in said


def test_a_factor_of_a_column_far_from_zero_names_the_group_alone():
    """Cholesterol is 5.2 +- 1 or 200 +- 40: the common mean is far from that of all groups."""
    X, y, groups = table(5)
    X["chol"] = np.random.default_rng(0).normal(5.2, 1, len(X)) * np.where(
        groups == "site 0", 39, 1
    )
    (said,) = advice_on_units(fgmp.FedGradMPRegressor(2), X, y, groups)
    assert "'chol' at the group 'site 0'" in said


def test_another_zero_of_a_scale_is_noticed():
    """Fahrenheit for Celsius: a mean that is many deviations away."""
    (said,) = advice_on_units(fgmp.FedGradMPRegressor(2), *table(4, shift=60))
    assert "'temperature'" in said


def test_targets_in_other_units_are_noticed():
    """The advice has the target and the group whose values are a thousand times as large."""
    X, y, groups = table(6)
    (said,) = advice_on_units(
        fgmp.FedGradMPRegressor(2), X, np.where(groups == "site 2", 1000 * y, y), groups
    )
    assert "'y' at the group 'site 2'" in said


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_wine])
@pytest.mark.parametrize("how", ["at random", "by the first column"])
def test_tables_in_common_units_are_left_alone(load, how):
    """Also if groups differ as much as a column that they are sorted by makes them."""
    X, y = load(return_X_y=True)
    order = (
        np.argsort(X[:, 0]) if how != "at random" else np.random.default_rng(0).permutation(len(X))
    )
    groups = np.empty(len(X), int)
    groups[order] = np.arange(len(X)) * 6 // len(X)
    kind = fgmp.FedGradMPRegressor if load is load_diabetes else fgmp.FedGradMPClassifier
    assert advice_on_units(kind(3), X, y, groups) == []


def test_indicators_and_facts_of_a_site_have_no_unit_to_get_wrong():
    """Rare indicators and columns that are constant in a site give no advice."""
    X, y, groups = table(8)
    rng = np.random.default_rng(1)
    rare = np.where(groups == "site 1", 0.5, 0.002)
    X = X.assign(
        smokes=rng.random(len(X)) < rare,
        beds=pd.Series(groups).map({f"site {k}": 10.0**k for k in range(8)}),
    )
    assert advice_on_units(fgmp.FedGradMPRegressor(2), X, y, groups) == []


def test_weights_of_rows_leave_the_number_of_groups_whole():
    """With weights the advice still has the column and the group."""
    X, y, groups = table(5, 100)
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    with pytest.warns(fgmp.AdviceWarning, match="'height' at the group 'site 4'"):
        fgmp.FedGradMPRegressor(2).fit(X, y, groups, sample_weight=weights)


# What a fit is not given, and who takes no part.


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_fit_inside_scikit_learn_without_groups_says_so_once(is_nested, monkeypatch):
    """One warning has the call that helps, in a pipeline too."""
    monkeypatch.setattr(advice, "_ADVISED_TOPICS", set())
    X, y, _ = table(3)
    model = fgmp.FedGradMPRegressor(2)
    if is_nested:
        model = make_pipeline(StandardScaler(), model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(model, X, y, cv=3)
        if not is_nested:
            GridSearchCV(model, {"sparsity": [1, 2]}, cv=2).fit(X, y)
        LinearRegression().fit(X, y)
    said = [str(one.message) for one in caught if "got no groups" in str(one.message)]
    assert len(said) == 1 and "set_fit_request(groups=True)" in said[0]


def test_a_fit_of_ones_own_without_groups_is_silent():
    """A fit without groups outside of cross-validation gives no warning."""
    X, y, _ = table(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fgmp.FedGradMPRegressor(2).fit(X, y)


def test_groups_and_missing_hold_who_took_part_and_who_did_not():
    """Groups with too few rows or without weight are missing."""
    X, y, groups = table(4)
    groups = groups.astype(object)
    groups[:3] = "tiny"
    weights = np.where(groups == "site 1", 0.0, 1.0)
    with pytest.warns(fgmp.AdviceWarning, match=r"fewer than min_rows=5 rows \('tiny'\)"):
        model = fgmp.FedGradMPRegressor(2).fit(X, y, groups, sample_weight=weights)
    assert model.groups_.tolist() == ["site 0", "site 2", "site 3"]
    assert model.missing_.tolist() == ["site 1", "tiny"]
