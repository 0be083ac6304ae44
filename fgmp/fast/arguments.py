"""What compiled loops are given, which is made without Numba."""

from typing import NamedTuple

from ..sparse_model import Array, IndexArray


class CohortData(NamedTuple):
    """The rows of all clients, and where those of each client of a cohort lie.

    `features` has shape (M, n) and `targets` (M,). Client i of the cohort has the rows `begins[i]`
    to `ends[i]` - 1, minibatches of `batch_sizes[i]` rows, and the id `client_ids[i]`.
    """

    features: Array
    targets: Array
    begins: IndexArray
    ends: IndexArray
    batch_sizes: IndexArray
    client_ids: IndexArray


class RandomStream(NamedTuple):
    """The key of a run's random numbers, and whose these are: all but the client's id."""

    key: Array
    purpose: int
    exchange_index: int
    round: int


class Objective(NamedTuple):
    """The loss of a row (see `derivative_in_place`), with the mean or the sum over the rows."""

    margin: float
    is_mean: bool


class CountedEntries(NamedTuple):
    """What counts as one of the tau: entries of each output, or whole atoms; see `Selection`.

    `always_include` has shape (n,), bool.
    """

    sparsity: int
    by_atom: bool
    always_include: Array


class AtomProducts(NamedTuple):
    """The Gram matrix of atoms that are not orthonormal, and their norms, in float64.

    Both are empty if the atoms are orthonormal, so that a loop is compiled once for all atoms.
    """

    gram: Array
    norms: Array


class Pursuit(NamedTuple):
    """What the loops of FedGradMP are given beside the rows, and where they leave the updates.

    Attributes
    ----------
    local_iterations : int
        K.
    counted : CountedEntries
    products : AtomProducts
    start_support, start_values : ndarray, shape (k,)
        x_t and its support, as in a `SparseModel`.
    supports, values : ndarray, shape (L, most entries of an update)
        For the updates.
    counts : ndarray, shape (L,)
        For the numbers of their entries. A count that stays 0 leaves the update to the reference
        implementation.
    """

    local_iterations: int
    counted: CountedEntries
    products: AtomProducts
    start_support: IndexArray
    start_values: Array
    supports: IndexArray
    values: Array
    counts: IndexArray
