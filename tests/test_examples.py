"""Examples in docstrings: each runs on its own and prints what it says; the main names have one."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import fgmp

MODULES = ["fgmp", *(name for _, name, _ in pkgutil.walk_packages(fgmp.__path__, "fgmp."))]
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples
}
PLAIN = subprocess.run(
    [sys.executable, "-c", "import fgmp; print(*vars(fgmp))"], capture_output=True, text=True
).stdout
MAIN = """
simulate Federation.from_arrays FedGradMP SharedSupportGradMP FedAvg FedHT polish tune stop_at
Dictionary gaussian_dictionary ksvd make_sparse_regression PerOutput PerAtom
SquaredLoss LogisticLoss SoftmaxLoss
theory.approx_tau Overall serialization.to_json theory.restricted_constants
theory.theorem1""".split()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_of_a_docstring_prints_what_it_says(name, monkeypatch):
    """It imports all that it needs."""
    test = EXAMPLES[name]
    failures = []
    # The example imports what it needs, and has of the package what an import of a user has.
    test.globs = {}
    _ = [monkeypatch.delattr(fgmp, more) for more in set(vars(fgmp)) - {*PLAIN.split()}]
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("name", MAIN)
def test_main_names_have_an_example(name):
    """What one reads first has a docstring with an example."""
    thing = pkgutil.resolve_name(f"fgmp.{name}")
    assert f"{thing.__module__}.{thing.__qualname__}" in EXAMPLES
