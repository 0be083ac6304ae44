"""The quantities in the paper's assumptions, measured on data.

These are restricted constants, variance, heterogeneity and the sparse solution. For the squared
loss f(x) = ||B x - y||^2 / (2m) the constants of A-RSC and A-RSS (Assumptions 1 and 2, lines 276
and 284 of the paper) are the extreme eigenvalues of B_S'B_S / m over the supports S of size tau.
In a dictionary, they are those of the pencil (Psi_S' B'B Psi_S / m, Psi_S'Psi_S).
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, combinations, islice
from math import comb, log10, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh

from .._support.linear_algebra import length_of
from .._support.validation import check_array, check_integer, check_kind, check_shape
from ..data import Client, Federation, check_federation
from ..dictionaries import Atoms, Dictionary, check_dictionary
from ..selection import largest
from ..sparse_model import Array, IndexArray
from .theorems import ClientConstants

MOST_SUPPORTS = 200_000
"""Supports that are enumerated at most: some seconds."""

_MOST_PROJECTIONS = 5_000_000  # of one signal: some seconds
_BATCH = 20_000  # supports whose blocks are in memory at once
_FEW_COLUMNS = 200  # of a matrix all of whose eigenvalues are found as fast as one


class RestrictedConstants(NamedTuple):
    """The two constants of restricted convexity, rho^- and rho^+, or bounds of them.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.RestrictedConstants(lower=0.5, upper=2.0)
    >>> constants.condition
    4.0
    """

    lower: float
    upper: float

    @property
    def condition(self) -> float:
        """The restricted condition number upper / lower, infinite if `lower` is not positive."""
        return self.upper / self.lower if self.lower > 0 else float("inf")


def restricted_constants(
    B: ArrayLike,
    sparsity: int,
    *,
    weights: ArrayLike | None = None,
    dictionary: Atoms | None = None,
) -> RestrictedConstants:
    """Return the exact restricted constants of the squared loss (Assumptions 1 and 2).

    ``lower`` is the minimum over S of lambda_min(B_S'B_S / m), and ``upper`` the maximum of
    lambda_max, by enumeration of all supports, of which there may be 200,000. If there are more,
    `inner_restricted_constants` and `outer_restricted_constants` bound them from the two sides.

    The upper constant is the restricted curvature. Assumption 2 as printed bounds the whole
    gradient, which may be larger (ERRATA.md, entry 14).

    Parameters
    ----------
    B : array_like, shape (m, n)
        Data rows; the Hessian is B'B / m.
    sparsity : int
        tau, from 1 to the number of columns (of atoms, in a dictionary).
    weights : array_like, shape (m,), optional
        Row weights w >= 0 of B' diag(w) B / m, the Hessian of another loss, such as the logistic.
    dictionary : Dictionary, optional
        Directions that are sparse in these atoms, measured in the norm of the signals.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.restricted_constants([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 2)
    >>> round(constants.lower, 6) + 0.0, round(constants.upper, 6)
    (0.0, 1.0)
    """
    pencil, sparsity = _checked_pencil(B, sparsity, weights, dictionary)
    supports = _all_supports(len(pencil.hessian), sparsity)
    ends = _extreme_eigenvalues(pencil, supports)
    return RestrictedConstants(lower=float(ends[:, 0].min()), upper=float(ends[:, 1].max()))


def inner_restricted_constants(
    B: ArrayLike,
    sparsity: int,
    *,
    n_supports: int = 1000,
    weights: ArrayLike | None = None,
    dictionary: Atoms | None = None,
) -> RestrictedConstants:
    """Return an inner bound: `lower` is at least and `upper` at most the true constant.

    Some supports are tried: `n_supports` random ones, which are always the same, and those that
    truncated power iterations find from 20 starts. The best of them are improved by exchanges of
    one column, as long as a round of exchanges is at most 20,000 supports.

    Other parameters as in `restricted_constants`.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp import theory
    >>> B = np.random.default_rng(0).standard_normal((40, 12))
    >>> inner, exact = theory.inner_restricted_constants(B, 3), theory.restricted_constants(B, 3)
    >>> inner.lower > exact.lower - 1e-12, inner.upper < exact.upper + 1e-12
    (True, True)
    """
    pencil, sparsity = _checked_pencil(B, sparsity, weights, dictionary)
    n_supports = check_integer("n_supports", n_supports)
    n = len(pencil.hessian)
    generator = np.random.default_rng(0)
    supports = [np.sort(generator.permutation(n)[:sparsity]) for _ in range(n_supports)]

    # Power iterations climb; the smallest eigenvalue of H is the largest of lambda_max(H) I - H.
    scaled = pencil.hessian
    if pencil.gram is not None:
        diagonal = pencil.gram.diagonal()
        scaled = scaled / np.sqrt(np.outer(diagonal, diagonal))
    mirrored = _largest_eigenvalue(scaled) * np.eye(n) - scaled
    starts = generator.permutation(n)[:20]
    for matrix in (scaled, mirrored):
        supports += [_climbed_support(matrix, sparsity, start) for start in starts]

    ends = _extreme_eigenvalues(pencil, np.array(supports))
    lowest = supports[int(ends[:, 0].argmin())]
    highest = supports[int(ends[:, 1].argmax())]
    negated = _Pencil(-pencil.hessian, pencil.gram)
    return RestrictedConstants(
        lower=-_raised_by_exchanges(negated, lowest),
        upper=_raised_by_exchanges(pencil, highest),
    )


def outer_restricted_constants(B: ArrayLike, sparsity: int) -> RestrictedConstants:
    """Return an outer bound: `lower` is at most and `upper` at least the true constant.

    It is the better of two bounds: Gershgorin's discs, with the tau - 1 largest entries off the
    diagonal in each row, and the spectrum of the whole matrix.

    Parameters as in `restricted_constants`.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp import theory
    >>> B = np.random.default_rng(0).standard_normal((40, 12))
    >>> outer, exact = theory.outer_restricted_constants(B, 3), theory.restricted_constants(B, 3)
    >>> outer.lower < exact.lower + 1e-12, outer.upper > exact.upper - 1e-12
    (True, True)
    """
    pencil, sparsity = _checked_pencil(B, sparsity)
    hessian = pencil.hessian
    diagonal = hessian.diagonal()
    off_diagonal = np.sort(np.abs(hessian - np.diag(diagonal)), axis=1)[:, ::-1]
    radius = off_diagonal[:, : sparsity - 1].sum(axis=1)
    spectrum = np.linalg.eigvalsh(hessian)
    return RestrictedConstants(
        lower=max(float((diagonal - radius).min()), float(spectrum[0]), 0.0),
        upper=min(float((diagonal + radius).max()), float(spectrum[-1])),
    )


def stable_rank(B: ArrayLike) -> float:
    """Return sr(B) = ||B||_F^2 / ||B||^2, between 1 and the rank (Section IV-D, line 1076).

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp import theory
    >>> round(theory.stable_rank(np.diag([2.0, 2.0, 1.0])), 6)
    2.25
    """
    B = check_array("B", B, ndim=2)
    if not B.any():
        raise ValueError("B is zero; expected a matrix with a nonzero entry")
    frobenius = np.linalg.norm(B)
    spectral = np.linalg.norm(B, 2)
    return float((frobenius / spectral) ** 2)


def sparse_minimiser(federation: Federation, sparsity: int) -> Array:
    """Return x*, the minimiser of f over all x with `sparsity` nonzeros (line 248).

    It is exact, for the squared loss and stored features, by enumeration of at most 200,000
    supports. If several are equally good, to rounding, it is the first in lexical order.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> clients = [np.eye(3)], [[1.0, -3.0, 2.0]]
    >>> fed = fgmp.Federation.from_arrays(*clients, loss="squared")
    >>> fgmp.theory.sparse_minimiser(fed, 2).round(6).tolist()
    [0.0, -3.0, 2.0]
    """
    _check_least_squares(federation)
    n = federation.n_features
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of features")
    supports = _all_supports(n, sparsity)
    (pooled,) = federation.pooled().clients
    # Once for all supports: ||A x - y||^2 is ||R x - Q'y||^2 plus a constant, with A = Q R.
    basis, triangle = np.linalg.qr(pooled.columns(np.arange(n)))
    right = basis.T @ pooled.targets
    rounding = 64 * float(np.finfo(right.dtype).eps * np.linalg.norm(right))

    x_star = np.zeros(n)
    smallest = np.inf
    for support in supports:
        columns = triangle[:, support]
        values = np.linalg.lstsq(columns, right, rcond=None)[0]
        residual = float(np.linalg.norm(columns @ values - right))
        if residual < smallest - rounding:
            x_star = np.zeros(n)
            x_star[support] = values
            smallest = residual
    return x_star


class Approximation(NamedTuple):
    """The atoms that approx_tau selects, and how good they are.

    Attributes
    ----------
    support : ndarray of int
        The atoms selected, Gamma, increasing.
    error, best_error : float
        ||P_Gamma w - w||_2, and the smallest ||w - v||_2 over all tau-sparse v, by enumeration of
        their supports.
    eta : float
        error / best_error, at least 1: the eta of the paper's approximate projection. It is 1 if
        the error is rounding.

    Examples
    --------
    >>> import fgmp
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0], [0.0, 1.0]])
    >>> found = fgmp.theory.approx_tau(dictionary, [3.0, 4.0], sparsity=1)
    >>> found.support.tolist(), round(found.error, 6), round(found.best_error, 6)
    ([1], 3.0, 3.0)
    """

    support: IndexArray
    error: float
    best_error: float
    eta: float


def approx_tau(dictionary: Atoms, signal: ArrayLike, sparsity: int) -> Approximation:
    """Return the approximate projection of a signal onto `sparsity` atoms, with the eta it reached.

    eta is the factor in ||P_Gamma w - w|| <= eta ||w - H_tau(w)|| (paper, Section II). Methods do
    not call this function; they select by their dictionary. In atoms that are not orthonormal there
    may be 5,000,000 supports.

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
        gamma = dictionary.select_atoms(w, sparsity)
        error = float(np.linalg.norm(np.delete(w, gamma)))
        return Approximation(gamma, error, error, eta=1.0)

    atoms = dictionary.atoms.astype(np.float64) / dictionary.norms
    gamma = dictionary.select_atoms(dictionary.atoms.T @ w, sparsity)
    error = _distance_to_span(w, atoms[:, gamma])
    best_error = error
    if not dictionary.is_orthonormal:
        _check_n_supports(n_atoms, sparsity, _MOST_PROJECTIONS)
        best = _best_projection(w, atoms, sparsity)
        best_error = min(error, _distance_to_span(w, atoms[:, best]))
    rounding = 16 * float(np.finfo(w.dtype).eps * np.sqrt(len(w)) * np.linalg.norm(w))
    eta = error / best_error if error > rounding else 1.0
    return Approximation(gamma, error, best_error, eta)


def _distance_to_span(w: Array, columns: Array) -> float:
    """Return ||w - P w|| for the projection P onto the span of some columns."""
    coefficients = np.linalg.lstsq(columns, w, rcond=None)[0]
    return float(np.linalg.norm(w - columns @ coefficients))


def _best_projection(w: Array, atoms: Array, sparsity: int) -> IndexArray:
    """Return the atoms, of norm one, whose span is nearest to w, by enumeration of all supports.

    The projection of w has the squared length c' G^-1 c, for the Gram matrix G of the atoms and
    their inner products c with w.
    """
    # Dependent atoms are no singular system.
    gram = atoms.T @ atoms + 1e-12 * np.eye(atoms.shape[1])
    cosines = atoms.T @ w
    largest_square = -np.inf
    best = np.empty(0, np.intp)
    all_supports = combinations(range(len(gram)), sparsity)
    while len(supports := _next_supports(all_supports, sparsity, _BATCH)):
        c = cosines[supports, None]
        grams = gram[supports[:, :, None], supports[:, None]]
        squares = (c * np.linalg.solve(grams, c)).sum(axis=(1, 2))
        if squares.max() > largest_square:
            largest_square = squares.max()
            best = supports[squares.argmax()]
    return best


def measure_constants(
    federation: Federation,
    x_star: ArrayLike,
    sparsity: int,
    *,
    batch_size: int | None = None,
    n_minibatches: int = 20,
) -> ClientConstants:
    """Return the constants of least-squares clients in the standard basis.

    They are exact at sparsity min(4 tau, n).

    Parameters
    ----------
    federation : Federation
        With the squared loss, averaged, or with the full batch. Sparse features are made dense, one
        client at a time.
    x_star : array_like, shape (n_features,)
        The solution x*, at which sigma_i^2 is measured (`minibatch_variance`), because no bound
        holds for all sparse x with the squared loss (ERRATA.md, entry 1).
    sparsity : int
        tau.
    batch_size : int or None
        b; None is the full batch, one minibatch.
    n_minibatches : int, default 20
        Minibatches over which the means of rho^+(i, j) and of L(i, j)^2 are taken. These are all
        minibatches of a client that has no more, otherwise random ones, which are always the same.

    Examples
    --------
    >>> import fgmp
    >>> fed = fgmp.make_sparse_regression(2, 30, n_features=6, sparsity=1, rng=0)
    >>> constants = fgmp.theory.measure_constants(fed, fed.truth, sparsity=1)
    >>> constants.lower.shape, bool((constants.lower < constants.upper).all())
    ((2,), True)
    >>> bool((constants.gradient < 1e-12).all())  # there is no noise
    True
    """
    _check_least_squares(federation)
    n = federation.n_features
    x_star = check_shape("x_star", x_star, (n,))
    sparsity = check_integer("sparsity", sparsity, at_most=n, why="the number of features")
    n_minibatches = check_integer("n_minibatches", n_minibatches)
    if batch_size is not None:
        smallest = int(federation.n_rows.min())
        why = "the rows of the smallest client"
        batch_size = check_integer("batch_size", batch_size, at_most=smallest, why=why)
        _check_mean_of_minibatches(federation, batch_size)

    generator = np.random.default_rng(0)
    columns = []
    for client in federation.clients:
        minibatches = _minibatches(client, batch_size, n_minibatches, generator)
        columns.append(_constants_of(client, x_star, sparsity, batch_size, minibatches))
    fields = zip(_OneClient._fields, map(np.array, zip(*columns, strict=True)), strict=True)
    return ClientConstants(**dict(fields), weights=np.array(federation.weights, np.float64))


class _OneClient(NamedTuple):
    """The constants of one client, as in `ClientConstants`."""

    lower: float
    upper: float
    upper_squared: float
    gradient: float
    whole_gradient: float
    variance: float


def _minibatches(
    client: Client, batch_size: int | None, n_minibatches: int, generator: np.random.Generator
) -> list[IndexArray | None]:
    """Return the rows of all minibatches of a client, or of `n_minibatches` random ones.

    None stands for all rows, as in `Client.minibatches`.
    """
    m = client.n_samples
    b = batch_size or m
    if b == m:
        return [None]
    if comb(m, b) <= n_minibatches:
        return [np.array(rows) for rows in combinations(range(m), b)]
    return list(client.minibatches(generator, b, n_minibatches))


def _constants_of(
    client: Client,
    x_star: Array,
    sparsity: int,
    batch_size: int | None,
    minibatches: list[IndexArray | None],
) -> _OneClient:
    """Return the constants of one client, with means over some minibatches."""
    A = _dense_features(client)
    m = client.n_samples
    n = client.n_features
    order = min(4 * sparsity, n)
    # Constants are those of means over rows; a sum over the rows is m times a mean.
    unit = client.loss.row_weight(m) * m

    constants = restricted_constants(A, order)
    parts = [A if rows is None else A[rows] for rows in minibatches]
    uppers = [
        constants.upper if part is A else restricted_constants(part, order).upper for part in parts
    ]
    mean_upper = np.mean(uppers)
    # Over all minibatches the mean is at least the constant of f_i (Jensen); a few might miss it.
    upper = max(float(mean_upper), constants.upper)
    smoothness = np.mean([_smoothness_squared(part, min(2 * sparsity, n)) for part in parts])
    squares = client.gradient(x_star) ** 2
    return _OneClient(
        lower=float(unit * constants.lower),
        upper=float(unit * upper),
        upper_squared=float(unit**2 * smoothness),
        gradient=float(squares[largest(squares, order)].sum()),
        whole_gradient=float(squares.sum()),
        variance=minibatch_variance(client, x_star, batch_size),
    )


def _smoothness_squared(rows: Array, sparsity: int) -> float:
    """Return L^2 with ||H v|| <= L ||v|| for all sparse v and the Hessian H (Assumption 2).

    It is the restricted upper constant of H'H, or nan if the supports are too many to enumerate.
    """
    n = rows.shape[1]
    if comb(n, sparsity) > MOST_SUPPORTS:
        return float("nan")
    hessian = rows.T @ rows / len(rows)
    return restricted_constants(hessian * sqrt(n), sparsity).upper


def minibatch_variance(client: Client, x: ArrayLike, batch_size: int | None) -> float:
    """Return E_j ||grad g_ij(x) - grad f_i(x)||^2, the variance of Assumption 4 (line 332).

    The mean is over all minibatches of `batch_size` rows without replacement, exactly. No minibatch
    is drawn: with d_k the gradient of row k, d their mean over the m rows, and w_b the weight of a
    row in a minibatch, it is

        (w_b b)^2 (1/b - 1/m) sum_k ||d_k - d||^2 / (m - 1) + (w_b b - w_m m)^2 ||d||^2.

    For a mean over the rows, w_b = 1/b, the second term is zero. For a sum, w_b = 1, it is the bias
    of g_ij, whose mean over j is b/m times f_i: such a loss does not satisfy the first half of
    Assumption 4.

    Parameters
    ----------
    client : Client
        With any loss and stored features. Sparse features are made dense for the computation.
    x : array_like
        Of the client's model shape.
    batch_size : int or None
        b; None is all rows, which gives zero.

    Examples
    --------
    >>> import fgmp
    >>> fed = fgmp.make_sparse_regression(1, 30, 6, sparsity=1, noise_variance=0.1, rng=0)
    >>> client, x = fed.clients[0], fed.truth
    >>> variances = [fgmp.theory.minibatch_variance(client, x, size) for size in (5, 10, None)]
    >>> variances[0] > variances[1] > variances[2], variances[2] < 1e-12
    (True, True)
    """
    check_kind("client", client, Client, "a Client, such as one of federation.clients")
    x = check_shape("x", x, client.model_shape)
    A = _dense_features(client)
    m = client.n_samples
    b = m
    if batch_size is not None:
        b = check_integer("batch_size", batch_size, at_most=m, why="the rows of the client")
    if b == m:
        return 0.0

    derivative = client.loss.derivative(client.predictions(x), client.targets).reshape(m, -1)
    d = A.T @ derivative / m
    # The gradient of row k is A_k times its derivative, for each output.
    spread = sum(
        np.sum((A * column[:, None] - d_output) ** 2)
        for column, d_output in zip(derivative.T, d.T, strict=True)
    )
    batch_unit = client.loss.row_weight(b) * b
    whole_unit = client.loss.row_weight(m) * m
    variance = batch_unit**2 * (1 / b - 1 / m) * spread / (m - 1)
    bias_squared = (batch_unit - whole_unit) ** 2 * np.sum(d**2)
    return float(variance + bias_squared)


def heterogeneity(federation: Federation, x_star: ArrayLike) -> float:
    """Return zeta* = (sum p_i ||grad f_i(x*)||^2)^(1/2) of Assumption 3 (line 313).

    It is zero if x* minimises the objective of every client.

    Examples
    --------
    >>> import fgmp
    >>> fed = fgmp.make_sparse_regression(3, 30, n_features=6, sparsity=1, rng=0)
    >>> fgmp.theory.heterogeneity(fed, fed.truth) < 1e-12  # there is no noise
    True
    >>> fgmp.theory.heterogeneity(fed, 0 * fed.truth) > 0.01
    True
    """
    check_federation("federation", federation)
    x_star = check_shape("x_star", x_star, federation.model_shape)
    norms = np.array([length_of(client.gradient(x_star)) for client in federation.clients])
    return length_of(np.sqrt(federation.weights) * norms)


class GaussianWidth(NamedTuple):
    """An estimate of a Gaussian width, and the standard error of the estimate.

    Examples
    --------
    >>> from fgmp import theory
    >>> estimate = theory.gaussian_width(100, sparsity=5)
    >>> estimate.standard_error < 0.01 * estimate.width
    True
    """

    width: float
    standard_error: float


def gaussian_width(n_features: int, sparsity: int) -> GaussianWidth:
    """Return the Gaussian width of T = {x : ||x||_0 <= tau, ||x||_2 <= 1}, from 2,000 draws.

    w(T) = E sup_{x in T} <g, x> = E (sum of the tau largest g_i^2)^(1/2), the width of Section IV-D
    (line 1064). The draws are always the same.

    Examples
    --------
    >>> from fgmp import theory
    >>> round(theory.gaussian_width(100, sparsity=100).width)  # nearly the root of 100
    10
    >>> theory.gaussian_width(100, sparsity=5).width < 10
    True
    """
    n_draws = 2000
    n_features = check_integer("n_features", n_features)
    sparsity = check_integer("sparsity", sparsity, at_most=n_features, why="the number of features")
    squares = np.random.default_rng(0).standard_normal((n_draws, n_features)) ** 2
    n_others = n_features - sparsity
    tau_largest = np.partition(squares, n_others, axis=1)[:, n_others:]
    suprema = np.sqrt(tau_largest.sum(1))
    return GaussianWidth(
        width=float(suprema.mean()),
        standard_error=float(suprema.std(ddof=1) / np.sqrt(n_draws)),
    )


def _check_least_squares(federation: Federation) -> None:
    """Raise a ValueError unless the loss is (z - y)^2 / 2, whose Hessian is A'A."""
    loss = check_federation("federation", federation).loss
    if not loss.is_quadratic:
        raise ValueError(f"federation has the loss {loss!r}; expected SquaredLoss")


def _check_mean_of_minibatches(federation: Federation, batch_size: int) -> None:
    """Raise a ValueError unless f_i is the mean of its minibatches (Assumption 4, line 327)."""
    loss = federation.loss
    unit = loss.row_weight(batch_size) * batch_size
    for m in federation.n_rows.tolist():
        if abs(loss.row_weight(m) * m - unit) > 1e-12 * unit:
            raise ValueError(
                f"federation has the loss {loss!r}, with which minibatches do not have the mean "
                "f_i; expected averaged=True or the full batch"
            )


class _Pencil(NamedTuple):
    """The Hessian in the coordinates of the atoms, and their Gram matrix, None for the identity."""

    hessian: Array
    gram: Array | None


def _checked_pencil(
    B: ArrayLike,
    sparsity: int,
    weights: ArrayLike | None = None,
    dictionary: Atoms | None = None,
) -> tuple[_Pencil, int]:
    """Return the pencil of B' diag(w) B / m and the sparsity, or raise a ValueError."""
    rows = check_array("B", B, ndim=2)
    if 0 in rows.shape:
        raise ValueError(f"B has shape {rows.shape}; expected at least one row and one column")
    expected = "a Dictionary, a StandardBasis or None"
    check_kind("dictionary", dictionary, (Atoms, type(None)), expected)
    gram = None
    if isinstance(dictionary, Dictionary):
        dictionary.n_atoms(rows.shape[1])  # raises if the atoms are of another dimension
        rows = rows @ dictionary.atoms
        gram = dictionary.gram
    m = len(rows)
    w = np.ones(m) if weights is None else check_shape("weights", weights, (m,))
    if w.min() < 0:
        raise ValueError(
            f"weights is {w.min():g} at least once; expected one of at least 0 for each row of B"
        )
    pencil = _Pencil(rows.T @ (rows * w[:, None]) / m, gram)
    n = len(pencil.hessian)
    return pencil, check_integer("sparsity", sparsity, at_most=n, why="the number of columns")


def _check_n_supports(n: int, sparsity: int, most: int) -> None:
    """Raise a ValueError if there are too many supports to enumerate."""
    n_supports = comb(n, sparsity)
    if n_supports > most:
        raise ValueError(
            f"sparsity is {sparsity}, which has about 10^{log10(n_supports):.1f} supports; "
            f"expected at most {most}"
        )


@lru_cache(maxsize=2)
def _all_supports(n: int, sparsity: int) -> IndexArray:
    """Return all supports of a size in lexical order; a ValueError if they are too many.

    Those of the last sizes are kept, as all clients have the same.
    """
    _check_n_supports(n, sparsity, MOST_SUPPORTS)
    supports = _next_supports(combinations(range(n), sparsity), sparsity)
    supports.flags.writeable = False
    return supports


def _next_supports(
    all_supports: Iterator[tuple[int, ...]], sparsity: int, count: int | None = None
) -> IndexArray:
    """Return the next supports of a size, as rows, or all that are left."""
    positions = chain.from_iterable(islice(all_supports, count))
    return np.fromiter(positions, np.intp).reshape(-1, sparsity)


def _extreme_eigenvalues(pencil: _Pencil, supports: IndexArray) -> Array:
    """Return the smallest and the largest eigenvalue on each support, shape (n_supports, 2)."""
    batches = (supports[begin : begin + _BATCH] for begin in range(0, len(supports), _BATCH))
    return np.concatenate([_spectra(pencil, batch)[:, [0, -1]] for batch in batches])


def _spectra(pencil: _Pencil, supports: IndexArray) -> Array:
    """Return the increasing eigenvalues on a batch of supports, both of shape (batch, tau)."""
    rows = supports[:, :, None]
    columns = supports[:, None]
    blocks = pencil.hessian[rows, columns]
    if pencil.gram is not None:
        inverse = np.linalg.inv(_cholesky_factors(pencil.gram[rows, columns]))
        blocks = inverse @ blocks @ np.swapaxes(inverse, 1, 2)
    return np.asarray(np.linalg.eigvalsh(blocks))


def _cholesky_factors(grams: Array) -> Array:
    """Return Cholesky factors of Gram matrices, or raise a ValueError if one is singular."""
    size = grams.shape[-1]
    try:
        factors = np.linalg.cholesky(grams)
    except np.linalg.LinAlgError:
        factors = np.zeros_like(grams)  # whose pivots are refused below
    pivots = np.diagonal(factors, axis1=1, axis2=2) ** 2
    rounding = 8 * size * np.finfo(grams.dtype).eps
    if (pivots.min(axis=1) <= rounding * pivots.max(axis=1)).any():
        raise ValueError(
            f"dictionary has {size} linearly dependent atoms; "
            f"expected a smaller sparsity than {size}"
        )
    return factors


def _raised_by_exchanges(pencil: _Pencil, support: IndexArray) -> float:
    """Return the largest eigenvalue on a support, raised by exchanges of one column.

    Exchanges go on as long as one raises the eigenvalue, if there are at most 20,000 to try.
    """
    n = len(pencil.hessian)
    size = len(support)
    best = float(_spectra(pencil, support[None])[0, -1])
    while 0 < size * (n - size) <= _BATCH:
        trials = _exchanges(support, n)
        values = _spectra(pencil, trials)[:, -1]
        if values.max() <= best + 1e-12 * abs(best):
            break
        best = float(values.max())
        support = trials[values.argmax()]
    return best


def _exchanges(support: IndexArray, n: int) -> IndexArray:
    """Return all supports in which one column is exchanged for one outside."""
    size = len(support)
    outside = np.setdiff1d(np.arange(n), support)
    trials = np.tile(support, (size * len(outside), 1))
    exchanged = np.repeat(np.arange(size), len(outside))
    trials[np.arange(len(trials)), exchanged] = np.tile(outside, size)
    return trials


def _largest_eigenvalue(matrix: Array) -> float:
    """Return the largest eigenvalue of a symmetric matrix, of a large one by Lanczos iterations."""
    if len(matrix) <= _FEW_COLUMNS or not matrix.any():  # which no iteration can start from
        return float(np.linalg.eigvalsh(matrix)[-1])
    start = np.random.default_rng(0).standard_normal(len(matrix))
    return float(eigsh(matrix, 1, which="LA", v0=start, return_eigenvectors=False)[0])


def _climbed_support(matrix: Array, sparsity: int, start: int) -> IndexArray:
    """Return the support of a truncated power iteration from one coordinate.

    It climbs towards the largest sparse eigenvalue, and stops when the support stays, or after 31
    steps, because it may go round in circles.
    """
    vector = matrix[start]
    support = np.empty(0, np.intp)
    for _ in range(31):
        renewed = largest(np.abs(vector), sparsity)
        if np.array_equal(renewed, support):
            break
        support = renewed
        values = vector[support]
        length = max(float(np.linalg.norm(values)), float(np.finfo(float).tiny))
        vector = matrix[:, support] @ (values / length)
    return support


def _dense_features(client: Client) -> Array:
    """Return the features of a client as a dense array; a ValueError if they are streamed."""
    if isinstance(client.features, LinearOperator):
        raise ValueError("client has streamed features; expected stored ones")
    return client.columns(np.arange(client.n_features))
