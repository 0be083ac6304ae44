"""The solution x* that the theorems speak of, found by trying all supports: for a dozen features."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from ..checks import check_integer
from ..federation import Federation, check_federation
from ..models import Array
from .measured import check_least_squares, dense
from .spectra import MOST_SUPPORTS


def sparse_minimiser(federation: Federation, sparsity: int) -> Array:
    """The minimiser of f = sum p_i f_i over all x with at most `sparsity` nonzeros, exactly.

    Parameters
    ----------
    federation : Federation
        Squared loss, stored features.
    sparsity : int
        tau, from 1 to the number of features, with at most 200,000 supports.

    Returns
    -------
    ndarray, shape (n_features,)
        x*; where several supports are equally good, to rounding, the first in lexical order.

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
    if comb(n, sparsity) > MOST_SUPPORTS:
        raise ValueError(
            f"sparsity is {sparsity}, which has {comb(n, sparsity)} supports; expected at most {MOST_SUPPORTS}"
        )
    for client in federation.clients:
        check_least_squares(client)
    whole = dense(federation.pooled().clients[0])
    # Once for all supports: what the rows say beyond their triangle is the same for every x.
    basis, triangle = np.linalg.qr(whole.features)
    right = basis.T @ whole.targets
    best, smallest = np.zeros(n), np.inf
    rounding = 64 * float(np.finfo(right.dtype).eps * np.linalg.norm(right))
    for support in map(list, combinations(range(n), sparsity)):
        values = np.linalg.lstsq(triangle[:, support], right, rcond=None)[0]
        misfit = float(np.linalg.norm(triangle[:, support] @ values - right))
        if misfit < smallest - rounding:
            best, smallest = np.zeros(n), misfit
            best[support] = values
    return best
