"""Shake the last bit of all data that a notebook reads or draws: what last bits decide is then printed otherwise.

`kernels.py shaken-1` lets every kernel run this file at its start; FGMP_SHAKEN is the seed. The same features are
always shaken in the same way, so what is compared inside of one notebook stays comparable.
"""

import os
import zlib
from typing import Any

import numpy as np

from fgmp import Federation

SEED = int(os.environ["FGMP_SHAKEN"])
AS_GIVEN = Federation.from_arrays.__func__  # type: ignore[attr-defined]


def shaken(features: Any) -> Any:
    """Each entry up or down by its last bit, or as it is."""
    if not isinstance(features, np.ndarray) or features.dtype.kind != "f":
        return features
    rng = np.random.default_rng((SEED, zlib.crc32(np.ascontiguousarray(features))))
    steps = rng.integers(-1, 2, features.shape) * np.finfo(features.dtype).eps
    return (features * (1 + steps)).astype(features.dtype)


def from_arrays(cls: type[Federation], As: Any, *given: Any, **named: Any) -> Federation:
    """`Federation.from_arrays` of shaken features."""
    As = shaken(As) if isinstance(As, np.ndarray) else [shaken(features) for features in As]
    made: Federation = AS_GIVEN(cls, As, *given, **named)
    return made


Federation.from_arrays = classmethod(from_arrays)  # type: ignore[method-assign, assignment]
