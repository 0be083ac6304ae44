"""The parts of kernels, one by one and as Python, against NumPy and closed forms.

As Python, because to compile each part alone takes a minute; whole kernels are compared, compiled,
in test_compiled.py and in the combinatorial tests.
"""

import importlib.util
import math
from types import ModuleType

import numpy as np
import pytest
from scipy.special import expit, softmax

import fgmp

numba = pytest.importorskip("numba")
pytest.importorskip("fgmp.fast.kernels")


class ExactPrecision:
    """NumPy, in which every new array has to say its precision: else it would be double."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        assert dtype is not None
        return np.empty(shape, dtype)

    def zeros(self, shape, dtype):
        assert dtype is not None
        return np.zeros(shape, dtype)


def kernels_as_python() -> ModuleType:
    """The module of the kernels, in which no function is compiled."""
    specification = importlib.util.find_spec("fgmp.fast.kernels")
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba, "njit", lambda function, **options: function)
        specification.loader.exec_module(module)
    module.np = ExactPrecision()
    return module


kernels = kernels_as_python()
ORTHONORMAL = kernels.AtomProducts(np.empty((0, 0)), np.empty(0))
DTYPES = [np.float64, np.float32]
N_OUTPUTS = [1, 2, 3, 4]


def tolerance(dtype):
    """Relative, for sums of some dozens of terms."""
    return 1e-12 if dtype == np.float64 else 2e-5


def normal(dtype, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def nobody(n):
    """No atom is always included."""
    return np.zeros(n, bool)


def same(one, other, dtype):
    """The numbers agree, and the kernel's have the precision of the rows."""
    assert one.dtype == dtype
    np.testing.assert_allclose(one, other, rtol=tolerance(dtype), atol=tolerance(dtype))


# Products and columns.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 7, 8])
def test_products_with_rows_are_those_of_numpy(n_rows, n_outputs, dtype):
    """Of any number of rows and outputs: four rows, and two outputs, are read at once."""
    A, x = normal(dtype, 11, 6), normal(dtype, n_outputs, 6, seed=1)
    rows = np.random.default_rng(2).permutation(11)[:n_rows]
    same(kernels.predict(A, rows, x), A[rows] @ x.T, dtype)

    weights, total = normal(dtype, n_rows, n_outputs, seed=3), normal(dtype, n_outputs, 6, seed=4)
    expected = total + weights.T @ A[rows]
    kernels.add_weighted_rows(total, A, rows, weights)
    same(total, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_copied_or_all_are_read_where_they_lie(dtype):
    """With all atoms the table is A itself, and else has the rows one after the other."""
    A, rows = normal(dtype, 9, 6), np.array([7, 2, 5])
    for atoms in (np.array([1, 4]), np.array([5]), np.arange(6)):
        same(kernels.copy_columns(A, rows, atoms), A[np.ix_(rows, atoms)], dtype)
        table, places = kernels.columns_to_read(A, rows, atoms)
        np.testing.assert_array_equal(table[places], A[np.ix_(rows, atoms)])
        assert (len(table) == 9) == (len(atoms) == 6)


@pytest.mark.parametrize("n_used, n_read", [(0, 0), (2, 2), (3, 3), (4, 8), (5, 8)])
def test_from_half_of_the_atoms_on_all_are_read(n_used, n_read):
    """Atoms that one of the outputs uses, in their order."""
    is_used = np.zeros((2, 8), bool)
    used = np.random.default_rng(0).permutation(8)[:n_used]
    is_used[np.arange(n_used) % 2, used] = True
    assert kernels.atoms_in_use(is_used).tolist() == sorted(used)
    expected = sorted(used) if n_read < 8 else list(range(8))
    assert kernels.atoms_to_read(is_used).tolist() == expected


@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
def test_a_model_is_loaded_and_stored_at_its_positions(n_outputs):
    """Position j C + c is entry j of output c; what stood in the arrays before is gone."""
    positions = np.sort(np.random.default_rng(0).permutation(5 * n_outputs)[:4])
    values = normal(np.float64, 4)
    values[1] = 0  # a member may be zero
    x, is_member = np.full((n_outputs, 5), 9.0), np.ones((n_outputs, 5), bool)
    kernels.load_model(positions, values, x, is_member)
    dense = np.zeros(5 * n_outputs)
    dense[positions] = values
    np.testing.assert_array_equal(x.T.ravel(), dense)
    assert np.flatnonzero(is_member.T.ravel()).tolist() == positions.tolist()

    stored, numbers = np.full(6, -1), np.full(6, -1.0)
    assert kernels.store_model(x, is_member, stored, numbers) == 4
    assert stored.tolist() == [*positions, -1, -1]
    assert numbers.tolist() == [*values, -1, -1]


# Least squares.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (5, 9), (8, 8), (9, 5), (9, 1)])
def test_least_squares_and_shortest_solutions_are_those_of_lapack(shape, dtype):
    """`A` has a row for each unknown; more unknowns than equations ask for the shortest solution."""
    n_unknown, n_equations = shape
    A, y = normal(dtype, n_unknown, n_equations), normal(dtype, n_equations, seed=1)
    if n_unknown > n_equations:
        A, x = A.T.copy(), np.empty(n_unknown, dtype)  # a row for each equation
        expected = np.linalg.lstsq(A.astype(float), y.astype(float))[0]
    else:
        x = np.empty(n_unknown, dtype)
        expected = np.linalg.lstsq(A.T.astype(float), y.astype(float))[0]
    condition = np.linalg.cond(A.astype(float))
    assert kernels.solve_least_squares(A, y, x[None])
    np.testing.assert_allclose(
        x, expected, atol=50 * condition * np.finfo(dtype).eps * np.abs(expected).max()
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_factor_is_that_of_cholesky(dtype):
    """With the inverse of its diagonal, and the squares of the rows."""
    A = normal(dtype, 6, 9)
    factor, squares = np.zeros((6, 6), dtype), np.empty(6)
    assert kernels.factorize(A, factor, squares)
    expected = np.linalg.cholesky(A.astype(float) @ A.T.astype(float))
    expected[np.diag_indices(6)] = 1 / np.diag(expected)
    np.testing.assert_allclose(np.tril(factor), expected, atol=50 * tolerance(dtype))
    np.testing.assert_allclose(squares, np.sum(A.astype(float) ** 2, axis=1), rtol=tolerance(dtype))
    of_products = np.zeros((6, 6), dtype)
    assert kernels.has_factor(A @ A.T, 1.0, 0.0, of_products)
    np.testing.assert_allclose(of_products, np.tril(factor), atol=50 * tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_rows_in_a_plane_are_told_from_rows_near_it(scale, dtype):
    """The pivot of a row at the angle t to the others is sin(t)^2: it has to exceed eps^(3/4)."""
    smallest = float(np.finfo(dtype).eps) ** 0.75
    for share, is_definite in ((16, True), (1 / 16, False)):
        angle = math.sqrt(share * smallest)
        rows = scale * np.array([[1, 0, 0], [math.cos(angle), math.sin(angle), 0]])
        gram = rows @ rows.T
        solution = np.empty(2)
        factor, squares = np.empty((2, 2), dtype), np.empty(2)
        assert kernels.factorize(rows.astype(dtype), factor, squares) == is_definite
        if dtype == np.float64:
            assert is_definite == kernels.solve_in_span(gram, np.arange(2), np.ones(2), solution)


def test_a_matrix_that_needs_its_whole_diagonal_has_no_factor_with_less():
    """`has_factor` against the smallest eigenvalue: of H - (1 - share) I, for a diagonal of ones."""
    A = normal(np.float64, 5, 7)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    H = A @ A.T
    smallest = np.linalg.eigvalsh(H)[0]
    factor = np.empty((5, 5))
    assert kernels.has_factor(H, 1 - 0.9 * smallest, 0.0, factor)
    assert not kernels.has_factor(H, 1 - 1.1 * smallest, 0.0, factor)
    H[np.diag_indices(5)] = np.inf
    assert not kernels.has_factor(H, 1.0, 0.0, factor)


def test_many_rows_nearly_in_a_plane_are_refused_where_each_alone_is_not():
    """The rule of `linear_algebra`: H may lack eps^(3/4) of its diagonal, however its pivots are."""
    smallest = float(np.finfo(np.float64).eps) ** 0.75
    # Each pivot of this one is far above the limit, and its smallest eigenvalue below it.
    n = 50
    L = np.tril(np.full((n, n), -1.0), -1) + np.eye(n)
    rows = L / np.linalg.norm(L, axis=1, keepdims=True)
    assert np.linalg.eigvalsh(rows @ rows.T)[0] < smallest
    assert kernels.has_factor(rows @ rows.T, 1.0, smallest, np.empty((n, n)))
    assert not kernels.factorize(rows, np.empty((n, n)), np.empty(n))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_system_in_the_span_of_atoms_is_solved(count):
    """Of some atoms of a Gram matrix, in any order."""
    psi = normal(np.float64, 12, 8)
    atoms = np.random.default_rng(1).permutation(8)[:count]
    right, solution = normal(np.float64, count, seed=2), np.empty(count)
    gram = psi.T @ psi
    assert kernels.solve_in_span(gram, atoms, right, solution)
    np.testing.assert_allclose(gram[np.ix_(atoms, atoms)] @ solution, right, atol=1e-11)


# Losses: derivatives against differences, curvatures against differences of derivatives.


def losses(n_outputs):
    return [(0.0, -1.0)] if n_outputs > 1 else [(0.0, 0.7), (2.0, 1.0), (2.0, -1.0), (0.5, 1.0)]


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 5])
def test_losses_are_those_of_the_module(n_outputs):
    """Value, derivative and curvature of a row, for predictions of all sizes."""
    rng = np.random.default_rng(n_outputs)
    for margin, target in losses(n_outputs):
        for size in (0.1, 3.0, 50.0):
            z, d = size * rng.standard_normal(n_outputs), rng.standard_normal(n_outputs)
            if n_outputs > 1:
                target = int(rng.integers(n_outputs))
                p = softmax(z)
                value = np.logaddexp.reduce(z) - z[target]
                slope = p - np.eye(n_outputs)[target]
                curvature = p @ d**2 - (p @ d) ** 2
            elif margin > 0:
                lead = margin * target * z[0]
                value = np.logaddexp(0, -lead)
                slope = np.array([-margin * target * expit(-lead)])
                curvature = margin**2 * expit(lead) * expit(-lead) * d[0] ** 2
            else:
                value = 0.5 * (z[0] - target) ** 2
                slope = z - target
                curvature = d[0] ** 2
            assert kernels.loss_value(z, target, margin) == pytest.approx(value, abs=1e-13)
            assert kernels.curvature_along(z, d, margin) == pytest.approx(
                curvature, rel=1e-9, abs=1e-14
            )
            weighted = z.copy()
            kernels.derivative_in_place(weighted, target, margin, 0.3)
            np.testing.assert_allclose(weighted, 0.3 * slope, atol=1e-13, rtol=1e-12)


def test_scores_that_are_far_apart_overflow_nowhere():
    """Softmax and logistic loss at predictions of 1,000."""
    scores = np.array([-1000.0, 1000.0, 0.0])
    assert kernels.loss_value(scores, 0, 0.0) == 2000
    assert kernels.loss_value(scores, 1, 0.0) == 0
    assert kernels.curvature_along(scores, np.ones(3), 0.0) == 0
    kernels.derivative_in_place(scores, 0, 0.0, 1.0)
    np.testing.assert_allclose(scores, [-1, 1, 0], atol=1e-200)
    first = np.array([1000.0, -1000.0, 0.0])  # the first is the highest
    assert kernels.loss_value(first, 0, 0.0) == 0
    assert kernels.curvature_along(first, np.arange(3.0), 0.0) == 0
    kernels.derivative_in_place(first, 2, 0.0, 1.0)
    np.testing.assert_allclose(first, [1, 0, -1], atol=1e-200)
    for target, value in ((1.0, 0.0), (-1.0, 1000.0)):
        one = np.array([500.0])
        assert kernels.loss_value(one, target, 2.0) == value
        assert kernels.curvature_along(one, np.ones(1), 2.0) == 0


@pytest.mark.parametrize("is_mean", [True, False])
def test_derivatives_of_a_minibatch_are_means_or_sums(is_mean):
    """The rows of y are those of the minibatch."""
    y, rows = np.array([5.0, 1.0, -2.0, 4.0]), np.array([3, 0])
    scores = np.array([[1.0], [2.0]])
    kernels.derivatives_in_place(scores, y, rows, kernels.Objective(0.0, is_mean))
    assert scores.ravel().tolist() == [-3 / (2 if is_mean else 1)] * 2


def test_thresholds():
    """S of all entries, and H of the largest of each output; what is not finite stays."""
    v = np.array([[3.0, -1.0, 0.5, -2.0], [1.0, 1.0, -1.0, 0.0]])
    assert kernels.soft_threshold(v, 0.75).tolist() == [
        [2.25, -0.25, 0, -1.25],
        [0.25, 0.25, -0.25, 0],
    ]
    kernels.hard_threshold(v, 2)
    assert v.tolist() == [[3, 0, 0, -2], [1, 1, 0, 0]]
    for bad in (np.nan, np.inf):
        w = np.array([[bad, 1.0, 2.0], [3.0, 2.0, 1.0]])
        kernels.hard_threshold(w, 1)
        np.testing.assert_array_equal(w, [[bad, 1, 2], [3, 0, 0]])


# Selection, merging, pruning: against the same by sorting.


def selected(magnitudes, count, by_atom, always):
    """What `PerOutput` or `PerAtom` selects, shape (C, n), by sorting; below 0 is no candidate."""
    chosen = np.zeros(magnitudes.shape, bool)
    sizes = magnitudes
    if by_atom:
        sizes = np.linalg.norm(np.maximum(magnitudes, 0), axis=0)[None]
        sizes[0, np.max(magnitudes, axis=0) < 0] = -1
    for c, row in enumerate(sizes):
        order = [j for j in np.argsort(-row, kind="stable") if row[j] >= 0 and not always[j]]
        taken = [*order[:count], *np.flatnonzero(always)]
        chosen[slice(None) if by_atom else c, taken] = True
    return chosen


@pytest.mark.parametrize("by_atom", [False, True])
@pytest.mark.parametrize("n_outputs", N_OUTPUTS)
@pytest.mark.parametrize("seed", range(6))
def test_selections_are_those_by_sorting(seed, n_outputs, by_atom):
    """With ties, entries that are no candidates, and atoms that are always included."""
    rng = np.random.default_rng(seed)
    n = 9
    for count in (0, 1, 3, 8):
        magnitudes = rng.integers(-1, 5, (n_outputs, n)) * rng.choice([0.3, 1.0])
        if seed % 2:
            magnitudes = rng.random((n_outputs, n))
        always = rng.random(n) < 0.2 * (seed % 3)
        before = rng.random((n_outputs, n)) < 0.2
        marked = before.copy()
        counted = kernels.CountedEntries(count, by_atom, always)
        expected = before | selected(magnitudes, count, by_atom, always)
        assert kernels.mark_selected(magnitudes.copy(), count, counted, marked)
        np.testing.assert_array_equal(marked, expected)

        # Merging takes 2 tau of |gradient| over the norms of the atoms, beside the support.
        gradient, norms = normal(np.float64, n_outputs, n, seed=seed), 0.1 + rng.random(n)
        for products in (ORTHONORMAL, kernels.AtomProducts(np.eye(n), norms)):
            merged = rng.random((n_outputs, n)) < 0.5  # what stood there before
            sizes = np.abs(gradient) / (1 if products is ORTHONORMAL else norms)
            expected = before | selected(sizes, 2 * count, by_atom, always)
            assert kernels.merge(gradient.copy(), counted, products, before, merged)
            np.testing.assert_array_equal(merged, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 4)])
def test_what_is_not_finite_is_marked_and_pruned_by_nobody(place, bad):
    """Merging and pruning return False."""
    counted = kernels.CountedEntries(2, False, nobody(5))
    numbers = normal(np.float64, 2, 5)
    numbers[place] = bad
    marked = np.zeros((2, 5), bool)
    assert not kernels.mark_selected(np.abs(numbers), 2, counted, marked) and not marked.any()
    assert not kernels.merge(numbers.copy(), counted, ORTHONORMAL, marked, marked.copy())
    everywhere = np.ones((2, 5), bool)
    assert not kernels.prune(counted, np.inf, ORTHONORMAL, everywhere, numbers.copy(), marked)


@pytest.mark.parametrize("radius", [np.inf, 0.5])
@pytest.mark.parametrize("by_atom", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_pruning_projects_onto_few_atoms_and_the_ball(n_outputs, by_atom, radius):
    """In orthonormal atoms the largest entries stay; in others what they leave is projected."""
    rng = np.random.default_rng(n_outputs)
    n = 8
    psi = rng.standard_normal((20, n))
    products = kernels.AtomProducts(psi.T @ psi, np.linalg.norm(psi, axis=0))
    counted = kernels.CountedEntries(3, by_atom, np.arange(n) == 6)
    merged = rng.random((n_outputs, n)) < 0.7
    merged[:, 6] = True
    x = np.where(merged, rng.standard_normal((n_outputs, n)), 0.0)

    pruned, member = x.copy(), np.ones((n_outputs, n), bool)
    assert kernels.prune(counted, radius, ORTHONORMAL, merged, pruned, member)
    sizes = np.where(merged, np.abs(x), -1.0)
    expected = selected(sizes, 3, by_atom, counted.always_include) & merged
    np.testing.assert_array_equal(member, expected)
    kept = np.where(expected, x, 0)
    np.testing.assert_allclose(pruned, kept * min(1, radius / np.linalg.norm(kept)), rtol=1e-12)

    pruned, member = x.copy(), np.ones((n_outputs, n), bool)
    assert kernels.prune(counted, radius, products, merged, pruned, member)
    correlations = x @ products.gram
    sizes = np.abs(correlations) / products.norms
    expected = selected(sizes, 3, by_atom, counted.always_include)
    np.testing.assert_array_equal(member, expected)
    projected = np.zeros_like(x)
    for c in range(n_outputs):
        atoms = np.flatnonzero(expected[c])
        projected[c, atoms] = np.linalg.lstsq(psi[:, atoms], psi @ x[c])[0]
    projected *= min(1, radius / np.linalg.norm(projected @ psi.T))
    np.testing.assert_allclose(pruned, projected, atol=1e-11)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_direction_of_descent_is_that_of_the_signal(n_outputs):
    """-g on the merged atoms, or -(Psi_a'Psi_a)^{-1} g; dependent atoms have none."""
    rng = np.random.default_rng(0)
    psi = rng.standard_normal((12, 7))
    atoms = np.array([0, 2, 3, 6])
    merged = np.zeros((n_outputs, 7), bool)
    merged[:, [0, 3]] = merged[-1:, 6] = True
    gradient, direction = rng.standard_normal((n_outputs, 4)), np.zeros((n_outputs, 7))
    assert kernels.fill_descent_direction(gradient, atoms, ORTHONORMAL, merged, direction)
    full = np.zeros((n_outputs, 7))
    full[:, atoms] = -gradient
    np.testing.assert_array_equal(direction, np.where(merged, full, 0))

    products = kernels.AtomProducts(psi.T @ psi, np.linalg.norm(psi, axis=0))
    assert kernels.fill_descent_direction(gradient, atoms, products, merged, direction)
    for c in range(n_outputs):
        a = np.flatnonzero(merged[c])
        expected = np.zeros(7)
        expected[a] = np.linalg.solve(products.gram[np.ix_(a, a)], full[c, a])
        np.testing.assert_allclose(direction[c], expected, atol=1e-12)

    psi[:, 3] = 2 * psi[:, 0]
    products = kernels.AtomProducts(psi.T @ psi, np.linalg.norm(psi, axis=0))
    assert not kernels.fill_descent_direction(gradient, atoms, products, merged, direction)


@pytest.mark.parametrize("is_mean", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.05, 20.0])
@pytest.mark.parametrize("start, n_halvings", [(0.0, 0), (2.5, 1), (4.0, 2)])
def test_a_step_is_halved_until_the_objective_falls_enough(start, n_halvings, scale, is_mean):
    """A logistic loss is flat far out, so that the step to the minimum of its parabola is too long."""
    y = np.array([1.0, 1.0, -1.0])
    start = start / scale
    columns, x = np.full((3, 1), scale), np.array([[start]])
    weight = 1 / 3 if is_mean else 1.0

    def objective(x):
        return weight * np.logaddexp(0, -y * scale * x).sum()

    z = scale * start
    slope = -weight * scale * np.sum(y * expit(-y * z))
    length = 1 / (weight * scale**2 * 3 * expit(z) * expit(-z))
    halvings = 0
    while objective(start - length * slope) > objective(start) - 1e-4 * length * slope**2:
        length, halvings = length / 2, halvings + 1
    assert halvings >= n_halvings and (halvings == 0) == (n_halvings == 0)

    scores = columns @ x.T
    assert steps_taken(columns, y, scores, x, kernels.Objective(1.0, is_mean))
    np.testing.assert_allclose(x, start - length * slope, rtol=1e-12)
    np.testing.assert_allclose(scores.ravel(), scale * x[0, 0], rtol=1e-12)


SQUARED = kernels.Objective(0.0, True)


def steps_taken(columns, y, scores, x, objective=SQUARED):
    """One step on all features, of one output; whether it was taken."""
    is_merged = np.ones(x.shape, bool)
    return kernels.take_gradient_steps(columns, y, 1, objective, ORTHONORMAL, is_merged, scores, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_whose_squares_overflow_or_vanish_are_refused(dtype):
    """Within 2^30 in single and 2^200 in double precision a step reaches the minimum."""
    limit = 2.0**30 if dtype == np.float32 else 2.0**200
    columns = np.ones((2, 1), dtype)
    for size, is_taken in (
        (limit / 4, True),
        (4 / limit, True),
        (4 * limit, False),
        (0.25 / limit, False),
    ):
        x, y = np.zeros((1, 1), dtype), np.full(2, size, dtype)
        assert steps_taken(columns, y, np.zeros((2, 1), dtype), x) == is_taken
        assert x[0, 0] == (y[0] if is_taken else 0)

    # Without a gradient there is nothing to do.
    x = np.ones((1, 1), dtype)
    assert steps_taken(columns, np.ones(2, dtype), np.ones((2, 1), dtype), x) and x[0, 0] == 1


@pytest.mark.parametrize("factor, is_taken", [(0.7, False), (1.4, True)])
def test_a_slope_that_may_be_rounding_is_not_followed(factor, is_taken):
    """Along d = -g a slope counts from eps sqrt(16 + m) ||derivative|| ||g * norms of columns|| on.

    Columns and residuals are such that all sums are exact: for m = 128 rows of +-1 and k = 8 columns
    residuals 1 + e (the sum of the columns) have g = e in each, and e counts from
    eps sqrt((16 + m) / k) on.
    """
    m, k = 128, 8
    hadamard = np.array([[(-1) ** (i & j).bit_count() for j in range(m)] for i in range(m)], float)
    columns = hadamard[:, 1 : 1 + k].copy()  # the first, which is all ones, is orthogonal to them
    eps = np.finfo(float).eps
    size = round(factor * np.sqrt((16 + m) / k)) * eps
    residuals = 1 + size * columns.sum(axis=1)
    x = np.zeros((1, k))
    assert steps_taken(columns, np.zeros(m), residuals[:, None].copy(), x)
    assert (x != 0).all() == is_taken


# Random words and minibatches.


@pytest.mark.parametrize("count", [0, 1, 7, 19, 20])
def test_the_smallest_come_first(count):
    """As a set those of a sort, with repeated numbers, too."""
    rng = np.random.default_rng(count)
    for draws in (rng.permutation(20), rng.integers(0, 4, 20), np.arange(20), np.arange(20)[::-1]):
        some = draws.astype(np.uint64)
        kernels.partition_smallest(some, count)
        assert sorted(some[:count]) == sorted(draws)[:count]
        assert sorted(some) == sorted(draws)


def test_a_high_word_is_that_of_whole_numbers():
    """With every carry between the halves."""
    rng = np.random.default_rng(0)
    corners = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    pairs = [(a, b) for a in corners for b in corners]
    pairs += [tuple(int(w) for w in rng.integers(0, 2**64, 2, np.uint64)) for _ in range(50)]
    for a, b in pairs:
        assert int(kernels.high_word(np.uint64(a), np.uint64(b))) == a * b >> 64


@pytest.mark.parametrize("n_rows, batch_size", [(5, 7), (5, 5), (6, 5), (2049, 3), (5000, 4999)])
def test_a_minibatch_has_different_rows_of_the_client(n_rows, batch_size):
    """A client with no more rows than a minibatch has all of them, in their order."""
    stream = kernels.RandomStream(np.array([3, 5], np.uint64), 1, 0, 2)
    with np.errstate(over="ignore"):  # as Python, words of 64 bits overflow on purpose
        rows = kernels.draw_minibatch(stream, 4, 0, n_rows, min(batch_size, n_rows))
    assert len(set(rows)) == len(rows) == min(batch_size, n_rows)
    assert 0 <= min(rows) and max(rows) < n_rows
    if batch_size >= n_rows:
        assert rows.tolist() == list(range(n_rows))


# Whole kernels.


def run_of(name, dtype, first, last, bad=()):
    """The updates of the clients `first` to `last` - 1 of three, and the arrays of the others."""
    n, m, tau = 6, 20, 2
    A = normal(dtype, 3 * m, n)
    y = A[:, 0] - A[:, 3]
    for i in bad:
        A[i * m] = np.nan
    begins = m * np.arange(3)
    data = kernels.CohortData(A, y, begins, begins + m, np.full(3, 9), np.arange(3))
    stream = kernels.RandomStream(np.array([3, 5], np.uint64), 1, 0, 2)
    models = np.zeros((3, 1, n), dtype)
    supports, values = np.full((3, tau), -1), np.full((3, tau), np.nan, dtype)
    counts = np.zeros(3, int)
    start = np.array([4]), np.ones(1, dtype)
    updates = supports, values, counts
    counted = kernels.CountedEntries(tau, False, nobody(n))
    task = kernels.Pursuit(2, counted, ORTHONORMAL, *start, *updates)
    objective = kernels.Objective(0.0, True)
    with np.errstate(over="ignore"):  # as Python, words of 64 bits overflow on purpose
        if name == "pursuit":
            kernels.cohort_pursuit(first, last, data, stream, task)
        elif name in ("stochastic", "line search"):
            solver = (3, 0.05, 5) if name == "stochastic" else (2, 0.0, 0)
            options = task, objective, np.inf, 1, *solver
            loop = kernels.inexact_pursuit(has_line_search=name == "line search")
            loop(first, last, data, stream, *options)
        else:
            products = np.zeros((0, 0), dtype)
            if name == "on predictions":
                products = np.vstack([A[i : i + m] @ A[i : i + m].T for i in begins])
            options = 0.05, objective, 0 if len(products) else tau, np.zeros((2, 2)), products
            kernels.cohort_descent(first, last, data, stream, *options, models)
            counts[:] = np.any(models != 0, axis=(1, 2))
    return [models, supports, values, counts]


LOOPS = ["pursuit", "stochastic", "line search", "descent", "on predictions"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOOPS)
def test_a_thread_computes_its_own_clients_only(name, dtype):
    """The same bits as of all clients together, and the arrays of the others are left alone."""
    together, alone, untouched = (run_of(name, dtype, *ends) for ends in ((0, 3), (1, 2), (0, 0)))
    assert all(together[-1])
    for whole, one, before in zip(together, alone, untouched, strict=True):
        np.testing.assert_array_equal(one[1], whole[1])
        np.testing.assert_array_equal(one[[0, 2]], before[[0, 2]])


@pytest.mark.parametrize("name", LOOPS[:3])
def test_after_a_client_that_is_left_the_next_ones_are_computed(name):
    """Client 0 has numbers that are not finite; the others have the bits that they have without it."""
    with_all, without = run_of(name, np.float64, 0, 3), run_of(name, np.float64, 0, 3, bad=[0])
    assert without[-1].tolist()[0] == 0 and all(without[-1][1:])
    for one, other in zip(with_all, without, strict=True):
        np.testing.assert_array_equal(one[1:], other[1:])


# Where the loss is a sum.


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("method", ["sgd", "line search", "average"])
def test_losses_that_are_sums_have_their_own_gradients(method):
    """A step of 1/m times the rate on a sum is a step on the mean, where each client has m rows."""
    rng = np.random.default_rng(0)
    m = 12
    As = [rng.standard_normal((m, 10)) for _ in range(3)]
    ys = [A[:, 0] + rng.standard_normal(m) for A in As]
    x = {}
    for is_mean, rate in ((True, 0.3), (False, 0.3 / m)):
        loss = fgmp.SquaredLoss(averaged=is_mean)
        methods = {
            "sgd": fgmp.FedGradMP(3, solver=fgmp.SGD(learning_rate=rate, steps=4)),
            "line search": fgmp.FedGradMP(3, solver=fgmp.GradientDescent(steps=3)),
            "average": fgmp.FedAvg(learning_rate=rate, local_iterations=3, batch_size=m),
        }
        federation = fgmp.Federation.from_arrays(As, ys, loss)
        x[is_mean] = fgmp.simulate(methods[method], federation, 3, rng=1).x
    np.testing.assert_allclose(x[False], x[True], rtol=1e-9, atol=1e-12)
