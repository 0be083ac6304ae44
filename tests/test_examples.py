"""Examples in docstrings: each prints what it says, and each public name has one."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest
from cases import PUBLIC_NAMES

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
PACKAGES = ["fgmp.datasets", "fgmp.estimators", "fgmp.flower", "fgmp.theory"]
PUBLIC = [
    f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__
]
PUBLIC += [f"fgmp.{name}" for name in PUBLIC_NAMES]
# What one reads early on, too, and is no public name of its own.
PUBLIC += ["fgmp.Federation.from_arrays", "fgmp.run.serialization.to_json"]
# Packages of an extra that an example uses; without them it cannot run.
NEEDED = {
    "fgmp.run.callbacks.Bar": "tqdm",
    "fgmp.privacy.noise.GaussianNoise": "dp_accounting",
    "fgmp.privacy.secure_sums.SecureSum": "cryptography",
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_of_a_docstring_prints_what_it_says(name, monkeypatch):
    """It imports all that it needs."""
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    test = EXAMPLES[name]
    failures = []
    # The example imports what it needs, and has of the package what an import of a user has.
    test.globs = {}
    _ = [monkeypatch.delattr(fgmp, more) for more in set(vars(fgmp)) - {*PLAIN.split()}]
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_an_example(name):
    """The docstring of each public name has an example, under the heading of numpydoc."""
    thing = pkgutil.resolve_name(name)
    assert f"{thing.__module__}.{thing.__qualname__}" in EXAMPLES
    assert "Examples\n--------\n" in inspect.getdoc(thing)
