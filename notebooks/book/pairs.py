"""The committed form of notebooks: pairs without traces of a machine, and the pictures that their titles link to."""

import ast
import base64
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .store import NOTEBOOKS

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def find(name: str, folder: Path = NOTEBOOKS) -> Path:
    """The .py half, which is the source, of the notebook that a number, a name or a path means."""
    there = {path.stem: path for path in sorted(folder.glob("[0-9]*.py"))}
    stem = Path(name).stem
    found = [path for known, path in there.items() if stem in (known, known.partition("_")[0])]
    if len(found) != 1:
        raise ValueError(f"there is no notebook {name}; expected one of {', '.join(there)}")
    return found[0]


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Take away, in place, what differs from run to run: all metadata but kernel and tags, and where print was cut.

    Cells that check, claim or only draw get the tag that folds them on the site, and what has this tag is folded in
    JupyterLab and on code hosts, too.
    """
    notebook.metadata = NotebookNode(
        kernelspec=NotebookNode(KERNEL), language_info=NotebookNode(name="python")
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        tags = list(cell.metadata.get("tags", []))
        if cell.cell_type == "code" and is_aside(cell.source) and "hide-input" not in tags:
            tags.append("hide-input")
        cell.metadata = NotebookNode(tags=tags) if tags else NotebookNode()
        if "hide-input" in tags:
            cell.metadata.jupyter = NotebookNode(source_hidden=True)
        if cell.cell_type == "code":
            cell.outputs = merged(cell.outputs)
    return notebook


def merged(outputs: list) -> list:
    """Outputs with neighbouring pieces of one stream joined; of the metadata, those of pictures remain."""
    result = []
    for output in outputs:
        if "metadata" in output:
            of_pictures = output.metadata.get("image/png")
            output.metadata = NotebookNode({"image/png": of_pictures} if of_pictures else {})
        if "data" in output:
            output.data.pop("application/vnd.jupyter.widget-view+json", None)  # its kernel is gone
        if result and output.output_type == "stream" and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def commit(executed: Path) -> None:
    """Write both halves of the committed pair, and the pictures, from an executed notebook."""
    import jupytext  # which takes half a second, and no notebook needs it
    from jupytext.config import load_jupytext_config

    notebook = normalise(read(executed))
    pair = NOTEBOOKS / executed.name
    nbformat.write(notebook, pair)
    jupytext.write(
        notebook, pair.with_suffix(".py"), fmt="py:percent", config=load_jupytext_config(str(pair))
    )
    for tag, target in pictures(pair.stem).items():
        target.write_bytes(picture(notebook, tag))


def pictures(stem: str) -> dict[str, Path]:
    """The tags of the cells whose pictures stand elsewhere too, and where."""
    return {"headline": NOTEBOOKS / "pictures" / f"{stem}.png"}


def picture(notebook: NotebookNode, tag: str) -> bytes:
    """The first PNG picture of the cell with a tag."""
    outputs = [
        o for cell in notebook.cells if tag in cell.metadata.get("tags", []) for o in cell.outputs
    ]
    return base64.b64decode(
        next(o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {}))
    )


# What draws: names of the notebooks' figures, and of Matplotlib.
DRAWS = {
    "plt",
    "panels",
    "images",
    "curve",
    "dots",
    "floor",
    "name_lines",
    "draw_sphere",
    "ax",
    "axes",
}


def is_aside(source: str) -> bool:
    """Whether a cell checks, claims, only draws, or imports what draws: it is folded, and has the tag hide-input.

    A cell that calls something of the package tells the story, also where it draws.
    """
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if any(isinstance(one, ast.ImportFrom) and one.module == "book" for one in tree.body):
        return True
    if "fgmp" in names:
        return False
    only_checks = all(
        isinstance(one, ast.Assert | ast.Import | ast.ImportFrom) for one in tree.body
    )
    return only_checks or bool(names & ({"check_parameters", "claim"} | DRAWS))


def claims(notebook: NotebookNode) -> list[dict]:
    """The records of the claims of an executed notebook, in their order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [
        output["metadata"]["claim"] for output in outputs if "claim" in output.get("metadata", {})
    ]


def parameters(notebook: NotebookNode) -> dict:
    """The values of the parameters that a notebook was executed with."""
    found = {}
    for cell in notebook.cells:
        if {"parameters", "injected-parameters"} & {*cell.metadata.get("tags", [])}:
            lines = [one for one in ast.parse(cell.source).body if isinstance(one, ast.Assign)]
            found |= {one.targets[0].id: ast.literal_eval(one.value) for one in lines}
    return found
