"""The libraries to compare with, from the extras `peers` and `flower` of pyproject.toml.

    peers.py EXTRA      prints the requirements of an extra, one per line, for `make`

A peer that is not installed, or came in another version than pyproject.toml allows, is named as such in the table.
"""

import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


class Peer(NamedTuple):
    """A library, the versions that are wanted, and the one that is there, None where none is."""

    name: str
    wanted: str
    version: str | None

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.name} is missing"
        if not Requirement(f"x{self.wanted}").specifier.contains(self.version):
            return f"{self.name} {self.version} came where {self.wanted} was expected"
        return f"{self.name} {self.version}"


def project() -> dict[str, Any]:
    """What pyproject.toml asks for."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def installed(name: str) -> str | None:
    """The version of a package of this environment, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def peer(name: str, version: str | None = None) -> Peer:
    """A library by its name, in the version of this environment or in a given one."""
    lines = [line for lines in project()["optional-dependencies"].values() for line in lines]
    wanted = [
        str(r.specifier)
        for r in map(Requirement, project()["dependencies"] + lines)
        if r.name == name
    ]
    return Peer(name, *wanted[:1], version or installed(name))


def flower_python() -> Path | None:
    """The interpreter of the environment that holds Flower, or None.

    Flower asks for older versions of what the library's other packages need newer, so `make bench` gives it an
    environment of its own. An interpreter that has Flower beside everything else will do as well.
    """
    own = ROOT / ".venv" / "flower" / "bin" / "python"
    if own.exists():
        return own
    return Path(sys.executable) if installed("flwr") and installed("ray") else None


if __name__ == "__main__":
    print("\n".join(project()["optional-dependencies"][sys.argv[1]]))
