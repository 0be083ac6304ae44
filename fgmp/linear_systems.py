"""Small linear systems to machine precision, whatever the units of their unknowns.

A unit is a factor on an unknown, so whether columns are dependent is asked of columns scaled to length one. What is
left over where they are dependent is the solution of minimum norm, in the units that came or in a metric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular

from .models import Array

_CHOLESKY = {
    np.dtype(np.float64): (lapack.dposv, lapack.dpotrs),
    np.dtype(np.float32): (lapack.sposv, lapack.spotrs),
}
_PRECISION = {np.dtype(kind): float(np.finfo(kind).eps) for kind in (np.float64, np.float32)}
# The least share of a squared column that those before it may leave.
SMALLEST_SHARE = {kind: precision**0.75 for kind, precision in _PRECISION.items()}
_REFINEMENTS = 3
_FAR_APART, _ALIKE = 1e6, 100.0  # ratios of units
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
    return (factor, solution) if shares.min() > SMALLEST_SHARE[matrix.dtype] else None


def solve_semidefinite(matrix: Array, right: Array, metric: Array | None = None) -> Array:
    """Solution of minimum norm, x' metric x or x'x, of a semidefinite system with the right side in its range."""
    wide, scale = matrix.astype(np.float64), np.sqrt(np.maximum(matrix.diagonal().astype(np.float64), 0))
    scale[scale == 0] = 1
    eigenvalues, vectors = np.linalg.eigh(wide / scale[:, None] / scale)
    kept = eigenvalues > len(right) * _PRECISION[matrix.dtype] * eigenvalues.max(initial=0.0)
    range_ = vectors[:, kept]
    scaled = range_ @ ((range_.T @ (right / scale)) / eigenvalues[kept])
    if metric is not None:
        return _shortest_in(metric, scaled, scale, range_, matrix.dtype)
    return _of_minimum_norm(scaled, scale, range_).astype(matrix.dtype, copy=False)


def least_squares(columns: Array, targets: Array, metric: Array | None = None) -> Array:
    """Minimum-norm least-squares solution to machine precision, shape (k,), for `columns` of shape (m, k).

    Cholesky factorisation of the normal equations, refined on the residual of the data, which restores the accuracy
    that squaring the condition number costs: each refinement leaves the same fraction of the error, which the first
    one measures. With more columns than rows the same with the products of the rows. Where too much is left, or what is
    factored is nearly singular, the singular value decomposition in float64. `metric` is the Gram matrix of the atoms,
    where columns are A_i Psi on some of them.
    """
    by_products = columns.size and (metric is None or columns.shape[1] <= columns.shape[0])
    solution = _by_products(columns, targets) if by_products else None
    return _by_singular_values(columns, targets, metric) if solution is None else solution


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


def newton_direction(hessian: Array, gradient: Array) -> Array:
    """The direction d with H d = -g of minimum norm, for a positive semidefinite H with g in its range."""
    solved = solve_definite(hessian, gradient)
    return -(solve_semidefinite(hessian, gradient) if solved is None else solved[1])


def _by_products(columns: Array, targets: Array) -> Any:
    """From the products of the columns or, where these are more, the rows; None where refinements do not suffice.

    Sizes are those of the columns' contributions, which have no unit.
    """
    wide = columns.shape[1] > columns.shape[0]
    across = columns.T if wide else columns
    gram = across.T @ across
    solved = solve_definite(gram, targets if wide else columns.T @ targets)
    if solved is None:
        return None
    (factor, z), (_, potrs) = solved, _CHOLESKY[columns.dtype]
    solution = columns.T @ z if wide else z
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


def _by_singular_values(columns: Array, targets: Array, metric: Array | None) -> Array:
    size = max(columns.shape) if metric is None else max(*columns.shape, _OF_PRODUCTS)
    wide, rounding = columns.astype(np.float64, copy=False), size * _PRECISION[columns.dtype]
    squares = np.einsum("ij,ij->j", wide, wide)
    alike = squares.max(initial=0.0) <= _ALIKE**2 * squares.min(initial=np.inf) < np.inf
    if alike and metric is None:  # the same rank in any case
        return np.linalg.lstsq(wide, targets, rcond=rounding)[0].astype(columns.dtype, copy=False)
    largest = np.abs(wide).max(axis=0, initial=0.0)
    largest[largest == 0] = 1
    scale = largest * np.linalg.norm(wide / largest, axis=0)
    scale[scale == 0] = 1
    left, sizes, right = np.linalg.svd(wide / scale, full_matrices=False)
    rank = np.count_nonzero(sizes > rounding * sizes.max(initial=0.0))
    range_ = right[:rank].T
    scaled = range_ @ ((left[:, :rank].T @ targets) / sizes[:rank])
    if metric is not None:
        return _shortest_in(metric, scaled, scale, range_, columns.dtype)
    return _of_minimum_norm(scaled, scale, range_).astype(columns.dtype, copy=False)


def _shortest_in(metric: Array, scaled: Array, scale: Array, range_: Array, dtype: np.dtype[Any]) -> Array:
    """As `_of_minimum_norm`, in a metric; directions that are null there as well are dependent atoms."""
    energy, free = metric / scale[:, None] / scale, np.linalg.qr(range_, mode="complete")[0][:, range_.shape[1] :]
    eigenvalues, vectors = np.linalg.eigh(free.T @ energy @ free)
    kept = eigenvalues > SMALLEST_SHARE[dtype] * energy.trace()
    basis = free @ vectors[:, kept]
    shortest: Array = (scaled - basis @ ((basis.T @ (energy @ scaled)) / eigenvalues[kept])) / scale
    return shortest.astype(dtype, copy=False)


def _of_minimum_norm(scaled: Array, scale: Array, range_: Array) -> Array:
    """The shortest x whose scale * x has the part of `scaled` in the range, where units let that be computed."""
    if range_.shape[1] == len(scale) or scale.max() > _FAR_APART * scale.min():
        unique: Array = scaled / scale
        return unique
    basis, triangle = np.linalg.qr(scale[:, None] * range_)
    shortest: Array = basis @ solve_triangular(triangle, range_.T @ scaled, trans=1)
    return shortest
