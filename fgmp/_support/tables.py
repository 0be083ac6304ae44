"""Data at the door: matrices, tables and labels as people have them, checked, and as a federation holds them."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss, check_loss
from ..sparse_model import Array
from .optional import needs
from .sparse_features import SparseFeatures, stacked
from .validation import (
    as_array,
    as_numbers,
    check_array,
    check_sequence,
    check_sparse,
    distinct,
    is_missing,
    precision_of,
    short_repr,
)

Labels = tuple[Any, Any]
_MOST_CLASSES = 2**20
_LABELS = (str, bytes, int, float, np.bool_, np.number)


def validate_client_data(
    As: Any, ys: Any, loss: str | Loss, labels: Sequence[Any] | None
) -> tuple[Any, list[Array], Loss, Labels | None]:
    """The rows of all clients, their targets as the loss takes them, the loss, and the labels behind -1 and +1.

    Parameters and errors are those of `Federation.from_arrays`.
    """
    if sparse.issparse(As):
        raise ValueError(
            "As is one sparse matrix; expected a sequence of matrices, one for each client"
        )
    if _is_one_matrix(As):
        raise ValueError(
            "As is one matrix; expected a sequence of matrices, one for each client ([A] for one)"
        )
    given = check_sequence("As", As, "a sequence of matrices, one for each client")
    ys = check_sequence("ys", ys, "a sequence of vectors, one for each client")
    if len(given) != len(ys):
        raise ValueError(
            f"ys has {len(ys)} entries; expected one for each of the {len(given)} matrices of As"
        )
    if not given:
        raise ValueError("As is empty; expected at least one client")
    ys, kept = _coded(loss, ys, labels)
    targets = [check_array(f"ys[{i}]", y, ndim=1) for i, y in enumerate(ys)]
    loss = _loss_named(loss, targets)
    table = _in_one_piece(As)
    matrices = (
        [_features(f"As[{i}]", A) for i, A in enumerate(given)] if table is None else list(table)
    )
    for i, (A, y) in enumerate(zip(matrices, targets, strict=True)):
        if A.shape[1] != matrices[0].shape[1]:
            raise ValueError(
                f"As[{i}] has {A.shape[1]} features; expected {matrices[0].shape[1]}, as As[0]"
            )
        if len(y) != A.shape[0]:
            raise ValueError(
                f"ys[{i}] has {len(y)} entries; expected {A.shape[0]}, the number of rows of As[{i}]"
            )
    targets = [loss.check_targets(f"ys[{i}]", y) for i, y in enumerate(targets)]
    return (
        concatenate_rows(matrices) if table is None else table.reshape(-1, table.shape[2]),
        targets,
        loss,
        kept,
    )


def _is_one_matrix(As: Any) -> bool:
    """Whether what came for all clients is an array or a table of two dimensions, or a list of rows."""
    if getattr(As, "ndim", None) == 2 or len(getattr(As, "shape", ())) == 2:
        return True
    first = As[0] if isinstance(As, (list, tuple)) and len(As) else None
    return isinstance(first, (list, tuple)) and len(first) > 0 and all(map(np.isscalar, first))


def concatenate_rows(matrices: Sequence[Any]) -> Any:
    """The rows of all clients below one another, in one precision; apart where a client's are streamed."""
    precision, kinds = np.result_type(*{A.dtype for A in matrices}), set(map(type, matrices))
    if any(issubclass(kind, LinearOperator) for kind in kinds):
        for i, A in enumerate(matrices):
            if A.dtype != precision:
                raise ValueError(
                    f"As[{i}] is streamed in {A.dtype}; expected {precision}, as other clients have"
                )
        return tuple(matrices)
    if SparseFeatures in kinds:
        return stacked([A.astype(precision, copy=False) for A in matrices])
    if len(matrices) == 1:
        return np.ascontiguousarray(matrices[0])
    table = np.empty(
        (sum(map(len, matrices)), matrices[0].shape[1]), precision
    )  # by rows, however they came
    return np.concatenate(matrices, out=table)


def normalized_weights(weights: Any, n_clients: int) -> Array:
    """Weights p_i that sum to one: none negative, and one positive at least, or a ValueError says what is wrong."""
    found = check_array("weights", weights, ndim=1).astype(np.float64)
    if len(found) != n_clients:
        raise ValueError(
            f"weights has {len(found)} entries; expected one for each of {n_clients} clients"
        )
    if found.min() < 0:
        raise ValueError(
            f"weights[{found.argmin()}] is {found.min():g}; expected no negative weight"
        )
    with np.errstate(over="ignore"):
        if not 0 < found.sum() < np.inf:
            raise ValueError(
                f"weights sum to {found.sum():g}; expected at least one positive, and a finite sum"
            )
    total = math.fsum(found)
    return found if abs(total - 1) <= 4 * np.finfo(float).eps else found / total


def _in_one_piece(block: Any) -> Array | None:
    """One array of all matrices, checked in one pass and not copied; None where it is something else."""
    if (
        type(block) is not np.ndarray
        or block.ndim != 3
        or not block.size
        or block.dtype.kind not in "fiub"
    ):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(block.sum())
    return np.ascontiguousarray(check_array("As", block)) if finite else None


def _features(name: str, features: Any) -> Any:
    """Features as a finite matrix, stored densely or sparsely or streamed, or a ValueError that names them."""
    if isinstance(features, LinearOperator):
        A, precision = features, precision_of(name, features.dtype)
        if A.dtype != precision:
            features = LinearOperator(A.shape, A.matvec, A.rmatvec, A.matmat, precision, A.rmatmat)
    elif sparse.issparse(features):
        features = SparseFeatures(check_sparse(name, features))
    elif not isinstance(features, SparseFeatures):
        features = check_array(name, features, ndim=2)
    if 0 in features.shape:
        raise ValueError(
            f"{name} has shape {features.shape}; expected at least one sample and one feature"
        )
    return features


def _loss_named(loss: str | Loss, targets: list[Array]) -> Loss:
    """The loss object behind a name: ``"squared"``, ``"logistic"`` or ``"softmax"``; an object is returned as it is.

    The number of classes of ``"softmax"`` is one more than the largest label.
    """
    known: dict[str, type[Loss]] = {"squared": SquaredLoss, "logistic": LogisticLoss}
    if not isinstance(loss, str):
        found: Loss = check_loss("loss", loss)
        return found
    if loss == "softmax":
        largest = max((float(y.max()) for y in targets if y.size), default=0.0)
        if largest >= _MOST_CLASSES:
            raise ValueError(
                f"ys hold a larger number; expected integers from 0 to {_MOST_CLASSES - 1}"
            )
        return SoftmaxLoss(max(int(largest) + 1, 2))
    if loss not in known:
        raise ValueError(
            f"loss is {loss!r}; expected one of 'squared', 'logistic', 'softmax', or a loss object"
        )
    return known[loss]()


def _takes_labels(loss: Any) -> bool:
    """Whether the targets of a loss are labels of any kind: those of the logistic loss are."""
    return isinstance(loss, LogisticLoss) or (isinstance(loss, str) and loss == "logistic")


def _coded(
    loss: str | Loss, ys: Sequence[Any], labels: Sequence[Any] | None
) -> tuple[Sequence[Any], Labels | None]:
    """The targets of all clients as the loss knows them, and the two values behind -1 and +1; None for other losses.

    `labels` names what becomes -1, then what becomes +1: by default the two that occur, in increasing order. Where only
    one occurs it has to be -1, 0 or 1 (or a boolean), whose other label is known: 1 alone is one of -1 and 1.
    """
    if not _takes_labels(loss):
        if labels is not None:
            raise ValueError(
                f"labels is {short_repr(labels)}; expected None, because the loss is {loss!r}, no logistic one"
            )
        return ys, None
    found = [_entries(f"ys[{i}]", y) for i, y in enumerate(ys)]
    try:
        values = sorted(set().union(*found))
    except TypeError:
        raise ValueError(
            "ys hold labels of several kinds, such as numbers and text; expected one kind"
        ) from None
    chosen = (
        _known_pair(values)
        if labels is None
        else tuple(check_sequence("labels", labels, "two different values"))
    )
    if len(chosen) != 2 or any(map(is_missing, chosen)) or chosen[0] == chosen[1]:
        raise ValueError(
            f"labels is {short_repr(labels)}; expected two different values, the negative first"
        )
    if any(value not in chosen for value in values):
        i, j = next(
            (i, j) for i, y in enumerate(found) for j, value in enumerate(y) if value not in chosen
        )
        raise ValueError(
            f"ys[{i}][{j}] is no label; expected one of {chosen[0]!r} and {chosen[1]!r}, the labels"
        )
    return [np.array([1.0 if value == chosen[1] else -1.0 for value in y]) for y in found], chosen


def _entries(name: str, y: Any) -> list[Any]:
    """The entries of a vector of numbers, or of objects that are labels."""
    array = as_array(name, y)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected 1 dimension")
    if array.dtype.kind not in "OUS":
        check_array(name, array)
    values: list[Any] = array.tolist()
    for i, value in enumerate(values):
        if not isinstance(value, _LABELS) or value != value:
            what = "nan" if isinstance(value, _LABELS) else f"a {type(value).__name__}"
            raise ValueError(
                f"{name}[{i}] is {what}; expected a label in every row: a number, or text"
            )
    return values


def _known_pair(values: list[Any]) -> Labels:
    """The two labels of which these occur."""
    for usual in ((-1, 1), (0, 1)):
        if set(values) <= set(usual):
            return (False, True) if bool in map(type, values) else usual
    if len(values) != 2:
        raise ValueError(
            f"ys hold {len(values)} different labels; expected two for the logistic loss"
        )
    return values[0], values[1]


def split_by_client(
    df: Any, site: Hashable, target: Hashable, features: Sequence[Hashable] | None, loss: str | Loss
) -> tuple[list[Array], list[Array], tuple[str, ...], tuple[Any, ...]]:
    """The As, the ys, what columns and sites are called, by sorted site; parameters as `Federation.from_frame`."""
    frame = _table_of("df", df)
    if frame is None:
        raise TypeError(
            f"df is a {type(df).__name__}; expected a table, such as a pandas or Polars DataFrame"
        )
    if not len(frame):
        raise ValueError("df has no rows; expected at least one")
    given = check_sequence(
        "features", [] if features is None else features, "a sequence of names of columns"
    )
    for argument, name in [
        ("site", site),
        ("target", target),
        *(("features", name) for name in given),
    ]:
        if not isinstance(name, Hashable) or name not in frame.columns:
            known = ", ".join(map(repr, frame.columns))
            raise ValueError(
                f"{argument}: {short_repr(name)} is not a column; expected one of {known}"
            )
    names = (
        [name for name in frame.columns if name not in (site, target)]
        if features is None
        else given
    )
    if not names:
        raise ValueError(
            f"features is empty, or df has only {site!r} and {target!r}; expected at least one feature"
        )
    if len({site, target, *names}) < 2 + len(names):
        raise ValueError(
            f"features is {short_repr(names)}, site {site!r} and target {target!r}, which overlap; "
            "expected each column once"
        )
    # `frame[name]` would be a row where the name is an integer, and a slice where it is a tuple.
    whose, wanted = frame.get_column(site), frame.get_column(target)
    _refuse_missing(site, whose, "a site")
    values = whose.to_numpy()
    if whose.dtype.is_temporal():  # which NumPy would have without their zone
        values = np.empty(len(whose), object)
        values[:] = whose.to_list()
    sites, codes = distinct(f"column {site!r}", values, "a site")
    A = np.column_stack([_numbers(name, frame.get_column(name)) for name in names])
    if _takes_labels(loss):
        _refuse_missing(target, wanted, "a label")
    y = np.asarray(wanted.to_numpy()) if _takes_labels(loss) else _numbers(target, wanted)
    rows = [np.flatnonzero(codes == code) for code in range(len(sites))]
    return (
        [A[own] for own in rows],
        [y[own] for own in rows],
        tuple(map(str, names)),
        tuple(sites.tolist()),
    )


def _table_of(argument: str, value: Any) -> Any:
    """A table as narwhals has it, and None of anything else.

    A ValueError is raised of a table that waits, or that has a name twice.
    """
    with needs("a table", "narwhals"):
        import narwhals as nw

    try:
        frame = nw.from_native(value, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise ValueError(
                f"{argument} is a {type(value).__name__}; expected its rows, as .collect() gives them"
            )
        names = frame.columns if isinstance(frame, nw.DataFrame) else []
    except nw.exceptions.DuplicateError:
        names = list(value.columns)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"{argument} has more than one column {twice[0]!r}; expected every name once"
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def check_features(X: Any) -> Any:
    """X of an estimator: a table or sparse matrix as it came, anything else as an array of numbers.

    A ValueError names the column of a table that holds no numbers, and shows no data.
    """
    if X is None:
        raise ValueError("X is None; expected a matrix or a table")
    if sparse.issparse(X):
        if X.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: X has dtype {X.dtype}; expected real numbers"
            )
        return X
    frame = _table_of("X", X)
    if frame is not None:
        for column in frame.iter_columns():
            _check_column(column)
        return X
    array = as_numbers("X", X)
    if array.ndim != 2:
        raise ValueError(
            f"X has shape {array.shape}; expected 2 dimensions. Reshape your data: X.reshape(-1, 1) is one feature, "
            "and X.reshape(1, -1) one row"
        )
    return array


def _check_column(column: Any) -> None:
    """Raise a ValueError that names a column of X, where it holds no numbers."""
    import narwhals as nw

    is_number = column.dtype.is_numeric() and not _is_complex(column)
    if not is_number and column.dtype != nw.Boolean and _floats_of(column) is None:
        raise ValueError(
            f"could not convert column {column.name!r} of X to float: it is {_kind_of(column)}. Drop it or encode it "
            "(sklearn.preprocessing.OneHotEncoder)."
        )


def _is_complex(column: Any) -> bool:
    return getattr(getattr(column.to_native(), "dtype", None), "kind", "") == "c"


def _kind_of(column: Any) -> str:
    """What the column holds, in the words of its package where narwhals has none."""
    import narwhals as nw

    if column.dtype != nw.Unknown:
        return str(column.dtype)
    return str(getattr(column.to_native(), "dtype", column.dtype))


def _floats_of(column: Any) -> Array | None:
    """The values of a narwhals column as floats; None where it holds none: a date is no number of nanoseconds."""
    if column.dtype.is_temporal() or _is_complex(column):
        return None
    try:
        values = np.asarray(column.to_numpy())
        return values if values.dtype == np.float32 else values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _numbers(name: Hashable, column: Any) -> Array:
    """The values of a column as finite floats."""
    import narwhals as nw

    if column.dtype == nw.Boolean:  # which is no float where a value is missing
        _refuse_missing(name, column, "a number")
    if (values := _floats_of(column)) is None:
        raise ValueError(f"column {name!r} is {_kind_of(column)}; expected numbers")
    _refuse_missing(name, column, "a number")
    return check_array(f"column {name!r}", values)


def _refuse_missing(name: Hashable, column: Any, expected: str) -> None:
    """Raise a ValueError where values are null, or not a number."""
    missing = (
        (column.is_null() | column.is_nan()).sum()
        if column.dtype.is_float()
        else column.null_count()
    )
    if missing:
        raise ValueError(
            f"column {name!r} has {missing} missing values; expected {expected} in every row"
        )
