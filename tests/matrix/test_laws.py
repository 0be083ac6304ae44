"""Units that differ from column to column, and are no powers of two as those of the matrix are.

The data are rounded anew, so results differ by what rounding does: about eps times the square of the condition number
of the columns, with a factor for the few roundings of a run.
"""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp.methods.support_solvers import LocalSteps

from .options import Case
from .problems import N_FEATURES, problem_of
from .runs import LOSSES

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has.
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

BASE = Case(*"FedGradMP squared exact standard even all full none column - one one float64".split())
APART = np.array([1, 1e-4, 1, 1e6, 1e-6, 1e3, 1, 1e-3])  # the units of the columns


def data(loss, precision):
    problem = problem_of(BASE._replace(loss=loss, precision=precision))
    condition = max(np.linalg.cond(A) for A in problem.As)
    return problem, float(32 * np.finfo(precision).eps * condition**2)


def far(found, expected):
    """Relative to what is expected; for softmax without the number that is free for each feature."""
    if found.ndim > 1:
        found, expected = (x - x.mean(axis=1, keepdims=True) for x in (found, expected))
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def on_all_columns(loss):
    """Ways to minimise that reach the same point whatever the units of the columns, on a support of all of them."""
    everything = {"sparsity": N_FEATURES, "local_iterations": 1}
    yield fgmp.FedGradMP(**everything, solver=fgmp.Newton(steps=4))
    yield fgmp.FedGradMP(**everything, solver=fgmp.Exact())
    yield fgmp.SharedSupportGradMP(N_FEATURES, solver=fgmp.NewtonOnSupport(4))
    yield fgmp.SharedSupportGradMP(N_FEATURES, solver=LocalSteps(fgmp.Newton(steps=4)))
    if loss in ("squared", "summed"):
        yield fgmp.SharedSupportGradMP(N_FEATURES)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_units_that_differ_from_column_to_column_change_no_prediction_on_a_fixed_support(loss, precision):
    """Neither of a run on all columns nor of polishing on three."""
    problem, rounding = data(loss, precision)
    polished, ends = [], {method: [] for method in on_all_columns(loss)}
    for units in (np.ones(N_FEATURES, precision), APART.astype(precision)):
        federation = fgmp.Federation.from_arrays([A * units for A in problem.As], problem.ys, LOSSES[loss])
        for method, found in ends.items():
            found.append((fgmp.simulate(method, federation, 1, rng=0).x.T * units).T)
        start = np.zeros_like(problem.truth)
        start[[1, 3, 4]] = 0.1
        start = (start.T / units).T
        empty = fgmp.simulate(fgmp.FedAvg(learning_rate=1.0), federation, 0)
        best = empty.best._replace(x=start, coefficients=start, support=np.flatnonzero(start))
        polished.append((fgmp.polish(replace(empty, best=best, coefficients=start), federation).x.T * units).T)
    for method, (one, other) in [*ends.items(), ("polish", polished)]:
        assert far(other, one) <= rounding, method
