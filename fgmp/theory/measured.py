"""The quantities in the paper's assumptions, measured on data: restricted constants, variance, the sparse solution.

For the squared loss f(x) = ||B x - y||^2 / (2m) the constants of A-RSC and A-RSS (paper, Assumptions 1 and 2) are the
extreme eigenvalues of B_S'B_S / m over the supports S of size tau; in a dictionary, those of the pencil
(Psi_S' B'B Psi_S / m, Psi_S'Psi_S).
"""

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb, log10, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from .._support.validation import check_array, check_integer, check_kind, check_shape
from ..dictionaries import Atoms, Dictionary, check_dictionary
from ..federation import Client, Federation, check_federation
from ..losses import SquaredLoss
from ..selection import largest
from ..sparse_model import Array, IndexArray, length_of
from .theorems import ClientConstants

MOST_SUPPORTS = 200_000
_AT_ONCE = 20_000


class RestrictedConstants(NamedTuple):
    """The two constants of restricted convexity, rho^- and rho^+, or bounds of them."""

    lower: float
    upper: float

    @property
    def condition(self) -> float:
        """Upper / lower, the restricted condition number; infinite where `lower` is not positive."""
        return self.upper / self.lower if self.lower > 0 else float("inf")


def restricted_constants(
    B: ArrayLike,
    sparsity: int,
    *,
    weights: ArrayLike | None = None,
    dictionary: Atoms | None = None,
) -> RestrictedConstants:
    """Exact restricted constants: ``lower`` = min over S of lambda_min(B_S'B_S / m), ``upper`` = max of lambda_max.

    By enumeration of all supports, of which there may be 200,000. Where there are more, `inner_restricted_constants`
    and `outer_restricted_constants` bound them from the two sides.

    Parameters
    ----------
    B : array_like, shape (m, n)
        Data rows; the Hessian is B'B / m.
    sparsity : int
        tau, from 1 to the number of columns (of atoms, in a dictionary).
    weights : array_like, shape (m,), optional
        Row weights w >= 0 of B' diag(w) B / m, the Hessian of another loss, such as the logistic one.
    dictionary : Dictionary, optional
        Directions that are sparse in these atoms, measured in the norm of the signals.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.restricted_constants([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 2)
    >>> round(constants.lower, 6) + 0.0, round(constants.upper, 6)
    (0.0, 1.0)
    """
    hessian, gram, sparsity = _problem(B, sparsity, weights, dictionary)
    ends = _ends(hessian, gram, _all_supports(len(hessian), sparsity))
    return RestrictedConstants(float(ends[:, 0].min()), float(ends[:, 1].max()))


def inner_restricted_constants(
    B: ArrayLike, sparsity: int, *, n_supports: int = 1000, **options: Any
) -> RestrictedConstants:
    """An inner bound: `lower` is at least and `upper` at most the true constant.

    Looks at some supports only: `n_supports` random ones (always the same), those that truncated power iterations find
    from 20 starts, and from the best of both the supports that single exchanges improve (where a round of exchanges is
    at most 20,000 supports). Other parameters as `restricted_constants`.
    """
    hessian, gram, sparsity = _problem(B, sparsity, **options)
    generator, count = np.random.default_rng(0), check_integer("n_supports", n_supports)
    drawn = [np.sort(generator.permutation(len(hessian))[:sparsity]) for _ in range(count)]
    scaled = (
        hessian if gram is None else hessian / np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
    )
    mirrored = np.linalg.eigvalsh(scaled)[-1] * np.eye(len(scaled)) - scaled
    starts = generator.permutation(len(hessian))[:20]
    drawn += [
        _greedy_support(matrix, sparsity, start)
        for matrix in (scaled, mirrored)
        for start in starts
    ]
    ends = _ends(hessian, gram, iter(drawn))
    low = -_raised(-hessian, gram, drawn[int(ends[:, 0].argmin())])
    return RestrictedConstants(low, _raised(hessian, gram, drawn[int(ends[:, 1].argmax())]))


def outer_restricted_constants(B: ArrayLike, sparsity: int) -> RestrictedConstants:
    """An outer bound: `lower` is at most and `upper` at least the true constant.

    The better of Gershgorin's discs, with the tau - 1 largest entries off the diagonal in each row, and the spectrum
    of the whole matrix. Parameters as `restricted_constants`.
    """
    hessian, _, sparsity = _problem(B, sparsity)
    diagonal, spectrum = hessian.diagonal(), np.linalg.eigvalsh(hessian)
    off = np.sort(np.abs(hessian - np.diag(diagonal)), axis=1)[:, ::-1]
    radius = off[:, : sparsity - 1].sum(axis=1)
    low = max(float((diagonal - radius).min()), float(spectrum[0]), 0.0)
    return RestrictedConstants(low, min(float((diagonal + radius).max()), float(spectrum[-1])))


def stable_rank(B: ArrayLike) -> float:
    """sr(B) = ||B||_F^2 / ||B||^2, between 1 and the rank (paper, Section IV-D)."""
    B = check_array("B", B, ndim=2)
    if not B.any():
        raise ValueError("B is zero; expected a matrix with a nonzero entry")
    return float((np.linalg.norm(B) / np.linalg.norm(B, 2)) ** 2)


def sparse_minimiser(federation: Federation, sparsity: int) -> Array:
    """The solution x* that the theorems speak of: the minimiser of f over all x with `sparsity` nonzeros, exactly.

    For the squared loss and stored features, by enumeration of at most 200,000 supports. Where several are equally
    good, to rounding, it is the first in lexical order.
    """
    n = _least_squares(federation).n_features
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of features")
    supports, (whole,) = _all_supports(n, sparsity), federation.pooled().clients
    # Once for all supports: what the rows say beyond their triangle is the same for every x.
    basis, triangle = np.linalg.qr(whole.columns(np.arange(n)))
    right = basis.T @ whole.targets
    best, smallest = np.zeros(n), np.inf
    rounding = 64 * float(np.finfo(right.dtype).eps * np.linalg.norm(right))
    for support in map(list, supports):
        values = np.linalg.lstsq(triangle[:, support], right, rcond=None)[0]
        misfit = float(np.linalg.norm(triangle[:, support] @ values - right))
        if misfit < smallest - rounding:
            best, smallest = np.zeros(n), misfit
            best[support] = values
    return best


class Approximation(NamedTuple):
    """What approx_tau found, and how good it is.

    Attributes
    ----------
    support : ndarray of int
        The atoms selected, Gamma, increasing.
    error, best_error : float
        ||P_Gamma w - w||_2, and the smallest ||w - v||_2 over all tau-sparse v, by enumeration of their supports.
    eta : float
        error / best_error, at least 1: the eta of the paper's approximate projection; 1 where the error is rounding.
    """

    support: IndexArray
    error: float
    best_error: float
    eta: float


def approx_tau(dictionary: Atoms, signal: ArrayLike, sparsity: int) -> Approximation:
    """Approximate projection of a signal onto at most `sparsity` atoms (paper, Section II), with the eta it reached.

    Only for looking: methods select by their dictionary. In atoms that are not orthonormal there may be 5,000,000
    supports, of which a million takes a second.

    Examples
    --------
    >>> import fgmp
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    >>> found = fgmp.theory.approx_tau(dictionary, [5.0, 1.0, 0.0], sparsity=1)
    >>> found.support.tolist(), round(found.error, 6), round(found.eta, 6)
    ([0], 1.0, 1.0)
    """
    w = check_array("signal", signal, ndim=1)
    n_atoms = check_dictionary(dictionary).n_atoms(len(w))
    sparsity = check_integer("sparsity", sparsity, at_most=n_atoms, why="the number of atoms")
    if not isinstance(dictionary, Dictionary):
        support = dictionary.approximate(w, sparsity)
        error = float(np.linalg.norm(np.delete(w, support)))
        return Approximation(support, error, error, 1.0)
    supports = (
        iter(()) if dictionary.orthonormal else _all_supports(n_atoms, sparsity, most=5_000_000)
    )
    atoms = dictionary.atoms.astype(np.float64) / dictionary.norms
    gram = atoms.T @ atoms + 1e-12 * np.eye(
        n_atoms
    )  # so that dependent atoms are no singular system
    cosines = (atoms.T @ w)[:, None]

    def distance(support: IndexArray) -> float:
        columns = atoms[:, support]
        return float(np.linalg.norm(w - columns @ np.linalg.lstsq(columns, w, rcond=None)[0]))

    support = dictionary.approximate(dictionary.atoms.T @ w, sparsity)
    best, error, most = support, distance(support), -np.inf
    for batch in _batches(supports):
        solved = np.linalg.solve(gram[batch[:, :, None], batch[:, None]], cosines[batch])
        explained = np.sum(
            cosines[batch] * solved, axis=(1, 2)
        )  # c' G^-1 c, the square of the projection's length
        if explained.max() > most:
            best, most = batch[explained.argmax()], explained.max()
    smallest = min(error, distance(best))
    rounding = 16 * float(np.finfo(w.dtype).eps * np.sqrt(len(w)) * np.linalg.norm(w))
    return Approximation(support, error, smallest, error / smallest if error > rounding else 1.0)


def measure_constants(
    federation: Federation,
    x_star: ArrayLike,
    sparsity: int,
    *,
    batch_size: int | None = None,
    n_minibatches: int = 20,
) -> ClientConstants:
    """The constants of least-squares clients in the standard basis, exact at sparsity min(4 tau, n).

    Parameters
    ----------
    federation : Federation
        Squared loss; averaged, or the full batch. Sparse features are made dense, one client at a time.
    x_star : array_like, shape (n_features,)
        The solution x*, at which sigma_i^2 is measured (`minibatch_variance`): for the squared loss no bound holds for
        all sparse x.
    sparsity : int
        tau.
    batch_size : int or None
        b; None is the full batch, one minibatch.
    n_minibatches : int, default 20
        Minibatches over which the means of rho^+(i, j) and of L(i, j)^2 are taken: all of them, where a client has no
        more than that, otherwise so many draws (always the same).
    """
    n = _least_squares(federation).n_features
    x = check_shape("x_star", x_star, (n,))
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of features")
    n_minibatches = check_integer("n_minibatches", n_minibatches)
    if batch_size is not None:
        smallest = int(federation.rows.min())
        check_integer(
            "batch_size", batch_size, at_most=smallest, why="the rows of the smallest client"
        )
    loss, enough = federation.loss, batch_size is None or (federation.rows == batch_size).all()
    if not (loss.averaged or enough):  # type: ignore[attr-defined]
        given = f"federation has the loss {loss!r}, with which minibatches do not have the mean f_i"
        raise ValueError(f"{given}; expected averaged=True or the full batch")
    generator, order, found = np.random.default_rng(0), min(4 * sparsity, n), []
    for client, weight in zip(federation.clients, federation.weights, strict=True):
        A, m, b = _stored(client), client.n_samples, batch_size or client.n_samples
        few = comb(m, b) <= n_minibatches
        batches: Any = (
            combinations(range(m), b) if few else client.minibatches(generator, b, n_minibatches)
        )
        parts = [A[list(batch)] for batch in batches]
        whole, uppers = (
            restricted_constants(A, order),
            [restricted_constants(part, order).upper for part in parts],
        )
        unit, squares = loss.row_weight(m) * m, client.gradient(x) ** 2
        upper = max(
            float(np.mean(uppers)), whole.upper
        )  # over all minibatches it is at least that of f_i
        smooth = np.mean([_smoothness_squared(part, min(2 * sparsity, n)) for part in parts])
        gradient, variance = (
            squares[largest(squares, order)].sum(),
            minibatch_variance(client, x, batch_size),
        )
        found.append(
            (
                unit * whole.lower,
                unit * upper,
                unit**2 * smooth,
                gradient,
                squares.sum(),
                variance,
                weight,
            )
        )
    return ClientConstants(*np.array(found).T)


def minibatch_variance(client: Client, x: ArrayLike, batch_size: int | None) -> float:
    """E_j ||grad g_ij(x) - grad f_i(x)||^2 over all minibatches of `batch_size` rows without replacement, exactly.

    The quantity of the paper's Assumption 4. No minibatch is drawn: with d_k the gradient of row k, d their mean over
    the m rows, and w_b the weight of a row in a minibatch, it is

        (w_b b)^2 (1/b - 1/m) sum_k ||d_k - d||^2 / (m - 1) + (w_b b - w_m m)^2 ||d||^2.

    For a mean over the rows, w_b = 1/b, the second term is zero. For a sum, w_b = 1, it is the bias of g_ij, whose
    mean over j is b/m times f_i: such a loss does not meet the first half of Assumption 4.

    Any loss; stored features, of which sparse ones are made dense for as long as this takes. `x` has the client's model
    shape; `batch_size` is b, and None all rows, which gives zero.
    """
    check_kind("client", client, Client, "a Client, such as one of federation.clients")
    x, A, m = check_shape("x", x, client.model_shape), _stored(client), client.n_samples
    b = (
        m
        if batch_size is None
        else check_integer("batch_size", batch_size, at_most=m, why="the rows of the client")
    )
    if b == m:
        return 0.0
    derivative = client.loss.derivative(client.predictions(x), client.targets).reshape(m, -1)
    mean = A.T @ derivative / m
    spread = sum(
        np.sum((A * column[:, None] - d) ** 2)
        for column, d in zip(derivative.T, mean.T, strict=True)
    )
    batch, whole = client.loss.row_weight(b) * b, client.loss.row_weight(m) * m
    return float(
        batch**2 * (1 / b - 1 / m) * spread / (m - 1) + (batch - whole) ** 2 * np.sum(mean**2)
    )


def heterogeneity(federation: Federation, x_star: ArrayLike) -> float:
    """zeta* = (sum p_i ||grad f_i(x*)||^2)^(1/2) (paper, Assumption 3): zero where x* suits every client."""
    x = check_shape("x_star", x_star, check_federation("federation", federation).model_shape)
    norms = np.array([length_of(client.gradient(x)) for client in federation.clients])
    return length_of(np.sqrt(federation.weights) * norms)


def gaussian_width(n_features: int, sparsity: int) -> tuple[float, float]:
    """The Gaussian width of {x : ||x||_0 <= tau, ||x||_2 <= 1}, and its standard error, by 2,000 draws.

    w(T) = E sup_{x in T} <g, x> = E (sum of the tau largest g_i^2)^(1/2).
    """
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    squares = np.random.default_rng(0).standard_normal((2000, n_features)) ** 2
    widths = np.sqrt(
        np.partition(squares, n_features - sparsity, axis=1)[:, n_features - sparsity :].sum(1)
    )
    return float(widths.mean()), float(widths.std(ddof=1) / np.sqrt(len(widths)))


def _least_squares(federation: Federation) -> Federation:
    if not isinstance(check_federation("federation", federation).loss, SquaredLoss):
        raise ValueError(f"federation has the loss {federation.loss!r}; expected SquaredLoss")
    return federation


def _problem(
    B: ArrayLike,
    sparsity: int,
    weights: ArrayLike | None = None,
    dictionary: Atoms | None = None,
) -> tuple[Array, Array | None, int]:
    """The Hessian in the coordinates of the atoms, and their Gram matrix, None where it is the identity."""
    inside, gram = check_array("B", B, ndim=2), None
    if 0 in inside.shape:
        raise ValueError(f"B has shape {inside.shape}; expected at least one row and one column")
    check_kind(
        "dictionary",
        dictionary,
        (Atoms, type(None)),
        "a Dictionary, a StandardBasis or None",
    )
    if isinstance(dictionary, Dictionary):
        dictionary.n_atoms(inside.shape[1])  # a ValueError where the atoms are of another dimension
        inside, gram = inside @ dictionary.atoms, dictionary.gram
    m, n = inside.shape
    w = np.ones(m) if weights is None else check_shape("weights", weights, (m,))
    if w.min() < 0:
        raise ValueError(
            f"weights is {w.min():g} at least once; expected one of at least 0 for each row of B"
        )
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of columns")
    return inside.T @ (inside * w[:, None]) / m, gram, sparsity


def _all_supports(n: int, sparsity: int, most: int = MOST_SUPPORTS) -> Iterator[Any]:
    """All supports of a size, in lexical order, or a ValueError where there are too many."""
    if (count := comb(n, sparsity)) > most:
        found = f"sparsity is {sparsity}, which has about 10^{log10(count):.1f} supports"
        raise ValueError(f"{found}; expected at most {most}")
    return combinations(range(n), sparsity)


def _batches(supports: Iterator[Any]) -> Iterator[Array]:
    while some := list(islice(supports, _AT_ONCE)):
        yield np.array(some)


def _ends(hessian: Array, gram: Array | None, supports: Iterator[Any]) -> Array:
    """The smallest and the largest eigenvalue over each support."""
    return np.concatenate(
        [_spectra(hessian, gram, batch)[:, [0, -1]] for batch in _batches(supports)]
    )


def _spectra(hessian: Array, gram: Array | None, supports: Array) -> Array:
    """Eigenvalues of the pencils over a batch of supports, both of shape (batch, tau), increasing."""
    rows, columns, size = supports[:, :, None], supports[:, None], supports.shape[1]
    blocks = hessian[rows, columns]
    if gram is not None:
        try:
            factors = np.linalg.cholesky(gram[rows, columns])
        except np.linalg.LinAlgError:
            factors = np.zeros_like(blocks)
        pivots = np.diagonal(factors, axis1=1, axis2=2) ** 2
        if (pivots.min(axis=1) <= 8 * size * np.finfo(gram.dtype).eps * pivots.max(axis=1)).any():
            raise ValueError(
                f"dictionary has {size} linearly dependent atoms; expected a smaller sparsity than {size}"
            )
        back = np.linalg.inv(factors)
        blocks = back @ blocks @ np.swapaxes(back, 1, 2)
    return np.asarray(np.linalg.eigvalsh(blocks))


def _raised(hessian: Array, gram: Array | None, support: Array) -> float:
    """The largest eigenvalue on a support after exchanging single columns for as long as that raises it."""
    best, size = float(_spectra(hessian, gram, support[None])[0, -1]), len(support)
    while 0 < size * (len(hessian) - size) <= _AT_ONCE:
        outside = np.setdiff1d(np.arange(len(hessian)), support)
        trials = np.tile(support, (size * len(outside), 1))
        trials[np.arange(len(trials)), np.repeat(np.arange(size), len(outside))] = np.tile(
            outside, size
        )
        values = _spectra(hessian, gram, trials)[:, -1]
        if values.max() <= best + 1e-12 * abs(best):
            break
        best, support = float(values.max()), trials[values.argmax()]
    return best


def _greedy_support(matrix: Array, sparsity: int, start: int) -> IndexArray:
    """Support of a truncated power iteration from one coordinate: it climbs towards the largest sparse eigenvalue."""
    vector, support = matrix[start], np.empty(0, np.intp)
    for _ in range(31):
        renewed = largest(np.abs(vector), sparsity)
        if np.array_equal(renewed, support):
            break
        support, kept = renewed, vector[renewed]
        vector = matrix[:, support] @ (
            kept / max(float(np.linalg.norm(kept)), float(np.finfo(float).tiny))
        )
    return support


def _stored(client: Client) -> Array:
    if isinstance(client.features, LinearOperator):
        raise ValueError("client has streamed features; expected stored ones")
    return client.columns(np.arange(client.n_features))


def _smoothness_squared(rows: Array, sparsity: int) -> float:
    """L^2, with ||H v|| <= L ||v|| for all sparse v and the Hessian H: the restricted upper constant of H'H."""
    n = rows.shape[1]
    possible = comb(n, sparsity) <= MOST_SUPPORTS
    return (
        restricted_constants(rows.T @ rows / len(rows) * sqrt(n), sparsity).upper
        if possible
        else float("nan")
    )
