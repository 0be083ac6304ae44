"""The intercepts of a fit in which each client has its own: of each, and one for all others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..data import Client
from ..losses import GLMLoss
from ..method import Transport
from ..sparse_model import Array, SparseModel
from .client_sums import ClientSums, State, Sum
from .damped_newton import SecondOrders
from .profiled_loss import RIDGE, best_shift, mean_loss
from .session import Session
from .small_cells import Counts
from .standardization import StandardizationStats
from .weighted_loss import WeightedTargets, split_weights

# The last Newton step of the common intercept promises less, in the mean loss of a row: it is 1e-4
# or more, each step is a message, and what is left is about the square.
_SETTLED = 2e-8


@dataclass(frozen=True)
class OwnIntercepts(ClientSums):
    """The intercepts of the clients for one model, each at its own index: nothing is averaged.

    The message is the coefficients, in the units of the data. An update has the intercept of the
    client at its index, and a one; or zeros, if its rows do not determine any.

    Parameters
    ----------
    n_clients, n_outputs : int
    """

    n_clients: int
    n_outputs: int

    description: ClassVar[str] = "intercepts of the sites"
    form: ClassVar[str] = "the intercept of the group, once, averaged with none"
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of intercepts and ones."""
        return [Sum(self.intercept, (self.n_outputs + 1, self.n_clients))]

    def intercept(self, client: Client, message: State) -> Array:
        """Return the intercept of a client and a one, at its index."""
        (model,) = message
        own = split_weights(client).own_intercept(client.predictions(model))
        update = np.zeros((self.n_outputs + 1, self.n_clients))
        if own.is_finite:
            update[:, client.client_id] = [*own.values, 1]
        return update


@dataclass(frozen=True)
class CommonIntercept(ClientSums):
    """The mean loss of all rows to second order in an intercept that all clients have in common.

    The message is the coefficients, in the units of the data, and the intercept.

    Parameters
    ----------
    n_outputs : int
    """

    n_outputs: int

    description: ClassVar[str] = "the intercept of a site that takes no part"
    form: ClassVar[str] = "mean loss, slope and curvature in an intercept that all have in common"
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return one sum, of the value, the gradient and the Hessian."""
        return [Sum(self.quadratic, (1 + self.n_outputs + self.n_outputs**2,))]

    def quadratic(self, client: Client, message: State) -> Array:
        """Return the value, the gradient and the Hessian of the mean loss of a client."""
        model, intercept = message
        z = client.predictions(model).reshape(client.n_samples, -1) + intercept
        return mean_loss(client.loss, z, client.targets).packed()[0]

    def pooled(self, state: State) -> SecondOrders:
        """Return what the sums stand for."""
        return SecondOrders.unpacked(state[-1][None], self.n_outputs)


def intercepts_by_newton(
    session: Session,
    clients: Transport,
    stats: StandardizationStats,
    table: Array,
    start: Array,
) -> tuple[Array, Array | None]:
    """Return the common intercept, and those of the clients, or None under masks.

    The common intercept is the best one of all rows, given the coefficients. For the squared loss
    it is the mean of those of the clients. A client without one has nan.

    Parameters
    ----------
    session : Session
        The fit, whose loss is not quadratic.
    clients : Transport
        All rows, in the units of the data.
    stats : StandardizationStats
        What stage 1 found.
    table : ndarray, shape (1 + n_features,) or (1 + n_features, n_outputs)
        An intercept, which is not used, and the coefficients in the units of the data.
    start : ndarray, shape (n_outputs,)
        The prediction for the means of all columns that Newton steps start from.
    """
    common_of: Any = partial(
        common_intercept, clients=clients, stats=stats, table=table, start=start
    )
    if session.settings.parameters.secure:
        return common_of(session)[0], None
    own_of: Any = partial(intercepts_of_clients, clients=clients, model=SparseModel.of(table[1:]))
    (common, _), own = session.together([common_of, own_of])
    return common, own


def intercepts_of_clients(session: Session, clients: Transport, model: SparseModel) -> Array:
    """Return the intercepts of the clients, shape (n_clients, n_outputs); nan where none came."""
    settings = session.settings
    n_clients = len(settings.info.n_rows)
    method = OwnIntercepts(n_clients, settings.loss.n_outputs)
    sums = session.query(method, clients, (model,))[-1]
    is_sent = sums[-1] > 0
    own = np.full((n_clients, settings.loss.n_outputs), np.nan)
    own[is_sent] = (sums[:-1, is_sent] / sums[-1, is_sent]).T
    return own


def common_intercept(
    session: Session,
    clients: Transport,
    stats: StandardizationStats,
    table: Array,
    start: Array,
    tolerance: float = _SETTLED,
) -> tuple[Array, Array]:
    """Return the intercept that is best for all rows, and the prediction for the means with it.

    Parameters are those of `intercepts_by_newton`, and `tolerance` as in `best_shift`.
    """
    settings = session.settings
    method = CommonIntercept(settings.loss.n_outputs)
    model = SparseModel.of(table[1:])
    at_means = (stats.means[: settings.n_features] @ table[1:]).reshape(-1)

    def at(intercept: Array) -> SecondOrders:
        return method.pooled(session.query(method, clients, (model, intercept)))

    b, _ = best_shift(at, start - at_means, RIDGE, settings.loss, tolerance)
    return b, b + at_means


def intercepts_by_group(names: Sequence[Any], intercepts: Array) -> dict[Any, Any]:
    """Return the intercepts of the groups that have one: a number, or an array with classes."""
    has_several = intercepts.ndim > 1 and intercepts.shape[1] > 1
    values = list(intercepts) if has_several else intercepts.reshape(-1).tolist()
    return {
        name: value for name, value in zip(names, values, strict=True) if not np.isnan(value).any()
    }


def intercept_of_group(
    loss: GLMLoss, predictions: Array, targets: Array, weights: Array
) -> float | Array:
    """Return the intercept of rows of one group, or raise a ValueError if they determine none."""
    taking_part = weights > 0
    if not taking_part.any():
        raise ValueError("sample_weight is zero for every row; expected a positive weight")
    predictions = predictions[taking_part]
    split = WeightedTargets(targets[taking_part], weights[taking_part], loss)
    own = split.own_intercept(predictions)
    if not own.is_finite:
        raise ValueError(
            "the rows determine no intercept: a class is missing in y, or no count is above zero"
        )
    return own.values if predictions.ndim > 1 else float(own.values[0])
