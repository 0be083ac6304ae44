"""Fitted estimators as JSON and back.

A file holds numbers and names only, so that reading a model runs no code of its writer.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._support.validation import short_repr
from ..sparse_model import Array
from .covariance import Covariance
from .encoding import Encoding, column_keys, level_of
from .report import Sent
from .selection_path import SparsityPath

_FORMAT = "fgmp model 1"
# Parameters that are numbers, words or truth values. The others say how a fit ran, and not what
# the model is.
_PARAMETERS = (
    "sparsity",
    "method",
    "fit_intercept",
    "standardize",
    "polish",
    "C",
    "secure",
    "min_rows",
    "folds",
)
# Those that files of an earlier version do not have, or not every estimator.
_LATER_PARAMETERS = ("loss", "missing", "always_include", "categories", "random_state")
# Those that name columns, of which one may be called "inf".
_OF_COLUMNS = ("always_include", "categories")
_ATTRIBUTES = ("n_features_in_", "sparsity_", "C_", "method_", "n_iter_")
_LISTS = ("groups_", "missing_", "classes_", "feature_names_in_")
_PATH_COLUMNS = ("sparsity", "C", "score", "standard_error")
_COVARIANCE_NUMBERS = (
    "why_not_by_group",
    "n_rows",
    "n_groups",
    "degrees_of_freedom",
    "dispersion",
    "loss",
    "is_ridge",
)
_COVARIANCE_ARRAYS = ("columns", "outputs", "values", "model_based", "by_group")
_JSON_TYPES = (str, int, float, bool)
# Indices of columns are 32-bit integers elsewhere, and an array of this size is refused before it
# is allocated.
_MAX_FEATURES = 2**31


def model_to_json(model: Any) -> str:
    """Return a fitted estimator as JSON: what `predict` and `summary` need, who took part, and how.

    Raises
    ------
    ValueError
        If labels, groups or names of columns are neither text nor numbers, or a number is not
        finite.
    """
    coefficients = np.atleast_2d(model.coef_)
    used = np.flatnonzero(np.any(coefficients != 0, axis=0))
    names = getattr(model, "feature_names_in_", None)
    if hasattr(model, "encoding_"):
        names = np.asarray(model.encoding_.column_names(), object)
    content: dict[str, Any] = {
        "format": _FORMAT,
        "fgmp": model.fgmp_version_,
        "estimator": type(model).__name__,
        "parameters": {
            name: _encode_parameter(name, value)
            for name, value in model.get_params(deep=False).items()
            if name in (*_PARAMETERS, *_LATER_PARAMETERS) and _is_plain(value)
        },
        "attributes": {name: _encode(getattr(model, name)) for name in _ATTRIBUTES},
        "lists": {
            name: _json_values(name, getattr(model, name))
            for name in _LISTS
            if hasattr(model, name)
        },
        "coefficients": [_column(coefficients, int(j), names) for j in used],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
    }
    if hasattr(model, "intercepts_"):
        groups = _json_values("intercepts_", list(model.intercepts_))
        intercepts = [np.asarray(value).tolist() for value in model.intercepts_.values()]
        content["intercepts"] = [list(pair) for pair in zip(groups, intercepts, strict=True)]
    if hasattr(model, "encoding_"):
        content["encoding"] = model.encoding_.to_settings()
    if hasattr(model, "covariance_"):
        content["covariance"] = _encode_covariance(model.covariance_, names)
    if hasattr(model, "cv_"):
        table = {
            name: [_encode(value) for value in column.tolist()]
            for name, column in model.cv_.table.items()
        }
        content["cross_validation"] = {"folds": model.cv_.folds, **table}
    content["exchanges"] = [list(sent) for sent in getattr(model, "exchanges_", ())]
    try:
        return json.dumps(content, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model holds what JSON does not ({error}); expected finite numbers and text"
        ) from None


def model_from_json(text: str) -> Any:
    """Return the fitted estimator that `model_to_json` wrote. Its predictions have the same bits.

    Raises
    ------
    ValueError
        If the text is no such JSON, or its parts do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> from fgmp.estimators import model_from_json
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> model = fgmp.FedGradMPRegressor(1).fit(X, 2 * X[:, 1])
    >>> again = model_from_json(model.to_json())
    >>> bool(np.all(again.predict(X) == model.predict(X))), again.support_.tolist()
    (True, [1])
    """
    try:
        return _decoded_model(json.loads(text))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        problem = str(error)
        if isinstance(error, (KeyError, IndexError)):
            problem = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"text is no model of fgmp ({problem}); expected what to_json of an estimator wrote"
        ) from None


def _decoded_model(content: dict[str, Any]) -> Any:
    """Return the estimator of a JSON object; an error of any kind if it is malformed."""
    from .linear import FedGradMPClassifier, FedGradMPRegressor

    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {short_repr(content['format'])}; expected {_FORMAT!r}")
    kinds = {kind.__name__: kind for kind in (FedGradMPRegressor, FedGradMPClassifier)}
    model = kinds[content["estimator"]]()
    parameters = {name: _decode(content["parameters"][name]) for name in _PARAMETERS}
    parameters |= {
        name: _decode_columns(value) if name in _OF_COLUMNS else _decode(value)
        for name, value in content["parameters"].items()
        if name in _LATER_PARAMETERS
    }
    model.set_params(**parameters)

    model.fgmp_version_ = str(content["fgmp"])
    for name in _ATTRIBUTES:
        setattr(model, name, _decode(content["attributes"][name]))
    for name, values in content["lists"].items():
        if name not in _LISTS:
            raise KeyError(name)
        dtype = object if name == "feature_names_in_" else None
        setattr(model, name, np.asarray(values, dtype))
    n_columns = model.n_features_in_
    if "encoding" in content:
        model.encoding_ = Encoding.from_settings(content["encoding"])
        if len(model.encoding_.variables) != n_columns:
            raise ValueError("the encoding is of other columns than the model has")
        n_columns = len(model.encoding_.column_names())
    _set_coefficients(model, content, n_columns)
    if "covariance" in content:
        model.covariance_ = _decode_covariance(content["covariance"], n_columns)
    model.exchanges_ = tuple(
        Sent(str(what), str(began), *map(int, numbers))
        for what, began, *numbers in content.get("exchanges", [])
    )
    if "cross_validation" in content:
        choice = content["cross_validation"]
        table = {
            name: np.asarray([_decode(value) for value in choice[name]]) for name in _PATH_COLUMNS
        }
        model.cv_ = SparsityPath(table, str(choice["folds"]))
    return model


def _set_coefficients(model: Any, content: dict[str, Any], n_features: int) -> None:
    """Set coefficients and intercepts of a model whose labels are known."""
    is_classifier = hasattr(model, "classes_")
    n_outputs = 1
    if is_classifier and len(model.classes_) > 2:
        n_outputs = len(model.classes_)
    if type(n_features) is not int or not 0 < n_features < _MAX_FEATURES:
        raise ValueError(f"n_features_in_ is {short_repr(n_features)}")

    coefficients = np.zeros((n_outputs, n_features))
    for entry in content["coefficients"]:
        column = entry["column"]
        if type(column) is not int or not 0 <= column < n_features:
            raise ValueError(f"a coefficient is of column {short_repr(column)} of {n_features}")
        coefficients[:, column] = np.asarray(entry["values"], np.float64).reshape(n_outputs)
    intercept = np.asarray(content["intercept"], np.float64).reshape(n_outputs)
    if not np.isfinite(coefficients).all() or not np.isfinite(intercept).all():
        raise ValueError("a coefficient or an intercept is not finite")

    model.support_ = np.flatnonzero(np.any(coefficients != 0, axis=0))
    model.coef_ = coefficients if is_classifier else coefficients[0]
    model.intercept_ = intercept if is_classifier else float(intercept[0])
    if "intercepts" in content:
        model.intercepts_ = {
            group: _own_intercept(value, n_outputs) for group, value in content["intercepts"]
        }


def _own_intercept(value: Any, n_outputs: int) -> float | Array:
    """Return the intercept of a group: a number, or an array with several classes."""
    values = np.asarray(value, np.float64).reshape(n_outputs)
    return float(values[0]) if n_outputs == 1 else values


def _encode_covariance(covariance: Covariance, names: Any) -> dict[str, Any]:
    """Return a covariance as JSON; deviations of its own columns only, with their names."""
    used = np.unique(covariance.columns[covariance.columns >= 0]).tolist()
    encoded: dict[str, Any] = {
        name: _encode(getattr(covariance, name)) for name in _COVARIANCE_NUMBERS
    }
    for name in _COVARIANCE_ARRAYS:
        array = getattr(covariance, name)
        encoded[name] = None if array is None else _without_nan(array)
    if covariance.class_rows is not None:
        encoded["class_rows"] = covariance.class_rows.tolist()
    encoded["deviations"] = [
        {
            "column": column,
            "name": str(column) if names is None else str(names[column]),
            "value": float(covariance.deviations[column]),
        }
        for column in used
    ]
    return encoded


def _decode_covariance(content: dict[str, Any], n_features: int) -> Covariance:
    """Return the covariance that `_encode_covariance` wrote, or raise an error of any kind."""
    deviations = np.full(n_features, np.nan)
    for entry in content["deviations"]:
        if not 0 <= entry["column"] < n_features:
            raise ValueError(f"a deviation is of column {short_repr(entry['column'])}")
        deviations[entry["column"]] = float(entry["value"])
    numbers = {name: _decode(content[name]) for name in _COVARIANCE_NUMBERS}
    for name in ("degrees_of_freedom", "dispersion"):
        numbers[name] = math.nan if numbers[name] is None else float(numbers[name])
    columns = np.asarray(content["columns"], np.intp)
    k = len(columns)
    if k and not (-1 <= columns.min() and columns.max() < n_features):
        raise ValueError("the covariance is of columns that the model does not have")
    by_group = content["by_group"]
    class_rows = content.get("class_rows")  # which files of an earlier version do not have
    return Covariance(
        columns=columns,
        outputs=np.asarray(content["outputs"], np.intp).reshape(k),
        values=np.asarray(content["values"], np.float64).reshape(k),
        model_based=np.asarray(content["model_based"], np.float64).reshape(k, k),
        by_group=None if by_group is None else np.asarray(by_group, np.float64).reshape(k, k),
        deviations=deviations,
        class_rows=None if class_rows is None else np.asarray(class_rows, np.float64),
        **numbers,
    )


def _without_nan(array: Array) -> Any:
    """Return an array as lists, with None for nan, which JSON does not have."""
    nothing = np.array(None, object)
    return np.where(np.isnan(array), nothing, array.astype(object)).tolist()


def _column(coefficients: Array, column: int, names: Any) -> dict[str, Any]:
    """Return the coefficients of a column, with its name, so that a person can read the file."""
    name = str(column) if names is None else str(names[column])
    return {"column": column, "name": name, "values": coefficients[:, column].tolist()}


def _json_values(name: str, values: Any) -> list[Any]:
    """Return labels or names as a list of values that JSON has, or raise a ValueError."""
    plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
    for value in plain:
        if not isinstance(value, _JSON_TYPES):
            raise ValueError(
                f"{name} holds a value of type {type(value).__name__}; expected text, numbers or "
                "truths, which JSON has"
            )
    return plain


def _is_plain(value: object) -> bool:
    """Return whether a parameter is data; a generator as `random_state` is none."""
    return not isinstance(value, (np.random.RandomState, np.random.Generator))


def _encode_parameter(name: str, value: Any) -> Any:
    """Return a parameter as JSON: columns as a list, and with it the levels of each, if given."""
    if name not in _OF_COLUMNS or value is None:
        return _encode(value)
    if not isinstance(value, Mapping):
        return column_keys(name, value)
    keys = column_keys(name, list(value))
    levels = [[level_of(level) for level in of] for of in value.values()]
    return {"mapping": [list(pair) for pair in zip(keys, levels, strict=True)]}


def _decode_columns(value: Any) -> Any:
    """Return the columns that `_encode_parameter` wrote."""
    return dict(value["mapping"]) if isinstance(value, dict) else value


def _encode(value: Any) -> Any:
    """Return a number or a word as JSON: infinity as a word, and nan as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value


def _decode(value: Any) -> Any:
    """Return the number or the word that `_encode` wrote."""
    return math.inf if value == "inf" else value
