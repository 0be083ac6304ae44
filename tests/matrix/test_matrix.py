"""Every kind of run, recounted: a covering design in `make test`, a large sample in `make test-matrix`."""

import os
from itertools import combinations

import numpy as np
import pytest

from .agreement import disagreements
from .covering import design
from .options import METHODS, Case, block, blocks, sample
from .recount import violations
from .runs import run

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has, and three
# Newton steps do not always end a polishing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.filterwarnings("ignore:polish ended:sklearn.exceptions.ConvergenceWarning"),
]

DESIGN = [case for method in METHODS for case in design(blocks(method))]
SAMPLED = int(os.environ.get("FGMP_MATRIX") or 0)
CASES = sample(SAMPLED, seed=11) if SAMPLED else DESIGN


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    first = run(case)
    found = violations(first) + disagreements(first)
    assert not found, "\n".join([str(case), *found])


PLAIN = Case(*"FedGradMP softmax gradient standard uneven some some none column - one one float64".split())
SHARED = PLAIN._replace(method="SharedSupportGradMP", solver="local-sgd", batch="full", sent="sketch")
HARD = PLAIN._replace(method="FedIterHT", solver="steps")


@pytest.mark.parametrize("case", [PLAIN, SHARED, HARD], ids=str)
def test_every_option_makes_another_run(case):
    """An axis that changed nothing would be an axis that is not tried."""
    axes = block(case.method, case.loss)
    for axis in ("solver", "dictionary", "federation", "cohort", "batch", "radius", "sparsity", "sent"):
        options = [option for option in axes[axis] if option not in ("default", "largest")]  # other names of others
        results = [run(case._replace(**{axis: option})).result for option in options]
        for one, other in combinations(results, 2):
            assert not np.array_equal(one.coefficients, other.coefficients), axis
