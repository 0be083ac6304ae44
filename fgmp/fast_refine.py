"""The client's loop of Algorithms 1 and 2 without its abstractions, for orthonormal atoms and two common cases.

`FedGradMP.refine_as_printed` is the readable form, and the tests compare the two. What is saved is not arithmetic but
calls and copies: between its products with the data, an iteration here creates no model and passes no layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from .federation import Client
from .linear_systems import least_squares
from .local_steps import GradientsOfMany, mark_largest, transposed
from .models import Array, SparseModel, Support, largest

__all__ = ["refine_by_least_squares", "refine_by_sgd"]


def refine_by_least_squares(
    client: Client, x: SparseModel, minibatches: Iterable[Support | None], sparsity: int
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

    Returns
    -------
    SparseModel
    """
    by_column, y = client.features.T, client.targets
    support, values, columns = x.support, x.values, by_column.take(x.support, axis=0)
    correlations, member = np.empty(len(by_column), y.dtype), np.empty(len(by_column), bool)
    for rows in minibatches:
        residual = values @ columns
        residual -= y
        if rows is not None:  # rows outside the minibatch get weight zero
            inside = residual[rows]
            residual.fill(0)
            residual[rows] = inside
        np.dot(by_column, residual, out=correlations)  # r, up to a positive factor
        np.abs(correlations, out=correlations)
        mark_largest_of_one(correlations, 2 * sparsity, member)  # Gamma
        member[support] = True  # Gamma-hat = Gamma u Lambda
        merged = member.nonzero()[0]
        columns = by_column.take(merged, axis=0)
        b = least_squares(columns.T, y)
        if not np.isfinite(b).all():
            return SparseModel(merged, b, x.shape)
        kept = largest(np.abs(b), sparsity)  # Lambda
        support, values, columns = merged[kept], b[kept], columns[kept]
    return SparseModel(support, values, x.shape)


def refine_by_sgd(
    client: Client,
    x: SparseModel,
    minibatches: Iterable[Support | None],
    sparsity: int,
    joint: bool,
    radius: float | None,
    restricted_steps: Callable[[], Iterable[Support | None]],
    learning_rate: float,
) -> SparseModel:
    """The model after one local iteration of Algorithm 2 for each minibatch, with SGD and several outputs.

    Parameters
    ----------
    client : Client
        With several outputs.
    x : SparseModel
        x_t.
    minibatches : iterable of ndarray of int or None
        The rows of each iteration; None is all rows.
    sparsity, joint, radius
        As in `FedGradMP`.
    restricted_steps : callable
        Called in each iteration; gives the rows of each restricted step.
    learning_rate : float
        Of the restricted steps.

    Returns
    -------
    SparseModel

    Notes
    -----
    Models are transposed: shape (n_outputs, n_features). A restricted step costs in proportion to the features that
    some output uses or, where these are more than an eighth, to all of them.
    """
    w, gradient = transposed(x.dense()), GradientsOfMany(client)
    buffers = np.empty_like(w), np.empty_like(w), np.empty(w.shape, bool)
    merged, support = np.empty(w.shape, bool), np.zeros(w.shape, bool)
    support.T.flat[x.support] = True
    for rows in minibatches:
        magnitudes, ordered, kept = buffers
        np.abs(gradient(w, rows, 1.0), out=magnitudes)  # r
        mark_largest(magnitudes, 2 * sparsity, joint, ordered, merged)  # Gamma
        merged |= support  # Gamma-hat = Gamma u Lambda
        used = np.flatnonzero(merged.any(axis=0))
        few = 8 * len(used) < len(merged.T)  # columns are scattered: gathering half of them costs more than it saves
        b, inside, restricted = w, merged, gradient
        if few:
            b, inside, magnitudes, ordered, kept = (array[:, used] for array in (w, merged, *buffers))
            restricted = GradientsOfMany(replace(client, features=client.columns(used)))
        for batch in restricted_steps():  # b = argmin f_i, loosely
            step = restricted(b, batch, learning_rate)
            step *= inside
            b -= step
        if not np.isfinite(b).all():
            return SparseModel(np.arange(1), np.array([np.nan], b.dtype), x.shape)
        np.abs(b, out=magnitudes)
        np.logical_not(inside, out=kept)
        np.copyto(magnitudes, -1, where=kept)
        mark_largest(magnitudes, sparsity, joint, ordered, kept)
        kept &= inside  # Lambda
        b *= kept  # x = P_Lambda b
        if radius is not None and (norm := float(np.linalg.norm(b))) > radius:
            b *= radius / norm  # x = Pi_R x
        if few:
            w.fill(0)
            support.fill(False)
            w[:, used], support[:, used] = b, kept
        else:
            np.copyto(support, kept)
    chosen = support.T.ravel().nonzero()[0]
    return SparseModel(chosen, w.T.ravel()[chosen], x.shape)


def mark_largest_of_one(magnitudes: Array, count: int, member: Array) -> None:
    """Mark the `count` largest entries in `member`; ties break towards the lower index."""
    place = len(magnitudes) - count
    if place > 0:
        ordered = magnitudes.copy()
        ordered.partition(place)
        np.greater_equal(magnitudes, ordered[place], out=member)
    if place <= 0 or np.count_nonzero(member) != count:
        member.fill(False)
        member[largest(magnitudes, count)] = True
