"""Sums over clients that a fit needs beside its rounds: moments, and losses on folds.

Each is a `ClientSums`: a declaration of what a client adds, in which shape, what follows from the
mean, and in which words a person is told of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from .._support.sparse_features import SparseFeatures
from .._support.ties import with_exact_ties
from ..data import Client
from ..losses import GLMLoss
from ..method import Exchange, Method
from ..sparse_model import Array, IndexArray, SparseModel
from ..updates import UpdateSpec
from .folds import assign_folds
from .groups import preview
from .small_cells import Counts
from .weighted_loss import split_weights

# Larger numbers are sent under masks as several: `SecureSum` has a resolution of 2^-40 and a range
# of 2^22, so that a digit below 2^20 in magnitude is exact and sums of digits are within the range.
_BASE = 2.0**20
_MEAN_DIGITS = 2
# Deviations are in a unit of 2^-40 of the size: that of a column may be as small, and that of a
# client 2^30 times as large.
_FINE = 2.0**-40
_DEVIATION_DIGITS = 4
_SQUARE_DIGITS = 7
_DIGITS = _DEVIATION_DIGITS + _SQUARE_DIGITS

# A share of rows below this is rounding, under masks too: that of one row in a billion is more.
ROUNDING_OF_SHARES = 1e-10
# The rounding of a mean loss relative to the smallest one, under masks too; and that of the largest
# one, in whose units losses are summed that vanish on data without noise.
_ROUNDING_OF_SCORES = 1e-10
_LAST_BITS = 64 * float(np.finfo(np.float64).eps)

State = tuple[Any, ...]


def as_it_is(mean: Array) -> State:
    """Return the mean over the clients as the one result of a sum."""
    return (mean,)


class Sum(NamedTuple):
    """One sum over the clients.

    Attributes
    ----------
    of_client : callable (client, results) -> ndarray
        Return what a client adds, given the results so far: those that the sums began with, and
        those of the sums before this one.
    shape : tuple of int
        The shape of that.
    merge : callable (mean) -> tuple
        Return what follows from the mean over the clients: the results that this sum appends.
    """

    of_client: Callable[[Client, State], Array]
    shape: tuple[int, ...]
    merge: Callable[[Array], State] = as_it_is

    def append(self, state: State, mean: Array) -> State:
        """Return the results with those of this sum."""
        return (*state, *self.merge(mean))

    def spec(self, state: State) -> UpdateSpec:
        """Return what an update of a client has to look like."""
        return UpdateSpec(self.shape)


class ClientSums(Method):
    """Sums over clients, one after another, for which no model is trained.

    A subclass is a declaration: its `sums`, and the attributes below, without which its definition
    is a TypeError. What the clients are asked for, over Flower too, the report, and the rule of
    small cells follow from it. Its state is the tuple of all results, and the clients are sent all
    of it.

    Attributes
    ----------
    description : str
        What the clients are asked for, in words, for a report of progress.
    form : str
        What a client sends, in words that need no knowledge of the method, for `report`.
    counts : Counts
        Which rows its numbers are made of, and so which rule of small cells holds for it.
    """

    description: ClassVar[str]
    form: ClassVar[str]
    counts: ClassVar[Counts]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.sums is ClientSums.sums:
            return
        missing = [name for name in ClientSums.__annotations__ if not hasattr(cls, name)]
        if missing:
            raise TypeError(f"{cls.__name__} does not declare {', '.join(missing)}")

    def sums(self) -> Sequence[Sum]:
        """Return the sums, in their order."""
        raise NotImplementedError(f"{type(self).__name__} has no sums")

    def answer(
        self, one: Sum, client: Client, message: State, rng: np.random.Generator | None = None
    ) -> Array:
        """Return what a client sends for one of the sums."""
        return one.of_client(client, message)

    def exchanges(self) -> Sequence[Exchange]:
        """Return an exchange for each sum."""
        return [
            Exchange(self.message, partial(self.answer, one), one.append, one.spec)
            for one in self.sums()
        ]

    def message(self, state: State) -> State | int:
        """Return the message: all results so far, or 0 if there are none."""
        return state or 0

    def coefficients(self, state: State) -> SparseModel:
        """Return a model of one zero, because there is no model."""
        return SparseModel.zero((1,))


class PooledMoments(NamedTuple):
    """Moments of all rows, for each column and then each target.

    Attributes
    ----------
    unit : ndarray
        A power of two near the root mean square, in which the other two are counted.
    mean, square : ndarray
        The mean in units, and the mean square of deviations in squared units.
    others : ndarray or None
        The share of rows that are neither 0 nor 1; None if it is not summed.
    """

    unit: Array
    mean: Array
    square: Array
    others: Array | None = None


@dataclass(frozen=True)
class Moments(ClientSums):
    """Means and mean squares of columns and targets, in units in which no sum is large or small.

    There are two exchanges: sizes as logarithms of root mean squares, and means; then mean squares
    of the deviations from a centre, in units of the sizes. For a loss of labels the targets are the
    indicators of the classes.

    Masks have a fixed resolution and range. A deviation far below the mean would vanish in them,
    and a client that counts in other units would exceed them. Under masks there are therefore three
    exchanges: means follow the sizes, in units of these, and then mean squares of the deviations
    from the centre, and means of those from the mean of all rows, which has been rounded, in a fine
    part of these units. All are sent as several digits, by `split_digits`.

    Parameters
    ----------
    n_columns : int
        Number of features and targets.
    centre : {"mean", "client", "zero"}
        Where deviations are measured from: the mean of all rows, that of each client, or zero.
    masked : bool
        Whether sums are made under masks.
    """

    n_columns: int
    centre: str
    masked: bool

    description: ClassVar[str] = "sums for common units"
    form: ClassVar[str] = "means and mean squares of all columns and the outcome"
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return two sums, or three under masks."""
        n = self.n_columns
        n_others = int(self.centre == "client")
        if not self.masked:
            sizes = Sum(self.log_sizes_and_means, (2, n), _means_in_units)
            return [sizes, Sum(self.squares, (1 + n_others, n), tuple)]
        return [
            Sum(self.log_sizes, (n,), powers_of_two),
            Sum(self.means, (_MEAN_DIGITS, n), self._join_means),
            Sum(self.deviations, (_DIGITS + n_others, n), self._join_deviations),
        ]

    # The clients.

    def log_sizes(self, client: Client, message: State) -> Array:
        """Return log2 of the root mean square of each column, and 0 for a column of zeros."""
        return log_roots(columns_of(client).means(lambda x: x**2))

    def log_sizes_and_means(self, client: Client, message: State) -> Array:
        """Return log2 of the root mean squares, and the means."""
        return np.stack([self.log_sizes(client, message), columns_of(client).means()])

    def means(self, client: Client, state: State) -> Array:
        """Return the means in units of the sizes, in digits."""
        return split_digits(columns_of(client).means() / state[0], _MEAN_DIGITS)

    def squares(self, client: Client, state: State) -> Array:
        """Return the mean squares of deviations in squared units of the sizes."""
        columns = columns_of(client)
        squares = self._mean_squares(columns, state)
        return np.vstack([squares / state[0] ** 2, *self._others(columns)])

    def deviations(self, client: Client, state: State) -> Array:
        """Return means and mean squares of deviations, in digits, in a fine part of the sizes."""
        columns = columns_of(client)
        unit = state[0] * _FINE
        means = columns.mean_deviations(self._common_centre(state)) / unit
        squares = self._mean_squares(columns, state) / unit**2
        digits = [split_digits(means, _DEVIATION_DIGITS), split_digits(squares, _SQUARE_DIGITS)]
        return np.vstack([*digits, *self._others(columns)])

    def _others(self, columns: "_Columns") -> list[Array]:
        """Return the shares of rows that are neither 0 nor 1, where nothing else tells of them.

        About one mean of all rows, a column of zeros and ones is known by its mean square.
        """
        return [columns.means(lambda x: x**2 != x)] if self.centre == "client" else []

    def _mean_squares(self, columns: "_Columns", state: State) -> Array:
        """Return the mean squares of the deviations from the centre."""
        is_own = self.centre == "client"
        return columns.mean_squares(columns.means() if is_own else self._common_centre(state))

    def _common_centre(self, state: State) -> Array:
        """Return zero, or the mean of all rows, which may have been rounded."""
        unit, mean = state[:2]
        return np.zeros(self.n_columns) if self.centre == "zero" else np.asarray(mean * unit)

    # The server.

    def _join_means(self, mean: Array) -> State:
        """Return the means that the sums of digits stand for."""
        return (join_digits(mean.reshape(-1, self.n_columns)),)

    def _join_deviations(self, mean: Array) -> State:
        """Return means and mean squares of deviations, in units of the sizes, and the shares."""
        parts = mean.reshape(-1, self.n_columns)
        means, squares, others = np.split(parts, [_DEVIATION_DIGITS, _DIGITS])
        return join_digits(means) * _FINE, join_digits(squares) * _FINE**2, *others

    def pooled(self, state: State) -> PooledMoments:
        """Return the moments of all rows, from the state after the last exchange."""
        if not self.masked:
            return PooledMoments(*state)

        unit, mean, deviation, square, *others = state
        if self.centre == "zero":
            return PooledMoments(unit, deviation, square)
        # The mean that was subtracted had been rounded, and `deviation` is what it was off by.
        if self.centre == "mean":
            square = np.maximum(square - deviation**2, 0)
        return PooledMoments(unit, mean + deviation, square, *others)


@dataclass(frozen=True)
class MomentsWithinClients(Moments):
    """Moments about the mean of each client, and how many rows are neither 0 nor 1."""

    form: ClassVar[str] = f"{Moments.form}; shares of rows that are neither 0 nor 1"


@dataclass(frozen=True)
class ObservedMeans(Moments):
    """The means of columns, in units in which no sum is large: the first half of `Moments`."""

    description: ClassVar[str] = "means of what is there, and shares of what is missing"
    form: ClassVar[str] = (
        "means of columns, shares of missing values and of the levels of categories"
    )
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return sizes and means: one sum, or two under masks."""
        return super().sums()[: 1 + self.masked]

    def means_of_all_rows(self, state: State) -> Array:
        """Return the means in the units of the data, from the state after the last exchange."""
        unit, mean = state
        return np.asarray(unit * mean)


@dataclass(frozen=True)
class HeldOutLosses(ClientSums):
    """The mean losses of models on rows that were held out, and how sure their differences are.

    The message is the intercepts and the coefficients of `n_models` models for each fold, one fold
    after another, in the units of the data. One exchange sums the mean losses l_j, and the mean
    squares of l_j - l_i for all pairs of models, because which of them is best is not known yet.
    Losses of two models on the same rows rise and fall together, so that their difference is far
    surer than either of them.

    Parameters
    ----------
    n_folds, n_models : int
        How many folds, and models for each of them.
    seed, min_rows : int
        Of folds of rows, as in `fgmp.estimators.clients.Fold`.
    client_folds : tuple of int
        The fold of each client by its id, if whole clients are held out; else empty.
    intercept_per_client : bool
        Whether the intercept is the best one of the rows of a client that train, if any do.
    share : float
        The part of the weight of all rows that is of clients that hold out rows.
    unit : float
        The unit of losses.
    """

    n_folds: int
    n_models: int
    seed: int
    min_rows: int
    client_folds: tuple[int, ...]
    intercept_per_client: bool
    share: float
    unit: float

    description: ClassVar[str] = "losses on the rows that were held out"
    form: ClassVar[str] = (
        "mean losses of the candidate models on held-out rows; mean squares of their differences"
    )
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of losses and squares, as means over the clients that hold out rows."""
        shape = (1 + self.n_models, self.n_models)
        return [Sum(self.losses_and_squares, shape, lambda mean: (mean / self.share,))]

    def losses_and_squares(self, client: Client, message: State) -> Array:
        """Return the mean losses of a client, and the mean squares of their differences.

        A client that holds out nothing returns zeros.
        """
        (losses,), weights = self.of_held_out_rows(client, message, self.loss_in_unit)
        return self.means_of(losses, weights)

    def means_of(self, losses: Array, weights: Array) -> Array:
        """Return the sum of a client from the losses of its rows, shape (n_rows, n_models)."""
        squares = [weights @ (losses - losses[:, [j]]) ** 2 for j in range(self.n_models)]
        return np.vstack([weights @ losses, *squares])

    def loss_in_unit(self, loss: GLMLoss, predictions: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        return np.asarray(loss.values(predictions, targets) / self.unit)

    def scores(self, sums: Array) -> tuple[Array, Array]:
        """Return the mean losses, and the variances of their differences from the smallest one."""
        losses, *squares = sums
        best = int(np.argmin(with_equal_scores(losses)))
        variances = squares[best] - (losses - losses[best]) ** 2
        return losses, np.maximum(variances, 0)

    def of_held_out_rows(
        self, client: Client, models: State, *numbers: Callable[[GLMLoss, Array, Array], Array]
    ) -> tuple[list[Array], Array]:
        """Return numbers of each model on each row that is held out, and weights of these rows.

        Parameters
        ----------
        client : Client
        models : tuple
            The message, without results.
        *numbers : callable (loss, predictions, targets) -> ndarray, shape (n_rows,)
            For each of them the result has an array of shape (n_rows, n_models).
        """
        intercepts, *coefficients = models
        split = split_weights(client)
        targets, weights, loss = split
        folds = self._folds_of(client, targets)

        found = np.zeros((len(numbers), len(targets), self.n_models))
        for index, (model, intercept) in enumerate(zip(coefficients, intercepts, strict=True)):
            fold, column = divmod(index, self.n_models)
            is_out = folds == fold
            if not is_out.any():
                continue
            predictions = client.predictions(model) + intercept.reshape(model.shape[1:])
            if self.intercept_per_client and not is_out.all():
                training = split.take(~is_out)
                predictions = predictions + training.best_intercept(predictions[~is_out])
            for one, number in zip(found, numbers, strict=True):
                one[is_out, column] = number(loss, predictions[is_out], targets[is_out])

        holds_out = folds >= 0
        return [one[holds_out] for one in found], weights[holds_out] / len(targets)

    def _folds_of(self, client: Client, targets: Array) -> IndexArray:
        """Return the fold of each row of a client; -1 if it holds out none."""
        index = client.client_id
        if self.client_folds:
            return np.full(len(targets), self.client_folds[index])
        return assign_folds(targets, index, self.n_folds, self.seed, self.min_rows)


def with_equal_scores(scores: Array) -> Array:
    """Return mean losses of which those that differ by rounding alone are equal."""
    rounding = _ROUNDING_OF_SCORES * np.abs(scores).min() + _LAST_BITS * np.abs(scores).max()
    return with_exact_ties(scores, float(rounding))


class BeyondRange(ValueError):
    """Columns of a client that masks cannot add to those of other clients.

    Attributes
    ----------
    columns : ndarray of int
        Their indices; those from the number of features on are of targets.
    """

    def __init__(self, columns: Array) -> None:
        self.columns = columns
        super().__init__(
            f"the columns [{preview(columns.tolist(), 10)}] are in units too far from those of "
            "other sites for sums under masks; expected the same units at all sites"
        )


def split_digits(values: Array, n_digits: int) -> Array:
    """Return digits d_k, lowest first, of numbers v = sum_k d_k 2^(20 k).

    All digits but the lowest are integers. Only the highest may exceed 2^20 in magnitude in a
    number that is too large, and that raises `BeyondRange`.

    Parameters
    ----------
    values : ndarray, shape (n,)
        The numbers.
    n_digits : int
        How many digits each has.

    Returns
    -------
    ndarray, shape (n_digits, n)
        The digits.
    """
    digits = []
    rest = values
    for power in range(n_digits - 1, 0, -1):
        digit = np.trunc(rest / _BASE**power)
        rest = rest - digit * _BASE**power
        digits.append(digit)
    digits.append(rest)

    is_too_large = ~(np.abs(digits[0]) <= _BASE)  # true for nan as well
    if is_too_large.any():
        raise BeyondRange(np.flatnonzero(is_too_large))
    return np.stack(digits[::-1])


def join_digits(digits: Array) -> Array:
    """Return the numbers of digits, or of means of digits, lowest first."""
    return np.asarray(_BASE ** np.arange(len(digits)) @ digits)


class _Columns(NamedTuple):
    """Features and targets of one client as columns in float64, and the weights of its rows."""

    features: Any
    targets: Array
    weights: Array

    def means(self, of: Callable[[Any], Any] = lambda columns: columns) -> Array:
        """Return the mean of each column, or of what is made of its numbers."""
        of_features = _mean(of(self.features), self.weights)
        return np.append(of_features, _mean(of(self.targets), self.weights))

    def mean_squares(self, centre: Array) -> Array:
        """Return the mean square of the deviations from a centre."""
        of_features, of_targets = np.split(centre, [self.features.shape[1]])
        squares_of_targets = _mean((self.targets - of_targets) ** 2, self.weights)
        if not sparse.issparse(self.features):
            deviations = self.features - of_features
            squares = _mean(np.square(deviations, out=deviations), self.weights)
            return np.append(squares, squares_of_targets)

        # At first use, because clients on other machines would wait for the import.
        from sklearn.utils.sparsefuncs import mean_variance_axis

        means, variances = mean_variance_axis(self.features, 0, weights=self.weights)
        return np.append(variances + (means - of_features) ** 2, squares_of_targets)

    def mean_deviations(self, centre: Array) -> Array:
        """Return the mean deviation from a centre.

        In a dense table it is the mean of the differences, exact even if the centre is large.
        """
        of_features, of_targets = np.split(centre, [self.features.shape[1]])
        if sparse.issparse(self.features):
            deviations = _mean(self.features, self.weights) - of_features
        else:
            deviations = _mean(self.features - of_features, self.weights)
        return np.append(deviations, _mean(self.targets - of_targets, self.weights))


def columns_of(client: Client) -> _Columns:
    """Return the columns of a client; targets of labels as an indicator for each class."""
    targets, weights, loss = split_weights(client)
    labels = loss.class_labels
    if labels is None:
        columns = targets[:, None]
    else:
        columns = (targets[:, None] == labels).astype(np.float64)

    features = client.features
    if isinstance(features, SparseFeatures):
        features = features.stored
    return _Columns(features.astype(np.float64, copy=False), columns, weights)


def _mean(columns: Any, weights: Array) -> Array:
    """Return the weighted mean of each column, for weights of mean one."""
    return np.asarray(columns.T @ weights / len(weights))


def powers_of_two(mean: Array) -> State:
    """Return the powers of two near sizes, from the means of their logarithms."""
    return (2.0 ** np.round(mean),)


def _means_in_units(mean: Array) -> State:
    """Return the powers of two near sizes, and the means in units of them."""
    (units,) = powers_of_two(mean[0])
    return units, mean[1] / units


def log_roots(squares: Array) -> Array:
    """Return log2 of the square roots, and 0 for zero."""
    return np.asarray(np.log2(np.where(squares > 0, squares, 1.0)) / 2)
