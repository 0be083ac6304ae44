"""The bootstrap over groups and rows, against weighted least squares, and its plot."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from cases import classification_table, regression_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

import fgmp
from fgmp.estimators import fitting
from fgmp.estimators.selection_path import method_of_rounds


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_resample_is_a_fit_with_counts_as_weights(over):
    """Groups or rows that are drawn several times have as much weight."""
    X, y, groups = regression_table()
    least = int(np.bincount(groups).min())  # of which a resample has fewer
    model = fgmp.FedGradMPRegressor(12, cohort_size=6, min_rows=least, random_state=0).fit(
        X, y, groups
    )
    found = model.bootstrap(3, over=over, random_state=0)
    rng = np.random.RandomState(0)
    for coef in found.coef:
        counts = (
            rng.multinomial(6, np.full(6, 1 / 6))[groups] if over == "groups" else np.empty(len(y))
        )
        for own in (groups == g for g in range(6) if over == "rows"):
            counts[own] = rng.multinomial(own.sum(), np.full(own.sum(), 1 / own.sum()))
        np.testing.assert_allclose(
            coef[0], LinearRegression().fit(X, y, sample_weight=counts).coef_, rtol=1e-7
        )


@pytest.fixture(scope="module")
def genes():
    """A bootstrap of a classifier that chose four of twelve named features."""
    X, y, groups = classification_table(3)
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(12)])
    model = fgmp.FedGradMPClassifier("cv", sparsities=[4], n_folds=2)
    with pytest.warns(fgmp.AdviceWarning, match="rows are of the class 'low' at the group 0"):
        model.fit(frame, y, groups)
    # Of one size there is no choice, and resamples have it, whatever the parameters are now.
    return model.set_params(sparsities=[9]).bootstrap(8, random_state=0)


def test_bootstrap_always_includes_true_features(genes):
    """The fourth feature is another one in different resamples."""
    np.testing.assert_array_equal(genes.inclusion[[0, 3, 7]], 1)
    assert np.delete(genes.inclusion, [0, 3, 7]).max() < 1
    assert genes.inclusion.sum() == pytest.approx(4)


def test_interval_of_bootstrap_has_quantiles_of_coefficients(genes):
    """By default it covers 95 %."""
    bounds = [bound[2, 7] for bound in genes.interval()]
    expected = np.quantile(genes.coef[:, 2, 7], [0.025, 0.975])
    np.testing.assert_allclose(bounds, expected)


def test_plot_of_bootstrap_has_names_and_shares_of_inclusion(genes):
    """The features that are included most often."""
    ax = genes.plot(most=4)
    assert {label.get_text() for label in ax.get_yticklabels()} > {"gene0", "gene3", "gene7"}
    assert [bar.get_width() for bar in ax.patches] == sorted(genes.inclusion)[-4:]
    assert ax.get_title() == "the 4 most frequent of 12 columns"
    ax = genes.plot()
    assert len(ax.patches) == 12 and ax.get_title() == "all 12 columns"
    plt.close("all")


def test_plot_of_bootstrap_explains_filled_bars_if_some_are_not(genes):
    """Three features are in each resample and in the fit; of all, some are not in the fit."""
    assert genes.plot(most=3).get_xlabel() == "share of 8 resamples"
    assert genes.plot().get_xlabel() == "share of 8 resamples (filled: in the fit)"
    plt.close("all")


def weak_signals(**options):
    """Return a model that chooses among features of which some hardly matter, and its table."""
    rng = np.random.default_rng(4)
    X, groups = rng.standard_normal((240, 5)), np.arange(240) % 12
    y = X @ [1, 0.15, 0.1, 0.1, 0] + rng.standard_normal(240)
    model = fgmp.FedGradMPRegressor("cv", random_state=3, rounds=2, tol=1.0, n_folds=2, **options)
    return model.fit(X, y, groups), X, y, groups


@pytest.mark.parametrize("over", ["groups", "rows"])
@pytest.mark.parametrize("C", ["auto", "cv"])
def test_resample_chooses_again_as_a_fit_to_its_rows_does(over, C):
    """The sparsity, and C, of the folds of the resample, whatever the parameters are now."""
    model, X, y, groups = weak_signals(C=C, folds="groups", sparsities=[0, 1, 2, 5])
    model.set_params(sparsities=[3], folds="rows")
    found = model.bootstrap(3, over=over, random_state=0)
    rng = np.random.RandomState(0)
    draws = []
    for _ in range(3):
        counts = np.empty(240)
        if over == "groups":
            counts = rng.multinomial(12, np.full(12, 1 / 12))[groups]
        for own in (groups == group for group in range(12) if over == "rows"):
            counts[own] = rng.multinomial(own.sum(), np.full(own.sum(), 1 / own.sum()))
        draws.append(counts)
    seeds = rng.randint(2**31 - 1, size=3) if over == "rows" else np.full(3, 3)
    options = {"C": C, "rounds": 2, "tol": 1.0, "n_folds": 2, "min_rows": 1, "folds": "groups"}
    again = fgmp.FedGradMPRegressor("cv", sparsities=[0, 1, 2, 5], **options)
    for coef, counts, seed in zip(found.coef, draws, seeds.tolist(), strict=True):
        again.set_params(random_state=seed).fit(X, y, groups, sample_weight=counts)
        np.testing.assert_allclose(coef[0], again.coef_, rtol=1e-9, atol=1e-12)
    assert repr(found).startswith("Bootstrap(3 resamples, choosing again, x0 1")


def test_choice_of_the_fit_is_kept_if_asked_for():
    """Then all resamples have as many features; if they choose again their numbers differ."""
    model, X, y, groups = weak_signals(sparsities=[0, 1, 2, 5])
    kept = model.bootstrap(8, choose_again=False)
    again = model.bootstrap(8)
    assert set(np.count_nonzero(kept.coef, axis=2).ravel()) == {model.sparsity_}
    assert len(set(np.count_nonzero(again.coef, axis=2).ravel())) > 1
    assert "8 resamples, all as the fit chose" in repr(kept)
    assert "8 resamples, choosing again" in again._repr_html_()
    fixed = fgmp.FedGradMPRegressor(1).fit(X, y, groups)
    with pytest.raises(ValueError, match="choose_again is True, and the fit chose nothing"):
        fixed.bootstrap(2, choose_again=True)


def test_bootstrap_has_the_seed_of_the_model():
    """Calls have one answer, and another seed another one."""
    model, *_ = weak_signals()
    first, second = (model.bootstrap(3).coef for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, model.bootstrap(3, random_state=3).coef)
    assert not np.array_equal(first, model.bootstrap(3, random_state=4).coef)


@pytest.mark.parametrize(("over", "n_jobs"), [("rows", None), ("rows", 2), ("groups", None)])
def test_warnings_of_resamples_are_counted_and_said_once_at_the_line_of_the_user(over, n_jobs):
    """In this process and in others; the fit itself warns at its own line."""
    X, y, groups = regression_table(n_features=30)
    with pytest.warns(ConvergenceWarning, match="the rounds ran out"):
        model = fgmp.FedGradMPRegressor(3, rounds=2, tol=1e-6).fit(X, y, groups)
    with pytest.warns(ConvergenceWarning) as caught:
        model.bootstrap(3, over=over, random_state=0, n_jobs=n_jobs)
    (only,) = caught
    assert str(only.message).startswith("3 of 3 resamples have a warning, the first one: the round")
    assert only.filename == __file__


@pytest.mark.filterwarnings("ignore:sparsity='cv' has chosen 3, the largest")
def test_resample_of_folds_of_groups_has_two_of_them_at_least():
    """Of three groups one alone is drawn in a ninth of draws, and leaves nothing to choose with."""
    X, y, _ = regression_table()
    model = fgmp.FedGradMPRegressor("cv", folds="groups", sparsities=[1, 3], random_state=0)
    found = model.fit(X, y, np.arange(len(y)) % 3).bootstrap(20)
    assert np.isfinite(found.coef).all() and found.n_drawn == 3
    model.fit(X, y, np.arange(len(y)) % 2)
    assert model.bootstrap(2, choose_again=False).n_drawn == 2
    with pytest.raises(ValueError, match="chose by folds of groups, and there are 2; expected"):
        model.bootstrap(2)


@pytest.mark.filterwarnings("ignore:no feature is in the model")
def test_bootstrap_of_an_empty_model_says_that_no_feature_is_in_any():
    """In place of an empty list of shares."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(0).fit(X, y, groups)
    assert repr(model.bootstrap(2, over="rows")) == "Bootstrap(2 resamples, no feature in any)"


def test_pickled_model_has_no_rows():
    """A bootstrap of it is refused."""
    X, y, groups = regression_table()
    stored = pickle.dumps(fgmp.FedGradMPRegressor(3).fit(X, y, groups))
    assert len(stored) < 20_000 < X.nbytes
    with pytest.raises(ValueError, match="the model has no rows"):
        pickle.loads(stored).bootstrap(3)


def test_draw_that_misses_a_class_is_repeated():
    """Many draws miss a class that one group has alone."""
    X, _, groups = regression_table()
    labels = np.where(groups < 5, "mid", "top")
    found = fgmp.FedGradMPClassifier(3).fit(X, labels, groups).bootstrap(5, random_state=0)
    assert np.isfinite(found.coef).all()


def test_bootstrap_whose_draws_all_miss_a_class_is_an_error():
    """All of twenty groups are drawn with probability 20!/20^20."""
    X, _, _ = regression_table()
    groups = np.arange(len(X)) % 20
    model = fgmp.FedGradMPClassifier(1, rounds=1).fit(X, groups, groups)
    with pytest.raises(ValueError, match="100 draws in a row missed a class"):
        model.bootstrap(1, random_state=0)


def test_plot_shows_names_that_look_like_formulas():
    """Dollar signs and backslashes in names are no formulas."""
    X, y, groups = regression_table()
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


def test_bootstrap_of_a_private_model_is_refused():
    """Every resample would spend its epsilon again."""
    X, y, groups = regression_table(n_rows=1200)
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
    X, y, groups = classification_table(2)
    model = fgmp.FedGradMPClassifier(4, C=0.3).fit(X, y, groups)
    found = model.bootstrap(3, random_state=0)
    rng = np.random.RandomState(0)
    n_groups = len(model.groups_)
    for coef in found.coef:
        counts = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups))[groups]
        weighted = fgmp.FedGradMPClassifier(4, C=0.3, min_rows=1)
        weighted.fit(X, y, groups, sample_weight=counts)
        np.testing.assert_allclose(coef, weighted.coef_, rtol=1e-6)


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_resample_of_relative_weights_is_a_fit_to_repeated_rows_on_any_scale(over, monkeypatch):
    """Survey weights that sum to one; a row that is drawn twice counts as two."""
    X, y, groups = regression_table()
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weights /= weights.sum()
    options = {"min_rows": 1, "random_state": 0}
    model = fgmp.FedGradMPRegressor(3, **options).fit(X, y, groups, sample_weight=weights)
    numbers_of_rows = []

    def listen(settings, grid):
        numbers_of_rows.append(settings.n_counted)
        return method_of_rounds(settings, grid)

    monkeypatch.setattr(fitting, "method_of_rounds", listen)
    found = model.bootstrap(3, over=over, random_state=0).coef[:, 0]
    rng = np.random.RandomState(0)
    for coef in found:
        if over == "groups":
            counts = rng.multinomial(6, np.full(6, 1 / 6))[groups]
        else:
            counts = np.empty(len(y), int)
            for own in (groups == g for g in range(6)):
                counts[own] = rng.multinomial(own.sum(), np.full(own.sum(), 1 / own.sum()))
        rows = np.repeat(np.arange(len(y)), counts)
        again = fgmp.FedGradMPRegressor(3, **options)
        again.fit(X[rows], y[rows], groups[rows], sample_weight=40 * weights[rows])
        np.testing.assert_allclose(coef, again.coef_, rtol=1e-6, atol=1e-9)
    assert numbers_of_rows[:3] == numbers_of_rows[3:]  # of the resamples, and of the fits
    assert over == "groups" or numbers_of_rows[:3] == 3 * [len(y)]


def test_the_number_of_processes_changes_no_bit_and_the_repr_is_short():
    """One process and two give the same coefficients, and the repr is short."""
    X, y, groups = regression_table()
    model = fgmp.FedGradMPRegressor(3).fit(X, y, groups)
    one, two = (model.bootstrap(4, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)
    rows = [model.bootstrap(3, "rows", random_state=0, n_jobs=n_jobs).coef for n_jobs in (None, 2)]
    np.testing.assert_array_equal(*rows)
    assert len(repr(one)) < 120 and repr(one).startswith("Bootstrap(4 resamples of only 6 groups, ")


def test_resamples_in_which_classes_are_separated_are_left_out_and_counted():
    """Those without a row of the rare feature against it; a fit to the rows of each says so."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal(400), np.zeros(400)])
    y = X[:, 0] + rng.logistic(size=400) > 0
    X[[*np.flatnonzero(y)[:5], *np.flatnonzero(~y)[:2]], 1] = 1
    model = fgmp.FedGradMPClassifier("all", C=np.inf).fit(X, y, groups=np.arange(400) % 4)
    with pytest.warns(UserWarning, match="resamples have no finite model, because classes are"):
        bootstrap = model.bootstrap(20, over="rows", random_state=0)
    assert bootstrap.n_separated + len(bootstrap.coef) == 20
    assert 0 < bootstrap.n_separated < 10
    assert np.isfinite(bootstrap.coef).all() and abs(bootstrap.coef).max() < 20
    assert bootstrap.note.startswith(f"{bootstrap.n_separated} more resamples have no finite model")
    assert bootstrap.note in bootstrap._repr_html_()
