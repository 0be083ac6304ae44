"""How the clients of `SharedSupportGradMP` tell the server where their gradients are large together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..checks import check_protocol, settle_integer
from ..models import Array, SparseModel
from ..rounds import Form
from ..selection import Selection


class Question(NamedTuple):
    """What clients and server know alike: tau, what counts, the norms, the seed, and the round, from 0."""

    sparsity: int
    selection: Selection
    normalised: Callable[[Array], Array]
    seed: int
    number: int


@dataclass(frozen=True)
class LargestEntries:
    """Every client sends the largest entries of its gradient, with their indices.

    What many clients see weakly is cut by each of them, and lost; what is sent are the features that tell most about a
    single client.

    Parameters
    ----------
    count : int or None
        How many, counted as the method's `selection` does: at least 1; None is 4 tau. The number of atoms cuts nothing.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=20, n_samples=8, n_features=60, sparsity=3, rng=0)
    >>> method = fgmp.SharedSupportGradMP(sparsity=3, identify=fgmp.LargestEntries(6))
    >>> bool(fgmp.simulate(method, federation, rounds=10, rng=0).history["relative_error"][-1] < 1e-12)
    True
    """

    count: int | None = None

    def __post_init__(self) -> None:
        settle_integer(self, "count", optional=True)

    def check(self, sparsity: int, shape: tuple[int, ...]) -> None:
        """Any count fits."""

    def answer(self, gradient: Array, question: Question) -> SparseModel:
        """The largest entries, measured in inner products with normalised atoms."""
        chosen = question.selection.choose(question.normalised(gradient), self._count(question))
        return SparseModel(chosen, gradient.reshape(-1)[chosen], gradient.shape)

    def form(self, question: Question, shape: tuple[int, ...], dtype: Any) -> Form:
        """At most so many entries of a gradient."""
        return Form(shape, dtype, self._count(question), None, question.selection)

    def read(self, mean: Array, question: Question, shape: tuple[int, ...]) -> Array:
        """The mean of the entries that were sent."""
        return mean

    def _count(self, question: Question) -> int:
        return 4 * question.sparsity if self.count is None else self.count


@dataclass(frozen=True)
class CountSketch:
    """Every client sends the same random linear sketch of its gradient: the sum of sketches is that of the gradients.

    In each of `rows` rows the atoms are dealt out at random to `columns` buckets, as evenly as can be, each with a
    random sign, and a bucket holds the signed sum of its entries. The server multiplies the sum of a bucket by the sign
    of an atom: an estimate of the atom's entry in each row, of which it takes the median. The deal is made anew every
    round, from the seed of the method and the number of the round, so client and server agree without sending it.

    Parameters
    ----------
    rows : int, default 3
        d, at least 1.
    columns : int or None
        w, at least 2 tau, so that as many atoms can be told apart; None is 14 tau, and at least 70.

    Notes
    -----
    Where a sketch would not be shorter than the gradient, the gradient itself is sent: a sum as well, and exact.

    Two atoms share a bucket with probability at most 1/w, so the error of an entry in one row has mean zero and a
    variance of at most ||g||^2 / w. By Chebyshev's inequality it is larger than s ||g|| with probability at most
    q = 1 / (w s^2), and the median of an odd number of rows only where half of them are:

        P(|estimate - g_j| > s ||g||) <= sum over k >= (d + 1)/2 of binom(d, k) q^k (1 - q)^(d - k).

    With w = 14 tau and s = 1/sqrt(tau), the size of tau entries that share all of the energy, q is 1/14, and with d = 3
    the median fails with probability at most 1.5 %. Five rows of 8 tau, where q is 1/8, the constant of the
    reference, are about as long and have about the same bound, but cost two thirds more.
    For all n atoms at once the bound is n times as large, and then asks for d of the order of log n rows; a round can
    afford to miss an atom, because the next one deals anew.

    References
    ----------
    M. Charikar, K. Chen, M. Farach-Colton, Finding frequent items in data streams, ICALP 2002 (Theoretical Computer
    Science 312, 2004), Lemmas 1 to 4.
    """

    rows: int = 3
    columns: int | None = None

    def __post_init__(self) -> None:
        settle_integer(self, "rows")
        settle_integer(self, "columns", optional=True, at_least=2)

    def check(self, sparsity: int, shape: tuple[int, ...]) -> None:
        """At least 2 tau columns, or more buckets than atoms."""
        columns = self._columns(sparsity)
        if columns < 2 * sparsity and self.rows * columns < shape[0]:
            raise ValueError(f"columns is {columns}; expected at least {2 * sparsity}, 2 tau atoms to be told apart")

    def answer(self, gradient: Array, question: Question) -> Array:
        """The sketch, of each output with the same hashes, or the gradient where that is no longer."""
        hashes = self.hashes(question, len(gradient), gradient.dtype)
        return gradient if hashes is None else hashes.sketch(gradient)

    def form(self, question: Question, shape: tuple[int, ...], dtype: Any) -> Form:
        """An array of the shape of a sketch, or of the gradient."""
        columns = self._columns(question.sparsity)
        return Form(shape if self.rows * columns >= shape[0] else (self.rows, columns, *shape[1:]), dtype)

    def read(self, mean: Array, question: Question, shape: tuple[int, ...]) -> Array:
        """The estimates of all entries of the mean gradient."""
        hashes = self.hashes(question, shape[0], mean.dtype)
        return mean if hashes is None else hashes.estimate(mean)

    def hashes(self, question: Question, n_atoms: int, dtype: Any = np.float64) -> Hashes | None:
        """Those of a round; None where the gradient itself is sent."""
        columns = self._columns(question.sparsity)
        if self.rows * columns >= n_atoms:
            return None
        return _hashes(question.seed, question.number, self.rows, columns, n_atoms, np.dtype(dtype).char)

    def _columns(self, sparsity: int) -> int:
        return max(14 * sparsity, 70) if self.columns is None else self.columns


class Hashes(NamedTuple):
    """Which bucket each atom goes to, with which sign: for each row of a sketch a sparse matrix (columns, n_atoms)."""

    matrices: tuple[Any, ...]

    @classmethod
    def drawn(cls, generator: np.random.Generator, rows: int, columns: int, n_atoms: int, dtype: Any = float) -> Hashes:
        """New ones: a permutation of the atoms, of which the k-th goes to bucket k modulo `columns`, and signs."""
        order = generator.permuted(np.tile(np.arange(n_atoms), (rows, 1)), axis=1).astype(np.int32)
        signs = (2 * generator.integers(0, 2, (rows, n_atoms)) - 1).astype(dtype)
        buckets = np.arange(n_atoms, dtype=np.int32) % columns
        each = zip(signs, order, strict=True)
        return cls(tuple(sparse.csr_array((s, (buckets, o)), shape=(columns, n_atoms)) for s, o in each))

    def sketch(self, gradient: Array) -> Array:
        """The signed sums, shape (rows, columns), or (rows, columns, n_outputs)."""
        return np.stack([matrix @ gradient for matrix in self.matrices])

    def estimate(self, sketch: Array) -> Array:
        """The medians over the rows, shape (n_atoms,), or (n_atoms, n_outputs)."""
        estimates = [matrix.T @ row for matrix, row in zip(self.matrices, sketch, strict=True)]
        middle: Array = np.median(estimates, axis=0)
        return middle.astype(sketch.dtype, copy=False)


@lru_cache(maxsize=4)
def _hashes(seed: int, number: int, rows: int, columns: int, n_atoms: int, dtype: str) -> Hashes:
    """The hashes of a round; the same for all who take part."""
    sequence = np.random.SeedSequence(seed, spawn_key=(6, number))
    return Hashes.drawn(np.random.default_rng(sequence), rows, columns, n_atoms, dtype)


def check_identify(identify: Any) -> None:
    """Raise a ValueError where a way to identify is none."""
    expected = "CountSketch(rows, columns) or LargestEntries(count)"
    check_protocol("identify", identify, ("answer", "read", "form"), expected)
