"""Fitted estimators as JSON and back: numbers and names, so that reading a model runs no code of whoever wrote it."""

import json
import math
from typing import Any

import numpy as np

from .._support.validation import short_repr
from ..sparse_model import Array

_FORMAT = "fgmp model 1"
# What a user set, as far as numbers, words and truths say it. The rest says how a fit ran, not what the model is.
_PARAMETERS = (
    "sparsity",
    "method",
    "fit_intercept",
    "standardize",
    "polish",
    "C",
    "secure",
    "min_rows",
)
_ATTRIBUTES = ("n_features_in_", "sparsity_", "method_", "n_iter_")
_LISTS = ("groups_", "missing_", "classes_", "feature_names_in_")
_PLAIN = (str, int, float, bool)


def model_to_json(model: Any) -> str:
    """Return a fitted estimator as JSON: what `predict` needs, who took part, and how it was fitted.

    Raises
    ------
    ValueError
        If labels, groups or names of columns are neither text nor numbers, or a number is not finite.
    """
    coefficients = np.atleast_2d(model.coef_)
    used = np.flatnonzero(np.any(coefficients != 0, axis=0))
    names = getattr(model, "feature_names_in_", None)
    content: dict[str, Any] = {
        "format": _FORMAT,
        "estimator": type(model).__name__,
        "parameters": {name: _parameter(getattr(model, name)) for name in _PARAMETERS},
        "attributes": {name: _parameter(getattr(model, name)) for name in _ATTRIBUTES},
        "lists": {
            name: _plain(name, getattr(model, name)) for name in _LISTS if hasattr(model, name)
        },
        "coefficients": [
            {
                "column": int(j),
                "name": str(j) if names is None else str(names[j]),
                "values": coefficients[:, j].tolist(),
            }
            for j in used
        ],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
    }
    if hasattr(model, "intercepts_"):
        groups = _plain("intercepts_", list(model.intercepts_))
        content["intercepts"] = [
            list(pair) for pair in zip(groups, model.intercepts_.values(), strict=True)
        ]
    try:
        return json.dumps(content, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model holds what JSON does not ({error}); expected finite numbers and text"
        ) from None


def model_from_json(text: str) -> Any:
    """Return the fitted estimator that `model_to_json` wrote. Its predictions are the same to the bit.

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
    from .linear import FedGradMPClassifier, FedGradMPRegressor

    kinds = {kind.__name__: kind for kind in (FedGradMPRegressor, FedGradMPClassifier)}
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {short_repr(content['format'])}; expected {_FORMAT!r}")
        model = kinds[content["estimator"]]()
        model.set_params(
            **{name: _parameter_of(content["parameters"][name]) for name in _PARAMETERS}
        )
        for name in _ATTRIBUTES:
            setattr(model, name, content["attributes"][name])
        for name, values in content["lists"].items():
            if name not in _LISTS:
                raise KeyError(name)
            setattr(
                model, name, np.asarray(values, object if name == "feature_names_in_" else None)
            )
        _set_coefficients(model, content)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        found = (
            f"{type(error).__name__}: {error}"
            if isinstance(error, (KeyError, IndexError))
            else error
        )
        raise ValueError(
            f"text is no model of fgmp ({found}); expected what to_json of an estimator wrote"
        ) from None
    return model


def _set_coefficients(model: Any, content: dict[str, Any]) -> None:
    """Set coefficients and intercepts of a model whose labels are known."""
    is_classifier = hasattr(model, "classes_")
    n_outputs = len(model.classes_) if is_classifier and len(model.classes_) > 2 else 1
    n_features = model.n_features_in_
    if type(n_features) is not int or not 0 < n_features < 2**31:
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
        model.intercepts_ = {group: float(value) for group, value in content["intercepts"]}


def _coefficient(coefficients: Array, column: int, names: Any) -> dict[str, Any]:
    """Return what one column adds, with its name, so that a person can read the file."""
    name = f"x{column}" if names is None else str(names[column])
    return {"column": column, "name": name, "values": coefficients[:, column].tolist()}


def _plain(name: str, values: Any) -> list[Any]:
    """Return labels or names as JSON holds them, each of one of its types."""
    plain = np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)
    strange = [value for value in plain if not isinstance(value, _PLAIN)]
    if strange:
        kind = type(strange[0]).__name__
        raise ValueError(
            f"{name} holds a value of type {kind}; expected text, numbers or truths, which JSON has"
        )
    return plain


def _parameter(value: Any) -> Any:
    """Return a parameter as JSON holds it: infinity is a word there."""
    if isinstance(value, np.generic):
        value = value.item()
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _parameter_of(value: Any) -> Any:
    """Return the parameter that `_parameter` wrote."""
    return math.inf if value == "inf" else value
