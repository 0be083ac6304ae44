"""The laws of the estimators, each named by its sentence, against scikit-learn and code that stands here."""

import warnings
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from test_laws import cosamp, law, seeds

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def small_sites():
    """Sites of any number of rows take part."""
    return {"min_rows": 1} if "min_rows" in fgmp.FedGradMPRegressor().get_params() else {}


@contextmanager
def federations_made():
    """The federations that anybody makes meanwhile."""
    made, check = [], fgmp.Federation.__post_init__

    def kept(self):
        check(self)
        made.append(self)

    with patch.object(fgmp.Federation, "__post_init__", kept):
        yield made


def rows_of(federation):
    """Features and targets of each client."""
    return [(np.array(client.features), np.array(client.targets)) for client in federation.clients]


ESTIMATORS = [
    (make, method, intercept)
    for make, method, intercept in [
        (fgmp.FedGradMPRegressor, "fedgradmp", True),
        (fgmp.FedGradMPRegressor, "shared", "per_group"),
        (fgmp.FedGradMPRegressor, "shared", False),
        (fgmp.FedGradMPRegressor, "fedgradmp", "per_group"),
        (fgmp.FedGradMPClassifier, "fedgradmp", True),
        (fgmp.FedGradMPClassifier, "shared", True),
        (fgmp.FedGradMPClassifier, "shared", False),
    ]
]


def estimator_cases(seed=0, kinds=ESTIMATORS):
    """A table of three groups for each estimator, method and intercept; classifiers with two classes and three."""
    for make, method, intercept in kinds:
        for n_classes in (2, 3) if make is fgmp.FedGradMPClassifier else (0,):
            rng = np.random.default_rng(seed)
            groups = rng.permutation(np.arange(120) % 3)
            X = rng.standard_normal((120, 6)) + rng.standard_normal((3, 6))[groups]
            z = X[:, :3] @ [2.0, -1.5, 1.0] + rng.logistic(size=120)
            y = np.digitize(z, np.quantile(z, np.arange(1, n_classes) / n_classes)) if n_classes else z
            options = {"method": method, "fit_intercept": intercept, "random_state": 0}
            yield EstimatorCase(make, rng, X, y, groups, options)


class EstimatorCase(SimpleNamespace):
    """An estimator and the table that it fits."""

    def __init__(self, make, rng, X, y, groups, options):
        super().__init__(make=make, rng=rng, X=X, y=y, groups=groups, options=options)
        self.is_regression = make is fgmp.FedGradMPRegressor

    def fit(self, X=None, y=None, groups=None, weights=None, **options):
        X, y, groups = (getattr(self, k) if v is None else v for k, v in (("X", X), ("y", y), ("groups", groups)))
        return self.make(3, **self.options | options).fit(X, y, groups=groups, sample_weight=weights)


def assert_alike(model, coef, intercept=None):
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-5, atol=1e-6 * np.abs(coef).max())
    if intercept is not None:
        np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-5, atol=1e-6)


def test_law_06_csr_equals_dense_in_estimators():
    """CSR equals dense, where both are standardised."""
    for case in estimator_cases():
        X = case.X * (case.rng.random(case.X.shape) < 0.5)
        dense = case.fit(X)
        assert_alike(case.fit(sparse.csr_array(X), standardize=True), dense.coef_, dense.intercept_)


@law(2)
@given(seed=seeds)
def test_law_07_integer_sample_weight_equals_repeated_rows(seed):
    """Integer `sample_weight` equals repeated rows."""
    for case in estimator_cases(seed):
        weights = case.rng.integers(0, 4, len(case.y))
        X, y, groups = (np.repeat(part, weights, axis=0) for part in (case.X, case.y, case.groups))
        repeated = case.fit(X, y, groups)
        assert_alike(case.fit(weights=weights), repeated.coef_, repeated.intercept_)


@law(2)
@given(seed=seeds, sizes=st.lists(st.floats(-4, 4), min_size=6, max_size=6), t=st.floats(0.01, 100), flip=st.booleans())
def test_law_08_units_of_columns_and_of_the_target(seed, sizes, t, flip):
    """X diag(s), y t with `standardize=True`: coefficients t/s, same support."""
    for case in estimator_cases(seed):
        scales = 10.0 ** np.array(sizes) * case.rng.choice([-1, 1], 6)
        t = (-abs(t) if flip else t) if case.is_regression else 1
        plain, scaled = case.fit(), case.fit(case.X * scales, t * case.y if case.is_regression else case.y)
        np.testing.assert_array_equal(scaled.support_, plain.support_)
        np.testing.assert_allclose(
            scaled.coef_ * scales, t * plain.coef_, rtol=1e-5, atol=1e-6 * np.abs(t * plain.coef_).max()
        )


@law(3)
@given(seed=seeds, C=st.floats(0.01, 100), standardize=st.booleans())
def test_law_09_fitted_coefficients_are_those_of_one_table_on_the_support(seed, C, standardize):
    """Fitted coefficients are OLS (within, per group) on the support; the classifier's are scikit-learn's, same C."""
    for case in estimator_cases(seed):
        intercept, own = case.options["fit_intercept"], np.eye(3)[case.groups]
        options = {"standardize": standardize} | ({} if case.is_regression else {"C": C})
        model = case.fit(**options)
        S, coef = model.support_, np.atleast_2d(model.coef_)
        assert len(S) == 3 and not np.delete(coef, S, axis=1).any()
        if case.is_regression:
            beside = {True: np.ones((120, 1)), "per_group": own, False: np.empty((120, 0))}[intercept]
            expected = np.linalg.lstsq(np.c_[case.X[:, S], beside], case.y, rcond=None)[0]
            np.testing.assert_allclose(model.coef_[S], expected[:3], rtol=1e-8, atol=1e-10)
            if intercept == "per_group":
                np.testing.assert_allclose([model.intercepts_[g] for g in range(3)], expected[3:], atol=1e-8)
            elif intercept:
                np.testing.assert_allclose(model.intercept_, expected[3], atol=1e-8)
            continue
        X = case.X[:, S]
        spread = X.std(0) if intercept else np.sqrt(np.mean(X**2, 0))
        units = spread if standardize else np.ones(3)
        plain = LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cg", tol=1e-10, max_iter=10_000)
        plain.fit(X / units, case.y)
        # To what scikit-learn asks of itself by default, which is more than the steps of the closing exchange leave.
        np.testing.assert_allclose(coef[:, S] * units, plain.coef_, rtol=1e-3, atol=1e-4)


def heard(fit):
    """What a fit returns, and whether it warned of anything."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fit()
    return model, bool(said)


@pytest.mark.parametrize("intercept", [True, "per_group", False])
@pytest.mark.parametrize("tau", [2, 5])
def test_law_10_just_enough_rows_are_as_good_as_shared_or_there_is_a_warning(tau, intercept):
    """For every m from 3 tau - 2 to 3 tau + 5 rows a site R2 is within 0.1 of `"shared"`, or there is a warning."""
    rng = np.random.default_rng(10)
    held = rng.standard_normal((500, 50))
    for rows in range(3 * tau - 2, 3 * tau + 6):
        for _ in range(2):
            X = rng.standard_normal((10 * rows, 50))
            y, groups = X[:, :tau].sum(1) + rng.standard_normal(len(X)), np.repeat(np.arange(10), rows)
            fits = []
            for method in ("auto", "shared"):
                options = {"method": method, "fit_intercept": intercept, "random_state": 0} | small_sites()
                model = fgmp.FedGradMPRegressor(tau, **options)
                fits.append(heard(lambda model=model: model.fit(X, y, groups=groups)))  # noqa: B023
            scores = [r2_score(held[:, :tau].sum(1), model.predict(held)) for model, _ in fits]
            assert scores[0] >= scores[1] - 0.1 or fits[0][1], (rows, scores)


@law(6)
@given(
    seed=seeds,
    rows=st.integers(3, 20),
    sparsity=st.sampled_from([1, 2, 5, "cv", "ebic"]),
    make=st.sampled_from([fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier]),
    kind=st.sampled_from(["signal", "noise", "constant features", "constant target", "few values"]),
    method=st.sampled_from(["auto", "fedgradmp", "shared"]),
)
def test_law_11_no_estimator_returns_an_empty_support_in_silence(seed, rows, sparsity, make, kind, method):
    """No estimator returns an empty support in silence."""
    rng, groups = np.random.default_rng(seed), np.repeat(np.arange(6), rows)
    X = rng.standard_normal((6 * rows, 12))
    X = {"constant features": np.ones_like(X), "few values": np.round(X)}.get(kind, X)
    z = rng.standard_normal(len(X)) + (X[:, :2].sum(1) if kind == "signal" else 0)
    if make is fgmp.FedGradMPClassifier:
        assume(kind != "constant target")
        z = np.where(z > np.median(z), "ill", "well")
    y = np.zeros(len(X)) if kind == "constant target" else z
    options = {"method": method, "random_state": 0, "sparsities": [1, 2, 3]} | small_sites()
    model, warned = heard(lambda: make(sparsity, **options).fit(X, y, groups=groups))
    assert len(model.support_) or warned


@pytest.mark.parametrize("intercept", [True, "per_group"])
@pytest.mark.parametrize("standardize", [True, False])
def test_law_12_a_row_that_is_held_out_changes_nothing_that_trains(intercept, standardize):
    """Changing a row that is held out changes nothing in the training targets or features."""
    rng, groups = np.random.default_rng(12), np.repeat(np.arange(2), 20)
    X = rng.standard_normal((40, 6))
    y = X[:, 0] + rng.standard_normal(40)
    changed, others = X.copy(), y.copy()
    changed[7], others[7] = 3 * rng.standard_normal(6), 5.0
    options = {"fit_intercept": intercept, "standardize": standardize, "random_state": 0, "sparsities": [1, 2]}
    tables_made = []
    for table in ((X, y), (changed, others)):
        with federations_made() as made:
            fgmp.FedGradMPRegressor("cv", **options).fit(*table, groups=groups)
        tables_made.append([rows_of(each) for each in made if sum(each.rows) == 32])  # four of five folds train
    pairs = list(zip(*tables_made, strict=True))
    alike = [
        all(np.array_equal(a, b) for p, q in zip(*pair, strict=True) for a, b in zip(p, q, strict=True))
        for pair in pairs
    ]
    assert pairs and sum(alike) * 5 == len(pairs)  # the row is held out once


def test_law_13_groups_of_two_cross_validate_as_their_differences():
    """Groups of two with intercepts of their own: CV equals CV on differences."""
    for seed in range(2):
        rng, pairs = np.random.default_rng(seed), np.repeat(np.arange(40), 2)
        X = rng.standard_normal((80, 12))
        y = X[:, :3] @ [2.0, -2, 2] + 3 * rng.standard_normal(40)[pairs] + 0.7 * rng.standard_normal(80)
        D, d = X[::2] - X[1::2], y[::2] - y[1::2]
        folds, errors = np.arange(40) % 4, np.zeros((5, 4))
        for tau, fold in np.ndindex(errors.shape):
            x = cosamp(D[folds != fold], d[folds != fold], tau + 1, 10)
            errors[tau, fold] = np.mean((d - D @ x)[folds == fold] ** 2)
        excess = errors - errors[errors.mean(1).argmin()]
        expected = 1 + np.flatnonzero(excess.mean(1) <= excess.std(1, ddof=1) / 2)[0]
        options = {"sparsities": range(1, 6), "n_folds": 4, "rounds": 5, "random_state": 0} | small_sites()
        model = fgmp.FedGradMPRegressor("cv", fit_intercept="per_group", **options)
        assert model.fit(X, y, groups=pairs).sparsity_ == expected == 3
        S = model.support_
        np.testing.assert_allclose(model.coef_[S], np.linalg.lstsq(D[:, S], d, rcond=None)[0], rtol=1e-7)
