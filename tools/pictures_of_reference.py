"""Draw the pictures of docs/reference.md: run its examples, and write the figure of each part.

``python tools/pictures_of_reference.py`` writes docs/pictures/PART.png. The tests run the same
examples without writing anything there.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"


def examples() -> Iterator[tuple[str, str]]:
    """Yield the picture and the code of each part that has both."""
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        code = re.search(r"```python\n(.*?)```", part, re.DOTALL)
        picture = re.search(r"!\[[^]]+\]\(([^)]+)\)", part)
        if code and picture:
            yield picture[1], code[1]


def figures() -> Iterator[tuple[str, Any]]:
    """Run the examples one after another, in one namespace; yield picture and figure of each."""
    names: dict[str, Any] = {}
    for picture, code in examples():
        exec(code, names)
        yield picture, names.pop("figure")


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # examples write files
        for picture, figure in figures():
            path = PAGE.parent / picture
            path.parent.mkdir(exist_ok=True)
            figure.set_size_inches(6.4, 3.2)
            figure.savefig(path, dpi=100, metadata={"Software": None})
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
