"""The layout of the package: who imports whom, docstrings of modules, and what an import loads."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cases import PUBLIC_NAMES

import fgmp

PACKAGE = Path(fgmp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def test_imports_follow_the_layers():
    """The contracts of import-linter in pyproject.toml hold."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


TOP = sorted(path for path in PACKAGE.glob("*.py") if path.name != "__init__.py")


# The files that the docstring of the package names, in order.
READING_PATH = re.findall(r"^\d+\.\s+`(\w+\.py)`", fgmp.__doc__, flags=re.MULTILINE)


def test_reading_path_is_the_same_in_contributing():
    """The docstring of the package and CONTRIBUTING name the same files in the same order."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    named = re.findall(r"^\d+\. \[\w+\]\(fgmp/(\w+\.py)\)", text, flags=re.MULTILINE)

    assert named == READING_PATH


def test_contract_about_the_top_names_all_of_its_files():
    """That they import no folder but _support, within functions and for types neither."""
    contracts = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]
    (of_top,) = [one for one in contracts["contracts"] if one["name"].startswith("The top")]
    folders = {f"fgmp.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert set(of_top["source_modules"]) == {f"fgmp.{path.stem}" for path in TOP}
    assert set(of_top["forbidden_modules"]) == folders - {"fgmp._support"}


def test_top_has_the_reading_path_and_two_more_files():
    """Whatever else there is, is behind a door: a folder."""
    beside = {"backends.py", "baselines.py"}
    assert {path.name for path in TOP} == {*READING_PATH, *beside}
    assert all(f"`{name}`" in fgmp.__doc__ for name in beside)


@pytest.mark.parametrize("path", TOP, ids=lambda path: path.name)
def test_top_is_not_long(path):
    """Below 400 lines of code a file can be read to the end."""
    text = path.read_text()
    of_docstrings = set()
    for node in ast.walk(ast.parse(text)):
        # A string that is a statement documents what stands around it.
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                of_docstrings.update(range(node.lineno, node.end_lineno + 1))
    of_code = [
        line
        for number, line in enumerate(text.splitlines(), start=1)
        if number not in of_docstrings and line.strip() and not line.strip().startswith("#")
    ]
    assert len(of_code) <= 400


def test_import_loads_the_top_alone():
    """In a process of its own: all other names are imported at their first use."""
    code = "import sys, fgmp; print(*[name for name in sys.modules if name.startswith('fgmp.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("fgmp._support")}

    assert loaded == {f"fgmp.{path.stem}" for path in TOP}


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_name_is_there_with_its_module(name):
    """Those of 0.2 still are. Names of the folders come when they are asked for."""
    assert getattr(fgmp, name).__module__.startswith("fgmp.")


def test_listed_names_are_few_and_stand_in_the_docstring_of_the_package():
    """They are what people type; the other public names are documented in their modules."""
    of_top = [name for name in fgmp.__all__ if getattr(fgmp, name).__module__.count(".") == 1]
    assert len(of_top) < 36
    assert [name for name in fgmp.__all__ if f"`{name}`" not in fgmp.__doc__] == []


def test_no_module_has_the_name_of_a_public_function():
    """Or one of them would hide the other."""
    modules = {
        name.rsplit(".", 1)[1] for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "fgmp.")
    }
    offered = names_of("fgmp").union(
        *(names_of(name) for _, name, _ in pkgutil.walk_packages([str(PACKAGE)], "fgmp."))
    )
    assert not modules & offered


def names_of(package):
    module = importlib.import_module(package)
    own = [
        name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == package
    ]
    return {
        name
        for name in getattr(module, "__all__", own)
        if callable(getattr(module, name)) and name[0] != "_"
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_has_a_docstring_with_names_that_exist(path):
    """Names of the package in backquotes can be imported."""
    text = path.read_text()
    assert not text or len(ast.get_docstring(ast.parse(text)).splitlines()[0]) > 20
    for name in re.findall(r"`(fgmp\.[\w.]+)`", text):
        pkgutil.resolve_name(name)


TESTS = Path(__file__).parent
TEST_MODULES = sorted([*TESTS.glob("test_*.py"), *TESTS.glob("combinatorial/test_*.py")])


@pytest.mark.parametrize("path", TEST_MODULES, ids=lambda path: path.stem)
def test_no_test_module_imports_another(path):
    """What tests share is in cases.py, in helper modules and in fixtures."""
    imports = re.findall(r"^\s*(?:from|import) (\S+)", path.read_text(), flags=re.MULTILINE)
    assert [name for name in imports if name.split(".")[-1].startswith("test_")] == []


IMPORTED = {
    "fgmp": "joblib",
    "fgmp, fgmp.cli, fgmp.run.metrics, fgmp.datasets": "h5py matplotlib pooch requests sklearn flwr "
    "narwhals pydantic PIL click tqdm numba pandas",
    # A client answers in a process for each message.
    "fgmp.flower, fgmp.flower.fitting": "flwr ray sklearn pydantic",
}


def test_no_line_of_the_package_is_too_long():
    """Lines have at most 100 characters, docstrings and comments too."""
    too_long = [
        f"{path.name}:{number}"
        for path in sorted((Path(fgmp.__file__).parent).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > 100
    ]

    assert too_long == []


@pytest.mark.parametrize("what", IMPORTED)
def test_import_loads_no_heavy_package(what):
    """In a process of its own."""
    heavy = f"set({IMPORTED[what].split()}) & set(sys.modules)"
    code = f"import sys, {what}; sys.exit(' '.join({heavy}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
