"""Read CSV files: cells by the names of their columns, and errors that name the wrong cell.

No message shows what a cell holds, because it may be data of a person.
"""

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..sparse_model import Array

_TRUTHS = {"true": 1.0, "false": 0.0}
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}
_EXPECTED = "expected a number, True or False"
_N_SHOWN = 10
# Text that begins with one of these is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class CsvTable:
    """The cells of a CSV file, as text.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    rows : tuple of tuples of str
        The cells, row by row.
    lines : tuple of int
        For each row the line of the file in which it ends.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column, or raise a ValueError if one is empty."""
        texts = self._cells(name)
        for index, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"{self._location(index, name)} is empty; expected a value")
        return texts

    def numbers(self, names: Sequence[str]) -> Array:
        """Return the numbers of some columns, shape (n_rows, n_names).

        True counts as 1 and False as 0.

        Raises
        ------
        ValueError
            If a cell is empty, marked as missing, or no finite number. The message names its row
            and column, and does not show it.
        """
        values = self.values(names, {})
        for index, row in enumerate(values.tolist()):
            if None in row:
                where = self._location(index, names[row.index(None)])
                raise ValueError(f"{where} is missing; {_EXPECTED}")
        return values.astype(np.float64)

    def values(self, names: Sequence[str], categories: Mapping[str, Collection[str]]) -> Array:
        """Return the cells of some columns as objects, and None where one is marked as missing.

        A cell of a category is a text, and any other a number; errors are those of `numbers`.

        Parameters
        ----------
        names : sequence of str
            The columns.
        categories : mapping of str to collection of str
            The levels of each category, which may be named as a missing value is marked: "NA".
        """
        values = np.empty((len(self.rows), len(names)), object)
        for position, name in enumerate(names):
            levels = categories.get(name, ())
            for index, cell in enumerate(self._cells(name)):
                text = cell.strip()
                if text.lower() in _MISSING and text not in levels:
                    continue
                value = text if name in categories else _number(text)
                if value is None:
                    where = self._location(index, name)
                    raise ValueError(f"{where} is not finite, or no number; {_EXPECTED}")
                values[index, position] = value
        return values

    def _cells(self, name: str) -> list[str]:
        """Return the cells of a column, or raise a ValueError if its name is not there once."""
        count = self.names.count(name)
        if count == 0:
            raise ValueError(f"the table has no column {name!r}; {self._columns_in_words()}")
        if count > 1:
            raise ValueError(f"the table has {count} columns {name!r}; expected one")
        column = self.names.index(name)
        return [row[column] for row in self.rows]

    def _columns_in_words(self) -> str:
        """Return the names of the columns in words, unless the first line holds data."""
        if all(_number(name) is not None for name in self.names):
            return "its first line has numbers; expected the names of the columns"
        shown = ", ".join(map(repr, self.names[:_N_SHOWN]))
        if len(self.names) > _N_SHOWN:
            shown += ", ..."
        if len(self.names) == 1:
            shown += "; expected commas between the columns"
        return f"its columns are {shown}"

    def _location(self, index: int, name: str) -> str:
        """Return where a cell is, in words."""
        return f"row {index + 1} (line {self.lines[index]}), column {name!r},"


def read_csv(file: Iterable[str], header: bool = True) -> CsvTable:
    r"""Return the cells of a CSV file that has commas between them, as text.

    A byte order mark is skipped.

    Parameters
    ----------
    file : iterable of str
        The lines, such as a file that was opened as text with ``newline=""``.
    header : bool, default True
        Whether the first line has the names of the columns. Without it they are 0, 1, ...

    Raises
    ------
    ValueError
        If the file is no text or no CSV, is empty, or a row has another number of cells than the
        first line.

    Examples
    --------
    >>> from fgmp.estimators.csv_tables import read_csv
    >>> table = read_csv(["age,smokes,site\n", "61,True,north\n", "45,False,coast\n"])
    >>> table.numbers(["smokes", "age"]).tolist(), table.texts("site")
    ([[1.0, 61.0], [0.0, 45.0]], ['north', 'coast'])
    """
    lines = _lines_and_cells(file)
    while lines and not lines[-1][1]:  # empty lines at the end
        lines.pop()
    if not lines:
        raise ValueError("the table is empty; expected a line with the names of its columns")

    names = lines[0][1]
    for line, cells in lines:
        if len(cells) != len(names):
            raise ValueError(
                f"line {line} of the table has {len(cells)} cells; expected {len(names)}, as the "
                "first line"
            )
    if header:
        del lines[0]
    else:
        names = tuple(map(str, range(len(names))))
    rows = tuple(cells for _, cells in lines)
    return CsvTable(tuple(map(str.strip, names)), rows, tuple(line for line, _ in lines))


def _lines_and_cells(file: Iterable[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return for each row the line in which it ends, and its cells."""
    reader = csv.reader(_without_byte_order_mark(file), strict=True)
    try:
        return [(reader.line_num, tuple(cells)) for cells in reader]
    except csv.Error as error:
        raise ValueError(
            f"the table cannot be read as CSV near line {reader.line_num}: {error}"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the table is no text in {error.encoding.upper()} near line {reader.line_num + 1}"
        ) from error


def is_number(text: str) -> bool:
    """Return whether a cell is a finite number, or True or False."""
    return _number(text) is not None


def inert(value: object) -> object:
    """Return a value as a cell that a spreadsheet shows and does not run.

    Text that is a formula gets an apostrophe in front of it. Numbers stay, also those that begin
    with a sign.
    """
    if not isinstance(value, str) or is_number(value):
        return value
    is_formula = value.lstrip(" ").startswith(_FORMULA_STARTS)
    return f"'{value}" if is_formula else value


def _number(text: str) -> float | None:
    """Return the number in a cell, or None if there is none."""
    text = text.strip()
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    if "_" in text:  # Python would read 1_000
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _without_byte_order_mark(file: Iterable[str]) -> Iterator[str]:
    """Yield the lines, the first one without the byte order mark that Excel writes."""
    for index, line in enumerate(file):
        yield line if index else line.removeprefix("\ufeff")
