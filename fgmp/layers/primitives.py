"""The cryptography of secure sums: keys, letters, shares and masks, all of `cryptography` and `pycryptodome`.

Keys are X25519, letters ChaCha20-Poly1305, secrets are split by Shamir's scheme, masks are the stream of ChaCha20. A
seed of `SECRET` bytes stands for a private key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..models import Array

SECRET = 16  # bytes: Shamir's scheme in GF(2^128)


def public_key(seed: bytes) -> bytes:
    """The public key, 32 bytes."""
    raw: bytes = _key_of(seed).public_key().public_bytes_raw()
    return raw


def agreed(seed: bytes, public: bytes, purpose: bytes) -> bytes:
    """The 32 bytes that two clients derive alike from one seed and the other public key, for one purpose.

    A ValueError where that is no key.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return _derived(_key_of(seed).exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def sealed(key: bytes, text: bytes) -> bytes:
    """A letter that only the two who share the key can read, 16 bytes longer; each key seals one letter."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), text, None)


def opened(key: bytes, letter: bytes) -> bytes:
    """The text of a letter."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).decrypt(bytes(12), letter, None)


def shared(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares of a secret, numbered from 1, of which so many as the threshold make it; 16 bytes each."""
    from Crypto.Protocol.SecretSharing import Shamir

    return [bytes(share) for _, share in Shamir.split(threshold, count, secret, False)]


def joined(shares: Sequence[tuple[int, bytes]]) -> bytes:
    """The secret of numbered shares."""
    from Crypto.Protocol.SecretSharing import Shamir

    secret: bytes = Shamir.combine(list(shares), False)
    return secret


def stream(seed: bytes, like: Array) -> Array:
    """Numbers that nobody tells from uniform ones without the seed (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    key = seed if len(seed) == 32 else _derived(seed, b"own mask")
    numbers = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(like.nbytes))
    return np.frombuffer(numbers, like.dtype).copy()


def _derived(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes (HKDF, SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _key_of(seed: bytes) -> Any:
    """The private key that a seed stands for."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_derived(seed, b"key"))
