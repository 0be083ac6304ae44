"""The ledger of secure sums: of which clients sums were released, so that no client can be solved for."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from ..sparse_model import Array

_PRIME = 2**31 - 1  # products of two residues fit into int64


class Ledger:
    """The sets of clients whose sums were released, and whether one more would tell of a single client.

    Sums over the sets S_1, S_2, ... are linear equations in what single clients sent. Whatever was asked, a combination
    of them can rest on client i alone only if the unit vector of i is a combination of the indicator vectors of the
    sets: for if the sums are of phi_t(D_i), a combination is an element of span(1_S) (x) span(phi). So a set is taken
    only where no unit vector enters the span, and this holds for every method and every loss.

    The first objective of a run may be of a set of its own, `first`, so that a client that said one and then fails does
    not end the run: one number of which no answer tells, unless answers hold objectives (`with_objectives`). The second
    is released only where both sets may stand among the others.

    Parameters
    ----------
    sets : iterable of iterables of int, optional
        The sets that were released before.

    Examples
    --------
    >>> from fgmp.privacy.ledger import Ledger
    >>> ledger = Ledger()
    >>> ledger.choose([0, 1, 2, 3]), ledger.choose([0, 1, 2]), ledger.choose([0, 1])
    ([0, 1, 2, 3], [], [0, 1])
    """

    def __init__(self, sets: Iterable[Iterable[int]] = ()) -> None:
        self.sets: list[frozenset[int]] = []
        self.first: frozenset[int] = frozenset()
        self.with_objectives = False
        self.was_said = False  # that a sum stays closed
        self._columns: dict[int, int] = {}
        self._rows: Array = np.empty((0, 0), np.int64)  # reduced echelon form, modulo a prime
        for clients in sets:
            self._add(frozenset(map(int, clients)))

    def __repr__(self) -> str:
        return f"Ledger of {len(self.sets)} sets of clients"

    def choose(self, clients: Iterable[int], at_least: int = 1) -> list[int]:
        """Whose sum may be released of some clients: all, or the largest set of before among them, or nobody."""
        there = frozenset(map(int, clients))
        if self._add(there):
            return sorted(there)
        before = [old for old in self.sets if old <= there and len(old) >= at_least]
        largest = max(map(len, before), default=0)
        return next((sorted(old) for old in before if len(old) == largest), [])

    def choose_objective(self, clients: Iterable[int], at_least: int = 1) -> list[int]:
        """The same of an objective."""
        there = frozenset(map(int, clients))
        if not self.with_objectives and not self.first and len(there) > 1:
            self.first = there
            return sorted(there)
        return self.choose(there, at_least) if self.settle() else []

    def settle(self) -> bool:
        """Put the set of the first objective among the others; say whether it may stand there."""
        if self.first and not self._add(self.first):
            return False
        self.with_objectives = True
        return True

    def _add(self, clients: frozenset[int]) -> bool:
        """Take a set, if that leaves every unit vector out of the span; say whether it did."""
        if clients in self.sets:
            return True
        reduced = self._with(clients)
        units = np.count_nonzero(reduced, axis=1) == 1
        if not clients or units.any():
            return False
        self._rows = reduced
        self.sets.append(clients)
        return True

    def _with(self, clients: frozenset[int]) -> Array:
        """The reduced echelon form with one more row, or as it is where the set is in the span."""
        for client in sorted(clients):
            self._columns.setdefault(client, len(self._columns))
        missing = len(self._columns) - self._rows.shape[1]
        rows = np.pad(self._rows, ((0, 0), (0, missing)))
        row = np.zeros(len(self._columns), np.int64)
        row[[self._columns[client] for client in clients]] = 1

        for old in rows:
            row = (row - row[_pivot(old)] * old) % _PRIME
        if not row.any():
            return rows
        row = row * pow(int(row[_pivot(row)]), -1, _PRIME) % _PRIME
        rows = (rows - np.outer(rows[:, _pivot(row)], row)) % _PRIME
        return np.vstack([rows, row])

    def to_bytes(self) -> bytes:
        """What is known, for a checkpoint; nothing where nothing is."""
        if not self.sets and not self.first:
            return b""
        kept = {"sets": [sorted(clients) for clients in self.sets], "first": sorted(self.first)}
        return json.dumps(kept | {"with_objectives": self.with_objectives}).encode()

    @classmethod
    def from_bytes(cls, kept: bytes) -> Ledger:
        """The inverse of `to_bytes`."""
        if not kept:
            return cls()
        known = json.loads(kept)
        ledger = cls(known["sets"])
        ledger.first = frozenset(known["first"])
        ledger.with_objectives = known["with_objectives"]
        return ledger


def _pivot(row: Array) -> int:
    return int(np.argmax(row != 0))
