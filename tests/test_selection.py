"""What counts as one of the tau, against sorting and enumeration; what always stays; thresholds and pursuits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fgmp
from fgmp.models import SparseModel
from fgmp.selection import Overall, matching_pursuit

KINDS = {"output": fgmp.PerOutput, "atom": fgmp.PerAtom, "all": Overall}


def by_sorting(kind, values, count, spared):
    """The entries kept, by a stable sort of what counts."""
    kept, sizes = np.zeros(values.shape, bool), np.abs(values)
    rows = [row for row in range(len(values)) if row not in spared]
    if kind == "atom":
        sizes = np.linalg.norm(values, axis=1)
        kept[sorted(rows, key=lambda row: -sizes[row])[:count]] = True
    else:
        columns = range(values.shape[1])
        for group in [columns] if kind == "all" else [[column] for column in columns]:
            places = [(row, column) for row in rows for column in group]
            for place in sorted(places, key=lambda place: -sizes[place])[:count]:
                kept[place] = True
    kept[list(spared)] = True
    return kept


entries = arrays(float, st.sampled_from([(4, 3), (12,)]), elements=st.integers(-3, 3))
always = st.sampled_from([(), (0,), (1, 3)])


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(list(KINDS)), entries, st.integers(1, 13), always)
def test_what_is_kept_is_what_sorting_keeps(kind, values, count, spared):
    before, selection = values.copy(), KINDS[kind](spared)
    expected = by_sorting(kind, values.reshape(len(values), -1), count, spared).reshape(values.shape)
    np.testing.assert_array_equal(selection.choose(values, count), np.flatnonzero(expected))
    np.testing.assert_array_equal(selection.hard(values, count), np.where(expected, values, 0))
    np.testing.assert_array_equal(values, before)
    inside = expected & (values != 0)
    np.testing.assert_array_equal(
        values.reshape(-1)[selection.choose_of(SparseModel.of(values), count)], values[inside]
    )
    assert selection.holds(np.flatnonzero(expected), values.shape, count)
    counted = np.delete(expected.reshape(len(values), -1), spared, axis=0)
    held = {"output": counted.sum(axis=0).max(), "atom": counted.any(axis=1).sum(), "all": counted.sum()}[kind]
    assert held == 0 or not selection.holds(np.flatnonzero(expected), values.shape, held - 1)


def test_what_is_not_a_number_stays():
    v = np.array([[np.nan, 3.0], [1.0, np.inf]])
    assert not any(np.isfinite(kind().hard(v, 1)).all() for kind in KINDS.values())


def test_what_always_stays_is_kept_in_order_once():
    assert fgmp.PerAtom(3).always == (3,) and fgmp.PerAtom([3, 1, 3]).always == (1, 3)


@settings(deadline=None)
@given(st.sampled_from(list(KINDS)), entries, st.floats(0, 3), always)
def test_soft_thresholds_are_proximal_steps(kind, values, threshold, spared):
    """S(v, t) = sign(v) max(|v| - t, 0), which for atoms shortens rows; minimises ||x - v||^2/2 + t penalty(x)."""
    v = values.reshape(len(values), -1) / 4
    sizes = np.linalg.norm(v, axis=1, keepdims=True) if kind == "atom" else np.abs(v)
    expected = v * np.divide(np.maximum(sizes - threshold, 0), sizes, out=np.zeros_like(sizes), where=sizes > 0)
    expected[list(spared)] = v[list(spared)]
    found = KINDS[kind](spared).soft(values / 4, threshold)
    np.testing.assert_allclose(found, expected.reshape(values.shape), atol=1e-15)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (0, 5)]))
def test_pursuits_start_with_what_always_stays(seed, first):
    """A plain pursuit with least squares in every step, on the signals themselves."""
    rng = np.random.default_rng(seed)
    atoms, signals = rng.standard_normal((10, 8)), rng.standard_normal((10, 3))
    unit, gram, correlations = atoms / np.linalg.norm(atoms, axis=0), atoms.T @ atoms, atoms.T @ signals
    for outputs in (3, 1):
        some, taken = signals[:, :outputs], list(first)
        for _ in range(3):
            sizes = np.linalg.norm(unit.T @ (some - unit[:, taken] @ np.linalg.pinv(unit[:, taken]) @ some), axis=1)
            sizes[taken] = 0
            taken.append(int(sizes.argmax()))
        expected = (np.sort(taken)[:, None] * outputs + np.arange(outputs)).reshape(-1)
        np.testing.assert_array_equal(fgmp.PerAtom(first).pursue(gram, correlations[:, :outputs], 3), expected)
    for selection in (fgmp.PerOutput(first), Overall(first)):
        np.testing.assert_array_equal(selection.pursue(gram, correlations[:, :1], 3), np.sort(taken))


def test_the_pursuit_stops_where_a_signal_is_represented_and_skips_dependent_atoms():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 30))
    for wide in (1.0, 1e-9):  # a wide range of coefficients is no reason to stop
        signal = atoms[:, [3, 7, 20]] @ [1.0, -wide, 2.0]
        np.testing.assert_array_equal(matching_pursuit(atoms.T @ atoms, atoms.T @ signal, 8), [3, 7, 20])
    found = Overall().pursue(atoms.T @ atoms, atoms.T @ rng.standard_normal((200, 3)), 70)
    assert len(found) == 70  # three outputs share a count that may be larger than the number of atoms
    atoms = rng.standard_normal((20, 30))
    atoms[:, 9] = atoms[:, 3] + atoms[:, 7]
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ rng.standard_normal(20), 20)
    assert len(found) == 20 and np.linalg.matrix_rank(atoms[:, found]) == 20
