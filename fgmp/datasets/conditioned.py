"""Clients whose condition numbers the user chooses: good enough for the guarantees of the theorems, which few data are.

`make_conditioned_regression` draws them; the synthetic model of the paper is `make_sparse_regression`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Seed, check_array, check_count, check_integer, check_number, check_seed, shown
from ..federation import Federation
from ..models import Array
from .synthetic import sparse_on_sphere

__all__ = ["make_conditioned_regression"]


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

    Parameters
    ----------
    conditions : array_like, shape (N,)
        c_i, each at least 1.
    n_samples : int, default 60
        |D_i|, the rows of each client: at least `n_features`.
    n_features : int, default 12
        n.
    sparsity : int, default 2
        tau, the nonzero entries of x#, which is drawn from the unit sphere.
    noise_variance : float, default 0.0
        Variance of the entries of e_i: at least 0.
    rng : int, Generator or None
        The seed.

    Returns
    -------
    Federation
        Squared loss, equal weights, with ``truth`` = x#.

    Raises
    ------
    ValueError
        Where a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp.datasets import make_conditioned_regression
    >>> federation = make_conditioned_regression([1.0, 1.5], rng=0)
    >>> hessian = federation.clients[1].features.T @ federation.clients[1].features / 60
    >>> print(f"{np.linalg.cond(hessian):.3f}")
    1.500
    """
    chosen = check_array("conditions", conditions, ndim=1)
    if not chosen.size or chosen.min() < 1 or chosen.max() > 1e300:
        raise ValueError(f"conditions is {shown(conditions)}; expected one number or more, each from 1 to 1e300")
    n_features = check_integer("n_features", n_features)
    n_samples = check_integer("n_samples", n_samples, at_least=n_features, why="n_features")
    check_count("conditions times n_samples times n_features", len(chosen) * n_samples * n_features)
    noise = np.sqrt(check_number("noise_variance", noise_variance, at_least=0))
    generator = np.random.default_rng(check_seed("rng", rng))
    truth = sparse_on_sphere(n_features, sparsity, generator)
    As = [_stretched(c, n_samples, n_features, generator) for c in chosen]
    ys = [A @ truth + noise * generator.standard_normal(n_samples) for A in As]
    return Federation.from_arrays(As, ys, truth=truth)


def _stretched(condition: float, n_samples: int, n_features: int, generator: np.random.Generator) -> Array:
    """Orthonormal columns, times sqrt(n_samples), stretched by 1 to sqrt(condition) along random directions."""
    columns = np.linalg.qr(generator.standard_normal((n_samples, n_features)))[0]
    directions = np.linalg.qr(generator.standard_normal((n_features, n_features)))[0]
    matrix: Array = np.sqrt(n_samples) * (columns * np.sqrt(np.linspace(1, condition, n_features))) @ directions.T
    return matrix
