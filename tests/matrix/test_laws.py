"""Laws of units with factors that are no powers of two, and of units that differ from column to column.

The matrix holds the exact law for powers of two. Here the data are rounded anew, so results differ by what rounding
does: about eps times the square of the condition number of the columns, with a factor for the few roundings of a run.
"""

from dataclasses import replace

import numpy as np
import pytest

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.methods.support_solvers import LocalSteps

from .options import Case
from .problems import N_FEATURES, problem_of
from .runs import LOSSES

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has.
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

BASE = Case(*"FedGradMP squared exact standard even all full none column - one one float64 python".split())
FACTORS = (1e-6, 1e6)
APART = np.array([1, 1e-4, 1, 1e6, 1e-6, 1e3, 1, 1e-3])  # the units of the columns


def data(loss, precision, dictionary="standard"):
    problem = problem_of(BASE._replace(loss=loss, precision=precision, dictionary=dictionary))
    condition = max(np.linalg.cond(A @ problem.psi) for A in problem.As)
    return problem, float(32 * np.finfo(precision).eps * condition**2)


def psi_of(problem, approximation):
    return StandardBasis() if problem.atoms is None else fgmp.Dictionary(problem.atoms, approximation)


def methods(rate, dictionary):
    steps = {"learning_rate": rate, "local_iterations": 3, "dictionary": dictionary}
    yield fgmp.FedGradMP(2, dictionary=dictionary)
    yield fgmp.FedGradMP(2, dictionary=dictionary, solver=fgmp.GradientDescent(steps=4))
    yield fgmp.FedGradMP(2, dictionary=dictionary, solver=fgmp.Newton(steps=1))
    yield fgmp.FedGradMP(2, dictionary=dictionary, solver=fgmp.SGD(rate, 4))
    yield fgmp.SharedSupportGradMP(2, dictionary=dictionary)
    yield fgmp.SharedSupportGradMP(2, dictionary=dictionary, solver=fgmp.NewtonOnSupport(2))
    yield fgmp.FedAvg(**steps)
    yield fgmp.FedHT(sparsity=2, **steps)
    yield fgmp.FedIterHT(sparsity=2, **steps)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("dictionary", ["standard", "orthonormal", "omp", "wide-thresholding"])
@pytest.mark.parametrize("factor", FACTORS)
def test_targets_times_c_make_models_times_c_and_objectives_times_its_square(factor, dictionary, precision):
    problem, rounding = data("squared", precision, dictionary)
    psi = psi_of(problem, "thresholding" if dictionary.endswith("thresholding") else "omp")
    scaled = [(factor * y.astype(np.float64)).astype(precision) for y in problem.ys]
    wrong = []
    for method in methods(0.25 / problem.steepness, psi):
        one, other = (
            fgmp.simulate(method, fgmp.Federation.from_arrays(problem.As, ys), 3, rng=0) for ys in (problem.ys, scaled)
        )
        (first, *_, last), found = one.history["objective"], other.history["objective"][-1]
        if not far(other.x / factor, one.x) <= rounding:
            wrong.append((method, far(other.x / factor, one.x)))
        if not abs(found / factor**2 - last) <= rounding * first:
            wrong.append((method, found / factor**2, last))
    assert wrong == []


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
    problem, rounding = data(loss, precision)
    apart, wrong = APART.astype(precision), []
    for method in on_all_columns(loss):
        one, other = (
            fgmp.simulate(method, fgmp.Federation.from_arrays(As, problem.ys, LOSSES[loss]), 1, rng=0)
            for As in (problem.As, [A * apart for A in problem.As])
        )
        distance = far((other.x.T * apart).T, one.x)
        if not distance <= rounding:
            wrong.append((method, distance))
    assert wrong == []


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_units_that_differ_from_column_to_column_change_no_prediction_of_a_polished_model(loss, precision):
    problem, rounding = data(loss, precision)
    found = []
    for units in (np.ones(N_FEATURES, precision), APART.astype(precision)):
        federation = fgmp.Federation.from_arrays([A * units for A in problem.As], problem.ys, LOSSES[loss])
        start = np.zeros_like(problem.truth)
        start[[1, 3, 4]] = 0.1
        start = (start.T / units).T
        empty = fgmp.simulate(fgmp.FedAvg(learning_rate=1.0), federation, 0)
        best = empty.best._replace(x=start, coefficients=start, support=np.flatnonzero(start))
        result = replace(empty, best=best, coefficients=start)
        found.append((fgmp.polish(result, federation).x.T * units).T)
    assert far(found[1], found[0]) <= rounding
