"""Learn a dictionary from signals: exact K-SVD, in coordinates of the span of the training frames.

Every atom that K-SVD can produce is a combination of training frames. With X = Q Y (thin QR of the frames, as
columns) all inner products and errors are those of the small matrix Y, so the algorithm runs on Y and the atoms are
lifted to Q D at the end: 80 frames of 240 x 320 pixels cost no more than 80 vectors of length 80.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._support.linear_algebra import solve_semidefinite
from ._support.validation import Seed, check_array, check_integer, check_seed
from .dictionaries import Dictionary
from .selection import matching_pursuit

Matrix = NDArray[np.float64]

# Two vectors count as the same up to a factor above this |cosine|; a Dictionary accepts a little more.
_PARALLEL = 1 - 1e-9

# An atom that adds less than this to a signal of norm 1 adds the rounding of the atoms before it.
_TOLERANCE = float(np.finfo(np.float64).eps) ** 0.5


@dataclass(frozen=True, eq=False, repr=False)
class KSVDFit:
    """What K-SVD learned.

    Attributes
    ----------
    dictionary : Dictionary
        Psi = D: atoms of norm 1, shape (n_features, n_atoms), in the span of the frames.
    codes : ndarray, shape (n_atoms, n_frames)
        C: at most `sparsity` entries of each column are not zero, and frame i is about D @ C[:, i].
    errors : ndarray, shape (iterations + 1,)
        The relative training error ||X - D C||_F / ||X||_F at the start and after each iteration. It never grows.
    """

    dictionary: Dictionary
    codes: Matrix
    errors: Matrix


def ksvd(
    frames: ArrayLike, n_atoms: int, sparsity: int, *, iterations: int = 30, rng: Seed = None
) -> Dictionary:
    """Learn a dictionary by K-SVD: the dictionary of `fit_ksvd`, which says more, with the same parameters.

    Examples
    --------
    >>> import fgmp
    >>> frames = [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 3.0, 3.0], [0.0, -1.0, -1.0]]
    >>> atoms = fgmp.ksvd(frames, n_atoms=2, sparsity=1, rng=0).atoms
    >>> sorted(abs(atoms.T).round(3).tolist())
    [[0.0, 0.707, 0.707], [1.0, 0.0, 0.0]]
    """
    return fit_ksvd(frames, n_atoms, sparsity, iterations=iterations, rng=rng).dictionary


def fit_ksvd(
    frames: ArrayLike, n_atoms: int, sparsity: int, *, iterations: int = 30, rng: Seed = None
) -> KSVDFit:
    """Learn a dictionary by K-SVD, with the codes of the frames and the error after each iteration.

    K-SVD looks for ``min ||X - D C||_F`` where the columns of X are the frames, the columns of D have norm 1, and
    each column of C has at most `sparsity` entries that are not zero. It starts from the mean frame and what frames
    drawn at random add to it (with one atom per frame, from the frames themselves). One iteration

    1. replaces each atom in turn, together with its coefficients, by the best rank-1 approximation of what the other
       atoms leave of the frames that use it (its first singular vectors: exact, not the power step of approximate
       K-SVD; Aharon, Elad and Bruckstein, IEEE Transactions on Signal Processing 54(11), 2006);
    2. codes the frames again by matching pursuit (Rubinstein, Zibulevsky and Elad, Technion, report CS-2008-08, 2008),
       and keeps the old code of a frame that the new one would not improve;
    3. replaces each atom that no frame uses by the frame with the largest error, which it then represents exactly.

    None of the three can raise the training error. An atom is not updated to a multiple of another one.

    Parameters
    ----------
    frames : array_like, shape (n_frames, n_features) or (n_frames, height, width)
        The training frames, in any unit: the atoms do not depend on it. Not modified.
    n_atoms : int
        Number of atoms. At least as many frames must be different (not zero, not multiples of one another).
    sparsity : int
        Atoms in the approximation of each frame, from 1 to n_atoms.
    iterations : int, default 30
        Sweeps over the atoms; 0 leaves the frames that were drawn.
    rng : int, Generator or None
        Which frames the first atoms are.
    """
    array = check_array("frames", frames)
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(
            f"frames has shape {array.shape}; expected (n_frames, n_features) or (n_frames, height, width), none 0"
        )
    n_frames, signals = len(array), array.reshape(len(array), -1).T.astype(np.float64)
    n_atoms = check_integer("n_atoms", n_atoms, at_most=n_frames, why="the number of frames")
    sparsity = check_integer("sparsity", sparsity, at_most=n_atoms, why="n_atoms")
    iterations = check_integer("iterations", iterations, at_least=0)
    order = np.random.default_rng(check_seed("rng", rng)).permutation(n_frames)

    # Products of very large or very small numbers would leave the range of floats.
    unit = np.abs(signals).max() or 1.0
    basis, coordinates = np.linalg.qr(signals / unit)
    atoms = _first_atoms(coordinates, order, n_atoms, sparsity)
    codes, size, rounding = (
        _code(coordinates, atoms, sparsity),
        np.linalg.norm(coordinates),
        _rounding(coordinates),
    )
    residuals = coordinates - atoms @ codes
    errors = [np.linalg.norm(residuals) / size]
    for _ in range(iterations):
        for j in np.flatnonzero(codes.any(axis=1)):
            _update_atom(residuals, atoms, codes, int(j), rounding)
        new = _code(coordinates, atoms, sparsity)
        left = coordinates - atoms @ new
        better = np.linalg.norm(left, axis=0) < np.linalg.norm(residuals, axis=0)
        codes[:, better], residuals[:, better] = new[:, better], left[:, better]
        _replace_unused(coordinates, atoms, codes, residuals)
        errors.append(np.linalg.norm(residuals) / size)
    return KSVDFit(Dictionary(basis @ atoms), codes * unit, np.array(errors))


def _first_atoms(signals: Matrix, order: NDArray[np.int64], n_atoms: int, sparsity: int) -> Matrix:
    """Different directions to start from: with one atom per signal the signals in this order, with norm 1.

    With more, the mean of the signals and what each adds to it come first: frames of a fixed camera are nearly
    multiples of one another, and atoms that start as frames stay so alike that few measurements cannot tell them apart.
    """
    signals = signals[:, order]
    frames = _different(_normalised(signals), n_atoms)
    if frames.shape[1] < n_atoms:
        raise ValueError(
            f"frames holds {frames.shape[1]} different frames of {len(order)}, without zeros and multiples of others; "
            f"expected at least n_atoms = {n_atoms}"
        )
    if sparsity == 1:
        return frames
    mean = _normalised(signals.mean(axis=1, keepdims=True))
    added = signals - mean @ (mean.T @ signals)
    added[:, np.linalg.norm(added, axis=0) <= _rounding(signals)] = 0
    return _different(np.hstack([mean, _normalised(added), frames]), n_atoms)


def _different(directions: Matrix, count: int) -> Matrix:
    """The first `count` directions that are not zero or multiples of one another."""
    chosen: list[Matrix] = []
    for direction in directions.T:
        if (
            len(chosen) < count
            and direction.any()
            and all(abs(direction @ other) <= _PARALLEL for other in chosen)
        ):
            chosen.append(direction)
    return np.array(chosen).reshape(-1, len(directions)).T


def _code(signals: Matrix, atoms: Matrix, sparsity: int) -> Matrix:
    """Codes of at most `sparsity` atoms by orthogonal matching pursuit, which notices when a signal needs fewer."""
    gram, products = atoms.T @ atoms, atoms.T @ _normalised(signals)
    codes = np.zeros_like(products)
    for code, product in zip(codes.T, products.T, strict=True):
        chosen = matching_pursuit(gram, product, sparsity, tolerance=_TOLERANCE)
        code[chosen] = solve_semidefinite(gram[np.ix_(chosen, chosen)], product[chosen])
    scaled: Matrix = codes * np.linalg.norm(signals, axis=0)
    return scaled


def _update_atom(residuals: Matrix, atoms: Matrix, codes: Matrix, j: int, rounding: float) -> None:
    """Step 1, in place: the best rank-1 approximation of what the other atoms leave of the users of atom j."""
    users = np.flatnonzero(codes[j])
    left = residuals[:, users] + np.outer(atoms[:, j], codes[j, users])
    directions, sizes, _ = np.linalg.svd(left, full_matrices=False)
    if sizes[0] <= rounding:
        codes[j], residuals[:, users] = 0, left
        return
    atom = directions[:, 0] if directions[:, 0] @ atoms[:, j] >= 0 else -directions[:, 0]
    if np.delete(np.abs(atom @ atoms), j).max(initial=0.0) <= _PARALLEL:
        atoms[:, j] = atom
    codes[j, users] = atoms[:, j] @ left
    residuals[:, users] = left - np.outer(atoms[:, j], codes[j, users])


def _replace_unused(signals: Matrix, atoms: Matrix, codes: Matrix, residuals: Matrix) -> None:
    """Step 3, in place: atoms that no signal uses become the worst represented signals that are like no atom."""
    directions = _normalised(signals)
    while not (used := codes.any(axis=1)).all():
        errors = np.linalg.norm(residuals, axis=0)
        errors[np.abs(atoms.T @ directions).max(axis=0) > _PARALLEL] = 0
        j, worst = int(used.argmin()), int(errors.argmax())
        if errors[worst] <= _rounding(signals):
            return
        atoms[:, j] = directions[:, worst]
        codes[:, worst], residuals[:, worst] = 0, 0
        codes[j, worst] = np.linalg.norm(signals[:, worst])


def _normalised(signals: Matrix) -> Matrix:
    norms = np.linalg.norm(signals, axis=0)
    return signals / np.where(norms > 0, norms, 1.0)


def _rounding(signals: Matrix) -> float:
    return float(np.finfo(np.float64).eps * np.linalg.norm(signals))
