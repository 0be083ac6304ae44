"""Validate matrices, tables and labels, and convert them to the arrays of a `Federation`."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from .sparse_features import SparseFeatures
from .tables import (
    column_of_numbers,
    concatenate_rows,
    read_table,
    refuse_missing_rows,
)
from .validation import (
    as_labels,
    check_array,
    check_sequence,
    check_sparse,
    distinct,
    is_missing,
    precision_of,
    short_repr,
)

if TYPE_CHECKING:
    import narwhals as nw

Array = NDArray[Any]
IndexArray = NDArray[np.intp]

# The values behind -1 and +1: numbers, text or booleans.
Labels = tuple[Any, Any]


class ClientTables(NamedTuple):
    """The rows of a table by client, in the order of the sorted clients."""

    matrices: list[Array]
    targets: list[Array]
    feature_names: tuple[str, ...]
    client_names: tuple[Any, ...]


def stacked_features(As: Any, matrices: Sequence[Any], targets: Sequence[Array]) -> Any:
    """Check the matrices of all clients, and return their rows, one client after another.

    Parameters
    ----------
    As : sequence, or ndarray of shape (n_clients, n_samples, n_features)
        As `Federation.from_arrays` was given it. One array is not copied.
    matrices : sequence
        The same, one for each client.
    targets : sequence of ndarray
        Of which there has to be one for each row.

    Returns
    -------
    ndarray, SparseFeatures, or tuple
        A tuple has one part for each client, if features are streamed.
    """
    block = _check_block(As)
    if block is not None:
        _check_shapes(list(block), targets)
        return block.reshape(-1, block.shape[2])
    checked = [_check_matrix(f"As[{i}]", A) for i, A in enumerate(matrices)]
    _check_shapes(checked, targets)
    return concatenate_rows(checked)


def check_sequences(As: Any, ys: Any) -> tuple[list[Any], list[Any]]:
    """Return what came for each client as two lists of equal length, or raise a ValueError."""
    if _is_one_matrix(As):
        raise ValueError(
            "As is one matrix; expected a sequence of matrices, one for each client ([A] for one)"
        )
    matrices = check_sequence("As", As, "a sequence of matrices, one for each client")
    targets = check_sequence("ys", ys, "a sequence of vectors, one for each client")
    if len(matrices) != len(targets):
        raise ValueError(
            f"ys has {len(targets)} entries; expected one for each of the {len(matrices)} "
            "matrices of As"
        )
    if not matrices:
        raise ValueError("As is empty; expected at least one client")
    return matrices, targets


def check_client_indices(indices: Any, n_clients: int) -> IndexArray:
    """Return indices of clients, increasing, or raise a ValueError.

    Parameters
    ----------
    indices : int, sequence of int, slice, or array of bool of shape (n_clients,)
    n_clients : int
    """
    given = indices if isinstance(indices, slice) else np.atleast_1d(np.asarray(indices))
    try:
        selected = np.sort(np.arange(n_clients)[given])
    except IndexError:  # beyond the clients, or neither integers nor one truth value for each
        selected = np.arange(0)
    if selected.ndim > 1 or not selected.size or len(np.unique(selected)) < len(selected):
        raise ValueError(
            f"indices is {short_repr(indices)}; expected integers below {n_clients}, a slice, or "
            f"{n_clients} truth values, of at least one client, and of none twice"
        )
    return selected


def check_precision_of_targets(targets: Sequence[Array], dtype: np.dtype[Any]) -> None:
    """Raise a ValueError if targets of a client overflow in the precision of the features."""
    for index, y in enumerate(targets):
        if np.abs(y).max(initial=0.0) > np.finfo(dtype).max:
            raise ValueError(
                f"ys[{index}] holds numbers beyond {dtype}, the precision of As; "
                "expected As in float64, or ys in another unit"
            )


def _is_one_matrix(As: Any) -> bool:
    """Return whether the data of all clients are one matrix: array, table or list of rows."""
    if getattr(As, "ndim", None) == 2 or len(getattr(As, "shape", ())) == 2:
        return True
    first = As[0] if isinstance(As, (list, tuple)) and len(As) else None
    return isinstance(first, (list, tuple)) and len(first) > 0 and all(map(np.isscalar, first))


def _check_block(As: Any) -> Array | None:
    """Return one array of the matrices of all clients, not copied, or None if `As` is none.

    It is checked in one pass. None is also returned if that fails, so that the check of each client
    can name it.
    """
    if type(As) is not np.ndarray or As.ndim != 3 or not As.size:
        return None
    try:
        return np.ascontiguousarray(check_array("As", As))
    except ValueError:
        return None


def _check_matrix(name: str, features: Any) -> Any:
    """Return a matrix that is finite, dense or sparse or streamed, or raise a ValueError."""
    if isinstance(features, LinearOperator):
        matrix = _in_float_precision(name, features)
    elif isinstance(features, SparseFeatures):
        matrix = features
    elif sparse.issparse(features):
        matrix = SparseFeatures(check_sparse(name, features))
    else:
        matrix = check_array(name, features, ndim=2)
    if 0 in matrix.shape:
        raise ValueError(
            f"{name} has shape {matrix.shape}; expected at least one sample and one feature"
        )
    return matrix


def _in_float_precision(name: str, operator: LinearOperator) -> LinearOperator:
    """Return a streamed matrix that says float32 or float64 of itself."""
    precision = precision_of(name, operator.dtype)
    if operator.dtype == precision:
        return operator
    in_precision = copy.copy(operator)
    in_precision.dtype = precision
    return in_precision


def _check_shapes(matrices: Sequence[Any], targets: Sequence[Array]) -> None:
    """Raise a ValueError if matrices differ in features, or a matrix and its targets in rows."""
    n_features = matrices[0].shape[1]
    for i, (A, y) in enumerate(zip(matrices, targets, strict=True)):
        if A.shape[1] != n_features:
            raise ValueError(f"As[{i}] has {A.shape[1]} features; expected {n_features}, as As[0]")
        if len(y) != A.shape[0]:
            raise ValueError(
                f"ys[{i}] has {len(y)} entries; expected {A.shape[0]}, "
                f"the number of rows of As[{i}]"
            )


def encode_labels(ys: Sequence[Any], labels: Sequence[Any] | None) -> tuple[list[Any], Labels]:
    """Return targets of -1 and +1, and the labels behind these.

    Parameters
    ----------
    ys : sequence of array_like
    labels : sequence of two values, optional
        The label that becomes -1, and the one that becomes +1. By default the two that occur, in
        increasing order. If only one occurs, it has to be -1, 0, 1 or a boolean, of which the other
        label is known. A 1 alone is one of -1 and 1.
    """
    targets = [_label_list(f"ys[{i}]", y) for i, y in enumerate(ys)]
    try:
        occurring = sorted(set().union(*targets))
    except TypeError:
        raise ValueError(
            "ys hold labels of several kinds, such as numbers and text; expected one kind"
        ) from None
    pair = _guess_labels(occurring) if labels is None else _check_labels(labels)
    for i, values in enumerate(targets):
        strange = [j for j, value in enumerate(values) if value not in pair]
        if strange:
            raise ValueError(
                f"ys[{i}][{strange[0]}] is no label; expected one of {pair[0]!r} and {pair[1]!r}, "
                "the labels"
            )
    encoded = [np.array([1.0 if value == pair[1] else -1.0 for value in y]) for y in targets]
    return encoded, pair


def _label_list(name: str, y: Any) -> list[Any]:
    """Return the entries of a vector of labels."""
    array = as_labels(name, y, "a label")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected 1 dimension")
    if array.dtype.kind not in "OUS":
        check_array(name, array)
    values: list[Any] = array.tolist()
    return values


def _guess_labels(occurring: list[Any]) -> Labels:
    """Return the two labels to which the occurring ones belong, the negative first."""
    for pair in ((-1, 1), (0, 1)):
        if set(occurring) <= set(pair):
            is_boolean = any(isinstance(value, bool) for value in occurring)
            return (False, True) if is_boolean else pair
    if len(occurring) != 2:
        raise ValueError(
            f"ys hold {len(occurring)} different labels; expected two for the logistic loss"
        )
    first, second = occurring
    return first, second


def _check_labels(labels: Any) -> Labels:
    """Return the given labels as a pair of different values, or raise a ValueError."""
    pair = tuple(check_sequence("labels", labels, "two different values", ordered=True))
    if len(pair) != 2 or any(map(is_missing, pair)) or pair[0] == pair[1]:
        raise ValueError(
            f"labels is {short_repr(labels)}; expected two different values, the negative first"
        )
    first, second = pair
    return first, second


def split_by_client(
    df: Any,
    site: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None,
    takes_labels: bool,
) -> ClientTables:
    """Split the rows of a table by client.

    The parameters are those of `Federation.from_frame`, and whether the targets are labels.
    """
    frame = read_table("df", df)
    if frame is None:
        raise TypeError(
            f"df is a {type(df).__name__}; expected a table, such as a pandas or Polars DataFrame"
        )
    if not len(frame):
        raise ValueError("df has no rows; expected at least one")
    names = _feature_columns(frame, site, target, features)

    # A name need not be text: `frame[name]` would be a row for an integer, a slice for a tuple.
    column: Any = frame.get_column
    client_names, codes = _clients_of_rows(site, column(site))
    A = np.column_stack([column_of_numbers(name, column(name)) for name in names])
    y = _column_of_targets(target, column(target), takes_labels)
    rows_of_clients = [np.flatnonzero(codes == code) for code in range(len(client_names))]
    return ClientTables(
        matrices=[A[rows] for rows in rows_of_clients],
        targets=[y[rows] for rows in rows_of_clients],
        feature_names=tuple(map(str, names)),
        client_names=tuple(client_names.tolist()),
    )


def _feature_columns(
    frame: nw.DataFrame[Any],
    site: Hashable,
    target: Hashable,
    features: Sequence[Hashable] | None,
) -> list[Any]:
    """Return the names of the feature columns, or raise a ValueError if a column is missing."""
    _check_column_exists(frame, "site", site)
    _check_column_exists(frame, "target", target)
    names: list[Any] = [name for name in frame.columns if name not in (site, target)]
    if features is not None:
        expected = "a sequence of names of columns"
        names = check_sequence("features", features, expected, ordered=True)
        for name in names:
            _check_column_exists(frame, "features", name)
    if not names:
        raise ValueError(
            f"features is empty, or df has only {site!r} and {target!r}; "
            "expected at least one feature"
        )
    if len({site, target, *names}) < 2 + len(names):
        raise ValueError(
            f"features is {short_repr(names)}, site {site!r} and target {target!r}, which overlap; "
            "expected each column once"
        )
    return names


def _check_column_exists(frame: nw.DataFrame[Any], argument: str, name: Any) -> None:
    """Raise a ValueError if a table has no column of a name."""
    if not isinstance(name, Hashable) or name not in frame.columns:
        known = ", ".join(map(repr, frame.columns))
        raise ValueError(f"{argument}: {short_repr(name)} is not a column; expected one of {known}")


def _clients_of_rows(site: Hashable, column: nw.Series[Any]) -> tuple[Array, IndexArray]:
    """Return the sorted names of the clients, and for each row the index of its client."""
    refuse_missing_rows(site, column, "a site")
    if column.dtype.is_temporal():
        # As objects, because NumPy would lose the time zone.
        values = np.empty(len(column), object)
        values[:] = column.to_list()
    else:
        values = column.to_numpy()
    return distinct(f"column {site!r}", values, "a site")


def _column_of_targets(name: Hashable, column: nw.Series[Any], takes_labels: bool) -> Array:
    """Return the targets: labels as they are, or numbers."""
    if takes_labels:
        refuse_missing_rows(name, column, "a label")
        return np.asarray(column.to_numpy())
    return column_of_numbers(name, column)
