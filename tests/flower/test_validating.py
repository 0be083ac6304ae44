"""Validation over Flower: the bits of one process, with clients that are left out by turns."""

import numpy as np
import pandas as pd
import pytest
from in_process_grid import InProcessGrid
from sklearn.datasets import load_breast_cancer, load_diabetes

import fgmp
from fgmp.flower import fit_over, table_app, validate_over

pytestmark = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")

N_ROWS = 240
CANCER = tuple(array[:N_ROWS] for array in load_breast_cancer(return_X_y=True))
DIABETES = tuple(array[:N_ROWS] for array in load_diabetes(return_X_y=True))
CHOICE = {"sparsity": "cv", "sparsities": [1, 3], "n_folds": 2, "random_state": 0}
WARD = np.where(np.arange(N_ROWS) % 7 < 3, "A", np.where(np.arange(N_ROWS) % 4 == 3, "C", "B"))

CASES = {
    "choice by rows": (fgmp.FedGradMPClassifier(**CHOICE), *CANCER, {}),
    "choice by groups": (fgmp.FedGradMPRegressor(folds="groups", **CHOICE), *DIABETES, {}),
    "sets, own intercepts": (
        fgmp.FedGradMPRegressor(3, fit_intercept="per_group", random_state=0),
        *DIABETES,
        {"n_sets": 2, "dense": False},
    ),
    "sets under masks": (
        fgmp.FedGradMPClassifier(3, secure=True, random_state=0),
        *CANCER,
        {"n_sets": 2, "dense": False},
    ),
    "categories": (
        fgmp.FedGradMPRegressor(2, categories=["ward"], missing="indicator"),
        pd.DataFrame(DIABETES[0][:, :4], columns=list("abcd")).assign(ward=WARD),
        DIABETES[1],
        {"dense": False},
    ),
}


class GappyGrid(InProcessGrid):
    """Nodes whose ids are 0, 2, 4, ...: a hospital may have left before the fit."""

    def _new_context(self, index):
        context = super()._new_context(index)
        context.node_config["partition-id"] = 2 * index
        return context


def grid_of(X, y, groups, grid_class=InProcessGrid, step=1, **options):
    """Return a grid of nodes, each with the rows of its group."""

    def read(context, columns):
        is_own = groups == context.node_config["partition-id"] // step
        return X[is_own], y[is_own]

    return grid_class([table_app(read, **options) for _ in np.unique(groups)])


@pytest.mark.parametrize("name", CASES)
def test_validation_over_flower_has_the_bits_of_one_process(name):
    """Each number of both tables, and the bytes in the report."""
    estimator, X, y, options = CASES[name]
    groups = np.random.default_rng(0).permutation(len(y)) % 4
    is_classifier = isinstance(estimator, fgmp.FedGradMPClassifier)
    classes = np.unique(y).tolist() if is_classifier else None
    names = list(X) if hasattr(X, "columns") else [f"x{j}" for j in range(X.shape[1])]
    grid = grid_of(X, y, groups, masked_only=estimator.secure)
    there = validate_over(
        estimator, grid, 4, names, classes=classes, report=lambda line: None, **options
    )
    here = estimator.validate(X, y, groups, **options)
    for table, expected in ((there.columns, here.columns), (there.overall, here.overall)):
        assert list(table) == list(expected)
        for measure in set(expected) - {"group"}:  # whose names differ
            np.testing.assert_array_equal(table[measure], expected[measure], err_msg=measure)
    sizes = [stage.bytes_up for stage in here.report().stages]
    assert [stage.bytes_up for stage in there.report().stages] == sizes


def test_fit_to_nodes_with_gaps_in_their_ids_has_the_bits_of_one_process():
    """Folds depend on the places of the clients in the fit, and not on what their nodes are called."""
    X, y = DIABETES
    groups = np.arange(len(y)) % 3
    estimator = fgmp.FedGradMPRegressor(**CHOICE)
    grid = grid_of(X, y, groups, GappyGrid, step=2)
    names = [f"x{j}" for j in range(X.shape[1])]
    there = fit_over(estimator, grid, 3, names, report=lambda line: None)
    here = estimator.fit(X, y, groups)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_array_equal(there.cv_.table["score"], here.cv_.table["score"])
