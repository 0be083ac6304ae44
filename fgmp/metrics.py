"""Measures of a model for the history of a run, on the clients trained on or on others: `accuracy`, `accuracy_on`."""

from collections.abc import Callable

import numpy as np

from ._support.validation import check_kind, check_shape
from .federation import Federation
from .losses import SoftmaxLoss
from .sparse_model import Array


def accuracy(federation: Federation, x: Array) -> float:
    """The fraction of rows, over all clients, whose label has the largest prediction, for x of shape (n, n_classes).

    Equal predictions count for the lower class, so that x = 0 says class 0 of every row. A ValueError where the
    federation has no `SoftmaxLoss`, or x another shape.
    """
    return accuracy_on(federation)(x)


def accuracy_on(federation: Federation) -> Callable[[Array], float]:
    """`accuracy` on a federation, as a function of the model: ``History(metrics={"unseen": accuracy_on(test)})``."""
    check_kind("federation", federation, Federation, "a Federation with SoftmaxLoss")
    if not isinstance(federation.loss, SoftmaxLoss):
        raise ValueError(f"federation has the loss {federation.loss!r}; expected SoftmaxLoss")

    def measure(x: Array) -> float:
        x = check_shape("x", x, federation.model_shape)
        # Client by client: faster than one product with all rows stacked, and without a second copy of them.
        right = sum(
            np.sum(client.predictions(x).argmax(axis=1) == client.targets)
            for client in federation.clients
        )
        return float(right / len(federation.targets))

    return measure
