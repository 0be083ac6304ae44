"""Clients with chosen condition numbers: their spectra, their noise, their seeds."""

import numpy as np
import pytest

from fgmp.datasets import make_conditioned_regression


def test_the_hessians_have_the_spectra_that_were_asked_for():
    conditions = [1.0, 1.06, 30.0]
    federation = make_conditioned_regression(conditions, n_samples=25, n_features=9, sparsity=3, rng=1)
    for client, condition in zip(federation.clients, conditions, strict=True):
        spectrum = np.linalg.eigvalsh(client.features.T @ client.features / 25)
        np.testing.assert_allclose(spectrum, np.linspace(1, condition, 9), rtol=1e-12)
    assert np.count_nonzero(federation.truth) == 3
    assert np.linalg.norm(federation.truth) == pytest.approx(1)
    np.testing.assert_allclose(federation.weights, 1 / 3)


def test_directions_differ_between_clients_and_seeds():
    first, second = make_conditioned_regression([5.0, 5.0], rng=0), make_conditioned_regression([5.0, 5.0], rng=1)
    hessians = [c.features.T @ c.features for f in (first, second) for c in f.clients]
    assert all(np.abs(a - b).max() > 1 for i, a in enumerate(hessians) for b in hessians[:i])
    again = make_conditioned_regression([5.0, 5.0], rng=0)
    np.testing.assert_array_equal(first.clients[1].features, again.clients[1].features)


def test_noise_has_the_variance_that_was_asked_for():
    quiet = make_conditioned_regression([1.5] * 4, rng=2)
    for client in quiet.clients:
        np.testing.assert_array_equal(client.targets, client.features @ quiet.truth)
    noisy = make_conditioned_regression([1.5] * 4, n_samples=5000, noise_variance=0.09, rng=2)
    noise = np.concatenate([c.targets - c.features @ noisy.truth for c in noisy.clients])
    # Of 20,000 squares the mean is off by 0.01 times its value (one standard deviation).
    assert np.mean(noise**2) == pytest.approx(0.09, rel=0.05)
    assert abs(np.corrcoef(noise[:5000], noise[5000:10000])[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(conditions=[]), r"conditions is \[\]; expected one number or more"),
        (dict(conditions=[1.0, 0.99]), "each from 1 to"),
        (dict(conditions=2.0), "conditions has shape"),
        (dict(conditions=[2.0], n_samples=11), "n_samples is 11; expected an integer of at least 12"),
        (dict(conditions=[2.0], sparsity=13), "sparsity is 13"),
        (dict(conditions=[2.0], noise_variance=-1.0), "noise_variance is -1.0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_conditioned_regression(**arguments)
