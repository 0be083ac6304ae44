"""How nbval compares what a notebook prints with what it printed when it was committed.

Everything is compared as text, numbers, words and order alike, but for one kind of number: one that stands before a
tolerance, as in ``0.0210 ± 0.0012``. Its computation hangs on the last bits of a processor, and the notebook has
derived how far it may move (`plus_minus`). Such a number may differ by the committed tolerance, and a tolerance by a
factor of two. notebooks/conftest.py puts this rule before nbval's own comparison.
"""

import math
import re

import numpy as np

__all__ = ["plus_minus"]

NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
# What is compared of an output: printed text, and the texts of what is shown.
KINDS = ("text", "text/plain", "text/html")
CLAIM = re.compile(r"\[[a-z ]+\] [a-z0-9._-]+:")
WITH_TOLERANCE = re.compile(rf"({NUMBER}) ± ({NUMBER})")


def plus_minus(values) -> str:
    """The median over seeds, and twice its standard error, as text: what another processor may print instead.

    The standard error of a median is 1.2533 times that of a mean, and the quartiles stand for the standard deviation,
    which is 1 / 1.349 of their distance for normal values. Other bits change a seed's result by no more than other
    random numbers would, and some seeds only.
    """
    values = np.asarray(values, float)
    low, median, high = np.percentile(values, (25, 50, 75))
    tolerance = 2 * 1.2533 * (high - low) / 1.349 / math.sqrt(values.size)
    if not 0 < tolerance < math.inf:  # one seed, or values that do not differ
        return f"{median:.3g}"
    places = max(0, 1 - math.floor(math.log10(tolerance)))  # two digits of the tolerance
    return f"{median:.{places}f} ± {tolerance:.{places}f}"


def as_committed(text: str, committed: str) -> str:
    """The text, with each number that is within its committed tolerance replaced by the committed one."""
    expected = iter(WITH_TOLERANCE.findall(committed))

    def committed_number(found: re.Match) -> str:
        number, tolerance = next(expected, ("nan", "nan"))
        near = abs(float(found[1]) - float(number)) <= float(tolerance)
        similar = float(tolerance) / 2 <= float(found[2]) <= 2 * float(tolerance)
        return f"{number} ± {tolerance}" if near and similar else found[0]

    return WITH_TOLERANCE.sub(committed_number, text)


def outputs_as_committed(outputs: list, committed: list) -> list:
    """The outputs of a cell, each text `as_committed` in the output at the same place."""
    for output, reference in zip(outputs, committed, strict=False):
        for texts, expected in (
            (output, reference),
            (output.get("data", {}), reference.get("data", {})),
        ):
            for kind in KINDS:
                if kind in texts and kind in expected:
                    texts[kind] = as_committed(texts[kind], expected[kind])
    return outputs


def verdicts(outputs: list) -> list[str]:
    """The claims of a cell, each with its verdict and without what was measured."""
    lines = [output.get("data", {}).get("text/plain", "") for output in outputs]
    return [found[0] for line in lines if (found := CLAIM.match(line))]
