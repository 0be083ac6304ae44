"""Local steps of the first-order methods, fast: buffers are allocated once a visit to a client, not once a step.

The readable form of the gradient steps is ``w - learning_rate * client.gradient(w, rows)``; tests compare the two.
Inside, models are transposed: shape (n_outputs, n_features), one contiguous row for each output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy

import numpy as np

from .federation import Client
from .models import Array, SparseModel, Support, largest, largest_in_columns

__all__ = ["HardThreshold", "SoftThreshold", "dual_steps", "gradient_steps", "thresholded_steps"]

Gradient = Callable[[Array, Support | None, float], Array]
Threshold = Callable[[Array], None]
Rows = Iterable[Support | None]


def gradient_steps(client: Client, w: Array, learning_rate: float, minibatches: Rows) -> Array:
    """The model after a step w <- w - eta g for each minibatch.

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

    Notes
    -----
    Where it is less work, the steps are taken in the span of the rows (`steps_in_the_row_span`). The iterates are the
    same.
    """
    minibatches = list(minibatches)
    if row_span_pays(client, minibatches):
        return steps_in_the_row_span(client, w, learning_rate, minibatches)
    return thresholded_steps(client, w, learning_rate, minibatches, lambda transposed: None)


def row_span_pays(client: Client, minibatches: list[Support | None]) -> bool:
    """Whether steps in the span of the rows take fewer multiplications, the products of the rows included.

    Products that the client keeps have to be paid back within twenty visits, others within one. Only sizes decide, so
    that a result does not depend on what was computed before.
    """
    (n_samples, n_features), n_outputs, n_steps = client.features.shape, client.n_outputs, len(minibatches)
    size = n_samples if n_outputs == 1 else max(n_samples if rows is None else len(rows) for rows in minibatches)
    plain = 2 * n_steps * size * n_features * n_outputs
    in_the_span = n_steps * n_samples**2 * n_outputs + 2 * n_samples * n_features * n_outputs
    products = n_samples**2 * n_features / 2
    return bool(products <= (20 if client.keeps_row_products else 1) * (plain - in_the_span))


def steps_in_the_row_span(client: Client, w: Array, learning_rate: float, minibatches: list[Support | None]) -> Array:
    """`gradient_steps` with the Gram matrix of the client's rows.

    Every gradient is a combination of the rows of A, so that w_k = w_0 - A' c_k, with one number per row and output in
    c_k, and A w_k = A w_0 - (A A') c_k: a step takes n_samples^2 multiplications for each output instead of
    2 n_samples n_features.
    """
    targets, derivative, gram = client.targets, derivative_by_output(client), client.row_products
    first = np.atleast_2d(client.predictions(w).T)
    combination, predictions = np.zeros(first.shape, first.dtype), np.empty(first.shape, first.dtype)
    row_weights = np.zeros((len(minibatches), len(targets)), first.dtype)
    for weights, rows in zip(row_weights, minibatches, strict=True):
        n_rows = len(targets) if rows is None else len(rows)
        weights[slice(None) if rows is None else rows] = learning_rate * client.loss.row_weight(n_rows)
    for weights in row_weights:
        np.matmul(combination, gram, out=predictions)
        np.subtract(first, predictions, out=predictions)
        change = derivative(predictions, targets)
        change *= weights
        combination += change
    moved: Array = client.features.T @ combination.T
    return w - moved.reshape(w.shape)


def thresholded_steps(client: Client, w: Array, learning_rate: float, minibatches: Rows, threshold: Threshold) -> Array:
    """The model after a step w <- threshold(w - eta g) for each minibatch; parameters as `gradient_steps`.

    `threshold` changes a transposed model in place.
    """
    gradient, model = gradients_of(client), transposed(w)
    for rows in minibatches:
        model -= gradient(model, rows, learning_rate)
        threshold(model)
    return back(model, w)


def dual_steps(
    client: Client, z: Array, learning_rate: float, minibatches: Rows, thresholds: Iterable[Threshold]
) -> Array:
    """The dual variable after a step z <- z - eta g(threshold(z)) for each minibatch and its threshold."""
    gradient, dual = gradients_of(client), transposed(z)
    model = np.empty_like(dual)
    for rows, threshold in zip(minibatches, thresholds, strict=True):
        np.copyto(model, dual)
        threshold(model)
        dual -= gradient(model, rows, learning_rate)
    return back(dual, z)


class SoftThreshold:
    """S(w, t) = sign(w) max(|w| - t, 0), in place, but for the features that are `spared`.

    Parameters
    ----------
    like : ndarray
        A model of the shape and type that will come, transposed.
    threshold : float
        t.
    spared : tuple of int
    """

    def __init__(self, like: Array, threshold: float, spared: tuple[int, ...] = ()) -> None:
        self.threshold, self.spared = threshold, list(spared)
        self.clipped = np.empty_like(like)

    def at(self, threshold: float) -> SoftThreshold:
        """The same with another threshold, in the same buffer."""
        other = copy(self)
        other.threshold = threshold
        return other

    def __call__(self, w: Array) -> None:
        """S(w, t) in place of w."""
        np.clip(w, -self.threshold, self.threshold, out=self.clipped)
        if self.spared:
            self.clipped[:, self.spared] = 0
        w -= self.clipped


class HardThreshold:
    """H_tau(w), in place: the `count` largest entries of each output, or of all if `joint`.

    Parameters
    ----------
    like : ndarray
        A model of the shape and type that will come, transposed.
    count : int
        tau.
    joint : bool
    spared : tuple of int
        Features that stay and do not count.
    """

    def __init__(self, like: Array, count: int, joint: bool = False, spared: tuple[int, ...] = ()) -> None:
        self.count, self.joint, self.spared = count, joint, list(spared)
        self.magnitudes, self.ordered = np.empty_like(like), np.empty_like(like)
        self.kept = np.empty(like.shape, bool)

    def __call__(self, w: Array) -> None:
        """H_tau(w) in place of w; `kept` says where."""
        np.abs(w, out=self.magnitudes)
        if self.spared:
            self.magnitudes[:, self.spared] = -1
        mark_largest(self.magnitudes, self.count, self.joint, self.ordered, self.kept)
        if self.spared:
            self.kept[:, self.spared] = True
        w *= self.kept


def mark_largest(magnitudes: Array, count: int, joint: bool, ordered: Array, marked: Array) -> None:
    """Mark the `count` largest entries of each row, or of all if `joint`; ties as `largest_in_columns` has them.

    `ordered` is a buffer of the shape of `magnitudes`.
    """
    np.negative(magnitudes, out=ordered)  # a partition is slow where many entries before its pivot are equal
    groups = ordered.reshape(1, -1) if joint else ordered
    if count < groups.shape[1]:
        groups.partition(count - 1, axis=1)
        np.greater_equal(magnitudes, -groups[:, count - 1, None], out=marked)
    if count >= groups.shape[1] or np.count_nonzero(marked) != count * len(groups):
        by_feature = magnitudes.T.copy()
        chosen = largest(by_feature.reshape(-1), count) if joint else largest_in_columns(by_feature, count)
        marked.fill(False)
        marked.T[np.divmod(chosen, len(magnitudes))] = True


def gradients_of(client: Client) -> Gradient:
    """A function of a transposed model, the rows of a minibatch and a factor: the factor times the gradient.

    The next call may overwrite what a call returns.
    """
    return gradients_of_one(client) if client.n_outputs == 1 else GradientsOfMany(client)


def gradients_of_one(client: Client) -> Gradient:
    """For a model with one output: the columns of the support only, where that is small, then all columns once."""

    def gradient(w: Array, rows: Support | None, factor: float) -> Array:
        support = np.flatnonzero(w[0])
        sparse = 4 * len(support) < w.size
        model = SparseModel(support, w[0, support], w[0].shape) if sparse else w[0]
        return factor * client.gradient(model, rows)[None]

    return gradient


class GradientsOfMany:
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


def derivative_by_output(client: Client) -> Callable[[Array, Array], Array]:
    """The loss's l' for predictions of shape (n_outputs, n_rows), in the same shape."""
    derivative = client.loss.derivative
    if client.n_outputs == 1:
        return lambda predictions, targets: derivative(predictions[0], targets)[None]
    return lambda predictions, targets: derivative(predictions.T, targets).T


def transposed(w: Array) -> Array:
    """A copy of a model with one contiguous row for each output."""
    return np.array(w.T, order="C", ndmin=2)


def back(model: Array, like: Array) -> Array:
    """The model in the shape of `like`."""
    return np.ascontiguousarray(model.T).reshape(like.shape)
