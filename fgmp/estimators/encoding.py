"""Columns of a table as columns of numbers: categories, and values that are missing.

A category becomes a column of zeros and ones for each of its levels but the most frequent one, the
reference: ``sex=male``. (Of levels of one frequency it is the first, in the order of their texts.)
Where a number is missing it becomes the mean of those that are there, and a column beside it says
so: ``cholesterol is missing``. A category that is missing has such a column too, as one more level.
The columns of a variable are a block: they are selected together and count as one of the tau.

What all clients have to agree on is one `Encoding`. The levels are the union of those that occur at
any client; over a network the set of its levels is what leaves a client for that. The means and the
most frequent levels follow from sums over the clients (`ObservedMeans`), as the common units do.
Before that a client counts levels and gaps of few of its rows as others (`small_cells`), so that a
column is made only of what `min_rows` rows of some client have.
With an intercept and the column that says so, the number in place of a missing one moves no
prediction, but for a ridge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._support.displays import printable
from .._support.tables import WHERE_KINDS_BELONG, read_numbers, read_table
from .._support.ties import with_exact_ties
from .._support.validation import (
    as_array,
    check_integer,
    check_sequence,
    is_missing,
    short_repr,
)
from .._support.warnings import warn_user
from ..sparse_model import Array, IndexArray
from .groups import preview

# The level of rows whose own levels are small cells, where there are several of these.
OTHER = "other"

MISSING_RULES = ("error", "indicator")
# The most levels of a category: an identifier of rows is none.
MAX_LEVELS = 1000
_N_NAMED = 10
# A column of this number of distinct whole numbers may hold codes of kinds. Two are a yes and a no.
_LEAST_CODES = 3
_MOST_CODES = 10
_ROUNDING_OF_SHARES = 1e-10
_LONGEST_LEVEL = 200

# Text of a whole number with a decimal point, as a table may write it.
_WHOLE = re.compile(r"(-?\d+)\.0+")
# Text of truths, as CSV files of pandas, R and others write them.
_TRUTHS = {"true": "1", "false": "0"}
_DIGITS_OF_SINGLE = 9


class RawTable(NamedTuple):
    """The rows of a table before they are encoded.

    Attributes
    ----------
    columns : tuple of ndarray, each of shape (n_rows,)
        Numbers, and nan where one is missing; of a category, whose type is object, the level of
        each row as text, and None where it is missing.
    """

    columns: tuple[Array, ...]

    def take(self, rows: Array) -> RawTable:
        """Return some of the rows."""
        return RawTable(tuple(column[rows] for column in self.columns))

    def is_missing(self) -> Array:
        """Return where a value is missing, shape (n_rows, n_variables)."""
        return np.column_stack([missing_in(column) for column in self.columns])

    def numbers(self) -> Array:
        """Return the numbers, shape (n_rows, n_variables), zero if missing or of a category."""
        return np.column_stack(
            [
                np.zeros(len(column)) if is_category(column) else np.nan_to_num(column, nan=0.0)
                for column in self.columns
            ]
        )

    def n_changed(self, other: RawTable) -> list[int]:
        """Return for each column in how many rows another table has another value."""
        return [
            int(np.count_nonzero((before != after) & ~(missing_in(before) & missing_in(after))))
            for before, after in zip(self.columns, other.columns, strict=True)
        ]

    def levels(self) -> dict[int, list[str]]:
        """Return the levels that occur in each category, by its index, in increasing order."""
        return {
            index: sorted({*column[~missing_in(column)].tolist()})
            for index, column in enumerate(self.columns)
            if is_category(column)
        }

    def statistics(self, levels: Mapping[int, Sequence[str]]) -> Array:
        """Return what means are made of, as columns of finite numbers.

        These are the numbers, zero where they are missing; then where they are missing; then for
        each category which rows have which level.
        """
        indicators = [
            np.equal(self.columns[index], level)
            for index in sorted(levels)
            for level in levels[index]
        ]
        return np.column_stack([self.numbers(), self.is_missing(), *indicators]).astype(np.float64)


def is_category(column: Array) -> bool:
    """Return whether a column of a `RawTable` is one of levels."""
    return column.dtype == object


def missing_in(column: Array) -> Array:
    """Return where a value of a column of a `RawTable` is missing."""
    if is_category(column):
        return np.array([level is None for level in column.tolist()], bool)
    return np.isnan(column)


def may_be_codes(column: Array) -> bool:
    """Return whether a column holds a few distinct whole numbers, which may be codes of kinds."""
    known = column[~missing_in(column)]
    # Most columns are measurements, and are not sorted.
    if is_category(column) or (known % 1 != 0).any():
        return False
    return _LEAST_CODES <= len(np.unique(known)) <= _MOST_CODES


@dataclass(frozen=True)
class Variable:
    """A column of a table, and what it becomes.

    Attributes
    ----------
    name : str
        Its name.
    mean : float or None
        The mean of the numbers that are there; None for a category.
    has_indicator : bool
        Whether a column says where it is missing.
    levels : tuple of str
        The levels of a category that have a column; without the reference.
    reference : str
        The level of a category without a column, or "".

    Raises
    ------
    ValueError
        If the mean is not finite, if levels are given with one, or a level is there twice.
    """

    name: str
    mean: float | None
    has_indicator: bool
    levels: tuple[str, ...] = ()
    reference: str = ""

    def __post_init__(self) -> None:
        if self.mean is None:
            all_levels = (*self.levels, self.reference)
            if len(set(all_levels)) < len(all_levels) or not self.reference:
                raise ValueError(
                    f"levels of {self.name!r} are {short_repr(list(all_levels))} with the "
                    "reference; expected different texts"
                )
        elif not math.isfinite(self.mean) or self.levels or self.reference:
            raise ValueError(
                f"mean of {self.name!r} is {short_repr(self.mean)}, with "
                f"{len(self.levels)} levels and the reference {short_repr(self.reference)}; "
                "expected a finite mean, or None and levels"
            )

    @property
    def is_category(self) -> bool:
        """Whether it has levels."""
        return self.mean is None

    def columns(self) -> dict[str, str]:
        """Return the names of the columns that it becomes, in their order, and what each is."""
        columns = {
            f"{self.name}={level}": f"the level {level!r} of the category {self.name!r}"
            for level in self.levels
        }
        if not self.is_category:
            columns[self.name] = f"the column {self.name!r}"
        if self.has_indicator:
            columns[f"{self.name} is missing"] = f"where {self.name!r} is missing"
        return columns


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become columns of numbers, for all clients alike.

    Attributes
    ----------
    variables : tuple of Variable
        The columns of the table, in their order.

    Raises
    ------
    ValueError
        If two columns of numbers would have one name, so that nobody could tell them apart: a
        column ``ward=B`` beside the category ``ward``.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.array([["f", 50.0], ["m", 61.0], ["f", None]] * 20, object)
    >>> y = np.arange(60.0)
    >>> model = fgmp.FedGradMPRegressor(1, categories=[0], missing="indicator").fit(X, y)
    >>> model.encoding_.column_names()
    ['x0=m', 'x1', 'x1 is missing']
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        meanings: dict[str, str] = {}
        for variable in self.variables:
            for name, meaning in variable.columns().items():
                if name in meanings:
                    raise ValueError(
                        f"X would have two columns called {name!r}, {meanings[name]} and "
                        f"{meaning}; expected another name of a column or a level"
                    )
                meanings[name] = meaning

    def categories(self) -> tuple[int, ...]:
        """Return the variables that are categories."""
        return tuple(index for index, one in enumerate(self.variables) if one.is_category)

    def column_names(self) -> list[str]:
        """Return the names of the columns of numbers."""
        return [name for variable in self.variables for name in variable.columns()]

    def _variable_of(self) -> IndexArray:
        """Return the index of the variable of each column of numbers."""
        n_columns = [len(variable.columns()) for variable in self.variables]
        return np.repeat(np.arange(len(self.variables)), n_columns)

    def block_of(self) -> tuple[int, ...] | None:
        """Return the variable of each column of numbers; None if each is one of its own."""
        variable_of = self._variable_of()
        if np.array_equal(variable_of, np.arange(len(self.variables))):
            return None
        # A category of one level has no column: blocks are numbered without it.
        return tuple(np.unique(variable_of, return_inverse=True)[1].tolist())

    def indicators(self) -> tuple[int, ...]:
        """Return the columns of zeros and ones: those of levels, and of what is missing."""
        numbers = {variable.name for variable in self.variables if not variable.is_category}
        return tuple(j for j, name in enumerate(self.column_names()) if name not in numbers)

    def columns_of(self, variables: Sequence[int]) -> tuple[int, ...]:
        """Return the columns of numbers of some variables, in increasing order."""
        return tuple(np.flatnonzero(np.isin(self._variable_of(), variables)).tolist())

    def transform(self, X: object, missing: str = "indicator") -> Array:
        """Return the columns of numbers that a table becomes, shape (n_rows, n_columns).

        They are those that `predict` takes, for another model, or to look at. Rows are taken as
        they are. A fit with ``min_rows`` above 1 has recoded levels and gaps of few rows of a group
        before (``n_rows_recoded_``), so that such a row has other numbers here than in the fit, if
        another group made a column of its level or gap.

        Parameters
        ----------
        X : array_like or table, shape (n_rows, n_variables)
            The columns of the fit, in their order.
        missing : {"indicator", "error"}
            Whether values may be missing.

        Warns
        -----
        AdviceWarning
            As `encode` does.

        Examples
        --------
        >>> import fgmp
        >>> X = [[1.0, "A"], [2.0, "B"], [float("nan"), "A"], [3.0, "A"]]
        >>> kinds = {"missing": "indicator", "categories": [1], "min_rows": 1}
        >>> model = fgmp.FedGradMPRegressor("all", **kinds).fit(X, [1.0, 2.0, 3.0, 4.0])
        >>> model.encoding_.column_names()
        ['x0', 'x0 is missing', 'x1=B']
        >>> model.encoding_.transform([[float("nan"), "B"]]).tolist()
        [[2.0, 1.0, 1.0]]
        """
        names = tuple(variable.name for variable in self.variables)
        plan = EncodingPlan(names, self.categories(), (), missing)
        return self.encode(plan.read(X))

    def encode(self, table: RawTable) -> Array:
        """Return the columns of numbers of rows that were read, shape (n_rows, n_columns).

        Warns
        -----
        AdviceWarning
            If a level has no column, whose rows get the level ``other`` if there is one, and else
            the reference, or a value is missing in a column in which none was in the fit, which
            gets the mean, or the reference.
        """
        columns = []
        unknown = []
        filled = []
        for variable, column in zip(self.variables, table.columns, strict=True):
            is_missing = missing_in(column)
            if variable.is_category:
                known = {*variable.levels, variable.reference}
                strange = sorted({*column[~is_missing].tolist()} - known)
                if strange:
                    unknown.append(f"{variable.name!r} ({preview(strange, 3)})")
                    column = np.where(np.isin(column, strange), OTHER, column)
                columns += [np.equal(column, level) for level in variable.levels]
            else:
                columns.append(np.where(is_missing, float(variable.mean or 0), column))
            if variable.has_indicator:
                columns.append(is_missing)
            elif is_missing.any():
                filled.append(repr(variable.name))
        _warn_of_rules(unknown, filled)
        if not columns:
            raise ValueError("X has no column with two values; expected one")
        return np.column_stack(columns).astype(np.float64)


def _warn_of_rules(unknown: list[str], filled: list[str]) -> None:
    """Warn of values for which the fit has no column."""
    if unknown:
        warn_user(
            f"levels that the fit did not see, in the columns {', '.join(unknown[:_N_NAMED])}, or "
            "in fewer than min_rows rows of each group: their rows get the most frequent level of "
            f"the fit, or the level {OTHER!r} if it has one"
        )
    if filled:
        warn_user(
            f"values are missing in the columns {', '.join(filled[:_N_NAMED])}, in which none was "
            "in the fit, or in fewer than min_rows rows of each group: they get the mean of the "
            "fit, or the most frequent level"
        )


@dataclass(frozen=True)
class EncodingPlan:
    """What is known of an encoding before any row is seen.

    Attributes
    ----------
    names : tuple of str
        The names of the columns of the table.
    categories : tuple of int
        The columns that are categories.
    levels : tuple of pairs of int and tuple of str
        The categories whose levels were given, and these.
    missing : {"error", "indicator"}
        What to do where a value is missing.
    """

    names: tuple[str, ...]
    categories: tuple[int, ...]
    levels: tuple[tuple[int, tuple[str, ...]], ...]
    missing: str

    @classmethod
    def of(cls, names: Sequence[str], categories: object, missing: str) -> EncodingPlan:
        """Return the plan for the parameters of an estimator.

        Parameters
        ----------
        names : sequence of str
            The names of the columns.
        categories : None, name, index, sequence of these, or mapping of these to levels
            The columns that are categories.
        missing : {"error", "indicator"}
            What to do where a value is missing.
        """
        keys = category_keys(categories)
        indices = columns_of_names("categories", keys, names)
        levels = [
            (index, _given_levels(key, categories[key]))
            for index, key in zip(indices, keys, strict=True)
            if isinstance(categories, Mapping)
        ]
        return cls(tuple(names), tuple(sorted(indices)), tuple(levels), str(missing))

    @property
    def open_categories(self) -> tuple[int, ...]:
        """The categories whose levels the clients have to agree on."""
        return tuple(index for index in self.categories if index not in dict(self.levels))

    def read(self, X: object) -> RawTable:
        """Return the rows of a table, or raise a ValueError that names columns.

        Parameters
        ----------
        X : array_like or table, shape (n_rows, n_variables)
            Numbers, and anything that has a text in the columns of categories.
        """
        if sparse.issparse(X):
            raise ValueError(
                "X is sparse; expected a dense table with categories, or missing='indicator'"
            )
        columns = _columns_of(X)
        if not columns or len(columns) != len(self.names):
            expected = len(self.names) or "at least one"
            raise ValueError(f"X has {len(columns)} columns; expected {expected}")
        table = RawTable(
            tuple(
                _levels_of(column) if index in self.categories else _numbers_of(name, column)
                for index, (name, column) in enumerate(zip(self.names, columns, strict=True))
            )
        )
        is_infinite = [not is_category(one) and np.isinf(one).any() for one in table.columns]
        is_wrong = np.logical_and(table.is_missing().any(axis=0), self.missing == "error")
        refuse_not_finite(is_wrong, np.array(is_infinite), self._named)
        return table

    def _named(self, is_named: Array) -> str:
        """Return the names of the columns of a mask as text."""
        names = [self.names[index] for index in np.flatnonzero(is_named)]
        return f"[{preview(names, _N_NAMED)}]"

    def union(self, occurring: Sequence[Mapping[int, Sequence[str]]]) -> dict[int, tuple[str, ...]]:
        """Return the levels of all categories: those that were given, or occur at any client."""
        levels = {}
        given = dict(self.levels)
        for index in self.categories:
            found = {level for one in occurring for level in one.get(index, ())}
            levels[index] = tuple(sorted(found))
            if index in given:  # and what small cells become
                levels[index] = (*given[index], *({OTHER} - {*given[index]}))
            if len(levels[index]) > MAX_LEVELS:
                raise ValueError(
                    f"the category {self.names[index]!r} has {len(levels[index])} levels; expected "
                    f"at most {MAX_LEVELS}"
                )
        return levels

    def check_levels(self, table: RawTable) -> None:
        """Raise a ValueError if levels were given and a row has another."""
        occurring = table.levels() if self.levels else {}
        for index, given in self.levels:
            strange = sorted(set(occurring[index]) - set(given))
            if strange:
                raise ValueError(
                    f"the category {self.names[index]!r} has the levels {preview(strange, 3)}; "
                    f"expected those of categories: {preview(given, _N_NAMED)}"
                )

    def n_statistics(self, levels: Mapping[int, Sequence[str]]) -> int:
        """Return the number of columns of `RawTable.statistics`."""
        return 2 * len(self.names) + sum(map(len, levels.values()))

    def encoding(self, levels: Mapping[int, Sequence[str]], means: Array) -> Encoding:
        """Return the encoding that follows from the means of `RawTable.statistics`.

        Raises
        ------
        ValueError
            If a column has no value in any row.
        """
        n_variables = len(self.names)
        sizes = [n_variables, n_variables, *map(len, levels.values())]
        values, shares, *of_categories, _ = np.split(means, np.cumsum(sizes))
        shares_of_levels = dict(zip(levels, of_categories, strict=True))
        # A share under masks is a little off zero, and that of one row is much more.
        shares = np.where(shares > _ROUNDING_OF_SHARES, shares, 0)
        is_empty = shares >= 1 - _ROUNDING_OF_SHARES
        if is_empty.any():
            raise ValueError(
                f"X has no value in any row of the columns {self._named(is_empty)}, or in fewer "
                "than min_rows rows of each group; expected more, or a table without these columns"
            )

        variables = []
        for index, name in enumerate(self.names):
            has_indicator = bool(shares[index])
            if index not in self.categories:
                mean = float(values[index] / (1 - shares[index]))
                variables.append(Variable(name, mean, has_indicator))
                continue
            of_levels = with_exact_ties(shares_of_levels[index], _ROUNDING_OF_SHARES)
            reference = levels[index][int(np.argmax(of_levels))]
            others = tuple(
                level
                for level, share in zip(levels[index], of_levels, strict=True)
                if level != reference and share > _ROUNDING_OF_SHARES
            )
            variables.append(Variable(name, None, has_indicator, others, reference))
        return Encoding(tuple(variables))


def refuse_not_finite(is_missing: Array, is_infinite: Array, named: Callable[[Array], str]) -> None:
    """Raise a ValueError if a column has missing values, or infinite ones; `named` names them."""
    if is_missing.any():
        raise ValueError(
            f"X contains NaN: values are missing in the columns {named(is_missing)}; expected "
            "none, or a fit with missing='indicator'"
        ) from None
    if is_infinite.any():
        raise ValueError(
            f"X contains infinity in the columns {named(is_infinite)}; expected finite numbers"
        ) from None


def plan_of(names: Sequence[str], categories: object, missing: str) -> EncodingPlan | None:
    """Return the plan of an encoding, or None if columns are numbers without gaps as they are."""
    if not category_keys(categories) and missing == "error":
        return None
    return EncodingPlan.of(names, categories, missing)


def _given_levels(key: object, given: object) -> tuple[str, ...]:
    """Return levels that a user has named as text, increasing, or raise a ValueError."""
    levels = check_sequence(f"categories[{key!r}]", given, "a sequence of levels")
    texts = [level_of(level) for level in levels]
    if None in texts or not texts or len(set(texts)) < len(texts):
        raise ValueError(
            f"categories[{key!r}] is {short_repr(given)}; expected different levels, none of them "
            "missing"
        )
    return tuple(sorted(map(str, texts)))


def column_keys(argument: str, wanted: object) -> list[Any]:
    """Return names and indices of columns as a list of plain values, or raise a ValueError.

    Parameters
    ----------
    argument : str
        The name of the argument.
    wanted : None, str, int, or iterable of these
        Lists, and what pandas, polars and NumPy have for several columns. A set has no order, and
        is sorted. An iterator would be empty at its second use, and is refused.
    """
    if wanted is None:
        return []
    if isinstance(wanted, (str, int, np.integer)):
        wanted = [wanted]
    expected = "names of columns, or their indices, in a list"
    if isinstance(wanted, Iterator):
        raise ValueError(f"{argument} is {short_repr(wanted)}; expected {expected}")
    keys = check_sequence(argument, wanted, expected)
    keys = [key.item() if isinstance(key, np.generic) else key for key in keys]
    return sorted(keys, key=str) if isinstance(wanted, (set, frozenset)) else keys


def category_keys(categories: object) -> list[Any]:
    """Return the names and indices of the columns that are categories, as `column_keys` does."""
    if isinstance(categories, Mapping):
        return list(categories)
    return column_keys("categories", categories)


def columns_of_names(argument: str, wanted: object, names: Sequence[str]) -> list[int]:
    """Return the indices of columns that are given by name or index, or raise a ValueError."""
    bounds = {"at_least": 0, "at_most": len(names) - 1}
    indices = []
    for key in column_keys(argument, wanted):
        if not isinstance(key, str):
            indices.append(check_integer(argument, key, **bounds, why="the last column"))
        elif key in names:
            indices.append(list(names).index(key))
        else:
            raise ValueError(
                f"{argument} has {key!r}; expected names of columns, which are "
                f"{preview(list(names), _N_NAMED)}"
            )
    if len(set(indices)) < len(indices):
        raise ValueError(f"{argument} is {short_repr(wanted)}; expected each column once")
    return indices


def level_of(value: object) -> str | None:
    """Return a value of a category as text, or None if it is missing.

    A value is one level, whatever its type at a site:

    - 4, 4.0, Decimal("4.00"), "4" and "4.0"
    - 0.1 in single and in double precision, as a Decimal, and "0.1"
    - True, 1, "True" and "TRUE", as in a CSV file
    - a date, and midnight of the day without a time zone

    Any other text is a level as it stands, but for white space.
    """
    if is_missing(value):
        return None
    is_number = isinstance(value, (Real, Decimal, np.bool_))
    if is_number and not isinstance(value, np.timedelta64):  # which is an integer to NumPy
        return _text_of_number(value)
    if isinstance(value, (datetime, np.datetime64)):
        return _text_of_time(value)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = printable(text)
    if not text:
        return None
    if len(text) > _LONGEST_LEVEL:
        raise ValueError(
            f"a level has {len(text)} characters; expected at most {_LONGEST_LEVEL}, and no free "
            "text"
        )
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _TRUTHS.get(text.lower(), text)


def _text_of_number(value: Any) -> str:
    """Return a number as text; a whole number has no decimal point.

    A number that single precision holds is written as there: 0.10000000149011612 is 0.1.
    """
    if isinstance(value, np.float16):  # whose 0.1 is not that of single precision
        value = float(str(value))
    if math.isfinite(value) and value == int(value):
        return str(int(value))
    text = repr(float(value))
    digits = text.partition("e")[0].lstrip("-0.")
    # Nine digits tell all numbers of single precision apart; more are those of the conversion.
    if len(digits) > _DIGITS_OF_SINGLE and float(np.float32(value)) == value:
        text = repr(float(str(np.float32(value))))
    return text


def _text_of_time(value: datetime | np.datetime64) -> str:
    """Return a time as text: the date alone at midnight, as a column of dates has it."""
    time: Any = value.astype("M8[us]").item() if isinstance(value, np.datetime64) else value
    is_naive = isinstance(time, datetime) and time.tzinfo is None
    is_midnight = is_naive and time == datetime(*time.timetuple()[:3])
    return str(time.date() if is_midnight else time)


def _levels_of(column: Array) -> Array:
    """Return a column of values as levels."""
    levels = np.empty(len(column), object)
    # As a list times of a nanosecond would be integers, and half precision would not be known.
    is_plain = column.dtype.kind not in "mM" and column.dtype != np.float16
    levels[:] = [level_of(value) for value in (column.tolist() if is_plain else column)]
    return levels


def _columns_of(X: object) -> list[Array]:
    """Return the columns of a table or an array, each as a vector."""
    frame = read_table("X", X)
    if frame is None:
        array = as_array("X", X)
        if array.ndim != 2:
            raise ValueError(f"X has shape {array.shape}; expected 2 dimensions")
        return list(array.T)
    columns = []
    for series in frame.iter_columns():
        if getattr(series.to_native(), "dtype", None) == np.float16:
            columns.append(series.to_numpy())
            continue
        values = np.empty(len(series), object)
        values[:] = series.to_list()
        columns.append(values)
    return columns


def _numbers_of(name: str, column: Array) -> Array:
    """Return a column as floats, nan where a value is missing, or raise a ValueError.

    It takes what a column without gaps is taken for: Decimals, and text of numbers, too.
    """
    try:
        return read_numbers(f"column {name!r}", column).astype(np.float64)
    except (TypeError, ValueError):
        known = (value for value in column.tolist() if not is_missing(value))
        kinds = (type(value).__name__ for value in known if not isinstance(value, (Real, Decimal)))
        raise ValueError(
            f"could not convert column {name!r} of X to float: it holds a {next(kinds, 'date')}. "
            f"{WHERE_KINDS_BELONG}"
        ) from None
