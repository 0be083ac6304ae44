"""Sums under masks: the arithmetic of secure aggregation, every message of it, on this machine.

Four trips, after Bonawitz et al. (2017): the clients publish keys; each splits two secrets among all; each sends its
vector under masks that cancel in the sum; those still there open what is needed to take the rest of the masks away.
Keys are X25519, secrets are split by Shamir's scheme, masks are the stream of ChaCha20: all of `cryptography` and
`pycryptodome`, nothing of the cryptography is ours. The masks come from the system's random numbers and leave no trace
in the sum. On real machines the trips need authentic channels and deadlines; here is what they carry and cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..models import Array

__all__ = ["SHARING", "UNMASKING", "UPLOAD", "Member", "Unmasked", "masked_sum", "unmasked_total"]

# Before which trip a client may be lost; the first, publishing keys, is how it takes part at all.
SHARING, UPLOAD, UNMASKING = 1, 2, 3
_SECRET = 16  # bytes: Shamir's scheme in GF(2^128)


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
    """
    uploaded = sorted(masked)
    total = np.zeros_like(masked[uploaded[0]])
    for vector in masked.values():
        total += vector
    for place in uploaded:
        total -= _stream(_joined(opened, place, threshold), total)
    for place in split:
        if place in masked:
            continue
        key = _key_of(_joined(opened, place, threshold))
        for other in uploaded:
            mask = _stream(_agreed(key, keys[other][1], b"mask"), total)
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
    """

    def __init__(self, place: int, vector: Array, kept: tuple[bytes, bytes, bytes] | None = None) -> None:
        self.place, self.vector = place, vector
        drawn = kept or tuple(secrets.token_bytes(_SECRET) for _ in range(3))
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
        return _public(_key_of(self.letters)), _public(_key_of(self.seed))

    def split(self, others: list[int], keys: Mapping[int, Any], threshold: int) -> dict[int, bytes]:
        """A sealed letter for each other client with its shares of the two secrets; its own stay here."""
        pairs = zip(_split(self.seed, threshold, len(others)), _split(self.own, threshold, len(others)), strict=True)
        shares = dict(zip(others, (bytes(a) + bytes(b) for a, b in pairs), strict=True))
        self.kept, self.numbers = shares.pop(self.place), {place: i + 1 for i, place in enumerate(others)}
        return {place: _seal(self._with(keys, place, self.place, place), share) for place, share in shares.items()}

    def masked(self, others: list[int], keys: Mapping[int, Any]) -> Array:
        """The vector, with its own mask, plus those it has with later clients, minus those with earlier ones."""
        total = self.vector + _stream(self.own, self.vector)
        for place in others:
            if place != self.place:
                mask = _stream(_agreed(_key_of(self.seed), keys[place][1], b"mask"), total)
                total += mask if place > self.place else -mask
        return total

    def opened(self, letters: Mapping[int, bytes], keys: Mapping[int, Any], uploaded: list[int]) -> dict[int, bytes]:
        """One share of each client: of its own mask where its vector arrived, of its key where it did not."""
        shares = {place: _open(self._with(keys, place, place, self.place), text) for place, text in letters.items()}
        shares[self.place] = self.kept
        number = self.numbers[self.place].to_bytes(4, "big")
        return {p: number + (share[_SECRET:] if p in uploaded else share[:_SECRET]) for p, share in shares.items()}

    def _with(self, keys: Mapping[int, Any], other: int, sender: int, receiver: int) -> bytes:
        return _agreed(_key_of(self.letters), keys[other][0], b"letter %d %d" % (sender, receiver))


def _left(there: list[Member], lost: Mapping[int, int], trip: int, threshold: int) -> list[Member]:
    """Those not lost before a trip; a ValueError where they are too few."""
    left = [member for member in there if lost.get(member.place, UNMASKING + 1) > trip]
    if len(left) < threshold:
        raise ValueError(
            f"a secure sum has {len(left)} of {len(there)} clients left; expected at least {threshold}, the threshold"
        )
    return left


def _key_of(seed: bytes) -> Any:
    """The private key that a secret stands for."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_derived(seed, b"key"))


def _public(key: Any) -> bytes:
    raw: bytes = key.public_key().public_bytes_raw()
    return raw


def _agreed(key: Any, public: bytes, purpose: bytes) -> bytes:
    """What two clients derive from their keys alike, for one purpose."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _derived(key.exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes (HKDF, SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _stream(seed: bytes, like: Array) -> Array:
    """Numbers that nobody tells from uniform ones without the seed (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = seed if len(seed) == 32 else _derived(seed, b"own mask")
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(like.nbytes))
    return np.frombuffer(stream, like.dtype).copy()


def _seal(key: bytes, text: bytes) -> bytes:
    """A letter that only the two who share the key can read; each key seals one letter."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), text, None)


def _open(key: bytes, letter: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).decrypt(bytes(12), letter, None)


def _split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    from Crypto.Protocol.SecretSharing import Shamir

    return [share for _, share in Shamir.split(threshold, count, secret, False)]


def _joined(opened: Mapping[int, Mapping[int, bytes]], place: int, threshold: int) -> bytes:
    from Crypto.Protocol.SecretSharing import Shamir

    shares = [shares[place] for shares in opened.values()][:threshold]
    secret: bytes = Shamir.combine([(int.from_bytes(share[:4], "big"), share[4:]) for share in shares], False)
    return secret
