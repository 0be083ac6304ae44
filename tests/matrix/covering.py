"""A covering design: few cases that together show every valid pair of option values, for each method on its own."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from .options import Case

Axes = dict[str, tuple[str, ...]]
Pair = tuple[tuple[int, str], tuple[int, str]]

_TRIED = 12


def pairs_of(case: Case) -> set[Pair]:
    """The pairs of (axis, value) that a case shows."""
    return set(combinations(enumerate(case), 2))


def valid_pairs(blocks: list[Axes]) -> set[Pair]:
    """The pairs that some case of a union of products shows."""
    found = set()
    for axes in blocks:
        for (i, first), (j, second) in combinations(enumerate(axes.values()), 2):
            found |= {((i, a), (j, b)) for a in first for b in second}
    return found


def design(blocks: list[Axes]) -> list[Case]:
    """Greedy: the next case holds an open pair and, axis by axis, the value that closes most of the open pairs."""
    missing, cases, used = valid_pairs(blocks), [], Counter()
    while missing:
        seeds = sorted(missing)[:: max(1, len(missing) // _TRIED)]
        candidates = [_grown(axes, pair, missing, used) for pair in seeds for axes in blocks if _allows(axes, pair)]
        best = max(candidates, key=lambda case: (len(pairs_of(case) & missing), case))
        missing -= pairs_of(best)
        used.update(enumerate(best))
        cases.append(best)
    return cases


def _allows(axes: Axes, pair: Pair) -> bool:
    options = list(axes.values())
    return all(value in options[axis] for axis, value in pair)


def _grown(axes: Axes, pair: Pair, missing: set[Pair], used: Counter) -> Case:
    chosen = dict(pair)
    for axis, options in sorted(enumerate(axes.values()), key=lambda item: -len(item[1])):
        if axis not in chosen:

            def gain(value: str, axis: int = axis) -> tuple[int, int]:
                new = (tuple(sorted(((axis, value), other))) for other in chosen.items())
                return sum(p in missing for p in new), -used[axis, value]

            chosen[axis] = max(options, key=gain)
    return Case(*(chosen[axis] for axis in range(len(axes))))
