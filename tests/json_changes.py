"""Changes of one place of a JSON tree, in every way: another value, nothing, twice, one more."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

# What a place may hold: values of each type of JSON, and those that only Python's reader takes.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31 - 1, 2**63, -(2**63), 10**400,
    0.0, -0.0, 0.5, -1.5, 1e-300, 1e99, 1e300, -1e308, float("nan"), float("inf"), -float("inf"),
    "", "x", "inf", "nan", "0", "all", "cv", "per_group", "poisson", "a\0", "\ud800", "é" * 300,
    [], [None], [0], [[]], ["x"], ["x", "x"], [1.0, 2.0, 3.0], {}, {"x": 1}, {"mapping": []},
    {"mapping": [["ward", ["A", "B"]]]}, [[["deep"]]],
)  # fmt: skip


class Change(NamedTuple):
    """A change at a place.

    Attributes
    ----------
    path : tuple of str or int
        The keys from the root.
    how : {"replace", "delete", "duplicate", "add"}
    value : object
        What is put there.
    """

    path: tuple[str | int, ...]
    how: str
    value: Any = None

    def of(self, tree: Any) -> Any:
        """Return a copy of a tree with the change."""
        changed = copy.deepcopy(tree)
        if not self.path:
            return self.value
        at = changed
        for key in self.path[:-1]:
            at = at[key]
        key: Any = self.path[-1]
        if self.how == "replace":
            at[key] = self.value
        elif self.how == "delete":
            del at[key]
        elif self.how == "duplicate":
            at.insert(key, copy.deepcopy(at[key]))
        elif isinstance(at[key], dict):
            at[key]["one more"] = self.value
        else:
            at[key].append(self.value)
        return changed


def places(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each value in a tree, the root first."""
    yield path
    children: Any = ()
    if isinstance(tree, dict):
        children = tree.items()
    elif isinstance(tree, list):
        children = enumerate(tree)
    for key, child in children:
        yield from places(child, (*path, key))


def changes_at(path: tuple[str | int, ...], is_container: bool) -> Iterator[Change]:
    """Yield every change of a place, with all of `VALUES`."""
    for value in VALUES:
        yield Change(path, "replace", value)
    if path:
        yield Change(path, "delete")
    if path and isinstance(path[-1], int):
        yield Change(path, "duplicate")
    if path and is_container:
        for value in VALUES:
            yield Change(path, "add", value)


def sample_of_changes(tree: Any, size: int, rng: np.random.Generator) -> Iterator[Change]:
    """Yield changes at random: of fields alike, and of the entries of a list one for all."""
    by_field: dict[tuple[str, ...], list[tuple[str | int, ...]]] = {}
    for path in places(tree):
        field = tuple(key if isinstance(key, str) else "*" for key in path)
        by_field.setdefault(field, []).append(path)
    fields = list(by_field.values())
    for _ in range(size):
        paths = fields[rng.integers(len(fields))]
        path = paths[rng.integers(len(paths))]
        at = tree
        for key in path:
            at = at[key]
        of_place = list(changes_at(path, isinstance(at, (dict, list))))
        yield of_place[rng.integers(len(of_place))]
