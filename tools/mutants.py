"""What the last `mutmut run` found: a table of scores, and the difference that each surviving mutant makes.

    mutants.py            prints the table; writes both into build/mutants.txt

Ends with 1 where fewer mutants of a module are noticed than pyproject.toml asks for.
"""

import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "mutants"
SURVIVED = (0, 5, 33)  # of mutmut: the tests passed, or none of them runs the function


@dataclass(frozen=True)
class Module:
    """The mutants of one module."""

    name: str
    tried: int
    survivors: tuple[str, ...]

    @property
    def score(self) -> float:
        """The share of mutants that a test noticed."""
        return 1 - len(self.survivors) / self.tried


def modules(run: Path) -> list[Module]:
    """Every module of which a mutant was tried."""
    found = []
    for path in sorted(run.rglob("*.py.meta")):
        codes = {
            key: code for key, code in json.loads(path.read_text())["exit_code_by_key"].items() if code is not None
        }
        if codes:
            survivors = tuple(key for key, code in codes.items() if code in SURVIVED)
            found.append(Module(path.name.removesuffix(".py.meta"), len(codes), survivors))
    return found


def table(found: list[Module]) -> str:
    """One line for each module and one for all."""
    total = Module("all", sum(m.tried for m in found), tuple(key for m in found for key in m.survivors))
    lines = [f"{m.name:<20} {m.tried:>5} mutants {len(m.survivors):>4} unnoticed {m.score:>6.1%}" for m in found]
    return "\n".join(
        [*lines, f"{total.name:<20} {total.tried:>5} mutants {len(total.survivors):>4} unnoticed {total.score:>6.1%}"]
    )


def difference(key: str) -> str:
    """The lines that a mutant changes."""
    shown = subprocess.run([sys.executable, "-m", "mutmut", "show", key], capture_output=True, text=True, cwd=ROOT)
    changed = [line for line in shown.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "\n".join([f"\n{key}", *changed])


def main() -> int:
    """Print, write, judge."""
    found = modules(RUN)
    if not found:
        print("no mutants in mutants/; run `make mutants`", file=sys.stderr)
        return 1
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["fgmp"]["mutants"]
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    report = [table(found), *(difference(key) for module in found for key in module.survivors)]
    (build / "mutants.txt").write_text("\n".join(report) + "\n")
    print(report[0])
    poor = [module.name for module in found if module.score < asked]
    if poor:
        print(f"below {asked:.0%}: {', '.join(poor)}; build/mutants.txt has the survivors", file=sys.stderr)
    return bool(poor)


if __name__ == "__main__":
    sys.exit(main())
