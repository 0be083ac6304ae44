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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._support.warnings import warn_user
from ..shared_support.newton import SupportState
from ..sparse_model import Array, SparseModel
from .covariance import Covariance, coefficient_covariance
from .newton_steps import first_steps
from .own_intercepts import common_intercept, intercepts_by_newton, intercepts_of_clients
from .refit import RefittedModel, refit_model
from .selection_path import (
    EliminationPath,
    SelectedFeatures,
    Selector,
    SparsityPath,
    StandardizedClients,
    all_features,
    fedgradmp_of,
    folds_of,
    method_of_rounds,
    paths_from,
    score_path,
    select_features,
    standardized_clients,
    support_state,
)
from .session import TOTALS, Session
from .settings import FitSettings
from .standardization import unstandardized
from .unit_check import UnusualColumn, compare_units

# The last step of a common intercept that a fit goes on from promises less, in the mean loss of a
# row: it is 0.05 or more, and what is left is about the square.
_ROUGHLY = 6e-4


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
    intercepts : ndarray, shape (n_clients, n_outputs), or None
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
    return _fit_exactly(session, grid)


def _fit_exactly(session: Session, grid: Sequence[int]) -> FittedModel:
    """Run all stages; those that do not wait for one another run together."""
    settings = session.settings
    method = method_of_rounds(settings, grid)
    folds = folds_of(session)
    units = [partial(standardized_clients, fold=fold) for fold in (None, *folds)]
    clients, *of_folds = session.together(units)
    if folds and all(of_fold.stats.is_constant.all() for of_fold in of_folds):
        raise ValueError(
            f"n_folds is {len(folds)}, and no fold leaves rows to learn from; expected more of "
            "either"
        )

    middle: list[Any] = [partial(_begin, clients=clients, method=method, grid=grid)]
    if folds:
        score = partial(score_path, clients=clients, of_folds=of_folds)
        middle.append(partial(score, grid=grid, method=method))
    start, *scored = session.together(middle)
    path = scored[0] if scored else None
    sparsity = path.chosen if path else grid[0]
    C = path.chosen_C if path else settings.C
    last: list[Any] = [
        partial(_conclude, start=start, sparsity=sparsity, C=C),
        partial(compare_units, clients=session.clients.transport(), stats=clients.stats),
    ]
    fitted, unusual = session.together(last)
    if method is not None and method.sparsity < settings.n_choices:
        _warn_of_rounds(settings, start.selected)
    costs = {
        name: np.append(fitted.history[name][:-1], float(session.totals[name])) for name in TOTALS
    }
    history = fitted.history | costs
    return replace(fitted, history=history, cross_validation=path, unusual=unusual)


def _warn_of_rounds(settings: FitSettings, selected: SelectedFeatures) -> None:
    """Warn if the last of all rounds still lowered the objective by much.

    A choice has few rounds by default, as many as in its folds; of these nothing is said.
    """
    rounds = settings.rounds
    tol = settings.parameters.tol
    is_by_default = settings.parameters.rounds is None and settings.is_cross_validated
    if selected.n_rounds != rounds or rounds == 1 or is_by_default:
        return
    objective = selected.history["objective"]
    if objective[-2] - objective[-1] > tol * (objective[0] - objective[-1]):
        warn_user(
            f"the rounds ran out: the last of {rounds} did more than tol={tol:g} of "
            "what all did to the objective; with more rounds the features may be better",
            ConvergenceWarning,
        )


def refit_without_ridge(session: Session, columns: Array) -> Covariance | None:
    """Return the minimiser on some columns without a ridge, with its covariance, as a fit has it.

    Raises
    ------
    Separated
        If there is none.
    """
    settings = session.settings
    clients = standardized_clients(session)
    model = all_features(clients)
    atoms = np.append(np.arange(settings.n_intercepts), settings.n_intercepts + columns)
    stays = np.isin(model.support // settings.loss.n_outputs, atoms)
    model = replace(model, support=model.support[stays], values=model.values[stays])
    start = support_state(settings, model)
    refitted = refit_model(session, clients, start, {}, ridge=0.0, polish=True)
    return coefficient_covariance(session, clients, refitted.model, ridge=0.0)


class _Paths(NamedTuple):
    """What stage 3 finds on all rows.

    Attributes
    ----------
    by_strength : dict
        A path for each C to choose from; none without a path.
    first_steps : dict
        By C and sparsity the first steps of the refit of a model; not of every model.
    """

    by_strength: Mapping[float, EliminationPath]
    first_steps: Mapping[tuple[float, int], SupportState]

    def model(self, settings: FitSettings, C: float, sparsity: int) -> SparseModel:
        """Return the model of a path."""
        return self.by_strength[C].model(sparsity, settings.path_ridge(C))

    def start(self, settings: FitSettings, C: float, sparsity: int) -> SupportState:
        """Return a model as the start of its refit, or what the first steps from it have found."""
        found = self.first_steps.get((C, sparsity))
        return found or support_state(settings, self.model(settings, C, sparsity))


class _Start(NamedTuple):
    """What stages 1 to 3 find on all rows."""

    clients: StandardizedClients
    selected: SelectedFeatures
    paths: _Paths


def _begin(
    session: Session, clients: StandardizedClients, method: Selector | None, grid: Sequence[int]
) -> _Start:
    """Run stages 2 and 3, which need no choice, on all rows; of all features there is no path."""
    settings = session.settings
    if method is None:
        selected = SelectedFeatures(all_features(clients), {}, 0, "all")
        return _Start(clients, selected, _Paths({}, {}))

    selects_all = method.sparsity >= settings.n_choices
    rounds = settings.few_rounds if selects_all else settings.rounds
    # Beside the tables of the folds there is none: that of all rows is built again at the end.
    rows = replace(clients) if settings.is_cross_validated else clients
    select = partial(select_features, clients=rows, method=method, rounds=rounds)
    paths_of = partial(_paths_on, clients=rows, grid=grid)
    if selects_all:  # the path does not wait for the rounds
        both: list[Any] = [select, partial(paths_of, model=all_features(rows))]
        selected, paths = session.together(both)
    else:
        selected = select(session)
        paths = paths_of(session, model=selected.model)
    return _Start(clients, selected, paths)


def _paths_on(
    session: Session, clients: StandardizedClients, model: SparseModel, grid: Sequence[int]
) -> _Paths:
    """Return the paths on the features of a model, and first steps that wait for no choice."""
    settings = session.settings
    found = paths_from(session, clients, model)
    paths = _Paths(dict(zip(settings.strengths, found, strict=True)), {})
    # Without a ridge a model that is not chosen might be refused, whose classes are separated.
    with_ridge = [C for C in settings.strengths if settings.ridge(C) > 0]
    may_begin = settings.is_cross_validated and settings.parameters.polish and with_ridge
    if settings.loss.is_quadratic or not may_begin:
        return paths
    candidates = [(C, k) for C in with_ridge for k in grid if k]
    steps = [
        partial(
            first_steps,
            clients=clients.transport,
            state=paths.start(settings, C, k),
            ridge=settings.ridge(C),
        )
        for C, k in candidates
    ]
    states = session.together(steps)
    return paths._replace(first_steps=dict(zip(candidates, states, strict=True)))


def _conclude(session: Session, start: _Start, sparsity: int, C: float) -> FittedModel:
    """Refit the model that was chosen; then ask for its errors and its intercepts together."""
    settings = session.settings
    clients = start.clients
    polish = settings.parameters.polish or settings.parameters.sparsity == "all"
    level = clients.units.null_intercept
    refit: list[Any] = [partial(_refit, start=start, sparsity=sparsity, C=C, polish=polish)]
    if settings.asks_common_intercept and start.paths.by_strength:  # a model nearby has it nearly
        nearby = start.paths.start(settings, C, sparsity).model
        nearly = partial(common_intercept, clients=session.clients.transport(), stats=clients.stats)
        table = clients.units.to_original_units(nearby)
        refit.append(partial(nearly, table=table, start=level, tolerance=_ROUGHLY))
    refitted, *nearly_common = session.together(refit)
    if nearly_common:
        ((_, level),) = nearly_common
    last: list[Any] = [
        partial(_in_original_units, clients=clients, model=refitted.model, level=level)
    ]
    if polish and not settings.coefficients_only:
        covariance_of = partial(coefficient_covariance, clients=clients, model=refitted.model)
        last.insert(0, partial(covariance_of, ridge=settings.ridge(C)))
    *covariances, (table, intercepts) = session.together(last)
    return FittedModel(
        table=table,
        is_constant=clients.stats.is_constant,
        sparsity=sparsity,
        C=C,
        method=start.selected.method,
        n_rounds=start.selected.n_rounds,
        history=refitted.history,
        intercepts=intercepts,
        covariance=covariances[0] if covariances else None,
    )


def _refit(session: Session, start: _Start, sparsity: int, C: float, polish: bool) -> RefittedModel:
    """Return the refit of the model of a path; of its largest entries where that is much better.

    Without a choice of features it is the refit of all of them.

    Models of fewer features than the rounds select have a higher loss. By how much is foreseen by
    the quadratic of the path, which is wrong where a feature that it removes holds classes apart,
    or rows without events: its coefficient is large, and its curvature has nearly vanished.
    FedGradMP prunes by size, which is right there.
    """
    settings = session.settings
    clients = start.clients
    history = start.selected.history
    unit = clients.units.target_unit**2
    refitted = partial(
        refit_model,
        session,
        clients,
        history=history,
        ridge=settings.ridge(C),
        polish=polish,
    )
    if not history:
        return refitted(support_state(settings, start.selected.model))

    path = start.paths.by_strength[C]
    null, last_round = history["objective"][[0, -1]] * unit
    promised = path.loss_of(start.paths.model(settings, C, sparsity)) * unit
    found = refitted(start.paths.start(settings, C, sparsity))
    promises_half = null - promised >= (null - last_round) / 2  # not if nothing is promised
    highest = max(null - (null - promised) / 2, last_round)
    if not promises_half or found.objective <= highest:
        return found

    largest = path.largest_entries(sparsity, settings.selection)
    other = refitted(support_state(settings, largest))
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


def _fit_with_noise(session: Session, sparsity: int) -> FittedModel:
    """Run stage 2 alone, in the units of the data: all other stages need exact sums."""
    settings = session.settings
    clients = StandardizedClients(session.clients, unstandardized(settings))
    method = fedgradmp_of(settings, sparsity, is_exact=True)
    selected = select_features(session, clients, method, settings.rounds)
    return FittedModel(
        table=clients.table_of(selected.model),
        is_constant=clients.stats.is_constant,
        sparsity=sparsity,
        C=settings.C,
        method=selected.method,
        n_rounds=selected.n_rounds,
        history=selected.history,
    )


def _in_original_units(
    session: Session, clients: StandardizedClients, model: SparseModel, level: Array
) -> tuple[Array, Array | None]:
    """Return intercept and coefficients as in `FittedModel`, and the intercepts of the clients.

    A prediction for the means of all columns, `level`, is what steps to the common one start from.
    """
    settings = session.settings
    table = clients.table_of(model)
    if not settings.intercept_per_client or settings.coefficients_only:
        return table, None

    rows = session.clients.transport()
    if settings.asks_common_intercept:
        common, own = intercepts_by_newton(session, rows, clients.stats, table, level)
        table[0] = common.reshape(table[0].shape)
        return table, own
    if settings.parameters.secure:
        return table, None
    own = intercepts_of_clients(session, rows, SparseModel.of(table[1:]))
    return table, np.where(np.isnan(own), table[0], own)  # the mean for who does not answer
