"""What compiled loops make of a client: local iterations of Algorithm 1, and steps of the first-order methods.

`FedGradMP.refine` and the `train` of these methods are the readable forms, and the tests compare the two. A compiled
loop reads the rows of a minibatch and no others, once in a step, where a product with contiguous columns reads all of
them; for that the client keeps a second copy of its features, with contiguous rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..compilation import numba_serves
from ..federation import Client
from ..linear_systems import least_squares
from ..losses import LOWEST, LogisticLoss, SoftmaxLoss, SquaredLoss
from ..models import Array, SparseModel, Support
from ..selection import largest

__all__ = [
    "compiled_descent",
    "compiled_pursuit",
    "compiled_span",
    "compiling_pays",
    "has_compiled_derivative",
    "span_pays",
]

# Numba and the loops take half a second in each process that asks for them. A local iteration saves about 50 us on
# 10^4 entries, 100 on 10^5 and 800 on 10^6: below, most runs are over before that is earned.
_LEAST = 2**16
# In the span of its rows 80 rounds of 5 clients of 40 rows and 65 features take half the time.
_LEAST_IN_THE_SPAN = 2**11


def compiling_pays(client: Client) -> bool:
    """Whether compiled loops serve a client: Numba is there, the features are dense and large, the outputs one.

    Where the environment has ``FGMP_NUMBA=0`` they never do, and no second copy of the features is made. Sizes decide
    and nothing else, so that a result does not depend on what was computed before.
    """
    return client.n_outputs == 1 and _pays(client, _LEAST)


def _pays(client: Client, least: int) -> bool:
    if not isinstance(client.features, np.ndarray) or client.features.size < least:
        return False
    return numba_serves()


def compiled_pursuit(
    client: Client, x: SparseModel, minibatches: Iterable[Support | None], sparsity: int
) -> SparseModel:
    """The model after one local iteration of Algorithm 1 with least squares for each minibatch: `FedGradMP.refine`."""
    from .loops import pursue

    A, y, by_column, precision = (
        client.features_by_row,
        np.array(client.targets),
        client.features.T,
        float(np.finfo(client.dtype).eps),
    )
    support, values = x.support.astype(np.intp), np.array(x.values, client.dtype)
    columns, everything = np.ascontiguousarray(client.columns(x.support).T), np.arange(len(y))
    for rows in minibatches:
        batch = everything if rows is None else rows
        support, values, columns, solved = pursue(
            A, by_column, y, batch, support, values, columns, sparsity, precision, precision**0.75
        )
        if not solved:
            b = least_squares(columns.T, y)
            if not np.isfinite(b).all():
                return SparseModel(support, b, x.shape)
            kept = largest(np.abs(b), sparsity)  # Lambda
            support, values, columns = support[kept], b[kept], columns[kept]
    return SparseModel(support, values, x.shape)


def compiled_descent(
    client: Client,
    start: Array,
    minibatches: Iterable[Support | None],
    learning_rate: float,
    *,
    keep: int = 0,
    before: Sequence[float] | float = 0.0,
    after: float = 0.0,
) -> Array:
    """The end of a gradient step v <- S(H(v - eta g(S(v, before))), after) for each minibatch.

    Parameters
    ----------
    client : Client
        With the squared or the logistic loss.
    start : ndarray, shape (n_features,)
        Not modified.
    minibatches : iterable of ndarray of int or None
        The rows of each step, as many in all of them; None is all rows.
    learning_rate : float
        eta.
    keep : int
        tau, for hard thresholding; 0 is none.
    before, after : float
        Soft thresholds; of `before` there may be one for each step.

    Returns
    -------
    ndarray, shape (n_features,)
    """
    from .loops import descend

    A, batches = client.features_by_row, _batches(client, minibatches)
    margin = client.loss.margin if isinstance(client.loss, LogisticLoss) else 0.0
    weight = client.loss.row_weight(batches.shape[1])
    lengths = np.empty((2, len(batches)))
    lengths[0], lengths[1] = before, after
    targets, begin = np.array(client.targets, A.dtype), np.array(start, A.dtype)  # such as can be written
    return descend(A, targets, batches, begin, float(margin), float(weight), float(learning_rate), keep, *lengths)


def span_pays(client: Client, n_steps: int, batch_size: int | None) -> bool:
    """Whether steps of the softmax loss in the span of the rows take fewer multiplications, `row_products` included.

    Products that the client keeps have to be paid back within twenty visits, others within one. Only sizes decide, so
    that a result does not depend on what was computed before.
    """
    if type(client.loss) is not SoftmaxLoss or not _pays(client, _LEAST_IN_THE_SPAN):
        return False
    (n_samples, n_features), n_outputs = client.features.shape, client.n_outputs
    size = n_samples if batch_size is None else min(batch_size, n_samples)
    plain = 2 * n_steps * size * n_features * n_outputs
    in_the_span = n_steps * n_samples**2 * n_outputs + 2 * n_samples * n_features * n_outputs
    products = n_samples**2 * n_features / 2
    return bool(products <= (20 if client.keeps_row_products else 1) * (plain - in_the_span))


def compiled_span(client: Client, w: Array, learning_rate: float, minibatches: Iterable[Support | None]) -> Array:
    """The end of a step w <- w - eta g of the softmax loss for each minibatch, in the span of the client's rows.

    Every gradient is a combination of the rows of A: W_k = W_0 - A' C_k and A W_k = A W_0 - (A A') C_k, with one
    number for each row and output in C_k: a step reads the products of its minibatch's rows only.
    """
    from .span_loops import softmax_combination

    batches, first = _batches(client, minibatches), np.array(client.predictions(w).T, order="C")
    weight, lowest = learning_rate * client.loss.row_weight(batches.shape[1]), LOWEST[first.dtype]
    gram, labels = np.require(client.row_products, requirements="W"), np.array(client.targets)
    combination = softmax_combination(gram, first, labels, batches, weight, lowest)
    moved: Array = w - client.features.T @ combination.T
    return moved


def _batches(client: Client, minibatches: Iterable[Support | None]) -> Support:
    """Minibatches as one array; None is all rows."""
    everything = np.arange(client.n_samples)
    return np.array([everything if rows is None else rows for rows in minibatches])


def has_compiled_derivative(client: Client) -> bool:
    """Whether the compiled steps know the client's loss."""
    return type(client.loss) in (SquaredLoss, LogisticLoss)
