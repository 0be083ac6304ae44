"""The plan of the house: who may import whom is what the rooms' docstrings say, and no name stands for two things."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fgmp

HOUSE = Path(fgmp.__file__).parent
ROOMS = sorted(path.parent.name for path in HOUSE.glob("*/__init__.py"))
FILES = sorted(HOUSE.rglob("*.py"))
GROUND = "the ground floor"


def may_import(room):
    """The rooms that a room's docstring names after "May import:"."""
    words = re.search(r"May import: ([^.]+)\.", importlib.import_module(f"fgmp.{room}").__doc__)[1]
    return set() if words == "nothing" else {word.strip() for word in words.replace("\n", " ").split(",")}


def imported_rooms(path):
    """The rooms that a file of the package imports, its own left out."""
    package = ["fgmp", *path.relative_to(HOUSE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            target = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
        elif isinstance(node, ast.ImportFrom):
            target = node.module.split(".")
        elif isinstance(node, ast.Import):
            target = node.names[0].name.split(".")
        else:
            continue
        if target[0] == "fgmp":
            yield target[1] if len(target) > 1 and target[1] in ROOMS else GROUND


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_docstring_says(room):
    allowed = may_import(room)
    assert allowed <= {*ROOMS, GROUND} - {"theory"}
    assert f"[fgmp/{room}](fgmp/{room}/__init__.py)" in (HOUSE.parent / "CONTRIBUTING.md").read_text()
    found = {other for path in (HOUSE / room).glob("*.py") for other in imported_rooms(path)} - {room}
    assert found == allowed, f"{room} imports {sorted(found)}; its docstring says {sorted(allowed)}"


def test_the_ground_floor_imports_no_room_but_for_what_stands_on_top_of_simulate():
    for path in HOUSE.glob("*.py"):
        if path.name not in ("__init__.py", "cli.py", "polishing.py"):
            assert set(imported_rooms(path)) <= {GROUND}, path.name


def test_there_is_no_circle_of_rooms():
    left = {room: may_import(room) - {GROUND} for room in ROOMS}
    while left:
        free = [room for room, needs in left.items() if not needs & set(left)]
        assert free, f"a circle among {sorted(left)}"
        for room in free:
            del left[room]


def test_no_module_has_the_name_of_something_public():
    modules = {name.rsplit(".", 1)[1] for _, name, _ in pkgutil.walk_packages([str(HOUSE)], "fgmp.")}
    offered = names_of("fgmp").union(*(names_of(name) for _, name, _ in pkgutil.walk_packages([str(HOUSE)], "fgmp.")))
    assert not modules & offered


def names_of(package):
    module = importlib.import_module(package)
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == package]
    return {name for name in getattr(module, "__all__", own) if callable(getattr(module, name)) and name[0] != "_"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_file_says_what_it_is_for_and_what_it_refers_to_is_there(path):
    text = path.read_text()
    assert not text or len(ast.get_docstring(ast.parse(text)).splitlines()[0]) > 20
    for name in re.findall(r"`(fgmp\.[\w.]+)`", text):
        pkgutil.resolve_name(name)


IMPORTED = {
    "fgmp, fgmp.cli, fgmp.metrics, fgmp.datasets.digits": "h5py matplotlib pooch requests sklearn flwr",
    "fgmp.flower, fgmp.flower.fitting": "flwr ray sklearn",  # a site answers in a process for each message
}


@pytest.mark.parametrize("what", IMPORTED)
def test_nothing_heavy_is_imported_that_is_not_needed(what):
    code = f"import sys, {what}; sys.exit(' '.join(set({IMPORTED[what].split()}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
