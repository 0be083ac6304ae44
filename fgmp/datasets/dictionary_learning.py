"""Learn a dictionary from signals by exact K-SVD, in coordinates of the frames' span.

Every atom that K-SVD can produce is a combination of training frames. With X = Q Y (thin QR of the
frames, as columns) all inner products and errors are those of the small matrix Y, so the algorithm
runs on Y and the atoms are lifted to Q D at the end: 80 frames of 240 x 320 pixels cost no more
than 80 vectors of length 80.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._support.linear_algebra import matching_pursuit, solve_semidefinite
from .._support.validation import Seed, check_array, check_integer, check_seed
from ..dictionaries import Dictionary

Matrix = NDArray[np.float64]

# Two vectors count as the same up to a factor above this |cosine|; a Dictionary accepts a little
# more.
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
        The relative training error ||X - D C||_F / ||X||_F at the start and after each iteration.
        It never grows.
    """

    dictionary: Dictionary
    codes: Matrix
    errors: Matrix


def ksvd(
    frames: ArrayLike, n_atoms: int, sparsity: int, *, iterations: int = 30, rng: Seed = None
) -> Dictionary:
    """Learn a dictionary by K-SVD.

    The parameters are those of `fit_ksvd`, which also returns the codes and the errors.

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
    """Learn a dictionary by K-SVD, with the codes of the frames and the error of each iteration.

    K-SVD minimises ``||X - D C||_F``. The columns of X are the frames, the columns of D have norm
    1, and each column of C has at most `sparsity` entries that are not zero. The algorithm starts
    from the mean frame and from what frames drawn at random add to it (with one atom per frame,
    from the frames themselves). One iteration

    1. replaces each atom in turn, together with its coefficients, by the best rank-1 approximation
       of what the other atoms leave of the frames that use it (its first singular vectors: exact,
       not the power step of approximate K-SVD; Aharon, Elad and Bruckstein, IEEE Transactions on
       Signal Processing 54(11), 2006),
    2. codes the frames again by matching pursuit (Rubinstein, Zibulevsky and Elad, Technion, report
       CS-2008-08, 2008), and keeps the old code of a frame that the new one would not improve,
    3. replaces each atom that no frame uses by the frame with the largest error, which it then
       represents exactly.

    None of the three can raise the training error. An atom is not updated to a multiple of another
    one.

    Parameters
    ----------
    frames : array_like, shape (n_frames, n_features) or (n_frames, height, width)
        The training frames, in any unit: the atoms do not depend on it. Not modified.
    n_atoms : int
        Number of atoms. At least as many frames must be different (not zero, not multiples of one
        another).
    sparsity : int
        Atoms in the approximation of each frame, from 1 to n_atoms.
    iterations : int, default 30
        Sweeps over the atoms; 0 leaves the first atoms.
    rng : int, Generator or None
        The seed of the draw of frames for the first atoms.

    Raises
    ------
    ValueError
        If an argument is out of range, or if there are fewer different frames than atoms.
    """
    array = check_array("frames", frames)
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(
            f"frames has shape {array.shape}; expected (n_frames, n_features) or (n_frames, "
            "height, width), none 0"
        )
    n_frames = len(array)
    n_atoms = check_integer("n_atoms", n_atoms, at_most=n_frames, why="the number of frames")
    sparsity = check_integer("sparsity", sparsity, at_most=n_atoms, why="n_atoms")
    iterations = check_integer("iterations", iterations, at_least=0)
    order = np.random.default_rng(check_seed("rng", rng)).permutation(n_frames)

    # Products of very large or very small numbers would leave the range of floats.
    signals = array.reshape(n_frames, -1).T.astype(np.float64)
    unit = np.abs(signals).max() or 1.0
    basis, coordinates = np.linalg.qr(signals / unit)
    training = _Training(
        signals=coordinates,
        atoms=_first_atoms(coordinates, order, n_atoms, sparsity),
        sparsity=sparsity,
    )
    errors = [training.relative_error()]
    for _ in range(iterations):
        training.update_atoms()
        training.update_codes()
        training.replace_unused_atoms()
        errors.append(training.relative_error())
    return KSVDFit(Dictionary(basis @ training.atoms), training.codes * unit, np.array(errors))


class _Training:
    """A dictionary under training: its methods are the three steps of K-SVD, in place.

    Attributes
    ----------
    signals : ndarray, shape (n, n_signals)
        X, in coordinates.
    atoms : ndarray, shape (n, n_atoms)
        D.
    codes : ndarray, shape (n_atoms, n_signals)
        C.
    residuals : ndarray, shape (n, n_signals)
        X - D C, up to date after each step.
    """

    def __init__(self, signals: Matrix, atoms: Matrix, sparsity: int) -> None:
        self.signals = signals
        self.atoms = atoms
        self.sparsity = sparsity
        self.codes = _code(signals, atoms, sparsity)
        self.residuals = signals - atoms @ self.codes
        self._size = np.linalg.norm(signals)
        self._rounding = _rounding_of(signals)

    def relative_error(self) -> float:
        """Return ||X - D C||_F / ||X||_F."""
        return float(np.linalg.norm(self.residuals) / self._size)

    def update_atoms(self) -> None:
        """Step 1: update each atom that is used, with its coefficients."""
        for j in np.flatnonzero(self.codes.any(axis=1)):
            self._update_atom(int(j))

    def _update_atom(self, j: int) -> None:
        """Make atom j the best rank-1 approximation of what the others leave of its users."""
        users = np.flatnonzero(self.codes[j])
        unexplained = self.residuals[:, users] + np.outer(self.atoms[:, j], self.codes[j, users])
        directions, singular_values, _ = np.linalg.svd(unexplained, full_matrices=False)
        if singular_values[0] <= self._rounding:
            self.codes[j] = 0
            self.residuals[:, users] = unexplained
            return
        direction = directions[:, 0]
        atom = direction if direction @ self.atoms[:, j] >= 0 else -direction
        cosines = np.delete(np.abs(atom @ self.atoms), j)
        if cosines.max(initial=0.0) <= _PARALLEL:
            self.atoms[:, j] = atom
        self.codes[j, users] = self.atoms[:, j] @ unexplained
        self.residuals[:, users] = unexplained - np.outer(self.atoms[:, j], self.codes[j, users])

    def update_codes(self) -> None:
        """Step 2: code the signals again, and keep each old code that is not worse."""
        codes = _code(self.signals, self.atoms, self.sparsity)
        residuals = self.signals - self.atoms @ codes
        old_errors = np.linalg.norm(self.residuals, axis=0)
        is_better = np.linalg.norm(residuals, axis=0) < old_errors
        self.codes[:, is_better] = codes[:, is_better]
        self.residuals[:, is_better] = residuals[:, is_better]

    def replace_unused_atoms(self) -> None:
        """Step 3: make each unused atom the worst represented signal that is like no atom."""
        directions = _normalized(self.signals)
        is_used = self.codes.any(axis=1)
        while not is_used.all():
            errors = np.linalg.norm(self.residuals, axis=0)
            errors[np.abs(self.atoms.T @ directions).max(axis=0) > _PARALLEL] = 0
            worst = int(errors.argmax())
            if errors[worst] <= self._rounding:
                return
            j = int(is_used.argmin())
            self.atoms[:, j] = directions[:, worst]
            self.codes[:, worst] = 0
            self.residuals[:, worst] = 0
            self.codes[j, worst] = np.linalg.norm(self.signals[:, worst])
            # The signal no longer uses other atoms, which may now be unused.
            is_used = self.codes.any(axis=1)


def _first_atoms(signals: Matrix, order: NDArray[np.int64], n_atoms: int, sparsity: int) -> Matrix:
    """Return different directions of norm 1 to start from.

    With one atom per signal, these are the signals in the given order. With more, the mean of the
    signals and what each adds to it come first: frames of a fixed camera are nearly multiples of
    one another, and atoms that start as frames stay so alike that few measurements cannot tell them
    apart.
    """
    signals = signals[:, order]
    frames = _different(_normalized(signals), n_atoms)
    n_different = frames.shape[1]
    if n_different < n_atoms:
        raise ValueError(
            f"frames holds {n_different} different frames of {len(order)}, without zeros and "
            f"multiples of others; expected at least n_atoms = {n_atoms}"
        )
    if sparsity == 1:
        return frames
    mean = _normalized(signals.mean(axis=1, keepdims=True))
    additions = signals - mean @ (mean.T @ signals)
    additions[:, np.linalg.norm(additions, axis=0) <= _rounding_of(signals)] = 0
    return _different(np.hstack([mean, _normalized(additions), frames]), n_atoms)


def _different(directions: Matrix, count: int) -> Matrix:
    """Return the first `count` directions that are not zero or multiples of one another."""
    chosen: list[Matrix] = []
    for direction in directions.T:
        if len(chosen) == count:
            break
        is_new = all(abs(direction @ other) <= _PARALLEL for other in chosen)
        if is_new and direction.any():
            chosen.append(direction)
    return np.array(chosen).reshape(-1, len(directions)).T


def _code(signals: Matrix, atoms: Matrix, sparsity: int) -> Matrix:
    """Return codes of at most `sparsity` atoms, by orthogonal matching pursuit."""
    gram = atoms.T @ atoms
    products = atoms.T @ _normalized(signals)
    codes = np.zeros_like(products)
    for code, product in zip(codes.T, products.T, strict=True):
        chosen = matching_pursuit(gram, product, sparsity, tolerance=_TOLERANCE)
        code[chosen] = solve_semidefinite(gram[np.ix_(chosen, chosen)], product[chosen])
    return codes * np.linalg.norm(signals, axis=0)


def _normalized(signals: Matrix) -> Matrix:
    """Return the signals with norm 1; zero signals stay zero."""
    norms = np.linalg.norm(signals, axis=0)
    return signals / np.where(norms > 0, norms, 1.0)


def _rounding_of(signals: Matrix) -> float:
    """Return the rounding of a signal: the machine precision times the norm of all."""
    return float(np.finfo(np.float64).eps * np.linalg.norm(signals))
