"""Dictionaries: coefficient space against plain linear algebra on signals; approx_tau against brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgmp
from fgmp.approximation import approx_tau
from fgmp.dictionaries import StandardBasis
from fgmp.models import SparseModel


@given(st.integers(0, 10_000), st.sampled_from([(12, 6), (6, 10)]))
def test_operations_on_coefficients_are_those_on_signals(seed, shape):
    rng = np.random.default_rng(seed)
    D = fgmp.Dictionary(rng.standard_normal(shape))
    kept = np.sort(rng.choice(shape[1], 4, replace=False))
    model = SparseModel(kept, rng.standard_normal(4), (shape[1],))
    signal = D.synthesise(model.dense())
    np.testing.assert_allclose(D.correlations(model), D.atoms.T @ signal, atol=1e-10)
    assert D.norm(model) == pytest.approx(np.linalg.norm(signal), abs=1e-7)
    support = np.sort(rng.choice(shape[1], 3, replace=False))
    atoms = D.atoms[:, support]
    projection = atoms @ np.linalg.lstsq(atoms, signal, rcond=None)[0]
    np.testing.assert_allclose(D.synthesise(D.project(model, support).dense()), projection, atol=1e-7)
    forth, back = D.coordinates(support)
    np.testing.assert_allclose(forth.T @ D.gram[np.ix_(support, support)] @ forth, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(forth @ back, np.eye(3), atol=1e-7)


def test_dependent_atoms_keep_only_the_span():
    rng = np.random.default_rng(0)
    D = fgmp.Dictionary(rng.standard_normal((3, 6)))
    forth, back = D.coordinates(np.arange(5))
    assert forth.shape == (5, 3) and back.shape == (3, 5)
    signal = D.atoms @ np.ones(6)
    model = SparseModel(np.arange(6), np.ones(6), (6,))
    np.testing.assert_allclose(D.synthesise(D.project(model, np.arange(5)).dense()), signal, atol=1e-10)


@pytest.mark.parametrize("kind", ["omp", "thresholding", "orthonormal", "standard"])
@pytest.mark.parametrize("sparsity", [1, 3])
def test_eta_is_measured_against_brute_force(kind, sparsity):
    rng = np.random.default_rng(2)
    for _ in range(20):
        atoms, w = rng.standard_normal((8, 12)), rng.standard_normal(8)
        if kind in ("omp", "thresholding"):
            D = fgmp.Dictionary(atoms, kind)
        else:
            atoms = np.eye(8) if kind == "standard" else np.linalg.qr(atoms)[0]
            D = StandardBasis() if kind == "standard" else fgmp.Dictionary(atoms)
        found, small = approx_tau(D, w, sparsity), approx_tau(D, 1e-9 * w, sparsity)
        errors = [
            np.linalg.norm(w - atoms[:, s] @ np.linalg.lstsq(atoms[:, s], w, rcond=None)[0])
            for s in map(list, combinations(range(atoms.shape[1]), sparsity))
        ]
        assert found.exact and found.best_error == pytest.approx(min(errors))
        assert found.eta == pytest.approx(found.error / min(errors)) and found.eta >= 1
        assert found.eta == 1 or kind in ("omp", "thresholding")
        np.testing.assert_array_equal(found.support, small.support)


def test_a_signal_of_few_atoms_has_eta_one_where_they_are_found():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        dictionary, atoms = fgmp.Dictionary(rng.standard_normal((10, 14))), rng.choice(14, 3, replace=False)
        found = approx_tau(dictionary, dictionary.atoms[:, atoms] @ rng.standard_normal(3), 3)
        assert found.eta == 1 if set(found.support) == set(atoms) else found.eta > 1
    assert approx_tau(dictionary, np.zeros(10), 2).error == 0


def test_best_known_approximation_is_rarely_beaten_by_brute_force(monkeypatch):
    rng = np.random.default_rng(3)
    D = fgmp.Dictionary(rng.standard_normal((10, 15)))
    signals = rng.standard_normal((20, 10))
    exact = [approx_tau(D, w, 4).best_error for w in signals]
    monkeypatch.setattr("fgmp.approximation._EXHAUSTIVE", 0)
    known = [approx_tau(D, w, 4) for w in signals]
    assert not any(k.exact for k in known)
    ratios = np.array([k.best_error for k in known]) / exact
    assert ratios.min() >= 1 - 1e-9
    assert np.median(ratios) < 1.02


def test_atoms_in_other_units_span_the_same():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 12))
    units = 10.0 ** rng.integers(-7, 8, 12)
    plain, other = fgmp.Dictionary(atoms), fgmp.Dictionary(atoms * units)
    signal = atoms[:, [2, 3, 8]] @ [1.0, -2, 0.5] + 0.1 * rng.standard_normal(20)
    first, second = (approx_tau(dictionary, signal, 3) for dictionary in (plain, other))
    np.testing.assert_array_equal(first.support, second.support)
    assert second.error == pytest.approx(first.error) and second.eta == pytest.approx(first.eta)
    support = np.array([1, 4, 7, 9])
    forth, back = other.coordinates(support)
    np.testing.assert_allclose(back @ forth, np.eye(4), atol=1e-10)
    inside = other.atoms[:, support] @ forth
    np.testing.assert_allclose(inside.T @ inside, np.eye(4), atol=1e-10)
    model = SparseModel(np.arange(12), rng.standard_normal(12) / units, (12,))
    projected = other.project(model, support)
    expected = atoms[:, support] @ np.linalg.lstsq(atoms[:, support], atoms @ (model.values * units), rcond=None)[0]
    np.testing.assert_allclose(other.synthesise(projected.dense()), expected, atol=1e-9)
