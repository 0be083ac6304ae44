"""Who holds which data, with which weight.

`Client` computes predictions, gradients and objectives on its own rows; `Federation` is the clients with weights p_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from .checks import as_array, check_array, check_integer, check_kind, check_sequence, precision_of
from .client import Client
from .frames import federation_from_frame
from .labels import Labels, coded_for, labels_behind
from .losses import Loss, SquaredLoss, loss_named
from .models import Array, SparseModel
from .shapes import Shape, in_words, scaled
from .sparse_features import SparseFeatures, stacked

__all__ = ["Client", "Federation", "check_federation"]


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients and their weights p_i: the problem min over x of f(x) = sum_i p_i f_i(x) (paper, Section II).

    Parameters
    ----------
    clients : tuple of Client
        Kept in the order of their keys, so that the order in which they are given changes nothing.
    weights : ndarray, shape (n_clients,)
        The p_i, in the order of the clients given; they are scaled to sum to one.
    truth : ndarray or None
        x#, the model that made the data, where there is one.
    labels : tuple of two values, or None
        What the data call the -1 and +1 of the logistic loss.
    feature_names, site_names : tuple or None
        What the columns and the clients are called, these by their key, where they came from a table.
    """

    clients: tuple[Client, ...]
    weights: Array
    truth: Array | None = None
    labels: Labels | None = None
    feature_names: tuple[str, ...] | None = None
    site_names: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        clients = tuple(check_sequence("clients", self.clients, "a sequence of Client"))
        if not clients:
            raise ValueError("clients is empty; expected at least one client")
        for client in clients:
            check_kind("clients", client, Client, "a sequence of Client, which all are one")
        _check_alike(clients)
        keys = [client.key for client in clients]
        if len(set(keys)) < len(keys):
            raise ValueError(f"clients have keys {keys}; expected no key twice")
        weights = scaled(self.weights, len(clients))
        order = np.argsort(keys)
        object.__setattr__(self, "clients", tuple(clients[i] for i in order))
        object.__setattr__(self, "weights", weights[order])
        rows, first = tuple(client.n_samples for client in self.clients), clients[0]
        shape = Shape(first.n_features, first.loss, rows, tuple(sorted(keys)), self.weights, first.dtype)
        object.__setattr__(self, "_shape", shape)
        if self.truth is not None:
            truth = check_array("truth", self.truth)
            if truth.shape != self.model_shape:
                raise ValueError(f"truth has shape {truth.shape}; expected {self.model_shape}")
            object.__setattr__(self, "truth", truth)
        self._check_names()

    def __repr__(self) -> str:
        return in_words(self)

    def _check_names(self) -> None:
        counts = {"labels": 2, "feature_names": self.n_features, "site_names": None}
        for name, count in counts.items():
            given = getattr(self, name)
            if given is None:
                continue
            several = tuple(check_sequence(name, given, "a sequence, or None"))
            if count is not None and len(several) != count:
                raise ValueError(f"{name} has {len(several)} entries; expected {count}")
            object.__setattr__(self, name, several)

    @classmethod
    def from_arrays(
        cls,
        As: Sequence[ArrayLike],
        ys: Sequence[ArrayLike],
        loss: str | Loss = "squared",
        weights: ArrayLike | None = None,
        truth: ArrayLike | None = None,
        labels: Sequence[Any] | None = None,
    ) -> Federation:
        """Build a federation from one data matrix and one vector of targets per client.

        Parameters
        ----------
        As : sequence of array_like, sparse matrices or LinearOperator, each of shape (n_samples_i, n_features)
            The matrices A_i. float32 stays float32; anything else becomes float64. Nothing is modified; an array
            in Fortran order (C order for softmax, and for at most 8,192 entries) is not copied, any other is copied
            once. SciPy's sparse matrices and arrays stay sparse, and CSR is not copied. One array of shape
            (n_clients, n_samples, n_features) is checked in one pass: faster where clients are many and small.
        ys : sequence of array_like, each of shape (n_samples_i,)
            The targets y_i.
        loss : {"squared", "logistic", "softmax"} or Loss
            The loss of every client. Labels are two values of any kind for logistic, integers 0..C-1 for softmax,
            where C is one more than the largest label; `SoftmaxLoss` sets C.
        weights : array_like of shape (n_clients,), default |D_i| / sum |D_i|
            The p_i: not negative, scaled to sum to one.
        truth : array_like, optional
            x#, of the shape of a model.
        labels : sequence of two values, optional
            For the logistic loss: the label that becomes -1, and the one that becomes +1. By default the two that
            occur, in increasing order. The federation keeps them, and `label` maps predictions back.

        Returns
        -------
        Federation

        Raises
        ------
        ValueError
            Where lengths, shapes or values do not fit; the message names the argument and the client.

        Examples
        --------
        >>> import fgmp
        >>> federation = fgmp.Federation.from_arrays([[[1, 0], [0, 1]], [[2, 1]]], [[3, 4], [5]])
        >>> federation.n_clients, federation.model_shape, federation.weights.round(3).tolist()
        (2, (2,), [0.667, 0.333])
        """
        if sparse.issparse(As):
            raise ValueError("As is one sparse matrix; expected a sequence of matrices, one for each client")
        block, As = As, check_sequence("As", As, "a sequence of matrices, one for each client")
        ys = check_sequence("ys", ys, "a sequence of vectors, one for each client")
        if len(As) != len(ys):
            raise ValueError(f"ys has {len(ys)} entries; expected one for each of the {len(As)} matrices of As")
        if len(As) == 0:
            raise ValueError("As is empty; expected at least one client")
        ys, kept = coded_for(loss, ys, labels)
        clients = _clients_at_once(block, ys, loss) or _clients_one_by_one(As, ys, loss)
        given: Any = [client.n_samples for client in clients] if weights is None else weights
        return cls(tuple(clients), given, truth, kept)  # type: ignore[arg-type]

    from_frame = classmethod(federation_from_frame)

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.clients)

    @property
    def n_features(self) -> int:
        """The dimension n of the signals."""
        return self.clients[0].n_features

    @property
    def loss(self) -> Loss:
        """The loss of the clients."""
        return self.clients[0].loss

    @property
    def model_shape(self) -> tuple[int, ...]:
        """Shape of a model x."""
        return self.clients[0].model_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64, as the data."""
        return self.clients[0].dtype

    @property
    def rows(self) -> tuple[int, ...]:
        """|D_i|, the rows of each client."""
        return self.shape.rows

    @property
    def shape(self) -> Shape:
        """What a server knows of the federation: all that `start` and `check` of a method need."""
        shape: Shape = vars(self)["_shape"]
        return shape

    def objective(self, x: Array | SparseModel) -> float:
        """f(x) = sum_i p_i f_i(x), for x of the shape of a model; nan or infinite where x has diverged."""
        if not isinstance(x, SparseModel):
            x = as_array("x", x)
            x = x.astype(precision_of("x", x.dtype), copy=False)
        if x.shape != self.model_shape:
            raise ValueError(f"x has shape {x.shape}; expected {self.model_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            return float(sum(p * client.objective(x) for p, client in zip(self.weights, self.clients, strict=True)))

    def label(self, predictions: ArrayLike) -> Array:
        """What the data call each prediction of the logistic loss: the second label where z > 0, else the first."""
        return labels_behind(predictions, self.labels)

    def pooled(self) -> Federation:
        """One client that holds all rows and has the objective f: what an algorithm in one place would see.

        Where a row weighs more or less than it would in one place, the rows of the squared loss are scaled by the
        square root of the ratio; for other losses that is a ValueError.
        """
        counts = [client.n_samples for client in self.clients]
        each = np.array([self.loss.row_weight(count) for count in counts])
        scales = np.sqrt(self.weights * each / self.loss.row_weight(sum(counts)))
        alike = bool(np.allclose(scales, 1, rtol=1e-12))
        if not alike and not isinstance(self.loss, SquaredLoss):
            raise ValueError(
                f"weights are not in proportion to the rows of the clients; expected that for the loss {self.loss!r}"
            )
        parts = [(client.features, client.targets) for client in self.clients]
        if not alike:
            parts = [(s * A, s * y) for s, (A, y) in zip(scales.astype(self.dtype), parts, strict=True)]
        matrices, vectors = zip(*parts, strict=True)
        several = any(isinstance(A, SparseFeatures) for A in matrices)
        features, targets = stacked(matrices) if several else np.concatenate(matrices), np.concatenate(vectors)
        return Federation((Client(features, targets, self.loss, 0),), np.ones(1), self.truth, self.labels)

    def check_sparsity(self, sparsity: int, n_atoms: int) -> None:
        """Raise a ValueError where a sparsity is larger than the number of atoms."""
        check_integer("sparsity", sparsity, at_most=n_atoms, why="the number of atoms")

    def check_batch_size(self, batch_size: int | None) -> None:
        """Raise a ValueError where a minibatch has more rows than some client holds; None is the full batch."""
        if batch_size is not None:
            smallest = min(client.n_samples for client in self.clients)
            check_integer("batch_size", batch_size, at_most=smallest, why="the rows of the smallest client")

    def check_cohort(self, cohort_size: int | None) -> int:
        """The cohort size L, all clients where it is None; a ValueError where it does not fit."""
        return self.shape.check_cohort(cohort_size)


def check_federation(name: str, federation: Any) -> Federation:
    """Return a federation, or raise a ValueError where it is something else."""
    found: Federation = check_kind(name, federation, Federation, "a Federation, as from_arrays makes one")
    return found


def _check_alike(clients: Sequence[Client]) -> None:
    """Raise a ValueError where clients have models of several shapes, or other precisions."""
    first = clients[0]
    for client in clients:
        if client.n_features != first.n_features or client.model_shape != first.model_shape:
            raise ValueError(
                f"clients have models of shape {first.model_shape} and, that with key {client.key}, "
                f"{client.model_shape}; expected one shape"
            )


def _clients_at_once(As: Any, ys: Any, loss: str | Loss) -> list[Client] | None:
    """Clients whose rows are one array; None where they are not, or where one is wrong: who, `Client.named` says."""
    if not isinstance(As, np.ndarray) or isinstance(As, np.ma.MaskedArray) or As.ndim != 3 or not As.flags.c_contiguous:
        return None
    try:
        targets = check_array("ys", ys, ndim=2)
        if targets.shape != As.shape[:2]:
            return None
        return Client.alike(As, targets, loss_named(loss, [targets]))
    except ValueError:
        return None


def _clients_one_by_one(As: Sequence[Any], ys: Sequence[Any], loss: str | Loss) -> list[Client]:
    targets = [check_array(f"ys[{i}]", y, ndim=1) for i, y in enumerate(ys)]
    loss = loss_named(loss, targets)
    pairs = enumerate(zip(As, targets, strict=True))
    clients = [Client.named(A, y, loss, i, (f"As[{i}]", f"ys[{i}]")) for i, (A, y) in pairs]
    for client in clients:
        if client.n_features != clients[0].n_features:
            raise ValueError(
                f"As[{client.key}] has {client.n_features} features; expected {clients[0].n_features}, as As[0]"
            )
    precision = np.result_type(*(client.dtype for client in clients))
    return [_with_precision(client, precision) for client in clients]


def _with_precision(client: Client, precision: np.dtype[Any]) -> Client:
    features, targets = client.features, client.targets
    if client.dtype == precision and (targets.dtype == precision or targets.dtype.kind != "f"):
        return client
    if not isinstance(features, LinearOperator):
        features = features.astype(precision, copy=False)
    elif client.dtype != precision:
        raise ValueError(f"As[{client.key}] is streamed in {client.dtype}; expected {precision}, as other clients have")
    if targets.dtype.kind == "f":
        targets = targets.astype(precision, copy=False)
    return Client.named(features, targets, client.loss, client.key, (f"As[{client.key}]", f"ys[{client.key}]"))
