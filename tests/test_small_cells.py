"""Small cells: what a client sends of a class, a level or a gap that fewer than `min_rows` rows have."""

from collections import defaultdict
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import repeatable
from sklearn.metrics import brier_score_loss, roc_auc_score

import fgmp
from fgmp.estimators import model_from_json
from fgmp.estimators.client_sums import ClientSums, Sum
from fgmp.estimators.encoding import RawTable
from fgmp.estimators.performance_sums import HeldOutPairs
from fgmp.estimators.session import words_on
from fgmp.estimators.small_cells import OTHER, Counts, fill_small_cells
from fgmp.method import Call

pytestmark = pytest.mark.filterwarnings(
    "ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
CLASSIFIER, REGRESSOR = fgmp.FedGradMPClassifier, fgmp.FedGradMPRegressor
LEVELS = {"ward": ["A", "B", "rare", "single"]}
ENCODED = {"missing": "indicator", "categories": LEVELS}


def hospitals(n_rows=240, n_groups=4, seed=0):
    """Return a table with a category and gaps in which no cell is small, outcomes and groups."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n_rows) % n_groups
    table = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n_rows),
            "dose": rng.normal(3, 1, n_rows),
            "ward": np.where(np.arange(n_rows) // n_groups % 3 == 0, "B", "A").astype(object),
        }
    )
    table.loc[rng.random(n_rows) < 0.25, "dose"] = np.nan
    score = (table["age"] - 60) / 10 + (table["ward"] == "B") + rng.logistic(size=n_rows)
    return table, np.array(score), groups


# What each sum sends: a walk over all of them.


def sums_that_exist(kind=ClientSums):
    """Return all classes of sums that a client may be asked for; a class added later is one."""
    found = {kind} if kind.sums is not ClientSums.sums else set()
    return found.union(*(sums_that_exist(below) for below in kind.__subclasses__()))


def of_the_package(kinds):
    """Return classes without those that tests define."""
    return {kind for kind in kinds if kind.__module__.startswith("fgmp.")}


def sent_in(run):
    """Return what each client sends in a run, in its order, by the kind of the question."""
    sent = defaultdict(list)
    honest = Call.update_of

    def listen(self, client, message):
        update = honest(self, client, message)
        update_of = self.exchange.client_update
        kind = type(getattr(update_of, "func", update_of).__self__)
        array = getattr(update, "values", update)
        where = getattr(update, "support", np.zeros(0)).tobytes()
        sent[kind, client.client_id].append((np.array(array), where))
        return update

    with pytest.MonkeyPatch.context() as patch, fgmp.backend("reference"):
        patch.setattr(Call, "update_of", listen)
        run()
    return sent


def bits_of(sent):
    """Return what was sent as bytes, to be compared bit for bit."""
    return {key: [(a.shape, a.tobytes(), b) for a, b in arrays] for key, arrays in sent.items()}


def fit(make, table, y, groups, **options):
    """Return a fit to be run."""
    return lambda: make(**options, rounds=3, random_state=0).fit(table, y, groups)


# Fits that ask for each sum there is; of y they take the score itself, whether it is above zero, or
# a count.
FITS = {
    "a choice": (CLASSIFIER, {"sparsity": "cv", "n_folds": 2, "sparsities": [1, 2]}),
    "a choice of numbers": (REGRESSOR, {"sparsity": "cv", "n_folds": 2, "sparsities": [1, 2]}),
    "a choice with masks": (CLASSIFIER, {"sparsity": "cv", "n_folds": 2, "secure": True}),
    "own intercepts": (REGRESSOR, {"sparsity": 2, "fit_intercept": "per_group"}),
    "own intercepts of classes": (CLASSIFIER, {"sparsity": 1, "fit_intercept": "per_group"}),
    "counts, gradients": (REGRESSOR, {"sparsity": 2, "loss": "poisson", "method": "shared"}),
}


def outcome_of(name, score):
    """Return the outcome that a fit takes."""
    if FITS[name][0] is CLASSIFIER:
        return score > 0
    return np.round(np.exp(score / 4)) if "counts" in name else score


def with_small_cells(table, groups):
    """Return a table in which hospital 1 has few rows of a level, few gaps, and few known values.

    And what these count as: the most frequent level, the mean, and missing.
    """
    small, filled = table.copy(), table.copy()
    rows = np.flatnonzero(groups == 1)
    filled.loc[rows, "dose"] = table.loc[rows, "dose"].fillna(2.5)
    small.loc[rows, "dose"] = filled.loc[rows, "dose"]
    small.loc[rows[:4], "dose"] = np.nan
    filled.loc[rows[:4], "dose"] = small.loc[rows[4:], "dose"].to_numpy().mean()
    small.loc[rows[5:8], "ward"] = "rare"
    filled.loc[rows[5:8], "ward"] = "A"
    others = np.flatnonzero(groups == 2)
    filled.loc[others, "dose"] = np.nan
    small.loc[others, "dose"] = np.nan
    small.loc[others[:4], "dose"] = 1.0
    return small, filled


@pytest.mark.parametrize("name", FITS)
def test_no_sum_of_a_fit_tells_a_small_level_or_gap(name):
    """Every number of every client is that of a table in which there is no such cell."""
    make, options = FITS[name]
    table, score, groups = hospitals()
    y = outcome_of(name, score)
    small, filled = with_small_cells(table, groups)
    sent = sent_in(fit(make, small, y, groups, **options, **ENCODED))
    assert {1, 2} <= {client_id for _, client_id in sent}
    assert bits_of(sent) == bits_of(sent_in(fit(make, filled, y, groups, **options, **ENCODED)))
    free = {**options, **ENCODED, "min_rows": 1}
    assert bits_of(sent) != bits_of(sent_in(fit(make, small, y, groups, **free)))


@pytest.mark.parametrize("name", FITS)
def test_no_sum_of_a_fit_is_made_of_a_group_of_few_rows(name):
    """Whatever stands in its rows, all others send the same, and it sends nothing."""
    make, options = FITS[name]
    table, score, groups = hospitals()
    groups[:4] = 4
    y = outcome_of(name, score)
    sent = sent_in(fit(make, table, y, groups, **options, **ENCODED))
    table.loc[:3, "age"] += 5.0
    y[:4] = y[:4][::-1]
    assert {client_id for _, client_id in sent} == set(range(4))
    assert bits_of(sent) == bits_of(sent_in(fit(make, table, y, groups, **options, **ENCODED)))


def test_a_group_with_few_rows_of_a_class_sends_no_pairs():
    """With folds of rows, in which each of its rows is held out; resamples of groups send none."""
    X, score, groups = hospitals()
    X = X[["age"]].to_numpy() - 60
    y = score > 0
    y[np.flatnonzero(y & (groups == 2))[4:]] = False
    model = CLASSIFIER("cv", n_folds=2, random_state=0)
    sent = sent_in(lambda: model.fit(X, y, groups))
    for client_id in range(4):
        *_, (numbers, _) = sent[HeldOutPairs, client_id]
        # n losses, n^2 squares of differences, n pairs in order and all pairs
        n_models = round(np.sqrt(len(numbers))) - 1
        assert len(numbers) == (n_models + 1) ** 2
        assert numbers[:n_models].any()
        assert numbers[-n_models - 1 :].any() == (client_id != 2)
    of_resamples = sent_in(lambda: model.bootstrap(2, over="groups"))
    assert HeldOutPairs not in {kind for kind, _ in of_resamples}


def measured(by, secure, n_classes, single=0.0, min_rows=5):
    """Return a performance to be run, of a model at a hospital where one class has one row.

    The row has the age `single`.
    """
    X, score, groups = hospitals()
    X = X[["age"]].to_numpy() - 60
    y = np.digitize(score, np.quantile(score, [0.4, 0.7][: n_classes - 1]))
    model = CLASSIFIER(1, secure=secure, min_rows=min_rows).fit(X, y, groups)
    rows = np.flatnonzero(groups == 2)
    y[rows] = np.where(y[rows] == n_classes - 1, 0, y[rows])
    y[rows[3]] = n_classes - 1
    X[rows[3]] = single
    return lambda: model.performance(X, y, groups, by=by)


def measured_counts():
    """Return a performance to be run, of a model of counts on all rows."""
    X, score, groups = hospitals()
    X = X[["age"]].to_numpy() - 60
    y = np.round(np.exp(score / 4))
    model = REGRESSOR(1, loss="poisson").fit(X, y, groups)
    return lambda: model.performance(X, y, groups, by="all")


CASES_OF_PERFORMANCE = [
    (by, secure, n_classes)
    for by, secure in (("groups", False), ("all", False), ("all", True))
    for n_classes in (2, 3)
]


@pytest.mark.parametrize(("by", "secure", "n_classes"), CASES_OF_PERFORMANCE)
def test_a_group_with_one_row_of_a_class_sends_zeros(by, secure, n_classes):
    """In the open and under masks; with several classes of the others, too, which add up to it."""
    sent = sent_in(measured(by, secure, n_classes))
    assert {client_id for _, client_id in sent} == set(range(4))
    for (kind, client_id), arrays in sent.items():
        assert kind.counts is Counts.CLASSES
        assert all(array.any() for array, _ in arrays) == (client_id != 2)
        assert not (client_id == 2 and any(array.any() for array, _ in arrays))
    moved = bits_of(sent_in(measured(by, secure, n_classes, single=20.0)))
    assert bits_of(sent) == moved
    free = sent_in(measured(by, secure, n_classes, min_rows=1))
    assert bits_of(free) != bits_of(sent_in(measured(by, secure, n_classes, 20.0, min_rows=1)))


def test_every_sum_that_exists_is_asked_above():
    """So that one that is added later has to be in a fit or a performance of this file."""
    table, score, groups = hospitals()
    asked = set()
    for name, (make, options) in FITS.items():
        run = fit(make, table, outcome_of(name, score), groups, **options, **ENCODED)
        asked |= {kind for kind, _ in sent_in(run)}
    of_fits = asked & sums_that_exist()
    of_performance = {kind for kind, _ in sent_in(measured_counts())}
    for case in CASES_OF_PERFORMANCE:
        of_performance |= {kind for kind, _ in sent_in(measured(*case))}
    assert of_the_package(sums_that_exist()) == of_fits | of_performance
    assert all(kind.counts is Counts.ROWS for kind in of_fits)
    assert all(kind.counts is Counts.CLASSES for kind in of_performance)


def test_sum_that_does_not_declare_what_it_counts_cannot_be_defined():
    """Its definition says what is missing."""

    class Rows(ClientSums):
        description: ClassVar[str] = "rows"
        form: ClassVar[str] = "how many rows there are"
        counts: ClassVar[Counts] = Counts.ROWS

        def sums(self):
            return []

    assert words_on(Rows()).form == "how many rows there are"
    with pytest.raises(TypeError, match="Silent does not declare form, counts"):

        class Silent(ClientSums):
            description: ClassVar[str] = "rows"

            def sums(self):
                return [Sum(None, ())]


def test_a_fit_says_which_classes_its_sums_tell_of():
    """Of a group in the open, and of all groups under masks."""
    X, score, groups = hospitals()
    y = np.where(score > 0, "ill", "well").astype(object)
    y[groups == 3] = "well"
    y[np.flatnonzero(groups == 3)[:4]] = "ill"
    words = r"fewer than min_rows=5 rows are of the class 'ill' at the group 3: they take part"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        CLASSIFIER(1).fit(X[["age"]], y, groups)
    y[:2] = "dead"
    words = r"fewer than min_rows=5 rows of all groups are of the class 'dead': the model tells"
    with pytest.warns(fgmp.AdviceWarning, match=words) as caught:
        CLASSIFIER(1, secure=True).fit(X[["age"]], y, groups)
    assert not any("at the group" in str(one.message) for one in caught)


# Measures of all rows, where some groups are not measured.


@pytest.mark.parametrize("secure", [False, True])
def test_measures_of_all_rows_leave_out_groups_with_few_rows_of_a_class(secure):
    """By scikit-learn on the rows of the others, of which one has no row of a class at all."""
    X, score, groups = hospitals(n_rows=300, n_groups=5)
    X = X[["age"]].to_numpy() - 60
    y = (score > np.median(score)).astype(int)
    model = CLASSIFIER(1, secure=secure).fit(X, y, groups)
    for group, n_events in ((0, 1), (1, 5), (2, 0)):  # few, enough, and none
        y[groups == group] = 0
        y[np.flatnonzero(groups == group)[:n_events]] = 1
    performance = model.performance(X, y, groups, by="all")
    table, is_measured = performance.columns, groups != 0
    assert table["rows"].tolist() == [240]
    assert "240 of 300 rows: the others are of groups with fewer than min_rows=5" in str(
        performance
    )

    p, z = model.predict_proba(X)[:, 1], model.decision_function(X)
    brier = brier_score_loss(y[is_measured], p[is_measured])
    np.testing.assert_allclose(table["brier"], brier, 1e-6)
    np.testing.assert_allclose(table["observed"], y[is_measured].mean(), 1e-9)
    pairs = {group: np.prod(np.bincount(y[groups == group], minlength=2)) for group in (1, 3, 4)}
    areas = {group: roc_auc_score(y[groups == group], z[groups == group]) for group in pairs}
    expected = sum(pairs[group] * areas[group] for group in pairs) / sum(pairs.values())
    np.testing.assert_allclose(table["auc"], expected, 1e-6)

    alone = model.performance(X[is_measured], y[is_measured], groups[is_measured], by="all")
    for name, column in list(alone.columns.items())[1:]:
        np.testing.assert_allclose(column, table[name], 1e-5, 1e-9, err_msg=name)


def test_no_group_with_enough_rows_of_a_class_leaves_no_measure():
    """Then all are missing, and no row is measured."""
    performance = measured("all", False, 2)()
    X, score, groups = hospitals()
    y = np.zeros(len(groups), int)
    y[:4] = 1
    model = CLASSIFIER(1, min_rows=1).fit(X[["age"]], score > 0, groups).set_params(min_rows=5)
    nothing = model.performance(X[["age"]], y == 1, groups, by="all").columns
    assert nothing["rows"].tolist() == [0] and np.isnan(nothing["auc"]).all()
    assert performance.columns["rows"].tolist() == [180]


# Levels and gaps become others.


def filled_by(numbers=(), levels=(), min_rows=5):
    """Return a column of numbers and one of levels after the rule, and the names of cells."""
    n_rows = max(len(numbers), len(levels))
    column = np.zeros(n_rows)
    column[: len(numbers)] = numbers
    texts = np.full(n_rows, "A", object)
    texts[: len(levels)] = levels
    table, cells = fill_small_cells(RawTable((column, texts)), ["x", "ward"], min_rows)
    return table.columns[0].tolist(), table.columns[1].tolist(), list(cells)


@pytest.mark.parametrize(
    ("levels", "expected", "cells"),
    [
        (["A"] * 9 + ["B"] * 5, None, []),
        (["A"] * 9 + ["B"] * 4, ["A"] * 13, ["ward=B"]),
        (["B"] * 4 + ["A"] * 9, ["A"] * 13, ["ward=B"]),
        (["A"] * 9 + ["B"] * 2 + ["C"] * 3, ["A"] * 9 + [OTHER] * 5, ["ward=B", "ward=C"]),
        (["A"] * 9 + ["B"] * 2 + ["C"] * 2, ["A"] * 13, ["ward=B", "ward=C"]),
        (["A"] * 9 + [OTHER] * 5 + ["C"], ["A"] * 9 + [OTHER] * 6, ["ward=C"]),
        (["A"] * 4 + ["B"] * 3, [OTHER] * 7, ["ward=A", "ward=B"]),
        (["A"] * 2 + ["B"] * 1, ["A"] * 3, ["ward=B"]),
        (["A"] * 9 + [None] * 4, ["A"] * 13, ["ward is missing"]),
        (["A"] * 9 + [None] * 5, None, []),
        ([None] * 9 + ["A"] * 4, [None] * 13, ["ward is known"]),
        ([None] * 9, None, []),
        (["A"] * 3, None, []),
    ],
)
def test_small_levels_become_others(levels, expected, cells):
    """Several are one level if that is no small cell, and else the most frequent one."""
    _, found, names = filled_by(levels=levels)
    assert found == (expected or levels)
    assert names == cells


def test_few_gaps_are_the_mean_and_few_values_are_gaps():
    """Of the rows of the client alone; five of each stay."""
    nan = np.nan
    assert filled_by(numbers=[1.0, 2, 3, 4, 5, nan])[0] == [1, 2, 3, 4, 5, 3]
    assert np.isnan(filled_by(numbers=[1.0, 2, 3, 4] + [nan] * 5)[0]).all()
    found, _, cells = filled_by(numbers=[1.0, 2, 3, 4, 5] + [nan] * 5)
    assert np.isnan(found).sum() == 5 and not cells
    assert filled_by(numbers=[nan] * 3 + [1.0] * 9)[2] == ["x is missing"]
    assert filled_by(numbers=[nan] * 9 + [1.0])[2] == ["x is known"]


@repeatable(30)
@given(
    levels=st.lists(st.sampled_from(["A", "B", "C", "D", OTHER, None]), min_size=1, max_size=30),
    min_rows=st.integers(1, 6),
)
def test_no_cell_is_small_after_the_rule(levels, min_rows):
    """Nor does a second time change anything, and large cells keep their rows."""
    numbers = [np.nan if level in ("A", None) else len(str(level)) for level in levels]
    values, texts, cells = filled_by(numbers, levels, min_rows)
    n_rows = len(levels)
    for column, is_gap in ((texts, [text is None for text in texts]), (values, np.isnan(values))):
        assert sum(is_gap) in (0, n_rows) or min_rows <= sum(is_gap) <= n_rows - min_rows
        if column is texts:
            counts = [texts.count(text) for text in set(texts)]
            assert counts == [n_rows] or min(counts) >= min_rows
    again = filled_by(values, texts, min_rows)
    np.testing.assert_array_equal(again[0], values)
    assert again[1:] == (texts, [])
    for before, after in zip(levels, texts, strict=True):
        assert before == after or levels.count(before) < min_rows or after is None


# Fits.


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("cell", ["gap", "level"])
def test_the_model_does_not_tell_the_outcome_of_a_patient_who_alone_has_a_gap_or_a_level(
    cell, secure
):
    """No column is made of it, of which the fit warns, and the sign of no coefficient turns."""
    table, score, groups = hospitals()
    table["age"] -= 60
    table["dose"] = table["dose"].fillna(3.0)
    if cell == "gap":
        table.loc[7, "dose"] = np.nan
    else:
        table.loc[7, "ward"] = "rare"
    words = "'dose is missing'" if cell == "gap" else "'ward=rare'"
    coefficients = []
    for outcome in (False, True):
        y = score > 0
        y[7] = outcome
        model = CLASSIFIER("all", secure=secure, **ENCODED)
        with pytest.warns(fgmp.AdviceWarning, match=f"min_rows=5 rows of a group have {words}"):
            model.fit(table, y, groups)
        assert model.encoding_.column_names() == ["age", "dose", "ward=B"]
        assert "missing" not in str(model.summary().columns["feature"])
        coefficients.append(model.coef_[0])
    np.testing.assert_array_equal(*np.sign(coefficients))
    np.testing.assert_allclose(*coefficients, atol=0.3)


@pytest.mark.parametrize("secure", [False, True])
def test_a_fit_says_how_many_rows_are_recoded_of_which_columns_and_groups(secure):
    """The warning has the groups, the summary the columns; nothing is said where nothing is."""
    table, score, groups = hospitals()
    table = table.assign(dose=table["dose"].fillna(3.0))
    first, second = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    table.loc[first[:3], "dose"] = np.nan
    table.loc[second[:2], "dose"] = np.nan
    table.loc[second[4:5], "ward"] = "rare"
    model = CLASSIFIER("all", secure=secure, **ENCODED)
    words = r"'dose is missing' \(3 at 0, 2 at 1\), 'ward=rare' \(1 at 1\): such levels"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        model.fit(table, score > 0, groups)
    assert model.n_rows_recoded_ == {"dose": 5, "ward": 1}
    assert "rows of their group have (5 of dose, 1 of ward). predict takes" in str(
        model.summary().notes
    )
    again = model_from_json(model.to_json())
    assert again.n_rows_recoded_ == model.n_rows_recoded_
    assert repr(again.summary()) == repr(model.summary())
    model.set_params(min_rows=1).fit(table, score > 0, groups)
    assert model.n_rows_recoded_ == {} and "Recoded" not in str(model.summary().notes)


def table_with_pooled_levels():
    """Return a table in which hospital 0 has two rare wards, and hospital 1 a frequent third one."""
    table, score, groups = hospitals()
    first, second = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    table.loc[first[:3], "ward"] = "rare"
    table.loc[first[3:6], "ward"] = "single"
    table.loc[second[:20], "ward"] = "C"
    table.loc[np.flatnonzero(groups == 2)[:4], "ward"] = "C"
    return table, score, groups


@pytest.mark.parametrize("secure", [False, True])
def test_coefficients_are_those_of_columns_made_by_hand(secure):
    """Ward C has a column, as hospital 1 has it often; at hospital 2 it counts as ward A."""
    table, score, groups = table_with_pooled_levels()
    levels = {"ward": ["A", "B", "C", "rare", "single"]} if secure else ["ward"]
    options = {"missing": "indicator", "C": np.inf}
    model = REGRESSOR("all", secure=secure, categories=levels, **options).fit(table, score, groups)
    names = ["age", "dose", "dose is missing", "ward=B", "ward=C", "ward=other"]
    assert model.encoding_.column_names() == names

    ward = table["ward"].replace({"rare": "other", "single": "other"})
    ward[(groups == 2) & (ward == "C")] = "A"
    by_hand = table.assign(**{f"ward={name}": ward == name for name in ("B", "C", "other")})
    by_hand["dose is missing"] = table["dose"].isna()
    by_hand["dose"] = table["dose"].fillna(table["dose"].mean())
    design = np.column_stack([np.ones(len(score)), by_hand[names].astype(float)])
    expected = np.linalg.lstsq(design, score, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, expected[1:], rtol=1e-6, atol=1e-8)
    rows = model.summary().columns["rows"]
    np.testing.assert_allclose(rows[3:], design[:, 3:].sum(axis=0), atol=1e-5)
    assert np.isnan(rows[:3]).all()

    # A rare ward, and one that the fit did not see, count as the others.
    strange = table.head(3).assign(ward=["rare", "other", "new"], age=60.0, dose=3.0)
    with pytest.warns(fgmp.AdviceWarning, match=r"in the columns 'ward' \('new', 'rare'\), or in"):
        assert np.ptp(model.predict(strange)) == 0


def test_a_group_without_rows_of_a_weight_decides_on_nothing():
    """Rows of weight zero are no rows of a cell."""
    table, score, groups = hospitals()
    rows = np.flatnonzero(groups == 0)[:7]
    table.loc[rows, "ward"] = "C"
    weights = np.ones(len(score))
    options = {"missing": "indicator", "categories": ["ward"]}
    model = REGRESSOR("all", **options).fit(table, score, groups, weights)
    assert "ward=C" in model.encoding_.column_names()
    weights[rows[:3]] = 0
    model.fit(table, score, groups, weights)
    assert "ward=C" not in model.encoding_.column_names()
    kept = weights > 0
    dropped = REGRESSOR("all", **options).fit(table[kept], score[kept], groups[kept])
    np.testing.assert_array_equal(dropped.coef_, model.coef_)


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_resamples_have_the_rows_of_the_fit(over):
    """What small cells became is settled before rows are drawn."""
    table, score, groups = hospitals()
    small, filled = with_small_cells(table, groups)
    drawn = [
        REGRESSOR(2, **ENCODED).fit(X, score, groups).bootstrap(3, over, random_state=0).coef
        for X in (small, filled)
    ]
    np.testing.assert_array_equal(*drawn)


def test_a_smaller_min_rows_makes_columns_and_the_summary_marks_them():
    """In the table that is printed, in HTML, and in the columns; through JSON, too."""
    table, score, groups = hospitals()
    table.loc[7, "ward"] = "rare"
    table["flag"] = 0.0
    table.loc[3:6, "flag"] = 1.0
    model = CLASSIFIER("all", min_rows=1, **ENCODED).fit(table, score > 0, groups)
    for fitted in (model, CLASSIFIER.from_json(model.to_json())):
        summary = fitted.summary()
        columns = {
            name: dict(zip(summary.columns["feature"], summary.columns[name], strict=True))
            for name in ("rows", "few_rows")
        }
        assert columns["rows"]["ward=rare"] == 1 and columns["few_rows"]["ward=rare"]
        assert columns["rows"]["flag"] == 4 and columns["few_rows"]["flag"]
        assert columns["rows"]["ward=B"] == (table["ward"] == "B").sum()
        assert not columns["few_rows"]["ward=B"] and not columns["few_rows"]["age"]
        assert str(summary).count(" *\n") == 2
        assert "Rows marked with *: fewer than 5 have a one, or a zero" in str(summary)
        assert "1 *" in summary._repr_html_()
    assert (
        not CLASSIFIER("all")
        .fit(table[["age", "flag"]], score > 0)
        .summary()
        .columns["few_rows"][1]
    )


@pytest.mark.parametrize("secure", [False, True])
def test_columns_of_zeros_and_ones_are_told_from_measurements(secure):
    """By their sums; counts, shares and two other values are none."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.random(200) < 0.3,
            rng.random(200),
            rng.poisson(1, 200),
            rng.choice([1, 2], 200),
            np.where(rng.random(200) < 0.9, 1.0, 0.0),
        ]
    )
    model = REGRESSOR("all", secure=secure).fit(X, rng.random(200), np.arange(200) % 4)
    rows = model.summary().columns["rows"][1:]
    assert np.flatnonzero(~np.isnan(rows)).tolist() == [0, 4]
    np.testing.assert_allclose(rows[[0, 4]], X[:, [0, 4]].sum(axis=0), atol=1e-5)


def test_rows_that_were_left_out_are_counted():
    """Those of groups with few rows, in the summary and through JSON; none, no note."""
    X, score, groups = hospitals()
    assert "Left out" not in str(REGRESSOR(1).fit(X[["age"]], score, groups).summary())
    groups = groups.copy()
    groups[:4], groups[4:7] = 7, 9
    model = REGRESSOR(1).fit(X[["age"]], score, groups)
    assert model.n_rows_left_out_ == 7
    words = "Left out: 7 rows of groups with fewer than min_rows=5 rows (2 of 6 groups"
    assert words in str(model.summary()).replace("\n  ", " ")
    assert words in str(REGRESSOR.from_json(model.to_json()).summary()).replace("\n  ", " ")
