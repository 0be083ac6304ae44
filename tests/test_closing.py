"""The end of a fit: it is at the minimiser, and no feature that the rounds found is lost there."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fgmp
from fgmp._support.linear_algebra import newton_length
from fgmp.estimators import selection_path
from fgmp.shared_support.newton import NewtonOnSupport, SupportState
from fgmp.sparse_model import SparseModel

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


# ---- The distance from the minimiser, in standard errors


def table(kind, seed=0, n_rows=300):
    """Return four columns in units of their own, targets of a kind, groups, and weights near one."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((n_rows, 4))
    columns[:, 3] = rng.random(n_rows) < 0.2
    groups = rng.permutation(n_rows) % 3
    scores = np.outer(columns[:, 0] - columns[:, 2], [1, 0, -1.5]) + 0.3 * groups[:, None]
    if kind == "counts":
        y = rng.poisson(np.exp(0.5 * scores[:, 0]))
    elif kind == "three classes":
        y = (scores + rng.gumbel(size=(n_rows, 3))).argmax(axis=1)
    else:
        y = (2 * scores[:, 0] + rng.logistic(size=n_rows) > 0).astype(int)
    X = columns * [1, 100, 0.01, 1] + [0, 1000, 0, 0]
    weights = rng.uniform(0.5, 2, n_rows)
    return X, y, groups, weights / weights.mean()


def minimiser_and_errors(X, y, groups, weights, C, intercept, kind):
    """Return the coefficients and their model-based errors, by Newton's method on pooled rows.

    Columns are scaled to what an intercept leaves of them, so that the ridge is that of the
    estimator. Where outputs are free to shift, `pinv` leaves coefficients that sum to zero.
    """
    constant = np.zeros((len(X), 0))
    if intercept == "per_group":
        constant = (groups[:, None] == np.unique(groups)).astype(float)
    elif intercept:
        constant = np.ones((len(X), 1))
    root = np.sqrt(weights)[:, None]
    means = constant @ np.linalg.lstsq(root * constant, root * X)[0]
    scale = np.sqrt(np.average((X - means) ** 2, axis=0, weights=weights))
    design = np.column_stack([(X - means.mean(axis=0)) / scale, constant])
    p = X.shape[1]
    n_outputs = 3 if kind == "three classes" else 1
    ridge = np.repeat(np.arange(design.shape[1]) < p, n_outputs) / C
    b = np.zeros(design.shape[1] * n_outputs)
    for _ in range(60):
        z = design @ b.reshape(-1, n_outputs)
        if kind == "counts":
            expected = np.exp(z)
            curvature = expected[:, :, None]
            targets = y[:, None]
        elif n_outputs == 1:
            expected = 1 / (1 + np.exp(-z))
            curvature = (expected * (1 - expected))[:, :, None]
            targets = y[:, None]
        else:
            expected = np.exp(z - z.max(axis=1, keepdims=True))
            expected /= expected.sum(axis=1, keepdims=True)
            curvature = expected[:, :, None] * (np.eye(3) - expected[:, None, :])
            targets = np.eye(3)[y]
        gradient = (design.T @ (weights[:, None] * (expected - targets))).reshape(-1) + ridge * b
        hessian = np.einsum("ja,jcd,jb->acbd", design, weights[:, None, None] * curvature, design)
        hessian = hessian.reshape(len(b), len(b))
        inverse = np.linalg.pinv(hessian + np.diag(ridge), rcond=1e-12, hermitian=True)
        b = b - inverse @ gradient
    errors = np.sqrt(np.diag(inverse @ hessian @ inverse)).reshape(-1, n_outputs)[:p].T
    return b.reshape(-1, n_outputs)[:p].T / scale, errors / scale


@pytest.mark.parametrize("C", [0.1, 1e3, np.inf])
@pytest.mark.parametrize("intercept", [True, False, "per_group"])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_fit_ends_within_a_hundred_thousandth_of_a_standard_error(kind, intercept, C):
    """Of the minimiser, for labels and counts, with weights and without."""
    X, y, groups, weights = table(kind)
    for sparsity, given in ((4, None), ("all", weights)):
        if kind == "counts":
            model = fgmp.FedGradMPRegressor(sparsity, C=C, loss="poisson", fit_intercept=intercept)
        else:
            model = fgmp.FedGradMPClassifier(sparsity, C=C, fit_intercept=intercept)
        model.fit(X, y, groups, sample_weight=given)
        w = np.ones(len(X)) if given is None else given
        b, errors = minimiser_and_errors(X, y, groups, w, C, intercept, kind)
        assert np.abs((np.atleast_2d(model.coef_) - b) / errors).max() < 1e-5


def test_fit_of_a_float32_table_ends_there_too():
    """Sums are of float64, whatever the table: its rounded numbers are the data."""
    X, y, groups, _ = table("three classes")
    X = (X / [1, 100, 0.01, 1]).astype(np.float32)
    model = fgmp.FedGradMPClassifier(4, C=np.inf).fit(X, y, groups)
    b, errors = minimiser_and_errors(
        X.astype(float), y, groups, np.ones(len(X)), np.inf, True, "three classes"
    )
    assert np.abs((model.coef_ - b) / errors).max() < 1e-5


# ---- Classes that one column separates


def separated(seed, n_columns=2, n_classes=2):
    """Return 240 rows in four groups whose class is told by the first column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((240, n_columns))
    edges = [0] if n_classes == 2 else [-0.5, 0.5]
    return X, np.digitize(X[:, 0], edges), np.arange(240) % 4


# Elimination at a model on the way to the minimiser removed the first column from seed 47, and from
# others on other processors.
@pytest.mark.parametrize("C, seed", [(100, 47), (1e4, 0)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_column_that_separates_the_classes_stays(n_classes, C, seed):
    """The loss is lower than without it by nearly all, with every kind of intercept."""
    X, y, groups = separated(seed, n_classes=n_classes)
    for intercept in (True, False, "per_group"):
        if n_classes == 2 or intercept is True:
            model = fgmp.FedGradMPClassifier(1, C=C, fit_intercept=intercept).fit(X, y, groups)
            objective = model.history_["objective"]
            assert model.support_.tolist() == [0]
            assert objective[-1] < objective[0] / 4


def counts_without_events(seed):
    """Return a column of noise and a flag, without which there are no events."""
    rng = np.random.default_rng(seed)
    scores, noise = rng.standard_normal((240, 2)).T
    y = np.where(scores > 0, rng.poisson(3, 240), 0)
    return np.column_stack([noise, scores > 0]), y, np.arange(240) % 4


# The coefficient of the flag is so large from seed 9 that the curvature has nearly vanished, and
# elimination takes it for the column that matters less.
@pytest.mark.parametrize("seed", [9, 0])
@pytest.mark.parametrize("secure", [False, True])
def test_flag_without_which_there_are_no_events_stays(secure, seed):
    """Where elimination loses it, the largest entries are taken; without a ridge it is refused."""
    X, y, groups = counts_without_events(seed)
    model = fgmp.FedGradMPRegressor(1, loss="poisson", C=100, secure=secure).fit(X, y, groups)
    assert model.support_.tolist() == [1]
    with pytest.raises(ValueError, match="separated"):
        model.set_params(C=np.inf).fit(X, y, groups)


def test_refit_that_loses_what_the_rounds_had_found_warns(monkeypatch):
    """Where elimination and the largest entries take the wrong column, it is said."""
    backwards = selection_path.backwards

    def of_wrong_column(minimiser, hessian, selection, least):
        for point in backwards(minimiser, hessian, selection, least):
            kept = np.array([0, 2]) if len(point.positions) == 2 else point.positions
            yield point._replace(positions=kept)

    monkeypatch.setattr(selection_path, "backwards", of_wrong_column)
    monkeypatch.setattr(
        selection_path.EliminationPath,
        "largest_entries",
        lambda path, sparsity, selection: path.model(sparsity, path.ridge),
    )
    X, y, groups = separated(47)
    with pytest.warns(ConvergenceWarning, match="removed counts for more than it seemed"):
        fgmp.FedGradMPClassifier(1, C=100).fit(X, y, groups)


def separated_in_part(seed):
    """Return a table of a few columns and a flag, with labels that often separate it in part."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.choice([2, 2, 3]))
    n_rows = int(rng.choice([36, 60, 120]))
    n_columns = int(rng.choice([1, 2, 3]))
    X = rng.standard_normal((n_rows, n_columns))
    X = np.column_stack([X, rng.random(n_rows) < 0.15])
    if rng.random() < 0.3:
        X = np.round(X)
    scores = X @ rng.normal(size=(n_columns + 1, n_classes)) * rng.choice([1, 3, 6])
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    weights = rng.uniform(0.2, 3, n_rows) if rng.random() < 0.3 else None
    return X, y, np.arange(n_rows) % 3, weights


# Tables on which a linear program finds rows that can be moved ahead for ever, and none back. Of
# the first two the directions that are left have lost their curvature when the others settle.
@pytest.mark.parametrize("seed, intercept", [(360, True), (787, False), (3, True)])
def test_classes_separated_in_part_are_refused_without_a_ridge(seed, intercept):
    """Never answered with the coefficients at which the steps happen to end."""
    X, y, groups, weights = separated_in_part(seed)
    model = fgmp.FedGradMPClassifier("all", C=np.inf, fit_intercept=intercept, min_rows=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="separated"):
            model.fit(X, y, groups, sample_weight=weights)


def test_steps_from_a_saturated_start_reach_the_minimiser():
    """A loss without curvature has a gradient there, and a column without a ridge has no other."""
    X, y, _, _ = table("two classes")
    design = np.column_stack([np.ones(300), X / [1, 100, 0.01, 1] - [0, 10, 0, 0]])
    federation = fgmp.Federation.from_arrays(
        design.reshape(3, 100, 5), y.reshape(3, 100), loss="logistic"
    )
    method = NewtonOnSupport(4, 1e-2, unpenalised=(0,))
    start = SparseModel(np.arange(5), np.array([-3e4, 0, 0, 0, 0]), (5,))
    result = fgmp.simulate(method, federation, rounds=4, rng=0, state=SupportState(start))
    gradient = design.T @ (1 / (1 + np.exp(-design @ result.coefficients)) - y) / len(y)
    gradient[1:] += 1e-2 * result.coefficients[1:]
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.parametrize("fall", [-4.0, -0.5, 0.0, 0.5, 1.5])
def test_step_is_exact_where_the_curvature_falls_exponentially(fall):
    """Along one coefficient, from two points at which it is known: f'' is exp(-fall x)."""
    curvature = np.exp(-fall * 0.3)
    newton = 0.4
    hessian = np.full((1, 1), curvature)
    length = newton_length(np.full(1, 0.3), np.eye(1), hessian, np.full(1, newton))
    x = length * newton
    rise = x if fall == 0 else (1 - np.exp(-fall * x)) / fall
    assert curvature * rise == pytest.approx(newton * curvature, abs=1e-12)
