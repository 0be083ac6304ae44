"""What an estimator says of a fit in the words of a user: why there is none, and advice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from .._support.displays import preview_words
from .._support.warnings import (
    advise_once,
    check_batch_size,
    is_called_by_model_selection,
    warn_user,
)
from ..losses import GLMLoss
from ..privacy.secure_sums import TooLarge
from ..shared_support.newton import Separated
from ..sparse_model import Array, IndexArray
from .client_sums import BeyondRange
from .defaults import SPARSITIES, strength_of
from .fitted import N_NAMED, LinearModel, names_of_columns, names_of_features
from .fitting import FittedModel
from .groups import preview
from .parameters import FitParameters
from .settings import FitSettings
from .small_cells import rare_classes
from .unit_check import UnusualColumn

# The most constant columns that a warning names.
_N_CONSTANT_NAMED = 20

IN_SKLEARN = "inside scikit-learn that is set_{}_request(groups=True), with its metadata routing"


# Errors.


@contextmanager
def errors_in_words(model: LinearModel, settings: FitSettings) -> Iterator[None]:
    """Raise what a fit refuses in the words of a user: names of columns, and what helps."""
    try:
        yield
    except Separated as error:
        _refuse_separated(model, error)
    except BeyondRange as error:
        _refuse_units(model, error, settings.n_features)
    except TooLarge as error:
        _refuse_beyond_masks(model, error, settings)


def _refuse_separated(model: LinearModel, error: Separated) -> NoReturn:
    """Raise a ValueError for classes that leave the coefficients without a bound."""
    problem = "The classes are separated without error on the features taken"
    if error.in_part:
        problem = (
            "The classes are separated in part on the features taken, and no row is against it "
            "that would count"
        )
    raise ValueError(
        f"{problem}, so that their coefficients have no bound with C={strength_of(model)!r}; "
        "a finite C gives them one."
    ) from None


def _refuse_units(model: LinearModel, error: BeyondRange, n_features: int) -> NoReturn:
    """Raise a ValueError for columns that one client counts in very different units."""
    is_beyond = np.isin(np.arange(n_features), error.columns)
    subject = "y has numbers"
    if is_beyond.any():
        subject = f"X has columns {names_of_columns(model, is_beyond)}"
    raise ValueError(
        f"{subject} that one site counts in units too far from those of the others for sums "
        "under masks; expected the same units at all sites"
    ) from None


def _refuse_beyond_masks(model: LinearModel, error: TooLarge, settings: FitSettings) -> NoReturn:
    """Raise a ValueError for sums beyond the range of masks.

    If the sum has one number for each coefficient, the message names the columns.
    """
    n_columns = settings.n_intercepts + settings.n_features
    subject = "X or y has"
    if error.size == n_columns * settings.loss.n_outputs:
        columns = np.unique(error.indices // settings.loss.n_outputs) - settings.n_intercepts
        is_beyond = np.isin(np.arange(settings.n_features), columns)
        if is_beyond.any():
            subject = f"X has in the columns {names_of_columns(model, is_beyond)}"
    raise ValueError(
        f"{subject} units in which {error}; standardize=True and the same units at all sites "
        "bring them there"
    ) from None


# Warnings.


def advise_on_missing_groups(model: FitParameters, groups: Any) -> None:
    """Warn if no groups are passed inside scikit-learn, or where each has an intercept."""
    if groups is not None:
        return
    problem = ""
    if model.fit_intercept == "per_group":
        problem = (
            "fit_intercept is 'per_group', and no groups are given: all rows are one group, with "
            "one intercept. fit takes groups=...; "
        )
    elif is_called_by_model_selection():
        problem = (
            "a fit inside scikit-learn got no groups: all rows are one group. Its folds know no "
            "groups either. "
        )
    if problem:
        advise_once("fit without groups", problem + IN_SKLEARN.format("fit"))


def advise_on_rare_classes(
    model: LinearModel, loss: GLMLoss, targets: Array, groups: IndexArray
) -> None:
    """Warn of classes of which a group has few rows, or with masks all groups together."""
    if model.secure:
        found = rare_classes(loss, targets, model.min_rows, np.minimum(groups, 0))
        warn_of_rare_classes_of_all(model, [label for _, label in found])
        return
    names = model.groups_.tolist()
    words = [
        f"{model.classes_.tolist()[label]!r} at the group {names[group]!r}"
        for group, label in rare_classes(loss, targets, model.min_rows, groups)
    ]
    if words:
        advise_once(
            "rare classes",
            f"fewer than min_rows={model.min_rows} rows are of the class "
            f"{preview_words(words, N_NAMED)}: they take part, and the sums of a group tell "
            "of them in the open; secure=True adds up the rows of all groups first",
        )


def warn_of_rare_classes_of_all(model: LinearModel, labels: list[int]) -> None:
    """Warn of classes, by their indices, of which all groups together have few rows."""
    if labels:
        names = preview([model.classes_.tolist()[label] for label in labels], N_NAMED)
        advise_once(
            "rare classes of all",
            f"fewer than min_rows={model.min_rows} rows of all groups are of the class {names}: "
            "the model tells of them",
        )


def advise_on_fit(model: LinearModel, fitted: FittedModel, settings: FitSettings) -> None:
    """Warn of constant columns, of an empty model, of small batches."""
    if fitted.is_constant.any():
        names = names_of_columns(model, fitted.is_constant, _N_CONSTANT_NAMED)
        warn_user(
            f"Features {names} are constant, or so small that their squares are zero: "
            "their coefficients are zero."
        )
    if fitted.intercepts is not None and len(model.intercepts_) < len(model.groups_):
        without = [name for name in model.groups_.tolist() if name not in model.intercepts_]
        warn_user(
            f"the rows of the groups [{preview(without, 5)}] determine no intercept of their "
            "own: a class is missing there, or every count is zero. predict gives them the "
            "common one"
        )
    if fitted.unusual:
        advise_once("units", _words_on_units(model, fitted.unusual))
    if not len(model.support_):
        why = "none that was tried lowers the loss on all rows"
        if model.sparsity == "cv" and fitted.sparsity == 0:
            why = "rows that were held out are predicted as well without, see cv_.table"
        warn_user(f"no feature is in the model: {why}")
    _advise_on_edges(model, fitted, settings)
    # With noise numbers of rows are data, and nothing is revealed of them.
    if fitted.method == "fedgradmp" and model.private is None:
        check_batch_size(model.batch_size, settings.info.n_rows)


def _advise_on_edges(model: LinearModel, fitted: FittedModel, settings: FitSettings) -> None:
    """Warn if cross-validation has chosen the end of what it tried, and could go further.

    The largest C is no such end: a ridge of a hundredth of a row is none. Nor is a number of
    features of which there are no more, or no more than the rows can tell apart.
    """
    if fitted.cross_validation is None or not len(model.support_):
        return
    tried = fitted.cross_validation.table
    most = int(tried["sparsity"].max())
    is_choice = model.sparsity == "cv" and most > tried["sparsity"].min()
    may_go_on = model.sparsities is not None or most == SPARSITIES[-1]
    if is_choice and may_go_on and fitted.sparsity == most < settings.n_choices:
        advise_once(
            "largest sparsity",
            f"sparsity='cv' has chosen {most}, the largest number that it tried: more "
            "features may predict better. sparsities=[...] goes further, and 'all' takes all",
        )
    if model.C == "cv" and fitted.C == tried["C"].min():
        advise_once(
            "smallest C",
            f"C='cv' has chosen {fitted.C:g}, the smallest that it tried: a smaller C, given "
            "as a number, may predict better, or the features say little",
        )


def _words_on_units(model: LinearModel, unusual: Sequence[UnusualColumn]) -> str:
    """Return which columns some groups seem to count in other units, and which group it is."""
    names = [*names_of_features(model), "y"]
    n_groups = len(model.groups_)
    words = []
    for found in unusual:
        where = f"{found.n_clients} of {n_groups} groups"
        if found.client_index is not None:
            where = f"the group {model.groups_.tolist()[found.client_index]!r}"
        words.append(f"{names[found.column]!r} at {where}")
    return (
        "columns whose spread or mean is far off that of the other groups: "
        f"{preview_words(words, N_NAMED)}. "
        "They enter the model as they are; expected the same units in all groups"
    )


def has_own_intercepts(model: LinearModel) -> bool:
    """Return whether each group has an intercept of its own, known here or kept by masks."""
    return hasattr(model, "intercepts_") or model.fit_intercept == "per_group"


def advise_on_intercepts(model: LinearModel, names: Sequence[Any] | None) -> None:
    """Warn of groups that have no intercept of their own, or if no groups are given (None)."""
    if not has_own_intercepts(model):
        return
    own = getattr(model, "intercepts_", {})
    if names is None:
        if len(own) > 1:
            advise_once(
                "predict without groups",
                "each group has an intercept of its own, and no groups are given: all rows get "
                "the common intercept. predict, score and performance take groups=...; "
                f"{IN_SKLEARN.format('score')}",
            )
        return

    unknown = {name for name in names if name not in own}
    if unknown:
        ordered = sorted(unknown, key=lambda name: (type(name).__name__, str(name)))
        reason = "they took no part in the fit, or their rows determine none"
        if model.secure:
            reason = "under masks it stays with the group, which intercept_of gives it"
        warn_user(
            f"groups [{preview(ordered, 5)}] have no intercept of their own: {reason}. Their "
            "rows get the common intercept"
        )
