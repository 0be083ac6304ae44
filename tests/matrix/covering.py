"""A covering design: few cases that together show every valid pair of option values, for each method on its own."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from .options import Case

Axes = dict[str, tuple[str, ...]]
Pair = tuple[tuple[int, str], tuple[int, str]]

_TRIED = 12


def design(blocks: list[Axes]) -> list[Case]:
    """Greedy: the next case holds an open pair and, axis by axis, the value that closes most of the open pairs."""
    missing, cases, used = set(), [], Counter()
    for axes in blocks:
        for (i, first), (j, second) in combinations(enumerate(axes.values()), 2):
            missing |= {((i, a), (j, b)) for a in first for b in second}
    while missing:
        seeds = sorted(missing)[:: max(1, len(missing) // _TRIED)]
        fits = [(axes, pair) for pair in seeds for axes in blocks if all(v in [*axes.values()][i] for i, v in pair)]
        candidates = [_grown(axes, pair, missing, used) for axes, pair in fits]
        best = max(candidates, key=lambda case: (len(_pairs_of(case) & missing), case))
        missing -= _pairs_of(best)
        used.update(enumerate(best))
        cases.append(best)
    return cases


def _pairs_of(case: Case) -> set[Pair]:
    return set(combinations(enumerate(case), 2))


def _grown(axes: Axes, pair: Pair, missing: set[Pair], used: Counter) -> Case:
    chosen = dict(pair)
    for axis, options in sorted(enumerate(axes.values()), key=lambda item: -len(item[1])):
        if axis not in chosen:

            def gain(value: str, axis: int = axis) -> tuple[int, int]:
                new = (tuple(sorted(((axis, value), other))) for other in chosen.items())
                return sum(p in missing for p in new), -used[axis, value]

            chosen[axis] = max(options, key=gain)
    return Case(*(chosen[axis] for axis in range(len(axes))))
