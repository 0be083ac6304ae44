"""The three files that name packages agree."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import fgmp
from fgmp.datasets import digits_by_writer, fetch, load_video, photo_clip
from fgmp.datasets.digits import _embedded_digits, femnist_writers
from fgmp.flower import client_app

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
CONSTRAINTS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]

EXTRAS = PROJECT["optional-dependencies"]
NOT_ON_CONDA = {"bench", "mutants", "peers", "flower", "privacy", "site"}


def bounds(lines):
    """Name -> bounds; a package that is named twice must have the same bounds.

    An extra may hold other extras, as fgmp[...], which are read for themselves.
    """
    found = {}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        if name == "fgmp":
            assert requirement.extras <= set(EXTRAS), requirement
            continue
        assert found.setdefault(name, requirement.specifier) == requirement.specifier, name
    return found


def pyproject_bounds(leave_out=frozenset()):
    extras = [line for name, lines in EXTRAS.items() if name not in leave_out for line in lines]
    return bounds(PROJECT["dependencies"] + extras)


def test_environment_yml_has_packages_and_bounds_of_pyproject():
    """pip brings what conda does not have."""
    conda = bounds(line for line in CONDA if isinstance(line, str) and line not in {"pip"})
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda == pyproject_bounds(leave_out=NOT_ON_CONDA)
    assert [line["pip"] for line in CONDA if isinstance(line, dict)] == [["-e .[privacy]"]]


def test_core_needs_four_packages():
    """Notebooks and tests name the extras that they need."""
    assert set(bounds(PROJECT["dependencies"])) == {"numpy", "scipy", "joblib", "filelock"}
    makefile = (ROOT / "Makefile").read_text()
    assert "BOOK_EXTRAS := notebooks,fast,secure,privacy\n" in makefile
    for name in ("notebooks", "test"):
        assert EXTRAS[name][0] == "fgmp[estimators,plot,data]"


def test_constraints_pin_every_dependency_within_its_bounds():
    """For every Python; some packages ask for a later 3.11 than Debian 12 has."""
    pinned = bounds(CONSTRAINTS)
    assert [
        f"{name}{pin}" for name, pin in pinned.items() if len(pin) != 1 or "==" not in str(pin)
    ] == []
    for name, specifier in pyproject_bounds().items():
        assert name in pinned, f"constraints.txt does not pin {name}"
        assert str(pinned[name]).removeprefix("==") in specifier, (
            f"{name}{pinned[name]} is outside {specifier}"
        )
    required = {
        canonicalize_name(d.name): d.metadata.get("Requires-Python")
        for d in importlib.metadata.distributions()
    }
    assert [
        name
        for name in pinned.keys() & required
        if "3.11.0" not in SpecifierSet(required[name] or "")
    ] == []


def table_to_federation(table):
    return fgmp.Federation.from_frame(table, site="site", target="y")


def run_with(callback):
    federation = fgmp.make_sparse_regression(2, 5, 4, 1, rng=0)
    return fgmp.simulate(fgmp.FedGradMP(1), federation, 1, rng=0, callbacks=callback)


@pytest.mark.parametrize(
    "package, words, call",
    [
        ("av", "pip install av$", lambda: load_video(__file__, 1, 16, 16)),
        ("h5py", "pip install h5py$", lambda: femnist_writers([Path(__file__)])),
        ("pooch", "pip install pooch$", lambda: fetch("femnist")),
        ("PIL", "pip install scikit-learn pillow$", photo_clip),
        ("sklearn.datasets", "pip install scikit-learn$", digits_by_writer),
        (
            "narwhals",
            "pip install narwhals$",
            lambda: table_to_federation({"site": [1], "y": [2.0]}),
        ),
        (
            "fgmp.estimators.model_files",
            "a model as JSON needs pydantic: pip install pydantic$",
            lambda: fgmp.estimators.model_from_json("{}"),
        ),
        ("tqdm", "(?m)pip install tqdm$", lambda: run_with(fgmp.Bar())),
        ("flwr.app", r'pip install "flwr\[simulation\]>=1.41,<1.42"$', lambda: client_app(print)),
    ],
)
def test_missing_package_message_says_what_to_install(package, words, call, monkeypatch):
    """fgmp is on no index, so that the command names the packages and not an extra."""
    monkeypatch.setitem(sys.modules, package, None)
    _embedded_digits.cache_clear()  # of a test before, which had scikit-learn
    monkeypatch.delenv("FGMP_DATA", raising=False)  # the default folder is pooch's to know
    with pytest.raises(ImportError, match=words):
        call()


def test_missing_scikit_learn_stops_estimators_alone():
    """A run of the core goes through without any extra."""
    code = """
import sys
sys.modules.update(dict.fromkeys(["sklearn", "narwhals", "numba", "matplotlib", "PIL", "pooch", "tqdm", "click"]))
import fgmp
federation = fgmp.make_sparse_regression(n_clients=5, n_features=20, sparsity=2, rng=0)
print(fgmp.simulate(fgmp.FedGradMP(sparsity=2), federation, 10, rng=0).history["relative_error"][-1] < 1e-12)
fgmp.FedGradMPClassifier
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n"
    assert done.stderr.endswith(
        "fgmp.estimators.FedGradMPClassifier needs scikit-learn and narwhals and tqdm: "
        "pip install scikit-learn narwhals tqdm\n"
    )
