"""Every kind of run, recounted: a covering design in `make test`, a large sample in `make test-matrix`."""

import os
from itertools import combinations

import numpy as np
import pytest

import fgmp
from fgmp.shared_support.newton import LocalSteps

from .agreement import disagreements
from .options import METHODS, Case, block, design, sample
from .problems import N_FEATURES, problem_of
from .recount import violations
from .runs import LOSSES, run

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has, and three
# Newton steps do not always end a polishing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.filterwarnings("ignore:polish ended:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("backend"),
]

DESIGN = [case for method in METHODS for case in design(method)]
SAMPLED = int(os.environ.get("FGMP_MATRIX") or 0)
CASES = sample(SAMPLED, seed=11) if SAMPLED else DESIGN


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    first = run(case)
    found = violations(first) + disagreements(first)
    assert not found, "\n".join([str(case), *found])


PLAIN = Case(
    *"FedGradMP softmax gradient standard uneven some some none column - one one float64".split()
)
SHARED = PLAIN._replace(
    method="SharedSupportGradMP", solver="local-sgd", batch="full", sent="sketch"
)
HARD = PLAIN._replace(method="FedIterHT", solver="steps")


@pytest.mark.parametrize(
    "case", [PLAIN, SHARED, HARD, HARD._replace(method="FastFedDualAvg")], ids=str
)
def test_every_option_makes_another_run(case):
    """An axis that changed nothing would be an axis that is not tried."""
    axes = block(case.method, case.loss)
    for axis in (
        "solver",
        "dictionary",
        "federation",
        "cohort",
        "batch",
        "radius",
        "sparsity",
        "sent",
    ):
        options = [
            option for option in axes[axis] if option not in ("default", "largest")
        ]  # other names of others
        results = [run(case._replace(**{axis: option})).result for option in options]
        for one, other in combinations(results, 2):
            assert not np.array_equal(one.coefficients, other.coefficients), axis


APART = np.array([1, 1e-4, 1, 1e6, 1e-6, 1e3, 1, 1e-3])  # the units of the columns


def on_all_columns(loss):
    """Ways to minimise that reach the same point whatever the units of the columns, on a support of all of them."""
    for solver in (fgmp.Newton(steps=4), fgmp.Exact()):
        yield fgmp.FedGradMP(N_FEATURES, local_iterations=1, solver=solver)
    exact = [fgmp.NewtonOnSupport()] if loss in ("squared", "summed") else []
    for solver in (fgmp.NewtonOnSupport(4), LocalSteps(fgmp.Newton(steps=4)), *exact):
        yield fgmp.SharedSupportGradMP(N_FEATURES, solver=solver)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_units_that_differ_from_column_to_column_change_no_prediction_on_a_fixed_support(
    loss, precision
):
    """Rounding of the data in other units: eps times the square of the condition number of the columns."""
    problem = problem_of(PLAIN._replace(loss=loss, federation="even", precision=precision))
    condition, apart = max(np.linalg.cond(A) for A in problem.As), APART.astype(precision)
    for method in on_all_columns(loss):
        one, other = (
            fgmp.simulate(
                method, fgmp.Federation.from_arrays(As, problem.ys, LOSSES[loss]), 1, rng=0
            ).x
            for As in (problem.As, [A * apart for A in problem.As])
        )
        other = (other.T * apart).T
        if one.ndim > 1:  # for softmax without the number that is free for each feature
            one, other = (x - x.mean(axis=1, keepdims=True) for x in (one, other))
        distance = np.linalg.norm(other - one) / np.linalg.norm(one)
        assert distance <= 32 * np.finfo(precision).eps * condition**2, method
