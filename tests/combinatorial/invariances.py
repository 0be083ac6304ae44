"""Invariances: what a run must not depend on, such as the order of clients, units and storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .oracle import objective
from .problems import Problem, problem_of
from .runs import Run, run

N_PERTURBED = 3
LINE_SEARCHES = ("default", "exact", "gradient", "newton", "local-newton")


def in_another_order(first: Run) -> Iterator[str]:
    """With its clients in another order a federation gives the same bits."""
    order = list(reversed(range(len(first.problem.As))))
    yield from _different("order of clients", first, run(first.case, order=order))


def in_units_of_one(first: Run) -> Iterator[str]:
    """The invariance in units, exact for powers of two.

    With columns times c, targets times s and hyper-parameters in their units, models are s/c times
    and objectives s^2 times as large (s = 1 for labels), and nothing else changes. Line searches
    for a minimiser that separable labels do not have end where curvatures underflow, and are left
    out.
    """
    case = first.case
    problem = first.problem
    has_no_minimiser = (
        case.federation == "tiny"
        and case.loss in ("logistic", "softmax")
        and case.solver in LINE_SEARCHES
    )
    if (
        not has_no_minimiser
        and case.columns != "mixed"
        and (case.columns, case.targets) != ("one", "one")
    ):
        base = run(case._replace(columns="one", targets="one"))
        yield from _different("units", first, base, problem.unit, problem.target**2)


def in_double_precision(first: Run) -> Iterator[str]:
    """The objective of a run in float32, or on sparse matrices, is that in float64 on dense ones.

    A float32 run is as good as its data, which are known to 2^-24. How far such errors carry is
    measured with float64 runs on perturbed data. Where they carry to another support the problem is
    not well conditioned, and is left out.
    """
    case = first.case
    double = first.case._replace(precision="float64", storage="dense")
    if case == double or case.columns == "mixed" or case.federation in ("tiny", "blank"):
        return  # the same run, or minimisers on a support that are not unique
    problem = problem_of(double)
    expected, *perturbed = (
        objective(problem, run(double, made).result.coefficients)[0]
        for made in (problem, *(_perturbed(problem, seed) for seed in range(N_PERTURBED)))
    )
    spread = max(abs(value - expected) for value in perturbed)
    alpha = first.result.coefficients
    found = objective(first.problem, alpha)[0]
    scale = objective(problem, 0 * alpha)[0]
    tolerance = 16 * spread + 64 * np.finfo(np.float32).eps * scale
    if spread <= 1e-3 * scale and not abs(found - expected) <= tolerance:
        expectation = f"{expected!r} +- {tolerance:.1e}"
        yield f"precision: f is {found!r}; float64 on dense rows has {expectation}"


def _perturbed(problem: Problem, seed: int) -> Problem:
    """Return a problem whose numbers are off by what float32 does not hold."""
    rng = np.random.default_rng(seed)
    eps = np.finfo(np.float32).eps

    def perturb(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        return array * (1 + eps * rng.uniform(-1, 1, array.shape))

    ys = problem.ys if problem.loss == "logistic" else [perturb(y) for y in problem.ys]
    return replace(problem, As=[perturb(A) for A in problem.As], ys=ys)


def _different(
    name: str, first: Run, second: Run, unit: float = 1.0, value: float = 1.0
) -> Iterator[str]:
    """Yield a sentence for each column of two results that differ by more than their units."""
    for column, factor in {"x": unit, "coefficients": unit}.items():
        ours = getattr(first.result, column)
        theirs = factor * getattr(second.result, column)
        if ours.shape != theirs.shape or not np.array_equal(ours, theirs, equal_nan=True):
            size = np.abs(theirs).max()
            difference = np.abs(ours - theirs).max() / (size or 1)
            yield f"{name}: {column} differs by {difference:.1e} of its largest entry"
    for column, ours in first.result.history.items():
        factor = {"objective": value, "recorded": 0.0, "seconds": 0.0}.get(column, 1.0)
        theirs = factor * second.result.history[column]
        if column != "seconds" and not np.array_equal(ours, theirs, equal_nan=True):
            yield f"{name}: the column {column} is {ours}, expected {theirs}"


COMPARISONS = (in_another_order, in_units_of_one, in_double_precision)


def disagreements(first: Run) -> list[str]:
    """Return a sentence for each difference between runs that should agree."""
    return list(dict.fromkeys(sentence for compare in COMPARISONS for sentence in compare(first)))
