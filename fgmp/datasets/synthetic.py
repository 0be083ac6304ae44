"""Synthetic federations: the paper's Gaussian model, stored or streamed, and conditioned ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.sparse.linalg import LinearOperator

from .._support.validation import (
    Seed,
    check_array,
    check_integer,
    check_kind,
    check_number,
    check_seed,
    short_repr,
)
from ..data import Federation, check_federation
from ..dictionaries import Dictionary
from ..losses import SquaredLoss
from ..sparse_model import Array

# Rows of a streamed matrix that are drawn at a time: 20 MB for the frames of the paper. With fewer,
# Psi is read from memory so often that this takes as long as the random numbers.
_BLOCK_ROWS = 32

_PRECISIONS = {name: np.dtype(name) for name in ("float32", "float64")}

# The purposes of random numbers: each has its own stream of the seed.
_TRUTH, _MEANS, _MATRICES, _NOISE = range(4)


def make_sparse_regression(
    n_clients: int = 50,
    n_samples: int = 100,
    n_features: int = 1000,
    sparsity: int = 10,
    heterogeneity: float = 1.0,
    variance_decay: float = 1.1,
    noise_variance: float = 0.0,
    rng: Seed = None,
    dtype: DTypeLike = "float64",
) -> Federation:
    """Make the paper's synthetic sparse linear regression on heterogeneous clients (Section V-A).

    Client i = 1..N observes y_i = A_i x# + e_i. The entries of A_i are N(mu_i, 1/i^p) (mean and
    variance), and its mean mu_i ~ N(0, alpha) is one scalar. x# has `sparsity` nonzero entries
    drawn from the unit sphere, and the entries of e_i are N(0, noise_variance). The federation has
    the squared loss, equal weights and ``truth`` = x#.

    Parameters
    ----------
    n_clients : int, default 50
        N.
    n_samples : int, default 100
        The rows |D_i| of each client.
    n_features : int, default 1000
        n.
    sparsity : int, default 10
        tau, from 1 to n_features.
    heterogeneity : float, default 1.0
        alpha, at least 0.
    variance_decay : float, default 1.1
        p.
    noise_variance : float, default 0.0
        The variance of the entries of e_i, at least 0.
    rng : int, Generator or None
        The seed. Each client has its own random numbers: a federation of more clients begins with
        the same ones.
    dtype : {"float64", "float32"}
        The precision of the features and the targets, and so of runs on them. float32 has the
        features of float64, rounded, and takes half the memory; steps that read all of them take
        about half the time.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(
    ...     n_clients=3, n_samples=20, n_features=50, sparsity=4, rng=0
    ... )
    >>> federation.n_clients, federation.clients[0].features.shape
    (3, (20, 50))
    >>> int((federation.truth != 0).sum())
    4
    """
    seed = check_seed("rng", rng)
    truth = sparse_on_sphere(n_features, sparsity, seeded(seed, _TRUTH))
    matrices = _streamed_matrices(
        n_clients, n_samples, n_features, heterogeneity, variance_decay, seed
    )
    precision = _check_precision(dtype)
    table = np.empty((len(matrices), *matrices[0].shape), precision)
    for matrix, client_table in zip(matrices, table, strict=True):
        drawn = np.empty(client_table.shape)
        matrix.draw(seeded(seed, _MATRICES, matrix.client_id), drawn)
        client_table[:] = drawn
    return _observe(table, truth, noise_variance, lambda i: seeded(seed, _NOISE, i))


def _check_precision(dtype: DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64 by any of its names, or raise a ValueError."""
    try:
        return _PRECISIONS[np.dtype(dtype).name]
    except (TypeError, KeyError):
        raise ValueError(
            f"dtype is {short_repr(dtype)}; expected {' or '.join(_PRECISIONS)}"
        ) from None


def make_sensing(
    signal: ArrayLike,
    n_clients: int = 50,
    n_samples: int = 30,
    heterogeneity: float = 0.5,
    variance_decay: float = 0.9,
    noise_variance: float = 0.0,
    rng: Seed = None,
    dictionary: Dictionary | None = None,
) -> Federation:
    """Make clients that sense one signal through random matrices (paper, Figure 2).

    The matrices are those of `make_sparse_regression`, but streamed: each product generates them
    anew from the seed, a few rows at a time, so that 50 clients of 30 x 76,800 need megabytes
    instead of a gigabyte. Give the method a dictionary, because a run needs A_i Psi once only.

    Parameters
    ----------
    signal : array_like, shape (n_features,)
        x#, for example the pixels of a frame; the federation has it as ``truth``.
    n_clients, n_samples, heterogeneity, variance_decay, noise_variance, rng
        As in `make_sparse_regression`, with the defaults of the paper's video experiment.
    dictionary : Dictionary, optional
        Psi, if several runs share it: a client computes A_i Psi when it computes y_i, and keeps it,
        so that no run in this dictionary generates the matrices again.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> fed = fgmp.datasets.make_sensing(np.eye(64)[7], n_clients=3, n_samples=20, rng=0)
    >>> method = fgmp.FedGradMP(sparsity=1, dictionary=fgmp.Dictionary(np.eye(64)))
    >>> fgmp.simulate(method, fed, rounds=5, rng=0).support.tolist()
    [7]
    """
    truth = check_array("signal", signal, ndim=1)
    if not truth.size:
        raise ValueError("signal is empty; expected at least one entry")
    seed = check_seed("rng", rng)
    matrices = _streamed_matrices(
        n_clients, n_samples, len(truth), heterogeneity, variance_decay, seed
    )
    if dictionary is not None:
        check_kind("dictionary", dictionary, Dictionary, "a Dictionary")
        dictionary.n_atoms(len(truth))
        for matrix in matrices:
            matrix.keep_products(truth, dictionary.atoms)
    return _observe(matrices, truth, noise_variance, lambda i: seeded(seed, _NOISE, i))


def make_conditioned_regression(
    conditions: ArrayLike,
    n_samples: int = 60,
    n_features: int = 12,
    sparsity: int = 2,
    noise_variance: float = 0.0,
    rng: Seed = None,
) -> Federation:
    """Make sparse linear regression with one client for each condition number.

    Client i observes y_i = A_i x# + e_i. Its Hessian A_i'A_i / |D_i| has the eigenvalues 1 to c_i
    in equal steps, along random directions, so that its restricted condition numbers are at most
    c_i.

    Parameters
    ----------
    conditions : array_like, shape (n_clients,)
        c_i, each at least 1.
    n_samples : int, default 60
        At least `n_features`.
    n_features, sparsity, noise_variance, rng
        As in `make_sparse_regression`, and so is the federation that is returned.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> fed = fgmp.datasets.make_conditioned_regression([1.0, 1.5], rng=0)
    >>> A = fed.clients[1].features
    >>> np.linalg.eigvalsh(A.T @ A / len(A))[[0, -1]].round(6).tolist()
    [1.0, 1.5]
    """
    condition_numbers = check_array("conditions", conditions, ndim=1)
    if not condition_numbers.size or condition_numbers.min() < 1:
        raise ValueError(
            f"conditions is {short_repr(conditions)}; expected one number or more, each of at "
            "least 1"
        )
    n_features = check_integer("n_features", n_features)
    n_samples = check_integer("n_samples", n_samples, at_least=n_features, why="n_features")
    generator = np.random.default_rng(check_seed("rng", rng))
    truth = sparse_on_sphere(n_features, sparsity, generator)
    matrices = [
        _conditioned_matrix(n_samples, n_features, condition, generator)
        for condition in condition_numbers
    ]
    return _observe(matrices, truth, noise_variance, lambda i: generator)


def _conditioned_matrix(
    n_samples: int, n_features: int, condition: float, generator: np.random.Generator
) -> Array:
    """Return A with the eigenvalues of A'A / n_samples from 1 to `condition` in equal steps."""
    columns = np.linalg.qr(generator.standard_normal((n_samples, n_features)))[0]
    directions = np.linalg.qr(generator.standard_normal((n_features, n_features)))[0]
    eigenvalues = np.linspace(1, condition, n_features)
    return np.sqrt(n_samples) * (columns * np.sqrt(eigenvalues)) @ directions.T


def _observe(
    matrices: Any,
    truth: Array,
    noise_variance: float,
    noise_generator: Callable[[int], np.random.Generator],
) -> Federation:
    """Return the clients that observe y_i = A_i x# + e_i.

    Parameters
    ----------
    matrices : ndarray, or sequence of ndarray or LinearOperator
        The A_i; one array of all is not copied.
    truth : ndarray
        x#.
    noise_variance : float
        The variance of the entries of e_i.
    noise_generator : int -> Generator
        Returns the random numbers of e_i.
    """
    deviation = np.sqrt(check_number("noise_variance", noise_variance, at_least=0))
    targets = []
    for i, A in enumerate(matrices):
        y = A @ truth
        if deviation > 0:  # else a third of the time for small clients goes into generators
            y += deviation * noise_generator(i).standard_normal(len(y))
        targets.append(y)
    return Federation.from_arrays(matrices, targets, truth=truth)


def add_noise(federation: Federation, noise_variance: float, rng: Seed = None) -> Federation:
    """Return the federation whose clients observe y_i + e_i, with noise e_i ~ N(0, noise_variance).

    The features are shared with the given federation, so that runs with and without noise need the
    matrices once. With the same seed the noise is that of `make_sparse_regression`.

    Parameters
    ----------
    federation : Federation
        With the squared loss.
    noise_variance : float
        The variance of the entries of e_i, at least 0.
    rng : int, Generator or None
        The seed. Each client has its own random numbers, by its client id.

    Examples
    --------
    >>> import fgmp
    >>> size = {"n_clients": 3, "n_samples": 20, "n_features": 50, "sparsity": 4, "rng": 0}
    >>> clean = fgmp.make_sparse_regression(**size)
    >>> noisy = fgmp.datasets.add_noise(clean, noise_variance=0.01, rng=0)
    >>> same = fgmp.make_sparse_regression(noise_variance=0.01, **size)
    >>> bool((noisy.targets == same.targets).all()), noisy.features is clean.features
    (True, True)
    """
    if not isinstance(check_federation("federation", federation).loss, SquaredLoss):
        raise ValueError(f"federation has the loss {federation.loss}; expected the squared loss")
    seed = check_seed("rng", rng)
    deviation = np.sqrt(check_number("noise_variance", noise_variance, at_least=0))
    noise = [
        seeded(seed, _NOISE, client_id).standard_normal(n_rows)
        for client_id, n_rows in zip(
            federation.client_ids.tolist(), federation.n_rows.tolist(), strict=True
        )
    ]
    targets = federation.targets + deviation * np.concatenate(noise)
    return replace(federation, targets=targets.astype(federation.targets.dtype, copy=False))


def sparse_on_sphere(n_features: int, sparsity: int, rng: np.random.Generator) -> Array:
    """Return a random sparse vector x# of norm 1.

    Its `sparsity` nonzero entries are at random positions, and their values are uniform on the unit
    sphere of R^sparsity.
    """
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    truth = np.zeros(n_features)
    values = rng.standard_normal(sparsity)
    support = rng.choice(n_features, sparsity, replace=False)
    truth[support] = values / np.linalg.norm(values)
    return truth


class _StreamedMatrix(LinearOperator):  # type: ignore[misc]
    """A_i of the paper's model, with entries N(mean, scale^2), drawn anew for each product."""

    def __init__(
        self, shape: tuple[int, int], mean: float, scale: float, seed: int, client_id: int
    ) -> None:
        super().__init__(np.dtype(np.float64), shape)
        self.mean = mean
        self.scale = scale
        self.seed = seed
        self.client_id = client_id
        self.kept: list[tuple[Array, Array]] = []

    def keep_products(self, *factors: Array) -> None:
        """Compute the products with some arrays in one pass, and return them when asked again."""
        parts = [[block @ factor for factor in factors] for block in self.blocks()]
        products = [np.concatenate(several) for several in zip(*parts, strict=True)]
        self.kept = list(zip(factors, products, strict=True))

    def blocks(self) -> Iterator[Array]:
        """Yield the rows, a few at a time."""
        generator = seeded(self.seed, _MATRICES, self.client_id)
        n_rows, n_features = self.shape
        for first in range(0, n_rows, _BLOCK_ROWS):
            block = np.empty((min(_BLOCK_ROWS, n_rows - first), n_features))
            self.draw(generator, block)
            yield block

    def draw(self, generator: np.random.Generator, rows: Array) -> None:
        """Fill `rows` with the next rows of the matrix."""
        generator.standard_normal(out=rows)
        rows *= self.scale
        rows += self.mean

    def _product(self, factor: Array) -> Array:
        for known, product in self.kept:
            # Atoms may come as a copy, in another precision or from another process.
            if factor is known or np.array_equal(factor, known):
                return product.copy()
        return np.concatenate([block @ factor for block in self.blocks()])

    _matvec = _matmat = _product

    def _rmatmat(self, X: Array) -> Array:
        product = np.zeros(())
        first = 0
        for block in self.blocks():
            product = product + block.T @ X[first : first + len(block)]
            first += len(block)
        return product


def _streamed_matrices(
    n_clients: int,
    n_samples: int,
    n_features: int,
    heterogeneity: float,
    variance_decay: float,
    seed: int,
) -> list[_StreamedMatrix]:
    """Return the matrices A_i of the paper's model; for the parameters see the public functions."""
    shape = (check_integer("n_samples", n_samples), n_features)
    deviation = np.sqrt(check_number("heterogeneity", heterogeneity, at_least=0))
    decay = check_number("variance_decay", variance_decay)
    matrices = []
    for i in range(check_integer("n_clients", n_clients)):
        mean = deviation * seeded(seed, _MEANS, i).standard_normal()
        scale = (i + 1) ** (-decay / 2)
        matrices.append(_StreamedMatrix(shape, mean, scale, seed, i))
    return matrices


def seeded(seed: int, *key: int) -> np.random.Generator:
    """Return the random numbers of a seed for one purpose, which no other draw changes."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def gaussian_dictionary(
    n_features: int, n_atoms: int, rng: Seed = None, **options: str
) -> Dictionary:
    """Return a random Gaussian dictionary with independent entries N(0, 1/n_features).

    This is the dictionary of the paper's Section IV-D, scaled by 1/sqrt(n_features). It does not
    depend on the data of clients, so sharing it reveals nothing about them. A_i Psi has restricted
    condition numbers that depend on the stable rank of A_i.

    Parameters
    ----------
    n_features, n_atoms : int
        The dimension of the signals and the number of atoms.
    rng : int, Generator or None
        The seed.
    **options
        Passed to `Dictionary`.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.gaussian_dictionary(n_features=100, n_atoms=150, rng=0)
    Dictionary(150 atoms in R^100, omp)
    """
    shape = (check_integer("n_features", n_features), check_integer("n_atoms", n_atoms))
    generator = np.random.default_rng(check_seed("rng", rng))
    return Dictionary(generator.standard_normal(shape) / np.sqrt(n_features), **options)
