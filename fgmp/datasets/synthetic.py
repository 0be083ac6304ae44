"""Synthetic federations: the paper's Gaussian model, of any signal too, and one with good condition numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from .._support.validation import (
    Seed,
    check_array,
    check_integer,
    check_number,
    check_seed,
    short_repr,
)
from ..federation import Federation
from ..sparse_model import Array


def make_sparse_regression(
    n_clients: int = 50,
    n_samples: int = 100,
    n_features: int = 1000,
    sparsity: int = 10,
    heterogeneity: float = 1.0,
    variance_decay: float = 1.1,
    noise_variance: float = 0.0,
    rng: Seed = None,
) -> Federation:
    """The paper's synthetic model of sparse linear regression on heterogeneous clients (Section V-A).

    Client i = 1..N observes y_i = A_i x# + e_i, where the entries of A_i are N(mu_i, 1/i^p) (mean and variance), its
    mean mu_i ~ N(0, alpha) is one scalar, x# has `sparsity` nonzero entries drawn from the unit sphere, and the
    entries of e_i are N(0, noise_variance). The federation has the squared loss, equal weights and ``truth`` = x#.

    Parameters
    ----------
    n_clients, n_samples, n_features, sparsity : int, default 50, 100, 1000 and 10
        N, the rows |D_i| of each client, n, and tau, from 1 to n_features.
    heterogeneity, variance_decay, noise_variance : float, default 1.0, 1.1 and 0.0
        alpha, at least 0; p; and the variance of the entries of e_i, at least 0.
    rng : int, Generator or None
        The seed. Each client has random numbers of its own: a federation of more clients begins with the same ones.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=3, n_samples=20, n_features=50, sparsity=4, rng=0)
    >>> federation.n_clients, federation.clients[0].features.shape, int((federation.truth != 0).sum())
    (3, (20, 50), 4)
    """
    seed = check_seed("rng", rng)
    truth = sparse_on_sphere(n_features, sparsity, seeded(seed, 0))
    rows = _gaussian_rows(n_clients, n_samples, n_features, heterogeneity, variance_decay, seed)
    table = np.empty((len(rows), *rows[0].shape))
    for A, own in zip(rows, table, strict=True):
        np.concatenate(list(A.blocks()), out=own)
    return _observed(table, truth, noise_variance, lambda i: seeded(seed, 3, i))


def make_sensing(
    signal: ArrayLike,
    n_clients: int = 50,
    n_samples: int = 30,
    heterogeneity: float = 0.5,
    variance_decay: float = 0.9,
    noise_variance: float = 0.0,
    rng: Seed = None,
) -> Federation:
    """Clients that sense one given signal through the random matrices of `make_sparse_regression` (paper, Figure 2).

    The matrices are streamed: each product generates them anew from the seed, a few rows at a time, so that 50 clients
    of 30 x 76,800 need megabytes instead of a gigabyte. Give the method a dictionary: it needs A_i Psi once.

    The signal x# of shape (n_features,), for example the pixels of a frame, is the ``truth``; the other parameters are
    those of `make_sparse_regression`, with the defaults of the paper's video experiment.
    """
    truth = check_array("signal", signal, ndim=1)
    if not truth.size:
        raise ValueError("signal is empty; expected at least one entry")
    seed = check_seed("rng", rng)
    rows = _gaussian_rows(n_clients, n_samples, len(truth), heterogeneity, variance_decay, seed)
    return _observed(rows, truth, noise_variance, lambda i: seeded(seed, 3, i))


def make_conditioned_regression(
    conditions: ArrayLike,
    n_samples: int = 60,
    n_features: int = 12,
    sparsity: int = 2,
    noise_variance: float = 0.0,
    rng: Seed = None,
) -> Federation:
    """Sparse linear regression with one client for each condition number in `conditions`.

    Client i observes y_i = A_i x# + e_i. Its Hessian A_i'A_i / |D_i| has the eigenvalues 1 to c_i in equal steps,
    along random directions, so that its restricted condition numbers are at most c_i.

    `conditions`, shape (N,), holds c_i, each at least 1; `n_samples` is at least `n_features`. The other parameters are
    those of `make_sparse_regression`, and so is what comes back.
    """
    chosen = check_array("conditions", conditions, ndim=1)
    if not chosen.size or chosen.min() < 1:
        raise ValueError(
            f"conditions is {short_repr(conditions)}; expected one number or more, each of at least 1"
        )
    n_features = check_integer("n_features", n_features)
    n_samples = check_integer("n_samples", n_samples, at_least=n_features, why="n_features")
    generator = np.random.default_rng(check_seed("rng", rng))
    truth = sparse_on_sphere(n_features, sparsity, generator)
    As = []
    for condition in chosen:
        columns = np.linalg.qr(generator.standard_normal((n_samples, n_features)))[0]
        directions = np.linalg.qr(generator.standard_normal((n_features, n_features)))[0]
        As += [
            np.sqrt(n_samples)
            * (columns * np.sqrt(np.linspace(1, condition, n_features)))
            @ directions.T
        ]
    return _observed(As, truth, noise_variance, lambda i: generator)


def _observed(
    As: Any, truth: Array, noise_variance: float, generator: Callable[[int], Any]
) -> Federation:
    """Clients that observe y_i = A_i x# + e_i, with noise from the generator of each."""
    noise = np.sqrt(check_number("noise_variance", noise_variance, at_least=0))
    ys = [A @ truth + noise * generator(i).standard_normal(A.shape[0]) for i, A in enumerate(As)]
    return Federation.from_arrays(As, ys, truth=truth)


def sparse_on_sphere(n_features: int, sparsity: int, rng: np.random.Generator) -> Array:
    """x#: `sparsity` random positions with values drawn uniformly from the unit sphere of R^sparsity."""
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    truth = np.zeros(n_features)
    values = rng.standard_normal(sparsity)
    truth[rng.choice(n_features, sparsity, replace=False)] = values / np.linalg.norm(values)
    return truth


class _GaussianRows(LinearOperator):  # type: ignore[misc]
    """A_i of the paper's model, with entries N(mean, scale^2): for each product drawn anew, eight rows at a time."""

    def __init__(
        self, shape: tuple[int, int], mean: float, scale: float, seed: int, key: int
    ) -> None:
        super().__init__(np.dtype(np.float64), shape)
        self.mean, self.scale, self.seed, self.key = mean, scale, seed, key

    def blocks(self) -> Iterator[Array]:
        generator, (n_rows, n_features) = seeded(self.seed, 2, self.key), self.shape
        for first in range(0, n_rows, 8):
            block = generator.standard_normal((min(8, n_rows - first), n_features))
            block *= self.scale
            block += self.mean
            yield block

    def _matmat(self, X: Array) -> Array:
        return np.vstack([block @ X for block in self.blocks()])

    def _rmatmat(self, X: Array) -> Array:
        return sum(
            (block.T @ X[8 * i : 8 * i + 8] for i, block in enumerate(self.blocks())), np.zeros(())
        )


def _gaussian_rows(
    n_clients: int,
    n_samples: int,
    n_features: int,
    heterogeneity: float,
    variance_decay: float,
    seed: int,
) -> list[_GaussianRows]:
    shape = check_integer("n_samples", n_samples), n_features
    spread = np.sqrt(check_number("heterogeneity", heterogeneity, at_least=0))
    decay, count = (
        check_number("variance_decay", variance_decay),
        check_integer("n_clients", n_clients),
    )
    means = [spread * seeded(seed, 1, i).standard_normal() for i in range(count)]
    return [
        _GaussianRows(shape, mean, (i + 1) ** (-decay / 2), seed, i) for i, mean in enumerate(means)
    ]


def seeded(seed: int, *key: int) -> np.random.Generator:
    """The random numbers of a seed for one purpose, which no other draw changes."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
