"""Every kind of run, recounted: a covering design in `make test`, a large sample in `make test-matrix`."""

import os

import pytest

from .agreement import disagreements
from .covering import design, pairs_of, valid_pairs
from .options import METHODS, blocks, count, sample
from .problems import problem_of
from .recount import violations
from .runs import run

DESIGNS = {method: design(blocks(method)) for method in METHODS}
DESIGN = [case for cases in DESIGNS.values() for case in cases]
SAMPLED = int(os.environ.get("FGMP_MATRIX", "0"))
CASES = sample(SAMPLED, seed=11) if SAMPLED else DESIGN


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    problem = problem_of(case)
    before = _bits(problem)
    first = run(case)
    found = violations(first) + disagreements(first)
    assert not found, "\n".join([str(case), *found])
    assert _bits(problem) == before, "the arrays that the federation was made of were written into"


def _bits(problem):
    arrays = [*problem.As, *problem.ys, problem.truth, problem.weights, problem.atoms]
    return [None if array is None else array.tobytes() for array in arrays]


@pytest.mark.parametrize("method", METHODS)
def test_the_design_shows_every_valid_pair_of_options_and_only_valid_cases(method):
    shown = set().union(*map(pairs_of, DESIGNS[method]))
    assert shown == valid_pairs(blocks(method))
    for case in DESIGNS[method]:
        assert any(all(v in options for v, options in zip(case, axes.values(), strict=True)) for axes in blocks(method))


def test_a_few_hundred_cases_stand_for_millions():
    assert 200 <= len(DESIGN) <= 500 and len(set(DESIGN)) == len(DESIGN)
    assert count() > 1_000_000


def test_a_sample_is_valid_and_shows_every_pair_too():
    cases = sample(20_000, seed=11)
    assert len(set(cases)) == 20_000 and cases == sample(20_000, seed=11)
    for method in METHODS:
        shown = set().union(*(pairs_of(case) for case in cases if case.method == method))
        assert shown == valid_pairs(blocks(method))
