"""Short reprs, and tables in HTML for notebooks, of what an object is, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .optional import needs

# The rows of a history that a notebook shows: these at its start, and these at its end.
_FIRST_ROWS = 5
_LAST_ROWS = 5

# Bytes, by the power of 1000 that names their unit.
_UNITS = ("bytes", "kB", "MB", "GB", "TB")

_RIGHT = ' style="text-align: right"'
_LEFT = ' style="text-align: left"'


class HistoryTable(dict[str, NDArray[Any]]):
    """The history of a run: a dict of columns that a prompt and a notebook show in short.

    Examples
    --------
    >>> import numpy as np
    >>> from fgmp._support.displays import HistoryTable
    >>> HistoryTable(round=np.array([0, 1]), objective=np.array([1.0, 0.125]))
    <history of 2 rows, to round 1: round, objective 0.125>
    """

    def __repr__(self) -> str:
        rounds = self.get("round", np.empty(0))
        if not len(rounds):
            return f"<history of no rows: {', '.join(self)}>"
        last = [
            name if name == "round" else f"{name} {in_words(name, column[-1])}"
            for name, column in self.items()
        ]
        return f"<history of {len(rounds)} rows, to round {int(rounds[-1])}: {', '.join(last)}>"

    def last_in_words(self, *names: str) -> dict[str, str]:
        """Return the last number of each column that there is of these, as a short text."""
        return {name: in_words(name, self[name][-1]) for name in names if name in self}

    def _repr_html_(self) -> str:
        """Return the first and the last rows as a table."""
        n_rows = min(map(len, self.values()), default=0)
        shown: list[int | None] = list(range(n_rows))
        if n_rows > _FIRST_ROWS + _LAST_ROWS + 1:
            shown[_FIRST_ROWS:-_LAST_ROWS] = [None]  # a row of dots
        rows = [
            [
                "..." if index is None else in_words(name, column[index])
                for name, column in self.items()
            ]
            for index in shown
        ]
        return html_table(f"History of {n_rows} rows", list(self), rows)


def in_words(name: str, value: Any) -> str:
    """Return a number of a column as a short text, with its unit.

    Examples
    --------
    >>> from fgmp._support.displays import in_words
    >>> in_words("bytes_up", 1234567), in_words("objective", 0.123456), in_words("clients", 30)
    ('1.23 MB', '0.123', '30')
    """
    if name in ("bytes_up", "bytes_down"):
        return bytes_in_words(float(value))
    if name in ("round", "clients", "rejected"):
        return str(int(value))
    return f"{value:.3g}"


def bytes_in_words(count: float) -> str:
    """Return a number of bytes with the unit that keeps it below 1000."""
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count /= 1000
        unit += 1
    return f"{count:.3g} {_UNITS[unit]}"


def printable(text: str) -> str:
    """Return a text on one line, without margins and characters that a terminal acts on."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def preview_words(words: Sequence[str], n_shown: int) -> str:
    """Return the first words as text, and how many more there are."""
    text = ", ".join(words[:n_shown])
    if len(words) > n_shown:
        text += f" and {len(words) - n_shown} more"
    return text


def facts_in_words(facts: Mapping[str, str]) -> str:
    """Return facts as ``name value`` in one line."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def rows_of(columns: Mapping[str, Iterable[Any]], digits: int, nothing: str) -> list[list[str]]:
    """Return the cells of columns row by row: floats with some digits, and a word for nan."""
    return [
        [_cell_of(value, digits, nothing) for value in row]
        for row in zip(*columns.values(), strict=True)
    ]


def _cell_of(value: object, digits: int, nothing: str) -> str:
    if isinstance(value, (float, np.floating)):
        return nothing if np.isnan(value) else f"{value:.{digits}g}"
    return str(value)


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], n_words: int = 1) -> list[str]:
    """Return the lines of a table of text, in columns that are aligned.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of sequence of str
        Texts of the cells.
    n_words : int, default 1
        How many columns, from the first one on, are words, which begin below each other; numbers
        end below each other.
    """
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for cells in table:
        words = map(str.ljust, cells[:n_words], widths[:n_words])
        numbers = map(str.rjust, cells[n_words:], widths[n_words:])
        lines.append("  ".join([*words, *numbers]).rstrip())
    return lines


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """Return facts as a table of two columns, with a title."""
    return html_table(title, (), facts.items())


def html_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> str:
    """Return a table in HTML, which takes its colours from the page that it stands in.

    Parameters
    ----------
    title : str
        The caption.
    header : sequence of str
        Names of the columns. If there are none, the first cell of each row is the name of what
        follows.
    rows : iterable of sequence of str
        Texts of the cells, which are escaped here.
    """
    lines = [
        "<table>",
        f'<caption style="caption-side: top; text-align: left"><b>{escape(title)}</b></caption>',
    ]
    if header:
        cells = "".join(f'<th scope="col"{_RIGHT}>{escape(name)}</th>' for name in header)
        lines.append(f"<thead><tr>{cells}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        if header:
            cells = "".join(f"<td{_RIGHT}>{escape(value)}</td>" for value in row)
        else:
            name, *values = row
            cells = f'<th scope="row"{_LEFT}>{escape(name)}</th>'
            cells += "".join(f"<td{_LEFT}>{escape(value)}</td>" for value in values)
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    return "\n".join(lines)


def html_table_with_notes(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """Return a table in HTML between its title and a list of notes; arguments are texts."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f"<p><strong>{escape(title)}</strong></p>"
        # On a narrow screen the table scrolls, and not the page.
        f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><ul>{items}</ul>"
    )


def frame_of(what: str, columns: Mapping[str, NDArray[Any]], keys: Iterable[str]) -> Any:
    """Return columns as a pandas DataFrame, whose index are those of the keys that are there."""
    with needs(what, "pandas"):
        import pandas as pd

    return pd.DataFrame(columns).set_index([name for name in keys if name in columns])
