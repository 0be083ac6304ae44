"""Two runs that should agree: in another order, in other units, in other storage or precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .problems import Problem, problem_of
from .recount import objective
from .runs import Run, run

SHAKEN = 3
LINE_SEARCHES = ("default", "exact", "gradient", "newton", "local-newton")


def in_another_order(first: Run) -> Iterator[str]:
    """The same federation with its clients in another order: the same bits."""
    order = list(reversed(range(len(first.problem.As))))
    yield from _different("order of clients", first, run(first.case, order=order))


def in_units_of_one(first: Run) -> Iterator[str]:
    """The law of units, exact for powers of two.

    With columns times c, targets times s and hyper-parameters in their units, models are s/c times and objectives s^2
    times as large (s = 1 for labels), and nothing else changes. Left out are line searches for a minimiser that labels
    which can be separated do not have: they end where curvatures underflow.
    """
    case, problem = first.case, first.problem
    endless = (
        case.federation == "tiny"
        and case.loss in ("logistic", "softmax")
        and case.solver in LINE_SEARCHES
    )
    if not endless and case.columns != "mixed" and (case.columns, case.targets) != ("one", "one"):
        base = run(case._replace(columns="one", targets="one"))
        yield from _different("units", first, base, problem.unit, problem.target**2)


def in_double_precision(first: Run) -> Iterator[str]:
    """The objective after a run in float32 or on sparse matrices against that in float64 on dense ones.

    A float32 run is as good as its data, which are known to 2^-24: how far such errors carry is measured with float64
    runs on shaken data. A problem where they carry to another support is not well conditioned, and is left out.
    """
    case, double = first.case, first.case._replace(precision="float64", storage="dense")
    if case == double or case.columns == "mixed" or case.federation in ("tiny", "blank"):
        return  # the same, or minimisers on a support that are not unique
    problem = problem_of(double)
    expected, *shaken = (
        objective(problem, run(double, made).result.coefficients)[0]
        for made in (problem, *(_shaken(problem, seed) for seed in range(SHAKEN)))
    )
    spread, alpha = max(abs(value - expected) for value in shaken), first.result.coefficients
    found, scale = objective(first.problem, alpha)[0], objective(problem, 0 * alpha)[0]
    tolerance = 16 * spread + 64 * np.finfo(np.float32).eps * scale
    if spread <= 1e-3 * scale and not abs(found - expected) <= tolerance:
        yield f"precision: f is {found!r}; float64 on dense rows has {expected!r} +- {tolerance:.1e}"


def _shaken(problem: Problem, seed: int) -> Problem:
    rng, eps = np.random.default_rng(seed), np.finfo(np.float32).eps

    def shake(array: np.ndarray) -> np.ndarray:
        return (
            array * (1 + eps * rng.uniform(-1, 1, array.shape))
            if array.dtype.kind == "f"
            else array
        )

    ys = problem.ys if problem.loss == "logistic" else [shake(y) for y in problem.ys]
    return replace(problem, As=[shake(A) for A in problem.As], ys=ys)


def _different(
    name: str, first: Run, second: Run, unit: float = 1.0, value: float = 1.0
) -> Iterator[str]:
    pairs = {"x": unit, "coefficients": unit}
    for column, factor in pairs.items():
        ours, theirs = getattr(first.result, column), factor * getattr(second.result, column)
        if ours.shape != theirs.shape or not np.array_equal(ours, theirs, equal_nan=True):
            size = np.abs(theirs).max()
            yield f"{name}: {column} differs by {np.abs(ours - theirs).max() / (size or 1):.1e} of its largest entry"
    for column, ours in first.result.history.items():
        factor = {"objective": value, "kept": 0.0, "seconds": 0.0}.get(column, 1.0)
        theirs = factor * second.result.history[column]
        if column != "seconds" and not np.array_equal(ours, theirs, equal_nan=True):
            yield f"{name}: the column {column} is {ours}, and otherwise {theirs}"


COMPARISONS = (in_another_order, in_units_of_one, in_double_precision)


def disagreements(first: Run) -> list[str]:
    return list(dict.fromkeys(sentence for compare in COMPARISONS for sentence in compare(first)))
