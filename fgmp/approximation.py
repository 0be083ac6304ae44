"""approx_tau of a signal, with the eta that it reached: only for looking, methods select by their dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb, hypot
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_array, check_integer
from .dictionaries import Dictionary, StandardBasis, check_dictionary
from .models import Array, Support

_MOST, _AT_ONCE, _FIRST = 5_000_000, 100_000, 8
_FAINT = 1e-12  # added to squared norms of 1, so that dependent atoms are no singular system


class Approximation(NamedTuple):
    """What approx_tau found, and how good it is.

    Attributes
    ----------
    support : ndarray of int
        The atoms selected, increasing.
    error : float
        ||P_Gamma w - w||_2.
    best_error : float
        The smallest ||w - v||_2 over all tau-sparse v, by enumeration of their supports.
    eta : float
        error / best_error, at least 1: the eta of the paper's approximate projection; 1 where the error is rounding.
    """

    support: Support
    error: float
    best_error: float
    eta: float


def approx_tau(dictionary: StandardBasis, signal: ArrayLike, sparsity: int) -> Approximation:
    """Approximate projection of a signal onto at most `sparsity` atoms (paper, Section II), with the eta it reached.

    Parameters
    ----------
    dictionary : Dictionary or StandardBasis
    signal : array_like, shape (n_features,)
    sparsity : int
        tau, from 1 to the number of atoms; in atoms that are not orthonormal with at most 5,000,000 supports, of which
        a million takes a second.

    Returns
    -------
    Approximation

    Examples
    --------
    >>> import fgmp
    >>> from fgmp.approximation import approx_tau
    >>> dictionary = fgmp.Dictionary([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    >>> found = approx_tau(dictionary, [5.0, 1.0, 0.0], sparsity=1)
    >>> found.support.tolist(), round(found.error, 6), round(found.eta, 6)
    ([0], 1.0, 1.0)
    """
    dictionary = check_dictionary(dictionary)
    w = check_array("signal", signal, ndim=1)
    n_atoms = dictionary.n_atoms(len(w))
    sparsity = check_integer("sparsity", sparsity, at_most=n_atoms, why="the number of atoms")
    if not dictionary.orthonormal and comb(n_atoms, sparsity) > _MOST:
        raise ValueError(
            f"sparsity is {sparsity}, which has {comb(n_atoms, sparsity)} supports; expected at most {_MOST}"
        )
    if not isinstance(dictionary, Dictionary):
        support = dictionary.approximate(w, sparsity)
        error = float(np.linalg.norm(np.delete(w, support)))
        return Approximation(support, error, error, 1.0)
    support = dictionary.approximate(dictionary.atoms.T @ w, sparsity)
    basis, atoms = np.linalg.qr(dictionary.atoms.astype(np.float64) / dictionary.norms)
    inside = basis.T @ w
    beyond = float(np.linalg.norm(w - basis @ inside))

    def distance(places: Support) -> float:
        columns = atoms[:, places]
        return hypot(np.linalg.norm(inside - columns @ np.linalg.lstsq(columns, inside, rcond=None)[0]), beyond)

    error = distance(support)
    greedy = dictionary.orthonormal or sparsity == 1  # the largest inner products are the best
    best = error if greedy else min(error, *map(distance, _promising(atoms, inside, sparsity)))
    rounding = 16 * float(np.finfo(w.dtype).eps * np.sqrt(len(w)) * np.linalg.norm(w))
    return Approximation(support, error, best, error / best if error > rounding else 1.0)


def _promising(atoms: Array, w: Array, sparsity: int) -> Iterator[Support]:
    """Of every hundred thousand supports those that explain most of a signal, c'G^-1 c, in atoms of norm one."""
    gram, cosines = atoms.T @ atoms + _FAINT * np.eye(atoms.shape[1]), atoms.T @ w
    left = combinations(range(atoms.shape[1]), sparsity)
    while some := list(islice(left, _AT_ONCE)):
        supports = np.array(some)
        c = cosines[supports]
        explained = np.sum(c * np.linalg.solve(gram[supports[:, :, None], supports[:, None]], c[..., None])[..., 0], 1)
        yield from supports[np.argsort(-explained)[:_FIRST]]
