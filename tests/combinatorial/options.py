"""The axes of the combinatorial tests, and which values go together.

Given the method and the loss, the other axes are independent of one another, so that the valid
cases are a union of products.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

# Powers of two near 1e-6 and 1e6: multiplying by them is exact, so that the invariance in units
# holds to the last bit.
UNITS = {"micro": 2.0**-20, "one": 1.0, "mega": 2.0**20}

# How many random cases compete for each case of the covering array.
_CANDIDATES = 20

SOLVERS = ("default", "exact", "gradient", "newton", "sgd")
ON_SUPPORT = ("newton-steps", "local-sgd", "local-newton")
ON_SUPPORT_SQUARED = ("normal-equations", *ON_SUPPORT)
LOSSES = ("squared", "summed", "logistic", "softmax")
FIRST_ORDER = ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg", "FastFedDualAvg")
METHODS = ("FedGradMP", "SharedSupportGradMP", "polish", *FIRST_ORDER)
DICTIONARIES = ("standard", "orthonormal", "omp", "thresholding", "wide-omp", "wide-thresholding")
FEDERATIONS = ("even", "uneven", "tiny", "blank", "single")
SPARSITIES = tuple(
    f"{what}{spared}" for what in ("column", "joint", "atom") for spared in ("", "-spared")
)


class Case(NamedTuple):
    """One run: a value on each axis."""

    method: str
    loss: str
    solver: str  # or how SharedSupportGradMP and polish minimise on the shared support
    dictionary: str
    federation: str
    cohort: str
    batch: str
    radius: str
    # Per column, jointly or by atom; spared: the first atom is always included and not counted.
    sparsity: str
    sent: str
    columns: str  # their unit
    targets: str  # their unit
    precision: str
    storage: str = "dense"  # or sparse: how the federation is given the same matrices

    def __str__(self) -> str:
        return "/".join(self)


def block(method: str, loss: str) -> dict[str, tuple[str, ...]]:
    """Return the values on each axis that go with a method and a loss."""
    squared = loss in ("squared", "summed")
    on_support = ON_SUPPORT_SQUARED if squared else ON_SUPPORT
    axes = {
        "method": (method,),
        "loss": (loss,),
        "solver": ("steps",),
        "dictionary": DICTIONARIES,
        "federation": FEDERATIONS,
        "cohort": ("all", "some", "one"),
        "batch": ("full", "some", "smallest"),
        "radius": ("none",),
        "sparsity": ("dense", "dense-spared"),
        "sent": ("-",),
        "columns": (*UNITS, "mixed"),
        "targets": tuple(UNITS) if squared else ("one",),
        "precision": ("float32", "float64"),
        "storage": ("dense", "sparse"),
    }
    if method == "FedGradMP":
        axes |= {"solver": SOLVERS, "radius": ("none", "tight"), "sparsity": SPARSITIES}
    elif method == "SharedSupportGradMP":
        axes |= {"solver": on_support, "radius": ("none", "tight"), "sparsity": SPARSITIES}
        axes |= {"batch": ("full",), "sent": ("default", "sketch", "largest", "one", "all")}
    elif method == "polish":
        axes |= {"solver": on_support, "radius": ("none", "tight"), "sparsity": SPARSITIES}
    elif method in ("FedHT", "FedIterHT"):
        axes |= {"sparsity": SPARSITIES}
    assert tuple(axes) == Case._fields
    return axes


def blocks(method: str) -> list[dict[str, tuple[str, ...]]]:
    """Return the products whose union are the valid cases of a method."""
    return [block(method, loss) for loss in LOSSES]


def sample(number: int, seed: int) -> list[Case]:
    """Return different cases, drawn uniformly from the valid ones, in a fixed order."""
    every = [axes for method in METHODS for axes in blocks(method)]
    sizes = [tuple(map(len, axes.values())) for axes in every]
    starts = np.cumsum([0, *map(math.prod, sizes)])
    chosen = np.sort(
        np.random.default_rng(seed).choice(starts[-1], min(number, int(starts[-1])), replace=False)
    )
    cases = []
    for position, index in zip(
        chosen, np.searchsorted(starts, chosen, side="right") - 1, strict=True
    ):
        positions = np.unravel_index(position - starts[index], sizes[index])
        cases.append(
            Case(*(options[i] for options, i in zip(every[index].values(), positions, strict=True)))
        )
    return cases


def covering_array(method: str) -> list[Case]:
    """Return few cases that cover every valid pair of values.

    Each is, of some random cases with an uncovered pair, the one that covers most new pairs.
    """
    rng = np.random.default_rng(0)
    every = [[*axes.values()] for axes in blocks(method)]
    cases = []
    axes = list(combinations(range(len(Case._fields)), 2))
    missing = {
        ((i, a), (j, b))
        for options in every
        for i, j in axes
        for a in options[i]
        for b in options[j]
    }
    while missing:
        pair = min(missing)
        allowed = [
            options for options in every if all(value in options[axis] for axis, value in pair)
        ]
        candidates = []
        for options in allowed * _CANDIDATES:
            drawn = dict(enumerate(values[rng.integers(len(values))] for values in options))
            drawn |= dict(pair)
            candidates.append(Case(*drawn.values()))
        best = max(
            candidates, key=lambda case: len(missing & set(combinations(enumerate(case), 2)))
        )
        missing -= set(combinations(enumerate(best), 2))
        cases.append(best)
    return cases
