"""Pages of the reference: one for each room of the module, a section for each file, an entry for each public name."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

# Under these names a user imports; the first that has an object names it in the reference.
FRONTS = ("fgmp", "fgmp.theory", "fgmp.datasets", "fgmp.estimators", "fgmp.sweeping")


@dataclass(frozen=True)
class Room:
    """A package and its modules."""

    name: str
    modules: tuple[str, ...]

    @property
    def page(self) -> str:
        """The name of its page."""
        return f"reference/{self.name}"


def label(module: str) -> str:
    """The target of a module's section."""
    return "module-" + module.replace(".", "-").replace("_", "-")


def rooms(package: Path) -> list[Room]:
    """All rooms of a package, the ground floor first."""
    folders = [package, *sorted(path.parent for path in package.glob("*/__init__.py"))]
    found = []
    for folder in folders:
        name = ".".join(folder.relative_to(package.parent).parts)
        stems = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        found.append(Room(name, tuple(f"{name}.{stem}" for stem in stems)))
    return found


def places(package: Path) -> dict[str, str]:
    """Files and folders of a package, relative to the repository, and the targets of their sections."""
    found = {}
    for room in rooms(package):
        folder = room.name.replace(".", "/")
        found |= {folder: label(room.name), f"{folder}/__init__.py": label(room.name)}
        found |= {module.replace(".", "/") + ".py": label(module) for module in room.modules}
    return found


def public(module: ModuleType) -> list[str]:
    """Names of the classes and functions that a module defines for others, in the order of the file."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    own = {name: getattr(module, name) for name in names}
    own = {
        name: value
        for name, value in own.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and inspect.getdoc(value)
    }
    return sorted(own, key=lambda name: inspect.getsourcelines(own[name])[1])


def fronts() -> dict[int, str]:
    """The name under which a user imports an object, by the object's identity."""
    named: dict[int, str] = {}
    for front in FRONTS:
        module = importlib.import_module(front)
        for name in module.__all__:
            named.setdefault(id(getattr(module, name)), f"{front}.{name}")
    return named


def first_line(value: object) -> str:
    """What a docstring says first."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def heading(text: str, line: str) -> str:
    """A heading of reStructuredText."""
    return f"{text}\n{line * len(text)}\n\n"


def room_page(room: Room, named: dict[int, str]) -> str:
    """The page of a room."""
    text = f".. _{label(room.name)}:\n\n" + heading(room.name, "=") + f".. automodule:: {room.name}\n\n"
    for name in room.modules:
        module = importlib.import_module(name)
        text += f".. _{label(name)}:\n\n" + heading(name.rpartition(".")[2], "-") + f".. automodule:: {name}\n\n"
        for entry in public(module):
            value = getattr(module, entry)
            directive = "autoclass" if inspect.isclass(value) else "autofunction"
            text += f".. {directive}:: {named.get(id(value), f'{name}.{entry}')}\n"
            text += "   :members:\n\n" if directive == "autoclass" else "\n"
    return text


def index_page(found: list[Room], named: dict[int, str]) -> str:
    """The first page of the reference: the rooms, and all names that ``import fgmp`` gives."""
    text = heading("The module", "=") + ".. toctree::\n   :maxdepth: 1\n\n"
    text += "".join(f"   {room.name}\n" for room in found) + "\n" + heading("All names of fgmp", "-")
    module = importlib.import_module("fgmp")
    text += ".. list-table::\n   :widths: auto\n\n"
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if not isinstance(value, ModuleType) and named.get(id(value)) == f"fgmp.{name}":
            said = first_line(value)
            text += f"   * - :py:obj:`fgmp.{name}`\n     - {escaped(said)}\n"
    return text + "\n"


def escaped(text: str) -> str:
    """Words of a docstring that reStructuredText would take for something else."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_ ", "\\_ ")


def write(package: Path, target: Path) -> None:
    """Write all pages of the reference into a folder."""
    found, named = rooms(package), fronts()
    (target / "reference").mkdir(parents=True, exist_ok=True)
    (target / "reference" / "index.rst").write_text(index_page(found, named), encoding="utf-8")
    for room in found:
        (target / f"{room.page}.rst").write_text(room_page(room, named), encoding="utf-8")
