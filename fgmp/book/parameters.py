"""The parameters of a notebook: one line each, whose comment says what it means and what it may be.

``batch_size = 40  # b, rows of a minibatch (1 to n_samples)``: the reader, ``papermill --help-notebook``, the messages
of `check_parameters` and a table of all parameters share this one line.
"""

from __future__ import annotations

import ast
import io
import linecache
import math
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import check_kind, shown

__all__ = ["Parameter", "check_parameters", "parameters_of", "read_parameters"]

_COUNTS = {word: number for number, word in enumerate(("one", "two", "three", "four", "five"), start=1)}
_COUNT = re.compile(rf"({'|'.join(_COUNTS)}) or more, |({'|'.join(_COUNTS)}) values, ")
_CLAUSE = re.compile(r"(?P<word>at least|above|at most|below) (?P<limit>.+)|(?P<low>.+) to (?P<high>.+)")
_OPTION = re.compile(r'"([^"]*)"')
_TESTS = {
    "at least": lambda value, limit: value >= limit,
    "above": lambda value, limit: value > limit,
    "at most": lambda value, limit: value <= limit,
    "below": lambda value, limit: value < limit,
}
_FREE = ("any number", "any integer", "True or False", "text")


@dataclass(frozen=True)
class Parameter:
    """One line of the cell of parameters.

    Attributes
    ----------
    name : str
    default : object
    meaning : str
        The comment without its range.
    range : str
        What stands in the last pair of brackets of the comment, up to a semicolon. One value is ``at least 1``,
        ``above 0, at most 5``, ``1 to n_samples``, ``any number``, ``True or False``, ``text``, or words between
        quotation marks; bounds are numbers, or arithmetic with other parameters. Several values are ``each ...``, with
        ``two or more,`` or ``two values,`` and ``increasing,`` before it. A parameter is an integer where its
        default is one, or where the range says ``integer,`` or ``even,``.
    note : str
        What follows the semicolon: what None stands for, say.

    Raises
    ------
    ValueError
        Where the range cannot be read.
    """

    name: str
    default: Any
    meaning: str
    range: str
    note: str = ""

    def __post_init__(self) -> None:
        _Range(self.range)

    def settled(self, value: Any, others: Mapping[str, Any]) -> Any:
        """A value in the form of the default, a single one as a list where the range says ``each``.

        Parameters
        ----------
        value : object
        others : mapping of str to object
            The values of the parameters that the range names.

        Raises
        ------
        ValueError
            Where the value is outside of the range.
        """
        if value is None and self.default is None:
            return None
        expected = _Range(self.range)
        if not expected.several:
            return self._one(value, expected, others, value)
        values = _values(value)
        most = expected.count if expected.exactly else len(values)
        in_order = not expected.increasing or all(a < b for a, b in zip(values, values[1:], strict=False))
        if not max(expected.count, 1) <= len(values) <= most or not in_order:
            raise self._error(value, others)
        return [self._one(one, expected, others, value) for one in values]

    def _one(self, value: Any, expected: _Range, others: Mapping[str, Any], given: Any) -> Any:
        defaults = self.default if isinstance(self.default, list) else [self.default]
        whole = expected.integer or all(isinstance(one, int) and not isinstance(one, bool) for one in defaults)
        if expected.options is not None:
            fits = any(value is one or (isinstance(value, str) and value == one) for one in expected.options)
        elif expected.limits == "text":
            fits = isinstance(value, str)
        else:
            kind = Integral if whole else Real
            number = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(float(value))
            fits = number and not (expected.even and value % 2)
            fits = fits and all(_TESTS[word](value, _worth(limit, others)) for word, limit in expected.clauses)
        if not fits:
            raise self._error(given, others)
        if expected.options is not None or expected.limits == "text":
            return value
        return int(value) if whole else float(value)

    def _error(self, value: Any, others: Mapping[str, Any]) -> ValueError:
        nodes = [node for _, limit in _Range(self.range).clauses for node in ast.walk(limit)]
        named = sorted({node.id for node in nodes if isinstance(node, ast.Name)} - {"min", "max"})
        worth = ", ".join(f"{name} is {others[name]!r}" for name in named)
        return ValueError(f"{self.name} is {value!r}; expected {self.range}" + f" ({worth})" * bool(worth))


class _Range:
    """The words of a range, taken apart."""

    def __init__(self, text: str) -> None:
        rest = text
        found = _COUNT.match(rest)
        self.count = _COUNTS[found[1] or found[2]] if found else 0
        self.exactly = bool(found and found[2])
        rest = rest[found.end() :] if found else rest
        self.increasing, rest = rest.startswith("increasing, "), rest.removeprefix("increasing, ")
        self.several, rest = rest.startswith("each "), rest.removeprefix("each ")
        self.even, rest = rest.startswith("even, "), rest.removeprefix("even, ")
        self.integer, self.limits = rest.startswith("integer, ") or self.even, rest.removeprefix("integer, ")
        self.options: list[Any] | None = None
        self.clauses: list[tuple[str, ast.expr]] = []
        if (found or self.increasing) and not self.several:
            raise ValueError(f"the range {text!r} counts values; expected 'each' before what each may be")
        if self.limits == "True or False":
            self.options = [True, False]
        elif words := _OPTION.findall(self.limits):
            self.options = words
            if re.sub(r'"[^"]*"|,| or |\s', "", self.limits):
                raise ValueError(f'the range {text!r} is not understood; expected words such as \'"a", "b" or "c"\'')
        elif self.limits == "any integer":
            self.integer = True
        elif self.limits not in _FREE:
            self.clauses = [clause for part in self.limits.split(", ") for clause in _clauses(part, text)]


def _clauses(part: str, text: str) -> Iterator[tuple[str, ast.expr]]:
    found = _CLAUSE.fullmatch(part)
    if found is None:
        raise ValueError(
            f"the range {text!r} is not understood at {part!r}; expected 'at least 1', 'above 0', '1 to n', "
            "'any number', 'True or False', 'text' or words in quotation marks"
        )
    limits = {found["word"]: found["limit"]} if found["word"] else {"at least": found["low"], "at most": found["high"]}
    for word, limit in limits.items():
        yield word, _arithmetic(limit, text)


def _arithmetic(limit: str, text: str) -> ast.expr:
    known = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.operator, ast.unaryop, ast.expr_context, ast.Call)
    try:
        tree = ast.parse(limit, mode="eval").body
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if all(isinstance(node, known) for node in ast.walk(tree)) and {*map(ast.unparse, calls)} <= {"min", "max"}:
            return tree
    except SyntaxError:
        pass
    raise ValueError(f"the range {text!r} is not understood at {limit!r}; expected arithmetic with parameters")


def _worth(limit: ast.expr, others: Mapping[str, Any]) -> Any:
    code = compile(ast.Expression(limit), "range", "eval")
    return eval(code, {"__builtins__": {}, "min": min, "max": max}, dict(others))


def read_parameters(source: str) -> list[Parameter]:
    """The parameters of a cell that holds nothing else.

    Parameters
    ----------
    source : str
        Lines such as ``n_clients = 50  # N, clients of the federation (at least 1)``.

    Raises
    ------
    ValueError
        Where a line is something else, or its range cannot be read.
    """
    check_kind("source", source, str, "the lines of a cell")
    try:
        return _read(source)
    except (SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"source is {shown(source)}; expected lines of Python ({error})") from error


def _read(source: str) -> list[Parameter]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    return [_parameter(statement, comments.get(statement.end_lineno or 0, "")) for statement in ast.parse(source).body]


def _parameter(statement: ast.stmt, comment: str) -> Parameter:
    line = ast.unparse(statement)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        raise ValueError(f"{line!r} is no parameter; expected 'name = value  # meaning (range)'")
    brackets = [*re.finditer(r"\((?:[^()]|\([^()]*\))*\)", comment)]
    if not brackets or not comment.endswith(")"):
        raise ValueError(f"{line!r} has the comment {comment!r}; expected a range in brackets at its end")
    words, _, note = brackets[-1][0][1:-1].partition("; ")
    meaning = comment[: brackets[-1].start()].strip()
    try:
        return Parameter(statement.targets[0].id, ast.literal_eval(statement.value), meaning, words, note)
    except ValueError as error:
        raise ValueError(f"{line!r}: {error}") from error


def check_parameters(
    namespace: Mapping[str, Any], *names: str, none: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Check all parameters of the notebook that calls, and return those that are named, settled.

    Parameters
    ----------
    namespace : mapping of str to object
        ``globals()`` of the notebook; its history of cells, or the file of a script, holds the cell of parameters.
    names : str
        The parameters to return, in this order: numbers as plain ones, several values as a list, even a single one.
    none : mapping of str to object, optional
        What None stands for.

    Returns
    -------
    tuple

    Raises
    ------
    ValueError
        Where a value is outside of its range, or there is no cell of parameters.

    Examples
    --------
    >>> from fgmp.book.parameters import check_parameters
    >>> cell = "n_clients = [5, 9]  # N, clients of the federation (each at least 1)"
    >>> check_parameters({"In": [cell], "n_clients": 3}, "n_clients")
    ([3],)
    >>> check_parameters({"In": [cell], "n_clients": [3, 0]})
    Traceback (most recent call last):
    ...
    ValueError: n_clients is [3, 0]; expected each at least 1
    """
    parameters = parameters_of(namespace)
    given = {parameter.name: namespace[parameter.name] for parameter in parameters}
    given |= {name: value for name, value in (none or {}).items() if given[name] is None}
    several = {parameter.name for parameter in parameters if _Range(parameter.range).several}
    others = {name: _values(value) if name in several else value for name, value in given.items()}
    settled = {parameter.name: parameter.settled(given[parameter.name], others) for parameter in parameters}
    return tuple(settled[name] for name in names)


def _values(value: Any) -> list[Any]:
    """What came as several values, or as one."""
    return [*value] if isinstance(value, (list, tuple, set, range)) or np.ndim(value) == 1 else [value]


def _cells_without_history() -> Iterator[str]:
    """The sources that the kernel keeps for its tracebacks, in the order of execution: nbval leaves no history."""
    for name, entry in linecache.cache.items():
        if len(entry) == 4 and ("ipykernel_" in name or name.startswith("<ipython-input")):
            yield "".join(entry[2])


def parameters_of(namespace: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a notebook: its first cell that holds such lines and nothing else."""
    if "In" not in namespace:
        cells = re.split(r"^# %%.*\n", Path(namespace["__file__"]).read_text(), flags=re.MULTILINE)
    else:
        cells = [*namespace["In"], *_cells_without_history()]
    for cell in cells:
        if re.match(r"\w+ = .*#.*\)$", cell.strip().partition("\n")[0]):
            return read_parameters(cell)
    raise ValueError("the notebook has no cell of parameters; expected lines 'name = value  # meaning (range)'")
