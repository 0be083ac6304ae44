"""The estimators over Flower: the model of one process, bit for bit, from sites that show what they are asked for."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from here import Here
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import fgmp
from fgmp.estimators.client_sums import Moments
from fgmp.flower import fit_over, table_app
from fgmp.serialization import to_json

CANCER, DIABETES = load_breast_cancer(return_X_y=True), load_diabetes(return_X_y=True)
IRIS = load_iris(return_X_y=True)
CASES = [
    (fgmp.FedGradMPClassifier(5, random_state=0), *CANCER),
    (fgmp.FedGradMPClassifier("cv", sparsities=[2, 5, 12], n_folds=3, random_state=0), *CANCER),
    (fgmp.FedGradMPClassifier("all"), *CANCER),
    (fgmp.FedGradMPClassifier(4, method="fedgradmp", batch_size=30, random_state=1), *CANCER),
    (fgmp.FedGradMPClassifier(2, fit_intercept=False), *IRIS),
    (fgmp.FedGradMPClassifier(5, secure=True, rounds=3), *CANCER),
    (fgmp.FedGradMPRegressor("cv", secure=True, random_state=0), DIABETES[0], 1e5 * DIABETES[1]),
    (fgmp.FedGradMPRegressor("cv", fit_intercept="per_group", random_state=2), *DIABETES),
    (fgmp.FedGradMPRegressor(3, secure=True), 1e6 + DIABETES[0], DIABETES[1]),
    (
        fgmp.FedGradMPRegressor(3, secure=True, fit_intercept="per_group"),
        DIABETES[0],
        1e8 + DIABETES[1],
    ),
    (fgmp.FedGradMPClassifier(2, C=np.inf), *CANCER),
    (fgmp.FedGradMPClassifier(2, C=1e6), CANCER[0], CANCER[0][:, 0] > np.median(CANCER[0][:, 0])),
    (fgmp.FedGradMPRegressor(4, standardize=False, polish=False, C=10.0), *DIABETES),
]
quiet = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")


def sites_of(X, y, groups, **options):
    """A grid of nodes, each with a table of its own."""

    def read(context, columns):
        own = groups == context.node_config["partition-id"]
        return X[own], y[own]

    return Here([table_app(read, **options) for _ in np.unique(groups)])


@quiet
@pytest.mark.parametrize(
    "estimator, X, y", CASES, ids=lambda one: repr(one)[:60] if hasattr(one, "fit") else ""
)
def test_the_model_over_flower_is_that_of_one_process(estimator, X, y):
    groups, told = np.random.default_rng(0).permutation(len(y)) % 4, []
    classes = np.unique(y).tolist() if isinstance(estimator, fgmp.FedGradMPClassifier) else None
    grid = sites_of(X, y, groups, masked_only=estimator.secure)
    there = fit_over(
        estimator,
        grid,
        4,
        [f"x{j}" for j in range(X.shape[1])],
        classes=classes,
        report=told.append,
    )
    here = estimator.fit(X, y, groups=groups)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_array_equal(there.intercept_, here.intercept_)
    assert (there.sparsity_, there.method_, there.n_iter_) == (
        here.sparsity_,
        here.method_,
        here.n_iter_,
    )
    for name in ("round", "bytes_up", "bytes_down"):
        np.testing.assert_array_equal(there.history_[name], here.history_[name], err_msg=name)
    if hasattr(here, "cv_"):
        np.testing.assert_array_equal(there.cv_.table["score"], here.cv_.table["score"])
    if hasattr(here, "intercepts_"):
        assert list(there.intercepts_.values()) == list(here.intercepts_.values())
    assert there.feature_names_in_[0] == "x0" and there.groups_.tolist() == [
        f"client {k}" for k in range(4)
    ]
    rounds = [line for line in told if "round" in line]
    assert len(rounds) >= here.n_iter_ and bool(rounds) == (estimator.sparsity != "all")
    assert told[0] == "sums for common units" and not there.missing_.size


def test_a_process_of_a_site_knows_the_methods_of_a_fit():
    sums = Moments(3, "mean", masked=True)
    code = f"import fgmp.flower, fgmp.serialization as wire; print(wire.from_json({to_json(sums)[0]!r}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == f"{sums}\n"


@quiet
def test_a_sparse_table_stays_sparse():
    X, y = sparse.random_array((120, 300), density=0.05, rng=0, format="csr"), np.arange(120) % 2
    groups = np.arange(120) % 3
    there = fit_over(
        fgmp.FedGradMPClassifier(4),
        sites_of(X, y, groups),
        3,
        range(300),
        classes=[0, 1],
        sparse=True,
    )
    np.testing.assert_array_equal(there.coef_, fgmp.FedGradMPClassifier(4).fit(X, y, groups).coef_)


@quiet
def test_who_is_missing_is_said_by_name():
    X, y = CANCER
    groups, told = np.arange(len(y)) % 3, []
    grid = sites_of(X, y, groups)
    for context, name in zip(grid.contexts, ("north", "coast", "valley"), strict=True):
        context.node_config["name"] = name

    def report(line):
        told.append(line)
        grid.gone |= {2} if "round 1:" in line else set()

    model = fit_over(
        fgmp.FedGradMPClassifier(3), grid, 3, range(30), classes=[0, 1], report=report, deadline=0.3
    )
    assert model.groups_.tolist() == ["north", "coast"] and model.missing_.tolist() == ["valley"]
    rounds = [line for line in told if ", round " in line]
    assert "missing" not in rounds[1] and rounds[1].startswith("all rows, round 1: loss 0.")
    assert rounds[2].startswith("rows of 2 of 3 sites, round 2: loss 0.") and rounds[2].endswith(
        "; missing: valley"
    )
    assert (
        told[0] == "sums for common units"
        and "Newton steps on the features that were found" in told
    )
    assert model.history_["rejected"][-1] > 0


def test_what_does_not_fit_is_said():
    X, y = CANCER
    groups, names, some = (
        np.arange(len(y)) % 3,
        [f"x{j}" for j in range(30)],
        fgmp.FedGradMPClassifier(3),
    )
    for estimator, features, classes, words in (
        (some, names, None, "expected at least two labels for a classifier"),
        (fgmp.FedGradMPRegressor(3), names, [0, 1], "and None for a regressor"),
        (fgmp.FedGradMP(3), names, None, "expected a FedGradMPClassifier or FedGradMPRegressor"),
        (some, names[1:], [0, 1], "features has 29 names; the sites have 30 columns"),
        (
            fgmp.FedGradMPClassifier(3, class_weight="balanced"),
            names,
            [0, 1],
            "class_weight is 'balanced'",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            fit_over(estimator, sites_of(X, y, groups), 3, features, classes=classes)
    for classes, sites in (
        ([1, 2], groups),
        ([0, 1], np.where(np.arange(len(y)) < 3, 2, np.arange(len(y)) % 2)),
    ):
        with pytest.raises(TimeoutError), pytest.warns(fgmp.AdviceWarning, match="turned away"):
            fit_over(some, sites_of(X, y, sites), 3, names, classes=classes, wait_for=0.1)


NUMBERS = np.random.default_rng(3).integers(0, 100, (90, 6))
TARGETS = (NUMBERS @ np.arange(6) % 41).astype(float)
TABLES = {
    "bool": NUMBERS % 2 == 1,
    **{kind: NUMBERS.astype(kind) for kind in ("int8", "uint8", "int16", "int64", "object")},
    **{kind: (NUMBERS / 7).astype(kind) for kind in ("float16", "float32", ">f4", "float64")},
    "sparse int8": sparse.csr_array(NUMBERS % 3 == 1, dtype=np.int8),
    "sparse float32": sparse.csr_array(NUMBERS % 3, dtype=np.float32),
}


@quiet
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("kind_of_targets", ["float64", "float32", "int64"])
def test_a_table_of_any_kind_of_number_has_the_bits_of_one_process(kind, kind_of_targets):
    """What float32 holds stays float32, everything else that is a number becomes float64, and so it does here."""
    X, y, groups = TABLES[kind], TARGETS.astype(kind_of_targets), np.arange(90) % 3
    some, names = fgmp.FedGradMPRegressor(3, rounds=3), [f"x{j}" for j in range(6)]
    there = fit_over(
        some, sites_of(X, y, groups), 3, names, sparse=sparse.issparse(X), report=lambda line: None
    )
    here = fgmp.FedGradMPRegressor(3, rounds=3).fit(X, y, groups)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    assert there.intercept_ == here.intercept_


@quiet
def test_sites_of_different_precision_have_the_bits_of_one_table():
    groups, y = np.arange(90) % 3, TARGETS
    tables = [TABLES["float32"], TABLES["float32"].astype(np.float64), TABLES["float32"]]

    def read(context, columns):
        place = context.node_config["partition-id"]
        return tables[place][groups == place], y[groups == place]

    grid = Here([table_app(read) for _ in range(3)])
    some = fgmp.FedGradMPRegressor(3, rounds=3)
    there = fit_over(some, grid, 3, [f"x{j}" for j in range(6)], report=lambda line: None)
    np.testing.assert_array_equal(there.coef_, some.fit(tables[1], y, groups).coef_)


@quiet
@pytest.mark.parametrize(
    "error", [KeyError("x3"), KeyError("['x3'] not in index"), KeyError("7345.25 Smith")]
)
def test_a_missing_column_is_named_by_the_name_that_the_server_has_for_it(error):
    """And nothing else of an error is: words of a site may be its data."""

    def read(context, columns):
        if context.node_config["partition-id"] == 1:
            raise error
        return NUMBERS.astype(float), TARGETS

    grid = Here([table_app(read) for _ in range(3)])
    with (
        pytest.warns(fgmp.AdviceWarning, match="clients turned away") as caught,
        pytest.raises(TimeoutError),
    ):
        fit_over(fgmp.FedGradMPRegressor(3), grid, 3, [f"x{j}" for j in range(6)], wait_for=0.1)
    said = " ".join(str(each.message) for each in caught)
    named = "columns missing at the site" in said and "x3" in said
    assert named == ("x3" in str(error))
    assert "Smith" not in said


@pytest.mark.parametrize("secure", [False, True])
def test_a_site_is_warned_if_its_sums_tell_of_few_rows(secure):
    """In its own log, by the names of classes and columns: the rows are added to others' by masks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] = 0
    X[7, 1] = 1.0
    y = np.repeat(np.array(["no", "yes"], object), 30)
    y[:3] = "rare"
    groups = np.repeat(np.arange(2), 30)
    order = rng.permutation(np.arange(3, 60))
    order = np.concatenate([np.arange(3), order])  # the first site alone has the class "rare"
    X, y = X[order], y[order]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_over(
            fgmp.FedGradMPClassifier(1, rounds=1, secure=secure),
            sites_of(X, y, groups),
            n_clients=2,
            features=["a", "b", "c"],
            classes=["no", "rare", "yes"],
            report=lambda line: None,
        )

    told = [str(one.message) for one in caught if "its sums tell the server" in str(one.message)]
    if secure:
        assert not told
    else:
        assert any("a class of 'rare'" in words for words in told)
        assert any("an unusual value in 'b'" in words for words in told)
