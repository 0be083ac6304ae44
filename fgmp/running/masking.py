"""Sums under masks: the arithmetic of secure aggregation, every message of it, on this machine.

Four trips, after Bonawitz et al. (2017): the clients publish keys; each splits two secrets among all; each sends its
vector under masks that cancel in the sum; those still there open what is needed to take the rest of the masks away.
The cryptography is that of a library (`fgmp.running.primitives`). The masks come from the system's random numbers and
leave no trace in the sum. On real machines the trips need authentic channels and deadlines; here is what they carry and
cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..models import Array
from .primitives import COMPACT, SECRET, Primitives, stream

__all__ = ["SHARING", "UNMASKING", "UPLOAD", "Member", "Unmasked", "masked_sum", "unmasked_total"]

# Before which trip a client may be lost; the first, publishing keys, is how it takes part at all.
SHARING, UPLOAD, UNMASKING = 1, 2, 3


class Unmasked(NamedTuple):
    """A sum, and what the server saw on the way to it.

    Attributes
    ----------
    total : ndarray of unsigned int
        The sum modulo 2^bits of the vectors that were uploaded.
    uploaded : ndarray of bool
        Whose vector is in it.
    bytes_up, bytes_down : int
        Of all four trips and all clients.
    masked : dict of int to ndarray
        What the server held of each vector.
    """

    total: Array
    uploaded: Array
    bytes_up: int
    bytes_down: int
    masked: dict[int, Array]


def masked_sum(vectors: Sequence[Array], threshold: int, lost: Mapping[int, int] | None = None) -> Unmasked:
    """The sum of vectors of unsigned integers, of which the server sees each under masks only.

    Parameters
    ----------
    vectors : sequence of ndarray of unsigned int
        One of each client, of one length and type.
    threshold : int
        How many clients must be there to the end; so many together could open the mask of another.
    lost : mapping of int to int, optional
        Before which trip a client is lost: `SHARING` and `UPLOAD`, its vector is not in the sum; `UNMASKING`, it is.

    Raises
    ------
    ValueError
        Where fewer clients than the threshold are left.

    References
    ----------
    K. Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017.
    """
    lost = lost or {}
    everyone = [Member(i, vector) for i, vector in enumerate(vectors)]
    up = down = 0

    there = list(everyone)
    keys = {member.place: member.public() for member in there}
    up += sum(len(part) for pair in keys.values() for part in pair)
    down += len(there) * up

    there = _left(there, lost, SHARING, threshold)
    sealed = {member.place: member.split([m.place for m in there], keys, threshold) for member in there}
    moved = sum(len(letter) for letters in sealed.values() for letter in letters.values())
    up, down = up + moved, down + moved

    split, there = [member.place for member in there], _left(there, lost, UPLOAD, threshold)
    masked = {member.place: member.masked(split, keys) for member in there}
    up += sum(vector.nbytes for vector in masked.values())

    uploaded, there = [member.place for member in there], _left(there, lost, UNMASKING, threshold)
    opened = {m.place: m.opened({u: sealed[u][m.place] for u in split if u != m.place}, keys, uploaded) for m in there}
    down += len(there) * 4 * len(uploaded)
    up += sum(len(share) for shares in opened.values() for share in shares.values())

    total = unmasked_total(masked, split, opened, keys, threshold)
    present = np.isin(np.arange(len(vectors)), uploaded)
    return Unmasked(total, present, up, down, masked)


def unmasked_total(
    masked: Mapping[int, Array],
    split: Sequence[int],
    opened: Mapping[int, Mapping[int, bytes]],
    keys: Mapping[int, Any],
    threshold: int,
    primitives: Primitives = COMPACT,
) -> Array:
    """The sum of the vectors that were uploaded, once their masks are known.

    Parameters
    ----------
    masked : mapping of int to ndarray of unsigned int
        What was uploaded, by the place of the client.
    split : sequence of int
        Who had shared secrets, and so who has masks with the others.
    opened : mapping of int to mapping
        What those still there opened of each of them.
    keys : mapping of int to (bytes, bytes)
        The public keys.
    threshold : int
        How many shares make a secret.
    primitives : Primitives
        Those of the clients.

    Raises
    ------
    ValueError
        Where shares do not fit together, because somebody opened others than it was given.
    """

    def secret(place: int) -> bytes:
        shares = [shares[place] for shares in opened.values()][:threshold]
        try:
            return primitives.joined([(int.from_bytes(share[:4], "big"), share[4:]) for share in shares])
        except ValueError as error:
            raise ValueError(f"shares of client {place} of the cohort do not fit together: {error}") from error

    uploaded = sorted(masked)
    total = np.zeros_like(masked[uploaded[0]])
    for vector in masked.values():
        total += vector
    for place in uploaded:
        total -= stream(secret(place), total)
    for place in split:
        if place in masked:
            continue
        seed = secret(place)
        for other in uploaded:
            mask = stream(primitives.agreed(seed, keys[other][1], b"mask"), total)
            total += mask if other > place else -mask
    return total


class Member:
    """One client: its vector, its two keys, and the seed of its own mask.

    Parameters
    ----------
    place : int
        In the cohort.
    vector : ndarray of unsigned int
    kept : (bytes, bytes, bytes), optional
        The `secrets` of an earlier process; new ones by default.
    primitives : Primitives
        The same for all clients of a sum.
    """

    def __init__(
        self,
        place: int,
        vector: Array,
        kept: tuple[bytes, bytes, bytes] | None = None,
        primitives: Primitives = COMPACT,
    ) -> None:
        self.place, self.vector, self.primitives = place, vector, primitives
        drawn = kept or tuple(secrets.token_bytes(SECRET) for _ in range(3))
        self.letters, self.seed, self.own = drawn

    @property
    def secrets(self) -> tuple[bytes, bytes, bytes]:
        """What nobody else may see: the seeds of both keys and of its own mask."""
        return self.letters, self.seed, self.own

    def go_on(self, kept: bytes, others: Sequence[int]) -> None:
        """Take up after `split`: its own shares, and who has the others."""
        self.kept, self.numbers = kept, {place: i + 1 for i, place in enumerate(others)}

    def public(self) -> tuple[bytes, bytes]:
        """The public keys: one for letters to other clients, one that masks are agreed on with."""
        return self.primitives.public(self.letters), self.primitives.public(self.seed)

    def split(self, others: list[int], keys: Mapping[int, Any], threshold: int) -> dict[int, bytes]:
        """A sealed letter for each other client with its shares of the two secrets; its own stay here."""
        parts = (self.primitives.split(secret, threshold, len(others)) for secret in (self.seed, self.own))
        shares = dict(zip(others, map(b"".join, zip(*parts, strict=True)), strict=True))
        self.kept, self.numbers = shares.pop(self.place), {place: i + 1 for i, place in enumerate(others)}
        seal = self.primitives.seal
        return {place: seal(self._with(keys, place, self.place, place), share) for place, share in shares.items()}

    def masked(self, others: list[int], keys: Mapping[int, Any]) -> Array:
        """The vector, with its own mask, plus those it has with later clients, minus those with earlier ones."""
        total = self.vector + stream(self.own, self.vector)
        for place in others:
            if place != self.place:
                mask = stream(self.primitives.agreed(self.seed, keys[place][1], b"mask"), total)
                total += mask if place > self.place else -mask
        return total

    def opened(self, letters: Mapping[int, bytes], keys: Mapping[int, Any], uploaded: list[int]) -> dict[int, bytes]:
        """One share of each client: of its own mask where its vector arrived, of its key where it did not."""
        opening, size = self.primitives.open, self.primitives.share_bytes
        shares = {place: opening(self._with(keys, place, place, self.place), text) for place, text in letters.items()}
        shares[self.place] = self.kept
        number = self.numbers[self.place].to_bytes(4, "big")
        return {p: number + (share[size:] if p in uploaded else share[:size]) for p, share in shares.items()}

    def _with(self, keys: Mapping[int, Any], other: int, sender: int, receiver: int) -> bytes:
        return self.primitives.agreed(self.letters, keys[other][0], b"letter %d %d" % (sender, receiver))


def _left(there: list[Member], lost: Mapping[int, int], trip: int, threshold: int) -> list[Member]:
    """Those not lost before a trip; a ValueError where they are too few."""
    left = [member for member in there if lost.get(member.place, UNMASKING + 1) > trip]
    if len(left) < threshold:
        raise ValueError(
            f"a secure sum has {len(left)} of {len(there)} clients left; expected at least {threshold}, the threshold"
        )
    return left
