"""Every kind of run, recounted: a covering design in `make test`, a large sample in `make test-matrix`."""

import os
from itertools import combinations

import numpy as np
import pytest

from .agreement import disagreements, reach_of_rounding, well_conditioned
from .covering import design, pairs_of, valid_pairs
from .options import METHODS, Case, blocks, sample
from .problems import problem_of
from .recount import violations
from .runs import radius_of, run

# Small problems and steps at random: many a run has fewer rows than 3 tau, rises, or separates what it has, and three
# Newton steps do not always end a polishing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.filterwarnings("ignore:polish ended:sklearn.exceptions.ConvergenceWarning"),
]

DESIGNS = {method: design(blocks(method)) for method in METHODS}
DESIGN = [case for cases in DESIGNS.values() for case in cases]
SAMPLED = int(os.environ.get("FGMP_MATRIX") or 0)
CASES = sample(SAMPLED, seed=11) if SAMPLED else DESIGN


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    first = run(case)
    found = violations(first) + disagreements(first)
    assert not found, "\n".join([str(case), *found])


@pytest.mark.parametrize("method", METHODS)
def test_the_design_shows_every_valid_pair_of_options_and_only_valid_cases(method):
    shown = set().union(*map(pairs_of, DESIGNS[method]))
    assert shown == valid_pairs(blocks(method))
    for case in DESIGNS[method]:
        assert any(all(v in options for v, options in zip(case, axes.values(), strict=True)) for axes in blocks(method))


PLAIN = Case(*"FedGradMP softmax gradient standard uneven some some none column - one one float64 python".split())
SHARED = PLAIN._replace(method="SharedSupportGradMP", solver="local-sgd", batch="full", sent="default")
HARD = PLAIN._replace(method="FedIterHT", solver="steps")


@pytest.mark.parametrize("case", [PLAIN, SHARED, HARD, PLAIN._replace(loss="squared"), HARD._replace(method="FedMid")])
def test_every_option_makes_another_run(case):
    """An axis that changed nothing would be an axis that is not tried."""
    axes = next(axes for axes in blocks(case.method) if axes["loss"] == (case.loss,))
    same = {"scalars", "storage", "precision", "columns", "targets"}
    same |= {"sparsity"} if case.loss == "squared" else set()
    for axis, options in axes.items():
        if axis in same:
            continue
        if case.loss == "squared":
            options = [option for option in options if option not in ("default", "newton")]  # both are "exact" there
        if axis == "sent":  # n is small: the default sends the whole gradient, and 4 tau entries are all there are
            options = [option for option in options if option not in ("default", "largest")]
        results = [run(case._replace(**{axis: option})).result for option in options]
        for one, other in combinations(results, 2):
            assert not np.array_equal(one.coefficients, other.coefficients), (axis, options)


def test_most_balls_are_reached_and_most_precisions_compared():
    in_balls = [case for case in DESIGN if case.radius == "tight"]
    norms = [
        np.linalg.norm(problem_of(c).psi @ run(c).result.coefficients) / radius_of(c, problem_of(c)) for c in in_balls
    ]
    assert np.mean(np.array(norms) > 0.999) > 0.5
    singles = [case for case in DESIGN if case.precision == "float32" and well_conditioned(case)]
    doubles = [case._replace(precision="float64") for case in singles]
    spreads = [spread / scale for _, spread, scale in map(reach_of_rounding, doubles)]
    assert len(doubles) > 50 and np.mean(np.array(spreads) < 1e-3) > 0.9
