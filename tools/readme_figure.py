"""The figure of the README: one picture of a committed notebook, as a file.

readme_figure.py          writes docs/comparison.png from 05_comparison_linear
"""

import base64
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK, NUMBER, TARGET = "05_comparison_linear", 2, ROOT / "docs" / "comparison.png"


def pictures(notebook: nbformat.NotebookNode) -> list[bytes]:
    """All PNG pictures that the cells show, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [base64.b64decode(o["data"]["image/png"]) for o in outputs if "image/png" in o.get("data", {})]


def main() -> None:
    """Write the picture."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{NOTEBOOK}.ipynb", as_version=4)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(pictures(notebook)[NUMBER - 1])


if __name__ == "__main__":
    main()
