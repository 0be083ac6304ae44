"""The schema of a model as JSON: which fields a file has, and what each of them may hold.

pydantic checks every field by itself: its type, its words and its bounds. What ties fields together
is checked in `model_files`.
"""

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from .._support.validation import short_repr

# No number of a model is larger, so that its predictions are finite for rows up to 1e200.
_LARGEST = 1e100
# Floats, which other languages read as numbers, hold every whole number up to it.
_LARGEST_COUNT = 2**53


def _check_label(value: object) -> Any:
    """Return a label as it is if it is text, a truth, or a number that NumPy holds."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError("expected text, a truth, or a finite number of 64 bits")


def _check_labels(values: list[Any]) -> list[Any]:
    """Return labels as they are if they are different, and of one kind."""
    kinds = {isinstance(value, str) for value in values}
    if len(kinds) > 1 or len(set(values)) < len(values) or np.asarray(values).tolist() != values:
        raise ValueError("expected different labels, all text or all numbers")
    return values


def _check_order(values: list[Any]) -> list[Any]:
    """Return labels as they are if they increase."""
    if values != sorted(values):
        raise ValueError("expected the labels in increasing order, which the coefficients have")
    return values


def _from_word(value: object) -> Any:
    """Return infinity for the word that stands for it, because JSON has no such number."""
    return math.inf if value == "inf" else value


Count = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=_LARGEST_COUNT)]
Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
NotNegative = Annotated[float, Field(ge=0, le=_LARGEST)]
Positive = Annotated[float, Field(gt=0, le=_LARGEST)]
Share = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(gt=0, allow_inf_nan=True), BeforeValidator(_from_word)]
Label = Annotated[Any, AfterValidator(_check_label)]
Labels = Annotated[list[Label], AfterValidator(_check_labels)]
# A matrix is a list of its rows, with null where there is no number.
Matrix = list[list[float | None]]


class Part(BaseModel):
    """A JSON object with these fields and no others, whose values are not converted."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )


class LevelsOfColumns(Part):
    """Pairs of a column and its levels, because the names of JSON are text and columns numbers."""

    mapping: list[Annotated[tuple[str | int, list[Label]], Field(strict=False)]]


class WeightsOfClasses(Part):
    """Pairs of a label and its weight."""

    mapping: list[Annotated[tuple[Label, Positive], Field(strict=False)]]


def _as_mapping(pairs: LevelsOfColumns | WeightsOfClasses) -> dict[Any, Any]:
    """Return pairs as an estimator takes them."""
    return dict(pairs.mapping)


LevelsByColumn = Annotated[LevelsOfColumns, AfterValidator(_as_mapping)]
WeightsByClass = Annotated[WeightsOfClasses, AfterValidator(_as_mapping)]


class Parameters(Part):
    """The parameters that say what a model is; the estimator itself checks their values.

    Others say how a fit ran, and are not kept.
    """

    sparsity: int | str | None
    method: str
    fit_intercept: bool | str
    standardize: bool | str
    polish: bool
    C: Annotated[Strength | str, Field(union_mode="left_to_right")]
    secure: bool
    min_rows: PositiveCount
    folds: str
    # Files of an earlier version do not have these, or not every estimator.
    loss: str = "squared"
    missing: str = "error"
    always_include: str | int | list[str | int] | None = None
    categories: list[str | int] | LevelsByColumn | None = None
    class_weight: Literal["balanced"] | WeightsByClass | None = None
    random_state: int | None = None


class Attributes(Part):
    """Fitted attributes that are one number, or one word, or a number for some of the columns."""

    n_features_in_: PositiveCount
    sparsity_: Count
    C_: Strength
    method_: Literal["fedgradmp", "shared", "all"]
    n_iter_: Count
    # A fit over a network, or a file of an earlier version, does not have these.
    n_rows_left_out_: Count | None = None
    n_rows_recoded_: dict[str, PositiveCount] | None = None


class Lists(Part):
    """Fitted attributes that are lists of labels or names."""

    groups_: Annotated[Labels, Field(min_length=1)]
    missing_: Labels = []
    classes_: Annotated[Labels, Field(min_length=2), AfterValidator(_check_order)] | None = None
    feature_names_in_: list[str] | None = None


class ColumnEntry(Part):
    """What belongs to a column, which a person finds by its name."""

    column: Count
    name: str


class Coefficients(ColumnEntry):
    """The coefficients of a column: one, or one for each class."""

    values: list[Number]


class EncodedVariable(Part):
    """A column of a table, as in `fgmp.estimators.encoding.Variable`."""

    name: str
    mean: Number | None
    has_indicator: bool
    levels: Annotated[tuple[str, ...], Field(strict=False)]
    reference: str


class Deviation(ColumnEntry):
    """The standard deviation of a column."""

    value: NotNegative


class CovarianceParts(Part):
    """A covariance, as in `fgmp.estimators.covariance.Covariance`."""

    why_not_by_group: str
    n_rows: Positive
    n_groups: PositiveCount
    degrees_of_freedom: Number | None
    dispersion: NotNegative | None
    loss: Number
    is_ridge: bool
    columns: Annotated[list[Annotated[int, Field(ge=-1, le=_LARGEST_COUNT)]], Field(min_length=1)]
    outputs: list[Count]
    values: list[Number]
    model_based: Matrix
    by_group: Matrix | None
    # Files of an earlier version do not have these.
    class_rows: list[NotNegative] | None = None
    indicator_shares: list[Share | None] | None = None
    n_samples: Count | None = None
    total_weight: Positive | None = None
    deviations: list[Deviation]


class CrossValidation(Part):
    """The columns of `fgmp.estimators.selection_path.SparsityPath`, and what was held out."""

    folds: Literal["rows", "groups"]
    sparsity: Annotated[list[Count], Field(min_length=1)]
    C: list[Strength]
    score: list[Number]
    standard_error: list[NotNegative]
    # Of two classes; files of an earlier version do not have it.
    auc: list[Share] | None = None


class ModelFile(Part):
    """A model as JSON."""

    format: Literal["fgmp model 1"]
    fgmp: str
    estimator: Literal["FedGradMPRegressor", "FedGradMPClassifier"]
    parameters: Parameters
    attributes: Attributes
    lists: Lists
    coefficients: list[Coefficients]
    intercept: list[Number]
    intercepts: list[Annotated[tuple[Label, Number | list[Number]], Field(strict=False)]] | None = (
        None
    )
    encoding: list[EncodedVariable] | None = None
    covariance: CovarianceParts | None = None
    cross_validation: CrossValidation | None = None
    # What, when, rounds, clients, bytes up, bytes down, as in `fgmp.estimators.session.Sent`.
    exchanges: list[
        Annotated[tuple[str, str, Count, Count, Count, Count], Field(strict=False)]
    ] = []


def check_content(content: Any) -> ModelFile:
    """Return JSON as the fields of a model, or raise a ValueError that names the first wrong one.

    Parameters
    ----------
    content : object
        What the JSON holds, as Python reads it.
    """
    try:
        return ModelFile.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(_in_words(content, first)) from None


def _in_words(content: Any, error: Any) -> str:
    """Return an error of pydantic as one line: the field, what came and what was expected."""
    path = _path_in(content, error["loc"])
    if error["type"] == "missing":
        return f"{path} lacks {error['loc'][-1]!r}"
    if error["type"] == "extra_forbidden":
        return f"{path} is no field of a model"
    words = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    return f"{path} is {short_repr(error['input'])}; {words}"


def _path_in(content: Any, location: tuple[str | int, ...]) -> str:
    """Return the place of a value, such as ``coefficients[0].values``.

    pydantic names the kinds that a value may have beside the places, and a field that is missing.
    """
    path = ""
    for key in location:
        if isinstance(content, dict) and key in content:
            path += f".{key}"
        elif isinstance(content, list) and isinstance(key, int) and key < len(content):
            path += f"[{key}]"
        else:
            break
        content = content[key]
    return path.removeprefix(".") or "the JSON"
