"""From a table with a column of sites to a federation, for pandas, Polars and whatever else narwhals reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_sequence, shown
from .labels import takes_labels
from .losses import Loss
from .models import Array

if TYPE_CHECKING:
    from .federation import Federation

__all__ = ["federation_from_frame", "floats_of", "kind_of"]

_NAMES = (str, int, tuple)


def federation_from_frame(
    cls: type[Federation],
    df: Any,
    *,
    site: str,
    target: str,
    features: Sequence[str] | None = None,
    loss: str | Loss = "squared",
    weights: ArrayLike | None = None,
) -> Federation:
    """Build a federation from a table: one client for each value of the column `site`.

    Parameters
    ----------
    df : pandas.DataFrame, polars.DataFrame or another table that narwhals reads
        It is not modified.
    site : str
        The column that says whose row it is.
    target : str
        The column of the targets y: labels as the loss wants them, see `from_arrays`.
    features : sequence of str, optional
        The columns of the matrices A_i, in this order; all but `site` and `target` by default.
    loss, weights
        As in `from_arrays`; the weights in the order of the sorted sites.

    Returns
    -------
    Federation
        With ``feature_names`` and ``site_names``, the sorted values of `site`. float32 columns stay float32 where all
        are.

    Raises
    ------
    TypeError
        Where `df` is not a table.
    ValueError
        Where a column is missing, holds no numbers (no labels), or has values that are missing or infinite; the message
        names it.
    """
    import narwhals as nw

    frame = nw.from_native(df, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"df is a {type(df).__name__}; expected a table, such as a pandas or Polars DataFrame")
    columns = list(frame.columns)
    for argument, named in (("site", site), ("target", target)):
        if not isinstance(named, _NAMES):
            raise ValueError(f"{argument} is {shown(named)}; expected the name of a column")
    names = [name for name in columns if name not in (site, target)]
    if features is not None:
        names = check_sequence("features", features, "a sequence of names of columns")
    for argument, wanted in (("site", [site]), ("target", [target]), ("features", names)):
        for name in wanted:
            known = isinstance(name, _NAMES) and name in columns
            if not known or columns.count(name) != 1:
                found = "names several columns" if known else "is not a column"
                raise ValueError(f"{argument}: {shown(name)} {found}; expected one of {', '.join(map(repr, columns))}")
    if not names:
        raise ValueError(
            f"features is empty, or df has no columns but {site!r} and {target!r}; expected at least one feature"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"features is {shown(names)}; expected each column once")
    if site in names or target in names or site == target:
        raise ValueError(f"features, site={site!r} and target={target!r} overlap; expected each column in one role")
    missing = _missing(frame[site])
    if missing.any():
        raise ValueError(f"column {site!r} has {missing.sum()} missing values; expected a site in every row")
    try:
        labels, codes = np.unique(frame[site].to_numpy(), return_inverse=True)
    except TypeError:
        raise ValueError(f"column {site!r} mixes kinds of values; expected sites that can be sorted") from None
    A = np.column_stack([_numbers(name, frame[name]) for name in names])
    y = _labels(target, frame[target]) if takes_labels(loss) else _numbers(target, frame[target])
    rows = [np.flatnonzero(codes == code) for code in range(len(labels))]
    built = cls.from_arrays([A[own] for own in rows], [y[own] for own in rows], loss, weights)
    return replace(built, feature_names=tuple(map(str, names)), site_names=tuple(labels.tolist()))


def floats_of(column: Any) -> Array | None:
    """The values of a narwhals column as floats; None where it holds none: a date is no number of nanoseconds."""
    if column.dtype.is_temporal():
        return None
    try:
        values = np.asarray(column.to_numpy())
        return values if values.dtype == np.float32 else values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def kind_of(column: Any) -> str:
    """What a narwhals column holds, for messages."""
    return str(column.dtype)


def _numbers(name: str, column: Any) -> Array:
    """The values of a column as finite floats."""
    values = floats_of(column)
    if values is None:
        raise ValueError(f"column {name!r} is {kind_of(column)}; expected numbers")
    missing = np.isnan(values)
    if missing.any():
        raise ValueError(f"column {name!r} has {missing.sum()} missing values; expected a number in every row")
    if not np.isfinite(values).all():
        raise ValueError(f"column {name!r} has {np.isinf(values).sum()} infinite values; expected finite numbers")
    return values


def _labels(name: str, column: Any) -> Array:
    """The values of a column as they are."""
    missing = _missing(column)
    if missing.any():
        raise ValueError(f"column {name!r} has {missing.sum()} missing values; expected a label in every row")
    return np.asarray(column.to_numpy())


def _missing(column: Any) -> Array:
    """Which values are missing: null, or not a number."""
    missing = np.asarray(column.is_null().to_numpy())
    return missing | np.asarray(column.is_nan().to_numpy(), bool) if column.dtype.is_float() else missing
