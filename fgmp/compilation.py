"""Numba, where it is installed and wanted: what asks for it, and how functions are compiled.

Importing Numba takes about half a second, so a module with compiled loops is imported only where they serve.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, TypeVar

__all__ = ["jit", "jit_and_keep", "numba_serves"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be taken in any order; what is not a number stays what it is.
_ANY_ORDER = {"reassoc", "nsz", "contract"}


def numba_serves() -> bool:
    """Whether Numba is installed, and nobody asked for the printed forms (``FGMP_READABLE=1``)."""
    return os.environ.get("FGMP_READABLE") != "1" and _is_installed()


@lru_cache(maxsize=1)
def _is_installed() -> bool:
    return find_spec("numba") is not None


def jit(function: Function) -> Function:
    """A part of a loop, compiled with it; without Numba the function itself."""
    numba = _numba()
    made: Function = function if numba is None else numba.njit(fastmath=_ANY_ORDER)(function)
    return made


def jit_and_keep(function: Function) -> Function:
    """A loop, compiled when it is first called, and kept on disk; without Numba the function itself.

    It is kept beside the byte code of its file, or in the user's cache where that folder cannot be written.
    """
    numba = _numba()
    if numba is None:
        return function
    try:
        made: Function = numba.njit(cache=True, fastmath=_ANY_ORDER)(function)
    except RuntimeError:  # no folder that can be written: compiled anew in every process
        made = jit(function)
    return made


def _numba() -> Any:
    try:
        import numba
    except ImportError:
        return None
    return numba
