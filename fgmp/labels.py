"""Labels of two values of any kind, and the -1 and +1 by which the logistic loss knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .checks import as_array, check_array, check_sequence, shown
from .losses import LogisticLoss, Loss
from .models import Array

Labels = tuple[Any, Any]
_LABELS = (str, bytes, int, float, np.bool_, np.number)


def takes_labels(loss: Any) -> bool:
    """Whether the targets of a loss are labels of any kind: those of the logistic loss are."""
    return isinstance(loss, LogisticLoss) or (isinstance(loss, str) and loss == "logistic")


def coded_for(loss: str | Loss, ys: Sequence[Any], labels: Sequence[Any] | None) -> tuple[Sequence[Any], Labels | None]:
    """The targets of all clients as the loss knows them, and the two values behind -1 and +1; None for other losses.

    `labels` names what becomes -1, then what becomes +1: by default the two that occur, in increasing order. Where only
    one occurs it has to be -1, 0 or 1 (or a boolean), whose other label is known: 1 alone is one of -1 and 1.
    """
    if not takes_labels(loss):
        if labels is not None:
            raise ValueError(f"labels is {shown(labels)}; expected None, because the loss is {loss!r}, no logistic one")
        return ys, None
    from sklearn.preprocessing import LabelEncoder  # takes a second

    arrays = [_plain(f"ys[{i}]", y) for i, y in enumerate(ys)]
    encoder = LabelEncoder()
    try:
        codes = encoder.fit_transform(np.concatenate(arrays))
    except TypeError:
        raise ValueError("ys hold labels of several kinds, such as numbers and text; expected one kind") from None
    values = encoder.classes_.tolist()
    chosen = _known_pair(values) if labels is None else tuple(check_sequence("labels", labels, "two different values"))
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise ValueError(f"labels is {shown(labels)}; expected two different values, the negative first")
    for i, y in enumerate(arrays if any(value not in chosen for value in values) else ()):
        for j, value in enumerate(y.tolist()):
            if value not in chosen:
                expected = f"{chosen[0]!r} and {chosen[1]!r}"
                raise ValueError(f"ys[{i}][{j}] is no label; expected one of {expected}, the labels")
    signs = np.array([1.0 if value == chosen[1] else -1.0 for value in values])
    return np.split(signs[codes], np.cumsum([len(y) for y in arrays[:-1]])), chosen


def _plain(name: str, y: Any) -> Array:
    """A vector of numbers, or of objects that are labels."""
    array = as_array(name, y)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected 1 dimension")
    if array.dtype.kind not in "OUS":
        check_array(name, array)
        return array
    for i, value in enumerate(array.tolist()):
        if not isinstance(value, _LABELS) or value != value:
            found = "nan" if isinstance(value, _LABELS) else f"a {type(value).__name__}"
            raise ValueError(f"{name}[{i}] is {found}; expected a label in every row: a number, or text")
    return array.astype(object)


def _known_pair(values: list[Any]) -> Labels:
    """The two labels of which these occur."""
    for usual in ((-1, 1), (0, 1)):
        if set(values) <= set(usual):
            return (False, True) if bool in map(type, values) else usual
    if len(values) != 2:
        raise ValueError(f"ys hold {len(values)} different labels; expected two for the logistic loss")
    return values[0], values[1]
