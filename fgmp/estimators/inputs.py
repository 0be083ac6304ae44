"""Rows as a user passes them to an estimator: read, and checked beyond scikit-learn's checks."""

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from .._support.tables import check_features, read_numbers
from .._support.validation import (
    as_array,
    as_labels,
    check_number,
    refuse_missing,
    short_repr,
)
from .._support.warnings import advise_once, warn_user
from ..sparse_model import Array
from .encoding import EncodingPlan, RawTable, may_be_codes, refuse_not_finite
from .fitted import N_NAMED, LinearModel, input_names, names_of_columns
from .groups import preview


def as_random_state(random_state: object) -> np.random.RandomState:
    """Return scikit-learn's `check_random_state`, whose own error does not name the argument."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state is {short_repr(random_state)}; expected an integer from 0 to "
            "4294967295, a numpy.random.RandomState or None, as in scikit-learn"
        ) from None
    return generator


def seed_of(random_state: object) -> int:
    """Return the seed of cohorts, minibatches and folds, which a random state begins with."""
    return int(as_random_state(random_state).randint(2**31 - 1))


def weights_of_rows(sample_weight: Any, X: Any, dtype: Any = None) -> Array:
    """Return the weight of each row of X: one for None, and a single number for all rows.

    Raises
    ------
    ValueError, TypeError
        If weights are no finite numbers of at least 0, or not one for each row; a single one is
        above 0.
    """
    if sample_weight is not None:
        sample_weight = read_numbers("sample_weight", sample_weight)
        if not sample_weight.ndim:
            sample_weight = check_number("sample_weight", sample_weight.item(), above=0)
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=dtype, ensure_non_negative=True))


def warn_of_other_indices(X: object, **columns: object) -> None:
    """Warn if a column of pandas has other row labels than X: rows go together by position.

    Labels that count from zero are those that pandas gives by itself, and say nothing of rows with
    others: only the same labels in another order do.

    Parameters
    ----------
    X : object
        The features; a DataFrame if there is anything to compare.
    **columns : object
        What has one entry for each row, by the name of the argument.
    """
    index = _row_labels(X)
    if index is None:
        return
    for name, column in columns.items():
        other = _row_labels(column)
        if other is not None and _are_at_odds(index, other):
            warn_user(
                f"{name} has other row labels than X, or the same in another order. Rows are put "
                f"together by position, and labels are ignored: expected {name} in the order of "
                f"X, such as {name}.loc[X.index]"
            )


def _row_labels(table: object) -> Any:
    """Return the index of a DataFrame or Series, and None for anything else."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "equals") else None


def _are_at_odds(index: Any, other: Any) -> bool:
    """Return whether two indices of one length seem to be of rows in different orders."""
    if len(other) != len(index) or other.equals(index):
        return False
    counting = np.arange(len(index))
    is_counted = np.array_equal(index, counting) or np.array_equal(other, counting)
    return not is_counted or set(index) == set(other)


def refuse_overflow(model: LinearModel, X: Any, y: Array | None = None) -> None:
    """Raise a ValueError if sums of squares, which a fit consists of, exceed all floats.

    A mark for missing values such as 1.8e308 is finite, and passes for a number.

    Parameters
    ----------
    model : LinearModel
        It knows the names of the columns.
    X : ndarray or sparse matrix, shape (n_rows, n_features)
        Features.
    y : ndarray, optional
        Targets that are numbers.
    """
    expected = (
        "no float holds the sum of their squares; expected smaller numbers, and rows without marks "
        "for no data"
    )
    if y is not None and not np.isfinite(_sums_of_squares(y.astype(np.float64)[:, None])).all():
        raise ValueError(f"y holds numbers as large as {np.abs(y).max():.2g}: {expected}")
    if X.dtype != np.float64:  # squares of float32 are summed in float64
        return
    is_too_large = ~np.isfinite(_sums_of_squares(X))
    if is_too_large.any():
        names = names_of_columns(model, is_too_large)
        raise ValueError(f"X holds in the columns {names} numbers so large that {expected}")


def _sums_of_squares(X: Any) -> Array:
    """Return the sum of squares of each column: nan with a nan in it, infinite if it overflows."""
    with np.errstate(over="ignore"):
        if issparse(X):
            return np.bincount(X.indices, X.data**2, X.shape[1])
        return np.asarray(np.einsum("ij,ij->j", X, X))


# The rows of an estimator.


def validated(model: LinearModel, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return X, or X and y, as scikit-learn checks them; name columns that are not finite.

    A table that is to be predicted for becomes columns of numbers, if that of the fit did.
    """
    if hasattr(model, "encoding_") and isinstance(y, str):
        validate_data(model, X, reset=False, skip_check_array=True)
        return model.encoding_.transform(X, model.missing)
    X = check_features(X)
    if not isinstance(y, str):
        options["y_numeric"] = not is_classifier(model)
    try:
        return validate_data(
            model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
        )
    except ValueError as error:
        message = str(error)
        if "X contains NaN" not in message and "X contains infinity" not in message:
            raise
        found = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        squares = _sums_of_squares(found / np.finfo(np.float64).max)  # no finite one overflows
        refuse_not_finite(np.isnan(squares), np.isinf(squares), partial(names_of_columns, model))
        raise


def validated_targets(model: LinearModel, y: Any) -> Any:
    """Return numbers, or labels of one kind, none of them missing."""
    if y is None:  # which scikit-learn refuses
        return None
    if is_classifier(model):
        return as_labels("y", y, "a label")
    array = as_array("y", y)
    if array.dtype.kind == "O":
        refuse_missing("y", array, "a number")
    return read_numbers("y", array)


def vector_of_targets(model: LinearModel, X: Any, y: Any) -> Array:
    """Return one number or label for each row; a column becomes a vector with a warning."""
    y = column_or_1d(validated_targets(model, y), warn=True)
    if not is_classifier(model):
        assert_all_finite(y, input_name="y")
    check_consistent_length(X, y)
    return np.asarray(y)


def targets_of_rows(model: LinearModel, X: Any, y: Any) -> Array:
    """Return the targets of rows for a fitted model; a classifier knows its labels."""
    targets = vector_of_targets(model, X, y)
    if is_classifier(model):
        # Not by `numpy.isin`, for which the number 1 is the text "1".
        known = set(model.classes_.tolist())
        unknown = [label for label in targets.tolist() if label not in known]
        if unknown:
            raise ValueError(
                f"y holds {short_repr(unknown[0])}; expected the labels of the fit, "
                f"{model.classes_.tolist()}"
            )
    return targets


def read_table(model: LinearModel, X: Any, y: Any) -> tuple[EncodingPlan, RawTable, Array]:
    """Return the plan of the encoding, the rows of X, and y."""
    validate_data(model, X, skip_check_array=True)
    plan = EncodingPlan.of(input_names(model), model.categories, model.missing)
    table = plan.read(X)
    plan.check_levels(table)
    if hasattr(model, "feature_names_in_"):
        columns = zip(plan.names, table.columns, strict=True)
        codes = [name for name, column in columns if may_be_codes(column)]
        if codes:
            advise_once(
                "codes",
                f"the columns [{preview(codes, N_NAMED)}] hold a few whole numbers, and enter the "
                "model as amounts: where they are codes of kinds, name them in categories=[...]",
            )
    refuse_overflow(model, table.numbers())
    return plan, table, vector_of_targets(model, X, y)
