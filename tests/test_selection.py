"""Selections, thresholds and pursuits, against sorting, enumeration and exact fractions."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import hadamard

import fgmp
from fgmp import Overall
from fgmp._support.linear_algebra import matching_pursuit
from fgmp.sparse_model import SparseModel

KINDS = {"output": fgmp.PerOutput, "atom": fgmp.PerAtom, "all": Overall}


def keep_by_sorting(kind, values, count, always_include):
    """Return a mask of the selected entries, by a stable sort."""
    kept = np.zeros(values.shape, bool)
    sizes = np.abs(values)
    rows = [row for row in range(len(values)) if row not in always_include]
    if kind == "atom":
        sizes = np.linalg.norm(values, axis=1)
        kept[sorted(rows, key=lambda row: -sizes[row])[:count]] = True
    else:
        columns = range(values.shape[1])
        for group in [columns] if kind == "all" else [[column] for column in columns]:
            entries = [(row, column) for row in rows for column in group]
            for entry in sorted(entries, key=lambda entry: -sizes[entry])[:count]:
                kept[entry] = True
    kept[list(always_include)] = True
    return kept


entries = arrays(float, st.sampled_from([(4, 3), (12,)]), elements=st.integers(-3, 3))
always_include = st.sampled_from([(), (0,), (1, 3)])


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(list(KINDS)), entries, st.integers(1, 13), always_include)
def test_selection_keeps_what_sorting_keeps(kind, values, count, included):
    """All ways to select agree with a stable sort, and leave the values as they are."""
    before = values.copy()
    selection = KINDS[kind](included)
    expected = keep_by_sorting(kind, values.reshape(len(values), -1), count, included).reshape(
        values.shape
    )
    np.testing.assert_array_equal(selection.select(values, count), np.flatnonzero(expected))
    np.testing.assert_array_equal(selection.hard(values, count), np.where(expected, values, 0))
    np.testing.assert_array_equal(values, before)
    inside = expected & (values != 0)
    np.testing.assert_array_equal(
        values.reshape(-1)[selection.select_from(SparseModel.of(values), count)], values[inside]
    )
    assert selection.is_within(np.flatnonzero(expected), values.shape, count)
    counted = np.delete(expected.reshape(len(values), -1), included, axis=0)
    held = {
        "output": counted.sum(axis=0).max(),
        "atom": counted.any(axis=1).sum(),
        "all": counted.sum(),
    }[kind]
    assert held == 0 or not selection.is_within(np.flatnonzero(expected), values.shape, held - 1)


def test_hard_threshold_keeps_nan_and_infinity():
    """A selection does not hide that a value is not finite."""
    v = np.array([[np.nan, 3.0], [1.0, np.inf]])
    assert not any(np.isfinite(kind().hard(v, 1)).all() for kind in KINDS.values())


def test_always_include_is_sorted_without_repeats():
    """An atom may be given alone, and several in any order."""
    assert fgmp.PerAtom(3).always_include == (3,)
    assert fgmp.PerAtom([3, 1, 3]).always_include == (
        1,
        3,
    )


@settings(deadline=None)
@given(st.sampled_from(list(KINDS)), entries, st.floats(0, 3), always_include)
def test_soft_threshold_is_the_proximal_step(kind, values, threshold, included):
    """S(v, t) = sign(v) max(|v| - t, 0) minimises ||x - v||^2/2 + t penalty(x).

    For atoms it shortens the rows.
    """
    v = values.reshape(len(values), -1) / 4
    sizes = np.linalg.norm(v, axis=1, keepdims=True) if kind == "atom" else np.abs(v)
    expected = v * np.divide(
        np.maximum(sizes - threshold, 0), sizes, out=np.zeros_like(sizes), where=sizes > 0
    )
    expected[list(included)] = v[list(included)]
    found = KINDS[kind](included).soft(values / 4, threshold)
    np.testing.assert_allclose(found, expected.reshape(values.shape), atol=1e-15)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (0, 5)]))
def test_pursuit_starts_with_atoms_that_are_always_included(seed, first):
    """Against a plain pursuit with least squares in every step, on the signals."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((10, 8))
    signals = rng.standard_normal((10, 3))
    unit = atoms / np.linalg.norm(atoms, axis=0)
    gram = atoms.T @ atoms
    correlations = atoms.T @ signals
    for outputs in (3, 1):
        some = signals[:, :outputs]
        taken = list(first)
        for _ in range(3):
            sizes = np.linalg.norm(
                unit.T @ (some - unit[:, taken] @ np.linalg.pinv(unit[:, taken]) @ some), axis=1
            )
            sizes[taken] = 0
            taken.append(int(sizes.argmax()))
        expected = (np.sort(taken)[:, None] * outputs + np.arange(outputs)).reshape(-1)
        np.testing.assert_array_equal(
            fgmp.PerAtom(first).pursue(gram, correlations[:, :outputs], 3), expected
        )
    for selection in (fgmp.PerOutput(first), Overall(first)):
        np.testing.assert_array_equal(
            selection.pursue(gram, correlations[:, :1], 3), np.sort(taken)
        )


@pytest.mark.parametrize("smallest", [1.0, 1e-9])
def test_pursuit_stops_when_the_signal_is_represented(smallest):
    """A wide range of coefficients is no reason to stop before."""
    atoms = np.random.default_rng(0).standard_normal((200, 30))
    signal = atoms[:, [3, 7, 20]] @ [1.0, -smallest, 2.0]
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ signal, 8)
    np.testing.assert_array_equal(found, [3, 7, 20])


def test_pursuit_of_several_outputs_may_select_more_than_there_are_atoms():
    """Three outputs share a count of 70 among 30 atoms."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 30))
    signals = rng.standard_normal((200, 3))
    assert len(Overall().pursue(atoms.T @ atoms, atoms.T @ signals, 70)) == 70


def test_pursuit_skips_dependent_atoms():
    """An atom in the span of those that are selected is never selected."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 30))
    atoms[:, 9] = atoms[:, 3] + atoms[:, 7]
    found = matching_pursuit(atoms.T @ atoms, atoms.T @ rng.standard_normal(20), 20)
    assert len(found) == 20
    assert np.linalg.matrix_rank(atoms[:, found]) == 20


class Bounded:
    """Let an AssertionError end a block that runs too many lines of fgmp.selection."""

    def __init__(self, lines=20_000):
        self.lines = lines

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.count)

    def __exit__(self, *_):
        sys.settrace(self.before)

    def count(self, frame, event, _):
        if frame.f_code.co_filename != SELECTION:
            return None
        if event == "line":
            self.lines -= 1
            assert self.lines > 0, "it does not end"
        return self.count


SELECTION = matching_pursuit.__code__.co_filename
INTEGERS = {
    "scaled basis": lambda rng: np.diag(rng.integers(1, 5, 5)),
    "basis and ones": lambda rng: np.column_stack([np.eye(5), np.ones(5)]),
    "ones and basis": lambda rng: np.column_stack([np.ones(5), np.eye(5)]),
    "basis and Hadamard": lambda rng: np.column_stack([np.eye(4), hadamard(4)]),
    "fewer atoms": lambda rng: np.array([[2, 0, 1], [0, 1, 1], [0, 0, 3], [0, 0, 0]]),
    "integers": lambda rng: np.column_stack([rng.integers(-2, 3, (5, 6)), np.eye(5)[:, 0]]),
}


def without_repeats(atoms):
    """Return the atoms that are neither zero nor multiples of earlier ones."""
    kept = []
    for column in atoms.T:
        alike = [abs(column @ other) ** 2 == (column @ column) * (other @ other) for other in kept]
        if column.any() and not any(alike):
            kept.append(column)
    return np.array(kept).T


def in_fractions(gram, correlations, count, first):
    """Return the support of orthogonal matching pursuit without rounding; None if two atoms tie."""
    d = len(gram)
    gram = [[Fraction(int(entry)) for entry in row] for row in gram]
    residual = [Fraction(int(entry)) for entry in correlations]
    basis = []
    taken = set(first)

    def take(atom):
        direction = gram[atom][:]
        for pivot, row in basis:
            direction = [
                a - row[atom] * b / row[pivot] for a, b in zip(direction, row, strict=True)
            ]
        if direction[atom]:
            step = residual[atom] / direction[atom]
            residual[:] = [r - step * a for r, a in zip(residual, direction, strict=True)]
            basis.append((atom, direction))
            taken.add(atom)

    for atom in first:
        take(atom)
    while len(taken) < min(count + len(first), d):
        sizes = [residual[j] ** 2 / gram[j][j] for j in range(d)]
        if not max(sizes):
            break
        if sizes.count(max(sizes)) > 1:
            return None
        take(sizes.index(max(sizes)))
    return np.sort(np.array(list(taken), np.intp))


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(list(INTEGERS)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 8),
    st.sampled_from([(), (0,), (1, 2)]),
)
def test_pursuit_of_integers_ends_with_at_most_the_count(kind, seed, count, first):
    """Residuals are zero to the bit; without ties the support is that in fractions."""
    rng = np.random.default_rng(seed)
    atoms = without_repeats(INTEGERS[kind](rng))
    d = atoms.shape[1]
    some = rng.integers(-2, 3, (d, 2)) * rng.integers(0, 2, (d, 2))
    gram = (atoms.T @ atoms).astype(float)
    correlations = (atoms.T @ atoms @ some).astype(float)
    with Bounded():
        found = {make: make(first).pursue(gram, correlations, count) for make in KINDS.values()}
        alone = matching_pursuit(gram, correlations[:, 0], count, first)
    fixed = np.add.outer(2 * np.array(first, int), range(2)).reshape(-1)
    for make, support in found.items():
        assert np.array_equal(np.unique(support), support)
        assert set(fixed) <= set(support) <= set(range(2 * d))
        assert make(first).is_within(support, (d, 2), count)
    expected = in_fractions(gram, correlations[:, 0], count, first)
    if expected is not None:
        np.testing.assert_array_equal(alone, expected)


def structured(name):
    """Return a dictionary whose atoms represent sparse signals to the bit, or nearly."""
    rng = np.random.default_rng(0)
    frames = np.kron(
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0]], np.ones((4, 1))
    ) * rng.integers(1, 4, (12, 1))
    return {
        "scaled basis": lambda: fgmp.Dictionary(np.diag([2.0, 1, 1, 1, 1])),
        "basis and ones": lambda: fgmp.Dictionary(np.column_stack([np.eye(5), np.ones(5)])),
        "basis and orthonormal": lambda: fgmp.Dictionary(
            np.column_stack([np.eye(5), np.linalg.qr(rng.standard_normal((5, 5)))[0]])
        ),
        "learned": lambda: fgmp.ksvd(frames, 3, 1, rng=0),
        "gaussian": lambda: fgmp.gaussian_dictionary(5, 8, rng=0),
    }[name]()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("make", KINDS.values())
@pytest.mark.parametrize("fixed", [(), (0,)])
@pytest.mark.parametrize(
    "name", ["scaled basis", "basis and ones", "basis and orthonormal", "learned", "gaussian"]
)
@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_run_in_a_structured_dictionary_ends(name, fixed, make):
    """With sparse and zero targets, one or several outputs, and a client without gradient."""
    dictionary = structured(name)
    selection = make(fixed)
    targets = [np.zeros(5), 3.0 * np.eye(5)[0], np.array([0, 2.0, 0, 0, -1])]
    numbers = fgmp.Federation.from_arrays([np.eye(5)] * 3, targets)
    labels = fgmp.Federation.from_arrays(
        [np.eye(5)] * 2, [[0, 0, 1, 1, 2], [2, 2, 2, 0, 1]], fgmp.SoftmaxLoss(3)
    )
    newton = fgmp.NewtonOnSupport(2, ridge=0.1)
    for federation, solver in ((numbers, fgmp.NewtonOnSupport()), (labels, newton)):
        for method in (
            fgmp.FedGradMP(2, dictionary=dictionary, selection=selection),
            fgmp.SharedSupportGradMP(2, dictionary=dictionary, selection=selection, solver=solver),
            fgmp.SharedSupportGradMP(
                2,
                fgmp.LargestEntries(),
                dictionary=dictionary,
                selection=selection,
                solver=solver,
                pruning="largest",
            ),
        ):
            with Bounded(200_000):
                result = fgmp.simulate(method, federation, 3, rng=0)
            assert selection.is_within(result.support, result.coefficients.shape, 2)


@pytest.mark.parametrize(
    "name", ["scaled basis", "basis and ones", "basis and orthonormal", "learned", "gaussian"]
)
def test_approx_tau_of_one_atom_has_that_atom_alone(name):
    """Whatever the sparsity, a signal of one atom is represented by it."""
    dictionary = structured(name)
    for j, atom in enumerate(dictionary.atoms.T):
        for count in range(1, dictionary.atoms.shape[1] + 1):
            with Bounded():
                found = fgmp.theory.approx_tau(dictionary, 3 * atom, sparsity=count)
            np.testing.assert_array_equal(found.support, [j])
