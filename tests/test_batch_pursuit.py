"""Batch-OMP of many signals against scikit-learn, a plain pursuit of each signal, and least squares."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp_gram

from fgmp import batch_pursuit
from fgmp.batch_pursuit import pursue_signals
from fgmp.pursuit import matching_pursuit

FORMS = pytest.mark.parametrize("form", ["arrays", "loops"])


def pursue(form, gram, correlations, sparsity, block=None):
    """By arrays, or by the loops that large problems have, compiled where Numba is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_pursuit, "_LEAST", 0 if form == "loops" else np.inf)
        patch.setattr(batch_pursuit, "numba_serves", lambda: True)
        patch.setattr(batch_pursuit, "_BLOCK", block or batch_pursuit._BLOCK)
        return pursue_signals(gram, correlations, sparsity)


def codes_of(n_atoms, atoms, coefficients):
    codes = np.zeros((n_atoms, len(atoms)))
    for code, taken, values in zip(codes.T, atoms, coefficients, strict=True):
        code[taken[taken >= 0]] = values[taken >= 0]
    return codes


def gaussian(seed, n_features, n_atoms, n_signals, norms=True):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_features, n_atoms))
    atoms /= np.linalg.norm(atoms, axis=0)
    if norms:
        atoms *= rng.uniform(0.01, 100, n_atoms)
    return atoms, rng.standard_normal((n_features, n_signals))


@FORMS
@pytest.mark.parametrize("shape", [(30, 80, 50, 7), (64, 300, 40, 10), (20, 10, 20, 10), (5, 9, 300, 1)])
def test_codes_are_those_of_scikit_learn(form, shape):
    n_features, n_atoms, n_signals, sparsity = shape
    for seed in range(5):
        atoms, signals = gaussian(seed, n_features, n_atoms, n_signals, norms=False)
        gram, correlations = atoms.T @ atoms, atoms.T @ signals
        found = pursue(form, gram, correlations, sparsity)
        expected = orthogonal_mp_gram(gram.copy(), correlations, n_nonzero_coefs=sparsity)
        np.testing.assert_array_equal(codes_of(n_atoms, *found) != 0, expected != 0)
        np.testing.assert_allclose(codes_of(n_atoms, *found), expected, atol=1e-10)


@FORMS
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(3, 15), st.integers(1, 25), st.integers(1, 6), st.data())
def test_each_signal_has_the_atoms_of_a_pursuit_of_its_own(form, seed, n_features, n_atoms, n_signals, data):
    atoms, signals = gaussian(seed, n_features, n_atoms, n_signals)
    sparsity = data.draw(st.integers(1, min(n_atoms, n_features - 1)))
    gram, correlations = atoms.T @ atoms, atoms.T @ signals
    found, coefficients = pursue(form, gram, correlations, sparsity)
    for i in range(n_signals):
        np.testing.assert_array_equal(np.sort(found[i]), matching_pursuit(gram, correlations[:, i], sparsity))
        fitted = atoms[:, found[i]] @ coefficients[i]
        best = atoms[:, found[i]] @ np.linalg.lstsq(atoms[:, found[i]], signals[:, i], rcond=None)[0]
        np.testing.assert_allclose(fitted, best, atol=1e-6)


@FORMS
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(-300, 300))
def test_order_and_units_of_the_signals_do_not_matter(form, seed, power):
    """A power of two is an exact scale; blocks of one signal are as good as blocks of all."""
    atoms, signals = gaussian(seed, 12, 20, 9)
    gram, correlations = atoms.T @ atoms, atoms.T @ signals
    found, coefficients = pursue(form, gram, correlations, 5)
    order, unit = np.random.default_rng(seed).permutation(9), -(2.0**power)
    for block in (1, None):
        other, scaled = pursue(form, gram, unit * correlations[:, order], 5, block)
        np.testing.assert_array_equal(other, found[order])
        np.testing.assert_allclose(scaled / unit, coefficients[order], rtol=1e-9)


@FORMS
def test_the_first_of_equals_is_taken(form):
    found, coefficients = pursue(form, np.eye(5), np.array([[1.0, -2.0, 2.0, 2.0, -1.0]]).T, 4)
    np.testing.assert_array_equal(found, [[1, 2, 3, 0]])
    np.testing.assert_array_equal(coefficients, [[-2, 2, 2, 1]])
    far_apart = np.where(np.isin(np.arange(300), [7, 70, 250]), -3.0, 1.0)
    np.testing.assert_array_equal(pursue(form, np.eye(300), far_apart[:, None], 4)[0], [[7, 70, 250, 0]])


@FORMS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signals_that_need_fewer_atoms_get_fewer(form, dtype):
    """Nothing, an atom, three atoms, and a signal that needs all that it may have."""
    rng = np.random.default_rng(0)
    atoms, signals = gaussian(0, 200, 30, 4)
    weights = np.zeros((30, 3))
    weights[4, 1], weights[[3, 7, 20], 2] = -3.0, [1.0, -2.0, 4.0]
    weights /= np.linalg.norm(atoms, axis=0)[:, None]
    signals[:, :3] = atoms @ weights
    order = rng.permutation(4)
    gram, correlations = (atoms.T @ atoms).astype(dtype), (atoms.T @ signals[:, order]).astype(dtype)
    found, coefficients = pursue(form, gram, correlations, 6)
    np.testing.assert_array_equal((found >= 0).sum(axis=1)[np.argsort(order)], [0, 1, 3, 6])
    assert not coefficients[found < 0].any()
    accuracy = 1e-4 if dtype == np.float32 else 1e-11
    codes = codes_of(30, found, coefficients)[:, np.argsort(order)] * np.linalg.norm(atoms, axis=0)[:, None]
    np.testing.assert_allclose(codes[:, :3], weights * np.linalg.norm(atoms, axis=0)[:, None], atol=accuracy)
    expected = np.linalg.lstsq(atoms[:, codes[:, 3] != 0], signals[:, 3], rcond=None)[0]
    norms = np.linalg.norm(atoms[:, codes[:, 3] != 0], axis=0)
    np.testing.assert_allclose(codes[codes[:, 3] != 0, 3], expected * norms, atol=accuracy)


@FORMS
def test_dependent_atoms_are_not_taken_together(form):
    """In a space of four dimensions no more than four; every signal is represented, and nothing is divided by zero."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 4)) @ rng.standard_normal((4, 12))
    atoms[:, 11] = -3 * atoms[:, 2]
    signals = atoms @ rng.standard_normal((12, 50))
    found, coefficients = pursue(form, atoms.T @ atoms, atoms.T @ signals, 9)
    assert ((found >= 0).sum(axis=1) <= 4).all() and np.isfinite(coefficients).all()
    assert not any({2, 11} <= set(taken) for taken in found)
    np.testing.assert_allclose(atoms @ codes_of(12, found, coefficients), signals, atol=1e-6)


@FORMS
def test_a_signal_ends_where_the_next_atom_depends_on_its_own(form):
    """What is left of the third inner product is no residual of any signal, so it can only be an error."""
    gram = np.array([[1.0, 0.0, 0.6], [0.0, 1.0, 0.8], [0.6, 0.8, 1.0]])
    found, coefficients = pursue(form, gram, np.array([[3.0, 4.0, 1.0], [3.0, 4.0, 5.0]]).T, 3)
    np.testing.assert_array_equal(found, [[1, 0, -1], [2, -1, -1]])
    np.testing.assert_allclose(coefficients, [[4, 3, 0], [5, 0, 0]])


@FORMS
def test_the_gram_matrix_is_neither_copied_nor_changed(form):
    atoms, signals = gaussian(0, 50, 1000, 3)
    gram, correlations = atoms.T @ atoms, atoms.T @ signals
    gram.flags.writeable = correlations.flags.writeable = False
    pursue(form, gram, correlations, 5)
    tracemalloc.start()
    pursue(form, gram, correlations, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < gram.nbytes / 4


def test_the_loops_as_plain_python_and_compiled():
    pytest.importorskip("numba")
    from fgmp.batch_pursuit_loops import advance

    atoms, signals = gaussian(0, 10, 70, 3)
    residuals = (atoms.T @ signals).T / np.linalg.norm(atoms, axis=0)
    ends = []
    for function in (advance, advance.py_func):
        taken, left = np.full((3, 4), -1), residuals.copy()
        shares = function(
            atoms.T @ atoms, np.linalg.norm(atoms, axis=0), left, taken, np.empty((1, 4, 70)), 1e-14, 1e-14
        )
        ends.append((taken, left, shares))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


SMALL = """
import sys, numpy, fgmp
fgmp.ksvd(numpy.random.default_rng(0).standard_normal((30, 8)), 10, 3, iterations=2, rng=0)
print("numba" in sys.modules)
"""


def test_small_problems_do_not_import_numba():
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("flag", "shape", "serves"), [(None, 2**11, True), (None, 2**10, False), ("0", 2**11, False)])
def test_sizes_decide_and_the_environment(monkeypatch, flag, shape, serves):
    pytest.importorskip("numba")
    from fgmp import batch_pursuit_loops

    monkeypatch.delenv("FGMP_NUMBA", raising=False)
    if flag:
        monkeypatch.setenv("FGMP_NUMBA", flag)
    called = []

    def advance(*arguments):
        called.append(True)
        return batch_pursuit._advance(*arguments)

    monkeypatch.setattr(batch_pursuit_loops, "advance", advance)
    pursue_signals(np.eye(64), np.random.default_rng(0).standard_normal((64, 64 * shape // 64)), 128)
    assert bool(called) == serves
