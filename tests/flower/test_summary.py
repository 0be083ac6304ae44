"""Standard errors over Flower: the bits of one process, from sums at clients on other machines."""

import json

import numpy as np
import pytest
from in_process_grid import grid_of_tables
from sklearn.datasets import load_breast_cancer, load_iris

import fgmp
from fgmp.flower import bootstrap_over, fit_over

pytestmark = pytest.mark.filterwarnings("ignore:.*the rounds ran out", "ignore::fgmp.AdviceWarning")
CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
CHOICE = {"rounds": 2, "sparsities": [1, 4], "n_folds": 2, "random_state": 0}
CASES = {
    "logistic": (fgmp.FedGradMPClassifier(4), *CANCER),
    "softmax": (fgmp.FedGradMPClassifier(2), *IRIS),
    "linear": (fgmp.FedGradMPRegressor(4), CANCER[0], CANCER[0][:, 3] + CANCER[1]),
    "counts": (fgmp.FedGradMPRegressor(4, loss="poisson"), CANCER[0], np.rint(CANCER[0][:, 0])),
    "counts under masks": (
        fgmp.FedGradMPRegressor(2, loss="poisson", secure=True, rounds=2),
        CANCER[0],
        np.rint(CANCER[0][:, 0]),
    ),
    "masks": (fgmp.FedGradMPClassifier(4, secure=True, rounds=2), *CANCER),
}


def fitted(estimator, X, y, n_groups):
    """The same estimator, over Flower and in one process."""
    groups = np.random.default_rng(0).permutation(len(y)) % n_groups
    is_classifier = isinstance(estimator, fgmp.FedGradMPClassifier)
    there = fit_over(
        estimator,
        grid_of_tables(X, y, groups, masked_only=estimator.secure),
        n_groups,
        [f"x{j}" for j in range(X.shape[1])],
        classes=np.unique(y).tolist() if is_classifier else None,
        report=lambda line: None,
    )
    return there, estimator.fit(X, y, groups)


@pytest.mark.parametrize("case", CASES)
def test_a_summary_over_flower_has_the_bits_of_one_process(case):
    """Its errors and bytes are the same, and none of its errors by group is missing."""
    there, here = fitted(*CASES[case], n_groups=4)
    np.testing.assert_array_equal(there.covariance_.model_based, here.covariance_.model_based)
    np.testing.assert_array_equal(there.covariance_.by_group, here.covariance_.by_group)
    assert there.covariance_.dispersion == here.covariance_.dispersion
    assert not np.isnan(there.summary().columns["standard_error_by_group"]).any()
    assert there.summary().notes == here.summary().notes
    for name in ("bytes_up", "bytes_down"):
        assert there.history_[name][-1] == here.history_[name][-1]


@pytest.mark.parametrize(
    "estimator, X, y",
    [
        (fgmp.FedGradMPClassifier(4, rounds=4), *CANCER),
        (fgmp.FedGradMPClassifier(2, rounds=4), *IRIS),
        (
            fgmp.FedGradMPRegressor(
                3, fit_intercept="per_group", cohort_size=3, rounds=4, random_state=2
            ),
            *CANCER,
        ),
        (fgmp.FedGradMPRegressor("all"), *CANCER),
        (fgmp.FedGradMPRegressor("cv", folds="rows", **CHOICE), *CANCER),
        (fgmp.FedGradMPRegressor("cv", folds="groups", **CHOICE), *CANCER),
    ],
    ids=["logistic", "softmax", "own intercepts", "all", "folds of rows", "folds of groups"],
)
def test_a_bootstrap_over_flower_has_the_bits_of_one_process(estimator, X, y):
    """Whole clients are drawn by the server: the same draws, the same weights, the same sums."""
    groups = np.random.default_rng(0).permutation(len(y)) % 5
    there, here = fitted(estimator, X, y, n_groups=5)
    grid = grid_of_tables(X, y, np.random.default_rng(0).permutation(len(y)) % 5)
    assert len(np.unique(groups)) == 5
    lines = []
    ours = bootstrap_over(there, grid, 5, 3, random_state=7, report=lines.append)
    np.testing.assert_array_equal(ours.coef, here.bootstrap(3, random_state=7).coef)
    assert ours.names[:2] == ("x0", "x1")
    if estimator.sparsity != "all":
        assert any(line.startswith("resample 3 of 3, round 1: loss") for line in lines)


def test_rows_that_resamples_hold_out_are_those_of_the_fit():
    """Sums over other rows of a client in each resample would be equations for single rows."""
    X, y = CANCER
    model, _ = fitted(fgmp.FedGradMPRegressor("cv", folds="rows", **CHOICE), X, y, n_groups=4)
    grid = grid_of_tables(X, y, np.random.default_rng(0).permutation(len(y)) % 4)
    bootstrap_over(model, grid, 4, 2, random_state=5, report=lambda line: None)
    settings = [json.loads(asked["settings"]) for _, asked in grid.parts if "settings" in asked]
    folds = {tuple(each["fold"]) for each in settings if each.get("fold") is not None}
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    assert folds == {(number, 2, seed, 5) for number in range(2)}


def test_a_client_that_is_not_drawn_is_asked_for_nothing():
    """Only the clients that the resample has are asked."""
    X, y = CANCER
    there, _ = fitted(fgmp.FedGradMPClassifier(2, rounds=2), X, y, n_groups=4)
    grid = grid_of_tables(X, y, np.random.default_rng(0).permutation(len(y)) % 4)
    counts = np.random.RandomState(5).multinomial(4, np.full(4, 0.25))
    assert not counts.all()
    bootstrap_over(there, grid, 4, 1, random_state=5, report=lambda line: None)
    polled = {node for node, question in grid.questions if question["ask"] != "who"}
    assert polled == set(np.flatnonzero(counts).tolist())


def test_under_masks_clients_are_not_resampled():
    """As many sums with known weights as there are clients are equations for each of them."""
    X, y = CANCER
    model = fgmp.FedGradMPClassifier(2, secure=True, rounds=2).fit(X, y, np.arange(len(y)) % 4)
    model.feature_names_in_ = np.array([f"x{j}" for j in range(30)], object)
    with pytest.raises(ValueError, match="can be solved for each client"):
        bootstrap_over(model, grid_of_tables(X, y, np.arange(len(y)) % 4), 4, 2)

    updates = np.random.default_rng(0).standard_normal((4, 6))
    weights = np.random.default_rng(1).multinomial(4, np.full(4, 0.25), size=12) / 4
    solved = np.linalg.lstsq(weights, weights @ updates, rcond=None)[0]
    np.testing.assert_allclose(solved, updates, atol=1e-10)


@pytest.mark.parametrize("secure", [False, True])
def test_a_client_in_other_units_is_noticed_over_flower(secure):
    """By the name of the column, and in the open by that of the client."""
    X, y = CANCER
    groups = np.arange(len(y)) % 4
    X = X * np.where(np.arange(30) == 2, np.where(groups == 1, 100.0, 1.0)[:, None], 1.0)
    estimator = fgmp.FedGradMPClassifier(3, secure=secure, rounds=2)
    where = "1 of 4 groups" if secure else "the group 'client 1'"
    with pytest.warns(fgmp.AdviceWarning, match=f"off that of the other groups: 'x2' at {where}"):
        fit_over(
            estimator,
            grid_of_tables(X, y, groups, masked_only=secure),
            4,
            [f"x{j}" for j in range(30)],
            classes=[0, 1],
            report=lambda line: None,
        )
