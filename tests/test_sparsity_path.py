"""The path over the sparsity: its scores by hand, its choice, and that the fit is its last step."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from cases import (
    ESTIMATORS,
    TABLES,
    classification_table,
    independent_table,
    regression_table,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, PredefinedSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from fgmp.estimators import SparsityPath, session
from fgmp.estimators.folds import assign_folds, deal_clients, n_group_folds
from fgmp.privacy.ledger import Ledger

quiet = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


def folds(X, y, groups, n_folds, seed=3, least=5):
    """The folds of the rows, in the order of the table, for an integer seed of the estimator."""
    drawn = int(np.random.RandomState(seed).randint(2**31 - 1))
    found = np.empty(len(y), int)
    for index, group in enumerate(np.unique(groups)):
        found[groups == group] = assign_folds(y[groups == group], index, n_folds, drawn, least)
    return found


def held_out_losses(X, y, w, of):
    """Half the squared errors of each row by the mean, and by all features, fitted to other folds.

    The columns of the first array are the two models.
    """
    losses = np.empty((len(y), 2))
    for out in (of == fold for fold in np.unique(of)):
        mean = np.average(y[~out], weights=w[~out])
        fit = LinearRegression().fit(X[~out], y[~out], w[~out])
        losses[out] = (
            np.column_stack([np.full(out.sum(), mean), fit.predict(X[out])]) - y[out, None]
        ) ** 2 / 2
    return losses


@quiet  # with five folds one group deals four, or a fold would have four rows
@pytest.mark.parametrize(
    "n_folds, weights", [(2, "none"), (5, "none"), (2, "numbers of rows"), (2, "relative")]
)
def test_score_of_the_path_is_the_loss_on_held_out_rows(n_folds, weights, backend):
    """The mean over rows, and the standard error of its difference from the best one."""
    X, y, groups = regression_table()
    w = np.ones(len(y))
    n_rows = len(y)
    if weights == "relative":
        w = 1e-3 * np.random.default_rng(0).uniform(0.5, 2, len(y))
    elif weights == "numbers of rows":
        w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        n_rows = w.sum()
    model = fgmp.FedGradMPRegressor(
        "cv", sparsities=[0, 12], folds="rows", n_folds=n_folds, random_state=3
    ).fit(X, y, groups, w)
    losses = held_out_losses(X, y, w, folds(X, y, groups, n_folds))
    table = model.cv_.table
    np.testing.assert_allclose(table["score"], np.average(losses, axis=0, weights=w), rtol=1e-6)

    difference = losses[:, 0] - losses[:, 1]
    variance = np.average((difference - np.average(difference, weights=w)) ** 2, weights=w)
    np.testing.assert_allclose(table["standard_error"], [np.sqrt(variance / n_rows), 0], rtol=1e-6)
    assert model.cv_.folds == "rows"


@pytest.mark.parametrize("weighted", [False, True])
def test_score_of_folds_of_groups_is_that_of_leaving_each_group_out(weighted, backend):
    """scikit-learn leaves them out, in a loop of pooled fits; the errors are over the rows."""
    X, y, groups = regression_table()
    w = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    options = dict(folds="groups", n_folds=6, random_state=3)
    model = fgmp.FedGradMPRegressor("cv", sparsities=[0, 12], **options).fit(X, y, groups, w)
    of = np.empty(len(y), int)
    for fold, (_, out) in enumerate(LeaveOneGroupOut().split(X, y, groups)):
        of[out] = fold
    losses = held_out_losses(X, y, w, of)
    table = model.cv_.table
    np.testing.assert_allclose(table["score"], np.average(losses, axis=0, weights=w), rtol=1e-6)

    difference = losses[:, 0] - losses[:, 1]
    variance = np.average((difference - np.average(difference, weights=w)) ** 2, weights=w)
    errors = [np.sqrt(variance / len(y)), 0]
    np.testing.assert_allclose(table["standard_error"], errors, rtol=1e-6)
    assert model.cv_.folds == "groups"


def test_fold_of_several_groups_is_held_out_at_once():
    """Two folds of three groups each, as scikit-learn's `PredefinedSplit` holds them out."""
    X, y, groups = regression_table()
    options = dict(folds="groups", n_folds=2, random_state=3)
    model = fgmp.FedGradMPRegressor("cv", sparsities=[12], **options).fit(X, y, groups)
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    of = np.array(deal_clients(6, 2, seed))[groups]
    assert np.bincount(of[np.unique(groups, return_index=True)[1]]).tolist() == [3, 3]
    errors = -cross_val_score(
        LinearRegression(), X, y, cv=PredefinedSplit(of), scoring="neg_mean_squared_error"
    )
    np.testing.assert_allclose(
        model.cv_.table["score"], np.average(errors, weights=np.bincount(of)) / 2, rtol=1e-6
    )


def test_group_that_is_held_out_has_the_mean_intercept_of_the_others():
    """With an intercept for each group: the within estimator, and the mean of what is left."""
    X, y, groups = regression_table()
    y = y + 2 * groups
    options = dict(folds="groups", n_folds=6, fit_intercept="per_group", random_state=3)
    model = fgmp.FedGradMPRegressor("cv", sparsities=[12], **options).fit(X, y, groups)
    errors = np.empty(len(y))
    for train, out in LeaveOneGroupOut().split(X, y, groups):
        centred = [
            values - np.array([values[groups == g].mean(axis=0) for g in range(6)])[groups]
            for values in (X, y)
        ]
        slopes = np.linalg.lstsq(centred[0][train], centred[1][train], rcond=None)[0]
        intercept = (y[train] - X[train] @ slopes).mean()
        errors[out] = (X[out] @ slopes + intercept - y[out]) ** 2 / 2
    np.testing.assert_allclose(model.cv_.table["score"], [errors.mean()], rtol=1e-6)


def test_group_of_one_class_is_held_out(backend):
    """Its losses count, and the others have both classes."""
    X, y, groups = classification_table()
    y = np.where(groups == 2, "top", y)
    options = dict(folds="groups", n_folds=6, random_state=3)
    model = fgmp.FedGradMPClassifier("cv", sparsities=[12], **options).fit(X, y, groups)
    loss = 0.0
    for train, out in LeaveOneGroupOut().split(X, y, groups):
        pipe = make_pipeline(StandardScaler(), LogisticRegression(C=len(y) / len(train), tol=1e-9))
        found = pipe.fit(X[train], y[train]).predict_proba(X[out])
        loss += log_loss(y[out], found, labels=["mid", "top"]) * len(out) / len(y)
    # Models of a path are minimisers of a quadratic, expanded where the ridge is four times as large.
    np.testing.assert_allclose(model.cv_.table["score"], [loss], rtol=1e-2)


@pytest.mark.parametrize("sparsity", ["all", "cv"])
def test_score_of_each_C_is_that_of_ridge_regression(sparsity, backend):
    """scikit-learn's, on units of the rows that train; the best C is taken and kept."""
    X, y, groups = independent_table(20, 12, n_features=60, n_groups=8)
    y = y + 5 * np.random.default_rng(1).standard_normal(len(y))
    options = dict(folds="groups", n_folds=8, random_state=3, sparsities=[60], method="shared")
    model = fgmp.FedGradMPRegressor(sparsity, C="cv", **options).fit(X, y, groups)
    table = model.cv_.table
    expected = np.zeros(len(table["C"]))
    for train, out in LeaveOneGroupOut().split(X, y, groups):
        for row, C in enumerate(table["C"]):
            alpha = len(train) / len(y) / C
            ridge = make_pipeline(StandardScaler(), Ridge(alpha)).fit(X[train], y[train])
            expected[row] += np.sum((ridge.predict(X[out]) - y[out]) ** 2) / 2 / len(y)
    np.testing.assert_allclose(table["score"], expected, rtol=1e-6)
    assert model.C_ == table["C"][np.argmin(expected)] == model.cv_.chosen_C
    theirs = make_pipeline(StandardScaler(), Ridge(1 / model.C_)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-6)
    assert 0.001 < model.C_ < 100


def test_score_of_each_C_of_labels_is_that_of_logistic_regression(backend):
    """scikit-learn's, on all features."""
    X, y, groups = classification_table()
    options = dict(folds="groups", n_folds=6, random_state=3)
    model = fgmp.FedGradMPClassifier("all", C="cv", **options).fit(X, y, groups)
    table = model.cv_.table
    expected = np.zeros(len(table["C"]))
    for train, out in LeaveOneGroupOut().split(X, y, groups):
        for row, C in enumerate(table["C"]):
            strength = C * len(y) / len(train)
            theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, tol=1e-9))
            found = theirs.fit(X[train], y[train]).predict_proba(X[out])
            expected[row] += log_loss(y[out], found) * len(out) / len(y)
    # Models of a path are minimisers of a quadratic, expanded where the ridge is four times as large.
    np.testing.assert_allclose(table["score"], expected, rtol=2e-2)
    assert model.C_ == table["C"][np.argmin(expected)]


def test_dense_regressor_is_a_ridge_by_default():
    """With C=1: the ridge weighs as much as one row. With C=inf it is least squares."""
    X, y, groups = independent_table(5, 5, n_features=30)
    default = fgmp.FedGradMPRegressor("all").fit(X, y, groups)
    plain = fgmp.FedGradMPRegressor("all", C=np.inf).fit(X, y, groups)
    ridge = make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, y)
    np.testing.assert_allclose(default.predict(X), ridge.predict(X), rtol=1e-6)
    np.testing.assert_allclose(plain.predict(X), LinearRegression().fit(X, y).predict(X), rtol=1e-6)
    assert (default.C_, plain.C_, fgmp.FedGradMPRegressor(3).fit(X, y, groups).C_) == (
        1.0,
        np.inf,
        np.inf,
    )


@pytest.mark.parametrize("C", ["auto", "cv"])
@pytest.mark.parametrize("scale", ["sum one", 1e3])
def test_C_that_is_no_number_is_relative_to_rows_on_any_scale_of_weights(C, scale):
    """A ridge of one row's weight, or the same choice, for weights that sum to one, too."""
    X, y, groups = independent_table(5, 5, n_features=30)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weights *= 1 / weights.sum() if scale == "sum one" else scale
    mean = weights.mean()
    model = fgmp.FedGradMPRegressor("all", C=C, random_state=0, n_folds=2, folds="groups")
    model.fit(X, y, groups, weights)
    strength = model.C_ * mean
    on_rows = fgmp.FedGradMPRegressor("all", C=C, random_state=0, n_folds=2, folds="groups")
    assert strength == pytest.approx(on_rows.fit(X, y, groups, weights / mean).C_)
    assert strength == pytest.approx(1) or C == "cv"
    scaler = StandardScaler().fit(X, sample_weight=weights)
    ridge = Ridge(mean / strength).fit(scaler.transform(X), y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), ridge.predict(scaler.transform(X)), rtol=1e-6)
    note = f"The weights of 150 rows sum to {weights.sum():g}. C is relative to this sum"
    assert note.replace("150", str(len(y))) in " ".join(model.summary().notes)


@quiet
@pytest.mark.parametrize("n_groups, held_out", [(1, "rows"), (9, "rows"), (10, "groups")])
def test_folds_are_of_groups_if_there_are_ten(n_groups, held_out):
    """By default; with fewer groups they hold out rows."""
    X, y, _ = regression_table()
    model = fgmp.FedGradMPRegressor("cv", sparsities=[1, 3], n_folds=3)
    assert model.fit(X, y, np.arange(len(y)) % n_groups).cv_.folds == held_out


@pytest.mark.parametrize("n_groups, secure", [(1, False), (3, True)])
def test_too_few_groups_for_folds_of_them_are_refused(n_groups, secure):
    """The message names the argument, the number, and what was expected."""
    X, y, _ = regression_table()
    model = fgmp.FedGradMPRegressor("cv", folds="groups", secure=secure)
    with pytest.raises(ValueError, match=f'folds is "groups", and the number of groups {n_groups}'):
        model.fit(X, y, np.arange(len(y)) % n_groups)


@pytest.mark.parametrize("n_clients", [4, 7, 40])
@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_fold_of_groups_under_masks_has_at_least_two(n_clients, n_folds):
    """So that the difference of two sums rests on two groups; folds are of equal size."""
    count = n_group_folds(n_clients, n_folds, is_secure=True)
    sizes = np.bincount(deal_clients(n_clients, count, seed=5))
    assert sizes.min() >= 2
    assert np.ptp(sizes) <= 1


@pytest.mark.filterwarnings("ignore:sparsity='cv' has chosen")
def test_fit_under_masks_with_folds_of_groups_opens_no_sum_of_one_group(monkeypatch):
    """The sets of groups over which sums are opened are all groups, and all but a fold."""
    opened = set()
    choose = Ledger.choose

    def keep(self, clients, at_least=1):
        chosen = choose(self, clients, at_least)
        opened.add(frozenset(chosen))
        return chosen

    monkeypatch.setattr(Ledger, "choose", keep)
    X, y, groups = regression_table()
    options = dict(folds="groups", secure=True, random_state=3)
    fgmp.FedGradMPRegressor("cv", sparsities=[1, 3], **options).fit(X, y, groups)
    everybody = frozenset(range(6))
    assert everybody in opened
    assert sorted(len(everybody - clients) for clients in opened) == [0, 2, 2, 2]


def test_score_of_two_classes_is_the_log_loss():
    """Up to the small ridge of the path."""
    X, y, groups = classification_table()
    options = dict(sparsities=[12], folds="rows", n_folds=2, random_state=3, C=np.inf)
    model = fgmp.FedGradMPClassifier("cv", **options).fit(X, y, groups)
    of = folds(X, np.where(y == "top", 1.0, -1.0), groups, 2)
    Z = X / X.std(axis=0)
    loss = 0.0
    for out in (of == 0, of == 1):
        theirs = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000).fit(Z[~out], y[~out])
        loss += log_loss(y[out], theirs.predict_proba(Z[out])) * np.mean(out)
    # Paths have a ridge of at least 1e-4.
    np.testing.assert_allclose(model.cv_.table["score"], [loss], rtol=2e-3)


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_folds_have_equal_shares_of_rows_and_classes(n_folds):
    """In every group."""
    X, y, groups = classification_table(3)
    codes = np.unique(y, return_inverse=True)[1]
    of = folds(X, codes, groups, n_folds, least=1)
    for own in (groups == group for group in range(6)):
        for mask in (own, *(own & (codes == c) for c in range(3))):
            counts = np.bincount(of[mask], minlength=n_folds)
            assert counts.max() - counts.min() <= 1 + (mask.sum() < own.sum())


def path_of(sparsity, C, score, standard_error):
    """The path with these columns."""
    columns = dict(sparsity=sparsity, C=C, score=score, standard_error=standard_error)
    return SparsityPath({name: np.array(values) for name, values in columns.items()}, "rows")


@pytest.mark.parametrize("distance, tau", [(0.49, 2), (0.51, 5)])
def test_path_chooses_smaller_model_within_half_a_standard_error(distance, tau):
    """Of its own difference from the best score."""
    path = path_of([1, 2, 5, 6], [1.0] * 4, [9, 3 + distance, 3, 3.1], [9.0, 1.0, 0.0, 9.0])
    assert path.chosen == tau


PATHS = st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0, 1e3)), min_size=1, max_size=8).map(
    lambda rows: [np.array(column) for column in zip(*rows, strict=True)]
)


@settings(deadline=None)
@given(PATHS, st.sampled_from([2.0**-40, 1.0, 2.0**30]), st.floats(0, 4))
def test_path_chooses_the_first_that_is_as_good_as_the_best(columns, unit, factor):
    """By the words of its formula; in any unit; and no smaller one if errors are smaller."""
    score, error = columns
    error = np.where(score == score.min(), 0.0, error)
    numbers = np.arange(len(score))
    chosen = path_of(numbers, np.ones(len(score)), unit * score, unit * error).chosen

    for k in range(chosen + 1):
        loss = score[k] - score.min()
        gain = score[0] - score.min()
        is_close = loss <= error[k] / 2 or loss <= gain / 2000
        is_edge = np.isclose([error[k] / 2, gain / 2000], loss, rtol=1e-6, atol=1e-8).any()
        assert is_close == (k == chosen) or is_edge
    other = path_of(numbers, np.ones(len(score)), score, factor * error).chosen
    assert (other <= chosen) if factor >= 1 else (other >= chosen)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("noise", [1.0, 1e-26])
def test_path_chooses_the_first_of_scores_that_are_equal_but_for_rounding(noise, unit):
    """Also without noise, where all but the first scores are rounding."""
    shaken = noise * (1 + 1e-14 * np.array([0.0, 5.0, 3.0, -2.0, 1.0, 4.0, -5.0]))
    score = unit * np.append(2.0, shaken)
    table = {
        "sparsity": np.array([0, 0, 2, 2, 3, 3, 4, 4]),
        "C": np.tile([1.0, 10.0], 4),
        "score": score[[0, 0, 1, 2, 3, 4, 5, 6]],
        "standard_error": np.zeros(8),
    }
    path = SparsityPath(table, "rows")
    assert path.chosen == 2 and path.chosen_C == 1.0


def test_path_chooses_the_best_C_of_the_chosen_sparsity():
    """A sparsity counts by its best C, and no other C makes a smaller one eligible."""
    path = path_of([1, 1, 2, 2], [0.1, 1.0, 0.1, 1.0], [9.0, 4.0, 3.2, 3.0], [100.0, 1.0, 1.0, 0.0])
    assert (path.chosen, path.chosen_C) == (2, 1.0)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_cross_validation_chooses_three_features(make):
    """With groups and without, and the plot says so."""
    X, y, groups = TABLES[make](n_rows=1200)
    model = make("cv", random_state=0).fit(X, y, groups)
    one = make("cv", random_state=0).fit(X, y)  # one group validates by its folds
    for support in (model.support_, one.support_):
        np.testing.assert_array_equal(support, [0, 3, 7])
    is_best = one.cv_.table["score"] == one.cv_.table["score"].min()
    np.testing.assert_array_equal(one.cv_.table["standard_error"] > 0, ~is_best)
    assert model.cv_.plot().get_legend().get_texts()[0].get_text() == "chosen: 3"
    plt.close("all")


@pytest.mark.filterwarnings("ignore:sparsity='cv' has chosen")
@pytest.mark.parametrize("make", ESTIMATORS)
def test_groups_of_a_single_row_take_part_in_cross_validation(make):
    """With cohorts, and with an intercept for each group."""
    X, y, groups = TABLES[make]()
    groups = np.where(np.arange(len(y)) < 5, 10 + np.arange(len(y)), groups)
    options = dict(sparsities=[1, 3], min_rows=1, random_state=0)
    model = make("cv", cohort_size=11, **options).fit(X, y, groups)  # of whom a fold has fewer
    assert len(model.groups_) == 11
    assert model.sparsity_ == 3
    if make is fgmp.FedGradMPRegressor:
        own = make("cv", fit_intercept="per_group", **options).fit(X, y, groups)
        assert len(own.groups_) == 11
        assert own.sparsity_ == 3


@quiet
def test_step_of_the_path_drops_the_cheapest_feature():
    """Against least squares on every support with one feature less."""
    X, z, groups = regression_table(n_features=20)
    X[:, 1::2] = X[:, ::2] + 0.3 * X[:, 1::2]
    y = z + X @ np.tile([2.0, -2, 1, 0], 5) / X.std(axis=0).max()
    fits = [fgmp.FedGradMPRegressor(tau).fit(X, y, groups) for tau in range(8, 0, -1)]

    def squares(support):
        return np.sum((LinearRegression().fit(X[:, support], y).predict(X[:, support]) - y) ** 2)

    for model, smaller in pairwise(fits):
        fewer = [np.delete(model.support_, k) for k in range(len(model.support_))]
        np.testing.assert_array_equal(smaller.support_, min(fewer, key=squares))


@quiet
def test_fit_with_cross_validation_is_that_of_the_chosen_sparsity():
    """What the choice sends is counted."""
    X, y, groups = independent_table(20, 12, n_features=60)
    options = dict(method="shared", n_folds=2, random_state=0)
    model = fgmp.FedGradMPRegressor("cv", sparsities=[4, 8, 12], **options).fit(X, y, groups)
    alone = fgmp.FedGradMPRegressor(model.sparsity_, **options).fit(X, y, groups)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    for name in ("round", "bytes_up", "bytes_down"):  # what the choice sends is counted
        ahead = model.history_[name][-1] - alone.history_[name][-1]
        assert ahead > 5 * 2 * 8 * 60 * 10 * (name != "round")


def pairs(seed, n_pairs=60, n_features=8):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_pairs), 2)
    X = rng.standard_normal((2 * n_pairs, n_features))
    y = (
        X[:, 0]
        - X[:, 1]
        + X[:, 2]
        + 3 * rng.standard_normal(n_pairs)[groups]
        + rng.standard_normal(2 * n_pairs)
    )
    return X, y, groups


OWN = dict(fit_intercept="per_group", min_rows=1)


def test_pairs_with_own_intercepts_are_scored_by_their_differences():
    """Half the squared error of a row is half that of the difference."""
    X, y, groups = pairs(0)
    score = (
        fgmp.FedGradMPRegressor(
            "cv", sparsities=[8], folds="rows", n_folds=5, random_state=3, **OWN
        )
        .fit(X, y, groups)
        .cv_.table["score"]
    )
    of = folds(X, y, groups, 5, least=1).reshape(-1, 2)
    D = X[::2] - X[1::2]
    d = y[::2] - y[1::2]
    expected = np.zeros(60)
    for fold in range(5):
        out = (of == fold).any(axis=1)
        found = np.linalg.lstsq(D[~out], d[~out], rcond=None)[0]
        expected[out] += (d[out] - D[out] @ found) ** 2 / 2 / 2  # each difference is held out twice
    np.testing.assert_allclose(score, [expected.mean()], rtol=1e-9)
    with pytest.raises(ValueError, match="n_folds is 2, and no fold leaves rows to learn from"):
        fgmp.FedGradMPRegressor("cv", folds="rows", n_folds=2, **OWN).fit(X, y, groups)


@pytest.mark.parametrize(
    "options", [{"sparsity": 2}, {"sparsity": "cv"}, {"sparsity": 2, "method": "shared"}], ids=str
)
def test_rounds_beside_objectives_are_those_of_rounds_one_after_another(options, monkeypatch):
    """A round is asked for before an objective is known only if it follows whatever that is."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    groups = np.arange(200) % 4

    def fitted():
        return fgmp.FedGradMPClassifier(random_state=0, **options).fit(X, y, groups)

    beside = fitted()
    monkeypatch.setattr(session, "_BesideRounds", lambda **_: fgmp.History())
    alone = fitted()
    np.testing.assert_array_equal(beside.coef_, alone.coef_)
    assert set(beside.history_) == set(alone.history_)
    for name in set(alone.history_) - {"seconds"}:
        np.testing.assert_array_equal(beside.history_[name], alone.history_[name], err_msg=name)
    sums = [[stage._replace(began="") for stage in model.exchanges_] for model in (beside, alone)]
    assert sums[0] == sums[1]


def explained(model):
    """What the summary says of the choice, as a sentence; "" if it says nothing."""
    found = [note for note in model.summary().notes if "that were held out" in note]
    return found[0] if found else ""


@quiet
def test_summary_says_what_the_choice_costs_beside_all_features():
    """All features and none, as scikit-learn fits them without each fold."""
    X, y, groups = regression_table()
    y = y + 3 * np.random.default_rng(1).standard_normal(len(y))
    model = fgmp.FedGradMPRegressor("cv", n_folds=5, random_state=3).fit(X, y, groups)
    losses = held_out_losses(X, y, np.ones(len(y)), folds(X, y, groups, 5)).sum(axis=0)
    assert 0 < model.sparsity_ < 12
    words = f"with {model.sparsity_} features, {1 - losses[1] / losses[0]:.3f} with all 12."
    assert explained(model).startswith("R2 on rows that were held out: ")
    assert explained(model).endswith(words)
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    assert explained(again) == explained(model)


@quiet
def test_summary_says_nothing_of_a_cost_that_is_not_known():
    """All were chosen, or were not tried, or there was no choice; several classes have D2."""
    X, y, groups = regression_table()
    for options in (dict(sparsity=3), dict(sparsities=[2, 12]), dict(sparsities=[0, 3])):
        model = fgmp.FedGradMPRegressor(**{"sparsity": "cv", "random_state": 0, **options})
        assert explained(model.fit(X, y, groups)) == ""
    dense = fgmp.FedGradMPRegressor("cv", sparsities=[0, 12], random_state=0)
    assert dense.fit(X, y, groups).sparsity_ == 12 and explained(dense) == ""
    three = fgmp.FedGradMPClassifier("cv", random_state=0).fit(X, np.digitize(y, [-2, 2]), groups)
    assert explained(three).startswith("D2 on rows that were held out: ")
    assert "auc" not in three.cv_.table


def auc_within_groups(y, predictions, groups, w):
    """The mean of the AUC of each group, by scikit-learn, with numbers of pairs as weights."""
    areas = []
    pairs = []
    for rows in (groups == group for group in np.unique(groups)):
        areas.append(roc_auc_score(y[rows], predictions[rows], sample_weight=w[rows]))
        pairs.append(w[rows & y].sum() * w[rows & ~y].sum())
    return np.average(areas, weights=pairs)


def labels_of_groups(weighted):
    """A table of two classes, with groups of unequal size and rows that are there twice."""
    X, labels, groups = classification_table()
    y = labels == "top"
    kept = np.arange(len(y)) % (2 + groups) > 0
    X, y, groups = (np.concatenate([one[kept], one[:40]]) for one in (X, y, groups))
    w = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    return X, y, groups, w


@quiet
@pytest.mark.parametrize("held_out", ["rows", "groups"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, "per_group"])
def test_auc_of_the_path_is_that_of_predictions_on_held_out_rows(held_out, weighted, intercept):
    """Of those that scikit-learn's pooled fits without each fold make, by scikit-learn's AUC."""
    X, y, groups, w = labels_of_groups(weighted)
    options = dict(folds=held_out, n_folds=6, random_state=3, fit_intercept=intercept)
    model = fgmp.FedGradMPClassifier("cv", **options, C=np.inf, min_rows=1).fit(X, y, groups, w)
    of = folds(X, y, groups, 6, least=1)
    if held_out == "groups":
        of = np.array(deal_clients(6, 6, int(np.random.RandomState(3).randint(2**31 - 1))))[groups]
    has_own = intercept == "per_group"
    columns = np.column_stack([X, np.eye(6)[groups]]) if has_own else X
    predictions = np.empty(len(y))
    for out in (of == fold for fold in range(6)):
        fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000, fit_intercept=not has_own)
        fit.fit(columns[~out], y[~out], w[~out])
        predictions[out] = fit.decision_function(columns[out])
    expected = auc_within_groups(y, predictions, groups, w)
    assert model.cv_.auc[12] == pytest.approx(expected, abs=2e-3)  # a path stops near its minimiser
    assert 0 < model.sparsity_ < 12
    chosen, dense = (model.cv_.auc[k] for k in (model.sparsity_, 12))
    assert explained(model) == (
        f"AUC on {held_out} that were held out: {chosen:.3f} with {model.sparsity_} features, "
        f"{dense:.3f} with all 12, of pairs of rows within a group."
    )
    assert explained(fgmp.FedGradMPClassifier.from_json(model.to_json())) == explained(model)


@quiet
@pytest.mark.parametrize("weighted", [False, True])
def test_auc_of_one_column_on_groups_held_out_is_that_of_the_column(weighted):
    """The order of the rows of a group hangs on no coefficient; ties count half."""
    X, y, groups, w = labels_of_groups(weighted)
    X = np.round(X[:, :1], 1)
    options = dict(folds="groups", n_folds=6, min_rows=1, random_state=3)
    model = fgmp.FedGradMPClassifier("cv", **options).fit(X, y, groups, w)
    expected = auc_within_groups(y, X[:, 0] * np.sign(model.coef_[0, 0]), groups, w)
    np.testing.assert_allclose([model.cv_.auc[k] for k in (0, 1)], [0.5, expected], rtol=1e-12)


@quiet
@pytest.mark.parametrize("secure", [False, True])
def test_auc_leaves_out_groups_with_few_rows_of_a_class(secure):
    """It is that of the others; without others there is D2, and the summary says why."""
    X, labels, groups = classification_table()
    y = labels == "top"
    y[np.flatnonzero(y & (groups == 2))[4:]] = False
    options = dict(folds="groups", n_folds=3, random_state=3, secure=secure)
    model = fgmp.FedGradMPClassifier("cv", **options).fit(X[:, :1], y, groups)
    rows = groups != 2
    predictions = X[rows, 0] * np.sign(model.coef_[0, 0])
    expected = auc_within_groups(y[rows], predictions, groups[rows], np.ones(len(y))[rows])
    assert model.cv_.auc[1] == pytest.approx(expected, abs=1e-9 if secure else 1e-12)

    for group in range(6):
        y[np.flatnonzero(y & (groups == group))[4:]] = False
    none = fgmp.FedGradMPClassifier("cv", **options).fit(X, y, groups)
    assert none.cv_.auc == {} and none.sparsity_ < 12
    assert explained(none).startswith("D2 on groups that were held out: ")
    assert "no group has min_rows rows of each class" in explained(none)


@quiet
def test_under_masks_pairs_are_those_of_the_only_group_with_both_classes():
    """An attack that works, and that docs/promises.md names: the AUC of a fit is that of one group."""
    X, labels, groups = classification_table()
    y = labels == "top"
    for group in range(5):
        y[np.flatnonzero(y & (groups == group))[4:]] = False
    options = dict(folds="groups", n_folds=3, random_state=3, secure=True)
    model = fgmp.FedGradMPClassifier("cv", **options).fit(X[:, :1], y, groups)
    own = roc_auc_score(y[groups == 5], X[groups == 5, 0] * np.sign(model.coef_[0, 0]))
    assert model.cv_.auc[1] == pytest.approx(own, abs=1e-9)


@quiet
@pytest.mark.parametrize(
    "n_rows, p, largest", [(90, 9, 9), (120, 41, 20), (150, 45, 45), (300, 60, 20)]
)
def test_path_tries_all_features_if_it_begins_with_them(n_rows, p, largest):
    """Up to 50 that are a third of the rows."""
    X, y, groups = independent_table(n_rows // 10, n_features=p)
    model = fgmp.FedGradMPRegressor("cv", n_folds=2, random_state=0).fit(X, y, groups)
    assert model.cv_.table["sparsity"].max() == largest


@quiet
def test_choice_among_counts_of_many_groups_hardly_hangs_on_the_seed():
    """Lengths of stay at 12 hospitals: weak effects, and counts that vary more than Poisson's."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 30)
    X = (rng.random((360, 5)) < [0.15, 0.9, 0.2, 0.2, 0.1]).astype(float)
    mean = np.exp(2.2 + X @ [-0.1, 0, 0, 0.25, 0.7] + 0.2 * rng.standard_normal(12)[groups])
    y = rng.poisson(mean * rng.gamma(2, 1 / 2, 360))
    first, second = (
        fgmp.FedGradMPRegressor("cv", loss="poisson", random_state=seed).fit(X, y, groups)
        for seed in range(2)
    )
    assert 4 in first.support_
    np.testing.assert_array_equal(first.support_, second.support_)


@quiet
@pytest.mark.parametrize("held_out", ["rows", "groups"])
def test_clear_gain_is_not_given_up_because_three_groups_differ(held_out):
    """One is predicted well, and two hardly: an error over three numbers hides the gain."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 100)
    X = rng.standard_normal((300, 6)) * np.array([2, 1, 1])[groups, None]
    y = np.array([2, 0.4, 0.3])[groups] * X[:, 0] + rng.logistic(size=300) > 0
    model = fgmp.FedGradMPClassifier("cv", folds=held_out, random_state=0).fit(X, y, groups)
    assert 0 in model.support_


@quiet
@pytest.mark.parametrize("seed", [0, 1])
def test_nearly_exact_model_has_no_features_for_what_one_fold_missed(seed):
    """Eight of 300 features, means and variances that differ, noise of 2e-3."""
    fed = fgmp.make_sparse_regression(
        30, 60, 300, sparsity=8, heterogeneity=5.0, noise_variance=4e-6, rng=906
    )
    X = np.vstack([client.features for client in fed.clients])
    y = np.concatenate([client.targets for client in fed.clients])
    model = fgmp.FedGradMPRegressor("cv", fit_intercept=False, random_state=seed)
    model.fit(X, y, np.repeat(np.arange(30), 60))
    np.testing.assert_array_equal(model.support_, np.flatnonzero(fed.truth))


@quiet
@pytest.mark.parametrize("make", [fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier])
def test_folds_run_no_rounds_that_would_select_all_features(make, backend):
    """Rounds are those on all rows; with more columns than these select, folds have some, too.

    A column that varies in one row alone is constant outside of the fold of this row.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 30))
    X[:, 3] = np.arange(240) == 17
    y = (2 * X[:, 1] + rng.standard_normal(240) > 0).astype(int)
    for n_columns, has_rounds in ((8, False), (30, True)):
        model = make("cv", sparsities=[0, 1, 2, 3], random_state=0)
        model.fit(X[:, :n_columns], y, np.arange(240) % 4)
        rounds = sum(one.rounds for one in model.exchanges_ if "client selects" in one.what)
        assert (rounds > model.n_iter_) == has_rounds
        assert 1 in model.support_
        assert np.isfinite(model.cv_.table["score"]).all()


@pytest.mark.parametrize("seed", [0, 3])
def test_under_masks_columns_that_depend_on_others_have_the_scores_of_the_open(seed):
    """The resolution of masks is no curvature, along which a path would run away."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1200, 6))
    X = np.hstack([X, X[:, :3] - X[:, 3:], X[:, :2] + X[:, 2:4]])
    y = X[:, 0] - X[:, 4] + rng.standard_normal(1200)
    model = fgmp.FedGradMPRegressor("cv", n_folds=4, folds="groups", random_state=0)
    in_the_open, under_masks = (
        clone(model).set_params(secure=secure).fit(X, y, groups=np.arange(1200) % 60)
        for secure in (False, True)
    )
    scores = in_the_open.cv_.table["score"]
    np.testing.assert_allclose(under_masks.cv_.table["score"], scores, rtol=1e-7)
    np.testing.assert_allclose(under_masks.coef_, in_the_open.coef_, rtol=1e-7, atol=1e-9)
