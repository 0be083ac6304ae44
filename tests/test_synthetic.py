"""The synthetic model of the paper: moments, seeds, and streamed matrices equal to stored ones."""

import pickle

import numpy as np
import pytest

import fgmp
from fgmp.datasets import make_conditioned_regression, make_sensing


def test_sparse_regression_has_moments_of_the_paper():
    """Variances and means of the clients; the truth is sparse, of norm one."""
    fed = fgmp.make_sparse_regression(8, 400, 500, 10, heterogeneity=2.0, variance_decay=1.1, rng=0)
    assert np.count_nonzero(fed.truth) == 10
    assert np.linalg.norm(fed.truth) == pytest.approx(1)
    for i, client in enumerate(fed.clients, start=1):
        np.testing.assert_allclose(client.features @ fed.truth, client.targets, atol=1e-12)
        assert client.features.var() == pytest.approx(i**-1.1, rel=0.02)
    means = [
        c.features.mean()
        for s in range(60)
        for c in fgmp.make_sparse_regression(4, 5, 300, 2, 2.0, 1.1, rng=s).clients
    ]
    assert np.var(means) == pytest.approx(2.0, rel=0.3)
    assert abs(np.mean(means)) < 0.4


def test_noise_has_its_variance_and_is_independent():
    """No two clients have the same noise."""
    sensed = make_sensing(np.ones(5), 3, 20_000, noise_variance=0.005, rng=0)
    other = make_conditioned_regression([1.5] * 3, 20_000, 5, 2, noise_variance=0.005, rng=0)
    for fed in (
        fgmp.make_sparse_regression(3, 20_000, 5, 2, noise_variance=0.005, rng=0),
        sensed,
        other,
    ):
        noise = np.array([client.targets - client.features @ fed.truth for client in fed.clients])
        # No two clients have the same noise.
        np.testing.assert_allclose(np.cov(noise), 0.005 * np.eye(3), atol=0.0003)


def test_noise_is_added_to_the_same_matrices():
    """It is that of data which were made with noise, by client id, and the features are shared."""
    size = {"n_clients": 3, "n_samples": 20, "n_features": 50, "sparsity": 4, "rng": 3}
    clean = fgmp.make_sparse_regression(**size)
    made = fgmp.make_sparse_regression(noise_variance=0.3, **size)
    noisy = fgmp.datasets.add_noise(clean, 0.3, rng=3)
    assert noisy.features is clean.features
    np.testing.assert_array_equal(noisy.targets, made.targets)
    np.testing.assert_array_equal(noisy.truth, clean.truth)
    last = fgmp.datasets.add_noise(clean.subset([2]), 0.3, rng=3)
    np.testing.assert_array_equal(last.targets, made.clients[2].targets)


def test_noise_is_for_numbers():
    """Classes are refused, and a variance below zero."""
    rng = np.random.default_rng(0)
    classes = fgmp.Federation.from_arrays(
        [rng.standard_normal((6, 2))], [[-1, 1, -1, 1, -1, 1]], fgmp.LogisticLoss()
    )
    with pytest.raises(ValueError, match="the loss LogisticLoss.*expected the squared loss"):
        fgmp.datasets.add_noise(classes, 0.1, rng=0)
    numbers = fgmp.make_sparse_regression(2, 5, 20, 2, rng=0)
    with pytest.raises(ValueError, match="noise_variance is -1"):
        fgmp.datasets.add_noise(numbers, -1, rng=0)


def test_more_clients_begin_with_the_same_ones():
    """A seed gives the same data for the first clients."""
    small = fgmp.make_sparse_regression(2, 5, 20, 2, rng=3)
    large = fgmp.make_sparse_regression(4, 5, 20, 2, rng=3)
    np.testing.assert_array_equal(small.truth, large.truth)
    for first, second in zip(small.clients, large.clients, strict=False):
        np.testing.assert_array_equal(first.features, second.features)
        np.testing.assert_array_equal(first.targets, second.targets)
    assert not np.array_equal(fgmp.make_sparse_regression(2, 5, 20, 2, rng=4).truth, small.truth)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_single_precision_rounds_the_same_numbers(dtype):
    """Targets are those of the rounded features, so that without noise the truth still fits."""
    sizes = dict(n_clients=3, n_samples=20, n_features=50, sparsity=4, rng=3)
    double = fgmp.make_sparse_regression(**sizes)
    single = fgmp.make_sparse_regression(**sizes, dtype=dtype)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(single.features, double.features.astype(np.float32))
    np.testing.assert_array_equal(single.truth, double.truth)
    in_double = single.features.astype(np.float64) @ single.truth
    np.testing.assert_array_equal(single.targets, in_double.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "int64", "precise", 3])
def test_other_precisions_are_refused(dtype):
    """The error names the argument and what may stand there."""
    with pytest.raises(ValueError, match=r"dtype is .*; expected .*float32"):
        fgmp.make_sparse_regression(2, 5, 20, 2, dtype=dtype)


def test_streamed_matrix_is_the_same_in_every_product():
    """It equals the matrix of its blocks."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(50)
    fed = make_sensing(signal, n_clients=3, n_samples=20, rng=1)
    for client in fed.clients:
        stored = np.concatenate(list(client.features.blocks()))
        X = rng.standard_normal((50, 4))
        Y = rng.standard_normal((20, 3))
        np.testing.assert_allclose(client.features @ X, stored @ X)
        np.testing.assert_allclose(client.features.T @ Y, stored.T @ Y)
        np.testing.assert_allclose(client.targets, stored @ signal)


def test_clients_with_a_dictionary_draw_their_matrices_once(monkeypatch):
    """Targets and A Psi are those of clients without one; other products draw the rows anew."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(50)
    dictionary = fgmp.Dictionary(rng.standard_normal((50, 8)))
    plain = make_sensing(signal, n_clients=3, n_samples=70, noise_variance=0.1, rng=1)
    fed = make_sensing(
        signal, n_clients=3, n_samples=70, noise_variance=0.1, rng=1, dictionary=dictionary
    )
    np.testing.assert_array_equal(fed.targets, plain.targets)
    products = dictionary.products(plain.features)
    X = rng.standard_normal((50, 4))
    expected = [client.features @ X for client in plain.clients]

    for client, product in zip(fed.clients, expected, strict=True):
        np.testing.assert_array_equal(client.features @ X, product)
    monkeypatch.setattr(type(fed.clients[0].features), "blocks", None)
    dictionary.products(fed.features)[:] = 0  # a product is the caller's own
    np.testing.assert_array_equal(dictionary.products(fed.features), products)
    elsewhere = pickle.loads(pickle.dumps(fed))
    np.testing.assert_array_equal(dictionary.products(elsewhere.features), products)
    with pytest.raises(TypeError):
        fed.clients[0].features @ X


def test_conditioned_regression_has_its_spectra():
    """Each client has directions of its own."""
    conditions = [1.0, 1.06, 30.0, 30.0]
    fed = make_conditioned_regression(conditions, n_samples=25, n_features=9, sparsity=3, rng=1)
    hessians = [client.features.T @ client.features / 25 for client in fed.clients]
    for hessian, condition in zip(hessians, conditions, strict=True):
        np.testing.assert_allclose(
            np.linalg.eigvalsh(hessian), np.linspace(1, condition, 9), rtol=1e-12
        )
    assert np.abs(hessians[2] - hessians[3]).max() > 1
    assert np.count_nonzero(fed.truth) == 3
    assert np.linalg.norm(fed.truth) == pytest.approx(1)
