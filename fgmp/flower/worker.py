"""A SuperExec for a SuperNode that starts no interpreter for each message: it forks one that has everything imported.

Flower's deployment engine starts `flwr-clientapp` anew for every message, and that spends its time importing.
`fgmp.flower.node` starts this in the place of ``flower-superexec``, with the same arguments; so may whoever runs
``flower-supernode --isolation process``.

Each message still has a process of its own, which ends with it. It stands on modules inside of flwr 1.41, and needs a
system that forks.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

__all__ = ["Forking", "main"]


class Forking:
    """An executor of Flower's SuperExec that forks."""

    def get_eligible_capacity(self, supported_task_types: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        """Any task may start."""
        return supported_task_types, set()

    def wait_for_capacity(self, *_: Any, **__: Any) -> None:
        """There is no limit to wait for."""

    def launch(self, spec: Any) -> Any:
        """Run a ClientApp in a copy of this process."""
        from flwr.supercore.superexec.executor.types import LaunchResult

        if os.fork() == 0:
            os._exit(_answer(spec))
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Let go of the processes that have ended."""
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return

    def close(self) -> None:
        """Nothing is kept."""


def _answer(spec: Any) -> int:
    from flwr.supercore.tls import validate_and_resolve_root_certificates
    from flwr.supernode.runtime.run_clientapp import run_clientapp

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)
    try:
        run_clientapp(
            runtime_api_address=spec.runtime_api_address,
            token=spec.token,
            insecure=spec.insecure,
            certificates=validate_and_resolve_root_certificates(spec.root_certificates_path, spec.insecure),
            parent_pid=os.getppid(),
            runtime_dependency_install=False,
        )
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        print(f"fgmp.flower.worker: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def main() -> None:
    """Run a SuperExec with `Forking` in place of its own executor, looking for messages 20 times a second."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "0.05")
    import flwr.supernode.runtime.run_clientapp  # noqa: F401  what each message needs, imported once
    from flwr.supercore.cli.flower_superexec import flower_superexec
    from flwr.supercore.superexec import run_superexec

    import fgmp.flower.client
    import fgmp.flower.serving  # noqa: F401

    run_superexec.get_executor = lambda *_, **__: Forking()
    flower_superexec()


if __name__ == "__main__":
    main()
