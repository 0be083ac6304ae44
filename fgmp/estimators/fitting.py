"""One fit in standardised units: a method finds the support, a closing exchange solves on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..advice import FewRowsWarning, RisingObjectiveWarning, quiet
from ..dictionaries import StandardBasis
from ..federation import Client, Federation
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..methods.contract import Exchange, Method, seeded
from ..methods.fedgradmp import FedGradMP
from ..methods.identification import LargestEntries
from ..methods.pooled import PooledSolver
from ..methods.pooled_least_squares import NormalEquations
from ..methods.pooled_newton import PooledNewton
from ..methods.shared_support import SharedSupportGradMP
from ..models import Array, SparseModel, Support
from ..running.books import History
from ..running.polishing import OnSupport, with_closing_round
from ..running.results import whole
from ..running.simulation import simulate
from ..running.stopping import stop_when_stalled
from ..selection import PerAtom, PerOutput, Selection
from ..shapes import Shaped
from .weighted_loss import WeightedLoss

__all__ = ["Fit", "Recipe", "StartingFrom", "log_odds_per_unit", "plain_loss"]

_PASSES, _STEPS = 12, 4
_INTERCEPT_UNIT = 64.0  # of its column in the closing exchange, so that the ridge weighs 1/4096 on the intercept
_LEAST_RIDGE = 1e-4  # while the support is sought: merged supports are separable more often than the one kept


def log_odds_per_unit(loss: Loss) -> float:
    """What one unit of a model's prediction is in log-odds: the margin of the logistic loss."""
    plain = plain_loss(loss)
    return plain.margin if isinstance(plain, LogisticLoss) else 1.0


def _pooled_solver_for(loss: Loss, ridge: float) -> PooledSolver:
    return NormalEquations() if isinstance(loss, SquaredLoss) else PooledNewton(_STEPS, ridge)


def plain_loss(loss: Loss) -> Loss:
    """The loss without its weights."""
    return loss.loss if isinstance(loss, WeightedLoss) else loss


@dataclass(frozen=True)
class StartingFrom:
    """A method that starts from a given model: how a path over the sparsity goes on from the step before.

    Parameters
    ----------
    method : FedGradMP or SharedSupportGradMP
    model : SparseModel
        Within what `method` may hold.
    """

    method: Method
    model: SparseModel

    def seeded(self, seed: int) -> StartingFrom:
        """As the method, with the same start."""
        return replace(self, method=seeded(self.method, seed))

    def check(self, federation: Shaped) -> None:
        """As the method."""
        self.method.check(federation)

    def prepare(self, client: Client) -> Client:
        """As the method."""
        return self.method.prepare(client)

    def start(self, federation: Shaped) -> Any:
        """The method's start, with the model in place of zero."""
        state = self.method.start(federation)
        return self.model if isinstance(state, SparseModel) else state._replace(model=self.model)

    def exchanges(self) -> Sequence[Exchange]:
        """As the method."""
        return self.method.exchanges()

    def coefficients(self, state: Any) -> Array:
        """As the method."""
        return self.method.coefficients(state)

    def estimate(self, state: Any) -> Array:
        """As the method."""
        return self.method.estimate(state)


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit leaves behind: the coefficients in standardised units, rounds and books."""

    coefficients: Array
    n_rounds: int
    history: dict[str, Array]

    @property
    def model(self) -> SparseModel:
        """The coefficients as a model to start from."""
        return SparseModel.of(self.coefficients)


@dataclass(frozen=True)
class Recipe:
    """How to fit a federation; the parameters are those of the estimators, settled.

    `ridge` is the weight of half the squared norm of the loss's own coefficients beside the mean loss.
    """

    method: str
    intercept: bool
    rounds: int
    cohort_size: int | None
    local_iterations: int
    batch_size: int | None
    tol: float
    polish: bool
    ridge: float
    seed: int

    def fit(self, federation: Federation, sparsity: int, base: SparseModel, start: SparseModel | None = None) -> Fit:
        """Fit a model of `sparsity` features.

        Parameters
        ----------
        federation : Federation
            In standardised units.
        sparsity : int
        base : SparseModel
            The model without features: the intercept, or nothing.
        start : SparseModel, optional
            Where the search for the support begins; `base` by default.
        """
        method: Method = StartingFrom(self._method(federation.loss, sparsity), base if start is None else start)
        stop = stop_when_stalled(3, improvement=self.tol)
        with quiet(RisingObjectiveWarning), quiet(FewRowsWarning):  # the best model is used; `check_rows` has spoken
            result = whole(simulate(method, federation, self.rounds, self.cohort_size, self.seed, callback=stop))
        rounds = int(result.history["round"][-1])
        # The start may be the best on record, but a step is to add to it, and the closing exchange lowers the loss.
        goes_on = result.best.round == 0 and (self.polish or start is not None)
        found = (result.last if goes_on and np.isfinite(result.last.coefficients).all() else result.best).coefficients
        if not self.polish:
            return Fit(found, rounds, result.history)
        coefficients, history = self._closed(federation, found, result.history, base)
        return Fit(coefficients, rounds, history)

    def along(self, federation: Federation, sparsity: int, base: SparseModel, before: SparseModel | None) -> Fit:
        """One step of a path: the better of two fits on the objective, from `base` and from the step `before`.

        From the model before, a fit may stay with features that were best for a smaller model; from `base` it may end
        in a worse model than the smaller one. What lowers the objective of `base` by rounding only is `base`.
        """
        starts = [None] if before is None else [None, before]
        fits = [self.fit(federation, sparsity, base, start) for start in starts]
        lowest, best = min((federation.objective(fit.model), place) for place, fit in enumerate(fits))
        without = federation.objective(base)
        if without - lowest > 4 * float(np.finfo(federation.dtype).eps) * without:
            return fits[best]
        return replace(fits[best], coefficients=base.dense())

    def with_cohort(self, cohort_size: int) -> Recipe:
        """The same with another cohort."""
        return replace(self, cohort_size=cohort_size)

    def _method(self, loss: Loss, sparsity: int) -> Method:
        always = (0,) if self.intercept else ()
        selection: Selection = PerAtom(always) if isinstance(plain_loss(loss), SoftmaxLoss) else PerOutput(always)
        if self.method == "shared":
            solver = _pooled_solver_for(loss, max(self.ridge, _LEAST_RIDGE))
            largest = LargestEntries(2 * sparsity)
            return SharedSupportGradMP(sparsity, largest, solver, selection=selection, pruning="largest")
        return FedGradMP(sparsity, self.local_iterations, self.batch_size, selection=selection)

    def _closed(
        self, federation: Federation, found: Array, history: History, base: SparseModel
    ) -> tuple[Array, History]:
        """The minimiser on the support, from `base`: the loss has the most curvature where the model is small."""
        rows = found.reshape(len(found), -1)
        atoms = np.flatnonzero(rows.any(axis=1) | (self.intercept & (np.arange(len(rows)) == 0)))
        if not len(atoms):
            return found, history
        squared, units = isinstance(federation.loss, SquaredLoss), np.ones((len(atoms), 1), federation.dtype)
        if self.intercept and self.ridge > 0:
            units[0] = _INTERCEPT_UNIT
        small = _on_atoms(federation, atoms, units[:, 0])
        values = (base.dense().reshape(rows.shape)[atoms] / units).reshape(-1)
        model = SparseModel(np.arange(values.size), values, (len(atoms), *found.shape[1:]))
        solver = _pooled_solver_for(federation.loss, self.ridge)
        for passed in range(1 if squared else _PASSES):
            with quiet():
                on_support = OnSupport(model, solver, StandardBasis())
                closed = whole(simulate(on_support, small, 1, self.cohort_size, self.seed))
            history = with_closing_round(history, closed.history)
            before, model = model.values, replace(model, values=closed.coefficients.reshape(-1))
            if squared or (_is_still(before, model.values, closed.history["objective"]) and passed > 0):
                break
        else:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"the closing exchanges did not converge in {_PASSES * _STEPS} Newton steps on {len(atoms)} features; "
                "a smaller C, or fewer features, makes them",
                ConvergenceWarning,
                stacklevel=2,
            )
        coefficients = np.zeros_like(rows)
        coefficients[atoms] = model.dense().reshape(len(atoms), -1) * units
        return coefficients.reshape(found.shape), history


def _on_atoms(federation: Federation, atoms: Support, units: Array) -> Federation:
    """The clients with these columns only, each times its unit."""
    clients = [client.with_features(client.columns(atoms) * units) for client in federation.clients]
    return Federation(tuple(clients), federation.weights)


def _is_still(before: Array, after: Array, objectives: Array) -> bool:
    """Whether a pass of Newton steps has changed the coefficients or the objective by no more than rounding."""
    eps = float(np.finfo(after.dtype).eps)
    gained = abs(objectives[0] - objectives[-1])
    moved = np.max(np.abs(after - before))
    return bool(gained <= 4 * eps * objectives[-1] or moved <= eps**0.625 * np.max(np.abs(after)))
