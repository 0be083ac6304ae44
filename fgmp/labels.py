"""Labels of two values of any kind, and the -1 and +1 by which the logistic loss knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_array, check_real, check_sequence, shown
from .losses import LogisticLoss, Loss
from .models import Array

__all__ = ["Labels", "code_labels", "coded_for", "labels_behind", "takes_labels"]

Labels = tuple[Any, Any]

_USUAL = ((-1, 1), (0, 1))
_LABELS = (str, bytes, int, float, np.bool_, np.number)


def code_labels(ys: Sequence[Any], labels: Sequence[Any] | None = None) -> tuple[list[Array], Labels]:
    """Labels of all clients as -1.0 and +1.0, and the two values that stand behind these.

    Parameters
    ----------
    ys : sequence of array_like, each of shape (n_samples_i,)
        Numbers, booleans or strings. A client may have one of the two labels only.
    labels : sequence of two values, optional
        What becomes -1, and what becomes +1. By default the two that occur, in increasing order; where only one occurs
        it has to be -1, 0 or 1 (or a boolean), whose other label is known: 1 alone is taken to be one of -1 and 1.

    Returns
    -------
    coded : list of ndarray of float64
    labels : tuple

    Raises
    ------
    ValueError
        Where there are other labels, or not two; the message names the client.
    """
    arrays = [_plain(f"ys[{i}]", y) for i, y in enumerate(ys)]
    chosen = _found(arrays) if labels is None else _given(labels)
    coded = []
    for i, y in enumerate(arrays):
        positive, negative = y == chosen[1], y == chosen[0]
        strange = np.flatnonzero(~(positive | negative))
        if strange.size:
            both = f"{chosen[0]!r} and {chosen[1]!r}"
            raise ValueError(f"ys[{i}][{strange[0]}] is no label; expected one of {both}, the labels")
        coded.append(np.where(positive, 1.0, -1.0))
    return coded, chosen


def takes_labels(loss: Any) -> bool:
    """Whether the targets of a loss are labels of any kind: those of the logistic loss are."""
    return isinstance(loss, LogisticLoss) or (isinstance(loss, str) and loss == "logistic")


def coded_for(loss: str | Loss, ys: Sequence[Any], labels: Sequence[Any] | None) -> tuple[Sequence[Any], Labels | None]:
    """`code_labels` for the logistic loss; for others the targets as they are, and no labels."""
    if takes_labels(loss):
        return code_labels(ys, labels)
    if labels is not None:
        raise ValueError(f"labels is {shown(labels)}; expected None, because the loss is {loss!r}, no logistic one")
    return ys, None


def labels_behind(predictions: ArrayLike, labels: Labels | None) -> Array:
    """The label of each prediction z: the second where z > 0, the first elsewhere."""
    if labels is None:
        raise ValueError("labels is None; expected the two labels of a federation with the logistic loss")
    both = np.array(labels, None if type(labels[0]) is type(labels[1]) else object)
    behind: Array = both[(check_real("predictions", predictions) > 0).astype(np.intp)]
    return behind


def _plain(name: str, y: Any) -> Array:
    """A vector that can be compared with labels."""
    try:
        array: Array = np.asarray(y)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name} is a {type(y).__name__}; expected a vector of labels") from None
    if array.dtype.kind == "f" or np.ma.is_masked(y):
        return check_array(name, y, ndim=1)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected 1 dimension")
    if array.dtype.kind not in "biuO":
        raise ValueError(f"{name} has dtype {array.dtype}; expected labels: numbers, booleans or strings")
    for i, value in enumerate(array if array.dtype.kind == "O" else ()):
        if not isinstance(value, _LABELS) or value != value:
            found = "nan" if isinstance(value, _LABELS) else f"a {type(value).__name__}"
            raise ValueError(f"{name}[{i}] is {found}; expected a label in every row: a number, or text")
    return array


def _found(arrays: list[Array]) -> Labels:
    """The two labels that occur."""
    values = {value for y in arrays for value in set(y.tolist())}
    for usual in _USUAL:
        if values <= set(usual):
            return (False, True) if all(y.dtype.kind == "b" for y in arrays) else usual
    if len(values) != 2:
        raise ValueError(f"ys hold {len(values)} different labels; expected two for the logistic loss")
    try:
        first, second = sorted(values)
    except TypeError:
        first, second = sorted(type(value).__name__ for value in values)
        raise ValueError(f"ys hold a {first} and a {second} as labels; expected one kind") from None
    return first, second


def _given(labels: Sequence[Any]) -> Labels:
    expected = "two different values, the negative first"
    given = check_sequence("labels", labels, expected)
    if len(given) != 2 or not all(isinstance(label, _LABELS) for label in given) or given[0] == given[1]:
        raise ValueError(f"labels is {shown(labels)}; expected {expected}")
    first, second = (label.item() if isinstance(label, np.generic) else label for label in given)
    return first, second
