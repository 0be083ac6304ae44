"""What the last `mutmut run` found: a table of scores; build/mutants.txt lists the surviving mutants.

Ends with 1 where fewer mutants of a module are noticed than pyproject.toml asks for.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SURVIVED = (0, 5, 33)  # of mutmut: the tests passed, or none of them runs the function


def main(root: Path = ROOT) -> int:
    """Print, write, judge."""
    shares = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["fgmp"]["mutants"]
    survivors, poor = [], []
    for path in sorted((root / "mutants").rglob("*.py.meta")):
        tried = {
            k: code
            for k, code in json.loads(path.read_text())["exit_code_by_key"].items()
            if code is not None
        }
        left = [key for key, code in tried.items() if code in SURVIVED]
        if tried:
            score, name = 1 - len(left) / len(tried), path.name.removesuffix(".py.meta")
            print(f"{name:<20} {len(tried):>5} mutants {len(left):>4} unnoticed {score:>6.1%}")
            survivors += left
            asked = shares.get(name, shares["default"])
            if score < asked:
                poor.append(f"{name} (asked: {asked:.0%})")
    (root / "build").mkdir(exist_ok=True)
    (root / "build" / "mutants.txt").write_text("\n".join(survivors) + "\n")
    if poor:
        print(
            f"too few: {', '.join(poor)}; `mutmut show` prints what build/mutants.txt lists",
            file=sys.stderr,
        )
    return bool(poor)


if __name__ == "__main__":
    sys.exit(main())
