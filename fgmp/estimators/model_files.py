"""Fitted estimators as JSON and back.

A file holds numbers and names only, so that reading a model runs no code of its writer. The schema
(`model_schema`) says what each field may hold, and `model_reading` what fields have to say of each
other. What passes both predicts finite numbers and has a summary.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from .._support.strict_json import read_json
from .covariance import Covariance
from .encoding import column_keys, level_of
from .fitted import LinearModel, columns_of
from .model_reading import Model, model_of
from .model_schema import Attributes, CovarianceParts, Lists, Parameters, Part, check_content

_FORMAT = "fgmp model 1"
# Parameters that name columns, of which one may be called "inf".
_OF_COLUMNS = ("always_include", "categories")
_GENERATORS = (np.random.RandomState, np.random.Generator)


def model_to_json(model: LinearModel) -> str:
    """Return a fitted estimator as JSON: what `predict` and `summary` need, who took part, and how.

    Parameters
    ----------
    model : LinearModel
        Fitted.

    Raises
    ------
    ValueError
        If labels, groups or names of columns are neither text nor numbers; or if `read_model`
        would refuse the file, because a number is not finite, or because attributes or parameters
        were changed after the fit and do not fit together.
    """
    coefficients = np.atleast_2d(model.coef_)
    used = np.flatnonzero(np.any(coefficients != 0, axis=0))
    columns = columns_of(model, model.n_features_in_)
    content: dict[str, Any] = {
        "format": _FORMAT,
        "fgmp": model.fgmp_version_,
        "estimator": type(model).__name__,
        "parameters": {
            name: _encode_parameter(name, value)
            for name, value in model.get_params(deep=False).items()
            if name in Parameters.model_fields
            and not isinstance(value, _GENERATORS)
            and (name, value) != ("class_weight", None)  # as in a file of an earlier version
        },
        "attributes": _fields_of(Attributes, model),
        "lists": _fields_of(Lists, model),
        "coefficients": [
            {"column": j, "name": str(columns[j]), "values": coefficients[:, j].tolist()}
            for j in used.tolist()
        ],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
    }
    if hasattr(model, "intercepts_"):
        content["intercepts"] = [
            [_encode("intercepts_", group), np.asarray(value).tolist()]
            for group, value in model.intercepts_.items()
        ]
    if hasattr(model, "encoding_"):
        content["encoding"] = [asdict(variable) for variable in model.encoding_.variables]
    if hasattr(model, "covariance_"):
        content["covariance"] = _encode_covariance(model.covariance_, columns)
    if hasattr(model, "cv_"):
        table = {name: _encode(name, column) for name, column in model.cv_.table.items()}
        content["cross_validation"] = {"folds": model.cv_.folds, **table}
    content["exchanges"] = [list(sent) for sent in getattr(model, "exchanges_", ())]
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
        model_of(check_content(json.loads(text)), [type(model)])
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


def _encode_covariance(covariance: Covariance, columns: Sequence[Any]) -> dict[str, Any]:
    """Return a covariance as JSON; deviations of its own columns only, with their names."""
    used = np.unique(covariance.columns[covariance.columns >= 0])
    deviations = [
        {"column": j, "name": str(columns[j]), "value": float(covariance.deviations[j])}
        for j in used.tolist()
    ]
    # Its own deviations are written below: a million numbers are not encoded first.
    fields = _fields_of(CovarianceParts, replace(covariance, deviations=used))
    return {**fields, "deviations": deviations}


def _fields_of(part: type[Part], holder: object) -> dict[str, Any]:
    """Return the fields of a part of a file from the attributes of the same names."""
    values = {name: _encode(name, getattr(holder, name, None)) for name in part.model_fields}
    return {
        name: value
        for name, value in values.items()
        if value is not None or part.model_fields[name].is_required()
    }


def _encode_parameter(name: str, value: object) -> Any:
    """Return a parameter as JSON: columns as a list, and a mapping as pairs."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if name == "categories":
            pairs = [(column, [level_of(level) for level in levels]) for column, levels in pairs]
        return {"mapping": _encode(name, pairs)}
    if name in _OF_COLUMNS and value is not None:
        return column_keys(name, value)
    return _encode(name, value)


def _encode(name: str, value: Any) -> Any:
    """Return words, numbers and arrays as JSON: infinity as a word, and nan as None."""

    def plain(item: object) -> Any:
        if isinstance(item, (np.ndarray, np.generic)):
            return item.tolist()
        raise ValueError(
            f"{name} holds a value of type {type(item).__name__}; expected text, numbers or "
            "truths, which JSON has"
        )

    text = json.dumps(value, default=plain)
    return json.loads(text, parse_constant=lambda word: None if word == "NaN" else "inf")
