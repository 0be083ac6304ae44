"""Stages 2 to 4 of a fit: feature selection, backward elimination, and model selection.

Rounds of FedGradMP, or of `SharedSupportGradMP`, select more features than are wanted. From the
pooled Hessian on these, backward elimination removes one feature after another: the models of a
path. Cross-validation selects one of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, isnan, nan
from typing import Any, NamedTuple, cast

import numpy as np

from .._support.displays import html_table, rows_of
from .._support.linear_algebra import inner
from .._support.warnings import advise_once
from ..fedgradmp import FedGradMP
from ..method import Transport
from ..run.callbacks import stop_when_stalled
from ..selection import Selection
from ..shared_support.elimination import backwards, move_to_minimiser
from ..shared_support.method import SharedState, SharedSupportGradMP
from ..shared_support.newton import NewtonOnSupport, SupportState
from ..shared_support.sketches import CountSketch
from ..solvers import GradientDescent
from ..sparse_model import Array, IndexArray, SparseModel
from .client_sums import HeldOutLosses, with_equal_scores
from .clients import FitClients, Fold, Standardization
from .folds import deal_clients, n_folds_of
from .newton_steps import take_newton_steps
from .performance_sums import HeldOutPairs
from .plots import new_axes
from .resampling import training_transport
from .session import TOTALS, Session
from .settings import FitSettings
from .standardization import StandardizationStats, standardization_stats

# A path begins with at least this number of features.
_LEAST_INITIAL = 20
# FedGradMP takes gradient steps where a client has too few rows for a least squares solution.
_GRADIENT_STEPS = 5
# A client with too few rows for a least squares solution loses features that matter if it selects
# among many. Of eight tables of four groups, with T = 10 of 15 rows each, FedGradMP found all among
# 1,000 features, and on three tables among 2,000; of 100 rows with 50,000 rare words it found none.
# The shared support found them.
_MANY_FEATURES = 50
# Least squares of m noisy rows on k Gaussian features has the excess error k / (m - k - 1) times
# the noise: unbounded at m = k, and at most the noise itself from m = 2 k + 1 on.
ROWS_PER_COEFFICIENT = 2
# Of a standard error, by which elimination measures what a feature gains. The error that is left
# after a step is about the square of the step.
_STEP_OF_PATH = 0.1
# A score is as good as the best one if the difference is no more than this part of its standard
# error, or this part of what the best one gains.
_CLOSE_IN_ERRORS = 0.5
_CLOSE_IN_GAINS = 5e-4
# Rounds end if this number of them in a row stalls.
_STALLED_ROUNDS = 3


# What selects features in rounds.
Selector = FedGradMP | SharedSupportGradMP


@dataclass(frozen=True, eq=False)
class StandardizedClients:
    """The clients' rows in common units, without a fold, as a federation that is built once.

    Attributes
    ----------
    clients : FitClients
        The clients in their own units.
    stats : StandardizationStats
        What stage 1 has found.
    fold : Fold or None
        The rows, or clients, that do not train; None if all do.
    """

    clients: FitClients
    stats: StandardizationStats
    fold: Fold | None = None

    @property
    def units(self) -> Standardization:
        """The common units."""
        return self.stats.standardization

    @cached_property
    def transport(self) -> Transport:
        """The transport to the rows; built at its first use."""
        return training_transport(self.clients, self.fold, self.units)

    @cached_property
    def null_model(self) -> SparseModel:
        """The model without features."""
        info = self.clients.info
        return self.units.null_model(info.loss, info.dtype)

    def table_of(self, model: SparseModel) -> Array:
        """Return intercept and coefficients in the units of the data.

        If each client has its own intercept, a client that is new has a common one: of the squared
        loss their mean, and of another loss the one that fits a row with the mean of all columns.
        Neither takes a further exchange.
        """
        table = self.units.to_original_units(model)
        if not self.units.centred_per_client:
            return table

        p = len(self.units.factors)
        at_means = self.stats.means[:p] @ table[1:]
        level = self.units.null_intercept
        if self.clients.info.loss.is_quadratic:
            level = self.stats.means[p]
        table[0] = np.reshape(level, np.shape(at_means)) - at_means
        return table


def standardized_clients(session: Session, fold: Fold | None = None) -> StandardizedClients:
    """Run stage 1, on the rows outside of a fold if there is one."""
    rows = training_transport(session.clients, fold)
    return StandardizedClients(session.clients, standardization_stats(session, rows), fold)


@dataclass(frozen=True, eq=False)
class EliminationPath:
    """Models with fewer and fewer features, all minimisers of one quadratic on the server.

    The quadratic is the mean loss, expanded at the minimiser on the features that the rounds
    selected: for the squared loss it is the loss itself, so that every model is exact.

    Attributes
    ----------
    null_model : SparseModel
        The model without features, if none is always included.
    minimiser : SparseModel
        b, the minimiser on the selected features, with `ridge`.
    hessian : ndarray of float64, shape (k, k)
        H, of the mean loss and the ridge, on the support of b.
    ridge : float
        The ridge in H.
    is_penalised : ndarray of bool, shape (k,)
        Which coefficients have it.
    positions : dict of int to ndarray of int
        By number of features which entries of b are left.
    loss : float
        The mean loss of b; nan if it is not known.
    """

    null_model: SparseModel
    minimiser: SparseModel
    hessian: Array
    ridge: float
    is_penalised: Array
    positions: Mapping[int, IndexArray]
    loss: float = nan

    def model(self, sparsity: int, ridge: float) -> SparseModel:
        """Return the minimiser on `sparsity` features with a ridge; on fewer if there are no more.

        With S the entries that are left, r the ridge, and J the identity but for entries without a
        ridge, it is x_S = (H_SS + (r - ridge) J)^-1 (H b)_S.
        """
        sparsity = min(sparsity, max(self.positions, default=0))
        if sparsity not in self.positions:  # no features, and none that are always included
            return self.null_model
        b = self.minimiser
        positions = self.positions[sparsity]
        change = (ridge - self.ridge) * self.is_penalised
        move = move_to_minimiser(positions, b.values, self.hessian, change)
        values = (b.values + move)[positions].astype(b.values.dtype)
        return replace(b, support=b.support[positions], values=values)

    def largest_entries(self, sparsity: int, selection: Selection) -> SparseModel:
        """Return the minimiser with its `sparsity` largest features only, in common units."""
        support = selection.select_from(self.minimiser, sparsity)
        return replace(self.minimiser, support=support, values=self.minimiser.on(support))

    def loss_of(self, model: SparseModel) -> float:
        """Return the mean loss of a model of the path by the quadratic; nan if it is unknown."""
        if isnan(self.loss):
            return nan
        b = self.minimiser
        x = model.on(b.support)
        change = x - b.values
        rise = inner(change, self.hessian @ change) / 2
        penalties = self.ridge / 2 * self.is_penalised
        return self.loss + rise - inner(x, penalties * x) + inner(b.values, penalties * b.values)


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
    method : {"fedgradmp", "shared", "all"}
        Their method; "all" if there are none, because all features are wanted.
    """

    model: SparseModel
    history: dict[str, Array]
    n_rounds: int
    method: str


@dataclass(frozen=True, eq=False)
class SparsityPath:
    """The held-out losses along a path, as cross-validation found them.

    Attributes
    ----------
    table : dict of ndarray
        One entry per sparsity and C, as columns: ``sparsity`` and ``C``; ``score``, the mean
        held-out loss (lower is better); and ``standard_error``, that of its difference from the
        smallest score, over the held-out rows. Of two classes, where the
        sparsity is chosen, also ``auc``, if a group has
        `min_rows` rows of both: the share of pairs of held-out rows of one group, a row of each
        class, that the predictions put in order, which is the mean of the areas under the ROC
        curves of the groups, with the numbers of their pairs as weights.
    folds : {"rows", "groups"}
        What was held out.

    Notes
    -----
    With l_k the held-out losses of k features, row by row, b the sparsity of the smallest mean, and
    a the smallest sparsity, the choice is the smallest k with

        mean(l_k - l_b) <= max(s_k / 2, mean(l_a - l_b) / 2000),

    where s_k is the standard error of the first mean over the rows; and the C of that score. What
    makes all losses large at once, such as a hospital with hard cases, is in both losses and
    cancels. (The standard error of one loss holds it, and chooses too few features where hospitals
    differ; so does one over few groups.) Where nearly all is explained, half an error is less than
    what one fold loses that happens to miss a feature: half a thousandth of the gain is no reason
    for another one. Scores that differ by rounding alone are equal, and of equal ones the first
    counts.

    Rows of a group are not independent, and those of a fold share a model, so that the error is no
    test of a feature: it says which losses are as good as equal.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = X[:, 1] - X[:, 4] + 0.1 * np.random.default_rng(1).standard_normal(300)
    >>> model = fgmp.FedGradMPRegressor("cv", random_state=0)
    >>> model.fit(X, y, groups=np.arange(300) % 5).cv_
    SparsityPath(chosen 2 of 6 sparsities from 0 to 5, rows held out)
    """

    table: dict[str, Array]
    folds: str

    def __repr__(self) -> str:
        sparsities = np.unique(self.table["sparsity"])
        tried = f"{len(sparsities)} sparsities from {sparsities.min()} to {sparsities.max()}"
        if len(sparsities) == 1:
            tried = f"one sparsity, {sparsities[0]}"
        strengths = np.unique(self.table["C"])
        if len(strengths) > 1:
            tried += f"; C={self.chosen_C:g} of {len(strengths)}"
        return f"SparsityPath(chosen {self.chosen} of {tried}, {self.folds} held out)"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the held-out loss of each sparsity."""
        title = f"Held-out losses, {self.folds} held out; chosen: {self.chosen}"
        return html_table(title, list(self.table), rows_of(self.table, 3, nothing="nan"))

    @property
    def chosen(self) -> int:
        """The smallest sparsity whose score is as good as the best one, by the formula above."""
        return int(self.table["sparsity"][self._chosen_row])

    @property
    def chosen_C(self) -> float:
        """The C with the best score at this sparsity."""
        return float(self.table["C"][self._chosen_row])

    @property
    def explained(self) -> dict[int, float]:
        """By sparsity 1 - score / score(0), the share of the held-out loss that it explains.

        It is R^2 for squares, and D^2, the share of the deviance, for labels, where a score is half
        a deviance. It is empty if no model without features was tried, or this has no loss.
        """
        score = self._by_sparsity("score")
        if not score.get(0):
            return {}
        return {sparsity: 1 - value / score[0] for sparsity, value in score.items()}

    @property
    def auc(self) -> dict[int, float]:
        """By sparsity the AUC on held-out rows, as in `table`; empty if there is none."""
        return self._by_sparsity("auc") if "auc" in self.table else {}

    def _by_sparsity(self, name: str) -> dict[int, float]:
        """Return a column of the table at the best C of each sparsity."""
        rows = self._best_rows()
        columns = (self.table[column][rows].tolist() for column in ("sparsity", name))
        return dict(zip(*columns, strict=True))

    @property
    def _chosen_row(self) -> int:
        """The row of the table that is chosen."""
        rows = self._best_rows()
        score = with_equal_scores(self.table["score"])
        distance = (score - score.min())[rows]
        errors = _CLOSE_IN_ERRORS * self.table["standard_error"][rows]
        is_close = distance <= np.maximum(errors, _CLOSE_IN_GAINS * distance[0])
        return int(rows[is_close][0])

    def _best_rows(self) -> IndexArray:
        """Return the row of the best C of each sparsity, by increasing sparsity."""
        sparsities = self.table["sparsity"]
        order = np.lexsort((with_equal_scores(self.table["score"]), sparsities))
        _, first = np.unique(sparsities[order], return_index=True)
        return np.asarray(order[first])

    def plot(self, ax: Any = None) -> Any:
        """Draw the score against the sparsity, with the choice marked; return matplotlib's axes.

        At each sparsity it is the score of the best C.
        """
        rows = self._best_rows()
        if ax is None:
            ax = new_axes(1, len(rows), (6.4, 4.8))[0]
        columns = (self.table[name][rows] for name in ("sparsity", "score", "standard_error"))
        ax.errorbar(*columns, fmt="o-", ms=4, capsize=2)
        ax.axvline(self.chosen, color="0.4", linestyle="--", label=f"chosen: {self.chosen}")
        ax.set(
            xlabel="sparsity",
            ylabel="held-out loss, with the standard error\nof its difference from the best",
        )
        ax.legend()
        return ax


# Stage 2: feature selection.


def method_of_rounds(settings: FitSettings, grid: Sequence[int]) -> Selector | None:
    """Return the method by which the rounds select features; None if all are wanted.

    The same holds for the path of all rows and for those of the folds.

    Parameters
    ----------
    settings : FitSettings
        The fit.
    grid : sequence of int
        The sparsities to choose from, increasing.
    """
    asked = settings.parameters.method
    if settings.parameters.sparsity == "all":
        return None
    p = settings.n_choices
    n_rows = settings.n_counted
    largest = grid[-1]
    least_rows = round(min(settings.counted))

    wanted = max(_LEAST_INITIAL, ceil(2.5 * largest))
    n_features = max(min(p, wanted, round(n_rows) // 3), largest, 1)
    if settings.n_features > n_rows:  # then 3 T features may interpolate the rows that train
        reach = most_identifiable(round(n_rows), settings.n_folds, settings.parameters.sparsity)
        n_features = max(min(n_features, reach), largest, 1)

    needed = ROWS_PER_COEFFICIENT * settings.n_coefficients_per_client(n_features)
    has_few_rows = least_rows <= needed
    has_many_features = p > _MANY_FEATURES * n_features
    if asked == "shared" or (asked == "auto" and has_few_rows and has_many_features):
        return _shared_support(settings, n_features)
    return fedgradmp_of(
        settings, n_features, is_exact=settings.loss.is_quadratic and not has_few_rows
    )


def most_identifiable(n_rows: int, n_folds: int, sparsity: int | str | None) -> int:
    """Return the most features to select if features outnumber the rows.

    A merged support has three times as many features, and with "cv" only the rows outside of a
    fold train.
    """
    share = 1 - 1 / n_folds if sparsity == "cv" else 1.0
    return max(int(n_rows * share) // (3 * ROWS_PER_COEFFICIENT), 1)


def select_features(
    session: Session, clients: StandardizedClients, method: Selector, rounds: int
) -> SelectedFeatures:
    """Run rounds of a method from the model without features, and return the best model."""
    settings = session.settings
    costs_before = Counter(session.totals)
    is_shared = isinstance(method, SharedSupportGradMP)
    state: Any = SharedState(clients.null_model) if is_shared else clients.null_model
    if settings.is_private:  # it takes no state: it starts from the model without features anyway
        state = None

    cohort_size = settings.parameters.cohort_size
    if cohort_size is not None:
        cohort_size = min(cohort_size, len(clients.transport.weights))
    stall = stop_when_stalled(_STALLED_ROUNDS, improvement=settings.parameters.tol)
    words = "all rows" if clients.fold is None else f"without {clients.fold}"
    unit = clients.units.target_unit**2
    result = session.run(
        method,
        clients.transport,
        rounds,
        cohort_size=cohort_size,
        state=state,
        callbacks=[lambda run: session.report(words, run, unit)],
        stops=None if settings.is_private else stall,  # noise hides objectives
    )

    # If the start is the best on record, the last model is taken: a path is to have features, and
    # the steps of the next stages lower the loss.
    takes_last = result.best.round == 0 and np.isfinite(result.coefficients).all()
    coefficients = np.array(result.coefficients if takes_last else result.best.coefficients)

    costs = {name: result.history[name] + costs_before[name] for name in TOTALS}
    n_rounds = int(result.history["round"][-1])
    model = SparseModel.of(coefficients)
    name = "shared" if is_shared else "fedgradmp"
    return SelectedFeatures(model, result.history | costs, n_rounds, name)


def fedgradmp_of(settings: FitSettings, n_features: int, is_exact: bool) -> FedGradMP:
    """Return FedGradMP for a number of features, whose clients may solve least squares exactly.

    On few rows gradient steps from the model of the server stay near it, where a least squares
    solution would follow the noise of the rows.
    """
    solver = None if is_exact else GradientDescent(steps=_GRADIENT_STEPS)
    return FedGradMP(
        n_features,
        settings.parameters.local_iterations,
        settings.parameters.batch_size,
        solver=solver,
        selection=settings.selection,
    )


def _shared_support(settings: FitSettings, n_features: int) -> SharedSupportGradMP:
    """Return the method with a shared support, which is sent the gradient itself.

    The moments of stage 1 have cost three times as much, and a sketch of many features and few rows
    hides the features that matter.
    """
    n_columns = settings.n_intercepts + settings.n_features
    solver = NewtonOnSupport(
        ridge=settings.selection_ridge(settings.C),
        allow_inexact=True,
        unpenalised=settings.unpenalised,
    )
    return SharedSupportGradMP(
        n_features,
        CountSketch(rows=1, columns=max(n_columns, 2)),
        solver,
        selection=settings.selection,
        pruning="largest",
    )


# Stage 3: backward elimination.


def eliminate_backwards(
    session: Session, clients: StandardizedClients, model: SparseModel, ridge: float
) -> EliminationPath:
    """Return the path that begins with the minimiser on the features of a model, with a ridge.

    Features are removed one at a time by backward elimination on the pooled Hessian. The path ends
    with the model without features, or with those only that are always included.
    """
    settings = session.settings
    null_model = clients.null_model
    has_always_included = len(settings.always_include) > 0
    if len(model.used_atoms) <= settings.n_intercepts and not has_always_included:
        none = np.zeros(0, np.bool_)
        return EliminationPath(null_model, null_model, np.empty((0, 0)), ridge, none, {})

    state = support_state(settings, model)
    loss = nan
    if settings.loss.is_quadratic:
        method = NewtonOnSupport(ridge=ridge, unpenalised=settings.unpenalised)
        state = session.query(method, clients.transport, state)
    else:
        steps = take_newton_steps(session, clients.transport, state, ridge, _STEP_OF_PATH)
        state = steps.result.state
        loss = nan if steps.last is None else steps.last
    minimiser = state.model
    hessian = state.curvature.astype(np.float64)
    positions = {settings.n_chosen(minimiser): np.arange(len(minimiser.support))}
    # The smallest model has those that are always included, if there are any.
    least = 0 if has_always_included else 1
    for n_features, left, _ in backwards(minimiser, hessian, settings.selection, least):
        positions[n_features] = left
    is_penalised = settings.is_penalised(minimiser)
    return EliminationPath(null_model, minimiser, hessian, ridge, is_penalised, positions, loss)


def support_state(settings: FitSettings, model: SparseModel) -> SupportState:
    """Return a model as the start of Newton steps: all outputs of its atoms, and the intercept.

    In float64, and so are the sums then: rounding of float32 is more than a ten thousandth of a
    standard error.
    """
    n_outputs = settings.loss.n_outputs
    positions = np.add.outer(model.used_atoms * n_outputs, np.arange(n_outputs)).reshape(-1)
    support = settings.selection.add_always_included(positions, model.shape)
    values = model.on(support).astype(np.float64)
    return SupportState(SparseModel(support, values, model.shape))


# Stage 4: model selection.


def folds_of(session: Session) -> list[Fold]:
    """Return the folds of a fit, of rows or of clients; none if nothing is chosen.

    Raises
    ------
    ValueError
        If no client has rows for two folds, or under masks all but one have; or if there are too
        few clients for folds of these.
    """
    if not session.settings.is_cross_validated:
        return []
    if session.settings.folds == "groups":
        return _group_folds(session)
    min_rows = session.clients.min_rows
    folds_by_client = _folds_by_client(session)
    _check_folds(folds_by_client, session.settings, min_rows)
    n_folds = int(folds_by_client.max())
    return [Fold(number, n_folds, session.seed, min_rows) for number in range(n_folds)]


def score_path(
    session: Session,
    clients: StandardizedClients,
    of_folds: Sequence[StandardizedClients],
    grid: Sequence[int],
    method: Selector | None,
) -> SparsityPath:
    """Fit without each fold, and return the held-out losses of each sparsity and each C.

    Parameters
    ----------
    session : Session
        The fit.
    clients, of_folds : StandardizedClients, sequence of StandardizedClients
        All rows, and those outside of each fold.
    grid : sequence of int
        The sparsities, increasing.
    method : Selector or None
        The method of the rounds, if there are any.
    """
    settings = session.settings
    fitted = session.together(
        [partial(fit_without, clients=one, grid=grid, method=method) for one in of_folds]
    )
    fold = cast(Fold, of_folds[0].fold)
    holds_out = np.ones(len(settings.info.n_rows), bool)
    if not fold.client_folds:  # clients that hold out nothing return zeros
        holds_out = _folds_by_client(session) > 0

    tables = [table for tables in fitted for table in tables]
    intercepts = np.array([table[0].reshape(-1) for table in tables])
    coefficients = [SparseModel.of(table[1:]) for table in tables]
    unit = clients.units.target_unit**2
    kind: Callable[..., HeldOutLosses] = HeldOutLosses
    has_two_classes = settings.loss.n_outputs == 1 and settings.loss.class_labels is not None
    chooses_features = settings.parameters.sparsity == "cv"
    if has_two_classes and chooses_features and not settings.coefficients_only:
        kind = partial(HeldOutPairs, n_rows=settings.n_rows, shares=settings.shares_beside_rows)
    losses = kind(
        n_folds=fold.n_folds,
        n_models=len(fitted[0]),
        seed=fold.seed,
        min_rows=fold.min_rows,
        client_folds=fold.client_folds,
        intercept_per_client=settings.intercept_per_client,
        share=float(settings.info.weights[holds_out].sum()),
        unit=unit,
    )
    state = session.query(losses, session.clients.transport(), (intercepts, *coefficients))
    sums, *areas = state[1 + len(coefficients) :]
    score, variance = losses.scores(sums)
    table = {
        "sparsity": np.repeat(grid, len(settings.strengths)),
        "C": np.tile(settings.strengths, len(grid)),
        "score": score * unit,
        "standard_error": np.sqrt(variance / settings.n_counted) * unit,
    }
    if areas and not np.isnan(areas[0]).any():
        table["auc"] = areas[0]
    return SparsityPath(table, settings.folds)


def _group_folds(session: Session) -> list[Fold]:
    """Return folds of whole clients, or raise a ValueError if there are too few clients."""
    settings = session.settings
    n_clients = len(settings.info.n_rows)
    n_folds = settings.n_folds
    if n_folds < 2:
        expected = "four, of whom masks hide two and two" if settings.parameters.secure else "two"
        raise ValueError(
            f'folds is "groups", and the number of groups {n_clients}; expected at least '
            f'{expected}, or folds="rows"'
        )
    client_ids = np.asarray(settings.info.client_ids)
    folds = np.full(client_ids.max() + 1, -1)
    folds[client_ids] = deal_clients(n_clients, n_folds, session.seed)
    for number in range(n_folds):
        session.expect_all(client_ids[folds[client_ids] != number].tolist())
    of_clients = (n_folds, session.seed, session.clients.min_rows, tuple(folds.tolist()))
    return [Fold(number, *of_clients) for number in range(n_folds)]


def _folds_by_client(session: Session) -> IndexArray:
    """Return into how many folds each client deals its rows.

    Under masks no client deals more than another one: the rows of a fold that one client alone
    holds out are the difference of two sums.
    """
    n_folds = session.settings.n_folds
    min_rows = session.clients.min_rows
    folds = np.array([n_folds_of(m, n_folds, min_rows) for m in session.settings.info.n_rows])
    if session.settings.parameters.secure and len(folds) > 1:
        folds = np.minimum(folds, np.sort(folds)[-2])
    return folds


def _check_folds(folds_by_client: Array, settings: FitSettings, min_rows: int) -> None:
    """Raise a ValueError if rows of folds are too few, or masks would not hide them; or warn.

    The sums over all rows but a fold, added up over F folds, hold the rows of a client that holds
    out nothing F times, and all others F - 1 times. Therefore its own sums follow if it is alone.
    """
    n_without = np.count_nonzero(folds_by_client == 0)
    if n_without == len(folds_by_client):
        raise ValueError(
            f"n_folds is {settings.n_folds}, and no group has rows for two folds of "
            f"min_rows={min_rows}; expected larger groups, a smaller min_rows, or a sparsity that "
            "is a number"
        )
    if n_without == 1 and settings.parameters.secure:
        raise ValueError(
            f"folds is 'rows' and secure is True, and one group has rows for no two folds of "
            f"min_rows={min_rows}: its own sums would follow from those of the folds; expected "
            "more such groups or none, folds='groups', or a sparsity that is a number"
        )
    if n_without:
        advise_once(
            "few folds",
            f"{n_without} of {len(folds_by_client)} groups have fewer than 2 * min_rows = "
            f"{2 * min_rows} rows: they hold out nothing, or sums would show fewer than min_rows "
            'rows. The others choose; folds="groups" holds out all',
        )


def fit_without(
    session: Session, clients: StandardizedClients, grid: Sequence[int], method: Selector | None
) -> list[Array]:
    """Run stages 2 and 3 on the rows outside of a fold, in their units.

    Of the models to choose from, for each sparsity and each C, the intercept and the coefficients
    are returned, in the units of the data.
    """
    clients = replace(clients)  # whose table is gone when this fit ends
    model = clients.null_model
    if method is None or method.sparsity >= session.settings.n_choices:
        model = all_features(clients)  # rounds would select all of them
    elif clients.units.factors.any():
        model = select_features(session, clients, method, session.settings.few_rounds).model

    paths = paths_from(session, clients, model)
    models = [
        path.model(sparsity, session.settings.path_ridge(C))
        for sparsity in grid
        for C, path in zip(session.settings.strengths, paths, strict=True)
    ]
    return [clients.table_of(model) for model in models]


def paths_from(
    session: Session, clients: StandardizedClients, model: SparseModel
) -> list[EliminationPath]:
    """Return a path for each C; of a quadratic loss one path has the models of all of them."""
    settings = session.settings
    path_of = partial(eliminate_backwards, clients=clients, model=model)
    if settings.loss.is_quadratic:
        ridge = settings.selection_ridge(settings.C)
        return [path_of(session, ridge=ridge)] * len(settings.strengths)
    ridges = map(settings.selection_ridge, settings.strengths)
    return session.together([partial(path_of, ridge=ridge) for ridge in ridges])


def all_features(clients: StandardizedClients) -> SparseModel:
    """Return the model without features, as one whose support has all features."""
    start = clients.null_model.dense()
    return SparseModel(np.arange(start.size), start.reshape(-1), start.shape)
