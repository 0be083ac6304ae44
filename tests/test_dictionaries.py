"""Dictionaries: coefficient space against plain linear algebra on signals; approx_tau against brute force."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fgmp
from fgmp.approximation import _exchange_atoms, approx_tau
from fgmp.dictionaries import StandardBasis
from fgmp.models import SparseModel


def random_model(n_atoms, k, rng):
    return SparseModel(np.sort(rng.choice(n_atoms, k, replace=False)), rng.standard_normal(k), (n_atoms,))


@given(st.integers(0, 10_000), st.sampled_from([(12, 6), (6, 10)]))
def test_operations_on_coefficients_are_those_on_signals(seed, shape):
    rng = np.random.default_rng(seed)
    D = fgmp.Dictionary(rng.standard_normal(shape))
    model = random_model(shape[1], 4, rng)
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


def test_orthonormal_dictionaries_select_exactly():
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    D, w = fgmp.Dictionary(Q), rng.standard_normal(9)
    assert D.orthonormal
    found = approx_tau(D, w, 3)
    errors = [np.linalg.norm(w - Q[:, s] @ (Q[:, s].T @ w)) for s in map(list, combinations(range(9), 3))]
    assert found.error == pytest.approx(min(errors))
    assert found.exact and found.eta == pytest.approx(1)


@pytest.mark.parametrize("approximation", ["omp", "thresholding"])
def test_eta_is_measured_against_brute_force(approximation):
    rng = np.random.default_rng(2)
    for _ in range(20):
        D, w = fgmp.Dictionary(rng.standard_normal((8, 12)), approximation), rng.standard_normal(8)
        found = approx_tau(D, w, 3)
        errors = []
        for s in map(list, combinations(range(12), 3)):
            errors.append(np.linalg.norm(w - D.atoms[:, s] @ np.linalg.lstsq(D.atoms[:, s], w, rcond=None)[0]))
        assert found.exact
        assert found.best_error == pytest.approx(min(errors))
        assert found.eta == pytest.approx(found.error / min(errors)) and found.eta >= 1 - 1e-12


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


def test_approximation_in_the_standard_basis():
    found = approx_tau(StandardBasis(), np.array([3.0, -5, 1, 5]), 2)
    np.testing.assert_array_equal(found.support, [1, 3])
    assert found.error == pytest.approx(np.sqrt(10)) and found.eta == 1


def test_scaling_atoms_changes_no_selection():
    rng = np.random.default_rng(4)
    atoms, w = rng.standard_normal((10, 20)), rng.standard_normal(10)
    scaled = atoms * rng.uniform(0.1, 10, 20)
    for approximation in ("omp", "thresholding"):
        first, second = (approx_tau(fgmp.Dictionary(a, approximation), w, 4) for a in (atoms, scaled))
        np.testing.assert_array_equal(first.support, second.support)


def test_a_zero_signal_needs_no_atoms():
    D = fgmp.Dictionary(np.random.default_rng(0).standard_normal((5, 7)))
    assert approx_tau(D, np.zeros(5), 2).error == 0


def test_gaussian_dictionary_has_nearly_unit_atoms_and_repeats():
    D = fgmp.gaussian_dictionary(2000, 10, rng=3)
    np.testing.assert_allclose(D.norms, 1, atol=0.1)
    np.testing.assert_array_equal(D.atoms, fgmp.gaussian_dictionary(2000, 10, rng=3).atoms)


def test_a_dictionary_travels_to_another_process():
    dictionary = fgmp.gaussian_dictionary(6, 9, rng=0)
    copied = pickle.loads(pickle.dumps(dictionary))
    np.testing.assert_array_equal(copied.atoms, dictionary.atoms)


def exchanged_one_by_one(atoms, signal, support):
    """Exchange the pair of atoms that lowers the distance most, for as long as one does; by least squares."""

    def distance(chosen):
        return np.linalg.norm(signal - atoms[:, chosen] @ np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0])

    current = sorted(support)
    while True:
        rests = [[atom for atom in current if atom != old] for old in current]
        trials = [sorted([*rest, new]) for rest in rests for new in range(atoms.shape[1]) if new not in current]
        best = min(trials, key=distance, default=current)
        if distance(best) >= distance(current) * (1 - 1e-9):
            return current
        current = best


@given(st.integers(0, 10_000), st.sampled_from([(8, 20, 3), (12, 18, 5), (7, 9, 4), (5, 4, 4)]))
def test_exchanges_are_the_best_ones(seed, shape):
    n_features, n_atoms, sparsity = shape
    rng = np.random.default_rng(seed)
    D, w = (
        fgmp.Dictionary(rng.standard_normal(shape[:2]) * rng.uniform(0.1, 10, n_atoms)),
        rng.standard_normal(shape[0]),
    )
    start = rng.choice(n_atoms, sparsity, replace=False)
    found = _exchange_atoms(D, D.normalised(D.atoms.T @ w), start)
    assert found == exchanged_one_by_one(D.atoms, w, start)


def test_dependent_atoms_are_not_exchanged():
    atoms = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    D = fgmp.Dictionary(atoms)
    assert _exchange_atoms(D, D.normalised(atoms.T @ np.ones(3)), np.array([0, 1, 2])) == [0, 1, 2]
    assert _exchange_atoms(D, D.normalised(atoms.T @ [0.0, 5.0, 3.0]), np.array([0, 3])) == [1, 3]


def test_one_atom_of_many_is_the_best_one():
    rng = np.random.default_rng(5)
    D, w = fgmp.Dictionary(rng.standard_normal((9, 40)), "thresholding"), rng.standard_normal(9)
    found = approx_tau(D, w, 1)
    errors = [np.linalg.norm(w - a * (a @ w) / (a @ a)) for a in D.atoms.T]
    assert found.exact and found.eta == 1
    assert found.error == pytest.approx(min(errors)) and found.support.tolist() == [np.argmin(errors)]


def test_approx_tau_finds_small_signals_and_never_beats_the_best():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        dictionary = fgmp.Dictionary(rng.standard_normal((10, 14)))
        atoms = rng.choice(14, 3, replace=False)
        signal = dictionary.atoms[:, atoms] @ rng.standard_normal(3)
        found = approx_tau(dictionary, signal, 3)
        small = approx_tau(dictionary, 1e-9 * signal, 3)
        np.testing.assert_array_equal(found.support, small.support)
        assert found.eta >= 1 and small.eta >= 1 and found.best_error <= found.error
        if set(found.support) == set(atoms):
            assert found.eta == 1


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


OMP = fgmp.Dictionary(np.random.default_rng(7).standard_normal((6, 9)))


@pytest.mark.parametrize(("dtype", "scales"), [(np.float64, (1e-150, 1e-8, 1e150)), (np.float32, (1e-12, 1e-4, 1e12))])
def test_a_run_with_omp_does_not_depend_on_the_unit_of_the_targets(dtype, scales):
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((30, 6)).astype(dtype) for _ in range(3)]
    truth = OMP.atoms[:, [1, 5]] @ [1.0, -2.0]
    ends = []
    for scale in (1.0, *scales):
        ys = [(scale * (A @ truth)).astype(dtype) for A in As]
        method = fgmp.FedGradMP(2, dictionary=OMP)
        ends.append(fgmp.simulate(method, fgmp.Federation.from_arrays(As, ys), 3, rng=0).x / scale)
    for end in ends:
        np.testing.assert_allclose(end, truth, rtol=1e3 * np.finfo(dtype).eps, atol=1e3 * np.finfo(dtype).eps)
