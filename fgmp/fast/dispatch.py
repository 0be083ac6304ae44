"""The kernels of this package, each with the functions of the methods that it stands for.

The rows of all clients have to be one dense array; then there are kernels for

- `FedGradMP` with exact solutions of the squared loss, in the standard basis or orthonormal atoms,
  without a ball, tau at most 50, counted by `PerOutput` without `always_include`;
- `FedGradMP` with `SGD`, or with a number of steps of `GradientDescent` (the default for labels),
  for the squared, the logistic and the softmax loss, with or without a ball and `always_include`,
  counted by `PerOutput` or `PerAtom`, in the standard basis, in orthonormal atoms, and in atoms
  that `approximation="thresholding"` selects;
- `FedAvg`, `FedHT`, `FedIterHT`, `FedMid` and `FedDualAvg` for the three losses, in every
  dictionary, counted by `PerOutput` without `always_include`.

All else runs the reference implementation: sparse and streamed rows, `Newton`, an `accuracy`,
matching pursuit, `Overall`, losses and solvers of a user, other methods. So does a client whose
system is nearly singular, or whose numbers are not finite. `Result.fallbacks` counts
these updates by the reason.

The first run that looks for a kernel imports this module, and methods know nothing of it. Numba is
imported, and a loop compiled, by the first run that a kernel serves.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._support.warnings import warn_user
from ..backends import KernelUpdates, kernel
from ..baselines import Baseline, FedAvg, FedDualAvg, FedIterHT, FedMid
from ..data import Federation
from ..dictionaries import Dictionary, StandardBasis
from ..fedgradmp import FedGradMP
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..method import Call
from ..selection import PerAtom, PerOutput
from ..simulation import LocalClients
from ..solvers import SGD, Exact, GradientDescent, solver_for
from ..sparse_model import Array, IndexArray, SparseModel
from .arguments import AtomProducts, CohortData, CountedEntries, Objective, Pursuit, RandomStream
from .models import DenseModels, SparseModels

# The multiplications of a call below which one thread does it: to wake another takes as long.
_FEW_MULTIPLICATIONS = 1e5

# The largest tau of Algorithm 1 in a kernel: LAPACK solves for more than 3 tau = 150 merged atoms
# faster (measured: 1.0 times the kernel's time with tau = 50, 0.6 with 100, 0.3 with 400).
_MOST_SOLVED = 50

# The loops that could not be compiled in this process, with the reason: each is tried once.
_FAILED_LOOPS: dict[str, str] = {}

_thread_pool = cache(ThreadPoolExecutor)
if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_thread_pool.cache_clear)


# What kernels ask of the rows.


def _selects_entries_of_dense_rows(method: FedGradMP | Baseline, federation: Federation) -> bool:
    """Return whether each output's entries are selected alone, and the rows are one array."""
    return (
        type(method.selection) is PerOutput
        and not method.selection.always_include
        and _has_dense_rows(federation)
    )


def _has_dense_rows(federation: Federation) -> bool:
    """Return whether the rows of all clients are one dense array, a row after the other."""
    features = federation.features
    return isinstance(features, np.ndarray) and features.flags.c_contiguous


# FedGradMP: Algorithms 1 and 2.

_LABELS_AND_NUMBERS = (SquaredLoss, LogisticLoss, SoftmaxLoss)


def has_compiled_solver(method: FedGradMP, federation: Federation) -> bool:
    """Return whether there is a loop for the solver of a method, with its atoms, on these rows."""
    solver = method.solver or solver_for(federation.loss)
    if type(solver) is Exact:
        return _solves_least_squares_in_orthonormal_atoms(method, federation)
    takes_steps = type(solver) is SGD or (
        type(solver) is GradientDescent and solver.accuracy is None
    )
    return takes_steps and _selects_by_thresholding(method) and _has_dense_rows(federation)


def _solves_least_squares_in_orthonormal_atoms(method: FedGradMP, federation: Federation) -> bool:
    """Return whether a method with exact solutions is Algorithm 1, without a ball."""
    return (
        type(federation.loss) is SquaredLoss
        and method.radius is None
        and type(method.dictionary) in (StandardBasis, Dictionary)
        and method.dictionary.is_orthonormal
        and min(method.sparsity, federation.n_features) <= _MOST_SOLVED
        and _selects_entries_of_dense_rows(method, federation)
    )


def _selects_by_thresholding(method: FedGradMP) -> bool:
    """Return whether atoms are selected by thresholding, and not by matching pursuit.

    Each output has its own entries, or all outputs share their atoms.
    """
    dictionary = method.dictionary
    is_thresholded = type(dictionary) is StandardBasis or (
        type(dictionary) is Dictionary
        and (dictionary.is_orthonormal or dictionary.approximation == "thresholding")
    )
    return is_thresholded and type(method.selection) in (PerOutput, PerAtom)


@kernel(
    FedGradMP.client_update,
    steps={"prune": FedGradMP.prune},
    losses=_LABELS_AND_NUMBERS,
    when=has_compiled_solver,
)
def pursuit(
    method: FedGradMP, clients: LocalClients, call: Call, x: SparseModel, cohort: IndexArray
) -> KernelUpdates | None:
    """Run the local iterations of FedGradMP at each client of a cohort."""
    solver: Any = method.solver or solver_for(clients.info.loss)
    task = _task_of(method, x, len(cohort))
    arguments: tuple[Any, ...] = (task,)
    if type(solver) is Exact:
        loop = "pursuit_loop"
        # Of each row: its part of the gradients, and of the products of the merged columns.
        multiplications = x.shape[0] + 9.0 * min(method.sparsity, x.shape[0]) ** 2
    else:
        is_sgd = isinstance(solver, SGD)
        loop = "stochastic_pursuit_loop" if is_sgd else "line_search_pursuit_loop"
        # Of each row: its part of the gradients of the minibatch and of the steps.
        multiplications = 2.0 * (1 + int(solver.steps)) * math.prod(x.shape)
        arguments += (
            _objective_of(clients.info.loss),
            float("inf") if method.radius is None else float(method.radius),
            math.prod(x.shape[1:]),  # the number of outputs
            int(solver.steps),
            float(solver.learning_rate) if is_sgd else 0.0,
            int(solver.batch_size or 0) if is_sgd else 0,  # 0 is all rows
        )
    multiplications *= method.local_iterations
    if not _run_loop(loop, method, clients, call, cohort, arguments, multiplications):
        return None
    updates = SparseModels(task.supports, task.values, task.counts, x.shape)
    return KernelUpdates(updates, np.flatnonzero(task.counts == 0).tolist())


def _objective_of(loss: Loss) -> Objective:
    """Return what tells the loss of a row: of these losses only the logistic has a margin."""
    return Objective(float(getattr(loss, "margin", 0)), loss.row_weight(2) < 1)


def _task_of(method: FedGradMP, x: SparseModel, cohort_size: int) -> Pursuit:
    """Return what a loop of FedGradMP is given of a method and of x_t, with room for updates."""
    n_atoms = x.shape[0]
    always_include = np.zeros(n_atoms, np.bool_)
    always_include[list(method.selection.always_include)] = True
    products = AtomProducts(np.empty((0, 0)), np.empty(0))
    if isinstance(method.dictionary, Dictionary) and not method.dictionary.is_orthonormal:
        products = AtomProducts(method.dictionary.gram, method.dictionary.norms)

    # The most entries of an update: tau and the atoms that are always included, for each output.
    n_outputs = math.prod(x.shape[1:])
    most_atoms = min(int(method.sparsity) + int(always_include.sum()), n_atoms)
    supports = np.zeros((cohort_size, most_atoms * n_outputs), np.int64)
    return Pursuit(
        int(method.local_iterations),
        CountedEntries(int(method.sparsity), type(method.selection) is PerAtom, always_include),
        products,
        x.support.astype(np.int64),
        x.values,
        supports,
        np.zeros(supports.shape, x.values.dtype),
        np.zeros(cohort_size, np.int64),
    )


# Baselines: gradient steps with thresholds.


class Descent(NamedTuple):
    """What the local steps of a baseline start from, and how they threshold.

    Hard thresholding keeps `sparsity` entries of each output; 0 is all. Soft thresholding takes
    `before` off the point of each gradient, and `after` off each iterate.
    """

    start: Array
    sparsity: int = 0
    before: list[float] | float = 0.0
    after: float = 0.0


# The function of a client, the step by which the methods that share it differ, and their descents.
_DESCENTS: tuple[tuple[Any, dict[str, Any], Callable[[Any, Any], Descent]], ...] = (
    (FedAvg.client_update, {"thresholded": FedAvg.thresholded}, lambda _, x: Descent(x)),
    (
        FedAvg.client_update,
        {"thresholded": FedIterHT.thresholded},
        lambda method, x: Descent(x, int(method.sparsity) if method.sparsity < len(x) else 0),
    ),
    (
        FedAvg.client_update,
        {"thresholded": FedMid.thresholded},
        lambda method, x: Descent(x, after=method.learning_rate * method.l1_weight),
    ),
    (
        FedDualAvg.client_update,
        {"thresholds": FedDualAvg.thresholds},
        lambda method, message: Descent(message[0], before=method.thresholds(message[1])),
    ),
)


def _descend(
    descent_of: Callable[[Any, Any], Descent],
    method: Baseline,
    clients: LocalClients,
    call: Call,
    message: Any,
    cohort: IndexArray,
) -> KernelUpdates | None:
    """Take the local steps of a baseline at each client of a cohort."""
    start, sparsity, before, after = descent_of(method, message)
    thresholds = np.zeros((method.local_iterations, 2), start.dtype)
    thresholds[:, 0] = before
    thresholds[:, 1] = after
    row_products = np.empty((0, 0), start.dtype)
    if sparsity == 0 and not thresholds.any() and start.ndim > 1:
        row_products = _row_products(clients, method)

    # The model that was sent to each client, a row for each output.
    models = np.repeat(start.reshape(1, len(start), -1).transpose(0, 2, 1), len(cohort), axis=0)
    arguments = (
        float(method.learning_rate),
        _objective_of(clients.info.loss),
        sparsity,
        thresholds,
        row_products,
        models,
    )
    multiplications = 2.0 * method.local_iterations * start.size
    if not _run_loop("descent_loop", method, clients, call, cohort, arguments, multiplications):
        return None
    values = models.transpose(0, 2, 1).reshape(len(cohort), *start.shape)
    return KernelUpdates(DenseModels(values))


for _client_update, _steps, _descent_of in _DESCENTS:
    kernel(
        _client_update,
        steps=_steps,
        losses=_LABELS_AND_NUMBERS,
        when=_selects_entries_of_dense_rows,
    )(partial(_descend, _descent_of))


def _row_products(clients: LocalClients, method: Baseline) -> Array:
    """Return A_i A_i' of all clients, shape (M, most rows), or (0, 0) if that saves no work.

    They are computed once for a run. With several outputs all of them share the products.
    """
    federation = clients.federation
    derived = clients.backend_record.derived
    most_rows = int(federation.n_rows.max())
    n_features = federation.n_features
    seen = method.local_iterations * min(method.batch_size or most_rows, most_rows)
    if most_rows * (seen + 2 * n_features) > seen * n_features:
        return np.empty((0, 0), federation.dtype)

    if "row_products" not in derived:
        parts = []
        for begin, end in pairwise(federation.offsets):
            A = federation.features[begin:end]
            parts.append(np.pad(A @ A.T, ((0, 0), (0, most_rows - len(A)))))
        derived["row_products"] = np.concatenate(parts)
    return derived["row_products"]


# What all kernels share.


def _run_loop(
    name: str,
    method: FedGradMP | Baseline,
    clients: LocalClients,
    call: Call,
    cohort: IndexArray,
    arguments: tuple[Any, ...],
    multiplications: float,
) -> bool:
    """Run a loop over a cohort, in parts on several threads if there is enough to do.

    The parts have about as many rows each; `multiplications` is the number of them for a row.
    Return False, before anything is computed, if the loop cannot be compiled.
    """
    if name in _FAILED_LOOPS:
        return False

    federation = clients.federation
    begins = federation.offsets[cohort].astype(np.int64)
    ends = federation.offsets[cohort + 1].astype(np.int64)
    n_rows = ends - begins
    batch_sizes = n_rows if method.batch_size is None else np.minimum(method.batch_size, n_rows)
    data = CohortData(
        federation.features,
        federation.targets.astype(federation.dtype, copy=False),
        begins,
        ends,
        batch_sizes,
        federation.client_ids[cohort].astype(np.int64),
    )
    streams = call.streams
    stream = RandomStream(streams.key, streams.CLIENT, call.exchange_index, call.round)

    try:  # in this thread, so that a warning reaches the user; the others find it compiled
        import numba

        from . import kernels

        loop = getattr(kernels, name).compiled_for(0, len(cohort), data, stream, *arguments)
    except Exception as error:  # Numba, or LLVM below it, may raise anything
        reason = f"{type(error).__name__}: {error}"
        if reason not in _FAILED_LOOPS.values():
            warn_user(
                f"Numba is installed and does not work ({reason}); the run goes on with the "
                "reference implementation, more slowly. What helps: install it anew, or "
                'fgmp.backend("reference"), which does not import it',
                of_machine=True,
            )
        _FAILED_LOOPS[name] = reason
        return False

    most_threads = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    is_long = multiplications * n_rows.sum() >= _FEW_MULTIPLICATIONS
    bounds = _bounds_of_parts(n_rows, min(most_threads, len(cohort)) if is_long else 1)
    (first, last), *others = pairwise(bounds)
    pool = _thread_pool(most_threads)
    tasks = [
        pool.submit(copy_context().run, loop, start, stop, data, stream, *arguments)
        for start, stop in others
    ]
    loop(first, last, data, stream, *arguments)
    for task in tasks:
        task.result()
    return True


def _bounds_of_parts(n_rows: IndexArray, n_parts: int) -> list[int]:
    """Return where to cut a cohort into parts of about as many rows, from 0 to its size."""
    rows_so_far = np.cumsum(n_rows)
    shares = rows_so_far[-1] * np.arange(1, n_parts) / n_parts
    inner = np.searchsorted(rows_so_far, shares, side="right")
    return [0, *inner.tolist(), len(n_rows)]
