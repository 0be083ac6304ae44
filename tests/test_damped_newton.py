"""Newton's method for small problems, against SciPy, closed forms and equations of a minimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import repeatable, seeds
from scipy.optimize import minimize

import fgmp
from fgmp.estimators.calibration import Outcome, calibrate
from fgmp.estimators.damped_newton import SecondOrders, minimise
from fgmp.estimators.profiled_loss import RIDGE, own_intercept
from fgmp.estimators.weighted_loss import WeightedLoss


def lines_of(columns, targets, loss):
    """Return an oracle of the mean losses of lines, and a list that grows with each evaluation."""
    asked = []

    def evaluate(lines):
        asked.append(lines)
        parts = []
        for A, y, line in zip(columns, targets, lines, strict=True):
            z = A @ line
            curvatures = loss.curvature(z, y, np.ones(len(y)))
            gradient = A.T @ loss.derivative(z, y)
            parts.append((loss.values(z, y).sum(), gradient, A.T @ (curvatures[:, None] * A)))
        return SecondOrders(*(np.array(part) / len(y) for part in zip(*parts, strict=True)))

    return evaluate, asked


@repeatable(20)
@given(seed=seeds)
def test_minimisers_of_several_problems_are_those_of_scipy(seed):
    """They share every evaluation, and the slowest one decides how many there are."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((3, 40, 2))
    targets = rng.choice([-1.0, 1.0], (3, 40))
    loss = fgmp.LogisticLoss()
    evaluate, asked = lines_of(columns, targets, loss)
    found = minimise(evaluate, rng.standard_normal((3, 2)), 1e-12)
    assert found.is_found.all() and len(asked) <= 12
    for A, y, line in zip(columns, targets, found.points, strict=True):
        best = minimize(lambda x, A=A, y=y: loss.values(A @ x, y).mean(), np.zeros(2), tol=1e-12)
        np.testing.assert_allclose(line, best.x, atol=1e-5)
        assert np.abs(A.T @ loss.derivative(A @ line, y)).max() < 1e-8


def test_quadratic_takes_one_step():
    """The second evaluation sees that the step was exact."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    evaluate, asked = lines_of([A], [y], fgmp.SquaredLoss())
    found = minimise(evaluate, np.zeros((1, 2)), 1e-12)
    np.testing.assert_allclose(found.points[0], np.linalg.lstsq(A, y)[0], rtol=1e-12)
    assert len(asked) == 2


def test_flat_problem_has_no_minimiser_and_leaves_the_others_theirs():
    """Classes that a line separates, a column of zeros, and a problem that has a minimum."""
    rng = np.random.default_rng(1)
    A = np.column_stack([np.ones(30), rng.standard_normal(30)])
    of_ones = np.column_stack([np.ones(30), np.zeros(30)])
    y = rng.choice([-1.0, 1.0], 30)
    separated = np.where(A[:, 1] > 0, 1.0, -1.0)
    loss = fgmp.LogisticLoss()
    evaluate, asked = lines_of([A, of_ones, A], [separated, y, y], loss)
    found = minimise(evaluate, np.zeros((3, 2)), 1e-12, least_curvature=1e-10)
    alone = minimise(lines_of([A], [y], loss)[0], np.zeros((1, 2)), 1e-12)
    assert found.is_found.tolist() == [False, False, True]
    np.testing.assert_allclose(found.points[2], alone.points[0], rtol=1e-10)
    assert len(asked) <= 15
    assert np.array_equal(asked[-1][1], [0, 0])


@repeatable(20)
@given(seed=seeds, power=st.floats(-3, 9), is_weighted=st.booleans())
def test_own_intercept_of_counts_is_the_ratio_of_what_is_observed_to_what_is_expected(
    seed, power, is_weighted
):
    """Its logarithm, for counts of any size, to the last digits."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(20)
    y = 10.0**power * rng.gamma(1, size=20)
    weights = rng.uniform(0.1, 3, 20) if is_weighted else np.ones(20)
    weights = weights / weights.mean()
    targets = np.column_stack([y, weights])
    own = own_intercept(WeightedLoss(fgmp.PoissonLoss()), z, targets)
    expected = np.log(weights @ y) - np.log(weights @ np.exp(z))
    np.testing.assert_allclose(own.values, expected, rtol=1e-12, atol=1e-12)
    assert own.is_finite


@pytest.mark.parametrize("ridge", [RIDGE, 0.05])
def test_own_intercept_without_events_is_as_far_as_the_ridge_lets_it_go(ridge):
    """The derivative of the mean loss and the ridge is zero there."""
    z = np.random.default_rng(2).standard_normal(20)
    own = own_intercept(fgmp.PoissonLoss(), z, np.zeros(20), ridge)
    (b,) = own.values
    assert not own.is_finite
    assert np.exp(z + b).mean() == pytest.approx(-ridge * b, rel=1e-9)


@pytest.mark.parametrize(
    ("events", "has_slope"),
    [([0, 0, 1], False), ([2, 0, 0, 0], False), ([0, 2, 0, 0], True), ([0, 0, 3, 4], True)],
)
def test_counts_with_all_events_at_one_end_have_no_slope(events, has_slope):
    """Ever less is expected of the other rows; events inside, or at two places, hold the line."""
    y = np.array(events, float)
    ones = np.ones(len(y))
    z = np.linspace(-1, 1, len(y))
    table = calibrate(Outcome(z, y, fgmp.PoissonLoss(), ones, ones))
    assert np.isfinite(table).tolist() == [True, True, has_slope, has_slope]


def test_large_counts_have_a_slope_where_their_loss_nearly_vanishes():
    """Its value is the rounding of its terms there. The slope is the one that made the counts."""
    rng = np.random.default_rng(34)
    z = 0.1 * rng.standard_normal(300)
    y = rng.poisson(1e6 * np.exp(3 * z)).astype(float)
    ones = np.ones(300)
    _, _, slope, error = calibrate(Outcome(z, y, fgmp.PoissonLoss(), ones, ones))
    assert slope == pytest.approx(3, abs=4 * error) and 0 < error < 1e-3
