"""Compiled twins of what clients answer: a whole cohort in one call, where Numba is installed.

A method names its twin in its exchange; the twin stands for the printed steps that it was written for and no others: a
class that overrides one of them runs as printed, and so does everything with ``FGMP_READABLE=1`` in the environment.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from .._support.warnings import warn_user
from ..aggregation import SparseModels
from ..federation import Federation
from ..losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from ..selection import PerOutput
from ..solvers import Exact
from ..sparse_model import IndexArray, SparseModel

_NUMBA = (
    find_spec("numba") is not None
)  # importing it takes half a second, so that is for those who run
_SMALL = (
    1e5  # multiplications of a call below which one thread does it: to wake another takes as long
)
_MOST = 100  # entries to keep: with more, NumPy is as fast
_pool = cache(ThreadPoolExecutor)
getattr(os, "register_at_fork", dict)(
    after_in_child=_pool.cache_clear
)  # a child has none of its parent's threads


def _serves(
    federation: Federation,
    method: Any,
    steps: tuple[str, ...],
    losses: tuple[type, ...],
    count: int,
) -> bool:
    """Whether a method's steps are this package's, with numbers that the loops read, and few of them to sort."""
    ours = all(
        getattr(type(method), name).__module__.startswith(("fgmp.fedgradmp", "fgmp.baselines."))
        for name in steps
    )
    ours = ours and type(method.selection) is PerOutput and not method.selection.always_include
    dense = isinstance(federation.features, np.ndarray) and federation.features.flags.c_contiguous
    wanted = _NUMBA and os.environ.get("FGMP_READABLE") != "1"
    return wanted and ours and count <= _MOST and dense and type(federation.loss) in losses


@cache
def _loops() -> Any:
    """The module of the loops, or None, which is said once, where Numba is there but does not work."""
    try:
        from . import kernels as loops
    except Exception as error:  # of another version of NumPy, or damaged: that may raise anything
        _say_that_numba_fails(error)
        return None
    return loops


@cache
def _broken() -> set[str]:
    """The loops that could not be compiled in this process."""
    return set()


def _say_that_numba_fails(error: Exception) -> None:
    warn_user(
        f"Numba is installed and does not work ({type(error).__name__}: {error}); the run goes on as printed, more "
        "slowly. What helps: install it anew, or FGMP_READABLE=1 in the environment, which asks for the printed forms",
        of_machine=True,
    )


def _run(
    name: str,
    each: float,
    federation: Federation,
    call: Any,
    cohort: IndexArray,
    batch: Any,
    *given: Any,
) -> bool:
    """One of the loops, with parts of the cohort of about as many rows on each of Numba's threads, unless it is short.

    `each` is the number of multiplications for a row, `batch` the size of a minibatch. False where it cannot be
    compiled: then nothing has been computed.
    """
    loops = _loops()
    if loops is None or name in _broken():
        return False
    loop, most = getattr(loops, name), loops.numba.config.NUMBA_NUM_THREADS
    begin, end = federation.offsets[cohort], federation.offsets[cohort + 1]
    batch, rows = (
        end - begin if batch is None else np.minimum(batch, end - begin),
        np.cumsum(end - begin),
    )
    clients = np.array([begin, end, batch, federation.client_ids[cohort]], np.int64)
    stream = call.streams.key, call.streams.ANSWER, call.exchange_index, call.round
    asked = (
        federation.features,
        federation.targets.astype(federation.dtype, copy=False),
        clients,
        stream,
    )
    threads = min(most, len(cohort)) if each * rows[-1] >= _SMALL else 1
    cuts = [
        0,
        *np.searchsorted(rows, rows[-1] * np.arange(1, threads) / threads, side="right"),
        len(rows),
    ]
    cuts = [int(cut) for cut in cuts]
    try:  # here, where what is said reaches whoever called; the threads then find it compiled
        loop.prepare(*cuts[:2], asked, *given)
    except Exception as error:
        _say_that_numba_fails(error)
        _broken().add(name)
        return False
    others = [
        _pool(most).submit(loop, first, last, asked, *given) for first, last in pairwise(cuts[1:])
    ]
    loop(*cuts[:2], asked, *given)
    for other in others:
        other.result()
    return True


def pursuit_twin(method: Any) -> Any:
    """Stand for `FedGradMP.client_update` with least squares in orthonormal atoms; None for anything else."""
    plain = (
        method.radius is None
        and type(method.solver) in (type(None), Exact)
        and method.dictionary.orthonormal
    )
    plain = (
        plain and type(method.dictionary).__module__ == "fgmp.dictionaries"
    )  # no class that selects in another way

    def cohort_kernel(federation: Federation, call: Any, x: SparseModel, cohort: IndexArray) -> Any:
        K, tau = method.local_iterations, min(method.sparsity, x.shape[0])
        if not plain or not _serves(
            federation, method, ("client_update", "pruned"), (SquaredLoss,), tau
        ):
            return None
        model, shape = (x.support.astype(np.int64), x.values), (len(cohort), tau)
        answers = (
            np.zeros(shape, np.int64),
            np.zeros(shape, x.values.dtype),
            np.zeros(len(cohort), np.int64),
        )
        each = K * (x.shape[0] + 9.0 * tau**2)
        if not _run(
            "cohort_pursuit", each, federation, call, cohort, method.batch_size, K, model, answers
        ):
            return None
        models, solved = SparseModels(*answers, x.shape), answers[2]
        if solved.all():
            return models
        return [
            models[k] if solved[k] else call.update_of(federation.clients[i], x)
            for k, i in enumerate(cohort)
        ]

    return cohort_kernel


def descent_twin(method: Any, step: str = "client_update") -> Any:
    """The twin of the first-order steps of a client, `step`, for the three losses; None for anything else."""
    kind, eta = type(method).thresholded.__qualname__.partition(".")[0], method.learning_rate
    steps, losses = (step, "thresholded", "thresholds"), (SquaredLoss, LogisticLoss, SoftmaxLoss)

    def cohort_kernel(federation: Federation, call: Any, message: Any, cohort: IndexArray) -> Any:
        (w, rounds), loss = message if isinstance(message, tuple) else (message, 0), federation.loss
        keep = method.sparsity if kind == "FedIterHT" and method.sparsity < len(w) else 0
        if kind not in ("FirstOrder", "FedIterHT", "FedMid") or not _serves(
            federation, method, steps, losses, keep
        ):
            return None
        after = eta * method.l1_weight if kind == "FedMid" else 0.0
        cuts = np.array([(before, after) for before in method.thresholds(rounds)], w.dtype)
        products = (
            np.empty((0, 0), w.dtype) if keep or cuts.any() else _row_products(federation, method)
        )
        ends = np.repeat(w.reshape(1, len(w), -1).transpose(0, 2, 1), len(cohort), axis=0)
        how = float(getattr(loss, "margin", 0)), eta, loss.row_weight(2) < 1, keep
        given = (
            2.0 * len(cuts) * w.size,
            federation,
            call,
            cohort,
            method.batch_size,
            how,
            cuts,
            products,
            ends,
        )
        if not _run("cohort_descent", *given):
            return None
        return list(ends.transpose(0, 2, 1).reshape(len(cohort), *w.shape))

    return cohort_kernel


def _row_products(federation: Federation, method: Any) -> Any:
    """A_i A_i' of all clients, shape (M, most rows), made once a run; nothing where a round then multiplied more.

    They are kept in what `Federation.prepare` made for the run: the next one may find other numbers in the same array.
    """
    most, n, kept = int(federation.rows.max()), federation.n_features, vars(federation)
    seen = method.local_iterations * min(method.batch_size or most, most)
    if type(federation.loss) is not SoftmaxLoss or most * (seen + 2 * n) > seen * n:
        return np.empty((0, 0), federation.dtype)
    if "row_products" not in kept:
        each = (federation.features[begin:end] for begin, end in pairwise(federation.offsets))
        kept["row_products"] = np.concatenate(
            [np.pad(A @ A.T, ((0, 0), (0, most - len(A)))) for A in each]
        )
    return kept["row_products"]
