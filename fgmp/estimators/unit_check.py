"""A check at the end of a fit: which columns a client counts in other units than the rest.

Each client compares the mean and the spread of each of its columns with the common ones, and says
only which columns are far off in which of the two. A spread is far off if the deviation and the
root mean square both are, because another unit multiplies both by the same factor, while a group of
other levels, or of a part of the range, differs in one of them. The common ones are geometric means
over the clients. One client in other units hardly moves these, while it would raise the pooled
deviation until its own looks usual. It does move the common mean, so that means count only if no
client finds the spread of the column far off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..data import Client
from ..method import Transport
from ..sparse_model import Array
from .client_sums import ClientSums, State, Sum, columns_of
from .session import Session, share_of
from .small_cells import Counts
from .standardization import StandardizationStats

# A spread is far off if it differs from the common one by this factor: centimetres for
# metres are 100, milligrams of cholesterol for millimoles 39, of glucose 18, and mmHg for kPa 7.5.
_FACTOR = 5.0
# A mean is far off if it differs from the common one by this number of the client's deviations.
_DEVIATIONS = 20.0


class UnusualColumn(NamedTuple):
    """A column that some clients count in other units, as it seems.

    Attributes
    ----------
    column : int
        Its index; the number of features for the targets.
    n_clients : int
        How many clients say so.
    client_index : int or None
        Which client, if there is one and no masks hide it.
    """

    column: int
    n_clients: int
    client_index: int | None


@dataclass(frozen=True)
class UnitComparison(ClientSums):
    """How many clients find a column of theirs far off the common spread, and the common mean.

    The first message is the common means. Clients send the logarithms of their deviations and root
    mean squares, and ones for the columns that vary. The second message has the common spreads,
    too. An update has two numbers for each column: 1 over the client's share of the weight if its
    spread is far off, and else 0, and the same for its mean. So the sums are numbers of clients. In
    the open the same times the client's id, plus 1, is beside them.

    Parameters
    ----------
    n_columns : int
        The number of features, and one for targets that are numbers.
    shares : tuple of float, or None
        The weights of the clients; None if they are the parts of the rows.
    n_rows : int
        The number of rows of all clients.
    with_means : bool
        Whether means are compared, and not only spreads.
    with_ids : bool
        Whether clients say which they are.
    """

    n_columns: int
    shares: tuple[float, ...] | None
    n_rows: int
    with_means: bool
    with_ids: bool

    description: ClassVar[str] = "columns in other units"
    form: ClassVar[str] = "logarithms of deviations; which columns are far off the others"
    counts: ClassVar[Counts] = Counts.ROWS

    def sums(self) -> Sequence[Sum]:
        """Return two sums: logarithms and ones, then counts, and of ids."""
        return [
            Sum(self.log_spreads, (3, self.n_columns), _geometric_means),
            Sum(self.compare, (2 + 2 * self.with_ids, self.n_columns)),
        ]

    def log_spreads(self, client: Client, message: State) -> Array:
        """Return log2 of the spreads of the columns that vary, and ones for these."""
        _, spreads = self._moments(client)
        varies = spreads[0] > 0
        logs = np.log2(np.where(varies, spreads, 1))
        return np.vstack([logs, varies])

    def compare(self, client: Client, message: State) -> Array:
        """Return which columns of a client are far off."""
        means, spreads = message
        own_means, own_spreads = self._moments(client)
        own_deviations = own_spreads[0]
        is_larger = (own_spreads > _FACTOR * spreads).all(axis=0)
        is_smaller = (own_spreads < spreads / _FACTOR).all(axis=0)
        is_shifted = np.abs(own_means - means) > _DEVIATIONS * own_deviations
        is_far_off = np.stack([is_larger | is_smaller, is_shifted & self.with_means])
        columns = columns_of(client)
        table = np.column_stack([columns.features, columns.targets])[:, : self.n_columns]
        is_far_off &= (own_deviations > 0) & _has_several_values(table)
        counts = is_far_off / share_of(client, self.shares, self.n_rows)
        if not self.with_ids:
            return np.asarray(counts)
        return np.vstack([counts, counts * (1 + client.client_id)])

    def _moments(self, client: Client) -> tuple[Array, Array]:
        """Return the client's own means, and its spreads: deviations and root mean squares."""
        columns = columns_of(client)
        means = columns.means()
        squares = [columns.mean_squares(centre) for centre in (means, np.zeros_like(means))]
        return means[: self.n_columns], np.sqrt(squares)[:, : self.n_columns]

    def found(self, state: State) -> list[UnusualColumn]:
        """Return the columns that are far off at some client."""
        sums = np.rint(state[-1]).astype(int)
        found = []
        for column in np.flatnonzero(sums[:2].any(axis=0)).tolist():
            # The spread, or the mean if no client finds the spread far off; ids are two rows below.
            kind = 0 if sums[0, column] > 0 else 1
            count = int(sums[kind, column])
            is_known = self.with_ids and count == 1
            client_index = int(sums[2 + kind, column]) - 1 if is_known else None
            found.append(UnusualColumn(column, count, client_index))
        return found


def _geometric_means(mean: Array) -> State:
    """Return the geometric means of the spreads, 0 for columns that vary nowhere."""
    logs = mean[:2]
    shares = mean[2]
    varies = shares > 0
    return (np.where(varies, 2.0 ** (logs / np.where(varies, shares, 1)), 0),)


def _has_several_values(table: Array) -> Array:
    """Return a mask of the columns with at least three different values.

    Others are indicators or facts of a whole client, which have no unit to get wrong.
    """
    is_extreme = (table == table.min(axis=0)) | (table == table.max(axis=0))
    return np.asarray(~is_extreme.all(axis=0))


def compare_units(
    session: Session, clients: Transport, stats: StandardizationStats
) -> list[UnusualColumn]:
    """Return the columns that some clients seem to count in other units, from two exchanges.

    Sparse columns are not compared: their zeros say nothing of a unit.

    Parameters
    ----------
    session : Session
        The fit.
    clients : Transport
        All rows, in their own units.
    stats : StandardizationStats
        What stage 1 found.
    """
    settings = session.settings
    if len(settings.info.n_rows) < 2 or settings.is_sparse or settings.coefficients_only:
        return []
    # Groups with intercepts of their own may have levels of their own.
    has_common_levels = not settings.intercept_per_client
    n_columns = settings.n_features + (settings.loss.is_quadratic and has_common_levels)
    method = UnitComparison(
        n_columns=n_columns,
        shares=settings.shares_beside_rows,
        n_rows=settings.n_rows,
        with_means=has_common_levels,
        with_ids=not settings.parameters.secure,
    )
    return method.found(session.query(method, clients, (stats.means[:n_columns],)))
