"""Settings for all tests: one BLAS thread, and property tests that do not depend on the speed of the machine."""

import os
import signal
import threading

from hypothesis import settings
from threadpoolctl import threadpool_limits

# The last digits of a sum depend on the number of threads.
threadpool_limits(1)

settings.register_profile("fgmp", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fgmp")


def pytest_configure() -> None:
    """Ctrl-C interrupts, although a shell that started pytest in the background has it ignored."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
