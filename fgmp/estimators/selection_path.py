"""Stages 2 to 4 of a fit: feature selection, backward elimination, and model selection.

Rounds of FedGradMP, or of `SharedSupportGradMP`, select more features than are wanted. From the
pooled Hessian on these, backward elimination removes one feature after another: the models of a
path. Cross-validation selects one of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from .._support.displays import html_table
from .._support.optional import needs
from .._support.warnings import advise_once
from ..callbacks import Run, stop_when_stalled
from ..fedgradmp import FedGradMP
from ..rounds import Method, Transport
from ..shared_support.elimination import backwards
from ..shared_support.method import SharedState, SharedSupportGradMP
from ..shared_support.newton import NewtonOnSupport, SupportState
from ..shared_support.sketches import CountSketch
from ..sparse_model import Array, SparseModel
from .client_sums import HeldOutLosses
from .folds import Fold, n_folds_of
from .session import TOTALS, FitClients, FitSettings, Session
from .standardization import Standardization, standardization_stats

# A path begins with at least this number of features.
_LEAST_INITIAL = 20
# Least squares of m noisy rows on k Gaussian features has the excess error k / (m - k - 1) times
# the noise: unbounded at m = k, and at most the noise itself from m = 2 k + 1 on.
ROWS_PER_COEFFICIENT = 2
# Rounds end if this number of them in a row stalls, and in a fold after a few rounds.
_STALLED_ROUNDS = 3
_FOLD_ROUNDS = 5

# Models by their number of features.
EliminationPath = Mapping[int, SparseModel]


@dataclass(frozen=True, eq=False)
class StandardizedClients:
    """The clients' rows in common units, without a fold, as a federation that is built once.

    Attributes
    ----------
    clients : FitClients
        The clients in their own units.
    standardization : Standardization
        The common units.
    fold : Fold or None
        The rows that do not train; None if all do.
    """

    clients: FitClients
    standardization: Standardization
    fold: Fold | None = None

    @cached_property
    def transport(self) -> Transport:
        """The transport to the rows; built at its first use."""
        return self.clients.transport(self.standardization, self.fold)

    @cached_property
    def null_model(self) -> SparseModel:
        """The model without features."""
        info = self.clients.info
        return self.standardization.null_model(info.loss, info.dtype)

    def with_intercept_scale(self, intercept_scale: float) -> "StandardizedClients":
        """Return the clients with another number in the column of the intercept."""
        if intercept_scale == self.standardization.intercept_scale:
            return self
        standardization = self.standardization.with_intercept_scale(intercept_scale)
        return StandardizedClients(self.clients, standardization, self.fold)


class InitialSize(NamedTuple):
    """How a path begins.

    Attributes
    ----------
    n_features : int
        Number of features that the rounds select.
    method : {"fedgradmp", "shared"}
        The method of the rounds.
    """

    n_features: int
    method: str


class SelectedFeatures(NamedTuple):
    """What the rounds of stage 2 leave.

    Attributes
    ----------
    model : SparseModel
        The best model on record.
    history : dict of ndarray
        As in `fgmp.Result`; costs include those of the stages before.
    n_rounds : int
        Number of rounds.
    """

    model: SparseModel
    history: dict[str, Array]
    n_rounds: int


@dataclass(frozen=True, eq=False)
class SparsityPath:
    """The held-out losses along a path, as cross-validation found them.

    Attributes
    ----------
    table : dict of ndarray
        One entry per sparsity, as columns: ``sparsity``; ``score``, the mean held-out loss over the
        sites (lower is better); and its ``standard_error`` over the sites, or over the folds of a
        single one.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = X[:, 1] - X[:, 4] + 0.1 * np.random.default_rng(1).standard_normal(300)
    >>> fgmp.FedGradMPRegressor("cv").fit(X, y, groups=np.arange(300) % 5).cv_
    SparsityPath(chosen 2 of 6 sparsities from 0 to 5)
    """

    table: dict[str, Array]

    def __repr__(self) -> str:
        sparsities = self.table["sparsity"]
        tried = f"{len(sparsities)} sparsities from {sparsities.min()} to {sparsities.max()}"
        return f"SparsityPath(chosen {self.chosen} of {tried})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the held-out loss of each sparsity."""
        rows = [
            [f"{values[0]:g}", *(f"{value:.3g}" for value in values[1:])]
            for values in zip(*self.table.values(), strict=True)
        ]
        title = f"Held-out losses; chosen: {self.chosen}"
        return html_table(title, rows, header=list(self.table))

    @property
    def chosen(self) -> int:
        """The smallest sparsity whose score is within half a standard error of the best."""
        sparsities, score, errors = self.table.values()
        best = np.argmin(score)
        return int(sparsities[score <= score[best] + errors[best] / 2][0])

    def plot(self, ax: Any = None) -> Any:
        """Draw the score against the sparsity, with the choice marked; return matplotlib's axes."""
        with needs("a plot", "matplotlib"):
            import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        ax.errorbar(*self.table.values(), fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        ax.set(xlabel="sparsity", ylabel="held-out loss and its\nstandard error over the sites")
        ax.legend()
        return ax


# Stage 2: feature selection.


def initial_size(settings: FitSettings, grid: Sequence[int]) -> InitialSize:
    """Return how many features the rounds select, and by which method.

    The same holds for the path of all rows and for those of the folds.

    Parameters
    ----------
    settings : FitSettings
        The fit.
    grid : sequence of int
        The sparsities to choose from, increasing.
    """
    p = settings.n_choices
    weight = settings.total_weight
    largest = grid[-1]
    # A row of weight 2 counts as two rows.
    least_rows = round(weight * min(settings.info.weights))

    wanted = max(_LEAST_INITIAL, ceil(2.5 * largest))
    n_features = max(min(p, wanted, round(weight) // 3), largest, 1)
    if settings.n_features > weight:  # then 3 T features may interpolate the rows that train
        reach = most_identifiable(round(weight), settings.n_folds, settings.sparsity)
        n_features = max(min(n_features, reach), largest, 1)

    method = settings.method
    if method == "auto":
        needed = ROWS_PER_COEFFICIENT * settings.n_coefficients_per_client(n_features)
        method = "fedgradmp" if least_rows > needed else "shared"
    elif method == "fedgradmp":  # as many as the rows of the smallest client identify
        reach = (least_rows // ROWS_PER_COEFFICIENT - 1) // 3
        n_features = max(min(n_features, reach), largest, 1)
    return InitialSize(n_features, method)


def most_identifiable(n_rows: int, n_folds: int, sparsity: int | str | None) -> int:
    """Return the most features to select if features outnumber the rows.

    A merged support has three times as many features, and with "cv" only the rows outside of a
    fold train.
    """
    share = 1 - 1 / n_folds if sparsity == "cv" else 1.0
    return max(int(n_rows * share) // (3 * ROWS_PER_COEFFICIENT), 1)


def select_features(
    session: Session, clients: StandardizedClients, size: InitialSize, rounds: int
) -> SelectedFeatures:
    """Run rounds of a method from the model without features, and return the best model."""
    settings = session.settings
    standard_scale = clients.standardization.intercept_scale
    costs_before = Counter(session.totals)
    if size.method == "fedgradmp":
        clients = clients.with_intercept_scale(float(settings.n_intercepts))
        method: Method = _fedgradmp(settings, size.n_features)
        # A run with noise takes no state: it starts from the model without features anyway.
        state: Any = None if settings.is_private else clients.null_model
    else:
        method = _shared_support(settings, size.n_features)
        state = SharedState(clients.null_model)

    cohort_size = settings.cohort_size
    if cohort_size is not None:
        cohort_size = min(cohort_size, len(clients.transport.weights))
    result = session.run(
        method,
        clients.transport,
        rounds,
        cohort_size=cohort_size,
        state=state,
        callbacks=_callbacks(session, clients),
    )

    # If the start is the best on record, the last model is taken: a path is to have features, and
    # the steps of the next stages lower the loss.
    takes_last = result.best.round == 0 and np.isfinite(result.coefficients).all()
    coefficients = np.array(result.coefficients if takes_last else result.best.coefficients)
    scale_ratio = clients.standardization.intercept_scale / (standard_scale or 1)
    coefficients[: settings.n_intercepts] *= scale_ratio

    costs = {name: result.history[name] + costs_before[name] for name in TOTALS}
    n_rounds = int(result.history["round"][-1])
    return SelectedFeatures(SparseModel.of(coefficients), result.history | costs, n_rounds)


def _fedgradmp(settings: FitSettings, n_features: int) -> FedGradMP:
    """Return FedGradMP for a number of features."""
    return FedGradMP(
        n_features, settings.local_iterations, settings.batch_size, selection=settings.selection
    )


def _shared_support(settings: FitSettings, n_features: int) -> SharedSupportGradMP:
    """Return the method with a shared support, which is sent the gradient itself.

    The moments of stage 1 have cost three times as much, and a sketch of many features and few rows
    hides the features that matter.
    """
    n_columns = settings.n_intercepts + settings.n_features
    return SharedSupportGradMP(
        n_features,
        CountSketch(rows=1, columns=max(n_columns, 2)),
        NewtonOnSupport(ridge=settings.selection_ridge, allow_inexact=True),
        selection=settings.selection,
        pruning="largest",
    )


def _callbacks(session: Session, clients: StandardizedClients) -> list[Any]:
    """Return the callbacks of the rounds: a report, and a stop unless noise hides objectives."""
    words = "all rows" if clients.fold is None else f"without {clients.fold}"
    unit = clients.standardization.target_unit**2

    def report(run: Run) -> None:
        session.report(words, run, unit)

    if session.settings.is_private:
        return [report]
    return [report, stop_when_stalled(_STALLED_ROUNDS, improvement=session.settings.tol)]


# Stage 3: backward elimination.


def eliminate_backwards(
    session: Session, clients: StandardizedClients, model: SparseModel
) -> EliminationPath:
    """Return the minimiser on the features of a model, and on fewer and fewer of them.

    Features are removed one at a time by backward elimination on the pooled Hessian. The path ends
    with the model without features, or with those only that are always included.
    """
    settings = session.settings
    path = {0: clients.null_model}
    has_always_included = len(settings.always_include) > 0
    if len(model.used_atoms) <= settings.n_intercepts and not has_always_included:
        return path

    solver = NewtonOnSupport(settings.newton_steps, settings.selection_ridge)
    state = session.query(solver, clients.transport, support_state(settings, model))
    minimiser = state.model
    path[settings.n_chosen(minimiser)] = minimiser
    hessian = state.curvature.astype(np.float64)
    # The smallest model has those that are always included, if there are any.
    least = 0 if has_always_included else 1
    for n_features, positions, values in backwards(minimiser, hessian, settings.selection, least):
        path[n_features] = SparseModel(
            minimiser.support[positions],
            values.astype(minimiser.values.dtype),
            minimiser.shape,
        )
    return path


def support_state(settings: FitSettings, model: SparseModel) -> SupportState:
    """Return a model as the start of Newton steps: all outputs of its atoms, and the intercept."""
    n_outputs = settings.n_outputs
    positions = np.add.outer(model.used_atoms * n_outputs, np.arange(n_outputs)).reshape(-1)
    support = settings.selection.add_always_included(positions, model.shape)
    return SupportState(SparseModel(support, model.on(support), model.shape))


def model_of_size(path: EliminationPath, sparsity: int) -> SparseModel:
    """Return the model of a path with a number of features, or the largest if it has fewer."""
    return path[min(sparsity, max(path))]


# Stage 4: model selection.


def cross_validate(
    session: Session,
    clients: Transport,
    grid: Sequence[int],
    size: InitialSize,
    target_unit: float,
) -> SparsityPath:
    """Return the held-out losses of the sparsities of a grid.

    Each client holds out one fold of its rows at a time. Units, features and models of a fold come
    from the other rows alone.

    Parameters
    ----------
    session : Session
        The fit.
    clients : Transport
        All rows, in their own units.
    grid : sequence of int
        The sparsities, increasing.
    size : InitialSize
        How the path of each fold begins.
    target_unit : float
        The unit in which losses are sent is its square.

    Raises
    ------
    ValueError
        If no client has rows for two folds, or the rows of no fold leave anything to learn.
    """
    settings = session.settings
    info = settings.info
    min_rows = session.clients.min_rows
    folds_by_client = np.array([n_folds_of(m, settings.n_folds, min_rows) for m in info.rows])
    _check_folds(folds_by_client, settings.n_folds, min_rows)

    n_folds = int(folds_by_client.max())
    fitted = [
        _fit_without(session, Fold(number, n_folds, session.seed, min_rows), grid, size)
        for number in range(n_folds)
    ]
    if not any(models.has_learnt for models in fitted):
        raise ValueError(
            f"n_folds is {n_folds}, and no fold leaves rows to learn from; expected more of either"
        )

    tables = [table for models in fitted for table in models.tables]
    intercepts = np.array([table[0].reshape(-1) for table in tables])
    coefficients = [SparseModel.of(table[1:]) for table in tables]
    unit = target_unit**2
    method = HeldOutLosses(
        n_folds, len(grid), session.seed, min_rows, settings.intercept_per_client, unit
    )
    state = session.query(method, clients, (intercepts, *coefficients))
    # Clients that hold out nothing return zeros, so the sums are divided by the others' weight.
    weights = info.weights[folds_by_client > 0]
    losses = state[-1] / float(weights.sum())
    score = losses[0]
    errors = _standard_errors(losses, weights / float(weights.sum()))
    return SparsityPath(
        {
            "sparsity": np.array(grid),
            "score": score * unit,
            "standard_error": errors * unit,
        }
    )


def _check_folds(folds_by_client: Array, n_folds: int, min_rows: int) -> None:
    """Raise a ValueError if no client holds out rows, and warn if some have fewer folds."""
    holds_out = folds_by_client > 0
    if not holds_out.any():
        raise ValueError(
            f"n_folds is {n_folds}, and no group has rows for two folds of min_rows={min_rows}; "
            "expected larger groups, a smaller min_rows, or a sparsity that is a number"
        )
    if len(folds_by_client) > 1 and folds_by_client.min() < n_folds:
        n_small = np.count_nonzero(folds_by_client < n_folds)
        advise_once(
            "few folds",
            f"{n_small} of {len(folds_by_client)} groups have fewer than n_folds * min_rows = "
            f"{n_folds * min_rows} rows: they deal fewer folds, and "
            f"{np.count_nonzero(~holds_out)} hold out nothing, or sums would show fewer than "
            "min_rows rows; a smaller n_folds helps",
        )


class FoldModels(NamedTuple):
    """The models of a grid that were fitted without a fold.

    Attributes
    ----------
    tables : list of ndarray
        For each sparsity the intercept and the coefficients, in the units of the data.
    has_learnt : bool
        Whether any column varies in the rows that train.
    """

    tables: list[Array]
    has_learnt: bool


def _fit_without(
    session: Session, fold: Fold, grid: Sequence[int], size: InitialSize
) -> FoldModels:
    """Run stages 1 to 3 on the rows outside of a fold."""
    stats = standardization_stats(session, session.clients.transport(fold=fold))
    standardization = stats.standardization
    clients = StandardizedClients(session.clients, standardization, fold)
    path: EliminationPath = {0: clients.null_model}
    if standardization.has_features:
        rounds = min(_FOLD_ROUNDS, session.settings.rounds)
        selected = select_features(session, clients, size, rounds)
        path = eliminate_backwards(session, clients, selected.model)

    models = [model_of_size(path, sparsity) for sparsity in grid]
    tables = [standardization.to_original_units(model) for model in models]
    return FoldModels(tables, has_learnt=not stats.is_constant.all())


def _standard_errors(losses: Array, shares: Array) -> Array:
    """Return the standard errors of mean losses.

    Parameters
    ----------
    losses : ndarray, shape (2 + n_folds, n_models)
        Weighted means over the clients: l, l^2, and l by fold.
    shares : ndarray, shape (n_clients,)
        Weights of the clients, which sum to one.
    """
    score, squares, *by_fold = losses
    n_clients = len(shares)
    if n_clients == 1:  # over its folds
        return np.asarray(np.sqrt(len(by_fold) * np.var(by_fold, axis=0, ddof=1)))
    variance = np.maximum(squares - score**2, 0)
    return np.asarray(np.sqrt(variance * (shares @ shares) * n_clients / (n_clients - 1)))
