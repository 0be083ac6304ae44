"""Fitted estimators as JSON and back.

A file holds numbers and names only, so that reading a model runs no code of its writer. The schema
(`model_schema`) says what each field may hold by itself. Here each function that reads makes one
part of the model, and raises a ValueError that names the fields that contradict each other. What
passes both predicts finite numbers and has a summary.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import is_classifier

from .._support.strict_json import read_json
from .._support.validation import check_integer, short_repr
from ..sparse_model import Array
from .covariance import Covariance
from .encoding import OTHER, Encoding, EncodingPlan, Variable, column_keys, level_of
from .fitted import LinearModel, always_included, columns_of, input_names, is_encoded
from .inputs import as_random_state
from .model_schema import (
    Attributes,
    ColumnEntry,
    CovarianceParts,
    CrossValidation,
    Lists,
    ModelFile,
    Parameters,
    Part,
    check_content,
)
from .selection_path import SparsityPath
from .session import Sent

_FORMAT = "fgmp model 1"
# Parameters that name columns, of which one may be called "inf".
_OF_COLUMNS = ("always_include", "categories")
_GENERATORS = (np.random.RandomState, np.random.Generator)
# A file is short whatever number of columns it claims. What would take more than half a gigabyte,
# most of it zeros, is refused before it is made.
_MOST_COLUMNS = 2**24
_MOST_COEFFICIENTS = 2**26
# A variance by group that is zero may come out of sums below zero, by this part of the other one.
_ROUNDING_OF_VARIANCES = 1e-6

Model = TypeVar("Model", bound=LinearModel)


# Writing.


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
            {"column": j, "name": _name_of(columns, j), "values": coefficients[:, j]}
            for j in used.tolist()
        ],
        "intercept": np.atleast_1d(model.intercept_),
    }
    if hasattr(model, "intercepts_"):
        content["intercepts"] = list(model.intercepts_.items())
    if hasattr(model, "encoding_"):
        content["encoding"] = [asdict(variable) for variable in model.encoding_.variables]
    if hasattr(model, "covariance_"):
        content["covariance"] = _encode_covariance(model.covariance_, columns)
    if hasattr(model, "cv_"):
        content["cross_validation"] = {"folds": model.cv_.folds, **model.cv_.table}
    content["exchanges"] = getattr(model, "exchanges_", ())
    try:
        content = _as_json(content)
        model_of(check_content(content), kinds)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model is none that JSON can hold, and that can be read again: {error}"
        ) from None
    return json.dumps(content, indent=1)


def _encode_covariance(covariance: Covariance, columns: Sequence[Any]) -> dict[str, Any]:
    """Return a covariance for JSON; deviations of its own columns only, with their names."""
    used = np.unique(covariance.columns[covariance.columns >= 0])
    deviations = [
        {"column": j, "name": _name_of(columns, j), "value": float(covariance.deviations[j])}
        for j in used.tolist()
    ]
    # Its own deviations are written below: a million numbers are not encoded first.
    fields = _fields_of(CovarianceParts, replace(covariance, deviations=used))
    return {**fields, "deviations": deviations}


def _name_of(columns: Sequence[Any], j: int) -> str:
    """Return the name of a column, or its index if the model says that it has fewer columns."""
    return str(columns[j] if j < len(columns) else j)


def _fields_of(part: type[Part], holder: object) -> dict[str, Any]:
    """Return the fields of a part of a file from the attributes of the same names."""
    values = {name: getattr(holder, name, None) for name in part.model_fields}
    return {
        name: value
        for name, value in values.items()
        if value is not None or part.model_fields[name].is_required()
    }


def _encode_parameter(name: str, value: object) -> Any:
    """Return a parameter for JSON: columns as a list, and a mapping as pairs."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if name == "categories":
            pairs = [(column, [level_of(level) for level in levels]) for column, levels in pairs]
        return {"mapping": pairs}
    if name in _OF_COLUMNS and value is not None:
        return column_keys(name, value)
    return value


def _as_json(content: dict[str, Any]) -> Any:
    """Return what JSON has of arrays and tuples: infinity is a word, and nan is None."""
    text = json.dumps(content, default=_plain)
    return json.loads(text, parse_constant=lambda word: None if word == "NaN" else "inf")


def _plain(value: object) -> Any:
    """Return the numbers of an array; anything else that is not JSON no field takes."""
    if isinstance(value, (np.ndarray, np.generic)):
        plain = value.tolist()
        if not isinstance(plain, np.generic):  # as a long double stays
            return plain
    return {"value of type": type(value).__name__}


# Reading.


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


def model_of(file: ModelFile, kinds: Iterable[type[Model]]) -> Model:
    """Return the estimator of a file, or raise a ValueError if its fields do not fit together.

    Parameters
    ----------
    file : ModelFile
        The fields.
    kinds : iterable of type
        The estimators that it may be of.
    """
    kind = next(kind for kind in kinds if kind.__name__ == file.estimator)
    model = kind()
    given = file.parameters.model_fields_set
    model.set_params(**{name: value for name, value in file.parameters if name in given})
    model._check_parameters()
    as_random_state(model.random_state)

    model.fgmp_version_ = file.fgmp
    for name, value in file.attributes:
        if value is not None:
            setattr(model, name, value)
    _set_labels(model, file.lists)
    _set_encoding(model, file)
    columns = columns_of(model, model.n_features_in_)
    _check_sparsities(model, columns)
    _set_coefficients(model, file, columns)
    if file.covariance is not None:
        model.covariance_ = _covariance_of(file.covariance, model, columns)
    if file.cross_validation is not None:
        model.cv_ = _path_of(file.cross_validation, columns)
    model.exchanges_ = tuple(Sent(*sent) for sent in file.exchanges)
    return model


def _set_labels(model: LinearModel, lists: Lists) -> None:
    """Set labels, groups and names of columns."""
    if is_classifier(model) != (lists.classes_ is not None):
        raise ValueError(
            f"lists.classes_ is {short_repr(lists.classes_)}, and estimator "
            f"{type(model).__name__!r}; expected classes of a classifier, and of no other"
        )
    for name in ("groups_", "missing_", "classes_"):
        values = getattr(lists, name)
        if values is not None:
            setattr(model, name, np.asarray(values))
    in_both = set(lists.missing_) & set(lists.groups_)
    if in_both:
        raise ValueError(
            f"lists.missing_ and lists.groups_ both have {short_repr(sorted(in_both))}; expected "
            "each group in one of them"
        )

    names = lists.feature_names_in_
    if names is None:
        return
    if len(names) != model.n_features_in_ or len(set(names)) < len(names):
        raise ValueError(
            f"lists.feature_names_in_ is {short_repr(names)}; expected {model.n_features_in_} "
            "different names, as attributes.n_features_in_ says"
        )
    model.feature_names_in_ = np.asarray(names, object)


def _set_encoding(model: LinearModel, file: ModelFile) -> None:
    """Set the encoding, which has to be that of the columns, and of what parameters ask for."""
    if is_encoded(model) != (file.encoding is not None):
        raise ValueError(
            f"encoding is {short_repr(file.encoding)}; expected one with parameters.categories or "
            "parameters.missing='indicator', and none without"
        )
    if file.encoding is None:
        return
    encoding = Encoding(tuple(Variable(**dict(variable)) for variable in file.encoding))
    variables = encoding.variables
    found = [variable.name for variable in variables]
    # Before names are made for a number of columns that a file claims.
    if len(found) != model.n_features_in_ or found != input_names(model):
        raise ValueError(
            f"encoding is of other columns than the model has: {short_repr(found)}; expected the "
            f"{model.n_features_in_} columns of lists.feature_names_in_, or x0, x1, ..."
        )
    plan = EncodingPlan.of(found, model.categories, model.missing)
    if plan.categories != encoding.categories():
        raise ValueError(
            f"encoding has the categories {short_repr([found[j] for j in encoding.categories()])}; "
            f"expected {short_repr([found[j] for j in plan.categories])}, as "
            "parameters.categories says"
        )
    for index, given in plan.levels:
        levels = {*variables[index].levels, variables[index].reference}
        if not levels <= {*given, OTHER}:  # small cells may leave some without a column
            raise ValueError(
                f"encoding[{index}] has the levels {short_repr(sorted(levels))}; expected "
                f"{short_repr(list(given))}, as parameters.categories says"
            )
    model.encoding_ = encoding


def _check_sparsities(model: LinearModel, columns: Sequence[Any]) -> None:
    """Check what is a number of columns, or names some of them."""
    n_columns = len(columns)
    if not 0 < n_columns <= _MOST_COLUMNS:
        raise ValueError(
            f"attributes.n_features_in_ is {model.n_features_in_}, with {n_columns} columns of "
            f"numbers; expected from 1 to {_MOST_COLUMNS}"
        )
    sparsities: dict[str, int | str] = {"attributes.sparsity_": model.sparsity_}
    if model.sparsity not in (None, "cv", "all"):
        sparsities["parameters.sparsity"] = model.sparsity
    for field, sparsity in sparsities.items():
        check_integer(field, sparsity, at_least=0, at_most=n_columns, why="the number of columns")
    always_included(model)


def _set_coefficients(model: LinearModel, file: ModelFile, columns: Sequence[Any]) -> None:
    """Set coefficients and intercepts of a model whose labels and columns are known."""
    n_classes = len(getattr(model, "classes_", ()))
    n_outputs = n_classes if n_classes > 2 else 1
    if n_outputs * len(columns) > _MOST_COEFFICIENTS:
        raise ValueError(
            f"attributes.n_features_in_ is {model.n_features_in_}, with {n_outputs} classes in "
            f"lists.classes_; expected at most {_MOST_COEFFICIENTS} coefficients"
        )
    _check_columns("coefficients", file.coefficients, columns)
    coefficients = np.zeros((n_outputs, len(columns)))
    for index, entry in enumerate(file.coefficients):
        values = _array(f"coefficients[{index}].values", entry.values, (n_outputs,))
        coefficients[:, entry.column] = values
    intercept = _array("intercept", file.intercept, (n_outputs,))

    used = sorted(entry.column for entry in file.coefficients if any(entry.values))
    model.support_ = np.array(used, np.intp)
    model.coef_ = coefficients if is_classifier(model) else coefficients[0]
    model.intercept_ = intercept if is_classifier(model) else float(intercept[0])
    if file.intercepts is None:
        return
    if model.fit_intercept != "per_group":
        raise ValueError(
            f"intercepts is given, and parameters.fit_intercept is {model.fit_intercept!r}; "
            "expected 'per_group', or no intercepts"
        )
    model.intercepts_ = {}
    for index, (group, value) in enumerate(file.intercepts):
        own = _array(f"intercepts[{index}]", value, (n_outputs,))
        model.intercepts_[group] = float(own[0]) if n_outputs == 1 else own
    if len(model.intercepts_) < len(file.intercepts):
        raise ValueError("intercepts has a group twice; expected one intercept for each")


def _check_columns(field: str, entries: Sequence[ColumnEntry], columns: Sequence[Any]) -> None:
    """Check that entries are of different columns of the model, by their names."""
    for index, entry in enumerate(entries):
        if entry.column >= len(columns):
            raise ValueError(
                f"{field}[{index}].column is {entry.column}; expected one of the "
                f"{len(columns)} columns"
            )
        if entry.name != str(columns[entry.column]):
            raise ValueError(
                f"{field}[{index}].name is {short_repr(entry.name)}; expected "
                f"{short_repr(str(columns[entry.column]))}, the name of column {entry.column} by "
                "lists.feature_names_in_ and encoding"
            )
    if len({entry.column for entry in entries}) < len(entries):
        raise ValueError(f"{field} has a column twice; expected every column once")


def _covariance_of(
    parts: CovarianceParts, model: LinearModel, columns: Sequence[Any]
) -> Covariance:
    """Return the covariance in a file."""
    k = len(parts.columns)
    shapes: dict[str, tuple[int, ...]]
    shapes = dict.fromkeys(("columns", "outputs", "values", "indicator_shares"), (k,))
    shapes |= dict.fromkeys(("model_based", "by_group"), (k, k))
    shapes["class_rows"] = (len(getattr(model, "classes_", ())),)
    fields = dict(parts)
    for field, shape in shapes.items():
        if fields[field] is not None:
            dtype = np.intp if field in ("columns", "outputs") else np.float64
            fields[field] = _array(f"covariance.{field}", fields[field], shape, dtype)
    for field in ("degrees_of_freedom", "dispersion"):
        fields[field] = np.nan if fields[field] is None else fields[field]

    n_outputs = len(np.atleast_2d(model.coef_))
    if max(parts.columns) >= len(columns) or max(parts.outputs) >= n_outputs:
        raise ValueError(
            "covariance.columns or covariance.outputs has one that the model does not have"
        )
    if len(set(zip(parts.columns, parts.outputs, strict=True))) < k:
        raise ValueError(
            "covariance.columns and covariance.outputs have a coefficient twice; expected it once"
        )
    _check_variances(parts.why_not_by_group, fields["model_based"], fields["by_group"])

    _check_columns("covariance.deviations", parts.deviations, columns)
    deviations = {entry.column: entry.value for entry in parts.deviations}
    if deviations.keys() != {*parts.columns} - {-1}:
        raise ValueError("covariance.deviations is of other columns than covariance.columns")
    fields["deviations"] = np.full(len(columns), np.nan)
    fields["deviations"][list(deviations)] = list(deviations.values())
    return Covariance(**fields)


def _array(
    field: str, values: object, shape: tuple[int, ...], dtype: DTypeLike = np.float64
) -> Array:
    """Return a number, numbers, or the rows of a matrix, as an array with nan for null."""
    array = np.atleast_1d(np.array(values, object))
    if array.shape != shape:
        found, expected = (" x ".join(map(str, one)) for one in (array.shape, shape))
        says = "lists.classes_ says"
        if field.startswith("covariance"):
            says = "lists.classes_ and covariance.columns say"
        raise ValueError(f"{field} has {found} numbers; expected {expected}, as {says}")
    return array.astype(dtype)


def _check_variances(why_not_by_group: str, model_based: Array, by_group: Array | None) -> None:
    """Check that no variance is negative, and that a reason is given for those that are not."""
    variances = model_based.diagonal()
    if (variances < 0).any():
        raise ValueError("covariance.model_based has a negative variance")
    if (by_group is None) != bool(why_not_by_group):
        raise ValueError(
            f"covariance.why_not_by_group is {short_repr(why_not_by_group)}; expected a reason "
            "without covariance.by_group, and none with it"
        )
    allowed = _ROUNDING_OF_VARIANCES * np.nan_to_num(variances)
    if by_group is not None and (by_group.diagonal() < -allowed).any():
        raise ValueError("covariance.by_group has a negative variance")


def _path_of(choice: CrossValidation, columns: Sequence[Any]) -> SparsityPath:
    """Return how the sparsity, or C, was chosen."""
    table = {name: np.array(column) for name, column in choice if isinstance(column, list)}
    for name, column in table.items():
        if len(column) != len(choice.sparsity):
            raise ValueError(
                f"cross_validation.{name} has {len(column)} entries; expected "
                f"{len(choice.sparsity)}, as cross_validation.sparsity has"
            )
    if max(choice.sparsity) > len(columns):
        raise ValueError(
            f"cross_validation.sparsity has {max(choice.sparsity)}; expected at most "
            f"{len(columns)}, the number of columns"
        )
    return SparsityPath(table, choice.folds)
