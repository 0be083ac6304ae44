"""Secure sums: answers as integers of a fixed range and resolution, added up under masks, which the server sees."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..checks import check_integer, settle_integer, settle_number
from ..federation import Shape
from ..models import Array, SparseModel, Support
from ..reducers import Reduced, Reducer
from ..rounds import Call, Channel, Message
from .masking import TooFew, Unmasked, masked_sum


class TooLarge(ValueError):
    """Numbers of an answer beyond the range of a secure sum, and at which places of how many they stand."""

    def __init__(self, message: str, places: Support, size: int) -> None:
        super().__init__(message)
        self.places, self.size = places, size


@dataclass(frozen=True)
class SecureSum(Reducer):
    """The mean, of which the server learns the sum alone: ``simulate(..., reduce=SecureSum())``.

    Each client multiplies its answer by its weight within the cohort, rounds it to whole multiples of the resolution,
    and sends it under masks modulo 2^64 (`fgmp.layers.masking`). The server learns the sum over those who answered, and
    divides by their weights. Answers are checked by the clients, before they are masked; a client whose answer does
    not arrive counts as lost after it agreed on masks. The objective of the history is summed alike, one number of each
    client, and nan where one is beyond the range of it.

    The range is resolution * 2^62: a larger number in an answer is an error, and the sum cannot overflow. By
    default it is 2^22, about four million. It needs `pip install "fgmp[secure]"`.

    Parameters
    ----------
    resolution : float, default 2^-40
        The unit: a sum of L answers is off by at most L/2 units, and by the rounding of float64, 2^-51 times the
        largest magnitude in an answer, which is more than a unit above 2^51 units (2,048 by default). Above 0.
    threshold : int or None
        How many clients of a cohort must stay to the end, at least 2; None is two thirds, rounded up. Any fewer,
        together with the server, learn nothing of another client but the sum.
    """

    resolution: float = 2.0**-40
    threshold: int | None = None

    def __post_init__(self) -> None:
        settle_number(self, "resolution", above=0)
        settle_integer(self, "threshold", optional=True, at_least=2)

    @property
    def range(self) -> float:
        """The largest magnitude of a number in an answer."""
        return self.resolution * 2.0**62

    def needed(self, n_clients: int) -> int:
        """The threshold for a cohort; a ValueError where it has too few clients."""
        check_integer("cohort_size", n_clients, at_least=2, why="of a secure sum")
        if self.threshold is None:
            return _two_thirds(n_clients)
        return check_integer("threshold", self.threshold, at_least=2, at_most=n_clients, why="the clients of a cohort")

    def fitted(self, shape: Shape, cohort_size: int, exchanges: int, rounds: int) -> SecureSum:
        """Itself; an error where a cohort has too few clients, or what it needs is not installed."""
        for package, module in (("cryptography", "cryptography"), ("pycryptodome", "Crypto")):
            if importlib.util.find_spec(module) is None:
                raise ImportError(f'secure sums need {package}: pip install "fgmp[secure]"')
        self.needed(cohort_size)
        return self

    def over(self, channel: Channel, call: Call, message: Message, cohort: Support) -> Reduced:
        """The sum of a cohort's answers, over their weight: the channel's own sum under masks, where it has one."""
        shares = channel.weights[cohort] / channel.weights[cohort].sum()
        if hasattr(channel, "masked"):
            total, here, up, down, left_out = channel.masked(call, message, cohort, shares, self)
        else:
            answers = call.form.table(channel.ask(call, message, cohort), shares)
            total, here, up, down, left_out = None, answers.here, 0, 0, answers.left_out
            if len(here):
                total, _, up, down, _ = self.masked(answers.rows(), here, shares)
        weight = float(shares[here].sum())
        return Reduced(self.decoded(total) / weight if weight > 0 else None, here, up, down, Counter(left_out))

    def masked(self, rows: Array, here: Support, shares: Array) -> Unmasked:
        """Every message of the protocol, on this machine: the rows of those who are here, and everybody's shares."""
        vectors = [np.zeros(rows.shape[1], np.uint64)] * len(shares)
        for row, place in zip(rows, here.tolist(), strict=True):
            vectors[place] = self.encoded(row, shares[place])
        lost = dict.fromkeys(set(range(len(shares))) - set(here.tolist()), "masked")
        return masked_sum(vectors, self.needed(len(vectors)), lost)

    def objective(self, channel: Channel, x: Array | SparseModel, places: Support) -> float:
        """The mean objective, of which the server sees the sum; nan where too few say one that is in the range."""
        weights = channel.weights[places] / channel.weights[places].sum()
        least = replace(self, threshold=_two_thirds(int(np.count_nonzero(weights))))
        if hasattr(channel, "masked"):
            try:
                total, here, *_ = channel.masked(None, x, places, weights, least)
            except TooFew:
                return float("nan")
        else:
            told, values = channel.objectives(x, places)
            fine = np.abs(values) <= self.range
            here = np.flatnonzero(np.isin(places, told[fine]))
            enough = len(here) >= least.needed(len(places))
            total = self.encoded(values[fine], weights[here]).sum(keepdims=True) if enough else None
        return float("nan") if total is None else float(self.decoded(total)[0] / weights[here].sum())

    def encoded(self, values: Array, weight: Any = 1.0) -> Array:
        """Values times weights of at most 1 as unsigned integers; a ValueError beyond the range."""
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
