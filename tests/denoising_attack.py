"""An attack on the noise: a client tries all that it sees, and can guess, as the seed of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fgmp.run.serialization import to_wire

GUESSES = range(100)


def seeds_in(*objects):
    """Return all integers, byte strings and 32 bytes in a row that objects are made of."""
    found = set(GUESSES)
    visited = set()
    pending = list(objects)
    while pending:
        current = pending.pop()
        if isinstance(current, (bool, float)) or current is None or id(current) in visited:
            continue
        if isinstance(current, (int, np.integer)):
            found.add(int(current))
        elif isinstance(current, bytes):
            found.add(current)
            found.update(current[i : i + 32] for i in range(len(current) - 31))
        else:
            pending += _parts_of(current, visited)
    return found


def _parts_of(current, visited):
    """Return what an object is made of."""
    if isinstance(current, str):
        return [current.encode(), *([int(current)] if current.isdecimal() else [])]
    if isinstance(current, np.ndarray):
        entries = current.ravel().tolist() if current.dtype.kind in "iu" else ()
        return [current.tobytes(), *entries]
    if isinstance(current, np.random.Generator):
        bits = current.bit_generator
        return [bits.state, getattr(bits.seed_seq, "entropy", None)]
    if isinstance(current, (list, tuple, set)):
        return list(current)
    visited.add(id(current))
    members = current if isinstance(current, Mapping) else getattr(current, "__dict__", {})
    return [*members.keys(), *members.values()]


def secrets_from(candidate):
    """Return the secrets of noise that a candidate may stand for."""
    if isinstance(candidate, bytes):
        return [candidate, hashlib.sha256(candidate).digest()]
    magnitude = abs(candidate)
    secrets = [hashlib.sha256(f"rehearsal {magnitude}".encode()).digest()]
    if magnitude < 2**256:
        secrets += [magnitude.to_bytes(32, order) for order in ("big", "little")]
    return secrets


def removes_noise(noise, private, n_members, message, candidates):
    """Return whether one of the candidates gives the noise of the first exchange of a run."""
    scale = private.multiplier * 2 * private.noise.clips[0] / n_members
    context = b"".join(array.tobytes() for array in to_wire(message).values())
    context += np.ones(n_members, bool).tobytes()
    for candidate in candidates:
        for secret in secrets_from(candidate):
            mechanism = replace(private, key=secret).privacy
            tried = mechanism.noise_on_sum(len(noise), n_members, 1, 0, context)
            if np.allclose(noise, tried, rtol=0, atol=1e-9 * scale):
                return True
    return False
