"""The client's loop of Algorithm 2 without its abstractions, for SGD and several outputs in orthonormal atoms.

`FedGradMP.refine` is the readable form, and the tests compare the two; saved are calls and copies, see `exact_pursuit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..federation import Client
from ..models import Array, SparseModel, Support
from ..selection import mark_largest

__all__ = ["refine_by_sgd"]


def refine_by_sgd(
    client: Client,
    x: SparseModel,
    minibatches: Iterable[Support | None],
    sparsity: int,
    radius: float | None,
    inner_steps: Callable[[], Iterable[Support | None]],
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
    sparsity, radius
        As in `FedGradMP`; the sparsity counts the entries of each output.
    inner_steps : callable
        Called in each iteration; gives the rows of each step of the SGD.
    learning_rate : float
        Of these steps.

    Returns
    -------
    SparseModel

    Notes
    -----
    Models are transposed: shape (n_outputs, n_features). An inner step costs in proportion to the features that
    some output uses or, where these are more than an eighth, to all of them.
    """
    w, gradient = np.array(x.dense().T, order="C"), _Gradient(client)
    support = np.zeros(w.shape, bool)
    support.T.flat[x.support] = True
    for rows in minibatches:
        r = gradient(w, rows, 1.0)
        gamma = mark_largest(np.abs(r), 2 * sparsity)
        merged = gamma | support  # Gamma-hat = Gamma u Lambda
        used = np.flatnonzero(merged.any(axis=0))
        few = 8 * len(used) < len(merged.T)  # columns are scattered: gathering half of them costs more than it saves
        b, inside, inner = w, merged, gradient
        if few:
            b, inside = w[:, used], merged[:, used]
            inner = _Gradient(client.with_features(client.columns(used)))
        for batch in inner_steps():  # b = argmin f_i, loosely
            step = inner(b, batch, learning_rate)
            step *= inside
            b -= step
        if not np.isfinite(b).all():
            return SparseModel(np.arange(1), np.array([np.nan], b.dtype), x.shape)
        kept = mark_largest(np.where(inside, np.abs(b), -1), sparsity)
        kept &= inside  # Lambda
        b *= kept  # x = P_Lambda b
        if radius is not None and (norm := float(np.linalg.norm(b))) > radius:
            b *= radius / norm  # x = Pi_R x
        if few:
            w.fill(0)
            support.fill(False)
            w[:, used], support[:, used] = b, kept
        else:
            support = kept
    chosen = support.T.ravel().nonzero()[0]
    return SparseModel(chosen, w.T.ravel()[chosen], x.shape)


class _Gradient:
    """For a model with several outputs: the rows of the minibatch are gathered, then both products cost b rows."""

    def __init__(self, client: Client) -> None:
        self.client, self.n_outputs = client, client.n_outputs
        self.batch = np.empty_like(client.features)
        self.predictions = np.empty(self.n_outputs * client.n_samples, client.features.dtype)
        self.gradient = np.empty((self.n_outputs, client.n_features), client.features.dtype)

    def __call__(self, w: Array, rows: Support | None, factor: float) -> Array:
        """The gradient at w over the rows, times the factor."""
        features, targets, loss = self.client.features, self.client.targets, self.client.loss
        if rows is not None:
            targets = targets[rows]
            features = features.take(rows, axis=0, out=self.batch[: len(rows)], mode="clip")
        n_rows = len(targets)
        predictions = self.predictions[: self.n_outputs * n_rows].reshape(self.n_outputs, n_rows)
        np.matmul(w, features.T, out=predictions)
        derivative = loss.derivative(predictions.T, targets).T
        derivative *= factor * loss.row_weight(n_rows)
        return np.matmul(derivative, features, out=self.gradient)
