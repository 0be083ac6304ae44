"""Data at the door: matrices, tables and labels as people have them, checked, and as a federation holds them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from .checks import as_array, check_array, check_sequence, check_sparse, precision_of, shown
from .losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss, check_loss
from .models import Array
from .sparse_features import SparseFeatures, stacked

Labels = tuple[Any, Any]
_MOST_CLASSES = 2**20
_LABELS = (str, bytes, int, float, np.bool_, np.number)


def checked(
    As: Any, ys: Any, loss: str | Loss, labels: Sequence[Any] | None
) -> tuple[Any, list[Array], Loss, Labels | None]:
    """The rows of all clients, their targets as the loss takes them, the loss, and the labels behind -1 and +1.

    Parameters and errors are those of `Federation.from_arrays`.
    """
    if sparse.issparse(As):
        raise ValueError("As is one sparse matrix; expected a sequence of matrices, one for each client")
    given = check_sequence("As", As, "a sequence of matrices, one for each client")
    ys = check_sequence("ys", ys, "a sequence of vectors, one for each client")
    if len(given) != len(ys):
        raise ValueError(f"ys has {len(ys)} entries; expected one for each of the {len(given)} matrices of As")
    if not given:
        raise ValueError("As is empty; expected at least one client")
    ys, kept = _coded(loss, ys, labels)
    targets = [check_array(f"ys[{i}]", y, ndim=1) for i, y in enumerate(ys)]
    loss = _loss_named(loss, targets)
    table = _in_one_piece(As)
    matrices = [_features(f"As[{i}]", A) for i, A in enumerate(given)] if table is None else list(table)
    for i, (A, y) in enumerate(zip(matrices, targets, strict=True)):
        if A.shape[1] != matrices[0].shape[1]:
            raise ValueError(f"As[{i}] has {A.shape[1]} features; expected {matrices[0].shape[1]}, as As[0]")
        if len(y) != A.shape[0]:
            raise ValueError(f"ys[{i}] has {len(y)} entries; expected {A.shape[0]}, the number of rows of As[{i}]")
    targets = [loss.check_targets(f"ys[{i}]", y) for i, y in enumerate(targets)]
    return joined(matrices) if table is None else table.reshape(-1, table.shape[2]), targets, loss, kept


def joined(matrices: Sequence[Any]) -> Any:
    """The rows of all clients below one another, in one precision; apart where a client's are streamed."""
    precision, kinds = np.result_type(*{A.dtype for A in matrices}), set(map(type, matrices))
    if any(issubclass(kind, LinearOperator) for kind in kinds):
        for i, A in enumerate(matrices):
            if A.dtype != precision:
                raise ValueError(f"As[{i}] is streamed in {A.dtype}; expected {precision}, as other clients have")
        return tuple(matrices)
    if SparseFeatures in kinds:
        return stacked([A.astype(precision, copy=False) for A in matrices])
    if len(matrices) == 1:
        return np.ascontiguousarray(matrices[0])
    table = np.empty((sum(map(len, matrices)), matrices[0].shape[1]), precision)  # by rows, however they came
    return np.concatenate(matrices, out=table)


def scaled(weights: Any, n_clients: int) -> Array:
    """Weights p_i that sum to one: none negative, and one positive at least, or a ValueError says what is wrong."""
    found = check_array("weights", weights, ndim=1).astype(np.float64)
    if len(found) != n_clients:
        raise ValueError(f"weights has {len(found)} entries; expected one for each of {n_clients} clients")
    if found.min() < 0:
        raise ValueError(f"weights[{found.argmin()}] is {found.min():g}; expected no negative weight")
    with np.errstate(over="ignore"):
        if not 0 < found.sum() < np.inf:
            raise ValueError(f"weights sum to {found.sum():g}; expected at least one positive, and a finite sum")
    total = math.fsum(found)
    return found if abs(total - 1) <= 4 * np.finfo(float).eps else found / total


def _in_one_piece(block: Any) -> Array | None:
    """One array of all matrices, checked in one pass and not copied; None where it is something else."""
    if type(block) is not np.ndarray or block.ndim != 3 or not block.size or block.dtype.kind not in "fiub":
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
        raise ValueError(f"{name} has shape {features.shape}; expected at least one sample and one feature")
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
            raise ValueError(f"ys hold a larger number; expected integers from 0 to {_MOST_CLASSES - 1}")
        return SoftmaxLoss(max(int(largest) + 1, 2))
    if loss not in known:
        raise ValueError(f"loss is {loss!r}; expected one of 'squared', 'logistic', 'softmax', or a loss object")
    return known[loss]()


def _takes_labels(loss: Any) -> bool:
    """Whether the targets of a loss are labels of any kind: those of the logistic loss are."""
    return isinstance(loss, LogisticLoss) or (isinstance(loss, str) and loss == "logistic")


def _coded(loss: str | Loss, ys: Sequence[Any], labels: Sequence[Any] | None) -> tuple[Sequence[Any], Labels | None]:
    """The targets of all clients as the loss knows them, and the two values behind -1 and +1; None for other losses.

    `labels` names what becomes -1, then what becomes +1: by default the two that occur, in increasing order. Where only
    one occurs it has to be -1, 0 or 1 (or a boolean), whose other label is known: 1 alone is one of -1 and 1.
    """
    if not _takes_labels(loss):
        if labels is not None:
            raise ValueError(f"labels is {shown(labels)}; expected None, because the loss is {loss!r}, no logistic one")
        return ys, None
    found = [_entries(f"ys[{i}]", y) for i, y in enumerate(ys)]
    try:
        values = sorted(set().union(*found))
    except TypeError:
        raise ValueError("ys hold labels of several kinds, such as numbers and text; expected one kind") from None
    chosen = _known_pair(values) if labels is None else tuple(check_sequence("labels", labels, "two different values"))
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise ValueError(f"labels is {shown(labels)}; expected two different values, the negative first")
    if any(value not in chosen for value in values):
        i, j = next((i, j) for i, y in enumerate(found) for j, value in enumerate(y) if value not in chosen)
        raise ValueError(f"ys[{i}][{j}] is no label; expected one of {chosen[0]!r} and {chosen[1]!r}, the labels")
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
            raise ValueError(f"{name}[{i}] is {what}; expected a label in every row: a number, or text")
    return values


def _known_pair(values: list[Any]) -> Labels:
    """The two labels of which these occur."""
    for usual in ((-1, 1), (0, 1)):
        if set(values) <= set(usual):
            return (False, True) if bool in map(type, values) else usual
    if len(values) != 2:
        raise ValueError(f"ys hold {len(values)} different labels; expected two for the logistic loss")
    return values[0], values[1]


def rows_by_site(
    df: Any, site: str, target: str, features: Sequence[str] | None, loss: str | Loss
) -> tuple[list[Array], list[Array], tuple[str, ...], tuple[Any, ...]]:
    """The As, the ys, what columns and sites are called, by sorted site; parameters as `Federation.from_frame`."""
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
    if _takes_labels(loss):
        _refuse_missing(target, frame[target], "a label")
    y = np.asarray(frame[target].to_numpy()) if _takes_labels(loss) else _numbers(target, frame[target])
    rows = [np.flatnonzero(codes == code) for code in range(len(sites))]
    return [A[own] for own in rows], [y[own] for own in rows], tuple(map(str, names)), tuple(sites.tolist())


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
    if (values := _floats_of(column)) is None:
        raise ValueError(f"column {name!r} is {column.dtype}; expected numbers")
    _refuse_missing(name, column, "a number")
    return check_array(f"column {name!r}", values)


def _refuse_missing(name: str, column: Any, expected: str) -> None:
    """Raise a ValueError where values are null, or not a number."""
    missing = (column.is_null() | column.is_nan()).sum() if column.dtype.is_float() else column.null_count()
    if missing:
        raise ValueError(f"column {name!r} has {missing} missing values; expected {expected} in every row")
