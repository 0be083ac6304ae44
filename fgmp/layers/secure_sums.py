"""Secure sums: answers as integers of a fixed range and resolution, added up under masks, which the server sees."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from ..checks import check_integer, check_number, settle_integer, settle_number
from ..models import Array, SparseModel, Support
from ..rounds import Answers, Call, Channel, Message, Reduced, Reducer
from ..shapes import Shape
from .masking import UPLOAD, TooFew, Unmasked, masked_sum


@dataclass(frozen=True)
class SecureSum(Reducer):
    """The mean, of which the server learns the sum alone: ``simulate(..., reduce=SecureSum())``.

    Each client multiplies its answer by its weight within the cohort, rounds it to whole multiples of the resolution,
    and sends it under masks modulo 2^bits (`fgmp.layers.masking`). The server learns the sum over those who answered,
    and divides by their weights. Answers are checked by the clients, before they are masked; a client whose answer does
    not arrive counts as lost after it agreed on masks. The objective of the history is summed alike, one number of each
    client, and nan where one is beyond the range of it.

    Parameters
    ----------
    bits : int, default 64
        8, 16, 32 or 64, of each number on the wire.
    resolution : float, default 2^-40
        The unit: a sum of L answers is off by at most L/2 units, and by the rounding of float64, 2^-51 times the
        largest magnitude in an answer, which is more than a unit above 2^51 units (2,048 by default). Above 0.
    threshold : int or None
        How many clients of a cohort must stay to the end, at least 2; None is two thirds, rounded up. Any fewer,
        together with the server, learn nothing of another client but the sum.

    Notes
    -----
    The range is resolution * 2^(bits - 2): a larger number in an answer is an error, and the sum cannot overflow. With
    the defaults it is 2^22, about four million. It needs `pip install "fgmp[secure]"`.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.SecureSum(bits=32, resolution=2**-16).range
    16384.0
    """

    bits: int = 64
    resolution: float = 2.0**-40
    threshold: int | None = None

    def __post_init__(self) -> None:
        settle_integer(self, "bits")
        if self.bits not in (8, 16, 32, 64):
            raise ValueError(f"bits is {self.bits!r}; expected 8, 16, 32 or 64")
        settle_number(self, "resolution", above=0)
        settle_integer(self, "threshold", optional=True, at_least=2)

    @property
    def range(self) -> float:
        """The largest magnitude of a number in an answer."""
        return self.resolution * 2.0 ** (self.bits - 2)

    def needed(self, n_clients: int) -> int:
        """The threshold for a cohort; a ValueError where it has too few clients."""
        check_integer("cohort_size", n_clients, at_least=2, at_most=2 ** (self.bits - 2), why="of a secure sum")
        if self.threshold is None:
            return max(2, math.ceil(2 * n_clients / 3))
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
            answers = call.form.table(channel.ask(call, message, cohort), channel.weights[cohort])
            outcome = self.masked(answers, shares) if len(answers.here) else None
            total, here, left_out = outcome and outcome.total, answers.here, answers.left_out
            up, down = (outcome.bytes_up, outcome.bytes_down) if outcome else (0, 0)
        weight = float(shares[here].sum())
        return Reduced(self.decoded(total) / weight if weight > 0 else None, here, up, down, Counter(left_out))

    def masked(self, answers: Answers, shares: Array) -> Unmasked:
        """Every message of the protocol, on this machine."""
        rows = answers.rows()
        vectors = [np.zeros(rows.shape[1], f"uint{self.bits}")] * len(shares)
        for row, place in zip(rows, answers.here, strict=True):
            vectors[place] = self.encoded(row, shares[place])
        lost = {place: UPLOAD for place in range(len(shares)) if place not in set(answers.here.tolist())}
        return masked_sum(vectors, self.needed(len(vectors)), lost)

    def __call__(self, answers: Answers) -> Array:
        """The mean, from the same protocol."""
        shares = answers.weights / answers.weights.sum()
        return self.decoded(self.masked(answers, shares).total) / float(shares[answers.here].sum())

    def objective(self, channel: Channel, x: Array | SparseModel, places: Support) -> float:
        """The mean objective, of which the server sees the sum; nan where too few say one that is in the range."""
        weights = channel.weights[places] / channel.weights[places].sum()
        least = self.of_objectives(int(np.count_nonzero(weights)))
        if hasattr(channel, "masked"):
            try:
                total, here, *_ = channel.masked(None, x, places, weights, least)
            except TooFew:
                return float("nan")
            return float("nan") if total is None else float(self.decoded(total)[0] / weights[here].sum())
        told, values = channel.objectives(x, places)
        taken = np.isin(places, told[np.abs(values) <= self.range])
        if np.count_nonzero(taken) < least.needed(len(places)):
            return float("nan")
        known = dict(zip(told.tolist(), values.tolist(), strict=True))
        parts = [self.encoded(np.array([known[places[i]]]), weights[i]) for i in np.flatnonzero(taken)]
        return float(self.decoded(self.plain(parts))[0] / weights[taken].sum())

    def of_objectives(self, n_clients: int) -> SecureSum:
        """The secure sum of so many clients' objectives, of which two thirds must stay."""
        return replace(self, threshold=max(2, math.ceil(2 * n_clients / 3)))

    def encoded(self, values: Array, weight: float = 1.0) -> Array:
        """Values times a weight of at most 1 as unsigned integers; a ValueError beyond the range."""
        check_number("weight", weight, at_least=0, at_most=1 + 1e-9)
        if not np.abs(values).max(initial=0.0) <= self.range:
            raise ValueError(
                f"an answer holds larger numbers; expected magnitudes of at most {self.range:g}, the range of {self!r}"
            )
        units = np.rint(values.astype(np.float64) * (weight / self.resolution))
        return units.astype(np.int64).astype(f"uint{self.bits}")

    def decoded(self, total: Array) -> Array:
        """The values that a sum of unsigned integers stands for."""
        return total.view(f"int{self.bits}").astype(np.float64) * self.resolution

    def plain(self, vectors: list[Array]) -> Array:
        """The same sum without masks."""
        total: Array = np.add.reduce(vectors, axis=0, dtype=vectors[0].dtype)
        return total
