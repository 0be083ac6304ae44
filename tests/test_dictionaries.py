"""Dictionaries: coefficients against linear algebra on signals; approx_tau against brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgmp
from fgmp._support.linear_algebra import orthonormal_combinations
from fgmp.dictionaries import StandardBasis
from fgmp.sparse_model import SparseModel
from fgmp.theory import approx_tau


@given(
    st.integers(0, 10_000),
    st.sampled_from([(12, 6, 3), (6, 10, 3), (3, 6, 5)]),
    st.sampled_from([0, 7]),
)
def test_operations_on_coefficients_are_those_on_signals(seed, shape, decades):
    """Also for dependent atoms, and for atoms in units of their own."""
    rng = np.random.default_rng(seed)
    (n, n_atoms, size) = shape
    plain = rng.standard_normal((n, n_atoms))
    units = 10.0 ** rng.integers(-decades, decades + 1, n_atoms)
    D = fgmp.Dictionary(plain * units)
    values = np.zeros(n_atoms)
    kept = np.sort(rng.choice(n_atoms, 4, replace=False))
    values[kept] = rng.standard_normal(4)
    model = SparseModel(kept, values[kept] / units[kept], (n_atoms,))
    signal = plain @ values
    np.testing.assert_allclose(D.synthesise(model.dense()), signal, atol=1e-10)
    np.testing.assert_allclose(D.correlations(model) / units, plain.T @ signal, atol=1e-10)
    assert D.norm(model) == pytest.approx(np.linalg.norm(signal), abs=1e-7)
    support = np.sort(rng.choice(n_atoms, size, replace=False))
    atoms = plain[:, support]
    projection = atoms @ np.linalg.lstsq(atoms, signal, rcond=None)[0]
    np.testing.assert_allclose(
        D.synthesise(D.project(model, support).dense()), projection, atol=1e-7
    )
    inside = D.atoms[:, support] @ orthonormal_combinations(D.gram_block(support))
    np.testing.assert_allclose(inside.T @ inside, np.eye(min(size, n)), atol=1e-8)
    np.testing.assert_allclose(inside @ inside.T @ atoms, atoms, atol=1e-7)


@pytest.mark.parametrize("kind", ["omp", "thresholding", "orthonormal", "standard"])
@pytest.mark.parametrize("sparsity", [1, 3])
def test_eta_of_approx_tau_is_that_of_brute_force(kind, sparsity):
    """The best support is found by enumeration."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        atoms = rng.standard_normal((8, 12))
        w = rng.standard_normal(8)
        if kind in ("omp", "thresholding"):
            D = fgmp.Dictionary(atoms, kind)
        else:
            atoms = np.eye(8) if kind == "standard" else np.linalg.qr(atoms)[0]
            D = StandardBasis() if kind == "standard" else fgmp.Dictionary(atoms)
        found = approx_tau(D, w, sparsity)
        small = approx_tau(D, 1e-9 * w, sparsity)
        errors = [
            np.linalg.norm(w - atoms[:, s] @ np.linalg.lstsq(atoms[:, s], w, rcond=None)[0])
            for s in map(list, combinations(range(atoms.shape[1]), sparsity))
        ]
        assert found.best_error == pytest.approx(min(errors))
        assert found.eta == pytest.approx(found.error / min(errors))
        assert found.eta >= 1
        assert found.eta == 1 or kind in ("omp", "thresholding")
        np.testing.assert_array_equal(found.support, small.support)


@pytest.mark.parametrize("seed", range(40))
def test_eta_of_a_sparse_signal_is_one_if_its_atoms_are_found(seed):
    """And above one if they are not."""
    rng = np.random.default_rng(seed)
    dictionary = fgmp.Dictionary(rng.standard_normal((10, 14)))
    atoms = rng.choice(14, 3, replace=False)
    found = approx_tau(dictionary, dictionary.atoms[:, atoms] @ rng.standard_normal(3), 3)
    assert (found.eta == 1) == (set(found.support) == set(atoms))
    assert found.eta >= 1


def test_approx_tau_of_the_zero_signal_has_no_error():
    """No atom is needed."""
    dictionary = fgmp.Dictionary(np.random.default_rng(0).standard_normal((10, 14)))
    assert approx_tau(dictionary, np.zeros(10), 2).error == 0


def test_approx_tau_of_orthonormal_atoms_enumerates_nothing():
    """Nor does it make a matrix for the standard basis of 100,000 features."""
    assert approx_tau(fgmp.Dictionary(np.eye(60)), np.ones(60), 30).eta == 1
    assert approx_tau(StandardBasis(), np.ones(100_000), 1).eta == 1


def test_units_of_atoms_do_not_change_approx_tau():
    """The support, the error and eta stay."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 12))
    units = 10.0 ** rng.integers(-7, 8, 12)
    signal = atoms[:, [2, 3, 8]] @ [1.0, -2, 0.5] + 0.1 * rng.standard_normal(20)
    first = approx_tau(fgmp.Dictionary(atoms), signal, 3)
    second = approx_tau(fgmp.Dictionary(atoms * units), signal, 3)
    np.testing.assert_array_equal(first.support, second.support)
    assert second.error == pytest.approx(first.error)
    assert second.eta == pytest.approx(first.eta)
