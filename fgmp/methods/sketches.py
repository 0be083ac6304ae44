"""How the clients of `SharedSupportGradMP` tell the server where their gradients are large together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..checks import settle_integer
from ..dictionaries import StandardBasis
from ..models import Array, SparseModel
from ..rounds import Form


class Question(NamedTuple):
    """What clients and server know alike: tau, the atoms and what counts of them, the seed, the round, from 0."""

    sparsity: int
    atoms: StandardBasis
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

    def form(self, question: Question, shape: tuple[int, ...], dtype: Any) -> Form:
        """At most so many entries of a gradient."""
        return Form(shape, dtype, self.count or 4 * question.sparsity, None, question.atoms.selection)

    def answer(self, gradient: Array, question: Question) -> SparseModel:
        """The largest entries, measured in inner products with normalised atoms."""
        if not np.isfinite(gradient).all():
            raise FloatingPointError("the gradient is not finite, which a selection would hide")
        sizes = question.atoms.normalised(gradient)
        chosen = question.atoms.selection.choose(sizes, self.count or 4 * question.sparsity)
        return SparseModel(chosen, gradient.reshape(-1)[chosen], gradient.shape)

    def read(self, mean: Array, question: Question, shape: tuple[int, ...]) -> Array:
        """The mean of the entries that were sent."""
        return mean


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
    the median fails with probability at most 1.5 %. For all n atoms at once the bound is n times as large, and then
    asks for d of the order of log n rows; a round can afford to miss an atom, because the next one deals anew.

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

    def form(self, question: Question, shape: tuple[int, ...], dtype: Any) -> Form:
        """An array of the shape of a sketch, or of the gradient."""
        columns = self._columns(question.sparsity)
        return Form(shape if self.rows * columns >= shape[0] else (self.rows, columns, *shape[1:]), dtype)

    def answer(self, gradient: Array, question: Question) -> Array:
        """The sketch, of each output with the same hashes, or the gradient where that is no longer."""
        hashes = self._hashes(question, len(gradient), gradient.dtype)
        return np.stack([matrix @ gradient for matrix in hashes]) if hashes else gradient

    def read(self, mean: Array, question: Question, shape: tuple[int, ...]) -> Array:
        """The estimates of all entries of the mean gradient."""
        hashes = self._hashes(question, shape[0], mean.dtype)
        if not hashes:
            return mean
        estimates = [matrix.T @ row for matrix, row in zip(hashes, mean, strict=True)]
        return np.asarray(np.median(estimates, axis=0), mean.dtype)

    def _hashes(self, question: Question, n_atoms: int, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Those of a round; none where the gradient itself is sent."""
        columns, key = self._columns(question.sparsity), (question.seed, question.number)
        return hashes(*key, self.rows, columns, n_atoms, dtype.char) if self.rows * columns < n_atoms else ()

    def _columns(self, sparsity: int) -> int:
        return max(14 * sparsity, 70) if self.columns is None else self.columns


@lru_cache(maxsize=4)
def hashes(seed: int, number: int, rows: int, columns: int, n_atoms: int, dtype: str) -> tuple[Any, ...]:
    """Which bucket each atom goes to in a round, with which sign: for each row a sparse matrix (columns, n_atoms).

    Of a permutation of the atoms the k-th goes to bucket k modulo `columns`.
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(6, number)))
    order = generator.permuted(np.tile(np.arange(n_atoms), (rows, 1)), axis=1).astype(np.int32)
    signs = (2 * generator.integers(0, 2, (rows, n_atoms)) - 1).astype(dtype)
    buckets = np.arange(n_atoms, dtype=np.int32) % columns
    each = zip(signs, order, strict=True)
    return tuple(sparse.csr_array((s, (buckets, o)), shape=(columns, n_atoms)) for s, o in each)
