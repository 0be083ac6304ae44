"""Print what one has to know to read the package: `make structure`.

The reading path is named in the docstring of `fgmp/__init__.py`, one file on a line. Nothing here fails a build: the
numbers are for whoever plans a change. What must hold, the layers of imports, is a contract in `pyproject.toml`.
"""

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fgmp"
LONGEST_LINE = 100
# Read by everyone and explained by their names; they do not count as steps on the way.
ASIDE = {"fgmp/_support/validation.py", "fgmp/_support/warnings.py"}


def reading_path() -> list[str]:
    """Return the files that the package's docstring names, in order."""
    docstring = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text())) or ""
    return [f"fgmp/{name}" for name in re.findall(r"^\d+\.\s+`(\w+\.py)`", docstring, re.MULTILINE)]


def imported_files(path: Path) -> Iterator[Path]:
    """Yield the files of the package that a file imports when it is loaded or run."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = ROOT.joinpath(*package[: len(package) + 1 - node.level])
        target = base.joinpath(*(node.module or "").split("."))
        if target.with_suffix(".py").exists():
            yield target.with_suffix(".py")
            continue
        for alias in node.names:
            submodule = target / f"{alias.name}.py"
            yield submodule if submodule.exists() else target / "__init__.py"


def closure(files: list[str]) -> set[str]:
    """Return the files that reading these leads to by imports."""
    waiting = [ROOT / name for name in files]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting.extend(imported_files(path))
    return {str(path.relative_to(ROOT)) for path in found}


def packed_assignments(tree: ast.AST) -> int:
    """Count assignments of several unrelated values: a tuple of expressions on either side."""
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        for node in ast.walk(tree)
    )


def comments(path: Path) -> int:
    """Count the lines that are comments."""
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        return sum(token.type == tokenize.COMMENT for token in tokens)


def n_lines(name: str) -> int:
    """Return how many lines a file has."""
    return len((ROOT / name).read_text().splitlines())


def main() -> None:
    """Print the reading path, what it leads to, and the figures of each file."""
    path = reading_path()
    print("The reading path:")
    for name in path:
        print(f"  {n_lines(name):5}  {name}")
    print(f"  {sum(map(n_lines, path)):5}  in {len(path)} files")

    others = sorted(closure(path) - set(path) - ASIDE - {"fgmp/__init__.py"})
    print(f"By imports it leads to {len(others)} more: {', '.join(others) or 'none'}")

    print("\n lines  packed   Any  long  comments  file")
    totals = [0] * 5
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text()
        lines = text.splitlines()
        figures = [
            len(lines),
            packed_assignments(ast.parse(text)),
            len(re.findall(r"\bAny\b", text)),
            sum(len(line) > LONGEST_LINE for line in lines),
            comments(file),
        ]
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        print("{:6} {:7} {:5} {:5} {:9}".format(*figures), "", file.relative_to(ROOT))
    print("{:6} {:7} {:5} {:5} {:9}".format(*totals), "  all")

    sys.stdout.flush()
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    sys.exit(subprocess.run(command, cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
