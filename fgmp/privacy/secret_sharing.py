"""Shamir's secret sharing, for many secrets at once.

A secret of 16 bytes is eight numbers modulo the prime 65521. Each is the value at zero of a
polynomial whose other coefficients are random; the share of holder x is the value at x (A. Shamir,
How to share a secret, Communications of the ACM 22, 1979). As many shares as the polynomial has
coefficients determine it, and fewer tell nothing: they are uniform, whatever the secret is.

The polynomials of all secrets of a client are one product of matrices, so that shares for a hundred
holders take less than a millisecond. The numbers come from the operating system.
"""

import secrets
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..sparse_model import Array

SECRET = 16  # bytes of a secret, and of a share
PRIME = 65521  # the largest below 2^16: a number modulo it has two bytes
_ELEMENT = np.dtype("<u2")
_N_ELEMENTS = SECRET // _ELEMENT.itemsize


def random_secrets(count: int) -> list[bytes]:
    """Return secrets of 16 bytes, uniform among 65521^8, which are 2^127.997."""
    return [secret.tobytes() for secret in _random_elements((count, _N_ELEMENTS))]


def split_secrets(texts: Sequence[bytes], n_holders: int, threshold: int) -> list[bytes]:
    """Return the shares of each holder, one after another for all secrets.

    Parameters
    ----------
    texts : sequence of bytes
        The secrets, as `random_secrets` makes them.
    n_holders : int
        Holders have the numbers 1, 2, ...
    threshold : int
        How many shares determine a secret, from 1 to `n_holders`.

    Returns
    -------
    list of bytes
        One for each holder: 16 bytes for each secret, in their order.
    """
    if not 1 <= threshold <= n_holders < PRIME:
        raise ValueError(f"threshold is {threshold} of {n_holders}; expected from 1 to the latter")
    constants = _elements(b"".join(texts)).reshape(1, -1)
    random = _random_elements((threshold - 1, constants.shape[1]))
    coefficients = np.concatenate([constants, random]).astype(np.float64)
    # Exact: sums of at most 2^16 products of numbers below 2^16 are below 2^53.
    values = (_powers(n_holders, threshold) @ coefficients).astype(np.int64) % PRIME
    return [row.tobytes() for row in values.astype(_ELEMENT)]


def combine_shares(numbers: Sequence[int], shares: Sequence[bytes]) -> bytes:
    """Return the secrets that shares were split from.

    Parameters
    ----------
    numbers : sequence of int
        The numbers of the holders, as many as the threshold, and distinct.
    shares : sequence of bytes
        The share of each, of one secret or of several one after another.
    """
    values = _elements(b"".join(shares)).reshape(len(shares), -1).astype(np.int64)
    combined = _weights_at_zero(tuple(numbers)) @ values % PRIME
    return combined.astype(_ELEMENT).tobytes()


def _elements(text: bytes) -> Array:
    return np.frombuffer(text, _ELEMENT)


def _random_elements(shape: tuple[int, int]) -> Array:
    """Return uniform numbers modulo the prime: those that are not below it are drawn again."""
    numbers = np.frombuffer(secrets.token_bytes(shape[0] * shape[1] * 2), _ELEMENT).copy()
    while True:
        too_large = np.flatnonzero(numbers >= PRIME)
        if not too_large.size:
            return numbers.reshape(shape)
        numbers[too_large] = np.frombuffer(secrets.token_bytes(2 * too_large.size), _ELEMENT)


@lru_cache(maxsize=16)
def _powers(n_holders: int, threshold: int) -> Array:
    """Return x^d modulo the prime, shape (n_holders, threshold), for x = 1, 2, ..."""
    powers = np.ones((n_holders, threshold), np.int64)
    numbers = np.arange(1, n_holders + 1)
    for degree in range(1, threshold):
        powers[:, degree] = powers[:, degree - 1] * numbers % PRIME
    return powers.astype(np.float64)


@lru_cache(maxsize=4096)
def _weights_at_zero(numbers: tuple[int, ...]) -> Array:
    """Return Lagrange's weights: with these the values at `numbers` add up to the one at zero."""
    x = np.array(numbers, np.int64)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"numbers is {numbers}; expected distinct holders")
    numerators = np.ones_like(x)
    denominators = np.ones_like(x)
    for other in numbers:
        is_other = x != other
        numerators = np.where(is_other, numerators * other, numerators) % PRIME
        denominators = np.where(is_other, denominators * (other - x), denominators) % PRIME
    inverses = np.array([pow(int(number), -1, PRIME) for number in denominators], np.int64)
    return numerators * inverses % PRIME
