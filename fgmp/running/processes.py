"""Worker processes and their folder, of which nothing stays once whoever started them is gone.

A worker looks once a second whether its parent still lives. The folder of a run holds a file that its owner keeps
locked: where the lock is free the owner is dead, and workers, or the next run to start, remove the folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # no locks of this kind: then leftovers stay
    fcntl = None  # type: ignore[assignment]

__all__ = ["remove_leftovers", "shared_folder", "worker_pool"]

_PREFIX, _LOCK = "fgmp-", "fgmp.lock"
_PAUSE = 1.0


def worker_pool(count: int, **options: Any) -> Any:
    """A `joblib.Parallel` of `count` processes that end with this one, on whatever backend is active.

    Where joblib starts no processes (``JOBLIB_MULTIPROCESSING=0``, or a system without semaphores), all is done in this
    one.

    Parameters
    ----------
    count : int
    **options
        More options of `joblib.Parallel`.
    """
    from joblib import Parallel
    from joblib.parallel import BACKENDS, get_active_backend

    plain: Any = BACKENDS.get("loky")
    active = get_active_backend()[0]
    if type(active) is not plain:
        return Parallel(n_jobs=count, **options)

    class Watched(plain):  # type: ignore[misc]
        """Processes that watch their parent."""

        def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> Any:
            settings |= {"initializer": watch_parent, "initargs": (os.getpid(),)}
            return super().configure(n_jobs, parallel, **settings)

    watched = Watched(nesting_level=active.nesting_level, inner_max_num_threads=active.inner_max_num_threads)
    return Parallel(n_jobs=count, backend=watched, **options)


def watch_parent(parent: int) -> None:
    """End this process, and remove what the parent left, once it is dead.

    Its memory is not watched: joblib counts mapped files as leaks, and would replace a worker again and again that
    reads more than 300 MB of them.
    """
    with suppress(Exception):
        from joblib.externals.loky import process_executor

        process_executor._MAX_MEMORY_LEAK_SIZE = float("inf")

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        with suppress(Exception):
            remove_leftovers()
        os._exit(1)

    threading.Thread(target=watch, name="fgmp-watch", daemon=True).start()


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A temporary folder for this process and its workers, removed at the end, or by whoever finds its owner dead."""
    remove_leftovers()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_leftovers() -> None:
    """Remove the folders of dead runs."""
    if fcntl is None:
        return
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):
            lock = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """A new folder, and the open file that says that its owner lives."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT)
        if fcntl is None:
            return folder, lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody takes the folder, not yet locked, for a leftover
            os.close(lock)
            continue
        except OSError:  # a file system without locks, where nobody removes anything
            return folder, lock
        if (folder / _LOCK).exists():
            return folder, lock
        os.close(lock)
