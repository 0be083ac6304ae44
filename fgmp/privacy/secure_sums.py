"""Secure sums: answers as integers of a fixed range and resolution, added up under masks, which the server sees."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._support.validation import (
    check_integer,
    check_kind,
    validate_integer_field,
    validate_number_field,
)
from .._support.warnings import warn_user
from ..aggregation import Aggregated, Aggregator
from ..federation import ProblemInfo
from ..rounds import Call, Message, Transport
from ..sparse_model import Array, IndexArray, SparseModel
from .ledger import Ledger
from .masking import TooFewClients, Unmasked, masked_sum

# Smaller and larger units are of use for numbers alone that float32 does not hold.
_FINEST, _COARSEST = 2.0**-126, 2.0**64


class TooLarge(ValueError):
    """Numbers of an answer beyond the range of a secure sum, and at which places of how many they stand."""

    def __init__(self, message: str, indices: IndexArray, size: int) -> None:
        super().__init__(message)
        self.indices, self.size = indices, size


@dataclass(frozen=True)
class SecureSum(Aggregator):
    """The mean, of which the server learns the sum alone: ``simulate(..., aggregator=SecureSum())``.

    Each client multiplies its answer by its weight within the cohort, rounds it to whole multiples of the resolution,
    and sends it under masks modulo 2^64 (`fgmp.privacy.masking`). The server learns the sum over those who answered,
    and divides by their weights. Answers are checked by the clients, before they are masked; a client whose answer does
    not arrive counts as lost after it agreed on masks. The objective of the history is summed alike, one number of each
    client, and nan where it is beyond the range or below zero, which no sum of losses is.

    Sums of differing cohorts are equations that can be solved for a client. So in a run no sum is opened that would
    make a combination of sums rest on one client alone, whatever was asked. Where a client stays away once, its answers
    are left out from then on, and counted as ``withheld``; where one leaves that was there before, rounds are lost and
    counted until it is back. Cohorts are refused for methods that send Hessians of the squared loss, which are asked
    again every round; other methods with few clients lose the rounds of some cohorts.

    The range is resolution * 2^62: a larger number in an answer is an error, and the sum cannot overflow. By
    default it is 2^22, about four million. It needs the extra `secure`.

    Parameters
    ----------
    resolution : float, default 2^-40
        The unit: a sum of L answers is off by at most L/2 units, and by the rounding of float64, 2^-51 times the
        largest magnitude in an answer, which is more than a unit above 2^51 units (2,048 by default). From 2^-126 to
        2^64.
    threshold : int or None
        How many clients of a cohort must stay to the end, at least 2, also for an objective; a round with fewer is
        lost, and an objective nan. None is two thirds, rounded up. Any fewer, together with the server, learn nothing
        of another client but the sums.
    ledger : Ledger, optional
        The sets of clients whose sums were released before: one for several runs that nobody is to subtract. None is a
        new one for each run.
    """

    resolution: float = 2.0**-40
    threshold: int | None = None
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate_number_field(self, "resolution", at_least=_FINEST, at_most=_COARSEST)
        validate_integer_field(self, "threshold", optional=True, at_least=2)
        check_kind("ledger", self.ledger, (Ledger, type(None)), "a Ledger, or None")

    withholds = True

    @property
    def secret(self) -> bytes:
        """The ledger, for the checkpoint of a run: who goes on from it keeps to what was released."""
        return b"" if self.ledger is None else self.ledger.to_bytes()

    @secret.setter
    def secret(self, kept: bytes) -> None:
        object.__setattr__(self, "ledger", Ledger.from_bytes(kept))

    @property
    def range(self) -> float:
        """The largest magnitude of a number in an answer."""
        return self.resolution * 2.0**62

    def needed(self, n_clients: int) -> int:
        """The threshold for a cohort; a ValueError where it has too few clients."""
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

    def prepare(
        self, shape: ProblemInfo, cohort_size: int, exchanges: int, rounds: int
    ) -> SecureSum:
        """Itself with a ledger; an error where a cohort has too few clients, or what it needs is not installed."""
        for package, module in (("cryptography", "cryptography"), ("pycryptodome", "Crypto")):
            if importlib.util.find_spec(module) is None:
                raise ImportError(
                    f"secure sums need {package}: pip install cryptography pycryptodome"
                )
        self.needed(cohort_size)
        return replace(self, ledger=Ledger()) if self.ledger is None else self

    def check_method(self, method: Any, shape: ProblemInfo, cohort_size: int) -> None:
        """Refuse cohorts where sums do not depend on the model: each round would add equations for the same numbers."""
        if method.sends_objectives() and self.ledger is not None and not self.ledger.settle():
            raise ValueError(
                "ledger has an objective and answers of other clients; expected a new one for this method"
            )
        n_clients = len(shape.client_ids)
        if cohort_size < n_clients and method.repeats_itself(shape.loss):
            raise ValueError(
                f"cohort_size is {cohort_size} of {n_clients} with secure sums of {type(method).__name__}, which asks "
                "every round for the same Hessians; expected None: sums of other cohorts subtract to single clients"
            )

    def aggregate(
        self, transport: Transport, call: Call, message: Message, cohort: IndexArray
    ) -> Aggregated:
        """The sum of a cohort's answers, over their weight: the transport's own sum under masks, where it has one."""
        shares = transport.weights[cohort] / transport.weights[cohort].sum()
        if hasattr(transport, "masked"):
            total, here, up, down, rejected = transport.masked(call, message, cohort, shares, self)
        else:
            answers = call.update_spec.stack(transport.run_clients(call, message, cohort), shares)
            here = self.releasable(transport, cohort, shares, answers.here)
            enough = len(answers.here) >= self.needed(len(cohort))
            withheld = (len(answers.here) - len(here)) * enough
            rejected = answers.rejected + Counter(withheld=withheld)
            total, up, down = None, 0, 0
            rows = answers.rows()[np.isin(answers.here, here)]
            try:
                if len(here):
                    total, _, up, down, _, _ = self.masked(rows, here, shares)
            except TooFewClients:
                here = here[:0]
        if total is None:
            return Aggregated(None, here[:0], up, down, Counter(rejected))
        weight = float(shares[here].sum())
        return Aggregated(self.decoded(total) / weight, here, up, down, Counter(rejected))

    def releasable(
        self,
        transport: Transport,
        cohort: IndexArray,
        shares: Array,
        there: IndexArray,
        is_objective: bool = False,
    ) -> IndexArray:
        """Of the positions of a cohort that are there those whose sum may be opened, none where no sum may be.

        The ledger has those alone who weigh: a client of weight zero hides nobody.
        """
        assert self.ledger is not None, "a run begins with `fitted`"
        keys = np.asarray(transport.shape.client_ids)[cohort]
        needed = self.needed(len(cohort))
        if len(there) < needed:
            return there[:0]  # nothing is opened, and nothing goes into the ledger
        choose = self.ledger.choose_objective if is_objective else self.ledger.choose
        chosen = choose(keys[there[shares[there] > 0]].tolist(), at_least=needed)
        if not chosen and not is_objective and not self.ledger.was_said:
            self.ledger.was_said = True
            warn_user(
                f"a secure sum of {len(there)} of {len(cohort)} clients stays closed: beside the sums of before it "
                "would tell of a single client; until those of before are back, rounds are lost"
            )
        stays = np.isin(keys[there], chosen) | (shares[there] == 0)
        found: IndexArray = there[stays & bool(chosen)]
        return found

    def masked(self, rows: Array, here: IndexArray, shares: Array) -> Unmasked:
        """Every message of the protocol, on this machine: the rows of those who are here, and everybody's shares."""
        vectors = [np.zeros(rows.shape[1], np.uint64)] * len(shares)
        for row, index in zip(rows, here.tolist(), strict=True):
            vectors[index] = self.encoded(row, shares[index])
        lost = dict.fromkeys(set(range(len(shares))) - set(here.tolist()), "masked")
        return masked_sum(vectors, self.needed(len(vectors)), lost)

    def objective(self, transport: Transport, x: Array | SparseModel, indices: IndexArray) -> float:
        """The mean objective, of which the server sees the sum; nan where too few say one that is in the range."""
        weights = transport.weights[indices] / transport.weights[indices].sum()
        least = self.threshold or _two_thirds(int(np.count_nonzero(weights)))
        if least > len(indices):
            return float("nan")
        secure = replace(self, threshold=least)
        if hasattr(transport, "masked"):
            total, here, *_ = transport.masked(None, x, indices, weights, secure)
        else:
            told, values = transport.objectives(x, indices)
            fine = np.abs(values) <= self.range
            # Who never answers would say an objective in the open alone, where each is a client's own.
            gone = np.isin(transport.shape.client_ids, getattr(transport, "never_there", ()))
            there = np.flatnonzero(np.isin(indices, told[fine]) & ~gone[indices])
            here = secure.releasable(transport, indices, weights, there, is_objective=True)
            said = values[np.isin(told, indices[here])]
            total = self.encoded(said, weights[here]).sum(keepdims=True) if len(here) else None
        if total is None:
            return float("nan")
        value = float(self.decoded(total)[0])
        rounding = len(indices) * self.resolution
        return value / float(weights[here].sum()) if value >= -rounding else float("nan")

    def encoded(self, values: Array, weight: Any = 1.0) -> Array:
        """Values times weights of at most 1 as unsigned integers; a ValueError beyond the range."""
        if not np.all((np.asarray(weight) >= 0) & (np.asarray(weight) <= 1)):
            raise ValueError(
                f"weight is {weight}; expected a share of all, from 0 to 1: others wrap around"
            )
        too_large = np.flatnonzero(~(np.abs(values) <= self.range))
        if too_large.size:
            expected = f"expected magnitudes of at most {self.range:g}, the range of {self!r}"
            raise TooLarge(f"an answer holds larger numbers; {expected}", too_large, values.size)
        units: Array = np.rint(values.astype(np.float64) * (weight / self.resolution))
        return units.astype(np.int64).view(np.uint64)

    def decoded(self, total: Array) -> Array:
        """The values that a sum of unsigned integers stands for."""
        return total.view(np.int64).astype(np.float64) * self.resolution


def _two_thirds(n_clients: int) -> int:
    return max(2, math.ceil(2 * n_clients / 3))
