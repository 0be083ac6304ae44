"""Every kind of run against the oracle: a covering array, or a sample (`make test-combinatorial`)."""

import os
from itertools import combinations

import numpy as np
import pytest
from cases import LOSSES as MAKE_LOSS

import fgmp
from fgmp.shared_support.newton import LocalSteps

from .invariances import disagreements
from .options import LOSSES, METHODS, Case, block, covering_array, sample
from .oracle import violations
from .problems import N_FEATURES, problem_of
from .runs import run

# Problems are small and steps are random: many runs have fewer rows than 3 tau, rise, or separate,
# and three Newton steps do not always end a refit.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.filterwarnings("ignore:polish ended:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("backend"),
]

COVERING_ARRAY = [case for method in METHODS for case in covering_array(method)]
N_SAMPLED = int(os.environ.get("FGMP_COMBINATORIAL") or 0)
CASES = sample(N_SAMPLED, seed=11) if N_SAMPLED else COVERING_ARRAY


@pytest.mark.parametrize("case", CASES, ids=str)
def test_run_of_any_case_agrees_with_oracle_and_invariances(case):
    """The oracle computes what the run reports, and nothing depends on order, units or storage."""
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
def test_run_with_another_option_differs(case):
    """Every axis changes the run, or it would not be tried."""
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
        # "default" and "largest" are other names of other options.
        options = [option for option in axes[axis] if option not in ("default", "largest")]
        results = [run(case._replace(**{axis: option})).result for option in options]
        for one, other in combinations(results, 2):
            assert not np.array_equal(one.coefficients, other.coefficients), axis


UNITS_OF_COLUMNS = np.array([1, 1e-4, 1, 1e6, 1e-6, 1e3, 1, 1e-3])


def methods_on_all_columns(loss):
    """Yield methods that minimise on all columns, and reach the same point in any units."""
    for solver in (fgmp.Newton(steps=4), fgmp.Exact()):
        yield fgmp.FedGradMP(N_FEATURES, local_iterations=1, solver=solver)
    exact = [fgmp.NewtonOnSupport()] if loss in ("squared", "summed") else []
    for solver in (fgmp.NewtonOnSupport(4), LocalSteps(fgmp.Newton(steps=4)), *exact):
        yield fgmp.SharedSupportGradMP(N_FEATURES, solver=solver)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_predictions_on_fixed_support_do_not_depend_on_units_of_columns(loss, precision):
    """They move by rounding only: eps times the squared condition number of the columns."""
    problem = problem_of(PLAIN._replace(loss=loss, federation="even", precision=precision))
    condition = max(np.linalg.cond(A) for A in problem.As)
    units = UNITS_OF_COLUMNS.astype(precision)
    for method in methods_on_all_columns(loss):
        one, other = (
            fgmp.simulate(
                method, fgmp.Federation.from_arrays(As, problem.ys, MAKE_LOSS[loss]()), 1, rng=0
            ).x
            for As in (problem.As, [A * units for A in problem.As])
        )
        other = (other.T * units).T
        if one.ndim > 1:  # softmax leaves the mean over classes free
            one = one - one.mean(axis=1, keepdims=True)
            other = other - other.mean(axis=1, keepdims=True)
        distance = np.linalg.norm(other - one) / np.linalg.norm(one)
        assert distance <= 32 * np.finfo(precision).eps * condition**2, method
