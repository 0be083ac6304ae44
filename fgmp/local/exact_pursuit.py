"""The client's loop of Algorithm 1 without its abstractions, for least squares in orthonormal atoms.

`FedGradMP.refine` is the readable form, and the tests compare the two. What is saved is not arithmetic but calls and
copies: between its products with the data, an iteration here creates no model and passes no layer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..federation import Client
from ..linear_systems import least_squares
from ..models import SparseModel, Support
from ..selection import largest, mark_largest

__all__ = ["refine_by_least_squares"]


def refine_by_least_squares(
    client: Client, x: SparseModel, minibatches: Iterable[Support | None], sparsity: int, rough: bool = False
) -> SparseModel:
    """The model after one local iteration of Algorithm 1 for each minibatch.

    Parameters
    ----------
    client : Client
        With the squared loss.
    x : SparseModel
        x_t.
    minibatches : iterable of ndarray of int or None
        The rows of each iteration; None is all rows.
    sparsity : int
        tau.
    rough : bool, default False
        Whether the gradient may be rounded to float32, as in `Client.gradient`.

    Returns
    -------
    SparseModel
    """
    by_column, y = client.features.T, client.targets
    support, values, columns = x.support, x.values, client.columns(x.support).T
    correlations = np.empty((1, len(by_column)), np.float32 if rough else y.dtype)
    for rows in minibatches:
        residual = values @ columns
        residual -= y
        inside = residual if rows is None else residual[rows]
        if rough:
            correlations[0] = client.rounded.product(inside, rows)
        else:
            if rows is not None:  # rows outside the minibatch get weight zero
                residual.fill(0)
                residual[rows] = inside
            np.dot(by_column, residual, out=correlations[0])  # r, up to a positive factor
        np.abs(correlations, out=correlations)
        member = mark_largest(correlations, 2 * sparsity)[0]  # Gamma
        member[support] = True  # Gamma-hat = Gamma u Lambda
        merged = member.nonzero()[0]
        columns = client.columns(merged).T
        b = least_squares(columns.T, y)
        if not np.isfinite(b).all():
            return SparseModel(merged, b, x.shape)
        kept = largest(np.abs(b), sparsity)  # Lambda
        support, values, columns = merged[kept], b[kept], columns[kept]
    return SparseModel(support, values, x.shape)
