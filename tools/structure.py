"""Print what one has to know to read the package: `make structure`.

The docstring of `fgmp/__init__.py` names the files of the reading path, one on a line. The figures
are for the planning of changes and fail no build. What fails one is in `pyproject.toml`: the rules
of ruff bound what a function or a class may hold, and contracts of import-linter say who imports
whom.
"""

import ast
import doctest
import re
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fgmp"

# Sides of an assignment that list several values.
_DISPLAYS = (ast.Tuple, ast.List)
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Figures(NamedTuple):
    """The figures of a file."""

    lines: int
    packed: int
    any: int
    comments: int


def reading_path() -> list[str]:
    """Return the files that the package's docstring names, in order."""
    docstring = ast.get_docstring(parse(PACKAGE / "__init__.py")) or ""
    return [f"fgmp/{name}" for name in re.findall(r"^\d+\.\s+`(\w+\.py)`", docstring, re.MULTILINE)]


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def packed_assignments(tree: ast.AST) -> int:
    """Count the assignments that pack unrelated values: `a, b = f(x), g(y)`.

    The left side lists several names, and the right side lists several values, computes them in a
    comprehension, or chooses between two lists of values. An exchange, `a, b = b, a`, is none, and
    the unpacking of one value, such as `begin, end = bounds`, is none either.
    """
    return sum(isinstance(node, ast.Assign) and _is_packed(node) for node in ast.walk(tree))


def _is_packed(assignment: ast.Assign) -> bool:
    """Return whether an assignment packs unrelated values."""
    value = assignment.value
    if isinstance(value, ast.IfExp):
        lists_values = isinstance(value.body, _DISPLAYS) or isinstance(value.orelse, _DISPLAYS)
    else:
        lists_values = isinstance(value, _DISPLAYS + _COMPREHENSIONS)
    return lists_values and any(
        isinstance(target, _DISPLAYS) and not _is_exchange(target, value)
        for target in assignment.targets
    )


def _is_exchange(target: ast.expr, value: ast.expr) -> bool:
    """Return whether the same expressions stand on both sides, in another order."""
    if not isinstance(target, _DISPLAYS) or not isinstance(value, _DISPLAYS):
        return False
    return sorted(map(ast.unparse, target.elts)) == sorted(map(ast.unparse, value.elts))


def uses_of_any(tree: ast.AST) -> int:
    """Count the uses of `typing.Any`, without its import."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))


def count_comments(path: Path) -> int:
    """Count the comments of a file."""
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        return sum(token.type == tokenize.COMMENT for token in tokens)


def count_lines(name: str) -> int:
    """Return how many lines a file has."""
    return len((ROOT / name).read_text(encoding="utf-8").splitlines())


def count_lines_of_code(name: str) -> int:
    """Return how many lines of a file are neither docstrings, comments nor blank."""
    path = ROOT / name
    in_docstrings: set[int] = set()
    for node in ast.walk(parse(path)):
        # A string that is a statement documents what stands around it.
        is_documentation = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_documentation:
            in_docstrings.update(range(node.lineno, node.end_lineno + 1))
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(
        number not in in_docstrings and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(lines, start=1)
    )


def count_lines_of_examples(name: str) -> int:
    """Return how many lines of a file are examples in docstrings, with their headings."""
    parser = doctest.DocTestParser()
    count = 0
    for node in ast.walk(parse(ROOT / name)):
        if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS[:2])):
            continue
        examples = parser.get_examples(ast.get_docstring(node) or "")
        for example in examples:
            count += example.source.count("\n") + example.want.count("\n")
        if examples:
            count += 3  # "Examples", the line under it, and the blank line above it
    return count


def figures_of(path: Path) -> Figures:
    """Return the figures of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    tree = parse(path)
    return Figures(
        lines=len(lines),
        packed=packed_assignments(tree),
        any=uses_of_any(tree),
        comments=count_comments(path),
    )


def print_reading_path() -> None:
    """Print the files of the reading path, and their lines."""
    path = reading_path()
    print("The reading path:")
    for name in path:
        print(f"  {count_lines(name):5}  {name}")
    of_code = sum(map(count_lines_of_code, path))
    total = sum(map(count_lines, path))
    of_examples = sum(map(count_lines_of_examples, path))
    print(f"  {total:5}  in {len(path)} files")
    print(f"  {of_examples:5}  of them are examples in docstrings")
    print(f"  {of_code:5}  are neither docstrings, comments nor blank")


def print_figures() -> None:
    """Print the figures of each file, and their sums."""
    print("\n lines  packed   Any  comments  file")
    row = "{:6} {:7} {:5} {:9}  {}"
    figures = {path: figures_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
    for path, figures_of_file in figures.items():
        print(row.format(*figures_of_file, path.relative_to(ROOT)))
    totals = [sum(column) for column in zip(*figures.values(), strict=True)]
    print(row.format(*totals, "all"))


if __name__ == "__main__":
    print_reading_path()
    print_figures()
