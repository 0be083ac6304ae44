"""A SuperNode that answers at once: ``flower-supernode`` with the same arguments, and without its two long waits.

    python -m fgmp.flower.node --superlink 127.0.0.1:8443 --root-certificates ca.crt ...

Flower's own looks for messages every three seconds, and starts an interpreter for each, which takes seconds to import.
This one looks every quarter of a second, and has `fgmp.flower.worker` beside it, which forks. Both end together. It
stands on modules inside of flwr 1.41; where these change, `flower-supernode` does the same, slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["Brisk", "main"]

_LONGEST = 0.25


class Brisk:
    """The module `time` for a loop that sleeps too long."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def sleep(seconds: float) -> None:
        """Sleep, but no longer than a quarter of a second."""
        time.sleep(min(seconds, _LONGEST))


class _Starting:
    """The module `subprocess` for a SuperNode that starts its SuperExec: the one that forks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    @staticmethod
    def Popen(command: Sequence[str], **options: Any) -> Any:  # noqa: N802
        """Start what was asked for, with `fgmp.flower.worker` in the place of ``flower-superexec``."""
        if command[0] == "flower-superexec":
            command = [sys.executable, "-m", "fgmp.flower.worker", *command[1:]]
        return subprocess.Popen(command, **options)


def main() -> None:
    """Run ``flower-supernode``."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    for name, module in (("time", Brisk()), ("subprocess", _Starting())):
        if not hasattr(start_client_internal, name):
            raise ImportError("fgmp.flower.node needs flwr 1.41; expected that, or use flower-supernode")
        setattr(start_client_internal, name, module)
    flower_supernode()


if __name__ == "__main__":
    main()
