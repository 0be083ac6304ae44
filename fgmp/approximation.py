"""approx_tau of a signal, with the eta that it reached: only for looking, methods select by their dictionary."""

from __future__ import annotations

import math
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from .checks import check_array, check_integer
from .dictionaries import Dictionary, StandardBasis, check_dictionary
from .models import Array, Support
from .pursuit import matching_pursuit
from .selection import largest

_EXHAUSTIVE = 20_000
# An atom of which others leave less, as a share of its squared norm, depends on them.
_DEPENDENT = 1e-10


class Approximation(NamedTuple):
    """What approx_tau found, and how good it is.

    Attributes
    ----------
    support : ndarray of int
        The atoms selected, increasing.
    error : float
        ||P_Gamma w - w||_2.
    best_error : float
        The smallest ||w - v||_2 over tau-sparse v that is known: over all supports where `exact`, otherwise over
        this support, matching pursuit, thresholding and what exchanging single atoms makes of them.
    eta : float
        error / best_error, at least 1: the eta of the paper's approximate projection (a lower bound of it unless
        `exact`); 1 where the error is rounding.
    exact : bool
        Whether `best_error` is certainly the smallest.
    """

    support: Support
    error: float
    best_error: float
    eta: float
    exact: bool


def approx_tau(dictionary: StandardBasis, signal: ArrayLike, sparsity: int) -> Approximation:
    """Approximate projection of a signal onto at most `sparsity` atoms (paper, Section II), with the eta it reached.

    Parameters
    ----------
    dictionary : Dictionary or StandardBasis
    signal : array_like, shape (n_features,)
    sparsity : int
        tau, from 1 to the number of atoms.

    Returns
    -------
    Approximation

    Examples
    --------
    >>> import fgmp
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    >>> found = fgmp.approximation.approx_tau(dictionary, [5.0, 1.0, 0.0], sparsity=1)
    >>> found.support.tolist(), round(found.error, 6), round(found.eta, 6), found.exact
    ([0], 1.0, 1.0, True)
    """
    dictionary = check_dictionary(dictionary)
    given = check_array("signal", signal, ndim=1)
    if isinstance(dictionary, Dictionary) and len(dictionary.atoms) != len(given):
        raise ValueError(
            f"signal has {len(given)} entries; expected {len(dictionary.atoms)}, as dictionary has features"
        )
    n_atoms = dictionary.n_atoms(len(given))
    sparsity = check_integer("sparsity", sparsity, at_most=n_atoms, why="the number of atoms")
    unit = float(np.abs(given).max(initial=0)) or 1.0
    unit = 2.0 ** min(max(math.frexp(unit)[1], -1021), 1023)  # an exact scale, at which no square leaves the range
    found = _in_units(dictionary, given / given.dtype.type(unit), sparsity)
    return found._replace(error=unit * found.error, best_error=unit * found.best_error)


def _in_units(dictionary: StandardBasis, w: Array, sparsity: int) -> Approximation:
    """`approx_tau` of a signal whose largest entry is about 1."""
    n_atoms = dictionary.n_atoms(len(w))
    if not isinstance(dictionary, Dictionary):
        support = dictionary.approximate(w, sparsity)
        error = float(np.linalg.norm(np.delete(w, support)))
        return Approximation(support, error, error, 1.0, True)
    correlations = dictionary.atoms.T @ w
    support = dictionary.approximate(correlations, sparsity)
    error = _distance(dictionary, w, support)
    exact = dictionary.orthonormal or comb(n_atoms, sparsity) <= _EXHAUSTIVE
    if dictionary.orthonormal or sparsity == 1:  # the largest inner product with an atom of norm one
        best = error
    elif exact:
        best = min(_distance(dictionary, w, np.array(s)) for s in combinations(range(n_atoms), sparsity))
    else:
        cosines = dictionary.normalised(correlations)
        pursued = matching_pursuit(dictionary.gram, correlations, sparsity)
        starts = (support, pursued, largest(np.abs(cosines), sparsity))
        ends = {tuple(_exchange_atoms(dictionary, cosines, start)) for start in starts}
        best = min(_distance(dictionary, w, np.array(end, np.intp)) for end in ends)
    best = min(best, error)
    rounding = 16 * float(np.finfo(w.dtype).eps * np.sqrt(len(w)) * np.linalg.norm(w))
    return Approximation(support, error, best, error / best if error > rounding else 1.0, exact)


def _distance(dictionary: Dictionary, w: Array, support: Support) -> float:
    atoms = dictionary.atoms[:, support] / dictionary.norms[support]
    solution = np.linalg.lstsq(atoms, w, rcond=None)[0]
    return float(np.linalg.norm(w - atoms @ solution))


def _exchange_atoms(dictionary: Dictionary, cosines: Array, support: Support) -> list[int]:
    """The atoms after exchanging single ones for as long as that explains more of the signal.

    All exchanges are tried at once. With g the coefficients of the atoms taken and H the inverse of their Gram matrix:
    without atom i they explain g_i^2 / H_ii less, <a_j, residual> grows by g_i b_ij / H_ii, and the squared norm that
    they leave of an atom a_j by b_ij^2 / H_ii, where b_ij is the coefficient of atom i in the projection of a_j.
    """
    current, best, explained = np.sort(support), list(np.sort(support)), -1.0
    while len(current):
        rows = dictionary.gram[current] / np.outer(dictionary.norms[current], dictionary.norms)
        try:
            factor = cho_factor(rows[:, current])
        except LinAlgError:
            break
        shares = 1 / cho_solve(factor, np.eye(len(current))).diagonal()  # of each atom, what the others leave
        weights = cho_solve(factor, cosines[current])
        energy = float(weights @ cosines[current])
        if shares.min() < _DEPENDENT or energy <= explained * (1 + 1e-12):
            break
        best, explained = list(current), energy
        projections = cho_solve(factor, rows)
        left = 1 - np.einsum("ij,ij->j", rows, projections) + projections**2 * shares[:, None]
        heights = cosines - weights @ rows + (weights * shares)[:, None] * projections
        possible = left > _DEPENDENT
        possible[:, current] = False
        gains = np.divide(heights**2, left, out=np.zeros_like(left), where=possible) - (weights**2 * shares)[:, None]
        old, new = np.unravel_index(gains.argmax(), gains.shape)
        current = np.sort(np.append(np.delete(current, old), new))
    return best
