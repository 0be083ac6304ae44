"""Performance over Flower: the bits of one process, and sums alone under masks."""

import numpy as np
import pandas as pd
import pytest
from in_process_grid import grid_of_tables
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import fgmp
from fgmp.flower import fit_over, performance_over
from fgmp.flower.records import arrays_of

pytestmark = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")

CANCER = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
COUNTS = DIABETES[0], np.round(DIABETES[1] / 20)

CASES = {
    "classifier": (fgmp.FedGradMPClassifier(3), *CANCER, "groups"),
    "classifier, all rows": (fgmp.FedGradMPClassifier(3), *CANCER, "all"),
    "secure classifier, all rows": (fgmp.FedGradMPClassifier(3, secure=True), *CANCER, "all"),
    "three classes": (fgmp.FedGradMPClassifier(2), *IRIS, "groups"),
    "counts": (fgmp.FedGradMPRegressor(3, loss="poisson"), *COUNTS, "groups"),
    "secure counts, all rows": (
        fgmp.FedGradMPRegressor(3, loss="poisson", secure=True),
        *COUNTS,
        "all",
    ),
    "regressor": (fgmp.FedGradMPRegressor(3), *DIABETES, "groups"),
    "regressor, all rows": (fgmp.FedGradMPRegressor(3), *DIABETES, "all"),
    "regressor, intercepts per group": (
        fgmp.FedGradMPRegressor(3, fit_intercept="per_group"),
        *DIABETES,
        "groups",
    ),
}


def measured_both_ways(estimator, X, y, by):
    """Return the performance over Flower and in one process."""
    groups = np.random.default_rng(0).permutation(len(y)) % 4
    is_classifier = isinstance(estimator, fgmp.FedGradMPClassifier)
    names = [f"x{j}" for j in range(X.shape[1])]
    options = {"report": lambda line: None}
    classes = np.unique(y).tolist() if is_classifier else None
    grid = grid_of_tables(X, y, groups, masked_only=estimator.secure)
    there = fit_over(estimator, grid, 4, names, classes=classes, **options)
    grid = grid_of_tables(X, y, groups, masked_only=estimator.secure)
    over_flower = performance_over(there, grid, 4, by=by, **options)
    in_process = estimator.fit(X, y, groups=groups).performance(X, y, groups, by=by)
    return over_flower, in_process


@pytest.mark.parametrize("name", CASES)
def test_performance_over_flower_has_the_bits_of_one_process(name):
    """Each measure of each line, and the bytes in the report."""
    over_flower, in_process = measured_both_ways(*CASES[name])
    assert list(over_flower.columns) == list(in_process.columns)
    for measure, column in list(in_process.columns.items())[1:]:  # names of groups differ
        np.testing.assert_array_equal(over_flower.columns[measure], column, err_msg=measure)
    sizes = [stage.bytes_up for stage in in_process.report().stages]
    assert [stage.bytes_up for stage in over_flower.report().stages] == sizes


def test_progress_says_what_the_clients_are_asked_for():
    """A line before the question."""
    X, y = CANCER
    groups = np.arange(len(y)) % 3
    names = [f"x{j}" for j in range(X.shape[1])]
    grid = grid_of_tables(X, y, groups)
    model = fit_over(
        fgmp.FedGradMPClassifier(2), grid, 3, names, classes=[0, 1], report=lambda line: None
    )
    lines = []
    performance_over(model, grid_of_tables(X, y, groups), 3, report=lines.append)
    assert lines == ["performance of the model at each site"]


def test_site_without_an_own_intercept_is_warned_of():
    """Of a model that was fitted to groups of other names."""
    X, y = DIABETES
    groups = np.arange(len(y)) % 3
    model = fgmp.FedGradMPRegressor(2, fit_intercept="per_group").fit(X, y, groups)
    model.feature_names_in_ = np.array([f"x{j}" for j in range(10)], object)
    words = "groups .'client 0', 'client 1', 'client 2'. have no intercept of their own"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        performance_over(model, grid_of_tables(X, y, groups), 3, report=lambda line: None)


def test_under_masks_measures_of_clients_are_refused():
    """Before a client is asked for them."""
    X, y = CANCER
    groups = np.arange(len(y)) % 3
    names = [f"x{j}" for j in range(X.shape[1])]
    grid = grid_of_tables(X, y, groups, masked_only=True)
    estimator = fgmp.FedGradMPClassifier(2, secure=True)
    model = fit_over(estimator, grid, 3, names, classes=[0, 1], report=lambda line: None)
    with pytest.raises(ValueError, match="secure is True.*by='all'"):
        performance_over(model, grid, 3)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_client_with_one_row_of_a_class_sends_zeros(n_classes, secure):
    """And the measures are those of one process; in the open each of its arrays can be seen."""
    X, y = IRIS
    y = np.minimum(y, n_classes - 1)
    groups = np.arange(150) % 3
    names = [f"x{j}" for j in range(4)]
    rows = np.flatnonzero(groups == 1)
    y_measured = y.copy()
    y_measured[rows] = np.where(y[rows] == 0, 1, y[rows])
    y_measured[rows[0]] = 0

    model = fgmp.FedGradMPClassifier(2, secure=secure).fit(X, y, groups)
    model.feature_names_in_ = np.array(names, object)
    grid = grid_of_tables(X, y_measured, groups)
    there = performance_over(model, grid, 3, by="all", report=lambda line: None).columns
    here = model.performance(pd.DataFrame(X, columns=names), y_measured, groups, by="all").columns
    assert here["rows"].tolist() == [100] * (1 if n_classes == 2 else 3)
    for name in list(here)[1:]:
        np.testing.assert_array_equal(there[name], here[name], err_msg=name)
    if not secure:
        replies = [sent for sent in grid.sent if "ask" not in sent.content.get("fgmp", {})]
        updates = [
            (sent.client_index, arrays_of(sent.content["message"]))
            for sent in replies
            if "message" in sent.content
        ]
        assert len(updates) > 9
        for client_index, arrays in updates:  # zeros travel as no values
            values = arrays.get("values", arrays.get("dense"))
            assert bool(values.any()) == (client_index != 1)
