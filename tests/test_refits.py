"""A fit that fails or is interrupted leaves the model of before whole, or an unfitted estimator."""

import json
import warnings
from contextvars import copy_context

import numpy as np
import pandas as pd
import pytest
from interruptions import interrupted_at, lines_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fgmp
from fgmp.estimators.federated_table import FederatedTable, Rows
from fgmp.estimators.session import report_nothing
from fgmp.estimators.training import fit_clients
from fgmp.losses import SquaredLoss

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.filterwarnings("ignore:the rounds ran out"),
]

N_ROWS = 48
EXACT = {"standardize": False, "fit_intercept": False, "polish": False}
NOISE = fgmp.GaussianNoise(50.0, 1.0, insecure_seed=1)
ESTIMATORS = {
    "two classes": fgmp.FedGradMPClassifier(1, rounds=1),
    "three classes": fgmp.FedGradMPClassifier("all"),
    "own intercepts": fgmp.FedGradMPRegressor("all", fit_intercept="per_group"),
    "choice": fgmp.FedGradMPRegressor(
        "cv", sparsities=[0, 1], n_folds=2, rounds=1, min_rows=1, random_state=0
    ),
    "counts": fgmp.FedGradMPRegressor("all", loss="poisson"),
    "categories": fgmp.FedGradMPClassifier(
        "all", missing="indicator", categories=["ward"], min_rows=1
    ),
    "masks": fgmp.FedGradMPRegressor("all", secure=True),
    "noise": fgmp.FedGradMPRegressor(1, rounds=1, private=NOISE, **EXACT),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def problem(name, seed):
    """The arguments of a fit: two seeds have other rows, columns, labels and groups."""
    rng = np.random.default_rng(seed)
    names = [f"{'cdefg'[j]}{seed}" for j in range(3 + seed)]
    X = pd.DataFrame(rng.standard_normal((N_ROWS, len(names))), columns=names)
    z = X.iloc[:, 0].to_numpy() + rng.logistic(size=N_ROWS)
    groups = np.arange(N_ROWS) % (4 - seed) + 10 * seed
    y = z
    if name == "counts":
        y = np.round(np.exp(z / 4))
    elif isinstance(ESTIMATORS[name], fgmp.FedGradMPClassifier):
        n_classes = 3 if name == "three classes" else 2
        cuts = np.quantile(z, np.arange(1, n_classes) / n_classes)
        y = np.array([["ill", "sick", "well"], ["dead", "alive", "in between"]][seed])
        y = y[np.digitize(z, cuts)]
    if name == "categories":
        wards = ["A", "B", None, "CD"[seed]] * (N_ROWS // 4)
        X = X.assign(ward=pd.Series(wards, dtype=object))
    return X, y, groups


def described(model):
    """All that a fit has set; without the times at which groups sent something."""
    state = dict(vars(model))
    content = json.loads(model.to_json())
    for sent in content["exchanges"]:
        sent[1] = ""
    return content, sorted(state), state["_training_data"].y.tolist()


def interruptible(estimator):
    """An estimator that is interrupted at one of the attributes that it sets, and those set."""
    written = []

    class Interruptible(type(estimator)):
        stops_at = None
        is_after = False

        def __setattr__(self, attribute, value):
            written.append(attribute)
            stops_here = len(written) == self.stops_at
            if stops_here and not self.is_after:
                raise KeyboardInterrupt
            super().__setattr__(attribute, value)
            if stops_here:
                raise KeyboardInterrupt

    # In JSON it has the name of its class.
    Interruptible.__name__ = type(estimator).__name__
    model = clone(estimator)
    model.__class__ = Interruptible
    return model, written


@each_estimator
@pytest.mark.parametrize("is_after", [False, True])
def test_fit_that_is_interrupted_at_an_attribute_leaves_the_old_model(name, is_after):
    """At each attribute that a fit sets; after the last assignment the new model is whole."""
    first, second = problem(name, 0), problem(name, 1)
    model, written = interruptible(ESTIMATORS[name])
    kind = type(model)
    model.fit(*first)
    written.clear()
    new = described(model.fit(*second))
    n_written = len(written)
    old = described(model.fit(*first))
    assert n_written > 10 and old != new
    outcomes = []
    for place in range(1, n_written + 1):
        written.clear()
        kind.stops_at, kind.is_after = place, is_after
        with pytest.raises(KeyboardInterrupt):
            model.fit(*second)
        kind.stops_at = None
        found = described(model)
        assert found in (old, new)
        outcomes.append(found == new)
    assert not any(outcomes[:-1]) and outcomes[-1] == is_after


@each_estimator
def test_first_fit_that_is_interrupted_leaves_an_unfitted_estimator(name):
    """It has no attribute beside its parameters, wherever the fit ends."""
    arguments = problem(name, 0)
    model, written = interruptible(ESTIMATORS[name])
    state = dict(vars(model))
    written.clear()
    model.fit(*arguments)
    n_written = len(written)
    vars(model).clear()
    vars(model).update(state)
    for place in range(1, n_written):
        written.clear()
        type(model).stops_at = place
        with pytest.raises(KeyboardInterrupt):
            model.fit(*arguments)
        type(model).stops_at = None
        assert vars(model) == state
        with pytest.raises(NotFittedError):
            model.predict(arguments[0])


@pytest.mark.parametrize("name", ["two classes", "own intercepts"])
def test_fit_that_is_interrupted_at_a_line_leaves_the_old_model_or_the_new(name):
    """Lines of all of fgmp, and each of the last ones."""
    first, second = problem(name, 0), problem(name, 1)
    model = clone(ESTIMATORS[name])
    new = described(model.fit(*second))
    old = described(model.fit(*first))
    places = lines_of(lambda: clone(model).fit(*second), n_places=12, n_last=6)
    for place in places:
        with interrupted_at(place), pytest.raises(KeyboardInterrupt):
            # In a context of its own: it may be the very line from which on advice is given again.
            copy_context().run(model.fit, *second)
        found = described(model)
        assert found == old if place < places[-1] - 2 else found in (old, new)
        if found == new:
            model.fit(*first)


def separated(X):
    return X.iloc[:, 0] > 0


def unlike(name, **columns):
    X, y, groups = problem(name, 1)
    return X.assign(**columns), y, groups


def with_arguments(name, **options):
    X, y, groups = problem(name, 1)
    return {"X": X, "y": y, "groups": groups} | options


# Why a fit fails: the estimator, its parameters, and the arguments of the fit.
FAILURES = {
    "separated": ("two classes", {"C": np.inf}, lambda X: {"y": separated(X)}),
    "one class": ("two classes", {}, lambda X: {"y": np.repeat("x", N_ROWS)}),
    "nan": ("two classes", {}, lambda X: {"X": X.assign(c1=np.nan)}),
    "a missing label": ("two classes", {}, lambda X: {"y": [None] * N_ROWS}),
    "short groups": ("own intercepts", {}, lambda X: {"groups": [1, 2]}),
    "small groups": ("own intercepts", {"min_rows": 40}, lambda X: {}),
    "sparsity": ("choice", {"sparsity": 99}, lambda X: {}),
    "a word": ("choice", {"folds": "none"}, lambda X: {}),
    "negative counts": ("counts", {}, lambda X: {"y": -np.ones(N_ROWS)}),
    "an empty column": ("categories", {}, lambda X: {"X": X.assign(c1=np.nan)}),
    "levels": ("categories", {"categories": {"ward": ["A"]}}, lambda X: {}),
    "weights": ("masks", {}, lambda X: {"sample_weight": np.zeros(N_ROWS)}),
    "one group under masks": ("masks", {}, lambda X: {"groups": None}),
    "exact sums": ("noise", {"polish": True}, lambda X: {}),
}


@pytest.mark.parametrize("why", FAILURES)
def test_fit_that_fails_leaves_the_old_model(why):
    """The same objects, and predictions; an estimator that was not fitted stays so."""
    name, parameters, change = FAILURES[why]
    first, (X, y, groups) = problem(name, 0), problem(name, 1)
    model = clone(ESTIMATORS[name]).fit(*first)
    predicted = model.predict(first[0])
    unfitted = clone(model).set_params(**parameters)
    model.set_params(**parameters)
    state = dict(vars(model))
    arguments = {"X": X, "y": y, "groups": groups} | change(X)
    for estimator in (model, unfitted):
        with pytest.raises(ValueError):
            estimator.fit(**arguments)
    assert vars(model).keys() == state.keys()
    assert all(value is state[name] for name, value in vars(model).items())
    np.testing.assert_array_equal(model.predict(first[0]), predicted)
    assert not [name for name in vars(unfitted) if name.endswith("_")]


def test_fit_whose_advice_is_an_error_leaves_the_old_model():
    """Advice is the last that may fail."""
    first, (X, y, groups) = problem("own intercepts", 0), problem("own intercepts", 1)
    model = clone(ESTIMATORS["own intercepts"]).fit(*first)
    state = dict(vars(model))
    warnings.simplefilter("error")
    with pytest.raises(fgmp.AdviceWarning, match="are constant"):
        model.fit(X.assign(c1=1.0), y, groups)
    assert vars(model) == state


@pytest.mark.parametrize("over", ["groups", "rows"])
def test_bootstrap_that_is_interrupted_changes_nothing(over):
    """The attributes are the same objects."""
    model = clone(ESTIMATORS["two classes"]).fit(*problem("two classes", 0))
    state = dict(vars(model))
    options = {"over": over, "random_state": 0}
    for place in lines_of(lambda: model.bootstrap(2, **options), n_places=10, n_last=2):
        with interrupted_at(place), pytest.raises(KeyboardInterrupt):
            model.bootstrap(2, **options)
        assert vars(model) == state


@pytest.mark.parametrize("name", ["three classes", "categories", "own intercepts"])
def test_other_methods_that_are_interrupted_change_nothing(name):
    """Measuring, predicting, the summary, the report, and JSON."""
    X, y, groups = problem(name, 0)
    model = clone(ESTIMATORS[name]).fit(X, y, groups)
    state = dict(vars(model))
    calls = [
        lambda: model.performance(X, y, groups),
        lambda: model.performance(X, y, groups, by="all"),
        lambda: model.predict(X, groups),
        lambda: model.score(X, y, groups=groups),
        lambda: model.intercept_of(X, y),
        lambda: repr(model.summary()),
        lambda: str(model.report()),
        model.to_json,
    ]
    for call in calls:
        for place in lines_of(call, n_places=4, n_last=1):
            with interrupted_at(place), pytest.raises(KeyboardInterrupt):
                call()
            assert vars(model) == state


def test_model_of_a_fit_over_a_network_has_no_rows():
    """Fitted to clients whose rows are elsewhere, as `fgmp.flower.fit_over` fits its clone."""
    X, y, groups = problem("own intercepts", 1)
    labels, codes = np.unique(groups, return_inverse=True)
    ones = np.ones(len(y))
    clients = FederatedTable(Rows(X.to_numpy(), y, ones, codes, ones, 1), SquaredLoss())
    model = fgmp.FedGradMPRegressor(1, rounds=3, fit_intercept="per_group")
    fit_clients(model, clients, labels.tolist(), list(X.columns), None, report_nothing)
    assert model.feature_names_in_.tolist() == ["c1", "d1", "e1", "f1"]
    with pytest.raises(ValueError, match="the model has no rows"):
        model.bootstrap(2)
