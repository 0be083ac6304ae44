"""What clients send of their gradients, by which the server chooses the support.

`CountSketch` and `LargestEntries` have `encode`, by which a client makes an update of its gradient,
and `decode`, by which the server estimates the mean gradient from the mean of the updates.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._support.validation import validate_integer_field
from .._support.warnings import warn_user
from ..dictionaries import Atoms
from ..selection import Selection
from ..sparse_model import Array, NonFiniteUpdate, SparseModel
from ..updates import UpdateSpec

_PURPOSE = 6  # keeps the random numbers of sketches apart from those of a run with the same seed


class SketchContext(NamedTuple):
    """What clients and server both know when a gradient is encoded and decoded.

    Attributes
    ----------
    sparsity : int
        tau.
    dictionary : Atoms
        The atoms.
    selection : Selection
        What counts as one of the tau.
    seed : int
        The seed of the method.
    round : int
        The number of rounds that are over.
    """

    sparsity: int
    dictionary: Atoms
    selection: Selection
    seed: int
    round: int


@dataclass(frozen=True)
class LargestEntries:
    """Every client sends the largest entries of its gradient, with their indices.

    An entry that is small at many clients is cut by each of them, and lost. What arrives are the
    features that say most about a single client.

    Parameters
    ----------
    count : int or None
        The number of entries, counted as the method's `selection` does: at least 1. None is 4 tau;
        the number of atoms sends the whole gradient.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(
    ...     n_clients=20, n_samples=8, n_features=60, sparsity=3, rng=0
    ... )
    >>> method = fgmp.SharedSupportGradMP(sparsity=3, screening=fgmp.LargestEntries(6))
    >>> result = fgmp.simulate(method, federation, rounds=10, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    """

    count: int | None = None

    def __post_init__(self) -> None:
        validate_integer_field(self, "count", optional=True)

    def check(self, sparsity: int, shape: tuple[int, ...], n_rows: int) -> None:
        """Accept every problem, because any count fits."""

    def update_spec(
        self, context: SketchContext, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> UpdateSpec:
        """Return the spec of a sparse gradient with at most `count` entries."""
        count = self._count(context)
        return UpdateSpec(shape, dtype, max_nonzeros=count, selection=context.selection)

    def encode(self, gradient: Array, context: SketchContext) -> SparseModel:
        """Return the largest entries, by their inner products with normalised atoms.

        Raises
        ------
        NonFiniteUpdate
            If the gradient is not finite, which a selection of entries would hide.
        """
        if not np.isfinite(gradient).all():
            raise NonFiniteUpdate("the gradient is not finite, which a selection would hide")
        magnitudes = context.dictionary.normalised(gradient)
        support = context.selection.select(magnitudes, self._count(context))
        return SparseModel(support, gradient.reshape(-1)[support], gradient.shape)

    def decode(self, mean: Array, context: SketchContext, shape: tuple[int, ...]) -> Array:
        """Return the mean of the entries that were sent, as an estimate of the mean gradient."""
        return mean

    def _count(self, context: SketchContext) -> int:
        return self.count or 4 * context.sparsity


@dataclass(frozen=True)
class CountSketch:
    """Every client sends the same random linear sketch of its gradient, so that sketches add up.

    In each of `rows` rows the atoms are dealt out at random to `columns` buckets, as evenly as can
    be, each with a random sign. A bucket holds the signed sum of its entries. The sum of a bucket
    times the sign of an atom estimates the atom's entry, and the server takes the median of the
    estimates of all rows. Every round deals anew, from the seed of the method and the number of the
    round, so that client and server agree without sending the deal.

    Parameters
    ----------
    rows : int, default 3
        d, at least 1.
    columns : int or None
        w, at least 2 tau, so that this many atoms can be told apart. None is the largest of 14 tau,
        70 and an eighth of the atoms, rounded up.

    Warns
    -----
    AdviceWarning
        If the columns are too few for the atoms, see Notes.

    Notes
    -----
    If a sketch would not be shorter than the gradient, the gradient itself is sent: it adds up as
    well, and is exact.

    Two atoms share a bucket with probability at most 1/w. Therefore the error of an entry in one
    row has a variance of at most ||g||^2 / w, and is larger than s ||g|| with probability at most
    q = 1 / (w s^2). The median of an odd d is off by as much only if half of the rows are, with
    probability at most sum over k > d/2 of binom(d, k) q^k (1 - q)^(d - k). That is 1.5 % for
    w = 14 tau, d = 3 and s = 1/sqrt(tau), the size of tau entries that share all of the energy. A
    round can afford to miss an atom, because the next round deals anew.

    With few rows of data, the other p entries of the gradient have energy too: each a variance v,
    which the data leave undecided. In a sketch they add at most p v / w to the variance of every
    entry, which grows without bound with p for a fixed w, and is 8 v for w = p/8. With N rows of
    data and one signal v is about 1/N of the energy of the signal. The error is as large as the tau
    entries of the signal if w N is tau p / 2, because a median of three rows halves the variance. A
    run with fewer columns warns.

    References
    ----------
    M. Charikar, K. Chen, M. Farach-Colton, Finding frequent items in data streams, ICALP 2002
    (Theoretical Computer Science 312, 2004), Lemmas 1 to 4.

    Examples
    --------
    Three rows of 60 numbers stand for a gradient of 400:

    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(20, 10, 400, sparsity=2, heterogeneity=0, rng=0)
    >>> method = fgmp.SharedSupportGradMP(sparsity=2, screening=fgmp.CountSketch(3, 60))
    >>> result = fgmp.simulate(method, federation, rounds=8, rng=0)
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    >>> bool(result.history["bytes_up"][1] < 20 * 400 * 8)
    True
    """

    rows: int = 3
    columns: int | None = None

    def __post_init__(self) -> None:
        validate_integer_field(self, "rows")
        validate_integer_field(self, "columns", optional=True, at_least=2)

    def check(self, sparsity: int, shape: tuple[int, ...], n_rows: int) -> None:
        """Raise a ValueError for fewer than 2 tau columns; warn if they are few for the atoms.

        Parameters
        ----------
        sparsity : int
            tau.
        shape : tuple of int
            The shape of a model.
        n_rows : int
            The rows of data of all clients.
        """
        n_atoms = shape[0]
        columns = self._columns(sparsity, n_atoms)
        if self._sends_gradient(sparsity, n_atoms):
            return
        if columns < 2 * sparsity:
            raise ValueError(
                f"columns is {columns}; expected at least {2 * sparsity}, "
                "2 tau atoms to be told apart"
            )
        if 2 * columns * n_rows < sparsity * n_atoms:
            enough = -(-n_atoms // self.rows)
            warn_user(
                f"columns is {columns}, and {n_rows} rows have {n_atoms} atoms: what shares a "
                f"bucket hides atoms of the {sparsity} sought; CountSketch({self.rows}, {enough}) "
                "sends the gradient itself"
            )

    def update_spec(
        self, context: SketchContext, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> UpdateSpec:
        """Return the spec of an array of the shape of a sketch, or of the gradient."""
        if self._sends_gradient(context.sparsity, shape[0]):
            return UpdateSpec(shape, dtype)
        columns = self._columns(context.sparsity, shape[0])
        return UpdateSpec((self.rows, columns, *shape[1:]), dtype)

    def encode(self, gradient: Array, context: SketchContext) -> Array:
        """Return the sketch, with the same hashes for each output, or a short gradient itself."""
        if self._sends_gradient(context.sparsity, len(gradient)):
            return gradient
        sketch = self._hash_matrix(context, len(gradient), gradient.dtype) @ gradient
        return np.asarray(sketch.reshape(self.rows, -1, *gradient.shape[1:]))

    def decode(self, mean: Array, context: SketchContext, shape: tuple[int, ...]) -> Array:
        """Return the estimates of all entries of the mean gradient, of the shape of a model."""
        if self._sends_gradient(context.sparsity, shape[0]):
            return mean
        # An atom, which is a column of the matrix, is in one bucket of each row of the sketch.
        by_atom = self._hash_matrix(context, shape[0], mean.dtype).tocsc()
        buckets = by_atom.indices.reshape(-1, self.rows)
        signs = by_atom.data.reshape(-1, self.rows, *[1] * len(shape[1:]))
        estimates = signs * mean.reshape(-1, *shape[1:])[buckets]
        return np.asarray(np.median(estimates, axis=1), mean.dtype)

    def _hash_matrix(
        self, context: SketchContext, n_atoms: int, dtype: np.dtype[Any]
    ) -> sparse.csr_array:
        columns = self._columns(context.sparsity, n_atoms)
        return hash_matrix(
            context.seed, context.round, self.rows, columns, n_atoms, precision=dtype.char
        )

    def _sends_gradient(self, sparsity: int, n_atoms: int) -> bool:
        """Whether a sketch would not be shorter than the gradient."""
        return self.rows * self._columns(sparsity, n_atoms) >= n_atoms

    def _columns(self, sparsity: int, n_atoms: int) -> int:
        if self.columns is not None:
            return self.columns
        an_eighth = -(-n_atoms // 8)
        return max(14 * sparsity, 70, an_eighth)


@lru_cache(maxsize=4)  # all clients of a round have the same
def hash_matrix(
    seed: int, round_number: int, rows: int, columns: int, n_atoms: int, precision: str
) -> sparse.csr_array:
    """Return the sparse matrix, shape (rows * columns, n_atoms), that makes a sketch.

    Each row of the sketch has `columns` rows of it, which are its buckets. There a column of the
    matrix holds the sign of an atom at the bucket of the atom. The k-th atom of a random
    permutation goes to bucket k modulo `columns`, so that buckets are even.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(_PURPOSE, round_number))
    generator = np.random.default_rng(sequence)
    atoms_in_order = np.tile(np.arange(n_atoms), (rows, 1))
    permutations = generator.permuted(atoms_in_order, axis=1).astype(np.int32)
    signs = (2 * generator.integers(0, 2, (rows, n_atoms)) - 1).astype(precision)
    first_buckets = columns * np.arange(rows, dtype=np.int32)
    buckets = first_buckets[:, None] + np.arange(n_atoms, dtype=np.int32) % columns
    places = (buckets.reshape(-1), permutations.reshape(-1))
    return sparse.csr_array((signs.reshape(-1), places), shape=(rows * columns, n_atoms))
