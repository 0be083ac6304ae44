"""The parameters of a notebook: a wrong one stops before anything runs, in one line that names it."""

import math
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["check_parameters"]

KINDS = {
    "int": (lambda one: isinstance(one, int), "a whole number"),
    "float": (
        lambda one: isinstance(one, int) or (isinstance(one, float) and math.isfinite(one)),
        "a number",
    ),
    "str": (lambda one: isinstance(one, str), "a text"),
    "None": (lambda one: one is None, "None"),
}
RULE = re.compile(
    r"(?:(?P<low>[^|<]+) (?P<above><=?) )?"
    r"(?P<increasing>increasing )?"
    r"(?:(?P<one>int|float|str|None)|list\[(?P<each>int|float|str)(?:, (?P<length>\d+)(?P<more>\.\.)?)?\])"
    r"(?: (?P<compare><=?|>=?|in) (?P<bound>[^|]+))?"
)
HOLDS = {
    "<": lambda one, bound: one < bound,
    "<=": lambda one, bound: one <= bound,
    ">": lambda one, bound: one > bound,
    ">=": lambda one, bound: one >= bound,
    "in": lambda one, bound: one in bound,
}
WORDS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least", "in": "one of"}
TURNED = {"<": ">", "<=": ">="}


@dataclass(frozen=True)
class Rule:
    """A type, such as ``int`` or ``list[float, 2..]`` (two numbers or more), and the bounds of each value."""

    kind: str
    is_list: bool
    shortest: int
    longest: float
    increasing: bool
    bounds: tuple[tuple[str, str], ...]  # how it compares, and an expression in the parameters

    @classmethod
    def of(cls, text: str) -> "Rule":
        """Read ``1 <= int <= n_features``; a bound is an expression in the parameters."""
        found = RULE.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"the rule is {text!r}; expected one such as '1 <= int <= n_features', "
                "'0 < float <= 0.1', 'increasing list[int] >= 1', \"str in ['a', 'b']\""
            )
        bounds = [(TURNED.get(found["above"]), found["low"]), (found["compare"], found["bound"])]
        length = int(found["length"] or 1)
        return cls(
            found["one"] or found["each"],
            found["each"] is not None,
            length,
            length if found["length"] and not found["more"] else math.inf,
            found["increasing"] is not None,
            tuple((how, expression) for how, expression in bounds if expression),
        )

    def has_type(self, value: Any) -> bool:
        """Whether a value has the type. True and False are no numbers."""
        of_kind = KINDS[self.kind][0]
        each = value if self.is_list and isinstance(value, list) else [value]
        right = all(not isinstance(one, bool) and of_kind(one) for one in each)
        return right and isinstance(value, list) == self.is_list and each != []

    def fits(self, value: Any, values: dict) -> bool:
        """Whether a value has the type, the length, the order and the bounds."""
        if not self.has_type(value):
            return False
        each = value if self.is_list else [value]
        return (
            self.shortest <= len(each) <= self.longest
            and (not self.increasing or each == sorted(set(each)))
            and all(
                HOLDS[how](one, eval(bound, {}, values))
                for how, bound in self.bounds
                for one in each
            )
        )

    def in_words(self, values: dict | None = None) -> str:
        """What is expected, as a reader of the notebook would say it; without values the type alone."""
        words = KINDS[self.kind][1]
        if self.is_list:
            words = f"a list of {words.removeprefix('a ')}s"
            if self.longest == self.shortest:
                words += f", {self.shortest} of them"
            else:
                words += ", one or more" if self.shortest == 1 else f", {self.shortest} or more"
        if values is None:
            return words
        bounds = [
            f"{'each ' * self.is_list}{WORDS[how]} {expression_in_words(bound, values)}"
            for how, bound in self.bounds
        ]
        return ", ".join([words, *["increasing"] * self.increasing, *bounds])


def check_parameters(values: dict, names_of: dict[str, str]) -> None:
    """Raise an error for the first parameter that is not as its rule says.

    `values` are those of the notebook, ``globals()``. `names_of` lists under each rule the names that it holds for,
    with spaces between them::

        {"int >= 1": "n_clients rounds", "1 <= int <= n_features": "sparsity", "0 < float <= 0.1": "exact"}

    A rule is a type and the bounds of a value, or of each value of a list: ``increasing list[int] >= 1``,
    ``list[float, 2]``, ``str in ['digits', 'femnist']``. A name may have an index, such as ``sizes[2]``. Several rules
    have " | " between them, and one of them has to hold. A whole number is a number too. True is neither, and no more
    are infinity and nan; 10.0 is no whole number, and an empty list no list. A wrong type is a TypeError, and is looked
    for first, and what is out of bounds a ValueError.
    """
    rules = {
        name: [Rule.of(one) for one in text.split(" | ")]
        for text, names in names_of.items()
        for name in names.split()
    }
    for name in (one for one in rules if one in values):
        if not any(rule.has_type(values[name]) for rule in rules[name]):
            words = " or ".join(rule.in_words() for rule in rules[name])
            raise TypeError(f"{name}={short(values[name])}: expected {words}")
    for name, expected in rules.items():
        value = eval(name, {}, values)
        if not any(rule.fits(value, values) for rule in expected):
            words = " or ".join(rule.in_words(values) for rule in expected)
            raise ValueError(f"{name}={short(value)}: expected {words}")


def expression_in_words(text: str, values: dict) -> str:
    """The bound, and its value where the text does not say it."""
    value = eval(text, {}, values)
    if isinstance(value, list | tuple | dict):
        return ", ".join(map(str, value))
    return text if re.fullmatch(r"[-+.e\d]+", text) else f"{text}={value}"


def short(value: Any, most: int = 60) -> str:
    """The value on one line, and no more than its beginning."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
