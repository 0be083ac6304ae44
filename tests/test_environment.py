"""The three files that name packages agree."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
CONSTRAINTS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]

EXTRAS = PROJECT["optional-dependencies"]
NOT_ON_CONDA = {"bench", "mutants", "peers", "flower", "privacy", "site"}


def bounds(lines):
    """Name -> bounds; a package that is named twice must have the same bounds."""
    found = {}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        assert found.setdefault(name, requirement.specifier) == requirement.specifier, name
    return found


def pyproject_bounds(leave_out=frozenset()):
    extras = [line for name, lines in EXTRAS.items() if name not in leave_out for line in lines]
    return bounds(PROJECT["dependencies"] + extras)


def test_environment_yml_has_the_packages_and_bounds_of_pyproject():
    conda = bounds(line for line in CONDA if isinstance(line, str) and line not in {"pip"})
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda == pyproject_bounds(leave_out=NOT_ON_CONDA)


def test_environment_yml_installs_fgmp_with_pip_and_what_conda_has_not():
    assert [line["pip"] for line in CONDA if isinstance(line, dict)] == [["-e .[privacy]"]]


@pytest.mark.parametrize("line", CONSTRAINTS)
def test_constraint_is_name_and_version(line):
    requirement = Requirement(line)
    assert line == f"{requirement.name}{requirement.specifier}"
    assert [s.operator for s in requirement.specifier] == ["=="]


def test_constraints_pin_every_dependency_within_its_bounds():
    pinned = {name: str(pin).removeprefix("==") for name, pin in bounds(CONSTRAINTS).items()}
    for name, specifier in pyproject_bounds().items():
        assert name in pinned, f"constraints.txt does not pin {name}"
        assert pinned[name] in specifier, f"{name}=={pinned[name]} is outside {specifier}"


@pytest.mark.parametrize("line", CONSTRAINTS)
def test_constraint_installs_with_every_python_that_fgmp_allows(line):
    """3.11.2, as Debian 12 has it, too: some packages ask for a later 3.11."""
    try:
        asked = importlib.metadata.metadata(Requirement(line).name).get("Requires-Python")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")
    assert "3.11.0" in SpecifierSet(asked or "")
