"""Questions about the predictions of a model: measures of each client, and sums over all rows.

A client measures the model on its own rows, and its AUC or R^2 is a number of its own. Under masks
no number of one client may leave, and what can be had is sums over the clients: means, losses, the
sums of a calibration, and how many pairs of rows within a client are in order.

An area under a curve with a single event is the rank of this row. So a client sends zeros if it has
fewer than `min_rows` rows, or fewer rows of a class that it has, whatever it is asked for. What it
says of the other classes would give this one away. Zeros are all that masks hide of it, too: other
clients may have rows of one class only, and then the pairs of all clients are its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy

from ..data import Client
from ..losses import GLMLoss, LogisticLoss, Loss, PoissonLoss, SoftmaxLoss, SquaredLoss
from ..sparse_model import Array
from .calibration import (
    Outcome,
    Pairs,
    Scaled,
    calibrate,
    count_pairs,
    line_sums,
    outcomes_of,
    quantity_of_units,
    scaled,
)
from .client_sums import (
    ROUNDING_OF_SHARES,
    ClientSums,
    HeldOutLosses,
    State,
    Sum,
    as_it_is,
    log_roots,
    powers_of_two,
)
from .damped_newton import SecondOrders
from .session import share_of
from .small_cells import Counts, has_few_rows
from .weighted_loss import split_weights

_CALIBRATION = ("intercept", "intercept_se", "slope", "slope_se")
_OF_LABELS = ("observed", "predicted", "auc", "auc_se", "brier", "log_loss", *_CALIBRATION)
MEASURES: dict[type[Loss], tuple[str, ...]] = {
    LogisticLoss: _OF_LABELS,
    SoftmaxLoss: _OF_LABELS,
    SquaredLoss: ("observed", "predicted", "r2", "mean_squared_error", *_CALIBRATION),
    PoissonLoss: ("observed", "predicted", "d2", "deviance", *_CALIBRATION),
}


@dataclass(frozen=True)
class OfPredictions(ClientSums):
    """Base of questions about the predictions of a model.

    The message begins with the intercepts, of all clients or one for each, and the coefficients, in
    the units of the data.

    Parameters
    ----------
    n_outcomes : int
        1, or the number of classes if there are several.
    min_rows : int
        A client with fewer rows, or fewer of a class that it has, sends zeros.
    counted : tuple of float, or None
        The number of rows that the weights of each client stand for; None if that is its rows.
    """

    n_outcomes: int
    min_rows: int
    counted: tuple[float, ...] | None = field(default=None, kw_only=True)

    counts: ClassVar[Counts] = Counts.CLASSES

    def outcomes(self, client: Client, message: State) -> list[Outcome]:
        """Return what is predicted and observed at a client."""
        intercepts, model, *_ = message
        targets, weights, loss = split_weights(client)
        index = client.client_id if len(intercepts) > 1 else 0
        predictions = client.predictions(model) + intercepts[index].reshape(model.shape[1:])
        counted = np.ones(len(targets))
        if self.counted is not None and self.counted[client.client_id] != len(targets):
            counted = weights * (self.counted[client.client_id] / len(targets))
        return outcomes_of(loss, predictions, targets, weights, counted)

    def scaled_outcomes(self, client: Client, message: State) -> list[Scaled]:
        """Return the outcomes in the units of the message, which follow the model."""
        centres, units = message[2:4]
        parts = zip(self.outcomes(client, message), centres, units, strict=True)
        return [scaled(outcome, centre, unit) for outcome, centre, unit in parts]

    def answer(
        self, one: Sum, client: Client, message: State, rng: np.random.Generator | None = None
    ) -> Array:
        """Return what a client sends for one of the sums: zeros if its rows are few."""
        targets, _, loss = split_weights(client)
        if has_few_rows(loss, targets, self.min_rows):
            return np.zeros(one.shape)
        return super().answer(one, client, message)

    def mean_of(
        self,
        numbers: Callable[[Client, State], Any],
        n_numbers: int,
        merge: Callable[[Array], State],
    ) -> Sum:
        """Return a sum whose mean is over the rows of the clients that are measured.

        Parameters
        ----------
        numbers : callable (client, message) -> array-like
            The numbers of a client, a row for each outcome. A one is sent beside each row, of which
            the mean is the share of the rows that are measured.
        n_numbers : int
            How many numbers a row has.
        merge : callable (means) -> tuple
            Return the results from the means, shape (n_outcomes, n_numbers + 1): the last column is
            the share, and the others are zero if no client is measured.
        """

        def of_client(client: Client, message: State) -> Array:
            return np.column_stack([numbers(client, message), np.ones(self.n_outcomes)])

        def merge_measured(mean: Array) -> State:
            means = mean.reshape(self.n_outcomes, -1).copy()
            share = float(means[0, -1])
            means[:, :-1] /= share if share > 0 else 1.0
            return merge(means)

        return Sum(of_client, (self.n_outcomes, n_numbers + 1), merge_measured)


@dataclass(frozen=True)
class ClientPerformance(OfPredictions):
    """The measures of each client on its own rows.

    An update has the measures at the index of the client and ones there, whose sums are the weights
    of the clients; zeros stand for measures that do not exist.

    Parameters
    ----------
    n_clients, n_measures : int
        Number of clients, and of measures of each outcome.
    """

    n_clients: int
    n_measures: int

    description: ClassVar[str] = "performance of the model at each site"
    form: ClassVar[str] = "AUC or R2, losses and calibration, of each client by itself"

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of the measures and ones of each client."""
        return [Sum(self.measure, (2 * self.n_clients, self.n_outcomes * self.n_measures))]

    def measure(self, client: Client, message: State) -> Array:
        """Return the measures of a client, at its index."""
        outcomes = self.outcomes(client, message)
        numbers = np.concatenate([measures_of(one) for one in outcomes])
        exists = np.isfinite(numbers)
        update = np.zeros((2, self.n_clients, len(numbers)))
        update[0, client.client_id] = np.where(exists, numbers, 0)
        update[1, client.client_id] = exists
        return update.reshape(2 * self.n_clients, -1)

    def measured(self, state: State) -> Array:
        """Return the measures, shape (n_clients, n_outcomes, n_measures); nan where none came."""
        numbers, weights = state[-1].reshape(2, self.n_clients, self.n_outcomes, -1)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(weights > 0, numbers / weights, np.nan))


@dataclass(frozen=True)
class PredictionUnits(OfPredictions):
    """A centre and a unit of predictors, so that sums under masks are neither large nor small.

    There are three exchanges: logarithms of root mean squares, means in units of these, and
    logarithms of root mean squares of deviations. Neither centre nor unit has to be exact.
    """

    description: ClassVar[str] = "units of the predictions"
    form: ClassVar[str] = "mean and mean square of the predictions"

    def sums(self) -> Sequence[Sum]:
        """Return three sums, of one number for each outcome."""

        def near_sizes(means: Array) -> State:
            return powers_of_two(means[:, 0])

        return [
            self.mean_of(self.log_sizes, 1, near_sizes),
            self.mean_of(self.means, 1, lambda means: (means[:, 0],)),
            self.mean_of(self.log_deviations, 1, near_sizes),
        ]

    def log_sizes(self, client: Client, message: State) -> Array:
        """Return log2 of the root mean squares, and 0 for zero."""
        return log_roots(np.mean(self._quantities(client, message) ** 2, axis=1))

    def means(self, client: Client, message: State) -> Array:
        """Return the means in units of the sizes."""
        return np.asarray(self._quantities(client, message).mean(axis=1) / message[2])

    def log_deviations(self, client: Client, message: State) -> Array:
        """Return log2 of the root mean squares of deviations, and 0 if there are none."""
        *_, unit, mean = message
        deviations = self._quantities(client, message) - (mean * unit)[:, None]
        return log_roots(np.mean(deviations**2, axis=1))

    def _quantities(self, client: Client, message: State) -> Array:
        """Return what the units are taken from, shape (n_outcomes, n_rows)."""
        return np.array([quantity_of_units(one) for one in self.outcomes(client, message)])


@dataclass(frozen=True)
class PooledPerformance(OfPredictions):
    """Sums over all rows: means, losses, squares, and pairs within clients.

    Parameters
    ----------
    n_rows : int
        The number of rows of all clients.
    shares : tuple of float, or None
        The weight p_i of each client; None if it is the client's part of the rows.
    """

    n_rows: int
    shares: tuple[float, ...] | None = None

    description: ClassVar[str] = "performance of the model on all rows"
    form: ClassVar[str] = "means and losses of predictions; numbers of pairs in order"

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of seven numbers for each outcome."""
        return [self.mean_of(self.measure, 7, as_it_is)]

    def measure(self, client: Client, message: State) -> list[Array]:
        """Return the sums of a client."""
        share = share_of(client, self.shares, self.n_rows)
        scales = self.scaled_outcomes(client, message)
        return [self._sums_of(scale.outcome, share) for scale in scales]

    def _sums_of(self, outcome: Outcome, share: float) -> Array:
        """Return the means of predictions, outcomes, losses and squares, and the pairs.

        With n rows of all clients, of which m are measured, the means over these of the last three
        are the pairs over n m, those in order over n m, and the variance of these over n^2 m. A
        client with the weight p_i has p_i n rows there, whose weights are one on the mean.
        """
        in_parts = np.zeros(3)
        if outcome.loss.class_labels is not None:
            pairs = pairs_of(outcome)
            n_targets = len(outcome.targets)
            size = share / n_targets
            in_parts = size * np.array([pairs.n_pairs, pairs.n_concordant, 0]) / n_targets
            # Nothing estimates it from a single row of a class. The variance of an AUC is at most
            # AUC (1 - AUC) over the rows of the rarer class, here a quarter.
            largest = pairs.n_pairs**2 / 4
            variance = np.nan_to_num(pairs.variance, nan=largest)
            in_parts[2] = variance * self.n_rows * size**3 / n_targets
        return np.append(means_of(outcome), in_parts)


@dataclass(frozen=True, kw_only=True)
class HeldOutPairs(HeldOutLosses):
    """Losses of models of two classes on held-out rows, and how they order the rows of a client.

    The sum has the pairs in order of each model, too, and the number of pairs, so that areas under
    the ROC curve follow. A pair has two held-out rows of one client, of whatever folds. A
    client with few rows of a class sends zeros in their place.

    Parameters
    ----------
    n_rows, shares
        As in `PooledPerformance`.
    """

    n_rows: int
    shares: tuple[float, ...] | None

    form: ClassVar[str] = (
        f"{HeldOutLosses.form}; numbers of pairs in order, zeros if rows of a class are few"
    )

    def sums(self) -> Sequence[Sum]:
        """Return the sum of losses and squares, and of the pairs."""
        (losses,) = super().sums()
        n_losses = math.prod(losses.shape)

        def of_client(client: Client, models: State) -> Array:
            (of_rows, predictors), weights = self.of_held_out_rows(
                client, models, self.loss_in_unit, lambda loss, z, y: z
            )
            means = self.means_of(of_rows, weights)
            return np.append(means, self.pairs(client, predictors, weights))

        def merge(mean: Array) -> State:
            *concordant, n_pairs = mean[n_losses:]
            areas = np.full(self.n_models, np.nan)
            if n_pairs > ROUNDING_OF_SHARES:
                areas = np.array(concordant) / n_pairs
            return (*losses.merge(mean[:n_losses].reshape(losses.shape)), areas)

        return [Sum(of_client, (n_losses + self.n_models + 1,), merge)]

    def pairs(self, client: Client, predictors: Array, weights: Array) -> Array:
        """Return the pairs in order of each model, and all pairs, as parts of those of n rows."""
        targets, _, loss = split_weights(client)
        if not len(predictors) or has_few_rows(loss, targets, self.min_rows):
            return np.zeros(self.n_models + 1)
        pairs = [count_pairs(column, targets > 0, weights) for column in predictors.T]
        numbers = np.array([*(one.n_concordant for one in pairs), pairs[0].n_pairs])
        return numbers * share_of(client, self.shares, self.n_rows)


@dataclass(frozen=True)
class CalibrationSums(OfPredictions):
    """The mean loss of calibration lines, with its derivatives.

    Parameters
    ----------
    n_coefficients : int
        1 for an intercept beside the slope 1, 2 for an intercept and a slope.
    is_last : bool
        As in `line_sums`.
    """

    n_coefficients: int
    is_last: bool

    description: ClassVar[str] = "calibration of the model on all rows"
    form: ClassVar[str] = (
        "loss, gradient and Hessian of a calibration line; of counts Pearson's chi-squared about it"
    )

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of values, gradients and Hessians, as a `SecondOrders`."""
        k = self.n_coefficients

        def merge(means: Array) -> State:
            return (SecondOrders.unpacked(means[:, :-1], k),)

        return [self.mean_of(self.derivatives, 1 + k + k**2, merge)]

    def derivatives(self, client: Client, message: State) -> list[Array]:
        """Return the sums of a client at the lines of the message."""
        scales = zip(self.scaled_outcomes(client, message), message[4], strict=True)
        return [line_sums(scale, line, self.is_last).packed()[0] for scale, line in scales]


def pairs_of(outcome: Outcome) -> Pairs:
    """Return the pairs of rows with and without the event."""
    predictor, targets, _, weights, counted = outcome
    return count_pairs(predictor, targets > 0, weights, counted)


def means_of(outcome: Outcome, centre: float = 0.0) -> list[float]:
    """Return the four means that `measures_before_calibration` takes.

    They are of what is predicted and what is observed, of the loss, and of one more number of each
    row: for numbers the squares of the targets about a centre, for counts y log y, and for labels
    the squared error of the probability.
    """
    predictor, targets, loss, *_ = outcome
    predicted = loss.expected_targets(predictor)
    if loss.class_labels is not None:
        observed = targets > 0
        last = (predicted - observed) ** 2
    else:
        observed = targets
        last = (targets - centre) ** 2 if loss.is_quadratic else xlogy(targets, targets)
    numbers = [predicted, observed, loss.values(predictor, targets), last]
    return [outcome.mean(number) for number in numbers]


def measures_before_calibration(
    loss: GLMLoss, means: Sequence[float], auc: tuple[float, float], centre: float = 0.0
) -> list[float]:
    """Return the measures of `MEASURES` but for the calibration.

    R^2 and D^2 are nan if all targets are equal. D^2 is the share of the deviance of the mean count
    that the model explains.

    Parameters
    ----------
    loss : GLMLoss
    means : sequence of float
        As `means_of` returns them.
    auc : tuple of float
        Of labels, with its standard error.
    centre : float, default 0.0
        As in `means_of`.
    """
    predicted, observed, value, last = means
    if loss.class_labels is not None:
        return [observed, predicted, *auc, last, value]
    if loss.is_quadratic:
        half_of_mean = (last - (observed - centre) ** 2) / 2
        rounding = 0.0
    else:
        half_of_mean = last - float(xlogy(observed, observed))
        # Counts that are all equal leave rounding.
        rounding = 1e-12 * max(abs(last), observed)
    explained = 1 - value / half_of_mean if half_of_mean > rounding else np.nan
    return [observed, predicted, explained, 2 * value]


def measures_of(outcome: Outcome) -> Array:
    """Return the measures of one outcome on the rows of one client; nan if they miss a class."""
    centre = outcome.mean(outcome.targets)
    auc = (np.nan, np.nan)
    if outcome.loss.class_labels is not None:
        is_event = outcome.targets > 0
        if is_event.all() or not is_event.any():
            return np.full(len(MEASURES[LogisticLoss]), np.nan)
        pairs = pairs_of(outcome)
        auc = pairs.n_concordant / pairs.n_pairs, np.sqrt(pairs.variance) / pairs.n_pairs
    means = means_of(outcome, centre)
    measures = measures_before_calibration(outcome.loss, means, auc, centre)
    return np.array([*measures, *calibrate(outcome)])
