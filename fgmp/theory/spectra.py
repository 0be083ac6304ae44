"""Restricted constants of a matrix: extreme eigenvalues over all small sets of columns, or bounds of them.

For the squared loss f(x) = ||B x - y||^2 / (2m) the constants of A-RSC and A-RSS (paper, Assumptions 1 and 2) are the
extreme eigenvalues of B_S'B_S / m over the supports S of size tau; in a dictionary, those of the pencil
(Psi_S' B'B Psi_S / m, Psi_S'Psi_S). Row weights make B' diag(w) B / m, the Hessian of a logistic loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb, log10
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Seed, check_array, check_integer, check_kind, check_seed, check_shape
from ..dictionaries import Dictionary, StandardBasis
from ..models import Array
from ..selection import largest

MOST_SUPPORTS = 200_000
_AT_ONCE = 20_000


@dataclass(frozen=True)
class RestrictedConstants:
    """The two constants of restricted convexity at one sparsity.

    Attributes
    ----------
    lower, upper : float
        rho^- and rho^+ (or bounds of them: the function that made them says which).
    sparsity : int
    """

    lower: float
    upper: float
    sparsity: int

    @property
    def condition(self) -> float:
        """Upper / lower, the restricted condition number; infinite where `lower` is not positive."""
        return self.upper / self.lower if self.lower > 0 else float("inf")


def restricted_constants(
    B: ArrayLike,
    sparsity: int,
    *,
    weights: ArrayLike | None = None,
    dictionary: StandardBasis | None = None,
) -> RestrictedConstants:
    """Exact restricted constants, by enumeration of all supports, of which there may be 200,000.

    Where there are more, `inner_restricted_constants` and `outer_restricted_constants` bound them from the two sides.

    Parameters
    ----------
    B : array_like, shape (m, n)
        Data rows; the Hessian is B'B / m.
    sparsity : int
        tau, from 1 to the number of columns (of atoms, in a dictionary).
    weights : array_like, shape (m,), optional
        Row weights w >= 0 of B' diag(w) B / m: the curvatures of a loss.
    dictionary : Dictionary, optional
        Directions that are sparse in these atoms, measured in the norm of the signals.

    Returns
    -------
    RestrictedConstants
        ``lower`` = min over S of lambda_min(B_S'B_S / m), ``upper`` = max over S of lambda_max.

    Examples
    --------
    >>> from fgmp import theory
    >>> constants = theory.restricted_constants([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 1)
    >>> constants.lower, constants.upper
    (0.5, 0.5)
    >>> constants = theory.restricted_constants([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 2)
    >>> round(constants.lower, 6) + 0.0, round(constants.upper, 6)
    (0.0, 1.0)
    """
    hessian, gram, sparsity = _problem(B, sparsity, weights, dictionary)
    count = comb(len(hessian), sparsity)
    if count > MOST_SUPPORTS:
        raise ValueError(
            f"sparsity {sparsity} of {len(hessian)} columns has about 10^{log10(count):.1f} supports; expected at most "
            f"{MOST_SUPPORTS}. inner_restricted_constants and outer_restricted_constants give bounds"
        )
    ends = _ends(hessian, gram, combinations(range(len(hessian)), sparsity))
    return RestrictedConstants(float(ends[:, 0].min()), float(ends[:, 1].max()), sparsity)


def inner_restricted_constants(
    B: ArrayLike,
    sparsity: int,
    *,
    weights: ArrayLike | None = None,
    dictionary: StandardBasis | None = None,
    n_supports: int = 1000,
    rng: Seed = 0,
) -> RestrictedConstants:
    """An inner bound: `lower` is at least and `upper` at most the true constant.

    Looks at some supports only: random ones, those that truncated power iterations find from 20 starts, and from the
    best of both the supports that single exchanges improve (where a round of exchanges is at most 20,000 supports).

    Parameters
    ----------
    B, sparsity, weights, dictionary
        As in `restricted_constants`.
    n_supports, rng
        How many random supports, and the seed.
    """
    hessian, gram, sparsity = _problem(B, sparsity, weights, dictionary)
    n_supports = check_integer("n_supports", n_supports)
    generator = np.random.default_rng(check_seed("rng", rng))
    drawn = [np.sort(generator.permutation(len(hessian))[:sparsity]) for _ in range(n_supports)]
    scaled = hessian / np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
    mirrored = np.linalg.eigvalsh(scaled)[-1] * np.eye(len(scaled)) - scaled
    starts = generator.permutation(len(hessian))[:20]
    drawn += [_greedy_support(matrix, sparsity, int(start)) for matrix in (scaled, mirrored) for start in starts]
    ends = _ends(hessian, gram, iter(drawn))
    low = _exchange(hessian, gram, drawn[int(ends[:, 0].argmin())], largest_wanted=False)
    high = _exchange(hessian, gram, drawn[int(ends[:, 1].argmax())], largest_wanted=True)
    return RestrictedConstants(low, high, sparsity)


def outer_restricted_constants(B: ArrayLike, sparsity: int, *, weights: ArrayLike | None = None) -> RestrictedConstants:
    """An outer bound: `lower` is at most and `upper` at least the true constant.

    The better of Gershgorin's discs, with the tau - 1 largest entries off the diagonal in each row, and the spectrum
    of the whole matrix. Parameters as `restricted_constants`.
    """
    hessian, _, sparsity = _problem(B, sparsity, weights, None)
    diagonal, off = hessian.diagonal(), np.sort(np.abs(hessian - np.diag(hessian.diagonal())), axis=1)[:, ::-1]
    radius = off[:, : sparsity - 1].sum(axis=1)
    spectrum = np.linalg.eigvalsh(hessian)
    low = max(float((diagonal - radius).min()), float(spectrum[0]), 0.0)
    return RestrictedConstants(low, min(float((diagonal + radius).max()), float(spectrum[-1])), sparsity)


def rip_constant(B: ArrayLike, sparsity: int) -> float:
    """The restricted isometry constant delta_tau of B: the smallest with | ||Bz||^2 - ||z||^2 | <= delta ||z||^2.

    Exact, over all tau-sparse z, by enumeration as in `restricted_constants` (without the factor 1/m).
    """
    B = _check_matrix(B)
    found = restricted_constants(B * np.sqrt(len(B)), sparsity)
    return max(found.upper - 1, 1 - found.lower)


def stable_rank(B: ArrayLike) -> float:
    """sr(B) = ||B||_F^2 / ||B||^2, between 1 and the rank (paper, Section IV-D)."""
    B = _check_matrix(B)
    norm = np.linalg.norm(B, 2)
    if norm == 0:
        raise ValueError("B is zero; expected a matrix with a nonzero entry")
    return float((np.linalg.norm(B) / norm) ** 2)


def _problem(
    B: ArrayLike, sparsity: int, weights: ArrayLike | None, dictionary: StandardBasis | None
) -> tuple[Array, Array, int]:
    """The Hessian and the Gram matrix in the coordinates of the atoms."""
    B = _check_matrix(B)
    check_kind("dictionary", dictionary, (StandardBasis, type(None)), "a Dictionary, a StandardBasis or None")
    inside, gram = B, np.eye(B.shape[1])
    if isinstance(dictionary, Dictionary):
        if len(dictionary.atoms) != B.shape[1]:
            raise ValueError(
                f"B has {B.shape[1]} columns; expected {len(dictionary.atoms)}, as dictionary has features"
            )
        inside, gram = B @ dictionary.atoms, dictionary.gram
    w = np.ones(len(B)) if weights is None else check_shape("weights", weights, (len(B),))
    if w.min() < 0:
        raise ValueError(f"weights is {w.min():g} at least once; expected one of at least 0 for each row of B")
    sparsity = check_integer("sparsity", sparsity, at_most=inside.shape[1], why="the number of columns")
    return inside.T @ (inside * w[:, None]) / len(B), gram, sparsity


def _check_matrix(B: ArrayLike) -> Array:
    B = check_array("B", B, ndim=2)
    if 0 in B.shape:
        raise ValueError(f"B has shape {B.shape}; expected at least one row and one column")
    return B


def _ends(hessian: Array, gram: Array, supports: Iterator[Any]) -> Array:
    """The smallest and the largest eigenvalue over each support, shape (n_supports, 2)."""
    chunks = iter(lambda: list(islice(supports, _AT_ONCE)), [])
    return np.concatenate([_spectra(hessian, gram, np.array(chunk))[:, [0, -1]] for chunk in chunks])


def _spectra(hessian: Array, gram: Array, supports: Array) -> Array:
    """Eigenvalues of the pencils over a batch of supports, both of shape (batch, tau), increasing."""
    rows, columns = supports[:, :, None], supports[:, None, :]
    blocks = hessian[rows, columns]
    if not np.array_equal(gram, np.eye(len(gram))):
        factors = _factors(gram[rows, columns])
        half = np.linalg.solve(factors, blocks)
        blocks = np.linalg.solve(factors, np.swapaxes(half, 1, 2))
        blocks = (blocks + np.swapaxes(blocks, 1, 2)) / 2
    eigenvalues: Array = np.linalg.eigvalsh(blocks)
    return eigenvalues


def _factors(grams: Array) -> Array:
    """Cholesky factors of the Gram matrices of the atoms of each support, or a ValueError where they are dependent."""
    try:
        factors: Array = np.linalg.cholesky(grams)
    except np.linalg.LinAlgError:
        factors = np.zeros_like(grams)
    pivots = np.diagonal(factors, axis1=1, axis2=2) ** 2
    size = grams.shape[1]
    if (pivots.min(axis=1) <= 8 * size * np.finfo(grams.dtype).eps * pivots.max(axis=1)).any():
        raise ValueError(f"dictionary has {size} linearly dependent atoms; expected a smaller sparsity than {size}")
    return factors


def _exchange(hessian: Array, gram: Array, support: Array, *, largest_wanted: bool) -> float:
    """The extreme eigenvalue after exchanging single columns for as long as that helps."""
    column, sign = (-1, 1.0) if largest_wanted else (0, -1.0)
    best = float(_spectra(hessian, gram, support[None])[0, column])
    outside = np.setdiff1d(np.arange(len(hessian)), support)
    while 0 < outside.size * support.size <= _AT_ONCE:
        places, columns = (part.ravel() for part in np.meshgrid(np.arange(support.size), outside, indexing="ij"))
        trials = np.repeat(support[None], len(places), axis=0)
        trials[np.arange(len(trials)), places] = columns
        values = _spectra(hessian, gram, trials)[:, column]
        winner = int((sign * values).argmax())
        if sign * values[winner] <= sign * best + 1e-12 * abs(best):
            break
        best, support = float(values[winner]), trials[winner]
        outside = np.setdiff1d(np.arange(len(hessian)), support)
    return best


def _greedy_support(matrix: Array, sparsity: int, start: int) -> Array:
    """Support of a truncated power iteration from one coordinate: it climbs towards the largest sparse eigenvalue."""
    # A power of two, so that nothing else changes: squares of what is far from 1 leave the range of floats.
    matrix = matrix * 2.0 ** -int(np.frexp(np.abs(matrix).max())[1])
    vector = matrix[start].copy()
    support = largest(np.abs(vector), sparsity)
    for _ in range(30):
        truncated = np.zeros_like(vector)
        truncated[support] = vector[support]
        vector = matrix @ (truncated / max(float(np.linalg.norm(truncated)), float(np.finfo(float).tiny)))
        renewed = largest(np.abs(vector), sparsity)
        if np.array_equal(renewed, support):
            break
        support = renewed
    return support
