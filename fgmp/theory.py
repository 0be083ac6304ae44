"""Theory that runs: restricted constants, the quantities in the paper's assumptions measured on data, its theorems."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import ArrayLike

from .checks import Seed, check_array, check_integer, check_seed
from .convergence import (
    ClientConstants,
    ConvergenceBound,
    beta_1,
    beta_2,
    beta_2_unbounded_variance,
    objective_bound,
    theorem1,
    theorem_inexact,
    theorem_partial_participation,
    theorem_unbounded_variance,
)
from .federation import Client, Federation
from .models import largest
from .restricted_spectra import (
    RestrictedConstants,
    inner_restricted_constants,
    outer_restricted_constants,
    restricted_constants,
    rip_constant,
    stable_rank,
)

__all__ = [
    "ClientConstants",
    "ConvergenceBound",
    "RestrictedConstants",
    "beta_1",
    "beta_2",
    "beta_2_unbounded_variance",
    "gaussian_width",
    "gaussian_width_bound",
    "heterogeneity",
    "inner_restricted_constants",
    "measure_constants",
    "minibatch_variance",
    "objective_bound",
    "outer_restricted_constants",
    "restricted_constants",
    "rip_constant",
    "stable_rank",
    "theorem1",
    "theorem_inexact",
    "theorem_partial_participation",
    "theorem_unbounded_variance",
]


def measure_constants(
    federation: Federation,
    x_star: ArrayLike,
    sparsity: int,
    *,
    batch_size: int | None = None,
    n_minibatches: int = 20,
    rng: Seed = 0,
    max_supports: int = 200_000,
) -> ClientConstants:
    """The constants of least-squares clients in the standard basis, exact at sparsity min(4 tau, n).

    Parameters
    ----------
    federation : Federation
        Squared loss.
    x_star : array_like, shape (n_features,)
        The solution x*.
    sparsity : int
        tau.
    batch_size : int or None
        b; None is the full batch, one minibatch.
    n_minibatches : int, default 20
        Minibatches over which the mean of rho^+(i, j) is taken.
    rng, max_supports
        The seed, and the most supports to enumerate.

    Notes
    -----
    sigma_i^2 is measured at x*, over all minibatches (`minibatch_variance`). For the squared loss no bound holds for
    all sparse x: the variance grows with the distance from x*.
    """
    x = check_array("x_star", x_star, ndim=1)
    federation.check_batch_size(batch_size)
    order = min(4 * check_integer("sparsity", sparsity), federation.n_features)
    generator = np.random.default_rng(check_seed("rng", rng))
    rows = []
    for client in federation.clients:
        whole = restricted_constants(client.features, order, max_supports=max_supports)
        uppers = np.array([whole.upper])
        if batch_size is not None and batch_size < client.n_samples:
            batches = client.minibatches(generator, batch_size, n_minibatches)
            parts = (client.features[batch] for batch in batches)
            uppers = np.array([restricted_constants(part, order, max_supports=max_supports).upper for part in parts])
        squares = client.gradient(x) ** 2
        rows.append(
            (
                whole.lower,
                uppers.mean(),
                (uppers**2).mean(),
                squares[largest(squares, order)].sum(),
                squares.sum(),
                minibatch_variance(client, x, batch_size),
            )
        )
    lower, upper, squared, gradient, whole, variance = np.array(rows).T
    return ClientConstants(lower, upper, squared, gradient, whole, variance, federation.weights)


def minibatch_variance(client: Client, x: ArrayLike, batch_size: int | None) -> float:
    """E_j ||grad g_ij(x) - grad f_i(x)||^2 over all minibatches of `batch_size` rows without replacement, exactly.

    (1/b - 1/m) times the sum over rows of ||row gradient - mean||^2 / (m - 1), for m rows; no minibatch is drawn.
    """
    x = np.asarray(x)
    m = client.n_samples
    if batch_size is None or batch_size == m:
        return 0.0
    derivative = client.loss.derivative(client.predictions(x), client.targets)
    deviations = client.features * derivative[:, None] - client.gradient(x)
    return float((1 / batch_size - 1 / m) * np.sum(deviations**2) / (m - 1))


def heterogeneity(federation: Federation, x_star: ArrayLike) -> float:
    """zeta* = (sum p_i ||grad f_i(x*)||^2)^(1/2) (paper, Assumption 3): zero where x* suits every client."""
    norms = np.array([np.sum(client.gradient(np.asarray(x_star)) ** 2) for client in federation.clients])
    return float(np.sqrt(federation.weights @ norms))


def gaussian_width(
    n_features: int, sparsity: int, *, radius: float = 1.0, n_samples: int = 2000, rng: Seed = 0
) -> tuple[float, float]:
    """The Gaussian width of {x : ||x||_0 <= tau, ||x||_2 <= r}, and its standard error, by Monte Carlo.

    w(T) = E sup_{x in T} <g, x> = r E (sum of the tau largest g_i^2)^(1/2).
    """
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    generator = np.random.default_rng(check_seed("rng", rng))
    squares = generator.standard_normal((check_integer("n_samples", n_samples, at_least=2), n_features)) ** 2
    widths = radius * np.sqrt(np.partition(squares, n_features - sparsity, axis=1)[:, n_features - sparsity :].sum(1))
    return float(widths.mean()), float(widths.std(ddof=1) / np.sqrt(n_samples))


def gaussian_width_bound(n_features: int, sparsity: int, radius: float = 1.0) -> float:
    """An upper bound of `gaussian_width`: r (sqrt(tau) + sqrt(2 log binomial(n, tau))).

    Each support contributes a norm of mean at most sqrt(tau) that deviates like a standard normal variable; the
    maximum over all supports adds the second term, which is at most sqrt(2 tau log(e n / tau)).
    """
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    return radius * float(np.sqrt(sparsity) + np.sqrt(2 * np.log(comb(n_features, sparsity))))
