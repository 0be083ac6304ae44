"""What a fit asks of the sites beside a method's rounds: small methods of sums over the sites, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..federation import Client
from ..losses import SoftmaxLoss, SquaredLoss
from ..methods.support_solvers import NewtonOnSupport, Point, SupportSolver
from ..models import Array, SparseModel
from ..rounds import Exchange, Form, Method
from ..shapes import Shape
from .sites import WeightedLoss, folds_of

__all__ = ["HeldOut", "Intercepts", "Moments", "OneStep", "Sums", "Solve"]


class Sums(NamedTuple):
    """Of each column, then of the targets (of classes: their shares): a power of two, and in its units the rest."""

    unit: Array
    mean: Array
    square: Array


def _parts(client: Client) -> tuple[Any, Array, Array, Any]:
    """Features and targets in float64, the weights of the rows, which have mean one, and the plain loss."""
    X = client.features
    X = (X.stored if hasattr(X, "stored") else X).astype(np.float64, copy=False)
    if isinstance(client.loss, WeightedLoss):
        return X, client.targets[:, 0], client.targets[:, 1], client.loss.loss
    return X, client.targets, np.ones(len(client.targets)), client.loss


@dataclass(frozen=True)
class Moments(Method):
    """Means over everybody's rows, and then mean squares about them.

    First each site sends how large its numbers are, as logarithms; in units of their mean no sum is large or small.

    Parameters
    ----------
    about : {"mean", "own", "zero"}
        What squares are about: the mean of all, each site's own, or zero.
    """

    about: str = "mean"

    def start(self, shape: Shape) -> Sums:
        """Nothing is known."""
        loss = getattr(shape.loss, "loss", shape.loss)  # beneath the weights
        classes = 1 if isinstance(loss, SquaredLoss) else getattr(loss, "n_classes", 2)
        return Sums(*np.zeros((3, shape.n_features + classes)))

    def exchanges(self) -> Sequence[Exchange]:
        """Sizes, means, squares."""
        return (
            Exchange(lambda state: 0, self.sizes, lambda s, mean: s._replace(unit=2.0 ** np.round(mean)), self.form),
            Exchange(lambda state: state.unit, self.means, lambda s, mean: s._replace(mean=mean), self.form),
            Exchange(
                lambda state: (state.unit, state.mean), self.squares, lambda s, mean: s._replace(square=mean), self.form
            ),
        )

    def form(self, state: Sums) -> Form:
        """A number for each column."""
        return Form(state.mean.shape)

    def sizes(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """log2 of the root mean square of each column; 0 for one that is zero."""
        X, y, w, loss = _parts(client)
        squares = np.append(_mean(X.multiply(X) if sparse.issparse(X) else X**2, w), _mean(_targets(y, loss) ** 2, w))
        found: Array = np.log2(np.where(squares > 0, squares, 1.0)) / 2
        return found

    def means(self, client: Client, unit: Array, rng: np.random.Generator) -> Array:
        """Of the columns, in these units."""
        X, y, w, loss = _parts(client)
        return np.append(_mean(X, w), _mean(_targets(y, loss), w)) / unit

    def squares(self, client: Client, message: tuple[Array, Array], rng: np.random.Generator) -> Array:
        """About a mean."""
        (unit, mean), (X, y, w, loss) = message, _parts(client)
        targets = _targets(y, loss)
        about = (
            np.append(_mean(X, w), _mean(targets, w)) if self.about == "own" else mean * unit * (self.about == "mean")
        )
        centre, rest = np.split(about, [X.shape[1]])
        if sparse.issparse(X):
            from sklearn.utils.sparsefuncs import mean_variance_axis

            own, variance = mean_variance_axis(X, 0, weights=w)
            squares = variance + (own - centre) ** 2
        else:
            squares = _mean((X - centre) ** 2, w)
        found: Array = np.append(squares, _mean((targets - rest) ** 2, w)) / unit**2
        return found

    def coefficients(self, state: Sums) -> SparseModel:
        """None."""
        return SparseModel.zero((1,))


def _mean(columns: Any, weights: Array) -> Array:
    mean: Array = np.asarray(columns.T @ weights).reshape(-1) / len(weights)
    return mean


def _targets(y: Array, loss: Any) -> Array:
    """Targets as columns: of classes one for each, 1 in its rows."""
    if isinstance(loss, SquaredLoss):
        return y[:, None].astype(np.float64)
    labels = np.arange(loss.n_classes) if isinstance(loss, SoftmaxLoss) else np.array([-1, 1])
    found: Array = (y[:, None] == labels).astype(np.float64)
    return found


@dataclass(frozen=True)
class OneStep(NewtonOnSupport):
    """One Newton step in each round, for any loss: the rounds go on, and the best model on record counts."""

    def check(self, shape: Shape) -> None:
        """Every loss fits."""


@dataclass(frozen=True)
class Solve(Method):
    """A solver's exchanges on a support, from the point that a run is given."""

    solver: SupportSolver

    def exchanges(self) -> Sequence[Exchange]:
        """Those of the solver."""
        return [Exchange(self.solver.ask, self.answer, self.step, self.solver.form)] * self.solver.n_exchanges

    def answer(self, client: Client, message: Any, rng: np.random.Generator) -> Array:
        """What the solver has a client answer."""
        return self.solver.answer(client, message, rng, self.atoms)

    def step(self, point: Point, mean: Array) -> Point:
        """A better point."""
        return self.solver.update(point, mean, self.atoms, None)

    def coefficients(self, state: Point) -> SparseModel:
        """The model of the point."""
        return state.model


class Models(NamedTuple):
    """Models to be judged, of each fold several, one after another; and what is known of their losses.

    Attributes
    ----------
    intercepts : ndarray, shape (n_models, n_outputs)
    models : tuple of SparseModel
        The coefficients, in the units of the table.
    losses : ndarray, shape (2 + n_folds, n_sizes)
    """

    intercepts: Array
    models: tuple[SparseModel, ...]
    losses: Array


@dataclass(frozen=True)
class HeldOut(Method):
    """The mean loss l of each site on rows that it held out, of models in the units of the table; l^2, and l by fold.

    Parameters
    ----------
    n_folds : int
        Of which each has as many models.
    seed : int
        Of the folds.
    own : bool
        Whether each site takes its own means off, of the rows that train, in place of an intercept.
    unit : float
        Of the losses that are sent.
    """

    n_folds: int
    seed: int
    own: bool = False
    unit: float = 1.0

    def exchanges(self) -> Sequence[Exchange]:
        """One."""
        return (Exchange(lambda s: (s.intercepts, *s.models), self.answer, self.update, self.form),)

    def form(self, state: Models) -> Form:
        """l, l^2, and what each fold adds to l, for each size."""
        return Form((2 + self.n_folds, len(state.models) // self.n_folds))

    def update(self, state: Models, mean: Array) -> Models:
        """Their means over the sites."""
        return state._replace(losses=mean)

    def answer(self, client: Client, message: tuple[Any, ...], rng: np.random.Generator) -> Array:
        """What this site's rows say."""
        (intercepts, *models), (X, y, w, loss) = message, _parts(client)
        n_folds, n_outputs = self.n_folds, client.n_outputs
        folds = folds_of(y, client.key, n_folds, self.seed)
        used = np.unique(np.concatenate([model.atoms for model in models]))
        columns = X[:, used].toarray() if sparse.issparse(X) else X[:, used]
        places = np.add.outer(used * n_outputs, np.arange(n_outputs)).reshape(-1)
        total = np.zeros((n_folds, len(models) // n_folds))
        for fold, several in enumerate(np.reshape(np.arange(len(models)), (n_folds, -1))):
            held = folds == fold
            targets, here = y[held], columns[held]
            if self.own and not held.all():  # less the means of the rows that train
                shares = w[~held] / w[~held].sum()
                targets, here = targets - shares @ y[~held], here - shares @ columns[~held]
            targets = targets.astype(np.intp) if isinstance(loss, SoftmaxLoss) else targets
            for size, place in enumerate(several if held.any() else ()):
                beta = models[place].on(places).reshape(len(used), *models[place].shape[1:])
                lead = intercepts[place].reshape(beta.shape[1:])
                total[fold, size] = w[held] @ loss.values(here @ beta + lead, targets)
        total /= len(y) * self.unit
        mean = total.sum(axis=0)
        return np.stack([mean, mean**2, *total])

    def coefficients(self, state: Models) -> SparseModel:
        """None."""
        return SparseModel.zero((1,))


@dataclass(frozen=True)
class Intercepts(Method):
    """The intercept of each site that takes its own means off: the mean of what a model leaves of its targets."""

    n_sites: int

    def exchanges(self) -> Sequence[Exchange]:
        """One."""
        form = Form((2, self.n_sites))
        return (
            Exchange(lambda state: state[0], self.answer, lambda state, mean: (state[0], mean), lambda state: form),
        )

    def answer(self, client: Client, model: SparseModel, rng: np.random.Generator) -> Array:
        """At the place of the site its intercept, and a one, which tells its share."""
        X, y, w, _ = _parts(client)
        found = np.zeros((2, self.n_sites))
        columns = X[:, model.support].toarray() if sparse.issparse(X) else X[:, model.support]
        found[:, client.key] = w @ (y - columns @ model.values) / len(y), 1
        return found

    def coefficients(self, state: tuple[SparseModel, Array]) -> SparseModel:
        """None."""
        return SparseModel.zero((1,))
