"""Flower's own primitives of secure aggregation, for the secure sums that travel over it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from ..running.primitives import derived

__all__ = ["FLOWER"]


class FlowerPrimitives:
    """Keys on the curve P-384, letters of Fernet, and shares of Shamir's scheme, as Flower's SecAgg+ has them.

    See `fgmp.running.primitives.Primitives`. What is shared is the seed of a key, not its 306 bytes. Masks are no part
    of it: Flower's `pseudo_rand_gen` draws them from a generator whose seed has 32 bits, so that all can be tried.
    """

    share_bytes = 36  # its number, and a secret of 16 bytes padded to 32

    def public(self, seed: bytes) -> bytes:
        """As `Primitives.public`; PEM, 215 bytes."""
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        encoded: bytes = public_key_to_bytes(_key_of(seed).public_key())
        return encoded

    def is_public(self, public: bytes) -> bool:
        """Whether these bytes are a public key."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from flwr.supercore.primitives.asymmetric import bytes_to_public_key

        try:
            key = bytes_to_public_key(public)
        except Exception:  # whatever a parser says of what a stranger sends
            return False
        return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP384R1)

    def agreed(self, seed: bytes, public: bytes, purpose: bytes) -> bytes:
        """As `Primitives.agreed`."""
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
        from flwr.supercore.primitives.asymmetric import bytes_to_public_key

        return derived(urlsafe_b64decode(generate_shared_key(_key_of(seed), bytes_to_public_key(public))), purpose)

    def seal(self, key: bytes, text: bytes) -> bytes:
        """As `Primitives.seal`."""
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import encrypt

        letter: bytes = encrypt(urlsafe_b64encode(key), text)
        return letter

    def open(self, key: bytes, letter: bytes) -> bytes:
        """As `Primitives.open`."""
        from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt

        text: bytes = decrypt(urlsafe_b64encode(key), letter)
        return text

    def split(self, secret: bytes, threshold: int, count: int) -> list[bytes]:
        """As `Primitives.split`."""
        from flwr.common.secure_aggregation.crypto.shamir import create_shares

        return list(create_shares(secret, threshold, count))

    def joined(self, shares: Sequence[tuple[int, bytes]]) -> bytes:
        """As `Primitives.joined`; the number of a share is in it too."""
        from flwr.common.secure_aggregation.crypto.shamir import combine_shares

        secret: bytes = combine_shares([share for _, share in shares])
        return secret


FLOWER = FlowerPrimitives()


def _key_of(seed: bytes) -> Any:
    """The private key that a seed stands for: 47 bytes are a number below the order of the curve."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(int.from_bytes(derived(seed, b"key", 47), "big"), ec.SECP384R1())
