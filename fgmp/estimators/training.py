"""From rows, or clients, to the fitted attributes of an estimator."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .._support.displays import HistoryTable, preview_words
from .._support.progress import progress_line
from .._support.warnings import advise_once, is_called_by_model_selection
from ..recording import Run
from ..sparse_model import Array, IndexArray
from .advice import (
    IN_SKLEARN,
    advise_on_fit,
    advise_on_missing_groups,
    advise_on_rare_classes,
    errors_in_words,
    warn_of_rare_classes_of_all,
)
from .clients import FitClients
from .defaults import aggregator_of, check_cohort_of, grid_of, settings_of
from .encoding import EncodingPlan, RawTable, plan_of
from .federated_table import FederatedTable, RawTableClients, Rows
from .fitted import N_NAMED, LinearModel, input_names, is_encoded
from .fitting import FittedModel, fit_model
from .groups import encode_groups
from .inputs import (
    read_table,
    refuse_overflow,
    seed_of,
    validated,
    validated_targets,
    warn_of_other_indices,
    weights_of_rows,
)
from .own_intercepts import intercepts_by_group
from .session import Announce, Report, Session, report_nothing, round_in_words
from .small_cells import WHAT_SMALL_CELLS_BECOME, fill_small_cells_of_groups, is_small
from .standardization import agree_on_encoding
from .weighted_loss import advise_on_rates, rows_counted


def fit_rows(model: LinearModel, X: Any, y: Any, groups: Any, sample_weight: Any) -> None:
    """Fit an estimator that has no fitted attributes; parameters as in `fit`."""
    model._check_parameters()
    warn_of_other_indices(X, y=y, groups=groups, sample_weight=sample_weight)
    plan = None
    rows: Any
    if is_encoded(model):
        plan, rows, values = read_table(model, X, y)
        dtype = np.dtype(np.float64)
    else:
        rows, values = validated(model, X, validated_targets(model, y), ensure_min_samples=2)
        dtype = rows.dtype
        refuse_overflow(model, rows, None if is_classifier(model) else values)
    weights = weights_of_rows(sample_weight, values, dtype)
    advise_on_missing_groups(model, groups)

    # With noise numbers of rows are data: nothing may depend on them.
    min_rows = model.min_rows if model.private is None else 1
    codes, weights = _set_groups(model, groups, weights, min_rows)
    targets, loss, class_weights = model._targets(values, weights)
    advise_on_rates(loss, targets, sample_weight)
    if plan is not None:
        rows = _without_small_cells(model, rows, plan, codes, min_rows)
    if groups is None:
        min_rows = 1
    if min_rows > 1:
        advise_on_rare_classes(model, loss, targets, codes)

    counted = rows_counted(weights, targets, loss)
    passed = Rows(X if plan is None else rows, values, weights, codes, counted, min_rows)
    kind = FederatedTable if plan is None else RawTableClients
    clients = kind(passed._replace(X=rows, y=targets, weights=class_weights), loss)
    with _progress_line(model) as show_step:

        def report_round(words: str, run: Run, unit: float) -> None:
            show_step(round_in_words(words, run, unit))

        _fit_clients(model, clients, plan, report_round, show_step)
    model._training_data = passed


def _set_groups(
    model: LinearModel, groups: Any, weights: Array, min_rows: int
) -> tuple[IndexArray, Array]:
    """Set which groups take part; return the group of each row, or -1, and its weight there."""
    n_rows_passed = int(np.count_nonzero(weights))
    present, missing, codes, weights = encode_groups(len(weights), groups, weights, min_rows)
    if model.secure and len(present) + len(missing) < 2:
        raise ValueError(
            "secure is True, and all rows are one group; expected at least two, whose masks "
            f"hide what each sends. fit takes groups=...; {IN_SKLEARN.format('fit')}"
        )
    model.groups_ = present
    model.missing_ = missing
    model.n_rows_left_out_ = n_rows_passed - int(np.count_nonzero(weights))
    return codes, weights


def _progress_line(model: LinearModel) -> AbstractContextManager[Callable[[str], None]]:
    """Show the progress of a fit as `verbose` says, and take the line away at the end."""
    verbose = model.verbose
    if verbose == "auto" and is_called_by_model_selection():
        verbose = False  # the lines of several fits would be one heap
    return progress_line(verbose, "fit")


def _without_small_cells(
    model: LinearModel, table: RawTable, plan: EncodingPlan, groups: IndexArray, min_rows: int
) -> RawTable:
    """Return the rows without the small cells of each group, of which a warning tells."""
    filled, cells = fill_small_cells_of_groups(table, plan.names, groups, min_rows)
    recoded = zip(plan.names, table.n_changed(filled), strict=True)
    model.n_rows_recoded_ = {name: n_rows for name, n_rows in recoded if n_rows}
    words: dict[str, list[str]] = {}
    for group, (_, of_group) in zip(model.groups_.tolist(), sorted(cells.items()), strict=True):
        for name, n_rows in of_group.items():
            words.setdefault(name, []).append(f"{n_rows} at {group!r}")
    if words:
        found = [f"{name!r} ({preview_words(where, N_NAMED)})" for name, where in words.items()]
        advise_once(
            "small cells",
            f"fewer than min_rows={min_rows} rows of a group have {preview_words(found, N_NAMED)}: "
            f"{WHAT_SMALL_CELLS_BECOME}. A smaller min_rows gives them columns, which tell of "
            "these rows: min_rows=1 where rows may be pooled",
        )
    return filled


def fit_clients(
    model: LinearModel,
    clients: Any,
    groups: Sequence[str],
    names: Sequence[str],
    classes: Sequence[Any] | None,
    report: Report,
) -> None:
    """Fit an estimator that has no fitted attributes to clients on other machines.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
    clients : FitClients
        The clients; with categories or ``missing="indicator"`` as `RawTableClients`.
    groups : sequence of str
        Their names.
    names : sequence of str
        Names of the features.
    classes : sequence or None
        The labels of a classifier, increasing.
    report : callable (words, run, unit)
        As in `Session`.
    """
    model._check_parameters()
    class_weight = getattr(model, "class_weight", None)
    if class_weight is not None:
        raise ValueError(
            f"class_weight is {class_weight!r}; expected None where rows are elsewhere"
        )
    model.groups_ = np.asarray(groups)
    model.n_features_in_ = len(names)
    model.feature_names_in_ = np.asarray(names, object)
    if classes is not None:
        model.classes_ = np.asarray(classes)
    plan = plan_of(input_names(model), model.categories, model.missing)
    _fit_clients(model, clients, plan, report)
    absent = clients.absent
    model.groups_ = np.asarray([name for name in groups if name not in absent])
    model.missing_ = np.asarray(absent, str)
    rows = getattr(getattr(model, "covariance_", None), "class_rows", None)
    if rows is not None:  # sums of rows, which have no weights
        is_rare = is_small(np.round(rows, 6), model.min_rows)
        warn_of_rare_classes_of_all(model, np.flatnonzero(is_rare).tolist())


def _fit_clients(
    model: LinearModel,
    clients: Any,
    plan: EncodingPlan | None,
    report: Report,
    announce: Announce = report_nothing,
) -> None:
    """Fit the model, set the fitted attributes, and give advice.

    With a plan of an encoding clients are as `RawTableClients`, who agree on it first, and else
    `FitClients`.
    """
    if plan is None:
        session = _session(model, clients, report, announce)
    else:
        _refuse_open_levels(model, plan)
        levels = plan.union(clients.levels())
        session = _session(model, clients.statistics(levels), report, announce)
        model.encoding_ = agree_on_encoding(session, plan, levels)
        encoded = clients.encoded(model.encoding_)
        session = replace(session, clients=encoded, settings=settings_of(model, encoded))
    settings = session.settings
    with errors_in_words(model, settings):
        fitted = fit_model(session, grid_of(model, settings))
    _set_fitted(model, fitted)
    model.exchanges_ = tuple(session.log)
    advise_on_fit(model, fitted, settings)


def _session(
    model: LinearModel, clients: FitClients, report: Report, announce: Announce
) -> Session:
    """Return a session with clients."""
    check_cohort_of(model, len(clients.info.n_rows))
    settings = settings_of(model, clients)
    seed = seed_of(model.random_state)
    session = Session(clients, settings, seed, aggregator_of(model), report, announce)
    session.expect_all(clients.info.client_ids)
    return session


def _refuse_open_levels(model: LinearModel, plan: EncodingPlan) -> None:
    """Raise a ValueError if groups under masks were to say which levels they have."""
    if model.secure and plan.open_categories:
        names = [plan.names[index] for index in plan.open_categories]
        raise ValueError(
            f"categories names {names} without levels, and secure is True; expected "
            "categories={name: levels}, or every group would say in the open which levels it has"
        )


def _set_fitted(model: LinearModel, fitted: FittedModel) -> None:
    """Set what the stages of a fit have found."""
    table = fitted.table.reshape(len(fitted.table), -1)
    model.coef_ = table[1:].T.copy()
    model.intercept_ = table[0].copy()
    model.support_ = np.flatnonzero(np.any(model.coef_ != 0, axis=0))
    if not is_classifier(model):
        model.coef_ = model.coef_[0]
        model.intercept_ = float(model.intercept_[0])

    model.method_ = fitted.method
    model.sparsity_ = fitted.sparsity
    model.C_ = fitted.C
    model.n_iter_ = fitted.n_rounds
    model.history_ = HistoryTable(fitted.history)
    model.fgmp_version_ = version("fgmp")
    if fitted.cross_validation is not None:
        model.cv_ = fitted.cross_validation
    if fitted.covariance is not None:
        model.covariance_ = fitted.covariance
    if fitted.intercepts is not None:
        model.intercepts_ = intercepts_by_group(model.groups_.tolist(), fitted.intercepts)
