"""The quantities in the paper's assumptions, measured on data; and the Gaussian width of sparse vectors."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from ..checks import Seed, check_integer, check_kind, check_seed, check_shape
from ..federation import Client, Federation, check_federation
from ..losses import SquaredLoss
from ..models import Array, length_of
from ..selection import largest
from ..sparse_features import SparseFeatures
from .constants import ClientConstants
from .spectra import MOST_SUPPORTS, restricted_constants


def measure_constants(
    federation: Federation,
    x_star: ArrayLike,
    sparsity: int,
    *,
    batch_size: int | None = None,
    n_minibatches: int = 20,
    rng: Seed = 0,
) -> ClientConstants:
    """The constants of least-squares clients in the standard basis, exact at sparsity min(4 tau, n).

    Parameters
    ----------
    federation : Federation
        Squared loss; averaged, or the full batch. Sparse features are made dense, one client at a time.
    x_star : array_like, shape (n_features,)
        The solution x*.
    sparsity : int
        tau.
    batch_size : int or None
        b; None is the full batch, one minibatch.
    n_minibatches : int, default 20
        Minibatches over which the means of rho^+(i, j) and of L(i, j)^2 are taken: all of them, where a client has no
        more than that, otherwise so many draws.
    rng : int, Generator or None
        The seed.

    Notes
    -----
    sigma_i^2 is measured at x*, over all minibatches (`minibatch_variance`). For the squared loss no bound holds for
    all sparse x: the variance grows with the distance from x*.
    """
    x = check_shape("x_star", x_star, check_federation("federation", federation).model_shape)
    sparsity = check_integer("sparsity", sparsity, at_most=federation.n_features, why="the number of features")
    n_minibatches = check_integer("n_minibatches", n_minibatches)
    if batch_size is not None:
        check_integer(
            "batch_size", batch_size, at_most=int(federation.rows.min()), why="the rows of the smallest client"
        )
    generator = np.random.default_rng(check_seed("rng", rng))
    order = min(4 * sparsity, federation.n_features)
    rows = []
    for each in federation.clients:
        check_least_squares(each)
        if not each.loss.averaged and batch_size not in (None, each.n_samples):  # type: ignore[attr-defined]
            raise ValueError(
                f"federation has the loss {each.loss!r}, with which minibatches do not have the mean f_i; expected "
                "averaged=True or the full batch"
            )
        client = dense(each)
        unit = client.loss.row_weight(client.n_samples) * client.n_samples
        whole = restricted_constants(client.features, order)
        batches = _minibatches(client, generator, batch_size, n_minibatches)
        parts = [client.features if batch is None else client.features[batch] for batch in batches]
        # The full batch is the client itself, whose constant is known already.
        drawn = [part for part in parts if part is not client.features]
        uppers = [restricted_constants(part, order).upper for part in drawn] or whole.upper
        squares = client.gradient(x) ** 2
        rows.append(
            (
                unit * whole.lower,
                unit * max(float(np.mean(uppers)), whole.upper),  # over all minibatches it is at least that of f_i
                unit**2 * np.mean([_smoothness_squared(part, 2 * sparsity) for part in parts]),
                squares[largest(squares, order)].sum(),
                squares.sum(),
                minibatch_variance(client, x, batch_size),
            )
        )
    lower, upper, squared, gradient, norms, variance = np.array(rows).T
    return ClientConstants(lower, upper, squared, gradient, norms, variance, federation.weights)


def minibatch_variance(client: Client, x: ArrayLike, batch_size: int | None) -> float:
    """E_j ||grad g_ij(x) - grad f_i(x)||^2 over all minibatches of `batch_size` rows without replacement, exactly.

    The quantity of the paper's Assumption 4. No minibatch is drawn: with d_k the gradient of row k, d their mean over
    the m rows, and w_b the weight of a row in a minibatch, it is

        (w_b b)^2 (1/b - 1/m) sum_k ||d_k - d||^2 / (m - 1) + (w_b b - w_m m)^2 ||d||^2.

    For a mean over the rows, w_b = 1/b, the second term is zero. For a sum, w_b = 1, it is the bias of g_ij, whose
    mean over j is b/m times f_i: such a loss does not meet the first half of Assumption 4.

    Parameters
    ----------
    client : Client
        Any loss; stored features. Sparse ones are made dense for as long as this takes.
    x : array_like, of the client's model shape
    batch_size : int or None
        b, at most the rows of the client; None is all of them, and gives zero.
    """
    x, m = (
        check_shape(
            "x", x, check_kind("client", client, Client, "a Client, such as one of federation.clients").model_shape
        ),
        client.n_samples,
    )
    if isinstance(client.features, LinearOperator):
        raise ValueError("client has streamed features; expected stored ones")
    client = dense(client)
    b = m if batch_size is None else check_integer("batch_size", batch_size, at_most=m, why="the rows of the client")
    if b == m:
        return 0.0
    derivative = client.loss.derivative(client.predictions(x), client.targets).reshape(m, -1)
    mean = client.features.T @ derivative / m
    spread = sum(
        np.sum((client.features * column[:, None] - d) ** 2) for column, d in zip(derivative.T, mean.T, strict=True)
    )
    batch, whole = client.loss.row_weight(b) * b, client.loss.row_weight(m) * m
    return float(batch**2 * (1 / b - 1 / m) * spread / (m - 1) + (batch - whole) ** 2 * np.sum(mean**2))


def heterogeneity(federation: Federation, x_star: ArrayLike) -> float:
    """zeta* = (sum p_i ||grad f_i(x*)||^2)^(1/2) (paper, Assumption 3): zero where x* suits every client."""
    x = check_shape("x_star", x_star, check_federation("federation", federation).model_shape)
    norms = np.array([length_of(client.gradient(x)) for client in federation.clients])
    return length_of(np.sqrt(federation.weights) * norms)


def gaussian_width(n_features: int, sparsity: int, *, rng: Seed = 0) -> tuple[float, float]:
    """The Gaussian width of {x : ||x||_0 <= tau, ||x||_2 <= 1}, and its standard error, by 2,000 draws.

    w(T) = E sup_{x in T} <g, x> = E (sum of the tau largest g_i^2)^(1/2).
    """
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    squares = np.random.default_rng(check_seed("rng", rng)).standard_normal((2000, n_features)) ** 2
    widths = np.sqrt(np.partition(squares, n_features - sparsity, axis=1)[:, n_features - sparsity :].sum(1))
    return float(widths.mean()), float(widths.std(ddof=1) / np.sqrt(len(widths)))


def dense(client: Client) -> Client:
    """The client, with sparse features made dense."""
    return (
        replace(client, features=client.features.toarray()) if isinstance(client.features, SparseFeatures) else client
    )


def check_least_squares(client: Client) -> None:
    """Raise a ValueError where a client has another loss than the squared one, or streams its features."""
    if not isinstance(client.loss, SquaredLoss):
        raise ValueError(
            f"federation has the loss {client.loss!r}; expected SquaredLoss, with one curvature everywhere"
        )
    if isinstance(client.features, LinearOperator):
        raise ValueError(f"client {client.key} has streamed features; expected stored ones")


def _minibatches(client: Client, generator: np.random.Generator, batch_size: int | None, count: int) -> list[Any]:
    """All minibatches of a client, or `count` draws of them where they are more."""
    m = client.n_samples
    if batch_size is None or batch_size == m:
        return [None]
    if comb(m, batch_size) <= count:
        return [np.array(batch) for batch in combinations(range(m), batch_size)]
    return list(client.minibatches(generator, batch_size, count))


def _smoothness_squared(rows: Array, sparsity: int) -> float:
    """L^2, with ||H v|| <= L ||v|| for all sparse v and the Hessian H: the restricted upper constant of H'H."""
    n = rows.shape[1]
    if comb(n, min(sparsity, n)) > MOST_SUPPORTS:
        return float("nan")
    hessian = rows.T @ rows / len(rows)
    return restricted_constants(hessian * sqrt(n), min(sparsity, n)).upper
