"""What must not matter to the estimators: units, origins, signs, and the order of features, groups and rows."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
laws = settings(max_examples=20)
INTERCEPTS = {fgmp.FedGradMPRegressor: (True, "per_group", False), fgmp.FedGradMPClassifier: (True, False)}


class Case:
    """A random table of a few groups, and an estimator that fits it."""

    def __init__(self, make, n_classes, seed, n_features, n_groups, **options):
        self.make, self.options, self.rng = make, options, np.random.default_rng(seed)
        self.groups = self.rng.permutation(np.arange(30 * n_groups) % n_groups)
        shifts = self.rng.standard_normal((n_groups, n_features))
        self.X = self.rng.standard_normal((len(self.groups), n_features)) + shifts[self.groups]
        z = self.X @ self.rng.standard_normal(n_features) + self.rng.logistic(size=len(self.groups))
        self.y = z if n_classes is None else np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes))
        self.weights = self.rng.uniform(0.5, 2, len(z))
        self.model = self.fit(self.X)

    def fit(self, X, y=None, groups=None, rows=slice(None)):
        y, groups = self.y if y is None else y, self.groups if groups is None else groups
        weights = self.weights[rows] if self.options["weighted"] else None
        model = self.make(**{name: value for name, value in self.options.items() if name != "weighted"})
        return model.fit(X[rows], y[rows], groups=groups[rows], sample_weight=weights)


@st.composite
def cases(draw, makers=tuple(INTERCEPTS), intercepts=None):
    make = draw(st.sampled_from(makers))
    n_features = draw(st.integers(2, 7))
    options = {
        "sparsity": draw(st.integers(1, n_features)),
        "method": draw(st.sampled_from(["fedgradmp", "shared"])),
        "fit_intercept": draw(st.sampled_from(intercepts or INTERCEPTS[make])),
        "weighted": draw(st.booleans()),
        "rounds": 5,
    }
    n_classes = draw(st.sampled_from([2, 3])) if make is fgmp.FedGradMPClassifier else None
    return Case(make, n_classes, draw(st.integers(0, 2**32 - 1)), n_features, draw(st.integers(1, 4)), **options)


def linear(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def assert_alike(model, X, other, X_other, coefficients):
    """The same coefficients, in their units, and the same predictions."""
    np.testing.assert_allclose(np.atleast_2d(other.coef_), coefficients, rtol=1e-5, atol=1e-7 * abs(coefficients).max())
    expected = linear(model, X)
    np.testing.assert_allclose(linear(other, X_other), expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


@laws
@given(case=cases(intercepts=(True,)), data=st.data())
def test_the_origins_of_columns(case, data):
    """x_j + c_j: the same coefficients, and an intercept that makes up for it."""
    n_features = case.X.shape[1]
    shifts = np.array(data.draw(st.lists(st.floats(-100, 100), min_size=n_features, max_size=n_features)))
    other = case.fit(case.X + shifts)
    coefficients = np.atleast_2d(case.model.coef_)
    assert_alike(case.model, case.X, other, case.X + shifts, coefficients)
    moved = np.ravel(case.model.intercept_) - coefficients @ shifts
    np.testing.assert_allclose(np.ravel(other.intercept_), moved, rtol=1e-5, atol=1e-4)


@laws
@given(case=cases((fgmp.FedGradMPRegressor,), ("per_group",)))
def test_the_origins_of_each_group_where_each_has_an_intercept(case):
    shifts = 10 * case.rng.standard_normal((case.groups.max() + 1, case.X.shape[1]))[case.groups]
    levels = 10 * case.rng.standard_normal(case.groups.max() + 1)[case.groups]
    other = case.fit(case.X + shifts, case.y + levels)
    np.testing.assert_allclose(other.coef_, case.model.coef_, rtol=1e-7, atol=1e-9)


@laws
@given(case=cases())
def test_the_order_of_features(case):
    order = case.rng.permutation(case.X.shape[1])
    other = case.fit(case.X[:, order])
    assert_alike(case.model, case.X, other, case.X[:, order], np.atleast_2d(case.model.coef_)[:, order])


@laws
@given(case=cases())
def test_the_order_and_the_names_of_groups_and_the_order_of_rows(case):
    names = case.rng.permutation(case.groups.max() + 1)
    rows = case.rng.permutation(len(case.y))
    other = case.fit(case.X, groups=np.array([f"site {name}" for name in names])[case.groups], rows=rows)
    assert_alike(case.model, case.X, other, case.X, np.atleast_2d(case.model.coef_))


@laws
@given(case=cases((fgmp.FedGradMPClassifier,)))
def test_which_of_two_classes_comes_first(case):
    assume(len(case.model.classes_) == 2)
    other = case.fit(case.X, np.array(["well", "ill"])[case.y])  # "ill" is the first in order, 1 the second
    np.testing.assert_allclose(other.coef_, -case.model.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.predict_proba(case.X)[:, ::-1], case.model.predict_proba(case.X), atol=1e-6)
