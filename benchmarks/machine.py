"""What a measurement depends on: the processor, the versions, the threads. Nothing names the machine or its owner."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _field(path: str, name: str) -> str:
    """The first `name : value` of a file of /proc; empty where there is none."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def available_gigabytes() -> float:
    """Memory that could be used now; 0 where the system does not say."""
    kilobytes = _field("/proc/meminfo", "MemAvailable").split()
    return int(kilobytes[0]) / 1e6 if kilobytes else 0.0


def peak_memory() -> int:
    """The most bytes that this process has held in memory so far."""
    kilobytes = _field("/proc/self/status", "VmHWM").split()
    if kilobytes:
        return 1024 * int(kilobytes[0])
    # Where there is no /proc; in a child this counts its parent before the start, too.
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else 1024 * peak


def blas_threads() -> int:
    """The largest number of threads that a BLAS or OpenMP library of this process would use."""
    return max((pool["num_threads"] for pool in threadpool_info()), default=1)


def one_thread() -> None:
    """One BLAS thread, whatever the environment says; and memory as in a process that has worked for a while.

    Once a block of 24 MB was freed, malloc keeps smaller ones: before, each large temporary of a contestant is mapped
    anew, which took the textbook four times as long at n = 10,000.
    """
    np.ones(3_000_000)
    threadpool_limits(1)
    if blas_threads() != 1:
        raise RuntimeError("the BLAS library keeps more than one thread; set OMP_NUM_THREADS=1")


@contextmanager
def loop_threads(count: int) -> Iterator[None]:
    """So many threads for the compiled loops, where there are any."""
    try:
        from numba import config
    except ImportError:
        yield
        return
    before, config.NUMBA_NUM_THREADS = (
        config.NUMBA_NUM_THREADS,
        min(count, config.NUMBA_NUM_THREADS),
    )
    try:
        yield
    finally:
        config.NUMBA_NUM_THREADS = before


def describe() -> dict[str, Any]:
    """Processor, cores, memory, and the versions that matter."""
    pools = {
        f"{pool['internal_api']} {pool['version']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return {
        "processor": _field("/proc/cpuinfo", "model name")
        or platform.processor()
        or platform.machine(),
        "cores": cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "scipy": metadata.version("scipy"),
        "BLAS": ", ".join(sorted(pools)),
        "BLAS threads": blas_threads(),
    }


def load() -> float:
    """Average number of running processes over the last minute; above the number of cores, timings are worth little."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
