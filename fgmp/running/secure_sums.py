"""Secure sums in a simulation: answers as integers of a fixed range and resolution, added up under masks."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..checks import check_integer, check_number, settle_integer, settle_number
from ..models import Array
from .masking import UPLOAD, Unmasked, masked_sum

__all__ = ["SecureSum", "check_secure"]


@dataclass(frozen=True)
class SecureSum:
    """How `simulate(..., secure=SecureSum())` adds up answers that the server must not see.

    Each client multiplies its answer by its weight within the cohort, rounds it to whole multiples of the resolution,
    and sends it under masks modulo 2^bits (`fgmp.running.masking`). The server learns the sum over those who answered,
    and divides by their weights. A client whose answer does not arrive counts as lost after it agreed on masks. The
    objective of the history is summed alike, one number of each client, and nan where one is beyond the range of it.

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

    def of_objectives(self, n_clients: int, cohort_size: int) -> SecureSum:
        """The secure sum of so many clients' objectives; a ValueError where a cohort would have more to stay."""
        least, most = self.needed(cohort_size), 2 ** (self.bits - 2)
        if not least <= n_clients <= most:
            raise ValueError(
                f"objective_on names {n_clients} clients with a positive weight; expected {least}, the threshold of "
                f"secure sums, to {most:.2g}"
            )
        return replace(self, threshold=max(least, math.ceil(2 * n_clients / 3)))

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

    def summed(self, vectors: list[Array], uploaded: Array) -> Unmasked:
        """The sum of the vectors that arrive, under masks that all agreed on.

        Parameters
        ----------
        vectors : list of ndarray
            Encoded; of a client whose answer does not arrive, any of the same length.
        uploaded : ndarray of bool
            Whose answer arrives.
        """
        lost = {int(place): UPLOAD for place in np.flatnonzero(~uploaded)}
        return masked_sum(vectors, self.needed(len(vectors)), lost)


def check_secure(secure: Any) -> None:
    """Raise an error where `secure` is none, or what it needs is not installed."""
    if secure is None:
        return
    if not isinstance(secure, SecureSum):
        raise ValueError(f"secure is {secure!r}; expected SecureSum(bits, resolution, threshold)")
    for package, module in (("cryptography", "cryptography"), ("pycryptodome", "Crypto")):
        if importlib.util.find_spec(module) is None:
            raise ImportError(f'secure sums need {package}: pip install "fgmp[secure]"')
