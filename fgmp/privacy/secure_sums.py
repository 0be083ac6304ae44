"""Secure sums: updates become integers of a fixed range and resolution, and are added under masks.

The server sees the sum of a cohort's updates, and no single one.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .._support.validation import check_integer, check_kind, check_number
from .._support.warnings import warn_user
from ..aggregation import Mean, PrivacyMechanism
from ..data import ProblemInfo
from ..method import Call, Exchange, Method, Transport
from ..sparse_model import Array, IndexArray, Model
from ..updates import Message, RejectReason, Updates
from .ledger import Ledger
from .masking import MaskedSum, Sessions, TooFewClients, sum_under_masks

# Smaller and larger units are of use only for numbers that float32 does not hold.
_FINEST = 2.0**-126
_COARSEST = 2.0**64


class TooLarge(ValueError):
    """Numbers of an update are beyond the range of a secure sum.

    Attributes
    ----------
    indices : ndarray of int
        Where these numbers stand in the flattened update.
    size : int
        How many numbers the update has.
    """

    def __init__(self, message: str, indices: IndexArray, size: int) -> None:
        super().__init__(message)
        self.indices = indices
        self.size = size


@dataclass(frozen=True)
class SecureSum(Mean, PrivacyMechanism):
    """The weighted mean, of which the server learns the sum alone.

    Use it as ``simulate(..., aggregator=SecureSum())``. Each client multiplies its update by its
    weight within the cohort, rounds it to whole multiples of the resolution, and sends it under
    masks modulo 2^64 (`fgmp.privacy.masking`). Clients agree on keys once in a run, and on masks
    for all sums until one of them is lost; with 130 clients or more each has masks in common with
    128 others (`fgmp.privacy.neighbours`). The server learns the sum over the clients that
    answered, and divides by their weights. Clients check their updates before they mask them. A
    client whose update does not arrive counts as lost after it agreed on masks. The objective of
    the history is summed in the same way, one number of each client. It is nan if it is beyond the
    range, or below zero, which no sum of losses is.

    Sums over different cohorts are equations that can be solved for a client. So in a run no sum is
    opened that would make a combination of sums rest on one client alone, whatever was asked
    (`Ledger`). If a client stays away once, its updates are left out from then on, and counted as
    ``withheld``. If a client leaves that was there before, rounds are lost and counted until it is
    back. Cohorts are refused for methods whose updates may hold the same numbers in every round, as
    Hessians of the squared loss are, and for methods that do not declare that they hold none
    (`ignores_message` of `fgmp.Exchange`). Other methods with few clients lose the rounds of some
    cohorts.

    The range is resolution * 2^62, by default 2^22, about four million. A larger number in an
    update is an error, so that the sum cannot overflow. It needs the extra `secure`.

    Parameters
    ----------
    resolution : float, default 2^-40
        The unit, from 2^-126 to 2^64. A sum of L updates is off by at most L/2 units, and by the
        rounding of float64: 2^-51 times the largest magnitude in an update, which is more than a
        unit above 2^51 units (2,048 by default).
    threshold : int or None
        How many clients of a cohort must stay to the end, at least 2, also for an objective. A
        round with fewer is lost, and an objective nan. None means two thirds, rounded up. Fewer
        clients than that, together with the server, learn nothing of another client but the sums;
        with 130 clients or more this holds for a fifth of them, but for a probability of 2^-39.
    ledger : Ledger, optional
        The sets of clients whose sums were released before: give one ledger to several runs whose
        sums must not be subtracted, over Flower with the same clients. None is a new one for each
        run.
    sessions : Sessions, optional
        The keys and the masks that clients have agreed on: give one to several runs of the same
        clients to let them agree once. None is a new one for each run.

    Examples
    --------
    The model is that of the plain mean, to the resolution:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> plain = fgmp.simulate(fgmp.FedGradMP(3), federation, rounds=5, rng=0)
    >>> secure = fgmp.simulate(fgmp.FedGradMP(3), federation, 5, rng=0, aggregator=fgmp.SecureSum())
    >>> bool(abs(secure.x - plain.x).max() < 1e-9)
    True
    """

    resolution: float = 2.0**-40
    threshold: int | None = None
    ledger: Ledger | None = field(default=None, repr=False, compare=False)
    sessions: Sessions | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_number("resolution", self.resolution, at_least=_FINEST, at_most=_COARSEST)
        if self.threshold is not None:
            check_integer("threshold", self.threshold, at_least=2)
        check_kind("ledger", self.ledger, (Ledger, type(None)), "a Ledger, or None")
        check_kind("sessions", self.sessions, (Sessions, type(None)), "Sessions, or None")

    @property
    def privacy(self) -> SecureSum:
        """The mechanism that shows the server sums: this aggregator."""
        return self

    def for_run(
        self, info: ProblemInfo, cohort_size: int, n_exchanges: int, n_rounds: int
    ) -> SecureSum:
        """Return this aggregator with a ledger and with sessions.

        Raises
        ------
        ValueError
            If a cohort has fewer clients than the threshold.
        ImportError
            If the extra `secure` is not installed.
        """
        if importlib.util.find_spec("cryptography") is None:
            raise ImportError("secure sums need cryptography: pip install cryptography")
        self.needed(cohort_size)
        ledger = Ledger() if self.ledger is None else self.ledger
        sessions = Sessions() if self.sessions is None else self.sessions
        return replace(self, ledger=ledger, sessions=sessions)

    def with_secret(self, secret: bytes) -> SecureSum:
        """Return this aggregator, whose ledger has what a checkpoint has kept, too."""
        ledger = Ledger() if self.ledger is None else self.ledger
        ledger.include(secret)
        return replace(self, ledger=ledger)

    @property
    def range(self) -> float:
        """The largest magnitude of a number in an update."""
        return float(self.resolution) * 2.0**62

    def needed(self, n_clients: int) -> int:
        """Return the threshold for a cohort; raise a ValueError if the cohort is smaller."""
        check_integer("cohort_size", n_clients, at_least=2, why="of a secure sum")
        if self.threshold is None:
            return _two_thirds(n_clients)
        return check_integer(
            "threshold",
            self.threshold,
            at_least=2,
            at_most=n_clients,
            why="the clients of a cohort",
        )

    def encoded(self, values: Array, weight: float = 1.0) -> Array:
        """Return values times a weight as unsigned integers.

        Parameters
        ----------
        values : ndarray of float
        weight : float
            A share of the whole weight, from 0 to 1.

        Raises
        ------
        TooLarge
            If a value is beyond the range.
        """
        if not 0 <= weight <= 1:
            raise ValueError(
                f"weight is {weight}; expected a share of all, from 0 to 1: others wrap around"
            )
        too_large = np.flatnonzero(~(np.abs(values) <= self.range))  # nan is too large
        if too_large.size:
            expected = f"expected magnitudes of at most {self.range:g}, the range of {self!r}"
            raise TooLarge(f"an answer holds larger numbers; {expected}", too_large, values.size)
        units: Array = np.rint(values.astype(np.float64) * (weight / float(self.resolution)))
        return units.astype(np.int64).view(np.uint64)

    def decoded(self, total: Array) -> Array:
        """Return the values that a sum of unsigned integers stands for."""
        return total.view(np.int64).astype(np.float64) * float(self.resolution)

    def was_released(self, transport: Transport, cohort: IndexArray, shares: Array) -> bool:
        """Return whether a sum of all clients of a cohort was released, so that any other may be.

        Parameters
        ----------
        transport, cohort, shares
            As of `releasable`.
        """
        client_ids = np.asarray(transport.info.client_ids)[cohort[shares > 0]]
        return self.ledger is not None and frozenset(client_ids.tolist()) in self.ledger.sets

    def sum_vectors(
        self,
        vectors: Array,
        senders: IndexArray,
        shares: Array,
        cohort: IndexArray,
        n_rows: int,
        goes_on: bool,
    ) -> MaskedSum:
        """Return the sum of weighted vectors under masks, with every message on this machine.

        Parameters
        ----------
        vectors : ndarray of float, shape (n_senders, length)
        senders : ndarray of int
            Whose vectors these are, as positions in the cohort.
        shares : ndarray of float, shape (cohort_size,)
            The weights of the whole cohort.
        cohort : ndarray of int
            Indices of its clients.
        n_rows : int
            How many rows the cohort has. Another number has masks of its own, as over a
            network, where clients agree on masks for the total of their weights.
        goes_on : bool
            As in `sum_under_masks`.

        Raises
        ------
        TooFewClients
            If there are fewer senders than the threshold.
        """
        encoded = {
            position: self.encoded(vector, shares[position])
            for vector, position in zip(vectors, senders.tolist(), strict=True)
        }
        client_ids = cohort.tolist()
        sessions = Sessions()
        if self.sessions is not None:
            sessions = self.sessions
            for client_id in client_ids:
                sessions.public_keys[client_id] = sessions.key_pairs[client_id].public
        about = b"%d" % n_rows
        return sum_under_masks(
            sessions.trip_here(encoded, client_ids, about),
            len(client_ids),
            self.needed(len(client_ids)),
            about=about,
            sessions=sessions,
            cohort=client_ids,
            goes_on=goes_on,
        )

    def releasable(
        self,
        transport: Transport,
        cohort: IndexArray,
        shares: Array,
        present: IndexArray,
        is_objective: bool = False,
    ) -> IndexArray:
        """Return the clients whose sum may be opened, as positions in the cohort.

        Parameters
        ----------
        transport : Transport
        cohort : ndarray of int
        shares : ndarray of float, shape (cohort_size,)
        present : ndarray of int
            Positions of the clients that sent something.
        is_objective : bool, default False

        Returns
        -------
        ndarray of int
            Some of `present`, or none if no sum may be opened.
        """
        if self.ledger is None:
            raise ValueError("ledger is None; expected the aggregator that `for_run` returns")
        needed = self.needed(len(cohort))
        if len(present) < needed:
            return present[:0]  # nothing is opened, and nothing goes into the ledger

        client_ids = np.asarray(transport.info.client_ids)[cohort]
        has_weight = shares > 0
        # Only clients with a weight go into the ledger: a client of weight zero hides nobody.
        candidates = client_ids[present[has_weight[present]]].tolist()
        before = self.ledger.to_bytes()
        choose = self.ledger.choose_objective if is_objective else self.ledger.choose
        chosen = choose(candidates, at_least=needed)
        # Now, because a run that is killed in the middle of a round goes on from its checkpoint.
        if self.ledger.write is not None and self.ledger.to_bytes() != before:
            self.ledger.write()
        if not chosen:
            if not is_objective:
                _warn_of_closed_sum(self.ledger, len(present), len(cohort))
            return present[:0]
        stays = np.isin(client_ids[present], chosen) | ~has_weight[present]
        return present[stays]

    # What a mechanism decides.

    withholds_objective = True

    @property
    def secret(self) -> bytes:
        """The ledger: a run that resumes keeps to the sums that were released."""
        return b"" if self.ledger is None else self.ledger.to_bytes()

    def keep_secret(self, write: Callable[[], object] | None) -> None:
        """Have the ledger written before a sum is released that it did not have."""
        if self.ledger is not None:
            self.ledger.write = write

    def check_method(self, method: Method, info: ProblemInfo, cohort_size: int) -> None:
        """Refuse what would make the sums of a run tell of a single client.

        Raises
        ------
        ValueError
            If sums do not depend on the model, and cohorts differ: each round would add equations
            for the same numbers. If updates hold objectives, and the ledger has the first objective
            of a run beside a set of other clients.
        """
        exchanges = method.exchanges()
        reveals_objective = any(exchange.reveals_objective for exchange in exchanges)
        if reveals_objective and self.ledger is not None and not self.ledger.settle():
            raise ValueError(
                "ledger has an objective and answers of other clients; expected a new one for this "
                "method"
            )
        n_clients = len(info.client_ids)
        if cohort_size == n_clients:
            return
        for exchange in exchanges:
            if exchange.may_ignore_message(info.loss):
                raise ValueError(
                    f"cohort_size is {cohort_size} of {n_clients} with secure sums of "
                    f"{type(method).__name__}, whose updates may hold the same numbers in every "
                    f"round ({_repetition_in_words(exchange)}); expected None: sums of other "
                    "cohorts subtract to single clients"
                )

    def run_and_collect(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Updates:
        """Return one vector: the sum of a cohort's updates, over the weight of those in it."""
        spec = call.update_spec
        shares = transport.weights[cohort] / transport.weights[cohort].sum()
        found = self._masked_sum(transport, call, message, cohort, shares)
        vectors = np.empty((0, spec.length))
        if len(found.uploaded):
            vectors = (self.decoded(found.total) / float(shares[found.uploaded].sum()))[None]
        weights = np.ones(len(vectors))
        of_bytes = found.bytes_up, found.bytes_down
        return Updates(spec, found.uploaded, weights, None, vectors, found.rejected, *of_bytes)

    def objective(self, transport: Transport, coefficients: Model, indices: IndexArray) -> float:
        """Return the mean objective of some clients, of which the server sees the sum.

        It is nan if too few clients report one within the range.
        """
        shares = transport.weights[indices] / transport.weights[indices].sum()
        threshold = self.threshold or _two_thirds(int(np.count_nonzero(shares)))
        if threshold > len(indices):
            return float("nan")
        secure = replace(self, threshold=threshold)
        found = secure._masked_sum(transport, None, coefficients, indices, shares)
        if not len(found.uploaded):
            return float("nan")

        value = float(self.decoded(found.total)[0])
        rounding = len(indices) * float(self.resolution)
        if value < -rounding:  # a sum of losses is not below zero: some client sent no loss
            return float("nan")
        return value / float(shares[found.uploaded].sum())

    def _masked_sum(
        self,
        transport: Transport,
        call: Call | None,
        message: Message,
        cohort: IndexArray,
        shares: Array,
    ) -> MaskedSum:
        """Return the sum of a cohort's updates, or of its objectives if `call` is None.

        It is the transport's own, if it has one. Otherwise what arrives in the open is masked on
        this machine.
        """
        masked_sum_of = transport.masked_sum
        if masked_sum_of is not None:
            sums: MaskedSum = masked_sum_of(call, message, cohort, shares, self)
            return sums

        goes_on = self.was_released(transport, cohort, shares)
        if call is None:
            vectors, present = self._objectives_in_range(transport, message, cohort)
            rejected: Counter[str] = Counter()
        else:
            updates = call.update_spec.accept(transport.run_clients(call, message, cohort), shares)
            vectors = updates.as_matrix()
            present = updates.accepted
            rejected = updates.rejected
        senders = self.releasable(transport, cohort, shares, present, is_objective=call is None)
        if len(present) >= self.needed(len(cohort)):
            n_withheld = len(present) - len(senders)
            rejected = rejected + Counter({RejectReason.WITHHELD.value: n_withheld})

        if not len(senders):
            if self.sessions is not None:
                self.sessions.end()  # as after a sum over a network that is not opened
            return MaskedSum(rejected=rejected)
        vectors = vectors[np.isin(present, senders)]
        n_rows = sum(transport.info.n_rows[index] for index in cohort.tolist())
        try:
            found = self.sum_vectors(vectors, senders, shares, cohort, int(n_rows), goes_on)
        except TooFewClients:
            found = MaskedSum()
        return found._replace(rejected=rejected)

    def _objectives_in_range(
        self, transport: Transport, coefficients: Model, indices: IndexArray
    ) -> tuple[Array, IndexArray]:
        """Return objectives, as vectors of one number, and their positions in `indices`."""
        reported, values = transport.objectives(coefficients, indices)
        in_range = np.abs(values) <= self.range
        # A client that never answers would send its objective only, and so in a set of its own.
        is_absent = np.isin(transport.info.client_ids, transport.absent_ids)
        present = np.flatnonzero(np.isin(indices, reported[in_range]) & ~is_absent[indices])
        return values[np.isin(reported, indices[present]), None], present


def _warn_of_closed_sum(ledger: Ledger, n_present: int, cohort_size: int) -> None:
    """Warn, once for each ledger, that a sum is not opened."""
    if ledger.has_warned:
        return
    ledger.has_warned = True
    warn_user(
        f"a secure sum of {n_present} of {cohort_size} clients stays closed: beside the sums "
        "of before it would tell of a single client; until those of before are back, rounds "
        "are lost"
    )


def _repetition_in_words(exchange: Exchange) -> str:
    """Return why an update may hold the same numbers in every round."""
    if exchange.ignores_message == "quadratic":
        return "Hessians of a quadratic loss are the same"
    return (
        "nothing else is declared: if every number of an update changes with the message, say "
        'Exchange(..., ignores_message="never")'
    )


def _two_thirds(n_clients: int) -> int:
    """Return two thirds of the clients, rounded up, at least 2."""
    return max(2, math.ceil(2 * n_clients / 3))
