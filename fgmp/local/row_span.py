"""Plain gradient steps in the span of a client's rows: a fast loop for clients with few rows and many features.

The readable form is `FirstOrderMethod.train`; the model moves by combinations of the rows, so that steps can be taken
on their coefficients, one for each row and output.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..federation import Client
from ..models import Array, Support

__all__ = ["row_span_pays", "steps_in_the_row_span"]


def row_span_pays(client: Client, n_steps: int, batch_size: int | None) -> bool:
    """Whether steps in the span of the rows take fewer multiplications, the products of the rows included.

    Products that the client keeps have to be paid back within twenty visits, others within one. Only sizes decide, so
    that a result does not depend on what was computed before.
    """
    (n_samples, n_features), n_outputs = client.features.shape, client.n_outputs
    size = n_samples if n_outputs == 1 or batch_size is None else min(batch_size, n_samples)
    plain = 2 * n_steps * size * n_features * n_outputs
    in_the_span = n_steps * n_samples**2 * n_outputs + 2 * n_samples * n_features * n_outputs
    products = n_samples**2 * n_features / 2
    return bool(products <= (20 if client.keeps_row_products else 1) * (plain - in_the_span))


def steps_in_the_row_span(
    client: Client, w: Array, learning_rate: float, minibatches: Iterable[Support | None]
) -> Array:
    """The model after a step w <- w - eta g for each minibatch, with the Gram matrix of the client's rows.

    Every gradient is a combination of the rows of A, so that w_k = w_0 - A' c_k, with one number per row and output in
    c_k, and A w_k = A w_0 - (A A') c_k: a step takes n_samples^2 multiplications for each output instead of
    2 n_samples n_features.

    Parameters
    ----------
    client : Client
    w : ndarray, of the client's model shape
        Where to start; not modified.
    learning_rate : float
        eta.
    minibatches : iterable of ndarray of int or None
        The rows of each step; None is all rows.

    Returns
    -------
    ndarray, of the client's model shape
    """
    targets, loss, gram = client.targets, client.loss, client.row_products
    first = client.predictions(w).T  # one row for each output, if there are several
    combination, predictions = np.zeros(first.shape, first.dtype), np.empty(first.shape, first.dtype)
    for rows in minibatches:
        n_rows = len(targets) if rows is None else len(rows)
        weights = np.zeros(len(targets), first.dtype)
        weights[slice(None) if rows is None else rows] = learning_rate * loss.row_weight(n_rows)
        np.matmul(combination, gram, out=predictions)
        np.subtract(first, predictions, out=predictions)
        change = loss.derivative(predictions.T, targets).T
        change *= weights
        combination += change
    moved: Array = w - client.features.T @ combination.T
    return moved
