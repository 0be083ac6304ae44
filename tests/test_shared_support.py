"""SharedSupportGradMP: its sketches, solvers and elimination; GradMP on pooled data; polish."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from cases import two_classes, unequal_regression
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import fgmp
from fgmp import Overall
from fgmp._support.ties import with_exact_ties
from fgmp.dictionaries import StandardBasis
from fgmp.method import Streams
from fgmp.shared_support.elimination import _with_ties, eliminated
from fgmp.shared_support.newton import LocalSteps, SupportState
from fgmp.shared_support.sketches import SketchContext, hash_matrix
from fgmp.sparse_model import SparseModel

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
@example(4843, 4, True)
def test_shared_support_without_elimination_is_gradmp_on_pooled_data(seed, sparsity, in_dictionary):
    """Exchanges of sums give the iterates of GradMP on all rows, in any dictionary."""
    federation = unequal_regression(seed)
    dictionary = fgmp.gaussian_dictionary(20, 25, rng=1) if in_dictionary else StandardBasis()
    shared = fgmp.SharedSupportGradMP(sparsity, dictionary=dictionary, pruning="largest")
    gradmp = fgmp.FedGradMP(sparsity=sparsity, local_iterations=1, dictionary=dictionary)
    # Without the server of FedGradMP, whose projection may select other coherent atoms.
    (client,) = fgmp.LocalClients(federation.pooled()).for_method(gradmp).clients
    x = SparseModel.zero((dictionary.n_atoms(20),))
    for rounds in (1, 2, 3):
        ours = fgmp.simulate(shared, federation, rounds, rng=0)
        x = gradmp.client_update(client, x, np.random.default_rng(0))
        np.testing.assert_array_equal(ours.support, x.support)
        np.testing.assert_allclose(ours.coefficients, x.dense(), rtol=1e-7, atol=1e-9)


def on_support(federation, solver, support, start=1e-3, **options):
    """The model that `solver` finds on a support, from models of small entries."""
    x = np.zeros(federation.model_shape)
    x.reshape(-1)[support] = start
    result = fgmp.simulate(fgmp.FedAvg(learning_rate=1.0), federation, 0, state=x)
    return fgmp.polish(result, federation, solver=solver, **options)


def test_newton_in_a_dictionary_gives_minimum_norm_signal():
    """Of all minimisers it is the one whose signal is shortest, not its coefficients."""
    federation = unequal_regression(0, sizes=(2, 2))
    dictionary = fgmp.gaussian_dictionary(20, 30, rng=3)
    support = np.arange(8)
    point = SupportState(SparseModel(support, np.ones(8), (30,)))
    solver = fgmp.NewtonOnSupport(dictionary=dictionary)
    clients = fgmp.LocalClients(federation).for_method(solver).clients
    answers = [solver.client_update(client, solver.message(point), None) for client in clients]
    end = solver.server_update(point, federation.weights @ np.array(answers))
    found = dictionary.synthesise(end.model.dense())
    one = federation.pooled().clients[0]
    span = np.linalg.qr(dictionary.atoms[:, support])[0]
    expected = span @ np.linalg.lstsq(one.features @ span, one.targets, rcond=None)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_newton_steps_end_at_logistic_regression_of_scikit_learn(ridge):
    """Twelve steps on a support end where scikit-learn ends, with the same ridge."""
    federation = two_classes(0)
    support = np.array([0, 2, 3, 6])
    found = on_support(federation, fgmp.NewtonOnSupport(steps=12, ridge=ridge), support).x[support]
    A = np.vstack([client.features for client in federation.clients])[:, support]
    y = np.concatenate([client.targets for client in federation.clients])
    C = 1 / (ridge * len(y)) if ridge else np.inf  # its penalty is |x|^2 / 2C, over m rows
    reference = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(A, y)
    np.testing.assert_allclose(found, reference.coef_[0], rtol=1e-4)


def test_one_newton_step_for_other_losses_is_refused_unless_allowed():
    """If it is allowed, rounds of one step end where one round of many steps does."""
    federation = two_classes(0)
    refused = fgmp.SharedSupportGradMP(8, solver=fgmp.NewtonOnSupport(ridge=0.05))
    with pytest.raises(ValueError, match="for the squared loss, and the loss is LogisticLoss"):
        fgmp.simulate(refused, federation, 1, rng=0)
    ends = []
    for solver, rounds in (
        (fgmp.NewtonOnSupport(ridge=0.05, allow_inexact=True), 12),
        (fgmp.NewtonOnSupport(steps=12, ridge=0.05), 1),
    ):
        method = fgmp.SharedSupportGradMP(8, solver=solver, pruning="largest")
        ends.append(fgmp.simulate(method, federation, rounds, rng=0).x)
    np.testing.assert_allclose(*ends, rtol=1e-8)


def test_numpy_scalars_as_options_keep_float32_runs():
    """NumPy numbers of 64 bits do not change the precision of a run."""
    rng = np.random.default_rng(0)
    As = rng.standard_normal((3, 30, 8)).astype(np.float32)
    federation = fgmp.Federation.from_arrays(As, np.sign(As[:, :, 1] + As[:, :, 2]), "logistic")
    ends = []
    for integer, number in ((int, float), (np.int64, np.float64)):
        solver = fgmp.NewtonOnSupport(integer(3), number(0.125))
        screening = fgmp.CountSketch(integer(1), integer(4))
        method = fgmp.SharedSupportGradMP(integer(2), screening, solver, seed=integer(1))
        ends.append(fgmp.simulate(method, federation, 3, rng=0))
    assert not ends[1].rejected
    assert ends[1].x.dtype == np.float32
    np.testing.assert_array_equal(ends[0].x, ends[1].x)


def test_newton_steps_for_softmax_end_without_gradient():
    """The gradient on the support vanishes at the end."""
    federation = two_classes(1, loss="softmax")
    support = np.array([0, 3, 4, 9, 12])
    result = on_support(federation, fgmp.NewtonOnSupport(steps=12), support)
    gradient = sum(
        p * c.gradient(result.x)
        for p, c in zip(federation.weights, federation.clients, strict=True)
    )
    np.testing.assert_allclose(gradient.reshape(-1)[support], 0, atol=1e-8)


def test_local_steps_give_the_mean_of_local_minimisers():
    """With an exact solver the refit is the weighted mean of least squares of each client."""
    federation = unequal_regression(4)
    support = np.array([2, 5, 9])
    found = on_support(federation, LocalSteps(fgmp.Exact()), support).x[support]
    each = [
        np.linalg.lstsq(c.features[:, support], c.targets, rcond=None)[0]
        for c in federation.clients
    ]
    np.testing.assert_allclose(found, federation.weights @ np.array(each), rtol=1e-8)


def test_broadcast_support_holds_only_entries_that_were_sent():
    """Three clients that send one entry each get at most three atoms back, not 2 tau."""
    rng = np.random.default_rng(0)
    As = rng.standard_normal((3, 8, 20))
    ys = rng.standard_normal((3, 8))
    merged = {int(np.abs(A.T @ y).argmax()) for A, y in zip(As, ys, strict=True)}
    method = fgmp.SharedSupportGradMP(5, fgmp.LargestEntries(1))
    history = fgmp.simulate(method, fgmp.Federation.from_arrays(As, ys), 1, rng=0).history
    numbers_of_round_and_step = 4 + 4
    expected = 3 * (numbers_of_round_and_step + (4 + 8) * len(merged))
    assert history["bytes_down"][-1] == expected


def separable_model(radius=None, **ridge):
    """Return the model of a run on rows that the second feature separates."""
    As = np.random.default_rng(0).standard_normal((3, 5, 6))
    federation = fgmp.Federation.from_arrays(As, np.sign(As[:, :, 1]), "logistic")
    solver = fgmp.NewtonOnSupport(20, **ridge)
    method = fgmp.SharedSupportGradMP(2, solver=solver, radius=radius)
    return fgmp.simulate(method, federation, 5, rng=0).x


def test_separable_rows_without_ridge_or_ball_are_refused():
    """Newton steps would go on for ever."""
    words = "separated without error.*expected a ridge above 0 or a radius"
    with pytest.raises(ValueError, match=words):
        separable_model()


def test_separable_rows_with_ridge_or_ball_have_a_model():
    """Either bounds the coefficients; the model is in the ball."""
    assert separable_model(ridge=1e-3)[1] != 0
    in_ball = separable_model(radius=3.0)
    assert in_ball[1] != 0
    assert np.linalg.norm(in_ball) <= 3 * (1 + 1e-12)


def test_refit_of_separable_rows_ends_on_the_sphere():
    """The minimiser in a ball is on its sphere, far below the objective of zero."""
    As = np.random.default_rng(0).standard_normal((3, 5, 6))
    federation = fgmp.Federation.from_arrays(As, np.sign(As[:, :, 1]), "logistic")
    solver = fgmp.NewtonOnSupport(steps=30, radius=3.0)
    inside = on_support(federation, solver, np.arange(6))
    assert np.linalg.norm(inside.x) == pytest.approx(3.0)
    assert inside.history["objective"][-1] < np.log(2) / 2


def test_newton_steps_of_one_coefficient_are_those_by_hand():
    """A step that raises f is halved, tried from zero, then halved again; the better one is kept."""
    solver = fgmp.NewtonOnSupport(4, radius=2.0)
    model = SparseModel(np.arange(1), np.full(1, 2.0), (9,))
    visited = []
    point = SupportState(model)
    for value in (5.0, 6.0, 7.0, 8.0):
        visited.append(float(point.model.values[0]))
        point = solver.server_update(point, np.array([4.0, 4.0, value, 0.5]))
    assert visited == [2.0, 1.0, 1.5, 0.0]
    assert solver.message(point)[1] == 1
    for value, x, missed in ((4.9, 1.75, 0.025), (9.0, 2.0, 0.125)):
        end = solver.server_update(point, np.array([value, 0.5]))
        assert (end.model.values[0], end.missed) == pytest.approx((x, missed))
        assert solver.message(end)[1] == 0
    # With hardly any curvature the next model is zero.
    flat = solver.server_update(end, np.array([1e-320, 1.0, 5.0, 0.5]))
    assert flat.model.values[0] == 0
    assert solver.coefficients(SupportState(replace(model, values=np.full(1, 3.0)))).values[0] == 2


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000),
    st.integers(1, 5),
    st.integers(2, 7),
    st.integers(36, 50),
    st.sampled_from([(), (3,)]),
)
def test_sketch_has_signed_sums_and_its_estimate_is_their_median(
    seed, rows, columns, n_atoms, outputs
):
    """Both are recomputed from the dense matrix of signs."""
    gradient = np.random.default_rng(seed).standard_normal((n_atoms, *outputs))
    way = fgmp.CountSketch(rows, columns)
    question = SketchContext(1, StandardBasis(), fgmp.PerOutput(), seed, 2)
    matrix = hash_matrix(seed, 2, rows, columns, n_atoms, "d")
    signs = matrix.toarray().reshape(rows, columns, n_atoms)
    sketch = way.encode(np.asfortranarray(gradient), question)
    np.testing.assert_allclose(sketch, np.einsum("rca,a...->rc...", signs, gradient), atol=1e-12)
    estimates = np.einsum("rca,rc...->ra...", signs, sketch)
    np.testing.assert_allclose(
        way.decode(sketch, question, gradient.shape), np.median(estimates, axis=0), atol=1e-15
    )


def test_hashes_depend_on_the_seed_of_the_method_and_the_round():
    """Clients and server draw the same hashes, whatever the seed of the run."""
    federation = fgmp.make_sparse_regression(10, 8, 300, 4, 0.5, rng=0)
    method = fgmp.SharedSupportGradMP(4, fgmp.CountSketch(3, 12))
    alone = fgmp.simulate(method, federation, 6, rng=0)
    shared = fgmp.simulate(method, federation, 6, rng=1)
    np.testing.assert_array_equal(alone.x, shared.x)  # the seed is the method's, which clients have
    x = method.start(federation.info).model
    client = federation.clients[0]
    arguments = (method, 0), (method, 0), (method, 1), (replace(method, seed=1), 0)
    first, again, *others = (
        made.client_update(client, (x, number), None) for made, number in arguments
    )
    np.testing.assert_array_equal(first, again)
    assert not any(np.isin(np.abs(first), np.abs(other)).all() for other in others)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([8, 30]), st.booleans())
def test_elimination_is_backward_elimination_by_least_squares(seed, tau, n_samples, correlated):
    """Against least squares on every smaller set; a better support of before is kept."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n_samples, 6)) + 2 * correlated * rng.standard_normal((n_samples, 1))
    A *= rng.choice([0.01, 1, 100], 6)
    y = rng.standard_normal(n_samples)

    def residual(atoms):
        return np.sum((y - A[:, atoms] @ np.linalg.lstsq(A[:, atoms], y, rcond=None)[0]) ** 2)

    kept = list(range(6))
    sets = [list(atoms) for atoms in combinations(range(6), tau)]
    while len(kept) > tau:
        kept = list(min(combinations(kept, len(kept) - 1), key=lambda atoms: residual(list(atoms))))
    before = min(sets, key=residual) if correlated else sets[rng.integers(len(sets))]
    expected = before if residual(before) < residual(kept) else kept
    b = SparseModel(10 + np.arange(6), np.linalg.lstsq(A, y, rcond=None)[0], (20,))
    found = eliminated(b, A.T @ A, 10 + np.array(before), tau, fgmp.PerOutput())
    np.testing.assert_array_equal(found.support, 10 + np.array(expected))
    fitted = A[:, expected] @ np.linalg.lstsq(A[:, expected], y, rcond=None)[0]
    np.testing.assert_allclose(A[:, expected] @ found.values, fitted, atol=1e-8)


TWINS = {
    "least squares": (fgmp.FedGradMPRegressor, {}),
    "own intercepts": (fgmp.FedGradMPRegressor, {"fit_intercept": "per_group"}),
    "under masks": (fgmp.FedGradMPRegressor, {"secure": True}),
    "counts": (fgmp.FedGradMPRegressor, {"loss": "poisson"}),
    "two classes": (fgmp.FedGradMPClassifier, {}),
    "three classes": (fgmp.FedGradMPClassifier, {"C": 100.0}),
}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", TWINS)
def test_first_of_two_equal_columns_is_left_whatever_the_order_of_rows(kind, dtype, backend):
    """Column 5 is column 1, and column 6 is column 2 with the other sign."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    X[:, 5] = X[:, 1]
    X[:, 6] = -X[:, 2]
    scores = X[:, 1] - 0.7 * X[:, 2]
    noisy = scores + 0.7 * rng.standard_normal(200)
    y = noisy
    if kind == "counts":
        y = rng.poisson(np.exp(scores))
    elif "classes" in kind:
        y = np.digitize(noisy, [0.0] if kind == "two classes" else [-0.5, 0.7])
    make, options = TWINS[kind]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        order = rng.permutation(200)
        model = make(2, method="shared", **options)
        model.fit(X[order].astype(dtype), y[order], rng.integers(5, size=200))
        assert model.support_.tolist() == [1, 2]


@given(
    values=st.lists(st.integers(-50, 50), min_size=1, max_size=12),
    bits=st.integers(0, 2**32 - 1),
)
def test_numbers_that_differ_by_rounding_are_equal_and_others_keep_their_bits(values, bits):
    """Whole numbers with their last bits shaken have the order of the whole numbers."""
    exact = np.array(values, float)
    rounding = 1e-12 * np.random.default_rng(bits).uniform(-1, 1, len(exact))
    shaken = exact + rounding
    found = with_exact_ties(shaken, 2e-12)
    np.testing.assert_array_equal(found[:, None] < found, exact[:, None] < exact)
    assert set(found.tolist()) <= set(shaken.tolist())
    np.testing.assert_array_equal(with_exact_ties(exact, 2e-12), exact)


def test_hashes_fill_buckets_evenly_with_both_signs():
    """Each atom is in one bucket of each row, and two atoms rarely meet."""
    collisions = 0
    for number in range(400):
        signs = hash_matrix(3, number, 3, 5, 23, "d").toarray().reshape(3, 5, 23)
        assert (np.abs(signs).sum(axis=1) == 1).all()
        assert (
            {-1, 1}
            <= set(np.unique(signs))
            <= {
                -1,
                0,
                1,
            }
        )
        assert set(np.abs(signs).sum(axis=2).ravel()) <= {4, 5}
        bucket = np.abs(signs).argmax(axis=1)
        collisions += np.count_nonzero(bucket[:, 3] == bucket[:, 17])
    assert collisions / 1200 == pytest.approx(1 / 5, abs=0.04)
    assert collisions / 1200 < 1 / 5


def test_sketch_as_long_as_the_gradient_is_not_sent():
    """The gradient itself is sent if a sketch would not be shorter."""
    federation = fgmp.make_sparse_regression(6, 8, 40, 2, 0.5, rng=0)
    whole = fgmp.SharedSupportGradMP(2, fgmp.CountSketch(5, 8))
    sketched = fgmp.SharedSupportGradMP(2, fgmp.CountSketch(5, 7))
    ups = [
        fgmp.simulate(method, federation, 1, rng=0).history["bytes_up"][-1]
        for method in (whole, sketched)
    ]
    assert (np.array(ups) - 6 * 8 * (4 * 5 // 2 + 4)).tolist() == [6 * 8 * 40, 6 * 8 * 35]


def test_elimination_keeps_as_many_as_the_selection_holds():
    """Atoms that are always included stay, and are not counted."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 12))
    b = SparseModel(np.arange(12), rng.standard_normal(12), (4, 3))
    sizes = {fgmp.PerOutput(): 6, Overall(): 2, fgmp.PerAtom(): 6, fgmp.PerAtom((1,)): 9}
    for selection, size in sizes.items():
        found = eliminated(b, A.T @ A, np.empty(0, np.intp), 2, selection)
        assert selection.is_within(found.support, (4, 3), 2)
        assert len(found.support) == size
        assert 1 not in selection.always_include or {3, 4, 5} <= set(found.support)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_objective_with_all_clients_never_rises(seed):
    """Elimination never ends above the model of before."""
    federation = fgmp.make_sparse_regression(
        10, 6, 60, 4, 2.0, variance_decay=1.1, noise_variance=0.1, rng=seed
    )
    objective = fgmp.simulate(fgmp.SharedSupportGradMP(4), federation, 12, rng=seed).history[
        "objective"
    ]
    assert (np.diff(objective) <= 1e-10 * objective[0]).all()


REGRESSION = fgmp.make_sparse_regression(20, 30, 100, 5, noise_variance=1e-3, rng=0)
FIRST = [
    fgmp.FedGradMP(sparsity=5),
    fgmp.FedIterHT(learning_rate=0.2, sparsity=5),
    fgmp.FedDualAvg(learning_rate=0.02, l1_weight=0.01),
    fgmp.FedGradMP(sparsity=5, dictionary=fgmp.gaussian_dictionary(100, 120, rng=0)),
]


@pytest.mark.parametrize("cohort_size", [None, 3])
@pytest.mark.parametrize("method", FIRST)
def test_polish_is_least_squares_of_its_cohort_on_the_support(method, cohort_size):
    """If the rows of the cohort determine the coefficients, they are those of least squares."""
    result = fgmp.simulate(method, REGRESSION, 3, rng=0)
    psi = method.dictionary
    closed = fgmp.polish(result, REGRESSION, cohort_size=cohort_size, rng=11)
    np.testing.assert_array_equal(closed.support, result.support)
    chosen = (
        range(20) if cohort_size is None else Streams(11).sample(Streams.COHORT, 1, 20, cohort_size)
    )
    clients = [REGRESSION.clients[i] for i in chosen]
    A = np.vstack([psi.products(client.features) for client in clients])[:, result.support]
    expected = np.linalg.lstsq(
        A, np.concatenate([client.targets for client in clients]), rcond=None
    )[0]
    rtol = 1e-6 if isinstance(psi, fgmp.Dictionary) else 1e-8
    np.testing.assert_allclose(closed.coefficients[result.support], expected, rtol=rtol)
    np.testing.assert_allclose(closed.x, psi.synthesise(closed.coefficients))
    assert closed.history["clients"][-1] == len(clients)


def test_polish_appends_a_round_to_the_history():
    """The columns of the run stay, and a metric that the refit lacks is nan."""
    metrics = {"norm": lambda x: float(np.linalg.norm(x)), "other": lambda x: 1.0}
    result = fgmp.simulate(FIRST[0], REGRESSION, 3, rng=0, history=fgmp.History(metrics=metrics))
    history = fgmp.History(metrics={"norm": metrics["norm"]})
    polished = fgmp.polish(result, REGRESSION, history=history)
    for name, column in result.history.items():
        np.testing.assert_array_equal(polished.history[name][:-1], column)
    assert polished.history["round"][-1] == 4
    assert polished.history["norm"][-1] == np.linalg.norm(polished.x)
    assert np.isnan(polished.history["other"][-1])


def test_polish_with_a_radius_projects_into_the_ball():
    """The squared loss is minimised, and the minimiser is scaled to the radius."""
    result = fgmp.simulate(FIRST[0], REGRESSION, 3, rng=0)
    free = fgmp.polish(result, REGRESSION)
    solver = fgmp.NewtonOnSupport(radius=0.5 * float(np.linalg.norm(free.x)))
    inside = fgmp.polish(result, REGRESSION, solver=solver)
    np.testing.assert_allclose(inside.x, free.x / 2, rtol=1e-12)
    assert inside.history["objective"][-1] == pytest.approx(REGRESSION.objective(free.x / 2))


def test_polish_hands_its_seed_to_the_solver():
    """One step on one row is the gradient of that row, and another seed draws another row."""
    result = fgmp.simulate(FIRST[0], REGRESSION, 2, rng=0)
    steps = LocalSteps(fgmp.SGD(steps=1, batch_size=1, learning_rate=0.1))
    one = fgmp.polish(result, REGRESSION, solver=steps, rng=0).x
    same = fgmp.polish(result, REGRESSION, solver=steps, rng=0).x
    other = fgmp.polish(result, REGRESSION, solver=steps, rng=1).x
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-4


def test_largest_entries_of_a_gradient_with_nan_is_an_error():
    """A selection would hide that the gradient is not finite."""
    context = SketchContext(1, StandardBasis(), fgmp.PerOutput(), 0, 0)
    with pytest.raises(FloatingPointError, match="a selection would hide"):
        fgmp.LargestEntries(2).encode(np.array([3.0, np.nan, 1.0]), context)


def test_gradient_that_overflows_rejects_the_update():
    """Squares of 1e30 are beyond float32, and no selection hides it."""
    As = np.full((2, 9, 3), 1e30, "f4")
    ys = np.full((2, 9), 1e30, "f4")
    federation = fgmp.Federation.from_arrays(As, ys)
    without_objective = fgmp.History(objective_on=0)
    with pytest.warns(fgmp.AdviceWarning, match="no update arrived"):
        result = fgmp.simulate(fgmp.FedGradMP(1), federation, 1, history=without_objective)
    assert result.rejected.total() == 2


@pytest.mark.parametrize("kind", ["square", "overcomplete", "orthonormal"])
@pytest.mark.parametrize(
    "make",
    [fgmp.FedGradMP, fgmp.SharedSupportGradMP, fgmp.FedIterHT],
    ids=lambda make: make.__name__,
)
def test_polish_uses_the_dictionary_of_the_run(make, kind):
    """Also for a result that was pickled, and in a square dictionary, whose shapes are alike."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 30 if kind == "overcomplete" else 20)) / 20**0.5
    psi = fgmp.Dictionary(np.linalg.qr(atoms)[0] if kind == "orthonormal" else atoms)
    As = rng.standard_normal((4, 60, 20))
    truth = psi.atoms[:, [2, 7, 11]] @ [1.0, -2, 1.5]
    ys = As @ truth + 0.01 * rng.standard_normal((4, 60))
    federation = fgmp.Federation.from_arrays(As, ys, truth=truth)
    steps = {"learning_rate": 0.1} if make is fgmp.FedIterHT else {}
    result = fgmp.simulate(make(sparsity=3, dictionary=psi, **steps), federation, 30, rng=0)
    closed = fgmp.polish(pickle.loads(pickle.dumps(result)), federation)
    chosen = psi.atoms[:, result.support]
    expected = chosen @ np.linalg.lstsq(As.reshape(-1, 20) @ chosen, ys.reshape(-1), rcond=None)[0]
    assert result.method.dictionary is psi
    np.testing.assert_allclose(closed.x, expected, rtol=1e-6, atol=1e-9)
    twice = fgmp.polish(closed, federation)
    np.testing.assert_array_equal(twice.support, result.support)


@pytest.fixture
def in_ball():
    """A run in a ball of half the norm of the minimiser, and the radius."""
    free = fgmp.polish(fgmp.simulate(fgmp.FedGradMP(5), REGRESSION, 3, rng=0), REGRESSION)
    radius = 0.5 * float(np.linalg.norm(free.x))
    method = fgmp.FedGradMP(5, radius=radius)
    return fgmp.simulate(method, REGRESSION, 3, rng=0), radius


def test_polish_stays_in_the_ball_of_the_method(in_ball):
    """The refit knows the radius of the run, and may be polished again."""
    result, radius = in_ball
    inside = fgmp.polish(result, REGRESSION)
    assert np.linalg.norm(inside.x) == pytest.approx(radius)
    same = fgmp.polish(inside, REGRESSION, solver=fgmp.NewtonOnSupport(radius=radius))
    assert same.x @ inside.x > 0


def test_polish_with_another_radius_than_the_method_is_refused(in_ball):
    """A solver must not contradict the method."""
    result, radius = in_ball
    solver = fgmp.NewtonOnSupport(radius=2 * radius)
    words = r"solver has the radius .*; expected none, or .*, that of the method"
    with pytest.raises(ValueError, match=words):
        fgmp.polish(result, REGRESSION, solver=solver)


def test_polish_adds_atoms_that_are_always_included():
    """They belong to the support of a refit, even if the model has zeros there."""
    selection = fgmp.PerOutput(always_include=0)
    method = fgmp.FedHT(sparsity=1, learning_rate=1e-3, selection=selection)
    x = np.zeros(100)
    x[7] = 1
    polished = fgmp.polish(fgmp.simulate(method, REGRESSION, 0, state=x), REGRESSION)
    np.testing.assert_array_equal(polished.support, [0, 7])


def test_solver_with_a_radius_of_its_own_is_refused_by_a_method():
    """The ball is that of the method."""
    with pytest.raises(ValueError, match=r"solver has the radius 3.0; expected none, or None"):
        fgmp.SharedSupportGradMP(3, solver=fgmp.NewtonOnSupport(radius=3.0))


@pytest.mark.parametrize(
    "dictionary", [StandardBasis(), fgmp.gaussian_dictionary(20, 25, rng=1)], ids=["none", "other"]
)
def test_solver_with_a_dictionary_of_its_own_is_refused_by_a_method(dictionary):
    """The dictionary is that of the method."""
    solver = LocalSteps(fgmp.Exact(), dictionary=fgmp.gaussian_dictionary(20, 25, rng=0))
    words = r"solver has the dictionary .*; expected none, or .*that of the method"
    with pytest.raises(ValueError, match=words):
        fgmp.SharedSupportGradMP(3, solver=solver, dictionary=dictionary)


def test_solver_with_a_dictionary_of_its_own_is_refused_by_polish():
    """The dictionary is that of the result."""
    method = fgmp.FedIterHT(sparsity=3, learning_rate=0.1)
    result = fgmp.simulate(method, unequal_regression(0), 1, rng=0)
    solver = fgmp.NewtonOnSupport(dictionary=fgmp.gaussian_dictionary(20, 25, rng=0))
    with pytest.raises(ValueError, match=r"solver has the dictionary"):
        fgmp.polish(result, unequal_regression(0), solver=solver)


def test_copy_of_a_method_with_another_radius_has_another_ball():
    """The same dictionary twice is no contradiction, and the radius of the copy holds."""
    dictionary = fgmp.gaussian_dictionary(20, 25, rng=0)
    method = fgmp.SharedSupportGradMP(
        3,
        solver=fgmp.NewtonOnSupport(dictionary=dictionary),
        dictionary=fgmp.Dictionary(dictionary.atoms),
        radius=1.0,
    )
    small, large = [
        fgmp.simulate(replace(method, radius=radius), unequal_regression(0), 2, rng=0).x
        for radius in (1e-3, 1e3)
    ]
    assert np.linalg.norm(small) <= 1e-3 * (1 + 1e-12)
    assert np.linalg.norm(large) > 0.1


def test_costs_without_a_root_are_no_ties():
    """Noise may give a Hessian negative eigenvalues; all costs equal would drop the last atoms."""
    costs = np.array([np.nan, 2.0, 1.0])
    found = _with_ties(costs, -np.eye(3), np.finfo(float).eps)
    np.testing.assert_array_equal(found, costs)
