"""What a user gives, checked in scikit-learn's own style: the message names the parameter, the column or the length."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import column_or_1d

from ..advice import SmallSiteWarning, advise
from ..checks import shown
from ..frames import floats_of, kind_of
from ..models import Array, Support

__all__ = [
    "check_columns",
    "check_integer_parameter",
    "check_number_parameter",
    "group_codes",
    "refuse",
    "warn_constant",
    "without_small",
]

_SHOWN, _NAMED = 20, 5


def refuse(estimator: Any, name: str, expected: str, got: Any) -> None:
    """Raise the ValueError that scikit-learn raises for a parameter."""
    kind = type(estimator).__name__
    raise ValueError(f"The {name!r} parameter of {kind} must be {expected}. Got {shown(got)} instead.")


def check_integer_parameter(estimator: Any, name: str, *, at_most: int | None = None, why: str = "") -> None:
    """Refuse a parameter that is not an int of at least 1 (and at most `at_most`)."""
    value = getattr(estimator, name)
    upper = "inf)" if at_most is None else f"{at_most}]{why}"
    fits = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
    if not fits or (at_most is not None and int(value) > at_most):
        refuse(estimator, name, f"an int in the range [1, {upper}", value)


def check_number_parameter(estimator: Any, name: str) -> None:
    """Refuse a parameter that is not a finite number of at least 0."""
    value = getattr(estimator, name)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= getattr(estimator, name) < np.inf:
        refuse(estimator, name, "a float in the range [0.0, inf)", value)


def check_columns(X: Any) -> None:
    """Raise a ValueError that names the columns of a table that hold no numbers; anything but a table passes."""
    if not hasattr(X, "columns"):
        return
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
    for name, column in zip(frame.columns, frame.iter_columns(), strict=True):
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            continue
        if floats_of(column) is None:
            raise ValueError(
                f"could not convert column {name!r} of X to float: it is {kind_of(column)}. Drop it or encode it "
                "(sklearn.preprocessing.OneHotEncoder)."
            )


def group_codes(X: Any, groups: Any) -> tuple[Array, Support]:
    """The distinct groups, sorted, and the place of each row's group among them; one group where there are none."""
    n_samples = X.shape[0]
    if groups is None:
        return np.zeros(1, np.intp), np.zeros(n_samples, np.intp)
    try:
        shape = np.shape(groups)
    except ValueError:
        raise ValueError(f"groups should be a 1d array, got {shown(groups)} instead.") from None
    if len(shape) != 1 and not (len(shape) == 2 and shape[1] == 1):
        raise ValueError(f"groups should be a 1d array, got {shown(groups)} of shape {shape} instead.")
    groups = column_or_1d(np.asarray(groups), input_name="groups")
    check_consistent_length(X, groups)
    missing = np.isnan(groups).any() if groups.dtype.kind == "f" else False
    for value in groups if missing or groups.dtype.kind == "O" else ():
        if _is_missing(value):
            raise ValueError(f"Input groups contains {_name_of(value)}: every row needs a group.")
    try:
        labels, codes = np.unique(groups, return_inverse=True)
    except TypeError:
        raise ValueError(f"groups is {shown(groups)}; expected values of one kind, that can be sorted") from None
    return labels, codes.astype(np.intp)


def without_small(weights: Array, labels: Array, codes: Support, least: int) -> Array:
    """The weights, zero in groups with fewer than `least` rows that weigh, which a warning names."""
    counts = np.bincount(codes[weights > 0], minlength=len(labels))
    small = np.flatnonzero((counts > 0) & (counts < least))
    if not len(small):
        return weights
    named = ", ".join(map(repr, labels[small][:_NAMED].tolist())) + ", ..." * (len(small) > _NAMED)
    which = f"{len(small)} of {np.count_nonzero(counts)} groups have fewer than min_rows={least} rows ({named})"
    if not (counts >= least).any():
        raise ValueError(f"{which}, and none is left to fit; larger groups, or a smaller min_rows, are needed")
    advise(f"{which}: they send nothing and take no part; a smaller min_rows lets them", SmallSiteWarning)
    return np.where(np.isin(codes, small), 0, weights)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # the missing value of pandas is neither equal to itself nor different
        return True


def _name_of(missing: Any) -> str:
    return "NaN" if isinstance(missing, Real) else str(missing)


def warn_constant(constant: Array, names: Sequence[str] | None) -> None:
    """Warn of constant columns, as scikit-learn's univariate selection does."""
    places = np.flatnonzero(constant)
    if len(places):
        some = places[:_SHOWN]
        called = [str(names[int(j)]) for j in some] if names is not None else some.tolist()
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        warnings.warn(f"Features {called}{more} are constant: their coefficients are zero.", UserWarning, stacklevel=4)
