"""The libraries to compare with, from the extras `peers` and `flower` of pyproject.toml.

    peers.py [EXTRA]      prints the requirements of an extra (peers), one per line, for `make`

A peer that is not installed, or came in another version than pyproject.toml allows, is named as such in the table.
"""

import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Peer:
    """One library: what is wanted and what is there."""

    name: str
    wanted: str
    version: str | None

    @property
    def missing(self) -> bool:
        """Whether it is not installed."""
        return self.version is None

    @property
    def unexpected(self) -> bool:
        """Whether another version is installed than the one wanted."""
        return self.version is not None and not Requirement(f"x{self.wanted}").specifier.contains(self.version)

    def __str__(self) -> str:
        if self.missing:
            return f"{self.name} is missing"
        if self.unexpected:
            return f"{self.name} {self.version} came where {self.wanted} was expected"
        return f"{self.name} {self.version}"


def requirements(extra: str = "peers") -> list[Requirement]:
    """The requirements of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["optional-dependencies"][extra]]


def installed(name: str) -> str | None:
    """The version of a package of this environment, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def peer(name: str, version: str | None = None) -> Peer:
    """A library by its name, in the version of this environment or in a given one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = project["dependencies"] + [line for lines in extras.values() for line in lines]
    wanted = next((str(r.specifier) for r in map(Requirement, lines) if r.name == name), "")
    return Peer(name, wanted, version or installed(name))


def flower_python() -> Path | None:
    """The interpreter of the environment that holds Flower, or None.

    Flower asks for older versions of what the library's other packages need newer, so `make bench` gives it an
    environment of its own. An interpreter that has Flower beside everything else will do as well.
    """
    own = ROOT / ".venv" / "flower" / "bin" / "python"
    if own.exists():
        return own
    return Path(sys.executable) if installed("flwr") and installed("ray") else None


def main() -> None:
    """Print an extra."""
    for requirement in requirements(*sys.argv[1:]):
        print(requirement)


if __name__ == "__main__":
    main()
