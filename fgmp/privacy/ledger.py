"""The ledger of secure sums: the sets of clients over which sums were released."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import numpy as np

from ..sparse_model import Array

_PRIME = 2**31 - 1  # products of two residues fit into int64


class Ledger:
    """The sets of clients whose sums were released; it decides whether one more set may be.

    Sums over the sets S_1, S_2, ... are linear equations in what single clients sent. Whatever was
    asked, a combination of them can rest on client i alone only if the unit vector of i is a
    combination of the indicator vectors of the sets: if the sums are of phi_t(D_i), a combination
    is an element of span(1_S) (x) span(phi). So a set is added only if no unit vector enters the
    span, and this holds for every method and every loss.

    The first objective of a run may be of a set of its own, `first`, so that a client that reports
    an objective and then fails does not end the run. This is one number, of which no update tells
    unless updates hold objectives (`with_objectives`). The second objective is released only if
    both sets may stand among the others.

    Parameters
    ----------
    sets : iterable of iterables of int, optional
        The sets of client ids that were released before.

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
        self.has_warned = False  # that a sum stays closed
        self.write: Callable[[], object] | None = None  # to a checkpoint, before a sum is released
        self._column_of: dict[int, int] = {}
        # The indicator vectors of the sets, in reduced echelon form modulo a prime: exact, and a
        # unit vector is in their span if and only if it is one of these rows.
        self._rows: Array = np.empty((0, 0), np.int64)
        for clients in sets:
            self._add(frozenset(map(int, clients)))

    def __repr__(self) -> str:
        return f"Ledger of {len(self.sets)} sets of clients"

    def choose(self, clients: Iterable[int], at_least: int = 1) -> list[int]:
        """Return whose sum may be released, and keep that it is.

        Parameters
        ----------
        clients : iterable of int
            The ids of the clients that sent something.
        at_least : int, default 1
            The smallest set to release.

        Returns
        -------
        list of int
            All of them; or the largest set of before among them; or nobody.
        """
        present = frozenset(map(int, clients))
        if self._add(present):
            return sorted(present)
        released = [old for old in self.sets if old <= present and len(old) >= at_least]
        return sorted(max(released, key=len, default=()))

    def choose_objective(self, clients: Iterable[int], at_least: int = 1) -> list[int]:
        """Return whose objectives may be summed and released; parameters as in `choose`."""
        present = frozenset(map(int, clients))
        is_first = not self.with_objectives and not self.first
        if is_first and len(present) > 1:
            self.first = present
            return sorted(present)
        return self.choose(present, at_least) if self.settle() else []

    def settle(self) -> bool:
        """Add the set of the first objective to the others; return whether it may stand there."""
        if self.first and not self._add(self.first):
            return False
        self.with_objectives = True
        return True

    def _add(self, clients: frozenset[int]) -> bool:
        """Add a set if that leaves every unit vector out of the span; return whether it did."""
        if clients in self.sets:
            return True
        if not clients:
            return False
        rows = self._rows_with(clients)
        is_unit = np.count_nonzero(rows, axis=1) == 1
        if is_unit.any():
            return False
        self._rows = rows
        self.sets.append(clients)
        return True

    def _rows_with(self, clients: frozenset[int]) -> Array:
        """Return the echelon form with one more set; as it was if the set is in the span."""
        for client_id in sorted(clients):
            self._column_of.setdefault(client_id, len(self._column_of))
        n_new = len(self._column_of) - self._rows.shape[1]
        rows = np.pad(self._rows, ((0, 0), (0, n_new)))
        row = np.zeros(len(self._column_of), np.int64)
        row[[self._column_of[client_id] for client_id in clients]] = 1

        for old in rows:
            row = (row - row[_pivot(old)] * old) % _PRIME
        if not row.any():
            return rows
        inverse = pow(int(row[_pivot(row)]), -1, _PRIME)
        row = row * inverse % _PRIME
        rows = (rows - np.outer(rows[:, _pivot(row)], row)) % _PRIME
        return np.vstack([rows, row])

    def to_bytes(self) -> bytes:
        """Return what the ledger knows, for a checkpoint; nothing if it is empty."""
        if not self.sets and not self.first:
            return b""
        content = {
            "sets": [sorted(clients) for clients in self.sets],
            "first": sorted(self.first),
            "with_objectives": self.with_objectives,
        }
        return json.dumps(content).encode()

    def include(self, text: bytes) -> None:
        """Add what another ledger knew, as `to_bytes` wrote it.

        Raises
        ------
        ValueError
            If the sums that were released for both tell of a single client.
        """
        content = json.loads(text)
        sets = [frozenset(clients) for clients in content["sets"]]
        first = frozenset(content["first"])
        has_two = bool(first and self.first) and first != self.first
        if has_two:
            sets.append(first)
        self.first = self.first or first
        is_settled = has_two or self.with_objectives or content["with_objectives"]
        if not all(map(self._add, sets)) or (is_settled and not self.settle()):
            raise ValueError(
                "ledger has sums that tell of a single client beside those of the checkpoint; "
                "expected the ledger of the same runs, or None"
            )


def _pivot(row: Array) -> int:
    """Return the column of the first entry that is not zero."""
    return int(np.argmax(row != 0))
