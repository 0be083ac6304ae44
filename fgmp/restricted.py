"""The restricted problem of a client: f_i over the span of the merged atoms, in orthonormal coordinates of it.

`RestrictedProblem` offers value, gradient, Hessian and step length in these coordinates, which is all that a solver of
`solvers` needs to know of loss, dictionary and data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from .dictionaries import Coordinates, StandardBasis
from .federation import Client
from .losses import Loss
from .models import Array, Support, length_of
from .sparse_features import SparseFeatures


@dataclass(frozen=True, eq=False, repr=False)
class RestrictedProblem:
    """h(z) = w sum_j l(predictions_j(z), y_j), with predictions that are linear in z.

    The weight w of a row is 1/m, or 1 where the loss is a sum.

    Parameters
    ----------
    columns : ndarray, shape (m, k)
        The data in the coordinates z.
    targets : ndarray, shape (m,)
    loss : Loss
    coordinates : Coordinates or None
        The map from z to the coefficients of the merged atoms; None is the identity.
    """

    columns: Array
    targets: Array
    loss: Loss
    coordinates: Coordinates | None = None

    @classmethod
    def of(cls, client: Client, merged: Support, dictionary: StandardBasis, *, orthonormal: bool) -> RestrictedProblem:
        """The restricted problem of a client, whose features are A_i Psi, on merged positions.

        Not `orthonormal` are the coefficients themselves, which saves a factorisation.
        """
        if client.n_outputs > 1:
            return _SeveralOutputs.on(client, merged, dictionary, orthonormal)
        columns, coordinates = client.columns(merged), dictionary.coordinates(merged) if orthonormal else None
        if coordinates is not None:
            columns = _product(columns, coordinates.to_coefficients)
        return cls(columns, client.targets, client.loss, coordinates)

    @property
    def size(self) -> int:
        """Number of coordinates k."""
        return int(self.columns.shape[1])

    def coefficients(self, z: Array) -> Array:
        """The coefficients of the merged atoms."""
        return z if self.coordinates is None else _product(self.coordinates.to_coefficients, z)

    def start(self, coefficients: Array) -> Array:
        """The coordinates z of given coefficients."""
        return coefficients if self.coordinates is None else _product(self.coordinates.from_coefficients, coefficients)

    def predictions(self, z: Array) -> Array:
        """The predictions on all rows; they are linear in z."""
        product: Array = self.columns @ z
        return product

    def pull_back(self, derivative: Array) -> Array:
        """The transpose of `predictions`: from numbers per row to numbers per coordinate."""
        gradient: Array = self.columns.T @ derivative
        return gradient

    @property
    def row_weight(self) -> float:
        """What each row counts: w."""
        return self.loss.row_weight(len(self.targets))

    def in_double_precision(self) -> RestrictedProblem:
        """The same problem in float64."""
        if self.columns.dtype == np.float64:
            return self
        targets = self.targets.astype(np.float64) if self.targets.dtype.kind == "f" else self.targets
        return replace(self, columns=self.columns.astype(np.float64), targets=targets)

    def value(self, predictions: Array) -> float:
        """The objective h, from the predictions."""
        return float(np.sum(self.loss.values(predictions, self.targets)) * self.row_weight)

    def gradient(self, predictions: Array) -> Array:
        """The gradient of h, from the predictions."""
        return self.pull_back(self.derivative(predictions))

    def derivative(self, predictions: Array) -> Array:
        """The derivative of h in the predictions."""
        derivative: Array = self.loss.derivative(predictions, self.targets) * self.row_weight
        return derivative

    def gradient_on(self, rows: Support | slice, z: Array) -> Array:
        """The gradient over a minibatch of rows, at z."""
        batch = replace(self, columns=self.columns[rows], targets=self.targets[rows])
        return batch.gradient(batch.predictions(z))

    def hessian(self, predictions: Array) -> Array:
        """The Hessian of h, shape (k, k), from the predictions."""
        curvature = self.loss.curvature(predictions, self.targets, np.ones_like(predictions))
        hessian: Array = self.columns.T @ (self.columns * (curvature * self.row_weight)[:, None])
        return hessian

    @property
    def shifts(self) -> Array:
        """Orthonormal directions of z that the loss does not notice, shape (k, s): none where there is one output."""
        return np.zeros((self.size, 0))

    @cached_property
    def lengths(self) -> Array:
        """The lengths of the columns."""
        lengths: Array = np.linalg.norm(self.columns, axis=0)
        return lengths

    def steps(self, direction: Array) -> Array:
        """How far a direction moves the predictions, column by column, whatever the units."""
        steps: Array = self.lengths * direction
        return steps

    def descends(self, slope: float, direction: Array, derivative: Array) -> bool:
        """Whether a slope grad h' d is below zero by more than the rounding of the gradient."""
        rounding = float(np.finfo(derivative.dtype).eps) * (16 + len(derivative)) ** 0.5
        return bool(slope < -rounding * length_of(derivative) * length_of(self.steps(direction)))

    def step_length(self, predictions: Array, image: Array, slope: float) -> float:
        """How far to go along a direction d of descent, given its image in predictions and grad h' d < 0.

        The minimiser of the quadratic model along d, which for the squared loss is the exact line search; halved
        until h decreases enough (Armijo), which the squared loss never needs.
        """
        bend = inner(image, self.loss.curvature(predictions, self.targets, image)) * self.row_weight
        if bend <= 0:
            return 0.0
        length, start = -slope / bend, self.value(predictions)
        rounding = 16 * float(np.finfo(predictions.dtype).eps) * abs(start)
        for _ in range(60):
            if self.value(predictions + length * image) <= start + 1e-4 * length * slope + rounding:
                return length
            length /= 2
        return 0.0

    def within(self, accuracy: float | None, predictions: Array, gradient: Array) -> bool:
        """Whether z is certainly within `accuracy` of a minimiser: ||grad h|| <= accuracy x smallest curvature.

        Exact for the squared loss, whose Hessian is constant (in directions of no curvature, to rounding, every point
        is a minimiser); for other losses the Hessian at z stands for the one on the way.
        """
        if accuracy is None:
            return False
        if not self.size:
            return True
        curvatures = np.linalg.eigvalsh(self.hessian(predictions))
        positive = curvatures[curvatures > len(curvatures) * np.finfo(curvatures.dtype).eps * curvatures[-1]]
        return bool(not positive.size or length_of(gradient) <= accuracy * positive[0])


@dataclass(frozen=True, eq=False, repr=False)
class _SeveralOutputs(RestrictedProblem):
    """The same for several outputs: z are some entries, `places`, of an (u, n_outputs) matrix that `columns` multiply.

    `gram` are the inner products of the atoms of all k coefficients, where there are coordinates.
    """

    places: Support = field(kw_only=True)
    n_outputs: int = field(kw_only=True)
    gram: Array | None = field(kw_only=True)

    @classmethod
    def on(cls, client: Client, merged: Support, dictionary: StandardBasis, orthonormal: bool) -> _SeveralOutputs:
        """As `RestrictedProblem.of`."""
        n_atoms, n_outputs = client.model_shape
        atoms, outputs = np.divmod(merged, n_outputs)
        used = np.zeros(n_atoms, bool)
        used[atoms] = True
        if 2 * np.count_nonzero(used) < n_atoms or isinstance(client.features, SparseFeatures):
            columns, places = client.columns(np.flatnonzero(used)), (used.cumsum() - 1)[atoms] * n_outputs + outputs
        else:
            columns, places = client.features, merged
        coordinates = _blocks(dictionary, atoms, outputs, n_outputs) if orthonormal else None
        gram = None if coordinates is None else dictionary.inner_products(atoms)
        return cls(columns, client.targets, client.loss, coordinates, places=places, n_outputs=n_outputs, gram=gram)

    @property
    def size(self) -> int:
        """Number of coordinates k."""
        return len(self.places) if self.coordinates is None else int(self.coordinates.to_coefficients.shape[1])

    def predictions(self, z: Array) -> Array:
        """The predictions on all rows, one contiguous column for each output."""
        matrix = np.zeros((self.columns.shape[1], self.n_outputs), self.columns.dtype)
        matrix.reshape(-1)[self.places] = self.coefficients(z)
        product: Array = (matrix.T @ self.columns.T).T
        return product

    def steps(self, direction: Array) -> Array:
        """As `RestrictedProblem`."""
        steps: Array = self.lengths[self.places // self.n_outputs] * self.coefficients(direction)
        return steps

    def pull_back(self, derivative: Array) -> Array:
        """The transpose of `predictions`."""
        gradient = super().pull_back(derivative).reshape(-1)[self.places]
        return gradient if self.coordinates is None else _product(self.coordinates.to_coefficients.T, gradient)

    def hessian(self, predictions: Array) -> Array:
        """Blocks of B_c' W_cc' B_c', where row j of W_cc' is the derivative of entry c of l' in prediction c'."""
        atoms, outputs = np.divmod(self.places, self.n_outputs)
        members = [np.flatnonzero(outputs == output) for output in range(self.n_outputs)]
        blocks = np.zeros((len(outputs), len(outputs)), self.columns.dtype)
        for second, own in enumerate(members):
            towards = np.zeros_like(predictions)
            towards[:, second] = self.row_weight
            bent = self.loss.curvature(predictions, self.targets, towards)
            for first, others in enumerate(members[: second + 1]):
                weighted = self.columns[:, atoms[own]] * bent[:, first, None]
                block = self.columns[:, atoms[others]].T @ weighted
                blocks[np.ix_(others, own)] = block
                blocks[np.ix_(own, others)] = block.T
        if self.coordinates is None:
            return blocks
        forth = self.coordinates.to_coefficients
        return (forth.T @ blocks @ forth).astype(blocks.dtype, copy=False)

    @property
    def shifts(self) -> Array:
        """Orthonormal directions of z that change all outputs alike, where the loss does not notice these.

        In coordinates these are the z with equal signals Q_c z_c, for which || sum_c Q_c z_c ||^2 = C ||z||^2, the
        most.
        """
        if not self.loss.shift_invariant:
            return super().shifts
        if self.coordinates is None or self.gram is None:
            return shift_directions(self.places, self.n_outputs)
        forth = self.coordinates.to_coefficients
        energies, directions = np.linalg.eigh(forth.T @ self.gram @ forth)
        found: Array = directions[:, energies >= (1 - 1e-9) * self.n_outputs]
        return found


def _blocks(dictionary: StandardBasis, atoms: Support, outputs: Support, n_outputs: int) -> Coordinates | None:
    """Orthonormal coordinates for each output on its own: block-diagonal up to the order of the coefficients."""
    forth, back, done = np.zeros((len(atoms), len(atoms))), np.zeros((len(atoms), len(atoms))), 0
    for output in range(n_outputs):
        members = np.flatnonzero(outputs == output)
        coordinates = dictionary.coordinates(atoms[members])
        if coordinates is None:
            return None
        rank = coordinates.to_coefficients.shape[1]
        forth[members, done : done + rank] = coordinates.to_coefficients
        back[done : done + rank, members] = coordinates.from_coefficients
        done += rank
    return Coordinates(forth[:, :done], back[:done])


def shift_directions(support: Support, n_outputs: int) -> Array:
    """Orthonormal directions (k, s) that change all outputs of an atom alike, for the atoms that every output has."""
    atoms, count = np.unique(support // n_outputs, return_counts=True)
    alike = support[:, None] // n_outputs == atoms[count == n_outputs]
    directions: Array = alike / np.sqrt(n_outputs)
    return directions


def inner(left: Array, right: Array) -> float:
    """The inner product in float64, where products of float32 neither overflow nor vanish."""
    return float(left.reshape(-1).astype(np.float64) @ right.reshape(-1).astype(np.float64))


def _product(left: Array, right: Array) -> Array:
    """left @ right in the precision of the data, although coordinates are float64."""
    product: Array = (left @ right).astype(min(left.dtype, right.dtype), copy=False)
    return product
