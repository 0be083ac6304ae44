"""Counts: the Poisson loss, and the estimator with it, against scikit-learn and statsmodels."""

import json

import numpy as np
import pytest
import statsmodels.api as sm
from cases import table_in_several_units
from hypothesis import given
from hypothesis import strategies as st
from property_settings import repeatable, seeds
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
LOSS = fgmp.PoissonLoss()


def table_of_counts(seed=0, n_rows=450):
    """Return the table of several units with counts, whose mean is about three."""
    X, scores, groups = table_in_several_units(seed=seed, n_rows=n_rows)
    rate = np.exp(0.4 * scores + 0.8)
    return X, np.random.default_rng(seed).poisson(rate), groups


def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


# The loss.


def test_values_are_half_the_deviance_of_scikit_learn():
    """They agree with mean_poisson_deviance, and are zero where the prediction is the count."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(50)
    y = rng.poisson(np.exp(z)).astype(float)
    expected = mean_poisson_deviance(y, np.exp(z)) / 2
    assert LOSS.values(z, y).mean() == pytest.approx(expected, rel=1e-12)
    assert LOSS.values(np.log(y[y > 0]), y[y > 0]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("z", [-3.0, 0.5, 39.5, 40.0, 41.0, 60.0])
def test_derivatives_are_those_of_central_differences_on_both_sides_of_the_largest_exponent(z):
    """Where l continues as its expansion its derivatives go on without a jump."""
    step = 1e-4
    y = np.array([2.0])
    at = np.array([z])
    scale = np.exp(min(z, 40.0))
    slope = (LOSS.values(at + step, y) - LOSS.values(at - step, y)) / (2 * step)
    assert LOSS.derivative(at, y) == pytest.approx(slope, abs=1e-6 * scale * (1 + abs(z)))
    bend = (LOSS.derivative(at + step, y) - LOSS.derivative(at - step, y)) / (2 * step)
    assert LOSS.curvature(at, y, np.ones(1)) == pytest.approx(bend, abs=1e-4 * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_prediction_overflows(dtype):
    """Also the square of a derivative is finite, which norms of gradients are made of."""
    z = np.array([-1e4, 0, 50, 1e4], dtype)
    y = np.ones(4, dtype)
    for part in (LOSS.values(z, y), LOSS.derivative(z, y), LOSS.curvature(z, y, z)):
        assert np.isfinite(part).all() and part.dtype == dtype
    assert np.isfinite(LOSS.derivative(z, y)[:3] ** 2).all()


def test_expected_counts_are_exponentials_and_finite_for_every_prediction():
    """To the last bit up to exp(40), beyond every count; then they grow by the derivative of l."""
    z = np.linspace(-50, 40, 1001)
    np.testing.assert_array_equal(LOSS.expected_targets(z), np.exp(z))
    beyond = np.array([40.0, 41.0, 1e3, 1e100])
    means = LOSS.expected_targets(beyond)
    assert np.isfinite(means).all() and (np.diff(means) > 0).all()
    np.testing.assert_array_equal(means - 3, LOSS.derivative(beyond, np.full(4, 3.0)))


@repeatable(20)
@given(z=st.floats(-20, 38), u=st.floats(-5, 5))
def test_curvature_changes_as_self_concordance_bounds_it(z, u):
    """exp(-|u|) l''(z) <= l''(z + u) <= exp(|u|) l''(z), with the constant one."""
    one = np.ones(1)
    here, there = (LOSS.curvature(np.array([at]), one, one)[0] for at in (z, z + u))
    bound = np.exp(LOSS.self_concordance * abs(u)) * (1 + 1e-9)
    assert here / bound <= there <= here * bound


@pytest.mark.parametrize("bad", [-1.0, np.nan, 2.0**54])
def test_target_that_is_no_count_is_refused(bad):
    """Negative, missing and huge targets are an error that has their array."""
    with pytest.raises(ValueError, match=r"ys\[0\].*(no count|not finite|finite)"):
        fgmp.Federation.from_arrays([np.ones((2, 1))], [[1.0, bad]], loss="poisson")


def test_run_with_counts_is_the_work_of_the_reference_and_says_so(backend):
    """Whatever backend is asked for: no kernel knows the loss."""
    rng = np.random.default_rng(0)
    As = rng.standard_normal((4, 60, 12))
    ys = [rng.poisson(np.exp(A[:, 2] - A[:, 7])) for A in As]
    federation = fgmp.Federation.from_arrays(As, ys, loss="poisson")
    result = fgmp.simulate(fgmp.FedGradMP(2), federation, 15, rng=0)
    assert result.support.tolist() == [2, 7]
    assert result.backend == "reference"
    if backend == "compiled":
        assert set(result.fallbacks) == {"no kernel for this loss"}


def test_client_solvers_agree_on_a_minimiser():
    """`Exact`, Newton and gradient descent, each of which searches for the length of its steps."""
    rng = np.random.default_rng(1)
    A = 2 * rng.standard_normal((200, 3))
    client = fgmp.Client(A, rng.poisson(np.exp(A @ [1.0, -0.5, 0.2])).astype(float), LOSS)
    problem = fgmp.RestrictedProblem.of(client, np.arange(3), fgmp.StandardBasis())
    expected = sm.GLM(client.targets, A, family=sm.families.Poisson()).fit(tol=1e-14).params
    for solver in (fgmp.Exact(), fgmp.Newton(50), fgmp.GradientDescent(accuracy=1e-9)):
        found = solver.minimise(problem, np.full(3, 1.0), rng)
        np.testing.assert_allclose(found, expected, atol=1e-8)


# The estimator.


@pytest.mark.parametrize("method", ["shared", "fedgradmp"])
@pytest.mark.parametrize("C", [np.inf, 0.1])
@pytest.mark.parametrize("secure", [False, True])
def test_coefficients_are_those_of_scikit_learn_on_the_support(method, C, secure, backend):
    """With its penalty alpha = 1 / (C n), on columns of deviation one."""
    X, y, groups = table_of_counts()
    model = fgmp.FedGradMPRegressor(3, loss="poisson", C=C, method=method, secure=secure)
    model.fit(X, y, groups)
    support = model.support_
    assert len(support) == 3
    Z = standardized(X.to_numpy())[:, support]
    reference = PoissonRegressor(alpha=1 / (C * len(y)), tol=1e-12, max_iter=10_000).fit(Z, y)
    found = model.coef_[support] * X.to_numpy()[:, support].std(axis=0)
    np.testing.assert_allclose(found, reference.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), reference.predict(Z), rtol=1e-6)
    assert model.score(X, y) == pytest.approx(reference.score(Z, y), abs=1e-6)


def test_all_features_are_those_of_scikit_learn():
    """Without a ridge they agree with PoissonRegressor."""
    X, y, groups = table_of_counts(seed=2)
    model = fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf).fit(X, y, groups)
    reference = PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000)
    reference.fit(standardized(X.to_numpy()), y)
    np.testing.assert_allclose(model.coef_ * X.to_numpy().std(axis=0), reference.coef_, atol=1e-6)


@pytest.mark.parametrize("secure", [False, True])
def test_standard_errors_are_those_of_statsmodels(secure):
    """Quasi-Poisson, and of the cluster sandwich, with rate ratios beside them."""
    X, y, groups = table_of_counts()
    model = fgmp.FedGradMPRegressor(3, loss="poisson", C=np.inf, secure=secure).fit(X, y, groups)
    design = sm.add_constant(standardized(X.to_numpy())[:, model.support_])
    glm = sm.GLM(y, design, family=sm.families.Poisson())
    plain = glm.fit(tol=1e-14, scale="X2", use_t=True)
    robust = glm.fit(tol=1e-14, cov_type="cluster", cov_kwds={"groups": groups})
    scales = X.to_numpy()[:, model.support_].std(axis=0)
    columns = model.summary().columns
    np.testing.assert_allclose(columns["standard_error"][1:] * scales, plain.bse[1:], rtol=1e-6)
    np.testing.assert_allclose(
        columns["standard_error_by_group"][1:] * scales, robust.bse[1:], rtol=1e-6
    )
    np.testing.assert_allclose(columns["rate_ratio_per_deviation"][1:], np.exp(plain.params[1:]))
    half = (columns["upper"] - columns["lower"])[1:] * scales / 2
    np.testing.assert_allclose(half, np.ptp(plain.conf_int(), axis=1)[1:] / 2, rtol=1e-6)
    assert model.covariance_.dispersion == pytest.approx(plain.scale, rel=1e-9)
    words = " ".join([repr(model.summary()), *model.summary().notes])
    assert f"quasi-Poisson: dispersion {plain.scale:.4g} (Pearson's chi-squared over n-k" in words
    assert "rate ratio" in words and f"t({len(y) - 4}) quantiles" in words


def test_intervals_of_overdispersed_counts_cover_as_often_as_they_say():
    """Gamma noise, 240 null effects; with errors of Poisson counts 68 % are covered."""
    covered = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, groups = rng.standard_normal((300, 8)), np.arange(300) % 20
        y = rng.poisson(3 * rng.exponential(size=300))
        model = fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf).fit(X, y, groups)
        columns = model.summary().columns
        covered.extend(((columns["lower"] < 0) & (columns["upper"] > 0))[1:])
        assert model.covariance_.dispersion > 2
    assert abs(np.mean(covered) - 0.95) < 2.6 * np.sqrt(0.95 * 0.05 / 240)


def test_dispersion_below_one_makes_errors_smaller_as_statsmodels_does():
    """Counts that vary less than Poisson counts: numbers of heads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = rng.binomial(10, 0.8, 300)
    model = fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf).fit(X, y, np.arange(300) % 6)
    glm = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-14, scale="X2")
    assert model.covariance_.dispersion == pytest.approx(glm.scale, rel=1e-9)
    assert glm.scale < 0.3
    np.testing.assert_allclose(model.summary().columns["standard_error"], glm.bse, rtol=1e-6)


@pytest.mark.parametrize("times", ["whole", "any"])
def test_rates_have_times_as_weights_and_not_numbers_of_rows(times):
    """Deaths per year with the years as weights have the model of deaths with an offset."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 2))
    years = rng.integers(1, 9, 200) if times == "whole" else rng.uniform(0.5, 9, 200)
    deaths = rng.poisson(years * np.exp(0.3 * X[:, 0] - 1))
    groups = np.arange(200) % 8
    model = fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf)
    model.fit(X, deaths / years, groups, sample_weight=years)
    glm = sm.GLM(deaths, sm.add_constant(X), family=sm.families.Poisson(), exposure=years)
    expected = glm.fit(tol=1e-14, scale="X2")
    columns = model.summary().columns
    np.testing.assert_allclose(columns["coefficient"], expected.params, atol=1e-6)
    np.testing.assert_allclose(columns["standard_error"], expected.bse, rtol=1e-6)
    assert model.covariance_.dispersion == pytest.approx(expected.scale, rel=1e-9)


def test_file_without_a_dispersion_says_so():
    """A file of an earlier version, whose errors are those of the Poisson distribution."""
    X, y, groups = table_of_counts()
    content = json.loads(fgmp.FedGradMPRegressor(3, loss="poisson").fit(X, y, groups).to_json())
    content["covariance"]["dispersion"] = 1.0
    again = fgmp.FedGradMPRegressor.from_json(json.dumps(content))
    assert "a file of an earlier version has no dispersion" in " ".join(again.summary().notes)


@repeatable(3)
@given(seed=seeds)
def test_integer_weights_equal_repeated_rows(seed):
    """Weights 0, 1 and 2 give the coefficients of rows left out, kept and doubled."""
    X, y, groups = table_of_counts(seed=seed % 1000, n_rows=180)
    weights = np.random.default_rng(seed).integers(0, 3, len(y))
    model = fgmp.FedGradMPRegressor(3, loss="poisson", C=10.0, method="shared")
    weighted = model.fit(X, y, groups, weights).coef_
    rows = np.repeat(np.arange(len(y)), weights)
    repeated = model.fit(X.iloc[rows], y[rows], groups[rows]).coef_
    scales = X.to_numpy().std(axis=0)
    np.testing.assert_allclose(weighted * scales, repeated * scales, atol=1e-6)


def test_sparsity_by_cross_validation_finds_the_features():
    """Features 0 and 2 are among at most five."""
    X, y, groups = table_of_counts()
    model = fgmp.FedGradMPRegressor("cv", loss="poisson", random_state=0).fit(X, y, groups)
    assert {0, 2} <= set(model.support_.tolist()) and 2 <= model.sparsity_ <= 5


def test_model_goes_through_json():
    """It keeps its loss and summary, and a file without a loss is one of squared loss."""
    X, y, groups = table_of_counts()
    model = fgmp.FedGradMPRegressor(3, loss="poisson").fit(X, y, groups)
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.loss == "poisson" and repr(again.summary()) == repr(model.summary())
    content = json.loads(model.to_json())
    del content["parameters"]["loss"]  # a file of version 0.2
    assert fgmp.FedGradMPRegressor.from_json(json.dumps(content)).loss == "squared"


def test_column_that_no_event_bounds_is_an_error_without_a_ridge():
    """Its rows have no events at all, so that its coefficient goes to minus infinity."""
    X, y, groups = table_of_counts()
    flag = np.arange(len(y)) % 5 == 0
    X = X.assign(flag=flag.astype(float))
    y = np.where(flag, 0, y)
    with pytest.raises(ValueError, match="no bound with C=inf"):
        fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf).fit(X, y, groups)
    model = fgmp.FedGradMPRegressor("all", loss="poisson", C=1.0).fit(X, y, groups)
    assert model.coef_[-1] < -2


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.full(40, -1.0), r"y\[0\] is no count; expected numbers from 0 to 2\^53"),
        (np.zeros(40), "y is zero in every row; expected a count above zero"),
    ],
)
def test_targets_that_are_no_counts_are_refused(y, words):
    """Negative counts and counts that are all zero are an error in words."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(ValueError, match=words):
        fgmp.FedGradMPRegressor(1, loss="poisson").fit(X, y)


def test_loss_that_is_none_is_refused():
    """The error has the name of the loss that was given."""
    with pytest.raises(ValueError, match="loss is 'gamma'; expected"):
        fgmp.FedGradMPRegressor(1, loss="gamma").fit(np.eye(4), np.ones(4))


def test_counts_with_outliers_converge():
    """A Newton step from the mean overshoots by far, and is halved."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 4))
    X[0] = [30.0, 0, 0, 0]
    y = rng.poisson(np.exp(0.3 * X[:, 0] - 1))
    y[0] = 8000
    model = fgmp.FedGradMPRegressor("all", loss="poisson", C=np.inf).fit(X, y, np.arange(300) % 3)
    expected = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-14).params
    np.testing.assert_allclose([model.intercept_, *model.coef_], expected, atol=1e-6)
