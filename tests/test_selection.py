"""What counts as one of the tau, against sorting and enumeration; what always stays; thresholds and pursuits."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.methods.support_solvers import LocalSteps
from fgmp.models import SparseModel, union
from fgmp.pursuit import matching_pursuit
from fgmp.selection import Overall, largest, mark_largest

entries = st.lists(st.integers(-3, 3), min_size=12, max_size=12)
counts = st.integers(1, 13)
always = st.sampled_from([(), (0,), (1, 3)])
KINDS = {"output": fgmp.PerOutput, "atom": fgmp.PerAtom, "all": Overall}


def by_sorting(kind, values, count, spared):
    """The entries kept, by a stable sort of what counts."""
    kept = np.zeros(values.shape, bool)
    sizes = {"output": np.abs(values), "all": np.abs(values), "atom": np.linalg.norm(values, axis=1)}[kind].astype(
        float
    )
    rows = [row for row in range(len(values)) if row not in spared]
    if kind == "output":
        for column in range(values.shape[1]):
            for row in sorted(rows, key=lambda row: -sizes[row, column])[:count]:
                kept[row, column] = True
    elif kind == "atom":
        kept[sorted(rows, key=lambda row: -sizes[row])[:count]] = True
    else:
        places = [(row, column) for row in rows for column in range(values.shape[1])]
        for place in sorted(places, key=lambda place: -sizes[place])[:count]:
            kept[place] = True
    kept[list(spared)] = True
    return kept


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(list(KINDS)), entries, counts, always)
def test_what_is_kept_is_what_sorting_keeps(kind, entries, count, spared):
    values = np.array(entries, float).reshape(4, 3)
    before, selection = values.copy(), KINDS[kind](spared)
    expected = by_sorting(kind, values, count, spared)
    np.testing.assert_array_equal(selection.kept(values, count), expected)
    np.testing.assert_array_equal(selection.choose(values, count), np.flatnonzero(expected))
    np.testing.assert_array_equal(selection.hard(values, count), np.where(expected, values, 0))
    np.testing.assert_array_equal(values, before)
    model = SparseModel.of(values)
    inside = by_sorting(kind, np.where(values != 0, values, 0), count, spared) & (values != 0)
    np.testing.assert_array_equal(values.reshape(-1)[selection.choose_of(model, count)], values[inside])
    assert selection.holds(np.flatnonzero(expected), values.shape, count)


@given(st.sampled_from(list(KINDS)), entries, counts, always)
def test_for_a_vector_all_selections_are_one(kind, entries, count, spared):
    values = np.array(entries, float)
    expected = by_sorting("output", values[:, None], count, spared)[:, 0]
    np.testing.assert_array_equal(KINDS[kind](spared).choose(values, count), np.flatnonzero(expected))
    np.testing.assert_array_equal(KINDS[kind](spared).hard(values, count), np.where(expected, values, 0))


@given(entries, counts)
def test_marks_are_those_of_a_stable_sort(entries, count):
    rows = np.array(entries, float).reshape(3, 4)
    for marked, row in zip(mark_largest(rows, count), rows, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(marked), np.sort(np.argsort(-row, kind="stable")[:count]))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30))
def test_the_largest_break_ties_towards_the_lower_index(magnitudes, count):
    magnitudes = np.array(magnitudes, float)
    expected = np.sort(np.argsort(-magnitudes, kind="stable")[:count])
    np.testing.assert_array_equal(largest(magnitudes, min(count, len(magnitudes))), expected)


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
def test_unions_are_sorted(first, second):
    first, second = (np.array(sorted(s), dtype=np.intp) for s in (first, second))
    np.testing.assert_array_equal(union(first, second, 20), np.union1d(first, second))


@pytest.mark.parametrize("kind", KINDS)
def test_the_hard_threshold_is_the_nearest_model(kind):
    """By enumeration of all models that the selection allows."""
    rng = np.random.default_rng(0)
    v, count = rng.standard_normal((4, 2)), 2
    cells = [(row, column) for row in range(4) for column in range(2)]
    if kind == "all":
        supports = combinations(cells, count)
    elif kind == "atom":
        supports = ([cell for cell in cells if cell[0] in rows] for rows in combinations(range(4), count))
    else:
        pairs = list(combinations(range(4), count))
        supports = ([*((r, 0) for r in first), *((r, 1) for r in second)] for first in pairs for second in pairs)

    def distance(support):
        left = v.copy()
        left[tuple(zip(*support, strict=True))] = 0
        return np.linalg.norm(left)

    assert np.linalg.norm(v - KINDS[kind]().hard(v, count)) == pytest.approx(min(map(distance, supports)), abs=1e-14)


@settings(deadline=None)
@given(st.sampled_from(list(KINDS)), entries, st.floats(0, 3), always)
def test_soft_thresholds_are_proximal_steps(kind, entries, threshold, spared):
    """S(v, t) = sign(v) max(|v| - t, 0), which for atoms shortens rows; minimises ||x - v||^2/2 + t penalty(x)."""
    v = np.array(entries, float).reshape(4, 3)
    found = KINDS[kind](spared).soft(v, threshold)
    expected = np.sign(v) * np.maximum(np.abs(v) - threshold, 0)
    if kind == "atom":
        norms = np.linalg.norm(v, axis=1, keepdims=True)
        expected = np.array(
            [
                row * max(norm[0] - threshold, 0) / norm[0] if norm[0] else row
                for row, norm in zip(v, norms, strict=True)
            ]
        )
    expected[list(spared)] = v[list(spared)]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_what_is_not_a_number_stays():
    v = np.array([[np.nan, 3.0], [1.0, np.inf]])
    for kind in KINDS.values():
        assert not np.isfinite(kind().hard(v, 1)).all()


def refuse(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_bad_selections_are_refused():
    federation = fgmp.make_sparse_regression(2, 20, 12, 2, rng=0)
    refuse(lambda: fgmp.PerOutput(always=(-1,)), "always is -1; expected an integer of at least 0")
    refuse(lambda: fgmp.PerAtom(always=(0.5,)), "always is 0.5")
    assert fgmp.PerOutput(always=3).always == (3,) and Overall(always=[4, 1, 4]).always == (1, 4)
    for method in (
        fgmp.FedGradMP(2, selection=fgmp.PerAtom((12,))),
        fgmp.SharedSupportGradMP(2, selection=Overall((12,))),
    ):
        refuse(lambda method=method: fgmp.simulate(method, federation, 1), "always is 12; .* from 0 to 11")
    shape = (4, 3)
    refuse(lambda: fgmp.PerOutput().check(5, shape), "sparsity is 5; .* from 1 to 4")
    refuse(lambda: fgmp.PerAtom().check(5, shape), "sparsity is 5; .* from 1 to 4")
    refuse(lambda: Overall().check(13, shape), "sparsity is 13; .* from 1 to 12")
    full = np.arange(12)
    for selection, held in ((fgmp.PerOutput((0,)), 3), (fgmp.PerAtom((0,)), 3), (Overall((0,)), 9)):
        assert selection.holds(full, shape, held) and not selection.holds(full, shape, held - 1)


def softmax_federation(n_clients=4):
    rng = np.random.default_rng(0)
    As = [np.column_stack([np.ones(40), rng.standard_normal((40, 11))]) for _ in range(n_clients)]
    w = np.zeros((12, 3))
    w[[0, 4, 7]] = [[2, -2, 0], [1.5, -1, -0.5], [-1, 2, -1]]
    return fgmp.Federation.from_arrays(As, [(A @ w + rng.gumbel(size=(40, 3))).argmax(axis=1) for A in As], "softmax")


def test_the_intercept_is_worth_having():
    rng = np.random.default_rng(1)
    As = [np.column_stack([np.ones(30), rng.standard_normal((30, 40))]) for _ in range(5)]
    truth = np.zeros(41)
    truth[[0, 3, 9]] = [0.05, 1.0, -1.0]
    ys = [A @ truth for A in As]
    federation = fgmp.Federation.from_arrays(As, ys, truth=truth)
    spared = fgmp.simulate(fgmp.FedGradMP(2, selection=fgmp.PerOutput(always=(0,))), federation, 5, rng=0)
    np.testing.assert_allclose(spared.x, truth, atol=1e-12)
    dropped = fgmp.simulate(fgmp.FedGradMP(2), federation, 5, rng=0)
    assert dropped.x[0] == 0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (0, 5)]))
def test_pursuits_start_with_what_always_stays(seed, first):
    """A plain pursuit with least squares in every step, on the signals themselves."""
    rng = np.random.default_rng(seed)
    atoms, signals = rng.standard_normal((10, 8)), rng.standard_normal((10, 3))
    unit = atoms / np.linalg.norm(atoms, axis=0)
    gram, correlations = atoms.T @ atoms, atoms.T @ signals

    def residual(taken, signal):
        columns = unit[:, taken]
        return signal - columns @ np.linalg.lstsq(columns, signal, rcond=None)[0] if taken else signal

    together = list(first)
    for _ in range(3):
        sizes = np.linalg.norm(unit.T @ residual(together, signals), axis=1)
        sizes[together] = 0
        together.append(int(sizes.argmax()))
    expected = np.sort((np.sort(together)[:, None] * 3 + np.arange(3)).reshape(-1))
    np.testing.assert_array_equal(matching_pursuit(gram, correlations, 3, first, together=True), expected)

    alone = list(first)
    for _ in range(3):
        sizes = np.abs(unit.T @ residual(alone, signals[:, 0]))
        sizes[alone] = 0
        alone.append(int(sizes.argmax()))
    np.testing.assert_array_equal(matching_pursuit(gram, correlations[:, 0], 3, first), np.sort(alone))


def test_the_pursuit_stops_where_a_signal_is_represented_and_skips_dependent_atoms():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 30))
    for wide in (1.0, 1e-9):  # a wide range of coefficients is no reason to stop
        signal = atoms[:, [3, 7, 20]] @ [1.0, -wide, 2.0]
        np.testing.assert_array_equal(matching_pursuit(atoms.T @ atoms, atoms.T @ signal, 8), [3, 7, 20])
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ rng.standard_normal((200, 3)), 70)
    assert len(found) == 70  # three outputs share a count that may be larger than the number of atoms
    atoms = rng.standard_normal((20, 30))
    atoms[:, 9] = atoms[:, 3] + atoms[:, 7]
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ rng.standard_normal(20), 20)
    assert len(found) == 20 and np.linalg.matrix_rank(atoms[:, found]) == 20


RIVALS = {
    "FedHT": lambda **o: fgmp.FedHT(learning_rate=0.05, **o),
    "FedIterHT": lambda **o: fgmp.FedIterHT(learning_rate=0.05, **o),
    "FedGradMP": lambda **o: fgmp.FedGradMP(solver=fgmp.SGD(1, learning_rate=0.05), **o),
    "SharedSupportGradMP": lambda **o: fgmp.SharedSupportGradMP(
        solver=LocalSteps(fgmp.SGD(1, learning_rate=0.05)), **o
    ),
}


@pytest.mark.parametrize("name", RIVALS)
def test_a_sparsity_of_all_outputs_may_be_larger_than_the_features(name):
    classes = softmax_federation(2)
    result = fgmp.simulate(RIVALS[name](sparsity=20, selection=Overall()), classes, 2, rng=0)
    assert np.count_nonzero(result.x) == 20
    with pytest.raises(ValueError, match=r"sparsity is 37; expected an integer from 1 to 36 \(the number of coeff"):
        fgmp.simulate(RIVALS[name](sparsity=37, selection=Overall()), classes, 1, rng=0)
    with pytest.raises(ValueError, match=r"sparsity is 20; expected an integer from 1 to 12 \(the number of atoms"):
        fgmp.simulate(RIVALS[name](sparsity=20), classes, 1, rng=0)
