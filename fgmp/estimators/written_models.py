"""A fitted model as a JSON file of names and numbers in the units of the table, and predictions for a CSV from it."""

from __future__ import annotations

import csv
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..checks import check_array, check_kind, check_path, check_sequence, shown
from ..models import Array
from .linear import FedGradMPClassifier, FedGradMPRegressor

__all__ = ["load_model", "model_of", "predict_rows", "save_model"]

_VERSION = 1
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (FedGradMPRegressor, FedGradMPClassifier)}


def model_of(
    coefficients: Mapping[str, float] | Array,
    intercept: float,
    feature_names: Sequence[str],
) -> FedGradMPRegressor:
    """A fitted regressor of coefficients that were found elsewhere, such as by `fgmp.federate` over Flower.

    Parameters
    ----------
    coefficients : ndarray of shape (n_features,), or mapping of str to float
        In the units of the table; names that a mapping has not are zero.
    intercept : float
    feature_names : sequence of str
        All columns of the table.

    Examples
    --------
    >>> from fgmp.estimators import model_of
    >>> model = model_of({"crp": 0.5}, 1.0, ["age", "crp"])
    >>> model.coef_.tolist(), model.support_.tolist()
    ([0.0, 0.5], [1])
    """
    given = check_sequence("feature_names", feature_names, "names of columns")
    names = [str(check_kind("feature_names", name, str, "names of columns")) for name in given]
    if isinstance(coefficients, Mapping):
        if strange := sorted(set(coefficients) - set(names)):
            raise ValueError(f"coefficients has {strange[0]!r}; expected names of feature_names")
        coefficients = np.array([coefficients.get(name, 0.0) for name in names])
    coef = check_array("coefficients", coefficients, ndim=1).astype(np.float64)
    if len(coef) != len(names):
        raise ValueError(f"coefficients has {len(coef)} entries; expected one for each of {len(names)} feature_names")
    model = FedGradMPRegressor(sparsity=int(np.count_nonzero(coef)) or None)
    _set(model, names, coef, float(check_array("intercept", intercept, ndim=0)))
    return model


def save_model(model: FedGradMPRegressor | FedGradMPClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator as JSON: its columns, its coefficients that are not zero, its intercept and classes.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Fitted; where the table had no names, columns are called x0, x1, ...
    path : path-like

    Raises
    ------
    ValueError
        Where there is an intercept for each group: which one a new row would get is not known.
    """
    check_kind("model", model, tuple(_KINDS.values()), "a fitted FedGradMPRegressor or FedGradMPClassifier")
    check_is_fitted(model)
    if hasattr(model, "intercepts_"):
        raise ValueError("model has an intercept for each group; expected one for all, which a new row can get")
    names = [str(name) for name in getattr(model, "feature_names_in_", [f"x{i}" for i in range(model.n_features_in_)])]
    rows = np.atleast_2d(model.coef_)
    whole = {
        "fgmp model": _VERSION,
        "kind": type(model).__name__,
        "columns": names,
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "coefficients": {names[i]: rows[:, i].tolist() for i in np.flatnonzero(rows.any(axis=0))},
    }
    if isinstance(model, FedGradMPClassifier):
        whole["classes"] = model.classes_.tolist()
    with open(check_path("path", path, "the path of a file"), "w", encoding="utf-8") as file:
        json.dump(whole, file, indent=2, allow_nan=False)
        file.write("\n")


def load_model(path: str | os.PathLike[str]) -> FedGradMPRegressor | FedGradMPClassifier:
    """The inverse of `save_model`: an estimator that predicts.

    Raises
    ------
    ValueError
        Where the file is no such model; the message says what is wrong.
    """
    path = check_path("path", path, "the path of a model as save_model writes it")
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"path is {str(path)!r}; expected a model in JSON") from None
    if not isinstance(whole, dict) or whole.get("fgmp model") != _VERSION or whole.get("kind") not in _KINDS:
        raise ValueError(f"path is {str(path)!r}; expected a model of version {_VERSION}, as save_model writes it")
    try:
        names, given = [str(name) for name in whole["columns"]], dict(whole["coefficients"])
        intercept = np.array(whole["intercept"], float)
        rows = np.zeros((len(intercept), len(names)))
        for name, values in given.items():
            rows[:, names.index(name)] = values
        if not np.isfinite(rows).all() or not np.isfinite(intercept).all():
            raise ValueError("numbers that are not finite")
        model: FedGradMPRegressor | FedGradMPClassifier = _KINDS[whole["kind"]]()
        if isinstance(model, FedGradMPClassifier):
            model.classes_ = np.array(whole["classes"])
            expected = 1 if len(model.classes_) == 2 else len(model.classes_)
            if len(intercept) != expected:
                raise ValueError(f"{len(intercept)} intercepts")
            _set(model, names, rows, intercept)
        else:
            _set(model, names, rows[0], float(intercept[0]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"path is {str(path)!r}; expected a model, and {error!r} is wrong with it") from None
    return model


def predict_rows(model: FedGradMPRegressor | FedGradMPClassifier, table: TextIO) -> list[dict[str, Any]]:
    """A model's predictions for the rows of a CSV with a header: by the names of its columns, whatever their order.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
    table : text file
        With all columns of which a coefficient is not zero; others do not matter.

    Returns
    -------
    list of dict
        ``prediction``, and of a classifier the probability of each class.

    Raises
    ------
    ValueError
        Where a column is missing, or holds what is no finite number; the message says where.
    """
    reader = csv.DictReader(table)
    names = [str(name) for name in model.feature_names_in_]
    needed = [names[i] for i in np.flatnonzero(np.atleast_2d(model.coef_).any(axis=0))]
    missing = [name for name in needed if name not in (reader.fieldnames or [])]
    if missing:
        raise ValueError(f"table has no column {missing[0]!r}; expected {', '.join(map(repr, needed))}")
    rows = [[_number(row[name], name, line) for name in needed] for line, row in enumerate(reader, 2)]
    if not rows:
        return []
    X = np.zeros((len(rows), len(names)))
    X[:, [names.index(name) for name in needed]] = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the columns are in order, and X is an array without names
        labels = model.predict(X)
        if isinstance(model, FedGradMPRegressor):
            return [{"prediction": value} for value in labels.tolist()]
        chances = model.predict_proba(X)
    classes = [f"probability of {name}" for name in model.classes_.tolist()]
    return [
        {"prediction": label, **dict(zip(classes, row, strict=True))}
        for label, row in zip(labels.tolist(), chances.tolist(), strict=True)
    ]


def _set(model: Any, names: list[str], coef: Array, intercept: Any) -> None:
    model.coef_, model.intercept_ = coef, intercept
    model.support_ = np.flatnonzero(np.atleast_2d(coef).any(axis=0))
    model.n_features_in_, model.feature_names_in_ = len(names), np.array(names, object)
    model.sparsity_ = len(model.support_)


def _number(text: Any, name: str, line: int) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"column {name!r} is {shown(text)} in line {line}; expected a finite number")
    return value
