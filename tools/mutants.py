"""Print the scores of the last `mutmut run`, and list the surviving mutants in build/mutants.txt.

The exit code is 1 if the tests notice fewer mutants of a module than pyproject.toml asks for.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# Exit codes of mutmut for mutants that survived: the tests passed (0), or none of them runs the
# function (5, 33).
SURVIVED = (0, 5, 33)


class ModuleScore(NamedTuple):
    """The mutants of a module that were tried."""

    module: str
    n_tried: int
    survivors: list[str]

    @property
    def noticed(self) -> float:
        """Return the share of the mutants that the tests notice."""
        return 1 - len(self.survivors) / self.n_tried


def score_of(path: Path) -> ModuleScore:
    """Return the score in a file that mutmut wrote for a module."""
    exit_codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    tried = {mutant: code for mutant, code in exit_codes.items() if code is not None}
    survivors = [mutant for mutant, code in tried.items() if code in SURVIVED]
    return ModuleScore(path.name.removesuffix(".py.meta"), len(tried), survivors)


def main(root: Path = ROOT) -> int:
    """Print the scores, write the survivors, and return the exit code."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    shares = project["tool"]["fgmp"]["mutants"]
    scores = [score_of(path) for path in sorted((root / "mutants").rglob("*.py.meta"))]
    scores = [score for score in scores if score.n_tried]
    for score in scores:
        print(
            f"{score.module:<20} {score.n_tried:>5} mutants {len(score.survivors):>4} unnoticed "
            f"{score.noticed:>6.1%}"
        )

    survivors = [mutant for score in scores for mutant in score.survivors]
    (root / "build").mkdir(exist_ok=True)
    (root / "build" / "mutants.txt").write_text("\n".join(survivors) + "\n", encoding="utf-8")

    poor = []
    for score in scores:
        wanted = shares.get(score.module, shares["default"])
        if score.noticed < wanted:
            poor.append(f"{score.module} (wanted: {wanted:.0%})")
    if poor:
        print(
            f"too few: {', '.join(poor)}; `mutmut show` prints what build/mutants.txt lists",
            file=sys.stderr,
        )
    return int(bool(poor))


if __name__ == "__main__":
    sys.exit(main())
