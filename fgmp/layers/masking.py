"""Sums under masks: the arithmetic of secure aggregation, every message of it.

Four trips, after Bonawitz et al. (2017): the clients publish keys; each splits two secrets among all; each sends its
vector under masks that cancel in the sum; those still there open what is needed to take the rest of the masks away.
The cryptography is that of a library (`fgmp.layers.primitives`). The masks come from the system's random numbers and
leave no trace in the sum. `masked_sum` carries the messages on this machine, `fgmp.flower` between machines.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..models import Array
from .primitives import SECRET, agreed, joined, opened, public_key, sealed, shared, stream

# The methods of a `Member`, in their order, and what each of them is told.
TRIPS = {
    "public": (),
    "split": ("places", "keys", "threshold"),
    "masked": ("split", "received"),
    "opened": ("uploaded",),
}

Told = Mapping[int, Mapping[str, Any]]


class TooFew(ValueError):
    """Fewer clients than the threshold stay to the end of a secure sum."""


class Unmasked(NamedTuple):
    """The sum of what was uploaded, whose that is, bytes of all four trips, and what the server held of each vector."""

    total: Array
    uploaded: Array
    bytes_up: int
    bytes_down: int
    masked: dict[int, Array]


def masked_sum(vectors: Sequence[Array], threshold: int, lost: Mapping[int, str]) -> Unmasked:
    """The sum of vectors of unsigned integers, one for each client, of which the server sees each under masks only.

    `threshold` clients must be there to the end, and so many together could open the mask of another. `lost` says
    before which trip a client is lost: before "opened", the last, its vector is in the sum. `TooFew` where fewer are
    left. K. Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017.
    """
    members = [Member(i, vector) for i, vector in enumerate(vectors)]

    def trip(name: str, told: Told) -> dict[int, Any]:
        return {i: getattr(members[i], name)(**told[i]) for i in told if lost.get(i) != name}

    return sum_under_masks(trip, len(members), threshold)


def sum_under_masks(trip: Callable[[str, Told], dict[int, Any]], n_clients: int, threshold: int) -> Unmasked:
    """The server's part, whoever carries the messages; `TooFew` where fewer clients than the threshold are left.

    ``trip(name, {place: arguments})`` calls that method of the `Member` of each place, one of `TRIPS`, and returns what
    those return who are still there, by place.
    """

    def left(name: str, told: Told) -> dict[int, Any]:
        replies = trip(name, told)
        if len(replies) < threshold:
            raise TooFew(
                f"a secure sum has {len(replies)} of {n_clients} clients left; expected at least {threshold}, the "
                "threshold"
            )
        return replies

    public = left("public", {i: {} for i in range(n_clients)})
    there = sorted(public)
    number = {place: i + 1 for i, place in enumerate(there)}  # of its shares
    keys = [key for place in there for key in public[place]]
    up = sum(map(len, keys))
    down = len(there) * up

    letters = left("split", dict.fromkeys(there, {"places": there, "keys": keys, "threshold": threshold}))
    split = sorted(letters)
    moved = sum(len(letter) for of_one in letters.values() for letter in of_one)
    up, down = up + moved, down + moved

    masked = left(
        "masked", {i: {"split": split, "received": [letters[u][number[i] - 1] for u in split]} for i in split}
    )
    uploaded = sorted(masked)
    shares = left("opened", dict.fromkeys(uploaded, {"uploaded": uploaded}))
    up += sum(vector.nbytes for vector in masked.values())
    up += sum(len(share) for of_one in shares.values() for share in of_one)
    down += len(shares) * 4 * len(uploaded)

    def secret(place: int) -> bytes:
        of_one = [(number[i], opened_by[split.index(place)]) for i, opened_by in shares.items()]
        return joined(of_one[:threshold])

    total = np.zeros_like(masked[uploaded[0]])
    for place, vector in masked.items():
        total += vector - stream(secret(place), total)
    for place in set(split) - set(uploaded):
        seed = secret(place)
        for other in uploaded:
            mask = stream(agreed(seed, public[other][1], b"mask"), total)
            total += mask if other > place else -mask
    return Unmasked(total, np.isin(np.arange(n_clients), uploaded), up, down, masked)


class Member:
    """One client: its vector, which only `masked` needs, its two keys, and the seed of its own mask.

    A method for each trip. `kept` is what the member of an earlier process kept, of which nobody else may see any.
    """

    def __init__(self, place: int, vector: Any = None, kept: dict[str, Any] | None = None) -> None:
        self.place, self.vector = place, vector
        self.kept = kept or {"secrets": [secrets.token_bytes(SECRET) for _ in range(3)]}
        self.letters, self.seed, self.own = self.kept["secrets"]

    def public(self) -> list[bytes]:
        """The public keys: one for letters to other clients, one that masks are agreed on with."""
        return [public_key(self.letters), public_key(self.seed)]

    def split(self, places: list[int], keys: list[bytes], threshold: int) -> list[bytes]:
        """A sealed letter for each other client with its shares of the two secrets; its own stay here."""
        if "share" in self.kept or self.place not in places:
            raise ValueError(f"places is {places}; expected this client among them, and once")
        parts = (shared(secret, threshold, len(places)) for secret in (self.seed, self.own))
        shares = [b"".join(both) for both in zip(*parts, strict=True)]
        self.kept |= {"places": places, "keys": keys, "threshold": threshold}
        self.kept["share"] = shares[places.index(self.place)]
        others = zip(places, shares, strict=True)
        return [b"" if p == self.place else sealed(self._with(p, self.place, p), share) for p, share in others]

    def masked(self, split: list[int], received: list[bytes]) -> Array:
        """The vector, with its own mask, plus those it has with later clients, minus those with earlier ones."""
        if "split" in self.kept or self.place not in split:
            raise ValueError(f"split is {split}; expected this client among them, and one upload")
        self._check("split", split, self.kept["places"])
        self.kept |= {"split": split, "received": received}
        total: Array = self.vector + stream(self.own, self.vector)
        for place in split:
            if place != self.place:
                mask = stream(agreed(self.seed, self._keys_of(place)[1], b"mask"), total)
                total += mask if place > self.place else -mask
        return total

    def opened(self, uploaded: list[int]) -> list[bytes]:
        """One share of each of `split`: of its own mask where its vector arrived, of its key where it did not."""
        if "split" not in self.kept or "opened" in self.kept:
            raise ValueError(f"uploaded is {uploaded}; expected shares to be opened once, after an upload")
        self._check("uploaded", uploaded, self.kept["split"])
        self.kept["opened"] = True
        shares = []
        for place, letter in zip(self.kept["split"], self.kept["received"], strict=True):
            mine = place == self.place
            share = self.kept["share"] if mine else opened(self._with(place, place, self.place), letter)
            shares.append(share[SECRET:] if place in uploaded else share[:SECRET])
        return shares

    def _check(self, name: str, places: list[int], of: list[int]) -> None:
        if not set(places) <= set(of) or len(set(places)) < self.kept["threshold"]:
            raise ValueError(f"{name} is {places}; expected at least {self.kept['threshold']} of {of}")

    def _keys_of(self, place: int) -> list[bytes]:
        first = 2 * self.kept["places"].index(place)
        keys: list[bytes] = self.kept["keys"][first : first + 2]
        return keys

    def _with(self, other: int, sender: int, receiver: int) -> bytes:
        return agreed(self.letters, self._keys_of(other)[0], b"letter %d %d" % (sender, receiver))
