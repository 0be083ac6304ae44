"""Validation of updates, which may come from strangers: why the server does without one.

`fgmp.UpdateSpec` says what an update has to look like, and asks here whether it does.
"""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .sparse_model import IndexArray, SparseModel

if TYPE_CHECKING:
    from .aggregation import UpdateSpec


class RejectReason(StrEnum):
    """Why the server does without an update; a member equals its string and prints as it.

    Examples
    --------
    >>> import fgmp
    >>> import numpy as np
    >>> reason = fgmp.UpdateSpec(shape=(2,)).validate(np.array([1.0, np.nan]))
    >>> reason is fgmp.RejectReason.NOT_FINITE, reason == "not_finite"
    (True, True)
    >>> print(*fgmp.RejectReason)
    missing late not_finite malformed indices too_many withheld
    """

    MISSING = "missing"
    LATE = "late"
    NOT_FINITE = "not_finite"
    MALFORMED = "malformed"
    INDICES = "indices"  # out of range, repeated, or not in order
    TOO_MANY = "too_many"
    WITHHELD = "withheld"  # by secure sums, see `SecureSum`


class Rejected(NamedTuple):
    """What a transport returns in place of an update that the server has to do without."""

    reason: RejectReason = RejectReason.MISSING


def reason_to_reject(update_spec: UpdateSpec, update: Any) -> RejectReason | None:
    """Return why an update has to be rejected, or None if it is as the spec describes it."""
    if update is None:
        return RejectReason.MISSING
    if isinstance(update, Rejected):
        return RejectReason(update.reason)
    if not _has_layout(update_spec, update):
        return RejectReason.MALFORMED

    values = update.values if isinstance(update, SparseModel) else update
    if not np.isfinite(values).all():
        return RejectReason.NOT_FINITE
    if isinstance(update, SparseModel):
        return _validate_support(update_spec, update.support)
    return None


def _has_layout(update_spec: UpdateSpec, update: Any) -> bool:
    """Whether an update has the kind, the type and the shape of a spec."""
    is_sparse = isinstance(update, SparseModel)
    if is_sparse != (update_spec.most is not None):
        return False
    values = update.values if is_sparse else update
    if not isinstance(values, np.ndarray) or values.dtype != update_spec.dtype:
        return False
    if update.shape != update_spec.shape:
        return False
    return not is_sparse or _is_index_vector(update.support, values.shape)


def _validate_support(update_spec: UpdateSpec, support: IndexArray) -> RejectReason | None:
    """Check that indices are in range, increasing, and no more than there may be."""
    if not len(support):
        return None
    shape = update_spec.shape
    most = update_spec.most
    in_range = support[0] >= 0 and support[-1] < prod(shape)
    if not in_range or (support[1:] <= support[:-1]).any():
        return RejectReason.INDICES
    if most is not None and not update_spec.selection.holds(support, shape, most):
        return RejectReason.TOO_MANY
    return None


def _is_index_vector(support: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are indices, one for each value."""
    if not isinstance(support, np.ndarray) or support.dtype.kind != "i":
        return False
    return bool(support.shape == shape == (support.size,))
