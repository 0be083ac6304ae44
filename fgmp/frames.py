"""From a table with a column of sites to the rows of each site, for pandas, Polars and whatever else narwhals reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .checks import check_array, check_sequence, shown
from .labels import takes_labels
from .losses import Loss
from .models import Array


class Rows(NamedTuple):
    """What a table holds for each site, and what its columns and sites are called."""

    As: list[Array]
    ys: list[Array]
    feature_names: tuple[str, ...]
    site_names: tuple[Any, ...]


def rows_by_site(df: Any, site: str, target: str, features: Sequence[str] | None, loss: str | Loss) -> Rows:
    """The rows of each value of the column `site`, sorted; parameters and errors as `Federation.from_frame`."""
    import narwhals as nw

    frame = nw.from_native(df, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"df is a {type(df).__name__}; expected a table, such as a pandas or Polars DataFrame")
    given = check_sequence("features", [] if features is None else features, "a sequence of names of columns")
    for argument, name in [("site", site), ("target", target), *(("features", name) for name in given)]:
        if not isinstance(name, (str, int, tuple)) or name not in frame.columns:
            known = ", ".join(map(repr, frame.columns))
            raise ValueError(f"{argument}: {shown(name)} is not a column; expected one of {known}")
    names = [name for name in frame.columns if name not in (site, target)] if features is None else given
    if not names:
        raise ValueError(f"features is empty, or df has only {site!r} and {target!r}; expected at least one feature")
    if len({site, target, *names}) < 2 + len(names):
        raise ValueError(
            f"features is {shown(names)}, site {site!r} and target {target!r}, which overlap; expected each column once"
        )
    _refuse_missing(site, frame[site], "a site")
    try:
        sites, codes = np.unique(frame[site].to_numpy(), return_inverse=True)
    except TypeError:
        raise ValueError(f"column {site!r} mixes kinds of values; expected sites that can be sorted") from None
    A = np.column_stack([_numbers(name, frame[name]) for name in names])
    if takes_labels(loss):
        _refuse_missing(target, frame[target], "a label")
        y = np.asarray(frame[target].to_numpy())
    else:
        y = _numbers(target, frame[target])
    rows = [np.flatnonzero(codes == code) for code in range(len(sites))]
    As, ys = [A[own] for own in rows], [y[own] for own in rows]
    return Rows(As, ys, tuple(map(str, names)), tuple(sites.tolist()))


def check_columns(X: Any) -> None:
    """Raise a ValueError that names the column of a table that holds no numbers; anything but a table passes."""
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    for column in frame.iter_columns() if isinstance(frame, nw.DataFrame) else ():
        if not column.dtype.is_numeric() and column.dtype != nw.Boolean and _floats_of(column) is None:
            raise ValueError(
                f"could not convert column {column.name!r} of X to float: it is {column.dtype}. Drop it or encode it "
                "(sklearn.preprocessing.OneHotEncoder)."
            )


def _floats_of(column: Any) -> Array | None:
    """The values of a narwhals column as floats; None where it holds none: a date is no number of nanoseconds."""
    if column.dtype.is_temporal():
        return None
    try:
        values = np.asarray(column.to_numpy())
        return values if values.dtype == np.float32 else values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _numbers(name: str, column: Any) -> Array:
    """The values of a column as finite floats."""
    values = _floats_of(column)
    if values is None:
        raise ValueError(f"column {name!r} is {column.dtype}; expected numbers")
    _refuse_missing(name, column, "a number")
    return check_array(f"column {name!r}", values)


def _refuse_missing(name: str, column: Any, expected: str) -> None:
    """Raise a ValueError where values are null, or not a number."""
    missing = (column.is_null() | column.is_nan()).sum() if column.dtype.is_float() else column.null_count()
    if missing:
        raise ValueError(f"column {name!r} has {missing} missing values; expected {expected} in every row")
