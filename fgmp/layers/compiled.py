"""Compiled twins of what clients answer: a whole cohort in one call, where Numba is installed.

A method names its twin in its exchange; the twin stands for the printed steps that it was written for and no others: a
class that overrides one of them runs as printed, and so does everything with ``FGMP_READABLE=1`` in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..answers import SparseModels
from ..federation import Federation
from ..losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from ..models import Array, SparseModel, Support
from ..selection import Overall, PerAtom, PerOutput
from ..solvers import Exact

_NUMBA = find_spec("numba") is not None  # importing it takes half a second, so that is for those who run
Twin = Callable[..., "Sequence[Any] | None"]

_SMALL = 1e5  # multiplications of a call below which one thread does it: to wake another takes as long


def _as_printed(method: Any, *steps: str) -> bool:
    """Whether the steps of a method are those of this package."""
    return all(getattr(type(method), name).__module__.startswith("fgmp.methods.") for name in steps)


def _table(federation: Federation) -> bool:
    """Whether the rows are a dense table, Numba is installed, and nobody asked for the printed form."""
    features, readable = federation.features, os.environ.get("FGMP_READABLE") == "1"
    return _NUMBA and not readable and isinstance(features, np.ndarray) and features.flags.c_contiguous


def _counts(selection: Any, n_outputs: int) -> bool:
    """Whether a selection counts as the loops do: the entries of each output, none of which always stays."""
    kinds = (PerOutput, PerAtom, Overall) if n_outputs == 1 else (PerOutput,)  # one output: all the same
    return type(selection) in kinds and not selection.always


def _cohort(federation: Federation, call: Any, cohort: Support, batch_size: int | None) -> tuple[Array, Any]:
    """Rows, minibatches and random numbers of a cohort, as the loops read them."""
    begin, end = federation.offsets[cohort], federation.offsets[cohort + 1]
    batch = end - begin if batch_size is None else np.minimum(batch_size, end - begin)
    stream = call.streams.key, call.streams.ANSWER, call.place, call.round
    return np.array([begin, end, batch, federation.keys[cohort], np.arange(len(cohort))], np.int64), stream


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def _called(work: float, loop: Callable[..., Any], table: tuple[Array, Array], cohort: Array, *given: Any) -> Any:
    """What a loop returns for a cohort: parts of about as many rows on each of Numba's threads, unless it is soon done.

    A part is what `loop` would return for a smaller cohort, so the bits are the same for any number of threads.
    """
    from numba import config

    threads = config.NUMBA_NUM_THREADS if work >= _SMALL else 1  # type: ignore[attr-defined]
    last = np.cumsum(cohort[1] - cohort[0])
    cuts = np.searchsorted(last, last[-1] * np.arange(1, threads) / threads, side="right")
    parts = [np.ascontiguousarray(part) for part in np.split(cohort, cuts, axis=1) if part.size]
    others = [_pool(threads).submit(loop, *table, part, *given) for part in parts[1:]]
    found = [loop(*table, parts[0], *given), *(other.result() for other in others)]
    return found[0] if len(found) == 1 else [np.concatenate(same) for same in zip(*found, strict=True)]


def pursuit_twin(method: Any) -> Twin | None:
    """The twin of `FedGradMP.at_client` with least squares in orthonormal atoms."""
    plain = method.radius is None and (method.solver is None or type(method.solver) is Exact)
    ours = type(method.dictionary).__module__ == "fgmp.dictionaries"  # and no class that selects in another way
    if not plain or not ours or not method.dictionary.orthonormal or not _as_printed(method, "at_client", "pruned"):
        return None

    def together(federation: Federation, call: Any, x: SparseModel, cohort: Support) -> Sequence[Any] | None:
        squared = type(federation.loss) is SquaredLoss and _counts(method.selection, 1)
        if not squared or not _table(federation):
            return None
        from .loops import cohort_pursuit

        rows, stream = _cohort(federation, call, cohort, method.batch_size)
        model = x.support.astype(np.int64), x.values
        loop = method.local_iterations, min(method.sparsity, len(federation.features[0]))
        n, most = federation.features.shape[1], 3 * loop[1]
        work = loop[0] * float((rows[2] * n + (rows[1] - rows[0]) * most**2).sum())
        table = federation.features, federation.targets
        supports, values, counts, solved = _called(work, cohort_pursuit, table, rows, stream, *loop, *model)
        answers = SparseModels(supports, values, counts, x.shape)
        if solved.all():
            return answers
        clients = federation.clients
        each = zip(answers, solved, cohort, strict=True)
        return [answer if fine else call.answer_of(clients[i], x) for answer, fine, i in each]

    return together


def descent_twin(method: Any, step: str = "at_client") -> Twin | None:
    """The twin of the first-order steps of a client, `step`, for the three losses."""
    threshold = type(method).thresholded.__qualname__
    if not _as_printed(method, step, "thresholded", "thresholds") or not _counts(method.selection, 2):
        return None
    K, keep, cuts = method.local_iterations, 0, np.zeros((method.local_iterations, 2))
    if threshold == "FedIterHT.thresholded":
        keep = method.sparsity
    elif threshold == "FedMid.thresholded":
        cuts[:, 1] = method.learning_rate * method.l1_weight
    elif threshold != "FirstOrder.thresholded":
        return None

    def together(federation: Federation, call: Any, message: Any, cohort: Support) -> Sequence[Any] | None:
        known = type(federation.loss) in (SquaredLoss, LogisticLoss, SoftmaxLoss)
        if not known or not _table(federation):
            return None
        from .loops import cohort_descent

        w, rounds = message if isinstance(message, tuple) else (message, 0)
        rows, stream = _cohort(federation, call, cohort, method.batch_size)
        shape, start = w.shape, np.ascontiguousarray(w.reshape(len(w), -1))
        thresholds = cuts.copy()
        thresholds[:, 0] = method.thresholds(rounds)
        lengths = np.array([method.learning_rate * federation.loss.row_weight(int(b)) for b in rows[2]])
        margin = float(getattr(federation.loss, "margin", 0.0))
        plain = not keep and not thresholds.any()
        span = _row_products(federation, cohort) if plain and _span_pays(federation, K, method.batch_size) else _NONE
        targets = federation.targets.astype(federation.dtype, copy=False)
        table, given = (federation.features, targets), (start, margin, lengths, min(keep, len(w)), thresholds, span)
        work = 2.0 * K * rows[2].sum() * start.size
        (ends,) = _called(work, cohort_descent, table, rows, stream, *given)
        return list(ends.transpose(0, 2, 1).reshape(len(cohort), *shape))

    return together


_NONE = np.empty(0), np.empty(0, np.int64)


def _span_pays(federation: Federation, n_steps: int, batch_size: int | None) -> bool:
    """Whether steps of the softmax loss in the span of the rows take fewer multiplications, and little memory."""
    if type(federation.loss) is not SoftmaxLoss:
        return False
    (_, n_features), n_outputs = federation.features.shape, federation.loss.n_classes
    largest = int(federation.rows.max())
    size = largest if batch_size is None else min(batch_size, largest)
    plain = 2 * n_steps * size * n_features * n_outputs
    in_the_span = (n_steps * size + n_features) * largest * n_outputs
    return bool(4 * largest <= n_features and largest**2 * n_features / 2 <= 20 * (plain - in_the_span))


def _row_products(federation: Federation, cohort: Support) -> tuple[Array, Support]:
    """A_i A_i' of all clients in one vector, computed once for a federation, and where those of a cohort begin."""
    from .loops import row_products

    kept = vars(federation)
    if "row_products" not in kept:
        everybody = np.array([federation.offsets[:-1], federation.offsets[1:]], np.int64)
        kept["row_products"] = row_products(federation.features, everybody)
    products, where = kept["row_products"]
    return products, where[cohort]
