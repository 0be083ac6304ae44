"""The random numbers of the clients of a cohort: the streams of `client_generator`, made for all of them at once.

`numpy.random.SeedSequence` stirs the words of the seed and of the place (round, exchange, client) into four numbers.
All clients of a cohort share every word but the last, their key, so that NumPy stirs once, and what the key adds is
done here for all keys in a few array operations. NumPy promises never to change how it stirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence

from ..models import Array

__all__ = ["client_generators", "place_of"]

_WORD = 2**32
# The constants of O'Neill's seed_seq as NumPy has it: two rows of multipliers, and how two words are mixed.
_ENTERING, _ENTERING_STEP = 0x43B0D7E5, 0x931E8875
_LEAVING, _LEAVING_STEP = 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF = np.uint32(16)
_POOL = 4


def place_of(number: int, exchange: int, key: int) -> tuple[int, ...]:
    """The spawn key of a client's numbers in an exchange of a round."""
    return (1, number, exchange, key)


def client_generators(seed: int, number: int, exchange: int, keys: Sequence[int]) -> Iterator[Generator]:
    """A generator for each client's key, with the bits of ``default_rng(SeedSequence(seed, spawn_key=place))``.

    Parameters
    ----------
    seed, number, exchange : int
    keys : sequence of int
        Of the clients.
    """
    if len(keys) < 3 or max(keys) >= _WORD:  # too few to pay, or keys of several words
        for key in keys:
            yield Generator(PCG64(SeedSequence(seed, spawn_key=place_of(number, exchange, key))))
        return
    states = _states(seed, number, exchange, np.array(keys, np.uint32))
    for key, state in zip(keys, states, strict=True):
        known: Any = _Known(seed, place_of(number, exchange, key), state)
        yield Generator(PCG64(known))


def _states(seed: int, number: int, exchange: int, keys: Array) -> Array:
    """The four 64-bit words from which PCG64 starts, one row for each key."""
    words = _words(seed)
    words += [0] * (_POOL - len(words))
    for part in place_of(number, exchange, 0)[:-1]:
        words += _words(part)
    pool = SeedSequence(np.array(words, np.uint32)).pool
    before = _POOL * len(words)  # words that were hashed so far: each with each entry of the pool
    hashed = _hash(keys[:, None], _multipliers(_ENTERING, _ENTERING_STEP, before, _POOL))
    pools: Any = _LEFT * pool - _RIGHT * hashed
    pools ^= pools >> _HALF
    state = _hash(np.tile(pools, 2), _multipliers(_LEAVING, _LEAVING_STEP, 0, 2 * _POOL))
    return state.astype("<u4").view("<u8").astype(np.uint64)


def _words(value: int) -> list[int]:
    """A number as 32-bit words, the lowest first; zero is one word."""
    words = [value % _WORD]
    while value := value // _WORD:
        words.append(value % _WORD)
    return words


def _multipliers(first: int, step: int, skipped: int, count: int) -> Array:
    """`count` + 1 numbers of a row first, first x step, .. (modulo 2^32), after so many that are skipped."""
    return np.array([first * pow(step, skipped + i, _WORD) % _WORD for i in range(count + 1)], np.uint32)


def _hash(values: Array, multipliers: Array) -> Array:
    """Each column of values hashed with its place in the row of multipliers."""
    hashed: Array = (values ^ multipliers[:-1]) * multipliers[1:]
    hashed ^= hashed >> _HALF
    return hashed


class _Known(ISpawnableSeedSequence):
    """A seed sequence whose first four words are known; for anything else NumPy's own is asked."""

    def __init__(self, seed: int, place: tuple[int, ...], state: Array) -> None:
        self.seed, self.place, self.state = seed, place, state
        self.own: SeedSequence | None = None

    def _sequence(self) -> SeedSequence:
        self.own = self.own or SeedSequence(self.seed, spawn_key=self.place)
        return self.own

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Array:
        if n_words == len(self.state) and dtype is np.uint64:
            return self.state
        return self._sequence().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._sequence().spawn(n_children)
