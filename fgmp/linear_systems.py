"""Small linear systems to machine precision, whatever the units of their unknowns.

A unit is a factor on an unknown, so whether columns are dependent is asked of columns scaled to length one. What is
left over where they are dependent is the solution of minimum norm, in the units that came or in a metric.
"""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from .models import Array

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_CHOLESKY = {_DOUBLE: (lapack.dposv, lapack.dpotrs), _SINGLE: (lapack.sposv, lapack.spotrs)}
_PRECISION = {_DOUBLE: float(np.finfo(np.float64).eps), _SINGLE: float(np.finfo(np.float32).eps)}
# The least share of a squared column that those before it may leave.
_SMALLEST_SHARE = {kind: precision**0.75 for kind, precision in _PRECISION.items()}
_REFINEMENTS = 3
_FAR_APART = 1e6  # ratio of units beyond which rounding decides what is shortest
_OF_PRODUCTS = 64  # roundings in an entry of A_i Psi, relative to the length of its column


def solve_definite(matrix: Array, right: Array) -> tuple[Array, Array] | None:
    """Cholesky factor and solution of a positive definite system (k may be 0); None where it shows it nearly singular.

    The error of a Cholesky solution does not depend on the units of the unknowns, and neither does the test: the
    squared pivot over the diagonal entry is the share of a column that those before it do not explain.
    """
    if not len(right):
        return matrix, right
    posv, _ = _CHOLESKY[matrix.dtype]
    factor, solution, failed = posv(matrix, right)
    if failed:
        return None
    shares = factor.diagonal() ** 2 / matrix.diagonal()
    return (factor, solution) if shares.min() > _SMALLEST_SHARE[matrix.dtype] else None


def solve_semidefinite(matrix: Array, right: Array, metric: Array | None = None) -> Array:
    """Solution of a semidefinite system with the right side in its range, of minimum norm, x' metric x or x'x.

    Where noise has made it indefinite, its positive part stands for it: no step goes where it curves downwards.
    """
    if (solved := solve_definite(matrix, right)) is not None:
        return solved[1]
    scale = np.sqrt(np.maximum(matrix.diagonal().astype(np.float64), 0))
    scale[scale == 0] = 1
    eigenvalues, vectors = np.linalg.eigh(matrix / scale[:, None] / scale)
    positive = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    return _shortest(positive * scale, right / scale, scale, len(right), matrix.dtype, metric)


def least_squares(columns: Array, targets: Array, metric: Array | None = None) -> Array:
    """Minimum-norm least-squares solution to machine precision, shape (k,), for `columns` of shape (m, k).

    Cholesky factorisation of the normal equations, refined on the residual of the data, which restores the accuracy
    that squaring the condition number costs: each refinement leaves the same fraction of the error, which the first
    one measures. With more columns than rows the same with the products of the rows. Where too much is left, or what is
    factored is nearly singular, the singular value decomposition in float64. `metric` is the Gram matrix of the atoms,
    where columns are A_i Psi on some of them.
    """
    if columns.size and (metric is None or columns.shape[1] <= columns.shape[0]):
        if (solution := _by_products(columns, targets)) is not None:
            return solution
    largest = np.abs(columns).max(axis=0, initial=0.0).astype(np.float64)
    largest[largest == 0] = 1
    scale = largest * np.linalg.norm(columns / largest, axis=0)
    scale[scale == 0] = 1
    size = max(*columns.shape, 0 if metric is None else _OF_PRODUCTS)
    return _shortest(columns, targets, scale, size, columns.dtype, metric)


def fill_shifts(hessian: Array, gradient: Array, shifts: Array) -> tuple[Array, Array]:
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
    kept = eigenvalues > _SMALLEST_SHARE[gram.dtype] * eigenvalues.max(initial=0.0)
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
            left = fraction = float(squares.dot(correction * correction) / size) ** 0.5 if size else 0.0
        left *= fraction
        if left <= _PRECISION[columns.dtype]:
            return solution
    return None


def _shortest(
    matrix: Array, right: Array, scale: Array, size: int, dtype: np.dtype[Any], metric: Array | None
) -> Array:
    """The shortest x of those that leave least of matrix x - right, by the singular values of matrix / scale.

    Singular values below `size` roundings of the largest are none. Directions that are null in the metric as well are
    dependent atoms, along which no signal changes.
    """
    left, sizes, across = np.linalg.svd(matrix / scale, full_matrices=False)
    rank = np.count_nonzero(sizes > size * _PRECISION[dtype] * sizes.max(initial=0.0))
    scaled = across[:rank].T @ ((left[:, :rank].T @ right) / sizes[:rank])
    if rank < len(scale) and (metric is not None or scale.max() <= _FAR_APART * scale.min()):
        free = np.linalg.qr(across[:rank].T, mode="complete")[0][:, rank:]
        energy = np.diag((scale.min() / scale) ** 2) if metric is None else metric / scale[:, None] / scale
        eigenvalues, vectors = np.linalg.eigh(free.T @ energy @ free)
        kept = eigenvalues > (0.0 if metric is None else _SMALLEST_SHARE[dtype] * energy.trace())
        basis = free @ vectors[:, kept]
        scaled = scaled - basis @ ((basis.T @ (energy @ scaled)) / eigenvalues[kept])
    return np.asarray(scaled / scale, dtype)
