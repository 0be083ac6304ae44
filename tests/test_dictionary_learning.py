"""K-SVD: the training error never grows, and each iteration is the textbook's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp

from fgmp.datasets import dictionary_learning
from fgmp.datasets.dictionary_learning import fit_ksvd, ksvd


def check_fit(frames, fit, n_atoms, sparsity):
    """Check what holds for every fit: unit atoms, sparse codes, true errors that never grow."""
    atoms = fit.dictionary.atoms
    assert atoms.shape == (np.size(frames[0]), n_atoms)
    assert fit.codes.shape == (n_atoms, len(frames))
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, rtol=1e-12)
    assert np.abs(np.triu(atoms.T @ atoms, 1)).max(initial=0) <= 1 - 1e-10
    assert np.count_nonzero(fit.codes, axis=0).max() <= sparsity
    assert np.all(np.diff(fit.errors) <= 1e-12)
    frames = np.reshape(frames, (len(frames), -1))
    left = np.linalg.norm(frames.T - atoms @ fit.codes) / np.linalg.norm(frames)
    assert fit.errors[-1] == pytest.approx(left, abs=1e-12)


def planted(n_frames, n_features, n_atoms, sparsity, seed):
    """Return frames that are combinations of `sparsity` of some random atoms, and the atoms."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_features, n_atoms))
    atoms /= np.linalg.norm(atoms, axis=0)
    codes = np.zeros((n_atoms, n_frames))
    for column in codes.T:
        size = rng.choice([-1, 1], sparsity), rng.uniform(1, 2, sparsity)
        column[rng.choice(n_atoms, sparsity, replace=False)] = np.prod(size, axis=0)
    return (atoms @ codes).T, atoms


@settings(max_examples=30)
@given(st.integers(4, 25), st.integers(3, 30), st.integers(2, 12), st.integers(0, 2**32), st.data())
def test_ksvd_of_repeated_and_zero_frames_is_sound(n_frames, n_features, rank, seed, data):
    """Codes of zero frames are zero, and the error never grows."""
    rng = np.random.default_rng(seed)
    n_atoms = data.draw(st.integers(1, n_frames))
    frames = rng.standard_normal((n_frames, rank)) @ rng.standard_normal((rank, n_features))
    frames = np.concatenate([frames, -2 * frames[:3], np.zeros((2, n_features))])
    sparsity = data.draw(st.integers(1, min(n_atoms, 5)))
    fit = fit_ksvd(frames, n_atoms, sparsity, iterations=5, rng=seed)
    check_fit(frames, fit, n_atoms, sparsity)
    assert not fit.codes[:, -2:].any()


def plain_iteration(signals, atoms, codes, sparsity):
    """Do an iteration of K-SVD with a singular value decomposition for each atom."""
    atoms = atoms.copy()
    codes = codes.copy()
    for j in range(atoms.shape[1]):
        users = np.flatnonzero(codes[j])
        codes[j] = 0
        left, sizes, right = np.linalg.svd(signals[:, users] - atoms @ codes[:, users])
        sign = 1 if left[:, 0] @ atoms[:, j] >= 0 else -1
        atoms[:, j] = sign * left[:, 0]
        codes[j, users] = sign * sizes[0] * right[0]
    new = np.column_stack(
        [orthogonal_mp(atoms, signal, n_nonzero_coefs=sparsity) for signal in signals.T]
    )
    old_errors = np.linalg.norm(signals - atoms @ codes, axis=0)
    new_errors = np.linalg.norm(signals - atoms @ new, axis=0)
    return atoms, np.where(new_errors < old_errors, new, codes)


@pytest.mark.parametrize("shape", [(300, 16, 24, 4), (200, 40, 20, 3), (60, 150, 12, 3)])
def test_ksvd_iteration_is_that_of_the_textbook(shape):
    """For frames of norm one; with more users than entries, fewer, and fewer frames."""
    n_frames, n_features, n_atoms, sparsity = shape
    frames, _ = planted(n_frames, n_features, n_atoms, sparsity, seed=3)
    frames /= np.linalg.norm(frames, axis=1)[:, None]
    for iteration in range(3):
        before, after = (
            fit_ksvd(frames, n_atoms, sparsity, iterations=iteration + i, rng=0) for i in range(2)
        )
        # No atom is to be replaced.
        assert before.codes.any(axis=1).all()
        assert after.codes.any(axis=1).all()
        atoms, codes = plain_iteration(frames.T, before.dictionary.atoms, before.codes, sparsity)
        np.testing.assert_allclose(after.dictionary.atoms, atoms, atol=1e-9)
        np.testing.assert_allclose(after.codes, codes, atol=1e-9)


# The first atom is frame 0, frame 1 can use either of the others, and nothing uses the last one.
LAST_IDLE = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, -1, 0, 0]]).T / np.sqrt([1, 2, 2])


def test_unused_atom_is_replaced_by_the_worst_frame(monkeypatch):
    """The error is that by hand."""
    monkeypatch.setattr(dictionary_learning, "_first_atoms", lambda *_: LAST_IDLE.copy())
    frames = np.diag([5.0, 4.0, 3.0, 2.0])
    fit = fit_ksvd(frames, 3, 1, iterations=1)
    check_fit(frames, fit, 3, 1)
    np.testing.assert_allclose(np.abs(fit.dictionary.atoms), np.eye(4)[:, :3], atol=1e-15)
    np.testing.assert_allclose(fit.errors[1], 2 / np.sqrt(54))


def test_images_of_integers_are_frames():
    """Read-only arrays, float32 and lists give the same atoms."""
    frames = np.random.default_rng(0).integers(0, 256, (15, 4, 5))
    frames.flags.writeable = False
    expected = ksvd(frames.reshape(15, 20).astype(float), 8, 2, rng=0).atoms
    for same in (frames, np.asfortranarray(frames.astype(np.float32)), frames.tolist()):
        np.testing.assert_array_equal(ksvd(same, 8, 2, rng=0).atoms, expected)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_atoms=st.integers(2, 8),
    sparsity=st.integers(1, 2),
    unit=st.sampled_from([1e-9, 1e-3, 37.0, 1e8]),
)
def test_units_of_frames_do_not_change_ksvd(seed, n_atoms, sparsity, unit):
    """The atoms and the relative errors stay."""
    rng = np.random.default_rng(seed)
    frames = rng.standard_normal((20, 3)) @ rng.standard_normal(
        (3, 12)
    ) + 0.3 * rng.standard_normal((20, 12))
    fit = fit_ksvd(1 * frames, n_atoms, sparsity, iterations=5, rng=0)
    other = fit_ksvd(unit * frames, n_atoms, sparsity, iterations=5, rng=0)
    np.testing.assert_allclose(other.dictionary.atoms, fit.dictionary.atoms, atol=1e-6)
    np.testing.assert_allclose(other.errors, fit.errors, atol=1e-9)
