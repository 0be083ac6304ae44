"""Small linear systems to machine precision, safe lengths, and orthogonal matching pursuit.

Systems are solved whatever the units of their unknowns.

A unit is a factor on an unknown. Therefore the dependence of columns is judged after all columns
were scaled to length one. If columns are dependent, the solution of minimum norm is taken, in the
given units or in a metric.

One rule decides, here and in `fgmp.fast.kernels`: a Cholesky factor is used if the least
eigenvalue of H is above eps^0.75, where H holds the products of the columns scaled to length one.
The rule does not depend on the order of the columns, and it sees the rows in their products only.
In all other cases a decomposition into orthogonal directions is used, and directions that are
rounding are dropped.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import e
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, lstsq

FloatArray = NDArray[np.floating[Any]]
Array = NDArray[Any]
IndexArray = NDArray[np.intp]

_DOUBLE = np.dtype(np.float64)
_SINGLE = np.dtype(np.float32)
_CHOLESKY_SOLVE = {_DOUBLE: lapack.dposv, _SINGLE: lapack.sposv}
_SOLVE_WITH_FACTOR = {_DOUBLE: lapack.dpotrs, _SINGLE: lapack.spotrs}
_CHOLESKY = {_DOUBLE: lapack.dpotrf, _SINGLE: lapack.spotrf}
_EPSILON = {_DOUBLE: float(np.finfo(np.float64).eps), _SINGLE: float(np.finfo(np.float32).eps)}

# Rounding moves each product of two columns of length one by (m + k + 1) eps / 2 at most, in the
# sum of m products and in the factor of k columns (Higham, Accuracy and Stability of Numerical
# Algorithms, 2002, Theorem 10.3), hence an eigenvalue of H by k times that. Errors cancel, so that
# it is a few eps. An eigenvalue that is truly zero therefore stays below eps^0.75: 8,192 eps, which
# is a bound if k (m + k + 1) < 16,384, and 54 eps in float32.
_LEAST_EIGENVALUE = {dtype: epsilon**0.75 for dtype, epsilon in _EPSILON.items()}

_MAX_REFINEMENTS = 3
# The rounding, in eps, of a singular value of columns of length one, or of an eigenvalue of their
# products.
_ROUNDING_FACTOR = 64

# Of the curvature along a step: the factor of its length is at most 2.56, and 1 without a fall.
_MOST_FALL = 0.9
_LEAST_FALL = 1e-6

# Below this multiple of the machine precision, relative to the largest, an inner product of a
# matching pursuit is rounding.
_PURSUIT_ROUNDINGS = 64


class CholeskySolution(NamedTuple):
    """The Cholesky factor of a positive definite matrix, and the solution of its system."""

    factor: FloatArray
    solution: FloatArray


def solve_definite(matrix: FloatArray, right: FloatArray) -> CholeskySolution | None:
    """Solve a positive definite system, or return None if the matrix is nearly singular.

    Neither the error of a Cholesky solution nor the test of singularity depends on the units of the
    unknowns.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        May have k = 0.
    right : ndarray, shape (k,) or (k, n_systems)
    """
    if not len(right):
        return CholeskySolution(matrix, right)
    factor, solution, info = _CHOLESKY_SOLVE[matrix.dtype](matrix, right)
    if info or not _is_definite(matrix, factor):
        return None
    return CholeskySolution(factor, solution)


def _is_definite(matrix: FloatArray, factor: FloatArray) -> bool:
    """Return whether the least eigenvalue of H is above what rounding could make of a zero.

    A squared pivot divided by the diagonal entry is the share of a column that the columns before
    it do not explain. The product of the shares is det(H). All eigenvalues but the least sum to at
    most k, hence their product is at most (k / (k - 1))^(k - 1) < e, and the least eigenvalue is
    above det(H) / e. If this bound does not decide, the matrix with its diagonal lowered by the
    threshold is factored: it has a Cholesky factor only if all eigenvalues of H are above the
    threshold.
    """
    threshold = _LEAST_EIGENVALUE[matrix.dtype]
    diagonal = matrix.diagonal()
    shares = factor.diagonal() ** 2 / diagonal
    if shares.prod() > e * threshold:
        return True
    if not shares.min() > threshold:
        return False
    lowered = matrix.copy()
    np.fill_diagonal(lowered, (1 - threshold) * diagonal)
    # The transpose is a view in column order, which LAPACK need not copy.
    _, info = _CHOLESKY[matrix.dtype](lowered.T, clean=False, overwrite_a=True)
    return not info


def solve_semidefinite(
    matrix: FloatArray, right: FloatArray, metric: FloatArray | None = None
) -> FloatArray:
    """Return the solution of minimum norm of a semidefinite system.

    If noise has made the matrix indefinite, its positive part is used: the solution does not move
    along directions of negative curvature.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
    right : ndarray, shape (k,)
        The right side, in the range of the matrix.
    metric : ndarray, shape (k, k), optional
        The norm is x' metric x, by default x'x.
    """
    cholesky = solve_definite(matrix, right)
    if cholesky is not None:
        return cholesky.solution
    scale = _divisors(np.sqrt(np.maximum(matrix.diagonal().astype(np.float64), 0)))
    eigenvalues, eigenvectors = np.linalg.eigh(matrix / scale[:, None] / scale)
    rounding = _rounding_factor(matrix) * eigenvalues.max(initial=0.0)
    is_positive = eigenvalues > rounding
    directions = eigenvectors[:, is_positive]
    coordinates = (directions.T @ (right / scale)) / eigenvalues[is_positive]
    noise = rounding / eigenvalues[is_positive].min(initial=np.inf)
    solution = _minimum_norm(directions, coordinates, scale, metric, noise)
    return np.asarray(solution, matrix.dtype)


def least_squares(
    columns: FloatArray, targets: FloatArray, metric: FloatArray | None = None
) -> FloatArray:
    """Return the minimum-norm least-squares solution, to machine precision.

    The normal equations are solved by a Cholesky factorisation and refined on the residual of the
    data. Refinement restores the accuracy that squaring the condition number costs: each step
    leaves the same fraction of the error, and the first step measures this fraction. If there are
    more columns than rows, the products of the rows are factored instead. If the refinements do not
    suffice, or the matrix to factor is nearly singular, the singular value decomposition is used,
    in float64.

    The error is the machine precision times the condition number of the columns, scaled to length
    one if they are independent. Coherent atoms are ill-conditioned columns, and a metric adds its
    own condition number.

    Parameters
    ----------
    columns : ndarray, shape (m, k)
    targets : ndarray, shape (m,)
    metric : ndarray, shape (k, k), optional
        The Gram matrix of the atoms, if the columns are A_i Psi on some atoms: the norm that is
        minimal is then the one of the signal.

    Returns
    -------
    ndarray, shape (k,)
    """
    n_rows, n_columns = columns.shape
    if columns.size and (metric is None or n_columns <= n_rows):
        solution = _solve_normal_equations(columns, targets)
        if solution is not None:
            return solution
    largest = np.abs(columns).max(axis=0, initial=0.0).astype(np.float64)
    largest[largest == 0] = 1
    scale = _divisors(largest * np.linalg.norm(columns / largest, axis=0))
    left, singular_values, right = np.linalg.svd(columns / scale, full_matrices=False)
    rounding = _rounding_factor(columns) * singular_values.max(initial=0.0)
    is_positive = singular_values > rounding
    coordinates = (left[:, is_positive].T @ targets) / singular_values[is_positive]
    noise = rounding / singular_values[is_positive].min(initial=np.inf)
    solution = _minimum_norm(right[is_positive].T, coordinates, scale, metric, noise)
    return np.asarray(solution, columns.dtype)


def _divisors(lengths: FloatArray) -> FloatArray:
    """Return the lengths of columns, with zeros replaced by the least positive length.

    Dividing a zero column by the least of the other lengths keeps its rounding small.
    """
    least = lengths.min(where=lengths > 0, initial=np.inf)
    return np.where(lengths > 0, lengths, least if np.isfinite(least) else 1.0)


def _rounding_factor(matrix: FloatArray) -> float:
    """Return the rounding of a zero singular value or eigenvalue, relative to the largest."""
    factor: int = max(_ROUNDING_FACTOR, *matrix.shape)
    return factor * _EPSILON[matrix.dtype]


def regularize_null_directions(
    hessian: FloatArray, gradient: FloatArray, shifts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make a Hessian definite along shifts that leave the function unchanged.

    Rounding along the shifts is removed from Hessian and gradient, and the Hessian gets the mean
    curvature of the coordinates of each shift, in whatever unit. A Newton step then neither divides
    rounding by rounding nor moves along a shift.

    Parameters
    ----------
    hessian : ndarray, shape (k, k)
    gradient : ndarray, shape (k,)
    shifts : ndarray, shape (k, n_shifts)
        Orthonormal directions.

    Returns
    -------
    hessian : ndarray, shape (k, k)
    gradient : ndarray, shape (k,)
    """
    if not shifts.shape[1]:
        return hessian, gradient
    shifts = shifts.astype(hessian.dtype, copy=False)
    projected = hessian - shifts @ (shifts.T @ hessian)
    curvatures = hessian.diagonal() @ shifts**2
    filled = projected - (projected @ shifts) @ shifts.T + (shifts * curvatures) @ shifts.T
    return filled, gradient - shifts @ (shifts.T @ gradient)


def orthonormal_combinations(gram: FloatArray) -> FloatArray:
    """Return combinations of k vectors that form an orthonormal basis of their span.

    Parameters
    ----------
    gram : ndarray, shape (k, k)
        The Gram matrix of the vectors.

    Returns
    -------
    ndarray, shape (k, rank)
        V, with V' gram V = 1.
    """
    norms = np.sqrt(gram.diagonal())
    eigenvalues, eigenvectors = np.linalg.eigh(gram / np.outer(norms, norms))
    is_positive = eigenvalues > _LEAST_EIGENVALUE[gram.dtype] * eigenvalues.max(initial=0.0)
    scaled = eigenvectors[:, is_positive] / np.sqrt(eigenvalues[is_positive])
    return scaled / norms[:, None]


def _solve_normal_equations(columns: FloatArray, targets: FloatArray) -> FloatArray | None:
    """Solve least squares by the products of the columns, or of the rows if these are fewer.

    Return None if the products are nearly singular, or if the refinements do not suffice. The size
    of a solution is the one of the contributions of the columns, which have no unit.
    """
    n_rows, n_columns = columns.shape
    is_wide = n_columns > n_rows
    vectors = columns.T if is_wide else columns
    gram = vectors.T @ vectors
    cholesky = solve_definite(gram, targets if is_wide else columns.T @ targets)
    if cholesky is None:
        return None
    solve_with_factor = _SOLVE_WITH_FACTOR[columns.dtype]
    solution: FloatArray = columns.T @ cholesky.solution if is_wide else cholesky.solution
    squares = np.ones_like(solution) if is_wide else gram.diagonal()
    size = squares.dot(solution * solution)
    error = 0.0
    fraction = 0.0
    for refinement in range(_MAX_REFINEMENTS):
        residual = targets - columns @ solution
        right = residual if is_wide else columns.T @ residual
        refined = solve_with_factor(cholesky.factor, right)[0]
        correction = columns.T @ refined if is_wide else refined
        solution = solution + correction
        if refinement == 0 and size:
            fraction = float(squares.dot(correction * correction) / size) ** 0.5
            error = fraction
        error *= fraction
        if error <= _EPSILON[columns.dtype]:
            return solution
    return None


def _minimum_norm(
    directions: FloatArray,
    coordinates: FloatArray,
    scale: FloatArray,
    metric: FloatArray | None,
    noise: float,
) -> FloatArray:
    """Return the shortest x with directions' (scale x) = coordinates.

    Parameters
    ----------
    directions : ndarray, shape (k, rank)
        Orthonormal.
    coordinates : ndarray, shape (rank,)
    scale : ndarray, shape (k,)
    metric : ndarray, shape (k, k), or None
        The norm is x' metric x, or x'x.
    noise : float
        The error of an entry of the directions.
    """
    k, rank = directions.shape
    solution: FloatArray = directions @ coordinates / scale
    if rank == k:
        return solution
    if metric is not None:
        return _minimum_norm_in_metric(directions, coordinates, scale, metric)

    # A column that takes part in no dependency has one possible coefficient. Rounding would tie it
    # to other columns, and if its unit is small, a little of it would be replaced by a lot of them.
    null_directions = np.linalg.qr(directions, mode="complete")[0][:, rank:]
    is_tied = np.linalg.norm(null_directions, axis=1) > noise
    tied_directions = np.linalg.qr(null_directions[is_tied], mode="complete")[0][:, k - rank :]
    tied_coordinates = tied_directions.T @ (scale[is_tied] * solution[is_tied])
    solution[is_tied], _ = _shortest(scale[is_tied, None] * tied_directions, tied_coordinates, 0.0)
    return solution


def _minimum_norm_in_metric(
    directions: FloatArray,
    coordinates: FloatArray,
    scale: FloatArray,
    metric: FloatArray,
) -> FloatArray:
    """Return the x with directions' (scale x) = coordinates of which x' metric x is least."""
    rank = directions.shape[1]
    # A signal is frame @ u, and its norm is the one of u.
    frame = orthonormal_combinations(metric)
    visible = frame.T @ (scale[:, None] * directions)
    shortest, rank_of_metric = _shortest(visible, coordinates, _LEAST_EIGENVALUE[_DOUBLE])
    solution: FloatArray = frame @ shortest
    if rank_of_metric < rank:
        # The metric takes atoms for dependent, and the data do not: add what is unexplained.
        unexplained = coordinates - directions.T @ (scale * solution)
        solution += directions @ unexplained / scale
    return solution


def _shortest(rows: FloatArray, right: FloatArray, threshold: float) -> tuple[FloatArray, int]:
    """Return the shortest x with rows' x = right, and the rank of the system.

    The rows may differ greatly in size, because LAPACK's `gelsy` exchanges columns. Above 1 /
    threshold, the condition counts as infinite.
    """
    solution, _, rank, _ = lstsq(rows.T, right, cond=threshold, lapack_driver="gelsy")
    return solution, rank


# Sums of squares neither overflow nor vanish for numbers from 2^-safe to 2^safe. 2^largest and its
# inverse are normal numbers.
_SAFE_EXPONENT = {np.dtype(np.float32): 30, np.dtype(np.float64): 200}
_LARGEST_EXPONENT = {np.dtype(np.float32): 120, np.dtype(np.float64): 1000}


def power_of_two_scale(array: Array) -> float:
    """Return a power of two that scales numbers whose squares might overflow or vanish to about 1.

    It is 1 if none might. Products with a power of two are exact, so a result changes in nothing
    else.
    """
    largest = float(np.abs(array).max(initial=0))
    if not 0 < largest < math.inf:
        return 1.0

    _, exponent = math.frexp(largest)
    if abs(exponent) <= _SAFE_EXPONENT[array.dtype]:
        return 1.0
    bound = _LARGEST_EXPONENT[array.dtype]
    return 2.0 ** -min(max(exponent, -bound), bound)


def length_of(vector: Array) -> float:
    """Return the Euclidean norm, also if squares of the entries overflow or vanish."""
    unit = power_of_two_scale(vector)
    scaled = vector if unit == 1 else vector * unit
    return float(np.linalg.norm(scaled)) / unit


def size_of_half(k: int) -> int:
    """Return the number of entries of the upper half of a k x k matrix, its diagonal included."""
    return k * (k + 1) // 2


# Every client needs them in every exchange on a support, and elimination goes through many sizes.
@lru_cache(maxsize=4)
def _indices_of_half(k: int) -> IndexArray:
    """Return where the upper half stands in the flattened matrix, in the order of its rows."""
    rows, columns = np.triu_indices(k)
    indices: IndexArray = rows * k + columns
    indices.flags.writeable = False
    return indices


def upper_half(matrix: Array) -> Array:
    """Return the upper half of a square matrix, row by row, as it travels."""
    return matrix.take(_indices_of_half(len(matrix)))


def symmetric_from_half(half: Array, k: int) -> Array:
    """Return the symmetric k x k matrix of an upper half."""
    upper = np.zeros((k, k), half.dtype)
    upper.put(_indices_of_half(k), half)
    return upper + np.triu(upper, 1).T


def block_hessian(
    columns: Array,
    atoms: IndexArray,
    outputs: IndexArray,
    n_outputs: int,
    curvature: Callable[[int], Array],
) -> Array:
    """Return the matrix of the blocks B_c' diag(curvature_cd) B_d of all pairs of outputs.

    Parameters
    ----------
    columns : ndarray, shape (m, u)
    atoms, outputs : ndarray of int, shape (k,)
        The column and the output of each row of the Hessian: B_c has the columns of those of
        output c. With one output these are all columns, in order.
    n_outputs : int
    curvature : callable
        Return for an output d the curvatures of all outputs with it, shape (m, n_outputs).
    """
    if n_outputs == 1:
        return columns.T @ (columns * curvature(0))

    hessian = np.zeros((len(atoms), len(atoms)), columns.dtype)
    members = [np.flatnonzero(outputs == output) for output in range(n_outputs)]
    parts = [columns[:, atoms[own]] for own in members]
    for d in range(n_outputs):
        weights = curvature(d)
        for c in range(d + 1):
            block = parts[c].T @ (parts[d] * weights[:, c, None])
            hessian[np.ix_(members[c], members[d])] = block
            hessian[np.ix_(members[d], members[c])] = block.T
    return hessian


def inner(left: Array, right: Array) -> float:
    """Return the inner product in float64: products of float32 might overflow or vanish."""
    left = left.reshape(-1).astype(np.float64, copy=False)
    right = right.reshape(-1).astype(np.float64, copy=False)
    return float(left @ right)


def newton_length(moved: Array, before: Array, hessian: Array, step: Array) -> float:
    """Return by which factor a Newton step is too short, or too long, from two Hessians.

    Along a step s the curvature of losses of labels and of counts falls, or rises, about
    exponentially: as exp(-c t) at t s. The minimum is then at t = -log(1 - c) / c. The two Hessians
    that are known tell c, as far as s is along the last step.

    Parameters
    ----------
    moved, before : ndarray, shapes (k,) and (k, k)
        The last step, and the Hessian before it.
    hessian, step : ndarray
        The Hessian now, and the Newton step.
    """
    curvature = inner(step, hessian @ step)
    curvature_before = inner(step, before @ step)
    squared = inner(moved, hessian @ moved)
    if not min(curvature, curvature_before, squared) > 0:
        return 1.0
    along = inner(moved, hessian @ step) / squared
    c = min(along * np.log(curvature_before / curvature), _MOST_FALL)
    return float(-np.log1p(-c) / c) if abs(c) > _LEAST_FALL else 1.0


def matching_pursuit(
    gram: Array,
    correlations: Array,
    sparsity: int,
    first: Iterable[int] = (),
    n_outputs: int = 1,
    tolerance: float | None = None,
) -> IndexArray:
    """Return the atoms that orthogonal matching pursuit takes to represent a signal w.

    Each step takes the atom, scaled to norm one, that has the largest inner product with the
    residual (the first of equal ones), and projects w onto the atoms taken so far. Only Psi' w and
    the Gram matrix Psi' Psi are needed: the atoms, each orthonormalised against those before it,
    are the rows of a pivoted Cholesky factor of the Gram matrix (Rubinstein, Zibulevsky and Elad,
    2008, with the factor continued over all columns). So the step after k atoms costs k d
    multiplications for d atoms, however long a signal is. A signal that fewer atoms represent to
    rounding gets fewer.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Psi' Psi, with a positive diagonal.
    correlations : ndarray, shape (d,) or (d, n_signals)
        Psi' w. With several signals an atom is taken for all at once: the one whose inner products
        with their residuals have the largest Euclidean norm (Tropp, Gilbert and Strauss, Algorithms
        for simultaneous sparse approximation, Part I, 2006).
    sparsity : int
        The largest number of atoms.
    first : iterable of int
        Atoms that are taken before all others and do not count.
    n_outputs : int, default 1
        With several outputs each atom occurs once for each, at position
        ``atom * n_outputs + output`` of the correlations. Inner products are those of `gram` within
        an output, and zero between outputs.
    tolerance : float, optional
        The pursuit ends if no atom of norm one has a larger inner product with the residual. By
        default 64 roundings of the largest inner product with w.

    Returns
    -------
    ndarray of int
        The atoms, or positions if there are several outputs, increasing.
    """
    first = list(first)
    taken = set(first)
    most = min(len(taken) + sparsity, len(gram) * n_outputs)
    residual = _Residual(gram, correlations, n_outputs, most)
    if tolerance is None:
        precision = float(np.finfo(correlations.dtype).eps)
        tolerance = float(
            _PURSUIT_ROUNDINGS * precision * np.abs(residual.products).max(initial=0.0)
        )

    for atom in reversed(first):
        residual.project_out(atom)

    # Each step settles one more atom, so the loop ends whatever rounding does to the residual.
    is_settled = np.zeros(len(residual.norms), bool)
    is_settled[first] = True
    while len(taken) < most:
        sizes = np.linalg.norm(residual.products, axis=0)
        sizes[is_settled] = 0
        atom = int(sizes.argmax())
        if not sizes[atom] > tolerance:
            break
        is_settled[atom] = True
        if residual.project_out(atom):
            taken.add(atom)
    return np.sort(np.array(list(taken), np.intp))


class _Residual:
    """The residual of a matching pursuit, by its inner products with the atoms, in float64.

    Attributes
    ----------
    norms : ndarray, shape (d,)
        The norms of the atoms, of each output.
    products : ndarray, shape (n_signals, d)
        The inner products of the residuals with the atoms scaled to norm one.
    factor : ndarray, shape (most, d)
        The Cholesky factor, in its first `n_projected` rows: the inner products of the atoms scaled
        to norm one with those that were orthonormalised and projected out.
    """

    def __init__(self, gram: Array, correlations: Array, n_outputs: int, most: int) -> None:
        self.gram = gram
        self.n_outputs = n_outputs
        self.norms = np.sqrt(gram.diagonal()).repeat(n_outputs)
        signals = correlations.reshape(len(self.norms), -1).T
        self.products: Array = (signals / self.norms).astype(np.float64)
        self.factor = np.empty((most, len(self.norms)))
        self.n_projected = 0

    def project_out(self, position: int) -> bool:
        """Project the residual onto the complement of an atom; return whether that is a change.

        It is none if the atom depends on those that were projected out before.
        """
        atom, output = divmod(position, self.n_outputs)
        is_same_output = np.arange(self.n_outputs) == output
        row = np.multiply.outer(self.gram[atom], is_same_output).reshape(-1)
        row = row / (self.norms[position] * self.norms)

        # What the atoms before it leave of this one, and its squared length.
        factor = self.factor[: self.n_projected]
        row -= factor[:, position] @ factor
        squared_length = row[position]
        if not squared_length > _PURSUIT_ROUNDINGS * np.finfo(np.float64).eps:
            return False

        row /= np.sqrt(squared_length)
        self.products -= self.products[:, position, None] * row / row[position]
        self.factor[self.n_projected] = row
        self.n_projected += 1
        return True
