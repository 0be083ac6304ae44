"""Numerics of the estimators: many features, large means, units, separated classes, float32."""

import tracemalloc

import numpy as np
import pytest
from cases import linear_predictions
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, OrthogonalMatchingPursuit

import fgmp
from fgmp.estimators import newton_steps, refit
from fgmp.estimators.client_sums import BeyondRange, join_digits, split_digits
from fgmp.estimators.federated_table import FederatedTable, Rows

quiet = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


# ---- Many features, few rows


def tall(seed, n_rows, n_features):
    """Three features of thousands that explain nearly all."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    true = [3, n_features // 20, 3 * n_features // 4]
    return X, X[:, true] @ [3, -2, 1.5] + 0.5 * rng.standard_normal(n_rows), true


@quiet
@pytest.mark.parametrize(
    "n_rows, n_features", [(60, 2000), (60, 10_000), (120, 20_000), (200, 20_000)]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_three_features_of_thousands_are_those_of_pooled_omp(seed, n_rows, n_features):
    """The coefficients are those of scikit-learn's pursuit on all rows."""
    X, y, true = tall(seed, n_rows, n_features)
    model = fgmp.FedGradMPRegressor(3).fit(X, y, np.arange(n_rows) % 4)
    pooled = OrthogonalMatchingPursuit(n_nonzero_coefs=3).fit(X, y)
    np.testing.assert_array_equal(model.support_, true)
    np.testing.assert_allclose(model.coef_, pooled.coef_, rtol=1e-8, atol=1e-12)


@quiet
@pytest.mark.parametrize("seed", [0, 1])
def test_sparsity_is_chosen_among_thousands_of_features(seed):
    """Sizes of the path are limited by the rows."""
    X, y, true = tall(seed, 60, 2000)
    model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, y, np.arange(60) % 4)
    assert model.support_.tolist() == true
    assert model.cv_.table["sparsity"].max() <= 60 * 0.9 / 6


@quiet
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_marker_among_thousands_is_found(seed):
    """It is the feature with the largest correlation."""
    rng = np.random.default_rng(seed)
    X = rng.binomial(2, rng.uniform(0.1, 0.5, 20_000), (100, 20_000)).astype(float)
    z = (X[:, 700] - X[:, 700].mean()) / X[:, 700].std()
    y = z + 0.5 * rng.standard_normal(100)
    spread = X.std(axis=0)
    cosines = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())) / np.where(spread > 0, spread, np.inf)
    model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, y, np.arange(100) % 4)
    assert cosines.argmax() == 700
    assert 700 in model.support_


@pytest.fixture
def wide_federation():
    """Forty clients of four rows with 8,000 features, three of which count."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 4, 8000))
    return fgmp.Federation.from_arrays(A, A[:, :, :3].sum(axis=2))


def test_default_sketch_follows_the_number_of_atoms(wide_federation):
    """It has three rows of an eighth of the atoms, and finds the features."""
    result = fgmp.simulate(fgmp.SharedSupportGradMP(3), wide_federation, 10, rng=0)
    assert result.support.tolist() == [0, 1, 2]
    normal_equations = 6 * 9 // 2
    assert result.history["bytes_up"][1] == 40 * 8 * (3 * 1000 + normal_equations)


def test_sketch_that_is_too_narrow_warns(wide_federation):
    """The warning names a width that is enough."""
    method = fgmp.SharedSupportGradMP(3, fgmp.CountSketch(3, 70))
    words = r"columns is 70, and 160 rows have 8000 .* CountSketch\(3, 2667\)"
    with pytest.warns(fgmp.AdviceWarning, match=words):
        fgmp.simulate(method, wide_federation, 1, rng=0)


def test_sketch_wider_than_the_gradient_sends_the_gradient(wide_federation):
    """Three rows of 2,667 are more than 8,000 numbers."""
    method = fgmp.SharedSupportGradMP(3, fgmp.CountSketch(3, 2667))
    bytes_up = fgmp.simulate(method, wide_federation, 1, rng=0).history["bytes_up"]
    assert bytes_up[-1] == 40 * 8 * (8000 + 6 * 9 // 2)


# ---- Units under masks


def offsets(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 8))
    y = 2 * X[:, 0] - 1.5 * X[:, 3] + X[:, 5] + 0.3 * rng.standard_normal(300)
    return X, y, np.arange(300) % 3


@pytest.mark.parametrize("make", [fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier])
@pytest.mark.parametrize("offset", [1e5, -1e6, 1e9, 1e12])
def test_large_mean_does_not_change_fit_with_secure_sums(make, offset):
    """The model is that without masks."""
    X, y, groups = offsets()
    X[:, 0] += offset
    y = y > 0 if make is fgmp.FedGradMPClassifier else y + offset
    plain = make(3, secure=False).fit(X, y, groups)
    masked = make(3, secure=True).fit(X, y, groups)
    assert plain.support_.tolist() == masked.support_.tolist() == [0, 3, 5]
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-5)
    np.testing.assert_allclose(
        linear_predictions(masked, X), linear_predictions(plain, X), rtol=1e-6, atol=1e-3
    )


@pytest.mark.filterwarnings("ignore:columns whose spread or mean is far off")
@pytest.mark.parametrize("factor", [1e-7, 1e5, 1e7])
@pytest.mark.parametrize("n_rows", [100, 8])
def test_group_in_other_units_takes_part_with_secure_sums(factor, n_rows):
    """Its columns may be 1e7 times as large."""
    X, y, groups = offsets()
    groups = np.where(np.arange(300) < n_rows, 2, np.arange(300) % 2)
    X[groups == 2, 1] *= factor
    plain = fgmp.FedGradMPRegressor(3, secure=False).fit(X, y, groups)
    masked = fgmp.FedGradMPRegressor(3, secure=True).fit(X, y, groups)
    np.testing.assert_array_equal(masked.support_, plain.support_)
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-8)
    assert masked.history_["rejected"][-1] == 0


def test_units_beyond_the_range_of_secure_sums_are_named():
    """The message has the columns or the argument."""
    X, y, groups = offsets()
    groups = np.where(np.arange(300) < 8, 2, np.arange(300) % 2)
    with pytest.raises(
        ValueError, match=r"X has columns \[1\] that one site counts .*; expected the same units"
    ):
        fgmp.FedGradMPRegressor(3, secure=True).fit(
            np.where((groups == 2)[:, None], X * [1, 1e14, *[1] * 6], X), y, groups
        )
    with pytest.raises(ValueError, match=r"y has numbers that one site counts"):
        fgmp.FedGradMPRegressor(3, secure=True).fit(X, np.where(groups == 2, 1e14 * y, y), groups)


def test_sums_beyond_the_range_of_secure_sums_are_named():
    """The message has the columns of X."""
    X, y, groups = offsets()
    X[:, 5] *= 1e9
    with pytest.raises(
        ValueError,
        match=r"^X has in the columns \[5\] units in which an answer holds larger numbers; ",
    ):
        fgmp.FedGradMPRegressor(3, secure=True, standardize=False, method="shared").fit(
            X, y, groups
        )


def test_intercepts_far_from_zero_are_exact_with_secure_sums():
    """To the last digits of the targets."""
    X, y, groups = offsets()
    y = 1e9 + 1e-3 * y + groups
    plain, masked = (
        fgmp.FedGradMPRegressor(3, secure=secure, fit_intercept="per_group").fit(X, y, groups)
        for secure in (False, True)
    )
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=1e-8)
    np.testing.assert_allclose(masked.intercept_, plain.intercept_, rtol=1e-15, atol=1e-6)


@pytest.mark.parametrize("count", [3, 4])
def test_digits_of_a_number_join_to_the_number(count):
    """To the bit; each digit is at most 2^20."""
    numbers = np.array([0.0, -0.3, 1.5, -(2.0**20), 2.0**45 + 0.25, -(2.0**59)])
    parts = split_digits(numbers, count)
    assert parts.shape == (count, 6)
    assert (np.abs(parts) <= 2.0**20).all()
    np.testing.assert_array_equal(join_digits(parts), numbers)


def test_digits_of_a_number_beyond_the_range_are_refused_by_column():
    """Too large a number and nan are named."""
    with pytest.raises(BeyondRange) as error:
        split_digits(np.array([1.0, 2.0**61, np.nan]), 3)
    assert error.value.columns.tolist() == [1, 2]


# ---- Weights of classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_balanced_classes_count_weighted_rows(n_classes):
    """A row of weight 5 is five rows, as in scikit-learn."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.digitize(X @ [2, -1.5, 1] + rng.logistic(size=400), [1, 3][: n_classes - 1])
    weights = rng.integers(1, 6, 400)
    how = dict(class_weight="balanced", C=10.0)
    ours = fgmp.FedGradMPClassifier("all", standardize=False, **how).fit(
        X, y, sample_weight=weights
    )
    again = fgmp.FedGradMPClassifier("all", standardize=False, **how)
    again.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(ours.coef_, again.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.intercept_, again.intercept_, rtol=1e-5)
    by_class = weights.sum() / (n_classes * np.bincount(y, weights))
    theirs = LogisticRegression(C=10.0, tol=1e-12, max_iter=10_000).fit(X, y, weights * by_class[y])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)


def classes(n_classes):
    """A table with two or three classes."""
    X, z, groups = offsets()
    return X, np.digitize(z, [0, 1][: n_classes - 1]), groups


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, 0.0])
def test_class_weight_that_is_not_positive_and_finite_is_refused(value, n_classes):
    """The message has the class."""
    words = r"^class_weight is .* for the class 0; expected a finite number above 0"
    with pytest.raises(ValueError, match=words):
        fgmp.FedGradMPClassifier(2, class_weight={0: value, 1: 1}).fit(*classes(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("value", [1e200, 1e-200])
def test_class_weight_whose_product_with_row_weights_overflows_is_refused(value, n_classes):
    """Either weight alone is finite and positive, and their product is not."""
    words = r"^class_weight times sample_weight is zero or not finite"
    with pytest.raises(ValueError, match=words):
        model = fgmp.FedGradMPClassifier(2, class_weight={0: value})
        model.fit(*classes(n_classes), np.full(300, value))


# ---- Classes that are separated in part


def flagged(n_classes=2, seed=0):
    """A flag that rows of the last class alone have, and a feature beside it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(300)
    y = np.digitize(x + rng.logistic(size=300), [0, 1.5][: n_classes - 1])
    return np.c_[(rng.random(300) < 0.3) & (y == n_classes - 1), x, rng.standard_normal(300)], y


@quiet
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [1.0, 100.0, 1e4, 1e8])
def test_flag_of_one_class_has_coefficient_of_scikit_learn(C, n_classes, weighted):
    """The penalty bounds it, however weak."""
    X, y = flagged(n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2, 300) if weighted else np.ones(300)
    mean = np.average(X, axis=0, weights=weights)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-14, max_iter=10_000).fit(
        Z, y, weights
    )
    expected = theirs.decision_function(Z)
    for sparsity in (3, "all"):
        ours = fgmp.FedGradMPClassifier(sparsity, C=C).fit(X, y, sample_weight=weights)
        found = ours.decision_function(X)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@quiet
@pytest.mark.parametrize("how", ["rows alike", "sample_weight", "class_weight", "float32"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["in part", "without error"])
def test_separated_classes_without_penalty_are_refused(kind, n_classes, how):
    """In part or without error, and in any precision."""
    X, y = flagged(n_classes)
    if kind == "without error":
        X[:, 0] = y + 0.1 * X[:, 2]
    weights = np.random.default_rng(1).uniform(0.5, 2, 300) if how == "sample_weight" else None
    class_weight = {0: 2.0, 1: 0.7} if how == "class_weight" else None
    X = X.astype(np.float32) if how == "float32" else X
    for sparsity in (3, "all"):
        model = fgmp.FedGradMPClassifier(sparsity, C=np.inf, class_weight=class_weight)
        with pytest.raises(
            ValueError, match=f"The classes are separated {kind} .* no bound with C=inf"
        ):
            model.fit(X, y, np.arange(300) % 3, weights)


@quiet
def test_single_row_against_a_flag_makes_its_coefficient_finite():
    """It is that of scikit-learn."""
    X, y = flagged()
    X[np.flatnonzero(y == 0)[0], 0] = 1
    ours = fgmp.FedGradMPClassifier("all", C=np.inf).fit(X, y)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(
        X, y
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)


@pytest.fixture
def partly_separated():
    """A federation whose classes a flag separates in part, and a short run of it."""
    X, y = flagged()
    X = np.c_[np.ones(300), X]
    federation = fgmp.Federation.from_arrays(X.reshape(3, 100, 4), y.reshape(3, 100), "logistic")
    return federation, fgmp.simulate(fgmp.FedAvg(learning_rate=0.1), federation, 2, rng=0)


def test_polish_of_partly_separated_classes_warns(partly_separated):
    """After five Newton steps a coefficient still moves."""
    federation, result = partly_separated
    with pytest.warns(ConvergenceWarning, match="polish ended .* moved a coefficient by 0.[12]"):
        fgmp.polish(result, federation)


def test_polish_of_partly_separated_classes_with_many_steps_is_refused(partly_separated):
    """After 40 Newton steps the rows are known to be separated."""
    federation, result = partly_separated
    words = "some of the clients' rows are separated on the 4 coefficients"
    with pytest.raises(ValueError, match=words):
        fgmp.polish(result, federation, solver=fgmp.NewtonOnSupport(steps=40))


def test_polish_of_partly_separated_classes_with_ridge_is_finite(partly_separated):
    """A small ridge bounds the coefficient of the flag."""
    federation, result = partly_separated
    solver = fgmp.NewtonOnSupport(steps=40, ridge=1e-6)
    assert 5 < fgmp.polish(result, federation, solver=solver).x[1] < 20


def test_refit_that_does_not_converge_warns(monkeypatch):
    """The warning has the number of steps and of features."""
    monkeypatch.setattr(newton_steps, "MOST_CYCLES", 1)
    monkeypatch.setattr(refit, "MOST_CYCLES", 1)
    X, y = flagged()
    with pytest.warns(ConvergenceWarning, match="did not converge in 4 Newton steps on 3 features"):
        fgmp.FedGradMPClassifier("all", C=1e6).fit(X, y)


# ---- Targets without anything to find, and the empty model


@pytest.mark.parametrize(
    "sparsity, value",
    [("cv", value) for value in (0.0, 7.0, 3.7, 14.62, -3e7, 1 / 3, 1e100)]
    + [(sparsity, value) for sparsity in (3, "all") for value in (14.62, 1e100)],
)
def test_constant_target_has_an_empty_model(sparsity, value):
    """The intercept is the constant, and a warning says so."""
    X, _, groups = offsets()
    weights = np.random.default_rng(1).uniform(0.5, 2, 300)
    for options in ({}, {"secure": True}, {"fit_intercept": "per_group"}):
        for table, given in (
            (X, None),
            (X, weights),
            (X.astype(np.float32), weights),
            (sparse.csr_array(X), None),
        ):
            model = fgmp.FedGradMPRegressor(sparsity, **options)
            with pytest.warns(fgmp.AdviceWarning, match="no feature is in the model"):
                model.fit(table, np.full(300, value), groups, given)
            assert not model.support_.size
            assert not model.coef_.any()
            assert model.intercept_ == pytest.approx(value, rel=1e-12)


@pytest.fixture(scope="module")
def targets_of_noise():
    """A table without any signal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 20))
    return X, rng.standard_normal(120), np.arange(120) % 4


def test_cross_validation_may_choose_the_empty_model(targets_of_noise):
    """A warning says so, and the plot has a linear axis that shows zero."""
    with pytest.warns(
        fgmp.AdviceWarning, match="no feature is in the model: rows that were held out"
    ):
        model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(*targets_of_noise)
    assert model.sparsity_ == 0
    assert model.cv_.table["sparsity"][0] == 0
    axes = model.cv_.plot()
    assert axes.get_yscale() == "linear"
    assert axes.get_legend().get_texts()[0].get_text() == "chosen: 0"


def test_cross_validation_with_signal_does_not_choose_the_empty_model(targets_of_noise):
    """One feature counts, and it is chosen alone."""
    X, y, groups = targets_of_noise
    model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, y + 2 * X[:, 3], groups)
    assert model.support_.tolist() == [3]


# ---- float32


@pytest.mark.parametrize(
    "offset, in_csr", [(0.0, False), (4_500_000.0, False), (1e7, False), (0.0, True), (50.0, True)]
)
def test_intercept_of_float32_table_fits_its_centre(offset, in_csr):
    """Residuals have mean zero, and probabilities the mean of the class."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    X[:, 0] = 30 * X[:, 0] + offset
    X = X.astype(np.float32)
    y = (X[:, 0] - np.float64(offset)) / 30 + X[:, 1] + 0.1 * rng.standard_normal(300)
    table = sparse.csr_array(X) if in_csr else X
    model = fgmp.FedGradMPRegressor(2, standardize=True).fit(table, y)
    assert abs((model.predict(X.astype(float)) - y).mean()) < 1e-6
    label = y + rng.logistic(size=300) > 0
    classes = fgmp.FedGradMPClassifier(2, C=np.inf, standardize=True).fit(table, label)
    assert classes.predict_proba(X.astype(float))[:, 1].mean() == pytest.approx(
        label.mean(), abs=1e-6
    )


def test_label_margins_are_positive_if_the_label_is_right():
    """By hand; the squared loss has none."""
    z = np.array([[1.0, 0.5, -2.0], [0.0, 0.0, 1.0], [3.0, 3.0, 1.0]])
    margins = fgmp.SoftmaxLoss(3).label_margins(z, np.array([0, 2, 1]))
    np.testing.assert_array_equal(margins, [[0.5, 3.0], [1.0, 1.0], [0.0, 2.0]])
    np.testing.assert_array_equal(
        fgmp.LogisticLoss().label_margins(z[:, 0], np.array([1, -1, -1])), [[1.0], [0.0], [-3.0]]
    )
    assert fgmp.SquaredLoss().label_margins(z, z) is None


# ---- Memory


@quiet
@pytest.mark.parametrize("sparsity", [None, "cv", "all"])
@pytest.mark.parametrize("kind", ["labels", "numbers", "weights"])
def test_fit_holds_at_most_two_copies_of_its_table(sparsity, kind):
    """It needs one in common units, and of the rows as they are those of one group at a time."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 60))
    y = X[:, 0] - X[:, 7] + rng.standard_normal(4_000)
    Estimator, targets, weights = fgmp.FedGradMPRegressor, y, None
    if kind == "labels":
        Estimator, targets = fgmp.FedGradMPClassifier, y > 0
    if kind == "weights":
        weights = rng.uniform(0.5, 2, 4_000)
    arguments = (targets, np.arange(4_000) % 8, weights)
    Estimator(sparsity).fit(X, *arguments)  # imports and kernels are no part of it

    tracemalloc.start()
    try:
        Estimator(sparsity).fit(X, *arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2 * X.nbytes


@pytest.mark.parametrize("are_neighbours", [True, False])
def test_rows_in_their_own_units_are_those_of_each_group(are_neighbours):
    """Weights, rows and objectives are those by hand, whatever the order of the rows is."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = rng.standard_normal(30)
    groups = np.sort(rng.integers(3, size=30)) if are_neighbours else rng.integers(3, size=30)
    weights = np.ones(30)
    weights[[3, 17]] = 0  # these rows take no part
    taken = [(groups == group) & (weights > 0) for group in range(3)]

    passed = Rows(X, y, weights, groups, weights, 1)
    rows = FederatedTable(passed, fgmp.SquaredLoss()).transport()
    x = rng.standard_normal(4)
    expected = [np.mean((y[mask] - X[mask] @ x) ** 2) / 2 for mask in taken]
    indices, objectives = rows.objectives(x)
    np.testing.assert_array_equal(indices, [0, 1, 2])
    np.testing.assert_allclose(objectives, expected, rtol=1e-12)
    np.testing.assert_allclose(rows.weights, [mask.sum() / 28 for mask in taken], rtol=1e-12)
    assert list(rows.info.n_rows) == [mask.sum() for mask in taken]
    assert rows.objectives(x, np.array([2]))[1] == pytest.approx(expected[2:], rel=1e-12)
