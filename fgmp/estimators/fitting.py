"""A fit from its first exchange to its last: six stages, each a function of values.

1. Standardization statistics: common units, from sums over the clients (`standardization`).
2. Feature selection: rounds select more features than are wanted (`selection_path`).
3. Backward elimination: models with fewer and fewer of these (`selection_path`).
4. Model selection: one of them by cross-validation, if asked for (`selection_path`).
5. Refit: Newton steps on the features of this model (`refit`).
6. Covariance: one more sum at the refitted model, for standard errors (`covariance`).

At the end clients compare their own columns with the common units (`unit_check`).
All stages see sums over the clients only, whether these are in this process or on other machines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._support.warnings import warn_user
from ..method import Transport
from ..sparse_model import Array, SparseModel
from .covariance import Covariance, coefficient_covariance
from .own_intercepts import intercepts_by_newton
from .refit import RefittedModel, intercepts_from_means, refit_model, with_total_costs
from .selection_path import (
    EliminationPath,
    InitialSize,
    SelectedFeatures,
    SparsityPath,
    StandardizedClients,
    all_features,
    cross_validate,
    eliminate_backwards,
    initial_size,
    select_features,
)
from .session import Session
from .standardization import StandardizationStats, standardization_stats, unstandardized
from .unit_check import UnusualColumn, compare_units


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit.

    Attributes
    ----------
    table : ndarray, shape (1 + n_features,) or (1 + n_features, n_outputs)
        The intercept and the coefficients in the units of the data.
    is_constant : ndarray of bool, shape (n_features,)
        Which columns are constant.
    sparsity, C, method, n_rounds : int, float, str, int
        The number of features, C, the method that selected the features, and its rounds.
    history : dict of ndarray
        As in `FedGradMPRegressor`.
    cross_validation : SparsityPath or None
        How the sparsity, or C, was selected, if one of them was.
    intercepts : ndarray, shape (n_clients,) or (n_clients, n_outputs), or None
        The intercepts of the clients, if each has its own and no masks hide them; nan for a client
        whose rows do not determine any.
    covariance : Covariance or None
        The covariance of the coefficients, if they are a minimiser and there are any.
    unusual : sequence of UnusualColumn
        The columns that some clients seem to count in other units.
    """

    table: Array
    is_constant: Array
    sparsity: int
    C: float
    method: str
    n_rounds: int
    history: dict[str, Array]
    cross_validation: SparsityPath | None = None
    intercepts: Array | None = None
    covariance: Covariance | None = None
    unusual: Sequence[UnusualColumn] = ()


def fit_model(session: Session, grid: Sequence[int]) -> FittedModel:
    """Fit a model to the clients of a session.

    Parameters
    ----------
    session : Session
        The clients and the settings.
    grid : sequence of int
        The sparsities to choose from, increasing; a single one if it is given.
    """
    if session.settings.is_private:
        return _fit_with_noise(session, grid[0])
    if session.settings.parameters.sparsity == "all":
        return _fit_all_features(session, grid[0])
    return _fit_few_features(session, grid)


def _fit_few_features(session: Session, grid: Sequence[int]) -> FittedModel:
    """Run the six stages."""
    settings = session.settings
    rows = session.clients.transport()
    stats = standardization_stats(session, rows)

    clients = StandardizedClients(session.clients, stats.standardization)
    size = initial_size(settings, grid)
    selected = select_features(session, clients, size, settings.parameters.rounds)
    if settings.is_cross_validated:
        clients = clients.without_table()  # beside the tables of the folds
    choice = _choose(session, rows, stats, grid, size)
    path = eliminate_backwards(session, clients, selected.model, settings.selection_ridge(choice.C))
    refitted = _refit(session, clients, selected, path, choice)
    covariance = None
    if settings.parameters.polish:
        ridge = settings.ridge(choice.C)
        covariance = _covariance(session, clients, stats, refitted.model, ridge)
    table, intercepts = _in_original_units(session, rows, stats, refitted.model)
    unusual = compare_units(session, rows, stats)
    return FittedModel(
        table=table,
        intercepts=intercepts,
        is_constant=stats.is_constant,
        sparsity=choice.sparsity,
        C=choice.C,
        method=size.method,
        n_rounds=selected.n_rounds,
        history=with_total_costs(refitted.history, session.totals),
        cross_validation=choice.cross_validation,
        covariance=covariance,
        unusual=unusual,
    )


def refit_without_ridge(session: Session, columns: Array) -> Covariance | None:
    """Return the minimiser on some columns without a ridge, with its covariance, as a fit has it.

    Raises
    ------
    Separated
        If there is none.
    """
    settings = session.settings
    stats = standardization_stats(session, session.clients.transport())
    clients = StandardizedClients(session.clients, stats.standardization)
    model = all_features(clients)
    atoms = np.append(np.arange(settings.n_intercepts), settings.n_intercepts + columns)
    stays = np.isin(model.support // settings.n_outputs, atoms)
    model = replace(model, support=model.support[stays], values=model.values[stays])
    refitted = refit_model(session, clients, model, {}, ridge=0.0, polish=True)
    return coefficient_covariance(session, clients, refitted.model, stats, ridge=0.0)


class _Choice(NamedTuple):
    """A sparsity and a C, and how they were chosen, if they were."""

    sparsity: int
    C: float
    cross_validation: SparsityPath | None = None


def _refit(
    session: Session,
    clients: StandardizedClients,
    selected: SelectedFeatures,
    path: EliminationPath,
    choice: _Choice,
) -> RefittedModel:
    """Return the refit of the model of a path; of its largest entries where that is much better.

    Models of fewer features than the rounds select have a higher loss. By how much is foreseen by
    the quadratic of the path, which is wrong where a feature that it removes holds classes apart,
    or rows without events: its coefficient is large, and its curvature has nearly vanished.
    FedGradMP prunes by size, which is right there.
    """
    settings = session.settings
    ridge = settings.ridge(choice.C)
    history = selected.history
    unit = clients.standardization.target_unit**2

    def refitted(model: SparseModel) -> RefittedModel:
        return refit_model(session, clients, model, history, ridge, settings.parameters.polish)

    model = path.model(choice.sparsity, settings.path_ridge(choice.C))
    null, last_round = history["objective"][[0, -1]] * unit
    promised = path.loss_of(model) * unit
    found = refitted(model)
    promises_half = null - promised >= (null - last_round) / 2  # not if nothing is promised
    highest = max(null - (null - promised) / 2, last_round)
    if not promises_half or found.objective <= highest:
        return found

    other = refitted(path.largest_entries(choice.sparsity, settings.selection))
    if other.objective < found.objective:
        found = other
    if found.objective > highest:
        warn_user(
            f"the closing exchanges end at a loss of {found.objective:.3g}, where the rounds had "
            f"{last_round:.3g} and elimination promised {promised:.3g}: a feature that it removed "
            "counts for more than it seemed; a smaller C, or a larger sparsity, helps",
            ConvergenceWarning,
        )
    return found


def _fit_all_features(session: Session, n_features: int) -> FittedModel:
    """Run stages 1, 5 and 6 on all features, and stage 4 if C is chosen."""
    rows = session.clients.transport()
    stats = standardization_stats(session, rows)

    clients = StandardizedClients(session.clients, stats.standardization)
    choice = _choose(session, rows, stats, [n_features], None)

    model = all_features(clients)
    ridge = session.settings.ridge(choice.C)
    refitted = refit_model(session, clients, model, {}, ridge, polish=True)
    covariance = _covariance(session, clients, stats, refitted.model, ridge)
    table, intercepts = _in_original_units(session, rows, stats, refitted.model)
    unusual = compare_units(session, rows, stats)
    return FittedModel(
        table=table,
        intercepts=intercepts,
        is_constant=stats.is_constant,
        sparsity=n_features,
        C=choice.C,
        method="all",
        n_rounds=0,
        history=with_total_costs(refitted.history, session.totals),
        cross_validation=choice.cross_validation,
        covariance=covariance,
        unusual=unusual,
    )


def _fit_with_noise(session: Session, sparsity: int) -> FittedModel:
    """Run stage 2 alone, in the units of the data: all other stages need exact sums."""
    stats = unstandardized(session.settings)
    clients = StandardizedClients(session.clients, stats.standardization)
    size = InitialSize(sparsity, "fedgradmp")
    selected = select_features(session, clients, size, session.settings.parameters.rounds)
    return FittedModel(
        table=stats.standardization.to_original_units(selected.model),
        is_constant=stats.is_constant,
        sparsity=sparsity,
        C=session.settings.C,
        method=size.method,
        n_rounds=selected.n_rounds,
        history=selected.history,
    )


def _choose(
    session: Session,
    rows: Transport,
    stats: StandardizationStats,
    grid: Sequence[int],
    size: InitialSize | None,
) -> _Choice:
    """Return the sparsity and the C of a fit, by cross-validation if one of them is to be chosen.

    Parameters
    ----------
    session : Session
        The fit.
    rows : Transport
        All rows, in the units of the data.
    stats : StandardizationStats
        What stage 1 found.
    grid : sequence of int
        The sparsities to choose from.
    size : InitialSize or None
        How a path begins; None for all features.
    """
    settings = session.settings
    if not settings.is_cross_validated:
        return _Choice(grid[0], settings.C)
    path = cross_validate(session, rows, grid, size, stats.standardization.target_unit)
    return _Choice(path.chosen, path.chosen_C, path)


def _covariance(
    session: Session,
    clients: StandardizedClients,
    stats: StandardizationStats,
    model: SparseModel,
    ridge: float,
) -> Covariance | None:
    """Return the covariance of a refitted model, unless coefficients are all that is wanted."""
    settings = session.settings
    if settings.coefficients_only:
        return None
    return coefficient_covariance(session, clients, model, stats, ridge)


def _in_original_units(
    session: Session, rows: Transport, stats: StandardizationStats, model: SparseModel
) -> tuple[Array, Array | None]:
    """Return intercept and coefficients as in `FittedModel`, and the intercepts of the clients."""
    settings = session.settings
    table = stats.standardization.to_original_units(model)
    if not settings.intercept_per_client or settings.coefficients_only:
        return table, None

    if not settings.is_quadratic:
        common, own = intercepts_by_newton(session, rows, stats, table)
        table[0] = common.reshape(table[0].shape)
        return table, own

    intercepts = intercepts_from_means(session, rows, stats, table)
    if settings.parameters.secure:  # the mean alone
        table[0] = intercepts[0]
        return table, None
    table[0] = settings.info.weights @ intercepts
    return table, intercepts
