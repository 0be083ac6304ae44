"""Measures of a model for the history of a run, on the training clients or on others."""

from collections.abc import Callable

import numpy as np

from .._support.validation import check_kind, check_shape
from ..data import Federation
from ..sparse_model import Array


def accuracy_on(federation: Federation) -> Callable[[Array], float]:
    """Return the accuracy on a federation as a function of the model.

    The accuracy is the fraction of rows, over all clients, whose label has the largest prediction.
    Of equal predictions the one of the lower class counts, so that x = 0 predicts class 0 for every
    row. A history records it as ``History(metrics={"unseen": accuracy_on(test)})``.

    Parameters
    ----------
    federation : Federation
        Its loss has classes, as `SoftmaxLoss` does: `n_classes` of them, the labels 0, 1, ..., and
        a model with one column for each.

    Returns
    -------
    callable (x) -> float
        Takes x of shape (n_features, n_classes) and returns a number from 0 to 1.

    Raises
    ------
    ValueError
        If the loss has no classes, or, from the function, if x has another shape.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> test = fgmp.Federation.from_arrays([np.eye(2)], [[0, 1]], fgmp.SoftmaxLoss(2))
    >>> accuracy = fgmp.accuracy_on(test)
    >>> accuracy(np.zeros((2, 2))), accuracy(np.eye(2))
    (0.5, 1.0)
    """
    check_kind("federation", federation, Federation, "a Federation with SoftmaxLoss")
    if getattr(federation.loss, "n_classes", None) is None:
        raise ValueError(
            f"federation has the loss {federation.loss!r}; "
            "expected one with n_classes, such as SoftmaxLoss"
        )

    def accuracy(x: Array) -> float:
        x = check_shape("x", x, federation.model_shape)
        # Client by client: one product of all rows is slower, and copies them.
        n_correct = sum(
            np.count_nonzero(client.predictions(x).argmax(axis=1) == client.targets)
            for client in federation.clients
        )
        return float(n_correct / len(federation.targets))

    return accuracy
