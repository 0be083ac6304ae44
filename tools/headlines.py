"""The picture at the top of each notebook: what its cell tagged "headline" shows, as a file that its title links to.

headlines.py      writes notebooks/pictures/*.png from the committed notebooks, and docs/comparison.png
"""

import base64
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
PICTURES = NOTEBOOKS / "pictures"
README = {"05_comparison_linear": ROOT / "docs" / "comparison.png"}


def headline(notebook: nbformat.NotebookNode) -> bytes | None:
    """The first PNG picture of the cell tagged "headline"; None where there is none."""
    for cell in notebook.cells:
        if "headline" in cell.metadata.get("tags", []):
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output["data"]["image/png"])
    return None


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        if (picture := headline(nbformat.read(path, as_version=4))) is None:
            continue
        (PICTURES / f"{path.stem}.png").write_bytes(picture)
        if path.stem in README:
            README[path.stem].write_bytes(picture)


if __name__ == "__main__":
    main()
