"""Compile a loop with Numba, and keep it on disk where there is a folder for it."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numba
import numpy as np

from .._support.warnings import warn_user

# Whoever sits at a terminal is told why nothing happens after as many seconds of compilation.
_LONG = 2.0


class CompiledLoop:
    """A loop over clients that runs without the GIL, and is kept on disk if a folder allows it.

    The disk only saves time. The files of Numba's cache may be damaged, or cannot be written: then
    the process compiles for itself, and says so once for each folder.

    Parameters
    ----------
    function : callable
        The loop, in the part of Python that Numba compiles. It returns nothing.
    """

    _lost_folders: ClassVar[set[str]] = set()

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self._compiled_types: set[Any] = set()
        self._lock = threading.Lock()
        try:
            self.compiled = numba.njit(function, nogil=True, cache=True)
        except RuntimeError:  # Numba found no folder for its cache, and could make none
            self.compiled = numba.njit(function, nogil=True)

    def compiled_for(self, *arguments: Any) -> Callable[..., None]:
        """Return the loop compiled, or loaded, for arguments of these types."""
        types = _types_of(arguments)
        if types not in self._compiled_types:
            with self._lock:
                # NUMBA_DISABLE_JIT leaves the function itself.
                if hasattr(self.compiled, "compile"):
                    with _notice_after_a_while():
                        self._compile(tuple(map(numba.typeof, arguments)))
            self._compiled_types.add(types)
        return self.compiled

    def _compile(self, signature: tuple[Any, ...]) -> None:
        try:
            self.compiled.compile(signature)
        except Exception as error:  # a damaged file may raise anything
            if signature in self.compiled.overloads:  # it is compiled, and only could not be kept
                self._warn_of_lost_cache(error)
                return

            # Without a cache this raises again what is wrong with the loop itself.
            was_cached = self.compiled.stats.cache_path is not None
            uncached = numba.njit(self.function, nogil=True)
            uncached.compile(signature)
            if was_cached:
                self._warn_of_lost_cache(error)
            self.compiled = uncached

    def _warn_of_lost_cache(self, error: Exception) -> None:
        folder = str(self.compiled.stats.cache_path)
        if folder in self._lost_folders:
            return
        self._lost_folders.add(folder)
        module = self.function.__module__.rpartition(".")[2]
        name = self.function.__qualname__.replace("<", "").replace(">", "")
        files = os.path.join(folder, f"{module}.{name}-*")
        warn_user(
            f"Numba's cache {files} cannot be used ({type(error).__name__}: {error}); the run goes "
            "on, and each process compiles for itself. What helps: delete these files, make room "
            "on their disk, or name another folder in NUMBA_CACHE_DIR",
            of_machine=True,
        )


def _types_of(argument: Any) -> Any:
    """Return what decides the compiled type of an argument, faster than Numba can say it."""
    if isinstance(argument, tuple):
        return tuple(map(_types_of, argument))
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    return type(argument)


@contextmanager
def _notice_after_a_while() -> Iterator[None]:
    """Print one line to a terminal if the block takes long."""

    def notice() -> None:
        print(
            "fgmp: compiling its loops, which takes some seconds, once on this machine",
            file=sys.stderr,
        )

    timer = threading.Timer(_LONG, notice)
    timer.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
