"""What parameters of an estimator come to at its clients: C, the grid, the aggregator."""

import math

from sklearn.base import is_classifier

from .._support.validation import check_integer, check_sequence
from ..aggregation import Aggregator
from ..privacy.ledger import Ledger
from ..privacy.masking import Sessions
from ..privacy.secure_sums import SecureSum
from ..simulation import check_cohort
from .clients import FitClients
from .encoding import category_keys
from .fitted import LinearModel, always_included
from .parameters import FitParameters
from .selection_path import most_identifiable
from .settings import FitSettings

# The sparsities that "cv" chooses from, and all features if these are at most 50 and a third of the
# rows: then paths begin with all, and their loss takes no further exchange.
SPARSITIES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_MOST_WITH_ALL = 50
_DEFAULT_SPARSITY = 10
# Each C that C="cv" chooses from.
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
# C of the dense model, and of labels, by default: the ridge weighs as much as one row.
_DEFAULT_STRENGTH = 1.0
# Of the mean weight of a row, in single precision.
_ROUNDING_OF_WEIGHTS = 1e-5
# `sparsity="all"` takes at most this number of features: their Hessian has 12 million numbers.
_MAX_DENSE_FEATURES = 5000


def settings_of(model: LinearModel, clients: FitClients) -> FitSettings:
    """Return the parameters with their defaults resolved."""
    strengths = _STRENGTHS if model.C == "cv" else (strength_of(model),)
    unit = _unit_of_strengths(model, clients)
    has_encoding = hasattr(model, "encoding_")
    return FitSettings(
        parameters=model,
        info=clients.info,
        is_sparse=clients.is_sparse,
        total_weight=clients.total_weight,
        counted=clients.counted,
        C=strength_of(model) / unit,
        strengths=tuple(C / unit for C in strengths),
        always_include=always_included(model),
        block_of=model.encoding_.block_of() if has_encoding else None,
        indicators=model.encoding_.indicators() if has_encoding else (),
    )


def strength_of(model: FitParameters) -> float:
    """Return C as a number; the default one for "auto", and for "cv" until it is chosen."""
    if not isinstance(model.C, str):
        return model.C
    if is_classifier(model) or model.sparsity == "all":
        return _DEFAULT_STRENGTH
    return float("inf")


def _unit_of_strengths(model: FitParameters, clients: FitClients) -> float:
    """Return what each C is divided by: the mean weight of a row, if no number is given.

    C is relative to the sum of the weights, and "auto" and "cv" stand for numbers of rows.
    """
    mean_weight = float(clients.total_weight / clients.counted.sum())
    is_one = math.isclose(mean_weight, 1, rel_tol=_ROUNDING_OF_WEIGHTS)
    return mean_weight if isinstance(model.C, str) and not is_one else 1.0


def aggregator_of(model: FitParameters) -> Aggregator | None:
    """Return the aggregator: the mean, a secure sum, or noise, which allows no exact sums."""
    if model.private is None:
        return SecureSum(ledger=Ledger(), sessions=Sessions()) if model.secure else None
    asks_exact_sums = {
        "standardize": bool(model.standardize),
        "fit_intercept": bool(model.fit_intercept),
        "polish": model.polish,
        "secure": model.secure,
        "sparsity": isinstance(model.sparsity, str),
        "C": model.C == "cv",
        "method": model.method == "shared",
        "missing": model.missing != "error",
        "categories": bool(category_keys(model.categories)),
    }
    wrong = [f"{name}={getattr(model, name)!r}" for name, asks in asks_exact_sums.items() if asks]
    if wrong:
        raise ValueError(
            f"private is given with {', '.join(wrong)}: units, paths, masks and closing "
            "exchanges have no noise; expected an integer sparsity, no method 'shared', no "
            "missing or categories, and standardize, fit_intercept, polish and secure False"
        )
    return model.private


def check_cohort_of(model: FitParameters, n_clients: int) -> None:
    """Check that the cohort size fits the clients, and that secure sums are over all."""
    check_cohort(model.cohort_size, n_clients)
    if model.secure and (model.cohort_size or n_clients) < n_clients:
        raise ValueError(
            f"cohort_size is {model.cohort_size} of {n_clients} groups with secure=True; "
            "expected None: sums of other cohorts subtract to single groups"
        )


def grid_of(model: FitParameters, settings: FitSettings) -> list[int]:
    """Return the sparsities to choose from, increasing; a single one if it is given."""
    n_features = settings.n_choices
    if model.sparsity is None:
        return [min(_DEFAULT_SPARSITY, n_features)]
    is_word = isinstance(model.sparsity, str)
    if is_word and model.sparsity == "all":
        if settings.n_features > _MAX_DENSE_FEATURES:
            raise ValueError(
                f"X has {settings.n_features} features; expected at most "
                f'{_MAX_DENSE_FEATURES} with sparsity="all"'
            )
        return [n_features]
    if is_word and model.sparsity == "cv":
        return _grid_of_cross_validation(model, settings)
    why = f"{_words_on_choices(settings)}; or 'all', 'cv', None"
    return [check_integer("sparsity", model.sparsity, at_least=0, at_most=n_features, why=why)]


def _grid_of_cross_validation(model: FitParameters, settings: FitSettings) -> list[int]:
    """Return the sparsities that "cv" chooses from."""
    n_features = settings.n_choices
    n_rows = settings.n_rows
    if model.sparsities is None:
        largest = max(n_rows // 2, 1)
        if n_features > n_rows:
            largest = most_identifiable(n_rows, settings.n_folds, model.sparsity)
        grid = {sparsity for sparsity in SPARSITIES if sparsity <= min(n_features, largest)}
        if n_features <= min(_MOST_WITH_ALL, n_rows // 3):
            grid.add(n_features)
        return sorted(grid)

    expected = "a sequence of integers, or None"
    sparsities = check_sequence("sparsities", model.sparsities, expected)
    check_integer("the number of sparsities", len(sparsities))
    why = _words_on_choices(settings)
    return sorted(
        {
            check_integer("sparsities", sparsity, at_least=0, at_most=n_features, why=why)
            for sparsity in sparsities
        }
    )


def _words_on_choices(settings: FitSettings) -> str:
    """Return what the largest sparsity is, in words."""
    if settings.always_include or settings.block_of is not None:
        return "the number of features to choose from"
    return "the number of features"
