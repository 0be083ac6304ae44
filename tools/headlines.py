"""The picture at the top of each notebook: what its cell tagged "headline" shows, as a file that its title links to.

headlines.py      writes notebooks/pictures/*.png from the committed notebooks, and docs/recovery.png of the README
"""

import base64
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
PICTURES = NOTEBOOKS / "pictures"
README = {"00_start_here": ROOT / "docs" / "recovery.png"}  # from the cell tagged "readme"


def headline(notebook: nbformat.NotebookNode, tag: str = "headline") -> bytes | None:
    """The first PNG picture of the cell with a tag; None where there is none."""
    for cell in notebook.cells:
        if tag in cell.metadata.get("tags", []):
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output["data"]["image/png"])
    return None


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if (picture := headline(notebook)) is not None:
            (PICTURES / f"{path.stem}.png").write_bytes(picture)
        if path.stem in README and (picture := headline(notebook, "readme")) is not None:
            README[path.stem].write_bytes(picture)


if __name__ == "__main__":
    main()
