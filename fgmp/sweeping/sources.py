"""The notebooks of a folder, by number or by name, and the parameters that each has."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checks import check_kind, check_path

__all__ = ["Source", "check_parameters", "find_source", "parameters_of"]


@dataclass(frozen=True, eq=False)
class Source:
    """A notebook that was read, and not executed.

    Attributes
    ----------
    name : str
        Its file's name without the ending.
    folder : Path
        Where it stands and runs, absolute.
    notebook : NotebookNode
        Its cells.
    parameters : dict of str to str
        The names of its parameters, and their defaults as they are written.
    """

    name: str
    folder: Path
    notebook: Any
    parameters: dict[str, str]

    @property
    def code(self) -> str:
        """The source of its code cells: what decides whether a finished run is still one of this notebook."""
        return "\n# %%\n".join(cell.source for cell in self.notebook.cells if cell.cell_type == "code")


def find_source(name: str, folder: Path) -> Source:
    """Read the notebook that a number or a name means.

    Parameters
    ----------
    name : str
        "09", "09_local_iterations", or either with ".ipynb" or ".py".
    folder : Path
        The folder of the notebooks. Where a notebook is a pair, its ``.py`` half is read, for that is the source.

    Raises
    ------
    ValueError
        Where the folder holds no notebooks, none or several of that name, or one whose parameters cannot be read.
    """
    import jupytext

    check_kind("name", name, str, "the name or number of a notebook")
    folder = check_path("folder", folder, "a folder")
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {folder} here; expected a checkout of the repository, or --notebooks with the folder"
        )
    found = {path.stem: path for ending in ("ipynb", "py") for path in sorted(folder.glob(f"*.{ending}"))}
    wanted = name.removesuffix(".ipynb").removesuffix(".py")
    fitting = [wanted] if wanted in found else sorted(stem for stem in found if stem.partition("_")[0] == wanted)
    if len(fitting) != 1:
        there = ", ".join(sorted(found)) or "none"
        what = f"means {', '.join(fitting)}" if fitting else "is no notebook"
        raise ValueError(f"{name!r} {what}; expected one of those in {folder}: {there}")
    path = found[fitting[0]]
    notebook = jupytext.read(path)
    try:
        parameters = parameters_of(notebook)
    except SyntaxError as error:
        raise ValueError(f"the parameters of {path} are no Python: {error}") from error
    return Source(path.stem, folder.resolve(), notebook, parameters)


def parameters_of(notebook: Any) -> dict[str, str]:
    """The names that the cell tagged "parameters" sets, with their defaults as they are written; {} without a cell.

    The cell is parsed as Python. papermill reads it line by line, and passes over a line whose comment has a "=".
    """
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            return dict(_assignments(ast.parse(cell.source)))
    return {}


def _assignments(tree: ast.Module) -> Iterable[tuple[str, str]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and statement.value is not None:
                yield target.id, ast.unparse(statement.value)


def check_parameters(name: str, known: Mapping[str, str], given: Iterable[str]) -> None:
    """Raise a ValueError where a notebook has no parameter of a name that is given."""
    if strange := [key for key in given if key not in known]:
        raise ValueError(f"{name} has no parameter {', '.join(strange)}; it has: {', '.join(known) or 'none'}")
