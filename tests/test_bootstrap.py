"""The bootstrap over groups and rows against weighted least squares, and what its plot shows."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from test_estimators import classification, regression

import fgmp


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_a_resample_is_a_weighted_fit(over):
    X, y, groups = regression()
    least = int(np.bincount(groups).min())  # of which a resample has fewer
    model = fgmp.FedGradMPRegressor(12, cohort_size=6, min_rows=least, random_state=0).fit(
        X, y, groups
    )
    found, rng = model.bootstrap(3, over=over, random_state=0), np.random.RandomState(0)
    for coef in found.coef:
        counts = (
            rng.multinomial(6, np.full(6, 1 / 6))[groups] if over == "groups" else np.empty(len(y))
        )
        for own in (groups == g for g in range(6) if over == "rows"):
            counts[own] = rng.multinomial(own.sum(), np.full(own.sum(), 1 / own.sum()))
        np.testing.assert_allclose(
            coef[0], LinearRegression().fit(X, y, sample_weight=counts).coef_, rtol=1e-7
        )


def test_what_is_there_is_found_again_and_the_picture_has_its_names():
    X, y, groups = classification(3)
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(12)])
    model = fgmp.FedGradMPClassifier("cv", sparsities=[4], n_folds=2).fit(frame, y, groups)
    found = model.set_params(sparsities=[9]).bootstrap(
        8, random_state=0
    )  # which has settled on four
    np.testing.assert_array_equal(found.inclusion[[0, 3, 7]], 1)
    assert np.delete(
        found.inclusion, [0, 3, 7]
    ).max() < 1 and found.inclusion.sum() == pytest.approx(4)
    bounds = [bound[2, 7] for bound in found.interval()]
    np.testing.assert_allclose(bounds, np.quantile(found.coef[:, 2, 7], [0.025, 0.975]))
    ax = found.plot(most=4)
    assert {label.get_text() for label in ax.get_yticklabels()} > {"gene0", "gene3", "gene7"}
    assert [bar.get_width() for bar in ax.patches] == sorted(found.inclusion)[-4:]
    plt.close("all")


def test_the_data_stay_behind_when_a_model_travels():
    X, y, groups = regression()
    stored = pickle.dumps(fgmp.FedGradMPRegressor(3).fit(X, y, groups))
    assert len(stored) < 20_000 < X.nbytes
    with pytest.raises(ValueError, match="the model has no rows"):
        pickle.loads(stored).bootstrap(3)


def test_a_draw_that_misses_a_class_is_drawn_again():
    X, _, groups = regression()
    labels = np.where(
        groups < 5, "mid", "top"
    )  # one class is in one group only, and many draws miss it
    found = fgmp.FedGradMPClassifier(3).fit(X, labels, groups).bootstrap(5, random_state=0)
    assert np.isfinite(found.coef).all()
    groups = np.arange(len(X)) % 20  # of which all are drawn with probability 20!/20^20
    with pytest.raises(ValueError, match="100 draws in a row missed a class"):
        fgmp.FedGradMPClassifier(1, rounds=1).fit(X, groups, groups).bootstrap(1, random_state=0)


def test_names_are_drawn_as_they_are():
    X, y, groups = regression()
    names = ["Revenue (US$) per cost (US$)", "b$_$", r"c\d^2", *(f"x{j}" for j in range(9))]
    found = (
        fgmp.FedGradMPRegressor(12)
        .fit(pd.DataFrame(X, columns=names), y, groups)
        .bootstrap(2, "rows")
    )
    ax = found.plot()
    ax.figure.canvas.draw()  # where a formula that is none would be an error
    assert {label.get_text() for label in ax.get_yticklabels()} == set(names)
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())
    plt.close("all")


def test_a_private_model_does_not_spend_its_epsilon_again():
    X, y, groups = regression(n_rows=1200)
    exact = dict(standardize=False, fit_intercept=False, polish=False)
    model = fgmp.FedGradMPRegressor(
        3, private=fgmp.GaussianNoise(50.0, 5.0), rounds=2, **exact
    ).fit(X, y, groups)
    for over in ("groups", "rows"):
        with pytest.raises(
            ValueError, match="private is given, and every resample would spend its epsilon again"
        ):
            model.bootstrap(2, over)


def test_drawn_groups_count_as_rows_of_their_weight():
    """Of a logistic model, too: the fit to whole groups with weights is that of weighted rows."""
    X, y, groups = classification(2)
    model = fgmp.FedGradMPClassifier(4, C=0.3).fit(X, y, groups)
    found = model.bootstrap(3, random_state=0)
    rng = np.random.RandomState(0)
    n_groups = len(model.groups_)
    for coef in found.coef:
        counts = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups))[groups]
        weighted = fgmp.FedGradMPClassifier(4, C=0.3, min_rows=1)
        weighted.fit(X, y, groups, sample_weight=counts)
        np.testing.assert_allclose(coef, weighted.coef_, rtol=1e-6)


def test_the_number_of_processes_changes_no_bit_and_the_repr_is_short():
    X, y, groups = regression()
    model = fgmp.FedGradMPRegressor(3).fit(X, y, groups)
    one, two = (model.bootstrap(4, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)
    rows = [model.bootstrap(3, "rows", random_state=0, n_jobs=n_jobs).coef for n_jobs in (None, 2)]
    np.testing.assert_array_equal(*rows)
    assert len(repr(one)) < 120 and repr(one).startswith("Bootstrap of 4 resamples: ")
