"""CSV files as people have them: cells by the names of their columns, and an error that says where a cell is wrong."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..sparse_model import Array

_TRUTHS = {"true": 1.0, "false": 0.0}
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}
_SHOWN_NAMES = 10
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file as text. `lines` says in which line of the file each row ends."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column. An empty one is a ValueError."""
        position = self._position(name)
        texts = [row[position] for row in self.rows]
        for number, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"{self._where(number, name)} is empty; expected a value")
        return texts

    def numbers(self, names: Sequence[str]) -> Array:
        """Return the numbers of some columns, shape (n_rows, n_names); True counts as 1 and False as 0.

        A cell that is empty, not available or no finite number is a ValueError that names its row and column, and does
        not show it.
        """
        positions = [self._position(name) for name in names]
        numbers = np.empty((len(self.rows), len(names)))
        for number, row in enumerate(self.rows):
            for column, position in enumerate(positions):
                value = _number(row[position])
                if value is None:
                    found = (
                        "is missing"
                        if row[position].strip().lower() in _MISSING
                        else "is not finite, or no number"
                    )
                    raise ValueError(
                        f"{self._where(number, names[column])} {found}; expected a number, True or False"
                    )
                numbers[number, column] = value
        return numbers

    def _position(self, name: str) -> int:
        """Return where a column stands, which has to be there once."""
        if name not in self.names:
            raise ValueError(f"the table has no column {name!r}; {self._came()}")
        if self.names.count(name) > 1:
            raise ValueError(
                f"the table has {self.names.count(name)} columns {name!r}; expected one"
            )
        return self.names.index(name)

    def _came(self) -> str:
        """Return the names of the columns in words; not those of a first line that holds data."""
        if all(_number(name) is not None for name in self.names):
            return "its first line has numbers; expected the names of the columns"
        short_repr = ", ".join(map(repr, self.names[:_SHOWN_NAMES])) + ", ..." * (
            len(self.names) > _SHOWN_NAMES
        )
        alone = "; expected commas between the columns" if len(self.names) == 1 else ""
        return f"its columns are {short_repr}{alone}"

    def _where(self, number: int, name: str) -> str:
        return f"row {number + 1} (line {self.lines[number]}), column {name!r},"


def read_csv(file: Iterable[str], header: bool = True) -> CsvTable:
    r"""Read a CSV file that has commas between its cells, as text. Without a header the names are 0, 1, ...

    A byte order mark is skipped. Each row has as many cells as the first line, anything else is a ValueError.

    Parameters
    ----------
    file : iterable of str
        The lines, such as a file that was opened as text with ``newline=""``.
    header : bool, default True
        Whether the first line has the names of the columns.

    Examples
    --------
    >>> from fgmp.estimators.csv_tables import read_csv
    >>> table = read_csv(["age,smokes,site\n", "61,True,north\n", "45,False,coast\n"])
    >>> table.numbers(["smokes", "age"]).tolist(), table.texts("site")
    ([[1.0, 61.0], [0.0, 45.0]], ['north', 'coast'])
    """
    reader = csv.reader(_without_mark(file), strict=True)
    rows: list[tuple[str, ...]] = []
    lines: list[int] = []
    try:
        for row in reader:
            rows.append(tuple(row))
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(
            f"the table cannot be read as CSV near line {reader.line_num}: {error}"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the table is no text in {error.encoding.upper()} near line {reader.line_num + 1}"
        ) from error
    while rows and not rows[-1]:  # empty lines at the end
        rows.pop()
        lines.pop()
    if not rows:
        raise ValueError("the table is empty; expected a line with the names of its columns")
    width = len(rows[0])
    for line, cells in zip(lines, rows, strict=True):
        if len(cells) != width:
            raise ValueError(
                f"line {line} of the table has {len(cells)} cells; expected {width}, as the first line"
            )
    if not header:
        return CsvTable(tuple(map(str, range(width))), tuple(rows), tuple(lines))
    return CsvTable(tuple(name.strip() for name in rows[0]), tuple(rows[1:]), tuple(lines[1:]))


def is_number(text: str) -> bool:
    """Return whether a cell is a finite number, or True or False."""
    return _number(text) is not None


def inert(value: object) -> object:
    """Return a value as a cell that a spreadsheet shows and does not run: text that is a formula begins with ``'``."""
    if (
        not isinstance(value, str)
        or is_number(value)
        or not value.lstrip(" ").startswith(_FORMULA_STARTS)
    ):
        return value
    return f"'{value}"


def _number(text: str) -> float | None:
    """Return the number in a cell, or None where there is none; 1_000 is none, though Python would take it."""
    text = text.strip()
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _without_mark(file: Iterable[str]) -> Iterable[str]:
    """Yield the lines, the first one without the byte order mark that Excel writes."""
    for number, line in enumerate(file):
        yield line if number else line.removeprefix("\ufeff")
