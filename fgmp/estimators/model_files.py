"""Fitted estimators as JSON and back.

A file holds numbers and names only, so that reading a model runs no code of its writer. The schema
(`model_schema`) says what each field may hold, and `model_reading` what fields have to say of each
other. What passes both predicts finite numbers and has a summary.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._support.strict_json import read_json
from .covariance import Covariance
from .encoding import column_keys, level_of
from .fitted import LinearModel
from .model_reading import Columns, Model, columns_of, model_of
from .model_schema import Attributes, CovarianceParts, Lists, Parameters, check_content

_FORMAT = "fgmp model 1"
# Parameters that name columns, of which one may be called "inf".
_OF_COLUMNS = ("always_include", "categories")
_JSON_TYPES = (str, int, float, bool)


def model_to_json(model: LinearModel, kinds: Iterable[type[LinearModel]]) -> str:
    """Return a fitted estimator as JSON: what `predict` and `summary` need, who took part, and how.

    Parameters
    ----------
    model : LinearModel
        Fitted.
    kinds : iterable of type
        The estimators that a file may be of, with which it is read on trial.

    Raises
    ------
    ValueError
        If labels, groups or names of columns are neither text nor numbers; or if `read_model`
        would refuse the file, because a number is not finite, or because attributes or parameters
        were changed after the fit and do not fit together.
    """
    coefficients = np.atleast_2d(model.coef_)
    used = np.flatnonzero(np.any(coefficients != 0, axis=0))
    columns = columns_of(model)
    content: dict[str, Any] = {
        "format": _FORMAT,
        "fgmp": model.fgmp_version_,
        "estimator": type(model).__name__,
        "parameters": {
            name: _encode_parameter(name, value)
            for name, value in model.get_params(deep=False).items()
            if name in Parameters.model_fields and _is_plain(value)
        },
        "attributes": {
            name: _encode(getattr(model, name))
            for name in Attributes.model_fields
            if hasattr(model, name)
        },
        "lists": {
            name: _json_values(name, getattr(model, name))
            for name in Lists.model_fields
            if hasattr(model, name)
        },
        "coefficients": [
            {"column": j, "name": columns.name(j), "values": coefficients[:, j].tolist()}
            for j in used.tolist()
        ],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
    }
    if hasattr(model, "intercepts_"):
        groups = _json_values("intercepts_", list(model.intercepts_))
        intercepts = [np.asarray(value).tolist() for value in model.intercepts_.values()]
        content["intercepts"] = [list(pair) for pair in zip(groups, intercepts, strict=True)]
    if hasattr(model, "encoding_"):
        content["encoding"] = model.encoding_.to_settings()
    if hasattr(model, "covariance_"):
        content["covariance"] = _encode_covariance(model.covariance_, columns)
    if hasattr(model, "cv_"):
        table = {
            name: [_encode(value) for value in column.tolist()]
            for name, column in model.cv_.table.items()
        }
        content["cross_validation"] = {"folds": model.cv_.folds, **table}
    content["exchanges"] = [list(sent) for sent in getattr(model, "exchanges_", ())]
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
        model_of(check_content(json.loads(text)), kinds)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model is none that JSON can hold, and that can be read again: {error}"
        ) from None
    return text


def read_model(text: str | bytes, kinds: Iterable[type[Model]]) -> Model:
    """Return the fitted estimator that `model_to_json` wrote.

    Parameters
    ----------
    text : str or bytes
        The JSON.
    kinds : iterable of type
        The estimators that it may be of.
    """
    try:
        return model_of(check_content(read_json("text", text)), kinds)
    except ValueError as error:
        raise ValueError(f"text is not what to_json of an estimator wrote: {error}") from None


def _encode_covariance(covariance: Covariance, columns: Columns) -> dict[str, Any]:
    """Return a covariance as JSON; deviations of its own columns only, with their names."""
    used = np.unique(covariance.columns[covariance.columns >= 0]).tolist()
    encoded: dict[str, Any] = {}
    for name, field in CovarianceParts.model_fields.items():
        value = getattr(covariance, name)
        if value is not None or field.is_required():
            encoded[name] = _encode(value)
    encoded["deviations"] = [
        {
            "column": column,
            "name": columns.name(column),
            "value": float(covariance.deviations[column]),
        }
        for column in used
    ]
    return encoded


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


def _encode_parameter(name: str, value: object) -> Any:
    """Return a parameter as JSON: columns as a list, and with it the levels of each, if given."""
    if name not in _OF_COLUMNS or value is None:
        return _encode(value)
    if not isinstance(value, Mapping):
        return column_keys(name, value)
    keys = column_keys(name, list(value))
    levels = [[level_of(level) for level in of] for of in value.values()]
    return {"mapping": [list(pair) for pair in zip(keys, levels, strict=True)]}


def _encode(value: object) -> Any:
    """Return a word, a number or an array as JSON: infinity as a word, and nan as None."""
    if isinstance(value, np.ndarray):
        return np.where(np.isnan(value), np.array(None, object), value.astype(object)).tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value
