"""Small linear systems to machine precision, whatever the units of their unknowns.

A unit is a factor on an unknown, so whether columns are dependent is asked of columns scaled to length one. What is
left over where they are dependent is the solution of minimum norm, in the units that came or in a metric.

One rule decides, here and in `fgmp._compiled.kernels`: a Cholesky factor serves where the least eigenvalue of H is
above eps^0.75, H the products of the columns scaled to length one. It knows no order of the columns, and the rows enter
by their products only. Elsewhere a decomposition into orthogonal directions serves; it drops those that are rounding.
"""

from math import e

import numpy as np
from scipy.linalg import lapack, qr

from ..sparse_model import Array

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_CHOLESKY = {_DOUBLE: (lapack.dposv, lapack.dpotrs), _SINGLE: (lapack.sposv, lapack.spotrs)}
_FACTOR = {_DOUBLE: lapack.dpotrf, _SINGLE: lapack.spotrf}
_PRECISION = {_DOUBLE: float(np.finfo(np.float64).eps), _SINGLE: float(np.finfo(np.float32).eps)}

# Rounding moves each product of two columns of length one by (m + k + 1) eps / 2 at most, in the sum of m products and
# in the factor of k columns (Higham, Accuracy and Stability of Numerical Algorithms, 2002, Theorem 10.3), hence an
# eigenvalue of H by k times that; errors cancel, so that it is a few eps. An eigenvalue that is truly zero stays below
# eps^0.75 then: 8,192 eps, which is a bound where k (m + k + 1) < 16,384, and 54 eps in float32.
_SMALLEST = {kind: precision**0.75 for kind, precision in _PRECISION.items()}

_REFINEMENTS = 3
_ROUNDINGS = 64  # in a singular value or eigenvalue of columns of length one, or of their products


def solve_definite(matrix: Array, right: Array) -> tuple[Array, Array] | None:
    """Cholesky factor and solution of a positive definite system (k may be 0); None where it is nearly singular.

    The error of a Cholesky solution does not depend on the units of the unknowns, and neither does the test.
    """
    if not len(right):
        return matrix, right
    posv, _ = _CHOLESKY[matrix.dtype]
    factor, solution, failed = posv(matrix, right)
    if failed or not _is_definite(matrix, factor):
        return None
    return factor, solution


def _is_definite(matrix: Array, factor: Array) -> bool:
    """Whether the least eigenvalue of H is above the smallest that is no rounding, from the Cholesky factor.

    A squared pivot over the diagonal entry is the share of a column that those before it do not explain; the product of
    the shares is det(H). The eigenvalues but the least one have a sum of at most k, so a product of at most
    (k / (k - 1))^(k - 1) < e: the least is above det(H) / e. Where that is not enough, H less `smallest` of its unit
    diagonal has a Cholesky factor or not.
    """
    smallest, diagonal = _SMALLEST[matrix.dtype], matrix.diagonal()
    shares = factor.diagonal() ** 2 / diagonal
    if shares.prod() > e * smallest:
        return True
    if not shares.min() > smallest:
        return False
    less = matrix.copy()
    np.fill_diagonal(less, (1 - smallest) * diagonal)
    _, failed = _FACTOR[matrix.dtype](
        less.T, clean=False, overwrite_a=True
    )  # a view that LAPACK need not copy
    return not failed


def solve_semidefinite(matrix: Array, right: Array, metric: Array | None = None) -> Array:
    """Solution of a semidefinite system with the right side in its range, of minimum norm, x' metric x or x'x.

    Where noise has made it indefinite, its positive part stands for it: no step goes where it curves downwards.
    """
    if (solved := solve_definite(matrix, right)) is not None:
        return solved[1]
    scale = _to_divide_by(np.sqrt(np.maximum(matrix.diagonal().astype(np.float64), 0)))
    eigenvalues, vectors = np.linalg.eigh(matrix / scale[:, None] / scale)
    rounding = _rounding(matrix) * eigenvalues.max(initial=0.0)
    kept = eigenvalues > rounding
    directions = vectors[:, kept]
    shadow = (directions.T @ (right / scale)) / eigenvalues[kept]
    noise = rounding / eigenvalues[kept].min(initial=np.inf)
    return np.asarray(_shortest(directions, shadow, scale, metric, noise), matrix.dtype)


def least_squares(columns: Array, targets: Array, metric: Array | None = None) -> Array:
    """Minimum-norm least-squares solution to machine precision, shape (k,), for `columns` of shape (m, k).

    Cholesky factorisation of the normal equations, refined on the residual of the data, which restores the accuracy
    that squaring the condition number costs: each refinement leaves the same fraction of the error, which the first
    one measures. With more columns than rows the same with the products of the rows. Where too much is left, or what is
    factored is nearly singular, the singular value decomposition in float64. `metric` is the Gram matrix of the atoms,
    where columns are A_i Psi on some of them.

    The error is the machine precision times the condition number of the columns, scaled to length one where these are
    independent. Coherent atoms are ill-conditioned columns, and a metric adds the condition number of its own.
    """
    if columns.size and (metric is None or columns.shape[1] <= columns.shape[0]):
        if (solution := _by_products(columns, targets)) is not None:
            return solution
    largest = np.abs(columns).max(axis=0, initial=0.0).astype(np.float64)
    largest[largest == 0] = 1
    scale = _to_divide_by(largest * np.linalg.norm(columns / largest, axis=0))
    left, sizes, across = np.linalg.svd(columns / scale, full_matrices=False)
    rounding = _rounding(columns) * sizes.max(initial=0.0)
    kept = sizes > rounding
    shadow = (left[:, kept].T @ targets) / sizes[kept]
    noise = rounding / sizes[kept].min(initial=np.inf)
    return np.asarray(_shortest(across[kept].T, shadow, scale, metric, noise), columns.dtype)


def _to_divide_by(lengths: Array) -> Array:
    """The lengths of columns; that of a zero column is the least of the others, so that its rounding stays small."""
    least = lengths.min(where=lengths > 0, initial=np.inf)
    return np.where(lengths > 0, lengths, least if np.isfinite(least) else 1.0)


def _rounding(matrix: Array) -> float:
    """What a singular value or eigenvalue that is zero comes out as, at most, relative to the largest."""
    roundings: int = max(_ROUNDINGS, *matrix.shape)
    return roundings * _PRECISION[matrix.dtype]


def regularize_null_directions(
    hessian: Array, gradient: Array, shifts: Array
) -> tuple[Array, Array]:
    """Hessian and gradient of a function that does not change along orthonormal `shifts` (k, s), definite there.

    What rounding left along a shift is taken out of both, and the Hessian gets the mean curvature of the shift's own
    coordinates there, in whatever unit: so a Newton step neither divides rounding by rounding nor moves along shifts.
    """
    if not shifts.shape[1]:
        return hessian, gradient
    shifts = shifts.astype(hessian.dtype, copy=False)
    one_sided = hessian - shifts @ (shifts.T @ hessian)
    mean = hessian.diagonal() @ shifts**2
    filled = one_sided - (one_sided @ shifts) @ shifts.T + (shifts * mean) @ shifts.T
    return filled, gradient - shifts @ (shifts.T @ gradient)


def orthonormal_combinations(gram: Array) -> Array:
    """V, shape (k, s): combinations of k vectors that are an orthonormal basis of their span, V' gram V = 1."""
    norms = np.sqrt(gram.diagonal())
    eigenvalues, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
    kept = eigenvalues > _SMALLEST[gram.dtype] * eigenvalues.max(initial=0.0)
    combinations: Array = vectors[:, kept] / np.sqrt(eigenvalues[kept]) / norms[:, None]
    return combinations


def _by_products(columns: Array, targets: Array) -> Array | None:
    """From the products of the columns or, where these are more, the rows; None where refinements do not suffice.

    Sizes are those of the columns' contributions, which have no unit.
    """
    wide = columns.shape[1] > columns.shape[0]
    across = columns.T if wide else columns
    gram = across.T @ across
    if (solved := solve_definite(gram, targets if wide else columns.T @ targets)) is None:
        return None
    (factor, z), (_, potrs) = solved, _CHOLESKY[columns.dtype]
    solution: Array = columns.T @ z if wide else z
    squares = np.ones_like(solution) if wide else gram.diagonal()
    size, left, fraction = squares.dot(solution * solution), 0.0, 0.0
    for refinement in range(_REFINEMENTS):
        residual = targets - columns @ solution
        found = potrs(factor, residual if wide else columns.T @ residual)[0]
        correction = columns.T @ found if wide else found
        solution = solution + correction
        if refinement == 0:
            left = fraction = (
                float(squares.dot(correction * correction) / size) ** 0.5 if size else 0.0
            )
        left *= fraction
        if left <= _PRECISION[columns.dtype]:
            return solution
    return None


def _shortest(
    directions: Array, shadow: Array, scale: Array, metric: Array | None, noise: float
) -> Array:
    """The shortest x with directions' (scale x) = shadow, for orthonormal `directions` (k, r), in x'x or x'metric x.

    `noise` is the error of an entry of the directions.
    """
    k, rank = directions.shape
    solution: Array = directions @ shadow / scale  # the shortest of scale x
    if rank == k:
        return solution
    if metric is not None:
        # A signal is frame u, and its norm that of u.
        frame = orthonormal_combinations(metric)
        seen = frame.T @ (scale[:, None] * directions)
        coordinates, n_seen = _of_least_norm(seen, shadow, _SMALLEST[_DOUBLE])
        signal: Array = frame @ coordinates
        if (
            n_seen < rank
        ):  # the metric takes atoms for dependent, and the data do not: what the signal leaves over
            signal += directions @ (shadow - directions.T @ (scale * signal)) / scale
        return signal
    # A column that takes part in no dependency has a coefficient of its own. Rounding would tie it to the others, and
    # if its unit is small, a little of it would be replaced by a lot of them.
    null = np.linalg.qr(directions, mode="complete")[0][:, rank:]
    tied = np.linalg.norm(null, axis=1) > noise
    others = np.linalg.qr(null[tied], mode="complete")[0][:, k - rank :]
    right = others.T @ (scale[tied] * solution[tied])
    solution[tied], _ = _of_least_norm(scale[tied, None] * others, right)
    return solution


def _of_least_norm(rows: Array, right: Array, smallest: float = 0.0) -> tuple[Array, int]:
    """The shortest x with rows'x = right, for `rows` (k, r) that may be of very different size, and their rank.

    An error in a row is small beside that row, because columns are exchanged and the rows go from large to small (Cox
    and Higham, Stability of Householder QR factorization for weighted least squares problems, 1998). Pivots at most
    `smallest` of the first are zero.
    """
    unit = np.abs(rows).max(initial=0.0)
    if not unit:
        return np.zeros(len(rows)), 0
    order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    basis, triangle, exchanged = qr(rows[order] / unit, mode="economic", pivoting=True)
    sizes = np.abs(triangle.diagonal())
    kept = int(np.count_nonzero(sizes > smallest * sizes[0]))
    along, _ = lapack.dtrtrs(triangle[:kept, :kept], right[exchanged[:kept]] / unit, trans=1)
    solution = np.empty(len(rows))
    solution[order] = basis[:, :kept] @ along
    return solution, kept
