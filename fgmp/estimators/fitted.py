"""An estimator as data: its parameters, what a fit has set, and the names of its columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._support.displays import HistoryTable
from ..losses import GLMLoss
from ..sparse_model import Array, IndexArray
from .covariance import Covariance
from .encoding import Encoding, category_keys, columns_of_names
from .federated_table import Rows, loss_of, signs_or_codes
from .groups import preview
from .parameters import FitParameters
from .selection_path import SparsityPath
from .session import Sent

# The most columns that a message names.
N_NAMED = 10

# How the features were selected, and why so, by `method_` of an estimator.
SELECTED_BY = {
    "fedgradmp": "FedGradMP: each client selects, and the server averages",
    "shared": "SharedSupportGradMP: clients see too little, and their gradients are added up first",
    "all": "nothing: all features are in the model",
}


class LinearModel(FitParameters, BaseEstimator):  # type: ignore[misc]
    """What every stage of an estimator may read of it: parameters, and what a fit has set.

    The fitted attributes are described in `FedGradMPRegressor` and `FedGradMPClassifier`.
    """

    loss: str  # of numbers, not of a classifier

    n_features_in_: int
    feature_names_in_: Array
    encoding_: Encoding
    classes_: Array
    groups_: Array
    missing_: Array
    n_rows_left_out_: int
    n_rows_recoded_: dict[str, int]
    coef_: Array
    intercept_: Any
    intercepts_: dict[Any, Any]
    support_: IndexArray
    method_: str
    sparsity_: int
    C_: float
    n_iter_: int
    history_: HistoryTable
    cv_: SparsityPath
    covariance_: Covariance
    exchanges_: tuple[Sent, ...]
    fgmp_version_: str
    # For resamples: X as it was passed, or as it was read if it is encoded; y as it was checked.
    _training_data: Rows

    def _targets(self, y: Array, weights: Array) -> tuple[Array, GLMLoss, Array]:
        """Return targets as the loss takes them, the loss, and the weights of the rows with it."""
        raise NotImplementedError(f"{type(self).__name__} has no _targets")

    def _targets_of_fit(self, y: Array) -> tuple[Array, GLMLoss]:
        """Return targets as the loss of the fit takes them, and the loss."""
        classes = getattr(self, "classes_", None)
        loss = loss_of(classes, getattr(self, "loss", ""))
        if classes is not None:
            return signs_or_codes(y, classes), loss
        return loss.check_targets("y", y.astype(np.float64, copy=False)), loss


def is_encoded(model: FitParameters) -> bool:
    """Return whether columns of a table become other columns of numbers."""
    return bool(category_keys(model.categories)) or model.missing != "error"


def input_names(model: LinearModel) -> list[str]:
    """Return the names of the columns of X; x0, x1, ... if it has none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in names]


def names_of_features(model: LinearModel) -> Sequence[str]:
    """Return the names of all columns of a fitted estimator; x0, x1, ... if it had none."""
    if hasattr(model, "encoding_"):
        return model.encoding_.column_names()
    return input_names(model)


def n_features_of(model: LinearModel) -> int:
    """Return how many features are in a model: a variable counts once, whatever its columns."""
    block_of = model.encoding_.block_of() if hasattr(model, "encoding_") else None
    columns = model.support_.tolist()
    return len(columns if block_of is None else {block_of[column] for column in columns})


def words_on_features(model: LinearModel) -> str:
    """Return how many of all features are in a model, and of all columns if these are others."""
    words = f"{n_features_of(model)} of {model.n_features_in_} features"
    n_columns = np.shape(model.coef_)[-1]
    if n_columns == model.n_features_in_:
        return words
    return f"{words} ({len(model.support_)} of {n_columns} columns)"


def always_included(model: LinearModel) -> tuple[int, ...]:
    """Return the columns of numbers of what is always included."""
    if model.always_include is None:
        return ()
    indices = columns_of_names("always_include", model.always_include, input_names(model))
    if hasattr(model, "encoding_"):
        return model.encoding_.columns_of(sorted(indices))
    return tuple(sorted(indices))


def columns_of(model: LinearModel, n_columns: int) -> Sequence[Any]:
    """Return the names of the columns of numbers, or their indices if these have no names."""
    if hasattr(model, "encoding_"):
        return model.encoding_.column_names()
    names: Sequence[Any] = getattr(model, "feature_names_in_", range(n_columns))
    return names


def names_of_columns(model: LinearModel, is_named: Array, n_shown: int = N_NAMED) -> str:
    """Return the names of the columns of a mask as text."""
    columns = columns_of(model, len(is_named))
    names = [columns[j] for j in np.flatnonzero(is_named).tolist()]
    return f"[{preview(names, n_shown)}]"
