"""The cryptography of secure sums: keys, letters, shares and masks, all of `cryptography` and `pycryptodome`.

Keys are X25519, letters ChaCha20-Poly1305, secrets are split by Shamir's scheme, masks are the stream of ChaCha20. On
the wire Flower's own primitives take the place of the first three (`fgmp.flower.primitives`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..models import Array

__all__ = ["COMPACT", "SECRET", "Primitives", "derived", "stream"]

SECRET = 16  # bytes: Shamir's scheme in GF(2^128)


class Primitives(Protocol):
    """What the clients of a secure sum agree on. A seed of `SECRET` bytes stands for a private key.

    Attributes
    ----------
    share_bytes : int
        The length of a share of a secret.
    """

    share_bytes: int

    def public(self, seed: bytes) -> bytes:
        """The public key."""
        ...

    def agreed(self, seed: bytes, public: bytes, purpose: bytes) -> bytes:
        """The 32 bytes that two clients derive alike from one seed and the other public key, for one purpose."""
        ...

    def seal(self, key: bytes, text: bytes) -> bytes:
        """A letter that only the two who share the key can read; each key seals one letter."""
        ...

    def open(self, key: bytes, letter: bytes) -> bytes:
        """The text of a letter."""
        ...

    def split(self, secret: bytes, threshold: int, count: int) -> list[bytes]:
        """Shares of a secret, numbered from 1, of which so many as the threshold make it."""
        ...

    def joined(self, shares: Sequence[tuple[int, bytes]]) -> bytes:
        """The secret of numbered shares."""
        ...


class Compact:
    """Short messages: keys of 32 bytes, shares of 16, a tag of 16 for a letter."""

    share_bytes = SECRET

    def public(self, seed: bytes) -> bytes:
        """As `Primitives.public`."""
        raw: bytes = _key_of(seed).public_key().public_bytes_raw()
        return raw

    def agreed(self, seed: bytes, public: bytes, purpose: bytes) -> bytes:
        """As `Primitives.agreed`."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return derived(_key_of(seed).exchange(X25519PublicKey.from_public_bytes(public)), purpose)

    def seal(self, key: bytes, text: bytes) -> bytes:
        """As `Primitives.seal`."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(key).encrypt(bytes(12), text, None)

    def open(self, key: bytes, letter: bytes) -> bytes:
        """As `Primitives.open`."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(key).decrypt(bytes(12), letter, None)

    def split(self, secret: bytes, threshold: int, count: int) -> list[bytes]:
        """As `Primitives.split`."""
        from Crypto.Protocol.SecretSharing import Shamir

        return [bytes(share) for _, share in Shamir.split(threshold, count, secret, False)]

    def joined(self, shares: Sequence[tuple[int, bytes]]) -> bytes:
        """As `Primitives.joined`."""
        from Crypto.Protocol.SecretSharing import Shamir

        secret: bytes = Shamir.combine(list(shares), False)
        return secret


COMPACT = Compact()


def derived(secret: bytes, purpose: bytes, length: int = 32) -> bytes:
    """So many bytes (HKDF, SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(secret)


def stream(seed: bytes, like: Array) -> Array:
    """Numbers that nobody tells from uniform ones without the seed (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = seed if len(seed) == 32 else derived(seed, b"own mask")
    numbers = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(like.nbytes))
    return np.frombuffer(numbers, like.dtype).copy()


def _key_of(seed: bytes) -> Any:
    """The private key that a seed stands for."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(derived(seed, b"key"))
