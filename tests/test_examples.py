"""The examples in docstrings: each runs on its own and prints what it says, and the main names have one."""

import doctest
import importlib
import pkgutil

import pytest

import fgmp
from fgmp import theory
from fgmp.approximation import approx_tau
from fgmp.methods.method_json import to_json
from fgmp.selection import Overall

MODULES = ["fgmp", *(name for _, name, _ in pkgutil.walk_packages(fgmp.__path__, "fgmp."))]
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples
}
MAIN = [
    fgmp.simulate,
    to_json,
    fgmp.Federation.from_arrays,
    fgmp.FedGradMP,
    fgmp.SharedSupportGradMP,
    fgmp.FedAvg,
    fgmp.FedHT,
    fgmp.polish,
    fgmp.tune,
    fgmp.stop_at,
    fgmp.Dictionary,
    fgmp.gaussian_dictionary,
    approx_tau,
    fgmp.ksvd,
    fgmp.make_sparse_regression,
    fgmp.PerOutput,
    fgmp.PerAtom,
    Overall,
    fgmp.SquaredLoss,
    fgmp.LogisticLoss,
    fgmp.SoftmaxLoss,
    theory.restricted_constants,
    theory.theorem1,
    theory.TheoremParameters,
]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_what_it_says(name):
    test, failures = EXAMPLES[name], []
    test.globs = {}  # nothing is at hand that the example does not import
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("thing", MAIN, ids=lambda thing: thing.__qualname__)
def test_the_main_names_have_an_example(thing):
    assert f"{thing.__module__}.{thing.__qualname__}" in EXAMPLES
