"""One notebook, executed in a kernel of its own; used for a sweep, and by the tool that executes all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["execute"]

# Kernels that start at the same moment may be given the same port; the one that finds it taken dies at once.
_STARTS, _NOT_UP = 3, "Kernel died before replying"


def execute(
    notebook: Any, output: Path, parameters: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> str:
    """Execute a notebook with papermill; what has been computed is in the file, but for about a second of it.

    A kernel that dies before it is up is started again, twice at most.

    Parameters
    ----------
    notebook : NotebookNode
    output : Path
        The file of the executed notebook, or of its part before the error.
    parameters : mapping of str to value
        What the notebook has to have is for the caller to check.
    folder : Path
        Where the kernel runs.
    environment : mapping of str to str
        Variables of the kernel, beside those of this process. Nothing of this process changes, so that several threads
        may execute notebooks.

    Returns
    -------
    str
        What stopped the notebook, in one line; empty if it ran through.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, after the kernel was ended.
    """
    from papermill.exceptions import PapermillExecutionError

    variables = {**os.environ, **environment}
    if "FGMP_DATA" in variables:  # the kernel runs in another folder
        variables["FGMP_DATA"] = os.path.abspath(variables["FGMP_DATA"])
    for left in reversed(range(_STARTS)):
        try:
            _in_a_thread(notebook, output.resolve(), parameters, folder.resolve(), variables)
            break
        except PapermillExecutionError as error:
            first = error.source.strip().partition("\n")[0]
            message = " ".join(f"{error.ename}: {error.evalue}".split())
            return f"In [{error.exec_count}], which starts {first!r}: {message}"
        except Exception as error:  # a kernel that died or never came up must not stop other notebooks
            if not (left and _NOT_UP in str(error)):
                return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def _in_a_thread(
    notebook: Any, output: Path, parameters: Mapping[str, Any], folder: Path, variables: dict[str, str]
) -> None:
    """Execute in a thread, for in the main thread nbclient takes Ctrl-C for itself and goes on."""
    import papermill
    from jupyter_client.manager import AsyncKernelManager
    from papermill.engines import NBClientEngine, papermill_engines
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    managers, interrupted = [], threading.Event()

    class Engine(NBClientEngine):  # type: ignore[misc]
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, *arguments: Any, **options: Any) -> None:
            nb_man.save = _Seldom(nb_man.save)
            try:
                super().execute_managed_notebook(nb_man, *arguments, **options)
            finally:
                del nb_man.save  # what papermill does at the end

    class Manager(AsyncKernelManager):  # type: ignore[misc]
        async def start_kernel(self, **options: Any) -> None:
            await super().start_kernel(**(options | {"env": variables, "cwd": str(folder)}))
            managers.append(self)
            if interrupted.is_set():
                await self.signal_kernel(signal.SIGKILL)

    ready = load_notebook_node(notebook)
    if parameters:  # papermill would warn of parameters that it cannot find, though they are there
        ready = parameterize_notebook(ready, dict(parameters), kernel_name="python3", language="python")
    options = {
        "engine_name": "fgmp",
        "kernel_name": "python3",
        "progress_bar": False,
        "kernel_manager_class": Manager,
        "extra_arguments": ["--log-level=CRITICAL"],  # or kernels talk about their sockets and their end
    }
    papermill_engines.register("fgmp", Engine)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(papermill.execute_notebook, ready, output, **options)
        try:
            future.result()
        except KeyboardInterrupt:
            interrupted.set()
            for manager in managers:
                asyncio.run(manager.signal_kernel(signal.SIGKILL))
            raise


class _Seldom:
    """Saves a notebook in a twentieth of the time: papermill would write all of it twice for every cell."""

    def __init__(self, save: Callable[..., None]) -> None:
        self.save, self.due = save, 0.0

    def __call__(self, **options: Any) -> None:
        began = time.monotonic()
        if began >= self.due:
            self.save(**options)
            ended = time.monotonic()
            self.due = ended + 20 * (ended - began)
