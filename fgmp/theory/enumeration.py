"""The solution x* that the theorems speak of, found by trying all supports: for a dozen features."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..checks import check_integer
from ..federation import Federation, check_federation
from ..losses import SquaredLoss
from ..models import Array

__all__ = ["sparse_minimiser"]


def sparse_minimiser(federation: Federation, sparsity: int, *, max_supports: int = 200_000) -> Array:
    """The minimiser of f = sum p_i f_i over all x with at most `sparsity` nonzeros, exactly.

    Parameters
    ----------
    federation : Federation
        Squared loss, stored features.
    sparsity : int
        tau, from 1 to the number of features.
    max_supports : int, default 200,000
        The most supports to try.

    Returns
    -------
    ndarray, shape (n_features,)
        x*; where several supports are equally good, to rounding, the first in lexical order.

    Raises
    ------
    ValueError
        Where the loss is another one, a client streams its features, or there are more supports than `max_supports`.

    Examples
    --------
    >>> import fgmp
    >>> from fgmp import theory
    >>> federation = fgmp.make_sparse_regression(n_clients=4, n_samples=10, n_features=12, sparsity=2, rng=0)
    >>> bool(abs(theory.sparse_minimiser(federation, 2) - federation.truth).max() < 1e-12)
    True
    """
    n = check_federation("federation", federation).n_features
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of features")
    if comb(n, sparsity) > check_integer("max_supports", max_supports):
        raise ValueError(
            f"sparsity is {sparsity}, which has {comb(n, sparsity)} supports; expected at most {max_supports}"
        )
    A, y = _all_rows(federation)
    # Once for all supports: what the rows say beyond their triangle is the same for every x.
    basis, triangle = np.linalg.qr(A)
    right = basis.T @ y
    best, smallest = np.zeros(n), np.inf
    rounding = 64 * float(np.finfo(right.dtype).eps * np.linalg.norm(right))
    for support in map(list, combinations(range(n), sparsity)):
        values = np.linalg.lstsq(triangle[:, support], right, rcond=None)[0]
        misfit = float(np.linalg.norm(triangle[:, support] @ values - right))
        if misfit < smallest - rounding:
            best, smallest = np.zeros(n), misfit
            best[support] = values
    return best


def _all_rows(federation: Federation) -> tuple[Array, Array]:
    """The rows of all clients, scaled so that f is half the squared norm of one long residual."""
    As, ys = [], []
    for client, weight in zip(federation.clients, federation.weights, strict=True):
        if not isinstance(client.loss, SquaredLoss):
            raise ValueError(f"federation has the loss {client.loss!r}; expected SquaredLoss")
        if isinstance(client.features, LinearOperator):
            raise ValueError(f"client {client.key} has streamed features; expected stored ones")
        scale = np.sqrt(weight * client.loss.row_weight(client.n_samples))
        As.append(scale * client.features)
        ys.append(scale * client.targets)
    return np.vstack(As), np.concatenate(ys)
